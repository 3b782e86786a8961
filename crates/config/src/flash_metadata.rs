//! Configuration sections about maps and page validity on flash.
//!
//! A design has parts of its own, and a section replaces one of them. So every variant that the `GeckoFTL` paper
//! compares (Figure 14, and garbage collection of metadata switched on and off) is a configuration and not a design of
//! its own. The sections concern designs whose map is on flash: `dftl`, `lazyftl`, `u-ftl`, `ib-ftl`, `geckoftl` and
//! `wearwell`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wearwell::content::recycle::DeadPageHistoryScope;
use wearwell::design::{
    self, DftlOptions, GeckoFtlOptions, MAX_METADATA_BLOCK_SHARE, MappingPart, Parts, Persistence,
    RecoveryBlockScan, UFtlOptions, WearwellOptions,
};
use wearwell::gc::{GcOptions, MetadataGcRule};
use wearwell::mapping::{DemandPagedMapOptions, DirectoryLocation, InvalidPageIdentification};
use wearwell::nand::Geometry;
use wearwell::validity::{FlashBitmapOptions, GeckoOptions, MergeMode, ValidityStoreKind};

use super::{Config, RemapConfig, ResolvedDevice};

/// Number of logical pages per entry of the cache of an L2P map on flash, where the configuration sets no number of
/// entries.
const DEFAULT_PAGES_PER_MAP_CACHE_ENTRY: u32 = 32;

/// Options of an L2P map on flash; an absent value is the design's own.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MappingConfig {
    /// Entries of the L2P map's cache in RAM. Absent: 1/32 of the logical pages.
    pub cache_entries: Option<u32>,
    /// Lower bound of the number of entries of the L2P map's cache, used if `cache_entries` is absent; a drive with
    /// fewer logical pages caches its whole map. If this value is absent too: 131,072 on the design `wearwell`, no
    /// lower bound on other designs.
    pub least_cache_entries: Option<u32>,
    /// When the flash page that a write replaces is identified and marked invalid.
    pub identification: Option<InvalidPageIdentificationName>,
    /// Share of the cached L2P entries that may be dirty; 1 = all of them.
    pub dirty_share: Option<f64>,
    /// Checkpoints: write dirty L2P map entries that have not changed for long to flash, which bounds what recovery
    /// reads.
    pub checkpoints: Option<bool>,
    /// Where the directory of a map on flash is stored. The directory locates the translation pages.
    pub directory: Option<TranslationDirectoryName>,
    /// Number of inner nodes that RAM caches, of the directory tree that locates translation pages. Absent: all.
    pub cached_nodes: Option<u32>,
}

/// Names of the times at which the flash page that a write replaces is identified and marked invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InvalidPageIdentificationName {
    /// The replaced flash page is invalidated at once, during the write.
    OnUpdate,
    /// The replaced flash page is invalidated later, when the translation page with its map entry is written.
    AtSynchronisation,
}

/// Names of the places where the directory of a map on flash can be stored. The directory locates the translation
/// pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TranslationDirectoryName {
    /// The directory of translation pages is a table in RAM.
    Ram,
    /// The directory of translation pages is a tree on flash, with its root in RAM.
    Tree,
}

/// Options of the page-validity store (which pages of each block are valid); an absent value is the design's own.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ValidityConfig {
    /// The kind of store that records which pages are valid.
    pub kind: Option<ValidityStoreName>,
    /// For `bitmap`: one program of a bitmap page applies all pending changes of that page, instead of one change.
    pub batch: bool,
}

/// Names of the stores of page validity (which pages of each block are valid).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ValidityStoreName {
    /// A bitmap of valid pages in RAM.
    Ram,
    /// A bitmap of valid pages on flash.
    Bitmap,
    /// A log on flash of the pages that became invalid.
    Log,
    /// Page validity in Logarithmic Gecko, an LSM-tree-like structure on flash.
    Gecko,
}

/// Options of Logarithmic Gecko, a page-validity store on flash.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GeckoConfig {
    /// Size ratio of successive levels of Logarithmic Gecko's sorted runs (the paper's T).
    pub size_ratio: u32,
    /// Number of parts into which Logarithmic Gecko divides a block's bitmap of invalid pages (the paper's S); each
    /// part is an entry of its own. Absent: each entry covers 32 pages.
    pub parts: Option<u32>,
    /// How sorted runs of Logarithmic Gecko are merged.
    pub merge: GeckoMergeName,
}

impl Default for GeckoConfig {
    fn default() -> Self {
        Self { size_ratio: GeckoOptions::default().size_ratio, parts: None, merge: GeckoMergeName::default() }
    }
}

/// Names of the ways in which Logarithmic Gecko merges its sorted runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GeckoMergeName {
    /// All sorted runs of Logarithmic Gecko that have to be merged after a flush of its buffer are merged at once.
    #[default]
    MultiWay,
    /// Sorted runs of Logarithmic Gecko are merged two at a time.
    Pairwise,
}

/// Options of recovery from a loss of power; an absent value is the design's own.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RecoveryConfig {
    /// Method by which an L2P map on flash survives a loss of power.
    pub by: Option<RecoveryName>,
    /// Pages of each block that recovery reads. Absent: `first-pages` for designs that can recover so, else `oob-scan`.
    pub blocks: Option<RecoverySurveyName>,
    /// Cut the power after the last request, run the recovery, and report it.
    pub after_run: bool,
    /// Number of measured requests after which the power is cut. Recovery is then run and reported, and the replay
    /// continues. No counter is reset, so that the cost of the recovery and of later corrections is part of the run.
    pub after_requests: Option<u64>,
    /// Time that recovery takes to read a spare area alone, microseconds. Absent: tR and the transfer of the spare
    /// area, as in the event engine. The paper on `GeckoFTL` (section 2) has 3 us where a page read takes 100 us.
    pub spare_read_us: Option<f64>,
}

impl RecoveryConfig {
    /// Returns whether the run includes a loss of power and the recovery from it.
    pub fn has_power_loss(&self) -> bool {
        self.after_run || self.after_requests.is_some()
    }
}

/// Names of the methods by which an L2P map on flash survives a loss of power.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecoveryName {
    /// After a loss of power, a battery lasts long enough to write to flash what is only in RAM.
    Battery,
    /// Recovery reads data pages from the newest one backwards, to find the map entries that changed last.
    Backward,
    /// Recovery reads data pages from the newest one backwards, to find the map entries that changed last, and writes
    /// these entries to flash before the device works again.
    BackwardSynchronising,
}

/// Names of the sets of pages that recovery reads in each block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecoverySurveyName {
    /// Recovery reads the spare area of every page.
    OobScan,
    /// Recovery reads the head page of every block, the tail pages of full blocks, and the spare areas of all pages in
    /// other blocks. Head and tail pages are programmed for this purpose.
    HeadTail,
    /// Recovery reads the spare area of the first page of every block of host data, and those of all pages in other
    /// blocks. Records in NVRAM list the other data pages that it has to read. Requires a map on flash with its dirty
    /// entries in NVRAM, and page validity in a log or a tree on flash.
    FirstPages,
}

impl RecoverySurveyName {
    /// Returns the pages of each block that recovery reads, in the engine's form, for this name.
    pub fn recovery_block_scan(self) -> RecoveryBlockScan {
        match self {
            Self::OobScan => RecoveryBlockScan::OobScan,
            Self::HeadTail => RecoveryBlockScan::HeadTail,
            Self::FirstPages => RecoveryBlockScan::FirstPages,
        }
    }
}

/// Names of the ways in which GC treats blocks of metadata (map and page validity on flash).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MetadataGcName {
    /// Metadata blocks are GC victims like any other block.
    Greedy,
    /// Metadata blocks are not GC victims until all their pages are invalid.
    WhenEmpty,
}

impl GeckoConfig {
    /// Returns the options of Logarithmic Gecko for a device; without a configured number of parts of a block's bitmap,
    /// the number depends on the device's block size.
    pub fn gecko_options(&self, geometry: &Geometry) -> GeckoOptions {
        let merge = match self.merge {
            GeckoMergeName::MultiWay => MergeMode::MultiWay,
            GeckoMergeName::Pairwise => MergeMode::Pairwise,
        };
        let parts = self
            .parts
            .unwrap_or_else(|| GeckoOptions::with_block_parts_of_key_size(geometry).parts_per_block);
        GeckoOptions { size_ratio: self.size_ratio, parts_per_block: parts, merge_mode: merge }
    }
}

impl ValidityConfig {
    /// Returns the page-validity store that the section configures, or `own`, the store of the design, if the section
    /// chooses none.
    fn validity_store_or_design_default(
        &self,
        own: ValidityStoreKind,
        gecko: GeckoOptions,
    ) -> ValidityStoreKind {
        let batches_updates = self.batch;
        match self.kind {
            None if matches!(own, ValidityStoreKind::Bitmap(_)) => {
                ValidityStoreKind::Bitmap(FlashBitmapOptions { batches_updates })
            }
            None => own,
            Some(name) => self.validity_store_named(name, gecko),
        }
    }

    /// Returns the part of a design that stores page validity (which pages of each block are valid), of the kind
    /// `name`.
    pub(super) fn validity_store_named(
        &self,
        name: ValidityStoreName,
        gecko: GeckoOptions,
    ) -> ValidityStoreKind {
        match name {
            ValidityStoreName::Ram => ValidityStoreKind::Ram,
            ValidityStoreName::Bitmap => {
                ValidityStoreKind::Bitmap(FlashBitmapOptions { batches_updates: self.batch })
            }
            ValidityStoreName::Log => ValidityStoreKind::Log,
            ValidityStoreName::Gecko => ValidityStoreKind::Gecko(gecko),
        }
    }
}

impl MappingConfig {
    /// Returns the options of a map on flash: those of the design (`own`), overridden by the options that the section
    /// sets. `nodes` is the number of cached inner nodes of a directory tree.
    pub(super) fn demand_paged_map_options(
        &self,
        own: DemandPagedMapOptions,
        nodes: u32,
    ) -> DemandPagedMapOptions {
        let identification = match self.identification {
            None => own.identification,
            Some(InvalidPageIdentificationName::OnUpdate) => InvalidPageIdentification::OnUpdate,
            Some(InvalidPageIdentificationName::AtSynchronisation) => {
                InvalidPageIdentification::AtSynchronisation
            }
        };
        let bound = |share: f64| ((f64::from(own.cache_entries) * share) as u32).max(1);
        let dirty_entries = match self.dirty_share {
            None => own.max_dirty_entries,
            Some(share) => (share < 1.0).then(|| bound(share)),
        };
        let directory = match self.directory {
            None => own.directory,
            Some(TranslationDirectoryName::Ram) => DirectoryLocation::Ram,
            Some(TranslationDirectoryName::Tree) => DirectoryLocation::Tree { cached_nodes: nodes },
        };
        let makes_checkpoints = self.checkpoints.unwrap_or(own.makes_checkpoints);
        DemandPagedMapOptions {
            identification,
            max_dirty_entries: dirty_entries,
            makes_checkpoints,
            directory,
            ..own
        }
    }
}

/// Entries of the content index (fingerprint to stored page) per exported page on the design wearwell. At this share
/// the index takes a thirteenth of a page map's RAM (20 B per entry, 4 B per page).
const WEARWELL_CONTENT_INDEX_ENTRIES_PER_PAGE: f64 = 1.0 / 64.0;

/// Logical pages per entry of delta encoding's table of access counts, on a small drive with a map on flash: one whose
/// table has at most [`MIN_ACCESS_COUNT_ENTRIES_ON_LARGE_DRIVE`] entries.
const PAGES_PER_ACCESS_COUNT_ENTRY_ON_SMALL_DRIVE: u32 = 16;
/// Logical pages per entry of delta encoding's table of access counts, on a large drive with a map on flash. At this
/// share the table takes a 37th of a page map's RAM (14 B per entry, 4 B per page).
const PAGES_PER_ACCESS_COUNT_ENTRY_ON_LARGE_DRIVE: u32 = 128;
/// Minimum number of entries of delta encoding's table of access counts on a large drive with a map on flash (1.75 MiB
/// of RAM).
const MIN_ACCESS_COUNT_ENTRIES_ON_LARGE_DRIVE: u32 = 1 << 17;

/// Minimum number of entries of the L2P map's cache on the design wearwell (one MiB of RAM). A drive of at most 512 MiB
/// therefore caches its whole map and writes no translation page.
const WEARWELL_MIN_MAP_CACHE_ENTRIES: u32 = 1 << 17;

impl Config {
    /// Returns the number of L2P entries that a map on flash caches in RAM. `own_least` is the minimum that the design
    /// has of its own ([`Self::min_cache_entries`]).
    pub(super) fn cached_map_entries(&self, own_least: Option<u32>, resolved: &ResolvedDevice) -> u32 {
        let least = self.mapping.least_cache_entries.or(own_least).unwrap_or(1).min(resolved.logical_pages);
        let entries = self.mapping.cache_entries;
        let entries =
            entries.unwrap_or((resolved.logical_pages / DEFAULT_PAGES_PER_MAP_CACHE_ENTRY).max(least));
        // More than an entry for each logical page would never be used.
        entries.min(resolved.logical_pages)
    }

    /// Returns the least number of entries of the L2P map's cache that a design has by default
    /// (`mapping.least_cache_entries`); `None` if the design has no minimum.
    pub fn min_cache_entries(design: &str) -> Option<u32> {
        (design == "wearwell").then_some(WEARWELL_MIN_MAP_CACHE_ENTRIES)
    }

    /// Returns the number of entries of delta encoding's table of access counts (to find hot pages) on a design with a
    /// map on flash.
    pub(super) fn access_count_table_entries(resolved: &ResolvedDevice) -> u32 {
        let on_small_drive = (resolved.logical_pages / PAGES_PER_ACCESS_COUNT_ENTRY_ON_SMALL_DRIVE).max(1);
        let on_large_drive = resolved.logical_pages / PAGES_PER_ACCESS_COUNT_ENTRY_ON_LARGE_DRIVE;
        on_small_drive.min(MIN_ACCESS_COUNT_ENTRIES_ON_LARGE_DRIVE).max(on_large_drive)
    }

    /// Returns how many inner nodes of the tree that locates translation pages are cached in RAM.
    pub(super) fn cached_directory_nodes(&self, resolved: &ResolvedDevice) -> u32 {
        self.mapping.cached_nodes.unwrap_or_else(|| directory_inner_node_count(resolved))
    }

    /// Returns the parts (map, page validity, ...) of one of the designs `dftl`, `lazyftl`, `u-ftl`, `ib-ftl`,
    /// `geckoftl` and `wearwell`, which have their map on flash; the sections of the configuration replace some parts.
    /// `None` for any other design.
    pub fn parts_of_flash_map_design(&self, design: &str, resolved: &ResolvedDevice) -> Option<Parts> {
        let gc = resolved.gc_options;
        let cache_entries = self.cached_map_entries(Self::min_cache_entries(design), resolved);
        let gecko = self.gecko.gecko_options(&resolved.geometry);
        let cached_directory_nodes = self.cached_directory_nodes(resolved);
        let tree = UFtlOptions { cache_entries, cached_directory_nodes };
        let mut parts = match design {
            "dftl" => {
                let cache_entries = self.dftl.cache_entries.unwrap_or(cache_entries);
                design::dftl(gc, DftlOptions { cache_entries })
            }
            "lazyftl" => design::lazyftl(gc, cache_entries),
            "u-ftl" => design::uftl(gc, tree),
            "ib-ftl" => design::ibftl(gc, tree),
            "geckoftl" => design::geckoftl(gc, GeckoFtlOptions { cache_entries, gecko }),
            "wearwell" => self.parts_of_wearwell_design(gc, cache_entries, gecko, resolved),
            _ => return None,
        };
        if let MappingPart::Cached(own) = parts.mapping {
            parts.mapping =
                MappingPart::Cached(self.mapping.demand_paged_map_options(own, cached_directory_nodes));
        }
        parts.validity = self.validity.validity_store_or_design_default(parts.validity, gecko);
        parts.persistence = match self.recovery.by {
            None => parts.persistence,
            Some(RecoveryName::Battery) => Persistence::BatteryFlush,
            Some(RecoveryName::Backward) => {
                Persistence::BackwardScan { writes_map_before_first_request: false }
            }
            Some(RecoveryName::BackwardSynchronising) => {
                Persistence::BackwardScan { writes_map_before_first_request: true }
            }
        };
        Some(parts)
    }

    /// Returns the parts of the composed design `wearwell`: every mechanism with the options of its configuration
    /// section, and a content index that covers a part of the drive.
    fn parts_of_wearwell_design(
        &self,
        gc: GcOptions,
        cache_entries: u32,
        gecko: GeckoOptions,
        resolved: &ResolvedDevice,
    ) -> Parts {
        let mut recycle = self.recycling_part(resolved);
        if self.recycle.history.is_none() {
            recycle.options.dead_page_history_scope = DeadPageHistoryScope::FingerprintStore;
        }
        let index_share = self.remap.index_share.or(Some(WEARWELL_CONTENT_INDEX_ENTRIES_PER_PAGE));
        let remap = RemapConfig { index_share, ..self.remap.clone() };
        let options = WearwellOptions {
            cache_entries,
            gecko,
            recycle,
            dedup: remap.dedup_options(resolved.logical_pages),
            delta: self.delta_options(resolved),
        };
        design::wearwell(gc, options)
    }

    /// Returns the GC options `own` of a design with the configured way of collecting metadata blocks; without such a
    /// setting, `own` is unchanged.
    pub fn gc_options_with_metadata_policy(&self, own: GcOptions) -> GcOptions {
        let share = self.gc.metadata_share;
        let metadata_gc = match (self.gc.metadata, own.metadata_gc) {
            (Some(MetadataGcName::Greedy), _) | (None, MetadataGcRule::Greedy) => MetadataGcRule::Greedy,
            (Some(MetadataGcName::WhenEmpty), _) => MetadataGcRule::WhenAllPagesInvalid {
                max_metadata_block_share: share.unwrap_or(MAX_METADATA_BLOCK_SHARE),
            },
            (None, MetadataGcRule::WhenAllPagesInvalid { max_metadata_block_share: of_design }) => {
                MetadataGcRule::WhenAllPagesInvalid { max_metadata_block_share: share.unwrap_or(of_design) }
            }
        };
        GcOptions { metadata_gc, ..own }
    }
}

/// Returns the number of inner nodes of the directory tree over all translation pages. A node holds as many addresses
/// as a translation page.
fn directory_inner_node_count(resolved: &ResolvedDevice) -> u32 {
    let addresses = resolved.geometry.page_bytes / 4;
    resolved.logical_pages.div_ceil(addresses).div_ceil(addresses)
}

/// Options of the DFTL design (page map on flash with a cache).
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DftlConfig {
    /// Entries of DFTL's cached mapping table. Absent: as many as `mapping.cache_entries`.
    pub cache_entries: Option<u32>,
}
