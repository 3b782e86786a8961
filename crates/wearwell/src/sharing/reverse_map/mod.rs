//! Reverse maps: which logical pages refer to a physical page, if logical pages can be mapped without a program.
//!
//! The OOB of a page names the logical page it was written for. A *bind* (deduplication, remap) maps another logical
//! page to it, and the OOB cannot be changed. So each bind writes an [`ReverseMapEntry`]. GC, which must update the map
//! entry of every referrer of a page that it moves, queries the reverse map. If the entry is non-volatile, it is also
//! the commit point of the bind, and recovery replays it. The five variants of the Remap-SSD paper are five
//! implementations:
//!
//! | reverse map | entries are stored | finding a victim's referrers reads | entries are limited by |
//! |---|---|---|---|
//! | [`NvramSegments`] | in NVRAM, grouped by block | the block's own group | NVRAM |
//! | [`NvramLog`] | in NVRAM, one log | the whole log | NVRAM |
//! | [`FlashLog`] | on flash, one log, its last page in NVRAM | the whole log | the log's pages |
//! | [`IdealReverseMap`] | in battery-backed RAM, by page | nothing | nothing |
//! | [`AnyReverseMap::OobOnly`] | nowhere: no bind is possible | nothing | - |
//!
//! # Entries and evidence
//!
//! After a power loss the place of a logical page is given by its newest *evidence*: a page whose OOB names it, or an
//! entry. Every program and every entry takes the next number of one sequence, so "newest" is one comparison.
//!
//! - An entry that binds counts only if the page it names was programmed before it and still exists. Otherwise the
//!   block was erased and reused since, and the entry was not needed any more.
//! - A *tombstone* records that a logical page has no place: a trim, or the source of a relocation. It is needed as
//!   long as older evidence may exist: while a block is in use that was opened before it. Copies made by GC name a
//!   current referrer, so newer blocks hold no older evidence.
//! - A relocation is one entry with two meanings (bind of the target, tombstone of the source), which makes it atomic.
//!   When the target is mapped elsewhere, the tombstone stays: such an entry must not be dropped, or recovery would map
//!   the source again.
//!
//! # Atomic commands
//!
//! A remap command of several pages can be atomic (paper, section 4.3). Its entries are recorded together and have a
//! third word with the first target and the length of the command ([`RemapCommand`]), 24 bytes in all. Entry `k` takes
//! the `k`th of consecutive sequence numbers, so the number of the first entry identifies the command. Recovery
//! discards a command of which an entry is missing, and zeroes its entries before anything else is recorded.
//!
//! Compaction, GC and erases drop entries one by one, which would make a complete command look torn. So before a
//! reverse map drops its first entry after a command, it stores the current sequence number in a word of NVRAM. This is
//! the number up to which every command counts as complete. An entry that is recorded again is recorded as a
//! single entry.
//!
//! The engine decides which entries are still *needed*, because only it has the mapping; reverse maps call it when they
//! compact. The price for a reverse map that cannot remove entries exactly: superseded entries occupy space until then.

mod flash_log;
mod ideal;
mod log_index;
mod nvram_log;
mod segments;

pub use flash_log::FlashLog;
use hashbrown::{HashMap, HashSet};
pub use ideal::IdealReverseMap;
pub use nvram_log::NvramLog;
use rustc_hash::FxBuildHasher;
pub use segments::{DEFAULT_SEGMENT_BYTES, MAX_SEGMENTS, NvramSegments};

use crate::address::{BlockId, Lpn, Ppn};
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

/// Percentage of the reverse map's capacity up to which the host may add entries (mappings without a program). If the
/// map is fuller, the host must write instead (Remap-SSD, section 4.4); GC may still add entries.
const MAX_REVERSE_MAP_FILL_PERCENT_FOR_HOST_ENTRIES: u64 = 95;

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
    fn first_entry_sequence(self, entry: &ReverseMapEntry) -> u64 {
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
    fn words_per_entry(self) -> usize {
        self.entry_bytes() as usize / 8
    }

    /// Returns the bytes of NVRAM that the reverse map needs in addition to its entries: with atomic remap commands 8,
    /// for the sequence number up to which all commands count as complete, otherwise 0.
    fn commands_complete_until_word_bytes(self) -> u64 {
        match self {
            Self::WithoutRemapCommand => 0,
            Self::WithRemapCommand => 8,
        }
    }

    /// Stores a reverse-map entry in NVRAM from word `first_word_index` on: the two words `encoded` and, in the
    /// three-word layout, the atomic remap command to which the entry belongs.
    fn store_nvram_entry(
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
    fn split_entry_words(self, words: &[u64]) -> Option<([u64; 2], Option<RemapCommand>)> {
        let words = &words[..self.words_per_entry()];
        let is_intact = words.iter().all(|word| word & TORN_BIT != 0);
        is_intact.then(|| ([words[0], words[1]], words.get(2).and_then(|&word| RemapCommand::decode(word))))
    }

    /// Zeroes a reverse-map entry in NVRAM, its last word first, so that an interrupted zeroing never leaves an intact
    /// entry.
    fn zero_nvram_entry(self, io: &mut FlashPageStore, first_word_index: usize) -> Result<()> {
        for at in (first_word_index..first_word_index + self.words_per_entry()).rev() {
            if io.nvram()[at] != 0 {
                io.store_nvram_word(at, 0)?;
            }
        }
        Ok(())
    }
}

/// State of the atomic remap commands in a reverse map: which of them count as complete, and where the newest one
/// begins.
#[derive(Clone, Copy, Debug, Default)]
struct RemapCommandState {
    /// Layout of the reverse-map entries, which tells whether entries name an atomic remap command.
    entry_layout: EntryLayout,
    /// Index of the NVRAM word that stores `commands_complete_until_sequence`.
    commands_complete_until_word_index: usize,
    /// Sequence number up to which (inclusive) all atomic remap commands count as complete.
    commands_complete_until_sequence: u64,
    /// Sequence number of the first entry of the newest recorded atomic command; it identifies the command.
    newest_command_sequence: u64,
}

impl RemapCommandState {
    /// Creates the state for a reverse map without any command yet. The NVRAM word with index
    /// `commands_complete_until_word_index` stores the sequence number up to which all commands count as complete.
    fn new(entry_layout: EntryLayout, commands_complete_until_word_index: usize) -> Self {
        Self { entry_layout, commands_complete_until_word_index, ..Self::default() }
    }

    /// Stores the current sequence number in NVRAM, as the number up to which all atomic remap commands count as
    /// complete. Must be called before reverse-map entries are dropped, so that a command with dropped entries is not
    /// taken for incomplete.
    fn declare_commands_complete(&mut self, io: &mut FlashPageStore) -> Result<()> {
        if self.newest_command_sequence <= self.commands_complete_until_sequence {
            return Ok(());
        }
        let number = io.last_sequence();
        io.store_nvram_word(self.commands_complete_until_word_index, number)?;
        self.commands_complete_until_sequence = number;
        Ok(())
    }

    /// Restores the state of atomic commands after a power loss from `recorded`, the intact reverse-map entries with
    /// their commands. Returns the numbers of the commands that are incomplete.
    fn recover(
        &mut self,
        io: &mut FlashPageStore,
        recorded: &[(ReverseMapEntry, Option<RemapCommand>)],
    ) -> HashSet<u64, FxBuildHasher> {
        self.newest_command_sequence = 0;
        if self.entry_layout == EntryLayout::WithoutRemapCommand {
            return HashSet::default();
        }
        self.commands_complete_until_sequence = io.nvram()[self.commands_complete_until_word_index];
        io.continue_sequence_after(self.commands_complete_until_sequence);
        let unsure = |&&(entry, command): &&(ReverseMapEntry, Option<RemapCommand>)| {
            command.is_some_and(|command| {
                command.first_entry_sequence(&entry) > self.commands_complete_until_sequence
            })
        };
        let unsure: Vec<_> = recorded.iter().filter(unsure).copied().collect();
        let torn = incomplete_commands(&unsure);
        let numbers =
            unsure.iter().filter_map(|(entry, command)| Some(command.as_ref()?.first_entry_sequence(entry)));
        self.newest_command_sequence = numbers.filter(|number| !torn.contains(number)).max().unwrap_or(0);
        torn
    }
}

/// Returns the numbers of the incomplete atomic commands: those of which an entry is missing in `recorded`, the intact
/// reverse-map entries with their commands.
fn incomplete_commands(recorded: &[(ReverseMapEntry, Option<RemapCommand>)]) -> HashSet<u64, FxBuildHasher> {
    let mut found: HashMap<u64, (RemapCommand, HashSet<Lpn, FxBuildHasher>), FxBuildHasher> =
        HashMap::default();
    for &(entry, command) in recorded {
        let Some(command) = command else { continue };
        let (_, lpns) =
            found.entry(command.first_entry_sequence(&entry)).or_insert((command, HashSet::default()));
        lpns.insert(entry.lpn);
    }
    let is_torn = |(number, (command, lpns)): (u64, (RemapCommand, HashSet<Lpn, _>))| {
        (lpns.len() < command.target_pages as usize).then_some(number)
    };
    found.into_iter().filter_map(is_torn).collect()
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
fn require_log_can_address_device_pages(pages: u64) -> Result<()> {
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
    fn encode_log_words(&self) -> [u64; 2] {
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
    fn decode_log_words(words: [u64; 2]) -> Option<Self> {
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

/// Which meanings of a reverse-map entry still hold: its mapping of a logical page to a stored page, and its tombstone
/// (record of a trim or relocation). The engine decides this from the L2P map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryLiveness {
    /// Whether the mapping that the reverse-map entry records still holds: the logical page is mapped to the physical
    /// page that the entry names.
    pub is_mapping_live: bool,
    /// Whether the entry's tombstone (record of a trim or relocation) is still needed: the logical page is still
    /// unmapped, and flash may hold an older page or entry that recovery would map it to.
    pub is_tombstone_needed: bool,
}

impl EntryLiveness {
    /// Returns what must be kept of a reverse-map entry. This is the whole entry while its mapping holds, or if it is a
    /// tombstone that is needed. If only the tombstone of a relocation is needed, it is a tombstone for the source, the
    /// logical page that was unmapped by the relocation. `None` if nothing is needed.
    pub fn live_part_of(self, entry: ReverseMapEntry) -> Option<ReverseMapEntry> {
        match (self.is_mapping_live, self.is_tombstone_needed) {
            (true, _) => Some(entry),
            (false, true) if entry.mapped_ppn.is_none() => Some(entry),
            (false, true) => entry.relocation_source_or_range_end.map(|lpn| ReverseMapEntry {
                lpn,
                mapped_ppn: None,
                relocation_source_or_range_end: None,
                ..entry
            }),
            (false, false) => None,
        }
    }
}

/// Callback by which the engine decides which meanings of a reverse-map entry (mapping, tombstone) still hold. A
/// reverse map calls it when it compacts its entries.
pub type LivenessOf<'a> = &'a dyn Fn(&ReverseMapEntry) -> EntryLiveness;

/// Returns for each of the reverse-map `entries` what compaction must keep of it; `None` for nothing. Of several
/// entries that map one logical page to the same physical page, or several tombstones of one range, only the newest is
/// kept. An older relocation may still be kept as the tombstone of its source.
fn entries_to_keep(entries: &[ReverseMapEntry], liveness_of: LivenessOf<'_>) -> Vec<Option<ReverseMapEntry>> {
    let mut newest: HashMap<(Lpn, Option<Ppn>), u64, FxBuildHasher> = HashMap::default();
    for entry in entries {
        let sequence = newest.entry((entry.lpn, entry.mapped_ppn)).or_default();
        *sequence = entry.sequence_number.max(*sequence);
    }
    let rest = |entry: &ReverseMapEntry| {
        let need = liveness_of(entry);
        let bind = need.is_mapping_live && newest[&(entry.lpn, entry.mapped_ppn)] == entry.sequence_number;
        EntryLiveness { is_mapping_live: bind, ..need }.live_part_of(*entry)
    };
    let mut rests: Vec<Option<ReverseMapEntry>> = entries.iter().map(rest).collect();
    let mut kept: HashMap<(Lpn, Option<Ppn>, Option<Lpn>), usize, FxBuildHasher> = HashMap::default();
    for at in 0..rests.len() {
        let Some(entry) = rests[at] else { continue };
        let known =
            *kept.entry((entry.lpn, entry.mapped_ppn, entry.relocation_source_or_range_end)).or_insert(at);
        if known == at {
            continue;
        }
        let newer = rests[known].is_some_and(|known| known.sequence_number < entry.sequence_number);
        let (dropped, keeper) = if newer { (known, at) } else { (at, known) };
        rests[dropped] = None;
        kept.insert((entry.lpn, entry.mapped_ppn, entry.relocation_source_or_range_end), keeper);
    }
    rests
}

/// Histogram of the number of reverse-map entries (or NVRAM segments) per block, which gives the largest of these
/// numbers. A change costs amortised O(1).
#[derive(Clone, Debug, Default)]
struct EntriesOrSegmentsPerBlockHistogram {
    /// Number of blocks that have `k + 1` reverse-map entries (or NVRAM segments), at index `k`; the last number is
    /// never 0.
    blocks_by_count: Vec<u32>,
}

impl EntriesOrSegmentsPerBlockHistogram {
    /// Returns the largest number of reverse-map entries (or NVRAM segments) of a single block.
    fn largest_count_per_block(&self) -> u32 {
        self.blocks_by_count.len() as u32
    }

    /// Updates the histogram for one block whose number of entries (or segments) changed from `before` to `after`.
    fn move_block_to_count(&mut self, before: u32, after: u32) {
        if before == after {
            return;
        }
        if after > 0 {
            self.blocks_by_count.resize(self.blocks_by_count.len().max(after as usize), 0);
            self.blocks_by_count[after as usize - 1] += 1;
        }
        if before > 0 {
            self.blocks_by_count[before as usize - 1] -= 1;
        }
        while self.blocks_by_count.last() == Some(&0) {
            self.blocks_by_count.pop();
        }
    }
}

/// Reverse map: records the logical pages that are mapped to each physical page without a program.
pub trait ReverseMap {
    /// Makes room for a reverse-map entry, by compaction if needed. Returns whether the host may record the entry now.
    /// If so, enough space is left for GC to record the entries of any one victim once more. The caller must have made
    /// room for the flash pages that one call may append.
    ///
    /// # Errors
    /// Errors of the medium.
    fn make_room_for_entry(&mut self, io: &mut FlashPageStore, liveness_of: LivenessOf<'_>) -> Result<bool>;

    /// Makes room to record all reverse-map entries of `block`, the next GC victim, once more, by compaction if needed.
    /// Returns whether there is room. GC calls this while the L2P map still names the victim's pages, because
    /// compaction needs the map. A log on flash appends pages only if they do not use the block that GC keeps for its
    /// copies. After `false`, GC takes another victim or records nothing.
    ///
    /// # Errors
    /// Errors of the medium.
    fn make_room_for_victim(
        &mut self,
        _: &mut FlashPageStore,
        _: BlockId,
        _: LivenessOf<'_>,
    ) -> Result<bool> {
        Ok(true)
    }

    /// Records a reverse-map entry, which is durable on return. For a host request, [`ReverseMap::make_room_for_entry`]
    /// must have returned `true` before. GC may always record as many entries as its current victim had.
    ///
    /// # Errors
    /// Errors of the medium.
    fn record_entry(
        &mut self,
        io: &mut FlashPageStore,
        entry: ReverseMapEntry,
        liveness_of: LivenessOf<'_>,
    ) -> Result<()>;

    /// Makes room for the reverse-map entries of a remap command, one for each physical page in `places`. Returns
    /// whether the host may record all of them at once. Space for GC is kept as by [`ReverseMap::make_room_for_entry`].
    /// Always `false` if the entries have no word for the remap command ([`EntryLayout::WithoutRemapCommand`]).
    ///
    /// # Errors
    /// Errors of the medium.
    fn make_room_for_remap_entries(
        &mut self,
        _: &mut FlashPageStore,
        _places: &[Option<Ppn>],
        _: LivenessOf<'_>,
    ) -> Result<bool> {
        Ok(false)
    }

    /// Records the reverse-map entries of an atomic remap command, one for each of its pages in order;
    /// [`ReverseMap::make_room_for_remap_entries`] must have returned `true` before. All entries are durable on return;
    /// if power is lost before, recovery drops all.
    ///
    /// # Errors
    /// Errors of the medium.
    fn record_remap_entries(
        &mut self,
        _: &mut FlashPageStore,
        command: RemapCommand,
        _: &[ReverseMapEntry],
    ) -> Result<()> {
        unreachable!("{command:?} is recorded, but make_room_for_remap_entries did not admit it")
    }

    /// Marks the reverse-map entry that maps `lpn` to `place` without a program as superseded, because `lpn` is no
    /// longer mapped to `place`. The entry may still be needed as a tombstone, if it unmapped another logical page
    /// (relocation).
    fn mark_mapping_superseded(&mut self, io: &mut FlashPageStore, lpn: Lpn, place: Ppn);

    /// Appends to `out` every reverse-map entry of `block`, superseded ones included, in the order of recording.
    /// Charges the reads of NVRAM or flash that a controller needs to find them.
    ///
    /// # Errors
    /// Errors of the medium.
    fn scan_entries_of_block(
        &mut self,
        io: &mut FlashPageStore,
        block: BlockId,
        out: &mut Vec<ReverseMapEntry>,
    ) -> Result<()>;

    /// Drops the reverse-map entries of `block`, which is erased. The caller has recorded again those that are still
    /// needed.
    ///
    /// # Errors
    /// Errors of the medium.
    fn drop_entries_of_block(&mut self, io: &mut FlashPageStore, block: BlockId) -> Result<()>;

    /// Passes to the reverse map the pages of its log that recovery found on flash, as `(page number, PPN)`; of several
    /// copies of a page only the newest. Must be called before [`ReverseMap::recover`]. After that,
    /// [`ReverseMap::holds_current_metadata_page`] tells which of these pages are live.
    fn adopt_log_pages(&mut self, _: &[(u32, Ppn)]) {}

    /// Rebuilds the RAM state of the reverse map from its non-volatile entries and returns every intact entry, some
    /// perhaps twice. Until the caller says otherwise, every entry counts as needed. The caller reports each entry
    /// whose logical page is no longer mapped to the physical page, by [`ReverseMap::mark_mapping_superseded`].
    ///
    /// # Errors
    /// Errors of the medium.
    fn recover(&mut self, io: &mut FlashPageStore) -> Result<Vec<ReverseMapEntry>>;

    /// Cleans the oldest page of a log that recovery found longer than it may be, if no page has to be programmed for
    /// this. Called after [`ReverseMap::recover`], once the map is rebuilt, until it returns `false`.
    ///
    /// # Errors
    /// Errors of the medium.
    fn clean_excess_log_page(&mut self, _: &mut FlashPageStore, _: LivenessOf<'_>) -> Result<bool> {
        Ok(false)
    }

    /// Returns every recorded reverse-map entry, superseded ones included. For audits: no read is charged.
    fn all_entries(&self, io: &FlashPageStore) -> Vec<ReverseMapEntry>;

    /// Returns the number of reverse-map entries that are not marked as superseded, tombstones included.
    fn valid_entry_count(&self) -> u64;

    /// Returns the maximum number of flash pages that recording one entry may append, including those of the preceding
    /// call of [`ReverseMap::make_room_for_entry`]; 0 for reverse maps without pages on flash.
    fn max_flash_pages_written_per_entry(&self) -> u32 {
        0
    }

    /// Returns the maximum number of flash pages that the reverse-map entries can occupy.
    fn max_metadata_pages(&self) -> u64 {
        0
    }

    /// Returns whether `ppn` is the current copy of page `id` of the reverse map's log on flash.
    fn holds_current_metadata_page(&self, _id: u32, _ppn: Ppn) -> bool {
        false
    }

    /// Records that GC moved page `id` of the reverse map's log on flash to `_new`.
    fn record_metadata_page_move(&mut self, id: u32, _new: Ppn) {
        unreachable!("there is no log page {id}")
    }

    /// Returns the bytes of controller memory that the reverse map takes, one pair of name and bytes per data
    /// structure; the name says if it is NVRAM.
    fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)>;

    /// Checks the invariants of the reverse map's own state.
    ///
    /// # Errors
    /// Returns the first violation, as a sentence.
    fn check_invariants(&self) -> std::result::Result<(), String>;
}

/// Kind of reverse map (record of the logical pages mapped to a physical page), and its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReverseMapKind {
    /// No reverse map, so no binds (mapping without a program): every remap is done by a write (Remap-SSD's `NoRemap`).
    OobOnly,
    /// Reverse-map entries in NVRAM segments, each for one block (Remap-SSD itself).
    Segments {
        /// NVRAM for the segments of reverse-map entries, bytes.
        nvram_bytes: u64,
        /// Size of an NVRAM segment, bytes, a multiple of 16 (of 8 with atomic commands); the default of Remap-SSD is 1
        /// KiB.
        segment_bytes: u32,
    },
    /// Reverse-map entries of all blocks in one NVRAM log (Remap-SSD's `NLog`).
    NvramLog {
        /// NVRAM for the log of reverse-map entries, bytes.
        nvram_bytes: u64,
    },
    /// Reverse-map entries of all blocks in one log on flash (Remap-SSD's `FLog`).
    FlashLog {
        /// Size of the log of reverse-map entries, flash pages.
        log_pages: u32,
    },
    /// Ideal reverse map: unlimited entries, found without cost (Remap-SSD's `Opt`).
    Ideal,
}

impl ReverseMapKind {
    /// Returns the bytes of NVRAM that the medium needs for this kind of reverse map, if flash pages have `page_bytes`
    /// bytes.
    pub fn nvram_bytes(self, page_bytes: u32) -> u64 {
        match self {
            Self::OobOnly | Self::Ideal => 0,
            Self::Segments { nvram_bytes, .. } | Self::NvramLog { nvram_bytes } => nvram_bytes,
            Self::FlashLog { .. } => page_bytes as u64 + 8,
        }
    }
}

/// A reverse map (record of the logical pages mapped to a physical page) of any kind, chosen when the device is built.
#[derive(Clone, Debug)]
pub enum AnyReverseMap {
    /// No reverse map: no logical page can be mapped without a program.
    OobOnly,
    /// Reverse-map entries in NVRAM segments, each for one block; see [`NvramSegments`].
    Segments(NvramSegments),
    /// Reverse-map entries in one NVRAM log; see [`NvramLog`].
    NvramLog(NvramLog),
    /// Reverse-map entries in one log on flash; see [`FlashLog`].
    FlashLog(FlashLog),
    /// Unlimited reverse-map entries without cost; see [`IdealReverseMap`].
    Ideal(IdealReverseMap),
}

impl AnyReverseMap {
    /// Returns an upper limit of the number of physical pages and chunk members to which logical pages are mapped
    /// without a program.
    pub(crate) fn max_units_mapped_without_program(&self) -> u64 {
        match self {
            Self::Ideal(ideal) => ideal.units_mapped_without_program_count(),
            other => other.valid_entry_count(),
        }
    }

    /// Creates an empty reverse map for the device of `io`, whose NVRAM must be all zeros, with entries of layout
    /// `entry_layout`.
    ///
    /// # Errors
    /// [`Error::InvalidOptions`] if the size is not usable for this kind, the medium has too little NVRAM, or entries
    /// are to name an atomic remap command, but this kind of reverse map stores entries neither in NVRAM nor on flash.
    pub fn new(
        io: &FlashPageStore,
        reverse_map_kind: ReverseMapKind,
        entry_layout: EntryLayout,
    ) -> Result<Self> {
        if entry_layout == EntryLayout::WithRemapCommand
            && matches!(reverse_map_kind, ReverseMapKind::OobOnly | ReverseMapKind::Ideal)
        {
            return Err(Error::InvalidOptions(
                "atomic remap commands (remap.atomic_commands) need a reverse map that stores entries: set \
                 parts.reverse_map (on the design remap: remap.reverse_map) to segments, nvram-log or flash-log"
                    .into(),
            ));
        }
        Ok(match reverse_map_kind {
            ReverseMapKind::OobOnly => Self::OobOnly,
            ReverseMapKind::Segments { nvram_bytes, segment_bytes } => {
                Self::Segments(NvramSegments::new(io, nvram_bytes, segment_bytes, entry_layout)?)
            }
            ReverseMapKind::NvramLog { nvram_bytes } => {
                Self::NvramLog(NvramLog::new(io, nvram_bytes, entry_layout)?)
            }
            ReverseMapKind::FlashLog { log_pages } => {
                let log_bytes = log_pages as u64 * io.geometry().page_bytes as u64;
                Self::FlashLog(FlashLog::new(io, log_bytes, entry_layout)?)
            }
            ReverseMapKind::Ideal => Self::Ideal(IdealReverseMap::new(io.geometry().pages())),
        })
    }

    /// Returns the maximum number of pages of an atomic remap command, whatever room the reverse map has: a log on
    /// flash records a command in one page. `None` if only the free space of the reverse map limits a command.
    pub(crate) fn max_pages_per_command(&self) -> Option<u32> {
        match self {
            Self::FlashLog(log) => Some(log.entries_per_page()),
            Self::OobOnly | Self::Segments(_) | Self::NvramLog(_) | Self::Ideal(_) => None,
        }
    }
}

macro_rules! delegate {
    ($self:ident, $map:ident => $call:expr, else $other:expr) => {
        match $self {
            AnyReverseMap::OobOnly => $other,
            AnyReverseMap::Segments($map) => $call,
            AnyReverseMap::NvramLog($map) => $call,
            AnyReverseMap::FlashLog($map) => $call,
            AnyReverseMap::Ideal($map) => $call,
        }
    };
}

impl ReverseMap for AnyReverseMap {
    fn make_room_for_entry(&mut self, io: &mut FlashPageStore, liveness_of: LivenessOf<'_>) -> Result<bool> {
        delegate!(self, m => m.make_room_for_entry(io, liveness_of), else Ok(false))
    }
    fn make_room_for_victim(
        &mut self,
        io: &mut FlashPageStore,
        block: BlockId,
        liveness_of: LivenessOf<'_>,
    ) -> Result<bool> {
        delegate!(self, m => m.make_room_for_victim(io, block, liveness_of), else Ok(true))
    }
    fn record_entry(
        &mut self,
        io: &mut FlashPageStore,
        entry: ReverseMapEntry,
        liveness_of: LivenessOf<'_>,
    ) -> Result<()> {
        delegate!(self, m => m.record_entry(io, entry, liveness_of), else unreachable!(
            "{entry:?} is recorded, but the design has no reverse map",
        ))
    }
    fn make_room_for_remap_entries(
        &mut self,
        io: &mut FlashPageStore,
        places: &[Option<Ppn>],
        liveness_of: LivenessOf<'_>,
    ) -> Result<bool> {
        delegate!(self, m => m.make_room_for_remap_entries(io, places, liveness_of), else Ok(false))
    }
    fn record_remap_entries(
        &mut self,
        io: &mut FlashPageStore,
        command: RemapCommand,
        entries: &[ReverseMapEntry],
    ) -> Result<()> {
        delegate!(self, m => m.record_remap_entries(io, command, entries), else unreachable!(
            "{command:?} is recorded, but the design has no reverse map",
        ))
    }
    fn mark_mapping_superseded(&mut self, io: &mut FlashPageStore, lpn: Lpn, place: Ppn) {
        delegate!(self, m => m.mark_mapping_superseded(io, lpn, place), else ());
    }
    fn scan_entries_of_block(
        &mut self,
        io: &mut FlashPageStore,
        block: BlockId,
        out: &mut Vec<ReverseMapEntry>,
    ) -> Result<()> {
        delegate!(self, m => m.scan_entries_of_block(io, block, out), else Ok(()))
    }
    fn drop_entries_of_block(&mut self, io: &mut FlashPageStore, block: BlockId) -> Result<()> {
        delegate!(self, m => m.drop_entries_of_block(io, block), else Ok(()))
    }
    fn adopt_log_pages(&mut self, pages: &[(u32, Ppn)]) {
        delegate!(self, m => m.adopt_log_pages(pages), else ());
    }
    fn recover(&mut self, io: &mut FlashPageStore) -> Result<Vec<ReverseMapEntry>> {
        delegate!(self, m => m.recover(io), else Ok(Vec::new()))
    }
    fn clean_excess_log_page(
        &mut self,
        io: &mut FlashPageStore,
        liveness_of: LivenessOf<'_>,
    ) -> Result<bool> {
        delegate!(self, m => m.clean_excess_log_page(io, liveness_of), else Ok(false))
    }
    fn all_entries(&self, io: &FlashPageStore) -> Vec<ReverseMapEntry> {
        delegate!(self, m => m.all_entries(io), else Vec::new())
    }
    fn valid_entry_count(&self) -> u64 {
        delegate!(self, m => m.valid_entry_count(), else 0)
    }
    fn max_flash_pages_written_per_entry(&self) -> u32 {
        delegate!(self, m => m.max_flash_pages_written_per_entry(), else 0)
    }
    fn max_metadata_pages(&self) -> u64 {
        delegate!(self, m => m.max_metadata_pages(), else 0)
    }
    fn holds_current_metadata_page(&self, id: u32, ppn: Ppn) -> bool {
        delegate!(self, m => m.holds_current_metadata_page(id, ppn), else false)
    }
    fn record_metadata_page_move(&mut self, id: u32, new: Ppn) {
        delegate!(self, m => m.record_metadata_page_move(id, new), else unreachable!("no log page {id}"));
    }
    fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        delegate!(self, m => m.ram_bytes_by_structure(), else Vec::new())
    }
    fn check_invariants(&self) -> std::result::Result<(), String> {
        delegate!(self, m => m.check_invariants(), else Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: compaction dropped the tombstone of a range in favour of a newer tombstone of the range's first
    /// page, and the next recovery mapped the rest of the range again. Found by a crash of the server machine under an
    /// image of design `remap`.
    #[test]
    fn the_tombstone_of_a_trimmed_range_outlives_a_newer_one_of_its_first_page() {
        let tombstone = |last: Option<u32>, sequence| ReverseMapEntry {
            lpn: Lpn(139),
            mapped_ppn: None,
            relocation_source_or_range_end: last.map(Lpn),
            sequence_number: sequence,
        };
        let needed =
            |_: &ReverseMapEntry| EntryLiveness { is_mapping_live: false, is_tombstone_needed: true };
        let range = tombstone(Some(141), 1);
        let [first, again] = [tombstone(None, 2), tombstone(None, 3)];
        let kept = entries_to_keep(&[range, first, again], &needed);
        assert_eq!(kept, [Some(range), None, Some(again)]);
    }

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

    /// Of several entries that map one logical page to the same physical page, compaction keeps the newest. An older
    /// entry that also unmapped another logical page (relocation) is kept as a tombstone of that page.
    #[test]
    fn of_equal_entries_compaction_keeps_the_newest_and_turns_an_older_relocation_into_a_tombstone() {
        let entry = |sequence, source: Option<u32>| ReverseMapEntry {
            lpn: Lpn(1),
            mapped_ppn: Some(Ppn(2)),
            relocation_source_or_range_end: source.map(Lpn),
            sequence_number: sequence,
        };
        let entries = [entry(2, Some(7)), entry(3, Some(8)), entry(3, Some(8)), entry(1, None)];
        let need = |entry: &ReverseMapEntry| EntryLiveness {
            is_mapping_live: true,
            is_tombstone_needed: entry.relocation_source_or_range_end.is_some(),
        };
        let tombstone = ReverseMapEntry {
            lpn: Lpn(7),
            mapped_ppn: None,
            relocation_source_or_range_end: None,
            sequence_number: 2,
        };
        let kept = entries_to_keep(&entries, &need);
        assert_eq!(kept, [Some(tombstone), Some(entry(3, Some(8))), None, None]);
    }

    #[test]
    fn reverse_map_logs_refuse_devices_above_one_tebibyte_with_an_error_message() {
        assert!(require_log_can_address_device_pages(MAX_DEVICE_PAGES_FOR_LOG).is_ok());
        let Err(Error::InvalidOptions(sentence)) = require_log_can_address_device_pages(1 << 28) else {
            panic!("28 bits do not do")
        };
        assert!(sentence.contains("1 TiB") && sentence.contains("segments"), "{sentence}");
    }

    #[test]
    fn the_histogram_tracks_the_largest_number_of_reverse_map_entries_per_block() {
        let mut sizes = EntriesOrSegmentsPerBlockHistogram::default();
        let steps = [(0, 3, 3), (0, 1, 3), (3, 4, 4), (4, 2, 2), (2, 0, 1), (1, 0, 0)];
        for (before, after, largest) in steps {
            sizes.move_block_to_count(before, after);
            assert_eq!(sizes.largest_count_per_block(), largest);
        }
    }
}
