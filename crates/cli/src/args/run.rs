//! Options of the commands that run traces or workloads: replay, compare, ablate, sweep.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use wearwell_replay::replay::TraceWindow;

use super::configuration::ConfigArgs;
use super::input::InputArgs;
use super::parse_nonzero_number;
use super::results::ResultArgs;
use crate::suggested_names::SuggestedNames;

/// Options of the command `replay`, which runs one design.
#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// Trace file (plain, gzip, zstd or xz), a pipe, or - for standard input
    #[arg(required_unless_present = "workload", conflicts_with = "workload")]
    pub(crate) trace: Option<PathBuf>,
    /// Design (see `wearwell designs`)
    #[arg(long, default_value = "page-map", value_parser = SuggestedNames::DESIGNS, hide_possible_values = true)]
    pub(crate) design: String,
    /// Write a part of the run, operation by operation, as a trace for the Perfetto viewer (needs `--timing event`; `-`
    /// = standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) perfetto: Option<PathBuf>,
    /// Part of the run that is traced: requests (5000..6000) or simulated time (1.5s..1520ms) [default: ..1000]
    #[arg(long, value_name = "FROM..TO", requires = "perfetto")]
    pub(crate) perfetto_window: Option<TraceWindow>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Options of the command `compare`, which runs several designs.
#[derive(Args)]
pub(crate) struct CompareArgs {
    /// Trace files, pipes, or - for standard input
    #[arg(required_unless_present = "workload", conflicts_with = "workload")]
    pub(crate) traces: Vec<PathBuf>,
    /// Designs, baseline first; each may have settings of its own: page-map:gc.policy=fifo,page-map
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "page-map,recyclable,dftl",
        value_parser = SuggestedNames::DESIGNS,
        hide_possible_values = true
    )]
    pub(crate) designs: Vec<String>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Options of the command `ablate`, which runs every subset of a design's content mechanisms.
#[derive(Args)]
pub(crate) struct AblateArgs {
    /// Trace files, pipes, or - for standard input
    #[arg(required_unless_present = "workload", conflicts_with = "workload")]
    pub(crate) traces: Vec<PathBuf>,
    /// Content mechanisms to measure: recycle, remap (the remap commands of the host), dedup (includes remap), delta,
    /// compress, silent (skips writes that change nothing). N mechanisms take 2^N runs
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "recycle,dedup,delta,compress",
        value_parser = SuggestedNames::CONTENT_MECHANISMS,
        hide_possible_values = true
    )]
    pub(crate) parts: Vec<String>,
    /// Design whose content mechanisms are varied (see `wearwell designs`)
    #[arg(long, default_value = "page-map", value_parser = SuggestedNames::DESIGNS, hide_possible_values = true)]
    pub(crate) design: String,
    /// Keep each finished run in this folder; a run that is in it already is not repeated
    #[arg(long, value_name = "DIR")]
    pub(crate) resume: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Options of the command `sweep`, which runs the combinations that a file lists.
#[derive(Args)]
pub(crate) struct SweepArgs {
    /// Sweep file (TOML): a configuration with a section [sweep]
    pub(crate) file: PathBuf,
    /// Keep each finished run in this folder; a run that is in it already is not repeated
    #[arg(long, value_name = "DIR")]
    pub(crate) resume: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
    /// Number of runs at a time
    #[arg(long, value_name = "N", value_parser = parse_nonzero_number::<NonZeroUsize>)]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Print the tables as markdown
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Print no table and no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Parses the value of `--scale-to`: the exported bytes, at least 1, of the drive to which the lifetime is scaled.
fn parse_nonzero_drive_bytes(text: &str) -> Result<u64, String> {
    match wearwell_serve::parse_size_bytes(text)? {
        0 => Err("a drive exports more than 0 bytes: give its size, such as 512GiB or 1TiB".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Options of commands that run a trace or a workload.
#[derive(Args)]
pub(crate) struct RunArgs {
    /// Generated workload instead of a trace, e.g. uniform:write=1.0,pages=2000000 (see `wearwell workloads`)
    #[arg(long, value_name = "SPEC")]
    pub(crate) workload: Option<String>,
    #[command(flatten)]
    pub(crate) configuration: ConfigArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
    /// Also print the lifetime in years of a drive that exports this many bytes (512GiB, 1TiB), at least as many as the
    /// simulated one, and receives the same writes per second
    #[arg(long, value_name = "BYTES", value_parser = parse_nonzero_drive_bytes)]
    pub(crate) scale_to: Option<u64>,
    /// Number of runs at a time
    #[arg(long, value_name = "N", value_parser = parse_nonzero_number::<NonZeroUsize>)]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Print the table as markdown
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Print no table and no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
