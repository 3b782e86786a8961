//! Logarithmic Gecko (page validity on flash) under test on a flash of its own, with a bitmap in RAM that has the
//! expected answers.

use wearwell::Result;
use wearwell::address::{BlockId, Lpn, Ppn};
use wearwell::nand::{AnyNand, Geometry, Nand, Oob, PageKind, RetainedPageFields, SimNand};
use wearwell::operation::Cause;
use wearwell::store::{BlockState, FlashPageStore, FreeBlockOrder, PagesToCopy, Stream};
use wearwell::validity::{Gecko, GeckoOptions, MergeMode, ValidityStore};

use crate::common::{Random, geometry_without_superblocks};

/// Returns a geometry with one pool of `blocks` blocks.
pub fn geometry(blocks: u32, block_pages: u32, page_bytes: u32) -> Geometry {
    geometry_without_superblocks([1, blocks, block_pages, page_bytes])
}

/// Returns options of Logarithmic Gecko: size ratio of levels, number of parts per block's bitmap, and how runs are
/// merged.
pub fn options_of(size_ratio: u32, parts: u32, merge: MergeMode) -> GeckoOptions {
    GeckoOptions { size_ratio, parts_per_block: parts, merge_mode: merge }
}

/// Expected answers of Logarithmic Gecko: a bitmap of invalid pages in RAM, with their number per block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExpectedInvalidPages {
    /// Number of pages per block.
    block_pages: u32,
    /// Whether each page of the flash is invalid.
    invalid: Vec<bool>,
    /// Number of invalid pages of each block.
    invalid_page_counts: Vec<u32>,
    /// Number of invalid pages of the flash.
    total_invalid_pages: u64,
}

impl ExpectedInvalidPages {
    /// Creates a bitmap without invalid pages.
    pub fn new(geometry: &Geometry) -> Self {
        Self {
            block_pages: geometry.block_pages(),
            invalid: vec![false; geometry.pages() as usize],
            invalid_page_counts: vec![0; geometry.blocks() as usize],
            total_invalid_pages: 0,
        }
    }

    /// Records that a page is invalid.
    pub fn invalidate(&mut self, page: u32) {
        if !std::mem::replace(&mut self.invalid[page as usize], true) {
            self.invalid_page_counts[(page / self.block_pages) as usize] += 1;
            self.total_invalid_pages += 1;
        }
    }

    /// Records that a block was opened, after which none of its pages is invalid.
    pub fn open(&mut self, block: u32) {
        let first = (block * self.block_pages) as usize;
        self.invalid[first..first + self.block_pages as usize].fill(false);
        self.total_invalid_pages -= std::mem::take(&mut self.invalid_page_counts[block as usize]) as u64;
    }

    /// Returns the pages of a block that are invalid or, if `invalid` is `false`, valid.
    fn pages(&self, block: u32, invalid: bool) -> Vec<u32> {
        let pages = block * self.block_pages..(block + 1) * self.block_pages;
        pages.filter(|&page| self.invalid[page as usize] == invalid).collect()
    }

    /// Returns the numbers of the pages of a block that are not invalid.
    pub fn valid_page_numbers(&self, block: u32) -> Vec<u32> {
        self.pages(block, false)
    }

    /// Returns the blocks that have invalid pages, each with the list of these pages.
    pub fn invalid_pages_by_block(&self) -> Vec<(u32, Vec<u32>)> {
        let blocks = (0..self.invalid_page_counts.len() as u32)
            .filter(|&block| self.invalid_page_counts[block as usize] > 0);
        blocks.map(|block| (block, self.pages(block, true))).collect()
    }
}

/// A report to Logarithmic Gecko: a page became invalid, or a block was opened.
#[derive(Clone, Copy, Debug)]
pub enum GeckoReport {
    /// The page with this number became invalid.
    PageInvalid(u32),
    /// The block with this number was opened.
    BlockOpened(u32),
}

/// Logarithmic Gecko under test on flash, with the bitmap in RAM that has the expected answers.
pub struct Rig {
    /// Flash of Logarithmic Gecko, with its block table.
    pub store: FlashPageStore,
    /// Logarithmic Gecko under test.
    pub gecko: Gecko,
    /// Expected answers of Logarithmic Gecko: a bitmap of invalid pages in RAM.
    pub expected_invalid_pages: ExpectedInvalidPages,
    /// Reports of invalid pages and opened blocks to Logarithmic Gecko, each with the last sequence number before it.
    /// `None` if the test does not need them.
    pub recorded_reports: Option<Vec<(u64, GeckoReport)>>,
    /// Numbers of blocks and pages of the flash.
    geometry: Geometry,
    /// Options of Logarithmic Gecko.
    options: GeckoOptions,
    /// Number of reports of invalid pages and opened blocks so far.
    report_count: u64,
    /// Number of flash pages that queries have read.
    query_reads: u64,
    /// Number of flash pages read by each query that was made while no merge was running.
    reads_per_query: Vec<u64>,
    /// Maximum number of pages in use after a step of deferred writes.
    max_pages_in_use: u64,
    /// Maximum number of pages in use while no merge was running.
    max_pages_between_merges: u64,
    /// Number of flash pages in use while no merge is running, summed over all flushes, and the number of these
    /// flushes.
    page_sum_and_flush_count_between_merges: (u64, u64),
    /// Whether obsolete pages of Logarithmic Gecko must stay on flash, instead of being erased.
    pub keeps_obsolete_pages: bool,
}

impl Rig {
    /// Creates an empty Logarithmic Gecko on simulated flash.
    pub fn new(geometry: &Geometry, options: GeckoOptions) -> Self {
        Self::on(SimNand::new(geometry.clone(), RetainedPageFields::ALL), options)
    }

    /// Creates an empty Logarithmic Gecko on this medium.
    pub fn on(nand: impl Into<AnyNand>, options: GeckoOptions) -> Self {
        let nand = nand.into();
        let geometry = nand.geometry().clone();
        Self {
            gecko: Gecko::new(&geometry, options).expect("valid options"),
            expected_invalid_pages: ExpectedInvalidPages::new(&geometry),
            store: FlashPageStore::new(nand, FreeBlockOrder::Fifo),
            recorded_reports: None,
            geometry,
            options,
            report_count: 0,
            query_reads: 0,
            reads_per_query: Vec::new(),
            max_pages_in_use: 0,
            max_pages_between_merges: 0,
            page_sum_and_flush_count_between_merges: (0, 0),
            keeps_obsolete_pages: false,
        }
    }

    /// Returns the number of flash pages that were programmed for page validity.
    pub fn programs(&self) -> u64 {
        self.store.stats.programs[Cause::Validity as usize]
    }

    /// Returns the number of flash pages that were read for page validity.
    pub fn reads(&self) -> u64 {
        self.store.stats.reads[Cause::Validity as usize]
    }

    /// Counts a report of an invalid page or an opened block. Adds it to `recorded_reports` if the test needs them.
    fn record_report(&mut self, report: GeckoReport) {
        let sequence = self.store.last_sequence();
        if let Some(recorded_reports) = &mut self.recorded_reports {
            recorded_reports.push((sequence, report));
        }
        self.report_count += 1;
    }

    /// Reports a page as invalid to Logarithmic Gecko and to the bitmap.
    pub fn invalidate(&mut self, page: u32) {
        self.record_report(GeckoReport::PageInvalid(page));
        self.gecko.invalidate(Ppn(page));
        self.expected_invalid_pages.invalidate(page);
    }

    /// Reports to Logarithmic Gecko and to the bitmap that a block was opened.
    pub fn open(&mut self, block: u32) {
        self.record_report(GeckoReport::BlockOpened(block));
        self.gecko.record_block_opened(BlockId(block));
        self.expected_invalid_pages.open(block);
    }

    /// Reports a random valid page as invalid. If more than 30 % of the pages are then invalid, draws eight blocks, and
    /// collects and opens the one with the most invalid pages.
    pub fn invalidate_random_page(&mut self, random: &mut Random) {
        let pages = self.geometry.pages();
        let page = loop {
            let page = random.below(pages) as u32;
            if !self.expected_invalid_pages.invalid[page as usize] {
                break page;
            }
        };
        self.invalidate(page);
        if self.expected_invalid_pages.total_invalid_pages * 10 > pages * 3 {
            let blocks = self.geometry.blocks() as u64;
            let drawn = [(); 8].map(|()| random.below(blocks) as u32);
            let victim = drawn
                .into_iter()
                .max_by_key(|&block| self.expected_invalid_pages.invalid_page_counts[block as usize]);
            let victim = victim.expect("eight were drawn");
            let reads = self.query_valid_pages(victim);
            self.reads_per_query.push(reads);
            self.open(victim);
        }
    }

    /// Queries Logarithmic Gecko for the valid pages of a block and compares the answer with the expected one. Returns
    /// the number of flash pages that the query read.
    pub fn query_valid_pages(&mut self, block: u32) -> u64 {
        let (before, mut live) = (self.reads(), Vec::new());
        self.gecko
            .append_valid_pages(&mut self.store, BlockId(block), &mut live)
            .expect("the flash is healthy");
        let live: Vec<u32> = live.into_iter().map(|ppn| ppn.0).collect();
        assert_eq!(
            live,
            self.expected_invalid_pages.valid_page_numbers(block),
            "live pages of block {block}: {:?}",
            self.options
        );
        let reads = self.reads() - before;
        self.query_reads += reads;
        reads
    }

    /// Executes one step of deferred writes, and erases the blocks that the step emptied; returns `false` if there was
    /// nothing to do.
    pub fn execute_deferred_write_step(&mut self) -> bool {
        self.try_deferred_write_step().expect("the flash is healthy")
    }

    /// Executes one step of deferred writes, and erases the blocks that the step emptied. Returns whether there was
    /// anything to do, or the error of the medium.
    pub fn try_deferred_write_step(&mut self) -> Result<bool> {
        let worked = self.gecko.execute_next_deferred_validity_write(&mut self.store)?;
        if worked {
            let pages = self.pages_in_use();
            self.max_pages_in_use = self.max_pages_in_use.max(pages);
            self.erase_obsolete_blocks()?;
        }
        Ok(worked)
    }

    /// Executes all deferred writes of Logarithmic Gecko; returns whether there were any.
    pub fn execute_deferred_writes(&mut self) -> bool {
        let mut worked = false;
        while self.execute_deferred_write_step() {
            worked = true;
        }
        if worked {
            let levels: Vec<u32> =
                self.gecko.level_entries_and_pages_of_each_run().map(|(level, _, _)| level).collect();
            assert!(levels.is_sorted_by(|newer, older| newer < older), "levels at rest: {levels:?}");
            self.record_pages_between_merges();
        }
        worked
    }

    /// Records the number of pages in use, while no merge is running.
    fn record_pages_between_merges(&mut self) {
        let pages = self.pages_in_use();
        self.max_pages_between_merges = self.max_pages_between_merges.max(pages);
        self.page_sum_and_flush_count_between_merges.0 += pages;
        self.page_sum_and_flush_count_between_merges.1 += 1;
    }

    /// Executes all deferred writes of Logarithmic Gecko as the engine does: between two steps, GC may query the valid
    /// pages of a block and open the block.
    pub fn execute_deferred_writes_with_queries(&mut self, random: &mut Random) {
        let mut worked = false;
        while self.execute_deferred_write_step() {
            worked = true;
            if random.is_true_with_percent(5) {
                let block = random.below(self.geometry.blocks() as u64) as u32;
                self.query_valid_pages(block);
                if random.is_true_with_percent(10) {
                    self.open(block);
                }
            }
        }
        if worked {
            self.record_pages_between_merges();
        }
    }

    /// Returns the number of valid flash pages of Logarithmic Gecko, as the store counts them.
    fn pages_in_use(&self) -> u64 {
        self.validity_blocks().map(|block| self.store.blocks().valid_pages(block) as u64).sum()
    }

    /// Returns the blocks in use that hold pages of Logarithmic Gecko.
    fn validity_blocks(&self) -> impl Iterator<Item = BlockId> + '_ {
        let blocks = self.store.blocks();
        (0..blocks.len()).map(BlockId).filter(|&block| {
            matches!(blocks.state(block), BlockState::Open | BlockState::Closed)
                && blocks.kind(block) == PageKind::Validity
        })
    }

    /// Erases the closed blocks of Logarithmic Gecko without valid pages, unless obsolete pages must stay.
    fn erase_obsolete_blocks(&mut self) -> Result<()> {
        if self.keeps_obsolete_pages {
            return Ok(());
        }
        let blocks = self.store.blocks();
        let is_obsolete =
            |&block: &BlockId| blocks.state(block) == BlockState::Closed && blocks.valid_pages(block) == 0;
        let obsolete: Vec<BlockId> = self.validity_blocks().filter(is_obsolete).collect();
        obsolete.into_iter().try_for_each(|block| self.store.erase(block, Cause::Validity))
    }

    /// Moves the live pages of one closed block of Logarithmic Gecko, as GC does; returns their number.
    pub fn collect_gecko_block(&mut self, random: &mut Random) -> usize {
        let is_closed = |&block: &BlockId| self.store.blocks().state(block) == BlockState::Closed;
        let closed: Vec<BlockId> = self.validity_blocks().filter(is_closed).collect();
        if closed.is_empty() {
            return 0;
        }
        let block = random.pick(&closed);
        let pages = block.0 * self.geometry.block_pages()..(block.0 + 1) * self.geometry.block_pages();
        let owned: Vec<Ppn> = pages
            .map(Ppn)
            .filter(|&ppn| self.gecko.holds_current_metadata_page(self.store.owner_in_oob(ppn).0, ppn))
            .collect();
        assert_eq!(
            owned.len() as u32,
            self.store.blocks().valid_pages(block),
            "owned pages of block {block}"
        );
        let owners: Vec<Lpn> = owned.iter().map(|&ppn| self.store.owner_in_oob(ppn)).collect();
        let mut places = Vec::new();
        let moves = PagesToCopy { source_pages: &owned, owners: &owners };
        let pool = self.store.allocation_pool_of_block(block);
        self.store.copy_pages(moves, Stream::Validity, pool, Cause::Gc, &mut places).expect("there is room");
        for ((&from, owner), &to) in owned.iter().zip(owners).zip(&places) {
            self.gecko.record_metadata_page_move(owner.0, from, to);
            self.store.count_page_invalid(from);
        }
        owned.len()
    }

    /// Returns whether no erase is in progress, so that the last power cut must have interrupted a program.
    pub fn last_cut_was_a_program(&self) -> bool {
        let blocks = self.store.blocks();
        (0..blocks.len()).all(|block| blocks.state(BlockId(block)) != BlockState::Erasing)
    }

    /// Replaces Logarithmic Gecko by a recovered one. Corrects the valid counts of the store, and repeats the reports
    /// `lost` at the power cut.
    pub fn continue_with_recovered_gecko(
        &mut self,
        recovered: Gecko,
        pages: &[(Ppn, Oob)],
        expected_invalid_pages: ExpectedInvalidPages,
        lost: Vec<GeckoReport>,
    ) {
        for &(ppn, oob) in pages {
            match (
                self.gecko.holds_current_metadata_page(oob.owner, ppn),
                recovered.holds_current_metadata_page(oob.owner, ppn),
            ) {
                (true, false) => self.store.count_page_invalid(ppn),
                (false, true) => self.store.revive_page(ppn),
                _ => {}
            }
        }
        (self.gecko, self.expected_invalid_pages) = (recovered, expected_invalid_pages);
        for report in lost {
            match report {
                GeckoReport::PageInvalid(page) => self.invalidate(page),
                GeckoReport::BlockOpened(block) => self.open(block),
            }
        }
    }

    /// Returns the invalid pages that Logarithmic Gecko reports, by block.
    pub fn scan_invalid_pages_by_block(&mut self) -> Vec<(u32, Vec<u32>)> {
        scan_invalid_pages_by_block(&self.gecko, &mut self.store)
    }

    /// Compares the invalid pages that Logarithmic Gecko reports with the expected ones. They are read by one scan of
    /// all blocks, and block by block by the audit query, which counts no reads.
    pub fn compare_invalid_pages_with_expected(&mut self) {
        assert_eq!(
            self.scan_invalid_pages_by_block(),
            self.expected_invalid_pages.invalid_pages_by_block(),
            "{:?}",
            self.options
        );
        let reads = self.store.stats.total_reads();
        for block in 0..self.geometry.blocks() {
            let invalid = self.gecko.invalid_pages_for_audit(&mut self.store, BlockId(block));
            let invalid: Vec<u32> = invalid.expect("the flash is healthy").iter().map(|ppn| ppn.0).collect();
            assert_eq!(
                invalid,
                self.expected_invalid_pages.pages(block, true),
                "block {block}: {:?}",
                self.options
            );
        }
        assert_eq!(self.store.stats.total_reads(), reads, "audits are not counted");
    }

    /// Asserts the cost bounds of the GeckoFTL paper, section 3.2. Per update, merges cost at most T / V x L reads and
    /// as many writes. A query costs at most L reads, and one more for each run in which the entries of its block
    /// extend over two pages; the share of such runs is S / V. T is the size ratio, V the number of buffer entries, L
    /// the number of levels, and S the number of parts of a block's bitmap.
    pub fn check_costs(&self) {
        let levels = self.gecko.max_levels() as u64;
        let buffer = self.gecko.validity_reports_per_flush() as f64;
        let bound = self.options.size_ratio as f64 / buffer * levels as f64;
        let writes = self.programs() as f64 / self.report_count as f64;
        let reads = (self.reads() - self.query_reads) as f64 / self.report_count as f64;
        let question = self.reads_per_query.iter().sum::<u64>() as f64 / self.reads_per_query.len() as f64;
        let most = self.reads_per_query.iter().copied().max().expect("blocks were collected");
        println!(
            "{:?}: V {buffer}, L {levels}: {writes:.5} writes, {reads:.5} reads per update, bound {bound:.5}; \
             {question:.2} reads per question, at most {}",
            self.options, most
        );
        assert!(writes <= bound && reads <= bound, "{:?}", self.options);
        let straddling = self.options.parts_per_block as f64 / buffer;
        assert!(question <= levels as f64 * (1.0 + straddling) && most <= 2 * levels, "{:?}", self.options);
    }

    /// Asserts the bound on the flash space of Logarithmic Gecko. By the GeckoFTL paper, section 3.2, the space is at
    /// most about twice the run that contains everything once; this holds on average. The maximum is greater: a run
    /// just larger than a power of the size ratio may exist together with smaller runs that are each as large as their
    /// level allows. The engine reserves this maximum.
    pub fn check_space(&self) {
        let part_pages = self.geometry.block_pages().div_ceil(self.options.parts_per_block);
        let parts = self.geometry.block_pages().div_ceil(part_pages);
        let everything = self.gecko.page_count_of_run(self.geometry.blocks() * parts) as u64;
        let mean = self.page_sum_and_flush_count_between_merges.0 as f64
            / self.page_sum_and_flush_count_between_merges.1 as f64;
        println!(
            "{:?}: {everything} pages for everything once, at rest {mean:.1} on average, at most {}; at most {} of {}",
            self.options,
            self.max_pages_between_merges,
            self.max_pages_in_use,
            self.gecko.max_metadata_pages()
        );
        assert!(mean <= 2.0 * everything as f64, "{:?}", self.options);
        let largest = self.gecko.max_run_pages() as u64;
        let ratio = self.options.size_ratio as u64;
        let at_level = |level: u32| (ratio.pow(level + 1) - 1).min(largest);
        let at_rest: u64 = (0..self.gecko.max_levels()).map(at_level).sum();
        assert!(self.max_pages_between_merges <= at_rest, "{:?}", self.options);
        assert!(self.max_pages_in_use <= self.gecko.max_metadata_pages(), "{:?}", self.options);
    }

    /// Asserts that a Logarithmic Gecko that was just flushed is recovered unchanged, although flash still holds the
    /// originals of pages that GC copied.
    pub fn check_recovered_gecko_equals_flushed_gecko(&mut self, random: &mut Random) {
        loop {
            self.gecko.request_flush();
            self.execute_deferred_writes();
            if self.collect_gecko_block(random) > 0 {
                break;
            }
            (0..50).for_each(|_| self.invalidate_random_page(random));
        }
        let pages = pages_on_flash(self.store.nand_mut());
        let mut recovered = Gecko::new(&self.geometry, self.options).expect("valid options");
        recovered.recover(&mut self.store, &pages).expect("the runs are complete");
        let places = |gecko: &Gecko| gecko.live_run_pages().collect::<Vec<_>>();
        assert_eq!(places(&recovered), places(&self.gecko));
        assert_eq!(recovered.durable_until_sequence(), self.gecko.durable_until_sequence());
        self.gecko = recovered;
        self.compare_invalid_pages_with_expected();
    }
}

/// Returns the invalid pages that a Logarithmic Gecko reports, by block, from one scan of all blocks.
pub fn scan_invalid_pages_by_block(gecko: &Gecko, store: &mut FlashPageStore) -> Vec<(u32, Vec<u32>)> {
    let block_pages = store.geometry().block_pages();
    let mut known = Vec::new();
    let each = |block: BlockId, words: &[u64]| {
        let invalid = (0..block_pages).filter(|&k| words[k as usize / 64] >> (k % 64) & 1 == 1);
        known.push((block.0, invalid.map(|k| block.0 * block_pages + k).collect()));
    };
    gecko.for_each_block_with_invalid_pages(store, each).expect("the flash is healthy");
    known
}

/// Returns every readable page of Logarithmic Gecko, as a scan after a power cut finds it.
pub fn pages_on_flash(nand: &mut AnyNand) -> Vec<(Ppn, Oob)> {
    let pages = nand.geometry().pages() as u32;
    let readable = |ppn| Some((ppn, nand.probe_page(ppn).ok().flatten()?));
    (0..pages).map(Ppn).filter_map(readable).filter(|(_, oob)| oob.kind == PageKind::Validity).collect()
}
