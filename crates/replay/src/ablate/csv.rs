//! Ablations as CSV: one line per subset, with its run in the columns of runs. The line of a refused subset has empty
//! figures. The gains of the mechanisms are computed from these lines, and are written to JSON only.

use super::{Ablation, SubsetRun};
use crate::report::{csv_fields, csv_titles, quoted};

/// Returns ablations as CSV lines with a head. The columns are always the same, so that files can be joined.
pub fn csv(ablations: &[Ablation]) -> String {
    let mut text = ["subset", "refused"].into_iter().chain(csv_titles()).collect::<Vec<_>>().join(",") + "\n";
    for ablation in ablations {
        for fields in ablation.subsets.iter().filter_map(|subset| fields(ablation, subset)) {
            text += &(fields.join(",") + "\n");
        }
    }
    text
}

/// Returns the CSV fields of a subset of the mechanisms; `None` if the subset was neither run nor refused.
fn fields(ablation: &Ablation, subset: &SubsetRun) -> Option<Vec<String>> {
    let refused = subset.refused.as_deref().unwrap_or_default();
    let of_run = match &subset.run {
        Some(run) => csv_fields(run),
        None if refused.is_empty() => return None,
        None => csv_titles().into_iter().map(|title| known_of_refused(ablation, title)).collect(),
    };
    Some([vec![subset.name(), quoted(refused)], of_run].concat())
}

/// Returns the CSV field in the column `title` of a subset that the engine refused; empty for figures.
fn known_of_refused(ablation: &Ablation, title: &str) -> String {
    match title {
        "trace" => quoted(&ablation.input),
        "design" => ablation.design.clone(),
        "version" => env!("CARGO_PKG_VERSION").to_owned(),
        _ => String::new(),
    }
}
