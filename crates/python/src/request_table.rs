//! Writes a table of requests as a trace file in the native format, so that it is read, hashed and reported as any
//! other trace.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use wearwell::address::RemapMode;
use wearwell_config::ConfigError;
use wearwell_trace::{NativeWriter, Op, Request, TraceError, TraceWriter, parse_content_descriptors};

use crate::refusal_error;

/// Operations of requests by the names, and by the letters, that a table of requests may use.
const OPS_BY_NAME: [(&str, Op); 16] = [
    ("read", Op::Read),
    ("write", Op::Write),
    ("trim", Op::Trim),
    ("zero", Op::Zero),
    ("flush", Op::Flush),
    ("remap", Op::Remap(RemapMode::Copy)),
    ("move", Op::Remap(RemapMode::Relocate)),
    ("phase", Op::PhaseMarker),
    ("R", Op::Read),
    ("W", Op::Write),
    ("T", Op::Trim),
    ("Z", Op::Zero),
    ("F", Op::Flush),
    ("C", Op::Remap(RemapMode::Copy)),
    ("M", Op::Remap(RemapMode::Relocate)),
    ("P", Op::PhaseMarker),
];

/// Latest time of a request after the first one, nanoseconds: 292 years.
const MAX_REQUEST_TIME_NS: f64 = i64::MAX as f64;

/// Successive rows of a table of requests. Every column has a value for each request, or is empty if the table lacks it.
struct RequestRows {
    /// Time of each request, microseconds.
    time_us: Vec<f64>,
    /// Name or letter of each request's operation.
    op: Vec<String>,
    /// Address of the first byte of each request.
    offset_bytes: Vec<u64>,
    /// Length of each request in bytes.
    length_bytes: Vec<u64>,
    /// Number of each request's device; all are 0 if the table lacks the column.
    device: Vec<u32>,
    /// Contents of each request's pages, as the column `fingerprints` of Wearwell's CSV has them.
    fingerprints: Vec<String>,
    /// Address of the first byte of the source of each remap; `None` for other operations.
    source_bytes: Vec<Option<u64>>,
}

/// Times of the rows of a table that have been written, in microseconds.
#[derive(Clone, Copy)]
struct WrittenTimes {
    /// Time of the first row.
    first_us: f64,
    /// Time of the last row.
    last_us: f64,
}

impl RequestRows {
    /// Sets `request` to the request of a row, whose time is `time_ns`. The error says what is wrong, without the number
    /// of the row.
    fn read_row(&self, row: usize, time_ns: u64, request: &mut Request) -> Result<(), String> {
        request.clear_optional_fields();
        request.time_ns = time_ns;
        request.op = op_of_name(&self.op[row]).map_err(|error| error.to_string())?;
        (request.offset_bytes, request.len_bytes) = if matches!(request.op, Op::Flush | Op::PhaseMarker) {
            (0, 0)
        } else {
            (self.offset_bytes[row], self.length_bytes[row])
        };
        request.device = self.device.get(row).copied().unwrap_or(0);
        request.remap_source_offset_bytes = self.remap_source(row, request.op)?;
        let fingerprints = self.fingerprints.get(row).map_or("", String::as_str);
        request.content = parse_content_descriptors(fingerprints)
            .map_err(|requirement| format!("fingerprints is `{fingerprints}`, but {requirement}"))?;
        Ok(())
    }

    /// Returns the address of the source of a row's remap, and 0 for other operations, which must have none.
    fn remap_source(&self, row: usize, op: Op) -> Result<u64, String> {
        match (op, self.source_bytes.get(row).copied().flatten()) {
            (Op::Remap(_), Some(source)) => Ok(source),
            (Op::Remap(_), None) => {
                Err("op is a remap without a source: give its address in the column source_bytes".to_owned())
            }
            (_, None) => Ok(0),
            (_, Some(source)) => Err(format!(
                "source_bytes is {source}, but only a remap (remap, move) has a source: give None for other operations"
            )),
        }
    }
}

/// Returns the time of a request in nanoseconds since the first request of its table. Times must not decrease.
fn time_since_first_request_ns(time_us: f64, written: Option<WrittenTimes>) -> Result<u64, String> {
    if !time_us.is_finite() {
        return Err(format!("time_us is {time_us}: give a finite number of microseconds"));
    }
    let Some(WrittenTimes { first_us, last_us }) = written else { return Ok(0) };
    if time_us < last_us {
        return Err(format!(
            "time_us is {time_us}, less than {last_us} in the row before: sort the table by time_us"
        ));
    }
    let time_ns = ((time_us - first_us) * 1000.0).round();
    if time_ns > MAX_REQUEST_TIME_NS {
        return Err(format!(
            "time_us is {time_us}, more than 292 years after that of the first row, {first_us}: give microseconds"
        ));
    }
    Ok(time_ns as u64)
}

/// A trace file in the native format to which the rows of a table of requests are written in batches, so that memory
/// holds only one batch of a large table.
#[pyclass(frozen, module = "wearwell._native")]
pub(crate) struct RequestTableWriter(Mutex<WriterState>);

/// Trace file of a table of requests, and the rows that it has.
struct WriterState {
    /// Trace file.
    writer: NativeWriter<BufWriter<File>>,
    /// Number of rows that have been written.
    rows: u64,
    /// Times of the first and of the last written row; `None` before the first row.
    times: Option<WrittenTimes>,
}

impl WriterState {
    /// Writes one row of `batch`. The error says what is wrong, without the number of the row.
    fn write_row(&mut self, batch: &RequestRows, row: usize, request: &mut Request) -> Result<(), RowError> {
        let time_us = batch.time_us[row];
        let time_ns = time_since_first_request_ns(time_us, self.times)?;
        batch.read_row(row, time_ns, request)?;
        self.writer.write(request).map_err(|error| match error {
            TraceError::UnwritableRequest { requirement, .. } => RowError::Row(format!(
                "offset_bytes is {} and length_bytes is {}, but {requirement}",
                request.offset_bytes, request.len_bytes
            )),
            other => RowError::File(other),
        })?;
        let first_us = self.times.map_or(time_us, |times| times.first_us);
        self.times = Some(WrittenTimes { first_us, last_us: time_us });
        self.rows += 1;
        Ok(())
    }
}

/// Why a row of a table of requests cannot be written.
enum RowError {
    /// The row is wrong, as this sentence says.
    Row(String),
    /// The file cannot be written.
    File(TraceError),
}

impl From<String> for RowError {
    fn from(sentence: String) -> Self {
        Self::Row(sentence)
    }
}

#[pymethods]
impl RequestTableWriter {
    /// Creates the file, which has no request yet.
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        let file = create_temporary_file(&path)?;
        let writer = NativeWriter::new(BufWriter::new(file), "a table of requests").map_err(refusal_error)?;
        Ok(Self(Mutex::new(WriterState { writer, rows: 0, times: None })))
    }

    /// Writes the next rows of the table. Columns that the table lacks are empty.
    #[expect(clippy::too_many_arguments, reason = "columns of a table")]
    fn write_rows(
        &self,
        py: Python<'_>,
        time_us: Vec<f64>,
        op: Vec<String>,
        offset_bytes: Vec<u64>,
        length_bytes: Vec<u64>,
        device: Vec<u32>,
        fingerprints: Vec<String>,
        source_bytes: Vec<Option<u64>>,
    ) -> PyResult<()> {
        let batch =
            RequestRows { time_us, op, offset_bytes, length_bytes, device, fingerprints, source_bytes };
        py.detach(|| {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let mut request = Request::default();
            for row in 0..batch.time_us.len() {
                let number = state.rows;
                state.write_row(&batch, row, &mut request).map_err(|error| match error {
                    RowError::Row(sentence) => {
                        refusal_error(format!("row {number} of the table of requests: {sentence}"))
                    }
                    RowError::File(error) => refusal_error(error),
                })?;
            }
            Ok(())
        })
    }

    /// Completes the file after the last row, and returns its number of requests.
    fn finish(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.writer.finish().map_err(refusal_error)
        })
    }
}

/// Creates the temporary file of a table of requests; an error if it cannot be created.
fn create_temporary_file(path: &Path) -> PyResult<File> {
    File::create(path).map_err(|error| {
        refusal_error(format!(
            "the table of requests cannot be written to the temporary file {}: {error}; let the environment variable \
             TMPDIR name a folder in which files can be written",
            path.display()
        ))
    })
}

/// Returns the operation with this name or letter; an error if there is none.
fn op_of_name(op: &str) -> Result<Op, ConfigError> {
    let found = OPS_BY_NAME.iter().find(|(name, _)| *name == op).map(|&(_, op)| op);
    found.ok_or_else(|| ConfigError::unknown_name("operation", op, OPS_BY_NAME.iter().map(|(name, _)| *name)))
}
