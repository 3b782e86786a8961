//! The results of reproducing a paper: all that its report shows, in one self-contained record.
//!
//! A run writes only `results.json`. `RESULTS.md`, the HTML page and the figures are made from it and can be made again
//! at any time. The record also makes a run resumable: an experiment with the same definition that was run by the same
//! code is taken from the record instead of being run again.
//!
//! Full-size runs take hours, and most changes of the code change no figure. So a full-size record contains a digest of
//! the figures that the scaled-down run of each experiment had with the same code. While scaled-down runs still have
//! these figures, the full-size record is valid. Otherwise its rows are marked as measured by older code. The price is
//! a twentieth more time for a full-size run.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::experiment::{
    self, ExperimentConditions, ExperimentRecord, ExperimentRecords, ExperimentSize, InputKind,
};
use super::target::{Paper, ReportedResult};
use super::traces::OriginalTraces;
use super::verdict::{self, NamedValue, Verdict};
use super::{closed_forms, experiments, row_values_from_experiments};

/// Wearwell's results for one paper: all its rows (reported results) with Wearwell's values and verdicts, and the
/// experiments.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PaperResults {
    /// Name of the paper to which the results belong, as on the command line, e.g. `lx`.
    pub paper: String,
    /// Version of Wearwell that wrote these results.
    pub version: String,
    /// Size of the experiments: scaled down or full.
    pub size: ExperimentSize,
    /// Seed of the random generators and of the designs.
    pub seed: u64,
    /// Whether the user interrupted the run of the experiments. Rows (reported results) whose experiments did not
    /// finish are reported as not run.
    pub partial: bool,
    /// Wearwell's result for each row (reported result) of the paper, in the order of the paper's evaluation.
    pub rows: Vec<ReproducedResult>,
    /// Records of the finished experiments, in the order in which the paper's experiments are listed.
    pub experiments: Vec<ExperimentRecord>,
    /// Names of the experiments that were not run, each with the reason.
    pub not_run: BTreeMap<String, String>,
    /// Names of the full-size experiments that were run by older code and whose figures may be different with the
    /// current code: see [`PaperResults::evaluate_all_rows`].
    #[serde(default)]
    pub older_code: BTreeSet<String>,
}

/// Wearwell's result for one row (reported result) of a paper.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReproducedResult {
    /// Id of the reported result, e.g. `LX-17`.
    pub id: String,
    /// Wearwell's values for the row (reported result); empty if nothing was measured.
    pub ours: Vec<NamedValue>,
    /// Names of the experiments from which Wearwell's values of the row come; empty if they come from a formula instead
    /// of an experiment.
    pub experiments: Vec<String>,
    /// Kind of the input of the experiments from which the values come.
    #[serde(default)]
    pub input: InputKind,
    /// Whether an experiment from which Wearwell's values come was run by older code and may have other figures with
    /// the current code.
    #[serde(default)]
    pub older_code: bool,
    /// Why Wearwell has no values for the row (reported result); empty if it has.
    pub not_run: String,
    /// The verdict about the row (how Wearwell's values compare with the reported ones), in words.
    pub verdict: String,
}

impl ReproducedResult {
    /// Compares Wearwell's values of this row with the reported ones in its target, and returns the verdict.
    pub fn judge(&self, target: &ReportedResult) -> Verdict {
        if self.ours.is_empty() {
            verdict::not_run_verdict(target, &self.not_run)
        } else {
            let verdict = verdict::judge_values(target, &self.ours, self.input);
            Verdict { is_of_older_code: self.older_code, ..verdict }
        }
    }
}

impl PaperResults {
    /// Creates results for a paper, without rows and experiments.
    pub fn new_empty(paper: Paper, size: ExperimentSize, seed: u64) -> Self {
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

    /// Computes Wearwell's values and verdicts of all rows (reported results) again from the experiments. `quick` has
    /// the scaled-down results, with which the full-size results are checked. If it is `None`, only full-size results
    /// of the current code are up to date.
    pub fn evaluate_all_rows(&mut self, paper: Paper, quick: Option<&Self>) {
        self.older_code = match self.size {
            ExperimentSize::Quick => BTreeSet::new(),
            ExperimentSize::Full => self.experiments_of_older_code(paper, quick),
        };
        let mut runs = ExperimentRecords::default();
        self.experiments.iter().for_each(|record| runs.add_record(record.clone()));
        self.not_run.iter().for_each(|(name, why)| runs.add_not_run_reason(name, why));
        let targets = paper.targets();
        let generates_loads = targets.paper.generates_loads;
        let row = |target: &ReportedResult| {
            let mut row = evaluate_row(paper, generates_loads, target, &runs);
            row.older_code = row.experiments.iter().any(|name| self.older_code.contains(name));
            row.verdict = row.judge(target).to_string();
            row
        };
        self.rows = targets.rows.iter().map(row).collect();
    }

    /// Returns the record of the experiment whose definition has this digest
    /// ([`Experiment::definition_digest`](experiment::Experiment::definition_digest)).
    pub fn record_of_digest(&self, key: &str) -> Option<&ExperimentRecord> {
        self.experiments.iter().find(|record| record.key == key)
    }

    /// Returns the names of the full-size experiments whose results are out of date: the definition of the experiment
    /// has changed, or the figures of the scaled-down experiment of the same name have. An experiment without a
    /// scaled-down one is out of date if any other experiment is.
    fn experiments_of_older_code(&self, paper: Paper, quick: Option<&Self>) -> BTreeSet<String> {
        let setting =
            ExperimentConditions { size: self.size, seed: self.seed, traces: OriginalTraces::default() };
        let defined: BTreeSet<String> =
            experiments(paper, &setting).iter().map(experiment::Experiment::definition_digest).collect();
        // The key of an original trace depends on the user's file, so the catalogue alone does not define it.
        let is_defined = |record: &ExperimentRecord| record.sha256.is_some() || defined.contains(&record.key);
        let digest_today = |record: &ExperimentRecord| {
            let same = quick?.experiments.iter().find(|other| other.name == record.name)?;
            Some(same.figures_digest())
        };
        let is_older = |record: &&ExperimentRecord| match (quick, &record.quick_digest) {
            _ if !is_defined(record) => true,
            (None, _) => record.code != experiment::code_digest(),
            (Some(_), Some(digest)) => digest_today(record).as_ref() != Some(digest),
            (Some(_), None) => false,
        };
        let mut older: BTreeSet<String> =
            self.experiments.iter().filter(is_older).map(|record| record.name.clone()).collect();
        let has_counterpart = |record: &ExperimentRecord| record.quick_digest.is_some();
        if quick.is_some() && (!older.is_empty() || !self.experiments.iter().any(has_counterpart)) {
            let alone = self.experiments.iter().filter(|record| !has_counterpart(record));
            older.extend(alone.map(|record| record.name.clone()));
        }
        older
    }

    /// Returns the results as indented JSON.
    ///
    /// # Panics
    /// Never: results are plain data.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("results are plain data") + "\n"
    }

    /// Parses results from the JSON that [`PaperResults::to_json`] has written.
    ///
    /// # Errors
    /// `text` is not such JSON, or was written with another layout.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

/// Computes Wearwell's values for one row (reported result), and its verdict, from a formula or from finished
/// experiments.
fn evaluate_row(
    paper: Paper,
    paper_generates_loads: bool,
    target: &ReportedResult,
    runs: &ExperimentRecords,
) -> ReproducedResult {
    let mut row = ReproducedResult {
        id: target.id.clone(),
        ours: Vec::new(),
        experiments: Vec::new(),
        input: InputKind::OfPaper,
        older_code: false,
        not_run: String::new(),
        verdict: String::new(),
    };
    match closed_forms::row_values_from_formula(&target.id)
        .map(Ok)
        .or_else(|| row_values_from_experiments(paper, &target.id, runs))
    {
        // A quotient by a count of zero is no result, and JSON cannot represent it.
        Some(Ok(ours)) => row.ours = ours.into_iter().filter(|value| value.value.is_finite()).collect(),
        Some(Err(why)) => row.not_run = why,
        None => {}
    }
    (row.experiments, row.input) = runs.take_used_experiments_and_input_kind(paper_generates_loads);
    row
}
