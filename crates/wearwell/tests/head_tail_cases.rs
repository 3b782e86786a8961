//! Tests of recovery by head and tail pages (first and last pages of a block, which describe the block; Remap-SSD,
//! section 4.5). It restores the same state as recovery by an OOB scan of every page.

use common::drive::{Drive, DriveOptions, LOGICAL_PAGES, PAGE_BYTES, nvram_reverse_maps};
use common::geometry_without_superblocks;
use wearwell::address::RemapMode::{Copy, Relocate};
use wearwell::address::{BlockId, Lpn, Ppn};
use wearwell::design::{Parts, RecoveryBlockScan, page_map};
use wearwell::gc::GcOptions;
use wearwell::mapping::AnyMapping;
use wearwell::nand::{CutOutcome, Geometry, Nand, Oob, PageKind, RetainedPageFields, SimNand};
use wearwell::operation::Cause;
use wearwell::recovery::RecoveryStepCosts;
use wearwell::sharing::reverse_map::ReverseMapKind;
use wearwell::store::HeadTailLayout;
use wearwell::{Device, DeviceOptions, Ftl};

use crate::common;

/// Returns options of a device with blocks of eight pages: a head page, six of data, a tail page.
fn head_tail_drive_options(reverse_map: ReverseMapKind) -> DriveOptions {
    let geometry = geometry_without_superblocks([1, 14, 8, PAGE_BYTES as u32]);
    DriveOptions {
        geometry,
        recovery_block_scan: RecoveryBlockScan::HeadTail,
        ..DriveOptions::with_reverse_map(reverse_map)
    }
}

/// Returns the state that a recovery restores: flash page of each logical page, state of each block with its number of
/// valid pages and the time at which it was closed, and last sequence number.
fn mapping_block_states_and_sequence(device: &Device) -> (Vec<Option<u32>>, Vec<String>, u64) {
    let ftl = device.ftl();
    let AnyMapping::Flat(map) = ftl.mapping() else { panic!("the map is flat") };
    let places = (0..ftl.logical_pages()).map(|lpn| map.get(Lpn(lpn)).map(|unit| unit.0)).collect();
    let blocks = ftl.store().blocks();
    let of_block = |block| {
        format!(
            "{:?} {} {}",
            blocks.state(block),
            blocks.valid_pages(block),
            blocks.closed_at_sequence(block)
        )
    };
    (places, (0..blocks.len()).map(BlockId).map(of_block).collect(), ftl.store().last_sequence())
}

/// Executes step `k` of a fixed sequence of writes, remaps and trims, with the GC that they cause.
fn execute_step(drive: &mut Drive, k: u32) -> wearwell::Result<()> {
    let lpn = k * 7 % LOGICAL_PAGES;
    match k % 6 {
        4 => drive.try_remap(
            lpn,
            (lpn + 3) % LOGICAL_PAGES,
            1,
            if k.is_multiple_of(4) { Copy } else { Relocate },
        ),
        5 => drive.try_trim(lpn),
        _ => drive.try_write(lpn, 1 + (k % 100) as u8),
    }
}

/// Executes `count` steps. Cuts power at every program, erase and NVRAM store of the steps for which `is_cut(step,
/// number of its operations)` is true. Recovers the device by head and tail pages, and a copy of it by an OOB scan, and
/// asserts that both have the same state. Returns the number of cuts.
fn compare_head_tail_with_oob_scan_recovery(
    build: &DriveOptions,
    count: u32,
    is_cut: impl Fn(u32, u64) -> bool,
) -> u32 {
    let mut cuts = 0;
    for outcome in CutOutcome::ALL {
        let mut drive = DriveOptions { power_cut_outcome: outcome, ..build.clone() }.build_drive();
        for k in 0..count {
            let before = drive.clone();
            drive.device.ftl_mut().store_mut().nand_mut().power_cut_nand_mut().restore_power(None);
            execute_step(&mut drive, k).expect("there is room");
            let operations =
                drive.device.ftl().store().nand().power_cut_nand().cuttable_operations_since_power_restore();
            for cut_at in (0..operations).filter(|_| is_cut(k, operations)) {
                let mut lost = before.clone();
                lost.device.ftl_mut().store_mut().nand_mut().power_cut_nand_mut().restore_power(Some(cut_at));
                execute_step(&mut lost, k).expect_err("the cut is inside the step");
                let mut scanned = lost.clone();
                scanned.device.ftl_mut().set_recovery_block_scan(RecoveryBlockScan::OobScan);
                lost.restore_power_and_recover();
                scanned.restore_power_and_recover();
                assert_eq!(
                    mapping_block_states_and_sequence(&lost.device),
                    mapping_block_states_and_sequence(&scanned.device),
                    "step {k}, cut {cut_at}, {outcome:?}"
                );
                cuts += 1;
                if k % 5 == 0 {
                    (k..k + 12).for_each(|k| execute_step(&mut lost, k).expect("a recovered device works"));
                    lost.lose_power();
                }
            }
        }
        assert!(drive.programs(Cause::BlockMetadata) > 20, "blocks were opened and filled");
    }
    cuts
}

/// A naive recovery ignores a block without a tail page, or assigns the entries of the tail page to wrong pages after a
/// torn page.
#[test]
fn head_tail_recovery_and_oob_scan_recover_the_same_device_at_every_cut() {
    for part in nvram_reverse_maps() {
        let cuts = compare_head_tail_with_oob_scan_recovery(&head_tail_drive_options(part), 160, |_, _| true);
        assert!(cuts > 600, "{part:?}: {cuts} cuts");
    }
}

/// The list of a block may need several tail pages. A naive recovery uses it as soon as its first page is programmed.
#[test]
fn a_block_tail_of_several_pages_is_used_only_if_complete() {
    let geometry = geometry_without_superblocks([1, 8, 96, PAGE_BYTES as u32]);
    let build = DriveOptions { geometry, ..head_tail_drive_options(nvram_reverse_maps()[1]) };
    let parts = HeadTailLayout::of_geometry(&build.geometry).expect("it fits");
    assert_eq!((parts.data_pages, parts.tail_pages), (92, 3));
    let cuts =
        compare_head_tail_with_oob_scan_recovery(&build, 1200, |k, operations| operations > 4 || k % 61 == 0);
    assert!(cuts > 200, "{cuts} cuts");
}

/// A tail page from an earlier use of its block is ignored. It states the sequence number of the head page of its
/// block, which shows that it is old. The test writes such a page, as a faulty controller might. A naive recovery uses
/// every tail page that it finds in a block.
#[test]
fn a_block_tail_of_an_earlier_use_of_the_block_is_ignored() {
    let mut drive = head_tail_drive_options(nvram_reverse_maps()[0]).build_drive();
    let pages = drive.device.ftl().store().geometry().block_pages();
    let mut tails: Vec<Option<(Oob, Vec<u8>)>> = vec![None; 14];
    let mut forged = 0;
    for k in 0..400u32 {
        drive.write(k * 7 % LOGICAL_PAGES, 1 + (k % 100) as u8);
        for block in 0..14 {
            let last = Ppn((block + 1) * pages - 1);
            let nand = drive.device.ftl_mut().store_mut().nand_mut();
            if nand.probe_page(last) != Ok(None) {
                let mut bytes = vec![0; PAGE_BYTES as usize];
                let oob = nand.read(last, &mut bytes).expect("a healthy medium reads");
                assert_eq!(oob.kind, PageKind::BlockTail);
                tails[block as usize] = Some((oob, bytes));
                continue;
            }
            let is_full = nand.probe_page(Ppn(last.0 - 1)) != Ok(None);
            let Some((oob, bytes)) = tails[block as usize].as_ref().filter(|_| is_full) else { continue };
            let mut copy = drive.clone();
            let sequence = copy.device.ftl().store().last_sequence() + 1;
            let nand = copy.device.ftl_mut().store_mut().nand_mut();
            let content = wearwell::data::Content::Bytes(bytes);
            nand.program(last, Oob { sequence_number: sequence, ..*oob }, content)
                .expect("the page is erased");
            let ids: Vec<u8> = (0..LOGICAL_PAGES).map(|lpn| drive.content_id(lpn)).collect();
            copy.lose_power();
            let found: Vec<u8> = (0..LOGICAL_PAGES).map(|lpn| copy.content_id(lpn)).collect();
            assert_eq!(found, ids, "the tail of block {block} is of an earlier life");
            forged += 1;
        }
    }
    assert!(forged > 10, "{forged} tails were forged");
}

/// Head and tail pages are programs of their block, each counted once. A naive implementation does not count them.
#[test]
fn block_head_and_tail_pages_are_counted_as_programs() {
    let mut drive = head_tail_drive_options(nvram_reverse_maps()[0]).build_drive();
    for k in 0..18 {
        drive.write(k, 1);
    }
    // Three blocks of six data pages are full; the tail of the third is written with the next block.
    assert_eq!(drive.programs(Cause::BlockMetadata), 3 + 2);
    drive.write(18, 1);
    assert_eq!(drive.programs(Cause::BlockMetadata), 4 + 3);
    assert_eq!(drive.programs(Cause::Host), 19);
}

/// Fills a device of `superblocks` superblocks (16 blocks of 1,024 pages of 4 KiB, as in the paper) and recovers it.
/// Returns the flash operations of each recovery step, and the number of superblocks that were in use.
fn recovery_costs_of_full_drive(superblocks: u32) -> (RecoveryStepCosts, u64) {
    let geometry = Geometry {
        channels: 16,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: superblocks,
        pages_per_block: 1024,
        page_bytes: 4096,
        spare_bytes: 64,
        superblock_planes: 16,
    };
    let retain = RetainedPageFields { keeps_sequence_numbers: true, ..RetainedPageFields::default() };
    let parts = Parts { recovery_block_scan: RecoveryBlockScan::HeadTail, ..page_map(GcOptions::default()) };
    let logical = (superblocks - 4) * (16384 - 49);
    let nand = SimNand::new(geometry, retain);
    let mut device = Device::new(nand, logical, &parts, DeviceOptions::default()).expect("it fits");
    let written = (superblocks - 2) as u64 * (16384 - 49) + 1;
    let zeros = wearwell::data::ContentDescriptor::of_fingerprint(wearwell::data::Fingerprint::ZERO_PAGE);
    (0..written).for_each(|k| {
        device.write_page_descriptor(Lpn((k % logical as u64) as u32), zeros).expect("there is room");
    });
    let in_use = superblocks as u64 - u64::from(Ftl::store(device.ftl()).total_free_blocks());
    let report = device.recover().expect("power is on");
    assert_eq!(report.mapped_pages, Some(logical as u64));
    (report.steps, in_use)
}

/// As in the Remap-SSD paper, but on a smaller device: a recovery reads one head page per superblock, and 48 tail pages
/// per full superblock.
#[test]
fn head_tail_recovery_reads_one_head_per_superblock_and_48_tail_pages_per_full_one() {
    let (steps, in_use) = recovery_costs_of_full_drive(8);
    assert_eq!((steps.find_blocks_in_use.page_reads, steps.find_blocks_in_use.spare_reads), (8, 0));
    // All blocks in use except the open one have a tail; in the open one the first tail page is read, too.
    assert_eq!(steps.list_pages_from_tail_pages.page_reads, (in_use - 1) * 48 + 1);
    assert!(
        steps.list_pages_from_spare_areas.spare_reads <= 16384
            && steps.list_pages_from_spare_areas.page_reads == 0
    );
}

/// At the full size in the Remap-SSD paper (36 GiB), a recovery reads as many head and tail pages as the paper reports.
/// To run it: `cargo test --release -p wearwell head_tail_cases:: -- --ignored --nocapture`
#[test]
#[ignore = "takes half a gigabyte"]
fn head_tail_recovery_of_36_gib_reads_as_many_pages_as_in_the_paper() {
    let (steps, in_use) = recovery_costs_of_full_drive(576);
    println!(
        "36 GiB, {in_use} of 576 superblocks in use: {:?}, {:?}, {:?}",
        steps.find_blocks_in_use, steps.list_pages_from_tail_pages, steps.list_pages_from_spare_areas
    );
    assert_eq!(steps.find_blocks_in_use.page_reads, 576);
    assert_eq!(steps.list_pages_from_tail_pages.page_reads, (in_use - 1) * 48 + 1);
}
