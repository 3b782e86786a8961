//! The commands and options of the command line; a file for each kind of command has its options. Every setting of the
//! configuration can be given with `--set section.key=value`. Frequent settings also have options of their own, which
//! are short forms. `option_order.rs` keeps the order of both, because the last value of a setting counts.

mod configuration;
mod image;
mod input;
mod life;
mod option_order;
mod reproduce;
mod results;
mod run;
mod serve;
mod watch;

use std::num::{IntErrorKind, ParseIntError};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, Subcommand, ValueEnum};

pub(crate) use self::configuration::ConfigArgs;
pub(crate) use self::image::{CopyArgs, CreateArgs, RepairArgs};
pub(crate) use self::input::{InputArgs, TraceCommand};
pub(crate) use self::life::LifeArgs;
pub(crate) use self::reproduce::ReproduceArgs;
pub(crate) use self::results::{DiffArgs, ProfileArgs, ReportArgs, ResultArgs};
pub(crate) use self::run::{AblateArgs, CompareArgs, ReplayArgs, RunArgs, SweepArgs};
pub(crate) use self::serve::{NamedImage, ServeArgs, TopArgs};
pub(crate) use self::watch::WatchArgs;
use crate::suggested_names::SuggestedNames;

/// Help on `--over-provisioning` of a command that takes one share.
const OVER_PROVISIONING_HELP: &str = "Spare space / logical space [device.over_provisioning]";
/// Help on `--gc-policy` of a command that takes one policy.
const GC_POLICY_HELP: &str =
    "GC victim policy: greedy, cost-benefit, d-choices, random, fifo, rc-gc, dead-bytes [gc.policy]";

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
        after_help = "Examples:\n  wearwell life disk.wwt --designs page-map,remap --seeds 5\n  wearwell life --workload zipf:theta=0.9,pages=100000 --leveling none,static --set device.endurance_cycles=1000",
        mut_arg("over_provisioning", |option| option.help(OVER_PROVISIONING_HELP)),
        mut_arg("gc_policy", |option| option.help(GC_POLICY_HELP))
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
    /// Audit an image without changing it: verify all checksums, recover in memory, and recompute every counter and
    /// table. Exit status: 0 clean; 1 consistent, but not closed, or damaged in one of two copies; 2 corrupt; 3 cannot
    /// be audited
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
        /// Exported size of the image afterwards, in bytes, at least as many as before
        #[arg(long, value_name = "BYTES", value_parser = wearwell_serve::parse_size_bytes)]
        size: u64,
    },
    /// Copy an image while it is served; the server executes nothing else meanwhile
    Snapshot {
        /// Path of the control socket of the server
        control: PathBuf,
        /// Directory of the copy; new or empty
        directory: PathBuf,
        /// Name of the export that is copied, if the server has several
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
    Config(ConfigArgs),
    /// Print the JSON Schema of results, or of configurations
    Schema {
        /// Document that the printed schema describes
        #[arg(value_enum, default_value_t = DocumentWithSchema::Runs)]
        of: DocumentWithSchema,
    },
    /// Write manual pages, one for each command
    Man {
        /// Folder for the manual pages; created if it does not exist
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
pub(crate) enum DocumentWithSchema {
    /// Results of runs: what `replay --json` and `compare --json` write
    Runs,
    /// Results of a sweep: what `sweep --json` writes
    Sweep,
    /// Lives of drives until they are worn out: what `life --json` writes
    Lives,
    /// Results of ablations: what `ablate --json` writes
    Ablations,
    /// Profiles of inputs: what `profile --json` writes
    Profile,
    /// A configuration file, as JSON
    Config,
}

/// Parses a number of things of which at least one is needed: a [`NonZeroUsize`](std::num::NonZeroUsize) or the like.
fn parse_nonzero_number<N: FromStr<Err = ParseIntError>>(text: &str) -> Result<N, String> {
    text.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => "the number is too large".to_owned(),
        _ => "this must be a whole number, 1 or more".to_owned(),
    })
}
