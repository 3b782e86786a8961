//! Running a paper's experiments into a folder that survives interruptions.
//!
//! Experiments are independent, so several run at a time; records are ordered by the catalogue, and the result does not depend
//! on how many. The thread that was called talks to the observer and writes files, the others only run experiments. An
//! experiment begins when the observer has allowed it, so that a run that is ended begins nothing more.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use wearwell_replay::replay::Progress;

use super::experiment::{self, Experiment, Record, Setting, Size, Trouble};
use super::results::Results;
use super::target::Paper;
use super::traces::Traces;
use super::{experiments, figures, render};

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
    /// Experiments at a time, at least one.
    pub jobs: usize,
}

/// Who watches a run.
pub trait Observer {
    /// An experiment begins; `Break` ends the run before it. `left` is an estimate for all that are left, if one can be
    /// made.
    fn begins(&mut self, number: usize, total: usize, name: &str, left: Option<Duration>) -> ControlFlow<()>;

    /// An experiment goes on; `Break` ends the run.
    fn goes_on(&mut self, name: &str, progress: Progress) -> ControlFlow<()>;

    /// An experiment ended without a result.
    fn not_run(&mut self, name: &str, why: &str);
}

/// An experiment and, of one at full size, its quick counterpart.
#[derive(Clone, Debug)]
pub struct Job {
    /// What is wanted.
    pub experiment: Experiment,
    /// Run first; the digest of its figures is kept in the record (see [`super::results`]).
    pub quick: Option<Experiment>,
}

impl From<Experiment> for Job {
    fn from(experiment: Experiment) -> Self {
        Self { experiment, quick: None }
    }
}

/// What a paper's rows need. An original trace has no quick counterpart, since it is never scaled down.
pub fn jobs(paper: Paper, setting: &Setting) -> Vec<Job> {
    let quick = match setting.size {
        Size::Quick => Vec::new(),
        Size::Full => experiments(paper, &Setting { size: Size::Quick, ..setting.clone() }),
    };
    let job = |experiment: Experiment| {
        let same = quick.iter().find(|quick| quick.name == experiment.name && !quick.is_original());
        Job { quick: same.cloned(), experiment }
    };
    experiments(paper, setting).into_iter().map(job).collect()
}

/// Runs a paper's experiments as far as the folder lacks them, and writes all views. What is finished is written after
/// each experiment. What older code has run at full size stays in the folder until its turn comes, and for good if its quick
/// counterpart gives the same figures as then.
///
/// # Errors
/// Files that cannot be written.
pub fn run(paper: Paper, options: &Options, observer: &mut dyn Observer) -> std::io::Result<Results> {
    let setting = Setting { size: options.size, seed: options.seed, traces: options.traces.clone() };
    run_jobs(paper, &jobs(paper, &setting), options, observer)
}

/// Like [`run`], for these experiments instead of the paper's.
///
/// # Errors
/// Files that cannot be written.
pub fn run_jobs(
    paper: Paper,
    wanted: &[Job],
    options: &Options,
    observer: &mut dyn Observer,
) -> std::io::Result<Results> {
    std::fs::create_dir_all(&options.folder)?;
    let mut results = Results::empty(paper, options.size, options.seed);
    if !options.fresh {
        results.experiments = finished(&options.folder);
    }
    let code = experiment::code();
    let is_wanted = |record: &Record| wanted.iter().any(|job| job.experiment.key() == record.key);
    let may_stand = |record: &Record| record.code == code || record.quick_digest.is_some();
    results.experiments.retain(|record| is_wanted(record) && may_stand(record));
    let task = |job| Task { job, before: results.of_key(&job.experiment.key()).cloned() };
    let is_done = |task: &Task| task.before.as_ref().is_some_and(|record| record.code == code);
    let to_do: Vec<Task> = wanted.iter().map(task).filter(|task| !is_done(task)).collect();
    let quick = quick_record(paper, options.size, &options.folder);
    let mut write = |results: &mut Results| {
        let place = |name: &str| wanted.iter().position(|job| job.experiment.name == name);
        results.experiments.sort_by_key(|record| place(&record.name));
        results.evaluate(paper, quick.as_ref());
        write_whole(&options.folder.join("results.json"), &results.to_json())
    };
    results.partial = !run_at_once(&to_do, options.jobs, &mut results, observer, &mut write)?;
    write(&mut results)?;
    write_views(&results, paper, &options.folder)?;
    Ok(results)
}

/// A job that is not done by this code, and what it gave with older code.
struct Task<'a> {
    job: &'a Job,
    before: Option<Record>,
}

impl Task<'_> {
    fn name(&self) -> &str {
        &self.job.experiment.name
    }

    /// Runs the quick counterpart, if there is one, and the experiment, unless the counterpart gives what it gave when older
    /// code ran the experiment.
    fn run(&self, on_progress: wearwell_replay::replay::OnProgress<'_>) -> Result<Record, Trouble> {
        let quick = self.job.quick.as_ref().map(|quick| quick.run(on_progress)).transpose()?;
        let digest = quick.map(|quick| quick.figures_digest());
        match &self.before {
            Some(record) if digest.is_some() && record.quick_digest == digest => Ok(record.clone()),
            _ => Ok(Record { quick_digest: digest, ..self.job.experiment.run(on_progress)? }),
        }
    }
}

/// What a thread that runs experiments reports; jobs are named by their place in the list.
enum Report {
    /// Wants to begin; begins if the answer is true.
    Begins(usize, Sender<bool>),
    GoesOn(usize, Progress),
    Ends(usize, Result<Box<Record>, Trouble>),
}

/// Runs the jobs, `at_once` at a time; false if the observer ended it. What finishes after that is kept all the same.
fn run_at_once(
    to_do: &[Task],
    at_once: usize,
    results: &mut Results,
    observer: &mut dyn Observer,
    write: &mut dyn FnMut(&mut Results) -> std::io::Result<()>,
) -> std::io::Result<bool> {
    let (next, is_ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, reports) = channel();
    std::thread::scope(|scope| {
        for k in 0..at_once.clamp(1, to_do.len().max(1)) {
            let (sender, next, is_ended) = (sender.clone(), &next, &is_ended);
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            match thread.spawn_scoped(scope, move || work(to_do, next, is_ended, &sender)) {
                Err(error) if k == 0 => return Err(error),
                // Fewer threads give the same record.
                Err(_) => break,
                Ok(_) => {}
            }
        }
        drop(sender);
        let outcome = listen(to_do, reports, &is_ended, results, observer, write);
        is_ended.store(true, Ordering::Relaxed);
        outcome
    })
}

/// As much as the main thread of a process usually has.
const STACK_BYTES: usize = 8 << 20;

/// Runs one job after the other until none is left or the run is ended.
fn work(to_do: &[Task], next: &AtomicUsize, is_ended: &AtomicBool, reports: &Sender<Report>) {
    loop {
        let k = next.fetch_add(1, Ordering::Relaxed);
        let Some(task) = to_do.get(k) else { return };
        let (answer, may_begin) = channel();
        // Whoever listens has gone if sending fails; then nothing is wanted any more.
        if reports.send(Report::Begins(k, answer)).is_err() || !may_begin.recv().unwrap_or(false) {
            return;
        }
        let outcome = task.run(&mut |progress| {
            let is_heard = reports.send(Report::GoesOn(k, progress)).is_ok();
            if is_heard && !is_ended.load(Ordering::Relaxed) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        if reports.send(Report::Ends(k, outcome.map(Box::new))).is_err() {
            return;
        }
    }
}

/// Takes reports until all threads have ended; false if the observer ended the run. After an error nobody listens any more,
/// and the threads end.
fn listen(
    to_do: &[Task],
    reports: Receiver<Report>,
    is_ended: &AtomicBool,
    results: &mut Results,
    observer: &mut dyn Observer,
    write: &mut dyn FnMut(&mut Results) -> std::io::Result<()>,
) -> std::io::Result<bool> {
    let (started, mut begun, mut finished) = (Instant::now(), 0, 0);
    let mut is_whole = true;
    let end = |is_whole: &mut bool| {
        *is_whole = false;
        is_ended.store(true, Ordering::Relaxed);
    };
    for report in reports {
        match report {
            Report::Begins(k, answer) => {
                let left =
                    (finished > 0).then(|| started.elapsed() / finished * (to_do.len() as u32 - finished));
                let is_allowed = is_whole && {
                    begun += 1;
                    observer.begins(begun, to_do.len(), to_do[k].name(), left).is_continue()
                };
                if !is_allowed {
                    end(&mut is_whole);
                }
                // A thread that no longer listens has ended.
                let _ = answer.send(is_allowed);
            }
            Report::GoesOn(k, progress) => {
                if observer.goes_on(to_do[k].name(), progress).is_break() {
                    end(&mut is_whole);
                }
            }
            Report::Ends(_, Err(Trouble::Interrupted)) => end(&mut is_whole),
            Report::Ends(k, outcome) => {
                finished += 1;
                take(to_do[k].name(), outcome, results, observer);
                // What is not there yet makes the record a partial one until the end.
                results.partial = (finished as usize) < to_do.len();
                write(results)?;
            }
        }
    }
    Ok(is_whole)
}

/// Takes an experiment that ended by itself.
fn take(
    name: &str,
    outcome: Result<Box<Record>, Trouble>,
    results: &mut Results,
    observer: &mut dyn Observer,
) {
    match outcome {
        Ok(record) => {
            results.experiments.retain(|before| before.key != record.key);
            results.experiments.push(*record);
        }
        Err(Trouble::NotRun(why)) => {
            observer.not_run(name, &why);
            results.not_run.insert(name.to_owned(), why);
        }
        Err(Trouble::Interrupted) => {}
    }
}

/// Experiments of an earlier run; none if there is no readable record.
fn finished(folder: &Path) -> Vec<Record> {
    record_in(folder).map(|results| results.experiments).unwrap_or_default()
}

fn record_in(folder: &Path) -> Option<Results> {
    let text = std::fs::read_to_string(folder.join("results.json")).ok()?;
    Results::from_json(&text).ok()
}

/// The quick record that a full one in this folder is compared with: that of `papers/lx` for `papers/full/lx`.
pub fn quick_record(paper: Paper, size: Size, folder: &Path) -> Option<Results> {
    let papers = folder.parent()?.parent()?;
    let quick = record_in(&papers.join(paper.name()))?;
    (size == Size::Full && quick.size == Size::Quick).then_some(quick)
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

/// Evaluates the record of a folder again and writes its views.
///
/// # Errors
/// There is no record, or files cannot be written.
pub fn render_again(paper: Paper, folder: &Path) -> std::io::Result<Results> {
    let text = std::fs::read_to_string(folder.join("results.json"))?;
    let mut results = Results::from_json(&text)?;
    results.evaluate(paper, quick_record(paper, results.size, folder).as_ref());
    write_whole(&folder.join("results.json"), &results.to_json())?;
    write_views(&results, paper, folder)?;
    Ok(results)
}

/// Writes a file so that a reader sees the old one or the whole new one.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let partial = path.with_extension("partial");
    std::fs::write(&partial, text)?;
    std::fs::rename(&partial, path)
}
