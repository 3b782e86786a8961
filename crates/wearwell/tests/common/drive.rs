//! A device of the design `remap` that tests operate step by step. The tests know which block is collected, and can cut
//! power at every program, erase and NVRAM store of a step.

use wearwell::address::RemapMode::{self, Copy};
use wearwell::address::{BlockId, Ppn};
use wearwell::content::dedup::DedupOptions;
use wearwell::design::{Parts, RecoveryBlockScan, SharingOptions, remap};
use wearwell::device::HostData;
use wearwell::gc::{GcOptions, VictimPolicy};
use wearwell::nand::{CutOutcome, Geometry, Nand, RetainedPageFields, SimNand};
use wearwell::operation::Cause;
use wearwell::sharing::counts::ReferenceCountForm;
use wearwell::sharing::reverse_map::ReverseMapKind;
use wearwell::store::BlockState;
use wearwell::write_buffer::{WriteBufferOptions, WriteBufferPolicy};
use wearwell::{Device, DeviceOptions, Result};

use super::{audit, geometry_without_superblocks, medium_with_power_cut};

/// Bytes per page of the device.
pub const PAGE_BYTES: u64 = 512;
/// Number of logical pages of the device.
pub const LOGICAL_PAGES: u32 = 20;
/// Bytes of an NVRAM segment of the reverse map: a head and three entries.
pub const NVRAM_SEGMENT_BYTES: u32 = 64;

/// Returns the kind of a reverse map in segments of [`NVRAM_SEGMENT_BYTES`], in `nvram_bytes` bytes of NVRAM.
pub fn reverse_map_in_nvram_segments(nvram_bytes: u64) -> ReverseMapKind {
    ReverseMapKind::Segments { nvram_bytes, segment_bytes: NVRAM_SEGMENT_BYTES }
}

/// Returns the kinds of reverse maps that are stored in NVRAM. Tests that depend on the blocks of pages use only these,
/// because a reverse map on flash takes blocks of its own.
pub fn nvram_reverse_maps() -> [ReverseMapKind; 2] {
    let nvram_bytes = 1536;
    [reverse_map_in_nvram_segments(nvram_bytes), ReverseMapKind::NvramLog { nvram_bytes }]
}

/// Device on which tests start garbage collection themselves, and so know which block is collected.
#[derive(Clone)]
pub struct Drive {
    /// Device under test, on a medium that can lose power.
    pub device: Device,
}

/// Options of a [`Drive`]. By default it has 14 blocks of four pages in one pool (set of planes), and logical pages
/// come to share a flash page only by remap commands.
#[derive(Clone)]
pub struct DriveOptions {
    /// Numbers of planes, blocks and pages of the flash.
    pub geometry: Geometry,
    /// Number of logical pages.
    pub logical_pages: u32,
    /// Kind of the reverse map, which records the logical pages that share a flash page.
    pub reverse_map: ReverseMapKind,
    /// Whether equal contents are deduplicated.
    pub dedup: bool,
    /// Victim policy of garbage collection.
    pub policy: VictimPolicy,
    /// Capacity of the write buffer, pages.
    pub buffer_pages: u32,
    /// Effect of a power cut on the program or erase that it interrupts.
    pub power_cut_outcome: CutOutcome,
    /// Whether a remap command takes effect as a whole or not at all.
    pub atomic_commands: bool,
    /// Pages that a recovery reads in each block.
    pub recovery_block_scan: RecoveryBlockScan,
}

impl DriveOptions {
    /// Returns the default options with this kind of reverse map.
    pub fn with_reverse_map(reverse_map: ReverseMapKind) -> Self {
        Self {
            geometry: geometry_without_superblocks([1, 14, 4, PAGE_BYTES as u32]),
            logical_pages: LOGICAL_PAGES,
            reverse_map,
            dedup: false,
            policy: VictimPolicy::Greedy,
            buffer_pages: 0,
            power_cut_outcome: CutOutcome::NoEffect,
            atomic_commands: false,
            recovery_block_scan: RecoveryBlockScan::OobScan,
        }
    }

    /// Builds an empty device with these options.
    pub fn build_drive(&self) -> Drive {
        let dedup = self.dedup.then_some(DedupOptions { capacity_entries: None, must_verify_hits: true });
        let Self { reverse_map, atomic_commands, recovery_block_scan, .. } = *self;
        let sharing = SharingOptions {
            reverse_map,
            reference_count_form: ReferenceCountForm::Dense,
            dedup,
            has_atomic_remap_commands: atomic_commands,
        };
        let gc = GcOptions {
            policy: self.policy,
            background_gc_below_free_blocks: u32::MAX,
            ..GcOptions::default()
        };
        let parts = Parts { recovery_block_scan, ..remap(gc, sharing) };
        let nand = SimNand::new(self.geometry.clone(), RetainedPageFields::ALL)
            .with_nvram(parts.reverse_map_nvram_bytes(PAGE_BYTES as u32));
        let buffer =
            WriteBufferOptions { capacity_pages: self.buffer_pages, policy: WriteBufferPolicy::Fifo };
        let nand = medium_with_power_cut(nand, None, self.power_cut_outcome);
        let device =
            Device::new(nand, self.logical_pages, &parts, DeviceOptions { buffer }).expect("it fits");
        Drive { device }
    }
}

impl Drive {
    /// Writes content `id` to a logical page; returns the error of the device.
    pub fn try_write(&mut self, lpn: u32, id: u8) -> Result<()> {
        let page = [id; PAGE_BYTES as usize];
        self.device.write(lpn as u64 * PAGE_BYTES, PAGE_BYTES, HostData::Bytes(&page))
    }

    /// Writes content `id` to a logical page, and audits the device.
    pub fn write(&mut self, lpn: u32, id: u8) {
        self.try_write(lpn, id).expect("there is room");
        audit(&mut self.device);
    }

    /// Remaps `pages` logical pages: those from `target` on get the contents of those from `source` on. Returns the
    /// error of the device.
    pub fn try_remap(&mut self, target: u32, source: u32, pages: u32, mode: RemapMode) -> Result<()> {
        let bytes = |pages: u32| pages as u64 * PAGE_BYTES;
        self.device.remap(bytes(target), bytes(source), bytes(pages), mode)
    }

    /// Remaps one page: gives logical page `target` the content of `source`, and audits the device.
    pub fn remap(&mut self, target: u32, source: u32, mode: RemapMode) {
        self.try_remap(target, source, 1, mode).expect("there is room");
        audit(&mut self.device);
    }

    /// Trims a logical page; returns the error of the device.
    pub fn try_trim(&mut self, lpn: u32) -> Result<()> {
        self.device.trim(lpn as u64 * PAGE_BYTES, PAGE_BYTES)
    }

    /// Trims a logical page, and audits the device.
    pub fn trim(&mut self, lpn: u32) {
        self.try_trim(lpn).expect("there is room");
        audit(&mut self.device);
    }

    /// Reads the logical page `lpn` and returns its content id; 0 if nothing is stored.
    pub fn content_id(&mut self, lpn: u32) -> u8 {
        let mut page = [0xa5; PAGE_BYTES as usize];
        self.device.read(lpn as u64 * PAGE_BYTES, PAGE_BYTES, &mut page).expect("a healthy medium reads");
        assert!(page.iter().all(|&byte| byte == page[0]), "page {lpn} is mixed");
        page[0]
    }

    /// Asserts that each logical page of the list has this content id.
    #[track_caller]
    pub fn assert_content_ids(&mut self, expected: &[(u32, u8)]) {
        for &(lpn, id) in expected {
            assert_eq!(self.content_id(lpn), id, "content of logical page {lpn}");
        }
    }

    /// Collects one GC victim; returns `false` if no page can be freed.
    pub fn try_collect(&mut self) -> Result<bool> {
        self.device.ftl_mut().collect_in_background()
    }

    /// Returns the erase count of each block.
    pub fn erase_counts(&self) -> Vec<u32> {
        let store = self.device.ftl().store();
        (0..store.blocks().len()).map(|block| store.nand().erase_count(BlockId(block))).collect()
    }

    /// Collects one GC victim and returns its block; `None` if no page can be freed.
    pub fn collect(&mut self) -> Option<BlockId> {
        let before = self.erase_counts();
        self.try_collect().expect("there is room").then(|| {
            audit(&mut self.device);
            let erased = before.iter().zip(self.erase_counts()).position(|(&a, b)| a != b);
            BlockId(erased.expect("a victim is erased") as u32)
        })
    }

    /// Collects GC victims until no page can be freed; returns the victims in order.
    pub fn collect_until_no_victim_is_left(&mut self) -> Vec<BlockId> {
        std::iter::from_fn(|| self.collect()).collect()
    }

    /// Restores power, recovers the device and audits it.
    pub fn restore_power_and_recover(&mut self) {
        self.device.ftl_mut().store_mut().nand_mut().power_cut_nand_mut().restore_power(None);
        self.device.recover().expect("power stays on");
        audit(&mut self.device);
    }

    /// Cuts power and recovers the device; everything in RAM is lost.
    pub fn lose_power(&mut self) {
        self.restore_power_and_recover();
    }

    /// Returns the number of pages that were programmed for this cause.
    pub fn programs(&self, cause: Cause) -> u64 {
        self.device.ftl().stats().programs[cause as usize]
    }

    /// Returns the number of pages that garbage collection programmed minus the number that it read: pages that it
    /// programmed without reading them first.
    pub fn gc_programs_without_read(&self) -> u64 {
        self.programs(Cause::Gc) - self.device.ftl().stats().reads[Cause::Gc as usize]
    }

    /// Returns the number of bytes that were stored in NVRAM.
    pub fn nvram_written_bytes(&self) -> u64 {
        self.device.ftl().stats().controller_work.nvram_written_bytes
    }

    /// Returns the owners that the OOBs of the programmed pages in `block` name.
    pub fn page_owners(&mut self, block: u32) -> Vec<u32> {
        let nand = self.device.ftl_mut().store_mut().nand_mut();
        let pages = nand.geometry().block_pages();
        let pages = (block * pages..(block + 1) * pages).map(Ppn);
        pages.map_while(|ppn| nand.probe_page(ppn).ok().flatten()).map(|oob| oob.owner).collect()
    }

    /// Overwrites the reverse-map segments of a block in the simulated NVRAM with zeros. The reverse map does not know.
    pub fn clear_nvram_segments_of_block(&mut self, block: u64) {
        /// Number of 64-bit words of a segment.
        const WORDS: usize = NVRAM_SEGMENT_BYTES as usize / 8;
        let nand = self.device.ftl_mut().store_mut().nand_mut();
        for head in (0..nand.nvram().len()).step_by(WORDS) {
            if nand.nvram()[head] != 0 && nand.nvram()[head + 1] >> 32 == block {
                (head..head + WORDS).for_each(|at| nand.store_nvram_word(at, 0).expect("power is on"));
            }
        }
    }

    /// Returns the number of valid pages in a block.
    pub fn valid_pages(&self, block: u32) -> u32 {
        self.device.ftl().store().blocks().valid_pages(BlockId(block))
    }

    /// Returns the state of a block: free, open or closed, for example.
    pub fn block_state(&self, block: u32) -> BlockState {
        self.device.ftl().store().blocks().state(BlockId(block))
    }

    /// Returns the number of binds (a logical page mapped to a stored page) that were executed as writes because the
    /// stored page had the maximum number of referrers, and the number of binds and trims executed as writes because
    /// the reverse map was full.
    pub fn demotions_by_max_referrers_and_full_map(&self) -> (u64, u64) {
        let stats = self.device.ftl().stats();
        (stats.writes_due_to_max_referrers, stats.writes_due_to_full_reverse_map)
    }

    /// Remaps page 19 to the flash pages of 17 and 18 in turn, which programs nothing. Each remap adds a reverse-map
    /// entry that supersedes an earlier one, until the reverse map in NVRAM has been compacted more than once.
    pub fn supersede_reverse_map_entries(&mut self) {
        for k in 0..300 {
            self.remap(19, 17 + k % 2, Copy);
        }
    }
}

/// Executes `step` on copies of the device that `scene` prepares, and cuts power at each program, erase and NVRAM store
/// of the step, with each possible outcome of the interrupted operation. Calls `verify` after recovery, and again after
/// a second power loss. Returns the number of cuts.
pub fn run_with_every_power_cut(
    build: &DriveOptions,
    scene: impl Fn(&mut Drive),
    step: impl Fn(&mut Drive) -> Result<()>,
    verify: impl Fn(&mut Drive),
) -> u64 {
    let mut cuts = 0;
    for outcome in CutOutcome::ALL {
        let mut before = DriveOptions { power_cut_outcome: outcome, ..build.clone() }.build_drive();
        scene(&mut before);
        let mut uncut = before.clone();
        uncut.device.ftl_mut().store_mut().nand_mut().power_cut_nand_mut().restore_power(None);
        step(&mut uncut).expect("the step succeeds uncut");
        let operations =
            uncut.device.ftl().store().nand().power_cut_nand().cuttable_operations_since_power_restore();
        verify(&mut uncut);
        for cut_at in 0..operations {
            let mut drive = before.clone();
            drive.device.ftl_mut().store_mut().nand_mut().power_cut_nand_mut().restore_power(Some(cut_at));
            let error = step(&mut drive).expect_err("the cut is inside the step");
            assert!(error.is_power_loss(), "{error}");
            drive.restore_power_and_recover();
            verify(&mut drive);
            drive.lose_power();
            verify(&mut drive);
            cuts += 1;
        }
    }
    cuts
}

/// Writes contents 1 to 4 to logical pages 0 to 3, which fill block 0.
pub fn fill_block_0(drive: &mut Drive) {
    (0..4).for_each(|lpn| drive.write(lpn, 1 + lpn as u8));
    assert_eq!(drive.block_state(0), BlockState::Closed);
}
