//! Allocation: where the next page of a stream goes.
//!
//! A *stream* holds one kind of page with one expected lifetime (host data, GC copies, translation pages). Each
//! stream has one open block per pool, and a *pool* is a set of planes that share blocks: one plane, or all
//! planes of a superblock. Host writes go round the pools page by page (`turns.rs`), which spreads a sequential write over
//! all dies; GC copies stay in their victim's pool, so that no pool can run dry for another's sake.
//!
//! Only the store picks blocks and only the store calls the NAND, so that every program, read and erase is
//! counted here, under its cause, and appears in the operation list that timing prices.
//!
//! This file appends and erases; `runs.rs` appends host pages, and `copies.rs` moves pages, a run at a time, `held.rs` keeps old versions that a recovery will compare,
//! `lost.rs` knows which pages cannot be read, `parked.rs` opens a chosen block for copies, `head_tail.rs` programs and reads what blocks say of themselves, `takeover.rs`
//! begins anew after loss of power, `ledger.rs` audits the counters.
//!
//! Invariants: an open block is in exactly one frontier; a free block has no valid page and is erased; `valid`
//! counts of the block table equal the pages that were appended and not discarded.

#![expect(clippy::inline_always, reason = "measured: the way of a write costs a tenth less in one piece")]

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

mod block_table;
mod copies;
mod free_pool;
mod head_tail;
mod held;
mod ledger;
mod lost;
mod parked;
mod runs;
mod takeover;
mod turns;

pub use block_table::{BlockState, BlockTable, Ties};
pub use copies::Moves;
pub use free_pool::FreeOrder;
use free_pool::FreePool;
pub(crate) use head_tail::{FoundHead, Head};
pub use head_tail::{HeadTail, TAIL_ENTRY_BYTES};
pub(crate) use ledger::Ledger;
pub(crate) use takeover::FoundBlock;
pub use turns::Striping;
use turns::Turns;

use crate::address::{Address, BlockId, Lpn, PlaneId, Ppn};
use crate::data::{Content, Fingerprint};
use crate::divide::Divider;
use crate::error::{Error, Result};
use crate::nand::{Geometry, Nand, NandError, Oob, PageKind, Word};
use crate::operation::{Cause, FlashOp, OpKind};
use crate::stats::{OpList, Stats};
use crate::tables::prefetch::touch_all;

/// Free blocks that a pool keeps for the copies of the next victim.
pub const RESERVE_BLOCKS: u32 = 1;

/// Pages of one kind and one expected lifetime; each stream fills its own blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// Host data.
    Host,
    /// Data that garbage collection or wear leveling moved: colder than the host stream.
    Gc,
    /// Translation pages.
    Translation,
    /// Pages of deltas.
    Delta,
    /// Pages of compressed chunks.
    Chunk,
    /// Pages of the log of mappings made without a program.
    RemapLog,
    /// Pages of flash-resident page validity.
    Validity,
}

impl Stream {
    /// Number of streams.
    pub const COUNT: usize = 7;
    /// All streams.
    pub const ALL: [Stream; Stream::COUNT] = [
        Stream::Host,
        Stream::Gc,
        Stream::Translation,
        Stream::Delta,
        Stream::Chunk,
        Stream::RemapLog,
        Stream::Validity,
    ];

    /// What the stream's pages hold.
    pub fn kind(self) -> PageKind {
        match self {
            Stream::Host | Stream::Gc => PageKind::Data,
            Stream::Translation => PageKind::Translation,
            Stream::Delta => PageKind::Delta,
            Stream::Chunk => PageKind::Chunk,
            Stream::RemapLog => PageKind::RemapLog,
            Stream::Validity => PageKind::Validity,
        }
    }
}

/// The open block of a stream in a pool.
#[derive(Clone, Copy, Debug)]
struct Frontier {
    block: BlockId,
    next: Ppn,
    left: u32,
}

impl Frontier {
    const NONE: Self = Self { block: BlockId::NONE, next: Ppn::NONE, left: 0 };
}

/// Allocation over a medium. See the module's head.
#[derive(Clone, Debug)]
pub struct Store<N> {
    nand: N,
    geometry: Geometry,
    divider: Divider,
    pools: u32,
    blocks: BlockTable,
    free: Vec<FreePool>,
    /// `stream * pools + pool`.
    frontiers: Vec<Frontier>,
    /// Frontiers that go on when the open block is full, by the same index (`parked.rs`).
    parked: Vec<Frontier>,
    /// Per stream the pools where it has an open block.
    open_pools: [Vec<u32>; Stream::COUNT],
    turns: Turns,
    sequence: u64,
    holds: bool,
    /// Old versions of translation pages with the number of the program that replaced them, oldest first.
    held: VecDeque<(u64, Ppn)>,
    /// Pages whose program the loss of power interrupted: on flash or not, nobody was told of them.
    interrupted: Vec<Ppn>,
    /// Pages in use that are known to be unreadable: met by a read, or programmed as lost.
    unreadable: FxHashSet<Ppn>,
    /// Those that were found since somebody asked.
    found_unreadable: Vec<Ppn>,
    /// How blocks are divided where they describe themselves; `None` where every page holds data.
    head_tail: Option<HeadTail>,
    /// Full blocks whose tail is not written yet.
    without_tail: Vec<BlockId>,
    /// Blocks that were opened for data since somebody asked; `None` if nobody does.
    opened: Option<Vec<BlockId>>,
    /// Whether a program failed since somebody asked.
    program_failed: bool,
    /// Counters.
    pub stats: Stats,
    ledger: Ledger,
    /// Operations of the request in hand.
    pub ops: OpList,
    page: Vec<u8>,
}

impl<N: Nand> Store<N> {
    /// A store over a medium whose good blocks are all erased.
    pub fn new(nand: N, order: FreeOrder) -> Self {
        Self::divided(nand, order, None)
    }

    /// A store whose blocks have head and tail pages.
    ///
    /// # Errors
    /// [`Error::Options`] if blocks are too small for them.
    pub fn with_heads_and_tails(nand: N, order: FreeOrder) -> Result<Self> {
        let parts = HeadTail::of(nand.geometry())?;
        Ok(Self::divided(nand, order, Some(parts)))
    }

    fn divided(nand: N, order: FreeOrder, head_tail: Option<HeadTail>) -> Self {
        let geometry = nand.geometry().clone();
        let pools = geometry.pools();
        let data_pages = head_tail.map_or(geometry.block_pages(), |parts| parts.data_pages);
        let page = vec![0; (geometry.page_bytes + geometry.spare_bytes) as usize];
        let mut store = Self {
            divider: Divider::new(geometry.block_pages()),
            pools,
            blocks: BlockTable::new(geometry.blocks(), data_pages, pools),
            free: (0..pools).map(|_| FreePool::new(order)).collect(),
            frontiers: vec![Frontier::NONE; Stream::COUNT * pools as usize],
            parked: vec![Frontier::NONE; Stream::COUNT * pools as usize],
            open_pools: Default::default(),
            turns: Turns::new(&geometry),
            sequence: 0,
            holds: false,
            held: VecDeque::new(),
            interrupted: Vec::new(),
            unreadable: FxHashSet::default(),
            found_unreadable: Vec::new(),
            head_tail,
            without_tail: Vec::new(),
            opened: None,
            program_failed: false,
            stats: Stats::default(),
            ledger: Ledger::default(),
            ops: OpList::default(),
            page,
            geometry,
            nand,
        };
        store.adopt_erased_blocks();
        store.ledger.first_wear = store.total_wear();
        store.ledger.first_programs = store.programmed_pages();
        store
    }

    fn adopt_erased_blocks(&mut self) {
        for block in (0..self.geometry.blocks()).map(BlockId) {
            self.adopt(block, FoundBlock::default());
        }
    }

    fn release_free(&mut self, block: BlockId) {
        self.forget_unreadable(block);
        self.blocks.set_free(block);
        let (wear, pool) = (self.nand.erase_count(block), self.pool_of(block));
        self.free[pool as usize].put(block, wear);
    }

    /// Layout of the device.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The medium.
    pub fn nand(&self) -> &N {
        &self.nand
    }

    /// The medium, for fault injection and power cuts from outside.
    pub fn nand_mut(&mut self) -> &mut N {
        &mut self.nand
    }

    /// Takes the medium out; everything in RAM is dropped.
    pub fn into_nand(self) -> N {
        self.nand
    }

    /// States and valid counts of all blocks.
    pub fn blocks(&self) -> &BlockTable {
        &self.blocks
    }

    pub(crate) fn blocks_mut(&mut self) -> &mut BlockTable {
        &mut self.blocks
    }

    /// Number of pools.
    #[inline]
    pub fn pools(&self) -> u32 {
        self.pools
    }

    /// The block that holds a page.
    #[inline]
    pub fn block_of(&self, ppn: Ppn) -> BlockId {
        BlockId(self.divider.quotient(ppn.0))
    }

    /// The pool of a block.
    #[inline]
    pub fn pool_of(&self, block: BlockId) -> u32 {
        if self.pools == 1 { 0 } else { block.0 % self.pools }
    }

    /// The plane that holds a page: where a block lies in one plane, its pool.
    #[inline]
    fn plane_of(&self, ppn: Ppn) -> PlaneId {
        let block = self.block_of(ppn);
        match self.geometry.superblock_planes {
            1 => PlaneId(self.pool_of(block)),
            _ => self.geometry.plane_of(block, ppn.0 - self.geometry.first_page(block).0),
        }
    }

    /// Free blocks of a pool.
    #[inline]
    pub fn free_blocks(&self, pool: u32) -> u32 {
        self.free[pool as usize].len()
    }

    /// Free blocks of the device.
    pub fn total_free_blocks(&self) -> u32 {
        self.free.iter().map(FreePool::len).sum()
    }

    /// The error of a device without room.
    pub(crate) fn full(&self) -> Error {
        Error::Full { free_blocks: self.total_free_blocks() }
    }

    /// Pages of open blocks that are not programmed yet.
    pub fn open_pages_left(&self) -> u64 {
        self.frontiers.iter().chain(&self.parked).map(|f| f.left as u64).sum()
    }

    /// Pages that a stream can still append in `pool` without a new block.
    #[inline]
    pub fn open_block_pages_left(&self, stream: Stream, pool: u32) -> u32 {
        self.frontiers[self.frontier_index(stream, pool)].left
    }

    /// Pages that a stream can append in `pool` without touching the blocks kept for garbage collection.
    pub(crate) fn room_in(&self, stream: Stream, pool: u32) -> u32 {
        let spare_blocks = self.free_blocks(pool).saturating_sub(RESERVE_BLOCKS);
        self.open_block_pages_left(stream, pool) + spare_blocks * self.data_pages()
    }

    /// Whether `pages` pages find room that follow [`Store::pool_with_most_free_blocks`] one by one. O(1) where they fit into the one
    /// open block of the stream, as they usually do; O(pools) if room is short.
    #[inline]
    pub(crate) fn has_room(&self, stream: Stream, pages: u32) -> bool {
        self.fits_open_block(stream, pages) || self.has_room_anywhere(stream, pages)
    }

    /// Whether the stream has one open block, which `pages` pages fit into.
    #[inline]
    pub(crate) fn fits_open_block(&self, stream: Stream, pages: u32) -> bool {
        let open = self.open_pools[stream as usize].as_slice();
        matches!(open, &[pool] if self.open_block_pages_left(stream, pool) >= pages)
    }

    fn has_room_anywhere(&self, stream: Stream, pages: u32) -> bool {
        let mut room = 0;
        (0..self.pools).any(|pool| {
            room += self.room_in(stream, pool);
            room >= pages
        })
    }

    /// The pool that the stream's next page goes to; successive calls go round all pools.
    #[inline]
    pub fn take_pool(&mut self, stream: Stream) -> u32 {
        self.turns.take(stream)
    }

    /// Sets the order in which successive pages go round the pools, from now on.
    pub fn stripe(&mut self, striping: Striping) {
        self.turns.stripe(striping, &self.geometry);
    }

    /// The page that was to go to `pool` is not written: the stream's next page goes there.
    #[inline]
    pub(crate) fn give_back_turn(&mut self, stream: Stream, pool: u32) {
        self.turns.give_back(stream, pool);
    }

    /// The pool the stream will be at next, without advancing.
    #[inline]
    pub fn peek_pool(&self, stream: Stream) -> u32 {
        self.turns.next(stream)
    }

    /// The pool where the stream's next page fits best: of those with an open block of the stream the one with the most
    /// free blocks; without an open block, of all. O(1) for a stream that has one open block.
    pub fn pool_with_most_free_blocks(&self, stream: Stream) -> u32 {
        let free_and_first = |&pool: &u32| (self.free_blocks(pool), u32::MAX - pool);
        let richest = match self.open_pools[stream as usize].as_slice() {
            [] => (0..self.pools).max_by_key(free_and_first),
            &[only] => Some(only),
            open => open.iter().copied().max_by_key(free_and_first),
        };
        richest.expect("a device has a pool")
    }

    #[inline]
    fn frontier_index(&self, stream: Stream, pool: u32) -> usize {
        stream as usize * self.pools as usize + pool as usize
    }

    fn set_frontier(&mut self, index: usize, frontier: Frontier) {
        self.frontiers[index] = frontier;
        let pools = self.pools as usize;
        let (open, pool) = (&mut self.open_pools[index / pools], (index % pools) as u32);
        let listed = open.iter().position(|&listed| listed == pool);
        match listed {
            Some(at) if frontier.left == 0 => drop(open.swap_remove(at)),
            None if frontier.left > 0 => open.push(pool),
            _ => {}
        }
    }

    /// Programs the next page of `stream` in `pool` and counts it valid.
    ///
    /// A failed program consumes the page, closes its block (to be emptied by GC and then retired) and is
    /// repeated in a new block.
    ///
    /// # Errors
    /// [`Error::Full`] if the pool has no block left, power loss.
    #[inline(always)]
    pub fn append(
        &mut self,
        stream: Stream,
        pool: u32,
        owner: u32,
        content: Content<'_>,
        fingerprint: Fingerprint,
        cause: Cause,
    ) -> Result<Ppn> {
        loop {
            let (index, oob) = self.next_program(stream, pool, owner, fingerprint)?;
            let outcome = self.nand.program(self.frontiers[index].next, oob, content);
            if let Some(place) = self.finish_program(index, outcome, cause)? {
                return Ok(place);
            }
        }
    }

    /// The same for a page of metadata that is `base` but for `words`, as in [`Nand::program_changed`].
    ///
    /// # Errors
    /// As [`Store::append`].
    pub(crate) fn append_changed(
        &mut self,
        stream: Stream,
        owner: u32,
        (base, words): (Ppn, &[Word]),
        cause: Cause,
    ) -> Result<Ppn> {
        let pool = self.pool_with_most_free_blocks(stream);
        let fingerprint = Fingerprint::default();
        loop {
            let (index, oob) = self.next_program(stream, pool, owner, fingerprint)?;
            let outcome = self.nand.program_changed(self.frontiers[index].next, oob, base, words);
            if let Err(error @ NandError::Uncorrectable(_)) = outcome {
                return Err(self.read_failed(base, error, cause));
            }
            if let Some(place) = self.finish_program(index, outcome, cause)? {
                return Ok(place);
            }
        }
    }

    /// The frontier whose next page is to be programmed, and what its spare area will say. Both ways of programming go through
    /// this and [`Store::finish_program`]; one loop that is given the program as a closure copies the content out of it, which
    /// measured 3.5 % of a write of `geckoftl`.
    #[inline(always)]
    fn next_program(
        &mut self,
        stream: Stream,
        pool: u32,
        owner: u32,
        fingerprint: Fingerprint,
    ) -> Result<(usize, Oob)> {
        let index = self.frontier_index(stream, pool);
        if self.frontiers[index].left == 0 {
            self.open(stream, pool)?;
        }
        self.sequence += 1;
        let sequence = self.sequence;
        Ok((index, Oob { kind: stream.kind(), owner, sequence, generation: sequence, fingerprint }))
    }

    /// The next page of a frontier was programmed: its place, or `None` if it has to be tried in another block.
    #[inline(always)]
    fn finish_program(
        &mut self,
        index: usize,
        outcome: std::result::Result<(), NandError>,
        cause: Cause,
    ) -> Result<Option<Ppn>> {
        let Frontier { block, next, .. } = self.frontiers[index];
        self.stats.programs[cause as usize] += 1;
        self.note(OpKind::Program, next, cause);
        match outcome {
            Ok(()) => {
                self.blocks.add_valid(block, 1);
                self.advance(index, 1);
                Ok(Some(next))
            }
            Err(error) => self.program_failed(index, error, cause).map(|()| None),
        }
    }

    /// The program of an open block's next page failed. An error if there is no point in trying another block.
    fn program_failed(&mut self, index: usize, error: NandError, cause: Cause) -> Result<()> {
        let Frontier { block, next, .. } = self.frontiers[index];
        self.stats.wasted_programs += u64::from(cause == Cause::Host);
        self.advance(index, 1);
        if matches!(error, NandError::ProgramFailed(_)) {
            self.abandon(index, block);
            return Ok(());
        }
        self.interrupted.push(next);
        self.ledger.cut += 1;
        Err(error.into())
    }

    /// The open block has `count` fewer pages left.
    #[inline]
    fn advance(&mut self, index: usize, count: u32) {
        let frontier = &mut self.frontiers[index];
        frontier.next.0 = frontier.next.0.wrapping_add(count);
        frontier.left -= count;
        if frontier.left == 0 {
            self.close(index);
        }
    }

    /// After a failed program: the block is closed as it is, emptied by GC in its turn, and then retired.
    fn abandon(&mut self, index: usize, block: BlockId) {
        self.nand.condemn(block);
        self.program_failed = true;
        if self.frontiers[index].block == block {
            self.close(index);
        }
    }

    fn open(&mut self, stream: Stream, pool: u32) -> Result<()> {
        if self.head_tail.is_none() {
            return self.open_block(stream, pool).map(drop);
        }
        self.write_tails()?;
        let index = self.frontier_index(stream, pool);
        loop {
            let block = self.open_block(stream, pool)?;
            if self.write_head(index, stream, block)? {
                return Ok(());
            }
        }
    }

    fn open_block(&mut self, stream: Stream, pool: u32) -> Result<BlockId> {
        let worn = stream == Stream::Gc;
        let Some(block) = self.free[pool as usize].take(worn) else {
            return Err(self.full());
        };
        self.start_block(stream, block);
        Ok(block)
    }

    /// The stream fills `block`, which is no longer among the free ones.
    fn start_block(&mut self, stream: Stream, block: BlockId) {
        self.blocks.set_open(block, stream.kind(), self.sequence);
        if stream.kind() == PageKind::Data
            && let Some(opened) = &mut self.opened
        {
            opened.push(block);
        }
        let index = self.frontier_index(stream, self.pool_of(block));
        let next = self.first_data_page(block);
        self.set_frontier(index, Frontier { block, next, left: self.data_pages() });
    }

    /// From now on the blocks that are opened for data are noted for [`Store::take_opened`].
    pub(crate) fn note_opened(&mut self) {
        self.opened = Some(Vec::new());
    }

    /// A block that was opened for data and not taken yet.
    #[inline]
    pub(crate) fn take_opened(&mut self) -> Option<BlockId> {
        self.opened.as_mut()?.pop()
    }

    /// Opens the block that the stream's next page needs, if it needs one.
    pub(crate) fn open_ahead(&mut self, stream: Stream) -> Result<()> {
        let pool = self.pool_with_most_free_blocks(stream);
        if self.open_block_pages_left(stream, pool) > 0 { Ok(()) } else { self.open(stream, pool) }
    }

    /// Whether a program failed since this was asked last, which took the rest of an open block.
    pub(crate) fn take_program_failed(&mut self) -> bool {
        std::mem::take(&mut self.program_failed)
    }

    fn close(&mut self, index: usize) {
        let block = self.frontiers[index].block;
        let parked = self.unpark(index);
        self.set_frontier(index, parked);
        self.blocks.close(block, self.sequence);
        self.schedule_tail_program(block);
    }

    /// Reads what calling pages invalid will need here, so that the cache misses overlap.
    #[inline]
    pub(crate) fn prefetch_valid_counts(&self, pages: impl Iterator<Item = Ppn>) {
        touch_all(pages.map(|ppn| u64::from(self.blocks.valid(self.block_of(ppn)))));
    }

    /// Reads what emptying and erasing `block` will need, and opening and closing it again: some ten places, whose cache
    /// misses overlap.
    #[inline]
    pub(crate) fn prefetch_block(&self, block: BlockId) {
        self.nand.prefetch_block(block);
        touch_all([self.blocks.opened_at(block), self.blocks.closed_at(block)].into_iter());
    }

    /// The page is not needed any more. O(1); one random access to the block's valid count.
    #[inline]
    pub fn discard(&mut self, ppn: Ppn) {
        let block = self.block_of(ppn);
        self.blocks.remove_valid(block, 1);
    }

    /// `count` pages of a block are not needed any more.
    pub(crate) fn discard_many(&mut self, block: BlockId, count: u32) {
        self.blocks.remove_valid(block, count);
    }

    /// A page of metadata is not needed any more, and its bytes will not be asked for again.
    pub fn discard_metadata(&mut self, ppn: Ppn) {
        self.nand.give_up_bytes(&[ppn]);
        self.discard(ppn);
    }

    /// A discarded page is needed again (it was not erased yet).
    #[inline]
    pub fn revive(&mut self, ppn: Ppn) {
        let block = self.block_of(ppn);
        self.blocks.add_valid_again(block);
    }

    /// Reads a page; `into` as in [`Nand::read`].
    ///
    /// # Errors
    /// Uncorrectable page, power loss.
    #[inline]
    pub fn read(&mut self, ppn: Ppn, into: &mut [u8], cause: Cause) -> Result<Oob> {
        let oob = self.nand.read(ppn, into).map_err(|error| self.read_failed(ppn, error, cause))?;
        self.stats.reads[cause as usize] += 1;
        self.note(OpKind::Read, ppn, cause);
        Ok(oob)
    }

    /// Reads several pages for the host, each into its part of `into`; how many before the outcome.
    pub(crate) fn read_pages(&mut self, pages: &[Ppn], into: &mut [u8]) -> (usize, Result<()>) {
        let (done, outcome) = self.nand.read_pages(pages, into);
        self.stats.reads[Cause::Host as usize] += done as u64;
        pages[..done].iter().for_each(|&ppn| self.note(OpKind::Read, ppn, Cause::Host));
        (done, outcome.map_err(|error| self.read_failed(pages[done], error, Cause::Host)))
    }

    /// Reads a page of metadata that is looked at once; `page` is scratch.
    ///
    /// # Errors
    /// Uncorrectable page, power loss.
    pub(crate) fn look_at(
        &mut self,
        ppn: Ppn,
        page: &mut [u8],
        look: &mut dyn FnMut(&[u8]),
        cause: Cause,
    ) -> Result<()> {
        self.nand.look_at(ppn, page, look).map_err(|error| self.read_failed(ppn, error, cause))?;
        self.stats.reads[cause as usize] += 1;
        self.note(OpKind::Read, ppn, cause);
        Ok(())
    }

    /// Reads a page of metadata of which only `words` are used; they are filled in.
    ///
    /// # Errors
    /// Uncorrectable page, power loss.
    pub(crate) fn read_words(&mut self, ppn: Ppn, words: &mut [Word], cause: Cause) -> Result<()> {
        self.nand.read_words(ppn, words).map_err(|error| self.read_failed(ppn, error, cause))?;
        self.stats.reads[cause as usize] += 1;
        self.note(OpKind::Read, ppn, cause);
        Ok(())
    }

    /// Reads only the spare area of a programmed page.
    ///
    /// # Errors
    /// Uncorrectable page, power loss.
    pub fn read_spare(&mut self, ppn: Ppn, cause: Cause) -> Result<Oob> {
        let oob = self.nand.read_spare(ppn, &mut [])?;
        self.note_spare_read(ppn, cause);
        Ok(oob)
    }

    /// Reads the spare area of a page of which nothing is known: `None` if it is erased, torn, or in a bad block.
    ///
    /// # Errors
    /// Power loss.
    pub(crate) fn look_at_spare(&mut self, ppn: Ppn, cause: Cause) -> Result<Option<Oob>> {
        if self.nand.is_bad(self.block_of(ppn)) {
            return Ok(None);
        }
        self.note_spare_read(ppn, cause);
        match self.nand.probe(ppn) {
            Ok(found) => Ok(found),
            Err(NandError::Uncorrectable(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn note_spare_read(&mut self, ppn: Ppn, cause: Cause) {
        self.stats.reads[cause as usize] += 1;
        self.stats.spare_reads[cause as usize] += 1;
        let bytes = self.geometry.spare_bytes;
        self.note_bytes(OpKind::Read, ppn, cause, bytes);
    }

    /// Looks at a page's spare area during recovery; `None` if it is erased.
    ///
    /// # Errors
    /// Uncorrectable page, power loss.
    pub fn probe(&mut self, ppn: Ppn) -> Result<Option<Oob>> {
        self.stats.reads[Cause::Recovery as usize] += 1;
        self.stats.spare_reads[Cause::Recovery as usize] += 1;
        Ok(self.nand.probe(ppn)?)
    }

    /// The NVRAM beside the flash, in words of 8 bytes.
    #[inline]
    pub fn nvram(&self) -> &[u64] {
        self.nand.nvram()
    }

    /// Stores one word of NVRAM, atomically.
    ///
    /// # Errors
    /// Power loss.
    #[inline]
    pub fn store_word(&mut self, index: usize, word: u64) -> Result<()> {
        self.stats.work.nvram_written_bytes += 8;
        Ok(self.nand.store_word(index, word)?)
    }

    /// Charges a scan of NVRAM on behalf of no victim (cleaning, recovery): the words themselves are read through
    /// [`Store::nvram`].
    pub fn charge_nvram_scan(&mut self, bytes: u64) {
        self.note_scan(None, bytes);
    }

    /// Charges a scan of NVRAM for the referrers of `victim`: its copies wait for the scan, and for the log pages that were
    /// read just before.
    pub fn charge_referrer_scan(&mut self, victim: BlockId, bytes: u64) {
        self.note_scan(Some(self.geometry.plane_of(victim, 0)), bytes);
    }

    fn note_scan(&mut self, plane: Option<PlaneId>, bytes: u64) {
        self.stats.work.nvram_read_bytes += bytes;
        if self.ops.is_listening() {
            self.ops.push(FlashOp::scan(plane, bytes));
        }
    }

    /// Takes the next number of the sequence of programs and entries.
    #[inline]
    pub(crate) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Numbers up to `sequence` were given out before the power was lost.
    pub(crate) fn continue_after(&mut self, sequence: u64) {
        self.sequence = self.sequence.max(sequence);
    }

    /// Number of the last program or entry.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Erases a block without valid pages and returns it to its pool, or retires it.
    ///
    /// # Errors
    /// Power loss. A failed erase is not an error: the block is retired.
    pub fn erase(&mut self, block: BlockId, cause: Cause) -> Result<()> {
        assert_eq!(self.blocks.valid(block), 0, "erase of block {block} with valid pages");
        self.forgive_tail(block);
        if self.nand.is_condemned(block) {
            self.retire(block);
            return Ok(());
        }
        self.blocks.set_erasing(block);
        let outcome = self.nand.erase(block);
        self.stats.erases[cause as usize] += self.geometry.superblock_planes as u64;
        let first = self.geometry.first_page(block);
        for plane in 0..self.geometry.superblock_planes {
            self.note_bytes(OpKind::Erase, Ppn(first.0 + plane), cause, 0);
        }
        match outcome {
            Ok(()) => self.release_free(block),
            Err(NandError::EraseFailed(_)) => self.retire(block),
            Err(error) => {
                self.ledger.cut += 1;
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn retire(&mut self, block: BlockId) {
        self.forget_unreadable(block);
        self.nand.mark_bad(block);
        self.lose_block(block);
        self.stats.retired_blocks += 1;
    }

    /// A block that holds nothing is not used any more: its pool has one fewer.
    fn lose_block(&mut self, block: BlockId) {
        self.blocks.retire(block);
        self.turns.lose_block(self.pool_of(block));
    }

    #[inline]
    fn note(&mut self, kind: OpKind, ppn: Ppn, cause: Cause) {
        if self.ops.is_listening() {
            self.note_bytes(kind, ppn, cause, self.geometry.page_bytes);
        }
    }

    #[inline]
    fn note_bytes(&mut self, kind: OpKind, ppn: Ppn, cause: Cause, bytes: u32) {
        if !self.ops.is_listening() {
            return;
        }
        let after = if kind == OpKind::Program { self.ops.since_last_read() } else { 0 };
        let plane = self.plane_of(ppn);
        self.ops.push(FlashOp { plane, kind, cause, after, bytes, count: 1 });
    }

    /// The LPN that the page's OOB names, without a flash operation.
    #[inline]
    pub fn owner(&self, ppn: Ppn) -> Lpn {
        Lpn(self.nand.owner(ppn))
    }

    /// Open blocks with the streams that fill them.
    pub(crate) fn open_streams(&self) -> impl Iterator<Item = (Stream, BlockId)> + '_ {
        let open = self.frontiers.iter().enumerate().chain(self.parked.iter().enumerate());
        let stream = |index: usize| Stream::ALL[index / self.pools as usize];
        open.filter(|(_, f)| f.left > 0).map(move |(index, f)| (stream(index), f.block))
    }

    /// Open blocks, for audits, with the number of their pages that are programmed.
    pub(crate) fn open_blocks(&self) -> impl Iterator<Item = (BlockId, u32)> + '_ {
        let programmed = |f: &Frontier| f.next.0 - self.geometry.first_page(f.block).0;
        let open = self.frontiers.iter().chain(&self.parked);
        open.filter(|f| f.left > 0).map(move |f| (f.block, programmed(f)))
    }
}
