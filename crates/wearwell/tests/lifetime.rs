//! Tests of lifetime management: energies, predictions, algorithm 1, the token bucket, and the manager over epochs.
//!
//! Figures of the paper ("integrated lifetime management", IL) are cited by their place in it.

#![expect(clippy::float_cmp, reason = "sums and quotients of small integers and binary fractions are exact")]

use proptest::prelude::*;
use wearwell::data::Fingerprint;
use wearwell::lifetime::{
    EnergyModel, EpochDecision, LifetimeController, LifetimeCounters, LifetimeOptions,
    LifetimePaperConfiguration, SchemeByteCounts, SchemeEstimate, SchemeSet, ShadowSampler, Throttle,
    WeightedEpochHistory, WriteActivity, WrittenShareEstimate, chunk_written_share, decide_schemes,
    dedup_written_share, epoch_write_budget_bytes, pages_per_chunk, remaining_endurance_bytes,
};

/// Bytes of a MiB.
const MIB: f64 = 1_048_576.0;
/// Length of an epoch (period for which the lifetime manager decides), nanoseconds.
const EPOCH_NS: u64 = 300_000_000_000;

/// Asserts that `value`, rounded to as many decimals as `printed` has, equals `printed`.
#[track_caller]
fn assert_prints(value: f64, printed: &str) {
    let decimals = printed.split('.').nth(1).map_or(0, str::len);
    assert_eq!(format!("{value:.decimals$}"), printed);
}

// Energy (paper, section IV and figure 2).

/// Energies of compression, hash and program (paper, section IV): 64 us at 60 mW, 8.6 us at 49 mW, 600 us at 48.5 mW.
#[test]
fn scheme_energies_follow_from_the_papers_powers_and_times() {
    let model = EnergyModel::STATED_IN_PAPER;
    assert_eq!(model.compression.energy_pj(), 3_840_000);
    assert_eq!(model.hash.energy_pj(), 421_400);
    assert_eq!(model.program.energy_pj(), 29_100_000);
    assert_prints(model.compression_energy_in_program_energies(), "0.132");
    assert_prints(model.dedup_energy_in_program_energies(), "0.0145");
    assert_prints(EnergyModel::FITTED_TO_PAPER.compression_energy_in_program_energies(), "0.264");
    assert_eq!(EnergyModel::FITTED_TO_PAPER.hash, model.hash);
    assert_eq!(EnergyModel::FITTED_TO_PAPER.program, model.program);
}

/// Paper, figure 2a: four pages are compressed together, and only whole flash pages are saved. So compression saves
/// nothing if it removes less than 0.25 of their bytes.
#[test]
fn compressing_four_pages_saves_only_whole_flash_pages() {
    let steps = [
        (0.0, 1.0),
        (0.249, 1.0),
        (0.25, 0.75),
        (0.499, 0.75),
        (0.5, 0.5),
        (0.749, 0.5),
        (0.75, 0.25),
        (1.0, 0.25),
    ];
    for (removed, kept) in steps {
        assert_eq!(chunk_written_share(removed, 4), kept, "ratio {removed}");
    }
    assert_eq!(chunk_written_share(2.0 / 3.0, 3), 1.0 / 3.0, "a third is not a hair more than a page");
    assert_eq!(chunk_written_share(0.99, 1), 1.0, "a page alone cannot become less than a page");
    assert_eq!(chunk_written_share(-0.1, 4), 1.0, "what grows is stored raw");
    assert_eq!([1, 4096, 4097, 16_384].map(|bytes| pages_per_chunk(bytes, 4096)), [1, 1, 2, 4]);
}

/// Paper, figure 2a: the smallest compression ratio that saves energy. The text of the paper says 0.5, but its own
/// times and powers give 0.25. With twice the energy of compression they give 0.5.
#[test]
fn compression_breaks_even_at_ratio_0_25_with_stated_and_0_5_with_fitted_energies() {
    let energy = |removed, model: EnergyModel| {
        SchemeEstimate::new(chunk_written_share(removed, 4), model.compression_energy_in_program_energies())
            .total_energy_per_page_in_program_energies
    };
    let threshold = |model| (0..=100).map(|percent| percent as f64 / 100.0).find(|&r| energy(r, model) < 1.0);
    assert_eq!(threshold(EnergyModel::STATED_IN_PAPER), Some(0.25));
    assert_eq!(threshold(EnergyModel::FITTED_TO_PAPER), Some(0.5));
    assert_prints(energy(0.25, EnergyModel::STATED_IN_PAPER), "0.882");
    assert_prints(energy(0.25, EnergyModel::FITTED_TO_PAPER), "1.014");
    assert_prints(energy(0.5, EnergyModel::FITTED_TO_PAPER), "0.764");
}

/// Paper, figure 2b: deduplication saves writes in proportion to the share of duplicates. It saves energy if the share
/// is at least 1.45 %.
#[test]
fn deduplication_saves_writes_and_energy_in_proportion_to_duplicates() {
    let overhead = EnergyModel::STATED_IN_PAPER.dedup_energy_in_program_energies();
    let estimate = |duplicates| SchemeEstimate::new(dedup_written_share(duplicates), overhead);
    for percent in 0..=100 {
        let duplicates = percent as f64 / 100.0;
        assert!((estimate(duplicates).written_share_of_offered_bytes - (1.0 - duplicates)).abs() < 1e-12);
        assert!(
            (estimate(duplicates).total_energy_per_page_in_program_energies - (1.0 - duplicates + overhead))
                .abs()
                < 1e-12
        );
    }
    assert_prints(100.0 * overhead, "1.45");
    assert!(
        estimate(0.0144).total_energy_per_page_in_program_energies > 1.0
            && estimate(0.0145).total_energy_per_page_in_program_energies < 1.0
    );
}

// Epochs (paper, section III-B1).

/// The paper's device has 64 GiB and 3000 erase cycles for five years, from which the write capacity of an epoch
/// follows.
#[test]
fn the_epoch_write_budget_of_a_new_device_equals_that_of_the_integrated_lifetime_paper() {
    let options = LifetimeOptions::of_integrated_lifetime_paper(
        LifetimePaperConfiguration::Integrated,
        &EnergyModel::STATED_IN_PAPER,
    );
    assert_eq!(options.target_epochs(), 525_600);
    let blocks = 131_072;
    let left = remaining_endurance_bytes(blocks, 3000, 0, 128 * 4096);
    assert_prints(left as f64 / (MIB * MIB), "187.5");
    let capacity = epoch_write_budget_bytes(left, options.target_epochs());
    assert_prints(capacity / MIB, "374.06");
    assert_prints(capacity / 1e6, "392.2");
    assert_prints(capacity / 4096.0, "95760");
    assert_prints(capacity / 300.0 / 1e6, "1.307");
}

/// Table I of the paper: the flash write rates implied by the baseline lifetimes of 6.8, 3.8 and 3.04 years (77, 138
/// and 173 GiB a day).
#[test]
fn write_rates_derived_from_lifetimes_match_table_1_of_the_integrated_lifetime_paper() {
    let left = remaining_endurance_bytes(131_072, 3000, 0, 128 * 4096) as f64;
    let rates = [(6.8, "0.961", "77"), (3.8, "1.720", "138"), (3.04, "2.150", "173")];
    for (years, megabytes_per_s, gib_per_day) in rates {
        let rate = left / (years * wearwell::lifetime::YEAR_S as f64);
        assert_prints(rate / 1e6, megabytes_per_s);
        assert_prints(rate * 86_400.0 / (MIB * 1024.0), gib_per_day);
    }
}

/// The bytes that the device may program in an epoch are its remaining endurance divided by the remaining epochs of its
/// target life.
#[test]
fn the_epoch_write_budget_is_the_remaining_endurance_divided_by_the_remaining_epochs() {
    assert_eq!(epoch_write_budget_bytes(1000, 10), 100.0);
    assert_eq!(epoch_write_budget_bytes(1000, 1), 1000.0);
    assert_eq!(epoch_write_budget_bytes(1000, 0), 1000.0, "after the target all that is left may be used");
    assert_eq!(remaining_endurance_bytes(10, 100, 990, 64), 640);
    assert_eq!(remaining_endurance_bytes(10, 100, 1001, 64), 0, "more erases than rated");
}

#[test]
fn expected_write_demand_weighs_the_newest_epoch_ten_times_the_oldest() {
    let mut history = WeightedEpochHistory::default();
    assert_eq!(history.average(), None);
    history.push_epoch(7.0);
    assert_eq!(history.average(), Some(7.0));
    history.push_epoch(26.0);
    assert_eq!(history.average(), Some((10.0 * 26.0 + 9.0 * 7.0) / 19.0));
    for _ in 0..9 {
        history.push_epoch(0.0);
    }
    assert_eq!(history.average(), Some(26.0 / 55.0), "the second of eleven is the oldest of ten");
    history.push_epoch(55.0);
    assert_eq!(history.average(), Some(10.0));
}

/// Two hosts that write equally have the same write demand, even if content schemes run, or writes are throttled, on
/// only one of them.
#[test]
fn measured_write_demand_does_not_depend_on_schemes_and_throttling() {
    let plain =
        WriteActivity { host_bytes: 1000, host_programmed_bytes: 1000, flash_bytes: 1500, throttled_ns: 0 };
    assert_eq!(plain.expected_flash_bytes_per_epoch(EPOCH_NS, EPOCH_NS), 1500.0);
    let halved = WriteActivity { host_programmed_bytes: 500, flash_bytes: 750, ..plain };
    assert_eq!(halved.expected_flash_bytes_per_epoch(EPOCH_NS, EPOCH_NS), 1500.0);
    let held = WriteActivity { throttled_ns: EPOCH_NS, ..plain };
    assert_eq!(held.expected_flash_bytes_per_epoch(2 * EPOCH_NS, EPOCH_NS), 1500.0);
    assert_eq!(plain.expected_flash_bytes_per_epoch(3 * EPOCH_NS, EPOCH_NS), 500.0, "three epochs took it");
    let all_duplicates = WriteActivity { host_programmed_bytes: 0, flash_bytes: 0, ..plain };
    assert_eq!(all_duplicates.expected_flash_bytes_per_epoch(EPOCH_NS, EPOCH_NS), 1000.0);
}

// Algorithm 1 of the paper.

/// Decides statement by statement as the listing of algorithm 1 in the paper does, independently of the implementation.
/// Its arguments are the write and energy ratios of deduplication and compression, the write demand and the capacity.
/// Returns whether deduplication, compression and throttling are enabled.
fn decide_by_listing_of_algorithm_1(
    dedup: (f64, f64),
    comp: (f64, f64),
    demand: f64,
    capacity: f64,
) -> (bool, bool, bool) {
    let (d_dedup, e_dedup) = dedup;
    let (d_comp, e_comp) = comp;
    let (mut is_dedup_enabled, mut is_compr_enabled, mut is_throttling_enabled) = (false, false, false);
    let mut w = demand;
    if d_dedup < 1.0 && e_dedup < 1.0 {
        w *= d_dedup;
        is_dedup_enabled = true;
    }
    if d_comp < 1.0 && e_comp < 1.0 {
        w *= d_comp;
        is_compr_enabled = true;
    }
    if w < capacity {
        // The first stage suffices.
    } else {
        if !is_compr_enabled && (1.0 - d_comp) > (e_comp - 1.0) {
            w *= d_comp;
            is_compr_enabled = true;
        }
        if !is_dedup_enabled && (1.0 - d_dedup) > (e_dedup - 1.0) {
            w *= d_dedup;
            is_dedup_enabled = true;
        }
        if w > capacity {
            is_throttling_enabled = true;
        }
    }
    (is_dedup_enabled, is_compr_enabled, is_throttling_enabled)
}

/// The conditions in the paper's listing of algorithm 1 define regions of inputs. The test covers each region and its
/// borders. Ratios are binary fractions, so that products are exact and borders are hit.
#[test]
fn scheme_decisions_match_algorithm_1_of_the_integrated_lifetime_paper_in_every_region_of_inputs() {
    let ratios = [0.25, 0.5, 0.75, 1.0, 1.25];
    let overheads = [0.0, 0.0625, 0.25, 0.5, 1.0];
    let pairs = ratios.iter().flat_map(|&d| overheads.iter().map(move |&e| (d, d + e)));
    let pairs: Vec<(f64, f64)> = pairs.collect();
    let mut seen = std::collections::BTreeMap::new();
    for &dedup in &pairs {
        for &comp in &pairs {
            for factor in [0.0625, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0, 1.5, 4.0] {
                let (demand, capacity) = (65_536.0, 65_536.0 * factor);
                let estimates = [dedup, comp].map(|(d, e)| SchemeEstimate {
                    written_share_of_offered_bytes: d,
                    total_energy_per_page_in_program_energies: e,
                });
                let decision = decide_schemes(&estimates, demand, capacity);
                let throttled = decision.throttle_bytes_per_epoch;
                let outcome = (
                    decision.enabled_schemes.contains(0),
                    decision.enabled_schemes.contains(1),
                    throttled.is_some(),
                );
                assert_eq!(
                    outcome,
                    decide_by_listing_of_algorithm_1(dedup, comp, demand, capacity),
                    "dedup {dedup:?}, compression {comp:?}, capacity {factor} of the demand"
                );
                assert!(throttled.is_none_or(|bytes| bytes == capacity as u64));
                *seen.entry(outcome).or_insert(0) += 1;
            }
        }
    }
    assert_eq!(seen.len(), 8, "every combination of switches occurs: {seen:?}");
}

/// The algorithm is tested for one and for three schemes, in all 2^k outcomes of the conditions of k schemes.
#[test]
fn scheme_decisions_work_for_one_and_three_schemes() {
    let throttled = |demand: f64, schemes: &[SchemeEstimate]| {
        let decision = decide_schemes(schemes, demand, 100.0);
        (decision.enabled_schemes, decision.throttle_bytes_per_epoch.is_some())
    };
    assert_eq!(throttled(99.0, &[]), (SchemeSet::NONE, false));
    assert_eq!(throttled(100.0, &[]), (SchemeSet::NONE, false), "what fits exactly is not throttled");
    assert_eq!(throttled(101.0, &[]), (SchemeSet::NONE, true));

    let free = SchemeEstimate::new(0.5, 0.1);
    let dear = SchemeEstimate::new(0.5, 0.75);
    let useless = SchemeEstimate::new(1.0, 0.1);
    let kinds = [free, dear, useless];
    for first in kinds {
        for second in kinds {
            for third in kinds {
                let schemes = [first, second, third];
                let cheap = schemes.iter().filter(|&&scheme| scheme == free).count();
                let all = schemes.iter().filter(|&&scheme| scheme != useless).count();
                for demand in [60.0, 150.0, 250.0, 500.0, 1000.0] {
                    let (enabled, is_throttled) = throttled(demand, &schemes);
                    let is_enough = demand / f64::from(1 << cheap) < 100.0;
                    assert_eq!(enabled.len(), if is_enough { cheap } else { all });
                    assert_eq!(is_throttled, !is_enough && demand / f64::from(1 << all) > 100.0);
                }
            }
        }
    }
}

/// Compares the decisions for the three traces of the paper's table I. The ratios follow from the lifetimes in the
/// table, and the device has 64 GiB and is new.
#[test]
fn scheme_decisions_for_the_traces_of_table_1_match_the_integrated_lifetime_paper() {
    let capacity = 392.2e6;
    let demand = |years: f64| capacity * 5.0 / years;
    let schemes = |d_dedup, d_comp, model: EnergyModel| {
        [
            SchemeEstimate::new(d_dedup, model.dedup_energy_in_program_energies()),
            SchemeEstimate::new(d_comp, model.compression_energy_in_program_energies()),
        ]
    };
    for model in [EnergyModel::STATED_IN_PAPER, EnergyModel::FITTED_TO_PAPER] {
        // Trace WKSN: both schemes save, and five years are reached easily.
        let wksn = decide_schemes(&schemes(0.819, 0.325, model), demand(6.8), capacity);
        assert_eq!(
            (wksn.enabled_schemes, wksn.throttle_bytes_per_epoch),
            (SchemeSet::of_first_schemes(2), None)
        );
        // Trace DVMT: compression helps, with the fitted energy only because writes are short; throttled.
        let dvmt = decide_schemes(&schemes(0.99, 0.833, model), demand(3.04), capacity);
        assert!(dvmt.enabled_schemes.contains(1) && dvmt.throttle_bytes_per_epoch.is_some());
        let lightly_used = decide_schemes(&schemes(0.99, 0.833, model), demand(10.0), capacity);
        assert_eq!(lightly_used.enabled_schemes.contains(1), model == EnergyModel::STATED_IN_PAPER);
    }
    // Trace Media: with the fitted energy, compression is not worth its energy (D = 0.987); deduplication hardly
    // matters.
    let media = decide_schemes(&schemes(0.997, 0.987, EnergyModel::FITTED_TO_PAPER), demand(3.8), capacity);
    assert!(!media.enabled_schemes.contains(1) && media.throttle_bytes_per_epoch.is_some());
}

/// Generates up to five content schemes with random write and energy ratios.
fn schemes() -> impl Strategy<Value = Vec<SchemeEstimate>> {
    let scheme = (0.01..1.3_f64, 0.0..1.2_f64).prop_map(|(d, e)| SchemeEstimate::new(d, e));
    prop::collection::vec(scheme, 0..6)
}

proptest! {
    /// If the write capacity of an epoch grows, no further scheme is enabled, and throttling does not start.
    #[test]
    fn more_write_capacity_per_epoch_never_enables_more_schemes_or_throttling(
        schemes in schemes(), demand in 1.0..1e12_f64, share in 0.001..3.0_f64, more in 1.0..3.0_f64,
    ) {
        let tight = decide_schemes(&schemes, demand, demand * share);
        let ample = decide_schemes(&schemes, demand, demand * share * more);
        for k in 0..schemes.len() {
            prop_assert!(tight.enabled_schemes.contains(k) || !ample.enabled_schemes.contains(k));
        }
        prop_assert!(tight.throttle_bytes_per_epoch.is_some() || ample.throttle_bytes_per_epoch.is_none());
    }

    #[test]
    fn a_device_with_an_unlimited_write_budget_is_never_throttled(schemes in schemes(), demand in 0.0..1e15_f64) {
        prop_assert_eq!(decide_schemes(&schemes, demand, f64::INFINITY).throttle_bytes_per_epoch, None);
    }

    /// A scheme whose write ratio is at least 1 saves no writes. It is never enabled, even with an energy ratio that no
    /// real scheme has.
    #[test]
    fn a_scheme_that_saves_no_writes_is_never_enabled(
        others in schemes(), energy in 0.0..2.0_f64, ratio in 1.0..2.0_f64, share in 0.001..3.0_f64,
    ) {
        let mut all = others.clone();
        all.push(SchemeEstimate { written_share_of_offered_bytes: ratio, total_energy_per_page_in_program_energies: energy });
        let decision = decide_schemes(&all, 1e9, 1e9 * share);
        prop_assert!(!decision.enabled_schemes.contains(others.len()));
        prop_assert_eq!(decision, decide_schemes(&others, 1e9, 1e9 * share), "and changes nothing for the others");
    }

    /// After the decision the writes either fit the capacity of the epoch, or they are throttled to it and all schemes
    /// run that save energy.
    #[test]
    fn a_scheme_decision_fits_writes_to_the_capacity_or_throttles_them(schemes in schemes(), demand in 1.0..1e12_f64, share in 0.001..3.0_f64) {
        let capacity = demand * share;
        let decision = decide_schemes(&schemes, demand, capacity);
        let kept: f64 = (0..schemes.len()).filter(|&k| decision.enabled_schemes.contains(k)).map(|k| schemes[k].written_share_of_offered_bytes).product();
        let fits = demand * kept <= capacity * (1.0 + 1e-12);
        prop_assert!(fits || decision.throttle_bytes_per_epoch == Some(capacity as u64));
    }
}

// Shadow sampling of schemes that do not run.

/// While a content scheme is off, it examines samples of the writes. A sample is a group of consecutive writes, and one
/// group in 64 is taken.
#[test]
fn shadow_sampling_takes_one_group_of_writes_in_64_as_a_whole() {
    let sampler = ShadowSampler::default();
    let taken: Vec<u64> = (0..1 << 20).filter(|&n| sampler.should_sample_write(n)).collect();
    let share = taken.len() as f64 / (1 << 20) as f64 * 64.0;
    // 4096 groups are expected, so the standard deviation is 1.6 %.
    assert!((share - 1.0).abs() < 0.06, "{share} of what was asked for");
    assert!(taken.chunks(4).all(|group| group[0] % 4 == 0 && group[3] == group[0] + 3));
    let steps: std::collections::BTreeSet<u64> = taken.windows(5).map(|w| w[4] - w[0]).collect();
    assert!(steps.len() > 50, "the sample has a period");
}

/// Sampling by content takes all writes of one in sixteen contents.
#[test]
fn shadow_sampling_takes_every_write_of_a_sampled_content() {
    let sampler = ShadowSampler::new(16, 1);
    let taken = (0..1 << 16).filter(|&n| sampler.should_sample_content(Fingerprint(n))).count();
    assert!((taken as f64 / 4096.0 - 1.0).abs() < 0.1, "{taken} of 4096");
    assert!((0..100).all(|n| ShadowSampler::new(1, 4).should_sample_write(n)
        && ShadowSampler::new(1, 4).should_sample_content(Fingerprint(n))));
}

/// Returns the observed bytes of a scheme to which `offered_bytes` were offered and which left `kept_bytes` to be
/// written.
fn observed_scheme_bytes(offered_bytes: u64, kept_bytes: u64) -> SchemeByteCounts {
    SchemeByteCounts { offered_bytes, unsaved_bytes: kept_bytes, ..SchemeByteCounts::default() }
}

/// The write ratio of a content scheme is the share of bytes that it leaves to be written. An epoch with more bytes
/// counts more.
#[test]
fn the_write_ratio_of_a_scheme_weighs_epochs_by_their_bytes() {
    let mut ratio = WrittenShareEstimate::default();
    ratio.push_epoch(SchemeByteCounts::default());
    assert_eq!(ratio.written_share_of_offered_bytes(), None, "nothing was seen");
    ratio.push_epoch(observed_scheme_bytes(900, 450));
    assert_eq!(ratio.written_share_of_offered_bytes(), Some(0.5));
    ratio.push_epoch(observed_scheme_bytes(100, 100));
    let expected = (9.0 * 450.0 + 10.0 * 100.0) / (9.0 * 900.0 + 10.0 * 100.0);
    assert!(
        (ratio.written_share_of_offered_bytes().unwrap() - expected).abs() < 1e-12,
        "two divisions round on their own"
    );
}

/// Of 100 pages 40 are duplicates. All duplicates compress to half their size, the others do not compress. Each scheme
/// alone seems to save writes, but after deduplication compression saves nothing.
#[test]
fn write_ratios_of_two_schemes_do_not_count_a_saved_page_twice() {
    let ratio = |offered, kept| {
        let mut ratio = WrittenShareEstimate::default();
        ratio.push_epoch(observed_scheme_bytes(offered, kept));
        ratio.written_share_of_offered_bytes().unwrap()
    };
    let dedup = ratio(100, 60);
    let (alone, after_dedup) = (ratio(100, 80), ratio(60, 60));
    assert!((dedup * after_dedup - 0.6).abs() < 1e-12, "60 pages are written");
    assert!((dedup * alone - 0.48).abs() < 1e-12, "a product of ratios measured alone says 48");
}

// Token bucket of throttling.

/// A throttled drive may program a fixed number of bytes per nanosecond of the epoch. A host write is delayed until the
/// bytes programmed so far are allowed.
#[test]
fn a_throttled_write_is_delayed_until_its_bytes_are_allowed_at_the_epoch_rate() {
    let throttle = Throttle::new(1000, EPOCH_NS, 0, 0);
    assert_eq!(throttle.delay_ns(0, 0), 0, "the first write does not wait");
    assert_eq!(throttle.delay_ns(0, 100), EPOCH_NS / 10);
    assert_eq!(throttle.delay_ns(EPOCH_NS / 20, 100), EPOCH_NS / 20);
    assert_eq!(throttle.delay_ns(EPOCH_NS / 10, 100), 0);
    assert_eq!(throttle.delay_ns(EPOCH_NS, 100), 0, "no less than 0");
    assert_eq!(throttle.delay_ns(0, 5000), 5 * EPOCH_NS, "a debt of several epochs");
}

/// The time between two page writes must be the length of an epoch times the page size divided by the capacity of the
/// epoch, service time included.
#[test]
fn a_host_that_always_has_a_write_ready_is_paced_to_the_epoch_capacity() {
    let throttle = Throttle::new(95_760 * 4096, EPOCH_NS, 0, 0);
    let (mut now_ns, mut written) = (0, 0);
    for _ in 0..1000 {
        now_ns += throttle.delay_ns(now_ns, written);
        written += 4096;
        now_ns += 600_000;
    }
    let pace_ns = EPOCH_NS as f64 * 4096.0 / (95_760.0 * 4096.0);
    assert!((now_ns as f64 / (999.0 * pace_ns + 600_000.0) - 1.0).abs() < 1e-6);
}

/// Bytes that an epoch was allowed to program and did not program are dropped at its end. Bytes beyond the allowed ones
/// count for the next epoch.
#[test]
fn a_throttle_drops_unused_bytes_at_the_end_of_an_epoch_and_keeps_debts() {
    let throttle = Throttle::new(1000, EPOCH_NS, 0, 0);
    let idle = throttle.for_next_epoch(1000, EPOCH_NS, 200);
    assert_eq!(idle, Throttle::new(1000, EPOCH_NS, EPOCH_NS, 200));
    let indebted = throttle.for_next_epoch(500, EPOCH_NS, 1250);
    assert_eq!(indebted.delay_ns(EPOCH_NS, 1250), EPOCH_NS / 2, "250 bytes at 500 per epoch");
    let later = throttle.for_next_epoch(500, 2 * EPOCH_NS, 1250);
    assert_eq!(later.delay_ns(2 * EPOCH_NS, 1250), 0, "an epoch without requests paid it");
}

#[test]
fn throttle_delays_do_not_overflow_at_extreme_values() {
    let throttle = Throttle::new(0, u64::MAX, 0, 0);
    assert_eq!(throttle.delay_ns(0, u64::MAX), u64::MAX);
    let rich = Throttle::new(u64::MAX, 1, 0, 0);
    assert_eq!(rich.delay_ns(0, u64::MAX), 1);
    assert_eq!(rich.for_next_epoch(1, u64::MAX, 5).delay_ns(u64::MAX, 5), 0);
}

/// A host write, issued a given time after the previous one, or later if it is throttled.
#[derive(Clone, Debug)]
struct HostWrite {
    /// Time from the previous write to this write without throttling, nanoseconds.
    gap_ns: u64,
    /// Bytes of the write.
    bytes: u64,
}

/// Generates up to 399 host writes of at most `most_bytes` bytes each.
fn writes(most_bytes: u64) -> impl Strategy<Value = Vec<HostWrite>> {
    let write = (0..EPOCH_NS / 20, 1..=most_bytes).prop_map(|(gap_ns, bytes)| HostWrite { gap_ns, bytes });
    prop::collection::vec(write, 1..400)
}

proptest! {
    /// No epoch and no sequence of epochs exceeds its budget of flash bytes by more than one host write, whatever the
    /// host writes.
    #[test]
    fn throttled_epochs_exceed_their_budget_by_at_most_one_write(
        writes in writes(5000), budgets in prop::collection::vec(1000..40_000_u64, 64),
    ) {
        let mut throttle = Throttle::new(budgets[0], EPOCH_NS, 0, 0);
        let (mut now_ns, mut flash_bytes, mut epoch) = (0_u64, 0_u64, 0_usize);
        let (mut used, mut allowed) = (0, budgets[0]);
        for write in writes {
            now_ns += write.gap_ns;
            loop {
                let current = (now_ns / EPOCH_NS) as usize;
                if current > epoch {
                    // Every epoch has its budget; skipped epochs have the budget of the epoch before.
                    allowed += budgets[epoch % 64] * (current - epoch - 1) as u64 + budgets[current % 64];
                    epoch = current;
                    used = 0;
                    throttle = throttle.for_next_epoch(budgets[epoch % 64], epoch as u64 * EPOCH_NS, flash_bytes);
                }
                match throttle.delay_ns(now_ns, flash_bytes) {
                    0 => break,
                    delay_ns => now_ns += delay_ns,
                }
            }
            prop_assert!(used <= budgets[epoch % 64], "epoch {} had used {} of {}", epoch, used, budgets[epoch % 64]);
            prop_assert!(flash_bytes <= allowed, "{flash_bytes} of {allowed} over all epochs");
            used += write.bytes;
            flash_bytes += write.bytes;
        }
    }

    /// After the delay of a throttled host write its bytes are within the budget, and one nanosecond earlier they are
    /// not.
    #[test]
    fn throttle_delays_are_exactly_as_long_as_needed(
        budget in 1..1_000_000_000_u64, now in 0..2 * EPOCH_NS, bytes in 0..4_000_000_000_u64,
    ) {
        let throttle = Throttle::new(budget, EPOCH_NS, 0, 0);
        let delay = throttle.delay_ns(now, bytes);
        let earned = |at_ns: u64| at_ns as u128 * budget as u128 / EPOCH_NS as u128;
        prop_assert!(earned(now + delay) >= bytes as u128);
        prop_assert!(delay == 0 || earned(now + delay - 1) < bytes as u128);
    }
}

// The manager over epochs.

/// Returns the counters of a device whose remaining endurance allows 1 MiB of flash writes in each epoch of the paper's
/// target life.
fn device_counters(activity: WriteActivity, schemes: Vec<SchemeByteCounts>) -> LifetimeCounters {
    let budget_bytes = 525_600 << 20;
    LifetimeCounters {
        activity,
        remaining_endurance_bytes: budget_bytes - activity.flash_bytes,
        scheme_byte_counts: schemes,
    }
}

/// Returns the counters of a host that wrote `bytes` without content schemes and throttling.
fn activity_of_host_bytes(bytes: u64) -> WriteActivity {
    WriteActivity { host_bytes: bytes, host_programmed_bytes: bytes, flash_bytes: bytes, throttled_ns: 0 }
}

/// Returns a lifetime manager in this configuration of the paper.
fn lifetime_controller(configuration: LifetimePaperConfiguration) -> LifetimeController {
    LifetimeController::new(LifetimeOptions::of_integrated_lifetime_paper(
        configuration,
        &EnergyModel::STATED_IN_PAPER,
    ))
}

#[test]
fn lifetime_epochs_are_numbered_by_elapsed_time_from_zero() {
    let lifetime = lifetime_controller(LifetimePaperConfiguration::Baseline);
    let numbers = [0, EPOCH_NS - 1, EPOCH_NS, 5 * EPOCH_NS + 1].map(|now_ns| lifetime.epoch_at(now_ns));
    assert_eq!(numbers, [0, 0, 1, 5]);
}

#[test]
fn lifetime_management_decides_once_per_epoch_at_its_first_request() {
    let mut lifetime = lifetime_controller(LifetimePaperConfiguration::Throttling);
    let idle = device_counters(activity_of_host_bytes(0), vec![]);
    let decided = [0, 1, EPOCH_NS - 1, EPOCH_NS, EPOCH_NS, 5 * EPOCH_NS + 3, 6 * EPOCH_NS - 1]
        .map(|now_ns| lifetime.advance_to(now_ns, &idle).is_some());
    assert_eq!(decided, [true, false, false, true, false, true, false]);
}

/// Before the first epoch has ended, there is no history from which savings or demand can be predicted.
#[test]
fn without_write_history_no_scheme_runs_and_no_write_is_throttled() {
    for configuration in [LifetimePaperConfiguration::Integrated, LifetimePaperConfiguration::Throttling] {
        let mut lifetime = lifetime_controller(configuration);
        let schemes = vec![SchemeByteCounts::default(); lifetime.options().schemes.len()];
        let first = lifetime.advance_to(0, &device_counters(activity_of_host_bytes(0), schemes)).unwrap();
        assert_eq!(first, EpochDecision::default(), "{configuration:?}");
        assert_eq!(lifetime.delay_ns(0, 1 << 40), 0, "{configuration:?}");
    }
}

/// A content scheme that was never observed, because none of its pages was a sample, does not run.
#[test]
fn a_scheme_of_which_no_write_was_sampled_stays_off() {
    let mut lifetime = lifetime_controller(LifetimePaperConfiguration::Integrated);
    let unknown = vec![SchemeByteCounts::default(); 2];
    lifetime.advance_to(0, &device_counters(activity_of_host_bytes(0), unknown.clone())).unwrap();
    let second =
        lifetime.advance_to(EPOCH_NS, &device_counters(activity_of_host_bytes(10 << 20), unknown)).unwrap();
    assert!(second.enabled_schemes.is_empty());
    assert!(second.throttle_bytes_per_epoch.is_some(), "ten times what an epoch may take");
}

/// In the paper's configurations without management (baseline, compression alone, deduplication alone) all schemes of
/// the configuration always run.
#[test]
fn configurations_with_a_single_scheme_always_run_it_and_never_throttle() {
    for configuration in [
        LifetimePaperConfiguration::Baseline,
        LifetimePaperConfiguration::Compression,
        LifetimePaperConfiguration::Dedup,
    ] {
        let mut lifetime = lifetime_controller(configuration);
        let schemes = lifetime.options().schemes.len();
        for epoch in 0..12 {
            // Ten times the capacity of the device, with no saving by the schemes.
            let bytes = epoch * (10 << 20);
            let useless = observed_scheme_bytes(bytes, bytes);
            let decision = lifetime
                .advance_to(
                    epoch * EPOCH_NS,
                    &device_counters(activity_of_host_bytes(bytes), vec![useless; schemes]),
                )
                .unwrap();
            assert_eq!(decision.enabled_schemes, SchemeSet::of_first_schemes(schemes), "{configuration:?}");
            assert_eq!(lifetime.delay_ns(epoch * EPOCH_NS, bytes + 1000), 0, "{configuration:?}");
        }
    }
}

#[test]
fn throttling_stops_when_demand_falls_and_resumes_when_it_rises() {
    let mut lifetime = lifetime_controller(LifetimePaperConfiguration::Throttling);
    let mut bytes = 0;
    let mut throttled = Vec::new();
    for epoch in 0..40 {
        let decision = lifetime
            .advance_to(epoch * EPOCH_NS, &device_counters(activity_of_host_bytes(bytes), vec![]))
            .unwrap();
        throttled.push(decision.throttle_bytes_per_epoch.is_some());
        bytes += if (12..26).contains(&epoch) { 2 << 20 } else { 1 << 19 };
    }
    assert!(!throttled[0], "nothing is known yet");
    assert!(!throttled[1] && !throttled[12], "half of the capacity");
    assert!(throttled[16..26].iter().all(|&on| on), "twice the capacity");
    assert!(!throttled[39]);
}

/// A throttled host writes little. If the lifetime manager took the writes for the demand, it would stop throttling in
/// every second epoch.
#[test]
fn a_host_that_always_writes_too_much_is_never_released_from_throttling() {
    let mut lifetime = lifetime_controller(LifetimePaperConfiguration::Throttling);
    let (mut now_ns, mut activity) = (0, WriteActivity::default());
    let (mut released, mut throttled_since) = (0, None);
    for _ in 0..20_000 {
        // 64 KiB every two seconds are 9.4 MiB per epoch.
        now_ns += 2_000_000_000;
        loop {
            if let Some(decision) = lifetime.advance_to(now_ns, &device_counters(activity, vec![])) {
                match decision.throttle_bytes_per_epoch {
                    None => released += 1,
                    Some(_) => throttled_since = throttled_since.or(Some((now_ns, activity.flash_bytes))),
                }
            }
            match lifetime.delay_ns(now_ns, activity.flash_bytes) {
                0 => break,
                delay_ns => {
                    now_ns += delay_ns;
                    activity.throttled_ns += delay_ns;
                }
            }
        }
        activity = WriteActivity {
            throttled_ns: activity.throttled_ns,
            ..activity_of_host_bytes(activity.host_bytes + 65_536)
        };
    }
    assert_eq!(released, 1, "only the first epoch, of which nothing is known");
    let (since_ns, before_bytes) = throttled_since.expect("the host writes too much");
    let epochs = (now_ns - since_ns) as f64 / EPOCH_NS as f64;
    let per_epoch = (activity.flash_bytes - before_bytes) as f64 / epochs;
    assert!(
        per_epoch <= 1_048_576.0 * 1.001 && per_epoch > 1_048_576.0 * 0.99,
        "{per_epoch} bytes per epoch"
    );
    let expected_flash_bytes_per_epoch = lifetime.expected_flash_bytes_per_epoch().unwrap();
    assert!(
        (expected_flash_bytes_per_epoch / (150.0 * 65_536.0) - 1.0).abs() < 0.01,
        "{expected_flash_bytes_per_epoch} bytes of demand"
    );
}

/// A scheme that saves nothing is switched off after the first epoch, and on again when its samples show savings.
#[test]
fn a_scheme_is_switched_off_and_on_by_the_savings_observed_for_it() {
    let mut lifetime = lifetime_controller(LifetimePaperConfiguration::Integrated);
    let (mut bytes, mut dedup, mut comp) = (0, SchemeByteCounts::default(), SchemeByteCounts::default());
    let mut enabled = Vec::new();
    for epoch in 0..40 {
        let decision = lifetime
            .advance_to(epoch * EPOCH_NS, &device_counters(activity_of_host_bytes(bytes), vec![dedup, comp]))
            .unwrap();
        enabled.push((decision.enabled_schemes.contains(0), decision.enabled_schemes.contains(1)));
        bytes += 1 << 19;
        let sampled = if decision.enabled_schemes.contains(1) { 1 << 19 } else { 1 << 13 };
        dedup = observed_scheme_bytes(dedup.offered_bytes + (1 << 19), dedup.unsaved_bytes + (1 << 18));
        let kept = if epoch < 20 { sampled } else { sampled / 2 };
        comp = observed_scheme_bytes(comp.offered_bytes + sampled, comp.unsaved_bytes + kept);
    }
    assert!(enabled[1..].iter().all(|&(dedup, _)| dedup), "half of the pages are duplicates");
    assert_eq!(enabled[0], (false, false), "nothing is known yet");
    assert!(enabled[1..=20].iter().all(|&(_, comp)| !comp), "incompressible");
    assert!(enabled[39].1, "compressible since epoch 20");
}

/// A device without remaining endurance is throttled to a small rate, and not to zero.
#[test]
fn throttling_slows_a_worn_out_device_and_does_not_stop_it() {
    let mut lifetime = lifetime_controller(LifetimePaperConfiguration::Throttling);
    let worn = LifetimeCounters {
        activity: activity_of_host_bytes(1 << 40),
        remaining_endurance_bytes: 0,
        scheme_byte_counts: vec![],
    };
    lifetime.advance_to(0, &worn);
    let busy = LifetimeCounters { activity: activity_of_host_bytes((1 << 40) + 4096), ..worn };
    lifetime.advance_to(EPOCH_NS, &busy);
    let delay_ns = lifetime.delay_ns(EPOCH_NS, (1 << 40) + 8192);
    assert!((4096 * EPOCH_NS..u64::MAX).contains(&delay_ns));
}
