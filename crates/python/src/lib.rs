//! The native module of the Python package `wearwell`: makes the replay library callable from Python.
//!
//! The module is thin on purpose. What the command line can do, too, is a call of `wearwell-replay`, so that results
//! and error messages are the same. What does not need the engine is written in Python (`python/wearwell`). Records are
//! passed as JSON, in the form that `docs/schema` describes. So a result has only one description, at the price of at
//! most a millisecond per run.
//!
//! Long calls release the interpreter's lock (`Python::detach`) and check for ctrl-C at intervals.

#![forbid(unsafe_code)]
#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python are converted, and owned by the function"
)]

mod ablation;
mod columns;
mod configuration;
mod device;
mod input;
mod integer;
mod life;
mod policy;
mod profile;
mod progress_watch;
mod report;
mod request_table;
mod result_folder;

use std::fmt::Display;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

pyo3::create_exception!(
    wearwell,
    WearwellError,
    PyValueError,
    "An error that the user can correct: the message says what is wrong, where, and what to do."
);

/// Returns a `WearwellError` exception with the message of an error, in which arguments of Python replace the options
/// of the command line.
fn refusal_error(error: impl Display) -> PyErr {
    WearwellError::new_err(with_python_argument_names(error.to_string()))
}

/// Options of the command line that occur in messages of errors, each with the Python argument of the same meaning.
const CLI_OPTIONS_AND_PYTHON_ARGUMENTS: [(&str, &str); 17] = [
    ("--format", "`format`"),
    ("--action", "`action`"),
    ("--time-unit", "`time_unit`"),
    ("--assume", "`assume`"),
    ("--skip-bad-lines", "`skip_bad_lines`"),
    ("--bytes", "`bytes`"),
    ("--without-sidecars", "`without_sidecars`"),
    ("--columns", "`columns`"),
    ("--against", "`against`"),
    ("--spread", "`spread`"),
    ("--early-share", "`early_share`"),
    ("--program-share", "`program_share`"),
    ("--spare-minimum", "`spare_minimum`"),
    ("--empty", "`empty`"),
    ("--leveling", "`leveling`"),
    ("--scale-to", "`scale_to`"),
    ("--parts", "`parts`"),
];

/// Replaces the options of the command line in a message by the arguments of Python that have the same meaning.
fn with_python_argument_names(message: String) -> String {
    CLI_OPTIONS_AND_PYTHON_ARGUMENTS
        .into_iter()
        .fold(message, |message, (option, argument)| message.replace(option, argument))
}

/// The native part of the package; `_native.pyi` lists the names that it exports.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::WearwellError;
    #[pymodule_export]
    use super::ablation::{
        ablation_of_runs, html_page_of_ablation, html_tables_of_ablation, subsets_of_mechanisms,
        table_of_ablation,
    };
    #[pymodule_export]
    use super::configuration::{Configuration, causes, designs, devices, unknown_name};
    #[pymodule_export]
    use super::device::{Device, PowerLoss};
    #[pymodule_export]
    use super::input::Input;
    #[pymodule_export]
    use super::life::{
        html_page_of_lives, html_tables_of_lives, join_lives, leveling_settings, run_life, table_of_lives,
    };
    #[pymodule_export]
    use super::profile::{
        html_page_of_profiles, html_tables_of_profile, ignored_by_profile, is_trace, profile_files,
        profile_requests, run_mechanisms, table_of_profile, write_trace_of_files,
    };
    #[pymodule_export]
    use super::report::{
        html_page_of_runs, html_page_of_sweep, markdown_table_of_runs, scale_record_to_capacity,
        table_of_runs,
    };
    #[pymodule_export]
    use super::request_table::RequestTableWriter;
    #[pymodule_export]
    use super::result_folder::{store_run, stored_run};

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
