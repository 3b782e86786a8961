//! Tests of what holds for a run with default settings: the drive is in use before the first request, over-provisioning
//! has its stated effect, the record says whether the measured part was steady, and no lifetime is longer than the
//! flash allows.

use std::ops::ControlFlow;

use common::generated_input;
use proptest::prelude::*;
use wearwell_config::Config;
use wearwell_replay::record::RunRecord;
use wearwell_replay::replay::Plan;
use wearwell_replay::theory;
use wearwell_trace::Op;

use crate::common;

/// Replays a workload on the default configuration, changed only by `settings`. Unless `settings` change it, the drive
/// gets the default preconditioning, which other tests switch off.
fn run_with_settings(settings: &[&str], load: &str, design: &str) -> RunRecord {
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
    let config = Config::from_text_and_settings(None, &settings).unwrap();
    let input = generated_input(load);
    let plan = Plan::new(&config, &input).unwrap();
    plan.run(design, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Checks that a measured value differs from the expected one by at most the share `tolerance`; `what` names it in the
/// message.
fn assert_within(measured: f64, expected: f64, tolerance: f64, what: &str) {
    println!("{what}: {measured:.4}, expected {expected:.4}");
    assert!((measured / expected - 1.0).abs() <= tolerance, "{what}: {measured} is not {expected}");
}

/// Bug: a tenth of an empty drive stayed unwritten and acted as further spare space, so that write amplification was
/// that of twice the over-provisioning.
#[test]
fn write_amplification_at_a_given_over_provisioning_is_independent_of_drive_size() {
    for pages in [5_000, 20_000, 90_000] {
        for spare in [0.07, 0.15, 0.28] {
            let record = run_with_settings(
                &[&format!("device.over_provisioning={spare}")],
                &format!("uniform:write=1.0,pages={pages},requests=300000"),
                "page-map",
            );
            let block_pages = record.device.block_pages() as usize;
            let expected = theory::greedy_steady_state(1.0 / (1.0 + spare), block_pages).write_amplification;
            assert_within(record.write_amplification, expected, 0.01, &format!("{pages} pages, {spare}"));
            assert!(record.steady.is_steady && record.steady.from_request == 0, "{:?}", record.steady);
        }
    }
}

/// The over-provisioning of a preset is that of the drive as it is sold, and contains the blocks that GC keeps free.
#[test]
fn the_effective_over_provisioning_of_a_preset_predicts_its_write_amplification() {
    for (preset, blocks) in [("lx-40g", 200), ("lx-40g", 400), ("il-64g", 256), ("bench-8g", 64)] {
        let (preset_is, blocks_are) =
            (format!("device.preset={preset}"), format!("device.blocks_per_plane={blocks}"));
        let settings = [&*preset_is, &*blocks_are];
        let pages = run_with_settings(&settings, "uniform:write=1.0,pages=1000,requests=1", "page-map")
            .device
            .logical_pages;
        let workload = format!("uniform:write=1.0,pages={pages},requests=1000000");
        let record = run_with_settings(&settings, &workload, "page-map");
        let acting = record.device.effective_over_provisioning();
        assert!(acting < 0.9 * record.device.over_provisioning, "{preset}: {acting}");
        let block_pages = record.device.block_pages() as usize;
        let expected = theory::greedy_steady_state(1.0 / (1.0 + acting), block_pages).write_amplification;
        assert_within(record.write_amplification, expected, 0.02, &format!("{preset}, {blocks} blocks"));
    }
}

/// Bug: blocks that are bad from the factory counted as spare space.
#[test]
fn factory_bad_blocks_reduce_the_effective_over_provisioning() {
    let of = |settings: &[&str]| {
        let settings = [&["device.preset=lab-8g", "device.blocks_per_plane=128"], settings].concat();
        run_with_settings(&settings, "uniform:write=1.0,pages=1000,requests=1", "page-map").device
    };
    let (good, bad) = (of(&[]), of(&["device.factory_bad_share=0.05"]));
    assert_eq!((good.factory_bad_blocks, bad.logical_pages), (0, good.logical_pages));
    let lost_pages = bad.factory_bad_blocks as f64 * f64::from(bad.block_pages());
    let lost = good.effective_over_provisioning() - bad.effective_over_provisioning();
    assert!(bad.factory_bad_blocks > 0);
    assert_within(lost, lost_pages / bad.logical_pages as f64, 1e-9, "over-provisioning lost");
}

/// Settings of drives with different geometries (planes, blocks and pages).
const GEOMETRIES: [&[&str]; 3] = [
    &[],
    &[
        "device.preset=bench-8g",
        "device.channels=2",
        "device.blocks_per_plane=128",
        "device.pages_per_block=32",
    ],
    &[
        "device.preset=lab-8g",
        "device.planes_per_die=4",
        "device.superblock_planes=2",
        "device.pages_per_block=32",
        "device.fit=1.0",
    ],
];

/// Returns a number of pages for an input, so that a drive sized to the input exports at most four pages more.
/// Otherwise, pages that the input never writes would act as spare space.
fn pages_that_fill_drive(geometry: &[&str]) -> u32 {
    let settings: Vec<String> = geometry
        .iter()
        .chain(&["device.over_provisioning=0.15"])
        .map(|&setting| setting.to_owned())
        .collect();
    let config = Config::from_text_and_settings(None, &settings).unwrap();
    let exported = |pages: u32| config.resolve_device(pages.into()).unwrap().logical_pages;
    let is_met = |&pages: &u32| (pages..=pages + 4).contains(&exported(pages));
    (30_000..200_000).find(is_met).expect("a drive of whole blocks")
}

/// Bug: `precondition.mode=constructed` left a different number of free blocks for each design, so that the results of
/// short runs showed this difference instead of that between the designs.
#[test]
fn write_amplification_of_a_constructed_drive_equals_that_after_a_long_run() {
    for (k, geometry) in GEOMETRIES.iter().enumerate() {
        let pages = pages_that_fill_drive(geometry);
        for design in ["page-map", "dftl", "geckoftl", "recyclable", "remap"] {
            let of = |mode: &str, requests: u32| {
                let mode = format!("precondition.mode={mode}");
                let settings = [geometry, &[&mode[..], "device.over_provisioning=0.15"][..]].concat();
                run_with_settings(
                    &settings,
                    &format!("uniform:write=1.0,pages={pages},requests={requests}"),
                    design,
                )
            };
            let writes = pages * 4;
            let (in_use, constructed, steady) =
                (of("in-use", writes), of("constructed", writes), of("steady", writes));
            // After n drive writes of random pages, one page in e^n is still unwritten.
            let empty = of("none", 6 * writes);
            let what = |name: &str| format!("geometry {k}, {design}, {name}");
            let expected = steady.write_amplification;
            assert_within(in_use.write_amplification, expected, 0.01, &what("in use"));
            assert_within(constructed.write_amplification, expected, 0.01, &what("constructed"));
            assert!(
                empty.steady.is_steady && empty.steady.from_request > 0,
                "{}: {:?}",
                what("empty"),
                empty.steady
            );
            let later = empty.steady.programs as f64 / empty.steady.host_page_writes as f64;
            assert_within(later, expected, 0.01, &what("from empty, steady part"));
        }
    }
}

/// Bug: only 0.02 % of the drive was written, GC never ran, and the table stated a write amplification of 1 without a
/// note.
#[test]
fn a_run_that_writes_little_is_reported_as_not_steady() {
    let drive = ["device.preset=tlc-1t", "device.blocks_per_plane=64"];
    let record = run_with_settings(&drive, "uniform:write=1.0,pages=1000000,requests=300", "page-map");
    assert!(!record.steady.is_steady && record.steady.drive_writes < 0.001, "{:?}", record.steady);
    assert!(record.steady.describe(300).starts_with("not steady: 0.000 drive writes"), "{:?}", record.steady);
}

#[test]
fn a_run_without_an_erase_reports_no_lifetime() {
    let record = run_with_settings(
        &["precondition.mode=none"],
        "uniform:write=1.0,pages=9000,requests=100",
        "page-map",
    );
    let lifetime = &record.lifetime;
    assert_eq!((record.erases, lifetime.host_tb_written_until_worn, lifetime.years), (0, None, None));
}

/// A write of 4 KiB programs a whole page of 16 KiB, four times as many bytes.
#[test]
fn write_amplification_in_bytes_divides_by_host_bytes() {
    let drive = ["device.page_bytes=16384", "precondition.mode=none", "device.fit=0.2", "buffer.pages=0"];
    let record = run_with_settings(&drive, "uniform:write=1.0,pages=40000,requests=3000", "page-map");
    assert_eq!((record.bytes.host_written, record.bytes.mapping_unit), (3_000 * 4_096, 16_384));
    assert_eq!(record.bytes.programmed, record.programs * 16_384);
    assert!(record.bytes.write_amplification.unwrap() >= 4.0 && record.write_amplification < 1.1);
}

/// A host that writes at twice the rate wears the drive out in half of the years.
#[test]
fn lifetime_years_follow_the_host_rate_and_the_time_scale() {
    let load = |rate: u32| format!("uniform:write=1.0,pages=20000,requests=100000,rate={rate}");
    let years = |settings: &[&str], rate: u32| {
        run_with_settings(settings, &load(rate), "page-map").lifetime.years.unwrap()
    };
    let slow = years(&[], 100);
    assert_within(years(&[], 200), slow / 2.0, 0.001, "twice the rate");
    assert_within(years(&["replay.time_scale=0.1"], 100), slow / 10.0, 0.001, "a tenth of the gaps");
    let larger =
        run_with_settings(&[], &load(100), "page-map").with_years_scaled_to_exported_bytes(Some(1 << 30));
    let exported = larger.device.logical_pages as f64 * 4096.0;
    assert_within(
        larger.lifetime.scaled_years.unwrap(),
        slow * (1u64 << 30) as f64 / exported,
        0.001,
        "1 GiB",
    );
}

/// Returns how many TB the host can write to flash of `capacity_bytes` bytes whose blocks are rated for `cycles`. The
/// value is computed from the writes of the input and the programs of the run, so that it is independent of the totals
/// that the record has for the steady part of the run.
fn writable_tb(record: &RunRecord, load: &str, capacity_bytes: f64, cycles: f64) -> f64 {
    let from = record.steady.from_request;
    let requests = common::requests_of(load).into_iter().skip(from as usize);
    let host_bytes: u64 =
        requests.filter(|request| request.op == Op::Write).map(|request| request.len_bytes).sum();
    let before = record.series.iter().find(|point| point.requests == from).map_or(0, |point| point.programs);
    let programmed_bytes = (record.programs - before) as f64 * f64::from(record.device.page_bytes);
    capacity_bytes * cycles * host_bytes as f64 / programmed_bytes / 1e12
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The host can write at most the bytes of the flash times the rated cycles, divided by write amplification. The
    /// lifetime in the record is not above this bound, and less than a millionth below it. Each case also checks that a
    /// lifetime 2 % longer would break the bound.
    #[test]
    fn no_lifetime_is_longer_than_the_flash_allows(
        design in prop::sample::select(vec!["page-map", "dftl", "recyclable", "remap", "delta", "integrated", "geckoftl"]),
        spare in 0.07..0.5_f64,
        pages in 3_000..40_000_u32,
        theta in 0.0..1.2_f64,
        duplicates in 0.0..0.6_f64,
        sizes in prop::sample::select(vec!["", ",compress=0.4,delta=0.2", ",compress=0.9"]),
        pages_per_request in 1..4_u32,
        mode in prop::sample::select(vec!["none", "in-use", "fill", "steady"]),
        shape in prop::sample::select(vec![(4_096_u32, 32_u32, 1_u32), (4_096, 64, 2), (16_384, 64, 1), (8_192, 128, 1)]),
        cycles in 1_u32..20_000,
        is_managed in any::<bool>(),
    ) {
        let (page_bytes, block_pages, superblock_planes) = shape;
        let mut settings = vec![
            format!("device.over_provisioning={spare}"),
            format!("precondition.mode={mode}"),
            format!("device.page_bytes={page_bytes}"),
            format!("device.pages_per_block={block_pages}"),
            format!("device.planes_per_die={}", 2 * superblock_planes),
            format!("device.superblock_planes={superblock_planes}"),
            format!("device.endurance_cycles={cycles}"),
        ];
        if is_managed {
            let schemes = if design == "integrated" { "integrated" } else { "throttling" };
            let managed = ["timing.mode=event", "replay.arrival=think", "lifetime.epoch_s=1"];
            settings.extend(managed.map(str::to_owned));
            settings.push(format!("lifetime.schemes={schemes}"));
        }
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let load = format!(
            "zipf:write=1.0,theta={theta},pages={pages},requests=40000,size={pages_per_request},rate=5000\
             +dup:share={duplicates}{sizes}"
        );
        let record = run_with_settings(&settings, &load, design);
        let layout = &record.device.layout;
        let planes = layout.channels * layout.dies_per_channel * layout.planes_per_die;
        let all_pages = f64::from(planes * layout.blocks_per_plane) * f64::from(block_pages);
        let possible = writable_tb(&record, &load, all_pages * f64::from(page_bytes), f64::from(cycles));
        let is_possible = |written: f64| written <= possible * (1.0 + 1e-6);
        if let Some(written) = record.lifetime.host_tb_written_until_worn {
            prop_assert!(is_possible(written), "{written} TB of {possible}");
            prop_assert!(!is_possible(1.02 * written), "2 % more than {written} TB must break the bound {possible}");
            prop_assert!(record.erases > 0);
        }
        let steady = &record.steady;
        prop_assert!(steady.programs <= record.programs && steady.host_bytes <= record.bytes.host_written);
        // Pages can be programmed only into the space that was free before and the space that erases freed.
        let given_back = record.erases as f64 * f64::from(record.device.block_pages());
        prop_assert!(record.programs as f64 <= record.device.physical_pages as f64 + given_back);
    }
}

/// The configuration in a record has all values that the run used, so that it repeats the run.
#[test]
fn a_run_with_the_recorded_configuration_gives_the_same_record() {
    let cases: [(&str, &[&str]); 4] = [
        ("page-map", &["gc.policy=d-choices", "device.over_provisioning=0.11"]),
        ("recyclable", &["device.fit=0.9", "recycle.policy=lru"]),
        ("geckoftl", &["precondition.mode=aged", "gc.low_blocks=5"]),
        ("dftl", &["precondition.mode=steady", "timing.mode=event", "replay.arrival=closed"]),
    ];
    let load = "zipf:pages=30000,requests=40000";
    for (design, settings) in cases {
        let first = run_with_settings(settings, load, design);
        let again = common::run_input(&first.config, &generated_input(load), design);
        assert_eq!(again.config, first.config, "{design}: nothing more is worked out");
        assert_eq!(again.device, first.device, "{design}");
        let counts = |run: &RunRecord| {
            (run.programs, run.reads, run.erases, run.latency_us.clone(), run.series.clone())
        };
        assert_eq!(counts(&again), counts(&first), "{design}");
    }
}
