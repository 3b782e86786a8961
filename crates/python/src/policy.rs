//! GC victim policies that are written in Python.
//!
//! The engine runs without the interpreter's lock and acquires it for each victim. The candidate blocks are passed as
//! one `bytes` object per column, which `NumPy` uses without a copy. If the policy raises an exception, the run ends
//! with an error that has the exception's message, and the exception itself is then raised to the caller.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use wearwell::address::BlockId;
use wearwell::gc::{ChooseVictim, UserVictimPolicy, VictimCandidate, VictimCandidates};

use crate::device::{NumpyColumn, PAGE_KINDS_BY_CODE, code_column, code_of, names_of_codes, number_column};

/// The exception that a GC victim policy in Python has raised, if there is one.
#[derive(Clone, Default)]
pub(crate) struct RaisedException(Arc<Mutex<Option<PyErr>>>);

impl RaisedException {
    /// Returns the exception that the GC victim policy raised, if there is one; otherwise the engine's error
    /// `otherwise`.
    pub(crate) fn or_engine_error(&self, otherwise: PyErr) -> PyErr {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or(otherwise)
    }
}

/// A GC victim policy that calls a Python function with the pool (a plane, or the planes of a superblock), the pages of
/// a block, the programs so far and the columns of the candidate blocks. The function returns the number of a block, or
/// `None` for the engine's greedy choice.
struct PythonPolicy {
    name: String,
    python_function: Py<PyAny>,
    raised_exception: RaisedException,
}

/// Creates a GC victim policy for the engine that calls `choose`, and the cell in which the policy stores its
/// exceptions.
pub(crate) fn python_victim_policy(name: String, choose: Py<PyAny>) -> (UserVictimPolicy, RaisedException) {
    let raised_exception = RaisedException::default();
    (
        UserVictimPolicy::new(PythonPolicy {
            name,
            python_function: choose,
            raised_exception: raised_exception.clone(),
        }),
        raised_exception,
    )
}

impl ChooseVictim for PythonPolicy {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn choose(&mut self, candidates: &VictimCandidates<'_>) -> Result<Option<BlockId>, String> {
        let rows: Vec<VictimCandidate> = candidates.iter().collect();
        let asked = (candidates.pool(), candidates.block_pages(), candidates.programs_so_far());
        Python::attach(|py| {
            let answer = self
                .python_function
                .call1(py, (asked.0, asked.1, asked.2, victim_candidate_columns(py, &rows)));
            let chosen = answer.and_then(|answer| answer.extract::<Option<u32>>(py));
            chosen.map(|block| block.map(BlockId)).map_err(|error| {
                let why = error.to_string();
                *self.raised_exception.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                why
            })
        })
    }
}

fn victim_candidate_columns<'py>(py: Python<'py>, rows: &[VictimCandidate]) -> Vec<NumpyColumn<'py>> {
    let column = |name, value: fn(&VictimCandidate) -> u32| {
        number_column(py, name, rows.iter().map(|row| Some(value(row))))
    };
    let ages: Vec<u8> = rows.iter().flat_map(|row| row.age_programs.to_le_bytes()).collect();
    vec![
        column("block", |row| row.block.0),
        column("valid_pages", |row| row.valid_pages),
        ("age_programs", PyBytes::new(py, &ages), "<i8", Vec::new()),
        column("erases", |row| row.erases),
        code_column(
            py,
            "kind",
            rows.iter().map(|row| code_of(&PAGE_KINDS_BY_CODE, &Some(row.kind))),
            names_of_codes(&PAGE_KINDS_BY_CODE),
        ),
    ]
}
