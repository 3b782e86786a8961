//! Experiments of the integrated lifetime management paper (IL, section IV) and what its rows take from them.
//!
//! Device: the paper's 64-GiB drive, new, as the substitutes for its traces assume a write amplification of 1. Requests
//! come their original gap after the previous completion, so that a throttled write moves all later ones: only thus
//! can throttling lengthen a life. Gaps leave out the time that the baseline takes to serve a request, as those of a
//! recorded trace do, so that the baseline writes at the rate that Table I implies. Energies are those of the printed
//! powers; `2x` beside them has twice the energy of compression, with which the paper's break-even comes out. Lifetime is the budget of program/erase cycles over the rate at which pages were
//! programmed in device time.

use super::closed_forms::{budget_bytes, rate_of_lifetime};
use super::experiment::{Experiment, Run, Runs, Setting, Size, Source};
use super::verdict::Value;

/// The paper's name, ours, and the baseline's lifetime in years (Table I), from which the substitutes have their rate.
const TRACES: [(&str, &str, f64); 3] =
    [("WKSN", "wksn", 6.8), ("Media", "media", 3.8), ("DVMT", "dvmt", 3.04)];
/// Writes that the synthetic load sends per second: 1.97 MB/s, half as much again as the target allows.
const SYNTHETIC_RATE: f64 = 480.0;
const SCHEMES: [&str; 5] = ["baseline", "throttling", "compression", "dedup", "integrated"];

/// Share of a trace's time between requests, on a drive that needs 610 us for a write and 60 us for a read, of which
/// there are `reads` to a write.
fn idle_share(writes_per_s: f64, reads: f64) -> f64 {
    1.0 - writes_per_s * (610e-6 + reads * 60e-6)
}

fn writes_per_s(years: f64) -> f64 {
    rate_of_lifetime(budget_bytes(64.0 * f64::from(1 << 30), 3000.0), years) / 4096.0
}

fn settings(setting: &Setting, scheme: &str, idle_share: f64) -> Vec<String> {
    vec![
        "device.preset=il-64g".to_owned(),
        "timing.mode=event".to_owned(),
        "replay.arrival=think".to_owned(),
        format!("replay.time_scale={idle_share:.4}"),
        format!("lifetime.schemes={scheme}"),
        format!("replay.seed={}", setting.seed),
    ]
}

/// A plain page map knows no schemes that look at content.
fn design(scheme: &str) -> &'static str {
    match scheme {
        "baseline" | "throttling" => "page-map",
        _ => "integrated",
    }
}

/// Everything that the rows need.
pub fn experiments(setting: &Setting) -> Vec<Experiment> {
    let scale = match setting.size {
        Size::Quick => 0.05,
        Size::Full => 1.0,
    };
    let mut experiments = Vec::new();
    for (trace, name, years) in TRACES {
        let idle = idle_share(writes_per_s(years), 0.3);
        let mut add = |variant: String, scheme: &str, extra: &[&str]| {
            let source = Source::Substitute(format!("{name}:scale={scale},seed={}", setting.seed));
            let extra = extra.iter().map(|&setting| setting.to_owned());
            let settings = settings(setting, scheme, idle).into_iter().chain(extra).collect();
            experiments.push(Experiment::replay(
                format!("{trace}/{variant}"),
                (source, scale),
                design(scheme),
                settings,
            ));
        };
        for scheme in SCHEMES {
            add(scheme.to_owned(), scheme, &[]);
        }
        if trace != "Media" {
            add("integrated-2x".to_owned(), "integrated", &["lifetime.fitted_energy=true"]);
        }
    }
    for scheme in ["throttling", "integrated"] {
        let load = format!(
            "uniform:pages=1000000,requests={},rate={SYNTHETIC_RATE},seed={}+dup:share=0.05,compress=0.95",
            (40e6 * scale).round(),
            setting.seed
        );
        let settings = settings(setting, scheme, idle_share(SYNTHETIC_RATE, 0.0));
        let source = (Source::Generated(load), scale);
        experiments.push(Experiment::replay(format!("synthetic/{scheme}"), source, design(scheme), settings));
    }
    experiments
}

type Result<T> = std::result::Result<T, String>;

/// What a row measures; `None` if no experiment is about it.
pub fn measure(id: &str, runs: &Runs) -> Option<Result<Vec<Value>>> {
    Some(match id {
        "IL-01" => lifetimes(runs, "WKSN"),
        "IL-02" => lifetimes(runs, "Media"),
        "IL-03" => lifetimes(runs, "DVMT"),
        "IL-04" => saved(runs, "WKSN", "integrated", response).map(|saved| vec![Value::new("", saved)]),
        "IL-05" => energies(runs, "WKSN", 1.0),
        "IL-06" => energies(runs, "DVMT", -1.0),
        "IL-07" => decisions(runs),
        "IL-08" => ["throttling", "integrated"]
            .iter()
            .map(|scheme| Ok(Value::new(*scheme, response(runs.get(&format!("DVMT/{scheme}"))?)?)))
            .collect(),
        "IL-16" => ["throttling", "integrated"]
            .iter()
            .map(|scheme| Ok(Value::new(*scheme, years(runs.get(&format!("synthetic/{scheme}"))?))))
            .collect(),
        "IL-18" => gains(runs),
        _ => return None,
    })
}

/// Years of 365 days until the budget is used up, by what was programmed.
fn years(run: Run<'_>) -> f64 {
    run.figure("lifetime.years_by_programs")
}

fn lifetimes(runs: &Runs, trace: &str) -> Result<Vec<Value>> {
    let of = |scheme: &&str| Ok(Value::new(*scheme, years(runs.get(&format!("{trace}/{scheme}"))?)));
    SCHEMES.iter().map(of).collect()
}

fn response(run: Run<'_>) -> Result<f64> {
    run.required("latency_us.write.mean")
}

/// Energy per host page write.
fn energy(run: Run<'_>) -> Result<f64> {
    run.required("lifetime.energy_uj_per_page")
}

/// What a variant of the integrated scheme saves of the baseline's, percent.
fn saved(runs: &Runs, trace: &str, variant: &str, value: impl Fn(Run<'_>) -> Result<f64>) -> Result<f64> {
    let of = |variant: &str| value(runs.get(&format!("{trace}/{variant}"))?);
    Ok(100.0 * (1.0 - of(variant)? / of("baseline")?))
}

/// Energy saved at the printed powers, and with twice the energy of compression; `sign` -1 makes it an increase.
fn energies(runs: &Runs, trace: &str, sign: f64) -> Result<Vec<Value>> {
    Ok(vec![
        Value::new("", sign * saved(runs, trace, "integrated", energy)?),
        Value::new("2x", sign * saved(runs, trace, "integrated-2x", energy)?),
    ])
}

/// What the integrated scheme did about Media, from what came of it: compression is off if at most a tenth of the pages
/// went through it (the first epoch tries everything), dedup on if it found more than half of what it finds alone.
fn decisions(runs: &Runs) -> Result<Vec<Value>> {
    let (run, dedup) = (runs.get("Media/integrated")?, runs.get("Media/dedup")?);
    let compressed = run.figure("parts.chunk_members") + run.figure("parts.chunk_incompressible_pages");
    let shared = |run: Run<'_>| run.figure("writes_by_form.deduplicated");
    let throttled = run.figure("lifetime.throttled_epochs") / run.figure("lifetime.epochs");
    let holds = |of: &str, statement: bool| Value::new(of, f64::from(u8::from(statement)));
    Ok(vec![
        holds("compression off", compressed < 0.1 * run.figure("host_page_writes")),
        holds("dedup on", shared(run) > 0.5 * shared(dedup)),
        holds("throttled", throttled > 0.5),
    ])
}

fn gains(runs: &Runs) -> Result<Vec<Value>> {
    Ok(vec![
        Value::new("response time", saved(runs, "WKSN", "integrated", response)?),
        Value::new("energy", saved(runs, "WKSN", "integrated", energy)?),
        Value::new("energy 2x", saved(runs, "WKSN", "integrated-2x", energy)?),
    ])
}
