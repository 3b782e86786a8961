//! Tests that replay recorded traces through the designs.
//!
//! The bundled trace is always available; it has golden counts, and a change of a count must be explained. The sample
//! traces are not part of the repository (licences, size). `WEARWELL_TRACES` names their directory; without it,
//! `../shared/traces` beside the workspace is tried. If there is none, the tests print a sentence and pass.

use std::path::{Path, PathBuf};

use common::{config_of_settings, run_input};
use wearwell_replay::input::Input;
use wearwell_replay::record::RunRecord;
use wearwell_replay::replay::Plan;
use wearwell_trace::{OpenOptions, TimeUnit, TraceInfo};

use crate::common;

/// Designs (kinds of FTL) on which every trace is replayed.
const DESIGNS: [&str; 3] = ["page-map", "recyclable", "dftl"];

/// Returns the folder of sample traces; `None`, with a printed sentence, if there is none.
fn sample_folder() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let root = std::env::var_os("WEARWELL_TRACES").map_or(beside, PathBuf::from);
    if root.is_dir() {
        return Some(root);
    }
    println!("skipped: no samples in {}; set WEARWELL_TRACES", root.display());
    None
}

/// Returns all compressed traces below a directory, without the sidecar files of captures (page bytes, compressed
/// sizes, delta sizes).
fn traces_in(folder: &Path) -> Vec<PathBuf> {
    let mut traces = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let sidecar = [".pages.zst", ".psz.zst", ".wdelta.zst"].iter().any(|ending| name.ends_with(ending));
        if path.is_dir() {
            traces.extend(traces_in(&path));
        } else if path.extension().is_some_and(|ending| ending == "zst") && !sidecar {
            traces.push(path);
        }
    }
    traces.sort();
    traces
}

/// Makes a trace file an input; times of `MQSim` and `SSDsim` traces are read as nanoseconds.
fn trace_input(path: &Path) -> Input {
    let is_mqsim = path.file_name().unwrap().to_string_lossy().starts_with("mqsim");
    let ssdsim = path.extension().is_some() && path.to_string_lossy().contains(".ascii");
    let time_unit = (is_mqsim || ssdsim).then_some(TimeUnit::Nanoseconds);
    Input::Trace { path: path.to_owned(), options: OpenOptions { time_unit, ..OpenOptions::default() } }
}

/// Returns an input that reads a capture of the sample folder, with page bytes if `reads_payloads` is set; `None`
/// without samples.
fn input_of_capture(name: &str, reads_payloads: bool) -> Option<Input> {
    let path = sample_folder()?.join("captures").join(name).join(format!("{name}.ops.zst"));
    Some(Input::Trace { path, options: OpenOptions { reads_payloads, ..OpenOptions::default() } })
}

/// Checks that every accepted request was replayed, and that the counts of the run agree with those of the trace alone.
fn assert_replayed(record: &RunRecord, info: &TraceInfo) {
    assert!(!record.partial, "{:?}", record.partial_reason);
    assert_eq!(record.trace.rejected, 0);
    assert_eq!(record.trace.requests, info.requests.sum_over_ops());
    assert_eq!(record.host_page_writes, info.pages.write);
    assert_eq!(record.host_page_reads, info.pages.read);
}

#[test]
fn every_sample_trace_replays_on_every_design_without_a_rejected_line() {
    let Some(root) = sample_folder() else { return };
    let traces = traces_in(&root);
    assert!(traces.len() >= 15, "found {} samples only", traces.len());
    for path in traces {
        let input = trace_input(&path);
        let Input::Trace { options, .. } = &input else { unreachable!() };
        let info = TraceInfo::of_file(&path, options).unwrap();
        let config = config_of_settings(&[]);
        let plan = Plan::new(&config, &input).unwrap();
        for design in DESIGNS {
            let record = plan.run(design, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
            println!(
                "{} {design}: write amplification {:.3}, erases {}, recycled {}",
                path.file_name().unwrap().to_string_lossy(),
                record.write_amplification,
                record.erases,
                record.recycled_writes
            );
            assert_replayed(&record, &info);
        }
    }
}

/// Replays a capture twice: contents are identified by the numbers in the capture, or by digests of its page bytes.
/// Numbers and digests must agree on which pages are equal.
#[test]
fn a_replay_of_bytes_recycles_the_same_writes_as_one_of_content_descriptors() {
    let (Some(with), Some(without)) =
        (input_of_capture("w2-git-ext4", true), input_of_capture("w2-git-ext4", false))
    else {
        return;
    };
    let (bytes, descriptors) = (
        run_input(&config_of_settings(&[]), &with, "recyclable"),
        run_input(&config_of_settings(&[]), &without, "recyclable"),
    );
    assert!(!bytes.partial && bytes.recycled_writes > 300, "{}", bytes.recycled_writes);
    assert_eq!(bytes.recycled_writes, descriptors.recycled_writes);
    assert_eq!(bytes.programs_by_cause, descriptors.programs_by_cause);
    assert_eq!(bytes.erases, descriptors.erases);
}

/// Before a page is revived its bytes are compared. Equal digests belong to equal bytes here, so no hit is refused.
#[test]
fn verification_by_bytes_confirms_every_recycling_hit() {
    let Some(with) = input_of_capture("w2-git-ext4", true) else { return };
    let plain = run_input(&config_of_settings(&[]), &with, "recyclable");
    let verified = run_input(&config_of_settings(&["recycle.verify_on_hit=true"]), &with, "recyclable");
    assert_eq!(verified.recycled_writes, plain.recycled_writes);
    assert_eq!(verified.reads_by_cause["content"], verified.recycled_writes);
}

/// Captures that have page bytes only for the pages written first can be replayed to their end.
#[test]
fn captures_with_bytes_of_only_some_pages_replay_to_their_end() {
    for name in ["w4-pgbench-ext4", "w5-cbuild-ext4"] {
        let Some(with) = input_of_capture(name, true) else { return };
        let record = run_input(&config_of_settings(&["replay.requests=3000"]), &with, "recyclable");
        assert_eq!((record.partial, record.trace.requests), (false, 3000));
        assert!(record.host_page_writes > 3000);
    }
}

// The bundled trace.

/// Replays the trace that is part of the repository on a design.
fn run_bundled_trace(design: &str) -> RunRecord {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/pgbench-ext4.wwt");
    // The golden counts are of this drive: 10 % of its pages are never touched, and the blocks that GC keeps free
    // are taken from the spare space.
    let drive = config_of_settings(&["device.fit=0.9", "device.reserve_blocks=0"]);
    run_input(&drive, &Input::Trace { path, options: OpenOptions::default() }, design)
}

/// Returns host page writes, recycled writes, programs, reads and erases of a run.
fn operation_counts_of_run(record: &RunRecord) -> [u64; 5] {
    [record.host_page_writes, record.recycled_writes, record.programs, record.reads, record.erases]
}

/// Checks that a replay of the bundled trace gives exactly the expected counts.
fn assert_golden(design: &str, expected: [u64; 5]) {
    let record = run_bundled_trace(design);
    assert!(!record.partial && record.trace.rejected == 0);
    assert_eq!(record.trace.requests, 74_393);
    assert_eq!(operation_counts_of_run(&record), expected, "{design}");
    let last_quarter: Vec<_> = record.series.iter().skip(record.series.len() * 3 / 4).collect();
    let collected = last_quarter.windows(2).filter(|pair| pair[1].erases > pair[0].erases).count();
    println!("{design}: erases between {collected} of {} pairs of points", last_quarter.len() - 1);
    assert!(collected * 2 > last_quarter.len(), "garbage collection is not active in the last quarter");
}

/// Writes, programs, reads and erases of the page map on the bundled trace are the recorded (golden) numbers.
#[test]
fn golden_counts_of_the_page_map_on_the_bundled_trace() {
    assert_golden("page-map", [298_068, 0, 383_395, 85_393, 4_911]);
}

/// Writes, recycled writes, programs, reads and erases of recycling on the bundled trace are the recorded (golden)
/// numbers.
#[test]
fn recycling_on_the_bundled_trace_has_the_golden_counts() {
    assert_golden("recyclable", [298_068, 10_357, 351_172, 63_527, 4_406]);
}

/// Writes, programs, reads and erases of DFTL on the bundled trace are the recorded (golden) numbers.
#[test]
fn dftl_on_the_bundled_trace_has_the_golden_counts() {
    assert_golden("dftl", [298_068, 0, 389_618, 318_568, 5_009]);
}

// The bundled capture of F2FS: its cleaner moves pages by remap commands in copy mode.

/// Replays a captured trace of F2FS on a design with these settings.
fn run_f2fs_trace(design: &str, settings: &[&str]) -> RunRecord {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/f2fs.wwt");
    let device = ["device.preset=rm-36g", "device.blocks_per_plane=144", "device.pages_per_block=128"];
    let config = config_of_settings(&[&device[..], settings].concat());
    run_input(&config, &Input::Trace { path, options: OpenOptions::default() }, design)
}

/// Number of pages that F2FS itself counted as moved ("fs gc data") while the replayed trace was captured.
const MOVED_PAGES: u64 = 134_575;

#[test]
fn f2fs_cleaning_programs_moved_pages_unless_the_drive_remaps_them() {
    let written = run_f2fs_trace("page-map", &[]);
    let remapped = run_f2fs_trace("remap", &["remap.dedup=false", "remap.size_mib=2.5"]);
    for record in [&written, &remapped] {
        assert!(!record.partial, "{:?}", record.partial_reason);
        assert_eq!((record.host_page_remaps, record.phases.len()), (MOVED_PAGES, 3));
    }
    assert_eq!(remapped.parts["bound_pages_by_remap"] as u64, MOVED_PAGES);
    assert_eq!(written.programs_by_cause["host"] - remapped.programs_by_cause["host"], MOVED_PAGES);
    // In the second phase F2FS cleans by force, so nearly all writes of that phase are the cleaner's copies.
    let cleaning = |record: &RunRecord| record.phases[1].programs - record.phases[0].programs;
    assert!(cleaning(&remapped) * 4 < cleaning(&written));
}
