//! The command `watch`: writes an HTML page that shows a small drive step by step.

use std::path::Path;

use wearwell_config::Config;
use wearwell_replay::html_report;
use wearwell_replay::input::Input;
use wearwell_watch::{Walkthrough, WalkthroughOptions, default_workload, run_walkthrough};

use crate::args::WatchArgs;
use crate::output::{OutputDestination, OverwriteRule, print};
use crate::run::{DesignVariant, InputSource, read_config, replay_failure};
use crate::{Failure, Outcome};

/// Executes the command `watch`: writes an HTML page that shows each step of a short run.
pub(crate) fn watch(args: &WatchArgs) -> Result<Outcome, Failure> {
    let inputs: Vec<&Path> = args.trace.iter().chain(&args.config).map(AsRef::as_ref).collect();
    let output =
        OutputDestination::for_path(&args.out, &OverwriteRule { input_paths: &inputs, force: args.force })?;
    let variant = DesignVariant::parse(&args.design);
    let config =
        read_config(args.config.as_deref(), &[args.all_settings(), variant.settings.clone()].concat())?;
    refuse_ignored_settings(&config, &variant.design, args)?;
    let opened = input_of_watch_command(args, &config, &variant.design)?.open_repeatable(None, || false)?;
    let extent = WalkthroughOptions { requests: args.requests, power_cut_after_requests: args.cut_after };
    let walk = run_walkthrough(&config, &variant.design, &opened.input, extent)
        .map_err(|error| replay_failure(&error))?;
    output.write(&html_report::html_page(&walk))?;
    if !args.quiet && !output.is_standard_output() {
        print(&html_page_written_line(&walk, &args.out))?;
    }
    Ok(Outcome::Done)
}

/// Refuses settings that the design does not use. Settings that have an effect only on a drive of fixed size are
/// accepted, because the drive of this command always has the configured number of blocks.
fn refuse_ignored_settings(config: &Config, design: &String, args: &WatchArgs) -> Result<(), Failure> {
    let mut config = config.clone();
    config.device.logical_pages.get_or_insert(1);
    match config.ignored_settings(&args.all_settings(), std::slice::from_ref(design)).first() {
        None => Ok(()),
        Some(ignored) => Err(Failure::of_usage(ignored.to_string())),
    }
}

/// Returns the input that the user names, or the workload that shows what the design does.
fn input_of_watch_command(args: &WatchArgs, config: &Config, design: &str) -> Result<InputSource, Failure> {
    if let Some(path) = &args.trace {
        return Ok(InputSource::Trace(path.clone(), args.input.open_options()?));
    }
    args.input.refuse_trace_options_for_workload()?;
    let spec = match &args.workload {
        Some(spec) => spec.clone(),
        None => default_workload(config, design).map_err(|error| Failure::of_usage(error.to_string()))?,
    };
    let input = Input::of_generator_spec_with_default_seed(&spec, config.seed())
        .map_err(|error| Failure::of_usage(error.to_string()))?;
    Ok(InputSource::Generated(input))
}

/// Returns the line that `wearwell watch` prints about the HTML page that it has written: its path and its number of
/// steps, the design, and the flash pages of the drive.
fn html_page_written_line(walk: &Walkthrough, path: &Path) -> String {
    format!(
        "{}: {} steps of {} on {} flash pages\n",
        path.display(),
        walk.steps.len() - 1,
        walk.design,
        walk.drive.blocks * walk.drive.block_pages
    )
}
