//! Parked blocks: open blocks that a write stream leaves partly filled while it fills a block that was chosen for it.
//!
//! Dual-pool wear leveling stores cold data in one particular worn block. Meanwhile, the block that the stream was
//! filling is *parked*: it stays open, and is filled further when the chosen block is full. So no page is wasted. The
//! cost is one more partly filled block for a while. Therefore a device with this wear leveling keeps one block more
//! per pool (`Ftl::require_and_count_spare_pages`).

use super::{FlashPageStore, Frontier, Stream};
use crate::address::BlockId;
use crate::error::Result;
use crate::nand::Nand;

impl FlashPageStore {
    /// Whether the write stream has a parked block in the pool (set of planes): a partly filled block that was set
    /// aside while the stream fills another one.
    pub(crate) fn has_parked_block(&self, stream: Stream, pool: u32) -> bool {
        self.parked_blocks[self.frontier_index(stream, pool)].pages_left > 0
    }

    /// Opens the free block `block` for the next pages of the write stream `stream`, and parks the stream's open block
    /// in the same pool (set of planes) until `block` is full. If the head page of `block` cannot be programmed,
    /// `block` is closed without data.
    ///
    /// # Errors
    /// Power loss.
    pub(crate) fn open_chosen_block(&mut self, stream: Stream, block: BlockId) -> Result<()> {
        let pool = self.allocation_pool_of_block(block);
        assert!(!self.has_parked_block(stream, pool), "pool {pool} has parked a block of {stream:?} already");
        if self.head_tail_layout.is_some() {
            self.write_pending_tail_pages()?;
        }
        let is_free = self.free_block_queues[pool as usize].remove(block, self.nand.erase_count(block));
        assert!(is_free, "block {block} cannot be opened: it is not free");
        let index = self.frontier_index(stream, pool);
        self.parked_blocks[index] = self.frontiers[index];
        self.make_open_block(stream, block);
        if self.head_tail_layout.is_some() {
            self.write_head_page(index, stream, block).map(drop)
        } else {
            Ok(())
        }
    }

    /// Removes and returns the block that was parked (set aside partly filled) for the write stream and pool (set of
    /// planes) at `frontier_index` of the open blocks; [`Frontier::NONE`] if none is parked.
    pub(super) fn unpark_block(&mut self, frontier_index: usize) -> Frontier {
        std::mem::replace(&mut self.parked_blocks[frontier_index], Frontier::NONE)
    }
}
