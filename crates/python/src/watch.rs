//! Progress of a run for Python, and ctrl-C.
//!
//! The engine reports every few ten thousand requests, in milliseconds or less; the lock is taken for it twenty times a second at
//! most, because a busy interpreter gives it up only every 5 ms.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use wearwell_replay::replay::{Phase, Progress};

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Looks at signals, and tells a function of Python of the progress.
pub(crate) struct Watch {
    on_progress: Option<Py<PyAny>>,
    looked: Option<Instant>,
    /// What ended the run, but for ctrl-C, which leaves a partial result.
    error: Option<PyErr>,
}

impl Watch {
    pub(crate) fn new(on_progress: Option<Py<PyAny>>) -> Self {
        Self { on_progress, looked: None, error: None }
    }

    pub(crate) fn look(&mut self, progress: Progress) -> ControlFlow<()> {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return ControlFlow::Continue(());
        }
        let looked = Python::attach(|py| {
            let looked = py.check_signals().and_then(|()| self.tell(py, progress));
            looked.or_else(
                |error| if is_interrupt(py, &error) { Ok(ControlFlow::Break(())) } else { Err(error) },
            )
        });
        self.looked = Some(Instant::now());
        looked.unwrap_or_else(|error| {
            self.error = Some(error);
            ControlFlow::Break(())
        })
    }

    fn tell(&self, py: Python<'_>, Progress { phase, done, total }: Progress) -> PyResult<ControlFlow<()>> {
        if let Some(function) = &self.on_progress {
            function.call1(py, (name(phase), done, total))?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// What a signal handler or the function of Python raised.
    pub(crate) fn raised(self) -> PyResult<()> {
        self.error.map_or(Ok(()), Err)
    }
}

fn is_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyKeyboardInterrupt>(py)
}

fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Precondition => "precondition",
        Phase::Aging => "aging",
        Phase::Replay => "replay",
        Phase::Life => "life",
    }
}
