//! Recovery: rebuilds the state in RAM after a power loss.
//!
//! What survives a power loss depends on the design's [`Persistence`], and so do the steps of recovery. Every step only
//! reads, with two exceptions: interrupted erases are repeated, and a battery writes (while there is still power). So a
//! power loss during recovery does no harm: recovery can start again.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::address::{Lpn, OptionalAddress, Ppn, StoredUnit};
use crate::design::Persistence;
use crate::error::Result;
use crate::ftl::Ftl;
use crate::mapping::{AnyMapping, DemandPagedMap, Mapping};
use crate::nand::PageKind;
use crate::operation::Cause;
use crate::sharing::reverse_map::{ReverseMap, ReverseMapEntry};
use crate::store::Stream;
use crate::validity::{AnyValidityStore, RamBitmap, ValidityStore};

mod backward;
mod by_recovery_notes;
mod nvram_map;
mod recorded_content;
mod survey;

pub use backward::{RecoveryStepCost, RecoveryStepCosts};
pub(crate) use survey::FoundPage;

/// Cost and result of a recovery after power loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecoveryReport {
    /// Number of pages and spare areas that recovery read, reads on battery power included.
    pub page_and_spare_reads: u64,
    /// Number of physical blocks erased during recovery: by GC on battery power, or a second time, because power was
    /// lost during their first erase.
    pub erases: u64,
    /// Number of pages programmed on battery power to save RAM contents.
    pub battery_programs: u64,
    /// Number of pages read on battery power: map pages to be updated, and pages that GC copied; also counted in
    /// `page_and_spare_reads`.
    pub battery_page_reads: u64,
    /// Number of logical pages mapped after recovery; `None` if the map survived in RAM or remains on flash, so that
    /// recovery counted nothing.
    pub mapped_pages: Option<u64>,
    /// Flash operations of each step of recovery; zero for designs whose recovery is not divided into steps.
    pub steps: RecoveryStepCosts,
}

/// Table of the newest flash page that recovery has found so far for each owner (logical page or metadata page): its
/// PPN and sequence number, by owner number.
pub(crate) struct NewestPageVersions {
    /// For each owner (logical page or metadata page, by its number), the newest flash page found; [`Ppn::NONE`] if
    /// none was found.
    pub(crate) ppn_of_owner: Vec<Ppn>,
    /// For each owner (logical page or metadata page, by its number), the sequence number of the newest version found;
    /// 0 if none was found.
    sequence_of_owner: Vec<u64>,
}

impl NewestPageVersions {
    /// Creates the table for `owners` owners (logical pages or metadata pages, numbered from 0). No page is known yet.
    pub(crate) fn new(owners: usize) -> Self {
        Self { ppn_of_owner: vec![Ppn::NONE; owners], sequence_of_owner: vec![0; owners] }
    }

    /// Records a flash page as the newest of its owner, unless a version with a larger sequence number is known.
    pub(crate) fn record_page_if_newer(&mut self, ppn: Ppn, page: FoundPage) {
        self.record_if_newer(page.owner, ppn, page.sequence_number);
    }

    /// Records that the page of `owner` (LPN or metadata page number) is at `place` since `sequence`, unless a version
    /// with a larger sequence number is known. [`Ppn::NONE`] records that the owner has had no page since `sequence`.
    fn record_if_newer(&mut self, owner: u32, place: Ppn, sequence: u64) {
        let owner = owner as usize;
        if sequence > self.sequence_of_owner[owner] {
            (self.ppn_of_owner[owner], self.sequence_of_owner[owner]) = (place, sequence);
        }
    }
}

/// Returns the demand-paged map of a design whose map is on flash.
fn demand_paged_map(mapping: &AnyMapping) -> &DemandPagedMap {
    mapping.as_demand_paged().expect("the map is on flash")
}

/// Returns the demand-paged map of a design whose map is on flash, for changes.
fn demand_paged_map_mut(mapping: &mut AnyMapping) -> &mut DemandPagedMap {
    mapping.as_demand_paged_mut().expect("the map is on flash")
}

/// Applies reverse-map entries (records of binds and trims) to `newest`, which holds the newest versions found in page
/// OOBs. Returns for each logical page whether its physical page is taken from a reverse-map entry.
/// `program_sequence_by_ppn` holds the sequence number of each data page, by PPN.
pub(crate) fn apply_reverse_map_entries(
    newest: &mut NewestPageVersions,
    entries: &[ReverseMapEntry],
    program_sequence_by_ppn: &[u64],
) -> Vec<bool> {
    for entry in entries {
        for lpn in entry.tombstoned_lpns() {
            newest.record_if_newer(lpn.0, Ppn::NONE, entry.sequence_number);
        }
        if let Some(place) = entry.mapped_ppn
            && (1..entry.sequence_number).contains(&program_sequence_by_ppn[place.index()])
        {
            newest.record_if_newer(entry.lpn.0, place, entry.sequence_number);
        }
    }
    let mut bound = vec![false; newest.ppn_of_owner.len()];
    for entry in entries {
        let lpn = entry.lpn.index();
        bound[lpn] |= entry.mapped_ppn == Some(newest.ppn_of_owner[lpn])
            && entry.sequence_number == newest.sequence_of_owner[lpn];
    }
    bound
}

impl Ftl {
    /// Recovers the device after power has returned. May be called again if power is lost during the recovery.
    ///
    /// # Errors
    /// Power loss; a full device, if the battery has to write; [`Error::Damaged`](crate::Error::Damaged) if what flash
    /// and NVRAM record is contradictory; errors of metadata pages that cannot be read.
    pub fn recover(&mut self) -> Result<RecoveryReport> {
        let before = self.store.stats.clone();
        let mut report = RecoveryReport::default();
        match self.persistence {
            Persistence::OobScan => report.mapped_pages = Some(self.rebuild_from_pages(&mut report.steps)?),
            Persistence::DurableReverseMap => {
                report.mapped_pages = Some(self.rebuild_from_pages_and_reverse_map(&mut report.steps)?);
            }
            Persistence::NvramMap => {
                if !self.rebuild_by_nvram_validity_notes(&mut report.steps)? {
                    report.mapped_pages = Some(self.rebuild_from_nvram_map(&mut report.steps)?);
                }
            }
            Persistence::BatteryRam => self.resume_with_kept_ram()?,
            Persistence::BatteryFlush => {
                self.save_ram_on_battery()?;
                report.battery_programs = self.store.stats.total_programs() - before.total_programs();
                report.battery_page_reads = self.store.stats.total_reads() - before.total_reads();
                if self.has_content_mechanism_with_state() {
                    report.mapped_pages = Some(self.rebuild_from_translation_pages(&mut report.steps)?);
                } else {
                    report.steps = self.rebuild_after_battery_save()?;
                }
                self.battery_has_saved_ram = false;
            }
            Persistence::BackwardScan { writes_map_before_first_request: synchronises } => {
                report.steps = self.rebuild_by_backward_scan(synchronises)?;
            }
        }
        report.page_and_spare_reads = self.store.stats.total_reads() - before.total_reads();
        report.erases = self.store.stats.total_erases() - before.total_erases();
        Ok(report)
    }

    /// Recovers a device whose RAM survived the power loss: corrects RAM where it differs from the flash, and loads the
    /// dead pages most worth reviving into the fingerprint store (the index of dead pages), which starts empty.
    fn resume_with_kept_ram(&mut self) -> Result<()> {
        self.store.reconcile_with_flash()?;
        if self.validity.is_on_flash() {
            self.report_opened_blocks_to_validity();
            for (kind, page) in self.store.take_interrupted_pages() {
                if kind == PageKind::Data {
                    self.validity.invalidate(page);
                }
            }
        }
        let Some(stage) = &mut self.recycle else { return Ok(()) };
        stage.recycler.clear_fingerprint_store_after_power_loss();
        let mut candidates = stage.recycler.dead_pages_to_reload_after_restart();
        candidates.retain(|&ppn| !stage.is_too_old_to_revive(&self.store, ppn));
        for ppn in candidates {
            let oob = self.store.read_spare(ppn, Cause::Recovery)?;
            stage.recycler.load_dead_page_after_restart(ppn, oob.fingerprint);
        }
        stage.recycler.remove_pages_outside_store_from_history(|ppn| self.store.owner_in_oob(ppn));
        Ok(())
    }

    /// Writes, on battery power, the RAM contents that flash lacks; these writes are counted like any others. Does so
    /// only once: if power fails again during recovery, RAM has nothing new, and what was saved is still on flash.
    fn save_ram_on_battery(&mut self) -> Result<()> {
        if !self.battery_has_saved_ram {
            self.write_back_map_on_battery()?;
            if self.battery_saves_validity_bitmap() {
                self.retry_after_program_failure(Self::save_validity_bitmap)?;
            }
            self.battery_has_saved_ram = true;
        }
        Ok(())
    }

    /// Returns whether the battery saves the bitmap of page validity in addition to the L2P map (DFTL, as GeckoFTL
    /// describes it). This is so if page validity is in RAM and no content mechanism keeps state of its own. To restore
    /// state of content mechanisms, recovery has to scan all spare areas, which also rebuilds the bitmap.
    pub(crate) fn battery_saves_validity_bitmap(&self) -> bool {
        let by_battery = self.persistence == Persistence::BatteryFlush;
        by_battery && !self.validity.is_on_flash() && !self.has_content_mechanism_with_state()
    }

    /// Saves the bitmap of page validity to flash. Before that, makes room for the bitmap's pages and writes the map,
    /// because garbage collection changes both map and bitmap.
    fn save_validity_bitmap(&mut self) -> Result<()> {
        self.make_room_in_metadata_stream(
            Stream::Validity,
            RamBitmap::saved_copy_page_count(self.store.geometry()),
        )?;
        while self.mapping.has_unwritten_changes() {
            self.write_back_ram_state()?;
            self.make_room_in_metadata_stream(
                Stream::Validity,
                RamBitmap::saved_copy_page_count(self.store.geometry()),
            )?;
        }
        let Self { validity, store, .. } = self;
        let Some(bitmap) = validity.as_ram_bitmap_mut() else {
            unreachable!("only a bitmap in RAM is saved")
        };
        bitmap.save_to_flash(store)
    }

    /// Writes all changes of the L2P map that are only in RAM to flash, on battery power, after block states in RAM
    /// were corrected.
    fn write_back_map_on_battery(&mut self) -> Result<()> {
        self.store.reconcile_with_flash()?;
        if self.validity.is_on_flash() {
            self.report_opened_blocks_to_validity();
            for (kind, page) in self.store.take_interrupted_pages() {
                self.supersede_page_of_interrupted_program(kind, page)?;
            }
        }
        self.write_back_ram_state()
    }

    /// Handles a page that was programmed completely although power was lost during its program, so that RAM does not
    /// know it: marks a data page as invalid. Of a translation page it writes a newer version, because recovery would
    /// otherwise take the unknown page for the newest.
    fn supersede_page_of_interrupted_program(&mut self, kind: PageKind, page: Ppn) -> Result<()> {
        match kind {
            PageKind::Data => self.validity.invalidate(page),
            PageKind::Translation => {
                let id = self.store.owner_in_oob(page).0;
                self.make_room_in_metadata_stream(
                    Stream::Translation,
                    self.mapping.max_metadata_pages_per_access().max(1),
                )?;
                if let AnyMapping::Cached(cached) = &mut self.mapping {
                    cached.rewrite_translation_page(&mut self.store, id)?;
                }
            }
            // The reports in an interrupted page of the validity store are still buffered, so the page is written
            // again.
            PageKind::Validity
            | PageKind::Delta
            | PageKind::Chunk
            | PageKind::RemapLog
            | PageKind::BlockHead
            | PageKind::BlockTail => {}
        }
        Ok(())
    }

    /// Rebuilds a flat L2P map and page validity from the OOB of every page. Returns the number of mapped logical
    /// pages.
    fn rebuild_from_pages(&mut self, steps: &mut RecoveryStepCosts) -> Result<u64> {
        let mut data = NewestPageVersions::new(self.logical_pages as usize);
        self.survey_pages(steps, |ppn, page| match page.kind {
            PageKind::Data => data.record_page_if_newer(ppn, page),
            PageKind::Translation
            | PageKind::Delta
            | PageKind::Chunk
            | PageKind::RemapLog
            | PageKind::Validity
            | PageKind::BlockHead
            | PageKind::BlockTail => unreachable!("a flat map with validity in RAM writes data pages only"),
        })?;
        if let Some(sharing) = &mut self.sharing {
            sharing.drop_ram_state();
        }
        let AnyMapping::Flat(flat) = &mut self.mapping else { unreachable!("OOB scans rebuild flat maps") };
        for (lpn, place) in data.ppn_of_owner.iter().enumerate() {
            flat.set(Lpn(lpn as u32), place.to_option().map(StoredUnit::from));
        }
        Ok(self
            .rebuild_validity_from_ppns(data.ppn_of_owner.into_iter().filter_map(OptionalAddress::to_option)))
    }

    /// Rebuilds map and sharing state from the OOB of every page and from the entries of the reverse map, in the order
    /// of their sequence numbers. A reverse-map entry is valid if the page that it names still exists and was
    /// programmed before the entry was recorded.
    fn rebuild_from_pages_and_reverse_map(&mut self, steps: &mut RecoveryStepCosts) -> Result<u64> {
        let mut newest = NewestPageVersions::new(self.logical_pages as usize);
        let mut programmed = vec![0; self.store.geometry().pages() as usize];
        let mut log_pages = BTreeMap::<u32, (u64, Ppn)>::new();
        self.survey_pages(steps, |ppn, page| match page.kind {
            PageKind::Data => {
                newest.record_page_if_newer(ppn, page);
                programmed[ppn.index()] = page.sequence_number;
            }
            PageKind::RemapLog => {
                let newest = log_pages.entry(page.owner).or_insert((0, ppn));
                *newest = (*newest).max((page.sequence_number, ppn));
            }
            PageKind::Translation
            | PageKind::Delta
            | PageKind::Chunk
            | PageKind::Validity
            | PageKind::BlockHead
            | PageKind::BlockTail => unreachable!("not a part of such designs"),
        })?;
        let log_pages: Vec<(u32, Ppn)> = log_pages.into_iter().map(|(id, (_, ppn))| (id, ppn)).collect();
        let sharing = self.sharing.as_mut().expect("the design shares pages");
        sharing.drop_ram_state();
        sharing.reverse_map.adopt_log_pages(&log_pages);
        let entries = sharing.reverse_map.recover(&mut self.store)?;
        let bound = apply_reverse_map_entries(&mut newest, &entries, &programmed);
        self.store
            .continue_sequence_after(entries.iter().map(|entry| entry.sequence_number).max().unwrap_or(0));
        let mapped = self.restore_map_with_sharing(&newest, &bound);
        self.mark_superseded_entries(&entries);
        for (id, ppn) in log_pages {
            if self.is_current_metadata_page(Stream::RemapLog, id, ppn) {
                self.store.count_recovered_page_valid(ppn);
            }
        }
        let Self { mapping, sharing, store, .. } = self;
        sharing.as_mut().expect("the design shares pages").clean_excess_log_pages(mapping, store)?;
        Ok(mapped)
    }

    /// Sets map, reference counts, page validity and bind marks (LPNs that need a reverse-map entry) from the newest
    /// versions that recovery found. Returns the number of mapped pages.
    fn restore_map_with_sharing(&mut self, newest: &NewestPageVersions, bound: &[bool]) -> u64 {
        self.validity = AnyValidityStore::Ram(RamBitmap::new(self.store.geometry().pages()));
        let Self { mapping, sharing, validity, store, .. } = self;
        let (AnyMapping::Flat(flat), Some(sharing)) = (mapping, sharing) else {
            unreachable!("sharing runs on a flat map")
        };
        let mut mapped = 0;
        for (lpn, place) in (0..).map(Lpn).zip(&newest.ppn_of_owner) {
            flat.set(lpn, place.to_option().map(StoredUnit::from));
            let Some(ppn) = place.to_option() else { continue };
            mapped += 1;
            if validity.is_valid(ppn) {
                sharing.reference_counts.add_referrer(ppn.into());
            } else {
                validity.mark_valid_in_ram(ppn);
                store.count_recovered_page_valid(ppn);
            }
            if bound[lpn.index()] {
                sharing.mark_mapped_without_program(lpn);
            }
        }
        mapped
    }

    /// Marks in the reverse map the entries whose logical page was written or mapped to another page since.
    fn mark_superseded_entries(&mut self, entries: &[ReverseMapEntry]) {
        let Self { mapping, sharing, store, .. } = self;
        let Some(sharing) = sharing else { return };
        for entry in entries
            .iter()
            .filter(|entry| !sharing.liveness_of(mapping, entry).is_mapping_live)
            .copied()
            .collect::<Vec<_>>()
        {
            if let Some(place) = entry.mapped_ppn {
                sharing.reverse_map.mark_mapping_superseded(store, entry.lpn, place);
            }
        }
    }

    /// Rebuilds the state of a device whose battery has written the map to flash: from the translation pages, and from
    /// the pages of the map's journal and of deltas if there are any. Returns the number of mapped logical pages.
    fn rebuild_from_translation_pages(&mut self, steps: &mut RecoveryStepCosts) -> Result<u64> {
        let mut newest = NewestPageVersions::new(self.mapping.max_metadata_pages() as usize);
        let mut delta_pages = Vec::new();
        self.survey_pages(steps, |ppn, page| match page.kind {
            PageKind::Translation => newest.record_page_if_newer(ppn, page),
            PageKind::Delta => delta_pages.push((page.sequence_number, ppn)),
            PageKind::Data
            | PageKind::Chunk
            | PageKind::RemapLog
            | PageKind::Validity
            | PageKind::BlockHead
            | PageKind::BlockTail => {}
        })?;
        if let Some(stage) = &mut self.delta {
            stage.reset_after_power_loss(&self.store);
        }
        match &mut self.mapping {
            AnyMapping::Flat(_) => unreachable!("only a map on flash has these pages"),
            AnyMapping::Cached(cached) => cached.drop_ram_state(),
            AnyMapping::Journalled(map) => map.drop_ram_state(),
        }
        let cached = demand_paged_map_mut(&mut self.mapping);
        let mut page = vec![0; self.store.geometry().page_bytes as usize];
        let mut data = Vec::new();
        let (of_table, of_journal) = newest.ppn_of_owner.split_at(cached.max_metadata_pages() as usize);
        for (id, place) in of_table.iter().enumerate().filter(|(_, place)| place.to_option().is_some()) {
            cached.set_translation_page_ppn(id as u32, *place);
            self.store.read(*place, &mut page, Cause::Recovery)?;
            data.extend(
                cached
                    .decode_mapped_entries(id as u32, &page)
                    .into_iter()
                    .map(|(lpn, unit)| (lpn, Ppn(unit.0))),
            );
        }
        of_table
            .iter()
            .filter_map(|place| place.to_option())
            .for_each(|place| self.store.count_recovered_page_valid(place));
        self.replay_map_journal(of_journal, &mut data)?;
        let mapped = self.rebuild_validity_from_ppns(data.iter().map(|&(_, ppn)| ppn));
        let bases: FxHashMap<Lpn, Ppn> = data.into_iter().collect();
        self.rebuild_deltas(delta_pages, None, |_, lpn| Ok(bases.get(&lpn).copied()))?;
        Ok(mapped)
    }

    /// Replays the journal of a map on flash during recovery; `found` are the journal pages that recovery found. Map
    /// entries of the journal replace those of the translation pages in `data`, and become dirty entries of the map
    /// cache.
    fn replay_map_journal(&mut self, found: &[Ppn], data: &mut Vec<(Lpn, Ppn)>) -> Result<()> {
        let AnyMapping::Journalled(map) = &mut self.mapping else { return Ok(()) };
        let newer = map.read_journal_for_replay(&mut self.store, found)?;
        map.live_journal_pages().for_each(|place| self.store.count_recovered_page_valid(place));
        let mut places: BTreeMap<Lpn, Ppn> = data.drain(..).collect();
        for (lpn, unit) in newer {
            let place = unit.to_option().map(|unit| Ppn(unit.0));
            let of_table = match place {
                Some(place) => places.insert(lpn, place),
                None => places.remove(&lpn),
            };
            if of_table != place {
                map.demand_paged_map_mut().restore_journalled_entry(lpn, unit);
            }
        }
        data.extend(places);
        Ok(())
    }

    /// Marks the physical pages `places` of all mapped logical pages as valid, and returns their number.
    pub(crate) fn rebuild_validity_from_ppns(&mut self, places: impl Iterator<Item = Ppn>) -> u64 {
        self.validity = AnyValidityStore::Ram(RamBitmap::new(self.store.geometry().pages()));
        let mut mapped = 0;
        for ppn in places {
            self.validity.mark_valid_in_ram(ppn);
            self.store.count_recovered_page_valid(ppn);
            mapped += 1;
        }
        mapped
    }
}
