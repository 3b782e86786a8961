//! Recovery of a map on flash whose dirty entries are in NVRAM, without reading every spare area or the whole map.
//!
//! Four things make it short:
//!
//! - Of a block of data, recovery reads the spare area of the first page. Of blocks of metadata, deltas and chunks it
//!   reads the spare areas of all pages, because nothing else says where these pages are.
//! - Page validity is on flash. It lacks the reports since its buffer was last written. Notes in NVRAM
//!   (`store/notes.rs`) name the pages and blocks that these reports can concern. Recovery asks the map about each such
//!   page, and reads a translation page for it unless NVRAM has the entry. Blocks opened since the buffer was written
//!   are known by the sequence number of their first page, and reported again.
//! - An entry of the map on flash has a bind mark if a bind, not a program, gave the logical page its place. The OOB of
//!   a translation page counts its *special* entries: those with a mark, and those of chunk members. To rebuild
//!   reference counts, referrers and chunks, recovery reads only translation pages that have some.
//! - Each translation page is read at most once. (The simulation keeps those that it has read; a controller with little
//!   RAM sorts its questions by translation page.)
//!
//! The price: the notes, and one bit of each map entry. Beside what GeckoFTL's recovery reads, the cost grows with the
//! number of bound logical pages, chunks and deltas. If the notes do not suffice, all spare areas are read
//! (`nvram_map.rs`), with the same result.
//!
//! What is found on the medium is verified: a marked map entry that names a page without data is [`Error::Damaged`].

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use super::RecoverySteps;
use super::backward::FlashSurvey;
use crate::address::{BlockId, Lpn, OptionalAddress, Ppn, Unit, is_flash_page};
use crate::design::RecoveryBlockScan;
use crate::error::{Error, Result};
use crate::ftl::Ftl;
use crate::mapping::DemandPagedMap;
use crate::nand::{Nand, NandError, Oob, PageKind};
use crate::operation::Cause;
use crate::store::{BlockState, FoundBlock, FoundNotes};
use crate::validity::{ValidityStore, is_page_bit_set};

/// Data pages of which page validity on flash may not tell the truth, each with the logical page in its OOB as far as
/// it was read.
type PagesWithUncertainValidity = BTreeMap<Ppn, Option<Lpn>>;

/// Translation pages that recovery has read: units of their logical pages, by number of the translation page.
type UnitsByTranslationPage = FxHashMap<u32, Vec<Unit>>;

/// Logical pages with special map entries.
#[derive(Default)]
struct BindAndChunkEntries {
    /// Logical pages that a bind has mapped to a flash page.
    bound_page_entries: Vec<(Lpn, Ppn)>,
    /// Logical pages that are mapped to chunk members.
    chunk_member_entries: Vec<(Lpn, Unit)>,
}

impl<N: Nand> Ftl<N> {
    /// Recovers the device by notes in NVRAM. Returns `false`, without having read flash, if it keeps none or if they
    /// do not name every page that they should.
    pub(super) fn rebuild_by_recovery_notes(&mut self, steps: &mut RecoverySteps) -> Result<bool> {
        let notes = self.store.read_recovery_notes();
        let Some(notes) = notes.filter(|_| self.recovery_block_scan == RecoveryBlockScan::FirstPages) else {
            return Ok(false);
        };
        let (mut survey, mut unsettled) = (FlashSurvey::default(), PagesWithUncertainValidity::new());
        self.store.drop_ram_state();
        self.run_counted_step(&mut steps.find_blocks, |ftl| {
            ftl.find_blocks(&mut survey)?;
            ftl.register_data_blocks(&survey, &notes, &mut unsettled)
        })?;
        self.survey_map_and_validity(&mut survey, steps)?;
        self.store.swap_open_blocks_if_host_has_more_pages();
        self.drop_content_state()?;
        let mut read = UnitsByTranslationPage::default();
        let mut bound_pages = BTreeSet::new();
        self.run_counted_step(&mut steps.restore_map_entries, |ftl| {
            ftl.reload_dirty_map_entries(&survey)?;
            let special = ftl.read_bind_and_chunk_entries(&mut read)?;
            bound_pages.extend(special.bound_page_entries.iter().map(|&(_, ppn)| ppn));
            ftl.restore_chunks(&survey, &special)?;
            ftl.restore_referrers(special, &mut read)?;
            ftl.restore_deltas(&survey, &mut read)
        })?;
        self.run_counted_step(&mut steps.restore_validity_buffer, |ftl| {
            ftl.report_blocks_opened_since_validity_flush();
            ftl.add_noted_pages(&notes, &mut unsettled);
            ftl.read_owners(&mut unsettled)
        })?;
        self.restore_validity(steps, &unsettled, &bound_pages, &mut read)?;
        self.set_victim_policy(self.collector.options.policy);
        Ok(true)
    }

    /// Registers the data blocks of `survey` with the block table. Only a block that was open when the settled program
    /// was noted, or was opened later, can be partly filled or have unsettled pages; these are added to `unsettled`.
    fn register_data_blocks(
        &mut self,
        survey: &FlashSurvey,
        notes: &FoundNotes,
        unsettled: &mut PagesWithUncertainValidity,
    ) -> Result<()> {
        let block_pages = self.store.geometry().block_pages();
        let mut blocks: Vec<(BlockId, u64)> =
            survey.data_blocks.iter().map(|data| (data.block, data.first_sequence)).collect();
        blocks.sort_unstable_by_key(|(block, _)| block.0);
        for (block, first_sequence) in blocks {
            let first = self.store.geometry().first_page(block);
            let was_open =
                first_sequence > notes.validity_known_until_sequence || notes.open_blocks.contains(&block);
            // The age of a full block is not known without a further read: it counts from the block's first page.
            let mut found = FoundBlock {
                kind: Some(PageKind::Data),
                programmed_pages: block_pages,
                first_sequence,
                last_sequence: first_sequence,
            };
            if was_open || self.store.nand().has_failed_program(block) {
                found.programmed_pages = self.count_programmed_pages(first)?;
            }
            if was_open {
                let last =
                    self.add_pages_with_uncertain_validity(first, found.programmed_pages, notes, unsettled)?;
                found.last_sequence = found.last_sequence.max(last);
            }
            self.store.register_found_block_state(block, found);
            let is_full =
                found.programmed_pages == block_pages || self.store.nand().has_failed_program(block);
            if !is_full && self.store.blocks().state(block) == BlockState::Closed {
                // The block is closed with the pages that it has; a closed block counts as full.
                let rest = first.0 + found.programmed_pages..first.0 + block_pages;
                unsettled.extend(rest.map(|ppn| (Ppn(ppn), None)));
            }
        }
        Ok(())
    }

    /// Adds to `unsettled` those of the first `programmed_pages` pages from `first` on that were programmed after the
    /// last settled program, and torn pages among them. Returns the largest sequence number found.
    fn add_pages_with_uncertain_validity(
        &mut self,
        first: Ppn,
        programmed_pages: u32,
        notes: &FoundNotes,
        unsettled: &mut PagesWithUncertainValidity,
    ) -> Result<u64> {
        let mut newest = 0;
        for ppn in (first.0..first.0 + programmed_pages).rev().map(Ppn) {
            let oob = self.read_oob_if_readable(ppn)?;
            newest = newest.max(oob.map_or(0, |oob| oob.sequence_number));
            if oob.is_some_and(|oob| oob.sequence_number <= notes.validity_known_until_sequence) {
                break;
            }
            unsettled.insert(ppn, oob.map(|oob| Lpn(oob.owner)));
        }
        Ok(newest)
    }

    /// Returns the OOB of `ppn`; `None` if the page is erased or torn.
    fn read_oob_if_readable(&mut self, ppn: Ppn) -> Result<Option<Oob>> {
        match self.store.read_spare_in_recovery(ppn) {
            Err(Error::Nand(NandError::Uncorrectable(_))) => Ok(None),
            found => found,
        }
    }

    fn reload_dirty_map_entries(&mut self, survey: &FlashSurvey) -> Result<()> {
        let Self { mapping, store, .. } = self;
        let map = mapping.as_demand_paged_mut().expect("the map is on flash");
        for &id in survey.translation_page_versions.keys() {
            let newest = survey.newest_translation_page(id).expect("a page that is listed has a version");
            map.set_bind_and_chunk_entry_count_on_flash(id, newest.bind_and_chunk_entry_count);
        }
        map.reload_dirty_entries(store)
    }

    /// Returns the special map entries, in the order of logical pages. Reads those translation pages that have some.
    fn read_bind_and_chunk_entries(
        &mut self,
        read: &mut UnitsByTranslationPage,
    ) -> Result<BindAndChunkEntries> {
        let mut special = BindAndChunkEntries::default();
        let (flash_pages, page_bytes) = (self.store.geometry().pages(), self.store.geometry().page_bytes);
        for id in 0..self.demand_paged_map().translation_pages() {
            let mut page = None;
            if self.demand_paged_map().bind_and_chunk_entry_count_on_flash(id) > 0 {
                page = Some(self.read_translation_page(id, page_bytes, read)?);
            }
            for (lpn, entry) in self.demand_paged_map().bind_and_chunk_entries_of_page(id, page.as_deref()) {
                let unit = entry.without_bind_mark();
                if is_flash_page(unit, flash_pages) {
                    special.bound_page_entries.push((lpn, Ppn(unit.0)));
                } else {
                    special.chunk_member_entries.push((lpn, unit));
                }
            }
        }
        Ok(special)
    }

    fn demand_paged_map(&self) -> &DemandPagedMap {
        self.mapping.as_demand_paged().expect("the map is on flash")
    }

    /// Reads translation page `id`, which must exist, and keeps its units in `read`. Returns its bytes.
    fn read_translation_page(
        &mut self,
        id: u32,
        page_bytes: u32,
        read: &mut UnitsByTranslationPage,
    ) -> Result<Vec<u8>> {
        let mut page = vec![0; page_bytes as usize];
        let place = self.demand_paged_map().translation_page_ppn(id).expect("only pages on flash are read");
        self.store.read(place, &mut page, Cause::Recovery)?;
        read.insert(id, self.demand_paged_map().decode_entries(id, &page).map(|(_, unit)| unit).collect());
        Ok(page)
    }

    /// Returns the unit to which `lpn` is mapped. Reads its translation page, unless the entry is cached or the page is
    /// in `read`.
    fn recovered_unit(&mut self, lpn: Lpn, read: &mut UnitsByTranslationPage) -> Result<Option<Unit>> {
        let map = self.demand_paged_map();
        if let Some(unit) = map.cached_unit(lpn) {
            return Ok(unit.to_option());
        }
        let id = map.translation_page_of(lpn);
        if map.translation_page_ppn(id).is_none() {
            return Ok(None);
        }
        if !read.contains_key(&id) {
            self.read_translation_page(id, self.store.geometry().page_bytes, read)?;
        }
        let entries_per_page = self.store.geometry().page_bytes / size_of::<u32>() as u32;
        Ok(read[&id][(lpn.0 % entries_per_page) as usize].to_option())
    }

    /// Rebuilds the table of compressed chunks. Reads all pages of blocks of chunks.
    fn restore_chunks(&mut self, survey: &FlashSurvey, special: &BindAndChunkEntries) -> Result<()> {
        let pages = self.scan_blocks_of_kind(survey, PageKind::Chunk)?;
        if self.chunks.is_none() {
            return Ok(());
        }
        let pages: Vec<(u64, Ppn, u32)> =
            pages.into_iter().map(|(ppn, oob)| (oob.sequence_number, ppn, oob.owner)).collect();
        let found = self.peek_chunk_directories(&pages)?;
        self.rebuild_chunk_table(special.chunk_member_entries.iter().map(|&(_, unit)| unit).collect(), found)
    }

    /// Rebuilds the table of deltas. Reads all pages of blocks of deltas.
    fn restore_deltas(&mut self, survey: &FlashSurvey, read: &mut UnitsByTranslationPage) -> Result<()> {
        let pages = self.scan_blocks_of_kind(survey, PageKind::Delta)?;
        if self.delta.is_none() {
            return Ok(());
        }
        let pages = pages.into_iter().map(|(ppn, oob)| (oob.sequence_number, ppn)).collect();
        let flash_pages = self.store.geometry().pages();
        self.rebuild_deltas(pages, |ftl, lpn| {
            let unit = ftl.recovered_unit(lpn, read)?;
            Ok(unit.filter(|&unit| is_flash_page(unit, flash_pages)).map(|unit| Ppn(unit.0)))
        })
    }

    /// Reads the spare areas of all pages in blocks of `kind`, and registers these blocks with the block table.
    fn scan_blocks_of_kind(&mut self, survey: &FlashSurvey, kind: PageKind) -> Result<Vec<(Ppn, Oob)>> {
        let mut pages = Vec::new();
        for &(block, _) in survey.metadata_blocks.iter().filter(|&&(_, found)| found == kind) {
            let found = self.scan_block(block, &mut |ppn, oob| pages.push((ppn, oob)))?;
            self.store.register_found_block_state(block, found);
        }
        Ok(pages)
    }

    /// Rebuilds reference counts and the reverse map: for each page to which a bind has mapped a logical page, and for
    /// each chunk member, all logical pages that refer to it. The logical page that wrote a flash page has no special
    /// entry; the OOB of the page names it.
    fn restore_referrers(
        &mut self,
        special: BindAndChunkEntries,
        read: &mut UnitsByTranslationPage,
    ) -> Result<()> {
        let mut referrers: BTreeMap<Lpn, Unit> = special.chunk_member_entries.into_iter().collect();
        referrers.extend(special.bound_page_entries.iter().map(|&(lpn, ppn)| (lpn, Unit::from(ppn))));
        let bound: BTreeMap<Ppn, Lpn> =
            special.bound_page_entries.iter().map(|&(lpn, ppn)| (ppn, lpn)).collect();
        for (&ppn, &lpn) in &bound {
            let writer = self.require_writer_of_bound_page(ppn, lpn)?;
            if self.recovered_unit(writer, read)? == Some(ppn.into()) {
                referrers.insert(writer, ppn.into());
            }
        }
        let mut known = FxHashSet::default();
        referrers.into_iter().try_for_each(|(lpn, unit)| self.adopt_referrer(lpn, unit, known.insert(unit)))
    }

    /// Returns the logical page that wrote `ppn`, from the OOB of the page, to which a bind has mapped `lpn`.
    fn require_writer_of_bound_page(&mut self, ppn: Ppn, lpn: Lpn) -> Result<Lpn> {
        let oob = self
            .read_oob_if_readable(ppn)?
            .filter(|oob| oob.kind == PageKind::Data && oob.owner < self.logical_pages);
        let writer = oob.map(|oob| Lpn(oob.owner));
        writer.ok_or_else(|| {
            Error::Damaged(format!(
                "the L2P map maps logical page {lpn} to flash page {ppn}, which is shared or revived and has no \
                 readable data"
            ))
        })
    }

    /// Adds the pages that notes in NVRAM name, and those of the block that GC was emptying.
    fn add_noted_pages(&self, notes: &FoundNotes, unsettled: &mut PagesWithUncertainValidity) {
        let geometry = self.store.geometry();
        let of_victim = notes.victim.into_iter().flat_map(|victim| {
            let first = geometry.first_page(victim).0;
            (first..first + geometry.block_pages()).map(Ppn)
        });
        for ppn in notes.maybe_invalid_pages.iter().copied().chain(of_victim) {
            unsettled.entry(ppn).or_insert(None);
        }
        let open: FxHashMap<BlockId, u32> = self.store.programmed_pages_of_open_blocks().collect();
        let blocks = self.store.blocks();
        unsettled.retain(|&ppn, _| {
            let block = self.store.block_of(ppn);
            let is_in_use = matches!(blocks.state(block), BlockState::Open | BlockState::Closed);
            let programmed = open.get(&block).copied().unwrap_or(geometry.block_pages());
            is_in_use
                && blocks.kind(block) == PageKind::Data
                && ppn.0 - geometry.first_page(block).0 < programmed
        });
    }

    /// Reads the spare areas of the unsettled pages whose owner is not known yet.
    fn read_owners(&mut self, unsettled: &mut PagesWithUncertainValidity) -> Result<()> {
        for (&ppn, owner) in unsettled.iter_mut().filter(|(_, owner)| owner.is_none()) {
            *owner = self.read_oob_if_readable(ppn)?.map(|oob| Lpn(oob.owner));
        }
        Ok(())
    }

    /// Sets the valid counts of all data blocks from page validity on flash, and corrects both for the pages
    /// `unsettled`, about which the map is asked, and `pages_with_binders`, which may have been revived.
    fn restore_validity(
        &mut self,
        steps: &mut RecoverySteps,
        unsettled: &PagesWithUncertainValidity,
        pages_with_binders: &BTreeSet<Ppn>,
        read: &mut UnitsByTranslationPage,
    ) -> Result<()> {
        let doubtful = unsettled.keys().chain(pages_with_binders).map(|&ppn| self.store.block_of(ppn));
        let open = self.store.programmed_pages_of_open_blocks().map(|(block, _)| block);
        let doubtful: FxHashSet<BlockId> = doubtful.chain(open).collect();
        let mut invalid = FxHashMap::default();
        self.run_counted_step(&mut steps.recount_valid_pages, |ftl| {
            invalid = ftl.recount_valid_pages_with_bitmaps(&doubtful)?;
            Ok(())
        })?;
        self.close_blocks_listed_as_closed(|block| invalid.get(&block));
        self.run_counted_step(&mut steps.restore_validity_buffer, |ftl| {
            for &ppn in pages_with_binders {
                ftl.correct_page_validity(ppn, &invalid, true)?;
            }
            for (&ppn, &owner) in unsettled.iter().filter(|(ppn, _)| !pages_with_binders.contains(ppn)) {
                let is_valid = match owner.filter(|owner| owner.0 < ftl.logical_pages) {
                    Some(owner) => ftl.recovered_unit(owner, read)? == Some(ppn.into()),
                    None => false,
                };
                ftl.correct_page_validity(ppn, &invalid, is_valid)?;
            }
            Ok(())
        })
    }

    /// Corrects page validity on flash and the valid count of the block for page `ppn`. `invalid_page_bitmaps` has the
    /// pages that page validity on flash lists as invalid, by block.
    fn correct_page_validity(
        &mut self,
        ppn: Ppn,
        invalid_page_bitmaps: &FxHashMap<BlockId, Vec<u64>>,
        is_valid: bool,
    ) -> Result<()> {
        let block = self.store.block_of(ppn);
        let offset = ppn.0 - self.store.geometry().first_page(block).0;
        let is_listed = invalid_page_bitmaps.get(&block).is_some_and(|pages| is_page_bit_set(pages, offset));
        match (is_listed, is_valid) {
            (true, true) => {
                self.validity.revive(ppn);
                self.store.count_recovered_page_valid(ppn);
            }
            (false, false) => {
                self.store.note_maybe_invalid_page(ppn)?;
                self.validity.invalidate(ppn);
                // In a block with a failed program, only readable pages were counted.
                if !self.store.nand().has_failed_program(block) || self.read_oob_if_readable(ppn)?.is_some() {
                    self.store.count_page_invalid(ppn);
                }
            }
            (true, false) | (false, true) => {}
        }
        Ok(())
    }
}
