//! The FTL engine: host write, read, trim and bind (mapping a logical page to stored content), each about one screen of
//! code.
//!
//! A write has five steps.
//! 1. Make room: GC runs before a write starts, never inside a component of the FTL.
//! 2. Let the content stages decide whether the page must be stored at all.
//! 3. If so, append it to the open block of the host stream.
//! 4. Update the mapping, which returns the old place of the logical page.
//! 5. Release the old place: valid count of its block, page validity, history.
//!
//! The FTL has no clock: the timing model assigns times to the list of flash operations afterwards.
//!
//! A mapping changes in two ways only: by a program, or by a bind (a logical page is mapped to stored content without a
//! program).
//!
//! Invariants, audited by [`Ftl::check`](crate::check): the valid bit of a page is set exactly if some logical page
//! maps to it. The valid count of a block equals its valid bits plus its current metadata pages. Logical pages share a
//! physical page only if sharing is part of the design, and the referrers are counted then.
//!
//! After an error that is a power loss, RAM is in a state from which [`Ftl::recover`](crate::recovery) can start: each
//! flash operation precedes the RAM changes that depend on it, or no RAM change depends on it.

mod batch_write;
mod bind;
mod construct;
mod flush;
mod free_space;
mod prefetch;
mod read;
mod release;
mod remap;
mod remap_command;
mod trim;
mod write;

use crate::address::{Lpn, MAX_UNITS_WITH_MARKED_MAP_ENTRIES, Ppn, StoredUnit, is_flash_page};
use crate::content::compress::directory::CHUNK_DIRECTORY_BYTES;
use crate::content::compress::{CompressionState, CompressionStatistics};
use crate::content::delta::{self, DeltaState, DeltaStatistics};
use crate::content::recycle::{FingerprintStorePolicy, RecycleState, Recycler};
use crate::content::{MechanismCounters, MechanismSet, StatelessMechanisms};
use crate::data::Fingerprint;
use crate::design::{MappingPart, Parts, Persistence, RecoveryBlockScan};
use crate::error::{Error, Result};
use crate::gc::{GarbageCollector, GcOptions, MetadataGcRule, UserVictimPolicy, VictimPolicy};
use crate::mapping::{AnyMapping, DemandPagedMap, JournalledMap, Mapping, RamMap};
use crate::nand::{AnyNand, Nand};
use crate::sharing::PageSharingState;
use crate::sharing::reverse_map::{AnyReverseMap, ReverseMap};
use crate::stats::Stats;
use crate::store::{
    FlashPageStore, GC_RESERVE_BLOCKS, content_record_nvram_words, validity_note_nvram_words,
};
use crate::validity::{AnyValidityStore, RamBitmap, ValidityStore};

/// A flash translation layer (FTL) over a flash medium, assembled from an L2P map, a store of page validity, GC and
/// content mechanisms.
#[derive(Clone, Debug)]
pub struct Ftl {
    /// Block allocation, block table, and the medium (flash and NVRAM).
    pub(crate) store: FlashPageStore,
    /// L2P table of the device, in RAM or on flash.
    pub(crate) mapping: AnyMapping,
    /// Page validity: which flash pages are valid, in RAM or on flash.
    pub(crate) validity: AnyValidityStore,
    /// State of recycling (reviving dead pages); `None` if the design does not recycle.
    pub(crate) recycle: Option<Box<RecycleState>>,
    /// State of sharing (several logical pages mapped to one stored page); `None` if the design cannot share pages.
    pub(crate) sharing: Option<Box<PageSharingState>>,
    /// State of delta encoding; `None` if the design has no deltas.
    pub(crate) delta: Option<Box<DeltaState>>,
    /// State of compression, with the table of compressed chunks; `None` if the design does not compress.
    pub(crate) compression: Option<Box<CompressionState>>,
    /// Limit of the controller RAM for the tables of content mechanisms; `u64::MAX` means no limit.
    pub(crate) content_table_limit_bytes: u64,
    /// Maximum number of records of content mechanisms (logical pages mapped without a program, chunks, deltas) in
    /// NVRAM; `u64::MAX` if NVRAM has room for all possible records.
    pub(crate) content_record_limit: u64,
    /// Content mechanisms without state (such as the elimination of silent writes) that the design has or that are on.
    pub(crate) stateless_mechanisms: StatelessMechanisms,
    /// Counters of the pages that reached each content mechanism.
    pub(crate) scheme_counters: MechanismCounters,
    /// State of garbage collection and wear leveling.
    pub(crate) collector: GarbageCollector,
    /// Limits at which the RAM buffer of a validity store on flash is written before it is full.
    pub(crate) flush_limits: ValidityFlushLimits,
    /// Number of logical pages that the device exports.
    pub(crate) logical_pages: u32,
    /// Means by which flushed data survives a power loss.
    pub(crate) persistence: Persistence,
    /// Pages that recovery reads of each block of the device: the spare areas of all pages, the head and tail pages, or
    /// mainly the first pages.
    pub(crate) recovery_block_scan: RecoveryBlockScan,
    /// Whether the valid counts of some blocks may be higher than they ever are in normal operation, because a recovery
    /// could not restore them. (Those of a lazy map, which reports invalid pages late, are always somewhat too high.)
    /// If GC then finds no victim, it recounts the valid pages.
    pub(crate) may_valid_counts_be_too_high: bool,
    /// Whether this device has run a recovery by backward scan (from the newest data pages back). Audits then accept
    /// valid counts that are too high.
    pub(crate) has_recovered_by_backward_scan: bool,
    /// Whether the battery has written RAM contents to flash after a power failure from which recovery has not finished
    /// yet.
    pub(crate) battery_has_saved_ram: bool,
    /// Number of pages that the last remap command, if it is executed page by page, has remapped so far.
    pub(crate) pages_remapped_by_last_command: u32,
}

/// Limits at which the RAM buffer of a validity store on flash is written before it is full. They are checked whenever
/// room for metadata is made, that is, at every host request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ValidityFlushLimits {
    /// Maximum number of superseded versions of translation pages that are retained for recovery. If there are more,
    /// the RAM buffer of the validity store is written, which makes them obsolete.
    pub(crate) max_retained_translation_page_versions: usize,
    /// Maximum number of page programs between two writes of the RAM buffer of the validity store.
    pub(crate) max_programs_between_validity_flushes: u64,
}

impl Ftl {
    /// Creates a formatted (empty) device of `logical_pages` pages on an erased medium.
    ///
    /// # Errors
    /// [`Error::TooFewPhysicalPages`] if data, metadata and the GC reserve do not fit; other variants if options
    /// contradict each other.
    pub fn new(nand: impl Into<AnyNand>, logical_pages: u32, parts: &Parts) -> Result<Self> {
        Self::on_medium(nand.into(), logical_pages, parts)
    }

    /// Creates a formatted device on a medium; see [`Self::new`].
    fn on_medium(nand: AnyNand, logical_pages: u32, parts: &Parts) -> Result<Self> {
        let order = parts.gc.wear.free_block_order();
        let mut store = match parts.recovery_block_scan {
            RecoveryBlockScan::OobScan | RecoveryBlockScan::FirstPages => FlashPageStore::new(nand, order),
            RecoveryBlockScan::HeadTail => FlashPageStore::with_head_and_tail_pages(nand, order)?,
        };
        if parts.gc.stripes_metadata {
            store.stripe_metadata();
        }
        parts.require_compatible()?;
        let mapping = Self::new_mapping(&store, logical_pages, parts)?;
        let spare_bytes = store.geometry().spare_bytes;
        if parts.makes_checkpoints() && spare_bytes < 8 {
            return Err(Error::InvalidOptions(format!(
                "device.spare_bytes is {spare_bytes}, but checkpoints of the map store 8 bytes in the spare area of each \
                 translation page: set it to at least 8"
            )));
        }
        let recycle = parts.content.recycle.as_ref();
        let is_alone = parts.content.has_at_most_recycling();
        let recycle =
            recycle.map(|design| RecycleState::new(&store, logical_pages, design, is_alone)).transpose()?;
        let sharing = parts.content.sharing;
        let sharing =
            sharing.map(|design| PageSharingState::new(&store, logical_pages, design)).transpose()?;
        let delta = parts.content.delta.map(|design| {
            DeltaState::new(
                &store,
                design,
                delta::access_count_table_size(&design, parts.mapping, logical_pages),
            )
        });
        require_nvram_map_options(parts, spare_bytes)?;
        let compression = parts.content.chunks.map(|_| CompressionState::new(&store)).transpose()?;
        let mut ftl = Self {
            validity: AnyValidityStore::new(&store, logical_pages, parts.validity)?,
            collector: GarbageCollector::new(parts.gc),
            flush_limits: ValidityFlushLimits::default(),
            persistence: parts.persistence,
            recovery_block_scan: parts.recovery_block_scan,
            store,
            mapping,
            recycle: recycle.map(Box::new),
            sharing: sharing.map(Box::new),
            delta: delta.map(Box::new),
            compression: compression.map(Box::new),
            content_table_limit_bytes: parts.content.content_tables_ram_limit_bytes.unwrap_or(u64::MAX),
            content_record_limit: u64::MAX,
            stateless_mechanisms: StatelessMechanisms {
                in_design: parts.content.stateless_mechanisms,
                switched_on: parts.content.stateless_mechanisms,
            },
            scheme_counters: MechanismCounters::default(),
            logical_pages,
            may_valid_counts_be_too_high: false,
            has_recovered_by_backward_scan: false,
            battery_has_saved_ram: false,
            pages_remapped_by_last_command: 0,
        };
        ftl.flush_limits = ValidityFlushLimits {
            max_retained_translation_page_versions: ftl.max_retained_translation_page_versions(),
            max_programs_between_validity_flushes: ftl.max_programs_between_validity_flushes(),
        };
        ftl.configure_store_for_flash_metadata();
        let spare_pages = ftl.require_and_count_spare_pages()?;
        ftl.limit_parts_by_spare_pages(spare_pages);
        ftl.prepare_for_recovery(parts)?;
        ftl.set_victim_policy(parts.gc.policy);
        Ok(ftl)
    }

    /// Limits the parts that keep more pages valid than there are logical pages to `spare_pages`, the pages that the
    /// device may hold in addition: the map, pages of deltas, and chunks.
    fn limit_parts_by_spare_pages(&mut self, spare_pages: u64) {
        if let Some(cached) = self.mapping.as_demand_paged_mut() {
            cached.limit_unidentified_invalid_pages(spare_pages);
        }
        if let Some(stage) = &mut self.delta {
            stage.limit_delta_pages_by_spare_pages(spare_pages);
        }
        if let Some(stage) = &mut self.compression {
            stage.limit_excess_chunk_pages_by_spare_pages(spare_pages);
        }
    }

    /// Makes the parts keep what recovery needs under the device's persistence: lists of deltas, records of deltas on
    /// flash, freed chunk numbers, and notes in NVRAM. The reverse map and the directories of chunks are told whether
    /// recovery rebuilds them, so that their RAM is counted accordingly.
    fn prepare_for_recovery(&mut self, parts: &Parts) -> Result<()> {
        if let Some(stage) = &mut self.delta {
            if parts.persistence != Persistence::BatteryRam {
                stage.limit_deltas_per_page_by_spare_bytes(self.store.geometry().spare_bytes);
            }
            // With notes, records in NVRAM tell recovery which delta is current.
            if parts.persistence == Persistence::NvramMap
                && parts.recovery_block_scan != RecoveryBlockScan::FirstPages
                && (self.sharing.is_some() || self.recycle.is_some())
            {
                stage.track_flash_deltas_and_forbid_mapping_without_program();
            }
        }
        if parts.persistence == Persistence::NvramMap {
            if let Some(AnyReverseMap::Ideal(reverse_map)) =
                self.sharing.as_mut().map(|sharing| &mut sharing.reverse_map)
            {
                reverse_map.count_ram_of_entries_as_rebuilt_by_recovery();
            }
            if let Some(stage) = &mut self.compression {
                stage.defer_reuse_of_freed_chunk_numbers();
                stage.exclude_flash_directories_from_ram_bytes();
            }
        }
        if parts.recovery_block_scan == RecoveryBlockScan::FirstPages {
            self.enable_nvram_validity_notes(parts)?;
        }
        Ok(())
    }

    /// Makes the device keep the data that allow recovery to read only the first page of most blocks: notes and records
    /// of content mechanisms in NVRAM, after the words of the map, and a bit in map entries that marks mappings without
    /// a program.
    fn enable_nvram_validity_notes(&mut self, parts: &Parts) -> Result<()> {
        let geometry = self.store.geometry();
        let (flash_pages, units) = (geometry.pages(), parts.max_stored_units(geometry));
        if units > MAX_UNITS_WITH_MARKED_MAP_ENTRIES {
            return Err(Error::InvalidOptions(format!(
                "recovery.blocks=first-pages supports at most {} flash pages on this design, because map entries then have 31 \
                 bits, but the device has {flash_pages}: set recovery.blocks=oob-scan, or lower device.blocks_per_plane or \
                 device.pages_per_block",
                MAX_UNITS_WITH_MARKED_MAP_ENTRIES * flash_pages / units
            )));
        }
        let words = parts.total_nvram_bytes(geometry, self.logical_pages) / 8;
        let max_records = parts.content_record_capacity(geometry, self.logical_pages);
        let first_record_word = words - content_record_nvram_words(max_records);
        let first_note_word = first_record_word - validity_note_nvram_words(geometry);
        self.store.enable_nvram_validity_notes(first_note_word as usize)?;
        self.store.enable_content_records(first_record_word as usize, max_records)?;
        if let Some(limit) = parts.content_record_limit().filter(|&limit| limit <= max_records) {
            self.content_record_limit = limit;
        }
        if let Some(map) = self.mapping.as_demand_paged_mut() {
            map.mark_entries_mapped_without_program();
        }
        Ok(())
    }

    /// Creates the empty L2P table that the design requires: in RAM, in RAM with a copy in NVRAM, or on flash with a
    /// cache.
    fn new_mapping(store: &FlashPageStore, logical_pages: u32, parts: &Parts) -> Result<AnyMapping> {
        let page_bytes = store.geometry().page_bytes;
        Ok(match parts.mapping {
            MappingPart::Flat if parts.persistence == Persistence::NvramMap => {
                let first_nvram_word = parts.reverse_map_nvram_bytes(page_bytes).div_ceil(8) as usize;
                AnyMapping::Flat(RamMap::with_nvram_copy(store, logical_pages, first_nvram_word)?)
            }
            MappingPart::Flat => AnyMapping::Flat(RamMap::new(logical_pages)),
            MappingPart::Cached(options) if parts.persistence == Persistence::NvramMap => {
                let first_nvram_word = parts.reverse_map_nvram_bytes(page_bytes).div_ceil(8) as usize;
                let most = parts.max_lpns_per_flash_page();
                AnyMapping::Cached(Box::new(DemandPagedMap::with_nvram(
                    store,
                    logical_pages,
                    options,
                    first_nvram_word,
                    most,
                )?))
            }
            MappingPart::Cached(options) => {
                AnyMapping::Cached(Box::new(DemandPagedMap::new(logical_pages, page_bytes, options)))
            }
            MappingPart::Journalled { cache, journal } => AnyMapping::Journalled(Box::new(
                JournalledMap::new(logical_pages, page_bytes, cache, journal),
            )),
        })
    }

    /// Returns the number of valid pages that the device may hold in addition to its logical pages, or
    /// [`Error::TooFewPhysicalPages`] if it has too few physical pages. With too few, every closed block could be full
    /// of valid pages when a write needs room.
    fn require_and_count_spare_pages(&self) -> Result<u64> {
        let good = self.store.total_free_blocks() as u64;
        let block_pages = self.store.data_pages_per_block() as u64;
        let metadata_pages = self.max_metadata_pages();
        let pools = self.store.allocation_pools() as u64;
        let reserve_pages = pools * self.reserved_blocks_per_pool() * block_pages + metadata_pages + 1;
        let usable_pages = (good * block_pages).saturating_sub(reserve_pages);
        if self.logical_pages == 0 || self.logical_pages as u64 > usable_pages {
            let reverse_map = self.sharing.as_ref().map(|sharing| &sharing.reverse_map);
            return Err(Error::TooFewPhysicalPages {
                logical_pages: self.logical_pages.into(),
                physical_pages: good * block_pages,
                reserve_pages,
                metadata_pages,
                usable_pages,
                has_reverse_map_log_on_flash: matches!(reverse_map, Some(AnyReverseMap::FlashLog(_))),
            });
        }
        Ok(usable_pages - self.logical_pages as u64)
    }

    /// Returns the number of blocks of each pool (set of planes) that data pages must leave free: the GC reserve, an
    /// open block for GC copies (with dual-pool wear leveling two), and one open block for each further kind of page.
    /// Compressed chunks, and a map with a tree of translation pages, count one block more, because they need several
    /// pages at once, for which the rest of an open block may be too small.
    pub fn reserved_blocks_per_pool(&self) -> u64 {
        let open_blocks = 1
            + u64::from(self.max_metadata_pages() > self.validity.max_metadata_pages())
            + u64::from(self.mapping.max_metadata_pages_per_access() > 1)
            + u64::from(self.delta.is_some())
            + 2 * u64::from(self.compression.is_some())
            + u64::from(self.validity.is_on_flash() || self.battery_saves_validity_bitmap())
            + u64::from(self.collector.options.wear.dual_pool_gap_erases > 0);
        GC_RESERVE_BLOCKS as u64 + open_blocks
    }

    /// Returns the maximum number of flash pages that metadata can occupy, including superseded versions of translation
    /// pages that are retained for recovery.
    pub fn max_metadata_pages(&self) -> u64 {
        let log = self.sharing.as_ref().map_or(0, |sharing| sharing.reverse_map.max_metadata_pages());
        let held = if self.persistence.recovery_compares_map_versions() {
            self.max_retained_translation_page_versions() as u64
        } else {
            0
        };
        let bitmap = if self.battery_saves_validity_bitmap() {
            RamBitmap::saved_copy_page_count(self.store.geometry()).into()
        } else {
            0
        };
        self.mapping.max_metadata_pages() + log + self.validity.max_metadata_pages() + held + bitmap
    }

    /// Returns the number of logical pages of the device, the capacity that the host sees.
    pub fn logical_pages(&self) -> u32 {
        self.logical_pages
    }

    /// Returns the device's counters of host requests, flash operations and content mechanisms.
    pub fn stats(&self) -> &Stats {
        &self.store.stats
    }

    /// Resets all counters of the device to zero, for example after preconditioning. Erase counts (wear) are kept.
    ///
    /// # Panics
    /// If pages await compression ([`Self::logical_pages_awaiting_compression`]): whether their writes needed a page of
    /// their own is counted only when they are stored. A flush stores them.
    pub fn clear_stats(&mut self) {
        assert_eq!(
            self.logical_pages_awaiting_compression(),
            0,
            "counters are reset between a write and its storage"
        );
        self.store.clear_stats();
        if let Some(cached) = self.mapping.as_demand_paged_mut() {
            cached.clear_cache_counts();
        }
        if let AnyMapping::Journalled(map) = &mut self.mapping {
            map.clear_journal_counts();
        }
        match &mut self.validity {
            AnyValidityStore::Log(log) => log.clear_operation_counts(),
            AnyValidityStore::Gecko(gecko) => gecko.clear_operation_counts(),
            AnyValidityStore::Ram(_) | AnyValidityStore::Bitmap(_) => {}
        }
        if let Some(recycle) = &mut self.recycle {
            recycle.recycler.reset_statistics();
        }
        if let Some(stage) = &mut self.delta {
            stage.statistics = DeltaStatistics::default();
        }
        if let Some(stage) = &mut self.compression {
            stage.statistics = CompressionStatistics::default();
        }
        self.scheme_counters = MechanismCounters::default();
    }

    /// Returns the device's store: block allocation, block table, list of flash operations, and the medium (flash and
    /// NVRAM).
    pub fn store(&self) -> &FlashPageStore {
        &self.store
    }

    /// Returns the device's store for changes: to collect flash operations, or to inject faults into the medium.
    pub fn store_mut(&mut self) -> &mut FlashPageStore {
        &mut self.store
    }

    /// Consumes the FTL and returns its store (block allocation and medium). All other RAM state of the FTL is dropped.
    pub fn into_store(self) -> FlashPageStore {
        self.store
    }

    /// Returns the device's L2P mapping, for reading its counters.
    pub fn mapping(&self) -> &AnyMapping {
        &self.mapping
    }

    /// Returns the store of page validity (which pages are valid), for reading its counters.
    pub fn validity(&self) -> &AnyValidityStore {
        &self.validity
    }

    /// Returns the recycler (reuses invalid pages whose content is written again), for reading its counters; `None` if
    /// the design has no recycling.
    pub fn recycler(&self) -> Option<&Recycler> {
        self.recycle.as_deref().map(|stage| &stage.recycler)
    }

    /// Returns whether the design has a content mechanism, so that each write needs the fingerprint of its content.
    #[inline]
    pub fn has_content_mechanisms(&self) -> bool {
        self.has_content_mechanism_with_state() || self.stateless_mechanisms.in_design != MechanismSet::NONE
    }

    /// Returns whether the design has a content mechanism that decides where content is stored (deduplication, remaps,
    /// recycling, deltas or compression). Not every logical page then has a flash page of its own.
    #[inline]
    pub(crate) fn has_content_mechanism_with_state(&self) -> bool {
        self.recycle.is_some() || self.sharing.is_some() || self.delta.is_some() || self.compression.is_some()
    }

    /// Returns whether this design can map logical pages to stored pages without a program (deduplication or remap
    /// commands).
    pub fn can_map_without_program(&self) -> bool {
        self.sharing.as_ref().is_some_and(|sharing| sharing.can_map_without_program())
    }

    /// Returns the number of reverse-map entries (records of mappings without a program, and of trims) that are not
    /// superseded; 0 without a reverse map.
    pub fn valid_reverse_map_entries(&self) -> u64 {
        self.sharing.as_ref().map_or(0, |sharing| sharing.reverse_map.valid_entry_count())
    }

    /// Returns whether the logical page `lpn` is mapped, as far as the map entries in RAM show it.
    pub fn is_known_mapped(&self, lpn: Lpn) -> bool {
        self.mapping.lookup_in_ram(lpn).is_some()
    }

    /// Returns the counters of compression; `None` if compression is not part of the design.
    pub fn compression_statistics(&self) -> Option<CompressionStatistics> {
        self.compression.as_ref().map(|stage| stage.statistics)
    }

    /// Returns the number of logical pages that were acknowledged to the host but wait in RAM until a compressed chunk
    /// is complete.
    pub fn logical_pages_awaiting_compression(&self) -> usize {
        self.compression.as_ref().map_or(0, |stage| stage.chunk_buffer_len())
    }

    /// Returns the counters of delta encoding; `None` if delta encoding is not part of the design.
    pub fn delta_statistics(&self) -> Option<DeltaStatistics> {
        self.delta.as_ref().map(|stage| stage.statistics)
    }

    /// Resets the access counts of logical pages, by which delta encoding finds hot pages. Called after
    /// preconditioning, because its accesses do not show what the workload accesses often.
    pub fn reset_page_access_counts(&mut self) {
        if let Some(stage) = &mut self.delta {
            stage.clear_access_counts();
        }
    }

    /// Returns the device's options of garbage collection: thresholds, victim policy and wear leveling.
    pub fn gc_options(&self) -> &GcOptions {
        &self.collector.options
    }

    /// Replaces the built-in policy by which GC chooses victims, while the drive runs. A policy of the user stays
    /// installed, and goes on to choose in its place.
    pub fn set_victim_policy(&mut self, policy: VictimPolicy) {
        let options = GcOptions { policy, ..self.collector.options };
        let own = self.collector.user_policy.take();
        self.collector = GarbageCollector::new(options);
        self.collector.user_policy = own;
        self.store.blocks_mut().track_closing_order(policy == VictimPolicy::Fifo);
        self.store.blocks_mut().set_tie_break(options.tie_break);
        self.store.blocks_mut().set_gc_skips_nonempty_metadata(options.metadata_gc != MetadataGcRule::Greedy);
    }

    /// Installs a user-supplied policy that chooses GC victims in place of the built-in policy; `None` restores the
    /// built-in policy. The user's policy is not called if only a greedy choice is safe (at most
    /// [`GcOptions::urgent_gc_up_to_free_blocks`] free blocks), nor for blocks of metadata that
    /// [`MetadataGcRule::WhenAllPagesInvalid`] collects.
    pub fn set_user_victim_policy(&mut self, policy: Option<UserVictimPolicy>) {
        self.collector.user_policy = policy;
    }

    /// Changes the replacement policy and the capacity (in entries) of the fingerprint store, the recycler's index of
    /// dead pages, at run time. Does nothing if the design has no recycling.
    pub fn set_fingerprint_store_policy(
        &mut self,
        policy: FingerprintStorePolicy,
        capacity_entries: Option<u32>,
    ) {
        if let Some(stage) = &mut self.recycle {
            stage.recycler.set_policy(policy, capacity_entries);
            stage.recycler.remove_queued_pages_from_history(|ppn| self.store.owner_in_oob(ppn));
        }
    }

    /// Returns the bytes of RAM that an SSD controller needs for this design, as one pair of name and bytes per data
    /// structure.
    pub fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        let mut parts = self.mapping.ram_bytes_by_structure();
        parts.extend(self.validity.ram_bytes_by_structure());
        parts.push(("block table", self.store.blocks().ram_bytes()));
        parts.extend(self.store.unwritten_tail_page_ram_bytes().map(|bytes| ("tails of open blocks", bytes)));
        parts.extend(self.collector.options.wear.ram_bytes_by_structure(self.store.blocks().len()));
        if let Some(stage) = &self.recycle {
            parts.extend(stage.recycler.ram_bytes_by_structure());
        }
        if let Some(sharing) = &self.sharing {
            parts.extend(sharing.ram_bytes_by_structure());
        }
        if let Some(stage) = &self.delta {
            parts.extend(stage.ram_bytes_by_structure());
        }
        if let Some(stage) = &self.compression {
            parts.extend(stage.ram_bytes_by_structure());
        }
        parts
    }
}

/// Rejects a design with its map in NVRAM whose recovery could not rebuild all other state from flash: a design with
/// compression whose spare areas are too small for the directories of chunks.
fn require_nvram_map_options(parts: &Parts, spare_bytes: u32) -> Result<()> {
    let content = &parts.content;
    if parts.persistence == Persistence::NvramMap
        && content.chunks.is_some()
        && spare_bytes < CHUNK_DIRECTORY_BYTES as u32
    {
        return Err(Error::InvalidOptions(format!(
            "device.spare_bytes is {spare_bytes}, but without a battery compress needs {CHUNK_DIRECTORY_BYTES} spare \
             bytes per page for the directories of compressed chunks: set it to at least {CHUNK_DIRECTORY_BYTES}, or \
             set parts.content without compress"
        )));
    }
    Ok(())
}

/// Returns the fingerprint of the content of `unit`, a physical page or a member of a compressed chunk.
#[inline]
pub(crate) fn stored_fingerprint(
    store: &FlashPageStore,
    compression: Option<&CompressionState>,
    unit: StoredUnit,
) -> Fingerprint {
    match compression {
        Some(stage) if !is_flash_page(unit, store.geometry().pages()) => stage.member_fingerprint(unit),
        _ => store.nand().fingerprint(Ppn(unit.0)),
    }
}
