//! Counts the rows of a paper by verdict and by evidence, for the sentences before the table of results.
//!
//! The key decision is that rows are counted separately for each kind of evidence and of input. Some rows agree without
//! a reproduction: by a formula, by arithmetic, by a reported range so wide that no run could miss it, or on a load
//! that the paper does not have. They are never added to the reproduced rows. The price is a summary of several lines.

use super::experiment::InputKind;
use super::results::PaperResults;
use super::target::{Evidence, ReportedResults};
use super::verdict::{Outcome, Verdict};

/// Numbers of those results of Wearwell with one kind of evidence (measured, formula, ...) that were compared with a
/// reported result, by the outcome of the comparison.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OutcomeCounts {
    /// Number of Wearwell's results that agree with the reported ones.
    pub agreeing_results: usize,
    /// Number of Wearwell's results that differ from the paper in the same direction as the reported ones, but not by
    /// the reported size.
    pub results_with_right_direction_only: usize,
    /// Number of Wearwell's results that neither agree nor have the reported direction.
    pub missed_results: usize,
}

impl OutcomeCounts {
    /// Returns the number of compared results, whatever the outcome (agreeing, only the direction, missed).
    pub fn total_compared(self) -> usize {
        self.agreeing_results + self.results_with_right_direction_only + self.missed_results
    }

    /// Adds one result with this outcome to the counts.
    fn count_outcome(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::DirectionOnly => self.results_with_right_direction_only += 1,
            Outcome::HardlyAnyEffect | Outcome::MissedByPercent(_) => self.missed_results += 1,
            _ => self.agreeing_results += 1,
        }
    }

    /// Returns the counts that are not 0 as text; `agree` and `missed` are the words for agreeing and missed results.
    fn to_text(self, agree: &str, missed: &str) -> String {
        let parts = [
            (self.agreeing_results, agree),
            (self.results_with_right_direction_only, "in the reported direction only"),
            (self.missed_results, missed),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        parts.map(|(count, name)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
    }
}

/// Counts of the results that a paper reports (rows of its evaluation), by kind of evidence and by verdict.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ResultCounts {
    /// Number of all rows (reported results) of the paper.
    pub total_rows: usize,
    /// Comparisons of results that are based on executed runs with the load or trace that the paper used.
    pub measured: OutcomeCounts,
    /// Comparisons of results that are based on executed runs with generated loads that replace a trace or an
    /// application.
    pub measured_on_substitute: OutcomeCounts,
    /// Comparisons of results that are based on executed runs with generated loads that were made for this project: the
    /// paper has no such load.
    pub measured_on_load_made_for_wearwell: OutcomeCounts,
    /// Comparisons of results that come from executing the code of one mechanism alone, without replaying an input
    /// through a design.
    pub executed_mechanism_results: OutcomeCounts,
    /// Comparisons of reported results with executed runs on a workload of which a parameter was fitted to the reported
    /// results.
    pub fitted_load_results: OutcomeCounts,
    /// Comparisons of results that are based on formulas, without an executed design.
    pub formula_results: OutcomeCounts,
    /// Comparisons of results that are based on arithmetic on the paper's constants.
    pub arithmetic_results: OutcomeCounts,
    /// Comparisons of results with a reported range so wide that no plausible run could miss it.
    pub cannot_fail_results: OutcomeCounts,
    /// Number of rows (reported results) for which the kind of evidence is not stated.
    pub rows_without_stated_evidence: usize,
    /// Number of rows (reported results) that were measured by older code.
    pub older_code_rows: usize,
    /// Number of rows (reported results) whose verdict uses the measured values of other rows, so that these rows are
    /// no additional evidence.
    pub rows_repeating_others: usize,
    /// Number of rows (reported results) that are not compared because the generated load was made from their figures.
    pub generator_input_rows: usize,
    /// Number of rows (reported results) without a comparison, because they are background or an input.
    pub context_only_rows: usize,
    /// Number of rows (reported results) that only the authors can measure.
    pub not_reproducible_rows: usize,
    /// Number of rows (reported results) that were not measured by Wearwell.
    pub not_run_rows: usize,
}

impl ResultCounts {
    /// Counts the rows (reported results) of a paper by evidence and verdict.
    pub fn of_results(targets: &ReportedResults, results: &PaperResults) -> Self {
        let mut tally = Self::default();
        for row in &results.rows {
            if let Some(target) = targets.reported_result_with_id(&row.id) {
                tally.count_verdict(&row.judge(target));
            }
        }
        tally
    }

    /// Adds the row (reported result) with this verdict to the counts.
    fn count_verdict(&mut self, verdict: &Verdict) {
        self.total_rows += 1;
        let counted = match &verdict.outcome {
            Outcome::BackgroundOnly => &mut self.context_only_rows,
            Outcome::GivenAsInput => &mut self.generator_input_rows,
            Outcome::NotReproducible(_) => &mut self.not_reproducible_rows,
            Outcome::NotRun(_) => &mut self.not_run_rows,
            _ if verdict.is_of_older_code => &mut self.older_code_rows,
            _ if !verdict.repeated_result_ids.is_empty() => &mut self.rows_repeating_others,
            outcome => return self.count_compared_verdict(verdict, outcome),
        };
        *counted += 1;
    }

    /// Counts the outcome of a row (reported result) that was compared. Rows are counted separately by how Wearwell's
    /// value was obtained, e.g. measured or computed by a formula.
    fn count_compared_verdict(&mut self, verdict: &Verdict, outcome: &Outcome) {
        let compared = match verdict.evidence {
            Some(Evidence::Measured) => match verdict.input {
                InputKind::OfPaper => &mut self.measured,
                InputKind::Substitute => &mut self.measured_on_substitute,
                InputKind::MadeLoad => &mut self.measured_on_load_made_for_wearwell,
            },
            Some(Evidence::Fitted) => &mut self.fitted_load_results,
            Some(Evidence::Executed) => &mut self.executed_mechanism_results,
            Some(Evidence::Formula) => &mut self.formula_results,
            Some(Evidence::Arithmetic) => &mut self.arithmetic_results,
            Some(Evidence::CannotFail) => &mut self.cannot_fail_results,
            Some(Evidence::None) | None => {
                self.rows_without_stated_evidence += 1;
                return;
            }
        };
        compared.count_outcome(outcome);
    }

    /// Returns the counts of a paper's rows (reported results) as sentences: first the rows that count as results of
    /// Wearwell, then the rows that do not.
    pub fn result_count_sentences(&self) -> Vec<String> {
        let results = [
            ("Executed runs on the paper's kind of load", self.measured, "reproduced"),
            (
                "Executed runs on substitutes for traces and applications",
                self.measured_on_substitute,
                "agree",
            ),
            (
                "Executed runs on loads made for this project, which the paper does not have",
                self.measured_on_load_made_for_wearwell,
                "agree",
            ),
            ("Mechanisms executed without a run", self.executed_mechanism_results, "reproduced"),
        ];
        let results = results.iter().filter(|(_, compared, _)| compared.total_compared() > 0);
        let results = results.map(|(name, compared, agree)| {
            format!(
                "{name}: {} ({}).",
                row_count_text(compared.total_compared()),
                compared.to_text(agree, "not reproduced")
            )
        });
        let mut sentences: Vec<String> = results.collect();
        if sentences.is_empty() && self.older_code_rows == 0 {
            sentences.push("Nothing was executed.".to_owned());
        }
        sentences.extend(self.uncounted_rows_sentence());
        sentences
    }

    /// Returns one sentence about the rows (reported results) that do not count as results of Wearwell; `None` if there
    /// are none.
    fn uncounted_rows_sentence(&self) -> Option<String> {
        let compared = [
            (self.fitted_load_results, "on a load fitted to the reported figures"),
            (self.formula_results, "by formula without an executed design"),
            (self.arithmetic_results, "by arithmetic on the paper's constants"),
            (self.cannot_fail_results, "that cannot fail"),
        ];
        let compared = compared.iter().filter(|(compared, _)| compared.total_compared() > 0);
        let compared = compared.map(|(compared, name)| {
            format!("{} {name} ({})", compared.total_compared(), compared.to_text("agree", "disagree"))
        });
        let others = [
            (self.rows_without_stated_evidence, "without a class of evidence"),
            (self.older_code_rows, "measured by older code"),
            (self.rows_repeating_others, "repeating other rows"),
            (self.generator_input_rows, "given to the substitute"),
            (self.context_only_rows, "with nothing to compare"),
            (self.not_reproducible_rows, "not reproducible"),
            (self.not_run_rows, "not run"),
        ];
        let others = others.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> =
            compared.chain(others.map(|(count, name)| format!("{count} {name}"))).collect();
        (!parts.is_empty()).then(|| format!("Not counted as results: {}.", parts.join(", ")))
    }
}

/// Returns a number of rows with the noun, such as `2 rows`.
fn row_count_text(count: usize) -> String {
    if count == 1 { "1 row".to_owned() } else { format!("{count} rows") }
}
