//! Entries of a reverse map: what an entry records, and its layouts in NVRAM and on flash.
//!
//! All reverse maps that store entries use these layouts, so an entry is encoded and decoded here only. A word of a
//! stored entry always has its torn bit set. So an interrupted store shows without a checksum, and an entry needs no
//! more than its two words (three with an atomic remap command).
//!
//! There are two encodings of the two words. Where entries are grouped by block, the page is an offset in the block
//! (the paper's layout), which leaves 31 bits for each LPN. A log of the whole device has no block to count from, so
//! its page numbers have 28 bits. The price: a reverse map in one log supports devices up to 1 TiB only.

use crate::address::{Lpn, Ppn};
use crate::error::{Error, Result};
use crate::store::FlashPageStore;

/// A reverse-map entry: records one bind (mapping without a program), or one trim as a tombstone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReverseMapEntry {
    /// The logical page that the entry binds (maps without a program), or that was trimmed if the entry names no
    /// physical page.
    pub lpn: Lpn,
    /// The physical page to which the entry maps its logical page without a program. `None` makes the entry a tombstone
    /// (record of a trim): the logical page is unmapped.
    pub mapped_ppn: Option<Ppn>,
    /// For an entry that maps a logical page to a stored page: the logical page that was unmapped in the same step (the
    /// source of a relocation). For a tombstone of several logical pages: the last one of the range.
    pub relocation_source_or_range_end: Option<Lpn>,
    /// Sequence number of the entry; page programs and reverse-map entries of the device share one sequence.
    pub sequence_number: u64,
}

/// Bytes of a reverse-map entry in NVRAM or on flash (Remap-SSD, table 2).
pub const REVERSE_MAP_ENTRY_BYTES: u64 = 16;

/// Bytes of a reverse-map entry that also names its atomic remap command (Remap-SSD, section 4.3).
pub const ENTRY_WITH_REMAP_COMMAND_BYTES: u64 = 24;

/// Bit that is 1 in every word of a stored reverse-map entry: a 0 shows that the slot is empty, or that a loss of power
/// interrupted the store.
const TORN_BIT: u64 = 1;
/// Number of bits of the page offset in a reverse-map entry.
const PAGE_OFFSET_BITS: u32 = 21;
/// Number of bits of the sequence number in a reverse-map entry.
const SEQUENCE_BITS: u32 = 42;
/// Number of bits of an LPN in a reverse-map entry.
const LPN_BITS: u32 = 31;
/// Page offset with all bits one, which marks a reverse-map entry as a tombstone: it names no page.
const NO_PAGE_OFFSET: u64 = (1 << PAGE_OFFSET_BITS) - 1;
/// Source LPN with all bits one, which marks a reverse-map entry without a source.
const NO_LPN: u64 = (1 << LPN_BITS) - 1;

/// Largest sequence number that fits in a reverse-map entry: 2^42 - 1 operations, 51 days at a million per second.
pub const MAX_SEQUENCE: u64 = (1 << SEQUENCE_BITS) - 1;

impl ReverseMapEntry {
    /// Returns the logical pages that this reverse-map entry unmaps: the source of a relocation, or the range of a
    /// tombstone.
    pub fn tombstoned_lpns(&self) -> impl Iterator<Item = Lpn> + use<> {
        let range = match (self.mapped_ppn, self.relocation_source_or_range_end) {
            (Some(_), None) => 0..0,
            (Some(_), Some(source)) => source.0..source.0 + 1,
            (None, last) => self.lpn.0..last.unwrap_or(self.lpn).0 + 1,
        };
        range.map(Lpn)
    }

    /// Encodes the reverse-map entry in two 8-byte words, in the layout of the Remap-SSD paper: the page is an offset
    /// in its block, whose first page is `first`. First word: torn bit (1 in every stored word), page offset (21 bits),
    /// sequence (42). Second word: torn bit, target LPN (31), remap flag, source LPN (31).
    pub fn encode(&self, first: Ppn) -> [u64; 2] {
        assert!(
            self.sequence_number <= MAX_SEQUENCE,
            "sequence {} does not fit 42 bits",
            self.sequence_number
        );
        let fits = |lpn: Lpn| (lpn.0 as u64) < NO_LPN;
        assert!(
            fits(self.lpn) && self.relocation_source_or_range_end.is_none_or(fits),
            "{self:?} has a page number that does not fit 31 bits"
        );
        let offset = self.mapped_ppn.map_or(NO_PAGE_OFFSET, |place| (place.0 - first.0) as u64);
        let source = self.relocation_source_or_range_end.map_or(NO_LPN, |lpn| lpn.0 as u64);
        let flag = u64::from(self.relocation_source_or_range_end.is_some());
        [
            TORN_BIT | offset << 1 | self.sequence_number << (1 + PAGE_OFFSET_BITS),
            TORN_BIT | (self.lpn.0 as u64) << 1 | flag << (1 + LPN_BITS) | source << (2 + LPN_BITS),
        ]
    }

    /// Decodes a reverse-map entry from its two 8-byte words; `first` is the first page of its block. Returns `None` if
    /// a word lacks its torn bit: the slot is empty, or the store was interrupted.
    pub fn decode(words: [u64; 2], first: Ppn) -> Option<Self> {
        if words[0] & words[1] & TORN_BIT == 0 {
            return None;
        }
        let offset = words[0] >> 1 & NO_PAGE_OFFSET;
        let source = words[1] >> (2 + LPN_BITS) & NO_LPN;
        Some(Self {
            lpn: Lpn((words[1] >> 1 & NO_LPN) as u32),
            mapped_ppn: (offset != NO_PAGE_OFFSET).then(|| Ppn(first.0 + offset as u32)),
            relocation_source_or_range_end: (source != NO_LPN).then_some(Lpn(source as u32)),
            sequence_number: words[0] >> (1 + PAGE_OFFSET_BITS),
        })
    }
}

/// Number of bits of a page number (LPN or PPN) in an entry of a reverse-map log.
const LOG_ENTRY_PAGE_NUMBER_BITS: u32 = 28;
/// Page number with all bits one in an entry of a reverse-map log: the entry names no page.
const NO_LOG_ENTRY_PAGE_NUMBER: u64 = (1 << LOG_ENTRY_PAGE_NUMBER_BITS) - 1;
/// Number of low bits of the physical page number that are in the first word of an entry of a reverse-map log.
const LOG_ENTRY_PPN_LOW_BITS: u32 = 21;
/// Bit at which the LPN begins in the second word of an entry of a reverse-map log: after the torn bit and the rest of
/// the page number.
const LOG_ENTRY_LPN_SHIFT: u32 = 1 + LOG_ENTRY_PAGE_NUMBER_BITS - LOG_ENTRY_PPN_LOW_BITS;

/// Maximum number of pages of a device whose reverse map is one log: 1 TiB of 4-KiB pages, because a log entry of 16
/// bytes stores each of its three page numbers in 28 bits.
pub const MAX_DEVICE_PAGES_FOR_LOG: u64 = NO_LOG_ENTRY_PAGE_NUMBER;

/// Returns an error if the device has more than [`MAX_DEVICE_PAGES_FOR_LOG`] pages: the entries of a reverse map in one
/// log cannot address them.
pub(super) fn require_log_can_address_device_pages(pages: u64) -> Result<()> {
    if pages <= MAX_DEVICE_PAGES_FOR_LOG {
        return Ok(());
    }
    Err(Error::InvalidOptions(format!(
        "the device has {pages} pages, but a reverse map in one log (nvram-log, flash-log) supports at most \
         {MAX_DEVICE_PAGES_FOR_LOG} (1 TiB of 4-KiB pages), because its entries have page numbers of 28 bits: set \
         parts.reverse_map=segments (on the design remap: remap.reverse_map=segments)"
    )))
}

/// Encoding of reverse-map entries in 16 bytes for a log of the whole device. A page number cannot be relative to a
/// block there, so each of the three page numbers of an entry gets 28 bits. First word: torn bit, low part of the PPN
/// (21 bits), sequence (42). Second word: torn bit, high part of the PPN (7), LPN (28), source LPN (28).
impl ReverseMapEntry {
    /// Encodes the entry in two 8-byte words for a log of the whole device.
    pub(super) fn encode_log_words(&self) -> [u64; 2] {
        assert!(
            self.sequence_number <= MAX_SEQUENCE,
            "sequence {} does not fit 42 bits",
            self.sequence_number
        );
        let place = self.mapped_ppn.map_or(NO_LOG_ENTRY_PAGE_NUMBER, |place| place.0 as u64);
        let source = self.relocation_source_or_range_end.map_or(NO_LOG_ENTRY_PAGE_NUMBER, |lpn| lpn.0 as u64);
        let lpn = self.lpn.0 as u64;
        let fits = lpn < NO_LOG_ENTRY_PAGE_NUMBER
            && place <= NO_LOG_ENTRY_PAGE_NUMBER
            && source <= NO_LOG_ENTRY_PAGE_NUMBER;
        assert!(fits, "{self:?} has a page number that does not fit 28 bits");
        let (low, high) = (place & ((1 << LOG_ENTRY_PPN_LOW_BITS) - 1), place >> LOG_ENTRY_PPN_LOW_BITS);
        [
            TORN_BIT | low << 1 | self.sequence_number << (1 + LOG_ENTRY_PPN_LOW_BITS),
            TORN_BIT
                | high << 1
                | lpn << LOG_ENTRY_LPN_SHIFT
                | source << (LOG_ENTRY_LPN_SHIFT + LOG_ENTRY_PAGE_NUMBER_BITS),
        ]
    }

    /// Decodes the entry from its two 8-byte words in a log; `None` if a word lacks its torn bit (empty slot or
    /// interrupted store).
    pub(super) fn decode_log_words(words: [u64; 2]) -> Option<Self> {
        if words[0] & words[1] & TORN_BIT == 0 {
            return None;
        }
        let low = words[0] >> 1 & ((1 << LOG_ENTRY_PPN_LOW_BITS) - 1);
        let high = words[1] >> 1 & ((1 << (LOG_ENTRY_PAGE_NUMBER_BITS - LOG_ENTRY_PPN_LOW_BITS)) - 1);
        let place = low | high << LOG_ENTRY_PPN_LOW_BITS;
        let source = words[1] >> (LOG_ENTRY_LPN_SHIFT + LOG_ENTRY_PAGE_NUMBER_BITS);
        Some(Self {
            lpn: Lpn((words[1] >> LOG_ENTRY_LPN_SHIFT & NO_LOG_ENTRY_PAGE_NUMBER) as u32),
            mapped_ppn: (place != NO_LOG_ENTRY_PAGE_NUMBER).then_some(Ppn(place as u32)),
            relocation_source_or_range_end: (source != NO_LOG_ENTRY_PAGE_NUMBER)
                .then_some(Lpn(source as u32)),
            sequence_number: words[0] >> (1 + LOG_ENTRY_PPN_LOW_BITS),
        })
    }
}

/// An atomic remap command of several logical pages: its reverse-map entries are valid together or not at all. The
/// third word of each entry encodes the command (Remap-SSD, section 4.3): torn bit, first target (31 bits), pages (31),
/// flag.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RemapCommand {
    /// First logical page of the target range that the command remaps.
    pub first_target: Lpn,
    /// Number of logical pages that the command remaps, with one reverse-map entry for each.
    pub target_pages: u32,
}

/// Bit of the third word of a reverse-map entry that is set if the entry belongs to an atomic remap command.
const COMMAND_FLAG: u64 = 1 << 63;

impl RemapCommand {
    /// Encodes an atomic remap command as the third word of a reverse-map entry; `None` marks an entry that belongs to
    /// no command.
    pub fn encode(command: Option<Self>) -> u64 {
        let Some(Self { first_target: start, target_pages: pages }) = command else { return TORN_BIT };
        assert!((start.0 as u64) < NO_LPN && (pages as u64) < NO_LPN, "{command:?} does not fit 31 bits");
        TORN_BIT | (start.0 as u64) << 1 | (pages as u64) << (1 + LPN_BITS) | COMMAND_FLAG
    }

    /// Decodes the atomic remap command from the third word of an intact reverse-map entry; `None` if the entry belongs
    /// to no command.
    pub fn decode(word: u64) -> Option<Self> {
        let field = |shift: u32| (word >> shift & NO_LPN) as u32;
        (word & COMMAND_FLAG != 0)
            .then(|| Self { first_target: Lpn(field(1)), target_pages: field(1 + LPN_BITS) })
    }

    /// Returns the sequence number of the first reverse-map entry of this atomic command, which identifies the command.
    /// It follows from any `entry` of the command.
    pub(super) fn first_entry_sequence(self, entry: &ReverseMapEntry) -> u64 {
        entry.sequence_number - (entry.lpn.0 - self.first_target.0) as u64
    }
}

/// Layout of a reverse-map entry in NVRAM and on flash: two 8-byte words, or three if entries name their atomic remap
/// command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EntryLayout {
    /// Reverse-map entries of two 8-byte words, for designs without atomic remap commands.
    #[default]
    WithoutRemapCommand,
    /// Reverse-map entries of three 8-byte words; the third names the atomic remap command of the entry.
    WithRemapCommand,
}

impl EntryLayout {
    /// Returns the size of one reverse-map entry in this layout, bytes.
    pub fn entry_bytes(self) -> u64 {
        match self {
            Self::WithoutRemapCommand => REVERSE_MAP_ENTRY_BYTES,
            Self::WithRemapCommand => ENTRY_WITH_REMAP_COMMAND_BYTES,
        }
    }

    /// Returns the number of 8-byte words of a reverse-map entry in this layout: 2 or 3.
    pub(super) fn words_per_entry(self) -> usize {
        self.entry_bytes() as usize / 8
    }

    /// Returns the bytes of NVRAM that the reverse map needs in addition to its entries: with atomic remap commands 8,
    /// for the sequence number up to which all commands count as complete, otherwise 0.
    pub(super) fn commands_complete_until_word_bytes(self) -> u64 {
        match self {
            Self::WithoutRemapCommand => 0,
            Self::WithRemapCommand => 8,
        }
    }

    /// Stores a reverse-map entry in NVRAM from word `first_word_index` on: the two words `encoded` and, in the
    /// three-word layout, the atomic remap command to which the entry belongs.
    pub(super) fn store_nvram_entry(
        self,
        io: &mut FlashPageStore,
        first_word_index: usize,
        encoded: [u64; 2],
        command: Option<RemapCommand>,
    ) -> Result<()> {
        io.store_nvram_word(first_word_index, encoded[0])?;
        io.store_nvram_word(first_word_index + 1, encoded[1])?;
        if self == Self::WithRemapCommand {
            io.store_nvram_word(first_word_index + 2, RemapCommand::encode(command))
        } else {
            Ok(())
        }
    }

    /// Splits the words of a reverse-map entry into the first two, still encoded, and the atomic command in the third.
    /// Returns `None` if a word lacks its torn bit (an interrupted store).
    pub(super) fn split_entry_words(self, words: &[u64]) -> Option<([u64; 2], Option<RemapCommand>)> {
        let words = &words[..self.words_per_entry()];
        let is_intact = words.iter().all(|word| word & TORN_BIT != 0);
        is_intact.then(|| ([words[0], words[1]], words.get(2).and_then(|&word| RemapCommand::decode(word))))
    }

    /// Zeroes a reverse-map entry in NVRAM, its last word first, so that an interrupted zeroing never leaves an intact
    /// entry.
    pub(super) fn zero_nvram_entry(self, io: &mut FlashPageStore, first_word_index: usize) -> Result<()> {
        for at in (first_word_index..first_word_index + self.words_per_entry()).rev() {
            if io.nvram()[at] != 0 {
                io.store_nvram_word(at, 0)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reverse_map_log_entries_with_extreme_values_are_decoded_as_encoded() {
        let page = NO_LOG_ENTRY_PAGE_NUMBER as u32 - 1;
        for place in [None, Some(Ppn(0)), Some(Ppn((1 << 21) - 1)), Some(Ppn(1 << 21)), Some(Ppn(page))] {
            for source in [None, Some(Lpn(0)), Some(Lpn(page))] {
                for (lpn, sequence) in [(0, 0), (page, MAX_SEQUENCE), (0, MAX_SEQUENCE), (page, 0)] {
                    let entry = ReverseMapEntry {
                        lpn: Lpn(lpn),
                        mapped_ppn: place,
                        relocation_source_or_range_end: source,
                        sequence_number: sequence,
                    };
                    let words = entry.encode_log_words();
                    assert_eq!(ReverseMapEntry::decode_log_words(words), Some(entry));
                    assert_eq!(ReverseMapEntry::decode_log_words([words[0], 0]), None);
                    assert_eq!(ReverseMapEntry::decode_log_words([0, words[1]]), None);
                }
            }
        }
    }

    #[test]
    fn reverse_map_logs_refuse_devices_above_one_tebibyte_with_an_error_message() {
        assert!(require_log_can_address_device_pages(MAX_DEVICE_PAGES_FOR_LOG).is_ok());
        let Err(Error::InvalidOptions(sentence)) = require_log_can_address_device_pages(1 << 28) else {
            panic!("28 bits do not do")
        };
        assert!(sentence.contains("1 TiB") && sentence.contains("segments"), "{sentence}");
    }
}
