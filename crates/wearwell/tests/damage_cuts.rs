//! Pages become unreadable and power is lost, during collections too: lost data stays lost, no older version reappears,
//! and nothing else is lost.
//!
//! Requests are whole pages, so every version of a page is identified by one number. After each damage two copies of
//! the device read every logical page, one as it is and one after a power loss. A page whose read fails was hit in the
//! version that it holds there. From then on, after any cut, a page must hold its last durable version or a later one,
//! or read as [`Error::LogicalPageLost`] if one of these versions was hit.

use std::sync::Arc;

use common::{
    BUFFERS, DesignUnderTest, FailureContext, FragileNand, Patterns, Random, SECTOR_LEN, World, audit,
    designs, device, exploration_interval, full_medium, medium_with_power_cut,
};
use wearwell::address::{Lpn, Ppn, RemapMode};
use wearwell::design::Persistence;
use wearwell::device::HostData;
use wearwell::nand::{CutOutcome, FaultInjectable, Nand};
use wearwell::{Device, Error, Result};

use crate::common;

const CONTENTS: u16 = 12;
/// Operations of a scenario in one world, and at least in all worlds of a design.
const SCENARIO: u64 = 60;
const OPERATIONS_PER_DESIGN: u64 = 600;
const AFTERWARDS: u64 = 25;

type Cuttable = Device<FragileNand>;

#[derive(Clone, Copy, Debug)]
enum Op {
    Write(u64, u16),
    Trim(u64),
    Remap { target: u64, source: u64, mode: RemapMode },
    Flush,
}

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

/// Versions of a logical page from the host's view: issued, durable, possibly lost. Content 0 means that nothing is
/// stored.
#[derive(Clone)]
struct Versions {
    issued: Vec<u16>,
    durable: usize,
    /// Index into `issued`; damage may have hit versions with smaller indices.
    lost_before: usize,
}

impl Versions {
    fn latest(&self) -> u16 {
        *self.issued.last().expect("a page has a version")
    }

    fn is_lost(&self) -> bool {
        self.lost_before == self.issued.len()
    }

    fn append(&mut self, id: u16, is_lost: bool) {
        self.issued.push(id);
        if is_lost {
            self.lost_before = self.issued.len();
        }
    }

    fn oldest_allowed(&self, trims_are_durable: bool) -> usize {
        // A page that was never written is not a trimmed page.
        let trimmed = (self.durable.max(1)..self.issued.len()).any(|k| self.issued[k] == 0);
        if trimmed && !trims_are_durable { 0 } else { self.durable }
    }
}

struct Witness {
    pages: Vec<Versions>,
    patterns: Arc<Patterns>,
    page_bytes: u64,
    trims_are_durable: bool,
    acknowledged_is_durable: bool,
}

impl Witness {
    fn new(device: &Cuttable, design: &DesignUnderTest) -> Self {
        let page_bytes = u64::from(device.ftl().store().geometry().page_bytes);
        let fresh = Versions { issued: vec![0], durable: 0, lost_before: 0 };
        Self {
            pages: vec![fresh; (device.capacity_bytes() / page_bytes) as usize],
            patterns: Patterns::shared(
                design.distinct_contents(CONTENTS).into(),
                page_bytes as usize / SECTOR_LEN,
            ),
            page_bytes,
            trims_are_durable: design.parts.persistence != Persistence::OobScan,
            acknowledged_is_durable: !design.buffers_acknowledged_pages(),
        }
    }

    fn bytes_of(&self, id: u16) -> Vec<u8> {
        let sectors = self.page_bytes / SECTOR_LEN as u64;
        (0..sectors).flat_map(|sector| *self.patterns.sector(id, sector)).collect()
    }

    fn perform(&self, device: &mut Cuttable, op: Op) -> Result<()> {
        let size = self.page_bytes;
        match op {
            Op::Write(page, id) => device.write(page * size, size, HostData::Bytes(&self.bytes_of(id))),
            Op::Trim(page) => device.trim(page * size, size),
            Op::Remap { target, source, mode } => device.remap(target * size, source * size, size, mode),
            Op::Flush => device.flush(),
        }
    }

    fn issue(&mut self, op: Op) {
        match op {
            Op::Write(page, id) => self.pages[page as usize].append(id, false),
            Op::Trim(page) => self.pages[page as usize].append(0, false),
            Op::Remap { target, source, mode } if target != source => {
                let from = &mut self.pages[source as usize];
                let (id, is_lost) = (from.latest(), from.is_lost());
                if mode == RemapMode::Relocate {
                    from.append(0, false);
                }
                self.pages[target as usize].append(id, is_lost);
            }
            Op::Remap { .. } | Op::Flush => {}
        }
    }

    fn acknowledge(&mut self, op: Op) {
        if self.acknowledged_is_durable || matches!(op, Op::Flush) {
            self.pages.iter_mut().for_each(|page| page.durable = page.issued.len() - 1);
        }
    }

    /// Reads a logical page of the device; `None` if the page is lost.
    fn read(&self, device: &mut Cuttable, page: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0xa5; self.page_bytes as usize];
        match device.read(page * self.page_bytes, self.page_bytes, &mut bytes) {
            Ok(()) => Some(bytes),
            Err(Error::LogicalPageLost { lpn, .. }) if lpn == Lpn(page as u32) => None,
            Err(error) => panic!("a read of logical page {page} answers {error}"),
        }
    }

    /// Records, after the damage of a flash page of `owner`, which versions of each logical page may be lost. If a cut
    /// may undo a trim, any old version of `owner` that is still on flash may reappear, and may be the damaged one.
    fn note_hits(&mut self, device: &Cuttable, owner: u32) {
        if !self.trims_are_durable
            && let Some(versions) = self.pages.get_mut(owner as usize)
        {
            versions.lost_before = versions.lost_before.max(1);
        }
        let (mut alive, mut cut) = (device.clone(), device.clone());
        cut.recover().expect("power stays on");
        for page in 0..self.pages.len() {
            let is_hit = self.read(&mut alive, page as u64).is_none();
            let is_hit_by_cut = self.read(&mut cut, page as u64).is_none();
            let versions = &mut self.pages[page];
            let hit = versions.issued.len() - usize::from(!is_hit);
            if is_hit || is_hit_by_cut {
                versions.lost_before = versions.lost_before.max(hit);
            }
        }
    }

    /// Returns the content of every page of a recovered device; `None` for a lost page. Asserts that each content is
    /// permitted.
    fn judge(&self, device: &mut Cuttable) -> Vec<Option<u16>> {
        let judge = |(page, versions): (usize, &Versions)| {
            let oldest = versions.oldest_allowed(self.trims_are_durable);
            let Some(bytes) = self.read(device, page as u64) else {
                assert!(versions.lost_before > oldest, "logical page {page} is lost and was not hit");
                return None;
            };
            let holds = |&&id: &&u16| bytes == self.bytes_of(id);
            let found = versions.issued[oldest..].iter().rev().find(holds);
            Some(*found.unwrap_or_else(|| {
                let is_stale = versions.issued.iter().any(|id| holds(&id));
                panic!(
                    "logical page {page} holds {}",
                    if is_stale { "a stale version" } else { "foreign data" }
                )
            }))
        };
        self.pages.iter().enumerate().map(judge).collect()
    }
}

#[derive(Default, Debug)]
struct Tally {
    cuts: u64,
    second_cuts: u64,
    damaged: u64,
    lost_after_cuts: u64,
    carried: u64,
}

struct Scenario<'a> {
    design: &'a DesignUnderTest,
    world: &'a World,
    outcome: CutOutcome,
    seed: u64,
    operations: u64,
}

impl Scenario<'_> {
    fn explore(&self, tally: &mut Tally) {
        let medium = medium_with_power_cut(full_medium(self.world), None, self.outcome);
        let mut device = device(self.world, &self.design.parts, BUFFERS[0], medium);
        let mut witness = Witness::new(&device, self.design);
        let mut random = Random::new(self.seed);
        let (pages, contents) = (witness.pages.len() as u64, self.design.distinct_contents(CONTENTS));
        let mut scene = FailureContext {
            run_name: self.design.name,
            world: self.world.name,
            seed: self.seed,
            operation_number: 0,
        };
        for k in 0..3 * pages {
            let page = if k < pages { k } else { random.below(pages) };
            let op = Op::Write(page, 1 + random.below(u64::from(contents) - 1) as u16);
            witness.issue(op);
            witness.perform(&mut device, op).expect("the pages fit");
        }
        device.flush().expect("the pages fit");
        witness.acknowledge(Op::Flush);
        for operation in 0..self.operations {
            scene.operation_number = operation;
            if random.is_true_with_percent(30)
                && let Some(owner) = self.damage(&mut device, &mut random)
            {
                tally.damaged += 1;
                witness.note_hits(&device, owner);
            }
            let op = draw(&mut random, pages, contents);
            let tried = witness.perform(&mut device.clone(), op);
            if matches!(tried, Err(Error::LogicalPageLost { .. } | Error::NotAtomic { .. })) {
                // A remap that must read lost data, or an atomic command without room for its entries.
                continue;
            }
            let before = device.clone();
            device.ftl_mut().store_mut().nand_mut().restore_power(None);
            witness.issue(op);
            witness.perform(&mut device, op).expect("no operation needs what is lost");
            let operations = device.ftl().store().nand().cuttable_operations_since_power_restore();
            for _ in 0..operations.min(2) {
                let cut_at = random.below(operations);
                self.cut(&before, &witness, op, cut_at, tally);
            }
            witness.acknowledge(op);
        }
        tally.carried += device.ftl().stats().lost_pages;
    }

    /// Damages a flash page of host data and returns its owner; `None` if the drawn page is unsuitable. In a design
    /// that shares content without comparing it, makes the damage known to the device at once.
    fn damage(&self, device: &mut Cuttable, random: &mut Random) -> Option<u32> {
        let ppn = Ppn(random.below(self.world.geometry.pages()) as u32);
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

    fn cut(&self, before: &Cuttable, witness: &Witness, op: Op, cut_at: u64, tally: &mut Tally) {
        let mut device = before.clone();
        device.ftl_mut().store_mut().nand_mut().restore_power(Some(cut_at));
        let error = witness.perform(&mut device, op).expect_err("the cut is inside the operation");
        assert!(error.is_power_loss(), "a cut is reported as {error}");
        tally.cuts += 1;
        // Writes on battery power cannot be cut.
        if self.design.parts.persistence != Persistence::BatteryFlush && tally.cuts.is_multiple_of(3) {
            device.ftl_mut().store_mut().nand_mut().restore_power(Some(tally.cuts % 5));
            match device.recover() {
                Err(error) if error.is_power_loss() => tally.second_cuts += 1,
                recovered => drop(recovered.expect("a cut is the only reason to fail")),
            }
        }
        device.ftl_mut().store_mut().nand_mut().restore_power(None);
        device.recover().expect("power stays on");
        audit(&mut device);
        let found = witness.judge(&mut device);
        tally.lost_after_cuts += found.iter().filter(|id| id.is_none()).count() as u64;
        self.go_on(device, witness, found, cut_at);
    }

    /// Executes further operations on the recovered device, which must work as usual; overwrites make lost pages
    /// readable.
    fn go_on(&self, mut device: Cuttable, witness: &Witness, found: Vec<Option<u16>>, cut_at: u64) {
        let mut random = Random::new(self.seed ^ cut_at << 20);
        let mut ids = Vec::new();
        for (page, id) in (0..).zip(found) {
            if id.is_none() {
                witness.perform(&mut device, Op::Write(page, 1)).expect("an overwrite heals");
            }
            ids.push(id.unwrap_or(1));
        }
        for _ in 0..AFTERWARDS {
            let op = draw(&mut random, ids.len() as u64, self.design.distinct_contents(CONTENTS));
            match witness.perform(&mut device, op) {
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
                witness.read(&mut device, page) == Some(witness.bytes_of(id)),
                "logical page {page} after recovery"
            );
        }
    }
}

#[test]
fn after_power_cuts_only_damaged_pages_are_lost() {
    for (number, design) in (0u64..).zip(designs()) {
        let mut tally = Tally::default();
        // Worlds of several hundred pages take long to compare.
        let is_chosen = |(k, world): &(u64, World)| {
            world.geometry.pages() <= 200 || (number + k).is_multiple_of(4 * exploration_interval(2))
        };
        let worlds: Vec<(u64, World)> = (0..).zip(design.worlds_with_room()).filter(is_chosen).collect();
        let operations = SCENARIO.max(OPERATIONS_PER_DESIGN / worlds.len() as u64);
        for (k, world) in &worlds {
            let outcome = CutOutcome::ALL[((number + k) % 3) as usize];
            let scenario = Scenario { design: &design, world, outcome, seed: 100 * number + k, operations };
            scenario.explore(&mut tally);
        }
        println!("{}: {tally:?}", design.name);
        let Tally { cuts, damaged, lost_after_cuts, carried, .. } = tally;
        assert!(
            cuts > 100 && damaged > 20 && lost_after_cuts > 20 && carried > 5,
            "{}: {tally:?}",
            design.name
        );
    }
}
