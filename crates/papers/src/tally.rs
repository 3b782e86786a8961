//! Counts the rows of a paper by verdict and by evidence, for the sentences before the table of results.
//!
//! The key decision is that rows are counted separately for each kind of evidence. Agreement of a formula, of
//! arithmetic, or of a band that cannot fail is never added to the reproduced rows. The price is a summary of several
//! lines.

use super::results::Results;
use super::target::{Evidence, Targets};
use super::verdict::{Outcome, Verdict};

/// Numbers of results that were compared with a paper's on one kind of evidence (measured, formula, ...), by outcome of
/// the comparison.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Compared {
    /// Number of Wearwell's results that agree with the reported ones.
    pub agree: usize,
    /// Number of Wearwell's results that only have the reported direction.
    pub direction: usize,
    /// Number of Wearwell's results that neither agree nor have the reported direction.
    pub missed: usize,
}

impl Compared {
    /// Returns the number of all compared results with this kind of evidence.
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

/// Counts of the results that a paper reports (rows of its evaluation), by kind of evidence and by verdict.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Number of all rows (reported results) of the paper.
    pub rows: usize,
    /// Comparisons of results that are based on executed runs with the load or trace that the paper used.
    pub measured: Compared,
    /// Comparisons of results that are based on executed runs with generated loads that replace a trace or an
    /// application.
    pub substitute: Compared,
    /// Comparisons of results that are based on mechanisms of the code that were executed without a run of a design.
    pub executed: Compared,
    /// Comparisons of results that are based on formulas, without an executed design.
    pub formula: Compared,
    /// Comparisons of results that are based on arithmetic on the paper's constants.
    pub arithmetic: Compared,
    /// Comparisons of results with a reported range so wide that no plausible run could miss it.
    pub cannot_fail: Compared,
    /// Number of rows (reported results) for which the kind of evidence is not stated.
    pub unclassified: usize,
    /// Number of rows (reported results) that were measured by older code.
    pub older_code: usize,
    /// Number of rows (reported results) that judge the values of other rows again.
    pub repeats: usize,
    /// Number of rows (reported results) that are not compared because the generated load was made from their figures.
    pub given: usize,
    /// Number of rows (reported results) without a comparison, because they are background or an input.
    pub context: usize,
    /// Number of rows (reported results) that only the authors can measure.
    pub not_reproducible: usize,
    /// Number of rows (reported results) that were not measured by Wearwell.
    pub not_run: usize,
}

impl Tally {
    /// Counts the rows (reported results) of a paper by evidence and verdict.
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

    /// Returns the number of reported results with which Wearwell's agree, on the basis of an execution on the paper's
    /// own kind of input.
    pub fn reproduced(&self) -> usize {
        self.measured.agree + self.executed.agree
    }

    /// Returns the counts of reported results as sentences: first those that count as results of Wearwell, then those
    /// that do not.
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

    /// Returns one sentence about the rows (reported results) that do not count as results of Wearwell; `None` if there
    /// are none.
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
