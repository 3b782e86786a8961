//! Dual-pool wear leveling: worn blocks are filled with cold data, so that they are rarely erased.
//!
//! Source: Chang, "On efficient wear leveling for large-scale flash-memory storage systems" (SAC 2007). Each block
//! belongs to the *hot pool* or to the *cold pool*. (Elsewhere in this project a pool is a set of planes. Each such set
//! has its own hot and cold pool here, because GC copies stay in the set.) Three rules are checked after each erase,
//! all with one threshold TH:
//!
//! - **Dirty swap**: the most worn hot block has more than TH erases more than the least worn cold one. The data of the
//!   cold block, which are not overwritten, move to the worn block, and the two blocks change pools.
//! - **Cold pool resize**: since its last swap, a cold block was erased more than TH times more often than some hot
//!   block. Its data are not cold, and it moves to the hot pool.
//! - **Hot pool resize**: the erase counts of two hot blocks differ by more than 2 TH. The less worn one holds cold
//!   data, and moves to the cold pool.
//!
//! The second rule compares *effective erases*: those since the block took part in a dirty swap. So a worn block is
//! spared until its new data have shown whether they are cold.
//!
//! Decision: only the block that was just erased is considered as the worn block of a dirty swap. It is empty then, so
//! a swap costs only the copies and the erase of the cold block. Other worn blocks have not become more worn, and are
//! checked when they are erased next. At the beginning, and after a power loss (nothing of this state is on flash),
//! blocks are assigned to the two pools by block number; the resizes correct this.
//!
//! The price: 16 bytes of RAM per block (two counts, and positions in two ordered queues), O(log blocks) per erase, and
//! the copies of one block per swap.

use std::collections::BTreeSet;

use crate::address::BlockId;
use crate::nand::Nand;
use crate::store::{BlockState, FlashPageStore};

/// Bytes of controller RAM that dual-pool wear leveling needs per block of the device.
pub(crate) const RAM_BYTES_PER_BLOCK: u64 = 16;

/// State of one block in dual-pool wear leveling: its erase counts, and whether it is in the hot or the cold pool.
#[derive(Clone, Copy, Debug)]
struct BlockWear {
    /// Number of erases of the block.
    erases: u32,
    /// Number of erases of the block since it last took part in a dirty swap (exchange of a worn and a cold block).
    effective_erases: u32,
    /// Whether the block is in the hot pool; otherwise it is in the cold pool.
    is_in_hot_pool: bool,
}

/// Blocks of one hot or cold pool of dual-pool wear leveling, in two orders: by erases, and by effective erases (erases
/// since the last dirty swap).
#[derive(Clone, Debug, Default)]
struct BlockQueues {
    /// Erase count and number of each block, lowest count first.
    blocks_by_erases: BTreeSet<(u32, BlockId)>,
    /// For each block, its number of erases since the last dirty swap (exchange of a worn block of the hot pool with a
    /// little worn one of the cold pool) and its block number; fewest erases first.
    blocks_by_effective_erases: BTreeSet<(u32, BlockId)>,
}

impl BlockQueues {
    /// Adds `block`, whose wear is `entry`, to the queue by erase count and to the queue by erases since the last swap.
    fn insert(&mut self, block: BlockId, entry: BlockWear) {
        self.blocks_by_erases.insert((entry.erases, block));
        self.blocks_by_effective_erases.insert((entry.effective_erases, block));
    }

    /// Removes `block`, whose wear is `entry`, from the queue by erase count and from the queue by erases since the
    /// last swap.
    fn remove(&mut self, block: BlockId, entry: BlockWear) {
        self.blocks_by_erases.remove(&(entry.erases, block));
        self.blocks_by_effective_erases.remove(&(entry.effective_erases, block));
    }
}

/// State of dual-pool wear leveling: a hot and a cold pool of blocks for each set of planes.
#[derive(Clone, Debug)]
pub(crate) struct DualPool {
    /// Threshold of all three rules of dual-pool wear leveling, in erases (TH in Chang's paper, SAC 2007).
    threshold_erases: u32,
    /// Erase counts and pool of each block, by block number.
    wear_of_block: Vec<BlockWear>,
    /// Blocks of the hot pool of each set of planes.
    hot_queues: Vec<BlockQueues>,
    /// Blocks of the cold pool of each set of planes.
    cold_queues: Vec<BlockQueues>,
    /// Number of pools in which blocks are allocated (sets of planes), each with a hot and a cold pool.
    allocation_pool_count: u32,
}

impl DualPool {
    /// Creates the hot and cold pools of dual-pool wear leveling. At first, every second block of each set of planes is
    /// in the hot pool.
    pub(crate) fn new(store: &FlashPageStore, threshold: u32) -> Self {
        let (blocks, pools) = (store.blocks().len(), store.allocation_pools());
        let entry = |block: BlockId| BlockWear {
            erases: store.nand().erase_count(block),
            effective_erases: 0,
            is_in_hot_pool: (block.0 / pools).is_multiple_of(2),
        };
        let mut new = Self {
            threshold_erases: threshold,
            wear_of_block: (0..blocks).map(|block| entry(BlockId(block))).collect(),
            hot_queues: vec![BlockQueues::default(); pools as usize],
            cold_queues: vec![BlockQueues::default(); pools as usize],
            allocation_pool_count: pools,
        };
        let in_use = |&block: &BlockId| store.blocks().state(block) != BlockState::Retired;
        (0..blocks).map(BlockId).filter(in_use).for_each(|block| new.insert(block));
        new
    }

    /// Returns the hot or cold pool that has `block`, and the wear of the block.
    fn queues_of_block(&mut self, block: BlockId) -> (&mut BlockQueues, BlockWear) {
        let (entry, pool) =
            (self.wear_of_block[block.index()], (block.0 % self.allocation_pool_count) as usize);
        (if entry.is_in_hot_pool { &mut self.hot_queues[pool] } else { &mut self.cold_queues[pool] }, entry)
    }

    /// Adds `block` to the hot or cold pool that its wear record names.
    fn insert(&mut self, block: BlockId) {
        let (queues, entry) = self.queues_of_block(block);
        queues.insert(block, entry);
    }

    /// Removes `block` from its hot or cold pool.
    fn remove(&mut self, block: BlockId) {
        let (queues, entry) = self.queues_of_block(block);
        queues.remove(block, entry);
    }

    /// Moves `block` to the hot pool of dual-pool wear leveling if `is_hot`, otherwise to the cold pool.
    fn move_to_hot_or_cold_pool(&mut self, block: BlockId, is_hot: bool) {
        self.remove(block);
        self.wear_of_block[block.index()].is_in_hot_pool = is_hot;
        self.insert(block);
    }

    /// Counts an erase of `block`, and applies the two resize rules of dual-pool wear leveling to the hot and the cold
    /// pool of its set of planes. A retired block is removed from its pool.
    pub(crate) fn count_erase(&mut self, store: &FlashPageStore, block: BlockId) {
        self.remove(block);
        if store.blocks().state(block) == BlockState::Retired {
            return;
        }
        let entry = &mut self.wear_of_block[block.index()];
        entry.erases = store.nand().erase_count(block);
        entry.effective_erases += 1;
        self.insert(block);
        self.apply_resize_rules(block.0 % self.allocation_pool_count);
    }

    /// Applies the two resize rules of dual-pool wear leveling to a set of planes: moves a cold block that is erased
    /// often to the hot pool, and a hot block that is erased rarely to the cold pool.
    fn apply_resize_rules(&mut self, pool: u32) {
        if let Some(block) = self.often_erased_cold_block(pool as usize) {
            self.move_to_hot_or_cold_pool(block, true);
        }
        if let Some(block) = self.rarely_erased_hot_block(pool as usize) {
            self.move_to_hot_or_cold_pool(block, false);
        }
    }

    /// Returns the cold block that the rule *cold pool resize* moves to the hot pool, because it is erased too often
    /// for a cold block; `None` if there is no such block.
    fn often_erased_cold_block(&self, pool: usize) -> Option<BlockId> {
        let &(most, block) = self.cold_queues[pool].blocks_by_effective_erases.last()?;
        let &(least, _) = self.hot_queues[pool].blocks_by_effective_erases.first()?;
        (most > least.saturating_add(self.threshold_erases)).then_some(block)
    }

    /// Returns the hot block that the rule *hot pool resize* moves to the cold pool, because it is erased too rarely
    /// for a hot block; `None` if there is no such block.
    fn rarely_erased_hot_block(&self, pool: usize) -> Option<BlockId> {
        let &(most, _) = self.hot_queues[pool].blocks_by_erases.last()?;
        let &(least, block) = self.hot_queues[pool].blocks_by_erases.first()?;
        (most - least > self.threshold_erases.saturating_mul(2)).then_some(block)
    }

    /// Returns the cold block whose data a dirty swap moves to the block `worn`, which was just erased; `None` if no
    /// swap is due. Removes retired blocks that it finds from the cold pool.
    pub(crate) fn choose_swap_block(&mut self, store: &FlashPageStore, worn: BlockId) -> Option<BlockId> {
        let BlockWear { erases, is_in_hot_pool, .. } = self.wear_of_block[worn.index()];
        if !is_in_hot_pool || store.blocks().state(worn) != BlockState::Free {
            return None;
        }
        let most = erases.checked_sub(self.threshold_erases)?;
        loop {
            let pool = (worn.0 % self.allocation_pool_count) as usize;
            let behind =
                self.cold_queues[pool].blocks_by_erases.range(..(most, BlockId(0))).map(|&(_, block)| block);
            let mut settled = behind.filter(|&block| {
                matches!(store.blocks().state(block), BlockState::Closed | BlockState::Retired)
            });
            let block = settled.next()?;
            if store.blocks().state(block) == BlockState::Closed {
                return Some(block);
            }
            self.remove(block);
        }
    }

    /// Moves the block `worn` to the cold pool and the block `cold` to the hot pool, after the data of `cold` were
    /// moved to `worn`.
    pub(crate) fn record_swap(&mut self, worn: BlockId, cold: BlockId) {
        for (block, is_hot) in [(worn, false), (cold, true)] {
            let (queues, entry) = self.queues_of_block(block);
            // A retired block is in no queue.
            let is_queued = queues.blocks_by_erases.contains(&(entry.erases, block));
            queues.remove(block, entry);
            let entry = &mut self.wear_of_block[block.index()];
            (entry.effective_erases, entry.is_in_hot_pool) = (0, is_hot);
            if is_queued {
                self.insert(block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns hot and cold pools of eight blocks, of which the even ones are hot. `erases` holds the erase counts of
    /// the blocks, all counted since the last dirty swap.
    fn dual_pool_with_erases(erases: [u32; 8], threshold: u32) -> DualPool {
        let entry = |(number, erases): (usize, u32)| BlockWear {
            erases,
            effective_erases: erases,
            is_in_hot_pool: number.is_multiple_of(2),
        };
        let entries = erases.into_iter().enumerate().map(entry).collect();
        let mut pools = DualPool {
            threshold_erases: threshold,
            wear_of_block: entries,
            hot_queues: vec![BlockQueues::default()],
            cold_queues: vec![BlockQueues::default()],
            allocation_pool_count: 1,
        };
        (0..8).map(BlockId).for_each(|block| pools.insert(block));
        pools
    }

    /// Returns the numbers of the blocks in the hot pool, least worn first.
    fn hot_blocks(pools: &DualPool) -> Vec<u32> {
        pools.hot_queues[0].blocks_by_erases.iter().map(|&(_, block)| block.0).collect()
    }

    #[test]
    fn dual_pool_leveling_moves_an_often_erased_cold_block_to_the_hot_pool() {
        let mut pools = dual_pool_with_erases([2, 7, 3, 2, 4, 3, 5, 2], 5);
        pools.apply_resize_rules(0);
        assert_eq!(hot_blocks(&pools), [0, 2, 4, 6], "7 is no more than 2 + 5");
        let mut pools = dual_pool_with_erases([2, 8, 3, 2, 4, 3, 5, 2], 5);
        pools.apply_resize_rules(0);
        assert_eq!(hot_blocks(&pools), [0, 2, 4, 6, 1]);
    }

    #[test]
    fn dual_pool_leveling_moves_a_never_erased_hot_block_to_the_cold_pool() {
        let mut pools = dual_pool_with_erases([2, 3, 3, 2, 4, 3, 12, 2], 5);
        pools.apply_resize_rules(0);
        assert_eq!(hot_blocks(&pools), [0, 2, 4, 6], "12 is no more than 2 + 2 x 5");
        let mut pools = dual_pool_with_erases([2, 3, 3, 2, 4, 3, 13, 2], 5);
        pools.apply_resize_rules(0);
        assert_eq!(hot_blocks(&pools), [2, 4, 6]);
    }

    #[test]
    fn a_dual_pool_swap_exchanges_the_pools_of_two_blocks_and_resets_their_erase_counts() {
        let mut pools = dual_pool_with_erases([2, 3, 3, 2, 4, 3, 12, 2], 5);
        pools.record_swap(BlockId(6), BlockId(3));
        assert_eq!(hot_blocks(&pools), [0, 3, 2, 4]);
        for block in [6, 3] {
            assert_eq!(pools.wear_of_block[block].effective_erases, 0);
        }
        assert_eq!(pools.cold_queues[0].blocks_by_effective_erases.first(), Some(&(0, BlockId(6))));
    }
}
