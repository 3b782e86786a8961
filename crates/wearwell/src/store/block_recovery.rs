//! Recovery of the block manager's state after a loss of power. If RAM is lost, the blocks are entered into the tables
//! one by one, as a scan of the flash found them. If RAM survived, it is corrected where it differs from the flash.

use rustc_hash::FxHashMap;

use super::{BlockState, BlockTable, FlashPageStore, FreeBlockQueue, Frontier, Stream};
use crate::address::{BlockId, Ppn};
use crate::error::Result;
use crate::nand::{Nand, PageKind};
use crate::operation::Cause;

/// State of a block as the scan of the flash in a recovery found it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FoundBlock {
    /// Kind of the block's pages; `None` for an erased block.
    pub(crate) kind: Option<PageKind>,
    /// Number of pages at the beginning of the block that cannot be programmed before the next erase.
    pub(crate) programmed_pages: u32,
    /// Smallest sequence number of the pages in the block.
    pub(crate) first_sequence: u64,
    /// Largest sequence number of the pages in the block.
    pub(crate) last_sequence: u64,
}

impl FlashPageStore {
    /// Drops everything that the store (the FTL's block manager) holds in RAM except the counters. Recovery then adopts
    /// the blocks one by one.
    pub(crate) fn drop_ram_state(&mut self) {
        self.blocks =
            BlockTable::new(self.geometry.blocks(), self.data_pages_per_block(), self.allocation_pools);
        self.free_block_queues.iter_mut().for_each(FreeBlockQueue::clear);
        self.frontiers.fill(Frontier::NONE);
        self.parked_blocks.fill(Frontier::NONE);
        self.pools_with_open_block.iter_mut().for_each(Vec::clear);
        self.pool_rotation.restart_rotation();
        // New pages must be newer than the settled program that is noted in NVRAM.
        self.last_sequence = self.validity_known_until_sequence();
        self.retained_translation_versions.clear();
        self.interrupted_programs.clear();
        self.rebuild_list_of_unreadable_pages();
        self.full_blocks_without_tail_pages.clear();
        self.opened_data_blocks.iter_mut().for_each(Vec::clear);
        self.counter_audit.has_recovered = true;
    }

    /// Enters a block in the state in which recovery found it into the tables in RAM. A partly programmed block becomes
    /// an open block again if no program in it failed and a stream of writes of its kind has no open block in the pool
    /// (set of planes). Otherwise it is closed with the pages that it has.
    pub(crate) fn register_found_block_state(&mut self, block: BlockId, found: FoundBlock) {
        self.last_sequence = self.last_sequence.max(found.last_sequence);
        let Some(kind) = found.kind else {
            return if self.nand.is_bad(block) {
                self.retire_block(block);
            } else {
                self.return_to_free_blocks(block);
            };
        };
        let pool = self.allocation_pool_of_block(block);
        let stream =
            Stream::ALL.into_iter().find(|&s| s.kind() == kind && self.open_block_pages_left(s, pool) == 0);
        self.reopen_or_close_block(stream, block, kind, found);
    }

    /// Enters a block of the given stream of writes, in the state in which recovery found it, into the tables in RAM. A
    /// partly programmed block becomes the open block of the stream again, unless a program in it failed or the stream
    /// already has an open block in the pool (set of planes). Then it is closed with the pages that it has.
    pub(crate) fn adopt_block_for_stream(&mut self, stream: Stream, block: BlockId, found: FoundBlock) {
        self.last_sequence = self.last_sequence.max(found.last_sequence);
        let is_free = self.open_block_pages_left(stream, self.allocation_pool_of_block(block)) == 0;
        self.reopen_or_close_block(is_free.then_some(stream), block, stream.kind(), found);
    }

    /// Makes a found block the open block of `stream`, if it has erased pages and no program in it failed. Otherwise,
    /// or if `stream` is `None`, closes the block.
    fn reopen_or_close_block(
        &mut self,
        stream: Option<Stream>,
        block: BlockId,
        kind: PageKind,
        found: FoundBlock,
    ) {
        self.blocks.set_open(block, kind, found.first_sequence.saturating_sub(1));
        let pool = self.allocation_pool_of_block(block);
        let next = Ppn(self.geometry.first_page(block).0 + found.programmed_pages);
        let end = self.first_data_page(block).0 + self.data_pages_per_block();
        let left = end.saturating_sub(next.0);
        match stream {
            Some(stream) if left > 0 && !self.nand.has_failed_program(block) => {
                let index = self.frontier_index(stream, pool);
                self.set_frontier(index, Frontier { block, next_page: next, pages_left: left });
            }
            _ => {
                self.blocks.close(block, found.last_sequence);
                if next.0 == end {
                    self.schedule_tail_program(block);
                }
            }
        }
    }

    /// Closes an open block that an earlier recovery had closed although it was not full. That recovery has reported
    /// the unprogrammed pages of the block as invalid.
    pub(crate) fn close_block_again(&mut self, block: BlockId) {
        let index = self.frontiers.iter().position(|open| open.block == block && open.pages_left > 0);
        self.close_open_block(index.expect("the block is open"));
    }

    /// In each pool (set of planes), swaps the open blocks of host writes and of GC copies if the host's block has more
    /// unprogrammed pages. Needed in recovery: while no block is free, GC can copy only into its own open block.
    pub(crate) fn give_gc_the_emptier_open_blocks(&mut self) {
        for pool in 0..self.allocation_pools {
            let (host, copies) =
                (self.frontier_index(Stream::Host, pool), self.frontier_index(Stream::Gc, pool));
            if self.frontiers[copies].pages_left < self.frontiers[host].pages_left {
                let (of_host, of_copies) = (self.frontiers[host], self.frontiers[copies]);
                self.set_frontier(host, of_copies);
                self.set_frontier(copies, of_host);
            }
        }
    }

    /// Erases a block of which recovery could read no page. The block is free afterwards, or retired if the erase
    /// fails.
    pub(crate) fn erase_unreadable_block(&mut self, block: BlockId) -> Result<()> {
        self.register_found_block_state(
            block,
            FoundBlock {
                kind: Some(PageKind::Data),
                programmed_pages: self.geometry.block_pages(),
                ..FoundBlock::default()
            },
        );
        self.erase(block, Cause::Recovery)
    }

    /// Returns for each data block in use, by block number, the pair `(programmed pages, valid pages)`. Both are the
    /// number of programmed pages at first; recovery lowers the second to the valid pages that its recount finds. A
    /// closed block counts as full.
    pub(crate) fn programmed_and_valid_pages_by_block(&self) -> FxHashMap<u32, (u32, u32)> {
        let open: FxHashMap<BlockId, u32> = self.programmed_pages_of_open_blocks().collect();
        let in_use = |&block: &BlockId| {
            matches!(self.blocks.state(block), BlockState::Open | BlockState::Closed)
                && self.blocks.kind(block) == PageKind::Data
        };
        let pages = |block: BlockId| open.get(&block).copied().unwrap_or(self.geometry.block_pages());
        let blocks = (0..self.geometry.blocks()).map(BlockId).filter(in_use);
        blocks.map(|block| (block.0, (pages(block), pages(block)))).collect()
    }

    /// Sets the valid page count of a block to the result of a recount in recovery.
    pub(crate) fn set_valid_pages(&mut self, block: BlockId, valid: u32) {
        self.blocks.set_valid_pages(block, valid);
    }

    /// Counts as valid the page at `ppn`, which recovery found to be needed.
    pub(crate) fn count_recovered_page_valid(&mut self, ppn: Ppn) {
        let block = self.block_of(ppn);
        self.blocks.count_invalid_page_valid_again(block);
    }

    /// Reconciles RAM that survived a power cut with the flash: the next page of each open block becomes its first
    /// unprogrammed page, and interrupted erases are repeated.
    ///
    /// # Errors
    /// Power loss.
    pub(crate) fn reconcile_with_flash(&mut self) -> Result<()> {
        self.counter_audit.has_recovered = true;
        for index in 0..self.frontiers.len() {
            self.reconcile_frontier(index);
        }
        for block in (0..self.geometry.blocks()).map(BlockId) {
            if self.blocks.state(block) == BlockState::Erasing {
                self.erase(block, Cause::Recovery)?;
            }
        }
        Ok(())
    }

    /// Returns the pages whose program a power cut interrupted and that are not erased, each with the kind of its
    /// block. Clears the list of interrupted programs.
    pub(crate) fn take_interrupted_pages(&mut self) -> Vec<(PageKind, Ppn)> {
        let mut pages = std::mem::take(&mut self.interrupted_programs);
        pages.retain(|&ppn| self.nand.probe_page(ppn) != Ok(None));
        pages.into_iter().map(|ppn| (self.blocks.kind(self.block_of(ppn)), ppn)).collect()
    }

    /// Moves the next page of the open block at `index` back over pages that were counted as programmed and are not:
    /// one for the interrupted program, and one for each request that the host sent after the power cut.
    fn reconcile_frontier(&mut self, index: usize) {
        let Frontier { block, next_page: mut next, pages_left: mut left } = self.frontiers[index];
        if left == 0 {
            return;
        }
        let first = self.geometry.first_page(block);
        while next > first && self.nand.probe_page(Ppn(next.0 - 1)) == Ok(None) {
            next.0 -= 1;
            left += 1;
        }
        self.set_frontier(index, Frontier { block, next_page: next, pages_left: left });
    }
}
