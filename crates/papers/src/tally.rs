//! How many rows came out how, by what stands behind them: the lines that a reader sees before the table.
//!
//! The key decision is that rows are counted apart by their evidence, and that agreement of a formula, of arithmetic or of
//! a band that cannot fail is never added to what was reproduced. The price is a summary of several lines.

use super::results::Results;
use super::target::{Evidence, Targets};
use super::verdict::{Outcome, Verdict};

/// Comparisons of one kind of evidence.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Compared {
    /// Ours agree with what was reported.
    pub agree: usize,
    /// In the reported direction only.
    pub direction: usize,
    /// Neither.
    pub missed: usize,
}

impl Compared {
    /// All comparisons.
    pub fn rows(self) -> usize {
        self.agree + self.direction + self.missed
    }

    fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::DirectionOnly => self.direction += 1,
            Outcome::Missed(_) => self.missed += 1,
            _ => self.agree += 1,
        }
    }

    fn words(self, agree: &str, missed: &str) -> String {
        let parts =
            [(self.agree, agree), (self.direction, "in the reported direction only"), (self.missed, missed)];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        parts.map(|(count, name)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
    }
}

/// Rows of a paper, counted.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// All rows.
    pub rows: usize,
    /// Executed runs on the load or trace that the row is about.
    pub measured: Compared,
    /// Executed runs on inputs that stand in for a trace or an application.
    pub substitute: Compared,
    /// Mechanisms of the code that were executed without a run.
    pub executed: Compared,
    /// Formulas.
    pub formula: Compared,
    /// Arithmetic on the paper's constants.
    pub arithmetic: Compared,
    /// Bands that no plausible run could miss.
    pub cannot_fail: Compared,
    /// Rows without a class of evidence.
    pub unclassified: usize,
    /// Rows that older code measured.
    pub older_code: usize,
    /// Rows that judge the values of others again.
    pub repeats: usize,
    /// The substitute is made from the row's figures.
    pub given: usize,
    /// Nothing is compared.
    pub context: usize,
    /// Only the authors can measure it.
    pub not_reproducible: usize,
    /// Not run.
    pub not_run: usize,
}

impl Tally {
    /// Counts the rows.
    pub fn of(targets: &Targets, results: &Results) -> Self {
        let mut tally = Self::default();
        for row in &results.rows {
            if let Some(target) = targets.row(&row.id) {
                tally.add(&row.judge(target));
            }
        }
        tally
    }

    fn add(&mut self, verdict: &Verdict) {
        self.rows += 1;
        let counted = match &verdict.outcome {
            Outcome::Context => &mut self.context,
            Outcome::Given => &mut self.given,
            Outcome::NotReproducible(_) => &mut self.not_reproducible,
            Outcome::NotRun(_) => &mut self.not_run,
            _ if verdict.older_code => &mut self.older_code,
            _ if !verdict.repeats.is_empty() => &mut self.repeats,
            outcome => return self.add_compared(verdict, outcome),
        };
        *counted += 1;
    }

    fn add_compared(&mut self, verdict: &Verdict, outcome: &Outcome) {
        let compared = match verdict.evidence {
            Some(Evidence::Measured) if verdict.substitute => &mut self.substitute,
            Some(Evidence::Measured) => &mut self.measured,
            Some(Evidence::Executed) => &mut self.executed,
            Some(Evidence::Formula) => &mut self.formula,
            Some(Evidence::Arithmetic) => &mut self.arithmetic,
            Some(Evidence::CannotFail) => &mut self.cannot_fail,
            Some(Evidence::None) | None => {
                self.unclassified += 1;
                return;
            }
        };
        compared.add(outcome);
    }

    /// Rows that executed something and agree with the paper on its own kind of input.
    pub fn reproduced(&self) -> usize {
        self.measured.agree + self.executed.agree
    }

    /// The count in sentences: results first, then what is no result.
    pub fn sentences(&self) -> Vec<String> {
        let results = [
            ("Executed runs on the paper's kind of load", self.measured, "reproduced"),
            ("Executed runs on substitutes for traces and applications", self.substitute, "agree"),
            ("Mechanisms executed without a run", self.executed, "reproduced"),
        ];
        let results = results.iter().filter(|(_, compared, _)| compared.rows() > 0);
        let results = results.map(|(name, compared, agree)| {
            format!("{name}: {} ({}).", rows(compared.rows()), compared.words(agree, "not reproduced"))
        });
        let mut sentences: Vec<String> = results.collect();
        if sentences.is_empty() && self.older_code == 0 {
            sentences.push("Nothing was executed.".to_owned());
        }
        sentences.extend(self.not_counted());
        sentences
    }

    /// What is no result, in one sentence.
    fn not_counted(&self) -> Option<String> {
        let compared = [
            (self.formula, "by formula without an executed design"),
            (self.arithmetic, "by arithmetic on the paper's constants"),
            (self.cannot_fail, "that cannot fail"),
        ];
        let compared = compared.iter().filter(|(compared, _)| compared.rows() > 0);
        let compared = compared.map(|(compared, name)| {
            format!("{} {name} ({})", compared.rows(), compared.words("agree", "disagree"))
        });
        let others = [
            (self.unclassified, "without a class of evidence"),
            (self.older_code, "measured by older code"),
            (self.repeats, "repeating other rows"),
            (self.given, "given to the substitute"),
            (self.context, "with nothing to compare"),
            (self.not_reproducible, "not reproducible"),
            (self.not_run, "not run"),
        ];
        let others = others.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> =
            compared.chain(others.map(|(count, name)| format!("{count} {name}"))).collect();
        (!parts.is_empty()).then(|| format!("Not counted as results: {}.", parts.join(", ")))
    }
}

fn rows(count: usize) -> String {
    if count == 1 { "1 row".to_owned() } else { format!("{count} rows") }
}
