//! Tests of lazy maps, which identify the page that a write has replaced later than the write. They cover errors of GC,
//! and of a recovery without a battery. Each test describes a sequence of events in which the rules of the GeckoFTL
//! paper, taken literally, lose data. Comments call the examined logical page A.
//!
//! The device is one pool of small blocks with one translation page, so that one synchronisation writes every entry.

use common::{Random, geometry_without_superblocks};
use wearwell::address::{Lpn, Ppn};
use wearwell::data::{Content, ContentDescriptor, Fingerprint};
use wearwell::design::{GeckoFtlOptions, MappingPart, Parts, Persistence, geckoftl};
use wearwell::ftl::Ftl;
use wearwell::gc::GcOptions;
use wearwell::mapping::{AnyMapping, DemandPagedMapOptions};
use wearwell::nand::{Nand, Oob, PageKind, RetainedPageFields, SimNand};
use wearwell::recovery::RecoveryStepCosts;
use wearwell::validity::{AnyValidityStore, GeckoOptions, MergeMode};

use crate::common;

/// Bytes per flash page.
const PAGE_BYTES: usize = 512;
/// Pages per block.
const BLOCK_PAGES: u32 = 4;
/// Number of logical pages of the device.
const LOGICAL_PAGES: u32 = 60;
/// Capacity of the map cache, entries.
const MAP_CACHE_ENTRIES: u32 = 40;
/// Logical page that each test case examines.
const EXAMINED_LPN: u32 = 0;
/// Logical pages that are written only to advance the sequence numbers.
const FILLER_LPNS: std::ops::Range<u32> = 4..6;
/// Logical pages that are written once, and later only read, so that their map entries evict all others from the map
/// cache.
const COLD_LPNS: std::ops::Range<u32> = 16..LOGICAL_PAGES;

/// Device under test, with the version that each logical page must have.
struct Rig {
    /// Device under test: the FTL over simulated flash.
    ftl: Ftl,
    /// Number of writes to each logical page so far, which is the version that the page must have.
    versions: Vec<u64>,
    /// Number of filler pages (writes whose only purpose is to fill blocks) that the test has written so far.
    filler_pages_written: u32,
}

/// Returns the bytes of version `version` of logical page `lpn`.
fn bytes_of(lpn: u32, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE_BYTES];
    bytes[..8].copy_from_slice(&version.to_le_bytes());
    bytes[8..12].copy_from_slice(&lpn.to_le_bytes());
    bytes
}

/// Returns GeckoFTL with a small map cache. It collects a victim only if a test requests it.
fn parts() -> Parts {
    let gecko = GeckoOptions { size_ratio: 2, parts_per_block: 1, merge_mode: MergeMode::MultiWay };
    // Victims are collected when a case requests one.
    let gc = GcOptions { background_gc_below_free_blocks: u32::MAX, ..GcOptions::default() };
    geckoftl(gc, GeckoFtlOptions { cache_entries: MAP_CACHE_ENTRIES, gecko })
}

impl Rig {
    /// Returns a device with `spare_blocks` more blocks than it needs. Every logical page is written, all map entries
    /// are on flash, and none is dirty.
    fn new(parts: &Parts, spare_blocks: u32) -> Self {
        let of_blocks = |blocks| {
            let nand = SimNand::new(
                geometry_without_superblocks([1, blocks, BLOCK_PAGES, PAGE_BYTES as u32]),
                RetainedPageFields::ALL,
            );
            Ftl::new(nand, LOGICAL_PAGES, parts).ok()
        };
        let least = (LOGICAL_PAGES / BLOCK_PAGES..LOGICAL_PAGES)
            .find(|&blocks| of_blocks(blocks).is_some())
            .expect("some device");
        let ftl = of_blocks(least + spare_blocks).expect("it is larger");
        let mut rig = Self { ftl, versions: vec![0; LOGICAL_PAGES as usize], filler_pages_written: 0 };
        (0..LOGICAL_PAGES).for_each(|lpn| rig.write(lpn));
        rig.ftl.write_back_ram_state().expect("there is room");
        rig
    }

    /// Returns a device with map checkpoints and without a battery, which recovers by a backward scan.
    fn with_backward_recovery() -> Self {
        Self::new(&parts(), 10)
    }

    /// Returns a device without map checkpoints, so that a map entry stays dirty until a test case writes it.
    fn without_map_checkpoints() -> Self {
        let MappingPart::Cached(options) = parts().mapping else { panic!("the map is on flash") };
        let mapping = MappingPart::Cached(DemandPagedMapOptions { makes_checkpoints: false, ..options });
        Self::new(&Parts { mapping, persistence: Persistence::BatteryRam, ..parts() }, 4)
    }

    /// Writes the next version of a logical page and audits the device.
    fn write(&mut self, lpn: u32) {
        let version = &mut self.versions[lpn as usize];
        *version += 1;
        let bytes = bytes_of(lpn, *version);
        self.ftl.write(Lpn(lpn), Content::Bytes(&bytes)).expect("there is room");
        self.audit();
    }

    /// Checks the invariants of the device; panics if one is violated.
    fn audit(&mut self) {
        self.ftl.check().expect("the invariants hold");
    }

    /// Reads a logical page and asserts that it has its newest version.
    fn expect_newest(&mut self, lpn: u32) {
        let mut bytes = vec![0xa5; PAGE_BYTES];
        self.ftl.read(Lpn(lpn), &mut bytes).expect("a healthy medium reads");
        let version = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        assert_eq!(version, self.versions[lpn as usize], "the version that logical page {lpn} holds");
        assert_eq!(bytes, bytes_of(lpn, version));
    }

    /// Asserts that every logical page has its newest version.
    fn expect_all_newest(&mut self) {
        (0..LOGICAL_PAGES).for_each(|lpn| self.expect_newest(lpn));
    }

    /// Returns the OOB of a flash page; `None` if the page is erased.
    fn oob(&mut self, ppn: Ppn) -> Option<Oob> {
        self.ftl.store_mut().nand_mut().probe_page(ppn).expect("a healthy medium reads")
    }

    /// Returns the flash page of the newest program of `lpn`.
    fn newest_ppn_of(&mut self, lpn: u32) -> Ppn {
        let pages = self.ftl.store().geometry().pages() as u32;
        let newest = (0..pages).map(Ppn).filter_map(|ppn| {
            let oob = self.oob(ppn).filter(|oob| oob.kind == PageKind::Data && oob.owner == lpn)?;
            Some((oob.sequence_number, ppn))
        });
        newest.max().expect("every page was written").1
    }

    /// Returns the erase count of the block of `ppn`.
    fn erases(&self, ppn: Ppn) -> u32 {
        self.ftl.store().nand().erase_count(self.ftl.store().block_of(ppn))
    }

    /// Returns how many translation pages the device has written, each with all its dirty map entries (by evictions and
    /// by checkpoints).
    fn synchronised_translation_page_count(&self) -> u64 {
        let AnyMapping::Cached(cached) = self.ftl.mapping() else { panic!("the map is on flash") };
        cached.counts().synchronisations + cached.counts().checkpoint_synchronisations
    }

    /// Runs GC on one victim block after the other until the block of `ppn` has been collected and erased.
    fn collect_block_of(&mut self, ppn: Ppn) {
        let before = self.erases(ppn);
        for _ in 0..64 {
            assert!(
                self.ftl.collect_in_background().expect("there is room"),
                "nothing can be gained any more"
            );
            self.audit();
            if self.erases(ppn) > before {
                return;
            }
        }
        panic!("the block of page {ppn} is never collected");
    }

    /// Overwrites the logical pages of all other pages in the block of `ppn`, so that the block has at most one valid
    /// page and is the next victim.
    fn overwrite_other_pages_of_block(&mut self, ppn: Ppn) {
        let first = ppn.0 / BLOCK_PAGES * BLOCK_PAGES;
        for other in (first..first + BLOCK_PAGES).map(Ppn).filter(|&other| other != ppn) {
            let owner = self.oob(other).expect("a full block").owner;
            if self.newest_ppn_of(owner) == other {
                self.write(owner);
            }
        }
    }

    /// Writes filler pages until flash page `ppn` was programmed again; returns its new owner.
    fn write_fillers_until_reprogrammed(&mut self, ppn: Ppn) -> u32 {
        for _ in 0..64 {
            let filler = FILLER_LPNS.start + self.filler_pages_written % FILLER_LPNS.len() as u32;
            self.filler_pages_written += 1;
            self.write(filler);
            if let Some(oob) = self.oob(ppn) {
                assert_eq!(oob.kind, PageKind::Data, "the block was taken for metadata");
                assert_eq!(self.newest_ppn_of(oob.owner), ppn, "the page is in use again");
                return oob.owner;
            }
        }
        panic!("page {ppn} is never used again");
    }

    /// Evicts all map entries except those of the pages [`COLD_LPNS`] from the map cache. Dirty entries are written to
    /// flash.
    fn evict_map_entries(&mut self) {
        for lpn in COLD_LPNS {
            self.ftl.read(Lpn(lpn), &mut []).expect("a healthy medium reads");
        }
        // Entries that the reads fetched beyond the cache size are evicted before the next write.
        self.write(1);
    }

    /// Writes filler pages until map checkpoints have written all earlier map entries to flash. A backward scan then
    /// ends before it reaches the earlier writes.
    fn write_all_map_entries_by_checkpoints(&mut self) {
        for _ in 0..2 {
            (0..2 * MAP_CACHE_ENTRIES).for_each(|k| self.write(FILLER_LPNS.start + k % 2));
            self.ftl.write_back_ram_state().expect("there is room");
        }
        self.evict_map_entries();
    }

    /// Evicts map entries from the map cache, and asserts that at least one of them was dirty and was therefore written
    /// to a translation page.
    fn synchronise(&mut self) {
        let before = self.synchronised_translation_page_count();
        self.evict_map_entries();
        assert!(self.synchronised_translation_page_count() > before, "dirty entries were written");
    }

    /// Cuts power and recovers; returns the flash operations of each recovery step.
    fn cut_power_and_recover(&mut self) -> RecoveryStepCosts {
        let report = self.ftl.recover().expect("a healthy medium recovers");
        self.audit();
        report.steps
    }
}

/// GC moves logical page A, whose map entry is not cached. The move creates a dirty entry. A design that treats the
/// move "like an application write" (GeckoFTL, section 4.1) notes with the entry that the flash page named by the map
/// on flash must still be reported as invalid. But that flash page is erased with the victim, and belongs to another
/// logical page when the entry is written.
#[test]
fn a_page_that_gc_moved_is_not_reported_invalid_after_its_block_was_erased() {
    let mut rig = Rig::without_map_checkpoints();
    rig.evict_map_entries();
    let victim = rig.newest_ppn_of(EXAMINED_LPN);
    rig.overwrite_other_pages_of_block(victim);
    // The entry of A must not be in the cache.
    rig.evict_map_entries();
    rig.collect_block_of(victim);
    assert_ne!(rig.newest_ppn_of(EXAMINED_LPN), victim, "A was moved");
    let synchronised_translation_page_count = rig.synchronised_translation_page_count();
    let heir = rig.write_fillers_until_reprogrammed(victim);
    assert_eq!(
        rig.synchronised_translation_page_count(),
        synchronised_translation_page_count,
        "A's new entry is still dirty"
    );
    rig.synchronise();
    rig.expect_newest(heir);
    rig.overwrite_other_pages_of_block(victim);
    rig.collect_block_of(victim);
    rig.expect_all_newest();
}

/// Page A was written while its map entry was not cached, so the map on flash names its earlier flash page Q. Then GC
/// moves the newer version of A from flash page P to another one. If P were later reported as invalid, data of the
/// logical page that uses P next would be lost. If Q were never reported as invalid, an old version of A would stay
/// valid, and GC would restore it.
#[test]
fn gc_of_a_page_does_not_lose_the_pending_invalidation_of_its_older_version() {
    let mut rig = Rig::without_map_checkpoints();
    rig.evict_map_entries();
    let earlier = rig.newest_ppn_of(EXAMINED_LPN);
    rig.write(EXAMINED_LPN);
    let victim = rig.newest_ppn_of(EXAMINED_LPN);
    // Fills the block of the new place.
    while rig.ftl.store().open_block_pages_left(wearwell::store::Stream::Host, 0) > 0 {
        rig.write(FILLER_LPNS.start);
    }
    let synchronised_translation_page_count = rig.synchronised_translation_page_count();
    rig.overwrite_other_pages_of_block(victim);
    rig.collect_block_of(victim);
    assert_ne!(rig.newest_ppn_of(EXAMINED_LPN), victim, "A was moved");
    let heir = rig.write_fillers_until_reprogrammed(victim);
    assert_eq!(
        rig.synchronised_translation_page_count(),
        synchronised_translation_page_count,
        "A's entry is still dirty"
    );
    rig.synchronise();
    rig.expect_newest(heir);
    rig.expect_newest(EXAMINED_LPN);
    // The entry is clean and is evicted; only page validity can prevent that the earlier version reappears.
    rig.evict_map_entries();
    rig.overwrite_other_pages_of_block(earlier);
    rig.collect_block_of(earlier);
    rig.expect_all_newest();
}

/// Page A was written while its map entry was not cached. GC collects the block of the flash page Q that the map on
/// flash names, and finds that Q is superseded. The cached entry was marked as "the page named on flash must still be
/// reported as invalid". If the mark stayed, the next write of the translation page would report Q as invalid, although
/// Q belongs to another logical page by then.
#[test]
fn an_invalid_page_that_gc_identified_is_not_reported_invalid_again() {
    let mut rig = Rig::without_map_checkpoints();
    rig.evict_map_entries();
    let victim = rig.newest_ppn_of(EXAMINED_LPN);
    rig.overwrite_other_pages_of_block(victim);
    rig.evict_map_entries();
    rig.write(EXAMINED_LPN);
    let synchronised_translation_page_count = rig.synchronised_translation_page_count();
    rig.collect_block_of(victim);
    let heir = rig.write_fillers_until_reprogrammed(victim);
    assert_eq!(
        rig.synchronised_translation_page_count(),
        synchronised_translation_page_count,
        "A's entry is still dirty"
    );
    rig.synchronise();
    rig.expect_newest(heir);
    rig.overwrite_other_pages_of_block(victim);
    rig.collect_block_of(victim);
    rig.expect_all_newest();
}

/// Page A is written twice between two writes of its translation page. No translation page ever named the first
/// version, and its only invalidation report was in the buffer of Logarithmic Gecko, which is lost. Comparing versions
/// of the translation page (GeckoFTL, appendix C.2.2) cannot find the first version. The backward scan through the
/// newest pages finds it.
#[test]
fn a_backward_scan_finds_an_overwritten_version_that_no_translation_page_ever_named() {
    let mut rig = Rig::with_backward_recovery();
    rig.evict_map_entries();
    rig.write(EXAMINED_LPN);
    let intermediate = rig.newest_ppn_of(EXAMINED_LPN);
    rig.write(EXAMINED_LPN);
    rig.cut_power_and_recover();
    rig.evict_map_entries();
    rig.overwrite_other_pages_of_block(intermediate);
    rig.evict_map_entries();
    rig.collect_block_of(intermediate);
    rig.expect_all_newest();
}

/// A backward scan must not restore the flash page that the map named before the last write of a translation page. The
/// report that this page is invalid is lost with the buffer of Logarithmic Gecko. The earlier version of the
/// translation page, which still names the page, is kept until the buffer is written.
#[test]
fn a_backward_scan_does_not_restore_a_ppn_named_only_by_an_older_translation_page() {
    let mut rig = Rig::with_backward_recovery();
    rig.write_all_map_entries_by_checkpoints();
    let earlier = rig.newest_ppn_of(EXAMINED_LPN);
    rig.write(EXAMINED_LPN);
    rig.synchronise();
    rig.cut_power_and_recover();
    rig.evict_map_entries();
    rig.overwrite_other_pages_of_block(earlier);
    rig.evict_map_entries();
    rig.collect_block_of(earlier);
    rig.expect_all_newest();
}

/// GC runs right after a recovery. A map entry that recovery restored may replace an earlier flash page of its logical
/// page that is not identified yet. GC must not move that earlier page.
#[test]
fn gc_right_after_a_backward_scan_moves_no_superseded_page() {
    let mut rig = Rig::with_backward_recovery();
    rig.evict_map_entries();
    let earlier = rig.newest_ppn_of(EXAMINED_LPN);
    rig.overwrite_other_pages_of_block(earlier);
    rig.write_all_map_entries_by_checkpoints();
    rig.write(EXAMINED_LPN);
    rig.cut_power_and_recover();
    rig.collect_block_of(earlier);
    rig.expect_newest(EXAMINED_LPN);
    rig.synchronise();
    rig.expect_all_newest();
}

/// A trim must write the translation page before it returns, because it programs no page that a backward scan could
/// find. The scan finds the page that was written before the trim, and must not restore it.
#[test]
fn a_backward_scan_does_not_undo_a_trim_of_a_page() {
    let mut rig = Rig::with_backward_recovery();
    rig.write(EXAMINED_LPN);
    rig.ftl.trim(Lpn(EXAMINED_LPN)).expect("a trim");
    rig.cut_power_and_recover();
    let mut bytes = vec![0xa5; PAGE_BYTES];
    let is_mapped = rig.ftl.read(Lpn(EXAMINED_LPN), &mut bytes).expect("a healthy medium reads");
    assert!(!is_mapped && bytes == [0; PAGE_BYTES]);
}

/// A recovery writes nothing to flash. So a second recovery finds the same state, and so does a third one after more
/// requests.
#[test]
fn a_backward_scan_can_be_repeated_with_the_same_result() {
    let mut rig = Rig::with_backward_recovery();
    for round in 0..20 {
        (0..7).for_each(|k| rig.write((round * 5 + k) % LOGICAL_PAGES));
        let programs = rig.ftl.stats().programs.iter().sum::<u64>();
        let first = rig.cut_power_and_recover();
        let second = rig.cut_power_and_recover();
        assert_eq!(first, second, "round {round}");
        assert_eq!(rig.ftl.stats().programs.iter().sum::<u64>(), programs, "a recovery writes nothing");
        rig.expect_all_newest();
    }
}

/// A recovery, and the checks of uncertain map entries by reads of spare areas after it, read at most as many pages as
/// GeckoFTL states (appendices C and C.3). For C entries of the map cache, K blocks and V entries of the buffer of
/// Logarithmic Gecko, the bounds are: K spare areas to find the blocks in use, about 2C + 4V to restore map entries, 2V
/// pages to restore the buffer, and one spare area per uncertain entry. They are checked at many moments of a running
/// device.
#[test]
fn a_backward_scan_and_later_checks_of_uncertain_entries_read_no_more_than_the_geckoftl_bounds() {
    /// Capacity of the map cache, entries.
    const LARGE_MAP_CACHE_ENTRIES: u32 = 512;
    let gecko = GeckoOptions { size_ratio: 2, parts_per_block: 4, merge_mode: MergeMode::MultiWay };
    let parts =
        geckoftl(GcOptions::default(), GeckoFtlOptions { cache_entries: LARGE_MAP_CACHE_ENTRIES, gecko });
    let nand = SimNand::new(
        geometry_without_superblocks([1, 2048, 16, 512]),
        RetainedPageFields { keeps_sequence_numbers: true, ..parts.needed_retained_page_fields() },
    );
    let logical = 20_000;
    let mut ftl = Ftl::new(nand, logical, &parts).expect("it fits");
    let mut random = Random::new(5);
    let mut overwrite = |ftl: &mut Ftl, pages: u64| {
        for _ in 0..pages {
            let lpn = Lpn(random.below(u64::from(logical)) as u32);
            ftl.write(lpn, Content::Descriptor(ContentDescriptor::of_fingerprint(Fingerprint(1))))
                .expect("there is room");
        }
    };
    overwrite(&mut ftl, 60_000);
    let AnyValidityStore::Gecko(store) = ftl.validity() else { panic!("validity is in Logarithmic Gecko") };
    let (entries, buffered) =
        (u64::from(LARGE_MAP_CACHE_ENTRIES), u64::from(store.validity_reports_per_flush()));
    for _ in 0..40 {
        overwrite(&mut ftl, 1_237);
        let steps = ftl.recover().expect("a healthy medium recovers").steps;
        // One block per kind of page is open, and its last page is searched for.
        let look_ups = 4 * 16;
        assert!(steps.find_blocks_in_use.spare_reads <= 2048 + look_ups, "K: {:?}", steps.find_blocks_in_use);
        // The scan goes back to the last but one checkpoint, and to the last write of the buffer. A checkpoint waits
        // for the end of a collection, and the last page of each visited block is one read more.
        let entries_met = 2 * (entries + 16) + 4 * buffered;
        assert!(
            steps.restore_map_entries.spare_reads <= entries_met + entries_met / 16 + 2,
            "2C: {:?}",
            steps.restore_map_entries
        );
        assert!(
            steps.restore_validity_buffer.page_reads <= 2 * buffered,
            "2V: {:?}",
            steps.restore_validity_buffer
        );
        let AnyMapping::Cached(cached) = ftl.mapping() else { panic!("the map is on flash") };
        assert!(
            u64::from(cached.dirty_entries()) <= 2 * (entries + 16),
            "{} restored",
            cached.dirty_entries()
        );
        let (restored, before) =
            (u64::from(cached.dirty_entries()), cached.counts().spare_reads_for_uncertain_entries);
        overwrite(&mut ftl, 6 * entries);
        let AnyMapping::Cached(cached) = ftl.mapping() else { panic!("the map is on flash") };
        assert!(
            cached.counts().spare_reads_for_uncertain_entries - before <= restored,
            "C: at most one spare area per entry"
        );
    }
}
