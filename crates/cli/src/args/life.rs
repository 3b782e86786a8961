//! Options of the command `life`, which repeats an input until the drive is worn out.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use wearwell_replay::life::{Endurance, Leveling};

use super::parse_nonzero_number;
use super::run::RunArgs;
use crate::suggested_names::SuggestedNames;

#[derive(Args)]
pub(crate) struct LifeArgs {
    /// Trace file (plain, gzip, zstd or xz), a pipe, or - for standard input
    #[arg(required_unless_present = "workload", conflicts_with = "workload")]
    pub(crate) trace: Option<PathBuf>,
    /// Designs (see `wearwell designs`)
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "page-map",
        value_parser = SuggestedNames::DESIGNS,
        hide_possible_values = true
    )]
    pub(crate) designs: Vec<String>,
    /// Wear leveling policies to compare, in place of the settings `wear.dynamic`, `wear.static_gap` and
    /// `wear.dual_pool_gap`
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    pub(crate) leveling: Vec<WearLeveling>,
    /// Number of drives simulated per design; each has its own random block endurances, content and generated requests
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_nonzero_number::<NonZeroU32>)]
    pub(crate) seeds: NonZeroU32,
    /// Standard deviation of the cycles that a block endures, as a share of the rated cycles
    #[arg(long, value_name = "SHARE", default_value_t = Endurance::DEFAULT_ENDURANCE.spread)]
    spread: f64,
    /// Share of the blocks that fail early, at a random moment of the rated life
    #[arg(long, value_name = "SHARE", default_value_t = Endurance::DEFAULT_ENDURANCE.early_share)]
    early_share: f64,
    /// Share of the blocks whose first failing operation is a program; the others fail by an erase
    #[arg(long, value_name = "SHARE", default_value_t = Endurance::DEFAULT_ENDURANCE.program_share)]
    program_share: f64,
    /// The drive has ended when this share of its spare blocks is left
    #[arg(long, value_name = "SHARE", default_value_t = Endurance::DEFAULT_ENDURANCE.spare_minimum)]
    spare_minimum: f64,
    /// Begin with an empty drive instead of filling it first: what the input never writes stays spare space, and the
    /// drive lives longer
    #[arg(long)]
    pub(crate) empty: bool,
    /// Keep each finished life in this folder; a life that is in it already is not repeated
    #[arg(long, value_name = "DIR")]
    pub(crate) resume: Option<PathBuf>,
    /// Write the curves of each drive as CSV (- = standard output), or as Parquet if FILE ends in .parquet: a line per
    /// moment, with mean, 95 % interval and extremes over the seeds
    #[arg(long, value_name = "FILE")]
    pub(crate) curves: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

impl LifeArgs {
    /// Returns the endurance of the blocks and the end of the drive, as the options set them.
    pub(crate) fn endurance(&self) -> Endurance {
        let Self { spread, early_share, program_share, spare_minimum, .. } = *self;
        Endurance { spread, early_share, program_share, spare_minimum }
    }
}

/// Wear leveling policy that `wearwell life` can compare: the value of `--leveling`.
#[derive(ValueEnum, Clone, Copy)]
pub(crate) enum WearLeveling {
    /// Blocks are opened in the order in which they became free
    None,
    /// Free blocks are opened by wear: the least worn for host data, the most worn for copies of GC
    Dynamic,
    /// As dynamic, and the data of blocks with few erases is moved
    Static,
    /// Worn blocks rest under cold data (Chang, SAC 2007)
    DualPool,
}

impl From<WearLeveling> for Leveling {
    fn from(leveling: WearLeveling) -> Self {
        match leveling {
            WearLeveling::None => Self::None,
            WearLeveling::Dynamic => Self::Dynamic,
            WearLeveling::Static => Self::Static,
            WearLeveling::DualPool => Self::DualPool,
        }
    }
}
