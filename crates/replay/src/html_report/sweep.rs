//! The HTML page of `wearwell sweep`.

use super::HtmlReport;
use super::markup::{charts_element_of_runs, html_element, html_heading, html_notes_list, html_table};
use super::runs::{NOTES_TITLE, distinct_values, join_up_to_three, run_details_html};
use crate::notes::distinct_notes;
use crate::record::RunRecord;
use crate::report::labelled_runs;
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
        let notes = distinct_notes(&labelled_runs(runs));
        html += &html_notes_list(
            NOTES_TITLE,
            self.failure_lines().lines().chain(notes.iter().map(String::as_str)),
        );
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
        let order = |a: &&RunRecord, b: &&RunRecord| a.write_amplification.total_cmp(&b.write_amplification);
        let is_whole = |run: &&RunRecord| !run.partial && run.host_page_writes > 0;
        let ends = runs.iter().filter(is_whole).min_by(order).zip(runs.iter().filter(is_whole).max_by(order));
        let failed = self.failures.len();
        match ends {
            Some((least, most)) => format!(
                "{} runs, {failed} failed. Write amplification from {:.3} ({}) to {:.3} ({}).",
                runs.len(),
                least.write_amplification,
                least.design_and_variant(),
                most.write_amplification,
                most.design_and_variant()
            ),
            None => format!("{} runs, {failed} failed.", runs.len()),
        }
    }
}
