//! Papers measured again: their evaluation row by row, what this software finds for each row, and how the two compare.
//!
//! A paper is four things. *Targets* (`papers/<paper>/targets.toml`) are what it reports, as data. *Closed forms* compute
//! what follows from its parameters. *Experiments* run designs on loads or traces. *Results* join them: one record with
//! every figure and a verdict per row, of which the Markdown page, the HTML page and the figures are views.
//!
//! The key decision is that nothing here knows what a result should be: targets are data that only the comparison
//! reads, tolerances stand there and not beside the measurement, and a row that cannot be measured says why. The price
//! is that a page of results shows what is missing or does not agree, next to what does.

pub mod closed_forms;
mod df;
pub mod experiment;
pub mod figures;
mod gk;
mod il;
mod lx;
pub mod render;
pub mod results;
mod rm;
pub mod session;
pub mod statistics;
pub mod summary;
pub mod tally;
pub mod target;
pub mod traces;
pub mod verdict;

use experiment::Runs;
pub use experiment::{Experiment, Setting, Size};
pub use results::Results;
pub use session::{Job, Observer, Options, run};
pub use target::Paper;
pub use traces::Traces;
use verdict::Value;

/// The experiments that a paper's rows need.
pub fn experiments(paper: Paper, setting: &Setting) -> Vec<Experiment> {
    match paper {
        Paper::Lx => lx::experiments(setting),
        Paper::Df => df::experiments(setting),
        Paper::Rm => rm::experiments(setting),
        Paper::Il => il::experiments(setting),
        Paper::Gk => gk::experiments(setting),
    }
}

/// What the experiments say about a row: its values, why there are none, or `None` if no experiment is about it.
pub fn measure(paper: Paper, id: &str, runs: &Runs) -> Option<Result<Vec<Value>, String>> {
    match paper {
        Paper::Lx => lx::measure(id, runs),
        Paper::Df => df::measure(id, runs),
        Paper::Rm => rm::measure(id, runs),
        Paper::Il => il::measure(id, runs),
        Paper::Gk => gk::measure(id, runs),
    }
}
