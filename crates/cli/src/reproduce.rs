//! The command `reproduce`: runs the experiments of the papers and compares our figures with the reported ones.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use wearwell_papers::result_counts::ResultCounts;
use wearwell_papers::summary::{self, PaperQuickAndFullResults};
use wearwell_papers::{
    ExperimentObserver, ExperimentRunOptions, ExperimentSize, OriginalTraces, Paper, PaperResults,
    experiment_runner,
};
use wearwell_replay::atomic_file::{create_file_beside, write_file_atomically};
use wearwell_replay::replay::Progress;

use crate::args::ReproduceArgs;
use crate::output::print;
use crate::progress::ProgressReporter;
use crate::{Failure, Outcome};

/// Executes the command `reproduce`: runs and evaluates the experiments of one paper, or of all papers.
pub(crate) fn reproduce(args: &ReproduceArgs) -> Result<Outcome, Failure> {
    let papers = match args.paper.as_str() {
        "all" => Paper::ALL.to_vec(),
        name => vec![name.parse().map_err(Failure::of_usage)?],
    };
    let out = results_folder(args);
    let summary =
        args.summary.as_deref().map(|path| SummaryDocument::new(args, path, &papers)).transpose()?;
    let reporter = ProgressReporter::new(args.quiet);
    for paper in papers {
        let folder = out.join(paper.name());
        if args.render {
            let described = |error| stored_results_failure(&folder.join("results.json"), &error);
            experiment_runner::reevaluate_stored_results(paper, &folder).map_err(described)?;
        } else if !run_experiments(args, paper, &folder, &reporter)? {
            return Ok(Outcome::Partial);
        }
    }
    if let Some(summary) = summary {
        summary.write()?;
    }
    Ok(Outcome::Done)
}

/// Returns the failure of a command that cannot read this file (exit status 2).
fn unreadable_failure(path: &Path, error: &std::io::Error) -> Failure {
    Failure::of_usage(format!(
        "{}: cannot be read: {error}; name a file that exists and that this user can read",
        path.display()
    ))
}

/// Returns the failure of a command that cannot use the stored results in this file, which an earlier run of a paper's
/// experiments should have written.
fn stored_results_failure(path: &Path, error: &std::io::Error) -> Failure {
    use std::io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    let path_name = path.display();
    match error.kind() {
        NotFound => Failure::of_usage(format!(
            "{path_name}: {error}; first run the experiments that write this file: `wearwell reproduce PAPER` without \
             --render"
        )),
        InvalidData | UnexpectedEof => Failure::of_usage(format!(
            "{path_name} does not hold results that this version of wearwell can read: {error}; run the experiments \
             that write this file again: `wearwell reproduce PAPER` without --render"
        )),
        _ => unreadable_failure(path, error),
    }
}

/// Returns the folder for the results of reproduced papers. Results of full size have another default folder than quick
/// ones, because the report compares both.
fn results_folder(args: &ReproduceArgs) -> PathBuf {
    let default = if args.full { "papers/full" } else { "papers" };
    args.out.clone().unwrap_or_else(|| default.into())
}

/// Runs the experiments of a paper that is reproduced. Returns false if the user interrupted them.
fn run_experiments(
    args: &ReproduceArgs,
    paper: Paper,
    folder: &Path,
    reporter: &ProgressReporter,
) -> Result<bool, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let options = ExperimentRunOptions {
        size: if args.full { ExperimentSize::Full } else { ExperimentSize::Quick },
        seed: args.seed,
        result_folder: folder.to_owned(),
        traces: original_traces(args)?,
        reruns_all: args.fresh,
        max_parallel_experiments: args.jobs.map_or(cores, NonZeroUsize::get),
    };
    let mut watch = ExperimentReporter {
        reporter,
        shows_bars: options.max_parallel_experiments == 1,
        progress_by_experiment: HashMap::new(),
    };
    let results = wearwell_papers::run_paper_experiments(paper, &options, &mut watch)
        .map_err(|error| Failure::of_output_folder(folder, &error))?;
    if !args.quiet {
        let files = format!("{}: RESULTS.md, RESULTS.html, results.json, figures\n", folder.display());
        print(&(summary_of(paper, &results) + &files))?;
    }
    Ok(!results.partial)
}

/// The document into which the summary of all papers is written (`--summary`).
struct SummaryDocument<'a> {
    /// Path of the document.
    path: &'a Path,
    /// Folder with the quick results of all papers, one folder each, and the full ones in the folder `full`.
    results_folder: PathBuf,
}

impl<'a> SummaryDocument<'a> {
    /// Checks that a summary can be written after `papers_to_run`, whose experiments may take hours.
    ///
    /// # Errors
    /// The document cannot be read or replaced, or has no marks for the summary; `--out` does not say where the quick
    /// results are; those of a paper that is not run are missing.
    fn new(args: &ReproduceArgs, path: &'a Path, papers_to_run: &[Paper]) -> Result<Self, Failure> {
        let summary = Self { path, results_folder: folder_of_quick_results(args)? };
        summary.updated_text(&[])?;
        create_file_beside(path).map_err(|error| Failure::of_output(path, &error))?;
        for paper in Paper::ALL.into_iter().filter(|paper| args.full || !papers_to_run.contains(paper)) {
            stored_results_in(&summary.results_folder.join(paper.name()))?;
        }
        Ok(summary)
    }

    /// Writes the summary into the document.
    fn write(&self) -> Result<(), Failure> {
        let records: Result<Vec<PaperQuickAndFullResults>, Failure> =
            Paper::ALL.into_iter().map(|paper| stored_results(paper, &self.results_folder)).collect();
        let text = self.updated_text(&records?)?;
        write_file_atomically(self.path, text).map_err(|error| Failure::of_output(self.path, &error))
    }

    /// Returns the text of the document with a summary of these results.
    fn updated_text(&self, results: &[PaperQuickAndFullResults]) -> Result<String, Failure> {
        let text =
            std::fs::read_to_string(self.path).map_err(|error| unreadable_failure(self.path, &error))?;
        summary::update_summary_in_document(&text, results)
            .map_err(|error| Failure::of_usage(format!("{}: {error}", self.path.display())))
    }
}

/// Returns the folder that holds the quick results of all papers, for a summary.
///
/// # Errors
/// The command writes full-size results into a folder that is not named `full`, from which that folder does not follow.
fn folder_of_quick_results(args: &ReproduceArgs) -> Result<PathBuf, Failure> {
    let out = results_folder(args);
    if !args.full {
        return Ok(out);
    }
    match out.parent() {
        Some(folder) if out.ends_with("full") => Ok(folder.to_owned()),
        _ => Err(Failure::of_usage(format!(
            "--summary needs the quick results as well, and expects the folder of the full-size ones in theirs, under \
             the name `full`; but --out is {}: let it end in `/full`, or leave --summary out",
            out.display()
        ))),
    }
}

/// Reads the stored quick results of a paper in the folder of all papers, and its full-size results if there are any.
fn stored_results(paper: Paper, papers: &Path) -> Result<PaperQuickAndFullResults, Failure> {
    let full = papers.join("full").join(paper.name());
    let of_full = if full.exists() { Some(stored_results_in(&full)?) } else { None };
    Ok((paper, stored_results_in(&papers.join(paper.name()))?, of_full))
}

/// Reads the results of a paper that are stored in this folder.
fn stored_results_in(folder: &Path) -> Result<PaperResults, Failure> {
    let path = folder.join("results.json");
    let described = |error| stored_results_failure(&path, &error);
    let text = std::fs::read_to_string(&path).map_err(described)?;
    PaperResults::from_json(&text).map_err(|error| described(error.into()))
}

/// Finds the original traces in the folder of `--traces`; none without the option.
fn original_traces(args: &ReproduceArgs) -> Result<OriginalTraces, Failure> {
    let Some(folder) = &args.traces else { return Ok(OriginalTraces::default()) };
    let traces = OriginalTraces::find_in(folder).map_err(|error| {
        Failure::of_usage(format!(
            "cannot read the folder {} of --traces: {error}; name a folder that this user can read",
            folder.display()
        ))
    })?;
    if traces.is_empty() {
        return Err(Failure::of_usage(format!(
            "no trace in the folder {} (--traces) has one of the names that docs/reproduce.md lists: name the folder \
             with the traces, or rename the traces",
            folder.display()
        )));
    }
    Ok(traces)
}

/// Returns the summary of one reproduced paper: the claims of its abstract, the verdict on each of its results, and the
/// number of results per verdict.
fn summary_of(paper: Paper, results: &PaperResults) -> String {
    let targets = paper.targets();
    let mut text = String::new();
    for line in summary::lines_on_claims_of_abstract(&targets, results) {
        let _ = writeln!(
            text,
            "{}: reported {}; ours {}: {}",
            line.claim, line.reported_figure, line.wearwell_values, line.verdict
        );
    }
    let width = results.rows.iter().map(|row| row.id.len()).max().unwrap_or(0);
    for row in &results.rows {
        let _ = writeln!(text, "{:width$}  {}", row.id, row.verdict);
    }
    for sentence in ResultCounts::of_results(&targets, results).result_count_sentences() {
        let _ = writeln!(text, "{sentence}");
    }
    text + &summary::sentence_on_tested_reasons(&targets, results) + "\n"
}

/// Callback that receives the progress of one experiment, and whose result can end the experiment.
type OnProgress = Box<dyn FnMut(Progress) -> ControlFlow<()>>;

/// Reports on the terminal which experiments of a reproduced paper start, and their progress: as bars if only one
/// experiment runs at a time.
struct ExperimentReporter<'a> {
    /// Display on which the progress of the experiments is printed.
    reporter: &'a ProgressReporter,
    /// Whether the progress of each experiment is displayed as a bar: only if one runs at a time.
    shows_bars: bool,
    /// Progress display of each running experiment, by the name of the experiment; empty without bars.
    progress_by_experiment: HashMap<String, OnProgress>,
}

impl ExperimentObserver for ExperimentReporter<'_> {
    fn experiment_begins(
        &mut self,
        number: usize,
        total: usize,
        name: &str,
        time_left: Option<Duration>,
    ) -> ControlFlow<()> {
        let left =
            time_left.map_or_else(String::new, |left| format!(", about {} s left", left.as_secs() + 1));
        self.reporter.print_message(&format!("[{number}/{total}] {name}{left}"));
        if self.shows_bars {
            self.progress_by_experiment.clear();
            self.progress_by_experiment
                .insert(name.to_owned(), Box::new(self.reporter.progress_callback_of_run(name)));
        }
        if self.reporter.is_interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn experiment_progress(&mut self, name: &str, progress: Progress) -> ControlFlow<()> {
        match self.progress_by_experiment.get_mut(name) {
            Some(running) => running(progress),
            None if self.reporter.is_interrupted() => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }

    fn experiment_not_run(&mut self, name: &str, why: &str) {
        self.reporter.print_message(&format!("the experiment {name} has no result: {why}"));
    }
}
