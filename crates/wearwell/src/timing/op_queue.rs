//! Queues of flash operations in the event engine: a ring per queue, and a slab for operations that wait for others.
//!
//! A queued operation is an entry of 20 bytes in the ring of its queue, and stays at the front while it runs. So an
//! array (die or plane) walks through memory in order, and an operation is written once and read once. A series of
//! copies within one array is one entry ([`QueuedOp::copy_series`]), whatever the number of copies: even with a backlog
//! of thousands of copies the queues fit the first-level cache. Only operations that must wait for an operation on
//! another array (read-modify-write, copies between dies) are kept in the slab. Nothing allocates in the steady state.
//! Memory is bounded by the operations outstanding; in open loop beyond saturation their number grows with the run, as
//! the backlog of the device does.

#![expect(clippy::inline_always, reason = "measured: 25 % more operations per second than with plain hints")]

use crate::operation::OpKind;

/// End mark of the linked lists of flash operations that cannot be queued yet.
pub(super) const END_OF_LIST: u32 = u32::MAX;

/// Value of [`UnqueuedOp::queue_index`] that marks the waiting entry as a scan of NVRAM instead of a flash operation.
pub(super) const NVRAM_SCAN_QUEUE_INDEX: u8 = 3;

/// How the completion of a flash operation affects the host request in whose list it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum OpEffectOnRequest {
    /// No host request waits for the operation (background work).
    Background,
    /// The host request completes only after the operation.
    Awaited,
    /// The host request's own operations start only after this operation (foreground GC).
    Blocking,
}

/// Entry of a queue of an array: a flash operation, or a series of copies (alternate reads and programs).
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedOp {
    /// Head of the linked list of operations that wait until this operation has completed, latest first.
    pub(super) unqueued_ops_list_head: u32,
    /// Slot number of the host request that waits for this operation. In background work
    /// ([`OpEffectOnRequest::Background`]), for which no request waits, instead the number of operations in this queue
    /// entry after its next one: alternate programs and reads of a series of copies.
    pub(super) request_slot_or_copy_ops_after_first: u32,
    /// Time of the operation's transfer on the channel, nanoseconds; saturates at 4.29 s.
    pub(super) transfer_ns: u32,
    /// Number of the operation in the order in which the FTL issued all operations, modulo 2^32.
    pub(super) issue_number: u32,
    /// Kind of the operation. For a series of copies: kind of the next operation in it, a read or a program.
    pub(super) kind: OpKind,
    /// How the completion of the operation affects its host request.
    pub(super) effect_on_request: OpEffectOnRequest,
    /// Number of the operation's plane within its die, modulo 64.
    pub(super) plane_in_die: u8,
}

impl QueuedOp {
    /// Entry without content, which fills unused places of a queue.
    const EMPTY: Self = Self {
        unqueued_ops_list_head: END_OF_LIST,
        request_slot_or_copy_ops_after_first: 0,
        transfer_ns: 0,
        issue_number: 0,
        kind: OpKind::Erase,
        effect_on_request: OpEffectOnRequest::Background,
        plane_in_die: 0,
    };

    /// Dummy operation that an [`UnqueuedOp`] holds if it represents a scan of NVRAM instead of a flash operation.
    pub(super) const NVRAM_SCAN_PLACEHOLDER_OP: Self = Self::EMPTY;

    /// Returns the queue entry for a series of background copies of `count` pages within one array: read, program,
    /// read, program, ..
    pub(super) fn copy_series(count: u32, transfer_ns: u32, issue_number: u32) -> Self {
        Self {
            request_slot_or_copy_ops_after_first: 2 * count - 1,
            transfer_ns,
            issue_number,
            kind: OpKind::Read,
            ..Self::EMPTY
        }
    }

    /// Whether the FTL issued this operation before `other`. Fewer than 2^31 operations are issued between two that
    /// wait at the same time.
    fn was_issued_before(&self, other: &Self) -> bool {
        self.issue_number.wrapping_sub(other.issue_number).cast_signed() < 0
    }

    /// Whether neither a host request nor another operation waits for this operation.
    #[inline(always)]
    pub(super) fn has_no_waiting_request_or_op(&self) -> bool {
        self.effect_on_request == OpEffectOnRequest::Background && self.unqueued_ops_list_head == END_OF_LIST
    }

    /// Returns the number of operations that remain in this queue entry after its next one. Greater than 0 only for a
    /// series of copies (alternate reads and programs).
    #[inline(always)]
    pub(super) fn copy_ops_after_first(&self) -> u32 {
        if self.effect_on_request == OpEffectOnRequest::Background {
            self.request_slot_or_copy_ops_after_first
        } else {
            0
        }
    }

    /// Advances the queue entry of a series of copies to its next operation: from a read to its program, or to the next
    /// read.
    #[inline(always)]
    fn advance_copy_series(&mut self) {
        self.request_slot_or_copy_ops_after_first -= 1;
        self.toggle_between_read_and_program();
    }

    /// Changes the kind of the entry's next operation from read to program, or from program to read.
    #[inline(always)]
    fn toggle_between_read_and_program(&mut self) {
        self.kind = if self.kind == OpKind::Read { OpKind::Program } else { OpKind::Read };
    }
}

/// First-in-first-out queue of flash operations of an array (die or plane). The front entry is stored outside the ring
/// of the other entries, so that an array that works through a series of copies touches nothing but its own state.
#[derive(Clone, Debug)]
pub(super) struct OpQueue {
    /// First operation (or series of copies) of the queue; undefined if the queue is empty.
    front: QueuedOp,
    /// Number of entries in the queue, the front included. A series of copies (many operations) is one entry.
    entry_count: u32,
    /// Number of flash operations in all entries of the queue. A series of copies counts with all its remaining
    /// operations.
    queued_ops: u32,
    /// Number of erases among the queued operations.
    queued_erases: u32,
    /// Index of the queue's second entry in the ring buffer.
    ring_start_index: u32,
    /// Ring buffer of the queue entries after the front; the buffer's length is a power of two.
    ring: Vec<QueuedOp>,
}

impl OpQueue {
    /// Creates an empty queue with room for eight entries after the front.
    pub(super) fn new() -> Self {
        Self {
            front: QueuedOp::EMPTY,
            entry_count: 0,
            queued_ops: 0,
            queued_erases: 0,
            ring_start_index: 0,
            ring: vec![QueuedOp::EMPTY; 8],
        }
    }

    /// Returns the number of entries in the queue. A series of copies (many operations) is one entry.
    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        self.entry_count
    }

    /// Returns the number of flash operations in the queue. A series of copies, although one entry, counts with all its
    /// operations.
    #[inline(always)]
    pub(super) fn op_count(&self) -> u32 {
        self.queued_ops
    }

    /// Returns the number of erases among the queued operations.
    #[inline(always)]
    pub(super) fn queued_erase_count(&self) -> u32 {
        self.queued_erases
    }

    /// Returns whether the queue has no entry.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.entry_count == 0
    }

    /// Returns the first operation (or series of copies) of the queue, which must not be empty.
    #[inline(always)]
    pub(super) fn front(&self) -> &QueuedOp {
        &self.front
    }

    /// Returns the index in the ring buffer of the queue entry `index` positions after the front.
    #[inline(always)]
    fn ring_index(&self, index: u32) -> usize {
        (self.ring_start_index + index - 1) as usize & (self.ring.len() - 1)
    }

    /// Returns the queue entry `index` positions after the front, which must exist.
    pub(super) fn entry_at(&self, index: u32) -> &QueuedOp {
        if index == 0 { &self.front } else { &self.ring[self.ring_index(index)] }
    }

    /// Returns the number of flash operations in the entries before position `index`.
    pub(super) fn op_count_before(&self, index: u32) -> u32 {
        (0..index).map(|at| 1 + self.entry_at(at).copy_ops_after_first()).sum()
    }

    /// Returns the position of the queue's last entry, which must exist, for use with [`OpQueue::entry_at`].
    pub(super) fn last_entry_index(&self) -> u32 {
        self.entry_count - 1
    }

    /// Returns the queue entry `index` positions after the front, which must exist, to be changed.
    pub(super) fn entry_at_mut(&mut self, index: u32) -> &mut QueuedOp {
        if index == 0 {
            return &mut self.front;
        }
        let place = self.ring_index(index);
        &mut self.ring[place]
    }

    /// Appends an operation, or a series of copies, to the queue.
    #[inline(always)]
    pub(super) fn push(&mut self, op: QueuedOp) {
        self.queued_ops += 1 + op.copy_ops_after_first();
        self.queued_erases += u32::from(op.kind == OpKind::Erase);
        if self.entry_count == 0 {
            self.front = op;
        } else {
            self.push_to_ring(op);
        }
        self.entry_count += 1;
    }

    /// Appends an entry to the ring buffer, which grows if it is full.
    #[inline(always)]
    fn push_to_ring(&mut self, op: QueuedOp) {
        if self.entry_count as usize > self.ring.len() {
            self.grow_ring();
        }
        let place = self.ring_index(self.entry_count);
        self.ring[place] = op;
    }

    /// Inserts `op` before the entries that were issued later, but after the first `running_entries` entries, which the
    /// array executes or has suspended. Returns the position of `op` in the queue. Cost: O(position).
    pub(super) fn insert_in_issue_order(&mut self, op: QueuedOp, running_entries: u32) -> u32 {
        let later = (running_entries..self.entry_count).find(|&at| op.was_issued_before(self.entry_at(at)));
        let position = later.unwrap_or(self.entry_count);
        self.push(op);
        if position < self.entry_count - 1 {
            self.move_last_entry_to(position);
        }
        position
    }

    /// Moves the last entry of the queue to `position`, before the entries that are there. The ring then begins one
    /// place earlier, so that only the entries before the position have to move.
    fn move_last_entry_to(&mut self, position: u32) {
        let last = *self.entry_at(self.last_entry_index());
        let ring_len = self.ring.len() as u32;
        self.ring_start_index = (self.ring_start_index + ring_len - 1) % ring_len;
        if position == 0 {
            *self.entry_at_mut(1) = self.front;
        }
        for at in 1..position {
            *self.entry_at_mut(at) = *self.entry_at(at + 1);
        }
        *self.entry_at_mut(position) = last;
    }

    /// Removes and returns the front operation of the queue, which must exist. Of a series of copies (alternate reads
    /// and programs in one entry) only the first operation is removed.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> QueuedOp {
        let mut op = self.front;
        self.queued_ops -= 1;
        if op.copy_ops_after_first() > 0 {
            // Operations that wait for a series wait for its last operation.
            op.unqueued_ops_list_head = END_OF_LIST;
            self.front.advance_copy_series();
        } else {
            self.entry_count -= 1;
            self.queued_erases -= u32::from(op.kind == OpKind::Erase);
            if self.entry_count > 0 {
                self.refill_front_from_ring();
            }
        }
        op
    }

    /// Removes one page copy (a read and its program) from the series of copies at the front of the queue. The series
    /// must have further operations.
    #[inline(always)]
    pub(super) fn pop_page_copy(&mut self) {
        self.queued_ops -= 2;
        self.front.request_slot_or_copy_ops_after_first -= 2;
    }

    /// Puts the operation that [`Self::pop`] removed last back to the front of the queue. The operation must belong to
    /// a series of copies (alternate reads and programs in one entry) that still has further operations.
    pub(super) fn undo_pop(&mut self) {
        self.queued_ops += 1;
        self.front.request_slot_or_copy_ops_after_first += 1;
        self.front.toggle_between_read_and_program();
    }

    /// Moves the first entry of the ring buffer to the front of the queue.
    #[inline(always)]
    fn refill_front_from_ring(&mut self) {
        let place = self.ring_index(1);
        self.front = self.ring[place];
        self.ring_start_index = place as u32 + 1;
    }

    /// Doubles the length of the ring buffer.
    #[cold]
    fn grow_ring(&mut self) {
        let head = self.ring_index(1);
        self.ring.rotate_left(head);
        self.ring_start_index = 0;
        self.ring.resize(self.ring.len() * 2, QueuedOp::EMPTY);
    }
}

/// A flash operation that cannot be queued yet, because it waits for another operation, for GC, or for a scan of NVRAM.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnqueuedOp {
    /// The operation that waits.
    pub(super) op: QueuedOp,
    /// Number of the array (die or plane) whose queue the operation will join. If `queue_index` is
    /// [`NVRAM_SCAN_QUEUE_INDEX`], the number of the NVRAM scan.
    pub(super) array_or_scan_number: u32,
    /// Index, among the queues of the array, of the queue that the operation will join.
    pub(super) queue_index: u8,
    /// Next element of the linked list to which this operation belongs. A list has the operations that wait for one
    /// operation, request or scan, or the free slots of the slab.
    pub(super) next_unqueued_op: u32,
}

/// Store of flash operations that cannot be queued yet, as linked lists.
#[derive(Clone, Debug)]
pub(super) struct UnqueuedOps {
    /// Waiting operations, by slot number; free slots are linked to a list.
    unqueued_op_slots: Vec<UnqueuedOp>,
    /// First slot of the list of free slots; [`END_OF_LIST`] if none is free.
    first_free_slot: u32,
}

impl UnqueuedOps {
    /// Creates an empty store of flash operations that are in no queue.
    pub(super) fn new() -> Self {
        Self { unqueued_op_slots: Vec::new(), first_free_slot: END_OF_LIST }
    }

    /// Stores an operation that cannot be queued yet; returns its slot.
    pub(super) fn insert(&mut self, waiter: UnqueuedOp) -> u32 {
        let id = self.first_free_slot;
        if id == END_OF_LIST {
            self.unqueued_op_slots.push(waiter);
            return (self.unqueued_op_slots.len() - 1) as u32;
        }
        self.first_free_slot =
            std::mem::replace(&mut self.unqueued_op_slots[id as usize], waiter).next_unqueued_op;
        id
    }

    /// Removes and returns the waiting operation in slot `id`, which becomes free.
    pub(super) fn remove(&mut self, id: u32) -> UnqueuedOp {
        let waiter = self.unqueued_op_slots[id as usize];
        self.unqueued_op_slots[id as usize].next_unqueued_op =
            std::mem::replace(&mut self.first_free_slot, id);
        waiter
    }

    /// Returns the operation in slot `slot`, which cannot be queued yet.
    pub(super) fn op_in_slot_mut(&mut self, slot: u32) -> &mut QueuedOp {
        &mut self.unqueued_op_slots[slot as usize].op
    }

    /// Reverses a linked list of waiting operations and returns its new head. Lists are built by inserting at the head,
    /// so this restores the order of insertion.
    pub(super) fn reverse_waiting_list(&mut self, mut head: u32) -> u32 {
        let mut done = END_OF_LIST;
        while head != END_OF_LIST {
            let next = std::mem::replace(&mut self.unqueued_op_slots[head as usize].next_unqueued_op, done);
            done = std::mem::replace(&mut head, next);
        }
        done
    }
}
