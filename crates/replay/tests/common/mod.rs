//! Shorthands by which the tests of the replay driver execute a run in one line.

use std::ops::ControlFlow;

use wearwell_config::Config;
use wearwell_replay::input::Input;
use wearwell_replay::record::RunRecord;
use wearwell_replay::replay::Plan;
use wearwell_replay::workload::WorkloadGenerator;
use wearwell_trace::Request;

/// Settings of the small device of 64 MiB: four dies on two channels, with 64 blocks of 64 pages each. A read takes 45
/// us, a program 400 us, an erase 3500 us, and each channel transfers 400 MB/s.
pub const SMALL_DEVICE: [&str; 5] = [
    "device.preset=bench-8g",
    "device.channels=2",
    "device.dies_per_channel=2",
    "device.blocks_per_plane=64",
    "device.pages_per_block=64",
];

/// Makes a configuration from the settings alone; the drive is empty unless a setting changes `precondition.mode`.
pub fn config_of_settings(settings: &[&str]) -> Config {
    let settings = [&["precondition.mode=none"], settings].concat();
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
    Config::from_text_and_settings(None, &settings).unwrap()
}

/// Makes the configuration of the small device ([`SMALL_DEVICE`]) with `settings`. If they contain a preset, it
/// replaces the small device.
pub fn small_device_config(settings: &[&str]) -> Config {
    let own_device = settings.iter().any(|setting| setting.starts_with("device.preset"));
    let device: &[&str] = if own_device { &[] } else { &SMALL_DEVICE };
    config_of_settings(&[device, settings].concat())
}

/// Makes the input of the workload generator that `spec` specifies.
pub fn generated_input(spec: &str) -> Input {
    Input::Workload(Box::new(spec.parse().unwrap()))
}

/// Returns the requests of the workload generator that `spec` specifies.
pub fn requests_of(spec: &str) -> Vec<Request> {
    let mut generator = WorkloadGenerator::new(&spec.parse().unwrap());
    let mut request = Request::default();
    std::iter::from_fn(|| generator.next_request(&mut request).then(|| request.clone())).collect()
}

/// Replays `input` on `design` to its end, and returns the record of the run.
pub fn run_input(config: &Config, input: &Input, design: &str) -> RunRecord {
    let plan = Plan::new(config, input).unwrap();
    plan.run(design, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Replays a generated workload on the small device, and returns the record of the run.
pub fn run_on_small_device(settings: &[&str], spec: &str, design: &str) -> RunRecord {
    run_input(&small_device_config(settings), &generated_input(spec), design)
}

/// Replays a generated workload on the device that the settings describe, and returns the record of the run.
pub fn run_workload(settings: &[&str], spec: &str, design: &str) -> RunRecord {
    run_input(&config_of_settings(settings), &generated_input(spec), design)
}
