//! Tests of edge cases of recycling (reviving dead pages), one each, through the engine: what a dead page may become,
//! and when.

use common::{audit, geometry_without_superblocks};
use wearwell::address::{BlockId, Lpn, Ppn};
use wearwell::content::recycle::{FingerprintStorePolicy, RecycleOptions, Recycler};
use wearwell::data::{ContentDescriptor, Fingerprint};
use wearwell::design::{Parts, RecyclingPart, recyclable};
use wearwell::gc::{GcOptions, VictimPolicy};
use wearwell::mapping::AnyMapping;
use wearwell::nand::{Nand, RetainedPageFields, SimNand};
use wearwell::operation::Cause;
use wearwell::store::BlockState;
use wearwell::{Device, DeviceOptions};

use crate::common;

/// Number of logical pages of the device.
const LOGICAL_PAGES: u32 = 20;

/// Returns a recycling design (revives dead pages) whose fingerprint store has this policy and capacity (`None`:
/// unbounded).
fn recycling_parts(gc: GcOptions, policy: FingerprintStorePolicy, capacity_entries: Option<u32>) -> Parts {
    let options = RecycleOptions { capacity_entries, policy, ..RecycleOptions::default() };
    recyclable(gc, RecyclingPart { options, must_verify_hits: false })
}

/// Returns a device with one pool of twelve blocks of four pages, whose victims are collected only when a test requires
/// it.
fn drive(policy: VictimPolicy) -> Drive {
    let gc = GcOptions { policy, background_gc_below_free_blocks: u32::MAX, ..GcOptions::default() };
    Drive::new(&recycling_parts(gc, FingerprintStorePolicy::Probability, Some(30)))
}

/// Device under test.
struct Drive {
    /// Device under test, without bytes of page contents.
    device: Device,
}

impl Drive {
    /// Creates an empty device of this design.
    fn new(parts: &Parts) -> Self {
        let nand = SimNand::new(geometry_without_superblocks([1, 12, 4, 512]), RetainedPageFields::ALL);
        let device = Device::new(nand, LOGICAL_PAGES, parts, DeviceOptions::default()).expect("it fits");
        Self { device }
    }

    /// Writes content `id` to page `lpn`; returns whether a dead page was revived for it.
    fn write(&mut self, lpn: u32, id: u64) -> bool {
        let before = self.device.ftl().stats().recycled_writes;
        self.device
            .write_page_descriptor(Lpn(lpn), ContentDescriptor::of_fingerprint(Fingerprint(id)))
            .expect("there is room");
        audit(&mut self.device);
        self.device.ftl().stats().recycled_writes > before
    }

    /// Reads a logical page `times` times, which raises its access count.
    fn read(&mut self, lpn: u32, times: u32) {
        for _ in 0..times {
            self.device.read(lpn as u64 * 512, 512, &mut []).expect("a healthy medium reads");
        }
    }

    /// Trims a logical page, and audits the device.
    fn trim(&mut self, lpn: u32) {
        self.device.trim(lpn as u64 * 512, 512).expect("a trim needs no room");
        audit(&mut self.device);
    }

    /// Collects one GC victim and returns its block; `None` if no page can be freed.
    fn collect(&mut self) -> Option<BlockId> {
        let wear = |device: &Device| {
            (0..12).map(|b| device.ftl().store().nand().erase_count(BlockId(b))).collect::<Vec<_>>()
        };
        let before = wear(&self.device);
        self.device.ftl_mut().collect_in_background().expect("there is room").then(|| {
            audit(&mut self.device);
            let after = wear(&self.device);
            let erased = before.iter().zip(&after).position(|(a, b)| a != b).expect("a victim is erased");
            BlockId(erased as u32)
        })
    }

    /// Returns the recycler (the mechanism that revives dead pages) of the device.
    fn recycler(&self) -> &Recycler {
        self.device.ftl().recycler().expect("the design recycles")
    }

    /// Returns the number of pages that were programmed for this cause.
    fn programs(&self, cause: Cause) -> u64 {
        self.device.ftl().stats().programs[cause as usize]
    }

    /// Returns the dead flash pages of a logical page, newest first.
    fn versions(&self, lpn: u32) -> Vec<Ppn> {
        let AnyMapping::Flat(map) = self.device.ftl().mapping() else { panic!("the map is flat") };
        let valid = map.get(Lpn(lpn)).map(|unit| Ppn(unit.0));
        self.recycler().dead_versions(Lpn(lpn), valid).collect()
    }

    /// Returns the dead flash page that held the newest replaced version of a logical page.
    fn newest_dead(&self, lpn: u32) -> Option<Ppn> {
        self.versions(lpn).first().copied()
    }

    /// Returns the logical page that the spare area of a flash page names.
    fn owner_in_spare_area(&self, ppn: Ppn) -> Lpn {
        self.device.ftl().store().owner_in_oob(ppn)
    }

    /// Writes these logical pages with unique contents, so that the open block becomes full and is closed.
    fn fill_open_block(&mut self, lpns: impl IntoIterator<Item = u32>) {
        for lpn in lpns {
            assert!(!self.write(lpn, 1000 + lpn as u64));
        }
    }
}

/// Requirement R21: the OOB of a recycled page names its writer, but GC must move the page for its current owner.
#[test]
fn gc_moves_a_recycled_page_for_its_current_owner() {
    let mut drive = drive(VictimPolicy::Greedy);
    drive.write(0, 7);
    drive.write(0, 8);
    let dead = drive.newest_dead(0).expect("the first version died");
    drive.fill_open_block([2, 3]);
    assert!(drive.write(1, 7), "content 7 is revived for page 1");
    assert_eq!((drive.owner_in_spare_area(dead), drive.recycler().owner(dead, Lpn(0))), (Lpn(0), Lpn(1)));
    drive.trim(2);
    assert_eq!(drive.collect(), Some(BlockId(0)));
    // The content of page 1 died with its new copy or is still there: another write of it finds the page among those of
    // page 1.
    drive.write(1, 9);
    let moved = drive.newest_dead(1).expect("the recycled page died as a version of page 1");
    assert_eq!(drive.owner_in_spare_area(moved), Lpn(1), "the copy's OOB is right again");
    assert_eq!(drive.newest_dead(0), None, "page 0 has no claim on it");
    assert!(drive.write(0, 7));
}

/// Requirement R22: a logical page is written with the content of its own older version, whose dead page is revived.
#[test]
fn a_logical_page_can_revive_its_own_older_version() {
    let mut drive = drive(VictimPolicy::Greedy);
    drive.write(4, 1);
    drive.write(4, 2);
    let first = drive.newest_dead(4).expect("version 1 is dead");
    assert!(drive.write(4, 1));
    assert_eq!(drive.recycler().owner(first, drive.owner_in_spare_area(first)), Lpn(4));
    assert!(!drive.recycler().is_dead(first));
    assert_eq!(drive.versions(4).len(), 1, "version 2 is the only dead one");
    assert!(drive.write(4, 2), "and can come back in turn");
    assert_eq!(drive.programs(Cause::Host), 2);
}

/// Requirement R23: the fingerprint store holds only dead pages. Content that a valid page has is programmed again, and
/// the old page can be revived once it is invalid.
#[test]
fn content_that_only_a_valid_page_has_is_programmed_and_not_recycled() {
    let mut drive = drive(VictimPolicy::Greedy);
    drive.write(0, 5);
    assert!(!drive.write(0, 5), "equal to the current version of the same page");
    assert_eq!(drive.programs(Cause::Host), 2);
    assert_eq!(drive.recycler().fingerprint_store_len(), 1, "the old copy is a candidate");
    assert!(drive.write(1, 5), "which the next write of the content takes");
    assert!(!drive.write(2, 5), "now both copies are valid");
    assert_eq!(drive.programs(Cause::Host), 3);
}

/// Requirement R24: if two dead pages have equal content, the fingerprint store holds the one that is likelier to be
/// revived.
#[test]
fn of_dead_pages_with_equal_content_the_fingerprint_store_holds_the_one_with_greater_recycle_probability() {
    let mut drive = drive(VictimPolicy::Greedy);
    drive.write(0, 5);
    drive.write(1, 5);
    drive.read(0, 9);
    drive.write(0, 6);
    let read_often = drive.newest_dead(0).expect("it died");
    drive.write(1, 6);
    let never_read = drive.newest_dead(1).expect("it died");
    assert_eq!(drive.recycler().statistics().offered_pages_of_indexed_content, 1);
    assert_eq!(
        drive
            .recycler()
            .fingerprint_store_entries()
            .filter(|entry| entry.fingerprint == Fingerprint(5))
            .count(),
        1
    );
    assert!(drive.write(2, 5));
    assert!(!drive.recycler().is_dead(read_often), "the often read page is revived");
    assert!(drive.recycler().is_dead(never_read));
}

/// Requirement R25: a revived page keeps its access count, and GC moves the count with the page.
#[test]
fn a_recycled_page_keeps_its_access_count() {
    let mut drive = drive(VictimPolicy::Greedy);
    drive.write(0, 5);
    drive.read(0, 4);
    drive.write(0, 6);
    let page = drive.newest_dead(0).expect("it died");
    assert!(drive.write(1, 5));
    assert_eq!(drive.recycler().read_count(page), 4);
    drive.read(1, 3);
    assert_eq!(drive.recycler().read_count(page), 7);
    drive.fill_open_block([2, 3]);
    drive.trim(2);
    assert_eq!(drive.collect(), Some(BlockId(0)));
    drive.write(1, 8);
    let copy = drive.newest_dead(1).expect("it died again");
    assert_ne!(copy, page);
    assert_eq!(drive.recycler().read_count(copy), 7);
}

/// Requirement R26: once a block is erased, its dead pages cannot be revived. A page that was revived in a victim is
/// copied by GC and not lost.
#[test]
fn a_dead_page_is_revived_or_erased_but_never_both() {
    let mut drive = drive(VictimPolicy::Greedy);
    for lpn in 0..4 {
        drive.write(lpn, 10 + lpn as u64);
    }
    for lpn in 0..4 {
        drive.write(lpn, 20 + lpn as u64);
    }
    assert!(drive.write(5, 10), "the block has one page alive again");
    assert_eq!(drive.collect(), Some(BlockId(0)));
    assert!(!drive.write(6, 11), "content 11 was erased with the block");
    drive.trim(5);
    assert!(drive.write(7, 10), "content 10 was copied, died and is still there");
}

/// Requirement R27: if all recycle probabilities are at their maximum, the weights of all blocks are about 0. GC still
/// chooses a victim and frees pages.
#[test]
fn recycling_aware_gc_makes_progress_when_all_block_weights_are_about_zero() {
    let mut drive = drive(VictimPolicy::RecycleAware);
    for lpn in 0..8 {
        drive.write(lpn, 10 + lpn as u64);
        drive.read(lpn, 15);
    }
    for lpn in 0..8 {
        drive.write(lpn, 30 + lpn as u64);
    }
    for ppn in (0..4).map(Ppn) {
        let probability = drive.recycler().recycle_probability(ppn);
        assert!(probability > 1.0 - 1e-9, "every dead page is certain to be wanted: {probability}");
    }
    let free = drive.device.ftl().store().total_free_blocks();
    assert!(drive.collect().is_some());
    assert_eq!(drive.device.ftl().store().total_free_blocks(), free + 1);
}

/// Returns a device whose block 0 holds four pages that were read often, and whose block 1 holds four pages that were
/// never read.
fn two_closed_blocks(urgent_blocks: u32) -> Drive {
    let policy = VictimPolicy::RecycleAware;
    let gc = GcOptions {
        policy,
        gc_start_free_blocks: 11,
        urgent_gc_up_to_free_blocks: urgent_blocks,
        ..GcOptions::default()
    };
    let gc = GcOptions { background_gc_below_free_blocks: u32::MAX, ..gc };
    let mut drive = Drive::new(&recycling_parts(gc, FingerprintStorePolicy::Probability, Some(30)));
    for lpn in 0..8 {
        assert!(!drive.write(lpn, 10 + lpn as u64));
    }
    for lpn in 0..4 {
        drive.read(lpn, 15);
    }
    drive
}

/// Requirement R27: a pool that has few free blocks (urgent threshold) collects the block with the fewest valid pages,
/// however likely its dead pages are to be revived.
#[test]
fn a_pool_at_its_urgent_threshold_collects_the_block_with_fewest_valid_pages() {
    for (urgent_blocks, expected) in [(0, BlockId(1)), (10, BlockId(0))] {
        let mut drive = two_closed_blocks(urgent_blocks);
        for lpn in [0, 1, 2, 3, 4, 5] {
            drive.device.ftl_mut().trim(Lpn(lpn)).expect("a trim needs no room");
        }
        assert_eq!(drive.device.ftl().store().blocks().state(BlockId(1)), BlockState::Closed);
        assert_eq!(drive.collect(), Some(expected), "urgent at {urgent_blocks} free blocks");
    }
}

/// The weight of a block is the sum of `1 - recycle probability` over its dead pages. Among blocks of equal weight,
/// recycling-aware GC chooses the victim of greedy GC, even if all dead pages have the same recycle probability greater
/// than 0.
#[test]
fn recycling_aware_gc_takes_the_greedy_victim_among_equal_weights() {
    let victims = |policy| {
        let mut drive = drive(policy);
        // All pages are read equally often, and each dies as the newest version of its address.
        for lpn in 0..16 {
            drive.write(lpn, 10 + lpn as u64);
            drive.read(lpn, 3);
        }
        for lpn in [5, 14, 1, 10, 4, 2, 9, 8] {
            drive.trim(lpn);
        }
        std::iter::from_fn(|| drive.collect()).take(3).collect::<Vec<_>>()
    };
    let greedy = victims(VictimPolicy::Greedy);
    assert_eq!(greedy.len(), 3);
    assert_eq!(victims(VictimPolicy::RecycleAware), greedy);
}

/// Requirement R34: a dead page older than the age limit is not revived. Its content is programmed again, and that page
/// can be revived later.
#[test]
fn a_dead_page_beyond_the_age_limit_is_not_revived() {
    let max_revival_age_programs = Some(6);
    let options =
        RecycleOptions { capacity_entries: Some(30), max_revival_age_programs, ..RecycleOptions::default() };
    let mut drive =
        Drive::new(&recyclable(GcOptions::default(), RecyclingPart { options, must_verify_hits: false }));
    drive.write(0, 1);
    drive.write(0, 2);
    assert!(drive.write(1, 1), "two programs after its own, the page is young");
    drive.trim(1);
    drive.fill_open_block(2..7);
    let before = drive.recycler().statistics();
    assert!(!drive.write(1, 1), "its block was opened seven programs ago");
    let after = drive.recycler().statistics();
    assert_eq!(after.hits_on_expired_pages, 1);
    // Regression: the comparisons of the look-up counted as those of a hit, the look-up itself did not.
    assert_eq!(after.mean_comparisons_on_hit(), before.mean_comparisons_on_hit());
    drive.trim(1);
    assert!(drive.write(8, 1), "the new page of the content is young");
    let hits = drive.recycler().statistics().hits;
    assert_eq!(hits, drive.device.ftl().stats().recycled_writes);
}

/// Requirement R34: entries of the fingerprint store beyond the age limit are evicted before younger ones, whatever
/// their recycle probability is.
#[test]
fn aged_fingerprint_store_entries_are_evicted_first() {
    let max_revival_age_programs = Some(8);
    let options =
        RecycleOptions { capacity_entries: Some(2), max_revival_age_programs, ..RecycleOptions::default() };
    let mut drive =
        Drive::new(&recyclable(GcOptions::default(), RecyclingPart { options, must_verify_hits: false }));
    for lpn in [0, 1] {
        drive.write(lpn, 1 + u64::from(lpn));
        drive.read(lpn, 15);
        drive.trim(lpn);
    }
    let kept = |drive: &Drive| {
        drive.recycler().fingerprint_store_entries().map(|entry| entry.fingerprint.0).collect::<Vec<_>>()
    };
    assert_eq!(kept(&drive), [2, 1]);
    for round in 0..6 {
        drive.write(5, 100 + round);
        drive.trim(5);
    }
    assert_eq!(kept(&drive), [2, 1], "popular pages keep unpopular ones out");
    for round in 6..12 {
        drive.write(5, 100 + round);
        drive.trim(5);
    }
    assert!(kept(&drive).iter().all(|&id| id >= 100), "kept {:?}", kept(&drive));
    assert_eq!(drive.recycler().statistics().expired_entries, 2);
}

/// Requirement R28: pages that were never read all have recycle probability 0. The fingerprint store then evicts the
/// oldest version of a logical page, and among equal versions the entry that entered first.
#[test]
fn of_never_read_dead_pages_the_newer_version_stays_in_the_fingerprint_store() {
    let gc = GcOptions::default();
    let mut drive = Drive::new(&recycling_parts(gc, FingerprintStorePolicy::Probability, Some(2)));
    // Two versions of page 0 die, and one of page 1: the oldest version of page 0 has the smallest version number.
    for (lpn, id) in [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5)] {
        drive.write(lpn, id);
    }
    let kept: Vec<u64> =
        drive.recycler().fingerprint_store_entries().map(|entry| entry.fingerprint.0).collect();
    assert_eq!(kept, [4, 2], "newest death first, version 15 both; content 1 has version 14");
    assert!(drive.recycler().fingerprint_store_entries().all(|entry| entry.recycle_probability == 0.0));
    drive.write(2, 6);
    drive.write(2, 7);
    let kept: Vec<u64> =
        drive.recycler().fingerprint_store_entries().map(|entry| entry.fingerprint.0).collect();
    assert_eq!(kept, [6, 4], "of equal versions the one that died first makes room");
}

/// Requirement R29: a trimmed page can be revived, for its own logical page and for others.
#[test]
fn a_trimmed_page_is_revived_when_its_content_is_written_again() {
    let mut drive = drive(VictimPolicy::Greedy);
    drive.write(3, 9);
    drive.trim(3);
    assert_eq!(drive.recycler().dead_page_count(), 1);
    assert!(drive.write(3, 9), "the host supplies the content again");
    drive.trim(3);
    assert!(drive.write(8, 9));
    assert!(!drive.write(3, 9), "the page belongs to 8 now");
    assert_eq!(drive.programs(Cause::Host), 2);
}
