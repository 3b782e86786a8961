//! The native format: arbitrary requests survive a copy, and arbitrary frames behind good checksums are refused
//! or read, never worse.
//!
//! A first byte below 128 makes the rest the raw records of one frame, so that the decoder is reached through the
//! checksums; otherwise the rest is any text trace, which is copied and compared.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use wearwell_trace::{Format, NativeWriter, OpenOptions, Request, TraceWriter, open_stream};

fuzz_target!(|input: &[u8]| {
    let Some((&choice, rest)) = input.split_first() else { return };
    if choice < 128 { decode(u32::from(choice) + 1, rest) } else { copy(rest) }
});

fn requests(file: Vec<u8>, options: &OpenOptions) -> (Vec<Request>, bool) {
    let mut all = Vec::new();
    let Ok(mut reader) = open_stream(Cursor::new(file), "input", options) else { return (all, false) };
    let mut request = Request::default();
    loop {
        match reader.next(&mut request) {
            Ok(true) => all.push(request.clone()),
            Ok(false) => return (all, true),
            Err(_) => return (all, false),
        }
    }
}

/// Decodes a file with one frame of these raw records. The file has no end record, so the reader must report it as
/// incomplete.
fn decode(records: u32, raw: &[u8]) {
    let mut file = Vec::new();
    drop(NativeWriter::new(&mut file, "").expect("a vector takes everything"));
    let stored = stored_block(raw);
    let mut header = Vec::new();
    for word in [1, records, raw.len() as u32, stored.len() as u32] {
        header.extend(word.to_le_bytes());
    }
    let sum = crc32(&[&header[..], &stored].concat());
    file.extend(header);
    file.extend(sum.to_le_bytes());
    file.extend(stored);
    let (read, whole) = requests(file, &OpenOptions::default());
    assert!(!whole && read.len() <= records as usize);
    round_trip(&read);
}

fn copy(text: &[u8]) {
    let options = OpenOptions { format: Some(Format::Csv), skips_bad_lines: true, ..OpenOptions::default() };
    let header = b"time_ns,op,offset_bytes,len_bytes,device,fingerprints,source_bytes\n";
    round_trip(&requests([header, text].concat(), &options).0);
}

/// Checks that requests which a reader accepted can be written, and are then read as the same requests.
fn round_trip(read: &[Request]) {
    if read.iter().map(|request| request.content.len()).sum::<usize>() > 100_000 {
        return;
    }
    let mut file = Vec::new();
    let mut writer = NativeWriter::new(&mut file, "").expect("a vector takes everything");
    for request in read {
        writer.write(request).expect("a reader accepted it");
    }
    writer.finish().expect("a vector takes everything");
    drop(writer);
    let (again, whole) = requests(file, &OpenOptions::default());
    assert!(whole && again == read);
}

/// Returns a zstd frame with one uncompressed block (at most 64 KiB here), so that no compressor slows the fuzzer down.
fn stored_block(raw: &[u8]) -> Vec<u8> {
    let raw = &raw[..raw.len().min(65_535)];
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    frame.extend((raw.len() as u32).to_le_bytes());
    frame.extend(&(((raw.len() as u32) << 3) | 1).to_le_bytes()[..3]);
    frame.extend(raw);
    frame
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, &byte: &u8| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    };
    !bytes.iter().fold(u32::MAX, step)
}
