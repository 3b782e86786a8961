//! Experiments of the integrated lifetime management paper (IL, section IV) and what its rows take from them.
//!
//! Device: the paper's 64-GiB drive, new, as the substitutes for its traces assume a write amplification of 1. Requests
//! come their original gap after the previous completion, so that a throttled write moves all later ones: only thus
//! can throttling lengthen a life. Lifetime is the budget of program/erase cycles over the rate at which pages were
//! programmed in device time.

use super::experiment::{Experiment, Run, Runs, Setting, Size, Source};
use super::verdict::Value;

const TRACES: [(&str, &str); 3] = [("WKSN", "wksn"), ("Media", "media"), ("DVMT", "dvmt")];
const SCHEMES: [&str; 5] = ["baseline", "throttling", "compression", "dedup", "integrated"];

fn settings(setting: &Setting, scheme: &str) -> Vec<String> {
    vec![
        "device.preset=il-64g".to_owned(),
        "timing.mode=event".to_owned(),
        "replay.arrival=think".to_owned(),
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
    for (trace, name) in TRACES {
        for scheme in SCHEMES {
            let source = Source::Substitute(format!("{name}:scale={scale},seed={}", setting.seed));
            let name = format!("{trace}/{scheme}");
            let settings = settings(setting, scheme);
            experiments.push(Experiment::replay(name, (source, scale), design(scheme), settings));
        }
    }
    for scheme in ["throttling", "integrated"] {
        // 1.97 MB/s: half as much again as the target allows.
        let load = format!(
            "uniform:pages=1000000,requests={},rate=480,seed={}+dup:share=0.05,compress=0.95",
            (40e6 * scale).round(),
            setting.seed
        );
        let name = format!("synthetic/{scheme}");
        let source = (Source::Generated(load), scale);
        experiments.push(Experiment::replay(name, source, design(scheme), settings(setting, scheme)));
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
        "IL-04" => saved(runs, "WKSN", response).map(|saved| vec![Value::new("", saved)]),
        "IL-05" => saved(runs, "WKSN", energy).map(|saved| vec![Value::new("", saved)]),
        "IL-06" => saved(runs, "DVMT", energy).map(|saved| vec![Value::new("", -saved)]),
        "IL-08" => ["throttling", "integrated"]
            .iter()
            .map(|scheme| Ok(Value::new(*scheme, response(&runs.get(&format!("DVMT/{scheme}"))?)?)))
            .collect(),
        "IL-16" => ["throttling", "integrated"]
            .iter()
            .map(|scheme| Ok(Value::new(*scheme, years(&runs.get(&format!("synthetic/{scheme}"))?))))
            .collect(),
        "IL-18" => gains(runs),
        _ => return None,
    })
}

/// Years of 365 days until the budget is used up, by what was programmed.
fn years(run: &Run<'_>) -> f64 {
    run.figure("lifetime.years_by_programs")
}

fn lifetimes(runs: &Runs, trace: &str) -> Result<Vec<Value>> {
    let of = |scheme: &&str| Ok(Value::new(*scheme, years(&runs.get(&format!("{trace}/{scheme}"))?)));
    SCHEMES.iter().map(of).collect()
}

fn response(run: &Run<'_>) -> Result<f64> {
    run.required("latency_us.write.mean")
}

/// Energy per host page write.
fn energy(run: &Run<'_>) -> Result<f64> {
    run.required("lifetime.energy_uj_per_page")
}

/// What the integrated scheme saves of the baseline's, percent.
fn saved(runs: &Runs, trace: &str, value: impl Fn(&Run<'_>) -> Result<f64>) -> Result<f64> {
    let of = |scheme: &str| value(&runs.get(&format!("{trace}/{scheme}"))?);
    Ok(100.0 * (1.0 - of("integrated")? / of("baseline")?))
}

fn gains(runs: &Runs) -> Result<Vec<Value>> {
    Ok(vec![
        Value::new("response time", saved(runs, "WKSN", response)?),
        Value::new("energy", saved(runs, "WKSN", energy)?),
    ])
}
