//! Finished runs in a folder, each under its key.

use std::io;
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use wearwell_replay::kept::Kept;
use wearwell_replay::record::RunRecord;

use crate::refused;
use crate::report::read;

fn folder_of(folder: &Path) -> PyResult<Kept<RunRecord>> {
    Kept::at(folder).map_err(|error| unusable(folder, &error))
}

fn unusable(folder: &Path, error: &io::Error) -> PyErr {
    refused(format!("{}: {error}", folder.display()))
}

/// The finished run of this key, as JSON.
#[pyfunction]
pub(crate) fn kept(folder: PathBuf, key: &str) -> PyResult<Option<String>> {
    let record = folder_of(&folder)?.get(key);
    // Who kept it may have told it from others of a comparison.
    let record = record.map(|record| RunRecord { variant: record.config.variant(""), ..record });
    Ok(record.map(|record| serde_json::to_string(&record).expect("a record is plain data")))
}

/// Keeps a record if it went to its end. A reader sees the whole file or none.
#[pyfunction]
pub(crate) fn keep(folder: PathBuf, key: &str, record: &str) -> PyResult<()> {
    folder_of(&folder)?.put(key, &read(record)?).map_err(|error| unusable(&folder, &error))
}
