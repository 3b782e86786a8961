//! `replay`, `compare` and `config`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use wearwell_replay::config::Config;
use wearwell_replay::input::Input;
use wearwell_replay::replay::{Plan, ReplayError};
use wearwell_replay::report::Comparison;

use crate::args::{CompareArgs, ReplayArgs, RunArgs};
use crate::progress::Reporter;
use crate::{Failure, Outcome};

pub(crate) fn replay(args: &ReplayArgs) -> Result<Outcome, Failure> {
    let inputs = inputs(args.trace.iter(), &args.run)?;
    let runs = run_all(&inputs, std::slice::from_ref(&args.design), &args.run)?;
    let Some(run) = runs.comparison.runs.first() else { return Err(Failure::interrupted()) };
    let json = serde_json::to_string_pretty(run).map_err(|error| Failure::of_run(&error))?;
    output(&runs, &json, &args.run)
}

pub(crate) fn compare(args: &CompareArgs) -> Result<Outcome, Failure> {
    let inputs = inputs(args.traces.iter(), &args.run)?;
    let runs = run_all(&inputs, &args.designs, &args.run)?;
    if runs.comparison.runs.is_empty() {
        return Err(Failure::interrupted());
    }
    let json = runs.comparison.to_json();
    output(&runs, &json, &args.run)
}

pub(crate) fn show_config(args: &RunArgs) -> Result<Outcome, Failure> {
    print!("{}", config(args)?.to_toml());
    Ok(Outcome::Done)
}

fn config(args: &RunArgs) -> Result<Config, Failure> {
    config_of(args.config.as_deref(), &args.all_settings())
}

/// The configuration of a file, if there is one, and settings.
pub(crate) fn config_of(file: Option<&Path>, settings: &[String]) -> Result<Config, Failure> {
    let file = match file {
        Some(path) => {
            let text = fs::read_to_string(path)
                .map_err(|error| Failure::of_usage(format!("{}: {error}", path.display())))?;
            Some((path.display().to_string(), text))
        }
        None => None,
    };
    let file = file.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
    Config::from_parts(file, settings).map_err(|error| Failure::of_usage(error.to_string()))
}

fn inputs<'a>(traces: impl Iterator<Item = &'a PathBuf>, args: &RunArgs) -> Result<Vec<Input>, Failure> {
    if let Some(spec) = &args.workload {
        let input = Input::generated(spec).map_err(|error| Failure::of_usage(error.to_string()))?;
        return Ok(vec![input]);
    }
    let options = args.input.open_options()?;
    Ok(traces.map(|path| Input::Trace { path: path.clone(), options: options.clone() }).collect())
}

/// What was run of what was asked for.
struct Runs {
    comparison: Comparison,
    /// Every design on every input, each to its end.
    complete: bool,
}

/// Every input through every design; ctrl-C ends the run in hand and keeps what is done.
fn run_all(inputs: &[Input], designs: &[String], args: &RunArgs) -> Result<Runs, Failure> {
    let config = config(args)?;
    let reporter = Reporter::new(args.quiet);
    let mut comparison = Comparison::default();
    for input in inputs {
        if reporter.is_interrupted() {
            break;
        }
        let plan = Plan::new(&config, input).map_err(|error| failure(&error))?;
        for design in designs {
            // A misspelt design should fail before the first one has run for minutes.
            config.parts(design, plan.resolved()).map_err(|error| Failure::of_usage(error.to_string()))?;
        }
        for design in designs {
            if reporter.is_interrupted() {
                break;
            }
            let record =
                plan.run(design, &mut reporter.of_design(design)).map_err(|error| failure(&error))?;
            comparison.runs.push(record);
        }
    }
    let all = comparison.runs.len() == inputs.len() * designs.len();
    let complete = all && comparison.runs.iter().all(|run| !run.partial);
    Ok(Runs { comparison, complete })
}

fn failure(error: &ReplayError) -> Failure {
    match error {
        ReplayError::Config(_) | ReplayError::Content(_) => Failure::of_usage(error.to_string()),
        _ => Failure::of_run(error),
    }
}

fn output(runs: &Runs, json: &str, args: &RunArgs) -> Result<Outcome, Failure> {
    if let Some(path) = &args.json {
        write_whole(path, &format!("{json}\n"))?;
    }
    if let Some(path) = &args.csv {
        write_whole(path, &runs.comparison.to_csv())?;
    }
    let to_stdout = [&args.json, &args.csv].into_iter().flatten().any(|path| path == Path::new("-"));
    if !args.quiet && !to_stdout {
        print!("{}", runs.comparison.to_table());
    }
    Ok(if runs.complete { Outcome::Done } else { Outcome::Partial })
}

/// Writes a file so that a reader sees the old one or the whole new one.
fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let describe = |error: std::io::Error| Failure::of_usage(format!("{}: {error}", path.display()));
    if path == Path::new("-") {
        return std::io::stdout().write_all(text.as_bytes()).map_err(describe);
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    fs::write(&partial, text).and_then(|()| fs::rename(&partial, path)).map_err(describe)
}
