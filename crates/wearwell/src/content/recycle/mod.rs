//! Recyclable SSD: a dead (invalid) page whose content is written again becomes valid again, without a program.
//!
//! Source: "LX-SSD: Enhancing the Lifespan of NAND Flash-based Memory via Recycling Invalid Pages", Zhou, Hu, Huang,
//! Zhao. Modelled here: the log-like mapping table (`history`), the accessing table (`read_counts`), the recycle
//! probability (`probability`), the fingerprint store (index of dead pages) with its policies and its order
//! (`fingerprint_store`, `eviction_order`), and fast loading. Not here: hashing, flash operations, victim choice and
//! timing, which belong to the engine.
//!
//! # What the engine must do
//!
//! [`Recycler`] owns no flash and does no I/O. The engine reports what happens to pages, in this order:
//!
//! 1. Host write of `lpn`: [`Recycler::find_dead_page`] *before* the current version is invalidated, so that content
//!    equal to a valid page is not a hit. On a hit: [`Recycler::revive_page`]; otherwise program a page and call
//!    [`Recycler::record_page_programmed`]. Then [`Recycler::record_page_invalidated`] for the previous page, if there
//!    was one, with the new one as its successor.
//! 2. After a hit, fast loading: [`Recycler::promote_or_append_dead_pages_of_neighbours`] of the page's former owner,
//!    one spare-area read and one [`Recycler::offer_neighbour_page_to_fingerprint_store`] for each page returned. No
//!    page may die, be revived or be erased in between.
//! 3. Trim: [`Recycler::record_page_invalidated`] without a successor. The page stays in its list and can be recycled.
//! 4. Host read: [`Recycler::count_read`] for the valid page that was read.
//! 5. GC: [`Recycler::record_pages_moved`] for the copied valid pages; [`Recycler::record_block_erased`] before the
//!    block can be programmed again. If GC is interruptible, a dead page of the victim may be revived between two
//!    copies and is then valid: validity must be queried per page, not once per block.
//! 6. Power failure: [`Recycler::clear_fingerprint_store_after_power_loss`], then
//!    [`Recycler::dead_pages_to_reload_after_restart`] and one [`Recycler::load_dead_page_after_restart`] each, then
//!    [`Recycler::remove_pages_outside_store_from_history`].
//! 7. After 1, 2 and 6, and whenever entries may have been evicted: [`Recycler::remove_queued_pages_from_history`],
//!    which removes pages that left the store from the lists.
//!
//! Only the engine knows the valid page of a logical page, so it passes that page (or a look-up) where only the logical
//! page is given. The owner of a dead or valid page is [`Recycler::owner`]: the spare area alone is wrong for recycled
//! pages.
//!
//! # Decisions
//!
//! - The *level* of an entry is the rank of its recycle probability, 0 to 255. Its *recency* is the time when it was
//!   inserted or last changed its level. Strict age would need a search in the level; this needs none.
//! - If two dead pages have equal content, the page with the higher recycle probability is the entry of the store (of
//!   equal ones, the newer page), under every policy. So unbounded stores behave alike under all policies. LRU also
//!   counts the second death as a use.
//! - A fast-loaded page counts as read 15 times while it is in the store; eviction ends that.
//! - Positions in lists are not stored: they are found by walking at most 15 links when a list changes.
//! - The paper's history has every dead page, for 12.5 bytes of RAM per physical page and 4 per logical page, about
//!   four times the RAM of a page map. Only entries of the fingerprint store can be revived, so
//!   [`DeadPageHistoryScope::FingerprintStore`] keeps the history of these alone: its RAM is bounded. The price: a
//!   version that is not in the store does not lower the probability of older ones, and fast loading knows no page that
//!   the store does not have.
//!
//! This file has [`Recycler`], `options.rs` what a user can set and see, `stage.rs` the steps of the engine.

mod buckets;
mod eviction_order;
mod fingerprint_store;
mod history;
mod options;
mod owners;
mod probability;
mod read_counts;
mod sparse_table;
mod stage;

use arrayvec::ArrayVec;
use fingerprint_store::{AdmissionOutcome, DeadPageCandidate, FingerprintStore};
use history::{DeadPageLists, ListHeadStorage, MAX_LINKABLE_PAGES};
pub use options::{
    DEFAULT_FINGERPRINT_STORE_ENTRIES, DeadPageHistoryScope, FingerprintStoreEntry, FingerprintStorePolicy,
    RecycleError, RecycleOptions, RecycleStatistics,
};
use owners::OwnerTable;
pub use probability::{MAX_COUNTED_NEWER_VERSIONS, ProbabilityTable};
pub use read_counts::MAX_READ_COUNT;
use read_counts::ReadCounts;
pub(crate) use stage::{RecycleState, Recycling};

use crate::address::{Lpn, Ppn};
use crate::data::Fingerprint;
use crate::tables::PageSet;
use crate::tables::prefetch::{HOST_WRITES_PER_PREFETCH, load_into_cpu_cache};

/// Bytes of an entry of the fingerprint store in a drive: 16 of digest, 4 of page number, 4 of probability.
const FINGERPRINT_STORE_ENTRY_BYTES_IN_DRIVE: u64 = 24;

/// State of recycling (reuse of dead pages) on one device: history of dead pages, read counts and fingerprint store.
/// See the module's documentation for the order of calls.
#[derive(Clone, Debug)]
pub struct Recycler {
    /// Lists of the dead pages of each logical page, newest first.
    history: DeadPageLists,
    /// Read counts of physical pages, from which the recycle probability is computed.
    read_counts: ReadCounts,
    /// Recycle probability for each read count and number of newer dead versions.
    recycle_probability_table: ProbabilityTable,
    /// Index of the dead pages that a write of equal content can revive.
    fingerprint_store: FingerprintStore,
    /// Owners of recycled physical pages, whose spare areas name an earlier logical page.
    owners: OwnerTable,
    /// Set of the physical pages whose spare area has no fingerprint, because no content scheme (such as deduplication)
    /// hashed the content when it was written.
    unhashed_pages: PageSet,
    /// Policy that decides which entries the fingerprint store keeps.
    policy: FingerprintStorePolicy,
    /// Which dead pages are in the lists of older versions of the logical pages (the history): all, or those in the
    /// fingerprint store.
    dead_page_history_scope: DeadPageHistoryScope,
    /// Dead pages that left the fingerprint store and must next be removed from the lists of dead pages of the logical
    /// pages (the history). Used with [`DeadPageHistoryScope::FingerprintStore`].
    history_removal_queue: Vec<Ppn>,
    /// Whether recycling computes, at each hit, the number of fingerprint comparisons that a scan of the fingerprint
    /// store would make.
    counts_scan_comparisons: bool,
    /// Counters of recycling: look-ups, comparisons, and changes of the fingerprint store.
    statistics: RecycleStatistics,
    /// Buffer for the dead pages of the block that is being erased, kept between erases so that it is not allocated
    /// anew.
    dead_pages_of_block: Vec<Ppn>,
}

impl Recycler {
    /// Creates the recycling state of a device without dead pages. The simulation needs 5 bytes of memory per physical
    /// page and about 50 bytes per entry of the fingerprint store, whichever dead pages the history covers. It needs 10
    /// to 20 bytes more for each recycled page, each dead page whose logical page also has an older dead page, and each
    /// trimmed logical page that has a dead page.
    ///
    /// `physical_pages` is at most `u32::MAX`: one page number is reserved.
    pub fn new(physical_pages: u64, logical_pages: u32, options: &RecycleOptions) -> Self {
        assert!(
            physical_pages <= MAX_LINKABLE_PAGES,
            "the device has {physical_pages} flash pages, but recycling can number at most {MAX_LINKABLE_PAGES}"
        );
        let pages = physical_pages as usize;
        Self {
            history: DeadPageLists::new(ListHeadStorage::InLinksOfValidPages, pages, logical_pages),
            read_counts: match options.dead_page_history_scope {
                DeadPageHistoryScope::AllPages => ReadCounts::with_counter_per_page(pages),
                DeadPageHistoryScope::FingerprintStore => {
                    ReadCounts::for_recent_pages(options.capacity_entries.map_or(pages, |n| n as usize))
                }
            },
            recycle_probability_table: ProbabilityTable::new(
                options.popularity_growth_alpha,
                options.probability_decay_beta,
            ),
            fingerprint_store: FingerprintStore::new(options.capacity_entries),
            owners: OwnerTable::new(pages),
            unhashed_pages: PageSet::new(physical_pages),
            policy: options.policy,
            dead_page_history_scope: options.dead_page_history_scope,
            history_removal_queue: Vec::new(),
            counts_scan_comparisons: options.counts_scan_comparisons,
            statistics: RecycleStatistics::default(),
            dead_pages_of_block: Vec::new(),
        }
    }

    /// Replaces the empty history of dead pages by one that stores the heads of its lists (the newest dead pages) in a
    /// hash map by logical page. This is for a device with other content mechanisms (such as deduplication), where a
    /// physical page can be valid for several logical pages, or a logical page can be a part of a physical one. Costs
    /// up to 20 bytes per logical page that has dead pages.
    pub(crate) fn with_list_heads_by_lpn(mut self) -> Self {
        let pages = self.history.physical_pages() as usize;
        self.history = DeadPageLists::new(ListHeadStorage::InHashMap, pages, self.history.logical_pages());
        self
    }

    /// Returns the dead page with this content that the fingerprint store has; `None` if it has none. Changes only the
    /// statistics.
    #[inline]
    pub fn find_dead_page(&mut self, fingerprint: Fingerprint) -> Option<Ppn> {
        let Some(slot) = self.fingerprint_store.find_slot(fingerprint) else {
            self.statistics.misses += 1;
            self.statistics.linear_scan_comparisons_on_misses += self.fingerprint_store.len() as u64;
            return None;
        };
        self.statistics.hits += 1;
        self.statistics.linear_scan_comparisons_on_hits += self.scan_comparisons_to_entry(slot);
        Some(self.fingerprint_store.page_in_slot(slot).ppn)
    }

    /// Returns the number of fingerprint comparisons that a scan of the fingerprint store would make to find the entry
    /// in `slot`; 0 if comparisons are not counted.
    #[inline]
    fn scan_comparisons_to_entry(&self, slot: u32) -> u64 {
        if self.counts_scan_comparisons { self.fingerprint_store.rank_from_best(slot) as u64 } else { 0 }
    }

    /// Returns the dead page with this content that the fingerprint store has; `None` if it has none. Does not count
    /// the look-up in the statistics.
    pub fn peek_dead_page(&self, fingerprint: Fingerprint) -> Option<Ppn> {
        self.fingerprint_store
            .find_slot(fingerprint)
            .map(|slot| self.fingerprint_store.page_in_slot(slot).ppn)
    }

    /// Marks a physical page just programmed as not hashed. Until it is erased, it is never offered to the fingerprint
    /// store.
    pub fn mark_unhashed(&mut self, ppn: Ppn) {
        self.unhashed_pages.insert(ppn);
    }

    /// Prefetches into the CPU cache the entries of the recycling tables that a batch of host writes will need
    /// ([`crate::tables::prefetch`]). `lpns` are the written logical pages, `ppns` their present physical pages, which
    /// the writes invalidate, and `contents` the fingerprints of these pages. `spare_owner` returns the logical page
    /// that the spare area of a page names.
    pub(crate) fn prefetch(
        &self,
        lpns: &[Lpn],
        ppns: &[Ppn],
        contents: &[Fingerprint],
        spare_owner: impl Fn(Ppn) -> Lpn,
    ) {
        self.history.prefetch_links(ppns.iter().copied());
        self.history.prefetch_heads_by_lpn(lpns);
        load_into_cpu_cache(ppns.iter().map(|&ppn| self.read_counts.read_count(ppn).into()));
        let newest: ArrayVec<Ppn, HOST_WRITES_PER_PREFETCH> =
            ppns.iter().filter_map(|&ppn| self.history.newest_dead_linked_from(ppn)).collect();
        self.history.prefetch_links(newest.iter().copied());
        let slots = self.fingerprint_slots_of(&newest);
        self.history.prefetch_newer_links_by_slot(&slots);
        self.fingerprint_store.prefetch_eviction_order_positions(&slots);
        self.fingerprint_store.prefetch_content_lookups(contents);
        let evicted = self.fingerprint_store.prefetch_entries_to_evict(&self.history, ppns.len());
        if self.dead_page_history_scope == DeadPageHistoryScope::FingerprintStore {
            self.unhashed_pages.prefetch(ppns.iter().copied());
            self.owners.prefetch(ppns);
            self.prefetch_removals_from_lists(&evicted, spare_owner);
        }
    }

    /// Prefetches into the CPU cache what removing the dead pages `dead` from their lists will need: the list links. If
    /// a hash map stores the heads of the lists, also prefetches these and the owners of the pages.
    fn prefetch_removals_from_lists(&self, dead: &[Ppn], spare_owner: impl Fn(Ppn) -> Lpn) {
        self.history.prefetch_links(dead.iter().copied());
        if self.history.list_head_storage() == ListHeadStorage::InLinksOfValidPages {
            return;
        }
        self.history.prefetch_older_links(dead);
        self.owners.prefetch(dead);
        let owners: ArrayVec<Lpn, HOST_WRITES_PER_PREFETCH> =
            dead.iter().map(|&ppn| self.owner(ppn, spare_owner(ppn))).collect();
        self.history.prefetch_heads_by_lpn(&owners);
    }

    /// Returns the fingerprint-store slots of the dead pages `dead`. Pages without a slot are left out.
    fn fingerprint_slots_of(&self, dead: &[Ppn]) -> ArrayVec<u32, HOST_WRITES_PER_PREFETCH> {
        dead.iter().filter_map(|&ppn| self.history.fingerprint_slot(ppn)).collect()
    }

    /// Reads the entries of the fingerprint store that look-ups of these contents will need, so that their cache misses
    /// overlap ([`crate::tables::prefetch`]).
    pub(crate) fn prefetch_lookups(&self, contents: &[Fingerprint]) {
        self.fingerprint_store.prefetch_content_lookups(contents);
    }

    /// Makes the dead page `ppn` the valid page of `lpn`. Removes it from the fingerprint store and from the list of
    /// dead pages of `former_owner`. The page's read count is kept.
    pub fn revive_page(&mut self, ppn: Ppn, former_owner: Lpn, lpn: Lpn) {
        self.remove_dead_page(former_owner, ppn);
        self.history.set_valid_page(lpn, ppn);
        if lpn != former_owner {
            self.owners.set_owner(ppn, lpn);
        }
    }

    /// Revives the dead page `ppn` on a device that has a reverse map: removes the page from the fingerprint store and
    /// from the list of dead pages of `former_owner`. Stores no owner, because the reverse map records which logical
    /// pages are mapped to `ppn`.
    pub(crate) fn revive_page_without_owner(&mut self, ppn: Ppn, former_owner: Lpn) {
        self.remove_dead_page(former_owner, ppn);
        self.owners.remove_owner(ppn);
    }

    /// Stores `lpn` as the last owner of the physical page `ppn`, which is being invalidated, if the spare area of
    /// `ppn` names another logical page (`spare_owner`).
    pub(crate) fn record_last_owner(&mut self, ppn: Ppn, lpn: Lpn, spare_owner: Lpn) {
        if lpn == spare_owner {
            self.owners.remove_owner(ppn);
        } else {
            self.owners.set_owner(ppn, lpn);
        }
    }

    /// Makes the newly programmed physical page `ppn` the valid page of `lpn`.
    #[inline]
    pub fn record_page_programmed(&mut self, lpn: Lpn, ppn: Ppn) {
        assert!(
            !self.history.is_dead(ppn),
            "page {ppn} is programmed for logical page {lpn}, but is still in a list of dead pages"
        );
        debug_assert!(
            self.has_no_recycling_state(ppn),
            "page {ppn} is programmed, but its erase was not reported to recycling"
        );
        self.history.set_valid_page(lpn, ppn);
    }

    /// Returns whether the physical page `ppn` has no read count, no stored owner and no "not hashed" mark, as after an
    /// erase.
    fn has_no_recycling_state(&self, ppn: Ppn) -> bool {
        self.read_counts.read_count(ppn) == 0
            && self.owners.all_match_spare_areas(ppn, 1)
            && !self.unhashed_pages.contains(ppn)
    }

    /// Makes the overwritten or trimmed physical page `ppn` the newest dead page of `lpn`, and offers it to the
    /// fingerprint store. `successor` is the new valid page of `lpn`, if any; it must have been reported before. The
    /// recycle probability of up to 15 older dead pages of `lpn` decreases. If the history covers only pages in the
    /// store ([`DeadPageHistoryScope::FingerprintStore`]), a page that the store would refuse is not added to it.
    #[inline]
    pub fn record_page_invalidated(
        &mut self,
        lpn: Lpn,
        ppn: Ppn,
        successor: Option<Ppn>,
        fingerprint: Fingerprint,
    ) {
        if self.dead_page_history_scope == DeadPageHistoryScope::FingerprintStore
            && self.count_if_fingerprint_store_refuses(ppn, fingerprint)
        {
            return self.stop_tracking_invalidated_page(lpn, ppn, successor);
        }
        if let Some(older) = self.history.push_dead(lpn, ppn, successor) {
            self.refresh_probability_levels_from(older, 1);
        }
        self.offer_to_fingerprint_store(
            DeadPageCandidate { ppn, fingerprint, read_count: self.read_counts.read_count(ppn) },
            0,
        );
    }

    /// Returns whether the fingerprint store surely refuses the page `ppn`, which has just become invalid. Counts the
    /// refusal in the statistics if the page's content was hashed.
    #[inline(never)]
    fn count_if_fingerprint_store_refuses(&mut self, ppn: Ppn, fingerprint: Fingerprint) -> bool {
        if self.unhashed_pages.contains(ppn) {
            return true;
        }
        let candidate = DeadPageCandidate { ppn, fingerprint, read_count: self.read_counts.read_count(ppn) };
        let refuses = self.fingerprint_store.find_slot(fingerprint).is_none()
            && !self
                .fingerprint_store
                .accepts_page_of_probability_level(self.eviction_level_of_candidate(candidate, 0));
        self.statistics.pages_refused_by_full_store += u64::from(refuses);
        refuses
    }

    /// Removes `ppn`, the former valid page of `lpn`, from the recycling state, without adding it to the list of dead
    /// pages of `lpn`. `successor` is the new valid page of `lpn`, if any.
    fn stop_tracking_invalidated_page(&mut self, lpn: Lpn, ppn: Ppn, successor: Option<Ppn>) {
        self.history.detach_valid_page(lpn, ppn, successor);
        self.owners.remove_owner(ppn);
    }

    /// Makes `ppn`, which is too old to be revived, the newest dead page of `lpn`, without offering it to the
    /// fingerprint store. `successor` is the new valid page of `lpn`, if any.
    pub fn record_unrevivable_page(&mut self, lpn: Lpn, ppn: Ppn, successor: Option<Ppn>) {
        if self.dead_page_history_scope == DeadPageHistoryScope::FingerprintStore {
            return self.stop_tracking_invalidated_page(lpn, ppn, successor);
        }
        if let Some(older) = self.history.push_dead(lpn, ppn, successor) {
            self.refresh_probability_levels_from(older, 1);
        }
    }

    /// Removes the fingerprint-store entry of `ppn`, which the last look-up found, because the page is too old to be
    /// revived. The page stays dead. The look-up then counts as a hit on an expired page, not as a hit, and its
    /// comparisons are not counted.
    pub fn remove_found_entry_of_expired_page(&mut self, ppn: Ppn) {
        let slot = self.history.fingerprint_slot(ppn).expect("the look-up found an entry of the page");
        self.statistics.linear_scan_comparisons_on_hits -= self.scan_comparisons_to_entry(slot);
        self.statistics.hits -= 1;
        self.statistics.hits_on_expired_pages += 1;
        self.drop_expired_fingerprint_entry(ppn);
    }

    /// Checks the next entry of the fingerprint store in a cyclic scan, and removes it if its page is too old to be
    /// revived. The engine calls this once per page that is invalidated, so every entry of a full store is checked once
    /// in as many invalidations as the store has entries.
    pub fn expire_next_entry_if_aged(&mut self, is_aged: impl Fn(Ppn) -> bool) {
        if let Some(ppn) = self.fingerprint_store.advance_expiry_scan()
            && is_aged(ppn)
        {
            self.drop_expired_fingerprint_entry(ppn);
        }
    }

    /// Removes from the history (the lists of the dead pages of each logical page) the dead pages that left the
    /// fingerprint store since the last call. Has an effect only if the history covers just the pages in the store
    /// ([`DeadPageHistoryScope::FingerprintStore`]). `spare_owner` returns the logical page that the spare area of a
    /// page names.
    #[inline]
    pub fn remove_queued_pages_from_history(&mut self, spare_owner: impl Fn(Ppn) -> Lpn) {
        while let Some(ppn) = self.history_removal_queue.pop() {
            self.remove_dead_page(self.owner(ppn, spare_owner(ppn)), ppn);
            self.owners.remove_owner(ppn);
        }
    }

    /// Removes from the history (the lists of the dead pages of each logical page) all dead pages that are not in the
    /// fingerprint store, after its entries were loaded at a restart. Has an effect only if the history covers just the
    /// pages in the store ([`DeadPageHistoryScope::FingerprintStore`]). Scans all pages. `spare_owner` returns the
    /// logical page that the spare area of a page names.
    pub fn remove_pages_outside_store_from_history(&mut self, spare_owner: impl Fn(Ppn) -> Lpn) {
        self.queue_pages_outside_store_for_history_removal();
        self.remove_queued_pages_from_history(spare_owner);
    }

    /// Queues the dead page `ppn` for removal from the history if it has no slot in the fingerprint store. Has an
    /// effect only if the history covers just the pages in the store ([`DeadPageHistoryScope::FingerprintStore`]).
    #[inline]
    fn queue_for_history_removal_if_evicted(&mut self, ppn: Ppn) {
        if self.dead_page_history_scope == DeadPageHistoryScope::FingerprintStore
            && self.history.fingerprint_slot(ppn).is_none()
        {
            self.history_removal_queue.push(ppn);
        }
    }

    /// Queues all dead pages without a slot in the fingerprint store for removal from the history. Has an effect only
    /// if the history covers just the pages in the store ([`DeadPageHistoryScope::FingerprintStore`]).
    fn queue_pages_outside_store_for_history_removal(&mut self) {
        if self.dead_page_history_scope == DeadPageHistoryScope::FingerprintStore {
            self.history_removal_queue = self
                .history
                .all_dead_pages()
                .filter(|&ppn| self.history.fingerprint_slot(ppn).is_none())
                .collect();
        }
    }

    /// Removes the fingerprint-store entry of the dead page `ppn`, which is too old. The page stays in the list of its
    /// logical page.
    fn drop_expired_fingerprint_entry(&mut self, ppn: Ppn) {
        let Some(slot) = self.history.fingerprint_slot(ppn) else { return };
        self.statistics.expired_entries += 1;
        let duplicate = self.fingerprint_store.remove_dead_page(&mut self.history, slot);
        self.promote_duplicate(duplicate);
        self.queue_for_history_removal_if_evicted(ppn);
    }

    /// Counts a host read of the valid page `ppn`. Once the page is dead, its recycle probability is computed from this
    /// count.
    #[inline]
    pub fn count_read(&mut self, ppn: Ppn) {
        debug_assert!(!self.history.is_dead(ppn), "dead page {ppn} is read");
        self.read_counts.count_read(ppn);
    }

    /// Marks the page `to`, the GC copy of `from`, as not hashed if `from` was not hashed.
    fn copy_unhashed_mark(&mut self, from: Ppn, to: Ppn) {
        if self.unhashed_pages.contains(from) {
            self.unhashed_pages.insert(to);
        }
    }

    /// Records that GC copied the valid pages `from` of the block of `pages` pages that begins at page `first` to `to`,
    /// in order. If `to` is shorter, only that many pages were copied. Moves the read counts to the copies. The source
    /// pages do not become dead versions of their logical pages. Skips tables in which the block has no entry (read
    /// counts, "not hashed" marks, owners).
    pub fn record_pages_moved(&mut self, first: Ppn, pages: u32, from: &[Ppn], to: &[Ppn]) {
        let from = &from[..to.len()];
        debug_assert!(
            to.iter().all(|&to| self.has_no_recycling_state(to)),
            "a copy of GC has a read count, a stored owner or a mark from before its erase"
        );
        debug_assert!(
            !from.iter().chain(to).any(|&ppn| self.is_dead(ppn)),
            "GC copies a page that is in a list of dead pages, or copies to one"
        );
        if !self.read_counts.are_counts_surely_zero(first, pages) {
            from.iter().zip(to).for_each(|(&from, &to)| self.read_counts.move_read_count(from, to));
        }
        if !self.unhashed_pages.is_disjoint(first, pages) {
            from.iter().zip(to).for_each(|(&from, &to)| self.copy_unhashed_mark(from, to));
        }
        self.history.relocate_heads(from, to);
        self.owners.remove_owners_of_moved_pages(first, pages, from);
    }

    /// Removes every page of an erased block (`pages` pages from `first` on) from all recycling state. The cache misses
    /// of the pages overlap. `spare_owner` returns the owner in the spare area of a page.
    pub fn record_block_erased(&mut self, first: Ppn, pages: u32, spare_owner: impl Fn(Ppn) -> Lpn) {
        let mut dead = std::mem::take(&mut self.dead_pages_of_block);
        dead.clear();
        self.history.list_dead_pages(first, pages, &mut dead);
        for dead in dead.chunks(HOST_WRITES_PER_PREFETCH) {
            self.prefetch_removals(dead, &spare_owner);
            for &ppn in dead {
                self.remove_dead_page(self.owner(ppn, spare_owner(ppn)), ppn);
            }
        }
        self.dead_pages_of_block = dead;
        self.read_counts.reset_range(first, pages);
        self.owners.remove_owners(first, pages);
        self.unhashed_pages.remove_range(first, pages);
    }

    /// Reads the recycling state that the removal of these dead pages will need, so that its cache misses overlap
    /// ([`crate::tables::prefetch`]).
    fn prefetch_removals(&self, dead: &[Ppn], spare_owner: impl Fn(Ppn) -> Lpn) {
        self.prefetch_removals_from_lists(dead, spare_owner);
        let slots = self.fingerprint_slots_of(dead);
        self.history.prefetch_newer_links_by_slot(&slots);
        let newer: ArrayVec<Ppn, HOST_WRITES_PER_PREFETCH> =
            dead.iter().filter_map(|&ppn| self.history.next_newer(ppn)).collect();
        self.history.prefetch_links(newer.iter().copied());
        self.fingerprint_store.prefetch_eviction_order_positions(&slots);
        self.fingerprint_store.prefetch_index_entries_of_slots(&slots);
    }

    /// Returns the logical page that owns the physical page `ppn`, dead or valid. `spare_owner` is the owner that the
    /// page's spare area names; it is wrong for recycled pages.
    #[inline]
    pub fn owner(&self, ppn: Ppn, spare_owner: Lpn) -> Lpn {
        self.owners.owner_of(ppn, spare_owner)
    }

    /// First step of fast loading, after a hit on a dead page of `owner`. Moves the newest dead pages of the `window`
    /// logical pages before and after `owner` to the best rank of the fingerprint store, or appends them to `out` if
    /// they are not in the store (at most `2 * window` pages). The engine then reads the spare areas of the appended
    /// pages and calls [`Recycler::offer_neighbour_page_to_fingerprint_store`].
    ///
    /// `map` returns the valid page of a logical page. Does nothing unless the policy is
    /// [`FingerprintStorePolicy::ProbabilityFastLoading`], which sets `window`.
    pub fn promote_or_append_dead_pages_of_neighbours(
        &mut self,
        owner: Lpn,
        map: impl Fn(Lpn) -> Option<Ppn>,
        out: &mut Vec<Ppn>,
    ) {
        let FingerprintStorePolicy::ProbabilityFastLoading { window } = self.policy else { return };
        if self.fingerprint_store.max_entries() == Some(0) {
            return;
        }
        let pages = self.history.logical_pages();
        for distance in (1..=window).rev() {
            let around = [owner.0.checked_sub(distance), owner.0.checked_add(distance)];
            for lpn in around.into_iter().flatten().filter(|&lpn| lpn < pages) {
                self.promote_or_append_newest_dead_page(Lpn(lpn), map(Lpn(lpn)), out);
            }
        }
    }

    /// Second step of fast loading: offers a dead page that [`Recycler::promote_or_append_dead_pages_of_neighbours`]
    /// returned to the fingerprint store, with the fingerprint from its spare area. The page counts as if it had been
    /// read 15 times.
    pub fn offer_neighbour_page_to_fingerprint_store(&mut self, ppn: Ppn, fingerprint: Fingerprint) {
        assert!(
            self.history.is_dead(ppn),
            "page {ppn} is fast-loaded into the fingerprint store, but is not dead"
        );
        if !self.promote_to_best_rank(ppn) {
            self.statistics.dead_pages_offered_by_fast_loading += 1;
            self.offer_to_fingerprint_store(
                DeadPageCandidate { ppn, fingerprint, read_count: MAX_READ_COUNT },
                self.history.capped_newer_version_count(ppn),
            );
        }
    }

    /// Returns the probability, 0 to 1, that the dead page `ppn` is recycled; 0 for a page that is not dead. The
    /// probability of an entry of the fingerprint store follows from its level. For other dead pages it takes up to 15
    /// steps along the list of dead pages.
    pub fn recycle_probability(&self, ppn: Ppn) -> f64 {
        if let Some(level) = self.probability_level_of_store_entry(ppn) {
            return self.recycle_probability_table.recycle_probability_at_level(level);
        }
        let accesses = self.read_count_for_recycle_probability(ppn);
        if accesses == 0 || !self.history.is_dead(ppn) {
            return 0.0;
        }
        self.recycle_probability_table
            .recycle_probability(accesses, self.history.capped_newer_version_count(ppn))
    }

    /// Returns the rank (0 to 255) of the recycle probability of the page `ppn`, if the page is an entry of the
    /// fingerprint store. `None` for other pages, and under the LRU policy, whose levels do not depend on probability.
    fn probability_level_of_store_entry(&self, ppn: Ppn) -> Option<u8> {
        let slot =
            self.history.fingerprint_slot(ppn).filter(|_| self.policy != FingerprintStorePolicy::Lru)?;
        self.fingerprint_store.recycle_probability_level(slot)
    }

    /// Clears the fingerprint store, as a power failure does. History, read counts and owners are in battery-backed RAM
    /// and survive.
    pub fn clear_fingerprint_store_after_power_loss(&mut self) {
        self.fingerprint_store.clear(&mut self.history);
    }

    /// Clears all recycling state, as a power failure without a battery does: all dead pages and read counts are
    /// forgotten.
    pub fn clear_all_state(&mut self) {
        self.fingerprint_store.clear(&mut self.history);
        let pages = self.history.physical_pages() as usize;
        self.history =
            DeadPageLists::new(self.history.list_head_storage(), pages, self.history.logical_pages());
        self.read_counts.clear();
        self.owners = OwnerTable::new(pages);
    }

    /// Stores `lpn` as the owner of the valid page `ppn`, whose spare area names another logical page. Recovery calls
    /// this.
    pub fn set_recovered_owner(&mut self, ppn: Ppn, lpn: Lpn) {
        self.owners.set_owner(ppn, lpn);
    }

    /// Returns the dead pages to load into the fingerprint store after a restart: those with the highest recycle
    /// probability, as many as the store can hold, the least probable first. The engine reads the spare area of each
    /// and calls [`Recycler::load_dead_page_after_restart`]. Walks the history of every dead page.
    pub fn dead_pages_to_reload_after_restart(&self) -> Vec<Ppn> {
        let mut dead: Vec<(u8, Ppn)> = self
            .history
            .all_dead_pages()
            .map(|ppn| (self.probability_level_for_read_count(ppn, self.read_counts.read_count(ppn)), ppn))
            .collect();
        dead.sort_unstable();
        let surplus = dead
            .len()
            .saturating_sub(self.fingerprint_store.max_entries().map_or(usize::MAX, |c| c as usize));
        dead.into_iter().skip(surplus).map(|(_, ppn)| ppn).collect()
    }

    /// Offers the dead page `ppn` to the fingerprint store after a restart, with the fingerprint from its spare area.
    pub fn load_dead_page_after_restart(&mut self, ppn: Ppn, fingerprint: Fingerprint) {
        assert!(
            self.history.is_dead(ppn),
            "page {ppn} is loaded into the fingerprint store, but is not dead"
        );
        if self.history.fingerprint_slot(ppn).is_none() {
            let read_count = self.read_counts.read_count(ppn);
            self.offer_to_fingerprint_store(
                DeadPageCandidate { ppn, fingerprint, read_count },
                self.history.capped_newer_version_count(ppn),
            );
        }
    }

    /// Changes policy and capacity of the fingerprint store. Orders the entries by the new policy at once, and evicts
    /// those beyond the capacity. Costs one sort of the store.
    pub fn set_policy(&mut self, policy: FingerprintStorePolicy, capacity_entries: Option<u32>) {
        self.policy = policy;
        let Self { fingerprint_store: store, history, recycle_probability_table: probability, .. } = self;
        store.set_capacity_and_levels(history, capacity_entries, |history, page| {
            eviction_level_under_policy(
                policy,
                probability,
                page.read_count,
                history.capped_newer_version_count(page.ppn),
            )
        });
        self.queue_pages_outside_store_for_history_removal();
    }

    /// Returns the current policy of the fingerprint store.
    pub fn policy(&self) -> FingerprintStorePolicy {
        self.policy
    }

    /// Returns the counters of recycling since the start or the last [`Recycler::reset_statistics`].
    pub fn statistics(&self) -> RecycleStatistics {
        self.statistics
    }

    /// Resets all counters of recycling to 0, for example after preconditioning.
    pub fn reset_statistics(&mut self) {
        self.statistics = RecycleStatistics::default();
    }

    /// Returns the number of entries of the fingerprint store, without duplicates (pages with the content of an entry).
    pub fn fingerprint_store_len(&self) -> u32 {
        self.fingerprint_store.len()
    }

    /// Returns the number of dead (invalid, not erased) pages in the history.
    pub fn dead_page_count(&self) -> u64 {
        self.history.dead_page_count()
    }

    /// Returns whether the physical page `ppn` is dead (invalid) and not erased yet.
    #[inline]
    pub fn is_dead(&self, ppn: Ppn) -> bool {
        self.history.is_dead(ppn)
    }

    /// Returns the number of host reads counted for the physical page `ppn`, 0 to 15; 15 means 15 or more.
    pub fn read_count(&self, ppn: Ppn) -> u8 {
        self.read_counts.read_count(ppn)
    }

    /// Returns the dead pages of `lpn`, newest first. `valid` is the valid page of `lpn`, `None` if it is unmapped.
    pub fn dead_versions(&self, lpn: Lpn, valid: Option<Ppn>) -> impl Iterator<Item = Ppn> + '_ {
        self.history.dead_versions(lpn, valid)
    }

    /// Returns the entries of the fingerprint store; the entry to be evicted last comes first.
    pub fn fingerprint_store_entries(&self) -> impl Iterator<Item = FingerprintStoreEntry> + '_ {
        self.fingerprint_store.entries().map(|DeadPageCandidate { ppn, fingerprint, read_count }| {
            FingerprintStoreEntry {
                ppn,
                fingerprint,
                recycle_probability: self
                    .recycle_probability_table
                    .recycle_probability(read_count, self.history.capped_newer_version_count(ppn)),
            }
        })
    }

    /// Returns the RAM that the controller of a real drive needs for recycling, as one pair of name and bytes per
    /// structure. History, read counts and owners need a battery; the fingerprint store does not.
    pub fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        let entries: u64 = self
            .fingerprint_store
            .max_entries()
            .unwrap_or(self.fingerprint_store.len() + self.fingerprint_store.duplicate_count())
            .into();
        let (listed, heads) = match self.dead_page_history_scope {
            DeadPageHistoryScope::AllPages => {
                let logical_pages: u64 = self.history.logical_pages().into();
                (self.history.physical_pages().into(), 4 * logical_pages)
            }
            // A head is found by its logical page, so both are stored.
            DeadPageHistoryScope::FingerprintStore => (entries, 8 * entries),
        };
        vec![
            ("history: next", 4 * listed),
            ("history: previous", 4 * listed),
            ("history: owner", 4 * listed),
            ("history: heads", heads),
            ("accesses", self.read_counts.ram_bytes()),
            ("fingerprint store", FINGERPRINT_STORE_ENTRY_BYTES_IN_DRIVE * entries),
        ]
    }

    /// Checks every invariant of the recycling state from scratch. Lists of dead pages are contiguous and disjoint.
    /// Valid pages (given by `mapping`) are in no list and belong to one logical page. Fingerprint-store entries are
    /// dead pages, one per fingerprint, on the level that read count and position give. Costs a walk over all pages.
    ///
    /// # Errors
    /// The first violation found, as a sentence.
    pub fn check(&self, mapping: impl Fn(Lpn) -> Option<Ppn>) -> Result<(), String> {
        let mut owners = self.history.check(&mapping)?;
        let owned_pages = (0..self.history.logical_pages()).map(Lpn);
        for lpn in
            owned_pages.filter(|_| self.history.list_head_storage() == ListHeadStorage::InLinksOfValidPages)
        {
            let Some(ppn) = mapping(lpn) else { continue };
            if let Some(other) = owners[ppn.index()].replace(lpn) {
                return Err(format!(
                    "logical page {lpn} is mapped to flash page {ppn}, so no other may have that page, but logical \
                     page {other} is mapped to it, too, or has it in its list of dead (invalid) pages"
                ));
            }
        }
        self.owners.check_stored_owners(&owners)?;
        let (dead, entries) = (self.history.dead_page_count(), self.history.pages_with_fingerprint_slot());
        if self.dead_page_history_scope == DeadPageHistoryScope::FingerprintStore && dead != entries {
            return Err(format!(
                "with recycle.history=store all dead (invalid) pages of the history must have a slot in the \
                 fingerprint store, but of its {dead} dead pages {entries} have one"
            ));
        }
        self.fingerprint_store.check_invariants(&self.history, |candidate| {
            let dead = self.history.is_dead(candidate.ppn);
            dead.then(|| {
                self.eviction_level_of_candidate(
                    candidate,
                    self.history.capped_newer_version_count(candidate.ppn),
                )
            })
        })
    }

    /// Removes a dead page from the fingerprint store and from the list of dead pages of `owner`. The recycle
    /// probability of the older pages in that list increases.
    #[inline]
    fn remove_dead_page(&mut self, owner: Lpn, ppn: Ppn) {
        let slot = self.history.fingerprint_slot(ppn);
        let duplicate =
            slot.and_then(|slot| self.fingerprint_store.remove_dead_page(&mut self.history, slot));
        if let Some(older) = self.history.next_older(ppn) {
            let position = self.history.capped_newer_version_count(ppn);
            self.history.remove_dead(owner, ppn);
            self.refresh_probability_levels_from(older, position);
        } else {
            self.history.remove_dead(owner, ppn);
        }
        self.promote_duplicate(duplicate);
    }

    /// Makes a duplicate (dead page with the content of an entry) an entry of the fingerprint store, after the entry
    /// was removed. `duplicate` is the slot of the duplicate; `None` if there is none.
    #[inline]
    fn promote_duplicate(&mut self, duplicate: Option<u32>) {
        if let Some(slot) = duplicate {
            let candidate = self.fingerprint_store.page_in_slot(slot);
            let level = self.eviction_level_of_candidate(
                candidate,
                self.history.capped_newer_version_count(candidate.ppn),
            );
            self.fingerprint_store.add_to_eviction_order(slot, level);
        }
    }

    /// Recomputes the probability levels of the dead page `page` and of the older dead pages of its logical page, after
    /// their positions (numbers of newer dead versions) changed. The new position of `page` is `first`.
    fn refresh_probability_levels_from(&mut self, page: Ppn, first: u8) {
        if self.policy == FingerprintStorePolicy::Lru {
            return;
        }
        let mut page = Some(page);
        for position in first..=MAX_COUNTED_NEWER_VERSIONS {
            let Some(ppn) = page else { return };
            if let Some(slot) = self.history.fingerprint_slot(ppn) {
                let level = self
                    .recycle_probability_table
                    .probability_level_of_page(self.fingerprint_store.read_count(slot), position);
                self.fingerprint_store.set_probability_level(slot, level);
            }
            page = self.history.next_older(ppn);
        }
    }

    /// Returns the level (0 to 255) of the eviction queue of the fingerprint store in which a dead page belongs under
    /// the store's policy; a higher level is evicted later. `newer_versions` is the page's number of newer dead
    /// versions.
    #[inline]
    fn eviction_level_of_candidate(&self, candidate: DeadPageCandidate, newer_versions: u8) -> u8 {
        eviction_level_under_policy(
            self.policy,
            &self.recycle_probability_table,
            candidate.read_count,
            newer_versions,
        )
    }

    /// Offers a dead page to the fingerprint store, unless its content was not hashed. `newer_versions` is the page's
    /// number of newer dead versions.
    #[inline]
    fn offer_to_fingerprint_store(&mut self, candidate: DeadPageCandidate, newer_versions: u8) {
        if self.unhashed_pages.contains(candidate.ppn) {
            return;
        }
        let level = self.eviction_level_of_candidate(candidate, newer_versions);
        if let Some(slot) = self.fingerprint_store.find_slot(candidate.fingerprint) {
            self.resolve_duplicate(slot, candidate, level);
            return;
        }
        match self.fingerprint_store.try_insert_dead_page(&mut self.history, candidate, level) {
            AdmissionOutcome::Inserted => self.statistics.inserted_pages += 1,
            AdmissionOutcome::Refused => {
                self.statistics.pages_refused_by_full_store += 1;
                self.queue_for_history_removal_if_evicted(candidate.ppn);
            }
            AdmissionOutcome::Replaced(evicted) => {
                self.statistics.inserted_pages += 1;
                self.statistics.evicted_pages += 1;
                self.queue_for_history_removal_if_evicted(evicted);
            }
        }
    }

    /// Decides which of two dead pages with equal content is the fingerprint-store entry: the present one in `slot`,
    /// or `candidate`. The page with the higher probability level becomes the entry, and `candidate` if both levels are
    /// equal.
    fn resolve_duplicate(&mut self, slot: u32, candidate: DeadPageCandidate, level: u8) {
        self.statistics.offered_pages_of_indexed_content += 1;
        let entry = self.fingerprint_store.page_in_slot(slot);
        let newcomer_wins = self.probability_level_for_read_count(candidate.ppn, candidate.read_count)
            >= self.probability_level_for_read_count(entry.ppn, entry.read_count);
        if newcomer_wins {
            self.fingerprint_store.replace_entry_of_equal_content(&mut self.history, slot, candidate, level);
            return self.queue_for_history_removal_if_evicted(entry.ppn);
        }
        self.fingerprint_store.keep_entry_of_equal_content(&mut self.history, slot, candidate);
        self.queue_for_history_removal_if_evicted(candidate.ppn);
        if self.policy == FingerprintStorePolicy::Lru {
            self.fingerprint_store.make_most_recent(slot);
        }
    }

    /// Moves the newest dead page of `lpn` to the best rank of the fingerprint store, or appends the page to `out` if
    /// the store does not have it. `valid` is the valid page of `lpn`.
    fn promote_or_append_newest_dead_page(&mut self, lpn: Lpn, valid: Option<Ppn>, out: &mut Vec<Ppn>) {
        if let Some(ppn) = self.history.newest_dead_of(lpn, valid)
            && !self.promote_to_best_rank(ppn)
        {
            out.push(ppn);
        }
    }

    /// Moves the entry of the dead page `ppn` to the best rank of the fingerprint store, to be evicted last. Returns
    /// `false` if `ppn` is not in the store. A duplicate (page with the content of an entry) does not move: its entry
    /// has equal content.
    fn promote_to_best_rank(&mut self, ppn: Ppn) -> bool {
        let Some(slot) = self.history.fingerprint_slot(ppn) else { return false };
        let raised = self.fingerprint_store.set_read_count_and_level(
            slot,
            MAX_READ_COUNT,
            self.probability_level_for_read_count(ppn, MAX_READ_COUNT),
        );
        self.statistics.entries_promoted_by_fast_loading += u64::from(raised);
        true
    }

    /// Returns the rank (0 to 255) that the recycle probability of the dead page `ppn` would have with `read_count`
    /// reads, whatever the policy of the fingerprint store.
    fn probability_level_for_read_count(&self, ppn: Ppn, read_count: u8) -> u8 {
        self.recycle_probability_table
            .probability_level_of_page(read_count, self.history.capped_newer_version_count(ppn))
    }

    /// Returns the read count from which the recycle probability of `ppn` is computed: the count in the fingerprint
    /// store if the page is there, because fast loading raises this count; otherwise the page's own read counter.
    fn read_count_for_recycle_probability(&self, ppn: Ppn) -> u8 {
        match self.history.fingerprint_slot(ppn) {
            Some(slot) => self.fingerprint_store.read_count(slot),
            None => self.read_counts.read_count(ppn),
        }
    }
}

/// Returns the level of the eviction queue in which the fingerprint store holds a dead page under `policy`: the rank of
/// its recycle probability, 0 to 255. LRU has a single level, in which recency alone decides.
#[inline]
fn eviction_level_under_policy(
    policy: FingerprintStorePolicy,
    probability: &ProbabilityTable,
    read_count: u8,
    newer_versions: u8,
) -> u8 {
    match policy {
        FingerprintStorePolicy::Lru => 0,
        FingerprintStorePolicy::Probability | FingerprintStorePolicy::ProbabilityFastLoading { .. } => {
            probability.probability_level_of_page(read_count, newer_versions)
        }
    }
}
