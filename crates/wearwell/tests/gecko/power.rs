//! Tests of power cuts in Logarithmic Gecko (page validity on flash): recovery from flash alone finds all pages that
//! were reported as invalid before the last complete flush, and no others.

use wearwell::address::Ppn;
use wearwell::nand::{CutOutcome, Geometry, RetainedPageFields, SimNand};
use wearwell::validity::{Gecko, GeckoOptions, MergeMode};

use super::rig::{
    ExpectedInvalidPages, GeckoReport, Rig, geometry, options_of, pages_on_flash, scan_invalid_pages_by_block,
};
use crate::common::{Random, medium_with_power_cut};

/// Number of blocks of the flash.
const BLOCKS: u32 = 240;
/// Number of pages that a test run reports as invalid.
const UPDATES: u64 = 5000;

/// Returns the geometry of the flash: [`BLOCKS`] blocks of 16 pages of 512 bytes.
fn test_geometry() -> Geometry {
    geometry(BLOCKS, 16, 512)
}

/// Returns an empty Logarithmic Gecko on flash whose power is cut at operation `cut_at`. The returned rig records all
/// reports of invalid pages and opened blocks.
fn rig(options: GeckoOptions, cut_at: Option<u64>, outcome: CutOutcome) -> Rig {
    let nand = medium_with_power_cut(SimNand::new(test_geometry(), RetainedPageFields::ALL), cut_at, outcome);
    let mut rig = Rig::on(nand, options);
    rig.recorded_reports = Some(Vec::new());
    rig
}

/// Executes `updates` random reports of invalid pages, each followed by all deferred writes of Logarithmic Gecko and
/// random openings of blocks. Returns early if power is cut.
fn run(rig: &mut Rig, updates: u64, seed: u64) {
    let mut random = Random::new(seed);
    for _ in 0..updates {
        rig.invalidate_random_page(&mut random);
        if random.is_true_with_percent(1) {
            rig.gecko.request_flush();
        }
        loop {
            match rig.try_deferred_write_step() {
                Ok(true) => {
                    if random.is_true_with_percent(30) {
                        let block = random.below(BLOCKS as u64) as u32;
                        rig.open(block);
                    }
                }
                Ok(false) => break,
                Err(error) => {
                    assert!(error.is_power_loss(), "{error}");
                    return;
                }
            }
        }
    }
}

/// Splits a list of reports at the newest flush of Logarithmic Gecko that is on flash. Applies the earlier reports, in
/// order, to an empty bitmap of invalid pages. Returns this bitmap, and the later reports, which a power cut loses.
fn split_reports_by_durability(
    recorded_reports: &[(u64, GeckoReport)],
    durable_until: Option<u64>,
) -> (ExpectedInvalidPages, Vec<GeckoReport>) {
    let mut expected_invalid_pages = ExpectedInvalidPages::new(&test_geometry());
    let mut lost = Vec::new();
    for &(at, report) in recorded_reports {
        match report {
            // The freeze of the buffer is followed by a program at once: a report with the number of that program was
            // made before it.
            _ if durable_until.is_none_or(|time| at > time) => lost.push(report),
            GeckoReport::PageInvalid(page) => expected_invalid_pages.invalidate(page),
            GeckoReport::BlockOpened(block) => expected_invalid_pages.open(block),
        }
    }
    (expected_invalid_pages, lost)
}

/// Power is cut at every program and erase. The interrupted operation has no effect, is torn, or is complete but not
/// acknowledged. If a program was interrupted and used up its flash page, the lost reports of invalid pages are then
/// repeated, and the run continues.
#[test]
fn gecko_keeps_what_was_reported_before_its_last_flush_at_any_power_cut() {
    for (ratio, parts, mode) in
        [(2, 4, MergeMode::MultiWay), (3, 1, MergeMode::Pairwise), (4, 16, MergeMode::MultiWay)]
    {
        let options = options_of(ratio, parts, mode);
        let mut uncut = rig(options, None, CutOutcome::NoEffect);
        run(&mut uncut, UPDATES, 1);
        let operations = uncut.store.nand().power_cut_nand().cuttable_operations_since_power_restore();
        assert!(operations > 60, "{operations} operations: {options:?}");
        let mut unfinished = 0;
        println!("{operations} programs and erases: {options:?}");
        for cut_at in 0..operations {
            for outcome in CutOutcome::ALL {
                let mut rig = rig(options, Some(cut_at), outcome);
                run(&mut rig, UPDATES, 1);
                assert!(rig.store.nand().power_cut_nand().is_power_lost());
                unfinished += u32::from(recover_and_compare(&mut rig, options));
                if outcome != CutOutcome::NoEffect && rig.last_cut_was_a_program() {
                    continue_after_recovery(&mut rig);
                }
            }
        }
        assert!(unfinished > 20, "{unfinished} cuts left an unfinished run: {options:?}");
    }
}

/// Recovers Logarithmic Gecko from flash and compares its invalid pages with the expected bitmap. Returns whether pages
/// of an unfinished run were on flash.
fn recover_and_compare(rig: &mut Rig, options: GeckoOptions) -> bool {
    rig.store.nand_mut().power_cut_nand_mut().restore_power(None);
    let pages = pages_on_flash(rig.store.nand_mut());
    let mut recovered = Gecko::new(&test_geometry(), options).expect("valid");
    recovered.recover(&mut rig.store, &pages).expect("what is complete covers every flush");
    assert_eq!(
        rig.store.nand().power_cut_nand().cuttable_operations_since_power_restore(),
        0,
        "recovery writes nothing"
    );
    let durable_until =
        recovered.level_entries_and_pages_of_each_run().next().map(|_| recovered.durable_until_sequence());
    // If the last page of a run was programmed but not acknowledged, the run is complete.
    assert!(recovered.durable_until_sequence() >= rig.gecko.durable_until_sequence());
    let (expected_invalid_pages, lost) =
        split_reports_by_durability(rig.recorded_reports.as_ref().expect("kept"), durable_until);
    assert_eq!(
        scan_invalid_pages_by_block(&recovered, &mut rig.store),
        expected_invalid_pages.invalid_pages_by_block()
    );
    assert_eq!(recovered.unflushed_validity_report_count(), 0);
    let places: Vec<(u32, Ppn)> = recovered.live_run_pages().collect();
    recovered.recover(&mut rig.store, &pages).expect("twice is once");
    assert_eq!(recovered.live_run_pages().collect::<Vec<_>>(), places);

    let has_unfinished = pages.iter().any(|(_, oob)| places.iter().all(|&(run, _)| oob.owner > run));
    rig.continue_with_recovered_gecko(recovered, &pages, expected_invalid_pages, lost);
    has_unfinished
}

/// Reports further invalid pages and opened blocks to a recovered Logarithmic Gecko. Checks that its answers are
/// correct and that it can be recovered again.
fn continue_after_recovery(rig: &mut Rig) {
    let options = rig.gecko.options();
    run(rig, 250, 2);
    rig.compare_invalid_pages_with_expected();
    let pages = pages_on_flash(rig.store.nand_mut());
    let mut recovered = Gecko::new(&test_geometry(), options).expect("valid");
    recovered.recover(&mut rig.store, &pages).expect("what is complete covers every flush");
    let places: Vec<(u32, Ppn)> = recovered.live_run_pages().collect();
    assert_eq!(places, rig.gecko.live_run_pages().collect::<Vec<_>>());
}
