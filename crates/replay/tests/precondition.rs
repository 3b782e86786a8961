//! Tests of preconditioning: the constructed steady state is compared with a drive that was overwritten for long, and
//! with theory.
//!
//! Theory is the mean field of greedy collection at the effective utilisation, which leaves out the blocks that each
//! pool keeps free and half of each open block.

use std::ops::ControlFlow::Continue;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::address::{BlockId, Lpn};
use wearwell::data::{ContentDescriptor, Fingerprint};
use wearwell::nand::SimNand;
use wearwell::{Device, DeviceOptions};
use wearwell_config::Config;
use wearwell_replay::workload::draw::uniform_below;
use wearwell_replay::{precondition, theory};

use crate::common;

/// Number of pages in a block of the devices.
const BLOCK_PAGES: u32 = 64;

/// Largest allowed relative difference of write amplification. The largest difference seen is 0.2 %.
const TOLERANCE: f64 = 0.005;

/// Makes a device of `pools` planes with `blocks` blocks each and over-provisioning `spare`.
fn new_device(pools: u32, blocks: u32, spare: f64) -> Device {
    let list = [
        "device.preset=lab-8g".to_owned(),
        format!("device.channels={pools}"),
        format!("device.blocks_per_plane={blocks}"),
        format!("device.pages_per_block={BLOCK_PAGES}"),
        format!("device.over_provisioning={spare}"),
    ];
    device_of_config(&Config::from_text_and_settings(None, &list).unwrap(), "page-map")
}

/// Builds the device of a design as the configuration describes it.
fn device_of_config(config: &Config, design: &str) -> Device {
    let resolved = config.resolve_device(1).unwrap();
    let parts = config.design_parts(design, &resolved).unwrap();
    let nvram_bytes = parts.total_nvram_bytes(&resolved.geometry, resolved.logical_pages);
    let nand = SimNand::new(resolved.geometry, parts.needed_retained_page_fields()).with_nvram(nvram_bytes);
    Device::new(nand, resolved.logical_pages, &parts, DeviceOptions::default()).unwrap()
}

/// Executes uniform random writes, as many as `times` the number of logical pages, and returns their write
/// amplification.
fn measured_amplification(device: &mut Device, times: f64, seed: u64) -> f64 {
    device.ftl_mut().clear_stats();
    let pages = device.ftl().logical_pages() as u64;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    for _ in 0..(pages as f64 * times) as u64 {
        let page = Lpn(uniform_below(&mut random, pages) as u32);
        device.write_page_descriptor(page, ContentDescriptor::of_fingerprint(Fingerprint(1))).unwrap();
    }
    device.ftl().stats().write_amplification()
}

/// Returns the write amplification that the mean-field model predicts for this device. GC starts when a pool falls to
/// `low_blocks` free blocks and frees one, so a pool always has `low_blocks` or one more.
fn predicted_amplification(device: &Device) -> f64 {
    let ftl = device.ftl();
    let (geometry, pools) = (ftl.store().geometry(), ftl.store().allocation_pools() as u64);
    let kept_free = ftl.gc_options().gc_start_free_blocks as u64 * pools;
    let u = theory::effective_utilisation(
        ftl.logical_pages() as u64,
        geometry.pages(),
        kept_free,
        2 * pools,
        geometry.block_pages() as u64,
    );
    theory::greedy_steady_state(u, geometry.block_pages() as usize).write_amplification
}

/// Fills an empty device directly so that it is in the steady state of uniform random writes
/// (`precondition.mode=constructed`).
fn fill_to_constructed_steady_state(device: &mut Device) {
    assert!(precondition::construct_steady_state(device, 7, &mut |_, _| Continue(())).unwrap().is_continue());
}

/// Fills an empty device in order, then overwrites random pages until the first garbage collection, and after it
/// `capacities` times the physical capacity.
fn fill_and_overwrite(device: &mut Device, capacities: f64) {
    assert!(precondition::fill_sequentially(device, &mut |_, _| Continue(())).unwrap().is_continue());
    let flow = precondition::overwrite_at_random(device, capacities, 11, &mut |_, _| Continue(()));
    assert!(flow.unwrap().is_continue());
}

/// Checks that a measured value differs from the expected one by at most the share `tolerance`; `what` names it in the
/// message.
#[track_caller]
fn assert_within(measured: f64, expected: f64, tolerance: f64, what: &str) {
    let error = measured / expected - 1.0;
    println!("{what}: {measured:.4}, expected {expected:.4}, off by {:+.2} %", error * 100.0);
    assert!(error.abs() <= tolerance, "{what}: {measured} instead of {expected}");
}

/// Checks the write amplification of a drive that was constructed in steady state against theory and against a drive
/// that was overwritten until it was steady. It is measured over half as many writes as there are logical pages.
fn assert_constructed_drive_is_steady(pools: u32, blocks: u32, spare: f64) {
    let what = format!("{pools} pools of {blocks} blocks, spare {spare}");
    let mut constructed = new_device(pools, blocks, spare);
    fill_to_constructed_steady_state(&mut constructed);
    constructed.ftl_mut().check().unwrap();
    let at_once = measured_amplification(&mut constructed, 0.5, 1);
    assert_within(
        at_once,
        predicted_amplification(&constructed),
        TOLERANCE,
        &format!("{what}: constructed against theory"),
    );
    let mut overwritten = new_device(pools, blocks, spare);
    fill_and_overwrite(&mut overwritten, 2.0);
    let long_way = measured_amplification(&mut overwritten, 1.0, 1);
    assert_within(at_once, long_way, TOLERANCE, &format!("{what}: constructed against overwritten"));
    // Control: a drive that was only filled is not steady, and its difference exceeds the tolerance.
    let mut filled = new_device(pools, blocks, spare);
    assert!(precondition::fill_sequentially(&mut filled, &mut |_, _| Continue(())).unwrap().is_continue());
    let settling = measured_amplification(&mut filled, 0.5, 1);
    assert!(
        (settling / long_way - 1.0).abs() > 10.0 * TOLERANCE,
        "{what}: filled {settling}, steady {long_way}"
    );
    constructed.ftl_mut().check().unwrap();
}

#[test]
fn a_drive_constructed_in_steady_state_stays_steady_at_7_percent_over_provisioning() {
    assert_constructed_drive_is_steady(1, 8192, 0.07);
}

#[test]
fn a_drive_constructed_in_steady_state_stays_steady_at_15_percent_over_provisioning() {
    assert_constructed_drive_is_steady(1, 8192, 0.15);
}

#[test]
fn a_drive_constructed_in_steady_state_stays_steady_at_28_percent_over_provisioning() {
    assert_constructed_drive_is_steady(1, 4096, 0.28);
}

#[test]
fn a_drive_constructed_in_steady_state_stays_steady_at_utilisation_0_7() {
    assert_constructed_drive_is_steady(1, 4096, 0.4286);
}

#[test]
fn drives_constructed_in_steady_state_stay_steady_with_several_pools() {
    assert_constructed_drive_is_steady(4, 2048, 0.15);
}

#[test]
fn every_page_of_a_constructed_drive_is_mapped_once() {
    for design in ["page-map", "recyclable", "dftl"] {
        let mut device = device_of_config(&common::small_device_config(&[]), design);
        fill_to_constructed_steady_state(&mut device);
        device.ftl_mut().check().unwrap();
        let pages = device.ftl().logical_pages();
        let blocks = device.ftl().store().blocks();
        let is_data = |&block: &BlockId| blocks.kind(block).is_host_data();
        let valid = |block: BlockId| blocks.valid_pages(block);
        let stored: u32 = (0..blocks.len()).map(BlockId).filter(is_data).map(valid).sum();
        assert_eq!(stored, pages, "{design}: as many valid pages as logical ones");
        for page in 0..pages {
            assert!(
                device.ftl_mut().read(Lpn(page), &mut []).unwrap(),
                "{design}: page {page} is not mapped"
            );
        }
    }
}

#[test]
fn steady_state_construction_requires_an_empty_device() {
    let mut device = device_of_config(&common::small_device_config(&[]), "page-map");
    device.write_page_descriptor(Lpn(0), ContentDescriptor::of_fingerprint(Fingerprint(1))).unwrap();
    let refused = precondition::construct_steady_state(&mut device, 1, &mut |_, _| Continue(())).unwrap_err();
    assert!(refused.to_string().contains("empty device"), "{refused}");
    device.ftl_mut().clear_stats();
    assert!(
        precondition::construct_steady_state(&mut device, 1, &mut |_, _| Continue(())).is_err(),
        "cleared is not empty"
    );
}

/// Without spare blocks, the effective utilisation would exceed 1, where the formulas of the theory panic.
#[test]
fn steady_state_construction_refuses_a_device_without_spare_blocks() {
    let config = common::small_device_config(&["device.blocks_per_plane=8", "device.logical_pages=1500"]);
    let mut device = device_of_config(&config, "page-map");
    let refused = precondition::construct_steady_state(&mut device, 1, &mut |_, _| Continue(())).unwrap_err();
    assert!(refused.to_string().contains("set precondition.mode=steady"), "{refused}");
}

/// A fill leaves no dead page, so recycling would find none whatever the content is. Deduplication shows whether
/// contents repeat.
#[test]
fn the_fill_precondition_writes_every_page_once_with_unique_content() {
    let config = common::small_device_config(&[]);
    let mut device = device_of_config(&config, "integrated");
    assert!(precondition::fill_sequentially(&mut device, &mut |_, _| Continue(())).unwrap().is_continue());
    let (pages, stats) = (device.ftl().logical_pages() as u64, device.ftl().stats());
    assert_eq!((stats.host_page_writes, stats.deduplicated_writes), (pages, 0));
    assert_eq!(stats.total_programs(), pages, "each page is programmed, and none twice");
    device.ftl_mut().check().unwrap();
    assert!((0..pages as u32).all(|page| device.ftl().is_known_mapped(Lpn(page))));
    let mut alike = device_of_config(&config, "integrated");
    for page in 0..pages as u32 {
        alike.write_page_descriptor(Lpn(page), ContentDescriptor::of_fingerprint(Fingerprint(1))).unwrap();
    }
    assert!(alike.ftl().stats().deduplicated_writes > pages / 2, "equal contents would have been found");
}

#[test]
fn the_overwrite_precondition_writes_the_requested_capacities() {
    let written = |capacities: f64| {
        let mut device = device_of_config(&common::small_device_config(&[]), "page-map");
        fill_and_overwrite(&mut device, capacities);
        (device.ftl().stats().host_page_writes, device.ftl().store().geometry().pages())
    };
    let ((least, physical), (more, _)) = (written(0.0), written(1.5));
    assert_eq!(more - least, physical * 3 / 2);
}

/// Overwrites end after the set number; the record has a note if write amplification was not steady by then.
#[test]
fn preconditioning_overwrites_that_end_too_early_are_noted() {
    let noted = |capacities: &str| {
        let overwrite = format!("precondition.overwrite={capacities}");
        let settings = ["precondition.mode=steady", &overwrite];
        let record = common::run_on_small_device(&settings, "uniform:pages=10000,requests=2000", "page-map");
        record.notes.iter().any(|note| note.starts_with("preconditioning ended before"))
    };
    assert_eq!([noted("0.05"), noted("6")], [true, false]);
}

/// The construction also writes the translation pages of a map on flash, and the audit reads them back.
#[test]
fn steady_state_construction_works_for_a_map_on_flash() {
    let config = common::config_of_settings(&[
        "device.preset=lab-8g",
        "device.blocks_per_plane=2048",
        "dftl.cache_entries=100",
    ]);
    let mut device = device_of_config(&config, "dftl");
    assert_eq!(
        precondition::construct_steady_state(&mut device, 1, &mut |_, _| Continue(())).unwrap(),
        Continue(())
    );
    device.ftl_mut().check().expect("the invariants hold");
    let last = Lpn(device.ftl().logical_pages() - 1);
    assert!(device.ftl_mut().read(last, &mut []).unwrap(), "every page is mapped");
}

/// Preconditions a drive as in Remap-SSD's Figure 6: random writes until the first collection, then remaps of logical
/// pages to stored pages until 70 % of the reverse-map entries are valid.
#[test]
fn preconditioning_fills_the_requested_share_of_the_reverse_map() {
    for map in ["segments", "nvram-log", "flash-log", "ideal"] {
        let list = [
            "device.preset=lab-8g".to_owned(),
            "device.channels=2".to_owned(),
            "device.blocks_per_plane=64".to_owned(),
            "device.pages_per_block=64".to_owned(),
            "device.over_provisioning=0.2".to_owned(),
            format!("remap.reverse_map={map}"),
            "remap.size_mib=0.0625".to_owned(),
        ];
        let config = Config::from_text_and_settings(None, &list).unwrap();
        let mut device = device_of_config(&config, "remap");
        let entries = config.remap.reverse_map_capacity_entries(&config.resolve_device(1).unwrap().geometry);
        assert_eq!(entries, 4096);
        let mut go_on = |_, _| Continue(());
        let _ = precondition::overwrite_at_random(&mut device, 0.0, 1, &mut go_on).unwrap();
        // To make room for a write, GC may collect one victim in every pool.
        let planes = device.ftl().store().geometry().planes() as u64;
        let victims = device.ftl().stats().gc_victims;
        assert!(
            (1..=planes).contains(&victims),
            "{map}: random writes end with the first collection: {victims}"
        );
        assert!(device.ftl().stats().total_programs() > u64::from(device.ftl().logical_pages()));
        let wanted = entries * 7 / 10;
        let _ = precondition::remap_random_pages(&mut device, wanted, 2, &mut go_on).unwrap();
        let (held, refused) =
            (device.ftl().valid_reverse_map_entries(), device.ftl().stats().writes_due_to_full_reverse_map);
        if map == "segments" {
            // There are fewer segments than blocks, so that binding ends at the first block that gets no segment.
            assert!(held < wanted && refused == 1, "{held} entries, {refused} refused");
        } else {
            assert_eq!((held, refused), (wanted, 0), "{map}");
        }
    }
    let config = Config::from_text_and_settings(None, &["device.preset=lab-8g".to_owned()]).unwrap();
    let mut device = device_of_config(&config, "page-map");
    let _ = precondition::remap_random_pages(&mut device, 10, 2, &mut |_, _| Continue(())).unwrap();
    assert_eq!(device.ftl().stats().total_programs(), 0, "a design that cannot bind is left alone");
}
