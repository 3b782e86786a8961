//! Tests of `wearwell profile`: exact shares for files of known contents, and printed content models that generate the
//! profiled workload again.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;

/// Bytes of a page in the profiled files.
const PAGE_BYTES: usize = 4096;
/// Workload without contents, to which the tests add a content model.
const WORKLOAD: &str = "zipf:theta=0.9,pages=20000,requests=200000";

/// Runs the program `wearwell` with these arguments to its end.
fn wearwell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wearwell")).args(arguments).output().unwrap()
}

/// Runs a command with a JSON output. Returns the profile of `profile`, which must print exactly one; of other commands
/// the whole output.
fn profile_or_whole_json_of(arguments: &[&str]) -> Value {
    let output = wearwell(&[arguments, &["-q", "--json", "-"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let mut written: Value = serde_json::from_slice(&output.stdout).unwrap();
    if arguments[0] != "profile" {
        return written;
    }
    let list = "profiles";
    assert_eq!(written[list].as_array().map(Vec::len), Some(1));
    written[list][0].take()
}

/// Returns the number at a JSON pointer (`/field/field`) of a value.
fn number_at(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} in {value}"))
}

/// Checks that two numbers differ by at most `tolerance`.
#[track_caller]
fn assert_near(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{found} is not {expected} within {tolerance}");
}

/// Returns the bytes of random pages that no codec makes smaller.
fn incompressible_pages(pages: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; pages * PAGE_BYTES];
    Xoshiro256PlusPlus::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// Writes a directory of known contents: one file with 10 pages of noise, another with 4 of these pages and 4 zero
/// pages, and a file with half a page of one letter.
fn write_directory_of_known_contents(folder: &Path) {
    let noise = incompressible_pages(10, 1);
    fs::create_dir(folder.join("sub")).unwrap();
    fs::write(folder.join("a"), &noise).unwrap();
    let again = [&noise[..4 * PAGE_BYTES], &vec![0; 4 * PAGE_BYTES][..]].concat();
    fs::write(folder.join("sub/b"), again).unwrap();
    fs::write(folder.join("sub/c"), vec![b'x'; PAGE_BYTES / 2]).unwrap();
}

#[test]
fn the_profile_of_a_known_directory_has_exact_zero_and_duplicate_shares() {
    let folder = tempfile::tempdir().unwrap();
    write_directory_of_known_contents(folder.path());
    let profile = profile_or_whole_json_of(&["profile", folder.path().to_str().unwrap()]);
    assert_eq!(profile["content"]["pages"], 19);
    assert_near(number_at(&profile, "/content/zero_share"), 4.0 / 19.0, 1e-12);
    assert_near(number_at(&profile, "/content/duplicate_share"), 4.0 / 19.0, 1e-12);
    assert_eq!(profile["content"]["distinct"], 11);
    assert_near(number_at(&profile, "/content/compressed/incompressible_share"), 14.0 / 15.0, 1e-12);
    assert_eq!(profile["partial"], false);
}

#[test]
fn the_profile_of_two_file_versions_measures_their_deltas() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let mut bytes = incompressible_pages(8, 2);
    fs::write(&old, &bytes).unwrap();
    bytes[0] ^= 1;
    bytes[PAGE_BYTES] ^= 1;
    bytes.extend(incompressible_pages(2, 3));
    fs::write(&new, &bytes).unwrap();
    let profile =
        profile_or_whole_json_of(&["profile", new.to_str().unwrap(), "--against", old.to_str().unwrap()]);
    // Eight pages have an old version, six of them equal it, two differ by one bit.
    assert_near(number_at(&profile, "/unchanged_share"), 6.0 / 8.0, 1e-12);
    assert_eq!(profile["delta"]["pages"], 2);
    assert!(number_at(&profile, "/delta/mean") < 0.02);
}

/// Tolerance: two standard deviations of 200,000 draws are 0.2 points, and fitting the content pool and the repeats
/// adds less than half a point.
#[test]
fn the_content_model_in_a_profile_equals_the_one_that_generated_the_workload() {
    let workload = format!("{WORKLOAD}+dup:share=0.3,compress=0.4,delta=0.2");
    let profile = profile_or_whole_json_of(&["profile", "--workload", &workload]);
    assert_near(number_at(&profile, "/content/duplicate_share"), 0.3, 0.005);
    assert_near(number_at(&profile, "/content/compressed/mean"), 0.4, 0.005);
    assert_near(number_at(&profile, "/delta/mean"), 0.2, 0.005);
    assert_near(number_at(&profile, "/skew/zipf_theta"), 0.9, 0.05);
    let line = profile["content_line"].as_str().unwrap();
    let again = profile_or_whole_json_of(&["profile", "--workload", &format!("{WORKLOAD}+{line}")]);
    assert_near(
        number_at(&again, "/content/duplicate_share"),
        number_at(&profile, "/content/duplicate_share"),
        0.005,
    );
}

/// The content mechanisms are run on a workload with the content model that the profile prints, drawn with another
/// seed. Their counts must be within 5 % of those on the original workload.
#[test]
fn a_replay_with_the_profiled_content_model_saves_as_many_writes_as_the_profiled_workload() {
    let replay = |workload: &str, design: &str, count: &str| {
        let run = profile_or_whole_json_of(&["replay", "--workload", workload, "--design", design]);
        number_at(&run, &format!("/runs/0/writes_by_form/{count}"))
    };
    let original = format!("{WORKLOAD}+dup:share=0.3,compress=0.4");
    let profile = profile_or_whole_json_of(&["profile", "--workload", &original]);
    let printed = format!("{WORKLOAD},seed=2+{}", profile["content_line"].as_str().unwrap());
    for (design, count) in [("recyclable", "recycled"), ("remap", "deduplicated"), ("integrated", "packed")] {
        let (before, after) = (replay(&original, design, count), replay(&printed, design, count));
        assert!(before > 1000.0, "{design}: {before}");
        assert_near(after / before, 1.0, 0.05);
    }
}

#[test]
fn a_sampled_profile_agrees_with_the_full_profile_within_its_error() {
    let workload = format!("{WORKLOAD}+dup:share=0.3,theta=0,compress=0.4");
    let whole = profile_or_whole_json_of(&["profile", "--workload", &workload]);
    let sample = profile_or_whole_json_of(&["profile", "--workload", &workload, "--sample", "8"]);
    for (share, error) in [
        ("/content/duplicate_share", "/content/duplicate_share_error"),
        ("/rewrites/once_share", "/rewrites/once_share_error"),
    ] {
        assert!(number_at(&whole, error).abs() < f64::MIN_POSITIVE, "{error}");
        let error = number_at(&sample, error);
        assert!(error > 0.0 && error < 0.05, "{share}: {error}");
        assert_near(number_at(&sample, share), number_at(&whole, share), 4.0 * error);
    }
}

#[test]
fn profile_reads_a_file_of_unknown_format_as_a_disk_image() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("disk.img");
    fs::write(&image, incompressible_pages(5, 4)).unwrap();
    let profile = profile_or_whole_json_of(&["profile", image.to_str().unwrap()]);
    assert_eq!(profile["content"]["pages"], 5);
    assert_eq!(profile["traffic"], Value::Null);
    fs::write(&image, "").unwrap();
    assert_eq!(wearwell(&["profile", image.to_str().unwrap()]).status.code(), Some(1));
}

#[test]
fn the_profile_table_fits_80_columns() {
    let workload = "zipf:theta=0.9,pages=5000,requests=20000+dup:share=0.3,compress=0.4";
    let output = wearwell(&["profile", "--workload", workload, "--run", "--sample", "2"]);
    let table = String::from_utf8(output.stdout).unwrap();
    for line in table.lines().skip(1).filter(|line| !line.starts_with("--")) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(table.contains("when run") && table.contains("  deduplication"), "{table}");
    assert!(table.contains("--content 'dup:share="), "{table}");
}

/// The savings that `profile --run` reports for a mechanism must equal those that a run of the mechanism reports.
#[test]
fn savings_measured_by_profile_equal_the_record_of_the_run() {
    let workload = "zipf:theta=0.9,pages=5000,requests=40000,write=1.0+dup:share=0.3,compress=0.4,delta=0.3";
    let drive = ["--set", "device.over_provisioning=0.2"];
    let profile =
        profile_or_whole_json_of(&[&["profile", "--workload", workload, "--run"][..], &drive].concat());
    let run = |content: &str| {
        let parts = format!("parts.content={content}");
        let replay = ["replay", "--workload", workload, "--design", "page-map", "--set", &parts];
        profile_or_whole_json_of(&[&replay[..], &drive].concat())["runs"][0].take()
    };
    let without = run("none");
    assert_eq!(profile["runs"]["programs"], without["programs"]);
    assert_eq!(profile["runs"]["config"], without["config"]);
    let savings = profile["savings"].as_array().unwrap();
    assert_eq!(savings.len(), 4);
    for saving in savings {
        let name = saving["mechanism"].as_str().unwrap();
        let with = run(name);
        assert_eq!(saving["when_run"]["page_writes"], with["write_reduction"], "{name}");
        let saved = 1.0 - number_at(&with, "/programs") / number_at(&without, "/programs");
        assert_near(number_at(saving, "/when_run/programs"), saved, 1e-12);
        let saved = 1.0 - number_at(&with, "/erases") / number_at(&without, "/erases");
        assert_near(number_at(saving, "/when_run/erases"), saved, 1e-12);
        assert!(number_at(saving, "/when_run/page_writes") <= number_at(saving, "/at_most"), "{saving}");
    }
}

/// A real trace is used, which repeats contents, trims, and overwrites pages.
#[test]
fn measured_savings_of_a_real_trace_stay_within_the_profiled_bounds() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/pgbench-ext4.wwt");
    let profile = profile_or_whole_json_of(&["profile", trace, "--run"]);
    let mut run = 0;
    for saving in profile["savings"].as_array().unwrap().iter().filter(|one| !one["when_run"].is_null()) {
        assert!(number_at(saving, "/when_run/page_writes") <= number_at(saving, "/at_most"), "{saving}");
        run += 1;
    }
    assert!(run >= 3, "{}", profile["savings"]);
}

/// The files of the directory have 19 pages: ten different random pages, copies of four of them, four zero pages, and
/// one compressible page. Each is written once.
#[test]
fn profile_counts_a_directory_as_one_write_per_page_of_its_files() {
    let folder = tempfile::tempdir().unwrap();
    write_directory_of_known_contents(folder.path());
    let profile = profile_or_whole_json_of(&["profile", folder.path().to_str().unwrap(), "--run"]);
    assert_eq!(profile["runs"]["host_page_writes"], 19);
    let of = |name: &str| {
        let savings = profile["savings"].as_array().unwrap();
        savings.iter().find(|saving| saving["mechanism"] == name).unwrap().clone()
    };
    assert_eq!((&of("recycle")["at_most"], &of("delta")["at_most"]), (&Value::Null, &Value::Null));
    // Four pages of noise and three of the four zero pages repeat one.
    assert_near(number_at(&of("dedup"), "/at_most"), 7.0 / 19.0, 1e-12);
    assert_near(number_at(&of("dedup"), "/when_run/page_writes"), 7.0 / 19.0, 1e-12);
}

#[test]
fn profile_refuses_settings_that_its_runs_would_ignore() {
    let refused = |arguments: &[&str], said: &str| {
        let output = wearwell(&[&["profile", "--workload", WORKLOAD][..], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(said), "{arguments:?}: {error}");
    };
    refused(&["--set", "gc.policy=fifo"], "--run");
    refused(&["--run", "--set", "gecko.size_ratio=3"], "gecko.size_ratio");
    // Bounds are of the whole input, and these runs would measure a part.
    refused(&["--run", "--set", "replay.requests=100"], "would measure a part of the input");
    let content = format!("{WORKLOAD}+dup:share=0.3");
    let output = wearwell(&["profile", "--workload", &content, "--run", "--set", "parts.content=dedup"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("leave parts.content out"));
}

#[test]
fn ctrl_c_during_profile_prints_a_partial_profile() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("profile.json");
    let mut child = Command::new(env!("CARGO_BIN_EXE_wearwell"))
        .args(["profile", "-q", "--workload", "uniform:pages=1000,requests=100000000000", "--json"])
        .arg(&json)
        .spawn()
        .unwrap();
    // Long after the handler is set; the workload takes an hour.
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(3));
    let profile: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let profile = &profile["profiles"][0];
    assert_eq!(profile["partial"], true);
    assert!(number_at(profile, "/traffic/requests") > 1000.0);
}
