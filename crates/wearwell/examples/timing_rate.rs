//! Benchmark of the timing engines: flash operations simulated per CPU second, without an FTL.
//!
//! The operations are those of uniform random page writes in GC steady state at 15 % over-provisioning: on every
//! die each 33rd host write brings a collection of 95 copies (read, then program) and an erase, so that a host
//! write costs about 6.8 flash operations. 64 dies on 8 channels, 4-KiB pages, tR 45 us, tPROG 400 us,
//! tBERS 3.5 ms, 1 GB/s per channel.
//!
//! Run with `cargo run --release -p wearwell --example timing_rate [requests [part of a case's name]]`.

#![expect(clippy::cast_sign_loss, reason = "arrival times are positive")]

use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::address::PlaneId;
use wearwell::nand::{FlashTiming, Geometry};
use wearwell::operation::{Cause, FlashOp, OpKind};
use wearwell::timing::{
    LatencySummary, RequestKind, SuspensionOptions, TimingEngine, TimingMode, TimingOptions,
};

/// Number of dies of the simulated drive.
const DIES: u32 = 64;
/// Number of host writes on a die per garbage collection on that die.
const WRITES_PER_COLLECTION: u32 = 33;
/// Number of valid pages that one garbage collection copies.
const COPIES_PER_COLLECTION: u32 = 95;
const PAGE_BYTES: u32 = 4096;
/// Latencies of the flash: read 45 us, program 400 us, erase 3.5 ms; transfer at 1 GB/s.
const FLASH: FlashTiming =
    FlashTiming { read_ns: 45_000, program_ns: 400_000, erase_ns: 3_500_000, transfer_ps_per_byte: 1000 };

/// Returns the geometry of the simulated drive: 64 dies on 8 channels, one plane per die.
fn geometry() -> Geometry {
    Geometry {
        channels: 8,
        dies_per_channel: 8,
        planes_per_die: 1,
        blocks_per_plane: 256,
        pages_per_block: 128,
        page_bytes: PAGE_BYTES,
        spare_bytes: 128,
        superblock_planes: 1,
    }
}

/// Returns a flash operation of this kind on `die`, with a transfer of one page unless it is an erase.
fn flash_op(die: u32, kind: OpKind, cause: Cause) -> FlashOp {
    let bytes = if kind == OpKind::Erase { 0 } else { PAGE_BYTES };
    FlashOp {
        plane: PlaneId(die),
        kind,
        cause,
        ops_back_to_dependency: 0,
        transfer_bytes: bytes,
        copied_page_or_nvram_line_count: 1,
    }
}

/// Returns the operations of a host write that triggers garbage collection on `die`: page copies, an erase, a program.
fn ops_of_write_with_collection(die: u32) -> Vec<FlashOp> {
    let copies = FlashOp {
        copied_page_or_nvram_line_count: COPIES_PER_COLLECTION,
        ..flash_op(die, OpKind::Copies, Cause::Gc)
    };
    vec![copies, flash_op(die, OpKind::Erase, Cause::Gc), flash_op(die, OpKind::Program, Cause::Host)]
}

/// Generator of the benchmark's requests: host writes and reads on random dies, with garbage collections.
struct RequestGenerator {
    /// For each die, the operations of a host write that triggers garbage collection; the last one is the program of
    /// the host page.
    ops_of_write_with_collection_by_die: Vec<Vec<FlashOp>>,
    /// For each die, the operation of a host read.
    reads: Vec<FlashOp>,
    /// Share of requests that are reads, 0 to 1.
    read_share: f64,
    /// For each die, the number of host writes since its last garbage collection.
    writes_since_collection_by_die: Vec<u32>,
    rng: Xoshiro256PlusPlus,
    /// Mean time between two requests, nanoseconds.
    mean_arrival_gap_ns: f64,
    /// Arrival time of the latest request, nanoseconds.
    last_arrival_ns: f64,
}

impl RequestGenerator {
    /// Creates requests with Poisson arrivals, whose writes keep the arrays busy for the share `load` of the time.
    fn new(load: f64, read_share: f64) -> Self {
        let transfer = FLASH.transfer_ns(PAGE_BYTES);
        let copies = u64::from(COPIES_PER_COLLECTION);
        let program = transfer + FLASH.program_ns;
        let collection = copies * (FLASH.read_ns + transfer + program) + FLASH.erase_ns;
        let per_write = program as f64 + collection as f64 / f64::from(WRITES_PER_COLLECTION);
        Self {
            ops_of_write_with_collection_by_die: (0..DIES).map(ops_of_write_with_collection).collect(),
            reads: (0..DIES).map(|die| flash_op(die, OpKind::Read, Cause::Host)).collect(),
            read_share,
            writes_since_collection_by_die: (0..DIES).map(|die| die % WRITES_PER_COLLECTION).collect(),
            rng: Xoshiro256PlusPlus::seed_from_u64(1),
            mean_arrival_gap_ns: per_write / f64::from(DIES) / load * (1.0 - read_share),
            last_arrival_ns: 0.0,
        }
    }

    /// Returns the kind of the next request and its flash operations.
    fn next_request(&mut self) -> (RequestKind, &[FlashOp]) {
        let die = self.rng.random_range(0..DIES as usize);
        if self.read_share > 0.0 && self.rng.random_bool(self.read_share) {
            return (RequestKind::Read, &self.reads[die..=die]);
        }
        self.writes_since_collection_by_die[die] += 1;
        let list = &self.ops_of_write_with_collection_by_die[die];
        if self.writes_since_collection_by_die[die] < WRITES_PER_COLLECTION {
            return (RequestKind::Write, &list[list.len() - 1..]);
        }
        self.writes_since_collection_by_die[die] = 0;
        (RequestKind::Write, list)
    }

    /// Returns the arrival time of the next request in nanoseconds; gaps are exponentially distributed.
    fn next_arrival_ns(&mut self) -> u64 {
        self.last_arrival_ns -= (1.0 - self.rng.random::<f64>()).ln() * self.mean_arrival_gap_ns;
        self.last_arrival_ns as u64
    }
}

/// Submits `writes` requests at random arrival times. Returns the number of their flash operations.
fn submit_open_loop_counting_ops(timing: &mut TimingEngine, load: &mut RequestGenerator, writes: u32) -> u64 {
    let mut ops = 0;
    for _ in 0..writes {
        let arrival = load.next_arrival_ns();
        let (kind, list) = load.next_request();
        ops += list.iter().map(FlashOp::flash_operation_count).sum::<u64>();
        timing.submit(kind, arrival, list);
    }
    ops
}

/// Submits `writes` requests with at most 256 in flight. Returns the number of their flash operations.
fn submit_closed_loop_counting_ops(
    timing: &mut TimingEngine,
    load: &mut RequestGenerator,
    writes: u32,
) -> u64 {
    let mut ops = 0;
    for _ in 0..writes {
        while timing.outstanding_requests() >= 256 {
            timing.run_to_next_completion_ns();
        }
        let (kind, list) = load.next_request();
        ops += list.iter().map(FlashOp::flash_operation_count).sum::<u64>();
        timing.submit(kind, timing.now_ns(), list);
    }
    ops
}

/// Returns the seconds for which this thread has run on a processor, or the wall seconds since `start` if the system
/// does not report them.
fn cpu_seconds(start: Instant) -> f64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|stat| stat.split_whitespace().next()?.parse::<f64>().ok())
        .map_or(start.elapsed().as_secs_f64(), |ns| ns / 1e9)
}

/// Function that submits a number of requests to a timing engine and returns the number of their flash operations.
type SubmitRequests = fn(&mut TimingEngine, &mut RequestGenerator, u32) -> u64;

/// A measured combination of timing mode, requests and kind of arrival; printed as one line of the table.
struct BenchmarkCase<'a> {
    /// Name of the measured combination, printed as the first column.
    name: &'a str,
    /// Timing engine that is measured.
    mode: TimingMode,
    /// Options of the measured timing engine.
    options: &'a TimingOptions,
    /// Function that submits the requests: in an open or a closed loop.
    submit_requests: SubmitRequests,
    /// Share of requests that are reads, 0 to 1.
    read_share: f64,
}

impl BenchmarkCase<'_> {
    /// Measures this combination three times and prints the fastest run.
    fn measure(&self, requests: u32) {
        let mut best = f64::MAX;
        let mut last = None;
        for _ in 0..3 {
            let mut timing = TimingEngine::new(self.mode, &geometry(), FLASH, self.options.clone());
            let mut load = RequestGenerator::new(0.6, self.read_share);
            let start = Instant::now();
            let before = cpu_seconds(start);
            let ops = (self.submit_requests)(&mut timing, &mut load, requests);
            best = best.min((cpu_seconds(start) - before) / ops as f64);
            last = Some((timing, ops));
        }
        let (timing, ops) = last.expect("three runs");
        self.print(best, f64::from(requests) / ops as f64, &timing);
    }

    /// Prints the measured rates and the latency percentiles as one line of the table.
    fn print(&self, seconds_per_op: f64, requests_per_op: f64, timing: &TimingEngine) {
        let kind = if self.read_share > 0.0 { RequestKind::Read } else { RequestKind::Write };
        let summary = LatencySummary::of_histogram(timing.latency_histogram(kind));
        println!(
            "{:<38} {:>6.1} M flash ops/s {:>6.2} ns/op {:>5.1} M requests/s  {kind:?} p50 {:>9.0} us p99 {:>9.0} us",
            self.name,
            1e-6 / seconds_per_op,
            seconds_per_op * 1e9,
            1e-6 / seconds_per_op * requests_per_op,
            summary.p50_ns as f64 / 1e3,
            summary.p99_ns as f64 / 1e3,
        );
    }
}

fn main() {
    let requests =
        std::env::args().nth(1).map_or(2_000_000, |text| text.parse().expect("a number of requests"));
    let plain = &TimingOptions::default();
    let suspend = Some(SuspensionOptions { resume_overhead_ns: 20_000, max_suspensions_per_op: 4 });
    let suspending = &TimingOptions { suspension: suspend, ..plain.clone() };
    let (open, closed): (SubmitRequests, SubmitRequests) =
        (submit_open_loop_counting_ops, submit_closed_loop_counting_ops);
    let cases = [
        ("none, open loop", TimingMode::None, plain, open, 0.0),
        ("timeline, open loop 60 %", TimingMode::Timeline, plain, open, 0.0),
        ("timeline, closed loop QD 256", TimingMode::Timeline, plain, closed, 0.0),
        ("event, open loop 60 %", TimingMode::Event, plain, open, 0.0),
        ("event, closed loop QD 256", TimingMode::Event, plain, closed, 0.0),
        ("event, 70 % reads, open loop", TimingMode::Event, plain, open, 0.7),
        ("event + suspend, 70 % reads, open loop", TimingMode::Event, suspending, open, 0.7),
    ];
    let wanted = std::env::args().nth(2).unwrap_or_default();
    for (name, mode, options, submit_requests, read_share) in
        cases.into_iter().filter(|case| case.0.contains(&wanted))
    {
        BenchmarkCase { name, mode, options, submit_requests, read_share }.measure(requests);
    }
}
