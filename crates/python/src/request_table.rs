//! Writes a table of requests as a trace file in the native format, so that it is read, hashed and reported as any
//! other trace.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use pyo3::prelude::*;
use wearwell_config::ConfigError;
use wearwell_trace::{NativeWriter, Op, Request, TraceError, TraceWriter};

use crate::refusal_error;

/// Operations of requests by the names, and by the letters, that a table of requests may use.
const OPS_BY_NAME: [(&str, Op); 10] = [
    ("read", Op::Read),
    ("write", Op::Write),
    ("trim", Op::Trim),
    ("zero", Op::Zero),
    ("flush", Op::Flush),
    ("R", Op::Read),
    ("W", Op::Write),
    ("T", Op::Trim),
    ("Z", Op::Zero),
    ("F", Op::Flush),
];

/// Latest time of a request after the first one, nanoseconds: 292 years.
const MAX_REQUEST_TIME_NS: f64 = i64::MAX as f64;

/// Writes a table of requests to a trace file in the native format and returns the number of requests.
#[pyfunction]
pub(crate) fn write_trace(
    py: Python<'_>,
    path: PathBuf,
    time_us: Vec<f64>,
    op: Vec<String>,
    offset_bytes: Vec<u64>,
    length_bytes: Vec<u64>,
) -> PyResult<u64> {
    py.detach(|| {
        let file = File::create(&path).map_err(|error| {
            refusal_error(format!(
                "the table of requests cannot be written to the temporary file {}: {error}; let the environment \
                 variable TMPDIR name a folder in which files can be written",
                path.display()
            ))
        })?;
        let mut writer =
            NativeWriter::new(BufWriter::new(file), "a table of requests").map_err(refusal_error)?;
        let (mut request, mut before_us) = (Request::default(), f64::NEG_INFINITY);
        let first_us = time_us.first().copied().unwrap_or(0.0);
        let extents = offset_bytes.iter().zip(&length_bytes);
        for (row, ((&time_us, op), (&offset, &length))) in time_us.iter().zip(&op).zip(extents).enumerate() {
            let at = |error: &str| refusal_error(format!("row {row} of the table of requests: {error}"));
            if !time_us.is_finite() {
                return Err(at(&format!("time_us is {time_us}: give a finite number of microseconds")));
            }
            if time_us < before_us {
                return Err(at(&format!(
                    "time_us is {time_us}, less than {before_us} in the row before: sort the table by time_us"
                )));
            }
            before_us = time_us;
            let time_ns = ((time_us - first_us) * 1000.0).round();
            if time_ns > MAX_REQUEST_TIME_NS {
                return Err(at(&format!(
                    "time_us is {time_us}, more than 292 years after that of the first row, {first_us}: give \
                     microseconds"
                )));
            }
            request.time_ns = time_ns as u64;
            request.op = op_of_name(op).map_err(|error| at(&error.to_string()))?;
            (request.offset_bytes, request.len_bytes) =
                if request.op == Op::Flush { (0, 0) } else { (offset, length) };
            writer.write(&request).map_err(|error| match error {
                TraceError::UnwritableRequest { requirement, .. } => at(&format!(
                    "offset_bytes is {} and length_bytes is {}, but {requirement}",
                    request.offset_bytes, request.len_bytes
                )),
                other => refusal_error(other),
            })?;
        }
        writer.finish().map_err(refusal_error)
    })
}

/// Returns the operation with this name or letter; an error if there is none.
fn op_of_name(op: &str) -> Result<Op, ConfigError> {
    let found = OPS_BY_NAME.iter().find(|(name, _)| *name == op).map(|&(_, op)| op);
    found.ok_or_else(|| ConfigError::unknown_name("operation", op, OPS_BY_NAME.iter().map(|(name, _)| *name)))
}
