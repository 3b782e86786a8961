//! Tests of the data structures with which Recyclable SSD revives dead pages (fingerprint store, histories of dead
//! pages, access counts) against a naive model, and one test per edge case.
//!
//! The model keeps plain vectors, recomputes every recycle probability from the formulas of the paper, and sorts. It
//! shares only the rules with the product code. [`RecyclerAndModel`] executes the same operations on both. After each
//! it compares look-ups, ranks, the order of the fingerprint store, histories, access counts and owners.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::address::{Lpn, Ppn};
use wearwell::content::recycle::{
    DeadPageHistoryScope, FingerprintStorePolicy, RecycleError, RecycleOptions, Recycler,
};
use wearwell::data::Fingerprint;

use crate::common::test_case_interval;

/// Number of operations in a comparison with the model. By default a fourth of them is executed.
const STEPS: u64 = 200_000;
/// Fingerprint store that evicts the least recent entry.
const LRU: FingerprintStorePolicy = FingerprintStorePolicy::Lru;
/// Fingerprint store that evicts the entry least likely to be revived.
const PROB: FingerprintStorePolicy = FingerprintStorePolicy::Probability;
/// Policy of the fingerprint store: evicts the entry least likely to be revived. When a dead page is revived, it also
/// loads the newest dead page of one neighbouring logical page on each side (fast loading).
const FAST_LOADING_WINDOW_1: FingerprintStorePolicy =
    FingerprintStorePolicy::ProbabilityFastLoading { window: 1 };
/// Policy of the fingerprint store: evicts the entry least likely to be revived. When a dead page is revived, it also
/// loads the newest dead pages of two neighbouring logical pages on each side (fast loading).
const FAST_LOADING_WINDOW_2: FingerprintStorePolicy =
    FingerprintStorePolicy::ProbabilityFastLoading { window: 2 };

/// State of a flash page in the model.
#[derive(Clone, Copy, PartialEq, Debug)]
enum PageState {
    /// The page is erased.
    Free,
    /// The page holds the newest content of this logical page.
    Valid(u32),
    /// The page is dead and may be revived: it holds an older version of the logical page with this number.
    Dead(u32),
    /// The page is invalid and cannot be revived, because it is no version of a logical page: the source of a GC copy,
    /// for example.
    NotRevivable,
}

/// Entry of the model's fingerprint store: a dead page that a write may revive.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Entry {
    /// Flash page.
    ppn: u32,
    /// Content of the page.
    content: u64,
    /// Access count of the page, by which its recycle probability is computed.
    accesses: u8,
    /// Access count, and position in the history of its logical page, by which the entry was last ordered.
    access_count_and_history_position: (u8, usize),
    /// Number of the change (of all changes of entries) by which the entry was inserted or moved last; larger is more
    /// recent.
    change_number: u64,
}

/// Naive model of recycling: plain vectors, searched and sorted at every operation.
#[derive(Clone)]
struct Model {
    /// Policy of the fingerprint store.
    policy: FingerprintStorePolicy,
    /// Capacity of the fingerprint store, entries; `None`: unbounded.
    store_capacity_entries: Option<u32>,
    /// State of each flash page.
    page_states: Vec<PageState>,
    /// Content of each flash page.
    content_by_ppn: Vec<u64>,
    /// Logical page that the spare area of each flash page names.
    spare_area_owner_by_ppn: Vec<u32>,
    /// Access count of each flash page.
    accesses: Vec<u8>,
    /// Valid flash page of each logical page.
    mapping: Vec<Option<u32>>,
    /// Dead pages of each logical page, newest first.
    history_by_lpn: Vec<Vec<u32>>,
    /// Entries of the fingerprint store.
    entries: Vec<Entry>,
    /// Dead pages without an entry in the fingerprint store, because the store has an entry of equal content. The page
    /// displaced last is first. Only an unbounded store has such pages.
    entries_displaced_by_equal_content: Vec<Entry>,
    /// Number of changes of entries so far.
    clock: u64,
    /// Pages that the history (list of dead pages per logical page) covers: all dead pages, or those in the fingerprint
    /// store.
    scope: DeadPageHistoryScope,
    /// Number of read counters, if flash pages share them: pages with the same remainder of their number share one.
    /// `None` if each page has a counter.
    max_read_counters: Option<u32>,
}

/// Computes the recycle probability of a dead page by equations 1 to 4 of the Recyclable SSD paper, with the default
/// factors. `position` is the number of newer dead versions of its logical page.
fn recycle_probability(accesses: u8, position: usize) -> f64 {
    let initial = (1.1f64.powf(accesses as f64) - 1.0) / (1.1f64.powf(15.0) - 1.0);
    initial * 0.85f64.powf(position.min(15) as f64)
}

impl Model {
    /// Creates the model of an empty device of `pages` flash pages and `logical` logical pages.
    fn new(pages: u32, logical: u32, options: &RecycleOptions) -> Self {
        Self {
            policy: options.policy,
            store_capacity_entries: options.capacity_entries,
            page_states: vec![PageState::Free; pages as usize],
            content_by_ppn: vec![0; pages as usize],
            spare_area_owner_by_ppn: vec![0; pages as usize],
            accesses: vec![0; pages as usize],
            mapping: vec![None; logical as usize],
            history_by_lpn: vec![Vec::new(); logical as usize],
            entries: Vec::new(),
            entries_displaced_by_equal_content: Vec::new(),
            clock: 0,
            scope: options.dead_page_history_scope,
            max_read_counters: (options.dead_page_history_scope == DeadPageHistoryScope::FingerprintStore)
                .then(|| options.capacity_entries.unwrap_or(pages).max(1)),
        }
    }

    /// Sets the read count of a flash page. If several pages share one read counter, the other pages of this counter
    /// then have a count of 0.
    fn set_accesses(&mut self, ppn: u32, count: u8) {
        if let Some(counters) = self.max_read_counters.filter(|_| count > 0) {
            let shares = |page: u32| page % counters == ppn % counters;
            (0..).zip(&mut self.accesses).filter(|&(page, _)| shares(page)).for_each(|(_, count)| *count = 0);
        }
        self.accesses[ppn as usize] = count;
    }

    /// Returns whether the fingerprint store may take a page that just became invalid.
    fn may_enter_fingerprint_store(&self, ppn: u32) -> bool {
        let content = self.content_by_ppn[ppn as usize];
        let is_full = self
            .store_capacity_entries
            .is_some_and(|store_capacity_entries| self.entries.len() >= store_capacity_entries as usize);
        if !is_full || self.entries.iter().any(|entry| entry.content == content) {
            return true;
        }
        let accesses = if self.policy == LRU { 0 } else { self.accesses[ppn as usize] };
        let newest = (recycle_probability(accesses, 0), 15, u64::MAX);
        self.best_first().last().is_some_and(|worst| newest > self.rank_key(worst))
    }

    /// Removes dead pages that are not in the fingerprint store from the history, if the history covers only the store.
    fn drop_pages_outside_store_from_history(&mut self) {
        if self.scope == DeadPageHistoryScope::AllPages {
            return;
        }
        for ppn in (0..self.page_states.len() as u32).rev() {
            let is_stored = self
                .entries
                .iter()
                .chain(&self.entries_displaced_by_equal_content)
                .any(|entry| entry.ppn == ppn);
            if matches!(self.page_states[ppn as usize], PageState::Dead(_)) && !is_stored {
                self.remove_dead_page(ppn);
                self.page_states[ppn as usize] = PageState::NotRevivable;
            }
        }
    }

    /// Returns the position of a dead page in the history of its logical page, 0 for the newest.
    fn history_position(&self, ppn: u32) -> usize {
        let PageState::Dead(owner) = self.page_states[ppn as usize] else { panic!("page {ppn} is not dead") };
        self.history_by_lpn[owner as usize].iter().position(|&p| p == ppn).expect("a dead page is listed")
    }

    /// Returns access count and position in the history by which a store entry is ordered; zeros under LRU.
    fn access_count_and_history_position(&self, entry: &Entry) -> (u8, usize) {
        if self.policy == LRU { (0, 0) } else { (entry.accesses, self.history_position(entry.ppn).min(15)) }
    }

    /// Returns the sort key of a store entry: recycle probability, newness of the version, number of the last change.
    fn rank_key(&self, entry: &Entry) -> (f64, usize, u64) {
        let (accesses, position) = self.access_count_and_history_position(entry);
        (recycle_probability(accesses, position), 15 - position, entry.change_number)
    }

    /// Returns the recycle probability of a dead page, and the newness of its version (greater for newer versions of
    /// its logical page). Both are computed under every store policy.
    fn recycle_probability_and_newness(&self, ppn: u32, accesses: u8) -> (f64, usize) {
        let position = self.history_position(ppn).min(15);
        (recycle_probability(accesses, position), 15 - position)
    }

    /// Returns the entries of the fingerprint store, the likeliest to be revived first.
    fn best_first(&self) -> Vec<Entry> {
        let mut sorted = self.entries.clone();
        sorted.sort_by(|a, b| self.rank_key(b).partial_cmp(&self.rank_key(a)).expect("keys are numbers"));
        sorted
    }

    /// Returns the flash page and the rank (1 for the best) of the store entry with this content.
    fn find_entry(&self, content: u64) -> Option<(u32, u64)> {
        let found = self.entries.iter().find(|entry| entry.content == content)?;
        let better = self.entries.iter().filter(|entry| self.rank_key(entry) > self.rank_key(found)).count();
        Some((found.ppn, better as u64 + 1))
    }

    /// Counts a change of an entry, and returns its number.
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Ranks the store entries of a logical page anew, newest version first, if their positions in the history changed.
    fn reorder_entries_of_lpn(&mut self, lpn: u32) {
        for ppn in self.history_by_lpn[lpn as usize].clone() {
            let Some(i) = self.entries.iter().position(|entry| entry.ppn == ppn) else { continue };
            let class = self.access_count_and_history_position(&self.entries[i]);
            if class != self.entries[i].access_count_and_history_position {
                self.entries[i].access_count_and_history_position = class;
                self.entries[i].change_number = self.tick();
            }
        }
    }

    /// Adds an entry to the fingerprint store.
    fn insert(&mut self, mut entry: Entry) {
        entry.change_number = self.tick();
        entry.access_count_and_history_position = self.access_count_and_history_position(&entry);
        self.entries.push(entry);
    }

    /// Removes the entry of the fingerprint store with the smallest [`Self::rank_key`].
    fn evict_lowest_ranked_entry(&mut self) {
        let worst = self.best_first().pop().expect("a full store has entries");
        self.entries.retain(|entry| entry.ppn != worst.ppn);
    }

    /// Offers a dead page to the fingerprint store, which takes it if it has a free entry or a worse one.
    fn offer_to_fingerprint_store(&mut self, ppn: u32, accesses: u8) {
        let entry = Entry {
            ppn,
            content: self.content_by_ppn[ppn as usize],
            accesses,
            access_count_and_history_position: (0, 0),
            change_number: 0,
        };
        if let Some(i) = self.entries.iter().position(|rival| rival.content == entry.content) {
            self.keep_likelier_of_equal_contents(i, entry);
        } else if self.store_capacity_entries == Some(0) {
        } else if self
            .store_capacity_entries
            .is_some_and(|store_capacity_entries| self.entries.len() >= store_capacity_entries as usize)
        {
            let worst = *self.best_first().last().expect("a full store has entries");
            if self.rank_key(&Entry { change_number: u64::MAX, ..entry }) > self.rank_key(&worst) {
                self.evict_lowest_ranked_entry();
                self.insert(entry);
            }
        } else {
            self.insert(entry);
        }
    }

    /// Decides which of two dead pages with equal content the fingerprint store holds: that of the entry with index
    /// `rival`, or that of `entry`. It is the page more likely to be revived.
    fn keep_likelier_of_equal_contents(&mut self, rival: usize, entry: Entry) {
        let old = self.entries[rival];
        if self.recycle_probability_and_newness(entry.ppn, entry.accesses)
            >= self.recycle_probability_and_newness(old.ppn, old.accesses)
        {
            self.entries.remove(rival);
            self.insert(entry);
            self.keep_displaced_entry(old);
        } else {
            self.keep_displaced_entry(entry);
            if self.policy == LRU {
                self.entries[rival].change_number = self.tick();
            }
        }
    }

    /// Keeps the entry of a dead page that an entry of equal content displaced, if the fingerprint store is unbounded.
    fn keep_displaced_entry(&mut self, entry: Entry) {
        if self.store_capacity_entries.is_none() {
            self.entries_displaced_by_equal_content.insert(0, entry);
        }
    }

    /// Removes dead page `ppn` from its history and from the fingerprint store.
    fn remove_dead_page(&mut self, ppn: u32) {
        let PageState::Dead(owner) = self.page_states[ppn as usize] else { panic!("page {ppn} is not dead") };
        let entry = self.entries.iter().position(|entry| entry.ppn == ppn).map(|i| self.entries.remove(i));
        self.entries_displaced_by_equal_content.retain(|twin| twin.ppn != ppn);
        self.history_by_lpn[owner as usize].retain(|&p| p != ppn);
        self.reorder_entries_of_lpn(owner);
        if let Some(entry) = entry
            && let Some(i) =
                self.entries_displaced_by_equal_content.iter().position(|twin| twin.content == entry.content)
        {
            let heir = self.entries_displaced_by_equal_content.remove(i);
            self.insert(heir);
        }
    }

    /// Records that flash page `ppn` of a logical page became invalid.
    fn invalidate(&mut self, lpn: u32, ppn: u32) {
        if self.scope == DeadPageHistoryScope::FingerprintStore && !self.may_enter_fingerprint_store(ppn) {
            self.page_states[ppn as usize] = PageState::NotRevivable;
            return;
        }
        self.page_states[ppn as usize] = PageState::Dead(lpn);
        self.history_by_lpn[lpn as usize].insert(0, ppn);
        self.reorder_entries_of_lpn(lpn);
        self.offer_to_fingerprint_store(ppn, self.accesses[ppn as usize]);
    }

    /// Executes fast loading: moves the newest dead pages of neighbouring logical pages to the head of the fingerprint
    /// store. Returns the dead pages that are not in the store and must be loaded from flash.
    fn raise_or_return_neighbour_pages(&mut self, owner: u32) -> Vec<u32> {
        let FingerprintStorePolicy::ProbabilityFastLoading { window } = self.policy else {
            return Vec::new();
        };
        let mut unknown = Vec::new();
        for distance in (1..=window as i64).rev() {
            for lpn in [owner as i64 - distance, owner as i64 + distance] {
                let list = usize::try_from(lpn).ok().and_then(|lpn| self.history_by_lpn.get(lpn));
                let Some(&ppn) = list.and_then(|list| list.first()) else { continue };
                if !self.move_entry_to_head_of_store(ppn) && self.store_capacity_entries != Some(0) {
                    unknown.push(ppn);
                }
            }
        }
        unknown
    }

    /// Moves the store entry of a dead page to the head of the store; returns `false` if the page is not in the store.
    fn move_entry_to_head_of_store(&mut self, ppn: u32) -> bool {
        if let Some(i) = self.entries.iter().position(|entry| entry.ppn == ppn) {
            let entry = self.entries.remove(i);
            self.insert(Entry { accesses: 15, ..entry });
            return true;
        }
        self.entries_displaced_by_equal_content.iter().any(|twin| twin.ppn == ppn)
    }

    /// Changes policy and capacity of the fingerprint store, and evicts entries beyond the capacity.
    fn set_policy(&mut self, policy: FingerprintStorePolicy, store_capacity_entries: Option<u32>) {
        (self.policy, self.store_capacity_entries) = (policy, store_capacity_entries);
        for i in 0..self.entries.len() {
            self.entries[i].access_count_and_history_position =
                self.access_count_and_history_position(&self.entries[i]);
        }
        if store_capacity_entries.is_some() {
            self.entries_displaced_by_equal_content.clear();
        }
        while store_capacity_entries
            .is_some_and(|store_capacity_entries| self.entries.len() > store_capacity_entries as usize)
        {
            self.evict_lowest_ranked_entry();
        }
    }

    /// Returns the dead pages that the fingerprint store loads after a restart, in ascending order of recycle
    /// probability.
    fn dead_pages_to_reload(&self) -> Vec<u32> {
        let mut dead: Vec<u32> = self.history_by_lpn.iter().flatten().copied().collect();
        let key = |ppn: u32| (self.recycle_probability_and_newness(ppn, self.accesses[ppn as usize]), ppn);
        dead.sort_by(|&a, &b| key(a).partial_cmp(&key(b)).expect("keys are numbers"));
        let keep = self
            .store_capacity_entries
            .map_or(dead.len(), |store_capacity_entries| dead.len().min(store_capacity_entries as usize));
        dead.split_off(dead.len() - keep)
    }
}

/// The recycler under test and the naive model, on both of which each operation is executed.
#[derive(Clone)]
struct RecyclerAndModel {
    /// Naive model of recycling, with which the recycler is compared.
    model: Model,
    /// Recycler under test (the mechanism that revives dead pages).
    recycle: Recycler,
    /// Number of look-ups that found a dead page.
    hits: u64,
}

impl RecyclerAndModel {
    /// Creates model and recycler of an empty device, with a history of all dead pages.
    fn new(
        pages: u32,
        logical: u32,
        policy: FingerprintStorePolicy,
        store_capacity_entries: Option<u32>,
    ) -> Self {
        Self::with_history(DeadPageHistoryScope::AllPages, pages, logical, policy, store_capacity_entries)
    }

    /// Creates model and recycler of an empty device, with a history (list of dead pages per logical page) of this
    /// scope.
    fn with_history(
        history: DeadPageHistoryScope,
        pages: u32,
        logical: u32,
        policy: FingerprintStorePolicy,
        store_capacity_entries: Option<u32>,
    ) -> Self {
        let options = RecycleOptions {
            policy,
            capacity_entries: store_capacity_entries,
            dead_page_history_scope: history,
            ..RecycleOptions::default()
        };
        let model = Model::new(pages, logical, &options);
        Self { model, recycle: Recycler::new(pages as u64, logical, &options), hits: 0 }
    }

    /// Returns the fingerprint of a content.
    fn fingerprint(content: u64) -> Fingerprint {
        Fingerprint(content)
    }

    /// Returns an erased flash page; `None` if there is none.
    fn find_erased_page(&self) -> Option<u32> {
        self.model.page_states.iter().position(|&state| state == PageState::Free).map(|p| p as u32)
    }

    /// Returns the invalid flash pages, which may be erased.
    fn invalid_ppns(&self) -> Vec<u32> {
        let is_garbage = |&ppn: &u32| {
            matches!(self.model.page_states[ppn as usize], PageState::Dead(_) | PageState::NotRevivable)
        };
        (0..self.model.page_states.len() as u32).filter(is_garbage).collect()
    }

    /// Looks up a content in recycler and model, and asserts that both return the same page and rank.
    fn find_and_compare_dead_page(&mut self, content: u64) -> Option<u32> {
        let expected = self.model.find_entry(content);
        let before = self.recycle.statistics();
        let found = self.recycle.find_dead_page(Self::fingerprint(content));
        let after = self.recycle.statistics();
        assert_eq!(found.map(|ppn| ppn.0), expected.map(|(ppn, _)| ppn));
        let on_hit = after.linear_scan_comparisons_on_hits - before.linear_scan_comparisons_on_hits;
        let in_vain = after.linear_scan_comparisons_on_misses - before.linear_scan_comparisons_on_misses;
        let entries = self.model.entries.len() as u64;
        assert_eq!((on_hit, in_vain), expected.map_or((0, entries), |(_, rank)| (rank, 0)));
        self.hits += u64::from(found.is_some());
        found.map(|ppn| ppn.0)
    }

    /// Executes a host write with the calls in the order that the recycler requires. Returns the flash page that then
    /// holds the content, or `None` if the device is full.
    fn write(&mut self, lpn: u32, content: u64) -> Option<u32> {
        let hit = self.find_and_compare_dead_page(content);
        let (ppn, owner) = match hit {
            Some(ppn) => (ppn, Some(self.revive(ppn, lpn))),
            None => (self.program(lpn, content)?, None),
        };
        if let Some(old) = self.model.mapping[lpn as usize].replace(ppn) {
            self.invalidate(lpn, old);
        }
        if let Some(owner) = owner {
            self.execute_fast_loading(owner);
        }
        Some(ppn)
    }

    /// Makes dead page `ppn` valid again for logical page `lpn`; returns the logical page of which it was a version.
    fn revive(&mut self, ppn: u32, lpn: u32) -> u32 {
        let PageState::Dead(owner) = self.model.page_states[ppn as usize] else {
            panic!("a hit on a page that is not dead")
        };
        assert_eq!(
            self.recycle.owner(Ppn(ppn), Lpn(self.model.spare_area_owner_by_ppn[ppn as usize])),
            Lpn(owner)
        );
        self.model.remove_dead_page(ppn);
        self.model.page_states[ppn as usize] = PageState::Valid(lpn);
        self.recycle.revive_page(Ppn(ppn), Lpn(owner), Lpn(lpn));
        owner
    }

    /// Programs an erased flash page for a logical page; returns the flash page.
    fn program(&mut self, lpn: u32, content: u64) -> Option<u32> {
        let ppn = self.find_erased_page()?;
        self.model.page_states[ppn as usize] = PageState::Valid(lpn);
        self.model.content_by_ppn[ppn as usize] = content;
        self.model.spare_area_owner_by_ppn[ppn as usize] = lpn;
        self.recycle.record_page_programmed(Lpn(lpn), Ppn(ppn));
        Some(ppn)
    }

    /// Records in model and recycler that a flash page became invalid.
    fn invalidate(&mut self, lpn: u32, ppn: u32) {
        self.model.invalidate(lpn, ppn);
        let successor = self.valid_ppn(lpn);
        let content = Self::fingerprint(self.model.content_by_ppn[ppn as usize]);
        self.recycle.record_page_invalidated(Lpn(lpn), Ppn(ppn), successor, content);
        self.drop_pages_outside_store_from_history();
    }

    /// Removes dead pages that are not in the fingerprint store from the history, in recycler and model. Does nothing
    /// if the history covers all dead pages.
    fn drop_pages_outside_store_from_history(&mut self) {
        self.model.drop_pages_outside_store_from_history();
        self.recycle
            .remove_queued_pages_from_history(|ppn| Lpn(self.model.spare_area_owner_by_ppn[ppn.index()]));
    }

    /// Returns the valid flash page of a logical page.
    fn valid_ppn(&self, lpn: u32) -> Option<Ppn> {
        self.model.mapping[lpn as usize].map(Ppn)
    }

    /// Loads the dead pages of logical pages near `owner` into the fingerprint store (fast loading), as after a page of
    /// `owner` was revived. Asserts that recycler and model load the same pages.
    fn execute_fast_loading(&mut self, owner: u32) {
        let mut pages = Vec::new();
        let model = &self.model;
        self.recycle.promote_or_append_dead_pages_of_neighbours(
            Lpn(owner),
            |lpn| model.mapping[lpn.index()].map(Ppn),
            &mut pages,
        );
        let pages: Vec<u32> = pages.into_iter().map(|ppn| ppn.0).collect();
        assert_eq!(pages, self.model.raise_or_return_neighbour_pages(owner));
        for ppn in pages {
            if !self.model.move_entry_to_head_of_store(ppn) {
                self.model.offer_to_fingerprint_store(ppn, 15);
            }
            self.recycle.offer_neighbour_page_to_fingerprint_store(
                Ppn(ppn),
                Self::fingerprint(self.model.content_by_ppn[ppn as usize]),
            );
            self.drop_pages_outside_store_from_history();
        }
    }

    /// Trims a logical page.
    fn trim(&mut self, lpn: u32) {
        if let Some(old) = self.model.mapping[lpn as usize].take() {
            self.invalidate(lpn, old);
        }
    }

    /// Reads a logical page, which raises the access count of its flash page.
    fn read(&mut self, lpn: u32) {
        if let Some(ppn) = self.model.mapping[lpn as usize] {
            self.model.set_accesses(ppn, (self.model.accesses[ppn as usize] + 1).min(15));
            self.recycle.count_read(Ppn(ppn));
        }
    }

    /// Copies the valid flash page of a logical page, as GC does.
    fn copy(&mut self, lpn: u32) {
        let (Some(from), Some(to)) = (self.model.mapping[lpn as usize], self.find_erased_page()) else {
            return;
        };
        let model = &mut self.model;
        model.page_states[from as usize] = PageState::NotRevivable;
        model.page_states[to as usize] = PageState::Valid(lpn);
        model.content_by_ppn[to as usize] = model.content_by_ppn[from as usize];
        model.spare_area_owner_by_ppn[to as usize] = lpn;
        let count = std::mem::take(&mut model.accesses[from as usize]);
        model.set_accesses(to, count);
        model.mapping[lpn as usize] = Some(to);
        self.recycle.record_pages_moved(Ppn(from), 1, &[Ppn(from)], &[Ppn(to)]);
    }

    /// Removes an invalid flash page from recycler and model, as the erase of its block does.
    fn erase(&mut self, ppn: u32) {
        let spare = Lpn(self.model.spare_area_owner_by_ppn[ppn as usize]);
        let owner = self.recycle.owner(Ppn(ppn), spare);
        if let PageState::Dead(expected) = self.model.page_states[ppn as usize] {
            assert_eq!(owner, Lpn(expected));
            self.model.remove_dead_page(ppn);
        }
        self.model.page_states[ppn as usize] = PageState::Free;
        self.model.accesses[ppn as usize] = 0;
        self.recycle.record_block_erased(Ppn(ppn), 1, |_| spare);
    }

    /// Executes a restart, after which the fingerprint store is loaded from the history.
    fn restart(&mut self) {
        self.model.entries.clear();
        self.model.entries_displaced_by_equal_content.clear();
        self.recycle.clear_fingerprint_store_after_power_loss();
        assert_eq!(self.recycle.fingerprint_store_len(), 0);
        let pages: Vec<u32> =
            self.recycle.dead_pages_to_reload_after_restart().into_iter().map(|ppn| ppn.0).collect();
        assert_eq!(pages, self.model.dead_pages_to_reload());
        for ppn in pages {
            self.model.offer_to_fingerprint_store(ppn, self.model.accesses[ppn as usize]);
            self.recycle.load_dead_page_after_restart(
                Ppn(ppn),
                Self::fingerprint(self.model.content_by_ppn[ppn as usize]),
            );
        }
        self.model.drop_pages_outside_store_from_history();
        self.recycle.remove_pages_outside_store_from_history(|ppn| {
            Lpn(self.model.spare_area_owner_by_ppn[ppn.index()])
        });
    }

    /// Changes policy and capacity of the fingerprint store.
    fn set_policy(&mut self, policy: FingerprintStorePolicy, store_capacity_entries: Option<u32>) {
        self.model.set_policy(policy, store_capacity_entries);
        self.recycle.set_policy(policy, store_capacity_entries);
        self.drop_pages_outside_store_from_history();
    }

    /// Executes one random operation. Logical pages with small numbers are written more often, so their histories are
    /// long.
    fn execute_random_operation(&mut self, rng: &mut Xoshiro256PlusPlus, contents: u64) {
        let logical = self.model.history_by_lpn.len() as u32;
        let lpn = rng.random_range(0..logical).min(rng.random_range(0..logical));
        match rng.random_range(0..100) {
            0..55 => _ = self.write(lpn, rng.random_range(0..contents)),
            55..60 => self.trim(lpn),
            60..75 => self.read(lpn),
            75..80 => self.copy(lpn),
            _ => {
                let invalid_ppns = self.invalid_ppns();
                if !invalid_ppns.is_empty() {
                    self.erase(invalid_ppns[rng.random_range(0..invalid_ppns.len())]);
                }
            }
        }
    }

    /// Asserts that recycler and model agree in all their state.
    fn assert_recycler_equals_model(&self) {
        let model = &self.model;
        self.recycle.check(|lpn| model.mapping[lpn.index()].map(Ppn)).unwrap();
        let expected: Vec<(u32, u64)> = model.best_first().iter().map(|e| (e.ppn, e.content)).collect();
        let actual: Vec<(u32, u64)> =
            self.recycle.fingerprint_store_entries().map(|e| (e.ppn.0, e.fingerprint.0)).collect();
        assert_eq!(actual, expected);
        for (lpn, list) in (0..).zip(&model.history_by_lpn) {
            assert_eq!(&self.dead_version_ppns(lpn), list);
        }
        for (ppn, &state) in (0..).map(Ppn).zip(&model.page_states) {
            assert_eq!(self.recycle.read_count(ppn), model.accesses[ppn.index()]);
            assert_eq!(self.recycle.is_dead(ppn), matches!(state, PageState::Dead(_)));
            if let PageState::Valid(owner) | PageState::Dead(owner) = state {
                assert_eq!(
                    self.recycle.owner(ppn, Lpn(model.spare_area_owner_by_ppn[ppn.index()])),
                    Lpn(owner)
                );
            }
        }
        self.assert_recycle_probabilities_equal_model();
    }

    /// Asserts that the recycle probabilities of all dead pages, by which recycling-aware GC weighs blocks, are as
    /// expected.
    fn assert_recycle_probabilities_equal_model(&self) {
        let loaded = |ppn: u32| {
            self.model
                .entries
                .iter()
                .chain(&self.model.entries_displaced_by_equal_content)
                .find(|e| e.ppn == ppn)
        };
        let accesses =
            |ppn: u32| loaded(ppn).map_or(self.model.accesses[ppn as usize], |entry| entry.accesses);
        for &ppn in self.model.history_by_lpn.iter().flatten() {
            let expected = self.model.recycle_probability_and_newness(ppn, accesses(ppn)).0;
            let actual = self.recycle.recycle_probability(Ppn(ppn));
            assert!((actual - expected).abs() < 1e-9, "probability {actual} of {ppn}, expected {expected}");
        }
    }

    /// Returns the flash pages of the entries of the fingerprint store, the likeliest to be revived first.
    fn fingerprint_store_ppns(&self) -> Vec<u32> {
        self.recycle.fingerprint_store_entries().map(|entry| entry.ppn.0).collect()
    }

    /// Returns the dead flash pages of a logical page, newest first.
    fn dead_version_ppns(&self, lpn: u32) -> Vec<u32> {
        self.recycle.dead_versions(Lpn(lpn), self.valid_ppn(lpn)).map(|ppn| ppn.0).collect()
    }
}

/// Executes random operations on recycler and model, and compares them after each.
fn run_random_operations(
    pages: u32,
    logical: u32,
    policy: FingerprintStorePolicy,
    store_capacity_entries: Option<u32>,
    operations: u64,
) -> RecyclerAndModel {
    let mut pair = RecyclerAndModel::new(pages, logical, policy, store_capacity_entries);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(0x5eed);
    for _ in 0..operations {
        pair.execute_random_operation(&mut rng, 12);
        pair.assert_recycler_equals_model();
    }
    pair
}

#[test]
fn recycling_with_lru_equals_a_naive_model() {
    assert!(
        run_random_operations(24, 8, LRU, Some(5), STEPS / test_case_interval(8)).hits
            > 10_000 / test_case_interval(8)
    );
}

#[test]
fn recycling_with_the_probability_policy_equals_a_naive_model() {
    assert!(
        run_random_operations(24, 8, PROB, Some(5), STEPS / test_case_interval(8)).hits
            > 10_000 / test_case_interval(8)
    );
}

#[test]
fn recycling_with_fast_loading_of_one_neighbour_on_each_side_equals_a_naive_model() {
    let pair = run_random_operations(24, 8, FAST_LOADING_WINDOW_1, Some(5), STEPS / test_case_interval(8));
    assert!(
        pair.hits > 10_000 / test_case_interval(8)
            && pair.recycle.statistics().dead_pages_offered_by_fast_loading > 1_000 / test_case_interval(8)
    );
}

#[test]
fn recycling_with_fast_loading_of_two_neighbours_on_each_side_equals_a_naive_model() {
    let pair = run_random_operations(24, 8, FAST_LOADING_WINDOW_2, Some(3), STEPS / test_case_interval(8));
    assert!(
        pair.hits > 10_000 / test_case_interval(8)
            && pair.recycle.statistics().entries_promoted_by_fast_loading > 1_000 / test_case_interval(8)
    );
}

#[test]
fn recycling_with_an_unbounded_store_equals_a_naive_model() {
    assert!(
        run_random_operations(24, 8, PROB, None, STEPS / test_case_interval(8)).hits
            > 10_000 / test_case_interval(8)
    );
}

#[test]
fn recycling_with_an_unbounded_lru_store_equals_a_naive_model() {
    assert!(
        run_random_operations(24, 8, LRU, None, STEPS / test_case_interval(8)).hits
            > 10_000 / test_case_interval(8)
    );
}

#[test]
fn recycling_with_unbounded_fast_loading_equals_a_naive_model() {
    assert!(
        run_random_operations(24, 8, FAST_LOADING_WINDOW_1, None, STEPS / test_case_interval(8)).hits
            > 10_000 / test_case_interval(8)
    );
}

/// Two logical pages share 48 flash pages, so each has many dead pages in its history. Beyond 15 newer dead pages, the
/// recycle probability of a dead page does not decrease any more.
#[test]
fn recycling_with_long_page_histories_equals_a_naive_model() {
    let mut pair = RecyclerAndModel::new(48, 2, PROB, Some(30));
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut longest = 0;
    for _ in 0..100_000 / test_case_interval(2) {
        pair.execute_random_operation(&mut rng, 60);
        pair.assert_recycler_equals_model();
        longest = longest.max(pair.dead_version_ppns(0).len());
    }
    assert!(longest > 20, "the longest history had {longest} pages");
}

#[test]
fn recycling_equals_a_naive_model_when_policy_and_capacity_change_during_a_run() {
    let mut pair = RecyclerAndModel::new(24, 8, PROB, Some(5));
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
    for _ in 0..200_000 {
        if rng.random_range(0..50) == 0 {
            let policy = [LRU, PROB, FAST_LOADING_WINDOW_1, FAST_LOADING_WINDOW_2][rng.random_range(0..4)];
            let store_capacity_entries = [None, Some(0), Some(1), Some(5), Some(9)][rng.random_range(0..5)];
            pair.set_policy(policy, store_capacity_entries);
        }
        pair.execute_random_operation(&mut rng, 12);
        pair.assert_recycler_equals_model();
    }
    assert!(pair.hits > 10_000);
}

/// Dead pages that the fingerprint store does not hold are in no history (list of dead pages per logical page).
#[test]
fn recycling_whose_history_has_only_pages_in_the_fingerprint_store_equals_a_naive_model() {
    for (policy, store_capacity_entries) in
        [(LRU, Some(5)), (PROB, Some(5)), (FAST_LOADING_WINDOW_1, Some(5)), (PROB, Some(1)), (PROB, None)]
    {
        let mut pair = RecyclerAndModel::with_history(
            DeadPageHistoryScope::FingerprintStore,
            24,
            8,
            policy,
            store_capacity_entries,
        );
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(29);
        for step in 0..40_000 {
            match step % 1000 {
                0 => pair.restart(),
                500 => {
                    pair.set_policy(policy, store_capacity_entries.map(|entries| entries - step / 1000 % 2));
                }
                _ => pair.execute_random_operation(&mut rng, 12),
            }
            pair.assert_recycler_equals_model();
            assert_eq!(
                pair.recycle.dead_page_count(),
                u64::from(pair.recycle.fingerprint_store_len())
                    + pair.model.entries_displaced_by_equal_content.len() as u64
            );
        }
        assert!(pair.hits > 500, "{} hits with {policy:?} and {store_capacity_entries:?}", pair.hits);
    }
}

/// After a restart the fingerprint store is empty, and is filled from the histories of logical pages.
#[test]
fn a_restart_loads_the_dead_pages_with_the_greatest_recycle_probability() {
    for policy in [LRU, PROB, FAST_LOADING_WINDOW_1] {
        let mut pair = RecyclerAndModel::new(24, 8, policy, Some(5));
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(13);
        for step in 0..50_000 {
            if step % 100 == 99 {
                pair.restart();
            }
            pair.execute_random_operation(&mut rng, 12);
            pair.assert_recycler_equals_model();
        }
    }
}

/// The store has thousands of entries of equal recycle probability, so their order is kept in many chunks.
#[test]
fn large_fingerprint_stores_rank_entries_like_a_sorted_list() {
    for policy in [LRU, PROB, FAST_LOADING_WINDOW_1] {
        let mut pair = RecyclerAndModel::new(6_000, 2_000, policy, Some(2_000));
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(17);
        for step in 0..20_000 / test_case_interval(2) {
            pair.execute_random_operation(&mut rng, 9_000);
            if step % 500 == 0 {
                pair.assert_recycler_equals_model();
            }
        }
        let least = 500 / test_case_interval(2);
        assert!(pair.recycle.fingerprint_store_len() > 1_000 && pair.hits > least, "{} hits", pair.hits);
    }
}

#[test]
fn a_fingerprint_store_of_capacity_0_never_hits() {
    for policy in [LRU, PROB, FAST_LOADING_WINDOW_1] {
        let pair = run_random_operations(24, 8, policy, Some(0), 20_000);
        assert_eq!((pair.hits, pair.recycle.fingerprint_store_len()), (0, 0));
        assert!(pair.recycle.statistics().misses > 10_000);
    }
}

/// An unbounded fingerprint store contains every dead page. So it finds a content exactly if a dead page has it, and
/// finds the same page under every policy.
#[test]
fn unbounded_fingerprint_stores_hit_whenever_a_dead_page_has_the_content() {
    let mut pairs = [LRU, PROB].map(|policy| RecyclerAndModel::new(24, 8, policy, None));
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(19);
    for _ in 0..100_000 {
        let content = rng.random_range(0..12);
        let [lru, prob] = pairs.each_mut().map(|pair| {
            let dead = pair
                .model
                .history_by_lpn
                .iter()
                .flatten()
                .any(|&p| pair.model.content_by_ppn[p as usize] == content);
            let found = pair.find_and_compare_dead_page(content);
            assert_eq!(found.is_some(), dead);
            found
        });
        assert_eq!(lru, prob);
        let fork = rng.clone();
        pairs[0].execute_random_operation(&mut rng, 12);
        pairs[1].execute_random_operation(&mut fork.clone(), 12);
    }
    assert_eq!(pairs[0].hits, pairs[1].hits);
    assert!(pairs[0].hits > 10_000);
}

/// Requirement R22: a logical page is written with the content of its own older version, whose dead page is revived.
#[test]
fn a_dead_page_is_revived_by_its_own_logical_page() {
    let mut pair = RecyclerAndModel::new(8, 2, PROB, Some(8));
    let pages: Vec<u32> = (100..103).map(|content| pair.write(0, content).unwrap()).collect();
    assert_eq!(pair.dead_version_ppns(0), [pages[1], pages[0]]);
    assert_eq!(pair.write(0, 100), Some(pages[0]));
    assert_eq!(pair.dead_version_ppns(0), [pages[2], pages[1]]);
    assert_eq!(pair.fingerprint_store_ppns(), [pages[2], pages[1]]);
    pair.assert_recycler_equals_model();
}

/// Requirement R23: the fingerprint store holds only dead pages. Content that a valid page has is programmed again, and
/// the old page can be revived once it is invalid.
#[test]
fn content_of_a_valid_page_is_not_a_recycling_hit() {
    let mut pair = RecyclerAndModel::new(8, 2, PROB, Some(8));
    let first = pair.write(0, 7).unwrap();
    let second = pair.write(0, 7).unwrap();
    assert_ne!(first, second);
    assert_eq!(pair.fingerprint_store_ppns(), [first]);
    assert_eq!(pair.write(1, 7), Some(first));
    assert_eq!(pair.find_and_compare_dead_page(7), None);
    pair.assert_recycler_equals_model();
}

/// Requirement R24: if two dead pages have equal content, the fingerprint store holds the one that is likelier to be
/// revived.
#[test]
fn of_dead_pages_with_equal_content_the_store_keeps_the_greater_recycle_probability() {
    for store_capacity_entries in [Some(8), None] {
        let mut pair = RecyclerAndModel::new(8, 3, PROB, store_capacity_entries);
        let read_often = pair.write(0, 7).unwrap();
        let never_read = pair.write(1, 7).unwrap();
        (0..5).for_each(|_| pair.read(0));
        pair.write(0, 1);
        pair.write(1, 2);
        assert_eq!(pair.fingerprint_store_ppns(), [read_often]);
        assert_eq!(pair.recycle.statistics().offered_pages_of_indexed_content, 1);
        pair.erase(read_often);
        pair.assert_recycler_equals_model();
        let heir: &[u32] = if store_capacity_entries.is_none() { &[never_read] } else { &[] };
        assert_eq!(pair.fingerprint_store_ppns(), heir);
        pair.restart();
        assert_eq!(pair.fingerprint_store_ppns(), [never_read], "the page dropped stays eligible for reload");
    }
}

/// Requirement R24: a page that dies later and is likelier to be revived replaces the store entry with equal content.
#[test]
fn a_dead_page_with_greater_recycle_probability_replaces_the_entry_of_equal_content() {
    let mut pair = RecyclerAndModel::new(8, 3, PROB, Some(8));
    let never_read = pair.write(0, 7).unwrap();
    let read_once = pair.write(1, 7).unwrap();
    pair.read(1);
    pair.write(0, 1);
    assert_eq!(pair.fingerprint_store_ppns(), [never_read]);
    pair.write(1, 2);
    assert_eq!(pair.fingerprint_store_ppns(), [read_once]);
}

/// Requirement R25: a revived page keeps its access count.
#[test]
fn a_revived_page_keeps_its_access_count() {
    let mut pair = RecyclerAndModel::new(8, 2, PROB, Some(8));
    let page = pair.write(0, 7).unwrap();
    (0..3).for_each(|_| pair.read(0));
    pair.write(0, 8);
    assert_eq!(pair.write(1, 7), Some(page));
    pair.read(1);
    assert_eq!(pair.recycle.read_count(Ppn(page)), 4);
    pair.erase_all_versions_and_check();
}

impl RecyclerAndModel {
    /// Erases all invalid pages, and asserts that recycler and model then hold no dead page.
    fn erase_all_versions_and_check(&mut self) {
        self.invalid_ppns().into_iter().for_each(|ppn| self.erase(ppn));
        self.assert_recycler_equals_model();
        assert_eq!((self.recycle.dead_page_count(), self.recycle.fingerprint_store_len()), (0, 0));
    }
}

/// Requirement R26: an erased page is neither in the history nor in the fingerprint store, and its access count is 0
/// again.
#[test]
fn an_erased_page_is_not_a_recycling_hit() {
    let mut pair = RecyclerAndModel::new(8, 2, PROB, Some(8));
    let page = pair.write(0, 7).unwrap();
    pair.read(0);
    pair.write(0, 8);
    pair.erase(page);
    assert_eq!(pair.find_and_compare_dead_page(7), None);
    assert_eq!((pair.dead_version_ppns(0), pair.recycle.read_count(Ppn(page))), (vec![], 0));
    pair.assert_recycler_equals_model();
}

/// Erasing a block at once leaves the same recycler state as erasing its pages one by one.
#[test]
fn erasing_a_block_leaves_the_same_recycling_state_as_erasing_its_pages_one_by_one() {
    let mut pair = RecyclerAndModel::new(64, 20, PROB, Some(12));
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(23);
    let mut blocks_erased = 0;
    for _ in 0..50_000 {
        pair.execute_random_operation(&mut rng, 40);
        let first = rng.random_range(0..8) * 8;
        let is_valid = |&state: &PageState| matches!(state, PageState::Valid(_));
        if pair.model.page_states[first as usize..][..8].iter().any(is_valid) {
            continue;
        }
        let spare = pair.model.spare_area_owner_by_ppn.clone();
        let mut at_once = pair.recycle.clone();
        at_once.record_block_erased(Ppn(first), 8, |ppn| Lpn(spare[ppn.index()]));
        (first..first + 8).for_each(|ppn| pair.erase(ppn));
        pair.recycle = at_once;
        pair.assert_recycler_equals_model();
        blocks_erased += 1;
    }
    assert!(blocks_erased > 100, "{blocks_erased} blocks erased");
}

/// Requirement R28: pages that were never read all have recycle probability 0. The store then evicts the oldest version
/// of a logical page, and among equal versions the entry that entered first.
#[test]
fn never_read_dead_pages_are_evicted_by_version_then_recency() {
    let mut pair = RecyclerAndModel::new(8, 2, PROB, Some(8));
    let a: Vec<u32> = [10, 11, 12].iter().map(|&content| pair.write(0, content).unwrap()).collect();
    let b: Vec<u32> = [20, 21].iter().map(|&content| pair.write(1, content).unwrap()).collect();
    assert!(pair.recycle.fingerprint_store_entries().all(|entry| entry.recycle_probability == 0.0));
    assert_eq!(
        pair.fingerprint_store_ppns(),
        [b[0], a[1], a[0]],
        "newest versions first, the later death before"
    );
}

/// Requirement R29: a trimmed page remains in the history (list of dead pages) of its logical page, and can be revived.
#[test]
fn a_trimmed_page_can_be_revived() {
    let mut pair = RecyclerAndModel::new(8, 2, PROB, Some(8));
    let page = pair.write(0, 7).unwrap();
    pair.trim(0);
    assert_eq!(pair.dead_version_ppns(0), [page]);
    pair.assert_recycler_equals_model();
    assert_eq!(pair.write(1, 7), Some(page));
    assert_eq!(pair.dead_version_ppns(0), []);
    pair.assert_recycler_equals_model();
}

/// Requirement R18: GC moves the access count with a page. The new page keeps the position in the history, and the
/// source of the copy cannot be revived.
#[test]
fn a_gc_copy_keeps_the_access_count_of_its_page() {
    let mut pair = RecyclerAndModel::new(8, 2, PROB, Some(8));
    let old = pair.write(0, 7).unwrap();
    let source = pair.write(0, 8).unwrap();
    (0..4).for_each(|_| pair.read(0));
    pair.copy(0);
    let target = pair.model.mapping[0].unwrap();
    assert_eq!((pair.recycle.read_count(Ppn(source)), pair.recycle.read_count(Ppn(target))), (0, 4));
    pair.erase(source);
    assert_eq!((pair.find_and_compare_dead_page(8), pair.dead_version_ppns(0)), (None, vec![old]));
    pair.write(0, 9);
    assert_eq!(pair.dead_version_ppns(0), [target, old]);
    pair.assert_recycler_equals_model();
}

/// Requirement R17: after a dead page of logical page 2 was revived, the newest dead pages of logical pages 1 and 3 are
/// at the head of the store, although they were never read.
#[test]
fn fast_loading_moves_dead_pages_of_neighbouring_lpns_to_the_head_of_the_fingerprint_store() {
    let mut pair = RecyclerAndModel::new(24, 6, FAST_LOADING_WINDOW_1, Some(3));
    let dying: Vec<u32> = (0..5).map(|lpn| pair.write(lpn, 100 + lpn as u64).unwrap()).collect();
    (0..5).for_each(|lpn| _ = pair.write(lpn, 200 + lpn as u64));
    assert_eq!(pair.fingerprint_store_ppns(), [dying[4], dying[3], dying[2]]);
    pair.write(5, 102);
    assert_eq!(pair.fingerprint_store_ppns(), [dying[1], dying[3], dying[4]]);
    let probabilities: Vec<f64> =
        pair.recycle.fingerprint_store_entries().map(|entry| entry.recycle_probability).collect();
    assert_eq!(probabilities, [1.0, 1.0, 0.0]);
    let statistics = pair.recycle.statistics();
    assert_eq!(
        (statistics.entries_promoted_by_fast_loading, statistics.dead_pages_offered_by_fast_loading),
        (1, 1),
        "page 3 was in the store, page 1 was read"
    );
    pair.assert_recycler_equals_model();
}

/// With a fast-loading window of 2, a hit on a dead page of logical page n also loads the newest dead pages of logical
/// pages n-2, n-1, n+1 and n+2 into the fingerprint store. The recycle probability of a loaded page still decreases
/// with newer dead versions of its logical page.
#[test]
fn fast_loading_with_window_2_loads_two_neighbours_on_each_side_and_their_recycle_probability_decays() {
    let mut pair = RecyclerAndModel::new(24, 6, FAST_LOADING_WINDOW_2, Some(8));
    let dying: Vec<u32> = (0..5).map(|lpn| pair.write(lpn, 100 + lpn as u64).unwrap()).collect();
    (0..5).for_each(|lpn| _ = pair.write(lpn, 200 + lpn as u64));
    pair.write(5, 102);
    assert_eq!(pair.fingerprint_store_ppns(), [dying[3], dying[1], dying[4], dying[0]]);
    pair.write(3, 303);
    let decayed = pair.recycle.fingerprint_store_entries().find(|entry| entry.ppn.0 == dying[3]).unwrap();
    assert!((decayed.recycle_probability - 0.85).abs() < 1e-12);
    pair.assert_recycler_equals_model();
}

/// Each newer dead version of a logical page lowers the version number of a dead page by one. If a newer dead version
/// is revived, the version numbers of all older ones rise by one again.
#[test]
fn versions_older_than_a_revived_page_increase_by_one() {
    let mut pair = RecyclerAndModel::new(8, 2, PROB, Some(8));
    (0..4).for_each(|content| {
        pair.write(0, 100 + content);
        pair.read(0);
    });
    let oldest = *pair.dead_version_ppns(0).last().unwrap();
    let before = pair.recycle.recycle_probability(Ppn(oldest));
    pair.write(1, 101);
    assert!((pair.recycle.recycle_probability(Ppn(oldest)) - before / 0.85).abs() < 1e-12);
    pair.assert_recycler_equals_model();
}

/// Factors of the formula for the recycle probability that are not between their limits are refused.
#[test]
fn recycling_factors_outside_their_range_are_refused() {
    let default = RecycleOptions::default();
    assert_eq!(default.clone().require_paper_ranges(), Ok(default.clone()));
    let alpha = RecycleOptions { popularity_growth_alpha: 0.2, ..default.clone() };
    assert_eq!(alpha.require_paper_ranges(), Err(RecycleError::PopularityGrowthAlphaOutOfRange(0.2)));
    let beta = RecycleOptions { probability_decay_beta: 0.1, ..default };
    assert_eq!(beta.require_paper_ranges(), Err(RecycleError::ProbabilityDecayBetaOutOfRange(0.1)));
}

/// The RAM of recycling is reported as a list of its tables, with the sizes that the paper states.
#[test]
fn recycling_ram_is_itemised_as_the_paper_counts_it() {
    let recycle = Recycler::new(10_485_760, 8_912_896, &RecycleOptions::default());
    let mib: Vec<(&str, f64)> = recycle
        .ram_bytes_by_structure()
        .into_iter()
        .map(|(what, bytes)| (what, bytes as f64 / f64::from(1 << 20)))
        .collect();
    let expected = [
        ("history: next", 40.0),
        ("history: previous", 40.0),
        ("history: owner", 40.0),
        ("history: heads", 34.0),
        ("accesses", 5.0),
        ("fingerprint store", 3.0),
    ];
    assert_eq!(mib, expected);
}

/// If the history (list of dead pages per logical page) covers only dead pages in the fingerprint store, its RAM
/// depends on the capacity of the store.
#[test]
fn recycling_ram_does_not_depend_on_drive_size_if_the_history_has_only_pages_in_the_fingerprint_store() {
    let options = RecycleOptions {
        dead_page_history_scope: DeadPageHistoryScope::FingerprintStore,
        ..RecycleOptions::default()
    };
    for pages in [1 << 20, 1 << 24] {
        let recycle = Recycler::new(pages, 900_000, &options);
        let bytes: u64 = recycle.ram_bytes_by_structure().iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(bytes, (24 + 20 + 5) * 131_072, "store, history and read counts of each entry");
    }
}

#[test]
#[should_panic(expected = "dies twice")]
fn reporting_a_dead_page_as_dead_again_panics() {
    let mut recycle = Recycler::new(8, 2, &RecycleOptions::default());
    recycle.record_page_invalidated(Lpn(0), Ppn(1), None, Fingerprint(1));
    recycle.record_page_invalidated(Lpn(0), Ppn(1), None, Fingerprint(1));
}
