//! Records in NVRAM of the pages that content mechanisms shared, revived, compressed or stored as deltas. From them a
//! recovery learns which logical pages refer to which stored units, without reading translation pages or scanning
//! chunks.
//!
//! A map on flash says where each logical page is, but only the whole map says which pages are shared, and which
//! members of a compressed chunk are live; and only all pages of deltas say which delta is current. With these records
//! a recovery knows it from NVRAM. There are five kinds ([`ContentRecord`]), of 8 bytes each, in a hash table with
//! linear probing:
//!
//! - each map entry on flash with a bind mark;
//! - each shared or revived unit (flash page or chunk member) whose writer is mapped to another unit now: the logical
//!   page in the OOB of the page, or in the directory of the chunk;
//! - each chunk: its first flash page, and which of its members are live;
//! - each further flash page of a chunk;
//! - the flash page of each durable delta. Its record is what makes a delta durable: until it is stored, the delta
//!   before is current, if there is one.
//!
//! **What makes a record true.** Between requests the records are exact, except that a dirty map entry, which NVRAM
//! holds as well (`mapping/nvram_entries.rs`), replaces the record of its logical page. Within a request they follow
//! the map: a record is added before the state that it describes can be needed, and removed or corrected after the map
//! entry has changed. Recovery drops records that nothing confirms, and looks at what the request in progress may have
//! concerned: pages that the notes name ([`super::notes`]), and what is *noted* here before a map entry changes: chunks
//! of which the entry stops naming a member, and logical pages that have a delta and are bound to another page. Recovery
//! asks the map about each member of such a chunk, and compares the base of the delta of such a logical page. A note
//! holds until the records are true again.
//!
//! The price: NVRAM, one store for each change, two more for a request that replaces chunk members, and room that has
//! to be limited (`content/table_limit.rs`).
//!
//! Invariant: a table position is reached from the position that belongs to its key without crossing a vacant word. A
//! loss of power while records close a gap leaves one of them twice, which [`Store::load_content_records`] mends.

use arrayvec::ArrayVec;
use rustc_hash::FxHashMap;

use super::Store;
use crate::address::{Lpn, MAX_CHUNK_MEMBERS, Ppn, Unit};
use crate::data::mix_bits;
use crate::error::{Error, Result};
use crate::nand::Nand;
use crate::tables::prefetch::load_into_cpu_cache;

/// Maximum number of content records in excess of the limit up to which contents may be shared or packed. The excess is
/// for a chunk that is being written, and for one that GC packs again.
const MAX_RECORDS_BEYOND_LIMIT: u64 = 32;

/// Number of NVRAM words for the notes of chunks from which the request in progress takes members, and of logical pages
/// with deltas that it binds.
const NOTE_WORDS: usize = 32;
/// Number of NVRAM words before these notes. They hold the number of the note round: notes of earlier rounds are
/// obsolete.
const NOTE_ROUND_WORDS: usize = 1;
/// Bit of a note that is set if the note names a logical page, and not a chunk.
const LOGICAL_PAGE_NOTE_BIT: u32 = 1 << 31;

/// A record of content mechanisms (such as deduplication and compression) in NVRAM, for recovery.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum ContentRecord {
    /// The translation page of `lpn` on flash holds the map entry `entry`. Its bind mark says that a bind, not a
    /// program, gave the logical page its content.
    BoundEntry { lpn: Lpn, entry: Unit },
    /// Logical pages are bound to `unit` (mapped to it without a program), and the logical page that wrote `unit` is
    /// mapped to another unit.
    UnitWithoutWriter { unit: Unit },
    /// The compressed chunk `number` begins in `first_page`. Bit `k` of `live_members` is set if a logical page is
    /// mapped to member `k`; at least one bit is set.
    Chunk { number: u32, first_page: Ppn, live_members: u8 },
    /// `ppn` is the page with the index `index` (1 or more) of the compressed chunk `number`.
    FurtherChunkPage { number: u32, index: u8, ppn: Ppn },
    /// The durable delta (compressed difference) of `lpn` is in the flash page `ppn`.
    Delta { lpn: Lpn, ppn: Ppn },
}

/// Key of a content record in NVRAM: the logical page, unit or chunk page that the record describes. There is at most
/// one record per key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ContentRecordKey {
    /// Map entry of this logical page on flash, whose bind mark says that a bind, not a program, gave the page its
    /// content.
    BoundEntryOf(Lpn),
    /// Unit (flash page or chunk member) whose writer, the logical page for which it was stored, is mapped to another
    /// unit.
    UnitWithoutWriter(Unit),
    /// Page of a compressed chunk, by the number of the chunk and the index of the page.
    ChunkPage(u32, u8),
    /// Durable delta (compressed difference on flash) of this logical page.
    DeltaOf(Lpn),
}

/// Bit of a content record in NVRAM (a word of 8 bytes) that is set unless the record is that of a bound map entry or
/// of a further page of a chunk.
const NOT_ENTRY_OR_FURTHER_PAGE_BIT: u64 = 1 << 63;
/// Bit of a content record in NVRAM that is set if the key is an LPN: in bound map entries, where it is the bind mark,
/// and in deltas.
const KEYED_BY_LPN_BIT: u64 = 1 << 31;
/// Lower half of the content record (a word of 8 bytes) of a unit without its writer. It is greater than the lower half
/// of the record of any chunk, which has the first page of the chunk.
const UNIT_WITHOUT_WRITER_VALUE: u64 = (1 << 31) - 1;
/// Number of bits for the index of a member or page in its chunk, below the chunk number; together they have 31 bits.
const CHUNK_INDEX_BITS: u32 = MAX_CHUNK_MEMBERS.trailing_zeros();
/// Mask of the low bits that hold the index of a member or page in its chunk.
const CHUNK_INDEX_MASK: u32 = MAX_CHUNK_MEMBERS as u32 - 1;
/// Checks that the bits for the live members of a chunk fit into its record word. On a device with bind marks and
/// chunks, PPNs and chunk numbers have two bits less than units, because each flash page may be a chunk with
/// [`MAX_CHUNK_MEMBERS`] members. So the two halves of a word have four bits left, one for each member.
const _: () = assert!(MAX_CHUNK_MEMBERS == 4);

impl ContentRecord {
    /// Returns the key under which the record is stored: the logical page, unit or chunk page that it describes.
    pub(crate) fn key(self) -> ContentRecordKey {
        match self {
            Self::BoundEntry { lpn, .. } => ContentRecordKey::BoundEntryOf(lpn),
            Self::UnitWithoutWriter { unit } => ContentRecordKey::UnitWithoutWriter(unit),
            Self::Chunk { number, .. } => ContentRecordKey::ChunkPage(number, 0),
            Self::FurtherChunkPage { number, index, .. } => ContentRecordKey::ChunkPage(number, index),
            Self::Delta { lpn, .. } => ContentRecordKey::DeltaOf(lpn),
        }
    }

    /// Encodes the record as an NVRAM word: key in bits 32 to 62, value in the lower half. No word is 0, because the
    /// index of a further page is not 0.
    fn to_word(self) -> u64 {
        let word = |key: u32, value: u32| u64::from(key) << 32 | u64::from(value);
        let with_index = |number: u32, index: u32| number << CHUNK_INDEX_BITS | index;
        match self {
            Self::BoundEntry { lpn, entry } => word(lpn.0, entry.0),
            Self::FurtherChunkPage { number, index, ppn } => word(with_index(number, index.into()), ppn.0),
            Self::UnitWithoutWriter { unit } => {
                NOT_ENTRY_OR_FURTHER_PAGE_BIT | UNIT_WITHOUT_WRITER_VALUE | word(unit.0, 0)
            }
            Self::Chunk { number, first_page, live_members } => {
                let (low, high) =
                    (u32::from(live_members) & CHUNK_INDEX_MASK, u32::from(live_members) >> CHUNK_INDEX_BITS);
                NOT_ENTRY_OR_FURTHER_PAGE_BIT | word(with_index(number, high), with_index(first_page.0, low))
            }
            Self::Delta { lpn, ppn } => NOT_ENTRY_OR_FURTHER_PAGE_BIT | KEYED_BY_LPN_BIT | word(lpn.0, ppn.0),
        }
    }

    /// Decodes the record in an NVRAM word that is not vacant.
    fn from_word(word: u64) -> Self {
        let (key, value) = ((word >> 32) as u32 & u32::MAX >> 1, word as u32);
        let ppn = Ppn(value & u32::MAX >> 1);
        match (word & NOT_ENTRY_OR_FURTHER_PAGE_BIT != 0, word & KEYED_BY_LPN_BIT != 0) {
            (false, true) => Self::BoundEntry { lpn: Lpn(key), entry: Unit(value) },
            (false, false) => Self::FurtherChunkPage {
                number: key >> CHUNK_INDEX_BITS,
                index: (key & CHUNK_INDEX_MASK) as u8,
                ppn,
            },
            (true, true) => Self::Delta { lpn: Lpn(key), ppn },
            (true, false) if u64::from(value) == UNIT_WITHOUT_WRITER_VALUE => {
                Self::UnitWithoutWriter { unit: Unit(key) }
            }
            (true, false) => Self::Chunk {
                number: key >> CHUNK_INDEX_BITS,
                first_page: Ppn(value >> CHUNK_INDEX_BITS),
                live_members: ((key & CHUNK_INDEX_MASK) << CHUNK_INDEX_BITS | value & CHUNK_INDEX_MASK) as u8,
            },
        }
    }
}

/// Number of keys with consecutive numbers whose words are adjacent in the table, because they are often needed
/// together: the pages of a chunk, or logical pages written in their order.
const KEYS_PER_GROUP: u32 = MAX_CHUNK_MEMBERS as u32;

impl ContentRecordKey {
    /// Returns the hash value of the key's group (keys with consecutive numbers), and the position of the key in the
    /// group.
    fn group_hash_and_position(self) -> (u64, usize) {
        let (kind, number) = match self {
            Self::BoundEntryOf(lpn) => (0, lpn.0),
            Self::UnitWithoutWriter(unit) => (1, unit.0),
            Self::ChunkPage(number, index) => (2, number * KEYS_PER_GROUP + u32::from(index)),
            Self::DeltaOf(lpn) => (3, lpn.0),
        };
        let group = mix_bits(kind << 32 | u64::from(number / KEYS_PER_GROUP));
        (group, (number % KEYS_PER_GROUP) as usize)
    }
}

/// A change of the content records that waits until NVRAM has the new map entries of all pages that GC moved.
#[derive(Clone, Copy, Debug)]
enum ContentRecordChange {
    /// Change that stores this record in NVRAM, in place of the record with the same key.
    Put(ContentRecord),
    /// Change that removes the record with this key from NVRAM, if there is one.
    Remove(ContentRecordKey),
}

impl ContentRecordChange {
    /// Returns the key of the record that the change stores or removes.
    fn key(&self) -> ContentRecordKey {
        match *self {
            Self::Put(record) => record.key(),
            Self::Remove(key) => key,
        }
    }
}

/// Hash table of the records of content mechanisms in NVRAM: where it is, and what RAM stores about it.
#[derive(Clone, Debug)]
pub(super) struct ContentRecords {
    /// Index of the first NVRAM word of the hash table of records. The notes of chunks are before it.
    first_nvram_word: usize,
    /// Number of NVRAM words of the hash table; each holds one record or is vacant.
    table_words: usize,
    /// Number of records in the table now.
    record_count: u64,
    /// Number of records up to which further contents may be shared or packed; a few more records are allowed to
    /// complete a change.
    max_records: u64,
    /// Changes that are applied once NVRAM has the new map entries of all pages that GC moved, in order.
    waiting_changes: Vec<ContentRecordChange>,
    /// What was noted since the waiting changes were last applied (in the present note round): numbers of chunks, and
    /// logical pages with [`LOGICAL_PAGE_NOTE_BIT`].
    notes_of_round: ArrayVec<u32, NOTE_WORDS>,
    /// Number of the present note round, which grows when notes are dropped; modulo 2^32.
    note_round: u32,
}

/// Returns the number of NVRAM words (8 bytes each) of a table for at most `limit` records, and of the notes of chunks.
pub(crate) fn content_record_words(limit: u64) -> u64 {
    if limit == 0 { 0 } else { (NOTE_ROUND_WORDS + NOTE_WORDS) as u64 + record_table_words(limit) }
}

/// Returns the number of words of the record table for at most `limit` records: a quarter more than records, so that a
/// search passes few words.
fn record_table_words(limit: u64) -> u64 {
    (limit + MAX_RECORDS_BEYOND_LIMIT).div_ceil(4) * 5
}

impl ContentRecords {
    /// Returns the position in the NVRAM hash table at which a search for the record with `key` begins.
    fn home_position_of(&self, key: ContentRecordKey) -> usize {
        let (group, place) = key.group_hash_and_position();
        let home = ((u128::from(group) * self.table_words as u128) >> 64) as usize + place;
        if home < self.table_words { home } else { home - self.table_words }
    }

    /// Returns the position in the NVRAM hash table that a search examines after `position`.
    fn next_position(&self, position: usize) -> usize {
        if position + 1 == self.table_words { 0 } else { position + 1 }
    }

    /// Returns the NVRAM word at a position of the hash table of records.
    fn word_at<N: Nand>(&self, io: &Store<N>, position: usize) -> u64 {
        io.nvram()[self.first_nvram_word + position]
    }

    /// Stores a word at a position of the table in NVRAM.
    fn store_word<N: Nand>(&self, io: &mut Store<N>, position: usize, word: u64) -> Result<()> {
        io.store_nvram_word(self.first_nvram_word + position, word)
    }

    /// Returns the position of the record with `key`, or the vacant position at which the search for it ends.
    fn find_record<N: Nand>(&self, io: &Store<N>, key: ContentRecordKey) -> (usize, Option<ContentRecord>) {
        let mut position = self.home_position_of(key);
        loop {
            match self.word_at(io, position) {
                0 => return (position, None),
                word if ContentRecord::from_word(word).key() == key => {
                    return (position, Some(ContentRecord::from_word(word)));
                }
                _ => position = self.next_position(position),
            }
        }
    }

    /// Whether the position of the hash table is vacant, or holds a record that a search for its key finds.
    fn is_vacant_or_reachable<N: Nand>(&self, io: &Store<N>, position: usize) -> bool {
        let word = self.word_at(io, position);
        word == 0 || self.find_record(io, ContentRecord::from_word(word).key()).0 == position
    }

    /// Stores `record` in the table in NVRAM, in place of the record with the same key.
    fn put_record<N: Nand>(&mut self, io: &mut Store<N>, record: ContentRecord) -> Result<()> {
        let (position, found) = self.find_record(io, record.key());
        if found == Some(record) {
            return Ok(());
        }
        if found.is_none() {
            assert!(
                self.record_count < self.max_records + MAX_RECORDS_BEYOND_LIMIT,
                "the limit of records is kept"
            );
        }
        self.store_word(io, position, record.to_word())?;
        self.record_count += u64::from(found.is_none());
        Ok(())
    }

    /// Removes the record with `key` from the table in NVRAM, if there is one.
    fn remove_record<N: Nand>(&mut self, io: &mut Store<N>, key: ContentRecordKey) -> Result<()> {
        match self.find_record(io, key) {
            (position, Some(_)) => self.close_gap(io, position),
            (_, None) => Ok(()),
        }
    }

    /// Removes the record at position `gap`. Each later record whose search passes the gap is moved into it and leaves
    /// a new gap; the last gap becomes vacant.
    fn close_gap<N: Nand>(&mut self, io: &mut Store<N>, mut gap: usize) -> Result<()> {
        let mut position = gap;
        loop {
            position = self.next_position(position);
            let word = self.word_at(io, position);
            if word == 0 {
                break;
            }
            let home = self.home_position_of(ContentRecord::from_word(word).key());
            if self.search_distance(home, position) >= self.search_distance(gap, position) {
                self.store_word(io, gap, word)?;
                gap = position;
            }
        }
        self.store_word(io, gap, 0)?;
        self.record_count -= 1;
        Ok(())
    }

    /// Returns the number of steps of a search in the hash table from position `from` to position `to`.
    fn search_distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.table_words - from }
    }

    /// Reads the words at which searches for `keys` begin, so that their cache misses overlap
    /// ([`crate::tables::prefetch`]).
    #[inline]
    fn prefetch<N: Nand>(&self, io: &Store<N>, keys: impl Iterator<Item = ContentRecordKey>) {
        load_into_cpu_cache(keys.map(|key| self.word_at(io, self.home_position_of(key))));
    }

    /// Returns the index of the NVRAM word with the number of the present note round; chunk notes of earlier rounds are
    /// obsolete.
    fn round_word_index(&self) -> usize {
        self.first_nvram_word - NOTE_WORDS - NOTE_ROUND_WORDS
    }

    /// Stores `note` (of a chunk or a logical page) in NVRAM, unless this round has it already.
    fn store_note<N: Nand>(&mut self, io: &mut Store<N>, note: u32) -> Result<()> {
        if self.notes_of_round.contains(&note) {
            return Ok(());
        }
        let index = self.round_word_index() + NOTE_ROUND_WORDS + self.notes_of_round.len();
        self.notes_of_round.push(note);
        io.store_nvram_word(index, u64::from(self.note_round) << 32 | u64::from(note))
    }

    /// Makes all notes of chunks and logical pages obsolete, by starting a new note round with one store to NVRAM.
    fn drop_notes<N: Nand>(&mut self, io: &mut Store<N>) -> Result<()> {
        if self.notes_of_round.is_empty() {
            return Ok(());
        }
        self.notes_of_round.clear();
        self.note_round = self.note_round.wrapping_add(1);
        io.store_nvram_word(self.round_word_index(), self.note_round.into())
    }

    /// Reads the notes of the present round from NVRAM. On a new device, whose round is 0, vacant words count as notes of
    /// chunk 0, which does no harm: notes may name too many chunks.
    fn load_notes<N: Nand>(&mut self, io: &Store<N>) {
        let words = &io.nvram()[self.round_word_index()..self.first_nvram_word];
        self.note_round = words[0] as u32;
        let is_needed = |word: &&u64| (**word >> 32) as u32 == self.note_round;
        self.notes_of_round =
            words[NOTE_ROUND_WORDS..].iter().filter(is_needed).map(|&word| word as u32).collect();
    }

    /// Applies one change to the table in NVRAM: stores or removes a record.
    fn apply_change<N: Nand>(&mut self, io: &mut Store<N>, change: ContentRecordChange) -> Result<()> {
        match change {
            ContentRecordChange::Put(record) => self.put_record(io, record),
            ContentRecordChange::Remove(key) => self.remove_record(io, key),
        }
    }

    /// Counts the records in NVRAM. Removes those that a search does not find, because power was lost after they had
    /// been moved and before their old position was vacant. Returns all others.
    fn load_records<N: Nand>(&mut self, io: &mut Store<N>) -> Result<Vec<ContentRecord>> {
        self.waiting_changes.clear();
        self.load_notes(io);
        let table = self.first_nvram_word..self.first_nvram_word + self.table_words;
        self.record_count = io.nvram()[table].iter().filter(|&&word| word != 0).count() as u64;
        for position in 0..self.table_words {
            // Another record may come to the position, which a search then finds.
            if !self.is_vacant_or_reachable(io, position) {
                self.close_gap(io, position)?;
            }
        }
        let words = (0..self.table_words).map(|position| self.word_at(io, position));
        Ok(words.filter(|&word| word != 0).map(ContentRecord::from_word).collect())
    }
}

impl<N: Nand> Store<N> {
    /// Makes the store keep records of content mechanisms in NVRAM from word `first_nvram_word` on, at most `limit` and
    /// a few more ([`content_record_words`]). A recovery reads what the words hold from before
    /// ([`Store::load_content_records`]).
    ///
    /// # Errors
    /// [`Error::InvalidOptions`] if the medium has too little NVRAM.
    pub(crate) fn enable_content_records(&mut self, first_nvram_word: usize, limit: u64) -> Result<()> {
        if limit == 0 {
            return Ok(());
        }
        let needed_words = first_nvram_word as u64 + content_record_words(limit);
        if (self.nvram().len() as u64) < needed_words {
            let part = "the records of shared and compressed pages";
            return Err(Error::of_small_nvram(part, needed_words * 8, self.nvram().len()));
        }
        self.content_records = Some(Box::new(ContentRecords {
            first_nvram_word: first_nvram_word + NOTE_ROUND_WORDS + NOTE_WORDS,
            table_words: record_table_words(limit) as usize,
            record_count: 0,
            max_records: limit,
            waiting_changes: Vec::new(),
            notes_of_round: ArrayVec::new(),
            note_round: 0,
        }));
        Ok(())
    }

    /// Whether changes of content records wait to be applied, or notes to be dropped, by
    /// [`Store::apply_waiting_content_record_changes`].
    #[inline]
    pub(crate) fn has_waiting_content_record_changes(&self) -> bool {
        self.content_records
            .as_ref()
            .is_some_and(|records| !records.waiting_changes.is_empty() || !records.notes_of_round.is_empty())
    }

    /// Reads the words of the records of these chunks, so that the cache misses of later changes overlap
    /// ([`crate::tables::prefetch`]).
    pub(crate) fn prefetch_chunk_records(&self, numbers: impl Iterator<Item = u32>) {
        if let Some(records) = &self.content_records {
            records.prefetch(self, numbers.map(|number| ContentRecordKey::ChunkPage(number, 0)));
        }
    }

    /// Whether no further chunk can be noted before [`Store::apply_waiting_content_record_changes`].
    #[inline]
    pub(crate) fn are_chunk_notes_full(&self) -> bool {
        !self.has_room_for_notes(1)
    }

    /// Whether `count` further chunks and logical pages can be noted before
    /// [`Store::apply_waiting_content_record_changes`].
    #[inline]
    pub(crate) fn has_room_for_notes(&self, count: usize) -> bool {
        self.content_records
            .as_ref()
            .is_none_or(|records| records.notes_of_round.remaining_capacity() >= count)
    }

    /// Notes in NVRAM that map entries which name members of the chunk `number` are about to change. The note holds
    /// until the resulting changes of records are applied. Does nothing if the device keeps no records.
    ///
    /// # Errors
    /// Power loss.
    pub(crate) fn note_chunk(&mut self, number: u32) -> Result<()> {
        self.with_content_records(|records, io| records.store_note(io, number))
    }

    /// Notes in NVRAM that the map entry of `lpn`, which has a delta, is about to name another page without a program.
    /// The note holds until the record of the delta is removed: recovery compares the base of the delta with the page
    /// that the map names. Does nothing if the device keeps no records.
    ///
    /// # Errors
    /// Power loss.
    pub(crate) fn note_bind_of_delta(&mut self, lpn: Lpn) -> Result<()> {
        self.with_content_records(|records, io| records.store_note(io, lpn.0 | LOGICAL_PAGE_NOTE_BIT))
    }

    /// Calls `change` with the content records and the store; does nothing if the device keeps no records.
    fn with_content_records(
        &mut self,
        change: impl FnOnce(&mut ContentRecords, &mut Self) -> Result<()>,
    ) -> Result<()> {
        let Some(mut records) = self.content_records.take() else { return Ok(()) };
        let outcome = change(&mut records, self);
        self.content_records = Some(records);
        outcome
    }

    /// Stores `record` in NVRAM, in place of the record with the same key. Changes that wait are applied first, so
    /// NVRAM must have the map entries of all pages that GC moved. Does nothing if the device keeps no records.
    ///
    /// # Errors
    /// Power loss.
    pub(crate) fn put_content_record(&mut self, record: ContentRecord) -> Result<()> {
        self.apply_waiting_content_record_changes()?;
        self.with_content_records(|records, io| records.put_record(io, record))
    }

    /// Stores `record` in NVRAM, in place of the record with the same key, at the next call of
    /// [`Store::apply_waiting_content_record_changes`]. Does nothing if the device keeps no records.
    #[inline]
    pub(crate) fn put_content_record_later(&mut self, record: ContentRecord) {
        if let Some(records) = &mut self.content_records {
            records.waiting_changes.push(ContentRecordChange::Put(record));
        }
    }

    /// Removes the record with this key, if there is one, at the next call of
    /// [`Store::apply_waiting_content_record_changes`]. Until then, recovery may need the record: the map entry that
    /// makes it obsolete may not be in NVRAM yet.
    #[inline]
    pub(crate) fn remove_content_record_later(&mut self, key: ContentRecordKey) {
        if let Some(records) = &mut self.content_records {
            records.waiting_changes.push(ContentRecordChange::Remove(key));
        }
    }

    /// Applies the waiting changes of content records, and then drops the notes. NVRAM must have the map entries
    /// of all pages that GC moved.
    ///
    /// # Errors
    /// Power loss.
    #[inline]
    pub(crate) fn apply_waiting_content_record_changes(&mut self) -> Result<()> {
        if self.has_waiting_content_record_changes() {
            self.apply_all_waiting_content_record_changes()
        } else {
            Ok(())
        }
    }

    /// Applies the waiting changes of content records in order, then drops the notes of chunks.
    #[inline(never)]
    fn apply_all_waiting_content_record_changes(&mut self) -> Result<()> {
        self.with_content_records(|records, io| {
            let mut changes = std::mem::take(&mut records.waiting_changes);
            records.prefetch(io, changes.iter().map(ContentRecordChange::key));
            let outcome = changes.iter().try_for_each(|&change| records.apply_change(io, change));
            changes.clear();
            records.waiting_changes = changes;
            outcome?;
            records.drop_notes(io)
        })
    }

    /// Returns the chunks that are noted. After a loss of power, map entries may have stopped naming members of these.
    pub(crate) fn noted_chunks(&self) -> Vec<u32> {
        self.notes().filter(|note| note & LOGICAL_PAGE_NOTE_BIT == 0).collect()
    }

    /// Returns the logical pages that are noted. After a loss of power, they may have been bound to another page than
    /// the base of their recorded delta.
    pub(crate) fn noted_logical_pages(&self) -> impl Iterator<Item = Lpn> + '_ {
        self.notes()
            .filter(|note| note & LOGICAL_PAGE_NOTE_BIT != 0)
            .map(|note| Lpn(note & !LOGICAL_PAGE_NOTE_BIT))
    }

    /// Returns the notes of the present round: numbers of chunks, and logical pages with [`LOGICAL_PAGE_NOTE_BIT`].
    fn notes(&self) -> impl Iterator<Item = u32> + '_ {
        self.content_records.iter().flat_map(|records| records.notes_of_round.iter().copied())
    }

    /// Returns the records of content mechanisms in NVRAM, after a loss of RAM. Stores to NVRAM only if power was lost
    /// while a record was being removed.
    ///
    /// # Errors
    /// Power loss.
    pub(crate) fn load_content_records(&mut self) -> Result<Vec<ContentRecord>> {
        let mut found = Vec::new();
        self.with_content_records(|records, io| {
            found = records.load_records(io)?;
            Ok(())
        })?;
        Ok(found)
    }

    /// Checks that a search finds each record of content mechanisms in NVRAM, and returns the records by key, as they
    /// are once the waiting changes are applied. For the audit.
    pub(crate) fn check_content_records(
        &self,
    ) -> std::result::Result<FxHashMap<ContentRecordKey, ContentRecord>, String> {
        let Some(records) = &self.content_records else { return Ok(FxHashMap::default()) };
        let mut positions = 0..records.table_words;
        if let Some(lost) = positions.find(|&position| !records.is_vacant_or_reachable(self, position)) {
            return Err(format!(
                "a search must find each record of shared and compressed pages in NVRAM, but does not find that in \
                 word {lost}"
            ));
        }
        let words = (0..records.table_words).map(|position| records.word_at(self, position));
        let found = words.filter(|&word| word != 0).map(ContentRecord::from_word);
        let mut by_key: FxHashMap<_, _> = found.map(|record| (record.key(), record)).collect();
        if by_key.len() as u64 != records.record_count {
            return Err(format!(
                "NVRAM has {} records of shared and compressed pages, so their counter must say the same, but says {}",
                by_key.len(),
                records.record_count
            ));
        }
        for &change in &records.waiting_changes {
            match change {
                ContentRecordChange::Put(record) => by_key.insert(record.key(), record),
                ContentRecordChange::Remove(key) => by_key.remove(&key),
            };
        }
        Ok(by_key)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::address::MAX_UNITS_WITH_BIND_MARK;
    use crate::nand::{CutOutcome, Geometry, PowerCutNand, RetainedFields, SimNand};
    use crate::store::FreeBlockOrder;

    /// Maximum number of records in the tested table.
    const TEST_MAX_RECORDS: u64 = 40;

    /// The records as a naive model: what the table must contain. Key and value are the same record.
    type RecordModel = BTreeMap<ContentRecord, ContentRecord>;

    /// Creates a store on a small medium that can lose power, with an NVRAM table for [`TEST_MAX_RECORDS`] records.
    fn store_with_room_for_records() -> Store<PowerCutNand<SimNand>> {
        let geometry = Geometry {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: 1,
            blocks_per_plane: 4,
            pages_per_block: 4,
            page_bytes: 512,
            spare_bytes: 64,
            superblock_planes: 1,
        };
        let medium = SimNand::new(geometry, RetainedFields::default());
        let medium = medium.with_nvram(8 * (3 + content_record_words(TEST_MAX_RECORDS)));
        let mut store =
            Store::new(PowerCutNand::new(medium, None, CutOutcome::NoEffect), FreeBlockOrder::Fifo);
        store.enable_content_records(3, TEST_MAX_RECORDS).expect("NVRAM has room");
        store
    }

    /// Draws a record of random kind with one of 30 numbers, so that keys repeat.
    fn draw_record(random: &mut Xoshiro256PlusPlus) -> ContentRecord {
        let (number, value) = (random.random_range(0..30), random.random_range(1..1000));
        match random.random_range(0..5) {
            0 => ContentRecord::BoundEntry { lpn: Lpn(number), entry: Unit(value).with_bind_mark() },
            1 => ContentRecord::UnitWithoutWriter { unit: Unit(number) },
            2 => ContentRecord::Delta { lpn: Lpn(number), ppn: Ppn(value) },
            3 => {
                ContentRecord::Chunk { number, first_page: Ppn(value), live_members: 1 + (value % 15) as u8 }
            }
            _ => ContentRecord::FurtherChunkPage { number, index: 1 + (value % 2) as u8, ppn: Ppn(value) },
        }
    }

    /// Returns the record of the model with the key of `record`.
    fn record_with_key_of(model: &RecordModel, record: ContentRecord) -> Option<ContentRecord> {
        model.values().copied().find(|known| known.key() == record.key())
    }

    /// Stores the record in the tested table, or removes the one with its key.
    fn change_store(
        store: &mut Store<PowerCutNand<SimNand>>,
        record: ContentRecord,
        is_added: bool,
    ) -> Result<()> {
        if is_added {
            return store.put_content_record(record);
        }
        store.remove_content_record_later(record.key());
        store.apply_waiting_content_record_changes()
    }

    /// Stores the record in the model, or removes the one with its key, as [`change_store`] does in the table.
    fn change_model(model: &mut RecordModel, record: ContentRecord, is_added: bool) {
        if let Some(known) = record_with_key_of(model, record) {
            model.remove(&known);
        }
        if is_added {
            model.insert(record, record);
        }
    }

    /// Sorts records, so that two sets of records can be compared.
    fn sort_records(mut records: Vec<ContentRecord>) -> Vec<ContentRecord> {
        records.sort_unstable();
        records
    }

    /// After a loss of power during a change, the records in NVRAM are those before or those after the change. The test
    /// finds a gap that is left vacant, which hides records after it, and a moved record whose old position is vacated
    /// first.
    #[test]
    fn records_are_those_before_or_after_a_change_that_a_loss_of_power_interrupts() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
        let (mut store, mut model) = (store_with_room_for_records(), RecordModel::new());
        let (mut interrupted, mut left_twice) = (0, 0);
        for _ in 0..12_000 {
            let record = draw_record(&mut random);
            let is_full =
                model.len() as u64 == TEST_MAX_RECORDS && record_with_key_of(&model, record).is_none();
            let is_added = random.random_bool(0.6) && !is_full;
            let mut cut = store.clone();
            cut.nand_mut().restore_power(Some(random.random_range(0..3)));
            let before = model.clone();
            change_store(&mut store, record, is_added).expect("power is on");
            change_model(&mut model, record, is_added);
            if change_store(&mut cut, record, is_added).is_err() {
                cut.nand_mut().restore_power(None);
                let found = sort_records(cut.load_content_records().expect("power is on"));
                left_twice += u64::from(cut.nand().cuttable_operations_since_power_restore() > 0);
                interrupted += 1;
                let is_known = [&before, &model].iter().any(|model| found.iter().eq(model.values()));
                assert!(is_known, "{found:?} is neither {before:?} nor {model:?}");
                cut.check_content_records().expect("a search finds each record");
            }
            let found = sort_records(store.check_content_records().expect("sound").into_values().collect());
            assert!(found.iter().eq(model.values()), "{found:?} is not {model:?}");
        }
        assert!(interrupted > 1000 && left_twice > 20, "{interrupted} {left_twice}");
    }

    /// Notes in NVRAM of the chunks that a request changes survive a loss of RAM, until the changes of records are
    /// applied.
    #[test]
    fn chunks_are_noted_until_the_changes_of_records_are_applied() {
        let mut store = store_with_room_for_records();
        store.load_content_records().expect("power is on");
        store.apply_waiting_content_record_changes().expect("power is on");
        let numbers: Vec<u32> = (0..NOTE_WORDS as u32).map(|k| 7 * k).collect();
        for _ in 0..3 {
            for &number in numbers.iter().chain(&numbers[..5]) {
                assert!(number != numbers[31] || !store.are_chunk_notes_full());
                store.note_chunk(number).expect("power is on");
            }
            assert!(store.are_chunk_notes_full() && store.has_waiting_content_record_changes());
            store.load_content_records().expect("power is on");
            assert_eq!(store.noted_chunks(), numbers, "after a loss of RAM");
            store.apply_waiting_content_record_changes().expect("power is on");
            store.load_content_records().expect("power is on");
            assert!(store.noted_chunks().is_empty() && !store.are_chunk_notes_full());
        }
    }

    #[test]
    fn a_record_survives_being_encoded_as_an_nvram_word() {
        let largest = (1 << 31) - 2;
        let last_chunk = MAX_UNITS_WITH_BIND_MARK as u32 / (1 + MAX_CHUNK_MEMBERS as u32) - 1;
        for record in [
            ContentRecord::BoundEntry { lpn: Lpn(0), entry: Unit(0).with_bind_mark() },
            ContentRecord::BoundEntry { lpn: Lpn(largest), entry: Unit(largest).with_bind_mark() },
            ContentRecord::UnitWithoutWriter { unit: Unit(0) },
            ContentRecord::UnitWithoutWriter { unit: Unit(largest) },
            ContentRecord::Delta { lpn: Lpn(0), ppn: Ppn(0) },
            ContentRecord::Delta { lpn: Lpn(largest), ppn: Ppn(largest) },
            ContentRecord::Chunk { number: 0, first_page: Ppn(0), live_members: 1 },
            ContentRecord::Chunk { number: last_chunk, first_page: Ppn(last_chunk), live_members: 0b1010 },
            ContentRecord::Chunk { number: last_chunk, first_page: Ppn(last_chunk), live_members: 0b1111 },
            ContentRecord::FurtherChunkPage { number: 0, index: 1, ppn: Ppn(0) },
            ContentRecord::FurtherChunkPage { number: last_chunk, index: 2, ppn: Ppn(last_chunk) },
        ] {
            assert!(record.to_word() != 0);
            assert_eq!(ContentRecord::from_word(record.to_word()), record);
        }
    }
}
