//! A miniature page-mapped device around a store of page validity: it writes at random, collects greedily, and keeps a
//! bitmap in RAM with the expected answers. Its data pages are only numbers. The pages of the store are real, on
//! simulated flash of the same geometry.

use std::collections::VecDeque;

use wearwell::Result;
use wearwell::address::{BlockId, Lpn, OptionalAddress, Ppn};
use wearwell::data::{Content, Fingerprint, mix_bits};
use wearwell::nand::{AnyNand, Geometry, Nand, Oob, PageKind};
use wearwell::operation::Cause;
use wearwell::store::{BlockState, FlashPageStore, FreeBlockOrder, PagesToCopy, Stream};
use wearwell::validity::ValidityStore;

/// Store of page validity that these tests can run.
pub trait StoreUnderTest: ValidityStore {}
impl<V: ValidityStore> StoreUnderTest for V {}

/// Returns a geometry, given pools, blocks per pool, pages per block, and bytes per page.
pub fn geometry([pools, blocks, pages, page_bytes]: [u32; 4]) -> Geometry {
    Geometry {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: pools,
        blocks_per_plane: blocks,
        pages_per_block: pages,
        page_bytes,
        spare_bytes: 64,
        superblock_planes: 1,
    }
    .checked()
    .expect("a valid geometry")
}

/// Miniature page-mapped device around the store of page validity under test.
pub struct Drive<V> {
    /// Flash on which the store under test keeps its pages.
    pub io: FlashPageStore,
    /// Store of page validity under test.
    pub validity: V,
    /// Last sequence number before each block was opened; `u64::MAX` for a block without data.
    pub opened_at_sequence: Vec<u64>,
    /// Number of logical pages to which the host writes, from page 0 on.
    pub host_used_pages: u64,
    /// Number of queries for the valid pages of a block so far.
    pub queries: u64,
    /// Whether a block is erased as soon as it has no valid page, so that pages which the store releases too early are
    /// lost.
    pub erases_immediately: bool,
    /// Maximum number of flash pages that the store under test needed at one time.
    pub max_valid_validity_pages: u64,
    /// Numbers of blocks and pages of the flash.
    geometry: Geometry,
    /// Flash page of each logical page.
    map: Vec<Ppn>,
    /// Logical page for which each flash page was programmed last.
    owner: Vec<Lpn>,
    /// Sequence number at which each flash page was reported as invalid; `None` for a valid or erased page.
    reported_invalid_at_sequence: Vec<Option<u64>>,
    /// Number of invalid pages of each block.
    invalid_page_count_of_block: Vec<u32>,
    /// Whether each block is full of data, so that it can be collected.
    is_closed: Vec<bool>,
    /// Erased blocks, in the order in which they are opened.
    free: VecDeque<BlockId>,
    /// Open block to which data is written.
    current_block: BlockId,
    /// Index within `current_block` of the page that is programmed next.
    next_page_index: u32,
    /// Number of random numbers drawn so far.
    drawn_random_numbers: u64,
}

impl<V: StoreUnderTest> Drive<V> {
    /// Returns a device on which no logical page is written. `full` is its number of logical pages as a share of the
    /// flash pages, and `new` creates the store under test.
    pub fn new(nand: impl Into<AnyNand>, full: f64, new: impl Fn(&Geometry, u64) -> V) -> Self {
        let nand = nand.into();
        let geometry = nand.geometry().clone();
        let (pages, blocks) = (geometry.pages() as usize, geometry.blocks() as usize);
        let logical = (pages as f64 * full) as usize;
        Self {
            validity: new(&geometry, (pages - logical) as u64),
            io: FlashPageStore::new(nand, FreeBlockOrder::Fifo),
            opened_at_sequence: vec![u64::MAX; blocks],
            host_used_pages: logical as u64,
            queries: 0,
            erases_immediately: false,
            max_valid_validity_pages: 0,
            map: vec![Ppn::NONE; logical],
            owner: vec![Lpn::NONE; pages],
            reported_invalid_at_sequence: vec![None; pages],
            invalid_page_count_of_block: vec![0; blocks],
            is_closed: vec![false; blocks],
            free: (0..blocks as u32).map(BlockId).collect(),
            current_block: BlockId::NONE,
            next_page_index: geometry.block_pages(),
            drawn_random_numbers: 0,
            geometry,
        }
    }

    /// Returns the number of logical pages.
    pub fn logical_pages(&self) -> u64 {
        self.map.len() as u64
    }

    /// Returns the number of flash pages minus that of logical pages.
    pub fn spare_pages(&self) -> u64 {
        self.geometry.pages() - self.logical_pages()
    }

    /// Returns the number of valid flash pages of the store under test, as the block table counts them.
    pub fn valid_validity_pages(&self) -> u64 {
        (0..self.geometry.blocks()).map(|block| self.io.blocks().valid_pages(BlockId(block)) as u64).sum()
    }

    /// Returns a random number less than `below`.
    fn random(&mut self, below: u64) -> u64 {
        self.drawn_random_numbers += 1;
        mix_bits(self.drawn_random_numbers) % below
    }

    /// Returns the flash pages of a block.
    fn pages_of(&self, block: BlockId) -> impl Iterator<Item = Ppn> + use<V> {
        let first = self.geometry.first_page(block).0;
        (first..first + self.geometry.block_pages()).map(Ppn)
    }

    /// Executes `updates` random overwrites, and all deferred writes of the store under test before each; panics at an
    /// error.
    pub fn run(&mut self, updates: u64) {
        self.try_run(updates).expect("no fault");
    }

    /// Executes `updates` random overwrites, and all deferred writes of the store under test before each; returns the
    /// error of the medium.
    pub fn try_run(&mut self, updates: u64) -> Result<()> {
        for _ in 0..updates {
            let lpn = self.random(self.host_used_pages);
            self.execute_deferred_writes()?;
            if self.drawn_random_numbers.is_multiple_of(997) {
                self.relocate_some_block()?;
            }
            self.write(lpn)?;
        }
        self.execute_deferred_writes()
    }

    /// Executes random overwrites, and queries the store under test for random blocks; returns the number of queries.
    pub fn run_with_queries(&mut self, updates: u64) -> u64 {
        let before = self.queries;
        for part in 0..updates.div_ceil(61) {
            self.run(61.min(updates - part * 61));
            self.query_random_block();
        }
        self.queries - before
    }

    /// Executes random overwrites in `rounds` rounds. During a round the deferred writes of the store under test are
    /// not executed, so that reports accumulate. Returns the number of these overwrites.
    pub fn run_with_pending_writes(&mut self, rounds: u64) -> u64 {
        self.fill();
        let mut unsettled = 0;
        for _ in 0..rounds {
            let updates = self.random(300);
            unsettled += updates;
            for _ in 0..updates {
                let lpn = self.random(self.host_used_pages);
                self.write(lpn).expect("no fault");
                self.query_random_block();
            }
            for _ in 0..self.random(60) {
                self.execute_deferred_write_step().expect("no fault");
                self.query_random_block();
            }
        }
        self.execute_deferred_writes().expect("no fault");
        unsettled
    }

    /// Writes every logical page once.
    pub fn fill(&mut self) {
        for lpn in 0..self.logical_pages() {
            self.execute_deferred_writes().expect("no fault");
            self.write(lpn).expect("no fault");
        }
        self.execute_deferred_writes().expect("no fault");
    }

    /// Executes all deferred writes of the store under test.
    fn execute_deferred_writes(&mut self) -> Result<()> {
        while self.execute_deferred_write_step()? {}
        Ok(())
    }

    /// Executes one step of the deferred writes of the store under test; returns whether there was anything to do.
    fn execute_deferred_write_step(&mut self) -> Result<bool> {
        self.make_room()?;
        let programs = self.io.stats.total_programs();
        let before = self.valid_validity_pages();
        let settled = self.validity.execute_next_deferred_validity_write(&mut self.io)?;
        let programs = self.io.stats.total_programs() - programs;
        assert!(
            programs <= self.validity.max_page_writes_per_deferred_step() as u64,
            "{programs} pages in one write_deferred"
        );
        // The new page was programmed before the old one was released.
        self.max_valid_validity_pages = self.max_valid_validity_pages.max(before + programs);
        Ok(settled)
    }

    /// Writes a logical page, and reports its previous flash page as invalid.
    fn write(&mut self, lpn: u64) -> Result<()> {
        let place = self.program_after_gc(Lpn(lpn as u32))?;
        if let Some(old) = std::mem::replace(&mut self.map[lpn as usize], place).to_option() {
            self.validity.invalidate(old);
            self.reported_invalid_at_sequence[old.index()] = Some(self.io.last_sequence());
            self.invalid_page_count_of_block[self.io.block_of(old).index()] += 1;
        }
        Ok(())
    }

    /// Programs a logical page to the open block, after GC if too few blocks are free; returns the flash page.
    fn program_after_gc(&mut self, lpn: Lpn) -> Result<Ppn> {
        if self.next_page_index == self.geometry.block_pages() {
            while self.free.len() < 2 {
                self.collect()?;
            }
            if self.next_page_index == self.geometry.block_pages() {
                self.open_block();
            }
        }
        Ok(self.use_next_page(lpn))
    }

    /// Takes the next page of the open block for a logical page; returns the flash page.
    fn use_next_page(&mut self, lpn: Lpn) -> Ppn {
        let place = Ppn(self.geometry.first_page(self.current_block).0 + self.next_page_index);
        self.next_page_index += 1;
        self.owner[place.index()] = lpn;
        place
    }

    /// Opens an erased block for data and reports it as opened.
    fn open_block(&mut self) {
        if self.current_block != BlockId::NONE {
            self.is_closed[self.current_block.index()] = true;
        }
        let block = self.free.pop_front().expect("collection keeps a free block");
        (self.current_block, self.next_page_index) = (block, 0);
        self.validity.record_block_opened(block);
        self.opened_at_sequence[block.index()] = self.io.last_sequence();
        self.invalid_page_count_of_block[block.index()] = 0;
        self.pages_of(block).for_each(|ppn| self.reported_invalid_at_sequence[ppn.index()] = None);
    }

    /// Collects the block with the most invalid pages. Its valid pages are queried from the store under test.
    fn collect(&mut self) -> Result<()> {
        let closed = (0..self.geometry.blocks()).map(BlockId).filter(|block| self.is_closed[block.index()]);
        let victim = closed
            .max_by_key(|block| self.invalid_page_count_of_block[block.index()])
            .expect("a closed block");
        for from in self.query_valid_pages(victim)? {
            let lpn = self.owner[from.index()];
            if self.next_page_index == self.geometry.block_pages() {
                self.open_block();
            }
            self.map[lpn.index()] = self.use_next_page(lpn);
        }
        self.is_closed[victim.index()] = false;
        self.opened_at_sequence[victim.index()] = u64::MAX;
        self.free.push_back(victim);
        Ok(())
    }

    /// Queries the valid pages of a block from the store under test, and asserts that they agree with the bitmap in
    /// RAM.
    fn query_valid_pages(&mut self, block: BlockId) -> Result<Vec<Ppn>> {
        let mut live = Vec::new();
        self.queries += 1;
        self.validity.append_valid_pages(&mut self.io, block, &mut live)?;
        let mut expected =
            self.pages_of(block).filter(|ppn| self.reported_invalid_at_sequence[ppn.index()].is_none());
        assert!(live.iter().copied().eq(expected.by_ref()), "block {block}: {live:?}");
        Ok(live)
    }

    /// Queries the valid pages of a random block that has been opened.
    fn query_random_block(&mut self) {
        let block = BlockId(self.random(self.geometry.blocks() as u64) as u32);
        if self.opened_at_sequence[block.index()] != u64::MAX {
            self.query_valid_pages(block).expect("no fault");
        }
    }

    /// Erases blocks that have no valid page of the store under test. If too few blocks are free, also moves the valid
    /// pages of the store from other blocks.
    fn make_room(&mut self) -> Result<()> {
        let low = self.geometry.blocks() / 4;
        if !self.erases_immediately && self.io.total_free_blocks() > low {
            return Ok(());
        }
        self.finish_erases()?;
        while self.io.total_free_blocks() <= low / 2 {
            self.relocate_some_block()?;
            self.finish_erases()?;
        }
        Ok(())
    }

    /// Erases the blocks of the store under test that have no valid page.
    fn finish_erases(&mut self) -> Result<()> {
        for block in (0..self.geometry.blocks()).map(BlockId) {
            let state = self.io.blocks().state(block);
            let erasable = matches!(state, BlockState::Closed | BlockState::Erasing);
            if erasable && self.io.blocks().valid_pages(block) == 0 {
                self.io.erase(block, Cause::Gc)?;
            }
        }
        Ok(())
    }

    /// Moves the valid pages of one block of the store under test, the block with the fewest of them, as GC of metadata
    /// does.
    fn relocate_some_block(&mut self) -> Result<()> {
        let blocks = self.io.blocks();
        let candidates = (0..self.geometry.blocks()).map(BlockId).filter(|&block| {
            blocks.state(block) == BlockState::Closed
                && (1..blocks.max_valid_pages_per_block()).contains(&blocks.valid_pages(block))
        });
        let Some(victim) = candidates.min_by_key(|&block| blocks.valid_pages(block)) else { return Ok(()) };
        let owned = |&ppn: &Ppn| self.validity.holds_current_metadata_page(self.io.owner_in_oob(ppn).0, ppn);
        let from: Vec<Ppn> = self.pages_of(victim).filter(owned).collect();
        assert_eq!(
            from.len() as u32,
            blocks.valid_pages(victim),
            "what the store owns is what counts as valid"
        );
        let owners: Vec<Lpn> = from.iter().map(|&ppn| self.io.owner_in_oob(ppn)).collect();
        let (pool, mut places) = (self.io.preferred_append_pool(Stream::Validity), Vec::new());
        let moves = PagesToCopy { source_pages: &from, owners: &owners };
        let outcome = self.io.copy_pages(moves, Stream::Validity, pool, Cause::Gc, &mut places);
        for ((&from, owner), to) in from.iter().zip(owners).zip(places) {
            self.validity.record_metadata_page_move(owner.0, from, to);
            self.io.count_page_invalid(from);
        }
        outcome
    }

    /// Returns for each flash page whether it was reported as invalid before the program with sequence number
    /// `durable`, and its block is in use.
    pub fn pages_invalid_before(&self, durable: u64) -> Vec<bool> {
        let in_use =
            |ppn: usize| self.opened_at_sequence[self.io.block_of(Ppn(ppn as u32)).index()] != u64::MAX;
        let reported = self.reported_invalid_at_sequence.iter().enumerate();
        reported.map(|(ppn, at)| in_use(ppn) && at.is_some_and(|at| at < durable)).collect()
    }

    /// Returns for each flash page whether it was reported as invalid since its block was last opened, also if the
    /// block has been erased since.
    pub fn pages_ever_invalid(&self) -> Vec<bool> {
        self.reported_invalid_at_sequence.iter().map(Option::is_some).collect()
    }

    /// Reports the pages again that were reported as invalid at the program with sequence number `durable` or later;
    /// returns their number.
    pub fn repeat_invalid_page_reports_since(&mut self, durable: u64) -> usize {
        let lost: Vec<usize> = (0..self.reported_invalid_at_sequence.len())
            .filter(|&ppn| self.reported_invalid_at_sequence[ppn].is_some_and(|at| at >= durable))
            .filter(|&ppn| self.opened_at_sequence[self.io.block_of(Ppn(ppn as u32)).index()] != u64::MAX)
            .collect();
        for &ppn in &lost {
            self.validity.invalidate(Ppn(ppn as u32));
            self.reported_invalid_at_sequence[ppn] = Some(self.io.last_sequence());
        }
        lost.len()
    }

    /// Replaces the store under test, whose RAM was lost, by a recovered one. Corrects the valid counts of blocks by
    /// the pages `found` on flash.
    pub fn replace_validity(&mut self, recovered: V, found: &[(Ppn, Oob)]) {
        let old = std::mem::replace(&mut self.validity, recovered);
        for &(ppn, oob) in found {
            match (
                old.holds_current_metadata_page(oob.owner, ppn),
                self.validity.holds_current_metadata_page(oob.owner, ppn),
            ) {
                (true, false) => self.io.count_page_invalid(ppn),
                (false, true) => self.io.revive_page(ppn),
                (true, true) | (false, false) => {}
            }
        }
    }
}

impl<V: StoreUnderTest> Drive<V> {
    /// Programs the page whose program a power cut prevented. The block table, which survives the cut in this test,
    /// counts that page as used, and pages of a block must be programmed in order.
    pub fn consume_interrupted_page(&mut self) {
        let page = vec![0; self.geometry.page_bytes as usize];
        for block in (0..self.geometry.blocks()).map(BlockId) {
            let left = match self.io.blocks().state(block) {
                BlockState::Open => {
                    self.io.open_block_pages_left(Stream::Validity, self.io.allocation_pool_of_block(block))
                }
                BlockState::Closed => 0,
                BlockState::Free | BlockState::Erasing | BlockState::Retired => continue,
            };
            let last = Ppn(self.geometry.first_page(block).0 + self.geometry.block_pages() - left - 1);
            if self.io.nand_mut().probe_page(last) == Ok(None) {
                let oob = Oob {
                    kind: PageKind::Validity,
                    owner: 0,
                    sequence_number: 0,
                    first_write_sequence_number: 0,
                    fingerprint: Fingerprint::default(),
                };
                self.io.nand_mut().program(last, oob, Content::Bytes(&page)).expect("power is back");
            }
        }
    }
}
