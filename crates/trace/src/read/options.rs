//! Options for opening a trace: what the user knows of the file and its contents do not say.

use std::path::Path;

use super::columns::CsvColumns;
use crate::Format;

/// Stage of a request in the Linux block layer. Traces of the block layer report a request at several stages, of which
/// one is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BlockLayerStage {
    /// Blktrace action Q: the request was queued in the block layer.
    Queue,
    /// Blktrace action D: the request was issued to the device.
    #[default]
    Issue,
    /// Blktrace action C: the device completed the request.
    Complete,
}

impl BlockLayerStage {
    /// Returns the letter of this stage in blkparse output.
    pub fn blkparse_letter(self) -> &'static str {
        match self {
            Self::Queue => "Q",
            Self::Issue => "D",
            Self::Complete => "C",
        }
    }
}

/// Unit of the times in a trace that are integers without a stated unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TimeUnit {
    /// Times in the trace are multiples of 10^-12 s.
    Picoseconds,
    /// Times in the trace are multiples of 10^-9 s.
    #[default]
    Nanoseconds,
    /// Times in the trace are multiples of 10^-6 s.
    Microseconds,
}

impl TimeUnit {
    /// Converts a time in this unit to nanoseconds; `None` if it overflows.
    pub fn to_ns(self, time: u64) -> Option<u64> {
        match self {
            Self::Picoseconds => Some(time / 1000),
            Self::Nanoseconds => Some(time),
            Self::Microseconds => time.checked_mul(1000),
        }
    }
}

/// Operation of all requests if the trace format does not record operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AssumedOp {
    /// All requests of the trace are taken as reads.
    Reads,
    /// All requests of the trace are taken as writes.
    Writes,
}

/// Options for opening a trace. With the default the format is detected and a bad line is an error.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Format of the trace; `None` to detect it.
    pub format: Option<Format>,
    /// Stage of requests to read (queued, issued or completed), in formats that report several stages.
    pub block_layer_stage: BlockLayerStage,
    /// Unit of integer times, for traces of `MQSim`. If it is set, lines of five integers are recognised as `MQSim` and
    /// not as `DiskSim`.
    pub time_unit: Option<TimeUnit>,
    /// Operation of all requests, for traces in the format `oracleGeneral`, which records no operations.
    pub assumed_op: Option<AssumedOp>,
    /// Whether bad lines and records are counted and skipped instead of ending the trace with an error.
    pub skips_bad_lines: bool,
    /// Whether [`crate::Request::payload`] is filled with page contents from a capture's `.pages` file.
    pub reads_payloads: bool,
    /// Whether a capture may be read without its `.psz` and `.wdelta` files. The compressed and delta sizes of its
    /// pages are then unknown.
    pub allows_absent_page_size_files: bool,
    /// Description of the columns of a CSV, for [`Format::Columns`].
    pub columns: Option<CsvColumns>,
    /// Name of the trace in messages and result records; `None` for its path.
    pub trace_name: Option<String>,
}

impl OpenOptions {
    /// Returns the name for the trace at this path in messages and result records.
    pub fn trace_name_of(&self, path: &Path) -> String {
        self.trace_name.clone().unwrap_or_else(|| path.display().to_string())
    }

    /// Returns the end of a sentence about a trace of this format in which no request was found: the stage that was
    /// read, and how another one is. Empty if traces of this format have no stages.
    pub fn block_layer_stage_hint(&self, format: Format) -> String {
        if !format.records_stages() {
            return String::new();
        }
        let stage = self.block_layer_stage.blkparse_letter();
        let others: Vec<&str> = ["D", "Q", "C"].into_iter().filter(|&other| other != stage).collect();
        format!(" at stage {stage} (--action {} reads another stage)", others.join(" or "))
    }
}
