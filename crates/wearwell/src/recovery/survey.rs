//! Survey of the flash: the first step of every recovery that rebuilds a map from flash.
//!
//! There are two methods with equal results. One reads the OOB of every page. The other reads the pages in which blocks
//! describe themselves (Remap-SSD, section 4.5): the head page of every block, the tail pages of full blocks in the
//! order in which the blocks were opened, and the OOB of all pages only in blocks without a complete tail. Both
//! register blocks in the order of their numbers, so that the recovered device is the same. The audit and a test that
//! cuts power at every operation verify this.

use super::{Ftl, RecoveryStepCosts};
use crate::address::{BlockId, Ppn};
use crate::design::RecoveryBlockScan;
use crate::error::{Error, Result};
use crate::nand::{Nand, NandError, Oob, PageKind};
use crate::store::{FoundBlock, HeadPage, HeadPageReadResult};

/// OOB fields of a readable flash page that recovery uses: kind, owner and sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FoundPage {
    /// Kind of data in the page, such as host data or a translation page.
    pub(crate) kind: PageKind,
    /// Owner in the OOB of the page: the LPN of a data page, or the number of a metadata page or compressed chunk.
    pub(crate) owner: u32,
    /// Sequence number of the page's program; of two versions, the one with the larger number is newer.
    pub(crate) sequence_number: u64,
}

impl From<Oob> for FoundPage {
    fn from(oob: Oob) -> Self {
        Self { kind: oob.kind, owner: oob.owner, sequence_number: oob.sequence_number }
    }
}

impl Ftl {
    /// Sets which pages each later recovery of the device reads: the spare area of every page, head and tail pages, or
    /// the first pages of blocks. Head and tail pages exist only on a device that was created with them. Recovery finds
    /// the same state in each case.
    pub fn set_recovery_block_scan(&mut self, survey: RecoveryBlockScan) {
        self.recovery_block_scan = survey;
    }

    /// Calls `visit_page` for every readable page of data or metadata on the medium, registers the state of every
    /// block, and erases blocks without a readable page again.
    pub(crate) fn survey_pages(
        &mut self,
        steps: &mut RecoveryStepCosts,
        mut visit_page: impl FnMut(Ppn, FoundPage),
    ) -> Result<()> {
        self.store.drop_ram_state();
        match self.recovery_block_scan {
            RecoveryBlockScan::OobScan | RecoveryBlockScan::FirstPages => {
                for block in (0..self.store.geometry().blocks()).map(BlockId) {
                    let found = self.scan_good_block(block, &mut visit_page)?;
                    self.register_found_block(block, found)?;
                }
            }
            RecoveryBlockScan::HeadTail => self.survey_heads_and_tails(steps, &mut visit_page)?,
        }
        self.store.give_gc_the_emptier_open_blocks();
        let policy = self.collector.options.policy;
        self.set_victim_policy(policy);
        Ok(())
    }

    /// Executes [`Ftl::survey_pages`] on a device with head and tail pages: reads the head page of every block, then
    /// its tail pages, and the spare areas of all pages only of blocks without a complete tail.
    fn survey_heads_and_tails(
        &mut self,
        steps: &mut RecoveryStepCosts,
        visit_page: &mut impl FnMut(Ppn, FoundPage),
    ) -> Result<()> {
        let blocks = self.store.geometry().blocks();
        let mut found = vec![FoundBlock::default(); blocks as usize];
        let (mut heads, mut to_scan) = (Vec::new(), Vec::new());
        self.run_counted_step(&mut steps.find_blocks_in_use, |ftl| {
            for block in
                (0..blocks).map(BlockId).filter(|&block| !ftl.store.nand().is_bad(block)).collect::<Vec<_>>()
            {
                match ftl.store.read_head_page(block)? {
                    HeadPageReadResult::Erased => {}
                    HeadPageReadResult::Unreadable => to_scan.push(block),
                    HeadPageReadResult::Intact(head) => heads.push(head),
                }
            }
            Ok(())
        })?;
        heads.sort_unstable_by_key(|head| head.head_program_sequence);
        self.run_counted_step(&mut steps.list_pages_from_tail_pages, |ftl| {
            for head in &heads {
                match ftl.visit_tail_entries(head, visit_page)? {
                    Some(block) => found[head.block.index()] = block,
                    None => to_scan.push(head.block),
                }
            }
            Ok(())
        })?;
        self.run_counted_step(&mut steps.list_pages_from_spare_areas, |ftl| {
            for &block in &to_scan {
                found[block.index()] =
                    ftl.scan_block(block, &mut |ppn, oob| visit_unless_head_or_tail(ppn, oob, visit_page))?;
            }
            Ok(())
        })?;
        (0..).map(BlockId).zip(found).try_for_each(|(block, found)| self.register_found_block(block, found))
    }

    /// Calls `visit_page` for every page that the tail pages of a block list; returns `None` if the block has no
    /// complete tail.
    fn visit_tail_entries(
        &mut self,
        head: &HeadPage,
        visit_page: &mut impl FnMut(Ppn, FoundPage),
    ) -> Result<Option<FoundBlock>> {
        let Some(tail) = self.store.read_tail_pages(head)? else { return Ok(None) };
        for entry in &tail.entries {
            visit_page(
                entry.ppn,
                FoundPage { kind: head.kind, owner: entry.owner, sequence_number: entry.sequence_number },
            );
        }
        let sequences = tail.entries.iter().map(|entry| entry.sequence_number);
        Ok(Some(FoundBlock {
            kind: Some(head.kind),
            programmed_pages: self.store.geometry().block_pages(),
            first_sequence: head.head_program_sequence,
            last_sequence: sequences.max().unwrap_or(0).max(tail.last_tail_page_sequence),
        }))
    }

    /// Reads the OOB of the pages of `block`, up to the first erased page, and calls `visit_page` for each readable
    /// page of data or metadata. Returns an empty result for a bad block.
    fn scan_good_block(
        &mut self,
        block: BlockId,
        visit_page: &mut impl FnMut(Ppn, FoundPage),
    ) -> Result<FoundBlock> {
        if self.store.nand().is_bad(block) {
            return Ok(FoundBlock::default());
        }
        self.scan_block(block, &mut |ppn, oob| visit_unless_head_or_tail(ppn, oob, visit_page))
    }

    /// Enters into the block table the state of a block as recovery found it. Erases the block if pages are programmed
    /// but none is readable.
    fn register_found_block(&mut self, block: BlockId, found: FoundBlock) -> Result<()> {
        if found.programmed_pages > 0 && found.kind.is_none() {
            return self.store.erase_unreadable_block(block);
        }
        self.store.register_found_block_state(block, found);
        Ok(())
    }

    /// Reads the OOB of the pages of `block`, up to the first erased page, and calls `visit_page` for each readable
    /// one.
    pub(super) fn scan_block(
        &mut self,
        block: BlockId,
        visit_page: &mut impl FnMut(Ppn, Oob),
    ) -> Result<FoundBlock> {
        let mut found = FoundBlock::default();
        let first = self.store.geometry().first_page(block).0;
        for ppn in (first..first + self.store.geometry().block_pages()).map(Ppn) {
            match self.store.read_spare_in_recovery(ppn) {
                Ok(None) => break,
                Ok(Some(oob)) => {
                    // A head page names the kind of the pages after it.
                    let of_pages = match oob.kind {
                        PageKind::BlockHead => PageKind::from_block_kind_code(oob.owner),
                        PageKind::BlockTail => found.kind,
                        kind => Some(kind),
                    };
                    found.kind = of_pages.or(found.kind);
                    if found.first_sequence == 0 {
                        found.first_sequence = oob.sequence_number;
                    }
                    found.last_sequence = found.last_sequence.max(oob.sequence_number);
                    visit_page(ppn, oob);
                }
                Err(Error::Nand(NandError::Uncorrectable(_))) => {}
                Err(error) => return Err(error),
            }
            found.programmed_pages += 1;
        }
        Ok(found)
    }
}

/// Calls `visit_page` for a page of data or metadata, not for a head or tail page, which only describes its block.
fn visit_unless_head_or_tail(ppn: Ppn, oob: Oob, visit_page: &mut impl FnMut(Ppn, FoundPage)) {
    if !oob.kind.is_head_or_tail() {
        visit_page(ppn, oob.into());
    }
}
