//! Logarithmic Gecko (page validity on flash): flash reads and writes over size ratio T, partitioning S and merging
//! policy.
//!
//! The model follows section 3 and appendix A of the GeckoFTL paper. Entries are collected in a buffer of V entries,
//! which is flushed as a sorted run. A run of n pages is on level `floor(log_T n)`. In pairwise merging, two runs of a
//! level are read and merged into one, which may meet a run on its level again. In multi-way merging, the buffer and
//! all runs that this chain can reach are merged at once. Bitmaps are combined by OR, and an entry with the erase flag
//! hides all older entries of its block. A query reads each run from the newest to the oldest, and stops at an erase
//! flag. Of a run it reads one page, or two if the entries of a block lie on two.
//!
//! The paper leaves open where the flag is when an entry is partitioned. Here the flag is an entry of its own before
//! the others, and is dropped when nothing is older.
//!
//! The buffer counts insertions, not entries, as recovery within 2 V reads requires (appendix C.2). V is the paper's
//! `8 P / (key + B / S)` with whole bytes for the bitmap. Erased blocks and invalid pages come from the page-mapped
//! drive in `collection.rs`.

use std::collections::BTreeMap;

use wearwell::design::{GeckoFtlOptions, geckoftl};
use wearwell::gc::GcOptions;
use wearwell::operation::Cause;
use wearwell::validity::{GeckoOptions, MergeMode};

use super::collection::{CleaningPolicy, Event, PageMap};
use super::load::{Drive, PAGE_BYTES, Random, one_pool_geometry};

/// Size of an entry's key in a run, bytes.
const KEY_BYTES: u32 = 4;
/// Number of pages in a block.
const BLOCK_PAGES: u32 = 128;
/// Number of blocks of the drive.
const BLOCKS: u32 = 2048;
/// Logical pages per physical page (R in section 5 of the GeckoFTL paper).
const LOGICAL_SHARE: f64 = 0.7;
/// Cost of a flash write divided by that of a read (delta in the GeckoFTL paper).
const WRITE_READ_COST_RATIO: f64 = 10.0;

/// Block and sub-key of an entry. In partitioned entries, sub-key 0 is the erase flag and the others are the parts of
/// the bitmap; an entry that is not partitioned has only sub-key 0.
type EntryKey = (u32, u32);

/// Entry of Logarithmic Gecko: invalid pages of a block, or of a part of the block.
#[derive(Clone, Copy, Default)]
struct Entry {
    /// Whether the entry is the erase flag of its block, which hides all older entries of the block.
    is_erased: bool,
    /// Bitmap of the invalid pages, one bit per page of the block.
    bitmap: u128,
}

/// Entries of a sorted run, in the order of their keys.
type SortedRun = Vec<(EntryKey, Entry)>;

/// Model of Logarithmic Gecko: a buffer of entries in RAM, and sorted runs on flash.
struct LogarithmicGecko {
    /// Ratio T of the sizes of runs on successive levels.
    size_ratio: usize,
    /// Number S of parts into which the bitmap of a block is divided, each in an entry of its own.
    parts_per_block: u32,
    /// Number V of entries that fit into a flash page.
    page_entries: usize,
    /// Whether all runs that a flush can reach are merged at once; otherwise runs are merged in pairs.
    is_multi_way: bool,
    /// Entries that are in RAM only.
    buffer: BTreeMap<EntryKey, Entry>,
    /// Number of insertions into the buffer since its last flush.
    insertions: usize,
    /// Run on each level; a level holds at most one.
    levels: Vec<Option<SortedRun>>,
    /// Number of flash pages read for merges and queries.
    flash_reads: u64,
    /// Number of flash pages written.
    flash_writes: u64,
}

impl LogarithmicGecko {
    /// Creates an empty model with size ratio T, parts S per block, and a kind of merging.
    fn new(size_ratio: usize, parts_per_block: u32, is_multi_way: bool) -> Self {
        Self {
            size_ratio,
            parts_per_block,
            page_entries: (PAGE_BYTES / (KEY_BYTES + (BLOCK_PAGES / parts_per_block).div_ceil(8))) as usize,
            is_multi_way,
            buffer: BTreeMap::new(),
            insertions: 0,
            levels: Vec::new(),
            flash_reads: 0,
            flash_writes: 0,
        }
    }

    /// Reports a page as invalid (algorithm 1 of the GeckoFTL paper).
    fn report_invalid(&mut self, block: u32, offset: u32) {
        let part =
            if self.parts_per_block == 1 { 0 } else { 1 + offset / (BLOCK_PAGES / self.parts_per_block) };
        self.buffer.entry((block, part)).or_default().bitmap |= 1 << offset;
        self.count_insertion();
    }

    /// Reports a block as erased (algorithm 2 of the GeckoFTL paper).
    fn report_erased(&mut self, block: u32) {
        self.buffer.retain(|key, _| key.0 != block);
        self.buffer.insert((block, 0), Entry { is_erased: true, bitmap: 0 });
        self.count_insertion();
    }

    /// Counts an insertion into the buffer, and flushes the buffer as a run after V insertions.
    fn count_insertion(&mut self) {
        self.insertions += 1;
        if self.insertions == self.page_entries {
            self.insertions = 0;
            let run = std::mem::take(&mut self.buffer).into_iter().collect();
            self.flush_run(run);
        }
    }

    /// Returns the number of flash pages of a run.
    fn run_pages(&self, run: &SortedRun) -> usize {
        run.len().div_ceil(self.page_entries).max(1)
    }

    /// Returns the level on which a run of this many pages belongs: `floor(log_T pages)`, where T (`size_ratio`) is the
    /// size ratio between levels.
    fn level_of(&self, pages: usize) -> usize {
        let mut level = 0;
        while pages >= self.size_ratio.pow(level as u32 + 1) {
            level += 1;
        }
        level
    }

    /// Returns the run on a level, for changes.
    fn level_mut(&mut self, level: usize) -> &mut Option<SortedRun> {
        if self.levels.len() <= level {
            self.levels.resize(level + 1, None);
        }
        &mut self.levels[level]
    }

    /// Writes a run to flash, and merges it with the runs on its level and above.
    fn flush_run(&mut self, mut run: SortedRun) {
        let mut level = 0;
        // Upper bound of the merged run's pages: those of all runs merged so far, if no entry is obsolete.
        let mut at_most = 1;
        let mut is_written = false;
        while let Some(older) = self.level_mut(level).take() {
            if !self.is_multi_way {
                // In pairwise merging, the younger run is written to flash before it is merged, and read again.
                self.flash_writes += u64::from(!is_written);
                self.flash_reads += self.run_pages(&run) as u64;
            }
            self.flash_reads += self.run_pages(&older) as u64;
            at_most += self.run_pages(&older);
            run = merge_runs(&run, &older);
            if self.levels.iter().all(Option::is_none) {
                remove_erase_flags(&mut run);
            }
            let next = self.level_of(if self.is_multi_way { at_most } else { self.run_pages(&run) });
            if !self.is_multi_way {
                self.flash_writes += self.run_pages(&run) as u64;
                is_written = true;
            }
            if next == level {
                break;
            }
            level = next;
        }
        if !is_written {
            self.flash_writes += self.run_pages(&run) as u64;
        }
        let level = self.level_of(self.run_pages(&run));
        assert!(
            self.levels.iter().take(level + 1).all(Option::is_none),
            "a younger run is above an older one"
        );
        *self.level_mut(level) = Some(run);
    }

    /// Returns the bitmap of the invalid pages of `block`, and counts the flash reads of the query.
    fn query_block(&mut self, block: u32) -> u128 {
        let mut bitmap = 0;
        let of_block = |(key, entry): (&EntryKey, &Entry)| (key.0 == block).then_some(*entry);
        let buffered: Vec<Entry> = self.buffer.iter().filter_map(of_block).collect();
        let mut found = buffered;
        for run in std::iter::once(None).chain(self.levels.iter().map(Some)) {
            if let Some(run) = run {
                let Some(run) = run else { continue };
                // The run directory holds the first key of every page of the run.
                let first_keys: Vec<EntryKey> =
                    run.iter().step_by(self.page_entries).map(|entry| entry.0).collect();
                let last = first_keys.partition_point(|&first| first <= (block, self.parts_per_block));
                let first = first_keys.partition_point(|&first| first <= (block, 0)).max(1) - 1;
                self.flash_reads += last.saturating_sub(first) as u64;
                let from = run.partition_point(|entry| entry.0 < (block, 0));
                let entries = run[from..].iter().take_while(|entry| entry.0.0 == block);
                found = entries.map(|entry| entry.1).collect();
            }
            bitmap |= found.iter().fold(0, |all, entry| all | entry.bitmap);
            if found.iter().any(|entry| entry.is_erased) {
                break;
            }
        }
        bitmap
    }
}

/// Merges two runs entirely (algorithm 3 of the GeckoFTL paper).
fn merge_runs(newer: &SortedRun, older: &SortedRun) -> SortedRun {
    let erased: std::collections::HashSet<u32> =
        newer.iter().filter(|entry| entry.1.is_erased).map(|entry| entry.0.0).collect();
    let mut merged: BTreeMap<EntryKey, Entry> =
        older.iter().copied().filter(|entry| !erased.contains(&entry.0.0)).collect();
    for &(key, entry) in newer {
        let into = merged.entry(key).or_default();
        into.bitmap |= entry.bitmap;
        into.is_erased |= entry.is_erased;
    }
    merged.into_iter().collect()
}

/// Removes the erase flags from the oldest run, because no older run has entries that they could hide.
fn remove_erase_flags(run: &mut SortedRun) {
    for entry in run.iter_mut() {
        entry.1.is_erased = false;
    }
    run.retain(|entry| entry.1.bitmap != 0);
}

/// Number of page writes between the fill and the measurement, as a multiple of the number of logical pages.
const WARM_UP_WRITES_PER_LOGICAL_PAGE: f64 = 1.5;
/// Number of page writes during the measurement, as a multiple of the number of logical pages.
const MEASURED_WRITES_PER_LOGICAL_PAGE: f64 = 2.0;

/// Costs of a drive and of its page-validity store, per host write.
struct Costs {
    /// Page programs of host writes and copies, per host write.
    data_programs_per_write: f64,
    /// Pages of the validity store written, per host write.
    validity_page_writes_per_host_write: f64,
    /// Pages of the validity store written, plus those read divided by [`WRITE_READ_COST_RATIO`], per host write.
    validity_amplification: f64,
}

/// Returns the number of logical pages of the drive.
fn logical_pages() -> u32 {
    ((BLOCKS * BLOCK_PAGES) as f64 * LOGICAL_SHARE) as u32
}

/// Returns the logical pages in the order in which they are written, each with a flag that is true for the first write
/// of the measurement.
fn lpns_with_measurement_start_flags() -> impl Iterator<Item = (u32, bool)> {
    let logical = logical_pages();
    let mut random = Random::new(11);
    let [warm, measured] = [WARM_UP_WRITES_PER_LOGICAL_PAGE, MEASURED_WRITES_PER_LOGICAL_PAGE]
        .map(|times| (logical as f64 * times) as u32);
    (0..logical + warm + measured).map(move |write| {
        let lpn = if write < logical { write } else { random.draw_below(logical as u64) as u32 };
        (lpn, write == logical + warm)
    })
}

/// Runs the page-mapped model drive, applies its events to all validity structures, and returns the costs of each
/// structure.
fn measure_model_costs(mut structures: Vec<LogarithmicGecko>) -> Vec<Costs> {
    let mut drive = PageMap::new(CleaningPolicy::Greedy, BLOCKS, BLOCK_PAGES, logical_pages());
    let mut invalid = vec![0_u128; BLOCKS as usize];
    for (lpn, begins) in lpns_with_measurement_start_flags() {
        if begins {
            (drive.writes, drive.copies) = (0, 0);
            for gecko in &mut structures {
                (gecko.flash_reads, gecko.flash_writes) = (0, 0);
            }
        }
        drive.write(lpn);
        for event in std::mem::take(&mut drive.events) {
            match event {
                Event::Written { .. } => {}
                Event::Invalidated { page } => {
                    let (block, offset) = (page / BLOCK_PAGES, page % BLOCK_PAGES);
                    invalid[block as usize] |= 1 << offset;
                    for gecko in &mut structures {
                        gecko.report_invalid(block, offset);
                    }
                }
                Event::Queried { block } => {
                    for gecko in &mut structures {
                        assert_eq!(
                            gecko.query_block(block),
                            invalid[block as usize],
                            "the model answers as a bitmap"
                        );
                    }
                }
                Event::Erased { block } => {
                    invalid[block as usize] = 0;
                    for gecko in &mut structures {
                        gecko.report_erased(block);
                    }
                }
            }
        }
    }
    let per_write = |count: u64| count as f64 / drive.writes as f64;
    structures
        .iter()
        .map(|gecko| Costs {
            data_programs_per_write: drive.write_amplification(),
            validity_page_writes_per_host_write: per_write(gecko.flash_writes),
            validity_amplification: per_write(gecko.flash_writes)
                + per_write(gecko.flash_reads) / WRITE_READ_COST_RATIO,
        })
        .collect()
}

/// Runs the engine's GeckoFTL and returns its costs. All map entries are cached, so that invalid pages are known at
/// once and the map causes no flash operation.
fn engine_costs(size_ratio: u32, parts: u32, merge: MergeMode) -> Costs {
    let gecko = GeckoOptions { size_ratio, parts_per_block: parts, merge_mode: merge };
    let parts = geckoftl(GcOptions::default(), GeckoFtlOptions { cache_entries: u32::MAX, gecko });
    let mut drive = Drive::new(one_pool_geometry(BLOCKS, BLOCK_PAGES), logical_pages(), &parts);
    for (lpn, begins) in lpns_with_measurement_start_flags() {
        if begins {
            drive.device.ftl_mut().clear_stats();
        }
        drive.write(lpn, 1);
    }
    let stats = drive.stats();
    let per_write = |count: u64| count as f64 / stats.host_page_writes as f64;
    let [writes, reads] = [stats.programs, stats.reads].map(|by_cause| by_cause[Cause::Validity as usize]);
    Costs {
        data_programs_per_write: per_write(
            stats.programs[Cause::Host as usize] + stats.programs[Cause::Gc as usize],
        ),
        validity_page_writes_per_host_write: per_write(writes),
        validity_amplification: per_write(writes) + per_write(reads) / WRITE_READ_COST_RATIO,
    }
}

/// Largest allowed relative difference of costs between engine and model. In the engine 1.2 % fewer entries fit into a
/// flash page, because its pages have a header; its erase flags are separate entries even without partitioning; and it
/// inserts a flag when the block is opened, not when it is erased.
const TOLERANCE: f64 = 0.03;

/// Checks that a cost of the engine (`program`) differs from that of the model by at most the share `tolerance`.
#[track_caller]
fn assert_close(what: &str, program: f64, model: f64, tolerance: f64) {
    let error = program / model - 1.0;
    println!("{what}: {program:.5}, model {model:.5}, {:+.2} %", 100.0 * error);
    assert!(error.abs() <= tolerance, "{what}: {program}, model {model}");
}

#[test]
fn gecko_write_amplification_over_size_ratios_is_that_of_the_model() {
    let ratios = [2, 4, 16];
    let models = measure_model_costs(ratios.map(|ratio| LogarithmicGecko::new(ratio, 4, true)).into());
    for (ratio, model) in ratios.into_iter().zip(models) {
        let program = engine_costs(ratio as u32, 4, MergeMode::MultiWay);
        assert_close(
            &format!("T = {ratio}"),
            program.validity_amplification,
            model.validity_amplification,
            TOLERANCE,
        );
        assert_close("user and copies", program.data_programs_per_write, model.data_programs_per_write, 0.01);
    }
}

#[test]
fn gecko_write_amplification_over_bitmap_partitions_is_that_of_the_model() {
    let parts = [1, 16, 32];
    let models = measure_model_costs(parts.map(|parts| LogarithmicGecko::new(2, parts, true)).into());
    for (parts, model) in parts.into_iter().zip(models) {
        let program = engine_costs(2, parts, MergeMode::MultiWay);
        assert_close(
            &format!("S = {parts}"),
            program.validity_amplification,
            model.validity_amplification,
            TOLERANCE,
        );
    }
}

#[test]
fn pairwise_gecko_merging_writes_what_the_model_writes() {
    let [multi_way, pairwise] = [true, false].map(|is_multi_way| LogarithmicGecko::new(2, 4, is_multi_way));
    let models = measure_model_costs(vec![multi_way, pairwise]);
    let programs = [MergeMode::MultiWay, MergeMode::Pairwise].map(|merge| engine_costs(2, 4, merge));
    assert_close("pairwise", programs[1].validity_amplification, models[1].validity_amplification, TOLERANCE);
    let [ours, model] = [
        programs[0].validity_page_writes_per_host_write / programs[1].validity_page_writes_per_host_write,
        models[0].validity_page_writes_per_host_write / models[1].validity_page_writes_per_host_write,
    ];
    assert_close("writes, multi-way over pairwise", ours, model, TOLERANCE);
}
