//! Benchmark: CPU time per host page write of the data structures of Recyclable SSD, without an FTL around them.
//!
//! A small FTL (uniform random overwrites, FIFO garbage collection) runs once and records every call that it makes to
//! the recycler. The calls alone are then replayed on fresh data structures, and the replay is timed. The time to
//! record the calls is not measured; the time to read them back is.
//!
//! Most of the cost is cache misses, so it depends on the size of the device. The fingerprint store of the recycler has
//! 128 Ki entries.
//!
//! Run: `cargo run --release --example recycle_rate [logical pages]`

use std::collections::VecDeque;
use std::time::Instant;

use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::address::{Lpn, OptionalAddress, Ppn};
use wearwell::content::recycle::{FingerprintStorePolicy, RecycleOptions, Recycler};
use wearwell::data::Fingerprint;

/// Number of logical pages of the simulated drive if the command line names none.
const DEFAULT_LOGICAL_PAGES: u32 = 1_000_000;
/// Number of physical pages of the drive, in percent of its logical pages.
const PHYSICAL_PERCENT_OF_LOGICAL: u32 = 115;
/// Number of flash pages per erase block.
const BLOCK_PAGES: u32 = 64;
/// Number of free pages below which the engine collects garbage before a host write.
const RESERVE_PAGES: u32 = 4 * BLOCK_PAGES;
/// Number of host page writes before the recorded calls begin.
const WARM_UP_WRITES: u32 = 2_000_000;
/// Number of host page writes whose calls are recorded and replayed.
const MEASURED_WRITES: u32 = 2_000_000;
/// Number of replays of the recorded calls; the best and the median are printed.
const REPETITIONS: usize = 5;
/// Share of host writes that repeat a recent content, percent.
const DUPLICATE_PERCENT: u32 = 10;
/// Number of contents of recent host writes that are kept; repeated contents are drawn from them.
const RECENT_CONTENT_COUNT: u32 = 300_000;

/// A recorded call of the recycler (the part of Recyclable SSD that revives dead pages).
#[derive(Clone, Copy)]
enum RecyclerCall {
    /// Search for a dead page that holds this content.
    Find(Fingerprint),
    /// Revival of a dead page: the page, its owner (the logical page that wrote it), and the logical page that now uses
    /// it.
    Revive(Ppn, Lpn, Lpn),
    /// Program of a flash page for a logical page.
    Programmed(Lpn, Ppn),
    /// Invalidation of the flash page that a logical page used, and the fingerprint of its content.
    Invalidated(Lpn, Ppn, Fingerprint),
    /// Copy of a logical page by garbage collection, from the first flash page to the second.
    Moved(Lpn, Ppn, Ppn),
    /// Erase of the block whose first page is given.
    ErasedBlock(Ppn),
    /// First step of fast loading, after a dead page was revived: finds the newest dead pages of the logical pages
    /// before and after the one that wrote the revived page.
    RaiseNeighbourPages(Lpn),
    /// Offers a dead page with this content to the fingerprint store, which loads it before it is searched for (fast
    /// loading).
    OfferForFastLoading(Ppn, Fingerprint),
    /// Host read of a flash page.
    Read(Ppn),
}

/// The tables of an FTL that the recycler queries. They change only by the recorded calls.
#[derive(Clone)]
struct MapAndPageWriters {
    /// Flash page to which each logical page is mapped.
    mapping: Vec<Ppn>,
    /// For each flash page, the logical page that its spare area names.
    page_writers: Vec<Lpn>,
}

/// Small FTL that performs host writes and records every call it makes to the recycler.
struct RecordingFtl {
    /// The recycler (fingerprint store of dead pages) under measurement.
    recycle: Recycler,
    /// Recorded calls of the recycler, in order.
    calls: Vec<RecyclerCall>,
    /// The tables that the recycler queries: the L2P map, and the writer of each flash page according to its spare
    /// area.
    map_and_page_writers: MapAndPageWriters,
    /// Fingerprint of the content of each flash page.
    fingerprint_of_page: Vec<Fingerprint>,
    /// Whether each flash page is valid.
    is_page_valid: Vec<bool>,
    /// Erased flash pages, in the order in which they are programmed.
    free_pages: VecDeque<u32>,
    /// Numbers of blocks in the order in which their programming began; garbage collection takes the oldest.
    blocks_by_first_program: VecDeque<u32>,
    rng: Xoshiro256PlusPlus,
    /// Contents of recent host writes, from which repeated contents are drawn.
    recent: Vec<Fingerprint>,
}

impl RecordingFtl {
    fn new(logical_pages: u32, options: &RecycleOptions) -> Self {
        let pages = logical_pages / 100 * PHYSICAL_PERCENT_OF_LOGICAL / BLOCK_PAGES * BLOCK_PAGES;
        Self {
            recycle: Recycler::new(pages as u64, logical_pages, options),
            calls: Vec::new(),
            map_and_page_writers: MapAndPageWriters {
                mapping: vec![Ppn::NONE; logical_pages as usize],
                page_writers: vec![Lpn::NONE; pages as usize],
            },
            fingerprint_of_page: vec![Fingerprint::ZERO_PAGE; pages as usize],
            is_page_valid: vec![false; pages as usize],
            free_pages: (0..pages).collect(),
            blocks_by_first_program: VecDeque::new(),
            rng: Xoshiro256PlusPlus::seed_from_u64(1),
            recent: Vec::new(),
        }
    }

    /// Returns the next erased flash page.
    fn allocate(&mut self) -> Ppn {
        let ppn = self.free_pages.pop_front().expect("collection keeps a reserve");
        if ppn.is_multiple_of(BLOCK_PAGES) {
            self.blocks_by_first_program.push_back(ppn / BLOCK_PAGES);
        }
        Ppn(ppn)
    }

    /// Records `call`, then performs it.
    fn record_and_apply(&mut self, call: RecyclerCall, out: &mut Vec<Ppn>) -> Option<Ppn> {
        self.calls.push(call);
        apply_call(&mut self.recycle, &mut self.map_and_page_writers, call, out)
    }

    /// Returns the content of the next host write: a recent content, or a new one.
    fn draw_content(&mut self) -> Fingerprint {
        let duplicate = self.rng.random_range(0..100) < DUPLICATE_PERCENT && !self.recent.is_empty();
        if duplicate {
            return self.recent[self.rng.random_range(0..self.recent.len())];
        }
        let new = Fingerprint(self.rng.next_u64());
        if self.recent.len() < RECENT_CONTENT_COUNT as usize {
            self.recent.push(new);
        } else {
            let place = self.rng.random_range(0..self.recent.len());
            self.recent[place] = new;
        }
        new
    }

    /// Performs a host write of a random content to `lpn`, after garbage collection if free pages run short. Uses `out`
    /// for the pages that the recycler lists for fast loading.
    fn execute_host_write(&mut self, lpn: Lpn, out: &mut Vec<Ppn>) {
        while self.free_pages.len() < RESERVE_PAGES as usize {
            self.collect_oldest_block(out);
        }
        let content = self.draw_content();
        let hit = self.record_and_apply(RecyclerCall::Find(content), out);
        let owner =
            hit.map(|ppn| self.recycle.owner(ppn, self.map_and_page_writers.page_writers[ppn.index()]));
        let ppn = hit.unwrap_or_else(|| self.allocate());
        let old = self.map_and_page_writers.mapping[lpn.index()].to_option();
        match owner {
            Some(owner) => self.record_and_apply(RecyclerCall::Revive(ppn, owner, lpn), out),
            None => self.record_and_apply(RecyclerCall::Programmed(lpn, ppn), out),
        };
        self.fingerprint_of_page[ppn.index()] = content;
        self.is_page_valid[ppn.index()] = true;
        if let Some(old) = old {
            self.is_page_valid[old.index()] = false;
            self.record_and_apply(
                RecyclerCall::Invalidated(lpn, old, self.fingerprint_of_page[old.index()]),
                out,
            );
        }
        if let Some(owner) = owner {
            self.record_and_apply(RecyclerCall::RaiseNeighbourPages(owner), out);
            for page in std::mem::take(out) {
                self.record_and_apply(
                    RecyclerCall::OfferForFastLoading(page, self.fingerprint_of_page[page.index()]),
                    out,
                );
            }
        }
    }

    /// Performs a host read of `lpn`, if the logical page is mapped. The recycler only counts the read and adds nothing
    /// to `out`.
    fn execute_host_read(&mut self, lpn: Lpn, out: &mut Vec<Ppn>) {
        if let Some(ppn) = self.map_and_page_writers.mapping[lpn.index()].to_option() {
            self.record_and_apply(RecyclerCall::Read(ppn), out);
        }
    }

    /// Collects the oldest block: copies its valid pages and erases it.
    fn collect_oldest_block(&mut self, out: &mut Vec<Ppn>) {
        let block = self.blocks_by_first_program.pop_front().expect("a full device has closed blocks");
        let pages = block * BLOCK_PAGES..(block + 1) * BLOCK_PAGES;
        for from in pages.clone().map(Ppn).filter(|ppn| self.is_page_valid[ppn.index()]).collect::<Vec<_>>() {
            let lpn = self.recycle.owner(from, self.map_and_page_writers.page_writers[from.index()]);
            let to = self.allocate();
            self.fingerprint_of_page[to.index()] = self.fingerprint_of_page[from.index()];
            self.is_page_valid[from.index()] = false;
            self.is_page_valid[to.index()] = true;
            self.record_and_apply(RecyclerCall::Moved(lpn, from, to), out);
        }
        self.record_and_apply(RecyclerCall::ErasedBlock(Ppn(pages.start)), out);
        self.free_pages.extend(pages);
    }
}

/// Performs one recorded call on the recycler. Returns the dead page that a search found.
fn apply_call(
    recycle: &mut Recycler,
    map_and_page_writers: &mut MapAndPageWriters,
    call: RecyclerCall,
    out: &mut Vec<Ppn>,
) -> Option<Ppn> {
    let MapAndPageWriters { mapping, page_writers } = map_and_page_writers;
    match call {
        RecyclerCall::Find(fingerprint) => return recycle.find_dead_page(fingerprint),
        RecyclerCall::Revive(ppn, owner, lpn) => {
            mapping[lpn.index()] = ppn;
            recycle.revive_page(ppn, owner, lpn);
        }
        RecyclerCall::Programmed(lpn, ppn) => {
            (mapping[lpn.index()], page_writers[ppn.index()]) = (ppn, lpn);
            recycle.record_page_programmed(lpn, ppn);
        }
        RecyclerCall::Invalidated(lpn, ppn, fingerprint) => {
            recycle.record_page_invalidated(lpn, ppn, mapping[lpn.index()].to_option(), fingerprint);
        }
        RecyclerCall::Moved(lpn, from, to) => {
            (mapping[lpn.index()], page_writers[to.index()]) = (to, lpn);
            let first = Ppn(from.0 - from.0 % BLOCK_PAGES);
            recycle.record_pages_moved(first, BLOCK_PAGES, &[from], &[to]);
        }
        RecyclerCall::ErasedBlock(first) => {
            recycle.record_block_erased(first, BLOCK_PAGES, |ppn| page_writers[ppn.index()]);
        }
        RecyclerCall::RaiseNeighbourPages(owner) => {
            recycle.promote_or_append_dead_pages_of_neighbours(
                owner,
                |lpn| mapping[lpn.index()].to_option(),
                out,
            );
        }
        RecyclerCall::OfferForFastLoading(ppn, fingerprint) => {
            recycle.offer_neighbour_page_to_fingerprint_store(ppn, fingerprint);
        }
        RecyclerCall::Read(ppn) => recycle.count_read(ppn),
    }
    None
}

/// Runs the small FTL with the given options of the recycler, then replays its calls and prints the times as one line.
fn measure(
    name: &str,
    logical_pages: u32,
    policy: FingerprintStorePolicy,
    reads_per_write: u32,
    counts_scan_comparisons: bool,
) {
    let options = RecycleOptions { policy, counts_scan_comparisons, ..RecycleOptions::default() };
    let mut recording_ftl = RecordingFtl::new(logical_pages, &options);
    let mut out = Vec::new();
    let mut warm = (recording_ftl.recycle.clone(), recording_ftl.map_and_page_writers.clone());
    for write_index in 0..WARM_UP_WRITES + MEASURED_WRITES {
        if write_index == WARM_UP_WRITES {
            recording_ftl.calls.clear();
            recording_ftl.recycle.reset_statistics();
            warm = (recording_ftl.recycle.clone(), recording_ftl.map_and_page_writers.clone());
        }
        let lpn = if write_index < logical_pages {
            write_index
        } else {
            recording_ftl.rng.random_range(0..logical_pages)
        };
        recording_ftl.execute_host_write(Lpn(lpn), &mut out);
        for _ in 0..reads_per_write {
            let lpn = recording_ftl.rng.random_range(0..logical_pages);
            recording_ftl.execute_host_read(Lpn(lpn), &mut out);
        }
    }
    report(name, &recording_ftl, warm);
}

/// Returns the nanoseconds for which this thread has run on a processor, or the wall time since `start` if the system
/// does not report them.
fn cpu_nanoseconds(start: Instant) -> u64 {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let running = schedule.and_then(|text| text.split(' ').next()?.parse().ok());
    running.unwrap_or_else(|| start.elapsed().as_nanos() as u64)
}

/// Replays recorded calls on a recycler and its tables. Returns the CPU time in nanoseconds per host write.
fn replay_cpu_ns_per_write(
    calls: &[RecyclerCall],
    recycle: &mut Recycler,
    map_and_page_writers: &mut MapAndPageWriters,
) -> f64 {
    let start = Instant::now();
    let before = cpu_nanoseconds(start);
    let mut out = Vec::new();
    for &call in calls {
        out.clear();
        apply_call(recycle, map_and_page_writers, call, &mut out);
    }
    (cpu_nanoseconds(start) - before) as f64 / MEASURED_WRITES as f64
}

/// Replays the calls of `recording_ftl` several times from the state after the warm-up, and prints the times as one
/// line.
fn report(
    name: &str,
    recording_ftl: &RecordingFtl,
    (warm, map_and_page_writers): (Recycler, MapAndPageWriters),
) {
    let mut rates = Vec::new();
    for _ in 0..REPETITIONS {
        let mut recycle = warm.clone();
        rates.push(replay_cpu_ns_per_write(
            &recording_ftl.calls,
            &mut recycle,
            &mut map_and_page_writers.clone(),
        ));
        assert_eq!(
            recycle.statistics(),
            recording_ftl.recycle.statistics(),
            "the replay must repeat the run"
        );
    }
    rates.sort_unstable_by(f64::total_cmp);
    let statistics = recording_ftl.recycle.statistics();
    let copies = recording_ftl.calls.iter().filter(|call| matches!(call, RecyclerCall::Moved(..))).count();
    println!(
        "{name:32} best {:4.0}, median {:4.0} ns per host write; hits {:4.1} %, copies per write {:.2}, mean comparisons {:.0}, \
         entries {}",
        rates[0],
        rates[REPETITIONS / 2],
        100.0 * statistics.hits as f64 / MEASURED_WRITES as f64,
        copies as f64 / MEASURED_WRITES as f64,
        statistics.mean_comparisons_on_hit().unwrap_or(f64::NAN),
        recording_ftl.recycle.fingerprint_store_len(),
    );
}

fn main() {
    let argument = std::env::args().nth(1);
    let pages =
        argument.map_or(DEFAULT_LOGICAL_PAGES, |text| text.parse().expect("a number of logical pages"));
    measure("LRU", pages, FingerprintStorePolicy::Lru, 0, true);
    measure("probability, ranks off", pages, FingerprintStorePolicy::Probability, 0, false);
    measure("probability", pages, FingerprintStorePolicy::Probability, 0, true);
    measure("probability, 2 reads per write", pages, FingerprintStorePolicy::Probability, 2, true);
    measure(
        "fast loading, 2 reads per write",
        pages,
        FingerprintStorePolicy::ProbabilityFastLoading { window: 1 },
        2,
        true,
    );
}
