//! Options that make the configuration of a run, which the command `config` prints and the commands that run one share.

use std::path::PathBuf;

use clap::Args;

use super::option_order::OptionOrder;
use crate::suggested_names::SuggestedNames;

/// A configuration file, and options that set single values over it.
#[derive(Args)]
pub(crate) struct ConfigArgs {
    // First, because the fields below take their values out of what was parsed.
    #[command(flatten)]
    option_order: OptionOrder,
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
    /// Content model for writes whose trace has no content, or no sizes of it [content.model]
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
}

impl ConfigArgs {
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
