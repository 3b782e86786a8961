//! Sections of the configuration that describe maps and page validity on flash.
//!
//! A design brings its own parts; what a section says replaces one of them, so that every variant of the comparison in
//! `GeckoFTL` (its Figure 14, and garbage collection of metadata switched on and off) is a configuration and no design. The
//! sections concern designs with a map on flash: `dftl`, `lazyftl`, `u-ftl`, `ib-ftl`, `geckoftl` and `wearwell`. Which
//! parts go together is the engine's business: its refusal is passed on as it is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wearwell::design::{
    self, BlockSurvey, DftlOptions, GeckoFtlOptions, METADATA_SHARE, MappingPart, Parts, Persistence,
    UFtlOptions, WearwellOptions,
};
use wearwell::gc::{GcOptions, MetadataGc};
use wearwell::mapping::{CachedOptions, DirectoryPart, Identification};
use wearwell::nand::Geometry;
use wearwell::validity::{BitmapOptions, GeckoOptions, MergeMode, ValidityPart};

use super::{Config, RemapConfig, Resolved};

/// Cached entries where nothing is said: this share of the logical pages.
const CACHED_SHARE: u32 = 32;

/// The map on flash; what is absent is the design's own.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MappingConfig {
    /// Entries of the cache. Absent: 1/32 of the logical pages.
    pub cache_entries: Option<u32>,
    /// When the page that a write replaces is called invalid.
    pub identification: Option<IdentificationName>,
    /// Share of the cache that may be dirty; 1 = all.
    pub dirty_share: Option<f64>,
    /// Write dirty entries that were not changed for long.
    pub checkpoints: Option<bool>,
    /// How the places of translation pages are known.
    pub directory: Option<DirectoryName>,
    /// Inner nodes of a tree in RAM. Absent: all.
    pub cached_nodes: Option<u32>,
}

/// When the page that a write replaces is called invalid, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IdentificationName {
    /// At once.
    OnUpdate,
    /// When the translation page is written.
    AtSynchronisation,
}

/// How the places of translation pages are known, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DirectoryName {
    /// A table in RAM.
    Ram,
    /// A tree on flash with its root in RAM.
    Tree,
}

/// Page validity; what is absent is the design's own.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ValidityConfig {
    /// Where it is kept, and how.
    pub kind: Option<ValidityName>,
    /// For `bitmap`: one write takes all reports that wait for its page.
    pub batch: bool,
}

/// Stores of page validity by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ValidityName {
    /// A bitmap in RAM.
    Ram,
    /// A bitmap on flash.
    Bitmap,
    /// A log of invalid pages on flash.
    Log,
    /// Logarithmic Gecko.
    Gecko,
}

/// Logarithmic Gecko.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GeckoConfig {
    /// Size ratio of levels (T).
    pub size_ratio: u32,
    /// Parts of a block's bitmap (S). Absent: parts of 32 pages.
    pub parts: Option<u32>,
    /// When runs are merged.
    pub merge: MergeName,
}

impl Default for GeckoConfig {
    fn default() -> Self {
        Self { size_ratio: GeckoOptions::default().size_ratio, parts: None, merge: MergeName::default() }
    }
}

/// When runs are merged, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MergeName {
    /// All runs that a flush will affect, at once.
    #[default]
    MultiWay,
    /// Two at a time.
    Pairwise,
}

/// Loss of power; what is absent is the design's own.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RecoveryConfig {
    /// What makes the map survive.
    pub by: Option<RecoveryName>,
    /// What is read of each block where a map in RAM is rebuilt from flash.
    pub blocks: SurveyName,
    /// Power is lost behind the last request, and the recovery is executed and reported.
    pub after_run: bool,
    /// Power is lost behind so many measured requests, the recovery is executed and reported, and the run goes on. All
    /// counters go on, so that what the recovery and the corrections after it cost is part of the run.
    pub after_requests: Option<u64>,
}

impl RecoveryConfig {
    /// Whether a recovery is executed at all.
    pub fn is_executed(&self) -> bool {
        self.after_run || self.after_requests.is_some()
    }
}

/// What makes a map on flash survive loss of power, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecoveryName {
    /// A battery writes what is only in RAM.
    Battery,
    /// The newest pages are read backwards.
    Backward,
    /// The same, and what is found is written before the device works again.
    BackwardSynchronising,
}

/// What recovery reads of each block, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SurveyName {
    /// The spare area of every page.
    #[default]
    OobScan,
    /// Head and tail pages of blocks, which are programmed for it.
    HeadTail,
}

impl SurveyName {
    /// The part of a design with this name.
    pub fn part(self) -> BlockSurvey {
        match self {
            Self::OobScan => BlockSurvey::OobScan,
            Self::HeadTail => BlockSurvey::HeadTail,
        }
    }
}

/// What happens to blocks of metadata, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MetadataName {
    /// They are victims like any other.
    Greedy,
    /// They are left alone until they are empty.
    WhenEmpty,
}

impl GeckoConfig {
    /// The part for a device.
    pub fn options(&self, geometry: &Geometry) -> GeckoOptions {
        let merge = match self.merge {
            MergeName::MultiWay => MergeMode::MultiWay,
            MergeName::Pairwise => MergeMode::Pairwise,
        };
        let parts = self.parts.unwrap_or_else(|| GeckoOptions::balanced(geometry).parts);
        GeckoOptions { size_ratio: self.size_ratio, parts, merge }
    }
}

impl ValidityConfig {
    fn part(&self, own: ValidityPart, gecko: GeckoOptions) -> ValidityPart {
        let batch = self.batch;
        match self.kind {
            None if matches!(own, ValidityPart::Bitmap(_)) => ValidityPart::Bitmap(BitmapOptions { batch }),
            None => own,
            Some(name) => self.part_of(name, gecko),
        }
    }

    /// The store of that name.
    pub(super) fn part_of(&self, name: ValidityName, gecko: GeckoOptions) -> ValidityPart {
        match name {
            ValidityName::Ram => ValidityPart::Ram,
            ValidityName::Bitmap => ValidityPart::Bitmap(BitmapOptions { batch: self.batch }),
            ValidityName::Log => ValidityPart::Log,
            ValidityName::Gecko => ValidityPart::Gecko(gecko),
        }
    }
}

impl MappingConfig {
    pub(super) fn options(&self, own: CachedOptions, nodes: u32) -> CachedOptions {
        let identification = match self.identification {
            None => own.identification,
            Some(IdentificationName::OnUpdate) => Identification::OnUpdate,
            Some(IdentificationName::AtSynchronisation) => Identification::AtSynchronisation,
        };
        let bound = |share: f64| ((f64::from(own.entries) * share) as u32).max(1);
        let dirty_entries = match self.dirty_share {
            None => own.dirty_entries,
            Some(share) => (share < 1.0).then(|| bound(share)),
        };
        let directory = match self.directory {
            None => own.directory,
            Some(DirectoryName::Ram) => DirectoryPart::Ram,
            Some(DirectoryName::Tree) => DirectoryPart::Tree { cached_nodes: nodes },
        };
        let checkpoints = self.checkpoints.unwrap_or(own.checkpoints);
        CachedOptions { identification, dirty_entries, checkpoints, directory, ..own }
    }
}

/// Entries of the content index per exported page on the design wearwell: a sixteenth of a page map's RAM.
const WEARWELL_INDEX_SHARE: f64 = 1.0 / 64.0;

impl Config {
    /// Entries of the cache of a map on flash.
    pub(super) fn cache_entries(&self, resolved: &Resolved) -> u32 {
        self.mapping.cache_entries.unwrap_or((resolved.logical_pages / CACHED_SHARE).max(1))
    }

    /// Inner nodes of a tree in RAM.
    pub(super) fn cached_nodes(&self, resolved: &Resolved) -> u32 {
        self.mapping.cached_nodes.unwrap_or_else(|| inner_nodes(resolved))
    }

    /// The parts of a design whose subject is metadata, with what the configuration says in their place; `None` for any
    /// other name.
    pub fn metadata_parts(&self, design: &str, resolved: &Resolved) -> Option<Parts> {
        let gc = resolved.gc;
        let cache_entries = self.cache_entries(resolved);
        let gecko = self.gecko.options(&resolved.geometry);
        let cached_nodes = self.cached_nodes(resolved);
        let tree = UFtlOptions { cache_entries, cached_nodes };
        let mut parts = match design {
            "dftl" => {
                let cache_entries = self.dftl.cache_entries.unwrap_or(cache_entries);
                design::dftl(gc, DftlOptions { cache_entries })
            }
            "lazyftl" => design::lazyftl(gc, cache_entries),
            "u-ftl" => design::uftl(gc, tree),
            "ib-ftl" => design::ibftl(gc, tree),
            "geckoftl" => design::geckoftl(gc, GeckoFtlOptions { cache_entries, gecko }),
            "wearwell" => self.wearwell_parts(gc, cache_entries, gecko, resolved),
            _ => return None,
        };
        if let MappingPart::Cached(own) = parts.mapping {
            parts.mapping = MappingPart::Cached(self.mapping.options(own, cached_nodes));
        }
        parts.validity = self.validity.part(parts.validity, gecko);
        parts.persistence = match self.recovery.by {
            None => parts.persistence,
            Some(RecoveryName::Battery) => Persistence::BatteryFlush,
            Some(RecoveryName::Backward) => Persistence::BackwardScan { synchronises: false },
            Some(RecoveryName::BackwardSynchronising) => Persistence::BackwardScan { synchronises: true },
        };
        Some(parts)
    }

    /// The composed design: every mechanism as its section says, and a content index of a part of the drive.
    fn wearwell_parts(
        &self,
        gc: GcOptions,
        cache_entries: u32,
        gecko: GeckoOptions,
        resolved: &Resolved,
    ) -> Parts {
        let index_share = self.remap.index_share.or(Some(WEARWELL_INDEX_SHARE));
        let remap = RemapConfig { index_share, ..self.remap.clone() };
        let options = WearwellOptions {
            cache_entries,
            gecko,
            recycle: self.recycle_design(resolved),
            dedup: remap.dedup_options(resolved.logical_pages),
            delta: self.delta_design(resolved),
        };
        design::wearwell(gc, options)
    }

    /// Garbage collection of metadata: the design's own, or what the configuration says.
    pub fn metadata_gc(&self, own: GcOptions) -> GcOptions {
        let share = self.gc.metadata_share;
        let metadata = match (self.gc.metadata, own.metadata) {
            (Some(MetadataName::Greedy), _) | (None, MetadataGc::Greedy) => MetadataGc::Greedy,
            (Some(MetadataName::WhenEmpty), _) => {
                MetadataGc::WhenEmpty { share: share.unwrap_or(METADATA_SHARE) }
            }
            (None, MetadataGc::WhenEmpty { share: of_design }) => {
                MetadataGc::WhenEmpty { share: share.unwrap_or(of_design) }
            }
        };
        GcOptions { metadata, ..own }
    }
}

/// Inner nodes of a tree over all translation pages: a node and a translation page hold equally many addresses.
fn inner_nodes(resolved: &Resolved) -> u32 {
    let addresses = resolved.geometry.page_bytes / 4;
    resolved.logical_pages.div_ceil(addresses).div_ceil(addresses)
}

/// The DFTL design.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DftlConfig {
    /// Entries of the cached mapping table. Absent: `mapping.cache_entries`.
    pub cache_entries: Option<u32>,
}
