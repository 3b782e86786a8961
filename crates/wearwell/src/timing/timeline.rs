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
        let FlashTiming { read_ns, program_ns, erase_ns, .. } = self.flash;
        let transfer = self.flash.transfer_ns(op.bytes);
        let (array, channel) = self.lanes_of(op);
        let start = array.free_at.max(ready);
        let end = match op.kind {
            OpKind::Read => channel.book(start + read_ns, transfer) + transfer,
            OpKind::Program => channel.book(start, transfer) + transfer + program_ns,
            OpKind::Erase => start + erase_ns,
        };
        array.hold(start, end);
        end
    }

    #[inline]
    fn lanes_of(&mut self, op: &FlashOp) -> (&mut Lane, &mut Lane) {
        let array = self.layout.planes[op.plane.index()].array as usize;
        let channel = self.layout.channel_of_array[array] as usize;
        (&mut self.arrays[array], &mut self.channels[channel])
    }

    /// Books copies that follow one another on an array whose channel's bookings all end before its own: none of
    /// them waits for anything. Returns what one takes. The copy before them is booked singly.
    fn book_more_copies(&mut self, read: &FlashOp, count: u64) -> CopyTimes {
        let FlashTiming { read_ns, program_ns, .. } = self.flash;
        let transfer = self.flash.transfer_ns(read.bytes);
        let times = CopyTimes { read: read_ns + transfer, copy: read_ns + transfer + transfer + program_ns };
        let (array, channel) = self.lanes_of(read);
        debug_assert_eq!(channel.free_at + program_ns, array.free_at, "a program was booked last");
        array.free_at += count * times.copy;
        array.busy_ns += count * times.copy;
        channel.free_at += count * times.copy;
        channel.busy_ns += count * 2 * transfer;
        times
    }
}

/// When the read and the program of an undisturbed copy end, from its start.
struct CopyTimes {
    read: u64,
    copy: u64,
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

    pub(super) fn submit(
        &mut self,
        kind: RequestKind,
        arrival_ns: u64,
        overhead_ns: u64,
        ops: &[FlashOp],
    ) -> u64 {
        let number = self.ledger.number();
        self.advance(arrival_ns);
        let end = self.book_all(ops) + self.controller_overhead_ns + overhead_ns;
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
    #[inline]
    fn book_all(&mut self, ops: &[FlashOp]) -> u64 {
        self.completed_ops += ops.len() as u64;
        if let [op] = ops
            && op.after == 0
        {
            let end = self.lanes.book(op, self.now);
            return if op.is_background() { self.now } else { end };
        }
        self.book_list(ops)
    }

    fn book_list(&mut self, ops: &[FlashOp]) -> u64 {
        self.ends.clear();
        let (mut host_end, mut gc_end) = (self.now, self.now);
        while self.ends.len() < ops.len() {
            let rest = &ops[self.ends.len()..];
            let copies = self.lanes.layout.copies_at_front(rest, false);
            if copies > 0 {
                gc_end = gc_end.max(self.book_copies(&rest[..2 * copies]));
                continue;
            }
            let op = &rest[0];
            let ready = match op.after as usize {
                0 => self.now,
                back => self.ends[self.ends.len() - back],
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
            self.ends.push(end);
        }
        host_end
    }

    /// Books copies that are alike in everything and returns the end of the last.
    fn book_copies(&mut self, ops: &[FlashOp]) -> u64 {
        let read_end = self.lanes.book(&ops[0], self.now);
        let mut end = self.lanes.book(&ops[1], read_end);
        self.ends.extend([read_end, end]);
        let more = ops.len() / 2 - 1;
        let times = self.lanes.book_more_copies(&ops[0], more as u64);
        for _ in 0..more {
            self.ends.extend([end + times.read, end + times.copy]);
            end += times.copy;
        }
        end
    }

    pub(super) fn complete_one(&mut self) -> Option<u64> {
        let Reverse(end) = self.unfinished.pop()?;
        self.now = self.now.max(end);
        Some(end)
    }

    pub(super) fn complete_until(&mut self, to: u64) -> bool {
        while self.unfinished.peek().is_some_and(|end| end.0 <= to) {
            self.complete_one();
        }
        self.unfinished.is_empty()
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
