//! Tests that a recording, replayed through the same design on the same device, does the same flash operations as the
//! live device.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use common::client::*;
use common::{MIB, PAGE_BYTES, Random, ServedDevice, config};
use wearwell::address::RemapMode;
use wearwell::stats::{Stats, nonzero_counts_by_cause};
use wearwell_config::Config;
use wearwell_replay::input::Input;
use wearwell_replay::record::RunRecord;
use wearwell_replay::replay::Plan;
use wearwell_serve::control::answer_control_line;
use wearwell_serve::memory_device::MemoryDeviceSpecification;
use wearwell_serve::{BlockDevice as _, DeviceError, FlashDevice};
use wearwell_trace::OpenOptions;

use crate::common;

/// Size of the device, bytes.
const DEVICE_BYTES: u64 = 4 * MIB;

/// Sends random requests: writes of random size and address with `contents` distinct contents, and trims, zeroes,
/// flushes and reads among them. `with_remaps` is the control socket for remaps.
fn send_random_requests(client: &mut Client, contents: u64, with_remaps: Option<&Path>) {
    /// Number of requests that are sent.
    const OPERATIONS: u64 = 6000;
    let mut random = Random::new(21);
    let mut control = with_remaps.map(|path| std::os::unix::net::UnixStream::connect(path).unwrap());
    for _ in 0..OPERATIONS {
        let sector = random.below(DEVICE_BYTES / 512);
        let sectors = (1 + random.below(24)).min(DEVICE_BYTES / 512 - sector);
        let (page, pages) = (sector / 8, (1 + random.below(3)).min(DEVICE_BYTES / PAGE_BYTES - sector / 8));
        let (offset, len) = (page * PAGE_BYTES, (pages * PAGE_BYTES) as u32);
        match random.below(100) {
            0..60 => {
                let content = Random::new(random.below(contents)).bytes(1 << 11).repeat(2 * pages as usize);
                client.write(offset, &content);
            }
            60..70 => client.write(sector * 512, &vec![random.below(3) as u8; sectors as usize * 512]),
            70..78 => client.request_successfully(NBD_CMD_TRIM, 0, sector * 512, sectors as u32 * 512, &[]),
            78..82 => {
                client.request_successfully(NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_NO_HOLE, offset, len, &[]);
            }
            82..95 => drop(client.read(sector * 512, sectors as u32 * 512)),
            95..98 => client.request_successfully(NBD_CMD_FLUSH, 0, 0, 0, &[]),
            _ => remap(control.as_mut(), &mut random),
        }
    }
}

/// Remaps a random page by the control socket, if there is one.
fn remap(control: Option<&mut std::os::unix::net::UnixStream>, random: &mut Random) {
    use std::io::{BufRead as _, Write as _};
    let Some(control) = control else { return };
    let [target, source] = [0, 1].map(|_| random.below(DEVICE_BYTES / PAGE_BYTES) * PAGE_BYTES);
    let mode = if random.below(2) == 0 || target == source { "copy" } else { "move" };
    let command = format!(
        "{{\"command\":\"remap\",\"mode\":\"{mode}\",\"ranges\":[{{\"target\":{target},\
         \"source\":{source},\"len\":{PAGE_BYTES}}}]}}\n"
    );
    control.write_all(command.as_bytes()).unwrap();
    let mut reply = String::new();
    std::io::BufReader::new(&*control).read_line(&mut reply).unwrap();
    assert!(reply.contains("\"ok\":true"), "{reply}");
}

/// Replays a recording through a design, and returns the record of the run.
fn replay(config: &Config, design: &str, path: &Path, reads_payloads: bool) -> RunRecord {
    let input =
        Input::Trace { path: path.into(), options: OpenOptions { reads_payloads, ..OpenOptions::default() } };
    let plan = Plan::new(config, &input).expect("the recording is a trace");
    let record = plan.run(design, &mut |_| ControlFlow::Continue(())).expect("it fits");
    assert!(!record.partial, "{:?}", record.partial_reason);
    record
}

/// Numbers of flash operations, by cause.
type Counts = BTreeMap<String, u64>;

/// Returns the numbers of programs, reads and erases of the live device, by cause.
fn live_operation_counts(stats: &Stats) -> [Counts; 3] {
    [
        nonzero_counts_by_cause(&stats.programs),
        nonzero_counts_by_cause(&stats.reads),
        nonzero_counts_by_cause(&stats.erases),
    ]
}

/// Records random work on a live device of this design, replays the recording, and checks that both did the same flash
/// operations.
fn assert_replay_repeats_flash_operations(design: &str, settings: &[&str], file: &str, remaps: bool) {
    let specification = MemoryDeviceSpecification::new(design, config(settings), Some(DEVICE_BYTES)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file);
    let mut device = specification.build().unwrap();
    device.record_trace_to(&path, &specification.config.to_toml()).unwrap();
    let served = ServedDevice::of(device);
    let control = served.control_socket_path();
    // So many that something is left to collect where equal pages are stored once and compressed.
    let contents = if design == "integrated" { 20_000 } else { 150 };
    send_random_requests(&mut served.client(), contents, remaps.then_some(&control));
    let mut device = served.stop();
    let requests = device.end_recording().unwrap().expect("it was recorded");
    let stats = device.device().stats();
    assert!(stats.gc_victims > 10, "{design}: garbage collection has to be at work");

    let record = replay(&specification.config, design, &path, path.extension().is_some_and(|it| it == "ops"));
    assert_eq!(record.trace.requests, requests);
    let again = [record.programs_by_cause, record.reads_by_cause, record.erases_by_cause];
    assert_eq!(live_operation_counts(stats), again, "{design}: programs, reads, erases by cause");
    let host = (record.host_page_writes, record.host_page_reads, record.host_page_trims);
    assert_eq!(host, (stats.host_page_writes, stats.host_page_reads, stats.host_page_trims));
    let forms = [("recycled", stats.recycled_writes), ("deduplicated", stats.deduplicated_writes)];
    for (form, count) in forms {
        assert_eq!(record.writes_by_form.get(form).copied().unwrap_or(0), count, "{design}: {form}");
    }
}

#[test]
fn a_recording_with_fingerprints_replays_with_equal_flash_counts_on_designs_that_compare_contents() {
    for design in ["page-map", "recyclable", "remap"] {
        assert_replay_repeats_flash_operations(design, &[], "run.wwt", true);
    }
}

#[test]
fn a_recording_of_a_device_with_a_write_buffer_replays_with_equal_flash_counts() {
    assert_replay_repeats_flash_operations("page-map", &["buffer.pages=32"], "run.wwt", false);
}

#[test]
fn captures_with_page_bytes_replay_with_equal_flash_counts_on_delta_and_compressing_designs() {
    assert_replay_repeats_flash_operations("delta", &[], "run.ops", false);
    assert_replay_repeats_flash_operations("integrated", &[], "run.ops", false);
    assert_replay_repeats_flash_operations("integrated", &["lifetime.schemes=compression"], "run.ops", false);
}

/// Bug: remaps that were refused before anything was executed ended the recording, or were recorded as if executed.
#[test]
fn refused_remaps_are_not_recorded() {
    let specification = common::specification("remap", DEVICE_BYTES);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.wwt");
    let mut device = specification.build().unwrap();
    device.record_trace_to(&path, "").unwrap();
    for page in 0..20 {
        device.write(page * PAGE_BYTES, &[page as u8; PAGE_BYTES as usize]).unwrap();
    }
    for (target, source, len) in
        [(40 * PAGE_BYTES, 1, PAGE_BYTES), (0, DEVICE_BYTES, PAGE_BYTES), (0, PAGE_BYTES, DEVICE_BYTES)]
    {
        let refused = device.remap(target, source, len, RemapMode::Copy).unwrap_err();
        assert!(matches!(refused, DeviceError::Invalid(_)), "{refused}");
    }
    device.remap(40 * PAGE_BYTES, PAGE_BYTES, PAGE_BYTES, RemapMode::Copy).unwrap();
    assert_eq!(device.host_command_counts().remaps, 1);
    assert_eq!(device.end_recording().unwrap(), Some(21));
    let record = replay(&specification.config, "remap", &path, false);
    assert_eq!((record.trace.requests, record.host_page_writes, record.host_page_remaps), (21, 20, 1));
}

#[test]
fn a_recording_whose_file_cannot_be_written_is_refused_at_once_and_the_device_continues() {
    let specification = common::specification("page-map", DEVICE_BYTES);
    let folder = tempfile::tempdir().unwrap();
    let mut device = specification.build().unwrap();
    let error = device.record_trace_to(&folder.path().join("no/such/folder.wwt"), "").unwrap_err();
    assert!(error.to_string().contains("folder.wwt"), "{error}");
    assert!(
        Path::new("/dev/full").exists(),
        "this test writes to /dev/full, which this system does not have"
    );
    let error = device.record_trace_to(Path::new("/dev/full"), "").unwrap_err();
    assert!(error.to_string().contains("No space left on device"), "{error}");
    assert_eq!(device.recording_failure_message(), None);
    device.write(0, &[5; PAGE_BYTES as usize]).unwrap();
}

/// Bug: nothing showed that a recording had ended before the server ended.
#[test]
fn a_recording_that_ended_early_is_reported_by_stats_and_the_device_continues() {
    let folder = tempfile::tempdir().unwrap();
    let mut device = common::specification("remap", DEVICE_BYTES).build().unwrap();
    device.record_trace_to(&folder.path().join("run.ops"), "").unwrap();
    let write = |device: &mut FlashDevice, page: u64| {
        device.write(page * PAGE_BYTES, &[page as u8 + 1; PAGE_BYTES as usize]).unwrap();
    };
    write(&mut device, 0);
    let failure = |device: &mut FlashDevice| {
        let answer = answer_control_line(b"{\"command\": \"stats\"}", device);
        serde_json::from_str::<serde_json::Value>(&answer).unwrap()["recording_failure"].clone()
    };
    assert!(failure(&mut device).is_null());
    // A capture cannot hold a remap.
    device.remap(8 * PAGE_BYTES, 0, PAGE_BYTES, RemapMode::Copy).unwrap();
    let failure = failure(&mut device);
    assert!(failure.as_str().unwrap().contains("cannot hold a remap"), "{failure}");
    write(&mut device, 1);
    let error = device.end_recording().unwrap_err().to_string();
    assert!(error.contains("run.ops") && error.contains("it ends after request 1 or earlier"), "{error}");
    assert_eq!(std::fs::read_to_string(folder.path().join("run.ops")).unwrap().lines().count(), 2);
}
