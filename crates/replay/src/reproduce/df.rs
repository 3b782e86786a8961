//! Experiments of the Delta-FTL paper (DF, section 5) and what its rows take from them.
//!
//! Device: the paper's 64-GB drive with a 64-MB write buffer, collected below 10 % of the exported space. Its traces write
//! a quarter of it at most, so it is brought to the steady state of random writes first (the paper does not say how it was
//! filled); most of what is collected then is that filling. A second drive, `fitted`, holds little but the trace, whose
//! first half ages it; its values stand beside the others. Scaled down, planes have fewer blocks and the buffer fewer pages, in proportion to the
//! requests. Contents differ from what they replace by Gaussian ratios, as in the paper; the encoder runs at 934 MHz,
//! where the bus is slower than it.

use super::experiment::{Experiment, Run, Runs, Setting, Size, Source};
use super::verdict::Value;

/// Traces: the paper's name and ours.
const TRACES: [(&str, &str); 6] =
    [("F1", "f1"), ("F2", "f2"), ("C3", "c3"), ("C8", "c8"), ("DAP", "dap"), ("MSN", "msn")];
const RATIOS: [&str; 3] = ["0.50", "0.35", "0.20"];
/// Skews of the synthetic loads: hotter pages mean more deltas.
const SKEWS: [&str; 3] = ["0.6", "0.9", "1.2"];
/// Pages per block.
const BLOCK: f64 = 64.0;

/// The paper's drive, scaled down. Every plane has open blocks of its own for pages, copies and deltas, so the number of
/// planes shrinks first: with all of them, opening the delta log would cost more than a short trace saves.
fn drive(setting: &Setting, scale: f64) -> Vec<String> {
    let planes = (64.0 * scale).round().clamp(4.0, 64.0);
    let channels = (planes / 4.0).ceil();
    vec![
        "device.preset=df-64g".to_owned(),
        format!("device.channels={channels}"),
        format!("device.blocks_per_plane={}", (4096.0 * scale * 16.0 / channels).round()),
        format!("buffer.pages={}", (16_384.0 * scale).round()),
        "precondition.mode=steady".to_owned(),
        "timing.mode=event".to_owned(),
        "timing.delta_encode_us=29.1".to_owned(),
        format!("replay.seed={}", setting.seed),
    ]
}

/// A drive that the trace fills to nine tenths, with the paper's spare space. A small footprint has four dies, since many
/// planes of few blocks each have no spare block.
fn fitted(setting: &Setting, scale: f64) -> Vec<String> {
    let preset = match setting.size {
        Size::Quick => "device.preset=auto",
        Size::Full => "device.preset=df-64g",
    };
    let fit =
        [preset, "device.over_provisioning=0.3", "device.over_provisioning_of=physical", "device.fit=0.9"];
    let rest = ["gc.free_share=0.07", "precondition.mode=aged", "timing.delta_encode_us=29.1"];
    let mut settings: Vec<String> = fit.into_iter().chain(rest).map(str::to_owned).collect();
    settings.push(format!("buffer.pages={}", (16_384.0 * scale).round()));
    settings.push(format!("replay.seed={}", setting.seed));
    settings
}

/// Victims are the blocks with the most invalid data, of either area (section 3.6), and the invalidation of a delta is
/// information for the collector. On pages alone this is greedy collection.
const COUNTS_DEAD_DELTAS: &str = "gc.policy=dead-bytes";

fn content(ratio: &str) -> String {
    format!("content.model=unique:delta={ratio}")
}

/// Everything that the rows need.
pub fn experiments(setting: &Setting) -> Vec<Experiment> {
    let scale = match setting.size {
        Size::Quick => 0.05,
        Size::Full => 1.0,
    };
    let mut experiments = Vec::new();
    for (trace, name) in TRACES {
        let (counted, size) = setting.traces.source(name, &format!(",seed={}", setting.seed), scale);
        experiments.push(Experiment::count(format!("{trace}/counts"), (counted.clone(), size)));
        for (drive, settings) in [("", drive(setting, size)), ("fitted-", fitted(setting, size))] {
            let name = format!("{trace}/{drive}baseline");
            experiments.push(Experiment::replay(name, (counted.clone(), size), "page-map", settings.clone()));
            for ratio in RATIOS {
                let (source, settings) = with_deltas(&counted, ratio, &settings);
                let name = format!("{trace}/{drive}{ratio}");
                experiments.push(Experiment::replay(name, (source, size), "delta", settings));
            }
        }
    }
    experiments.extend(synthetic(setting));
    experiments
}

/// A substitute carries its contents; an original gets them from the run's content model.
fn with_deltas(source: &Source, ratio: &str, settings: &[String]) -> (Source, Vec<String>) {
    let settings = [settings, &[COUNTS_DEAD_DELTAS.to_owned()]].concat();
    match source {
        Source::Substitute(spec) => (Source::Substitute(format!("{spec}+unique:delta={ratio}")), settings),
        other => (other.clone(), [settings, vec![content(ratio)]].concat()),
    }
}

fn synthetic(setting: &Setting) -> Vec<Experiment> {
    let scale = match setting.size {
        Size::Quick => 0.02,
        Size::Full => 0.2,
    };
    let settings =
        [drive(setting, scale), vec!["timing.mode=none".to_owned(), COUNTS_DEAD_DELTAS.to_owned()]].concat();
    let one = |skew: &str, ratio: &str| {
        let (pages, requests) = (4e6 * scale, 16e6 * scale);
        let load = format!(
            "zipf:theta={skew},pages={pages},requests={requests},seed={}+unique:delta={ratio}",
            setting.seed
        );
        let name = format!("synthetic/{skew}-{ratio}");
        Experiment::replay(name, (Source::Generated(load), scale), "delta", settings.clone())
    };
    let by_ratio = RATIOS.map(|ratio| one("0.9", ratio));
    let by_skew = ["0.6", "1.2"].map(|skew| one(skew, "0.35"));
    by_ratio.into_iter().chain(by_skew).collect()
}

type Result<T> = std::result::Result<T, String>;

/// What a row measures; `None` if no experiment is about it.
pub fn measure(id: &str, runs: &Runs) -> Option<Result<Vec<Value>>> {
    Some(match id {
        "DF-08" => table(runs, "F1"),
        "DF-09" => table(runs, "F2"),
        "DF-10" => table(runs, "C3"),
        "DF-11" => table(runs, "C8"),
        "DF-12" => table(runs, "DAP"),
        "DF-13" => table(runs, "MSN"),
        "DF-14" => mean_of(runs, "0.50", collections_left),
        "DF-15" => mean_of(runs, "0.35", collections_left),
        "DF-16" => mean_of(runs, "0.20", collections_left),
        "DF-17" => one_of(runs, "C3", "0.20", collections_left),
        "DF-18" => one_of(runs, "F1", "0.50", collections_left),
        "DF-20" => foreground_is_monotone(runs),
        "DF-21" => share_of_deltas(runs),
        "DF-22" => gains(runs),
        "DF-23" => highest_gains(runs),
        "DF-24" => ["F1", "F2"]
            .map(|trace| one_of(runs, trace, "0.50", gain_ratio))
            .into_iter()
            .collect::<Result<Vec<_>>>()
            .map(|values| values.concat()),
        "DF-25" => TRACES
            .iter()
            .map(|(trace, ..)| {
                let run = runs.get(&format!("{trace}/0.20"))?;
                let share = run.figure("parts.collections_of_deltas") / run.figure("parts.collections");
                Ok(Value::new(*trace, 100.0 * share))
            })
            .collect(),
        "DF-26" => {
            RATIOS.iter().map(|ratio| Ok(Value::new(*ratio, mean(runs, ratio, latency_saved)?))).collect()
        }
        "DF-27" => median_of(runs, time_per_collection),
        "DF-28" => {
            RATIOS.iter().map(|ratio| Ok(Value::new(*ratio, mean(runs, ratio, double_reads)?))).collect()
        }
        "DF-29" => one_of(runs, "F2", "0.50", double_reads),
        _ => return None,
    })
}

fn table(runs: &Runs, trace: &str) -> Result<Vec<Value>> {
    let run = runs.get(&format!("{trace}/counts"))?;
    let millions = |figure: &str| run.extrapolated(figure) / 1e6;
    Ok(vec![
        Value::new("reads, M", millions("reads")),
        Value::new("writes, M", millions("writes")),
        Value::new("reads, %", 100.0 * run.figure("reads") / run.figure("requests")),
        Value::new("hours", run.extrapolated("duration_s") / 3600.0),
    ])
}

/// What a comparison of a delta run with its baseline gives.
type Compared = fn(Run<'_>, Run<'_>) -> f64;

fn compared(runs: &Runs, trace: &str, drive: &str, ratio: &str, value: Compared) -> Result<f64> {
    let of = |variant: &str| runs.get(&format!("{trace}/{drive}{variant}"));
    Ok(value(of(ratio)?, of("baseline")?))
}

fn one_of(runs: &Runs, trace: &str, ratio: &str, value: Compared) -> Result<Vec<Value>> {
    Ok(vec![
        Value::new(trace, compared(runs, trace, "", ratio, value)?),
        Value::new(format!("{trace} fitted"), compared(runs, trace, "fitted-", ratio, value)?),
    ])
}

fn mean_on(runs: &Runs, drive: &str, ratio: &str, value: Compared) -> Result<f64> {
    let values: Result<Vec<f64>> =
        TRACES.iter().map(|(trace, _)| compared(runs, trace, drive, ratio, value)).collect();
    Ok(values?.iter().sum::<f64>() / TRACES.len() as f64)
}

fn mean(runs: &Runs, ratio: &str, value: Compared) -> Result<f64> {
    mean_on(runs, "", ratio, value)
}

/// The mean over the traces on either drive, and each trace of the paper's beside it.
fn mean_of(runs: &Runs, ratio: &str, value: Compared) -> Result<Vec<Value>> {
    let mut values = vec![
        Value::new("mean", mean(runs, ratio, value)?),
        Value::new("mean fitted", mean_on(runs, "fitted-", ratio, value)?),
    ];
    for (trace, _) in TRACES {
        values.push(Value::new(trace, compared(runs, trace, "", ratio, value)?));
    }
    Ok(values)
}

fn median_of(runs: &Runs, value: Compared) -> Result<Vec<Value>> {
    let values: Result<Vec<f64>> =
        TRACES.iter().map(|(trace, _)| compared(runs, trace, "", "0.50", value)).collect();
    let mut values = values?;
    values.sort_by(f64::total_cmp);
    Ok(vec![Value::new("median", f64::midpoint(values[2], values[3]))])
}

fn collections(run: Run<'_>) -> f64 {
    run.figure("erases_by_cause.gc")
}

fn collections_left(run: Run<'_>, baseline: Run<'_>) -> f64 {
    100.0 * collections(run) / collections(baseline)
}

/// Pages that a collection frees: those of its victim that it need not write again.
fn gain(run: Run<'_>) -> f64 {
    BLOCK - run.programs("gc") / collections(run)
}

fn gain_ratio(run: Run<'_>, baseline: Run<'_>) -> f64 {
    gain(run) / gain(baseline)
}

fn latency_saved(run: Run<'_>, baseline: Run<'_>) -> f64 {
    let mean = |run: Run<'_>| run.figure("latency_us.write.mean");
    100.0 * (1.0 - mean(run) / mean(baseline))
}

fn double_reads(run: Run<'_>, _: Run<'_>) -> f64 {
    100.0 * run.figure("parts.double_reads") / run.figure("host_page_reads")
}

fn time_per_collection(run: Run<'_>, baseline: Run<'_>) -> f64 {
    let time_us = |run: Run<'_>| {
        (run.figure("reads_by_cause.gc") * 25.0 + run.programs("gc") * 200.0) / collections(run) + 1500.0
    };
    time_us(run) / time_us(baseline)
}

fn delta_share(run: Run<'_>) -> f64 {
    run.figure("writes_by_form.delta") / run.figure("host_page_writes")
}

/// Pages written for the host, whole or full of deltas, per host write.
fn foreground(run: Run<'_>) -> f64 {
    (run.figure("writes_by_form.page") + run.figure("parts.delta_pages_committed"))
        / run.figure("host_page_writes")
}

fn holds(of: &str, statement: bool) -> Value {
    Value::new(of, f64::from(u8::from(statement)))
}

fn falls(values: &[f64]) -> bool {
    values.windows(2).all(|pair| pair[1] < pair[0])
}

fn foreground_is_monotone(runs: &Runs) -> Result<Vec<Value>> {
    let of = |skew: &str, ratio: &str| runs.get(&format!("synthetic/{skew}-{ratio}"));
    let by_ratio: Result<Vec<f64>> = RATIOS.iter().map(|ratio| Ok(foreground(of("0.9", ratio)?))).collect();
    let by_skew: Result<Vec<(f64, f64)>> = SKEWS
        .iter()
        .map(|skew| {
            let run = of(skew, "0.35")?;
            Ok((delta_share(run), foreground(run)))
        })
        .collect();
    let mut by_skew = by_skew?;
    by_skew.sort_by(|a, b| a.0.total_cmp(&b.0));
    let by_share: Vec<f64> = by_skew.iter().map(|(_, foreground)| *foreground).collect();
    Ok(vec![holds("falls with Rc", falls(&by_ratio?)), holds("falls with Pc", falls(&by_share))])
}

fn share_of_deltas(runs: &Runs) -> Result<Vec<Value>> {
    let mut shares = Vec::new();
    for (trace, _) in TRACES {
        let of: Result<Vec<f64>> =
            RATIOS.iter().map(|ratio| Ok(delta_share(runs.get(&format!("{trace}/{ratio}"))?))).collect();
        shares.push(of?);
    }
    let mean = |of: &Vec<f64>| of.iter().sum::<f64>() / of.len() as f64;
    let is_flat = |of: &Vec<f64>| of.iter().all(|share| (share - mean(of)).abs() <= 0.01 * mean(of));
    let lowest_two = |k: usize| shares[2..].iter().all(|other| mean(&shares[k]) < mean(other));
    let mut values = vec![
        holds("independent of Rc", shares.iter().all(is_flat)),
        holds("F1, F2 lowest", lowest_two(0) && lowest_two(1)),
    ];
    values.extend(
        TRACES.iter().zip(&shares).map(|((trace, _), of)| Value::new(format!("Pc {trace}"), mean(of))),
    );
    Ok(values)
}

fn gains(runs: &Runs) -> Result<Vec<Value>> {
    Ok(vec![
        Value::new("C8 baseline", gain(runs.get("C8/baseline")?)),
        Value::new("F2 at 0.20", gain(runs.get("F2/0.20")?)),
    ])
}

fn highest_gains(runs: &Runs) -> Result<Vec<Value>> {
    let of: Result<Vec<f64>> =
        TRACES.iter().map(|(trace, _)| Ok(gain(runs.get(&format!("{trace}/baseline"))?))).collect();
    let of = of?;
    let lowest = of[0].min(of[1]);
    Ok(vec![holds("", of[2..].iter().all(|other| *other < lowest))])
}
