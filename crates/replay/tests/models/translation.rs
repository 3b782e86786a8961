//! GeckoFTL: flash traffic of the translation table.
//!
//! Two models of section 4, "Synchronization Operations", are compared with the engine.
//!
//! The simulation is an LRU queue of C map entries. Host writes and copies make entries dirty. If a dirty entry is
//! evicted, all dirty entries of its translation page are written, for one read and one write.
//!
//! The closed form: with TPT translation pages, C other entries are inserted before a dirty entry is evicted, and one
//! in TPT of them belongs to its page. So a synchronisation writes 1 + C / TPT entries. With I dirty entries per host
//! write, and reads that cost 1 / delta of a write, the traffic is `I (1 + 1 / delta) / (1 + C / TPT)`.
//!
//! Both models count every valid copy as one more dirty entry, although the copies of one victim arrive together.
//! Blocks are small here, so that the copies of a victim are a small part of the cache.

use std::collections::{BTreeMap, HashMap};

use wearwell::design::{GeckoFtlOptions, geckoftl};
use wearwell::gc::GcOptions;
use wearwell::nand::Geometry;
use wearwell::operation::Cause;
use wearwell::validity::{GeckoOptions, MergeMode};

use super::collection::{CleaningPolicy, Event, PageMap};
use super::load::{Drive, Random, one_pool_geometry};

/// Number of blocks of the drive.
const BLOCKS: u32 = 8192;
/// Number of pages in a block; small, so that the copies of a victim are a small part of the map cache.
const BLOCK_PAGES: u32 = 16;
/// Size of a page of the drive, bytes.
const SMALL_PAGE_BYTES: u32 = 512;
/// Number of map entries in a translation page.
const ENTRIES_PER_PAGE: u32 = SMALL_PAGE_BYTES / 4;
/// Number of logical pages of the drive: 0.7 of its flash pages.
const LOGICAL_PAGES: u32 = (BLOCKS * BLOCK_PAGES) / 10 * 7;
/// Cost of a flash write divided by that of a read (delta in the GeckoFTL paper).
const WRITE_READ_COST_RATIO: f64 = 10.0;

/// Model of a cache of map entries: an LRU queue, whose eviction of a dirty entry writes a translation page.
#[derive(Default)]
struct MapCacheModel {
    /// Largest number of entries in the cache.
    capacity_entries: usize,
    /// Number of uses of cache entries so far. It serves as a clock for the time of an entry's last use.
    entry_uses: u64,
    /// Logical page of each cached entry, by time of last use.
    lpn_by_last_use: BTreeMap<u64, u32>,
    /// Time of last use of each cached entry, and whether the entry is dirty, by logical page.
    entries: HashMap<u32, (u64, bool)>,
    /// Number of entries that became dirty in the cache.
    dirty_inserts: u64,
    /// Number of synchronisations: writes of a translation page with all its dirty entries.
    synchronisations: u64,
}

impl MapCacheModel {
    /// Makes the map entry of a written page dirty and newest, and evicts the oldest entry if the cache is full.
    fn record_written(&mut self, lpn: u32) {
        self.entry_uses += 1;
        let old = self.entries.insert(lpn, (self.entry_uses, true));
        self.dirty_inserts += u64::from(old.is_none_or(|(_, is_dirty)| !is_dirty));
        if let Some((used, _)) = old {
            self.lpn_by_last_use.remove(&used);
        }
        self.lpn_by_last_use.insert(self.entry_uses, lpn);
        if self.entries.len() > self.capacity_entries {
            let (_, evicted) = self.lpn_by_last_use.pop_first().expect("the cache is full");
            let (_, is_dirty) = self.entries.remove(&evicted).expect("it is cached");
            if is_dirty {
                self.synchronisations += 1;
                let page = evicted / ENTRIES_PER_PAGE;
                for lpn in page * ENTRIES_PER_PAGE..(page + 1) * ENTRIES_PER_PAGE {
                    self.entries.entry(lpn).and_modify(|entry| entry.1 = false);
                }
            }
        }
    }
}

/// Number of page writes during the measurement.
const MEASURED_WRITES: u32 = LOGICAL_PAGES;

/// Returns the logical pages in the order in which they are written, each with a flag that is true for the first write
/// of the measurement.
fn lpns_with_measurement_start_flags() -> impl Iterator<Item = (u32, bool)> {
    let mut random = Random::new(5);
    (0..3 * LOGICAL_PAGES + MEASURED_WRITES).map(move |write| {
        let lpn = if write < LOGICAL_PAGES { write } else { random.draw_below(LOGICAL_PAGES as u64) as u32 };
        (lpn, write == 3 * LOGICAL_PAGES)
    })
}

#[test]
fn translation_traffic_follows_the_closed_form_and_the_simulation() {
    let tpt = LOGICAL_PAGES.div_ceil(ENTRIES_PER_PAGE);
    let capacities = [0.5, 1.4286, 4.0].map(|times| (tpt as f64 * times) as u32);
    let mut drive = PageMap::new(CleaningPolicy::Greedy, BLOCKS, BLOCK_PAGES, LOGICAL_PAGES);
    let mut caches = capacities
        .map(|capacity| MapCacheModel { capacity_entries: capacity as usize, ..MapCacheModel::default() });
    for (lpn, begins) in lpns_with_measurement_start_flags() {
        if begins {
            (drive.writes, drive.copies) = (0, 0);
            for cache in &mut caches {
                (cache.dirty_inserts, cache.synchronisations) = (0, 0);
            }
        }
        drive.write(lpn);
        for event in std::mem::take(&mut drive.events) {
            if let Event::Written { lpn, .. } = event {
                for cache in &mut caches {
                    cache.record_written(lpn);
                }
            }
        }
    }
    for (capacity, cache) in capacities.into_iter().zip(&caches) {
        let simulated = cache.synchronisations as f64 * (1.0 + 1.0 / WRITE_READ_COST_RATIO)
            / (drive.writes + drive.copies) as f64;
        let form = (1.0 + 1.0 / WRITE_READ_COST_RATIO) / (1.0 + capacity as f64 / tpt as f64);
        let [traffic, per_write] = engine_translation_and_data_pages_per_host_write(capacity);
        let program = traffic / per_write;
        println!(
            "C = {capacity}, TPT = {tpt}: {program:.4}, simulated {simulated:.4}, form {form:.4} per page written; pages \
             written per host write {per_write:.4}, simulated {:.4}, dirty {:.4}",
            drive.write_amplification(),
            cache.dirty_inserts as f64 / drive.writes as f64
        );
        assert!((program / simulated - 1.0).abs() < 0.02, "C = {capacity}: {program}, simulated {simulated}");
        assert!((program / form - 1.0).abs() < 0.02, "C = {capacity}: {program}, form {form}");
    }
}

/// No entry is evicted from a cache that holds all entries.
#[test]
fn a_cache_of_all_entries_has_no_translation_traffic() {
    let [traffic, per_write] = engine_translation_and_data_pages_per_host_write(u32::MAX);
    assert!(traffic <= 0.0, "{traffic} per host write");
    assert!(per_write > 1.5, "copies change the map as well: {per_write}");
}

/// Runs the engine's GeckoFTL. Returns the translation pages written plus a tenth of those read, per host write, and
/// the data pages written per host write.
fn engine_translation_and_data_pages_per_host_write(cache_entries: u32) -> [f64; 2] {
    let gecko = GeckoOptions { size_ratio: 2, parts_per_block: 1, merge_mode: MergeMode::MultiWay };
    let parts = geckoftl(GcOptions::default(), GeckoFtlOptions { cache_entries, gecko });
    let geometry = Geometry { page_bytes: SMALL_PAGE_BYTES, ..one_pool_geometry(BLOCKS, BLOCK_PAGES) };
    let mut drive = Drive::new(geometry, LOGICAL_PAGES, &parts);
    for (lpn, begins) in lpns_with_measurement_start_flags() {
        if begins {
            drive.device.ftl_mut().clear_stats();
        }
        drive.write(lpn, 1);
    }
    let stats = drive.stats();
    let of_map = |by_cause: [u64; Cause::COUNT]| {
        by_cause[Cause::Translation as usize] + by_cause[Cause::Checkpoint as usize]
    };
    let traffic = of_map(stats.programs) as f64 + of_map(stats.reads) as f64 / WRITE_READ_COST_RATIO;
    let data = stats.programs[Cause::Host as usize] + stats.programs[Cause::Gc as usize];
    [traffic, data as f64].map(|count| count / stats.host_page_writes as f64)
}
