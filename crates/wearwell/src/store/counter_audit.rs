//! Audit of the operation counters: programs and erases as counted are compared with what the medium shows, so that no
//! operation can bypass the counters.

use super::FlashPageStore;
use crate::address::{BlockId, Ppn};
use crate::nand::Nand;
use crate::stats::Stats;

/// Baseline for an audit of the operation counters: erase counts and programmed pages of the medium when counting
/// began, and the sums of the counters that were cleared since.
#[derive(Clone, Debug, Default)]
pub(crate) struct CounterAudit {
    /// Number of page programs that were counted before the operation counters were last cleared.
    pub(super) programs_before_clear: u64,
    /// Number of erases that were counted before the operation counters were last cleared.
    pub(super) erases_before_clear: u64,
    /// Number of retired blocks that were counted before the operation counters were last cleared.
    pub(super) retired_blocks_before_clear: u64,
    /// Sum of the erase counts of all blocks when the store was created and counting began.
    pub(super) initial_erases: u64,
    /// Number of programmed pages when the store was created and counting began; the medium may hold data already.
    pub(super) initial_programmed_pages: u64,
    /// Number of programs and erases that were counted although a loss of power interrupted or prevented them.
    pub(super) interrupted_operations: u64,
    /// Number of tail pages (lists of a block's OOBs) that were never written, because their block was erased first.
    pub(super) skipped_tail_pages: u64,
    /// Whether a recovery took place since counting began; it may have closed blocks that were not full.
    pub(super) has_recovered: bool,
}

impl FlashPageStore {
    /// Sets the counters of flash operations to zero and keeps their sums for the audit. Erase counts of blocks are
    /// unchanged.
    pub(crate) fn clear_stats(&mut self) {
        self.counter_audit.programs_before_clear += self.stats.total_programs();
        self.counter_audit.erases_before_clear += self.stats.total_erases();
        self.counter_audit.retired_blocks_before_clear += self.stats.retired_blocks;
        self.stats = Stats::default();
    }

    /// Checks the counters of flash operations against the medium: every counted program must be a programmed page or
    /// one that was erased since, and every counted erase must be in the erase count of a block. After failures, power
    /// cuts or blocks closed early, only lower and upper bounds are checked. Returns the first difference as a
    /// sentence.
    pub(crate) fn check_counters(&mut self) -> Result<(), String> {
        let CounterAudit {
            programs_before_clear: programs,
            erases_before_clear: erases,
            retired_blocks_before_clear: retired_blocks,
            initial_erases: first_wear,
            initial_programmed_pages: first_programs,
            interrupted_operations: cut,
            skipped_tail_pages: unwritten,
            has_recovered: recovered,
        } = self.counter_audit;
        let programs = first_programs + programs + self.stats.total_programs();
        let erases = (erases + self.stats.total_erases()) / self.geometry.superblock_planes as u64;
        let retired = retired_blocks + self.stats.retired_blocks;
        let wear = self.total_erase_count() - first_wear;
        let is_exact = retired + cut + u64::from(recovered) == 0 && !self.has_block_with_failed_program();
        let least_wear = if is_exact { erases } else { erases.saturating_sub(retired + cut) };
        if !(least_wear..=erases).contains(&wear) {
            return Err(format!(
                "the counter of block erases says {erases} (blocks retired: {retired}; operations interrupted by \
                 power loss: {cut}), but must agree with the erase counts of the flash blocks, which grew by {wear}"
            ));
        }
        let present = self.total_programmed_pages();
        let most = (erases + retired) * self.geometry.block_pages() as u64 + present + cut;
        let (least, most) =
            if is_exact { (most - unwritten, most - unwritten) } else { (present.saturating_sub(cut), most) };
        if !(least..=most).contains(&programs) {
            return Err(format!(
                "the counters say {programs} page programs, but must say {least} to {most} by the flash: {present} \
                 pages are programmed now, {unwritten} tail pages were never written, and each of {erases} erased and \
                 {retired} retired blocks held at most {} pages ({cut} operations interrupted by power loss)",
                self.geometry.block_pages()
            ));
        }
        Ok(())
    }

    /// Returns the sum of the erase counts of all blocks.
    pub(super) fn total_erase_count(&self) -> u64 {
        (0..self.geometry.blocks()).map(|block| self.nand.erase_count(BlockId(block)) as u64).sum()
    }

    /// Whether a program failed in any block that is not marked bad yet.
    fn has_block_with_failed_program(&self) -> bool {
        (0..self.geometry.blocks()).any(|block| self.nand.has_failed_program(BlockId(block)))
    }

    /// Returns the number of programmed pages of all blocks of the device.
    pub(super) fn total_programmed_pages(&mut self) -> u64 {
        (0..self.geometry.blocks()).map(|block| self.programmed_pages_of(BlockId(block))).sum()
    }

    /// Returns the number of programmed pages of a block, unreadable ones included, without a flash operation. The
    /// pages of a block are programmed in order, so a binary search finds the first unprogrammed page.
    fn programmed_pages_of(&mut self, block: BlockId) -> u64 {
        if self.nand.is_bad(block) {
            return 0;
        }
        let first = self.geometry.first_page(block).0;
        let (mut programmed, mut erased_from) = (0, self.geometry.block_pages());
        while programmed < erased_from {
            let middle = programmed.midpoint(erased_from);
            if self.nand.probe_page(Ppn(first + middle)) == Ok(None) {
                erased_from = middle;
            } else {
                programmed = middle + 1;
            }
        }
        u64::from(programmed)
    }
}
