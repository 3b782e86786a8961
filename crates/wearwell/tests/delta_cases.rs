//! Tests of delta encoding, case by case: which writes may be stored as deltas, which events a delta must survive, and
//! what a naive device loses.

use common::{audit, geometry_without_superblocks};
use wearwell::address::{BlockId, Lpn, RemapMode};
use wearwell::content::dedup::DedupOptions;
use wearwell::content::delta::DeltaStatistics;
use wearwell::content::recycle::RecycleOptions;
use wearwell::data::{ContentDescriptor, Fingerprint, mix_bits};
use wearwell::design::{
    DeltaOptions, DftlOptions, MappingPart, RecyclingPart, SharingOptions, delta, delta_with_journal, dftl,
};
use wearwell::device::HostData;
use wearwell::gc::{GcOptions, VictimPolicy};
use wearwell::mapping::{AnyMapping, DemandPagedMapOptions, JournalCounts, JournalOptions};
use wearwell::nand::{PageKind, RetainedPageFields, SimNand};
use wearwell::operation::{Cause, FlashOp, OpKind};
use wearwell::sharing::counts::ReferenceCountForm;
use wearwell::sharing::reverse_map::ReverseMapKind;
use wearwell::store::BlockState;
use wearwell::{Device, DeviceOptions, Error};

use crate::common;

/// Bytes per page.
const PAGE_BYTES: usize = 4096;
/// Number of logical pages of the device.
const LOGICAL_PAGES: u32 = 60;

/// Device of sixteen blocks of eight pages with delta encoding. Two accesses make a page hot. GC and the search for
/// cold pages run only if a test requests them.
struct Drive {
    /// Device under test.
    device: Device,
}

/// Numbers of pages that were read and programmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ReadAndProgramCounts {
    /// Number of pages that were read.
    reads: u64,
    /// Number of pages that were programmed.
    programs: u64,
}

/// Returns options of delta encoding without the periodic search for cold pages.
fn options_without_cold_scan() -> DeltaOptions {
    DeltaOptions {
        cold_scan_interval_writes: 0,
        max_delta_share_of_spare_pages: 1.0,
        ..DeltaOptions::default()
    }
}

/// Returns GC options with this victim policy, under which GC runs only when a test requests it.
fn gc_options_on_demand(policy: VictimPolicy) -> GcOptions {
    GcOptions { policy, background_gc_below_free_blocks: u32::MAX, ..GcOptions::default() }
}

/// Returns the bytes of version `version` of a page: random bytes, of which each version changes `changed` bytes.
fn page(lpn: u64, version: u64, changed: usize) -> Vec<u8> {
    let noise = |seed: u64| (0..).flat_map(move |k| mix_bits(seed << 20 | k).to_le_bytes());
    let mut bytes: Vec<u8> = noise(lpn + 1).take(PAGE_BYTES).collect();
    if version > 0 {
        let at = version as usize * 37 % (PAGE_BYTES - changed + 1);
        bytes[at..at + changed].iter_mut().zip(noise(lpn << 8 | version)).for_each(|(b, n)| *b ^= n | 1);
    }
    bytes
}

impl Drive {
    /// Creates a drive without a battery that combines deltas with remaps and, if `dedup` is given, deduplication.
    fn with_sharing_and_map_in_nvram(
        reference_count_form: ReferenceCountForm,
        dedup: Option<DedupOptions>,
    ) -> Self {
        let mut parts = delta(GcOptions::default(), options_without_cold_scan(), None);
        let reverse_map = ReverseMapKind::Ideal;
        parts.content.sharing = Some(SharingOptions {
            reverse_map,
            reference_count_form,
            dedup,
            has_atomic_remap_commands: false,
        });
        let parts = parts.without_battery();
        let geometry = geometry_without_superblocks([1, 16, 8, PAGE_BYTES as u32]);
        let nand = SimNand::new(geometry.clone(), RetainedPageFields::ALL);
        let nand = nand.with_nvram(parts.total_nvram_bytes(&geometry, LOGICAL_PAGES));
        let device =
            Device::new(nand, LOGICAL_PAGES, &parts, DeviceOptions::default()).expect("they go together");
        Self { device }
    }

    /// Creates a drive of the delta design with these options of delta encoding, the default GC, and the map in RAM.
    fn new(design: DeltaOptions) -> Self {
        Self::with(design, GcOptions::default(), None)
    }

    /// Creates a drive of the delta design. `cache_entries` is the capacity of the map cache; `None` keeps the whole
    /// map in RAM.
    fn with(design: DeltaOptions, gc: GcOptions, cache_entries: Option<u32>) -> Self {
        let nand = SimNand::new(
            geometry_without_superblocks([1, 16, 8, PAGE_BYTES as u32]),
            RetainedPageFields::ALL,
        );
        let parts = delta(gc, design, cache_entries.map(DemandPagedMapOptions::with_cache_capacity));
        let device = Device::new(nand, LOGICAL_PAGES, &parts, DeviceOptions::default()).expect("it fits");
        Self { device }
    }

    /// Writes version `version` of a page, which differs from the other versions in 200 bytes.
    fn write(&mut self, lpn: u64, version: u64) {
        self.write_bytes(lpn, &page(lpn, version, 200));
    }

    /// Writes the bytes of a logical page, and audits the device.
    fn write_bytes(&mut self, lpn: u64, bytes: &[u8]) {
        self.device
            .write(lpn * PAGE_BYTES as u64, PAGE_BYTES as u64, HostData::Bytes(bytes))
            .expect("there is room");
        audit(&mut self.device);
    }

    /// Writes a page of which only the fingerprint and the size of the delta to its old version are given.
    fn write_with_delta_size(&mut self, lpn: u32, id: u64, delta_bytes: u16) {
        let content = ContentDescriptor { delta_bytes, ..ContentDescriptor::of_fingerprint(Fingerprint(id)) };
        self.device.write_page_descriptor(Lpn(lpn), content).expect("there is room");
        audit(&mut self.device);
    }

    /// Reads a logical page, audits the device, and returns the bytes.
    fn read_bytes(&mut self, lpn: u64) -> Vec<u8> {
        let mut bytes = vec![0xa5; PAGE_BYTES];
        self.device
            .read(lpn * PAGE_BYTES as u64, PAGE_BYTES as u64, &mut bytes)
            .expect("a healthy medium reads");
        audit(&mut self.device);
        bytes
    }

    /// Asserts that a logical page holds version `version`.
    fn assert_holds_version(&mut self, lpn: u64, version: u64) {
        assert!(
            self.read_bytes(lpn) == page(lpn, version, 200),
            "page {lpn} does not hold version {version}"
        );
    }

    /// Reads a logical page without checking its bytes.
    fn read_unchecked(&mut self, lpn: u64) {
        self.device
            .read(lpn * PAGE_BYTES as u64, PAGE_BYTES as u64, &mut [])
            .expect("a healthy medium reads");
        audit(&mut self.device);
    }

    /// Trims a logical page, and audits the device.
    fn trim(&mut self, lpn: u64) {
        self.device.trim(lpn * PAGE_BYTES as u64, PAGE_BYTES as u64).expect("a trim");
        audit(&mut self.device);
    }

    /// Collects one GC victim; returns `false` if no page can be freed.
    fn collect(&mut self) -> bool {
        let collected = self.device.ftl_mut().collect_in_background().expect("there is room");
        audit(&mut self.device);
        collected
    }

    /// Cuts power and recovers. At the cut the capacitor writes staged deltas (deltas buffered in RAM) and tables; all
    /// other RAM is lost.
    fn lose_power(&mut self) {
        self.device.recover().expect("power stays on");
        audit(&mut self.device);
    }

    /// Makes the device program its staged deltas (deltas buffered in RAM) as a flash page, by writing a delta of 3,900
    /// bytes, which does not fit into one page with them.
    fn commit_staged_deltas(&mut self, lpn: u32) {
        self.write_with_delta_size(lpn, 9_000, 10);
        self.write_with_delta_size(lpn, 9_001, 3_900);
    }

    /// Returns the counters of delta encoding.
    fn statistics(&self) -> DeltaStatistics {
        self.device.ftl().delta_statistics().expect("the design makes deltas")
    }

    /// Returns the number of host writes that were stored as deltas.
    fn delta_writes(&self) -> u64 {
        self.device.ftl().stats().delta_writes
    }

    /// Returns the numbers of flash operations that the device has executed so far.
    fn read_and_program_counts(&self) -> ReadAndProgramCounts {
        let stats = self.device.ftl().stats();
        ReadAndProgramCounts { reads: stats.total_reads(), programs: stats.total_programs() }
    }

    /// Returns the numbers of flash operations that `action` causes.
    fn cost(&mut self, action: impl FnOnce(&mut Self)) -> ReadAndProgramCounts {
        let before = self.read_and_program_counts();
        action(self);
        let after = self.read_and_program_counts();
        ReadAndProgramCounts { reads: after.reads - before.reads, programs: after.programs - before.programs }
    }

    /// Returns the number of valid pages of this kind on the device.
    fn valid_pages(&self, kind: PageKind) -> u32 {
        let blocks = self.device.ftl().store().blocks();
        let used = |&block: &BlockId| blocks.state(block) != BlockState::Free && blocks.kind(block) == kind;
        (0..blocks.len()).map(BlockId).filter(used).map(|block| blocks.valid_pages(block)).sum()
    }
}

/// Returns these numbers of reads and programs, as an expectation.
fn cost(reads: u64, programs: u64) -> ReadAndProgramCounts {
    ReadAndProgramCounts { reads, programs }
}

/// Only pages that are written often and not read often become deltas.
#[test]
fn only_write_hot_and_read_cold_pages_are_stored_as_deltas() {
    let mut drive = Drive::new(options_without_cold_scan());
    drive.write(0, 0);
    assert_eq!(drive.delta_writes(), 0, "the first write finds nothing to differ from");
    drive.write(0, 1);
    assert_eq!(drive.delta_writes(), 1, "the second write makes it hot");
    drive.write(1, 0);
    (0..2).for_each(|_| drive.assert_holds_version(1, 0));
    drive.write(1, 1);
    assert_eq!(drive.delta_writes(), 1, "page 1 is read as often as it is written");
    drive.assert_holds_version(0, 1);
    drive.assert_holds_version(1, 1);
}

/// A difference that does not compress is stored as a page. A naive device stores a "difference" as large as the page,
/// and the base in addition.
#[test]
fn an_incompressible_difference_is_stored_as_a_whole_page() {
    let mut drive = Drive::new(options_without_cold_scan());
    drive.write(0, 0);
    drive.write_bytes(0, &page(7, 0, 0));
    assert_eq!((drive.delta_writes(), drive.statistics().hot_writes_without_usable_delta), (0, 1));
    assert_eq!(drive.valid_pages(PageKind::Data), 1, "the old version is not held for nothing");
    assert!(drive.read_bytes(0) == page(7, 0, 0));
}

/// A write whose delta is larger than the permitted share of a page is stored as a whole page, however small deltas are
/// on average.
#[test]
fn a_delta_larger_than_permitted_is_stored_as_a_whole_page() {
    let mut drive =
        Drive::new(DeltaOptions { max_mean_delta_share_of_page: 0.5, ..options_without_cold_scan() });
    drive.write_with_delta_size(0, 1, 0);
    drive.write_with_delta_size(0, 2, 2_100);
    assert_eq!((drive.delta_writes(), drive.statistics().hot_writes_without_usable_delta), (0, 1));
    drive.write_with_delta_size(0, 3, 2_000);
    assert_eq!(drive.delta_writes(), 1);
}

/// Every delta is relative to the stored page. A delta relative to the previous version could not be decoded, because
/// only the newest delta is kept.
#[test]
fn every_delta_is_relative_to_the_stored_page() {
    let mut drive = Drive::new(options_without_cold_scan());
    for version in 0..5 {
        drive.write(0, version);
    }
    assert_eq!(drive.delta_writes(), 4);
    drive.assert_holds_version(0, 4);
}

/// The packed delta ratio is the number of pages written divided by the number of deltas in them. If pages with one and
/// with two deltas alternate, the ratio is 2/3. The mean of the ratios of single pages would be 3/4. A device that uses
/// this mean stops delta encoding at a limit between both.
#[test]
fn the_packed_delta_ratio_is_pages_written_divided_by_deltas_stored() {
    let mut drive =
        Drive::new(DeltaOptions { max_mean_delta_share_of_page: 0.7, ..options_without_cold_scan() });
    (0..6).for_each(|lpn| drive.write_with_delta_size(lpn, u64::from(lpn) + 1, 0));
    // A large delta, then two that share a page: pages alternately hold one and two deltas.
    for write in 0..900_u64 {
        let bytes = if write % 3 == 0 { 2_860 } else { 1_900 };
        drive.write_with_delta_size((write % 6) as u32, 100 + write, bytes);
    }
    let counts = drive.statistics();
    let ratio = counts.committed_delta_pages as f64 / counts.committed_deltas as f64;
    assert!((0.66..0.68).contains(&ratio), "the load packs as intended: {ratio}");
    assert_eq!(counts.hot_writes_bypassing_deltas, 0);
}

/// If deltas save nothing, delta encoding is suspended, and many deltas are tried again after some time; existing
/// deltas stay readable. A device that tries one delta at a time would never notice that deltas have become small
/// enough to share a flash page.
#[test]
fn deltas_that_save_nothing_are_bypassed_and_existing_ones_stay_readable() {
    let mut drive =
        Drive::new(DeltaOptions { max_mean_delta_share_of_page: 0.8, ..options_without_cold_scan() });
    let mut id = 100;
    drive.write(20, 0);
    drive.write(20, 1);
    (0..19).for_each(|lpn| drive.write_with_delta_size(lpn, u64::from(lpn) + 1, 0));
    // Each delta occupies a page of its own.
    let mut overwrite = |drive: &mut Drive, count, bytes| {
        for _ in 0..count {
            id += 1;
            drive.write_with_delta_size((id % 19) as u32, id, bytes);
        }
    };
    overwrite(&mut drive, 400, 3_000);
    let counts = drive.statistics();
    assert!(counts.hot_writes_bypassing_deltas > 300, "{counts:?}");
    drive.assert_holds_version(20, 1);
    // When deltas are tried again after a while, their smaller size ends the bypass.
    overwrite(&mut drive, 5_000, 300);
    let before = drive.statistics().hot_writes_bypassing_deltas;
    overwrite(&mut drive, 100, 300);
    assert_eq!(drive.statistics().hot_writes_bypassing_deltas, before, "deltas pay again");
    drive.assert_holds_version(20, 1);
}

/// A read of a plain page takes one flash read. A read of a page whose delta is on flash takes two flash reads and the
/// time to decode the delta; the paper's model of two reads leaves out the decoding. If the delta is in the temp buffer
/// (RAM), the read takes one flash read.
#[test]
fn a_page_stored_as_a_delta_takes_two_reads() {
    let mut drive = Drive::new(DeltaOptions { hot_access_threshold: 3, ..options_without_cold_scan() });
    (0..2).for_each(|_| drive.write(0, 0));
    assert_eq!(drive.cost(|drive| drive.assert_holds_version(0, 0)), cost(1, 0));
    drive.write(0, 1);
    assert_eq!(
        drive.cost(|drive| drive.assert_holds_version(0, 1)),
        cost(1, 0),
        "the delta is in the temp buffer"
    );
    let mut drive = Drive::new(options_without_cold_scan());
    drive.write(0, 0);
    drive.write(0, 1);
    drive.write_with_delta_size(1, 1, 0);
    drive.commit_staged_deltas(1);
    assert_eq!(drive.valid_pages(PageKind::Delta), 1);
    let decoded = drive.device.ftl().stats().controller_work.deltas_decoded_for_host;
    assert_eq!(drive.cost(|drive| drive.assert_holds_version(0, 1)), cost(2, 0));
    assert_eq!(drive.statistics().base_and_delta_reads, 1);
    assert_eq!(drive.device.ftl().stats().controller_work.deltas_decoded_for_host - decoded, 1);
}

/// The read that makes a page read-hot (read often) merges base and delta into one page. The merge costs one program
/// and no further read.
#[test]
fn a_delta_page_that_becomes_read_hot_is_merged_once() {
    let mut drive = Drive::new(options_without_cold_scan());
    drive.write(0, 0);
    drive.write(0, 1);
    drive.assert_holds_version(0, 1);
    assert_eq!(drive.cost(|drive| drive.assert_holds_version(0, 1)), cost(1, 1));
    assert_eq!(drive.statistics().merges_of_read_hot_pages, 1);
    assert_eq!(drive.valid_pages(PageKind::Data), 1, "the old version is not needed any more");
    assert_eq!(drive.cost(|drive| drive.assert_holds_version(0, 1)), cost(1, 0));
}

/// Merges of delta and base run in the background. If they delayed host requests, the read that makes a page hot would
/// wait for a program, and the write that triggers a search for cold pages would wait for all merges of that search.
#[test]
fn delta_merges_delay_no_host_request() {
    let design =
        DeltaOptions { cold_scan_interval_writes: 8, deltas_per_cold_scan: 8, ..options_without_cold_scan() };
    let mut drive = Drive::new(design);
    drive.device.ftl_mut().store_mut().flash_ops.set_op_recording(true);
    let mut merges_of_read_hot_pages = 0;
    let mut merges_of_write_cold_pages = 0;
    for step in 0..400_u64 {
        let before = drive.statistics();
        drive.device.ftl_mut().store_mut().flash_ops.clear();
        let lpn = (step / 4 + step % 3) % 30;
        if step % 5 == 0 {
            drive.read_unchecked(lpn);
        } else {
            drive.write_with_delta_size(lpn as u32, step + 1, 900);
        }
        let merges = drive.statistics().merges_of_read_hot_pages
            + drive.statistics().merges_of_write_cold_pages
            - before.merges_of_read_hot_pages
            - before.merges_of_write_cold_pages;
        let programs = |ops: &[FlashOp]| {
            ops.iter().filter(|op| op.kind == OpKind::Program && op.cause == Cause::ContentMechanism).count()
                as u64
        };
        let committed = drive.statistics().committed_delta_pages - before.committed_delta_pages;
        assert_eq!(
            programs(drive.device.flash_ops_of_last_request()),
            committed,
            "step {step}: the request's own programs"
        );
        assert_eq!(programs(drive.device.deferred_flash_ops()), merges, "step {step}: one program per merge");
        merges_of_read_hot_pages +=
            drive.statistics().merges_of_read_hot_pages - before.merges_of_read_hot_pages;
        merges_of_write_cold_pages +=
            drive.statistics().merges_of_write_cold_pages - before.merges_of_write_cold_pages;
        let host_reads =
            drive.device.flash_ops_of_last_request().iter().filter(|op| op.kind == OpKind::Read).count();
        assert!(host_reads <= 2, "step {step}: base and delta are read once");
    }
    assert!(
        merges_of_read_hot_pages > 0 && merges_of_write_cold_pages > 5,
        "{merges_of_read_hot_pages} {merges_of_write_cold_pages}"
    );
}

/// A page that is no longer written is merged with its base, so that it does not occupy two pages. A page that is still
/// written remains a delta. If access counts only increased, a page that was hot once would stay hot for ever.
#[test]
fn a_delta_page_that_becomes_write_cold_is_merged() {
    let design =
        DeltaOptions { cold_scan_interval_writes: 8, deltas_per_cold_scan: 2, ..options_without_cold_scan() };
    let mut drive = Drive::new(design);
    drive.write(0, 0);
    drive.write(0, 1);
    (1..8).for_each(|version| drive.write(1, version));
    drive.write_with_delta_size(20, 1, 0);
    drive.commit_staged_deltas(20);
    assert_eq!((drive.delta_writes(), drive.statistics().merges_of_write_cold_pages), (9, 0));
    (30..34).for_each(|lpn| drive.write(lpn, 0));
    assert_eq!(drive.statistics().merges_of_write_cold_pages, 1);
    assert_eq!(drive.cost(|drive| drive.assert_holds_version(0, 1)), cost(1, 0));
    assert_eq!(drive.cost(|drive| drive.assert_holds_version(1, 7)), cost(2, 0));
}

/// A new delta replaces an older delta of the same page in the temp buffer (RAM in which deltas are packed). If both
/// were kept, a read could return the older one, and space would be wasted.
#[test]
fn a_new_delta_replaces_an_older_one_in_the_temp_buffer() {
    let mut drive = Drive::new(options_without_cold_scan());
    drive.write(0, 0);
    let written = drive.cost(|drive| (1..40).for_each(|version| drive.write(0, version)));
    assert_eq!(written.programs, 0, "39 deltas of 200 bytes fill two pages, but there is only one delta");
    drive.assert_holds_version(0, 39);
}

/// The base of a delta is an old version that is still needed. A naive GC treats it as dead, and loses the delta with
/// it.
#[test]
fn gc_keeps_the_base_of_a_delta() {
    let mut drive =
        Drive::with(options_without_cold_scan(), gc_options_on_demand(VictimPolicy::Greedy), None);
    (0..8).for_each(|lpn| drive.write(lpn, 0));
    drive.write(3, 1);
    (0..8).filter(|&lpn| lpn != 3).for_each(|lpn| drive.trim(lpn));
    assert_eq!(drive.valid_pages(PageKind::Data), 1);
    assert!(drive.collect());
    assert_eq!(drive.statistics().gc_merges, 0, "page 3 is still written often: its base is copied");
    drive.assert_holds_version(3, 1);
}

/// GC does not copy the base of a page that is read often, but merges base and delta into one page.
#[test]
fn gc_merges_base_and_delta_of_a_page_that_is_read_often() {
    let design = DeltaOptions { access_count_table_entries: Some(4), ..options_without_cold_scan() };
    let mut drive = Drive::with(design, gc_options_on_demand(VictimPolicy::Greedy), None);
    (0..8).for_each(|lpn| drive.write(lpn, 0));
    drive.write(7, 1);
    assert_eq!(drive.delta_writes(), 1);
    // The access counts of page 7 are evicted from the table, so it is not known to be hot any more.
    (40..48).for_each(|lpn| (0..2).for_each(|_| drive.write(lpn, 0)));
    (0..7).for_each(|lpn| drive.trim(lpn));
    assert_eq!(drive.cost(|drive| assert!(drive.collect())).programs, 1);
    assert_eq!(drive.statistics().gc_merges, 1);
    assert_eq!(drive.cost(|drive| drive.assert_holds_version(7, 1)), cost(1, 0));
}

/// A delta belongs to its logical page, not to the flash page of its base. GC may move the base while the delta is in
/// the temp buffer (RAM), and again when the delta is on flash.
#[test]
fn a_delta_stays_valid_when_gc_moves_its_base() {
    let mut drive =
        Drive::with(options_without_cold_scan(), gc_options_on_demand(VictimPolicy::Greedy), None);
    (0..8).for_each(|lpn| drive.write(lpn, 0));
    drive.write(3, 1);
    (0..3).for_each(|lpn| drive.trim(lpn));
    assert!(drive.collect());
    drive.assert_holds_version(3, 1);
    drive.write(3, 2);
    drive.commit_staged_deltas(4);
    (8..24).for_each(|lpn| drive.write(lpn, 0));
    (4..14).for_each(|lpn| drive.trim(lpn));
    while drive.collect() {}
    assert_eq!(drive.statistics().gc_merges, 0);
    drive.assert_holds_version(3, 2);
}

/// Dead deltas count when a victim is chosen, although other deltas in their flash page are live. GC packs the live
/// deltas of the victim into fewer pages. If only wholly dead pages counted, a block of nearly dead deltas would look
/// full and would never be collected.
#[test]
fn a_block_of_mostly_dead_deltas_becomes_a_gc_victim() {
    let collected = |policy| {
        let mut drive = Drive::with(options_without_cold_scan(), gc_options_on_demand(policy), None);
        (0..33).for_each(|lpn| drive.write(lpn, 0));
        // Eight pages of four deltas; one delta of each page stays live.
        (0..33).for_each(|lpn| drive.write_bytes(lpn, &page(lpn, 1, 960)));
        (0..32).filter(|lpn| lpn % 4 > 0).for_each(|lpn| drive.write_bytes(lpn, &page(lpn, 2, 20)));
        assert_eq!((drive.valid_pages(PageKind::Delta), drive.statistics().committed_delta_pages), (8, 8));
        let collected = drive.collect();
        (0..32).for_each(|lpn| {
            let wanted = if lpn % 4 == 0 { page(lpn, 1, 960) } else { page(lpn, 2, 20) };
            assert!(drive.read_bytes(lpn) == wanted, "page {lpn}");
        });
        (collected, drive.statistics().compacted_delta_pages)
    };
    assert_eq!(collected(VictimPolicy::Greedy), (false, 0));
    assert_eq!(collected(VictimPolicy::DeadBytes), (true, 2));
}

/// GC of a block of deltas merges the pages that are no longer written often, and packs the other deltas anew. The
/// paper (section 3.6) merges while valid pages are moved, whatever the victim holds.
#[test]
fn gc_of_a_block_of_deltas_merges_those_of_pages_that_became_cold() {
    let design = DeltaOptions { access_count_table_entries: Some(33), ..options_without_cold_scan() };
    let mut drive = Drive::with(design, gc_options_on_demand(VictimPolicy::DeadBytes), None);
    (0..33).for_each(|lpn| drive.write(lpn, 0));
    (0..33).for_each(|lpn| drive.write_bytes(lpn, &page(lpn, 1, 960)));
    (0..32).filter(|lpn| lpn % 4 > 0).for_each(|lpn| drive.write_bytes(lpn, &page(lpn, 2, 20)));
    let data_pages = drive.valid_pages(PageKind::Data);
    // Reads of other pages push the access counts of some pages out of the table: these are not known to be hot any
    // more.
    (34..38).for_each(|lpn| (0..2).for_each(|_| drop(drive.read_bytes(lpn))));
    let collection = drive.cost(|drive| assert!(drive.collect()));
    let merges = drive.statistics().gc_merges;
    let packed_pages = drive.statistics().compacted_delta_pages;
    assert!(merges > 0 && packed_pages > 0, "{merges} merges, {packed_pages} pages of deltas");
    assert_eq!(
        collection,
        cost(8 + merges, merges + packed_pages),
        "each page of deltas is read once, and each base"
    );
    assert_eq!(drive.valid_pages(PageKind::Data), data_pages, "a merged page takes the place of its base");
    for lpn in 0..32 {
        let wanted = if lpn % 4 == 0 { page(lpn, 1, 960) } else { page(lpn, 2, 20) };
        assert!(drive.read_bytes(lpn) == wanted, "page {lpn}");
    }
    audit(&mut drive.device);
}

/// After a power loss a delta belongs to the version of the page from which it was made. A delta that is older than the
/// page must not be applied to it.
#[test]
fn recovery_does_not_apply_a_delta_of_an_older_version() {
    let mut drive = Drive::with(options_without_cold_scan(), GcOptions::default(), Some(16));
    drive.write(0, 0);
    drive.write(0, 1);
    drive.write_with_delta_size(1, 1, 0);
    drive.commit_staged_deltas(1);
    drive.write_bytes(0, &page(9, 0, 0));
    drive.lose_power();
    assert!(drive.read_bytes(0) == page(9, 0, 0));
}

/// A GC copy of the base of a delta is no newer version of the page. A rule that compares times of programming would
/// drop the delta.
#[test]
fn recovery_applies_a_delta_whose_base_was_moved_by_gc() {
    let mut drive =
        Drive::with(options_without_cold_scan(), gc_options_on_demand(VictimPolicy::Greedy), Some(16));
    (0..8).for_each(|lpn| drive.write(lpn, 0));
    drive.write(3, 1);
    drive.write_with_delta_size(20, 1, 0);
    drive.commit_staged_deltas(20);
    (0..3).for_each(|lpn| drive.trim(lpn));
    while drive.collect() {}
    drive.lose_power();
    drive.assert_holds_version(3, 1);
}

/// An acknowledged delta in the temp buffer (RAM in which deltas are packed) survives a power loss, because the
/// capacitor that writes the tables also writes the buffer.
#[test]
fn a_delta_in_the_temp_buffer_survives_a_power_loss() {
    let mut drive = Drive::with(options_without_cold_scan(), GcOptions::default(), Some(16));
    drive.write(0, 0);
    drive.write(0, 1);
    assert_eq!(drive.valid_pages(PageKind::Delta), 0);
    drive.lose_power();
    assert_eq!(drive.valid_pages(PageKind::Delta), 1, "a page that is partly filled");
    drive.assert_holds_version(0, 1);
    drive.lose_power();
    drive.assert_holds_version(0, 1);
}

/// A flash page that holds deltas becomes invalid with its last delta, not before.
#[test]
fn a_page_of_deltas_becomes_invalid_with_its_last_delta() {
    let mut drive = Drive::new(options_without_cold_scan());
    for lpn in 0..3 {
        drive.write(lpn, 0);
        drive.write(lpn, 1);
    }
    drive.write_with_delta_size(20, 1, 0);
    drive.commit_staged_deltas(20);
    assert_eq!(drive.valid_pages(PageKind::Delta), 1);
    drive.trim(0);
    drive.trim(1);
    assert_eq!(drive.valid_pages(PageKind::Delta), 1);
    drive.assert_holds_version(2, 1);
    drive.trim(2);
    assert_eq!(drive.valid_pages(PageKind::Delta), 0);
}

/// A trim invalidates base and delta, whether the delta is in RAM or on flash. A delta that remained would be applied
/// to the next base.
#[test]
fn a_trim_invalidates_base_and_delta() {
    let mut drive = Drive::new(options_without_cold_scan());
    for lpn in 0..2 {
        drive.write(lpn, 0);
        drive.write(lpn, 1);
        if lpn == 0 {
            drive.write_with_delta_size(20, 1, 0);
            drive.commit_staged_deltas(20);
        }
        drive.trim(lpn);
        assert!(drive.read_bytes(lpn) == vec![0; PAGE_BYTES]);
        // The large delta of page 20 is in the temp buffer, until that of page 1 replaces it.
        assert_eq!(drive.valid_pages(PageKind::Delta), lpn as u32);
        drive.write(lpn, 2);
        drive.assert_holds_version(lpn, 2);
    }
}

/// A write that is stored as a whole page invalidates base and delta.
#[test]
fn a_write_stored_as_a_whole_page_invalidates_base_and_delta() {
    let mut drive = Drive::new(options_without_cold_scan());
    drive.write(0, 0);
    drive.write(0, 1);
    drive.write_with_delta_size(20, 1, 0);
    drive.commit_staged_deltas(20);
    assert_eq!(drive.valid_pages(PageKind::Delta), 1);
    let data = drive.valid_pages(PageKind::Data);
    drive.write_bytes(0, &page(9, 0, 0));
    assert_eq!(drive.valid_pages(PageKind::Delta), 0);
    assert_eq!(drive.valid_pages(PageKind::Data), data, "the new page for the old");
    assert!(drive.read_bytes(0) == page(9, 0, 0));
    assert_eq!(drive.cost(|drive| drop(drive.read_bytes(0))), cost(1, 0));
}

/// A page that was never written, or that holds zeros, has no old version from which a delta could be made, even if the
/// page is hot.
#[test]
fn a_page_without_an_old_version_is_never_stored_as_a_delta() {
    let mut drive = Drive::new(options_without_cold_scan());
    (0..4).for_each(|version| drive.write(0, version));
    let made = drive.delta_writes();
    drive.trim(0);
    drive.write(0, 5);
    assert_eq!(drive.delta_writes(), made);
    drive.assert_holds_version(0, 5);
}

/// A write that changes nothing is stored like every other write, as a delta of no bytes.
#[test]
fn a_write_that_changes_nothing_is_stored_as_a_delta_of_no_bytes() {
    let mut drive = Drive::new(options_without_cold_scan());
    drive.write(0, 3);
    drive.write(0, 3);
    assert_eq!(drive.delta_writes(), 1);
    drive.assert_holds_version(0, 3);
    // Each such delta occupies only an entry in the header.
    let written = drive.cost(|drive| {
        (0..2).for_each(|_| (1..31).for_each(|lpn| drive.write_with_delta_size(lpn, u64::from(lpn), 0)));
    });
    assert_eq!((written.programs, drive.delta_writes()), (30, 31));
}

/// A delta whose base is shared belongs to one of the logical pages that share it. In the Delta-FTL paper both logical
/// pages would use one table entry; here a table entry belongs to a logical page.
#[test]
fn a_delta_over_a_shared_base_belongs_to_one_logical_page() {
    let mut parts = delta(GcOptions::default(), options_without_cold_scan(), None);
    let sharing = SharingOptions {
        reverse_map: ReverseMapKind::Ideal,
        reference_count_form: ReferenceCountForm::Dense,
        dedup: None,
        has_atomic_remap_commands: false,
    };
    parts.content.sharing = Some(sharing);
    let nand =
        SimNand::new(geometry_without_superblocks([1, 16, 8, PAGE_BYTES as u32]), RetainedPageFields::ALL);
    let device =
        Device::new(nand, LOGICAL_PAGES, &parts, DeviceOptions::default()).expect("they go together");
    let mut drive = Drive { device };
    (0..3).for_each(|version| drive.write(0, version));
    let bytes = PAGE_BYTES as u64;
    drive.device.remap(bytes, 0, bytes, RemapMode::Copy).expect("there is room");
    let before = drive.delta_writes();
    (3..6).for_each(|version| drive.write(0, version));
    assert!(drive.delta_writes() > before, "the shared page is a base");
    drive.assert_holds_version(0, 5);
    assert!(drive.read_bytes(1) == page(0, 2, 200), "the other logical page keeps what it was bound to");
    audit(&mut drive.device);
    drive.device.trim(0, bytes).expect("a trim needs no room");
    assert!(drive.read_bytes(1) == page(0, 2, 200), "the base outlives the logical page of the delta");
    audit(&mut drive.device);
}

/// A remap that maps a logical page to its former base programs nothing on flash that is newer than its delta. If only
/// the map is durable, recovery must not give the page its old delta again.
#[test]
fn recovery_does_not_restore_a_delta_whose_page_was_remapped_to_its_former_base() {
    let mut drive = Drive::with_sharing_and_map_in_nvram(ReferenceCountForm::Sparse, None);
    let bytes = PAGE_BYTES as u64;
    let remap = |drive: &mut Drive, target: u64, source: u64| {
        drive.device.remap(target * bytes, source * bytes, bytes, RemapMode::Copy).expect("there is room");
        audit(&mut drive.device);
    };
    drive.write(0, 0);
    remap(&mut drive, 1, 0);
    drive.write(2, 0);
    (1..4).for_each(|version| drive.write(0, version));
    remap(&mut drive, 3, 0);
    assert!(drive.delta_writes() > 0 && drive.valid_pages(PageKind::Delta) == 0, "the delta is staged");
    (4..6).for_each(|version| drive.write(0, version));
    drive.device.flush().expect("there is room");
    assert_eq!(drive.valid_pages(PageKind::Delta), 1, "and stored by a flush");
    remap(&mut drive, 0, 2);
    remap(&mut drive, 0, 3);
    drive.lose_power();
    assert!(drive.read_bytes(0) == page(0, 3, 200), "the content of the base, and not that of the delta");
}

/// Regression: recovery gave a delta with known bytes the fingerprint of the zero page, and the page merged from it
/// kept this fingerprint. A write of zeros was then mapped to the merged page, unless bytes are compared before
/// sharing.
#[test]
fn a_page_merged_after_a_power_loss_has_the_fingerprint_of_its_bytes() {
    let dedup = DedupOptions { capacity_entries: None, must_verify_hits: false };
    let mut drive = Drive::with_sharing_and_map_in_nvram(ReferenceCountForm::Dense, Some(dedup));
    drive.write(0, 0);
    drive.write(0, 1);
    assert_eq!(drive.delta_writes(), 1);
    drive.device.flush().expect("there is room");
    drive.lose_power();
    (0..3).for_each(|_| drive.assert_holds_version(0, 1));
    assert_eq!(drive.statistics().merges_of_read_hot_pages, 1);
    drive.write_bytes(1, &[0; PAGE_BYTES]);
    assert!(drive.read_bytes(1) == [0; PAGE_BYTES], "zeros are bound to a page that holds something else");
    drive.write_bytes(2, &page(0, 1, 200));
    assert_eq!(drive.device.ftl().stats().deduplicated_writes, 1, "the merged page is found by its content");
    drive.assert_holds_version(0, 1);
}

/// With the map on flash, map entries are evicted from the cache and fetched again while their pages are stored as
/// deltas.
#[test]
fn deltas_survive_the_eviction_of_their_map_entries() {
    let design = DeltaOptions { access_count_table_entries: Some(64), ..options_without_cold_scan() };
    let mut drive = Drive::with(design, GcOptions::default(), Some(1));
    for version in 0..3 {
        (0..20).for_each(|lpn| drive.write(lpn, version));
    }
    assert!(drive.delta_writes() >= 40);
    (0..20).for_each(|lpn| drive.assert_holds_version(lpn, 2));
    drive.lose_power();
    (0..20).for_each(|lpn| drive.assert_holds_version(lpn, 2));
}

/// On a full device, neither reads nor the search for cold pages merge deltas, so that no request fails for lack of
/// space.
#[test]
fn a_full_device_serves_requests_without_delta_merges() {
    let design = DeltaOptions {
        access_count_table_entries: Some(8),
        cold_scan_interval_writes: 1,
        deltas_per_cold_scan: 8,
        ..options_without_cold_scan()
    };
    let nand =
        SimNand::new(geometry_without_superblocks([1, 8, 4, PAGE_BYTES as u32]), RetainedPageFields::ALL);
    let parts = delta(GcOptions::default(), design, None);
    let most = (1..32)
        .rev()
        .find(|&pages| {
            let nand = SimNand::new(
                geometry_without_superblocks([1, 8, 4, PAGE_BYTES as u32]),
                RetainedPageFields::ALL,
            );
            Device::new(nand, pages, &parts, DeviceOptions::default()).is_ok()
        })
        .expect("it fits");
    let mut drive =
        Drive { device: Device::new(nand, most, &parts, DeviceOptions::default()).expect("it fits") };
    let mut held = vec![0; most as usize];
    (0..most as u64).for_each(|lpn| drive.write(lpn, 0));
    for round in 1..400_u64 {
        let lpn = mix_bits(round) % u64::from(most);
        let version = round % 50;
        match drive.device.write(
            lpn * PAGE_BYTES as u64,
            PAGE_BYTES as u64,
            HostData::Bytes(&page(lpn, version, 200)),
        ) {
            Ok(()) => held[lpn as usize] = version,
            Err(Error::Full { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        audit(&mut drive.device);
        drive.assert_holds_version(lpn, held[lpn as usize]);
    }
    (0..most as u64).for_each(|lpn| drive.assert_holds_version(lpn, held[lpn as usize]));
    assert!(drive.device.ftl().stats().programs[Cause::Gc as usize] > 0);
}

/// A trace may contain the bytes of some pages and only the delta sizes of others. Even if both are packed into one
/// flash page and merged, a page that was written with bytes reads as it was written.
#[test]
fn pages_written_with_bytes_survive_packing_with_deltas_of_which_only_the_size_is_known() {
    let design = DeltaOptions {
        cold_scan_interval_writes: 16,
        max_delta_share_of_spare_pages: 1.0,
        ..DeltaOptions::default()
    };
    for seed in 0..20 {
        let nand = SimNand::new(
            geometry_without_superblocks([1, 16, 8, PAGE_BYTES as u32]),
            RetainedPageFields::ALL,
        );
        let mut device = Device::new(
            nand,
            LOGICAL_PAGES,
            &delta(GcOptions::default(), design, None),
            DeviceOptions::default(),
        )
        .expect("it fits");
        let mut written = vec![None; LOGICAL_PAGES as usize];
        for step in 0..2000u64 {
            let draw = mix_bits(seed << 32 | step);
            let lpn = (draw >> 8) % 12 + if draw.is_multiple_of(5) { 30 } else { 0 };
            let offset = lpn * PAGE_BYTES as u64;
            let outcome = if draw.is_multiple_of(3) {
                let descriptor = ContentDescriptor {
                    delta_bytes: 300,
                    ..ContentDescriptor::of_fingerprint(Fingerprint(step + 1))
                };
                written[lpn as usize] = None;
                device.write(offset, PAGE_BYTES as u64, HostData::Descriptors(&[descriptor]))
            } else {
                let bytes = written[lpn as usize].insert(page(lpn, step % 50, 200));
                device.write(offset, PAGE_BYTES as u64, HostData::Bytes(bytes))
            };
            outcome.expect("there is room");
            if step % 16 > 0 {
                continue;
            }
            let asked = (draw >> 40) % 12;
            let mut read = vec![0xa5; PAGE_BYTES];
            device.read(asked * PAGE_BYTES as u64, PAGE_BYTES as u64, &mut read).expect("it is not damaged");
            if let Some(bytes) = &written[asked as usize] {
                assert!(read == *bytes, "page {asked}, seed {seed}, step {step}");
            }
        }
        assert!(device.ftl().stats().delta_writes > 300, "seed {seed}");
    }
}

/// Bytes of a small page, which holds 128 map entries as a translation page, or 62 records as a journal page.
const SMALL_PAGE_BYTES: u32 = 512;
/// Number of logical pages of the device, all of which are mapped.
const MAPPED_PAGES: u32 = 1500;
/// Number of map changes that a page of the map journal holds.
const JOURNAL_RECORDS_PER_PAGE: u64 = 62;

/// Overwrites every page of a device whose cache holds the whole map, and loses power. No page is stored as a delta.
/// Asserts that every page then reads as its last version. Returns the number of pages that the capacitor programmed,
/// and the counts of the map journal (`None`: the device has no journal).
fn overwrite_and_lose_power_counting_programs(journal: Option<JournalOptions>) -> (u64, JournalCounts) {
    let cache = DemandPagedMapOptions::with_cache_capacity(MAPPED_PAGES);
    let (gc, never_hot) =
        (GcOptions::default(), DeltaOptions { hot_access_threshold: 255, ..options_without_cold_scan() });
    let parts = match journal {
        Some(journal) => delta_with_journal(gc, never_hot, cache, journal),
        None => delta(gc, never_hot, Some(cache)),
    };
    let nand =
        SimNand::new(geometry_without_superblocks([1, 160, 16, SMALL_PAGE_BYTES]), RetainedPageFields::ALL);
    let mut device = Device::new(nand, MAPPED_PAGES, &parts, DeviceOptions::default()).expect("it fits");
    let bytes = |lpn: u32, round: u8| [(lpn % 120) as u8 + 120 * round; SMALL_PAGE_BYTES as usize];
    let at = |lpn: u32| u64::from(lpn * SMALL_PAGE_BYTES);
    for round in 0..2 {
        for lpn in 0..MAPPED_PAGES {
            let data = HostData::Bytes(&bytes(lpn, round));
            device.write(at(lpn), SMALL_PAGE_BYTES.into(), data).expect("there is room");
        }
    }
    let counts = match device.ftl().mapping() {
        AnyMapping::Journalled(map) => map.counts(),
        AnyMapping::Cached(_) | AnyMapping::Flat(_) => JournalCounts::default(),
    };
    let report = device.recover().expect("power stays on");
    audit(&mut device);
    for lpn in 0..MAPPED_PAGES {
        let mut read = [0; SMALL_PAGE_BYTES as usize];
        device.read(at(lpn), SMALL_PAGE_BYTES.into(), &mut read).expect("a healthy medium reads");
        assert!(read == bytes(lpn, 1), "page {lpn} is not what was written last");
    }
    (report.battery_programs, counts)
}

/// A map journal records every change of the map, and writes each full page of records at once. So at a power loss the
/// capacitor writes only the records that do not fill a page. Without a journal it writes all dirty translation pages,
/// in this test twelve.
#[test]
fn a_map_journal_reduces_what_the_capacitor_writes_to_one_page() {
    let (all, none) = overwrite_and_lose_power_counting_programs(None);
    assert_eq!(
        (all, none),
        (u64::from(MAPPED_PAGES.div_ceil(SMALL_PAGE_BYTES / 4)), JournalCounts::default())
    );
    let (last, counts) =
        overwrite_and_lose_power_counting_programs(Some(JournalOptions { merge_start_pages: 4 }));
    assert_eq!(last, 1);
    assert!(counts.recorded_changes >= 2 * u64::from(MAPPED_PAGES), "{counts:?}");
    assert_eq!(counts.written_pages, counts.recorded_changes / JOURNAL_RECORDS_PER_PAGE, "{counts:?}");
    assert_eq!(counts.completed_merges, counts.written_pages / 4, "{counts:?}");
    assert!(counts.translation_pages_written_by_merges >= counts.completed_merges, "{counts:?}");
}

/// Only a design with delta encoding as its single mechanism and with the map on flash can replay a map journal at
/// recovery. All other designs refuse it.
#[test]
fn a_map_journal_is_refused_on_designs_that_cannot_replay_it() {
    let cache = DemandPagedMapOptions::with_cache_capacity(8);
    let journal = JournalOptions { merge_start_pages: 4 };
    let mut parts = dftl(GcOptions::default(), DftlOptions { cache_entries: 8 });
    parts.mapping = MappingPart::Journalled { cache, journal };
    let lazy = DemandPagedMapOptions { makes_checkpoints: true, ..cache };
    let lazily = delta_with_journal(GcOptions::default(), options_without_cold_scan(), lazy, journal);
    let mut recycling = delta_with_journal(GcOptions::default(), options_without_cold_scan(), cache, journal);
    recycling.content.recycle =
        Some(RecyclingPart { options: RecycleOptions::default(), must_verify_hits: false });
    for parts in [parts, lazily, recycling] {
        let nand = SimNand::new(
            geometry_without_superblocks([1, 16, 8, PAGE_BYTES as u32]),
            RetainedPageFields::ALL,
        );
        let refused = Device::new(nand, LOGICAL_PAGES, &parts, DeviceOptions::default()).err();
        assert!(matches!(refused, Some(Error::IncompatibleParts { .. })), "{refused:?}");
    }
}

/// Overwrites 400 pages of a drive with the parts of `wearwell` 40 times with contents of these sizes. Returns how many
/// of the first 12,000 and of the last 4,000 writes became deltas and how many went into compressed chunks, in this order.
fn deltas_and_chunk_writes_of_hot_pages(content: ContentDescriptor) -> [[u64; 2]; 2] {
    let mut parts = common::designs_with_prefix("mixture of the design wearwell")[0].parts.clone();
    parts.content.delta.as_mut().expect("it encodes deltas").access_count_table_entries = Some(800);
    let geometry = geometry_without_superblocks([1, 40, 64, PAGE_BYTES as u32]);
    let nand = SimNand::new(geometry.clone(), RetainedPageFields::ALL);
    let nand = nand.with_nvram(parts.total_nvram_bytes(&geometry, 800));
    let mut device = Device::new(nand, 800, &parts, DeviceOptions::default()).expect("it fits");
    let counts = |device: &Device| {
        let stats = device.ftl().stats();
        [stats.delta_writes, stats.compressed_chunk_writes]
    };
    let mut before = [0; 2];
    for number in 0..16_000 {
        if number == 12_000 {
            before = counts(&device);
        }
        let content = ContentDescriptor { fingerprint: Fingerprint(1 + number), ..content };
        device.write_page_descriptor(Lpn(number as u32 % 400), content).expect("there is room");
    }
    audit(&mut device);
    [before, std::array::from_fn(|at| counts(&device)[at] - before[at])]
}

/// If few deltas are small enough to save space, hot pages that were stored uncompressed as bases would only cost
/// space. So nearly all pages are compressed.
#[test]
fn hot_pages_stay_in_chunks_if_their_deltas_do_not_succeed() {
    let content =
        ContentDescriptor { compressed_bytes: 2000, ..ContentDescriptor::of_fingerprint(Fingerprint(1)) };
    let [[early_deltas, _], [deltas, in_chunks]] = deltas_and_chunk_writes_of_hot_pages(content);
    assert!((3801..4000).contains(&in_chunks), "{in_chunks} of 4000 writes are compressed");
    assert_eq!(early_deltas + deltas, 0);
}

/// A delta that takes a third of a page saves less than a chunk that takes a quarter, and its base takes a page. Bug:
/// pages that once had a base stayed in delta form as long as they were hot.
#[test]
fn hot_pages_become_deltas_only_if_chunks_cost_more() {
    let content = |compressed_bytes| ContentDescriptor {
        compressed_bytes,
        delta_bytes: 1300,
        ..ContentDescriptor::of_fingerprint(Fingerprint(1))
    };
    let [_, [deltas, in_chunks]] = deltas_and_chunk_writes_of_hot_pages(content(1000));
    assert!(in_chunks > 3800 && deltas > 0, "{in_chunks} in chunks and {deltas} deltas: a few are on trial");
    let [_, [deltas, in_chunks]] = deltas_and_chunk_writes_of_hot_pages(content(4000));
    assert!(deltas > 3800, "{deltas} deltas of pages that do not compress, {in_chunks} in chunks");
}
