//! Tests of the control socket: remaps, counters, health, and the answers to wrong commands.

use std::any::Any;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;

use common::client::*;
use common::{DESIGNS, MIB, PAGE_BYTES, Random, ServedDevice, specification};
use serde_json::{Value, json};
use wearwell::address::Ppn;
use wearwell::nand::{FaultInjectable as _, SimNand};
use wearwell_serve::FlashDevice;
use wearwell_serve::control::answer_control_line;
use wearwell_serve::device::DriveHealthFacts;

use crate::common;

/// A client of the control socket.
struct Control {
    /// Connection to the control socket, with a buffer for received lines.
    lines: BufReader<UnixStream>,
}

impl Control {
    /// Connects to the control socket of a served device.
    fn of(served: &ServedDevice) -> Self {
        Self {
            lines: BufReader::new(
                UnixStream::connect(served.control_socket_path()).expect("the server listens"),
            ),
        }
    }

    /// Sends a line and returns the answer.
    fn send_line(&mut self, line: &str) -> Value {
        writeln!(self.lines.get_mut(), "{line}").expect("the server takes a line");
        let mut reply = String::new();
        self.lines.read_line(&mut reply).expect("the server answers");
        serde_json::from_str(&reply).expect("an answer is JSON")
    }

    /// Sends a command, which must succeed, and returns the answer.
    fn ask(&mut self, command: &Value) -> Value {
        let reply = self.send_line(&command.to_string());
        assert_eq!(reply["ok"], true, "{command}: {reply}");
        reply
    }

    /// Sends a line, whose command must be refused with an error message that contains `part`. Returns the answer.
    #[track_caller]
    fn send_line_that_must_be_refused(&mut self, line: &str, part: &str) -> Value {
        let reply = self.send_line(line);
        assert_eq!(reply["ok"], false, "{line}: {reply}");
        let sentence = reply["error"].as_str().expect("a refusal has a sentence");
        assert!(sentence.contains(part), "{line}: `{part}` is missing in: {sentence}");
        reply
    }
}

/// Returns random bytes for `count` pages from a seed.
fn pages(count: u64, seed: u64) -> Vec<u8> {
    Random::new(seed).bytes((count * PAGE_BYTES) as usize)
}

#[test]
fn a_remap_copy_gives_the_target_the_bytes_of_the_source_in_every_design() {
    for design in DESIGNS {
        let served = ServedDevice::new(design, 8 * MIB);
        let (mut client, mut control) = (served.client(), Control::of(&served));
        let bytes = pages(16, 1);
        client.write(0, &bytes);
        let ranges = json!([
            { "target": MIB, "source": 0, "len": 8 * PAGE_BYTES },
            { "target": 2 * MIB, "source": 8 * PAGE_BYTES, "len": 8 * PAGE_BYTES },
        ]);
        let reply = control.ask(&json!({ "command": "remap", "ranges": ranges, "durable": true }));
        assert_eq!((&reply["ranges"], &reply["bytes"]), (&json!(2), &json!(16 * PAGE_BYTES)));
        let bound = reply["bound_pages"].as_u64().unwrap();
        assert_eq!(
            bound,
            if matches!(design, "remap" | "integrated" | "wearwell") { 16 } else { 0 },
            "{design}"
        );
        assert!(client.read(MIB, 8 << 12) == bytes[..8 << 12], "{design}");
        assert!(client.read(2 * MIB, 8 << 12) == bytes[8 << 12..], "{design}");
        assert!(client.read(0, 16 << 12) == bytes, "{design}: the source keeps its bytes");
        // What is written to the one afterwards does not show in the other.
        client.write(0, &pages(1, 2));
        assert!(client.read(MIB, 4096) == bytes[..4096], "{design}");
        served.stop();
    }
}

#[test]
fn a_remap_move_leaves_zeros_at_its_source() {
    for design in DESIGNS {
        let served = ServedDevice::new(design, 8 * MIB);
        let (mut client, mut control) = (served.client(), Control::of(&served));
        let bytes = pages(4, 3);
        client.write(MIB, &bytes);
        let ranges = json!([{ "target": 0, "source": MIB, "len": 4 * PAGE_BYTES }]);
        control.ask(&json!({ "command": "remap", "mode": "move", "ranges": ranges }));
        assert!(client.read(0, 4 << 12) == bytes, "{design}");
        assert!(client.read(MIB, 4 << 12) == vec![0; 4 << 12], "{design}");
        served.stop();
    }
}

#[test]
fn remap_commands_cause_no_host_program_on_designs_that_share_pages() {
    let served = ServedDevice::new("remap", 8 * MIB);
    let (mut client, mut control) = (served.client(), Control::of(&served));
    client.write(0, &pages(64, 4));
    let before = control.ask(&json!({ "command": "stats" }));
    let ranges = json!([{ "target": MIB, "source": 0, "len": 64 * PAGE_BYTES }]);
    control.ask(&json!({ "command": "remap", "ranges": ranges }));
    let after = control.ask(&json!({ "command": "stats" }));
    assert_eq!(before["programs_by_cause"], after["programs_by_cause"]);
    assert_eq!(after["bound_pages_by_remap"], 64);
    assert_eq!(after["host_remaps"], 1);
}

#[test]
fn invalid_control_commands_are_refused_with_a_sentence_and_change_nothing() {
    let served = ServedDevice::new("remap", 8 * MIB);
    let (mut client, mut control) = (served.client(), Control::of(&served));
    let bytes = pages(256, 5);
    client.write(0, &bytes);
    let range = |target: u64, source: u64, len: u64| {
        json!({ "command": "remap", "ranges": [{ "target": target, "source": source, "len": len }] })
            .to_string()
    };
    control.send_line_that_must_be_refused("", "not a valid command");
    control.send_line_that_must_be_refused("stats", "not a valid command");
    control.send_line_that_must_be_refused("{\"command\": \"format\"}", "format");
    control.send_line_that_must_be_refused("{\"command\": \"remap\"}", "ranges");
    control.send_line_that_must_be_refused("{\"command\": \"stats\", \"verbose\": true}", "verbose");
    // Bug: the copy was made in the working directory of the server.
    let snapshot = "{\"command\": \"snapshot\", \"directory\": \"relative\"}";
    control.send_line_that_must_be_refused(snapshot, "must have an absolute path");
    control.send_line_that_must_be_refused(&"[".repeat(100_000), "not a valid command");
    control.send_line_that_must_be_refused(&range(512, 0, PAGE_BYTES), "multiples of the page size");
    control.send_line_that_must_be_refused(&range(0, PAGE_BYTES, 100), "multiples of the page size");
    control.send_line_that_must_be_refused(&range(8 * MIB, 0, PAGE_BYTES), "beyond");
    control.send_line_that_must_be_refused(&range(0, u64::MAX - 4095, PAGE_BYTES), "beyond");
    control.send_line_that_must_be_refused(&range(0, 0, 1 << 40), "1 GiB");
    let overlapping =
        range(0, PAGE_BYTES, 2 * PAGE_BYTES).replace("\"command\"", "\"mode\":\"move\",\"command\"");
    control.send_line_that_must_be_refused(&overlapping, "overlap");
    let some_bad = json!({ "command": "remap", "ranges": [
        { "target": 4 * MIB, "source": 0, "len": PAGE_BYTES },
        { "target": 1, "source": 0, "len": PAGE_BYTES },
        { "target": 5 * MIB, "source": 0, "len": PAGE_BYTES },
    ] });
    let reply = control.send_line_that_must_be_refused(&some_bad.to_string(), "multiples of the page size");
    assert_eq!(reply["ranges"], 1, "it says how far it came");
    assert!(client.read(4 * MIB, 4096) == bytes[..4096]);
    assert_eq!(client.read(5 * MIB, 4096), [0; 4096]);
    assert!(client.read(0, 1 << 20) == bytes);
    served.stop();
}

/// Bug: the answer to a remap that failed in the middle of a range did not say which part of it was remapped. A remap
/// to a lower address proceeds upwards, a remap to a higher address downwards.
#[test]
fn a_remap_that_fails_in_a_range_reports_the_part_that_was_remapped() {
    for (target, source, part_from, part_pages) in [(16, 32, 0, 3), (48, 32, 4, 4)] {
        let mut device = specification("page-map", MIB).build().unwrap().into_live_device();
        device.write(32 * PAGE_BYTES, &pages(8, 5)).unwrap();
        // The first eight flash pages hold these logical pages.
        let medium: &mut dyn Any = device.medium_mut();
        medium.downcast_mut::<SimNand>().unwrap().make_uncorrectable(Ppn(3));
        let mut device = FlashDevice::new(device, DriveHealthFacts::default()).unwrap();
        let range =
            json!({ "target": target * PAGE_BYTES, "source": source * PAGE_BYTES, "len": 8 * PAGE_BYTES });
        let command = json!({ "command": "remap", "ranges": [range], "mode": "move" }).to_string();
        let reply: Value =
            serde_json::from_str(&answer_control_line(command.as_bytes(), &mut device)).unwrap();
        assert_eq!((&reply["ok"], &reply["ranges"]), (&json!(false), &json!(0)), "{reply}");
        let part = json!({
            "target": (target + part_from) * PAGE_BYTES,
            "source": (source + part_from) * PAGE_BYTES,
            "len": part_pages * PAGE_BYTES,
        });
        assert_eq!(reply["part_of_next_range"], part, "{reply}");
        // An error before anything was remapped has no part.
        let refused = command.replace(&format!("\"len\":{}", 8 * PAGE_BYTES), "\"len\":1");
        let reply: Value =
            serde_json::from_str(&answer_control_line(refused.as_bytes(), &mut device)).unwrap();
        assert_eq!((&reply["ok"], reply.get("part_of_next_range")), (&json!(false), None), "{reply}");
    }
}

#[test]
fn an_endless_line_on_the_control_socket_ends_the_connection() {
    let served = ServedDevice::new("page-map", 8 * MIB);
    let mut control = Control::of(&served);
    let _ = control.lines.get_mut().write_all(&vec![b'{'; 3 << 20]);
    let mut rest = String::new();
    assert!(control.lines.read_line(&mut rest).is_err() || rest.is_empty());
    assert_eq!(Control::of(&served).ask(&json!({ "command": "wa" }))["write_amplification"], 0.0);
}

/// Counters of pages are those of the engine, and counters of host bytes are those of NBD requests.
#[test]
fn counters_on_the_control_socket_equal_those_of_the_engine() {
    let served = ServedDevice::new("page-map", 8 * MIB);
    let (mut client, mut control) = (served.client(), Control::of(&served));
    let mut random = Random::new(6);
    for _ in 0..10_000 {
        client.write(random.below(2048) * PAGE_BYTES, &[random.next_u64() as u8; 4096]);
    }
    client.read(0, 8192);
    client.request_successfully(NBD_CMD_FLUSH, 0, 0, 0, &[]);
    let stats = control.ask(&json!({ "command": "stats" }));
    let wa = control.ask(&json!({ "command": "wa" }));
    let number = |value: &Value| value.as_u64().unwrap();
    assert_eq!(
        (number(&stats["host_writes"]), number(&stats["host_bytes_written"])),
        (10_000, 10_000 * PAGE_BYTES)
    );
    assert_eq!((number(&stats["host_reads"]), number(&stats["host_bytes_read"])), (1, 8192));
    assert_eq!(number(&stats["host_flushes"]), 1);
    let causes: u64 = stats["programs_by_cause"].as_object().unwrap().values().map(number).sum();
    assert_eq!(causes, number(&stats["programs"]));
    assert!(number(&stats["programs_by_cause"]["gc"]) > 0, "garbage collection has to be at work");
    let whole = wa["write_amplification"].as_f64().unwrap();
    let parts: f64 = wa["by_cause"].as_object().unwrap().values().map(|part| part.as_f64().unwrap()).sum();
    assert!((whole - parts).abs() < 1e-9 && whole > 1.0);
    let device = served.stop();
    assert_eq!(device.device().stats().total_programs(), number(&stats["programs"]));
}

/// A write-zeroes request counts as a write among the requests. Its pages count as written only with the flag
/// `NO_HOLE`.
#[test]
fn a_zero_request_counts_as_a_write_whose_pages_are_trimmed_or_written() {
    let served = ServedDevice::new("page-map", 8 * MIB);
    let (mut client, mut control) = (served.client(), Control::of(&served));
    client.write(0, &pages(8, 1));
    for (flags, trimmed_and_written) in [(0, (3, 0)), (NBD_CMD_FLAG_NO_HOLE, (0, 3))] {
        let before = control.ask(&json!({ "command": "stats" }));
        client.request_successfully(NBD_CMD_WRITE_ZEROES, flags, 0, 3 * PAGE_BYTES as u32, &[]);
        let after = control.ask(&json!({ "command": "stats" }));
        let added = |name: &str| after[name].as_u64().unwrap() - before[name].as_u64().unwrap();
        assert_eq!((added("host_page_trims"), added("host_page_writes")), trimmed_and_written);
        assert_eq!((added("host_writes"), added("host_trims"), added("host_bytes_written")), (1, 0, 0));
    }
}

/// Regression: a large trim or zero request is executed in steps, and each step was counted as a request.
#[test]
fn a_large_trim_or_zero_request_counts_as_one_request() {
    let served = ServedDevice::new("page-map", 48 * MIB);
    let (mut client, mut control) = (served.client(), Control::of(&served));
    let requests = [
        (NBD_CMD_TRIM, 0, "host_trims"),
        (NBD_CMD_WRITE_ZEROES, 0, "host_writes"),
        (NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_NO_HOLE, "host_writes"),
    ];
    for (command, flags, counter) in requests {
        let before = control.ask(&json!({ "command": "stats" }));
        client.request_successfully(command, flags, PAGE_BYTES, 40 * MIB as u32, &[]);
        let after = control.ask(&json!({ "command": "stats" }));
        for name in ["host_trims", "host_writes"] {
            let added = after[name].as_u64().unwrap() - before[name].as_u64().unwrap();
            assert_eq!(
                added,
                u64::from(name == counter),
                "{name} after command {command} with flags {flags}"
            );
        }
    }
}

/// Bug: the document on the control protocol (`docs/serve-protocol.md`) said that every counter of `stats` has the same
/// name in run records.
#[test]
fn the_protocol_document_lists_the_counters_that_have_another_name_in_run_records() {
    let served = ServedDevice::new("page-map", 8 * MIB);
    let stats = Control::of(&served).ask(&json!({ "command": "stats" }));
    let schema: Value = serde_json::from_str(include_str!("../../../docs/schema/runs.json")).unwrap();
    let record = schema["$defs"]["RunRecord"]["properties"].as_object().expect("the type of a run record");
    let document = include_str!("../../../docs/serve-protocol.md");
    let (_, counters) = document.split_once("### Counters").expect("a section on counters");
    let first_column = counters.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
    // Every other part between backticks is a name.
    let others: Vec<_> = first_column.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    for name in stats.as_object().unwrap().keys().filter(|&name| name != "ok") {
        let is_in_part_of_record = ["page_bytes", "collections", "bound_pages_by_remap"].contains(&&**name);
        let is_same = record.contains_key(name) || is_in_part_of_record;
        assert_ne!(is_same, others.contains(&&**name), "{name}: {others:?}");
    }
}

/// Data units are of 1000 sectors of 512 bytes, rounded up; wear is in percent of the rated cycles, rounded up.
#[test]
fn the_health_command_uses_the_names_and_units_of_an_nvme_health_log() {
    let settings = ["device.endurance_cycles=100"];
    let specification = wearwell_serve::memory_device::MemoryDeviceSpecification::new(
        "page-map",
        common::config(&settings),
        Some(8 * MIB),
    );
    let served = ServedDevice::of(specification.unwrap().build().unwrap());
    let (mut client, mut control) = (served.client(), Control::of(&served));
    let fresh = control.ask(&json!({ "command": "health" }));
    assert_eq!((&fresh["percent_used"], &fresh["avail_spare"]), (&json!(0), &json!(100)));
    assert_eq!((&fresh["power_cycles"], &fresh["unsafe_shutdowns"]), (&json!(1), &json!(0)));
    for round in 0..20_u8 {
        client.write(0, &vec![round; 4 << 20]);
        client.write(4 * MIB, &vec![round; 4 << 20]);
    }
    let health = control.ask(&json!({ "command": "health" }));
    let stats = control.ask(&json!({ "command": "stats" }));
    assert_eq!(health["data_units_written"], (160 * MIB).div_ceil(512_000));
    assert_eq!(health["host_write_commands"], 40);
    assert_eq!(health["physical_media_bytes_written"], stats["programs"].as_u64().unwrap() * PAGE_BYTES);
    let mean = health["mean_erase_count"].as_f64().unwrap();
    assert!(mean > 5.0, "{mean}");
    assert_eq!(health["percent_used"], mean.ceil() as u64);
    assert_eq!(health["critical_warning"], 0);
}
