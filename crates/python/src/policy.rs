//! A victim policy that is written in Python.
//!
//! The engine runs without the interpreter's lock, and takes it for each victim. The candidates cross as one `bytes` object per
//! column, which `NumPy` takes as it is; what an exception says ends the run, and the exception itself is raised behind it.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use wearwell::address::BlockId;
use wearwell::gc::{Candidate, Candidates, ChooseVictim, OwnPolicy};

use crate::device::{Column, KINDS, code, codes, names, numbers};

/// What the policy raised, if it did.
#[derive(Clone, Default)]
pub(crate) struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// The exception in place of `otherwise`, which tells of it.
    pub(crate) fn or(&self, otherwise: PyErr) -> PyErr {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or(otherwise)
    }
}

/// A policy whose `choose` is a function of Python: block numbers, and columns of the candidates, to a row number or none.
struct PythonPolicy {
    name: String,
    choose: Py<PyAny>,
    raised: Raised,
}

/// A policy for the engine, and where its exceptions are left.
pub(crate) fn own_policy(name: String, choose: Py<PyAny>) -> (OwnPolicy, Raised) {
    let raised = Raised::default();
    (OwnPolicy::new(PythonPolicy { name, choose, raised: raised.clone() }), raised)
}

impl ChooseVictim for PythonPolicy {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn choose(&mut self, candidates: &Candidates<'_>) -> Result<Option<BlockId>, String> {
        let rows: Vec<Candidate> = candidates.iter().collect();
        let asked = (candidates.pool(), candidates.block_pages(), candidates.now());
        Python::attach(|py| {
            let answer = self.choose.call1(py, (asked.0, asked.1, asked.2, columns(py, &rows)));
            let chosen = answer.and_then(|answer| answer.extract::<Option<u32>>(py));
            chosen.map(|block| block.map(BlockId)).map_err(|error| {
                let why = error.to_string();
                *self.raised.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                why
            })
        })
    }
}

fn columns<'py>(py: Python<'py>, rows: &[Candidate]) -> Vec<Column<'py>> {
    let column =
        |name, value: fn(&Candidate) -> u32| numbers(py, name, rows.iter().map(|row| Some(value(row))));
    let ages: Vec<u8> = rows.iter().flat_map(|row| row.age_programs.to_le_bytes()).collect();
    vec![
        column("block", |row| row.block.0),
        column("valid_pages", |row| row.valid_pages),
        ("age_programs", PyBytes::new(py, &ages), "<i8", Vec::new()),
        column("erases", |row| row.erases),
        codes(py, "kind", rows.iter().map(|row| code(&KINDS, &Some(row.kind))), names(&KINDS)),
    ]
}
