//! Wear leveling keeps its bounds, and garbage collection never deadlocks, however little spare space there is.

use common::{
    BUFFERS, Op, Oracle, Random, TinyDevice, designs, device, fill_and_overwrite_largest_device,
    geometry_without_superblocks, nand_with_all_page_fields, test_case_interval, tiny_devices,
};
use wearwell::Ftl;
use wearwell::address::{BlockId, Lpn};
use wearwell::data::{ContentDescriptor, Fingerprint};
use wearwell::design::{DftlOptions, dftl, page_map};
use wearwell::gc::{GcOptions, VictimPolicy, WearOptions};
use wearwell::nand::{Nand, RetainedPageFields, SimNand};
use wearwell::store::BlockState;

use crate::common;

/// Victim policies under test.
const POLICIES: [VictimPolicy; 6] = [
    VictimPolicy::Greedy,
    VictimPolicy::CostBenefit,
    VictimPolicy::DChoices { random_candidates: 1 },
    VictimPolicy::DChoices { random_candidates: 4 },
    VictimPolicy::Fifo,
    VictimPolicy::RecycleAware,
];

/// Returns an FTL with this wear leveling after random overwrites. Three quarters of the logical pages are written
/// once, and `writes` overwrites go to the others.
fn ftl_after_hot_overwrites(wear: WearOptions, writes: u32) -> Ftl {
    let geometry = geometry_without_superblocks([1, 64, 16, 4096]);
    let logical = 800;
    let parts = page_map(GcOptions { wear, ..GcOptions::default() });
    let mut ftl =
        Ftl::new(SimNand::new(geometry, RetainedPageFields::default()), logical, &parts).expect("it fits");
    let mut random = Random::new(17);
    let content = wearwell::data::Content::Descriptor(ContentDescriptor::of_fingerprint(Fingerprint(1)));
    for lpn in 0..logical {
        ftl.write(Lpn(lpn), content).expect("it fits");
    }
    for _ in 0..writes {
        let lpn = random.below(logical as u64 / 4) as u32;
        ftl.write(Lpn(lpn), content).expect("it fits");
    }
    ftl
}

/// Returns the erase count of each block.
fn erase_counts(ftl: &Ftl) -> Vec<u32> {
    (0..ftl.store().blocks().len()).map(|block| ftl.store().nand().erase_count(BlockId(block))).collect()
}

/// Returns the difference between the greatest and the smallest erase count of a block.
fn erase_count_gap(ftl: &Ftl) -> u32 {
    let counts = erase_counts(ftl);
    counts.iter().max().expect("blocks") - counts.iter().min().expect("blocks")
}

/// A plane lost blocks. If it received as many host pages as the other planes, it would be full of valid data, and GC
/// would free nothing in it, while the other planes have spare blocks.
#[test]
fn a_plane_that_lost_blocks_receives_fewer_host_pages() {
    let (blocks, block_pages, bad) = (128, 32, 32);
    let geometry = geometry_without_superblocks([4, blocks, block_pages, 4096]);
    let logical = (4 * blocks - bad) * block_pages * 85 / 100;
    let nand = SimNand::new(geometry, RetainedPageFields::default())
        .with_factory_bad_blocks((0..bad).map(|k| BlockId(4 * k)));
    let mut ftl = Ftl::new(nand, logical, &page_map(GcOptions::default())).expect("it fits");
    let content = wearwell::data::Content::Descriptor(ContentDescriptor::of_fingerprint(Fingerprint(1)));
    let mut random = Random::new(5);
    for lpn in (0..logical).chain((0..60_000).map(|_| random.below(logical as u64) as u32)) {
        ftl.write(Lpn(lpn), content).expect("it fits");
    }
    let table = ftl.store().blocks();
    let valid = |plane: u32| (0..blocks).map(|k| table.valid_pages(BlockId(4 * k + plane))).sum::<u32>();
    let filled = |plane, good: u32| f64::from(valid(plane)) / f64::from(good * block_pages);
    let of_whole = (1..4).map(|plane| filled(plane, blocks)).sum::<f64>() / 3.0;
    let of_worn = filled(0, blocks - bad);
    // The number of valid pages of a plane varies by 1.7 % (binomial distribution).
    assert!((of_worn / of_whole - 1.0).abs() < 0.06, "filled to {of_worn:.3}, the others to {of_whole:.3}");
    let per_write = ftl.stats().total_programs() as f64 / ftl.stats().host_page_writes as f64;
    assert!(per_write < 8.0, "write amplification {per_write:.2}");
}

#[test]
fn without_wear_leveling_the_erase_count_gap_grows_with_the_writes() {
    let short = erase_count_gap(&ftl_after_hot_overwrites(WearOptions::default(), 20_000));
    let long = erase_count_gap(&ftl_after_hot_overwrites(WearOptions::default(), 80_000));
    assert!(long > 3 * short, "gap {short}, then {long}");
}

/// Static wear leveling moves a block whose erase count is lower than the maximum by more than `static_gap_erases`. A
/// pool (set of planes) is only examined when 1/32 of its blocks were collected since the last time. So the gap may be
/// exceeded by a few erases, but does not grow.
#[test]
fn static_wear_leveling_bounds_the_erase_count_gap() {
    for static_gap_erases in [5, 20] {
        let wear = WearOptions { static_gap_erases, ..WearOptions::default() };
        for writes in [20_000, 80_000, 320_000] {
            let ftl = ftl_after_hot_overwrites(wear, writes);
            let worn = erase_count_gap(&ftl);
            assert!(
                worn <= 2 * static_gap_erases + 5,
                "gap {worn} after {writes} writes, bound {static_gap_erases}"
            );
            let moved = ftl.stats().erases[wearwell::operation::Cause::WearLeveling as usize];
            assert!(moved > 0 && moved < ftl.stats().total_erases() / 2, "{moved} blocks moved");
        }
    }
}

/// Without a table of erase counts, a scan of spare areas finds the blocks for static wear leveling, with at most one
/// read per program (GeckoFTL, appendix D). A round of the scan takes K programs for K blocks. During a round the most
/// worn block may be erased K / B times (B pages per block) or more.
#[test]
fn a_rolling_scan_of_spare_areas_bounds_the_erase_count_gap() {
    for static_gap_erases in [5, 20] {
        let wear = WearOptions { static_gap_erases, scans_erase_counts: true, ..WearOptions::default() };
        for writes in [20_000, 80_000, 320_000] {
            let ftl = ftl_after_hot_overwrites(wear, writes);
            let worn = erase_count_gap(&ftl);
            assert!(
                worn <= 2 * static_gap_erases + 5,
                "gap {worn} after {writes} writes, bound {static_gap_erases}"
            );
            let stats = ftl.stats();
            let scanned = stats.spare_reads[wearwell::operation::Cause::WearLeveling as usize];
            assert!(
                scanned > stats.total_programs() / 2 && scanned <= stats.total_programs(),
                "{scanned} reads"
            );
            assert!(stats.erases[wearwell::operation::Cause::WearLeveling as usize] > 0, "blocks were moved");
        }
    }
}

/// Dual-pool wear leveling (Chang, SAC 2007) keeps a hot and a cold set of blocks. When a hot block is erased, it has
/// at most one threshold more erases than the least worn cold block. A block that wear leveling has not moved to its
/// set yet may lag by two further thresholds.
#[test]
fn dual_pool_leveling_bounds_the_erase_count_gap() {
    for dual_pool_gap_erases in [5, 20] {
        for levels_wear_dynamically in [false, true] {
            let wear =
                WearOptions { dual_pool_gap_erases, levels_wear_dynamically, ..WearOptions::default() };
            for writes in [20_000, 80_000, 320_000] {
                let ftl = ftl_after_hot_overwrites(wear, writes);
                let worn = erase_count_gap(&ftl);
                assert!(
                    worn <= 3 * dual_pool_gap_erases,
                    "gap {worn} after {writes} writes, threshold {dual_pool_gap_erases}"
                );
                let moved = ftl.stats().erases[wearwell::operation::Cause::WearLeveling as usize];
                assert!(moved > 0 && moved < ftl.stats().total_erases() / 2, "{moved} blocks moved");
            }
        }
    }
}

/// With dual-pool wear leveling (hot and cold sets of blocks), a worn block that received cold data is rarely erased.
/// Static wear leveling moves data to blocks that the host soon empties again. With the same bound on the gap,
/// dual-pool leveling copies less than a third of the pages.
#[test]
fn dual_pool_leveling_copies_less_than_static_leveling() {
    let copies = |wear: WearOptions| {
        ftl_after_hot_overwrites(wear, 320_000).stats().programs
            [wearwell::operation::Cause::WearLeveling as usize]
    };
    for gap in [5, 20] {
        let by_table = copies(WearOptions {
            levels_wear_dynamically: true,
            static_gap_erases: gap,
            ..WearOptions::default()
        });
        let by_pools = copies(WearOptions { dual_pool_gap_erases: gap, ..WearOptions::default() });
        assert!(0 < by_pools && 3 * by_pools < by_table, "gap {gap}: {by_pools} and {by_table} copies");
    }
}

/// Returns the erase counts and numbers of the free blocks.
fn free_blocks(ftl: &Ftl) -> Vec<(u32, BlockId)> {
    let blocks = ftl.store().blocks();
    let free = (0..blocks.len()).map(BlockId).filter(|&b| blocks.state(b) == BlockState::Free);
    free.map(|block| (ftl.store().nand().erase_count(block), block)).collect()
}

/// Returns the erase count and number of the block that was opened since the list of free blocks `before` was made;
/// `None` unless it is exactly one.
fn opened_since(before: &[(u32, BlockId)], ftl: &Ftl) -> Option<(u32, BlockId)> {
    let gone = |b: &&(u32, BlockId)| ftl.store().blocks().state(b.1) != BlockState::Free;
    let opened: Vec<_> = before.iter().filter(gone).collect();
    (opened.len() == 1).then(|| *opened[0])
}

/// With dynamic wear leveling the stream of host data opens the least worn free block, and the stream of cold data that
/// GC copies opens the most worn one.
#[test]
fn dynamic_wear_leveling_gives_worn_blocks_to_cold_streams() {
    let wear = WearOptions { levels_wear_dynamically: true, ..WearOptions::default() };
    let gc = GcOptions {
        wear,
        gc_start_free_blocks: 8,
        background_gc_below_free_blocks: 12,
        ..GcOptions::default()
    };
    let nand = SimNand::new(geometry_without_superblocks([1, 64, 16, 4096]), RetainedPageFields::default());
    let mut ftl = Ftl::new(nand, 700, &page_map(gc)).expect("it fits");
    let content = wearwell::data::Content::Descriptor(ContentDescriptor::of_fingerprint(Fingerprint(1)));
    let mut random = Random::new(29);
    let (mut for_host, mut for_copies) = (0, 0);
    for write in 0..30_000 {
        let lpn = if write < 700 { write } else { random.below(200) as u32 };
        let (free, victims) = (free_blocks(&ftl), ftl.stats().gc_victims);
        ftl.write(Lpn(lpn), content).expect("it fits");
        if ftl.stats().gc_victims == victims
            && let Some(opened) = opened_since(&free, &ftl)
        {
            assert_eq!(Some(&opened), free.iter().min(), "the host's block after {write} writes");
            for_host += 1;
        }
        let free = free_blocks(&ftl);
        if ftl.collect_in_background().expect("it fits")
            && let Some(opened) = opened_since(&free, &ftl)
        {
            assert_eq!(Some(&opened), free.iter().max(), "the copies' block after {write} writes");
            for_copies += 1;
        }
    }
    assert!(
        for_host > 500 && for_copies > 50,
        "{for_host} blocks opened for the host, {for_copies} for copies"
    );
}

/// Page maps and DFTL have as many logical pages as they accept, and are overwritten at random under every victim
/// policy. No write may find the device full.
#[test]
fn gc_never_deadlocks_at_the_smallest_spare_space() {
    for policy in POLICIES {
        for pools in 1..=4 {
            let gc = GcOptions { policy, ..GcOptions::default() };
            for gc_start_free_blocks in [1, 2] {
                let gc = GcOptions { gc_start_free_blocks, ..gc };
                let what = format!("page-map {policy:?}, {pools} pools, low {gc_start_free_blocks}");
                fill_and_overwrite_largest_device(
                    &page_map(gc),
                    &geometry_without_superblocks([pools, 9, 5, 512]),
                    &what,
                );
                for cache_entries in [1, 9, u32::MAX] {
                    let what = format!(
                        "dftl of {cache_entries}, {policy:?}, {pools} pools, low {gc_start_free_blocks}"
                    );
                    let parts = dftl(gc, DftlOptions { cache_entries });
                    fill_and_overwrite_largest_device(
                        &parts,
                        &geometry_without_superblocks([pools, 12, 8, 512]),
                        &what,
                    );
                }
            }
        }
    }
}

/// Every design has as many logical pages as it accepts, and is overwritten at random.
#[test]
fn every_design_works_at_the_smallest_spare_space() {
    for (number, design) in (0u64..).zip(designs()) {
        for pools in
            (1..=4).filter(|&pools| (number + u64::from(pools)).is_multiple_of(test_case_interval(2)))
        {
            fill_and_overwrite_largest_device(
                &design.parts,
                &geometry_without_superblocks([pools, 10, 6, 512]),
                design.name,
            );
        }
    }
}

/// The logical pages fill all flash pages except those that GC needs. The device still executes writes of real data,
/// and loses no data while GC reuses its last spare pages.
#[test]
fn a_device_without_spare_space_keeps_its_data() {
    let brim: Vec<TinyDevice> =
        tiny_devices().into_iter().filter(|tiny_device| tiny_device.name == "one_block_spare").collect();
    for (design, tiny_device) in
        designs().iter().flat_map(|design| brim.iter().map(move |tiny_device| (design, tiny_device)))
    {
        let mut device =
            device(tiny_device, &design.parts, BUFFERS[0], nand_with_all_page_fields(tiny_device));
        let mut oracle = Oracle::for_device(&device, 9);
        let mut random = Random::new(23);
        let page = oracle.sectors_per_page();
        for k in 0..6000 {
            let pages = oracle.sectors() / page;
            let lpn = if k < pages { k } else { random.below(pages) };
            let op =
                Op::Write { first_sector: lpn * page, sectors: page, content_id: random.below(9) as u16 };
            oracle.apply(&mut device, op).unwrap_or_else(|error| panic!("{}: {error}", design.name));
        }
        oracle.compare_all_logical_pages(&mut device).expect("a healthy medium reads");
    }
}
