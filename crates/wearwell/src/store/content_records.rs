//! Records in NVRAM of the pages that content mechanisms shared, revived, compressed or stored as deltas. From them a
//! recovery learns which logical pages refer to which stored units (flash pages or members of compressed chunks),
//! without reading translation pages or scanning chunks.
//!
//! A map on flash has the location of each logical page. But only the whole map tells which pages are shared, and which
//! members of a compressed chunk are live; and only all pages of deltas tell which delta is current. With these records
//! a recovery knows it from NVRAM. There are five kinds ([`ContentRecord`]), of 8 bytes each, in a hash table with
//! linear probing:
//!
//! - each map entry on flash with a bind mark: the logical page is mapped to stored content without a program;
//! - each shared or revived unit whose writer is mapped to another unit now. The writer is the logical page for which
//!   the unit was programmed; the OOB of the page, or the directory of the chunk, names it;
//! - each chunk: its first flash page, and which of its members are live;
//! - each further flash page of a chunk;
//! - the flash page of each durable delta. A delta becomes durable when its record is stored: until then, the delta
//!   before is current, if there is one.
//!
//! **When the records are exact.** Between requests the records are exact, with one exception: a dirty map entry, which
//! is in NVRAM, too (`mapping/nvram_entries.rs`), replaces the record of its logical page. Within a request the records
//! follow the map: a record is added before the state that it describes can be needed, and removed or corrected after
//! the map entry has changed. Recovery drops records that nothing confirms, and checks what the interrupted request may
//! have changed. This is named by two kinds of notes in NVRAM: the pages in [`super::recovery_notes`], and the *change
//! notes* here. A change note is written before a map entry changes. It names a chunk of which the entry will no longer
//! name a member, or a logical page with a delta that will be mapped to another page without a program. Recovery looks
//! up each member of such a chunk in the map, and compares the base of the delta of such a logical page. Change notes
//! are dropped when the records are exact again.
//!
//! The cost: NVRAM, one store for each change, two more for a request that replaces chunk members, and a limit on the
//! number of records (`content/table_limit.rs`).
//!
//! Invariant: a search that begins at the home position of a key reaches the record of the key without crossing a
//! vacant word. A loss of power while a gap in the table is being closed leaves one record in two positions.
//! [`FlashPageStore::load_content_records`] removes the second one.

use arrayvec::ArrayVec;
use rustc_hash::FxHashMap;

use super::FlashPageStore;
use crate::address::{Lpn, MAX_CHUNK_MEMBERS, Ppn, StoredUnit};
use crate::data::mix_bits;
use crate::error::{Error, Result};
use crate::tables::does_search_pass_gap;
use crate::tables::prefetch::load_into_cpu_cache;

/// Maximum number of content records in excess of the limit up to which contents may be shared or packed. The excess is
/// for a chunk that is being written, and for one that GC packs again.
const MAX_RECORDS_BEYOND_LIMIT: u64 = 32;

/// Number of NVRAM words for change notes. They name, for recovery, what the request in progress is about to change:
/// chunks that lose members, and logical pages with deltas that are mapped to another page without a program.
const CHANGE_NOTE_WORDS: usize = 32;
/// Number of NVRAM words before those of the change notes. They hold a generation number; change notes with an older
/// number are obsolete.
const CHANGE_NOTE_GENERATION_WORDS: usize = 1;
/// Bit of a change note (note in NVRAM about the request in progress) that is set if the note names a logical page, and
/// not a chunk.
const LPN_CHANGE_NOTE_BIT: u32 = 1 << 31;

/// A record of content mechanisms (such as deduplication and compression) in NVRAM, for recovery.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum ContentRecord {
    /// The map entry `entry` of `lpn`, which its translation page on flash contains. The logical page is mapped to
    /// stored content without a program, and the entry has the flag bit for this (bind mark).
    MapEntryWithoutProgram { lpn: Lpn, entry: StoredUnit },
    /// Logical pages are mapped to `unit` (flash page or chunk member) without a program, and the logical page that
    /// wrote `unit` is mapped to another unit.
    UnitWithWriterMappedElsewhere { unit: StoredUnit },
    /// The compressed chunk `number` begins in `first_page`. Bit `k` of `live_members` is set if a logical page is
    /// mapped to member `k`; at least one bit is set.
    Chunk { number: u32, first_page: Ppn, live_members: u8 },
    /// `ppn` is the page with the index `index` (1 or more) of the compressed chunk `number`.
    FurtherChunkPage { number: u32, index: u8, ppn: Ppn },
    /// The durable delta (compressed difference) of `lpn` is in the flash page `ppn`.
    Delta { lpn: Lpn, ppn: Ppn },
}

/// Key of a content record in NVRAM: what the record describes. This is a logical page, a unit (flash page or member of
/// a compressed chunk), or a page of a compressed chunk. There is at most one record per key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ContentRecordKey {
    /// Map entry on flash of this logical page, which is mapped to stored content without a program.
    MapEntryWithoutProgramOf(Lpn),
    /// Unit (flash page or chunk member) to which logical pages are mapped without a program, while the logical page
    /// that wrote it is mapped to another unit.
    UnitWithWriterMappedElsewhere(StoredUnit),
    /// Page of a compressed chunk, by the number of the chunk and the index of the page.
    ChunkPage(u32, u8),
    /// Durable delta (compressed difference on flash) of this logical page.
    DeltaOf(Lpn),
}

/// Bit of a content record in NVRAM (a word of 8 bytes). It is set in the records of first pages of chunks, of deltas,
/// and of stored units whose first writer (a logical page) has newer data elsewhere. It is clear in the records of map
/// entries and of further pages of a chunk.
const UNIT_FIRST_CHUNK_PAGE_OR_DELTA_BIT: u64 = 1 << 63;
/// Bit of a content record in NVRAM that is set if the key is an LPN: in records of deltas, and of map entries without
/// a program. In the latter it is also the flag bit of the entry (bind mark).
const KEYED_BY_LPN_BIT: u64 = 1 << 31;
/// Lower half of the content record (a word of 8 bytes) of a unit whose writer is mapped to another unit. It is greater
/// than the lower half of the record of any chunk, which has the first page of the chunk.
const WRITER_MAPPED_ELSEWHERE_CODE: u64 = (1 << 31) - 1;
/// Number of bits for the index of a member or page in its chunk. They follow the chunk number; together they have 31
/// bits.
const INDEX_IN_CHUNK_BITS: u32 = MAX_CHUNK_MEMBERS.trailing_zeros();
/// Mask of the low bits that hold the index of a member or page in its chunk.
const INDEX_IN_CHUNK_MASK: u32 = MAX_CHUNK_MEMBERS as u32 - 1;
/// Checks that the bits for the live members of a chunk fit into its record word. On a device with bind marks and
/// chunks, PPNs and chunk numbers have two bits less than units, because each flash page may be a chunk with
/// [`MAX_CHUNK_MEMBERS`] members. So the two halves of a word have four bits left, one for each member.
const _: () = assert!(MAX_CHUNK_MEMBERS == 4);

impl ContentRecord {
    /// Returns the key under which the record is stored: the logical page, unit or chunk page that it describes.
    pub(crate) fn key(self) -> ContentRecordKey {
        match self {
            Self::MapEntryWithoutProgram { lpn, .. } => ContentRecordKey::MapEntryWithoutProgramOf(lpn),
            Self::UnitWithWriterMappedElsewhere { unit } => {
                ContentRecordKey::UnitWithWriterMappedElsewhere(unit)
            }
            Self::Chunk { number, .. } => ContentRecordKey::ChunkPage(number, 0),
            Self::FurtherChunkPage { number, index, .. } => ContentRecordKey::ChunkPage(number, index),
            Self::Delta { lpn, .. } => ContentRecordKey::DeltaOf(lpn),
        }
    }

    /// Encodes the record as an NVRAM word: key in bits 32 to 62, value in the lower half. No word is 0, which means a
    /// vacant word: the index of a further chunk page is at least 1, and every other record has one of the two flag
    /// bits.
    fn to_word(self) -> u64 {
        let word = |key: u32, value: u32| u64::from(key) << 32 | u64::from(value);
        let with_index = |number: u32, index: u32| number << INDEX_IN_CHUNK_BITS | index;
        match self {
            Self::MapEntryWithoutProgram { lpn, entry } => word(lpn.0, entry.0),
            Self::FurtherChunkPage { number, index, ppn } => word(with_index(number, index.into()), ppn.0),
            Self::UnitWithWriterMappedElsewhere { unit } => {
                UNIT_FIRST_CHUNK_PAGE_OR_DELTA_BIT | WRITER_MAPPED_ELSEWHERE_CODE | word(unit.0, 0)
            }
            Self::Chunk { number, first_page, live_members } => {
                let (low, high) = (
                    u32::from(live_members) & INDEX_IN_CHUNK_MASK,
                    u32::from(live_members) >> INDEX_IN_CHUNK_BITS,
                );
                UNIT_FIRST_CHUNK_PAGE_OR_DELTA_BIT
                    | word(with_index(number, high), with_index(first_page.0, low))
            }
            Self::Delta { lpn, ppn } => {
                UNIT_FIRST_CHUNK_PAGE_OR_DELTA_BIT | KEYED_BY_LPN_BIT | word(lpn.0, ppn.0)
            }
        }
    }

    /// Decodes the record in an NVRAM word that is not vacant.
    fn from_word(word: u64) -> Self {
        let (key, value) = ((word >> 32) as u32 & u32::MAX >> 1, word as u32);
        let ppn = Ppn(value & u32::MAX >> 1);
        match (word & UNIT_FIRST_CHUNK_PAGE_OR_DELTA_BIT != 0, word & KEYED_BY_LPN_BIT != 0) {
            (false, true) => Self::MapEntryWithoutProgram { lpn: Lpn(key), entry: StoredUnit(value) },
            (false, false) => Self::FurtherChunkPage {
                number: key >> INDEX_IN_CHUNK_BITS,
                index: (key & INDEX_IN_CHUNK_MASK) as u8,
                ppn,
            },
            (true, true) => Self::Delta { lpn: Lpn(key), ppn },
            (true, false) if u64::from(value) == WRITER_MAPPED_ELSEWHERE_CODE => {
                Self::UnitWithWriterMappedElsewhere { unit: StoredUnit(key) }
            }
            (true, false) => Self::Chunk {
                number: key >> INDEX_IN_CHUNK_BITS,
                first_page: Ppn(value >> INDEX_IN_CHUNK_BITS),
                live_members: ((key & INDEX_IN_CHUNK_MASK) << INDEX_IN_CHUNK_BITS
                    | value & INDEX_IN_CHUNK_MASK) as u8,
            },
        }
    }
}

/// Number of consecutive keys whose records begin at adjacent words of the hash table in NVRAM, because they are often
/// needed together: the pages of a chunk, or consecutive logical pages.
const RECORD_KEYS_PER_HASH_GROUP: u32 = MAX_CHUNK_MEMBERS as u32;

impl ContentRecordKey {
    /// Returns the hash value of the key's group (keys with consecutive numbers), and the position of the key in the
    /// group.
    fn group_hash_and_position(self) -> (u64, usize) {
        let (kind, number) = match self {
            Self::MapEntryWithoutProgramOf(lpn) => (0, lpn.0),
            Self::UnitWithWriterMappedElsewhere(unit) => (1, unit.0),
            Self::ChunkPage(number, index) => (2, number * RECORD_KEYS_PER_HASH_GROUP + u32::from(index)),
            Self::DeltaOf(lpn) => (3, lpn.0),
        };
        let group = mix_bits(kind << 32 | u64::from(number / RECORD_KEYS_PER_HASH_GROUP));
        (group, (number % RECORD_KEYS_PER_HASH_GROUP) as usize)
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
    /// Index of the first NVRAM word of the hash table of records. The words before it hold change notes (notes about
    /// the request in progress).
    first_nvram_word: usize,
    /// Number of NVRAM words of the hash table; each holds one record or is vacant.
    table_words: usize,
    /// Number of content records (of shared pages, chunks and deltas) that the NVRAM table holds now.
    record_count: u64,
    /// Number of records up to which further contents may be shared or packed; a few more records are allowed to
    /// complete a change.
    max_records: u64,
    /// Changes of content records that wait until NVRAM has the new map entries of all pages that GC moved. They are
    /// applied in order.
    waiting_changes: Vec<ContentRecordChange>,
    /// Change notes since the waiting changes were last applied: numbers of chunks, and logical pages with
    /// [`LPN_CHANGE_NOTE_BIT`], that the request in progress is about to change.
    change_notes: ArrayVec<u32, CHANGE_NOTE_WORDS>,
    /// Generation number of the current change notes (notes in NVRAM about the request in progress). It grows by one
    /// when the notes are dropped, modulo 2^32.
    change_note_generation: u32,
}

/// Returns the number of NVRAM words (8 bytes each) of a table for at most `limit` content records, and of the change
/// notes (notes about the request in progress).
pub(crate) fn content_record_nvram_words(limit: u64) -> u64 {
    if limit == 0 {
        0
    } else {
        (CHANGE_NOTE_GENERATION_WORDS + CHANGE_NOTE_WORDS) as u64 + content_record_table_words(limit)
    }
}

/// Returns the number of NVRAM words of the hash table for at most `limit` records: a quarter more words than records,
/// so that searches are short.
fn content_record_table_words(limit: u64) -> u64 {
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
    fn word_at(&self, io: &FlashPageStore, position: usize) -> u64 {
        io.nvram()[self.first_nvram_word + position]
    }

    /// Stores a word at a position of the hash table of records in NVRAM.
    fn store_table_word(&self, io: &mut FlashPageStore, position: usize, word: u64) -> Result<()> {
        io.store_nvram_word(self.first_nvram_word + position, word)
    }

    /// Returns the position of the record with `key`, or the vacant position at which the search for it ends.
    fn find_record(&self, io: &FlashPageStore, key: ContentRecordKey) -> (usize, Option<ContentRecord>) {
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
    fn is_vacant_or_found_by_search(&self, io: &FlashPageStore, position: usize) -> bool {
        let word = self.word_at(io, position);
        word == 0 || self.find_record(io, ContentRecord::from_word(word).key()).0 == position
    }

    /// Stores `record` in the table in NVRAM, in place of the record with the same key.
    fn put_record(&mut self, io: &mut FlashPageStore, record: ContentRecord) -> Result<()> {
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
        self.store_table_word(io, position, record.to_word())?;
        self.record_count += u64::from(found.is_none());
        Ok(())
    }

    /// Removes the record with `key` from the table in NVRAM, if there is one.
    fn remove_record(&mut self, io: &mut FlashPageStore, key: ContentRecordKey) -> Result<()> {
        match self.find_record(io, key) {
            (position, Some(_)) => self.close_gap(io, position),
            (_, None) => Ok(()),
        }
    }

    /// Removes the record at position `gap`. Each later record whose search passes the gap is moved into it and leaves
    /// a new gap; the last gap becomes vacant.
    fn close_gap(&mut self, io: &mut FlashPageStore, mut gap: usize) -> Result<()> {
        let mut position = gap;
        loop {
            position = self.next_position(position);
            let word = self.word_at(io, position);
            if word == 0 {
                break;
            }
            let home = self.home_position_of(ContentRecord::from_word(word).key());
            if does_search_pass_gap(home, gap, position) {
                self.store_table_word(io, gap, word)?;
                gap = position;
            }
        }
        self.store_table_word(io, gap, 0)?;
        self.record_count -= 1;
        Ok(())
    }

    /// Reads the words at which searches for `keys` begin, so that their cache misses overlap
    /// ([`crate::tables::prefetch`]).
    #[inline]
    fn prefetch(&self, io: &FlashPageStore, keys: impl Iterator<Item = ContentRecordKey>) {
        load_into_cpu_cache(keys.map(|key| self.word_at(io, self.home_position_of(key))));
    }

    /// Returns the index of the NVRAM word with the generation number of the current change notes (notes about the
    /// request in progress). Change notes with another number are obsolete.
    fn change_note_generation_word_index(&self) -> usize {
        self.first_nvram_word - CHANGE_NOTE_WORDS - CHANGE_NOTE_GENERATION_WORDS
    }

    /// Stores a change note in NVRAM (number of a chunk or logical page that the request in progress is about to
    /// change), unless it was stored since the change notes were last dropped.
    fn store_change_note(&mut self, io: &mut FlashPageStore, note: u32) -> Result<()> {
        if self.change_notes.contains(&note) {
            return Ok(());
        }
        let index =
            self.change_note_generation_word_index() + CHANGE_NOTE_GENERATION_WORDS + self.change_notes.len();
        self.change_notes.push(note);
        io.store_nvram_word(index, u64::from(self.change_note_generation) << 32 | u64::from(note))
    }

    /// Drops all change notes (notes in NVRAM about the request in progress), by one store of a new generation number.
    fn drop_change_notes(&mut self, io: &mut FlashPageStore) -> Result<()> {
        if self.change_notes.is_empty() {
            return Ok(());
        }
        self.change_notes.clear();
        self.change_note_generation = self.change_note_generation.wrapping_add(1);
        io.store_nvram_word(self.change_note_generation_word_index(), self.change_note_generation.into())
    }

    /// Reads from NVRAM the change notes (notes about the request in progress) that have the current generation number.
    /// On a new device, whose generation is 0, vacant words count as notes of chunk 0. This does no harm, because
    /// recovery checks each chunk that a note names.
    fn load_change_notes(&mut self, io: &FlashPageStore) {
        let words = &io.nvram()[self.change_note_generation_word_index()..self.first_nvram_word];
        self.change_note_generation = words[0] as u32;
        let is_needed = |word: &&u64| (**word >> 32) as u32 == self.change_note_generation;
        self.change_notes =
            words[CHANGE_NOTE_GENERATION_WORDS..].iter().filter(is_needed).map(|&word| word as u32).collect();
    }

    /// Applies one change to the table in NVRAM: stores or removes a record.
    fn apply_change(&mut self, io: &mut FlashPageStore, change: ContentRecordChange) -> Result<()> {
        match change {
            ContentRecordChange::Put(record) => self.put_record(io, record),
            ContentRecordChange::Remove(key) => self.remove_record(io, key),
        }
    }

    /// Counts the records in NVRAM. Removes those that a search does not find, because power was lost after they had
    /// been moved and before their old position was vacant. Returns all others.
    fn load_records(&mut self, io: &mut FlashPageStore) -> Result<Vec<ContentRecord>> {
        self.waiting_changes.clear();
        self.load_change_notes(io);
        let table = self.first_nvram_word..self.first_nvram_word + self.table_words;
        self.record_count = io.nvram()[table].iter().filter(|&&word| word != 0).count() as u64;
        for position in 0..self.table_words {
            // Another record may come to the position, which a search then finds.
            if !self.is_vacant_or_found_by_search(io, position) {
                self.close_gap(io, position)?;
            }
        }
        let words = (0..self.table_words).map(|position| self.word_at(io, position));
        Ok(words.filter(|&word| word != 0).map(ContentRecord::from_word).collect())
    }
}

impl FlashPageStore {
    /// Makes the store keep records of content mechanisms in NVRAM from word `first_nvram_word` on
    /// ([`content_record_nvram_words`] words). Contents may be shared or packed up to `limit` records; a few more
    /// records are allowed to complete a change. Recovery reads the records that these words had before the power loss
    /// ([`FlashPageStore::load_content_records`]).
    ///
    /// # Errors
    /// [`Error::InvalidOptions`] if the medium has too little NVRAM.
    pub(crate) fn enable_content_records(&mut self, first_nvram_word: usize, limit: u64) -> Result<()> {
        if limit == 0 {
            return Ok(());
        }
        let needed_words = first_nvram_word as u64 + content_record_nvram_words(limit);
        if (self.nvram().len() as u64) < needed_words {
            let part = "the records of shared and compressed pages";
            return Err(Error::of_small_nvram(part, needed_words * 8, self.nvram().len()));
        }
        self.content_records = Some(Box::new(ContentRecords {
            first_nvram_word: first_nvram_word + CHANGE_NOTE_GENERATION_WORDS + CHANGE_NOTE_WORDS,
            table_words: content_record_table_words(limit) as usize,
            record_count: 0,
            max_records: limit,
            waiting_changes: Vec::new(),
            change_notes: ArrayVec::new(),
            change_note_generation: 0,
        }));
        Ok(())
    }

    /// Whether [`FlashPageStore::apply_waiting_content_record_changes`] has something to do: changes of content records
    /// wait to be applied, or change notes (notes in NVRAM about the request in progress) wait to be dropped.
    #[inline]
    pub(crate) fn has_deferred_content_record_changes(&self) -> bool {
        self.content_records
            .as_ref()
            .is_some_and(|records| !records.waiting_changes.is_empty() || !records.change_notes.is_empty())
    }

    /// Reads the words of the records of these chunks, so that the cache misses of later changes overlap
    /// ([`crate::tables::prefetch`]).
    pub(crate) fn prefetch_chunk_records(&self, numbers: impl Iterator<Item = u32>) {
        if let Some(records) = &self.content_records {
            records.prefetch(self, numbers.map(|number| ContentRecordKey::ChunkPage(number, 0)));
        }
    }

    /// Whether NVRAM has no room for a further change note (note about a chunk or logical page that is about to change)
    /// until [`FlashPageStore::apply_waiting_content_record_changes`] drops the notes.
    #[inline]
    pub(crate) fn are_change_notes_full(&self) -> bool {
        !self.has_room_for_change_notes(1)
    }

    /// Whether NVRAM has room for `count` further change notes (notes about chunks and logical pages that are about to
    /// change) until [`FlashPageStore::apply_waiting_content_record_changes`] drops the notes.
    #[inline]
    pub(crate) fn has_room_for_change_notes(&self, count: usize) -> bool {
        self.content_records.as_ref().is_none_or(|records| records.change_notes.remaining_capacity() >= count)
    }

    /// Writes a note to NVRAM: map entries that name members of chunk `number` are about to change. The note is valid
    /// until the resulting changes of records are applied. Does nothing if the device keeps no records.
    ///
    /// # Errors
    /// Power loss.
    pub(crate) fn write_change_note_of_chunk(&mut self, number: u32) -> Result<()> {
        self.with_content_records(|records, io| records.store_change_note(io, number))
    }

    /// Writes a note to NVRAM: `lpn`, which has a delta, is about to be mapped to another page without a program. The
    /// note is valid until the record of the delta is removed. Recovery compares the base of the delta with the page to
    /// which `lpn` is mapped. Does nothing if the device keeps no records.
    ///
    /// # Errors
    /// Power loss.
    pub(crate) fn write_change_note_of_lpn_with_delta(&mut self, lpn: Lpn) -> Result<()> {
        self.with_content_records(|records, io| records.store_change_note(io, lpn.0 | LPN_CHANGE_NOTE_BIT))
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

    /// Stores `record` in NVRAM, in place of the record with the same key. Applies waiting record changes first.
    /// Therefore, NVRAM must have the new map entries of all pages that GC moved, to which these changes may belong.
    /// Does nothing if the device keeps no records.
    ///
    /// # Errors
    /// Power loss.
    pub(crate) fn put_content_record(&mut self, record: ContentRecord) -> Result<()> {
        self.apply_waiting_content_record_changes()?;
        self.with_content_records(|records, io| records.put_record(io, record))
    }

    /// Stores `record` in NVRAM, in place of the record with the same key, at the next call of
    /// [`FlashPageStore::apply_waiting_content_record_changes`]. Does nothing if the device keeps no records.
    #[inline]
    pub(crate) fn put_content_record_later(&mut self, record: ContentRecord) {
        if let Some(records) = &mut self.content_records {
            records.waiting_changes.push(ContentRecordChange::Put(record));
        }
    }

    /// Removes the record with this key, if there is one, at the next call of
    /// [`FlashPageStore::apply_waiting_content_record_changes`]. Until then, recovery may need the record: the map
    /// entry that makes it obsolete may not be in NVRAM yet.
    #[inline]
    pub(crate) fn remove_content_record_later(&mut self, key: ContentRecordKey) {
        if let Some(records) = &mut self.content_records {
            records.waiting_changes.push(ContentRecordChange::Remove(key));
        }
    }

    /// Applies the waiting changes of content records, and then drops the change notes (notes in NVRAM about the
    /// request in progress). Before the call, NVRAM must have the new map entries of all pages that GC moved.
    ///
    /// # Errors
    /// Power loss.
    #[inline]
    pub(crate) fn apply_waiting_content_record_changes(&mut self) -> Result<()> {
        if self.has_deferred_content_record_changes() {
            self.apply_all_waiting_content_record_changes()
        } else {
            Ok(())
        }
    }

    /// Applies the waiting changes of content records in order, and then drops the change notes (notes in NVRAM about
    /// the request in progress).
    #[inline(never)]
    fn apply_all_waiting_content_record_changes(&mut self) -> Result<()> {
        self.with_content_records(|records, io| {
            let mut changes = std::mem::take(&mut records.waiting_changes);
            records.prefetch(io, changes.iter().map(ContentRecordChange::key));
            let outcome = changes.iter().try_for_each(|&change| records.apply_change(io, change));
            changes.clear();
            records.waiting_changes = changes;
            outcome?;
            records.drop_change_notes(io)
        })
    }

    /// Returns the chunks that a note in NVRAM names as about to lose members. After a loss of power, map entries may
    /// no longer name these members.
    pub(crate) fn chunks_with_change_note(&self) -> Vec<u32> {
        self.current_change_notes().filter(|note| note & LPN_CHANGE_NOTE_BIT == 0).collect()
    }

    /// Returns the logical pages with a delta that a note in NVRAM names as about to be mapped to another page. After a
    /// loss of power, they may be mapped to a page other than the base of their recorded delta.
    pub(crate) fn lpns_with_change_note(&self) -> impl Iterator<Item = Lpn> + '_ {
        self.current_change_notes()
            .filter(|note| note & LPN_CHANGE_NOTE_BIT != 0)
            .map(|note| Lpn(note & !LPN_CHANGE_NOTE_BIT))
    }

    /// Returns the change notes of the current generation: numbers of chunks, and logical pages with
    /// [`LPN_CHANGE_NOTE_BIT`], that the request in progress is about to change.
    fn current_change_notes(&self) -> impl Iterator<Item = u32> + '_ {
        self.content_records.iter().flat_map(|records| records.change_notes.iter().copied())
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
        if let Some(lost) = positions.find(|&position| !records.is_vacant_or_found_by_search(self, position))
        {
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
    use crate::address::MAX_UNITS_WITH_MARKED_MAP_ENTRIES;
    use crate::nand::{CutOutcome, Geometry, PowerCutNand, RetainedPageFields, SimNand};
    use crate::store::FreeBlockOrder;

    /// Maximum number of records in the tested table.
    const TEST_MAX_RECORDS: u64 = 40;

    /// The records as a naive model: what the table must contain. Key and value are the same record.
    type RecordModel = BTreeMap<ContentRecord, ContentRecord>;

    /// Creates a store on a small medium that can lose power, with an NVRAM table for [`TEST_MAX_RECORDS`] records.
    fn store_with_room_for_records() -> FlashPageStore {
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
        let medium = SimNand::new(geometry, RetainedPageFields::default());
        let medium = medium.with_nvram(8 * (3 + content_record_nvram_words(TEST_MAX_RECORDS)));
        let mut store =
            FlashPageStore::new(PowerCutNand::new(medium, None, CutOutcome::NoEffect), FreeBlockOrder::Fifo);
        store.enable_content_records(3, TEST_MAX_RECORDS).expect("NVRAM has room");
        store
    }

    /// Draws a record of random kind with one of 30 numbers, so that keys repeat.
    fn draw_record(random: &mut Xoshiro256PlusPlus) -> ContentRecord {
        let (number, value) = (random.random_range(0..30), random.random_range(1..1000));
        match random.random_range(0..5) {
            0 => ContentRecord::MapEntryWithoutProgram {
                lpn: Lpn(number),
                entry: StoredUnit(value).marked_as_mapped_without_program(),
            },
            1 => ContentRecord::UnitWithWriterMappedElsewhere { unit: StoredUnit(number) },
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
    fn put_or_remove_record(store: &mut FlashPageStore, record: ContentRecord, is_added: bool) -> Result<()> {
        if is_added {
            return store.put_content_record(record);
        }
        store.remove_content_record_later(record.key());
        store.apply_waiting_content_record_changes()
    }

    /// Stores the record in the model, or removes the one with its key, as [`put_or_remove_record`] does in the table.
    fn put_or_remove_model_record(model: &mut RecordModel, record: ContentRecord, is_added: bool) {
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

    /// If power is lost during a change, the records in NVRAM are those before or those after the change. The test
    /// detects two faults: a gap that is left vacant in the table, so that searches do not find the records after it;
    /// and a record that is removed from its old position before it is stored at the new one.
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
            cut.nand_mut().power_cut_nand_mut().restore_power(Some(random.random_range(0..3)));
            let before = model.clone();
            put_or_remove_record(&mut store, record, is_added).expect("power is on");
            put_or_remove_model_record(&mut model, record, is_added);
            if put_or_remove_record(&mut cut, record, is_added).is_err() {
                cut.nand_mut().power_cut_nand_mut().restore_power(None);
                let found = sort_records(cut.load_content_records().expect("power is on"));
                left_twice +=
                    u64::from(cut.nand().power_cut_nand().cuttable_operations_since_power_restore() > 0);
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

    /// NVRAM keeps a note of each chunk that a request changes. The notes survive a loss of RAM, until the changes of
    /// the content records are applied.
    #[test]
    fn notes_of_changed_chunks_survive_loss_of_ram_until_the_record_changes_are_applied() {
        let mut store = store_with_room_for_records();
        store.load_content_records().expect("power is on");
        store.apply_waiting_content_record_changes().expect("power is on");
        let numbers: Vec<u32> = (0..CHANGE_NOTE_WORDS as u32).map(|k| 7 * k).collect();
        for _ in 0..3 {
            for &number in numbers.iter().chain(&numbers[..5]) {
                assert!(number != numbers[31] || !store.are_change_notes_full());
                store.write_change_note_of_chunk(number).expect("power is on");
            }
            assert!(store.are_change_notes_full() && store.has_deferred_content_record_changes());
            store.load_content_records().expect("power is on");
            assert_eq!(store.chunks_with_change_note(), numbers, "after a loss of RAM");
            store.apply_waiting_content_record_changes().expect("power is on");
            store.load_content_records().expect("power is on");
            assert!(store.chunks_with_change_note().is_empty() && !store.are_change_notes_full());
        }
    }

    #[test]
    fn a_record_survives_being_encoded_as_an_nvram_word() {
        let largest = (1 << 31) - 2;
        let last_chunk = MAX_UNITS_WITH_MARKED_MAP_ENTRIES as u32 / (1 + MAX_CHUNK_MEMBERS as u32) - 1;
        for record in [
            ContentRecord::MapEntryWithoutProgram {
                lpn: Lpn(0),
                entry: StoredUnit(0).marked_as_mapped_without_program(),
            },
            ContentRecord::MapEntryWithoutProgram {
                lpn: Lpn(largest),
                entry: StoredUnit(largest).marked_as_mapped_without_program(),
            },
            ContentRecord::UnitWithWriterMappedElsewhere { unit: StoredUnit(0) },
            ContentRecord::UnitWithWriterMappedElsewhere { unit: StoredUnit(largest) },
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
