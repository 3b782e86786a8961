//! Options of the command `watch`, which shows a small drive request by request.

use std::path::PathBuf;

use clap::Args;

use super::input::InputArgs;
use super::option_order::OptionOrder;
use crate::suggested_names::SuggestedNames;

/// Options of the command `watch`, which makes a page that shows each step of a small drive.
#[derive(Args)]
pub(crate) struct WatchArgs {
    // First, because the fields below take their values out of what was parsed.
    #[command(flatten)]
    option_order: OptionOrder,
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
    /// One setting, e.g. gc.policy=fifo; may be repeated and wins over the file and over earlier options
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Content model for writes that have no content, or no sizes of it [content.model]
    #[arg(long, value_name = "SPEC")]
    content: Option<String>,
    /// Seed of all random numbers [replay.seed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Number of requests that the page shows, at most 2000
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) requests: u64,
    /// Cut the power after this many requests, at the next page program, block erase or NVRAM store, and then recover
    #[arg(long, value_name = "N")]
    pub(crate) cut_after: Option<u64>,
    /// HTML page to write, which needs no network (`-` = standard output)
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Replace an existing HTML file
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Print nothing
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl WatchArgs {
    /// Returns the options as settings, in their order on the command line; later ones override earlier ones.
    pub(crate) fn all_settings(&self) -> Vec<String> {
        let content = self.content.as_ref().map(|model| format!("content.model=\"{model}\""));
        let seed = self.seed.map(|seed| format!("replay.seed={seed}"));
        self.option_order.settings_in_order([("content", content), ("seed", seed)], &self.settings)
    }
}
