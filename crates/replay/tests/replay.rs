//! Tests of the replay driver as a whole: from an input through a design to a run record.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;

use common::{
    SMALL_DEVICE, generated_input, requests_of, run_input, run_on_small_device, run_workload,
    small_device_config,
};
use wearwell::address::RemapMode;
use wearwell::data::{ContentDescriptor, Fingerprint};
use wearwell_replay::data_table::Cell;
use wearwell_replay::input::Input;
use wearwell_replay::record::{Latency, RunRecord, SeriesPoint};
use wearwell_replay::replay::{Plan, ReplayError, RunPhase};
use wearwell_replay::report::Comparison;
use wearwell_replay::sweep::SweepResults;
use wearwell_trace::{CsvWriter, NativeWriter, Op, OpenOptions, Request, TraceWriter};

use crate::common;

/// Designs (kinds of FTL) on which the runs of several tests are repeated.
const DESIGNS: [&str; 3] = ["page-map", "recyclable", "dftl"];

/// Returns the record with zeros in the fields that depend on the machine that runs the simulation: CPU times and
/// memory.
fn without_machine_dependent_figures(mut record: RunRecord) -> RunRecord {
    (record.cpu_seconds, record.precondition_cpu_seconds, record.peak_rss_bytes) = (0.0, 0.0, 0);
    record
}

/// Returns the sum of the counts of all causes.
fn sum_of_counts(counts: &std::collections::BTreeMap<String, u64>) -> u64 {
    counts.values().sum()
}

/// Returns the count of one cause; 0 if it is absent.
fn count_of_cause(counts: &std::collections::BTreeMap<String, u64>, cause: &str) -> u64 {
    counts.get(cause).copied().unwrap_or(0)
}

/// Checks that a measured value differs from the expected one by at most the share `tolerance`.
#[track_caller]
fn assert_close(measured: f64, expected: f64, tolerance: f64) {
    let error = (measured / expected - 1.0).abs();
    assert!(error <= tolerance, "{measured}, expected {expected}: off by {error:.6}");
}

/// Checks sums in the record of a run without a write buffer: for example, programs by cause add up to all programs.
#[track_caller]
fn assert_counts_add_up(record: &RunRecord) {
    assert_eq!(record.programs, sum_of_counts(&record.programs_by_cause));
    assert_eq!(record.reads, sum_of_counts(&record.reads_by_cause));
    assert_eq!(record.erases, sum_of_counts(&record.erases_by_cause));
    assert_eq!(
        record.host_page_writes,
        count_of_cause(&record.programs_by_cause, "host") + record.recycled_writes
    );
    assert_eq!(
        count_of_cause(&record.programs_by_cause, "gc"),
        count_of_cause(&record.reads_by_cause, "gc"),
        "copies"
    );
    let amplification = record.programs as f64 / record.host_page_writes.max(1) as f64;
    assert!((record.write_amplification - amplification).abs() < 1e-12);
    let rising = |a: &u64, b: &u64| a <= b;
    let column = |value: fn(&SeriesPoint) -> u64, last: u64| {
        let values: Vec<u64> = record.series.iter().map(value).chain([last]).collect();
        assert!(values.is_sorted_by(rising), "a counter of the series falls");
    };
    column(|point| point.requests, record.trace.requests);
    column(|point| point.host_page_writes, record.host_page_writes);
    column(|point| point.programs, record.programs);
    column(|point| point.erases, record.erases);
    column(|point| point.recycled_writes, record.recycled_writes);
}

/// Returns the number of pages that the requests with the operation `op` touch, each request counted by itself.
fn count_pages(requests: &[Request], op: Op) -> u64 {
    let pages = |request: &Request| request.pages().end - request.pages().start;
    requests.iter().filter(|request| request.op == op).map(pages).sum()
}

/// Workload of reads, trims and writes of one or four pages, some of parts of pages, at a fixed rate.
const MIXED_WORKLOAD: &str = "zipf:theta=0.9,read=0.3,trim=0.05,size=1:3/4:1,partial=0.2,pages=12000,requests=40000,rate=20000,dup=0.3";

#[test]
fn the_same_run_twice_gives_the_same_record() {
    for design in DESIGNS {
        let settings =
            ["timing.mode=event", "replay.arrival=closed", "precondition.mode=steady", "gc.policy=d-choices"];
        let once = run_on_small_device(&settings, MIXED_WORKLOAD, design);
        let twice = run_on_small_device(&settings, MIXED_WORKLOAD, design);
        assert!(once.erases > 0, "nothing was collected");
        assert_eq!(
            without_machine_dependent_figures(once),
            without_machine_dependent_figures(twice),
            "{design}"
        );
    }
}

#[test]
fn another_seed_gives_another_record() {
    let programs = |seed: &str| {
        let settings = ["precondition.mode=steady", "gc.policy=d-choices", seed];
        run_on_small_device(&settings, MIXED_WORKLOAD, "page-map").programs
    };
    assert_ne!(programs("replay.seed=1"), programs("replay.seed=2"));
}

#[test]
fn recorded_page_counts_add_up_and_match_the_requests() {
    let requests = requests_of(MIXED_WORKLOAD);
    for design in DESIGNS {
        let record = run_on_small_device(&["precondition.mode=fill"], MIXED_WORKLOAD, design);
        assert_counts_add_up(&record);
        assert!(!record.partial);
        assert_eq!(record.trace.requests, 40_000);
        assert_eq!(record.host_page_writes, count_pages(&requests, Op::Write), "{design}");
        assert_eq!(record.host_page_reads, count_pages(&requests, Op::Read), "{design}");
        assert!(record.host_page_trims > 0 && record.host_page_trims <= count_pages(&requests, Op::Trim));
        assert_eq!(record.recycled_writes > 0, design == "recyclable");
        assert_eq!(record.programs_by_cause.contains_key("translation"), design == "dftl");
    }
}

/// Bug: with a point after every 399 / 200 = 1 requests (rounded down), 399 requests gave 399 points.
#[test]
fn the_series_of_a_record_has_at_most_two_hundred_points() {
    for requests in [1, 199, 200, 201, 399, 40_001] {
        let record = run_on_small_device(&[], &format!("uniform:pages=1000,requests={requests}"), "page-map");
        assert!(record.series.len() <= 200, "{} points of {requests} requests", record.series.len());
        assert!(record.series.len() as u64 >= requests.min(100));
    }
}

// Time.

/// Time of a read on the idle small device: flash read (tR) and transfer of a page, microseconds.
const IDLE_READ_US: f64 = 45.0 + 10.24;
/// Workload of single-page reads at a fixed rate, so low that reads do not queue.
const READ_WORKLOAD: &str = "uniform:write=0,read=1,pages=10000,requests=5000,rate=1000";

/// Checks that the median and the largest latency are equal, and so in one bucket of the latency histogram.
#[expect(clippy::float_cmp, reason = "one bucket has one value")]
fn assert_all_latencies_are_equal(latency: &Latency) {
    assert_eq!(latency.p50, latency.max);
}

#[test]
fn a_read_of_an_idle_device_takes_tr_and_the_transfer() {
    for arrival in ["open", "think"] {
        let settings = ["timing.mode=event", "precondition.mode=fill", &format!("replay.arrival={arrival}")];
        let read = run_on_small_device(&settings, READ_WORKLOAD, "page-map").latency_us.read;
        assert_eq!(read.count, 5000);
        // The histogram keeps three digits of a latency.
        assert_all_latencies_are_equal(&read);
        assert_close(read.p50, IDLE_READ_US, 1e-3);
        assert_close(read.mean, IDLE_READ_US, 1e-3);
    }
}

#[test]
fn one_read_at_a_time_keeps_the_device_busy_without_a_gap() {
    for mode in ["event", "timeline"] {
        let settings = [
            &format!("timing.mode={mode}"),
            "precondition.mode=fill",
            "replay.arrival=closed",
            "replay.queue_depth=1",
        ];
        let record = run_on_small_device(&settings, READ_WORKLOAD, "page-map");
        assert_all_latencies_are_equal(&record.latency_us.read);
        assert_close(record.timing.device_s, 5000.0 * IDLE_READ_US / 1e6, 1e-9);
        // At any time exactly one of the four dies senses a page or holds its data.
        assert_close(record.timing.array_utilisation, 0.25, 1e-6);
    }
}

#[test]
fn controller_overhead_is_added_to_every_read() {
    let settings = ["timing.mode=event", "precondition.mode=fill", "timing.controller_overhead_us=7.5"];
    let read = run_on_small_device(&settings, READ_WORKLOAD, "page-map").latency_us.read;
    assert_close(read.max, IDLE_READ_US + 7.5, 1e-3);
}

#[test]
fn open_loop_runs_at_the_times_of_the_trace_and_closed_loop_at_the_rate_of_the_device() {
    let of = |arrival: &[&str]| {
        let settings = [&["timing.mode=event", "precondition.mode=fill"], arrival].concat();
        run_on_small_device(&settings, READ_WORKLOAD, "page-map")
    };
    let open = of(&[]);
    let last_arrival = open.trace.duration_s;
    assert_close(last_arrival, 4.999, 1e-6);
    assert_close(open.timing.device_s, last_arrival + IDLE_READ_US / 1e6, 1e-9);
    let slow = of(&["replay.time_scale=2"]);
    assert_close(slow.timing.device_s, 2.0 * last_arrival + IDLE_READ_US / 1e6, 1e-9);
    // All requests arrive at time 0: the device works without pause, and the requests queue.
    let rushed = of(&["replay.time_scale=0"]);
    let one = of(&["replay.arrival=closed", "replay.queue_depth=1"]);
    let four = of(&["replay.arrival=closed", "replay.queue_depth=4"]);
    let many = of(&["replay.arrival=closed", "replay.queue_depth=64"]);
    let seconds = [&open, &one, &four, &many].map(|record| record.timing.device_s);
    assert!(seconds.is_sorted_by(|a, b| a > b), "{seconds:?}");
    assert!(rushed.timing.device_s <= many.timing.device_s);
    let means = [&one, &four, &many, &rushed].map(|record| record.latency_us.read.mean);
    assert!(means.is_sorted_by(|a, b| a < b), "{means:?}");
    // Little's law: requests in flight = rate times latency.
    let in_flight = many.latency_us.read.mean / 1e6 * 5000.0 / many.timing.device_s;
    assert_close(in_flight, 64.0, 0.02);
}

/// Regression: a time scale was accepted, without effect, for inputs without times.
#[test]
fn a_time_scale_for_an_input_without_request_times_is_refused() {
    let plan_error = |settings: &[&str], spec: &str| {
        Plan::new(&small_device_config(settings), &generated_input(spec))
            .map(drop)
            .err()
            .map(|e| e.to_string())
    };
    let (untimed, timed) = ("uniform:pages=100,requests=100", "uniform:pages=100,requests=100,rate=10");
    let refused = plan_error(&["replay.time_scale=2"], untimed).expect("the input has no times");
    assert!(
        refused.starts_with("replay.time_scale has no effect, because the requests of uniform:"),
        "{refused}"
    );
    assert_eq!(plan_error(&["replay.time_scale=2"], timed), None);
    assert_eq!(plan_error(&["replay.time_scale=1"], untimed), None, "as the configuration of a record");
}

#[test]
fn think_time_is_kept_after_every_completion() {
    let settings = ["timing.mode=event", "precondition.mode=fill", "replay.arrival=think"];
    let record = run_on_small_device(&settings, READ_WORKLOAD, "page-map");
    assert_close(record.timing.device_s, 4999.0 * 1e-3 + 5000.0 * IDLE_READ_US / 1e6, 1e-9);
}

/// Bug: requests without flash operations complete on arrival and are not reported, and think time was counted from the
/// last reported completion. So the gaps after such requests were lost.
#[test]
fn think_time_is_kept_after_requests_without_flash_operations() {
    for mode in ["event", "timeline"] {
        let settings = [&format!("timing.mode={mode}"), "replay.arrival=think"];
        let trims = "uniform:write=0,trim=1,pages=10000,requests=1000,rate=1000";
        let record = run_on_small_device(&settings, trims, "page-map");
        assert_close(record.timing.device_s, 0.999, 1e-9);
    }
}

/// The first measured request of an aged run arrives at time 0 of the device.
#[test]
fn think_time_starts_with_the_measured_part() {
    let settings =
        ["timing.mode=event", "precondition.mode=aged", "precondition.share=0.5", "replay.arrival=think"];
    let trims = "uniform:write=0,trim=1,pages=10000,requests=1000,rate=1000";
    assert_close(run_on_small_device(&settings, trims, "page-map").timing.device_s, 0.499, 1e-9);
}

#[test]
fn unsorted_arrival_times_do_not_end_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let times = [5_000_000, 1_000_000, 9_000_000, 2_000_000];
    let requests = times.map(|time_ns| Request { time_ns, ..page_write(0, 1) });
    let trace = csv_trace(folder.path(), "back.csv", &requests);
    for arrival in ["open", "closed", "think"] {
        let settings = ["timing.mode=event", &format!("replay.arrival={arrival}")];
        let record = run_input(&small_device_config(&settings), &trace, "page-map");
        assert!(!record.partial);
        assert_eq!(record.latency_us.write.count, 4, "{arrival}");
    }
}

#[test]
fn background_gc_in_idle_time_lowers_write_latency() {
    // Bursts of 100 writes, which keep the device busy for a third of the time.
    let bursts = "uniform:pages=12000,requests=40000,rate=500,arrival=bursty,on_ms=20,off_ms=180";
    let of = |background: &str| {
        let background = format!("gc.background_share={background}");
        let settings = [
            "device.over_provisioning=0.28",
            "timing.mode=event",
            "timing.blocking_gc=true",
            "precondition.mode=steady",
            &background,
        ];
        let record = run_on_small_device(&settings, bursts, "page-map");
        assert_counts_add_up(&record);
        record
    };
    let (without, with) = (of("0"), of("0.12"));
    let (before, after) = (&without.latency_us.write, &with.latency_us.write);
    println!(
        "write latency mean {} -> {} us, p99 {} -> {} us",
        before.mean, after.mean, before.p99, after.p99
    );
    assert!(after.mean < before.mean && after.p99 < before.p99);
    // The price of early collection: its victims have more valid pages.
    assert!(with.write_amplification >= without.write_amplification);
}

#[test]
fn a_device_that_is_never_idle_collects_nothing_in_background() {
    // The gap between two arrivals is long enough for an erase, but the device never answers all earlier requests in
    // it.
    let of = |background: &str, rate: u32| {
        let background = format!("gc.background_share={background}");
        let settings =
            ["device.over_provisioning=0.28", "timing.mode=event", "precondition.mode=steady", &background];
        let load = format!("uniform:pages=12000,requests=20000,rate={rate},arrival=bursty,on_ms=1,off_ms=9");
        let record = run_on_small_device(&settings, &load, "page-map");
        (record.erases, record.programs)
    };
    assert_eq!(of("0", 100_000), of("0.12", 100_000), "more arrives than the device can do");
    assert_ne!(of("0", 100), of("0.12", 100), "there is time to collect early");
}

// Runs that end early.

#[test]
fn an_interrupted_run_is_partial_and_consistent() {
    let input = generated_input("uniform:pages=10000,requests=300000");
    let config = small_device_config(&["precondition.mode=fill"]);
    let plan = Plan::new(&config, &input).unwrap();
    let stop = |progress: wearwell_replay::replay::Progress| {
        if progress.phase == RunPhase::Replay && progress.done_work_units > 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let record = plan.run("page-map", &mut { stop }).unwrap();
    assert!(record.partial);
    assert_eq!(record.partial_reason.as_deref(), Some("interrupted"));
    assert!(record.trace.requests > 0 && record.trace.requests < 300_000);
    assert_eq!(record.host_page_writes, record.trace.requests);
    assert_counts_add_up(&record);
}

/// Counts of a whole and of a partial run differ because of their length, so their ratio would mislead.
#[test]
fn the_ratio_to_a_partial_run_is_blank_in_a_comparison() {
    let spec = "uniform:pages=4000,requests=9000,write=1.0";
    let whole = run_on_small_device(&["precondition.mode=fill"], spec, "page-map");
    let table = |second: RunRecord| Comparison::of_runs(vec![whole.clone(), second]).to_table();
    let row_of = |table: &str| {
        let row =
            table.lines().find(|line| line.starts_with("page programs")).expect("the table has the row");
        row.split_whitespace().skip(2).map(str::to_owned).collect::<Vec<_>>()
    };
    let compared = row_of(&table(whole.clone()));
    assert_eq!((compared.len(), compared[2].as_str()), (3, "1.000"), "figure, figure, ratio");
    let part = RunRecord { partial: true, partial_reason: Some("interrupted".into()), ..whole.clone() };
    assert_eq!(row_of(&table(part)).len(), 2, "two figures and no ratio");
}

/// Returns the page programs in a printed table of one run: all of them, and the sum of the indented lines below.
fn programs_and_sum_of_parts_in_table(table: &str) -> (u64, u64) {
    let count = |line: &str| line.split(' ').next_back().unwrap().replace(',', "").parse::<u64>().unwrap();
    let mut lines = table.lines().skip_while(|line| !line.starts_with("page programs"));
    let all = count(lines.next().expect("the table has the row"));
    (all, lines.take_while(|line| line.starts_with("  ")).map(count).sum())
}

/// Returns the page programs in the data table (CSV) of one run: all of them, and the sum of the columns by cause.
fn programs_and_sum_of_parts_in_csv(comparison: &Comparison) -> (u64, u64) {
    let table = comparison.data_table();
    let (mut all, mut of_causes) = (0, 0);
    for (column, cell) in table.columns().iter().zip(&table.rows()[0]) {
        match (column.title.as_str(), cell) {
            ("programs", &Cell::Whole(count)) => all = count,
            (title, &Cell::Whole(count)) if title.starts_with("programs_") => of_causes += count,
            _ => {}
        }
    }
    (all, of_causes)
}

/// Regression: the printed table and the CSV lacked programs of checkpoints and of head and tail pages, so that the
/// parts of the page programs did not add up.
#[test]
fn printed_lines_and_csv_columns_of_programs_by_cause_add_up_for_every_design() {
    let spec = "zipf:pages=10000,requests=20000,write=0.8+dup:share=0.3,compress=0.5";
    let head_and_tail_pages = [("page-map", "recovery.blocks=head-tail")];
    let designs = wearwell::design::ALL.iter().map(|design| (design.name, "recovery.after_run=true"));
    let mut causes = BTreeSet::new();
    for (design, setting) in designs.chain(head_and_tail_pages) {
        let settings = ["precondition.mode=fill", "recovery.after_run=true", setting];
        let record = run_on_small_device(&settings, spec, design);
        assert!(record.recovery.is_some() && record.programs > 0, "{design}");
        causes.extend(record.programs_by_cause.keys().cloned());
        let expected = (record.programs, record.programs);
        let comparison = Comparison::of_runs(vec![record]);
        let table = comparison.to_table();
        assert_eq!(programs_and_sum_of_parts_in_table(&table), expected, "{design}: {table}");
        assert_eq!(programs_and_sum_of_parts_in_csv(&comparison), expected, "{design}");
    }
    for cause in ["block_metadata", "checkpoint"] {
        assert!(causes.contains(cause), "no run has programs of {cause}: {causes:?}");
    }
    for cause in ["recovery", "scrub"] {
        assert!(!causes.contains(cause), "docs/figures.md says that there are no programs of {cause}");
    }
}

/// A drive that is sized to its input is larger than the input needs if GC needs blocks that so small a share of spare
/// space does not give. It is not larger than needed if the settings ask for its size.
#[test]
fn a_drive_that_low_over_provisioning_makes_much_larger_than_its_input_has_a_note() {
    let layout = [
        "device.channels=2",
        "device.dies_per_channel=1",
        "device.planes_per_die=4",
        "device.pages_per_block=64",
        "device.reserve_blocks=1",
        "precondition.mode=none",
    ];
    for (settings, pages, is_noted) in [
        (&["device.over_provisioning=0.02"][..], 500, true),
        (&["device.over_provisioning=0.5"], 500, false),
        (&["device.over_provisioning=0.02", "device.fit=0.9", "device.logical_pages=20000"], 500, false),
        (&["device.over_provisioning=0.15", "device.fit=0.2"], 100_000, false),
    ] {
        let spec = format!("sequential:pages={pages},requests=1000,write=1.0");
        let record = run_workload(&[&layout[..], settings].concat(), &spec, "page-map");
        let found = record.notes.iter().filter(|note| note.contains("although the input touches")).count();
        assert_eq!(found, usize::from(is_noted), "{settings:?}: {:?}", record.notes);
    }
}

/// Returns two records of one run. In the first, the lifetime is computed from the whole measured part. In the second,
/// it is computed from the last half, as if that half were steady, with 1.8 times the write amplification of the whole.
fn whole_and_steady_records() -> (RunRecord, RunRecord) {
    let spec = "uniform:pages=4000,requests=60000,write=1.0";
    let mut whole = run_on_small_device(&["precondition.mode=fill"], spec, "page-map");
    (whole.lifetime.is_from_steady_part, whole.steady.is_steady) = (false, false);
    let mut steady = whole.clone();
    (steady.lifetime.is_from_steady_part, steady.steady.is_steady) = (true, true);
    whole.lifetime.host_tb_written_until_worn = Some(9.0);
    steady.lifetime.host_tb_written_until_worn = Some(5.0);
    steady.steady.programs = whole.programs * 9 / 10;
    steady.steady.host_bytes = whole.bytes.host_written / 2;
    (whole, steady)
}

/// Returns the lifetime ratio that the table of two runs prints, and whether a sentence says that the ratio is not of
/// the figures shown.
fn lifetime_ratio_and_sentence(runs: [&RunRecord; 2]) -> (String, bool) {
    let table = Comparison::of_runs(runs.map(RunRecord::clone).to_vec()).to_table();
    let row = table.lines().find(|line| line.starts_with("TB written until worn")).unwrap();
    (
        row.split_whitespace().last().unwrap().to_owned(),
        table.contains("\n** ratio of the part in which both"),
    )
}

/// Regression: lifetimes extrapolated from steady parts that began at different requests were divided by each other,
/// which gave two equal runs different lifetimes.
#[test]
fn a_lifetime_ratio_of_runs_with_different_steady_parts_compares_the_common_part() {
    let spec = "uniform:pages=4000,requests=60000,write=1.0";
    let run = run_on_small_device(&["precondition.mode=none"], spec, "page-map");
    let as_if_steady_from = |point: &SeriesPoint| {
        let mut record = run.clone();
        (record.lifetime.is_from_steady_part, record.steady.is_steady) = (true, true);
        record.steady.from_request = point.requests;
        record.steady.programs = record.programs - point.programs;
        record.steady.host_bytes = record.bytes.host_written - point.host_bytes;
        let amplification = record.steady.programs as f64 * 4096.0 / record.steady.host_bytes as f64;
        record.lifetime.host_tb_written_until_worn = Some(9.0 / amplification);
        record
    };
    let (early, late) = (as_if_steady_from(&run.series[20]), as_if_steady_from(&run.series[90]));
    assert_ne!(early.lifetime.host_tb_written_until_worn, late.lifetime.host_tb_written_until_worn);
    let mut twice_the_programs_later = early.clone();
    let later_programs = run.programs - run.series[90].programs;
    twice_the_programs_later.programs += later_programs;
    twice_the_programs_later.bytes.programmed += 4096 * later_programs;
    twice_the_programs_later.steady.programs += later_programs;
    let amplification = twice_the_programs_later.steady.programs as f64 * 4096.0
        / twice_the_programs_later.steady.host_bytes as f64;
    twice_the_programs_later.lifetime.host_tb_written_until_worn = Some(9.0 / amplification);
    for (runs, ratio) in [
        ([&early, &late], "1.000**"),
        ([&late, &early], "1.000**"),
        ([&late, &twice_the_programs_later], "0.500**"),
    ] {
        assert_eq!(lifetime_ratio_and_sentence(runs), (ratio.to_owned(), true));
    }
    assert_eq!(lifetime_ratio_and_sentence([&late, &late]), ("1.000".to_owned(), false));
}

/// Regression: the lifetime of a whole run was divided by that of the steady part of another run, which gave two equal
/// runs different lifetimes.
#[test]
fn a_lifetime_ratio_of_a_steady_and_an_unsteady_run_compares_whole_runs() {
    let (whole, steady) = whole_and_steady_records();
    for unlike in [[&whole, &steady], [&steady, &whole]] {
        assert_eq!(lifetime_ratio_and_sentence(unlike), ("1.000**".to_owned(), true));
    }
    for alike in [[&whole, &whole], [&steady, &steady]] {
        assert_eq!(lifetime_ratio_and_sentence(alike), ("1.000".to_owned(), false));
    }
}

/// Returns the text of a sweep of these runs.
fn sweep_table_of(runs: &[&RunRecord]) -> String {
    let runs = runs.iter().copied().cloned().collect();
    SweepResults { comparison: Comparison::of_runs(runs), failures: Vec::new() }.to_table()
}

/// Bug: a sweep printed the lifetime of a steady part beside that of a whole run without a word, so that the order of
/// the two was wrong.
#[test]
fn a_sweep_shows_lifetime_ratios_of_the_part_that_runs_have_in_common() {
    let (whole, steady) = whole_and_steady_records();
    let table = sweep_table_of(&[&steady, &whole]);
    let row = table.lines().find(|line| line.contains("9.00*")).unwrap();
    assert!(row.ends_with("  1.000**"), "{table}");
    assert!(table.contains("\n** ratio of the part in which both"), "{table}");
    let alike = sweep_table_of(&[&steady, &steady]);
    assert!(alike.lines().any(|line| line.ends_with("  1.000")) && !alike.contains("**"), "{alike}");
}

/// Bug: a sweep printed write amplification in pages only, which ranks drives with unlike pages wrongly.
#[test]
fn a_sweep_of_page_sizes_shows_write_amplification_in_bytes_and_in_pages() {
    let run = |page_bytes: &str| {
        let settings = ["precondition.mode=fill", page_bytes];
        run_on_small_device(&settings, "uniform:pages=8000,requests=9000,write=1.0", "page-map")
    };
    let (small, large) = (run("device.page_bytes=4096"), run("device.page_bytes=16384"));
    let of_bytes = |run: &RunRecord| format!("{:.3}", run.bytes.write_amplification.unwrap());
    let of_pages = |run: &RunRecord| format!("{:.3}", run.write_amplification);
    assert_ne!(of_bytes(&large), of_pages(&large));
    let table = sweep_table_of(&[&small, &large]);
    let has_row = |run| {
        let figures = [of_bytes(run), of_pages(run)];
        table.lines().any(|line| line.split_whitespace().skip(1).take(2).eq(figures.iter()))
    };
    assert!(has_row(&small) && has_row(&large), "{table}");
    let alike = sweep_table_of(&[&small]);
    assert!(alike.lines().take(6).all(|line| !line.contains("bytes")), "{alike}");
}

/// Bug: the text of a sweep had none of the notes on its runs.
#[test]
fn a_sweep_prints_the_notes_on_its_runs_once() {
    let spec = "uniform:pages=4000,requests=3000+dup:share=0.3";
    let run = run_on_small_device(&["precondition.mode=fill"], spec, "recyclable");
    let table = sweep_table_of(&[&run, &run]);
    assert_eq!(table.matches("\nnote: ").count(), run.notes.len(), "{table}");
    assert!(table.contains("content is synthetic"), "{table}");
}

#[test]
fn preconditioning_can_be_interrupted() {
    let input = generated_input("uniform:pages=10000,requests=1000");
    for mode in ["fill", "steady", "constructed"] {
        let config = small_device_config(&[&format!("precondition.mode={mode}")]);
        let plan = Plan::new(&config, &input).unwrap();
        let record = plan.run("page-map", &mut |_| ControlFlow::Break(())).unwrap();
        assert!(record.partial, "{mode}");
        assert_eq!((record.trace.requests, record.programs, record.host_page_writes), (0, 0, 0));
        assert!(record.partial_reason.unwrap().contains("before the first measured request"));
    }
}

#[test]
fn aging_with_a_part_of_the_input_can_be_interrupted() {
    let input = generated_input("uniform:pages=10000,requests=300000");
    let config = small_device_config(&["precondition.mode=aged", "precondition.share=0.9"]);
    let record =
        Plan::new(&config, &input).unwrap().run("page-map", &mut |_| ControlFlow::Break(())).unwrap();
    assert!(record.partial && record.trace.aging_requests > 0);
    assert_eq!((record.trace.requests, record.host_page_writes), (0, 0));
}

/// Makes a write request of `pages` pages from `page` on.
fn page_write(page: u64, pages: u64) -> Request {
    Request { op: Op::Write, offset_bytes: page * 4096, len_bytes: pages * 4096, ..Request::default() }
}

/// Writes requests to a CSV trace file, and returns the file as an input.
fn csv_trace(folder: &Path, name: &str, requests: &[Request]) -> Input {
    let path = folder.join(name);
    let mut writer = CsvWriter::new(std::fs::File::create(&path).unwrap()).unwrap();
    for request in requests {
        writer.write(request).unwrap();
    }
    writer.finish().unwrap();
    Input::Trace { path, options: OpenOptions::default() }
}

/// Writes requests to a trace file in this project's binary format, and returns the file as an input.
fn native_trace(folder: &Path, name: &str, requests: &[Request]) -> Input {
    let path = folder.join(name);
    let mut writer = NativeWriter::new(std::fs::File::create(&path).unwrap(), "made for a test").unwrap();
    for request in requests {
        writer.write(request).unwrap();
    }
    writer.finish().unwrap();
    Input::Trace { path, options: OpenOptions::default() }
}

/// Compresses bytes in the format that a file name's `ending` names.
fn compress_bytes(bytes: &[u8], ending: &str) -> Vec<u8> {
    use std::io::Write;
    match ending {
        "zst" => zstd::encode_all(bytes, 1).unwrap(),
        "gz" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        _ => {
            let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
    }
}

/// Bug: the first pass over a damaged trace counts the requests before the damage. The replay stopped after this number
/// of requests, so it did not notice the damage, and its record was not marked as partial.
#[test]
fn a_truncated_trace_gives_a_partial_record_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let requests = requests_of("uniform:pages=10000,requests=100000");
    csv_trace(folder.path(), "whole.csv", &requests);
    let whole = std::fs::read(folder.path().join("whole.csv")).unwrap();
    for ending in ["zst", "gz", "xz"] {
        let path = folder.path().join(format!("cut.csv.{ending}"));
        let bytes = compress_bytes(&whole, ending);
        std::fs::write(&path, &bytes[..bytes.len() * 6 / 10]).unwrap();
        let input = Input::Trace { path, options: OpenOptions::default() };
        let record = run_input(&small_device_config(&[]), &input, "page-map");
        assert!(record.partial, "{ending}");
        let reason = record.partial_reason.clone().unwrap();
        let done = record.trace.requests;
        assert!(reason.contains(&format!("truncated or corrupt (requests before that: {done})")), "{reason}");
        assert!(done > 10_000 && done < 100_000, "{ending}: {done}");
        assert_eq!(record.host_page_writes, done);
        assert_counts_add_up(&record);
    }
}

#[test]
fn a_request_limit_before_the_damage_of_a_trace_gives_a_complete_record() {
    let folder = tempfile::tempdir().unwrap();
    csv_trace(folder.path(), "whole.csv", &requests_of("uniform:pages=10000,requests=100000"));
    let bytes = compress_bytes(&std::fs::read(folder.path().join("whole.csv")).unwrap(), "zst");
    let path = folder.path().join("cut.csv.zst");
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let input = Input::Trace { path, options: OpenOptions::default() };
    let record = run_input(&small_device_config(&["replay.requests=1000"]), &input, "page-map");
    assert_eq!((record.partial, record.trace.requests), (false, 1000));
}

#[test]
fn skipped_trace_lines_are_counted_in_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let input = csv_trace(folder.path(), "lines.csv", &requests_of("uniform:pages=1000,requests=100"));
    let Input::Trace { path, .. } = &input else { unreachable!() };
    let mut text = std::fs::read_to_string(path).unwrap();
    text.push_str("1,W,nonsense,4096,0,\n2,W,0,4096\n3,X,0,4096,0,\n4,W,0,4096,0,\n");
    std::fs::write(path, text).unwrap();
    let refused = Plan::new(&small_device_config(&[]), &input).unwrap_err().to_string();
    assert!(refused.contains("lines.csv: line 102, column 5"), "{refused}");
    let options = OpenOptions { skips_bad_lines: true, ..OpenOptions::default() };
    let input = Input::Trace { path: path.clone(), options };
    let record = run_input(&small_device_config(&[]), &input, "page-map");
    assert_eq!((record.trace.rejected, record.trace.requests, record.partial), (3, 101, false));
}

#[test]
fn a_worn_out_device_ends_the_run_with_a_partial_record() {
    let settings = ["device.wear_out=true", "device.endurance_cycles=30"];
    let record = run_on_small_device(&settings, "uniform:pages=13000,requests=5000000", "page-map");
    assert!(record.partial);
    let reason = record.partial_reason.clone().unwrap();
    assert!(reason.contains("the device is full"), "{reason}");
    assert!(
        record.trace.requests > 100_000 && record.trace.requests < 5_000_000,
        "{}",
        record.trace.requests
    );
    assert_eq!(record.lifetime.max_erase_count, 30);
    assert_counts_add_up(&record);
}

// Which requests are measured.

#[test]
fn a_run_aged_with_the_first_part_of_the_input_measures_the_rest() {
    let spec = "uniform:pages=12000,requests=80000,size=1:1/2:1";
    let requests = requests_of(spec);
    let record =
        run_on_small_device(&["precondition.mode=aged", "precondition.share=0.25"], spec, "page-map");
    assert_eq!((record.trace.aging_requests, record.trace.requests), (20_000, 60_000));
    assert_eq!(record.host_page_writes, count_pages(&requests[20_000..], Op::Write));
    assert_eq!(record.series.last().unwrap().requests, 60_000);
    assert_counts_add_up(&record);
    // The largest erase count includes the aging part; the mean counts the measured part only.
    assert!(record.lifetime.mean_erases_per_block < record.lifetime.max_erase_count as f64);
}

/// Bug: collections whose operations wait for each other (multi-plane groups) or for another die (superblocks) did not
/// keep pace with host writes. The host was answered up to nine times as fast as the flash could work, and the rest of
/// the copies was made after the last request.
#[test]
fn the_host_is_answered_no_faster_than_the_flash_can_collect() {
    let arrangements: [&[&str]; 8] = [
        &["device.planes_per_die=4"],
        &["device.planes_per_die=4", "timing.multi_plane=true"],
        &["device.superblock_planes=4"],
        &["device.superblock_planes=2", "device.planes_per_die=2", "timing.suspend=true"],
        &["device.planes_per_die=4", "device.superblock_planes=4", "timing.multi_plane=true"],
        // Collection in order of arrival keeps its place although its operations wait for each other.
        &["device.planes_per_die=4", "timing.multi_plane=true", "timing.gc_yields=false"],
        &["device.superblock_planes=4", "timing.gc_yields=false"],
        // Reads of a scan for worn blocks are background work without programs.
        &["wear.static_gap=20", "wear.scan=true"],
    ];
    for arrangement in arrangements {
        let settings = [&["device.preset=auto", "timing.mode=event"], arrangement].concat();
        let record = run_workload(&settings, "uniform:pages=20000,requests=150000,write=1.0", "page-map");
        let answered_s = record.trace.requests as f64 / record.service.requests_per_s.unwrap();
        let work_s = record.timing.device_s;
        assert!(
            answered_s > 0.98 * work_s,
            "{arrangement:?}: answered in {answered_s} s, at work for {work_s} s"
        );
    }
}

/// Bug: the rate was the number of requests per second of the whole run, idle time included. So the stated rate of a
/// drive that was idle for most of a run was far too low.
#[test]
fn the_rate_that_a_drive_can_sustain_leaves_idle_time_out() {
    /// Number of writes that arrive together after a second of silence.
    const OVERWRITES: u64 = 2000;
    /// Nanoseconds in a second.
    const SECOND_NS: u64 = 1_000_000_000;
    // One die per channel, so that no die waits for a channel, and is busy only while it works or transfers.
    let settings = [
        "device.preset=bench-8g",
        "device.channels=4",
        "device.dies_per_channel=1",
        "device.blocks_per_plane=64",
        "device.pages_per_block=64",
        "timing.mode=event",
        "precondition.mode=steady",
    ];
    // One write, a second of silence, and then all other writes at once.
    let time_ns = |number| if number == 0 { 0 } else { SECOND_NS };
    let requests: Vec<Request> = (0..OVERWRITES)
        .map(|number| Request { time_ns: time_ns(number), ..page_write(number * 7919 % 10_000, 1) })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let record = run_input(
        &small_device_config(&settings),
        &csv_trace(folder.path(), "late.csv", &requests),
        "page-map",
    );
    let (read_s, program_s, erase_s, transfer_s) = (45e-6, 400e-6, 3500e-6, 4096.0 / 400e6);
    let busy_s = record.reads as f64 * (read_s + transfer_s)
        + record.programs as f64 * (program_s + transfer_s)
        + record.erases as f64 * erase_s;
    let note =
        record.notes.iter().find(|note| note.contains("many more such requests")).expect("work is left");
    let words = note.rsplit("no more than ").next().unwrap();
    let per_second: f64 = words.strip_suffix(" a second").unwrap().parse().unwrap();
    // The note rounds to whole requests.
    assert_close(per_second, OVERWRITES as f64 / (busy_s / 4.0), 1e-3);
}

/// Bug: a program of garbage collection, which waits for its read, was queued at its die behind the reads of all later
/// victims. So no collection ended before the pages of all victims had been read, and writes waited for hundreds of
/// milliseconds.
#[test]
fn write_latency_stays_low_if_collections_span_planes_and_dies() {
    let p99_us = |arrangement: &[&str]| {
        let settings = [&["device.preset=auto", "device.planes_per_die=4", "timing.mode=event"], arrangement];
        let load = "uniform:pages=20000,requests=40000,read=0.5,arrival=poisson,rate=2500";
        let record = run_workload(&settings.concat(), load, "page-map");
        assert!(!record.service.is_overloaded, "{arrangement:?}");
        record.latency_us.write.p99
    };
    let plain_us = p99_us(&[]);
    for arrangement in [&["timing.multi_plane=true"][..], &["device.superblock_planes=8"]] {
        let us = p99_us(arrangement);
        assert!(us < 3.0 * plain_us, "{arrangement:?}: {us} us, {plain_us} us without");
    }
}

/// Bug: flash operations that the device defers (merges of cold deltas) took no time if they belonged to the end of a
/// run, when the write buffer is written out, or to a collection in idle time.
#[test]
fn every_flash_operation_of_a_timed_run_takes_its_time_on_a_channel() {
    let settings = [
        "device.preset=auto",
        "device.channels=2",
        "device.spare_bytes=128",
        "device.channel_mb_per_s=100",
        "buffer.pages=512",
        "delta.scan_interval_writes=64",
        "gc.background_share=0.3",
    ];
    let load = "zipf:pages=4000,requests=30000,read=0.3,rate=2000,arrival=poisson+dup:share=0.2,compress=0.5,delta=0.4";
    for mode in ["timing.mode=event", "timing.mode=timeline"] {
        for design in ["page-map", "delta", "integrated", "recyclable", "dftl", "wearwell"] {
            let known = settings.into_iter().filter(|key| design == "delta" || !key.starts_with("delta."));
            let settings: Vec<&str> = known.chain([mode]).collect();
            let record = run_workload(&settings, load, design);
            let spare_reads: u64 = record.spare_reads_by_cause.values().sum();
            let transferred_bytes = 4096 * (record.reads - spare_reads + record.programs) + 128 * spare_reads;
            let busy_s = 2.0 * record.timing.channel_utilisation * record.timing.device_s;
            let difference = busy_s / (transferred_bytes as f64 / 100e6) - 1.0;
            assert!(difference.abs() < 1e-6, "{mode}, {design}: busy for {busy_s} s, {difference} too much");
        }
    }
}

/// Regression: the count of compressed pages was negative if preconditioning left pages in the write buffer. These
/// pages moved on to the chunk buffer, and the measured part stored them as whole pages.
#[test]
fn writes_by_stored_form_add_up_to_all_writes_if_the_measured_part_begins_with_a_full_buffer() {
    for pages in 1..10 {
        let buffer = format!("buffer.pages={pages}");
        let settings = ["device.preset=auto", "precondition.mode=aged", &buffer];
        let record = run_workload(&settings, "uniform:pages=300,requests=5,write=1.0", "wearwell");
        let forms = &record.writes_by_form;
        assert_eq!(
            forms.values().sum::<u64>(),
            record.host_page_writes,
            "buffer of {pages} pages: {forms:?}"
        );
    }
}

/// Bug: the number of aging requests was subtracted from the measured ones although they are in another file, and pages
/// that only the aging trace touches were missing from the footprint.
#[test]
fn aging_with_another_trace_measures_the_whole_input() {
    let folder = tempfile::tempdir().unwrap();
    let far = |request: Request| Request { offset_bytes: request.offset_bytes + (1 << 40), ..request };
    let old: Vec<Request> =
        requests_of("uniform:pages=9000,requests=30000,seed=2").into_iter().map(far).collect();
    let new = requests_of("uniform:pages=9000,requests=20000");
    csv_trace(folder.path(), "old.csv", &old);
    let input = csv_trace(folder.path(), "new.csv", &new);
    let aging = format!("precondition.trace={}", folder.path().join("old.csv").display());
    let settings = ["device.preset=auto", "precondition.mode=aged", &aging];
    let record = run_input(&small_device_config(&settings), &input, "page-map");
    assert_eq!((record.trace.aging_requests, record.trace.requests, record.partial), (30_000, 20_000, false));
    assert_eq!(record.host_page_writes, 20_000);
    let distinct: std::collections::HashSet<u64> =
        old.iter().chain(&new).map(|request| request.offset_bytes).collect();
    assert_eq!(record.trace.footprint_pages, distinct.len() as u64);
}

/// Bug: if the trace that ages the drive was too large for it, the input was said to be too large.
#[test]
fn an_aging_trace_that_is_too_large_is_not_taken_for_the_input() {
    let folder = tempfile::tempdir().unwrap();
    let far: Vec<Request> = (0..100).map(|k| page_write(k + 1_000_000, 1)).collect();
    let near: Vec<Request> = (0..100).map(|k| page_write(k, 1)).collect();
    csv_trace(folder.path(), "far.csv", &far);
    let input = csv_trace(folder.path(), "near.csv", &near);
    let aging = format!("precondition.trace={}", folder.path().join("far.csv").display());
    let config = small_device_config(&["replay.addresses=exact", "precondition.mode=aged", &aging]);
    let refused = Plan::new(&config, &input).unwrap_err().to_string();
    assert!(
        refused.starts_with("the input or the aging trace (precondition.trace) is too large"),
        "{refused}"
    );
}

#[test]
fn a_run_that_ends_at_its_request_limit_counts_as_complete() {
    for (limit, expected) in [(1, 1), (31, 31), (1000, 1000), (50_000, 40_000)] {
        let limit = format!("replay.requests={limit}");
        let record = run_on_small_device(&[&limit], MIXED_WORKLOAD, "page-map");
        assert_eq!((record.trace.requests, record.partial), (expected, false));
        assert_counts_add_up(&record);
    }
}

// Addresses.

#[test]
fn addresses_beyond_the_device_are_compacted_and_noted() {
    let folder = tempfile::tempdir().unwrap();
    let requests: Vec<Request> = (0..2000).map(|k| page_write(k % 1000 * 1_000_000, 1)).collect();
    let input = csv_trace(folder.path(), "far.csv", &requests);
    let record = run_input(&small_device_config(&["device.preset=auto"]), &input, "page-map");
    assert_eq!((record.trace.footprint_pages, record.host_page_writes), (1000, 2000));
    assert!(record.notes.iter().any(|note| note.contains("compacted")), "{:?}", record.notes);
    let exact = small_device_config(&["replay.addresses=exact"]);
    let refused = Plan::new(&exact, &input).unwrap_err();
    assert!(matches!(refused, ReplayError::Config(_)), "{refused}");
    assert!(
        refused.to_string().starts_with("the input is too large: the addresses of the input reach up to"),
        "{refused}"
    );
}

/// Regression: with exact addresses, pages of different devices at the same address silently became one page.
#[test]
fn exact_addresses_of_several_devices_are_refused_if_pages_coincide() {
    let folder = tempfile::tempdir().unwrap();
    let of_device = |device, page| Request { device, ..page_write(page, 2) };
    let exact = small_device_config(&["replay.addresses=exact"]);
    let together = csv_trace(folder.path(), "together.csv", &[of_device(0, 8), of_device(1, 9)]);
    let refused = Plan::new(&exact, &together).unwrap_err().to_string();
    assert!(refused.contains("several devices") && refused.contains("replay.addresses=compact"), "{refused}");
    let compact = small_device_config(&["replay.addresses=compact"]);
    assert_eq!(run_input(&compact, &together, "page-map").trace.footprint_pages, 4);
    let apart = csv_trace(folder.path(), "apart.csv", &[of_device(0, 8), of_device(1, 10)]);
    assert!(Plan::new(&exact, &apart).is_ok(), "no page of one device is a page of the other");
}

#[test]
fn addresses_within_the_device_are_not_compacted() {
    let folder = tempfile::tempdir().unwrap();
    let input = csv_trace(folder.path(), "near.csv", &requests_of("uniform:pages=10000,requests=1000"));
    let record = run_input(&small_device_config(&[]), &input, "page-map");
    assert!(record.notes.is_empty(), "{:?}", record.notes);
}

/// Bug: a run ended at a trim beyond the device, although file systems trim the whole disk when they are created.
#[test]
fn a_trim_beyond_the_device_does_not_end_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let whole_disk = Request { op: Op::Trim, len_bytes: 1 << 42, ..Request::default() };
    let input = csv_trace(folder.path(), "mkfs.csv", &[page_write(0, 8), whole_disk, page_write(4, 8)]);
    let record = run_input(&small_device_config(&[]), &input, "page-map");
    assert_eq!((record.partial, record.trace.requests), (false, 3));
    assert_eq!((record.host_page_writes, record.host_page_trims), (16, 12));
}

#[test]
fn an_input_larger_than_the_device_is_refused_before_it_runs() {
    let input = generated_input("uniform:pages=1000000,requests=10");
    let refused = Plan::new(&small_device_config(&[]), &input).unwrap_err().to_string();
    assert!(
        refused.contains("reach up to 3,906.2 MiB (4,096,000,000 bytes)") && refused.contains("device.fit"),
        "{refused}"
    );
    let fitted = run_input(&small_device_config(&["device.fit=1"]), &input, "page-map");
    assert!(!fitted.partial);
    assert!(fitted.notes.is_empty(), "generated addresses are never compacted");
}

/// Bug: a run that only read had a write reduction of 1, as if all writes had been saved.
#[test]
fn a_run_without_host_writes_saves_no_writes() {
    let record = run_on_small_device(&[], "uniform:read=1,pages=10000,requests=100", "page-map");
    assert_eq!((record.host_page_reads, record.host_page_writes), (100, 0));
    assert_eq!((record.write_reduction, record.write_amplification), (0.0, 0.0));
}

// Devices.

#[test]
fn the_write_buffer_absorbs_overwrites() {
    let hot = "uniform:pages=10,requests=10000";
    let record = run_on_small_device(&["buffer.pages=100"], hot, "page-map");
    assert_eq!((record.buffer_absorbed_writes, record.host_page_writes), (9990, 10));
    assert_eq!(
        (record.programs, record.bytes.buffered),
        (10, 0),
        "what is left at the end is written out and counted"
    );
    let record = run_on_small_device(&["buffer.pages=100", "buffer.keep_at_end=true"], hot, "page-map");
    assert_eq!((record.host_page_writes, record.bytes.buffered), (0, 10 * 4096));
    let mixed = "zipf:theta=0.9,pages=12000,requests=50000";
    for policy in ["fifo", "slru"] {
        let policy = format!("buffer.policy={policy}");
        let record = run_on_small_device(&["buffer.pages=500", &policy], mixed, "page-map");
        assert!(record.buffer_absorbed_writes > 5000);
        assert_eq!(record.buffer_absorbed_writes + record.host_page_writes, 50_000);
        let kept = ["buffer.pages=500", "buffer.keep_at_end=true", &policy];
        let kept = run_on_small_device(&kept, mixed, "page-map");
        // Written pages that were neither absorbed nor passed on to the FTL are still in the buffer.
        assert_eq!(kept.buffer_absorbed_writes + kept.host_page_writes + 500, 50_000);
    }
}

/// Bug: a write whose page was trimmed while it was in the buffer was in no count.
#[test]
fn a_write_whose_buffered_page_is_trimmed_counts_as_absorbed() {
    let folder = tempfile::tempdir().unwrap();
    let trim = Request { op: Op::Trim, ..page_write(0, 3) };
    let requests = [page_write(0, 4), page_write(3, 1), trim, page_write(9, 1)];
    let input = csv_trace(folder.path(), "trimmed.csv", &requests);
    let record = run_input(&small_device_config(&["buffer.pages=100"]), &input, "page-map");
    assert_eq!((record.buffer_absorbed_writes, record.host_page_writes), (4, 2));
}

/// Bug: a loss of power set the count to 0, so that subtracting the writes absorbed before the measured part panicked.
#[test]
fn a_loss_of_power_keeps_the_count_of_absorbed_writes() {
    let settings = ["buffer.pages=100", "precondition.mode=aged", "recovery.after_requests=1000"];
    let record = run_on_small_device(&settings, "uniform:pages=10,requests=10000", "page-map");
    // Up to ten pages are buffered when power is lost; their last writes reach neither FTL nor count.
    let counted = record.buffer_absorbed_writes + record.host_page_writes;
    assert!((4990..=5000).contains(&counted), "{counted}");
}

/// Bug: writes that the buffer absorbed in the aging part were counted as measured ones.
#[test]
fn absorbed_writes_are_counted_in_the_measured_part_only() {
    let settings = ["buffer.pages=100", "precondition.mode=aged", "precondition.share=0.5"];
    let record = run_on_small_device(&settings, "uniform:pages=10,requests=10000", "page-map");
    // The buffer is written out before the measured part, so the first write to each of the ten pages is not
    // absorbed.
    assert_eq!((record.buffer_absorbed_writes, record.host_page_writes), (4990, 10));
}

/// Bug: preconditioning that waits for a collection never ended, because the buffer absorbed every write.
#[test]
fn steady_preconditioning_is_refused_if_the_write_buffer_absorbs_everything() {
    let settings = ["buffer.pages=100000", "precondition.mode=steady", "device.blocks_per_plane=16"];
    let input = generated_input("uniform:pages=100,requests=10");
    let config = small_device_config(&settings);
    let plan = Plan::new(&config, &input).unwrap();
    let refused = plan.run("page-map", &mut |_| ControlFlow::Continue(())).unwrap_err().to_string();
    assert!(refused.contains("buffer.pages"), "{refused}");
}

/// Settings of a small drive with pages of 16 KiB: the preset with 8 planes instead of 64, and small blocks.
const SMALL_TLC: [&str; 6] = [
    "device.preset=tlc-1t",
    "device.channels=2",
    "device.dies_per_channel=2",
    "device.blocks_per_plane=32",
    "device.pages_per_block=32",
    "device.over_provisioning=0.28",
];

#[test]
fn small_writes_to_large_pages_cause_read_modify_write() {
    // 25,600 pages of 4 KiB are 6,400 of 16 KiB.
    let small = "uniform:pages=25600,requests=20000";
    let settings = [&SMALL_TLC[..], &["precondition.mode=fill", "buffer.pages=0"]].concat();
    for design in DESIGNS {
        let record = run_workload(&settings, small, design);
        let partial = (record.bytes.partial_page_writes, record.bytes.completed_page_writes);
        assert_eq!(partial, (20_000, 20_000), "the record says what small writes cost");
        assert_eq!((record.device.page_bytes, record.host_page_writes), (16_384, 20_000));
        assert_eq!(count_of_cause(&record.reads_by_cause, "host"), 20_000, "each write completes its page");
        assert_eq!(record.host_page_reads, 0, "and the host did not ask for it");
        assert_counts_add_up(&record);
    }
    let whole = "sequential:pages=25600,size=4,requests=6400";
    let record = run_workload(&settings, whole, "page-map");
    assert_eq!((record.host_page_writes, count_of_cause(&record.reads_by_cause, "host")), (6400, 0));
    assert_eq!(record.bytes.partial_page_writes, 0);
}

/// Bug: on pages of another size than 4 KiB, the sizes of contents were lost, so that compression and delta encoding
/// saved nothing.
#[test]
fn compressed_sizes_of_contents_apply_to_pages_of_any_size() {
    let packed = |settings: &[&str], spec: &str| {
        let settings = [settings, &["parts.content=compress"]].concat();
        let record = run_workload(&settings, spec, "page-map");
        assert_eq!(record.notes.iter().find(|note| note.contains("unknown")), None, "{spec}");
        (record.writes_by_form["packed"], count_of_cause(&record.programs_by_cause, "content"))
    };
    // Four pages of 10 % each are one page of flash: 6,400 pages of 16 KiB are 1,600.
    let whole = "sequential:pages=25600,size=4,requests=6400+unique:compress=0.1";
    let unbuffered = [&SMALL_TLC[..], &["buffer.pages=0"]].concat();
    assert_eq!(packed(&unbuffered, whole), (6_400, 1_600));
    assert_eq!(packed(&SMALL_TLC, whole), (6_400, 1_600));
    // The write buffer joins successive parts of a page.
    let parts = "sequential:pages=25600,requests=25600+unique:compress=0.1";
    assert_eq!(packed(&SMALL_TLC, parts), (6_400, 1_600));
    let small_pages = ["device.preset=bench-8g", "device.blocks_per_plane=64", "device.page_bytes=1024"];
    let load = "sequential:pages=6400,requests=6400+unique:compress=0.1";
    assert_eq!(packed(&small_pages, load), (25_600, 6_400));
}

#[test]
fn delta_sizes_of_4_kib_contents_are_used_for_larger_device_pages() {
    let twice = "sequential:pages=25600,size=4,requests=12800+unique:delta=0.2";
    let settings = [&SMALL_TLC[..], &["parts.content=delta", "delta.hot_accesses=1"]].concat();
    let record = run_workload(&settings, twice, "page-map");
    let deltas = record.writes_by_form.get("delta").copied().unwrap_or(0);
    assert!(deltas > 3_000, "{:?}", record.writes_by_form);
    assert_eq!(record.notes.iter().find(|note| note.contains("unknown")), None);
}

/// The compressed size and delta size of a device page are unknown if a part of the page had to be read from flash, or
/// if a part was overwritten while the page was in the write buffer.
#[test]
fn a_note_states_how_many_large_pages_have_an_unknown_content_size() {
    let content = "unique:compress=0.15,delta=0.2";
    let notes_of = |settings: &[&str], load: &str| {
        let spec = format!("{load}+{content}");
        let notes = run_workload(&[&SMALL_TLC[..], settings].concat(), &spec, "page-map").notes;
        notes.into_iter().filter(|note| note.contains("unknown")).collect::<Vec<_>>()
    };
    let small = "uniform:pages=25600,requests=20000";
    let notes = notes_of(&["parts.content=compress", "buffer.pages=0"], small);
    let said = "20000 of 20000 page writes were stored with an unknown compressed size, although contents have sizes: a page \
                of 16384 bytes has one only if it is written whole, with known sizes of all parts of 4096 bytes";
    assert_eq!(notes, [said]);
    assert_eq!(notes_of(&["parts.content=delta+compress", "buffer.pages=0"], small).len(), 2);
    assert_eq!(notes_of(&["parts.content=dedup", "buffer.pages=0"], small).len(), 0, "no size is used");
    // Requests of six parts write a whole page and a half.
    let notes = notes_of(
        &["parts.content=compress", "buffer.pages=0"],
        "sequential:pages=25600,size=6,requests=4000",
    );
    assert!(notes.len() == 1 && notes[0].starts_with("4000 of 8000 page writes"), "{notes:?}");
    assert_eq!(notes_of(&["parts.content=compress"], "sequential:pages=25600,size=6,requests=4000").len(), 0);
}

/// Bug: four successive writes of 4 KiB programmed four pages of 16 KiB instead of one.
#[test]
fn the_write_buffer_merges_successive_small_writes_to_a_large_page() {
    let row = "sequential:pages=25600,requests=25600";
    let settings = [&SMALL_TLC[..], &["precondition.mode=fill"]].concat();
    let joined = run_workload(&settings, row, "page-map");
    assert_eq!(joined.config.buffer.pages, Some(4 * 8), "four pages for each of eight planes");
    assert_eq!((joined.host_page_writes, joined.bytes.partial_page_writes), (6_400, 0));
    assert_eq!(joined.buffer_absorbed_writes, 25_600 - 6_400);
    let apart = run_workload(&[&settings[..], &["buffer.pages=0"]].concat(), row, "page-map");
    assert_eq!((apart.host_page_writes, apart.bytes.partial_page_writes), (25_600, 25_600));
    // With units of 4 KiB, the map and the page validity bitmap have four times as many entries; the block table
    // keeps its size.
    let maps = ["l2p table", "page validity bitmap"].map(|name| apart.ram_bytes_by_structure[name]);
    assert_eq!(apart.bytes.ram_of_4k_map, Some(apart.ram_bytes + 3 * maps.iter().sum::<u64>()));
    let small_pages = run_workload(&[], "sequential:pages=3000,requests=100", "page-map");
    assert_eq!((small_pages.config.buffer.pages, small_pages.bytes.ram_of_4k_map), (Some(0), None));
}

#[test]
fn equal_content_of_large_pages_is_deduplicated() {
    let folder = tempfile::tempdir().unwrap();
    let write = |page: u64, ids: std::ops::Range<u64>| Request {
        content: ids.map(|id| ContentDescriptor::of_fingerprint(Fingerprint(id))).collect(),
        ..page_write(page, 4)
    };
    // The first content dies and is written again elsewhere, which revives it. A page with the same parts in another
    // order has another content.
    let requests = [write(0, 1..5), write(0, 11..15), write(8, 2..6), write(16, 1..5)];
    let input = native_trace(folder.path(), "large.wwt", &requests);
    let settings = [&SMALL_TLC[..], &["buffer.pages=0"]].concat();
    let record = run_input(&common::config_of_settings(&settings), &input, "recyclable");
    assert_eq!((record.host_page_writes, record.recycled_writes), (4, 1));
}

#[test]
fn address_compaction_packs_neighbours_into_large_pages() {
    let folder = tempfile::tempdir().unwrap();
    let requests: Vec<Request> = (0..1000).map(|k| page_write(k * 1_000_000, 1)).collect();
    let input = csv_trace(folder.path(), "far.csv", &requests);
    let settings = [&SMALL_TLC[..], &["buffer.pages=0"]].concat();
    let record = run_input(&common::config_of_settings(&settings), &input, "page-map");
    assert_eq!((record.partial, record.host_page_writes), (false, 1000));
    // Four neighbours share a page, so that three of four writes read the page and program it again.
    assert_eq!(count_of_cause(&record.reads_by_cause, "host"), 750);
}

#[test]
fn superblocks_are_erased_whole() {
    let spec = "uniform:pages=12000,requests=60000";
    for design in DESIGNS {
        let record =
            run_on_small_device(&["device.superblock_planes=4", "precondition.mode=fill"], spec, design);
        assert_eq!(record.device.superblock_planes, 4);
        assert!(record.erases > 0 && record.erases.is_multiple_of(4), "{}", record.erases);
        assert_counts_add_up(&record);
    }
    let settings = ["device.superblock_planes=4", "precondition.mode=constructed"];
    assert!(!run_on_small_device(&settings, spec, "page-map").partial);
}

#[test]
fn factory_bad_blocks_cost_spare_space() {
    let spec = "uniform:pages=11700,requests=60000";
    let of = |share: &str, mode: &str| {
        let share = format!("device.factory_bad_share={share}");
        let record = run_on_small_device(
            &["device.over_provisioning=0.4", &share, &format!("precondition.mode={mode}")],
            spec,
            "page-map",
        );
        assert_counts_add_up(&record);
        assert!(!record.partial);
        record.write_amplification
    };
    assert!(of("0.08", "steady") > 1.05 * of("0", "steady"));
    // Bug: pools that had more bad blocks than the average had no place for their share of the pages, and the run
    // failed.
    assert_close(of("0.08", "constructed"), of("0.08", "steady"), 0.05);
}

/// Bug: the rated cycles of factory-bad blocks, which nothing can use, counted as endurance.
#[test]
fn lifetime_figures_leave_out_the_cycles_of_factory_bad_blocks() {
    let of = |share: &str| {
        let settings = ["device.over_provisioning=0.4", share];
        run_on_small_device(&settings, "uniform:pages=11700,requests=60000", "page-map")
    };
    let (all_good, some_bad) = (of("device.factory_bad_share=0"), of("device.factory_bad_share=0.1"));
    let bad = {
        let config = small_device_config(&["device.factory_bad_share=0.1"]);
        config.factory_bad_blocks(&config.resolve_device(1).unwrap().geometry).len()
    };
    assert!(bad > 10, "{bad} blocks are bad");
    assert!(some_bad.lifetime.min_erase_count > 0, "every good block is erased");
    assert_close(some_bad.lifetime.mean_erases_per_block, some_bad.erases as f64 / (256 - bad) as f64, 1e-9);
    let written_per_erase =
        |record: &RunRecord| record.lifetime.host_tb_written_until_worn.unwrap() * record.write_amplification;
    let good_share = (256 - bad) as f64 / 256.0;
    assert_close(written_per_erase(&some_bad) / written_per_erase(&all_good), good_share, 0.02);
}

/// Bug: the duration of a trace was the time of its last request. If that time was too early, the lifetime in years and
/// the rates were wrong by orders of magnitude. With think time, the gap after a decreasing time was counted twice.
#[test]
fn a_time_that_runs_backwards_changes_neither_duration_nor_think_time() {
    let folder = tempfile::tempdir().unwrap();
    let request = |k: u64, time_ms: u64| Request { time_ns: time_ms * 1_000_000, ..page_write(k % 500, 1) };
    let sorted: Vec<Request> = (0..1000).map(|k| request(k, 10 * k)).collect();
    let mut late = sorted.clone();
    late[999].time_ns = 1_000_000;
    let mut lagging = sorted.clone();
    lagging.iter_mut().skip(1).step_by(2).for_each(|request| request.time_ns /= 2);
    let of = |name: &str, requests: &[Request], settings: &[&str]| {
        let input = csv_trace(folder.path(), name, requests);
        run_input(&small_device_config(settings), &input, "page-map")
    };
    let [in_order, with_late] =
        [("sorted.csv", &sorted), ("late.csv", &late)].map(|(name, requests)| of(name, requests, &[]));
    assert_close(with_late.trace.duration_s, in_order.trace.duration_s, 0.01);
    let think = ["timing.mode=event", "replay.arrival=think"];
    let device_s = of("lagging.csv", &lagging, &think).lifetime.elapsed_s;
    assert_close(device_s, of("sorted.csv", &sorted, &think).lifetime.elapsed_s, 0.05);
}

/// Returns how many requests have a time before that of an earlier request, according to the record's note on times
/// that run backwards; 0 without the note.
fn requests_with_decreasing_time(record: &RunRecord) -> u64 {
    let note = record.notes.iter().find_map(|note| note.strip_prefix("times run backwards: "));
    note.map_or(0, |note| note.split(' ').next().unwrap().parse().unwrap())
}

/// Bug: if one request has a time far in the future, the times of all requests after it are earlier, but the note
/// counted only the request directly after it.
#[test]
fn every_request_after_a_time_outlier_counts_in_the_note_on_decreasing_times() {
    let folder = tempfile::tempdir().unwrap();
    let request = |k: u64| Request { time_ns: k * 1_000_000, ..page_write(k % 500, 1) };
    let with_outlier_at = |outlier: usize| {
        let mut requests: Vec<Request> = (0..1000).map(request).collect();
        requests[outlier].time_ns = 3_600_000_000_000;
        csv_trace(folder.path(), &format!("outlier-{outlier}.csv"), &requests)
    };
    for timing in ["timing.mode=none", "timing.mode=event"] {
        for (outlier, later) in [(0, 999), (300, 699), (999, 0)] {
            let record = run_input(&small_device_config(&[timing]), &with_outlier_at(outlier), "page-map");
            assert_eq!(requests_with_decreasing_time(&record), later, "{timing}, outlier at {outlier}");
        }
    }
}

/// Bug: the note also counted the first request of the input if its time is before the last time of the ageing trace,
/// and decreasing times within the ageing trace. Requests of the ageing trace are not replayed at their times.
#[test]
fn times_of_requests_that_age_the_drive_are_not_noted_as_running_backwards() {
    let folder = tempfile::tempdir().unwrap();
    let request = |k: u64| Request { time_ns: k * 1_000_000, ..page_write(k % 500, 1) };
    let sorted: Vec<Request> = (0..1000).map(request).collect();
    let mut unsorted = sorted.clone();
    unsorted[100].time_ns = 0;
    let [sorted, unsorted] = [("sorted.csv", sorted), ("unsorted.csv", unsorted)]
        .map(|(name, requests)| csv_trace(folder.path(), name, &requests));
    let aged_by = |trace: &str| format!("precondition.trace={}", folder.path().join(trace).display());
    let count = |input: &Input, settings: &[&str]| {
        let settings = [&["precondition.mode=aged"], settings].concat();
        requests_with_decreasing_time(&run_input(&small_device_config(&settings), input, "page-map"))
    };
    assert_eq!(count(&sorted, &[&aged_by("sorted.csv")]), 0);
    assert_eq!(count(&sorted, &[&aged_by("unsorted.csv")]), 0);
    assert_eq!(count(&unsorted, &[&aged_by("sorted.csv")]), 1);
    assert_eq!(count(&unsorted, &["precondition.share=0.5"]), 0);
    assert_eq!(count(&unsorted, &["precondition.share=0.05"]), 1);
}

/// Bug: if power was to be lost after the last request, or after more requests than there are, the run ended without a
/// power loss and without an error.
#[test]
fn a_power_loss_after_the_last_request_happens_and_a_later_one_is_refused() {
    let spec = "uniform:pages=2000,requests=3000";
    let at_end = run_on_small_device(&["recovery.after_requests=3000"], spec, "geckoftl");
    assert!(at_end.recovery.is_some(), "power was lost after request 3000 of 3000");
    let config = small_device_config(&["recovery.after_requests=3001"]);
    let input = generated_input(spec);
    let refused =
        Plan::new(&config, &input).unwrap().run("geckoftl", &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(refused.to_string().contains("replayed requests is only 3000"), "{refused}");
}

/// Bug: a checkpoint of a lazy map stores eight bytes in the spare area of a page. If the spare area is smaller, the
/// run panicked, unless recovery was a backward scan.
#[test]
fn checkpoints_without_spare_bytes_are_refused() {
    let config = small_device_config(&["device.spare_bytes=4", "recovery.by=battery"]);
    let input = generated_input("uniform:pages=3000,requests=3000");
    let refused =
        Plan::new(&config, &input).unwrap().run("lazyftl", &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(refused.to_string().contains("device.spare_bytes is 4"), "{refused}");
}

#[test]
fn write_zeroes_requests_are_executed_as_trim_or_write_as_configured() {
    let folder = tempfile::tempdir().unwrap();
    let zero = Request { op: Op::Zero, ..page_write(2, 4) };
    let input = csv_trace(folder.path(), "zero.csv", &[page_write(0, 8), zero]);
    let of = |zeroes: &str| {
        run_input(&small_device_config(&[&format!("replay.zeroes={zeroes}")]), &input, "page-map")
    };
    let (trim, write) = (of("trim"), of("write"));
    assert_eq!((trim.host_page_writes, trim.host_page_trims), (8, 4));
    assert_eq!((write.host_page_writes, write.host_page_trims), (12, 0));
    // Bug: zeros that were written counted as page writes but not as bytes of the host, so that lifetimes were too short.
    assert_eq!((trim.bytes.host_written, write.bytes.host_written), (8 * 4096, 12 * 4096));
    assert_eq!(write.bytes.write_amplification, Some(write.write_amplification));
}

/// Bug: of a write-zeroes request that is executed as a trim, the parts of pages kept their old data, which the host
/// must not read again.
#[test]
fn zeroed_parts_of_pages_are_written_also_if_whole_pages_are_deallocated() {
    let folder = tempfile::tempdir().unwrap();
    let zero =
        |offset_bytes, len_bytes| Request { op: Op::Zero, offset_bytes, len_bytes, ..Request::default() };
    // Page 1 from its middle, pages 2 and 3, and a quarter of page 4; then parts of page 5, and of page 9, a hole.
    let requests = [
        page_write(0, 8),
        zero(4096 + 2048, 2048 + 8192 + 1024),
        zero(5 * 4096 + 512, 512),
        zero(9 * 4096, 512),
        page_write(15, 1),
    ];
    let input = csv_trace(folder.path(), "zero_parts.csv", &requests);
    for settings in [&[][..], &["buffer.pages=4"]] {
        let record = run_input(&small_device_config(settings), &input, "page-map");
        assert_eq!((record.host_page_trims, record.bytes.partial_page_writes), (2, 3), "{settings:?}");
        assert_eq!(record.bytes.host_written, 9 * 4096 + 2048 + 1024 + 512);
    }
}

/// Bug: a trim from byte 1 to byte 4095 deallocated the page, although its first byte kept its data.
#[test]
fn trims_deallocate_only_pages_that_they_cover_and_the_others_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let trim =
        |offset_bytes, len_bytes| Request { op: Op::Trim, offset_bytes, len_bytes, ..Request::default() };
    let requests = [page_write(0, 8), trim(1, 4095), trim(4096, 3585), trim(3 * 4096 - 512, 3 * 4096)];
    let input = csv_trace(folder.path(), "trim_parts.csv", &requests);
    let record = run_input(&small_device_config(&[]), &input, "page-map");
    assert_eq!(record.host_page_trims, 2);
    let note = record.notes.iter().find(|note| note.contains("that trims covered only in part"));
    assert!(note.is_some_and(|note| note.contains("only in part: 4")), "{:?}", record.notes);
}

/// Bug: a drive that fell 20 s behind in a burst, and had caught up at the end, was said to keep up, without a note on
/// its latencies.
#[test]
fn a_queue_that_grows_for_a_time_is_noted_though_it_is_empty_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let burst = (0..40_000).map(|k| Request { time_ns: k * 1000, ..page_write(k % 500, 1) });
    let calm = (0..20).map(|k| Request { time_ns: (k + 1) * 1_000_000_000, ..page_write(k, 1) });
    let input = csv_trace(folder.path(), "burst.csv", &burst.chain(calm).collect::<Vec<_>>());
    let record = run_input(&small_device_config(&["timing.mode=event"]), &input, "page-map");
    assert!(record.latency_us.write.max > 1e6 && !record.service.is_overloaded, "{:?}", record.latency_us);
    assert!(record.notes.iter().any(|note| note.starts_with("for a time, requests came faster")));
}

/// Bug: the samples of a run with a power cut had two spacings, because each part had 200 of its own, so that windows
/// of equally many samples were not windows of equally many requests.
#[test]
fn counters_are_sampled_at_equal_distances_also_if_power_is_lost_early() {
    let input = generated_input("uniform:pages=3000,requests=20000");
    let record = run_input(&small_device_config(&["recovery.after_requests=250"]), &input, "page-map");
    let requests: Vec<u64> = record.series.iter().map(|point| point.requests).collect();
    assert!(requests.iter().copied().eq((1..=200).map(|k| k * 100)), "{requests:?}");
}

/// Bug: a run with a power cut ended after as many requests as were counted in the input before its damage, as if it
/// were complete.
#[test]
fn damage_at_the_end_of_the_input_is_reported_also_after_a_power_cut() {
    let folder = tempfile::tempdir().unwrap();
    let requests: Vec<Request> = (0..2000).map(|k| page_write(k % 500, 1)).collect();
    let input = native_trace(folder.path(), "damaged.wwt", &requests);
    let file = std::fs::OpenOptions::new().write(true).open(folder.path().join("damaged.wwt")).unwrap();
    file.set_len(file.metadata().unwrap().len() - 40).unwrap();
    let reason_of = |settings: &[&str]| {
        let record = run_input(&small_device_config(settings), &input, "page-map");
        assert!(record.partial, "{settings:?}");
        record.partial_reason.unwrap()
    };
    assert_eq!(reason_of(&["recovery.after_requests=100"]), reason_of(&[]));
}

/// Bug: a host write waited for the last read of the wear scan, which had nothing to do with it and was queued behind a
/// whole collection.
#[test]
fn reads_of_the_wear_scan_delay_host_writes_hardly() {
    let mean_write_us = |settings: &[&str]| {
        let settings =
            [&["timing.mode=event", "wear.static_gap=1000", "precondition.mode=in-use"], settings].concat();
        let spec = "uniform:pages=10000,requests=20000,write=0.5,rate=100";
        run_on_small_device(&settings, spec, "page-map").latency_us.write.mean
    };
    let (table, scan) = (mean_write_us(&[]), mean_write_us(&["wear.scan=true"]));
    println!("mean write latency {table:.1} us with erase counts in RAM, {scan:.1} us with a scan");
    assert!(table > 0.0 && scan < 1.1 * table, "{scan:.1} us with a scan, {table:.1} us without");
}

#[test]
fn results_based_on_a_content_model_carry_a_note() {
    let spec = "uniform:pages=10000,requests=20000";
    let plain = run_on_small_device(&[], spec, "page-map");
    assert!(plain.notes.is_empty(), "nothing depends on content");
    let modelled = run_on_small_device(&["content.model=dup:share=0.5"], spec, "recyclable");
    assert!(modelled.notes.iter().any(|note| note.contains("rest on a model")), "{:?}", modelled.notes);
    assert!(modelled.recycled_writes > 0);
    let own = run_on_small_device(&["content.model=dup:share=0.5"], &format!("{spec},dup=0.3"), "recyclable");
    let has_no_effect = |note: &String| note.contains("content.model has no effect");
    assert_eq!(own.notes.iter().filter(|note| has_no_effect(note)).count(), 1, "{:?}", own.notes);
    // Bug: the note was missing if the model belongs to the workload.
    assert!(own.notes.iter().any(|note| note.contains("rest on a model")), "{:?}", own.notes);
    let without_mechanism = run_on_small_device(&[], &format!("{spec},dup=0.3"), "page-map");
    assert!(without_mechanism.notes.is_empty(), "{:?}", without_mechanism.notes);
}

/// Bug: a content model was refused as without effect if the input has contents, even if the trace that ages the device
/// has none. Also, the error for an input without writes stated that the input has the content of each write.
#[test]
fn a_content_model_is_of_use_if_only_the_aging_trace_lacks_contents() {
    let folder = tempfile::tempdir().unwrap();
    csv_trace(folder.path(), "old.csv", &requests_of("uniform:pages=9000,requests=30000,seed=2"));
    let input = generated_input("uniform:pages=9000,requests=2000,dup=0.3");
    let refusal = |settings: &[&str]| {
        let config = small_device_config(&[&["content.model=dup:share=0.5"], settings].concat());
        let plan = Plan::new(&config, &input).expect("the input fits");
        plan.check_designs_and_content_model(&["recyclable".to_owned()]).map_err(|error| error.to_string())
    };
    let aging = format!("precondition.trace={}", folder.path().join("old.csv").display());
    let aged = ["precondition.mode=aged", &aging];
    assert_eq!(refusal(&aged), Ok(()));
    assert!(refusal(&[]).is_err_and(|sentence| sentence.contains("this input has no write without content")));
    let config = small_device_config(&[&["content.model=dup:share=0.5"], &aged[..]].concat());
    let notes = run_input(&config, &input, "recyclable").notes;
    assert!(notes.iter().any(|note| note.contains("rest on a model")), "{notes:?}");
}

#[test]
fn timeline_and_event_engine_agree_while_no_operation_queues() {
    let of = |mode: &str| {
        let settings = [&format!("timing.mode={mode}"), "precondition.mode=fill"];
        run_on_small_device(&settings, READ_WORKLOAD, "page-map").latency_us
    };
    assert_eq!(of("timeline"), of("event"));
}

#[test]
fn the_small_test_device_has_few_blocks() {
    let resolved = small_device_config(&[]).resolve_device(1).unwrap();
    assert_eq!((resolved.geometry.pages(), resolved.geometry.allocation_pools()), (16_384, 4));
    assert_eq!(SMALL_DEVICE.len(), 5);
}

#[test]
fn remaps_on_a_design_without_remaps_are_counted_and_executed_as_reads_writes_and_trims() {
    let folder = tempfile::tempdir().unwrap();
    let remap = |mode, target: u64, source: u64, pages: u64| Request {
        op: Op::Remap(mode),
        remap_source_offset_bytes: source * 4096,
        ..page_write(target, pages)
    };
    let requests = [
        Request {
            content: (1..5).map(|id| ContentDescriptor::of_fingerprint(Fingerprint(id))).collect(),
            ..page_write(0, 4)
        },
        remap(RemapMode::Copy, 8, 0, 4),
        remap(RemapMode::Relocate, 16, 0, 2),
        // The relocation deallocated page 0, so copying it deallocates the target.
        remap(RemapMode::Copy, 9, 0, 1),
    ];
    let input = native_trace(folder.path(), "remaps.wwt", &requests);
    for design in DESIGNS {
        let record = run_input(&small_device_config(&[]), &input, design);
        assert_eq!((record.partial, record.host_page_remaps), (false, 7), "{design}");
        assert_eq!((record.host_page_writes, record.host_page_reads), (10, 7), "{design}");
        assert_eq!(record.host_page_trims, 3, "{design}: two sources and a target");
        assert_counts_add_up(&record);
    }
}

/// A page of the drive is as large as four pages of the trace. In the first remap, source and target begin at different
/// offsets in their drive pages, so that nothing can be remapped. The second remap has one whole drive page between two
/// parts of pages. After the third, a relocation, the one whole drive page of its source is trimmed.
#[test]
fn remaps_of_parts_of_device_pages_are_copied() {
    let folder = tempfile::tempdir().unwrap();
    let remap = |mode, target: u64, source: u64, pages| Request {
        op: Op::Remap(mode),
        remap_source_offset_bytes: source * 4096,
        ..page_write(target, pages)
    };
    let requests = [
        page_write(0, 16),
        remap(RemapMode::Copy, 20, 3, 4),
        remap(RemapMode::Copy, 35, 3, 6),
        remap(RemapMode::Relocate, 60, 7, 7),
    ];
    let input = native_trace(folder.path(), "parts.wwt", &requests);
    let settings = [&SMALL_TLC[..], &["buffer.pages=0"]].concat();
    for design in ["page-map", "remap"] {
        let record = run_input(&common::config_of_settings(&settings), &input, design);
        assert!(!record.partial, "{design}: {:?}", record.partial_reason);
        // Pages of the drive that the targets 20..24, 35..41 and 60..67 touch.
        assert_eq!(record.host_page_remaps, 1 + 3 + 2, "{design}");
        assert_eq!(record.host_page_trims, 1, "{design}: pages 8..12 of the source 7..14");
        let noted = record.notes.iter().any(|note| note.ends_with("executed as reads and writes: 3"));
        let is_unknown = record.notes.iter().any(|note| note.contains("their contents count as new"));
        assert!(noted != is_unknown && is_unknown == (design == "remap"), "{design}: {:?}", record.notes);
        assert_counts_add_up(&record);
    }
}

#[test]
fn trace_phases_have_separate_records_and_cause_no_requests() {
    let folder = tempfile::tempdir().unwrap();
    let phase = Request { op: Op::PhaseMarker, ..Request::default() };
    let requests =
        [page_write(0, 3), phase.clone(), page_write(0, 4), page_write(8, 4), phase, page_write(0, 1)];
    let input = native_trace(folder.path(), "phases.wwt", &requests);
    let record = run_input(&small_device_config(&["timing.mode=event"]), &input, "page-map");
    let written: Vec<u64> = record.phases.iter().map(|phase| phase.host_page_writes).collect();
    assert!(
        record.phases.iter().map(|phase| phase.requests).eq([1, 4, 6]),
        "requests before each, phases too"
    );
    assert_eq!(written, [3, 11, 12]);
    assert!(record.phases.is_sorted_by(|a, b| a.device_s <= b.device_s) && record.phases[2].device_s > 0.0);
    assert_eq!(record.latency_us.write.count, 4);
    let without = run_input(
        &small_device_config(&[]),
        &csv_trace(folder.path(), "none.csv", &[page_write(0, 3)]),
        "page-map",
    );
    assert!(without.phases.is_empty());
}

/// Bug: 1,000 requests without times were all sent at time 0, which gave mean latencies of a second.
#[test]
fn an_input_without_times_runs_in_closed_loop() {
    let spec = "uniform:pages=10000,requests=1000";
    let record = run_on_small_device(&["timing.mode=event"], spec, "page-map");
    let asked = ["timing.mode=event", "replay.arrival=closed", "replay.queue_depth=32"];
    let closed = run_on_small_device(&asked, spec, "page-map");
    assert_eq!(record.service.queue_depth, Some(32));
    assert_eq!(record.latency_us, closed.latency_us);
    assert!(record.service.requests_per_s.is_some_and(|rate| rate > 0.0) && !record.service.is_overloaded);
}

/// Bug: if requests arrive faster than the drive can answer them, latencies grow with the length of the run, and most
/// timing modes did not report the overload.
#[test]
fn an_overloaded_run_is_recognised_by_its_queue_at_the_end() {
    let of = |mode: &str, rate: u32| {
        let settings = [&format!("timing.mode={mode}"), "precondition.mode=fill"];
        let spec = format!("uniform:write=0,read=1,pages=10000,requests=20000,rate={rate}");
        run_on_small_device(&settings.map(|text| text as &str), &spec, "page-map")
    };
    for mode in ["event", "timeline"] {
        let (calm, overloaded) = (of(mode, 1000), of(mode, 500_000));
        assert!(!calm.service.is_overloaded, "{mode}");
        assert!(overloaded.service.is_overloaded, "{mode}: {:?}", overloaded.service);
        assert!(overloaded.notes.iter().any(|note| note.starts_with("overload")), "{mode}");
    }
}

/// Bug: a request of no bytes was answered at once and counted in the latencies.
#[test]
fn requests_of_no_bytes_are_in_no_latency() {
    let folder = tempfile::tempdir().unwrap();
    let read = |pages: u64| Request { op: Op::Read, ..page_write(1, pages) };
    let requests = [page_write(1, 1), page_write(2, 0), read(0), read(1), read(0)];
    let input = csv_trace(folder.path(), "empty.csv", &requests);
    for mode in ["timeline", "event"] {
        let timing = format!("timing.mode={mode}");
        let record = run_input(&small_device_config(&[&timing]), &input, "page-map");
        assert_eq!((record.latency_us.read.count, record.latency_us.write.count), (1, 1), "{mode}");
        assert_eq!(record.trace.requests, 5);
        assert!(record.notes.iter().any(|note| note.starts_with("requests of no bytes: 3;")), "{mode}");
    }
}

/// Bug: trims of pages that the input does not use otherwise were called requests of no bytes, although addresses are
/// compacted and these pages do not exist.
#[test]
fn trims_of_pages_that_the_input_does_not_use_are_noted_as_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let trim = |page: u64, pages: u64| Request { op: Op::Trim, ..page_write(page, pages) };
    let part_of_page = Request { len_bytes: 512, ..trim(50, 1) };
    let requests = [page_write(1, 2), trim(40, 5), trim(2, 4), part_of_page, page_write(9, 0)];
    let input = csv_trace(folder.path(), "trims.csv", &requests);
    let record = run_input(&small_device_config(&["replay.addresses=compact"]), &input, "page-map");
    let has = |text: &str| record.notes.iter().any(|note| note.contains(text));
    assert!(has("8 trimmed pages are left out, because"), "{:?}", record.notes);
    assert!(has("trims of which nothing is left: 2"), "{:?}", record.notes);
    assert!(has("requests of no bytes: 1;"), "{:?}", record.notes);
}

/// Bug: a trim read the translation page of each of its logical pages whose map entry was not cached, so that a trim of
/// 100,000 pages kept a drive with a map on flash busy for seconds.
#[test]
fn a_trim_reads_each_translation_page_once_but_for_evictions() {
    let folder = tempfile::tempdir().unwrap();
    let trim = Request { op: Op::Trim, ..page_write(0, 3000) };
    let writes: Vec<Request> = (0..3000).map(|page| page_write(page, 1)).collect();
    let settings = ["mapping.cache_entries=512", "precondition.mode=none"];
    for design in ["dftl", "wearwell"] {
        let translation_reads = |name: &str, requests: &[Request]| {
            let input = csv_trace(folder.path(), name, requests);
            let record = run_input(&small_device_config(&settings), &input, design);
            record.reads_by_cause.get("translation").copied().unwrap_or(0)
        };
        let without = translation_reads("writes.csv", &writes);
        let with = translation_reads("trim.csv", &[&writes[..], std::slice::from_ref(&trim)].concat());
        assert!(with > without && with - without < 60, "{design}: {without}, {with}");
    }
}

/// Bug: a trace of fingerprints without sizes made compression and deltas look useless, without a word.
#[test]
fn contents_without_sizes_are_noted_on_designs_that_use_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let of_sizes = |compressed_bytes, delta_bytes| {
        let content = ContentDescriptor { fingerprint: Fingerprint(9), compressed_bytes, delta_bytes };
        let requests = [1, 2, 1].map(|page| Request { content: vec![content], ..page_write(page, 1) });
        let input = csv_trace(folder.path(), "contents.csv", &requests);
        ["page-map", "delta", "integrated"].map(|design| {
            let record = run_input(&small_device_config(&[]), &input, design);
            record.notes.iter().filter(|note| note.starts_with("no content of the input has a")).count()
        })
    };
    let unknown = ContentDescriptor::UNKNOWN_SIZE;
    assert_eq!(of_sizes(unknown, unknown), [0, 1, 1]);
    assert_eq!(of_sizes(1000, unknown), [0, 1, 0]);
    assert_eq!(of_sizes(unknown, 1000), [0, 0, 1]);
}

/// With the content model `recorded`, the contents of a trace stay as they are, and compression and deltas work with
/// sizes that the model draws.
#[test]
fn a_model_draws_the_sizes_of_contents_that_a_trace_identifies_without_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let requests: Vec<_> = requests_of("uniform:pages=3000,requests=20000,dup=0.3");
    let input = csv_trace(folder.path(), "contents.csv", &requests);
    let of_model = |model: &str, design: &str| {
        let settings = if model.is_empty() { vec![] } else { vec![model] };
        run_input(&small_device_config(&settings), &input, design)
    };
    let sized = "content.model=recorded:compress=0.4,delta=0.2";
    let [without, with] = ["", sized].map(|model| of_model(model, "recyclable"));
    assert!(with.recycled_writes > 0);
    assert_eq!(without.recycled_writes, with.recycled_writes, "the contents are those of the trace");
    for design in ["integrated", "delta"] {
        let [without, with] = ["", sized].map(|model| of_model(model, design));
        let programs = |record: &RunRecord| record.programs;
        assert!(programs(&with) * 10 < programs(&without) * 9, "{design}");
        let is_noted = |record: &RunRecord, text: &str| record.notes.iter().any(|note| note.contains(text));
        assert!(is_noted(&without, "--content recorded:compress=MEAN,delta=MEAN"), "{:?}", without.notes);
        let of_model =
            "rest on a model: sizes of content are synthetic: as the input records it, and unique where it";
        assert!(is_noted(&with, of_model), "{:?}", with.notes);
        assert!(!is_noted(&with, "no content of the input has a"), "{:?}", with.notes);
    }
}

/// A trace with all sizes gets none from the content model `recorded`. Its first writes have no delta size, as there is
/// nothing from which they differ, so that this shows only in the run.
#[test]
fn a_model_of_sizes_that_draws_none_is_noted_as_unused() {
    let folder = tempfile::tempdir().unwrap();
    let mut written = std::collections::HashSet::new();
    let requests = (0..2000_u64).map(|k| {
        let (page, unknown) = (k * 7 % 900, ContentDescriptor::UNKNOWN_SIZE);
        let delta_bytes = if written.insert(page) { unknown } else { 300 };
        let content =
            ContentDescriptor { fingerprint: Fingerprint(k + 1), compressed_bytes: 900, delta_bytes };
        Request { content: vec![content], ..page_write(page, 1) }
    });
    let input = csv_trace(folder.path(), "sized.csv", &requests.collect::<Vec<_>>());
    let of_model = |model: &str| {
        let settings: Vec<&str> = if model.is_empty() { vec![] } else { vec![model] };
        run_input(&small_device_config(&settings), &input, "delta")
    };
    let (plain, modelled) = (of_model(""), of_model("content.model=recorded:compress=0.9,delta=0.9"));
    assert_eq!((plain.programs, &plain.writes_by_form), (modelled.programs, &modelled.writes_by_form));
    let is_noted = |text: &str| modelled.notes.iter().any(|note| note.contains(text));
    assert!(
        is_noted("content.model has no effect: all contents of the input had the sizes"),
        "{:?}",
        modelled.notes
    );
    assert!(!is_noted("rest on a model"), "{:?}", modelled.notes);
}

/// Bug: a trace that overwrites nothing got the advice to take the content model that it had.
#[test]
fn a_trace_without_overwrites_gets_no_advice_to_draw_sizes_again() {
    let folder = tempfile::tempdir().unwrap();
    let content = |id| vec![ContentDescriptor::of_fingerprint(Fingerprint(id))];
    let requests: Vec<_> =
        (0..50).map(|page| Request { content: content(page + 1), ..page_write(page, 1) }).collect();
    let input = csv_trace(folder.path(), "once.csv", &requests);
    let notes_of = |settings: &[&str]| run_input(&small_device_config(settings), &input, "delta").notes;
    let is_noted = |notes: &[String], text: &str| notes.iter().any(|note| note.contains(text));
    assert!(is_noted(&notes_of(&[]), "(--content recorded:"));
    let modelled = notes_of(&["content.model=recorded:delta=0.2"]);
    assert!(!is_noted(&modelled, "--content recorded:"), "{modelled:?}");
    assert!(is_noted(&modelled, "or replaced no other content"), "{modelled:?}");
}

/// On a drive of 64 planes, a plane that receives all translation pages limits the drive. A run with a time model says
/// so, and with striping of metadata the drive answers more than twice as many requests.
#[test]
fn a_run_notes_that_metadata_on_one_plane_at_a_time_limits_the_drive() {
    let run = |design: &str, settings: &[&str]| {
        let common = ["device.preset=bench-8g", "replay.arrival=closed"];
        run_workload(&[&common, settings].concat(), "uniform:pages=1000000,requests=30000,write=1.0", design)
    };
    let is_noted =
        |record: &RunRecord| record.notes.iter().any(|note| note.contains("metadata_striping=true"));
    let small_cache = "dftl.cache_entries=4096";
    let of_one_plane = run("dftl", &["timing.mode=event", small_cache]);
    let striped = run("dftl", &["timing.mode=event", small_cache, "device.metadata_striping=true"]);
    assert!(is_noted(&of_one_plane), "{:?}", of_one_plane.notes);
    assert!(!is_noted(&striped), "{:?}", striped.notes);
    assert!(!is_noted(&run("page-map", &["timing.mode=event"])));
    assert!(!is_noted(&run("dftl", &["timing.mode=none", small_cache])));
    let rate = |record: &RunRecord| record.service.requests_per_s.expect("a time model");
    assert!(rate(&striped) > 2.0 * rate(&of_one_plane), "{} {}", rate(&striped), rate(&of_one_plane));
}

/// The content model `recorded` is refused where it would draw nothing: without contents in the input, or if all contents
/// have the sizes that it draws.
#[test]
fn a_model_of_sizes_is_refused_where_it_has_no_effect() {
    let refusal = |model: &str, spec: &str| {
        let config = small_device_config(&[&format!("content.model={model}")]);
        let input = Input::of_generator_spec(spec).expect("the specification is valid");
        let plan = Plan::new(&config, &input).expect("the input fits");
        plan.check_designs_and_content_model(&["integrated".to_owned()]).map_err(|error| error.to_string())
    };
    let says =
        |refused: Result<(), String>, text: &str| refused.is_err_and(|sentence| sentence.contains(text));
    let load = "uniform:pages=3000,requests=4000";
    assert!(says(refusal("recorded:compress=0.5", load), "this input has no write with content"));
    let with_size = format!("{load}+unique:compress=0.5");
    assert!(says(
        refusal("recorded:compress=0.3", &with_size),
        "this input has no content without the sizes that the model draws"
    ));
    assert_eq!(refusal("recorded:delta=0.3", &with_size), Ok(()));
    assert_eq!(refusal("recorded:compress=0.5", &format!("{load}+unique")), Ok(()));
    assert_eq!(refusal("recorded:compress=0.5", "fiu-mail:scale=0.002"), Ok(()), "a host model");
}

#[test]
fn a_limit_of_requests_beyond_the_input_is_noted() {
    let of_limit = |limit: u64| {
        let limit = format!("replay.requests={limit}");
        run_on_small_device(&[&limit], "uniform:pages=1000,requests=3000", "page-map")
    };
    let is_noted = |record: &RunRecord| record.notes.iter().any(|note| note.contains("only 3000 requests"));
    assert_eq!([2999, 3000, 3001].map(|limit| is_noted(&of_limit(limit))), [false, false, true]);
}

#[test]
fn open_loop_arrival_of_an_input_without_times_adds_a_note() {
    let of_arrival = |arrival: &str| {
        let arrival = format!("replay.arrival={arrival}");
        let spec = "uniform:pages=1000,requests=3000";
        run_on_small_device(&["timing.mode=event", &arrival], spec, "page-map")
    };
    let count =
        |record: &RunRecord, part: &str| record.notes.iter().filter(|note| note.contains(part)).count();
    let open = of_arrival("open");
    assert!(open.service.is_overloaded);
    assert_eq!((count(&open, "arrive at once"), count(&open, "overload")), (1, 0), "{:?}", open.notes);
    assert_eq!(count(&of_arrival("closed"), "arrive at once"), 0);
}

#[test]
fn reads_of_pages_never_written_are_counted() {
    let settings = ["timing.mode=event", "precondition.mode=none"];
    let record = run_on_small_device(&settings, READ_WORKLOAD, "page-map");
    assert_eq!(record.service.unwritten_page_reads, 5000);
    assert!(record.notes.iter().any(|note| note.contains("never written")));
    assert_eq!(record.latency_us.read.count, 0, "no latency is made of reads that nothing was read for");
    let filled =
        run_on_small_device(&["timing.mode=event", "precondition.mode=fill"], READ_WORKLOAD, "page-map");
    assert_eq!(filled.latency_us.read.count, 5000);
    assert_eq!(filled.service.unwritten_page_reads, 0);
}

/// A drive with large blocks that is busy for a fifth of the time. A collection copies 300 of the 512 pages of its
/// victim, and no read waits until all are copied.
#[test]
fn reads_never_wait_for_a_whole_garbage_collection() {
    let settings = [
        "device.preset=tlc-1t",
        "device.blocks_per_plane=48",
        "device.over_provisioning=0.28",
        "timing.mode=event",
        "precondition.mode=constructed",
    ];
    let spec = "uniform:pages=700000,requests=100000,read=0.7,arrival=poisson,rate=10000";
    let record = run_on_small_device(&settings, spec, "page-map");
    assert!(record.erases > 100, "{} blocks were collected", record.erases);
    let (read, write) = (record.latency_us.read, record.latency_us.write);
    println!("reads {} us at p99, {} at most; writes {} and {} us", read.p99, read.max, write.p99, write.max);
    assert!(read.p99 < 2000.0 && read.max < 10_000.0, "{read:?}");
    assert!(write.p99 < 10_000.0, "{write:?}");
}

/// Bug: two successive writes went to the same die, which cost a quarter of the request rate at queue depth 4.
#[test]
fn successive_writes_go_to_different_dies() {
    let of = |striping: &str| {
        let settings = [
            "device.preset=tlc-1t",
            "device.blocks_per_plane=64",
            "timing.mode=event",
            "replay.queue_depth=4",
            "precondition.mode=none",
            "buffer.pages=0",
            striping,
        ];
        let spec = "sequential:pages=20000,requests=2000,size=4";
        run_on_small_device(&settings, spec, "page-map").service.requests_per_s.expect("there is time")
    };
    let (default, planes) = (of("replay.seed=1"), of("device.striping=plane-first"));
    assert!(default > 1.2 * planes, "{default} and {planes} writes a second");
}

/// A full reverse map turns duplicates into writes, and full tables stop all content mechanisms: whoever compares
/// designs has to see that a size, and not the mechanism, decides.
#[test]
fn a_note_says_that_a_full_reverse_map_or_full_content_tables_refused_pages() {
    let workload = "uniform:write=1.0,pages=4000,requests=20000+dup:share=0.9";
    let has_note = |settings: &[&str], design: &str, words: &str| {
        let record = run_workload(settings, workload, design);
        record.notes.iter().any(|note| note.contains(words))
    };
    let of_reverse_map = "because the reverse map had no room for them";
    assert!(has_note(&["remap.size_mib=0.01"], "remap", of_reverse_map));
    assert!(!has_note(&["remap.size_mib=16"], "remap", of_reverse_map));
    let of_tables = "tables.content_bytes_per_page sets the limit";
    assert!(has_note(
        &["tables.content_bytes_per_page=0.001", "tables.content_least_mib=0"],
        "wearwell",
        of_tables
    ));
    assert!(!has_note(&[], "wearwell", of_tables));
}
