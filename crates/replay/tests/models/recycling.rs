//! Recyclable SSD: which writes find their content in a dead page, for every size and policy of the fingerprint store.
//!
//! The model follows sections IV-B and IV-C of the paper. It has lists of the dead pages of each logical page (newest
//! first), access counts up to 15, and equations 1 to 4. The fingerprint store keeps the most probable dead pages
//! (PROB), the most recent ones (LRU) or all (INF).
//!
//! The paper does not say which of two equally probable pages is kept, and pages that were never read all have
//! probability 0. Here the newer version is kept; of equal versions, the entry whose probability and version changed
//! last. A fingerprint is a key of the store (section IV-C). So of two dead pages with equal content a bounded store
//! knows only the better one, whereas the infinite store knows every dead page.
//!
//! With these rules, and because nothing is erased in these runs, no choice is left open: the counts of model and
//! engine must be equal exactly.

use std::collections::{BTreeMap, HashMap};

use wearwell::content::recycle::{FingerprintStorePolicy, RecycleOptions};
use wearwell::design::{RecyclingPart, page_map, recyclable};
use wearwell::gc::GcOptions;
use wearwell::operation::Cause;

use super::load::{Drive, Random, one_pool_geometry};

/// Growth of a page's popularity per read (alpha in the Recyclable SSD paper).
const POPULARITY_GROWTH_PER_READ: f64 = 0.10;
/// Decay of a dead page's probability per newer version (beta in the Recyclable SSD paper).
const PROBABILITY_DECAY_PER_VERSION: f64 = 0.15;

/// Policy by which the model's fingerprint store keeps dead pages.
#[derive(Clone, Copy, PartialEq, Debug)]
enum ModelFingerprintStorePolicy {
    /// The store keeps the dead pages that entered it last.
    Lru,
    /// The store keeps the dead pages whose contents are most probable to be written again (PROB).
    Probability,
    /// As `Probability`. In addition, a hit puts the newest dead pages of the two neighbouring logical pages at the
    /// head of the store, as if they had been read 15 times.
    FastLoading,
}

/// Raises a number to a power by multiplications, because `powi` may round differently at run time than in the
/// compiler.
fn power(base: f64, exponent: u64) -> f64 {
    (0..exponent).fold(1.0, |product, _| product * base)
}

/// Rank of an entry in the model's fingerprint store; the entry with the smallest rank is evicted first. The rank is
/// the probability (as the bits of a positive number, which have the same order), the version, and a number that is
/// larger the later these two were computed.
type EvictionRank = (u64, u64, u64);

/// Flash page of the model: its content, and what decides how long the store keeps it.
struct Page {
    /// Number of the content that the page holds.
    content: u64,
    /// Logical page that the flash page belongs to, or belonged to when it died.
    owner_lpn: u32,
    /// Number of reads of the page, at most 15.
    access_count: u64,
    /// Whether fast loading put the page into the fingerprint store, because a dead page of a neighbouring logical page
    /// was revived. While it is in the store, it counts as read 15 times (the maximum).
    is_promoted_by_fast_loading: bool,
    /// Eviction rank of the page in the fingerprint store; `None` if the page is not in the store.
    eviction_rank: Option<EvictionRank>,
}

/// Model of recycling: lists of dead pages, and a fingerprint store by which writes find them.
struct RecyclingModel {
    /// Policy of the fingerprint store.
    policy: ModelFingerprintStorePolicy,
    /// Largest number of entries in the fingerprint store; `usize::MAX` if it is unbounded.
    capacity_entries: usize,
    /// All flash pages that were ever programmed, by number.
    pages: Vec<Page>,
    /// Number of the valid flash page of each logical page.
    valid_page_of_lpn: HashMap<u32, usize>,
    /// Dead pages of each logical page, the newest first.
    dead_pages_of_lpn: HashMap<u32, Vec<usize>>,
    /// Fingerprint store: dead pages by eviction rank; the page with the smallest rank is evicted first.
    fingerprint_store: BTreeMap<EvictionRank, usize>,
    /// Pages in the fingerprint store, by content: at most one page per content; if the store is unbounded, all dead
    /// pages with the content.
    stored_pages_with_content: HashMap<u64, Vec<usize>>,
    /// Number of eviction ranks computed so far. It is a part of each rank, so that of otherwise equal ranks the later
    /// one is greater.
    computed_rank_count: u64,
    /// Number of writes that revived a dead page.
    reviving_writes: u64,
    /// Number of entries that a linear scan of the fingerprint store, from the greatest rank on, compares until it
    /// finds the content, summed over all hits (section V-C of the Recyclable SSD paper).
    compared_store_entries: u64,
}

impl RecyclingModel {
    /// Creates an empty model with this policy and size of the fingerprint store.
    fn new(policy: ModelFingerprintStorePolicy, capacity_entries: usize) -> Self {
        Self {
            policy,
            capacity_entries,
            pages: Vec::new(),
            valid_page_of_lpn: HashMap::new(),
            dead_pages_of_lpn: HashMap::new(),
            fingerprint_store: BTreeMap::new(),
            stored_pages_with_content: HashMap::new(),
            computed_rank_count: 0,
            reviving_writes: 0,
            compared_store_entries: 0,
        }
    }

    /// Counts a read of the valid page of `lpn`.
    fn read(&mut self, lpn: u32) {
        if let Some(&page) = self.valid_page_of_lpn.get(&lpn) {
            self.pages[page].access_count = (self.pages[page].access_count + 1).min(15);
        }
    }

    /// Writes a page in the model. The fingerprint store is searched before the old page of `lpn` dies.
    fn write(&mut self, lpn: u32, content: u64) {
        let mut neighbours = [None; 2];
        let found = self.stored_pages_with_content.get(&content).and_then(|pages| pages.last()).copied();
        let page = if let Some(page) = found {
            self.reviving_writes += 1;
            let rank = self.pages[page].eviction_rank.expect("it is in the store");
            if self.capacity_entries < usize::MAX {
                self.compared_store_entries += self.fingerprint_store.range(rank..).count() as u64;
            }
            self.remove_from_store(page);
            let former = self.pages[page].owner_lpn;
            neighbours = [former.checked_sub(1), former.checked_add(1)];
            self.dead_pages_of_lpn.get_mut(&former).expect("it has dead pages").retain(|&dead| dead != page);
            self.rerank_dead_pages(former);
            self.pages[page].owner_lpn = lpn;
            page
        } else {
            self.pages.push(Page {
                content,
                owner_lpn: lpn,
                access_count: 0,
                is_promoted_by_fast_loading: false,
                eviction_rank: None,
            });
            self.pages.len() - 1
        };
        if let Some(old) = self.valid_page_of_lpn.insert(lpn, page) {
            self.record_death(old);
        }
        if self.policy == ModelFingerprintStorePolicy::FastLoading {
            self.fast_load_newest_dead_pages(neighbours.into_iter().flatten());
        }
    }

    /// Loads the newest dead page of each of these logical pages at the head of the fingerprint store (fast loading of
    /// the Recyclable SSD paper): first the pages whose fingerprint is in the store, then those whose fingerprint must
    /// be read from flash.
    fn fast_load_newest_dead_pages(&mut self, lpns: impl Iterator<Item = u32>) {
        let newest =
            lpns.filter_map(|lpn| self.dead_pages_of_lpn.get(&lpn).and_then(|dead| dead.first()).copied());
        let (known, unknown): (Vec<usize>, _) =
            newest.partition(|&page| self.pages[page].eviction_rank.is_some());
        for page in known.into_iter().chain(unknown) {
            if self.pages[page].eviction_rank.is_some() {
                self.remove_from_store(page);
            }
            self.pages[page].is_promoted_by_fast_loading = true;
            self.offer_to_fingerprint_store(page);
            self.pages[page].is_promoted_by_fast_loading = self.pages[page].eviction_rank.is_some();
        }
    }

    /// Trims a logical page, whose flash page becomes dead.
    fn trim(&mut self, lpn: u32) {
        if let Some(old) = self.valid_page_of_lpn.remove(&lpn) {
            self.record_death(old);
        }
    }

    /// Adds a page that has died to the list of its logical page, and offers it to the fingerprint store.
    fn record_death(&mut self, page: usize) {
        let owner = self.pages[page].owner_lpn;
        self.dead_pages_of_lpn.entry(owner).or_default().insert(0, page);
        self.rerank_dead_pages(owner);
        self.offer_to_fingerprint_store(page);
    }

    /// Inserts a dead page into the fingerprint store, unless it has a smaller rank than all entries of a full store or
    /// than an entry of equal content.
    fn offer_to_fingerprint_store(&mut self, page: usize) {
        let rank = self.rank_on_entry(page);
        let twin = self
            .stored_pages_with_content
            .get(&self.pages[page].content)
            .and_then(|pages| pages.last())
            .copied();
        if self.capacity_entries == usize::MAX {
            // Everything is kept.
        } else if let Some(twin) = twin {
            if self.pages[twin].eviction_rank > Some(rank) {
                return;
            }
            self.remove_from_store(twin);
        } else if self.fingerprint_store.len() == self.capacity_entries {
            match self.fingerprint_store.first_key_value() {
                Some((&least, &evicted)) if least < rank => self.remove_from_store(evicted),
                _ => return,
            }
        }
        self.fingerprint_store.insert(rank, page);
        self.stored_pages_with_content.entry(self.pages[page].content).or_default().push(page);
        self.pages[page].eviction_rank = Some(rank);
    }

    /// Removes a page from the fingerprint store.
    fn remove_from_store(&mut self, page: usize) {
        let rank = self.pages[page].eviction_rank.take().expect("it is in the store");
        self.pages[page].is_promoted_by_fast_loading = false;
        self.fingerprint_store.remove(&rank);
        let pages = self
            .stored_pages_with_content
            .get_mut(&self.pages[page].content)
            .expect("it is found by content");
        pages.retain(|&other| other != page);
    }

    /// Updates the ranks of the dead pages of logical page `owner` in the fingerprint store, after their positions in
    /// its list of dead pages changed.
    fn rerank_dead_pages(&mut self, owner: u32) {
        for page in self.dead_pages_of_lpn.get(&owner).cloned().unwrap_or_default() {
            let Some(old) = self.pages[page].eviction_rank else { continue };
            let new = self.rank_on_entry(page);
            if (old.0, old.1) != (new.0, new.1) {
                self.fingerprint_store.remove(&old);
                self.fingerprint_store.insert(new, page);
                self.pages[page].eviction_rank = Some(new);
            }
        }
    }

    /// Returns the rank in the fingerprint store of a dead page that is inserted at this moment.
    fn rank_on_entry(&mut self, page: usize) -> EvictionRank {
        self.computed_rank_count += 1;
        if self.policy == ModelFingerprintStorePolicy::Lru {
            return (0, 0, self.computed_rank_count);
        }
        let Page { owner_lpn: owner, access_count: accesses, is_promoted_by_fast_loading, .. } =
            self.pages[page];
        let position =
            self.dead_pages_of_lpn[&owner].iter().position(|&dead| dead == page).expect("it is dead");
        let version = 15_u64.saturating_sub(position as u64);
        let popularity =
            power(1.0 + POPULARITY_GROWTH_PER_READ, if is_promoted_by_fast_loading { 15 } else { accesses });
        let initial = (popularity - 1.0) / (power(1.0 + POPULARITY_GROWTH_PER_READ, 15) - 1.0);
        let probability = initial * power(1.0 - PROBABILITY_DECAY_PER_VERSION, 15 - version);
        (probability.to_bits(), version, self.computed_rank_count)
    }
}

/// Request to the model and to the engine.
enum Request {
    /// Writes a logical page (first number) with a content (second number).
    Write(u32, u64),
    /// Reads a logical page.
    Read(u32),
    /// Trims a logical page.
    Trim(u32),
}

/// Number of logical pages of the drives in this file.
const LOGICAL_PAGES: u32 = 12_000;

/// Generates requests: half are reads, and half go to a twelfth of the pages. Of the writes, two in five bring a new
/// content, two in five a content that other pages have too, and one in five a content that the page held before.
fn mixed_requests(requests: u32, seed: u64) -> impl Iterator<Item = Request> {
    let mut random = Random::new(seed);
    let mut held: HashMap<u32, Vec<u64>> = HashMap::new();
    (0..requests).map(move |request| {
        let pages = if random.draw_event(0.5) { LOGICAL_PAGES / 12 } else { LOGICAL_PAGES };
        let lpn = random.draw_below(pages as u64) as u32;
        if random.draw_event(0.5) {
            return Request::Read(lpn);
        }
        if random.draw_event(0.02) {
            return Request::Trim(lpn);
        }
        let before = held.entry(lpn).or_default();
        let content = if random.draw_event(0.4) {
            1_000_000 + request as u64
        } else if random.draw_event(2.0 / 3.0) || before.is_empty() {
            1 + random.draw_skewed_below(30_000)
        } else {
            before[before.len() - 1 - random.draw_skewed_below(before.len() as u64) as usize]
        };
        before.push(content);
        Request::Write(lpn, content)
    })
}

/// Number of requests of each run.
const REQUESTS: u32 = 100_000;

/// Creates a drive with recycling and this fingerprint store, so large that it never erases a block.
fn new_drive(entries: Option<u32>, policy: FingerprintStorePolicy) -> Drive {
    let options = RecycleOptions {
        capacity_entries: entries,
        policy,
        popularity_growth_alpha: POPULARITY_GROWTH_PER_READ,
        probability_decay_beta: PROBABILITY_DECAY_PER_VERSION,
        counts_scan_comparisons: true,
        ..RecycleOptions::default()
    };
    let parts = recyclable(GcOptions::default(), RecyclingPart { options, must_verify_hits: false });
    // The drive has twice as many pages as the test can program, so that no block is erased.
    Drive::new(one_pool_geometry(2 * REQUESTS / 64, 64), LOGICAL_PAGES, &parts)
}

/// Executes a request on the drive of the engine.
fn apply_request(drive: &mut Drive, request: &Request) {
    match *request {
        Request::Write(lpn, content) => drive.write(lpn, content),
        Request::Read(lpn) => drive.read(lpn),
        Request::Trim(lpn) => drive.trim(lpn),
    }
}

/// Checks after every request that the engine has revived as many dead pages as the model; returns their number at the
/// end.
#[track_caller]
fn assert_engine_revives_as_many_pages_as_the_model(
    policy: ModelFingerprintStorePolicy,
    entries: Option<u32>,
    seed: u64,
) -> u64 {
    let mut model = RecyclingModel::new(policy, entries.map_or(usize::MAX, |entries| entries as usize));
    let of_program = match policy {
        ModelFingerprintStorePolicy::Lru => FingerprintStorePolicy::Lru,
        ModelFingerprintStorePolicy::Probability => FingerprintStorePolicy::Probability,
        ModelFingerprintStorePolicy::FastLoading => {
            FingerprintStorePolicy::ProbabilityFastLoading { window: 1 }
        }
    };
    let mut drive = new_drive(entries, of_program);
    for (number, request) in mixed_requests(REQUESTS, seed).enumerate() {
        match request {
            Request::Write(lpn, content) => model.write(lpn, content),
            Request::Read(lpn) => model.read(lpn),
            Request::Trim(lpn) => model.trim(lpn),
        }
        apply_request(&mut drive, &request);
        assert_eq!(
            drive.stats().recycled_writes,
            model.reviving_writes,
            "{policy:?}, {entries:?} entries, seed {seed}: after request {number}"
        );
    }
    let stats = drive.stats();
    assert_eq!(stats.total_erases(), 0, "the model knows no erases");
    assert_eq!(stats.programs[Cause::Host as usize], stats.host_page_writes - model.reviving_writes);
    if entries.is_some() {
        let counted =
            drive.device.ftl().recycler().expect("it recycles").statistics().linear_scan_comparisons_on_hits;
        assert_eq!(counted, model.compared_store_entries, "{policy:?}, {entries:?} entries: comparisons");
    }
    println!(
        "{policy:?}, {entries:?} entries: {} binds of {} writes",
        model.reviving_writes, stats.host_page_writes
    );
    model.reviving_writes
}

#[test]
fn recycled_writes_with_an_unbounded_fingerprint_store_are_those_of_the_model() {
    let all = [ModelFingerprintStorePolicy::Lru, ModelFingerprintStorePolicy::Probability]
        .map(|policy| assert_engine_revives_as_many_pages_as_the_model(policy, None, 1));
    assert_eq!(all[0], all[1], "a store of everything has no order");
}

#[test]
fn recycled_writes_with_an_lru_fingerprint_store_are_those_of_the_model() {
    for entries in [564, 1_000, 5_000, 20_000] {
        assert_engine_revives_as_many_pages_as_the_model(ModelFingerprintStorePolicy::Lru, Some(entries), 2);
    }
}

#[test]
fn recycled_writes_with_a_probability_ordered_store_are_those_of_the_model() {
    for entries in [564, 1_000, 5_000, 20_000] {
        assert_engine_revives_as_many_pages_as_the_model(
            ModelFingerprintStorePolicy::Probability,
            Some(entries),
            2,
        );
    }
}

#[test]
fn recycled_writes_with_fast_loading_of_fingerprints_are_those_of_the_model() {
    for entries in [564, 5_000] {
        assert_engine_revives_as_many_pages_as_the_model(
            ModelFingerprintStorePolicy::FastLoading,
            Some(entries),
            2,
        );
    }
}

/// Compares all programs, reads and erases of a drive that collects all the time.
#[test]
fn recycling_with_an_empty_fingerprint_store_equals_the_page_map() {
    let options = RecycleOptions { capacity_entries: Some(0), ..RecycleOptions::default() };
    let recycling = recyclable(GcOptions::default(), RecyclingPart { options, must_verify_hits: false });
    let [recycling, page_map] = [recycling, page_map(GcOptions::default())].map(|parts| {
        let mut drive = Drive::new(one_pool_geometry(220, 64), LOGICAL_PAGES, &parts);
        mixed_requests(2 * REQUESTS, 3).for_each(|request| apply_request(&mut drive, &request));
        drive.stats().clone()
    });
    assert!(page_map.total_erases() > 2_000, "{} erases", page_map.total_erases());
    assert_eq!((recycling.programs, recycling.erases), (page_map.programs, page_map.erases));
    assert_eq!((recycling.reads, recycling.recycled_writes), (page_map.reads, 0));
}
