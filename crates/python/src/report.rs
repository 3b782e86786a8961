//! Formats run records for Python as tables and HTML pages.

use pyo3::prelude::*;
use wearwell_replay::html_report;
use wearwell_replay::json::{FromJson, ToJson};
use wearwell_replay::record::RunRecord;
use wearwell_replay::report::Comparison;
use wearwell_replay::sweep::{FailedRun, SweepResults};

use crate::refusal_error;

/// Parses the JSON of a run record.
pub(crate) fn parse_run_record(record: &str) -> PyResult<RunRecord> {
    RunRecord::from_json(record).map_err(|error| {
        refusal_error(format!(
            "this text is not the JSON of a run ({error}): give what Result.to_json() returns, or one element of \
             `runs` in the output of wearwell compare --json"
        ))
    })
}

/// Parses the JSON of run records that are shown together, the first as the basis of comparison.
fn parse_comparison(records: &[String]) -> PyResult<Comparison> {
    Ok(Comparison::of_runs(records.iter().map(|record| parse_run_record(record)).collect::<PyResult<_>>()?))
}

/// Returns the command line's table of runs, with ratios to the first run.
#[pyfunction]
pub(crate) fn table_of_runs(records: Vec<String>) -> PyResult<String> {
    Ok(parse_comparison(&records)?.to_table())
}

/// Returns the table of runs as markdown, with ratios to the first run.
#[pyfunction]
pub(crate) fn markdown_table_of_runs(records: Vec<String>) -> PyResult<String> {
    Ok(parse_comparison(&records)?.to_markdown())
}

/// Returns the HTML page of several runs.
#[pyfunction]
pub(crate) fn html_page_of_runs(records: Vec<String>) -> PyResult<String> {
    Ok(html_report::html_page(&parse_comparison(&records)?))
}

/// Returns the HTML page of a sweep. `runs` has, for each finished run, the settings that distinguish it and its
/// record; `failures` has trace, design, settings and error of each failed run.
#[pyfunction]
pub(crate) fn html_page_of_sweep(
    runs: Vec<(String, String)>,
    failures: Vec<(String, String, String, String)>,
) -> PyResult<String> {
    let run = |(variant, record): (String, String)| Ok(RunRecord { variant, ..parse_run_record(&record)? });
    let runs = runs.into_iter().map(run).collect::<PyResult<_>>()?;
    let failed = |(trace, design, variant, error)| FailedRun { trace, design, variant, error };
    let failures = failures.into_iter().map(failed).collect();
    Ok(html_report::html_page(&SweepResults { comparison: Comparison::of_runs(runs), failures }))
}

/// Adds to the record of a run the lifetime in years of a drive that exports `bytes` bytes. Returns the record as JSON.
#[pyfunction]
pub(crate) fn scale_record_to_capacity(record: &str, bytes: u64) -> PyResult<String> {
    Ok(parse_run_record(record)?.with_years_scaled_to_exported_bytes(Some(bytes)).to_json())
}
