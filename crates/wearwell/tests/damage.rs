//! Tests that flash pages which become unreadable lose no other data, on every design and tiny device, during garbage
//! collection.
//!
//! A plain array holds the expected contents. After each damage a copy of the device reads every logical page. A
//! logical page counts as *hit* by the damage if its read fails. Until a hit page is overwritten or trimmed, it may
//! read as [`Error::LogicalPageLost`] or as its right content. No other read may fail or return wrong data, and only
//! operations that read lost data may fail. Errors name only pages that were hit.

use common::{
    BUFFERS, DesignUnderTest, FailureContext, Op, OperationGenerator, Oracle, Random, SECTOR_LEN, TinyDevice,
    audit, designs, device, nand_with_all_page_fields, test_case_interval, tiny_devices,
};
use wearwell::address::{Lpn, Ppn, RemapMode};
use wearwell::device::{HostData, SECTOR_BYTES};
use wearwell::nand::{FaultInjectable, Nand};
use wearwell::write_buffer::WriteBufferOptions;
use wearwell::{Device, Error};

use crate::common;

/// Number of distinct contents that a run writes.
const CONTENTS: u16 = 9;

/// Expected contents of a device, and the logical pages whose flash page was made unreadable.
struct ExpectedContents {
    /// Expected contents of all sectors.
    oracle: Oracle,
    /// Whether damage hit the current content of each logical page.
    lost: Vec<bool>,
    /// Number of operations that failed because they needed a lost logical page.
    failed_operation_count: u64,
    /// Number of lost pages that an overwrite or a trim made readable again.
    readable_again_page_count: u64,
}

impl ExpectedContents {
    /// Creates the expectation for an empty device to which `contents` different contents are written.
    fn of_empty_device(device: &Device, contents: u16) -> Self {
        let oracle = Oracle::for_device(device, contents as usize);
        let pages = oracle.sectors() / oracle.sectors_per_page();
        Self {
            oracle,
            lost: vec![false; pages as usize],
            failed_operation_count: 0,
            readable_again_page_count: 0,
        }
    }

    /// Returns the bytes per page.
    fn page_bytes(&self) -> u64 {
        self.oracle.sectors_per_page() * SECTOR_BYTES
    }

    /// Damages a flash page and records which logical pages it held; returns how many.
    fn damage_flash_page(&mut self, device: &mut Device, ppn: Ppn) -> usize {
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
    fn draw_page_to_damage(device: &mut Device, random: &mut Random) -> Option<Ppn> {
        let pages = device.ftl().store().geometry().pages();
        let ppn = Ppn(random.below(pages) as u32);
        let nand = device.ftl_mut().store_mut().nand_mut();
        let oob = nand.probe_page(ppn).ok().flatten()?;
        oob.kind.is_host_data().then_some(ppn)
    }

    /// Asserts that an error reports a logical page that damage hit, counts the error and returns the page.
    fn assert_error_names_lost_page(&mut self, error: &Error, what: Op) -> u64 {
        let Error::LogicalPageLost { lpn, .. } = *error else { panic!("{what:?}: {error}") };
        assert!(self.lost[lpn.index()], "{what:?}: {error}, and it was not hit");
        self.failed_operation_count += 1;
        u64::from(lpn.0)
    }

    /// Records that a logical page holds readable data again.
    fn record_page_readable_again(&mut self, lpn: u64) {
        self.readable_again_page_count += u64::from(std::mem::replace(&mut self.lost[lpn as usize], false));
    }

    /// Records that every logical page that lies entirely in the range of sectors holds readable data again.
    fn record_pages_in_range_readable_again(&mut self, first: u64, sectors: u64) {
        let page = self.oracle.sectors_per_page();
        (first.div_ceil(page)..(first + sectors) / page).for_each(|lpn| self.record_page_readable_again(lpn));
    }

    /// Executes an operation on the device and records its effect. Errors are accepted only for logical pages that
    /// damage hit.
    fn apply(&mut self, device: &mut Device, op: Op) {
        let page = self.oracle.sectors_per_page();
        let bytes = |sectors: u64| sectors * SECTOR_BYTES;
        match op {
            Op::Write { first_sector: first, sectors, content_id: id } => {
                let data = HostData::Bytes(self.oracle.content_bytes(first, sectors, id));
                let written = match device.write(bytes(first), bytes(sectors), data) {
                    Ok(()) => sectors,
                    Err(error) => {
                        (self.assert_error_names_lost_page(&error, op) * page).saturating_sub(first)
                    }
                };
                self.oracle.record_write(first, written, id);
                self.record_pages_in_range_readable_again(first, written);
            }
            Op::Read { first_sector: first, sectors } => self.compare(device, first, sectors, op),
            Op::Trim { first_sector: first, sectors } => {
                device.trim(bytes(first), bytes(sectors)).expect("a trim needs nothing that is lost");
                self.oracle.record_trim(first, sectors);
                self.record_pages_in_range_readable_again(first, sectors);
            }
            Op::Remap { target, source, pages, mode } => {
                self.remap(device, [target, source, pages], mode, op);
            }
            Op::Flush => device.flush().expect("a flush needs nothing that is lost"),
            Op::SetVictimPolicy(policy) => device.ftl_mut().set_victim_policy(policy),
            Op::SetFingerprintStore(policy, entries) => {
                device.ftl_mut().set_fingerprint_store_policy(policy, entries);
            }
            Op::SwitchMechanisms(running) => {
                device
                    .ftl_mut()
                    .switch_content_mechanisms(running)
                    .expect("a switch needs nothing that is lost");
            }
        }
    }

    /// Remaps page by page, in the order in which the device does, so that at an error the number of remapped pages is
    /// known.
    fn remap(&mut self, device: &mut Device, range: [u64; 3], mode: RemapMode, op: Op) {
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
                        self.record_page_readable_again(from);
                    }
                }
                Err(error) => {
                    let lpn = self.assert_error_names_lost_page(&error, op);
                    assert_eq!(lpn, from, "{op:?}");
                }
            }
        }
    }

    /// Reads a range of sectors and compares it with the expected contents. An error is accepted only for a logical
    /// page that damage hit.
    fn compare(&mut self, device: &mut Device, first: u64, sectors: u64, op: Op) {
        let mut into = vec![0xa5; sectors as usize * SECTOR_LEN];
        match device.read(first * SECTOR_BYTES, sectors * SECTOR_BYTES, &mut into) {
            Ok(()) => {
                let page = self.oracle.sectors_per_page();
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
                let lpn = self.assert_error_names_lost_page(&error, op);
                let page = self.oracle.sectors_per_page();
                assert!((first / page..(first + sectors).div_ceil(page)).contains(&lpn), "{op:?}: {error}");
            }
        }
    }

    /// Reads every logical page and compares it with the expected content.
    fn compare_all_logical_pages(&mut self, device: &mut Device) {
        let page = self.oracle.sectors_per_page();
        for lpn in 0..self.lost.len() as u64 {
            self.compare(device, lpn * page, page, Op::Read { first_sector: lpn * page, sectors: page });
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
struct DamageCounts {
    /// Number of flash pages that were damaged.
    damaged_flash_pages: u64,
    /// Number of logical pages that damage hit.
    damaged_logical_pages: u64,
    /// Number of operations that failed because of lost data.
    failed_operation_count: u64,
    /// Number of lost logical pages that an overwrite or a trim made readable again.
    readable_again_page_count: u64,
    /// Number of pages that GC programmed with a mark that their data is lost, because it could not read the source.
    pages_programmed_with_lost_mark: u64,
}

/// Executes random operations on a device whose flash pages become unreadable at random times, and returns the counts.
/// Asserts that nothing else is lost.
fn run(
    design: &DesignUnderTest,
    tiny_device: &TinyDevice,
    buffer: WriteBufferOptions,
    operations: u64,
    seed: u64,
) -> DamageCounts {
    let contents = design.distinct_content_count(CONTENTS);
    let mut device = device(tiny_device, &design.parts, buffer, nand_with_all_page_fields(tiny_device));
    let mut expected_contents = ExpectedContents::of_empty_device(&device, contents);
    let (sectors, sectors_per_page) =
        (expected_contents.oracle.sectors(), expected_contents.oracle.sectors_per_page());
    let mut operation_generator = OperationGenerator {
        random: Random::new(seed),
        sectors,
        sectors_per_page,
        content_count: contents,
        changes_policies: true,
    };
    let mut random = Random::new(seed + 7);
    let mut scene =
        FailureContext { run_name: design.name, tiny_device: tiny_device.name, seed, operation_number: 0 };
    let mut damage_counts = DamageCounts::default();
    for operation in 0..operations {
        scene.operation_number = operation;
        if random.is_true_with_percent(4)
            && let Some(ppn) = ExpectedContents::draw_page_to_damage(&mut device, &mut random)
        {
            let is_safe = compares_before_sharing(design) || is_needed(&device, ppn);
            if is_safe {
                damage_counts.damaged_flash_pages += 1;
                damage_counts.damaged_logical_pages +=
                    expected_contents.damage_flash_page(&mut device, ppn) as u64;
            }
            // In a design that does not compare bytes before sharing, damage must be known before.
            if !compares_before_sharing(design) || random.is_true_with_percent(30) {
                scrub(&mut device);
            }
        }
        expected_contents.apply(&mut device, operation_generator.draw());
        if operation % 4 == 0 {
            audit(&mut device);
        }
    }
    expected_contents.compare_all_logical_pages(&mut device);
    device.flush().expect("a flush needs nothing that is lost");
    let known: Vec<Lpn> = device.ftl_mut().lost_logical_pages().into_iter().map(|(lpn, _)| lpn).collect();
    assert!(known.iter().all(|lpn| expected_contents.lost[lpn.index()]), "{known:?}");
    // After everything was overwritten, nothing is lost.
    for lpn in 0..expected_contents.lost.len() as u64 {
        expected_contents.apply(
            &mut device,
            Op::Write {
                first_sector: lpn * sectors_per_page,
                sectors: sectors_per_page,
                content_id: (lpn % 7) as u16,
            },
        );
    }
    device.flush().expect("nothing is lost any more");
    assert!(expected_contents.lost.iter().all(|lost| !lost));
    expected_contents.compare_all_logical_pages(&mut device);
    audit(&mut device);
    damage_counts.pages_programmed_with_lost_mark += device.ftl().stats().lost_pages;
    DamageCounts {
        failed_operation_count: expected_contents.failed_operation_count,
        readable_again_page_count: expected_contents.readable_again_page_count,
        ..damage_counts
    }
}

/// Returns whether the device needs flash page `ppn`: without it, some logical page would be lost.
fn is_needed(device: &Device, ppn: Ppn) -> bool {
    let mut copy = device.clone();
    copy.ftl_mut().store_mut().nand_mut().make_uncorrectable(ppn);
    scrub(&mut copy);
    copy.ftl_mut().lost_logical_pages().iter().any(|&(_, lost)| lost == ppn)
}

/// Scrubs the device: it reads every page in use, to find unreadable pages.
fn scrub(device: &mut Device) {
    let mut next = Some(Ppn(0));
    while let Some(first) = next {
        next = device.ftl_mut().scrub_step(first, 64).expect("a healthy medium has power").next_page;
    }
}

/// Flash pages become unreadable at random during a run, and only the logical pages that they hold are lost.
#[test]
fn a_damaged_page_loses_only_its_own_content() {
    for (number, design) in (0u64..).zip(designs()) {
        let mut total = DamageCounts::default();
        for (k, tiny_device) in (0u64..).zip(design.tiny_devices_with_enough_space()) {
            let buffer = BUFFERS[((number + k) % BUFFERS.len() as u64) as usize];
            let damage_counts =
                run(&design, &tiny_device, buffer, 1500 / test_case_interval(2), 100 * number + k);
            total.damaged_flash_pages += damage_counts.damaged_flash_pages;
            total.damaged_logical_pages += damage_counts.damaged_logical_pages;
            total.failed_operation_count += damage_counts.failed_operation_count;
            total.readable_again_page_count += damage_counts.readable_again_page_count;
            total.pages_programmed_with_lost_mark += damage_counts.pages_programmed_with_lost_mark;
        }
        println!("{}: {total:?}", design.name);
        assert!(
            total.damaged_logical_pages > 20
                && total.readable_again_page_count > 20
                && total.pages_programmed_with_lost_mark > 5,
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
        let tiny_device =
            tiny_devices().into_iter().find(|tiny_device| tiny_device.name == "slc").expect("it is a world");
        let mut device =
            device(&tiny_device, &design.parts, BUFFERS[0], nand_with_all_page_fields(&tiny_device));
        let mut random = Random::new(number);
        let mut oracle = Oracle::for_device(&device, CONTENTS as usize);
        let page = oracle.sectors_per_page();
        let pages = oracle.sectors() / page;
        for k in 0..4 * pages {
            let lpn = if k < pages { k } else { random.below(pages) };
            let op =
                Op::Write { first_sector: lpn * page, sectors: page, content_id: random.below(9) as u16 };
            oracle.apply(&mut device, op).expect("the pages fit");
        }
        let Some(ppn) = current_translation_page(&mut device) else { continue };
        let _scene = FailureContext {
            run_name: design.name,
            tiny_device: tiny_device.name,
            seed: number,
            operation_number: 0,
        };
        device.ftl_mut().store_mut().nand_mut().make_uncorrectable(ppn);
        let (mut read, mut failed, mut refused) = (0, 0, 0);
        let mut uncertain = vec![false; pages as usize];
        for _ in 0..4 * pages {
            let lpn = random.below(pages);
            if random.is_true_with_percent(40) {
                let op =
                    Op::Write { first_sector: lpn * page, sectors: page, content_id: random.below(9) as u16 };
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
fn current_translation_page(device: &mut Device) -> Option<Ppn> {
    let pages = device.ftl().store().geometry().pages() as u32;
    (0..pages).map(Ppn).find(|&ppn| {
        let found = device.ftl_mut().store_mut().nand_mut().probe_page(ppn).ok().flatten();
        found.is_some_and(|oob| oob.kind == wearwell::nand::PageKind::Translation)
            && device.ftl_mut().may_hold_needed_data(ppn) == Ok(true)
    })
}
