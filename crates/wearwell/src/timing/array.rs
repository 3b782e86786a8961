//! One flash array of the event engine: what it does next, and its dealings with its channel.
//!
//! The rules of service are those of [`super::event`]; this file holds the part that concerns one array alone. An
//! array sees nothing of requests and of other arrays, only what all share ([`Shared`]): so every decision here
//! can be read without the rest, and the compiler keeps one array's state in registers.
//!
//! Everything is compiled twice: `PLAIN` is the common device, whose operations run one by one to their end (neither
//! suspension nor groups), and leaves out what only the others need. Such an array also looks ahead: in a series of copies
//! it knows what comes next ([`Ahead`]) as long as no host operation arrives, and for sure if it is far behind.

#![expect(clippy::inline_always, reason = "measured: 25 % more operations per second than with plain hints")]

use super::channel::{Channel, Moment};
use super::event_queue::{EventClass, EventQueue};
use super::op_queue::{Op, OpQueue};
use super::{FlashTiming, FreeBlocks, TimingOptions};
use crate::operation::OpKind;

/// Queue of host reads with priority.
pub(super) const READS: u8 = 0;
/// Queue of everything else that has no other place.
pub(super) const WRITES: u8 = 1;
/// Queue of background work that yields.
pub(super) const BACKGROUND: u8 = 2;

/// `Array::busy_since` of an idle array.
pub(super) const IDLE: u64 = u64::MAX;

/// Operations that run together: the first `count` of a queue. More than one only with multi-plane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) kind: OpKind,
    pub(super) queue: u8,
    /// 0 = no group.
    pub(super) count: u8,
    /// Member that transfers or waits to; `count` in the array phase of a program or erase.
    pub(super) cursor: u8,
    /// Time on the channel of the member at the cursor.
    pub(super) transfer_ns: u32,
}

impl Group {
    const NONE: Self = Self { kind: OpKind::Read, queue: WRITES, count: 0, cursor: 0, transfer_ns: 0 };

    #[inline(always)]
    pub(super) fn exists(self) -> bool {
        self.count > 0
    }
}

/// Steps that an array has taken ahead of the clock although a host operation that arrives would come between.
#[derive(Clone, Copy, Debug, Default)]
struct Ahead {
    /// From a read of a series to its program.
    program: bool,
    /// From a program to the next read.
    read: bool,
}

/// A die, or a plane where planes are independent.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) running: Group,
    pub(super) suspended: Group,
    pub(super) queues: [OpQueue; 3],
    ahead: Ahead,
    /// Background operations that may wait before they go first: 0 while a scan waits for this array.
    backlog_bound_ops: u32,
    free_blocks: Option<FreeBlocks>,
    /// Pages that collections have gained, or will when their queue ends, and host writes have not programmed.
    gained_pages: i64,
    /// While it is behind, background work goes before host reads too, and not by turns with them.
    holds_reads: bool,
    /// The last operation that it began, or resumed, was a host read with priority.
    read_was_last: bool,
    /// Background operations that went before the host write that waits, to keep the pace of [`FreeBlocks`].
    paced: u32,
    pub(super) channel: u32,
    /// Suspensions of the program or erase that runs or is suspended.
    pub(super) suspensions: u32,
    /// It went ahead of host work because of the backlog: no suspension.
    pub(super) must_finish: bool,
    /// Array phase of a program or erase.
    pub(super) phase_start: u64,
    pub(super) phase_end: u64,
    /// Array time left to the suspended group.
    pub(super) remaining_ns: u64,
    pub(super) busy_since: u64,
    pub(super) busy_ns: u64,
}

impl Array {
    pub(super) fn new(channel: u32, options: &TimingOptions) -> Self {
        Self {
            running: Group::NONE,
            suspended: Group::NONE,
            queues: std::array::from_fn(|_| OpQueue::new()),
            ahead: Ahead::default(),
            backlog_bound_ops: options.gc_backlog_ops,
            free_blocks: options.free_blocks,
            gained_pages: 0,
            holds_reads: options.gc_holds_reads,
            read_was_last: false,
            paced: 0,
            channel,
            suspensions: 0,
            must_finish: false,
            phase_start: 0,
            phase_end: 0,
            remaining_ns: 0,
            busy_since: IDLE,
            busy_ns: 0,
        }
    }

    /// Background operations that wait, and the erases among them.
    #[inline(always)]
    fn backlog(&self) -> (u32, u32) {
        let at_work = |group: Group| if group.queue == BACKGROUND { u32::from(group.count) } else { 0 };
        let erases_of = |group: Group| if group.kind == OpKind::Erase { at_work(group) } else { 0 };
        let background = &self.queues[BACKGROUND as usize];
        let ops = background.ops() - at_work(self.running) - at_work(self.suspended);
        (ops, background.erases() - erases_of(self.running) - erases_of(self.suspended))
    }

    /// Puts an operation into a queue; returns its place.
    #[inline(always)]
    pub(super) fn push(&mut self, op: Op, queue: u8) -> u32 {
        if let (BACKGROUND, Some(free)) = (queue, self.free_blocks) {
            self.gained_pages += match op.kind {
                OpKind::Erase => i64::from(free.pages_per_block),
                OpKind::Program => -1,
                _ => -i64::from(op.more().div_ceil(2)),
            };
        }
        let fifo = &mut self.queues[queue as usize];
        let index = fifo.len();
        fifo.push(op);
        index
    }

    /// Makes the first `count` operations of a queue the running group.
    #[inline(always)]
    fn run(&mut self, queue: u8, count: u8) {
        let &Op { kind, transfer_ns, .. } = self.queues[queue as usize].front();
        self.read_was_last = queue == READS;
        self.running = Group { kind, queue, count, cursor: 0, transfer_ns };
    }

    /// Time on the channel of a member of the running group that is still queued.
    fn transfer_of(&self, member: u8) -> u32 {
        self.queues[self.running.queue as usize].at(u32::from(member)).transfer_ns
    }

    /// Takes the front member of the running group out of its queue. Reads are at the cursor one by one.
    #[inline(always)]
    pub(super) fn pop_member<const PLAIN: bool>(&mut self) -> Op {
        self.running.count -= 1;
        let op = self.queues[self.running.queue as usize].pop();
        if !PLAIN && self.running.exists() {
            self.running.transfer_ns = self.transfer_of(0);
        }
        op
    }
}

/// What arrays share: channels, the clock with its events, and the rules.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    /// Where the event at hand, or the arrival of a request, stands in the order of things.
    pub(super) moment: Moment,
    pub(super) events: EventQueue,
    pub(super) channels: Vec<Channel>,
    pub(super) completed_ops: u64,
    pub(super) flash: FlashTiming,
    pub(super) options: TimingOptions,
}

impl Shared {
    /// The time, in nanoseconds.
    #[inline(always)]
    pub(super) fn now(&self) -> u64 {
        self.moment.time()
    }
}

// What an array does next.
impl Array {
    /// Gives an array without an operation its next one, if there is any.
    #[inline(always)]
    pub(super) fn dispatch<const PLAIN: bool>(&mut self, index: u32, shared: &mut Shared) {
        debug_assert!(!self.running.exists(), "one operation at a time");
        let behind = self.is_behind::<PLAIN>() && !self.is_turn_of_reads();
        if !PLAIN && self.suspended.exists() && (behind || self.queues[READS as usize].is_empty()) {
            self.must_finish = behind;
            return self.resume(index, shared);
        }
        match self.choose_queue::<PLAIN>(behind) {
            Some(queue) => self.start::<PLAIN>(index, queue, behind, shared),
            None => self.idle(shared.now()),
        }
    }

    /// Whether a host read goes next although background work is behind: reads need no free block, so background work
    /// and reads take turns, one by one.
    #[inline(always)]
    fn is_turn_of_reads(&self) -> bool {
        !self.read_was_last && !self.queues[READS as usize].is_empty() && !self.is_holding_reads()
    }

    /// The backlog exceeds its bound where that holds reads. A lack of free blocks never does.
    #[inline(always)]
    fn is_holding_reads(&self) -> bool {
        self.holds_reads && self.backlog().0 > self.backlog_bound_ops
    }

    /// The backlog bound is exceeded, or there is no free block for host writes: background work comes first.
    #[inline(always)]
    fn is_behind<const PLAIN: bool>(&self) -> bool {
        let (ops, erases) = self.backlog_between_ops::<PLAIN>();
        ops > self.backlog_bound_ops
            || erases > 0
                && self.free_blocks.is_some_and(|free| free.are_used_up(ops, erases, self.gained_pages))
    }

    /// [`Array::backlog`] while nothing runs; on a plain device nothing is suspended either.
    #[inline(always)]
    fn backlog_between_ops<const PLAIN: bool>(&self) -> (u32, u32) {
        let background = &self.queues[BACKGROUND as usize];
        if PLAIN { (background.ops(), background.erases()) } else { self.backlog() }
    }

    #[inline(always)]
    fn choose_queue<const PLAIN: bool>(&mut self, behind: bool) -> Option<u8> {
        if behind {
            return Some(BACKGROUND);
        }
        let [reads, writes, background] = &self.queues;
        if !reads.is_empty() {
            Some(READS)
        } else if !writes.is_empty() {
            Some(self.write_or_its_pace::<PLAIN>())
        } else if !background.is_empty() {
            Some(BACKGROUND)
        } else {
            None
        }
    }

    /// The queue of host writes, or of the background work that has to go before the next of them.
    #[inline(always)]
    fn write_or_its_pace<const PLAIN: bool>(&mut self) -> u8 {
        let (ops, erases) = self.backlog_between_ops::<PLAIN>();
        let due = match self.free_blocks {
            Some(free) if erases > 0 => free.background_ops_per_write(ops, erases, self.gained_pages),
            _ => 0,
        };
        if self.paced < due {
            self.paced += 1;
            return BACKGROUND;
        }
        self.paced = 0;
        WRITES
    }

    fn idle(&mut self, now: u64) {
        if self.busy_since != IDLE {
            self.busy_ns += now - self.busy_since;
            self.busy_since = IDLE;
        }
    }

    #[inline(always)]
    fn start<const PLAIN: bool>(&mut self, index: u32, queue: u8, behind: bool, shared: &mut Shared) {
        let groups = !PLAIN && shared.options.multi_plane;
        let count = if groups { group_size(&self.queues[queue as usize]) } else { 1 };
        self.run(queue, count);
        let kind = self.running.kind;
        self.busy_since = self.busy_since.min(shared.now());
        if kind == OpKind::Read {
            let sensed_at = shared.now() + shared.flash.read_ns;
            return shared.events.set(index, EventClass::ReadSensed, sensed_at);
        }
        if !PLAIN {
            self.suspensions = 0;
            self.must_finish = behind;
        }
        if kind == OpKind::Program {
            if queue == WRITES {
                self.gained_pages = (self.gained_pages - i64::from(count)).max(0);
            }
            self.ask_channel::<PLAIN>(index, shared);
        } else {
            let (now, erase_ns) = (shared.now(), shared.flash.erase_ns);
            self.start_phase::<PLAIN>(index, EventClass::Erased, now, erase_ns, &mut shared.events);
        }
    }

    /// Begins the array phase of a program or erase.
    #[inline(always)]
    fn start_phase<const PLAIN: bool>(
        &mut self,
        index: u32,
        ends_as: EventClass,
        start: u64,
        ns: u64,
        events: &mut EventQueue,
    ) {
        let end = start + ns;
        if !PLAIN {
            self.running.cursor = self.running.count;
            self.phase_start = start;
            self.phase_end = end;
        }
        events.set(index, ends_as, end);
    }

    /// The cursor's operation wants the channel: it gets it now, or queues.
    #[inline(always)]
    pub(super) fn ask_channel<const PLAIN: bool>(&mut self, index: u32, shared: &mut Shared) {
        if PLAIN {
            return self.book_transfer(index, shared);
        }
        let channel = &shared.channels[self.channel as usize];
        if channel.free_at <= shared.now() && !channel.contended {
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
            shared.events.set_channel_free(self.channel, free_at);
        }
    }

    /// Gives the channel to the cursor's operation and schedules what follows.
    #[inline(always)]
    pub(super) fn grant(&mut self, index: u32, shared: &mut Shared) {
        let transfer_ns = u64::from(self.running.transfer_ns);
        let end = shared.now() + transfer_ns;
        let channel = &mut shared.channels[self.channel as usize];
        channel.busy_ns += transfer_ns;
        channel.free_at = end;
        if self.running.kind == OpKind::Read {
            return shared.events.set(index, EventClass::Transferred, end);
        }
        if self.running.cursor + 1 < self.running.count {
            self.running.cursor += 1;
            self.running.transfer_ns = self.transfer_of(self.running.cursor);
            return shared.events.set(index, EventClass::Transferred, end);
        }
        let program_ns = shared.flash.program_ns;
        self.start_phase::<false>(index, EventClass::Programmed, end, program_ns, &mut shared.events);
        self.try_suspend::<false>(index, shared);
    }
}

// Transfers of a plain device, whose times are known when they are asked for.
impl Array {
    /// tR is over. If what follows is the program of the page and then the next read of the series, all of it is known at
    /// once.
    #[inline(always)]
    pub(super) fn sensed<const PLAIN: bool>(&mut self, index: u32, shared: &mut Shared) {
        if !PLAIN {
            return self.ask_channel::<PLAIN>(index, shared);
        }
        self.arrive_at_event();
        if self.stays_in_series_for(2) {
            self.copy_page(index, shared);
        } else {
            self.book_transfer(index, shared);
        }
    }

    /// Books both transfers of a copy whose page has been read, and schedules the end of the next read.
    #[inline(always)]
    fn copy_page(&mut self, index: u32, shared: &mut Shared) {
        let (moment, ns) = (shared.moment, u64::from(self.running.transfer_ns));
        let FlashTiming { read_ns, program_ns, .. } = shared.flash;
        let channel = &mut shared.channels[self.channel as usize];
        let begins_at = channel.book_copy(index, ns, moment, &mut shared.events);
        let may_give_way = |steps| !self.holds_reads || !self.is_far_behind(steps);
        self.ahead = Ahead { program: may_give_way(1), read: may_give_way(2) };
        self.queues[BACKGROUND as usize].pop_copy();
        shared.completed_ops += 2;
        shared.events.set(index, EventClass::ReadSensed, begins_at + ns + program_ns + read_ns);
    }

    /// Books the running operation's transfer and schedules what follows it.
    #[inline(always)]
    fn book_transfer(&mut self, index: u32, shared: &mut Shared) {
        let (moment, ns) = (shared.moment, u64::from(self.running.transfer_ns));
        let channel = &mut shared.channels[self.channel as usize];
        let urgent = self.running.queue == READS;
        let begins_at = if urgent {
            channel.book_urgent(index, ns, moment, &shared.flash, &mut shared.events)
        } else {
            channel.book(index, ns, moment, &mut shared.events)
        };
        let end = begins_at + ns;
        if self.running.kind == OpKind::Program {
            self.program_from(end, index, shared);
        } else {
            shared.events.set(index, EventClass::Transferred, end);
        }
    }

    /// Schedules what follows a program whose transfer ends at `start`: where that is the next read of its series, the
    /// end of that.
    #[inline(always)]
    fn program_from(&mut self, start: u64, index: u32, shared: &mut Shared) {
        let end = start + shared.flash.program_ns;
        if self.stays_in_series_for(1) {
            self.ahead.read = !self.holds_reads || !self.is_far_behind(1);
            self.pass(shared);
            shared.events.set(index, EventClass::ReadSensed, end + shared.flash.read_ns);
        } else {
            shared.events.set(index, EventClass::Programmed, end);
        }
    }

    /// Whether the next `steps` operations after the one that runs are, as things are, of the same series.
    #[inline(always)]
    fn stays_in_series_for(&self, steps: u32) -> bool {
        let [reads, writes, background] = &self.queues;
        self.running.queue == BACKGROUND
            && background.front().more() >= steps
            && if reads.is_empty() {
                writes.is_empty() || self.is_far_behind(steps)
            } else {
                self.holds_reads && self.is_far_behind(steps)
            }
    }

    /// Whether the next `steps` operations are background work, whatever arrives; but for a read, unless reads are held. Of
    /// the free blocks nothing is certain: copies that arrive put the end of the lack forward.
    #[inline(always)]
    fn is_far_behind(&self, steps: u32) -> bool {
        self.queues[BACKGROUND as usize].ops() - steps > self.backlog_bound_ops
    }

    /// Moves on to the next operation of a series ahead of the clock: nobody waits for the one that ends.
    #[inline(always)]
    fn pass(&mut self, shared: &mut Shared) {
        self.queues[BACKGROUND as usize].pop();
        shared.completed_ops += 1;
        self.running.kind = self.queues[BACKGROUND as usize].front().kind;
    }

    /// Takes a step back.
    fn unpass(&mut self, shared: &mut Shared) {
        self.queues[BACKGROUND as usize].unpop();
        shared.completed_ops -= 1;
        self.running.kind = self.queues[BACKGROUND as usize].front().kind;
    }

    /// Puts background work before host writes, or before everything if it holds reads: a scan waits for it. Steps that
    /// were taken ahead of the clock are certain if not even a read can come between.
    pub(super) fn hurry(&mut self) {
        self.backlog_bound_ops = 0;
        if self.holds_reads {
            self.ahead = Ahead::default();
        }
    }

    /// Ends [`Array::hurry`].
    pub(super) fn stop_hurrying(&mut self, options: &TimingOptions) {
        self.backlog_bound_ops = options.gc_backlog_ops;
    }

    /// What was taken ahead of the clock has happened.
    #[inline(always)]
    pub(super) fn arrive_at_event(&mut self) {
        self.ahead = Ahead::default();
    }

    /// Takes the steps back that a host operation, which has just been queued, comes between.
    #[inline(always)]
    pub(super) fn give_way(&mut self, index: u32, shared: &mut Shared) {
        if self.ahead.read || self.ahead.program {
            self.step_back(index, shared);
        }
    }

    #[inline(never)]
    fn step_back(&mut self, index: u32, shared: &mut Shared) {
        let (moment, due) = (shared.moment, shared.events.due(index));
        let Ahead { program, read } = std::mem::take(&mut self.ahead);
        let programmed_at = if read { due - shared.flash.read_ns } else { due };
        let reads_later = read && moment < Moment::of(programmed_at, EventClass::Programmed, index);
        if reads_later {
            self.unpass(shared);
        }
        let channel = &mut shared.channels[self.channel as usize];
        let moved_at = if program { channel.withdraw(index, moment, &mut shared.events) } else { None };
        if let Some(moved_at) = moved_at {
            self.unpass(shared);
            shared.events.set(index, EventClass::Transferred, moved_at);
        } else if reads_later {
            shared.events.set(index, EventClass::Programmed, programmed_at);
        }
    }
}

// Suspension.
impl Array {
    /// Suspends the program or erase under way if a host read waits and the options allow it.
    #[inline(always)]
    pub(super) fn try_suspend<const PLAIN: bool>(&mut self, index: u32, shared: &mut Shared) {
        if PLAIN {
            return;
        }
        if let Some(suspend) = shared.options.suspend {
            self.try_suspend_up_to(index, suspend.max_per_op, shared);
        }
    }

    fn try_suspend_up_to(&mut self, index: u32, max_per_op: u32, shared: &mut Shared) {
        if !self.may_suspend(max_per_op, shared) {
            return;
        }
        // A suspension at the very instant of the start is due at the end of the transfer, no sooner: until then
        // further reads may join the group that interrupts.
        if shared.now() <= self.phase_start {
            shared.events.set(index, EventClass::Transferred, self.phase_start);
        } else {
            self.suspend(index, shared);
        }
    }

    /// The array phase begins while host reads wait.
    pub(super) fn phase_started(&mut self, index: u32, shared: &mut Shared) {
        let max_per_op = shared.options.suspend.map_or(0, |suspend| suspend.max_per_op);
        if self.may_suspend(max_per_op, shared) {
            self.suspend(index, shared);
        } else {
            shared.events.set(index, self.end_of_phase(), self.phase_end);
        }
    }

    /// What the array phase of the program or erase that runs ends as.
    fn end_of_phase(&self) -> EventClass {
        if self.running.kind == OpKind::Erase { EventClass::Erased } else { EventClass::Programmed }
    }

    /// Whether what runs gives way to host reads. Before its array phase it does not: the grant of the channel comes
    /// back to this.
    fn may_suspend(&self, max_per_op: u32, shared: &Shared) -> bool {
        self.in_phase()
            && self.phase_end != shared.now()
            && !self.queues[READS as usize].is_empty()
            && self.suspensions < max_per_op
            && !self.must_finish
            && !self.is_holding_reads()
    }

    /// A program or erase has all its data: its array phase has begun, or begins at a known time.
    pub(super) fn in_phase(&self) -> bool {
        let running = self.running;
        running.exists() && running.kind != OpKind::Read && running.cursor == running.count
    }

    /// Sets the running group aside for the host reads that wait.
    fn suspend(&mut self, index: u32, shared: &mut Shared) {
        self.remaining_ns = self.phase_end - shared.now();
        self.suspensions += 1;
        self.suspended = std::mem::replace(&mut self.running, Group::NONE);
        let count = if shared.options.multi_plane { group_size(&self.queues[READS as usize]) } else { 1 };
        self.run(READS, count);
        shared.events.set(index, EventClass::ReadSensed, shared.now() + shared.flash.read_ns);
    }

    fn resume(&mut self, index: u32, shared: &mut Shared) {
        self.running = std::mem::replace(&mut self.suspended, Group::NONE);
        self.read_was_last = false;
        let overhead = shared.options.suspend.map_or(0, |suspend| suspend.overhead_ns);
        let class = self.end_of_phase();
        self.start_phase::<false>(
            index,
            class,
            shared.now(),
            self.remaining_ns + overhead,
            &mut shared.events,
        );
    }
}

/// Length of the multi-plane group at the front of a queue: neighbours of one kind on different planes.
fn group_size(queue: &OpQueue) -> u8 {
    let kind = queue.front().kind;
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
