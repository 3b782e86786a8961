//! The life of a drive: an input repeated until the drive is worn out.
//!
//! An extrapolation multiplies what a short run wore by how often it fits into the rated cycles. It knows no weak blocks,
//! no spare space that shrinks (and write amplification that rises with it), and no block that wears faster than the mean.
//! Here nothing is extrapolated: every block has a limit of its own, drawn from a stated distribution, its last erase or
//! program fails, the engine retires it, and the drive ends when the stated minimum of its spare blocks is gone or no
//! write finds room. The price is time: some 10^7 page programs a second and core.
//!
//! What is not modelled: reads wear nothing, cycles are equal whatever the temperature and the pause between them, and
//! data never ages. The extrapolation is printed beside the life, so that the difference is seen.

mod csv;
mod table;

pub use csv::csv;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use table::table;
pub(crate) use table::{Shown, shown};
use wearwell::lifetime::YEAR_S;
use wearwell::nand::{WearFailure, WearLimit};
use wearwell_config::Config;

use crate::report::SCHEMA_VERSION;
use crate::timeline::Timeline;

/// How much the blocks of a drive endure, and when it has ended.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Endurance {
    /// Standard deviation of the cycles of a block, as a share of the rated cycles, which are the mean.
    pub spread: f64,
    /// Share of the blocks that fail early: at a moment drawn evenly from the rated life.
    pub early_share: f64,
    /// Share of the blocks whose end shows in a failed program; that of the others shows in a failed erase.
    pub program_share: f64,
    /// The drive has ended when this share of its spare blocks is left.
    pub spare_minimum: f64,
}

impl Default for Endurance {
    fn default() -> Self {
        Self::ASSUMED
    }
}

impl Endurance {
    /// Unless the user knows better: cycles spread by a tenth; one early failure in a thousand blocks; an end at 10 % of the
    /// spare blocks.
    pub const ASSUMED: Self =
        Self { spread: 0.1, early_share: 0.001, program_share: 0.5, spare_minimum: 0.1 };

    /// A sentence about what cannot be, if something cannot.
    pub fn refusal(&self) -> Option<String> {
        let shares = [
            ("spread", self.spread, 0.5),
            ("early share", self.early_share, 1.0),
            ("program share", self.program_share, 1.0),
            ("spare minimum", self.spare_minimum, 0.99),
        ];
        let bad = shares.into_iter().find(|(_, value, most)| !(0.0..=*most).contains(value));
        bad.map(|(name, value, most)| format!("{name} is {value}: it is a share from 0 to {most}"))
    }

    /// The limit of each block. A normal draw below one cycle counts as one.
    pub fn limits(&self, blocks: u32, rated_cycles: u32, seed: u64) -> Vec<WearLimit> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let rated = f64::from(rated_cycles);
        let mut limit = |_| {
            let is_early = random.random::<f64>() < self.early_share;
            let normal = rated * (1.0 + self.spread * normal(&mut random));
            let early = rated * random.random::<f64>();
            let fails_program = random.random::<f64>() < self.program_share;
            let cycles = if is_early { early } else { normal };
            WearLimit {
                cycles: cycles.max(1.0) as u32,
                ends_by: if fails_program { WearFailure::Program } else { WearFailure::Erase },
            }
        };
        (0..blocks).map(&mut limit).collect()
    }
}

/// Share of `rated_cycles` of all blocks that is used when `most_failed` of them have failed, if all wear evenly.
pub(crate) fn usable_endurance(limits: &[WearLimit], most_failed: u64, rated_cycles: u32) -> f64 {
    let mut cycles: Vec<u32> = limits.iter().map(|limit| limit.cycles).collect();
    cycles.sort_unstable();
    let last = (most_failed as usize).clamp(1, cycles.len()) - 1;
    let worn: u64 = cycles.iter().map(|&cycles_of_block| u64::from(cycles_of_block.min(cycles[last]))).sum();
    worn as f64 / (limits.len() as f64 * f64::from(rated_cycles))
}

/// A draw from the standard normal distribution, by Box and Muller.
fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    let (radius, angle) = (1.0 - random.random::<f64>(), random.random::<f64>());
    libm::sqrt(-2.0 * libm::log(radius)) * libm::cos(std::f64::consts::TAU * angle)
}

/// Why a drive ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The stated minimum of spare blocks was reached.
    Spare,
    /// A write found no room.
    Full,
    /// The user ended the run: the drive still lives.
    Interrupted,
}

/// A moment of a drive's life.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LifePoint {
    /// Bytes that the host had written.
    pub host_bytes: u64,
    /// Pages that were programmed.
    pub programs: u64,
    /// Erases per block, mean.
    pub mean_erases: f64,
    /// Erases of the most worn block.
    pub max_erases: u32,
    /// Spare blocks left, as a share of those of the new drive.
    pub spare: f64,
}

/// How worn the blocks are.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Wear {
    /// Erases of the least worn block.
    pub least: u32,
    /// A tenth of the blocks have no more.
    pub p10: u32,
    /// Half of the blocks have no more.
    pub p50: u32,
    /// Nine tenths of the blocks have no more.
    pub p90: u32,
    /// Erases of the most worn block.
    pub most: u32,
    /// Erases per block, mean.
    pub mean: f64,
}

impl Wear {
    /// Of the erases of all blocks.
    pub fn of(mut erases: Vec<u32>) -> Self {
        erases.sort_unstable();
        let at = |share: usize| erases.get((erases.len().max(1) - 1) * share / 10).copied().unwrap_or(0);
        let mean = erases.iter().map(|&count| f64::from(count)).sum::<f64>() / erases.len().max(1) as f64;
        Self { least: at(0), p10: at(1), p50: at(5), p90: at(9), most: at(10), mean }
    }
}

/// The life of one drive.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Life {
    /// Seed of the blocks' limits, of the design and of content.
    pub seed: u64,
    /// Why it ended.
    pub end: End,
    /// Bytes that the host wrote, a first fill included.
    pub host_bytes: u64,
    /// Bytes that were programmed.
    pub media_bytes: u64,
    /// Times that the input was replayed; the last one in part.
    pub passes: f64,
    /// Years at the rate of the input; absent if the input has no times.
    pub years: Option<f64>,
    /// What a replay of the beginning says: bytes per share of the rated cycles that it used. Absent if the drive ended
    /// before there was a beginning to measure.
    pub extrapolated_bytes: Option<f64>,
    /// Share of the rated cycles of all blocks that perfect wear leveling could use before the drive ends: what the spread of
    /// endurance and early failures leave of the extrapolation, which takes all blocks for equal and evenly worn. Write
    /// amplification that grows with the spare blocks that are gone comes on top.
    #[serde(default)]
    pub usable_endurance: f64,
    /// Bytes that the host had written when the first block failed; absent if none did.
    pub first_failure_bytes: Option<u64>,
    /// Blocks that failed.
    pub failed_blocks: u64,
    /// Wear of all blocks at the end.
    pub wear: Wear,
    /// Pages that wear leveling copied: what it costs in programs.
    pub leveling_programs: u64,
    /// Blocks that wear leveling emptied.
    pub leveling_erases: u64,
    /// Moments of the life, at most 400.
    pub series: Vec<LifePoint>,
    /// What happened over time and where on the flash, if `replay.timeline_cells` asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// CPU time, seconds.
    pub cpu_seconds: f64,
}

impl Life {
    /// Page programs of the whole life.
    pub fn programs(&self) -> u64 {
        self.series.last().map_or(0, |point| point.programs)
    }

    /// Media bytes per host byte over the whole life.
    pub fn write_amplification(&self) -> f64 {
        self.media_bytes as f64 / self.host_bytes.max(1) as f64
    }
}

/// What `wearwell life --json` writes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Lives {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// One record per input, design and kind of wear leveling.
    pub drives: Vec<LifeRecord>,
}

impl Lives {
    /// Of drives, in the order of the table's columns.
    pub fn of(drives: Vec<LifeRecord>) -> Self {
        Self { schema_version: SCHEMA_VERSION, drives }
    }
}

/// Lives of drives that differ in their seed only.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LifeRecord {
    /// The input.
    pub input: String,
    /// The design.
    pub design: String,
    /// Version of this software.
    pub version: String,
    /// The wear leveling.
    pub leveling: Leveling,
    /// Bytes of RAM that it takes in a controller.
    pub leveling_ram_bytes: u64,
    /// The configuration with every value that the lives used; the seed is each life's own.
    pub config: Config,
    /// The distribution of the blocks' limits, and the end.
    pub endurance: Endurance,
    /// Mean of the limits, cycles.
    pub rated_cycles: u32,
    /// Exported bytes.
    pub exported_bytes: u64,
    /// Bytes of all blocks.
    pub physical_bytes: u64,
    /// All exported pages were written once before the input; that counts as written by the host.
    pub is_filled: bool,
    /// Exported bytes of a larger drive that takes the input's writes at the same rate, if one was asked for.
    pub scale_to_bytes: Option<u64>,
    /// One per seed.
    pub lives: Vec<Life>,
    /// What figures rest on a model rather than on the input.
    pub notes: Vec<String>,
}

/// What evens out the wear of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Leveling {
    /// What the configuration says.
    Configured,
    /// Nothing: blocks are opened in the order in which they became free.
    None,
    /// Free blocks are opened by wear.
    Dynamic,
    /// The same, and blocks that stay behind are moved.
    Static,
    /// Blocks are opened in the order in which they became free, and worn ones rest under cold data (Chang, SAC 2007).
    DualPool,
}

impl Leveling {
    /// All that can be compared.
    pub const COMPARED: [Self; 4] = [Self::None, Self::Dynamic, Self::Static, Self::DualPool];

    /// The name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::None => "none",
            Self::Dynamic => "dynamic",
            Self::Static => "static",
            Self::DualPool => "dual-pool",
        }
    }

    /// The settings that make it, for blocks of so many rated cycles. Static leveling lets a block stay behind by a fiftieth of
    /// them. The threshold of dual-pool leveling is a two-hundredth: a block that became hot again takes as many erases before
    /// it rests again, so a high threshold levels late, while the copies of a low one are few.
    pub fn settings(self, rated_cycles: u32) -> Vec<String> {
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
}

/// Mean of a figure over seeds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// Mean.
    pub mean: f64,
    /// Half of the interval that holds the mean of all seeds in 95 of 100 cases (Student's t); absent with one seed.
    pub half_width: Option<f64>,
}

impl Estimate {
    /// Of one value per seed; `None` if a seed has none.
    pub fn of(values: impl Iterator<Item = Option<f64>>) -> Option<Self> {
        let values: Vec<f64> = values.collect::<Option<_>>()?;
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let half_width = (values.len() > 1)
            .then(|| student_95(values.len() - 1) * (squares / (count - 1.0) / count).sqrt());
        (!values.is_empty()).then_some(Self { mean, half_width })
    }
}

/// The quantile of Student's t for 95 % on both sides; beyond 30 degrees of freedom that of the normal distribution, at
/// most 4 % too small.
fn student_95(freedom: usize) -> f64 {
    const QUANTILES: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    QUANTILES.get(freedom - 1).copied().unwrap_or(1.96)
}

impl LifeRecord {
    /// Mean over the seeds of what `figure` says of a life.
    pub fn estimate(&self, figure: impl Fn(&Life) -> Option<f64>) -> Option<Estimate> {
        Estimate::of(self.lives.iter().map(figure))
    }

    /// Host bytes until the end.
    pub fn host_bytes(&self) -> Option<Estimate> {
        self.estimate(|life| Some(life.host_bytes as f64))
    }

    /// Years of the larger drive at the input's rate: it takes as many drive writes, each of which is larger. The input's
    /// footprint grows with it. Absent without one, or without years.
    pub fn scaled_years(&self, life: &Life) -> Option<f64> {
        Some(life.years? * self.scale_to_bytes? as f64 / self.exported_bytes as f64)
    }

    /// Drive writes a day over the life, without the first fill, which takes no time; absent without years.
    pub fn drive_writes_per_day(&self, life: &Life) -> Option<f64> {
        let days = life.years? * YEAR_S as f64 / 86_400.0;
        let fill = if self.is_filled { 1.0 } else { 0.0 };
        Some((life.host_bytes as f64 / self.exported_bytes as f64 - fill) / days)
    }
}
