//! A folder of finished runs, each stored under its key.

use std::io;
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use wearwell_replay::json::ToJson;
use wearwell_replay::record::RunRecord;
use wearwell_replay::result_folder::ResultFolder;

use crate::refusal_error;
use crate::report::parse_run_record;

/// Opens a folder of finished runs; an error if it cannot be used.
fn open_result_folder(folder: &Path) -> PyResult<ResultFolder<RunRecord>> {
    ResultFolder::open(folder).map_err(|error| unusable_folder_error(folder, &error))
}

/// Returns the `WearwellError` for a folder of results that cannot be used.
fn unusable_folder_error(folder: &Path, error: &io::Error) -> PyErr {
    refusal_error(format!(
        "{}: {error}: let the argument store name a folder in which files can be written, or leave store out",
        folder.display()
    ))
}

/// Returns the finished run with this key from a folder of results, as JSON; `None` if there is none.
#[pyfunction]
pub(crate) fn stored_run(folder: PathBuf, key: &str) -> PyResult<Option<String>> {
    let record = open_result_folder(&folder)?.get(key);
    // The stored variant may be relative to the comparison that stored the run, so it is computed anew.
    let record = record.map(|record| RunRecord { variant: record.config.run_label(""), ..record });
    Ok(record.map(|record| record.to_json()))
}

/// Stores the record of a run in a folder of results, if the run is complete. A concurrent reader sees the whole file
/// or none.
#[pyfunction]
pub(crate) fn store_run(folder: PathBuf, key: &str, record: &str) -> PyResult<()> {
    open_result_folder(&folder)?
        .store_if_finished(key, &parse_run_record(record)?)
        .map_err(|error| unusable_folder_error(&folder, &error))
}
