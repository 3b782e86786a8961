//! Opening a chosen free block for copies, while the stream already has an open block.
//!
//! Dual-pool wear leveling stores cold data in one particular worn block. The block that the stream was filling is parked
//! until the chosen one is full, and is then filled on: no page is wasted, and both count as open. Price: one more partly
//! filled block for a while, so a device with this leveling keeps one block more per pool (`Ftl::require_spare_space`).

use super::{Frontier, Store, Stream};
use crate::address::BlockId;
use crate::error::Result;
use crate::nand::Nand;

impl<N: Nand> Store<N> {
    /// Whether a block of the stream is parked in `pool`.
    pub(crate) fn has_parked(&self, stream: Stream, pool: u32) -> bool {
        self.parked[self.frontier_index(stream, pool)].left > 0
    }

    /// Opens the free block `block` for the next pages of `stream`, and parks the open block of the stream in the same pool.
    /// The block stays unused if its head page cannot be programmed.
    ///
    /// # Errors
    /// Power loss.
    pub(crate) fn open_chosen(&mut self, stream: Stream, block: BlockId) -> Result<()> {
        let pool = self.pool_of(block);
        assert!(!self.has_parked(stream, pool), "pool {pool} has parked a block of {stream:?} already");
        if self.head_tail.is_some() {
            self.write_tails()?;
        }
        let is_free = self.free[pool as usize].remove(block, self.nand.erase_count(block));
        assert!(is_free, "block {block} is not free");
        let index = self.frontier_index(stream, pool);
        self.parked[index] = self.frontiers[index];
        self.start_block(stream, block);
        if self.head_tail.is_some() { self.write_head(index, stream, block).map(drop) } else { Ok(()) }
    }

    /// The frontier that follows when the open block at `index` is closed: the parked one, or none.
    pub(super) fn unpark(&mut self, index: usize) -> Frontier {
        std::mem::replace(&mut self.parked[index], Frontier::NONE)
    }
}
