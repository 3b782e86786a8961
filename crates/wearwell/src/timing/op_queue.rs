//! Operations on their way: a ring per queue of an array, and a slab for those that wait for others.
//!
//! A queued operation is an entry of 16 bytes in the ring of its queue and stays at the front while it runs, so
//! that an array walks through memory in order and an operation is written once and read once. A collection's copies
//! within an array are one entry ([`Op::copies`]), whatever their number: the queues of a device that is
//! thousands of copies behind still fit the first-level cache. Only operations that must wait for one elsewhere
//! (read-modify-write, copies between dies) go through the slab. Nothing allocates in the
//! steady state. Memory is bounded by the operations outstanding: in open loop beyond saturation that number
//! grows with the run, as the backlog of the device itself does.

#![expect(clippy::inline_always, reason = "measured: 25 % more operations per second than with plain hints")]

use crate::operation::OpKind;

/// End of a list in the slab.
pub(super) const NONE: u32 = u32::MAX;

/// Instead of the number of a queue: what waits is no operation but a scan.
pub(super) const SCANS: u8 = 3;

/// What a request has to do with an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Role {
    /// Nothing: nobody waits.
    Background,
    /// The request completes only after it.
    Awaited,
    /// The request's own operations start only after it (foreground GC).
    Blocking,
}

/// A flash operation that has not completed, or a series of copies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    /// First of the operations that wait for this one, latest first.
    pub(super) waiters: u32,
    /// Request slot; for [`Role::Background`] the operations that follow in the same entry, by turns programs and
    /// reads.
    pub(super) request_or_more: u32,
    /// Time on the channel; saturates at 4.29 s.
    pub(super) transfer_ns: u32,
    pub(super) kind: OpKind,
    pub(super) role: Role,
    /// Plane within its die, modulo 64.
    pub(super) plane: u8,
}

impl Op {
    const EMPTY: Self = Self {
        waiters: NONE,
        request_or_more: 0,
        transfer_ns: 0,
        kind: OpKind::Erase,
        role: Role::Background,
        plane: 0,
    };

    /// Stands for a scan in a [`Waiter`].
    pub(super) const SCAN: Self = Self::EMPTY;

    /// Background copies of `count` pages within an array: read, program, read, program, ..
    pub(super) fn copies(count: u32, transfer_ns: u32) -> Self {
        Self { request_or_more: 2 * count - 1, transfer_ns, kind: OpKind::Read, ..Self::EMPTY }
    }

    /// True if its end changes nothing but its array.
    #[inline(always)]
    pub(super) fn concerns_nobody(&self) -> bool {
        self.role == Role::Background && self.waiters == NONE
    }

    /// Operations that follow in the same entry.
    #[inline(always)]
    pub(super) fn more(&self) -> u32 {
        if self.role == Role::Background { self.request_or_more } else { 0 }
    }

    /// Moves on to the next operation of a series.
    #[inline(always)]
    fn step(&mut self) {
        self.request_or_more -= 1;
        self.turn();
    }

    #[inline(always)]
    fn turn(&mut self) {
        self.kind = if self.kind == OpKind::Read { OpKind::Program } else { OpKind::Read };
    }
}

/// Operations first in, first out. The front entry is kept apart from the ring of the others: while an array works
/// through a series it touches nothing but its own state.
#[derive(Clone, Debug)]
pub(super) struct OpQueue {
    /// Meaningless if there are no entries.
    front: Op,
    /// Entries, the front included.
    len: u32,
    /// Operations of all entries.
    ops: u32,
    /// Erases among them.
    erases: u32,
    /// Place of the entry behind the front.
    head: u32,
    /// The entries behind the front; its length is a power of two.
    ring: Vec<Op>,
}

impl OpQueue {
    pub(super) fn new() -> Self {
        Self { front: Op::EMPTY, len: 0, ops: 0, erases: 0, head: 0, ring: vec![Op::EMPTY; 8] }
    }

    /// Entries: without series, the same as operations.
    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Operations.
    #[inline(always)]
    pub(super) fn ops(&self) -> u32 {
        self.ops
    }

    /// Erases among the operations.
    #[inline(always)]
    pub(super) fn erases(&self) -> u32 {
        self.erases
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The front entry, which must exist.
    #[inline(always)]
    pub(super) fn front(&self) -> &Op {
        &self.front
    }

    /// Place in the ring of the entry `index` places behind the front.
    #[inline(always)]
    fn place(&self, index: u32) -> usize {
        (self.head + index - 1) as usize & (self.ring.len() - 1)
    }

    /// The entry `index` places behind the front, which must exist.
    pub(super) fn at(&self, index: u32) -> &Op {
        if index == 0 { &self.front } else { &self.ring[self.place(index)] }
    }

    /// Place of the last entry, which must exist, as [`OpQueue::at`] counts.
    pub(super) fn last(&self) -> u32 {
        self.len - 1
    }

    pub(super) fn at_mut(&mut self, index: u32) -> &mut Op {
        if index == 0 {
            return &mut self.front;
        }
        let place = self.place(index);
        &mut self.ring[place]
    }

    #[inline(always)]
    pub(super) fn push(&mut self, op: Op) {
        self.ops += 1 + op.more();
        self.erases += u32::from(op.kind == OpKind::Erase);
        if self.len == 0 {
            self.front = op;
        } else {
            self.push_behind(op);
        }
        self.len += 1;
    }

    #[inline(always)]
    fn push_behind(&mut self, op: Op) {
        if self.len as usize > self.ring.len() {
            self.grow();
        }
        let place = self.place(self.len);
        self.ring[place] = op;
    }

    /// Takes the front operation, which must exist.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Op {
        let mut op = self.front;
        self.ops -= 1;
        if op.more() > 0 {
            // Whoever waits for a series waits for its last operation.
            op.waiters = NONE;
            self.front.step();
        } else {
            self.len -= 1;
            self.erases -= u32::from(op.kind == OpKind::Erase);
            if self.len > 0 {
                self.advance();
            }
        }
        op
    }

    /// Takes a read and its program from the front entry, in which they are not the last.
    #[inline(always)]
    pub(super) fn pop_copy(&mut self) {
        self.ops -= 2;
        self.front.request_or_more -= 2;
    }

    /// Takes a step within the front entry back.
    pub(super) fn unpop(&mut self) {
        self.ops += 1;
        self.front.request_or_more += 1;
        self.front.turn();
    }

    /// Moves the first entry of the ring to the front.
    #[inline(always)]
    fn advance(&mut self) {
        let place = self.place(1);
        self.front = self.ring[place];
        self.head = place as u32 + 1;
    }

    #[cold]
    fn grow(&mut self) {
        let head = self.place(1);
        self.ring.rotate_left(head);
        self.head = 0;
        self.ring.resize(self.ring.len() * 2, Op::EMPTY);
    }
}

/// An operation that cannot join its queue yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) op: Op,
    /// Number of the scan, if the queue is [`SCANS`].
    pub(super) array: u32,
    pub(super) queue: u8,
    /// Next on the list it is on: waiters of one operation, held back by one request, or free.
    pub(super) next: u32,
}

/// Operations that cannot join their queues yet, on linked lists.
#[derive(Clone, Debug)]
pub(super) struct WaiterSlab {
    waiters: Vec<Waiter>,
    free: u32,
}

impl WaiterSlab {
    pub(super) fn new() -> Self {
        Self { waiters: Vec::new(), free: NONE }
    }

    pub(super) fn insert(&mut self, waiter: Waiter) -> u32 {
        let id = self.free;
        if id == NONE {
            self.waiters.push(waiter);
            return (self.waiters.len() - 1) as u32;
        }
        self.free = std::mem::replace(&mut self.waiters[id as usize], waiter).next;
        id
    }

    pub(super) fn remove(&mut self, id: u32) -> Waiter {
        let waiter = self.waiters[id as usize];
        self.waiters[id as usize].next = std::mem::replace(&mut self.free, id);
        waiter
    }

    /// The operation of a waiter.
    pub(super) fn op_mut(&mut self, id: u32) -> &mut Op {
        &mut self.waiters[id as usize].op
    }

    /// Reverses a list and returns its new head: lists built by pushing in front come back in order.
    pub(super) fn reversed(&mut self, mut head: u32) -> u32 {
        let mut done = NONE;
        while head != NONE {
            let next = std::mem::replace(&mut self.waiters[head as usize].next, done);
            done = std::mem::replace(&mut head, next);
        }
        done
    }
}
