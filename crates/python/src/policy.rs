//! GC victim policies that are written in Python.
//!
//! The engine runs without the interpreter's lock and acquires it for each victim. The candidate blocks are passed as
//! one `bytes` object per column, which `NumPy` uses without a copy. If the policy raises an exception, the run ends
//! with an error that has the exception's message, and the exception itself is then raised to the caller.
//!
//! Ctrl-C during a replay is no such exception: it ends the run with a partial result, as it does without a policy. The
//! engine can end a run only between requests. Until then it chooses victims by the greedy policy; the record has a
//! note of their number.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use wearwell::address::BlockId;
use wearwell::gc::{ChooseVictim, UserVictimPolicy, VictimCandidate, VictimCandidates};

use crate::columns::{NumpyColumn, PAGE_KINDS_BY_CODE, code_column, code_of, names_of_codes, number_column};

/// State of a GC victim policy in Python: it chooses victims, or an exception or ctrl-C has ended it.
#[derive(Default)]
enum VictimPolicyState {
    /// The policy chooses the victims.
    #[default]
    Active,
    /// The policy raised an exception.
    Exception(PyErr),
    /// Ctrl-C interrupted the policy. The number counts the victims that the engine has chosen by itself since then.
    Interrupted(u64),
}

/// State of a GC victim policy in Python (it chooses victims, or an exception or ctrl-C has ended it). The policy
/// stores the state, and the caller of the engine reads it after a run or request.
#[derive(Clone, Default)]
pub(crate) struct SharedVictimPolicyState(Arc<Mutex<VictimPolicyState>>);

impl SharedVictimPolicyState {
    /// Locks the shared state of the policy.
    fn lock(&self) -> MutexGuard<'_, VictimPolicyState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the exception that the GC victim policy raised, if there is one; otherwise the engine's error
    /// `otherwise`.
    pub(crate) fn policy_exception_or(&self, otherwise: PyErr) -> PyErr {
        match std::mem::take(&mut *self.lock()) {
            VictimPolicyState::Exception(raised) => raised,
            VictimPolicyState::Active | VictimPolicyState::Interrupted(_) => otherwise,
        }
    }

    /// Returns the number of victims that the engine has chosen since ctrl-C interrupted the policy; `None` if it was
    /// not interrupted.
    pub(crate) fn engine_victims_since_interruption(&self) -> Option<u64> {
        match &*self.lock() {
            VictimPolicyState::Interrupted(victims) => Some(*victims),
            VictimPolicyState::Active | VictimPolicyState::Exception(_) => None,
        }
    }
}

/// Effect of ctrl-C while a GC victim policy in Python runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnInterrupt {
    /// `KeyboardInterrupt` ends the request and is raised to the Python code that made the request.
    Raise,
    /// The engine chooses all further victims itself, until it ends the run.
    EndRun,
}

/// The Python function of a GC victim policy, shared by the engine and the drive's Python object. Python's garbage
/// collector visits and clears it through that object, because it cannot look into the engine.
#[derive(Clone, Default)]
pub(crate) struct SharedPythonFunction(Arc<Mutex<Option<Py<PyAny>>>>);

impl SharedPythonFunction {
    /// Shares `function` with the engine.
    pub(crate) fn new(function: Py<PyAny>) -> Self {
        Self(Arc::new(Mutex::new(Some(function))))
    }

    /// Returns the function; `None` after the garbage collector has cleared it. The lock is held only while the
    /// interpreter is attached and never while Python code runs, so the garbage collector never meets a locked function.
    fn get(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let function = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        function.as_ref().map(|function| function.clone_ref(py))
    }

    /// Reports the function to Python's garbage collector.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        // An object that is not reported is kept alive.
        self.0.try_lock().map_or(Ok(()), |function| visit.call(&*function))
    }

    /// Drops the function, for Python's garbage collector: the drive that uses it is garbage.
    pub(crate) fn clear(&self) {
        let function = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Its destructor may run Python code, so the lock is released before.
        drop(function);
    }
}

/// A GC victim policy that calls a Python function with the pool (a plane, or the planes of a superblock), the pages of
/// a block, the programs so far and the columns of the candidate blocks. The function returns the number of a block, or
/// `None` for the engine's greedy choice.
struct PythonPolicy {
    /// Name of the policy in records of runs.
    name: String,
    /// Python function that chooses the victim.
    python_function: SharedPythonFunction,
    /// Effect of ctrl-C while the Python function runs.
    on_interrupt: OnInterrupt,
    /// State of the policy (running, or ended by an exception or ctrl-C), shared with the caller of the engine.
    policy_state: SharedVictimPolicyState,
}

/// Creates a GC victim policy for the engine that calls `choose`, and the cell in which the policy stores whether and
/// how it has ended.
pub(crate) fn python_victim_policy(
    name: String,
    choose: SharedPythonFunction,
    on_interrupt: OnInterrupt,
) -> (UserVictimPolicy, SharedVictimPolicyState) {
    let policy_state = SharedVictimPolicyState::default();
    let policy =
        PythonPolicy { name, python_function: choose, on_interrupt, policy_state: policy_state.clone() };
    (UserVictimPolicy::new(policy), policy_state)
}

impl ChooseVictim for PythonPolicy {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn choose(&mut self, candidates: &VictimCandidates<'_>) -> Result<Option<BlockId>, String> {
        if let VictimPolicyState::Interrupted(victims) = &mut *self.policy_state.lock() {
            *victims += 1;
            return Ok(None);
        }
        let rows: Vec<VictimCandidate> = candidates.iter().collect();
        let asked = (candidates.pool_number(), candidates.block_pages(), candidates.last_sequence_number());
        Python::attach(|py| {
            // Without the function the drive is garbage, so no choice matters.
            let Some(function) = self.python_function.get(py) else { return Ok(None) };
            let answer = function.call1(py, (asked.0, asked.1, asked.2, victim_candidate_columns(py, &rows)));
            let chosen = answer.and_then(|answer| answer.extract::<Option<u32>>(py));
            chosen.map(|block| block.map(BlockId)).or_else(|error| {
                if self.on_interrupt == OnInterrupt::EndRun && error.is_instance_of::<PyKeyboardInterrupt>(py)
                {
                    *self.policy_state.lock() = VictimPolicyState::Interrupted(1);
                    return Ok(None);
                }
                let why = error.to_string();
                *self.policy_state.lock() = VictimPolicyState::Exception(error);
                Err(why)
            })
        })
    }
}

/// Returns the candidate blocks of a GC run as table columns for Python, one row per block.
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
