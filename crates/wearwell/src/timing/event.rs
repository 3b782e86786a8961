//! Exact event-driven timing: a queue per array and urgency, channel arbitration, suspension.
//!
//! Service, in full:
//! - An *array* (die, or plane) executes one operation, or one multi-plane group, at a time and is held until it
//!   ends. Read: tR, then the transfer out. Program: the transfer in, then tPROG. Erase: tBERS.
//! - A *channel* carries one transfer at a time. Waiting transfers are served first come first served, those of
//!   reads with priority first. A group transfers page by page and asks for the channel anew for each.
//! - An array that falls free takes from its queues: host reads, then host writes, then background (see
//!   [`TimingOptions`] for the variants). An operation with `after` joins its queue when its predecessor ends.
//! - At one instant all operations that have become ready are queued before any of them starts.
//! - A host read that finds a program or erase in its array phase suspends it; one that finds the program's
//!   transfer under way suspends it when the transfer ends. The operation resumes when no host read is queued.
//!   The read itself pays nothing; the resumed operation pays the overhead.
//!
//! Key decision: an event exists only where something can interact. A program's transfer and tPROG are one
//! event once the channel is granted, and a channel reports that it is free only if somebody waits. An idle
//! device thus costs two events per read and one per program or erase. The price is that "what runs now" is
//! partly implicit (`Channel::free_at`, `Array::phase_start`).
//!
//! Invariants:
//! - `current == NONE` and `suspended == NONE` means the array is idle and its queues are empty, between events.
//! - Every operation is on one list, and leaves the slab exactly once, when it completes.
//! - Simultaneous events run in order of class, then of creation: results do not depend on anything else.

use super::event_queue::{Event, EventClass, EventQueue};
use super::latency::Ledger;
use super::op_slab::{Fifo, NONE, OpSlab, PendingOp, Role};
use super::{FlashOp, FlashTiming, Layout, OpKind, RequestKind, TimingOptions};
use std::collections::VecDeque;

/// Queue of host reads with priority.
const READS: u8 = 0;
/// Queue of everything else that has no other place.
const WRITES: u8 = 1;
/// Queue of background work that yields.
const BACKGROUND: u8 = 2;

/// `Array::busy_since` of an idle array.
const IDLE: u64 = u64::MAX;

/// A die, or a plane where planes are independent.
#[derive(Clone, Debug)]
struct Array {
    /// Head of the group under way.
    current: u32,
    /// Member of the group that transfers or waits to; [`NONE`] in the array phase of a program.
    cursor: u32,
    queues: [Fifo; 3],
    /// Length of the background queue.
    backlog: u32,
    channel: u32,
    /// Moves on at every suspension, which cancels the pending end of the operation.
    generation: u32,
    /// Head of the suspended group.
    suspended: u32,
    /// Suspensions of the operation under way or suspended.
    suspensions: u32,
    /// Array phase of a program or erase.
    phase_start: u64,
    phase_end: u64,
    /// Array time left to the suspended group.
    remaining_ns: u64,
    busy_since: u64,
    busy_ns: u64,
}

impl Array {
    fn new(channel: u32) -> Self {
        Self {
            current: NONE,
            cursor: NONE,
            queues: [Fifo::EMPTY; 3],
            backlog: 0,
            channel,
            generation: 0,
            suspended: NONE,
            suspensions: 0,
            phase_start: 0,
            phase_end: 0,
            remaining_ns: 0,
            busy_since: IDLE,
            busy_ns: 0,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Channel {
    free_at: u64,
    busy_ns: u64,
    /// A [`EventClass::ChannelFree`] is pending: whoever comes now queues behind those who wait.
    contended: bool,
    /// Arrays whose transfer has priority.
    urgent: VecDeque<u32>,
    /// Arrays with other transfers.
    waiting: VecDeque<u32>,
}

/// A host request that is not finished with both host and flash.
#[derive(Clone, Copy, Debug)]
struct Request {
    arrival: u64,
    number: u64,
    /// Awaited operations that have not completed.
    pending: u32,
    /// Blocking operations that have not completed.
    blockers: u32,
    /// Operations held back until there are no blockers, latest first.
    held: u32,
    kind: RequestKind,
    acknowledged: bool,
}

#[derive(Clone, Debug)]
pub(super) struct EventEngine {
    layout: Layout,
    flash: FlashTiming,
    options: TimingOptions,
    arrays: Vec<Array>,
    channels: Vec<Channel>,
    ops: OpSlab,
    requests: Vec<Request>,
    free_requests: Vec<u32>,
    events: EventQueue,
    /// Writes acknowledged and not programmed.
    buffered: usize,
    /// Writes that wait for a place in the buffer.
    unbuffered: VecDeque<u32>,
    /// Slab ids of the list being admitted.
    listed: Vec<u32>,
    /// Whether each operation of that list waits, at any remove, for one that the host waits for.
    follows_host: Vec<bool>,
    /// Arrays that got work at this instant.
    woken: Vec<u32>,
    ledger: Ledger,
    outstanding: usize,
    completed_ops: u64,
    now: u64,
}

// The public face.
impl EventEngine {
    pub(super) fn new(layout: Layout, flash: FlashTiming, options: TimingOptions) -> Self {
        Self {
            arrays: layout.channel_of_array.iter().map(|&channel| Array::new(channel)).collect(),
            channels: vec![Channel::default(); layout.channels],
            ledger: Ledger::new(options.keep_completions),
            layout,
            flash,
            options,
            ops: OpSlab::new(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            events: EventQueue::new(),
            buffered: 0,
            unbuffered: VecDeque::new(),
            listed: Vec::new(),
            follows_host: Vec::new(),
            woken: Vec::new(),
            outstanding: 0,
            completed_ops: 0,
            now: 0,
        }
    }

    pub(super) fn submit(&mut self, kind: RequestKind, arrival_ns: u64, ops: &[FlashOp]) -> u64 {
        self.advance(arrival_ns);
        let number = self.ledger.number();
        let slot = self.open_request(kind, arrival_ns, number);
        self.outstanding += 1;
        self.admit(ops, Some(slot));
        if self.requests[slot as usize].pending == 0 {
            self.acknowledge(slot);
        } else if self.uses_buffer(kind) {
            self.buffer(slot);
        }
        number
    }

    pub(super) fn submit_background(&mut self, arrival_ns: u64, ops: &[FlashOp]) {
        self.advance(arrival_ns);
        self.admit(ops, None);
    }

    pub(super) fn complete_one(&mut self) -> Option<u64> {
        let before = self.outstanding;
        if before == 0 {
            return None;
        }
        while self.outstanding == before {
            let (class, event) = self.events.pop_until(u64::MAX).expect("outstanding work has an event");
            self.handle(class, event);
        }
        Some(self.now)
    }

    pub(super) fn drain(&mut self) -> u64 {
        while let Some((class, event)) = self.events.pop_until(u64::MAX) {
            self.handle(class, event);
        }
        debug_assert_eq!(self.outstanding, 0, "nothing is left behind");
        self.now
    }

    pub(super) fn outstanding(&self) -> usize {
        self.outstanding
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.now
    }

    pub(super) fn completed_ops(&self) -> u64 {
        self.completed_ops
    }

    pub(super) fn array_busy_ns(&self) -> Vec<u64> {
        let running = |array: &Array| if array.busy_since == IDLE { 0 } else { self.now - array.busy_since };
        self.arrays.iter().map(|array| array.busy_ns + running(array)).collect()
    }

    pub(super) fn channel_busy_ns(&self) -> Vec<u64> {
        self.channels.iter().map(|channel| channel.busy_ns).collect()
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(super) fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }
}

// The clock.
impl EventEngine {
    /// Runs all events up to and including `to`: what ends at an instant ends before what arrives then starts.
    fn advance(&mut self, to: u64) {
        while let Some((class, event)) = self.events.pop_until(to) {
            self.handle(class, event);
        }
        self.now = self.now.max(to);
    }

    #[inline(always)]
    fn handle(&mut self, class: EventClass, event: Event) {
        let subject = event.subject;
        let cancellable = matches!(class, EventClass::Programmed | EventClass::Erased);
        if cancellable && self.arrays[subject as usize].generation != event.generation {
            return;
        }
        self.now = event.time;
        match class {
            EventClass::ReadSensed => self.ask_channel(subject),
            EventClass::Transferred => self.transferred(subject),
            EventClass::Programmed | EventClass::Erased => self.array_ended(subject),
            EventClass::ChannelFree => self.channel_freed(subject),
            EventClass::ArrayStarted => self.try_suspend(subject),
            EventClass::Acknowledged => self.acknowledged(subject),
        }
    }

    #[inline(always)]
    fn schedule(&mut self, class: EventClass, time: u64, subject: u32) {
        self.events.push(class, Event { time, subject, generation: 0 });
    }

    /// Schedules the end of the array phase, which a suspension may cancel.
    #[inline(always)]
    fn schedule_end(&mut self, kind: OpKind, array_index: u32) {
        let array = &self.arrays[array_index as usize];
        let class = if kind == OpKind::Erase { EventClass::Erased } else { EventClass::Programmed };
        let event = Event { time: array.phase_end, subject: array_index, generation: array.generation };
        self.events.push(class, event);
    }
}

// Operations become ready.
impl EventEngine {
    fn admit(&mut self, ops: &[FlashOp], request: Option<u32>) {
        self.listed.clear();
        if self.options.blocking_gc && request.is_some() {
            self.mark_followers(ops);
        }
        for op in ops {
            let pending = self.pending_op(op, request);
            let id = self.ops.insert(pending);
            self.listed.push(id);
            let held = pending.role != Role::Background && self.count(&pending);
            if op.after > 0 {
                let predecessor = self.listed[self.listed.len() - 1 - op.after as usize];
                self.ops[id].next = std::mem::replace(&mut self.ops[predecessor].waiters, id);
            } else if held {
                let held = &mut self.requests[pending.request as usize].held;
                self.ops[id].next = std::mem::replace(held, id);
            } else {
                self.enqueue(id, pending.array, pending.queue);
            }
        }
        self.wake_all();
    }

    #[inline(always)]
    fn pending_op(&self, op: &FlashOp, request: Option<u32>) -> PendingOp {
        let background = request.is_none() || op.is_background();
        let place = self.layout.planes[op.plane.index()];
        PendingOp {
            next: NONE,
            waiters: NONE,
            request: request.unwrap_or(NONE),
            array: place.array,
            transfer_ns: u32::try_from(self.flash.transfer_ns(op.bytes)).expect("a transfer takes under 4 s"),
            kind: op.kind,
            queue: self.queue_of(op.kind, background),
            role: self.role_of(background, request),
            plane: place.plane_in_die,
        }
    }

    #[inline(always)]
    fn queue_of(&self, kind: OpKind, background: bool) -> u8 {
        match background {
            true if self.options.gc_yields => BACKGROUND,
            false if self.options.read_priority && kind == OpKind::Read => READS,
            _ => WRITES,
        }
    }

    #[inline(always)]
    fn role_of(&self, background: bool, request: Option<u32>) -> Role {
        let blocking =
            || self.options.blocking_gc && request.is_some() && !self.follows_host[self.listed.len()];
        match background {
            false => Role::Awaited,
            true if blocking() => Role::Blocking,
            true => Role::Background,
        }
    }

    /// Enters an operation into its request's counts; true if it must be held back for blockers.
    #[inline(always)]
    fn count(&mut self, op: &PendingOp) -> bool {
        let request = &mut self.requests[op.request as usize];
        if op.role == Role::Awaited {
            request.pending += 1;
            return request.blockers > 0;
        }
        request.blockers += 1;
        false
    }

    /// Background work that follows a host operation must not block the host: that would be a cycle.
    fn mark_followers(&mut self, ops: &[FlashOp]) {
        self.follows_host.clear();
        for (index, op) in ops.iter().enumerate() {
            let inherits = op.after > 0 && self.follows_host[index - op.after as usize];
            self.follows_host.push(inherits || !op.is_background());
        }
    }

    /// Puts a ready operation into its queue, and its array on the list to wake if that may change what it does.
    #[inline(always)]
    fn enqueue(&mut self, id: u32, array_index: u32, queue: u8) {
        let array = &mut self.arrays[array_index as usize];
        array.backlog += u32::from(queue == BACKGROUND);
        let first = array.queues[queue as usize].push(&mut self.ops, id);
        if first && (array.current == NONE || (queue == READS && self.options.suspend.is_some())) {
            self.woken.push(array_index);
        }
    }

    /// Queues a list of operations that was built latest first, then starts what can start.
    fn release(&mut self, list: u32) {
        let PendingOp { next, array, queue, .. } = self.ops[list];
        if next != NONE {
            return self.release_many(list);
        }
        self.enqueue(list, array, queue);
        self.wake_all();
    }

    #[cold]
    fn release_many(&mut self, list: u32) {
        let mut id = self.ops.reversed(list);
        while id != NONE {
            let op = &mut self.ops[id];
            let next = std::mem::replace(&mut op.next, NONE);
            let (array, queue) = (op.array, op.queue);
            self.enqueue(id, array, queue);
            id = next;
        }
        self.wake_all();
    }

    /// Starts operations where there is new work, or suspends what runs there.
    #[inline(always)]
    fn wake_all(&mut self) {
        for index in 0..self.woken.len() {
            let array_index = self.woken[index];
            if self.arrays[array_index as usize].current == NONE {
                self.dispatch(array_index);
            } else {
                self.try_suspend(array_index);
            }
        }
        self.woken.clear();
    }
}

// Arrays.
impl EventEngine {
    /// Gives an array without an operation its next one, if there is any.
    #[inline(never)]
    fn dispatch(&mut self, array_index: u32) {
        let array = &self.arrays[array_index as usize];
        if array.current != NONE {
            return;
        }
        if array.suspended != NONE && (array.queues[READS as usize].is_empty() || self.is_behind(array)) {
            return self.resume(array_index);
        }
        match self.choose_queue(array) {
            Some(queue) => self.start(array_index, queue),
            None => self.idle(array_index),
        }
    }

    /// The backlog bound is exceeded: background work comes first.
    #[inline(always)]
    fn is_behind(&self, array: &Array) -> bool {
        array.backlog > self.options.gc_backlog_ops
    }

    #[inline(always)]
    fn choose_queue(&self, array: &Array) -> Option<u8> {
        if self.is_behind(array) {
            return Some(BACKGROUND);
        }
        (READS..=BACKGROUND).find(|&queue| !array.queues[queue as usize].is_empty())
    }

    fn idle(&mut self, array_index: u32) {
        let array = &mut self.arrays[array_index as usize];
        if array.busy_since != IDLE {
            array.busy_ns += self.now - array.busy_since;
            array.busy_since = IDLE;
        }
    }

    #[inline(always)]
    fn start(&mut self, array_index: u32, queue: u8) {
        let array = &mut self.arrays[array_index as usize];
        let head = array.queues[queue as usize].pop(&mut self.ops);
        array.backlog -= u32::from(queue == BACKGROUND);
        if array.busy_since == IDLE {
            array.busy_since = self.now;
        }
        array.current = head;
        array.cursor = head;
        if self.options.multi_plane {
            self.gather(array_index, queue);
        }
        match self.ops[head].kind {
            OpKind::Read => self.schedule(EventClass::ReadSensed, self.now + self.flash.read_ns, array_index),
            OpKind::Program => {
                self.first_attempt(array_index);
                self.ask_channel(array_index);
            }
            OpKind::Erase => {
                self.first_attempt(array_index);
                self.start_array_phase(array_index, OpKind::Erase, self.now, self.flash.erase_ns);
            }
        }
    }

    /// Joins the neighbours in the queue to the group: same kind, planes not yet used.
    fn gather(&mut self, array_index: u32, queue: u8) {
        let array = &mut self.arrays[array_index as usize];
        let fifo = &mut array.queues[queue as usize];
        let (kind, mut last) = (self.ops[array.current].kind, array.current);
        let mut planes = 1_u64 << (self.ops[last].plane & 63);
        while !fifo.is_empty() {
            let next = self.ops[fifo.front()];
            let plane = 1_u64 << (next.plane & 63);
            if next.kind != kind || planes & plane != 0 {
                break;
            }
            planes |= plane;
            let id = fifo.pop(&mut self.ops);
            array.backlog -= u32::from(queue == BACKGROUND);
            self.ops[last].next = id;
            last = id;
        }
    }

    /// A program or erase begins afresh, unless reads run inside a suspended one.
    #[inline(always)]
    fn first_attempt(&mut self, array_index: u32) {
        self.arrays[array_index as usize].suspensions = 0;
    }

    #[inline(always)]
    fn start_array_phase(&mut self, array_index: u32, kind: OpKind, start: u64, duration_ns: u64) {
        let array = &mut self.arrays[array_index as usize];
        array.cursor = NONE;
        array.phase_start = start;
        array.phase_end = start + duration_ns;
        self.schedule_end(kind, array_index);
    }

    /// tPROG or tBERS is over: the whole group has completed.
    #[inline(always)]
    fn array_ended(&mut self, array_index: u32) {
        let mut id = std::mem::replace(&mut self.arrays[array_index as usize].current, NONE);
        while id != NONE {
            let next = self.ops[id].next;
            self.complete_op(id);
            id = next;
        }
        self.dispatch(array_index);
    }
}

// Suspension.
impl EventEngine {
    /// Suspends the program or erase under way if a host read waits and the options allow it.
    #[inline(always)]
    fn try_suspend(&mut self, array_index: u32) {
        if let Some(suspend) = self.options.suspend {
            self.try_suspend_up_to(array_index, suspend.max_per_op);
        }
    }

    fn try_suspend_up_to(&mut self, array_index: u32, max_per_op: u32) {
        let array = &self.arrays[array_index as usize];
        let reads_wait = !array.queues[READS as usize].is_empty();
        if array.current == NONE || !reads_wait || self.ops[array.current].kind == OpKind::Read {
            return;
        }
        let exhausted = array.suspensions >= max_per_op || self.is_behind(array);
        // Not yet in the array phase: the grant of the channel takes care of it.
        if exhausted || array.cursor != NONE || array.phase_end == self.now {
            return;
        }
        if self.now < array.phase_start {
            self.schedule(EventClass::ArrayStarted, array.phase_start, array_index);
        } else {
            self.suspend(array_index);
        }
    }

    fn suspend(&mut self, array_index: u32) {
        let array = &mut self.arrays[array_index as usize];
        array.remaining_ns = array.phase_end - self.now;
        array.generation += 1;
        array.suspensions += 1;
        array.suspended = std::mem::replace(&mut array.current, NONE);
        self.dispatch(array_index);
    }

    fn resume(&mut self, array_index: u32) {
        let array = &mut self.arrays[array_index as usize];
        array.current = std::mem::replace(&mut array.suspended, NONE);
        let overhead = self.options.suspend.map_or(0, |suspend| suspend.overhead_ns);
        let (kind, left) = (self.ops[array.current].kind, array.remaining_ns + overhead);
        self.start_array_phase(array_index, kind, self.now, left);
    }
}

// Channels.
impl EventEngine {
    /// The cursor's operation wants its channel: it gets it now, or queues.
    #[inline(always)]
    fn ask_channel(&mut self, array_index: u32) {
        let array = &self.arrays[array_index as usize];
        let channel_index = array.channel;
        let urgent = self.ops[array.cursor].queue == READS;
        let channel = &mut self.channels[channel_index as usize];
        if channel.free_at <= self.now && !channel.contended {
            return self.grant(array_index);
        }
        let queue = if urgent { &mut channel.urgent } else { &mut channel.waiting };
        queue.push_back(array_index);
        if !channel.contended {
            channel.contended = true;
            let free_at = channel.free_at;
            self.schedule(EventClass::ChannelFree, free_at, channel_index);
        }
    }

    fn channel_freed(&mut self, channel_index: u32) {
        let channel = &mut self.channels[channel_index as usize];
        let next = channel.urgent.pop_front().or_else(|| channel.waiting.pop_front());
        self.grant(next.expect("a channel reports only to those who wait"));
        let channel = &mut self.channels[channel_index as usize];
        channel.contended = !(channel.urgent.is_empty() && channel.waiting.is_empty());
        if channel.contended {
            let free_at = channel.free_at;
            self.schedule(EventClass::ChannelFree, free_at, channel_index);
        }
    }

    /// Books the channel for the cursor's operation and schedules what follows.
    #[inline(always)]
    fn grant(&mut self, array_index: u32) {
        let array = &mut self.arrays[array_index as usize];
        let op = self.ops[array.cursor];
        let channel = &mut self.channels[array.channel as usize];
        let end = self.now + u64::from(op.transfer_ns);
        channel.busy_ns += u64::from(op.transfer_ns);
        channel.free_at = end;
        if op.kind == OpKind::Program && op.next == NONE {
            self.start_array_phase(array_index, OpKind::Program, end, self.flash.program_ns);
            return self.try_suspend(array_index);
        }
        array.cursor = op.next;
        self.schedule(EventClass::Transferred, end, array_index);
    }

    /// A page has left the die, or one of a group's pages (not the last) has entered it.
    #[inline(always)]
    fn transferred(&mut self, array_index: u32) {
        let array = &mut self.arrays[array_index as usize];
        let id = array.current;
        if self.ops[id].kind == OpKind::Program {
            return self.ask_channel(array_index);
        }
        array.current = self.ops[id].next;
        if array.current != NONE {
            self.ask_channel(array_index);
        }
        self.complete_op(id);
        self.dispatch(array_index);
    }
}

// Completion.
impl EventEngine {
    #[inline(always)]
    fn complete_op(&mut self, id: u32) {
        let &PendingOp { waiters, request, role, .. } = self.ops.remove(id);
        self.completed_ops += 1;
        if waiters != NONE {
            self.release(waiters);
        }
        match role {
            Role::Background => {}
            Role::Awaited => self.awaited_done(request),
            Role::Blocking => self.unblock(request),
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
            let held = std::mem::replace(&mut request.held, NONE);
            self.release_many(held);
        }
    }

    #[inline(always)]
    fn open_request(&mut self, kind: RequestKind, arrival: u64, number: u64) -> u32 {
        let request =
            Request { arrival, number, pending: 0, blockers: 0, held: NONE, kind, acknowledged: false };
        if let Some(slot) = self.free_requests.pop() {
            self.requests[slot as usize] = request;
            return slot;
        }
        self.requests.push(request);
        (self.requests.len() - 1) as u32
    }

    #[inline(always)]
    fn uses_buffer(&self, kind: RequestKind) -> bool {
        kind == RequestKind::Write && self.options.buffered_writes > 0
    }

    /// A write that has to be programmed arrives at the buffer.
    fn buffer(&mut self, slot: u32) {
        if self.buffered < self.options.buffered_writes {
            self.buffered += 1;
            self.acknowledge(slot);
        } else {
            self.unbuffered.push_back(slot);
        }
    }

    /// All that the request waited for is done.
    #[inline(always)]
    fn flash_done(&mut self, slot: u32) {
        let Request { kind, acknowledged, .. } = self.requests[slot as usize];
        if !self.uses_buffer(kind) {
            return self.acknowledge(slot);
        }
        match self.unbuffered.pop_front() {
            Some(oldest) => self.acknowledge(oldest),
            None => self.buffered -= 1,
        }
        if acknowledged {
            self.free_requests.push(slot);
        }
    }

    /// Tells the host, after the controller overhead.
    #[inline(always)]
    fn acknowledge(&mut self, slot: u32) {
        match self.options.controller_overhead_ns {
            0 => self.acknowledged(slot),
            overhead => self.schedule(EventClass::Acknowledged, self.now + overhead, slot),
        }
    }

    #[inline(always)]
    fn acknowledged(&mut self, slot: u32) {
        let request = &mut self.requests[slot as usize];
        request.acknowledged = true;
        let Request { kind, number, arrival, pending, .. } = *request;
        self.ledger.complete(kind, number, arrival, self.now);
        self.outstanding -= 1;
        if pending == 0 {
            self.free_requests.push(slot);
        }
    }
}
