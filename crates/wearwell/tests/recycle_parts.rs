//! Tests of the data structures of Recyclable SSD (revives dead pages) against a naive model, and one test per edge
//! case.
//!
//! The model keeps plain vectors, recomputes every recycle probability from the formulas of the paper, and sorts. It
//! shares only the rules with the product code. [`Pair`] executes the same operations on both. After each it compares
//! look-ups, ranks, the order of the fingerprint store, histories, access counts and owners.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::address::{Lpn, Ppn};
use wearwell::content::recycle::{
    FingerprintStorePolicy, HistoryScope, RecycleError, RecycleOptions, Recycler,
};
use wearwell::data::Fingerprint;

use crate::common::exploration_interval;

/// Number of operations in a comparison with the model. By default a fourth of them is executed.
const STEPS: u64 = 200_000;
/// Fingerprint store that evicts the least recent entry.
const LRU: FingerprintStorePolicy = FingerprintStorePolicy::Lru;
/// Fingerprint store that evicts the entry least likely to be revived.
const PROB: FingerprintStorePolicy = FingerprintStorePolicy::Probability;
/// Fingerprint store by probability that also loads dead pages of one neighbouring logical page on each side.
const FAST: FingerprintStorePolicy = FingerprintStorePolicy::ProbabilityFastLoading { window: 1 };
/// Fingerprint store by probability that also loads dead pages of two neighbouring logical pages on each side.
const FAST_2: FingerprintStorePolicy = FingerprintStorePolicy::ProbabilityFastLoading { window: 2 };

/// State of a flash page in the model.
#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    /// The page is erased.
    Free,
    /// The page holds the newest content of this logical page.
    Valid(u32),
    /// The page holds an older version of this logical page, and may be revived.
    Dead(u32),
    /// The page is garbage that is no version of a logical page: the source of a GC copy, for example.
    Stale,
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
    access_count_and_position: (u8, usize),
    /// Time at which the entry was last ordered; larger is more recent.
    time: u64,
}

/// Naive model of recycling: plain vectors, searched and sorted at every operation.
#[derive(Clone)]
struct Model {
    /// Policy of the fingerprint store.
    policy: FingerprintStorePolicy,
    /// Capacity of the fingerprint store, entries; `None`: unbounded.
    capacity: Option<u32>,
    /// State of each flash page.
    states: Vec<State>,
    /// Content of each flash page.
    contents: Vec<u64>,
    /// Logical page that the spare area of each flash page names.
    spare: Vec<u32>,
    /// Access count of each flash page.
    accesses: Vec<u8>,
    /// Valid flash page of each logical page.
    mapping: Vec<Option<u32>>,
    /// Dead pages of each logical page, newest first.
    history_by_lpn: Vec<Vec<u32>>,
    /// Entries of the fingerprint store.
    entries: Vec<Entry>,
    /// Dead pages whose content equals that of an entry of the fingerprint store, the last displaced first. They are
    /// kept only by an unbounded store.
    displaced_equal_entries: Vec<Entry>,
    /// Time of the last change of an entry, a counter.
    clock: u64,
    /// Pages that the history (list of dead pages per logical page) covers: all dead pages, or those in the fingerprint
    /// store.
    scope: HistoryScope,
    /// Number of read counters that flash pages share: pages with the same remainder of their number share one. `None`
    /// if each page has a counter.
    read_counters: Option<u32>,
}

/// Computes the recycle probability of a dead page by equations 1 to 4 of the Recyclable SSD paper, with the default
/// factors. `position` is the number of newer dead versions of its logical page.
fn probability(accesses: u8, position: usize) -> f64 {
    let initial = (1.1f64.powf(accesses as f64) - 1.0) / (1.1f64.powf(15.0) - 1.0);
    initial * 0.85f64.powf(position.min(15) as f64)
}

impl Model {
    /// Creates the model of an empty device of `pages` flash pages and `logical` logical pages.
    fn new(pages: u32, logical: u32, options: &RecycleOptions) -> Self {
        Self {
            policy: options.policy,
            capacity: options.capacity_entries,
            states: vec![State::Free; pages as usize],
            contents: vec![0; pages as usize],
            spare: vec![0; pages as usize],
            accesses: vec![0; pages as usize],
            mapping: vec![None; logical as usize],
            history_by_lpn: vec![Vec::new(); logical as usize],
            entries: Vec::new(),
            displaced_equal_entries: Vec::new(),
            clock: 0,
            scope: options.history_scope,
            read_counters: (options.history_scope == HistoryScope::FingerprintStore)
                .then(|| options.capacity_entries.unwrap_or(pages).max(1)),
        }
    }

    /// Sets the read count of a flash page. If several pages share one read counter, the other pages of this counter
    /// then have a count of 0.
    fn set_accesses(&mut self, ppn: u32, count: u8) {
        if let Some(counters) = self.read_counters.filter(|_| count > 0) {
            let shares = |page: u32| page % counters == ppn % counters;
            (0..).zip(&mut self.accesses).filter(|&(page, _)| shares(page)).for_each(|(_, count)| *count = 0);
        }
        self.accesses[ppn as usize] = count;
    }

    /// Returns whether the fingerprint store may take a page that just became invalid.
    fn may_enter(&self, ppn: u32) -> bool {
        let content = self.contents[ppn as usize];
        let is_full = self.capacity.is_some_and(|capacity| self.entries.len() >= capacity as usize);
        if !is_full || self.entries.iter().any(|entry| entry.content == content) {
            return true;
        }
        let accesses = if self.policy == LRU { 0 } else { self.accesses[ppn as usize] };
        let newest = (probability(accesses, 0), 15, u64::MAX);
        self.best_first().last().is_some_and(|worst| newest > self.key(worst))
    }

    /// Removes dead pages that are not in the fingerprint store from the history, if the history covers only the store.
    fn drop_unstored_from_history(&mut self) {
        if self.scope == HistoryScope::AllPages {
            return;
        }
        for ppn in (0..self.states.len() as u32).rev() {
            let is_stored =
                self.entries.iter().chain(&self.displaced_equal_entries).any(|entry| entry.ppn == ppn);
            if matches!(self.states[ppn as usize], State::Dead(_)) && !is_stored {
                self.take_out(ppn);
                self.states[ppn as usize] = State::Stale;
            }
        }
    }

    /// Returns the position of a dead page in the history of its logical page, 0 for the newest.
    fn position(&self, ppn: u32) -> usize {
        let State::Dead(owner) = self.states[ppn as usize] else { panic!("page {ppn} is not dead") };
        self.history_by_lpn[owner as usize].iter().position(|&p| p == ppn).expect("a dead page is listed")
    }

    /// Returns access count and position in the history by which a store entry is ordered; zeros under LRU.
    fn access_count_and_position(&self, entry: &Entry) -> (u8, usize) {
        if self.policy == LRU { (0, 0) } else { (entry.accesses, self.position(entry.ppn).min(15)) }
    }

    /// Returns the sort key of a store entry: recycle probability, newness of the version, time of the last change.
    fn key(&self, entry: &Entry) -> (f64, usize, u64) {
        let (accesses, position) = self.access_count_and_position(entry);
        (probability(accesses, position), 15 - position, entry.time)
    }

    /// Returns the recycle probability of a dead page, and a number that is greater for newer versions of its logical
    /// page. Both are computed under every store policy.
    fn worth(&self, ppn: u32, accesses: u8) -> (f64, usize) {
        let position = self.position(ppn).min(15);
        (probability(accesses, position), 15 - position)
    }

    /// Returns the entries of the fingerprint store, the likeliest to be revived first.
    fn best_first(&self) -> Vec<Entry> {
        let mut sorted = self.entries.clone();
        sorted.sort_by(|a, b| self.key(b).partial_cmp(&self.key(a)).expect("keys are numbers"));
        sorted
    }

    /// Returns the flash page and the rank (1 for the best) of the store entry with this content.
    fn find(&self, content: u64) -> Option<(u32, u64)> {
        let found = self.entries.iter().find(|entry| entry.content == content)?;
        let better = self.entries.iter().filter(|entry| self.key(entry) > self.key(found)).count();
        Some((found.ppn, better as u64 + 1))
    }

    /// Advances the clock and returns its time.
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Orders the store entries of a logical page anew, newest version first, if their positions in the history
    /// changed.
    fn reorder_list(&mut self, lpn: u32) {
        for ppn in self.history_by_lpn[lpn as usize].clone() {
            let Some(i) = self.entries.iter().position(|entry| entry.ppn == ppn) else { continue };
            let class = self.access_count_and_position(&self.entries[i]);
            if class != self.entries[i].access_count_and_position {
                self.entries[i].access_count_and_position = class;
                self.entries[i].time = self.tick();
            }
        }
    }

    /// Adds an entry to the fingerprint store.
    fn insert(&mut self, mut entry: Entry) {
        entry.time = self.tick();
        entry.access_count_and_position = self.access_count_and_position(&entry);
        self.entries.push(entry);
    }

    /// Removes the worst entry of the fingerprint store.
    fn evict_worst(&mut self) {
        let worst = self.best_first().pop().expect("a full store has entries");
        self.entries.retain(|entry| entry.ppn != worst.ppn);
    }

    /// Offers a dead page to the fingerprint store, which takes it if it has a free entry or a worse one.
    fn offer_to_store(&mut self, ppn: u32, accesses: u8) {
        let entry = Entry {
            ppn,
            content: self.contents[ppn as usize],
            accesses,
            access_count_and_position: (0, 0),
            time: 0,
        };
        if let Some(i) = self.entries.iter().position(|rival| rival.content == entry.content) {
            self.resolve_equal_content(i, entry);
        } else if self.capacity == Some(0) {
        } else if self.capacity.is_some_and(|capacity| self.entries.len() >= capacity as usize) {
            let worst = *self.best_first().last().expect("a full store has entries");
            if self.key(&Entry { time: u64::MAX, ..entry }) > self.key(&worst) {
                self.evict_worst();
                self.insert(entry);
            }
        } else {
            self.insert(entry);
        }
    }

    /// Decides which of two dead pages with equal content the store holds: the entry with index `rival`, or `entry`.
    fn resolve_equal_content(&mut self, rival: usize, entry: Entry) {
        let old = self.entries[rival];
        if self.worth(entry.ppn, entry.accesses) >= self.worth(old.ppn, old.accesses) {
            self.entries.remove(rival);
            self.insert(entry);
            self.keep_twin(old);
        } else {
            self.keep_twin(entry);
            if self.policy == LRU {
                self.entries[rival].time = self.tick();
            }
        }
    }

    /// Keeps a displaced dead page in an unbounded store.
    fn keep_twin(&mut self, entry: Entry) {
        if self.capacity.is_none() {
            self.displaced_equal_entries.insert(0, entry);
        }
    }

    /// Removes dead page `ppn` from its history and from the fingerprint store.
    fn take_out(&mut self, ppn: u32) {
        let State::Dead(owner) = self.states[ppn as usize] else { panic!("page {ppn} is not dead") };
        let entry = self.entries.iter().position(|entry| entry.ppn == ppn).map(|i| self.entries.remove(i));
        self.displaced_equal_entries.retain(|twin| twin.ppn != ppn);
        self.history_by_lpn[owner as usize].retain(|&p| p != ppn);
        self.reorder_list(owner);
        if let Some(entry) = entry
            && let Some(i) =
                self.displaced_equal_entries.iter().position(|twin| twin.content == entry.content)
        {
            let heir = self.displaced_equal_entries.remove(i);
            self.insert(heir);
        }
    }

    /// Records that flash page `ppn` of a logical page became invalid.
    fn invalidate(&mut self, lpn: u32, ppn: u32) {
        if self.scope == HistoryScope::FingerprintStore && !self.may_enter(ppn) {
            self.states[ppn as usize] = State::Stale;
            return;
        }
        self.states[ppn as usize] = State::Dead(lpn);
        self.history_by_lpn[lpn as usize].insert(0, ppn);
        self.reorder_list(lpn);
        self.offer_to_store(ppn, self.accesses[ppn as usize]);
    }

    /// Executes fast loading: moves the newest dead pages of neighbouring logical pages to the head of the fingerprint
    /// store. Returns the dead pages that are not in the store and must be loaded from flash.
    fn fast_load_neighbours(&mut self, owner: u32) -> Vec<u32> {
        let FingerprintStorePolicy::ProbabilityFastLoading { window } = self.policy else {
            return Vec::new();
        };
        let mut unknown = Vec::new();
        for distance in (1..=window as i64).rev() {
            for lpn in [owner as i64 - distance, owner as i64 + distance] {
                let list = usize::try_from(lpn).ok().and_then(|lpn| self.history_by_lpn.get(lpn));
                let Some(&ppn) = list.and_then(|list| list.first()) else { continue };
                if !self.move_to_head(ppn) && self.capacity != Some(0) {
                    unknown.push(ppn);
                }
            }
        }
        unknown
    }

    /// Moves the store entry of a dead page to the head of the store; returns `false` if the page is not in the store.
    fn move_to_head(&mut self, ppn: u32) -> bool {
        if let Some(i) = self.entries.iter().position(|entry| entry.ppn == ppn) {
            let entry = self.entries.remove(i);
            self.insert(Entry { accesses: 15, ..entry });
            return true;
        }
        self.displaced_equal_entries.iter().any(|twin| twin.ppn == ppn)
    }

    /// Changes policy and capacity of the fingerprint store, and evicts entries beyond the capacity.
    fn set_policy(&mut self, policy: FingerprintStorePolicy, capacity: Option<u32>) {
        (self.policy, self.capacity) = (policy, capacity);
        for i in 0..self.entries.len() {
            self.entries[i].access_count_and_position = self.access_count_and_position(&self.entries[i]);
        }
        if capacity.is_some() {
            self.displaced_equal_entries.clear();
        }
        while capacity.is_some_and(|capacity| self.entries.len() > capacity as usize) {
            self.evict_worst();
        }
    }

    /// Returns the dead pages that the store loads after a restart, the likeliest to be revived last.
    fn reload_candidates(&self) -> Vec<u32> {
        let mut dead: Vec<u32> = self.history_by_lpn.iter().flatten().copied().collect();
        let key = |ppn: u32| (self.worth(ppn, self.accesses[ppn as usize]), ppn);
        dead.sort_by(|&a, &b| key(a).partial_cmp(&key(b)).expect("keys are numbers"));
        let keep = self.capacity.map_or(dead.len(), |capacity| dead.len().min(capacity as usize));
        dead.split_off(dead.len() - keep)
    }
}

/// The recycler under test and the naive model, on both of which each operation is executed.
#[derive(Clone)]
struct Pair {
    /// Naive model.
    model: Model,
    /// Recycler under test (the mechanism that revives dead pages).
    recycle: Recycler,
    /// Number of look-ups that found a dead page.
    hits: u64,
}

impl Pair {
    /// Creates model and recycler of an empty device, with a history of all dead pages.
    fn new(pages: u32, logical: u32, policy: FingerprintStorePolicy, capacity: Option<u32>) -> Self {
        Self::with_history(HistoryScope::AllPages, pages, logical, policy, capacity)
    }

    /// Creates model and recycler of an empty device, with a history (list of dead pages per logical page) of this
    /// scope.
    fn with_history(
        history: HistoryScope,
        pages: u32,
        logical: u32,
        policy: FingerprintStorePolicy,
        capacity: Option<u32>,
    ) -> Self {
        let options = RecycleOptions {
            policy,
            capacity_entries: capacity,
            history_scope: history,
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
    fn free_page(&self) -> Option<u32> {
        self.model.states.iter().position(|&state| state == State::Free).map(|p| p as u32)
    }

    /// Returns the invalid flash pages, which may be erased.
    fn garbage(&self) -> Vec<u32> {
        let is_garbage =
            |&ppn: &u32| matches!(self.model.states[ppn as usize], State::Dead(_) | State::Stale);
        (0..self.model.states.len() as u32).filter(is_garbage).collect()
    }

    /// Looks up a content in recycler and model, and asserts that both return the same page and rank.
    fn find(&mut self, content: u64) -> Option<u32> {
        let expected = self.model.find(content);
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
        let hit = self.find(content);
        let (ppn, owner) = match hit {
            Some(ppn) => (ppn, Some(self.revive(ppn, lpn))),
            None => (self.program(lpn, content)?, None),
        };
        if let Some(old) = self.model.mapping[lpn as usize].replace(ppn) {
            self.invalidate(lpn, old);
        }
        if let Some(owner) = owner {
            self.load_neighbours(owner);
        }
        Some(ppn)
    }

    /// Makes dead page `ppn` valid again for logical page `lpn`; returns the logical page of which it was a version.
    fn revive(&mut self, ppn: u32, lpn: u32) -> u32 {
        let State::Dead(owner) = self.model.states[ppn as usize] else {
            panic!("a hit on a page that is not dead")
        };
        assert_eq!(self.recycle.owner(Ppn(ppn), Lpn(self.model.spare[ppn as usize])), Lpn(owner));
        self.model.take_out(ppn);
        self.model.states[ppn as usize] = State::Valid(lpn);
        self.recycle.revive_page(Ppn(ppn), Lpn(owner), Lpn(lpn));
        owner
    }

    /// Programs an erased flash page for a logical page; returns the flash page.
    fn program(&mut self, lpn: u32, content: u64) -> Option<u32> {
        let ppn = self.free_page()?;
        self.model.states[ppn as usize] = State::Valid(lpn);
        self.model.contents[ppn as usize] = content;
        self.model.spare[ppn as usize] = lpn;
        self.recycle.record_page_programmed(Lpn(lpn), Ppn(ppn));
        Some(ppn)
    }

    /// Records in model and recycler that a flash page became invalid.
    fn invalidate(&mut self, lpn: u32, ppn: u32) {
        self.model.invalidate(lpn, ppn);
        let successor = self.valid(lpn);
        let content = Self::fingerprint(self.model.contents[ppn as usize]);
        self.recycle.record_page_invalidated(Lpn(lpn), Ppn(ppn), successor, content);
        self.drop_unstored_from_history();
    }

    /// Removes pages that the fingerprint store does not hold from the history, if it covers only the store.
    fn drop_unstored_from_history(&mut self) {
        self.model.drop_unstored_from_history();
        self.recycle.remove_queued_pages_from_history(|ppn| Lpn(self.model.spare[ppn.index()]));
    }

    /// Returns the valid flash page of a logical page.
    fn valid(&self, lpn: u32) -> Option<Ppn> {
        self.model.mapping[lpn as usize].map(Ppn)
    }

    /// Executes fast loading of the dead pages of logical pages near `owner`, and compares the loaded pages.
    fn load_neighbours(&mut self, owner: u32) {
        let mut pages = Vec::new();
        let model = &self.model;
        self.recycle.raise_or_append_neighbour_pages(
            Lpn(owner),
            |lpn| model.mapping[lpn.index()].map(Ppn),
            &mut pages,
        );
        let pages: Vec<u32> = pages.into_iter().map(|ppn| ppn.0).collect();
        assert_eq!(pages, self.model.fast_load_neighbours(owner));
        for ppn in pages {
            if !self.model.move_to_head(ppn) {
                self.model.offer_to_store(ppn, 15);
            }
            self.recycle
                .offer_fast_loaded_page(Ppn(ppn), Self::fingerprint(self.model.contents[ppn as usize]));
            self.drop_unstored_from_history();
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
        let (Some(from), Some(to)) = (self.model.mapping[lpn as usize], self.free_page()) else { return };
        let model = &mut self.model;
        model.states[from as usize] = State::Stale;
        model.states[to as usize] = State::Valid(lpn);
        model.contents[to as usize] = model.contents[from as usize];
        model.spare[to as usize] = lpn;
        let count = std::mem::take(&mut model.accesses[from as usize]);
        model.set_accesses(to, count);
        model.mapping[lpn as usize] = Some(to);
        self.recycle.record_page_moved(Lpn(lpn), Ppn(from), Ppn(to));
    }

    /// Erases a flash page.
    fn erase(&mut self, ppn: u32) {
        let spare = Lpn(self.model.spare[ppn as usize]);
        let owner = self.recycle.owner(Ppn(ppn), spare);
        if let State::Dead(expected) = self.model.states[ppn as usize] {
            assert_eq!(owner, Lpn(expected));
            self.model.take_out(ppn);
        }
        self.model.states[ppn as usize] = State::Free;
        self.model.accesses[ppn as usize] = 0;
        self.recycle.record_page_erased(owner, Ppn(ppn));
    }

    /// Executes a restart, after which the fingerprint store is loaded from the history.
    fn restart(&mut self) {
        self.model.entries.clear();
        self.model.displaced_equal_entries.clear();
        self.recycle.clear_fingerprint_store_after_power_loss();
        assert_eq!(self.recycle.fingerprint_store_len(), 0);
        let pages: Vec<u32> = self.recycle.pages_to_reload().into_iter().map(|ppn| ppn.0).collect();
        assert_eq!(pages, self.model.reload_candidates());
        for ppn in pages {
            self.model.offer_to_store(ppn, self.model.accesses[ppn as usize]);
            self.recycle
                .load_dead_page_after_restart(Ppn(ppn), Self::fingerprint(self.model.contents[ppn as usize]));
        }
        self.model.drop_unstored_from_history();
        self.recycle.remove_unloaded_pages_from_history(|ppn| Lpn(self.model.spare[ppn.index()]));
    }

    /// Changes policy and capacity of the fingerprint store.
    fn set_policy(&mut self, policy: FingerprintStorePolicy, capacity: Option<u32>) {
        self.model.set_policy(policy, capacity);
        self.recycle.set_policy(policy, capacity);
        self.drop_unstored_from_history();
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
                let garbage = self.garbage();
                if !garbage.is_empty() {
                    self.erase(garbage[rng.random_range(0..garbage.len())]);
                }
            }
        }
    }

    /// Asserts that recycler and model agree in all their state.
    fn check(&self) {
        let model = &self.model;
        self.recycle.check(|lpn| model.mapping[lpn.index()].map(Ppn)).unwrap();
        let expected: Vec<(u32, u64)> = model.best_first().iter().map(|e| (e.ppn, e.content)).collect();
        let actual: Vec<(u32, u64)> =
            self.recycle.fingerprint_store_entries().map(|e| (e.ppn.0, e.fingerprint.0)).collect();
        assert_eq!(actual, expected);
        for (lpn, list) in (0..).zip(&model.history_by_lpn) {
            assert_eq!(&self.versions(lpn), list);
        }
        for (ppn, &state) in (0..).map(Ppn).zip(&model.states) {
            assert_eq!(self.recycle.read_count(ppn), model.accesses[ppn.index()]);
            assert_eq!(self.recycle.is_dead(ppn), matches!(state, State::Dead(_)));
            if let State::Valid(owner) | State::Dead(owner) = state {
                assert_eq!(self.recycle.owner(ppn, Lpn(model.spare[ppn.index()])), Lpn(owner));
            }
        }
        self.check_weight();
    }

    /// Asserts that the weight of all dead pages, by which recycling-aware GC compares blocks, is as expected.
    fn check_weight(&self) {
        let dead: Vec<u32> = self.model.history_by_lpn.iter().flatten().copied().collect();
        let loaded = |ppn: u32| {
            self.model.entries.iter().chain(&self.model.displaced_equal_entries).find(|e| e.ppn == ppn)
        };
        let accesses =
            |ppn: u32| loaded(ppn).map_or(self.model.accesses[ppn as usize], |entry| entry.accesses);
        let expected: f64 = dead.iter().map(|&ppn| 1.0 - self.model.worth(ppn, accesses(ppn)).0).sum();
        let actual = self.recycle.recycling_victim_weight(dead.iter().map(|&ppn| Ppn(ppn)));
        assert!((actual - expected).abs() < 1e-9, "weight {actual}, expected {expected}");
    }

    /// Returns the flash pages of the store entries, the likeliest to be revived first.
    fn entry_pages(&self) -> Vec<u32> {
        self.recycle.fingerprint_store_entries().map(|entry| entry.ppn.0).collect()
    }

    /// Returns the dead flash pages of a logical page, newest first.
    fn versions(&self, lpn: u32) -> Vec<u32> {
        self.recycle.dead_versions(Lpn(lpn), self.valid(lpn)).map(|ppn| ppn.0).collect()
    }
}

/// Executes random operations on recycler and model, and compares them after each.
fn drive(
    pages: u32,
    logical: u32,
    policy: FingerprintStorePolicy,
    capacity: Option<u32>,
    operations: u64,
) -> Pair {
    let mut pair = Pair::new(pages, logical, policy, capacity);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(0x5eed);
    for _ in 0..operations {
        pair.execute_random_operation(&mut rng, 12);
        pair.check();
    }
    pair
}

#[test]
fn recycling_with_lru_equals_a_naive_model() {
    assert!(
        drive(24, 8, LRU, Some(5), STEPS / exploration_interval(8)).hits > 10_000 / exploration_interval(8)
    );
}

#[test]
fn recycling_with_the_probability_policy_equals_a_naive_model() {
    assert!(
        drive(24, 8, PROB, Some(5), STEPS / exploration_interval(8)).hits > 10_000 / exploration_interval(8)
    );
}

#[test]
fn recycling_with_fast_loading_window_1_equals_a_naive_model() {
    let pair = drive(24, 8, FAST, Some(5), STEPS / exploration_interval(8));
    assert!(
        pair.hits > 10_000 / exploration_interval(8)
            && pair.recycle.statistics().pages_offered_by_fast_loading > 1_000 / exploration_interval(8)
    );
}

#[test]
fn recycling_with_fast_loading_window_2_equals_a_naive_model() {
    let pair = drive(24, 8, FAST_2, Some(3), STEPS / exploration_interval(8));
    assert!(
        pair.hits > 10_000 / exploration_interval(8)
            && pair.recycle.statistics().entries_raised_by_fast_loading > 1_000 / exploration_interval(8)
    );
}

#[test]
fn recycling_with_an_unbounded_store_equals_a_naive_model() {
    assert!(
        drive(24, 8, PROB, None, STEPS / exploration_interval(8)).hits > 10_000 / exploration_interval(8)
    );
}

#[test]
fn recycling_with_an_unbounded_lru_store_equals_a_naive_model() {
    assert!(drive(24, 8, LRU, None, STEPS / exploration_interval(8)).hits > 10_000 / exploration_interval(8));
}

#[test]
fn recycling_with_unbounded_fast_loading_equals_a_naive_model() {
    assert!(
        drive(24, 8, FAST, None, STEPS / exploration_interval(8)).hits > 10_000 / exploration_interval(8)
    );
}

/// Two logical pages share 48 flash pages. So their histories are longer than 15 dead pages, from where the recycle
/// probability does not decrease any more.
#[test]
fn recycling_with_long_page_histories_equals_a_naive_model() {
    let mut pair = Pair::new(48, 2, PROB, Some(30));
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut longest = 0;
    for _ in 0..100_000 / exploration_interval(2) {
        pair.execute_random_operation(&mut rng, 60);
        pair.check();
        longest = longest.max(pair.versions(0).len());
    }
    assert!(longest > 20, "the longest history had {longest} pages");
}

#[test]
fn recycling_equals_a_naive_model_when_policy_and_capacity_change_during_a_run() {
    let mut pair = Pair::new(24, 8, PROB, Some(5));
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
    for _ in 0..200_000 {
        if rng.random_range(0..50) == 0 {
            let policy = [LRU, PROB, FAST, FAST_2][rng.random_range(0..4)];
            let capacity = [None, Some(0), Some(1), Some(5), Some(9)][rng.random_range(0..5)];
            pair.set_policy(policy, capacity);
        }
        pair.execute_random_operation(&mut rng, 12);
        pair.check();
    }
    assert!(pair.hits > 10_000);
}

/// Dead pages that the fingerprint store does not hold are in no history (list of dead pages per logical page).
#[test]
fn recycling_with_a_history_of_stored_dead_pages_only_equals_a_naive_model() {
    for (policy, capacity) in
        [(LRU, Some(5)), (PROB, Some(5)), (FAST, Some(5)), (PROB, Some(1)), (PROB, None)]
    {
        let mut pair = Pair::with_history(HistoryScope::FingerprintStore, 24, 8, policy, capacity);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(29);
        for step in 0..40_000 {
            match step % 1000 {
                0 => pair.restart(),
                500 => pair.set_policy(policy, capacity.map(|entries| entries - step / 1000 % 2)),
                _ => pair.execute_random_operation(&mut rng, 12),
            }
            pair.check();
            assert_eq!(
                pair.recycle.dead_page_count(),
                u64::from(pair.recycle.fingerprint_store_len())
                    + pair.model.displaced_equal_entries.len() as u64
            );
        }
        assert!(pair.hits > 500, "{} hits with {policy:?} and {capacity:?}", pair.hits);
    }
}

/// After a restart the fingerprint store is empty, and is filled from the histories of logical pages.
#[test]
fn a_restart_loads_the_dead_pages_with_the_greatest_recycle_probability() {
    for policy in [LRU, PROB, FAST] {
        let mut pair = Pair::new(24, 8, policy, Some(5));
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(13);
        for step in 0..50_000 {
            if step % 100 == 99 {
                pair.restart();
            }
            pair.execute_random_operation(&mut rng, 12);
            pair.check();
        }
    }
}

/// The store has thousands of entries of equal recycle probability, so their order is kept in many chunks.
#[test]
fn large_fingerprint_stores_rank_entries_like_a_sorted_list() {
    for policy in [LRU, PROB, FAST] {
        let mut pair = Pair::new(6_000, 2_000, policy, Some(2_000));
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(17);
        for step in 0..20_000 / exploration_interval(2) {
            pair.execute_random_operation(&mut rng, 9_000);
            if step % 500 == 0 {
                pair.check();
            }
        }
        let least = 500 / exploration_interval(2);
        assert!(pair.recycle.fingerprint_store_len() > 1_000 && pair.hits > least, "{} hits", pair.hits);
    }
}

#[test]
fn a_fingerprint_store_of_capacity_0_never_hits() {
    for policy in [LRU, PROB, FAST] {
        let pair = drive(24, 8, policy, Some(0), 20_000);
        assert_eq!((pair.hits, pair.recycle.fingerprint_store_len()), (0, 0));
        assert!(pair.recycle.statistics().misses > 10_000);
    }
}

/// An unbounded fingerprint store contains every dead page. So it finds a content exactly if a dead page has it, and
/// finds the same page under every policy.
#[test]
fn unbounded_fingerprint_stores_hit_whenever_a_dead_page_has_the_content() {
    let mut pairs = [LRU, PROB].map(|policy| Pair::new(24, 8, policy, None));
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(19);
    for _ in 0..100_000 {
        let content = rng.random_range(0..12);
        let [lru, prob] = pairs.each_mut().map(|pair| {
            let dead = pair
                .model
                .history_by_lpn
                .iter()
                .flatten()
                .any(|&p| pair.model.contents[p as usize] == content);
            let found = pair.find(content);
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
    let mut pair = Pair::new(8, 2, PROB, Some(8));
    let pages: Vec<u32> = (100..103).map(|content| pair.write(0, content).unwrap()).collect();
    assert_eq!(pair.versions(0), [pages[1], pages[0]]);
    assert_eq!(pair.write(0, 100), Some(pages[0]));
    assert_eq!(pair.versions(0), [pages[2], pages[1]]);
    assert_eq!(pair.entry_pages(), [pages[2], pages[1]]);
    pair.check();
}

/// Requirement R23: the fingerprint store holds only dead pages. Content that a valid page has is programmed again, and
/// the old page can be revived once it is invalid.
#[test]
fn content_of_a_valid_page_is_not_a_recycling_hit() {
    let mut pair = Pair::new(8, 2, PROB, Some(8));
    let first = pair.write(0, 7).unwrap();
    let second = pair.write(0, 7).unwrap();
    assert_ne!(first, second);
    assert_eq!(pair.entry_pages(), [first]);
    assert_eq!(pair.write(1, 7), Some(first));
    assert_eq!(pair.find(7), None);
    pair.check();
}

/// Requirement R24: if two dead pages have equal content, the fingerprint store holds the one that is likelier to be
/// revived.
#[test]
fn of_dead_pages_with_equal_content_the_store_keeps_the_greater_recycle_probability() {
    for capacity in [Some(8), None] {
        let mut pair = Pair::new(8, 3, PROB, capacity);
        let read_often = pair.write(0, 7).unwrap();
        let never_read = pair.write(1, 7).unwrap();
        (0..5).for_each(|_| pair.read(0));
        pair.write(0, 1);
        pair.write(1, 2);
        assert_eq!(pair.entry_pages(), [read_often]);
        assert_eq!(pair.recycle.statistics().offered_duplicates, 1);
        pair.erase(read_often);
        pair.check();
        let heir: &[u32] = if capacity.is_none() { &[never_read] } else { &[] };
        assert_eq!(pair.entry_pages(), heir);
        pair.restart();
        assert_eq!(pair.entry_pages(), [never_read], "the page dropped stays eligible for reload");
    }
}

/// Requirement R24: a page that dies later and is likelier to be revived replaces the store entry with equal content.
#[test]
fn a_more_probable_dead_page_replaces_the_entry_of_equal_content() {
    let mut pair = Pair::new(8, 3, PROB, Some(8));
    let never_read = pair.write(0, 7).unwrap();
    let read_once = pair.write(1, 7).unwrap();
    pair.read(1);
    pair.write(0, 1);
    assert_eq!(pair.entry_pages(), [never_read]);
    pair.write(1, 2);
    assert_eq!(pair.entry_pages(), [read_once]);
}

/// Requirement R25: a revived page keeps its access count.
#[test]
fn a_revived_page_keeps_its_access_count() {
    let mut pair = Pair::new(8, 2, PROB, Some(8));
    let page = pair.write(0, 7).unwrap();
    (0..3).for_each(|_| pair.read(0));
    pair.write(0, 8);
    assert_eq!(pair.write(1, 7), Some(page));
    pair.read(1);
    assert_eq!(pair.recycle.read_count(Ppn(page)), 4);
    pair.erase_all_versions_and_check();
}

impl Pair {
    /// Erases all invalid pages, and asserts that recycler and model then hold no dead page.
    fn erase_all_versions_and_check(&mut self) {
        self.garbage().into_iter().for_each(|ppn| self.erase(ppn));
        self.check();
        assert_eq!((self.recycle.dead_page_count(), self.recycle.fingerprint_store_len()), (0, 0));
    }
}

/// Requirement R26: an erased page is neither in the history nor in the fingerprint store, and its access count is 0
/// again.
#[test]
fn an_erased_page_is_not_a_recycling_hit() {
    let mut pair = Pair::new(8, 2, PROB, Some(8));
    let page = pair.write(0, 7).unwrap();
    pair.read(0);
    pair.write(0, 8);
    pair.erase(page);
    assert_eq!(pair.find(7), None);
    assert_eq!((pair.versions(0), pair.recycle.read_count(Ppn(page))), (vec![], 0));
    pair.check();
}

/// Erasing a block at once leaves the same recycler state as erasing its pages one by one.
#[test]
fn erasing_a_block_equals_erasing_its_pages_one_by_one_in_recycling_state() {
    let mut pair = Pair::new(64, 20, PROB, Some(12));
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(23);
    let mut blocks_erased = 0;
    for _ in 0..50_000 {
        pair.execute_random_operation(&mut rng, 40);
        let first = rng.random_range(0..8) * 8;
        let is_valid = |&state: &State| matches!(state, State::Valid(_));
        if pair.model.states[first as usize..][..8].iter().any(is_valid) {
            continue;
        }
        let spare = pair.model.spare.clone();
        let mut at_once = pair.recycle.clone();
        at_once.record_block_erased(Ppn(first), 8, |ppn| Lpn(spare[ppn.index()]));
        (first..first + 8).for_each(|ppn| pair.erase(ppn));
        pair.recycle = at_once;
        pair.check();
        blocks_erased += 1;
    }
    assert!(blocks_erased > 100, "{blocks_erased} blocks erased");
}

/// Requirement R28: pages that were never read all have recycle probability 0. The store then evicts the oldest version
/// of a logical page, and among equal versions the entry that entered first.
#[test]
fn never_read_dead_pages_are_evicted_by_version_then_recency() {
    let mut pair = Pair::new(8, 2, PROB, Some(8));
    let a: Vec<u32> = [10, 11, 12].iter().map(|&content| pair.write(0, content).unwrap()).collect();
    let b: Vec<u32> = [20, 21].iter().map(|&content| pair.write(1, content).unwrap()).collect();
    assert!(pair.recycle.fingerprint_store_entries().all(|entry| entry.probability == 0.0));
    assert_eq!(pair.entry_pages(), [b[0], a[1], a[0]], "newest versions first, the later death before");
}

/// Requirement R29: a trimmed page remains in the history (list of dead pages) of its logical page, and can be revived.
#[test]
fn a_trimmed_page_can_be_revived() {
    let mut pair = Pair::new(8, 2, PROB, Some(8));
    let page = pair.write(0, 7).unwrap();
    pair.trim(0);
    assert_eq!(pair.versions(0), [page]);
    pair.check();
    assert_eq!(pair.write(1, 7), Some(page));
    assert_eq!(pair.versions(0), []);
    pair.check();
}

/// Requirement R18: GC moves the access count with a page. The new page keeps the position in the history, and the
/// source of the copy cannot be revived.
#[test]
fn a_gc_copy_keeps_the_access_count_of_its_page() {
    let mut pair = Pair::new(8, 2, PROB, Some(8));
    let old = pair.write(0, 7).unwrap();
    let source = pair.write(0, 8).unwrap();
    (0..4).for_each(|_| pair.read(0));
    pair.copy(0);
    let target = pair.model.mapping[0].unwrap();
    assert_eq!((pair.recycle.read_count(Ppn(source)), pair.recycle.read_count(Ppn(target))), (0, 4));
    pair.erase(source);
    assert_eq!((pair.find(8), pair.versions(0)), (None, vec![old]));
    pair.write(0, 9);
    assert_eq!(pair.versions(0), [target, old]);
    pair.check();
}

/// Requirement R17: after a dead page of logical page 2 was revived, the newest dead pages of logical pages 1 and 3 are
/// at the head of the store, although they were never read.
#[test]
fn fast_loading_puts_dead_pages_of_neighbouring_lpns_at_the_head_of_the_store() {
    let mut pair = Pair::new(24, 6, FAST, Some(3));
    let dying: Vec<u32> = (0..5).map(|lpn| pair.write(lpn, 100 + lpn as u64).unwrap()).collect();
    (0..5).for_each(|lpn| _ = pair.write(lpn, 200 + lpn as u64));
    assert_eq!(pair.entry_pages(), [dying[4], dying[3], dying[2]]);
    pair.write(5, 102);
    assert_eq!(pair.entry_pages(), [dying[1], dying[3], dying[4]]);
    let probabilities: Vec<f64> =
        pair.recycle.fingerprint_store_entries().map(|entry| entry.probability).collect();
    assert_eq!(probabilities, [1.0, 1.0, 0.0]);
    let statistics = pair.recycle.statistics();
    assert_eq!(
        (statistics.entries_raised_by_fast_loading, statistics.pages_offered_by_fast_loading),
        (1, 1),
        "page 3 was in the store, page 1 was read"
    );
    pair.check();
}

/// Requirement R17: with a window of 2, dead pages of two logical pages on each side are loaded. The recycle
/// probability of a fast-loaded page still decreases with newer versions.
#[test]
fn fast_loading_with_window_2_loads_two_neighbours_on_each_side_and_still_decays() {
    let mut pair = Pair::new(24, 6, FAST_2, Some(8));
    let dying: Vec<u32> = (0..5).map(|lpn| pair.write(lpn, 100 + lpn as u64).unwrap()).collect();
    (0..5).for_each(|lpn| _ = pair.write(lpn, 200 + lpn as u64));
    pair.write(5, 102);
    assert_eq!(pair.entry_pages(), [dying[3], dying[1], dying[4], dying[0]]);
    pair.write(3, 303);
    let decayed = pair.recycle.fingerprint_store_entries().find(|entry| entry.ppn.0 == dying[3]).unwrap();
    assert!((decayed.probability - 0.85).abs() < 1e-12);
    pair.check();
}

/// Requirement R13: the version number of a dead page is lower the more newer dead versions of its logical page exist.
/// When a page leaves the middle of a history (list of these pages), the numbers of all older pages increase by one.
#[test]
fn versions_older_than_a_revived_page_increase_by_one() {
    let mut pair = Pair::new(8, 2, PROB, Some(8));
    (0..4).for_each(|content| {
        pair.write(0, 100 + content);
        pair.read(0);
    });
    let oldest = *pair.versions(0).last().unwrap();
    let before = pair.recycle.recycle_probability(Ppn(oldest));
    pair.write(1, 101);
    assert!((pair.recycle.recycle_probability(Ppn(oldest)) - before / 0.85).abs() < 1e-12);
    pair.check();
}

/// Factors of the formula for the recycle probability that are not between their limits are refused.
#[test]
fn recycling_factors_outside_their_range_are_refused() {
    let default = RecycleOptions::default();
    assert_eq!(default.clone().require_paper_ranges(), Ok(default.clone()));
    let alpha = RecycleOptions { popularity_growth_alpha: 0.2, ..default.clone() };
    assert_eq!(alpha.require_paper_ranges(), Err(RecycleError::AlphaOutOfRange(0.2)));
    let beta = RecycleOptions { probability_decay_beta: 0.1, ..default };
    assert_eq!(beta.require_paper_ranges(), Err(RecycleError::BetaOutOfRange(0.1)));
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
fn recycling_ram_with_a_history_of_stored_dead_pages_only_is_independent_of_drive_size() {
    let options =
        RecycleOptions { history_scope: HistoryScope::FingerprintStore, ..RecycleOptions::default() };
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
