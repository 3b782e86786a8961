//! The edge cases of sharing, one test each: what an entry means, for how long, and what a power loss may find.
//!
//! Every test says what a naive implementation does, and fails on it. Unless the case is one of a single reverse map,
//! a test runs on each that survives in NVRAM or on flash. Power is lost at every program, erase and store of a step by
//! [`at_every_cut`], and between steps by [`Drive::lose_power`].

mod common;

use common::{audit, flat_geometry};
use wearwell::address::RemapMode::{self, Copy, Relocate};
use wearwell::address::{BlockId, Lpn, Ppn};
use wearwell::content::dedup::DedupOptions;
use wearwell::design::{SharingDesign, remap};
use wearwell::device::HostData;
use wearwell::gc::{GcOptions, VictimPolicy};
use wearwell::nand::{CutOutcome, Geometry, Nand, PowerCut, Retain, SimNand};
use wearwell::refs::RefsPart;
use wearwell::reverse_map::{ENTRY_BYTES, Entry, MAX_SEQUENCE, ReverseMapPart};
use wearwell::store::BlockState;
use wearwell::timing::Cause;
use wearwell::write_buffer::{BufferOptions, BufferPolicy};
use wearwell::{Device, DeviceOptions, Result};

const PAGE_BYTES: u64 = 512;
const LOGICAL: u32 = 20;
/// Three entries each.
const SEGMENT_BYTES: u32 = 64;

fn segments(nvram_bytes: u64) -> ReverseMapPart {
    ReverseMapPart::Segments { nvram_bytes, segment_bytes: SEGMENT_BYTES }
}

/// The reverse maps in NVRAM. Placement of blocks is part of the cases, and a log on flash takes a block of its own.
fn durable() -> [ReverseMapPart; 2] {
    let nvram_bytes = 1536;
    [segments(nvram_bytes), ReverseMapPart::NvramLog { nvram_bytes }]
}

/// A device that is told which block to collect.
#[derive(Clone)]
struct Drive {
    device: Device<PowerCut<SimNand>>,
}

/// How a [`Drive`] is built; the default has 14 blocks of four pages in one pool and binds on request only.
#[derive(Clone)]
struct Build {
    geometry: Geometry,
    logical: u32,
    reverse_map: ReverseMapPart,
    dedup: bool,
    policy: VictimPolicy,
    buffer_pages: u32,
    outcome: CutOutcome,
}

impl Build {
    fn with(reverse_map: ReverseMapPart) -> Self {
        Self {
            geometry: flat_geometry([1, 14, 4, PAGE_BYTES as u32]),
            logical: LOGICAL,
            reverse_map,
            dedup: false,
            policy: VictimPolicy::Greedy,
            buffer_pages: 0,
            outcome: CutOutcome::Before,
        }
    }

    fn drive(&self) -> Drive {
        let dedup = self.dedup.then_some(DedupOptions { capacity_entries: None, verify_on_hit: true });
        let sharing = SharingDesign { reverse_map: self.reverse_map, refs: RefsPart::Dense, dedup };
        let gc = GcOptions { policy: self.policy, background_blocks: u32::MAX, ..GcOptions::default() };
        let parts = remap(gc, sharing);
        let nand =
            SimNand::new(self.geometry.clone(), Retain::ALL).with_nvram(parts.nvram_bytes(PAGE_BYTES as u32));
        let buffer = BufferOptions { pages: self.buffer_pages, policy: BufferPolicy::Fifo };
        let nand = PowerCut::new(nand, None, self.outcome);
        let device = Device::new(nand, self.logical, &parts, DeviceOptions { buffer }).expect("it fits");
        Drive { device }
    }
}

impl Drive {
    fn try_write(&mut self, lpn: u32, id: u8) -> Result<()> {
        let page = [id; PAGE_BYTES as usize];
        self.device.write(lpn as u64 * PAGE_BYTES, PAGE_BYTES, HostData::Bytes(&page))
    }

    fn write(&mut self, lpn: u32, id: u8) {
        self.try_write(lpn, id).expect("there is room");
        audit(&mut self.device);
    }

    fn try_remap(&mut self, target: u32, source: u32, pages: u32, mode: RemapMode) -> Result<()> {
        let bytes = |pages: u32| pages as u64 * PAGE_BYTES;
        self.device.remap(bytes(target), bytes(source), bytes(pages), mode)
    }

    fn remap(&mut self, target: u32, source: u32, mode: RemapMode) {
        self.try_remap(target, source, 1, mode).expect("there is room");
        audit(&mut self.device);
    }

    fn try_trim(&mut self, lpn: u32) -> Result<()> {
        self.device.trim(lpn as u64 * PAGE_BYTES, PAGE_BYTES)
    }

    fn trim(&mut self, lpn: u32) {
        self.try_trim(lpn).expect("there is room");
        audit(&mut self.device);
    }

    /// The content of a page; 0 for a page that holds nothing.
    fn id(&mut self, lpn: u32) -> u8 {
        let mut page = [0xa5; PAGE_BYTES as usize];
        self.device.read(lpn as u64 * PAGE_BYTES, PAGE_BYTES, &mut page).expect("a healthy medium reads");
        assert!(page.iter().all(|&byte| byte == page[0]), "page {lpn} is mixed");
        page[0]
    }

    #[track_caller]
    fn assert_ids(&mut self, expected: &[(u32, u8)]) {
        for &(lpn, id) in expected {
            assert_eq!(self.id(lpn), id, "content of logical page {lpn}");
        }
    }

    fn try_collect(&mut self) -> Result<bool> {
        self.device.ftl_mut().collect_in_background()
    }

    fn wear(&self) -> Vec<u32> {
        let store = self.device.ftl().store();
        (0..store.blocks().len()).map(|block| store.nand().erase_count(BlockId(block))).collect()
    }

    /// Collects one victim; the block, or `None` if nothing can be gained.
    fn collect(&mut self) -> Option<BlockId> {
        let before = self.wear();
        self.try_collect().expect("there is room").then(|| {
            audit(&mut self.device);
            let erased = before.iter().zip(self.wear()).position(|(&a, b)| a != b);
            BlockId(erased.expect("a victim is erased") as u32)
        })
    }

    /// Collects until nothing can be gained; the blocks, in order.
    fn collect_all(&mut self) -> Vec<BlockId> {
        std::iter::from_fn(|| self.collect()).collect()
    }

    fn restore(&mut self) {
        self.device.ftl_mut().store_mut().nand_mut().restore(None);
        self.device.recover().expect("power stays on");
        audit(&mut self.device);
    }

    /// Power goes and comes back; everything in RAM is gone.
    fn lose_power(&mut self) {
        self.restore();
    }

    fn programs(&self, cause: Cause) -> u64 {
        self.device.ftl().stats().programs[cause as usize]
    }

    fn nvram_written(&self) -> u64 {
        self.device.ftl().stats().work.nvram_written_bytes
    }

    fn valid(&self, block: u32) -> u32 {
        self.device.ftl().store().blocks().valid(BlockId(block))
    }

    fn state(&self, block: u32) -> BlockState {
        self.device.ftl().store().blocks().state(BlockId(block))
    }

    fn demoted(&self) -> (u64, u64) {
        let stats = self.device.ftl().stats();
        (stats.demoted_saturated, stats.demoted_full)
    }

    /// Fills the NVRAM with entries that supersede each other until the reverse map has cleaned up more than once: binds
    /// page 19 to the places of 17 and 18 in turn, which takes no page.
    fn churn_entries(&mut self) {
        for k in 0..300 {
            self.remap(19, 17 + k % 2, Copy);
        }
    }
}

/// Does `step` on copies of the device that `scene` builds, with power lost at each of its programs, erases and stores,
/// and with each thing that the interrupted operation may leave; `verify` sees the device recovered, and once more after
/// a second loss of power. Returns the number of cuts.
fn at_every_cut(
    build: &Build,
    scene: impl Fn(&mut Drive),
    step: impl Fn(&mut Drive) -> Result<()>,
    verify: impl Fn(&mut Drive),
) -> u64 {
    let mut cuts = 0;
    for outcome in CutOutcome::ALL {
        let mut before = Build { outcome, ..build.clone() }.drive();
        scene(&mut before);
        let mut uncut = before.clone();
        uncut.device.ftl_mut().store_mut().nand_mut().restore(None);
        step(&mut uncut).expect("the step succeeds uncut");
        verify(&mut uncut);
        for cut_at in 0..uncut.device.ftl().store().nand().operations() {
            let mut drive = before.clone();
            drive.device.ftl_mut().store_mut().nand_mut().restore(Some(cut_at));
            let error = step(&mut drive).expect_err("the cut is inside the step");
            assert!(error.is_power_loss(), "{error}");
            drive.restore();
            verify(&mut drive);
            drive.lose_power();
            verify(&mut drive);
            cuts += 1;
        }
    }
    cuts
}

/// Pages 0 to 3 with contents 1 to 4 in block 0, which is closed.
fn fill_block_0(drive: &mut Drive) {
    (0..4).for_each(|lpn| drive.write(lpn, 1 + lpn as u8));
    assert_eq!(drive.state(0), BlockState::Closed);
}

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
