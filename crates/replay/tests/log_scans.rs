//! Tests of the time that scans of the reverse-map log cost (Remap-SSD, section 5.2). A collection copies no page
//! before it knows the referrers of its victim's pages, so on a saturated drive the time of all scans adds to the time
//! of the run.

use common::{config_of_settings, generated_input, run_input};
use wearwell_replay::record::RunRecord;

use crate::common;

/// Settings of the Remap-SSD paper's drive (36 GiB), scaled to 1/16: a quarter of the superblocks, a quarter of the
/// pages in each, and a reverse-map log of 120 MB / 16 in NVRAM. A scan of the log takes 6 ms. When a scan starts, each
/// die has at most two programs left to execute, which take much less time than the scan.
const DRIVE_SETTINGS: [&str; 5] = [
    "device.preset=rm-36g",
    "device.blocks_per_plane=144",
    "device.pages_per_block=256",
    "precondition.mode=aged",
    "replay.arrival=closed",
];
/// Workload of single-page writes to random pages.
const LOAD: &str = "uniform:pages=471859,requests=1572864,seed=1";
/// Content model in which contents repeat, so that pages are shared and the reverse map has entries.
const CONTENT_MODEL_SETTING: &str = "content.model=zipf:a=0.2,contents=367002";

/// Runs the design `remap` with a timing engine (`mode`), a time to read NVRAM, and a kind of reverse map (`map`).
fn run_with_reverse_map(mode: &str, read_ns: u32, map: &str) -> RunRecord {
    let timing = [format!("timing.mode={mode}"), format!("timing.nvram_read_ns={read_ns}")];
    let settings =
        [&DRIVE_SETTINGS[..], &[&timing[0], &timing[1], CONTENT_MODEL_SETTING, map, "remap.size_mib=7.5"]]
            .concat();
    let record = run_input(&config_of_settings(&settings), &generated_input(LOAD), "remap");
    assert!(!record.partial, "{:?}", record.partial_reason);
    record
}

/// Returns the device time (simulated time) of a run, seconds.
fn device_time_s(record: &RunRecord) -> f64 {
    record.timing.device_s
}

/// Checks that a reverse-map log in NVRAM lengthens a run by at least 0.9 of the time of its scans, compared with an
/// ideal reverse map.
#[track_caller]
fn assert_log_scans_lengthen_the_run(mode: &str) {
    // The ideal reverse map is not read from NVRAM.
    let opt = run_with_reverse_map(mode, 50, "remap.reverse_map=ideal");
    for read_ns in [50, 500] {
        let log = run_with_reverse_map(mode, read_ns, "remap.reverse_map=nvram-log");
        let same =
            |of: fn(&RunRecord) -> u64| assert_eq!(of(&opt), of(&log), "the runs differ in scans alone");
        same(|record| record.programs);
        same(|record| record.erases);
        let scans_s = log.parts["referrer_scan_bytes"] / 64.0 * f64::from(read_ns) * 1e-9;
        let cost_s = device_time_s(&log) - device_time_s(&opt);
        assert!(scans_s > 0.01 * device_time_s(&opt), "{scans_s} s of scans are too few to measure");
        assert!(cost_s >= 0.9 * scans_s, "{mode}, {read_ns} ns: scans of {scans_s} s cost {cost_s} s");
    }
}

#[test]
fn reverse_map_log_scans_cost_device_time_in_the_event_engine() {
    assert_log_scans_lengthen_the_run("event");
}

#[test]
fn reverse_map_log_scans_cost_device_time_in_the_timeline_engine() {
    assert_log_scans_lengthen_the_run("timeline");
}

/// The scan of only the victim's own segments takes a thousandth of the time of a scan of the whole log.
#[test]
fn nvram_segments_cost_as_little_time_as_the_ideal_reverse_map() {
    let [opt, segments] = ["remap.reverse_map=ideal", "remap.reverse_map=segments"]
        .map(|map| run_with_reverse_map("event", 50, map));
    let cost = device_time_s(&segments) / device_time_s(&opt) - 1.0;
    assert!((-0.01..0.01).contains(&cost), "Remap-SSD costs {cost} of the time of Opt");
}
