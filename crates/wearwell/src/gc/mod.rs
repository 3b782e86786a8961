//! Garbage collection: when it runs, what it takes, and wear leveling beside it.
//!
//! GC runs before a host operation starts, never inside a part, and never recurses. It leaves every pool with one
//! free block at least, which is what the next collection needs; each victim gives back at least one page, so a
//! collection that is needed always ends.

mod collect;
mod dual_pool;
mod own_policy;
mod referrers;
mod victim;
mod wear_scan;

use dual_pool::DualPool;
pub use own_policy::{Candidate, Candidates, ChooseVictim, OwnPolicy};
pub use victim::{Chooser, VictimPolicy};
use wear_scan::WearScan;

use crate::address::{BlockId, Lpn, Ppn};
use crate::error::{Error, Result};
use crate::nand::Nand;
pub use crate::store::Ties;
use crate::store::{BlockState, FreeOrder, RESERVE_BLOCKS, Store};

/// When and how to collect.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GcOptions {
    /// How victims are chosen.
    pub policy: VictimPolicy,
    /// A pool at or below this many free blocks is collected before a host write goes to it; at least
    /// [`RESERVE_BLOCKS`].
    pub low_blocks: u32,
    /// With at most this many free blocks, and fewer than `low_blocks`, every policy falls back to greedy: only a
    /// device that is nearly full, failing or just recovered comes so low, and then the next copies must fit.
    pub urgent_blocks: u32,
    /// A pool below this many free blocks is collected in idle time; 0 = no background GC.
    pub background_blocks: u32,
    /// Which of the blocks with the fewest valid pages is taken.
    pub ties: Ties,
    /// What happens to blocks of metadata.
    pub metadata: MetadataGc,
    /// Wear leveling.
    pub wear: WearOptions,
    /// Seed of random policies.
    pub seed: u64,
}

impl Default for GcOptions {
    fn default() -> Self {
        Self {
            policy: VictimPolicy::Greedy,
            low_blocks: RESERVE_BLOCKS + 1,
            urgent_blocks: RESERVE_BLOCKS,
            background_blocks: 0,
            ties: Ties::default(),
            metadata: MetadataGc::default(),
            wear: WearOptions::default(),
            seed: 1,
        }
    }
}

/// What happens to blocks of metadata (translation pages, page validity).
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum MetadataGc {
    /// They are victims like any other.
    #[default]
    Greedy,
    /// They are left alone until all their pages are obsolete (GeckoFTL, section 4.2): metadata is hot, and what is valid
    /// will not be so for long. As cold pages could pin most of them, the emptiest are collected all the same while
    /// metadata has more than `share` of all blocks, and when nothing else can be collected.
    WhenEmpty {
        /// Share of all blocks.
        share: f64,
    },
}

/// Wear leveling.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WearOptions {
    /// Dynamic: free blocks are opened by wear (least worn for host data, most worn for cold copies).
    pub dynamic: bool,
    /// Static: a closed block that is this many erases behind the pool's most worn one is moved; 0 = off.
    pub static_gap: u32,
    /// Whether static leveling finds blocks by reading spare areas round and round, one per flash write, instead of a
    /// table of erase counts in RAM.
    pub scan: bool,
    /// Threshold of dual-pool leveling, erases (Chang, SAC 2007); 0 = off. It takes the place of static leveling.
    pub dual_pool_gap: u32,
}

impl WearOptions {
    /// Refuses two ways of moving cold data at once.
    pub(crate) fn check(self) -> Result<()> {
        let both = self.static_gap > 0 && self.dual_pool_gap > 0;
        let refusal = "static and dual-pool wear leveling exclude each other: one of the two thresholds is 0";
        if both { Err(Error::Options(refusal.into())) } else { Ok(()) }
    }

    /// Bytes of RAM that a controller with so many blocks holds for wear leveling, by structure.
    pub fn ram_bytes(self, blocks: u32) -> Vec<(&'static str, u64)> {
        let blocks = u64::from(blocks);
        let has_scan = self.scan && self.static_gap > 0;
        let counts = self.dynamic || self.static_gap > 0 && !self.scan;
        let structures = [
            ("wear scan", has_scan, wear_scan::RAM_BYTES),
            ("erase counts", counts && self.dual_pool_gap == 0, 4 * blocks),
            ("dual pool", self.dual_pool_gap > 0, dual_pool::BLOCK_RAM_BYTES * blocks),
        ];
        structures.into_iter().filter(|s| s.1).map(|(name, _, bytes)| (name, bytes)).collect()
    }

    pub(crate) fn free_order(self) -> FreeOrder {
        if self.dynamic { FreeOrder::ByWear } else { FreeOrder::Fifo }
    }
}

/// Live pages of a victim: where they are, who refers to them (LPNs, or numbers of metadata pages), and where the
/// copies are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) from: Vec<Ppn>,
    pub(crate) owners: Vec<Lpn>,
    pub(crate) to: Vec<Ppn>,
    /// Owners of pages that are left behind because a lazy map knows a newer version.
    pub(crate) superseded: Vec<Lpn>,
}

impl Batch {
    pub(crate) fn clear(&mut self) {
        self.from.clear();
        self.owners.clear();
        self.to.clear();
        self.superseded.clear();
    }
}

/// State of garbage collection between victims.
#[derive(Clone, Debug)]
pub(crate) struct Collector {
    pub(crate) options: GcOptions,
    pub(crate) chooser: Chooser,
    /// Asked before `chooser`, if there is one.
    pub(crate) own: Option<OwnPolicy>,
    /// The victim in hand; kept for its allocations.
    pub(crate) batch: Batch,
    /// Victims until static wear leveling looks at a pool again.
    wear_countdown: u32,
    wear_scan: WearScan,
    /// Made at the first erase that dual-pool leveling looks at.
    pub(crate) dual_pool: Option<Box<DualPool>>,
}

impl Collector {
    pub(crate) fn new(options: GcOptions) -> Self {
        let low_blocks = options.low_blocks.max(RESERVE_BLOCKS);
        let urgent_blocks = options.urgent_blocks.min(low_blocks - 1);
        let options = GcOptions { low_blocks, urgent_blocks, ..options };
        Self {
            chooser: Chooser::new(options.policy, options.seed),
            own: None,
            options,
            batch: Batch::default(),
            wear_countdown: 0,
            wear_scan: WearScan::default(),
            dual_pool: None,
        }
    }

    /// Dual-pool leveling counts the erase of `block`; returns the cold block whose data have to move to it.
    pub(crate) fn due_swap<N: Nand>(&mut self, store: &Store<N>, block: BlockId) -> Option<BlockId> {
        let threshold = self.options.wear.dual_pool_gap;
        if threshold == 0 {
            return None;
        }
        let pools = self.dual_pool.get_or_insert_with(|| Box::new(DualPool::new(store, threshold)));
        pools.note_erased(store, block);
        pools.due_swap(store, block)
    }

    /// The data of `cold` were moved to `worn`, and `cold` was erased.
    pub(crate) fn swapped<N: Nand>(&mut self, store: &Store<N>, worn: BlockId, cold: BlockId) {
        let pools = self.dual_pool.as_mut().expect("the swap was due");
        pools.note_erased(store, cold);
        pools.swap(worn, cold);
    }

    /// The block that static wear leveling wants moved. With a table of erase counts it is looked for once per 1/32 of
    /// the pool's blocks collected.
    pub(crate) fn coldest_block<N: Nand>(&mut self, store: &mut Store<N>, pool: u32) -> Option<BlockId> {
        let WearOptions { static_gap, scan, .. } = self.options.wear;
        if static_gap == 0 {
            return None;
        }
        if scan {
            return self.wear_scan.coldest_block(store, pool, static_gap);
        }
        if self.wear_countdown > 0 {
            self.wear_countdown -= 1;
            return None;
        }
        self.wear_countdown = store.blocks().len() / store.pools() / 32;
        let wear = |&block: &BlockId| store.nand().erase_count(block);
        let in_use = |&block: &BlockId| store.blocks().state(block) != BlockState::Retired;
        let most = store.blocks().of_pool(pool).filter(in_use).map(|b| wear(&b)).max()?;
        let closed = |&block: &BlockId| store.blocks().state(block) == BlockState::Closed;
        let coldest = store.blocks().of_pool(pool).filter(closed).min_by_key(wear)?;
        (most - wear(&coldest) > self.options.wear.static_gap).then_some(coldest)
    }
}
