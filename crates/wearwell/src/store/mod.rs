//! Allocation: into which block and page the next page of each stream is programmed.
//!
//! A *stream* holds one kind of page with one expected lifetime (host data, GC copies, translation pages). Each stream
//! has at most one open block per pool. A *pool* is one plane, or all planes over which a superblock extends. Host
//! writes visit the pools in turn, page by page (`pool_rotation.rs`), which spreads a sequential write over all dies. GC
//! copies stay in their victim's pool, so that collecting one pool uses no free block of another. `metadata_pools.rs`
//! chooses the pools for metadata.
//!
//! Only the store picks blocks and only the store calls the NAND, so every program, read and erase is counted here,
//! under its cause, and is entered in the operation list to which the timing model assigns times.
//!
//! This file appends and erases pages. `batch_append.rs` appends many host pages at once and `copies.rs` copies the
//! pages of a block. `retained_versions.rs` retains old versions of translation pages that a recovery compares.
//! `unreadable_pages.rs` tracks pages that cannot be read. `parked_blocks.rs` opens a chosen block for copies.
//! `head_tail.rs` programs and reads the pages in which a block describes itself. `block_recovery.rs` rebuilds the
//! store after a loss of power. `counter_audit.rs` audits the counters.
//!
//! Invariants: an open block belongs to exactly one frontier (a stream's open block in a pool); a free block has no
//! valid page and is erased; the valid counts in the block table equal the pages that were appended and not discarded.

#![expect(clippy::inline_always, reason = "measured: the way of a write costs a tenth less in one piece")]

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

mod batch_append;
mod block_recovery;
mod block_table;
mod content_records;
mod copies;
mod counter_audit;
mod free_block_queue;
mod head_tail;
mod metadata_pools;
mod parked_blocks;
mod pool_rotation;
mod recovery_notes;
mod retained_versions;
mod unreadable_pages;

pub(crate) use block_recovery::FoundBlock;
pub use block_table::{BlockState, BlockTable, GreedyTieBreak};
pub(crate) use content_records::{ContentRecord, ContentRecordKey, content_record_nvram_words};
pub use copies::PagesToCopy;
pub(crate) use counter_audit::CounterAudit;
pub use free_block_queue::FreeBlockOrder;
use free_block_queue::FreeBlockQueue;
pub(crate) use head_tail::{HeadPage, HeadPageReadResult};
pub use head_tail::{HeadTailLayout, TAIL_PAGE_ENTRY_BYTES};
use pool_rotation::PoolRotation;
pub use pool_rotation::Striping;
pub(crate) use recovery_notes::{FoundValidityNotes, validity_note_nvram_words};

use crate::address::{BlockId, Lpn, OptionalAddress, PlaneId, Ppn};
use crate::data::{Content, Fingerprint};
use crate::divide::Divider;
use crate::error::{Error, Result};
use crate::events::FtlEvent;
use crate::nand::{AnyNand, Geometry, Nand, NandError, Oob, PageDataWord, PageKind};
use crate::operation::{Cause, FlashOp, OpKind};
use crate::stats::{FlashOpPage, RequestOpLog, Stats};
use crate::tables::prefetch::load_into_cpu_cache;

/// Number of free blocks that each pool keeps in reserve for the copies of the next GC victim.
pub const GC_RESERVE_BLOCKS: u32 = 1;

/// Stream of writes: pages of one kind and one expected lifetime, for which separate blocks are filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// The stream of host data.
    Host,
    /// The stream of data that garbage collection or wear leveling copied: colder than the host stream.
    Gc,
    /// The stream of translation pages of an L2P map on flash.
    Translation,
    /// The stream of pages of packed deltas, i.e. differences between page versions (Delta-FTL).
    Delta,
    /// The stream of pages that hold several logical pages compressed together.
    Chunk,
    /// The stream of log pages on flash that record remaps (changes of the L2P map without a program).
    RemapLog,
    /// The stream of metadata pages that record which pages are valid.
    Validity,
}

impl Stream {
    /// Number of streams of writes.
    pub const STREAM_COUNT: usize = 7;
    /// All streams of writes, in the order of their numbers.
    pub const ALL: [Stream; Stream::STREAM_COUNT] = [
        Stream::Host,
        Stream::Gc,
        Stream::Translation,
        Stream::Delta,
        Stream::Chunk,
        Stream::RemapLog,
        Stream::Validity,
    ];

    /// Returns the name of the stream of writes for reports: lower case, words joined by `-`.
    pub const fn name(self) -> &'static str {
        match self {
            Stream::Host => "host",
            Stream::Gc => "gc",
            Stream::Translation => "translation",
            Stream::Delta => "delta",
            Stream::Chunk => "chunk",
            Stream::RemapLog => "remap-log",
            Stream::Validity => "validity",
        }
    }

    /// Returns the kind of pages that this stream of writes holds.
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

/// The open block of a stream of writes in a pool (set of planes), with its next page and the number of pages left.
#[derive(Clone, Copy, Debug)]
struct Frontier {
    /// Block that is open; [`BlockId::NONE`] if none is.
    block: BlockId,
    /// Next page of the block to be programmed.
    next_page: Ppn,
    /// Number of pages of the block that can still be programmed with data or metadata. The last pages of the block are
    /// not counted if they are reserved for a description of the block (tail pages).
    pages_left: u32,
}

impl Frontier {
    /// The value for "no open block", which has no page left.
    const NONE: Self = Self { block: BlockId::NONE, next_page: Ppn::NONE, pages_left: 0 };
}

/// Block manager on a flash medium: programs the pages of each stream of writes into open blocks, counts valid pages
/// per block, erases blocks.
#[derive(Clone, Debug)]
pub struct FlashPageStore {
    /// The flash medium, which only the store calls.
    nand: AnyNand,
    /// Geometry of the medium: planes, blocks and pages.
    geometry: Geometry,
    /// Divider by the number of pages of a block, which turns a PPN into a block number.
    pages_per_block_divider: Divider,
    /// Number of pools (planes, or groups of planes over which superblocks extend).
    allocation_pools: u32,
    /// State, valid count and age of each block.
    blocks: BlockTable,
    /// Free blocks of each pool, by pool number.
    free_block_queues: Vec<FreeBlockQueue>,
    /// Open block of each stream of writes in each pool, at index `stream * pools + pool`; [`Frontier::NONE`] if there
    /// is none.
    frontiers: Vec<Frontier>,
    /// Partly filled blocks that were set aside, at the same index as the open block that replaces them. When this open
    /// block is full, its write stream continues in the parked block.
    parked_blocks: Vec<Frontier>,
    /// For each stream of writes, the pools (sets of planes) where it has an open block.
    pools_with_open_block: [Vec<u32>; Stream::STREAM_COUNT],
    /// Rotation of the pools: which pool receives the next page of each stream.
    pool_rotation: PoolRotation,
    /// Sequence number of the last page program or reverse-map entry.
    last_sequence: u64,
    /// Whether a translation page or validity page becomes durable only after all programs before it, because it may
    /// name their pages. Recovery by a backward scan relies on this order.
    programs_metadata_after_earlier_pages: bool,
    /// Whether replaced versions of translation pages are retained for a recovery.
    retains_translation_versions: bool,
    /// Old versions of translation pages retained for a recovery, oldest first, each with the sequence number of the
    /// program that replaced it.
    retained_translation_versions: VecDeque<(u64, Ppn)>,
    /// Pages whose program was interrupted by a loss of power: they may be programmed, but no caller has received their
    /// PPNs.
    interrupted_programs: Vec<Ppn>,
    /// Pages in use that are known to be unreadable: a read failed, or they were programmed as lost, so that every read
    /// of them fails.
    unreadable_pages: FxHashSet<Ppn>,
    /// Pages found unreadable since the last call of [`FlashPageStore::take_found_unreadable_pages`].
    unreported_unreadable_pages: Vec<Ppn>,
    /// Division of blocks into a head page and tail pages, which describe the block, and data pages between; `None` if
    /// blocks have only data pages.
    head_tail_layout: Option<HeadTailLayout>,
    /// Full blocks whose tail pages (lists of the block's OOBs) are not written yet.
    full_blocks_without_tail_pages: Vec<BlockId>,
    /// Blocks opened for data that [`FlashPageStore::take_opened_data_block`] has not returned yet; `None` if they are
    /// not recorded.
    opened_data_blocks: Option<Vec<BlockId>>,
    /// Whether a page program failed since the last call of [`FlashPageStore::take_program_failure_flag`].
    has_program_failed: bool,
    /// Notes in NVRAM that name, for recovery, the data pages whose validity on flash may be outdated; `None` if the
    /// device keeps none.
    nvram_validity_notes: Option<Box<recovery_notes::NvramValidityNotes>>,
    /// Records in NVRAM of shared and compressed pages, for recovery; `None` if the device keeps none.
    content_records: Option<Box<content_records::ContentRecords>>,
    /// Counters of flash operations and events, since they were last cleared.
    pub stats: Stats,
    /// Baseline by which an audit compares the operation counters with the medium.
    counter_audit: CounterAudit,
    /// Flash operations of the current request, to which the timing model assigns times.
    pub flash_ops: RequestOpLog,
    /// Buffer for one page with its spare area, for copies and for head and tail pages.
    page_buffer: Vec<u8>,
}

impl FlashPageStore {
    /// Creates a block manager over a medium whose good blocks are all erased. Free blocks are opened in the order
    /// `order`.
    pub fn new(nand: impl Into<AnyNand>, order: FreeBlockOrder) -> Self {
        Self::with_head_tail_layout(nand.into(), order, None)
    }

    /// Creates a block manager over a medium whose good blocks are all erased, and whose blocks get head and tail pages
    /// that describe them for recovery.
    ///
    /// # Errors
    /// [`Error::InvalidOptions`] if blocks are too small for head and tail pages.
    pub fn with_head_and_tail_pages(nand: impl Into<AnyNand>, order: FreeBlockOrder) -> Result<Self> {
        let nand = nand.into();
        let parts = HeadTailLayout::of_geometry(nand.geometry())?;
        Ok(Self::with_head_tail_layout(nand, order, Some(parts)))
    }

    /// Creates a block manager over a medium, with the division of blocks into head, data and tail pages that is given.
    fn with_head_tail_layout(
        nand: AnyNand,
        order: FreeBlockOrder,
        head_tail_layout: Option<HeadTailLayout>,
    ) -> Self {
        let geometry = nand.geometry().clone();
        let pools = geometry.allocation_pools();
        let data_pages = head_tail_layout.map_or(geometry.block_pages(), |parts| parts.data_pages);
        let page = vec![0; (geometry.page_bytes + geometry.spare_bytes) as usize];
        let mut store = Self {
            pages_per_block_divider: Divider::new(geometry.block_pages()),
            allocation_pools: pools,
            blocks: BlockTable::new(geometry.blocks(), data_pages, pools),
            free_block_queues: (0..pools).map(|_| FreeBlockQueue::new(order)).collect(),
            frontiers: vec![Frontier::NONE; Stream::STREAM_COUNT * pools as usize],
            parked_blocks: vec![Frontier::NONE; Stream::STREAM_COUNT * pools as usize],
            pools_with_open_block: Default::default(),
            pool_rotation: PoolRotation::new(&geometry),
            last_sequence: 0,
            programs_metadata_after_earlier_pages: false,
            retains_translation_versions: false,
            retained_translation_versions: VecDeque::new(),
            interrupted_programs: Vec::new(),
            unreadable_pages: FxHashSet::default(),
            unreported_unreadable_pages: Vec::new(),
            head_tail_layout,
            full_blocks_without_tail_pages: Vec::new(),
            opened_data_blocks: None,
            has_program_failed: false,
            nvram_validity_notes: None,
            content_records: None,
            stats: Stats::default(),
            counter_audit: CounterAudit::default(),
            flash_ops: RequestOpLog::default(),
            page_buffer: page,
            geometry,
            nand,
        };
        store.add_erased_blocks_to_free_queues();
        store.counter_audit.initial_erases = store.total_erase_count();
        store.counter_audit.initial_programmed_pages = store.total_programmed_pages();
        store
    }

    /// Puts all blocks that are not bad into the free blocks of their pools.
    fn add_erased_blocks_to_free_queues(&mut self) {
        for block in (0..self.geometry.blocks()).map(BlockId) {
            self.register_found_block_state(block, FoundBlock::default());
        }
    }

    /// Marks an erased block as free and adds it, with its erase count, to the free blocks of its pool.
    fn return_to_free_blocks(&mut self, block: BlockId) {
        self.remove_unreadable_pages_of(block);
        self.blocks.set_free(block);
        let (wear, pool) = (self.nand.erase_count(block), self.allocation_pool_of_block(block));
        self.free_block_queues[pool as usize].insert(block, wear);
    }

    /// Returns the geometry of the device.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the flash medium.
    pub fn nand(&self) -> &AnyNand {
        &self.nand
    }

    /// Returns the flash medium for mutable access, for example to inject faults and power cuts.
    pub fn nand_mut(&mut self) -> &mut AnyNand {
        &mut self.nand
    }

    /// Returns the flash medium and drops the block manager, with everything that it holds in RAM.
    pub fn into_nand(self) -> AnyNand {
        self.nand
    }

    /// Returns the table with the state and valid count of each block.
    pub fn blocks(&self) -> &BlockTable {
        &self.blocks
    }

    /// Returns the table with the state and valid count of each block, to be changed.
    pub(crate) fn blocks_mut(&mut self) -> &mut BlockTable {
        &mut self.blocks
    }

    /// Returns the number of pools (planes, or groups of planes over which superblocks extend).
    #[inline]
    pub fn allocation_pools(&self) -> u32 {
        self.allocation_pools
    }

    /// Returns the block that holds a page.
    #[inline]
    pub fn block_of(&self, ppn: Ppn) -> BlockId {
        BlockId(self.pages_per_block_divider.quotient(ppn.0))
    }

    /// Returns the pool (a plane, or the planes over which superblocks extend) in which a block is allocated.
    #[inline]
    pub fn allocation_pool_of_block(&self, block: BlockId) -> u32 {
        if self.allocation_pools == 1 { 0 } else { block.0 % self.allocation_pools }
    }

    /// Returns the plane that holds a page. If a block is in a single plane, the plane has the number of the block's
    /// pool.
    #[inline]
    fn plane_of(&self, ppn: Ppn) -> PlaneId {
        let block = self.block_of(ppn);
        match self.geometry.superblock_planes {
            1 => PlaneId(self.allocation_pool_of_block(block)),
            _ => self.geometry.plane_of(block, ppn.0 - self.geometry.first_page(block).0),
        }
    }

    /// Returns the number of free blocks in a pool (a plane, or the planes over which superblocks extend).
    #[inline]
    pub fn free_blocks(&self, pool: u32) -> u32 {
        self.free_block_queues[pool as usize].len()
    }

    /// Returns the number of free blocks of the device.
    pub fn total_free_blocks(&self) -> u32 {
        self.free_block_queues.iter().map(FreeBlockQueue::len).sum()
    }

    /// Returns [`Error::Full`] with the numbers of free and retired blocks of the device, for a request that finds no
    /// free block.
    pub(crate) fn device_full_error(&self) -> Error {
        Error::Full {
            free_blocks: self.total_free_blocks(),
            retired_blocks: self.pool_rotation.retired_blocks(),
        }
    }

    /// Returns the number of unprogrammed pages of all open blocks. Blocks that were set aside partly filled (parked)
    /// are included.
    pub fn unprogrammed_pages_of_open_blocks(&self) -> u64 {
        self.frontiers.iter().chain(&self.parked_blocks).map(|f| f.pages_left as u64).sum()
    }

    /// Returns the number of pages that a stream of writes can append in `pool` before it needs a new block.
    #[inline]
    pub fn open_block_pages_left(&self, stream: Stream, pool: u32) -> u32 {
        self.frontiers[self.frontier_index(stream, pool)].pages_left
    }

    /// Returns the number of pages that a stream of writes can append in `pool` without using the free blocks reserved
    /// for garbage collection.
    pub(crate) fn free_pages_above_reserve(&self, stream: Stream, pool: u32) -> u32 {
        let spare_blocks = self.free_blocks(pool).saturating_sub(GC_RESERVE_BLOCKS);
        self.open_block_pages_left(stream, pool) + spare_blocks * self.data_pages_per_block()
    }

    /// Returns the pool for the write stream's next page, and makes the following pool the next one: successive calls
    /// visit all pools in turn.
    #[inline]
    pub fn take_next_pool(&mut self, stream: Stream) -> u32 {
        self.pool_rotation.take_next_pool(stream)
    }

    /// Sets the order in which, from this call on, successive pages of every stream of writes visit the pools (sets of
    /// planes).
    pub fn set_striping(&mut self, striping: Striping) {
        self.pool_rotation.set_striping(striping, &self.geometry);
    }

    /// Undoes one [`FlashPageStore::take_next_pool`] that returned `pool`, because the page is not written after all:
    /// the write stream's next page goes to `pool`.
    #[inline]
    pub(crate) fn restore_next_pool(&mut self, stream: Stream, pool: u32) {
        self.pool_rotation.set_next_pool(stream, pool);
    }

    /// Returns the pool for the write stream's next page, without advancing to the following pool.
    #[inline]
    pub fn next_pool_of_stream(&self, stream: Stream) -> u32 {
        self.pool_rotation.next_pool(stream)
    }

    /// Returns the index in `frontiers` of the open block of a stream of writes in a pool.
    #[inline]
    fn frontier_index(&self, stream: Stream, pool: u32) -> usize {
        stream as usize * self.allocation_pools as usize + pool as usize
    }

    /// Sets the open block at `index` of the streams' open blocks, and keeps the lists of pools with open blocks
    /// current.
    fn set_frontier(&mut self, index: usize, frontier: Frontier) {
        self.frontiers[index] = frontier;
        let pools = self.allocation_pools as usize;
        let (open, pool) = (&mut self.pools_with_open_block[index / pools], (index % pools) as u32);
        let listed = open.iter().position(|&listed| listed == pool);
        match listed {
            Some(at) if frontier.pages_left == 0 => drop(open.swap_remove(at)),
            None if frontier.pages_left > 0 => open.push(pool),
            _ => {}
        }
    }

    /// Makes every translation page and validity page become durable only after all programs before it, on a medium
    /// that buffers writes ([`Nand::fence`]).
    pub(crate) fn enable_metadata_programs_after_earlier_pages(&mut self) {
        self.programs_metadata_after_earlier_pages = true;
    }

    /// Programs the next page of the write stream `stream` in `pool` and counts it as valid. Returns its PPN.
    ///
    /// A failed program uses up the page and closes its block, which GC will empty and retire. The page is then
    /// programmed in a new block.
    ///
    /// # Errors
    /// [`Error::Full`] if the pool has no block left, power loss.
    #[inline(always)]
    pub fn append_page(
        &mut self,
        stream: Stream,
        pool: u32,
        owner: u32,
        content: Content<'_>,
        fingerprint: Fingerprint,
        cause: Cause,
    ) -> Result<Ppn> {
        loop {
            let (index, oob) = self.prepare_program(stream, pool, owner, fingerprint)?;
            let outcome = self.nand.program(self.frontiers[index].next_page, oob, content);
            if let Some(place) = self.finish_program(index, outcome, cause)? {
                return Ok(place);
            }
        }
    }

    /// Appends a metadata page to the write stream `stream`. The page equals the page at `base` except for `words` of
    /// four bytes ([`Nand::program_changed_page`]). Returns its PPN. A failed program is repeated in a new block.
    ///
    /// # Errors
    /// As [`FlashPageStore::append_page`].
    pub(crate) fn append_changed_page(
        &mut self,
        stream: Stream,
        owner: u32,
        (base, words): (Ppn, &[PageDataWord]),
        cause: Cause,
    ) -> Result<Ppn> {
        let pool = self.take_append_pool(stream);
        loop {
            let (index, oob) = self.prepare_program(stream, pool, owner, Fingerprint::default())?;
            let outcome = self.nand.program_changed_page(self.frontiers[index].next_page, oob, base, words);
            if let Err(error @ NandError::Uncorrectable(_)) = outcome {
                return Err(self.record_read_failure(base, error, cause));
            }
            if let Some(place) = self.finish_program(index, outcome, cause)? {
                return Ok(place);
            }
        }
    }

    /// Returns the index of the open block whose next page is to be programmed, and the OOB for that page. Opens a
    /// block if needed. The caller programs the page and then calls [`FlashPageStore::finish_program`].
    #[inline(always)]
    fn prepare_program(
        &mut self,
        stream: Stream,
        pool: u32,
        owner: u32,
        fingerprint: Fingerprint,
    ) -> Result<(usize, Oob)> {
        let index = self.frontier_index(stream, pool);
        if self.frontiers[index].pages_left == 0 {
            self.open_block_for_stream(stream, pool)?;
        }
        if matches!(stream, Stream::Translation | Stream::Validity)
            && self.programs_metadata_after_earlier_pages
        {
            self.nand.fence()?;
        }
        self.last_sequence += 1;
        let sequence = self.last_sequence;
        Ok((
            index,
            Oob {
                kind: stream.kind(),
                owner,
                sequence_number: sequence,
                first_write_sequence_number: sequence,
                fingerprint,
            },
        ))
    }

    /// Counts a program of the next page of the open block at `index` and handles its outcome. Returns the PPN of the
    /// page, or `None` if the program failed and has to be repeated in another block.
    #[inline(always)]
    fn finish_program(
        &mut self,
        index: usize,
        outcome: std::result::Result<(), NandError>,
        cause: Cause,
    ) -> Result<Option<Ppn>> {
        let Frontier { block, next_page: next, .. } = self.frontiers[index];
        self.stats.programs[cause as usize] += 1;
        self.record_operation(OpKind::Program, next, cause);
        match outcome {
            Ok(()) => {
                self.blocks.add_valid_pages(block, 1);
                self.advance_open_block(index, 1);
                Ok(Some(next))
            }
            Err(error) => self.handle_program_failure(index, error, cause).map(|()| None),
        }
    }

    /// Handles a failed program of the next page of the open block at `frontier_index`, and closes the block. Returns
    /// the error if repeating the program in another block is pointless, as after a loss of power.
    fn handle_program_failure(
        &mut self,
        frontier_index: usize,
        error: NandError,
        cause: Cause,
    ) -> Result<()> {
        let Frontier { block, next_page: next, .. } = self.frontiers[frontier_index];
        self.stats.unsuccessful_host_programs += u64::from(cause == Cause::Host);
        self.advance_open_block(frontier_index, 1);
        if matches!(error, NandError::ProgramFailed(_)) {
            self.close_failed_open_block(frontier_index, block);
            return Ok(());
        }
        self.interrupted_programs.push(next);
        self.counter_audit.interrupted_operations += 1;
        Err(error.into())
    }

    /// Advances the next page of the open block at `frontier_index` by `count` programmed pages; closes the block if it
    /// is full.
    #[inline]
    fn advance_open_block(&mut self, frontier_index: usize, count: u32) {
        let frontier = &mut self.frontiers[frontier_index];
        frontier.next_page.0 += count;
        frontier.pages_left -= count;
        if frontier.pages_left == 0 {
            self.close_open_block(frontier_index);
        }
    }

    /// Closes an open block early after a failed program, and marks it for retirement in the bad-block table of the
    /// medium: GC will empty the block, then it is retired.
    fn close_failed_open_block(&mut self, frontier_index: usize, block: BlockId) {
        self.nand.mark_program_failed(block);
        self.has_program_failed = true;
        if self.frontiers[frontier_index].block == block {
            self.close_open_block(frontier_index);
        }
    }

    /// Opens a free block for a stream of writes in `pool`, and programs its head page if blocks have one.
    fn open_block_for_stream(&mut self, stream: Stream, pool: u32) -> Result<()> {
        if self.head_tail_layout.is_none() {
            return self.open_next_free_block(stream, pool).map(drop);
        }
        self.write_pending_tail_pages()?;
        let index = self.frontier_index(stream, pool);
        loop {
            let block = self.open_next_free_block(stream, pool)?;
            if self.write_head_page(index, stream, block)? {
                return Ok(());
            }
        }
    }

    /// Removes the next block from the free blocks of `pool` and makes it the open block of a stream. GC takes the most
    /// worn block if blocks are ordered by wear.
    fn open_next_free_block(&mut self, stream: Stream, pool: u32) -> Result<BlockId> {
        let worn = stream == Stream::Gc;
        let Some(block) = self.free_block_queues[pool as usize].take_next_block(worn) else {
            return Err(self.device_full_error());
        };
        self.make_open_block(stream, block);
        Ok(block)
    }

    /// Makes `block`, which was removed from the free blocks, the open block of the write stream in the block's pool.
    fn make_open_block(&mut self, stream: Stream, block: BlockId) {
        self.blocks.set_open(block, stream.kind(), self.last_sequence);
        if stream.kind() == PageKind::Data
            && let Some(opened) = &mut self.opened_data_blocks
        {
            opened.push(block);
        }
        let index = self.frontier_index(stream, self.allocation_pool_of_block(block));
        let next = self.first_data_page(block);
        self.set_frontier(
            index,
            Frontier { block, next_page: next, pages_left: self.data_pages_per_block() },
        );
    }

    /// Makes the store record the blocks that it opens for data, for [`FlashPageStore::take_opened_data_block`].
    pub(crate) fn record_opened_data_blocks(&mut self) {
        self.opened_data_blocks = Some(Vec::new());
    }

    /// Removes and returns one entry of the list of blocks that were opened for data, one entry for each opening;
    /// `None` if the list is empty.
    #[inline]
    pub(crate) fn take_opened_data_block(&mut self) -> Option<BlockId> {
        self.opened_data_blocks.as_mut()?.pop()
    }

    /// Returns whether a page program failed since the last call, and clears the flag. A failed program closes an open
    /// block before it is full.
    pub(crate) fn take_program_failure_flag(&mut self) -> bool {
        std::mem::take(&mut self.has_program_failed)
    }

    /// Closes the open block at `frontier_index`. The stream continues in the block that was set aside (parked) there,
    /// if any.
    fn close_open_block(&mut self, frontier_index: usize) {
        let block = self.frontiers[frontier_index].block;
        let parked = self.unpark_block(frontier_index);
        self.set_frontier(frontier_index, parked);
        self.blocks.close(block, self.last_sequence);
        self.schedule_tail_program(block);
    }

    /// Prefetches the valid counts of the blocks of `pages`, which are about to be discarded, so that the cache misses
    /// overlap.
    #[inline]
    pub(crate) fn prefetch_valid_counts(&self, pages: impl Iterator<Item = Ppn>) {
        load_into_cpu_cache(pages.map(|ppn| u64::from(self.blocks.valid_pages(self.block_of(ppn)))));
    }

    /// Prefetches the memory that emptying, erasing, opening and closing `block` will access: entries of about ten
    /// tables, whose cache misses overlap.
    #[inline]
    pub(crate) fn prefetch_block(&self, block: BlockId) {
        self.nand.prefetch_block(block);
        load_into_cpu_cache(
            [self.blocks.opened_at_sequence(block), self.blocks.closed_at_sequence(block)].into_iter(),
        );
    }

    /// Counts the page at `ppn` as invalid: lowers the valid count of its block. O(1), one random access.
    #[inline]
    pub fn count_page_invalid(&mut self, ppn: Ppn) {
        let block = self.block_of(ppn);
        self.blocks.remove_valid_pages(block, 1);
    }

    /// Counts `count` valid pages of a block as invalid.
    pub(crate) fn lower_valid_count(&mut self, block: BlockId, count: u32) {
        self.blocks.remove_valid_pages(block, count);
    }

    /// Counts the metadata page at `ppn` as invalid, and allows the simulation to drop its bytes: the page will not be
    /// read again.
    pub fn count_metadata_page_invalid(&mut self, ppn: Ppn) {
        self.nand.discard_bytes_of_metadata_pages(&[ppn]);
        self.count_page_invalid(ppn);
    }

    /// Counts an invalid page as valid again; its block must not have been erased since it became invalid.
    #[inline]
    pub fn revive_page(&mut self, ppn: Ppn) {
        let block = self.block_of(ppn);
        self.blocks.count_invalid_page_valid_again(block);
    }

    /// Reads the page at `ppn`, counts the read under `cause` and returns the OOB. `into` receives the bytes if the
    /// medium keeps them ([`Nand::read`]); an empty buffer skips the data.
    ///
    /// # Errors
    /// Uncorrectable page, power loss.
    #[inline]
    pub fn read(&mut self, ppn: Ppn, into: &mut [u8], cause: Cause) -> Result<Oob> {
        let oob = self.nand.read(ppn, into).map_err(|error| self.record_read_failure(ppn, error, cause))?;
        self.stats.reads[cause as usize] += 1;
        self.record_operation(OpKind::Read, ppn, cause);
        Ok(oob)
    }

    /// Reads several pages for the host into consecutive page-sized parts of `into`. Returns how many were read, and
    /// the error that ended the reads, if any.
    pub(crate) fn read_pages(&mut self, pages: &[Ppn], into: &mut [u8]) -> (usize, Result<()>) {
        let (done, outcome) = self.nand.read_pages(pages, into);
        self.stats.reads[Cause::Host as usize] += done as u64;
        pages[..done].iter().for_each(|&ppn| self.record_operation(OpKind::Read, ppn, Cause::Host));
        (done, outcome.map_err(|error| self.record_read_failure(pages[done], error, Cause::Host)))
    }

    /// Reads a metadata page and passes its bytes to the function `look`, without copying them if the medium has them
    /// in memory. Otherwise `page`, a buffer of one page, receives the bytes first.
    ///
    /// # Errors
    /// Uncorrectable page, power loss.
    pub(crate) fn read_page_in_place(
        &mut self,
        ppn: Ppn,
        page: &mut [u8],
        look: &mut dyn FnMut(&[u8]),
        cause: Cause,
    ) -> Result<()> {
        self.nand
            .read_page_in_place(ppn, page, look)
            .map_err(|error| self.record_read_failure(ppn, error, cause))?;
        self.stats.reads[cause as usize] += 1;
        self.record_operation(OpKind::Read, ppn, cause);
        Ok(())
    }

    /// Reads a metadata page and fills in the values of `words`, the words of four bytes that are needed. Counts as one
    /// page read.
    ///
    /// # Errors
    /// Uncorrectable page, power loss.
    pub(crate) fn read_words(&mut self, ppn: Ppn, words: &mut [PageDataWord], cause: Cause) -> Result<()> {
        self.nand.read_words(ppn, words).map_err(|error| self.record_read_failure(ppn, error, cause))?;
        self.stats.reads[cause as usize] += 1;
        self.record_operation(OpKind::Read, ppn, cause);
        Ok(())
    }

    /// Reads only the spare area of a programmed page and returns its OOB.
    ///
    /// # Errors
    /// Uncorrectable page, power loss.
    pub fn read_spare(&mut self, ppn: Ppn, cause: Cause) -> Result<Oob> {
        let oob = self.nand.read_spare(ppn, &mut [])?;
        self.record_spare_read(ppn, cause);
        Ok(oob)
    }

    /// Reads the spare area of a page in any state and returns its OOB; `None` if the page is erased, torn, or in a bad
    /// block.
    ///
    /// # Errors
    /// Power loss.
    pub(crate) fn read_spare_if_readable(&mut self, ppn: Ppn, cause: Cause) -> Result<Option<Oob>> {
        if self.nand.is_bad(self.block_of(ppn)) {
            return Ok(None);
        }
        self.record_spare_read(ppn, cause);
        match self.nand.probe_page(ppn) {
            Ok(found) => Ok(found),
            Err(NandError::Uncorrectable(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Counts a read of the spare area of one page and lists it for the timing model.
    pub(crate) fn record_spare_read(&mut self, ppn: Ppn, cause: Cause) {
        self.stats.reads[cause as usize] += 1;
        self.stats.spare_reads[cause as usize] += 1;
        let bytes = self.geometry.spare_bytes;
        self.record_operation_of_bytes(OpKind::Read, ppn, cause, bytes);
    }

    /// Reads a page's spare area during recovery and returns its OOB; `None` if the page is erased.
    ///
    /// # Errors
    /// Uncorrectable page, power loss.
    pub fn read_spare_in_recovery(&mut self, ppn: Ppn) -> Result<Option<Oob>> {
        self.flash_ops.record_event(|| FtlEvent::Read {
            ppn,
            cause: Cause::Recovery,
            reads_only_spare_area: true,
        });
        self.stats.reads[Cause::Recovery as usize] += 1;
        self.stats.spare_reads[Cause::Recovery as usize] += 1;
        Ok(self.nand.probe_page(ppn)?)
    }

    /// Returns the NVRAM of the medium, in words of 8 bytes.
    #[inline]
    pub fn nvram(&self) -> &[u64] {
        self.nand.nvram()
    }

    /// Stores the word of 8 bytes at `index` in NVRAM, atomically.
    ///
    /// # Errors
    /// Power loss.
    #[inline]
    pub fn store_nvram_word(&mut self, index: usize, word: u64) -> Result<()> {
        self.stats.controller_work.nvram_written_bytes += 8;
        Ok(self.nand.store_nvram_word(index, word)?)
    }

    /// Counts and times a scan of `bytes` bytes of NVRAM for which no GC victim waits (log cleaning, recovery). The
    /// caller reads the words themselves through [`FlashPageStore::nvram`].
    pub fn charge_nvram_scan(&mut self, bytes: u64) {
        self.record_nvram_scan(None, bytes);
    }

    /// Counts and times a scan of `bytes` bytes of NVRAM for the referrers of `victim` (the logical pages mapped to its
    /// pages). In the timing model, the copies of the victim's pages wait for the scan, and for the pages of the
    /// reverse-map log that were read just before.
    pub fn charge_referrer_scan(&mut self, victim: BlockId, bytes: u64) {
        self.record_nvram_scan(Some(self.geometry.plane_of(victim, 0)), bytes);
    }

    /// Counts a scan of `bytes` bytes of NVRAM and lists it for the timing model. `plane` is that of a GC victim whose
    /// referrers are searched for.
    fn record_nvram_scan(&mut self, plane: Option<PlaneId>, bytes: u64) {
        self.stats.controller_work.nvram_read_bytes += bytes;
        if self.flash_ops.is_recording_ops() {
            self.flash_ops.push_op(FlashOp::nvram_scan(plane, bytes));
        }
    }

    /// Returns the next sequence number. Page programs and entries of the reverse map (P2L) share one sequence.
    #[inline]
    pub(crate) fn take_next_sequence_number(&mut self) -> u64 {
        self.last_sequence += 1;
        self.last_sequence
    }

    /// Makes the following sequence numbers greater than `sequence`, because numbers up to it were used before a power
    /// loss.
    pub(crate) fn continue_sequence_after(&mut self, sequence: u64) {
        self.last_sequence = self.last_sequence.max(sequence);
    }

    /// Returns the sequence number of the last page program or reverse-map (P2L) entry.
    pub fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// Erases a block without valid pages and returns it to the free blocks of its pool, or retires it.
    ///
    /// # Errors
    /// Power loss. A failed erase is not an error: the block is retired.
    pub fn erase(&mut self, block: BlockId, cause: Cause) -> Result<()> {
        assert_eq!(self.blocks.valid_pages(block), 0, "erase of block {block} with valid pages");
        self.drop_scheduled_tail(block);
        if self.nand.has_failed_program(block) {
            self.mark_bad_and_retire_block(block);
            return Ok(());
        }
        self.blocks.set_erasing(block);
        let outcome = self.nand.erase(block);
        self.stats.erases[cause as usize] += self.geometry.superblock_planes as u64;
        self.flash_ops.record_event(|| FtlEvent::Erase { block, cause });
        self.record_erase_ops(block, cause);
        match outcome {
            Ok(()) => self.return_to_free_blocks(block),
            Err(NandError::EraseFailed(_)) => self.mark_bad_and_retire_block(block),
            Err(error) => {
                self.counter_audit.interrupted_operations += 1;
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Marks a block without valid pages as bad on the medium, and retires it.
    fn mark_bad_and_retire_block(&mut self, block: BlockId) {
        self.remove_unreadable_pages_of(block);
        self.nand.mark_bad(block);
        self.retire_block(block);
        self.stats.retired_blocks += 1;
    }

    /// Retires a block without valid pages, so that its pool has one block less for the rest of the life of the device.
    fn retire_block(&mut self, block: BlockId) {
        self.blocks.retire(block);
        self.pool_rotation.record_retired_block(self.allocation_pool_of_block(block));
    }

    /// Adds a flash operation on one page to the list of operations for the timing model, if such a list is kept.
    #[inline]
    fn record_operation(&mut self, kind: OpKind, ppn: Ppn, cause: Cause) {
        if self.flash_ops.is_recording_ops() {
            self.record_operation_of_bytes(kind, ppn, cause, self.geometry.page_bytes);
        }
    }

    /// Lists a flash operation on one page for the timing model, and records it as an event. It transfers `bytes`
    /// bytes. A program waits for a read just before it in the list.
    #[inline]
    fn record_operation_of_bytes(&mut self, kind: OpKind, ppn: Ppn, cause: Cause, bytes: u32) {
        if !self.flash_ops.is_recording_ops() {
            return;
        }
        let after = if kind == OpKind::Program { self.flash_ops.ops_back_to_last_read(cause) } else { 0 };
        self.push_single_op(kind, ppn, cause, after, bytes);
        let reads_only_spare_area = bytes < self.geometry.page_bytes;
        match kind {
            OpKind::Read => {
                self.flash_ops.record_event(|| FtlEvent::Read { ppn, cause, reads_only_spare_area });
            }
            OpKind::Program => self.flash_ops.record_event(|| FtlEvent::Program { ppn, cause }),
            // An erase adds an operation for each of its planes to the list, but is one event. Copies and scans have no
            // single page.
            OpKind::Erase | OpKind::Copies | OpKind::NvramScan => {}
        }
    }

    /// Adds the erases of all planes of a block to the list of flash operations. Each waits for the last copy of the
    /// block's data.
    fn record_erase_ops(&mut self, block: BlockId, cause: Cause) {
        if !self.flash_ops.is_recording_ops() {
            return;
        }
        let back_to_copy = self.flash_ops.ops_back_from_next_erase_to_last_copy();
        let first = self.geometry.first_page(block);
        for plane in 0..self.geometry.superblock_planes {
            let after = if back_to_copy == 0 { 0 } else { back_to_copy.saturating_add(plane as u16) };
            self.push_single_op(OpKind::Erase, Ppn(first.0 + plane), cause, after, 0);
        }
    }

    /// Adds one flash operation to the list of operations for the timing model. The operation waits for the one that is
    /// `ops_back_to_dependency` positions before it in the list; 0 means none.
    fn push_single_op(
        &mut self,
        kind: OpKind,
        ppn: Ppn,
        cause: Cause,
        ops_back_to_dependency: u16,
        bytes: u32,
    ) {
        let plane = self.plane_of(ppn);
        self.flash_ops.push_op(FlashOp {
            plane,
            kind,
            cause,
            ops_back_to_dependency,
            transfer_bytes: bytes,
            copied_page_or_nvram_line_count: 1,
        });
        if self.flash_ops.is_recording_op_pages() {
            self.record_operation_page(kind, ppn);
        }
    }

    /// Adds to the list of flash operations the page, page kind and owner of the operation that was added last.
    #[cold]
    fn record_operation_page(&mut self, kind: OpKind, ppn: Ppn) {
        let owner = if kind == OpKind::Erase { u32::MAX } else { self.nand.oob_owner(ppn) };
        self.flash_ops.push_op_page(FlashOpPage { ppn, kind: self.blocks.kind(self.block_of(ppn)), owner });
    }

    /// Returns the LPN that the OOB of the page at `ppn` names, without a flash operation.
    #[inline]
    pub fn owner_in_oob(&self, ppn: Ppn) -> Lpn {
        Lpn(self.nand.oob_owner(ppn))
    }

    /// Returns the open blocks, each with the stream of writes that fills it. Blocks that were set aside partly filled
    /// (parked) are included.
    pub(crate) fn open_blocks_by_stream(&self) -> impl Iterator<Item = (Stream, BlockId)> + '_ {
        let open = self.frontiers.iter().enumerate().chain(self.parked_blocks.iter().enumerate());
        let stream = |index: usize| Stream::ALL[index / self.allocation_pools as usize];
        open.filter(|(_, f)| f.pages_left > 0).map(move |(index, f)| (stream(index), f.block))
    }

    /// Returns the open blocks, each with the number of its programmed pages. Blocks that were set aside partly filled
    /// (parked) are included. For audits.
    pub(crate) fn programmed_pages_of_open_blocks(&self) -> impl Iterator<Item = (BlockId, u32)> + '_ {
        let programmed = |f: &Frontier| f.next_page.0 - self.geometry.first_page(f.block).0;
        let open = self.frontiers.iter().chain(&self.parked_blocks);
        open.filter(|f| f.pages_left > 0).map(move |f| (f.block, programmed(f)))
    }
}
