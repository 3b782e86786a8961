//! Running a paper's experiments, one after the other, into a folder that survives interruptions.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::experiment::{Experiment, Setting, Size, Trouble};
use super::results::Results;
use super::target::Paper;
use super::traces::Traces;
use super::{experiments, figures, render};
use crate::replay::Progress;

/// What to run, and where to.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much.
    pub size: Size,
    /// Seed.
    pub seed: u64,
    /// Folder of the paper: `results.json` and its views are written here.
    pub folder: PathBuf,
    /// Original traces.
    pub traces: Traces,
    /// Run everything again.
    pub fresh: bool,
}

/// Who watches a run.
pub trait Observer {
    /// An experiment begins; `Break` ends the run before it. `left` is an estimate for all that are left, if one can be
    /// made.
    fn begins(&mut self, number: usize, total: usize, name: &str, left: Option<Duration>) -> ControlFlow<()>;

    /// An experiment goes on; `Break` ends the run.
    fn goes_on(&mut self, progress: Progress) -> ControlFlow<()>;

    /// An experiment ended without a result.
    fn not_run(&mut self, name: &str, why: &str);
}

/// Runs a paper's experiments as far as the folder lacks them, and writes all views. What is finished is written after
/// each experiment.
///
/// # Errors
/// Files that cannot be written.
pub fn run(paper: Paper, options: &Options, observer: &mut dyn Observer) -> std::io::Result<Results> {
    let setting = Setting { size: options.size, seed: options.seed, traces: options.traces.clone() };
    run_experiments(paper, &experiments(paper, &setting), options, observer)
}

/// Like [`run`], for these experiments instead of the paper's.
///
/// # Errors
/// Files that cannot be written.
pub fn run_experiments(
    paper: Paper,
    wanted: &[Experiment],
    options: &Options,
    observer: &mut dyn Observer,
) -> std::io::Result<Results> {
    std::fs::create_dir_all(&options.folder)?;
    let mut results = Results::empty(paper, options.size, options.seed);
    results.experiments = if options.fresh { Vec::new() } else { finished(&options.folder) };
    results.experiments.retain(|record| wanted.iter().any(|experiment| experiment.key() == record.key));
    let is_done = |experiment: &&Experiment| {
        let key = experiment.key();
        results.experiments.iter().any(|record| record.key == key)
    };
    let to_do: Vec<&Experiment> = wanted.iter().filter(|experiment| !is_done(experiment)).collect();
    let started = Instant::now();
    for (k, experiment) in to_do.iter().enumerate() {
        let left = (k > 0).then(|| started.elapsed() / k as u32 * (to_do.len() - k) as u32);
        let flow = observer.begins(k + 1, to_do.len(), &experiment.name, left);
        results.partial = flow.is_break() || !add(experiment, &mut results, observer);
        if results.partial {
            break;
        }
        write_record(&mut results, paper, &options.folder)?;
    }
    let place = |name: &str| wanted.iter().position(|experiment| experiment.name == name);
    results.experiments.sort_by_key(|record| place(&record.name));
    write_record(&mut results, paper, &options.folder)?;
    write_views(&results, paper, &options.folder)?;
    Ok(results)
}

/// Runs one experiment; false if it was interrupted.
fn add(experiment: &Experiment, results: &mut Results, observer: &mut dyn Observer) -> bool {
    match experiment.run(&mut |progress| observer.goes_on(progress)) {
        Ok(record) => results.experiments.push(record),
        Err(Trouble::Interrupted) => return false,
        Err(Trouble::NotRun(why)) => {
            observer.not_run(&experiment.name, &why);
            results.not_run.insert(experiment.name.clone(), why);
        }
    }
    true
}

/// Experiments of an earlier run; none if there is no readable record.
fn finished(folder: &Path) -> Vec<super::experiment::Record> {
    let text = std::fs::read_to_string(folder.join("results.json")).unwrap_or_default();
    Results::from_json(&text).map(|results| results.experiments).unwrap_or_default()
}

fn write_record(results: &mut Results, paper: Paper, folder: &Path) -> std::io::Result<()> {
    results.evaluate(paper);
    write_whole(&folder.join("results.json"), &results.to_json())
}

/// Everything that is made from the record.
///
/// # Errors
/// Files that cannot be written.
pub fn write_views(results: &Results, paper: Paper, folder: &Path) -> std::io::Result<()> {
    let targets = paper.targets();
    let drawn = figures::draw(&targets, results);
    std::fs::create_dir_all(folder.join("figures"))?;
    for figure in &drawn {
        write_whole(&folder.join("figures").join(figure.file_name()), &figure.svg)?;
    }
    write_whole(&folder.join("RESULTS.md"), &render::markdown(&targets, results, &drawn))?;
    write_whole(&folder.join("RESULTS.html"), &render::html(&targets, results, &drawn))
}

/// Writes a file so that a reader sees the old one or the whole new one.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let partial = path.with_extension("partial");
    std::fs::write(&partial, text)?;
    std::fs::rename(&partial, path)
}
