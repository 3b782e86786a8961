//! Resource timelines: one next-free time per array and per channel, booked in order of submission.
//!
//! Nearly free, because nothing is ever queued: an operation starts when its array and its channel are next
//! free, and books them. The price is exactness. A booking is never moved, so there are no priorities, and a
//! transfer booked for the far future (behind a block's worth of GC) keeps the channel from everybody who
//! arrives later, although it is idle until then. **Do not report latencies under GC from this engine**: medians
//! come out orders of magnitude too high. Use it for throughput and for light load without GC.
//!
//! It agrees with the event engine exactly where bookings are in order of time: FIFO service on one die.

use super::latency::Ledger;
use super::{FlashOp, FlashTiming, Layout, OpKind, RequestKind, TimingOptions};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A resource that serves bookings in order.
#[derive(Clone, Copy, Default, Debug)]
struct Lane {
    free_at: u64,
    busy_ns: u64,
}

impl Lane {
    /// Books `ns` from `ready` or the next free time on, whichever is later; returns the start.
    #[inline]
    fn book(&mut self, ready: u64, ns: u64) -> u64 {
        let start = self.free_at.max(ready);
        self.free_at = start + ns;
        self.busy_ns += ns;
        start
    }

    /// Keeps the lane busy until `end`.
    #[inline]
    fn hold(&mut self, start: u64, end: u64) {
        self.free_at = end;
        self.busy_ns += end - start;
    }
}

/// All lanes of a device.
#[derive(Clone, Debug)]
struct Lanes {
    layout: Layout,
    flash: FlashTiming,
    arrays: Vec<Lane>,
    channels: Vec<Lane>,
}

impl Lanes {
    /// Books one operation and returns its end.
    #[inline]
    fn book(&mut self, op: &FlashOp, ready: u64) -> u64 {
        let array_index = self.layout.planes[op.plane.index()].array as usize;
        let array = &mut self.arrays[array_index];
        let channel = &mut self.channels[self.layout.channel_of_array[array_index] as usize];
        let start = array.free_at.max(ready);
        let transfer = self.flash.transfer_ns(op.bytes);
        let end = match op.kind {
            OpKind::Read => channel.book(start + self.flash.read_ns, transfer) + transfer,
            OpKind::Program => channel.book(start, transfer) + transfer + self.flash.program_ns,
            OpKind::Erase => start + self.flash.erase_ns,
        };
        array.hold(start, end);
        end
    }
}

#[derive(Clone, Debug)]
pub(super) struct TimelineEngine {
    lanes: Lanes,
    blocking_gc: bool,
    controller_overhead_ns: u64,
    /// End of each operation of the list at hand.
    ends: Vec<u64>,
    /// Completion times of requests that lie in the future.
    unfinished: BinaryHeap<Reverse<u64>>,
    ledger: Ledger,
    completed_ops: u64,
    now: u64,
}

impl TimelineEngine {
    pub(super) fn new(layout: Layout, flash: FlashTiming, options: &TimingOptions) -> Self {
        Self {
            lanes: Lanes {
                arrays: vec![Lane::default(); layout.arrays()],
                channels: vec![Lane::default(); layout.channels],
                layout,
                flash,
            },
            blocking_gc: options.blocking_gc,
            controller_overhead_ns: options.controller_overhead_ns,
            ends: Vec::new(),
            unfinished: BinaryHeap::new(),
            ledger: Ledger::new(options.keep_completions),
            completed_ops: 0,
            now: 0,
        }
    }

    pub(super) fn submit(&mut self, kind: RequestKind, arrival_ns: u64, ops: &[FlashOp]) -> u64 {
        let number = self.ledger.number();
        self.advance(arrival_ns);
        let end = self.book_all(ops) + self.controller_overhead_ns;
        self.ledger.complete(kind, number, arrival_ns, end);
        if end > self.now {
            self.unfinished.push(Reverse(end));
        }
        number
    }

    pub(super) fn submit_background(&mut self, arrival_ns: u64, ops: &[FlashOp]) {
        self.advance(arrival_ns);
        self.book_all(ops);
    }

    fn advance(&mut self, to: u64) {
        self.now = self.now.max(to);
        while self.unfinished.peek().is_some_and(|end| end.0 <= self.now) {
            self.unfinished.pop();
        }
    }

    /// Books a list and returns the time at which the host has what it waits for.
    fn book_all(&mut self, ops: &[FlashOp]) -> u64 {
        self.completed_ops += ops.len() as u64;
        self.ends.clear();
        self.ends.resize(ops.len(), 0);
        let (mut host_end, mut gc_end) = (self.now, self.now);
        for (index, op) in ops.iter().enumerate() {
            let ready = match op.after as usize {
                0 => self.now,
                back => self.ends[index - back],
            };
            let end = if op.is_background() {
                let end = self.lanes.book(op, ready);
                gc_end = gc_end.max(end);
                end
            } else {
                let end = self.lanes.book(op, if self.blocking_gc { ready.max(gc_end) } else { ready });
                host_end = host_end.max(end);
                end
            };
            self.ends[index] = end;
        }
        host_end
    }

    pub(super) fn complete_one(&mut self) -> Option<u64> {
        let Reverse(end) = self.unfinished.pop()?;
        self.now = self.now.max(end);
        Some(end)
    }

    pub(super) fn drain(&mut self) -> u64 {
        self.unfinished.clear();
        let lanes = self.lanes.arrays.iter().chain(&self.lanes.channels);
        self.now = lanes.map(|lane| lane.free_at).fold(self.now, u64::max);
        self.now
    }

    pub(super) fn outstanding(&self) -> usize {
        self.unfinished.len()
    }

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

    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(super) fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }
}
