//! The configuration of a run: TOML sections, every quantity with its unit in the key.
//!
//! A configuration is built from a device preset, then a file, then single settings (`gc.policy=fifo`), later ones
//! winning. Unknown keys and impossible values are refused with the place and the nearest valid name, because a
//! setting that is silently ignored makes a wrong figure. [`Resolved`] is what a run really used; it goes into the
//! run record in full.
//!
//! Here are the sections about the device and the run; `timing.rs`, `content.rs`, `metadata.rs` and `lifetime.rs` have those of
//! the mechanisms, `parts.rs` exchanges parts of a design, `read.rs` reads, `resolve.rs` works out what a run uses, `effective.rs` writes it down, `effect.rs` knows what it
//! would ignore.

#![forbid(unsafe_code)]

mod content;
mod effect;
mod effective;
mod lifetime;
mod metadata;
mod parts;
mod read;
mod resolve;
mod timing;

pub use content::{ContentConfig, DeltaConfig, RecycleConfig, RecyclePolicy, RemapConfig, ReverseMapName};
pub use effect::Ignored;
pub use lifetime::{LifetimeConfig, LifetimeSchemes};
pub use metadata::{
    DftlConfig, DirectoryName, GeckoConfig, IdentificationName, MappingConfig, MergeName, MetadataName,
    RecoveryConfig, RecoveryName, SurveyName, ValidityConfig, ValidityName,
};
pub use parts::{ContentList, ContentName, MapName, PartsConfig, SurvivalName};
pub use read::ConfigError;
pub use resolve::{Resolved, blocks_kept};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use timing::{Mode, TimingConfig};
use wearwell::store::{Striping, Ties};

/// Digest of this crate's code without comments and layout: defaults decide what a run does.
pub const CODE_DIGEST: &str = env!("CODE_DIGEST");
/// Cells of a timeline's map of the blocks at most.
pub const TIMELINE_CELLS_MAX: u32 = 4096;

/// A configuration as written: what is absent keeps its default.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Layout, timing and capacity.
    pub device: DeviceConfig,
    /// Parts in the place of the design's own.
    pub parts: PartsConfig,
    /// Garbage collection.
    pub gc: GcConfig,
    /// Wear leveling.
    pub wear: WearConfig,
    /// Write buffer.
    pub buffer: BufferConfig,
    /// Recycling of dead pages: `recyclable`, `parts.content=recycle`.
    pub recycle: RecycleConfig,
    /// Options of the DFTL design.
    pub dftl: DftlConfig,
    /// Maps on flash.
    pub mapping: MappingConfig,
    /// Page validity.
    pub validity: ValidityConfig,
    /// Logarithmic Gecko.
    pub gecko: GeckoConfig,
    /// Loss of power.
    pub recovery: RecoveryConfig,
    /// Options of the remap design.
    pub remap: RemapConfig,
    /// Options of the delta design.
    pub delta: DeltaConfig,
    /// How time is modelled.
    pub timing: TimingConfig,
    /// State of the device before the first measured request.
    pub precondition: PreconditionConfig,
    /// Content of writes that come without any.
    pub content: ContentConfig,
    /// Lifetime management.
    pub lifetime: LifetimeConfig,
    /// How requests are issued.
    pub replay: ReplayConfig,
}

/// Layout, timing and capacity of the device; what is absent comes from the preset.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DeviceConfig {
    /// Name of a preset; `auto` (the default) is a small drive sized to the workload's footprint.
    pub preset: Option<String>,
    /// Channels.
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
    /// Spare bytes per page.
    pub spare_bytes: Option<u32>,
    /// Planes that form a superblock; 1 = plain blocks.
    pub superblock_planes: Option<u32>,
    /// tR, microseconds.
    pub read_us: Option<f64>,
    /// tPROG, microseconds.
    pub program_us: Option<f64>,
    /// tBERS, microseconds.
    pub erase_us: Option<f64>,
    /// Channel rate, MB/s.
    pub channel_mb_per_s: Option<f64>,
    /// Rated program/erase cycles.
    pub endurance_cycles: Option<u32>,
    /// Share of blocks that are bad from the factory, 0 to 0.2; drawn by the seed.
    pub factory_bad_share: Option<f64>,
    /// Blocks fail at the end of their rated cycles instead of wearing on.
    pub wear_out: Option<bool>,
    /// Spare space, as the share that `over_provisioning_of` says.
    pub over_provisioning: Option<f64>,
    /// `logical`: spare / logical (0.15 exports 87 % of the flash); `physical`: spare / physical (0.15 exports 85 %).
    pub over_provisioning_of: Option<SpareOf>,
    /// Exported pages, instead of over-provisioning.
    pub logical_pages: Option<u32>,
    /// The order in which successive writes go round channels, dies and planes. Absent: `plane-first` with multi-plane
    /// programs, which need neighbours on two planes of a die, else `channel-first`.
    pub striping: Option<StripingName>,
    /// Resize the device so that the workload's footprint is this share of the exported pages, (0, 1]. `auto`: 1.
    pub fit: Option<f64>,
    /// Blocks of each plane that are neither exported nor counted as over-provisioning. Absent: 0, but on a device that is
    /// resized what GC keeps free and open, so that over-provisioning acts as it says however small the device is.
    pub reserve_blocks: Option<f64>,
}

/// Orders of successive writes by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StripingName {
    /// Channels, then dies, then planes.
    ChannelFirst,
    /// Planes, then dies, then channels.
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

/// What an over-provisioning ratio refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SpareOf {
    /// (physical - logical) / logical.
    #[default]
    Logical,
    /// (physical - logical) / physical.
    Physical,
}

/// Garbage collection.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GcConfig {
    /// Victim policy.
    pub policy: Policy,
    /// Blocks that `d-choices` looks at.
    pub d: Option<u32>,
    /// A pool at or below this many free blocks is collected before a write.
    pub low_blocks: Option<u32>,
    /// The same as a share of the pool's blocks; the larger of both counts.
    pub free_share: Option<f64>,
    /// Free share of a pool below which idle time is used to collect; 0 = no background GC.
    pub background_share: Option<f64>,
    /// Which of the blocks with the fewest valid pages is collected.
    pub ties: TiesName,
    /// What happens to blocks of metadata. Absent: what the design says.
    pub metadata: Option<MetadataName>,
    /// For `when-empty`: the share of all blocks above which metadata is collected all the same.
    pub metadata_share: Option<f64>,
}

/// Choices among equal victims by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TiesName {
    /// The block whose valid pages fell to that number first.
    #[default]
    Oldest,
    /// The block whose valid pages fell to that number last.
    Newest,
}

impl From<TiesName> for Ties {
    fn from(name: TiesName) -> Self {
        match name {
            TiesName::Oldest => Self::Oldest,
            TiesName::Newest => Self::Newest,
        }
    }
}

/// Victim policies by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Fewest valid pages.
    #[default]
    Greedy,
    /// Benefit over cost times age.
    CostBenefit,
    /// Best of `d` random blocks.
    DChoices,
    /// A random block.
    Random,
    /// Oldest block.
    Fifo,
    /// Recycling-aware (RC-GC).
    RcGc,
    /// Most dead bytes: pages of deltas count in part.
    DeadBytes,
}

/// Wear leveling.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WearConfig {
    /// Open free blocks by wear.
    pub dynamic: bool,
    /// Move blocks this many erases behind the most worn one; 0 = off.
    pub static_gap: u32,
    /// Find them by reading spare areas round and round, one per flash write, instead of a table in RAM.
    pub scan: bool,
    /// Threshold of dual-pool leveling, erases; 0 = off. It takes the place of static leveling.
    pub dual_pool_gap: u32,
}

/// Write buffer.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BufferConfig {
    /// Pages; 0 = none. Absent: four for each plane where a page is larger than 4 KiB, which joins small writes to neighbours;
    /// else none.
    pub pages: Option<u32>,
    /// Order of eviction.
    pub policy: BufferOrder,
    /// What is in the buffer behind the last request stays there: it is neither programmed nor counted.
    pub keep_at_end: bool,
}

/// Orders of eviction by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BufferOrder {
    /// First in, first out.
    #[default]
    Fifo,
    /// Segmented LRU.
    Slru,
}

/// State of the device before the first measured request.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PreconditionConfig {
    /// How.
    pub mode: Precondition,
    /// Random writes after the first GC, in units of the physical capacity. Defaults: `steady` 1, `random` 0, `constructed`
    /// and `in-use` 0.1.
    pub overwrite: Option<f64>,
    /// For `aged`: a trace to age with. Absent: the first part of the replayed trace itself.
    pub trace: Option<String>,
    /// For `aged` without a trace: the share of the requests that ages, (0, 1) (default 0.5).
    pub share: Option<f64>,
    /// For `aged`: every exported page is written once before (default no).
    pub filled: Option<bool>,
    /// At last, random logical pages are bound to others until this share of the entries that `remap.size_mib` holds is
    /// valid (RM, section 5.2: 0.7). Default: none.
    pub bound_share: Option<f64>,
}

/// Ways to precondition, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Precondition {
    /// A drive that has been in use for long: as `constructed`, or as `steady` where pools are too small for that.
    #[default]
    InUse,
    /// An empty device.
    None,
    /// Every exported page written once, in order, with content of its own.
    Fill,
    /// Fill, then uniform random overwrites until the first GC and one more physical capacity.
    Steady,
    /// Uniform random writes to an empty device until the first GC (RM, section 5.2).
    Random,
    /// The steady state of uniform random writes under greedy GC, built directly, and settled by some random writes.
    Constructed,
    /// Aged by a trace.
    Aged,
}

/// How requests are issued.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayConfig {
    /// When requests come.
    pub arrival: Arrival,
    /// Requests in flight in closed loop (default 32).
    pub queue_depth: Option<u32>,
    /// Trace times are multiplied by this (default 1).
    pub time_scale: Option<f64>,
    /// Stop after this many requests.
    pub requests: Option<u64>,
    /// How trace addresses meet the device.
    pub addresses: Addresses,
    /// What a write-zeroes request is.
    pub zeroes: Zeroes,
    /// Seed of everything random (default 1).
    pub seed: Option<u64>,
    /// Cells of the block map of a timeline, which is recorded with at most as many; without, none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline_cells: Option<u32>,
}

/// Arrival disciplines by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// `open` where the input has times, else `closed`.
    #[default]
    Auto,
    /// At the trace's times.
    Open,
    /// A new request when one of `queue_depth` completes; trace times are ignored.
    Closed,
    /// The next request comes its original gap after the completion of the one before.
    Think,
}

/// How trace addresses meet the device, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Addresses {
    /// Exact if they fit and one device is used, else compact.
    #[default]
    Auto,
    /// As they are; beyond the device is an error.
    Exact,
    /// Only touched pages, numbered densely in order.
    Compact,
}

/// What a write-zeroes request is, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Zeroes {
    /// A deallocation: no payload crosses the wire, and drives deallocate.
    #[default]
    Trim,
    /// A write of zero pages.
    Write,
}
