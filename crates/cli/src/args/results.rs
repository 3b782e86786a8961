//! Options for the files of results, and of the commands that profile inputs and compare results.

use std::path::PathBuf;

use clap::Args;

use super::input::InputArgs;

/// Options of the command `profile`, which measures what content mechanisms find in an input.
#[derive(Args)]
pub(crate) struct ProfileArgs {
    /// Traces (any readable format, pipes, - for standard input), directories, disk images or any files
    #[arg(required_unless_present = "workload", conflicts_with = "workload")]
    pub(crate) paths: Vec<PathBuf>,
    /// Generated workload in place of traces and files (see `wearwell workloads`)
    #[arg(long, value_name = "SPEC", conflicts_with_all = ["against", "files"])]
    pub(crate) workload: Option<String>,
    /// Old version of the one file or directory that is profiled: show the differences between the two
    #[arg(long, value_name = "OLD")]
    pub(crate) against: Option<PathBuf>,
    /// Profile every file by its bytes, even if it is a trace
    #[arg(long)]
    pub(crate) files: bool,
    /// Profile only one of N pages and one of N contents; the table then gives standard errors [default: all, while
    /// memory is below 1 GB]
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) sample: u64,
    /// Also measure what each content mechanism saves on a drive: a run with each mechanism alone, and one without any
    #[arg(long, conflicts_with = "against")]
    pub(crate) run: bool,
    /// Configuration file (TOML) of the drive of --run
    #[arg(long, value_name = "FILE", requires = "run")]
    pub(crate) config: Option<PathBuf>,
    /// Setting of the drive of --run, as section.key=value; overrides the file
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "run")]
    pub(crate) settings: Vec<String>,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Write the profiles as JSON (`-` = standard output; `wearwell schema profile` describes it)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// Print no table and no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Options of the command `diff`, which compares two result files.
#[derive(Args)]
pub(crate) struct DiffArgs {
    /// Result of --json of replay, compare, sweep, life, ablate or profile, or its --report (- = standard input)
    pub(crate) first: PathBuf,
    /// Result file that is compared with the first
    pub(crate) second: PathBuf,
    /// Numbers that differ by at most this share of the larger one count as equal
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = parse_share)]
    pub(crate) within: f64,
    /// End with status 1 if anything differs
    #[arg(long)]
    pub(crate) exit_code: bool,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Options for the files to which results of runs are written: JSON, CSV, Parquet.
#[derive(Args)]
pub(crate) struct ResultArgs {
    /// Write the records as JSON, with the failures of a sweep (`-` = standard output; `wearwell schema` describes
    /// them)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the main figures as CSV, a failed run of a sweep with its error (`-` = standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write the columns of `--csv` as Parquet, which has types (`-` = standard output, unless it is a terminal)
    #[arg(long, value_name = "FILE")]
    pub(crate) parquet: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Options of a result's report (HTML page), and whether existing files are replaced.
#[derive(Args)]
pub(crate) struct ReportArgs {
    /// Write the result as a page for a browser (HTML), which needs no network (`-` = standard output)
    #[arg(long = "report", value_name = "FILE")]
    pub(crate) report_path: Option<PathBuf>,
    /// Replace existing files of results
    #[arg(long)]
    pub(crate) force: bool,
}

/// Parses a number from 0 to 1.
fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share must be a number from 0 to 1, such as 0.01".to_owned()),
    }
}
