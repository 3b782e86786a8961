//! Tests of rules of Logarithmic Gecko (page validity on flash) that are plausible and wrong. Each test describes a
//! case, and shows the wrong answer of the naive rule.

use std::collections::{BTreeMap, BTreeSet};

use wearwell::Error;
use wearwell::address::{BlockId, Ppn};
use wearwell::nand::{Geometry, Nand, RetainedPageFields, SimNand};
use wearwell::operation::Cause;
use wearwell::store::{FlashPageStore, FreeBlockOrder};
use wearwell::validity::{Gecko, GeckoOptions, MergeMode, ValidityStore};

use super::rig::{Rig, geometry, options_of, pages_on_flash, scan_invalid_pages_by_block};

/// Pages per block. If the bitmap of a block is not partitioned, an entry of Logarithmic Gecko is a key and one byte.
const BLOCK_PAGES: u32 = 8;

/// Returns the geometry and the options of these tests: 1024 blocks, each with its whole bitmap in one entry.
fn unpartitioned_geometry_and_options() -> (Geometry, GeckoOptions) {
    (geometry(1024, BLOCK_PAGES, 512), options_of(2, 1, MergeMode::MultiWay))
}

/// Recovers Logarithmic Gecko from flash alone; returns it with the invalid pages that it reports, by block.
fn recover_gecko_and_invalid_pages(
    rig: &mut Rig,
    geometry: &Geometry,
    options: GeckoOptions,
) -> (Gecko, Vec<(u32, Vec<u32>)>) {
    let pages = pages_on_flash(rig.store.nand_mut());
    let mut gecko = Gecko::new(geometry, options).expect("valid");
    gecko.recover(&mut rig.store, &pages).expect("the runs are complete");
    let known = scan_invalid_pages_by_block(&gecko, &mut rig.store);
    (gecko, known)
}

/// A run (sorted sequence of pages) of Logarithmic Gecko that is complete on flash, as a naive recovery by appendix C.1
/// of the GeckoFTL paper reads it.
struct NaiveRun {
    /// Level of the run, which follows from its number of pages.
    level: u32,
    /// Sequence number of the program that completed the run.
    completion_sequence: u64,
    /// Key and bitmap of each entry of the run.
    entries: Vec<(u32, u8)>,
}

/// Reads all complete runs of Logarithmic Gecko from flash, obsolete ones included.
fn read_complete_runs(rig: &mut Rig) -> Vec<NaiveRun> {
    let mut runs = BTreeMap::<u32, BTreeMap<u64, Ppn>>::new();
    for (ppn, oob) in pages_on_flash(rig.store.nand_mut()) {
        runs.entry(oob.owner).or_default().insert(oob.first_write_sequence_number, ppn);
    }
    let mut complete = Vec::new();
    for pages in runs.into_values() {
        let mut run = NaiveRun { level: pages.len().ilog2(), completion_sequence: 0, entries: Vec::new() };
        let mut is_complete = false;
        for (generation, ppn) in pages {
            let mut page = [0; 512];
            rig.store.nand_mut().read(ppn, &mut page).expect("readable");
            let count = u16::from_le_bytes([page[4], page[5]]) as usize;
            let entries = page[8..].chunks_exact(5).take(count);
            run.entries
                .extend(entries.map(|e| (u32::from_le_bytes(e[..4].try_into().expect("four bytes")), e[4])));
            (run.completion_sequence, is_complete) = (generation, page[6] == 1);
        }
        if is_complete {
            complete.push(run);
        }
    }
    complete
}

/// Returns the bitmap of invalid pages of each block by the rules of appendix C.1 of the GeckoFTL paper, applied
/// literally: of each level the run that was created last is valid, and lower levels are newer.
fn naive_invalid_bitmaps_by_block(runs: Vec<NaiveRun>) -> BTreeMap<u32, u8> {
    let mut by_level = BTreeMap::<u32, NaiveRun>::new();
    for run in runs {
        let is_newer =
            by_level.get(&run.level).is_none_or(|known| known.completion_sequence < run.completion_sequence);
        if is_newer {
            by_level.insert(run.level, run);
        }
    }
    let (mut invalid, mut void) = (BTreeMap::new(), BTreeSet::new());
    for run in by_level.into_values() {
        for &(key, bitmap) in run.entries.iter().filter(|(key, _)| key % 2 == 1 && !void.contains(&(key / 2)))
        {
            *invalid.entry(key / 2).or_default() |= bitmap;
        }
        void.extend(run.entries.iter().filter(|(key, _)| key % 2 == 0).map(|(key, _)| key / 2));
    }
    invalid
}

/// Two flushes are merged into a run at level 1, and two more flushes void all its entries, so the next merge leaves a
/// run of one page at level 0. Power is lost before the blocks of the old run are erased. The rule "the newest run of
/// each level is valid" would then use the old run, and report pages as invalid that hold data.
#[test]
fn a_gecko_merge_into_a_lower_level_obsoletes_its_inputs() {
    let (geometry, options) = unpartitioned_geometry_and_options();
    let mut rig = Rig::new(&geometry, options);
    rig.keeps_obsolete_pages = true;
    let blocks = 2 * rig.gecko.validity_reports_per_flush();
    for block in 0..blocks {
        rig.invalidate(block * BLOCK_PAGES + 3);
        rig.execute_deferred_writes();
    }
    assert_eq!(
        rig.gecko.level_entries_and_pages_of_each_run().map(|(level, _, _)| level).collect::<Vec<_>>(),
        [1]
    );
    for block in 0..blocks {
        rig.open(block);
        rig.execute_deferred_writes();
    }
    assert_eq!(
        rig.gecko.level_entries_and_pages_of_each_run().collect::<Vec<_>>(),
        [(0, 0, 1)],
        "nothing is left to say"
    );

    let naive = naive_invalid_bitmaps_by_block(read_complete_runs(&mut rig));
    assert_eq!(naive.len() as u32, blocks, "the naive rule brings back what the markers voided");
    let (gecko, known) = recover_gecko_and_invalid_pages(&mut rig, &geometry, options);
    assert_eq!(known, []);
    assert_eq!(gecko.live_run_pages().count(), 1);
}

/// A merge replaces several runs by one larger run at a higher level. Power is lost before the blocks of the input runs
/// are erased. The rule "lower levels are newer" would take the input runs for newer than their output, and would bring
/// back entries that the newest input had voided.
#[test]
fn a_gecko_merge_into_a_higher_level_obsoletes_its_inputs() {
    let (geometry, options) = unpartitioned_geometry_and_options();
    let mut rig = Rig::new(&geometry, options);
    rig.keeps_obsolete_pages = true;
    let buffer = rig.gecko.validity_reports_per_flush();
    // Runs at levels 1 and 0. The fourth flush voids a block that is in the third, and merges all runs into one at
    // level 2, or just below because that block's entry is gone.
    for block in 0..3 * buffer {
        rig.invalidate(block * BLOCK_PAGES + 3);
        rig.execute_deferred_writes();
    }
    assert_eq!(
        rig.gecko.level_entries_and_pages_of_each_run().map(|(level, _, _)| level).collect::<Vec<_>>(),
        [0, 1]
    );
    let voided = 3 * buffer - 1;
    rig.open(voided);
    for block in 3 * buffer..4 * buffer - 1 {
        rig.invalidate(block * BLOCK_PAGES + 3);
    }
    rig.execute_deferred_writes();
    let levels: Vec<u32> =
        rig.gecko.level_entries_and_pages_of_each_run().map(|(level, _, _)| level).collect();
    assert_eq!(
        levels,
        [2 - u32::from(
            rig.gecko.level_entries_and_pages_of_each_run().next().expect("a run").1 <= 3 * buffer
        )]
    );

    let naive = naive_invalid_bitmaps_by_block(read_complete_runs(&mut rig));
    assert_eq!(naive.get(&voided), Some(&8), "the naive rule believes the third flush");
    let (_, known) = recover_gecko_and_invalid_pages(&mut rig, &geometry, options);
    assert!(known.iter().all(|(block, _)| *block != voided));
    assert_eq!(known, rig.expected_invalid_pages.invalid_pages_by_block());
}

/// A block is opened after the buffer was frozen for a flush, and before the run of this flush is complete. The erase
/// marker of the block is in the new buffer, and a power cut loses it. The FTL must then report the opened block again,
/// or older entries would make its pages invalid. So the time of a run, which recovery returns, must be that of the
/// freeze, not that of the completed run.
#[test]
fn a_gecko_run_is_dated_by_when_its_buffer_was_frozen() {
    let (geometry, options) = unpartitioned_geometry_and_options();
    let mut rig = Rig::new(&geometry, options);
    let buffer = rig.gecko.validity_reports_per_flush();
    for block in 0..4 * buffer - 1 {
        rig.invalidate(block * BLOCK_PAGES);
        rig.execute_deferred_writes();
    }
    rig.invalidate((4 * buffer - 1) * BLOCK_PAGES);
    assert!(rig.execute_deferred_write_step(), "the first page of a merge of several");
    let opened_at = rig.store.last_sequence();
    rig.open(7);
    while rig.execute_deferred_write_step() {}
    assert_eq!(rig.gecko.unflushed_validity_report_count(), 1, "the marker is in RAM");

    let completed_at = pages_on_flash(rig.store.nand_mut())
        .iter()
        .map(|(_, oob)| oob.first_write_sequence_number)
        .max()
        .expect("pages");
    let (gecko, known) = recover_gecko_and_invalid_pages(&mut rig, &geometry, options);
    assert!(known.iter().any(|(block, _)| *block == 7), "the marker was lost");
    assert_eq!(gecko.durable_until_sequence(), rig.gecko.durable_until_sequence());
    assert!(gecko.durable_until_sequence() < opened_at, "the FTL opens block 7 again");
    assert!(completed_at > opened_at, "by the time of completion it would not");
}

/// An erase marker voids all older entries of its block, for every part of the block's bitmap. The older entries may be
/// in the buffer, in a newer run, or in the run with which the run of the marker is merged. Pages that are reported as
/// invalid after the marker stay invalid. A flag on the entry of one part would not void the entries of the other
/// parts.
#[test]
fn a_gecko_erase_marker_voids_all_older_entries_of_its_block_and_no_newer_ones() {
    for mode in [MergeMode::Pairwise, MergeMode::MultiWay] {
        let mut rig = Rig::new(&geometry(64, 16, 512), options_of(2, 4, mode));
        let flush = |rig: &mut Rig| {
            rig.gecko.request_flush();
            rig.execute_deferred_writes();
        };
        for page in [0, 4, 5, 9, 15] {
            rig.invalidate(16 * 3 + page);
        }
        rig.invalidate(16 * 2 + 15);
        rig.invalidate(16 * 4);
        flush(&mut rig);
        rig.invalidate(16 * 3 + 10);
        rig.open(3);
        rig.query_valid_pages(3);
        rig.invalidate(16 * 3 + 6);
        rig.query_valid_pages(3);
        flush(&mut rig);
        rig.compare_invalid_pages_with_expected();
        rig.invalidate(16 * 3 + 7);
        flush(&mut rig);
        rig.compare_invalid_pages_with_expected();
        rig.open(3);
        flush(&mut rig);
        rig.compare_invalid_pages_with_expected();
    }
}

/// A merge may make a run smaller, and the run then moves to the lower level of its size. It must not get below the
/// level of a run that is newer than its oldest input, because a query goes from low levels to high ones and ends at
/// the first erase marker of its block.
#[test]
fn a_gecko_merge_output_that_shrinks_keeps_the_age_order_of_runs() {
    for mode in [MergeMode::Pairwise, MergeMode::MultiWay] {
        let mut rig = Rig::new(&geometry(2048, BLOCK_PAGES, 512), options_of(2, 1, mode));
        let buffer = rig.gecko.validity_reports_per_flush();
        // A large old run, then repeated reports for a few blocks that the next flushes void.
        for block in 0..16 * buffer {
            rig.invalidate(block * BLOCK_PAGES);
            rig.execute_deferred_writes();
        }
        for round in 0..40 * buffer {
            let block = round % (buffer / 2);
            if round / (buffer / 2) % 3 == 2 {
                rig.open(block);
            } else {
                rig.invalidate(block * BLOCK_PAGES + round / (buffer / 2) % 3);
            }
            rig.execute_deferred_writes();
            rig.query_valid_pages(block);
        }
        rig.compare_invalid_pages_with_expected();
    }
}

/// A run of Logarithmic Gecko is obsolete, and some of its blocks were erased. Its last page is still on flash, but the
/// run is not complete, so recovery must ignore it.
#[test]
fn recovery_ignores_a_gecko_run_of_which_a_page_was_erased() {
    let (geometry, options) = unpartitioned_geometry_and_options();
    let mut rig = Rig::new(&geometry, options);
    rig.keeps_obsolete_pages = true;
    for block in 0..2 * rig.gecko.validity_reports_per_flush() {
        rig.invalidate(block * BLOCK_PAGES);
        rig.execute_deferred_writes();
    }
    let mut pages = pages_on_flash(rig.store.nand_mut());
    let (newest, _) = rig.gecko.live_run_pages().next().expect("a run");
    let first = pages.iter().position(|(_, oob)| oob.owner == newest).expect("its first page");
    pages.remove(first);
    let mut gecko = Gecko::new(&geometry, options).expect("valid");
    gecko.recover(&mut rig.store, &pages).expect("the input of the merge is still there");
    assert!(gecko.live_run_pages().all(|(run, _)| run != newest));

    // Of three flushes only the third remains, which a power cut cannot cause.
    for block in 0..rig.gecko.validity_reports_per_flush() {
        rig.invalidate(block * BLOCK_PAGES + 1);
        rig.execute_deferred_writes();
    }
    let mut pages = pages_on_flash(rig.store.nand_mut());
    pages.retain(|(_, oob)| oob.owner > newest);
    let Err(Error::Damaged(what)) = gecko.recover(&mut rig.store, &pages) else {
        panic!("two flushes are missing and nobody says so")
    };
    assert!(what.contains("covers the buffer flushes 3 to 3, and no older run is on flash"), "{what}");
}

/// Recovery reads one page per run of Logarithmic Gecko, and more only if the directory of the run is longer than one
/// page.
#[test]
fn gecko_run_directories_of_several_pages_are_recovered() {
    let (geometry, options) = (geometry(20_000, 16, 512), options_of(2, 16, MergeMode::MultiWay));
    let mut rig = Rig::on(SimNand::new(geometry.clone(), RetainedPageFields::ALL), options);
    for page in 0..40_000 {
        rig.invalidate(page * 7 % (20_000 * 16));
    }
    rig.gecko.request_flush();
    rig.execute_deferred_writes();
    let (_, entries, pages) = rig.gecko.level_entries_and_pages_of_each_run().next().expect("a run");
    assert!(pages > entries.div_ceil(100) + 1, "a directory of several pages");
    let store = FlashPageStore::new(rig.store.into_nand(), FreeBlockOrder::Fifo);
    rig.store = store;
    let (gecko, known) = recover_gecko_and_invalid_pages(&mut rig, &geometry, options);
    assert_eq!(known, rig.expected_invalid_pages.invalid_pages_by_block());
    let reads = rig.store.stats.reads[Cause::Recovery as usize];
    assert!(reads < 2 * pages as u64);
    let mut live = Vec::new();
    let mut gecko = gecko;
    gecko.append_valid_pages(&mut rig.store, BlockId(1234), &mut live).expect("healthy");
    assert_eq!(
        live.into_iter().map(|ppn| ppn.0).collect::<Vec<_>>(),
        rig.expected_invalid_pages.valid_page_numbers(1234)
    );
}
