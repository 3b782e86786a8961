//! Tests of the timing engines: exact latencies of small cases, agreement with a naive simulator, and queueing theory.

#![expect(clippy::cast_sign_loss, reason = "arrival times are positive")]

#[path = "timing/reference.rs"]
mod reference;
#[path = "timing/traced.rs"]
mod traced;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use reference::NaiveTimingSimulator;
use wearwell::address::PlaneId;
use wearwell::nand::{FlashTiming, Geometry};
use wearwell::operation::{Cause, FlashOp, NVRAM_LINE_BYTES, OpKind};
use wearwell::timing::{
    Completion, ControllerWork, FreeBlocksPerArray, LatencySummary, RequestKind, SuspensionOptions,
    TimingEngine, TimingMode, TimingOptions,
};

use crate::common::test_case_interval;

/// Read time of a page (tR), nanoseconds.
const READ_NS: u64 = 45_000;
/// Program time of a page (tPROG), nanoseconds.
const PROGRAM_NS: u64 = 400_000;
/// Erase time of a block (tBERS), nanoseconds.
const ERASE_NS: u64 = 3_500_000;
/// Transfer time of a 4-KiB page at 1 GB/s, nanoseconds.
const TRANSFER_NS: u64 = 4096;
/// Times of flash operations in these tests.
const FLASH: FlashTiming =
    FlashTiming { read_ns: READ_NS, program_ns: PROGRAM_NS, erase_ns: ERASE_NS, transfer_ps_per_byte: 1000 };

/// Returns a geometry with these numbers of channels, dies and planes.
fn geometry(channels: u32, dies_per_channel: u32, planes_per_die: u32) -> Geometry {
    Geometry {
        channels,
        dies_per_channel,
        planes_per_die,
        blocks_per_plane: 16,
        pages_per_block: 16,
        page_bytes: 4096,
        spare_bytes: 64,
        superblock_planes: 1,
    }
}

/// Returns a flash operation of one 4-KiB page on a plane, without dependency.
fn op(kind: OpKind, cause: Cause, plane: u32) -> FlashOp {
    let bytes = if kind == OpKind::Erase { 0 } else { 4096 };
    FlashOp {
        plane: PlaneId(plane),
        kind,
        cause,
        ops_back_to_dependency: 0,
        transfer_bytes: bytes,
        copied_page_or_nvram_line_count: 1,
    }
}

/// Returns a host read of one page on a plane.
fn read(plane: u32) -> FlashOp {
    op(OpKind::Read, Cause::Host, plane)
}

/// Returns a host program of one page on a plane.
fn program(plane: u32) -> FlashOp {
    op(OpKind::Program, Cause::Host, plane)
}

/// Returns a flash operation for GC on a plane.
fn gc_op(kind: OpKind, plane: u32) -> FlashOp {
    op(kind, Cause::Gc, plane)
}

/// Returns `op` with a dependency: it starts only after the end of the operation that is `back` positions earlier in
/// the list.
fn with_dependency(back: u16, op: FlashOp) -> FlashOp {
    FlashOp { ops_back_to_dependency: back, ..op }
}

/// Returns default options of the timing engine that keep the completion times of requests.
fn keeping_completions() -> TimingOptions {
    TimingOptions { keeps_completions: true, ..TimingOptions::default() }
}

/// Returns options by which reads suspend programs and erases, each at most `max_suspensions_per_op` times. A resumed
/// operation takes `overhead_ns` nanoseconds longer.
fn options_with_suspension(overhead_ns: u64, max_suspensions_per_op: u32) -> TimingOptions {
    TimingOptions {
        suspension: Some(SuspensionOptions { resume_overhead_ns: overhead_ns, max_suspensions_per_op }),
        ..keeping_completions()
    }
}

/// Requests of a test: arrival time (nanoseconds) and flash operations of each.
type Script<'a> = &'a [(u64, &'a [FlashOp])];

/// Returns the completion time of each request of a script, nanoseconds, in ascending order, with this timing model.
fn completion_times_with_engine_ns(
    mode: TimingMode,
    geometry: &Geometry,
    options: TimingOptions,
    script: Script,
) -> Vec<u64> {
    let mut timing = TimingEngine::new(mode, geometry, FLASH, options);
    for &(arrival, ops) in script {
        timing.submit(RequestKind::Write, arrival, ops);
    }
    timing.run_to_completion_ns();
    let mut done = timing.take_completions();
    assert_eq!(done.len(), script.len(), "every request completes exactly once");
    done.sort();
    done.iter().map(|completion| completion.completed_at_ns).collect()
}

/// Returns the completion time of each request of a script, nanoseconds, in ascending order, with the event engine.
fn completion_times_ns(geometry: &Geometry, options: TimingOptions, script: Script) -> Vec<u64> {
    completion_times_with_engine_ns(TimingMode::Event, geometry, options, script)
}

#[test]
fn an_idle_device_answers_in_exactly_the_datasheet_time() {
    let parts = [
        (1000, 4096, 4096),
        (2500, 16384, 40960),
        (833, 512, 426),
        (25_000, 2048, 51200),
        (417, 65536, 27329),
    ];
    for (ps_per_byte, bytes, transfer) in parts {
        let flash = FlashTiming { transfer_ps_per_byte: ps_per_byte, ..FLASH };
        for mode in [TimingMode::Timeline, TimingMode::Event] {
            let mut timing = TimingEngine::new(mode, &geometry(2, 2, 1), flash, keeping_completions());
            timing.submit(RequestKind::Read, 7, &[FlashOp { transfer_bytes: bytes, ..read(3) }]);
            timing.submit(RequestKind::Write, 10_000_000, &[FlashOp { transfer_bytes: bytes, ..program(3) }]);
            timing.submit(RequestKind::Trim, 20_000_000, &[gc_op(OpKind::Erase, 0)]);
            timing.run_to_completion_ns();
            let mut done = timing.take_completions();
            done.sort();
            let found: Vec<u64> = done.iter().map(|completion| completion.latency_ns).collect();
            assert_eq!(
                found,
                [READ_NS + transfer, transfer + PROGRAM_NS, 0],
                "{mode:?}, {bytes} bytes at {ps_per_byte} ps"
            );
        }
    }
}

#[test]
fn without_timing_every_request_completes_on_arrival() {
    let mut timing = TimingEngine::new(TimingMode::None, &geometry(1, 1, 1), FLASH, keeping_completions());
    assert_eq!(timing.submit(RequestKind::Read, 5, &[read(0)]), 0);
    assert_eq!(
        (timing.outstanding_requests(), timing.run_to_next_completion_ns(), timing.now_ns()),
        (0, None, 5)
    );
    assert_eq!(timing.take_completions()[0].latency_ns, 0);
}

#[test]
fn controller_overhead_is_added_once_per_request() {
    let options = TimingOptions { controller_overhead_ns: 3000, ..keeping_completions() };
    for mode in [TimingMode::Timeline, TimingMode::Event] {
        let script: Script = &[(0, &[]), (100, &[read(0), read(1)])];
        let found = completion_times_with_engine_ns(mode, &geometry(2, 1, 1), options.clone(), script);
        assert_eq!(found, [3000, 100 + READ_NS + TRANSFER_NS + 3000]);
    }
}

#[test]
fn a_device_is_idle_after_its_last_completion() {
    for mode in [TimingMode::Timeline, TimingMode::Event] {
        let mut timing = TimingEngine::new(mode, &geometry(2, 1, 1), FLASH, keeping_completions());
        assert!(timing.complete_requests_until(5), "nothing was asked");
        timing.submit(RequestKind::Read, 100, &[read(0)]);
        timing.submit(RequestKind::Write, 200, &[program(1)]);
        assert!(
            !timing.complete_requests_until(200 + TRANSFER_NS + PROGRAM_NS - 1),
            "{mode:?}: the write is not answered"
        );
        assert_eq!(timing.outstanding_requests(), 1, "{mode:?}");
        assert!(timing.complete_requests_until(10 * PROGRAM_NS), "{mode:?}");
        assert_eq!(timing.now_ns(), 200 + TRANSFER_NS + PROGRAM_NS, "{mode:?}: time stops at the answer");
    }
}

/// The open-loop option states that requests arrive independently of completions, so the engine keeps less in memory.
/// It must not change a completion time.
#[test]
fn the_open_loop_option_changes_no_completion_time() {
    for mode in [TimingMode::Timeline, TimingMode::Event] {
        let [told, asked] = [true, false].map(|is_open_loop| {
            let options = TimingOptions { is_open_loop, ..keeping_completions() };
            let mut timing = TimingEngine::new(mode, &geometry(2, 1, 1), FLASH, options);
            timing.submit(RequestKind::Read, 100, &[read(0)]);
            timing.submit(RequestKind::Write, 200, &[program(1)]);
            let early = timing.complete_requests_until(200 + TRANSFER_NS + PROGRAM_NS - 1);
            let late = timing.complete_requests_until(10 * PROGRAM_NS);
            (early, late, timing.now_ns(), timing.run_to_completion_ns(), timing.take_completions())
        });
        assert_eq!(told, asked, "{mode:?}");
        assert_eq!((told.0, told.1), (false, true), "{mode:?}");
    }
}

/// A delta is made in three steps: sensing on the chip, transfer on the bus, encoding on the processor (Delta-FTL,
/// section 3.3.2). The steps of successive deltas overlap, as in a pipeline, so `n` deltas of one chip take `n` times
/// the longest step: 25 us of sensing, 40 us of transfer, or the encoding time at 304, 619 and 934 MHz. If codec units
/// are unlimited, all deltas are encoded in parallel.
#[test]
fn deltas_pending_on_one_chip_each_take_the_longest_of_sensing_transfer_and_encoding() {
    let flash = FlashTiming { read_ns: 25_000, transfer_ps_per_byte: 40_000_000 / 4096, ..FLASH };
    let count = 2000;
    for mode in [TimingMode::Timeline, TimingMode::Event] {
        let ends_us = |delta_codec_units, encode_us: f64| {
            let options =
                TimingOptions { delta_codec_units, has_independent_planes: true, ..keeping_completions() };
            let mut timing = TimingEngine::new(mode, &geometry(1, 1, 4), flash, options);
            let codec_ns = (encode_us * 1000.0) as u64;
            let work = ControllerWork {
                work_parallel_to_other_requests_ns: codec_ns,
                delta_codec_work_ns: codec_ns,
                nvram_store_ns: 0,
            };
            for plane in (0..4).cycle().take(count) {
                timing.submit_with_controller_work(RequestKind::Write, 0, work, &[read(plane)]);
            }
            timing.run_to_completion_ns();
            let last = timing.take_completions().into_iter().map(|done| done.completed_at_ns).max();
            last.expect("something completed") as f64 / 1000.0
        };
        for encode_us in [89.5, 44.0, 29.1] {
            let per_delta = ends_us(1, encode_us) / count as f64;
            let longest = f64::max(40.0, encode_us);
            assert!((per_delta / longest - 1.0).abs() < 0.005, "{mode:?}: {per_delta} us for {longest}");
            assert!(ends_us(0, encode_us) / (count as f64) < 40.2, "{mode:?}: bus-bound without a limit");
            let two = ends_us(2, encode_us) / count as f64;
            assert!(
                (two / f64::max(40.0, encode_us / 2.0) - 1.0).abs() < 0.005,
                "{mode:?}: {two} us with two"
            );
        }
    }
}

/// The controller works on several requests at a time, but the one NVRAM serves them one after the other.
#[test]
fn controller_work_of_requests_overlaps_and_their_nvram_work_does_not() {
    for mode in [TimingMode::Timeline, TimingMode::Event] {
        let mut timing = TimingEngine::new(mode, &geometry(1, 1, 1), FLASH, keeping_completions());
        let work = |own_ns, nvram_ns| ControllerWork {
            work_parallel_to_other_requests_ns: own_ns,
            nvram_store_ns: nvram_ns,
            delta_codec_work_ns: 0,
        };
        for (arrival_ns, work) in [
            (0, work(500, 0)),
            (0, work(500, 0)),
            (10, work(0, 1000)),
            (20, work(7, 1000)),
            (5000, work(0, 1)),
        ] {
            timing.submit_with_controller_work(RequestKind::Write, arrival_ns, work, &[]);
        }
        timing.run_to_completion_ns();
        let mut done = timing.take_completions();
        done.sort();
        let ends: Vec<u64> = done.iter().map(|completion| completion.completed_at_ns).collect();
        assert_eq!(ends, [500, 500, 1010, 2017, 5001], "{mode:?}");
    }
}

#[test]
fn a_read_modify_write_programs_after_its_read() {
    let rmw = [read(0), with_dependency(1, program(1))];
    assert_eq!(
        completion_times_ns(&geometry(2, 1, 1), keeping_completions(), &[(0, &rmw)]),
        [READ_NS + TRANSFER_NS + TRANSFER_NS + PROGRAM_NS]
    );
    let same_die = [read(0), with_dependency(1, program(0))];
    assert_eq!(
        completion_times_ns(&geometry(1, 1, 1), keeping_completions(), &[(0, &same_die)]),
        [READ_NS + TRANSFER_NS + TRANSFER_NS + PROGRAM_NS]
    );
}

#[test]
fn reads_of_two_dies_share_only_their_channel() {
    let both: Script = &[(0, &[read(0)]), (0, &[read(1)])];
    assert_eq!(
        completion_times_ns(&geometry(1, 2, 1), keeping_completions(), both),
        [READ_NS + TRANSFER_NS, READ_NS + 2 * TRANSFER_NS]
    );
    assert_eq!(
        completion_times_ns(&geometry(2, 1, 1), keeping_completions(), both),
        [READ_NS + TRANSFER_NS, READ_NS + TRANSFER_NS]
    );
}

#[test]
fn planes_of_a_die_work_in_parallel_only_with_independent_planes() {
    let both: Script = &[(0, &[read(0)]), (0, &[read(1)])];
    assert_eq!(
        completion_times_ns(&geometry(1, 1, 2), keeping_completions(), both),
        [READ_NS + TRANSFER_NS, 2 * (READ_NS + TRANSFER_NS)]
    );
    let independent = TimingOptions { has_independent_planes: true, ..keeping_completions() };
    assert_eq!(
        completion_times_ns(&geometry(1, 1, 2), independent, both),
        [READ_NS + TRANSFER_NS, READ_NS + 2 * TRANSFER_NS]
    );
}

#[test]
fn a_read_waits_for_an_erase_or_suspends_it() {
    let script: Script = &[(0, &[op(OpKind::Erase, Cause::Host, 0)]), (1_000_000, &[read(0)])];
    let one_die = geometry(1, 1, 1);
    assert_eq!(
        completion_times_ns(&one_die, keeping_completions(), script),
        [ERASE_NS, ERASE_NS + READ_NS + TRANSFER_NS]
    );
    let read_end = 1_000_000 + READ_NS + TRANSFER_NS;
    assert_eq!(
        completion_times_ns(&one_die, options_with_suspension(20_000, 1), script),
        [ERASE_NS + READ_NS + TRANSFER_NS + 20_000, read_end]
    );
}

#[test]
fn the_number_of_suspensions_of_one_operation_is_bounded() {
    let erase = [op(OpKind::Erase, Cause::Host, 0)];
    let script: Script = &[(0, &erase), (100_000, &[read(0)]), (200_000, &[read(0)]), (300_000, &[read(0)])];
    let found = completion_times_ns(&geometry(1, 1, 1), options_with_suspension(1000, 2), script);
    let erase_end = ERASE_NS + 2 * (READ_NS + TRANSFER_NS + 1000);
    assert_eq!(
        found,
        [
            erase_end,
            100_000 + READ_NS + TRANSFER_NS,
            200_000 + READ_NS + TRANSFER_NS,
            erase_end + READ_NS + TRANSFER_NS
        ]
    );
}

/// The read waits until the program's data has been transferred, and then suspends the program.
#[test]
fn a_read_arriving_during_a_program_transfer_suspends_the_program_when_its_cell_phase_starts() {
    let script: Script = &[(0, &[program(0)]), (1000, &[read(0)])];
    let found = completion_times_ns(&geometry(1, 1, 1), options_with_suspension(500, 1), script);
    assert_eq!(
        found,
        [TRANSFER_NS + READ_NS + TRANSFER_NS + PROGRAM_NS + 500, TRANSFER_NS + READ_NS + TRANSFER_NS]
    );
}

#[test]
fn reads_are_served_before_queued_writes() {
    let script: Script = &[(0, &[program(0)]), (1, &[program(0)]), (2, &[read(0)])];
    let one_die = geometry(1, 1, 1);
    let first = TRANSFER_NS + PROGRAM_NS;
    assert_eq!(
        completion_times_ns(&one_die, keeping_completions(), script),
        [first, first + READ_NS + TRANSFER_NS + TRANSFER_NS + PROGRAM_NS, first + READ_NS + TRANSFER_NS]
    );
    let in_order = TimingOptions { prioritises_reads: false, ..keeping_completions() };
    assert_eq!(
        completion_times_ns(&one_die, in_order, script),
        [first, 2 * first, 2 * first + READ_NS + TRANSFER_NS]
    );
}

#[test]
fn reads_get_the_channel_before_writes() {
    // Die 0 transfers a page until X. At that time die 1 (a program) has waited longer for the channel than die 2 (a
    // read).
    let script: Script = &[(0, &[read(2)]), (READ_NS - 10, &[program(0)]), (READ_NS - 5, &[program(1)])];
    let found = completion_times_ns(&geometry(1, 3, 1), keeping_completions(), script);
    assert_eq!(
        found,
        [
            READ_NS - 10 + TRANSFER_NS + TRANSFER_NS,
            READ_NS - 10 + TRANSFER_NS + PROGRAM_NS,
            READ_NS - 10 + TRANSFER_NS + TRANSFER_NS + TRANSFER_NS + PROGRAM_NS
        ]
    );
}

/// Returns the completion times of three background copies, and of a host read and a host write that arrive during the
/// first copy.
fn completion_times_of_copies_and_host_ops_ns(options: TimingOptions) -> Vec<u64> {
    let copy = [gc_op(OpKind::Read, 0), with_dependency(1, gc_op(OpKind::Program, 0))];
    let script: Script = &[(0, &copy.repeat(3)), (10, &[program(0)]), (20, &[read(0)])];
    completion_times_ns(&geometry(1, 1, 1), options, script)
}

#[test]
fn background_gc_yields_to_host_operations_between_pages() {
    let gc_read = READ_NS + TRANSFER_NS;
    let found = completion_times_of_copies_and_host_ops_ns(keeping_completions());
    assert_eq!(
        found,
        [
            0,
            gc_read + (READ_NS + TRANSFER_NS) + (TRANSFER_NS + PROGRAM_NS),
            gc_read + (READ_NS + TRANSFER_NS)
        ]
    );
}

#[test]
fn background_gc_without_yielding_is_not_interrupted_by_host_operations() {
    let options = TimingOptions { background_yields_to_host: false, ..keeping_completions() };
    let copies = 3 * (READ_NS + TRANSFER_NS + TRANSFER_NS + PROGRAM_NS);
    // The read still has priority over all queued operations; the write waits for all copies.
    assert_eq!(
        completion_times_of_copies_and_host_ops_ns(options),
        [
            0,
            copies + (READ_NS + TRANSFER_NS) + (TRANSFER_NS + PROGRAM_NS),
            READ_NS + TRANSFER_NS + READ_NS + TRANSFER_NS
        ]
    );
}

#[test]
fn a_gc_backlog_above_its_bound_is_served_before_reads() {
    // Five operations are queued after the first; background work is served until three are left.
    let options = TimingOptions {
        max_background_backlog_ops: 3,
        background_delays_reads: true,
        ..keeping_completions()
    };
    let ahead = (READ_NS + TRANSFER_NS) + (TRANSFER_NS + PROGRAM_NS) + (READ_NS + TRANSFER_NS);
    assert_eq!(
        completion_times_of_copies_and_host_ops_ns(options),
        [0, ahead + (READ_NS + TRANSFER_NS) + (TRANSFER_NS + PROGRAM_NS), ahead + (READ_NS + TRANSFER_NS)]
    );
}

/// If the backlog of background operations exceeds its bound, these operations and host reads alternate. Regression: a
/// victim of 512 pages exceeded a bound of 1024 operations alone, and delayed every read of its die for a second.
#[test]
fn a_gc_backlog_above_its_bound_alternates_with_reads() {
    // Programs wait until the backlog has fallen to its bound. Two reads that arrive during the first copy each wait
    // for one operation.
    let copies = [gc_op(OpKind::Read, 0), with_dependency(1, gc_op(OpKind::Program, 0))].repeat(40);
    let script: Script = &[(0, &copies), (10, &[read(0)]), (10, &[read(0)])];
    let options = TimingOptions { max_background_backlog_ops: 1, ..keeping_completions() };
    let first = (READ_NS + TRANSFER_NS) + (READ_NS + TRANSFER_NS);
    assert_eq!(
        completion_times_ns(&geometry(1, 1, 1), options, script)[1..],
        [first, first + (TRANSFER_NS + PROGRAM_NS) + (READ_NS + TRANSFER_NS)]
    );
}

/// A write may go to a block that counts as free although its erase has not ended. GC collects two blocks of two pages,
/// of which one page each is valid, and the two copies fill one block. A device with three free blocks in reserve has
/// an erased page for the write at once. A device without reserve has one only after the first erase, when the page of
/// the next copy has been read.
#[test]
fn a_write_waits_for_the_erase_of_the_block_that_it_is_written_to() {
    let victim =
        [gc_op(OpKind::Read, 0), with_dependency(1, gc_op(OpKind::Program, 0)), gc_op(OpKind::Erase, 0)];
    let collected = [victim, victim].concat();
    let script: Script = &[(0, &collected), (10, &[program(0)])];
    let completed_at_ns = |blocks| {
        let free_blocks = Some(FreeBlocksPerArray { free_blocks: blocks, pages_per_block: 2 });
        completion_times_ns(
            &geometry(1, 1, 1),
            TimingOptions { free_blocks, ..keeping_completions() },
            script,
        )[1]
    };
    let copy = (READ_NS + TRANSFER_NS) + (TRANSFER_NS + PROGRAM_NS);
    assert_eq!(
        [3, 0].map(completed_at_ns),
        [
            (READ_NS + TRANSFER_NS) + (TRANSFER_NS + PROGRAM_NS),
            (copy + ERASE_NS) + (READ_NS + TRANSFER_NS) + (TRANSFER_NS + PROGRAM_NS)
        ]
    );
}

/// GC collects four victims to gain one block, which the host then fills; this is repeated. In the first round the host
/// also fills the free blocks in reserve. Each write waits for its share of a collection, never for a whole one.
#[test]
fn a_write_waits_for_its_share_of_a_gc_collection_only() {
    let (pages_per_block, valid, blocks) = (64, 48, 2);
    let copy = [gc_op(OpKind::Read, 0), with_dependency(1, gc_op(OpKind::Program, 0))];
    let victim: Vec<FlashOp> = (0..valid).flat_map(|_| copy).chain([gc_op(OpKind::Erase, 0)]).collect();
    let collection = victim.repeat(4);
    let write = [program(0)];
    let round: Vec<(u64, &[FlashOp])> =
        std::iter::once((0, &*collection)).chain((0..pages_per_block).map(|_| (0, &write[..]))).collect();
    let script = round.repeat(10);
    let free_blocks = Some(FreeBlocksPerArray { free_blocks: blocks, pages_per_block });
    let done = completion_times_ns(
        &geometry(1, 1, 1),
        TimingOptions { free_blocks, ..keeping_completions() },
        &script,
    );
    let writes: Vec<u64> =
        done.iter().enumerate().filter(|(index, _)| index % 65 > 0).map(|(_, &at)| at).skip(64).collect();
    let longest = writes.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    let mean = (writes[writes.len() - 1] - writes[0]) / (writes.len() as u64 - 1);
    // In the worst case the share of a write contains an erase.
    assert!(longest < 2 * mean + ERASE_NS, "a write every {mean} ns, and once after {longest} ns");
}

/// If background work may delay reads and its backlog is longer than its bound, host reads do not suspend its programs
/// and erases.
#[test]
fn reads_do_not_suspend_a_gc_backlog_above_its_bound() {
    // The second erase also starts before the read, because two are queued then; the third does not.
    let erases = [gc_op(OpKind::Erase, 0); 3];
    let script: Script = &[(0, &erases), (10, &[read(0)])];
    let one_die = geometry(1, 1, 1);
    let strict = TimingOptions {
        max_background_backlog_ops: 1,
        background_delays_reads: true,
        ..options_with_suspension(0, 8)
    };
    assert_eq!(completion_times_ns(&one_die, strict, script)[1], 2 * ERASE_NS + READ_NS + TRANSFER_NS);
    assert_eq!(
        completion_times_ns(&one_die, options_with_suspension(0, 8), script)[1],
        10 + READ_NS + TRANSFER_NS
    );
}

/// With foreground GC a write completes only after the GC that its request executes; without, it completes
/// independently.
#[test]
fn foreground_gc_delays_the_write_that_needs_its_space() {
    let list = [
        gc_op(OpKind::Read, 0),
        with_dependency(1, gc_op(OpKind::Program, 0)),
        gc_op(OpKind::Erase, 0),
        program(1),
    ];
    let two_dies = geometry(2, 1, 1);
    assert_eq!(
        completion_times_ns(&two_dies, keeping_completions(), &[(0, &list)]),
        [TRANSFER_NS + PROGRAM_NS]
    );
    let blocking = TimingOptions { uses_foreground_gc: true, ..keeping_completions() };
    let gc_end = READ_NS + TRANSFER_NS + TRANSFER_NS + PROGRAM_NS + ERASE_NS;
    for mode in [TimingMode::Timeline, TimingMode::Event] {
        assert_eq!(
            completion_times_with_engine_ns(mode, &two_dies, blocking.clone(), &[(0, &list)]),
            [gc_end + TRANSFER_NS + PROGRAM_NS]
        );
    }
}

/// With foreground GC a write waits only for the GC operations that precede it in the list of its request.
#[test]
fn foreground_gc_includes_no_copies_that_follow_the_host_operation() {
    let list = [gc_op(OpKind::Read, 0), program(1), with_dependency(1, gc_op(OpKind::Program, 0))];
    let blocking = TimingOptions { uses_foreground_gc: true, ..keeping_completions() };
    assert_eq!(
        completion_times_ns(&geometry(2, 1, 1), blocking, &[(0, &list)]),
        [READ_NS + TRANSFER_NS + TRANSFER_NS + PROGRAM_NS]
    );
}

/// A list of flash operations contains foreground GC but no host operation. Its request completes before the GC does,
/// and the operations of this GC must not delay the next request.
#[test]
fn foreground_gc_without_a_host_operation_blocks_no_request() {
    let collection =
        [gc_op(OpKind::Read, 0), with_dependency(1, gc_op(OpKind::Program, 0)), gc_op(OpKind::Erase, 0)];
    let blocking = TimingOptions { uses_foreground_gc: true, ..keeping_completions() };
    for mode in [TimingMode::Timeline, TimingMode::Event] {
        let script: Script = &[(0, &collection), (1, &[program(1)])];
        assert_eq!(
            completion_times_with_engine_ns(mode, &geometry(2, 1, 1), blocking.clone(), script),
            [0, 1 + TRANSFER_NS + PROGRAM_NS],
            "{mode:?}"
        );
    }
}

/// A request whose only operation reads a page of the reverse-map log completes when this read ends, also with
/// foreground GC.
#[test]
fn a_request_that_needs_only_a_reverse_map_log_read_completes_when_this_read_ends() {
    let log_read = op(OpKind::Read, Cause::RemapLog, 0);
    for uses_foreground_gc in [false, true] {
        for mode in [TimingMode::Timeline, TimingMode::Event] {
            let options = TimingOptions { uses_foreground_gc, ..keeping_completions() };
            assert_eq!(
                completion_times_with_engine_ns(mode, &geometry(1, 1, 1), options, &[(0, &[log_read])]),
                [READ_NS + TRANSFER_NS],
                "{mode:?}"
            );
        }
    }
}

#[test]
fn operations_of_a_multi_plane_group_share_the_cell_time() {
    let options = TimingOptions { uses_multi_plane_ops: true, ..keeping_completions() };
    let die = geometry(1, 1, 4);
    let programs: Vec<FlashOp> = (0..4).map(program).collect();
    assert_eq!(completion_times_ns(&die, options.clone(), &[(0, &programs)]), [4 * TRANSFER_NS + PROGRAM_NS]);
    assert_eq!(
        completion_times_ns(&die, keeping_completions(), &[(0, &programs)]),
        [4 * (TRANSFER_NS + PROGRAM_NS)]
    );
    let reads: Script = &[(0, &[read(0), read(1)]), (0, &[read(2)])];
    // The third read arrives at the same time, but after the first two have started.
    assert_eq!(
        completion_times_ns(&die, options.clone(), reads),
        [READ_NS + 2 * TRANSFER_NS, 2 * READ_NS + 3 * TRANSFER_NS]
    );
    // Two operations on one plane form two groups.
    assert_eq!(
        completion_times_ns(&die, options, &[(0, &[program(0), program(0)])]),
        [2 * (TRANSFER_NS + PROGRAM_NS)]
    );
}

#[test]
fn a_timed_write_buffer_acknowledges_writes_at_once_until_it_is_full() {
    let options =
        TimingOptions { max_buffered_writes: 2, controller_overhead_ns: 100, ..keeping_completions() };
    let write = [program(0)];
    let script: Script = &[(0, &write), (0, &write), (0, &write), (0, &write)];
    let found = completion_times_ns(&geometry(1, 1, 1), options, script);
    assert_eq!(found, [100, 100, TRANSFER_NS + PROGRAM_NS + 100, 2 * (TRANSFER_NS + PROGRAM_NS) + 100]);
}

/// Regression: a flush completed while writes that had been acknowledged before it were still to be programmed.
#[test]
fn a_timed_flush_waits_for_the_writes_acknowledged_before_it() {
    let flush_ns = |max_buffered_writes: usize| {
        let options = TimingOptions { max_buffered_writes, ..keeping_completions() };
        let mut timing = TimingEngine::new(TimingMode::Event, &geometry(1, 1, 1), FLASH, options);
        for kind in [RequestKind::Write, RequestKind::Write, RequestKind::Flush, RequestKind::Write] {
            let ops: &[FlashOp] = if kind == RequestKind::Flush { &[] } else { &[program(0)] };
            timing.submit(kind, 0, ops);
        }
        timing.run_to_completion_ns();
        assert_eq!(timing.outstanding_requests(), 0);
        timing.latency_summary(RequestKind::Flush).max_ns
    };
    // If the buffer holds one write, the second waits for its place; the third comes after the flush.
    assert_eq!([1, 2, 9].map(flush_ns), [2 * (TRANSFER_NS + PROGRAM_NS); 3]);
    assert_eq!(flush_ns(0), 0, "writes that wait for their program leave nothing to a flush");
}

#[test]
fn background_operations_complete_no_request() {
    for mode in [TimingMode::Timeline, TimingMode::Event] {
        let mut timing = TimingEngine::new(mode, &geometry(1, 1, 1), FLASH, keeping_completions());
        timing.submit_background(0, &[program(0)]);
        assert_eq!((timing.outstanding_requests(), timing.run_to_next_completion_ns()), (0, None));
        assert_eq!(timing.run_to_completion_ns(), TRANSFER_NS + PROGRAM_NS);
        assert_eq!((timing.completed_ops(), timing.take_completions().len()), (1, 0));
    }
}

/// With one request in flight, throughput is 1 / latency.
#[test]
fn at_queue_depth_one_throughput_is_one_over_latency() {
    for mode in [TimingMode::Timeline, TimingMode::Event] {
        let mut timing = TimingEngine::new(mode, &geometry(2, 2, 1), FLASH, keeping_completions());
        for request in 0..1000 {
            timing.submit(RequestKind::Read, timing.now_ns(), &[read(request % 4)]);
            assert_eq!(timing.outstanding_requests(), 1);
            timing.run_to_next_completion_ns();
        }
        assert_eq!(timing.now_ns(), 1000 * (READ_NS + TRANSFER_NS));
        let summary = LatencySummary::of_histogram(timing.latency_histogram(RequestKind::Read));
        assert_eq!(summary.request_count, 1000);
        assert!((summary.mean_ns / (READ_NS + TRANSFER_NS) as f64 - 1.0).abs() < 0.001);
    }
}

/// Returns a random list of host and background operations. Some depend on an earlier operation of the list, and some
/// transfer less than a page.
fn random_ops(rng: &mut Xoshiro256PlusPlus, planes: u32) -> Vec<FlashOp> {
    let mut ops = Vec::new();
    for index in 0..rng.random_range(0..7_u16) {
        let kind = match rng.random_range(0..10) {
            0..5 => OpKind::Read,
            5..9 => OpKind::Program,
            _ => OpKind::Erase,
        };
        let cause = [Cause::Host, Cause::Host, Cause::Gc, Cause::Translation][rng.random_range(0..4)];
        let back = if rng.random_bool(0.4) { rng.random_range(0..=index.min(3)) } else { 0 };
        let mut flash_op = with_dependency(back, op(kind, cause, rng.random_range(0..planes)));
        if kind != OpKind::Erase && rng.random_bool(0.3) {
            flash_op.transfer_bytes = rng.random_range(64..20_000);
        }
        ops.push(flash_op);
    }
    ops
}

/// Returns random page copies, one after the other. Copies within a plane are one batch or, sometimes, single reads and
/// programs. Copies to another plane are single reads and programs.
fn random_copies(rng: &mut Xoshiro256PlusPlus, planes: u32) -> Vec<FlashOp> {
    let source = rng.random_range(0..planes);
    let mut copies = gc_op(OpKind::Copies, source);
    copies.copied_page_or_nvram_line_count = rng.random_range(1..9);
    if rng.random_bool(0.2) {
        copies.transfer_bytes /= 2;
    }
    if rng.random_bool(0.1) {
        copies.cause = Cause::Translation;
    }
    if rng.random_bool(0.7) {
        return vec![copies];
    }
    let [read, mut program] = copies.read_and_program_of_copy();
    if rng.random_bool(0.5) {
        program.plane = PlaneId(rng.random_range(0..planes));
    }
    [read, program].repeat(copies.copied_page_or_nvram_line_count as usize)
}

/// Returns a random list of page copies and other flash operations; no operation depends on a batch of copies.
fn random_ops_with_copies(rng: &mut Xoshiro256PlusPlus, planes: u32) -> Vec<FlashOp> {
    let mut ops = random_ops(rng, planes);
    while rng.random_bool(0.5) {
        ops.extend(random_copies(rng, planes));
    }
    for mut flash_op in random_ops(rng, planes) {
        let back = flash_op.ops_back_to_dependency.min(ops.len() as u16);
        let names_copies = back > 0 && ops[ops.len() - back as usize].kind == OpKind::Copies;
        flash_op.ops_back_to_dependency = if names_copies { 0 } else { back };
        ops.push(flash_op);
    }
    ops
}

/// Returns a list of flash operations with so many page copies of GC that most of the time the backlog of every flash
/// array is longer than its bound.
fn random_ops_with_gc_backlog(rng: &mut Xoshiro256PlusPlus, planes: u32) -> Vec<FlashOp> {
    let mut ops: Vec<FlashOp> =
        (0..rng.random_range(0..4)).flat_map(|_| random_copies(rng, planes)).collect();
    for _ in 0..rng.random_range(1..3) {
        let kind = if rng.random_bool(0.6) { OpKind::Read } else { OpKind::Program };
        ops.push(op(kind, Cause::Host, rng.random_range(0..planes)));
    }
    ops
}

/// Returns a random list of flash operations with up to two GC collections. Each scans NVRAM for the referrers of its
/// victim, some after reads of a reverse-map log on flash, before it copies pages and erases. Some are followed by a
/// read and a program that clean the log.
fn random_ops_with_nvram_scans(rng: &mut Xoshiro256PlusPlus, planes: u32) -> Vec<FlashOp> {
    let mut ops = random_ops(rng, planes);
    for _ in 0..rng.random_range(0..3) {
        let victim = rng.random_range(0..planes);
        if rng.random_bool(0.3) {
            let log_read = |_| op(OpKind::Read, Cause::RemapLog, rng.random_range(0..planes));
            ops.extend((0..4).map(log_read).collect::<Vec<_>>());
        }
        let bytes = rng.random_range(0..2_000_000);
        ops.push(FlashOp::nvram_scan(rng.random_bool(0.9).then_some(PlaneId(victim)), bytes));
        if rng.random_bool(0.8) {
            ops.extend(random_copies(rng, planes));
            ops.push(gc_op(OpKind::Erase, victim));
        }
        if rng.random_bool(0.3) {
            ops.extend([
                op(OpKind::Read, Cause::RemapLog, 0),
                with_dependency(1, op(OpKind::Program, Cause::RemapLog, 0)),
            ]);
        }
        ops.push(program(rng.random_range(0..planes)));
    }
    ops
}

/// Returns a random list of flash operations: mostly host writes, sometimes the copies of a GC victim and its erase.
/// Copies stay in the plane or go to another, and the erase waits for the last copy.
fn random_ops_with_gc_collections(rng: &mut Xoshiro256PlusPlus, planes: u32) -> Vec<FlashOp> {
    let mut ops = Vec::new();
    while rng.random_bool(0.3) {
        let victim = rng.random_range(0..planes);
        let copies = rng.random_range(0..8);
        if copies > 0 && rng.random_bool(0.5) {
            ops.push(FlashOp { copied_page_or_nvram_line_count: copies, ..gc_op(OpKind::Copies, victim) });
        } else {
            let target = rng.random_range(0..planes);
            for _ in 0..copies {
                ops.extend([gc_op(OpKind::Read, victim), with_dependency(1, gc_op(OpKind::Program, target))]);
            }
        }
        let waits = copies > 0 && rng.random_bool(0.8);
        ops.push(with_dependency(u16::from(waits), gc_op(OpKind::Erase, victim)));
    }
    let kind = if rng.random_bool(0.1) { OpKind::Read } else { OpKind::Program };
    ops.extend((0..rng.random_range(1..4)).map(|_| op(kind, Cause::Host, rng.random_range(0..planes))));
    ops
}

/// Returns random options of the timing engine.
fn random_options(rng: &mut Xoshiro256PlusPlus) -> TimingOptions {
    let prioritises_reads = rng.random_bool(0.7);
    let suspend = SuspensionOptions {
        resume_overhead_ns: rng.random_range(0..30_000),
        max_suspensions_per_op: rng.random_range(0..4),
    };
    TimingOptions {
        prioritises_reads,
        background_yields_to_host: rng.random_bool(0.7),
        max_background_backlog_ops: [1, 4, u32::MAX][rng.random_range(0..3)],
        free_blocks: rng.random_bool(0.5).then(|| FreeBlocksPerArray {
            free_blocks: rng.random_range(0..3),
            pages_per_block: 1 << rng.random_range(0..4),
        }),
        background_delays_reads: rng.random_bool(0.5),
        suspension: (prioritises_reads && rng.random_bool(0.6)).then_some(suspend),
        uses_multi_plane_ops: rng.random_bool(0.4),
        has_independent_planes: rng.random_bool(0.2),
        nvram_line_read_ps: 50_000,
        ..keeping_completions()
    }
}

/// Returns random times of flash operations.
fn random_flash(rng: &mut Xoshiro256PlusPlus) -> FlashTiming {
    FlashTiming {
        read_ns: rng.random_range(20_000..60_000),
        program_ns: rng.random_range(100_000..900_000),
        erase_ns: rng.random_range(900_000..5_000_000),
        transfer_ps_per_byte: rng.random_range(400..26_000),
    }
}

/// Function that returns a random list of flash operations on a number of planes.
type RandomOpsGenerator = fn(&mut Xoshiro256PlusPlus, u32) -> Vec<FlashOp>;

/// Executes 200 random requests in the event engine and in the naive simulator, and asserts that all completion times
/// are equal.
fn compare_with_reference(seed: u64, random_ops: RandomOpsGenerator) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let shape = geometry(rng.random_range(1..4), rng.random_range(1..5), rng.random_range(1..5));
    let (options, flash) = (random_options(&mut rng), random_flash(&mut rng));
    let mut reference = NaiveTimingSimulator::new(&shape, flash, &options);
    let mut timing = TimingEngine::new(TimingMode::Event, &shape, flash, options.clone());
    let tracing = TimingOptions { records_trace: true, ..options.clone() };
    let mut traced = TimingEngine::new(TimingMode::Event, &shape, flash, tracing);
    let gap = rng.random_range(50_000..1_500_000);
    let (mut arrival, mut submitted) = (0, 0);
    for _ in 0..200 {
        arrival += if rng.random_bool(0.2) { 0 } else { rng.random_range(0..gap) };
        let list = random_ops(&mut rng, shape.planes());
        submitted += list.iter().map(FlashOp::flash_operation_count).sum::<u64>();
        reference.submit(arrival, &list);
        timing.submit(RequestKind::Write, arrival, &list);
        traced.submit(RequestKind::Write, arrival, &list);
    }
    reference.run(u64::MAX);
    timing.run_to_completion_ns();
    traced.run_to_completion_ns();
    traced::check_trace_of_engine(&mut traced, &shape, flash, &options, submitted);
    assert_eq!(traced.array_busy_ns(), timing.array_busy_ns(), "seed {seed}, {options:?}, {shape:?}");
    let mut found = vec![None; 200];
    let completions = timing.take_completions();
    let order = |mut completions: Vec<Completion>| {
        completions.sort();
        completions
    };
    assert_eq!(
        order(traced.take_completions()),
        order(completions.clone()),
        "traced: seed {seed}, {options:?}"
    );
    for completion in completions {
        assert_eq!(
            found[completion.request_number as usize].replace(completion.completed_at_ns),
            None,
            "completed twice"
        );
    }
    assert_eq!(timing.completed_ops(), submitted);
    assert_eq!(found, reference.completion_times_ns, "seed {seed}, {options:?}, {shape:?}");
}

/// Seeds of runs in which a host read arrives at the instant at which a program's transfer ends.
const SEEDS_WITH_SIMULTANEOUS_EVENTS: [u64; 2] = [8216, 32_041];

#[test]
fn the_event_engine_agrees_with_a_naive_simulator_on_every_request() {
    (0..2000 / test_case_interval(4))
        .chain(SEEDS_WITH_SIMULTANEOUS_EVENTS)
        .for_each(|seed| compare_with_reference(seed, random_ops));
}

/// Without multi-plane operations, the event engine handles a series of page copies as one queue entry, unlike the
/// naive simulator.
#[test]
fn the_event_engine_agrees_with_a_naive_simulator_on_series_of_copies() {
    (0..2000 / test_case_interval(4))
        .chain(SEEDS_WITH_SIMULTANEOUS_EVENTS)
        .for_each(|seed| compare_with_reference(seed, random_ops_with_copies));
}

/// If the GC backlog of an array (die or plane) exceeds its bound, the event engine handles its copies in fewer events.
/// Transfers of other arrays may delay these copies.
#[test]
fn the_event_engine_agrees_with_a_naive_simulator_under_gc_backlogs() {
    (0..2000 / test_case_interval(4))
        .for_each(|seed| compare_with_reference(seed, random_ops_with_gc_backlog));
}

/// The backlog of GC is worked off in shares: before each host write, an array (die or plane) executes some of its page
/// copies. The event engine then computes several copies of an array in advance, even while host writes wait.
#[test]
fn the_event_engine_agrees_with_a_naive_simulator_if_collection_keeps_pace_with_writes() {
    (0..4000 / test_case_interval(4))
        .for_each(|seed| compare_with_reference(seed, random_ops_with_gc_collections));
}

/// Copies of a victim wait for the scan of its reverse-map entries in NVRAM. Scans wait for each other and for earlier
/// collections.
#[test]
fn the_event_engine_agrees_with_a_naive_simulator_on_nvram_scans() {
    (0..300).for_each(|seed| compare_with_reference(seed, random_ops_with_nvram_scans));
}

#[test]
fn gc_copies_wait_for_the_scan_of_the_reverse_map_log() {
    let lines = 20_000;
    let scan_ns = lines * 50;
    let scan = FlashOp::nvram_scan(Some(PlaneId(0)), lines * u64::from(NVRAM_LINE_BYTES));
    let copies = FlashOp { copied_page_or_nvram_line_count: 3, ..gc_op(OpKind::Copies, 0) };
    let collection = [scan, copies, gc_op(OpKind::Erase, 0)];
    let copied_ns = 3 * (READ_NS + 2 * TRANSFER_NS + PROGRAM_NS) + ERASE_NS;
    for mode in [TimingMode::Timeline, TimingMode::Event] {
        let mut timing = TimingEngine::new(mode, &geometry(1, 1, 1), FLASH, keeping_completions());
        timing.submit(RequestKind::Write, 0, &collection);
        assert_eq!(
            timing.run_to_next_completion_ns(),
            Some(scan_ns),
            "{mode:?}: the request waits for the scan alone"
        );
        assert_eq!(
            timing.run_to_completion_ns(),
            scan_ns + copied_ns,
            "{mode:?}: the copies start when the scan has ended"
        );
        assert_eq!(timing.array_busy_ns(), [copied_ns], "{mode:?}: the array is free while NVRAM is scanned");
        let more = timing.completed_ops();
        assert_eq!(more, 7, "{mode:?}: a scan is no operation of the flash");
    }
    let mut timing = TimingEngine::new(TimingMode::None, &geometry(1, 1, 1), FLASH, keeping_completions());
    timing.submit(RequestKind::Write, 0, &collection);
    assert_eq!(timing.run_to_completion_ns(), 0, "without timing a scan takes no time");
}

/// The pages of a reverse-map log on flash are read in parallel. Then the log's buffer in NVRAM is scanned, and then
/// the victim is copied.
#[test]
fn gc_copies_wait_for_the_reads_of_a_reverse_map_log_on_flash() {
    let page = |plane| op(OpKind::Read, Cause::RemapLog, plane);
    let scan = FlashOp::nvram_scan(Some(PlaneId(0)), u64::from(NVRAM_LINE_BYTES));
    let list = [
        page(0),
        page(1),
        page(1),
        scan,
        FlashOp { copied_page_or_nvram_line_count: 2, ..gc_op(OpKind::Copies, 0) },
    ];
    let read_ns = 2 * (READ_NS + TRANSFER_NS) + 50;
    for mode in [TimingMode::Timeline, TimingMode::Event] {
        let mut timing = TimingEngine::new(mode, &geometry(2, 1, 1), FLASH, keeping_completions());
        timing.submit(RequestKind::Write, 0, &list);
        assert_eq!(
            timing.run_to_completion_ns(),
            read_ns + 2 * (READ_NS + 2 * TRANSFER_NS + PROGRAM_NS),
            "{mode:?}"
        );
    }
}

/// With foreground GC, a host program waits for the copies of the victim. The copies wait for the scan of the reverse
/// map, and the scan waits for the reads of the reverse-map log. Two collections of one request do not wait for each
/// other in a circle.
#[test]
fn foreground_gc_scans_the_reverse_map_before_it_copies() {
    let options = TimingOptions { uses_foreground_gc: true, ..keeping_completions() };
    let scan = FlashOp::nvram_scan(Some(PlaneId(0)), u64::from(NVRAM_LINE_BYTES) * 1000);
    let log_read = op(OpKind::Read, Cause::RemapLog, 0);
    let collection = [
        log_read,
        scan,
        FlashOp { copied_page_or_nvram_line_count: 2, ..gc_op(OpKind::Copies, 0) },
        gc_op(OpKind::Erase, 0),
    ];
    let list = [&collection[..], &collection[..], &[program(1)]].concat();
    for mode in [TimingMode::Timeline, TimingMode::Event] {
        let done = completion_times_with_engine_ns(mode, &geometry(2, 1, 1), options.clone(), &[(0, &list)]);
        // The log may be read for the second collection while the scan of the first waits.
        let busy_ns = 2
            * (READ_NS + TRANSFER_NS + 50_000 + 2 * (READ_NS + 2 * TRANSFER_NS + PROGRAM_NS) + ERASE_NS)
            + TRANSFER_NS
            + PROGRAM_NS;
        assert!(
            (busy_ns - (READ_NS + TRANSFER_NS)..=busy_ns).contains(&done[0]),
            "{mode:?}: {} of {busy_ns}",
            done[0]
        );
    }
}

/// The device has one NVRAM. Scans for two victims use it one after the other, and a later store to NVRAM waits for
/// both.
#[test]
fn an_nvram_scan_delays_other_scans_and_stores() {
    let scan = |plane| FlashOp::nvram_scan(Some(PlaneId(plane)), u64::from(NVRAM_LINE_BYTES) * 10_000);
    let store =
        ControllerWork { work_parallel_to_other_requests_ns: 0, nvram_store_ns: 125, delta_codec_work_ns: 0 };
    for mode in [TimingMode::Timeline, TimingMode::Event] {
        let mut timing = TimingEngine::new(mode, &geometry(2, 1, 1), FLASH, keeping_completions());
        timing.submit(RequestKind::Write, 0, &[scan(0)]);
        timing.submit(RequestKind::Write, 0, &[scan(1)]);
        timing.submit_with_controller_work(RequestKind::Write, 10, store, &[]);
        timing.run_to_completion_ns();
        let mut done = timing.take_completions();
        done.sort_by_key(|completion| completion.request_number);
        let times: Vec<u64> = done.iter().map(|completion| completion.completed_at_ns).collect();
        assert_eq!(times, [500_000, 1_000_000, 1_000_125], "{mode:?}");
    }
}

/// A pool (set of planes) collects one victim at a time. So a scan waits for the operations of the previous collection
/// that remain, and these precede host work.
#[test]
fn an_nvram_scan_waits_for_the_previous_collection_of_its_pool() {
    let copies = FlashOp { copied_page_or_nvram_line_count: 4, ..gc_op(OpKind::Copies, 0) };
    let scan = FlashOp::nvram_scan(Some(PlaneId(0)), u64::from(NVRAM_LINE_BYTES) * 1000);
    let mut timing = TimingEngine::new(TimingMode::Event, &geometry(1, 1, 1), FLASH, keeping_completions());
    timing.submit(RequestKind::Write, 0, &[copies, gc_op(OpKind::Erase, 0)]);
    timing.submit(RequestKind::Write, 10, &[scan]);
    timing.submit(RequestKind::Write, 20, &[program(0)]);
    timing.run_to_completion_ns();
    let mut done = timing.take_completions();
    done.sort_by_key(|completion| completion.request_number);
    let collected_ns = 4 * (READ_NS + 2 * TRANSFER_NS + PROGRAM_NS) + ERASE_NS;
    assert_eq!(done[1].completed_at_ns, collected_ns + 50_000, "the scan starts behind the erase");
    assert_eq!(
        done[2].completed_at_ns,
        collected_ns + TRANSFER_NS + PROGRAM_NS,
        "the host's program is done while NVRAM is scanned"
    );
}

#[test]
fn busy_times_of_dies_and_channels_are_the_sums_of_their_operations() {
    // One die per channel, so that no die ever waits for the channel.
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    let shape = geometry(4, 1, 1);
    for mode in [TimingMode::Timeline, TimingMode::Event] {
        let mut timing = TimingEngine::new(mode, &shape, FLASH, keeping_completions());
        let (mut arrays, mut channels, mut arrival) = (vec![0; 4], vec![0; 4], 0);
        for _ in 0..2000 {
            arrival += rng.random_range(0..1_000_000);
            let list = random_ops(&mut rng, 4);
            for op in &list {
                let transfer = FLASH.transfer_ns(op.transfer_bytes);
                let array = [READ_NS, PROGRAM_NS, ERASE_NS][op.kind as usize];
                arrays[op.plane.index()] += array + transfer;
                channels[op.plane.index()] += transfer;
            }
            timing.submit(RequestKind::Write, arrival, &list);
        }
        timing.run_to_completion_ns();
        assert_eq!(timing.array_busy_ns(), arrays);
        assert_eq!(timing.channel_busy_ns(), channels);
    }
}

/// The simple timing model (timeline) and the event engine give equal completion times if one die executes writes in
/// order.
#[test]
fn timeline_and_event_engine_agree_for_sequential_writes_on_one_die() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(6);
    let (mut script, mut arrival) = (Vec::new(), 0);
    for _ in 0..1000 {
        arrival += rng.random_range(0..2 * (TRANSFER_NS + PROGRAM_NS));
        script.push((arrival, vec![program(0); rng.random_range(1..3)]));
    }
    let script: Vec<(u64, &[FlashOp])> = script.iter().map(|(at, ops)| (*at, ops.as_slice())).collect();
    let one_die = geometry(1, 1, 1);
    let timeline =
        completion_times_with_engine_ns(TimingMode::Timeline, &one_die, keeping_completions(), &script);
    assert_eq!(
        timeline,
        completion_times_with_engine_ns(TimingMode::Event, &one_die, keeping_completions(), &script)
    );
    assert!(timeline[999] > arrival, "the queue was not empty all the time");
}

/// Reads with random (Poisson) arrival at one die wait as long as an M/D/1 queue predicts.
#[test]
fn poisson_reads_of_one_die_wait_as_queueing_theory_says() {
    let service = (READ_NS + TRANSFER_NS) as f64;
    for (load, seed) in [(0.3, 1), (0.6, 2), (0.8, 3)] {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut timing =
            TimingEngine::new(TimingMode::Event, &geometry(1, 1, 1), FLASH, keeping_completions());
        let mut arrival = 0.0;
        for _ in 0..2_000_000 {
            arrival -= (1.0 - rng.random::<f64>()).ln() * service / load;
            timing.submit(RequestKind::Read, arrival as u64, &[read(0)]);
        }
        timing.run_to_completion_ns();
        let completions = timing.take_completions();
        let total: u64 = completions.iter().map(|completion| completion.latency_ns).sum();
        let wait = total as f64 / completions.len() as f64 - service;
        let theory = load / (2.0 * (1.0 - load)) * service;
        assert!((wait / theory - 1.0).abs() < 0.02, "load {load}: wait {wait} ns, M/D/1 {theory} ns");
    }
}

/// The same calls give the same latencies in each run of the event engine.
#[test]
fn equal_calls_of_the_event_engine_give_equal_latency_distributions() {
    let run = || {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(9);
        let shape = geometry(2, 4, 2);
        let mut timing =
            TimingEngine::new(TimingMode::Event, &shape, FLASH, options_with_suspension(10_000, 3));
        for _ in 0..5000 {
            while timing.outstanding_requests() >= 16 {
                timing.run_to_next_completion_ns();
            }
            let list = random_ops(&mut rng, shape.planes());
            timing.submit(RequestKind::Write, timing.now_ns(), &list);
        }
        let end = timing.run_to_completion_ns();
        (end, timing.latency_histogram(RequestKind::Write).clone(), timing.take_completions())
    };
    let (first, second) = (run(), run());
    assert!(first.1.len() == 5000 && first.1.max() > ERASE_NS, "the run did something");
    assert_eq!(first, second);
}
