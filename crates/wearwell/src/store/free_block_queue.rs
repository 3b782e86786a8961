//! The erased blocks of one pool, and the order in which they are opened.
//!
//! First in, first out spreads wear by rotation and costs nothing. With dynamic wear leveling the least worn block is
//! opened for the host stream (its data will soon be overwritten) and the most worn one for cold GC copies. The price
//! is an ordered set, accessed once per block and not per page.

use std::collections::{BTreeSet, VecDeque};

use crate::address::BlockId;

/// Order in which the free blocks of a pool (set of planes) are opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FreeBlockOrder {
    /// The block that was erased first is opened first.
    #[default]
    Fifo,
    /// Dynamic wear leveling: the least worn block is opened for hot streams, the most worn for cold ones.
    ByWear,
}

/// Free blocks of a pool (set of planes), in the order in which they are opened.
#[derive(Clone, Debug)]
pub(super) enum FreeBlockQueue {
    /// Free blocks in the order of their erases, the earliest first.
    Fifo(VecDeque<BlockId>),
    /// Free blocks in the order of their erase counts, each with its erase count.
    ByWear(BTreeSet<(u32, BlockId)>),
}

impl FreeBlockQueue {
    /// Creates a queue without free blocks, which opens blocks in the order `order`.
    pub(super) fn new(order: FreeBlockOrder) -> Self {
        match order {
            FreeBlockOrder::Fifo => Self::Fifo(VecDeque::new()),
            FreeBlockOrder::ByWear => Self::ByWear(BTreeSet::new()),
        }
    }

    /// Removes all blocks from the queue.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Fifo(queue) => queue.clear(),
            Self::ByWear(set) => set.clear(),
        }
    }

    /// Returns the number of free blocks.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        match self {
            Self::Fifo(queue) => queue.len() as u32,
            Self::ByWear(set) => set.len() as u32,
        }
    }

    /// Adds an erased block with its erase count to the free blocks.
    pub(super) fn insert(&mut self, block: BlockId, erase_count: u32) {
        match self {
            Self::Fifo(queue) => queue.push_back(block),
            Self::ByWear(set) => drop(set.insert((erase_count, block))),
        }
    }

    /// Removes `block` from the free blocks of its pool (set of planes); returns `false` if it is not among them. In
    /// FIFO order the search starts at the block that was erased last.
    pub(super) fn remove(&mut self, block: BlockId, erase_count: u32) -> bool {
        match self {
            Self::Fifo(queue) => {
                let at = queue.iter().rposition(|&free| free == block);
                at.and_then(|at| queue.remove(at)).is_some()
            }
            Self::ByWear(set) => set.remove(&(erase_count, block)),
        }
    }

    /// Removes from the free blocks of a pool (set of planes) the one to open next, and returns it; `None` if no block
    /// is free. If the blocks are ordered by wear, it is the most worn one if `most_worn` is set, otherwise the least
    /// worn one.
    pub(super) fn take_next_block(&mut self, most_worn: bool) -> Option<BlockId> {
        match self {
            Self::Fifo(queue) => queue.pop_front(),
            Self::ByWear(set) if most_worn => set.pop_last().map(|(_, block)| block),
            Self::ByWear(set) => set.pop_first().map(|(_, block)| block),
        }
    }
}
