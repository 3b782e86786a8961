//! The HTML page of `wearwell sweep`.

use super::Report;
use super::markup::{charts_of_runs, element, heading, notes, table};
use super::runs::{FOUNDATIONS, distinct, foundations, listed};
use crate::record::RunRecord;
use crate::sweep::Swept;

impl Report for Swept {
    const KIND: &'static str = "sweep";

    fn title(&self) -> String {
        let designs = distinct(self.comparison.runs.iter().map(|run| run.design.clone()));
        format!("Sweep of {} runs: {}", self.comparison.runs.len(), listed(&designs, "designs"))
    }

    fn sections(&self) -> String {
        let runs = &self.comparison.runs;
        let mut html = heading("Result") + &element("p", "lead", &self.lead());
        html += &notes(FOUNDATIONS, self.failure_lines().lines().chain(self.notes()));
        html += &charts_of_runs(0..runs.len());
        for (input, rows) in self.rows_by_input() {
            html += &table("", &input, &rows);
        }
        html + &foundations(runs)
    }
}

impl Swept {
    fn lead(&self) -> String {
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
                least.label(),
                most.write_amplification,
                most.label()
            ),
            None => format!("{} runs, {failed} failed.", runs.len()),
        }
    }

    /// Returns the notes of all runs of the sweep, each different note once.
    fn notes(&self) -> impl Iterator<Item = &str> {
        let mut seen = std::collections::BTreeSet::new();
        let notes = self.comparison.runs.iter().flat_map(|run| &run.notes).map(String::as_str);
        notes.filter(move |note| seen.insert(*note))
    }
}
