//! Runs the experiments of a paper and stores their records in a folder, so that an interrupted run can be resumed.
//!
//! Experiments are independent, so several run at a time. Records are ordered by the catalogue, so the result does not
//! depend on the number of threads. The calling thread calls the observer and writes files; the other threads only run
//! experiments. Each experiment starts only after the observer has allowed it, so that after an interruption no further
//! one starts.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use wearwell_replay::atomic_file::write_file_atomically;
use wearwell_replay::replay::Progress;
use wearwell_replay::worker_threads::spawn_workers;

use super::experiment::{self, Experiment, ExperimentConditions, ExperimentRecord, ExperimentSize};
use super::missing_record::MissingRecordReason;
use super::results::PaperResults;
use super::target::Paper;
use super::traces::OriginalTraces;
use super::{experiments, figures, render};

/// Options of a run of a paper's experiments: what to run and where to store it.
#[derive(Clone, Debug)]
pub struct ExperimentRunOptions {
    /// Size of the experiments: scaled down, or that of the paper.
    pub size: ExperimentSize,
    /// Seed of all random generators and designs.
    pub seed: u64,
    /// Folder of the paper, in which `results.json` and the files made from it are written.
    pub result_folder: PathBuf,
    /// Paths of those original traces of the papers that the user has; substitutes are generated for the others.
    pub traces: OriginalTraces,
    /// Whether all experiments are run again, even those whose records are up to date.
    pub reruns_all: bool,
    /// Number of experiments that run at a time, at least one.
    pub max_parallel_experiments: usize,
}

/// Receives the progress of a run of experiments and can end it.
pub trait ExperimentObserver {
    /// Called before an experiment starts; `Break` ends the run before the experiment starts. `time_left` is the
    /// estimated time for all remaining experiments, if there is an estimate.
    fn experiment_begins(
        &mut self,
        number: usize,
        total: usize,
        name: &str,
        time_left: Option<Duration>,
    ) -> ControlFlow<()>;

    /// Called repeatedly while an experiment runs; `Break` ends the run of all experiments.
    fn experiment_progress(&mut self, name: &str, progress: Progress) -> ControlFlow<()>;

    /// Called when an experiment ended without a result; `why` is the reason.
    fn experiment_not_run(&mut self, name: &str, why: &str);
}

/// An experiment that is to be run and, if it has full size, its scaled-down counterpart.
#[derive(Clone, Debug)]
pub struct ExperimentJob {
    /// The experiment whose record (result) is wanted.
    pub experiment: Experiment,
    /// The scaled-down counterpart of the experiment, which is run first. The digest of its figures is stored in the
    /// record (see [`super::results`]).
    pub scaled_down_experiment: Option<Experiment>,
}

impl From<Experiment> for ExperimentJob {
    fn from(experiment: Experiment) -> Self {
        Self { experiment, scaled_down_experiment: None }
    }
}

/// Returns the experiments of a paper, each with its scaled-down counterpart. Experiments on an original trace have no
/// counterpart, because an original trace is never scaled down.
pub fn experiment_jobs(paper: Paper, conditions: &ExperimentConditions) -> Vec<ExperimentJob> {
    let quick = match conditions.size {
        ExperimentSize::Quick => Vec::new(),
        ExperimentSize::Full => {
            experiments(paper, &ExperimentConditions { size: ExperimentSize::Quick, ..conditions.clone() })
        }
    };
    let job = |experiment: Experiment| {
        let same =
            quick.iter().find(|quick| quick.name == experiment.name && !quick.has_original_trace_input());
        ExperimentJob { scaled_down_experiment: same.cloned(), experiment }
    };
    experiments(paper, conditions).into_iter().map(job).collect()
}

/// Runs those experiments of a paper whose records (results) are missing in the folder or out of date, and writes all
/// files that are made from the results. The results are written after each experiment.
///
/// A full-size record of an older code version is first checked with the scaled-down experiment of the same name. If
/// that experiment still gives the same figures, the record is kept. Otherwise the full-size experiment is run, and its
/// new record replaces the old one.
///
/// # Errors
/// Files that cannot be written.
pub fn run_paper_experiments(
    paper: Paper,
    options: &ExperimentRunOptions,
    observer: &mut dyn ExperimentObserver,
) -> std::io::Result<PaperResults> {
    let setting =
        ExperimentConditions { size: options.size, seed: options.seed, traces: options.traces.clone() };
    run_experiment_jobs(paper, &experiment_jobs(paper, &setting), options, observer)
}

/// Runs those experiments of `wanted_jobs` whose records are missing or out of date, as [`run_paper_experiments`] does
/// for all experiments of a paper.
///
/// # Errors
/// Files that cannot be written.
pub fn run_experiment_jobs(
    paper: Paper,
    wanted_jobs: &[ExperimentJob],
    options: &ExperimentRunOptions,
    observer: &mut dyn ExperimentObserver,
) -> std::io::Result<PaperResults> {
    std::fs::create_dir_all(&options.result_folder)?;
    let mut results = PaperResults::new_empty(paper, options.size, options.seed);
    if !options.reruns_all {
        results.experiments = stored_experiment_records(&options.result_folder);
    }
    let code = experiment::code_digest();
    let digests: Vec<String> = wanted_jobs.iter().map(|job| job.experiment.definition_digest()).collect();
    let is_wanted = |record: &ExperimentRecord| digests.contains(&record.key);
    let may_stand = |record: &ExperimentRecord| record.code == code || record.quick_digest.is_some();
    results.experiments.retain(|record| is_wanted(record) && may_stand(record));
    let task = |(job, digest): (_, &String)| OutdatedExperimentJob {
        job,
        older_record: results.record_of_digest(digest).cloned(),
    };
    let is_done =
        |task: &OutdatedExperimentJob| task.older_record.as_ref().is_some_and(|record| record.code == code);
    let to_do: Vec<OutdatedExperimentJob> =
        wanted_jobs.iter().zip(&digests).map(task).filter(|task| !is_done(task)).collect();
    let quick = quick_results_to_compare_with(paper, options.size, &options.result_folder);
    let mut write = |results: &mut PaperResults| {
        let place = |name: &str| wanted_jobs.iter().position(|job| job.experiment.name == name);
        results.experiments.sort_by_key(|record| place(&record.name));
        results.evaluate_all_rows(paper, quick.as_ref());
        write_file_atomically(&options.result_folder.join("results.json"), results.to_json())
    };
    results.partial =
        !run_concurrently(&to_do, options.max_parallel_experiments, &mut results, observer, &mut write)?;
    write(&mut results)?;
    write_result_pages(&results, paper, &options.result_folder)?;
    Ok(results)
}

/// An experiment that is to be run because the current code has not run it, with its record by older code if there is
/// one.
struct OutdatedExperimentJob<'a> {
    /// The experiment, with its scaled-down counterpart if it has one.
    job: &'a ExperimentJob,
    /// Record of the experiment that older code made; `None` if there is none.
    older_record: Option<ExperimentRecord>,
}

impl OutdatedExperimentJob<'_> {
    /// Returns the name of the experiment.
    fn name(&self) -> &str {
        &self.job.experiment.name
    }

    /// Runs the scaled-down experiment of the same name, if there is one, and then the full-size experiment. The
    /// full-size experiment is not run if its stored record is from an older code version and the scaled-down figures
    /// are the same as with that version; the stored record is then returned.
    fn run(
        &self,
        on_progress: wearwell_replay::replay::OnProgress<'_>,
    ) -> Result<ExperimentRecord, MissingRecordReason> {
        let quick =
            self.job.scaled_down_experiment.as_ref().map(|quick| quick.run(on_progress)).transpose()?;
        let digest = quick.map(|quick| quick.figures_digest());
        match &self.older_record {
            Some(record) if digest.is_some() && record.quick_digest == digest => Ok(record.clone()),
            _ => Ok(ExperimentRecord { quick_digest: digest, ..self.job.experiment.run(on_progress)? }),
        }
    }
}

/// Message from a thread that runs experiments; the number in each variant is the index of the experiment in the list.
enum WorkerMessage {
    /// The thread wants to start an experiment and waits for the reply: true to start.
    Begins(usize, Sender<bool>),
    /// The experiment has made progress.
    Progressed(usize, Progress),
    /// The experiment has ended, with its record or the reason why there is none.
    Ends(usize, Result<Box<ExperimentRecord>, MissingRecordReason>),
}

/// Runs the experiments of `tasks`, at most `max_parallel_tasks` of them at a time. Returns false if the observer ended
/// the run; experiments that finish after that moment are still recorded.
fn run_concurrently(
    tasks: &[OutdatedExperimentJob],
    max_parallel_tasks: usize,
    results: &mut PaperResults,
    observer: &mut dyn ExperimentObserver,
    write_results: &mut dyn FnMut(&mut PaperResults) -> std::io::Result<()>,
) -> std::io::Result<bool> {
    let (next, is_ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, reports) = channel();
    std::thread::scope(|scope| {
        let (next, is_ended_by_user) = (&next, &is_ended);
        let work = move || run_tasks_of_thread(tasks, next, is_ended_by_user, &sender);
        // The record is the same with fewer threads.
        spawn_workers(scope, max_parallel_tasks.clamp(1, tasks.len().max(1)), work)?;
        let outcome = handle_worker_messages(tasks, reports, &is_ended, results, observer, write_results);
        is_ended.store(true, Ordering::Relaxed);
        outcome
    })
}

/// Executes one of several worker threads: runs the next experiment that no thread has begun, and repeats this until no
/// experiment is left or the run is ended.
fn run_tasks_of_thread(
    tasks: &[OutdatedExperimentJob],
    next_task_index: &AtomicUsize,
    is_run_ended: &AtomicBool,
    message_sender: &Sender<WorkerMessage>,
) {
    loop {
        let k = next_task_index.fetch_add(1, Ordering::Relaxed);
        let Some(task) = tasks.get(k) else { return };
        let (answer, may_begin) = channel();
        // If sending fails, the listener has ended, and no further experiment is wanted.
        if message_sender.send(WorkerMessage::Begins(k, answer)).is_err()
            || !may_begin.recv().unwrap_or(false)
        {
            return;
        }
        let outcome = task.run(&mut |progress| {
            let is_heard = message_sender.send(WorkerMessage::Progressed(k, progress)).is_ok();
            if is_heard && !is_run_ended.load(Ordering::Relaxed) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        if message_sender.send(WorkerMessage::Ends(k, outcome.map(Box::new))).is_err() {
            return;
        }
    }
}

/// Handles messages of the threads that run experiments until all have ended; returns false if the observer ended the
/// run. After an error the function returns, and the threads end because nobody receives their messages.
fn handle_worker_messages(
    tasks: &[OutdatedExperimentJob],
    message_receiver: Receiver<WorkerMessage>,
    is_run_ended: &AtomicBool,
    results: &mut PaperResults,
    observer: &mut dyn ExperimentObserver,
    write_results: &mut dyn FnMut(&mut PaperResults) -> std::io::Result<()>,
) -> std::io::Result<bool> {
    let (started, mut begun, mut finished) = (Instant::now(), 0, 0);
    let mut is_whole = true;
    let end = |is_whole: &mut bool| {
        *is_whole = false;
        is_run_ended.store(true, Ordering::Relaxed);
    };
    for report in message_receiver {
        match report {
            WorkerMessage::Begins(k, answer) => {
                let left =
                    (finished > 0).then(|| started.elapsed() / finished * (tasks.len() as u32 - finished));
                let is_allowed = is_whole && {
                    begun += 1;
                    observer.experiment_begins(begun, tasks.len(), tasks[k].name(), left).is_continue()
                };
                if !is_allowed {
                    end(&mut is_whole);
                }
                // If sending fails, the thread has ended.
                let _ = answer.send(is_allowed);
            }
            WorkerMessage::Progressed(k, progress) => {
                if observer.experiment_progress(tasks[k].name(), progress).is_break() {
                    end(&mut is_whole);
                }
            }
            WorkerMessage::Ends(_, Err(MissingRecordReason::Interrupted)) => end(&mut is_whole),
            WorkerMessage::Ends(k, outcome) => {
                finished += 1;
                store_experiment_outcome(tasks[k].name(), outcome, results, observer);
                // Until the last experiment has finished, the record is marked as partial.
                results.partial = (finished as usize) < tasks.len();
                write_results(results)?;
            }
        }
    }
    Ok(is_whole)
}

/// Adds the record of a finished experiment to `results`, or the reason why the experiment could not be run.
fn store_experiment_outcome(
    name: &str,
    outcome: Result<Box<ExperimentRecord>, MissingRecordReason>,
    results: &mut PaperResults,
    observer: &mut dyn ExperimentObserver,
) {
    match outcome {
        Ok(record) => {
            results.experiments.retain(|before| before.key != record.key);
            results.experiments.push(*record);
        }
        Err(MissingRecordReason::NotRun(why)) => {
            observer.experiment_not_run(name, &why);
            results.not_run.insert(name.to_owned(), why);
        }
        Err(MissingRecordReason::Interrupted) => {}
    }
}

/// Reads the records of experiments that an earlier run stored in `results.json` of the folder; returns none if the
/// file cannot be read.
fn stored_experiment_records(folder: &Path) -> Vec<ExperimentRecord> {
    results_in_folder(folder).map(|results| results.experiments).unwrap_or_default()
}

/// Reads the results in `results.json` of a folder; `None` if the file cannot be read or parsed.
fn results_in_folder(folder: &Path) -> Option<PaperResults> {
    let text = std::fs::read_to_string(folder.join("results.json")).ok()?;
    PaperResults::from_json(&text).ok()
}

/// Returns the scaled-down results with which full-size results in this folder are compared: those in `papers/lx` for
/// `papers/full/lx`.
pub fn quick_results_to_compare_with(
    paper: Paper,
    size: ExperimentSize,
    folder: &Path,
) -> Option<PaperResults> {
    let papers = folder.parent()?.parent()?;
    let quick = results_in_folder(&papers.join(paper.name()))?;
    (size == ExperimentSize::Full && quick.size == ExperimentSize::Quick).then_some(quick)
}

/// Writes all files that are made from the results: the Markdown and HTML pages, and the figures.
///
/// # Errors
/// Files that cannot be written.
pub fn write_result_pages(results: &PaperResults, paper: Paper, folder: &Path) -> std::io::Result<()> {
    let targets = paper.targets();
    let drawn = figures::draw_figures(&targets, results);
    std::fs::create_dir_all(folder.join("figures"))?;
    for figure in &drawn {
        write_file_atomically(&folder.join("figures").join(figure.file_name()), &figure.svg)?;
    }
    write_file_atomically(&folder.join("RESULTS.md"), render::results_markdown(&targets, results, &drawn))?;
    write_file_atomically(&folder.join("RESULTS.html"), render::results_html(&targets, results, &drawn))
}

/// Computes values and verdicts of the results in a folder again and writes the pages and figures.
///
/// # Errors
/// There are no results, or files cannot be written.
pub fn reevaluate_stored_results(paper: Paper, folder: &Path) -> std::io::Result<PaperResults> {
    let text = std::fs::read_to_string(folder.join("results.json"))?;
    let mut results = PaperResults::from_json(&text)?;
    results.evaluate_all_rows(paper, quick_results_to_compare_with(paper, results.size, folder).as_ref());
    write_file_atomically(&folder.join("results.json"), results.to_json())?;
    write_result_pages(&results, paper, folder)?;
    Ok(results)
}
