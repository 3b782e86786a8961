//! Bytes of pages, as the simulated flash keeps them: each version of a metadata page once.
//!
//! A map on flash writes a page of a thousand entries to change one of them. Kept as they are programmed, that is a copy
//! of the page and an allocation per write, and most of what a replay does. So the newest version takes over the bytes
//! of the one it was made from, which keeps only the words that were overwritten, and a copy made by GC shares the bytes
//! of its source. Price: an older version that is read is put together from the newer one, and every page takes room for
//! its spare area, used or not. The first words of the spare area, where a map notes a number with every version, are
//! kept with what is known of the version: there they cost no cache line of their own.
//!
//! Invariants: what a page reads is what was programmed there, whatever became of other pages; a slot lives as long as a
//! page or an older version refers to it.

use arrayvec::ArrayVec;

use super::frames::{Frame, Frames};
use super::{Geometry, Word};
use crate::address::{BlockId, Ppn};
use crate::tables::Table;
use crate::tables::prefetch::{MOST_PAGES, TOGETHER, touch_all};

type Slot = u32;

/// Marks a page without bytes, and a block without a row.
const NONE: u32 = 0;

/// Words at the beginning of the spare area that each version keeps for itself.
const HEAD_WORDS: usize = 2;

#[derive(Clone, Copy, Debug)]
struct Version {
    /// The bytes, where this is the newest version.
    frame: Frame,
    /// The version that took over the bytes; [`NONE`] for the newest.
    newer: Slot,
    /// List of what stood where the newer version has other words; [`NONE`] for the newest.
    words: u32,
    /// Pages with this content, and older versions made from it.
    users: u32,
    /// The first words of its spare area, in place of those in the frame.
    head: [u32; HEAD_WORDS],
}

impl Version {
    fn newest(frame: Frame, users: u32, head: [u32; HEAD_WORDS]) -> Self {
        Self { frame, newer: NONE, words: NONE, users, head }
    }
}

/// Bytes by page. See the module's head.
#[derive(Clone, Debug)]
pub(super) struct Payloads {
    block_pages: u32,
    /// Words of a page without its spare area.
    page_words: u32,
    /// Row of each block that has pages with bytes.
    row_of: Table<u32>,
    /// Slots of the pages of a block, row after row; the first row is no block's.
    rows: Vec<Slot>,
    free_rows: Vec<u32>,
    /// Slot 0 is no version.
    versions: Vec<Version>,
    free_slots: Vec<Slot>,
    /// Lists of words, one for each older version; those that are not used are empty, and list 0 is no version's.
    lists: Vec<Vec<Word>>,
    free_lists: Vec<u32>,
    /// Page and spare area, zeros where nothing was programmed.
    frames: Frames,
}

impl Payloads {
    pub(super) fn new(geometry: &Geometry) -> Self {
        let block_pages = geometry.block_pages();
        Self {
            block_pages,
            page_words: geometry.page_bytes / size_of::<u32>() as u32,
            row_of: Table::zeroed(geometry.blocks() as usize),
            rows: vec![NONE; block_pages as usize],
            free_rows: Vec::new(),
            versions: vec![Version::newest(0, 0, [0; HEAD_WORDS])],
            free_slots: Vec::new(),
            lists: vec![Vec::new()],
            free_lists: Vec::new(),
            frames: Frames::new((geometry.page_bytes + geometry.spare_bytes) as usize),
        }
    }

    /// Whether the page has bytes.
    pub(super) fn has(&self, page: Place) -> bool {
        self.slot(page) != NONE
    }

    /// The page was programmed with `bytes`.
    pub(super) fn put(&mut self, page: Place, bytes: &[u8]) {
        let frame = self.frames.take();
        copy_padded(bytes, self.frames.get_mut(frame));
        let head = self.head_in(bytes);
        let slot = self.add(Version::newest(frame, 1, head));
        self.set(page, slot);
    }

    /// The page was programmed with what `from` holds, if that has bytes.
    pub(super) fn share(&mut self, page: Place, from: Place) {
        let slot = self.slot(from);
        if slot != NONE {
            self.version_mut(slot).users += 1;
            self.set(page, slot);
        }
    }

    /// The page was programmed with what `base` holds, but for `words`.
    #[inline]
    pub(super) fn put_changed(&mut self, page: Place, base: Place, words: &[Word]) {
        let old = self.slot(base);
        assert!(old != NONE, "the bytes of page {} were given up", base.ppn);
        let Version { frame, newer, mut head, .. } = *self.version(old);
        if newer != NONE {
            return self.put_apart(page, old, words);
        }
        let list = self.free_lists.pop().unwrap_or_else(|| self.new_list());
        let (bytes, replaced) = (self.frames.get_mut(frame), &mut self.lists[list as usize]);
        let mut words = words;
        // Words of the head come last: taken from there first, they cost no branch that is mispredicted.
        while let Some((word, others)) = words.split_last()
            && let Some(at) = place_in_head(word.index, self.page_words)
        {
            (head[at], words) = (word.value, others);
        }
        for &word in words {
            match place_in_head(word.index, self.page_words) {
                Some(at) => head[at] = word.value,
                None => replaced.push(word.exchange(bytes)),
            }
        }
        // Beside the page there is the older version.
        let new = self.add(Version::newest(frame, 2, head));
        let version = self.version_mut(old);
        (version.newer, version.words) = (new, list);
        self.set(page, new);
    }

    /// The same where the base is no newest version: the bytes are put together and kept apart.
    #[cold]
    fn put_apart(&mut self, page: Place, base: Slot, words: &[Word]) {
        let frame = self.frames.take();
        let mut bytes = vec![0; self.frames.get(frame).len()];
        self.copy_to(base, &mut bytes);
        for word in words {
            word.exchange(&mut bytes);
        }
        self.frames.get_mut(frame).copy_from_slice(&bytes);
        let head = self.head_in(&bytes);
        let slot = self.add(Version::newest(frame, 1, head));
        self.set(page, slot);
    }

    /// Copies the bytes of a page, with zeros behind what was programmed; `false` if it has none.
    pub(super) fn read(&self, page: Place, into: &mut [u8]) -> bool {
        let slot = self.slot(page);
        if slot != NONE {
            self.copy_to(slot, into);
        }
        slot != NONE
    }

    /// Shows a page, without its spare area; `false` if it has no bytes.
    pub(super) fn look_at(&self, page: Place, scratch: &mut [u8], look: &mut dyn FnMut(&[u8])) -> bool {
        let slot = self.slot(page);
        match self.newest_bytes(slot) {
            Some(bytes) => look(&bytes[..self.page_words as usize * size_of::<u32>()]),
            None if slot == NONE => return false,
            None => {
                self.copy_to(slot, scratch);
                look(scratch);
            }
        }
        true
    }

    /// Reads words of a page; `false` if it has no bytes.
    #[inline]
    pub(super) fn read_words(&self, page: Place, words: &mut [Word]) -> bool {
        let slot = self.slot(page);
        if slot == NONE {
            return false;
        }
        let newest = self.newest_bytes(slot);
        for word in words {
            word.value = match newest {
                Some(bytes) if word.index < self.page_words => Word::of(bytes, word.index).value,
                _ => self.word(slot, word.index),
            };
        }
        true
    }

    /// Fills in words of several pages, none of a spare area, as many of each as is said, table after table (see
    /// [`crate::tables::prefetch`]); those of pages without bytes stay.
    pub(super) fn peek_words(&self, pages: &[(Place, usize)], words: &mut [Word]) {
        let slots: ArrayVec<Slot, MOST_PAGES> = pages.iter().map(|&(page, _)| self.slot(page)).collect();
        let newest: ArrayVec<_, MOST_PAGES> = slots.iter().map(|&slot| self.newest_bytes(slot)).collect();
        let mut rest = words.iter_mut();
        for ((&slot, bytes), &(_, count)) in slots.iter().zip(newest).zip(pages) {
            let words = rest.by_ref().take(count);
            match bytes {
                Some(bytes) => words.for_each(|word| *word = Word::of(bytes, word.index)),
                None if slot == NONE => words.for_each(drop),
                None => words.for_each(|word| word.value = self.word(slot, word.index)),
            }
        }
    }

    /// The bytes of these pages will not be read again.
    pub(super) fn give_up(&mut self, pages: &[Place]) {
        for pages in pages.chunks(TOGETHER) {
            let slots: ArrayVec<Slot, TOGETHER> = pages.iter().map(|&page| self.slot(page)).collect();
            let newer: ArrayVec<Slot, TOGETHER> =
                slots.iter().map(|&slot| self.version(slot).newer).collect();
            touch_all(newer.iter().map(|&slot| self.version(slot).users.into()));
            for &page in pages {
                self.give_up_page(page);
            }
        }
    }

    fn give_up_page(&mut self, page: Place) {
        let row = self.row_of.get(page.block as usize);
        if row != NONE {
            self.empty(self.at(row, page.offset));
        }
    }

    /// The block was erased.
    pub(super) fn forget(&mut self, block: BlockId) {
        let row = self.row_of.get(block.index());
        if row == NONE {
            return;
        }
        for offset in 0..self.block_pages {
            self.empty(self.at(row, offset));
        }
        self.row_of.set(block.index(), NONE);
        self.free_rows.push(row);
    }

    fn empty(&mut self, at: usize) {
        let slot = std::mem::replace(&mut self.rows[at], NONE);
        self.release(slot);
    }

    #[inline]
    fn at(&self, row: u32, offset: u32) -> usize {
        row as usize * self.block_pages as usize + offset as usize
    }

    #[inline]
    fn slot(&self, page: Place) -> Slot {
        match self.row_of.get(page.block as usize) {
            NONE => NONE,
            row => self.rows[self.at(row, page.offset)],
        }
    }

    #[inline]
    fn set(&mut self, page: Place, slot: Slot) {
        let mut row = self.row_of.get(page.block as usize);
        if row == NONE {
            row = self.free_rows.pop().unwrap_or_else(|| self.new_row());
            self.row_of.set(page.block as usize, row);
        }
        let at = self.at(row, page.offset);
        self.rows[at] = slot;
    }

    #[cold]
    fn new_row(&mut self) -> u32 {
        let row = self.rows.len() / self.block_pages as usize;
        self.rows.resize(self.rows.len() + self.block_pages as usize, NONE);
        row as u32
    }

    #[cold]
    fn new_list(&mut self) -> u32 {
        self.lists.push(Vec::new());
        (self.lists.len() - 1) as u32
    }

    /// What stood in an older version where the newer one has other words.
    fn words(&self, version: &Version) -> &[Word] {
        &self.lists[version.words as usize]
    }

    #[inline]
    fn version(&self, slot: Slot) -> &Version {
        &self.versions[slot as usize]
    }

    #[inline]
    fn version_mut(&mut self, slot: Slot) -> &mut Version {
        &mut self.versions[slot as usize]
    }

    #[inline]
    fn add(&mut self, version: Version) -> Slot {
        if let Some(slot) = self.free_slots.pop() {
            self.versions[slot as usize] = version;
            return slot;
        }
        self.versions.push(version);
        (self.versions.len() - 1) as Slot
    }

    /// One user less; a version without users is dropped, and is one user less of the newer one.
    fn release(&mut self, mut slot: Slot) {
        while slot != NONE {
            let version = self.version_mut(slot);
            version.users -= 1;
            if version.users > 0 {
                return;
            }
            let newer = std::mem::replace(&mut version.newer, NONE);
            if newer == NONE {
                let frame = version.frame;
                self.frames.put_back(frame);
            } else {
                let list = std::mem::replace(&mut version.words, NONE);
                self.lists[list as usize].clear();
                self.free_lists.push(list);
            }
            self.free_slots.push(slot);
            slot = newer;
        }
    }

    fn copy_to(&self, slot: Slot, into: &mut [u8]) {
        let version = self.version(slot);
        if version.newer == NONE {
            copy_padded(self.frames.get(version.frame), into);
        } else {
            self.copy_to(version.newer, into);
        }
        let head = (self.page_words..).zip(version.head).map(|(index, value)| Word { index, value });
        for word in self.words(version).iter().copied().chain(head) {
            if into.len() >= word.bytes().end {
                word.exchange(into);
            }
        }
    }

    /// What stands at the beginning of the spare area in the bytes of a page.
    fn head_in(&self, bytes: &[u8]) -> [u32; HEAD_WORDS] {
        let word = |index: u32| {
            let at = (self.page_words + index) as usize * size_of::<u32>();
            if bytes.len() >= at + size_of::<u32>() {
                Word::of(bytes, self.page_words + index).value
            } else {
                0
            }
        };
        std::array::from_fn(|k| word(k as u32))
    }

    /// The bytes of a version that is the newest.
    #[inline]
    fn newest_bytes(&self, slot: Slot) -> Option<&[u8]> {
        let version = self.version(slot);
        (slot != NONE && version.newer == NONE).then(|| self.frames.get(version.frame))
    }

    fn word(&self, mut slot: Slot, index: u32) -> u32 {
        if let Some(at) = place_in_head(index, self.page_words) {
            return self.version(slot).head[at];
        }
        loop {
            if let Some(bytes) = self.newest_bytes(slot) {
                return Word::of(bytes, index).value;
            }
            let version = self.version(slot);
            match self.words(version).iter().find(|word| word.index == index) {
                Some(word) => return word.value,
                None => slot = version.newer,
            }
        }
    }
}

/// Which of the words that a version keeps for itself this one is.
#[inline]
fn place_in_head(index: u32, page_words: u32) -> Option<usize> {
    index.checked_sub(page_words).map(|at| at as usize).filter(|&at| at < HEAD_WORDS)
}

/// A page by block and offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) ppn: Ppn,
    pub(super) block: u32,
    pub(super) offset: u32,
}

/// Copies what fits, and zeros behind it.
fn copy_padded(from: &[u8], into: &mut [u8]) {
    let (head, rest) = into.split_at_mut(into.len().min(from.len()));
    head.copy_from_slice(&from[..head.len()]);
    rest.fill(0);
}
