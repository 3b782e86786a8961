//! The HTML page of `wearwell ablate`.

use super::Report;
use super::markup::{charts_of, details, element, heading, notes, table};
use super::runs::{FOUNDATIONS, distinct, foundations, listed, titled};
use crate::ablate::{Ablation, Ablations};
use crate::record::RunRecord;

impl Report for Ablations {
    const KIND: &'static str = "ablations";

    fn title(&self) -> String {
        let designs = distinct(self.ablations.iter().map(|ablation| ablation.design.clone()));
        let what = format!("What mechanisms gain on {}", listed(&designs, "designs"));
        titled(&what, self.ablations.iter().map(|ablation| ablation.input.clone()))
    }

    fn sections(&self) -> String {
        self.ablations.iter().enumerate().map(|(number, ablation)| section(number, ablation)).collect()
    }
}

fn section(number: usize, ablation: &Ablation) -> String {
    let Some(shown) = ablation.shown() else { return String::new() };
    let runs: Vec<RunRecord> = ablation.subsets.iter().filter_map(|subset| subset.run.clone()).collect();
    let mut html = heading(&ablation.input)
        + &element("p", "lead", shown.title.trim_end())
        + &table("", "What each changes: the change, and % of the baseline", &shown.gains)
        + &element("p", "facts", shown.preamble.trim_end())
        + &notes(FOUNDATIONS, shown.sentences.lines())
        + &charts_of(number)
        + &table("", "The subsets", &shown.subsets);
    if let Some(overlaps) = &shown.overlaps {
        html += &table("", "Overlaps: above 0 both gain the same, below 0 they help each other", overlaps);
    }
    html + &details("Runs of the subsets", &foundations(&runs))
}
