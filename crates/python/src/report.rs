//! Views of records.

use pyo3::prelude::*;
use wearwell_replay::page;
use wearwell_replay::record::RunRecord;
use wearwell_replay::report::Comparison;
use wearwell_replay::sweep::{FailedRun, Swept};

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

/// The page of runs, as HTML.
#[pyfunction]
pub(crate) fn page_of_runs(records: Vec<String>) -> PyResult<String> {
    Ok(page::html(&comparison(&records)?))
}

/// The page of a sweep, as HTML: settings that tell a run from others with its record; trace, design, settings and error of the runs
/// that failed.
#[pyfunction]
pub(crate) fn page_of_sweep(
    runs: Vec<(String, String)>,
    failures: Vec<(String, String, String, String)>,
) -> PyResult<String> {
    let run = |(variant, record): (String, String)| Ok(RunRecord { variant, ..read(&record)? });
    let runs = runs.into_iter().map(run).collect::<PyResult<_>>()?;
    let failed = |(trace, design, variant, error)| FailedRun { trace, design, variant, error };
    let failures = failures.into_iter().map(failed).collect();
    Ok(page::html(&Swept { comparison: Comparison::of(runs), failures }))
}

/// The record with the years of a drive of so many exported bytes.
#[pyfunction]
pub(crate) fn scaled(record: &str, bytes: u64) -> PyResult<String> {
    let record = read(record)?.scaled_to(Some(bytes));
    Ok(serde_json::to_string(&record).expect("a record is plain data"))
}
