//! Notes in NVRAM that keep a recovery short: which data pages may differ from what map and page validity on flash say.
//!
//! After a loss of power, flash lacks the newest reports of invalid pages, and it has pages that the interrupted
//! request programmed but did not map. To find both without these notes, recovery reads the spare area of every page.
//! The notes name them in words of 8 bytes:
//!
//! - the last *settled* program: each page that was programmed up to then was either mapped or reported as invalid.
//!   Which blocks were open for data then is noted, too, before the program is. So pages that were programmed later are
//!   in these blocks, or in blocks whose first page is newer;
//! - the block that GC is emptying;
//! - the pages that map entries stopped naming since the buffer of page validity was last written, in a ring of words.
//!   Another word tells which of them are still needed. A page is needed until two writes of the buffer are complete,
//!   because its report may have come while the first one went on.
//!
//! A page or a victim is noted before the change that the note is for, and notes may name too many pages: recovery asks
//! the map about each page that is noted. So no store needs to be atomic with another one. The engine writes the buffer
//! of page validity when half of the ring is needed. If one request should note more pages than are left, recovery
//! notices that notes were overwritten, and reads all spare areas.
//!
//! The price: one store for every page that is replaced, one for every victim, and one or a few every
//! [`PROGRAMS_PER_KNOWN_VALIDITY_NOTE`] programs.
//!
//! Invariant: between requests, each data page that is invalid, and that page validity on flash does not list as
//! invalid, is in the ring. Pages that it lists although they are valid need no note: they are in blocks that were
//! opened since the buffer was written, or a bind has revived them, and their map entries have bind marks.

use super::{Store, Stream};
use crate::address::{BlockId, OptionalAddress, Ppn, Unit, chunk_and_member_of, is_flash_page};
use crate::error::{Error, Result};
use crate::nand::{Geometry, Nand, PageKind};

/// Number of page programs after which two notes for recovery are renewed: the last settled program (all data pages up
/// to it are mapped or reported as invalid) and the blocks open for data.
const PROGRAMS_PER_KNOWN_VALIDITY_NOTE: u64 = 128;

/// Index, among the note words in NVRAM, of the word with the sequence number of the last settled program: all data
/// pages up to it are mapped or reported as invalid.
const KNOWN_VALIDITY_WORD_INDEX: usize = 0;
/// Index, among the note words in NVRAM, of the word with the block that GC empties.
const VICTIM_WORD_INDEX: usize = 1;
/// Index, among the note words in NVRAM, of the word with the number of the first noted page that is still needed.
const FIRST_NEEDED_NOTE_WORD_INDEX: usize = 2;
/// Index, among the note words in NVRAM, of the first word with an open block.
const FIRST_OPEN_BLOCK_WORD_INDEX: usize = 3;

/// Maximum number of blocks per pool that can be open for data: one of host writes, one of GC copies, and for each of
/// these one that is set aside partly filled.
const MAX_OPEN_DATA_BLOCKS_PER_POOL: u32 = 4;

/// Notes for recovery in NVRAM, which name the pages whose validity on flash may be outdated: where the notes are, and
/// what RAM stores about them.
#[derive(Clone, Debug)]
pub(super) struct RecoveryNotes {
    /// Index of the first of the NVRAM words that hold the notes.
    first_nvram_word: usize,
    /// Open data blocks as noted in NVRAM.
    noted_open_blocks: Vec<Option<BlockId>>,
    /// Sequence number noted in NVRAM as settled: every data page programmed up to it is mapped or reported as invalid.
    validity_known_until_sequence: u64,
    /// Number of NVRAM words of the ring of notes; each word names one noted page.
    note_ring_words: u32,
    /// Number of the page that is noted next: the count of pages noted so far, modulo 2^32.
    next_note_number: u32,
    /// Number of the first noted page that recovery still needs.
    first_needed_note_number: u32,
    /// Number of the first noted page that recovery still needs once the next write of the buffer of page validity is
    /// complete: that write includes the reports of all pages noted earlier.
    first_note_kept_at_next_flush: u32,
    /// Sequence number up to which page validity was durable when notes were last dropped.
    validity_durable_until_sequence: u64,
}

/// Content of the notes in NVRAM, as recovery finds it.
#[derive(Debug)]
pub(crate) struct FoundNotes {
    /// Sequence number of the last program up to which every data page was mapped or reported as invalid.
    pub(crate) validity_known_until_sequence: u64,
    /// Block that GC was emptying, or emptied last.
    pub(crate) victim: Option<BlockId>,
    /// Blocks that were open for data when `validity_known_until_sequence` was noted.
    pub(crate) open_blocks: Vec<BlockId>,
    /// Data pages that may be invalid, because map entries stopped naming them; page validity on flash may not list
    /// them yet.
    pub(crate) maybe_invalid_pages: Vec<Ppn>,
}

/// Returns the number of NVRAM words (8 bytes each) of the notes for recovery of a device.
pub(crate) fn recovery_note_words(geometry: &Geometry) -> u64 {
    FIRST_OPEN_BLOCK_WORD_INDEX as u64
        + u64::from(MAX_OPEN_DATA_BLOCKS_PER_POOL * geometry.allocation_pools())
        + u64::from(note_ring_words(geometry))
}

/// Returns the number of NVRAM words of the ring of notes, one for each noted page. The ring has at least four times as
/// many words as the buffer of page validity holds reports: the buffer is one page, and a report has at least four
/// bytes.
fn note_ring_words(geometry: &Geometry) -> u32 {
    geometry.page_bytes
}

impl RecoveryNotes {
    /// Returns the index in NVRAM of the word with open block number `slot` of the noted ones.
    fn open_block_word_index(&self, slot: usize) -> usize {
        self.first_nvram_word + FIRST_OPEN_BLOCK_WORD_INDEX + slot
    }

    /// Returns the index in NVRAM of the word of the ring for the noted page with this number.
    fn ring_word_index(&self, number: u32) -> usize {
        self.open_block_word_index(self.noted_open_blocks.len()) + (number % self.note_ring_words) as usize
    }

    /// Returns the number of noted pages that recovery still needs.
    fn needed_note_count(&self) -> u32 {
        self.next_note_number.wrapping_sub(self.first_needed_note_number)
    }
}

/// Encodes a number as an NVRAM word; 0 is left to mean "none".
fn encode_noted_number(number: u32) -> u64 {
    u64::from(number) + 1
}

/// Decodes a number that [`encode_noted_number`] encoded; `None` if the word means "none".
fn decode_noted_number(word: u64) -> Option<u32> {
    u32::try_from(word.checked_sub(1)?).ok()
}

impl<N: Nand> Store<N> {
    /// Keeps notes for recovery in NVRAM from word `first_nvram_word` on ([`recovery_note_words`] words). A recovery
    /// reads what the words hold from before ([`Store::read_recovery_notes`]).
    ///
    /// # Errors
    /// [`Error::InvalidOptions`] if the medium has too little NVRAM.
    pub(crate) fn enable_recovery_notes(&mut self, first_nvram_word: usize) -> Result<()> {
        let needed_words = first_nvram_word as u64 + recovery_note_words(&self.geometry);
        if (self.nvram().len() as u64) < needed_words {
            let part = "the notes for recovery by first pages";
            return Err(Error::of_small_nvram(part, needed_words * 8, self.nvram().len()));
        }
        let slots = MAX_OPEN_DATA_BLOCKS_PER_POOL * self.allocation_pools;
        self.recovery_notes = Some(Box::new(RecoveryNotes {
            first_nvram_word,
            noted_open_blocks: vec![None; slots as usize],
            validity_known_until_sequence: 0,
            note_ring_words: note_ring_words(&self.geometry),
            next_note_number: 0,
            first_needed_note_number: 0,
            first_note_kept_at_next_flush: 0,
            validity_durable_until_sequence: 0,
        }));
        Ok(())
    }

    /// Whether the device keeps notes for recovery in NVRAM.
    #[inline]
    pub(crate) fn keeps_recovery_notes(&self) -> bool {
        self.recovery_notes.is_some()
    }

    /// Returns the sequence number of the last program that is noted as settled (every data page up to it is mapped or
    /// reported as invalid); 0 without notes.
    pub(super) fn validity_known_until_sequence(&self) -> u64 {
        self.recovery_notes.as_ref().map_or(0, |notes| notes.validity_known_until_sequence)
    }

    /// Returns the map entry that a bind to `unit` gives to a logical page: with a bind mark if the device keeps notes
    /// for recovery, because recovery then finds shared and revived pages by these marks.
    #[inline]
    pub(crate) fn entry_of_bind(&self, unit: Unit) -> Unit {
        if self.keeps_recovery_notes() { unit.with_bind_mark() } else { unit }
    }

    /// Returns the unit that the map entry `entry` names, without the bind mark that it may have.
    #[inline]
    pub(crate) fn unit_of_entry(&self, entry: Unit) -> Unit {
        if self.keeps_recovery_notes() { entry.without_bind_mark() } else { entry }
    }

    /// Notes that a map entry is about to stop naming `unit`. Does nothing without notes. If `unit` is a chunk member,
    /// the caller must have made room ([`Store::are_chunk_notes_full`]).
    ///
    /// # Errors
    /// Power loss.
    #[inline]
    pub(crate) fn note_replaced_unit(&mut self, unit: Unit) -> Result<()> {
        let pages = self.geometry.pages();
        if self.recovery_notes.is_none() || unit == Unit::NONE {
            Ok(())
        } else if is_flash_page(unit, pages) {
            self.note_maybe_invalid_page(Ppn(unit.0))
        } else {
            self.note_chunk(chunk_and_member_of(unit, pages).0)
        }
    }

    /// Notes that the data page `ppn` may be invalid although page validity on flash does not list it. Does nothing
    /// without notes.
    ///
    /// # Errors
    /// Power loss.
    pub(crate) fn note_maybe_invalid_page(&mut self, ppn: Ppn) -> Result<()> {
        let Some(notes) = &mut self.recovery_notes else { return Ok(()) };
        let number = notes.next_note_number;
        let word = u64::from(number) << 32 | encode_noted_number(ppn.0);
        let index = notes.ring_word_index(number);
        notes.next_note_number = number.wrapping_add(1);
        self.store_nvram_word(index, word)
    }

    /// Notes in NVRAM, for recovery, that GC is about to move the data pages of `victim`. Does nothing on a device that
    /// keeps no such notes.
    ///
    /// # Errors
    /// Power loss.
    pub(crate) fn note_victim(&mut self, victim: BlockId) -> Result<()> {
        let Some(notes) = &self.recovery_notes else { return Ok(()) };
        let word = notes.first_nvram_word + VICTIM_WORD_INDEX;
        self.store_nvram_word(word, encode_noted_number(victim.0))
    }

    /// Notes, if enough pages were programmed since this was last noted, that all pages programmed so far are mapped or
    /// reported as invalid. Must be called between requests only. Does nothing without notes.
    ///
    /// # Errors
    /// Power loss.
    #[inline]
    pub(crate) fn renew_known_validity_note_if_due(&mut self) -> Result<()> {
        match &self.recovery_notes {
            Some(notes)
                if self.last_sequence - notes.validity_known_until_sequence
                    >= PROGRAMS_PER_KNOWN_VALIDITY_NOTE =>
            {
                self.renew_known_validity_note()
            }
            _ => Ok(()),
        }
    }

    /// Notes in NVRAM that all pages programmed so far are mapped or reported as invalid, and which blocks are open.
    /// Must be called between requests only. Does nothing without notes.
    ///
    /// # Errors
    /// Power loss.
    #[cold]
    pub(crate) fn renew_known_validity_note(&mut self) -> Result<()> {
        let is_data = |stream: Stream| stream.kind() == PageKind::Data;
        let open: Vec<BlockId> = self
            .open_blocks_by_stream()
            .filter(|&(stream, _)| is_data(stream))
            .map(|(_, block)| block)
            .collect();
        let Some(mut notes) = self.recovery_notes.take() else { return Ok(()) };
        let outcome = self.store_known_validity_note(&mut notes, &open);
        self.recovery_notes = Some(notes);
        outcome
    }

    /// Stores two notes in NVRAM: first the blocks `open`, then the last sequence number as settled (all data pages up
    /// to it are mapped or reported as invalid). If power is lost between both, the settled number is older than the
    /// noted blocks; all pages of open blocks that are not noted any more are settled.
    fn store_known_validity_note(&mut self, notes: &mut RecoveryNotes, open: &[BlockId]) -> Result<()> {
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
            self.store_nvram_word(notes.open_block_word_index(slot), encode_noted_number(block.0))?;
            notes.noted_open_blocks[slot] = Some(block);
        }
        self.store_nvram_word(notes.first_nvram_word + KNOWN_VALIDITY_WORD_INDEX, self.last_sequence)?;
        notes.validity_known_until_sequence = self.last_sequence;
        Ok(())
    }

    /// Drops notes that are no longer needed, if the buffer of page validity was written to flash since the last call.
    /// `durable_until_sequence` is the sequence number up to which page validity is durable. Does nothing without
    /// notes.
    ///
    /// # Errors
    /// Power loss.
    #[inline]
    pub(crate) fn note_validity_flush_end(&mut self, durable_until_sequence: u64) -> Result<()> {
        match &self.recovery_notes {
            Some(notes) if notes.validity_durable_until_sequence != durable_until_sequence => {
                self.drop_notes_of_flushed_reports(durable_until_sequence)
            }
            _ => Ok(()),
        }
    }

    /// Drops, after a write of the buffer of page validity, the notes of pages whose reports are in this write: those
    /// noted before the write began or, if its start was not recorded, before the previous write ended. Page validity
    /// is now durable up to the sequence number `durable_until_sequence`.
    #[cold]
    fn drop_notes_of_flushed_reports(&mut self, durable_until_sequence: u64) -> Result<()> {
        let Some(notes) = &mut self.recovery_notes else { return Ok(()) };
        notes.validity_durable_until_sequence = durable_until_sequence;
        notes.first_needed_note_number = notes.first_note_kept_at_next_flush;
        notes.first_note_kept_at_next_flush = notes.next_note_number;
        let (word, number) =
            (notes.first_nvram_word + FIRST_NEEDED_NOTE_WORD_INDEX, notes.first_needed_note_number);
        self.store_nvram_word(word, number.into())
    }

    /// Records that the buffer of page validity is about to be written, while no other write of it is in progress: this
    /// write will include the reports of all pages noted so far. Does nothing without notes.
    pub(crate) fn note_validity_flush_start(&mut self) {
        if let Some(notes) = &mut self.recovery_notes {
            notes.first_note_kept_at_next_flush = notes.next_note_number;
        }
    }

    /// Drops all notes of pages, because all records of page validity are on flash.
    ///
    /// # Errors
    /// Power loss.
    pub(crate) fn forget_noted_pages(&mut self, durable_until_sequence: u64) -> Result<()> {
        self.note_validity_flush_start();
        self.drop_notes_of_flushed_reports(durable_until_sequence)
    }

    /// Whether the ring of noted pages is so full that the buffer of page validity should be written.
    #[inline]
    pub(crate) fn are_recovery_notes_nearly_full(&self) -> bool {
        self.recovery_notes
            .as_ref()
            .is_some_and(|notes| notes.needed_note_count() > notes.note_ring_words / 2)
    }

    /// Reads the notes from NVRAM after a loss of RAM, so that later notes continue them. Returns `None` if the device
    /// keeps no notes, or if more pages were noted than the ring has words.
    pub(crate) fn read_recovery_notes(&mut self) -> Option<FoundNotes> {
        let mut notes = self.recovery_notes.take()?;
        let found = self.load_notes_from_nvram(&mut notes);
        self.recovery_notes = Some(notes);
        found
    }

    /// Reads the notes from the NVRAM words, and enters the noted open blocks and numbers into `notes`. Returns `None`
    /// if more pages were noted than the ring has words.
    fn load_notes_from_nvram(&self, notes: &mut RecoveryNotes) -> Option<FoundNotes> {
        let words = self.nvram();
        let first_needed = words[notes.first_nvram_word + FIRST_NEEDED_NOTE_WORD_INDEX] as u32;
        let (first_open_block_word, ring_start) = (notes.open_block_word_index(0), notes.ring_word_index(0));
        let noted =
            words[ring_start..ring_start + notes.note_ring_words as usize].iter().filter_map(|&word| {
                let number = (word >> 32) as u32;
                Some((
                    number.wrapping_sub(first_needed),
                    Ppn(decode_noted_number(word & u64::from(u32::MAX))?),
                ))
            });
        // Numbers wrap, so a page is needed if its number is less than half of all numbers ahead.
        let mut needed: Vec<(u32, Ppn)> = noted.filter(|&(ahead, _)| ahead < 1 << 31).collect();
        needed.sort_unstable_by_key(|&(ahead, _)| ahead);
        let count = needed.last().map_or(0, |&(ahead, _)| ahead + 1);
        for (slot, block) in notes.noted_open_blocks.iter_mut().enumerate() {
            *block = decode_noted_number(words[first_open_block_word + slot]).map(BlockId);
        }
        notes.validity_known_until_sequence = words[notes.first_nvram_word + KNOWN_VALIDITY_WORD_INDEX];
        notes.first_needed_note_number = first_needed;
        notes.first_note_kept_at_next_flush = first_needed;
        notes.next_note_number = first_needed.wrapping_add(count);
        notes.validity_durable_until_sequence = 0;
        (count <= notes.note_ring_words).then(|| FoundNotes {
            validity_known_until_sequence: notes.validity_known_until_sequence,
            victim: decode_noted_number(words[notes.first_nvram_word + VICTIM_WORD_INDEX]).map(BlockId),
            open_blocks: notes.noted_open_blocks.iter().flatten().copied().collect(),
            maybe_invalid_pages: needed.into_iter().map(|(_, ppn)| ppn).collect(),
        })
    }
}
