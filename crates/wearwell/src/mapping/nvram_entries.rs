//! The dirty entries of a map on flash, kept in NVRAM, so that changes that the table on flash lacks survive without a
//! battery.
//!
//! An entry takes one word of 8 bytes, its logical page and its location. So one atomic store is the commit point of a
//! write, a bind (a logical page mapped to existing content) or a trim, exactly as with a whole map in NVRAM
//! ([`super::RamMap`]). When the translation page is written, the words of its entries become vacant. So NVRAM grows
//! with the cache and not with the drive. The price: a store for every change, and one more when the entry is clean
//! again.
//!
//! The new location of a page that GC moved is stored a little later ([`super::Mapping::store_gc_moves_in_nvram`]), but
//! before the old block is erased. GC makes entries dirty without evicting others first. So NVRAM has more words than
//! there may be dirty entries ([`nvram_words_for_dirty_entries`]), and the engine writes translation pages when few are
//! vacant.
//!
//! Invariants: a logical page has at most one word; between operations every dirty entry has a word with its location.

use super::DemandPagedMapOptions;
use super::entry_cache::{CacheSlot, NO_NVRAM_WORD, NvramWordNumber};
use crate::address::{Lpn, StoredUnit};
use crate::error::{Error, Result};
use crate::nand::Geometry;
use crate::store::FlashPageStore;

/// Returns the number of NVRAM words (8 bytes each) reserved for the map entries that GC makes dirty when it moves
/// pages. The words suffice for two blocks in the worst case, in which `entries_per_page` logical pages refer to each
/// page, and for six more blocks with one logical page per page.
fn nvram_words_for_gc_moves(geometry: &Geometry, entries_per_page: u32) -> u64 {
    u64::from(geometry.block_pages()) * (2 * u64::from(entries_per_page) + 6)
}

/// Returns the number of NVRAM words (8 bytes each, one map entry) that a demand-paged map with these options needs for
/// its dirty entries.
pub(crate) fn nvram_words_for_dirty_entries(
    options: &DemandPagedMapOptions,
    geometry: &Geometry,
    logical_pages: u32,
    entries_per_page: u32,
) -> u64 {
    let dirty = options.max_dirty_entries.unwrap_or(u32::MAX).min(options.cache_entries).max(1);
    (u64::from(dirty) + nvram_words_for_gc_moves(geometry, entries_per_page)).min(logical_pages.into())
}

/// NVRAM words that hold the dirty entries of an L2P map on flash. Each cached entry stores the number of its word.
#[derive(Clone, Debug)]
pub(super) struct NvramEntries {
    /// Index of the first NVRAM word (8 bytes) that holds map entries.
    first_nvram_word: usize,
    /// Number of NVRAM words (8 bytes each) for map entries.
    nvram_word_count: u32,
    /// Numbers of the NVRAM words that hold no entry.
    vacant_words: Vec<NvramWordNumber>,
    /// Number of free NVRAM words for dirty map entries below which translation pages have to be written.
    min_vacant_words: u32,
    /// Logical pages that GC moved and whose words in NVRAM still hold the old location, each with the cache slot that
    /// its map entry was put in.
    pub(super) moved_entries: Vec<(Lpn, CacheSlot)>,
}

impl NvramEntries {
    /// Creates the RAM state for dirty map entries in `word_count` NVRAM words from `first_nvram_word` on, all of which
    /// count as free. A recovery reads their content with [`NvramEntries::entries_by_word`].
    ///
    /// # Errors
    /// [`Error::InvalidOptions`] if the medium has too little NVRAM.
    pub(super) fn new(
        io: &FlashPageStore,
        first_nvram_word: usize,
        word_count: u64,
        logical_pages: u32,
        entries_per_page: u32,
    ) -> Result<Self> {
        let needed_words = first_nvram_word as u64 + word_count;
        if (io.nvram().len() as u64) < needed_words {
            let part = "the dirty entries of the map";
            return Err(Error::of_small_nvram(part, needed_words * 8, io.nvram().len()));
        }
        // With one word per logical page, words never run short.
        let is_whole = word_count == u64::from(logical_pages);
        let half_of_moves = nvram_words_for_gc_moves(io.geometry(), entries_per_page) / 2;
        let words = word_count as u32;
        Ok(Self {
            first_nvram_word,
            nvram_word_count: words,
            vacant_words: (0..words).rev().collect(),
            min_vacant_words: if is_whole { 0 } else { half_of_moves as u32 },
            moved_entries: Vec::new(),
        })
    }

    /// Drops the RAM state about the map entries in NVRAM, as a loss of power does: all NVRAM words count as free until
    /// a recovery assigns them to entries again.
    pub(super) fn drop_ram_state(&mut self) {
        self.vacant_words = (0..self.nvram_word_count).rev().collect();
        self.moved_entries.clear();
    }

    /// Returns the content of all NVRAM words for dirty map entries, as (number of the word, entry); the entry is
    /// `None` for a free word.
    pub(super) fn entries_by_word<'a>(
        &self,
        io: &'a FlashPageStore,
    ) -> impl Iterator<Item = (NvramWordNumber, Option<(Lpn, StoredUnit)>)> + use<'a> {
        let words =
            &io.nvram()[self.first_nvram_word..self.first_nvram_word + self.nvram_word_count as usize];
        (0..).zip(words.iter().map(|&word| decode_entry(word)))
    }

    /// Returns whether few NVRAM words are free for dirty map entries, so that translation pages have to be written
    /// before more entries become dirty.
    #[inline]
    pub(super) fn is_nvram_nearly_full(&self) -> bool {
        (self.vacant_words.len() as u32) < self.min_vacant_words
    }

    /// Stores the location `unit` of `lpn` in `word_number`, the NVRAM word of its map entry. An entry without a word
    /// gets a free one, whose number is stored in `word_number`.
    ///
    /// # Errors
    /// Power loss; [`Error::Full`] if no word is vacant.
    #[inline]
    pub(super) fn store_entry(
        &mut self,
        io: &mut FlashPageStore,
        word_number: &mut NvramWordNumber,
        lpn: Lpn,
        unit: StoredUnit,
    ) -> Result<()> {
        let to = match *word_number {
            NO_NVRAM_WORD => *self.vacant_words.last().ok_or_else(|| io.device_full_error())?,
            word => word,
        };
        io.store_nvram_word(self.first_nvram_word + to as usize, encode_entry(lpn, unit))?;
        if *word_number == NO_NVRAM_WORD {
            self.vacant_words.pop();
            *word_number = to;
        }
        Ok(())
    }

    /// Frees `word_number`, the NVRAM word of a map entry, because the entry is on flash now. Does nothing if the entry
    /// has none.
    ///
    /// # Errors
    /// Power loss.
    #[inline]
    pub(super) fn clear_entry(
        &mut self,
        io: &mut FlashPageStore,
        word_number: &mut NvramWordNumber,
    ) -> Result<()> {
        if *word_number == NO_NVRAM_WORD {
            return Ok(());
        }
        io.store_nvram_word(self.first_nvram_word + *word_number as usize, 0)?;
        self.vacant_words.push(std::mem::replace(word_number, NO_NVRAM_WORD));
        Ok(())
    }

    /// Rebuilds the list of free NVRAM words after a recovery, which has assigned the words `taken` to map entries.
    pub(super) fn rebuild_free_word_list(&mut self, taken: impl Iterator<Item = NvramWordNumber>) {
        let mut is_taken = vec![false; self.nvram_word_count as usize];
        taken.for_each(|word| is_taken[word as usize] = true);
        self.vacant_words =
            (0..self.nvram_word_count).rev().filter(|&word| !is_taken[word as usize]).collect();
    }

    /// Reads from NVRAM the dirty map entry in `word_number`, as (logical page, location); `None` if `word_number` is
    /// [`NO_NVRAM_WORD`] or free.
    pub(super) fn entry_in_nvram(
        &self,
        io: &FlashPageStore,
        word_number: NvramWordNumber,
    ) -> Option<(Lpn, StoredUnit)> {
        match word_number {
            NO_NVRAM_WORD => None,
            word => decode_entry(io.nvram()[self.first_nvram_word + word as usize]),
        }
    }

    /// Returns the number of NVRAM words that hold dirty map entries now.
    pub(super) fn used_words(&self) -> u32 {
        self.nvram_word_count - self.vacant_words.len() as u32
    }
}

/// Encodes a map entry as an NVRAM word: the logical page plus one in the upper half, so that 0 means a free word, and
/// the location in the lower half.
fn encode_entry(lpn: Lpn, unit: StoredUnit) -> u64 {
    (u64::from(lpn.0) + 1) << 32 | u64::from(unit.0)
}

/// Decodes an NVRAM word that [`encode_entry`] encoded, as (logical page, location); `None` for a free word.
fn decode_entry(word: u64) -> Option<(Lpn, StoredUnit)> {
    let lpn = ((word >> 32) as u32).checked_sub(1)?;
    Some((Lpn(lpn), StoredUnit(word as u32)))
}
