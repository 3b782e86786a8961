//! Options of the command line. Every setting of the configuration can be given with `--set section.key=value`;
//! frequent settings have options of their own, which are only short forms.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use wearwell_replay::input::trace_format_named;
use wearwell_replay::life::{Endurance, Leveling};
use wearwell_replay::replay::TraceWindow;
use wearwell_serve::{Limits, SocketMode};
#[cfg(feature = "tls")]
use wearwell_serve::{Tls, TlsError};
use wearwell_trace::{AssumedOp, BlockLayerStage, CsvColumns, OpenOptions, TimeUnit};

use crate::log::{LogFormat, LogLevel};
use crate::suggested::SuggestedNames;

#[derive(Parser)]
#[command(
    name = "wearwell",
    version,
    about = "Replay traces through flash translation layers and compare what they do to a drive"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Replay a trace or a workload through one design
    #[command(
        after_help = "Examples:\n  wearwell replay disk.blktrace.zst --design remap\n  wearwell replay disk.csv --columns t=1,op=2,offset=3,length=4,unit=us --json run.json\n  wearwell replay --workload zipf:theta=0.9,pages=1000000,requests=5000000 --timing event --over-provisioning 0.07,0.15,0.28"
    )]
    Replay(ReplayArgs),
    /// Replay through several designs, side by side with ratios to the first
    #[command(
        after_help = "Examples:\n  wearwell compare disk.blktrace.zst --designs page-map,remap,geckoftl --csv runs.csv --jobs 2\n  wearwell compare disk.wwt --timing event --report designs.html\n  wearwell compare disk.wwt --designs page-map:gc.policy=fifo,page-map --device tlc-1t --scale-to 1TiB\n  wearwell compare --workload uniform:pages=200000 --content dup:share=0.3,compress=0.5"
    )]
    Compare(CompareArgs),
    /// Measure what each content mechanism of a design gains: alone, in addition to all others, and on average over all
    /// orders
    #[command(
        after_help = "Examples:\n  wearwell ablate disk.wwt --jobs 2\n  wearwell ablate disk.wwt --parts recycle,dedup --design dftl --timing event --csv subsets.csv\n  wearwell ablate --workload zipf:pages=100000,requests=1000000 --content dup:share=0.3,compress=0.5 --resume subsets"
    )]
    Ablate(AblateArgs),
    /// Run every combination of what a file lists: inputs, designs, values of settings
    #[command(
        after_help = "Examples:\n  wearwell sweep sweep.toml --jobs 2 --resume results --csv runs.csv\n\nA file:\n  [sweep]\n  workloads = [\"zipf:pages=100000,requests=1000000\"]\n  designs = [\"page-map\", \"page-map:gc.policy=fifo\", \"geckoftl\"]\n\n  [sweep.vary]\n  device.over_provisioning = [0.07, 0.15, 0.28]\n  replay.seed = [1, 2, 3]\n\n  [precondition]\n  mode = \"steady\""
    )]
    Sweep(SweepArgs),
    /// Repeat a trace or a workload until the drive is worn out: TB written, years, and what wear leveling gains
    #[command(
        after_help = "Examples:\n  wearwell life disk.wwt --designs page-map,remap --seeds 5\n  wearwell life --workload zipf:theta=0.9,pages=100000 --leveling none,static --set device.endurance_cycles=1000"
    )]
    Life(LifeArgs),
    /// Follow a small drive request by request: make a page that steps through what the FTL does to the flash
    #[command(
        after_help = "Examples:\n  wearwell watch --design geckoftl --out gecko.html\n  wearwell watch disk.csv --design recyclable --requests 300 --out recycling.html\n  wearwell watch --design wearwell --cut-after 120 --out cut.html\n  wearwell watch --workload uniform:pages=40 --design page-map --set gc.policy=cost-benefit --out policy.html"
    )]
    Watch(WatchArgs),
    /// Measure a paper again: its results row by row, beside ours
    #[command(
        after_help = "Examples:\n  wearwell reproduce gk\n  wearwell reproduce all --summary summary.md"
    )]
    Reproduce(ReproduceArgs),
    /// Serve a device over NBD
    #[command(
        after_help = "Examples:\n  wearwell serve --memory --size 4GiB --design remap --socket drive.sock\n  wearwell serve --image drive --tcp 127.0.0.1:10809 --control control.sock\n  wearwell serve root=images/root home=images/home --socket drives.sock --control control.sock"
    )]
    Serve(ServeArgs),
    /// Show statistics of a device that is served
    Top(TopArgs),
    /// Measure what deduplication, compression and delta encoding find in a trace, a directory or a disk image
    #[command(
        after_help = "Examples:\n  wearwell profile /var/lib/postgresql\n  wearwell profile disk.img --against yesterday.img\n  wearwell profile disk.wwt --sample 16 --json profile.json"
    )]
    Profile(ProfileArgs),
    /// Show what differs between two results: in what was run, and in its outcome
    #[command(
        after_help = "Examples:\n  wearwell diff yesterday.json today.json\n  wearwell diff a.json b.json --within 0.01 --exit-code"
    )]
    Diff(DiffArgs),
    /// Inspect or convert traces
    Trace {
        #[command(subcommand)]
        command: TraceCommand,
    },
    /// Create an image: flash and NVRAM of a live device in a directory of files
    #[command(after_help = "Examples:\n  wearwell create drive --size 16GiB --design remap")]
    Create(CreateArgs),
    /// Audit an image without changing it: all checksums, recovery and every conservation law. Exit status: 0 clean, 1
    /// not closed or damaged in one of two copies, but consistent after recovery, 2 corrupt, 3 cannot be audited
    Check {
        /// Directory of the image
        directory: PathBuf,
    },
    /// Repair an image, or a copy of it: damaged metadata from its second copy; data that is lost is listed
    #[command(after_help = "Example:\n  wearwell repair damaged.image --to repaired.image")]
    Repair(RepairArgs),
    /// Make a new image with the contents of another one: larger, of another design, or with other settings
    #[command(
        after_help = "Examples:\n  wearwell copy old.image new.image --size 2GiB\n  wearwell copy old.image new.image --design remap"
    )]
    Copy(CopyArgs),
    /// Make an image larger, with the same contents. If interrupted, it is the old image or the larger one, and the
    /// command can be started again
    #[command(
        after_help = "The larger image is made beside the old one and then takes its name, so the disk must have room \
                      for the contents of both. Its wear and counters begin at zero. The image must not be in \
                      use.\n\nExample:\n  wearwell resize drive.image --size 2GiB"
    )]
    Resize {
        /// Directory of the image
        directory: PathBuf,
        /// Bytes that the image exports afterwards, at least as many as before
        #[arg(long, value_name = "BYTES", value_parser = wearwell_serve::parse_size_bytes)]
        size: u64,
    },
    /// Copy an image while it is served; the server executes nothing else meanwhile
    Snapshot {
        /// Control socket of the server
        control: PathBuf,
        /// Directory of the copy; must not exist
        directory: PathBuf,
        /// Name of the export, if the server has several
        #[arg(long, value_name = "NAME")]
        export: Option<String>,
    },
    /// Upgrade an image of an earlier format version to the present one. If interrupted, it can be started again
    Upgrade {
        /// Directory of the image
        directory: PathBuf,
    },
    /// List the named devices
    Devices,
    /// List the designs, what each models and what not; or print the parts of one as a configuration file
    #[command(after_help = "Examples:\n  wearwell designs\n  wearwell designs geckoftl > mine.toml")]
    Designs {
        /// A design to print
        #[arg(value_parser = SuggestedNames::DESIGNS, hide_possible_values = true)]
        design: Option<String>,
    },
    /// Explain workload and content-model specifications
    Workloads,
    /// Print the configuration that a run would use
    Config(RunArgs),
    /// Print the JSON Schema of results, or of configurations
    Schema {
        /// Document that the printed schema describes
        #[arg(value_enum, default_value_t = SchemaOf::Runs)]
        of: SchemaOf,
    },
    /// Write manual pages, one for each command
    Man {
        /// Folder, made if it is missing
        folder: PathBuf,
    },
    /// Print a completion script for a shell
    Completions {
        /// Shell for which the completion script is printed
        shell: clap_complete::Shell,
    },
}

/// Document for which the command prints a JSON Schema.
#[derive(ValueEnum, Clone, Copy)]
pub(crate) enum SchemaOf {
    /// `--json` of replay and compare
    Runs,
    /// `--json` of sweep
    Sweep,
    /// `--json` of life
    Lives,
    /// `--json` of ablate
    Ablations,
    /// `--json` of profile
    Profile,
    /// A configuration file, as JSON
    Config,
}

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

#[derive(Args)]
pub(crate) struct AblateArgs {
    /// Trace files, pipes, or - for standard input
    #[arg(required_unless_present = "workload", conflicts_with = "workload")]
    pub(crate) traces: Vec<PathBuf>,
    /// Content mechanisms to measure: recycle, remap (the host's command), dedup (with remap in it), delta, compress. N
    /// of them take 2^N runs
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
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Print the tables as markdown
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Print no table and no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

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
    /// Drives simulated per design; each has its own random block endurances, content and generated requests
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seeds: std::num::NonZeroU32,
    /// Standard deviation of the cycles that a block endures, as a share of the rated cycles
    #[arg(long, value_name = "SHARE", default_value_t = Endurance::DEFAULT_ENDURANCE.spread)]
    spread: f64,
    /// Share of the blocks that fail early, at any moment of the rated life
    #[arg(long, value_name = "SHARE", default_value_t = Endurance::DEFAULT_ENDURANCE.early_share)]
    early_share: f64,
    /// Share of the blocks that fail by a program; the others fail by an erase
    #[arg(long, value_name = "SHARE", default_value_t = Endurance::DEFAULT_ENDURANCE.program_share)]
    program_share: f64,
    /// The drive has ended when this share of its spare blocks is left
    #[arg(long, value_name = "SHARE", default_value_t = Endurance::DEFAULT_ENDURANCE.spare_minimum)]
    spare_minimum: f64,
    /// Do not fill the new drive first: what the input never writes stays spare space, and the drive lives longer
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
    pub(crate) fn endurance(&self) -> Endurance {
        let Self { spread, early_share, program_share, spare_minimum, .. } = *self;
        Endurance { spread, early_share, program_share, spare_minimum }
    }
}

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

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct ReproduceArgs {
    /// Paper: lx (Recyclable SSD), df (Delta-FTL), rm (Remap-SSD), il (integrated lifetime management),
    /// gk (GeckoFTL); all for one after the other
    #[arg(value_parser = ["lx", "df", "rm", "il", "gk", "all"])]
    pub(crate) paper: String,
    /// Experiments scaled down to minutes for a paper (the default)
    #[arg(long)]
    pub(crate) quick: bool,
    /// Experiments as large as the paper's, where memory allows
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
    /// Repeat experiments that are finished already
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Number of experiments at a time [default: one per core]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Run no experiment: only evaluate results.json again, and make its pages and figures
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

#[derive(Args)]
pub(crate) struct ProfileArgs {
    /// Traces (any readable format, pipes, - for standard input), directories, disk images or any files
    #[arg(required_unless_present = "workload", conflicts_with = "workload")]
    pub(crate) paths: Vec<PathBuf>,
    /// Generated workload instead (see `wearwell workloads`)
    #[arg(long, value_name = "SPEC", conflicts_with_all = ["against", "files"])]
    pub(crate) workload: Option<String>,
    /// Old version of the one file or directory that is profiled: show the differences between the two
    #[arg(long, value_name = "OLD")]
    pub(crate) against: Option<PathBuf>,
    /// Profile the bytes of files as they are, also of files that are traces
    #[arg(long)]
    pub(crate) files: bool,
    /// Profile only one of N pages and one of N contents; the table then gives standard errors [default: all, while
    /// memory is below 1 GB]
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) sample: u64,
    /// Also run each content mechanism by itself on a drive, and show what it saves there: a run per mechanism and one
    /// without any
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
    pub(crate) page: Option<PathBuf>,
    /// Replace existing files of results
    #[arg(long)]
    pub(crate) force: bool,
}

/// Parses a number from 0 to 1.
fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a number from 0 to 1".to_owned()),
    }
}

#[derive(Args)]
pub(crate) struct CreateArgs {
    /// Directory of the image; new or empty
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) live: LiveDeviceArgs,
    /// Failures that acknowledged data of the image survives while it is served
    #[arg(long, value_enum, default_value = "host")]
    pub(crate) durability: Durability,
}

#[derive(Args)]
#[command(group(clap::ArgGroup::new("place").required(true).args(["to", "in_place"])))]
pub(crate) struct RepairArgs {
    /// Directory of the image
    pub(crate) directory: PathBuf,
    /// Copy the image to this directory, which must not exist, and repair the copy
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
    /// Repair the image itself
    #[arg(long)]
    pub(crate) in_place: bool,
}

#[derive(Args)]
pub(crate) struct CopyArgs {
    /// Directory of the image that is copied; it is only read
    pub(crate) from: PathBuf,
    /// Directory of the new image; new or empty
    pub(crate) to: PathBuf,
    /// Bytes that the new image exports, at least as many as the old one
    #[arg(long, value_name = "BYTES", value_parser = wearwell_serve::parse_size_bytes)]
    pub(crate) size: Option<u64>,
    /// Design of the new image [default: that of the old one]
    #[arg(long, value_parser = SuggestedNames::DESIGNS, hide_possible_values = true)]
    pub(crate) design: Option<String>,
    /// One setting, e.g. gc.policy=fifo; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Skip lost pages, so that they read as zeros, instead of refusing to copy
    #[arg(long)]
    pub(crate) leave_lost_out: bool,
}

#[derive(Args)]
pub(crate) struct WatchArgs {
    /// Trace file (plain, gzip, zstd or xz), a pipe, or - for standard input; without a trace and a workload, a
    /// workload that shows what the design does
    #[arg(conflicts_with = "workload")]
    pub(crate) trace: Option<PathBuf>,
    /// Generated workload instead of a trace (see `wearwell workloads`); its pages are pages of the small drive
    #[arg(long, value_name = "SPEC")]
    pub(crate) workload: Option<String>,
    /// Design (see `wearwell designs`)
    #[arg(long, default_value = "page-map", value_parser = SuggestedNames::DESIGNS, hide_possible_values = true)]
    pub(crate) design: String,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// One setting, e.g. gc.policy=fifo; may be repeated and wins over the file
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Content model for writes that have no content [content.model]
    #[arg(long, value_name = "SPEC")]
    content: Option<String>,
    /// Seed of all random numbers [replay.seed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Number of requests that the page shows, at most 2000
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) requests: u64,
    /// Cut power after this many requests, at the next page program, block erase or NVRAM store, and then recover
    #[arg(long, value_name = "N")]
    pub(crate) cut_after: Option<u64>,
    /// HTML page to write, which needs no network (`-` = standard output)
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Replace an existing page
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Print nothing
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl WatchArgs {
    /// Returns the options as settings; later ones override earlier ones.
    pub(crate) fn all_settings(&self) -> Vec<String> {
        let content = self.content.iter().map(|model| format!("content.model=\"{model}\""));
        let seed = self.seed.iter().map(|seed| format!("replay.seed={seed}"));
        content.chain(seed).chain(self.settings.iter().cloned()).collect()
    }
}

/// Options that determine a live device, in memory or in an image.
#[derive(Args)]
pub(crate) struct LiveDeviceArgs {
    /// Design (page-map, recyclable, remap, delta, integrated, dftl, wearwell)
    #[arg(long, default_value = "page-map", value_parser = SuggestedNames::DESIGNS, hide_possible_values = true)]
    pub(crate) design: String,
    /// Device preset of a fixed size (see `wearwell devices`) [device.preset]
    #[arg(long, value_name = "PRESET", value_parser = SuggestedNames::DEVICES, hide_possible_values = true)]
    device: Option<String>,
    /// Bytes that the device exports, in whole pages, e.g. 4GiB, 512MiB or 1000001536: the flash is sized to fit
    #[arg(long, value_name = "BYTES", value_parser = wearwell_serve::parse_size_bytes)]
    pub(crate) size: Option<u64>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// One setting, e.g. gc.policy=fifo; may be repeated and wins over the file
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

impl LiveDeviceArgs {
    /// Returns all settings of the live device, as `key=value`; later ones override earlier ones.
    pub(crate) fn all_settings(&self) -> Vec<String> {
        let preset = self.device.iter().map(|preset| format!("device.preset=\"{preset}\""));
        preset.chain(self.settings.iter().cloned()).collect()
    }
}

#[derive(Args)]
#[command(group(clap::ArgGroup::new("medium").required(true).args(["memory", "image", "exports"])))]
#[command(group(clap::ArgGroup::new("door").required(true).multiple(true).args(["socket", "tcp", "socket_activation"])))]
pub(crate) struct ServeArgs {
    /// Several images, each with the name of its export
    #[arg(value_name = "NAME=DIR", value_parser = parse_named_image,
        conflicts_with_all = ["design", "device", "size", "config", "settings", "record", "export"])]
    pub(crate) exports: Vec<NamedImage>,
    #[command(flatten)]
    pub(crate) image_or_memory: ImageOrMemoryArgs,
    #[command(flatten)]
    pub(crate) live: LiveDeviceArgs,
    /// Serve NBD on a Unix socket
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Permissions of the socket files, octal: who may connect
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = parse_socket_mode)]
    pub(crate) socket_mode: SocketMode,
    /// Serve NBD on a loopback address, e.g. 127.0.0.1:10809 or localhost:10809 (port 0 = any)
    #[arg(long, value_name = "ADDR", value_parser = parse_socket_address)]
    pub(crate) tcp: Option<SocketAddr>,
    /// Serve on the sockets that systemd passes; their names in its units are nbd, control, metrics or dashboard
    #[arg(long)]
    pub(crate) socket_activation: bool,
    /// Accept control commands on a Unix socket
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
    /// Serve metrics for Prometheus on a loopback address, GET /metrics (port 0 = any)
    #[arg(long, value_name = "ADDR", value_parser = parse_socket_address)]
    pub(crate) metrics: Option<SocketAddr>,
    /// Show the live device in a browser, at http:// and a loopback address (port 0 = any)
    #[arg(long, value_name = "ADDR", value_parser = parse_socket_address)]
    pub(crate) dashboard: Option<SocketAddr>,
    /// Read this many flash pages per second while no client sends requests, to find damage early
    #[arg(long, value_name = "PAGES", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) scrub_rate: Option<u32>,
    /// Record every operation as a trace (.ops = a capture with bytes, else native)
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Replace an existing recording
    #[arg(long, requires = "record")]
    pub(crate) force: bool,
    /// Name of the NBD export under which the device is served
    #[arg(long, value_name = "NAME", default_value = "wearwell")]
    pub(crate) export: String,
    #[cfg(feature = "tls")]
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// Options for the certificates of a server with TLS.
#[cfg(feature = "tls")]
#[derive(Args)]
pub(crate) struct TlsArgs {
    /// Certificate that clients are shown (PEM, the whole chain): TLS is offered, and required over TCP
    #[arg(long = "tls-certificate", value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long = "tls-key", value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// Certificate of the authority that signs client certificates (PEM): clients then have to show one, and --tcp may
    /// be any address
    #[arg(long = "tls-client-ca", value_name = "FILE", requires = "certificate")]
    client_ca: Option<PathBuf>,
}

#[cfg(feature = "tls")]
impl TlsArgs {
    /// Reads certificate, key and client certificates from their files; `None` if no file was given.
    pub(crate) fn read_certificates(&self) -> Result<Option<Tls>, TlsError> {
        let (Some(certificate), Some(key)) = (&self.certificate, &self.key) else { return Ok(None) };
        Tls::from_files(certificate, key, self.client_ca.as_deref()).map(Some)
    }
}

/// Limits of what the clients of a server may use.
#[derive(Args)]
pub(crate) struct LimitArgs {
    /// Largest number of simultaneous connections to each listening socket
    #[arg(long, value_name = "N", default_value = "1024", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    max_connections: u32,
    /// Largest amount of memory for the large requests of all connections together, e.g. 64MiB
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = wearwell_serve::parse_size_bytes)]
    max_memory: u64,
    /// Largest number of megabytes (10^6 bytes) per second that the clients of an export read and write together
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    limit_mb_per_s: Option<u64>,
    /// Largest number of requests per second that the clients of an export issue together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    limit_iops: Option<u64>,
}

impl LimitArgs {
    pub(crate) fn to_limits(&self) -> Limits {
        Limits {
            max_connections: self.max_connections as usize,
            max_request_memory_bytes: self.max_memory as usize,
            bytes_per_second: self.limit_mb_per_s.map(|megabytes| megabytes * 1_000_000),
            requests_per_second: self.limit_iops,
        }
    }
}

impl ServeArgs {
    /// Returns the images to be served, each with the name of its export.
    pub(crate) fn images(&self) -> Vec<NamedImage> {
        let only = self.image_or_memory.image.clone();
        let only = only.map(|directory| NamedImage { name: self.export.clone(), directory });
        only.into_iter().chain(self.exports.iter().cloned()).collect()
    }
}

/// Directory of an image, and the name of its export.
#[derive(Clone, Debug)]
pub(crate) struct NamedImage {
    pub(crate) name: String,
    pub(crate) directory: PathBuf,
}

fn parse_named_image(text: &str) -> Result<NamedImage, String> {
    match text.split_once('=') {
        Some((name, directory)) if !name.is_empty() && !directory.is_empty() => {
            Ok(NamedImage { name: name.to_owned(), directory: directory.into() })
        }
        _ => Err("expected NAME=DIRECTORY, the name of an export and the directory of its image, such as \
             disk=/var/lib/disk.image"
            .into()),
    }
}

/// Options for the log of a server on standard error.
#[derive(Args)]
pub(crate) struct LogArgs {
    /// Least important level of events that is logged
    #[arg(long, value_name = "LEVEL", value_enum, default_value = "info")]
    log_level: LogLevel,
    /// Format of the log lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "auto")]
    pub(crate) log_format: LogFormat,
    /// Log nothing; the same as --log-level off
    #[arg(long, short, conflicts_with = "log_level")]
    quiet: bool,
}

impl LogArgs {
    /// Returns the log level that the options ask for.
    pub(crate) fn level(&self) -> LogLevel {
        if self.quiet { LogLevel::Off } else { self.log_level }
    }
}

/// Options for the medium of a live device: memory or an image, and how it is served.
#[derive(Args)]
pub(crate) struct ImageOrMemoryArgs {
    /// Keep the flash in memory: all data is lost when the server ends
    #[arg(long)]
    pub(crate) memory: bool,
    /// Directory of an image that `wearwell create` made
    #[arg(long, value_name = "DIR", conflicts_with_all = ["design", "device", "size", "config", "settings"])]
    pub(crate) image: Option<PathBuf>,
    /// Failures that acknowledged data survives while the image is served this time [default: as the image was created]
    #[arg(long, value_enum, conflicts_with = "memory")]
    pub(crate) durability: Option<Durability>,
    /// Serve an image read-only: clients cannot write, its files do not change, and other servers may do the same
    #[arg(long, conflicts_with_all = ["memory", "durability", "record"])]
    pub(crate) read_only: bool,
    /// Serve a damaged image read-only: logical pages whose data can be proven correct, and read errors for all other
    /// pages
    #[arg(long, conflicts_with_all = ["memory", "durability", "record"])]
    pub(crate) rescue: bool,
}

impl ImageOrMemoryArgs {
    /// Returns whether the options request that images are served read-only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only || self.rescue
    }
}

fn parse_socket_mode(text: &str) -> Result<SocketMode, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|&mode| mode <= 0o777);
    mode.map(SocketMode)
        .ok_or_else(|| "expected permissions of three octal digits, such as 600 or 660".into())
}

/// Parses an address with its port; a host name gives its first address.
fn parse_socket_address(text: &str) -> Result<SocketAddr, String> {
    let mut found = text.to_socket_addrs().map_err(|error| {
        format!("{error}; an address is a host and a port, such as 127.0.0.1:10809 or localhost:10809")
    })?;
    found.next().ok_or_else(|| "the host name has no address; use a number, such as 127.0.0.1:10809".into())
}

#[derive(Args)]
pub(crate) struct TopArgs {
    /// Control socket of the server
    pub(crate) control: PathBuf,
    /// Name of the export, if the server has several
    #[arg(long, value_name = "NAME")]
    pub(crate) export: Option<String>,
    /// Seconds between two updates of the display
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub(crate) interval: f64,
    /// Stop after this many updates of the display
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
}

#[derive(ValueEnum, Clone, Copy)]
pub(crate) enum Durability {
    /// A crash of the server, at any instant
    Process,
    /// A crash or power loss of the server machine as well: a flush waits for its disk
    Host,
}

impl From<Durability> for wearwell_serve::image::Durability {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Process => Self::Process,
            Durability::Host => Self::Host,
        }
    }
}

/// Options of commands that run a trace or a workload.
#[derive(Args)]
pub(crate) struct RunArgs {
    /// Generated workload instead of a trace, e.g. uniform:write=1.0,pages=2000000 (see `wearwell workloads`)
    #[arg(long, value_name = "SPEC")]
    pub(crate) workload: Option<String>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// One setting, e.g. gc.policy=fifo; may be repeated and wins over the file
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Device preset (see `wearwell devices`); default: a small drive sized to the trace [device.preset]
    #[arg(long, value_name = "PRESET", value_parser = SuggestedNames::DEVICES, hide_possible_values = true)]
    pub(crate) device: Option<String>,
    /// Spare space / logical space (`device.over_provisioning`); several, with commas between them, are run one by one
    #[arg(long, value_name = "SHARES", value_delimiter = ',')]
    pub(crate) over_provisioning: Vec<f64>,
    /// GC victim policy: greedy, cost-benefit, d-choices, random, fifo, rc-gc, dead-bytes [gc.policy]; or several
    #[arg(
        long,
        value_name = "POLICIES",
        value_delimiter = ',',
        value_parser = SuggestedNames::GC_POLICIES,
        hide_possible_values = true
    )]
    pub(crate) gc_policy: Vec<String>,
    /// Size of the write buffer in pages [buffer.pages]
    #[arg(long, value_name = "PAGES")]
    pub(crate) buffer_pages: Option<u32>,
    /// Time model: none, timeline, event [timing.mode]
    #[arg(long, value_name = "MODE", value_parser = SuggestedNames::TIMING_MODES, hide_possible_values = true)]
    pub(crate) timing: Option<String>,
    /// State before the run: in-use (the default), none, fill, steady, random, constructed, aged [precondition.mode]
    #[arg(long, value_name = "MODE", value_parser = SuggestedNames::PRECONDITION_MODES, hide_possible_values = true)]
    pub(crate) precondition: Option<String>,
    /// Content model for writes whose trace has no content [content.model]
    #[arg(long, value_name = "SPEC")]
    pub(crate) content: Option<String>,
    /// How requests arrive at the device: auto, open (at trace times), closed (a fixed number in flight), think
    /// [replay.arrival]
    #[arg(long, value_name = "MODE", value_parser = SuggestedNames::ARRIVAL_MODES, hide_possible_values = true)]
    pub(crate) arrival: Option<String>,
    /// Requests in flight in closed loop (`replay.queue_depth`)
    #[arg(long, value_name = "N")]
    pub(crate) queue_depth: Option<u32>,
    /// Stop after this many requests [replay.requests]
    #[arg(long, value_name = "N")]
    pub(crate) requests: Option<u64>,
    /// Seed of all random numbers [replay.seed]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
    /// Also print the lifetime in years of a drive that exports this many bytes (512GiB, 1TiB) and receives the same
    /// writes per second
    #[arg(long, value_name = "BYTES", value_parser = wearwell_serve::parse_size_bytes)]
    pub(crate) scale_to: Option<u64>,
    /// Number of runs at a time
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Print the table as markdown
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Print no table and no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl RunArgs {
    /// Returns the settings of each run: every combination of the options that have several values. The list has one
    /// empty entry if no option has several values.
    pub(crate) fn sweep_points(&self) -> Vec<Vec<String>> {
        let shares = self
            .over_provisioning
            .iter()
            .map(|share| format!("device.over_provisioning={share:?}"))
            .collect();
        let policies = self.gc_policy.iter().map(|policy| format!("gc.policy=\"{policy}\"")).collect();
        let lists: [Vec<String>; 2] = [shares, policies];
        lists.iter().filter(|list| list.len() > 1).fold(vec![Vec::new()], |points, list| {
            let with = |point: &Vec<String>, value: &String| [point.clone(), vec![value.clone()]].concat();
            points.iter().flat_map(|point| list.iter().map(move |value| with(point, value))).collect()
        })
    }

    /// Returns the options as settings, before the explicit settings, so that these override them; without options that
    /// have several values.
    pub(crate) fn all_settings(&self) -> Vec<String> {
        let text =
            |key: &str, value: &Option<String>| value.as_ref().map(|value| format!("{key}=\"{value}\""));
        let number = |key: &str, value: Option<String>| value.map(|value| format!("{key}={value}"));
        let flags = [
            text("device.preset", &self.device),
            number(
                "device.over_provisioning",
                single_value(&self.over_provisioning).map(|share| format!("{share:?}")),
            ),
            text("gc.policy", &single_value(&self.gc_policy).cloned()),
            number("buffer.pages", self.buffer_pages.map(|pages| pages.to_string())),
            text("timing.mode", &self.timing),
            text("precondition.mode", &self.precondition),
            text("content.model", &self.content),
            text("replay.arrival", &self.arrival),
            number("replay.queue_depth", self.queue_depth.map(|depth| depth.to_string())),
            number("replay.requests", self.requests.map(|requests| requests.to_string())),
            number("replay.seed", self.seed.map(|seed| seed.to_string())),
        ];
        flags.into_iter().flatten().chain(self.settings.iter().cloned()).collect()
    }
}

fn single_value<T>(values: &[T]) -> Option<&T> {
    if let [value] = values { Some(value) } else { None }
}

/// Options for reading a trace.
#[derive(Args, Clone)]
pub(crate) struct InputArgs {
    /// Trace format, instead of detecting it (`wearwell trace formats` lists the formats)
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Stage of requests to take from blkparse and blktrace: D (issued), Q (queued) or C (completed)
    #[arg(long, value_enum, default_value_t = BlockLayerStageName::D)]
    pub(crate) action: BlockLayerStageName,
    /// Unit of integer times if the format does not say it: ps, ns or us
    #[arg(long, value_enum)]
    pub(crate) time_unit: Option<TimeUnitName>,
    /// Operation of all requests, if the trace format records none
    #[arg(long, value_enum)]
    pub(crate) assume: Option<AssumedOpName>,
    /// Count and skip bad lines instead of ending with an error
    #[arg(long)]
    pub(crate) skip_bad_lines: bool,
    /// Replay the page bytes that a capture contains, instead of only its records of page contents
    #[arg(long)]
    pub(crate) bytes: bool,
    /// Read a capture although .psz or .wdelta is missing beside it: compressed and delta sizes are then unknown
    #[arg(long)]
    pub(crate) without_sidecars: bool,
    /// Columns of a CSV in no known format, from 1, e.g. t=1,op=2,offset=3,length=4,unit=us
    #[arg(long, value_name = "COLUMNS")]
    pub(crate) columns: Option<CsvColumns>,
}

#[derive(ValueEnum, Clone, Copy)]
pub(crate) enum BlockLayerStageName {
    D,
    Q,
    C,
}

#[derive(ValueEnum, Clone, Copy)]
pub(crate) enum TimeUnitName {
    Ps,
    Ns,
    Us,
}

#[derive(ValueEnum, Clone, Copy)]
pub(crate) enum AssumedOpName {
    Reads,
    Writes,
}

impl InputArgs {
    pub(crate) fn open_options(&self) -> Result<OpenOptions, crate::Failure> {
        let format = self.format.as_deref().map(trace_format_named).transpose();
        let format = format.map_err(|error| crate::Failure::of_usage(error.to_string()))?;
        Ok(OpenOptions {
            format,
            block_layer_stage: match self.action {
                BlockLayerStageName::D => BlockLayerStage::Issue,
                BlockLayerStageName::Q => BlockLayerStage::Queue,
                BlockLayerStageName::C => BlockLayerStage::Complete,
            },
            time_unit: self.time_unit.map(|unit| match unit {
                TimeUnitName::Ps => TimeUnit::Picoseconds,
                TimeUnitName::Ns => TimeUnit::Nanoseconds,
                TimeUnitName::Us => TimeUnit::Microseconds,
            }),
            assumed_op: self.assume.map(|kind| match kind {
                AssumedOpName::Reads => AssumedOp::Reads,
                AssumedOpName::Writes => AssumedOp::Writes,
            }),
            skip_bad_lines: self.skip_bad_lines,
            reads_payloads: self.bytes,
            allows_missing_sidecars: self.without_sidecars,
            columns: self.columns.clone(),
            trace_name: None,
        })
    }
}

#[derive(Subcommand)]
pub(crate) enum TraceCommand {
    /// Print statistics of traces: what they do to a device
    Info {
        /// Trace files of which statistics are printed
        #[arg(required = true)]
        traces: Vec<PathBuf>,
        #[command(flatten)]
        input: InputArgs,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Convert a trace to the native binary format (.wwt) or to CSV (.csv)
    Convert {
        /// Trace file that is converted
        from: PathBuf,
        /// Output file; its ending selects the format: .wwt (native) or .csv
        to: PathBuf,
        /// Replace an existing output
        #[arg(long)]
        force: bool,
        /// Text about the origin of the trace, stored in the native file
        #[arg(long, default_value = "")]
        provenance: String,
        #[command(flatten)]
        input: InputArgs,
    },
    /// List the trace formats
    Formats,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// Returns the command lines of the examples in `--help`, each split into words and cut where a shell redirects the
    /// output to a file.
    fn example_command_lines(command: &clap::Command) -> Vec<Vec<String>> {
        let own = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = own.lines().filter(|line| line.starts_with("  wearwell "));
        let words =
            |line: &str| line.split_whitespace().take_while(|word| *word != ">").map(str::to_owned).collect();
        lines.map(words).chain(command.get_subcommands().flat_map(example_command_lines)).collect()
    }

    #[test]
    fn examples_in_help_are_commands() {
        let examples = example_command_lines(&Cli::command());
        assert!(examples.len() > 10, "{examples:?}");
        for words in examples {
            assert!(Cli::try_parse_from(&words).is_ok(), "{}", words.join(" "));
        }
    }

    /// Returns the values of an option in the examples of `--help`: the word after each `flag`.
    fn example_values_of(flag: &str) -> Vec<String> {
        let examples = example_command_lines(&Cli::command());
        let pairs = examples.iter().flat_map(|words| words.windows(2));
        pairs.filter(|pair| pair[0] == flag).map(|pair| pair[1].clone()).collect()
    }

    /// Regression: examples used `zipf:a=0.9`, a key that no generator has.
    #[test]
    fn every_workload_and_setting_in_help_examples_parses() {
        use wearwell_config::Config;
        use wearwell_replay::input::Input;
        let (workloads, contents, settings) =
            (example_values_of("--workload"), example_values_of("--content"), example_values_of("--set"));
        assert!(workloads.len() > 2 && !contents.is_empty() && !settings.is_empty());
        for spec in workloads {
            Input::of_generator_spec(&spec).unwrap_or_else(|error| panic!("{spec}: {error}"));
        }
        for spec in contents {
            spec.parse::<wearwell_replay::content_model::ContentModelSpec>()
                .unwrap_or_else(|error| panic!("{spec}: {error}"));
        }
        Config::from_text_and_settings(None, &settings)
            .unwrap_or_else(|error| panic!("{settings:?}: {error}"));
    }

    /// The word "closed" means a loop with requests in flight (`replay.arrival`), so no help of a generator uses it.
    #[test]
    fn workload_help_does_not_use_the_word_closed() {
        let help = wearwell_replay::workload::WORKLOAD_GRAMMAR.help_text()
            + &wearwell_replay::hosts::HOST_GRAMMAR.help_text();
        assert!(!help.contains("closed"), "{help}");
    }
}
