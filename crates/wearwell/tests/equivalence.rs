//! Switched off, a mechanism leaves no trace; equal parts behave equally.
//!
//! Two designs are equal if the logs of their programs and erases are equal, entry for entry, with owners.

mod common;

use common::{BUFFERS, Mix, Op, Oracle, Random, World, device, full_medium, worlds};
use wearwell::address::{BlockId, Lpn, Ppn};
use wearwell::content::dedup::DedupOptions;
use wearwell::content::recycle::{RecycleOptions, StorePolicy};
use wearwell::content::{Content, Descriptor, Fingerprint};
use wearwell::design::{DeltaDesign, DftlOptions, Parts, RecycleDesign, SharingDesign};
use wearwell::design::{delta, dftl, integrated, page_map, recyclable, remap};
use wearwell::gc::{GcOptions, VictimPolicy};
use wearwell::nand::{
    CopyRun, CutOutcome, FaultPlan, Faulty, Nand, NandError, Oob, PowerCut, Recorded, Recording,
};
use wearwell::nand::{PageKind, Retain, SimNand};
use wearwell::refs::RefsPart;
use wearwell::reverse_map::ReverseMapPart;
use wearwell::store::BlockState;
use wearwell::write_buffer::BufferOptions;
use wearwell::{Device, DeviceOptions};

const OPERATIONS: u64 = 12_000;
const CONTENTS: u16 = 9;
/// So many that deduplication leaves something to collect.
const MANY_CONTENTS: u16 = 200;

fn gc(policy: VictimPolicy) -> GcOptions {
    GcOptions { policy, ..GcOptions::default() }
}

fn recycling(gc: GcOptions, policy: StorePolicy, capacity_entries: Option<u32>) -> Parts {
    let options = RecycleOptions { capacity_entries, policy, ..RecycleOptions::default() };
    recyclable(gc, RecycleDesign { options, verify_on_hit: false })
}

fn everything_cached(gc: GcOptions) -> Parts {
    dftl(gc, DftlOptions { cache_entries: u32::MAX })
}

/// Runs the same operations on a device of `logical` pages and returns it.
fn run<N: Nand>(nand: N, logical: u32, parts: &Parts, buffer: BufferOptions, seed: u64) -> Device<N> {
    let mut device = Device::new(nand, logical, parts, DeviceOptions { buffer }).expect("it fits");
    let mut oracle = Oracle::of(&device, CONTENTS as usize);
    let (sectors, page_sectors) = (oracle.sectors(), oracle.page_sectors());
    let random = Random::new(seed);
    let mut mix = Mix { random, sectors, page_sectors, contents: CONTENTS, switches: false };
    for _ in 0..OPERATIONS {
        oracle.apply(&mut device, mix.draw()).expect("there is room");
    }
    device
}

fn log_of(world: &World, logical: u32, parts: &Parts, buffer: BufferOptions, seed: u64) -> Vec<Recorded> {
    let device = run(Recording::new(full_medium(world)), logical, parts, buffer, seed);
    device.ftl().store().nand().log().to_vec()
}

/// Logs of two designs on every world and buffer, at the size that both accept.
fn assert_equal_logs(one: &Parts, other: &Parts) {
    let mut erases = 0;
    for (number, world) in (0u64..).zip(worlds()) {
        let logical = world.logical_pages(one).min(world.logical_pages(other));
        for buffer in BUFFERS {
            let log = log_of(&world, logical, one, buffer, number);
            let other_log = log_of(&world, logical, other, buffer, number);
            let first_difference = log.iter().zip(&other_log).position(|(a, b)| a != b);
            assert_eq!((first_difference, log.len()), (None, other_log.len()), "world {}", world.name);
            erases += log.iter().filter(|entry| matches!(entry, Recorded::Erase(_))).count();
        }
    }
    assert!(erases > 10_000, "garbage collection has to be at work: {erases} erases");
}

const POLICIES: [VictimPolicy; 4] =
    [VictimPolicy::Greedy, VictimPolicy::CostBenefit, VictimPolicy::DChoices { d: 2 }, VictimPolicy::Fifo];

#[test]
fn recycling_with_an_empty_store_is_page_map() {
    for policy in POLICIES {
        let off = recycling(gc(policy), StorePolicy::default(), Some(0));
        assert_equal_logs(&page_map(gc(policy)), &off);
    }
}

#[test]
fn dftl_with_everything_cached_is_page_map() {
    for policy in POLICIES {
        assert_equal_logs(&page_map(gc(policy)), &everything_cached(gc(policy)));
    }
}

fn sharing(reverse_map: ReverseMapPart, index_entries: Option<u32>) -> Parts {
    let dedup = Some(DedupOptions { capacity_entries: index_entries, verify_on_hit: true });
    remap(gc(VictimPolicy::Greedy), SharingDesign { reverse_map, refs: RefsPart::Dense, dedup })
}

/// Every remap becomes a write, whether the design keeps counts or not.
#[test]
fn remapping_without_a_reverse_map_is_page_map() {
    assert_equal_logs(&page_map(GcOptions::default()), &sharing(ReverseMapPart::OobOnly, None));
}

#[test]
fn delta_encoding_of_nothing_is_page_map() {
    let never_hot = DeltaDesign { heat_entries: 0, ..DeltaDesign::default() };
    let no_space = DeltaDesign { area_share: 0.0, ..DeltaDesign::default() };
    for design in [never_hot, no_space] {
        assert_equal_logs(&page_map(GcOptions::default()), &delta(GcOptions::default(), design, None));
    }
}

#[test]
fn integrated_without_schemes_is_page_map() {
    assert_equal_logs(&page_map(GcOptions::default()), &integrated(GcOptions::default(), None, false));
}

/// With room for every entry it does not matter where entries are kept: the same mappings, programs and erases.
#[test]
fn reverse_maps_with_room_agree() {
    const NVRAM_BYTES: u64 = 1 << 18;
    let segments = |segment_bytes| ReverseMapPart::Segments { nvram_bytes: NVRAM_BYTES, segment_bytes };
    let log = ReverseMapPart::NvramLog { nvram_bytes: NVRAM_BYTES };
    for (number, world) in (0u64..).zip(worlds()) {
        let logical = world.logical_pages(&sharing(ReverseMapPart::Ideal, None));
        let run = |part: ReverseMapPart| {
            let medium = SimNand::new(world.geometry.clone(), Retain::ALL).with_nvram(NVRAM_BYTES);
            let parts = sharing(part, None);
            let options = DeviceOptions { buffer: BUFFERS[0] };
            let mut device = Device::new(Recording::new(medium), logical, &parts, options).expect("it fits");
            let mut oracle = Oracle::of(&device, MANY_CONTENTS as usize);
            let (sectors, page_sectors) = (oracle.sectors(), oracle.page_sectors());
            let random = Random::new(number);
            let mut mix = Mix { random, sectors, page_sectors, contents: MANY_CONTENTS, switches: false };
            for _ in 0..OPERATIONS {
                oracle.apply(&mut device, mix.draw()).expect("there is room");
            }
            oracle.compare_all(&mut device).expect("a healthy medium reads");
            let stats = device.ftl().stats();
            assert_eq!(stats.demoted_full, 0, "there is room for every entry");
            assert!(stats.deduplicated_writes > 100 && stats.gc_victims > 10, "world {}", world.name);
            device.ftl().store().nand().log().to_vec()
        };
        let ideal = run(ReverseMapPart::Ideal);
        for part in [segments(64), segments(1024), log] {
            assert!(run(part) == ideal, "{part:?} on world {}", world.name);
        }
    }
}

/// Nothing is ever fetched or written for a map that fits the cache.
#[test]
fn dftl_with_everything_cached_has_no_translation_traffic() {
    for world in worlds() {
        let parts = everything_cached(GcOptions::default());
        let device = run(full_medium(&world), world.logical_pages(&parts), &parts, BUFFERS[0], 3);
        let translation = wearwell::timing::Cause::Translation as usize;
        let stats = device.ftl().stats();
        assert_eq!((stats.programs[translation], stats.reads[translation]), (0, 0), "world {}", world.name);
    }
}

/// Without reads every dead page has probability 0, so a block's dirtiness is its number of invalid pages: RC-GC then
/// takes a block with the fewest valid pages, as greedy does. Among equals it takes the one that closed first, which
/// greedy does not promise; hence the counts are compared and not the logs.
#[test]
fn recycling_aware_gc_without_reads_takes_a_greedy_victim() {
    let world = worlds().into_iter().find(|world| world.name == "slc").expect("a known world");
    let gc = GcOptions { background_blocks: u32::MAX, ..gc(VictimPolicy::RecycleAware) };
    let parts = recycling(gc, StorePolicy::Probability, Some(20));
    let mut device = device(&world, &parts, BUFFERS[0], full_medium(&world));
    let mut oracle = Oracle::of(&device, CONTENTS as usize);
    let (mut random, mut victims) = (Random::new(5), 0);
    for _ in 0..3000 {
        for _ in 0..=random.below(20) {
            let lpn = random.below(oracle.sectors());
            let op = Op::Write { first: lpn, sectors: 1, id: random.below(CONTENTS as u64) as u16 };
            oracle.apply(&mut device, op).expect("there is room");
        }
        if device.ftl().store().free_blocks(0) < 3 {
            continue; // An urgent pool uses greedy by itself.
        }
        let before: Vec<(BlockId, u32, u32)> = closed_blocks(&device);
        let fewest = before.iter().map(|&(_, valid, _)| valid).min();
        if device.ftl_mut().collect_in_background().expect("there is room") {
            let wear = |block| device.ftl().store().nand().erase_count(block);
            let victim = before.iter().find(|&&(block, _, erases)| wear(block) > erases);
            assert_eq!(victim.map(|&(_, valid, _)| valid), fewest);
            victims += 1;
        }
    }
    assert!(victims > 1000, "{victims} victims");
}

/// Block, valid pages and erase count of each closed block.
fn closed_blocks(device: &Device<SimNand>) -> Vec<(BlockId, u32, u32)> {
    let store = device.ftl().store();
    (0..store.blocks().len())
        .map(BlockId)
        .filter(|&block| store.blocks().state(block) == BlockState::Closed)
        .map(|block| (block, store.blocks().valid(block), store.nand().erase_count(block)))
        .collect()
}

/// A store that never evicts finds the same contents under every policy; with greedy victims, which do not look at
/// probabilities, the devices do the same.
#[test]
fn unbounded_stores_hit_alike_under_every_policy() {
    for (number, world) in (0u64..).zip(worlds()) {
        let hits = |policy| {
            let parts = recycling(GcOptions::default(), policy, None);
            let device = run(full_medium(&world), world.logical_pages(&parts), &parts, BUFFERS[0], number);
            let hits = device.ftl().recycle().expect("a recycling design").statistics().hits;
            assert_eq!(hits, device.ftl().stats().recycled_writes);
            hits
        };
        let lru = hits(StorePolicy::Lru);
        assert_eq!(lru, hits(StorePolicy::Probability), "world {}", world.name);
        assert!(lru > 500, "{lru} hits in world {}", world.name);
    }
}

/// A medium without a copy of its own: [`Nand::copy`] reads and programs page by page.
#[derive(Clone)]
struct PageByPage(SimNand);

impl Nand for PageByPage {
    fn geometry(&self) -> &wearwell::nand::Geometry {
        self.0.geometry()
    }
    fn program(&mut self, ppn: Ppn, oob: Oob, content: Content<'_>) -> Result<(), NandError> {
        self.0.program(ppn, oob, content)
    }
    fn read(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError> {
        self.0.read(ppn, into)
    }
    fn probe(&mut self, ppn: Ppn) -> Result<Option<Oob>, NandError> {
        self.0.probe(ppn)
    }
    fn erase(&mut self, block: BlockId) -> Result<(), NandError> {
        self.0.erase(block)
    }
    fn condemn(&mut self, block: BlockId) {
        self.0.condemn(block);
    }
    fn is_condemned(&self, block: BlockId) -> bool {
        self.0.is_condemned(block)
    }
    fn mark_bad(&mut self, block: BlockId) {
        self.0.mark_bad(block);
    }
    fn is_bad(&self, block: BlockId) -> bool {
        self.0.is_bad(block)
    }
    fn erase_count(&self, block: BlockId) -> u32 {
        self.0.erase_count(block)
    }
    fn keeps_bytes(&self) -> bool {
        self.0.keeps_bytes()
    }
    fn owner(&self, ppn: Ppn) -> u32 {
        self.0.owner(ppn)
    }
    fn fingerprint(&self, ppn: Ppn) -> Fingerprint {
        self.0.fingerprint(ppn)
    }
    fn nvram(&self) -> &[u64] {
        self.0.nvram()
    }
    fn store_word(&mut self, index: usize, word: u64) -> Result<(), NandError> {
        self.0.store_word(index, word)
    }
}

/// OOB and bytes of every page, and the wear of every block.
fn contents(nand: &mut SimNand) -> Vec<(Option<Oob>, Vec<u8>, u32)> {
    let geometry = nand.geometry().clone();
    let mut pages = Vec::new();
    for ppn in (0..geometry.pages() as u32).map(Ppn) {
        let oob = nand.probe(ppn).expect("a healthy medium reads");
        let mut bytes = Vec::new();
        if oob.is_some() {
            bytes.resize(geometry.page_bytes as usize, 0);
            nand.read(ppn, &mut bytes).expect("a healthy medium reads");
        }
        pages.push((oob, bytes, nand.erase_count(BlockId(ppn.0 / geometry.block_pages()))));
    }
    pages
}

/// The bulk copy of the simulated medium and every wrapper leave the same flash behind as the plain medium, and the
/// engine counts the same operations.
#[test]
fn copies_and_wrappers_change_nothing() {
    let designs = [
        page_map(GcOptions::default()),
        recycling(gc(VictimPolicy::RecycleAware), StorePolicy::Probability, Some(6)),
        dftl(GcOptions::default(), DftlOptions { cache_entries: 4 }),
    ];
    for (number, world) in (0u64..).zip(worlds()) {
        for parts in &designs {
            let logical = world.logical_pages(parts);
            let medium = || full_medium(&world);
            let plain = run(medium(), logical, parts, BUFFERS[1], number);
            let by_page = run(PageByPage(medium()), logical, parts, BUFFERS[1], number);
            let cut = PowerCut::new(medium(), None, CutOutcome::Before);
            let uncut = run(cut, logical, parts, BUFFERS[1], number);
            let faultless =
                run(Faulty::new(medium(), FaultPlan::default(), 1), logical, parts, BUFFERS[1], number);
            let recorded = run(Recording::new(medium()), logical, parts, BUFFERS[1], number);
            let stats = plain.ftl().stats().clone();
            for other in
                [by_page.ftl().stats(), uncut.ftl().stats(), faultless.ftl().stats(), recorded.ftl().stats()]
            {
                assert_eq!(*other, stats);
            }
            assert_eq!(uncut.ftl().store().nand().operations(), count(recorded.ftl().store().nand().log()));
            let media = [
                by_page.ftl().store().nand().0.clone(),
                uncut.ftl().store().nand().clone().into_inner(),
                faultless.ftl().store().nand().clone().into_inner(),
                recorded.ftl().store().nand().clone().into_inner(),
            ];
            let expected = contents(&mut plain.ftl().store().nand().clone());
            for mut medium in media {
                assert!(contents(&mut medium) == expected, "world {}", world.name);
            }
        }
    }
}

fn count(log: &[Recorded]) -> u64 {
    log.len() as u64
}

/// The bulk copy stops at the same page, with the same copies made, as reading and programming one by one.
#[test]
fn a_copy_run_with_an_unreadable_page_stops_alike() {
    use wearwell::nand::Fragile;
    let world = worlds().into_iter().find(|world| world.name == "slc").expect("a known world");
    let mut bulk = SimNand::new(world.geometry.clone(), Retain::ALL);
    for ppn in 0..6 {
        if ppn == 3 {
            bulk.tear_program(Ppn(3));
            continue;
        }
        let oob = Oob {
            kind: PageKind::Data,
            owner: ppn,
            sequence: 1 + ppn as u64,
            generation: 1 + ppn as u64,
            fingerprint: Fingerprint(4),
        };
        bulk.program(Ppn(ppn), oob, Content::Bytes(&[ppn as u8; 512])).expect("it is erased");
    }
    let mut by_page = PageByPage(bulk.clone());
    let from: Vec<Ppn> = (1..6).map(Ppn).collect();
    let owners: Vec<Lpn> = (1..6).map(Lpn).collect();
    let run = CopyRun { from: &from, owners: &owners, to: Ppn(16), sequence: 100 };
    let mut page = vec![0; 512];
    let outcome = (2, Err(NandError::Uncorrectable(Ppn(3))));
    assert_eq!(bulk.copy(run, &mut page), outcome);
    assert_eq!(by_page.copy(run, &mut page), outcome);
    for ppn in [16, 17, 18].map(Ppn) {
        assert_eq!(bulk.probe(ppn), by_page.probe(ppn));
    }
}

/// Bytes and descriptors run the same code: the same writes give the same counters. Page-aligned, as a descriptor
/// stands for a whole page.
#[test]
fn bytes_and_descriptors_give_the_same_counters() {
    for (number, world) in (0u64..).zip(worlds()) {
        for buffer in BUFFERS {
            let parts = recycling(gc(VictimPolicy::RecycleAware), StorePolicy::Probability, Some(6));
            let mut live = device(&world, &parts, buffer, full_medium(&world));
            let mut replay =
                device(&world, &parts, buffer, SimNand::new(world.geometry.clone(), parts.retain()));
            let mut oracle = Oracle::of(&live, CONTENTS as usize);
            let (mut random, page) = (Random::new(number), oracle.page_sectors());
            for _ in 0..OPERATIONS {
                let lpn = random.below(oracle.sectors() / page);
                let id = random.below(CONTENTS as u64) as u16;
                oracle.apply(&mut live, Op::Write { first: lpn * page, sectors: page, id }).expect("it fits");
                // Content 0 is the page of zeros on both sides.
                replay.write_page(Lpn(lpn as u32), Descriptor::of(Fingerprint(id as u64))).expect("it fits");
            }
            assert_eq!(live.ftl().stats(), replay.ftl().stats(), "world {}", world.name);
            assert!(live.ftl().stats().recycled_writes > 100);
        }
    }
}
