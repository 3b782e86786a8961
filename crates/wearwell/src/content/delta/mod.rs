//! Delta encoding: an overwrite is stored as its difference (delta) to the stored page, and many deltas share a flash
//! page.
//!
//! Source: "Delta-FTL: Improving SSD Lifetime via Exploiting Content Locality", Wu, He, `EuroSys` 2012. A logical page
//! in delta form has a *base* (the page its map entry names, an older version) and one delta. Modelled here: dispatch
//! of write-hot, read-cold pages, the temp buffer and the page format (`packing`), access counts in an SLRU table
//! (`heat`), the write-overhead test and the bypass mode, merges (read-hot, write-cold, during GC), and the collection
//! of delta pages.
//!
//! # Decisions
//!
//! - Deltas are found by logical page, not by the base's physical page as in the paper: no key changes when GC moves a
//!   base, and two logical pages may share one.
//! - RAM state (delta table, temp buffer) is written on the power of the capacitor that the paper assumes for its
//!   mapping records, so a flush need not commit a partly filled page.
//! - A delta is newer than its base exactly if its page was programmed after the base was first written. The OOB of a
//!   base holds the sequence number of that first write, and GC copies keep it
//!   ([`Oob::first_write_sequence_number`](crate::nand::Oob::first_write_sequence_number)). Recovery needs no other
//!   link between the two, except if the map is in NVRAM, which may be older than the flash: there a delta ends with
//!   the low half of this number (the base tag).
//! - Old versions (bases) cost space. So pages that became write-cold are merged, those with the oldest deltas first. A
//!   limit on the delta pages, beyond which writes bypass delta encoding, exists but has no effect by default. The
//!   paper has no limit.
//!
//! Invariants: a logical page has at most one delta, staged or stored, and only while it is mapped to a page. A page of
//! deltas is valid exactly while one of its deltas is current. A base is valid like any mapped page.
//!
//! This file has the tables of deltas (`DeltaState`), which do no I/O; `delta_cost.rs` compares the costs of deltas and
//! chunks. The steps of the engine are in `write.rs` (host writes, reads, merges), `collect.rs` (GC) and `recovery.rs`.

mod collect;
mod delta_cost;
mod flash_delta_table;
pub mod heat;
mod options;
pub mod packing;
mod recovery;
mod stage;
mod write;

use std::collections::VecDeque;

use delta_cost::{DeltaCost, FlashPageShares};
use flash_delta_table::FlashDeltaTable;
use hashbrown::{HashMap, HashSet};
use heat::{AccessCountTable, AccessCountTableSize, AccessCounts};
pub(crate) use options::access_count_table_size;
pub use options::{DeltaOptions, DeltaStatistics, MIN_ACCESS_COUNT_TABLE_ENTRIES};
use packing::{BufferedDelta, DeltaTempBuffer, max_delta_lpns_in_spare, placeholder_fingerprint};
pub(crate) use recovery::BaseOfRecordedDelta;
use rustc_hash::FxBuildHasher;
pub(crate) use stage::DeltaEncoding;

use crate::address::{BlockId, Lpn, Ppn};
use crate::data::{Fingerprint, fingerprint_of};
use crate::store::FlashPageStore;
use crate::tables::prefetch::load_into_cpu_cache;

/// Location, size and content of the current delta of a logical page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CurrentDelta {
    /// Flash page that holds the delta; `None` while the delta is in the RAM buffer.
    flash_page: Option<Ppn>,
    /// Size of the delta with its base tag, bytes. The tag takes 0 or 4 bytes at the end of the delta and names its
    /// base.
    delta_and_base_tag_bytes: u16,
    /// Fingerprint of the current content of the logical page, which results from applying the delta to its base.
    fingerprint: Fingerprint,
    /// Whether the bytes of the delta exist; `false` if only its size is known. Both can occur on one device, because a
    /// recorded trace may have the bytes of some pages and only sizes of others.
    has_known_bytes: bool,
}

impl CurrentDelta {
    /// Creates the location record of a delta that recovery found on flash. The delta takes `bytes` bytes of its flash
    /// page, base tag included; `delta` are its bytes without the tag.
    ///
    /// The record has the fingerprint of the content that the delta makes of its base. An empty delta makes the content
    /// of the base, whose fingerprint is `of_base`. A placeholder (delta of which only the size is known) contains the
    /// fingerprint. For a delta with real bytes the default fingerprint is stored, because it is not computed here.
    fn from_flash(bytes: usize, delta: &[u8], of_base: Fingerprint) -> Self {
        let described = placeholder_fingerprint(delta);
        let otherwise = if delta.is_empty() { of_base } else { Fingerprint::default() };
        let fingerprint = described.unwrap_or(otherwise);
        Self {
            flash_page: None,
            delta_and_base_tag_bytes: bytes as u16,
            fingerprint,
            has_known_bytes: described.is_none(),
        }
    }
}

/// A flash page of deltas: the logical pages in its header, the number of its current deltas, and the bytes of its
/// obsolete ones.
#[derive(Clone, Debug, Default)]
struct DeltaPage {
    /// Logical pages in the header of the flash page, one per delta, current or obsolete.
    lpns: Vec<Lpn>,
    /// Number of deltas in the page that are current.
    live_deltas: u32,
    /// Bytes of the flash page that its obsolete deltas take.
    obsolete_delta_bytes: u32,
}

/// State of delta encoding: table of deltas, RAM buffer of deltas, log of flash pages with deltas, and access counts.
#[derive(Clone, Debug)]
pub(crate) struct DeltaState {
    /// Options of delta encoding that the design sets.
    options: DeltaOptions,
    /// Number of entries and bytes per entry of the table of access counts.
    access_count_table_size: AccessCountTableSize,
    /// Table of the recent host reads and writes per logical page, by which hot pages are found.
    access_count_table: AccessCountTable,
    /// RAM buffer in which the deltas of host writes wait until a flash page is full.
    temp_buffer: DeltaTempBuffer,
    /// RAM buffer for the deltas that are sampled while delta encoding is off; their bytes are not kept. A page of this
    /// buffer that is full is counted and discarded, not written.
    sample_buffer: DeltaTempBuffer,
    /// Whether delta encoding is on, so that host writes may become deltas.
    pub(crate) is_delta_encoding_on: bool,
    /// Delta table: the current delta of each logical page that has one.
    current_deltas: HashMap<Lpn, CurrentDelta, FxBuildHasher>,
    /// Flash pages of deltas that hold at least one current delta.
    live_delta_pages: HashMap<Ppn, DeltaPage, FxBuildHasher>,
    /// Table of the logical pages that have deltas on flash. `Some` only in designs in which such a page must not be
    /// bound (mapped to stored content).
    deltas_on_flash: Option<FlashDeltaTable>,
    /// Flash pages of deltas, oldest first. Includes pages that hold no current delta.
    delta_page_log: VecDeque<Ppn>,
    /// Moving average of the number of deltas per flash page written for the host. Its inverse is the share of a page
    /// that a delta takes.
    mean_deltas_per_page: f64,
    /// Number of flash pages of deltas in the moving average, at most [`MAX_DELTA_PAGES_IN_AVERAGE`].
    delta_pages_in_average: u64,
    /// Maximum number of flash pages of deltas before writes bypass delta encoding.
    max_delta_pages: u64,
    /// Maximum number of deltas that are packed into one flash page.
    max_deltas_per_page: usize,
    /// Size of a flash page, bytes.
    page_bytes: u32,
    /// Number of host writes until the next scan for write-cold pages in delta form.
    writes_until_cold_scan: u32,
    /// Number of eligible host writes (of write-hot, read-cold pages) that were not delta-encoded since deltas were
    /// last rejected, because they saved too little.
    unencoded_writes_since_delta_rejection: u64,
    /// Moving average (0 to 1) of the share of host writes that could be stored as deltas. Counts eligible writes (of
    /// write-hot, read-cold pages) with a base.
    share_of_writes_with_usable_delta: f64,
    /// What a write costs as a delta where a chunk could store it, too.
    cost: DeltaCost,
    /// Counts of pages and deltas written, of merges, and of writes that were stored as whole pages.
    pub(crate) statistics: DeltaStatistics,
}

/// How the base of a page's next delta is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BaseOfNextDelta {
    /// The base is a flash page of its own.
    FlashPage,
    /// The base is a member of a compressed chunk.
    ChunkMember,
    /// There is no base yet: the page would be stored as one now.
    MustBeStored,
}

/// Number of eligible host writes (of write-hot, read-cold pages) that bypass delta encoding after it saved too little,
/// before deltas are tried again for a while. Single trial deltas between bypassed writes would not show what deltas
/// save: the next full write of a hot page makes its delta obsolete before the page of deltas is full.
const WRITES_UNTIL_DELTA_RETRY: u64 = 4096;
/// Number of flash pages of deltas over which the moving average of deltas per page is taken. A page holds one, two or
/// three deltas, so an average over few pages would exceed [`DeltaOptions::max_mean_delta_share_of_page`] by chance.
const MAX_DELTA_PAGES_IN_AVERAGE: u64 = 512;
/// Number of flash pages of deltas that must be written before host writes may bypass delta encoding because it saves
/// too little: the mean over fewer pages varies by chance.
const MIN_DELTA_PAGES_TO_JUDGE_SAVING: u64 = 64;

/// Number of attempts to store a delta over which the moving average of those that succeeded is taken.
const DELTA_ATTEMPTS_IN_AVERAGE: f64 = 256.0;
/// Minimum share of attempts to store a delta that succeed. From this share on, a page is kept out of compressed
/// chunks, so that it can be a base.
const MIN_SHARE_OF_WRITES_WITH_USABLE_DELTA: f64 = 0.5;

impl DeltaState {
    /// Creates the state of delta encoding of a device, with a table of access counts of this size
    /// ([`access_count_table_size`]).
    pub(crate) fn new(
        store: &FlashPageStore,
        design: DeltaOptions,
        access_count_table_size: AccessCountTableSize,
    ) -> Self {
        Self {
            access_count_table_size,
            access_count_table: AccessCountTable::new(access_count_table_size),
            temp_buffer: DeltaTempBuffer::new(design.temp_buffer_pages, store.geometry().page_bytes),
            sample_buffer: DeltaTempBuffer::new(design.temp_buffer_pages, store.geometry().page_bytes),
            is_delta_encoding_on: true,
            current_deltas: HashMap::default(),
            live_delta_pages: HashMap::default(),
            deltas_on_flash: None,
            delta_page_log: VecDeque::new(),
            mean_deltas_per_page: 0.0,
            delta_pages_in_average: 0,
            max_delta_pages: 0,
            max_deltas_per_page: usize::MAX,
            page_bytes: store.geometry().page_bytes,
            writes_until_cold_scan: design.cold_scan_interval_writes,
            unencoded_writes_since_delta_rejection: 0,
            share_of_writes_with_usable_delta: 1.0,
            cost: DeltaCost::new(store.geometry().pages()),
            statistics: DeltaStatistics::default(),
            options: design,
        }
    }

    /// Limits the number of flash pages of deltas to [`DeltaOptions::max_delta_share_of_spare_pages`] of `spare_pages`,
    /// the device's spare flash pages.
    pub(crate) fn limit_delta_pages_by_spare_pages(&mut self, spare_pages: u64) {
        self.max_delta_pages = (spare_pages as f64 * self.options.max_delta_share_of_spare_pages) as u64;
    }

    /// Limits the number of deltas in a flash page to the number of logical pages that its spare area can list, so that
    /// the delta table can be rebuilt from flash even if a page is unreadable. If the spare area has no room for any,
    /// there is no list and no limit.
    pub(crate) fn limit_deltas_per_page_by_spare_bytes(&mut self, spare_bytes: u32) {
        if max_delta_lpns_in_spare(spare_bytes) > 0 {
            self.limit_deltas_per_buffer_page(max_delta_lpns_in_spare(spare_bytes));
        }
    }

    /// Starts to record which logical pages have deltas on flash, and forbids to map these pages to stored content
    /// without a program. Needed if only the map is durable: recovery could otherwise take an obsolete delta on flash
    /// for current.
    pub(crate) fn track_flash_deltas_and_forbid_mapping_without_program(&mut self) {
        self.deltas_on_flash = Some(FlashDeltaTable::default());
    }

    /// Returns whether `lpn` must not be mapped to stored content without a program, because recovery could then take
    /// an obsolete delta on flash for current.
    pub(crate) fn forbids_mapping_without_program(&self, lpn: Lpn) -> bool {
        self.deltas_on_flash.as_ref().is_some_and(|written| written.has_any_flash_delta(lpn))
    }

    /// Returns the number of logical pages whose current content is a delta.
    pub(crate) fn delta_count(&self) -> u64 {
        self.current_deltas.len() as u64
    }

    /// Records that a flash page of `block` holds deltas of the logical pages `lpns`.
    fn record_deltas_on_flash(&mut self, block: BlockId, lpns: &[Lpn]) {
        if let Some(written) = &mut self.deltas_on_flash {
            written.record_deltas(block, lpns);
        }
    }

    /// Removes the records of deltas in `block`, which was erased and may have held pages of deltas.
    pub(crate) fn record_block_erased(&mut self, block: BlockId) {
        if let Some(written) = &mut self.deltas_on_flash {
            written.record_block_erased(block);
        }
    }

    /// Limits the number of deltas in each page of the RAM buffer to `most_deltas`.
    fn limit_deltas_per_buffer_page(&mut self, most_deltas: usize) {
        self.max_deltas_per_page = most_deltas;
        self.temp_buffer = DeltaTempBuffer::new(self.options.temp_buffer_pages, self.page_bytes)
            .with_max_deltas_per_page(most_deltas);
        self.sample_buffer = self.temp_buffer.clone();
    }

    /// Returns whether the spare area of a flash page of deltas lists the logical pages of its deltas.
    fn lists_delta_lpns_in_spare(&self) -> bool {
        self.max_deltas_per_page < usize::MAX
    }

    /// Returns the logical pages whose delta is on flash, each with the flash page that holds the delta, in no
    /// particular order.
    pub(crate) fn current_deltas_on_flash(&self) -> impl Iterator<Item = (Lpn, Ppn)> + '_ {
        self.current_deltas.iter().filter_map(|(&lpn, place)| Some((lpn, place.flash_page?)))
    }

    /// Prefetches into the CPU cache the access counts and the delta-table entries that host writes of `lpns` will need
    /// ([`crate::tables::prefetch`]).
    pub(crate) fn prefetch_table_entries_for_writes(&self, lpns: &[Lpn]) {
        self.access_count_table.prefetch(lpns);
        load_into_cpu_cache(lpns.iter().map(|&lpn| self.has_delta(lpn).into()));
    }

    /// Returns whether a logical page with these access counts is write-hot: its writes reach the threshold of the
    /// options.
    fn is_write_hot(&self, heat: AccessCounts) -> bool {
        heat.writes >= self.options.hot_access_threshold
    }

    /// Returns whether a logical page with these access counts is read-hot: its reads reach the threshold of the
    /// options.
    fn is_read_hot(&self, heat: AccessCounts) -> bool {
        heat.reads >= self.options.hot_access_threshold
    }

    /// Returns whether the logical page `lpn` is in delta form and should be merged (base and delta rewritten as one
    /// page), because it became read-hot or write-cold.
    fn should_merge_delta(&self, lpn: Lpn) -> bool {
        if !self.current_deltas.contains_key(&lpn) {
            return false;
        }
        let heat = self.access_count_table.access_counts(lpn);
        self.is_read_hot(heat) || !self.is_write_hot(heat)
    }

    /// Returns whether a write may be stored as a delta: deltas save enough at present, and there is space for another
    /// flash page of deltas. If deltas save too little, counts a bypassed write. After [`WRITES_UNTIL_DELTA_RETRY`] of
    /// these, resets the average, so that deltas are tried again.
    fn accept_delta_or_count_bypassed_write(&mut self) -> bool {
        if !self.are_deltas_small_on_average() {
            self.unencoded_writes_since_delta_rejection += 1;
            if self.unencoded_writes_since_delta_rejection < WRITES_UNTIL_DELTA_RETRY {
                return false;
            }
            (self.unencoded_writes_since_delta_rejection, self.delta_pages_in_average) = (0, 0);
        }
        self.has_space_for_delta_page()
    }

    /// Updates the moving average of the share of attempts to store a delta that succeeded.
    fn record_delta_attempt(&mut self, is_stored: bool) {
        let outcome = f64::from(u8::from(is_stored));
        self.share_of_writes_with_usable_delta +=
            (outcome - self.share_of_writes_with_usable_delta) / DELTA_ATTEMPTS_IN_AVERAGE;
    }

    /// Returns whether a page in a compressed chunk that is write-hot and read-cold should be stored uncompressed, so
    /// that its next writes can become deltas: deltas have lately succeeded and cost less than chunks, or the page is
    /// on trial. In both cases, new deltas must be accepted at present.
    fn should_store_base(&self, lpn: Lpn, heat: AccessCounts, chunk_share_of_page: f64) -> bool {
        let saves_more = self.share_of_writes_with_usable_delta >= MIN_SHARE_OF_WRITES_WITH_USABLE_DELTA
            && self.is_delta_cheaper_than_chunk(heat, BaseOfNextDelta::MustBeStored, chunk_share_of_page);
        (saves_more || self.cost.is_on_trial(lpn))
            && self.are_deltas_small_on_average()
            && self.has_space_for_delta_page()
    }

    /// Returns whether a delta of a page with the access counts `heat` costs less than a part of a chunk, of which a
    /// page takes `chunk_share_of_page`.
    fn is_delta_cheaper_than_chunk(
        &self,
        heat: AccessCounts,
        base: BaseOfNextDelta,
        chunk_share_of_page: f64,
    ) -> bool {
        let (whole_pages, base_share_of_page) = match base {
            BaseOfNextDelta::MustBeStored => (2, 1.0),
            BaseOfNextDelta::FlashPage => (1, 1.0),
            BaseOfNextDelta::ChunkMember => (1, chunk_share_of_page),
        };
        let delta_share_of_page =
            if self.mean_deltas_per_page > 0.0 { self.mean_deltas_per_page.recip() } else { 0.0 };
        let shares = FlashPageShares {
            base: base_share_of_page,
            delta: delta_share_of_page,
            chunk: chunk_share_of_page,
        };
        self.cost.programs_per_delta(heat, whole_pages, shares) <= chunk_share_of_page
    }

    /// Returns whether delta encoding may write another flash page of deltas without exceeding its limit.
    fn has_space_for_delta_page(&self) -> bool {
        (self.live_delta_pages.len() as u64) < self.max_delta_pages
    }

    /// Packs a delta into the sample buffer, which is never written to flash, to measure what delta encoding would
    /// save. Returns the number of flash pages (0 or 1) that delta encoding would have written because of this delta.
    fn pack_into_sample_buffer(&mut self, delta: &BufferedDelta) -> u64 {
        self.sample_buffer.remove(delta.lpn);
        let free = self.sample_buffer.page_with_room(delta.delta_and_base_tag_bytes.into());
        let at = free.unwrap_or_else(|| self.sample_buffer.fullest_page());
        if free.is_none() {
            self.sample_buffer.take_page_deltas(at);
        }
        self.sample_buffer.push(at, BufferedDelta { payload: Vec::new(), ..*delta });
        u64::from(free.is_none())
    }

    /// Returns whether a delta takes a small enough share of a flash page on average, header and unused end included
    /// (the paper's write-overhead test). The share is pages divided by deltas. A mean of `1 / deltas` over pages would
    /// be larger, because a page with one delta would weigh as much as a page with two.
    fn are_deltas_small_on_average(&self) -> bool {
        self.delta_pages_in_average < MIN_DELTA_PAGES_TO_JUDGE_SAVING
            || self.mean_deltas_per_page * self.options.max_mean_delta_share_of_page >= 1.0
    }

    /// Returns whether a delta of `bytes` bytes fits in a flash page and, by itself, takes a small enough share of the
    /// page (the paper's write-overhead test). A larger delta would keep its base (the stored page) valid and save
    /// nothing.
    fn is_delta_small_enough(&self, bytes: usize) -> bool {
        bytes < u16::MAX as usize
            && self.temp_buffer.fits_in_page(bytes)
            && bytes as f64 <= self.options.max_mean_delta_share_of_page * self.page_bytes as f64
    }

    /// Counts a flash page with `deltas` deltas that was written for the host, and updates the moving average of deltas
    /// per page.
    fn count_committed_page(&mut self, deltas: usize) {
        self.statistics.committed_delta_pages += 1;
        self.statistics.committed_deltas += deltas as u64;
        self.delta_pages_in_average = (self.delta_pages_in_average + 1).min(MAX_DELTA_PAGES_IN_AVERAGE);
        self.mean_deltas_per_page +=
            (deltas as f64 - self.mean_deltas_per_page) / self.delta_pages_in_average as f64;
    }

    /// Resets all access counts of logical pages by which delta encoding finds hot pages.
    pub(crate) fn clear_access_counts(&mut self) {
        self.access_count_table = AccessCountTable::new(self.access_count_table_size);
    }

    /// Advances the scan for write-cold pages. Returns the logical pages to examine: those with current deltas in the
    /// oldest flash pages of the log of deltas. Every write of a logical page moves its delta to the end of the log, so
    /// the oldest flash pages belong to the logical pages that were not written for the longest time. The examined
    /// flash pages move to the end, too.
    fn advance_cold_scan(&mut self) -> Vec<Lpn> {
        let mut oldest = Vec::new();
        for _ in 0..self.delta_page_log.len() {
            if oldest.len() >= self.options.deltas_per_cold_scan as usize {
                break;
            }
            let Some(ppn) = self.delta_page_log.pop_front() else { break };
            let Some(page) = self.live_delta_pages.get(&ppn) else { continue };
            let is_here =
                |lpn: &&Lpn| self.current_deltas.get(*lpn).is_some_and(|place| place.flash_page == Some(ppn));
            oldest.extend(page.lpns.iter().filter(is_here));
            self.delta_page_log.push_back(ppn);
        }
        oldest
    }

    /// Halves the access counts of the logical page `lpn`. Returns `true` if the page has a delta that should be merged
    /// with its base.
    fn halve_access_counts_and_check_merge(&mut self, lpn: Lpn) -> bool {
        self.access_count_table.halve_access_counts(lpn);
        self.should_merge_delta(lpn)
    }

    /// Appends the flash page of deltas `ppn` to the log of delta pages. First removes the pages without current deltas
    /// from the log if they are the larger part.
    fn append_to_delta_page_log(&mut self, ppn: Ppn) {
        if self.delta_page_log.len() > 2 * self.live_delta_pages.len() + 64 {
            let (pages, mut seen) = (&self.live_delta_pages, HashSet::<Ppn, FxBuildHasher>::default());
            self.delta_page_log.retain(|ppn| pages.contains_key(ppn) && seen.insert(*ppn));
        }
        self.delta_page_log.push_back(ppn);
    }

    /// Returns the fingerprint of the current content of the logical page `lpn` if it is stored as a delta; otherwise
    /// `None`. `page` holds this content, or is empty on a medium that keeps no bytes.
    ///
    /// On a medium that keeps bytes, deltas are stored without a fingerprint. If recovery found the delta, its
    /// fingerprint is therefore computed from `page`.
    pub(crate) fn fingerprint_of_delta_content(&self, lpn: Lpn, page: &[u8]) -> Option<Fingerprint> {
        let place = self.current_deltas.get(&lpn)?;
        let is_unknown =
            place.has_known_bytes && place.fingerprint == Fingerprint::default() && !page.is_empty();
        Some(if is_unknown { fingerprint_of(page) } else { place.fingerprint })
    }

    /// Returns whether the current content of the logical page `lpn` is stored as a delta, on flash or in the RAM
    /// buffer.
    pub(crate) fn has_delta(&self, lpn: Lpn) -> bool {
        self.current_deltas.contains_key(&lpn)
    }

    /// Returns the flash page that holds the delta of `lpn`. `None` if `lpn` has no delta, or if its delta is still in
    /// the RAM buffer.
    pub(crate) fn delta_page_of(&self, lpn: Lpn) -> Option<Ppn> {
        self.current_deltas.get(&lpn).and_then(|place| place.flash_page)
    }

    /// Returns whether the logical page `lpn` has a delta whose bytes exist, so that a read must combine base page and
    /// delta.
    pub(crate) fn has_delta_bytes(&self, lpn: Lpn) -> bool {
        self.current_deltas.get(&lpn).is_some_and(|place| place.has_known_bytes)
    }

    /// Returns the number of flash pages that hold current deltas.
    pub(crate) fn live_delta_page_count(&self) -> u64 {
        self.live_delta_pages.len() as u64
    }

    /// Returns whether the flash page `ppn` holds current deltas.
    pub(crate) fn has_live_deltas(&self, ppn: Ppn) -> bool {
        self.live_delta_pages.contains_key(&ppn)
    }

    /// Returns the share (0 to 1) of the flash page `ppn` that obsolete deltas occupy; 0 if the page holds no current
    /// delta.
    pub(crate) fn page_share_of_dead_deltas(&self, ppn: Ppn) -> f64 {
        self.live_delta_pages
            .get(&ppn)
            .map_or(0.0, |page| page.obsolete_delta_bytes as f64 / self.page_bytes as f64)
    }

    /// Resets the state of delta encoding after a power loss in which its RAM was lost. Statistics and limits are kept.
    pub(crate) fn reset_after_power_loss(&mut self, store: &FlashPageStore) {
        let Self {
            max_delta_pages,
            max_deltas_per_page: most_deltas,
            statistics,
            is_delta_encoding_on: is_on,
            ..
        } = *self;
        let written = self.deltas_on_flash.as_ref().map(|_| FlashDeltaTable::default());
        let new = Self::new(store, self.options, self.access_count_table_size);
        *self = Self {
            is_delta_encoding_on: is_on,
            deltas_on_flash: written,
            max_delta_pages,
            statistics,
            ..new
        };
        self.limit_deltas_per_buffer_page(most_deltas);
    }

    /// Returns the bytes of controller RAM of the delta table. Its entry for a logical page with a delta has the
    /// logical page and the delta page, 4 bytes each.
    fn delta_table_bytes(&self) -> u64 {
        8 * self.current_deltas.len() as u64
    }

    /// Returns the bytes of controller RAM of the tables that grow with the number of deltas: current deltas, and
    /// deltas on flash.
    #[inline]
    pub(crate) fn growing_table_bytes(&self) -> u64 {
        self.delta_table_bytes() + self.deltas_on_flash.as_ref().map_or(0, FlashDeltaTable::ram_bytes)
    }

    /// Returns the bytes of controller RAM that delta encoding needs, by name of the data structure.
    pub(crate) fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        let mut parts = vec![
            ("delta table", self.delta_table_bytes()),
            ("access counts", self.access_count_table.ram_bytes()),
            ("delta temp buffer", self.temp_buffer.ram_bytes()),
        ];
        parts.extend(self.deltas_on_flash.as_ref().map(|written| ("deltas on flash", written.ram_bytes())));
        parts
    }

    /// Records in the delta table that the delta of `lpn` was written to flash page `ppn`.
    fn record_stored_delta(&mut self, lpn: Lpn, ppn: Ppn) {
        let place = self.current_deltas.get_mut(&lpn).expect("a written delta is in the table");
        place.flash_page = Some(ppn);
        if !self.live_delta_pages.contains_key(&ppn) {
            self.append_to_delta_page_log(ppn);
        }
        let page = self.live_delta_pages.entry(ppn).or_default();
        page.lpns.push(lpn);
        page.live_deltas += 1;
    }

    /// Returns whether the obsolete deltas of the flash page `ppn`, together with `live_bytes` bytes of current ones,
    /// are larger than the page.
    fn deltas_exceed_page(&self, ppn: Ppn, live_bytes: u32) -> bool {
        let dead_bytes = self.live_delta_pages.get(&ppn).map_or(0, |page| page.obsolete_delta_bytes);
        (live_bytes + dead_bytes) as usize > self.page_bytes as usize
    }

    /// Checks the state of delta encoding: every delta has one location and a mapped base, and every flash page of
    /// deltas counts its current deltas and has room for them.
    pub(crate) fn check(&self, is_mapped: impl Fn(Lpn) -> bool) -> Result<(), String> {
        let mut live: HashMap<Ppn, u32, FxBuildHasher> = HashMap::default();
        let mut bytes: HashMap<Ppn, u32, FxBuildHasher> = HashMap::default();
        for (&lpn, place) in &self.current_deltas {
            if !is_mapped(lpn) {
                return Err(format!(
                    "logical page {lpn} has a delta, so it must be mapped to the flash page of its base version, but \
                     is mapped to none"
                ));
            }
            match place.flash_page {
                Some(ppn) => {
                    *live.entry(ppn).or_default() += 1;
                    *bytes.entry(ppn).or_default() += place.delta_and_base_tag_bytes as u32;
                }
                None if self.temp_buffer.buffered_delta(lpn).is_none() => {
                    return Err(format!(
                        "the delta of logical page {lpn} must be in the RAM buffer of deltas or on flash, but is in \
                         neither"
                    ));
                }
                None => {}
            }
        }
        let stray = self
            .temp_buffer
            .buffered_deltas()
            .find(|delta| self.current_deltas.get(&delta.lpn).is_none_or(|p| p.flash_page.is_some()));
        if let Some(stray) = stray {
            return Err(format!(
                "the RAM buffer must hold only current deltas, but holds a delta of logical page {} that is not \
                 current",
                stray.lpn
            ));
        }
        if let Some((ppn, bytes)) = bytes.iter().find(|&(ppn, bytes)| self.deltas_exceed_page(*ppn, *bytes)) {
            return Err(format!(
                "the current deltas on flash page {ppn} have {bytes} bytes, which must fit into the page together \
                 with the obsolete deltas there, but do not"
            ));
        }
        let counted = |ppn: &Ppn| live.get(ppn).copied().unwrap_or(0);
        match self
            .live_delta_pages
            .iter()
            .find(|(ppn, page)| page.live_deltas == 0 || page.live_deltas != counted(ppn))
        {
            Some((ppn, page)) => Err(format!(
                "the recorded number of current deltas on flash page {ppn} is {}, but must be {}, the number of \
                 deltas that the delta table locates there",
                page.live_deltas,
                counted(ppn)
            )),
            None if live.len() != self.live_delta_pages.len() => Err(format!(
                "the delta table locates deltas on {} flash pages, so the table of flash pages with deltas must have \
                 as many, but has {}",
                live.len(),
                self.live_delta_pages.len()
            )),
            None => Ok(()),
        }
    }
}
