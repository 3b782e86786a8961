//! Exact event-driven timing: a queue per array and urgency, channel arbitration, suspension.
//!
//! Service, in full:
//! - An *array* (die, or plane) executes one operation, or one multi-plane group, at a time and is held until it
//!   ends. Read: tR, then the transfer out. Program: the transfer in, then tPROG. Erase: tBERS.
//! - A *channel* carries one transfer at a time. Waiting transfers are served first come first served, those of
//!   reads with priority first. A group transfers page by page and asks for the channel anew for each.
//! - An array that falls free takes from its queues: host reads, then host writes, then background (see
//!   [`TimingOptions`] for the variants).
//! - An operation with `after` joins its queue when its predecessor ends; but at once if that stands in the same
//!   queue, where order does the rest (a collection thus copies page by page). Groups could break that order, so
//!   with `multi_plane` it always waits.
//! - At one event all operations that have become ready are queued before any starts; then arrays start: the one
//!   that has fallen free, and the others in the order in which they got work
//!   that they can act on.
//! - A host read that finds a program or erase in its array phase suspends it; one that finds the program's
//!   transfer under way suspends it when the transfer ends. The operation resumes when no host read is queued.
//!   The read itself pays nothing; the resumed operation pays the overhead. What starts or resumes while the
//!   backlog exceeds its bound is not suspended.
//!
//! Key decision: an event exists only where something can interact. A program's transfer and tPROG are one
//! event once the channel is granted, and a channel reports that it is free only if somebody waits. An idle
//! device thus costs two events per read and one per program or erase. The price is that "what runs now" is
//! partly implicit (`Channel::free_at`, `Array::phase_start`).
//!
//! Invariants:
//! - What runs, or is suspended, is the front of its queue; it leaves the queue when it completes.
//! - Between events, an array without a running group is idle and its queues are empty.
//! - Simultaneous events run in order of class, then of array or channel number.

#![expect(clippy::inline_always, reason = "measured: 25 % more operations per second than with plain hints")]

use super::event_queue::{Event, EventClass, EventQueue};
use super::latency::Ledger;
use super::op_queue::{NONE, Op, OpQueue, Role, Waiter, WaiterSlab};
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

/// Operations that run together: the first `count` of a queue. More than one only with multi-plane.
#[derive(Clone, Copy, Debug)]
struct Group {
    kind: OpKind,
    queue: u8,
    /// 0 = no group.
    count: u8,
    /// Member that transfers or waits to; `count` in the array phase of a program or erase.
    cursor: u8,
}

impl Group {
    const NONE: Self = Self { kind: OpKind::Read, queue: WRITES, count: 0, cursor: 0 };

    #[inline(always)]
    fn exists(self) -> bool {
        self.count > 0
    }
}

/// A die, or a plane where planes are independent.
#[derive(Clone, Debug)]
struct Array {
    running: Group,
    suspended: Group,
    queues: [OpQueue; 3],
    channel: u32,
    /// Moves on at every suspension, which cancels the pending end of the operation.
    generation: u32,
    /// Suspensions of the program or erase that runs or is suspended.
    suspensions: u32,
    /// It went ahead of host work because of the backlog: no suspension.
    must_finish: bool,
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
            running: Group::NONE,
            suspended: Group::NONE,
            queues: std::array::from_fn(|_| OpQueue::new()),
            channel,
            generation: 0,
            suspensions: 0,
            must_finish: false,
            phase_start: 0,
            phase_end: 0,
            remaining_ns: 0,
            busy_since: IDLE,
            busy_ns: 0,
        }
    }

    /// Background operations that wait.
    #[inline(always)]
    fn backlog(&self) -> u32 {
        let at_work = |group: Group| if group.queue == BACKGROUND { u32::from(group.count) } else { 0 };
        self.queues[BACKGROUND as usize].len() - at_work(self.running) - at_work(self.suspended)
    }

    /// Takes the front member of the running group out of its queue.
    #[inline(always)]
    fn pop_member(&mut self) -> Op {
        self.running.count -= 1;
        self.queues[self.running.queue as usize].pop()
    }
}

/// Where an operation of the list being admitted went.
#[derive(Clone, Copy, Debug)]
enum Listed {
    /// To place `index` of a queue.
    Queued { array: u32, queue: u8, index: u32 },
    /// Into the slab.
    Waiting(u32),
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

/// What arrays share: channels, the clock with its events, and the rules.
#[derive(Clone, Debug)]
struct Shared {
    now: u64,
    events: EventQueue,
    channels: Vec<Channel>,
    flash: FlashTiming,
    options: TimingOptions,
}

impl Shared {
    #[inline(always)]
    fn schedule(&mut self, class: EventClass, time: u64, subject: u32) {
        self.events.push(class, Event { time, subject, generation: 0 });
    }
}

#[derive(Clone, Debug)]
pub(super) struct EventEngine {
    layout: Layout,
    shared: Shared,
    arrays: Vec<Array>,
    waiters: WaiterSlab,
    requests: Vec<Request>,
    free_requests: Vec<u32>,
    /// Writes acknowledged and not programmed.
    buffered: usize,
    /// Writes that wait for a place in the buffer.
    unbuffered: VecDeque<u32>,
    /// The list being admitted.
    listed: Vec<Listed>,
    /// Whether each operation of that list waits, at any remove, for one that the host waits for.
    follows_host: Vec<bool>,
    /// Arrays that got work at this instant.
    woken: Vec<u32>,
    ledger: Ledger,
    outstanding: usize,
    completed_ops: u64,
}

// The public face.
impl EventEngine {
    pub(super) fn new(layout: Layout, flash: FlashTiming, options: TimingOptions) -> Self {
        Self {
            arrays: layout.channel_of_array.iter().map(|&channel| Array::new(channel)).collect(),
            ledger: Ledger::new(options.keep_completions),
            shared: Shared {
                now: 0,
                events: EventQueue::new(),
                channels: vec![Channel::default(); layout.channels],
                flash,
                options,
            },
            layout,
            waiters: WaiterSlab::new(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            buffered: 0,
            unbuffered: VecDeque::new(),
            listed: Vec::new(),
            follows_host: Vec::new(),
            woken: Vec::new(),
            outstanding: 0,
            completed_ops: 0,
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
            let (class, event) =
                self.shared.events.pop_until(u64::MAX).expect("outstanding work has an event");
            self.handle(class, event);
        }
        Some(self.shared.now)
    }

    pub(super) fn drain(&mut self) -> u64 {
        while let Some((class, event)) = self.shared.events.pop_until(u64::MAX) {
            self.handle(class, event);
        }
        debug_assert_eq!(self.outstanding, 0, "nothing is left behind");
        self.shared.now
    }

    pub(super) fn outstanding(&self) -> usize {
        self.outstanding
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.shared.now
    }

    pub(super) fn completed_ops(&self) -> u64 {
        self.completed_ops
    }

    pub(super) fn array_busy_ns(&self) -> Vec<u64> {
        let running =
            |array: &Array| if array.busy_since == IDLE { 0 } else { self.shared.now - array.busy_since };
        self.arrays.iter().map(|array| array.busy_ns + running(array)).collect()
    }

    pub(super) fn channel_busy_ns(&self) -> Vec<u64> {
        self.shared.channels.iter().map(|channel| channel.busy_ns).collect()
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
        while let Some((class, event)) = self.shared.events.pop_until(to) {
            self.handle(class, event);
        }
        self.shared.now = self.shared.now.max(to);
    }

    #[inline(always)]
    fn handle(&mut self, class: EventClass, event: Event) {
        let subject = event.subject;
        self.shared.now = event.time;
        match class {
            EventClass::ReadSensed => self.arrays[subject as usize].ask_channel(subject, &mut self.shared),
            EventClass::Transferred => self.transferred(subject),
            EventClass::Programmed | EventClass::Erased => self.array_ended(subject, event.generation),
            EventClass::ChannelFree => self.channel_freed(subject),
            EventClass::ArrayStarted => self.arrays[subject as usize].try_suspend(subject, &mut self.shared),
            EventClass::Acknowledged => self.acknowledged(subject),
        }
    }
}

// Operations become ready.
impl EventEngine {
    fn admit(&mut self, ops: &[FlashOp], request: Option<u32>) {
        self.listed.clear();
        if self.shared.options.blocking_gc && request.is_some() {
            self.mark_followers(ops);
        }
        for op in ops {
            let listed = self.admit_one(op, request);
            self.listed.push(listed);
        }
        self.wake_all();
    }

    #[inline(always)]
    fn admit_one(&mut self, flash_op: &FlashOp, request: Option<u32>) -> Listed {
        let background = request.is_none() || flash_op.is_background();
        let place = self.layout.planes[flash_op.plane.index()];
        let (array, queue) = (place.array, self.queue_of(flash_op.kind, background));
        let op = Op {
            waiters: NONE,
            request: request.unwrap_or(NONE),
            transfer_ns: self.shared.flash.transfer_ns(flash_op.bytes).min(u64::from(u32::MAX)) as u32,
            kind: flash_op.kind,
            role: self.role_of(background, request),
            plane: place.plane_in_die,
        };
        let held = op.role != Role::Background && self.count(op);
        let waiter = Waiter { op, array, queue, next: NONE };
        if flash_op.after > 0 {
            return self.admit_after(flash_op.after, waiter);
        }
        if held {
            return self.hold(waiter);
        }
        self.enqueue(op, array, queue)
    }

    /// Admits an operation that follows the one `back` places before it.
    #[inline(always)]
    fn admit_after(&mut self, back: u16, mut waiter: Waiter) -> Listed {
        let predecessor = self.listed[self.listed.len() - back as usize];
        let list = match predecessor {
            Listed::Queued { array, queue, index } => {
                if array == waiter.array && queue == waiter.queue && !self.shared.options.multi_plane {
                    return self.enqueue(waiter.op, array, queue);
                }
                self.arrays[array as usize].queues[queue as usize].at_mut(index).waiters
            }
            Listed::Waiting(id) => self.waiters.op_mut(id).waiters,
        };
        waiter.next = list;
        let id = self.waiters.insert(waiter);
        match predecessor {
            Listed::Queued { array, queue, index } => {
                self.arrays[array as usize].queues[queue as usize].at_mut(index).waiters = id;
            }
            Listed::Waiting(predecessor) => self.waiters.op_mut(predecessor).waiters = id,
        }
        Listed::Waiting(id)
    }

    /// Holds an operation back until its request has no blockers.
    fn hold(&mut self, mut waiter: Waiter) -> Listed {
        let slot = waiter.op.request as usize;
        waiter.next = self.requests[slot].held;
        let id = self.waiters.insert(waiter);
        self.requests[slot].held = id;
        Listed::Waiting(id)
    }

    #[inline(always)]
    fn queue_of(&self, kind: OpKind, background: bool) -> u8 {
        match background {
            true if self.shared.options.gc_yields => BACKGROUND,
            false if self.shared.options.read_priority && kind == OpKind::Read => READS,
            _ => WRITES,
        }
    }

    #[inline(always)]
    fn role_of(&self, background: bool, request: Option<u32>) -> Role {
        let blocking =
            || self.shared.options.blocking_gc && request.is_some() && !self.follows_host[self.listed.len()];
        match background {
            false => Role::Awaited,
            true if blocking() => Role::Blocking,
            true => Role::Background,
        }
    }

    /// Enters an operation into its request's counts; true if it must be held back for blockers.
    #[inline(always)]
    fn count(&mut self, op: Op) -> bool {
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
    fn enqueue(&mut self, op: Op, array_index: u32, queue: u8) -> Listed {
        let array = &mut self.arrays[array_index as usize];
        let fifo = &mut array.queues[queue as usize];
        let index = fifo.len();
        fifo.push(op);
        if index == 0
            && (!array.running.exists() || (queue == READS && self.shared.options.suspend.is_some()))
        {
            self.woken.push(array_index);
        }
        Listed::Queued { array: array_index, queue, index }
    }

    /// Queues a list of operations that was built latest first.
    fn release(&mut self, list: u32) {
        let mut id = self.waiters.reversed(list);
        while id != NONE {
            let Waiter { op, array, queue, next } = self.waiters.remove(id);
            self.enqueue(op, array, queue);
            id = next;
        }
    }

    /// Starts operations where there is new work, or suspends what runs there.
    #[inline(always)]
    fn wake_all(&mut self) {
        for &index in &self.woken {
            let array = &mut self.arrays[index as usize];
            if array.running.exists() {
                array.try_suspend(index, &mut self.shared);
            } else {
                array.dispatch(index, &mut self.shared);
            }
        }
        self.woken.clear();
    }
}

// What an array does next.
impl Array {
    /// Gives an array without an operation its next one, if there is any.
    #[inline(always)]
    fn dispatch(&mut self, index: u32, shared: &mut Shared) {
        if self.running.exists() {
            return;
        }
        let behind = self.is_behind(shared);
        if self.suspended.exists() && (behind || self.queues[READS as usize].is_empty()) {
            self.must_finish = behind;
            return self.resume(index, shared);
        }
        match self.choose_queue(behind) {
            Some(queue) => self.start(index, queue, behind, shared),
            None => self.idle(shared.now),
        }
    }

    /// The backlog bound is exceeded: background work comes first.
    #[inline(always)]
    fn is_behind(&self, shared: &Shared) -> bool {
        self.backlog() > shared.options.gc_backlog_ops
    }

    #[inline(always)]
    fn choose_queue(&self, behind: bool) -> Option<u8> {
        if behind {
            return Some(BACKGROUND);
        }
        (READS..=BACKGROUND).find(|&queue| !self.queues[queue as usize].is_empty())
    }

    fn idle(&mut self, now: u64) {
        if self.busy_since != IDLE {
            self.busy_ns += now - self.busy_since;
            self.busy_since = IDLE;
        }
    }

    #[inline(always)]
    fn start(&mut self, index: u32, queue: u8, behind: bool, shared: &mut Shared) {
        let fifo = &self.queues[queue as usize];
        let kind = fifo.at(0).kind;
        let count = if shared.options.multi_plane { group_size(fifo) } else { 1 };
        self.running = Group { kind, queue, count, cursor: 0 };
        self.busy_since = self.busy_since.min(shared.now);
        if kind == OpKind::Read {
            return shared.schedule(EventClass::ReadSensed, shared.now + shared.flash.read_ns, index);
        }
        self.suspensions = 0;
        self.must_finish = behind;
        if kind == OpKind::Program {
            self.ask_channel(index, shared);
        } else {
            let (now, erase_ns) = (shared.now, shared.flash.erase_ns);
            self.start_phase(index, EventClass::Erased, now, erase_ns, &mut shared.events);
        }
    }

    /// Begins the array phase of a program or erase.
    #[inline(always)]
    fn start_phase(&mut self, index: u32, ends_as: EventClass, start: u64, ns: u64, events: &mut EventQueue) {
        self.running.cursor = self.running.count;
        self.phase_start = start;
        self.phase_end = start + ns;
        events.push(ends_as, Event { time: self.phase_end, subject: index, generation: self.generation });
    }

    /// The cursor's operation wants the channel: it gets it now, or queues.
    #[inline(always)]
    fn ask_channel(&mut self, index: u32, shared: &mut Shared) {
        let channel = &shared.channels[self.channel as usize];
        if channel.free_at <= shared.now && !channel.contended {
            self.grant(index, shared);
        } else {
            self.wait_for_channel(index, shared);
        }
    }

    fn wait_for_channel(&self, index: u32, shared: &mut Shared) {
        let channel = &mut shared.channels[self.channel as usize];
        let urgent = self.running.queue == READS;
        let queue = if urgent { &mut channel.urgent } else { &mut channel.waiting };
        queue.push_back(index);
        if !channel.contended {
            channel.contended = true;
            let free_at = channel.free_at;
            shared.schedule(EventClass::ChannelFree, free_at, self.channel);
        }
    }

    /// Books the channel for the cursor's operation and schedules what follows.
    #[inline(always)]
    fn grant(&mut self, index: u32, shared: &mut Shared) {
        let op = self.queues[self.running.queue as usize].at(u32::from(self.running.cursor));
        let channel = &mut shared.channels[self.channel as usize];
        let end = shared.now + u64::from(op.transfer_ns);
        channel.busy_ns += u64::from(op.transfer_ns);
        channel.free_at = end;
        if self.running.kind == OpKind::Read {
            return shared.schedule(EventClass::Transferred, end, index);
        }
        self.running.cursor += 1;
        if self.running.cursor < self.running.count {
            return shared.schedule(EventClass::Transferred, end, index);
        }
        let program_ns = shared.flash.program_ns;
        self.start_phase(index, EventClass::Programmed, end, program_ns, &mut shared.events);
        self.try_suspend(index, shared);
    }
}

// Suspension.
impl Array {
    /// Suspends the program or erase under way if a host read waits and the options allow it.
    #[inline(always)]
    fn try_suspend(&mut self, index: u32, shared: &mut Shared) {
        if let Some(suspend) = shared.options.suspend {
            self.try_suspend_up_to(index, suspend.max_per_op, shared);
        }
    }

    fn try_suspend_up_to(&mut self, index: u32, max_per_op: u32, shared: &mut Shared) {
        let running = self.running;
        let reads_wait = !self.queues[READS as usize].is_empty();
        if !running.exists() || running.kind == OpKind::Read || !reads_wait {
            return;
        }
        let refused = self.suspensions >= max_per_op || self.must_finish || self.is_behind(shared);
        // Before its array phase, the grant of the channel will come back to this.
        if refused || running.cursor < running.count || self.phase_end == shared.now {
            return;
        }
        if shared.now < self.phase_start {
            shared.schedule(EventClass::ArrayStarted, self.phase_start, index);
        } else {
            self.suspend(index, shared);
        }
    }

    /// Sets the running group aside for the host reads that wait.
    fn suspend(&mut self, index: u32, shared: &mut Shared) {
        self.remaining_ns = self.phase_end - shared.now;
        self.generation += 1;
        self.suspensions += 1;
        self.suspended = std::mem::replace(&mut self.running, Group::NONE);
        let count = if shared.options.multi_plane { group_size(&self.queues[READS as usize]) } else { 1 };
        self.running = Group { kind: OpKind::Read, queue: READS, count, cursor: 0 };
        shared.schedule(EventClass::ReadSensed, shared.now + shared.flash.read_ns, index);
    }

    fn resume(&mut self, index: u32, shared: &mut Shared) {
        self.running = std::mem::replace(&mut self.suspended, Group::NONE);
        let overhead = shared.options.suspend.map_or(0, |suspend| suspend.overhead_ns);
        let erase = self.running.kind == OpKind::Erase;
        let class = if erase { EventClass::Erased } else { EventClass::Programmed };
        self.start_phase(index, class, shared.now, self.remaining_ns + overhead, &mut shared.events);
    }
}

/// Length of the multi-plane group at the front of a queue: neighbours of one kind on different planes.
fn group_size(queue: &OpQueue) -> u8 {
    let kind = queue.at(0).kind;
    let (mut planes, mut size) = (0_u64, 0);
    while u32::from(size) < queue.len() {
        let op = queue.at(u32::from(size));
        if op.kind != kind || planes & 1 << op.plane != 0 {
            break;
        }
        planes |= 1 << op.plane;
        size += 1;
    }
    size
}

// Events that arrays and channels cause.
impl EventEngine {
    /// Gives an array that may be without an operation its next one.
    #[inline(always)]
    fn dispatch(&mut self, index: u32) {
        self.arrays[index as usize].dispatch(index, &mut self.shared);
    }

    /// tPROG or tBERS is over, unless a suspension has cancelled this end: the whole group has completed.
    #[inline(always)]
    fn array_ended(&mut self, index: u32, generation: u32) {
        let array = &mut self.arrays[index as usize];
        if array.generation != generation {
            return;
        }
        for _ in 0..array.running.count {
            let op = self.arrays[index as usize].pop_member();
            self.complete_op(op);
        }
        self.dispatch(index);
        self.wake_all();
    }

    /// A page has left the die, or one of a group's pages (not the last) has entered it.
    #[inline(always)]
    fn transferred(&mut self, index: u32) {
        let array = &mut self.arrays[index as usize];
        if array.running.kind == OpKind::Program {
            return array.ask_channel(index, &mut self.shared);
        }
        let op = array.pop_member();
        if array.running.exists() {
            array.ask_channel(index, &mut self.shared);
        }
        self.complete_op(op);
        self.dispatch(index);
        self.wake_all();
    }

    fn channel_freed(&mut self, channel_index: u32) {
        let channel = &mut self.shared.channels[channel_index as usize];
        let next = channel.urgent.pop_front().or_else(|| channel.waiting.pop_front());
        let next = next.expect("a channel reports only to those who wait");
        self.arrays[next as usize].grant(next, &mut self.shared);
        let channel = &mut self.shared.channels[channel_index as usize];
        channel.contended = !(channel.urgent.is_empty() && channel.waiting.is_empty());
        if channel.contended {
            let free_at = channel.free_at;
            self.shared.schedule(EventClass::ChannelFree, free_at, channel_index);
        }
    }
}

// Completion.
impl EventEngine {
    #[inline(always)]
    fn complete_op(&mut self, op: Op) {
        let Op { waiters, request, role, .. } = op;
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
            self.release(held);
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
        kind == RequestKind::Write && self.shared.options.buffered_writes > 0
    }

    /// A write that has to be programmed arrives at the buffer.
    fn buffer(&mut self, slot: u32) {
        if self.buffered < self.shared.options.buffered_writes {
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
        match self.shared.options.controller_overhead_ns {
            0 => self.acknowledged(slot),
            overhead => self.shared.schedule(EventClass::Acknowledged, self.shared.now + overhead, slot),
        }
    }

    #[inline(always)]
    fn acknowledged(&mut self, slot: u32) {
        let request = &mut self.requests[slot as usize];
        request.acknowledged = true;
        let Request { kind, number, arrival, pending, .. } = *request;
        self.ledger.complete(kind, number, arrival, self.shared.now);
        self.outstanding -= 1;
        if pending == 0 {
            self.free_requests.push(slot);
        }
    }
}
