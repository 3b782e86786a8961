//! The HTML page of `wearwell sweep`.

use super::HtmlReport;
use super::markup::{charts_element_of_runs, html_element, html_heading, html_notes_list, html_table};
use super::runs::{NOTES_TITLE, distinct_values, join_up_to_three, run_details_html, with_capital_letter};
use crate::record::RunRecord;
use crate::report::{ranking_write_amplification, ranking_write_amplification_title};
use crate::sweep::SweepResults;

impl HtmlReport for SweepResults {
    fn result_kind(&self) -> &'static str {
        "sweep"
    }

    fn title(&self) -> String {
        let designs = distinct_values(self.comparison.runs.iter().map(|run| run.design.clone()));
        format!("Sweep of {} runs: {}", self.comparison.runs.len(), join_up_to_three(&designs, "designs"))
    }

    fn body_html(&self) -> String {
        let runs = &self.comparison.runs;
        let mut html = html_heading("Result") + &html_element("p", "lead", &self.lead_sentence());
        html += &html_notes_list(NOTES_TITLE, (self.failure_lines() + &self.lines_below_tables()).lines());
        html += &charts_element_of_runs(0..runs.len());
        for (input, rows) in self.rows_by_input() {
            html += &html_table("", &input, &rows);
        }
        html + &run_details_html(runs)
    }
}

impl SweepResults {
    /// Returns the sentence at the top of the page: number of runs, and the range of their write amplification.
    fn lead_sentence(&self) -> String {
        let runs = &self.comparison.runs;
        let counts = format!("{} runs, {} failed.", runs.len(), self.failures.len());
        let amplification =
            |run| ranking_write_amplification(run).filter(|_| !run.partial).map(|value| (value, run));
        let order = |a: &(f64, &RunRecord), b: &(f64, &RunRecord)| a.0.total_cmp(&b.0);
        let ranked = || runs.iter().filter_map(amplification);
        let Some((least, most)) = ranked().min_by(order).zip(ranked().max_by(order)) else { return counts };
        let text = |(value, run): (f64, &RunRecord)| format!("{value:.3} ({})", run.design_and_variant());
        let figure = with_capital_letter(ranking_write_amplification_title(runs));
        format!("{counts} {figure}: from {} to {}.", text(least), text(most))
    }
}
