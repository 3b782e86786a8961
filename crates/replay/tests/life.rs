//! Tests of drives that are written until they are worn out: no drive takes more writes than its blocks endure, the
//! lifetime agrees with theory, and wear leveling lengthens it.

use common::{config_of_settings, generated_input};
use wearwell_config::Config;
use wearwell_replay::input::Input;
use wearwell_replay::life::{
    CurvePoint, Endurance, Estimate, Leveling, Life, LifeEndReason, LifePoint, LifeRecord, Wear,
    curves_data_table,
};
use wearwell_replay::replay::{Plan, ReplayError};
use wearwell_replay::theory;

use crate::common;

/// Makes the configuration of a drive of 64 MiB whose blocks are rated for `cycles`.
fn drive_config(cycles: u32, settings: &[&str]) -> Config {
    let cycles = format!("device.endurance_cycles={cycles}");
    let shape = ["device.preset=lab-8g", "device.blocks_per_plane=128", "device.over_provisioning=0.15"];
    config_of_settings(&[&shape[..], &[cycles.as_str()], settings].concat())
}

/// Endurance of a drive whose blocks all endure the rated cycles, and which ends when no spare block is left.
const EQUAL_ENDURANCE: Endurance =
    Endurance { spread: 0.0, early_share: 0.0, program_share: 0.5, spare_minimum: 0.0 };

/// Number of logical pages of a drive of 128 blocks of 128 pages with 15 % over-provisioning.
const LOGICAL_PAGES: u32 = 14_246;

/// Makes a uniform workload that is long enough that repeating it equals continuing it.
fn uniform_input() -> Input {
    generated_input("uniform:write=1.0,pages=14246,requests=2000000")
}

/// Simulates one life of a drive whose blocks have this endurance, and returns its record.
fn record_of_life(config: &Config, input: &Input, design: &str, endurance: Endurance) -> LifeRecord {
    let plan = Plan::new(config, input).expect("the drive can be built");
    let mut record = plan.new_life_record(design, Leveling::Configured, endurance);
    plan.run_life(&mut record, &mut |_| std::ops::ControlFlow::Continue(())).expect("the drive lives");
    record
}

/// Simulates one life of a drive with this endurance, until the drive is worn out.
fn run_life(config: &Config, input: &Input, design: &str, endurance: Endurance) -> Life {
    record_of_life(config, input, design, endurance).lives.remove(0)
}

#[test]
fn simulated_drive_lives_with_equal_seeds_are_equal() {
    let with_seed = |seed: &str| {
        let mut life =
            run_life(&drive_config(60, &[seed]), &uniform_input(), "page-map", Endurance::default());
        life.cpu_seconds = 0.0;
        life
    };
    assert_eq!(with_seed("replay.seed=5"), with_seed("replay.seed=5"));
    let other = with_seed("replay.seed=6");
    assert_ne!(with_seed("replay.seed=5").host_bytes, other.host_bytes, "other blocks are weak");
}

/// Bug: the curve of a life counted erases that failed, its table did not.
#[test]
fn curve_and_table_of_a_drive_life_state_equal_erases_per_block() {
    let endurance = Endurance { program_share: 0.0, ..Endurance::default() };
    let life = run_life(&drive_config(20, &[]), &uniform_input(), "page-map", endurance);
    let last = life.series.last().unwrap();
    assert!(life.failed_blocks > 0, "an erase failed");
    assert!((last.mean_erases - life.wear.mean).abs() < 1e-9, "{last:?}, {:?}", life.wear);
}

/// Bug: a drive of which the host uses a small part can lose more blocks than it had spare ones. The share of these
/// that was left was then negative.
#[test]
fn the_share_of_spare_blocks_left_is_never_negative() {
    let settings = [
        "device.channels=1",
        "device.dies_per_channel=1",
        "device.planes_per_die=1",
        "device.blocks_per_plane=500",
        "device.pages_per_block=4",
        "device.over_provisioning=0.2",
    ];
    let (config, input) =
        (drive_config(20, &settings), generated_input("uniform:write=1.0,pages=200,requests=200000"));
    let plan = Plan::new(&config, &input).unwrap();
    let endurance = Endurance { spread: 0.1, program_share: 0.0, ..EQUAL_ENDURANCE };
    let mut record = plan.new_life_record("page-map", Leveling::Configured, endurance);
    record.is_filled = false;
    plan.run_life(&mut record, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    let life = &record.lives[0];
    assert!(life.failed_blocks > 83, "{} of 83 spare blocks failed", life.failed_blocks);
    assert!(life.series.iter().all(|point| point.spare >= 0.0), "{:?}", life.series.last());
}

/// A block that can be erased N times can be programmed N + 1 times, so this bounds the bytes programmed in a life.
#[test]
fn no_drive_erases_more_than_the_endurance_of_its_blocks() {
    /// Rated program/erase cycles of the blocks.
    const CYCLES: u32 = 40;
    for design in ["page-map", "recyclable", "remap", "delta", "integrated", "dftl", "geckoftl"] {
        let life = run_life(&drive_config(CYCLES, &[]), &uniform_input(), design, EQUAL_ENDURANCE);
        let most = u64::from(CYCLES + 1) * 128 * 128 * 4096;
        assert!(life.media_bytes <= most, "{design}: {} of {most} bytes", life.media_bytes);
        assert!(
            life.media_bytes as f64 > 0.5 * most as f64,
            "{design}: {} of {most} bytes",
            life.media_bytes
        );
        assert_ne!(life.end, LifeEndReason::Interrupted);
    }
}

/// Uniform writes wear blocks evenly: the drive takes its capacity times its rated cycles, divided by the write
/// amplification that theory predicts.
#[test]
fn the_life_of_an_evenly_worn_drive_agrees_with_theory_and_extrapolation() {
    /// Rated program/erase cycles of the blocks.
    const CYCLES: u32 = 1500;
    let life = run_life(
        &drive_config(CYCLES, &["wear.dynamic=true"]),
        &uniform_input(),
        "page-map",
        EQUAL_ENDURANCE,
    );
    let extrapolated = life.extrapolated_bytes.expect("the beginning was measured");
    let lived = life.host_bytes as f64;
    assert!((lived / extrapolated - 1.0).abs() < 0.05, "{lived} lived, {extrapolated} extrapolated");
    let utilisation = theory::effective_utilisation(u64::from(LOGICAL_PAGES), 128 * 128, 3, 2, 128);
    let amplification = theory::greedy_steady_state(utilisation, 128).write_amplification;
    let expected = f64::from(CYCLES) * 128.0 * 128.0 * 4096.0 / amplification;
    assert!((lived / expected - 1.0).abs() < 0.06, "{lived} lived, {expected} by theory");
}

/// Bug: the extrapolated figure was not a number, because both ends of the measured range were the same moment and the
/// quotient divided by zero cycles.
#[test]
fn a_life_too_short_to_be_measured_is_not_extrapolated() {
    for cycles in 1..8 {
        let life = run_life(&drive_config(cycles, &[]), &uniform_input(), "page-map", EQUAL_ENDURANCE);
        let extrapolated = life.extrapolated_bytes;
        assert!(
            extrapolated.is_none_or(|bytes| bytes.is_finite() && bytes > 0.0),
            "{cycles}: {extrapolated:?}"
        );
    }
}

/// A tenth of the pages receives 99 % of the writes. Cold data protects its blocks from wear unless static wear
/// leveling moves it.
#[test]
fn static_leveling_lengthens_the_life_of_a_drive_with_cold_data() {
    let skewed = generated_input("hotcold:write=1.0,pages=14246,requests=2000000,zones=0.1:0.99");
    let with = |leveling: Leveling| {
        let settings = leveling.as_settings(200);
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        run_life(&drive_config(200, &settings), &skewed, "page-map", EQUAL_ENDURANCE)
    };
    let [none, dynamic, leveled, pooled] = Leveling::COMPARED_KINDS.map(with);
    for (name, life) in [("none", &none), ("dynamic", &dynamic), ("static", &leveled), ("dual pool", &pooled)]
    {
        println!("{name}: {} bytes, {} programs to level", life.host_bytes, life.leveling_programs);
    }
    assert!(
        leveled.host_bytes as f64 > 1.2 * none.host_bytes as f64,
        "{} {}",
        leveled.host_bytes,
        none.host_bytes
    );
    assert!(leveled.host_bytes >= dynamic.host_bytes);
    assert!(pooled.host_bytes > leveled.host_bytes, "{} {}", pooled.host_bytes, leveled.host_bytes);
    let per_byte = |life: &Life| life.leveling_programs as f64 / life.host_bytes as f64;
    assert!(0.0 < per_byte(&pooled) && per_byte(&pooled) < 0.9 * per_byte(&leveled));
    assert_eq!((none.leveling_programs, dynamic.leveling_programs), (0, 0));
    let span = |life: &Life| life.wear.most - life.wear.p10;
    assert!(span(&leveled) < span(&none), "{:?} {:?}", leveled.wear, none.wear);
    let over = none.extrapolated_bytes.expect("the beginning was measured") / none.host_bytes as f64;
    assert!(over > 1.2, "an extrapolation from mean wear promises {over} of the life");
}

/// The input writes half of the logical pages. The other half acts as spare space on an empty drive, and holds data on
/// a filled one.
#[test]
fn an_empty_drive_lives_longer_than_a_filled_one() {
    let half = generated_input("uniform:write=1.0,pages=7123,requests=1000000");
    let config = drive_config(100, &[]);
    let plan = Plan::new(&config, &half).expect("the drive can be built");
    let life = |is_filled| {
        let record = plan.new_life_record("page-map", Leveling::Configured, EQUAL_ENDURANCE);
        let mut record = LifeRecord { is_filled, ..record };
        plan.run_life(&mut record, &mut |_| std::ops::ControlFlow::Continue(())).expect("the drive lives");
        record.lives.remove(0)
    };
    let (filled, empty) = (life(true), life(false));
    assert!(
        filled.series[0].host_bytes == u64::from(LOGICAL_PAGES) * 4096,
        "the first fill counts as written"
    );
    assert!(empty.series[0].host_bytes < filled.series[0].host_bytes);
    assert!(
        empty.host_bytes as f64 > 1.5 * filled.host_bytes as f64,
        "{} {}",
        empty.host_bytes,
        filled.host_bytes
    );
}

#[test]
fn the_life_of_a_drive_ends_at_its_minimum_of_spare_blocks() {
    let ends_at = |spare_minimum| {
        let endurance = Endurance { spread: 0.2, early_share: 0.02, program_share: 0.5, spare_minimum };
        run_life(&drive_config(100, &[]), &uniform_input(), "page-map", endurance)
    };
    let (early, late) = (ends_at(0.9), ends_at(0.5));
    assert_eq!((early.end, late.end), (LifeEndReason::Spare, LifeEndReason::Spare));
    assert!(early.host_bytes < late.host_bytes && early.failed_blocks < late.failed_blocks);
    // 128 blocks, 112 for the exported pages: the drive ends when 10 % of the 16 spare blocks, rounded up to 2, have
    // failed.
    assert_eq!(early.failed_blocks, 2);
    let last = late.series.last().expect("a life has moments");
    assert!(last.spare <= 0.5 && late.series[0].spare > 0.999, "{last:?}");
    assert!(late.first_failure_bytes.expect("blocks failed") < late.host_bytes / 2, "some blocks fail early");
}

#[test]
fn a_life_simulation_with_an_input_without_writes_is_refused() {
    let reads = generated_input("uniform:read=1.0,pages=14246,requests=100");
    let config = drive_config(100, &[]);
    let plan = Plan::new(&config, &reads).expect("the drive can be built");
    let mut record = plan.new_life_record("page-map", Leveling::Configured, EQUAL_ENDURANCE);
    let refused = plan.run_life(&mut record, &mut |_| std::ops::ControlFlow::Continue(()));
    assert!(matches!(refused, Err(ReplayError::NoRequests { .. })), "{refused:?}");
}

/// One pass over the input, 20,000 writes at 1,000 per second, takes 20 seconds.
#[test]
fn years_of_a_life_are_the_duration_of_its_passes_over_the_input() {
    let timed = generated_input("uniform:write=1.0,pages=14246,requests=20000,rate=1000");
    let record = record_of_life(&drive_config(40, &[]), &timed, "page-map", EQUAL_ENDURANCE);
    let life = &record.lives[0];
    let expected = life.passes * 20.0 / (365.0 * 86_400.0);
    let years = life.years.expect("the input has times");
    assert!((years / expected - 1.0).abs() < 0.001, "{years} {expected}");
    let a_day = record.drive_writes_per_day(life).expect("there are years");
    let bytes = a_day * record.exported_bytes as f64 * years * 365.0;
    let of_the_input = life.host_bytes - record.exported_bytes;
    assert!((bytes / of_the_input as f64 - 1.0).abs() < 1e-9, "the first fill takes no time");
    // Bug: a life ignored the scale of the times.
    let slower =
        record_of_life(&drive_config(40, &["replay.time_scale=3"]), &timed, "page-map", EQUAL_ENDURANCE);
    let ratio = slower.lives[0].years.expect("the input has times") / years;
    assert!((ratio - 3.0).abs() < 1e-9, "{ratio}");
    let untimed = record_of_life(&drive_config(40, &[]), &uniform_input(), "page-map", EQUAL_ENDURANCE);
    assert_eq!(untimed.lives[0].years, None, "requests that all come at once have no rate");
}

/// Bug: the table showed an interrupted life as a short one, and counted blocks that GC keeps free as
/// over-provisioning.
#[test]
fn an_interrupted_life_has_no_lifetime_figures() {
    let config = config_of_settings(&["device.over_provisioning=0.15"]);
    let input = generated_input("uniform:write=1.0,pages=20000,requests=200000");
    let plan = Plan::new(&config, &input).expect("the drive can be built");
    let mut record = plan.new_life_record("page-map", Leveling::Configured, EQUAL_ENDURANCE);
    let mut looks = 0;
    let lived = plan.run_life(&mut record, &mut |_| {
        looks += 1;
        if looks > 5 { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
    });
    lived.expect("the drive lives");
    assert_eq!(record.lives[0].end, LifeEndReason::Interrupted);
    let table = wearwell_replay::life::lives_table(&[record]);
    for title in ["TB written until the end", "  lived / extrapolated", "drive writes until the end"] {
        let line = table.lines().find(|line| line.starts_with(title)).expect("the figure has a line");
        assert!(line.ends_with('-'), "{line}");
    }
    assert!(table.contains("page-map, seed 1: interrupted after 0."), "{table}");
    assert!(table.contains("(15.0 % over-provisioning)"), "{table}");
}

/// Bug: limits were rounded down, so that the mean was half a cycle below the rated cycles.
#[test]
fn endurance_limits_of_few_cycles_have_the_rated_mean() {
    let endurance = Endurance { spread: 0.0001, ..EQUAL_ENDURANCE };
    let limits = endurance.draw_wear_limits(1000, 20, 1);
    assert!(limits.iter().all(|limit| limit.erase_cycles == 20), "{limits:?}");
}

/// Bug: the endurance left by its spread was computed with the limits of blocks that are bad from the factory.
#[test]
fn the_usable_endurance_is_that_of_blocks_good_from_the_factory() {
    let endurance = Endurance { spread: 0.2, ..EQUAL_ENDURANCE };
    let life = run_life(
        &drive_config(200, &["device.blocks_per_plane=160", "device.factory_bad_share=0.05"]),
        &uniform_input(),
        "page-map",
        endurance,
    );
    // Limits are whole cycles, so that the mean over the right number of blocks makes a whole sum.
    let makes_whole_sum = |blocks: u32| {
        let cycles = life.usable_endurance * f64::from(blocks) * 200.0;
        (cycles - cycles.round()).abs() < 1e-6
    };
    assert!(!makes_whole_sum(160), "all blocks: {}", life.usable_endurance);
    assert!((140..160).any(makes_whole_sum), "good blocks: {}", life.usable_endurance);
}

/// Endurance limits have the stated mean and standard deviation; the limits of blocks that fail early are uniform below
/// the rated cycles.
#[test]
fn endurance_limits_of_blocks_follow_the_stated_distribution() {
    let endurance = Endurance { spread: 0.1, early_share: 0.0, program_share: 0.25, spare_minimum: 0.0 };
    let limits = endurance.draw_wear_limits(100_000, 3000, 9);
    let cycles: Vec<f64> = limits.iter().map(|limit| f64::from(limit.erase_cycles)).collect();
    let mean = cycles.iter().sum::<f64>() / 1e5;
    let deviation = (cycles.iter().map(|c| (c - mean) * (c - mean)).sum::<f64>() / 1e5).sqrt();
    assert!((mean - 3000.0).abs() < 4.0 && (deviation - 300.0).abs() < 4.0, "{mean} {deviation}");
    let programs = limits
        .iter()
        .filter(|limit| limit.failing_operation == wearwell::nand::WornBlockFailure::Program)
        .count();
    assert!((24_000..26_000).contains(&programs), "{programs}");
    let early = Endurance { early_share: 1.0, ..endurance }.draw_wear_limits(100_000, 3000, 9);
    let below = early.iter().filter(|limit| limit.erase_cycles < 1500).count();
    assert!((49_000..51_000).contains(&below), "{below}");
    assert!(
        Endurance { spread: 2.0, ..endurance }
            .first_invalid_value_sentence()
            .is_some_and(|sentence| sentence.contains("spread"))
    );
    assert!(endurance.first_invalid_value_sentence().is_none());
}

/// For the values 1, 2 and 3 the half width is Student's t = 4.303 times the standard error 1 / sqrt(3).
#[test]
fn lives_of_several_seeds_give_a_mean_and_its_confidence_interval() {
    let of = |values: &[f64]| Estimate::of_values(values.iter().map(|&value| Some(value))).expect("values");
    assert_eq!(of(&[7.0]), Estimate { mean: 7.0, half_width: None, least: 7.0, most: 7.0 });
    let three = of(&[1.0, 2.0, 3.0]);
    assert!((three.mean - 2.0).abs() < 1e-12);
    assert!((three.half_width.expect("three values") - 2.4843).abs() < 1e-3, "{three:?}");
    assert!(three.least < 1.0 + 1e-12 && three.most > 3.0 - 1e-12, "{three:?}");
    assert_eq!(Estimate::of_values([Some(1.0), None].into_iter()), None);
}

/// Returns the record of three drives' lives that differ in their seed, with curves over the lives.
fn three_lives() -> LifeRecord {
    let mut lives = ["1", "2", "3"].map(|seed| {
        record_of_life(
            &drive_config(60, &[&format!("replay.seed={seed}")]),
            &uniform_input(),
            "page-map",
            Endurance::default(),
        )
    });
    let mut joined = lives[0].clone();
    lives[1..].iter_mut().for_each(|record| joined.add_lives_of(record.clone()));
    joined.with_curves()
}

#[test]
fn life_curves_run_from_the_new_drive_to_the_end_of_the_last_drive() {
    let record = three_lives();
    let (first, last) = (record.curves[0], *record.curves.last().expect("there are curves"));
    assert!(record.curves.len() > 20 && record.curves.len() <= 100, "{} moments", record.curves.len());
    assert!(record.curves.is_sorted_by(|a, b| a.host_bytes < b.host_bytes && a.ended <= b.ended));
    assert!((first.spare.mean - 1.0).abs() < 1e-12 && first.ended == 0);
    assert_eq!(last.ended, 3);
    let end = |life: &Life| *life.series.last().expect("states");
    let of_all =
        |figure: fn(LifePoint) -> f64| record.lives.iter().map(|life| figure(end(life))).fold(0.0, f64::max);
    assert_eq!(Some(last.host_bytes), record.lives.iter().map(|life| life.host_bytes).max());
    assert!((last.mean_erases.most - of_all(|end| end.mean_erases)).abs() < 1e-9);
    assert!((last.max_erases.most - of_all(|end| end.max_erases.into())).abs() < 1e-9);
    let spares = record.lives.iter().map(|life| Some(end(life).spare));
    assert_eq!(Some(last.spare), Estimate::of_values(spares));
    let estimates = record.estimates.expect("every drive has ended");
    assert_eq!(Some(estimates.host_bytes), record.host_bytes());
    assert!(estimates.host_bytes.least < estimates.host_bytes.mean && estimates.years.is_none());
}

/// The sum over all intervals of a life, of write amplification times the bytes that the host wrote, equals all
/// programmed bytes.
#[test]
fn write_amplification_along_a_life_adds_up_to_that_of_the_whole() {
    let record = record_of_life(&drive_config(60, &[]), &uniform_input(), "page-map", Endurance::default())
        .with_curves();
    let mut before = 0;
    let programmed: f64 = record
        .curves
        .iter()
        .map(|point| {
            let written = point.host_bytes - std::mem::replace(&mut before, point.host_bytes);
            point.write_amplification.mean * written as f64
        })
        .sum();
    let share = programmed / record.lives[0].media_bytes as f64;
    assert!((share - 1.0).abs() < 0.01, "{share} of the programmed bytes");
    assert!(record.curves.iter().all(|point| point.spare.half_width.is_none()), "one drive has no interval");
}

/// Makes the record of a drive's life with a curve point every ten host bytes, whose spare blocks failed at a constant
/// rate.
fn life_with_linear_wear(host_bytes: u64, end: LifeEndReason) -> Life {
    let point = |bytes: u64| LifePoint {
        host_bytes: bytes,
        programs: 2 * bytes,
        mean_erases: bytes as f64,
        max_erases: bytes as u32,
        spare: 1.0 - bytes as f64 / host_bytes as f64,
    };
    Life {
        seed: 1,
        end,
        host_bytes,
        media_bytes: 2 * host_bytes,
        passes: 1.0,
        years: None,
        extrapolated_bytes: None,
        usable_endurance: 1.0,
        first_failure_bytes: None,
        failed_blocks: 0,
        wear: Wear::default(),
        leveling_programs: 0,
        leveling_erases: 0,
        series: (1..=host_bytes / 10).map(|number| point(number * 10)).collect(),
        timeline: None,
        cpu_seconds: 0.0,
    }
}

/// Makes a record of drive lives in which spare blocks fail at a constant rate. `ends` has, for each life, the bytes
/// that the host wrote until its end and the reason for the end.
fn record_of_lives_with_linear_wear(ends: &[(u64, LifeEndReason)]) -> LifeRecord {
    let (config, input) = (drive_config(60, &[]), uniform_input());
    let plan = Plan::new(&config, &input).expect("the drive can be built");
    let mut record = plan.new_life_record("page-map", Leveling::Configured, EQUAL_ENDURANCE);
    record.lives = ends.iter().map(|&(bytes, end)| life_with_linear_wear(bytes, end)).collect();
    record.with_curves()
}

#[test]
fn a_worn_out_drive_keeps_its_last_values_in_life_curves() {
    let record =
        record_of_lives_with_linear_wear(&[(1000, LifeEndReason::Spare), (2000, LifeEndReason::Full)]);
    let at = |bytes| *record.curves.iter().find(|point| point.host_bytes == bytes).expect("a moment");
    let CurvePoint { ended, spare, mean_erases, write_amplification, .. } = at(1500);
    assert_eq!(ended, 1);
    assert!((spare.mean - 0.125).abs() < 1e-9 && spare.least == 0.0, "{spare:?}");
    assert!((mean_erases.mean - 1250.0).abs() < 1e-9, "{mean_erases:?}");
    assert!((write_amplification.least - 2.0).abs() < 1e-9 && (write_amplification.most - 2.0).abs() < 1e-9);
    assert_eq!((at(980).ended, at(1000).ended, at(2000).ended), (0, 1, 2));
}

#[test]
fn an_interrupted_drive_life_has_no_lifetime_estimate_and_its_curves_end_there() {
    let record = record_of_lives_with_linear_wear(&[
        (1000, LifeEndReason::Spare),
        (400, LifeEndReason::Interrupted),
        (700, LifeEndReason::Interrupted),
    ]);
    assert_eq!(record.estimates, None);
    assert_eq!(record.curves.last().map(|point| (point.host_bytes, point.ended)), Some((400, 0)));
}

#[test]
fn life_curves_are_written_as_csv_lines() {
    let record =
        record_of_lives_with_linear_wear(&[(1000, LifeEndReason::Spare), (2000, LifeEndReason::Full)]);
    let csv = curves_data_table(std::slice::from_ref(&record)).to_csv();
    let mut lines = csv.lines().map(|line| line.rsplit(',').collect::<Vec<_>>());
    let head = lines.next().expect("a head");
    assert_eq!((head[0], head.last()), ("max_erases.most", Some(&"input")));
    assert_eq!(lines.clone().count(), record.curves.len());
    // Columns are counted from the right, because the name of the input has commas.
    let last = lines.next_back().expect("a moment");
    assert_eq!((last[0], last[1]), ("2000", "1000"));
    assert_eq!((last[16], last[17], last[18]), ("2", "2000", "2"));
}
