//! Tests of `--perfetto`: a trace of flash operations is written beside the other results, and runs that cannot be
//! traced are refused with a message.

use std::fs;
use std::process::{Command, Output};

/// Workload with request times, which the event engine needs.
const LOAD: &str = "zipf:pages=3000,requests=8000,read=0.2,rate=3000";

/// Runs the program `wearwell` with these arguments to its end.
fn wearwell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wearwell")).args(arguments).output().unwrap()
}

/// Returns what a command printed to standard error.
fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns the number of packets in a Perfetto trace, each of which is field 1 of the whole message.
fn packet_count(trace: &[u8]) -> usize {
    let (mut rest, mut count) = (trace, 0);
    while let Some((&tag, after)) = rest.split_first() {
        assert_eq!(tag, 0x0a, "packets are field 1, a message");
        let digits = after.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
        let length =
            after[..digits].iter().rev().fold(0, |length, &byte| length << 7 | usize::from(byte & 0x7f));
        rest = &after[digits + length..];
        count += 1;
    }
    count
}

#[test]
fn a_perfetto_trace_is_written_beside_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pftrace");
    let file = path.to_str().unwrap();
    let replay = ["replay", "--workload", LOAD, "--timing", "event", "--perfetto", file];
    let output = wearwell(&replay);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        String::from_utf8(output.stdout).unwrap().contains("write amplification"),
        "the table is printed"
    );
    let first = packet_count(&fs::read(&path).unwrap());
    assert!(first > 4000, "a thousand requests and their operations: {first}");
    let again = wearwell(&replay);
    assert!(
        !again.status.success() && stderr(&again).contains("replace it with --force"),
        "{}",
        stderr(&again)
    );
    let part = wearwell(&[&replay[..], &["--perfetto-window", "10ms..20ms", "--force"]].concat());
    assert!(part.status.success(), "{}", stderr(&part));
    assert!(packet_count(&fs::read(&path).unwrap()) < first / 2);
    let piped = wearwell(&["replay", "--workload", LOAD, "--timing", "event", "--perfetto", "-"]);
    assert_eq!(packet_count(&piped.stdout), first, "only the trace is on standard output");
}

#[test]
fn perfetto_needs_event_timing_one_run_and_a_valid_window() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pftrace");
    let file = path.to_str().unwrap();
    let replay = ["replay", "--workload", LOAD, "--perfetto", file];
    for (more, sentence) in [
        (&[][..], "--timing event"),
        (&["--timing", "timeline"], "--timing event"),
        (&["--timing", "event", "--over-provisioning", "0.1,0.2"], "--perfetto writes the trace of one run"),
        (&["--timing", "event", "--csv", file], "--csv and --perfetto both name"),
        (&["--timing", "event", "--perfetto-window", "9..5"], "a window is a range"),
    ] {
        let output = wearwell(&[&replay[..], more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        assert!(stderr(&output).contains(sentence), "{more:?}: {}", stderr(&output));
        assert!(!path.exists(), "{more:?}");
    }
    let empty = wearwell(&[&replay[..], &["--timing", "event", "--perfetto-window", "90000.."]].concat());
    assert!(empty.status.success() && stderr(&empty).contains("the trace is empty"), "{}", stderr(&empty));
}
