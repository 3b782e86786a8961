//! NVRAM scans of the event engine, by which GC finds the referrers of its victims: what each scan waits for, and what
//! waits for it.
//!
//! A scan is not an operation of an array (die or plane). It passes through three states:
//!
//! 1. It waits for flash reads of a log ([`NvramScan::pending_ops`]), and for earlier scans for the same arrays.
//! 2. It waits for the background operations queued on its arrays: the last operation of each array has the scan as a
//!    waiter. When all have completed, the queues are checked again, because a copy between dies joins a queue late.
//! 3. It is booked on the NVRAM. When it ends, all operations that it held back join their queues.

use super::op_queue::END_OF_LIST;
use crate::operation::FlashOp;

/// One unfinished scan of NVRAM, by which GC searches for the referrers of a victim block.
#[derive(Clone, Debug)]
pub(super) struct NvramScan {
    /// The scan as an entry of the submitted list of flash operations: the number of NVRAM lines that it reads, and the
    /// first plane of its victim.
    pub(super) scan_op: FlashOp,
    /// Arrays (dies or planes) that hold the victim block for which the scan searches.
    pub(super) victim_arrays: Vec<u32>,
    /// Slot number of the host request that waits for the scan of NVRAM; [`END_OF_LIST`] if no request waits.
    pub(super) request_slot: u32,
    /// Number of flash operations that have to complete before it is checked again whether the scan of NVRAM can start.
    pub(super) pending_ops: u32,
    /// Head of the linked list of operations held back until the scan of NVRAM ends, latest first.
    pub(super) held_ops_list_head: u32,
    /// Whether the scan has its period on the NVRAM already: it is running, or starts when earlier uses of the NVRAM
    /// end.
    pub(super) is_booked_on_nvram: bool,
}

/// All unfinished scans of NVRAM.
#[derive(Clone, Debug, Default)]
pub(super) struct NvramScans {
    /// Unfinished scans of NVRAM, by scan number; `None` for numbers not in use.
    scans_by_number: Vec<Option<NvramScan>>,
    /// Numbers of the unfinished scans of NVRAM, in order of admission.
    scan_numbers_by_admission: Vec<u32>,
}

impl NvramScans {
    /// Adds a scan of NVRAM; returns its number.
    pub(super) fn add_scan(&mut self, op: FlashOp, arrays: Vec<u32>, request: u32) -> u32 {
        let scan = Some(NvramScan {
            scan_op: op,
            victim_arrays: arrays,
            request_slot: request,
            pending_ops: 0,
            held_ops_list_head: END_OF_LIST,
            is_booked_on_nvram: false,
        });
        let free = self.scans_by_number.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.scans_by_number.len());
        if free.is_some() {
            self.scans_by_number[slot] = scan;
        } else {
            self.scans_by_number.push(scan);
        }
        self.scan_numbers_by_admission.push(slot as u32);
        slot as u32
    }

    /// Returns an unfinished scan of NVRAM, to be changed.
    pub(super) fn get_mut(&mut self, number: u32) -> &mut NvramScan {
        self.scans_by_number[number as usize].as_mut().expect("a scan is known until it ends")
    }

    /// Removes and returns a scan of NVRAM that has ended.
    pub(super) fn remove(&mut self, number: u32) -> NvramScan {
        self.scan_numbers_by_admission.retain(|&other| other != number);
        self.scans_by_number[number as usize].take().expect("a scan ends once")
    }

    /// Whether the time of scan `number` can be booked on the NVRAM: no flash operation precedes the scan, it is not
    /// booked already, and it is the earliest scan for its arrays (dies or planes).
    pub(super) fn can_book_scan(&mut self, number: u32) -> bool {
        let &mut NvramScan {
            pending_ops: pending,
            is_booked_on_nvram: is_booked,
            victim_arrays: ref arrays,
            ..
        } = self.get_mut(number);
        let first_array = arrays.first().copied();
        pending == 0 && !is_booked && self.earliest_scan_beginning_on_array(first_array) == Some(number)
    }

    /// Returns the number of the earliest unfinished NVRAM scan whose victim block begins on array `first_array`.
    pub(super) fn earliest_scan_beginning_on_array(&self, first_array: Option<u32>) -> Option<u32> {
        let is_there = |&&number: &&u32| {
            let scan = self.scans_by_number[number as usize].as_ref();
            scan.is_some_and(|scan| scan.victim_arrays.first().copied() == first_array)
        };
        self.scan_numbers_by_admission.iter().find(is_there).copied()
    }
}
