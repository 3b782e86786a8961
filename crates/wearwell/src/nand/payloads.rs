//! The bytes of pages that the simulated flash keeps, with successive versions of a metadata page stored as
//! differences.
//!
//! A map on flash writes a page of a thousand entries to change one of them. Storing every version in full would cost a
//! copy of the page and an allocation per write, which would be most of the work of a replay. So the newest version
//! takes over the bytes of the version from which it was made, and the older version keeps only the words that were
//! overwritten. A copy made by GC shares the bytes of its source. Price: an older version that is read is assembled
//! from the newer one, and every page takes room for its spare area, used or not. A map notes a number with every
//! version in the first words of the spare area. These words are kept in the record of the version, where they cost no
//! cache line of their own.
//!
//! Invariants: a page reads what was programmed there, whatever happened to other pages; a slot (record of a version)
//! exists as long as a page or an older version refers to it.

use arrayvec::ArrayVec;

use super::frames::{Frame, FramePool};
use super::{Geometry, PageWord};
use crate::address::{BlockId, Ppn};
use crate::tables::DenseTable;
use crate::tables::prefetch::{PREFETCHED_PAGES, PREFETCHED_WRITES, pull_into_cache};

type Slot = u32;

/// Number that means "none" where page versions refer to each other: a page without bytes, a block without such pages,
/// or a version without a newer one.
const NONE: u32 = 0;

/// Number of 4-byte words at the beginning of the spare area that each stored version of a page keeps in its own record
/// instead of as differences.
const HEAD_WORDS: usize = 2;

#[derive(Clone, Copy, Debug)]
struct Version {
    /// Frame (memory for one page) with the bytes of this page version in full. Valid only for the newest version.
    frame: Frame,
    /// Slot number of the newer version of the page, which was made from this one and took over its bytes; [`NONE`] for
    /// the newest version.
    newer: Slot,
    /// Index of the list of 4-byte words in which this page version differs from the newer one; [`NONE`] for the newest
    /// version.
    words: u32,
    /// Number of flash pages that have this version as content, plus the number of older versions that are stored as
    /// differences from it.
    users: u32,
    /// First words of the spare area of this page version, which replace those in the frame (the memory with the bytes
    /// of the newest version).
    head: [u32; HEAD_WORDS],
}

impl Version {
    fn newest(frame: Frame, users: u32, head: [u32; HEAD_WORDS]) -> Self {
        Self { frame, newer: NONE, words: NONE, users, head }
    }
}

/// Bytes of the pages of the simulated flash. Several versions of a metadata page share memory: the newest is stored in
/// full, older ones as differences from a newer one.
#[derive(Clone, Debug)]
pub(super) struct PagePayloads {
    block_pages: u32,
    /// Number of 4-byte words of a page without its spare area.
    page_words: u32,
    /// For each block that has pages with bytes, the number of the table row with the versions of its pages; [`NONE`]
    /// for the other blocks.
    row_of: DenseTable<u32>,
    /// For each page, the slot number of the version with its content. The pages of a block are one row, and the rows
    /// follow one another. The first row belongs to no block.
    rows: Vec<Slot>,
    free_rows: Vec<u32>,
    /// Records of the stored page versions, by slot number. Slot 0 is not used.
    versions: Vec<Version>,
    free_slots: Vec<Slot>,
    /// Lists of the 4-byte words in which older page versions differ from newer ones, one list per older version.
    /// Unused lists are empty; list 0 is never used.
    lists: Vec<Vec<PageWord>>,
    free_lists: Vec<u32>,
    /// Memory with the bytes of each newest page version, spare area included; zeros where nothing was programmed.
    frames: FramePool,
}

impl PagePayloads {
    pub(super) fn new(geometry: &Geometry) -> Self {
        let block_pages = geometry.block_pages();
        Self {
            block_pages,
            page_words: geometry.page_bytes / size_of::<u32>() as u32,
            row_of: DenseTable::zeroed(geometry.blocks() as usize),
            rows: vec![NONE; block_pages as usize],
            free_rows: Vec::new(),
            versions: vec![Version::newest(0, 0, [0; HEAD_WORDS])],
            free_slots: Vec::new(),
            lists: vec![Vec::new()],
            free_lists: Vec::new(),
            frames: FramePool::new((geometry.page_bytes + geometry.spare_bytes) as usize),
        }
    }

    /// Whether the simulated flash holds bytes for the page.
    pub(super) fn has_bytes(&self, page: PageLocation) -> bool {
        self.slot(page) != NONE
    }

    /// Stores the bytes of a flash page that is being programmed.
    pub(super) fn store(&mut self, page: PageLocation, bytes: &[u8]) {
        let frame = self.frames.allocate();
        copy_padded(bytes, self.frames.get_mut(frame));
        let head = self.head_in(bytes);
        let slot = self.add(Version::newest(frame, 1, head));
        self.set(page, slot);
    }

    /// Stores a flash page that is being programmed as a copy of page `from`. The copy shares the stored bytes of
    /// `from`, if there are any.
    pub(super) fn store_copy(&mut self, page: PageLocation, from: PageLocation) {
        let slot = self.slot(from);
        if slot != NONE {
            self.version_mut(slot).users += 1;
            self.set(page, slot);
        }
    }

    /// Stores a flash page that is being programmed with the content of page `base` except for `words` (four bytes
    /// each).
    #[inline]
    pub(super) fn store_changed(&mut self, page: PageLocation, base: PageLocation, words: &[PageWord]) {
        let old = self.slot(base);
        assert!(old != NONE, "page {} is changed after its bytes were dropped", base.ppn);
        let Version { frame, newer, mut head, .. } = *self.version(old);
        if newer != NONE {
            return self.put_separately(page, old, words);
        }
        let list = self.free_lists.pop().unwrap_or_else(|| self.new_list());
        let (bytes, replaced) = (self.frames.get_mut(frame), &mut self.lists[list as usize]);
        let mut words = words;
        // Words of the spare area are last. Handled first, they cost no branch that is mispredicted.
        while let Some((word, others)) = words.split_last()
            && let Some(at) = place_in_head(word.index, self.page_words)
        {
            (head[at], words) = (word.value, others);
        }
        for &word in words {
            match place_in_head(word.index, self.page_words) {
                Some(at) => head[at] = word.value,
                None => replaced.push(word.exchange_in(bytes)),
            }
        }
        // Two users: the page, and the older version made from it.
        let new = self.add(Version::newest(frame, 2, head));
        let version = self.version_mut(old);
        (version.newer, version.words) = (new, list);
        self.set(page, new);
    }

    /// Stores a flash page that is being programmed with the content of `base` except for `words`, where `base` is not
    /// the newest version of its page. The bytes are assembled and stored in full.
    #[cold]
    fn put_separately(&mut self, page: PageLocation, base: Slot, words: &[PageWord]) {
        let frame = self.frames.allocate();
        let mut bytes = vec![0; self.frames.get(frame).len()];
        self.copy_to(base, &mut bytes);
        for word in words {
            word.exchange_in(&mut bytes);
        }
        self.frames.get_mut(frame).copy_from_slice(&bytes);
        let head = self.head_in(&bytes);
        let slot = self.add(Version::newest(frame, 1, head));
        self.set(page, slot);
    }

    /// Copies the stored bytes of a flash page, followed by zeros, into `into`; returns `false` if the page has none.
    pub(super) fn read(&self, page: PageLocation, into: &mut [u8]) -> bool {
        let slot = self.slot(page);
        if slot != NONE {
            self.copy_to(slot, into);
        }
        slot != NONE
    }

    /// Passes the stored bytes of a flash page, without its spare area, to the function `look`. Returns `false` if the
    /// page has none. `scratch` is a buffer of one page, which is used if the bytes have to be assembled from
    /// differences.
    pub(super) fn inspect_page(
        &self,
        page: PageLocation,
        scratch: &mut [u8],
        look: &mut dyn FnMut(&[u8]),
    ) -> bool {
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

    /// Fills in the values of the 4-byte `words` from the stored bytes of a flash page. Returns `false` if the page has
    /// none.
    #[inline]
    pub(super) fn read_words(&self, page: PageLocation, words: &mut [PageWord]) -> bool {
        let slot = self.slot(page);
        if slot == NONE {
            return false;
        }
        let newest = self.newest_bytes(slot);
        for word in words {
            word.value = match newest {
                Some(bytes) if word.index < self.page_words => PageWord::read_from(bytes, word.index).value,
                _ => self.word(slot, word.index),
            };
        }
        true
    }

    /// Fills in 4-byte words of several flash pages, table after table, to prefetch them (see
    /// [`crate::tables::prefetch`]). `pages` gives the number of words of each page; `words` holds those of all pages
    /// one after the other, none in a spare area. Words of pages without bytes are unchanged.
    pub(super) fn peek_words(&self, pages: &[(PageLocation, usize)], words: &mut [PageWord]) {
        let slots: ArrayVec<Slot, PREFETCHED_PAGES> =
            pages.iter().map(|&(page, _)| self.slot(page)).collect();
        let newest: ArrayVec<_, PREFETCHED_PAGES> =
            slots.iter().map(|&slot| self.newest_bytes(slot)).collect();
        let mut rest = words.iter_mut();
        for ((&slot, bytes), &(_, count)) in slots.iter().zip(newest).zip(pages) {
            let words = rest.by_ref().take(count);
            match bytes {
                Some(bytes) => words.for_each(|word| *word = PageWord::read_from(bytes, word.index)),
                None if slot == NONE => words.for_each(drop),
                None => words.for_each(|word| word.value = self.word(slot, word.index)),
            }
        }
    }

    /// Drops the stored bytes of these flash pages, because they will not be read again.
    pub(super) fn drop_bytes(&mut self, pages: &[PageLocation]) {
        for pages in pages.chunks(PREFETCHED_WRITES) {
            let slots: ArrayVec<Slot, PREFETCHED_WRITES> =
                pages.iter().map(|&page| self.slot(page)).collect();
            let newer: ArrayVec<Slot, PREFETCHED_WRITES> =
                slots.iter().map(|&slot| self.version(slot).newer).collect();
            pull_into_cache(newer.iter().map(|&slot| self.version(slot).users.into()));
            for &page in pages {
                self.drop_bytes_of(page);
            }
        }
    }

    fn drop_bytes_of(&mut self, page: PageLocation) {
        let row = self.row_of.get(page.block as usize);
        if row != NONE {
            self.empty(self.at(row, page.offset));
        }
    }

    /// Drops the stored bytes of all pages of a block, because the block is erased.
    pub(super) fn drop_block(&mut self, block: BlockId) {
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
    fn slot(&self, page: PageLocation) -> Slot {
        match self.row_of.get(page.block as usize) {
            NONE => NONE,
            row => self.rows[self.at(row, page.offset)],
        }
    }

    #[inline]
    fn set(&mut self, page: PageLocation, slot: Slot) {
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

    /// Returns the 4-byte words in which an older version of a page differs from the newer one.
    fn words(&self, version: &Version) -> &[PageWord] {
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

    /// Removes one user (a flash page, or an older version) from a stored page version. A version without users is
    /// dropped, which removes one user from the newer version.
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
                self.frames.free(frame);
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
        let head = (self.page_words..).zip(version.head).map(|(index, value)| PageWord { index, value });
        for word in self.words(version).iter().copied().chain(head) {
            if into.len() >= word.byte_range().end {
                word.exchange_in(into);
            }
        }
    }

    /// Returns, from the bytes of a page, the first 4-byte words of its spare area; zeros if `bytes` ends before.
    fn head_in(&self, bytes: &[u8]) -> [u32; HEAD_WORDS] {
        let word = |index: u32| {
            let at = (self.page_words + index) as usize * size_of::<u32>();
            if bytes.len() >= at + size_of::<u32>() {
                PageWord::read_from(bytes, self.page_words + index).value
            } else {
                0
            }
        };
        std::array::from_fn(|k| word(k as u32))
    }

    /// Returns the bytes of a page version in full; `None` if it is not the newest version and so is stored as
    /// differences.
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
                return PageWord::read_from(bytes, index).value;
            }
            let version = self.version(slot);
            match self.words(version).iter().find(|word| word.index == index) {
                Some(word) => return word.value,
                None => slot = version.newer,
            }
        }
    }
}

/// Returns the index of a 4-byte word of a page among the first words of the spare area, which each version keeps in
/// its own record; `None` if the word is not one of these.
#[inline]
fn place_in_head(index: u32, page_words: u32) -> Option<usize> {
    index.checked_sub(page_words).map(|at| at as usize).filter(|&at| at < HEAD_WORDS)
}

/// A flash page: PPN, block and offset in the block.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageLocation {
    pub(super) ppn: Ppn,
    pub(super) block: u32,
    pub(super) offset: u32,
}

/// Copies as much of `from` as fits into `into`, and fills the rest of `into` with zeros.
fn copy_padded(from: &[u8], into: &mut [u8]) {
    let (head, rest) = into.split_at_mut(into.len().min(from.len()));
    head.copy_from_slice(&from[..head.len()]);
    rest.fill(0);
}
