//! Tests that every design behaves like a plain array, on every world (tiny device), with and without a write buffer,
//! under random host operations.
//!
//! More than a million operations per design are distributed over the worlds: writes of whole pages and of sectors,
//! reads, trims, flushes and changes of policies, and for designs of several mechanisms also switches of content
//! schemes. The bytes of every read are compared. `just soak` executes all operations. `cargo test` executes a
//! quarter of them on one world, a sixteenth on the smallest and the fullest, and an eighth on the others. On one world
//! it executes all of them with every second design.
//! How often the device is audited is documented at `FIRST_AUDITED_OPERATIONS`.

use common::{
    BUFFERS, DesignUnderTest, FailureContext, OperationGenerator, Oracle, Random, SchemeSwitcher, TinyDevice,
    audit, designs, device, nand_with_all_page_fields, test_case_interval,
};
use wearwell::lifetime::MechanismKind;
use wearwell::sharing::reverse_map::ReverseMapKind;
use wearwell::write_buffer::WriteBufferOptions;

use crate::common;

/// Number of distinct contents. They are few, so that contents often become invalid and are written again.
const CONTENTS: u16 = 9;
/// Maximum number of pages of a world (tiny device) that is audited often.
const TINY_DEVICE_MAX_PAGES: u64 = 160;
/// Number of operations at the beginning of a run after each of which the device is audited. This number applies to
/// long explorations; other runs audit an eighth of it. The operations that follow are audited at intervals: on devices
/// of at most [`TINY_DEVICE_MAX_PAGES`] pages every operation in long explorations and every 8th in other runs, on
/// larger devices every 16th and every 128th.
const FIRST_AUDITED_OPERATIONS: u64 = 1_000;

/// Counts of events that are rare on a small world (tiny device). They are required to occur in several runs together,
/// not in each run.
#[derive(Default)]
struct RareEventCounts {
    /// Number of flash pages into which GC packed live deltas.
    compacted_delta_pages: u64,
    /// Number of host writes for which a dead page was revived.
    recycled_writes: u64,
}

/// Executes random operations on a device and compares all contents with a plain array. Returns the counts of rare
/// events.
fn run(
    design: &DesignUnderTest,
    tiny_device: &TinyDevice,
    buffer: WriteBufferOptions,
    operations: u64,
    seed: u64,
) -> RareEventCounts {
    let contents = design.distinct_content_count(CONTENTS);
    let mut device = device(tiny_device, &design.parts, buffer, nand_with_all_page_fields(tiny_device));
    let mut oracle = Oracle::for_device(&device, contents as usize);
    let (sectors, sectors_per_page) = (oracle.sectors(), oracle.sectors_per_page());
    let mut mix = OperationGenerator {
        random: Random::new(seed),
        sectors,
        sectors_per_page,
        content_count: contents,
        changes_policies: true,
    };
    let mut switching = SchemeSwitcher { random: Random::new(!seed), schemes: design.switchable_schemes() };
    let mut scene =
        FailureContext { run_name: design.name, tiny_device: tiny_device.name, seed, operation_number: 0 };
    let is_tiny = tiny_device.geometry.pages() <= TINY_DEVICE_MAX_PAGES;
    let audited = FIRST_AUDITED_OPERATIONS / test_case_interval(8);
    let audit_interval = if is_tiny { 1 } else { 16 } * test_case_interval(8);
    for operation in 0..operations {
        scene.operation_number = operation;
        let op = switching.draw().unwrap_or_else(|| mix.draw());
        oracle.apply(&mut device, op).unwrap_or_else(|error| panic!("{op:?}: {error}"));
        if operation < audited || operation % audit_interval == 0 {
            audit(&mut device);
        }
    }
    oracle.compare_all_logical_pages(&mut device).expect("a healthy medium reads");
    let stats = device.ftl().stats();
    assert!(stats.gc_victims > operations / 1000, "garbage collection has to be at work");
    if design.parts.content.sharing.is_some_and(|sharing| sharing.reverse_map != ReverseMapKind::OobOnly) {
        assert!(stats.deduplicated_writes > operations / 1000, "deduplication has to be at work");
        assert!(stats.remapped_pages > operations / 1000, "remaps have to be at work");
    }
    if let Some(statistics) = device.ftl().compression_statistics() {
        assert!(statistics.host_written_chunks > operations / 1000, "compression has to be at work");
    }
    if design.parts.content.stateless_mechanisms.contains(MechanismKind::Silent) {
        // A page is seldom written again with one of many contents.
        let least = operations * u64::from(CONTENTS) / u64::from(contents) / 1000;
        assert!(stats.unchanged_writes > least, "silent writes have to occur: {}", stats.unchanged_writes);
    }
    if device.ftl().recycler().is_some() {
        // In a mixture most writes are bound, packed or encoded before recycling is tried. And if pages are shared, few
        // contents that are written again are dead.
        let taken = stats.deduplicated_writes + stats.delta_writes + stats.compressed_chunk_writes;
        let own = stats.host_page_writes - taken;
        let shares = design.parts.content.sharing.is_some();
        assert!(shares || stats.recycled_writes > own / 1000, "recycling has to be at work");
    }
    let compacted_delta_pages =
        device.ftl().delta_statistics().map_or(0, |statistics| statistics.compacted_delta_pages);
    RareEventCounts { compacted_delta_pages, recycled_writes: stats.recycled_writes }
}

/// Runs every design on the world (tiny device) `name`, with the operations split evenly over the write buffers under
/// test.
fn check_every_design_on_tiny_device(name: &str, operations: u64) {
    check_designs_on_tiny_device(name, operations, 1);
}

/// As [`check_every_design_on_tiny_device`], but runs one in `interval` designs.
fn check_designs_on_tiny_device(name: &str, operations: u64, interval: u64) {
    let tiny_device = common::tiny_devices()
        .into_iter()
        .find(|tiny_device| tiny_device.name == name)
        .expect("a known world");
    let operations = operations / BUFFERS.len() as u64;
    let (mut compacted_delta_pages, mut tested) = (0, 0);
    let is_chosen = |(number, design): &(u64, DesignUnderTest)| {
        number.is_multiple_of(interval) && design.fits_on_tiny_device(&tiny_device)
    };
    for (number, design) in (0u64..).zip(designs()).filter(is_chosen) {
        tested += 1;
        let seeds = (0u64..).zip(BUFFERS).map(|(k, buffer)| (1000 * number + k, buffer));
        let runs: Vec<RareEventCounts> =
            seeds.map(|(seed, buffer)| run(&design, &tiny_device, buffer, operations, seed)).collect();
        compacted_delta_pages += runs.iter().map(|run| run.compacted_delta_pages).sum::<u64>();
        let recycled_writes: u64 = runs.iter().map(|run| run.recycled_writes).sum();
        let recycles = design.parts.content.recycle.is_some();
        assert!(recycled_writes > 0 || !recycles, "{}: recycling has to be at work", design.name);
    }
    println!("{name}: {} operations on {tested} designs", tested * BUFFERS.len() as u64 * operations);
    // Without spare space there is no room for old versions.
    assert!(
        compacted_delta_pages > 0 || common::design_name_prefix().is_some() || name == "one_block_spare",
        "delta pages have to be written and collected"
    );
}

#[test]
fn every_design_equals_a_plain_map_on_a_tiny_device() {
    check_every_design_on_tiny_device("tiny", 480_000 / test_case_interval(16));
}

#[test]
fn every_design_equals_a_plain_map_on_an_slc_device() {
    check_designs_on_tiny_device("slc", 90_000, test_case_interval(2));
}

#[test]
fn every_design_equals_a_plain_map_on_many_planes() {
    check_every_design_on_tiny_device("many_planes", 90_000 / test_case_interval(8));
}

#[test]
fn every_design_equals_a_plain_map_on_superblocks() {
    check_every_design_on_tiny_device("superblocks", 120_000 / test_case_interval(8));
}

#[test]
fn every_design_equals_a_plain_map_on_wide_superblocks() {
    check_every_design_on_tiny_device("wide_superblocks", 90_000 / test_case_interval(8));
}

#[test]
fn every_design_equals_a_plain_map_on_large_pages() {
    check_every_design_on_tiny_device("large_pages", 30_000 / test_case_interval(4));
}

#[test]
fn every_design_equals_a_plain_map_on_a_device_with_one_spare_block() {
    check_every_design_on_tiny_device("one_block_spare", 120_000 / test_case_interval(16));
}

#[test]
fn every_design_equals_a_plain_map_on_a_device_with_odd_sizes() {
    check_every_design_on_tiny_device("odd", 60_000 / test_case_interval(8));
}
