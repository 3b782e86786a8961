//! Tests of unreadable flash pages together with power cuts, also during garbage collection: lost data stays lost, no
//! older version reappears, and nothing else is lost.
//!
//! Requests are whole pages, so each version of a page is identified by one number. After each damage two copies of the
//! device read every logical page, one of them after a power loss. A read that fails shows that the version of the page
//! was hit. After a later cut, a page must hold its last durable version or a later one. If one of these versions was
//! hit, it may also read as [`Error::LogicalPageLost`].

use std::sync::Arc;

use common::{
    BUFFERS, ContentPatterns, DesignUnderTest, FailureContext, Random, SECTOR_LEN, TinyDevice, audit,
    designs, device, medium_with_power_cut, nand_with_all_page_fields, test_case_interval,
};
use wearwell::address::{Lpn, Ppn, RemapMode};
use wearwell::design::Persistence;
use wearwell::device::HostData;
use wearwell::nand::{CutOutcome, FaultInjectable, Nand};
use wearwell::{Device, Error, Result};

use crate::common;

/// Number of distinct contents that a scenario writes.
const CONTENTS: u16 = 12;
/// Number of operations of a scenario on one tiny device. It is raised if a design would execute fewer than
/// [`OPERATIONS_PER_DESIGN`] on all tiny devices together.
const MIN_OPERATIONS_PER_SCENARIO: u64 = 60;
/// Least number of operations per design, over all tiny devices.
const OPERATIONS_PER_DESIGN: u64 = 600;
/// Number of operations that are executed on a recovered device.
const OPERATIONS_AFTER_RECOVERY: u64 = 25;

/// Device on a medium that can lose power.
type PowerCutDevice = Device;

/// Host operation on whole pages.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// Write of a content to a page: number of the page, id of the content.
    Write(u64, u16),
    /// Trim of the page with this number.
    Trim(u64),
    /// Remap that gives page `target` the content of page `source`.
    Remap { target: u64, source: u64, mode: RemapMode },
    /// Flush of all acknowledged writes.
    Flush,
}

/// Draws a random operation on a device of `pages` pages: 75 % writes, 10 % trims, 10 % remaps, 5 % flushes.
fn draw(random: &mut Random, pages: u64, contents: u16) -> Op {
    let page = random.below(pages);
    match random.below(100) {
        0..75 => Op::Write(page, 1 + random.below(u64::from(contents) - 1) as u16),
        75..85 => Op::Trim(page),
        85..95 => {
            let mode = random.pick(&[RemapMode::Copy, RemapMode::Relocate]);
            Op::Remap { target: page, source: random.below(pages), mode }
        }
        _ => Op::Flush,
    }
}

/// Versions of a logical page that the host wrote, from the oldest to the newest.
#[derive(Clone)]
struct PageVersions {
    /// Content id of each version; 0 for a trimmed page.
    content_ids_by_version: Vec<u16>,
    /// Index into `content_ids_by_version` of the newest version that must survive a power cut.
    newest_durable_version_index: usize,
    /// Number of leading versions in `content_ids_by_version` up to and including the last that damage may have hit; 0
    /// if it hit none.
    possibly_lost_version_count: usize,
}

impl PageVersions {
    /// Returns the content id of the newest version.
    fn newest_content_id(&self) -> u16 {
        *self.content_ids_by_version.last().expect("a page has a version")
    }

    /// Returns whether damage hit the newest version of the logical page.
    fn is_newest_version_lost(&self) -> bool {
        self.possibly_lost_version_count == self.content_ids_by_version.len()
    }

    /// Appends a version with content `id`. It is lost already if it was copied from a lost page.
    fn append(&mut self, id: u16, is_newest_version_lost: bool) {
        self.content_ids_by_version.push(id);
        if is_newest_version_lost {
            self.possibly_lost_version_count = self.content_ids_by_version.len();
        }
    }

    /// Returns the index of the oldest version that the page may hold after a power cut.
    fn oldest_allowed(&self, trims_are_durable: bool) -> usize {
        // A page that was never written is not a trimmed page.
        let trimmed = (self.newest_durable_version_index.max(1)..self.content_ids_by_version.len())
            .any(|k| self.content_ids_by_version[k] == 0);
        if trimmed && !trims_are_durable { 0 } else { self.newest_durable_version_index }
    }
}

/// Versions of all logical pages that the host wrote, with which a recovered device is compared.
struct ExpectedVersions {
    /// Versions of each logical page.
    pages: Vec<PageVersions>,
    /// Bytes of each content id.
    patterns: Arc<ContentPatterns>,
    /// Bytes per page.
    page_bytes: u64,
    /// Whether a trim is durable when it is acknowledged.
    trims_are_durable: bool,
    /// Whether every operation is durable when it is acknowledged, also without a flush.
    acknowledged_is_durable: bool,
}

impl ExpectedVersions {
    /// Creates the record for an empty device of this design.
    fn new(device: &PowerCutDevice, design: &DesignUnderTest) -> Self {
        let page_bytes = u64::from(device.ftl().store().geometry().page_bytes);
        let fresh = PageVersions {
            content_ids_by_version: vec![0],
            newest_durable_version_index: 0,
            possibly_lost_version_count: 0,
        };
        Self {
            pages: vec![fresh; (device.capacity_bytes() / page_bytes) as usize],
            patterns: ContentPatterns::computed_once(
                design.distinct_content_count(CONTENTS).into(),
                page_bytes as usize / SECTOR_LEN,
            ),
            page_bytes,
            trims_are_durable: design.parts.persistence != Persistence::OobScan,
            acknowledged_is_durable: !design.buffers_acknowledged_pages(),
        }
    }

    /// Returns the bytes of a page with content `id`.
    fn bytes_of(&self, id: u16) -> Vec<u8> {
        let sectors = self.page_bytes / SECTOR_LEN as u64;
        (0..sectors).flat_map(|sector| *self.patterns.sector(id, sector)).collect()
    }

    /// Executes an operation on the device, without recording it.
    fn perform(&self, device: &mut PowerCutDevice, op: Op) -> Result<()> {
        let size = self.page_bytes;
        match op {
            Op::Write(page, id) => device.write(page * size, size, HostData::Bytes(&self.bytes_of(id))),
            Op::Trim(page) => device.trim(page * size, size),
            Op::Remap { target, source, mode } => device.remap(target * size, source * size, size, mode),
            Op::Flush => device.flush(),
        }
    }

    /// Records that the host issued an operation: from now on a power cut may leave its effect.
    fn issue(&mut self, op: Op) {
        match op {
            Op::Write(page, id) => self.pages[page as usize].append(id, false),
            Op::Trim(page) => self.pages[page as usize].append(0, false),
            Op::Remap { target, source, mode } if target != source => {
                let from = &mut self.pages[source as usize];
                let (id, is_newest_version_lost) = (from.newest_content_id(), from.is_newest_version_lost());
                if mode == RemapMode::Relocate {
                    from.append(0, false);
                }
                self.pages[target as usize].append(id, is_newest_version_lost);
            }
            Op::Remap { .. } | Op::Flush => {}
        }
    }

    /// Records that the device acknowledged an operation: what is durable from now on must survive a power cut.
    fn acknowledge(&mut self, op: Op) {
        if self.acknowledged_is_durable || matches!(op, Op::Flush) {
            self.pages
                .iter_mut()
                .for_each(|page| page.newest_durable_version_index = page.content_ids_by_version.len() - 1);
        }
    }

    /// Reads a logical page of the device; `None` if the page is lost.
    fn read(&self, device: &mut PowerCutDevice, page: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0xa5; self.page_bytes as usize];
        match device.read(page * self.page_bytes, self.page_bytes, &mut bytes) {
            Ok(()) => Some(bytes),
            Err(Error::LogicalPageLost { lpn, .. }) if lpn == Lpn(page as u32) => None,
            Err(error) => panic!("a read of logical page {page} answers {error}"),
        }
    }

    /// Records which versions of each logical page may be lost, after a flash page was damaged whose OOB names logical
    /// page `owner`. If a power cut may undo a trim, it can restore an old version of `owner`, and that version may
    /// have been on the damaged page.
    fn record_versions_hit_by_damage(&mut self, device: &PowerCutDevice, owner: u32) {
        if !self.trims_are_durable
            && let Some(versions) = self.pages.get_mut(owner as usize)
        {
            versions.possibly_lost_version_count = versions.possibly_lost_version_count.max(1);
        }
        let (mut alive, mut cut) = (device.clone(), device.clone());
        cut.recover().expect("power stays on");
        for page in 0..self.pages.len() {
            let is_hit = self.read(&mut alive, page as u64).is_none();
            let is_hit_by_cut = self.read(&mut cut, page as u64).is_none();
            let versions = &mut self.pages[page];
            let hit = versions.content_ids_by_version.len() - usize::from(!is_hit);
            if is_hit || is_hit_by_cut {
                versions.possibly_lost_version_count = versions.possibly_lost_version_count.max(hit);
            }
        }
    }

    /// Returns the content id of every page of a recovered device; `None` for a lost page. Asserts that each content is
    /// a permitted version.
    fn assert_allowed_and_get_content_ids(&self, device: &mut PowerCutDevice) -> Vec<Option<u16>> {
        let content_id_of_page = |(page, versions): (usize, &PageVersions)| {
            let oldest = versions.oldest_allowed(self.trims_are_durable);
            let Some(bytes) = self.read(device, page as u64) else {
                assert!(
                    versions.possibly_lost_version_count > oldest,
                    "logical page {page} is lost and was not hit"
                );
                return None;
            };
            let holds = |&&id: &&u16| bytes == self.bytes_of(id);
            let found = versions.content_ids_by_version[oldest..].iter().rev().find(holds);
            Some(*found.unwrap_or_else(|| {
                let is_stale = versions.content_ids_by_version.iter().any(|id| holds(&id));
                panic!(
                    "logical page {page} holds {}",
                    if is_stale { "a stale version" } else { "foreign data" }
                )
            }))
        };
        self.pages.iter().enumerate().map(content_id_of_page).collect()
    }
}

/// Counts of events over many scenarios.
#[derive(Default, Debug)]
struct DamageAndCutCounts {
    /// Number of power cuts.
    cuts: u64,
    /// Number of power cuts during a recovery.
    second_cuts: u64,
    /// Number of flash pages that were damaged.
    damaged_flash_pages: u64,
    /// Number of logical pages that were found lost after a power cut.
    pages_lost_after_cuts: u64,
    /// Number of pages that GC programmed with a mark that their data is lost, because it could not read the source.
    pages_programmed_with_lost_mark: u64,
}

/// One run of random operations with damaged pages and power cuts.
struct Scenario<'a> {
    /// Design of the device.
    design: &'a DesignUnderTest,
    /// Tiny device on which the scenario runs.
    tiny_device: &'a TinyDevice,
    /// Effect of a power cut on the program or erase that it interrupts.
    outcome: CutOutcome,
    /// Seed of the random operations.
    seed: u64,
    /// Number of operations.
    operations: u64,
}

impl Scenario<'_> {
    /// Executes the scenario. At two random flash operations of each host operation, a copy of the device loses power
    /// and is recovered and checked.
    fn run_with_power_cuts(&self, damage_and_cut_counts: &mut DamageAndCutCounts) {
        let medium = medium_with_power_cut(nand_with_all_page_fields(self.tiny_device), None, self.outcome);
        let mut device = device(self.tiny_device, &self.design.parts, BUFFERS[0], medium);
        let mut expected_versions = ExpectedVersions::new(&device, self.design);
        let mut random = Random::new(self.seed);
        let (pages, contents) =
            (expected_versions.pages.len() as u64, self.design.distinct_content_count(CONTENTS));
        let mut scene = FailureContext {
            run_name: self.design.name,
            tiny_device: self.tiny_device.name,
            seed: self.seed,
            operation_number: 0,
        };
        for k in 0..3 * pages {
            let page = if k < pages { k } else { random.below(pages) };
            let op = Op::Write(page, 1 + random.below(u64::from(contents) - 1) as u16);
            expected_versions.issue(op);
            expected_versions.perform(&mut device, op).expect("the pages fit");
        }
        device.flush().expect("the pages fit");
        expected_versions.acknowledge(Op::Flush);
        for operation in 0..self.operations {
            scene.operation_number = operation;
            if random.is_true_with_percent(30)
                && let Some(owner) = self.damage_random_page(&mut device, &mut random)
            {
                damage_and_cut_counts.damaged_flash_pages += 1;
                expected_versions.record_versions_hit_by_damage(&device, owner);
            }
            let op = draw(&mut random, pages, contents);
            let before = device.clone();
            device.ftl_mut().store_mut().nand_mut().power_cut_nand_mut().restore_power(None);
            match expected_versions.perform(&mut device, op) {
                // A remap that must read lost data, or an atomic command without room for its entries.
                Err(Error::LogicalPageLost { .. } | Error::NotAtomic { .. }) => {
                    device = before;
                    continue;
                }
                outcome => outcome.expect("no operation needs what is lost"),
            }
            expected_versions.issue(op);
            let operations =
                device.ftl().store().nand().power_cut_nand().cuttable_operations_since_power_restore();
            for _ in 0..operations.min(2) {
                let cut_at = random.below(operations);
                self.cut(&before, &expected_versions, op, cut_at, damage_and_cut_counts);
            }
            expected_versions.acknowledge(op);
        }
        damage_and_cut_counts.pages_programmed_with_lost_mark += device.ftl().stats().lost_pages;
    }

    /// Damages a random flash page of host data and returns the owner in its OOB; `None` if the drawn page is
    /// unsuitable. In a design that shares contents without comparing bytes, the device is scrubbed at once, so that it
    /// knows the damage.
    fn damage_random_page(&self, device: &mut PowerCutDevice, random: &mut Random) -> Option<u32> {
        let ppn = Ppn(random.below(self.tiny_device.geometry.pages()) as u32);
        let oob = device.ftl_mut().store_mut().nand_mut().probe_page(ppn).ok().flatten();
        let oob = oob.filter(|oob| oob.kind.is_host_data())?;
        let recycle = self.design.parts.content.recycle.as_ref();
        let is_blind = recycle.is_some_and(|recycle| !recycle.must_verify_hits);
        if is_blind && device.ftl_mut().may_hold_needed_data(ppn) != Ok(true) {
            return None;
        }
        device.ftl_mut().store_mut().nand_mut().make_uncorrectable(ppn);
        if is_blind || random.is_true_with_percent(30) {
            let mut next = Some(Ppn(0));
            while let Some(first) = next {
                next = device.ftl_mut().scrub_step(first, 64).expect("power is on").next_page;
            }
        }
        Some(oob.owner)
    }

    /// Cuts power at flash operation `cut_at` of host operation `op` on a copy of the device, recovers it, and checks
    /// it. In one case of three, power is also cut during the recovery.
    fn cut(
        &self,
        before: &PowerCutDevice,
        expected_versions: &ExpectedVersions,
        op: Op,
        cut_at: u64,
        damage_and_cut_counts: &mut DamageAndCutCounts,
    ) {
        let mut device = before.clone();
        device.ftl_mut().store_mut().nand_mut().power_cut_nand_mut().restore_power(Some(cut_at));
        let error = expected_versions.perform(&mut device, op).expect_err("the cut is inside the operation");
        assert!(error.is_power_loss(), "a cut is reported as {error}");
        damage_and_cut_counts.cuts += 1;
        // Writes on battery power cannot be cut.
        if self.design.parts.persistence != Persistence::BatteryFlush
            && damage_and_cut_counts.cuts.is_multiple_of(3)
        {
            device
                .ftl_mut()
                .store_mut()
                .nand_mut()
                .power_cut_nand_mut()
                .restore_power(Some(damage_and_cut_counts.cuts % 5));
            match device.recover() {
                Err(error) if error.is_power_loss() => damage_and_cut_counts.second_cuts += 1,
                recovered => drop(recovered.expect("a cut is the only reason to fail")),
            }
        }
        device.ftl_mut().store_mut().nand_mut().power_cut_nand_mut().restore_power(None);
        device.recover().expect("power stays on");
        audit(&mut device);
        let found = expected_versions.assert_allowed_and_get_content_ids(&mut device);
        damage_and_cut_counts.pages_lost_after_cuts += found.iter().filter(|id| id.is_none()).count() as u64;
        self.continue_after_recovery(device, expected_versions, found, cut_at);
    }

    /// Executes further operations on a recovered device whose pages have the contents `found`. Lost pages are
    /// overwritten first, which must make them readable.
    fn continue_after_recovery(
        &self,
        mut device: PowerCutDevice,
        expected_versions: &ExpectedVersions,
        found: Vec<Option<u16>>,
        cut_at: u64,
    ) {
        let mut random = Random::new(self.seed ^ cut_at << 20);
        let mut ids = Vec::new();
        for (page, id) in (0..).zip(found) {
            if id.is_none() {
                expected_versions.perform(&mut device, Op::Write(page, 1)).expect("an overwrite heals");
            }
            ids.push(id.unwrap_or(1));
        }
        for _ in 0..OPERATIONS_AFTER_RECOVERY {
            let op = draw(&mut random, ids.len() as u64, self.design.distinct_content_count(CONTENTS));
            match expected_versions.perform(&mut device, op) {
                Err(Error::NotAtomic { .. }) => continue,
                done => done.expect("a recovered device works"),
            }
            match op {
                Op::Write(page, id) => ids[page as usize] = id,
                Op::Trim(page) => ids[page as usize] = 0,
                Op::Remap { target, source, mode } if target != source => {
                    ids[target as usize] = ids[source as usize];
                    if mode == RemapMode::Relocate {
                        ids[source as usize] = 0;
                    }
                }
                Op::Remap { .. } | Op::Flush => {}
            }
        }
        audit(&mut device);
        for (page, &id) in (0..).zip(&ids) {
            assert!(
                expected_versions.read(&mut device, page) == Some(expected_versions.bytes_of(id)),
                "logical page {page} after recovery"
            );
        }
    }
}

/// Flash pages become unreadable and power is cut at random; only damaged pages are lost. By default every second design
/// is tested; with `WEARWELL_SOAK=1`, all.
#[test]
fn after_power_cuts_only_damaged_pages_are_lost() {
    // By default these are the designs that `oracle.rs` leaves out on the world `slc`.
    let turn = test_case_interval(2);
    for (number, design) in (0u64..).zip(designs()).filter(|(number, _)| number % turn == turn - 1) {
        let mut damage_and_cut_counts = DamageAndCutCounts::default();
        // Devices of several hundred pages take long to compare.
        let is_chosen = |(k, tiny_device): &(u64, TinyDevice)| {
            tiny_device.geometry.pages() <= 200 || (number + k).is_multiple_of(4 * test_case_interval(2))
        };
        let tiny_devices: Vec<(u64, TinyDevice)> =
            (0..).zip(design.tiny_devices_with_enough_space()).filter(is_chosen).collect();
        let operations = MIN_OPERATIONS_PER_SCENARIO.max(OPERATIONS_PER_DESIGN / tiny_devices.len() as u64);
        for (k, tiny_device) in &tiny_devices {
            let outcome = CutOutcome::ALL[((number + k) % 3) as usize];
            let scenario =
                Scenario { design: &design, tiny_device, outcome, seed: 100 * number + k, operations };
            scenario.run_with_power_cuts(&mut damage_and_cut_counts);
        }
        println!("{}: {damage_and_cut_counts:?}", design.name);
        let DamageAndCutCounts {
            cuts,
            damaged_flash_pages,
            pages_lost_after_cuts,
            pages_programmed_with_lost_mark,
            ..
        } = damage_and_cut_counts;
        assert!(
            cuts > 100
                && damaged_flash_pages > 20
                && pages_lost_after_cuts > 20
                && pages_programmed_with_lost_mark > 5,
            "{}: {damage_and_cut_counts:?}",
            design.name
        );
    }
}
