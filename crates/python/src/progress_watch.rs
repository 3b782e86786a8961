//! Reports the progress of a run to Python and checks for ctrl-C.
//!
//! The engine reports progress every few ten thousand requests, that is, every few milliseconds or less. The
//! interpreter's lock is acquired at most twenty times a second, because a busy interpreter releases it only every 5
//! ms. The end of a run is always reported.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use wearwell_replay::replay::{Progress, RunPhase};

/// Shortest time between two checks for signals, and between two reports of progress to Python.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Checks for signals, and calls a Python function with the progress of the run.
pub(crate) struct ProgressWatch {
    /// Python function that is called with the progress; `None` if the user gave none.
    on_progress: Option<Py<PyAny>>,
    /// Time of the last check for signals; `None` before the first check.
    last_signal_check: Option<Instant>,
    /// Phase and total work of the last progress that the engine reported, whether or not Python was called; `None`
    /// before the first report.
    latest_phase_and_total: Option<(&'static str, u64)>,
    /// Exception that ended the run whose progress is reported. Ctrl-C is not stored here, because it only makes the
    /// result partial.
    progress_exception: Option<PyErr>,
}

impl ProgressWatch {
    pub(crate) fn new(on_progress: Option<Py<PyAny>>) -> Self {
        Self { on_progress, last_signal_check: None, latest_phase_and_total: None, progress_exception: None }
    }

    /// Checks for signals and reports the progress of a run, at most twenty times a second. Returns whether the run
    /// continues.
    pub(crate) fn report_progress(
        &mut self,
        Progress { phase, done_work_units: done, total_work_units: total }: Progress,
    ) -> ControlFlow<()> {
        self.report_phase_progress(phase_name(phase), done, total)
    }

    /// Checks for signals and reports the progress of the phase with this name, at most twenty times a second. Returns
    /// whether the run continues.
    pub(crate) fn report_phase_progress(
        &mut self,
        phase: &'static str,
        done: u64,
        total: u64,
    ) -> ControlFlow<()> {
        self.latest_phase_and_total = Some((phase, total));
        if self.last_signal_check.is_some_and(|last_look| last_look.elapsed() < SIGNAL_CHECK_INTERVAL) {
            return ControlFlow::Continue(());
        }
        let last_look = Python::attach(|py| {
            let last_look =
                py.check_signals().and_then(|()| self.call_progress_function(py, (phase, done, total)));
            last_look.or_else(
                |error| if is_interrupt(py, &error) { Ok(ControlFlow::Break(())) } else { Err(error) },
            )
        });
        self.last_signal_check = Some(Instant::now());
        last_look.unwrap_or_else(|error| {
            self.progress_exception = Some(error);
            ControlFlow::Break(())
        })
    }

    /// Reports to Python that a run has reached its end, so that the last call says that all work is done. `end` has
    /// the last phase of the run and its total work; if it is `None`, they are those of the last report of the engine.
    pub(crate) fn report_end(&mut self, end: Option<(&'static str, u64)>) {
        let Some((phase, total)) = end.or(self.latest_phase_and_total) else { return };
        Python::attach(|py| match self.call_progress_function(py, (phase, total, total)) {
            // The run is complete already, so nothing is left to interrupt.
            Err(error) if !is_interrupt(py, &error) => self.progress_exception = Some(error),
            _ => {}
        });
    }

    /// Calls the Python function with phase, finished units and total units, if the user gave a function.
    fn call_progress_function(
        &self,
        py: Python<'_>,
        progress: (&str, u64, u64),
    ) -> PyResult<ControlFlow<()>> {
        if let Some(function) = &self.on_progress {
            function.call1(py, progress)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the exception of a signal handler or of the Python progress function, if there is one.
    pub(crate) fn into_exception(self) -> PyResult<()> {
        self.progress_exception.map_or(Ok(()), Err)
    }
}

/// Whether an exception is `KeyboardInterrupt`, as ctrl-C raises it.
fn is_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyKeyboardInterrupt>(py)
}

/// Returns the name of a phase of a run, as the Python progress callback of the user gets it.
pub(crate) fn phase_name(phase: RunPhase) -> &'static str {
    match phase {
        RunPhase::Precondition => "precondition",
        RunPhase::Aging => "aging",
        RunPhase::Replay => "replay",
        RunPhase::Life => "life",
    }
}
