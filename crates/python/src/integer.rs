//! Conversion of integers that a user passes as arguments. An error names the argument, its value and the permitted
//! range; the conversion errors of `PyO3` name none of these.

use std::ops::RangeInclusive;

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;

use crate::refusal_error;

/// Converts a value into an integer of `range`. An error begins with what `found` returns: the argument and its value.
pub(crate) fn extract_integer_in_range(
    value: &Bound<'_, PyAny>,
    range: RangeInclusive<u64>,
    found: impl FnOnce() -> String,
) -> PyResult<u64> {
    match value.extract::<u64>() {
        Ok(number) if range.contains(&number) => return Ok(number),
        Ok(_) => {}
        Err(error) => {
            let py = value.py();
            // Any other exception was raised by the value itself, when it was asked for an integer.
            if !error.is_instance_of::<PyOverflowError>(py) && !error.is_instance_of::<PyTypeError>(py) {
                return Err(error);
            }
        }
    }
    Err(refusal_error(format!(
        "{found}: give an integer from {least} to {most}",
        found = found(),
        least = range.start(),
        most = range.end()
    )))
}

/// Returns the text by which Python shows a value (`repr`).
pub(crate) fn repr_of(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| "a value without a repr".to_owned(), |text| text.to_string())
}
