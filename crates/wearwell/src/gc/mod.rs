//! Garbage collection (GC): when it runs, which blocks it collects, and wear leveling.
//!
//! GC runs before a host operation starts, never inside a part of the FTL, and never recurses. It leaves at least one
//! free block in every pool (a plane, or a set of planes for superblocks), because the next collection needs one. Each
//! victim frees at least one page, so a collection that is needed always ends.

mod collect;
mod dual_pool;
mod referrers;
mod user_policy;
mod victim;
mod wear_scan;

use dual_pool::DualPool;
pub use user_policy::{ChooseVictim, UserVictimPolicy, VictimCandidate, VictimCandidates};
pub use victim::{VictimChooser, VictimPolicy};
use wear_scan::WearScan;

use crate::address::{BlockId, Lpn, Ppn};
use crate::nand::Nand;
pub use crate::store::GreedyTieBreak;
use crate::store::{BlockState, FlashPageStore, FreeBlockOrder, GC_RESERVE_BLOCKS};

/// Options of garbage collection and wear leveling of a device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GcOptions {
    /// Policy that chooses the blocks that GC collects.
    pub policy: VictimPolicy,
    /// Number of free blocks at or below which GC collects a pool (set of planes) before a host write to this pool; at
    /// least [`GC_RESERVE_BLOCKS`].
    pub gc_start_free_blocks: u32,
    /// Number of free blocks of a pool (set of planes) at or below which GC uses the greedy policy instead of the
    /// configured one; less than [`Self::gc_start_free_blocks`]. A pool has so few only if the device is nearly full,
    /// failing or just recovered. The victim must then have few enough valid pages that their copies fit into the pool.
    pub urgent_gc_up_to_free_blocks: u32,
    /// Number of free blocks of a pool (set of planes) below which GC collects the pool in idle time; 0 means no
    /// background GC.
    pub background_gc_below_free_blocks: u32,
    /// Rule by which the greedy policy chooses among several blocks with the fewest valid pages.
    pub tie_break: GreedyTieBreak,
    /// Rule by which GC collects blocks of metadata (translation pages, page validity).
    pub metadata_gc: MetadataGcRule,
    /// Whether successive pages of a stream of metadata visit the pools (sets of planes) in turn, as those of data do.
    /// Otherwise the stream fills a block of one pool, and then one of the pool with the most free blocks.
    pub stripes_metadata: bool,
    /// Options of wear leveling.
    pub wear: WearOptions,
    /// Seed of the random generator for victim policies with random choices.
    pub seed: u64,
}

impl Default for GcOptions {
    fn default() -> Self {
        Self {
            policy: VictimPolicy::Greedy,
            gc_start_free_blocks: GC_RESERVE_BLOCKS + 1,
            urgent_gc_up_to_free_blocks: GC_RESERVE_BLOCKS,
            background_gc_below_free_blocks: 0,
            tie_break: GreedyTieBreak::default(),
            metadata_gc: MetadataGcRule::default(),
            stripes_metadata: false,
            wear: WearOptions::default(),
            seed: 1,
        }
    }
}

/// Rule by which GC treats blocks of metadata (translation pages, page validity).
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum MetadataGcRule {
    /// GC collects blocks of metadata (translation pages, page validity) like any other blocks.
    #[default]
    Greedy,
    /// GC collects blocks of metadata only when all their pages are invalid (GeckoFTL, section 4.2), because valid
    /// pages of metadata will soon be invalid, too. There are two exceptions, in which GC collects the metadata block
    /// with the fewest valid pages: metadata occupies more than the given share of all blocks, or no other block can be
    /// collected.
    WhenAllPagesInvalid {
        /// Share of all blocks (0 to 1) that metadata may occupy before GC collects metadata blocks with valid pages.
        max_metadata_block_share: f64,
    },
}

/// Options of wear leveling; by default all of it is off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WearOptions {
    /// Whether the FTL opens free blocks by their erase counts (dynamic wear leveling): the least worn for host data,
    /// the most worn for cold copies.
    pub levels_wear_dynamically: bool,
    /// Gap of static wear leveling, in erases: a closed block is moved if its erase count is lower than the maximum
    /// erase count in its pool (set of planes) by more than this number. 0 turns static wear leveling off.
    pub static_gap_erases: u32,
    /// Whether static wear leveling finds little-worn blocks by reading erase counts from spare areas in rotation, one
    /// per flash write, instead of from a table of erase counts in RAM.
    pub scans_erase_counts: bool,
    /// Threshold of dual-pool wear leveling (Chang, SAC 2007), in erases: if the erase counts of a worn and a cold
    /// block differ by more, the data of the cold block move to the worn one. 0 turns it off. Excludes static wear
    /// leveling.
    pub dual_pool_gap_erases: u32,
}

impl WearOptions {
    /// Returns the bytes of RAM that wear leveling needs on a device of `blocks` blocks, as one pair of name and bytes
    /// per data structure.
    pub fn ram_bytes_by_structure(self, blocks: u32) -> Vec<(&'static str, u64)> {
        let blocks = u64::from(blocks);
        let has_scan = self.scans_erase_counts && self.static_gap_erases > 0;
        let counts = self.levels_wear_dynamically || self.static_gap_erases > 0 && !self.scans_erase_counts;
        let structures = [
            ("wear scan", has_scan, wear_scan::WEAR_SCAN_RAM_BYTES),
            ("erase counts", counts && self.dual_pool_gap_erases == 0, 4 * blocks),
            ("dual pool", self.dual_pool_gap_erases > 0, dual_pool::RAM_BYTES_PER_BLOCK * blocks),
        ];
        structures.into_iter().filter(|s| s.1).map(|(name, _, bytes)| (name, bytes)).collect()
    }

    /// Returns the order in which the store opens free blocks.
    pub(crate) fn free_block_order(self) -> FreeBlockOrder {
        if self.levels_wear_dynamically { FreeBlockOrder::ByWear } else { FreeBlockOrder::Fifo }
    }
}

/// Batch of pages that GC copies out of a victim: their PPNs, one owner each (an LPN mapped to the page, or the number
/// of a metadata page), and the PPNs of the copies.
#[derive(Clone, Debug, Default)]
pub(crate) struct CopyBatch {
    /// Pages of the victim that are copied.
    pub(crate) source_pages: Vec<Ppn>,
    /// Owner of each source page: a logical page that is mapped to it, or the number of a metadata page.
    pub(crate) owners: Vec<Lpn>,
    /// Copies of the source pages, in the same order; fewer than these while copying is incomplete.
    pub(crate) destination_pages: Vec<Ppn>,
    /// Logical pages whose page in the victim is not copied, because the map knows a newer version of it. Empty except
    /// with a lazy map, which learns late which pages became invalid.
    pub(crate) lpns_with_newer_version: Vec<Lpn>,
}

impl CopyBatch {
    /// Empties the batch, but keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.source_pages.clear();
        self.owners.clear();
        self.destination_pages.clear();
        self.lpns_with_newer_version.clear();
    }
}

/// State of garbage collection that is kept from one victim to the next.
#[derive(Clone, Debug)]
pub(crate) struct GarbageCollector {
    /// Options of garbage collection and wear leveling.
    pub(crate) options: GcOptions,
    /// Chooser of victims by the configured policy.
    pub(crate) victim_chooser: VictimChooser,
    /// User-supplied victim policy, which is queried before `victim_chooser`; `None` if there is none.
    pub(crate) user_policy: Option<UserVictimPolicy>,
    /// Batch of pages to be copied out of the current victim; kept between victims so that its vectors are not
    /// allocated anew.
    pub(crate) batch: CopyBatch,
    /// Number of victims to be collected until static wear leveling searches a pool (set of planes) again for
    /// little-worn blocks.
    victims_until_wear_search: u32,
    /// State of the scan of erase counts in spare areas, by which static wear leveling finds little-worn blocks.
    wear_scan: WearScan,
    /// State of dual-pool wear leveling; `None` if it is off or no victim was erased yet.
    pub(crate) dual_pool: Option<Box<DualPool>>,
}

impl GarbageCollector {
    /// Creates the state of garbage collection. Raises or lowers thresholds of `options` that are out of range.
    pub(crate) fn new(options: GcOptions) -> Self {
        let gc_start_free_blocks = options.gc_start_free_blocks.max(GC_RESERVE_BLOCKS);
        let urgent_blocks = options.urgent_gc_up_to_free_blocks.min(gc_start_free_blocks - 1);
        let options =
            GcOptions { gc_start_free_blocks, urgent_gc_up_to_free_blocks: urgent_blocks, ..options };
        Self {
            victim_chooser: VictimChooser::new(options.policy, options.seed),
            user_policy: None,
            options,
            batch: CopyBatch::default(),
            victims_until_wear_search: 0,
            wear_scan: WearScan::default(),
            dual_pool: None,
        }
    }

    /// Counts the erase of `block` for dual-pool wear leveling. Returns the cold block whose data must be moved to
    /// `block`; `None` if no swap is due.
    pub(crate) fn count_erase_and_choose_swap_block(
        &mut self,
        store: &FlashPageStore,
        block: BlockId,
    ) -> Option<BlockId> {
        let threshold = self.options.wear.dual_pool_gap_erases;
        if threshold == 0 {
            return None;
        }
        let pools = self.dual_pool.get_or_insert_with(|| Box::new(DualPool::new(store, threshold)));
        pools.count_erase(store, block);
        pools.choose_swap_block(store, block)
    }

    /// Records for dual-pool wear leveling that the data of block `cold` were moved to block `worn` and `cold` was
    /// erased.
    pub(crate) fn record_swap(&mut self, store: &FlashPageStore, worn: BlockId, cold: BlockId) {
        let pools = self.dual_pool.as_mut().expect("the swap was due");
        pools.count_erase(store, cold);
        pools.record_swap(worn, cold);
    }

    /// Returns the block of `pool` (set of planes) that static wear leveling requires to be moved; `None` if there is
    /// none. With a table of erase counts in RAM, the blocks are searched only once in N + 1 calls for any pool, where N
    /// is 1/32 of the pool's blocks.
    pub(crate) fn find_block_to_move_for_wear(
        &mut self,
        store: &mut FlashPageStore,
        pool: u32,
    ) -> Option<BlockId> {
        let WearOptions { static_gap_erases, scans_erase_counts: scan, .. } = self.options.wear;
        if static_gap_erases == 0 {
            return None;
        }
        if scan {
            return self.wear_scan.scan_for_block_to_move(store, pool, static_gap_erases);
        }
        if self.victims_until_wear_search > 0 {
            self.victims_until_wear_search -= 1;
            return None;
        }
        self.victims_until_wear_search = store.blocks().len() / store.allocation_pools() / 32;
        let wear = |&block: &BlockId| store.nand().erase_count(block);
        let in_use = |&block: &BlockId| store.blocks().state(block) != BlockState::Retired;
        let most = store.blocks().blocks_of_pool(pool).filter(in_use).map(|b| wear(&b)).max()?;
        let closed = |&block: &BlockId| store.blocks().state(block) == BlockState::Closed;
        let coldest = store.blocks().blocks_of_pool(pool).filter(closed).min_by_key(wear)?;
        (most - wear(&coldest) > self.options.wear.static_gap_erases).then_some(coldest)
    }
}
