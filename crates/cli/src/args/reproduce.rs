//! Options of the command `reproduce`, which measures the results of papers again.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use super::parse_nonzero_number;

/// Options of the command `reproduce`, which measures the results of a paper again.
#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct ReproduceArgs {
    /// Paper: lx (Recyclable SSD), df (Delta-FTL), rm (Remap-SSD), il (integrated lifetime management),
    /// gk (GeckoFTL); all for one after the other
    #[arg(value_parser = ["lx", "df", "rm", "il", "gk", "all"])]
    pub(crate) paper: String,
    /// Run reduced experiments, which take minutes per paper (the default)
    #[arg(long)]
    pub(crate) quick: bool,
    /// Run experiments as large as those of the paper, where memory allows
    #[arg(long, conflicts_with = "quick")]
    pub(crate) full: bool,
    /// Folder with original traces, used in place of their substitutes (names: docs/reproduce.md)
    #[arg(long, value_name = "DIR")]
    pub(crate) traces: Option<PathBuf>,
    /// Folder of results; a folder of the paper's name is made in it [default: papers, or papers/full with --full]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Run all experiments again, also those whose results are stored already
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Number of experiments at a time [default: one per core]
    #[arg(long, value_name = "N", value_parser = parse_nonzero_number::<NonZeroUsize>)]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Run no experiment: only evaluate the stored results.json again, and write the pages and figures of the paper
    #[arg(long, conflicts_with_all = ["traces", "seed", "fresh", "jobs"])]
    pub(crate) render: bool,
    /// Afterwards write the claims of all papers and how well they were reproduced into this document, between its
    /// marks for the summary
    #[arg(long, value_name = "FILE")]
    pub(crate) summary: Option<PathBuf>,
    /// Print no summary and no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
