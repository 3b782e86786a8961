//! The life of a drive: an input is repeated until the drive is worn out.
//!
//! An extrapolation from a short run multiplies its host writes by how often its wear fits into the rated cycles. It
//! ignores weak blocks, spare space that shrinks (and write amplification that increases with it), and blocks that wear
//! faster than the mean. Here nothing is extrapolated. Every block has an endurance limit of its own, drawn from a
//! stated distribution; its last erase or program fails, and the engine retires it. The drive ends when the spare
//! blocks have fallen to the stated minimum, or when a write finds no space. The price is time: some 10^7 page programs
//! per second and core.
//!
//! Not modelled: wear by reads, effects of temperature and of pauses between cycles, and aging of data. The
//! extrapolation is printed next to the life, so that the difference is visible.

mod curves;
mod data;
mod table;

use std::collections::BTreeMap;

pub use curves::{CurvePoint, LifeEstimates};
pub use data::{curves_data_table, data_table};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use table::lives_table;
pub(crate) use table::{LivesTable, to_lives_table};
use wearwell::lifetime::YEAR_S;
use wearwell::nand::{WearLimit, WornBlockFailure};
use wearwell_config::{Config, ConfigError, Origin, key_of_setting};

use crate::report::RESULT_SCHEMA_VERSION;
use crate::timeline::Timeline;

/// How many program/erase cycles the blocks of a drive endure, and when the drive has ended.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Endurance {
    /// Standard deviation of the program/erase cycles that a block endures, as a share of the rated cycles, which are
    /// the mean.
    pub spread: f64,
    /// Share of the blocks that fail early, each after a number of program/erase cycles drawn uniformly between 0 and
    /// the rated cycles.
    pub early_share: f64,
    /// Share of the blocks whose first failed operation is a program; the first failed operation of all others is an
    /// erase.
    pub program_share: f64,
    /// The drive ends when this share of its spare blocks is left.
    pub spare_minimum: f64,
}

impl Default for Endurance {
    fn default() -> Self {
        Self::DEFAULT_ENDURANCE
    }
}

impl Endurance {
    /// Default endurance of blocks, and default end of a drive. The standard deviation is a tenth of the rated cycles,
    /// and one block per thousand fails early. A drive ends when 10 % of its spare blocks are left.
    pub const DEFAULT_ENDURANCE: Self =
        Self { spread: 0.1, early_share: 0.001, program_share: 0.5, spare_minimum: 0.1 };

    /// Returns a sentence on the first value of the endurance distribution that is out of its range; `None` if all are
    /// valid.
    pub fn first_invalid_value_sentence(&self) -> Option<String> {
        let shares = [
            ("--spread", self.spread, 0.5),
            ("--early-share", self.early_share, 1.0),
            ("--program-share", self.program_share, 1.0),
            ("--spare-minimum", self.spare_minimum, 0.99),
        ];
        let bad = shares.into_iter().find(|(_, value, most)| !(0.0..=*most).contains(value));
        bad.map(|(name, value, most)| format!("{name} is {value}: give a number from 0 to {most}"))
    }

    /// Draws the endurance limit of each block (number of program/erase cycles), and whether an erase or a program
    /// fails at the limit. A draw is rounded to whole cycles; less than one cycle counts as one.
    pub fn draw_wear_limits(&self, blocks: u32, rated_cycles: u32, seed: u64) -> Vec<WearLimit> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let rated = f64::from(rated_cycles);
        let mut limit = |_| {
            let is_early = random.random::<f64>() < self.early_share;
            let normal = rated * (1.0 + self.spread * draw_standard_normal(&mut random));
            let early = rated * random.random::<f64>();
            let fails_program = random.random::<f64>() < self.program_share;
            let cycles = if is_early { early } else { normal };
            WearLimit {
                erase_cycles: cycles.round().max(1.0) as u32,
                failing_operation: if fails_program {
                    WornBlockFailure::Program
                } else {
                    WornBlockFailure::Erase
                },
            }
        };
        (0..blocks).map(&mut limit).collect()
    }
}

/// Returns the share of the rated cycles of all blocks that a drive uses until `most_failed` of its blocks have failed,
/// if all blocks wear evenly. `limits` are those of the blocks that were good when the drive was new.
pub(crate) fn usable_endurance_share(limits: &[WearLimit], most_failed: u64, rated_cycles: u32) -> f64 {
    let mut cycles: Vec<u32> = limits.iter().map(|limit| limit.erase_cycles).collect();
    cycles.sort_unstable();
    let last = (most_failed as usize).clamp(1, cycles.len()) - 1;
    let worn: u64 = cycles.iter().map(|&cycles_of_block| u64::from(cycles_of_block.min(cycles[last]))).sum();
    worn as f64 / (limits.len() as f64 * f64::from(rated_cycles))
}

/// Draws a number from the standard normal distribution, by the Box-Muller method.
fn draw_standard_normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    let (radius, angle) = (1.0 - random.random::<f64>(), random.random::<f64>());
    libm::sqrt(-2.0 * libm::log(radius)) * libm::cos(std::f64::consts::TAU * angle)
}

/// Why a simulated drive ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LifeEndReason {
    /// The spare blocks of the drive fell to the stated minimum.
    Spare,
    /// A host write found no space on the drive.
    Full,
    /// The user ended the run before the drive had ended.
    Interrupted,
}

/// State of a drive at one moment of its life.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LifePoint {
    /// Bytes that the host has written to the drive so far.
    pub host_bytes: u64,
    /// Page programs of the drive so far.
    pub programs: u64,
    /// Erases per block of the drive so far, mean over all blocks; erases that failed do not count.
    pub mean_erases: f64,
    /// Erases of the drive's most worn block so far.
    pub max_erases: u32,
    /// Spare blocks left, as a share of the spare blocks of the new drive; 0 also if more blocks have failed than the
    /// new drive had spare ones.
    pub spare: f64,
}

/// Distribution of the erase counts of a drive's blocks.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Wear {
    /// Erase count of the drive's least worn block.
    pub least: u32,
    /// 10th percentile of the blocks' erase counts.
    pub p10: u32,
    /// Median of the blocks' erase counts.
    pub p50: u32,
    /// 90th percentile of the blocks' erase counts.
    pub p90: u32,
    /// Erase count of the drive's most worn block.
    pub most: u32,
    /// Mean erase count of the drive's blocks; erases that failed do not count.
    pub mean: f64,
}

impl Wear {
    /// Computes the distribution of wear from the erase counts of all blocks.
    pub fn of_erase_counts(mut erases: Vec<u32>) -> Self {
        erases.sort_unstable();
        let at = |share: usize| erases.get((erases.len().max(1) - 1) * share / 10).copied().unwrap_or(0);
        let mean = erases.iter().map(|&count| f64::from(count)).sum::<f64>() / erases.len().max(1) as f64;
        Self { least: at(0), p10: at(1), p50: at(5), p90: at(9), most: at(10), mean }
    }
}

/// The simulated life of one drive, from its first write to its end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Life {
    /// Seed of the blocks' endurance limits, of the design and of the content of writes.
    pub seed: u64,
    /// Why the simulated drive ended.
    pub end: LifeEndReason,
    /// Bytes that the host wrote until the end of the drive's life, including the first fill.
    pub host_bytes: u64,
    /// Bytes of all page programs until the end of the drive's life.
    pub media_bytes: u64,
    /// Number of times that the input was replayed until the end of the drive's life; fractional, because the last pass
    /// is incomplete.
    pub passes: f64,
    /// Years until the end of the drive at the rate of the input; absent if the input has no times.
    pub years: Option<f64>,
    /// Lifetime in host bytes as a short run would extrapolate it: the host bytes of an early part of the life, divided
    /// by the share of the rated cycles that this part used. Absent if the drive ended before the early part was
    /// complete.
    pub extrapolated_bytes: Option<f64>,
    /// Share of the rated cycles of all blocks that perfect wear leveling could use before the drive ends. It is less
    /// than 1 because of the spread of endurance and early failures, which the extrapolation ignores. Write
    /// amplification that increases as spare blocks fail reduces the lifetime further.
    #[serde(default)]
    pub usable_endurance: f64,
    /// Bytes that the host had written when the first block of the drive failed; absent if no block failed.
    pub first_failure_bytes: Option<u64>,
    /// Number of blocks that had failed at the end of the drive's life.
    pub failed_blocks: u64,
    /// Distribution of the erase counts of all blocks when the drive's life ended.
    pub wear: Wear,
    /// Number of page programs by which wear leveling copied pages.
    pub leveling_programs: u64,
    /// Number of blocks that wear leveling emptied and erased.
    pub leveling_erases: u64,
    /// States of the drive at moments of its life, at most 400.
    pub series: Vec<LifePoint>,
    /// Timeline of the life (counters and maps of the blocks); recorded only if `replay.timeline_cells` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// CPU time of the simulation, seconds.
    pub cpu_seconds: f64,
}

impl Life {
    /// Returns the page programs of the drive's whole life.
    pub fn programs(&self) -> u64 {
        self.series.last().map_or(0, |point| point.programs)
    }

    /// Returns the write amplification over the drive's whole life: programmed bytes per host byte.
    pub fn write_amplification(&self) -> f64 {
        self.media_bytes as f64 / self.host_bytes.max(1) as f64
    }
}

/// The JSON document that `wearwell life --json` writes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Lives {
    /// Version of the JSON document's layout, [`RESULT_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Records of lives, one for each input, design and kind of wear leveling.
    pub drives: Vec<LifeRecord>,
}

impl Lives {
    /// Creates the JSON document for these drives, with estimates and curves of each. The order of the drives is kept;
    /// it is that of the columns in the printed table.
    pub fn of_drives(drives: Vec<LifeRecord>) -> Self {
        let drives = drives.into_iter().map(LifeRecord::with_curves).collect();
        Self { schema_version: RESULT_SCHEMA_VERSION, drives }
    }
}

/// Simulated lives of drives that differ only in their seed, with the input, design, configuration and endurance that
/// they share.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LifeRecord {
    /// Name of the input that wore out the drives.
    pub input: String,
    /// Name of the design (kind of FTL) of the drives.
    pub design: String,
    /// Version of Wearwell that simulated the lives.
    pub version: String,
    /// Kind of wear leveling of the drives.
    pub leveling: Leveling,
    /// RAM that wear leveling takes in a controller, bytes.
    pub leveling_ram_bytes: u64,
    /// Configuration with every value that the simulated lives (runs of the drive until it is worn out, one per seed)
    /// used, without the seed.
    pub config: Config,
    /// Where the values of the configuration come from, by key (`section.key`), as in the record of a run.
    #[serde(default)]
    pub origins: BTreeMap<String, Origin>,
    /// Distribution of the blocks' endurance limits, and the condition for the end of the drive.
    pub endurance: Endurance,
    /// Rated cycles of a block, which are the mean of the endurance limits.
    pub rated_cycles: u32,
    /// Bytes that the drive exports to the host.
    pub exported_bytes: u64,
    /// Bytes of all flash blocks of the drive.
    pub physical_bytes: u64,
    /// Whether all exported pages of the drive were written once before the input; this fill counts as written by the
    /// host.
    pub is_filled: bool,
    /// Exported bytes of a larger drive, for which the lifetime in years is computed, too; absent if the user gave no
    /// size.
    pub scale_to_bytes: Option<u64>,
    /// Figures of whole lives over all seeds; absent if a life was interrupted.
    #[serde(default)]
    pub estimates: Option<LifeEstimates>,
    /// State of the drives at up to 100 moments of their lives, at regular intervals: mean and spread over all seeds.
    #[serde(default)]
    pub curves: Vec<CurvePoint>,
    /// Simulated lives of the drive, one for each seed.
    pub lives: Vec<Life>,
    /// Remarks on the results, such as which figures rest on a model rather than on the input.
    pub notes: Vec<String>,
}

/// Kinds of wear leveling that `wearwell life` can compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Leveling {
    /// Wear leveling as the configuration sets it.
    Configured,
    /// No wear leveling: blocks are opened in the order in which they became free.
    None,
    /// Dynamic wear leveling: of the free blocks, the least worn is opened first.
    Dynamic,
    /// Dynamic wear leveling, and static: data of blocks with few erases is moved.
    Static,
    /// Dual-pool wear leveling (Chang, SAC 2007): blocks are opened in the order in which they became free, and worn
    /// blocks receive cold data.
    DualPool,
}

impl Leveling {
    /// The kinds of wear leveling that `wearwell life` can compare. [`Self::Configured`] is not among them, because it
    /// stands for the kind that the configuration sets.
    pub const COMPARED_KINDS: [Self; 4] = [Self::None, Self::Dynamic, Self::Static, Self::DualPool];

    /// Returns the name of this kind of wear leveling, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::None => "none",
            Self::Dynamic => "dynamic",
            Self::Static => "static",
            Self::DualPool => "dual-pool",
        }
    }

    /// Returns the kind of wear leveling called `name`.
    ///
    /// # Errors
    /// [`ConfigError::UnknownName`], with the most similar name as a suggestion.
    pub fn from_name(name: &str) -> Result<Self, ConfigError> {
        let known = [Self::Configured].into_iter().chain(Self::COMPARED_KINDS);
        let found = known.clone().find(|leveling| leveling.name() == name);
        found.ok_or_else(|| ConfigError::unknown_name("wear leveling", name, known.map(Self::name)))
    }

    /// Returns the configuration settings of this kind of wear leveling for blocks of `rated_cycles`. Static leveling
    /// gets a gap (difference of erase counts from which data is moved) of a fiftieth of the rated cycles. Dual-pool
    /// leveling gets a gap of a two-hundredth: with a large gap it would level too late, and even with a small gap it
    /// copies few pages.
    pub fn as_settings(self, rated_cycles: u32) -> Vec<String> {
        let (gap, threshold) = ((rated_cycles / 50).max(4), (rated_cycles / 200).max(4));
        let (dynamic, static_gap, dual_pool_gap) = match self {
            Self::Configured => return Vec::new(),
            Self::None => (false, 0, 0),
            Self::Dynamic => (true, 0, 0),
            Self::Static => (true, gap, 0),
            Self::DualPool => (false, 0, threshold),
        };
        vec![
            format!("wear.dynamic={dynamic}"),
            format!("wear.static_gap={static_gap}"),
            format!("wear.dual_pool_gap={dual_pool_gap}"),
        ]
    }

    /// Returns a sentence on the first of the user's settings (each `section.key=value`) that this kind of wear leveling
    /// replaces by its own; `None` if it replaces none of them.
    pub fn replaced_setting_sentence(self, settings: &[String]) -> Option<String> {
        let replaced = self.as_settings(0);
        let is_replaced = |key: &&str| replaced.iter().any(|own| key_of_setting(own) == *key);
        let key = settings.iter().map(|setting| key_of_setting(setting)).find(is_replaced)?;
        Some(format!(
            "{key} has no effect, because --leveling chooses the wear leveling: leave out one of the two"
        ))
    }
}

/// Mean of a figure (a number such as years or host bytes) over the lives of all seeds, with its confidence interval
/// and extremes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// Mean of the figure over the lives of all seeds.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of the mean (Student's t); absent with one seed.
    pub half_width: Option<f64>,
    /// Smallest value of the estimated figure over the lives of all seeds.
    pub least: f64,
    /// Largest value of the estimated figure over the lives of all seeds.
    pub most: f64,
}

impl Estimate {
    /// Computes mean, confidence interval and extremes from one value per seed; `None` if a seed has no value.
    pub fn of_values(values: impl Iterator<Item = Option<f64>>) -> Option<Self> {
        let values: Vec<f64> = values.collect::<Option<_>>()?;
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let half_width = (values.len() > 1)
            .then(|| student_t_quantile_95(values.len() - 1) * (squares / (count - 1.0) / count).sqrt());
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (!values.is_empty()).then_some(Self { mean, half_width, least, most })
    }
}

/// Returns the quantile of Student's t distribution for a two-sided 95 % interval and `freedom` degrees of freedom. For
/// more than 30 it returns the quantile of the normal distribution, which is at most 4 % too small.
fn student_t_quantile_95(freedom: usize) -> f64 {
    /// Quantiles of Student's t distribution for a two-sided 95 % interval, for 1 to 30 degrees of freedom.
    const STUDENT_T_QUANTILES: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    STUDENT_T_QUANTILES.get(freedom - 1).copied().unwrap_or(1.96)
}

/// Returns a sentence on the first setting of a configuration that the simulation of a drive's life would ignore;
/// `None` if it uses all.
pub fn first_ignored_setting_sentence(config: &Config) -> Option<String> {
    let ignored = config.setting_ignored_by_life_run()?;
    Some(format!("{} has no effect, because {}: leave it out", ignored.key, ignored.reason))
}

impl LifeRecord {
    /// Adds the lives of `other`, a record with further seeds of the same drive. The notes, the effective configuration
    /// with origins, and the RAM of wear leveling are taken from `other`, because they are known only after a life.
    pub fn add_lives_of(&mut self, other: Self) {
        let Self { lives, notes, config, origins, leveling_ram_bytes, .. } = other;
        self.lives.extend(lives);
        (self.notes, self.config, self.leveling_ram_bytes) = (notes, config, leveling_ram_bytes);
        self.origins = origins;
    }

    /// Returns the mean of `figure` over the simulated lives of all seeds, with its confidence interval.
    pub fn estimate(&self, figure: impl Fn(&Life) -> Option<f64>) -> Option<Estimate> {
        Estimate::of_values(self.lives.iter().map(figure))
    }

    /// Returns the bytes that the host wrote until the end of the drive, as the mean over the lives of all seeds.
    pub fn host_bytes(&self) -> Option<Estimate> {
        self.estimate(|life| Some(life.host_bytes as f64))
    }

    /// Returns the years that a larger drive, of `scale_to_bytes`, would last under the same host writes per unit of
    /// time. The larger drive endures as many drive writes as the simulated drive, provided that the footprint of the
    /// host grows in proportion. `None` if no larger size is given, or if the input has no times.
    pub fn years_on_larger_drive(&self, life: &Life) -> Option<f64> {
        Some(life.years? * self.scale_to_bytes? as f64 / self.exported_bytes as f64)
    }

    /// Returns the drive writes per day over the drive's life: the bytes of the host's write requests, divided by the
    /// exported bytes and by the days of [`Life::years`]. The first fill, which takes no time, is left out. `None` if
    /// the input has no times, so that the drive's life in years is unknown.
    pub fn drive_writes_per_day(&self, life: &Life) -> Option<f64> {
        let days = life.years? * YEAR_S as f64 / 86_400.0;
        let fill = if self.is_filled { 1.0 } else { 0.0 };
        Some((life.host_bytes as f64 / self.exported_bytes as f64 - fill) / days)
    }
}
