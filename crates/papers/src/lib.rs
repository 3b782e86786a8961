//! Repeats the evaluations of five papers row by row and compares our values with the reported ones.
//!
//! A paper is described by four things. *Targets* (`papers/<paper>/targets.toml`) are the results that it reports, as
//! data. *Closed forms* compute what follows from its parameters. *Experiments* run designs on loads or traces.
//! *Results* combine them: one record with every figure and a verdict per row, from which the Markdown page, the HTML
//! page and the figures are made.
//!
//! The key decision is that no measurement knows the expected result. Targets are data that only the comparison reads,
//! tolerances are part of the targets, and a row that cannot be measured states the reason. The price is that a page of
//! results also shows what is missing and what disagrees.

pub mod closed_forms;
mod df;
pub mod differing_rows;
pub mod experiment;
pub mod experiment_runner;
pub mod figures;
mod gk;
mod il;
mod lx;
mod markdown;
pub mod missing_record;
pub mod reason_digest;
pub mod render;
pub mod request_source;
pub mod result_counts;
pub mod results;
mod rm;
pub mod statistics;
pub mod summary;
pub mod target;
pub mod traces;
pub mod verdict;

use experiment::ExperimentRecords;
pub use experiment::{Experiment, ExperimentConditions, ExperimentSize};
pub use experiment_runner::{ExperimentJob, ExperimentObserver, ExperimentRunOptions, run_paper_experiments};
pub use results::PaperResults;
pub use target::Paper;
pub use traces::OriginalTraces;
use verdict::NamedValue;

/// Returns the experiments from which Wearwell's values for a paper's rows (reported results) are computed.
pub fn experiments(paper: Paper, conditions: &ExperimentConditions) -> Vec<Experiment> {
    match paper {
        Paper::RecyclableSsd => lx::experiments(conditions),
        Paper::DeltaFtl => df::experiments(conditions),
        Paper::RemapSsd => rm::experiments(conditions),
        Paper::IntegratedLifetime => il::experiments(conditions),
        Paper::GeckoFtl => gk::experiments(conditions),
    }
}

/// Computes Wearwell's values for one row (reported result) of a paper from the finished experiments. Returns `None` if
/// the row depends on no experiment, and an error with the reason if an experiment that the row needs was not run.
pub fn row_values_from_experiments(
    paper: Paper,
    id: &str,
    runs: &ExperimentRecords,
) -> Option<Result<Vec<NamedValue>, String>> {
    match paper {
        Paper::RecyclableSsd => lx::row_values_from_experiments(id, runs),
        Paper::DeltaFtl => df::row_values_from_experiments(id, runs),
        Paper::RemapSsd => rm::row_values_from_experiments(id, runs),
        Paper::IntegratedLifetime => il::row_values_from_experiments(id, runs),
        Paper::GeckoFtl => gk::row_values_from_experiments(id, runs),
    }
}
