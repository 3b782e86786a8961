//! The edge cases of sharing that a power loss reveals, one test each: for how long an entry counts, and what recovery
//! may find.
//!
//! Every test says what a naive implementation does, and fails on it. Unless the case is one of a single reverse map,
//! a test runs on each that survives in NVRAM or on flash. Power is lost at every program, erase and store of a step by
//! [`at_every_cut`], and between steps by [`Drive::lose_power`].

mod common;

use common::audit;
use common::drive::{Build, Drive, LOGICAL, at_every_cut, durable, fill_block_0};
use wearwell::address::RemapMode::{Copy, Relocate};
use wearwell::address::{BlockId, Ppn};

/// M22. Naive: entries are replayed after the scan whatever was written since.
#[test]
fn m22_a_write_after_the_bind_wins() {
    for part in durable() {
        let mut drive = Build::with(part).drive();
        fill_block_0(&mut drive);
        drive.remap(10, 0, Copy);
        drive.write(10, 30);
        drive.remap(0, 1, Copy);
        drive.lose_power();
        drive.assert_ids(&[(10, 30), (0, 2), (1, 2)]);
        // And the other way round: the bind after the write.
        drive.remap(10, 3, Copy);
        drive.lose_power();
        drive.assert_ids(&[(10, 4)]);
    }
}

/// M25. Naive: a trim is not recorded (as in the paper), and the page's last version is mapped again after a power loss.
#[test]
fn m25_a_trim_survives_at_every_cut() {
    for part in durable() {
        let mut drive = Build::with(part).drive();
        fill_block_0(&mut drive);
        drive.remap(10, 0, Copy);
        drive.trim(0);
        drive.trim(10);
        drive.trim(1);
        for _ in 0..2 {
            drive.lose_power();
            drive.assert_ids(&[(0, 0), (10, 0), (1, 0), (2, 3)]);
        }
        drive.write(1, 9);
        drive.lose_power();
        drive.assert_ids(&[(1, 9)]);
    }
}

/// M25. Naive: the tombstone goes with the newest version of the page, while an older one lies in another block.
#[test]
fn m25_a_tombstone_stays_while_an_older_version_exists() {
    for part in durable() {
        let mut drive = Build::with(part).drive();
        // The old version in block 0, among pages that stay; the newest in block 1, alone with garbage.
        fill_block_0(&mut drive);
        for (lpn, id) in [(0, 11), (17, 57), (17, 58), (17, 59), (18, 58)] {
            drive.write(lpn, id);
        }
        drive.trim(0);
        let evidence = Ppn(0);
        assert_eq!(drive.collect(), Some(BlockId(1)), "the block of the newest version");
        assert_eq!(drive.device.ftl().store().owner(evidence).0, 0, "the older version is still on flash");
        assert_eq!(drive.wear()[0], 0);
        drive.churn_entries();
        assert_eq!(drive.wear()[0], 0, "and was there all the time");
        drive.lose_power();
        drive.assert_ids(&[(0, 0), (1, 2), (2, 3), (3, 4)]);
        drive.churn_entries();
        drive.lose_power();
        drive.assert_ids(&[(0, 0), (17, 59), (18, 58)]);
    }
}

/// M25, converse. Naive: tombstones are kept for ever, and trims alone fill the NVRAM.
#[test]
fn m25_tombstones_do_not_fill_the_nvram() {
    for part in durable() {
        let mut drive = Build::with(part).drive();
        for k in 0..3000u32 {
            let lpn = k * 7 % LOGICAL;
            drive.try_write(lpn, 1 + (k % 200) as u8).expect("there is room");
            drive.try_trim(lpn).expect("there is room");
        }
        audit(&mut drive.device);
        let (_, full) = drive.demoted();
        assert!(full < 300, "{part:?}: {full} of 3000 trims found no room");
    }
}

/// M27. Naive: the entry of a relocation is dropped once its target was overwritten, and recovery finds the source's old
/// page by its OOB.
#[test]
fn m27_a_relocated_source_stays_gone_when_its_target_moved_on() {
    for part in durable() {
        let scene = |drive: &mut Drive| {
            fill_block_0(drive);
            (17..19).for_each(|lpn| drive.write(lpn, 40 + lpn as u8));
            drive.remap(10, 0, Relocate);
            drive.write(10, 30);
        };
        let mut drive = Build::with(part).drive();
        scene(&mut drive);
        drive.churn_entries();
        assert_eq!(drive.wear()[0], 0, "the page whose OOB names page 0 is still there");
        for _ in 0..2 {
            drive.lose_power();
            drive.assert_ids(&[(0, 0), (10, 30)]);
            drive.churn_entries();
        }
        // The same with power lost at every step of the reverse map's cleaning.
        at_every_cut(
            &Build::with(part),
            scene,
            |drive| (0..100).try_for_each(|k| drive.try_remap(19, 17 + k % 2, 1, Copy)),
            |drive| drive.assert_ids(&[(0, 0), (10, 30), (1, 2)]),
        );
    }
}

/// M27. Naive: garbage collection drops the entry with the block of the target, while an older version of the source
/// lies in another block.
#[test]
fn m27_a_relocated_source_stays_gone_when_gc_moves_its_target() {
    for part in durable() {
        let scene = |drive: &mut Drive| {
            fill_block_0(drive);
            // A second version of page 0, in block 1 with garbage; block 0 keeps the first.
            for (lpn, id) in [(0, 11), (4, 5), (4, 6), (4, 7), (17, 57), (18, 58)] {
                drive.write(lpn, id);
            }
            drive.remap(10, 0, Relocate);
        };
        let verify = |drive: &mut Drive| {
            drive.assert_ids(&[(0, 0), (10, 11), (4, 7)]);
            let mut later = drive.clone();
            later.churn_entries();
            later.lose_power();
            later.assert_ids(&[(0, 0), (10, 11)]);
        };
        let mut drive = Build::with(part).drive();
        scene(&mut drive);
        assert_eq!(drive.collect(), Some(BlockId(1)));
        at_every_cut(&Build::with(part), scene, |drive| drive.try_collect().map(drop), verify);
    }
}

/// M27, counterpart. Naive: the entry is recorded anew with a new number and its old meaning, and buries what the host
/// wrote to the source in between.
#[test]
fn m27_a_source_written_again_is_not_buried_by_gc() {
    for part in durable() {
        let scene = |drive: &mut Drive| {
            fill_block_0(drive);
            // Page 9 gets the OOB of the copy, so the entry of page 10 is recorded anew.
            drive.remap(9, 0, Copy);
            drive.remap(10, 0, Relocate);
            (17..19).for_each(|lpn| drive.write(lpn, 40 + lpn as u8));
            drive.write(0, 60);
            (1..4).for_each(|lpn| drive.write(lpn, 61 + lpn as u8));
        };
        let verify = |drive: &mut Drive| {
            drive.assert_ids(&[(0, 60), (9, 1), (10, 1)]);
            let mut later = drive.clone();
            later.churn_entries();
            later.lose_power();
            later.assert_ids(&[(0, 60), (9, 1), (10, 1)]);
        };
        let mut drive = Build::with(part).drive();
        scene(&mut drive);
        assert_eq!(drive.collect(), Some(BlockId(0)));
        verify(&mut drive);
        at_every_cut(&Build::with(part), scene, |drive| drive.try_collect().map(drop), verify);
    }
}

/// M27. Naive: a chain of relocations is followed by its last entry only.
#[test]
fn m27_chains_and_circles_of_relocations() {
    for part in durable() {
        let scene = |drive: &mut Drive| {
            fill_block_0(drive);
            (17..19).for_each(|lpn| drive.write(lpn, 40 + lpn as u8));
            drive.remap(10, 0, Relocate);
            drive.remap(11, 10, Relocate);
            drive.remap(12, 11, Relocate);
            // 1 -> 13 -> 1: back where the OOB says.
            drive.remap(13, 1, Relocate);
            drive.remap(1, 13, Relocate);
            drive.write(2, 22);
        };
        let ids = [(0, 0), (10, 0), (11, 0), (12, 1), (13, 0), (1, 2), (2, 22), (3, 4)];
        let mut drive = Build::with(part).drive();
        scene(&mut drive);
        drive.lose_power();
        drive.assert_ids(&ids);
        drive.churn_entries();
        drive.collect_all();
        drive.lose_power();
        drive.assert_ids(&ids);
        at_every_cut(
            &Build::with(part),
            scene,
            |drive| {
                drive.try_collect()?;
                (0..60).try_for_each(|k| drive.try_remap(19, 17 + k % 2, 1, Copy))
            },
            |drive| drive.assert_ids(&ids),
        );
    }
}

/// M30. Naive: the old group is zeroed, or the block erased, before the new entries are durable: an acknowledged bind is
/// lost if power goes in between.
#[test]
fn m30_no_bind_is_lost_at_any_cut_of_gc() {
    for part in durable() {
        let scene = |drive: &mut Drive| {
            fill_block_0(drive);
            for (lpn, source) in [(10, 0), (11, 0), (12, 1), (13, 1), (14, 3), (15, 3)] {
                drive.remap(lpn, source, Copy);
            }
            drive.write(2, 22);
            drive.write(0, 20);
        };
        let ids = [(0, 20), (1, 2), (2, 22), (3, 4), (10, 1), (11, 1), (12, 2), (13, 2), (14, 4), (15, 4)];
        let cuts = at_every_cut(
            &Build::with(part),
            scene,
            |drive| drive.try_collect().map(drop),
            |drive| {
                drive.assert_ids(&ids);
                // Collected again, in the state that the cut left.
                drive.collect_all();
                drive.assert_ids(&ids);
            },
        );
        assert!(cuts > 3 * 10, "three copies, entries in two stores each, an erase: {cuts} cuts");
    }
}
