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
//! # Files
//!
//! - `entry.rs`: what an entry records, and its two encodings.
//! - `commands.rs`: atomic remap commands in NVRAM, and which of them are complete.
//! - `compaction.rs`: which entries must be kept. Only the engine has the mapping, so only the engine decides this.
//! - `segments.rs`, `nvram_log.rs`, `flash_log.rs`, `ideal.rs`: the implementations. `log_index.rs` is the index of
//!   both logs.
//!
//! This file has the interface ([`ReverseMap`]), the choice of an implementation ([`AnyReverseMap`]), and what several
//! implementations need.

mod commands;
mod compaction;
mod entry;
mod flash_log;
mod ideal;
mod log_index;
mod nvram_log;
mod segments;

use commands::{RemapCommandState, incomplete_commands};
use compaction::entries_to_keep;
pub use compaction::{EntryLiveness, LivenessOf};
use entry::require_log_can_address_device_pages;
pub use entry::{
    ENTRY_WITH_REMAP_COMMAND_BYTES, EntryLayout, MAX_DEVICE_PAGES_FOR_LOG, MAX_SEQUENCE,
    REVERSE_MAP_ENTRY_BYTES, RemapCommand, ReverseMapEntry,
};
pub use flash_log::FlashLog;
pub use ideal::IdealReverseMap;
pub use nvram_log::NvramLog;
pub use segments::{DEFAULT_SEGMENT_BYTES, MAX_SEGMENTS, NvramSegments};

use crate::address::{BlockId, Lpn, Ppn};
use crate::error::{Error, Result};
use crate::store::FlashPageStore;

/// Percentage of the reverse map's capacity up to which the host may add entries (mappings without a program). If the
/// map is fuller, the host must write instead (Remap-SSD, section 4.4); GC may still add entries.
const MAX_REVERSE_MAP_FILL_PERCENT_FOR_HOST_ENTRIES: u64 = 95;

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
