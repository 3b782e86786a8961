//! The configuration of a run: TOML sections, every quantity with its unit in the key.
//!
//! A configuration is built from a device preset, then a file, then single settings (`gc.policy=fifo`), later ones
//! winning. Unknown keys and impossible values are refused with the place and the nearest valid name, because a
//! setting that is silently ignored makes a wrong figure. [`Resolved`] is what a run really used; it goes into the
//! run record in full.

use crate::design_config::{DeltaConfig, RemapConfig};
use crate::metadata_config::{GeckoConfig, MappingConfig, MetadataName, RecoveryConfig, ValidityConfig};
use serde::{Deserialize, Serialize};
use wearwell::content::dedup::DedupOptions;
use wearwell::content::recycle::{RecycleOptions, STANDARD_ENTRIES, StorePolicy};
use wearwell::design::{self, Parts, RecycleDesign};
use wearwell::gc::{GcOptions, MetadataGc, RESERVE_BLOCKS, VictimPolicy, WearOptions};
use wearwell::lifetime::{Choice, Configuration, EnergyModel, LifetimeOptions, SchemeKind};
use wearwell::nand::{FlashTiming, Geometry, preset};
use wearwell::stats::Work;
use wearwell::timing::{ControllerWork, Suspend, TimingMode, TimingOptions};
use wearwell::write_buffer::{BufferOptions, BufferPolicy};

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Syntax, unknown key or value of the wrong kind.
    #[error("{place}: {message}")]
    Toml {
        /// File and line, or the setting.
        place: String,
        /// What is wrong and what would be right.
        message: String,
    },
    /// A name that nothing has.
    #[error("unknown {what} `{name}`{suggestion}; one of {known}")]
    UnknownName {
        /// Kind of name.
        what: &'static str,
        /// The name.
        name: String,
        /// The nearest one, as a question.
        suggestion: String,
        /// All of them.
        known: String,
    },
    /// Values that contradict each other or a bound.
    #[error("{0}")]
    Value(String),
    /// An impossible layout.
    #[error(transparent)]
    Geometry(#[from] wearwell::nand::GeometryError),
}

impl ConfigError {
    /// An unknown name with its nearest neighbour among `known`.
    pub fn unknown<'a>(what: &'static str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        Self::UnknownName {
            what,
            name: name.to_owned(),
            suggestion: suggestion(name, &known),
            known: known.join(", "),
        }
    }
}

/// `" (did you mean `x`?)"`, or nothing if no name is near. One letter wrong, missing or exchanged is always near; of
/// longer words common beginnings count.
fn suggestion(name: &str, known: &[&str]) -> String {
    let similarity = |near: &str| match strsim::damerau_levenshtein(name, near) {
        0 | 1 => 1.0,
        _ => strsim::jaro_winkler(name, near),
    };
    let nearest = known.iter().map(|near| (similarity(near), near)).max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((similarity, near)) if similarity > 0.7 => format!(" (did you mean `{near}`?)"),
        _ => String::new(),
    }
}

/// A configuration as written: what is absent keeps its default.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Layout, timing and capacity.
    pub device: DeviceConfig,
    /// Garbage collection.
    pub gc: GcConfig,
    /// Wear leveling.
    pub wear: WearConfig,
    /// Write buffer.
    pub buffer: BufferConfig,
    /// Options of the recyclable design.
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
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
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
    /// Resize the device so that the workload's footprint is this share of the exported pages, (0, 1].
    pub fit: Option<f64>,
}

/// What an over-provisioning ratio refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpareOf {
    /// (physical - logical) / logical.
    #[default]
    Logical,
    /// (physical - logical) / physical.
    Physical,
}

/// Garbage collection.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
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
    /// What happens to blocks of metadata. Absent: what the design says.
    pub metadata: Option<MetadataName>,
    /// For `when-empty`: the share of all blocks above which metadata is collected all the same.
    pub metadata_share: Option<f64>,
}

/// Victim policies by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
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
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WearConfig {
    /// Open free blocks by wear.
    pub dynamic: bool,
    /// Move blocks this many erases behind the most worn one; 0 = off.
    pub static_gap: u32,
    /// Find them by reading spare areas round and round, one per flash write, instead of a table in RAM.
    pub scan: bool,
}

/// Write buffer.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BufferConfig {
    /// Pages; 0 = none.
    pub pages: u32,
    /// Order of eviction.
    pub policy: BufferOrder,
}

/// Orders of eviction by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BufferOrder {
    /// First in, first out.
    #[default]
    Fifo,
    /// Segmented LRU.
    Slru,
}

/// The recyclable design.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RecycleConfig {
    /// What the fingerprint store keeps.
    pub policy: RecyclePolicy,
    /// Entries of the store. Absent: 131072, or 1.25 % of the device's pages if that is less (the paper's ratio).
    pub entries: Option<u32>,
    /// Window of fast loading, logical pages on each side.
    pub window: u32,
    /// Growth of popularity, 0.10 to 0.15.
    pub alpha: f64,
    /// Decay per version, 0.15 to 0.20.
    pub beta: f64,
    /// Read and compare before reviving.
    pub verify_on_hit: bool,
    /// Count comparisons.
    pub count_comparisons: bool,
}

impl Default for RecycleConfig {
    fn default() -> Self {
        let options = RecycleOptions::default();
        Self {
            policy: RecyclePolicy::Prob,
            entries: None,
            window: 1,
            alpha: options.alpha,
            beta: options.beta,
            verify_on_hit: false,
            count_comparisons: true,
        }
    }
}

/// Store policies by the paper's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecyclePolicy {
    /// Queue by recency.
    Lru,
    /// By recycle probability.
    Prob,
    /// By recycle probability, with fast loading.
    ProbFl,
    /// Unbounded.
    Inf,
}

/// The DFTL design.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DftlConfig {
    /// Entries of the cached mapping table. Absent: `mapping.cache_entries`.
    pub cache_entries: Option<u32>,
}

/// How time is modelled.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches; any combination means something")]
pub struct TimingConfig {
    /// Engine.
    pub mode: Mode,
    /// Host reads before writes.
    pub read_priority: bool,
    /// Background work yields to host work.
    pub gc_yields: bool,
    /// Background operations queued per die after which they go first.
    pub gc_backlog_ops: u32,
    /// A write waits for the GC it triggered.
    pub blocking_gc: bool,
    /// Programs and erases are suspended for host reads.
    pub suspend: bool,
    /// Cost of a suspension, microseconds.
    pub suspend_overhead_us: f64,
    /// Suspensions per operation at most.
    pub suspend_max: u32,
    /// Multi-plane operations.
    pub multi_plane: bool,
    /// Planes work independently.
    pub independent_planes: bool,
    /// Time outside the flash per request, microseconds.
    pub controller_overhead_us: f64,
    /// Writes that may be acknowledged before they are programmed.
    pub buffered_writes: u32,
    /// Hash and look-up of content-aware designs, once per request that hashed a page (the unit hashes the next page
    /// while one is programmed), microseconds (LX, RM: 32).
    pub hash_us: f64,
    /// Making a delta, microseconds (DF, table 1, at 619 MHz).
    pub delta_encode_us: f64,
    /// Applying a delta, microseconds (DF, table 1, at 619 MHz).
    pub delta_decode_us: f64,
    /// Compressing a page, microseconds (IL, section IV).
    pub compress_us: f64,
    /// Decompressing a page, microseconds; our assumption, as IL leaves reads out.
    pub decompress_us: f64,
    /// Reading 64 bytes of NVRAM, nanoseconds (RM, section 5.1). There is one NVRAM: requests wait for each other there.
    pub nvram_read_ns: f64,
    /// Storing 64 bytes of NVRAM, nanoseconds (RM, section 5.1).
    pub nvram_write_ns: f64,
}

impl Default for TimingConfig {
    fn default() -> Self {
        let options = TimingOptions::default();
        Self {
            mode: Mode::None,
            read_priority: options.read_priority,
            gc_yields: options.gc_yields,
            gc_backlog_ops: options.gc_backlog_ops,
            blocking_gc: options.blocking_gc,
            suspend: false,
            suspend_overhead_us: 20.0,
            suspend_max: 4,
            multi_plane: false,
            independent_planes: false,
            controller_overhead_us: 0.0,
            buffered_writes: 0,
            hash_us: 32.0,
            delta_encode_us: 44.0,
            delta_decode_us: 10.9,
            compress_us: 64.0,
            decompress_us: 16.0,
            nvram_read_ns: 50.0,
            nvram_write_ns: 500.0,
        }
    }
}

/// Timing engines by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Counts only.
    #[default]
    None,
    /// Next-free times.
    Timeline,
    /// Events with queues and priorities.
    Event,
}

/// State of the device before the first measured request.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PreconditionConfig {
    /// How.
    pub mode: Precondition,
    /// For `steady`: random overwrites after the first GC, in units of the physical capacity (default 1).
    pub overwrite: Option<f64>,
    /// For `aged`: a trace to age with. Absent: the first part of the replayed trace itself.
    pub trace: Option<String>,
    /// For `aged` without a trace: the share of the requests that ages, (0, 1) (default 0.5).
    pub share: Option<f64>,
    /// For `aged`: every exported page is written once before (default no).
    pub filled: Option<bool>,
}

/// Ways to precondition, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precondition {
    /// An empty device.
    #[default]
    None,
    /// Every exported page written once, in order, with content of its own.
    Fill,
    /// Fill, then uniform random overwrites until the first GC and one more physical capacity.
    Steady,
    /// The steady state of uniform random writes under greedy GC, built directly.
    Constructed,
    /// Aged by a trace.
    Aged,
}

/// Content of writes that come without any.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContentConfig {
    /// A content model such as `unique` or `dup:share=0.2,theta=0.9`.
    pub model: Option<String>,
}

/// Lifetime management.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LifetimeConfig {
    /// Which schemes may be used.
    pub schemes: LifetimeSchemes,
    /// Take twice the stated energy for compression, with which the paper's break-even comes out; else as stated.
    pub fitted_energy: bool,
    /// Read and compare before deduplicating.
    pub verify_on_hit: bool,
    /// Length of an epoch, seconds.
    pub epoch_s: u32,
    /// Years that the device shall last from the first measured request on.
    pub target_years: f64,
}

impl Default for LifetimeConfig {
    fn default() -> Self {
        let options = LifetimeOptions::of(Configuration::Baseline, &EnergyModel::STATED);
        Self {
            schemes: LifetimeSchemes::Always,
            fitted_energy: false,
            verify_on_hit: false,
            epoch_s: options.epoch_s,
            target_years: options.target_years,
        }
    }
}

/// Configurations of lifetime management by the paper's names (IL, table I).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LifetimeSchemes {
    /// No management: the schemes of the design run always.
    #[default]
    Always,
    /// No scheme at all.
    Baseline,
    /// Throttling of host writes.
    Throttling,
    /// Compression, always.
    Compression,
    /// Deduplication, always.
    Dedup,
    /// All of them, as the algorithm decides.
    Integrated,
}

impl LifetimeConfig {
    fn configuration(&self) -> Option<Configuration> {
        match self.schemes {
            LifetimeSchemes::Always => None,
            LifetimeSchemes::Baseline => Some(Configuration::Baseline),
            LifetimeSchemes::Throttling => Some(Configuration::Throttling),
            LifetimeSchemes::Compression => Some(Configuration::Compression),
            LifetimeSchemes::Dedup => Some(Configuration::Dedup),
            LifetimeSchemes::Integrated => Some(Configuration::Integrated),
        }
    }

    /// What things cost in energy.
    pub fn energy(&self) -> EnergyModel {
        if self.fitted_energy { EnergyModel::FITTED } else { EnergyModel::STATED }
    }

    /// What is managed; `None` without management.
    pub fn options(&self) -> Option<LifetimeOptions> {
        let options = LifetimeOptions::of(self.configuration()?, &self.energy());
        let managed = options.choice == Choice::Algorithm;
        managed.then_some(LifetimeOptions {
            epoch_s: self.epoch_s,
            target_years: self.target_years,
            ..options
        })
    }

    /// The parts that the schemes need: deduplication, and compression.
    fn stages(&self) -> (Option<DedupOptions>, bool) {
        let kinds = self.configuration().map(|configuration| {
            let options = LifetimeOptions::of(configuration, &self.energy());
            options.schemes.iter().map(|scheme| scheme.kind).collect::<Vec<_>>()
        });
        let has = |kind| kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind));
        let dedup = DedupOptions { verify_on_hit: self.verify_on_hit, ..DedupOptions::default() };
        (has(SchemeKind::Dedup).then_some(dedup), has(SchemeKind::Compression))
    }
}

/// How requests are issued.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayConfig {
    /// Arrival.
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
}

/// Arrival disciplines by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// At the trace's times.
    #[default]
    Open,
    /// A new request when one of `queue_depth` completes; trace times are ignored.
    Closed,
    /// The next request comes its original gap after the completion of the one before.
    Think,
}

/// How trace addresses meet the device, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Zeroes {
    /// A deallocation: no payload crosses the wire, and drives deallocate.
    #[default]
    Trim,
    /// A write of zero pages.
    Write,
}

impl Config {
    /// Builds a configuration from an optional file (its name and text) and settings `key=value`.
    ///
    /// # Errors
    /// [`ConfigError::Toml`] with file and line, or with the setting.
    pub fn from_parts(file: Option<(&str, &str)>, settings: &[String]) -> Result<Self, ConfigError> {
        let mut table = match file {
            Some((name, text)) => read_file(name, text)?,
            None => toml::Table::new(),
        };
        for setting in settings {
            apply(&mut table, setting)?;
        }
        let place = || "configuration".to_owned();
        table.try_into().map_err(|error| toml_error(place(), &error))
    }

    /// Renders the configuration as TOML, defaults included where they have a value.
    ///
    /// # Panics
    /// Never: every configuration has a TOML form.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a configuration is plain data")
    }
}

/// Parses a file on its own first, so that an error has a line.
fn read_file(name: &str, text: &str) -> Result<toml::Table, ConfigError> {
    let line_of = |error: &toml::de::Error| {
        let line =
            error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        format!("{name}:{line}")
    };
    let _: Config = toml::from_str(text).map_err(|error| toml_error(line_of(&error), &error))?;
    toml::from_str(text).map_err(|error| toml_error(line_of(&error), &error))
}

/// Sets one dotted key; a value that is no TOML literal is a string.
fn apply(table: &mut toml::Table, setting: &str) -> Result<(), ConfigError> {
    let refuse = |message: &str| ConfigError::Toml {
        place: format!("setting `{setting}`"),
        message: message.to_owned(),
    };
    let (key, value) = setting.split_once('=').ok_or_else(|| refuse("a setting is `section.key=value`"))?;
    let (section, key) =
        key.trim().split_once('.').ok_or_else(|| refuse("a key is `section.key`, as `gc.policy`"))?;
    let value = literal(value.trim());
    let single = toml::Table::from_iter([(key.to_owned(), value)]);
    let alone = toml::Table::from_iter([(section.to_owned(), toml::Value::Table(single.clone()))]);
    let _: Config = alone.try_into().map_err(|error| toml_error(format!("setting `{setting}`"), &error))?;
    let entry = table.entry(section).or_insert_with(|| toml::Value::Table(toml::Table::new()));
    if let Some(section) = entry.as_table_mut() {
        section.extend(single);
    }
    Ok(())
}

/// A value as TOML would read it. Words are strings, also those that TOML takes for numbers (`inf`, `nan`).
fn literal(text: &str) -> toml::Value {
    let is_word =
        text.chars().all(|c| c.is_ascii_alphabetic() || c == '-') && text != "true" && text != "false";
    let parsed: Result<toml::Table, _> = toml::from_str(&format!("value = {text}"));
    match parsed {
        Ok(mut table) if !is_word => {
            table.remove("value").unwrap_or_else(|| toml::Value::String(text.to_owned()))
        }
        _ => toml::Value::String(text.to_owned()),
    }
}

/// Adds the nearest valid name to an "unknown field" or "unknown variant" message.
fn toml_error(place: String, error: &toml::de::Error) -> ConfigError {
    let message = error.message().to_owned();
    let mut quoted = message.split('`').skip(1).step_by(2);
    let near = match quoted.next() {
        Some(name) if message.starts_with("unknown") => suggestion(name, &quoted.collect::<Vec<_>>()),
        _ => String::new(),
    };
    ConfigError::Toml { place, message: message + &near }
}

/// A device as a run uses it.
#[derive(Clone, PartialEq, Debug)]
pub struct Resolved {
    /// Name of the preset it came from.
    pub preset: String,
    /// Layout.
    pub geometry: Geometry,
    /// Timing.
    pub timing: FlashTiming,
    /// Rated cycles.
    pub endurance_cycles: u32,
    /// Exported pages.
    pub logical_pages: u32,
    /// GC, with thresholds in blocks.
    pub gc: GcOptions,
}

/// The device that is made to fit the workload.
const AUTO: &str = "auto";

impl Config {
    /// Seed of the run.
    pub fn seed(&self) -> u64 {
        self.replay.seed.unwrap_or(1)
    }

    /// Works out geometry, capacity and thresholds for a workload that touches `footprint_pages` (4 KiB).
    ///
    /// # Errors
    /// Unknown preset, impossible geometry, capacity out of range.
    pub fn resolve(&self, footprint_pages: u64) -> Result<Resolved, ConfigError> {
        self.require_ranges()?;
        self.require_what_lifetime_needs()?;
        let name = self.device.preset.as_deref().unwrap_or(AUTO);
        let device = if name == AUTO { auto_device(footprint_pages) } else { named_device(name)? };
        let geometry = self.layout(&device.geometry).checked()?;
        let fit = self.device.fit.or((name == AUTO && self.device.logical_pages.is_none()).then_some(0.9));
        let spare = self.device.over_provisioning.unwrap_or(device.over_provisioning);
        let exported = exported_share(spare, self.device.over_provisioning_of.unwrap_or_default())?;
        let geometry = match fit {
            Some(fit) => fitted(&geometry, footprint_pages, fit, exported)?,
            None => geometry,
        };
        let by_share = (geometry.pages() as f64 * exported) as u64;
        let logical = self.device.logical_pages.map_or(by_share, u64::from);
        if logical == 0 || logical >= geometry.pages() {
            return Err(ConfigError::Value(format!(
                "{logical} logical pages on {} physical pages: some, not all, of the flash must be exported",
                geometry.pages()
            )));
        }
        let logical_pages = u32::try_from(logical)
            .map_err(|_| ConfigError::Value(format!("{logical} logical pages: at most 2^32 - 1")))?;
        let gc = self.gc_options(&geometry, device.gc_free_share)?;
        Ok(Resolved {
            preset: name.to_owned(),
            timing: self.flash_timing(device.timing),
            endurance_cycles: self.device.endurance_cycles.unwrap_or(device.endurance_cycles),
            logical_pages,
            gc,
            geometry,
        })
    }

    /// Numbers that no other check refuses, each with its bounds.
    fn require_ranges(&self) -> Result<(), ConfigError> {
        const LONGEST_US: f64 = 1e9;
        let (device, timing) = (&self.device, &self.timing);
        let replay = &self.replay;
        let count = |value: Option<u32>| value.map(f64::from);
        let any = f64::from(u32::MAX);
        let bounds = [
            ("device.read_us", device.read_us, 0.0, LONGEST_US),
            ("device.program_us", device.program_us, 0.0, LONGEST_US),
            ("device.erase_us", device.erase_us, 0.0, LONGEST_US),
            ("device.channel_mb_per_s", device.channel_mb_per_s, 0.001, 1e6),
            ("device.factory_bad_share", device.factory_bad_share, 0.0, 0.2),
            ("device.endurance_cycles", count(device.endurance_cycles), 1.0, any),
            ("gc.d", count(self.gc.d), 1.0, any),
            ("remap.size_mib", self.remap.size_mib, 0.0, 1e6),
            ("remap.segment_bytes", Some(f64::from(self.remap.segment_bytes)), 32.0, 1e6),
            ("delta.hot_accesses", Some(f64::from(self.delta.hot_accesses)), 1.0, 255.0),
            ("delta.open_pages", Some(f64::from(self.delta.open_pages)), 1.0, 64.0),
            ("delta.max_ratio", self.delta.max_ratio, 0.0, 1.0),
            ("delta.area_share", Some(self.delta.area_share), 0.0, 1.0),
            ("delta.cache_entries", count(self.delta.cache_entries), 1.0, any),
            ("dftl.cache_entries", count(self.dftl.cache_entries), 1.0, any),
            ("gc.metadata_share", self.gc.metadata_share, 0.0, 1.0),
            ("mapping.cache_entries", count(self.mapping.cache_entries), 1.0, any),
            ("mapping.dirty_share", self.mapping.dirty_share, 0.0, 1.0),
            ("mapping.cached_nodes", count(self.mapping.cached_nodes), 1.0, any),
            ("timing.suspend_overhead_us", Some(timing.suspend_overhead_us), 0.0, LONGEST_US),
            ("timing.controller_overhead_us", Some(timing.controller_overhead_us), 0.0, LONGEST_US),
            ("timing.hash_us", Some(timing.hash_us), 0.0, LONGEST_US),
            ("timing.delta_encode_us", Some(timing.delta_encode_us), 0.0, LONGEST_US),
            ("timing.delta_decode_us", Some(timing.delta_decode_us), 0.0, LONGEST_US),
            ("timing.compress_us", Some(timing.compress_us), 0.0, LONGEST_US),
            ("timing.decompress_us", Some(timing.decompress_us), 0.0, LONGEST_US),
            ("timing.nvram_read_ns", Some(timing.nvram_read_ns), 0.0, LONGEST_US),
            ("timing.nvram_write_ns", Some(timing.nvram_write_ns), 0.0, LONGEST_US),
            ("precondition.overwrite", self.precondition.overwrite, 0.0, 1e6),
            ("precondition.share", self.precondition.share, 1e-9, 1.0 - 1e-9),
            ("replay.queue_depth", count(replay.queue_depth), 1.0, any),
            ("replay.time_scale", replay.time_scale, 0.0, 1e9),
            ("lifetime.epoch_s", count(Some(self.lifetime.epoch_s)), 1.0, 1e9),
            ("lifetime.target_years", Some(self.lifetime.target_years), 0.001, 1e4),
        ];
        let outside = |&(_, value, low, high): &(&str, Option<f64>, f64, f64)| {
            value.is_some_and(|value| !(low..=high).contains(&value))
        };
        match bounds.into_iter().find(outside) {
            Some((name, value, low, high)) => Err(ConfigError::Value(format!(
                "{name} is {}; it must lie in {low} to {high}",
                value.unwrap_or_default()
            ))),
            None => Ok(()),
        }
    }

    /// Management that could not do what it is there for is refused: throttling where time does not stretch.
    fn require_what_lifetime_needs(&self) -> Result<(), ConfigError> {
        if self.lifetime.options().is_none() {
            return Ok(());
        }
        if self.timing.mode == Mode::None || self.replay.arrival == Arrival::Open {
            return Err(ConfigError::Value(
                "lifetime.schemes: throttling stretches time, which needs a timing engine (timing.mode) and \
                 replay.arrival=think or closed"
                    .into(),
            ));
        }
        Ok(())
    }

    fn layout(&self, base: &Geometry) -> Geometry {
        let device = &self.device;
        Geometry {
            channels: device.channels.unwrap_or(base.channels),
            dies_per_channel: device.dies_per_channel.unwrap_or(base.dies_per_channel),
            planes_per_die: device.planes_per_die.unwrap_or(base.planes_per_die),
            blocks_per_plane: device.blocks_per_plane.unwrap_or(base.blocks_per_plane),
            pages_per_block: device.pages_per_block.unwrap_or(base.pages_per_block),
            page_bytes: device.page_bytes.unwrap_or(base.page_bytes),
            spare_bytes: device.spare_bytes.unwrap_or(base.spare_bytes),
            superblock_planes: device.superblock_planes.unwrap_or(base.superblock_planes),
        }
    }

    fn flash_timing(&self, base: FlashTiming) -> FlashTiming {
        let device = &self.device;
        let ns = |us: Option<f64>, base: u64| us.map_or(base, |us| (us * 1000.0).round() as u64);
        FlashTiming {
            read_ns: ns(device.read_us, base.read_ns),
            program_ns: ns(device.program_us, base.program_ns),
            erase_ns: ns(device.erase_us, base.erase_ns),
            transfer_ps_per_byte: device
                .channel_mb_per_s
                .map_or(base.transfer_ps_per_byte, |rate| (1e6 / rate).round() as u64),
        }
    }

    fn gc_options(&self, geometry: &Geometry, preset_share: f64) -> Result<GcOptions, ConfigError> {
        let share = self.gc.free_share.unwrap_or(preset_share);
        let background = self.gc.background_share.unwrap_or(0.0);
        if !(0.0..0.5).contains(&share) || !(0.0..0.5).contains(&background) {
            return Err(ConfigError::Value(
                "gc.free_share and gc.background_share are from 0 to below 0.5".into(),
            ));
        }
        let pool_blocks = geometry.blocks_per_plane as f64;
        let low_blocks = self.gc.low_blocks.unwrap_or(RESERVE_BLOCKS + 1).max((pool_blocks * share) as u32);
        Ok(GcOptions {
            policy: self.gc.victim_policy(),
            low_blocks,
            urgent_blocks: RESERVE_BLOCKS,
            background_blocks: (pool_blocks * background) as u32,
            metadata: MetadataGc::default(),
            wear: WearOptions {
                dynamic: self.wear.dynamic,
                static_gap: self.wear.static_gap,
                scan: self.wear.scan,
            },
            seed: self.seed(),
        })
    }

    /// The parts of the design of that name.
    ///
    /// # Errors
    /// [`ConfigError::UnknownName`].
    pub fn parts(&self, design: &str, resolved: &Resolved) -> Result<Parts, ConfigError> {
        let gc = resolved.gc;
        let mut parts = match design {
            "page-map" => design::page_map(gc),
            "recyclable" => design::recyclable(gc, self.recycle_design(resolved)),
            "remap" => design::remap(gc, self.remap.sharing(&resolved.geometry)),
            "delta" => {
                let encode_ns = self.timing.delta_encode_us * 1000.0;
                let delta = self.delta.design(&resolved.timing, resolved.geometry.page_bytes, encode_ns);
                design::delta(gc, delta, self.delta.cache())
            }
            "integrated" => {
                let (dedup, compresses) = self.lifetime.stages();
                design::integrated(gc, dedup, compresses)
            }
            other => self.metadata_parts(other, resolved).ok_or_else(|| {
                ConfigError::unknown("design", other, design::ALL.iter().map(|design| design.name))
            })?,
        };
        parts.gc = self.metadata_gc(parts.gc);
        Ok(parts)
    }

    fn recycle_design(&self, resolved: &Resolved) -> RecycleDesign {
        let config = &self.recycle;
        let paper_ratio = (resolved.geometry.pages() / 80).min(STANDARD_ENTRIES as u64) as u32;
        let entries = config.entries.unwrap_or(paper_ratio);
        let policy = match config.policy {
            RecyclePolicy::Lru => StorePolicy::Lru,
            RecyclePolicy::Prob | RecyclePolicy::Inf => StorePolicy::Probability,
            RecyclePolicy::ProbFl => StorePolicy::ProbabilityFastLoading { window: config.window },
        };
        let options = RecycleOptions {
            capacity_entries: (config.policy != RecyclePolicy::Inf).then_some(entries),
            policy,
            alpha: config.alpha,
            beta: config.beta,
            count_comparisons: config.count_comparisons,
        };
        RecycleDesign { options, verify_on_hit: config.verify_on_hit }
    }

    /// The write buffer.
    pub fn buffer(&self) -> BufferOptions {
        let policy = match self.buffer.policy {
            BufferOrder::Fifo => BufferPolicy::Fifo,
            BufferOrder::Slru => BufferPolicy::Slru,
        };
        BufferOptions { pages: self.buffer.pages, policy }
    }
}

impl GcConfig {
    fn victim_policy(&self) -> VictimPolicy {
        match self.policy {
            Policy::Greedy => VictimPolicy::Greedy,
            Policy::CostBenefit => VictimPolicy::CostBenefit,
            Policy::DChoices => VictimPolicy::DChoices { d: self.d.unwrap_or(10) },
            Policy::Random => VictimPolicy::DChoices { d: 1 },
            Policy::Fifo => VictimPolicy::Fifo,
            Policy::RcGc => VictimPolicy::RecycleAware,
            Policy::DeadBytes => VictimPolicy::DeadBytes,
        }
    }
}

impl TimingConfig {
    /// What the controller's own work takes a request.
    pub fn price(&self, work: &Work) -> ControllerWork {
        const LINE_BYTES: f64 = 64.0;
        let hash_us = if work.hashed_pages > 0 { self.hash_us } else { 0.0 };
        let codec_us = work.encoded_deltas as f64 * self.delta_encode_us
            + work.decoded_deltas as f64 * self.delta_decode_us
            + work.compressed_pages as f64 * self.compress_us
            + work.decompressed_pages as f64 * self.decompress_us;
        let nvram_ns = work.nvram_read_bytes as f64 / LINE_BYTES * self.nvram_read_ns
            + work.nvram_written_bytes as f64 / LINE_BYTES * self.nvram_write_ns;
        ControllerWork { own_ns: ((hash_us + codec_us) * 1000.0) as u64, nvram_ns: nvram_ns as u64 }
    }

    /// The engine.
    pub fn engine(&self) -> TimingMode {
        match self.mode {
            Mode::None => TimingMode::None,
            Mode::Timeline => TimingMode::Timeline,
            Mode::Event => TimingMode::Event,
        }
    }

    /// Its options.
    pub fn options(&self) -> TimingOptions {
        let ns = |us: f64| (us * 1000.0).round() as u64;
        TimingOptions {
            read_priority: self.read_priority || self.suspend,
            gc_yields: self.gc_yields,
            gc_backlog_ops: self.gc_backlog_ops,
            blocking_gc: self.blocking_gc,
            suspend: self
                .suspend
                .then(|| Suspend { overhead_ns: ns(self.suspend_overhead_us), max_per_op: self.suspend_max }),
            multi_plane: self.multi_plane,
            independent_planes: self.independent_planes,
            controller_overhead_ns: ns(self.controller_overhead_us),
            buffered_writes: self.buffered_writes as usize,
            keep_completions: false,
        }
    }
}

fn named_device(name: &str) -> Result<preset::Device, ConfigError> {
    preset::by_name(name).ok_or_else(|| {
        let presets = preset::all();
        ConfigError::unknown(
            "device",
            name,
            [AUTO].into_iter().chain(presets.iter().map(|device| device.name)),
        )
    })
}

/// A small drive for a workload of `footprint_pages`: timing of the LX paper, four dies on two channels, or one die
/// and smaller blocks where four would leave a pool too few blocks to collect.
fn auto_device(footprint_pages: u64) -> preset::Device {
    /// Blocks a pool needs so that 15 % of spare space is several blocks.
    const POOL_BLOCKS: u64 = 64;
    let model = preset::by_name("lx-40g").expect("the preset is in the list");
    let pages_per_block = model.geometry.pages_per_block as u64;
    let is_large = footprint_pages >= 4 * POOL_BLOCKS * pages_per_block;
    let fitting = (footprint_pages / POOL_BLOCKS).max(1).next_power_of_two().clamp(4, pages_per_block);
    let geometry = Geometry {
        channels: if is_large { 2 } else { 1 },
        dies_per_channel: if is_large { 2 } else { 1 },
        planes_per_die: 1,
        blocks_per_plane: POOL_BLOCKS as u32,
        pages_per_block: if is_large { pages_per_block } else { fitting } as u32,
        ..model.geometry
    };
    preset::Device { name: AUTO, geometry, gc_free_share: 0.0, ..model }
}

/// Share of the physical pages that is exported.
fn exported_share(spare: f64, of: SpareOf) -> Result<f64, ConfigError> {
    let exported = match of {
        SpareOf::Logical => 1.0 / (1.0 + spare),
        SpareOf::Physical => 1.0 - spare,
    };
    if !(spare > 0.0 && exported > 0.0 && exported < 1.0) {
        return Err(ConfigError::Value(format!(
            "device.over_provisioning is {spare}; it must leave some, not all, of the flash to the host"
        )));
    }
    Ok(exported)
}

/// The geometry with as many blocks per plane as give `footprint / fit` exported pages.
fn fitted(
    geometry: &Geometry,
    footprint_pages: u64,
    fit: f64,
    exported: f64,
) -> Result<Geometry, ConfigError> {
    if !(fit > 0.0 && fit <= 1.0) {
        return Err(ConfigError::Value(format!("device.fit is {fit}; it must be above 0 and at most 1")));
    }
    let pages_4k = (footprint_pages.max(1) as f64 / fit / exported).ceil();
    let pages = pages_4k * 4096.0 / geometry.page_bytes as f64;
    let per_plane = pages / (geometry.planes() as f64 * geometry.pages_per_block as f64);
    // On a tiny device a share of the blocks is not enough: each pool needs a free block, a block for copies, six for
    // maps and page validity on flash, and one whose pages can die.
    let least_for_gc = (9.0 / (1.0 - exported)).ceil().max(48.0);
    let blocks_per_plane = per_plane.ceil().max(least_for_gc) as u32;
    Ok(Geometry { blocks_per_plane, ..geometry.clone() }.checked()?)
}
