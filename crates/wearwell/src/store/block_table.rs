//! State, kind, valid count and age of each block; and a search for the closed block with the fewest valid pages.
//!
//! Greedy GC needs that block once per victim, but valid counts change with every page, so the index must cost nothing
//! per page. Each pool keeps lists of candidates: a block is put on list `v` when its count falls to `v`, if `v` is at
//! most the pool's limit. An entry is not removed when the block's count changes; a stale entry is dropped when the
//! search meets it. After each choice the limit is lowered to two more than the chosen count, so nearly all
//! invalidations add nothing to a list. When the lists are empty, one scan of the pool's counts sets a new limit. The
//! choice is exact, because every closed block with a count up to the limit is on its list. Of several blocks with the
//! fewest valid pages, [`GreedyTieBreak`] takes the one that has been on the list for longest, or for shortest.
//!
//! A metadata block does not lower the limit. Its pages become invalid much sooner than data, so it is chosen when
//! nearly empty, and its count says nothing about that of the next data block. With the limit that low, every second
//! choice would need a scan, over 4 million blocks on a device of 2 TiB.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use crate::address::BlockId;
use crate::nand::PageKind;

/// State of a flash block in its life cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum BlockState {
    /// The block is erased and among the free blocks of its pool (set of planes).
    Free,
    /// The block is being filled by a stream of writes.
    Open,
    /// The block is full, or was abandoned after a failed program: a candidate for garbage collection.
    Closed,
    /// The block has no valid pages, and its erase was issued.
    Erasing,
    /// The block is bad and not used any more.
    Retired,
}

impl BlockState {
    /// All states of a block, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Free, Self::Open, Self::Closed, Self::Erasing, Self::Retired];

    /// Returns the name of the block's state in lower case, one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Erasing => "erasing",
            Self::Retired => "retired",
        }
    }
}

/// Which block GC collects if several have the fewest valid pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GreedyTieBreak {
    /// Of several blocks with equally few valid pages, GC collects the one whose valid count fell to this number last.
    #[default]
    Newest,
    /// Of several blocks with equally few valid pages, GC collects the one whose valid count fell to this number first.
    /// With skewed writes, the data left in this block is colder than in the others, so the device programs fewer pages
    /// in all (1 to 3 % fewer for zipf writes, `tests/theory.rs` has another case).
    Oldest,
}

/// Margin for the lists of GC candidates, in valid pages: after each choice of a victim, the lists are cut to blocks
/// with at most this many more valid pages than the victim.
const CANDIDATE_MARGIN_VALID_PAGES: u16 = 2;

/// GC candidates of a pool (set of planes): one list of blocks for each number of valid pages.
#[derive(Clone, Debug, Default)]
struct VictimCandidateLists {
    /// For each number of valid pages, the blocks whose valid count fell to this number, in the order in which it did.
    /// A list may still contain blocks whose valid count has changed since.
    lists_by_valid_count: Vec<VecDeque<BlockId>>,
    /// Maximum number of valid pages of a block on the lists of GC candidates.
    max_listed_valid_count: u16,
    /// Smallest valid count whose list of GC candidates may hold a block: the lists of smaller valid counts are empty.
    min_listed_valid_count: u16,
    /// Range of valid counts whose lists of GC candidates were filled by a scan of all blocks. Such a list is in the
    /// order of block numbers. All other lists are in the order in which the blocks reached the count.
    valid_counts_of_unsorted_lists: Range<u16>,
    /// Number of entries of all lists together, including obsolete ones, of blocks whose valid count has changed since.
    total_list_entries: u32,
}

impl VictimCandidateLists {
    /// Appends a block to the list of GC candidates with `valid` valid pages.
    #[inline]
    fn push_candidate(&mut self, block: BlockId, valid: u16) {
        if self.lists_by_valid_count.len() <= valid as usize {
            self.lists_by_valid_count.resize_with(valid as usize + 1, VecDeque::new);
        }
        self.lists_by_valid_count[valid as usize].push_back(block);
        self.min_listed_valid_count = self.min_listed_valid_count.min(valid);
        self.total_list_entries += 1;
    }

    /// Lowers the maximum valid count of the blocks on the lists of GC candidates to `limit`, and empties the lists of
    /// greater valid counts. Does nothing if `limit` exceeds the present maximum, because not all blocks with greater
    /// valid counts are listed.
    fn reduce_max_listed_valid_count(&mut self, limit: u16) {
        if limit >= self.max_listed_valid_count {
            return;
        }
        self.max_listed_valid_count = limit;
        for list in self.lists_by_valid_count.iter_mut().skip(limit as usize + 1) {
            self.total_list_entries -= list.len() as u32;
            list.clear();
        }
    }

    /// Empties all lists of GC candidates of the pool.
    fn clear(&mut self) {
        self.lists_by_valid_count.iter_mut().for_each(VecDeque::clear);
        self.total_list_entries = 0;
    }
}

/// Number of consecutive blocks that a scan for GC candidates skips at once if none of them has few valid pages.
const SCAN_GROUP_BLOCKS: usize = 64;

/// Returns for each block its valid page count if it is closed, otherwise `u16::MAX`, which is more pages than a block
/// can have.
fn valid_counts_of_closed_blocks(state: &[BlockState], valid: &[u16]) -> impl Iterator<Item = u16> {
    state.iter().zip(valid).map(|(&state, &valid)| if state == BlockState::Closed { valid } else { u16::MAX })
}

/// State, kind of pages, valid count and age of every block. Memory of the simulation: 20 bytes per block, and a few
/// bytes per GC candidate.
#[derive(Clone, Debug)]
pub struct BlockTable {
    /// Number of pages of a block that can be valid: all except its head and tail pages.
    max_valid_pages_per_block: u16,
    /// Number of pools (sets of planes) into which the blocks are divided.
    allocation_pools: u32,
    /// State of each block, by block number.
    block_states: Vec<BlockState>,
    /// Kind of the pages in each block; meaningful only for an open or closed block.
    page_kinds: Vec<PageKind>,
    /// Number of valid pages of each block, by block number.
    valid_counts: Vec<u16>,
    /// Sequence number of the last page program or reverse-map (P2L) entry before each block was opened.
    opened_at_sequence: Vec<u64>,
    /// Last sequence number (of a page program or reverse-map entry) that was in use when each block was closed.
    closed_at_sequence: Vec<u64>,
    /// GC candidates of each pool (set of planes), by pool number.
    candidates_by_pool: Vec<VictimCandidateLists>,
    /// Upper bound, over all pools (sets of planes), of the valid counts of the blocks on the lists of GC candidates. A
    /// block with a greater valid count is on no list, so one comparison with this bound shows that no list changes.
    max_candidate_valid_count: u16,
    /// Which block GC collects if several have the fewest valid pages.
    tie_break: GreedyTieBreak,
    /// Whether metadata blocks become candidates of garbage collection only when they have no valid page.
    gc_skips_nonempty_metadata: bool,
    /// Number of open or closed blocks that hold metadata.
    metadata_block_count: u32,
    /// For each pool (set of planes), its closed blocks in the order in which they were closed, each with the sequence
    /// number at which it was closed. For FIFO cleaning; empty unless this order is tracked.
    closing_order: Vec<VecDeque<(BlockId, u64)>>,
    /// Blocks with the sequence numbers at which they were opened, the earliest first. Entries of blocks that were
    /// freed or reopened since are obsolete. Built at the first call of [`BlockTable::oldest_opening_sequence`].
    opening_order: Option<BinaryHeap<Reverse<(u64, BlockId)>>>,
}

impl BlockTable {
    /// Creates the table of a device with `blocks` blocks in `allocation_pools` pools (sets of planes); all blocks are
    /// free.
    pub(super) fn new(blocks: u32, max_valid_pages_per_block: u32, allocation_pools: u32) -> Self {
        let blocks = blocks as usize;
        Self {
            max_valid_pages_per_block: max_valid_pages_per_block as u16,
            allocation_pools,
            block_states: vec![BlockState::Free; blocks],
            page_kinds: vec![PageKind::Data; blocks],
            valid_counts: vec![0; blocks],
            opened_at_sequence: vec![0; blocks],
            closed_at_sequence: vec![0; blocks],
            tie_break: GreedyTieBreak::default(),
            candidates_by_pool: vec![VictimCandidateLists::default(); allocation_pools as usize],
            max_candidate_valid_count: 0,
            gc_skips_nonempty_metadata: false,
            metadata_block_count: 0,
            closing_order: Vec::new(),
            opening_order: None,
        }
    }

    /// Returns the number of FTL blocks of the device, bad ones included.
    pub fn len(&self) -> u32 {
        self.block_states.len() as u32
    }

    /// Whether the device has no block; always false.
    pub fn is_empty(&self) -> bool {
        self.block_states.is_empty()
    }

    /// Returns the number of pages of a block that can be valid: all except its head and tail pages, which describe the
    /// block.
    pub fn max_valid_pages_per_block(&self) -> u32 {
        self.max_valid_pages_per_block as u32
    }

    /// Returns the number of pools (sets of planes) into which the blocks are divided: block `b` belongs to pool `b %
    /// pools`.
    pub fn allocation_pools(&self) -> u32 {
        self.allocation_pools
    }

    /// Returns the blocks of a pool (a plane, or the planes over which superblocks extend).
    pub fn blocks_of_pool(&self, pool: u32) -> impl Iterator<Item = BlockId> + use<> {
        (pool..self.block_states.len() as u32).step_by(self.allocation_pools as usize).map(BlockId)
    }

    /// Returns the state of a block: free, open, closed, erasing or retired.
    #[inline]
    pub fn state(&self, block: BlockId) -> BlockState {
        self.block_states[block.index()]
    }

    /// Returns the kind of the pages in a block that is open or closed.
    #[inline]
    pub fn kind(&self, block: BlockId) -> PageKind {
        self.page_kinds[block.index()]
    }

    /// Returns the number of valid pages of a block. With a lazy L2P map, which identifies invalid pages late, it is an
    /// upper bound.
    #[inline]
    pub fn valid_pages(&self, block: BlockId) -> u32 {
        self.valid_counts[block.index()] as u32
    }

    /// Returns the last sequence number (of a page program or reverse-map entry) that was in use when the block was
    /// closed.
    pub fn closed_at_sequence(&self, block: BlockId) -> u64 {
        self.closed_at_sequence[block.index()]
    }

    /// Returns the sequence number of the last page program or reverse-map (P2L) entry before the block was opened.
    pub fn opened_at_sequence(&self, block: BlockId) -> u64 {
        self.opened_at_sequence[block.index()]
    }

    /// Returns the smallest sequence number at which a block in use was opened; `u64::MAX` if no block is in use. Every
    /// page of a block in use has a greater sequence number. The first call costs O(blocks), later ones O(log blocks)
    /// for each block that was opened since.
    pub fn oldest_opening_sequence(&mut self) -> u64 {
        let mut order = self.opening_order.take().unwrap_or_else(|| self.blocks_by_opening_sequence());
        while order.peek().is_some_and(|&Reverse((opened, block))| !self.is_in_use_since(block, opened)) {
            order.pop();
        }
        let oldest = order.peek().map_or(u64::MAX, |&Reverse((opened, _))| opened);
        self.opening_order = Some(order);
        oldest
    }

    /// Returns all blocks in use with the sequence numbers at which they were opened, as a heap with the earliest
    /// first.
    fn blocks_by_opening_sequence(&self) -> BinaryHeap<Reverse<(u64, BlockId)>> {
        let opened =
            (0..self.len()).map(BlockId).map(|block| (self.opened_at_sequence[block.index()], block));
        opened.filter(|&(opened, block)| self.is_in_use_since(block, opened)).map(Reverse).collect()
    }

    /// Whether the block is in use, and was last opened at sequence number `opened_at`.
    fn is_in_use_since(&self, block: BlockId, opened_at: u64) -> bool {
        let in_use = !matches!(self.state(block), BlockState::Free | BlockState::Retired);
        in_use && self.opened_at_sequence[block.index()] == opened_at
    }

    /// Sets the state of a block without valid pages to free.
    pub(super) fn set_free(&mut self, block: BlockId) {
        assert_eq!(self.valid_counts[block.index()], 0, "a free block has no valid page");
        self.block_states[block.index()] = BlockState::Free;
    }

    /// Sets the state of a block to erasing, when its erase is issued.
    pub(super) fn set_erasing(&mut self, block: BlockId) {
        // An erase that a power loss interrupted is repeated, so the block may be in this state already.
        if self.block_states[block.index()] != BlockState::Erasing {
            self.metadata_block_count -= u32::from(!self.page_kinds[block.index()].is_host_data());
        }
        self.block_states[block.index()] = BlockState::Erasing;
    }

    /// Sets the state of a free block to open. `kind` is the kind of its pages, `sequence` the last sequence number in
    /// use.
    pub(super) fn set_open(&mut self, block: BlockId, kind: PageKind, sequence: u64) {
        assert_eq!(self.block_states[block.index()], BlockState::Free, "only a free block can be opened");
        self.opened_at_sequence[block.index()] = sequence;
        self.block_states[block.index()] = BlockState::Open;
        self.page_kinds[block.index()] = kind;
        self.metadata_block_count += u32::from(!kind.is_host_data());
        if let Some(order) = &mut self.opening_order {
            order.push(Reverse((sequence, block)));
            // Obsolete entries accumulate after the entry of a block that is never collected. So the order is dropped
            // here and rebuilt when it is needed.
            if order.len() > 2 * self.block_states.len() {
                self.opening_order = None;
            }
        }
    }

    /// Sets which of several blocks with equally few valid pages GC chooses. Must be called before any block is closed.
    pub(crate) fn set_tie_break(&mut self, ties: GreedyTieBreak) {
        self.tie_break = ties;
    }

    /// Sets whether metadata blocks are candidates of garbage collection only when they have no valid page.
    pub(crate) fn set_gc_skips_nonempty_metadata(&mut self, spares: bool) {
        if self.gc_skips_nonempty_metadata == spares {
            return;
        }
        self.gc_skips_nonempty_metadata = spares;
        (0..self.allocation_pools).for_each(|pool| self.rebuild_candidates(pool));
    }

    /// Returns the number of open or closed blocks that hold metadata.
    pub fn metadata_blocks(&self) -> u32 {
        self.metadata_block_count
    }

    /// Returns the closed metadata block in `pool` (set of planes) with the fewest valid pages; `None` if all pages of
    /// all such blocks are valid. O(blocks of the pool).
    pub fn emptiest_metadata_block(&self, pool: u32) -> Option<BlockId> {
        self.blocks_of_pool(pool)
            .filter(|&b| self.state(b) == BlockState::Closed && !self.kind(b).is_host_data())
            .filter(|&b| self.valid_counts[b.index()] < self.max_valid_pages_per_block)
            .min_by_key(|&b| self.valid_counts[b.index()])
    }

    /// Whether GC may collect the block: it is closed and, if [`BlockTable::set_gc_skips_nonempty_metadata`] is set,
    /// holds host data or no valid page.
    #[inline]
    pub(crate) fn is_gc_candidate(&self, block: BlockId) -> bool {
        self.block_states[block.index()] == BlockState::Closed
            && !(self.gc_skips_nonempty_metadata
                && !self.page_kinds[block.index()].is_host_data()
                && self.valid_counts[block.index()] > 0)
    }

    /// Sets the state of a block to closed, which makes it a candidate for garbage collection. `sequence` is the last
    /// sequence number in use.
    pub(super) fn close(&mut self, block: BlockId, sequence: u64) {
        self.block_states[block.index()] = BlockState::Closed;
        self.closed_at_sequence[block.index()] = sequence;
        self.add_to_candidate_list(block);
        if !self.closing_order.is_empty() {
            let pool = self.allocation_pool_of_block(block);
            self.closing_order[pool as usize].push_back((block, sequence));
        }
    }

    /// Starts (`track`) or stops tracking the order in which blocks are closed, for FIFO cleaning.
    pub(crate) fn track_closing_order(&mut self, track: bool) {
        self.closing_order.clear();
        for pool in (0..self.allocation_pools).filter(|_| track) {
            let mut closed = self.closed_blocks_by_valid_count(pool);
            closed.sort_by_key(|&block| self.closed_at_sequence(block));
            self.closing_order.push(closed.into_iter().map(|b| (b, self.closed_at_sequence(b))).collect());
        }
    }

    /// Returns the block of `pool` (set of planes) that was closed earliest, for FIFO cleaning; `None` if no block is
    /// closed or the order of closing is not tracked. Amortised O(1).
    pub fn oldest_closed_block(&mut self, pool: u32) -> Option<BlockId> {
        let Self { closing_order, block_states: state, closed_at_sequence: closed_at, .. } = self;
        let order = closing_order.get_mut(pool as usize)?;
        while let Some(&(block, sequence)) = order.front() {
            if state[block.index()] == BlockState::Closed && closed_at[block.index()] == sequence {
                return Some(block);
            }
            order.pop_front();
        }
        None
    }

    /// Sets the state of a block without valid pages to retired, because it is bad.
    pub(super) fn retire(&mut self, block: BlockId) {
        assert_eq!(self.valid_counts[block.index()], 0, "a retired block has no valid page");
        if self.block_states[block.index()] == BlockState::Closed {
            self.metadata_block_count -= u32::from(!self.page_kinds[block.index()].is_host_data());
        }
        self.block_states[block.index()] = BlockState::Retired;
    }

    /// Adds `count` to the number of valid pages of a block.
    #[inline]
    pub(super) fn add_valid_pages(&mut self, block: BlockId, count: u32) {
        self.valid_counts[block.index()] += count as u16;
    }

    /// Sets the valid page count of a block to the number that recovery found.
    pub(super) fn set_valid_pages(&mut self, block: BlockId, valid: u32) {
        self.valid_counts[block.index()] = valid as u16;
        self.add_to_candidate_list(block);
    }

    /// Increments the valid count of a block, because one of its invalid pages became valid again, and puts the block
    /// on the list of GC candidates with its new count.
    pub(super) fn count_invalid_page_valid_again(&mut self, block: BlockId) {
        self.valid_counts[block.index()] += 1;
        self.add_to_candidate_list(block);
    }

    /// Subtracts `count` from the number of valid pages of a block, and puts the block on the list of GC candidates for
    /// its new count if that is small enough.
    #[inline]
    pub(super) fn remove_valid_pages(&mut self, block: BlockId, count: u32) {
        let valid = &mut self.valid_counts[block.index()];
        assert!(*valid as u32 >= count, "block {block} has fewer than {count} valid pages to discard");
        *valid -= count as u16;
        if *valid <= self.max_candidate_valid_count {
            self.add_to_candidate_list(block);
        }
    }

    /// Returns the pool (set of planes) to which a block belongs.
    #[inline]
    fn allocation_pool_of_block(&self, block: BlockId) -> u32 {
        if self.allocation_pools == 1 { 0 } else { block.0 % self.allocation_pools }
    }

    /// Puts a block on the list for its valid count, if GC may collect it and the count is within the maximum of the
    /// lists.
    fn add_to_candidate_list(&mut self, block: BlockId) {
        let valid = self.valid_counts[block.index()];
        let pool = self.allocation_pool_of_block(block);
        if valid > self.candidates_by_pool[pool as usize].max_listed_valid_count
            || !self.is_gc_candidate(block)
        {
            return;
        }
        let candidates = &mut self.candidates_by_pool[pool as usize];
        candidates.push_candidate(block, valid);
        // Blocks whose valid counts rise and fall leave obsolete entries on the lists; a rebuild bounds their number.
        if candidates.total_list_entries > 4 * (self.block_states.len() as u32 / self.allocation_pools) + 64 {
            self.rebuild_candidates(pool);
        }
    }

    /// Fills the lists of GC candidates of a pool (set of planes) again, by a scan of its blocks.
    fn rebuild_candidates(&mut self, pool: u32) {
        let least = self.fewest_valid_pages(pool);
        let limit = least.map_or(0, |least| least + CANDIDATE_MARGIN_VALID_PAGES);
        let mut found = Vec::new();
        self.append_candidates_up_to(pool, limit, &mut found);
        // Of several blocks with the same count, the first that the scan finds is chosen first.
        if self.tie_break == GreedyTieBreak::Newest {
            found.reverse();
        }
        let candidates = &mut self.candidates_by_pool[pool as usize];
        candidates.clear();
        candidates.max_listed_valid_count = limit;
        candidates.min_listed_valid_count = limit;
        candidates.valid_counts_of_unsorted_lists = 0..limit + 1;
        self.max_candidate_valid_count = self.max_candidate_valid_count.max(limit);
        let candidates = &mut self.candidates_by_pool[pool as usize];
        for block in found {
            candidates.push_candidate(block, self.valid_counts[block.index()]);
        }
    }

    /// Returns the smallest number of valid pages of any GC candidate in the pool (set of planes); `None` if there is
    /// no candidate. With skewed writes, GC calls this function once every few victims. So for a device of one pool the
    /// loops are written for vector instructions, which saves 30 % of the time of a simulation of zipf writes.
    fn fewest_valid_pages(&self, pool: u32) -> Option<u16> {
        if self.allocation_pools > 1 || self.gc_skips_nonempty_metadata {
            let candidates = self.blocks_of_pool(pool).filter(|&block| self.is_gc_candidate(block));
            return candidates.map(|block| self.valid_counts[block.index()]).min();
        }
        let least = valid_counts_of_closed_blocks(&self.block_states, &self.valid_counts).min();
        least.filter(|&least| least < u16::MAX)
    }

    /// Appends to `found` the GC candidates of `pool` (set of planes) with at most `max_valid_count` valid pages, in
    /// order of their block numbers.
    fn append_candidates_up_to(&self, pool: u32, max_valid_count: u16, found: &mut Vec<BlockId>) {
        if self.allocation_pools > 1 || self.gc_skips_nonempty_metadata {
            let candidates = self.blocks_of_pool(pool).filter(|&block| self.is_gc_candidate(block));
            return found
                .extend(candidates.filter(|block| self.valid_counts[block.index()] <= max_valid_count));
        }
        for (first, (state, valid)) in (0..)
            .step_by(SCAN_GROUP_BLOCKS)
            .zip(self.block_states.chunks(SCAN_GROUP_BLOCKS).zip(self.valid_counts.chunks(SCAN_GROUP_BLOCKS)))
        {
            if valid_counts_of_closed_blocks(state, valid).min().is_some_and(|least| least <= max_valid_count)
            {
                let blocks = (first..)
                    .zip(valid_counts_of_closed_blocks(state, valid))
                    .filter(|&(_, count)| count <= max_valid_count);
                found.extend(blocks.map(|(block, _)| BlockId(block)));
            }
        }
    }

    /// Returns the closed block of `pool` (set of planes) with the fewest valid pages (the greedy GC victim); `None` if
    /// no closed block has an invalid page. Amortised O(1), with an occasional scan of the pool.
    pub fn block_with_fewest_valid_pages(&mut self, pool: u32) -> Option<BlockId> {
        let found = self.best_listed_candidate(pool).or_else(|| {
            self.rebuild_candidates(pool);
            self.best_listed_candidate(pool)
        })?;
        let valid = self.valid_counts[found.index()];
        if self.page_kinds[found.index()].is_host_data() {
            self.candidates_by_pool[pool as usize]
                .reduce_max_listed_valid_count(valid.saturating_add(CANDIDATE_MARGIN_VALID_PAGES));
        }
        (valid < self.max_valid_pages_per_block).then_some(found)
    }

    /// Returns the block with the fewest valid pages on the lists of GC candidates of a pool; `None` if the lists are
    /// empty.
    fn best_listed_candidate(&mut self, pool: u32) -> Option<BlockId> {
        let Self {
            candidates_by_pool: candidates,
            block_states: state,
            valid_counts: valid,
            closed_at_sequence: closed_at,
            tie_break,
            ..
        } = self;
        let candidates = &mut candidates[pool as usize];
        while (candidates.min_listed_valid_count as usize) < candidates.lists_by_valid_count.len() {
            let list = &mut candidates.lists_by_valid_count[candidates.min_listed_valid_count as usize];
            if *tie_break == GreedyTieBreak::Oldest
                && candidates.valid_counts_of_unsorted_lists.contains(&candidates.min_listed_valid_count)
            {
                let before = list.len();
                list.retain(|block| valid[block.index()] == candidates.min_listed_valid_count);
                candidates.total_list_entries -= (before - list.len()) as u32;
                list.make_contiguous().sort_unstable_by_key(|block| closed_at[block.index()]);
                candidates.valid_counts_of_unsorted_lists.start = candidates.min_listed_valid_count + 1;
            }
            while let Some(&block) = match tie_break {
                GreedyTieBreak::Newest => list.back(),
                GreedyTieBreak::Oldest => list.front(),
            } {
                if state[block.index()] == BlockState::Closed
                    && valid[block.index()] == candidates.min_listed_valid_count
                {
                    return Some(block);
                }
                match tie_break {
                    GreedyTieBreak::Newest => list.pop_back(),
                    GreedyTieBreak::Oldest => list.pop_front(),
                };
                candidates.total_list_entries -= 1;
            }
            candidates.min_listed_valid_count += 1;
        }
        None
    }

    /// Returns the closed blocks of `pool` (set of planes), sorted by number of valid pages, then by order of closing.
    /// O(n log n) in the blocks of the pool.
    pub fn closed_blocks_by_valid_count(&self, pool: u32) -> Vec<BlockId> {
        let mut closed: Vec<BlockId> =
            self.blocks_of_pool(pool).filter(|&b| self.state(b) == BlockState::Closed).collect();
        closed.sort_by_key(|&b| (self.valid_pages(b), self.closed_at_sequence(b)));
        closed
    }

    /// Returns the number of blocks in each [`BlockState`], in the order of [`BlockState::ALL`], by counting all
    /// blocks. For audits.
    pub fn block_counts_by_state(&self) -> [u32; 5] {
        let mut census = [0; 5];
        self.block_states.iter().for_each(|&state| census[state as usize] += 1);
        census
    }

    /// Returns the bytes of controller RAM for the states of blocks: per block two for the valid count and one for
    /// state and kind.
    pub fn ram_bytes(&self) -> u64 {
        3 * self.block_states.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a block table in which blocks 0, 1 and 2 of 8 pages were closed in this order, all pages valid, and
    /// block 3 is free.
    fn table_of_three_full_blocks(ties: GreedyTieBreak) -> BlockTable {
        let mut table = BlockTable::new(4, 8, 1);
        table.set_tie_break(ties);
        for block in (0..3).map(BlockId) {
            table.set_open(block, PageKind::Data, 0);
            table.add_valid_pages(block, 8);
            table.close(block, u64::from(block.0) + 1);
        }
        table
    }

    #[test]
    fn greedy_gc_takes_the_oldest_or_newest_of_equal_blocks_as_configured() {
        for (ties, after_a_scan, by_reach) in [(GreedyTieBreak::Oldest, 0, 2), (GreedyTieBreak::Newest, 0, 1)]
        {
            // The first search scans: it knows the blocks only by the time at which they were closed.
            let mut table = table_of_three_full_blocks(ties);
            for block in [2, 0, 1] {
                table.remove_valid_pages(BlockId(block), 1);
            }
            assert_eq!(
                table.block_with_fewest_valid_pages(0),
                Some(BlockId(after_a_scan)),
                "{ties:?} after a scan"
            );
            // From then on the lists record the order in which counts fall to a value.
            for block in [2, 0, 1] {
                table.remove_valid_pages(BlockId(block), 1);
            }
            assert_eq!(table.block_with_fewest_valid_pages(0), Some(BlockId(by_reach)), "{ties:?}");
        }
    }
}
