//! Scans for the referrers of victims in the event engine: what each waits for, and what waits for it.
//!
//! A scan is no operation of an array. It passes three states:
//!
//! 1. it waits for reads of a log on flash ([`Scan::pending`]), and for its turn among the scans of the same arrays;
//! 2. it waits for the background operations that are queued on its arrays: the last one of each array names the scan as
//!    a waiter, and when all have completed the queues are looked at again, because a copy between dies joins a queue late;
//! 3. it is booked on the NVRAM. When it ends, everything that it held back joins its queue.

use super::op_queue::NONE;
use crate::operation::FlashOp;

/// One scan that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    pub(super) op: FlashOp,
    /// Arrays that hold the victim.
    pub(super) arrays: Vec<u32>,
    /// Slot of the request that waits for it, or [`NONE`].
    pub(super) request: u32,
    /// Operations that have to complete before the next look at its state.
    pub(super) pending: u32,
    /// The first of the operations held back until it ends, latest first.
    pub(super) held: u32,
    /// It is booked on the NVRAM.
    pub(super) is_booked: bool,
}

/// All scans that have not ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Scans {
    slots: Vec<Option<Scan>>,
    /// Numbers, in the order of admission.
    order: Vec<u32>,
}

impl Scans {
    /// Admits a scan; returns its number.
    pub(super) fn push(&mut self, op: FlashOp, arrays: Vec<u32>, request: u32) -> u32 {
        let scan = Some(Scan { op, arrays, request, pending: 0, held: NONE, is_booked: false });
        let free = self.slots.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.slots.len());
        if free.is_some() {
            self.slots[slot] = scan;
        } else {
            self.slots.push(scan);
        }
        self.order.push(slot as u32);
        slot as u32
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut Scan {
        self.slots[number as usize].as_mut().expect("a scan is known until it ends")
    }

    /// Forgets a scan that has ended.
    pub(super) fn remove(&mut self, number: u32) -> Scan {
        self.order.retain(|&other| other != number);
        self.slots[number as usize].take().expect("a scan ends once")
    }

    /// Whether a scan waits for no operation, and no other one of its arrays was admitted before.
    pub(super) fn is_next(&mut self, number: u32) -> bool {
        let &mut Scan { pending, is_booked, ref arrays, .. } = self.get_mut(number);
        let first_array = arrays.first().copied();
        pending == 0 && !is_booked && self.first_of(first_array) == Some(number)
    }

    /// The first scan of a victim whose first array is this one.
    pub(super) fn first_of(&self, first_array: Option<u32>) -> Option<u32> {
        let is_there = |&&number: &&u32| {
            let scan = self.slots[number as usize].as_ref();
            scan.is_some_and(|scan| scan.arrays.first().copied() == first_array)
        };
        self.order.iter().find(is_there).copied()
    }
}
