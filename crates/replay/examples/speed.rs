//! Measures how fast replays are: `speed [millions] [case...]`. Without arguments all benchmark cases run, and
//! `speed list` prints their names. The argument `millions` sets the number of requests of every case, in millions.
//! `once` runs every case once, without the reference loop, for use under a profiler.
//!
//! For each case are printed: host page writes per second of thread CPU time in the measured part (best of the
//! repeats), write amplification, peak memory, and memory per physical page. Before every case, a reference loop of
//! independent read-modify-writes at random places of 256 MiB is timed, which shows whether the machine is shared or
//! slow. The project's speed goals assume about 18 ns per access (12.5 ns if the system provides large memory pages).
//! If the loop takes much longer, the machine is busy: discard the figures of the run.
//!
//! Cases with `engine` in their names call the device directly, in batches of equal size and with the same random draws
//! as the replay driver. A `counts` case on the same device takes longer: the difference is the cost of the replay
//! driver and its workload generator.

use std::hint::black_box;
use std::ops::ControlFlow::Continue;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::address::Lpn;
use wearwell::data::mix_bits;
use wearwell::nand::SimNand;
use wearwell::{Device, DeviceOptions};
use wearwell_config::Config;
use wearwell_replay::input::Input;
use wearwell_replay::record::RunRecord;
use wearwell_replay::replay::Plan;
use wearwell_replay::workload::draw::uniform_below;
use wearwell_replay::{precondition, process};

/// A benchmark case: the drive, design, settings and workload whose replay is timed.
struct BenchmarkCase {
    /// Name of the benchmark case, by which the command line selects it.
    name: &'static str,
    /// Name of the preset (named drive with geometry and timing) of the drive.
    device: &'static str,
    /// Name of the design (kind of FTL) that runs on the drive.
    design: &'static str,
    /// Settings of the benchmark case beyond those that all cases have.
    settings: &'static [&'static str],
    /// Further keys of the uniform workload's specification, such as `,dup=0.1`; its size is set elsewhere.
    workload: &'static str,
    /// Number of requests of the benchmark case, in millions.
    million_requests: u64,
    /// Number of times that the benchmark case is run; the fastest run counts.
    repeats: u32,
    /// Whether requests go through the replay driver or directly to the device.
    request_submission: RequestSubmission,
}

/// How the requests of a benchmark case reach the device.
#[derive(Clone, Copy, PartialEq)]
enum RequestSubmission {
    /// The replay driver issues the requests.
    Replay,
    /// The replay driver issues the requests at the times of a Poisson process, at 60 % of the rate that the device
    /// sustains with 256 requests in flight.
    OpenLoop,
    /// The benchmark calls the device directly, without the replay driver.
    DirectToDevice,
}

/// Base case, from which the others differ: the design `page-map` on an 8-GiB drive, without timing.
const PAGE_MAP: BenchmarkCase = BenchmarkCase {
    name: "",
    device: "lab-8g",
    design: "page-map",
    settings: &[],
    workload: "",
    million_requests: 10,
    repeats: 3,
    request_submission: RequestSubmission::Replay,
};

/// Settings of a deep queue in the event timing model: 256 requests are always in flight.
const DEEP_QUEUE_EVENT_SETTINGS: &[&str] =
    &["timing.mode=event", "replay.arrival=closed", "replay.queue_depth=256"];
/// Settings of a deep queue in the simple timing model (`timeline`): 256 requests are always in flight.
const DEEP_QUEUE_TIMELINE_SETTINGS: &[&str] =
    &["timing.mode=timeline", "replay.arrival=closed", "replay.queue_depth=256"];

/// Fields that all benchmark cases have in common in which requests arrive at given times (open loop).
const OPEN_LOOP_CASE: BenchmarkCase = BenchmarkCase {
    device: "bench-8g",
    million_requests: 5,
    request_submission: RequestSubmission::OpenLoop,
    ..PAGE_MAP
};

/// Fields that all benchmark cases of the design `recyclable` (which revives dead pages) have in common; a tenth of the
/// writes repeats a content.
const RECYCLABLE: BenchmarkCase = BenchmarkCase {
    design: "recyclable",
    settings: &["recycle.entries=131072"],
    workload: ",dup=0.1",
    million_requests: 5,
    ..PAGE_MAP
};
/// Fields that all benchmark cases of the design `remap` have in common; a tenth of the writes repeats a content.
const REMAP: BenchmarkCase =
    BenchmarkCase { design: "remap", workload: ",dup=0.1", million_requests: 5, ..PAGE_MAP };
/// Fields that all benchmark cases of the design `delta` have in common; compressed differences take a fifth of a page
/// on average.
const DELTA: BenchmarkCase = BenchmarkCase {
    design: "delta",
    settings: &["content.model=unique:delta=0.2"],
    million_requests: 5,
    ..PAGE_MAP
};
/// Fields that all benchmark cases of the design `integrated` have in common, with duplicates and compressible pages.
const INTEGRATED: BenchmarkCase = BenchmarkCase {
    design: "integrated",
    settings: &["content.model=dup:share=0.1,compress=0.5"],
    million_requests: 5,
    ..PAGE_MAP
};
/// Base of the cases of the design `wearwell`: all content mechanisms at once, with map and page validity on flash.
const WEARWELL: BenchmarkCase = BenchmarkCase {
    design: "wearwell",
    settings: &["content.model=dup:share=0.1,compress=0.5,delta=0.2"],
    million_requests: 5,
    ..PAGE_MAP
};

/// All benchmark cases, in the order in which they run and are printed.
const CASES: [BenchmarkCase; 28] = [
    BenchmarkCase { name: "engine-8g", request_submission: RequestSubmission::DirectToDevice, ..PAGE_MAP },
    BenchmarkCase { name: "counts-8g", ..PAGE_MAP },
    BenchmarkCase {
        name: "engine-64g",
        device: "lab-64g",
        request_submission: RequestSubmission::DirectToDevice,
        ..PAGE_MAP
    },
    BenchmarkCase { name: "counts-64g", device: "lab-64g", ..PAGE_MAP },
    BenchmarkCase {
        name: "engine-512g",
        device: "lab-512g",
        request_submission: RequestSubmission::DirectToDevice,
        repeats: 1,
        ..PAGE_MAP
    },
    BenchmarkCase { name: "counts-512g", device: "lab-512g", repeats: 2, ..PAGE_MAP },
    BenchmarkCase { name: "counts-2t", device: "lab-2t", repeats: 1, ..PAGE_MAP },
    BenchmarkCase { name: "bench-counts", device: "bench-8g", ..PAGE_MAP },
    BenchmarkCase {
        name: "bench-timeline",
        device: "bench-8g",
        settings: DEEP_QUEUE_TIMELINE_SETTINGS,
        million_requests: 5,
        ..PAGE_MAP
    },
    BenchmarkCase { name: "bench-counts-open", ..OPEN_LOOP_CASE },
    BenchmarkCase { name: "bench-timeline-open", settings: &["timing.mode=timeline"], ..OPEN_LOOP_CASE },
    BenchmarkCase {
        name: "bench-64g-counts-open",
        settings: &["device.blocks_per_plane=2048"],
        ..OPEN_LOOP_CASE
    },
    BenchmarkCase {
        name: "bench-64g-timeline-open",
        settings: &["device.blocks_per_plane=2048", "timing.mode=timeline"],
        ..OPEN_LOOP_CASE
    },
    BenchmarkCase {
        name: "bench-event",
        device: "bench-8g",
        settings: DEEP_QUEUE_EVENT_SETTINGS,
        million_requests: 3,
        ..PAGE_MAP
    },
    BenchmarkCase {
        name: "bench-event-open",
        settings: &["timing.mode=event"],
        million_requests: 3,
        ..OPEN_LOOP_CASE
    },
    BenchmarkCase {
        name: "bench-event-reads",
        device: "bench-8g",
        settings: DEEP_QUEUE_EVENT_SETTINGS,
        workload: ",read=0.7",
        million_requests: 3,
        ..PAGE_MAP
    },
    BenchmarkCase { name: "recyclable-8g", ..RECYCLABLE },
    BenchmarkCase { name: "recyclable-64g", device: "lab-64g", repeats: 1, ..RECYCLABLE },
    BenchmarkCase { name: "remap-8g", ..REMAP },
    BenchmarkCase { name: "remap-64g", device: "lab-64g", repeats: 1, ..REMAP },
    BenchmarkCase { name: "delta-8g", ..DELTA },
    BenchmarkCase { name: "delta-64g", device: "lab-64g", repeats: 1, ..DELTA },
    BenchmarkCase { name: "integrated-8g", ..INTEGRATED },
    BenchmarkCase { name: "integrated-64g", device: "lab-64g", repeats: 1, ..INTEGRATED },
    BenchmarkCase { name: "wearwell-8g", ..WEARWELL },
    BenchmarkCase { name: "dftl-8g", design: "dftl", million_requests: 5, ..PAGE_MAP },
    BenchmarkCase {
        name: "dftl-64g",
        device: "lab-64g",
        design: "dftl",
        million_requests: 5,
        repeats: 1,
        ..PAGE_MAP
    },
    // The paper's device, shape and over-provisioning, at a sixteenth of its size.
    BenchmarkCase {
        name: "gecko-128g",
        device: "gk-2t",
        design: "geckoftl",
        settings: &[
            "device.blocks_per_plane=262144",
            "device.over_provisioning=0.428571",
            "mapping.cache_entries=32768",
        ],
        million_requests: 8,
        ..PAGE_MAP
    },
];

/// Measured results of a benchmark case.
struct CaseResult {
    /// Host page writes (in mixed workloads: writes and reads) per second of CPU time.
    writes_per_second: f64,
    /// Pages programmed per host page write.
    write_amplification: f64,
    /// Largest memory of the process during the run, bytes.
    peak_rss_bytes: u64,
    /// Number of physical pages of the simulated drive; the printed memory per page is `peak_rss_bytes` divided by it.
    physical_pages: u64,
}

/// Settings that all benchmark cases have: steady state from the start, and 15 % over-provisioning.
const COMMON_SETTINGS: [&str; 2] = ["precondition.mode=constructed", "device.over_provisioning=0.15"];

/// Returns the configuration of a benchmark case: its drive, the common settings, and `settings`.
fn config(case: &BenchmarkCase, settings: impl Iterator<Item = &'static &'static str>) -> Config {
    let device = format!("device.preset={}", case.device);
    let settings = COMMON_SETTINGS.iter().chain(settings).map(|&setting| setting.to_owned());
    Config::from_text_and_settings(None, &[device].into_iter().chain(settings).collect::<Vec<_>>())
        .expect("the settings are right")
}

/// Returns the uniform workload of a benchmark case, with `requests` requests over all exported pages; `more` are
/// further keys.
fn input(case: &BenchmarkCase, config: &Config, requests: u64, more: &str) -> Input {
    let pages = config.resolve_device(1).expect("presets are possible").logical_pages;
    let spec = format!("uniform:pages={pages},requests={requests}{}{more}", case.workload);
    Input::Workload(Box::new(spec.parse().expect("the workload is right")))
}

/// Replays `input` on the design of a benchmark case to its end, and returns the run record.
fn replay_case(case: &BenchmarkCase, config: &Config, input: &Input) -> RunRecord {
    let plan = Plan::new(config, input).expect("the workload fits");
    let record = plan.run(case.design, &mut |_| Continue(())).expect("the run succeeds");
    assert!(!record.partial, "{:?}", record.partial_reason);
    record
}

/// Runs a benchmark case through the replay driver; `more` are further keys of the workload's specification.
fn run_through_replay_driver(case: &BenchmarkCase, more: &str) -> CaseResult {
    let config = config(case, case.settings.iter());
    let record = replay_case(case, &config, &input(case, &config, case.million_requests * 1_000_000, more));
    // A mixed workload counts its requests.
    let operations = record.host_page_writes + record.host_page_reads;
    CaseResult {
        writes_per_second: operations as f64 / record.cpu_seconds,
        write_amplification: record.write_amplification,
        peak_rss_bytes: record.peak_rss_bytes,
        physical_pages: record.device.physical_pages,
    }
}

/// Runs a benchmark case with Poisson arrivals at 60 % of the rate that the device sustains with 256 requests in
/// flight.
fn run_in_open_loop(case: &BenchmarkCase) -> CaseResult {
    let of_device = case.settings.iter().filter(|setting| setting.starts_with("device."));
    let config = config(case, of_device.chain(DEEP_QUEUE_EVENT_SETTINGS));
    let record = replay_case(case, &config, &input(case, &config, 500_000, ""));
    let rate = 0.6 * record.trace.requests as f64 / record.timing.device_s;
    run_through_replay_driver(case, &format!(",rate={rate:.0},arrival=poisson"))
}

/// Runs a benchmark case by calling the device directly, without the replay driver.
fn run_directly_on_device(case: &BenchmarkCase) -> CaseResult {
    let config = config(case, case.settings.iter());
    let resolved = config.resolve_device(1).expect("presets are possible");
    let parts = config.design_parts(case.design, &resolved).expect("the design exists");
    process::reset_peak_rss();
    let physical_pages = resolved.geometry.pages();
    let nvram_bytes = parts.total_nvram_bytes(&resolved.geometry, resolved.logical_pages);
    let nand = SimNand::new(resolved.geometry, parts.needed_retained_page_fields()).with_nvram(nvram_bytes);
    let mut device = Device::new(nand, resolved.logical_pages, &parts, DeviceOptions::default())
        .expect("presets leave spare space");
    precondition::construct_steady_state(&mut device, mix_bits(1), &mut |_, _| Continue(()))
        .expect("the device is empty")
        .is_break();
    let before = process::thread_cpu_seconds();
    write_uniformly(&mut device, case.million_requests * 1_000_000);
    let seconds = process::thread_cpu_seconds() - before;
    CaseResult {
        writes_per_second: device.ftl().stats().host_page_writes as f64 / seconds,
        write_amplification: device.ftl().stats().write_amplification(),
        peak_rss_bytes: process::peak_rss_bytes(),
        physical_pages,
    }
}

/// Writes `writes` pages at uniformly random addresses to the device, in batches of 128 pages.
fn write_uniformly(device: &mut Device, writes: u64) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let pages = device.ftl().logical_pages() as u64;
    let mut batch = [Lpn(0); 128];
    for _ in 0..writes / batch.len() as u64 {
        batch.fill_with(|| Lpn(uniform_below(&mut random, pages) as u32));
        let (_, outcome) = device.write_pages_without_content(&batch);
        outcome.expect("the device has room");
    }
}

/// Measures the speed of this machine: nanoseconds of one read-modify-write at a random place of 256 MiB.
fn measure_reference_access_ns() -> f64 {
    /// Number of read-modify-writes that are timed.
    const REFERENCE_ACCESSES: u32 = 20_000_000;
    let mut memory = vec![1_u32; 64 << 20];
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let length = memory.len() as u64;
    let before = process::thread_cpu_seconds();
    for _ in 0..REFERENCE_ACCESSES {
        let place = uniform_below(&mut random, length) as usize;
        memory[place] = memory[place].wrapping_mul(3);
    }
    let seconds = process::thread_cpu_seconds() - before;
    black_box(&memory);
    seconds * 1e9 / f64::from(REFERENCE_ACCESSES)
}

/// Runs a benchmark case as often as it demands, and returns the results of its fastest run.
fn measure(case: &BenchmarkCase) -> CaseResult {
    let once = |_| match case.request_submission {
        RequestSubmission::Replay => run_through_replay_driver(case, ""),
        RequestSubmission::OpenLoop => run_in_open_loop(case),
        RequestSubmission::DirectToDevice => run_directly_on_device(case),
    };
    (0..case.repeats)
        .map(once)
        .max_by(|a, b| a.writes_per_second.total_cmp(&b.writes_per_second))
        .expect("every case runs once at least")
}

fn main() {
    let (sizes, mut wanted): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|word| word.parse::<u64>().is_ok());
    let once = wanted.iter().any(|word| word == "once");
    wanted.retain(|word| word != "once");
    let size = sizes.first().and_then(|size| size.parse().ok());
    if wanted.iter().any(|name| name == "list") {
        for case in CASES {
            println!("{}", case.name);
        }
        return;
    }
    println!(
        "{:23} {:>8} {:>9} {:>9} {:>8} {:>9} {:>9}",
        "case", "M ops/s", "ns/op", "WA", "RSS MiB", "B/page", "ref ns"
    );
    for case in CASES.iter().filter(|case| wanted.is_empty() || wanted.iter().any(|name| name == case.name)) {
        let reference = if once { f64::NAN } else { measure_reference_access_ns() };
        let repeats = if once { 1 } else { case.repeats };
        let figures = measure(&BenchmarkCase {
            million_requests: size.unwrap_or(case.million_requests),
            repeats,
            ..*case
        });
        println!(
            "{:23} {:8.2} {:9.1} {:9.4} {:8} {:9.2} {:9.1}",
            case.name,
            figures.writes_per_second / 1e6,
            1e9 / figures.writes_per_second,
            figures.write_amplification,
            figures.peak_rss_bytes >> 20,
            figures.peak_rss_bytes as f64 / figures.physical_pages as f64,
            reference
        );
    }
}
