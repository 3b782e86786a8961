//! Measures how many records of a trace the readers decode per CPU second:
//! `cargo run --release -p wearwell-replay --example decode_rate`.
//!
//! Traces are made in memory and read as files are, decompression and format detection included. CPU time is the
//! kernel's count for this thread, since the wall clock of a shared machine says little. The best of five passes is
//! printed.

use std::fmt::Write as _;
use std::io::Cursor;
use std::time::Instant;

use wearwell::data::{ContentDescriptor, Fingerprint, mix_bits};
use wearwell_trace::{NativeWriter, Op, OpenOptions, Request, TraceWriter, open_stream};

/// Number of requests in each trace that is read.
const TRACE_REQUESTS: u64 = 3_000_000;
/// Number of times that each trace is read; the fastest pass counts.
const PASSES_PER_TRACE: usize = 5;

fn main() {
    println!("{:<28}{:>12}{:>16}{:>20}", "trace", "records", "bytes/record", "M records/CPU s");
    print_read_rate("native, one page", &native_trace(fill_random_page_request));
    print_read_rate("native, one page + content", &native_trace(fill_write_request_with_content));
    print_read_rate("MSR CSV", &msr_csv_trace(fill_random_page_request));
    print_read_rate(
        "MSR CSV in zstd",
        &zstd::encode_all(Cursor::new(msr_csv_trace(fill_random_page_request)), 1)
            .expect("memory takes everything"),
    );
}

/// Makes request number `index` a read or write of one page at a random address, a random time after the request
/// before.
fn fill_random_page_request(index: u64, request: &mut Request) {
    let random = mix_bits(index);
    request.time_ns += 100 * (random % 1000);
    request.op = if (random >> 32).is_multiple_of(4) { Op::Read } else { Op::Write };
    request.offset_bytes = (random >> 40) * 4096;
    request.len_bytes = 4096;
}

/// Makes request number `index` a write of one page with fingerprint and sizes; every fourth content has occurred
/// before.
fn fill_write_request_with_content(index: u64, request: &mut Request) {
    fill_random_page_request(index, request);
    let random = mix_bits(!index);
    let of = if random.is_multiple_of(4) { random % (index + 1) } else { index };
    let descriptor = ContentDescriptor {
        fingerprint: Fingerprint(mix_bits(of + 1)),
        compressed_bytes: (mix_bits(of) % 4097) as u16,
        delta_bytes: (random % 4097) as u16,
    };
    request.op = Op::Write;
    request.content = vec![descriptor];
}

/// Returns a trace of [`TRACE_REQUESTS`] requests in this project's binary format; `next` fills in each request.
fn native_trace(next: fn(u64, &mut Request)) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = NativeWriter::new(&mut file, "decode_rate").expect("memory takes everything");
    let mut request = Request::default();
    for index in 0..TRACE_REQUESTS {
        next(index, &mut request);
        writer.write(&request).expect("memory takes everything");
    }
    writer.finish().expect("memory takes everything");
    drop(writer);
    file
}

/// Returns a trace of [`TRACE_REQUESTS`] requests in the CSV format of the MSR traces; `next` fills in each request.
fn msr_csv_trace(next: fn(u64, &mut Request)) -> Vec<u8> {
    let mut text = String::new();
    let mut request = Request::default();
    for index in 0..TRACE_REQUESTS {
        next(index, &mut request);
        let time = 128_166_372_000_000_000 + request.time_ns / 100;
        let Request { op, offset_bytes, len_bytes, .. } = request;
        writeln!(text, "{time},host,0,{op:?},{offset_bytes},{len_bytes},{}", index % 10_000)
            .expect("a string grows");
    }
    text.into_bytes()
}

/// Prints how many million requests of the trace `file` are read per CPU second, in the fastest of several passes.
fn print_read_rate(name: &str, file: &[u8]) {
    let best =
        (0..PASSES_PER_TRACE).map(|_| read_trace_cpu_seconds(file.to_vec())).fold(f64::INFINITY, f64::min);
    let rate = TRACE_REQUESTS as f64 / best / 1e6;
    println!("{name:<28}{TRACE_REQUESTS:>12}{:>16.1}{rate:>20.1}", file.len() as f64 / TRACE_REQUESTS as f64);
}

/// Reads a trace once from its first to its last request, and returns the CPU seconds that this took.
fn read_trace_cpu_seconds(file: Vec<u8>) -> f64 {
    let mut request = Request::default();
    let start = cpu_seconds();
    let mut reader =
        open_stream(Cursor::new(file), "memory", &OpenOptions::default()).expect("it was just written");
    let mut sum = 0_u64;
    while reader.next(&mut request).expect("it was just written") {
        sum = sum.wrapping_add(request.offset_bytes ^ request.time_ns);
        sum = sum.wrapping_add(request.content.first().map_or(0, |descriptor| descriptor.fingerprint.0));
    }
    std::hint::black_box(sum);
    assert_eq!(reader.delivered_requests(), TRACE_REQUESTS);
    cpu_seconds() - start
}

/// Returns the CPU seconds that this process has used (on Linux); elsewhere, the seconds since the first call.
fn cpu_seconds() -> f64 {
    /// Time of the first call, from which seconds are counted if the system does not report CPU time.
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let start = START.get_or_init(Instant::now);
    let schedule = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanoseconds = schedule.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| start.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}
