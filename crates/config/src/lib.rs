//! The configuration of a run: TOML sections in which every key of a quantity ends in its unit.
//!
//! A configuration is built from a device preset, then a file, then single settings (`gc.policy=fifo`); later values
//! replace earlier ones. Unknown keys and impossible values are refused, with their place and the nearest valid name,
//! because a setting that is silently ignored makes a wrong figure. [`ResolvedDevice`] holds what a run really used;
//! the run record contains it in full.
//!
//! This file has the sections about the device and the run. `timing.rs`, `content.rs`, `flash_metadata.rs` and
//! `lifetime.rs` have the sections of the mechanisms. `parts.rs` exchanges parts of a design, and
//! `configuration_advice.rs` refuses those that cannot be combined. `read.rs` parses, `resolve.rs` computes what a run
//! uses, `effective.rs` writes that back as a configuration, and `ignored_settings.rs` finds settings that a run would
//! ignore.

#![forbid(unsafe_code)]

mod configuration_advice;
mod content;
mod effective;
mod error;
mod flash_metadata;
mod ignored_settings;
mod lifetime;
mod origin;
mod parts;
mod read;
mod resolve;
mod resolved_device;
mod timing;

pub use content::{
    ContentConfig, ContentTablesConfig, DeadPageHistoryName, DeltaConfig, RecycleConfig, RecyclePolicy,
    RemapConfig, ReverseMapName,
};
pub use error::{ConfigError, refuse_value_listed_twice};
pub use flash_metadata::{
    DftlConfig, GeckoConfig, GeckoMergeName, InvalidPageIdentificationName, MappingConfig, MetadataGcName,
    RecoveryConfig, RecoveryName, RecoverySurveyName, TranslationDirectoryName, ValidityConfig,
    ValidityStoreName,
};
pub use ignored_settings::{SettingIgnoredByDesigns, SettingIgnoredByRunKind, ignorable_setting_keys};
pub use lifetime::{LifetimeConfig, LifetimeSchemes};
pub use origin::{Origin, Origins, SettingSource, key_of_setting, line_at};
pub use parts::{
    ContentMechanismList, ContentMechanismName, DesignAndPartsPersistence, MapName, PartsConfig,
    PersistenceName,
};
pub use resolve::{AUTO_SIZED_PRESET_NAME, free_and_unwritten_blocks_per_pool};
pub use resolved_device::ResolvedDevice;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use timing::{Mode, TimingConfig};
use wearwell::store::{GreedyTieBreak, Striping};

/// Digest of the source code of this crate, without comments and layout. It is a part of the keys of stored results,
/// because a change of default values in this crate changes what a run does.
pub const CODE_DIGEST: &str = env!("CODE_DIGEST");
/// Largest number of cells in the block map (chart of the blocks' state) of a timeline.
pub const MAX_BLOCK_CHART_CELLS: u32 = 4096;

/// A configuration as written by the user; an absent key keeps its default.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Layout, timing and capacity of the device.
    pub device: DeviceConfig,
    /// Parts (content mechanisms, map, page validity, recovery) that replace the design's own.
    pub parts: PartsConfig,
    /// Options of garbage collection.
    pub gc: GcConfig,
    /// Options of wear leveling.
    pub wear: WearConfig,
    /// Options of the write buffer between host and FTL.
    pub buffer: BufferConfig,
    /// Recycling of dead pages: for the design `recyclable`, or with `parts.content=recycle`.
    pub recycle: RecycleConfig,
    /// Options of the DFTL design (page map on flash with a cache).
    pub dftl: DftlConfig,
    /// Options of L2P maps that are stored on flash.
    pub mapping: MappingConfig,
    /// How page validity (which pages of each block are valid) is recorded.
    pub validity: ValidityConfig,
    /// Options of Logarithmic Gecko, a store of page validity on flash.
    pub gecko: GeckoConfig,
    /// Options of recovery from a loss of power.
    pub recovery: RecoveryConfig,
    /// Options of the remap design (Remap-SSD), in which several logical pages may share a flash page.
    pub remap: RemapConfig,
    /// Options of the delta design (Delta-FTL), which stores overwrites as differences.
    pub delta: DeltaConfig,
    /// Limit of the controller RAM for tables that grow with the stored contents.
    pub tables: ContentTablesConfig,
    /// Options of the time model.
    pub timing: TimingConfig,
    /// Preconditioning: the state of the device before the first measured request.
    pub precondition: PreconditionConfig,
    /// Content of host writes if the trace or workload brings no content.
    pub content: ContentConfig,
    /// Options of lifetime management: write-saving schemes (deduplication, compression, ...) chosen per epoch, and
    /// throttling for a target in years.
    pub lifetime: LifetimeConfig,
    /// How the requests of the input are issued to the device.
    pub replay: ReplayConfig,
    /// Where each value was set (file and line, or command line); empty if the configuration was not read from text.
    /// Not written to files.
    #[serde(skip)]
    pub origins: Origins,
}

/// Layout, timing and capacity of the device; an absent value is taken from the preset.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DeviceConfig {
    /// Name of a device preset; `auto` (the default) is a small drive sized to the pages that the workload touches.
    pub preset: Option<String>,
    /// Number of channels.
    pub channels: Option<u32>,
    /// Dies per channel.
    pub dies_per_channel: Option<u32>,
    /// Planes per die.
    pub planes_per_die: Option<u32>,
    /// Blocks per plane.
    pub blocks_per_plane: Option<u32>,
    /// Pages per block.
    pub pages_per_block: Option<u32>,
    /// Data bytes per page.
    pub page_bytes: Option<u32>,
    /// Spare (OOB) bytes per page.
    pub spare_bytes: Option<u32>,
    /// Planes that form a superblock; 1 = plain blocks.
    pub superblock_planes: Option<u32>,
    /// tR (array read), microseconds.
    pub read_us: Option<f64>,
    /// tPROG (page program), microseconds.
    pub program_us: Option<f64>,
    /// tBERS (block erase), microseconds.
    pub erase_us: Option<f64>,
    /// Transfer rate of a channel, MB/s.
    pub channel_mb_per_s: Option<f64>,
    /// Rated program/erase cycles of a block.
    pub endurance_cycles: Option<u32>,
    /// Share of blocks that are bad from the factory, 0 to 0.2; the seed decides which.
    pub factory_bad_share: Option<f64>,
    /// Whether blocks fail at the end of their rated cycles. Otherwise they never fail, and only their erases are
    /// counted.
    pub wear_out: Option<bool>,
    /// Spare space of the flash as a share; `over_provisioning_of` sets whether of the logical or of the physical
    /// pages.
    pub over_provisioning: Option<f64>,
    /// What `over_provisioning` is a share of. `logical`: spare / logical (0.15 exports 87 % of the flash). `physical`:
    /// spare / physical (0.15 exports 85 %).
    pub over_provisioning_of: Option<OverProvisioningBase>,
    /// Number of exported pages; if set, `over_provisioning` is not used.
    pub logical_pages: Option<u32>,
    /// The order in which successive writes cycle through channels, dies and planes. Absent: `plane-first` with
    /// multi-plane programs, because these need pages on two planes of a die, else `channel-first`.
    pub striping: Option<StripingName>,
    /// Whether successive pages of metadata (translation pages, page validity, a log of remaps) cycle through the planes
    /// as those of data do. Otherwise each kind of metadata fills a block before it goes to another plane.
    pub metadata_striping: bool,
    /// Share of the exported pages that the workload touches, in (0, 1]: the device is resized so that this share is
    /// reached. Absent: the device keeps its size, but the preset `auto` uses 1.
    pub fit: Option<f64>,
    /// Number of blocks of each plane that are neither exported nor counted as over-provisioning. Absent: 0. On a
    /// device that is resized, absent means the number of blocks that GC keeps free or open, so that over-provisioning
    /// has the effect of its nominal value even on a small device.
    pub reserve_blocks: Option<f64>,
}

/// Names of the orders in which successive writes are spread over the flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StripingName {
    /// Successive writes change the channel fastest, then the die, then the plane.
    ChannelFirst,
    /// Successive writes change the plane fastest, then the die, then the channel.
    PlaneFirst,
}

impl From<StripingName> for Striping {
    fn from(name: StripingName) -> Self {
        match name {
            StripingName::ChannelFirst => Self::ChannelFirst,
            StripingName::PlaneFirst => Self::PlaneFirst,
        }
    }
}

/// Names of the bases of an over-provisioning ratio: exported pages, or all pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OverProvisioningBase {
    /// Spare space relative to the exported pages: (physical - logical) / logical.
    #[default]
    Logical,
    /// Spare space relative to all pages: (physical - logical) / physical.
    Physical,
}

/// Garbage collection: victim policy, thresholds, and blocks of metadata.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GcConfig {
    /// Policy by which GC chooses its victim block.
    pub policy: VictimPolicyName,
    /// Number of random blocks among which the policy `d-choices` chooses its victim. Absent: 10.
    pub d: Option<u32>,
    /// Free-block threshold of GC: GC runs before a write if a pool (a plane, or the planes of a superblock) has at
    /// most this number of free blocks.
    pub low_blocks: Option<u32>,
    /// Free-block threshold of GC as a share of the blocks of a pool (a plane, or the planes of a superblock); if
    /// `low_blocks` is set too, the larger threshold counts.
    pub free_share: Option<f64>,
    /// Share of free blocks of a pool (a plane, or the planes of a superblock) below which GC also runs in the
    /// background, in idle time between requests; 0 = no background GC.
    pub background_share: Option<f64>,
    /// Which block is GC's victim if several blocks have the fewest valid pages.
    pub ties: VictimTieBreakName,
    /// How GC treats blocks of metadata (map and page validity on flash). Absent: the design's own way.
    pub metadata: Option<MetadataGcName>,
    /// For `metadata = "when-empty"`: maximum share of all blocks that metadata may occupy. Beyond it, GC also collects
    /// metadata blocks that still hold valid pages.
    pub metadata_share: Option<f64>,
}

/// Names of the rules by which GC chooses its victim among blocks with equally few valid pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VictimTieBreakName {
    /// Of the blocks with the fewest valid pages, the one whose count fell to that number first.
    #[default]
    Oldest,
    /// Of the blocks with the fewest valid pages, the one whose count fell to that number last.
    Newest,
}

impl From<VictimTieBreakName> for GreedyTieBreak {
    fn from(name: VictimTieBreakName) -> Self {
        match name {
            VictimTieBreakName::Oldest => Self::Oldest,
            VictimTieBreakName::Newest => Self::Newest,
        }
    }
}

/// Names of the GC victim policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VictimPolicyName {
    /// The GC victim is the block with the fewest valid pages.
    #[default]
    Greedy,
    /// The GC victim is the block with the greatest benefit over cost, times its age.
    CostBenefit,
    /// The GC victim is the block with the fewest valid pages of `d` random blocks.
    DChoices,
    /// The GC victim is a random block.
    Random,
    /// The GC victim is the block that was filled (closed) first.
    Fifo,
    /// Recycling-aware GC (RC-GC of the recyclable-SSD paper), which spares dead pages that are likely to be revived;
    /// greedy on a design that does not recycle dead pages.
    RcGc,
    /// The GC victim is the block with the most invalid bytes: as greedy, but a page that holds deltas counts by the
    /// share of it that is invalid.
    DeadBytes,
}

/// Wear leveling: dynamic, static, or dual-pool.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WearConfig {
    /// Choose free blocks by wear when they are opened: the least worn for host data, the most worn for GC copies.
    pub dynamic: bool,
    /// Threshold of static wear leveling, in erases: it moves the data of a block that has more than this number of
    /// erases fewer than the most worn block of its pool (plane, or planes of a superblock); 0 = off.
    pub static_gap: u32,
    /// Static wear leveling searches for little-worn blocks by reading the spare areas of blocks in turn, instead of by
    /// erase counts in RAM. When a block is collected, it reads one spare area for each page programmed since the
    /// collection before, but at most one of each block.
    pub scan: bool,
    /// Threshold of dual-pool wear leveling (Chang, SAC 2007): difference of erases between two blocks beyond which
    /// cold data moves to the more worn one; 0 = off. Excludes static wear leveling.
    pub dual_pool_gap: u32,
}

/// Write buffer between host and FTL.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BufferConfig {
    /// Pages of the write buffer; 0 = no buffer. Absent: four for each plane if a page is larger than 4 KiB, to join
    /// small writes to neighbouring pages, else 0.
    pub pages: Option<u32>,
    /// Order in which the pages in the write buffer are evicted to flash.
    pub policy: BufferEvictionOrder,
    /// Leave pages in the write buffer that are there after the last request: they are neither programmed nor counted.
    pub keep_at_end: bool,
}

/// Names of the orders in which the write buffer evicts pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BufferEvictionOrder {
    /// The write buffer evicts the page that was buffered first.
    #[default]
    Fifo,
    /// The write buffer evicts by segmented LRU.
    Slru,
}

/// State of the device before the first measured request.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PreconditionConfig {
    /// Method of preconditioning that brings the device into its initial state.
    pub mode: Precondition,
    /// Amount of random overwrites after the first GC, in units of the physical capacity. Defaults: 1 for `steady`, 0
    /// for `random`, 0.1 for `constructed` and `in-use`.
    pub overwrite: Option<f64>,
    /// For `aged`: path of the trace that ages the device. Absent: the first part of the replayed trace.
    pub trace: Option<String>,
    /// For `aged` if `trace` is absent: share of the input's requests that only age the device, in (0, 1) (default
    /// 0.5).
    pub share: Option<f64>,
    /// For `aged`: write every exported page once before ageing (default no).
    pub filled: Option<bool>,
    /// Last step of preconditioning: random logical pages are remapped to the flash pages of other logical pages, until
    /// this share of the reverse-map entries that `remap.size_mib` holds is valid (Remap-SSD, section 5.2: 0.7).
    /// Absent: no such step.
    pub bound_share: Option<f64>,
}

/// Names of the states that the device can have before the first measured request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Precondition {
    /// A drive that has long been in use: its steady state is built directly (as `constructed`), or by writes (as
    /// `steady`) if its planes have too few blocks for that.
    #[default]
    InUse,
    /// The device is empty before the first measured request.
    None,
    /// Every exported page is written once, in order, each with different content.
    Fill,
    /// Every exported page is written once; then follow uniform random overwrites until the first GC and for one more
    /// physical capacity.
    Steady,
    /// Uniform random writes to an empty device until the first GC (Remap-SSD, section 5.2).
    Random,
    /// The steady state of uniform random writes under greedy GC. It is built directly, without executing all writes
    /// that lead to it; then some random writes are executed.
    Constructed,
    /// The device is aged by replaying a trace, or the first part of the replayed trace.
    Aged,
}

/// How the requests of the input are issued to the device.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayConfig {
    /// How the arrival times of requests at the device are determined.
    pub arrival: Arrival,
    /// Requests in flight in closed loop, that is with `arrival = "closed"` (default 32).
    pub queue_depth: Option<u32>,
    /// Factor by which the times of the trace are multiplied (default 1).
    pub time_scale: Option<f64>,
    /// Number of requests after which the replay stops. Absent: it replays the whole input.
    pub requests: Option<u64>,
    /// How addresses in the trace are mapped to logical pages of the device.
    pub addresses: TraceAddressMapping,
    /// Whether a write-zeroes request is executed as a trim or as a write.
    pub zeroes: WriteZeroesMode,
    /// Seed of all random choices (default 1).
    pub seed: Option<u64>,
    /// Maximum number of cells in the block map (chart of the blocks' state) of a timeline. A timeline (counters and
    /// latencies in windows of time) is recorded only if this is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline_cells: Option<u32>,
}

/// Names of the ways to determine the arrival times of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// `open` (trace times) if the input has times, else `closed` (a fixed number of requests in flight).
    #[default]
    Auto,
    /// Open loop: each request arrives at its time in the trace.
    Open,
    /// Closed loop: a new request arrives when one of `queue_depth` completes; trace times are ignored.
    Closed,
    /// Each request arrives its original gap (think time) after the completion of the request before it.
    Think,
}

/// Names of the ways to map trace addresses to logical pages of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TraceAddressMapping {
    /// `exact` (unchanged) if the addresses fit the device and the trace concerns one device, else `compact` (numbered
    /// densely).
    #[default]
    Auto,
    /// Addresses are used unchanged; an address beyond the end of the device is an error.
    Exact,
    /// Only touched pages exist on the device; they are numbered densely in the order of their trace addresses.
    Compact,
}

/// Names of the ways to execute a write-zeroes request of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WriteZeroesMode {
    /// A write-zeroes request is a trim: no payload crosses the interface, and drives deallocate the pages.
    #[default]
    Trim,
    /// A write-zeroes request is a write of pages that contain zeros.
    Write,
}
