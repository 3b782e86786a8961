//! Exact timing by discrete events: queues per array and priority, arbitration of channels, suspension.
//!
//! The complete service rules:
//! - An *array* (a die, or a plane if planes are independent) executes one operation, or one multi-plane group, at a
//!   time and is busy until it ends. Read: tR, then the transfer out. Program: the transfer in, then tPROG. Erase:
//!   tBERS.
//! - A *channel* carries one transfer at a time. Waiting transfers are served first come first served, those of reads
//!   with priority first. A group transfers page by page and requests the channel for each page.
//! - An array that becomes free takes its next operation from its queues: host reads, then host writes, then background
//!   work (see [`TimingOptions`] for the variants).
//! - An operation with a predecessor joins its queue when the predecessor ends. If both belong in the same queue, it
//!   joins at once, because the queue keeps the order (so a collection copies page by page). Multi-plane groups could
//!   break that order, so with `uses_multi_plane_ops` it always waits. The erase of a victim has the last copy as
//!   predecessor.
//! - Background work that joins a queue late precedes the operations of the queue that the FTL issued later. But it
//!   follows the running operations, and the remaining copies of a running *series of copies* (the page copies of one
//!   collection within one array). So an array finishes one collection after the other, also across dies, and with
//!   `uses_multi_plane_ops`.
//! - A scan holds back the background operations after it in its list, except those with a predecessor. When it ends,
//!   they join their queues in order ([`super::nvram_scans`]).
//! - At each event, all operations that became ready are queued before any starts. Then arrays start operations: first
//!   the array that became free, then the others in the order in which they received work that they can start.
//! - A host read that arrives during the array phase of a program or erase suspends it. A read that arrives during the
//!   transfer of a program suspends the program when the transfer ends. The operation resumes when no host read is
//!   queued. The overhead is added to the resumed operation, not to the read.
//! - While an array has no erased block for host writes ([`super::FreeBlocksPerArray`]), or more background operations
//!   than [`TimingOptions::max_background_backlog_ops`], background work is served before host writes, and alternates
//!   with host reads. What starts or resumes in such a turn is not suspended. With
//!   [`TimingOptions::background_delays_reads`], the background operations in excess of that number also precede reads.
//! - Before all erased blocks are used up, background work keeps pace with host writes: some of it is served before
//!   each waiting write, so that no write waits for a whole collection. Operations that wait for a predecessor count as
//!   work to do ([`super::background_share`]).
//!
//! Key decision: an event exists only where operations can interact. The transfer and tPROG of a program are one event
//! once the channel is granted, and the end of a transfer is an event only if another transfer waits. On a *plain*
//! device (neither suspension nor groups, the common case) transfers are booked when they are requested
//! ([`super::channel`]). An array that works through a series of copies needs one event from the end of one read to the
//! end of the next ([`super::array`]): it takes the steps in between ahead of the clock, and undoes them if a host
//! operation must be served in between. A copy then costs one event instead of three and a wait. The price: the state
//! of running operations is partly implicit (`Channel::free_at_ns`, `DieOrPlaneState::array_phase_start_ns`,
//! `DieOrPlaneState::ahead`), and a transfer that overtakes others must postpone their arrays' next events.
//!
//! Arrays are numbered in groups of eight: every channel has a multiple of eight numbers, of which the last may be
//! unused, so that eight arrays of one channel are processed at a time ([`super::event_queue`], [`super::channel`]).
//!
//! Invariants:
//! - A running or suspended operation is at the front of its queue. It leaves the queue when it completes, or earlier
//!   if only a host operation could be served between it and the next.
//! - Between events, an array without a running group is idle and its queues are empty.
//! - Simultaneous events are handled in order of class, then of array or channel number.

#![expect(clippy::inline_always, reason = "measured: 25 % more operations per second than with plain hints")]

use std::collections::VecDeque;

use super::array::{
    DieOrPlaneState, NOT_BUSY, ORDINARY_QUEUE_INDEX, PRIORITY_READ_QUEUE_INDEX, SharedEngineState,
    YIELDING_BACKGROUND_QUEUE_INDEX,
};
use super::channel::{Channel, EventPosition};
use super::codec::DeltaCodecUnits;
use super::event_queue::{EventClass, EventQueue, MAX_ARRIVAL_NS, TimingEvent};
use super::latency::LatencyRecords;
use super::nvram::NvramTiming;
use super::nvram_scans::{NvramScan, NvramScans};
use super::op_queue::{
    END_OF_LIST, NVRAM_SCAN_QUEUE_INDEX, OpEffectOnRequest, QueuedOp, UnqueuedOp, UnqueuedOps,
};
use super::trace::TimingObserver;
use super::{ArrayLayout, ControllerWork, FlashTiming, RequestKind, TimingOptions};
use crate::operation::{FlashOp, OpKind, expand_copies};

/// Where the event engine has put an admitted operation (flash operation or NVRAM scan): a queue of an array, or a list
/// of operations that are held back. Later operations of the same submission can then wait for it.
#[derive(Clone, Copy, Debug)]
enum OpDestination {
    /// The operation is in a queue of an array (die or plane), at position `index`.
    Queued { array: u32, queue: u8, index: u32 },
    /// The operation is in this slot of [`UnqueuedOps`], outside the queues of the arrays, until the operation that it
    /// waits for, or the foreground GC of its request, has finished.
    HeldInSlot(u32),
    /// The operation is held back outside the queues until a scan of NVRAM has ended, and then joins this queue.
    HeldByScan { id: u32, array: u32, queue: u8 },
    /// The operation is a scan of NVRAM, which is kept in [`NvramScans`]. No other operation refers to it
    /// ([`FlashOp::ops_back_to_dependency`]).
    NvramScanList,
}

/// A host request that has not been answered, or that has unfinished flash operations.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// Time at which the request arrived, nanoseconds.
    arrival_ns: u64,
    /// Number of the request in order of submission.
    request_number: u64,
    /// Controller time between the end of the request's flash operations and the answer to the host, nanoseconds.
    controller_overhead_ns: u64,
    /// Part of the request's controller time during which the request needs a codec unit (encoder and decoder of
    /// deltas), nanoseconds.
    delta_codec_work_ns: u64,
    /// Number of unfinished flash operations and NVRAM scans for which the request waits. For a flush, unfinished
    /// earlier writes count too.
    pending_ops: u32,
    /// Number of the request's unfinished foreground-GC operations, which its own operations wait for.
    pending_blocking_ops: u32,
    /// Head of the linked list of the request's operations that are held back until its foreground GC has finished,
    /// latest first.
    held_ops_list_head: u32,
    /// Kind of the request, such as read or write.
    kind: RequestKind,
    /// Whether the request was answered. A write in the write buffer is answered before it is programmed.
    is_acknowledged: bool,
}

/// A flush request that waits until the writes that arrived before it are programmed.
#[derive(Clone, Copy, Debug)]
struct WaitingFlush {
    /// Slot number of the flush in the table of requests.
    request_slot: u32,
    /// Number of the flush in order of submission: it waits for writes with smaller numbers.
    request_number: u64,
    /// Number of writes that arrived before the flush and are not programmed yet.
    unprogrammed_earlier_writes: u32,
}

/// Timing engine that simulates queues, priorities and suspension of flash operations, event by event.
#[derive(Clone, Debug)]
pub(super) struct EventEngine<T> {
    /// Arrays (dies or planes) and channels of the device; the arrays of each channel are padded to a multiple of
    /// eight.
    array_layout: ArrayLayout,
    /// Time from which the NVRAM is free.
    nvram_timing: NvramTiming,
    /// Unfinished scans of NVRAM.
    nvram_scans: NvramScans,
    /// Number of the last NVRAM scan in the list of operations being admitted, which holds back the background
    /// operations after it.
    preceding_nvram_scan_number: Option<u32>,
    /// Whether the device supports neither suspension nor multi-plane operations. The engine can then complete
    /// operations on a faster path: see [`super::array`].
    allows_fast_path: bool,
    /// Clock, events, channels and options, which all arrays share.
    engine_state: SharedEngineState<T>,
    /// Arrays (dies or planes) of the device, a multiple of eight per channel, of which the last may be unused.
    arrays: Vec<DieOrPlaneState>,
    /// Numbers of the arrays (dies or planes) of the device. All other array numbers are padding, which fills up groups
    /// of eight.
    non_padding_array_numbers: Vec<u32>,
    /// Flash operations that the FTL has issued, but that cannot join a queue yet because they wait for others.
    unqueued_ops: UnqueuedOps,
    /// Number of operations that the FTL has issued so far, modulo 2^32.
    issued_op_count: u32,
    /// Codec units, which encode and decode deltas.
    delta_codec_units: DeltaCodecUnits,
    /// Unfinished host requests, by slot number.
    requests: Vec<Request>,
    /// Slot numbers of `requests` that hold no request and can be used again.
    free_request_slots: Vec<u32>,
    /// Number of writes acknowledged but not yet programmed.
    buffered_write_count: usize,
    /// Slot numbers of host writes that wait for a place in the write buffer.
    writes_waiting_for_buffer: VecDeque<u32>,
    /// Flush requests that wait for earlier writes to be programmed.
    waiting_flushes: Vec<WaitingFlush>,
    /// While a list of operations is admitted: for each operation that is already admitted, where the engine has stored
    /// it.
    admitted_op_destinations: Vec<OpDestination>,
    /// While a list of operations is admitted: for each, whether it belongs to the host or waits, directly or
    /// indirectly, for an operation of the host. Such an operation is never treated as foreground GC. Host operations
    /// wait for foreground GC, so the two would wait for each other.
    op_must_not_block_host: Vec<bool>,
    /// Arrays (dies or planes) that received work during the event being handled, and may start it.
    arrays_to_wake: Vec<u32>,
    /// Latencies of the completed requests.
    request_latencies: LatencyRecords,
    /// Number of host requests that were submitted and not answered yet.
    unanswered_requests: usize,
}

// Interface to [`super::TimingEngine`].
impl<T: TimingObserver> EventEngine<T> {
    /// Creates an event engine for a device that is idle at time 0.
    pub(super) fn new(layout: &ArrayLayout, flash: FlashTiming, options: TimingOptions) -> Self {
        let (array_layout, non_padding_array_numbers) = layout.with_channels_padded_to_eight_arrays();
        let per_channel = array_layout.array_count() / array_layout.channel_count;
        Self {
            non_padding_array_numbers,
            allows_fast_path: options.suspension.is_none() && !options.uses_multi_plane_ops,
            arrays: array_layout
                .channel_of_array
                .iter()
                .map(|&channel| DieOrPlaneState::new(channel, &options))
                .collect(),
            nvram_timing: NvramTiming::new(&options),
            nvram_scans: NvramScans::default(),
            preceding_nvram_scan_number: None,
            request_latencies: LatencyRecords::new(options.keeps_completions),
            delta_codec_units: DeltaCodecUnits::new(options.delta_codec_units),
            engine_state: SharedEngineState {
                current_event_position: EventPosition::after_events_at(0),
                events: EventQueue::new(array_layout.array_count(), array_layout.channel_count),
                channels: (0..array_layout.channel_count)
                    .map(|channel| Channel::new((channel * per_channel) as u32, per_channel))
                    .collect(),
                completed_ops: 0,
                flash_timing: flash,
                options,
                observer: T::for_arrays(array_layout.array_count()),
            },
            array_layout,
            unqueued_ops: UnqueuedOps::new(),
            issued_op_count: 0,
            requests: Vec::new(),
            free_request_slots: Vec::new(),
            buffered_write_count: 0,
            writes_waiting_for_buffer: VecDeque::new(),
            waiting_flushes: Vec::new(),
            admitted_op_destinations: Vec::new(),
            op_must_not_block_host: Vec::new(),
            arrays_to_wake: Vec::new(),
            unanswered_requests: 0,
        }
    }

    /// Submits a host request with its controller work and flash operations, after all events up to its arrival.
    /// Returns its number.
    pub(super) fn submit_request(
        &mut self,
        kind: RequestKind,
        arrival_ns: u64,
        work: ControllerWork,
        ops: &[FlashOp],
    ) -> u64 {
        let arrival_ns = arrival_ns.min(MAX_ARRIVAL_NS);
        self.advance_clock_to(arrival_ns);
        let number = self.request_latencies.take_next_request_number();
        let overhead = self.engine_state.options.controller_overhead_ns
            + work.work_parallel_to_other_requests_ns
            + self
                .nvram_timing
                .book_nvram_stores_returning_elapsed_ns(self.engine_state.now_ns(), work.nvram_store_ns);
        let slot = self.add_request(kind, arrival_ns, number, [overhead, work.delta_codec_work_ns]);
        self.unanswered_requests += 1;
        if kind == RequestKind::Flush {
            self.make_flush_wait(slot);
        }
        self.admit_submission(ops, Some(slot));
        if self.requests[slot as usize].pending_ops == 0 {
            self.schedule_request_completion(slot);
        } else if self.uses_write_buffer(kind) {
            self.put_write_into_buffer(slot);
        }
        number
    }

    /// Submits flash operations for which no request waits, after all events up to `arrival_ns`.
    pub(super) fn submit_background(&mut self, arrival_ns: u64, ops: &[FlashOp]) {
        self.advance_clock_to(arrival_ns.min(MAX_ARRIVAL_NS));
        self.admit_submission(ops, None);
    }

    /// Advances time until a host request completes, and returns that time, nanoseconds; `None` if none is outstanding.
    pub(super) fn run_to_next_completion_ns(&mut self) -> Option<u64> {
        if self.unanswered_requests == 0 {
            return None;
        }
        if self.takes_fast_path() {
            self.run_until_request_completes::<true>();
        } else {
            self.run_until_request_completes::<false>();
        }
        Some(self.engine_state.now_ns())
    }

    /// Advances time until no host request is outstanding, but at most to `to_ns`. Returns whether none is outstanding
    /// then.
    pub(super) fn complete_requests_until(&mut self, to_ns: u64) -> bool {
        while self.unanswered_requests > 0 {
            let Some(event) = self.engine_state.events.pop_event_until(to_ns) else { return false };
            if self.takes_fast_path() {
                self.handle_event::<true>(event);
            } else {
                self.handle_event::<false>(event);
            }
        }
        true
    }

    /// Handles all remaining events, background work included. Returns the time of the last one, nanoseconds.
    pub(super) fn run_to_completion_ns(&mut self) -> u64 {
        self.handle_events_on_fast_or_general_path(u64::MAX);
        debug_assert_eq!(self.unanswered_requests, 0, "requests are unanswered at the end");
        self.engine_state.now_ns()
    }

    /// Returns the number of host requests that were not answered yet.
    pub(super) fn outstanding_requests(&self) -> usize {
        self.unanswered_requests
    }

    /// Returns the simulated time, nanoseconds.
    pub(super) fn now_ns(&self) -> u64 {
        self.engine_state.now_ns()
    }

    /// Returns the number of flash operations completed so far.
    pub(super) fn completed_ops(&self) -> u64 {
        self.engine_state.completed_ops
    }

    /// Returns the time that each array (die or plane) has been busy so far, nanoseconds.
    pub(super) fn array_busy_ns(&self) -> Vec<u64> {
        let running = |array: &DieOrPlaneState| {
            if array.busy_since_ns == NOT_BUSY { 0 } else { self.engine_state.now_ns() - array.busy_since_ns }
        };
        let real = self.non_padding_array_numbers.iter().map(|&index| &self.arrays[index as usize]);
        real.map(|array| array.busy_ns + running(array)).collect()
    }

    /// Returns the time that each channel has spent on transfers so far, nanoseconds.
    pub(super) fn channel_busy_ns(&self) -> Vec<u64> {
        self.engine_state.channels.iter().map(|channel| channel.busy_ns).collect()
    }

    /// Returns the observer that records single flash operations.
    pub(super) fn op_observer_mut(&mut self) -> &mut T {
        &mut self.engine_state.observer
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

// The clock and the event loop.
impl<T: TimingObserver> EventEngine<T> {
    /// Whether the engine takes its faster path: it completes operations without suspension or multi-plane groups, and
    /// may execute steps of copies ahead of the simulated time. False for a traced engine, which has to observe each
    /// step when it happens.
    #[inline(always)]
    fn takes_fast_path(&self) -> bool {
        !T::RECORDS_OP_STEPS && self.allows_fast_path
    }

    /// Advances the simulation to time `to_ns`, nanoseconds: handles all events up to and including this time.
    /// Operations that end just when a new request arrives are therefore complete before the request is admitted.
    #[inline(always)]
    fn advance_clock_to(&mut self, to_ns: u64) {
        if self.engine_state.events.may_have_due_event(to_ns) {
            self.handle_events_on_fast_or_general_path(to_ns);
        }
        self.engine_state.current_event_position =
            EventPosition::after_events_at(self.engine_state.now_ns().max(to_ns));
    }

    /// Handles all events up to and including time `to_ns`, on the fast path if [`Self::takes_fast_path`], otherwise on
    /// the general one.
    fn handle_events_on_fast_or_general_path(&mut self, to_ns: u64) {
        if self.takes_fast_path() {
            self.handle_events_until::<true>(to_ns);
        } else {
            self.handle_events_until::<false>(to_ns);
        }
    }

    /// Handles all events up to and including time `to_ns`. `PLAIN` selects the faster path of devices without
    /// suspension and multi-plane operations.
    fn handle_events_until<const PLAIN: bool>(&mut self, to_ns: u64) {
        while let Some(event) = self.engine_state.events.pop_event_until(to_ns) {
            self.handle_event::<PLAIN>(event);
        }
    }

    /// Handles simulated events until a host request completes. At least one request must be outstanding.
    fn run_until_request_completes<const PLAIN: bool>(&mut self) {
        let before = self.unanswered_requests;
        while self.unanswered_requests == before {
            let event =
                self.engine_state.events.pop_event_until(u64::MAX).expect("outstanding work has an event");
            self.handle_event::<PLAIN>(event);
        }
    }

    /// Handles one event: advances the clock to it and acts according to its class. `PLAIN` selects the faster path of
    /// devices without suspension and multi-plane operations.
    #[inline(always)]
    fn handle_event<const PLAIN: bool>(&mut self, event: TimingEvent) {
        let TimingEvent { time_ns, class, source_number: source } = event;
        self.engine_state.current_event_position = EventPosition::of_event(time_ns, class, source);
        match class {
            EventClass::ReadSensed => {
                let array = &mut self.arrays[source as usize];
                array.finish_sensing::<PLAIN>(source, &mut self.engine_state);
            }
            _ if PLAIN && class.is_array_event() => self.complete_last_op_of_group::<PLAIN>(source),
            EventClass::Transferred => self.handle_transfer_end(source),
            EventClass::Programmed | EventClass::Erased => self.handle_multi_plane_group_end(source),
            EventClass::ChannelFree => self.handle_channel_free(source),
            EventClass::Acknowledged => self.record_request_answer(source),
            EventClass::NvramScanEnded => self.handle_nvram_scan_end(source),
        }
    }
}

// Admission of operations to queues.
impl<T: TimingObserver> EventEngine<T> {
    /// Admits the flash operations of a submission to the queues, and makes the arrays that received work start.
    /// `request` is the slot of the host request to which they belong.
    #[inline(always)]
    fn admit_submission(&mut self, ops: &[FlashOp], request: Option<u32>) {
        if T::RECORDS_OP_STEPS {
            let number = request.map(|slot| self.requests[slot as usize].request_number);
            self.engine_state.observer.on_ops_submitted(
                number,
                self.engine_state.current_event_position.time_ns(),
                ops,
            );
        }
        match ops {
            // The most frequent lists: the program of a host write, or the read of a host read.
            [op] if op.ops_back_to_dependency == 0
                && !op.is_background()
                && !op.reads_reverse_map_log()
                && !matches!(op.kind, OpKind::Copies | OpKind::NvramScan) =>
            {
                self.admit_op(op, request);
            }
            _ => self.admit_ops_expanding_copies(ops, request),
        }
        self.wake_arrays();
    }

    /// Admits a list of operations. Replaces each batch of page copies by single reads and programs if an option, or a
    /// request that waits for the copies, needs single operations.
    fn admit_ops_expanding_copies(&mut self, ops: &[FlashOp], request: Option<u32>) {
        let TimingOptions { uses_multi_plane_ops, uses_foreground_gc, .. } = self.engine_state.options;
        let must_be_single = |op: &FlashOp| {
            let waited_for = request.is_some() && !op.is_background();
            op.kind == OpKind::Copies && (uses_multi_plane_ops || uses_foreground_gc || waited_for)
        };
        if ops.iter().any(must_be_single) {
            self.admit_ops(&expand_copies(ops), request);
        } else {
            self.admit_ops(ops, request);
        }
    }

    /// Admits a list of flash operations and NVRAM scans one by one, in order.
    fn admit_ops(&mut self, ops: &[FlashOp], request: Option<u32>) {
        self.admitted_op_destinations.clear();
        if self.engine_state.options.uses_foreground_gc && request.is_some() {
            self.mark_non_blocking_ops(ops);
        }
        for op in ops {
            self.engine_state.observer.on_op_admitted(op);
            let listed = match op.kind {
                OpKind::Copies => self.admit_copies(op),
                OpKind::NvramScan => {
                    self.admit_nvram_scan(op, &ops[..self.admitted_op_destinations.len()], request)
                }
                OpKind::Read | OpKind::Program | OpKind::Erase => self.admit_op(op, request),
            };
            self.admitted_op_destinations.push(listed);
        }
        self.preceding_nvram_scan_number = None;
    }

    /// Queues a batch of page copies, for which no request waits, as one queue entry.
    fn admit_copies(&mut self, copies: &FlashOp) -> OpDestination {
        let array = self.array_layout.plane_locations[copies.plane.index()].array_number;
        let queue = self.queue_index_for(OpKind::Read, true);
        let op = QueuedOp::copy_series(
            copies.copied_page_or_nvram_line_count,
            self.transfer_ns(copies),
            self.take_next_op_issue_number(),
        );
        self.enqueue_after_nvram_scan(op, array, queue)
    }

    /// Queues a background operation. If an NVRAM scan precedes the operation in its list, the operation is held back
    /// until the scan ends.
    #[inline(always)]
    fn enqueue_after_nvram_scan(&mut self, op: QueuedOp, array: u32, queue: u8) -> OpDestination {
        match self.preceding_nvram_scan_number {
            None => self.enqueue_op(op, array, queue),
            Some(scan) => self.hold_op_until_scan_ends(scan, op, array, queue),
        }
    }

    /// Returns the number of the next operation in the order in which the FTL issues operations, and counts the
    /// operation.
    #[inline(always)]
    fn take_next_op_issue_number(&mut self) -> u32 {
        self.issued_op_count = self.issued_op_count.wrapping_add(1);
        self.issued_op_count
    }

    /// Returns the time of an operation's transfer on the channel, nanoseconds; saturates at 4.29 s.
    #[inline(always)]
    fn transfer_ns(&self, op: &FlashOp) -> u32 {
        self.engine_state.flash_timing.transfer_ns(op.transfer_bytes).min(u64::from(u32::MAX)) as u32
    }

    /// Admits a read, program or erase: appends it to a queue of its array, or holds it back if it must wait.
    #[inline(always)]
    fn admit_op(&mut self, flash_op: &FlashOp, request: Option<u32>) -> OpDestination {
        let background = request.is_none() || flash_op.is_background();
        let place = self.array_layout.plane_locations[flash_op.plane.index()];
        let (array_or_scan_number, queue_index) =
            (place.array_number, self.queue_index_for(flash_op.kind, background));
        let effect_on_request =
            self.op_effect_on_request(background || flash_op.reads_reverse_map_log(), request);
        let effect_on_request = if effect_on_request == OpEffectOnRequest::Background && !background {
            OpEffectOnRequest::Awaited
        } else {
            effect_on_request
        };
        let op = QueuedOp {
            unqueued_ops_list_head: END_OF_LIST,
            request_slot_or_copy_ops_after_first: if effect_on_request == OpEffectOnRequest::Background {
                0
            } else {
                request.unwrap_or(END_OF_LIST)
            },
            transfer_ns: self.transfer_ns(flash_op),
            issue_number: self.take_next_op_issue_number(),
            kind: flash_op.kind,
            effect_on_request,
            plane_in_die: place.plane_in_die,
        };
        let held = op.effect_on_request != OpEffectOnRequest::Background
            && self.count_pending_op_and_check_gc_wait(op);
        if flash_op.ops_back_to_dependency > 0 {
            return self.admit_after_predecessor(
                flash_op.ops_back_to_dependency,
                UnqueuedOp { op, array_or_scan_number, queue_index, next_unqueued_op: END_OF_LIST },
            );
        }
        if held {
            return self.hold_op_for_foreground_gc(UnqueuedOp {
                op,
                array_or_scan_number,
                queue_index,
                next_unqueued_op: END_OF_LIST,
            });
        }
        if background && !flash_op.reads_reverse_map_log() {
            return self.enqueue_after_nvram_scan(op, array_or_scan_number, queue_index);
        }
        self.enqueue_op(op, array_or_scan_number, queue_index)
    }

    /// Admits an operation that must wait for its predecessor, the operation `ops_back_to_predecessor` positions
    /// earlier in the list.
    #[inline(always)]
    fn admit_after_predecessor(
        &mut self,
        ops_back_to_predecessor: u16,
        mut waiter: UnqueuedOp,
    ) -> OpDestination {
        let predecessor = self.admitted_op_destinations
            [self.admitted_op_destinations.len() - ops_back_to_predecessor as usize];
        if let OpDestination::Queued { array, queue, .. } = predecessor
            && (array, queue) == (waiter.array_or_scan_number, waiter.queue_index)
            && !self.engine_state.options.uses_multi_plane_ops
        {
            return self.enqueue_op(waiter.op, array, queue);
        }
        if let (OpDestination::HeldByScan { array, queue, .. }, Some(scan)) =
            (predecessor, self.preceding_nvram_scan_number)
            && (array, queue) == (waiter.array_or_scan_number, waiter.queue_index)
            && !self.engine_state.options.uses_multi_plane_ops
        {
            return self.hold_op_until_scan_ends(scan, waiter.op, array, queue);
        }
        waiter.next_unqueued_op = *self.unqueued_ops_list_head_mut(predecessor);
        let id = self.insert_unqueued_op(waiter);
        *self.unqueued_ops_list_head_mut(predecessor) = id;
        OpDestination::HeldInSlot(id)
    }

    /// Returns the head of the linked list of the operations that wait for `predecessor`, an operation of the
    /// submission whose operations are being admitted.
    fn unqueued_ops_list_head_mut(&mut self, predecessor: OpDestination) -> &mut u32 {
        match predecessor {
            OpDestination::Queued { array, queue, index } => {
                &mut self.arrays[array as usize].queues[queue as usize]
                    .entry_at_mut(index)
                    .unqueued_ops_list_head
            }
            OpDestination::HeldInSlot(id) | OpDestination::HeldByScan { id, .. } => {
                &mut self.unqueued_ops.op_in_slot_mut(id).unqueued_ops_list_head
            }
            OpDestination::NvramScanList => unreachable!("nothing names a scan"),
        }
    }

    /// Stores a flash operation that cannot be queued yet; returns its slot.
    fn insert_unqueued_op(&mut self, waiter: UnqueuedOp) -> u32 {
        self.arrays[waiter.array_or_scan_number as usize]
            .count_issued_op_not_queued_yet(&waiter.op, waiter.queue_index);
        let id = self.unqueued_ops.insert(waiter);
        self.engine_state.observer.on_op_held(id);
        id
    }

    /// Holds an operation back until the foreground GC of its host request has finished.
    fn hold_op_for_foreground_gc(&mut self, mut waiter: UnqueuedOp) -> OpDestination {
        let slot = waiter.op.request_slot_or_copy_ops_after_first as usize;
        waiter.next_unqueued_op = self.requests[slot].held_ops_list_head;
        let id = self.insert_unqueued_op(waiter);
        self.requests[slot].held_ops_list_head = id;
        OpDestination::HeldInSlot(id)
    }

    /// Returns the index, among the queues of an array, of the queue for an operation of this kind. `background`: no
    /// host request waits for the operation.
    #[inline(always)]
    fn queue_index_for(&self, kind: OpKind, background: bool) -> u8 {
        match background {
            true if self.engine_state.options.background_yields_to_host => YIELDING_BACKGROUND_QUEUE_INDEX,
            false if self.engine_state.options.prioritises_reads && kind == OpKind::Read => {
                PRIORITY_READ_QUEUE_INDEX
            }
            _ => ORDINARY_QUEUE_INDEX,
        }
    }

    /// Returns how the operation that is admitted next affects `request`, the slot of its host request.
    #[inline(always)]
    fn op_effect_on_request(&self, background: bool, request: Option<u32>) -> OpEffectOnRequest {
        let blocking = || {
            self.engine_state.options.uses_foreground_gc
                && request.is_some()
                && !self.op_must_not_block_host[self.admitted_op_destinations.len()]
        };
        match background {
            false => OpEffectOnRequest::Awaited,
            true if blocking() => OpEffectOnRequest::Blocking,
            true => OpEffectOnRequest::Background,
        }
    }

    /// Counts an operation as pending in its host request: as one that the request waits for, or as foreground GC.
    /// Returns whether the operation must be held back until the request's foreground GC has finished.
    #[inline(always)]
    fn count_pending_op_and_check_gc_wait(&mut self, op: QueuedOp) -> bool {
        let request = &mut self.requests[op.request_slot_or_copy_ops_after_first as usize];
        if op.effect_on_request == OpEffectOnRequest::Awaited {
            request.pending_ops += 1;
            return request.pending_blocking_ops > 0;
        }
        request.pending_blocking_ops += 1;
        false
    }

    /// Marks the operations of a list that are not foreground GC, for which host operations would wait: the host's own
    /// operations, and all that wait for one of these, directly or indirectly. Marks all operations if the list has
    /// none of the host.
    fn mark_non_blocking_ops(&mut self, ops: &[FlashOp]) {
        // With foreground GC the reads of a log block the host, as do the copies that wait for them.
        let is_of_host = |op: &FlashOp| {
            !(op.is_background() || op.kind == OpKind::NvramScan || op.reads_reverse_map_log())
        };
        let blocks_nothing = !ops.iter().any(is_of_host);
        self.op_must_not_block_host.clear();
        for (index, op) in ops.iter().enumerate() {
            let inherits = op.ops_back_to_dependency > 0
                && self.op_must_not_block_host[index - op.ops_back_to_dependency as usize];
            self.op_must_not_block_host.push(blocks_nothing || inherits || is_of_host(op));
        }
    }

    /// Counts an operation that the FTL has just issued and that need not wait for another, and appends it to a queue
    /// of its array (die or plane).
    #[inline(always)]
    fn enqueue_op(&mut self, op: QueuedOp, array_index: u32, queue: u8) -> OpDestination {
        let array = &mut self.arrays[array_index as usize];
        array.count_issued_op(&op, queue);
        self.engine_state.observer.on_op_queued((array_index, queue), 1 + op.copy_ops_after_first());
        let index = array.push_op(op, queue);
        self.handle_queued_op(array_index, queue, index);
        OpDestination::Queued { array: array_index, queue, index }
    }

    /// Handles an operation that has just been queued at position `index`: undoes the steps that the array (die or
    /// plane) took ahead of the simulated time if the operation may change them, and notes the array for
    /// [`Self::wake_arrays`] if it may start the operation, or suspend another for it.
    #[inline(always)]
    fn handle_queued_op(&mut self, array_index: u32, queue: u8, index: u32) {
        let is_plain = self.takes_fast_path();
        let array = &mut self.arrays[array_index as usize];
        // While a host write waits, an array steps ahead only if another write would not change what it does.
        if is_plain
            && queue != YIELDING_BACKGROUND_QUEUE_INDEX
            && (index == 0 || queue == PRIORITY_READ_QUEUE_INDEX)
        {
            array.undo_speculative_copy_steps_after_host_arrival(array_index, &mut self.engine_state);
        }
        if index == 0
            && (!array.running_group.has_ops()
                || (queue == PRIORITY_READ_QUEUE_INDEX && self.engine_state.options.suspension.is_some()))
        {
            self.arrays_to_wake.push(array_index);
        }
    }

    /// Queues the operations of a linked list that were held back, in the order in which they were added. The head of
    /// the list is the latest.
    fn enqueue_held_ops(&mut self, list_head: u32) {
        let mut id = self.unqueued_ops.reverse_waiting_list(list_head);
        while id != END_OF_LIST {
            let UnqueuedOp { op, array_or_scan_number, queue_index, next_unqueued_op: next } =
                self.unqueued_ops.remove(id);
            if queue_index == NVRAM_SCAN_QUEUE_INDEX {
                self.finish_predecessor_of_nvram_scan(array_or_scan_number);
            } else {
                self.engine_state.observer.on_held_op_released(id);
                self.enqueue_held_op(op, array_or_scan_number, queue_index);
            }
            id = next;
        }
    }

    /// Adds an operation that was held back to the queue of its array (die or plane).
    fn enqueue_held_op(&mut self, op: QueuedOp, array_index: u32, queue: u8) {
        let array = &mut self.arrays[array_index as usize];
        array.count_op_released_to_queue(&op, queue);
        let index = array.add_released_op(op, queue);
        if T::RECORDS_OP_STEPS {
            let ops_before = array.queues[queue as usize].op_count_before(index);
            let ops = 1 + op.copy_ops_after_first();
            self.engine_state.observer.on_op_inserted((array_index, queue), ops, ops_before);
        }
        self.handle_queued_op(array_index, queue, index);
    }

    /// Makes the arrays (dies or planes) that received work start operations, or suspend running ones.
    #[inline(always)]
    fn wake_arrays(&mut self) {
        if !self.arrays_to_wake.is_empty() {
            if self.takes_fast_path() {
                self.start_or_suspend_ops_on_woken_arrays::<true>();
            } else {
                self.start_or_suspend_ops_on_woken_arrays::<false>();
            }
        }
    }

    /// Makes each array (die or plane) that received work start an operation, or suspend its running one for a host
    /// read. `PLAIN` selects the fast path of devices without suspension and multi-plane operations.
    #[inline(always)]
    fn start_or_suspend_ops_on_woken_arrays<const PLAIN: bool>(&mut self) {
        for &index in &self.arrays_to_wake {
            let array = &mut self.arrays[index as usize];
            if array.running_group.has_ops() {
                array.try_suspend::<PLAIN>(index, &mut self.engine_state);
            } else {
                array.start_next_op::<PLAIN>(index, &mut self.engine_state);
            }
        }
        self.arrays_to_wake.clear();
    }
}

// NVRAM scans.
impl<T: TimingObserver> EventEngine<T> {
    /// Admits a scan of NVRAM. The scan waits for the flash reads of the reverse-map log that precede it in the
    /// submitted list of operations.
    #[inline(never)]
    fn admit_nvram_scan(
        &mut self,
        scan: &FlashOp,
        before: &[FlashOp],
        request: Option<u32>,
    ) -> OpDestination {
        let arrays = self.array_layout.arrays_of_block(scan.plane);
        let number = self.nvram_scans.add_scan(*scan, arrays, request.unwrap_or(END_OF_LIST));
        if let Some(slot) = request {
            self.requests[slot as usize].pending_ops += 1;
        }
        let since_last =
            before.iter().rposition(|op| op.kind == OpKind::NvramScan).map_or(0, |last| last + 1);
        for at in (since_last..before.len()).filter(|&at| before[at].reads_reverse_map_log()) {
            self.make_nvram_scan_wait_for(number, self.admitted_op_destinations[at]);
        }
        self.preceding_nvram_scan_number = Some(number);
        self.advance_nvram_scan(number);
        OpDestination::NvramScanList
    }

    /// Makes a scan of NVRAM wait until the operation `predecessor` has completed.
    fn make_nvram_scan_wait_for(&mut self, scan: u32, predecessor: OpDestination) {
        let next = *self.unqueued_ops_list_head_mut(predecessor);
        let id = self.unqueued_ops.insert(UnqueuedOp {
            op: QueuedOp::NVRAM_SCAN_PLACEHOLDER_OP,
            array_or_scan_number: scan,
            queue_index: NVRAM_SCAN_QUEUE_INDEX,
            next_unqueued_op: next,
        });
        *self.unqueued_ops_list_head_mut(predecessor) = id;
        self.nvram_scans.get_mut(scan).pending_ops += 1;
    }

    /// Holds an operation back until the NVRAM scan with number `scan` ends.
    fn hold_op_until_scan_ends(
        &mut self,
        scan: u32,
        op: QueuedOp,
        array_or_scan_number: u32,
        queue_index: u8,
    ) -> OpDestination {
        let next_unqueued_op = self.nvram_scans.get_mut(scan).held_ops_list_head;
        let id =
            self.insert_unqueued_op(UnqueuedOp { op, array_or_scan_number, queue_index, next_unqueued_op });
        self.nvram_scans.get_mut(scan).held_ops_list_head = id;
        OpDestination::HeldByScan { id, array: array_or_scan_number, queue: queue_index }
    }

    /// Notes that one of the operations for which a scan of NVRAM waits has completed, and starts the scan if it can.
    #[inline(never)]
    fn finish_predecessor_of_nvram_scan(&mut self, scan: u32) {
        self.nvram_scans.get_mut(scan).pending_ops -= 1;
        self.advance_nvram_scan(scan);
    }

    /// Advances an NVRAM scan, if it is the earliest one for its arrays (dies or planes). If background work is queued
    /// on these arrays, the scan waits for that work. Otherwise the scan occupies the NVRAM from now, or from when the
    /// NVRAM is free.
    fn advance_nvram_scan(&mut self, number: u32) {
        if !self.nvram_scans.can_book_scan(number) {
            return;
        }
        let NvramScan { scan_op: op, victim_arrays: arrays, .. } = self.nvram_scans.get_mut(number).clone();
        for &array in &arrays {
            let queue = &self.arrays[array as usize].queues[YIELDING_BACKGROUND_QUEUE_INDEX as usize];
            if !queue.is_empty() {
                let index = queue.last_entry_index();
                self.make_nvram_scan_wait_for(
                    number,
                    OpDestination::Queued { array, queue: YIELDING_BACKGROUND_QUEUE_INDEX, index },
                );
            }
        }
        let waits = self.nvram_scans.get_mut(number).pending_ops > 0;
        for array in arrays {
            let array = &mut self.arrays[array as usize];
            if waits {
                array.prioritise_background();
            } else {
                array.restore_background_priority(&self.engine_state.options);
            }
        }
        if waits {
            return;
        }
        self.nvram_scans.get_mut(number).is_booked_on_nvram = true;
        let end = self.nvram_timing.book_scan_returning_end_ns(&op, self.engine_state.now_ns());
        self.engine_state.observer.on_nvram_scanned((end - self.nvram_timing.scan_ns(&op), end));
        self.engine_state.events.schedule_scan_end(number, end);
    }

    /// Handles the end of a scan of NVRAM: queues the operations that the scan held back, and advances the next scan
    /// for the same arrays (dies or planes).
    #[inline(never)]
    fn handle_nvram_scan_end(&mut self, number: u32) {
        let NvramScan { victim_arrays: arrays, request_slot: request, held_ops_list_head: held, .. } =
            self.nvram_scans.remove(number);
        self.enqueue_held_ops(held);
        if request != END_OF_LIST {
            self.finish_op_of_request(request);
        }
        if let Some(next) = self.nvram_scans.earliest_scan_beginning_on_array(arrays.first().copied()) {
            self.advance_nvram_scan(next);
        }
        self.wake_arrays();
    }
}

// Events of arrays and channels.
impl<T: TimingObserver> EventEngine<T> {
    /// Handles the end of tPROG or tBERS of a multi-plane group: completes all operations of the group.
    fn handle_multi_plane_group_end(&mut self, index: u32) {
        for _ in 1..self.arrays[index as usize].running_group.op_count {
            let op = self.arrays[index as usize].pop_op_of_running_group::<false>();
            let queue = self.arrays[index as usize].running_group.queue_index;
            self.engine_state
                .observer
                .on_op_ended((index, queue), self.engine_state.current_event_position.time_ns());
            self.engine_state.completed_ops += 1;
            self.complete_op(op);
        }
        self.complete_last_op_of_group::<false>(index);
    }

    /// Handles the end of a channel transfer of array `index`. There are three cases. First, a page was read. Second, a
    /// page was transferred for a multi-plane program, and more pages of the group follow. Third, the last page for a
    /// program was transferred, and a host read waits to suspend the program.
    fn handle_transfer_end(&mut self, index: u32) {
        let array = &mut self.arrays[index as usize];
        if array.running_group.kind == OpKind::Read && array.running_group.op_count == 1 {
            return self.complete_last_op_of_group::<false>(index);
        }
        if array.is_in_array_phase() {
            return array.handle_phase_start(index, &mut self.engine_state);
        }
        if array.running_group.kind == OpKind::Program {
            return array.request_channel::<false>(index, &mut self.engine_state);
        }
        let op = array.pop_op_of_running_group::<false>();
        self.engine_state.observer.on_op_ended(
            (index, array.running_group.queue_index),
            self.engine_state.current_event_position.time_ns(),
        );
        array.request_channel::<false>(index, &mut self.engine_state);
        self.engine_state.completed_ops += 1;
        self.complete_op(op);
        self.wake_arrays();
    }

    /// Completes the last operation of the group that the array (die or plane) runs; the array then starts its next
    /// operation.
    #[inline(always)]
    fn complete_last_op_of_group<const PLAIN: bool>(&mut self, index: u32) {
        let array = &mut self.arrays[index as usize];
        array.confirm_speculative_copy_steps();
        let op = array.pop_op_of_running_group::<PLAIN>();
        self.engine_state.observer.on_op_ended(
            (index, array.running_group.queue_index),
            self.engine_state.current_event_position.time_ns(),
        );
        self.engine_state.completed_ops += 1;
        // Completed operations of the same group may have queued work on other arrays, which must start in order.
        if op.has_no_waiting_request_or_op() && (PLAIN || self.arrays_to_wake.is_empty()) {
            return array.start_next_op::<PLAIN>(index, &mut self.engine_state);
        }
        self.complete_op(op);
        self.arrays[index as usize].start_next_op::<PLAIN>(index, &mut self.engine_state);
        self.wake_arrays();
    }

    /// Handles the event that a channel becomes free: starts the transfer of the next array that waits for it.
    fn handle_channel_free(&mut self, channel_index: u32) {
        let channel = &mut self.engine_state.channels[channel_index as usize];
        let next = channel.urgent_arrays.pop_front().or_else(|| channel.waiting_arrays.pop_front());
        let next = next.expect("a channel reports only to those who wait");
        self.arrays[next as usize].start_transfer(next, &mut self.engine_state);
        let channel = &mut self.engine_state.channels[channel_index as usize];
        channel.is_contended = !(channel.urgent_arrays.is_empty() && channel.waiting_arrays.is_empty());
        if channel.is_contended {
            let free_at = channel.free_at_ns;
            self.engine_state.events.set_channel_free_event(channel_index, free_at);
        }
    }
}

// Completion of operations and requests.
impl<T: TimingObserver> EventEngine<T> {
    /// Handles the completion of an operation: queues the operations that waited for it, and updates its host request.
    #[inline(always)]
    fn complete_op(&mut self, op: QueuedOp) {
        let QueuedOp {
            unqueued_ops_list_head: waiters,
            request_slot_or_copy_ops_after_first: request,
            effect_on_request,
            ..
        } = op;
        if waiters != END_OF_LIST {
            self.enqueue_held_ops(waiters);
        }
        match effect_on_request {
            OpEffectOnRequest::Background => {}
            OpEffectOnRequest::Awaited => self.finish_op_of_request(request),
            OpEffectOnRequest::Blocking => self.finish_gc_op_of_request(request),
        }
    }

    /// Counts the completion of an operation for which the host request in slot `slot` waits.
    #[inline(always)]
    fn finish_op_of_request(&mut self, slot: u32) {
        let request = &mut self.requests[slot as usize];
        request.pending_ops -= 1;
        if request.pending_ops == 0 {
            self.finish_flash_ops_of_request(slot);
        }
    }

    /// Counts the completion of a foreground-GC operation of the host request in slot `slot`. After the last one,
    /// queues the request's own operations.
    fn finish_gc_op_of_request(&mut self, slot: u32) {
        let request = &mut self.requests[slot as usize];
        request.pending_blocking_ops -= 1;
        if request.pending_blocking_ops == 0 {
            let held = std::mem::replace(&mut request.held_ops_list_head, END_OF_LIST);
            self.enqueue_held_ops(held);
        }
    }

    /// Stores a new host request in a free slot, and returns the slot number. The last argument has the request's
    /// controller overhead and delta codec work, nanoseconds.
    #[inline(always)]
    fn add_request(
        &mut self,
        kind: RequestKind,
        arrival: u64,
        number: u64,
        [overhead, codec_ns]: [u64; 2],
    ) -> u32 {
        let request = Request {
            arrival_ns: arrival,
            request_number: number,
            controller_overhead_ns: overhead,
            delta_codec_work_ns: codec_ns,
            pending_ops: 0,
            pending_blocking_ops: 0,
            held_ops_list_head: END_OF_LIST,
            kind,
            is_acknowledged: false,
        };
        if let Some(slot) = self.free_request_slots.pop() {
            self.requests[slot as usize] = request;
            return slot;
        }
        self.requests.push(request);
        (self.requests.len() - 1) as u32
    }

    /// Whether requests of this kind are acknowledged from the write buffer: writes are, if there is a buffer.
    #[inline(always)]
    fn uses_write_buffer(&self, kind: RequestKind) -> bool {
        kind == RequestKind::Write && self.engine_state.options.max_buffered_writes > 0
    }

    /// Puts a host write that has to be programmed into the write buffer and acknowledges it. If the buffer is full,
    /// the write waits for a place.
    fn put_write_into_buffer(&mut self, slot: u32) {
        if self.buffered_write_count < self.engine_state.options.max_buffered_writes {
            self.buffered_write_count += 1;
            self.schedule_request_completion(slot);
        } else {
            self.writes_waiting_for_buffer.push_back(slot);
        }
    }

    /// Makes a flush request wait for all earlier writes that are not programmed, whether in the write buffer or
    /// waiting for a place in it.
    fn make_flush_wait(&mut self, slot: u32) {
        let writes = (self.buffered_write_count + self.writes_waiting_for_buffer.len()) as u32;
        if writes > 0 {
            let request = &mut self.requests[slot as usize];
            request.pending_ops += writes;
            self.waiting_flushes.push(WaitingFlush {
                request_slot: slot,
                request_number: request.request_number,
                unprogrammed_earlier_writes: writes,
            });
        }
    }

    /// Handles the end of the program of write `number`: reduces by one the number of writes for which each later flush
    /// request waits.
    #[cold]
    fn count_programmed_write_for_flushes(&mut self, number: u64) {
        for k in 0..self.waiting_flushes.len() {
            if number < self.waiting_flushes[k].request_number {
                self.waiting_flushes[k].unprogrammed_earlier_writes -= 1;
                self.finish_op_of_request(self.waiting_flushes[k].request_slot);
            }
        }
        self.waiting_flushes.retain(|flush| flush.unprogrammed_earlier_writes > 0);
    }

    /// Handles the completion of all flash operations for which a host request waited. Answers the request, or frees
    /// its place in the write buffer if it is a buffered write.
    #[inline(always)]
    fn finish_flash_ops_of_request(&mut self, slot: u32) {
        let Request { kind, is_acknowledged: acknowledged, request_number: number, .. } =
            self.requests[slot as usize];
        if !self.uses_write_buffer(kind) {
            return self.schedule_request_completion(slot);
        }
        if !self.waiting_flushes.is_empty() {
            self.count_programmed_write_for_flushes(number);
        }
        match self.writes_waiting_for_buffer.pop_front() {
            Some(oldest) => self.schedule_request_completion(oldest),
            None => self.buffered_write_count -= 1,
        }
        if acknowledged {
            self.free_request_slots.push(slot);
        }
    }

    /// Answers a host request after its controller overhead, and after its wait for a codec unit if it needs one.
    #[inline(always)]
    fn schedule_request_completion(&mut self, slot: u32) {
        match self.requests[slot as usize].controller_overhead_ns {
            0 => self.record_request_answer(slot),
            overhead => {
                let now = self.engine_state.now_ns();
                let wait = self
                    .delta_codec_units
                    .book_delta_codec_wait_ns(now, self.requests[slot as usize].delta_codec_work_ns);
                self.engine_state.events.schedule_answer(slot, now + overhead + wait);
            }
        }
    }

    /// Handles the answer to a host request: records its latency, and frees its slot if none of its operations is
    /// unfinished.
    #[inline(always)]
    fn record_request_answer(&mut self, slot: u32) {
        let request = &mut self.requests[slot as usize];
        request.is_acknowledged = true;
        let Request { kind, request_number: number, arrival_ns: arrival, pending_ops: pending, .. } =
            *request;
        self.engine_state.observer.on_request_completed(
            number,
            kind,
            (arrival, self.engine_state.current_event_position.time_ns()),
        );
        self.request_latencies.record_completion(kind, number, arrival, self.engine_state.now_ns());
        self.unanswered_requests -= 1;
        if pending == 0 {
            self.free_request_slots.push(slot);
        }
    }
}
