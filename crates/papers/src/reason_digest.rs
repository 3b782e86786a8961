//! The digest of the values on which the reason for a difference rests.
//!
//! The texts of reasons quote numbers by hand. Each reason stores the digest that its values had when a person last
//! compared its text with the records; a test compares it with the digest of today's records. Values are rounded to
//! three significant digits, about as many as texts quote, so that changes which no text shows do not matter.

use std::collections::BTreeSet;

use wearwell_replay::code_digest;

use super::results::PaperResults;
use super::target::DifferenceReason;

/// Returns the digest of the values on which a reason rests, from a paper's quick and full records: our values of the
/// rows that the reason explains, and all figures of the experiments that tested it. It does not depend on the order of
/// rows and experiments.
pub fn digest_of_values_behind_reason(difference: &DifferenceReason, records: &[PaperResults]) -> String {
    let mut lines = BTreeSet::new();
    for results in records {
        let size = results.size;
        let mut add = |of: &str, name: &str, value: f64| {
            lines.insert(format!("{size:?} {of} {name} {value:.2e}\n"));
        };
        for row in results.rows.iter().filter(|row| difference.rows.contains(&row.id)) {
            row.ours.iter().for_each(|value| add(&row.id, &value.of, value.value));
        }
        for record in results.experiments.iter().filter(|record| difference.is_tested_by(&record.name)) {
            record.figures.iter().for_each(|(name, &value)| add(&record.name, name, value));
        }
    }
    code_digest::short_sha256(&lines.into_iter().collect::<String>())
}
