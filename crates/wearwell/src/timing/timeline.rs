//! Timing with resource timelines: one next-free time per array (die or plane) and per channel, booked in order of
//! submission.
//!
//! Very cheap, because there are no queues: an operation starts when its array and its channel are next free, and books
//! them. The price is exactness. A booking is never moved, so there are no priorities. A transfer that is booked far in
//! the future (after a block's worth of GC) blocks the channel for all later requests, although the channel is idle
//! until then. **Do not report latencies under GC from this engine**: medians are orders of magnitude too high. Under
//! load in closed loop its request rates are 25 % too low without GC; with GC they can be as low as one seventh of the
//! right rate. Use it for light load without GC.
//!
//! It agrees exactly with the event engine where bookings are in order of time: FIFO service on one die.

use super::codec::DeltaCodecUnits;
use super::latency::LatencyRecords;
use super::nvram::NvramTiming;
use super::unfinished_requests::UnfinishedRequests;
use super::{ArrayLayout, ControllerWork, FlashTiming, PlaneLocation, RequestKind, TimingOptions};
use crate::address::PlaneId;
use crate::operation::{FlashOp, OpKind};

/// Timeline of an array (die or plane) or of a channel: the time from which it is free. Bookings are served in their
/// order.
#[derive(Clone, Copy, Default, Debug)]
struct ResourceTimeline {
    /// Time from which the array or channel is free, nanoseconds.
    free_at_ns: u64,
    /// Total duration of all bookings so far, nanoseconds.
    busy_ns: u64,
}

impl ResourceTimeline {
    /// Books an array or channel for `duration_ns` nanoseconds, from time `ready_ns` or from the time when it is free,
    /// whichever is later. Returns the start of the booked period, nanoseconds.
    #[inline]
    fn book_duration_returning_start_ns(&mut self, ready_ns: u64, duration_ns: u64) -> u64 {
        let start = self.free_at_ns.max(ready_ns);
        self.free_at_ns = start + duration_ns;
        self.busy_ns += duration_ns;
        start
    }

    /// Books an array or channel from time `start_ns` to time `end_ns`, nanoseconds.
    #[inline]
    fn book_interval(&mut self, start_ns: u64, end_ns: u64) {
        self.free_at_ns = end_ns;
        self.busy_ns += end_ns - start_ns;
    }
}

/// Timelines (next free times) of all arrays and channels of a device.
#[derive(Clone, Debug)]
struct DeviceTimelines {
    /// Array (die or plane) and channel of each plane, by plane number.
    array_and_channel_of_plane: Vec<[u32; 2]>,
    /// Arrays (dies or planes) and channels of the device.
    layout: ArrayLayout,
    /// Durations of flash operations and transfers.
    flash_timing: FlashTiming,
    /// Timeline of each array (die or plane), by array number.
    arrays: Vec<ResourceTimeline>,
    /// Timeline of each channel, by channel number.
    channels: Vec<ResourceTimeline>,
}

impl DeviceTimelines {
    /// Creates the timelines of a device on which nothing is booked.
    fn new(layout: &ArrayLayout, flash: FlashTiming) -> Self {
        let lanes_of = |place: &PlaneLocation| {
            [place.array_number, layout.channel_of_array[place.array_number as usize]]
        };
        Self {
            array_and_channel_of_plane: layout.plane_locations.iter().map(lanes_of).collect(),
            layout: layout.clone(),
            flash_timing: flash,
            arrays: vec![ResourceTimeline::default(); layout.array_count()],
            channels: vec![ResourceTimeline::default(); layout.channel_count],
        }
    }

    /// Books one flash operation on its array (die or plane) and channel, from time `ready_ns` on at the earliest.
    /// Returns the time when the operation ends.
    #[inline]
    fn book_op_returning_end_ns(&mut self, op: &FlashOp, ready_ns: u64) -> u64 {
        let FlashTiming { read_ns, program_ns, erase_ns, .. } = self.flash_timing;
        let transfer = self.flash_timing.transfer_ns(op.transfer_bytes);
        let (array, channel) = self.array_and_channel_timelines(op);
        let start = array.free_at_ns.max(ready_ns);
        let end = match op.kind {
            OpKind::Read => channel.book_duration_returning_start_ns(start + read_ns, transfer) + transfer,
            OpKind::Program => {
                channel.book_duration_returning_start_ns(start, transfer) + transfer + program_ns
            }
            OpKind::Erase => start + erase_ns,
            OpKind::Copies => unreachable!("copies are booked one by one"),
            OpKind::NvramScan => unreachable!("no array scans NVRAM"),
        };
        array.book_interval(start, end);
        end
    }

    /// Returns the time at which all operations booked on the arrays (dies or planes) of a block have ended.
    /// `first_plane` is the first plane of the block.
    fn arrays_of_block_are_free_at_ns(&self, first_plane: PlaneId) -> u64 {
        let arrays = self.layout.arrays_of_block(first_plane);
        arrays.into_iter().map(|array| self.arrays[array as usize].free_at_ns).max().unwrap_or(0)
    }

    /// Returns the timelines of the array (die or plane) and of the channel that an operation uses.
    #[inline]
    fn array_and_channel_timelines(
        &mut self,
        op: &FlashOp,
    ) -> (&mut ResourceTimeline, &mut ResourceTimeline) {
        let [array, channel] = self.array_and_channel_of_plane[op.plane.index()];
        (&mut self.arrays[array as usize], &mut self.channels[channel as usize])
    }

    /// Books a series of page copies within one array (die or plane). Returns the end of the last copy. From the second
    /// copy on, the channel is always free before the array is. So no copy waits for the channel, and all but the first
    /// are booked in one step.
    fn book_copies_returning_end_ns(&mut self, copies: &FlashOp, ready_ns: u64) -> u64 {
        let [read, program] = copies.read_and_program_of_copy();
        let read_end = self.book_op_returning_end_ns(&read, ready_ns);
        self.book_op_returning_end_ns(&program, read_end);
        let FlashTiming { read_ns, program_ns, .. } = self.flash_timing;
        let transfer = self.flash_timing.transfer_ns(read.transfer_bytes);
        let (more, copy) =
            (u64::from(copies.copied_page_or_nvram_line_count - 1), read_ns + 2 * transfer + program_ns);
        let (array, channel) = self.array_and_channel_timelines(&read);
        debug_assert_eq!(channel.free_at_ns + program_ns, array.free_at_ns, "a program was booked last");
        array.free_at_ns += more * copy;
        array.busy_ns += more * copy;
        channel.free_at_ns += more * copy;
        channel.busy_ns += more * 2 * transfer;
        array.free_at_ns
    }
}

/// Timing engine with one next-free time per array (die or plane) and channel, without queues and priorities.
#[derive(Clone, Debug)]
pub(super) struct TimelineEngine {
    /// Timelines of all arrays and channels.
    timelines: DeviceTimelines,
    /// Time from which the NVRAM is free.
    nvram_timing: NvramTiming,
    /// Whether GC is foreground GC: the host operations of a request start after the background operations in its list
    /// have ended.
    uses_foreground_gc: bool,
    /// Controller time added to every request, nanoseconds.
    controller_overhead_ns: u64,
    /// Codec units, which encode and decode deltas.
    delta_codec_units: DeltaCodecUnits,
    /// End time of each flash operation of the list being booked, nanoseconds.
    op_ends_ns: Vec<u64>,
    /// Completion times of unfinished requests. Times that have passed are removed only when a query needs it. `None`
    /// in open loop, where there are no queries.
    unfinished_requests: Option<UnfinishedRequests>,
    /// Latest completion time of all requests, nanoseconds.
    last_completion_ns: u64,
    /// Latencies of the completed requests.
    request_latencies: LatencyRecords,
    /// Number of flash operations booked so far.
    completed_ops: u64,
    /// Simulated time, nanoseconds.
    current_ns: u64,
}

impl TimelineEngine {
    /// Creates a timeline engine for a device that is idle at time 0.
    pub(super) fn new(layout: &ArrayLayout, flash: FlashTiming, options: &TimingOptions) -> Self {
        Self {
            timelines: DeviceTimelines::new(layout, flash),
            nvram_timing: NvramTiming::new(options),
            uses_foreground_gc: options.uses_foreground_gc,
            controller_overhead_ns: options.controller_overhead_ns,
            delta_codec_units: DeltaCodecUnits::new(options.delta_codec_units),
            op_ends_ns: Vec::new(),
            unfinished_requests: (!options.is_open_loop).then(UnfinishedRequests::default),
            last_completion_ns: 0,
            request_latencies: LatencyRecords::new(options.keeps_completions),
            completed_ops: 0,
            current_ns: 0,
        }
    }

    /// Books the flash operations and controller work of a host request, and records its latency. Returns its number.
    #[inline]
    pub(super) fn submit_request(
        &mut self,
        request_kind: RequestKind,
        arrival_ns: u64,
        work: ControllerWork,
        ops: &[FlashOp],
    ) -> u64 {
        let number = self.request_latencies.take_next_request_number();
        self.current_ns = self.current_ns.max(arrival_ns);
        let overhead_ns = work.work_parallel_to_other_requests_ns
            + self.nvram_timing.book_nvram_stores_returning_elapsed_ns(self.current_ns, work.nvram_store_ns);
        let flash_end = self.book_ops_returning_host_end_ns(ops);
        let wait_ns = self.delta_codec_units.book_delta_codec_wait_ns(flash_end, work.delta_codec_work_ns);
        let end = flash_end + self.controller_overhead_ns + overhead_ns + wait_ns;
        self.request_latencies.record_completion(request_kind, number, arrival_ns, end);
        self.last_completion_ns = self.last_completion_ns.max(end);
        if let Some(unfinished) = &mut self.unfinished_requests
            && end > self.current_ns
        {
            unfinished.push_completion(end);
        }
        number
    }

    /// Books flash operations for which no request waits, from time `arrival_ns` on.
    pub(super) fn submit_background(&mut self, arrival_ns: u64, ops: &[FlashOp]) {
        self.current_ns = self.current_ns.max(arrival_ns);
        self.book_ops_returning_host_end_ns(ops);
    }

    /// Removes the completion times that have passed, and returns those of unfinished requests.
    #[inline]
    fn prune_completed_requests(&mut self) -> &mut UnfinishedRequests {
        let unfinished =
            self.unfinished_requests.as_mut().expect("in open loop nobody asks for unfinished requests");
        while unfinished.pop_completion_until(self.current_ns).is_some() {}
        unfinished
    }

    /// Books a list of flash operations. Returns the time when those for which the host waits have ended, nanoseconds.
    #[inline]
    fn book_ops_returning_host_end_ns(&mut self, ops: &[FlashOp]) -> u64 {
        if let [op] = ops
            && op.ops_back_to_dependency == 0
            && !matches!(op.kind, OpKind::Copies | OpKind::NvramScan)
        {
            self.completed_ops += 1;
            let end = self.timelines.book_op_returning_end_ns(op, self.current_ns);
            return if op.is_background() { self.current_ns } else { end };
        }
        self.book_op_list_returning_host_end_ns(ops)
    }

    /// Books a list of flash operations with dependencies, copies or NVRAM scans. Returns the time when those for which
    /// the host waits have ended, nanoseconds.
    fn book_op_list_returning_host_end_ns(&mut self, ops: &[FlashOp]) -> u64 {
        self.op_ends_ns.clear();
        let (mut host_end, mut gc_end) = (self.current_ns, self.current_ns);
        // `log_end` is the end of the reads of a log on flash, `scan_end` that of the last NVRAM scan.
        let (mut log_end, mut scan_end) = (self.current_ns, self.current_ns);
        for op in ops {
            let ready = match op.ops_back_to_dependency as usize {
                0 => self.current_ns,
                back => self.op_ends_ns[self.op_ends_ns.len() - back],
            };
            let background = op.is_background();
            let ready = match background {
                true if op.ops_back_to_dependency == 0 => ready.max(scan_end),
                false if self.uses_foreground_gc && !op.reads_reverse_map_log() => ready.max(gc_end),
                _ => ready,
            };
            let end = match op.kind {
                OpKind::Copies => self.timelines.book_copies_returning_end_ns(op, ready),
                OpKind::NvramScan => {
                    let ready =
                        ready.max(log_end).max(self.timelines.arrays_of_block_are_free_at_ns(op.plane));
                    scan_end = self.nvram_timing.book_scan_returning_end_ns(op, ready);
                    scan_end
                }
                OpKind::Read | OpKind::Program | OpKind::Erase => {
                    self.timelines.book_op_returning_end_ns(op, ready)
                }
            };
            if op.reads_reverse_map_log() {
                log_end = log_end.max(end);
            }
            let last = if background { &mut gc_end } else { &mut host_end };
            *last = end.max(*last);
            self.op_ends_ns.push(end);
            self.completed_ops += op.flash_operation_count();
        }
        host_end
    }

    /// Advances time to the next completion of a host request, and returns it, nanoseconds; `None` if none is
    /// outstanding.
    #[inline]
    pub(super) fn run_to_next_completion_ns(&mut self) -> Option<u64> {
        self.current_ns = self.prune_completed_requests().pop_completion_until(u64::MAX)?;
        Some(self.current_ns)
    }

    /// Advances time to the last completion of a request, but at most to `to_ns`. Returns whether no request is
    /// outstanding then.
    pub(super) fn complete_requests_until(&mut self, to_ns: u64) -> bool {
        self.current_ns = self.current_ns.max(self.last_completion_ns.min(to_ns));
        self.last_completion_ns <= self.current_ns
    }

    /// Advances time to the end of everything that is booked, and returns that time, nanoseconds.
    pub(super) fn run_to_completion_ns(&mut self) -> u64 {
        self.unfinished_requests.iter_mut().for_each(UnfinishedRequests::clear);
        self.last_completion_ns = 0;
        let lanes = self.timelines.arrays.iter().chain(&self.timelines.channels);
        self.current_ns = lanes.map(|lane| lane.free_at_ns).fold(self.current_ns, u64::max);
        self.current_ns
    }

    /// Returns the number of host requests that have not completed at the present simulated time.
    #[inline]
    pub(super) fn outstanding_requests(&mut self) -> usize {
        self.prune_completed_requests().len()
    }

    /// Returns the simulated time, nanoseconds.
    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        self.current_ns
    }

    /// Returns the number of flash operations booked so far.
    pub(super) fn completed_ops(&self) -> u64 {
        self.completed_ops
    }

    /// Returns the time for which each array (die or plane) has been booked so far, nanoseconds.
    pub(super) fn array_busy_ns(&self) -> Vec<u64> {
        self.timelines.arrays.iter().map(|lane| lane.busy_ns).collect()
    }

    /// Returns the time for which each channel has been booked so far, nanoseconds.
    pub(super) fn channel_busy_ns(&self) -> Vec<u64> {
        self.timelines.channels.iter().map(|lane| lane.busy_ns).collect()
    }

    /// Returns the latencies of the completed requests.
    pub(super) fn latency_records(&self) -> &LatencyRecords {
        &self.request_latencies
    }

    /// Returns the latencies of the completed requests, to be changed.
    pub(super) fn latency_records_mut(&mut self) -> &mut LatencyRecords {
        &mut self.request_latencies
    }
}
