//! Tests of the native trace format: copies of a trace are exact, and every damage is detected.

use fixtures::read_all;
use proptest::prelude::*;
use wearwell::address::RemapMode;
use wearwell::data::{ContentDescriptor, Fingerprint};
use wearwell_trace::{
    CsvWriter, Format, NativeWriter, Op, OpenOptions, Request, TraceError, TraceWriter, open_stream,
};

use crate::fixtures;

/// Returns the requests as a trace file in the native format.
fn to_native(requests: &[Request]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = NativeWriter::new(&mut file, "a test").unwrap();
    for request in requests {
        writer.write(request).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), requests.len() as u64);
    drop(writer);
    file
}

/// Returns the requests as a trace file in Wearwell's CSV.
fn to_csv(requests: &[Request]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = CsvWriter::new(&mut file).unwrap();
    for request in requests {
        writer.write(request).unwrap();
    }
    file
}

/// Reads all requests of a native trace file; panics at an error.
fn read_native(file: &[u8]) -> Vec<Request> {
    let (requests, end) = read_all(file, &OpenOptions::default());
    end.unwrap();
    requests
}

/// Generates content descriptors with one of few fingerprints, so that contents repeat, have consecutive fingerprints
/// and occur with different sizes.
fn any_descriptor() -> impl Strategy<Value = ContentDescriptor> {
    let fingerprint = prop_oneof![0..8_u64, Just(u64::MAX), any::<u64>()];
    let size = || prop_oneof![3 => Just(ContentDescriptor::UNKNOWN_SIZE), 2 => 0..3_u16, 1 => Just(4096_u16)];
    (fingerprint, size(), size()).prop_map(|(fingerprint, compressed_bytes, delta_bytes)| ContentDescriptor {
        fingerprint: Fingerprint(fingerprint),
        compressed_bytes,
        delta_bytes,
    })
}

/// Generates operations of trace requests, remaps in one case of four.
fn any_op() -> impl Strategy<Value = Op> {
    let remap = prop_oneof![Just(RemapMode::Copy), Just(RemapMode::Relocate)].prop_map(Op::Remap);
    let plain =
        prop::sample::select(vec![Op::Read, Op::Write, Op::Trim, Op::Zero, Op::Flush, Op::PhaseMarker]);
    prop_oneof![3 => plain, 1 => remap]
}

/// Generates requests within the limits of the native format, with or without page contents.
fn any_request() -> impl Strategy<Value = Request> {
    let offset = prop_oneof![(0..64_u64).prop_map(|page| page * 4096), 0..1_u64 << 62];
    let len = prop_oneof![(0..9_u64).prop_map(|pages| pages * 4096), 0..20_000_u64];
    let content = prop::collection::vec(any_descriptor(), 8);
    let time_ns = prop_oneof![0..1000_u64, any::<u64>()];
    let device = prop_oneof![3 => Just(0), 1 => any::<u32>()];
    (time_ns, any_op(), device, offset, len, content, any::<bool>()).prop_map(
        |(time_ns, op, device, offset_bytes, len_bytes, contents, known)| {
            let len_bytes = if matches!(op, Op::Flush | Op::PhaseMarker) { 0 } else { len_bytes };
            let mut request = Request { time_ns, op, device, offset_bytes, len_bytes, ..Request::default() };
            if matches!(op, Op::Remap(_)) {
                request.remap_source_offset_bytes = time_ns % (1 << 49) * 4096;
                request.offset_bytes &= !4095;
                request.len_bytes &= !4095;
            }
            let pages = request.pages();
            if known {
                request.content =
                    contents.into_iter().cycle().take((pages.end - pages.start) as usize).collect();
            }
            request
        },
    )
}

proptest! {
    #[test]
    fn requests_written_in_the_native_format_are_read_back_equal(mut requests in prop::collection::vec(any_request(), 0..200)) {
        prop_assert!(read_native(&to_native(&requests)) == requests);
        // Times of the CSV are relative to the first request.
        if let Some(base) = requests.first().map(|request| request.time_ns) {
            for request in &mut requests {
                request.time_ns = request.time_ns.max(base);
            }
            let file = to_csv(&requests);
            for request in &mut requests {
                request.time_ns -= base;
            }
            prop_assert!(read_native(&file) == requests);
        }
    }
}

/// Returns the requests of a trace whose contents extend over several frames (compressed groups of records).
fn long_trace() -> Vec<Request> {
    let content = |index: u64| ContentDescriptor {
        fingerprint: Fingerprint(if index.is_multiple_of(3) {
            index / 9
        } else {
            index.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        }),
        compressed_bytes: (index % 4096) as u16,
        delta_bytes: if index.is_multiple_of(7) { 5 } else { ContentDescriptor::UNKNOWN_SIZE },
    };
    let request = |index: u64| Request {
        time_ns: index * 1000 + index % 13,
        op: Op::Write,
        device: 0,
        offset_bytes: index * 7919 % 100_000 * 4096,
        len_bytes: 4096,
        content: vec![content(index)],
        payload: vec![],
        remap_source_offset_bytes: 0,
    };
    (0..70_000).map(request).collect()
}

#[test]
fn a_native_trace_of_several_frames_is_read_back_exactly() {
    let requests = long_trace();
    assert!(read_native(&to_native(&requests)) == requests);
}

#[test]
fn every_truncation_of_a_native_trace_is_detected() {
    let requests = &long_trace()[..300];
    let file = to_native(requests);
    for len in 8..file.len() {
        let (read, end) = read_all(&file[..len], &OpenOptions::default());
        let error = end.expect_err("a cut file must not look whole");
        assert_eq!(error.requests_before_damage(), Some(read.len() as u64), "{error}");
        assert!(read == requests[..read.len()]);
    }
}

#[test]
fn a_native_trace_cut_between_frames_delivers_the_frames_before() {
    let requests = long_trace();
    let file = to_native(&requests);
    let (read, end) = read_all(&file[..file.len() - 100], &OpenOptions::default());
    assert!(read.len() > 10_000 && read.len() < requests.len(), "{}", read.len());
    assert!(read == requests[..read.len()]);
    assert_eq!(end.unwrap_err().requests_before_damage(), Some(read.len() as u64));
    let (read, end) = read_all(&file[..file.len() - 44], &OpenOptions::default());
    assert!(read == requests && end.is_err(), "without its end record a whole trace counts as cut");
}

#[test]
fn every_flipped_bit_of_a_native_trace_is_detected() {
    let requests = &long_trace()[..40];
    let file = to_native(requests);
    for bit in 8 * 8..file.len() * 8 {
        let mut damaged = file.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let (_, end) = read_all(&damaged, &OpenOptions::default());
        assert!(end.is_err(), "bit {bit}");
    }
}

#[test]
fn bytes_after_the_end_record_of_a_native_trace_are_an_error() {
    let mut file = to_native(&long_trace()[..3]);
    file.push(0);
    let error = read_all(&file, &OpenOptions::default()).1.unwrap_err();
    assert!(
        error.to_string().contains(
            "(requests before that: 3): a native trace must end with its end record, but further bytes follow"
        ),
        "{error}"
    );
}

#[test]
fn skipping_bad_lines_does_not_hide_damage_of_a_native_trace() {
    let file = to_native(&long_trace()[..3]);
    let skip = OpenOptions { skips_bad_lines: true, ..OpenOptions::default() };
    assert!(read_all(&file[..file.len() - 1], &skip).1.is_err());
}

#[test]
fn a_native_trace_stores_its_provenance() {
    let reader = open_stream(std::io::Cursor::new(to_native(&[])), "f", &OpenOptions::default()).unwrap();
    assert_eq!(reader.provenance(), Some("a test"));
    let long = "x".repeat(70_000);
    assert!(matches!(NativeWriter::new(Vec::new(), &long), Err(TraceError::LongProvenance { .. })));
}

#[test]
fn the_native_writer_refuses_requests_that_its_reader_would_refuse() {
    let write = |request: Request| {
        let native = NativeWriter::new(Vec::new(), "").unwrap().write(&request);
        let csv = CsvWriter::new(Vec::new()).unwrap().write(&request);
        assert_eq!(native.is_err(), csv.is_err());
        native
    };
    let good = Request { op: Op::Write, len_bytes: 4096, ..Request::default() };
    assert!(write(good.clone()).is_ok());
    let refused = [
        Request { payload: vec![0; 4096], ..good.clone() },
        Request { content: vec![ContentDescriptor::of_fingerprint(Fingerprint(1)); 2], ..good.clone() },
        Request { len_bytes: (1 << 30) + 1, ..good.clone() },
        Request { offset_bytes: u64::MAX, ..good.clone() },
        Request { op: Op::Flush, ..good.clone() },
        Request { op: Op::PhaseMarker, ..good.clone() },
        Request { op: Op::Remap(RemapMode::Copy), remap_source_offset_bytes: 512, ..good.clone() },
        Request { op: Op::Remap(RemapMode::Relocate), offset_bytes: 1, ..good },
    ];
    for request in refused {
        assert!(matches!(write(request), Err(TraceError::UnwritableRequest { request_number: 1, .. })));
    }
}

/// The bytes must equal those of the example in `docs/TRACE-FORMAT.md`.
#[test]
fn the_native_writer_writes_the_documented_example() {
    let content =
        ContentDescriptor { compressed_bytes: 100, ..ContentDescriptor::of_fingerprint(Fingerprint(5)) };
    let request = Request { op: Op::Write, len_bytes: 4096, content: vec![content], ..Request::default() };
    let file = to_native(&[request]);
    let header = b"\x89WWT\r\n\x1a\n\x01\0\0\0\x00\x10\0\0\x06\0\0\0a test";
    assert_eq!(file[..header.len()], header[..]);
    let frame = &file[header.len() + 4..];
    assert_eq!(frame[..12], [1, 0, 0, 0, 1, 0, 0, 0, 15, 0, 0, 0]);
    let stored = u32::from_le_bytes(frame[12..16].try_into().unwrap()) as usize;
    let raw = zstd::decode_all(&frame[20..20 + stored]).unwrap();
    assert_eq!(raw, [0x31, 0, 0, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 100, 0]);
    let end = &frame[20 + stored..];
    assert_eq!(end[..16], [2, 0, 0, 0, 0, 0, 0, 0, 24, 0, 0, 0, 24, 0, 0, 0]);
    assert_eq!(end[20..], [1_u64, 1, 1].map(u64::to_le_bytes).concat());
}

#[test]
fn a_native_trace_of_another_version_is_refused_with_its_version_and_the_supported_one() {
    let request = Request { op: Op::Write, len_bytes: 4096, ..Request::default() };
    let mut file = to_native(&[request]);
    (file[8], file[10]) = (7, 2);
    let error = open_stream(std::io::Cursor::new(file), "f.wwt", &OpenOptions::default()).err().unwrap();
    let sentence = error.to_string();
    assert!(
        sentence.starts_with(
            "f.wwt: the trace cannot be read as a native one: the native trace has format version 7, flags 0x2 and"
        ),
        "{sentence}"
    );
    assert!(sentence.contains("reads only version 1, flags 0x0 and pages of 4096 bytes"), "{sentence}");
}

/// Files that were written before the format had remaps lack one column, and must stay readable.
#[test]
fn the_csv_without_a_source_column_is_read_and_has_no_remaps() {
    let as_csv = OpenOptions { format: Some(Format::Csv), ..OpenOptions::default() };
    let old = "time_ns,op,offset_bytes,len_bytes,device,fingerprints\n0,W,0,4096,0,5\n7,F,0,0,0,\n";
    let requests = read_native(old.as_bytes());
    assert_eq!(requests.iter().map(|request| request.op).collect::<Vec<_>>(), [Op::Write, Op::Flush]);
    let (_, end) = read_all(format!("{old}8,C,0,4096,0,\n").as_bytes(), &as_csv);
    assert!(matches!(end, Err(TraceError::BadLine { line_number: 4, .. })), "{end:?}");
}

/// In Wearwell's CSV, a remap without a source address and another request with one are refused.
#[test]
fn only_remap_requests_have_a_source_column_and_each_has_one() {
    let as_csv = OpenOptions { format: Some(Format::Csv), ..OpenOptions::default() };
    let header = "time_ns,op,offset_bytes,len_bytes,device,fingerprints,source_bytes\n";
    let good = format!("{header}0,M,8192,4096,0,,4096\n");
    assert_eq!(read_native(good.as_bytes())[0].remap_source_pages(), 1..2);
    for bad in ["0,M,8192,4096,0,,\n", "0,W,8192,4096,0,,4096\n", "0,C,8192,4096,0,,100\n"] {
        let (_, end) = read_all(format!("{header}{bad}").as_bytes(), &as_csv);
        assert!(matches!(end, Err(TraceError::BadLine { line_number: 2, .. })), "{bad}: {end:?}");
    }
}
