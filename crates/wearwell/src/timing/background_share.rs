//! Pacing of garbage collection with host writes in the event engine: decides how much background work an array (a die,
//! or a plane if planes are independent) serves before each host write.
//!
//! The FTL counts a victim as a free block as soon as it has decided to collect it, while the copies and the erase may
//! still be queued. So an array counts how many of its pages are really erased. While many are, host writes go first.
//! While more than half of the free blocks that the FTL keeps still wait for their erase, a share of the background
//! work goes before each write, so that no write waits for a whole collection. Without an erased page, background work
//! goes first.
//!
//! Operations that the FTL has issued but that cannot be queued yet count like queued ones: an erase that waits for the
//! last copy of its victim, or a copy that another array reads. Without them an array whose collections wait for other
//! arrays, or for each other in multi-plane groups, would let host writes pass for ever.
//!
//! Key decision: the share is computed when the array could serve the write for the first time, and again after each
//! erase, not for each operation. So an array may execute the copies of a share before the simulated time reaches them
//! ([`super::array`]). The cost: work that is queued later is considered only at the next write or erase.

#![expect(
    clippy::inline_always,
    reason = "called for every operation by functions of array.rs, whose hints were measured"
)]

use super::op_queue::QueuedOp;
use crate::operation::OpKind;

/// Number and size of the free blocks that the FTL keeps on each array (die or plane).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreeBlocksPerArray {
    /// Number of free blocks on each array (die or plane) while no GC runs.
    pub free_blocks: u32,
    /// Number of pages per free block.
    pub pages_per_block: u32,
}

impl FreeBlocksPerArray {
    /// Returns the number of pages of all free blocks on one array.
    fn free_pages(self) -> i64 {
        i64::from(self.pages_per_block) * i64::from(self.free_blocks)
    }

    /// Returns the number of free pages that one array (die or plane) gains once all issued work is done: the pages of
    /// `erases` blocks whose erase has not started, minus one page for each of the `programs` programs of GC copies
    /// that have not started.
    #[inline]
    fn net_pages_gained_by_erases(self, erases: u32, programs: u32) -> i64 {
        i64::from(self.pages_per_block) * i64::from(erases) - i64::from(programs)
    }

    /// Returns how many background operations an array (die or plane) serves before its next host write. The array has
    /// `ops` operations that have not begun, `awaited` pages of free blocks still wait for their erase, and GC has
    /// gained `gained_pages` free pages. Returns 0 while at most half of the free blocks wait for their erase.
    /// Otherwise, with this number before each write, at most half of them still wait when host writes have used the
    /// gained pages.
    #[inline]
    fn background_ops_before_host_write(self, ops: u32, awaited: i64, gained_pages: i64) -> u32 {
        let excess = awaited - self.free_pages() / 2;
        if excess <= 0 {
            return 0;
        }
        let per_write = i64::from(ops) * excess / (awaited * gained_pages.max(1));
        per_write.try_into().unwrap_or(u32::MAX)
    }
}

/// Counts of the erased pages and background operations of an array (die or plane). They determine the background work
/// that the array serves before the next host write. Not used if background work has a fixed bound instead.
#[derive(Clone, Debug)]
pub(super) struct BackgroundPacing {
    /// Free blocks that the FTL keeps on the array; `None` if background work has a fixed bound instead.
    kept_free_blocks: Option<FreeBlocksPerArray>,
    /// Number of erased pages that GC has gained on the array and host writes have not used yet. An issued erase adds
    /// the pages of a block. An issued program of a GC copy subtracts one page. A started host program subtracts one
    /// page, unless the number is 0.
    erased_page_balance: i64,
    /// Number of background operations issued for the array that cannot be queued yet, because they wait for other
    /// operations.
    unqueued_ops: u32,
    /// Number of erases among the background operations that cannot be queued yet.
    unqueued_erases: u32,
    /// Number of background programs that were issued for the array and that it has not started. Programs that are not
    /// in its queue yet are included.
    unstarted_programs: u32,
    /// Number of background operations that the array has started so far, including those started ahead of the
    /// simulated time.
    started_background_ops: u64,
    /// Value of `started_background_ops` at the first moment at which the array could have served the next host write.
    started_background_ops_when_write_was_ready: u64,
    /// The array serves the next host write when `started_background_ops` has reached this number. 0 as long as the
    /// array has had no opportunity to serve that write.
    started_background_ops_required_before_write: u64,
    /// Whether `started_background_ops_required_before_write` has to be computed again, because the array has started
    /// an erase since: an erase gains the pages of a whole block, so fewer operations may be required.
    is_required_op_count_outdated: bool,
}

impl BackgroundPacing {
    /// Creates the state of an array (die or plane) on which the FTL keeps `kept_free_blocks` free. They are `None` if
    /// the number of background operations that may wait on the array has a fixed bound instead.
    pub(super) fn new(kept_free_blocks: Option<FreeBlocksPerArray>) -> Self {
        Self {
            kept_free_blocks,
            erased_page_balance: 0,
            unqueued_ops: 0,
            unqueued_erases: 0,
            unstarted_programs: 0,
            started_background_ops: 0,
            started_background_ops_when_write_was_ready: 0,
            started_background_ops_required_before_write: 0,
            is_required_op_count_outdated: false,
        }
    }

    /// Counts a background operation that the FTL has just issued: the erased pages that it gains (an erase) or takes
    /// (a program).
    #[inline(always)]
    pub(super) fn count_issued_background_op(&mut self, op: &QueuedOp) {
        let Some(kept) = self.kept_free_blocks else { return };
        let programs = match op.kind {
            OpKind::Erase => {
                self.erased_page_balance += i64::from(kept.pages_per_block);
                return;
            }
            OpKind::Program => 1,
            _ => op.copy_ops_after_first().div_ceil(2),
        };
        self.erased_page_balance -= i64::from(programs);
        self.unstarted_programs += programs;
    }

    /// Counts a background operation that the FTL has just issued but that cannot be queued yet.
    pub(super) fn count_issued_background_op_not_queued_yet(&mut self, op: &QueuedOp) {
        self.count_issued_background_op(op);
        self.unqueued_ops += 1 + op.copy_ops_after_first();
        self.unqueued_erases += u32::from(op.kind == OpKind::Erase);
    }

    /// Counts that a background operation, which could not be queued when the FTL issued it, now joins the queue of the
    /// array.
    pub(super) fn count_release_to_queue(&mut self, op: &QueuedOp) {
        self.unqueued_ops -= 1 + op.copy_ops_after_first();
        self.unqueued_erases -= u32::from(op.kind == OpKind::Erase);
    }

    /// Counts the erased pages that `pages` programs of the host take.
    #[inline(always)]
    pub(super) fn count_host_programs(&mut self, pages: u32) {
        self.erased_page_balance = (self.erased_page_balance - i64::from(pages)).max(0);
    }

    /// Counts `ops` background operations that the array starts, of which `programs` are programs.
    #[inline(always)]
    pub(super) fn count_started_background_ops(&mut self, ops: u32, programs: u32) {
        self.started_background_ops += u64::from(ops);
        // Without kept blocks nothing is counted, and nobody asks.
        self.unstarted_programs = self.unstarted_programs.wrapping_sub(programs);
    }

    /// Removes one background operation from the counts of started ones, because its start ahead of the simulated time
    /// is undone.
    pub(super) fn uncount_started_background_op(&mut self, kind: OpKind) {
        self.started_background_ops -= 1;
        self.unstarted_programs = self.unstarted_programs.wrapping_add(u32::from(kind == OpKind::Program));
    }

    /// Records that the array starts an erase, so that the work due before the next host write is determined again.
    #[inline(always)]
    pub(super) fn record_erase_start(&mut self) {
        self.is_required_op_count_outdated = true;
    }

    /// Whether the array serves background work because it has no erased page for host writes: all free blocks of the
    /// FTL, and all pages that GC gained, still wait for their erase. `queued_ops` background operations are queued,
    /// `queued_erases` of them erases. False if none is queued, because then there is nothing to serve.
    #[inline(always)]
    pub(super) fn is_background_due_for_free_pages(&self, queued_ops: u32, queued_erases: u32) -> bool {
        let erases = queued_erases + self.unqueued_erases;
        queued_ops > 0
            && erases > 0
            && self.kept_free_blocks.is_some_and(|kept| {
                kept.net_pages_gained_by_erases(erases, self.unstarted_programs)
                    >= kept.free_pages() + self.erased_page_balance
            })
    }

    /// Decides whether the array serves background work before the host write that waits. `false` means that it serves
    /// the write now. This is also the case if all remaining background work waits for other operations, so that none
    /// is queued.
    #[inline(always)]
    pub(super) fn decide_background_before_write(&mut self, queued_ops: u32, queued_erases: u32) -> bool {
        if self.started_background_ops_required_before_write == 0 {
            self.started_background_ops_when_write_was_ready = self.started_background_ops;
            self.is_required_op_count_outdated = true;
        }
        if std::mem::take(&mut self.is_required_op_count_outdated) {
            self.started_background_ops_required_before_write = self
                .started_background_ops_when_write_was_ready
                + self.background_ops_due_before_write(queued_ops, queued_erases);
        }
        let is_due =
            self.started_background_ops < self.started_background_ops_required_before_write && queued_ops > 0;
        if !is_due {
            self.started_background_ops_required_before_write = 0;
        }
        is_due
    }

    /// Returns the number of background operations that the array has to serve before the next host write.
    #[inline(always)]
    fn background_ops_due_before_write(&self, queued_ops: u32, queued_erases: u32) -> u64 {
        let (ops, erases) = (queued_ops + self.unqueued_ops, queued_erases + self.unqueued_erases);
        match self.kept_free_blocks {
            Some(kept) if erases > 0 => {
                let awaited = kept.net_pages_gained_by_erases(erases, self.unstarted_programs);
                kept.background_ops_before_host_write(ops, awaited, self.erased_page_balance).into()
            }
            _ => 0,
        }
    }

    /// Whether the next `steps` background operations certainly precede the host write that waits, whatever is queued
    /// meanwhile. None of them may be an erase: after an erase the required number of operations is determined again.
    #[inline(always)]
    pub(super) fn are_further_steps_due(&self, steps: u32) -> bool {
        !self.is_required_op_count_outdated
            && self.started_background_ops + u64::from(steps)
                <= self.started_background_ops_required_before_write
    }
}
