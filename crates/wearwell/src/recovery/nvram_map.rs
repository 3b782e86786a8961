//! Recovery of a device whose L2P table is copied to NVRAM: the table is read back, and all other state is rebuilt from
//! it.
//!
//! If the map is on flash, NVRAM holds the entries that are newer than their translation pages; of each translation
//! page the newest version is used. The OOB of all pages gives block states and sequence numbers. Page validity follows
//! from the map. If page validity is stored on flash, it is compared with the map block by block, and the differences
//! are written to it: invalid pages that were still in its buffer, and pages that were revived. The map also shows
//! which logical pages share a flash page. Deltas and chunk directories are read from their pages. State that only
//! helps later writes (history of dead pages, access counts, content index) starts empty.
//!
//! The price is one bit per page of RAM during recovery. A map on flash is read page by page, once, or twice if chunks
//! have to be known before their members are mapped.
//!
//! What is found on the medium is verified: a map entry that names a page without data is [`Error::Damaged`].

use std::collections::BTreeMap;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::{RecoveryStepCosts, demand_paged_map};
use crate::address::{BlockId, Lpn, OptionalAddress, Ppn, StoredUnit, is_flash_page};
use crate::content::compress::directory::{CHUNK_DIRECTORY_BYTES, ChunkDirectory, RecoveredChunks};
use crate::content::compress::stored_unit_count;
use crate::error::{Error, Result};
use crate::ftl::Ftl;
use crate::mapping::{AnyMapping, DemandPagedMap};
use crate::nand::{Nand, NandError, PageKind};
use crate::operation::Cause;
use crate::store::BlockState;
use crate::tables::PageSet;
use crate::validity::{AnyValidityStore, RamBitmap, ValidityStore, is_page_bit_set};

/// Pages that recovery found by reading the OOB of every flash page, by kind.
struct ScannedPages {
    /// Pages of host data that the scan found.
    data_pages: PageSet,
    /// Newest version of each translation page that the scan found: sequence number and PPN, keyed by translation page
    /// number.
    newest_translation_pages: BTreeMap<u32, (u64, Ppn)>,
    /// PPNs of the pages of the validity store that the scan found.
    validity_pages: Vec<Ppn>,
    /// Sequence number and PPN of each page that holds deltas.
    delta_pages: Vec<(u64, Ppn)>,
    /// Sequence number, PPN and chunk number of each page of a compressed chunk.
    chunk_pages: Vec<(u64, Ppn, u32)>,
}

/// Physical page (PPN) of each logical page; logical pages without one have no entry.
type PpnOfLpn = HashMap<Lpn, Ppn, FxBuildHasher>;

impl Ftl {
    /// Recovers a device whose dirty map entries, or whole map, are in NVRAM, by a scan of the OOB of all pages.
    /// Returns the number of mapped logical pages.
    pub(crate) fn rebuild_from_nvram_map(&mut self, steps: &mut RecoveryStepCosts) -> Result<u64> {
        let scanned = self.scan_pages_by_kind(steps)?;
        self.reload_map(&scanned)?;
        self.run_counted_step(&mut steps.rebuild_validity_directories, |ftl| {
            ftl.reload_validity(&scanned.validity_pages)
        })?;
        let bitmap = AnyValidityStore::Ram(RamBitmap::new(self.store.geometry().pages()));
        let on_flash =
            Some(std::mem::replace(&mut self.validity, bitmap)).filter(AnyValidityStore::is_on_flash);
        self.drop_content_state()?;
        if self.compression.is_some() {
            let found = self.peek_chunk_directories(&scanned.chunk_pages)?;
            let members = self.mapped_chunk_members()?;
            self.rebuild_chunk_table(members, found)?;
        }
        let (mapped, bases) = self.rebuild_state_of_mapped_pages(&scanned.data_pages)?;
        let content = self.load_nvram_content_records()?;
        if self.delta.is_some() {
            let recorded = self.store.keeps_nvram_validity_notes().then_some(&content.delta_ppn_by_lpn);
            self.rebuild_deltas(scanned.delta_pages, recorded, |_, lpn| Ok(bases.get(&lpn).copied()))?;
        }
        self.repair_content_records(&content)?;
        if let Some(on_flash) = on_flash {
            let derived = std::mem::replace(&mut self.validity, on_flash);
            self.run_counted_step(&mut steps.restore_validity_buffer, |ftl| ftl.correct_validity(&derived))?;
        }
        // The scan may have opened a block again that is not noted as open.
        self.store.advance_validity_known_until_sequence()?;
        Ok(mapped)
    }

    /// Drops the state of content mechanisms in RAM, as a loss of power does. The history of dead pages, access counts
    /// and the content index start empty; recovery rebuilds all other state.
    pub(super) fn drop_content_state(&mut self) -> Result<()> {
        if let Some(stage) = &mut self.recycle {
            stage.recycler.clear_all_state();
        }
        if let Some(sharing) = &mut self.sharing {
            sharing.drop_ram_state();
            sharing.clear_reverse_map(&self.store)?;
        }
        if let Some(stage) = &mut self.delta {
            stage.reset_after_power_loss(&self.store);
        }
        Ok(())
    }

    /// Restores the validity store on flash from `pages`, the validity pages that recovery found by its scan.
    fn reload_validity(&mut self, pages: &[Ppn]) -> Result<()> {
        let mut found = Vec::with_capacity(pages.len());
        for &ppn in pages {
            found.extend(self.store.read_spare_in_recovery(ppn)?.map(|oob| (ppn, oob)));
        }
        let opened_at = self.sequence_before_opening_by_block();
        let of_block = |block: BlockId| opened_at[block.index()];
        self.validity.recover(&mut self.store, &found, of_block)?;
        self.count_live_validity_pages(&found);
        Ok(())
    }

    /// Returns for each block, by block number, the sequence number of the last program before the block was opened for
    /// data; `u64::MAX` if the block holds no data.
    pub(super) fn sequence_before_opening_by_block(&self) -> Vec<u64> {
        let blocks = self.store.blocks();
        let is_in_use = |block| matches!(blocks.state(block), BlockState::Open | BlockState::Closed);
        let is_data = |block| is_in_use(block) && blocks.kind(block) == PageKind::Data;
        let opened_at = |block| if is_data(block) { blocks.opened_at_sequence(block) } else { u64::MAX };
        (0..blocks.len()).map(BlockId).map(opened_at).collect()
    }

    /// Corrects the page validity stored on flash to `derived`, the validity that follows from the recovered map:
    /// reports blocks opened, pages invalidated and pages revived since the validity buffer was last written.
    fn correct_validity(&mut self, derived: &AnyValidityStore) -> Result<()> {
        self.report_blocks_opened_since_validity_flush()?;
        let mut invalid = HashMap::<BlockId, Vec<u64>, FxBuildHasher>::default();
        let Self { validity, store, .. } = self;
        validity.for_each_block_with_invalid_pages(store, |block, pages| {
            invalid.insert(block, pages.to_vec());
        })?;
        self.reclose_blocks_closed_by_recovery(|block| invalid.get(&block));
        for (block, (programmed, _)) in self.store.programmed_and_valid_pages_by_block() {
            let (first, known) =
                (self.store.geometry().first_page(BlockId(block)), invalid.get(&BlockId(block)));
            for k in 0..programmed {
                let (ppn, is_invalid) =
                    (Ppn(first.0 + k), known.is_some_and(|pages| is_page_bit_set(pages, k)));
                match (is_invalid, derived.is_valid(ppn)) {
                    (true, true) => self.validity.revive(ppn),
                    (false, false) => {
                        self.store.write_note_of_maybe_invalid_page(ppn)?;
                        self.validity.invalidate(ppn);
                    }
                    (true, false) | (false, true) => {}
                }
            }
        }
        Ok(())
    }

    /// Closes open data blocks that an earlier recovery had closed before they were full. That recovery reported the
    /// unprogrammed pages of such a block as invalid, and page validity on flash could not record that one of them
    /// becomes valid. `listed_as_invalid` returns the bitmap of a block's pages that flash lists as invalid.
    pub(super) fn reclose_blocks_closed_by_recovery<'a>(
        &mut self,
        listed_as_invalid: impl Fn(BlockId) -> Option<&'a Vec<u64>>,
    ) {
        let is_listed = |&(block, next): &(BlockId, u32)| {
            listed_as_invalid(block).is_some_and(|pages| is_page_bit_set(pages, next))
        };
        let open = self.store.programmed_pages_of_open_blocks();
        let is_data = |&(block, _): &(BlockId, u32)| self.store.blocks().kind(block) == PageKind::Data;
        let closed: Vec<(BlockId, u32)> = open.filter(is_data).filter(is_listed).collect();
        for (block, _) in closed {
            self.store.close_block_again(block);
        }
    }

    /// Reports to the validity store the blocks that were opened for data since its buffer was last written to flash.
    pub(super) fn report_blocks_opened_since_validity_flush(&mut self) -> Result<()> {
        let since = self.validity.durable_until_sequence();
        for (block, opened_at) in (0..).map(BlockId).zip(self.sequence_before_opening_by_block()) {
            if opened_at != u64::MAX && opened_at >= since {
                self.validity.record_block_opened(block);
            }
        }
        self.validity.drop_invalid_page_reports_to_be_repeated(&mut self.store)
    }

    /// Surveys the flash, and returns the pages found, by kind. Of each translation page, only the newest version is
    /// kept.
    fn scan_pages_by_kind(&mut self, steps: &mut RecoveryStepCosts) -> Result<ScannedPages> {
        let data = PageSet::new(self.store.geometry().pages());
        let mut scanned = ScannedPages {
            data_pages: data,
            newest_translation_pages: BTreeMap::new(),
            validity_pages: Vec::new(),
            delta_pages: Vec::new(),
            chunk_pages: Vec::new(),
        };
        self.survey_pages(steps, |ppn, page| match page.kind {
            PageKind::Data => scanned.data_pages.insert(ppn),
            PageKind::Delta => scanned.delta_pages.push((page.sequence_number, ppn)),
            PageKind::Chunk => scanned.chunk_pages.push((page.sequence_number, ppn, page.owner)),
            PageKind::Translation => {
                let newest = scanned.newest_translation_pages.entry(page.owner).or_insert((0, ppn));
                *newest = (*newest).max((page.sequence_number, ppn));
            }
            PageKind::Validity => scanned.validity_pages.push(ppn),
            // Designs with the map in NVRAM have no pages of these kinds; garbage collection will erase them.
            PageKind::RemapLog | PageKind::BlockHead | PageKind::BlockTail => {}
        })?;
        Ok(scanned)
    }

    /// Restores the map from NVRAM: the whole table, or the directory of the scanned translation pages and the dirty
    /// entries.
    fn reload_map(&mut self, scanned: &ScannedPages) -> Result<()> {
        let Self { mapping, store, compression, .. } = self;
        let pages = store.geometry().pages();
        let units = stored_unit_count(pages, compression.is_some());
        match mapping {
            AnyMapping::Flat(flat) => flat.reload_from_nvram(store, |unit| {
                if is_flash_page(unit, pages) {
                    scanned.data_pages.contains(Ppn(unit.0))
                } else {
                    (unit.0 as u64) < units
                }
            }),
            AnyMapping::Cached(cached) => {
                cached.drop_ram_state();
                for (&id, &(_, ppn)) in &scanned.newest_translation_pages {
                    if id < cached.translation_pages() {
                        cached.set_translation_page_ppn(id, ppn);
                        store.count_recovered_page_valid(ppn);
                    }
                }
                cached.reload_dirty_entries(store)
            }
            AnyMapping::Journalled(_) => unreachable!("a journal is no part of such a design"),
        }
    }

    /// Calls `visit` for every mapped logical page in the order of LPNs, with its map entry: the unit (physical page or
    /// member of a compressed chunk), and the bind mark if entries have one. Reads the whole map if it is on flash.
    fn for_each_mapped_lpn(
        &mut self,
        mut visit: impl FnMut(&mut Self, Lpn, StoredUnit) -> Result<()>,
    ) -> Result<()> {
        if let AnyMapping::Flat(_) = &self.mapping {
            return (0..self.logical_pages).map(Lpn).try_for_each(|lpn| {
                let place = self.mapping.lookup_in_ram(lpn);
                place.map_or(Ok(()), |unit| visit(self, lpn, unit))
            });
        }
        for id in 0..self.mapping.as_demand_paged().map_or(0, DemandPagedMap::translation_pages) {
            for (lpn, entry) in self.mapped_entries_of_translation_page(id)? {
                visit(self, lpn, entry)?;
            }
        }
        Ok(())
    }

    /// Returns the mapped logical pages of the translation page `id`, each with its map entry. A map entry in RAM
    /// replaces the entry on flash, because it is newer.
    fn mapped_entries_of_translation_page(&mut self, id: u32) -> Result<Vec<(Lpn, StoredUnit)>> {
        let Self { mapping, store, .. } = self;
        let cached = demand_paged_map(mapping);
        let mut page = vec![0xff; store.geometry().page_bytes as usize];
        if let Some(place) = cached.translation_page_ppn(id) {
            store.read(place, &mut page, Cause::Recovery)?;
        }
        let newest = |(lpn, entry)| (lpn, cached.cached_entry(lpn).unwrap_or(entry));
        let mapped = cached.decode_entries_with_marks(id, &page).map(newest);
        Ok(mapped.filter(|(_, unit)| unit.to_option().is_some()).collect())
    }

    /// Returns the directories of compressed chunks in the spare areas of the chunk pages `pages` (sequence number, PPN
    /// and chunk number of each). Counts no flash operation, because the scan that found the pages has read and counted
    /// their spare areas. A simulation that knows only sizes of contents also reads the data of the pages for the sizes
    /// of the members, which a drive does not need.
    pub(super) fn peek_chunk_directories(&mut self, pages: &[(u64, Ppn, u32)]) -> Result<RecoveredChunks> {
        let page_bytes = self.store.geometry().page_bytes as usize;
        let mut bytes = vec![0; page_bytes + CHUNK_DIRECTORY_BYTES];
        let mut found = RecoveredChunks::default();
        for &(sequence, ppn, number) in pages {
            bytes.fill(0);
            let nand = self.store.nand_mut();
            let read = match nand.read_spare(ppn, &mut bytes[page_bytes..]) {
                Ok(_) if ChunkDirectory::decode(&bytes).is_some_and(|found| found.compressed_bytes == 0) => {
                    nand.read(ppn, &mut bytes).map(drop)
                }
                read => read.map(drop),
            };
            match read {
                // A page whose data cannot be read still has its directory.
                Ok(()) | Err(NandError::Uncorrectable(_)) => {}
                Err(error) => return Err(error.into()),
            }
            match ChunkDirectory::decode(&bytes) {
                Some(directory) => found.add_page(number, sequence, ppn, &directory),
                None => found.add_unreadable_page(number, sequence),
            }
        }
        Ok(found)
    }

    /// Returns the chunk members to which logical pages are mapped, once for each of these logical pages. Reads the
    /// whole map if it is on flash.
    fn mapped_chunk_members(&mut self) -> Result<Vec<StoredUnit>> {
        let (mut members, pages) = (Vec::new(), self.store.geometry().pages());
        self.for_each_mapped_lpn(|ftl, _, entry| {
            let unit = ftl.store.unit_named_by_map_entry(entry);
            members.extend(Some(unit).filter(|&unit| !is_flash_page(unit, pages)));
            Ok(())
        })?;
        Ok(members)
    }

    /// Rebuilds the table of compressed chunks from the `members` to which logical pages are mapped and the chunks
    /// `found` on flash.
    pub(super) fn rebuild_chunk_table(
        &mut self,
        members: Vec<StoredUnit>,
        found: RecoveredChunks,
    ) -> Result<()> {
        let Some(stage) = &mut self.compression else { return Ok(()) };
        stage.rebuild_chunk_table(members.into_iter(), found)?;
        let chunk_pages: Vec<Ppn> = stage.pages_of_all_chunks().collect();
        for ppn in chunk_pages {
            self.store.count_recovered_page_valid(ppn);
        }
        Ok(())
    }

    /// Rebuilds page validity, reference counts and referrers of all mapped logical pages. Returns the number of mapped
    /// logical pages and, if the design has deltas, the physical page of each, which is its base page.
    fn rebuild_state_of_mapped_pages(&mut self, data: &PageSet) -> Result<(u64, PpnOfLpn)> {
        let (mut mapped, mut bases) = (0, PpnOfLpn::default());
        let mut members = std::collections::BTreeSet::new();
        self.for_each_mapped_lpn(|ftl, lpn, entry| {
            mapped += 1;
            let unit = ftl.store.unit_named_by_map_entry(entry);
            let is_first = if is_flash_page(unit, ftl.store.geometry().pages()) {
                require_data_page(lpn, unit, data)?;
                if ftl.delta.is_some() {
                    bases.insert(lpn, Ppn(unit.0));
                }
                ftl.mark_page_valid(Ppn(unit.0))
            } else {
                members.insert(unit)
            };
            ftl.restore_referrer(lpn, entry, is_first)
        })?;
        Ok((mapped, bases))
    }

    /// Marks the physical page `ppn` as valid. Returns `false` if it was valid already, because another logical page is
    /// mapped to it.
    fn mark_page_valid(&mut self, ppn: Ppn) -> bool {
        if self.validity.is_valid(ppn) {
            return false;
        }
        self.validity.mark_valid_in_ram(ppn);
        self.store.count_recovered_page_valid(ppn);
        true
    }

    /// Adds the logical page `lpn` as referrer of the unit (flash page or chunk member) that its map entry `entry`
    /// names; `is_first` if the unit had none. `lpn` counts as mapped without a program if its entry has the bind mark.
    /// On a device without bind marks, it does if another logical page wrote the unit.
    pub(super) fn restore_referrer(&mut self, lpn: Lpn, entry: StoredUnit, is_first: bool) -> Result<()> {
        let unit = self.store.unit_named_by_map_entry(entry);
        let is_mapped_without_program = entry != unit || self.lpn_that_wrote(unit) != lpn;
        // If pages are shared, the reverse map also records the owners of revived pages.
        if let Some(stage) = &mut self.recycle
            && self.sharing.is_none()
            && is_mapped_without_program
        {
            stage.recycler.set_recovered_owner(Ppn(unit.0), lpn);
        }
        let is_legal_mark =
            is_mapped_without_program == (entry != unit) || !self.store.keeps_nvram_validity_notes();
        let can_share = if let Some(sharing) = &mut self.sharing {
            is_legal_mark
                && sharing.restore_referrer(
                    &self.mapping,
                    &mut self.store,
                    lpn,
                    unit,
                    is_mapped_without_program,
                    is_first,
                )?
        } else {
            let is_page = is_flash_page(unit, self.store.geometry().pages());
            is_legal_mark && is_first && (!is_mapped_without_program || (self.recycle.is_some() && is_page))
        };
        if can_share {
            return Ok(());
        }
        let writer = self.lpn_that_wrote(unit);
        let fault = if is_first {
            format!("which was written for logical page {writer} and cannot be shared in this design")
        } else {
            "to which another logical page is mapped, and which may not be shared further".to_owned()
        };
        Err(Error::Damaged(format!(
            "the L2P map must not map logical page {lpn} to location {unit} (a flash page or a member of a compressed \
             chunk), {fault}"
        )))
    }
}

impl Ftl {
    /// Returns the logical page whose write was stored as `unit` (physical page or member of a compressed chunk).
    fn lpn_that_wrote(&self, unit: StoredUnit) -> Lpn {
        match &self.compression {
            Some(stage) if !is_flash_page(unit, self.store.geometry().pages()) => stage.writer_lpn_of(unit),
            _ => self.store.owner_in_oob(Ppn(unit.0)),
        }
    }
}

/// Checks that the flash page `unit`, to which `lpn` is mapped, is among the pages of host data in `data`.
fn require_data_page(lpn: Lpn, unit: StoredUnit, data: &PageSet) -> Result<()> {
    if data.contains(Ppn(unit.0)) {
        return Ok(());
    }
    Err(Error::Damaged(format!(
        "the L2P map maps logical page {lpn} to flash page {unit}, which must hold data, but holds none"
    )))
}
