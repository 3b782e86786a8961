//! Tests of the statistics of traces, and of the translation to addresses without gaps, on traces small enough to check
//! by hand.

#![expect(clippy::float_cmp)] // quotients of the same small numbers are equal

use std::fmt::Write as _;
use std::io::Cursor;

use wearwell_trace::{Footprint, Op, OpenOptions, Request, TraceError, TraceInfo, open_stream};

/// Header line of a trace in Wearwell's CSV, without remaps.
const HEADER: &str = "time_ns,op,offset_bytes,len_bytes,device,fingerprints\n";

/// Returns a reader of a CSV trace with these lines after its header.
fn open_csv_rows(rows: &str) -> Box<dyn wearwell_trace::TraceReader> {
    open_stream(Cursor::new(format!("{HEADER}{rows}")), "rows", &OpenOptions::default()).unwrap()
}

/// Returns the statistics of a CSV trace with these lines after its header.
fn info_of_csv_rows(rows: &str) -> TraceInfo {
    TraceInfo::of_requests(open_csv_rows(rows).as_mut()).unwrap()
}

#[test]
fn unaligned_requests_count_every_page_they_touch() {
    let info = info_of_csv_rows("0,W,4095,2,0,\n5,R,1,1,0,\n9,R,0,0,0,\n");
    assert_eq!((info.pages.write, info.unique_pages_written, info.pages.read), (2, 2, 1));
    assert_eq!((info.max_end_bytes, info.duration_ns, info.devices), (4097, 9, 1));
    assert_eq!(info.write_share, 1.0 / 3.0);
    assert_eq!(info.written_mib, 2.0 / 1_048_576.0);
}

#[test]
fn a_write_after_a_trim_of_the_whole_page_is_no_overwrite() {
    let written = info_of_csv_rows("0,W,0,8192,0,\n1,W,0,8192,0,\n");
    assert_eq!((written.share_of_overwriting_writes, written.share_of_writes_to_written_pages), (0.5, 0.5));
    let trimmed = info_of_csv_rows("0,W,0,8192,0,\n1,T,0,4096,0,\n2,W,0,8192,0,\n");
    assert_eq!((trimmed.share_of_overwriting_writes, trimmed.share_of_writes_to_written_pages), (0.25, 0.5));
    let in_part = info_of_csv_rows("0,W,0,8192,0,\n1,T,0,4095,0,\n2,W,0,8192,0,\n");
    assert_eq!(in_part.share_of_overwriting_writes, 0.5, "a page trimmed in part still holds data");
    let wide = info_of_csv_rows("0,W,0,8192,0,\n1,T,0,17592186044416,0,\n2,W,0,8192,0,\n");
    assert_eq!(wide.share_of_overwriting_writes, 0.0, "a trim of 16 TiB is no loop over its pages");
    let elsewhere = info_of_csv_rows("0,W,0,8192,0,\n1,T,0,17592186044416,1,\n2,W,0,8192,0,\n");
    assert_eq!(elsewhere.share_of_overwriting_writes, 0.5, "another device");
}

#[test]
fn written_contents_are_counted_as_duplicate_silent_or_zero() {
    // a new, b new | a duplicate elsewhere | a silent and duplicate | zero, zero again
    let rows = "0,W,0,8192,0,a b\n1,W,8192,4096,0,a\n2,W,8192,4096,0,a\n3,W,0,4096,0,0\n4,W,0,4096,0,0\n5,R,0,4096,0,\n";
    let info = info_of_csv_rows(rows);
    let content = info.content.unwrap();
    assert_eq!((content.known_pages, content.distinct), (6, 3));
    assert_eq!(content.duplicate_share, 2.0 / 6.0);
    assert_eq!(content.silent_share, 2.0 / 6.0);
    assert_eq!(content.zero_share, 2.0 / 6.0);
}

#[test]
fn a_trim_or_a_write_without_content_clears_the_known_page_content() {
    let content = |rows| info_of_csv_rows(rows).content.unwrap().silent_share;
    assert_eq!(content("0,W,0,4096,0,a\n1,W,0,4096,0,a\n"), 0.5);
    assert_eq!(content("0,W,0,4096,0,a\n1,T,0,4096,0,\n2,W,0,4096,0,a\n"), 0.0);
    assert_eq!(content("0,W,0,4096,0,a\n1,W,0,4096,0,\n2,W,0,4096,0,a\n"), 0.0);
}

#[test]
fn a_damaged_trace_reports_the_counts_before_the_damage() {
    let row = |i: u64| format!("{i},W,{},4096,0,{:x}\n", i * 7919 % 65_536 * 4096, i * i);
    let text = (0..40_000).map(row).fold(HEADER.to_owned(), |text, row| text + &row);
    let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
    let cut = packed[..packed.len() / 2].to_vec();
    let mut reader = open_stream(Cursor::new(cut), "cut", &OpenOptions::default()).unwrap();
    let info = TraceInfo::of_requests(reader.as_mut()).unwrap();
    assert!(info.requests.write > 1000);
    assert!(info.damage.unwrap().contains(&format!("(requests before that: {})", info.requests.write)));
}

/// The statistics of a trace file contain the SHA-256 of the file, and are unchanged after they are written as JSON and
/// read back.
#[test]
fn trace_info_has_the_file_digest_and_survives_json() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/small.msr.csv");
    let info = TraceInfo::of_file(&path, &OpenOptions::default()).unwrap();
    assert_eq!(info.sha256.as_ref().unwrap().len(), 64);
    let json = serde_json::to_string(&info).unwrap();
    assert!(json.contains("\"format\":\"msr\""), "{json}");
    assert_eq!(serde_json::from_str::<TraceInfo>(&json).unwrap(), info);
}

#[test]
fn a_footprint_numbers_the_touched_pages_in_address_order() {
    // Device 0: pages 5, 6 and 1000; device 3: page 0. The trim and the flush touch nothing.
    let rows = "0,W,4096000,4096,0,\n1,R,20480,8192,0,\n2,T,0,40960,0,\n3,F,0,0,0,\n4,Z,100,1,3,\n";
    let footprint = Footprint::of_trace(open_csv_rows(rows).as_mut()).unwrap();
    assert_eq!(footprint.touched_page_count(), 4);
    let dense: Vec<_> =
        [5, 6, 1000].into_iter().map(|page| footprint.compacted_page_number(0, page)).collect();
    assert_eq!(dense, [Some(0), Some(1), Some(2)]);
    assert_eq!(footprint.compacted_page_number(3, 0), Some(3));
    for (device, page) in [(0, 0), (0, 4), (0, 7), (0, 999), (0, 1001), (3, 1), (2, 5), (4, 0)] {
        assert_eq!(footprint.compacted_page_number(device, page), None);
    }
}

/// A request that is translated to addresses without gaps keeps the order of its pages, and the offset of its first and
/// last byte in their page.
#[test]
fn address_compaction_keeps_page_order_and_offsets_in_pages() {
    let rows = "0,W,20490,5000,0,\n1,W,4096000,4096,0,\n2,Z,100,1,3,\n";
    let footprint = Footprint::of_trace(open_csv_rows(rows).as_mut()).unwrap();
    let compact = |op, device, offset_bytes, len_bytes| {
        let mut request = Request { op, device, offset_bytes, len_bytes, ..Request::default() };
        footprint.compact_request_addresses(&mut request);
        assert_eq!(request.device, 0);
        (request.offset_bytes, request.len_bytes)
    };
    assert_eq!(compact(Op::Write, 0, 20_490, 5000), (10, 5000));
    assert_eq!(compact(Op::Write, 0, 4_096_000, 4096), (8192, 4096));
    assert_eq!(compact(Op::Zero, 3, 100, 1), (12_288 + 100, 1));
    assert_eq!(compact(Op::Trim, 0, 0, 1 << 40), (0, 12_288), "all of device 0");
    assert_eq!(compact(Op::Trim, 0, 22_528, 1 << 40), (2048, 10_240), "from inside the first page");
    assert_eq!(compact(Op::Trim, 0, 0, 22_528), (0, 2048), "up to inside the first page");
    assert_eq!(compact(Op::Trim, 0, 40_960, 4096).1, 0, "between touched pages");
    assert_eq!(compact(Op::Flush, 7, 0, 0), (0, 0));
}

#[test]
fn a_compacted_trace_repeats_the_counts_of_the_original() {
    let mut rows = String::new();
    for i in 0..3000_u64 {
        let op = ["W", "W", "R", "T", "Z"][(i % 5) as usize];
        writeln!(rows, "{i},{op},{},{},{},", i * i * 512 % (1 << 34), i * 37 % 30_000, i % 3).unwrap();
    }
    let footprint = Footprint::of_trace(open_csv_rows(&rows).as_mut()).unwrap();
    let mut reader = open_csv_rows(&rows);
    let mut compacted = String::new();
    let mut request = Request::default();
    while reader.next(&mut request).unwrap() {
        let before = request.clone();
        footprint.compact_request_addresses(&mut request);
        if before.op != Op::Trim {
            assert_eq!(before.len_bytes, request.len_bytes);
        }
        assert!(request.end_offset_bytes() <= u64::from(footprint.touched_page_count()) * 4096);
        let Request { time_ns, op, offset_bytes, len_bytes, .. } = request;
        writeln!(compacted, "{time_ns},{},{offset_bytes},{len_bytes},0,", op.csv_letter()).unwrap();
    }
    let (original, small) = (info_of_csv_rows(&rows), info_of_csv_rows(&compacted));
    assert_eq!(original.unique_pages_written, small.unique_pages_written);
    assert_eq!(original.share_of_overwriting_writes, small.share_of_overwriting_writes);
    assert_eq!((original.pages.read, original.pages.write), (small.pages.read, small.pages.write));
}

#[test]
fn the_error_for_a_missing_trace_names_the_file() {
    let error = wearwell_trace::open("no/such.trace".as_ref(), &OpenOptions::default()).err().unwrap();
    assert!(
        matches!(error, TraceError::CannotOpen { .. }) && error.to_string().starts_with("no/such.trace: "),
        "{error}"
    );
}

/// A remap changes the contents of pages without a write. Overwrites, silent writes and trims that follow are counted
/// by these contents.
#[test]
fn trace_info_moves_page_contents_with_remaps() {
    let rows = [
        "0,W,0,8192,0,1 2,",
        "1,C,8192,8192,0,,0",
        // Page 3 holds content 2 by the copy: overwritten, and silently.
        "2,W,12288,4096,0,2,",
        "3,M,16384,4096,0,,0",
        // Page 0 moved away: not overwritten. Page 4 holds content 1.
        "4,W,0,4096,0,7,",
        "5,W,16384,4096,0,1,",
        "6,P,0,0,0,,",
    ];
    let csv = format!(
        "{}\n{}\n",
        "time_ns,op,offset_bytes,len_bytes,device,fingerprints,source_bytes",
        rows.join("\n")
    );
    let mut reader = open_stream(Cursor::new(csv.into_bytes()), "f", &OpenOptions::default()).unwrap();
    let info = TraceInfo::of_requests(reader.as_mut()).unwrap();
    assert_eq!((info.requests.remap, info.pages.remap, info.requests.phase, info.pages.write), (2, 3, 1, 5));
    assert_eq!(info.share_of_overwriting_writes, 2.0 / 5.0);
    assert_eq!(info.content.unwrap().silent_share, 2.0 / 5.0);
    assert_eq!(info.unique_pages_written, 4);
    assert_eq!(info.max_end_bytes, 20_480);
}

#[test]
fn a_footprint_contains_source_and_target_pages_of_remaps() {
    let csv =
        "time_ns,op,offset_bytes,len_bytes,device,fingerprints,source_bytes\n0,C,4096000,8192,0,,40960\n";
    let open = || open_stream(Cursor::new(csv.as_bytes()), "f", &OpenOptions::default()).unwrap();
    let footprint = Footprint::of_trace(open().as_mut()).unwrap();
    assert_eq!(footprint.touched_page_count(), 4);
    let mut request = Request::default();
    open().next(&mut request).unwrap();
    footprint.compact_request_addresses(&mut request);
    assert_eq!((request.offset_bytes, request.len_bytes, request.remap_source_offset_bytes), (8192, 8192, 0));
}
