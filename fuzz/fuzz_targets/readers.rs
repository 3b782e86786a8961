//! Every reader on arbitrary input.
//!
//! The first byte chooses format (or detection) and options, the rest is the file. What is checked is what consumers
//! rely on: no panic, no endless loop, requests inside the limits.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use wearwell_trace::{
    AssumedOp, BlockLayerStage, Format, OpenOptions, REQUEST_MAX_BYTES, Request, TimeUnit, TraceInfo,
    open_stream,
};

fn options(choice: u8) -> OpenOptions {
    let format = Format::ALL.get(usize::from(choice & 31)).copied();
    let has_stages = matches!(format, Some(Format::Blkparse | Format::Blktrace | Format::Wiscsee));
    OpenOptions {
        format,
        block_layer_stage: if has_stages && choice & 32 != 0 {
            BlockLayerStage::Queue
        } else {
            BlockLayerStage::Issue
        },
        time_unit: (format == Some(Format::MqSim) && choice & 64 != 0).then_some(TimeUnit::Microseconds),
        assumed_op: (format == Some(Format::OracleGeneral)).then_some(AssumedOp::Writes),
        skips_bad_lines: choice & 128 != 0,
        ..OpenOptions::default()
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, file)) = input.split_first() else { return };
    let options = options(choice);
    let open = || open_stream(Cursor::new(file.to_vec()), "input", &options);
    let Ok(mut reader) = open() else { return };
    let mut request = Request::default();
    let mut pages = 0;
    while let Ok(true) = reader.next(&mut request) {
        let touched = request.pages();
        let count = touched.end - touched.start;
        assert!(request.content.is_empty() || request.content.len() as u64 == count);
        assert!(request.len_bytes <= REQUEST_MAX_BYTES << 14);
        pages += count;
    }
    // Counting is proportional to the pages touched, which a short file can make as many as it likes.
    if pages < 10_000 {
        let _ = TraceInfo::of_requests(open().expect("it opened before").as_mut());
    }
});
