//! Integrated lifetime management: the write budget of an epoch, the prediction of demand, algorithm 1, and energy.
//!
//! The models follow sections III-B and IV of the integrated lifetime paper. Algorithm 1 is written statement by
//! statement from its listing. Demand is the "weighted average of previous 10 epochs", with linear weights, which are
//! our choice. The budget is what can still be written, divided by the epochs that are left. Energy is microseconds
//! times milliwatts.

use std::ops::ControlFlow;

use wearwell::lifetime::{
    EnergyModel, SchemeEstimate, WeightedEpochHistory, chunk_written_share, decide_schemes,
    dedup_written_share, epoch_write_budget_bytes, remaining_endurance_bytes,
};
use wearwell_config::Config;
use wearwell_replay::input::Input;
use wearwell_replay::record::RunRecord;
use wearwell_replay::replay::Plan;

/// Page writes and energy of a drive with a write-saving scheme (such as compression), each divided by that of a drive
/// without schemes.
#[derive(Clone, Copy, Debug)]
struct RatiosToDriveWithoutSchemes {
    /// Pages written with the scheme, divided by those without (D in the paper).
    page_writes_ratio: f64,
    /// Energy spent with the scheme, divided by that without (E in the paper).
    energy_ratio: f64,
}

/// Decides by algorithm 1 of the integrated lifetime paper whether deduplication, compression and throttling are
/// enabled.
fn schemes_enabled_by_algorithm_1(
    dedup: RatiosToDriveWithoutSchemes,
    comp: RatiosToDriveWithoutSchemes,
    demand: f64,
    capacity: f64,
) -> [bool; 3] {
    let mut is_dedup_enabled = false;
    let mut is_comp_enabled = false;
    let mut is_throttling_enabled = false;
    let mut w = demand;
    if dedup.page_writes_ratio < 1.0 && dedup.energy_ratio < 1.0 {
        w *= dedup.page_writes_ratio;
        is_dedup_enabled = true;
    }
    if comp.page_writes_ratio < 1.0 && comp.energy_ratio < 1.0 {
        w *= comp.page_writes_ratio;
        is_comp_enabled = true;
    }
    if w < capacity {
        // The algorithm ends here: the demand is below the capacity of the epoch.
    } else {
        if !is_comp_enabled && (1.0 - comp.page_writes_ratio) > (comp.energy_ratio - 1.0) {
            w *= comp.page_writes_ratio;
            is_comp_enabled = true;
        }
        if !is_dedup_enabled && (1.0 - dedup.page_writes_ratio) > (dedup.energy_ratio - 1.0) {
            w *= dedup.page_writes_ratio;
            is_dedup_enabled = true;
        }
        if w > capacity {
            is_throttling_enabled = true;
        }
    }
    [is_dedup_enabled, is_comp_enabled, is_throttling_enabled]
}

/// The write-saving schemes that the engine enables are those of the paper's algorithm 1, over a grid of inputs in
/// which all eight outcomes occur.
#[test]
fn scheme_decisions_are_those_of_the_papers_algorithm_listing() {
    let ratios: Vec<RatiosToDriveWithoutSchemes> = [0.27, 0.44, 0.73, 0.92, 0.9999, 1.0, 1.04]
        .into_iter()
        .flat_map(|d| {
            [0.0, 0.0145, 0.132, 0.264, 0.6].map(|overhead| RatiosToDriveWithoutSchemes {
                page_writes_ratio: d,
                energy_ratio: d + overhead,
            })
        })
        .collect();
    let (mut cases, mut outcomes) = (0, std::collections::BTreeSet::new());
    for &dedup in &ratios {
        for &comp in &ratios {
            for demand in [0.1, 0.6, 0.99, 1.0, 1.01, 1.3, 2.4, 20.0] {
                let expected = schemes_enabled_by_algorithm_1(dedup, comp, demand * 4e8, 4e8);
                let [first, second] = [dedup, comp].map(
                    |RatiosToDriveWithoutSchemes { page_writes_ratio: d, energy_ratio: e }| SchemeEstimate {
                        written_share_of_offered_bytes: d,
                        total_energy_per_page_in_program_energies: e,
                    },
                );
                let decision = decide_schemes(&[first, second], demand * 4e8, 4e8);
                let throttled = decision.throttle_bytes_per_epoch;
                let decided = [
                    decision.enabled_schemes.contains(0),
                    decision.enabled_schemes.contains(1),
                    throttled.is_some(),
                ];
                assert_eq!(decided, expected, "dedup {dedup:?}, compression {comp:?}, W = {demand} C");
                assert!(throttled.is_none_or(|bytes| bytes == 400_000_000), "throttled to {throttled:?}");
                outcomes.insert(expected);
                cases += 1;
            }
        }
    }
    println!("{cases} cases, outcomes {outcomes:?}");
    assert_eq!(outcomes.len(), 8, "of all on or off: {outcomes:?}");
}

#[test]
fn predicted_demand_is_the_linear_average_of_ten_epochs() {
    let demands: Vec<f64> = (0..40).map(|epoch| ((epoch * 7919) % 101) as f64 + 1.0).collect();
    let mut history = WeightedEpochHistory::default();
    assert_eq!(history.average(), None);
    for (epoch, &demand) in demands.iter().enumerate() {
        history.push_epoch(demand);
        let (mut sum, mut weights) = (0.0, 0.0);
        for (age, value) in demands[..=epoch].iter().rev().take(10).enumerate() {
            // Linear weights from 10 for the latest epoch down to 1; epochs before the first have no weight.
            let weight = (10 - age) as f64;
            sum += weight * value;
            weights += weight;
        }
        let average = history.average().expect("an epoch is known");
        // Engine and test add up in different orders, so the last digits differ.
        assert!((average / (sum / weights) - 1.0).abs() < 1e-12, "epoch {epoch}: {average}");
    }
}

/// The budget of a drive of 64 GiB, 3,000 cycles and five years, at the start of its life and at three later moments.
#[test]
fn the_write_budget_of_an_epoch_is_the_remaining_budget_over_the_remaining_epochs() {
    let (block_bytes, blocks, cycles) = (128 * 4096, 64 * 1024 * 1024 * 1024 / (128 * 4096), 3_000);
    let epochs = 5 * 365 * 24 * 12;
    let fresh = epoch_write_budget_bytes(remaining_endurance_bytes(blocks, cycles, 0, block_bytes), epochs);
    let by_hand = 64.0 * 1_073_741_824.0 * 3_000.0 / 525_600.0;
    assert!((fresh - by_hand).abs() < 1.0, "{fresh} and {by_hand} bytes");
    assert_eq!(format!("{:.6}", fresh / 300.0 / 1e6), "1.307448", "MB/s");
    for (erases, passed) in [(1_000_000, 3_000), (200_000_000, 400_000), (393_000_000, 525_599)] {
        let remaining = remaining_endurance_bytes(blocks, cycles, erases, block_bytes);
        let capacity = epoch_write_budget_bytes(remaining, epochs - passed);
        let by_hand = (131_072.0 * 3_000.0 - erases as f64) * 524_288.0 / (525_600.0 - passed as f64);
        assert!((capacity / by_hand - 1.0).abs() < 1e-9, "{capacity} and {by_hand} after {erases} erases");
    }
}

/// Replays a workload on an empty drive of this design and these settings.
fn run_design(settings: &[&str], load: &str, design: &str) -> RunRecord {
    let settings: Vec<String> =
        ["precondition.mode=none"].iter().chain(settings).map(|&setting| setting.to_owned()).collect();
    let config = Config::from_text_and_settings(None, &settings).expect("settings exist");
    let input = Input::of_generator_spec(load).expect("a load");
    let plan = Plan::new(&config, &input).expect("it fits");
    plan.run(design, &mut |_| ControlFlow::Continue(())).expect("it runs")
}

/// The host writes to a drive of the size in the integrated lifetime paper faster than five years allow. In the first
/// epoch nothing is known, and algorithm 1 does not throttle: the time from one write to the next is the gap in the
/// workload plus the duration of a write. After it, the program rate is capacity times rated cycles divided by five
/// years, within 0.1 %.
#[test]
fn a_throttled_drive_programs_at_the_rate_of_its_lifetime_target() {
    let settings =
        ["device.preset=il-64g", "timing.mode=event", "replay.arrival=think", "lifetime.schemes=throttling"];
    let record = run_design(&settings, "sequential:pages=500000,requests=500000,rate=957.6", "page-map");
    let lifetime = &record.lifetime;
    // The period is the gap plus program time and transfer of a page.
    let unthrottled_pages = 300.0 / (1.0 / 957.6 + 610.24e-6);
    let rate = (record.programs as f64 - unthrottled_pages) * 4096.0 / (lifetime.elapsed_s - 300.0);
    let equation = 64.0 * 1_073_741_824.0 * 3_000.0 / (5.0 * 365.0 * 86_400.0);
    println!("{rate:.1} bytes/s, equation {equation:.1}, {} epochs, {lifetime:?}", lifetime.epochs);
    assert!(lifetime.epochs > 3);
    assert_eq!(lifetime.throttled_epochs, lifetime.epochs - 1);
    assert!((rate / equation - 1.0).abs() < 0.001, "{rate} bytes/s, the equation says {equation}");
}

/// Energy to compress a page, microjoules: 64 us at 60 mW. As in section IV of the integrated lifetime paper, hashing a
/// page takes 8.6 us at 49 mW ([`HASH_UJ`]), and programming it 600 us at 48.5 mW ([`PROGRAM_UJ`]).
const COMPRESS_UJ: f64 = 64.0 * 60.0 / 1e3;
/// Energy to hash a page, microjoules: 8.6 us at 49 mW.
const HASH_UJ: f64 = 8.6 * 49.0 / 1e3;
/// Energy to program a page, microjoules: 600 us at 48.5 mW.
const PROGRAM_UJ: f64 = 600.0 * 48.5 / 1e3;

#[test]
fn the_energy_of_a_page_operation_is_time_times_power() {
    let energy = EnergyModel::STATED_IN_PAPER;
    let uj = |cost: wearwell::lifetime::PageOperationCost| cost.energy_pj() as f64 / 1e6;
    assert_eq!(
        (uj(energy.compression), uj(energy.hash), uj(energy.program)),
        (COMPRESS_UJ, 0.4214, PROGRAM_UJ)
    );
    assert!((energy.compression_energy_in_program_energies() - COMPRESS_UJ / PROGRAM_UJ).abs() < 1e-12);
    assert!((energy.dedup_energy_in_program_energies() - HASH_UJ / PROGRAM_UJ).abs() < 1e-12);
    // Figure 2: a chunk of four pages is stored in four, three, two or one; deduplication removes single pages.
    for percent in 0..=100 {
        let removed = percent as f64 / 100.0;
        let pages = (400 - 4 * percent) as u32;
        let whole = pages.div_ceil(100).max(1) as f64 / 4.0;
        assert!((chunk_written_share(removed, 4) - whole).abs() < 1e-12, "{percent} % removed");
        assert!((dedup_written_share(removed) - (1.0 - removed)).abs() < 1e-12);
    }
}

/// Compares the energy per host page that the engine computes from its counters (hashes, compressed pages, programs)
/// with figure 2 of the integrated lifetime paper: E = D + e, where D is the share of pages that are still programmed
/// and e the energy of the scheme itself. D is known for the contents of this test.
#[test]
fn energy_per_page_of_each_content_scheme_is_that_of_the_integrated_lifetime_paper() {
    let on_paper = |schemes: &str, d: f64| match schemes {
        "baseline" => PROGRAM_UJ,
        "compression" => COMPRESS_UJ + d * PROGRAM_UJ,
        "dedup" => HASH_UJ + d * PROGRAM_UJ,
        _ => unreachable!(),
    };
    for (schemes, content, d) in [
        ("baseline", "unique:compress=0.4", 1.0),
        ("compression", "unique:compress=0.9,compress_sigma=0", 1.0),
        ("compression", "unique:compress=0.7,compress_sigma=0", 0.75),
        ("compression", "unique:compress=0.4,compress_sigma=0", 0.5),
        ("compression", "unique:compress=0.2,compress_sigma=0", 0.25),
        ("dedup", "unique", 1.0),
        // At most 15 logical pages refer to a flash page.
        ("dedup", "same", 1.0 / 15.0),
    ] {
        let settings = [
            "device.preset=il-64g",
            "device.blocks_per_plane=32",
            "device.logical_pages=30000",
            "timing.mode=event",
            "replay.arrival=think",
        ];
        let scheme = format!("lifetime.schemes={schemes}");
        let load = format!("sequential:pages=20000,requests=20000,rate=500+{content}");
        let record = run_design(&[&settings[..], &[&scheme]].concat(), &load, "integrated");
        let measured = record.lifetime.energy_uj_per_page;
        println!("{schemes}, {content}: {measured:.4} uJ, on paper {:.4}", on_paper(schemes, d));
        // A chunk that is not full at the end is not programmed, and the first page of equal content is.
        let tolerance = 4.0 * PROGRAM_UJ / 20_000.0;
        assert!((measured - on_paper(schemes, d)).abs() <= tolerance, "{schemes}, {content}: {measured} uJ");
    }
}
