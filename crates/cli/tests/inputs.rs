//! Tests of traces that users may have: pipes, CSV with other columns, unusual and wrong files.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// First line of a trace in Wearwell's CSV format.
const HEADER: &str = "time_ns,op,offset_bytes,len_bytes,device,fingerprints,source_bytes\n";
/// A latency log of fio with offsets, for three requests of 4 KiB.
const FIO_LOG: &str = "0, 12, 1, 4096, 8192, 0\n1, 12, 0, 4096, 8192, 0\n2, 9, 2, 4096, 12288, 0\n";
/// Columns of a fio latency log, as the value of `--columns`.
const FIO_COLUMNS: &str = "t=1,op=3,offset=5,length=4,unit=ms,read=0,write=1,trim=2";

/// Runs the program `wearwell` with these arguments to its end.
fn wearwell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wearwell")).args(arguments).output().unwrap()
}

/// Returns the JSON output of `wearwell trace info` with these arguments.
fn trace_info_of(arguments: &[&str]) -> Value {
    let output = wearwell(&[&["trace", "info", "--json"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A test file with some text, in a temporary folder of its own.
struct Fixture(tempfile::TempDir, String);

impl Fixture {
    /// Writes `text` to a file called `name` in a new temporary folder.
    fn new(name: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap().to_owned();
        Self(folder, path)
    }
}

/// Runs a command, and checks that it is refused (exit status 1 or 2) with a message that contains all of `parts`.
#[track_caller]
fn assert_refused(arguments: &[&str], parts: &[&str]) {
    let output = wearwell(arguments);
    let sentence = String::from_utf8(output.stderr).unwrap();
    assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {sentence}");
    for part in parts {
        assert!(sentence.contains(part), "`{part}` is missing in: {sentence}");
    }
}

#[test]
fn a_bad_second_line_of_a_wearwell_csv_is_reported_by_number() {
    let file = Fixture::new("bad.csv", &format!("{HEADER}0,write,0,4096,0,,\n"));
    assert_refused(&["trace", "info", &file.1], &["line 2", "R (read), W (write), T (trim)"]);
}

#[test]
fn a_directory_in_place_of_a_trace_is_refused_with_a_sentence() {
    let file = Fixture::new("x.ops", "");
    assert_refused(&["replay", file.0.path().to_str().unwrap()], &["is a directory", ".ops"]);
}

#[test]
fn a_trace_without_requests_is_refused() {
    let file = Fixture::new("none.csv", HEADER);
    assert_refused(&["replay", &file.1], &["no request"]);
}

#[test]
fn trace_info_counts_unsorted_times_empty_requests_and_partial_sectors() {
    let rows = "5,W,0,4096,0,,\n9,W,0,3,0,,\n1,W,4096,0,0,,\n7,W,512,512,0,,\n6,R,0,512,0,,\n";
    let file = Fixture::new("odd.csv", &format!("{HEADER}{rows}"));
    let info = trace_info_of(&[&file.1]);
    assert_eq!(info["unsorted_times"], 2);
    assert_eq!(info["empty_requests"], 1);
    assert_eq!(info["sub_sector_requests"], 1);
    // A time before that of the first request is before the one in front of it, although it is delivered as 0.
    let file =
        Fixture::new("first.csv", &format!("{HEADER}5,W,0,4096,0,,\n1,W,4096,4096,0,,\n9,W,0,4096,0,,\n"));
    assert_eq!(trace_info_of(&[&file.1])["unsorted_times"], 1);
    let replayed = String::from_utf8(wearwell(&["replay", &file.1]).stdout).unwrap();
    assert!(replayed.contains("times run backwards: 1 requests have a time before"), "{replayed}");
}

#[test]
fn a_fio_log_with_offsets_is_read_as_csv_columns() {
    let file = Fixture::new("fio_lat.log", FIO_LOG);
    let info = trace_info_of(&["--columns", FIO_COLUMNS, &file.1]);
    for (op, count) in [("read", 1), ("write", 1), ("trim", 1)] {
        assert_eq!(info["requests"][op], count, "{op}");
    }
    assert_eq!(info["duration_ns"], 2_000_000);
    assert_eq!(info["max_end_bytes"], 12288);
}

#[test]
fn a_trace_from_standard_input_gives_the_record_of_the_file() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_wearwell"))
        .args(["trace", "info", "--json", "--columns", FIO_COLUMNS, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(FIO_LOG.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let info: Value = serde_json::from_slice(&output.stdout).unwrap();
    let file = Fixture::new("fio_lat.log", FIO_LOG);
    assert_eq!(info, trace_info_of(&["--columns", FIO_COLUMNS, &file.1]));
}

#[test]
fn trace_info_of_several_traces_is_one_json_document() {
    let file = Fixture::new("one.csv", &format!("{HEADER}0,W,0,4096,0,,\n"));
    let infos = trace_info_of(&[&file.1, &file.1]);
    assert_eq!(infos.as_array().map(Vec::len), Some(2));
}

/// Bug: only `d`, `q` and `c` were accepted, although the help and the documents name the stages in upper case.
#[test]
fn stages_of_the_block_layer_are_accepted_in_upper_and_in_lower_case() {
    let lines = "8,0 0 1 0.000000000 1 D W 0 + 8 [x]\n8,0 0 2 0.000001000 1 C W 0 + 8 [0]\n\
                 8,0 0 3 0.000002000 1 C W 8 + 16 [0]\n";
    let file = Fixture::new("disk.blkparse", lines);
    for (stage, writes) in [("D", 1), ("d", 1), ("C", 2), ("c", 2), ("Q", 0)] {
        let info = trace_info_of(&["--format", "blkparse", "--action", stage, &file.1]);
        assert_eq!(info["requests"]["write"], writes, "{stage}");
    }
}
