//! Benchmark: CPU time of Recyclable SSD's data structures per host page write, without an FTL engine around them.
//!
//! A small engine (uniform random overwrites, FIFO garbage collection) runs once and notes every call it makes; the
//! calls alone are then replayed on fresh structures and timed. The cost of noting is outside, the cost of reading
//! the notes inside the figure.
//!
//! The cost is mostly cache misses, so it depends on the size of the device; the store has 128 Ki entries.
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
/// Number of recent contents from which repeated contents are drawn.
const RECENT_CONTENTS: u32 = 300_000;

/// A recorded call of the recycler (the part of Recyclable SSD that revives dead pages).
#[derive(Clone, Copy)]
enum Call {
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
    /// Search for the neighbour pages of an owner, after one of its pages was revived.
    Neighbours(Lpn),
    /// Offer of a dead page with this content for fast loading into the fingerprint store.
    LoadFast(Ppn, Fingerprint),
    /// Host read of a flash page.
    Read(Ppn),
}

/// Tables of an FTL engine that the recycler queries. The recorded calls determine all their changes.
#[derive(Clone)]
struct Tables {
    /// Flash page to which each logical page is mapped.
    mapping: Vec<Ppn>,
    /// For each flash page, the logical page that its spare area names.
    spare_owners: Vec<Lpn>,
}

/// Small FTL engine that performs host writes and records every call it makes of the recycler.
struct Engine {
    /// The recycler (fingerprint store of dead pages) under measurement.
    recycle: Recycler,
    /// Recorded calls of the recycler, in order.
    calls: Vec<Call>,
    /// Tables that the recycler queries: the L2P map and the owners in spare areas.
    tables: Tables,
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

impl Engine {
    fn new(logical_pages: u32, options: &RecycleOptions) -> Self {
        let pages = logical_pages / 100 * PHYSICAL_PERCENT_OF_LOGICAL / BLOCK_PAGES * BLOCK_PAGES;
        Self {
            recycle: Recycler::new(pages as u64, logical_pages, options),
            calls: Vec::new(),
            tables: Tables {
                mapping: vec![Ppn::NONE; logical_pages as usize],
                spare_owners: vec![Lpn::NONE; pages as usize],
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
    fn record_and_apply(&mut self, call: Call, out: &mut Vec<Ppn>) -> Option<Ppn> {
        self.calls.push(call);
        apply_call(&mut self.recycle, &mut self.tables, call, out)
    }

    /// Returns the content of the next host write: a recent content, or a new one.
    fn draw_content(&mut self) -> Fingerprint {
        let duplicate = self.rng.random_range(0..100) < DUPLICATE_PERCENT && !self.recent.is_empty();
        if duplicate {
            return self.recent[self.rng.random_range(0..self.recent.len())];
        }
        let new = Fingerprint(self.rng.next_u64());
        if self.recent.len() < RECENT_CONTENTS as usize {
            self.recent.push(new);
        } else {
            let place = self.rng.random_range(0..self.recent.len());
            self.recent[place] = new;
        }
        new
    }

    /// Performs a host write of a random content to `lpn`, after garbage collection if free pages run short.
    fn write(&mut self, lpn: Lpn, out: &mut Vec<Ppn>) {
        while self.free_pages.len() < RESERVE_PAGES as usize {
            self.collect_oldest_block(out);
        }
        let content = self.draw_content();
        let hit = self.record_and_apply(Call::Find(content), out);
        let owner = hit.map(|ppn| self.recycle.owner(ppn, self.tables.spare_owners[ppn.index()]));
        let ppn = hit.unwrap_or_else(|| self.allocate());
        let old = self.tables.mapping[lpn.index()].to_option();
        match owner {
            Some(owner) => self.record_and_apply(Call::Revive(ppn, owner, lpn), out),
            None => self.record_and_apply(Call::Programmed(lpn, ppn), out),
        };
        self.fingerprint_of_page[ppn.index()] = content;
        self.is_page_valid[ppn.index()] = true;
        if let Some(old) = old {
            self.is_page_valid[old.index()] = false;
            self.record_and_apply(Call::Invalidated(lpn, old, self.fingerprint_of_page[old.index()]), out);
        }
        if let Some(owner) = owner {
            self.record_and_apply(Call::Neighbours(owner), out);
            for page in std::mem::take(out) {
                self.record_and_apply(Call::LoadFast(page, self.fingerprint_of_page[page.index()]), out);
            }
        }
    }

    /// Performs a host read of `lpn`, if the logical page is mapped.
    fn read(&mut self, lpn: Lpn, out: &mut Vec<Ppn>) {
        if let Some(ppn) = self.tables.mapping[lpn.index()].to_option() {
            self.record_and_apply(Call::Read(ppn), out);
        }
    }

    /// Collects the oldest block: copies its valid pages and erases it.
    fn collect_oldest_block(&mut self, out: &mut Vec<Ppn>) {
        let block = self.blocks_by_first_program.pop_front().expect("a full device has closed blocks");
        let pages = block * BLOCK_PAGES..(block + 1) * BLOCK_PAGES;
        for from in pages.clone().map(Ppn).filter(|ppn| self.is_page_valid[ppn.index()]).collect::<Vec<_>>() {
            let lpn = self.recycle.owner(from, self.tables.spare_owners[from.index()]);
            let to = self.allocate();
            self.fingerprint_of_page[to.index()] = self.fingerprint_of_page[from.index()];
            self.is_page_valid[from.index()] = false;
            self.is_page_valid[to.index()] = true;
            self.record_and_apply(Call::Moved(lpn, from, to), out);
        }
        self.record_and_apply(Call::ErasedBlock(Ppn(pages.start)), out);
        self.free_pages.extend(pages);
    }
}

/// Performs one recorded call on the recycler. Returns the dead page that a search found.
fn apply_call(recycle: &mut Recycler, tables: &mut Tables, call: Call, out: &mut Vec<Ppn>) -> Option<Ppn> {
    let Tables { mapping, spare_owners } = tables;
    match call {
        Call::Find(fingerprint) => return recycle.find_dead_page(fingerprint),
        Call::Revive(ppn, owner, lpn) => {
            mapping[lpn.index()] = ppn;
            recycle.revive_page(ppn, owner, lpn);
        }
        Call::Programmed(lpn, ppn) => {
            (mapping[lpn.index()], spare_owners[ppn.index()]) = (ppn, lpn);
            recycle.record_page_programmed(lpn, ppn);
        }
        Call::Invalidated(lpn, ppn, fingerprint) => {
            recycle.record_page_invalidated(lpn, ppn, mapping[lpn.index()].to_option(), fingerprint);
        }
        Call::Moved(lpn, from, to) => {
            (mapping[lpn.index()], spare_owners[to.index()]) = (to, lpn);
            recycle.record_page_moved(lpn, from, to);
        }
        Call::ErasedBlock(first) => {
            recycle.record_block_erased(first, BLOCK_PAGES, |ppn| spare_owners[ppn.index()]);
        }
        Call::Neighbours(owner) => {
            recycle.raise_or_append_neighbour_pages(owner, |lpn| mapping[lpn.index()].to_option(), out);
        }
        Call::LoadFast(ppn, fingerprint) => recycle.offer_fast_loaded_page(ppn, fingerprint),
        Call::Read(ppn) => recycle.count_read(ppn),
    }
    None
}

/// Runs the engine with the given options of the recycler, then replays and prints the measurement as one line.
fn measure(
    name: &str,
    logical_pages: u32,
    policy: FingerprintStorePolicy,
    reads_per_write: u32,
    counts_store_comparisons: bool,
) {
    let options = RecycleOptions { policy, counts_store_comparisons, ..RecycleOptions::default() };
    let mut engine = Engine::new(logical_pages, &options);
    let mut out = Vec::new();
    let mut warm = (engine.recycle.clone(), engine.tables.clone());
    for write in 0..WARM_UP_WRITES + MEASURED_WRITES {
        if write == WARM_UP_WRITES {
            engine.calls.clear();
            engine.recycle.reset_statistics();
            warm = (engine.recycle.clone(), engine.tables.clone());
        }
        let lpn = if write < logical_pages { write } else { engine.rng.random_range(0..logical_pages) };
        engine.write(Lpn(lpn), &mut out);
        for _ in 0..reads_per_write {
            let lpn = engine.rng.random_range(0..logical_pages);
            engine.read(Lpn(lpn), &mut out);
        }
    }
    report(name, &engine, warm);
}

/// Returns the nanoseconds for which this thread has run on a processor, or the wall time since `start` if the system
/// does not report them.
fn cpu_nanoseconds(start: Instant) -> u64 {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let running = schedule.and_then(|text| text.split(' ').next()?.parse().ok());
    running.unwrap_or_else(|| start.elapsed().as_nanos() as u64)
}

/// Replays recorded calls on a recycler and its tables. Returns the CPU time in nanoseconds per host write.
fn replay(calls: &[Call], recycle: &mut Recycler, tables: &mut Tables) -> f64 {
    let start = Instant::now();
    let before = cpu_nanoseconds(start);
    let mut out = Vec::new();
    for &call in calls {
        out.clear();
        apply_call(recycle, tables, call, &mut out);
    }
    (cpu_nanoseconds(start) - before) as f64 / MEASURED_WRITES as f64
}

/// Replays the calls of `engine` several times from the state after the warm-up, and prints the times as one line.
fn report(name: &str, engine: &Engine, (warm, tables): (Recycler, Tables)) {
    let mut rates = Vec::new();
    for _ in 0..REPETITIONS {
        let mut recycle = warm.clone();
        rates.push(replay(&engine.calls, &mut recycle, &mut tables.clone()));
        assert_eq!(recycle.statistics(), engine.recycle.statistics(), "the replay must repeat the run");
    }
    rates.sort_unstable_by(f64::total_cmp);
    let statistics = engine.recycle.statistics();
    let copies = engine.calls.iter().filter(|call| matches!(call, Call::Moved(..))).count();
    println!(
        "{name:32} best {:4.0}, median {:4.0} ns per host write; hits {:4.1} %, copies per write {:.2}, mean comparisons {:.0}, \
         entries {}",
        rates[0],
        rates[REPETITIONS / 2],
        100.0 * statistics.hits as f64 / MEASURED_WRITES as f64,
        copies as f64 / MEASURED_WRITES as f64,
        statistics.mean_comparisons_on_hit().unwrap_or(f64::NAN),
        engine.recycle.fingerprint_store_len(),
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
