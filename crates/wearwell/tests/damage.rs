//! Tests that flash pages which become unreadable lose no other data, on every design and world (tiny device), during
//! garbage collection.
//!
//! A plain array holds the expected contents. After each damage a copy of the device reads every logical page, and the
//! pages whose read fails were hit. Until such a page is overwritten or trimmed, it may read as
//! [`Error::LogicalPageLost`] or as its right content. No other read may fail or return wrong data, and only operations
//! that read lost data may fail. Errors name only pages that were hit.

use common::{
    BUFFERS, DesignUnderTest, FailureContext, Op, OperationGenerator, Oracle, Random, SECTOR_LEN, World,
    audit, designs, device, exploration_interval, full_medium, worlds,
};
use wearwell::address::{Lpn, Ppn, RemapMode};
use wearwell::device::{HostData, SECTOR_BYTES};
use wearwell::nand::{FaultInjectable, Nand, SimNand};
use wearwell::write_buffer::WriteBufferOptions;
use wearwell::{Device, Error};

use crate::common;

/// Number of distinct contents that a run writes.
const CONTENTS: u16 = 9;

/// Expected contents of a device, and the logical pages whose flash page was made unreadable.
struct Witness {
    /// Expected contents of all sectors.
    oracle: Oracle,
    /// Whether damage hit the current content of each logical page.
    lost: Vec<bool>,
    /// Number of operations that failed because they needed a lost logical page.
    errors: u64,
    /// Number of lost pages that an overwrite or a trim made readable again.
    healed: u64,
}

impl Witness {
    /// Creates the expectation for an empty device to which `contents` different contents are written.
    fn of(device: &Device<SimNand>, contents: u16) -> Self {
        let oracle = Oracle::for_device(device, contents as usize);
        let pages = oracle.sectors() / oracle.page_sectors();
        Self { oracle, lost: vec![false; pages as usize], errors: 0, healed: 0 }
    }

    /// Returns the bytes per page.
    fn page_bytes(&self) -> u64 {
        self.oracle.page_sectors() * SECTOR_BYTES
    }

    /// Damages a flash page and records which logical pages it held; returns how many.
    fn damage(&mut self, device: &mut Device<SimNand>, ppn: Ppn) -> usize {
        device.ftl_mut().store_mut().nand_mut().make_uncorrectable(ppn);
        let mut copy = device.clone();
        let mut hits = 0;
        let mut bytes = vec![0; self.page_bytes() as usize];
        for lpn in 0..self.lost.len() {
            match copy.read(lpn as u64 * self.page_bytes(), self.page_bytes(), &mut bytes) {
                Ok(()) => {}
                Err(Error::LogicalPageLost { lpn: named, .. }) if named == Lpn(lpn as u32) => {
                    hits += usize::from(!std::mem::replace(&mut self.lost[lpn], true));
                }
                Err(error) => panic!("a read of {lpn} answers {error}"),
            }
        }
        hits
    }

    /// Draws a random flash page to be damaged; `None` if it does not hold host data.
    fn draw_victim(device: &mut Device<SimNand>, random: &mut Random) -> Option<Ppn> {
        let pages = device.ftl().store().geometry().pages();
        let ppn = Ppn(random.below(pages) as u32);
        let nand = device.ftl_mut().store_mut().nand_mut();
        let oob = nand.probe_page(ppn).ok().flatten()?;
        oob.kind.is_host_data().then_some(ppn)
    }

    /// Asserts that an error reports a logical page that damage hit, counts the error and returns the page.
    fn require_lost(&mut self, error: &Error, what: Op) -> u64 {
        let Error::LogicalPageLost { lpn, .. } = *error else { panic!("{what:?}: {error}") };
        assert!(self.lost[lpn.index()], "{what:?}: {error}, and it was not hit");
        self.errors += 1;
        u64::from(lpn.0)
    }

    /// Records that a logical page holds readable data again.
    fn heal(&mut self, lpn: u64) {
        self.healed += u64::from(std::mem::replace(&mut self.lost[lpn as usize], false));
    }

    /// Records that all logical pages that are whole in a range of sectors hold readable data again.
    fn heal_covered(&mut self, first: u64, sectors: u64) {
        let page = self.oracle.page_sectors();
        (first.div_ceil(page)..(first + sectors) / page).for_each(|lpn| self.heal(lpn));
    }

    /// Executes an operation on the device and records its effect. Errors are accepted only for logical pages that
    /// damage hit.
    fn apply(&mut self, device: &mut Device<SimNand>, op: Op) {
        let page = self.oracle.page_sectors();
        let bytes = |sectors: u64| sectors * SECTOR_BYTES;
        match op {
            Op::Write { first, sectors, id } => {
                let data = HostData::Bytes(self.oracle.content_bytes(first, sectors, id));
                let written = match device.write(bytes(first), bytes(sectors), data) {
                    Ok(()) => sectors,
                    Err(error) => (self.require_lost(&error, op) * page).saturating_sub(first),
                };
                self.oracle.record_write(first, written, id);
                self.heal_covered(first, written);
            }
            Op::Read { first, sectors } => self.compare(device, first, sectors, op),
            Op::Trim { first, sectors } => {
                device.trim(bytes(first), bytes(sectors)).expect("a trim needs nothing that is lost");
                self.oracle.record_trim(first, sectors);
                self.heal_covered(first, sectors);
            }
            Op::Remap { target, source, pages, mode } => {
                self.remap(device, [target, source, pages], mode, op);
            }
            Op::Flush => device.flush().expect("a flush needs nothing that is lost"),
            Op::Victims(policy) => device.ftl_mut().set_victim_policy(policy),
            Op::Fingerprints(policy, entries) => {
                device.ftl_mut().set_fingerprint_store_policy(policy, entries);
            }
            Op::Schemes(running) => {
                device
                    .ftl_mut()
                    .switch_content_mechanisms(running)
                    .expect("a switch needs nothing that is lost");
            }
        }
    }

    /// Remaps page by page, in the order in which the device does, so that at an error the number of remapped pages is
    /// known.
    fn remap(&mut self, device: &mut Device<SimNand>, range: [u64; 3], mode: RemapMode, op: Op) {
        let [target, source, pages] = range;
        let size = self.page_bytes();
        let order: Vec<u64> =
            if target <= source { (0..pages).collect() } else { (0..pages).rev().collect() };
        for k in order {
            let (to, from) = (target + k, source + k);
            match device.remap(to * size, from * size, size, mode) {
                Ok(()) if to == from => {}
                // An atomic command without room for its entries has changed nothing.
                Err(Error::NotAtomic { .. }) => {}
                Ok(()) => {
                    self.oracle.record_remap(to, from, 1, mode);
                    self.lost[to as usize] = self.lost[from as usize];
                    if mode == RemapMode::Relocate {
                        self.heal(from);
                    }
                }
                Err(error) => {
                    let lpn = self.require_lost(&error, op);
                    assert_eq!(lpn, from, "{op:?}");
                }
            }
        }
    }

    /// Reads a range of sectors and compares it with the expected contents. An error is accepted only for a logical
    /// page that damage hit.
    fn compare(&mut self, device: &mut Device<SimNand>, first: u64, sectors: u64, op: Op) {
        let mut into = vec![0xa5; sectors as usize * SECTOR_LEN];
        match device.read(first * SECTOR_BYTES, sectors * SECTOR_BYTES, &mut into) {
            Ok(()) => {
                let page = self.oracle.page_sectors();
                for (sector, got) in (first..).zip(into.chunks_exact(SECTOR_LEN)) {
                    let id = self.oracle.page_content_ids(sector / page)[(sector % page) as usize];
                    // A part of a page that was written while other parts were lost may be lost with them.
                    assert!(
                        got == self.oracle.patterns.sector(id, sector),
                        "{op:?}: sector {sector} is wrong"
                    );
                }
            }
            Err(error) => {
                let lpn = self.require_lost(&error, op);
                let page = self.oracle.page_sectors();
                assert!((first / page..(first + sectors).div_ceil(page)).contains(&lpn), "{op:?}: {error}");
            }
        }
    }

    /// Reads every logical page and compares it with the expected content.
    fn compare_all(&mut self, device: &mut Device<SimNand>) {
        let page = self.oracle.page_sectors();
        for lpn in 0..self.lost.len() as u64 {
            self.compare(device, lpn * page, page, Op::Read { first: lpn * page, sectors: page });
        }
    }
}

/// Returns whether the design compares bytes before it shares content. A page with unnoticed damage is then never
/// shared with another logical page.
fn compares_before_sharing(design: &DesignUnderTest) -> bool {
    let content = &design.parts.content;
    let recycles_blindly = content.recycle.as_ref().is_some_and(|recycle| !recycle.must_verify_hits);
    let binds_blindly =
        content.sharing.and_then(|sharing| sharing.dedup).is_some_and(|dedup| !dedup.must_verify_hits);
    !recycles_blindly && !binds_blindly
}

/// Counts of events in a run.
#[derive(Default, Debug)]
struct Tally {
    /// Number of flash pages that were damaged.
    damaged: u64,
    /// Number of logical pages that damage hit.
    hit_logical_pages: u64,
    /// Number of operations that failed because of lost data.
    errors: u64,
    /// Number of lost logical pages that an overwrite or a trim made readable again.
    healed: u64,
    /// Number of pages that the device programmed as lost, because GC could not read their source.
    pages_programmed_as_lost: u64,
}

/// Executes random operations on a device whose flash pages become unreadable at random times, and returns the counts.
/// Asserts that nothing else is lost.
fn run(
    design: &DesignUnderTest,
    world: &World,
    buffer: WriteBufferOptions,
    operations: u64,
    seed: u64,
) -> Tally {
    let contents = design.distinct_contents(CONTENTS);
    let mut device = device(world, &design.parts, buffer, full_medium(world));
    let mut witness = Witness::of(&device, contents);
    let (sectors, page_sectors) = (witness.oracle.sectors(), witness.oracle.page_sectors());
    let mut mix = OperationGenerator {
        random: Random::new(seed),
        sectors,
        page_sectors,
        contents,
        changes_policies: true,
    };
    let mut random = Random::new(seed + 7);
    let mut scene = FailureContext { run_name: design.name, world: world.name, seed, operation_number: 0 };
    let mut tally = Tally::default();
    for operation in 0..operations {
        scene.operation_number = operation;
        if random.is_true_with_percent(4)
            && let Some(ppn) = Witness::draw_victim(&mut device, &mut random)
        {
            let is_safe = compares_before_sharing(design) || is_needed(&device, ppn);
            if is_safe {
                tally.damaged += 1;
                tally.hit_logical_pages += witness.damage(&mut device, ppn) as u64;
            }
            // In a design that does not compare bytes before sharing, damage must be known before.
            if !compares_before_sharing(design) || random.is_true_with_percent(30) {
                scrub(&mut device);
            }
        }
        witness.apply(&mut device, mix.draw());
        if operation % 4 == 0 {
            audit(&mut device);
        }
    }
    witness.compare_all(&mut device);
    device.flush().expect("a flush needs nothing that is lost");
    let known: Vec<Lpn> = device.ftl_mut().lost_logical_pages().into_iter().map(|(lpn, _)| lpn).collect();
    assert!(known.iter().all(|lpn| witness.lost[lpn.index()]), "{known:?}");
    // After everything was overwritten, nothing is lost.
    for lpn in 0..witness.lost.len() as u64 {
        witness.apply(
            &mut device,
            Op::Write { first: lpn * page_sectors, sectors: page_sectors, id: (lpn % 7) as u16 },
        );
    }
    device.flush().expect("nothing is lost any more");
    assert!(witness.lost.iter().all(|lost| !lost));
    witness.compare_all(&mut device);
    audit(&mut device);
    tally.pages_programmed_as_lost += device.ftl().stats().lost_pages;
    Tally { errors: witness.errors, healed: witness.healed, ..tally }
}

/// Returns whether the device needs flash page `ppn`: without it, some logical page would be lost.
fn is_needed(device: &Device<SimNand>, ppn: Ppn) -> bool {
    let mut copy = device.clone();
    copy.ftl_mut().store_mut().nand_mut().make_uncorrectable(ppn);
    scrub(&mut copy);
    copy.ftl_mut().lost_logical_pages().iter().any(|&(_, lost)| lost == ppn)
}

/// Scrubs the device: it reads every page in use, to find unreadable pages.
fn scrub<N: Nand>(device: &mut Device<N>) {
    let mut next = Some(Ppn(0));
    while let Some(first) = next {
        next = device.ftl_mut().scrub_step(first, 64).expect("a healthy medium has power").next_page;
    }
}

/// Flash pages become unreadable at random during a run, and only the logical pages that they hold are lost.
#[test]
fn a_damaged_page_loses_only_its_own_content() {
    for (number, design) in (0u64..).zip(designs()) {
        let mut total = Tally::default();
        for (k, world) in (0u64..).zip(design.worlds_with_room()) {
            let buffer = BUFFERS[((number + k) % BUFFERS.len() as u64) as usize];
            let tally = run(&design, &world, buffer, 1500 / exploration_interval(2), 100 * number + k);
            total.damaged += tally.damaged;
            total.hit_logical_pages += tally.hit_logical_pages;
            total.errors += tally.errors;
            total.healed += tally.healed;
            total.pages_programmed_as_lost += tally.pages_programmed_as_lost;
        }
        println!("{}: {total:?}", design.name);
        assert!(
            total.hit_logical_pages > 20 && total.healed > 20 && total.pages_programmed_as_lost > 5,
            "{}: {total:?}",
            design.name
        );
    }
}

/// The engine does not restore lost metadata: an unreadable translation page loses its map entries. No read may return
/// wrong data and nothing may panic. Reads of pages whose map entries are readable succeed, and writes may fail with a
/// typed error.
#[test]
fn with_lost_translation_pages_writes_fail_with_an_error_and_reads_continue() {
    for (number, design) in (0u64..).zip(designs()) {
        let world = worlds().into_iter().find(|world| world.name == "slc").expect("it is a world");
        let mut device = device(&world, &design.parts, BUFFERS[0], full_medium(&world));
        let mut random = Random::new(number);
        let mut oracle = Oracle::for_device(&device, CONTENTS as usize);
        let page = oracle.page_sectors();
        let pages = oracle.sectors() / page;
        for k in 0..4 * pages {
            let lpn = if k < pages { k } else { random.below(pages) };
            let op = Op::Write { first: lpn * page, sectors: page, id: random.below(9) as u16 };
            oracle.apply(&mut device, op).expect("the pages fit");
        }
        let Some(ppn) = current_translation_page(&mut device) else { continue };
        let _scene =
            FailureContext { run_name: design.name, world: world.name, seed: number, operation_number: 0 };
        device.ftl_mut().store_mut().nand_mut().make_uncorrectable(ppn);
        let (mut read, mut failed, mut refused) = (0, 0, 0);
        let mut uncertain = vec![false; pages as usize];
        for _ in 0..4 * pages {
            let lpn = random.below(pages);
            if random.is_true_with_percent(40) {
                let op = Op::Write { first: lpn * page, sectors: page, id: random.below(9) as u16 };
                match oracle.apply(&mut device, op) {
                    Ok(()) => uncertain[lpn as usize] = false,
                    Err(error) => {
                        assert!(error.is_media_error(), "{error}");
                        uncertain[lpn as usize] = true;
                        refused += 1;
                    }
                }
                continue;
            }
            if uncertain[lpn as usize] {
                continue;
            }
            match oracle.compare_range(&mut device, lpn * page, page) {
                Ok(()) => read += 1,
                Err(error) => {
                    assert!(error.is_media_error(), "{error}");
                    failed += 1;
                }
            }
        }
        println!("{}: {read} reads, {failed} failed, {refused} writes refused", design.name);
        assert!(read > 0, "{}: reads go on", design.name);
    }
}

/// Returns the current flash page of a translation page that the map needs; `None` if there is none.
fn current_translation_page(device: &mut Device<SimNand>) -> Option<Ppn> {
    let pages = device.ftl().store().geometry().pages() as u32;
    (0..pages).map(Ppn).find(|&ppn| {
        let found = device.ftl_mut().store_mut().nand_mut().probe_page(ppn).ok().flatten();
        found.is_some_and(|oob| oob.kind == wearwell::nand::PageKind::Translation)
            && device.ftl_mut().may_hold_needed_data(ppn) == Ok(true)
    })
}
