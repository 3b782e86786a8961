//! Tests of the number of flash reads in the recovery of designs with metadata on flash. The battery of DFTL saves the
//! bitmap of page validity, so that no spare areas of data pages are read (GeckoFTL, SIGMOD 2016, sections 2 and 5.3,
//! Figure 13). The log of page validity of IB-FTL is read once.

use common::{Random, geometry_without_superblocks};
use wearwell::Ftl;
use wearwell::address::Lpn;
use wearwell::data::{Content, ContentDescriptor, Fingerprint};
use wearwell::design::{DftlOptions, Parts, UFtlOptions, dftl, ibftl, lazyftl};
use wearwell::gc::GcOptions;
use wearwell::nand::{RetainedPageFields, SimNand};
use wearwell::recovery::{RecoveryReport, RecoveryStepCost};
use wearwell::validity::AnyValidityStore;

use crate::common;

/// Number of blocks of the device.
const BLOCKS: u32 = 512;
/// Number of pages per block.
const BLOCK_PAGES: u32 = 64;
/// Number of bytes per page.
const PAGE_BYTES: u32 = 2048;
/// Number of logical pages: seven tenths of the flash pages.
const LOGICAL_PAGES: u32 = BLOCKS * BLOCK_PAGES / 10 * 7;
/// Capacity of the map cache, entries.
const MAP_CACHE_ENTRIES: u32 = 64;
/// Number of pages that a bitmap with one bit for every flash page of the device fills.
const BITMAP_PAGES: u64 = (BLOCKS * BLOCK_PAGES / 8 / PAGE_BYTES) as u64;

/// Returns a device in use: every logical page was written, followed by as many random overwrites as the device has
/// pages.
fn device_after_overwrites(parts: &Parts) -> Ftl {
    let nand = SimNand::new(
        geometry_without_superblocks([1, BLOCKS, BLOCK_PAGES, PAGE_BYTES]),
        RetainedPageFields::ALL,
    );
    let mut ftl = Ftl::new(nand, LOGICAL_PAGES, parts).expect("the device is large enough");
    let mut random = Random::new(7);
    (0..LOGICAL_PAGES).for_each(|lpn| write(&mut ftl, lpn));
    overwrite(&mut ftl, &mut random, BLOCKS * BLOCK_PAGES);
    ftl
}

/// Writes a logical page.
fn write(ftl: &mut Ftl, lpn: u32) {
    let content = Content::Descriptor(ContentDescriptor::of_fingerprint(Fingerprint(u64::from(lpn) + 1)));
    ftl.write(Lpn(lpn), content).expect("there is room");
}

/// Overwrites `writes` random logical pages.
fn overwrite(ftl: &mut Ftl, random: &mut Random, writes: u32) {
    (0..writes).for_each(|_| write(ftl, random.below(u64::from(LOGICAL_PAGES)) as u32));
}

/// Cuts power, recovers the device, checks its invariants and returns the costs of the recovery.
fn recover(ftl: &mut Ftl) -> RecoveryReport {
    let report = ftl.recover().expect("a healthy medium recovers");
    ftl.check().expect("the invariants hold");
    report
}

/// Returns DFTL with a small map cache.
fn dftl_parts() -> Parts {
    dftl(GcOptions::default(), DftlOptions { cache_entries: MAP_CACHE_ENTRIES })
}

/// Returns the duration of a recovery, seconds, if its operations are executed one after the other at the times of the
/// GeckoFTL paper.
fn seconds(report: &RecoveryReport) -> f64 {
    let steps = report.steps.named_step_costs();
    let sum = |of: fn(&RecoveryStepCost) -> u64| steps.iter().map(|(_, cost)| of(cost)).sum::<u64>() as f64;
    sum(|cost| cost.spare_reads) * 3e-6
        + sum(|cost| cost.page_reads) * 1e-4
        + sum(|cost| cost.programs) * 1e-3
}

/// Regression: the battery of DFTL saved map entries, but not the bitmap of page validity. Recovery then read the spare
/// area of every page of the device.
#[test]
fn the_battery_of_dftl_saves_the_page_validity_bitmap() {
    let mut ftl = device_after_overwrites(&dftl_parts());
    let report = recover(&mut ftl);
    let steps = report.steps;
    assert!(report.battery_programs >= BITMAP_PAGES, "{} battery programs", report.battery_programs);
    assert_eq!(steps.recount_valid_pages.page_reads, BITMAP_PAGES, "the bitmap is read once");
    let device_pages = u64::from(BLOCKS * BLOCK_PAGES);
    let spare_reads: u64 = steps.named_step_costs().iter().map(|(_, cost)| cost.spare_reads).sum();
    // One per block and per metadata page, and those of the binary search in open blocks.
    assert!(spare_reads < device_pages / 10, "{spare_reads} spare areas of {device_pages} pages");
    let by_recovery = report.page_and_spare_reads - report.battery_page_reads;
    assert_eq!(by_recovery, spare_reads + BITMAP_PAGES, "nothing else is read");
    assert_eq!(steps.synchronise_map.programs, 0);
}

#[test]
fn dftl_works_after_each_of_many_recoveries() {
    let mut ftl = device_after_overwrites(&dftl_parts());
    let mut random = Random::new(11);
    for _ in 0..20 {
        overwrite(&mut ftl, &mut random, 3000);
        let report = recover(&mut ftl);
        assert!(report.battery_programs >= BITMAP_PAGES, "every loss of power saves the bitmap anew");
        let again = ftl.recover().expect("a healthy medium recovers");
        assert!(again.battery_programs >= BITMAP_PAGES, "a device that works has a bitmap to save");
        ftl.check().expect("the invariants hold");
    }
}

/// Figure 13 of the GeckoFTL paper: DFTL reads back what its battery wrote. LazyFTL rebuilds the bitmap of page
/// validity from the map, and writes translation pages.
#[test]
fn dftl_recovers_faster_than_lazyftl() {
    let of_dftl = seconds(&recover(&mut device_after_overwrites(&dftl_parts())));
    let of_lazy =
        seconds(&recover(&mut device_after_overwrites(&lazyftl(GcOptions::default(), MAP_CACHE_ENTRIES))));
    assert!(of_dftl < of_lazy, "DFTL {of_dftl} s, LazyFTL {of_lazy} s");
}

/// Regression: IB-FTL read its log of invalid pages once to restore the chains in it, and again for the valid counts of
/// blocks.
#[test]
fn recovery_of_ib_ftl_reads_its_validity_log_once() {
    let options = UFtlOptions { cache_entries: MAP_CACHE_ENTRIES, cached_directory_nodes: 4 };
    let mut ftl = device_after_overwrites(&ibftl(GcOptions::default(), options));
    let report = recover(&mut ftl);
    let AnyValidityStore::Log(log) = ftl.validity() else { panic!("IB-FTL has a log") };
    let log_pages = u64::from(log.log_page_count());
    assert!(log_pages > 20, "{log_pages} pages of the log");
    assert_eq!(report.steps.recount_valid_pages.page_reads, 0, "the counts follow from what was read before");
    // The following synchronisation may write pages of the log.
    let written = report.steps.synchronise_map.programs;
    assert!(
        report.steps.rebuild_validity_directories.page_reads <= log_pages + written,
        "{:?} of {log_pages}",
        report.steps
    );
}
