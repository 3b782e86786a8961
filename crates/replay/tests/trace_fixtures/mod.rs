//! Small traces made by hand, one per format, with the requests that they stand for.

#![allow(dead_code)] // every test binary uses its own part of them

use wearwell_replay::trace::Op::{self, Flush, Read, Trim, Write, Zero};
use wearwell_replay::trace::{
    Action, Assume, Format, OpenOptions, Request, TimeUnit, TraceError, open_stream,
};

/// Time, operation, device, offset, length.
pub type Row = (u64, Op, u32, u64, u64);

pub struct Fixture {
    pub name: &'static str,
    pub format: Format,
    pub options: OpenOptions,
    pub bytes: Vec<u8>,
    pub rows: Vec<Row>,
}

/// Reads everything; gives the requests before an error, too.
pub fn read_all(bytes: &[u8], options: &OpenOptions) -> (Vec<Request>, Result<u64, TraceError>) {
    let mut all = Vec::new();
    let mut reader = match open_stream(std::io::Cursor::new(bytes.to_vec()), "fixture", options) {
        Ok(reader) => reader,
        Err(error) => return (all, Err(error)),
    };
    let mut request = Request::default();
    loop {
        match reader.next(&mut request) {
            Ok(true) => all.push(request.clone()),
            Ok(false) => return (all, Ok(reader.rejected().count)),
            Err(error) => return (all, Err(error)),
        }
    }
}

pub fn row(request: &Request) -> Row {
    (request.time_ns, request.op, request.device, request.offset_bytes, request.len_bytes)
}

/// 8:16 and 8:17 as the kernel packs them.
const SDB: u32 = 8 * (1 << 20) + 16;
const SDB1: u32 = 8 * (1 << 20) + 17;
const FIU1: u32 = 8 * (1 << 20) + 1;
const FIU2: u32 = 8 * (1 << 20) + 2;

fn text(name: &'static str, format: Format, bytes: &[u8], rows: &[Row]) -> Fixture {
    let options = OpenOptions::default();
    Fixture { name, format, options, bytes: bytes.to_vec(), rows: rows.to_vec() }
}

pub fn fixtures() -> Vec<Fixture> {
    let mut all = text_fixtures();
    all.extend(binary_fixtures());
    all
}

fn text_fixtures() -> Vec<Fixture> {
    let mqsim = OpenOptions { time_unit: Some(TimeUnit::Nanoseconds), ..OpenOptions::default() };
    let completed = OpenOptions { action: Action::Complete, ..OpenOptions::default() };
    let queued = OpenOptions { action: Action::Queue, ..OpenOptions::default() };
    vec![
        text("msr", Format::Msr, include_bytes!("../data/small.msr.csv"), &msr_rows()),
        text("spc", Format::Spc, include_bytes!("../data/small.spc"), &spc_rows()),
        text("alibaba", Format::Alibaba, include_bytes!("../data/small.alibaba.csv"), &alibaba_rows()),
        text("tencent", Format::Tencent, include_bytes!("../data/small.tencent.csv"), &tencent_rows()),
        text("disksim", Format::DiskSim, include_bytes!("../data/small.disksim"), &disksim_rows()),
        Fixture {
            options: mqsim,
            ..text("mqsim", Format::MqSim, include_bytes!("../data/small.mqsim"), &mqsim_rows())
        },
        text("wiscsee", Format::Wiscsee, include_bytes!("../data/small.wiscsee.txt"), &wiscsee_rows()),
        Fixture {
            options: completed,
            ..text(
                "wiscsee C",
                Format::Wiscsee,
                include_bytes!("../data/small.wiscsee.txt"),
                &wiscsee_c_rows(),
            )
        },
        text("fio 2", Format::Fio, include_bytes!("../data/small.fio2"), &fio2_rows()),
        text("fio 3", Format::Fio, include_bytes!("../data/small.fio3"), &fio3_rows()),
        text("blkparse", Format::Blkparse, include_bytes!("../data/small.blkparse.txt"), &blkparse_rows()),
        Fixture {
            options: queued,
            ..text(
                "blkparse Q",
                Format::Blkparse,
                include_bytes!("../data/small.blkparse.txt"),
                &blkparse_q_rows(),
            )
        },
        text("fiu", Format::Fiu, include_bytes!("../data/small.fiu"), &fiu_rows()),
        text("fiu tabs", Format::Fiu, include_bytes!("../data/small.fiu.tsv"), &fiu_rows()),
        text("capture", Format::Capture, include_bytes!("../data/small.ops"), &capture_rows()),
        text("systor", Format::Systor, include_bytes!("../data/small.systor.csv"), &systor_rows()),
        text("csv", Format::Csv, include_bytes!("../data/small.csv"), &csv_rows()),
    ]
}

fn msr_rows() -> Vec<Row> {
    vec![
        (0, Read, 0, 8192, 4096),
        (1_000, Write, 0, 12_288, 8192),
        (2_500, Write, 1, 512, 1024),
        (2_500, Read, 1, 0, 512),
        (10_000, Write, 0, 1 << 40, 65_536),
        (9_000, Read, 2, 4096, 4096),
        (1_000_000, Write, 0, 8192, 4096),
        (2_000_000, Write, 0, 8192, 4096),
        (3_000_000, Read, 0, 20_480, 12_288),
        (1_000_000_000, Write, 2, 7, 9),
    ]
}

fn spc_rows() -> Vec<Row> {
    vec![
        (0, Write, 0, 8192, 4096),
        (125_000, Write, 0, 12_288, 8192),
        (250_000_000, Read, 1, 8192, 512),
        (1_000_001_000, Read, 1, 3584, 1024),
        (1_500_000_000, Write, 2, 512_000_000, 24_576),
        (2_000_000_000, Read, 0, 8192, 4096),
        (2_000_000_001, Write, 0, 0, 512),
        (3_250_000_000, Read, 4, 1536, 1536),
        (3_250_000_000, Write, 4, 1536, 1536),
        (10_000_000_000, Write, 5, 20_480, 4096),
    ]
}

fn alibaba_rows() -> Vec<Row> {
    vec![
        (0, Write, 17, 4096, 4096),
        (3_000, Write, 17, 8192, 16_384),
        (100_000, Read, 18, 0, 512),
        (100_000, Read, 17, 4096, 4096),
        (1_000_000, Write, 19, 107_374_182_400, 4096),
        (1_001_000, Write, 19, 107_374_186_496, 4096),
        (2_000_000, Read, 18, 1536, 1024),
        (500_000_000, Write, 17, 4096, 4096),
        (1_000_000_000, Read, 17, 12_288, 8192),
        (1_000_001_000, Write, 20, 3, 5),
    ]
}

fn tencent_rows() -> Vec<Row> {
    let second = 1_000_000_000;
    vec![
        (0, Write, 301, 4096, 4096),
        (0, Write, 301, 8192, 12_288),
        (0, Read, 302, 0, 512),
        (second, Read, 301, 4096, 4096),
        (second, Write, 303, 1_024_000_000, 32_768),
        (second, Write, 303, 1_024_032_768, 32_768),
        (3 * second, Read, 302, 1536, 1024),
        (3 * second, Write, 301, 4096, 4096),
        (10 * second, Read, 301, 12_288, 8192),
        (60 * second, Write, 304, 3584, 1536),
    ]
}

/// The two blank-separated formats tell the same story in different units.
fn five_columns(unit_ns: u64, times: [u64; 10]) -> Vec<Row> {
    let addresses = [
        (Write, 0, 8, 8),
        (Write, 0, 16, 16),
        (Read, 1, 100, 1),
        (Read, 1, 101, 3),
        (Read, 0, 8, 8),
        (Write, 2, 4096, 128),
        (Write, 2, 4224, 128),
        (Read, 0, 0, 8),
        (Write, 0, 24, 8),
        (Read, 3, 7, 9),
    ];
    let row = |((op, device, sector, sectors), time): ((Op, u32, u64, u64), u64)| {
        (time * unit_ns, op, device, sector * 512, sectors * 512)
    };
    addresses.into_iter().zip(times).map(row).collect()
}

fn disksim_rows() -> Vec<Row> {
    five_columns(
        1,
        [
            0,
            250_000,
            1_000_000,
            1_500_000,
            2_750_000,
            10_000_000,
            10_000_001,
            500_125_000,
            1_000_000_000,
            60_000_500_000,
        ],
    )
}

pub fn mqsim_rows() -> Vec<Row> {
    five_columns(1, [0, 250, 1000, 1500, 2750, 9000, 9001, 499_125, 999_000, 59_999_500])
}

fn systor_rows() -> Vec<Row> {
    vec![
        (0, Write, 4, 8192, 4096),
        (2_000, Read, 4, 8192, 4096),
        (499_999_000, Read, 5, 512, 1024),
        (1_000_000_000, Write, 4, 1 << 40, 65_536),
        (60_000_000_000, Write, 6, 5, 3),
    ]
}

fn wiscsee_rows() -> Vec<Row> {
    vec![
        (0, Read, 0, 0, 4096),
        (1_000_000, Write, 0, 8192, 8192),
        (2_000_000, Trim, 0, 1_048_576, 65_536),
        (1_000_000_001, Write, 0, 512, 1024),
        (2_500_000_000, Read, 0, 8192, 4096),
    ]
}

fn wiscsee_c_rows() -> Vec<Row> {
    vec![
        (0, Read, 0, 0, 4096),
        (1_400_000, Write, 0, 8192, 8192),
        (2_000_000, Trim, 0, 1_048_576, 65_536),
        (999_900_501, Write, 0, 512, 1024),
        (2_499_903_000, Read, 0, 8192, 4096),
    ]
}

fn fio2_rows() -> Vec<Row> {
    vec![
        (0, Write, 0, 0, 4096),
        (0, Write, 0, 4096, 8192),
        (250_000, Read, 1, 512, 1024),
        (1_000_000, Flush, 0, 0, 0),
        (1_000_000, Trim, 0, 8192, 4096),
        (1_000_000, Flush, 1, 0, 0),
        (1_000_000, Write, 1, 65_536, 65_536),
    ]
}

fn fio3_rows() -> Vec<Row> {
    vec![
        (0, Write, 0, 0, 4096),
        (10_000, Write, 0, 4096, 8192),
        (260_000, Read, 1, 512, 1024),
        (1_000_000, Flush, 0, 0, 0),
        (1_010_000, Trim, 0, 8192, 4096),
        (1_020_000, Flush, 1, 0, 0),
        (2_000_000_000, Write, 1, 65_536, 65_536),
    ]
}

fn blkparse_rows() -> Vec<Row> {
    vec![
        (0, Write, SDB, 1_048_576, 4096),
        (200_000, Read, SDB, 2_097_152, 32_768),
        (1_000_000, Trim, SDB1, 4_194_304, 1_048_576),
        (2_000_000, Flush, SDB, 0, 0),
        (3_000_000, Write, SDB, 8192, 4096),
        (5_000_000, Zero, SDB, 12_288, 4096),
    ]
}

fn blkparse_q_rows() -> Vec<Row> {
    vec![
        (0, Write, SDB, 1_048_576, 4096),
        (200_000, Read, SDB, 2_097_152, 32_768),
        (1_000_000, Trim, SDB1, 4_194_304, 1_048_576),
        (2_000_000, Flush, SDB, 0, 0),
        (3_000_000, Write, SDB, 8192, 4096),
    ]
}

fn fiu_rows() -> Vec<Row> {
    vec![
        (0, Write, FIU1, 4096, 4096),
        (500, Write, FIU1, 8192, 8192),
        (1000, Read, FIU1, 4096, 4096),
        (2000, Write, FIU1, 12_288, 4096),
        (3000, Write, FIU2, 2048, 4096),
        (4000, Write, FIU1, 16_384, 512),
        (5000, Write, FIU1, 16_384, 4096),
        (6000, Write, FIU1, 20_480, 4096),
        (7000, Write, FIU1, 24_576, 4608),
        (9000, Write, FIU1, 4096, 4096),
    ]
}

pub fn capture_rows() -> Vec<Row> {
    vec![
        (0, Flush, 0, 0, 0),
        (10_000, Write, 0, 0, 12_288),
        (15_000, Read, 0, 0, 8192),
        (20_000, Write, 0, 32_768, 16_384),
        (30_000, Trim, 0, 0, 4096),
        (40_000, Zero, 0, 65_536, 131_072),
        (60_000, Write, 0, 0, 4096),
        (70_000, Flush, 0, 0, 0),
    ]
}

fn csv_rows() -> Vec<Row> {
    vec![
        (0, Write, 0, 0, 8192),
        (10, Write, 0, 512, 4096),
        (20, Read, 0, 0, 4096),
        (30, Trim, 1, 4096, 1_048_576),
        (40, Zero, 1, 0, 4096),
        (50, Flush, 0, 0, 0),
        (60, Write, 2, 4096, 4096),
        (70, Write, 2, 4096, 4096),
        (80, Write, 2, 1, 1),
        (90, Read, 0, 0, 4096),
    ]
}

/// Bytes of a record from numbers and their widths.
fn record(little: bool, numbers: &[(u64, usize)]) -> Vec<u8> {
    let bytes = |&(number, width): &(u64, usize)| {
        if little {
            number.to_le_bytes()[..width].to_vec()
        } else {
            number.to_be_bytes()[8 - width..].to_vec()
        }
    };
    numbers.iter().flat_map(bytes).collect()
}

fn binary(name: &'static str, format: Format, bytes: Vec<u8>, rows: Vec<Row>) -> Fixture {
    Fixture { name, format, options: OpenOptions::default(), bytes, rows }
}

fn binary_fixtures() -> Vec<Fixture> {
    let oracle = OpenOptions {
        format: Some(Format::OracleGeneral),
        assume: Some(Assume::Writes),
        ..OpenOptions::default()
    };
    vec![
        binary("blktrace little", Format::Blktrace, blktrace(true), blktrace_rows()),
        binary("blktrace big", Format::Blktrace, blktrace(false), blktrace_rows()),
        binary("vscsi 1", Format::Vscsi, vscsi(1), vscsi_rows()),
        binary("vscsi 2", Format::Vscsi, vscsi(2), vscsi_rows()),
        binary("nbd", Format::Nbd, nbd(), nbd_rows()),
        Fixture {
            options: oracle,
            ..binary("oracle-general", Format::OracleGeneral, oracle_general(), oracle_general_rows())
        },
    ]
}

/// Time, sector, bytes, categories, stage, payload length.
fn blktrace(little: bool) -> Vec<u8> {
    const WRITE: u64 = 1 << 17;
    let events = [
        (5000, 8, 4096, WRITE, 1, 0),
        (7000, 8, 4096, WRITE, 7, 0),
        (8000, 16, 8192, 1 << 16, 7, 5),
        (8500, 0, 0, 1 << 26, 7, 12),
        (9000, 0, 0, 1 << 18, 7, 0),
        (9500, 1024, 65_536, 1 << 29 | WRITE, 7, 0),
        (9600, 0, 36, 1 << 25, 7, 3),
        (9900, 8, 4096, WRITE, 8, 0),
        (10_000, 24, 512, WRITE | 1 << 19, 7, 65),
    ];
    let event = |(index, &(time, sector, bytes, category, stage, payload)): (
        usize,
        &(u64, u64, u64, u64, u64, u64),
    )| {
        let mut event = record(
            little,
            &[
                (0x6561_7407, 4),
                (index as u64 + 1, 4),
                (time, 8),
                (sector, 8),
                (bytes, 4),
                (category | stage, 4),
                (77, 4),
                (u64::from(SDB), 4),
                (1, 4),
                (0, 2),
                (payload, 2),
            ],
        );
        event.extend(vec![b'x'; payload as usize]);
        event
    };
    events.iter().enumerate().flat_map(event).collect()
}

fn blktrace_rows() -> Vec<Row> {
    vec![
        (0, Write, SDB, 4096, 4096),
        (1000, Read, SDB, 8192, 8192),
        (2000, Flush, SDB, 0, 0),
        (2500, Trim, SDB, 524_288, 65_536),
        (3000, Write, SDB, 12_288, 512),
    ]
}

/// Command, block, length, time.
fn vscsi(version: u64) -> Vec<u8> {
    let commands = [
        (0x2a, 8, 4096, 70),
        (0x28, 16, 512, 75),
        (0x12, 0, 36, 76),
        (0x8a, 1 << 32, 65_536, 80),
        (0x35, 0, 0, 90),
        (0x93, 64, 32_768, 95),
        (0x08, 3, 1024, 1070),
    ];
    let command = |(index, &(command, block, len, time)): (usize, &(u64, u64, u64, u64))| {
        let (sequence, segments) = (index as u64, 1);
        let tag = (version << 8, 2);
        match version {
            1 => record(
                true,
                &[(sequence, 4), (len, 4), (segments, 4), (command, 2), tag, (block, 8), (time, 8)],
            ),
            _ => record(
                true,
                &[(command, 2), tag, (sequence, 4), (len, 4), (segments, 4), (block, 8), (time, 8), (33, 8)],
            ),
        }
    };
    commands.iter().enumerate().flat_map(command).collect()
}

fn vscsi_rows() -> Vec<Row> {
    vec![
        (0, Write, 0, 4096, 4096),
        (5_000, Read, 0, 8192, 512),
        (10_000, Write, 0, 1 << 41, 65_536),
        (20_000, Flush, 0, 0, 0),
        (25_000, Zero, 0, 32_768, 32_768),
        (1_000_000, Read, 0, 1536, 1024),
    ]
}

/// Flags, command, offset, length; every other request is followed by a reply.
fn nbd() -> Vec<u8> {
    let requests = [
        (0, 0, 1024, 1024),
        (0, 1, 4096, 8192),
        (1, 1, 8192, 4096),
        (0, 3, 0, 0),
        (0, 4, 65_536, 65_536),
        (0, 6, 131_072, 4096),
        (0, 2, 0, 0),
    ];
    let request = |(handle, &(flags, command, offset, len)): (usize, &(u64, u64, u64, u64))| {
        let handle = handle as u64;
        let mut bytes =
            record(false, &[(0x2560_9513, 4), (flags, 2), (command, 2), (handle, 8), (offset, 8), (len, 4)]);
        if handle.is_multiple_of(2) {
            bytes.extend(record(false, &[(0x6744_6698, 4), (0, 4), (handle, 8)]));
        }
        bytes
    };
    requests.iter().enumerate().flat_map(request).collect()
}

fn nbd_rows() -> Vec<Row> {
    vec![
        (0, Read, 0, 1024, 1024),
        (0, Write, 0, 4096, 8192),
        (0, Write, 0, 8192, 4096),
        (0, Flush, 0, 0, 0),
        (0, Trim, 0, 65_536, 65_536),
        (0, Zero, 0, 131_072, 4096),
    ]
}

fn oracle_general() -> Vec<u8> {
    let requests = [(100, 8, 4096), (100, 16, 8192), (101, 8, 4096), (160, 1_000_000, 512)];
    let request = |&(time, object, size): &(u64, u64, u64)| {
        record(true, &[(time, 4), (object, 8), (size, 4), (u64::MAX, 8)])
    };
    requests.iter().flat_map(request).collect()
}

fn oracle_general_rows() -> Vec<Row> {
    vec![
        (0, Write, 0, 4096, 4096),
        (0, Write, 0, 8192, 8192),
        (1_000_000_000, Write, 0, 4096, 4096),
        (60_000_000_000, Write, 0, 512_000_000, 512),
    ]
}
