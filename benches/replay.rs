//! Benchmarks of whole replays. They measure the thread's CPU time of the measured part, without building and
//! preconditioning the device. Sizes are small enough for many repetitions; `examples/speed.rs` has large ones.

use std::ops::ControlFlow::Continue;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use wearwell_config::Config;
use wearwell_replay::input::Input;
use wearwell_replay::replay::Plan;

/// Number of requests that each benchmark case replays.
const REQUESTS: u64 = 400_000;

/// Benchmark cases: name, design, settings beyond those of the device, and workload without its size.
const BENCH_CASES: [(&str, &str, &[&str], &str); 6] = [
    ("page-map counts", "page-map", &[], "uniform"),
    ("page-map counts, skewed", "page-map", &[], "zipf:theta=0.9"),
    ("page-map timeline", "page-map", &["timing.mode=timeline", "replay.arrival=closed"], "uniform"),
    ("page-map event", "page-map", &["timing.mode=event", "replay.arrival=closed"], "uniform"),
    ("recyclable counts", "recyclable", &[], "uniform:dup=0.1"),
    // A map on flash cannot be constructed directly, so the drive is overwritten at random.
    ("dftl counts", "dftl", &["precondition.mode=steady", "precondition.overwrite=0.5"], "uniform"),
];

/// Makes the configuration of a drive of 512 MiB in one plane with 15 % over-provisioning.
fn config_of_settings(settings: &[&str]) -> Config {
    let device = ["device.preset=lab-8g", "device.blocks_per_plane=1024", "precondition.mode=constructed"];
    let list: Vec<String> = device.iter().chain(settings).map(|&setting| setting.to_owned()).collect();
    Config::from_text_and_settings(None, &list).expect("the settings are right")
}

/// Returns the uniform or zipf workload that `generator` names, over all exported pages of the configured drive.
fn workload_of_drive_size(config: &Config, generator: &str) -> Input {
    let pages = config.resolve_device(1).expect("the device is possible").logical_pages;
    let joint = if generator.contains(':') { ',' } else { ':' };
    let spec = format!("{generator}{joint}pages={pages},requests={REQUESTS}");
    Input::Workload(Box::new(spec.parse().expect("the workload is right")))
}

/// Measures the CPU time of the replay of each benchmark case, for Criterion.
fn replays(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("replay");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    for (name, design, settings, generator) in BENCH_CASES {
        let config = config_of_settings(settings);
        let input = workload_of_drive_size(&config, generator);
        let plan = Plan::new(&config, &input).expect("the input fits");
        let measured = || plan.run(design, &mut |_| Continue(())).expect("the run succeeds").cpu_seconds;
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter_custom(|times| (0..times).map(|_| Duration::from_secs_f64(measured())).sum());
        });
    }
    group.finish();
}

criterion_group!(benches, replays);
criterion_main!(benches);
