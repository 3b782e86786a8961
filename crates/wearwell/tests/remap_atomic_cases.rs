//! Tests of atomic remap commands (Remap-SSD, section 4.3): all pages of a command are remapped or none, wherever power
//! is cut, and whatever happens to its entries later.
//!
//! Each test states what a naive implementation does, and fails on it. Power is cut at every program, erase and 8-byte
//! store to NVRAM.

use std::cell::Cell;

use common::drive::{
    Drive, DriveOptions, LOGICAL_PAGES, PAGE_BYTES, nvram_reverse_maps, run_with_every_power_cut,
};
use common::geometry_without_superblocks;
use wearwell::address::RemapMode::{self, Copy, Relocate};
use wearwell::nand::CutOutcome;
use wearwell::sharing::reverse_map::ReverseMapKind;
use wearwell::{Error, Result};

use crate::common;

/// Remap command of the host.
#[derive(Clone, Copy, Debug)]
struct Command {
    /// First logical page that gets new content.
    target: u32,
    /// First logical page from which the content is taken.
    source: u32,
    /// Number of logical pages.
    pages: u32,
    /// Whether the source pages keep their contents (copy) or are deallocated (relocate).
    mode: RemapMode,
}

/// Remap commands under test: with disjoint ranges, with ranges that overlap in both directions, and with source pages
/// that hold nothing (page 5 was never written, page 6 was trimmed).
const COMMANDS: [Command; 5] = [
    Command { target: 10, source: 0, pages: 5, mode: Copy },
    Command { target: 10, source: 1, pages: 4, mode: Relocate },
    Command { target: 2, source: 0, pages: 4, mode: Relocate },
    Command { target: 0, source: 2, pages: 3, mode: Relocate },
    Command { target: 9, source: 4, pages: 4, mode: Relocate },
];

/// Returns options of devices with atomic remap commands, one for each reverse map under test: logs, and NVRAM segments
/// with space for one or three entries.
fn drive_options_under_test() -> Vec<DriveOptions> {
    let of_three = ReverseMapKind::Segments { nvram_bytes: 1536, segment_bytes: 96 };
    let log = ReverseMapKind::FlashLog { log_pages: 6 };
    nvram_reverse_maps().into_iter().chain([of_three, log]).map(atomic_drive_options).collect()
}

/// Returns options of a device with atomic remap commands and this kind of reverse map.
fn atomic_drive_options(part: ReverseMapKind) -> DriveOptions {
    // A log on flash occupies blocks of its own.
    let geometry = geometry_without_superblocks([1, 20, 4, PAGE_BYTES as u32]);
    DriveOptions { atomic_commands: true, geometry, ..DriveOptions::with_reverse_map(part) }
}

/// Prepares a device: pages 0 to 4, 10, 11, 17 and 18 are written, page 12 shares the flash page of 3, and page 6 is
/// trimmed.
fn prepare_device(drive: &mut Drive) {
    (0..5).chain([6, 10, 11, 17, 18]).for_each(|lpn| drive.write(lpn, 1 + lpn as u8));
    drive.remap(12, 3, Copy);
    drive.trim(6);
    drive.remap(19, 17, Copy);
}

/// Returns the content ids of all logical pages except page number 19, which [`Drive::supersede_reverse_map_entries`]
/// overwrites.
fn contents(drive: &mut Drive) -> Vec<u8> {
    (0..LOGICAL_PAGES - 1).map(|lpn| drive.content_id(lpn)).collect()
}

/// Executes a remap command on the device.
fn run(drive: &mut Drive, Command { target, source, pages, mode }: Command) -> Result<()> {
    drive.try_remap(target, source, pages, mode)
}

/// Returns the expected contents after a command: the source pages are copied first, and then written to the target
/// pages.
fn contents_after(before: &[u8], command: Command) -> Vec<u8> {
    let range = |first: u32| first as usize..(first + command.pages) as usize;
    let moved = before[range(command.source)].to_vec();
    let mut after = before.to_vec();
    if command.mode == Relocate {
        after[range(command.source)].fill(0);
    }
    after[range(command.target)].copy_from_slice(&moved);
    after
}

/// A naive recovery uses all reverse-map entries that it finds, so after a power cut a part of the command takes
/// effect. Or it leaves torn entries in the reverse map, and compaction makes them look complete later.
#[test]
fn an_atomic_remap_command_takes_effect_entirely_or_not_at_every_power_cut() {
    for build in drive_options_under_test() {
        for command in COMMANDS {
            let mut whole = build.build_drive();
            prepare_device(&mut whole);
            let before = contents(&mut whole);
            let after = contents_after(&before, command);
            run(&mut whole, command).expect("there is room");
            assert_eq!(contents(&mut whole), after, "{command:?} uncut");
            let seen = [Cell::new(0), Cell::new(0)];
            let cuts = run_with_every_power_cut(
                &build,
                prepare_device,
                |drive| run(drive, command),
                |drive| {
                    let found = contents(drive);
                    let is_done = found == after;
                    assert!(is_done || found == before, "{:?}, {command:?}: {found:?}", build.reverse_map);
                    seen[usize::from(is_done)].update(|count| count + 1);
                    let mut later = drive.clone();
                    later.supersede_reverse_map_entries();
                    later.collect_until_no_victim_is_left();
                    later.lose_power();
                    assert_eq!(contents(&mut later), found, "{:?}, {command:?}, later", build.reverse_map);
                },
            );
            let [undone, complete] = seen.map(|count| count.get());
            assert!(
                undone > 2 * cuts / 2 && complete > 0,
                "{cuts} cuts: {undone} undone, {complete} complete"
            );
        }
    }
}

/// A remap command is torn if power was lost before all its reverse-map entries were recorded. A naive recovery zeroes
/// the entries of a torn command from the first on. If power is lost again, the next recovery takes the remaining
/// entries for complete ones, or for entries of the next command.
#[test]
fn an_interrupted_recovery_still_discards_the_whole_torn_remap_command() {
    let mut cuts_of_recovery = 0;
    for build in drive_options_under_test() {
        for outcome in CutOutcome::ALL {
            let command = COMMANDS[0];
            let mut before = DriveOptions { power_cut_outcome: outcome, ..build.clone() }.build_drive();
            prepare_device(&mut before);
            let expected = contents(&mut before);
            for cut_at in 0.. {
                let mut drive = before.clone();
                drive
                    .device
                    .ftl_mut()
                    .store_mut()
                    .nand_mut()
                    .power_cut_nand_mut()
                    .restore_power(Some(cut_at));
                if run(&mut drive, command).is_ok() {
                    break;
                }
                for cut_of_recovery in 0.. {
                    let mut again = drive.clone();
                    again
                        .device
                        .ftl_mut()
                        .store_mut()
                        .nand_mut()
                        .power_cut_nand_mut()
                        .restore_power(Some(cut_of_recovery));
                    if again.device.recover().is_ok() {
                        break;
                    }
                    cuts_of_recovery += 1;
                    again.restore_power_and_recover();
                    let found = contents(&mut again);
                    assert!(
                        found == expected || found == contents_after(&expected, command),
                        "{:?}, cut {cut_at}, then {cut_of_recovery}: {found:?}",
                        build.reverse_map
                    );
                    // The new command is recorded where the torn entries were, and nothing of them may have an effect.
                    run(&mut again, COMMANDS[1]).expect("there is room");
                    again.lose_power();
                    assert_eq!(contents(&mut again), contents_after(&found, COMMANDS[1]));
                }
            }
        }
    }
    assert!(cuts_of_recovery > 100, "{cuts_of_recovery} cuts of recoveries");
}

/// Compaction, GC and erases may drop some reverse-map entries of a complete remap command. A naive recovery then takes
/// the command for an incomplete one and discards it.
#[test]
fn a_complete_remap_command_stays_valid_after_some_of_its_entries_are_dropped() {
    for build in drive_options_under_test() {
        let complete = |drive: &mut Drive| {
            prepare_device(drive);
            run(drive, COMMANDS[0]).expect("there is room");
            // Two of the command's five entries are not needed any more.
            drive.write(10, 60);
            drive.write(12, 62);
        };
        let mut drive = build.build_drive();
        complete(&mut drive);
        let expected = contents(&mut drive);
        let verify = |drive: &mut Drive| assert_eq!(contents(drive), expected, "{:?}", build.reverse_map);
        drive.lose_power();
        verify(&mut drive);
        for _ in 0..3 {
            drive.supersede_reverse_map_entries();
            drive.collect_until_no_victim_is_left();
            drive.lose_power();
            verify(&mut drive);
        }
        let churn = |drive: &mut Drive| (0..60).try_for_each(|k| drive.try_remap(19, 17 + k % 2, 1, Copy));
        run_with_every_power_cut(&build, complete, churn, verify);
        run_with_every_power_cut(&build, complete, |drive| drive.try_collect().map(drop), verify);
    }
}

/// A remap command that needs more reverse-map entries than have space is refused. A naive implementation executes it
/// as writes, page by page, which is not atomic.
#[test]
fn an_atomic_remap_command_without_room_is_refused_and_changes_nothing() {
    for part in [
        ReverseMapKind::Segments { nvram_bytes: 8 * 64 + 8, segment_bytes: 64 },
        ReverseMapKind::NvramLog { nvram_bytes: 8 * 24 + 8 },
    ] {
        let mut drive = atomic_drive_options(part).build_drive();
        (0..8).for_each(|lpn| drive.write(lpn, 1 + lpn as u8));
        let before = contents(&mut drive);
        let refused = drive.try_remap(10, 0, 7, Copy);
        assert_eq!(refused, Err(Error::NotAtomic { pages: 7, max_pages: None }), "{part:?}");
        assert_eq!(contents(&mut drive), before);
        drive.lose_power();
        assert_eq!(contents(&mut drive), before);
        assert_eq!(drive.device.ftl().stats().refused_remap_commands, 1);
        drive.try_remap(10, 0, 2, Copy).expect("two entries fit");
        drive.assert_content_ids(&[(10, 1), (11, 2)]);
    }
}

/// If a source page already has the maximum number of referrers, its content is written once more before the remap
/// command. A naive implementation writes it as a part of the command, while the other pages are mapped without a
/// program.
#[test]
fn a_remap_source_with_the_maximum_of_referrers_is_written_once_more_before_the_command() {
    let nvram_bytes = 4096;
    for part in [
        ReverseMapKind::Segments { nvram_bytes, segment_bytes: 96 },
        ReverseMapKind::NvramLog { nvram_bytes },
        ReverseMapKind::FlashLog { log_pages: 6 },
    ] {
        let build = DriveOptions { logical_pages: 24, ..atomic_drive_options(part) };
        let saturated = |drive: &mut Drive| {
            (0..2).for_each(|lpn| drive.write(lpn, 1 + lpn as u8));
            (2..16).for_each(|lpn| drive.remap(lpn, 0, Copy));
        };
        let ids = |drive: &mut Drive| (16..20).map(|lpn| drive.content_id(lpn)).collect::<Vec<u8>>();
        let mut drive = build.build_drive();
        saturated(&mut drive);
        let command = |drive: &mut Drive| drive.try_remap(16, 0, 4, Copy);
        command(&mut drive).expect("there is room");
        assert!(drive.demotions_by_max_referrers_and_full_map().0 > 0, "page 0 had its most referrers");
        assert_eq!(ids(&mut drive), [1, 2, 1, 1]);
        run_with_every_power_cut(&build, saturated, command, |drive| {
            let found = ids(drive);
            assert!(found == [0; 4] || found == [1, 2, 1, 1], "{:?}: {found:?}", build.reverse_map);
            drive.assert_content_ids(&[(0, 1), (1, 2), (15, 1)]);
        });
    }
}
