//! What the medium did since it was taken over against what was counted: an audit that no path around the counters
//! passes.

use super::Store;
use crate::address::{BlockId, Ppn};
use crate::nand::Nand;
use crate::stats::Stats;

/// What the medium did since it was taken over, beside the counters of now; for audits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// Programs, erases and retired blocks that were counted before the counters were cleared.
    pub(super) programs: u64,
    pub(super) erases: u64,
    pub(super) retired_blocks: u64,
    /// Erase counts of all blocks, and pages programmed, at the beginning: a medium may be taken over with data.
    pub(super) first_wear: u64,
    pub(super) first_programs: u64,
    /// Programs and erases that were counted and that loss of power interrupted or refused.
    pub(super) cut: u64,
    /// Tail pages of blocks that were erased before these were written.
    pub(super) unwritten: u64,
    /// Whether recovery may have closed blocks that were not full.
    pub(super) recovered: bool,
}

impl<N: Nand> Store<N> {
    /// Counters back to zero. Wear stays.
    pub(crate) fn clear_stats(&mut self) {
        self.ledger.programs += self.stats.total_programs();
        self.ledger.erases += self.stats.total_erases();
        self.ledger.retired_blocks += self.stats.retired_blocks;
        self.stats = Stats::default();
    }

    /// Programs and erases are what the flash shows: pages programmed are on flash or were erased, erases are in the wear
    /// of the blocks. Failures, cuts and blocks that were closed early leave room between the bounds.
    pub(crate) fn check_ledger(&mut self) -> Result<(), String> {
        let Ledger {
            programs,
            erases,
            retired_blocks,
            first_wear,
            first_programs,
            cut,
            unwritten,
            recovered,
        } = self.ledger;
        let programs = first_programs + programs + self.stats.total_programs();
        let erases = (erases + self.stats.total_erases()) / self.geometry.superblock_planes as u64;
        let retired = retired_blocks + self.stats.retired_blocks;
        let wear = self.total_wear() - first_wear;
        let is_exact = retired + cut + u64::from(recovered) == 0 && !self.has_condemned();
        let least_wear = if is_exact { erases } else { erases.saturating_sub(retired + cut) };
        if !(least_wear..=erases).contains(&wear) {
            return Err(format!(
                "{erases} erases, {retired} blocks retired, {cut} operations cut; blocks were worn {wear} times"
            ));
        }
        let present = self.programmed_pages();
        let most = (erases + retired) * self.geometry.block_pages() as u64 + present + cut;
        if programs > most || programs + cut < present || is_exact && programs + unwritten != most {
            return Err(format!(
                "{programs} programs, {present} pages are programmed and {erases} blocks were erased, {retired} \
                 retired, {cut} operations cut"
            ));
        }
        Ok(())
    }

    /// Erase counts of all blocks.
    pub(super) fn total_wear(&self) -> u64 {
        (0..self.geometry.blocks()).map(|block| self.nand.erase_count(BlockId(block)) as u64).sum()
    }

    fn has_condemned(&self) -> bool {
        (0..self.geometry.blocks()).any(|block| self.nand.is_condemned(BlockId(block)))
    }

    pub(super) fn programmed_pages(&mut self) -> u64 {
        (0..self.geometry.blocks()).map(|block| self.programmed(BlockId(block))).sum()
    }

    /// Pages of a block that are programmed, readable or not. Costs no counted operation.
    fn programmed(&mut self, block: BlockId) -> u64 {
        if self.nand.is_bad(block) {
            return 0;
        }
        let first = self.geometry.first_page(block).0;
        let pages = (first..first + self.geometry.block_pages()).map(Ppn);
        pages.take_while(|&ppn| self.nand.probe(ppn) != Ok(None)).count() as u64
    }
}
