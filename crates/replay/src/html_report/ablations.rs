//! The HTML page of `wearwell ablate`.

use super::HtmlReport;
use super::markup::{
    charts_element, collapsible_html, html_element, html_heading, html_notes_list, html_table,
};
use super::runs::{NOTES_TITLE, distinct_values, html_page_title, join_up_to_three, run_details_html};
use crate::ablate::{Ablation, Ablations};
use crate::record::RunRecord;
use crate::report::other_part_ratio_explanation;

impl HtmlReport for Ablations {
    fn result_kind(&self) -> &'static str {
        "ablations"
    }

    fn title(&self) -> String {
        let designs = distinct_values(self.ablations.iter().map(|ablation| ablation.design.clone()));
        let what = format!("What mechanisms gain on {}", join_up_to_three(&designs, "designs"));
        html_page_title(&what, self.ablations.iter().map(|ablation| ablation.input.clone()))
    }

    fn body_html(&self) -> String {
        self.ablations.iter().enumerate().map(|(number, ablation)| ablation_html(number, ablation)).collect()
    }
}

/// Returns the section of one ablation as HTML; `number` is its position in the embedded record, by which scripts find
/// its charts.
fn ablation_html(number: usize, ablation: &Ablation) -> String {
    let Some(shown) = ablation.to_tables() else { return String::new() };
    let runs: Vec<RunRecord> = ablation.subsets.iter().filter_map(|subset| subset.run.clone()).collect();
    let mut html = html_heading(&ablation.input)
        + &html_element("p", "lead", shown.title.trim_end())
        + &html_table("", "What each changes: the change, and % of the baseline", &shown.gains)
        + &html_element("p", "facts", shown.preamble.trim_end())
        + &html_notes_list(
            NOTES_TITLE,
            (other_part_ratio_explanation(&runs) + &shown.sentences_below_tables).lines(),
        )
        + &charts_element(number)
        + &html_table("", "The subsets", &shown.subsets);
    if let Some(overlaps) = &shown.overlaps {
        html +=
            &html_table("", "Overlaps: above 0 both gain the same, below 0 they help each other", overlaps);
    }
    html + &collapsible_html("Runs of the subsets", &run_details_html(&runs))
}
