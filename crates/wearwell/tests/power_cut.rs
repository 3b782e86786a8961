//! Tests that cut power at programs, erases and NVRAM stores of a scenario. No data may be lost that the design
//! promises to keep.
//!
//! A scenario of 300 operations (duplicate contents, partial writes, trims, flushes, with garbage collection running)
//! runs on a nearly full device. After each trim, blocks without valid pages are erased, as on a live device. For each
//! of its programs and erases, and for each state in which the interrupted operation may leave the flash, a copy of the
//! device can lose power there and recover. Then every page must hold its last durable version or one issued later,
//! never a mix of two versions and never another page's data. After that, fifty more operations must agree with a plain
//! array.
//!
//! What a design promises depends on its hardware:
//! - page-map: flash alone. The map is rebuilt from the OOB. Trims are not durable, so a page that was trimmed since
//!   its last durable write (or whose last durable state is a trim) may read as any earlier version.
//! - recyclable: a battery keeps map, history and access counts in RAM; recovery brings them in line with the flash.
//! - dftl: a battery writes the dirty map entries when power fails, here at the beginning of [`Device::recover`]. A cut
//!   during these writes is excluded by the promise, so second cuts come after them.
//! - nvram: flash and NVRAM, which holds a copy of the map. Data buffered in RAM needs a flush.
//!
//! A device with enough free blocks keeps the same promise while its programs and erases fail.
//!
//! Only a sample of the possible cuts is made, which differs from scenario to scenario. By default it is one in 197,
//! and one in 280 on devices whose programs and erases fail. `just soak` makes all cuts, and one in 7 on devices whose
//! programs and erases fail.
//!
//! Without a write buffer a write must be on flash when it is acknowledged, and the tests verify this.

use common::{
    BUFFERS, DesignUnderTest, FailureContext, Op, OperationGenerator, Oracle, Random, SECTOR_LEN,
    SchemeSwitcher, TinyDevice, audit, designs, designs_with_prefix, device, device_with_half_logical_size,
    medium_with_faults, nand_with_all_page_fields, test_case_interval, tiny_devices,
    tolerable_block_failures,
};
use wearwell::address::RemapMode;
use wearwell::design::Persistence;
use wearwell::device::SECTOR_BYTES;
use wearwell::nand::{CutOutcome, FaultProbabilities, NandError};
use wearwell::write_buffer::WriteBufferOptions;
use wearwell::{Device, Error, Result};

use crate::common;

/// Number of distinct contents that a scenario writes.
const CONTENTS: u16 = 12;
/// Number of host operations of a scenario.
const OPERATIONS_PER_SCENARIO: u64 = 300;
/// Number of host operations that are executed on a recovered device.
const OPERATIONS_AFTER_RECOVERY: u64 = 50;
/// Number of possible power cuts of which one is made by default. It is no multiple of three, so that the three
/// outcomes of the interrupted operation (no effect, torn, complete but not acknowledged) take turns.
const POSSIBLE_CUTS_PER_CUT: u64 = 197;
/// Factor by which default runs make fewer power cuts than long explorations, on devices whose programs and erases
/// fail.
const DEFAULT_CUT_REDUCTION_WITH_FAILURES: u64 = 40;
/// Number of possible power cuts of which long explorations make one, on devices whose programs and erases fail.
const POSSIBLE_CUTS_PER_CUT_WITH_FAILURES: u64 = 7;

/// Device on a medium that can lose power.
type PowerCutDevice = Device;

/// Versions of a logical page that the host wrote, from the oldest to the newest.
#[derive(Clone)]
struct Versions {
    /// Content ids of the sectors of each version, from the oldest to the newest.
    content_ids_by_version: Vec<Box<[u16]>>,
    /// Whether a trim made the version, for each version in `content_ids_by_version`.
    trims: Vec<bool>,
    /// Index into `content_ids_by_version` of the newest version that must survive a power cut.
    durable: usize,
}

impl Versions {
    /// Creates the list of versions of a page that was never written.
    fn new(sectors_per_page: u64) -> Self {
        // A page that was never written is not a trimmed page: no older version can reappear.
        Self {
            content_ids_by_version: vec![vec![0; sectors_per_page as usize].into()],
            trims: vec![false],
            durable: 0,
        }
    }

    /// Returns the versions that the page may hold after a power cut.
    fn versions_allowed_after_power_cut(&self, trims_are_durable: bool) -> &[Box<[u16]>] {
        let trimmed = self.trims[self.durable..].contains(&true);
        let oldest = if trimmed && !trims_are_durable { 0 } else { self.durable };
        &self.content_ids_by_version[oldest..]
    }

    /// Records that the newest version must survive a power cut.
    fn make_durable(&mut self) {
        self.durable = self.content_ids_by_version.len() - 1;
    }
}

/// Versions of all logical pages that the host wrote, with which a recovered device is compared.
struct ExpectedVersions {
    /// Newest content of every sector.
    oracle: Oracle,
    /// Versions of each logical page.
    pages: Vec<Versions>,
    /// Whether a trim is durable when it is acknowledged.
    trims_are_durable: bool,
    /// Whether every operation is durable when it is acknowledged, also without a flush.
    acknowledged_is_durable: bool,
}

impl ExpectedVersions {
    /// Creates the record for an empty device of this design.
    fn new(device: &PowerCutDevice, design: &DesignUnderTest, buffer: WriteBufferOptions) -> Self {
        let oracle = Oracle::for_device(device, design.distinct_content_count(CONTENTS) as usize);
        let pages = oracle.sectors() / oracle.sectors_per_page();
        Self {
            pages: vec![Versions::new(oracle.sectors_per_page()); pages as usize],
            oracle,
            trims_are_durable: design.parts.persistence != Persistence::OobScan,
            acknowledged_is_durable: buffer.capacity_pages == 0 && !design.buffers_acknowledged_pages(),
        }
    }

    /// Records an operation that the host issues: from now on a power cut may leave its effect.
    fn issue(&mut self, op: Op) {
        match op {
            Op::Write { first_sector: first, sectors, content_id: id } => {
                self.oracle.record_write(first, sectors, id);
                self.append(first, sectors, false);
            }
            Op::Trim { first_sector: first, sectors } => {
                self.oracle.record_trim(first, sectors);
                self.append(first, sectors, true);
            }
            Op::Remap { target, source, pages, mode } if target != source => {
                self.oracle.record_remap(target, source, pages, mode);
                let page = self.oracle.sectors_per_page();
                if mode == RemapMode::Relocate {
                    (source..source + pages).for_each(|lpn| self.append_hole(lpn));
                }
                for lpn in target..target + pages {
                    // A target whose source holds nothing is deallocated, as by a trim.
                    let trim = self.oracle.page_content_ids(lpn).iter().all(|&id| id == 0);
                    self.append(lpn * page, page, trim);
                }
            }
            _ => {}
        }
    }

    /// Appends a version without content to logical page `lpn`, which is a source of a relocation. If the page is also
    /// a target, [`Self::issue`] then appends its new content.
    fn append_hole(&mut self, lpn: u64) {
        let versions = &mut self.pages[lpn as usize];
        versions.content_ids_by_version.push(vec![0; self.oracle.sectors_per_page() as usize].into());
        versions.trims.push(true);
    }

    /// Appends the newest version of each page in a range of sectors. A `trim` changes only pages that are whole in the
    /// range.
    fn append(&mut self, first: u64, sectors: u64, trim: bool) {
        let page = self.oracle.sectors_per_page();
        for lpn in first / page..(first + sectors).div_ceil(page) {
            let partly = first > lpn * page || first + sectors < (lpn + 1) * page;
            if trim && partly {
                continue;
            }
            let versions = &mut self.pages[lpn as usize];
            versions.content_ids_by_version.push(self.oracle.page_content_ids(lpn).into());
            versions.trims.push(trim);
        }
    }

    /// Records that the device acknowledged an operation: what is durable from now on must survive a power cut.
    fn acknowledge(&mut self, op: Op) {
        if self.acknowledged_is_durable || matches!(op, Op::Flush) {
            self.pages.iter_mut().for_each(Versions::make_durable);
        }
    }

    /// Asserts that every page of a recovered device holds a permitted version; returns the content id of every sector.
    fn assert_allowed_versions(&self, device: &mut PowerCutDevice) -> Vec<u16> {
        let page_bytes = self.oracle.sectors_per_page() as usize * SECTOR_LEN;
        let mut found = Vec::new();
        let mut bytes = vec![0xa5; page_bytes];
        for (lpn, versions) in (0u64..).zip(&self.pages) {
            device
                .read(lpn * page_bytes as u64, page_bytes as u64, &mut bytes)
                .expect("a recovered page reads");
            let holds = |version: &[u16]| {
                let expected = version.iter().zip(0u64..).map(|(&id, k)| self.oracle.patterns.sector(id, k));
                bytes.chunks_exact(SECTOR_LEN).zip(expected).all(|(got, expected)| got == expected)
            };
            let allowed = versions.versions_allowed_after_power_cut(self.trims_are_durable);
            let version = allowed.iter().rev().find(|version| holds(version)).unwrap_or_else(|| {
                let earlier = versions.content_ids_by_version.iter().any(|version| holds(version));
                panic!(
                    "logical page {lpn} holds {}",
                    if earlier { "a stale version" } else { "foreign or torn data" }
                )
            });
            found.extend_from_slice(version);
        }
        found
    }
}

/// Counts over many power cuts.
#[derive(Clone, Copy, Default)]
struct Tally {
    /// Number of possible power cuts: one per program, erase or store to NVRAM, and per outcome of this operation (no
    /// effect, torn, complete but not acknowledged).
    possible_cuts: u64,
    /// Number of power cuts that were made.
    cuts: u64,
    /// Number of power cuts during a recovery.
    second_cuts: u64,
    /// Number of logical pages that were compared after recoveries.
    compared_pages: u64,
    /// Number of GC victims in scenarios without a cut.
    gc_victims: u64,
    /// Number of scenarios that were executed.
    scenarios: u64,
    /// Number of recovered devices that became full, because failed programs used up the free pages.
    full_devices: u64,
}

/// One run of random operations with power cuts.
struct Scenario<'a> {
    /// Design of the device.
    design: &'a DesignUnderTest,
    /// World (tiny device) on which the scenario runs.
    tiny_device: &'a TinyDevice,
    /// Write buffer of the device.
    buffer: WriteBufferOptions,
    /// Seed of the random operations.
    seed: u64,
    /// Whether programs and erases of the device fail at random. The device then has enough blocks to lose some.
    has_failing_operations: bool,
    /// Number of possible power cuts of which one is made.
    possible_cuts_per_cut: u64,
    /// Counts of this scenario.
    tally: Tally,
}

impl Scenario<'_> {
    /// Executes the scenario and returns its counts. At one in `possible_cuts_per_cut` possible power cuts, a copy of
    /// the device loses power and is recovered. A possible cut is a flash or NVRAM operation with one of the outcomes
    /// that an interruption may have.
    fn run_with_power_cuts(&mut self) -> Tally {
        let mut device = self.device();
        let mut expected_versions = ExpectedVersions::new(&device, self.design, self.buffer);
        let mut mix = self.operation_generator(&expected_versions.oracle);
        self.precondition(&mut device, &mut expected_versions);
        let mut switching =
            SchemeSwitcher { random: Random::new(!self.seed), schemes: self.design.switchable_schemes() };
        let mut scene = FailureContext {
            run_name: self.design.name,
            tiny_device: self.tiny_device.name,
            seed: self.seed,
            operation_number: 0,
        };
        for operation in 0..OPERATIONS_PER_SCENARIO {
            scene.operation_number = operation;
            let op = switching.draw().unwrap_or_else(|| mix.draw());
            let before = device.clone();
            device.ftl_mut().store_mut().nand_mut().power_cut_nand_mut().restore_power(None);
            match perform(&mut device, &mut expected_versions.oracle, op) {
                // A refused command has no visible effect, at any cut.
                Err(Error::NotAtomic { .. }) => {}
                outcome => {
                    outcome.expect("the scenario fits the device");
                    expected_versions.issue(op);
                }
            }
            let operations =
                device.ftl().store().nand().power_cut_nand().cuttable_operations_since_power_restore();
            for (cut_at, outcome) in
                (0..operations).flat_map(|at| CutOutcome::ALL.map(|outcome| (at, outcome)))
            {
                self.tally.possible_cuts += 1;
                if (self.tally.possible_cuts + self.seed).is_multiple_of(self.possible_cuts_per_cut) {
                    self.cut(&before, &mut expected_versions, op, cut_at, outcome);
                }
            }
            expected_versions.acknowledge(op);
        }
        self.tally.gc_victims += device.ftl().stats().gc_victims;
        self.tally
    }

    /// Creates the device of the scenario.
    fn device(&self) -> PowerCutDevice {
        let parts = &self.design.parts;
        let medium = |plan| medium_with_faults(nand_with_all_page_fields(self.tiny_device), plan, self.seed);
        if !self.has_failing_operations {
            return device(self.tiny_device, parts, self.buffer, medium(FaultProbabilities::default()));
        }
        let max_failures = tolerable_block_failures(self.tiny_device, parts);
        let plan = FaultProbabilities {
            program_failure_probability: 0.01,
            erase_failure_probability: 0.02,
            max_failures,
        };
        device_with_half_logical_size(self.tiny_device, parts, self.buffer, medium(plan))
    }

    /// Returns the generator of random operations for a device of the oracle's size.
    fn operation_generator(&self, oracle: &Oracle) -> OperationGenerator {
        OperationGenerator {
            random: Random::new(self.seed),
            sectors: oracle.sectors(),
            sectors_per_page: oracle.sectors_per_page(),
            content_count: self.design.distinct_content_count(CONTENTS),
            changes_policies: false,
        }
    }

    /// Writes every page, and some pages several times, so that few blocks are free when the scenario begins.
    fn precondition(&self, device: &mut PowerCutDevice, expected_versions: &mut ExpectedVersions) {
        let page = expected_versions.oracle.sectors_per_page();
        let pages = expected_versions.pages.len() as u64;
        let mut random = Random::new(self.seed + 1);
        for k in 0..3 * pages {
            let lpn = if k < pages { k } else { random.below(pages) };
            let id = 1 + random.below(self.design.distinct_content_count(CONTENTS) as u64 - 1) as u16;
            let op = Op::Write { first_sector: lpn * page, sectors: page, content_id: id };
            expected_versions.issue(op);
            perform(device, &mut expected_versions.oracle, op).expect("the pages fit");
        }
        device.flush().expect("the pages fit");
        expected_versions.acknowledge(Op::Flush);
    }

    /// Cuts power at flash operation `cut_at` of host operation `op` on a copy of the device, with the effect `outcome`
    /// on it. Recovers the copy and checks it.
    fn cut(
        &mut self,
        before: &PowerCutDevice,
        expected_versions: &mut ExpectedVersions,
        op: Op,
        cut_at: u64,
        outcome: CutOutcome,
    ) {
        let mut device = before.clone();
        device.ftl_mut().store_mut().nand_mut().power_cut_nand_mut().restore_power(None);
        device.ftl_mut().store_mut().nand_mut().power_cut_nand_mut().cut_after(cut_at, outcome);
        let error = perform(&mut device, &mut expected_versions.oracle, op)
            .expect_err("the cut is inside the operation");
        assert!(error.is_power_loss(), "a cut is reported as {error}");
        self.tally.cuts += 1;
        if self.tally.cuts.is_multiple_of(7) {
            self.cut_recovery(&device, expected_versions);
        }
        recover(&mut device, None).expect("power stays on");
        let found = self.audit_and_assert_allowed_versions(&mut device, expected_versions);
        self.continue_after_recovery(device, &found, cut_at);
    }

    /// Audits a recovered device, and asserts that every page holds a permitted version; returns the content id of
    /// every sector.
    fn audit_and_assert_allowed_versions(
        &mut self,
        device: &mut PowerCutDevice,
        expected_versions: &ExpectedVersions,
    ) -> Vec<u16> {
        audit(device);
        self.tally.compared_pages += expected_versions.pages.len() as u64;
        expected_versions.assert_allowed_versions(device)
    }

    /// Cuts power at each program and erase of the recovery, and recovers again. The contents must equal those after an
    /// uninterrupted recovery.
    fn cut_recovery(&mut self, lost: &PowerCutDevice, expected_versions: &ExpectedVersions) {
        let mut once = lost.clone();
        recover(&mut once, None).expect("power stays on");
        let operations = once.ftl().store().nand().power_cut_nand().cuttable_operations_since_power_restore();
        let expected = self.audit_and_assert_allowed_versions(&mut once, expected_versions);
        for cut_at in self.count_battery_writes(lost)..operations {
            let mut device = lost.clone();
            let error = recover(&mut device, Some(cut_at)).expect_err("the cut is inside recovery");
            assert!(error.is_power_loss(), "a cut is reported as {error}");
            recover(&mut device, None).expect("power stays on");
            assert!(
                self.audit_and_assert_allowed_versions(&mut device, expected_versions) == expected,
                "recovery is idempotent"
            );
            self.tally.second_cuts += 1;
        }
    }

    /// Returns the number of flash operations of a recovery that the battery powers. They are the first operations of
    /// the recovery, and a test cannot cut power during them. An erase that the scan of the recovery repeated is not
    /// counted, so that power can be cut during it.
    fn count_battery_writes(&self, lost: &PowerCutDevice) -> u64 {
        if self.design.parts.persistence != Persistence::BatteryFlush {
            return 0;
        }
        let mut device = lost.clone();
        device.ftl_mut().store_mut().nand_mut().power_cut_nand_mut().restore_power(None);
        let report = device.recover().expect("power stays on");
        let operations =
            device.ftl().store().nand().power_cut_nand().cuttable_operations_since_power_restore();
        operations - u64::from(report.erases > 0 && operations > report.battery_programs)
    }

    /// Executes further operations on a recovered device whose sectors have the content ids `found`. They must work as
    /// on a device that never lost power.
    fn continue_after_recovery(&mut self, mut device: PowerCutDevice, found: &[u16], cut_at: u64) {
        let mut oracle = Oracle::for_device(&device, self.design.distinct_content_count(CONTENTS) as usize);
        for (sector, &id) in (0u64..).zip(found) {
            oracle.record_write(sector, 1, id);
        }
        let mut mix = self.operation_generator(&oracle);
        mix.random = Random::new(self.seed ^ (cut_at << 20) ^ self.tally.cuts);
        for _ in 0..OPERATIONS_AFTER_RECOVERY {
            let op = mix.draw();
            match oracle.apply(&mut device, op) {
                // A known limit: consecutive failed programs may use up the only block that collection needs.
                Err(Error::Full { .. }) if self.has_failing_operations => {
                    self.tally.full_devices += 1;
                    audit(&mut device);
                    return assert_other_pages_are_unchanged(&mut device, &mut oracle, op);
                }
                done => done.expect("a recovered device works"),
            }
        }
        audit(&mut device);
        oracle.compare_all_logical_pages(&mut device).expect("a recovered device reads");
    }
}

/// Asserts that a full device still reads every page, and that pages outside the range of the refused operation are
/// unchanged. A refused relocation may have moved some pages already, so source and target are excluded.
fn assert_other_pages_are_unchanged(device: &mut PowerCutDevice, oracle: &mut Oracle, refused: Op) {
    let page = oracle.sectors_per_page();
    let mut changed: Vec<(u64, u64)> = match refused {
        Op::Write { first_sector: first, sectors, .. } | Op::Trim { first_sector: first, sectors } => {
            vec![(first, first + sectors)]
        }
        Op::Remap { target, source, pages, mode } => {
            let firsts = if mode == RemapMode::Relocate { vec![target, source] } else { vec![target] };
            firsts.into_iter().map(|first| (first * page, (first + pages) * page)).collect()
        }
        _ => Vec::new(),
    };
    changed.sort_unstable();
    changed.push((oracle.sectors(), oracle.sectors()));
    let mut first = 0;
    for (changed_from, changed_to) in changed {
        if first < changed_from {
            oracle.compare_range(device, first, changed_from - first).expect("a full device reads");
        }
        first = first.max(changed_to);
    }
}

/// Restores power, to be cut again at operation `cut_at`, and recovers the device.
fn recover(device: &mut PowerCutDevice, cut_at: Option<u64>) -> Result<()> {
    device.ftl_mut().store_mut().nand_mut().power_cut_nand_mut().restore_power(cut_at);
    device.recover().map(|_| ())
}

/// Executes an operation on the device. The oracle only provides the bytes of writes: it does not record the outcome,
/// and does not compare what a read returns.
fn perform(device: &mut PowerCutDevice, oracle: &mut Oracle, op: Op) -> Result<()> {
    let bytes = |sectors: u64| sectors * SECTOR_BYTES;
    match op {
        Op::Write { first_sector: first, sectors, content_id: id } => {
            let data = wearwell::device::HostData::Bytes(oracle.content_bytes(first, sectors, id));
            device.write(bytes(first), bytes(sectors), data)
        }
        Op::Read { first_sector: first, sectors } => {
            let mut into = vec![0; sectors as usize * SECTOR_LEN];
            device.read(bytes(first), bytes(sectors), &mut into)
        }
        Op::Trim { first_sector: first, sectors } => {
            device.trim(bytes(first), bytes(sectors))?;
            // As a live device does. An erase that fails at the instant of the cut is reported as failed.
            device.ftl_mut().erase_blocks_without_valid_pages(2)?;
            let has_power = !device.ftl().store().nand().power_cut_nand().is_power_lost();
            if has_power { Ok(()) } else { Err(NandError::PowerLost.into()) }
        }
        Op::Remap { target, source, pages, mode } => {
            let page_bytes = bytes(oracle.sectors_per_page());
            device.remap(target * page_bytes, source * page_bytes, pages * page_bytes, mode)
        }
        Op::Flush => device.flush(),
        Op::SwitchMechanisms(running) => device.ftl_mut().switch_content_mechanisms(running),
        Op::SetVictimPolicy(_) | Op::SetFingerprintStore(..) => {
            Err(Error::InvalidOptions("a scenario has no switches".into()))
        }
    }
}

/// Executes the scenarios of `designs` on all worlds (tiny devices). One in `possible_cuts_per_cut` possible power cuts
/// is made. If `has_failing_operations`, programs and erases fail, too.
fn cut_power_in_scenarios(
    designs: &[DesignUnderTest],
    has_failing_operations: bool,
    possible_cuts_per_cut: u64,
) -> Tally {
    let mut total = Tally::default();
    for (number, design) in (0u64..).zip(designs) {
        for (k, tiny_device) in tiny_devices()
            .iter()
            .enumerate()
            .filter(|(_, tiny_device)| design.fits_on_tiny_device(tiny_device))
        {
            // Each pair of design and world is tested with one of the buffers; over all worlds a design is tested with
            // all of them.
            let buffer = BUFFERS[(number as usize + k) % BUFFERS.len()];
            let seed = 100 * number + k as u64;
            let tally = Tally::default();
            let tally = Scenario {
                design,
                tiny_device,
                buffer,
                seed,
                has_failing_operations,
                possible_cuts_per_cut,
                tally,
            }
            .run_with_power_cuts();
            total.possible_cuts += tally.possible_cuts;
            total.cuts += tally.cuts;
            total.second_cuts += tally.second_cuts;
            total.compared_pages += tally.compared_pages;
            total.gc_victims += tally.gc_victims;
            total.full_devices += tally.full_devices;
            total.scenarios += 1;
        }
    }
    total
}

/// Makes power cuts in the scenarios of all designs whose name begins with `family`.
fn cut_power_in_design_family(family: &str) {
    let share = test_case_interval(POSSIBLE_CUTS_PER_CUT);
    let tally = cut_power_in_scenarios(&designs_with_prefix(family), false, share);
    let Tally { possible_cuts, cuts, second_cuts, compared_pages, gc_victims, scenarios, .. } = tally;
    println!(
        "{family}: {cuts} cuts of {possible_cuts}, {second_cuts} cuts of recoveries, \
         {compared_pages} pages compared"
    );
    assert!(cuts.abs_diff(possible_cuts / share) <= scenarios, "{cuts} cuts of {possible_cuts}");
    assert!(gc_victims > 10 * scenarios, "garbage collection has to be at work");
}

/// Failed programs and erases change which blocks are used, and in what order, compared with a healthy device. Recovery
/// must still lose no durable write.
#[test]
fn devices_with_failing_blocks_lose_no_durable_write_at_power_cuts() {
    let share = POSSIBLE_CUTS_PER_CUT_WITH_FAILURES * test_case_interval(DEFAULT_CUT_REDUCTION_WITH_FAILURES);
    let Tally { possible_cuts, cuts, second_cuts, compared_pages, gc_victims, scenarios, full_devices } =
        cut_power_in_scenarios(&designs(), true, share);
    println!(
        "failing: {cuts} cuts, {second_cuts} cuts of recoveries, {compared_pages} pages compared, \
         {full_devices} times full"
    );
    assert!(full_devices * 10_000 < cuts, "{full_devices} of {cuts} recovered devices had no room left");
    assert!(cuts.abs_diff(possible_cuts / share) <= scenarios, "{cuts} cuts of {possible_cuts}");
    assert!(
        possible_cuts > 800 * scenarios && gc_victims > 5 * scenarios,
        "{possible_cuts} cuts possible, {gc_victims} victims"
    );
}

#[test]
fn page_map_loses_no_durable_write_at_any_power_cut() {
    cut_power_in_design_family("page-map");
}

#[test]
fn the_recyclable_design_loses_no_durable_write_at_any_power_cut() {
    cut_power_in_design_family("recyclable");
}

#[test]
fn the_remap_design_loses_no_durable_write_at_any_power_cut() {
    cut_power_in_design_family("remap");
}

#[test]
fn the_delta_design_loses_no_durable_write_at_any_power_cut() {
    cut_power_in_design_family("delta");
}

#[test]
fn the_integrated_design_loses_no_durable_write_at_any_power_cut() {
    cut_power_in_design_family("integrated");
}

#[test]
fn lazyftl_loses_no_durable_write_at_any_power_cut() {
    cut_power_in_design_family("lazyftl");
}

#[test]
fn geckoftl_loses_no_durable_write_at_any_power_cut() {
    cut_power_in_design_family("geckoftl");
}

#[test]
fn uftl_loses_no_durable_write_at_any_power_cut() {
    cut_power_in_design_family("u-ftl");
}

#[test]
fn ibftl_loses_no_durable_write_at_any_power_cut() {
    cut_power_in_design_family("ib-ftl");
}

#[test]
fn dftl_loses_no_durable_write_at_any_power_cut() {
    cut_power_in_design_family("dftl");
}

#[test]
fn designs_with_a_map_in_nvram_lose_no_durable_write_at_any_power_cut() {
    cut_power_in_design_family("nvram");
}

#[test]
fn designs_that_combine_content_mechanisms_lose_no_durable_write_at_any_power_cut() {
    cut_power_in_design_family("mixture");
}
