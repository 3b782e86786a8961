//! The bytes of pages that the simulated flash keeps, with successive versions of a metadata page stored as
//! differences.
//!
//! A map on flash writes a page of a thousand entries to change one of them. Storing every version in full would cost a
//! copy of the page and an allocation per write, which would be most of the work of a replay. So the newest version
//! takes over the bytes of the version from which it was made, and the older version keeps only the words that were
//! overwritten. A copy made by GC shares the bytes of its source. The cost: a read of an older version assembles it
//! from the newer ones, and every page takes memory for its spare area, used or not. The first words of the spare area
//! hold a number that a map on flash changes with every version of a page. So each version stores these words itself,
//! in its record, where they cost no extra cache line.
//!
//! Invariants: a read of a page returns what was programmed there, whatever happened to other pages; a slot (record of
//! a version) exists as long as a page or an older version refers to it.

use arrayvec::ArrayVec;

use super::frames::{FrameNumber, FramePool};
use super::{Geometry, PageDataWord};
use crate::address::{BlockId, Ppn};
use crate::tables::DenseTable;
use crate::tables::prefetch::{
    HOST_WRITES_PER_PREFETCH, TRANSLATION_PAGES_PER_PREFETCH, load_into_cpu_cache,
};

/// Number of a slot of the table of page versions; a slot holds one stored version of a page.
type VersionSlot = u32;

/// Index or slot number that means "none". Marks a block without stored bytes, a page without bytes, and the newest
/// version of a page, which has neither a newer version nor a difference list.
const NO_SLOT_OR_LIST: u32 = 0;

/// Number of 4-byte words at the beginning of the spare area that [`PageVersion`] stores in full for every version of a
/// page. A map on flash stores a number there that differs in each version of its pages.
const SPARE_WORDS_STORED_PER_VERSION: usize = 2;

/// A version of a page as it is stored: in full if it is the newest, otherwise as differences from a newer version.
#[derive(Clone, Copy, Debug)]
struct PageVersion {
    /// Frame (memory for one page) with the bytes of this page version in full. Valid only for the newest version.
    frame: FrameNumber,
    /// Slot number of the newer version of the page, which was made from this one and took over its bytes;
    /// [`NO_SLOT_OR_LIST`] for the newest version.
    newer_version: VersionSlot,
    /// Index of the list of 4-byte words in which this page version differs from the newer one; [`NO_SLOT_OR_LIST`] for
    /// the newest version.
    difference_list_index: u32,
    /// Number of flash pages that have this version as content, plus the number of older versions that are stored as
    /// differences from it.
    version_reference_count: u32,
    /// First words of the spare area of this page version, which replace those in the frame (the memory with the bytes
    /// of the newest version).
    first_spare_words: [u32; SPARE_WORDS_STORED_PER_VERSION],
}

impl PageVersion {
    /// Creates the record of a page version that is the newest of its page: its bytes are in full in `frame`.
    /// `version_reference_count` is the number of pages and older versions that refer to it.
    fn newest_version_in_frame(
        frame: FrameNumber,
        version_reference_count: u32,
        first_spare_words: [u32; SPARE_WORDS_STORED_PER_VERSION],
    ) -> Self {
        Self {
            frame,
            newer_version: NO_SLOT_OR_LIST,
            difference_list_index: NO_SLOT_OR_LIST,
            version_reference_count,
            first_spare_words,
        }
    }
}

/// Bytes of the pages of the simulated flash. Several versions of a metadata page share memory: the newest is stored in
/// full, older ones as differences from a newer one.
#[derive(Clone, Debug)]
pub(super) struct PagePayloads {
    /// Number of pages of a block (erase unit of the FTL).
    block_pages: u32,
    /// Number of 4-byte words of a page without its spare area.
    page_words: u32,
    /// For each block that has pages with bytes, the number of its row in `version_of_page`; [`NO_SLOT_OR_LIST`] for
    /// the other blocks.
    version_table_row_of_block: DenseTable<u32>,
    /// Table with one row per block that has bytes, and one entry per page of the block: the slot number in `versions`
    /// of the page's content. Row 0 is not used, because row number 0 means "none".
    version_of_page: Vec<VersionSlot>,
    /// Numbers of the rows of `version_of_page` that no block uses.
    free_version_table_rows: Vec<u32>,
    /// Records of the stored page versions, by slot number. Slot 0 is not used.
    versions: Vec<PageVersion>,
    /// Numbers of the slots of `versions` that hold no page version and can be used again.
    free_version_slots: Vec<VersionSlot>,
    /// Lists of the 4-byte words in which older page versions differ from newer ones, one list per older version.
    /// Unused lists are empty; list 0 is never used.
    version_difference_lists: Vec<Vec<PageDataWord>>,
    /// Indices of the empty lists in `version_difference_lists` that can be used again.
    unused_version_difference_lists: Vec<u32>,
    /// Memory with the bytes of each newest page version, spare area included; zeros where nothing was programmed.
    frames: FramePool,
}

impl PagePayloads {
    /// Creates the store of page bytes for a flash medium of this geometry, without bytes for any page.
    pub(super) fn new(geometry: &Geometry) -> Self {
        let block_pages = geometry.block_pages();
        Self {
            block_pages,
            page_words: geometry.page_bytes / size_of::<u32>() as u32,
            version_table_row_of_block: DenseTable::zeroed(geometry.blocks() as usize),
            version_of_page: vec![NO_SLOT_OR_LIST; block_pages as usize],
            free_version_table_rows: Vec::new(),
            versions: vec![PageVersion::newest_version_in_frame(0, 0, [0; SPARE_WORDS_STORED_PER_VERSION])],
            free_version_slots: Vec::new(),
            version_difference_lists: vec![Vec::new()],
            unused_version_difference_lists: Vec::new(),
            frames: FramePool::new((geometry.page_bytes + geometry.spare_bytes) as usize),
        }
    }

    /// Whether the simulated flash holds bytes for the page.
    pub(super) fn has_bytes(&self, page: PageLocation) -> bool {
        self.version_slot_of(page) != NO_SLOT_OR_LIST
    }

    /// Stores the bytes of a flash page that is being programmed.
    pub(super) fn store_page(&mut self, page: PageLocation, bytes: &[u8]) {
        let frame = self.frames.allocate();
        copy_padded(bytes, self.frames.get_mut(frame));
        let head = self.spare_prefix_of(bytes);
        let slot = self.add_version(PageVersion::newest_version_in_frame(frame, 1, head));
        self.set_version_of(page, slot);
    }

    /// Stores a flash page that is being programmed as a copy of page `from`. The copy shares the stored bytes of
    /// `from`, if there are any.
    pub(super) fn store_page_copy(&mut self, page: PageLocation, from: PageLocation) {
        let slot = self.version_slot_of(from);
        if slot != NO_SLOT_OR_LIST {
            self.version_mut(slot).version_reference_count += 1;
            self.set_version_of(page, slot);
        }
    }

    /// Stores a flash page that is being programmed with the content of page `base` except for `words` (four bytes
    /// each).
    #[inline]
    pub(super) fn store_changed_page(
        &mut self,
        page: PageLocation,
        base: PageLocation,
        words: &[PageDataWord],
    ) {
        let old = self.version_slot_of(base);
        assert!(old != NO_SLOT_OR_LIST, "page {} is changed after its bytes were dropped", base.ppn);
        let PageVersion { frame, newer_version: newer, first_spare_words: mut head, .. } = *self.version(old);
        if newer != NO_SLOT_OR_LIST {
            return self.store_changed_page_in_full(page, old, words);
        }
        let list =
            self.unused_version_difference_lists.pop().unwrap_or_else(|| self.append_empty_difference_list());
        let (bytes, replaced) =
            (self.frames.get_mut(frame), &mut self.version_difference_lists[list as usize]);
        let mut words = words;
        // Words of the spare area are last. Handled first, they cost no branch that is mispredicted.
        while let Some((word, others)) = words.split_last()
            && let Some(at) = index_in_stored_spare_words(word.word_index, self.page_words)
        {
            (head[at], words) = (word.word_value, others);
        }
        for &word in words {
            match index_in_stored_spare_words(word.word_index, self.page_words) {
                Some(at) => head[at] = word.word_value,
                None => replaced.push(word.swap_into_page(bytes)),
            }
        }
        // Two users: the page, and the older version made from it.
        let new = self.add_version(PageVersion::newest_version_in_frame(frame, 2, head));
        let version = self.version_mut(old);
        (version.newer_version, version.difference_list_index) = (new, list);
        self.set_version_of(page, new);
    }

    /// Stores in full a flash page that is being programmed: the bytes of `base` with `words` changed. Used if `base`
    /// is not the newest version of its page, so that its bytes cannot be taken over.
    #[cold]
    fn store_changed_page_in_full(&mut self, page: PageLocation, base: VersionSlot, words: &[PageDataWord]) {
        let frame = self.frames.allocate();
        let mut bytes = vec![0; self.frames.get(frame).len()];
        self.copy_version_to(base, &mut bytes);
        for word in words {
            word.swap_into_page(&mut bytes);
        }
        self.frames.get_mut(frame).copy_from_slice(&bytes);
        let head = self.spare_prefix_of(&bytes);
        let slot = self.add_version(PageVersion::newest_version_in_frame(frame, 1, head));
        self.set_version_of(page, slot);
    }

    /// Copies the stored bytes of a flash page, followed by zeros, into `into`; returns `false` if the page has none.
    pub(super) fn read_page(&self, page: PageLocation, into: &mut [u8]) -> bool {
        let slot = self.version_slot_of(page);
        if slot != NO_SLOT_OR_LIST {
            self.copy_version_to(slot, into);
        }
        slot != NO_SLOT_OR_LIST
    }

    /// Passes the stored bytes of a flash page, without its spare area, to the function `look`. Returns `false` if the
    /// page has none. `scratch` is a buffer of one page, which is used if the bytes have to be assembled from
    /// differences.
    pub(super) fn read_page_in_place(
        &self,
        page: PageLocation,
        scratch: &mut [u8],
        look: &mut dyn FnMut(&[u8]),
    ) -> bool {
        let slot = self.version_slot_of(page);
        match self.newest_bytes(slot) {
            Some(bytes) => look(&bytes[..self.page_words as usize * size_of::<u32>()]),
            None if slot == NO_SLOT_OR_LIST => return false,
            None => {
                self.copy_version_to(slot, scratch);
                look(scratch);
            }
        }
        true
    }

    /// Reads 4-byte words of a flash page: sets the value of each of `words` from the stored bytes. Returns `false` if
    /// no bytes are stored for the page.
    #[inline]
    pub(super) fn read_words(&self, page: PageLocation, words: &mut [PageDataWord]) -> bool {
        let slot = self.version_slot_of(page);
        if slot == NO_SLOT_OR_LIST {
            return false;
        }
        let newest = self.newest_bytes(slot);
        for word in words {
            word.word_value = match newest {
                Some(bytes) if word.word_index < self.page_words => {
                    PageDataWord::read_from(bytes, word.word_index).word_value
                }
                _ => self.word_of_version(slot, word.word_index),
            };
        }
        true
    }

    /// Reads 4-byte words of several flash pages without counting reads. This loads the memory that the reads will
    /// access into the CPU cache (see [`crate::tables::prefetch`]). `pages` lists the pages, each with its number of
    /// words; `words` holds the words of all pages, page after page. No word may be in a spare area. Words of pages
    /// without bytes are unchanged.
    pub(super) fn prefetch_page_words(&self, pages: &[(PageLocation, usize)], words: &mut [PageDataWord]) {
        let slots: ArrayVec<VersionSlot, TRANSLATION_PAGES_PER_PREFETCH> =
            pages.iter().map(|&(page, _)| self.version_slot_of(page)).collect();
        let newest: ArrayVec<_, TRANSLATION_PAGES_PER_PREFETCH> =
            slots.iter().map(|&slot| self.newest_bytes(slot)).collect();
        let mut rest = words.iter_mut();
        for ((&slot, bytes), &(_, count)) in slots.iter().zip(newest).zip(pages) {
            let words = rest.by_ref().take(count);
            match bytes {
                Some(bytes) => words.for_each(|word| *word = PageDataWord::read_from(bytes, word.word_index)),
                None if slot == NO_SLOT_OR_LIST => words.for_each(drop),
                None => words.for_each(|word| word.word_value = self.word_of_version(slot, word.word_index)),
            }
        }
    }

    /// Drops the stored bytes of these flash pages, because they will not be read again.
    pub(super) fn drop_bytes(&mut self, pages: &[PageLocation]) {
        for pages in pages.chunks(HOST_WRITES_PER_PREFETCH) {
            let slots: ArrayVec<VersionSlot, HOST_WRITES_PER_PREFETCH> =
                pages.iter().map(|&page| self.version_slot_of(page)).collect();
            let newer: ArrayVec<VersionSlot, HOST_WRITES_PER_PREFETCH> =
                slots.iter().map(|&slot| self.version(slot).newer_version).collect();
            load_into_cpu_cache(newer.iter().map(|&slot| self.version(slot).version_reference_count.into()));
            for &page in pages {
                self.drop_page_bytes(page);
            }
        }
    }

    /// Drops the stored bytes of one flash page, if it has any.
    fn drop_page_bytes(&mut self, page: PageLocation) {
        let row = self.version_table_row_of_block.get(page.block as usize);
        if row != NO_SLOT_OR_LIST {
            self.clear_version_entry(self.version_entry_index(row, page.page_offset));
        }
    }

    /// Drops the stored bytes of all pages of a block, because the block is erased.
    pub(super) fn drop_block(&mut self, block: BlockId) {
        let row = self.version_table_row_of_block.get(block.index());
        if row == NO_SLOT_OR_LIST {
            return;
        }
        for page_offset in 0..self.block_pages {
            self.clear_version_entry(self.version_entry_index(row, page_offset));
        }
        self.version_table_row_of_block.set(block.index(), NO_SLOT_OR_LIST);
        self.free_version_table_rows.push(row);
    }

    /// Clears the entry at index `at` of `version_of_page`, and removes this reference from the page version that it
    /// named.
    fn clear_version_entry(&mut self, at: usize) {
        let slot = std::mem::replace(&mut self.version_of_page[at], NO_SLOT_OR_LIST);
        self.release_version_reference(slot);
    }

    /// Returns the index in `version_of_page` of the entry for page `page_offset` of the block whose versions are in
    /// row `row`.
    #[inline]
    fn version_entry_index(&self, row: u32, page_offset: u32) -> usize {
        row as usize * self.block_pages as usize + page_offset as usize
    }

    /// Returns the number of the slot in `versions` with the content of a flash page; [`NO_SLOT_OR_LIST`] if no bytes
    /// are stored for the page.
    #[inline]
    fn version_slot_of(&self, page: PageLocation) -> VersionSlot {
        match self.version_table_row_of_block.get(page.block as usize) {
            NO_SLOT_OR_LIST => NO_SLOT_OR_LIST,
            row => self.version_of_page[self.version_entry_index(row, page.page_offset)],
        }
    }

    /// Records in which slot of `versions` the content of a flash page is stored. The block of the page gets a row in
    /// `version_of_page` if it has none.
    #[inline]
    fn set_version_of(&mut self, page: PageLocation, slot: VersionSlot) {
        let mut row = self.version_table_row_of_block.get(page.block as usize);
        if row == NO_SLOT_OR_LIST {
            row = self.free_version_table_rows.pop().unwrap_or_else(|| self.append_version_table_row());
            self.version_table_row_of_block.set(page.block as usize, row);
        }
        let at = self.version_entry_index(row, page.page_offset);
        self.version_of_page[at] = slot;
    }

    /// Appends to `version_of_page` a row for the pages of one more block, and returns the number of the row.
    #[cold]
    fn append_version_table_row(&mut self) -> u32 {
        let row = self.version_of_page.len() / self.block_pages as usize;
        self.version_of_page.resize(self.version_of_page.len() + self.block_pages as usize, NO_SLOT_OR_LIST);
        row as u32
    }

    /// Appends an empty difference list and returns its index.
    #[cold]
    fn append_empty_difference_list(&mut self) -> u32 {
        self.version_difference_lists.push(Vec::new());
        (self.version_difference_lists.len() - 1) as u32
    }

    /// Returns the 4-byte words in which an older version of a page differs from the newer one.
    fn words_differing_from_newer_version(&self, version: &PageVersion) -> &[PageDataWord] {
        &self.version_difference_lists[version.difference_list_index as usize]
    }

    /// Returns the page version in a slot of the table of versions.
    #[inline]
    fn version(&self, slot: VersionSlot) -> &PageVersion {
        &self.versions[slot as usize]
    }

    /// Returns the page version in a slot of the table of versions, to be changed.
    #[inline]
    fn version_mut(&mut self, slot: VersionSlot) -> &mut PageVersion {
        &mut self.versions[slot as usize]
    }

    /// Stores a page version in a free slot, or in a new one, and returns the slot number.
    #[inline]
    fn add_version(&mut self, version: PageVersion) -> VersionSlot {
        if let Some(slot) = self.free_version_slots.pop() {
            self.versions[slot as usize] = version;
            return slot;
        }
        self.versions.push(version);
        (self.versions.len() - 1) as VersionSlot
    }

    /// Removes one reference (by a flash page, or by an older version) to a stored page version. A version without
    /// references is dropped, which removes one reference to the newer version.
    fn release_version_reference(&mut self, mut slot: VersionSlot) {
        while slot != NO_SLOT_OR_LIST {
            let version = self.version_mut(slot);
            version.version_reference_count -= 1;
            if version.version_reference_count > 0 {
                return;
            }
            let newer = std::mem::replace(&mut version.newer_version, NO_SLOT_OR_LIST);
            if newer == NO_SLOT_OR_LIST {
                let frame = version.frame;
                self.frames.free_frame(frame);
            } else {
                let list = std::mem::replace(&mut version.difference_list_index, NO_SLOT_OR_LIST);
                self.version_difference_lists[list as usize].clear();
                self.unused_version_difference_lists.push(list);
            }
            self.free_version_slots.push(slot);
            slot = newer;
        }
    }

    /// Copies the bytes of a page version, spare area included, into `into`; assembles them if they are stored as
    /// differences.
    fn copy_version_to(&self, slot: VersionSlot, into: &mut [u8]) {
        let version = self.version(slot);
        if version.newer_version == NO_SLOT_OR_LIST {
            copy_padded(self.frames.get(version.frame), into);
        } else {
            self.copy_version_to(version.newer_version, into);
        }
        let head = (self.page_words..)
            .zip(version.first_spare_words)
            .map(|(index, value)| PageDataWord { word_index: index, word_value: value });
        for word in self.words_differing_from_newer_version(version).iter().copied().chain(head) {
            if into.len() >= word.byte_range().end {
                word.swap_into_page(into);
            }
        }
    }

    /// Returns, from the bytes of a page, the first 4-byte words of its spare area; zeros if `bytes` ends before.
    fn spare_prefix_of(&self, bytes: &[u8]) -> [u32; SPARE_WORDS_STORED_PER_VERSION] {
        let word = |index: u32| {
            let at = (self.page_words + index) as usize * size_of::<u32>();
            if bytes.len() >= at + size_of::<u32>() {
                PageDataWord::read_from(bytes, self.page_words + index).word_value
            } else {
                0
            }
        };
        std::array::from_fn(|k| word(k as u32))
    }

    /// Returns the bytes of a page version in full; `None` if it is not the newest version and so is stored as
    /// differences.
    #[inline]
    fn newest_bytes(&self, slot: VersionSlot) -> Option<&[u8]> {
        let version = self.version(slot);
        (slot != NO_SLOT_OR_LIST && version.newer_version == NO_SLOT_OR_LIST)
            .then(|| self.frames.get(version.frame))
    }

    /// Returns the 4-byte word with this index from a page version, which may be stored as differences from newer ones.
    fn word_of_version(&self, mut slot: VersionSlot, index: u32) -> u32 {
        if let Some(at) = index_in_stored_spare_words(index, self.page_words) {
            return self.version(slot).first_spare_words[at];
        }
        loop {
            if let Some(bytes) = self.newest_bytes(slot) {
                return PageDataWord::read_from(bytes, index).word_value;
            }
            let version = self.version(slot);
            match self
                .words_differing_from_newer_version(version)
                .iter()
                .find(|word| word.word_index == index)
            {
                Some(word) => return word.word_value,
                None => slot = version.newer_version,
            }
        }
    }
}

/// Returns the position of the 4-byte word `index` of a page among the first words of the spare area, which each page
/// version stores in full; `None` if the word is not one of them.
#[inline]
fn index_in_stored_spare_words(index: u32, page_words: u32) -> Option<usize> {
    index.checked_sub(page_words).map(|at| at as usize).filter(|&at| at < SPARE_WORDS_STORED_PER_VERSION)
}

/// Location of a flash page: its PPN, its block, and its offset in the block.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageLocation {
    /// Number of the flash page on the device.
    pub(super) ppn: Ppn,
    /// Number of the block that holds the page.
    pub(super) block: u32,
    /// Offset of the page in its block, in pages.
    pub(super) page_offset: u32,
}

/// Copies as much of `from` as fits into `into`, and fills the rest of `into` with zeros.
fn copy_padded(from: &[u8], into: &mut [u8]) {
    let (head, rest) = into.split_at_mut(into.len().min(from.len()));
    head.copy_from_slice(&from[..head.len()]);
    rest.fill(0);
}
