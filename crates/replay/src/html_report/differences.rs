//! The HTML page of `wearwell diff`: the differences between the runs of two result files.

use super::HtmlReport;
use super::markup::{
    charts_element, collapsible_html, html_element, html_heading, html_notes_list, html_table,
};
use crate::diff::{Diff, Difference, RunPair};

impl HtmlReport for Diff {
    fn result_kind(&self) -> &'static str {
        "diff"
    }

    fn title(&self) -> String {
        match &self.pairs[..] {
            [_] => "What differs between two runs".to_owned(),
            pairs => format!("What differs between {} pairs of runs", pairs.len()),
        }
    }

    fn body_html(&self) -> String {
        let only_a = self.only_a.iter().map(|title| format!("only in the first: {title}"));
        let only_b = self.only_b.iter().map(|title| format!("only in the second: {title}"));
        let only: Vec<String> = only_a.chain(only_b).collect();
        let pairs = self.pairs.iter().enumerate().map(|(number, pair)| run_pair_html(number, pair));
        html_notes_list("Without a partner", only.iter().map(String::as_str)) + &pairs.collect::<String>()
    }
}

/// Returns the section of two compared runs as HTML; `number` is its position in the embedded record.
fn run_pair_html(number: usize, pair: &RunPair) -> String {
    let (causes, results) = (pair.causes.len(), pair.results.len());
    let lead = match (causes, results) {
        (0, 0) => "No difference.".to_owned(),
        (0, _) => format!("The same was run, and {results} figures differ."),
        (_, 0) => format!("{causes} settings differ, and the same came out."),
        _ => format!("{causes} settings and {results} figures differ."),
    };
    html_heading(&pair.title)
        + &html_element("p", "lead", &lead)
        + &differences_table("What was run", &pair.causes)
        + &html_notes_list("Besides", pair.lines_below_table().iter().map(String::as_str))
        + &charts_element(number)
        + &collapsible_html("All figures that differ", &differences_table("What came out", &pair.results))
}

/// Returns an HTML table of the fields that differ between two runs, with a caption.
fn differences_table(caption: &str, differences: &[Difference]) -> String {
    let head = ["field", "first", "second", "ratio"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> =
        std::iter::once(head).chain(differences.iter().filter_map(Difference::table_row)).collect();
    if rows.len() == 1 { String::new() } else { html_table("wrap", caption, &rows) }
}
