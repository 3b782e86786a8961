//! Tests of edge cases of sharing (several logical pages mapped to one flash page) at a power loss: how long a
//! reverse-map entry is valid, and what recovery may find.
//!
//! Each test states what a naive implementation does, and fails on it. M20 and the like are numbers of requirements.
//! Unless a case concerns a single reverse map, its test runs on each that is in NVRAM. [`run_with_every_power_cut`]
//! cuts power at every program, erase and store of a step; [`Drive::lose_power`] loses power between steps.

use common::drive::{
    Drive, DriveOptions, LOGICAL_PAGES, NVRAM_SEGMENT_BYTES, PAGE_BYTES, fill_block_0, nvram_reverse_maps,
    reverse_map_in_nvram_segments, run_with_every_power_cut,
};
use common::{audit, geometry_without_superblocks};
use wearwell::address::RemapMode::{Copy, Relocate};
use wearwell::address::{BlockId, Ppn};
use wearwell::nand::{CutOutcome, Geometry, Nand};
use wearwell::sharing::reverse_map::REVERSE_MAP_ENTRY_BYTES;
use wearwell::store::BlockState;

use crate::common;

/// Requirement M22: a write after a remap of the page is newer than the remap. Naive implementation: reverse-map
/// entries are applied after the scan of flash, whatever was written after them.
#[test]
fn recovery_prefers_a_write_that_is_newer_than_a_remap() {
    for part in nvram_reverse_maps() {
        let mut drive = DriveOptions::with_reverse_map(part).build_drive();
        fill_block_0(&mut drive);
        drive.remap(10, 0, Copy);
        drive.write(10, 30);
        drive.remap(0, 1, Copy);
        drive.lose_power();
        drive.assert_content_ids(&[(10, 30), (0, 2), (1, 2)]);
        // The opposite order: the bind after the write.
        drive.remap(10, 3, Copy);
        drive.lose_power();
        drive.assert_content_ids(&[(10, 4)]);
    }
}

/// Requirement M25: a trim survives a power cut at every flash and NVRAM operation. Naive implementation: a trim is not
/// recorded (as in the Remap-SSD paper), and recovery maps the last version of the page again.
#[test]
fn a_trim_survives_any_power_cut() {
    for part in nvram_reverse_maps() {
        let mut drive = DriveOptions::with_reverse_map(part).build_drive();
        fill_block_0(&mut drive);
        drive.remap(10, 0, Copy);
        drive.trim(0);
        drive.trim(10);
        drive.trim(1);
        for _ in 0..2 {
            drive.lose_power();
            drive.assert_content_ids(&[(0, 0), (10, 0), (1, 0), (2, 3)]);
        }
        drive.write(1, 9);
        drive.lose_power();
        drive.assert_content_ids(&[(1, 9)]);
    }
}

/// Requirement M25: a tombstone (record of a trim) is kept while flash holds an older version of the page. Naive
/// implementation: it is dropped when the newest version is erased, although an older version is in another block.
#[test]
fn a_tombstone_is_kept_while_an_older_version_of_its_page_exists() {
    for part in nvram_reverse_maps() {
        let mut drive = DriveOptions::with_reverse_map(part).build_drive();
        // The old version is in block 0, among pages that stay valid; the newest is in block 1, with nothing but
        // garbage.
        fill_block_0(&mut drive);
        for (lpn, id) in [(0, 11), (17, 57), (17, 58), (17, 59), (18, 58)] {
            drive.write(lpn, id);
        }
        drive.trim(0);
        let evidence = Ppn(0);
        assert_eq!(drive.collect(), Some(BlockId(1)), "the block of the newest version");
        assert_eq!(
            drive.device.ftl().store().owner_in_oob(evidence).0,
            0,
            "the older version is still on flash"
        );
        assert_eq!(drive.erase_counts()[0], 0);
        drive.supersede_reverse_map_entries();
        assert_eq!(drive.erase_counts()[0], 0, "and was there all the time");
        drive.lose_power();
        drive.assert_content_ids(&[(0, 0), (1, 2), (2, 3), (3, 4)]);
        drive.supersede_reverse_map_entries();
        drive.lose_power();
        drive.assert_content_ids(&[(0, 0), (17, 59), (18, 58)]);
    }
}

/// Bug: when a block without valid pages was erased before GC needed it, the tombstones (records of trims) in its
/// entries were dropped. Trimmed and relocated pages then had an older version again. (A live device erases such blocks
/// after a trim.)
#[test]
fn a_dead_block_that_is_erased_early_loses_no_tombstone() {
    for part in nvram_reverse_maps() {
        let mut drive = DriveOptions::with_reverse_map(part).build_drive();
        fill_block_0(&mut drive);
        // The newest versions of pages 0 and 1 are in the next block, of which every other page is overwritten.
        drive.write(0, 11);
        drive.write(1, 12);
        for k in 0..24 {
            drive.write(17, 60 + k);
        }
        drive.remap(19, 1, Relocate);
        drive.write(19, 99);
        drive.trim(0);
        let erased = drive.device.ftl_mut().erase_blocks_without_valid_pages(8).expect("power is on");
        assert!(erased > 0, "{part:?}: a block is dead");
        assert_eq!(drive.erase_counts()[0], 0, "the older versions are still on flash");
        drive.assert_content_ids(&[(0, 0), (1, 0), (19, 99)]);
        drive.lose_power();
        drive.assert_content_ids(&[(0, 0), (1, 0), (2, 3), (19, 99)]);
    }
}

/// A tombstone (record of a trim) is dropped when it is not needed any more. Naive implementation: tombstones are kept
/// for ever, and trims alone fill the NVRAM.
#[test]
fn tombstones_do_not_fill_the_nvram() {
    for part in nvram_reverse_maps() {
        let mut drive = DriveOptions::with_reverse_map(part).build_drive();
        for k in 0..3000u32 {
            let lpn = k * 7 % LOGICAL_PAGES;
            drive.try_write(lpn, 1 + (k % 200) as u8).expect("there is room");
            drive.try_trim(lpn).expect("there is room");
        }
        audit(&mut drive.device);
        let (_, full) = drive.demotions_by_max_referrers_and_full_map();
        assert!(full < 300, "{part:?}: {full} of 3000 trims found no room");
    }
}

/// Requirement M27: the source of a relocation holds nothing, also after its target was overwritten. Naive
/// implementation: the overwrite drops the entry of the relocation, and recovery maps the source to its old page by the
/// OOB.
#[test]
fn a_relocated_source_stays_deallocated_when_its_target_is_overwritten() {
    for part in nvram_reverse_maps() {
        let scene = |drive: &mut Drive| {
            fill_block_0(drive);
            (17..19).for_each(|lpn| drive.write(lpn, 40 + lpn as u8));
            drive.remap(10, 0, Relocate);
            drive.write(10, 30);
        };
        let mut drive = DriveOptions::with_reverse_map(part).build_drive();
        scene(&mut drive);
        drive.supersede_reverse_map_entries();
        assert_eq!(drive.erase_counts()[0], 0, "the page whose OOB names page 0 is still there");
        for _ in 0..2 {
            drive.lose_power();
            drive.assert_content_ids(&[(0, 0), (10, 30)]);
            drive.supersede_reverse_map_entries();
        }
        // The same check with power cut at every step of the reverse map's compaction.
        run_with_every_power_cut(
            &DriveOptions::with_reverse_map(part),
            scene,
            |drive| (0..100).try_for_each(|k| drive.try_remap(19, 17 + k % 2, 1, Copy)),
            |drive| drive.assert_content_ids(&[(0, 0), (10, 30), (1, 2)]),
        );
    }
}

/// Requirement M27: the source of a relocation holds nothing, also after GC moved its target. Naive implementation: GC
/// drops the entry with the block of the target, although an older version of the source is in another block.
#[test]
fn a_relocated_source_stays_deallocated_when_gc_moves_its_target() {
    for part in nvram_reverse_maps() {
        let scene = |drive: &mut Drive| {
            fill_block_0(drive);
            // A second version of page 0 is in block 1, with garbage; block 0 keeps the first.
            for (lpn, id) in [(0, 11), (4, 5), (4, 6), (4, 7), (17, 57), (18, 58)] {
                drive.write(lpn, id);
            }
            drive.remap(10, 0, Relocate);
        };
        let verify = |drive: &mut Drive| {
            drive.assert_content_ids(&[(0, 0), (10, 11), (4, 7)]);
            let mut later = drive.clone();
            later.supersede_reverse_map_entries();
            later.lose_power();
            later.assert_content_ids(&[(0, 0), (10, 11)]);
        };
        let mut drive = DriveOptions::with_reverse_map(part).build_drive();
        scene(&mut drive);
        assert_eq!(drive.collect(), Some(BlockId(1)));
        run_with_every_power_cut(
            &DriveOptions::with_reverse_map(part),
            scene,
            |drive| drive.try_collect().map(drop),
            verify,
        );
    }
}

/// The source of a relocation was written again before GC moves the target, and keeps its content. Naive
/// implementation: GC records the entry of the relocation again with a newer number, which deallocates the source once
/// more.
#[test]
fn gc_does_not_deallocate_a_relocated_source_that_was_written_again() {
    for part in nvram_reverse_maps() {
        let scene = |drive: &mut Drive| {
            fill_block_0(drive);
            // Page 9 is named in the OOB of the copy, so the entry of page 10 is recorded again.
            drive.remap(9, 0, Copy);
            drive.remap(10, 0, Relocate);
            (17..19).for_each(|lpn| drive.write(lpn, 40 + lpn as u8));
            drive.write(0, 60);
            (1..4).for_each(|lpn| drive.write(lpn, 61 + lpn as u8));
        };
        let verify = |drive: &mut Drive| {
            drive.assert_content_ids(&[(0, 60), (9, 1), (10, 1)]);
            let mut later = drive.clone();
            later.supersede_reverse_map_entries();
            later.lose_power();
            later.assert_content_ids(&[(0, 60), (9, 1), (10, 1)]);
        };
        let mut drive = DriveOptions::with_reverse_map(part).build_drive();
        scene(&mut drive);
        assert_eq!(drive.collect(), Some(BlockId(0)));
        verify(&mut drive);
        run_with_every_power_cut(
            &DriveOptions::with_reverse_map(part),
            scene,
            |drive| drive.try_collect().map(drop),
            verify,
        );
    }
}

/// Requirement M27: relocations may form chains (A to B, B to C) and circles, all of which are recovered. Naive
/// implementation: only the last entry of a chain is applied.
#[test]
fn chains_and_circles_of_relocations_are_recovered() {
    for part in nvram_reverse_maps() {
        let scene = |drive: &mut Drive| {
            fill_block_0(drive);
            (17..19).for_each(|lpn| drive.write(lpn, 40 + lpn as u8));
            drive.remap(10, 0, Relocate);
            drive.remap(11, 10, Relocate);
            drive.remap(12, 11, Relocate);
            // The circle 1 -> 13 -> 1: page 1 is again where its OOB says.
            drive.remap(13, 1, Relocate);
            drive.remap(1, 13, Relocate);
            drive.write(2, 22);
        };
        let ids = [(0, 0), (10, 0), (11, 0), (12, 1), (13, 0), (1, 2), (2, 22), (3, 4)];
        let mut drive = DriveOptions::with_reverse_map(part).build_drive();
        scene(&mut drive);
        drive.lose_power();
        drive.assert_content_ids(&ids);
        drive.supersede_reverse_map_entries();
        drive.collect_until_no_victim_is_left();
        drive.lose_power();
        drive.assert_content_ids(&ids);
        run_with_every_power_cut(
            &DriveOptions::with_reverse_map(part),
            scene,
            |drive| {
                drive.try_collect()?;
                (0..60).try_for_each(|k| drive.try_remap(19, 17 + k % 2, 1, Copy))
            },
            |drive| drive.assert_content_ids(&ids),
        );
    }
}

/// Requirement M30: no remap is lost at any power cut during GC. Naive implementation: the old reverse-map entries of
/// the victim are zeroed, or the block is erased, before the new entries are durable. A power loss in between loses an
/// acknowledged remap.
#[test]
fn no_remapped_page_is_lost_at_any_power_cut_during_gc() {
    for part in nvram_reverse_maps() {
        let scene = |drive: &mut Drive| {
            fill_block_0(drive);
            for (lpn, source) in [(10, 0), (11, 0), (12, 1), (13, 1), (14, 3), (15, 3)] {
                drive.remap(lpn, source, Copy);
            }
            drive.write(2, 22);
            drive.write(0, 20);
        };
        let ids = [(0, 20), (1, 2), (2, 22), (3, 4), (10, 1), (11, 1), (12, 2), (13, 2), (14, 4), (15, 4)];
        let cuts = run_with_every_power_cut(
            &DriveOptions::with_reverse_map(part),
            scene,
            |drive| drive.try_collect().map(drop),
            |drive| {
                drive.assert_content_ids(&ids);
                // GC runs again, in the state that the cut left.
                drive.collect_until_no_victim_is_left();
                drive.assert_content_ids(&ids);
            },
        );
        assert!(cuts > 3 * 10, "three copies, entries in two stores each, an erase: {cuts} cuts");
    }
}

/// Requirement M20: a reverse-map entry is not valid longer than the flash page that it names. In this test power was
/// lost after the erase of a block and before its entries were dropped, and the block was used again. Naive
/// implementation: an entry is valid if its page exists, so recovery maps a logical page to unrelated content.
#[test]
fn a_reverse_map_entry_is_void_once_the_page_that_it_named_is_erased() {
    let part = reverse_map_in_nvram_segments(1536);
    let scene = |drive: &mut Drive| {
        fill_block_0(drive);
        drive.remap(10, 0, Copy);
        drive.write(10, 30);
        (0..4).for_each(|lpn| drive.write(lpn, 20 + lpn as u8));
    };
    let in_use_again = std::cell::Cell::new(0);
    let verify = |drive: &mut Drive| {
        drive.trim(10);
        // Block 0 is in use again, with two new binds in addition to the stale entry, so that compaction of its group
        // would free nothing.
        (4..8).for_each(|lpn| drive.write(lpn, 40 + lpn as u8));
        in_use_again.set(in_use_again.get() + u32::from(drive.page_owners(0) == [4, 5, 6, 7]));
        drive.remap(11, 4, Copy);
        drive.remap(12, 5, Copy);
        // Everything older than the trim is erased, and tombstones are compacted.
        for k in 0..80 {
            drive.write(k % 4, 20 + (k % 4) as u8);
            drive.write(16, 1);
            drive.trim(16);
            drive.collect_until_no_victim_is_left();
        }
        drive.lose_power();
        drive.assert_content_ids(&[(10, 0), (11, 44), (12, 45), (0, 20), (4, 44)]);
    };
    run_with_every_power_cut(
        &DriveOptions::with_reverse_map(part),
        scene,
        |drive| drive.try_collect().map(drop),
        verify,
    );
    assert!(in_use_again.get() > 3, "block 0 has to be in use again before its group is gone");
}

/// Requirement M21: if a victim and the copies of its pages are both on flash, recovery uses the copies. Naive
/// implementation: in the order of the Remap-SSD paper, the entries of the victim are dropped before its erase. After a
/// power loss in between, recovery maps the pages of the victim by the owner in their OOB.
#[test]
fn recovery_prefers_gc_copies_to_the_pages_of_their_victim() {
    let scene = |drive: &mut Drive| {
        fill_block_0(drive);
        drive.remap(10, 0, Copy);
        drive.remap(11, 0, Copy);
        drive.remap(12, 1, Copy);
        drive.remap(13, 2, Relocate);
        drive.write(0, 20);
        drive.write(3, 23);
    };
    let ids = [(0, 20), (1, 2), (2, 0), (3, 23), (10, 1), (11, 1), (12, 2), (13, 3)];
    let mut before = DriveOptions::with_reverse_map(reverse_map_in_nvram_segments(1536)).build_drive();
    scene(&mut before);
    let at_erase = (0..).map_while(|cut_at| {
        let mut drive = before.clone();
        drive.device.ftl_mut().store_mut().nand_mut().power_cut_nand_mut().restore_power(Some(cut_at));
        drive.try_collect().expect_err("the cut is before the erase");
        (drive.erase_counts()[0] == 0).then_some(drive)
    });
    let mut drive = at_erase.last().expect("a collection ends with an erase");
    drive.device.ftl_mut().store_mut().nand_mut().power_cut_nand_mut().restore_power(None);
    drive.clear_nvram_segments_of_block(0);
    drive.restore_power_and_recover();
    assert_eq!(drive.valid_pages(0), 0, "the victim's pages are older than their copies");
    drive.assert_content_ids(&ids);
    drive.collect_until_no_victim_is_left();
    drive.lose_power();
    drive.assert_content_ids(&ids);
}

/// Recovery finds the pages of open blocks, and also the remaps whose target page is in an open block. Naive
/// implementation: recovery reads only the metadata of closed blocks.
#[test]
fn recovery_finds_pages_of_open_blocks_and_the_remaps_that_refer_to_them() {
    for part in nvram_reverse_maps() {
        let mut drive = DriveOptions::with_reverse_map(part).build_drive();
        (0..3).for_each(|lpn| drive.write(lpn, 1 + lpn as u8));
        drive.remap(10, 0, Copy);
        drive.remap(11, 1, Relocate);
        assert_eq!(drive.block_state(0), BlockState::Open);
        for _ in 0..2 {
            drive.lose_power();
            assert_eq!(
                (drive.block_state(0), drive.valid_pages(0)),
                (BlockState::Open, 3),
                "it goes on being filled"
            );
            drive.assert_content_ids(&[(0, 1), (1, 0), (2, 3), (10, 1), (11, 2)]);
        }
        (3..9).for_each(|lpn| drive.write(lpn, 4));
        drive.collect_until_no_victim_is_left();
        drive.lose_power();
        drive.assert_content_ids(&[(0, 1), (1, 0), (2, 3), (3, 4), (10, 1), (11, 2)]);
    }
}

/// An NVRAM segment of which only one of the two head words was stored is free. Naive implementation: one word is taken
/// for a head. In this test, the free segment would then become the first and only segment in the list of its block,
/// and the entries of the block would be lost.
#[test]
fn an_nvram_segment_with_a_torn_head_is_free() {
    /// Number of NVRAM segments.
    const SEGMENTS: u64 = 24;
    let mut drive =
        DriveOptions::with_reverse_map(reverse_map_in_nvram_segments(SEGMENTS * NVRAM_SEGMENT_BYTES as u64))
            .build_drive();
    fill_block_0(&mut drive);
    drive.remap(10, 0, Copy);
    let words = NVRAM_SEGMENT_BYTES as usize / 8;
    let head = [0, 1].map(|word| drive.device.ftl().store().nand().nvram()[word]);
    for (segment, word) in [(SEGMENTS as usize - 1, 0), (SEGMENTS as usize - 2, 1)] {
        let nand = drive.device.ftl_mut().store_mut().nand_mut();
        // The torn head has number 0, as the true head; its sequence, in the upper bits of word 0, is older.
        let torn = [head[0] & ((1 << 22) - 1), head[1]][word];
        nand.store_nvram_word(segment * words + word, torn).expect("power is on");
    }
    drive.lose_power();
    drive.assert_content_ids(&[(0, 1), (10, 1)]);
    let nvram = drive.device.ftl().store().nand().nvram();
    assert!(nvram[(SEGMENTS as usize - 2) * words..].iter().all(|&word| word == 0), "and zeroed");
}

/// Requirement M32: power losses make no NVRAM segment unusable. Naive implementation: a segment is never used again if
/// power was lost while its head was stored, so the usable NVRAM shrinks with every power loss.
#[test]
fn power_losses_make_no_nvram_segment_unusable() {
    for outcome in CutOutcome::ALL {
        let mut drive = DriveOptions {
            power_cut_outcome: outcome,
            ..DriveOptions::with_reverse_map(reverse_map_in_nvram_segments(24 * NVRAM_SEGMENT_BYTES as u64))
        }
        .build_drive();
        fill_block_0(&mut drive);
        for k in 0..120 {
            // Head, link and entry are at most five stores.
            drive.device.ftl_mut().store_mut().nand_mut().power_cut_nand_mut().restore_power(Some(k % 5));
            let first = 4 + k as u32 % 8;
            let outcome = (0..4).try_for_each(|n| drive.try_remap(first + n, n, 1, Copy));
            assert!(outcome.is_err_and(|error| error.is_power_loss()));
            drive.restore_power_and_recover();
        }
        drive.supersede_reverse_map_entries();
        assert_eq!(drive.demotions_by_max_referrers_and_full_map(), (0, 0), "every bind found room");
    }
}

/// Requirement M34: the reverse-map entries that are linked in one chain belong to one erase unit. Naive
/// implementation: entries are grouped by superblock although blocks are erased singly, and are lost with the erase of
/// a neighbour. Or they are grouped by block although superblocks are erased as a whole, and occupy one segment per
/// plane.
#[test]
fn the_reverse_map_entries_of_a_chain_belong_to_one_erase_unit() {
    let planes = geometry_without_superblocks([2, 10, 4, PAGE_BYTES as u32]);
    let superblocks = Geometry { superblock_planes: 2, ..planes.clone() };
    for (geometry, heads) in [(planes, 2), (superblocks, 1)] {
        let mut drive =
            DriveOptions { geometry, ..DriveOptions::with_reverse_map(reverse_map_in_nvram_segments(1536)) }
                .build_drive();
        (0..8).for_each(|lpn| drive.write(lpn, 1 + lpn as u8));
        let written = drive.nvram_written_bytes();
        drive.remap(10, 0, Copy);
        drive.remap(11, 1, Copy);
        assert_eq!(
            drive.nvram_written_bytes() - written,
            (heads + 2) * REVERSE_MAP_ENTRY_BYTES,
            "{heads} segments are opened"
        );
        // One of the two planes' blocks is collected before the other, or both at once.
        for lpn in [0, 2, 4] {
            drive.write(lpn, 20 + lpn as u8);
        }
        (12..17).for_each(|lpn| drive.write(lpn, lpn as u8));
        assert_eq!(drive.collect(), Some(BlockId(0)));
        let ids = [(0, 20), (1, 2), (10, 1), (11, 2)];
        drive.assert_content_ids(&ids);
        drive.lose_power();
        drive.assert_content_ids(&ids);
    }
}
