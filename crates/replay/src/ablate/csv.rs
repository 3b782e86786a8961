//! Ablations for spreadsheets: one line per run in the columns of runs, behind the subset; and one per refused subset, whose figures
//! are empty. What mechanisms gain is worked out of them, and stands in JSON.

use super::{Ablation, SubsetRun};
use crate::report::{csv_fields, csv_titles, quoted};

/// The lines, with a head: always the same columns, so that files can be joined.
pub fn csv(ablations: &[Ablation]) -> String {
    let mut text = ["subset", "refused"].into_iter().chain(csv_titles()).collect::<Vec<_>>().join(",") + "\n";
    for ablation in ablations {
        for fields in ablation.subsets.iter().filter_map(|subset| fields(ablation, subset)) {
            text += &(fields.join(",") + "\n");
        }
    }
    text
}

/// None of a subset that was not begun.
fn fields(ablation: &Ablation, subset: &SubsetRun) -> Option<Vec<String>> {
    let refused = subset.refused.as_deref().unwrap_or_default();
    let of_run = match &subset.run {
        Some(run) => csv_fields(run),
        None if refused.is_empty() => return None,
        None => csv_titles().into_iter().map(|title| known_of_refused(ablation, title)).collect(),
    };
    Some([vec![subset.name(), quoted(refused)], of_run].concat())
}

/// What is known of a subset that was not run.
fn known_of_refused(ablation: &Ablation, title: &str) -> String {
    match title {
        "trace" => quoted(&ablation.input),
        "design" => ablation.design.clone(),
        "version" => env!("CARGO_PKG_VERSION").to_owned(),
        _ => String::new(),
    }
}
