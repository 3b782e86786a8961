//! The result of a reproduction: everything that its report shows, in one self-contained record.
//!
//! `results.json` is the only thing that a run writes by itself; `RESULTS.md`, the page and the figures are views of it,
//! made again at any time. It is also what makes a run resumable: an experiment that is defined as before and was run by the
//! same code is taken from the record instead of being run again.
//!
//! Runs at full size take hours, and most changes of code change no figure. So a full record keeps the digest of the figures
//! that the quick run of each experiment gave with the same code. While the quick record still has these figures, the full
//! one stands; afterwards its rows are marked as measured by older code. The price is a twentieth more time for a full run.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::experiment::{self, Record, Runs, Setting, Size};
use super::target::{Paper, Target};
use super::traces::Traces;
use super::verdict::{self, Value, Verdict};
use super::{closed_forms, experiments, measure};

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
    /// Experiments of a full run whose figures today's code may not give: see [`Results::evaluate`].
    #[serde(default)]
    pub older_code: BTreeSet<String>,
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
    /// One of them was run by older code, which gave other figures.
    #[serde(default)]
    pub older_code: bool,
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
            let verdict = verdict::judge(target, &self.ours, self.substitute);
            Verdict { older_code: self.older_code, ..verdict }
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
            older_code: BTreeSet::new(),
        }
    }

    /// Computes all rows again from the experiments. Of a full run `quick` is the quick record to compare with; without one
    /// only what this very code has run is known to be of today.
    pub fn evaluate(&mut self, paper: Paper, quick: Option<&Self>) {
        self.older_code = match self.size {
            Size::Quick => BTreeSet::new(),
            Size::Full => self.of_older_code(paper, quick),
        };
        let mut runs = Runs::default();
        self.experiments.iter().for_each(|record| runs.add(record.clone()));
        self.not_run.iter().for_each(|(name, why)| runs.add_not_run(name, why));
        let row = |target: &Target| {
            let mut row = evaluated(paper, target, &runs);
            row.older_code = row.experiments.iter().any(|name| self.older_code.contains(name));
            row.verdict = row.judge(target).to_string();
            row
        };
        self.rows = paper.targets().rows.iter().map(row).collect();
    }

    /// The record of the experiment with this [`Experiment::key`](experiment::Experiment::key).
    pub fn of_key(&self, key: &str) -> Option<&Record> {
        self.experiments.iter().find(|record| record.key == key)
    }

    /// Experiments of a full run that are defined otherwise today, or whose quick counterpart gives other figures than when
    /// they were run. One without a counterpart stands as long as all others do.
    fn of_older_code(&self, paper: Paper, quick: Option<&Self>) -> BTreeSet<String> {
        let setting = Setting { size: self.size, seed: self.seed, traces: Traces::default() };
        let defined: BTreeSet<String> =
            experiments(paper, &setting).iter().map(experiment::Experiment::key).collect();
        // An original trace is not defined by the catalogue alone.
        let is_defined = |record: &Record| record.sha256.is_some() || defined.contains(&record.key);
        let digest_today = |record: &Record| {
            let same = quick?.experiments.iter().find(|other| other.name == record.name)?;
            Some(same.figures_digest())
        };
        let is_older = |record: &&Record| match (quick, &record.quick_digest) {
            _ if !is_defined(record) => true,
            (None, _) => record.code != experiment::code(),
            (Some(_), Some(digest)) => digest_today(record).as_ref() != Some(digest),
            (Some(_), None) => false,
        };
        let mut older: BTreeSet<String> =
            self.experiments.iter().filter(is_older).map(|record| record.name.clone()).collect();
        let has_counterpart = |record: &Record| record.quick_digest.is_some();
        if quick.is_some() && (!older.is_empty() || !self.experiments.iter().any(has_counterpart)) {
            let alone = self.experiments.iter().filter(|record| !has_counterpart(record));
            older.extend(alone.map(|record| record.name.clone()));
        }
        older
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
        older_code: false,
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
    row
}
