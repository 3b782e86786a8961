//! The journal of an image: a log of the changes of its state words (NVRAM and block states), one record for each batch
//! of operations.
//!
//! State words (8 bytes each) are those of the NVRAM and one for each block. They are stored in the sectors of the file
//! `nvram`, but a change is not written there first: the changes of a batch of operations are appended to the journal
//! as one record, in one write, so that all of them are valid or none. Independently of that the sectors are rewritten,
//! a few after each record, each with all changes of the records so far.
//!
//! The journal has two areas. When one area is full, every sector has been rewritten since the area was begun, so the
//! records of the other area are not needed any more: the journal *turns* to the other area, with the next *generation*
//! number. So a sector is of the present generation or of the one before, and is right once the records of both are
//! applied to it; an older sector is damage.
//!
//! Records are numbered without a gap. Metadata that is written with a record (OOB records of its pages) or after it
//! (sectors) holds its number. So a journal that lost its end is detected: other metadata names a record that it lacks.
//!
//! The price is one more copy of the state words in RAM, 8 bytes per page, and the write of a sector for about every
//! thirty words that change.

use std::collections::BTreeMap;
use std::ops::Range;

use super::backing::Backing;
use super::image_file::ImageFile;
use super::layout::{
    DEVICE_STATE_SECTOR_BYTES, DEVICE_STATE_SECTOR_WORDS, DeviceStateSector, JOURNAL_ENTRY_BYTES, Layout,
    METADATA_RECORD_BYTES, checksum, put_u32, put_u64, u32_at, u64_at,
};
use super::metadata_copy::{METADATA_COPIES, MetadataCopy, MetadataRepairs};
use super::unreadable_sectors::SECTOR_BYTES;

/// Minimum number of sectors of the file `nvram` that are rewritten in one write, except when the journal turns (begins
/// its other area).
const DEVICE_STATE_SECTORS_PER_REWRITE_MIN: u64 = 16;
/// Alignment of journal records, bytes: the offset of each record is a multiple of it.
const RECORD_ALIGNMENT_BYTES: usize = METADATA_RECORD_BYTES;

/// A journal record: the words of NVRAM and the 8-byte block states that a batch of operations changed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JournalRecord {
    /// Generation of the journal in which the record was written. The journal has two areas, which it uses in turn;
    /// this is the number of changes of area before the record.
    pub journal_generation: u64,
    /// Number of the record; the records of a journal are numbered consecutively.
    pub record_number: u64,
    /// Number of the newest journal record that was certainly on the disk of the server machine when this record was
    /// written.
    pub synced_record_number: u64,
    /// Index and new value of each changed state word (NVRAM or block), in the order in which they changed.
    pub word_changes: Vec<(u64, u64)>,
}

impl JournalRecord {
    /// Encodes the record for byte offset `at` of the journal. The offset is part of the checksum.
    pub fn encode(&self, layout: &Layout, at: u64) -> Vec<u8> {
        let len = METADATA_RECORD_BYTES + self.word_changes.len() * JOURNAL_ENTRY_BYTES;
        let mut bytes = Vec::with_capacity(len.next_multiple_of(RECORD_ALIGNMENT_BYTES));
        bytes.resize(METADATA_RECORD_BYTES, 0);
        put_u64(&mut bytes, 8, self.word_changes.len() as u64);
        put_u64(&mut bytes, 16, self.journal_generation);
        put_u64(&mut bytes, 24, self.record_number);
        put_u64(&mut bytes, 32, self.synced_record_number);
        for (index, word) in &self.word_changes {
            bytes.extend_from_slice(&index.to_le_bytes());
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.resize(len.next_multiple_of(RECORD_ALIGNMENT_BYTES), 0);
        let crc = checksum(layout.checksum_salt, at, &bytes[4..len]);
        put_u32(&mut bytes, 0, crc);
        bytes
    }

    /// Decodes the journal record at byte offset `at` of the journal. `bytes` is the journal from this offset on.
    /// `None` if no valid record begins there.
    pub fn decode(layout: &Layout, at: u64, bytes: &[u8]) -> Option<Self> {
        let len = Self::record_len_bytes(bytes)?;
        let bytes = bytes.get(..len)?;
        if u32_at(bytes, 0) != checksum(layout.checksum_salt, at, &bytes[4..]) || u32_at(bytes, 4) != 0 {
            return None;
        }
        let entries = bytes[METADATA_RECORD_BYTES..].chunks_exact(JOURNAL_ENTRY_BYTES);
        let word_changes: Vec<_> = entries.map(|entry| (u64_at(entry, 0), u64_at(entry, 8))).collect();
        let is_possible = word_changes.iter().all(|&(index, _)| index < layout.device_state_word_count());
        is_possible.then(|| Self {
            journal_generation: u64_at(bytes, 16),
            record_number: u64_at(bytes, 24),
            synced_record_number: u64_at(bytes, 32),
            word_changes,
        })
    }

    /// Returns the length in bytes of a journal record without padding, computed from the number of changed state words
    /// in its header `head`. `None` if `head` is too short or this number is impossible.
    fn record_len_bytes(head: &[u8]) -> Option<usize> {
        let count = usize::try_from(u64_at(head.get(..METADATA_RECORD_BYTES)?, 8)).ok()?;
        count.checked_mul(JOURNAL_ENTRY_BYTES)?.checked_add(METADATA_RECORD_BYTES)
    }
}

/// The journal of an open image, and the NVRAM words and block states that follow from its records.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal {
    /// Words of NVRAM, then one word with the state of each block, with the changes of all records so far.
    device_state_words: Vec<u64>,
    /// Generation of the journal: number of times that it has changed to the other of its two areas.
    generation: u64,
    /// Number of the newest record of the journal.
    last_record_number: u64,
    /// Number of the newest journal record that is certainly on the disk of the server machine.
    synced_record_number: u64,
    /// Offset in the current area at which the next record begins, bytes.
    next_record_offset: u64,
    /// Number of sectors of the file `nvram`, counted from the first sector, that were rewritten since the current
    /// journal area was begun.
    rewritten_sector_count: u64,
}

/// A prepared append of a record to the journal: the sectors of the file `nvram` to rewrite first, then the encoded
/// record.
pub(super) struct PreparedAppend {
    /// Offset in the file `nvram`, and bytes, of the sectors to rewrite before the record; `None` if no sector has to
    /// be rewritten.
    pub(super) nvram_offset_and_sector_bytes: Option<(u64, Vec<u8>)>,
    /// Whether the record is the first in the journal's other area, and so overwrites older records there. The sectors
    /// of the file `nvram` have to be synced before the record is written, because otherwise recovery would still need
    /// the overwritten records.
    pub(super) begins_other_area: bool,
    /// Offset in the file `journal` at which the record is written, and the encoded record.
    pub(super) journal_offset_and_record_bytes: (u64, Vec<u8>),
    /// The record in decoded form; `journal_offset_and_record_bytes` contains its encoded form.
    record: JournalRecord,
    /// New value of [`Journal::next_record_offset`] after the record was written, bytes.
    next_record_offset: u64,
    /// Number of sectors of the file `nvram` that are rewritten after this append. It becomes
    /// [`Journal::rewritten_sector_count`].
    rewritten_sector_count: u64,
}

impl Journal {
    /// Returns the number of the last record of the journal.
    pub(super) fn last_record_number(&self) -> u64 {
        self.last_record_number
    }

    /// Notes that all records so far are on the disk of the server machine.
    pub(super) fn mark_all_records_synced(&mut self) {
        self.synced_record_number = self.last_record_number;
    }

    /// Returns the words of NVRAM and of block states after all records so far.
    pub(super) fn device_state_words(&self) -> &[u64] {
        &self.device_state_words
    }

    /// Makes the journal of a new image with the given state words: the words of NVRAM, then one word with the state of
    /// each block. Writes nothing to files.
    pub(super) fn with_device_state_words(device_state_words: Vec<u64>) -> Self {
        Self { device_state_words, ..Self::default() }
    }

    /// Encodes the first record of a new image's journal, which changes no state word.
    pub(super) fn encode_first_record(layout: &Layout) -> Vec<u8> {
        JournalRecord::default().encode(layout, 0)
    }

    /// Prepares the journal record that sets the state words `word_changes` (pairs of index and value). Determines the
    /// sectors of the file `nvram` that have to be rewritten before the record. `syncs` states whether the files are
    /// synced when the record is written. This journal itself changes only in [`Journal::apply_append`], after sectors
    /// and record were written.
    pub(super) fn prepare_append(
        &self,
        layout: &Layout,
        word_changes: Vec<(u64, u64)>,
        syncs: bool,
    ) -> PreparedAppend {
        let number = self.last_record_number + 1;
        let synced = if syncs { number } else { self.synced_record_number };
        let len = (METADATA_RECORD_BYTES + word_changes.len() * JOURNAL_ENTRY_BYTES)
            .next_multiple_of(RECORD_ALIGNMENT_BYTES) as u64;
        let turns = self.next_record_offset + len > layout.journal_area_bytes();
        let generation = self.generation + u64::from(turns);
        let at = if turns { 0 } else { self.next_record_offset };
        let due = if turns {
            layout.device_state_sector_count()
        } else {
            self.required_rewritten_sector_count(layout)
        };
        let sectors = (due > self.rewritten_sector_count).then(|| {
            let offset = self.rewritten_sector_count * DEVICE_STATE_SECTOR_BYTES as u64;
            (offset, self.encode_device_state_sectors(layout, self.rewritten_sector_count, due))
        });
        let record = JournalRecord {
            journal_generation: generation,
            record_number: number,
            synced_record_number: synced,
            word_changes,
        };
        let place = (generation % 2) * layout.journal_area_bytes() + at;
        let swept = if turns { 0 } else { due.max(self.rewritten_sector_count) };
        PreparedAppend {
            nvram_offset_and_sector_bytes: sectors,
            begins_other_area: turns,
            journal_offset_and_record_bytes: (place, record.encode(layout, place)),
            record,
            next_record_offset: at + len,
            rewritten_sector_count: swept,
        }
    }

    /// Updates the journal in RAM after the sectors and the record of `append` were written.
    pub(super) fn apply_append(&mut self, append: PreparedAppend) {
        let PreparedAppend {
            record:
                JournalRecord {
                    journal_generation: generation,
                    record_number: number,
                    synced_record_number: synced,
                    word_changes,
                },
            next_record_offset: at,
            rewritten_sector_count: swept,
            ..
        } = append;
        for (index, word) in word_changes {
            self.device_state_words[index as usize] = word;
        }
        (self.generation, self.last_record_number, self.synced_record_number) = (generation, number, synced);
        (self.next_record_offset, self.rewritten_sector_count) = (at, swept);
    }

    /// Returns the number of sectors of the file `nvram` that must be rewritten before the next record, counted since
    /// the journal's current area was begun. The pace is such that all sectors are rewritten when the area is half
    /// full.
    fn required_rewritten_sector_count(&self, layout: &Layout) -> u64 {
        let due = (layout.device_state_sector_count() * 2 * self.next_record_offset
            / layout.journal_area_bytes())
        .min(layout.device_state_sector_count());
        if due >= self.rewritten_sector_count + DEVICE_STATE_SECTORS_PER_REWRITE_MIN {
            due
        } else {
            self.rewritten_sector_count
        }
    }

    /// Encodes the sectors number `from` to `to` (exclusive) of the file `nvram`, with the present words of NVRAM and
    /// block states.
    pub(super) fn encode_device_state_sectors(&self, layout: &Layout, from: u64, to: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for index in from..to {
            let mut words = [0; DEVICE_STATE_SECTOR_WORDS];
            let first = index as usize * DEVICE_STATE_SECTOR_WORDS;
            let present = &self.device_state_words
                [first..self.device_state_words.len().min(first + DEVICE_STATE_SECTOR_WORDS)];
            words[..present.len()].copy_from_slice(present);
            let sector = DeviceStateSector {
                journal_generation: self.generation,
                last_journal_record_number: self.last_record_number,
                device_state_words: words,
            };
            bytes.extend_from_slice(&layout.encode_device_state_sector(index, &sector));
        }
        bytes
    }
}

/// A journal as it was found in the files of an image.
pub(super) struct FoundJournal {
    /// The journal as of the last record found. Its words of NVRAM and block states are filled in by
    /// [`FoundJournal::into_journal`].
    journal: Journal,
    /// Changes of all records found, in order: index and value of a word of NVRAM or block state.
    word_changes: Vec<(u64, u64)>,
    /// Repairs of records that were missing or damaged in one of the journal's two copies, from the other.
    pub(super) repairs: MetadataRepairs,
    /// If records are missing, the number of the first record after the gap; all records from this number on were
    /// found. `None` if no record is missing.
    first_record_number_after_gap: Option<u64>,
}

impl FoundJournal {
    /// Returns the number of the last journal record that was found.
    pub(super) fn last_record_number(&self) -> u64 {
        self.journal.last_record_number
    }

    /// Returns the number of the newest journal record that was certainly on the disk of the server machine when the
    /// last record was written.
    pub(super) fn synced_record_number(&self) -> u64 {
        self.journal.synced_record_number
    }

    /// Whether the content of a sector of the file `nvram` can be correct according to this journal. The generation of
    /// the sector must be that of the journal or the generation before it. The last record whose changes the sector
    /// holds must have been found in the journal.
    pub(super) fn accepts_device_state_sector(&self, sector: &DeviceStateSector) -> bool {
        let Journal { generation, last_record_number: number, .. } = self.journal;
        if let Some(first) = self.first_record_number_after_gap {
            return (first..=number + 1).contains(&(sector.last_journal_record_number + 1));
        }
        sector.last_journal_record_number <= number
            && sector.journal_generation <= generation
            && sector.journal_generation + 1 >= generation
    }

    /// Returns the indices of the words (NVRAM or block state) that the records found in the journal change.
    pub(super) fn changed_word_indices(&self) -> impl Iterator<Item = u64> + '_ {
        self.word_changes.iter().map(|&(index, _)| index)
    }

    /// Applies the records found to `state`, the words of NVRAM and block states as read from the sectors, and returns
    /// the open journal. `generations` has the journal generation in which each sector was written. Leading sectors of
    /// the current generation count as rewritten already.
    pub(super) fn into_journal(self, mut state: Vec<u64>, generations: &[u64]) -> Journal {
        for (index, word) in self.word_changes {
            state[index as usize] = word;
        }
        let is_swept = |generation: &&u64| **generation == self.journal.generation;
        let swept = generations.iter().take_while(is_swept).count() as u64;
        Journal { device_state_words: state, rewritten_sector_count: swept, ..self.journal }
    }
}

/// Consecutive records that were found in one of the two areas of the journal.
#[derive(Default)]
struct FoundArea {
    /// Records found in the area, oldest first.
    records: Vec<JournalRecord>,
    /// Number of bytes that the records occupy in the area.
    used_bytes: u64,
    /// Repairs of record copies that were missing or damaged, from the record's other copy.
    repairs: MetadataRepairs,
}

/// Reads both areas of the journal. If one of the two copies of a record is damaged, it is rewritten from the other.
///
/// # Errors
/// An error message, if records are missing.
pub(super) fn read_and_repair_journal(
    backing: &mut impl Backing,
    layout: &Layout,
) -> Result<FoundJournal, String> {
    let [first, second] =
        [read_and_repair_area(backing, layout, 0)?, read_and_repair_area(backing, layout, 1)?];
    let generation_of = |area: &FoundArea| area.records.first().map(|record| record.journal_generation);
    let (before, before_number, now) =
        if generation_of(&second) > generation_of(&first) { (first, 0, second) } else { (second, 1, first) };
    let (Some(begin), Some(last)) = (now.records.first(), now.records.last()) else {
        return Err("one of the two copies of the journal must be intact, but both are damaged".into());
    };
    // An area that seems empty has not been used yet, or its first record is damaged.
    if before.records.is_empty()
        && has_valid_record(backing, layout, area_bytes_range(layout, before_number), |generation, _| {
            generation > last.journal_generation
        })
    {
        return Err(missing_record_message(last.record_number));
    }
    let follows = before.records.last().is_some_and(|record| {
        record.record_number + 1 == begin.record_number
            && record.journal_generation + 1 == begin.journal_generation
    });
    if begin.journal_generation > 0 && !follows && !are_all_sectors_rewritten(backing, layout, last) {
        return Err(format!(
            "one of the two copies of the journal must have record number {}, but it is missing in both",
            begin.record_number.saturating_sub(1)
        ));
    }
    let journal = Journal {
        device_state_words: Vec::new(),
        generation: last.journal_generation,
        last_record_number: last.record_number,
        synced_record_number: last.synced_record_number,
        next_record_offset: now.used_bytes,
        rewritten_sector_count: 0,
    };
    let mut repairs = before.repairs;
    repairs += now.repairs;
    let older = if follows { before.records } else { Vec::new() };
    let word_changes = older.into_iter().chain(now.records).flat_map(|record| record.word_changes).collect();
    Ok(FoundJournal { journal, word_changes, repairs, first_record_number_after_gap: None })
}

/// Whether every sector of the file `nvram` has a valid copy that was written in the generation of `last`, the last
/// record of the journal. Then the records of the generation before are not needed. This is so when the journal turns:
/// if the server machine crashes meanwhile, the first record of the older area may be half overwritten in both copies.
fn are_all_sectors_rewritten(backing: &impl Backing, layout: &Layout, last: &JournalRecord) -> bool {
    let is_rewritten = |sector: &DeviceStateSector| {
        sector.journal_generation == last.journal_generation
            && sector.last_journal_record_number <= last.record_number
    };
    (0..layout.device_state_sector_count()).all(|index| {
        METADATA_COPIES.into_iter().any(|side| {
            let (mut bytes, at) = ([0; DEVICE_STATE_SECTOR_BYTES], index * DEVICE_STATE_SECTOR_BYTES as u64);
            side.read_metadata(backing, layout, ImageFile::Nvram, &mut bytes, at)
                && layout.decode_device_state_sector(index, &bytes).is_some_and(|found| is_rewritten(&found))
        })
    })
}

/// Reads what is left of a journal in which records are missing in both copies: the newest records that have no gap
/// between them. `last` is the highest record number that the other metadata of the image contains. Sectors of the file
/// `nvram` that are older than the gap are not accepted later, because the changes of the missing records are unknown.
pub(super) fn salvage_newest_records(backing: &impl Backing, layout: &Layout, last: u64) -> FoundJournal {
    let records = read_all_records(backing, layout);
    let number = records.keys().next_back().copied().unwrap_or(0).max(last);
    let newest: Vec<_> = (0..=number).rev().map_while(|number| records.get(&number)).collect();
    let complete_from = newest.last().map_or(number + 1, |record| record.record_number);
    let last = newest.first().map(|&record| record.clone()).unwrap_or_default();
    // `at` is the end of the area, so that the next record begins another generation.
    let at = layout.journal_area_bytes();
    let JournalRecord { journal_generation: generation, synced_record_number: synced, .. } = last;
    let journal = Journal {
        device_state_words: Vec::new(),
        generation,
        last_record_number: number,
        synced_record_number: synced,
        next_record_offset: at,
        rewritten_sector_count: 0,
    };
    let word_changes =
        newest.into_iter().rev().flat_map(|record| record.word_changes.iter().copied()).collect();
    FoundJournal {
        journal,
        word_changes,
        repairs: MetadataRepairs::default(),
        first_record_number_after_gap: Some(complete_from),
    }
}

/// Reads both copies of the journal and returns every record that is valid in one of them, by record number.
fn read_all_records(backing: &impl Backing, layout: &Layout) -> BTreeMap<u64, JournalRecord> {
    let mut records = BTreeMap::<u64, JournalRecord>::new();
    for side in METADATA_COPIES {
        let bytes = read_journal_part(backing, layout, side, 0..layout.journal_file_bytes());
        for at in (0..bytes.len()).step_by(RECORD_ALIGNMENT_BYTES) {
            let Some(record) = JournalRecord::decode(layout, at as u64, &bytes[at..]) else { continue };
            if records
                .get(&record.record_number)
                .is_none_or(|known| known.journal_generation < record.journal_generation)
            {
                records.insert(record.record_number, record);
            }
        }
    }
    records
}

/// Reads a part of one of the two copies of the journal. Sectors that cannot be read count as damaged.
fn read_journal_part(
    backing: &impl Backing,
    layout: &Layout,
    side: MetadataCopy,
    part: Range<u64>,
) -> Vec<u8> {
    let mut bytes = vec![0; (part.end - part.start) as usize];
    side.read_metadata_pieces(backing, layout, ImageFile::Journal, &mut bytes, part.start, SECTOR_BYTES);
    bytes
}

/// Reads the consecutive records of one of the two areas of the journal (`number` is 0 or 1). If one of the two copies
/// of a record is damaged, it is rewritten from the other. Returns an error message if a record is missing although the
/// area holds later records.
fn read_and_repair_area(
    backing: &mut impl Backing,
    layout: &Layout,
    number: u64,
) -> Result<FoundArea, String> {
    let Range { start: begin, end } = area_bytes_range(layout, number);
    let mut area = FoundArea::default();
    loop {
        let at = begin + area.used_bytes;
        let expected =
            area.records.last().map(|record| (record.journal_generation, record.record_number + 1));
        let is_next = |record: &JournalRecord| match expected {
            None => record.journal_generation % 2 == number,
            Some(expected) => (record.journal_generation, record.record_number) == expected,
        };
        let copies = METADATA_COPIES.map(|side| read_record(backing, layout, side, at, end).filter(is_next));
        let Some(record) = copies.iter().flatten().max_by_key(|record| record.journal_generation).cloned()
        else {
            break;
        };
        let bytes = record.encode(layout, at);
        for (side, copy) in METADATA_COPIES.into_iter().zip(&copies) {
            if copy.as_ref() != Some(&record) {
                area.repairs += side.repair_metadata(backing, layout, ImageFile::Journal, &bytes, at);
            }
        }
        area.used_bytes += bytes.len() as u64;
        area.records.push(record);
    }
    let has_later_record = area.records.last().is_some_and(|last| {
        has_valid_record(backing, layout, begin + area.used_bytes..end, |generation, number| {
            generation == last.journal_generation && number > last.record_number
        })
    });
    match area.records.last() {
        Some(last) if has_later_record => Err(missing_record_message(last.record_number)),
        _ => Ok(area),
    }
}

/// Returns the range of bytes of one of the two areas in the file `journal`.
fn area_bytes_range(layout: &Layout, number: u64) -> Range<u64> {
    number * layout.journal_area_bytes()..(number + 1) * layout.journal_area_bytes()
}

/// Returns the error message for a journal in which the record after record number `last` is missing, although later
/// records exist.
fn missing_record_message(last: u64) -> String {
    format!(
        "one of the two copies of the journal must have the record after record number {last}, because later records \
         exist, but it is missing in both"
    )
}

/// Reads the journal record at byte `offset_bytes` of one of the two copies of the journal. `None` if no valid record
/// begins there, or if the record would extend beyond the end of its area.
fn read_record(
    backing: &impl Backing,
    layout: &Layout,
    metadata_copy: MetadataCopy,
    offset_bytes: u64,
    area_end_offset: u64,
) -> Option<JournalRecord> {
    let mut bytes = vec![0; METADATA_RECORD_BYTES];
    if offset_bytes + bytes.len() as u64 > area_end_offset
        || !metadata_copy.read_metadata(backing, layout, ImageFile::Journal, &mut bytes, offset_bytes)
    {
        return None;
    }
    let len = JournalRecord::record_len_bytes(&bytes)?;
    if len as u64 > area_end_offset - offset_bytes {
        return None;
    }
    bytes.resize(len, 0);
    let is_read = metadata_copy.read_metadata(backing, layout, ImageFile::Journal, &mut bytes, offset_bytes);
    is_read.then(|| JournalRecord::decode(layout, offset_bytes, &bytes)).flatten()
}

/// Whether a part of the journal contains, in one of the two copies, a valid record that `is_wanted`, a function of
/// generation and number of a record.
fn has_valid_record(
    backing: &impl Backing,
    layout: &Layout,
    part: Range<u64>,
    is_wanted: impl Fn(u64, u64) -> bool,
) -> bool {
    METADATA_COPIES.into_iter().any(|side| {
        let bytes = read_journal_part(backing, layout, side, part.clone());
        (0..bytes.len()).step_by(RECORD_ALIGNMENT_BYTES).any(|from| {
            let bytes = &bytes[from..];
            is_wanted(u64_at(bytes, 16), u64_at(bytes, 24))
                && JournalRecord::decode(layout, part.start + from as u64, bytes).is_some()
        })
    })
}
