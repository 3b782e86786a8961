//! Options of the commands that run traces or workloads: replay, compare, ablate, sweep.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use wearwell_replay::replay::TraceWindow;

use super::input::InputArgs;
use super::option_order::OptionOrder;
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
    #[arg(long, value_name = "N")]
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
    // First, because the fields below take their values out of what was parsed.
    #[command(flatten)]
    option_order: OptionOrder,
    /// Generated workload instead of a trace, e.g. uniform:write=1.0,pages=2000000 (see `wearwell workloads`)
    #[arg(long, value_name = "SPEC")]
    pub(crate) workload: Option<String>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// One setting, e.g. gc.policy=fifo; may be repeated and wins over the file and over earlier options
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
    #[arg(long, value_name = "BYTES", value_parser = parse_nonzero_drive_bytes)]
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
    /// Returns the first given option that belongs to a run and not to its configuration: what is read, how much runs at
    /// a time, and where and how results are shown.
    pub(crate) fn first_option_outside_configuration(&self) -> Option<&'static str> {
        let own = [
            ("--workload", self.workload.is_some()),
            ("--scale-to", self.scale_to.is_some()),
            ("--jobs", self.jobs.is_some()),
            ("--markdown", self.markdown),
        ];
        let own = own.into_iter().find(|&(_, is_given)| is_given).map(|(option, _)| option);
        own.or_else(|| self.input.first_trace_option()).or_else(|| self.results.first_output_option())
    }

    /// Returns the settings of each run, one list per combination of the values of those options that have several
    /// values; a single empty list if no option has several values.
    pub(crate) fn sweep_points(&self) -> Vec<Vec<String>> {
        let lists = [
            ("device.over_provisioning", "over_provisioning", self.over_provisioning_settings()),
            ("gc.policy", "gc_policy", self.gc_policy_settings()),
        ];
        let is_swept = |(key, option, values): &&(&str, &str, Vec<String>)| {
            values.len() > 1 && !self.option_order.is_replaced_by_setting(option, key, &self.settings)
        };
        lists.iter().filter(is_swept).fold(vec![Vec::new()], |points, (_, _, list)| {
            let with = |point: &Vec<String>, value: &String| [point.clone(), vec![value.clone()]].concat();
            points.iter().flat_map(|point| list.iter().map(move |value| with(point, value))).collect()
        })
    }

    /// Returns each value of `--over-provisioning` as a setting.
    fn over_provisioning_settings(&self) -> Vec<String> {
        self.over_provisioning.iter().map(|share| format!("device.over_provisioning={share:?}")).collect()
    }

    /// Returns each value of `--gc-policy` as a setting.
    fn gc_policy_settings(&self) -> Vec<String> {
        self.gc_policy.iter().map(|policy| format!("gc.policy=\"{policy}\"")).collect()
    }

    /// Returns the options as settings, in their order on the command line, so that the last value of a key counts.
    /// Options with several values are left out.
    pub(crate) fn all_settings(&self) -> Vec<String> {
        let text =
            |key: &str, value: &Option<String>| value.as_ref().map(|value| format!("{key}=\"{value}\""));
        let number = |key: &str, value: Option<String>| value.map(|value| format!("{key}={value}"));
        let flags = [
            ("device", text("device.preset", &self.device)),
            ("over_provisioning", single_value(self.over_provisioning_settings())),
            ("gc_policy", single_value(self.gc_policy_settings())),
            ("buffer_pages", number("buffer.pages", self.buffer_pages.map(|pages| pages.to_string()))),
            ("timing", text("timing.mode", &self.timing)),
            ("precondition", text("precondition.mode", &self.precondition)),
            ("content", text("content.model", &self.content)),
            ("arrival", text("replay.arrival", &self.arrival)),
            ("queue_depth", number("replay.queue_depth", self.queue_depth.map(|depth| depth.to_string()))),
            ("requests", number("replay.requests", self.requests.map(|requests| requests.to_string()))),
            ("seed", number("replay.seed", self.seed.map(|seed| seed.to_string()))),
        ];
        self.option_order.settings_in_order(flags, &self.settings)
    }
}

/// Returns the value of a list that has exactly one; `None` for any other list.
fn single_value(mut values: Vec<String>) -> Option<String> {
    if values.len() == 1 { values.pop() } else { None }
}
