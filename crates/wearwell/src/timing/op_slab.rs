//! Operations on their way, in one slab with lists threaded through it.
//!
//! Every queue of the event engine is a linked list of slab indices, so queueing never allocates and an
//! operation is 24 bytes wherever it waits. Memory is bounded by the operations outstanding: in open loop beyond
//! saturation that number grows with the run, as the backlog of the device itself does.
//!
//! Invariant: an operation is on at most one list at a time (a queue, a group under way, the waiters of another
//! operation, or the operations a request holds back), so one `next` is enough.

use crate::timing::OpKind;

/// "No operation" and end of list.
pub(super) const NONE: u32 = u32::MAX;

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

/// A flash operation that has not completed.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingOp {
    /// Next on the list it is on.
    pub(super) next: u32,
    /// First of the operations that wait for this one, latest first.
    pub(super) waiters: u32,
    /// Request slot; meaningless for [`Role::Background`].
    pub(super) request: u32,
    /// Array that executes it.
    pub(super) array: u32,
    /// Time on the channel.
    pub(super) transfer_ns: u32,
    pub(super) kind: OpKind,
    /// Queue of the array: reads, writes or background.
    pub(super) queue: u8,
    pub(super) role: Role,
    /// Plane within its die.
    pub(super) plane: u8,
}

impl PendingOp {
    const FREE: Self = Self {
        next: NONE,
        waiters: NONE,
        request: NONE,
        array: FREE,
        transfer_ns: 0,
        kind: OpKind::Erase,
        queue: 0,
        role: Role::Background,
        plane: 0,
    };
}

/// All pending operations.
#[derive(Clone, Debug)]
pub(super) struct OpSlab {
    /// Length is a power of two.
    ops: Vec<PendingOp>,
    /// Where the search for a free place goes on.
    cursor: u32,
    live: usize,
}

/// `PendingOp::array` of a free place.
const FREE: u32 = u32::MAX;

impl OpSlab {
    pub(super) fn new() -> Self {
        Self { ops: vec![PendingOp::FREE; 256], cursor: 0, live: 0 }
    }

    /// Places are given out in a circle, so that the operations of one request are neighbours in memory; at most
    /// three quarters are taken, so that a free one is near. Cost: O(1) amortised.
    #[inline(always)]
    pub(super) fn insert(&mut self, op: PendingOp) -> u32 {
        if self.live * 4 >= self.ops.len() * 3 {
            self.grow();
        }
        let mask = self.ops.len() - 1;
        let mut place = self.cursor as usize & mask;
        while self.ops[place].array != FREE {
            place = (place + 1) & mask;
        }
        self.ops[place] = op;
        self.live += 1;
        self.cursor = place as u32 + 1;
        place as u32
    }

    #[cold]
    fn grow(&mut self) {
        self.cursor = self.ops.len() as u32;
        self.ops.resize(self.ops.len() * 2, PendingOp::FREE);
    }

    /// Frees a place; what it held can still be read until the next insert.
    #[inline(always)]
    pub(super) fn remove(&mut self, id: u32) -> &PendingOp {
        self.live -= 1;
        let op = &mut self.ops[id as usize];
        op.array = FREE;
        op
    }

    /// Reverses a list and returns its new head: lists built by pushing in front come back in order.
    pub(super) fn reversed(&mut self, mut head: u32) -> u32 {
        let mut done = NONE;
        while head != NONE {
            let next = std::mem::replace(&mut self[head].next, done);
            done = std::mem::replace(&mut head, next);
        }
        done
    }
}

impl std::ops::Index<u32> for OpSlab {
    type Output = PendingOp;
    #[inline(always)]
    fn index(&self, id: u32) -> &PendingOp {
        &self.ops[id as usize]
    }
}

impl std::ops::IndexMut<u32> for OpSlab {
    #[inline(always)]
    fn index_mut(&mut self, id: u32) -> &mut PendingOp {
        &mut self.ops[id as usize]
    }
}

/// A first-in first-out list of operations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fifo {
    head: u32,
    tail: u32,
}

impl Fifo {
    pub(super) const EMPTY: Self = Self { head: NONE, tail: NONE };

    #[inline(always)]
    pub(super) fn is_empty(self) -> bool {
        self.head == NONE
    }

    /// The operation that waits longest, or [`NONE`].
    #[inline(always)]
    pub(super) fn front(self) -> u32 {
        self.head
    }

    /// Appends; true if the list was empty.
    #[inline(always)]
    pub(super) fn push(&mut self, ops: &mut OpSlab, id: u32) -> bool {
        let was_empty = self.is_empty();
        if was_empty {
            self.head = id;
        } else {
            ops[self.tail].next = id;
        }
        self.tail = id;
        was_empty
    }

    /// Takes the front; the list must not be empty. The operation leaves with no successor.
    #[inline(always)]
    pub(super) fn pop(&mut self, ops: &mut OpSlab) -> u32 {
        let id = self.head;
        self.head = std::mem::replace(&mut ops[id].next, NONE);
        id
    }
}
