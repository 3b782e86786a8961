//! Records when each flash operation ran, on which array and channel, and why: the material of a trace viewer.
//!
//! The event engine is generic over an [`TimingObserver`]. The usual one, [`NoObserver`], has no state and empty
//! functions, so an engine that nobody traces is compiled as if this file did not exist. The price: the engine is
//! compiled twice.
//!
//! A queued operation has no room for an identity ([`super::op_queue`]), so [`OpTracer`] mirrors the queues: for each
//! queue of each array, it stores the numbers of the queued operations, in the same order. An operation that is held
//! back is identified by its slot among the operations that cannot be queued yet.
//!
//! Invariant: the front of a mirrored queue is the front of the queue, because every operation is queued, started and
//! removed in the same step in both.

use std::collections::VecDeque;
use std::fmt::Debug;

use rustc_hash::FxHashMap;

use super::RequestKind;
use crate::operation::{FlashOp, OpKind, expand_copies};
use crate::stats::FlashOpPage;

/// A period of simulated time: start and end, nanoseconds since the start of the run.
type TimeSpanNs = (u64, u64);
/// Identity of a queue: number of its array (die or plane), and index of the queue among those of the array.
type ArrayAndQueueIndex = (u32, u8);

/// Observer that the event engine calls at each step of each flash operation.
pub(super) trait TimingObserver: Clone + Debug {
    /// Whether the observer records the steps of flash operations (queued, started, ended and others). If false, all
    /// its functions do nothing.
    const RECORDS_OP_STEPS: bool;

    /// Creates the observer of an event engine that has `arrays` arrays (dies or planes).
    fn for_arrays(arrays: usize) -> Self;
    /// Called when a list of flash operations is submitted at time `now_ns`: by the host request with this number, or
    /// in the background if `request` is `None`.
    fn on_ops_submitted(&mut self, _request: Option<u64>, _now_ns: u64, _ops: &[FlashOp]) {}
    /// Called when the engine takes the next flash operation from the submitted list. It will then queue the operation
    /// or hold it back.
    fn on_op_admitted(&mut self, _op: &FlashOp) {}
    /// Called when the operation that was taken last from the submitted list is appended to a queue. The new queue
    /// entry has `count` operations.
    fn on_op_queued(&mut self, _queue: ArrayAndQueueIndex, _count: u32) {}
    /// Called when a flash operation that was held back is inserted into a queue, after `ops_before` other operations.
    /// The new queue entry has `count` operations.
    fn on_op_inserted(&mut self, _queue: ArrayAndQueueIndex, _count: u32, _ops_before: u32) {}
    /// Called when the operation that was taken last from the submitted list is held back, because it waits for another
    /// operation. It is stored in slot `unqueued_op_slot` of the waiting operations.
    fn on_op_held(&mut self, _unqueued_op_slot: u32) {}
    /// Called when a held-back operation need not wait any more, before it joins the queue of its array.
    /// `unqueued_op_slot` is the slot in which it was stored.
    fn on_held_op_released(&mut self, _unqueued_op_slot: u32) {}
    /// Called when the first `count` flash operations of an array's queue start (an array is a die, or a plane that
    /// works independently).
    fn on_ops_started(&mut self, _queue: ArrayAndQueueIndex, _count: u8, _now_ns: u64) {}
    /// Called when a flash operation of a queue is given the channel for a period. `member` is the operation's position
    /// after the front of the queue.
    fn on_op_given_channel(&mut self, _queue: ArrayAndQueueIndex, _member: u8, _span: TimeSpanNs) {}
    /// Called when a program or erase is suspended for host reads. Its operations (several in a multi-plane group) are
    /// the first `count` of the array's queue.
    fn on_ops_suspended(&mut self, _queue: ArrayAndQueueIndex, _count: u8, _now_ns: u64) {}
    /// Called when a suspended program or erase is resumed. Its operations (several in a multi-plane group) are the
    /// first `count` of the array's queue.
    fn on_ops_resumed(&mut self, _queue: ArrayAndQueueIndex, _count: u8, _now_ns: u64) {}
    /// Called when the first flash operation of an array's queue ends and leaves the queue.
    fn on_op_ended(&mut self, _queue: ArrayAndQueueIndex, _now_ns: u64) {}
    /// Called when a scan of NVRAM occupies the NVRAM for a period.
    fn on_nvram_scanned(&mut self, _span: TimeSpanNs) {}
    /// Called when a host request is answered. The period begins with its arrival and ends with the answer.
    fn on_request_completed(&mut self, _number: u64, _kind: RequestKind, _span: TimeSpanNs) {}
}

/// Observer of the event engine that records nothing and costs nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoObserver;

impl TimingObserver for NoObserver {
    const RECORDS_OP_STEPS: bool = false;

    fn for_arrays(_: usize) -> Self {
        Self
    }
}

/// One flash operation that has ended, with its times in nanoseconds since the start of the run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TracedOp {
    /// Number of the flash operation: 0, 1, 2, .. in order of submission. Each copy of a batch counts as two.
    pub op_number: u64,
    /// The operation: a read, program or erase, its plane and its cause.
    pub op: FlashOp,
    /// Page or block on which the flash operation was executed; absent unless the driver has supplied it
    /// ([`TimingEngine::set_pages_of_next_ops`](super::TimingEngine::set_pages_of_next_ops)).
    pub page: Option<FlashOpPage>,
    /// Number of the host request that caused the flash operation, whether or not the request waits for it; absent for
    /// work that the device started on its own.
    pub request_number: Option<u64>,
    /// Time at which the flash operation was submitted, nanoseconds since the start of the run.
    pub submitted_ns: u64,
    /// Time from which the flash operation occupied its array (die or plane), nanoseconds since the start of the run.
    pub start_ns: u64,
    /// Time at which the flash operation ended, nanoseconds since the start of the run. The operations of a multi-plane
    /// read end one after the other.
    pub end_ns: u64,
    /// Start and end of the flash operation's transfer on the channel, nanoseconds since the start of the run; absent
    /// for an erase.
    pub transfer_span_ns: Option<(u64, u64)>,
    /// Start and end of each period in which the program or erase was suspended for host reads, nanoseconds since the
    /// start of the run.
    pub suspension_spans_ns: Vec<(u64, u64)>,
}

/// One host request that was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TracedRequest {
    /// Number of the request, as returned by [`TimingEngine::submit`](super::TimingEngine::submit).
    pub request_number: u64,
    /// Kind of the request.
    pub kind: RequestKind,
    /// Time at which the request arrived, nanoseconds since the start of the run.
    pub arrival_ns: u64,
    /// Time at which the request was answered, nanoseconds since the start of the run.
    pub completed_at_ns: u64,
}

/// Flash operations, host requests and NVRAM scans that ended since the trace was last taken.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TimingTrace {
    /// Flash operations that ended, in the order in which they ended.
    pub ops: Vec<TracedOp>,
    /// Host requests that were answered, in the order of their answers.
    pub requests: Vec<TracedRequest>,
    /// Start and end of each scan of NVRAM that was booked, nanoseconds since the start of the run.
    pub nvram_scan_spans_ns: Vec<(u64, u64)>,
}

/// Observer of the event engine that records every flash operation.
#[derive(Clone, Debug)]
pub(super) struct OpTracer {
    /// Flash operations that have not ended, by operation number.
    unfinished_ops: FxHashMap<u64, TracedOp>,
    /// Numbers of the flash operations in each of the three queues of each array (die or plane).
    queued_op_numbers: Vec<[VecDeque<u64>; 3]>,
    /// Numbers of the flash operations that are held back, by their slot in the slab of waiting operations.
    held_op_numbers: FxHashMap<u32, u64>,
    /// Number of the flash operation that is being admitted or released.
    current_op_number: u64,
    /// Number of the flash operation that will be admitted next.
    next_op_number: u64,
    /// Number of flash operations submitted so far.
    submitted_op_count: u64,
    /// Flash pages of the operations that are submitted next, in the order of these operations; empty if the driver
    /// gave none.
    pages_of_next_ops: Vec<FlashOpPage>,
    /// Operations, requests and scans that ended since the trace was last taken.
    finished_trace: TimingTrace,
}

impl OpTracer {
    /// Sets the pages on which the operations that are submitted next are executed, in their order.
    pub(super) fn set_pages_of_next_ops(&mut self, places: &[FlashOpPage]) {
        places.clone_into(&mut self.pages_of_next_ops);
    }

    /// Returns the flash operations, host requests and NVRAM scans that ended since the last call.
    pub(super) fn take_trace(&mut self) -> TimingTrace {
        std::mem::take(&mut self.finished_trace)
    }

    /// Calls `change` for each of the first `count` operations of a queue.
    fn for_each_front_op(
        &mut self,
        (array, queue): ArrayAndQueueIndex,
        count: u8,
        change: impl Fn(&mut TracedOp),
    ) {
        for number in self.queued_op_numbers[array as usize][queue as usize].iter().take(usize::from(count)) {
            change(self.unfinished_ops.get_mut(number).expect("a queued operation has not ended"));
        }
    }
}

impl TimingObserver for OpTracer {
    const RECORDS_OP_STEPS: bool = true;

    fn for_arrays(arrays: usize) -> Self {
        Self {
            unfinished_ops: FxHashMap::default(),
            queued_op_numbers: vec![Default::default(); arrays],
            held_op_numbers: FxHashMap::default(),
            current_op_number: 0,
            next_op_number: 0,
            submitted_op_count: 0,
            pages_of_next_ops: Vec::new(),
            finished_trace: TimingTrace::default(),
        }
    }

    fn on_ops_submitted(&mut self, request_number: Option<u64>, start_ns: u64, ops: &[FlashOp]) {
        (self.current_op_number, self.next_op_number) = (self.submitted_op_count, self.submitted_op_count);
        let mut places = std::mem::take(&mut self.pages_of_next_ops).into_iter();
        for op in expand_copies(ops).into_iter().filter(|op| op.kind != OpKind::NvramScan) {
            let traced = TracedOp {
                op_number: self.submitted_op_count,
                op,
                page: places.next(),
                request_number,
                submitted_ns: start_ns,
                start_ns,
                end_ns: start_ns,
                transfer_span_ns: None,
                suspension_spans_ns: Vec::new(),
            };
            self.unfinished_ops.insert(self.submitted_op_count, traced);
            self.submitted_op_count += 1;
        }
    }

    fn on_op_admitted(&mut self, op: &FlashOp) {
        self.current_op_number = self.next_op_number;
        self.next_op_number += op.flash_operation_count();
    }

    fn on_op_queued(&mut self, (array, queue): ArrayAndQueueIndex, count: u32) {
        let numbers = self.current_op_number..self.current_op_number + u64::from(count);
        self.queued_op_numbers[array as usize][queue as usize].extend(numbers);
    }

    fn on_op_inserted(&mut self, (array, queue): ArrayAndQueueIndex, count: u32, ops_before: u32) {
        let numbers = &mut self.queued_op_numbers[array as usize][queue as usize];
        for offset in 0..count {
            numbers.insert((ops_before + offset) as usize, self.current_op_number + u64::from(offset));
        }
    }

    fn on_op_held(&mut self, unqueued_op_slot: u32) {
        self.held_op_numbers.insert(unqueued_op_slot, self.current_op_number);
    }

    fn on_held_op_released(&mut self, unqueued_op_slot: u32) {
        self.current_op_number =
            self.held_op_numbers.remove(&unqueued_op_slot).expect("what is released was held");
    }

    fn on_ops_started(&mut self, queue: ArrayAndQueueIndex, count: u8, now: u64) {
        self.for_each_front_op(queue, count, |op| op.start_ns = now);
    }

    fn on_op_given_channel(&mut self, (array, queue): ArrayAndQueueIndex, member: u8, span: TimeSpanNs) {
        let number = self.queued_op_numbers[array as usize][queue as usize][usize::from(member)];
        let op = self.unfinished_ops.get_mut(&number).expect("a queued operation has not ended");
        op.transfer_span_ns = Some(span);
    }

    fn on_ops_suspended(&mut self, queue: ArrayAndQueueIndex, count: u8, now: u64) {
        self.for_each_front_op(queue, count, |op| op.suspension_spans_ns.push((now, now)));
    }

    fn on_ops_resumed(&mut self, queue: ArrayAndQueueIndex, count: u8, now: u64) {
        self.for_each_front_op(queue, count, |op| {
            op.suspension_spans_ns.last_mut().expect("only a suspended operation is resumed").1 = now;
        });
    }

    fn on_op_ended(&mut self, (array, queue): ArrayAndQueueIndex, now: u64) {
        let number = self.queued_op_numbers[array as usize][queue as usize].pop_front();
        let op = number.and_then(|number| self.unfinished_ops.remove(&number));
        let op = op.expect("an operation ends once, at the front of its queue");
        self.finished_trace.ops.push(TracedOp { end_ns: now, ..op });
    }

    fn on_nvram_scanned(&mut self, span: TimeSpanNs) {
        self.finished_trace.nvram_scan_spans_ns.push(span);
    }

    fn on_request_completed(
        &mut self,
        number: u64,
        kind: RequestKind,
        (arrival_ns, completed_at_ns): TimeSpanNs,
    ) {
        self.finished_trace.requests.push(TracedRequest {
            request_number: number,
            kind,
            arrival_ns,
            completed_at_ns,
        });
    }
}
