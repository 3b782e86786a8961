//! A demand-paged map with a journal on flash of its updates, in addition to the translation pages.
//!
//! Source: Wu, He, "Delta-FTL: Improving SSD Lifetime via Exploiting Content Locality", `EuroSys` 2012, section 3.5.1:
//! the tables are on flash, "updates are first buffered in the in-drive RAM and when they grow up to a full page, these
//! records are flushed to the journal", a capacitor flushes the rest when power fails, and "the journals are merged
//! with the tables periodically". The cache of entries is DFTL's (section 3.5.2), and a miss reads the tables, not the
//! journal. So a dirty entry that is evicted from the cache is still written to its translation page. The journal
//! therefore adds writes. It saves work of the capacitor at a power loss: one page of records instead of one
//! translation page per dirty page.
//!
//! The paper leaves open how large a record is and when journals are merged. Here a record is a logical page and its
//! location, 8 bytes. The journal is merged when it has [`JournalOptions::merge_start_pages`] pages: every translation
//! page with dirty entries is written, then all pages of the journal are invalid.
//!
//! # Decisions
//!
//! - Journal pages are metadata of the map: they share blocks with translation pages, and their page numbers follow
//!   those of the translation pages.
//! - A page begins with its serial number and the first serial number that is not merged yet (the *horizon*). Recovery
//!   replays the pages from the horizon on, oldest first, over the translation pages. That is exact because every
//!   change of the map leaves a record: the last record of a logical page is its location, and without a record the
//!   translation page is current.
//! - The capacitor also writes a page when only the horizon has changed. Merged pages may be erased one by one, and
//!   replaying only some of them would be wrong.
//! - The delta table (the paper's second table: which pages are stored as deltas) is rebuilt from the headers of delta
//!   pages and has no journal.
//!
//! Invariant: the location in a dirty entry is that of the last record of its logical page, in RAM or on a valid
//! journal page.

use std::collections::BTreeMap;

use super::cached::DemandPagedMap;
use super::{DemandPagedMapOptions, Mapping};
use crate::address::{Lpn, OptionalAddress, Ppn, StoredUnit};
use crate::data::{Content, Fingerprint};
use crate::error::Result;
use crate::events::MetadataWriteReason;
use crate::operation::Cause;
use crate::store::{FlashPageStore, Stream};

/// Bytes of a record in the journal of map changes: logical page (4) and location (4).
const JOURNAL_RECORD_BYTES: usize = 8;
/// Bytes of the header of a page of the map's journal: its serial number (8), and the first serial number that is not
/// merged with the translation pages yet (8).
const JOURNAL_HEADER_BYTES: usize = 16;
/// Number of journal pages reserved in addition to [`JournalOptions::merge_start_pages`]. If power is lost while a
/// merge of the map's journal is due, a capacitor supplies the power to write the buffered records to these pages.
const CAPACITOR_RESERVE_PAGES: u32 = 2;

/// Length of the journal of an L2P map on flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalOptions {
    /// Number of journal pages at which the journal of map changes is merged with the translation pages; at least 1.
    pub merge_start_pages: u32,
}

/// Counts of an L2P map's journal on flash: records, pages and merges.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JournalCounts {
    /// Number of changes of the L2P map that were recorded in its journal.
    pub recorded_changes: u64,
    /// Number of pages of the map's journal that were written.
    pub written_pages: u64,
    /// Number of completed merges of the map's journal with the translation pages.
    pub completed_merges: u64,
    /// Number of translation pages that merges of the map's journal wrote.
    pub translation_pages_written_by_merges: u64,
}

/// A record of the map's journal: a logical page and its new location; [`StoredUnit::NONE`] if the logical page was
/// deallocated.
type MapChangeRecord = (Lpn, StoredUnit);

/// Decoded content of a page of the map's journal.
struct JournalPage {
    /// Serial number of the journal page.
    serial_number: u64,
    /// Serial number of the oldest journal page that was not yet merged with the translation pages when this page was
    /// written (the horizon).
    first_unmerged_page_serial: u64,
    /// Changes of the map that the journal page records, oldest first.
    records: Vec<MapChangeRecord>,
}

/// Progress of a merge of the map's journal with the translation pages.
#[derive(Clone, Copy, Debug)]
struct MergeProgress {
    /// Number of the first translation page that the merge of the journal has not visited yet. Translation pages with
    /// smaller numbers are already written, if they had dirty entries.
    next_translation_page: u32,
    /// Serial number of the first journal page that the merge does not make obsolete; all earlier ones become obsolete.
    first_retained_page_serial: u64,
}

/// The journal of changes of an L2P map on flash: records buffered in RAM, and the flash pages that hold the older
/// ones.
#[derive(Clone, Debug)]
struct Journal {
    /// Length of the journal at which it is merged.
    options: JournalOptions,
    /// Size of a flash page, bytes.
    page_bytes: usize,
    /// Journal records of map changes that are not on flash yet, oldest first.
    buffered_records: Vec<MapChangeRecord>,
    /// PPN of each live page of the map's journal, at the index serial number modulo length; [`Ppn::NONE`] if there is
    /// none.
    page_ppns: Vec<Ppn>,
    /// Serial number of the oldest page of the map's journal whose records are not merged with the translation pages
    /// yet (the horizon).
    first_unmerged_page_serial: u64,
    /// Serial number that the next page of the map's journal will get.
    next_page_serial: u64,
    /// Serial number of the oldest unmerged journal page (the horizon), as it is stored in the newest journal page on
    /// flash.
    first_unmerged_page_serial_on_flash: u64,
    /// Progress of the merge with the translation pages that is being executed; `None` if none is.
    merge_in_progress: Option<MergeProgress>,
    /// Counts of records, pages and merges.
    counts: JournalCounts,
}

impl Journal {
    /// Creates an empty journal whose pages have `page_bytes` bytes.
    fn new(page_bytes: u32, options: JournalOptions) -> Self {
        let options = JournalOptions { merge_start_pages: options.merge_start_pages.max(1) };
        Self {
            page_ppns: vec![Ppn::NONE; (options.merge_start_pages + CAPACITOR_RESERVE_PAGES) as usize],
            options,
            page_bytes: page_bytes as usize,
            buffered_records: Vec::new(),
            first_unmerged_page_serial: 0,
            next_page_serial: 0,
            first_unmerged_page_serial_on_flash: 0,
            merge_in_progress: None,
            counts: JournalCounts::default(),
        }
    }

    /// Returns the number of records of map changes that fit in a journal page.
    fn records_per_page(&self) -> usize {
        (self.page_bytes - JOURNAL_HEADER_BYTES) / JOURNAL_RECORD_BYTES
    }

    /// Returns the index in `page_ppns` of the journal page with the serial number `serial`.
    fn page_slot_of(&self, serial: u64) -> usize {
        (serial % self.page_ppns.len() as u64) as usize
    }

    /// Adds the record of a map change to the buffer in RAM: `lpn` is now at `unit`.
    fn buffer_record(&mut self, lpn: Lpn, unit: StoredUnit) {
        self.counts.recorded_changes += 1;
        self.buffered_records.push((lpn, unit));
    }

    /// Returns the number of journal pages whose records are not merged with the translation pages yet.
    fn live_page_count(&self) -> u64 {
        self.next_page_serial - self.first_unmerged_page_serial
    }

    /// Returns whether the journal has room for another page.
    fn has_free_page_slot(&self) -> bool {
        self.live_page_count() < self.page_ppns.len() as u64
    }

    /// Returns whether the buffered records of map changes fill a journal page.
    fn has_full_page_of_records(&self) -> bool {
        self.buffered_records.len() >= self.records_per_page()
    }

    /// Returns whether RAM has buffered records, or a horizon (first serial number not merged), that flash lacks.
    fn has_unwritten_changes(&self) -> bool {
        !self.buffered_records.is_empty()
            || self.first_unmerged_page_serial_on_flash != self.first_unmerged_page_serial
    }

    /// Returns the merge of the map's journal that is in progress, or a new one if the journal has reached its maximum
    /// length; `None` if no merge is due.
    fn due_merge(&self) -> Option<MergeProgress> {
        let is_due = self.live_page_count() >= u64::from(self.options.merge_start_pages);
        self.merge_in_progress.or_else(|| {
            is_due.then_some(MergeProgress {
                next_translation_page: 0,
                first_retained_page_serial: self.next_page_serial,
            })
        })
    }

    /// Writes the oldest buffered records of map changes to a new journal page, as many as fit. `first_id` is the
    /// metadata page number of the journal's first page.
    fn write_journal_page(&mut self, io: &mut FlashPageStore, first_id: u32) -> Result<()> {
        let written = self.buffered_records.len().min(self.records_per_page());
        let slot = self.page_slot_of(self.next_page_serial);
        let page = self.encode_journal_page(&self.buffered_records[..written]);
        let pool = io.take_append_pool(Stream::Translation);
        let (content, id) = (Content::Bytes(&page), first_id + slot as u32);
        let place = io.append_page(
            Stream::Translation,
            pool,
            id,
            content,
            Fingerprint::default(),
            Cause::Translation,
        )?;
        self.page_ppns[slot] = place;
        self.first_unmerged_page_serial_on_flash = self.first_unmerged_page_serial;
        self.next_page_serial += 1;
        self.buffered_records.drain(..written);
        self.counts.written_pages += 1;
        Ok(())
    }

    /// Encodes the next journal page with these records: serial number, horizon (first serial number not merged),
    /// records.
    fn encode_journal_page(&self, records: &[MapChangeRecord]) -> Vec<u8> {
        let mut page = Vec::with_capacity(self.page_bytes);
        page.extend_from_slice(&self.next_page_serial.to_le_bytes());
        page.extend_from_slice(&self.first_unmerged_page_serial.to_le_bytes());
        for (lpn, unit) in records {
            page.extend_from_slice(&lpn.0.to_le_bytes());
            page.extend_from_slice(&unit.0.to_le_bytes());
        }
        page.resize(self.page_bytes, 0xff);
        page
    }

    /// Ends a merge of the map's journal after all its translation pages are written: discards the journal pages before
    /// `end` and sets the horizon (the first serial number not merged) to `end`.
    fn finish_merge(&mut self, io: &mut FlashPageStore, end: u64) {
        for serial in self.first_unmerged_page_serial..end {
            let slot = self.page_slot_of(serial);
            io.count_metadata_page_invalid(std::mem::replace(&mut self.page_ppns[slot], Ppn::NONE));
        }
        self.first_unmerged_page_serial = end;
        self.merge_in_progress = None;
        self.counts.completed_merges += 1;
    }

    /// Restores the list of live pages of the map's journal in recovery, and returns their records, oldest first.
    /// `found_journal_pages` has the PPN of each page by serial number modulo length. `newest_journal_page` is the
    /// journal page that was written last; the horizon in it (the first serial number not merged) tells which pages are
    /// live.
    fn restore_live_pages(
        &mut self,
        io: &mut FlashPageStore,
        found_journal_pages: &[Ppn],
        newest_journal_page: Ppn,
    ) -> Result<Vec<MapChangeRecord>> {
        let mut bytes = vec![0; self.page_bytes];
        io.read(newest_journal_page, &mut bytes, Cause::Recovery)?;
        let last = decode_journal_page(&bytes);
        (self.first_unmerged_page_serial, self.first_unmerged_page_serial_on_flash, self.next_page_serial) =
            (last.first_unmerged_page_serial, last.first_unmerged_page_serial, last.serial_number + 1);
        let mut records = Vec::new();
        for serial in self.first_unmerged_page_serial..self.next_page_serial {
            let slot = self.page_slot_of(serial);
            let place = found_journal_pages[slot];
            io.read(place, &mut bytes, Cause::Recovery)?;
            let page = decode_journal_page(&bytes);
            assert!(
                page.serial_number == serial,
                "page {serial} of the map journal should be at {place}, but another page is"
            );
            self.page_ppns[slot] = place;
            records.extend(page.records);
        }
        Ok(records)
    }
}

/// Decodes the bytes of a page of the map's journal.
fn decode_journal_page(page: &[u8]) -> JournalPage {
    let word = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"));
    let number = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
    let end = JOURNAL_HEADER_BYTES
        + (page.len() - JOURNAL_HEADER_BYTES) / JOURNAL_RECORD_BYTES * JOURNAL_RECORD_BYTES;
    let records = (JOURNAL_HEADER_BYTES..end)
        .step_by(JOURNAL_RECORD_BYTES)
        .map(|at| (Lpn(word(at)), StoredUnit(word(at + 4))))
        .take_while(|&(lpn, _)| lpn != Lpn(u32::MAX));
    JournalPage {
        serial_number: number(0),
        first_unmerged_page_serial: number(8),
        records: records.collect(),
    }
}

/// Demand-paged L2P map with a journal on flash of its changes (Delta-FTL, section 3.5.1).
#[derive(Clone, Debug)]
pub struct JournalledMap {
    /// The map with its table on flash and its cache, without the journal.
    demand_paged_map: DemandPagedMap,
    /// The journal of changes of the map.
    journal: Journal,
}

impl JournalledMap {
    /// Creates a demand-paged map of `logical_pages` unmapped logical pages, with an empty journal; flash pages have
    /// `page_bytes` bytes.
    pub fn new(
        logical_pages: u32,
        page_bytes: u32,
        cache: DemandPagedMapOptions,
        journal: JournalOptions,
    ) -> Self {
        Self {
            demand_paged_map: DemandPagedMap::new(logical_pages, page_bytes, cache),
            journal: Journal::new(page_bytes, journal),
        }
    }

    /// Returns the demand-paged map without its journal: the L2P table on flash and the cache of entries.
    pub fn demand_paged_map(&self) -> &DemandPagedMap {
        &self.demand_paged_map
    }

    /// Returns the demand-paged map without its journal, for changes.
    pub(crate) fn demand_paged_map_mut(&mut self) -> &mut DemandPagedMap {
        &mut self.demand_paged_map
    }

    /// Returns the numbers of records, pages and merges of the map's journal since the counts were last cleared.
    pub fn counts(&self) -> JournalCounts {
        self.journal.counts
    }

    /// Clears the counts of the map's journal; the journal itself is unchanged.
    pub(crate) fn clear_journal_counts(&mut self) {
        self.journal.counts = JournalCounts::default();
    }

    /// Drops everything that the L2P map and its journal hold in RAM, as a loss of power does. The counts of the
    /// journal are kept.
    pub(crate) fn drop_ram_state(&mut self) {
        self.demand_paged_map.drop_ram_state();
        let (page_bytes, options) = (self.journal.page_bytes as u32, self.journal.options);
        self.journal = Journal { counts: self.journal.counts, ..Journal::new(page_bytes, options) };
    }

    /// Reads the live journal pages of the map and returns the last location recorded for each logical page, in order
    /// of logical pages. `found_journal_pages` holds the newest copy of each journal page that recovery found,
    /// [`Ppn::NONE`] where it found none.
    ///
    /// # Errors
    /// Any error of the flash.
    pub(crate) fn read_journal_for_replay(
        &mut self,
        io: &mut FlashPageStore,
        found_journal_pages: &[Ppn],
    ) -> Result<Vec<(Lpn, StoredUnit)>> {
        let mut newest = None;
        for place in found_journal_pages.iter().filter_map(|place| place.to_option()) {
            // By generation, not by sequence number: a GC copy has a later sequence number than pages written after the
            // original.
            if let Some(oob) = io.read_spare_if_readable(place, Cause::Recovery)? {
                newest = newest.max(Some((oob.first_write_sequence_number, place)));
            }
        }
        let Some((_, newest)) = newest else { return Ok(Vec::new()) };
        let last: BTreeMap<Lpn, StoredUnit> =
            self.journal.restore_live_pages(io, found_journal_pages, newest)?.into_iter().collect();
        Ok(last.into_iter().collect())
    }

    /// Returns the PPNs of the live pages of the map's journal.
    pub(crate) fn live_journal_pages(&self) -> impl Iterator<Item = Ppn> {
        self.journal.page_ppns.iter().copied().filter(|place| place.to_option().is_some())
    }

    /// Returns the metadata page number of the journal's first page. The journal's pages have the numbers after those
    /// of the map's own metadata pages.
    fn first_journal_page_id(&self) -> u32 {
        self.demand_paged_map.max_metadata_pages() as u32
    }

    /// Writes the next translation page of a merge of the map's journal. If none with dirty entries is left, ends the
    /// merge and returns `false`.
    fn merge_step(&mut self, io: &mut FlashPageStore, merge: MergeProgress) -> Result<bool> {
        io.flash_ops.record_metadata_reason(MetadataWriteReason::JournalMerge);
        if let Some(id) =
            self.demand_paged_map.synchronise_next_dirty_page(io, merge.next_translation_page)?
        {
            self.journal.counts.translation_pages_written_by_merges += 1;
            self.journal.merge_in_progress = Some(MergeProgress { next_translation_page: id + 1, ..merge });
            return Ok(true);
        }
        self.journal.finish_merge(io, merge.first_retained_page_serial);
        Ok(false)
    }
}

impl Mapping for JournalledMap {
    fn lookup(&mut self, io: &mut FlashPageStore, lpn: Lpn) -> Result<Option<StoredUnit>> {
        self.demand_paged_map.lookup(io, lpn)
    }

    fn lookup_without_caching(&mut self, io: &mut FlashPageStore, lpn: Lpn) -> Result<Option<StoredUnit>> {
        self.demand_paged_map.lookup_without_caching(io, lpn)
    }

    fn update(
        &mut self,
        io: &mut FlashPageStore,
        lpn: Lpn,
        new: Option<StoredUnit>,
    ) -> Result<Option<StoredUnit>> {
        let old = self.demand_paged_map.update(io, lpn, new)?;
        self.journal.buffer_record(lpn, new.unwrap_or(StoredUnit::NONE));
        Ok(old)
    }

    fn begin_trim(&mut self, first: Lpn, last: Lpn) {
        self.demand_paged_map.begin_trim(first, last);
    }

    fn end_trim(&mut self) {
        self.demand_paged_map.end_trim();
    }

    fn record_gc_move(&mut self, lpn: Lpn, new: StoredUnit) {
        self.demand_paged_map.record_gc_move(lpn, new);
        self.journal.buffer_record(lpn, new);
    }

    fn prefetch(&self, lpns: &[Lpn]) {
        self.demand_paged_map.prefetch(lpns);
    }

    fn holds_current_metadata_page(&self, id: u32, ppn: Ppn) -> bool {
        match id.checked_sub(self.first_journal_page_id()) {
            Some(slot) => self.journal.page_ppns.get(slot as usize) == Some(&ppn),
            None => self.demand_paged_map.holds_current_metadata_page(id, ppn),
        }
    }

    fn record_metadata_page_move(&mut self, id: u32, new: Ppn) {
        match id.checked_sub(self.first_journal_page_id()) {
            Some(slot) => self.journal.page_ppns[slot as usize] = new,
            None => self.demand_paged_map.record_metadata_page_move(id, new),
        }
    }

    fn execute_next_deferred_map_write(&mut self, io: &mut FlashPageStore) -> Result<bool> {
        if let Some(merge) = self.journal.due_merge()
            && self.merge_step(io, merge)?
        {
            return Ok(true);
        }
        if self.journal.has_full_page_of_records() {
            io.flash_ops.record_metadata_reason(MetadataWriteReason::JournalPageFull);
            return self.journal.write_journal_page(io, self.first_journal_page_id()).map(|()| true);
        }
        self.demand_paged_map.execute_next_deferred_map_write(io)
    }

    fn has_unwritten_changes(&self) -> bool {
        self.journal.has_unwritten_changes()
    }

    fn write_back_step(&mut self, io: &mut FlashPageStore) -> Result<bool> {
        if !self.journal.has_unwritten_changes() {
            return Ok(false);
        }
        if self.journal.has_free_page_slot() {
            io.flash_ops.record_metadata_reason(MetadataWriteReason::WriteBack);
            return self.journal.write_journal_page(io, self.first_journal_page_id()).map(|()| true);
        }
        let merge = self.journal.due_merge().expect("a journal without a place for a page is full");
        self.merge_step(io, merge).map(|_| true)
    }

    fn max_metadata_pages_per_access(&self) -> u32 {
        self.demand_paged_map.max_metadata_pages_per_access().max(1)
    }

    fn max_metadata_pages(&self) -> u64 {
        self.demand_paged_map.max_metadata_pages() + self.journal.page_ppns.len() as u64
    }

    fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        let mut bytes = self.demand_paged_map.ram_bytes_by_structure();
        bytes.push(("journal buffer", self.journal.page_bytes as u64));
        bytes.push(("journal directory", 4 * self.journal.page_ppns.len() as u64));
        bytes
    }
}
