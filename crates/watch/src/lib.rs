//! A walk through a small drive, request by request, for those who learn or teach what an FTL does.
//!
//! The engine of every other command executes the requests, on a drive so small that a person can look at each of its
//! pages. It reports its events ([`wearwell::events`]) and its state after each request
//! ([`wearwell::flash_view`]); the walk records both and says in sentences what they mean. There is no second model:
//! a sentence is derived from what the engine reported, and a test rebuilds the state of the flash from the record at
//! every step and compares it with that of the engine.
//!
//! The crate is apart from `wearwell-replay` because it needs the engine over a second medium, whose power can be cut,
//! and compiling the engine takes long. Here it is optimised less: no drive of this crate serves many requests.
//!
//! | file | what it has |
//! |---|---|
//! | `record.rs` | the record, which is embedded in the page |
//! | `small_drive.rs` | the size of the drive |
//! | `watched_requests.rs` | the requests, and a workload that shows what a design does |
//! | `recorder.rs` | the execution of the requests |
//! | `sentences.rs`, `gc_collection.rs`, `recovery.rs` | what happened in a step, in sentences |
//! | `phrases.rs`, `before_and_after.rs` | what these sentences share |
//! | `html_page.rs` | the page of the record |
//! | `stepped_drive.rs` | the drive that is walked, as one that a program operates by itself |

#![forbid(unsafe_code)]

mod before_and_after;
mod gc_collection;
mod html_page;
mod phrases;
mod record;
mod recorder;
mod recovery;
mod sentences;
mod small_drive;
pub mod stepped_drive;
mod watched_requests;

use wearwell::design::Parts;
use wearwell_config::{Config, ConfigError, ContentConfig, DeviceConfig, ReplayConfig};
use wearwell_replay::input::Input;
use wearwell_replay::json::ToJson;
use wearwell_replay::replay::ReplayError;

pub use crate::record::{
    BlockRow, DriveCounters, DriveState, EventRow, FlashPageRow, LogicalPageRow, NamesByCode, StepGroup,
    VictimCandidateRow, Walkthrough, WalkthroughStep, WatchedDriveLayout,
};
use crate::small_drive::SmallDrive;

/// Maximum number of requests in a step-by-step run (`wearwell watch`).
pub const WATCHED_REQUESTS_MAX: u64 = 2000;
/// Maximum number of flash pages of the drive in a step-by-step run (`wearwell watch`).
pub const WATCHED_FLASH_PAGES_MAX: u32 = 2048;
/// Maximum size of the record of a step-by-step run (`wearwell watch`), bytes of JSON.
pub const WALKTHROUGH_JSON_BYTES_MAX: usize = 16 << 20;

/// Number of requests that a step-by-step run executes, and the request after which power is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WalkthroughOptions {
    /// Number of requests of the input that are executed.
    pub requests: u64,
    /// Number of requests after which power is lost, at the next program, erase or NVRAM store; `None` = never.
    pub power_cut_after_requests: Option<u64>,
}

/// Callback that receives each step of a step-by-step run (`wearwell watch`), and the drive after the step.
pub type OnWalkthroughStep<'a> = &'a mut dyn FnMut(&WalkthroughStep, &mut SmallDrive);

/// Returns the specification of a workload that shows what a design does on a small drive.
///
/// # Errors
/// Those of the configuration; an unknown design.
pub fn default_workload(config: &Config, design: &str) -> Result<String, ConfigError> {
    Ok(watched_requests::demonstration_workload(&parts_on_default_drive(config, design)?))
}

/// Returns the parts (such as map, GC and content mechanisms) of a design on a drive of default size. They show which
/// mechanisms the design has.
fn parts_on_default_drive(config: &Config, design: &str) -> Result<Parts, ConfigError> {
    let drive = Config { device: DeviceConfig::default(), ..config.clone() };
    config.design_parts(design, &drive.resolve_device(1 << 16)?)
}

/// Executes the first requests of an input on a small drive of `design`, and records every step.
///
/// # Errors
/// A setting that has no effect on a step-by-step run; errors of the configuration and of the input; a run whose record
/// would be too large to look at.
pub fn run_walkthrough(
    config: &Config,
    design: &str,
    input: &Input,
    walkthrough_options: WalkthroughOptions,
) -> Result<Walkthrough, ReplayError> {
    run_walkthrough_with_step_callback(config, design, input, walkthrough_options, &mut |_, _| ())
}

/// Executes the first requests of an input as [`run_walkthrough`] does, and calls `on_step` with each step and the
/// drive after the step.
///
/// # Errors
/// Those of [`run_walkthrough`].
pub fn run_walkthrough_with_step_callback(
    config: &Config,
    design: &str,
    input: &Input,
    walkthrough_options: WalkthroughOptions,
    on_step: OnWalkthroughStep<'_>,
) -> Result<Walkthrough, ReplayError> {
    refuse_ignored_settings(config)?;
    require_valid_walkthrough_options(walkthrough_options)?;
    let walk = recorder::record_walkthrough(config, design, input, walkthrough_options, on_step)?;
    let bytes = walk.to_json().len();
    if bytes > WALKTHROUGH_JSON_BYTES_MAX {
        return Err(ConfigError::InvalidValue(format!(
            "the record of {} steps has {} MiB, but the HTML page holds at most {} MiB: choose fewer requests \
             (--requests), or shorter ones",
            walk.steps.len(),
            bytes.div_ceil(1 << 20),
            WALKTHROUGH_JSON_BYTES_MAX >> 20
        ))
        .into());
    }
    Ok(walk)
}

/// Returns an error for a setting that has no effect on a step-by-step run (`wearwell watch`), because the run has no
/// clock and starts with a new drive.
fn refuse_ignored_settings(config: &Config) -> Result<(), ConfigError> {
    let ReplayConfig { seed, requests: _, zeroes: _, .. } = config.replay;
    let replay = ReplayConfig {
        requests: None,
        zeroes: ReplayConfig::default().zeroes,
        seed,
        ..config.replay.clone()
    };
    let rest = Config { replay, content: ContentConfig::default(), ..config.clone() };
    match rest.setting_ignored_by_stepped_drive() {
        None => Ok(()),
        Some(setting) => Err(ConfigError::InvalidValue(format!(
            "{} has no effect on a drive whose steps are shown one by one, because {}: leave it out",
            setting.key, setting.reason
        ))),
    }
}

/// Returns an error if the options of a step-by-step run (`wearwell watch`) ask for more requests than allowed, or for
/// a power cut after more requests than are executed.
fn require_valid_walkthrough_options(walkthrough_options: WalkthroughOptions) -> Result<(), ConfigError> {
    let WalkthroughOptions { requests, power_cut_after_requests: cut_after } = walkthrough_options;
    if requests == 0 || requests > WATCHED_REQUESTS_MAX {
        return Err(ConfigError::InvalidValue(format!(
            "--requests is {requests}: give a number from 1 to {WATCHED_REQUESTS_MAX}, so that a reader can step \
             through the requests"
        )));
    }
    match cut_after.filter(|&cut| cut > requests) {
        Some(cut) => Err(ConfigError::InvalidValue(format!(
            "--cut-after is {cut}, but --requests is only {requests}, so that power would not be lost: lower \
             --cut-after or raise --requests"
        ))),
        None => Ok(()),
    }
}
