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
//!   break that order, so with `multi_plane` it always waits.
//! - A scan holds back the background operations after it in its list, except those with a predecessor. When it ends,
//!   they join their queues in order ([`super::scans`]).
//! - At each event, all operations that became ready are queued before any starts. Then arrays start operations: first
//!   the array that became free, then the others in the order in which they received work that they can start.
//! - A host read that arrives during the array phase of a program or erase suspends it. A read that arrives during the
//!   transfer of a program suspends the program when the transfer ends. The operation resumes when no host read is
//!   queued. The overhead is added to the resumed operation, not to the read.
//! - While an array has no erased block for host writes ([`super::FreeBlocksPerArray`]), or its background operations
//!   exceed their bound, background work is served before host writes, and alternates with host reads. What starts or
//!   resumes in such a turn is not suspended. With [`TimingOptions::gc_holds_reads`], work that exceeds the bound also
//!   precedes reads.
//! - Before all erased blocks are used up, background work keeps pace with host writes: some of it is served before
//!   each waiting write, so that no write waits for a whole collection.
//!
//! Key decision: an event exists only where operations can interact. The transfer and tPROG of a program are one event
//! once the channel is granted, and the end of a transfer is an event only if another transfer waits. On a *plain*
//! device (neither suspension nor groups, the common case) transfers are booked when they are requested
//! ([`super::channel`]). An array that works through a series of copies needs one event from the end of one read to the
//! end of the next ([`super::array`]): it takes the steps in between ahead of the clock, and undoes them if a host
//! operation must be served in between. A copy then costs one event instead of three and a wait. The price: the state
//! of running operations is partly implicit (`Channel::free_at_ns`, `FlashArray::phase_start_ns`, `FlashArray::ahead`),
//! and a transfer that overtakes others must postpone their arrays' next events.
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

use super::array::{BACKGROUND_QUEUE, EngineState, FlashArray, NOT_BUSY, READ_QUEUE, WRITE_QUEUE};
use super::channel::{Channel, EventPosition};
use super::codec::CodecUnits;
use super::event_queue::{EventClass, EventQueue, MAX_ARRIVAL_NS, TimingEvent};
use super::latency::LatencyRecords;
use super::nvram::NvramTiming;
use super::op_queue::{END_OF_LIST, OpRole, QueuedOp, SCAN_WAITER, WaitingOp, WaitingOps};
use super::scans::{NvramScan, NvramScans};
use super::trace::TimingObserver;
use super::{ControllerWork, FlashTiming, Layout, RequestKind, TimingOptions};
use crate::operation::{FlashOp, OpKind};

/// Returns the list of operations with each batch of copies replaced by single reads and programs.
pub(super) fn expand_copies(ops: &[FlashOp]) -> Vec<FlashOp> {
    let (mut single, mut places) = (Vec::new(), Vec::<usize>::with_capacity(ops.len()));
    for op in ops {
        match (op.kind, op.dependency_distance as usize) {
            (OpKind::Copies, _) => (0..op.count).for_each(|_| single.extend(op.copy_read_and_program())),
            (_, 0) => single.push(*op),
            (_, back) => {
                let distance = single.len() - places[places.len() - back];
                let after = distance.try_into().expect("a list has fewer operations");
                single.push(FlashOp { dependency_distance: after, ..*op });
            }
        }
        places.push(single.len() - 1);
    }
    single
}

/// Where the engine stores an operation of a list while it admits the list to the queues.
#[derive(Clone, Copy, Debug)]
enum OpDestination {
    /// The operation is in a queue of an array (die or plane), at position `index`.
    Queued { array: u32, queue: u8, index: u32 },
    /// The operation is held back outside the queues, until the operation that it waits for, or the foreground GC of
    /// its request, has finished.
    Waiting(u32),
    /// The operation is held back outside the queues until a scan of NVRAM has ended, and then joins this queue.
    HeldByScan { id: u32, array: u32, queue: u8 },
    /// The operation is a scan of NVRAM. No other operation refers to it ([`FlashOp::dependency_distance`]).
    Scan,
}

/// A host request that has not been answered, or that has unfinished flash operations.
#[derive(Clone, Copy, Debug)]
struct Request {
    arrival: u64,
    number: u64,
    /// Controller time between the end of the request's flash operations and the answer to the host, nanoseconds.
    overhead: u64,
    /// Part of the request's controller time during which the request needs a codec unit (encoder and decoder of
    /// deltas), nanoseconds.
    codec_ns: u64,
    /// Number of unfinished flash operations and NVRAM scans for which the request waits. For a flush, unfinished
    /// earlier writes count too.
    pending: u32,
    /// Number of the request's unfinished foreground-GC operations, which its own operations wait for.
    blockers: u32,
    /// Head of the linked list of the request's operations that are held back until its foreground GC has finished,
    /// latest first.
    held: u32,
    kind: RequestKind,
    acknowledged: bool,
}

/// A flush request that waits until the writes that arrived before it are programmed.
#[derive(Clone, Copy, Debug)]
struct WaitingFlush {
    slot: u32,
    number: u64,
    writes: u32,
}

#[derive(Clone, Debug)]
pub(super) struct EventEngine<T> {
    layout: Layout,
    nvram: NvramTiming,
    scans: NvramScans,
    /// Number of the last NVRAM scan in the list of operations being admitted, which holds back the background
    /// operations after it.
    preceding_scan: Option<u32>,
    /// Whether the device supports neither suspension nor multi-plane operations. The engine then takes a faster path:
    /// see [`super::array`].
    plain: bool,
    shared: EngineState<T>,
    /// Arrays (dies or planes) of the device, a multiple of eight per channel, of which the last may be unused.
    arrays: Vec<FlashArray>,
    /// Numbers of the arrays (dies or planes) that exist. The other array numbers only fill up groups of eight.
    real_arrays: Vec<u32>,
    waiters: WaitingOps,
    codec: CodecUnits,
    requests: Vec<Request>,
    free_requests: Vec<u32>,
    /// Number of writes acknowledged but not yet programmed.
    buffered: usize,
    /// Slot numbers of host writes that wait for a place in the write buffer.
    unbuffered: VecDeque<u32>,
    /// Flush requests that wait for earlier writes to be programmed.
    flushes: Vec<WaitingFlush>,
    /// For each operation of the list being admitted so far, where the engine has stored it.
    listed: Vec<OpDestination>,
    /// For each operation of the list being admitted, whether it must not block host operations as foreground GC does,
    /// because it is an operation of the host, or waits, directly or indirectly, for one.
    follows_host: Vec<bool>,
    /// Arrays (dies or planes) that received work during the event being handled, and may start it.
    woken: Vec<u32>,
    ledger: LatencyRecords,
    outstanding: usize,
}

// Interface to [`super::Timing`].
impl<T: TimingObserver> EventEngine<T> {
    pub(super) fn new(layout: &Layout, flash: FlashTiming, options: TimingOptions) -> Self {
        let (layout, real_arrays) = layout.padded_to_eights();
        let per_channel = layout.arrays() / layout.channels;
        Self {
            real_arrays,
            plain: options.suspension.is_none() && !options.multi_plane,
            arrays: layout
                .channel_of_array
                .iter()
                .map(|&channel| FlashArray::new(channel, &options))
                .collect(),
            nvram: NvramTiming::new(&options),
            scans: NvramScans::default(),
            preceding_scan: None,
            ledger: LatencyRecords::new(options.keep_completions),
            codec: CodecUnits::new(options.codec_units),
            shared: EngineState {
                current_moment: EventPosition::of_arrival(0),
                events: EventQueue::new(layout.arrays(), layout.channels),
                channels: (0..layout.channels)
                    .map(|channel| Channel::new((channel * per_channel) as u32, per_channel))
                    .collect(),
                completed_ops: 0,
                flash,
                options,
                observer: T::of_arrays(layout.arrays()),
            },
            layout,
            waiters: WaitingOps::new(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            buffered: 0,
            unbuffered: VecDeque::new(),
            flushes: Vec::new(),
            listed: Vec::new(),
            follows_host: Vec::new(),
            woken: Vec::new(),
            outstanding: 0,
        }
    }

    pub(super) fn submit(
        &mut self,
        kind: RequestKind,
        arrival_ns: u64,
        work: ControllerWork,
        ops: &[FlashOp],
    ) -> u64 {
        let arrival_ns = arrival_ns.min(MAX_ARRIVAL_NS);
        self.advance(arrival_ns);
        let number = self.ledger.next_request_number();
        let overhead = self.shared.options.controller_overhead_ns
            + work.parallel_ns
            + self.nvram.book_stores(self.shared.now_ns(), work.nvram_ns);
        let slot = self.open_request(kind, arrival_ns, number, [overhead, work.codec_ns]);
        self.outstanding += 1;
        if kind == RequestKind::Flush {
            self.wait_for_writes(slot);
        }
        self.admit(ops, Some(slot));
        if self.requests[slot as usize].pending == 0 {
            self.acknowledge(slot);
        } else if self.uses_buffer(kind) {
            self.buffer(slot);
        }
        number
    }

    pub(super) fn submit_background(&mut self, arrival_ns: u64, ops: &[FlashOp]) {
        self.advance(arrival_ns.min(MAX_ARRIVAL_NS));
        self.admit(ops, None);
    }

    pub(super) fn complete_next_request(&mut self) -> Option<u64> {
        if self.outstanding == 0 {
            return None;
        }
        if self.is_plain() {
            self.run_until_request_completes::<true>();
        } else {
            self.run_until_request_completes::<false>();
        }
        Some(self.shared.now_ns())
    }

    pub(super) fn complete_until(&mut self, to: u64) -> bool {
        while self.outstanding > 0 {
            let Some(event) = self.shared.events.pop_until(to) else { return false };
            if self.is_plain() { self.handle::<true>(event) } else { self.handle::<false>(event) }
        }
        true
    }

    pub(super) fn run_to_completion(&mut self) -> u64 {
        self.run_until(u64::MAX);
        debug_assert_eq!(self.outstanding, 0, "nothing is left behind");
        self.shared.now_ns()
    }

    pub(super) fn outstanding_requests(&self) -> usize {
        self.outstanding
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.shared.now_ns()
    }

    pub(super) fn completed_ops(&self) -> u64 {
        self.shared.completed_ops
    }

    pub(super) fn array_busy_ns(&self) -> Vec<u64> {
        let running = |array: &FlashArray| {
            if array.busy_since_ns == NOT_BUSY { 0 } else { self.shared.now_ns() - array.busy_since_ns }
        };
        let real = self.real_arrays.iter().map(|&index| &self.arrays[index as usize]);
        real.map(|array| array.busy_ns + running(array)).collect()
    }

    pub(super) fn channel_busy_ns(&self) -> Vec<u64> {
        self.shared.channels.iter().map(|channel| channel.busy_ns).collect()
    }

    /// Returns the observer that records single flash operations.
    pub(super) fn observer_mut(&mut self) -> &mut T {
        &mut self.shared.observer
    }

    pub(super) fn latency_records(&self) -> &LatencyRecords {
        &self.ledger
    }

    pub(super) fn latency_records_mut(&mut self) -> &mut LatencyRecords {
        &mut self.ledger
    }
}

// The clock and the event loop.
impl<T: TimingObserver> EventEngine<T> {
    /// Whether arrays run operations one by one to their end, and take steps ahead of the simulated time. A traced
    /// engine never does, because each step is observed when it happens.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        !T::RECORDS_STEPS && self.plain
    }

    /// Handles all simulated events up to and including time `to`. So operations that end at the arrival time of a
    /// request end before it.
    #[inline(always)]
    fn advance(&mut self, to: u64) {
        if self.shared.events.may_be_due(to) {
            self.run_until(to);
        }
        self.shared.current_moment = EventPosition::of_arrival(self.shared.now_ns().max(to));
    }

    fn run_until(&mut self, to: u64) {
        if self.is_plain() { self.run::<true>(to) } else { self.run::<false>(to) }
    }

    fn run<const PLAIN: bool>(&mut self, to: u64) {
        while let Some(event) = self.shared.events.pop_until(to) {
            self.handle::<PLAIN>(event);
        }
    }

    /// Handles simulated events until a host request completes. At least one request must be outstanding.
    fn run_until_request_completes<const PLAIN: bool>(&mut self) {
        let before = self.outstanding;
        while self.outstanding == before {
            let event = self.shared.events.pop_until(u64::MAX).expect("outstanding work has an event");
            self.handle::<PLAIN>(event);
        }
    }

    #[inline(always)]
    fn handle<const PLAIN: bool>(&mut self, event: TimingEvent) {
        let TimingEvent { time_ns: time, class, subject_number: subject } = event;
        self.shared.current_moment = EventPosition::of_event(time, class, subject);
        match class {
            EventClass::ReadSensed => {
                let array = &mut self.arrays[subject as usize];
                array.finish_sensing::<PLAIN>(subject, &mut self.shared);
            }
            _ if PLAIN && class.is_of_array() => self.last_ended::<PLAIN>(subject),
            EventClass::Transferred => self.transferred(subject),
            EventClass::Programmed | EventClass::Erased => self.group_ended(subject),
            EventClass::ChannelFree => self.channel_freed(subject),
            EventClass::Acknowledged => self.acknowledged(subject),
            EventClass::Scanned => self.scan_ended(subject),
        }
    }
}

// Admission of operations to queues.
impl<T: TimingObserver> EventEngine<T> {
    #[inline(always)]
    fn admit(&mut self, ops: &[FlashOp], request: Option<u32>) {
        if T::RECORDS_STEPS {
            let number = request.map(|slot| self.requests[slot as usize].number);
            self.shared.observer.ops_submitted(number, self.shared.current_moment.time_ns(), ops);
        }
        match ops {
            // The most frequent lists: the program of a host write, or the read of a host read.
            [op] if op.dependency_distance == 0
                && !op.is_background()
                && !op.reads_reverse_map_log()
                && !matches!(op.kind, OpKind::Copies | OpKind::Scan) =>
            {
                self.admit_op(op, request);
            }
            _ => self.admit_list(ops, request),
        }
        self.wake_all();
    }

    fn admit_list(&mut self, ops: &[FlashOp], request: Option<u32>) {
        let TimingOptions { multi_plane, blocking_gc, .. } = self.shared.options;
        let must_be_single = |op: &FlashOp| {
            let waited_for = request.is_some() && !op.is_background();
            op.kind == OpKind::Copies && (multi_plane || blocking_gc || waited_for)
        };
        if ops.iter().any(must_be_single) {
            self.admit_ops(&expand_copies(ops), request);
        } else {
            self.admit_ops(ops, request);
        }
    }

    fn admit_ops(&mut self, ops: &[FlashOp], request: Option<u32>) {
        self.listed.clear();
        if self.shared.options.blocking_gc && request.is_some() {
            self.mark_followers(ops);
        }
        for op in ops {
            self.shared.observer.op_admitted(op);
            let listed = match op.kind {
                OpKind::Copies => self.admit_copies(op),
                OpKind::Scan => self.admit_scan(op, &ops[..self.listed.len()], request),
                OpKind::Read | OpKind::Program | OpKind::Erase => self.admit_op(op, request),
            };
            self.listed.push(listed);
        }
        self.preceding_scan = None;
    }

    /// Queues a batch of page copies, for which no request waits, as one queue entry.
    fn admit_copies(&mut self, copies: &FlashOp) -> OpDestination {
        let array = self.layout.planes[copies.plane.index()].array;
        let queue = self.queue_of(OpKind::Read, true);
        let op = QueuedOp::copy_series(copies.count, self.transfer_ns(copies));
        self.enqueue_after_scan(op, array, queue)
    }

    /// Queues a background operation. If an NVRAM scan precedes the operation in its list, the operation is held back
    /// until the scan ends.
    #[inline(always)]
    fn enqueue_after_scan(&mut self, op: QueuedOp, array: u32, queue: u8) -> OpDestination {
        match self.preceding_scan {
            None => self.enqueue(op, array, queue),
            Some(scan) => self.hold_for_scan(scan, op, array, queue),
        }
    }

    #[inline(always)]
    fn transfer_ns(&self, op: &FlashOp) -> u32 {
        self.shared.flash.transfer_ns(op.transfer_bytes).min(u64::from(u32::MAX)) as u32
    }

    #[inline(always)]
    fn admit_op(&mut self, flash_op: &FlashOp, request: Option<u32>) -> OpDestination {
        let background = request.is_none() || flash_op.is_background();
        let place = self.layout.planes[flash_op.plane.index()];
        let (array, queue) = (place.array, self.queue_of(flash_op.kind, background));
        let role = self.role_of(background || flash_op.reads_reverse_map_log(), request);
        let role = if role == OpRole::Background && !background { OpRole::Awaited } else { role };
        let op = QueuedOp {
            first_waiter: END_OF_LIST,
            request_or_more: if role == OpRole::Background { 0 } else { request.unwrap_or(END_OF_LIST) },
            transfer_ns: self.transfer_ns(flash_op),
            kind: flash_op.kind,
            role,
            plane: place.plane_in_die,
        };
        let held = op.role != OpRole::Background && self.count(op);
        if flash_op.dependency_distance > 0 {
            return self.admit_after(
                flash_op.dependency_distance,
                WaitingOp { op, array, queue, next_waiter: END_OF_LIST },
            );
        }
        if held {
            return self.hold(WaitingOp { op, array, queue, next_waiter: END_OF_LIST });
        }
        if background && !flash_op.reads_reverse_map_log() {
            return self.enqueue_after_scan(op, array, queue);
        }
        self.enqueue(op, array, queue)
    }

    /// Admits an operation that must wait for its predecessor, the operation `back` positions earlier in the list.
    #[inline(always)]
    fn admit_after(&mut self, back: u16, mut waiter: WaitingOp) -> OpDestination {
        let predecessor = self.listed[self.listed.len() - back as usize];
        if let OpDestination::Queued { array, queue, .. } = predecessor
            && (array, queue) == (waiter.array, waiter.queue)
            && !self.shared.options.multi_plane
        {
            return self.enqueue(waiter.op, array, queue);
        }
        if let (OpDestination::HeldByScan { array, queue, .. }, Some(scan)) =
            (predecessor, self.preceding_scan)
            && (array, queue) == (waiter.array, waiter.queue)
            && !self.shared.options.multi_plane
        {
            return self.hold_for_scan(scan, waiter.op, array, queue);
        }
        waiter.next_waiter = *self.waiters_of(predecessor);
        let id = self.waiters.insert(waiter);
        self.shared.observer.op_held(id);
        *self.waiters_of(predecessor) = id;
        OpDestination::Waiting(id)
    }

    /// Returns the head of the linked list of operations that wait for an operation of the list being admitted.
    fn waiters_of(&mut self, listed: OpDestination) -> &mut u32 {
        match listed {
            OpDestination::Queued { array, queue, index } => {
                &mut self.arrays[array as usize].queues[queue as usize].entry_at_mut(index).first_waiter
            }
            OpDestination::Waiting(id) | OpDestination::HeldByScan { id, .. } => {
                &mut self.waiters.op_mut(id).first_waiter
            }
            OpDestination::Scan => unreachable!("nothing names a scan"),
        }
    }

    /// Holds an operation back until the foreground GC of its host request has finished.
    fn hold(&mut self, mut waiter: WaitingOp) -> OpDestination {
        let slot = waiter.op.request_or_more as usize;
        waiter.next_waiter = self.requests[slot].held;
        let id = self.waiters.insert(waiter);
        self.shared.observer.op_held(id);
        self.requests[slot].held = id;
        OpDestination::Waiting(id)
    }

    #[inline(always)]
    fn queue_of(&self, kind: OpKind, background: bool) -> u8 {
        match background {
            true if self.shared.options.gc_yields => BACKGROUND_QUEUE,
            false if self.shared.options.read_priority && kind == OpKind::Read => READ_QUEUE,
            _ => WRITE_QUEUE,
        }
    }

    #[inline(always)]
    fn role_of(&self, background: bool, request: Option<u32>) -> OpRole {
        let blocking =
            || self.shared.options.blocking_gc && request.is_some() && !self.follows_host[self.listed.len()];
        match background {
            false => OpRole::Awaited,
            true if blocking() => OpRole::Blocking,
            true => OpRole::Background,
        }
    }

    /// Adds an operation to the counts of its host request. Returns whether the operation must be held back until the
    /// request's foreground GC has finished.
    #[inline(always)]
    fn count(&mut self, op: QueuedOp) -> bool {
        let request = &mut self.requests[op.request_or_more as usize];
        if op.role == OpRole::Awaited {
            request.pending += 1;
            return request.blockers > 0;
        }
        request.blockers += 1;
        false
    }

    /// Marks the operations of a list that must not block host operations as foreground GC does: those of the host, and
    /// background operations that have one of these as predecessor and would wait for themselves. If the list has no
    /// operation of the host, all are marked.
    fn mark_followers(&mut self, ops: &[FlashOp]) {
        // With foreground GC the reads of a log block the host, as do the copies that wait for them.
        let is_of_host =
            |op: &FlashOp| !(op.is_background() || op.kind == OpKind::Scan || op.reads_reverse_map_log());
        let blocks_nothing = !ops.iter().any(is_of_host);
        self.follows_host.clear();
        for (index, op) in ops.iter().enumerate() {
            let inherits =
                op.dependency_distance > 0 && self.follows_host[index - op.dependency_distance as usize];
            self.follows_host.push(blocks_nothing || inherits || is_of_host(op));
        }
    }

    /// Appends an operation that need not wait for another to a queue of its array (die or plane). Notes the array for
    /// [`Self::wake_all`] if it may start the operation, or suspend another for it.
    #[inline(always)]
    fn enqueue(&mut self, op: QueuedOp, array_index: u32, queue: u8) -> OpDestination {
        let is_plain = self.is_plain();
        let array = &mut self.arrays[array_index as usize];
        self.shared.observer.op_queued((array_index, queue), 1 + op.further_ops());
        let index = array.push(op, queue);
        if is_plain && queue != BACKGROUND_QUEUE {
            array.undo_steps_after_arrival(array_index, &mut self.shared);
        }
        if index == 0
            && (!array.running_group.is_present()
                || (queue == READ_QUEUE && self.shared.options.suspension.is_some()))
        {
            self.woken.push(array_index);
        }
        OpDestination::Queued { array: array_index, queue, index }
    }

    /// Queues the operations of a linked list that were held back, in the order in which they were added. The head of
    /// the list is the latest.
    fn release(&mut self, list: u32) {
        let mut id = self.waiters.reverse_list(list);
        while id != END_OF_LIST {
            let WaitingOp { op, array, queue, next_waiter: next } = self.waiters.remove(id);
            if queue == SCAN_WAITER {
                self.scan_predecessor_done(array);
            } else {
                self.shared.observer.op_released(id);
                self.enqueue(op, array, queue);
            }
            id = next;
        }
    }

    /// Makes the arrays (dies or planes) that received work start operations, or suspend running ones.
    #[inline(always)]
    fn wake_all(&mut self) {
        if !self.woken.is_empty() {
            if self.is_plain() {
                self.wake_arrays_one_by_one::<true>();
            } else {
                self.wake_arrays_one_by_one::<false>();
            }
        }
    }

    #[inline(always)]
    fn wake_arrays_one_by_one<const PLAIN: bool>(&mut self) {
        for &index in &self.woken {
            let array = &mut self.arrays[index as usize];
            if array.running_group.is_present() {
                array.try_suspend::<PLAIN>(index, &mut self.shared);
            } else {
                array.start_next::<PLAIN>(index, &mut self.shared);
            }
        }
        self.woken.clear();
    }
}

// NVRAM scans.
impl<T: TimingObserver> EventEngine<T> {
    /// Admits a scan of NVRAM. The scan waits for those flash reads of the reverse-map log that precede it in the list.
    #[inline(never)]
    fn admit_scan(&mut self, scan: &FlashOp, before: &[FlashOp], request: Option<u32>) -> OpDestination {
        let arrays = self.layout.arrays_of_block(scan.plane);
        let number = self.scans.push(*scan, arrays, request.unwrap_or(END_OF_LIST));
        if let Some(slot) = request {
            self.requests[slot as usize].pending += 1;
        }
        let since_last = before.iter().rposition(|op| op.kind == OpKind::Scan).map_or(0, |last| last + 1);
        for at in (since_last..before.len()).filter(|&at| before[at].reads_reverse_map_log()) {
            self.let_scan_wait(number, self.listed[at]);
        }
        self.preceding_scan = Some(number);
        self.advance_scan(number);
        OpDestination::Scan
    }

    /// Makes a scan of NVRAM wait until the operation `predecessor` has completed.
    fn let_scan_wait(&mut self, scan: u32, predecessor: OpDestination) {
        let next = *self.waiters_of(predecessor);
        let id = self.waiters.insert(WaitingOp {
            op: QueuedOp::SCAN_PLACEHOLDER,
            array: scan,
            queue: SCAN_WAITER,
            next_waiter: next,
        });
        *self.waiters_of(predecessor) = id;
        self.scans.get_mut(scan).pending_ops += 1;
    }

    fn hold_for_scan(&mut self, scan: u32, op: QueuedOp, array: u32, queue: u8) -> OpDestination {
        let held = &mut self.scans.get_mut(scan).first_held_op;
        let id = self.waiters.insert(WaitingOp { op, array, queue, next_waiter: *held });
        self.shared.observer.op_held(id);
        *held = id;
        OpDestination::HeldByScan { id, array, queue }
    }

    /// Notes that one of the operations for which a scan of NVRAM waits has completed, and starts the scan if it can.
    #[inline(never)]
    fn scan_predecessor_done(&mut self, scan: u32) {
        self.scans.get_mut(scan).pending_ops -= 1;
        self.advance_scan(scan);
    }

    /// Advances an NVRAM scan, if it is the next one for its arrays (dies or planes): makes it wait for the background
    /// work queued there, or books it on the NVRAM if there is none.
    fn advance_scan(&mut self, number: u32) {
        if !self.scans.can_book(number) {
            return;
        }
        let NvramScan { op, victim_arrays: arrays, .. } = self.scans.get_mut(number).clone();
        for &array in &arrays {
            let queue = &self.arrays[array as usize].queues[BACKGROUND_QUEUE as usize];
            if !queue.is_empty() {
                let index = queue.last_index();
                self.let_scan_wait(number, OpDestination::Queued { array, queue: BACKGROUND_QUEUE, index });
            }
        }
        let waits = self.scans.get_mut(number).pending_ops > 0;
        for array in arrays {
            let array = &mut self.arrays[array as usize];
            if waits {
                array.prioritise_background();
            } else {
                array.restore_background_priority(&self.shared.options);
            }
        }
        if waits {
            return;
        }
        self.scans.get_mut(number).is_booked = true;
        let end = self.nvram.book_scan(&op, self.shared.now_ns());
        self.shared.observer.nvram_scanned((end - self.nvram.scan_ns(&op), end));
        self.shared.events.push_scan_end(number, end);
    }

    /// Handles the end of a scan of NVRAM: queues the operations that the scan held back, and advances the next scan
    /// for the same arrays (dies or planes).
    #[inline(never)]
    fn scan_ended(&mut self, number: u32) {
        let NvramScan { victim_arrays: arrays, request_slot: request, first_held_op: held, .. } =
            self.scans.remove(number);
        self.release(held);
        if request != END_OF_LIST {
            self.awaited_done(request);
        }
        if let Some(next) = self.scans.first_on_array(arrays.first().copied()) {
            self.advance_scan(next);
        }
        self.wake_all();
    }
}

// Events of arrays and channels.
impl<T: TimingObserver> EventEngine<T> {
    /// Handles the end of tPROG or tBERS of a multi-plane group: completes all operations of the group.
    fn group_ended(&mut self, index: u32) {
        for _ in 1..self.arrays[index as usize].running_group.op_count {
            let op = self.arrays[index as usize].pop_member::<false>();
            let queue = self.arrays[index as usize].running_group.queue;
            self.shared.observer.op_ended((index, queue), self.shared.current_moment.time_ns());
            self.shared.completed_ops += 1;
            self.complete_op(op);
        }
        self.last_ended::<false>(index);
    }

    /// Handles the end of a channel transfer of array `index`: of a page that was read, of a page to be programmed with
    /// further pages of its multi-plane group to follow, or of the last page to be programmed if a host read waits to
    /// suspend the program.
    fn transferred(&mut self, index: u32) {
        let array = &mut self.arrays[index as usize];
        if array.running_group.kind == OpKind::Read && array.running_group.op_count == 1 {
            return self.last_ended::<false>(index);
        }
        if array.is_in_array_phase() {
            return array.phase_started(index, &mut self.shared);
        }
        if array.running_group.kind == OpKind::Program {
            return array.request_channel::<false>(index, &mut self.shared);
        }
        let op = array.pop_member::<false>();
        self.shared
            .observer
            .op_ended((index, array.running_group.queue), self.shared.current_moment.time_ns());
        array.request_channel::<false>(index, &mut self.shared);
        self.shared.completed_ops += 1;
        self.complete_op(op);
        self.wake_all();
    }

    /// Completes the last operation of the group that the array (die or plane) runs; the array then starts its next
    /// operation.
    #[inline(always)]
    fn last_ended<const PLAIN: bool>(&mut self, index: u32) {
        let array = &mut self.arrays[index as usize];
        array.arrive_at_event();
        let op = array.pop_member::<PLAIN>();
        self.shared
            .observer
            .op_ended((index, array.running_group.queue), self.shared.current_moment.time_ns());
        self.shared.completed_ops += 1;
        // Completed operations of the same group may have queued work on other arrays, which must start in order.
        if op.has_no_waiters() && (PLAIN || self.woken.is_empty()) {
            return array.start_next::<PLAIN>(index, &mut self.shared);
        }
        self.complete_op(op);
        self.arrays[index as usize].start_next::<PLAIN>(index, &mut self.shared);
        self.wake_all();
    }

    fn channel_freed(&mut self, channel_index: u32) {
        let channel = &mut self.shared.channels[channel_index as usize];
        let next = channel.urgent_arrays.pop_front().or_else(|| channel.waiting_arrays.pop_front());
        let next = next.expect("a channel reports only to those who wait");
        self.arrays[next as usize].start_transfer(next, &mut self.shared);
        let channel = &mut self.shared.channels[channel_index as usize];
        channel.is_contended = !(channel.urgent_arrays.is_empty() && channel.waiting_arrays.is_empty());
        if channel.is_contended {
            let free_at = channel.free_at_ns;
            self.shared.events.set_channel_free(channel_index, free_at);
        }
    }
}

// Completion of operations and requests.
impl<T: TimingObserver> EventEngine<T> {
    #[inline(always)]
    fn complete_op(&mut self, op: QueuedOp) {
        let QueuedOp { first_waiter: waiters, request_or_more: request, role, .. } = op;
        if waiters != END_OF_LIST {
            self.release(waiters);
        }
        match role {
            OpRole::Background => {}
            OpRole::Awaited => self.awaited_done(request),
            OpRole::Blocking => self.unblock(request),
        }
    }

    #[inline(always)]
    fn awaited_done(&mut self, slot: u32) {
        let request = &mut self.requests[slot as usize];
        request.pending -= 1;
        if request.pending == 0 {
            self.flash_done(slot);
        }
    }

    fn unblock(&mut self, slot: u32) {
        let request = &mut self.requests[slot as usize];
        request.blockers -= 1;
        if request.blockers == 0 {
            let held = std::mem::replace(&mut request.held, END_OF_LIST);
            self.release(held);
        }
    }

    #[inline(always)]
    fn open_request(
        &mut self,
        kind: RequestKind,
        arrival: u64,
        number: u64,
        [overhead, codec_ns]: [u64; 2],
    ) -> u32 {
        let request = Request {
            arrival,
            number,
            overhead,
            codec_ns,
            pending: 0,
            blockers: 0,
            held: END_OF_LIST,
            kind,
            acknowledged: false,
        };
        if let Some(slot) = self.free_requests.pop() {
            self.requests[slot as usize] = request;
            return slot;
        }
        self.requests.push(request);
        (self.requests.len() - 1) as u32
    }

    #[inline(always)]
    fn uses_buffer(&self, kind: RequestKind) -> bool {
        kind == RequestKind::Write && self.shared.options.buffered_writes > 0
    }

    /// Puts a host write that has to be programmed into the write buffer and acknowledges it. If the buffer is full,
    /// the write waits for a place.
    fn buffer(&mut self, slot: u32) {
        if self.buffered < self.shared.options.buffered_writes {
            self.buffered += 1;
            self.acknowledge(slot);
        } else {
            self.unbuffered.push_back(slot);
        }
    }

    /// Makes a flush request wait for all earlier writes that are not programmed, whether in the write buffer or
    /// waiting for a place in it.
    fn wait_for_writes(&mut self, slot: u32) {
        let writes = (self.buffered + self.unbuffered.len()) as u32;
        if writes > 0 {
            let request = &mut self.requests[slot as usize];
            request.pending += writes;
            self.flushes.push(WaitingFlush { slot, number: request.number, writes });
        }
    }

    /// Handles the end of the program of write `number`: reduces by one the number of writes for which each later flush
    /// request waits.
    #[cold]
    fn release_flushes(&mut self, number: u64) {
        for k in 0..self.flushes.len() {
            if number < self.flushes[k].number {
                self.flushes[k].writes -= 1;
                self.awaited_done(self.flushes[k].slot);
            }
        }
        self.flushes.retain(|flush| flush.writes > 0);
    }

    /// Handles the completion of all flash operations for which a host request waited. Answers the request, or frees
    /// its place in the write buffer if it is a buffered write.
    #[inline(always)]
    fn flash_done(&mut self, slot: u32) {
        let Request { kind, acknowledged, number, .. } = self.requests[slot as usize];
        if !self.uses_buffer(kind) {
            return self.acknowledge(slot);
        }
        if !self.flushes.is_empty() {
            self.release_flushes(number);
        }
        match self.unbuffered.pop_front() {
            Some(oldest) => self.acknowledge(oldest),
            None => self.buffered -= 1,
        }
        if acknowledged {
            self.free_requests.push(slot);
        }
    }

    /// Answers a host request after its controller overhead, and after its wait for a codec unit if it needs one.
    #[inline(always)]
    fn acknowledge(&mut self, slot: u32) {
        match self.requests[slot as usize].overhead {
            0 => self.acknowledged(slot),
            overhead => {
                let now = self.shared.now_ns();
                let wait = self.codec.book_work(now, self.requests[slot as usize].codec_ns);
                self.shared.events.push_answer(slot, now + overhead + wait);
            }
        }
    }

    #[inline(always)]
    fn acknowledged(&mut self, slot: u32) {
        let request = &mut self.requests[slot as usize];
        request.acknowledged = true;
        let Request { kind, number, arrival, pending, .. } = *request;
        self.shared.observer.request_answered(number, kind, (arrival, self.shared.current_moment.time_ns()));
        self.ledger.record_completion(kind, number, arrival, self.shared.now_ns());
        self.outstanding -= 1;
        if pending == 0 {
            self.free_requests.push(slot);
        }
    }
}
