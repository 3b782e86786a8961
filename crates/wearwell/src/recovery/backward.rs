//! Recovery from flash alone of a map on flash (GeckoRec): the last changes are found in the newest data pages, read
//! backwards in time.
//!
//! Source: GeckoFTL (Dayan, Bonnet, Idreos, SIGMOD 2016), section 4.3 and appendix C. The steps are the paper's. Three
//! rules differ, because the paper's text loses data in the following cases (each has a test in
//! `tests/backward_cases.rs`):
//!
//! - *Which entries are dirty* is known, not assumed. No translation page is written between a data page and the update
//!   of its map entry. So the map on flash lacks a data page exactly if the data page is newer than its translation
//!   page. Restored entries are dirty for certain. Only whether the earlier version was reported invalid is uncertain.
//!   The cost: a sequence number per translation page in RAM during recovery.
//! - *Earlier versions of a logical page that the scan reads* are reported invalid again. If a page was written and
//!   overwritten between two synchronisations, no translation page ever named it, and nothing else on flash shows that
//!   it is invalid.
//! - *A page whose spare area still names logical page X may be X's current page*, if its block was erased and X was
//!   written to the same flash page again. The paper compares only the spare area. Here the page is also compared with
//!   the newest page of X.
//!
//! Several blocks receive data at the same time here (one per stream and pool), so the newest pages are not in the
//! blocks that were opened last. The blocks of one stream in one pool are filled one after the other, so the first page
//! of a block is an upper bound for the last page of the block before it. A heap of such bounds yields the pages in
//! order of sequence numbers. The first page also reveals the stream: a GC copy keeps the generation of the page it
//! copies (sequence number of the program that first wrote the content), whereas the generation of a host page equals
//! its sequence number. Dual-pool wear leveling interrupts the filling of open blocks, so there is no such bound. In
//! that case the last page of every block is read, one more spare area per block.
//!
//! Recovery writes nothing before it knows everything, except that it repeats interrupted erases.

use std::collections::{BTreeMap, BinaryHeap};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Ftl, demand_paged_map, demand_paged_map_mut};
use crate::address::{BlockId, Lpn, OptionalAddress, Ppn, StoredUnit};
use crate::error::{Error, Result};
use crate::mapping::{DemandPagedMap, is_owner_in_oob};
use crate::nand::{Nand, NandError, Oob, PageKind};
use crate::operation::Cause;
use crate::store::{FoundBlock, Stream};
use crate::validity::{AnyValidityStore, RamBitmap, ValidityStore, is_page_bit_set};

/// Number of flash operations of one recovery step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecoveryStepCost {
    /// Number of spare areas that the recovery step read alone, without the data of their page.
    pub spare_reads: u64,
    /// Number of pages that the recovery step read with their data.
    pub page_reads: u64,
    /// Number of pages that the recovery step programmed.
    pub programs: u64,
}

/// Flash operations of each step of recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecoveryStepCosts {
    /// Cost of recovery step 1, which finds kind and age of every block from its first page.
    pub find_blocks_in_use: RecoveryStepCost,
    /// Cost of the recovery step that lists the pages of full blocks by reading the tail pages of the blocks (only for
    /// designs with head and tail pages).
    pub list_pages_from_tail_pages: RecoveryStepCost,
    /// Cost of the recovery step that lists the pages of all other blocks, whose tail pages are missing or incomplete,
    /// by reading the spare area of every page (only for designs with head and tail pages).
    pub list_pages_from_spare_areas: RecoveryStepCost,
    /// Cost of recovery step 2, which rebuilds the directory of translation pages from their spare areas.
    pub rebuild_directory: RecoveryStepCost,
    /// Cost of recovery step 3, which rebuilds the directories of the validity store on flash from the spare areas of
    /// its pages.
    pub rebuild_validity_directories: RecoveryStepCost,
    /// Cost of recovery step 4, which restores the reports of invalid pages that were in the RAM buffer of the validity
    /// store.
    pub restore_validity_buffer: RecoveryStepCost,
    /// Cost of recovery step 5, which counts the valid pages of each block.
    pub recount_valid_pages: RecoveryStepCost,
    /// Cost of recovery steps 6 and 7, which restore the map entries that changed last.
    pub restore_map_entries: RecoveryStepCost,
    /// Cost of the last recovery step, which writes the restored map entries to translation pages, in designs that do
    /// so before the device accepts requests.
    pub synchronise_map: RecoveryStepCost,
}

impl RecoveryStepCosts {
    /// Returns the cost (flash operations) of each step of recovery with the step's name, in the order in which the
    /// steps run.
    pub fn named_step_costs(&self) -> [(&'static str, RecoveryStepCost); 9] {
        [
            ("blocks", self.find_blocks_in_use),
            ("block tails", self.list_pages_from_tail_pages),
            ("open blocks", self.list_pages_from_spare_areas),
            ("directory", self.rebuild_directory),
            ("validity directories", self.rebuild_validity_directories),
            ("changed entries", self.restore_map_entries),
            ("validity buffer", self.restore_validity_buffer),
            ("valid counts", self.recount_valid_pages),
            ("synchronisation", self.synchronise_map),
        ]
    }
}

/// A data block as recovery found it, described by its first readable page.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataBlock {
    /// Number of the data block.
    pub(super) block: BlockId,
    /// Sequence number of the first readable page of the block.
    pub(super) first_sequence: u64,
    /// Stream of writes that filled the block: host writes or GC copies. Each stream has an open block of its own.
    stream: Stream,
    /// Upper bound of the sequence numbers of the block's pages, by which blocks are visited backwards in time.
    sequence_upper_bound: u64,
    /// Number of pages programmed in the block.
    programmed_pages: u32,
}

/// One version of a translation page on flash.
#[derive(Clone, Copy, Debug)]
pub(super) struct TranslationPageVersion {
    /// Sequence number of the program that first wrote this version; a copy by GC inherits it.
    first_write_sequence_number: u64,
    /// Sequence number of the program of this flash page.
    sequence_number: u64,
    /// Flash page that holds the version.
    ppn: Ppn,
}

/// Result of steps 1 to 3 of recovery: the blocks and pages found by reading the first page of every block and the
/// spare areas of all metadata pages.
#[derive(Default)]
pub(super) struct FlashSurvey {
    /// Blocks with pages of host data that recovery found.
    pub(super) data_blocks: Vec<DataBlock>,
    /// Blocks in use that do not hold pages of host data, each with the kind of its pages.
    pub(super) metadata_blocks: Vec<(BlockId, PageKind)>,
    /// Versions of each translation page (and tree node of the map) that recovery found, by page number; oldest version
    /// first.
    pub(super) translation_page_versions: BTreeMap<u32, Vec<TranslationPageVersion>>,
    /// Pages of the validity store on flash (which flash pages are invalid) that recovery found, with their OOBs.
    validity_pages: Vec<(Ppn, Oob)>,
}

impl FlashSurvey {
    /// Returns for each block, by block number, the sequence number of the last program before the block was opened for
    /// data; `u64::MAX` if the block holds no data. The result is a table, because it is queried once per entry of a
    /// validity log.
    fn sequence_before_opening_by_block(&self, blocks: u32) -> Vec<u64> {
        let mut opened_at = vec![u64::MAX; blocks as usize];
        for data in &self.data_blocks {
            opened_at[data.block.index()] = data.first_sequence - 1;
        }
        opened_at
    }

    /// Returns the newest version that recovery found of translation page number `id`; `None` if it found none.
    pub(super) fn newest_translation_page(&self, id: u32) -> Option<TranslationPageVersion> {
        self.translation_page_versions.get(&id).and_then(|versions| versions.last().copied())
    }
}

/// Map changes and invalid pages that recovery finds in the newest data pages.
#[derive(Default)]
struct RecoveredMapChanges {
    /// Map entries (newest first) that recovery found in data pages and that the translation pages on flash do not
    /// contain yet.
    map_entries: Vec<(Lpn, Ppn)>,
    /// PPNs of invalid pages: earlier versions of logical pages of which recovery has found a newer version, and torn
    /// pages.
    invalid_pages: Vec<Ppn>,
}

/// Element of the heap by which recovery visits data pages backwards in time: the next page of a block that is being
/// scanned, or a block that was not read yet, with the upper bound of its sequence numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct BackwardScanItem {
    /// Sequence number of the next page of the block, or an upper bound if the block was not read yet.
    sequence_or_upper_bound: u64,
    /// Number of pages of the block still to be visited, the current page included; `None` if the block was not read
    /// yet.
    unvisited_pages: Option<u32>,
    /// Index of the block in `data_blocks` of the survey.
    data_block_index: usize,
}

impl Ftl {
    /// Recovers a device with a lazy map (which identifies invalid pages late) from flash alone, as GeckoRec does:
    /// scans data pages backwards in time for the map changes that translation pages do not contain yet. If
    /// `synchronises`, these changes are written to translation pages before the device accepts requests.
    pub(super) fn rebuild_by_backward_scan(&mut self, synchronises: bool) -> Result<RecoveryStepCosts> {
        self.has_recovered_by_backward_scan = true;
        let mut steps = RecoveryStepCosts::default();
        let survey = self.survey_flash(&mut steps)?;
        let mut changes = RecoveredMapChanges::default();
        self.run_counted_step(&mut steps.restore_map_entries, |ftl| {
            ftl.scan_data_pages_backward(&survey, &mut changes)
        })?;
        self.restore_map_entries(&changes);
        self.run_counted_step(&mut steps.restore_validity_buffer, |ftl| {
            ftl.restore_validity_buffer(&survey, &changes)
        })?;
        self.restore_valid_counts_and_policy(&mut steps)?;
        if synchronises {
            self.run_counted_step(&mut steps.synchronise_map, Self::write_back_ram_state)?;
        }
        Ok(steps)
    }

    /// Recovers a device whose battery has written all dirty state to flash: rebuilds the directories of translation
    /// and validity pages from the spare areas of these pages, and then the valid counts of blocks from page validity.
    pub(super) fn rebuild_after_battery_save(&mut self) -> Result<RecoveryStepCosts> {
        let mut steps = RecoveryStepCosts::default();
        let survey = self.survey_flash(&mut steps)?;
        if self.battery_saves_validity_bitmap() {
            self.run_counted_step(&mut steps.recount_valid_pages, |ftl| ftl.load_validity_bitmap(&survey))?;
            self.set_victim_policy(self.collector.options.policy);
        } else {
            self.restore_valid_counts_and_policy(&mut steps)?;
        }
        Ok(steps)
    }

    /// Loads the validity bitmap that the battery saved to flash, and sets the valid counts of blocks from the bitmap.
    fn load_validity_bitmap(&mut self, survey: &FlashSurvey) -> Result<()> {
        self.validity =
            AnyValidityStore::Ram(RamBitmap::load_from_flash(&mut self.store, &survey.validity_pages)?);
        let block_pages = self.store.geometry().block_pages();
        for data in &survey.data_blocks {
            let first = self.store.geometry().first_page(data.block);
            let valid = self.validity.count_valid_pages(first, block_pages);
            self.store.set_valid_pages(data.block, valid);
        }
        Ok(())
    }

    /// Executes steps 1 to 3 of recovery: restores block states, the directory of translation pages, and page validity
    /// as far as it is stored on flash.
    fn survey_flash(&mut self, steps: &mut RecoveryStepCosts) -> Result<FlashSurvey> {
        let mut survey = FlashSurvey::default();
        self.store.drop_ram_state();
        self.run_counted_step(&mut steps.find_blocks_in_use, |ftl| ftl.survey_blocks(&mut survey))?;
        self.survey_map_and_validity(&mut survey, steps)?;
        Ok(survey)
    }

    /// Executes steps 2 and 3 of recovery: restores the directory of translation pages, and page validity as far as it
    /// is stored on flash, from the spare areas of their pages.
    pub(super) fn survey_map_and_validity(
        &mut self,
        survey: &mut FlashSurvey,
        steps: &mut RecoveryStepCosts,
    ) -> Result<()> {
        self.run_counted_step(&mut steps.rebuild_directory, |ftl| {
            ftl.survey_metadata(survey, PageKind::Translation)
        })?;
        self.run_counted_step(&mut steps.rebuild_validity_directories, |ftl| {
            ftl.survey_metadata(survey, PageKind::Validity)?;
            let opened_at = survey.sequence_before_opening_by_block(ftl.store.geometry().blocks());
            let of_block = |block: BlockId| opened_at[block.index()];
            ftl.validity.recover(&mut ftl.store, &survey.validity_pages, of_block)?;
            ftl.count_live_validity_pages(&survey.validity_pages);
            Ok(())
        })?;
        self.adopt_translation_directory(survey);
        Ok(())
    }

    /// Executes step 5 of recovery: restores the valid counts of blocks, and the state of the victim policy that
    /// depends on these counts.
    fn restore_valid_counts_and_policy(&mut self, steps: &mut RecoveryStepCosts) -> Result<()> {
        self.run_counted_step(&mut steps.recount_valid_pages, Self::restore_valid_counts)?;
        self.set_victim_policy(self.collector.options.policy);
        Ok(())
    }

    /// Runs a step of recovery, and adds the flash operations that the step executes to `cost`.
    pub(super) fn run_counted_step(
        &mut self,
        cost: &mut RecoveryStepCost,
        step: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let count = |ftl: &Self| {
            let stats = &ftl.store.stats;
            (stats.total_spare_reads(), stats.total_reads(), stats.total_programs())
        };
        let before = count(self);
        let outcome = step(self);
        let after = count(self);
        cost.spare_reads += after.0 - before.0;
        cost.page_reads += (after.1 - before.1) - (after.0 - before.0);
        cost.programs += after.2 - before.2;
        outcome
    }

    /// Executes step 1 of recovery: reads the first page of every block. Registers free blocks and data blocks with the
    /// block table; blocks of metadata are registered when their pages are read.
    fn survey_blocks(&mut self, survey: &mut FlashSurvey) -> Result<()> {
        self.find_blocks_in_use(survey)?;
        if self.collector.options.wear.dual_pool_gap_erases == 0 {
            set_sequence_bounds(&mut survey.data_blocks, |block| self.store.allocation_pool_of_block(block));
        }
        for index in 0..survey.data_blocks.len() {
            self.register_data_block(&mut survey.data_blocks[index])?;
        }
        Ok(())
    }

    /// Reads the first page of every block and adds the blocks in use to `survey`. Registers free and bad blocks with
    /// the block table.
    pub(super) fn find_blocks_in_use(&mut self, survey: &mut FlashSurvey) -> Result<()> {
        let mut damaged = Vec::new();
        for block in (0..self.store.geometry().blocks()).map(BlockId) {
            if self.store.nand().is_bad(block) {
                self.store.register_found_block_state(block, FoundBlock::default());
                continue;
            }
            match self.store.read_spare_in_recovery(self.store.geometry().first_page(block)) {
                Ok(None) => self.store.register_found_block_state(block, FoundBlock::default()),
                Ok(Some(oob)) if oob.kind == PageKind::Data => {
                    survey.data_blocks.push(data_block_from_first_oob(block, &oob));
                }
                Ok(Some(oob)) => survey.metadata_blocks.push((block, oob.kind)),
                Err(Error::Nand(NandError::Uncorrectable(_))) => damaged.push(block),
                Err(error) => return Err(error),
            }
        }
        damaged.into_iter().try_for_each(|block| self.survey_damaged_block(block, survey))
    }

    /// Determines the kind of pages in `block`, whose first page is unreadable because its program or the block's erase
    /// was interrupted. Erases the block if none of its pages is readable.
    fn survey_damaged_block(&mut self, block: BlockId, survey: &mut FlashSurvey) -> Result<()> {
        let mut first_readable = None;
        self.scan_block(block, &mut |_, oob| first_readable = first_readable.or(Some(oob)))?;
        match first_readable {
            None => return self.store.erase_unreadable_block(block),
            Some(oob) if oob.kind == PageKind::Data => {
                survey.data_blocks.push(data_block_from_first_oob(block, &oob));
            }
            Some(oob) => survey.metadata_blocks.push((block, oob.kind)),
        }
        Ok(())
    }

    /// Reads the spare areas of all metadata pages of one kind, registers their blocks, and adds the pages to `survey`.
    /// This is recovery step 2 for translation pages and step 3 for pages of the validity store.
    fn survey_metadata(&mut self, survey: &mut FlashSurvey, kind: PageKind) -> Result<()> {
        let of_kind: Vec<BlockId> = survey
            .metadata_blocks
            .iter()
            .filter(|&&(_, found)| found == kind)
            .map(|&(block, _)| block)
            .collect();
        for block in of_kind {
            let mut pages = Vec::new();
            let found = self.scan_block(block, &mut |ppn, oob| pages.push((ppn, oob)))?;
            self.store.register_found_block_state(block, found);
            for (ppn, oob) in pages {
                if kind == PageKind::Validity {
                    survey.validity_pages.push((ppn, oob));
                } else {
                    let version = TranslationPageVersion {
                        first_write_sequence_number: oob.first_write_sequence_number,
                        sequence_number: oob.sequence_number,
                        ppn,
                    };
                    survey.translation_page_versions.entry(oob.owner).or_default().push(version);
                }
            }
        }
        // A copy that GC made of a version has the same generation as the version. Of pages with equal generation, the
        // newest copy is taken.
        survey.translation_page_versions.values_mut().for_each(|versions| {
            versions.sort_by_key(|v| (v.first_write_sequence_number, v.sequence_number));
        });
        Ok(())
    }

    /// Sets the map's directory to the newest version of each translation page that `survey` found, and counts these as
    /// valid.
    fn adopt_translation_directory(&mut self, survey: &FlashSurvey) {
        let cached = demand_paged_map_mut(&mut self.mapping);
        cached.drop_ram_state();
        for &id in survey.translation_page_versions.keys() {
            let newest = survey.newest_translation_page(id).expect("a page that is listed has a version");
            cached.set_translation_page_ppn(id, newest.ppn);
            self.store.count_recovered_page_valid(newest.ppn);
        }
    }

    /// Counts as valid, in the block table, those pages of the validity store on flash that the store still uses.
    /// `pages` are all validity pages that recovery found, from which the store was just rebuilt.
    pub(super) fn count_live_validity_pages(&mut self, pages: &[(Ppn, Oob)]) {
        for &(ppn, oob) in pages {
            if self.validity.holds_current_metadata_page(oob.owner, ppn) {
                self.store.count_recovered_page_valid(ppn);
            }
        }
    }

    /// Reads the spare areas of data pages, newest page first, and collects map changes (steps 6 and 7 of recovery in
    /// the GeckoFTL paper). Stops at the sequence number up to which flash holds all map changes.
    fn scan_data_pages_backward(
        &mut self,
        survey: &FlashSurvey,
        changes: &mut RecoveredMapChanges,
    ) -> Result<()> {
        let until = self.sequence_number_of_last_durable_map_change(survey)?;
        let mut heap: BinaryHeap<BackwardScanItem> = (0..survey.data_blocks.len())
            .map(|data_block_index| BackwardScanItem {
                sequence_or_upper_bound: survey.data_blocks[data_block_index].sequence_upper_bound,
                unvisited_pages: None,
                data_block_index,
            })
            .collect();
        let mut newest = FxHashMap::<Lpn, Ppn>::default();
        while let Some(next) = heap.pop() {
            if next.sequence_or_upper_bound <= until {
                break;
            }
            let first = self.store.geometry().first_page(survey.data_blocks[next.data_block_index].block);
            let left = match next.unvisited_pages {
                None => survey.data_blocks[next.data_block_index].programmed_pages,
                Some(left) => {
                    let ppn = Ppn(first.0 + left - 1);
                    self.record_data_page_version(
                        survey,
                        changes,
                        &mut newest,
                        ppn,
                        next.sequence_or_upper_bound,
                    );
                    left - 1
                }
            };
            heap.extend(self.next_backward_scan_item(first, left, next.data_block_index, changes)?);
        }
        Ok(())
    }

    /// Returns the highest sequence number up to which flash holds every map change, and also every report of a page
    /// that became invalid. Reads the number from the spare area of a translation page: the newest one that was written
    /// before the last write of the validity buffer or, if page validity is rebuilt from the map, the newest of all.
    fn sequence_number_of_last_durable_map_change(&mut self, survey: &FlashSurvey) -> Result<u64> {
        let pages = demand_paged_map(&self.mapping).translation_pages();
        let since =
            if self.validity.is_on_flash() { self.validity.durable_until_sequence() } else { u64::MAX };
        let of_pages = survey.translation_page_versions.iter().filter(|&(&id, _)| id < pages);
        let versions =
            of_pages.flat_map(|(_, versions)| versions).filter(|v| v.first_write_sequence_number <= since);
        let Some(newest) = versions.max_by_key(|version| version.first_write_sequence_number).copied() else {
            return Ok(0);
        };
        let until =
            DemandPagedMap::read_program_sequence_before_all_dirty_entries(&mut self.store, newest.ppn)?;
        demand_paged_map_mut(&mut self.mapping).set_program_sequence_before_all_dirty_entries(until);
        Ok(until)
    }

    /// Returns the last readable page among the first `left` pages of a data block, as the next element of the backward
    /// scan; `None` if no page is readable. Torn pages belong to no logical page and are recorded as invalid.
    fn next_backward_scan_item(
        &mut self,
        first: Ppn,
        mut left: u32,
        data_block_index: usize,
        changes: &mut RecoveredMapChanges,
    ) -> Result<Option<BackwardScanItem>> {
        while left > 0 {
            let ppn = Ppn(first.0 + left - 1);
            match self.store.read_spare_in_recovery(ppn) {
                Ok(Some(oob)) => {
                    return Ok(Some(BackwardScanItem {
                        sequence_or_upper_bound: oob.sequence_number,
                        unvisited_pages: Some(left),
                        data_block_index,
                    }));
                }
                Ok(None) | Err(Error::Nand(NandError::Uncorrectable(_))) => {
                    changes.invalid_pages.push(ppn);
                }
                Err(error) => return Err(error),
            }
            left -= 1;
        }
        Ok(None)
    }

    /// Registers a data block with the block table. Most data blocks are full. The last block of a stream in a pool
    /// (set of planes) may be open, and a failed program may have closed a block early: of these blocks, a binary
    /// search finds the number of programmed pages.
    fn register_data_block(&mut self, data: &mut DataBlock) -> Result<()> {
        let first = self.store.geometry().first_page(data.block);
        data.programmed_pages = self.store.geometry().block_pages();
        let mut last_sequence = data.sequence_upper_bound;
        if data.sequence_upper_bound == u64::MAX || self.store.nand().has_failed_program(data.block) {
            data.programmed_pages = self.count_programmed_pages(first)?;
            last_sequence = self.last_sequence_in_block(first, data.programmed_pages)?;
        }
        if self.collector.options.wear.dual_pool_gap_erases > 0 {
            data.sequence_upper_bound = last_sequence;
        }
        let found = FoundBlock {
            kind: Some(PageKind::Data),
            programmed_pages: data.programmed_pages,
            first_sequence: data.first_sequence,
            last_sequence,
        };
        self.store.adopt_block_for_stream(data.stream, data.block, found);
        Ok(())
    }

    /// Returns the sequence number of the last readable page among the first `programmed` pages of the block that
    /// begins at `first`; 0 if none is readable.
    fn last_sequence_in_block(&mut self, first: Ppn, programmed: u32) -> Result<u64> {
        for ppn in (first.0..first.0 + programmed).rev().map(Ppn) {
            if let Some(oob) = self.store.read_spare_if_readable(ppn, Cause::Recovery)? {
                return Ok(oob.sequence_number);
            }
        }
        Ok(0)
    }

    /// Returns the number of programmed pages in the block whose first page is `first`. At least one page must be
    /// programmed.
    pub(super) fn count_programmed_pages(&mut self, first: Ppn) -> Result<u32> {
        let (mut low, mut high) = (1, self.store.geometry().block_pages());
        if self.collector.options.wear.dual_pool_gap_erases > 0
            && self.was_programmed(Ppn(first.0 + high - 1))?
        {
            return Ok(high);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if self.was_programmed(Ppn(first.0 + middle))? { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    /// Returns whether the physical page `ppn` was programmed; torn pages count as programmed.
    pub(super) fn was_programmed(&mut self, ppn: Ppn) -> Result<bool> {
        match self.store.read_spare_in_recovery(ppn) {
            Ok(found) => Ok(found.is_some()),
            Err(Error::Nand(NandError::Uncorrectable(_))) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Records a data page that the backward scan visits: as a map entry if it is the newest page of its logical page
    /// and newer than the translation page, as invalid if a newer page of the logical page was found before.
    fn record_data_page_version(
        &mut self,
        survey: &FlashSurvey,
        changes: &mut RecoveredMapChanges,
        newest_ppn_by_lpn: &mut FxHashMap<Lpn, Ppn>,
        ppn: Ppn,
        sequence: u64,
    ) {
        let lpn = self.store.owner_in_oob(ppn);
        if newest_ppn_by_lpn.contains_key(&lpn) {
            changes.invalid_pages.push(ppn);
            return;
        }
        newest_ppn_by_lpn.insert(lpn, ppn);
        let cached = demand_paged_map(&self.mapping);
        let on_flash = survey
            .newest_translation_page(cached.translation_page_of(lpn))
            .map_or(0, |version| version.first_write_sequence_number);
        if sequence > on_flash {
            changes.map_entries.push((lpn, ppn));
        }
    }

    /// Enters the map entries that recovery found in data pages into the map cache as dirty entries, oldest first.
    fn restore_map_entries(&mut self, changes: &RecoveredMapChanges) {
        let cached = demand_paged_map_mut(&mut self.mapping);
        // The newest change is restored last, so that the cache evicts it last.
        changes
            .map_entries
            .iter()
            .rev()
            .for_each(|&(lpn, ppn)| cached.restore_entry_from_spare_area(lpn, ppn.into()));
    }

    /// Executes step 4 of recovery: restores the reports that were lost with the RAM buffer of the validity store. They
    /// are the reports of pages invalidated and of blocks opened since the buffer was last written to flash.
    fn restore_validity_buffer(&mut self, survey: &FlashSurvey, changes: &RecoveredMapChanges) -> Result<()> {
        if !self.validity.is_on_flash() {
            return Ok(());
        }
        let since = self.validity.durable_until_sequence();
        for data in survey.data_blocks.iter().filter(|data| data.first_sequence > since) {
            self.validity.record_block_opened(data.block);
        }
        self.validity.drop_invalid_page_reports_to_be_repeated(&mut self.store)?;
        let current: FxHashMap<Lpn, Ppn> = changes.map_entries.iter().copied().collect();
        for &ppn in &changes.invalid_pages {
            self.validity.invalidate(ppn);
        }
        for (&id, versions) in &survey.translation_page_versions {
            let cached = demand_paged_map(&self.mapping);
            let newer = versions.partition_point(|version| version.first_write_sequence_number <= since);
            if id < cached.translation_pages() && newer < versions.len() {
                let versions = &versions[newer.saturating_sub(1)..];
                self.invalidate_replaced_pages(id, versions, &current)?;
                // If power is lost again before the buffer is written, the next recovery needs these versions.
                for pair in versions.windows(2) {
                    self.store.retain_version_again(pair[1].first_write_sequence_number, pair[0].ppn);
                }
            }
        }
        Ok(())
    }

    /// Reports the data pages that became invalid between consecutive `versions` of translation page `id`. A data page
    /// is reported if one version maps a logical page to it, the next version does not, and its OOB still names that
    /// logical page. `restored_ppn_by_lpn` holds the restored map entries, which are newer than all versions.
    fn invalidate_replaced_pages(
        &mut self,
        id: u32,
        versions: &[TranslationPageVersion],
        restored_ppn_by_lpn: &FxHashMap<Lpn, Ppn>,
    ) -> Result<()> {
        let mut page = vec![0; self.store.geometry().page_bytes as usize];
        let mut tables = Vec::new();
        for version in versions {
            self.store.read(version.ppn, &mut page, Cause::Recovery)?;
            let cached = demand_paged_map(&self.mapping);
            let units: Vec<(Lpn, StoredUnit)> = cached.decode_entries(id, &page).collect();
            tables.push(units);
        }
        let newest = tables.last().expect("there is a version").clone();
        for pair in tables.windows(2) {
            for (k, (&(lpn, old), &(_, new))) in pair[0].iter().zip(&pair[1]).enumerate() {
                let Some(old) = old.to_option().filter(|_| old != new).map(|unit| Ppn(unit.0)) else {
                    continue;
                };
                let today = restored_ppn_by_lpn
                    .get(&lpn)
                    .copied()
                    .or(newest[k].1.to_option().map(|unit| Ppn(unit.0)));
                if today != Some(old) && is_owner_in_oob(&mut self.store, old, lpn)? {
                    self.validity.invalidate(old);
                }
            }
        }
        Ok(())
    }

    /// Executes step 5 of recovery: counts the valid pages per block, from page validity if it is stored on flash,
    /// otherwise from the whole map.
    fn restore_valid_counts(&mut self) -> Result<()> {
        if self.validity.is_on_flash() { self.recount_valid_pages() } else { self.rebuild_validity_bitmap() }
    }

    /// Sets the valid count of every data block to the number of its programmed pages that were not reported invalid.
    /// Reads the whole validity store.
    pub(crate) fn recount_valid_pages(&mut self) -> Result<()> {
        self.recount_valid_pages_with_bitmaps(&FxHashSet::default()).map(drop)
    }

    /// Sets the valid count of every data block as [`Ftl::recount_valid_pages`] does. Returns the bitmaps of invalid
    /// pages of those blocks in `blocks_with_wanted_bitmap` that have invalid pages.
    pub(super) fn recount_valid_pages_with_bitmaps(
        &mut self,
        blocks_with_wanted_bitmap: &FxHashSet<BlockId>,
    ) -> Result<FxHashMap<BlockId, Vec<u64>>> {
        let mut bitmaps = FxHashMap::default();
        let mut counts = self.store.programmed_and_valid_pages_by_block();
        for (&block, pages) in &mut counts {
            if self.store.nand().has_failed_program(BlockId(block)) {
                let programmed = self.count_pages_before_failed_program(BlockId(block))?;
                *pages = (programmed, programmed);
            }
        }
        let Self { validity, store, .. } = self;
        validity.for_each_block_with_invalid_pages(store, |block, invalid| {
            if blocks_with_wanted_bitmap.contains(&block) {
                bitmaps.insert(block, invalid.to_vec());
            }
            if let Some((programmed, valid)) = counts.get_mut(&block.0) {
                let is_invalid = |&k: &u32| is_page_bit_set(invalid, k);
                *valid -= (0..*programmed).filter(is_invalid).count() as u32;
            }
        })?;
        for (block, (_, valid)) in counts {
            store.set_valid_pages(BlockId(block), valid);
        }
        self.may_valid_counts_be_too_high = false;
        Ok(bitmaps)
    }

    /// Returns the number of programmed pages in `block`, which a failed program closed early. The last page, whose
    /// program failed, does not count; torn pages before it do.
    fn count_pages_before_failed_program(&mut self, block: BlockId) -> Result<u32> {
        let first = self.store.geometry().first_page(block);
        let programmed = self.count_programmed_pages(first)?;
        match self.store.read_spare_in_recovery(Ppn(first.0 + programmed - 1)) {
            Ok(_) => Ok(programmed),
            Err(Error::Nand(NandError::Uncorrectable(_))) => Ok(programmed - 1),
            Err(error) => Err(error),
        }
    }

    /// Rebuilds page validity in RAM from the entries of the map on flash and of the map cache. A page that the map on
    /// flash still names, although a restored cache entry replaces it, counts as valid until the translation page is
    /// written (an unidentified invalid page).
    fn rebuild_validity_bitmap(&mut self) -> Result<()> {
        self.validity = AnyValidityStore::Ram(RamBitmap::new(self.store.geometry().pages()));
        let mut page = vec![0; self.store.geometry().page_bytes as usize];
        let cached = demand_paged_map_mut(&mut self.mapping);
        for id in 0..cached.translation_pages() {
            let Some(place) = cached.translation_page_ppn(id) else { continue };
            self.store.read(place, &mut page, Cause::Recovery)?;
            for (lpn, unit) in cached.decode_mapped_entries(id, &page) {
                mark_mapped_page_valid(&mut self.store, &mut self.validity, cached, lpn, Ppn(unit.0))?;
            }
        }
        for unit in cached.locations_of_dirty_entries() {
            if !self.validity.is_valid(Ppn(unit.0)) {
                self.validity.mark_valid_in_ram(Ppn(unit.0));
                self.store.count_recovered_page_valid(Ppn(unit.0));
            }
        }
        Ok(())
    }
}

/// Marks the page `ppn`, which the map on flash names for `lpn`, as valid if it is the current page of `lpn`. Also
/// marks it if a restored entry replaces it but its OOB still names `lpn`: then it is an unidentified invalid page,
/// which counts as valid until the translation page is written.
fn mark_mapped_page_valid(
    store: &mut crate::store::FlashPageStore,
    validity: &mut AnyValidityStore,
    demand_paged_map: &DemandPagedMap,
    lpn: Lpn,
    ppn: Ppn,
) -> Result<()> {
    let is_current = demand_paged_map.cached_unit(lpn).is_none_or(|unit| unit == ppn.into());
    if is_current || is_owner_in_oob(store, ppn, lpn)? {
        validity.mark_valid_in_ram(ppn);
        store.count_recovered_page_valid(ppn);
    }
    Ok(())
}

/// Describes a data block by the OOB of its first page, from which follows whether host writes or GC copies filled it.
fn data_block_from_first_oob(block: BlockId, first: &Oob) -> DataBlock {
    let stream =
        if first.first_write_sequence_number == first.sequence_number { Stream::Host } else { Stream::Gc };
    DataBlock {
        block,
        first_sequence: first.sequence_number,
        stream,
        sequence_upper_bound: u64::MAX,
        programmed_pages: 0,
    }
}

/// Sets the upper bound of the sequence numbers in each data block. A stream fills its blocks in a pool (set of planes)
/// one after the other. So the bound is one less than the sequence number of the first page of the next block in the
/// same stream and pool.
fn set_sequence_bounds(blocks: &mut [DataBlock], allocation_pool_of_block: impl Fn(BlockId) -> u32) {
    blocks.sort_by_key(|data| {
        (allocation_pool_of_block(data.block), data.stream as usize, data.first_sequence)
    });
    for k in 1..blocks.len() {
        let (earlier, later) = (blocks[k - 1], blocks[k]);
        if allocation_pool_of_block(earlier.block) == allocation_pool_of_block(later.block)
            && earlier.stream == later.stream
        {
            blocks[k - 1].sequence_upper_bound = later.first_sequence - 1;
        }
    }
}
