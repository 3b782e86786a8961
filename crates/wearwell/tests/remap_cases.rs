//! The edge cases of sharing while power stays on, one test each: what an entry means, who refers to a page, what is
//! written instead of bound, and how garbage collection finds room for entries.
//!
//! Every test says what a naive implementation does, and fails on it. Unless the case is one of a single reverse map,
//! a test runs on each that survives in NVRAM or on flash.

mod common;

use common::drive::{Build, Drive, PAGE_BYTES, SEGMENT_BYTES, at_every_cut, durable, fill_block_0, segments};
use common::{Random, audit, flat_geometry};
use wearwell::address::RemapMode::{Copy, Relocate};
use wearwell::address::{BlockId, Lpn, Ppn};
use wearwell::reverse_map::{ENTRY_BYTES, Entry, MAX_SEQUENCE, ReverseMapPart};
use wearwell::timing::Cause;

const FLASH_LOG: ReverseMapPart = ReverseMapPart::FlashLog { log_pages: 4 };

/// M14. Naive: a sixteenth referrer wraps the four-bit counter, and the page dies with fifteen referrers left.
#[test]
fn m14_a_saturated_page_is_written_once_more() {
    for part in durable() {
        let mut drive = Build::with(part).drive();
        drive.write(0, 7);
        (1..15).for_each(|lpn| drive.remap(lpn, 0, Copy));
        assert_eq!((drive.demoted(), drive.programs(Cause::Host)), ((0, 0), 1));
        (15..17).for_each(|lpn| drive.remap(lpn, 0, Copy));
        assert_eq!((drive.demoted(), drive.programs(Cause::Host)), ((2, 0), 3), "one program per demotion");
        (0..14).for_each(|lpn| drive.trim(lpn));
        drive.assert_ids(&[(13, 0), (14, 7), (15, 7), (16, 7)]);
    }
}

/// M14. Naive: the remap is demoted, the write it becomes finds its own content in the index and is demoted again; one
/// page then counts as two demotions.
#[test]
fn m14_a_demotion_counts_once_with_deduplication() {
    for part in durable() {
        let mut drive = Build { dedup: true, ..Build::with(part) }.drive();
        drive.write(0, 7);
        (1..15).for_each(|lpn| drive.remap(lpn, 0, Copy));
        drive.remap(15, 0, Copy);
        assert_eq!((drive.demoted(), drive.programs(Cause::Host)), ((1, 0), 2));
    }
}

/// M14. Naive: entries are recorded until none is left, and garbage collection finds no room for the ones it has to
/// record anew.
#[test]
fn m14_binds_stop_at_the_watermark_or_before_and_are_counted() {
    let nvram_bytes = 64 * ENTRY_BYTES;
    for (part, capacity) in [
        (segments(nvram_bytes), 48),
        (ReverseMapPart::NvramLog { nvram_bytes }, 62),
        (ReverseMapPart::FlashLog { log_pages: 2 }, 64),
    ] {
        let mut drive =
            Build { logical: 90, geometry: flat_geometry([1, 40, 4, 512]), ..Build::with(part) }.drive();
        (0..10).for_each(|lpn| drive.write(lpn, 1 + lpn as u8));
        let before = drive.programs(Cause::Host);
        for lpn in 10..90 {
            drive.remap(lpn, lpn % 10, Copy);
        }
        let remapped = drive.device.ftl().stats().remapped_pages;
        let (saturated, full) = drive.demoted();
        assert_eq!((saturated, remapped + full), (0, 80), "{part:?}");
        assert_eq!(drive.programs(Cause::Host) - before, full, "{part:?}: one program per demotion");
        assert!(full > 0 && remapped <= capacity * 95 / 100, "{part:?}: {remapped} of {capacity}");
        assert!(remapped >= capacity / 3, "{part:?}: {remapped} of {capacity} entries are used");
        // Trims have to be recorded as well, or be writes of zeros.
        (60..64).for_each(|lpn| drive.trim(lpn));
        drive.lose_power();
        (10..60).chain(64..90).for_each(|lpn| assert_eq!(drive.id(lpn), 1 + (lpn % 10) as u8));
        (60..64).for_each(|lpn| assert_eq!(drive.id(lpn), 0));
    }
}

/// M15, M35. Naive: garbage collection asks the OOB whom a page belongs to, finds that its owner moved on, and drops the
/// page (or moves it for the owner alone) though others live from it.
#[test]
fn m15_m35_gc_moves_a_shared_page_for_all_who_refer_to_it() {
    for part in durable() {
        let scene = |drive: &mut Drive| {
            fill_block_0(drive);
            for lpn in [10, 11, 12] {
                drive.remap(lpn, 0, Copy);
            }
            (0..4).for_each(|lpn| drive.write(lpn, 20 + lpn as u8));
            assert_eq!(
                drive.valid(0),
                1,
                "a page without its OOB owner is valid while somebody refers to it"
            );
        };
        let ids = [(0, 20), (1, 21), (10, 1), (11, 1), (12, 1)];
        let mut drive = Build::with(part).drive();
        scene(&mut drive);
        let (written, programs) = (drive.nvram_written(), drive.programs(Cause::Gc));
        assert_eq!(drive.collect(), Some(BlockId(0)));
        assert_eq!(drive.programs(Cause::Gc) - programs, 1, "one copy for three referrers");
        drive.assert_ids(&ids);
        if part == durable()[1] {
            // The copy's OOB names one of the three, which absorbs its entry (section 4.5).
            assert_eq!(drive.nvram_written() - written, 2 * ENTRY_BYTES);
        }
        drive.lose_power();
        drive.assert_ids(&ids);
        at_every_cut(
            &Build::with(part),
            scene,
            |drive| drive.try_collect().map(drop),
            |drive| drive.assert_ids(&ids),
        );
    }
}

/// M26. Naive: the bind of a page that holds nothing is skipped, or done in RAM only.
#[test]
fn m26_unmapped_sources_own_sources_and_overlaps() {
    for part in durable() {
        for mode in [Copy, Relocate] {
            let mut drive = Build::with(part).drive();
            fill_block_0(&mut drive);
            drive.remap(0, 9, mode);
            drive.lose_power();
            drive.assert_ids(&[(0, 0), (9, 0)]);
            let written = drive.nvram_written();
            drive.remap(1, 1, mode);
            assert_eq!(drive.nvram_written(), written, "a page that is its own source leaves no entry");
            drive.try_remap(2, 1, 3, mode).expect("there is room");
            audit(&mut drive.device);
            drive.lose_power();
            let source = if mode == Relocate { 0 } else { 2 };
            drive.assert_ids(&[(1, source), (2, 2), (3, 3), (4, 4)]);
        }
    }
}

/// M28. Naive: the map changes at once, the buffered write of the target is written later and wins.
#[test]
fn m28_a_buffered_write_of_the_target_is_older_than_the_bind() {
    for part in durable() {
        let mut drive = Build { buffer_pages: 4, ..Build::with(part) }.drive();
        drive.write(0, 1);
        drive.device.flush().expect("there is room");
        drive.write(10, 30);
        assert_eq!(drive.device.buffered_pages(), 1);
        drive.remap(10, 0, Copy);
        drive.device.flush().expect("there is room");
        drive.assert_ids(&[(10, 1)]);
        drive.lose_power();
        drive.assert_ids(&[(0, 1), (10, 1)]);
        // A buffered write of the source is newer than its page on flash.
        drive.write(0, 2);
        drive.remap(11, 0, Relocate);
        drive.lose_power();
        drive.assert_ids(&[(0, 0), (10, 1), (11, 2)]);
    }
}

/// M29. Naive: the index goes on naming the saturated page, and every later write of the content is demoted.
#[test]
fn m29_the_copy_of_a_saturated_page_serves_the_next_writes() {
    for part in durable() {
        let build =
            Build { dedup: true, logical: 30, geometry: flat_geometry([1, 16, 4, 512]), ..Build::with(part) };
        let mut drive = build.drive();
        (0..30).for_each(|lpn| drive.write(lpn, 7));
        assert_eq!(drive.programs(Cause::Host), 2, "thirty pages are two of fifteen");
        assert_eq!(drive.demoted(), (1, 0));
        drive.lose_power();
        (0..30).for_each(|lpn| assert_eq!(drive.id(lpn), 7));
    }
}

/// M33. Naive: the sequence number loses its upper bits in the entry, and the newest entries become the oldest.
#[test]
#[should_panic(expected = "does not fit 42 bits")]
fn m33_a_sequence_number_beyond_its_field_is_refused() {
    let entry = |sequence| Entry { lpn: Lpn(1), place: Some(Ppn(3)), source: None, sequence };
    let words = entry(MAX_SEQUENCE).encode(Ppn(0));
    assert_eq!(Entry::decode(words, Ppn(0)), Some(entry(MAX_SEQUENCE)));
    let _ = entry(MAX_SEQUENCE + 1).encode(Ppn(0));
}

/// M36. Naive: a group is one segment.
#[test]
fn m36_a_group_may_have_many_segments() {
    let scene = |drive: &mut Drive| {
        fill_block_0(drive);
        (4..60).for_each(|lpn| drive.remap(lpn, lpn % 4, Copy));
        assert_eq!(drive.device.ftl().stats().remapped_pages, 56, "4 pages of 15 referrers");
        drive.write(0, 99);
    };
    let geometry = flat_geometry([1, 24, 4, 512]);
    let build = Build { logical: 60, geometry, ..Build::with(segments(80 * SEGMENT_BYTES as u64)) };
    let verify = |drive: &mut Drive| {
        assert_eq!(drive.id(0), 99);
        (1..60).for_each(|lpn| assert_eq!(drive.id(lpn), 1 + (lpn % 4) as u8, "page {lpn}"));
    };
    let mut drive = build.drive();
    scene(&mut drive);
    drive.lose_power();
    verify(&mut drive);
    drive.write(1, 99);
    drive.write(1, 2);
    drive.collect_all();
    drive.lose_power();
    verify(&mut drive);
}

/// M37. Not a fault but an effect to be seen: after a checkpoint the pages of a journal are garbage if they were copied
/// home, and valid if they were remapped, so that garbage collection gains less from their blocks.
#[test]
fn m37_remapping_leaves_less_garbage_than_copying() {
    let journal_valid = |part| {
        let mut drive = Build::with(part).drive();
        (0..4).for_each(|lpn| drive.write(10 + lpn, 1 + lpn as u8));
        drive.try_remap(0, 10, 4, Relocate).expect("there is room");
        (0..4).for_each(|lpn| assert_eq!(drive.id(lpn), 1 + lpn as u8));
        (drive.valid(0), drive.programs(Cause::Host))
    };
    assert_eq!(journal_valid(segments(1536)), (4, 4));
    assert_eq!(journal_valid(ReverseMapPart::OobOnly).0, 0, "copied home, the journal is garbage");
    assert_eq!(journal_valid(ReverseMapPart::OobOnly).1, 8);
}

/// M31. Naive: a victim whose entries find no room is taken nevertheless, and its shared pages are stored once per
/// referrer, for which no pages were kept: the device is full in the middle of a collection.
#[test]
fn m31_a_full_reverse_map_never_fills_the_device() {
    let nvram_bytes = 64 * SEGMENT_BYTES as u64;
    for part in [segments(nvram_bytes), ReverseMapPart::NvramLog { nvram_bytes }, FLASH_LOG] {
        let mut demoted_by_gc = 0;
        for seed in 0..20 {
            let geometry = flat_geometry([1, 36, 4, PAGE_BYTES as u32]);
            let mut drive = Build { geometry, logical: 120, ..Build::with(part) }.drive();
            let mut random = Random::new(seed);
            let mut ids = [0; 120];
            for k in 0..6000u64 {
                let [target, source] = [0, 1].map(|_| random.below(120) as usize);
                // Eight pages that everybody refers to, and writes that make their blocks garbage.
                let full = drive.demoted().1;
                match random.below(20) {
                    0..4 => {
                        ids[target] = 1 + (k % 200) as u8;
                        drive
                            .try_write(target as u32, ids[target])
                            .expect("every page fits stored by itself");
                    }
                    4 => {
                        ids[target] = 0;
                        drive.try_trim(target as u32).expect("there is room");
                    }
                    5 if target != source => {
                        drive.try_remap(target as u32, source as u32, 1, Relocate).expect("there is room");
                        (ids[target], ids[source]) = (ids[source], 0);
                    }
                    6..8 => {
                        drive.try_collect().expect("there is room");
                        demoted_by_gc += drive.demoted().1 - full;
                    }
                    _ => {
                        let source = source % 8;
                        drive.try_remap(target as u32, source as u32, 1, Copy).expect("there is room");
                        ids[target] = ids[source];
                    }
                }
                if k % 50 == 0 {
                    audit(&mut drive.device);
                }
            }
            (0..120).for_each(|lpn| assert_eq!(drive.id(lpn), ids[lpn as usize], "page {lpn}, seed {seed}"));
            drive.lose_power();
            (0..120).for_each(|lpn| assert_eq!(drive.id(lpn), ids[lpn as usize], "page {lpn}, seed {seed}"));
        }
        println!("{part:?}: {demoted_by_gc}");
        assert!(demoted_by_gc > 0, "{part:?}: entries have to run out during collections");
    }
}
