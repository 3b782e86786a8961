//! Victim policies: which block GC collects next.
//!
//! A policy is a pure choice from the block table: it moves no page and accesses no flash. The policies are greedy
//! (fewest valid pages), cost-benefit (Kawaguchi, Nishioka, Motoda, USENIX 1995), d random choices (Van Houdt,
//! SIGMETRICS 2013), FIFO (Desnoyers, SYSTOR 2012), most dead bytes (for blocks of deltas), and RC-GC of the Recyclable
//! SSD paper, which spares blocks whose dead pages are likely to be revived.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::address::BlockId;
use crate::nand::PageKind;
use crate::store::{BlockState, BlockTable};

/// Policy by which GC chooses the block to collect (the victim).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum VictimPolicy {
    /// Collects the block with the fewest valid pages. Amortised O(1).
    #[default]
    Greedy,
    /// Collects the block with the largest `(1 - u) / 2u * age`, where `u` is the share of its pages that are valid and
    /// `age` the number of flash programs since the block was closed. O(blocks of the pool) per victim: meant for pools
    /// of thousands of blocks, not millions.
    CostBenefit,
    /// Collects the block with the fewest valid pages among d random closed blocks; d = 1 is random cleaning. O(d).
    DChoices {
        /// Number of random closed blocks, of which the one with the fewest valid pages is collected.
        random_candidates: u32,
    },
    /// Collects the block that was closed (filled) first: first in, first out. Amortised O(1).
    Fifo,
    /// Collects the block with the most dead bytes. A valid page of deltas counts as partly dead if some of its deltas
    /// are dead; otherwise the policy equals greedy. (Delta-FTL, section 3.4, has one policy for data and delta blocks,
    /// but does not define how they are compared; this is our definition.) O(blocks of the pool), plus the deltas in
    /// them.
    DeadBytes,
    /// Collects the block with the largest dirtiness: the sum over its dead pages of 1 minus the probability that the
    /// page is revived by a write of its content (LX, equation 5). The dead share of a page of deltas is added. O(n log
    /// n) in the blocks of the pool (set of planes), plus the dead pages and deltas of the blocks that can still win.
    RecycleAware,
}

/// Chooser of GC victims by one victim policy; holds the random generator of the policy.
#[derive(Clone, Debug)]
pub struct VictimChooser {
    /// Policy by which victims are chosen.
    policy: VictimPolicy,
    /// Random generator of policies that draw blocks at random.
    random_generator: Xoshiro256PlusPlus,
}

impl VictimChooser {
    /// Creates a chooser of GC victims by `policy`. `seed` determines all its random choices.
    pub fn new(policy: VictimPolicy, seed: u64) -> Self {
        Self { policy, random_generator: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// Returns the policy by which GC victims are chosen.
    pub fn policy(&self) -> VictimPolicy {
        self.policy
    }

    /// Returns the closed block of `pool` (set of planes) that GC is to collect; `None` if no closed block has an
    /// invalid page. `now_sequence` is the newest sequence number, from which the ages of blocks are computed.
    /// `dirtiness` returns the weight of a block's dead pages, given the number of its invalid pages. Only
    /// [`VictimPolicy::RecycleAware`] uses it, and [`VictimPolicy::DeadBytes`] for blocks of deltas.
    /// `may_have_delta_blocks` is whether blocks of deltas may exist.
    pub fn choose(
        &mut self,
        blocks: &mut BlockTable,
        pool: u32,
        now_sequence: u64,
        may_have_delta_blocks: bool,
        dirtiness: impl Fn(BlockId, u32) -> f64,
    ) -> Option<BlockId> {
        match self.policy {
            VictimPolicy::Greedy => blocks.block_with_fewest_valid_pages(pool),
            VictimPolicy::CostBenefit => cost_benefit_victim(blocks, pool, now_sequence),
            VictimPolicy::DChoices { random_candidates: d } => self.best_of_random_blocks(blocks, pool, d),
            VictimPolicy::Fifo => blocks
                .oldest_closed_block(pool)
                .filter(|_| blocks.block_with_fewest_valid_pages(pool).is_some()),
            VictimPolicy::DeadBytes => block_with_most_dead_bytes(blocks, pool, dirtiness),
            VictimPolicy::RecycleAware => dirtiest_block(blocks, pool, may_have_delta_blocks, dirtiness),
        }
    }

    /// Returns the blocks of `pool` (set of planes) that the policy would examine to choose a victim, each with the
    /// figure by which it ranks them. For [`VictimPolicy::DeadBytes`] and [`VictimPolicy::RecycleAware`], returns all
    /// candidates, although the search may end earlier. Random draws advance the generator of this chooser, which
    /// therefore has to be a copy. O(blocks of the pool).
    pub(crate) fn score_candidates(
        &mut self,
        blocks: &BlockTable,
        pool: u32,
        now_sequence: u64,
        dirtiness: impl Fn(BlockId, u32) -> f64,
    ) -> Vec<(BlockId, f64)> {
        let valid = |block: BlockId| (block, f64::from(blocks.valid_pages(block)));
        let invalid = |block: BlockId| blocks.max_valid_pages_per_block() - blocks.valid_pages(block);
        let closed = blocks.blocks_of_pool(pool).filter(|&block| blocks.is_gc_candidate(block));
        match self.policy {
            VictimPolicy::Greedy => closed.map(valid).collect(),
            VictimPolicy::CostBenefit => {
                closed.map(|block| (block, benefit_over_cost(blocks, block, now_sequence))).collect()
            }
            VictimPolicy::DChoices { random_candidates: d } => {
                (0..d.max(1)).filter_map(|_| self.random_closed_block(blocks, pool)).map(valid).collect()
            }
            VictimPolicy::Fifo => {
                closed.map(|block| (block, blocks.closed_at_sequence(block) as f64)).collect()
            }
            VictimPolicy::DeadBytes => closed
                .map(|block| (block, dead_page_count_with_delta_shares(blocks, block, &dirtiness)))
                .collect(),
            VictimPolicy::RecycleAware => {
                closed.map(|block| (block, dirtiness(block, invalid(block)))).collect()
            }
        }
    }

    /// Returns the block with the fewest valid pages among `d` random closed blocks of `pool` (set of planes). This
    /// block may have no invalid page, which is the cost of random cleaning. `None` only if no block of the pool has an
    /// invalid page.
    fn best_of_random_blocks(&mut self, blocks: &mut BlockTable, pool: u32, d: u32) -> Option<BlockId> {
        let best = (0..d.max(1))
            .filter_map(|_| self.random_closed_block(blocks, pool))
            .min_by_key(|&b| blocks.valid_pages(b))?;
        let gains = blocks.valid_pages(best) < blocks.max_valid_pages_per_block()
            || blocks.block_with_fewest_valid_pages(pool).is_some();
        gains.then_some(best)
    }

    /// Returns a random closed block of `pool` (set of planes); `None` if the pool has no closed block.
    fn random_closed_block(&mut self, blocks: &BlockTable, pool: u32) -> Option<BlockId> {
        let size = (blocks.len() - pool).div_ceil(blocks.allocation_pools());
        // Nearly every block is closed; if 64 draws find none, the pool is nearly empty.
        let draws = (0..64)
            .map(|_| BlockId(pool + self.random_generator.random_range(0..size) * blocks.allocation_pools()));
        let found = draws.into_iter().find(|&b| blocks.state(b) == BlockState::Closed);
        found.or_else(|| blocks.blocks_of_pool(pool).find(|&b| blocks.state(b) == BlockState::Closed))
    }
}

/// Returns the figure by which the cost-benefit policy ranks a block: `(1 - u) / 2u * age`, where `u` is the share of
/// valid pages and `age` the number of flash programs since the block was closed, plus one. Infinite for a block
/// without valid pages.
fn benefit_over_cost(blocks: &BlockTable, block: BlockId, now_sequence: u64) -> f64 {
    let used = blocks.valid_pages(block) as f64 / blocks.max_valid_pages_per_block() as f64;
    let age = (now_sequence - blocks.closed_at_sequence(block)) as f64 + 1.0;
    if used == 0.0 { f64::INFINITY } else { (1.0 - used) / (2.0 * used) * age }
}

/// Returns the block of `pool` (set of planes) that the cost-benefit policy collects; `None` if no closed block has an
/// invalid page.
fn cost_benefit_victim(blocks: &BlockTable, pool: u32, now_sequence: u64) -> Option<BlockId> {
    let score = |block: BlockId| benefit_over_cost(blocks, block, now_sequence);
    blocks
        .blocks_of_pool(pool)
        .filter(|&b| {
            blocks.state(b) == BlockState::Closed
                && blocks.valid_pages(b) < blocks.max_valid_pages_per_block()
        })
        .max_by(|&a, &b| score(a).total_cmp(&score(b)).then(b.cmp(&a)))
}

/// Returns the block with the most dead bytes among the blocks whose collection frees a page; `None` if there is none.
fn block_with_most_dead_bytes(
    blocks: &BlockTable,
    pool: u32,
    dirtiness: impl Fn(BlockId, u32) -> f64,
) -> Option<BlockId> {
    let gain = |block: BlockId| {
        let dead = dead_page_count_with_delta_shares(blocks, block, &dirtiness);
        collection_frees_page(blocks, block, dead).then_some((dead, block))
    };
    let closed = blocks.blocks_of_pool(pool).filter(|&block| blocks.state(block) == BlockState::Closed);
    let best = closed.filter_map(gain).max_by(|(a, x), (b, y)| a.total_cmp(b).then(y.cmp(x)));
    best.map(|(_, block)| block)
}

/// Returns whether the collection of a block is sure to free a page. `dead` is the number of its dead pages, in which a
/// page of deltas counts by the share of its bytes that is dead. A block with an invalid page always frees a page. In a
/// block of `p` valid pages, the live deltas have the size of `p - dead` pages. Packed again without splitting a delta,
/// any two consecutive pages together hold more than the bytes of one page. So the deltas need at most `2 (p - dead) +
/// 1` pages. The collection frees a page if this is less than `p`; the function requires that it is less than `p - 1`,
/// which leaves a margin of one page.
fn collection_frees_page(blocks: &BlockTable, block: BlockId, dead: f64) -> bool {
    let pages = f64::from(blocks.max_valid_pages_per_block());
    blocks.valid_pages(block) < blocks.max_valid_pages_per_block() || 2.0 * (pages - dead) + 2.0 < pages
}

/// Returns the number of dead pages of `block`. A page of deltas counts as a fraction: the share of its bytes that is
/// dead.
fn dead_page_count_with_delta_shares(
    blocks: &BlockTable,
    block: BlockId,
    dirtiness: &impl Fn(BlockId, u32) -> f64,
) -> f64 {
    let invalid = blocks.max_valid_pages_per_block() - blocks.valid_pages(block);
    if blocks.kind(block) == PageKind::Delta { dirtiness(block, invalid) } else { f64::from(invalid) }
}

/// Returns the block with the greatest dirtiness (weighted number of dead pages). Of blocks with equal dirtiness,
/// prefers the one with the fewest valid pages, so that the victims are those of greedy if all dead pages have equal
/// weight.
///
/// Blocks are visited with the most invalid pages first, and skipped if they cannot exceed the greatest dirtiness so
/// far. Without deltas, no block after the first skipped block can exceed it either, and the search ends.
fn dirtiest_block(
    blocks: &mut BlockTable,
    pool: u32,
    may_have_delta_blocks: bool,
    dirtiness: impl Fn(BlockId, u32) -> f64,
) -> Option<BlockId> {
    let greedy = blocks.block_with_fewest_valid_pages(pool)?;
    let blocks = &*blocks;
    let invalid = |block| blocks.max_valid_pages_per_block() - blocks.valid_pages(block);
    let mut best = (dirtiness(greedy, invalid(greedy)), greedy);
    if !may_have_delta_blocks && best.0 >= max_possible_dirtiness(blocks, greedy) {
        return Some(greedy);
    }
    for block in blocks.closed_blocks_by_valid_count(pool) {
        if max_possible_dirtiness(blocks, block) > best.0 {
            let weight = dirtiness(block, invalid(block));
            if weight > best.0 && collection_frees_page(blocks, block, weight) {
                best = (weight, block);
            }
        } else if !may_have_delta_blocks {
            break;
        }
    }
    Some(best.1)
}

/// Returns an upper bound of the dirtiness (weighted number of dead pages) of `block`: the number of its invalid pages,
/// or of all pages of a block of deltas, because a valid page may hold dead deltas.
fn max_possible_dirtiness(blocks: &BlockTable, block: BlockId) -> f64 {
    let invalid = blocks.max_valid_pages_per_block() - blocks.valid_pages(block);
    f64::from(if blocks.kind(block) == PageKind::Delta {
        blocks.max_valid_pages_per_block()
    } else {
        invalid
    })
}
