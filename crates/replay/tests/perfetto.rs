//! Tests of traces for the Perfetto viewer. A decoder that was written from Perfetto's public definitions reads them
//! back, and they must agree with the counts of the record.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use common::{generated_input, small_device_config};
use wearwell_replay::record::RunRecord;
use wearwell_replay::replay::{MAX_TRACED_OPS_AND_REQUESTS, Plan, ReplayError, RunTrace, TraceWindow};

use crate::common;

/// Workload of the traced runs, with reads and trims at a fixed rate.
const LOAD: &str = "zipf:pages=9000,requests=6000,read=0.4,trim=0.02,rate=4000";
/// Trace window that covers all requests of a run.
const WHOLE_RUN_WINDOW: &str = "..1000000000";

/// Replays a workload on a small drive, and records the part of the run that `window` names.
fn run_traced_design(settings: &[&str], load: &str, design: &str, window: &str) -> (RunRecord, RunTrace) {
    let all = ["precondition.mode=in-use", "timing.mode=event"];
    let (config, input) = (small_device_config(&[&all[..], settings].concat()), generated_input(load));
    let plan = Plan::new(&config, &input).unwrap();
    let window: TraceWindow = window.parse().unwrap();
    plan.run_traced(design, window, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// A field of a protobuf message: a number (varint or fixed64), or bytes.
#[derive(Clone, Copy, Debug)]
enum Field<'a> {
    /// A number of up to 64 bits.
    Number(u64),
    /// Bytes of a text or of an inner message.
    Bytes(&'a [u8]),
}

/// A protobuf message as its fields, each with its number.
struct Message<'a>(Vec<(u64, Field<'a>)>);

/// Reads a protobuf varint and advances `bytes` past it.
fn read_varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().expect("a number has an end");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a number of more than ten bytes")
}

impl<'a> Message<'a> {
    /// Parses the bytes of a protobuf message into fields.
    fn parse_message(mut bytes: &'a [u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = read_varint(&mut bytes);
            let field = match tag & 7 {
                0 => Field::Number(read_varint(&mut bytes)),
                1 => {
                    let (value, rest) = bytes.split_at(8);
                    bytes = rest;
                    Field::Number(u64::from_le_bytes(value.try_into().unwrap()))
                }
                2 => {
                    let length = read_varint(&mut bytes) as usize;
                    let (value, rest) = bytes.split_at(length);
                    bytes = rest;
                    Field::Bytes(value)
                }
                other => panic!("wire type {other}"),
            };
            fields.push((tag >> 3, field));
        }
        Self(fields)
    }

    /// Returns all values of the numeric field with this number.
    fn integer_fields(&self, number: u64) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().filter(move |field| field.0 == number).map(move |&(_, field)| match field {
            Field::Number(value) => value,
            Field::Bytes(_) => panic!("field {number} is no number"),
        })
    }

    /// Returns the first value of the numeric field with this number.
    fn integer_field(&self, number: u64) -> Option<u64> {
        self.integer_fields(number).next()
    }

    /// Returns all inner messages in the field with this number.
    fn message_fields(&self, number: u64) -> impl Iterator<Item = Message<'a>> + '_ {
        self.0.iter().filter(move |field| field.0 == number).map(move |&(_, field)| match field {
            Field::Bytes(bytes) => Message::parse_message(bytes),
            Field::Number(_) => panic!("field {number} is no message"),
        })
    }

    /// Returns the text in the field with this number.
    fn text_field(&self, number: u64) -> Option<String> {
        self.0.iter().find(|field| field.0 == number).map(|&(_, field)| match field {
            Field::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            Field::Number(_) => panic!("field {number} is no text"),
        })
    }
}

/// A slice (time span) of a track in a Perfetto trace, with everything that the viewer shows of it.
#[derive(Clone, Default, Debug)]
struct Slice {
    /// Identity of the track.
    track: u64,
    /// Name of the slice.
    name: String,
    /// Category of the slice.
    category: String,
    /// Start of the slice, nanoseconds.
    start_ns: u64,
    /// End of the slice, nanoseconds.
    end_ns: u64,
    /// Number of slices that enclose this slice on its track.
    depth: usize,
    /// Names and values of the arguments in order; a multi-plane group repeats some names.
    arguments: Vec<(String, String)>,
    /// Identifiers of the flows (arrows) that leave the slice.
    flow_ids: Vec<u64>,
    /// Identifiers of the flows (arrows) that end at the slice.
    ending_flow_ids: Vec<u64>,
}

impl Slice {
    /// Returns the length of the slice, nanoseconds.
    fn duration_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// Returns the number in the argument called `key`.
    fn number_argument(&self, key: &str) -> Option<u64> {
        let found = self.arguments.iter().find(|(name, _)| name == key)?;
        Some(found.1.parse().unwrap())
    }
}

/// Content of a decoded Perfetto trace: tracks, slices (time spans) and counters.
#[derive(Default, Debug)]
struct DecodedTrace {
    /// Name of each track, and the number of its parent track.
    tracks: BTreeMap<u64, (String, Option<u64>)>,
    /// Slices of all tracks.
    slices: Vec<Slice>,
    /// Samples of counters: name of the counter, time in nanoseconds, and value.
    counters: Vec<(String, u64, f64)>,
}

/// Protobuf field number of the table of category names, to which events refer by index (interned data).
const CATEGORY_NAMES_FIELD: u64 = 1;
/// Protobuf field number of the table of slice names, to which events refer by index.
const SLICE_NAMES_FIELD: u64 = 2;
/// Protobuf field number of the table of argument names, to which events refer by index.
const ARGUMENT_NAMES_FIELD: u64 = 3;
/// Protobuf field number of the table of argument texts, to which events refer by index.
const ARGUMENT_TEXTS_FIELD: u64 = 29;

/// Decodes a trace by Perfetto's definitions. Panics if times run backwards or slices do not nest.
fn decode(bytes: &[u8]) -> DecodedTrace {
    let mut decoded = DecodedTrace::default();
    let mut names: BTreeMap<(u64, u64), String> = BTreeMap::new();
    let mut open: BTreeMap<u64, Vec<Slice>> = BTreeMap::new();
    let mut last_ns = 0;
    for (index, packet) in Message::parse_message(bytes).message_fields(1).enumerate() {
        assert_eq!(packet.integer_field(10), Some(1), "one sequence of packets");
        assert_eq!(packet.integer_field(13), Some(if index == 0 { 1 } else { 2 }), "state of interned names");
        for track in packet.message_fields(60) {
            let process = track.message_fields(3).next().and_then(|process| process.text_field(6));
            let name = process.or_else(|| track.text_field(2)).expect("a track has a name");
            decoded.tracks.insert(track.integer_field(1).unwrap(), (name, track.integer_field(5)));
        }
        for interned in packet.message_fields(12) {
            for field in [CATEGORY_NAMES_FIELD, SLICE_NAMES_FIELD, ARGUMENT_NAMES_FIELD, ARGUMENT_TEXTS_FIELD]
            {
                for entry in interned.message_fields(field) {
                    names.insert((field, entry.integer_field(1).unwrap()), entry.text_field(2).unwrap());
                }
            }
        }
        let Some(event) = packet.message_fields(11).next() else { continue };
        let time_ns = packet.integer_field(8).unwrap();
        assert!(time_ns >= last_ns, "times fall");
        last_ns = time_ns;
        let track = event.integer_field(11).unwrap();
        let open = open.entry(track).or_default();
        match event.integer_field(9) {
            Some(1) => open.push(new_slice(&event, track, time_ns, open.len(), &names)),
            Some(2) => {
                let slice = open.pop().expect("a slice that ends has begun");
                decoded.slices.push(Slice { end_ns: time_ns, ..slice });
            }
            Some(4) => {
                let value = f64::from_bits(event.integer_field(44).unwrap());
                decoded.counters.push((decoded.tracks[&track].0.clone(), time_ns, value));
            }
            other => panic!("event of type {other:?}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "every slice ends");
    decoded
}

/// Makes the slice that a track event begins; `names` are the interned names by field and number.
fn new_slice(
    event: &Message<'_>,
    track: u64,
    start_ns: u64,
    depth: usize,
    names: &BTreeMap<(u64, u64), String>,
) -> Slice {
    let name = |field, number: Option<u64>| names[&(field, number.unwrap())].clone();
    let argument = |annotation: Message<'_>| {
        let text = annotation.integer_field(17).map(|number| name(ARGUMENT_TEXTS_FIELD, Some(number)));
        let value = text.unwrap_or_else(|| annotation.integer_field(3).unwrap().to_string());
        (name(ARGUMENT_NAMES_FIELD, annotation.integer_field(1)), value)
    };
    Slice {
        track,
        name: name(SLICE_NAMES_FIELD, event.integer_field(10)),
        category: name(CATEGORY_NAMES_FIELD, event.integer_field(3)),
        start_ns,
        depth,
        arguments: event.message_fields(4).map(argument).collect(),
        flow_ids: event.integer_fields(47).collect(),
        ending_flow_ids: event.integer_fields(48).collect(),
        ..Slice::default()
    }
}

impl DecodedTrace {
    /// Returns the name of the slice's track.
    fn track_name(&self, slice: &Slice) -> &str {
        &self.tracks[&slice.track].0
    }

    /// Returns the slices of all tracks whose name begins with `prefix`.
    fn slices_of_tracks<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Slice> + Clone {
        self.slices.iter().filter(move |slice| self.track_name(slice).starts_with(prefix))
    }
}

/// Checks that slices of `lanes` dies or channels (`sum_ns` in total) add up to the utilisation in the record.
fn assert_busy_time(sum_ns: u64, utilisation: f64, lanes: u32, record: &RunRecord, what: &str) {
    let expected = utilisation * f64::from(lanes) * record.timing.device_s * 1e9;
    assert!((sum_ns as f64 - expected).abs() <= 1.0 + expected * 1e-12, "{what}: {sum_ns}, {expected}");
}

/// Settings that give designs with a map on flash enough spare space for their metadata.
const SETTINGS_WITH_SPARE_SPACE_FOR_METADATA: [&str; 1] = ["device.over_provisioning=0.25"];
/// Settings of devices with suspension, multi-plane groups, independent planes, superblocks and foreground collection.
const DEVICE_SETTINGS: [&[&str]; 5] = [
    &[],
    &["timing.suspend=true", "timing.suspend_overhead_us=3.0"],
    &[
        "device.planes_per_die=2",
        "device.blocks_per_plane=32",
        "timing.multi_plane=true",
        "timing.suspend=true",
    ],
    &["device.planes_per_die=2", "device.blocks_per_plane=32", "timing.independent_planes=true"],
    &[
        "device.superblock_planes=2",
        "timing.blocking_gc=true",
        "replay.arrival=closed",
        "replay.queue_depth=7",
    ],
];

#[test]
fn perfetto_slices_add_up_to_the_busy_times_of_the_record() {
    for settings in DEVICE_SETTINGS {
        for design in ["page-map", "geckoftl"] {
            let (record, trace) = run_traced_design(
                &[settings, &SETTINGS_WITH_SPARE_SPACE_FOR_METADATA].concat(),
                LOAD,
                design,
                WHOLE_RUN_WINDOW,
            );
            let decoded = decode(&trace.to_perfetto());
            let layout = record.device.layout;
            let planes = if trace.has_independent_planes { layout.planes_per_die } else { 1 };
            // While an operation is suspended, the host reads that it is suspended for keep the die busy.
            let sum = |slices: Vec<&Slice>| slices.iter().map(|slice| slice.duration_ns()).sum::<u64>();
            let busy = sum(decoded.slices_of_tracks("die").filter(|slice| slice.depth == 0).collect());
            assert_busy_time(
                busy,
                record.timing.array_utilisation,
                record.device.dies() * planes,
                &record,
                "dies",
            );
            let transfers = sum(decoded.slices_of_tracks("channel").collect());
            assert_busy_time(
                transfers,
                record.timing.channel_utilisation,
                layout.channels,
                &record,
                "channels",
            );
            let by_cause = die_busy_ns_by_cause(&decoded);
            assert_eq!(by_cause.values().sum::<u64>(), busy, "{design}, {settings:?}: {by_cause:?}");
            assert!(by_cause.contains_key("gc"), "{design}: {by_cause:?}");
            assert_eq!(by_cause.contains_key("translation"), design == "geckoftl", "{by_cause:?}");
        }
    }
}

/// Returns the time that dies spent on each cause, nanoseconds; the time in which an operation is suspended is left
/// out.
fn die_busy_ns_by_cause(decoded: &DecodedTrace) -> BTreeMap<String, u64> {
    let mut by_cause: BTreeMap<String, i64> = BTreeMap::new();
    for slice in decoded.slices_of_tracks("die") {
        let sign = if slice.name == "suspended" { -1 } else { 1 };
        *by_cause.entry(slice.category.clone()).or_default() += sign * slice.duration_ns().cast_signed();
    }
    by_cause.into_iter().map(|(cause, ns)| (cause, ns.try_into().unwrap())).collect()
}

/// On the track of a die, slices do not overlap, except that a suspended operation encloses its suspension and the host
/// reads in it.
#[test]
fn perfetto_slices_of_a_die_overlap_only_where_an_operation_is_suspended() {
    let mut suspensions = 0;
    for settings in DEVICE_SETTINGS {
        let (_, trace) = run_traced_design(
            &[settings, &SETTINGS_WITH_SPARE_SPACE_FOR_METADATA].concat(),
            LOAD,
            "page-map",
            WHOLE_RUN_WINDOW,
        );
        let decoded = decode(&trace.to_perfetto());
        for slice in &decoded.slices {
            match (slice.depth, slice.name.as_str()) {
                (0, _) => {}
                (1, "suspended") => suspensions += 1,
                (2, name) => assert!(name.starts_with("host read"), "{slice:?}"),
                _ => panic!("{slice:?}"),
            }
        }
        let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
        let mut outer: Vec<&Slice> = decoded.slices.iter().filter(|slice| slice.depth == 0).collect();
        outer.sort_by_key(|slice| (slice.track, slice.start_ns));
        for slice in outer {
            let end = ends.insert(slice.track, slice.end_ns);
            assert!(end.is_none_or(|end| end <= slice.start_ns), "{slice:?} begins before {end:?}");
        }
    }
    assert!(suspensions > 100, "only {suspensions}");
}

#[test]
fn every_counted_flash_operation_is_a_perfetto_slice() {
    for design in ["page-map", "recyclable", "dftl", "geckoftl", "remap"] {
        let (record, trace) = run_traced_design(
            &["precondition.mode=fill", "device.over_provisioning=0.2"],
            LOAD,
            design,
            WHOLE_RUN_WINDOW,
        );
        let decoded = decode(&trace.to_perfetto());
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for slice in decoded.slices_of_tracks("die") {
            *counts.entry(&slice.name).or_default() += 1;
        }
        let kinds = [
            ("program", &record.programs_by_cause),
            ("read", &record.reads_by_cause),
            ("erase", &record.erases_by_cause),
        ];
        let mut counted = 0;
        for (kind, by_cause) in kinds {
            for (cause, count) in by_cause {
                assert_eq!(
                    counts.get(format!("{cause} {kind}").as_str()),
                    Some(count),
                    "{design}: {cause} {kind}"
                );
                counted += count;
            }
        }
        assert_eq!(counts.values().sum::<u64>(), counted, "{design}: {counts:?}");
    }
}

/// Bug: the flash reads of a recovery were attributed to the first request after the loss of power.
#[test]
fn perfetto_slices_of_a_recovery_belong_to_no_request() {
    for design in ["dftl", "geckoftl", "wearwell"] {
        let (record, trace) =
            run_traced_design(&["recovery.after_requests=3000"], LOAD, design, WHOLE_RUN_WINDOW);
        assert!(record.recovery.expect("power was lost").total.page_reads > 0, "{design}");
        let by_cause = die_busy_ns_by_cause(&decode(&trace.to_perfetto()));
        assert!(!by_cause.contains_key("recovery"), "{design}: {by_cause:?}");
    }
}

/// Tracing only observes the run, so that it changes no figure of the record.
#[test]
fn a_traced_run_has_the_record_of_an_untraced_run() {
    for settings in DEVICE_SETTINGS {
        for design in ["page-map", "dftl"] {
            let all = ["precondition.mode=in-use", "timing.mode=event"];
            let untraced = common::run_on_small_device(
                &[&all[..], settings, &SETTINGS_WITH_SPARE_SPACE_FOR_METADATA].concat(),
                LOAD,
                design,
            );
            let (record, _) = run_traced_design(
                &[settings, &SETTINGS_WITH_SPARE_SPACE_FOR_METADATA].concat(),
                LOAD,
                design,
                "100..200",
            );
            let without_machine = |record: RunRecord| RunRecord {
                cpu_seconds: 0.0,
                precondition_cpu_seconds: 0.0,
                peak_rss_bytes: 0,
                ..record
            };
            assert_eq!(without_machine(record), without_machine(untraced), "{design}, {settings:?}");
        }
    }
}

#[test]
fn perfetto_requests_have_their_latencies_and_arrows_to_their_operations() {
    let (record, trace) = run_traced_design(&[], LOAD, "dftl", WHOLE_RUN_WINDOW);
    let decoded = decode(&trace.to_perfetto());
    let requests: Vec<&Slice> = decoded.slices_of_tracks("requests").collect();
    assert_eq!(requests.len() as u64, record.trace.requests);
    let longest = |name: &str| {
        let of_kind = requests.iter().filter(|slice| slice.name == name);
        of_kind.map(|slice| slice.duration_ns() as f64 / 1000.0).fold(0.0, f64::max)
    };
    assert!((longest("write") - record.latency_us.write.max).abs() < 1e-6);
    assert!((longest("read") - record.latency_us.read.max).abs() < 1e-6);
    // An arrow leads from a request through the operation of a die to its transfer.
    let mut sources: BTreeMap<u64, &Slice> = BTreeMap::new();
    for slice in requests {
        assert!(slice.flow_ids.iter().all(|&flow| sources.insert(flow, slice).is_none()));
    }
    let mut ends = BTreeSet::new();
    for slice in decoded.slices_of_tracks("die").chain(decoded.slices_of_tracks("channel")) {
        for flow in slice.flow_ids.iter().chain(&slice.ending_flow_ids) {
            let request = sources[flow];
            assert!(request.start_ns <= slice.start_ns, "{request:?} {slice:?}");
            if let Some(number) = slice.number_argument("request") {
                assert_eq!(Some(number), request.number_argument("request"));
            }
        }
        assert!(slice.ending_flow_ids.iter().all(|&flow| ends.insert(flow)), "an arrow ends once: {slice:?}");
    }
    assert_eq!(ends, sources.keys().copied().collect(), "every arrow ends");
}

#[test]
fn perfetto_request_slices_carry_the_addresses_of_their_requests() {
    let (_, trace) = run_traced_design(&[], LOAD, "page-map", WHOLE_RUN_WINDOW);
    let decoded = decode(&trace.to_perfetto());
    let page_of = |slice: &Slice| slice.number_argument("offset_bytes").unwrap() / 4096;
    let requests = decoded
        .slices_of_tracks("requests")
        .map(|slice| (slice.number_argument("request").unwrap(), page_of(slice)));
    let page_of_request: BTreeMap<u64, u64> = requests.collect();
    let mut programs = 0;
    let mut places = BTreeSet::new();
    for slice in decoded.slices_of_tracks("die").filter(|slice| slice.name == "host program") {
        assert_eq!(
            slice.number_argument("lpn"),
            Some(page_of_request[&slice.number_argument("request").unwrap()]),
            "{slice:?}"
        );
        places.insert((slice.number_argument("block"), slice.number_argument("page"), slice.start_ns));
        programs += 1;
    }
    assert!(programs > 1000 && places.len() == programs, "{programs}");
}

#[test]
fn perfetto_counters_end_with_the_figures_of_the_record() {
    let settings = ["replay.arrival=closed", "replay.queue_depth=7"];
    let (record, trace) = run_traced_design(&settings, LOAD, "page-map", WHOLE_RUN_WINDOW);
    let decoded = decode(&trace.to_perfetto());
    let values = |name: &str| -> Vec<f64> {
        decoded.counters.iter().filter(|counter| counter.0 == name).map(|counter| counter.2).collect()
    };
    let last = *values("write amplification").last().unwrap();
    assert!((last - record.write_amplification).abs() < 0.001, "{last}, {}", record.write_amplification);
    let depth = values("queue depth");
    assert!((depth.iter().copied().fold(0.0, f64::max) - 7.0).abs() < 1e-9 && depth.last() == Some(&0.0));
    assert_eq!(values("free blocks").len() as u64, record.trace.requests);
}

#[test]
fn a_trace_window_contains_the_operations_that_overlap_it() {
    let (_, whole) = run_traced_design(&[], LOAD, "page-map", WHOLE_RUN_WINDOW);
    let (_, part) = run_traced_design(&[], LOAD, "page-map", "2000..2100");
    let arrival = |number| {
        whole
            .requests
            .iter()
            .find(|request| request.traced_request.request_number == number)
            .unwrap()
            .traced_request
    };
    let start = arrival(2000).arrival_ns;
    let end = (2000..2100).map(|number| arrival(number).completed_at_ns).max().unwrap();
    let expected: Vec<u64> = whole
        .flash_ops
        .iter()
        .filter(|op| op.start_ns < end && op.end_ns > start)
        .map(|op| op.op_number)
        .collect();
    assert!(expected.len() > 100);
    assert_eq!(part.flash_ops.iter().map(|op| op.op_number).collect::<Vec<_>>(), expected);
    assert!(
        (2000..2100).all(|number| part
            .requests
            .iter()
            .any(|request| request.traced_request.request_number == number))
    );
    let (from, to) = (start / 1000, end / 1000 + 1);
    let (_, period) = run_traced_design(&[], LOAD, "page-map", &format!("{from}us..{to}us"));
    let overlaps = |op: &&wearwell::timing::TracedOp| op.start_ns < to * 1000 && op.end_ns > from * 1000;
    assert!(period.flash_ops.iter().eq(whole.flash_ops.iter().filter(overlaps)));
    let (_, none) = run_traced_design(&[], LOAD, "page-map", "9000000..9000001");
    assert_eq!((none.flash_ops.len(), none.requests.len()), (0, 0));
}

#[test]
fn a_perfetto_trace_has_bounded_size() {
    let load = "uniform:pages=9000,requests=60000,read=0.1";
    let (record, trace) = run_traced_design(&["replay.arrival=closed"], load, "page-map", "..");
    assert!(
        record.programs + record.reads > MAX_TRACED_OPS_AND_REQUESTS as u64 + 20_000,
        "{}",
        record.programs
    );
    let size = trace.flash_ops.len() + trace.requests.len();
    assert!(
        trace.is_truncated
            && (MAX_TRACED_OPS_AND_REQUESTS..MAX_TRACED_OPS_AND_REQUESTS + 5000).contains(&size),
        "{size}"
    );
    let bytes = trace.to_perfetto().len();
    assert!(bytes < 300 * size, "{} bytes each", bytes / size);
    decode(&trace.to_perfetto());
}

#[test]
fn perfetto_traces_need_the_event_engine() {
    let (config, input) = (small_device_config(&["timing.mode=timeline"]), generated_input(LOAD));
    let plan = Plan::new(&config, &input).unwrap();
    let refused = plan.run_traced("page-map", TraceWindow::default(), &mut |_| ControlFlow::Continue(()));
    assert!(
        matches!(&refused, Err(ReplayError::Config(error)) if error.to_string().contains("timing.mode=event"))
    );
}

#[test]
fn trace_windows_are_ranges_of_requests_or_of_times() {
    let window = |text: &str| text.parse::<TraceWindow>();
    assert_eq!(window("5..9"), Ok(TraceWindow::Requests(5..9)));
    assert_eq!(window("..9"), Ok(TraceWindow::Requests(0..9)));
    assert_eq!(window("1.5s..1520ms"), Ok(TraceWindow::TimeNs(1_500_000_000..1_520_000_000)));
    assert_eq!(window("7us.."), Ok(TraceWindow::TimeNs(7000..u64::MAX)));
    for wrong in ["", "7", "9..5", "5..5", "1s..2", "a..b", "-1s..1s", "1h..2h"] {
        assert!(window(wrong).is_err(), "{wrong}");
    }
}
