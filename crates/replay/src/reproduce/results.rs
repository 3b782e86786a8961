//! The result of a reproduction: everything that its report shows, in one self-contained record.
//!
//! `results.json` is the only thing that a run writes by itself; `RESULTS.md`, the page and the figures are views of it,
//! made again at any time. It is also what makes a run resumable: an experiment whose key is unchanged is taken from
//! the record instead of being run again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::experiment::{Record, Runs, Size};
use super::target::{Paper, Target};
use super::verdict::{self, Value, Verdict};
use super::{closed_forms, measure};

/// A paper's results.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Results {
    /// Paper.
    pub paper: String,
    /// Version of this software.
    pub version: String,
    /// How much was run.
    pub size: Size,
    /// Seed of generators and designs.
    pub seed: u64,
    /// The user ended it: rows without their experiments are not run.
    pub partial: bool,
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// Finished experiments, in order.
    pub experiments: Vec<Record>,
    /// Experiments that were not run, and why.
    pub not_run: BTreeMap<String, String>,
}

/// One row.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Identity of the target.
    pub id: String,
    /// Ours.
    pub ours: Vec<Value>,
    /// Experiments that they come from; none for a closed form.
    pub experiments: Vec<String>,
    /// One of them had a substitute for its input.
    pub substitute: bool,
    /// Why nothing was measured; empty if something was.
    pub not_run: String,
    /// The verdict in words.
    pub verdict: String,
}

impl Row {
    /// The verdict, from ours and the target.
    pub fn judge(&self, target: &Target) -> Verdict {
        if self.ours.is_empty() {
            verdict::not_run(target, &self.not_run)
        } else {
            verdict::judge(target, &self.ours, self.substitute)
        }
    }
}

impl Results {
    /// Nothing yet.
    pub fn empty(paper: Paper, size: Size, seed: u64) -> Self {
        Self {
            paper: paper.name().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            size,
            seed,
            partial: false,
            rows: Vec::new(),
            experiments: Vec::new(),
            not_run: BTreeMap::new(),
        }
    }

    /// Computes all rows again from the experiments.
    pub fn evaluate(&mut self, paper: Paper) {
        let mut runs = Runs::default();
        self.experiments.iter().for_each(|record| runs.add(record.clone()));
        self.not_run.iter().for_each(|(name, why)| runs.add_not_run(name, why));
        self.rows = paper.targets().rows.iter().map(|target| evaluated(paper, target, &runs)).collect();
    }

    /// JSON, pretty-printed.
    ///
    /// # Panics
    /// Never: results are plain data.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("results are plain data") + "\n"
    }

    /// Reads what [`Results::to_json`] wrote.
    ///
    /// # Errors
    /// It is something else, or of another layout.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

fn evaluated(paper: Paper, target: &Target, runs: &Runs) -> Row {
    let mut row = Row {
        id: target.id.clone(),
        ours: Vec::new(),
        experiments: Vec::new(),
        substitute: false,
        not_run: String::new(),
        verdict: String::new(),
    };
    match closed_forms::row(&target.id).map(Ok).or_else(|| measure(paper, &target.id, runs)) {
        // What is divided by a count of zero is no result, and JSON has no word for it.
        Some(Ok(ours)) => row.ours = ours.into_iter().filter(|value| value.value.is_finite()).collect(),
        Some(Err(why)) => row.not_run = why,
        None => {}
    }
    (row.experiments, row.substitute) = runs.take_asked();
    row.verdict = row.judge(target).to_string();
    row
}
