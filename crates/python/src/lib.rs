//! The native module of the Python package `wearwell`: the replay library as Python calls it.
//!
//! It is thin on purpose. Everything that the command line does as well is a call of `wearwell-replay`, so that results and error
//! messages are the same; everything that needs no engine is Python (`python/wearwell`). Records cross as JSON, the form that
//! `docs/schema` describes: one description of a result, at the price of a millisecond or less per run.
//!
//! Whatever takes long runs without the interpreter's lock (`Python::detach`), and looks for ctrl-C now and then.

#![forbid(unsafe_code)]
#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python are converted, and owned by the function"
)]

mod configuration;
mod device;
mod input;
mod kept;
mod policy;
mod report;
mod table;
mod watch;

use std::fmt::Display;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

pyo3::create_exception!(
    wearwell,
    WearwellError,
    PyValueError,
    "What the user can mend: the message says what is wrong, where, and what to do. It is the sentence of the command line."
);

/// The exception with the sentence of an error.
fn refused(error: impl Display) -> PyErr {
    WearwellError::new_err(error.to_string())
}

/// Native part of the package; its names are those of `_native.pyi`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::WearwellError;
    #[pymodule_export]
    use super::configuration::{Configuration, designs, devices, unknown_name};
    #[pymodule_export]
    use super::device::{Device, PowerLoss};
    #[pymodule_export]
    use super::input::Input;
    #[pymodule_export]
    use super::kept::{keep, kept};
    #[pymodule_export]
    use super::report::{markdown, page_of_runs, page_of_sweep, scaled, table};
    #[pymodule_export]
    use super::table::write_trace;

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
