//! Finds the rows (reported results) of a paper that Wearwell's results do not reproduce.

use super::results::{PaperResults, ReproducedResult};
use super::target::{DifferenceReason, ReportedResult, ReportedResults};

/// Returns whether Wearwell's values differ from the reported ones in at least one of the rows (reported results) that
/// the reason `difference` explains.
pub(super) fn explains_a_differing_row(
    targets: &ReportedResults,
    results: &PaperResults,
    difference: &DifferenceReason,
) -> bool {
    differing_row_ids(targets, results).any(|row| difference.rows.iter().any(|other| other == row))
}

/// Returns the ids of the reported results that Wearwell's results do not reproduce, or only in their direction.
pub fn differing_row_ids<'a>(
    targets: &'a ReportedResults,
    results: &'a PaperResults,
) -> impl Iterator<Item = &'a str> {
    let differs = |target: &ReportedResult, row: &ReproducedResult| row.judge(target).outcome.differs();
    let rows = results.rows.iter();
    rows.filter(move |row| {
        targets.reported_result_with_id(&row.id).is_some_and(|target| differs(target, row))
    })
    .map(|row| row.id.as_str())
}
