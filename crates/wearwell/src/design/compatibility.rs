//! Which parts of a design can be combined: a table of rules, each with the reason for which it refuses a combination.
//!
//! A reason states what a part needs and why, and names in brackets the settings of the parts that it concerns. It does
//! not say which of them to change: that depends on what the user may change. The configuration finds it by trying
//! changes against this table, so that it never advises what the table refuses. A refused combination breaks at least
//! one rule; the first broken one is reported, so more general reasons come first.

use super::{ContentParts, MappingPart, Parts, Persistence, RecoveryBlockScan};
use crate::error::{Error, Result};
use crate::gc::{MetadataGcRule, VictimPolicy};
use crate::mapping::{DemandPagedMapOptions, InvalidPageIdentification};
use crate::sharing::reverse_map::ReverseMapKind;
use crate::validity::ValidityStoreKind;

/// A combination of parts that is impossible.
struct IncompatiblePartsRule {
    /// Whether a design has the impossible combination.
    is_broken: fn(&Parts) -> bool,
    /// Why the combination is impossible.
    reason: &'static str,
}

/// Impossible combinations of parts. A design is refused with the reason of the first rule that it breaks.
const INCOMPATIBLE_PARTS_RULES: &[IncompatiblePartsRule] = &[
    // Parts that exclude each other, however the design recovers.
    IncompatiblePartsRule {
        is_broken: |parts| {
            parts.content.recycle.is_some() && parts.executes_mapping_to_stored_content_as_write()
        },
        reason: "with dedup or remap, recycle needs a reverse map (parts.reverse_map other than none), because the \
                 spare area of a recycled page names another logical page than the one that is mapped to it",
    },
    IncompatiblePartsRule {
        is_broken: |parts| {
            parts.executes_mapping_to_stored_content_as_write()
                && !(parts.has_map_in_ram() && parts.content.chunks.is_none())
        },
        reason: "without a reverse map (parts.reverse_map=none) dedup and remap are executed as writes, each to a \
                 flash page of its own, which needs a flat map (a table in RAM, parts.map=flat) and parts.content \
                 without compress",
    },
    IncompatiblePartsRule {
        is_broken: |parts| parts.has_durable_reverse_map() && !parts.has_map_in_ram(),
        reason: "a reverse map in NVRAM or in a flash log (parts.reverse_map) needs a flat map (parts.map=flat), in \
                 which it looks up which of its entries are current, because a map on flash cannot answer without a \
                 flash read",
    },
    IncompatiblePartsRule {
        is_broken: |parts| parts.has_durable_reverse_map() && parts.content.chunks.is_some(),
        reason: "entries of a reverse map in NVRAM or in a flash log (parts.reverse_map) name flash pages, and with \
                 compress they would have to name members of compressed chunks, so parts.content must be without \
                 compress",
    },
    IncompatiblePartsRule {
        is_broken: |parts| parts.has_atomic_remap_commands() && !parts.has_durable_reverse_map(),
        reason: "atomic remap commands (remap.atomic_commands) need a reverse map in NVRAM or in a flash log \
                 (parts.reverse_map), where the last entry of a command makes all of it durable",
    },
    IncompatiblePartsRule {
        is_broken: |parts| {
            let has_map_in_nvram = parts.persistence == Persistence::NvramMap;
            parts.has_atomic_remap_commands() && parts.content.delta.is_some() && has_map_in_nvram
        },
        reason: "atomic remap commands (remap.atomic_commands) with the map in NVRAM (parts.survives=nvram-map) need \
                 parts.content without delta, because they may change only map entries, and remapping a page that is \
                 stored as a delta takes a write of that page",
    },
    IncompatiblePartsRule {
        is_broken: |parts| parts.gc.wear.static_gap_erases > 0 && parts.gc.wear.dual_pool_gap_erases > 0,
        reason: "static and dual-pool wear leveling exclude each other, because both move cold data, so \
                 wear.static_gap or wear.dual_pool_gap must be 0",
    },
    IncompatiblePartsRule {
        is_broken: |parts| {
            parts.has_lazily_invalidating_map() && parts.content.has_content_mechanism_with_state()
        },
        reason: "dedup, remap, recycle, delta and compress (parts.content) must know at once which page a write \
                 replaces, so the map must not be lazy (parts.map): a lazy map finds this out only when it writes a \
                 translation page",
    },
    IncompatiblePartsRule {
        is_broken: |parts| parts.has_map_journal() && !parts.replays_journal(),
        reason: "a journal of the map (delta.journal_pages) needs a battery that lasts until dirty map entries are \
                 written to flash (parts.survives=battery-flush), delta as the only content mechanism (besides \
                 silent), and a map without other options (late identification of invalid pages, checkpoints, a bound \
                 on dirty entries)",
    },
    // Content mechanisms whose state in RAM is lost.
    IncompatiblePartsRule {
        is_broken: |parts| parts.recovers_from_spare_areas() && parts.content.has_mechanism_besides_sharing(),
        reason: "recovery from the spare areas of all pages (parts.survives=oob-scan or nvram-entries) rebuilds the \
                 state of dedup and remap, but not that of recycle, delta and compress, so parts.content must be \
                 without these",
    },
    IncompatiblePartsRule {
        is_broken: |parts| {
            parts.persistence == Persistence::BatteryFlush && parts.content.has_mechanism_besides_delta()
        },
        reason: "a battery that only lasts until dirty map entries are written to flash \
                 (parts.survives=battery-flush) keeps the state of delta, but not that of dedup, remap, recycle and \
                 compress, so parts.content must be without these",
    },
    IncompatiblePartsRule {
        is_broken: |parts| {
            parts.recovers_by_backward_scan() && parts.content.has_content_mechanism_with_state()
        },
        reason: "recovery by a backward scan (parts.survives=backward) does not rebuild the state of dedup, remap, \
                 recycle, delta and compress, so parts.content must be without these",
    },
    // The map, and the binds in it.
    IncompatiblePartsRule {
        is_broken: |parts| parts.recovers_from_spare_areas() && !parts.has_map_in_ram(),
        reason: "recovery from the spare areas of all pages (parts.survives=oob-scan or nvram-entries) rebuilds only \
                 a flat map (a table in RAM), so parts.map must be flat",
    },
    IncompatiblePartsRule {
        is_broken: |parts| parts.persistence == Persistence::OobScan && parts.maps_pages_without_program(),
        reason: "the spare area of a page that dedup or remap shares names only one of its logical pages, so that \
                 recovery from spare areas alone (parts.survives=oob-scan) would return older data for the others: it \
                 needs parts.content without dedup and remap, or parts.reverse_map=none",
    },
    IncompatiblePartsRule {
        is_broken: |parts| {
            parts.persistence == Persistence::DurableReverseMap && !parts.has_durable_reverse_map()
        },
        reason: "recovery from spare areas and reverse-map entries (parts.survives=nvram-entries) replays the entries \
                 of a reverse map in NVRAM or on flash, so parts.reverse_map must be segments, nvram-log or flash-log",
    },
    IncompatiblePartsRule {
        is_broken: |parts| parts.persistence == Persistence::BatteryFlush && parts.has_map_in_ram(),
        reason: "a battery that lasts until dirty map entries are written to flash (parts.survives=battery-flush) \
                 needs a map on flash (parts.map=cached or lazy), and this map is in RAM",
    },
    IncompatiblePartsRule {
        is_broken: |parts| {
            let fills_several = parts.content.delta.is_some_and(|delta| delta.temp_buffer_pages > 1);
            parts.persistence == Persistence::NvramMap && fills_several
        },
        reason: "with the map in NVRAM and no battery (parts.survives=nvram-map), only one page of deltas can be open \
                 (filled in RAM) at a time, so delta.open_pages must be 1",
    },
    // Page validity on flash.
    IncompatiblePartsRule {
        is_broken: |parts| parts.persistence == Persistence::NvramMap && parts.has_validity_bitmap_on_flash(),
        reason: "recovery from a map in NVRAM (parts.survives=nvram-map) cannot correct a bitmap of page validity on \
                 flash, so parts.validity must be ram, log or gecko",
    },
    IncompatiblePartsRule {
        is_broken: |parts| parts.has_map_journal() && parts.validity != ValidityStoreKind::Ram,
        reason: "recovery with a journal of the map (delta.journal_pages) rebuilds page validity in RAM, so \
                 parts.validity must be ram",
    },
    IncompatiblePartsRule {
        is_broken: |parts| parts.recovers_from_spare_areas() && parts.validity != ValidityStoreKind::Ram,
        reason: "recovery from the spare areas of all pages (parts.survives=oob-scan or nvram-entries) rebuilds page \
                 validity in RAM, so parts.validity must be ram",
    },
    IncompatiblePartsRule {
        is_broken: |parts| {
            parts.persistence == Persistence::BatteryFlush
                && parts.validity != ValidityStoreKind::Ram
                && !parts.has_validity_bitmap_on_flash()
        },
        reason: "page validity must be in RAM or in a bitmap (parts.validity) if a battery lasts only until dirty map \
                 entries are written to flash (parts.survives=battery-flush): a cleaning of the log of invalid pages, \
                 or a merge in the tree of invalid pages (Logarithmic Gecko), may be unfinished then, and only RAM \
                 holds how far it has come",
    },
    IncompatiblePartsRule {
        is_broken: |parts| {
            parts.persistence == Persistence::BatteryFlush
                && parts.has_validity_bitmap_on_flash()
                && parts.content.delta.is_some()
        },
        reason: "with delta and a battery that lasts until dirty map entries are written to flash \
                 (parts.survives=battery-flush), recovery rebuilds page validity in RAM, so parts.validity must be \
                 ram",
    },
    // Backward scan, and options of lazy maps.
    IncompatiblePartsRule {
        is_broken: |parts| parts.recovers_by_backward_scan() && parts.has_map_in_ram(),
        reason: "recovery by a backward scan (parts.survives=backward) needs a map on flash (parts.map=lazy), and \
                 this map is in RAM",
    },
    IncompatiblePartsRule {
        is_broken: |parts| parts.recovers_by_backward_scan() && !parts.has_lazily_invalidating_map(),
        reason: "recovery by a backward scan (parts.survives=backward) needs a lazy map (parts.map=lazy), which finds \
                 replaced pages late, and this map marks a replaced page as invalid at once",
    },
    IncompatiblePartsRule {
        is_broken: |parts| parts.makes_checkpoints() && !parts.has_lazily_invalidating_map(),
        reason: "checkpoints of the map (mapping.checkpoints) need a lazy map (parts.map=lazy), which finds replaced \
                 pages late, and this map marks a replaced page as invalid at once",
    },
    IncompatiblePartsRule {
        is_broken: |parts| {
            parts.limits_dirty_map_entries()
                && !parts.has_lazily_invalidating_map()
                && parts.persistence != Persistence::NvramMap
        },
        reason: "a bound on dirty map entries (mapping.dirty_share) needs a lazy map (parts.map=lazy), which finds \
                 replaced pages late, or a map whose dirty entries are in NVRAM (parts.survives=nvram-map)",
    },
    IncompatiblePartsRule {
        is_broken: |parts| parts.recovers_by_backward_scan() && !parts.makes_checkpoints(),
        reason: "recovery by a backward scan (parts.survives=backward) needs checkpoints of the map \
                 (mapping.checkpoints=true), which bound how far it reads",
    },
    IncompatiblePartsRule {
        is_broken: |parts| parts.recovers_by_backward_scan() && parts.has_validity_bitmap_on_flash(),
        reason: "recovery by a backward scan (parts.survives=backward) reads back to the last write of the \
                 page-validity buffer, which a bitmap on flash does not have, so parts.validity must be ram, log or \
                 gecko",
    },
    IncompatiblePartsRule {
        is_broken: |parts| parts.persistence == Persistence::NvramMap && parts.has_lazily_invalidating_map(),
        reason: "recovery from a map in NVRAM (parts.survives=nvram-map) needs a map that marks a replaced page as \
                 invalid at once (parts.map=flat or cached), and this map is lazy",
    },
    // Pages of each block that recovery reads.
    IncompatiblePartsRule {
        is_broken: |parts| {
            parts.recovery_block_scan == RecoveryBlockScan::FirstPages
                && !parts.can_recover_from_first_pages_of_blocks()
        },
        reason: "recovery from the first page of each block (recovery.blocks=first-pages) needs a map on flash whose \
                 dirty entries are in NVRAM (parts.survives=nvram-map), and page validity in a log or a tree on flash \
                 (parts.validity=log or gecko)",
    },
    IncompatiblePartsRule {
        is_broken: |parts| {
            parts.recovery_block_scan == RecoveryBlockScan::HeadTail && !parts.recovers_from_spare_areas()
        },
        reason: "head and tail pages, which describe a block (recovery.blocks=head-tail), are read only by a recovery \
                 that rebuilds a flat map (a table in RAM) from flash, so parts.survives must be oob-scan or \
                 nvram-entries",
    },
    // Garbage collection.
    IncompatiblePartsRule {
        is_broken: |parts| {
            parts.gc.metadata_gc != MetadataGcRule::Greedy && parts.gc.policy != VictimPolicy::Greedy
        },
        reason: "only with the greedy victim policy (gc.policy=greedy) can GC leave metadata blocks alone until they \
                 are empty (gc.metadata=when-empty)",
    },
];

impl Parts {
    /// Checks that the parts of the design (map, page validity, content mechanisms, GC, recovery) can be combined.
    ///
    /// # Errors
    /// [`Error::IncompatibleParts`] with the reason of the first broken rule.
    pub fn require_compatible(&self) -> Result<()> {
        match INCOMPATIBLE_PARTS_RULES.iter().find(|rule| (rule.is_broken)(self)) {
            Some(rule) => Err(Error::IncompatibleParts { reason: rule.reason }),
            None => Ok(()),
        }
    }

    /// Returns whether the whole L2P table is in RAM.
    fn has_map_in_ram(&self) -> bool {
        self.mapping == MappingPart::Flat
    }

    /// Returns whether the L2P table is on flash and its changes are logged in a journal.
    fn has_map_journal(&self) -> bool {
        matches!(self.mapping, MappingPart::Journalled { .. })
    }

    /// Returns the options of an L2P table on flash that has no journal; `None` for other maps.
    fn options_of_cached_map_without_journal(&self) -> Option<DemandPagedMapOptions> {
        match self.mapping {
            MappingPart::Cached(options) => Some(options),
            MappingPart::Flat | MappingPart::Journalled { .. } => None,
        }
    }

    /// Returns whether the map is lazy: it finds out which old pages became invalid only when it writes translation
    /// pages.
    fn has_lazily_invalidating_map(&self) -> bool {
        self.options_of_cached_map_without_journal()
            .is_some_and(|map| map.identification == InvalidPageIdentification::AtSynchronisation)
    }

    /// Returns whether the design has a map on flash that makes checkpoints (early writes of entries that are dirty for
    /// long).
    pub(crate) fn makes_checkpoints(&self) -> bool {
        self.options_of_cached_map_without_journal().is_some_and(|map| map.makes_checkpoints)
    }

    /// Returns whether the design limits the number of dirty entries in the cache of its map on flash.
    fn limits_dirty_map_entries(&self) -> bool {
        self.options_of_cached_map_without_journal().is_some_and(|map| map.max_dirty_entries.is_some())
    }

    /// Returns whether recovery replays the journal of the design's L2P map, which logs the changes of the map on
    /// flash. It does so only if the map is otherwise that of DFTL (no checkpoints, no late identification of invalid
    /// pages, directory in RAM), delta encoding is the only content mechanism, and a battery writes RAM to flash at
    /// power loss.
    fn replays_journal(&self) -> bool {
        let MappingPart::Journalled { cache, .. } = self.mapping else { return false };
        let is_plain = cache == DemandPagedMapOptions::with_cache_capacity(cache.cache_entries);
        let has_delta_alone = self.content.delta.is_some() && !self.content.has_mechanism_besides_delta();
        is_plain && has_delta_alone && self.persistence == Persistence::BatteryFlush
    }

    /// Returns whether page validity is stored in a bitmap on flash.
    fn has_validity_bitmap_on_flash(&self) -> bool {
        matches!(self.validity, ValidityStoreKind::Bitmap(_))
    }

    /// Returns whether recovery rebuilds the L2P table from the spare areas of flash pages.
    fn recovers_from_spare_areas(&self) -> bool {
        matches!(self.persistence, Persistence::OobScan | Persistence::DurableReverseMap)
    }

    /// Returns whether recovery reads the newest data pages, backwards in time, to find changed map entries.
    fn recovers_by_backward_scan(&self) -> bool {
        matches!(self.persistence, Persistence::BackwardScan { .. })
    }

    /// Returns the kind of the reverse map (record of the referrers of shared pages); `None` if the design shares no
    /// pages.
    fn reverse_map_kind(&self) -> Option<ReverseMapKind> {
        self.content.sharing.map(|sharing| sharing.reverse_map)
    }

    /// Returns whether the design shares pages but has no reverse map (record of the referrers), so that it writes a
    /// page where other designs would map the logical page to stored content.
    fn executes_mapping_to_stored_content_as_write(&self) -> bool {
        self.reverse_map_kind() == Some(ReverseMapKind::OobOnly)
    }

    /// Returns whether the design maps logical pages to content that is stored already, without a program, and records
    /// this in a reverse map.
    fn maps_pages_without_program(&self) -> bool {
        self.reverse_map_kind().is_some_and(|kind| kind != ReverseMapKind::OobOnly)
    }

    /// Returns whether remap commands of several pages are atomic.
    fn has_atomic_remap_commands(&self) -> bool {
        self.content.sharing.is_some_and(|sharing| sharing.has_atomic_remap_commands)
    }

    /// Returns whether the reverse map of the design is in NVRAM segments, or in a log in NVRAM or on flash.
    fn has_durable_reverse_map(&self) -> bool {
        self.maps_pages_without_program() && self.reverse_map_kind() != Some(ReverseMapKind::Ideal)
    }
}

impl ContentParts {
    /// Returns whether the design recycles, encodes deltas or compresses.
    fn has_mechanism_besides_sharing(&self) -> bool {
        self.recycle.is_some() || self.delta.is_some() || self.chunks.is_some()
    }

    /// Returns whether the design recycles, shares pages or compresses.
    fn has_mechanism_besides_delta(&self) -> bool {
        self.recycle.is_some() || self.sharing.is_some() || self.chunks.is_some()
    }
}
