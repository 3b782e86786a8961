//! Views of records.

use pyo3::prelude::*;
use wearwell_replay::record::RunRecord;
use wearwell_replay::report::Comparison;

use crate::refused;

/// A record from its JSON.
pub(crate) fn read(record: &str) -> PyResult<RunRecord> {
    serde_json::from_str(record).map_err(|error| refused(format!("no record of a run: {error}")))
}

fn comparison(records: &[String]) -> PyResult<Comparison> {
    Ok(Comparison::of(records.iter().map(|record| read(record)).collect::<PyResult<_>>()?))
}

/// The table of the command line, with ratios to the first run.
#[pyfunction]
pub(crate) fn table(records: Vec<String>) -> PyResult<String> {
    Ok(comparison(&records)?.to_table())
}

/// The same as markdown.
#[pyfunction]
pub(crate) fn markdown(records: Vec<String>) -> PyResult<String> {
    Ok(comparison(&records)?.to_markdown())
}

/// The record with the years of a drive of so many exported bytes.
#[pyfunction]
pub(crate) fn scaled(record: &str, bytes: u64) -> PyResult<String> {
    let record = read(record)?.scaled_to(Some(bytes));
    Ok(serde_json::to_string(&record).expect("a record is plain data"))
}
