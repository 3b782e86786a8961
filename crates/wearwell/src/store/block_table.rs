//! What the controller knows of each block: state, kind, valid pages, age; and which closed block has the fewest
//! valid pages.
//!
//! The greedy question is asked once per victim, but valid counts change with every page, so the index must cost
//! nothing per page. Each pool keeps lists of candidates: a block is put on list `v` when its count falls to
//! `v`, if `v` is at most the pool's limit. Entries are never removed when a count moves on; a stale one is
//! dropped when it is met. After each choice the limit tightens to two above the chosen count, so that nearly all
//! invalidations push nothing; when the lists run dry one scan of the pool's counts sets a new limit. The choice
//! is exact: below the limit every closed block is on its list. Among equals it is the block that has been on the list for
//! longest, or for shortest ([`Ties`]).
//!
//! A block of metadata does not tighten the limit. Its pages die much sooner than data, so it is chosen nearly empty and
//! says nothing of where the next block of data stands: with the limit down there every second choice would be a scan, 4
//! million blocks on a device of 2 TiB.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use crate::address::BlockId;
use crate::nand::PageKind;

/// Life of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum BlockState {
    /// Erased, in its pool.
    Free,
    /// Being filled by a stream.
    Open,
    /// Full (or abandoned by a failed program): a candidate for collection.
    Closed,
    /// Emptied; its erase was issued.
    Erasing,
    /// Bad.
    Retired,
}

/// Which of the blocks with the fewest valid pages is collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ties {
    /// The one whose count fell to the value last.
    #[default]
    Newest,
    /// The one whose count fell to the value first: under skew what is left in it is colder, and less is written (1 to 3 % for
    /// zipf writes, `tests/theory.rs` has another case).
    Oldest,
}

/// How far above the last victim's count the candidate lists reach.
const SLACK: u16 = 2;

#[derive(Clone, Debug, Default)]
struct Candidates {
    lists: Vec<VecDeque<BlockId>>,
    /// Counts above this are not indexed.
    limit: u16,
    /// No list below this one has an entry.
    lowest: u16,
    /// Lists whose blocks are in the order of their numbers, as a scan found them.
    unsorted: Range<u16>,
    entries: u32,
}

impl Candidates {
    #[inline]
    fn push(&mut self, block: BlockId, valid: u16) {
        if self.lists.len() <= valid as usize {
            self.lists.resize_with(valid as usize + 1, VecDeque::new);
        }
        self.lists[valid as usize].push_back(block);
        self.lowest = self.lowest.min(valid);
        self.entries += 1;
    }

    /// The limit only ever tightens here: between the old limit and a higher one blocks are missing from the lists.
    fn tighten(&mut self, limit: u16) {
        if limit >= self.limit {
            return;
        }
        self.limit = limit;
        for list in self.lists.iter_mut().skip(limit as usize + 1) {
            self.entries -= list.len() as u32;
            list.clear();
        }
    }

    fn clear(&mut self) {
        self.lists.iter_mut().for_each(VecDeque::clear);
        self.entries = 0;
    }
}

/// Blocks that are skipped at once if none of them has few valid pages.
const CHUNK: usize = 64;

/// Valid pages of each closed block; of any other one more than any block has.
fn counts(state: &[BlockState], valid: &[u16]) -> impl Iterator<Item = u16> {
    state.iter().zip(valid).map(|(&state, &valid)| if state == BlockState::Closed { valid } else { u16::MAX })
}

/// Table of all blocks. 12 bytes per block plus a few per candidate.
#[derive(Clone, Debug)]
pub struct BlockTable {
    block_pages: u16,
    pools: u32,
    state: Vec<BlockState>,
    kind: Vec<PageKind>,
    valid: Vec<u16>,
    /// Number of the last program or entry before the block was opened.
    opened_at: Vec<u64>,
    closed_at: Vec<u64>,
    candidates: Vec<Candidates>,
    /// No pool's limit is higher: the test that nearly every discarded page ends with.
    highest_limit: u16,
    ties: Ties,
    /// Blocks of metadata are no candidates before they are empty.
    spares_metadata: bool,
    metadata_blocks: u32,
    /// Per pool, blocks in the order in which they were closed, for FIFO cleaning; empty unless tracked.
    closing_order: Vec<VecDeque<(BlockId, u64)>>,
    /// Blocks in the order in which they were opened, with entries of earlier lives among them; kept from the first
    /// question on.
    opening_order: Option<BinaryHeap<Reverse<(u64, BlockId)>>>,
}

impl BlockTable {
    pub(super) fn new(blocks: u32, block_pages: u32, pools: u32) -> Self {
        let blocks = blocks as usize;
        Self {
            block_pages: block_pages as u16,
            pools,
            state: vec![BlockState::Free; blocks],
            kind: vec![PageKind::Data; blocks],
            valid: vec![0; blocks],
            opened_at: vec![0; blocks],
            closed_at: vec![0; blocks],
            ties: Ties::default(),
            candidates: vec![Candidates::default(); pools as usize],
            highest_limit: 0,
            spares_metadata: false,
            metadata_blocks: 0,
            closing_order: Vec::new(),
            opening_order: None,
        }
    }

    /// Number of blocks.
    pub fn len(&self) -> u32 {
        self.state.len() as u32
    }

    /// Whether the table has no block (it always has one).
    pub fn is_empty(&self) -> bool {
        self.state.is_empty()
    }

    /// Pages of a block that can be valid: all but its head and tail pages.
    pub fn block_pages(&self) -> u32 {
        self.block_pages as u32
    }

    /// Pools the blocks are divided into: block `b` belongs to pool `b % pools`.
    pub fn pools(&self) -> u32 {
        self.pools
    }

    /// The blocks of a pool.
    pub fn of_pool(&self, pool: u32) -> impl Iterator<Item = BlockId> + use<> {
        (pool..self.state.len() as u32).step_by(self.pools as usize).map(BlockId)
    }

    /// State of a block.
    #[inline]
    pub fn state(&self, block: BlockId) -> BlockState {
        self.state[block.index()]
    }

    /// Kind of the pages in a block that is open or closed.
    #[inline]
    pub fn kind(&self, block: BlockId) -> PageKind {
        self.kind[block.index()]
    }

    /// Valid pages of a block.
    #[inline]
    pub fn valid(&self, block: BlockId) -> u32 {
        self.valid[block.index()] as u32
    }

    /// Sequence number of the program that closed the block.
    pub fn closed_at(&self, block: BlockId) -> u64 {
        self.closed_at[block.index()]
    }

    /// Number of the last program or entry before the block was opened.
    pub fn opened_at(&self, block: BlockId) -> u64 {
        self.opened_at[block.index()]
    }

    /// The sequence number at which the oldest block in use was opened: nothing on flash is older. The first call costs
    /// O(blocks), later ones O(log blocks) for each block that was opened since.
    pub fn oldest_opened(&mut self) -> u64 {
        let mut order = self.opening_order.take().unwrap_or_else(|| self.opened_in_order());
        while order.peek().is_some_and(|&Reverse((opened, block))| !self.is_in_use_since(block, opened)) {
            order.pop();
        }
        let oldest = order.peek().map_or(u64::MAX, |&Reverse((opened, _))| opened);
        self.opening_order = Some(order);
        oldest
    }

    fn opened_in_order(&self) -> BinaryHeap<Reverse<(u64, BlockId)>> {
        let opened = (0..self.len()).map(BlockId).map(|block| (self.opened_at[block.index()], block));
        opened.filter(|&(opened, block)| self.is_in_use_since(block, opened)).map(Reverse).collect()
    }

    fn is_in_use_since(&self, block: BlockId, opened: u64) -> bool {
        let in_use = !matches!(self.state(block), BlockState::Free | BlockState::Retired);
        in_use && self.opened_at[block.index()] == opened
    }

    pub(super) fn set_free(&mut self, block: BlockId) {
        assert_eq!(self.valid[block.index()], 0, "a free block has no valid page");
        self.state[block.index()] = BlockState::Free;
    }

    pub(super) fn set_erasing(&mut self, block: BlockId) {
        // An interrupted erase is repeated.
        if self.state[block.index()] != BlockState::Erasing {
            self.metadata_blocks -= u32::from(!self.kind[block.index()].is_host_data());
        }
        self.state[block.index()] = BlockState::Erasing;
    }

    pub(super) fn set_open(&mut self, block: BlockId, kind: PageKind, sequence: u64) {
        assert_eq!(self.state[block.index()], BlockState::Free, "only a free block can be opened");
        self.opened_at[block.index()] = sequence;
        self.state[block.index()] = BlockState::Open;
        self.kind[block.index()] = kind;
        self.metadata_blocks += u32::from(!kind.is_host_data());
        if let Some(order) = &mut self.opening_order {
            order.push(Reverse((sequence, block)));
            // Entries of earlier lives pile up behind a block that is never collected: start again.
            if order.len() > 2 * self.state.len() {
                self.opening_order = None;
            }
        }
    }

    /// Which of equal candidates is chosen; changed before anything is closed.
    pub(crate) fn set_ties(&mut self, ties: Ties) {
        self.ties = ties;
    }

    /// Blocks of metadata are indexed as candidates only when they have no valid page.
    pub(crate) fn spare_metadata(&mut self, spares: bool) {
        if self.spares_metadata == spares {
            return;
        }
        self.spares_metadata = spares;
        (0..self.pools).for_each(|pool| self.rescan(pool));
    }

    /// Blocks that hold metadata.
    pub fn metadata_blocks(&self) -> u32 {
        self.metadata_blocks
    }

    /// The closed block of metadata in `pool` with the fewest valid pages; `None` if none has an invalid page. O(blocks
    /// of the pool).
    pub fn emptiest_metadata(&self, pool: u32) -> Option<BlockId> {
        self.of_pool(pool)
            .filter(|&b| self.state(b) == BlockState::Closed && !self.kind(b).is_host_data())
            .filter(|&b| self.valid[b.index()] < self.block_pages)
            .min_by_key(|&b| self.valid[b.index()])
    }

    /// Whether collection may take the block if it gains by that.
    #[inline]
    pub(crate) fn is_candidate(&self, block: BlockId) -> bool {
        self.state[block.index()] == BlockState::Closed
            && !(self.spares_metadata
                && !self.kind[block.index()].is_host_data()
                && self.valid[block.index()] > 0)
    }

    pub(super) fn close(&mut self, block: BlockId, sequence: u64) {
        self.state[block.index()] = BlockState::Closed;
        self.closed_at[block.index()] = sequence;
        self.index(block);
        if !self.closing_order.is_empty() {
            let pool = self.pool_of(block);
            self.closing_order[pool as usize].push_back((block, sequence));
        }
    }

    /// Starts or stops tracking the order in which blocks close.
    pub(crate) fn track_closing_order(&mut self, track: bool) {
        self.closing_order.clear();
        for pool in (0..self.pools).filter(|_| track) {
            let mut closed = self.closed_by_valid(pool);
            closed.sort_by_key(|&block| self.closed_at(block));
            self.closing_order.push(closed.into_iter().map(|b| (b, self.closed_at(b))).collect());
        }
    }

    /// The closed block of `pool` that was closed first, if the order is tracked. Amortised O(1).
    pub fn oldest_closed(&mut self, pool: u32) -> Option<BlockId> {
        let Self { closing_order, state, closed_at, .. } = self;
        let order = closing_order.get_mut(pool as usize)?;
        while let Some(&(block, sequence)) = order.front() {
            if state[block.index()] == BlockState::Closed && closed_at[block.index()] == sequence {
                return Some(block);
            }
            order.pop_front();
        }
        None
    }

    pub(super) fn retire(&mut self, block: BlockId) {
        assert_eq!(self.valid[block.index()], 0, "a retired block has no valid page");
        if self.state[block.index()] == BlockState::Closed {
            self.metadata_blocks -= u32::from(!self.kind[block.index()].is_host_data());
        }
        self.state[block.index()] = BlockState::Retired;
    }

    #[inline]
    pub(super) fn add_valid(&mut self, block: BlockId, count: u32) {
        self.valid[block.index()] += count as u16;
    }

    /// Sets a count that recovery found.
    pub(super) fn set_valid(&mut self, block: BlockId, valid: u32) {
        self.valid[block.index()] = valid as u16;
        self.index(block);
    }

    /// A dead page came back to life: the block may be indexed too low, and is indexed again where it belongs.
    pub(super) fn add_valid_again(&mut self, block: BlockId) {
        self.valid[block.index()] += 1;
        self.index(block);
    }

    #[inline]
    pub(super) fn remove_valid(&mut self, block: BlockId, count: u32) {
        let valid = &mut self.valid[block.index()];
        assert!(*valid as u32 >= count, "block {block} has fewer than {count} valid pages to discard");
        *valid -= count as u16;
        if *valid <= self.highest_limit {
            self.index(block);
        }
    }

    #[inline]
    fn pool_of(&self, block: BlockId) -> u32 {
        if self.pools == 1 { 0 } else { block.0 % self.pools }
    }

    fn index(&mut self, block: BlockId) {
        let valid = self.valid[block.index()];
        let pool = self.pool_of(block);
        if valid > self.candidates[pool as usize].limit || !self.is_candidate(block) {
            return;
        }
        let candidates = &mut self.candidates[pool as usize];
        candidates.push(block, valid);
        // Blocks whose counts go up and down leave stale entries behind: bound them.
        if candidates.entries > 4 * (self.state.len() as u32 / self.pools) + 64 {
            self.rescan(pool);
        }
    }

    fn rescan(&mut self, pool: u32) {
        let least = self.least_count(pool);
        let limit = least.map_or(0, |least| least + SLACK);
        let mut found = Vec::new();
        self.collect_up_to(pool, limit, &mut found);
        // Among equals the scan's first is taken first.
        if self.ties == Ties::Newest {
            found.reverse();
        }
        let candidates = &mut self.candidates[pool as usize];
        candidates.clear();
        candidates.limit = limit;
        candidates.lowest = limit;
        candidates.unsorted = 0..limit + 1;
        self.highest_limit = self.highest_limit.max(limit);
        let candidates = &mut self.candidates[pool as usize];
        for block in found {
            candidates.push(block, self.valid[block.index()]);
        }
    }

    /// Fewest valid pages of a candidate. Under skew every few victims ask for it, so that the loops over a device of one pool
    /// are written for vector instructions: a life of zipf writes takes 0.7 of the time that plain loops took.
    fn least_count(&self, pool: u32) -> Option<u16> {
        if self.pools > 1 || self.spares_metadata {
            let candidates = self.of_pool(pool).filter(|&block| self.is_candidate(block));
            return candidates.map(|block| self.valid[block.index()]).min();
        }
        let least = counts(&self.state, &self.valid).min();
        least.filter(|&least| least < u16::MAX)
    }

    /// Appends the candidates with at most `limit` valid pages, in order of their numbers.
    fn collect_up_to(&self, pool: u32, limit: u16, found: &mut Vec<BlockId>) {
        if self.pools > 1 || self.spares_metadata {
            let candidates = self.of_pool(pool).filter(|&block| self.is_candidate(block));
            return found.extend(candidates.filter(|block| self.valid[block.index()] <= limit));
        }
        for (first, (state, valid)) in
            (0..).step_by(CHUNK).zip(self.state.chunks(CHUNK).zip(self.valid.chunks(CHUNK)))
        {
            if counts(state, valid).min().is_some_and(|least| least <= limit) {
                let blocks = (first..).zip(counts(state, valid)).filter(|&(_, count)| count <= limit);
                found.extend(blocks.map(|(block, _)| BlockId(block)));
            }
        }
    }

    /// The closed block of `pool` with the fewest valid pages; `None` if no closed block has an invalid page.
    /// Amortised O(1), now and then a scan of the pool.
    pub fn least_valid(&mut self, pool: u32) -> Option<BlockId> {
        let found = self.top_candidate(pool).or_else(|| {
            self.rescan(pool);
            self.top_candidate(pool)
        })?;
        let valid = self.valid[found.index()];
        if self.kind[found.index()].is_host_data() {
            self.candidates[pool as usize].tighten(valid.saturating_add(SLACK));
        }
        (valid < self.block_pages).then_some(found)
    }

    fn top_candidate(&mut self, pool: u32) -> Option<BlockId> {
        let Self { candidates, state, valid, closed_at, ties, .. } = self;
        let candidates = &mut candidates[pool as usize];
        while (candidates.lowest as usize) < candidates.lists.len() {
            let list = &mut candidates.lists[candidates.lowest as usize];
            if *ties == Ties::Oldest && candidates.unsorted.contains(&candidates.lowest) {
                let before = list.len();
                list.retain(|block| valid[block.index()] == candidates.lowest);
                candidates.entries -= (before - list.len()) as u32;
                list.make_contiguous().sort_unstable_by_key(|block| closed_at[block.index()]);
                candidates.unsorted.start = candidates.lowest + 1;
            }
            while let Some(&block) = match ties {
                Ties::Newest => list.back(),
                Ties::Oldest => list.front(),
            } {
                if state[block.index()] == BlockState::Closed && valid[block.index()] == candidates.lowest {
                    return Some(block);
                }
                match ties {
                    Ties::Newest => list.pop_back(),
                    Ties::Oldest => list.pop_front(),
                };
                candidates.entries -= 1;
            }
            candidates.lowest += 1;
        }
        None
    }

    /// Closed blocks of `pool`, fewest valid pages first, then oldest. O(n log n) in the blocks of the pool.
    pub fn closed_by_valid(&self, pool: u32) -> Vec<BlockId> {
        let mut closed: Vec<BlockId> =
            self.of_pool(pool).filter(|&b| self.state(b) == BlockState::Closed).collect();
        closed.sort_by_key(|&b| (self.valid(b), self.closed_at(b)));
        closed
    }

    /// Counts recomputed for an audit: blocks by [`BlockState`], in its order.
    pub fn census(&self) -> [u32; 5] {
        let mut census = [0; 5];
        self.state.iter().for_each(|&state| census[state as usize] += 1);
        census
    }

    /// Bytes a controller holds per block: two for the valid count, one for state and kind.
    pub fn ram_bytes(&self) -> u64 {
        3 * self.state.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks 0, 1 and 2 are closed in this order, all full; then 2, 0 and 1 lose a page each.
    fn equal_blocks(ties: Ties) -> BlockTable {
        let mut table = BlockTable::new(4, 8, 1);
        table.set_ties(ties);
        for block in (0..3).map(BlockId) {
            table.set_open(block, PageKind::Data, 0);
            table.add_valid(block, 8);
            table.close(block, u64::from(block.0) + 1);
        }
        table
    }

    #[test]
    fn of_equal_blocks_the_oldest_or_the_newest_is_chosen() {
        for (ties, after_a_scan, by_reach) in [(Ties::Oldest, 0, 2), (Ties::Newest, 0, 1)] {
            // The first question scans: the blocks are known by the time at which they were closed alone.
            let mut table = equal_blocks(ties);
            for block in [2, 0, 1] {
                table.remove_valid(BlockId(block), 1);
            }
            assert_eq!(table.least_valid(0), Some(BlockId(after_a_scan)), "{ties:?} after a scan");
            // From then on the order in which counts fall to a value is known.
            for block in [2, 0, 1] {
                table.remove_valid(BlockId(block), 1);
            }
            assert_eq!(table.least_valid(0), Some(BlockId(by_reach)), "{ties:?}");
        }
    }
}
