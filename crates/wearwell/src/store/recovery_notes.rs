//! Notes in NVRAM that keep a recovery short: they name the data pages whose validity on flash may be outdated.
//!
//! After a loss of power, flash lacks the newest reports of invalid pages, and it has pages that the interrupted
//! request programmed but did not map. To find both without these notes, recovery reads the spare area of every page.
//! The notes are words of 8 bytes:
//!
//! - The sequence number up to which validity is known: each page programmed up to it was either mapped or reported as
//!   invalid. Before this number is stored, the blocks that are open for data are noted, too. So pages that were
//!   programmed later are in these blocks, or in blocks whose first page is newer.
//! - The block that GC is emptying.
//! - Page notes: the pages that a map entry no longer names, since the buffer of page validity was last written. They
//!   are in a ring buffer of words. Another word has the number of the oldest page note that is still needed. A page
//!   note is needed until two writes of the validity buffer are complete, because the page may be reported while the
//!   first write is in progress.
//!
//! A page or GC victim is noted before the change that the note is for, and notes may name too many pages: recovery
//! looks up the logical page of each noted page in the map. So no two stores to NVRAM have to be atomic. The engine
//! writes the buffer of page validity when half of the ring buffer is needed. If one request notes more pages than the
//! ring buffer has words left, recovery detects that notes were overwritten, and reads all spare areas.
//!
//! The cost: one store to NVRAM for every page that is replaced, one for every GC victim, and one or a few every
//! [`PROGRAMS_PER_KNOWN_VALIDITY_UPDATE`] programs.
//!
//! Invariant: between requests, the ring buffer names each data page that is invalid but not listed as invalid in page
//! validity on flash. Valid pages that page validity on flash lists as invalid need no note. They are in blocks that
//! were opened since the buffer was written, or they were revived (mapped again without a program), and then their map
//! entries have a mark (the bind mark).

use super::{FlashPageStore, Stream};
use crate::address::{BlockId, OptionalAddress, Ppn, StoredUnit, chunk_and_member_of, is_flash_page};
use crate::error::{Error, Result};
use crate::nand::{Geometry, PageKind};

/// Number of page programs after which two notes for recovery are updated: the sequence number up to which every data
/// page is mapped or reported as invalid, and the blocks open for data.
const PROGRAMS_PER_KNOWN_VALIDITY_UPDATE: u64 = 128;

/// Index, among the NVRAM words with notes for recovery, of the word with the sequence number up to which every data
/// page is mapped or reported as invalid.
const VALIDITY_KNOWN_UNTIL_WORD_INDEX: usize = 0;
/// Index, among the NVRAM words with notes for recovery, of the word with the number of the block that GC is emptying.
const GC_VICTIM_WORD_INDEX: usize = 1;
/// Index, among the NVRAM words with notes for recovery, of the word with the number of the oldest page note that
/// recovery still needs. A page note names a page that may be invalid.
const OLDEST_NEEDED_PAGE_NOTE_WORD_INDEX: usize = 2;
/// Index, among the NVRAM words with notes for recovery, of the first word with the number of an open block.
const FIRST_OPEN_BLOCK_WORD_INDEX: usize = 3;

/// Maximum number of blocks per pool that can be open for data: one of host writes, one of GC copies, and for each of
/// these one that is set aside partly filled.
const MAX_OPEN_DATA_BLOCKS_PER_POOL: u32 = 4;

/// State of the notes in NVRAM that name, for recovery, the data pages whose validity on flash may be outdated: their
/// position in NVRAM, and copies of some of them in RAM.
#[derive(Clone, Debug)]
pub(super) struct NvramValidityNotes {
    /// Index of the first NVRAM word with notes for recovery.
    first_nvram_word: usize,
    /// Open data blocks as they are stored in NVRAM for recovery.
    noted_open_blocks: Vec<Option<BlockId>>,
    /// Sequence number stored in NVRAM up to which every programmed data page is mapped or reported as invalid.
    validity_known_until_sequence: u64,
    /// Number of NVRAM words of the ring buffer of page notes. Each word names one page that may be invalid although
    /// page validity on flash does not list it.
    page_note_ring_words: u32,
    /// Number of the next page note (note in NVRAM that a page may be invalid): the count of page notes so far, modulo
    /// 2^32.
    next_page_note_number: u32,
    /// Number of the oldest page note (note in NVRAM that a page may be invalid) that recovery still needs.
    oldest_needed_page_note_number: u32,
    /// Number of the oldest page note (note in NVRAM that a page may be invalid) that recovery still needs once the
    /// next write of the page-validity buffer is complete. That write contains the reports of all pages noted earlier.
    oldest_page_note_kept_at_next_validity_flush: u32,
    /// Sequence number up to which page validity was durable when page notes (notes in NVRAM that a page may be
    /// invalid) were last dropped.
    validity_durable_until_sequence: u64,
}

/// The notes of [`NvramValidityNotes`], as recovery finds them in NVRAM: which data pages may have outdated validity on
/// flash.
#[derive(Debug)]
pub(crate) struct FoundValidityNotes {
    /// Sequence number of the last program up to which every data page was mapped or reported as invalid.
    pub(crate) validity_known_until_sequence: u64,
    /// Block that GC was emptying, or emptied last.
    pub(crate) victim: Option<BlockId>,
    /// Blocks that were open for data when `validity_known_until_sequence` was stored.
    pub(crate) open_blocks: Vec<BlockId>,
    /// Data pages that may be invalid, because map entries no longer name them; page validity on flash may not list
    /// them yet.
    pub(crate) maybe_invalid_pages: Vec<Ppn>,
}

/// Returns the number of NVRAM words (8 bytes each) for the notes that name, for recovery, the data pages whose
/// validity on flash may be outdated.
pub(crate) fn validity_note_nvram_words(geometry: &Geometry) -> u64 {
    FIRST_OPEN_BLOCK_WORD_INDEX as u64
        + u64::from(MAX_OPEN_DATA_BLOCKS_PER_POOL * geometry.allocation_pools())
        + u64::from(page_note_ring_words(geometry))
}

/// Returns the number of NVRAM words of the ring buffer of page notes; each word names one page that may be invalid.
/// The ring buffer has at least four times as many words as the buffer of page validity holds reports: that buffer is
/// one page, and a report has at least four bytes.
fn page_note_ring_words(geometry: &Geometry) -> u32 {
    geometry.page_bytes
}

impl NvramValidityNotes {
    /// Returns the index of the NVRAM word with the open block at index `slot` of `noted_open_blocks`.
    fn open_block_word_index(&self, slot: usize) -> usize {
        self.first_nvram_word + FIRST_OPEN_BLOCK_WORD_INDEX + slot
    }

    /// Returns the index of the NVRAM word for the page note with this number; each word of the ring buffer names one
    /// page that may be invalid.
    fn page_note_word_index(&self, number: u32) -> usize {
        self.open_block_word_index(self.noted_open_blocks.len())
            + (number % self.page_note_ring_words) as usize
    }

    /// Returns how many page notes recovery still needs. Each names a page that may be invalid.
    fn needed_page_note_count(&self) -> u32 {
        self.next_page_note_number.wrapping_sub(self.oldest_needed_page_note_number)
    }
}

/// Encodes a page or block number as an NVRAM word; 0 is left to mean "none".
fn number_to_nvram_word(number: u32) -> u64 {
    u64::from(number) + 1
}

/// Decodes a page or block number that [`number_to_nvram_word`] encoded; `None` if the word means "none".
fn number_from_nvram_word(word: u64) -> Option<u32> {
    u32::try_from(word.checked_sub(1)?).ok()
}

impl FlashPageStore {
    /// Makes the store keep, in NVRAM from word `first_nvram_word` on ([`validity_note_nvram_words`] words), notes that
    /// name the data pages whose validity on flash may be outdated. Recovery reads the notes that these words had
    /// before the power loss ([`FlashPageStore::read_nvram_validity_notes`]).
    ///
    /// # Errors
    /// [`Error::InvalidOptions`] if the medium has too little NVRAM.
    pub(crate) fn enable_nvram_validity_notes(&mut self, first_nvram_word: usize) -> Result<()> {
        let needed_words = first_nvram_word as u64 + validity_note_nvram_words(&self.geometry);
        if (self.nvram().len() as u64) < needed_words {
            let part = "the notes for recovery by first pages";
            return Err(Error::of_small_nvram(part, needed_words * 8, self.nvram().len()));
        }
        let slots = MAX_OPEN_DATA_BLOCKS_PER_POOL * self.allocation_pools;
        self.nvram_validity_notes = Some(Box::new(NvramValidityNotes {
            first_nvram_word,
            noted_open_blocks: vec![None; slots as usize],
            validity_known_until_sequence: 0,
            page_note_ring_words: page_note_ring_words(&self.geometry),
            next_page_note_number: 0,
            oldest_needed_page_note_number: 0,
            oldest_page_note_kept_at_next_validity_flush: 0,
            validity_durable_until_sequence: 0,
        }));
        Ok(())
    }

    /// Whether the device keeps notes in NVRAM that name, for recovery, the data pages whose validity on flash may be
    /// outdated.
    #[inline]
    pub(crate) fn keeps_nvram_validity_notes(&self) -> bool {
        self.nvram_validity_notes.is_some()
    }

    /// Returns the sequence number stored in NVRAM up to which every data page is mapped or reported as invalid; 0 if
    /// the device keeps no such notes.
    pub(super) fn validity_known_until_sequence(&self) -> u64 {
        self.nvram_validity_notes.as_ref().map_or(0, |notes| notes.validity_known_until_sequence)
    }

    /// Returns the map entry for a logical page that is mapped to the stored `unit` (flash page or chunk member)
    /// without a program. If the device keeps notes for recovery, the entry has a mark (the bind mark), by which
    /// recovery finds shared and revived pages.
    #[inline]
    pub(crate) fn map_entry_if_mapped_without_program(&self, unit: StoredUnit) -> StoredUnit {
        if self.keeps_nvram_validity_notes() { unit.marked_as_mapped_without_program() } else { unit }
    }

    /// Returns the unit (flash page or chunk member) that the map entry `entry` names, without the flag bit that marks
    /// a page mapped without a program.
    #[inline]
    pub(crate) fn unit_named_by_map_entry(&self, entry: StoredUnit) -> StoredUnit {
        if self.keeps_nvram_validity_notes() { entry.without_mapping_mark() } else { entry }
    }

    /// Writes to NVRAM that a map entry will no longer name `unit` (flash page or chunk member). Does nothing if the
    /// device keeps no notes for recovery. If `unit` is a chunk member, the caller must have made room for the note
    /// ([`FlashPageStore::are_change_notes_full`]).
    ///
    /// # Errors
    /// Power loss.
    #[inline]
    pub(crate) fn write_note_of_replaced_unit(&mut self, unit: StoredUnit) -> Result<()> {
        let pages = self.geometry.pages();
        if self.nvram_validity_notes.is_none() || unit == StoredUnit::NONE {
            Ok(())
        } else if is_flash_page(unit, pages) {
            self.write_note_of_maybe_invalid_page(Ppn(unit.0))
        } else {
            self.write_change_note_of_chunk(chunk_and_member_of(unit, pages).0)
        }
    }

    /// Writes to NVRAM that the data page `ppn` may be invalid although page validity on flash does not list it. Does
    /// nothing if the device keeps no notes for recovery.
    ///
    /// # Errors
    /// Power loss.
    pub(crate) fn write_note_of_maybe_invalid_page(&mut self, ppn: Ppn) -> Result<()> {
        let Some(notes) = &mut self.nvram_validity_notes else { return Ok(()) };
        let number = notes.next_page_note_number;
        let word = u64::from(number) << 32 | number_to_nvram_word(ppn.0);
        let index = notes.page_note_word_index(number);
        notes.next_page_note_number = number.wrapping_add(1);
        self.store_nvram_word(index, word)
    }

    /// Writes to NVRAM, for recovery, that GC is about to move the data pages of `victim`. Does nothing if the device
    /// keeps no notes for recovery.
    ///
    /// # Errors
    /// Power loss.
    pub(crate) fn write_note_of_gc_victim(&mut self, victim: BlockId) -> Result<()> {
        let Some(notes) = &self.nvram_validity_notes else { return Ok(()) };
        let word = notes.first_nvram_word + GC_VICTIM_WORD_INDEX;
        self.store_nvram_word(word, number_to_nvram_word(victim.0))
    }

    /// Calls [`FlashPageStore::advance_validity_known_until_sequence`] if enough pages were programmed since its last
    /// call. Must be called between requests only. Does nothing if the device keeps no notes for recovery.
    ///
    /// # Errors
    /// Power loss.
    #[inline]
    pub(crate) fn advance_validity_known_until_sequence_if_due(&mut self) -> Result<()> {
        match &self.nvram_validity_notes {
            Some(notes)
                if self.last_sequence - notes.validity_known_until_sequence
                    >= PROGRAMS_PER_KNOWN_VALIDITY_UPDATE =>
            {
                self.advance_validity_known_until_sequence()
            }
            _ => Ok(()),
        }
    }

    /// Writes two notes to NVRAM: all pages programmed so far are mapped or reported as invalid; and which blocks are
    /// open for data. Must be called between requests only. Does nothing if the device keeps no notes for recovery.
    ///
    /// # Errors
    /// Power loss.
    #[cold]
    pub(crate) fn advance_validity_known_until_sequence(&mut self) -> Result<()> {
        let is_data = |stream: Stream| stream.kind() == PageKind::Data;
        let open: Vec<BlockId> = self
            .open_blocks_by_stream()
            .filter(|&(stream, _)| is_data(stream))
            .map(|(_, block)| block)
            .collect();
        let Some(mut notes) = self.nvram_validity_notes.take() else { return Ok(()) };
        let outcome = self.store_open_data_blocks_and_sequence(&mut notes, &open);
        self.nvram_validity_notes = Some(notes);
        outcome
    }

    /// Stores in NVRAM the blocks `open`, and then the last sequence number, up to which every data page is mapped or
    /// reported as invalid. If power is lost between the two stores, NVRAM has the new blocks and the old number. This
    /// does no harm: all pages of the blocks that were replaced are mapped or reported as invalid.
    fn store_open_data_blocks_and_sequence(
        &mut self,
        notes: &mut NvramValidityNotes,
        open: &[BlockId],
    ) -> Result<()> {
        let mut missing = open.iter().filter(|&&block| !notes.noted_open_blocks.contains(&Some(block)));
        let mut changes = Vec::new();
        for (slot, noted) in notes.noted_open_blocks.iter().enumerate() {
            if noted.is_none_or(|block| !open.contains(&block))
                && let Some(&block) = missing.next()
            {
                changes.push((slot, block));
            }
        }
        assert!(missing.next().is_none(), "there is a word for each block that can be open for data");
        for (slot, block) in changes {
            self.store_nvram_word(notes.open_block_word_index(slot), number_to_nvram_word(block.0))?;
            notes.noted_open_blocks[slot] = Some(block);
        }
        self.store_nvram_word(notes.first_nvram_word + VALIDITY_KNOWN_UNTIL_WORD_INDEX, self.last_sequence)?;
        notes.validity_known_until_sequence = self.last_sequence;
        Ok(())
    }

    /// If the buffer of page validity was written to flash since the last call, drops the page notes (notes in NVRAM
    /// that a page may be invalid) that are no longer needed. `durable_until_sequence` is the sequence number up to
    /// which page validity is durable. Does nothing if the device keeps no notes for recovery.
    ///
    /// # Errors
    /// Power loss.
    #[inline]
    pub(crate) fn drop_page_notes_after_validity_flush(&mut self, durable_until_sequence: u64) -> Result<()> {
        match &self.nvram_validity_notes {
            Some(notes) if notes.validity_durable_until_sequence != durable_until_sequence => {
                self.drop_notes_of_pages_with_durable_validity(durable_until_sequence)
            }
            _ => Ok(()),
        }
    }

    /// Drops the page notes (notes in NVRAM that a page may be invalid) that a write of the page-validity buffer has
    /// made unnecessary: the notes made before this write began or, if its start was not recorded, before the previous
    /// write ended. Page validity is now durable up to the sequence number `durable_until_sequence`.
    #[cold]
    fn drop_notes_of_pages_with_durable_validity(&mut self, durable_until_sequence: u64) -> Result<()> {
        let Some(notes) = &mut self.nvram_validity_notes else { return Ok(()) };
        notes.validity_durable_until_sequence = durable_until_sequence;
        notes.oldest_needed_page_note_number = notes.oldest_page_note_kept_at_next_validity_flush;
        notes.oldest_page_note_kept_at_next_validity_flush = notes.next_page_note_number;
        let (word, number) = (
            notes.first_nvram_word + OLDEST_NEEDED_PAGE_NOTE_WORD_INDEX,
            notes.oldest_needed_page_note_number,
        );
        self.store_nvram_word(word, number.into())
    }

    /// Records that a write of the page-validity buffer begins. It will contain the reports of all pages that are noted
    /// in NVRAM as possibly invalid so far. No other write of the buffer may be in progress. Does nothing if the device
    /// keeps no notes for recovery.
    pub(crate) fn record_validity_flush_start(&mut self) {
        if let Some(notes) = &mut self.nvram_validity_notes {
            notes.oldest_page_note_kept_at_next_validity_flush = notes.next_page_note_number;
        }
    }

    /// Drops all page notes (notes in NVRAM that a page may be invalid), because all records of page validity are on
    /// flash.
    ///
    /// # Errors
    /// Power loss.
    pub(crate) fn drop_all_page_notes(&mut self, durable_until_sequence: u64) -> Result<()> {
        self.record_validity_flush_start();
        self.drop_notes_of_pages_with_durable_validity(durable_until_sequence)
    }

    /// Whether recovery still needs more than half of the ring buffer of page notes (notes in NVRAM that a page may be
    /// invalid). Then the page-validity buffer should be written to flash, which makes them obsolete.
    #[inline]
    pub(crate) fn are_nvram_page_notes_nearly_full(&self) -> bool {
        self.nvram_validity_notes
            .as_ref()
            .is_some_and(|notes| notes.needed_page_note_count() > notes.page_note_ring_words / 2)
    }

    /// Reads from NVRAM, after a loss of RAM, the notes that name the data pages whose validity on flash may be
    /// outdated. Later notes continue their numbers. Returns `None` if the device keeps no such notes, or if page notes
    /// were overwritten because the ring buffer was full.
    pub(crate) fn read_nvram_validity_notes(&mut self) -> Option<FoundValidityNotes> {
        let mut notes = self.nvram_validity_notes.take()?;
        let found = self.load_notes_from_nvram(&mut notes);
        self.nvram_validity_notes = Some(notes);
        found
    }

    /// Reads the notes for recovery from NVRAM, and copies to `notes` what RAM keeps of them: the open blocks, the
    /// sequence number up to which validity is known, and the numbers of the page notes. Returns `None` if page notes
    /// were overwritten because the ring buffer was full.
    fn load_notes_from_nvram(&self, notes: &mut NvramValidityNotes) -> Option<FoundValidityNotes> {
        let words = self.nvram();
        let first_needed = words[notes.first_nvram_word + OLDEST_NEEDED_PAGE_NOTE_WORD_INDEX] as u32;
        let (first_open_block_word, ring_start) =
            (notes.open_block_word_index(0), notes.page_note_word_index(0));
        let noted =
            words[ring_start..ring_start + notes.page_note_ring_words as usize].iter().filter_map(|&word| {
                let number = (word >> 32) as u32;
                Some((
                    number.wrapping_sub(first_needed),
                    Ppn(number_from_nvram_word(word & u64::from(u32::MAX))?),
                ))
            });
        // Numbers wrap, so a page is needed if its number is less than half of all numbers ahead.
        let mut needed: Vec<(u32, Ppn)> = noted.filter(|&(ahead, _)| ahead < 1 << 31).collect();
        needed.sort_unstable_by_key(|&(ahead, _)| ahead);
        let count = needed.last().map_or(0, |&(ahead, _)| ahead + 1);
        for (slot, block) in notes.noted_open_blocks.iter_mut().enumerate() {
            *block = number_from_nvram_word(words[first_open_block_word + slot]).map(BlockId);
        }
        notes.validity_known_until_sequence = words[notes.first_nvram_word + VALIDITY_KNOWN_UNTIL_WORD_INDEX];
        notes.oldest_needed_page_note_number = first_needed;
        notes.oldest_page_note_kept_at_next_validity_flush = first_needed;
        notes.next_page_note_number = first_needed.wrapping_add(count);
        notes.validity_durable_until_sequence = 0;
        (count <= notes.page_note_ring_words).then(|| FoundValidityNotes {
            validity_known_until_sequence: notes.validity_known_until_sequence,
            victim: number_from_nvram_word(words[notes.first_nvram_word + GC_VICTIM_WORD_INDEX]).map(BlockId),
            open_blocks: notes.noted_open_blocks.iter().flatten().copied().collect(),
            maybe_invalid_pages: needed.into_iter().map(|(_, ppn)| ppn).collect(),
        })
    }
}
