//! Tests that cut power at every program and erase of a scenario. No data may be lost that the design promises to keep.
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
//! A device with enough room keeps the same promise while its programs and erases fail; there one possible cut in seven
//! is made.
//!
//! By default one of 50 possible cuts is made, and one of 98 where programs and erases fail: others in each scenario,
//! with each outcome in turn. `just soak` makes all.
//!
//! Without a write buffer a write must be on flash when it is acknowledged, and the tests verify this.

use common::{
    BUFFERS, DesignUnderTest, FailureContext, FragileNand, Op, OperationGenerator, Oracle, Random,
    SECTOR_LEN, SchemeSwitcher, World, audit, designs, designs_with_prefix, device, exploration_interval,
    full_medium, medium_with_faults, roomy_device, tolerable_block_failures, worlds,
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
/// Default interval of power cuts: one possible cut in this number is made. It is no multiple of three, so that the
/// three effects on the interrupted operation rotate.
const ONE_CUT_IN: u64 = 50;
/// Factor by which power cuts on devices whose programs and erases fail are rarer by default than in long explorations,
/// which make one possible cut in [`ONE_FAILING_CUT_IN`].
const FAILING_SHARE: u64 = 14;
/// Interval of power cuts in long explorations, on devices whose programs and erases fail.
const ONE_FAILING_CUT_IN: u64 = 7;

/// Device on a medium that can lose power.
type Fragile = Device<FragileNand>;

/// Versions of a logical page that the host wrote, from the oldest to the newest.
#[derive(Clone)]
struct Versions {
    /// Content ids of the sectors of each version, from the oldest to the newest.
    issued: Vec<Box<[u16]>>,
    /// Whether a trim made the version, for each version in `issued`.
    trims: Vec<bool>,
    /// Index into `issued` of the newest version that must survive a power cut.
    durable: usize,
}

impl Versions {
    /// Creates the list of versions of a page that was never written.
    fn new(page_sectors: u64) -> Self {
        // A page that was never written is not a trimmed page: no older version can reappear.
        Self { issued: vec![vec![0; page_sectors as usize].into()], trims: vec![false], durable: 0 }
    }

    /// Returns the versions that the page may hold after a power cut.
    fn allowed(&self, trims_are_durable: bool) -> &[Box<[u16]>] {
        let trimmed = self.trims[self.durable..].contains(&true);
        let oldest = if trimmed && !trims_are_durable { 0 } else { self.durable };
        &self.issued[oldest..]
    }

    /// Records that the newest version must survive a power cut.
    fn make_durable(&mut self) {
        self.durable = self.issued.len() - 1;
    }
}

/// Versions of all logical pages that the host wrote, with which a recovered device is compared.
struct Witness {
    /// Newest content of every sector.
    oracle: Oracle,
    /// Versions of each logical page.
    pages: Vec<Versions>,
    /// Whether a trim is durable when it is acknowledged.
    trims_are_durable: bool,
    /// Whether every operation is durable when it is acknowledged, also without a flush.
    acknowledged_is_durable: bool,
}

impl Witness {
    /// Creates the record for an empty device of this design.
    fn new(device: &Fragile, design: &DesignUnderTest, buffer: WriteBufferOptions) -> Self {
        let oracle = Oracle::for_device(device, design.distinct_contents(CONTENTS) as usize);
        let pages = oracle.sectors() / oracle.page_sectors();
        Self {
            pages: vec![Versions::new(oracle.page_sectors()); pages as usize],
            oracle,
            trims_are_durable: design.parts.persistence != Persistence::OobScan,
            acknowledged_is_durable: buffer.capacity_pages == 0 && !design.buffers_acknowledged_pages(),
        }
    }

    /// Records an operation that the host issues: from now on a power cut may leave its effect.
    fn issue(&mut self, op: Op) {
        match op {
            Op::Write { first, sectors, id } => {
                self.oracle.record_write(first, sectors, id);
                self.append(first, sectors, false);
            }
            Op::Trim { first, sectors } => {
                self.oracle.record_trim(first, sectors);
                self.append(first, sectors, true);
            }
            Op::Remap { target, source, pages, mode } if target != source => {
                self.oracle.record_remap(target, source, pages, mode);
                let page = self.oracle.page_sectors();
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

    /// Records a version without content of logical page `lpn`, which is the source of a relocation. If the page is
    /// also a target, it holds nothing only until the relocation has written it.
    fn append_hole(&mut self, lpn: u64) {
        let versions = &mut self.pages[lpn as usize];
        versions.issued.push(vec![0; self.oracle.page_sectors() as usize].into());
        versions.trims.push(true);
    }

    /// Appends the newest version of each page in a range of sectors. A `trim` changes only pages that are whole in the
    /// range.
    fn append(&mut self, first: u64, sectors: u64, trim: bool) {
        let page = self.oracle.page_sectors();
        for lpn in first / page..(first + sectors).div_ceil(page) {
            let partly = first > lpn * page || first + sectors < (lpn + 1) * page;
            if trim && partly {
                continue;
            }
            let versions = &mut self.pages[lpn as usize];
            versions.issued.push(self.oracle.page_content_ids(lpn).into());
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
    fn judge(&self, device: &mut Fragile) -> Vec<u16> {
        let page_bytes = self.oracle.page_sectors() as usize * SECTOR_LEN;
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
            let allowed = versions.allowed(self.trims_are_durable);
            let version = allowed.iter().rev().find(|version| holds(version)).unwrap_or_else(|| {
                let earlier = versions.issued.iter().any(|version| holds(version));
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
    /// Number of cuts that could be made: one for each program, erase and store of NVRAM, with each effect on it.
    possible_cuts: u64,
    /// Number of power cuts that were made.
    cuts: u64,
    /// Number of power cuts during a recovery.
    second_cuts: u64,
    /// Number of logical pages that were compared after recoveries.
    compared_pages: u64,
    /// Number of GC victims in scenarios without a cut.
    victims: u64,
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
    world: &'a World,
    /// Write buffer of the device.
    buffer: WriteBufferOptions,
    /// Seed of the random operations.
    seed: u64,
    /// Whether programs and erases fail, too, on a device that has enough blocks for that.
    is_failing: bool,
    /// Interval of power cuts: one possible cut in this number is made.
    one_in: u64,
    /// Counts of this scenario.
    tally: Tally,
}

impl Scenario<'_> {
    /// Executes the scenario. At programs and erases of its operations, copies of the device lose power, with each
    /// effect on the interrupted operation. Of all these possible cuts one in `one_in` is made.
    fn explore(&mut self) -> Tally {
        let mut device = self.device();
        let mut witness = Witness::new(&device, self.design, self.buffer);
        let mut mix = self.mix(&witness.oracle);
        self.precondition(&mut device, &mut witness);
        let mut switching =
            SchemeSwitcher { random: Random::new(!self.seed), schemes: self.design.switchable_schemes() };
        let mut scene = FailureContext {
            run_name: self.design.name,
            world: self.world.name,
            seed: self.seed,
            operation_number: 0,
        };
        for operation in 0..OPERATIONS_PER_SCENARIO {
            scene.operation_number = operation;
            let op = switching.draw().unwrap_or_else(|| mix.draw());
            let before = device.clone();
            device.ftl_mut().store_mut().nand_mut().restore_power(None);
            match perform(&mut device, &mut witness.oracle, op) {
                // A refused command has no visible effect, at any cut.
                Err(Error::NotAtomic { .. }) => {}
                outcome => {
                    outcome.expect("the scenario fits the device");
                    witness.issue(op);
                }
            }
            let operations = device.ftl().store().nand().cuttable_operations_since_power_restore();
            for (cut_at, outcome) in
                (0..operations).flat_map(|at| CutOutcome::ALL.map(|outcome| (at, outcome)))
            {
                self.tally.possible_cuts += 1;
                if (self.tally.possible_cuts + self.seed).is_multiple_of(self.one_in) {
                    self.cut(&before, &mut witness, op, cut_at, outcome);
                }
            }
            witness.acknowledge(op);
        }
        self.tally.victims += device.ftl().stats().gc_victims;
        self.tally
    }

    /// Creates the device of the scenario.
    fn device(&self) -> Fragile {
        let parts = &self.design.parts;
        let medium = |plan| medium_with_faults(full_medium(self.world), plan, self.seed);
        if !self.is_failing {
            return device(self.world, parts, self.buffer, medium(FaultProbabilities::default()));
        }
        let max_failures = tolerable_block_failures(self.world, parts);
        let plan = FaultProbabilities {
            program_failure_probability: 0.01,
            erase_failure_probability: 0.02,
            max_failures,
        };
        roomy_device(self.world, parts, self.buffer, medium(plan))
    }

    /// Returns the generator of random operations for a device of the oracle's size.
    fn mix(&self, oracle: &Oracle) -> OperationGenerator {
        OperationGenerator {
            random: Random::new(self.seed),
            sectors: oracle.sectors(),
            page_sectors: oracle.page_sectors(),
            contents: self.design.distinct_contents(CONTENTS),
            changes_policies: false,
        }
    }

    /// Writes every page, and some pages several times, so that few blocks are free when the scenario begins.
    fn precondition(&self, device: &mut Fragile, witness: &mut Witness) {
        let page = witness.oracle.page_sectors();
        let pages = witness.pages.len() as u64;
        let mut random = Random::new(self.seed + 1);
        for k in 0..3 * pages {
            let lpn = if k < pages { k } else { random.below(pages) };
            let id = 1 + random.below(self.design.distinct_contents(CONTENTS) as u64 - 1) as u16;
            let op = Op::Write { first: lpn * page, sectors: page, id };
            witness.issue(op);
            perform(device, &mut witness.oracle, op).expect("the pages fit");
        }
        device.flush().expect("the pages fit");
        witness.acknowledge(Op::Flush);
    }

    /// Cuts power at flash operation `cut_at` of host operation `op` on a copy of the device, with the effect `outcome`
    /// on it. Recovers the copy and checks it.
    fn cut(&mut self, before: &Fragile, witness: &mut Witness, op: Op, cut_at: u64, outcome: CutOutcome) {
        let mut device = before.clone();
        device.ftl_mut().store_mut().nand_mut().restore_power(None);
        device.ftl_mut().store_mut().nand_mut().cut_after(cut_at, outcome);
        let error =
            perform(&mut device, &mut witness.oracle, op).expect_err("the cut is inside the operation");
        assert!(error.is_power_loss(), "a cut is reported as {error}");
        self.tally.cuts += 1;
        if self.tally.cuts.is_multiple_of(7) {
            self.cut_recovery(&device, witness);
        }
        recover(&mut device, None).expect("power stays on");
        let found = self.judge(&mut device, witness);
        self.go_on(device, &found, cut_at);
    }

    /// Audits a recovered device, and asserts that every page holds a permitted version; returns the content id of
    /// every sector.
    fn judge(&mut self, device: &mut Fragile, witness: &Witness) -> Vec<u16> {
        audit(device);
        self.tally.compared_pages += witness.pages.len() as u64;
        witness.judge(device)
    }

    /// Cuts power at each program and erase of the recovery, and recovers again. The contents must equal those after an
    /// uninterrupted recovery.
    fn cut_recovery(&mut self, lost: &Fragile, witness: &Witness) {
        let mut once = lost.clone();
        recover(&mut once, None).expect("power stays on");
        let operations = once.ftl().store().nand().cuttable_operations_since_power_restore();
        let expected = self.judge(&mut once, witness);
        for cut_at in self.battery_writes(lost)..operations {
            let mut device = lost.clone();
            let error = recover(&mut device, Some(cut_at)).expect_err("the cut is inside recovery");
            assert!(error.is_power_loss(), "a cut is reported as {error}");
            recover(&mut device, None).expect("power stays on");
            assert!(self.judge(&mut device, witness) == expected, "recovery is idempotent");
            self.tally.second_cuts += 1;
        }
    }

    /// Returns the number of flash operations in a recovery that a battery powers. These are the first ones, and a test
    /// cannot cut them. An erase that the recovery's scan repeated is not counted, so that it can be cut.
    fn battery_writes(&self, lost: &Fragile) -> u64 {
        if self.design.parts.persistence != Persistence::BatteryFlush {
            return 0;
        }
        let mut device = lost.clone();
        device.ftl_mut().store_mut().nand_mut().restore_power(None);
        let report = device.recover().expect("power stays on");
        let operations = device.ftl().store().nand().cuttable_operations_since_power_restore();
        operations - u64::from(report.erases > 0 && operations > report.battery_programs)
    }

    /// Executes further operations on a recovered device whose sectors have the content ids `found`; they must work as
    /// on a healthy device.
    fn go_on(&mut self, mut device: Fragile, found: &[u16], cut_at: u64) {
        let mut oracle = Oracle::for_device(&device, self.design.distinct_contents(CONTENTS) as usize);
        for (sector, &id) in (0u64..).zip(found) {
            oracle.record_write(sector, 1, id);
        }
        let mut mix = self.mix(&oracle);
        mix.random = Random::new(self.seed ^ (cut_at << 20) ^ self.tally.cuts);
        for _ in 0..OPERATIONS_AFTER_RECOVERY {
            let op = mix.draw();
            match oracle.apply(&mut device, op) {
                // A known limit: consecutive failed programs may use up the only block that collection needs.
                Err(Error::Full { .. }) if self.is_failing => {
                    self.tally.full_devices += 1;
                    audit(&mut device);
                    return compare_others(&mut device, &mut oracle, op);
                }
                done => done.expect("a recovered device works"),
            }
        }
        audit(&mut device);
        oracle.compare_all(&mut device).expect("a recovered device reads");
    }
}

/// Asserts that a full device still reads every page, and that pages outside the range of the refused operation are
/// unchanged. A refused relocation may have moved some pages already, so source and target are excluded.
fn compare_others(device: &mut Fragile, oracle: &mut Oracle, refused: Op) {
    let page = oracle.page_sectors();
    let mut changed: Vec<(u64, u64)> = match refused {
        Op::Write { first, sectors, .. } | Op::Trim { first, sectors } => vec![(first, first + sectors)],
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
fn recover(device: &mut Fragile, cut_at: Option<u64>) -> Result<()> {
    device.ftl_mut().store_mut().nand_mut().restore_power(cut_at);
    device.recover().map(|_| ())
}

/// Executes an operation on the device. The oracle only provides the bytes of writes: it does not record the outcome,
/// and does not compare what a read returns.
fn perform(device: &mut Fragile, oracle: &mut Oracle, op: Op) -> Result<()> {
    let bytes = |sectors: u64| sectors * SECTOR_BYTES;
    match op {
        Op::Write { first, sectors, id } => {
            let data = wearwell::device::HostData::Bytes(oracle.content_bytes(first, sectors, id));
            device.write(bytes(first), bytes(sectors), data)
        }
        Op::Read { first, sectors } => {
            let mut into = vec![0; sectors as usize * SECTOR_LEN];
            device.read(bytes(first), bytes(sectors), &mut into)
        }
        Op::Trim { first, sectors } => {
            device.trim(bytes(first), bytes(sectors))?;
            // As a live device does. An erase that fails at the instant of the cut is reported as failed.
            device.ftl_mut().erase_blocks_without_valid_pages(2)?;
            let has_power = !device.ftl().store().nand().is_power_lost();
            if has_power { Ok(()) } else { Err(NandError::PowerLost.into()) }
        }
        Op::Remap { target, source, pages, mode } => {
            let page_bytes = bytes(oracle.page_sectors());
            device.remap(target * page_bytes, source * page_bytes, pages * page_bytes, mode)
        }
        Op::Flush => device.flush(),
        Op::Schemes(running) => device.ftl_mut().switch_content_mechanisms(running),
        Op::Victims(_) | Op::Fingerprints(..) => {
            Err(Error::InvalidOptions("a scenario has no switches".into()))
        }
    }
}

/// Cuts power in the scenarios of `designs` on all worlds. If `is_failing`, programs and erases fail too. One possible
/// cut in `one_in` is made.
fn cuts_of(designs: &[DesignUnderTest], is_failing: bool, one_in: u64) -> Tally {
    let mut total = Tally::default();
    for (number, design) in (0u64..).zip(designs) {
        for (k, world) in worlds().iter().enumerate().filter(|(_, world)| design.has_room(world)) {
            // Each pair of design and world is tested with one of the buffers; over all worlds a design is tested with
            // all of them.
            let buffer = BUFFERS[(number as usize + k) % BUFFERS.len()];
            let seed = 100 * number + k as u64;
            let tally = Tally::default();
            let tally = Scenario { design, world, buffer, seed, is_failing, one_in, tally }.explore();
            total.possible_cuts += tally.possible_cuts;
            total.cuts += tally.cuts;
            total.second_cuts += tally.second_cuts;
            total.compared_pages += tally.compared_pages;
            total.victims += tally.victims;
            total.full_devices += tally.full_devices;
            total.scenarios += 1;
        }
    }
    total
}

/// Makes power cuts in the scenarios of all designs whose name begins with `family`.
fn every_cut_of(family: &str) {
    let share = exploration_interval(ONE_CUT_IN);
    let tally = cuts_of(&designs_with_prefix(family), false, share);
    let Tally { possible_cuts, cuts, second_cuts, compared_pages, victims, scenarios, .. } = tally;
    println!(
        "{family}: {cuts} cuts of {possible_cuts}, {second_cuts} cuts of recoveries, \
         {compared_pages} pages compared"
    );
    assert!(cuts.abs_diff(possible_cuts / share) <= scenarios, "{cuts} cuts of {possible_cuts}");
    assert!(victims > 10 * scenarios, "garbage collection has to be at work");
}

/// Failed programs and erases change which blocks are used, and in what order, compared with a healthy device. Recovery
/// must still lose no durable write.
#[test]
fn devices_with_failing_blocks_lose_no_durable_write_at_power_cuts() {
    let share = ONE_FAILING_CUT_IN * exploration_interval(FAILING_SHARE);
    let Tally { possible_cuts, cuts, second_cuts, compared_pages, victims, scenarios, full_devices } =
        cuts_of(&designs(), true, share);
    println!(
        "failing: {cuts} cuts, {second_cuts} cuts of recoveries, {compared_pages} pages compared, \
         {full_devices} times full"
    );
    assert!(full_devices * 10_000 < cuts, "{full_devices} of {cuts} recovered devices had no room left");
    assert!(cuts.abs_diff(possible_cuts / share) <= scenarios, "{cuts} cuts of {possible_cuts}");
    assert!(
        possible_cuts > 800 * scenarios && victims > 5 * scenarios,
        "{possible_cuts} cuts possible, {victims} victims"
    );
}

#[test]
fn page_map_loses_no_durable_write_at_any_power_cut() {
    every_cut_of("page-map");
}

#[test]
fn the_recyclable_design_loses_no_durable_write_at_any_power_cut() {
    every_cut_of("recyclable");
}

#[test]
fn the_remap_design_loses_no_durable_write_at_any_power_cut() {
    every_cut_of("remap");
}

#[test]
fn the_delta_design_loses_no_durable_write_at_any_power_cut() {
    every_cut_of("delta");
}

#[test]
fn the_integrated_design_loses_no_durable_write_at_any_power_cut() {
    every_cut_of("integrated");
}

#[test]
fn lazyftl_loses_no_durable_write_at_any_power_cut() {
    every_cut_of("lazyftl");
}

#[test]
fn geckoftl_loses_no_durable_write_at_any_power_cut() {
    every_cut_of("geckoftl");
}

#[test]
fn uftl_loses_no_durable_write_at_any_power_cut() {
    every_cut_of("u-ftl");
}

#[test]
fn ibftl_loses_no_durable_write_at_any_power_cut() {
    every_cut_of("ib-ftl");
}

#[test]
fn dftl_loses_no_durable_write_at_any_power_cut() {
    every_cut_of("dftl");
}

#[test]
fn designs_with_a_map_in_nvram_lose_no_durable_write_at_any_power_cut() {
    every_cut_of("nvram");
}

#[test]
fn designs_that_combine_content_mechanisms_lose_no_durable_write_at_any_power_cut() {
    every_cut_of("mixture");
}
