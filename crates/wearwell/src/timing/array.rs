//! One flash array (a die, or a plane if planes are independent) of the event engine: what it executes next, and how it
//! uses its channel.
//!
//! The service rules are those of [`super::event`]; this file implements the part that concerns a single array. An
//! array does not see requests or other arrays, only what all arrays share ([`SharedEngineState`]). So each decision
//! can be read on its own, and the compiler keeps the state of one array in registers.
//!
//! Functions with the constant parameter `PLAIN` are compiled twice. With `PLAIN`, they are for the common device,
//! whose operations run one by one to their end (neither suspension nor multi-plane groups), and omit what only other
//! devices need. A plain array also executes operations ahead of the simulated time ([`SpeculativeCopySteps`]). Within
//! a series of copies, the next operation is known as long as no host operation arrives. If so much background work is
//! queued that it goes first in any case, an arrival does not change the next operation either.

#![expect(clippy::inline_always, reason = "measured: 25 % more operations per second than with plain hints")]

use super::background_share::BackgroundPacing;
use super::channel::{Channel, EventPosition};
use super::event_queue::{EventClass, EventQueue};
use super::op_queue::{OpEffectOnRequest, OpQueue, QueuedOp};
use super::trace::TimingObserver;
use super::{FlashTiming, TimingOptions};
use crate::operation::OpKind;

/// Index, among the queues of an array (die or plane), of the queue of host reads with priority.
pub(super) const PRIORITY_READ_QUEUE_INDEX: u8 = 0;
/// Index, among the queues of an array (die or plane), of the queue of host writes. Host reads without priority, and
/// background work that does not yield to host work, are in this queue too.
pub(super) const ORDINARY_QUEUE_INDEX: u8 = 1;
/// Index, among the queues of an array (die or plane), of the queue of background work that yields to host work.
pub(super) const YIELDING_BACKGROUND_QUEUE_INDEX: u8 = 2;

/// Value of the start time `DieOrPlaneState::busy_since_ns` that marks an array (die or plane) as idle.
pub(super) const NOT_BUSY: u64 = u64::MAX;

/// Operations that an array (die or plane) executes together: the first `op_count` entries of one of its queues. There
/// is more than one only in a multi-plane group.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConcurrentOps {
    /// Kind of all operations of the group: read, program or erase.
    pub(super) kind: OpKind,
    /// Index, among the queues of the array, of the queue that has the operations at its front.
    pub(super) queue_index: u8,
    /// Number of operations in the multi-plane group that the array executes; 0 means that the array executes none.
    pub(super) op_count: u8,
    /// Index, in the multi-plane group, of the operation that transfers data or waits for the channel. Equals
    /// `op_count` during the array phase (tPROG or tBERS).
    pub(super) transferring_op_index: u8,
    /// Time on the channel of operation number `transferring_op_index` of the group, nanoseconds.
    pub(super) transfer_ns: u32,
}

impl ConcurrentOps {
    /// The group without operations, of an array (die or plane) that executes none.
    const NONE: Self = Self {
        kind: OpKind::Read,
        queue_index: ORDINARY_QUEUE_INDEX,
        op_count: 0,
        transferring_op_index: 0,
        transfer_ns: 0,
    };

    /// Whether the group has operations, that is, whether the array executes any.
    #[inline(always)]
    pub(super) fn has_ops(self) -> bool {
        self.op_count > 0
    }
}

/// Which steps of a series of copies (alternate reads and programs) the array has executed before the simulated time
/// reached them. If a host operation arrives that must be served before a step, the step is undone.
#[derive(Clone, Copy, Debug, Default)]
struct SpeculativeCopySteps {
    /// Whether the array has gone on from the read of a copy to its program before the simulated time reached the
    /// program.
    has_started_program_speculatively: bool,
    /// Whether the array has gone on from the program of a copy to the read of the next copy before the simulated time
    /// reached this read.
    has_started_read_speculatively: bool,
}

/// State of one flash array: a die, or a plane if planes are independent.
#[derive(Clone, Debug)]
pub(super) struct DieOrPlaneState {
    /// Operations that the array (die or plane) executes now; empty while it executes none.
    pub(super) running_group: ConcurrentOps,
    /// Program or erase of the array (die or plane) that is suspended for host reads; empty if none is.
    pub(super) suspended_group: ConcurrentOps,
    /// Queues of the array: host reads with priority, host writes, and background work that yields to host work.
    pub(super) queues: [OpQueue; 3],
    /// Steps of a series of copies that the array has executed before the simulated time reached them.
    speculative_copy_steps: SpeculativeCopySteps,
    /// Maximum number of queued background operations; if more are queued, the array (die or plane) serves them before
    /// host writes. 0 while a scan of NVRAM waits for this array.
    max_backlog_ops: u32,
    /// Counts that determine how much background work the array serves before each host write.
    background_pacing: BackgroundPacing,
    /// Whether background operations beyond the backlog bound are served before all host reads instead of alternating
    /// with them ([`TimingOptions::background_delays_reads`]).
    may_delay_reads: bool,
    /// Whether the operation that the array last started or resumed was a host read with priority.
    last_op_was_priority_read: bool,
    /// Number of the channel to which the array is connected.
    pub(super) channel_index: u32,
    /// Number of times that the running or suspended program or erase has been suspended so far.
    pub(super) suspension_count: u32,
    /// Whether the running operation must not be suspended for host reads, because the backlog of background work was
    /// too large when it started.
    pub(super) must_not_suspend: bool,
    /// Start of the array phase (tPROG or tBERS) of the running program or erase, nanoseconds.
    pub(super) array_phase_start_ns: u64,
    /// End of the array phase (tPROG or tBERS) of the running program or erase, nanoseconds.
    pub(super) array_phase_end_ns: u64,
    /// Array time (tPROG or tBERS) that the suspended program or erase still needs, nanoseconds.
    pub(super) suspended_remaining_ns: u64,
    /// Start of the present busy period, nanoseconds; [`NOT_BUSY`] while the array is idle.
    pub(super) busy_since_ns: u64,
    /// Total duration of the busy periods that have ended, nanoseconds.
    pub(super) busy_ns: u64,
}

impl DieOrPlaneState {
    /// Creates the state of an idle array on channel `channel_index`.
    pub(super) fn new(channel_index: u32, options: &TimingOptions) -> Self {
        Self {
            running_group: ConcurrentOps::NONE,
            suspended_group: ConcurrentOps::NONE,
            queues: std::array::from_fn(|_| OpQueue::new()),
            speculative_copy_steps: SpeculativeCopySteps::default(),
            max_backlog_ops: options.max_background_backlog_ops,
            background_pacing: BackgroundPacing::new(options.free_blocks),
            may_delay_reads: options.background_delays_reads,
            last_op_was_priority_read: false,
            channel_index,
            suspension_count: 0,
            must_not_suspend: false,
            array_phase_start_ns: 0,
            array_phase_end_ns: 0,
            suspended_remaining_ns: 0,
            busy_since_ns: NOT_BUSY,
            busy_ns: 0,
        }
    }

    /// Returns the number of background operations queued on the array that have not started, and how many of them are
    /// erases.
    #[inline(always)]
    fn queued_background_ops_and_erases(&self) -> (u32, u32) {
        let at_work = |group: ConcurrentOps| {
            if group.queue_index == YIELDING_BACKGROUND_QUEUE_INDEX { u32::from(group.op_count) } else { 0 }
        };
        let erases_of = |group: ConcurrentOps| if group.kind == OpKind::Erase { at_work(group) } else { 0 };
        let background = &self.queues[YIELDING_BACKGROUND_QUEUE_INDEX as usize];
        let ops = background.op_count() - at_work(self.running_group) - at_work(self.suspended_group);
        (
            ops,
            background.queued_erase_count() - erases_of(self.running_group) - erases_of(self.suspended_group),
        )
    }

    /// Counts an operation that the FTL has just issued and that will join a queue of the array (die or plane) at once.
    #[inline(always)]
    pub(super) fn count_issued_op(&mut self, op: &QueuedOp, queue: u8) {
        if queue == YIELDING_BACKGROUND_QUEUE_INDEX {
            self.background_pacing.count_issued_background_op(op);
        }
    }

    /// Counts an operation that the FTL has just issued but that cannot be queued yet.
    pub(super) fn count_issued_op_not_queued_yet(&mut self, op: &QueuedOp, queue: u8) {
        if queue == YIELDING_BACKGROUND_QUEUE_INDEX {
            self.background_pacing.count_issued_background_op_not_queued_yet(op);
        }
    }

    /// Counts an operation that could not be queued when the FTL issued it, and now joins its queue.
    pub(super) fn count_op_released_to_queue(&mut self, op: &QueuedOp, queue: u8) {
        if queue == YIELDING_BACKGROUND_QUEUE_INDEX {
            self.background_pacing.count_release_to_queue(op);
        }
    }

    /// Appends an operation to a queue of the array (die or plane); returns its position in the queue.
    #[inline(always)]
    pub(super) fn push_op(&mut self, op: QueuedOp, queue: u8) -> u32 {
        let fifo = &mut self.queues[queue as usize];
        let index = fifo.len();
        fifo.push(op);
        index
    }

    /// Adds an operation, which could not be queued when the FTL issued it, to a queue of the array (die or plane);
    /// returns its position in the queue. Background work goes before what was issued later, so that the array finishes
    /// one collection after the other. An operation of the host goes to the end.
    pub(super) fn add_released_op(&mut self, op: QueuedOp, queue: u8) -> u32 {
        if op.effect_on_request == OpEffectOnRequest::Awaited {
            return self.push_op(op, queue);
        }
        let entries_of =
            |group: ConcurrentOps| if group.queue_index == queue { u32::from(group.op_count) } else { 0 };
        let running_entries = entries_of(self.running_group) + entries_of(self.suspended_group);
        self.queues[queue as usize].insert_in_issue_order(op, running_entries)
    }

    /// Makes the first `count` operations of a queue the group that the array runs. Schedules no event.
    #[inline(always)]
    fn set_running_group(&mut self, queue_index: u8, count: u8) {
        let &QueuedOp { kind, transfer_ns, .. } = self.queues[queue_index as usize].front();
        self.last_op_was_priority_read = queue_index == PRIORITY_READ_QUEUE_INDEX;
        self.running_group =
            ConcurrentOps { kind, queue_index, op_count: count, transferring_op_index: 0, transfer_ns };
    }

    /// Returns the channel time of operation number `member` of the running multi-plane group, nanoseconds. The
    /// operation must still be in its queue.
    fn transfer_ns_of_group_member(&self, member: u8) -> u32 {
        self.queues[self.running_group.queue_index as usize].entry_at(u32::from(member)).transfer_ns
    }

    /// Removes the first operation of the running multi-plane group from its queue and returns it. In a group of reads,
    /// the next read then uses the channel, because pages are transferred one after the other. A `PLAIN` device
    /// (without suspension and multi-plane operations) only has groups of one operation.
    #[inline(always)]
    pub(super) fn pop_op_of_running_group<const PLAIN: bool>(&mut self) -> QueuedOp {
        self.running_group.op_count -= 1;
        let op = self.queues[self.running_group.queue_index as usize].pop();
        if !PLAIN && self.running_group.has_ops() {
            self.running_group.transfer_ns = self.transfer_ns_of_group_member(0);
        }
        op
    }
}

/// State shared by all arrays (dies or planes): clock, events, channels, and the rules by which operations are served.
#[derive(Clone, Debug)]
pub(super) struct SharedEngineState<T> {
    /// Position in the order of simulated events that has been reached: that of the event being handled, or of an
    /// arriving request.
    pub(super) current_event_position: EventPosition,
    /// Pending events of all arrays, channels, answers and scans.
    pub(super) events: EventQueue,
    /// State of each channel, by channel number.
    pub(super) channels: Vec<Channel>,
    /// Number of flash operations completed so far.
    pub(super) completed_ops: u64,
    /// Durations of flash operations and transfers.
    pub(super) flash_timing: FlashTiming,
    /// Options by which operations are scheduled.
    pub(super) options: TimingOptions,
    /// Recorder of single operations, if the engine is traced.
    pub(super) observer: T,
}

impl<T> SharedEngineState<T> {
    /// Returns the simulated time, nanoseconds.
    #[inline(always)]
    pub(super) fn now_ns(&self) -> u64 {
        self.current_event_position.time_ns()
    }
}

// Choice of the next operation.
impl DieOrPlaneState {
    /// Starts the next operation of an array (die or plane) that runs none, or resumes a suspended one. If nothing is
    /// queued, the array becomes idle.
    #[inline(always)]
    pub(super) fn start_next_op<const PLAIN: bool>(
        &mut self,
        index: u32,
        shared: &mut SharedEngineState<impl TimingObserver>,
    ) {
        debug_assert!(!self.running_group.has_ops(), "one operation at a time");
        let behind = self.serves_background_first::<PLAIN>() && !self.is_host_read_next();
        if !PLAIN
            && self.suspended_group.has_ops()
            && (behind || self.queues[PRIORITY_READ_QUEUE_INDEX as usize].is_empty())
        {
            self.must_not_suspend = behind;
            return self.resume(index, shared);
        }
        match self.choose_queue::<PLAIN>(behind) {
            Some(queue) => self.start_group::<PLAIN>(index, queue, behind, shared),
            None => self.become_idle(shared.now_ns()),
        }
    }

    /// Whether the array serves a host read next although background work is urgent. The two then alternate, because
    /// reads need no free block.
    #[inline(always)]
    fn is_host_read_next(&self) -> bool {
        !self.last_op_was_priority_read
            && !self.queues[PRIORITY_READ_QUEUE_INDEX as usize].is_empty()
            && !self.is_delaying_reads()
    }

    /// Whether the array serves background work before host reads at this moment. It does so only with
    /// [`TimingOptions::background_delays_reads`], while more background operations are queued than the bound allows. A
    /// lack of free blocks never delays reads.
    #[inline(always)]
    fn is_delaying_reads(&self) -> bool {
        self.may_delay_reads && self.queued_background_ops_and_erases().0 > self.max_backlog_ops
    }

    /// Whether the array serves background work before host writes, because too much of it is queued, or because there
    /// is no erased page for host writes.
    #[inline(always)]
    fn serves_background_first<const PLAIN: bool>(&self) -> bool {
        let (ops, erases) = self.background_ops_and_erases_when_idle::<PLAIN>();
        ops > self.max_backlog_ops || self.background_pacing.is_background_due_for_free_pages(ops, erases)
    }

    /// Returns the number of queued background operations and the number of erases among them. Must be called only
    /// while no operation runs. With `PLAIN` (device without suspension), no operation can be suspended, so all
    /// operations in the queue count.
    #[inline(always)]
    fn background_ops_and_erases_when_idle<const PLAIN: bool>(&self) -> (u32, u32) {
        let background = &self.queues[YIELDING_BACKGROUND_QUEUE_INDEX as usize];
        if PLAIN {
            (background.op_count(), background.queued_erase_count())
        } else {
            self.queued_background_ops_and_erases()
        }
    }

    /// Returns the index of the queue that the array serves next: reads, then host writes or the background work that
    /// must precede them, then background work; `None` if all are empty. With `background_first`, always that of
    /// background work, which must then not be empty. `PLAIN` means a device without suspension.
    #[inline(always)]
    fn choose_queue<const PLAIN: bool>(&mut self, background_first: bool) -> Option<u8> {
        if background_first {
            return Some(YIELDING_BACKGROUND_QUEUE_INDEX);
        }
        let [reads, writes, background] = &self.queues;
        if !reads.is_empty() {
            Some(PRIORITY_READ_QUEUE_INDEX)
        } else if !writes.is_empty() {
            Some(self.choose_host_write_or_background_queue::<PLAIN>())
        } else if !background.is_empty() {
            Some(YIELDING_BACKGROUND_QUEUE_INDEX)
        } else {
            None
        }
    }

    /// Returns the index of the queue that the array serves next if a host write waits: the queue of host writes, or
    /// that of background work that has to precede the write.
    #[inline(always)]
    fn choose_host_write_or_background_queue<const PLAIN: bool>(&mut self) -> u8 {
        let (ops, erases) = self.background_ops_and_erases_when_idle::<PLAIN>();
        if self.background_pacing.decide_background_before_write(ops, erases) {
            YIELDING_BACKGROUND_QUEUE_INDEX
        } else {
            ORDINARY_QUEUE_INDEX
        }
    }

    /// Ends the busy period of the array at time `now_ns`, because nothing is queued.
    fn become_idle(&mut self, now_ns: u64) {
        if self.busy_since_ns != NOT_BUSY {
            self.busy_ns += now_ns - self.busy_since_ns;
            self.busy_since_ns = NOT_BUSY;
        }
    }

    /// Starts the operation, or multi-plane group, at the front of queue `queue_index` of the array. `background_first`
    /// is whether background work is served before host writes at present.
    #[inline(always)]
    fn start_group<const PLAIN: bool>(
        &mut self,
        index: u32,
        queue_index: u8,
        background_first: bool,
        shared: &mut SharedEngineState<impl TimingObserver>,
    ) {
        let groups = !PLAIN && shared.options.uses_multi_plane_ops;
        let count = if groups { multi_plane_group_op_count(&self.queues[queue_index as usize]) } else { 1 };
        self.set_running_group(queue_index, count);
        let kind = self.running_group.kind;
        if queue_index == YIELDING_BACKGROUND_QUEUE_INDEX {
            let ops = u32::from(count);
            self.background_pacing
                .count_started_background_ops(ops, if kind == OpKind::Program { ops } else { 0 });
        }
        shared.observer.on_ops_started((index, queue_index), count, shared.current_event_position.time_ns());
        self.busy_since_ns = self.busy_since_ns.min(shared.now_ns());
        if kind == OpKind::Read {
            let sensed_at = shared.now_ns() + shared.flash_timing.read_ns;
            return shared.events.set_array_event(index, EventClass::ReadSensed, sensed_at);
        }
        if !PLAIN {
            self.suspension_count = 0;
            self.must_not_suspend = background_first;
        }
        if kind == OpKind::Program {
            if queue_index == ORDINARY_QUEUE_INDEX {
                self.background_pacing.count_host_programs(count.into());
            }
            self.request_channel::<PLAIN>(index, shared);
        } else {
            let (now, erase_ns) = (shared.now_ns(), shared.flash_timing.erase_ns);
            self.background_pacing.record_erase_start();
            self.start_array_phase::<PLAIN>(index, EventClass::Erased, now, erase_ns, &mut shared.events);
        }
    }

    /// Starts the array phase (tPROG or tBERS) of the running program or erase, by scheduling its end.
    #[inline(always)]
    fn start_array_phase<const PLAIN: bool>(
        &mut self,
        index: u32,
        end_event_class: EventClass,
        start: u64,
        duration_ns: u64,
        events: &mut EventQueue,
    ) {
        let end = start + duration_ns;
        if !PLAIN {
            self.running_group.transferring_op_index = self.running_group.op_count;
            self.array_phase_start_ns = start;
            self.array_phase_end_ns = end;
        }
        events.set_array_event(index, end_event_class, end);
    }

    /// Requests the channel for the data transfer of the running operation. The transfer starts at once, is reserved
    /// for a later time, or waits in a queue of the channel.
    #[inline(always)]
    pub(super) fn request_channel<const PLAIN: bool>(
        &mut self,
        index: u32,
        shared: &mut SharedEngineState<impl TimingObserver>,
    ) {
        if PLAIN {
            return self.reserve_channel_for_transfer(index, shared);
        }
        let channel = &shared.channels[self.channel_index as usize];
        if channel.free_at_ns <= shared.now_ns() && !channel.is_contended {
            self.start_transfer(index, shared);
        } else {
            self.wait_for_channel(index, shared);
        }
    }

    /// Adds the array to a queue of its channel, and schedules the event that the channel becomes free if none is
    /// pending.
    fn wait_for_channel(&self, index: u32, shared: &mut SharedEngineState<impl TimingObserver>) {
        let channel = &mut shared.channels[self.channel_index as usize];
        let urgent = self.running_group.queue_index == PRIORITY_READ_QUEUE_INDEX;
        let queue = if urgent { &mut channel.urgent_arrays } else { &mut channel.waiting_arrays };
        queue.push_back(index);
        if !channel.is_contended {
            channel.is_contended = true;
            let free_at = channel.free_at_ns;
            shared.events.set_channel_free_event(self.channel_index, free_at);
        }
    }

    /// Starts the data transfer of the running operation on the channel, and schedules the event that follows it.
    #[inline(always)]
    pub(super) fn start_transfer(&mut self, index: u32, shared: &mut SharedEngineState<impl TimingObserver>) {
        let transfer_ns = u64::from(self.running_group.transfer_ns);
        let end = shared.now_ns() + transfer_ns;
        let channel = &mut shared.channels[self.channel_index as usize];
        channel.busy_ns += transfer_ns;
        channel.free_at_ns = end;
        let ConcurrentOps { queue_index, transferring_op_index: cursor, .. } = self.running_group;
        shared.observer.on_op_given_channel((index, queue_index), cursor, (end - transfer_ns, end));
        if self.running_group.kind == OpKind::Read {
            return shared.events.set_array_event(index, EventClass::Transferred, end);
        }
        if self.running_group.transferring_op_index + 1 < self.running_group.op_count {
            self.running_group.transferring_op_index += 1;
            self.running_group.transfer_ns =
                self.transfer_ns_of_group_member(self.running_group.transferring_op_index);
            return shared.events.set_array_event(index, EventClass::Transferred, end);
        }
        let program_ns = shared.flash_timing.program_ns;
        self.start_array_phase::<false>(index, EventClass::Programmed, end, program_ns, &mut shared.events);
        self.try_suspend::<false>(index, shared);
    }
}

// Transfers of a plain array, whose times are known when they are requested.
impl DieOrPlaneState {
    /// Handles the end of tR of a page read. If the read belongs to a series of copies whose program and next read
    /// follow (unless a host operation arrives), all of them are scheduled at once.
    #[inline(always)]
    pub(super) fn finish_sensing<const PLAIN: bool>(
        &mut self,
        index: u32,
        shared: &mut SharedEngineState<impl TimingObserver>,
    ) {
        if !PLAIN {
            return self.request_channel::<PLAIN>(index, shared);
        }
        self.confirm_speculative_copy_steps();
        if self.next_steps_are_copies(2) {
            self.reserve_channel_for_copy(index, shared);
        } else {
            self.reserve_channel_for_transfer(index, shared);
        }
    }

    /// Reserves the channel for both transfers of a page copy whose page has been sensed (tR ended), and schedules the
    /// end of tR of the next read.
    #[inline(always)]
    fn reserve_channel_for_copy(&mut self, index: u32, shared: &mut SharedEngineState<impl TimingObserver>) {
        let (moment, ns) = (shared.current_event_position, u64::from(self.running_group.transfer_ns));
        let FlashTiming { read_ns, program_ns, .. } = shared.flash_timing;
        let channel = &mut shared.channels[self.channel_index as usize];
        let begins_at =
            channel.book_copy_transfers_returning_second_start_ns(index, ns, moment, &mut shared.events);
        let may_give_way = |steps| !self.may_delay_reads || !self.exceeds_backlog_bound_after_ops(steps);
        self.speculative_copy_steps = SpeculativeCopySteps {
            has_started_program_speculatively: may_give_way(1),
            has_started_read_speculatively: may_give_way(2),
        };
        self.queues[YIELDING_BACKGROUND_QUEUE_INDEX as usize].pop_page_copy();
        self.background_pacing.count_started_background_ops(2, 1);
        shared.completed_ops += 2;
        shared.events.set_array_event(index, EventClass::ReadSensed, begins_at + ns + program_ns + read_ns);
    }

    /// Reserves the channel for the data transfer of the running operation, and schedules the event that follows the
    /// transfer.
    #[inline(always)]
    fn reserve_channel_for_transfer(
        &mut self,
        index: u32,
        shared: &mut SharedEngineState<impl TimingObserver>,
    ) {
        let (moment, ns) = (shared.current_event_position, u64::from(self.running_group.transfer_ns));
        let channel = &mut shared.channels[self.channel_index as usize];
        let urgent = self.running_group.queue_index == PRIORITY_READ_QUEUE_INDEX;
        let begins_at = if urgent {
            channel.book_urgent_transfer_returning_start_ns(
                index,
                ns,
                moment,
                &shared.flash_timing,
                &mut shared.events,
            )
        } else {
            channel.book_transfer_returning_start_ns(index, ns, moment, &mut shared.events)
        };
        let end = begins_at + ns;
        if self.running_group.kind == OpKind::Program {
            self.schedule_program_end(end, index, shared);
        } else {
            shared.events.set_array_event(index, EventClass::Transferred, end);
        }
    }

    /// Schedules the event that follows a program whose transfer ends at `start`: the end of the program or, if a
    /// series of copies continues, directly the end of tR of the next read.
    #[inline(always)]
    fn schedule_program_end(
        &mut self,
        start: u64,
        index: u32,
        shared: &mut SharedEngineState<impl TimingObserver>,
    ) {
        let end = start + shared.flash_timing.program_ns;
        if self.next_steps_are_copies(1) {
            self.speculative_copy_steps.has_started_read_speculatively =
                !self.may_delay_reads || !self.exceeds_backlog_bound_after_ops(1);
            self.start_next_copy_op_speculatively(shared);
            shared.events.set_array_event(index, EventClass::ReadSensed, end + shared.flash_timing.read_ns);
        } else {
            shared.events.set_array_event(index, EventClass::Programmed, end);
        }
    }

    /// Whether the next `steps` operations of the array belong to the series of copies that it executes, unless a host
    /// operation arrives.
    #[inline(always)]
    fn next_steps_are_copies(&self, steps: u32) -> bool {
        let [reads, writes, background] = &self.queues;
        self.running_group.queue_index == YIELDING_BACKGROUND_QUEUE_INDEX
            && background.front().copy_ops_after_first() >= steps
            && if reads.is_empty() {
                writes.is_empty()
                    || self.background_pacing.are_further_steps_due(steps)
                    || self.exceeds_backlog_bound_after_ops(steps)
            } else {
                self.may_delay_reads && self.exceeds_backlog_bound_after_ops(steps)
            }
    }

    /// Whether more background operations than the bound allows are still queued after the array has executed `steps`
    /// of them. If so, the next `steps` operations are background work even if host writes arrive (and, on devices that
    /// delay reads, even if reads arrive). Lack of free blocks is not considered, because arriving copies can end it.
    #[inline(always)]
    fn exceeds_backlog_bound_after_ops(&self, steps: u32) -> bool {
        self.queues[YIELDING_BACKGROUND_QUEUE_INDEX as usize].op_count() - steps > self.max_backlog_ops
    }

    /// Starts the next operation of a series of copies before the simulated time has reached it. No operation or
    /// request waits for the operation that ends.
    #[inline(always)]
    fn start_next_copy_op_speculatively(&mut self, shared: &mut SharedEngineState<impl TimingObserver>) {
        self.queues[YIELDING_BACKGROUND_QUEUE_INDEX as usize].pop();
        shared.completed_ops += 1;
        let kind = self.queues[YIELDING_BACKGROUND_QUEUE_INDEX as usize].front().kind;
        self.background_pacing.count_started_background_ops(1, u32::from(kind == OpKind::Program));
        self.running_group.kind = kind;
    }

    /// Undoes the last [`Self::start_next_copy_op_speculatively`]: returns the array to the previous operation of a
    /// series of copies.
    fn undo_speculative_copy_step(&mut self, shared: &mut SharedEngineState<impl TimingObserver>) {
        self.background_pacing.uncount_started_background_op(self.running_group.kind);
        self.queues[YIELDING_BACKGROUND_QUEUE_INDEX as usize].undo_pop();
        shared.completed_ops -= 1;
        self.running_group.kind = self.queues[YIELDING_BACKGROUND_QUEUE_INDEX as usize].front().kind;
    }

    /// Makes the array serve background work before host writes (and before reads, on a device that delays reads),
    /// because a scan of NVRAM waits for it. On such a device, no arriving host operation can precede the copy steps
    /// that were executed ahead of the simulated time. So these steps need not be undone any more.
    pub(super) fn prioritise_background(&mut self) {
        self.max_backlog_ops = 0;
        if self.may_delay_reads {
            self.speculative_copy_steps = SpeculativeCopySteps::default();
        }
    }

    /// Gives background work its usual priority again after [`DieOrPlaneState::prioritise_background`], because no scan
    /// of NVRAM waits for it any more.
    pub(super) fn restore_background_priority(&mut self, options: &TimingOptions) {
        self.max_backlog_ops = options.max_background_backlog_ops;
    }

    /// Confirms the steps of a series of copies that the array took ahead of the simulated time, because the time has
    /// reached them.
    #[inline(always)]
    pub(super) fn confirm_speculative_copy_steps(&mut self) {
        self.speculative_copy_steps = SpeculativeCopySteps::default();
    }

    /// A host operation has just been queued. Undoes the steps of a series of copies that were executed ahead of the
    /// simulated time and now have to follow this operation.
    #[inline(always)]
    pub(super) fn undo_speculative_copy_steps_after_host_arrival(
        &mut self,
        index: u32,
        shared: &mut SharedEngineState<impl TimingObserver>,
    ) {
        if self.speculative_copy_steps.has_started_read_speculatively
            || self.speculative_copy_steps.has_started_program_speculatively
        {
            self.undo_speculative_copy_steps(index, shared);
        }
    }

    /// Undoes those steps of a series of copies, taken ahead of the simulated time, that have not happened yet at the
    /// present time. Schedules the event that the undone steps replaced.
    #[inline(never)]
    fn undo_speculative_copy_steps(
        &mut self,
        index: u32,
        shared: &mut SharedEngineState<impl TimingObserver>,
    ) {
        let (moment, due) = (shared.current_event_position, shared.events.next_array_event_ns(index));
        let SpeculativeCopySteps {
            has_started_program_speculatively: program,
            has_started_read_speculatively: read,
        } = std::mem::take(&mut self.speculative_copy_steps);
        let programmed_at = if read { due - shared.flash_timing.read_ns } else { due };
        let reads_later =
            read && moment < EventPosition::of_event(programmed_at, EventClass::Programmed, index);
        if reads_later {
            self.undo_speculative_copy_step(shared);
        }
        let channel = &mut shared.channels[self.channel_index as usize];
        let moved_at = if program {
            channel.withdraw_program_transfer_of_copy(index, moment, &mut shared.events)
        } else {
            None
        };
        if let Some(moved_at) = moved_at {
            self.undo_speculative_copy_step(shared);
            shared.events.set_array_event(index, EventClass::Transferred, moved_at);
        } else if reads_later {
            shared.events.set_array_event(index, EventClass::Programmed, programmed_at);
        }
    }
}

// Suspension of programs and erases.
impl DieOrPlaneState {
    /// Suspends the array's running program or erase if a host read waits and the options allow it.
    #[inline(always)]
    pub(super) fn try_suspend<const PLAIN: bool>(
        &mut self,
        index: u32,
        shared: &mut SharedEngineState<impl TimingObserver>,
    ) {
        if PLAIN {
            return;
        }
        if let Some(suspend) = shared.options.suspension {
            self.try_suspend_with_limit(index, suspend.max_suspensions_per_op, shared);
        }
    }

    /// Suspends the array's running program or erase if a host read waits. One operation is suspended at most
    /// `max_suspensions_per_op` times.
    fn try_suspend_with_limit(
        &mut self,
        index: u32,
        max_suspensions_per_op: u32,
        shared: &mut SharedEngineState<impl TimingObserver>,
    ) {
        if !self.may_suspend(max_suspensions_per_op, shared) {
            return;
        }
        // A suspension at the very start of the array phase is executed as an event at the end of the transfer. Until
        // then more reads may join the group that interrupts.
        if shared.now_ns() <= self.array_phase_start_ns {
            shared.events.set_array_event(index, EventClass::Transferred, self.array_phase_start_ns);
        } else {
            self.suspend(index, shared);
        }
    }

    /// Handles the start of an array phase (tPROG or tBERS) while host reads wait: suspends the operation, or schedules
    /// the end of the phase.
    pub(super) fn handle_phase_start(
        &mut self,
        index: u32,
        shared: &mut SharedEngineState<impl TimingObserver>,
    ) {
        let max_suspensions_per_op =
            shared.options.suspension.map_or(0, |suspend| suspend.max_suspensions_per_op);
        if self.may_suspend(max_suspensions_per_op, shared) {
            self.suspend(index, shared);
        } else {
            shared.events.set_array_event(index, self.phase_end_class(), self.array_phase_end_ns);
        }
    }

    /// Returns the class of the event that ends the array phase (tPROG or tBERS) of the running program or erase.
    fn phase_end_class(&self) -> EventClass {
        if self.running_group.kind == OpKind::Erase { EventClass::Erased } else { EventClass::Programmed }
    }

    /// Whether the array's running operation may be suspended now for a waiting host read. Only a program or erase may
    /// be suspended, at most `max_suspensions_per_op` times, and only in its array phase (tPROG or tBERS), not while
    /// its data is transferred.
    fn may_suspend(
        &self,
        max_suspensions_per_op: u32,
        shared: &SharedEngineState<impl TimingObserver>,
    ) -> bool {
        self.is_in_array_phase()
            && self.array_phase_end_ns != shared.now_ns()
            && !self.queues[PRIORITY_READ_QUEUE_INDEX as usize].is_empty()
            && self.suspension_count < max_suspensions_per_op
            && !self.must_not_suspend
            && !self.is_delaying_reads()
    }

    /// Whether the running operation is a program or erase that has all its data. Its array phase (tPROG or tBERS) has
    /// begun, or begins at a known time.
    pub(super) fn is_in_array_phase(&self) -> bool {
        let running = self.running_group;
        running.has_ops() && running.kind != OpKind::Read && running.transferring_op_index == running.op_count
    }

    /// Suspends the running program or erase of the array and starts the waiting host reads.
    fn suspend(&mut self, index: u32, shared: &mut SharedEngineState<impl TimingObserver>) {
        self.suspended_remaining_ns = self.array_phase_end_ns - shared.now_ns();
        self.suspension_count += 1;
        self.suspended_group = std::mem::replace(&mut self.running_group, ConcurrentOps::NONE);
        let count = if shared.options.uses_multi_plane_ops {
            multi_plane_group_op_count(&self.queues[PRIORITY_READ_QUEUE_INDEX as usize])
        } else {
            1
        };
        self.set_running_group(PRIORITY_READ_QUEUE_INDEX, count);
        let ConcurrentOps { queue_index, op_count: suspended, .. } = self.suspended_group;
        shared.observer.on_ops_suspended(
            (index, queue_index),
            suspended,
            shared.current_event_position.time_ns(),
        );
        shared.observer.on_ops_started(
            (index, PRIORITY_READ_QUEUE_INDEX),
            count,
            shared.current_event_position.time_ns(),
        );
        shared.events.set_array_event(
            index,
            EventClass::ReadSensed,
            shared.now_ns() + shared.flash_timing.read_ns,
        );
    }

    /// Resumes the suspended program or erase, for the rest of its array phase (tPROG or tBERS) and the overhead of a
    /// resume.
    fn resume(&mut self, index: u32, shared: &mut SharedEngineState<impl TimingObserver>) {
        self.running_group = std::mem::replace(&mut self.suspended_group, ConcurrentOps::NONE);
        self.last_op_was_priority_read = false;
        let ConcurrentOps { queue_index, op_count: count, .. } = self.running_group;
        shared.observer.on_ops_resumed((index, queue_index), count, shared.current_event_position.time_ns());
        let overhead = shared.options.suspension.map_or(0, |suspend| suspend.resume_overhead_ns);
        let class = self.phase_end_class();
        self.start_array_phase::<false>(
            index,
            class,
            shared.now_ns(),
            self.suspended_remaining_ns + overhead,
            &mut shared.events,
        );
    }
}

/// Returns the size of the multi-plane group at the front of a queue: the number of adjacent operations of one kind on
/// different planes.
fn multi_plane_group_op_count(queue: &OpQueue) -> u8 {
    let kind = queue.front().kind;
    let (mut planes, mut size) = (0_u64, 0);
    while u32::from(size) < queue.len() {
        let op = queue.entry_at(u32::from(size));
        if op.kind != kind || planes & 1 << op.plane_in_die != 0 {
            break;
        }
        planes |= 1 << op.plane_in_die;
        size += 1;
    }
    size
}
