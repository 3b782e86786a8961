//! Timing with resource timelines: one next-free time per array (die or plane) and per channel, booked in order of
//! submission.
//!
//! Very cheap, because there are no queues: an operation starts when its array and its channel are next free, and books
//! them. The price is exactness. A booking is never moved, so there are no priorities. A transfer that is booked far in
//! the future (after a block's worth of GC) blocks the channel for all later requests, although the channel is idle
//! until then. **Do not report latencies under GC from this engine**: medians are orders of magnitude too high. Use it
//! for throughput, and for light load without GC.
//!
//! It agrees exactly with the event engine where bookings are in order of time: FIFO service on one die.

use super::codec::CodecUnits;
use super::latency::LatencyRecords;
use super::nvram::NvramTiming;
use super::unfinished::UnfinishedRequests;
use super::{ControllerWork, FlashTiming, Layout, Place, RequestKind, TimingOptions};
use crate::address::PlaneId;
use crate::operation::{FlashOp, OpKind};

/// Timeline of an array (die or plane) or of a channel: the time from which it is free. Bookings are served in their
/// order.
#[derive(Clone, Copy, Default, Debug)]
struct FreeTime {
    free_at: u64,
    busy_ns: u64,
}

impl FreeTime {
    /// Books an array or channel for `ns` nanoseconds, from time `ready` or from the time when it is free, whichever is
    /// later. Returns the start.
    #[inline]
    fn book(&mut self, ready: u64, ns: u64) -> u64 {
        let start = self.free_at.max(ready);
        self.free_at = start + ns;
        self.busy_ns += ns;
        start
    }

    /// Books an array or channel from time `start` to time `end`, nanoseconds.
    #[inline]
    fn hold(&mut self, start: u64, end: u64) {
        self.free_at = end;
        self.busy_ns += end - start;
    }
}

/// Timelines (next free times) of all arrays and channels of a device.
#[derive(Clone, Debug)]
struct FreeTimes {
    /// Array (die or plane) and channel of each plane, by plane number.
    of_plane: Vec<[u32; 2]>,
    layout: Layout,
    flash: FlashTiming,
    arrays: Vec<FreeTime>,
    channels: Vec<FreeTime>,
}

impl FreeTimes {
    fn new(layout: &Layout, flash: FlashTiming) -> Self {
        let lanes_of = |place: &Place| [place.array, layout.channel_of_array[place.array as usize]];
        Self {
            of_plane: layout.planes.iter().map(lanes_of).collect(),
            layout: layout.clone(),
            flash,
            arrays: vec![FreeTime::default(); layout.arrays()],
            channels: vec![FreeTime::default(); layout.channels],
        }
    }

    /// Books one flash operation on its array (die or plane) and channel, from time `ready` on at the earliest. Returns
    /// the time when the operation ends.
    #[inline]
    fn book(&mut self, op: &FlashOp, ready: u64) -> u64 {
        let FlashTiming { read_ns, program_ns, erase_ns, .. } = self.flash;
        let transfer = self.flash.transfer_ns(op.transfer_bytes);
        let (array, channel) = self.lanes_of(op);
        let start = array.free_at.max(ready);
        let end = match op.kind {
            OpKind::Read => channel.book(start + read_ns, transfer) + transfer,
            OpKind::Program => channel.book(start, transfer) + transfer + program_ns,
            OpKind::Erase => start + erase_ns,
            OpKind::Copies => unreachable!("copies are booked one by one"),
            OpKind::Scan => unreachable!("no array scans NVRAM"),
        };
        array.hold(start, end);
        end
    }

    /// Returns the time at which all operations have ended that are booked on the arrays of the block whose first plane
    /// is `plane`.
    fn block_free_at(&self, plane: PlaneId) -> u64 {
        let arrays = self.layout.arrays_of_block(plane);
        arrays.into_iter().map(|array| self.arrays[array as usize].free_at).max().unwrap_or(0)
    }

    #[inline]
    fn lanes_of(&mut self, op: &FlashOp) -> (&mut FreeTime, &mut FreeTime) {
        let [array, channel] = self.of_plane[op.plane.index()];
        (&mut self.arrays[array as usize], &mut self.channels[channel as usize])
    }

    /// Books a series of page copies within one array (die or plane). Returns the end of the last copy. After the first
    /// copy all channel bookings end before those of the array, so the other copies do not wait and are booked at once.
    fn book_copies(&mut self, copies: &FlashOp, ready: u64) -> u64 {
        let [read, program] = copies.copy_read_and_program();
        let read_end = self.book(&read, ready);
        self.book(&program, read_end);
        let FlashTiming { read_ns, program_ns, .. } = self.flash;
        let transfer = self.flash.transfer_ns(read.transfer_bytes);
        let (more, copy) = (u64::from(copies.count - 1), read_ns + 2 * transfer + program_ns);
        let (array, channel) = self.lanes_of(&read);
        debug_assert_eq!(channel.free_at + program_ns, array.free_at, "a program was booked last");
        array.free_at += more * copy;
        array.busy_ns += more * copy;
        channel.free_at += more * copy;
        channel.busy_ns += more * 2 * transfer;
        array.free_at
    }
}

#[derive(Clone, Debug)]
pub(super) struct TimelineEngine {
    lanes: FreeTimes,
    nvram: NvramTiming,
    blocking_gc: bool,
    controller_overhead_ns: u64,
    codec: CodecUnits,
    /// End time of each flash operation of the list being booked, nanoseconds.
    ends: Vec<u64>,
    /// Completion times of unfinished requests. Times that have passed are removed only when a query needs it. `None`
    /// in open loop, where there are no queries.
    unfinished: Option<UnfinishedRequests>,
    /// Latest completion time of all requests, nanoseconds.
    answered_at: u64,
    ledger: LatencyRecords,
    completed_ops: u64,
    now: u64,
}

impl TimelineEngine {
    pub(super) fn new(layout: &Layout, flash: FlashTiming, options: &TimingOptions) -> Self {
        Self {
            lanes: FreeTimes::new(layout, flash),
            nvram: NvramTiming::new(options),
            blocking_gc: options.blocking_gc,
            controller_overhead_ns: options.controller_overhead_ns,
            codec: CodecUnits::new(options.codec_units),
            ends: Vec::new(),
            unfinished: (!options.open_loop).then(UnfinishedRequests::default),
            answered_at: 0,
            ledger: LatencyRecords::new(options.keep_completions),
            completed_ops: 0,
            now: 0,
        }
    }

    #[inline]
    pub(super) fn submit(
        &mut self,
        kind: RequestKind,
        arrival_ns: u64,
        work: ControllerWork,
        ops: &[FlashOp],
    ) -> u64 {
        let number = self.ledger.next_request_number();
        self.now = self.now.max(arrival_ns);
        let overhead_ns = work.parallel_ns + self.nvram.book_stores(self.now, work.nvram_ns);
        let flash_end = self.book_all(ops);
        let wait_ns = self.codec.book_work(flash_end, work.codec_ns);
        let end = flash_end + self.controller_overhead_ns + overhead_ns + wait_ns;
        self.ledger.record_completion(kind, number, arrival_ns, end);
        self.answered_at = self.answered_at.max(end);
        if let Some(unfinished) = &mut self.unfinished
            && end > self.now
        {
            unfinished.push(end);
        }
        number
    }

    pub(super) fn submit_background(&mut self, arrival_ns: u64, ops: &[FlashOp]) {
        self.now = self.now.max(arrival_ns);
        self.book_all(ops);
    }

    /// Removes the completion times that have passed, and returns those of unfinished requests.
    #[inline]
    fn unfinished(&mut self) -> &mut UnfinishedRequests {
        let unfinished = self.unfinished.as_mut().expect("in open loop nobody asks for unfinished requests");
        while unfinished.pop_until(self.now).is_some() {}
        unfinished
    }

    /// Books a list of flash operations. Returns the time when those for which the host waits have ended, nanoseconds.
    #[inline]
    fn book_all(&mut self, ops: &[FlashOp]) -> u64 {
        if let [op] = ops
            && op.dependency_distance == 0
            && !matches!(op.kind, OpKind::Copies | OpKind::Scan)
        {
            self.completed_ops += 1;
            let end = self.lanes.book(op, self.now);
            return if op.is_background() { self.now } else { end };
        }
        self.book_list(ops)
    }

    fn book_list(&mut self, ops: &[FlashOp]) -> u64 {
        self.ends.clear();
        let (mut host_end, mut gc_end) = (self.now, self.now);
        // `log_end` is the end of the reads of a log on flash, `scan_end` that of the last NVRAM scan.
        let (mut log_end, mut scan_end) = (self.now, self.now);
        for op in ops {
            let ready = match op.dependency_distance as usize {
                0 => self.now,
                back => self.ends[self.ends.len() - back],
            };
            let background = op.is_background();
            let ready = match background {
                true if op.dependency_distance == 0 => ready.max(scan_end),
                false if self.blocking_gc && !op.reads_reverse_map_log() => ready.max(gc_end),
                _ => ready,
            };
            let end = match op.kind {
                OpKind::Copies => self.lanes.book_copies(op, ready),
                OpKind::Scan => {
                    let ready = ready.max(log_end).max(self.lanes.block_free_at(op.plane));
                    scan_end = self.nvram.book_scan(op, ready);
                    scan_end
                }
                OpKind::Read | OpKind::Program | OpKind::Erase => self.lanes.book(op, ready),
            };
            if op.reads_reverse_map_log() {
                log_end = log_end.max(end);
            }
            let last = if background { &mut gc_end } else { &mut host_end };
            *last = end.max(*last);
            self.ends.push(end);
            self.completed_ops += op.flash_operation_count();
        }
        host_end
    }

    #[inline]
    pub(super) fn complete_next_request(&mut self) -> Option<u64> {
        self.now = self.unfinished().pop_until(u64::MAX)?;
        Some(self.now)
    }

    pub(super) fn complete_until(&mut self, to: u64) -> bool {
        self.now = self.now.max(self.answered_at.min(to));
        self.answered_at <= self.now
    }

    pub(super) fn run_to_completion(&mut self) -> u64 {
        self.unfinished.iter_mut().for_each(UnfinishedRequests::clear);
        self.answered_at = 0;
        let lanes = self.lanes.arrays.iter().chain(&self.lanes.channels);
        self.now = lanes.map(|lane| lane.free_at).fold(self.now, u64::max);
        self.now
    }

    #[inline]
    pub(super) fn outstanding_requests(&mut self) -> usize {
        self.unfinished().len()
    }

    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        self.now
    }

    pub(super) fn completed_ops(&self) -> u64 {
        self.completed_ops
    }

    pub(super) fn array_busy_ns(&self) -> Vec<u64> {
        self.lanes.arrays.iter().map(|lane| lane.busy_ns).collect()
    }

    pub(super) fn channel_busy_ns(&self) -> Vec<u64> {
        self.lanes.channels.iter().map(|lane| lane.busy_ns).collect()
    }

    pub(super) fn latency_records(&self) -> &LatencyRecords {
        &self.ledger
    }

    pub(super) fn latency_records_mut(&mut self) -> &mut LatencyRecords {
        &mut self.ledger
    }
}
