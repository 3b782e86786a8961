//! Recovery by notes in NVRAM, for a map on flash whose dirty entries are in NVRAM. It reads neither every spare area
//! nor the whole map.
//!
//! Four things make it short:
//!
//! - In a block of data, chunks or deltas, recovery reads the spare areas of the first and last pages at most. In
//!   blocks of metadata it reads the spare areas of all pages, because nothing else records where these pages are.
//! - Page validity is on flash, except for the reports of invalid pages since its buffer was last written. Notes in
//!   NVRAM (`store/recovery_notes.rs`) name the pages and blocks that these reports can concern. Recovery looks up the logical
//!   page of each such page in the map, and reads a translation page for it unless NVRAM has the entry. Blocks opened
//!   since the buffer was written are known by the sequence number of their first page, and reported again.
//! - Records in NVRAM (`store/content_records.rs`) hold the map entries of logical pages that are mapped to stored
//!   content without a program, the shared pages whose first writer is mapped elsewhere now, the chunks with their
//!   pages and live members, and the deltas. So recovery knows referrers, reference counts, chunks and deltas without
//!   reading the map. Only for chunks that were written or that lost a member shortly before the power loss, it looks
//!   up the members in the map.
//! - Each translation page is read at most once. (The simulation keeps the translation pages that it has read; a
//!   controller with little RAM sorts its look-ups by translation page.)
//!
//! The cost: the notes and records, and one bit of each map entry (the bind mark: the entry was set without a program).
//! If the notes do not suffice, all spare areas are read (`nvram_map.rs`), with the same result.
//!
//! What is found in NVRAM is verified: a marked map entry that names a page outside the blocks of data is
//! [`Error::Damaged`].

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use super::backward::FlashSurvey;
use super::recorded_content::NvramContentRecords;
use super::{RecoveryStepCosts, demand_paged_map, demand_paged_map_mut};
use crate::address::{BlockId, Lpn, OptionalAddress, Ppn, StoredUnit, is_flash_page, unit_of_chunk_member};
use crate::content::compress::MAX_CHUNK_MEMBERS;
use crate::content::compress::directory::RecoveredChunks;
use crate::content::delta::BaseOfRecordedDelta;
use crate::design::RecoveryBlockScan;
use crate::error::{Error, Result};
use crate::ftl::Ftl;
use crate::nand::{Nand, NandError, Oob, PageKind};
use crate::operation::Cause;
use crate::store::{BlockState, FoundBlock, FoundValidityNotes};
use crate::validity::{ValidityStore, is_page_bit_set};

/// Data pages for which page validity on flash may be outdated, each with the LPN in its OOB if that was read.
type PagesWithUncertainValidity = BTreeMap<Ppn, Option<Lpn>>;

/// Sequence number, PPN and chunk number of a page of a compressed chunk.
type SequencePpnAndChunkNumber = (u64, Ppn, u32);

/// Map entries and content records that recovery has found so far, besides the dirty entries in the cache.
#[derive(Default)]
struct RecoveredMap {
    /// Records of content mechanisms in NVRAM, corrected by what recovery finds.
    content_records: NvramContentRecords,
    /// Units (flash pages or chunk members) to which logical pages are mapped without a program, each with the first of
    /// these logical pages.
    units_mapped_without_program: BTreeMap<StoredUnit, Lpn>,
    /// The translation pages that recovery has read, by number: for each logical page in it, the unit (flash page or
    /// chunk member) to which its entry maps.
    units_by_translation_page: FxHashMap<u32, Vec<StoredUnit>>,
}

impl Ftl {
    /// Recovers the device by the notes in NVRAM that name the data pages whose validity on flash may be outdated.
    /// Returns `false`, before any flash read, if the device keeps no such notes, if notes were overwritten because
    /// NVRAM had too few words, or if recovery is set to scan more than the first pages of blocks
    /// ([`RecoveryBlockScan`]).
    pub(super) fn rebuild_by_nvram_validity_notes(&mut self, steps: &mut RecoveryStepCosts) -> Result<bool> {
        let notes = self.store.read_nvram_validity_notes();
        let Some(notes) = notes.filter(|_| self.recovery_block_scan == RecoveryBlockScan::FirstPages) else {
            return Ok(false);
        };
        let (mut survey, mut uncertain_pages) = (FlashSurvey::default(), PagesWithUncertainValidity::new());
        let mut newest_chunk_pages = Vec::new();
        self.store.drop_ram_state();
        self.run_counted_step(&mut steps.find_blocks_in_use, |ftl| {
            ftl.find_blocks_in_use(&mut survey)?;
            ftl.register_data_blocks(&survey, &notes, &mut uncertain_pages)?;
            newest_chunk_pages = ftl.register_chunk_and_delta_blocks(&survey, &notes)?;
            Ok(())
        })?;
        self.survey_map_and_validity(&mut survey, steps)?;
        self.store.give_gc_the_emptier_open_blocks();
        self.drop_content_state()?;
        self.run_counted_step(&mut steps.restore_validity_buffer, |ftl| {
            ftl.report_blocks_opened_since_validity_flush()?;
            ftl.add_pages_named_in_notes(&notes, &mut uncertain_pages);
            ftl.read_owners(&mut uncertain_pages)
        })?;
        let mut map = RecoveredMap::default();
        self.run_counted_step(&mut steps.restore_map_entries, |ftl| {
            let Self { mapping, store, .. } = ftl;
            demand_paged_map_mut(mapping).reload_dirty_entries(store)?;
            map.content_records = ftl.load_nvram_content_records()?;
            map.units_mapped_without_program = map.content_records.units_mapped_without_program();
            ftl.restore_chunks(&mut map, &newest_chunk_pages)?;
            ftl.restore_referrers(&mut map, &uncertain_pages)?;
            ftl.restore_deltas(&mut map, &uncertain_pages)?;
            ftl.repair_content_records(&map.content_records)
        })?;
        let pages = self.store.geometry().pages();
        let bound_pages =
            map.units_mapped_without_program.keys().copied().filter(|&unit| is_flash_page(unit, pages));
        let bound_pages: BTreeSet<Ppn> = bound_pages.map(|unit| Ppn(unit.0)).collect();
        self.restore_validity(steps, &uncertain_pages, &bound_pages, &mut map)?;
        self.set_victim_policy(self.collector.options.policy);
        Ok(true)
    }

    /// Registers the data blocks that `survey` found with the block table. Adds to `uncertain_pages` the pages that
    /// were programmed after the sequence number up to which, by the notes, every data page was mapped or reported as
    /// invalid. Only a block that was open when that number was noted, or was opened later, can have such pages or be
    /// partly filled.
    fn register_data_blocks(
        &mut self,
        survey: &FlashSurvey,
        notes: &FoundValidityNotes,
        uncertain_pages: &mut PagesWithUncertainValidity,
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
                let last = self.add_pages_with_uncertain_validity(
                    first,
                    found.programmed_pages,
                    notes,
                    uncertain_pages,
                )?;
                found.last_sequence = found.last_sequence.max(last);
            }
            self.store.register_found_block_state(block, found);
            let is_full =
                found.programmed_pages == block_pages || self.store.nand().has_failed_program(block);
            if !is_full && self.store.blocks().state(block) == BlockState::Closed {
                // The block is closed with the pages that it has; a closed block counts as full.
                let rest = first.0 + found.programmed_pages..first.0 + block_pages;
                uncertain_pages.extend(rest.map(|ppn| (Ppn(ppn), None)));
            }
        }
        Ok(())
    }

    /// Checks `programmed_pages` pages from `first` on. Adds to `uncertain_pages` each page that is torn, or that was
    /// programmed after the sequence number up to which, by the notes, every data page was mapped or reported as
    /// invalid. Returns the largest sequence number found.
    fn add_pages_with_uncertain_validity(
        &mut self,
        first: Ppn,
        programmed_pages: u32,
        notes: &FoundValidityNotes,
        uncertain_pages: &mut PagesWithUncertainValidity,
    ) -> Result<u64> {
        let mut newest = 0;
        for ppn in (first.0..first.0 + programmed_pages).rev().map(Ppn) {
            let oob = self.read_oob_if_readable(ppn)?;
            newest = newest.max(oob.map_or(0, |oob| oob.sequence_number));
            if oob.is_some_and(|oob| oob.sequence_number <= notes.validity_known_until_sequence) {
                break;
            }
            uncertain_pages.insert(ppn, oob.map(|oob| Lpn(oob.owner)));
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

    /// Returns the unit (flash page or chunk member) to which `lpn` is mapped. Reads its translation page, unless the
    /// entry is in NVRAM or the page was read before.
    fn recovered_unit(&mut self, lpn: Lpn, recovered: &mut RecoveredMap) -> Result<Option<StoredUnit>> {
        let map = demand_paged_map(&self.mapping);
        if let Some(unit) = map.cached_unit(lpn) {
            return Ok(unit.to_option());
        }
        if let Some(entry) = recovered.content_records.entries_mapped_without_program.get(&lpn) {
            return Ok(Some(entry.without_mapping_mark()));
        }
        let id = map.translation_page_of(lpn);
        let Some(place) = map.translation_page_ppn(id) else { return Ok(None) };
        if let Entry::Vacant(vacant) = recovered.units_by_translation_page.entry(id) {
            let mut page = vec![0; self.store.geometry().page_bytes as usize];
            self.store.read(place, &mut page, Cause::Recovery)?;
            vacant.insert(map.decode_entries(id, &page).map(|(_, unit)| unit).collect());
        }
        Ok(recovered.units_by_translation_page[&id][map.index_on_translation_page(lpn)].to_option())
    }

    /// Enters the blocks of chunks and deltas into the block table. Reads only the spare areas of the first and last
    /// programmed pages of each block, because records in NVRAM name the pages of chunks and deltas. Returns the chunk
    /// pages programmed after the sequence number up to which, by the notes, validity is known: GC may have copied
    /// chunks to them without recording it.
    fn register_chunk_and_delta_blocks(
        &mut self,
        survey: &FlashSurvey,
        notes: &FoundValidityNotes,
    ) -> Result<Vec<SequencePpnAndChunkNumber>> {
        let mut newest = Vec::new();
        let is_packed = |kind| matches!(kind, PageKind::Chunk | PageKind::Delta);
        for &(block, kind) in survey.metadata_blocks.iter().filter(|&&(_, kind)| is_packed(kind)) {
            let first = self.store.geometry().first_page(block);
            let (programmed_pages, last_oob) = self.count_pages_and_read_last_oob(first)?;
            let pages = (first.0..first.0 + programmed_pages).map(Ppn);
            let validity_known_until =
                if kind == PageKind::Chunk { notes.validity_known_until_sequence } else { u64::MAX };
            let last_sequence = self.add_chunk_pages_programmed_after(
                pages.clone(),
                last_oob,
                validity_known_until,
                &mut newest,
            )?;
            let first_sequence = self.first_readable_sequence(pages)?;
            let found = FoundBlock { kind: Some(kind), programmed_pages, first_sequence, last_sequence };
            self.store.register_found_block_state(block, found);
        }
        Ok(newest)
    }

    /// Counts the programmed pages of the block that begins at `first`, and reads the OOB of its last page if the block
    /// is full. Reads that page first, because most blocks are full.
    fn count_pages_and_read_last_oob(&mut self, first: Ppn) -> Result<(u32, Option<Oob>)> {
        let block_pages = self.store.geometry().block_pages();
        match self.store.read_spare_in_recovery(Ppn(first.0 + block_pages - 1)) {
            Ok(None) => Ok((self.count_programmed_pages(first)?, None)),
            Ok(found) => Ok((block_pages, found)),
            Err(Error::Nand(NandError::Uncorrectable(_))) => Ok((block_pages, None)),
            Err(error) => Err(error),
        }
    }

    /// Adds to `uncertain_pages` those of the chunk pages `pages` (consecutive in a block) that were programmed after
    /// sequence number `validity_known_until`. Returns the sequence number of the last readable page, 0 if none is
    /// readable. `last_oob` is the OOB of the last page, if it was read before.
    fn add_chunk_pages_programmed_after(
        &mut self,
        pages: impl DoubleEndedIterator<Item = Ppn>,
        mut last_oob: Option<Oob>,
        validity_known_until: u64,
        uncertain_pages: &mut Vec<SequencePpnAndChunkNumber>,
    ) -> Result<u64> {
        let mut last_sequence = 0;
        for ppn in pages.rev() {
            let known = last_oob.take();
            let Some(oob) = known.map_or_else(|| self.read_oob_if_readable(ppn), |oob| Ok(Some(oob)))? else {
                continue;
            };
            last_sequence = last_sequence.max(oob.sequence_number);
            if oob.sequence_number <= validity_known_until {
                break;
            }
            uncertain_pages.push((oob.sequence_number, ppn, oob.owner));
        }
        Ok(last_sequence)
    }

    /// Returns the sequence number of the first readable page among `pages`; 0 if none is readable.
    fn first_readable_sequence(&mut self, mut pages: impl Iterator<Item = Ppn>) -> Result<u64> {
        pages
            .find_map(|ppn| self.read_oob_if_readable(ppn).transpose())
            .map_or(Ok(0), |oob| Ok(oob?.sequence_number))
    }

    /// Rebuilds the table of compressed chunks from their records in NVRAM. `newest_pages` are the chunk pages
    /// programmed after the sequence number up to which, by the notes, validity is known. Records of the chunks in
    /// these pages may be wrong; they are corrected with the map.
    fn restore_chunks(
        &mut self,
        map: &mut RecoveredMap,
        newest_pages: &[SequencePpnAndChunkNumber],
    ) -> Result<()> {
        if self.compression.is_none() {
            return Ok(());
        }
        let recorded = &map.content_records.live_member_mask_by_chunk;
        // A chunk without a record was being written or freed.
        let pages = map.content_records.pages_with_chunk_number.iter().map(|&(ppn, number)| (1, ppn, number));
        let pages = pages.chain(newest_pages.iter().copied());
        let pages: Vec<SequencePpnAndChunkNumber> =
            pages.filter(|(_, _, number)| recorded.contains_key(number)).collect();
        let found = self.peek_chunk_directories(&pages)?;
        let mut doubtful: BTreeSet<u32> = newest_pages.iter().map(|&(_, _, number)| number).collect();
        for number in map.content_records.chunks_with_change_note.clone() {
            if doubtful.insert(number)
                && let Some(&(ppn, _)) =
                    map.content_records.pages_with_chunk_number.iter().find(|&&(_, chunk)| chunk == number)
            {
                // The directory of the chunk is needed, of which the scan of blocks has not read a page.
                self.read_oob_if_readable(ppn)?;
            }
        }
        for number in doubtful {
            self.update_live_member_records_from_map(number, &found, map)?;
        }
        let (mut members, pages) = (Vec::new(), self.store.geometry().pages());
        for (&number, &live_members) in &map.content_records.live_member_mask_by_chunk {
            let live = (0..MAX_CHUNK_MEMBERS).filter(|k| live_members >> k & 1 == 1);
            members.extend(live.map(|k| unit_of_chunk_member(number, k, pages)));
        }
        self.rebuild_chunk_table(members, found)
    }

    /// Looks up the members of chunk `number` in the map, and corrects the recovered records of the chunk: which
    /// members are live, and for which live members the logical page that wrote the member is mapped elsewhere.
    fn update_live_member_records_from_map(
        &mut self,
        number: u32,
        found: &RecoveredChunks,
        map: &mut RecoveredMap,
    ) -> Result<()> {
        let Some(writers) = found.writer_lpns(number) else { return Ok(()) };
        let Some(&recorded) = map.content_records.live_member_mask_by_chunk.get(&number) else {
            return Ok(());
        };
        let (mut live_members, pages) = (0, self.store.geometry().pages());
        for (k, writer) in writers.into_iter().enumerate().filter(|(k, _)| recorded >> k & 1 == 1) {
            let unit = unit_of_chunk_member(number, k, pages);
            let writer_refers = self.is_mapped_by_its_writer(unit, Some(writer), map)?;
            live_members |=
                u8::from(writer_refers || map.units_mapped_without_program.contains_key(&unit)) << k;
            if !writer_refers {
                map.content_records.units_with_writer_mapped_elsewhere.insert(unit);
            }
        }
        if live_members == 0 {
            map.content_records.live_member_mask_by_chunk.remove(&number);
        } else {
            map.content_records.live_member_mask_by_chunk.insert(number, live_members);
        }
        Ok(())
    }

    /// Rebuilds the table of deltas from the delta pages that records in NVRAM name.
    fn restore_deltas(
        &mut self,
        map: &mut RecoveredMap,
        uncertain_pages: &PagesWithUncertainValidity,
    ) -> Result<()> {
        if self.delta.is_none() {
            return Ok(());
        }
        let deltas = std::mem::take(&mut map.content_records.delta_ppn_by_lpn);
        self.restore_recorded_deltas(&deltas, |ftl, lpn, must_be_known| {
            let must_be_known = must_be_known || map.content_records.lpns_with_change_note.contains(&lpn);
            let cached = demand_paged_map(&ftl.mapping).cached_unit(lpn);
            let bound = map
                .content_records
                .entries_mapped_without_program
                .get(&lpn)
                .map(|entry| entry.without_mapping_mark());
            let unit = match cached.or(bound) {
                None if !must_be_known => return Ok(BaseOfRecordedDelta::Unchanged),
                None => ftl.recovered_unit(lpn, map)?,
                Some(unit) => unit.to_option(),
            };
            let page = unit.filter(|&unit| is_flash_page(unit, ftl.store.geometry().pages()));
            Ok(match page.map(|unit| Ppn(unit.0)) {
                None => BaseOfRecordedDelta::Unmapped,
                Some(page) if must_be_known || uncertain_pages.contains_key(&page) => {
                    BaseOfRecordedDelta::Candidate(page)
                }
                Some(_) => BaseOfRecordedDelta::Unchanged,
            })
        })
    }

    /// Rebuilds reference counts and the reverse map from the map entries of logical pages that are mapped to a unit
    /// (flash page or chunk member) without a program. The logical page that wrote a unit may still refer to it, too:
    /// this follows from the records in NVRAM or, for pages that the interrupted request may have changed, from the
    /// map.
    fn restore_referrers(
        &mut self,
        map: &mut RecoveredMap,
        uncertain_pages: &PagesWithUncertainValidity,
    ) -> Result<()> {
        let mut known = FxHashSet::<StoredUnit>::default();
        for (unit, lpn) in map.units_mapped_without_program.clone() {
            self.require_data_unit(unit, lpn)?;
            let writer_refers = match uncertain_pages.get(&Ppn(unit.0)) {
                _ if self.sharing.is_none() => false,
                Some(&owner) => self.is_mapped_by_its_writer(unit, owner, map)?,
                None => !map.content_records.units_with_writer_mapped_elsewhere.contains(&unit),
            };
            if writer_refers {
                known.insert(unit);
            }
        }
        for (&lpn, &entry) in &map.content_records.entries_mapped_without_program {
            self.restore_referrer(lpn, entry, known.insert(entry.without_mapping_mark()))?;
        }
        Ok(())
    }

    /// Whether `writer`, the logical page for which `unit` was written, is still mapped to `unit` since that write (and
    /// was not mapped to it again without a program).
    fn is_mapped_by_its_writer(
        &mut self,
        unit: StoredUnit,
        writer: Option<Lpn>,
        map: &mut RecoveredMap,
    ) -> Result<bool> {
        match writer.filter(|lpn| lpn.0 < self.logical_pages) {
            Some(lpn) if !map.content_records.entries_mapped_without_program.contains_key(&lpn) => {
                Ok(self.recovered_unit(lpn, map)? == Some(unit))
            }
            _ => Ok(false),
        }
    }

    /// Checks that `unit`, to which `lpn` is mapped without a program, is in a block of data, or is a live member of a
    /// chunk.
    fn require_data_unit(&self, unit: StoredUnit, lpn: Lpn) -> Result<()> {
        if !is_flash_page(unit, self.store.geometry().pages()) {
            if self.compression.as_ref().is_some_and(|stage| stage.is_member_live(unit)) {
                return Ok(());
            }
            return Err(Error::Damaged(format!(
                "the L2P map maps logical page {lpn} to location {unit}, which must be a live member of a compressed \
                 chunk, but is not"
            )));
        }
        let (block, blocks) = (self.store.block_of(Ppn(unit.0)), self.store.blocks());
        let is_in_use = matches!(blocks.state(block), BlockState::Open | BlockState::Closed);
        if is_in_use && blocks.kind(block) == PageKind::Data {
            return Ok(());
        }
        Err(Error::Damaged(format!(
            "the L2P map maps logical page {lpn} to flash page {unit}, which is shared or revived and must hold data, \
             but holds none"
        )))
    }

    /// Adds to `uncertain_pages` the data pages that notes in NVRAM name as possibly invalid, and those of the block
    /// that GC was emptying. Then removes pages that are not programmed or not in a block of data.
    fn add_pages_named_in_notes(
        &self,
        notes: &FoundValidityNotes,
        uncertain_pages: &mut PagesWithUncertainValidity,
    ) {
        let geometry = self.store.geometry();
        let of_victim = notes.victim.into_iter().flat_map(|victim| {
            let first = geometry.first_page(victim).0;
            (first..first + geometry.block_pages()).map(Ppn)
        });
        for ppn in notes.maybe_invalid_pages.iter().copied().chain(of_victim) {
            uncertain_pages.entry(ppn).or_insert(None);
        }
        let open: FxHashMap<BlockId, u32> = self.store.programmed_pages_of_open_blocks().collect();
        let blocks = self.store.blocks();
        uncertain_pages.retain(|&ppn, _| {
            let block = self.store.block_of(ppn);
            let is_in_use = matches!(blocks.state(block), BlockState::Open | BlockState::Closed);
            let programmed = open.get(&block).copied().unwrap_or(geometry.block_pages());
            is_in_use
                && blocks.kind(block) == PageKind::Data
                && ppn.0 - geometry.first_page(block).0 < programmed
        });
    }

    /// Reads the spare areas of those pages in `uncertain_pages` whose owner (LPN in the OOB) is not known yet, and
    /// enters the owners.
    fn read_owners(&mut self, uncertain_pages: &mut PagesWithUncertainValidity) -> Result<()> {
        for (&ppn, owner) in uncertain_pages.iter_mut().filter(|(_, owner)| owner.is_none()) {
            *owner = self.read_oob_if_readable(ppn)?.map(|oob| Lpn(oob.owner));
        }
        Ok(())
    }

    /// Sets the valid counts of all data blocks from page validity on flash. Then corrects page validity and valid
    /// counts with the map, for the pages `uncertain_pages`, and for `pages_mapped_without_program` (pages to which
    /// logical pages are mapped without a program), which may have been revived.
    fn restore_validity(
        &mut self,
        steps: &mut RecoveryStepCosts,
        uncertain_pages: &PagesWithUncertainValidity,
        pages_mapped_without_program: &BTreeSet<Ppn>,
        map: &mut RecoveredMap,
    ) -> Result<()> {
        let doubtful =
            uncertain_pages.keys().chain(pages_mapped_without_program).map(|&ppn| self.store.block_of(ppn));
        let open = self.store.programmed_pages_of_open_blocks().map(|(block, _)| block);
        let doubtful: FxHashSet<BlockId> = doubtful.chain(open).collect();
        let mut invalid = FxHashMap::default();
        self.run_counted_step(&mut steps.recount_valid_pages, |ftl| {
            invalid = ftl.recount_valid_pages_with_bitmaps(&doubtful)?;
            Ok(())
        })?;
        self.reclose_blocks_closed_by_recovery(|block| invalid.get(&block));
        self.run_counted_step(&mut steps.restore_validity_buffer, |ftl| {
            for &ppn in pages_mapped_without_program {
                ftl.correct_page_validity(ppn, &invalid, true)?;
            }
            for (&ppn, &owner) in
                uncertain_pages.iter().filter(|(ppn, _)| !pages_mapped_without_program.contains(ppn))
            {
                let is_valid = match owner.filter(|owner| owner.0 < ftl.logical_pages) {
                    Some(owner) => ftl.recovered_unit(owner, map)? == Some(ppn.into()),
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
                self.store.write_note_of_maybe_invalid_page(ppn)?;
                self.validity.invalidate(ppn);
                if self.was_counted_as_valid(ppn)? {
                    self.store.count_page_invalid(ppn);
                }
            }
            (true, false) | (false, true) => {}
        }
        Ok(())
    }

    /// Whether the valid count of its block contains page `ppn`, which page validity on flash does not list as invalid.
    /// All programmed pages are counted, torn ones included, except the last page of a block if its program failed.
    fn was_counted_as_valid(&mut self, ppn: Ppn) -> Result<bool> {
        let block = self.store.block_of(ppn);
        if !self.store.nand().has_failed_program(block) || self.read_oob_if_readable(ppn)?.is_some() {
            return Ok(true);
        }
        let first = self.store.geometry().first_page(block);
        Ok(ppn.0 + 1 < first.0 + self.count_programmed_pages(first)?)
    }
}
