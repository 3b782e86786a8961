//! Errors of opening, reading and writing a trace. Each error names its position in the file.
//!
//! Text formats report line and column, binary formats report record and byte offset, because the person who reads the
//! message has the file open in an editor or in a hex dump. For a file that ends too early the error holds the number
//! of requests that were read without error, so that a caller can keep a partial result and mark it as such.

use std::io;

use crate::Format;

/// An error while opening, reading or writing a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The trace file cannot be opened, or its first bytes cannot be read.
    #[error("{file}: cannot open the trace, so remove the cause or name another file: {source}")]
    CannotOpen {
        /// Name of the trace file.
        file: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A line of a trace in a text format cannot be parsed.
    #[error(
        "{file}: line {line_number}, column {column}: found {found_text}, but {requirement}; correct the line, leave \
         bad lines out by --skip-bad-lines, or name another format by --format or other columns by --columns",
        found_text = if found.is_empty() { "nothing".to_owned() } else { format!("`{found}`") }
    )]
    BadLine {
        /// Name of the trace file.
        file: String,
        /// Number of the line with the error, from 1.
        line_number: u64,
        /// Position of the error in its line, in characters, from 1.
        column: usize,
        /// Sentence on what the format requires at the position of the error.
        requirement: &'static str,
        /// Start of the text that was found at the position of the error.
        found: String,
    },
    /// A record of a trace in a binary format cannot be parsed.
    #[error(
        "{file}: record {record} at byte {offset} is refused: {requirement}; get the file again from its source, or \
         name another format by --format"
    )]
    BadRecord {
        /// Name of the trace file.
        file: String,
        /// Number of the record with the error, from 1.
        record: u64,
        /// Offset of the refused record in the decompressed file.
        offset: u64,
        /// Sentence on what the format requires of the refused record.
        requirement: &'static str,
    },
    /// A file next to a capture (sizes or bytes of its pages) ends too early or is damaged.
    #[error(
        "{file}: line {line_number} of this capture needs a companion file that is damaged, so get that file again: {reason}"
    )]
    BadSidecar {
        /// Name of the trace file.
        file: String,
        /// Number (from 1) of the line of the capture whose pages need the damaged file.
        line_number: u64,
        /// Sentence on the damaged file next to the capture: which file it is, and what to do.
        reason: String,
    },
    /// A line of a capture is damaged such that the delta sizes of its pages cannot be skipped, so that the later lines
    /// would get wrong delta sizes.
    #[error(
        "{file}: line {line_number} cannot be left out (--skip-bad-lines): {reason}; correct the line, or, if all delta \
         sizes may be unknown, move {delta_size_file} away and give --without-sidecars"
    )]
    UnskippableLine {
        /// Name of the trace file.
        file: String,
        /// Number of the damaged line, from 1.
        line_number: u64,
        /// Path of the file with the delta sizes, which lies next to the capture.
        delta_size_file: String,
        /// Sentence on why the line cannot be left out.
        reason: &'static str,
    },
    /// The trace file ends too early, or its compressed form is damaged.
    #[error(
        "{file}: the file is truncated or corrupt (requests before that: {requests}): {source}; get the file again \
         from its source, or, if it is in another format, name that by --format"
    )]
    TruncatedOrCorrupt {
        /// Name of the trace file.
        file: String,
        /// Number of requests that were read before the damage.
        requests: u64,
        /// Error of the decompressor or of the reader.
        source: io::Error,
    },
    /// The file does not begin with the header of a native trace, or the header has a version, flags or a page size
    /// that this version of Wearwell cannot read.
    #[error("{file}: the trace cannot be read as a native one: {reason}")]
    UnreadableHeader {
        /// Name of the trace file.
        file: String,
        /// What is wrong with the header of the file, and what to do.
        reason: String,
    },
    /// The trace file is empty.
    #[error("{file}: the trace file is empty: choose another file")]
    Empty {
        /// Name of the trace file.
        file: String,
    },
    /// The trace file is text in UTF-16, in which no known trace format is written.
    #[error(
        "{file}: the file is text in UTF-16, but traces are read as ASCII or UTF-8: convert it, as by `iconv -f \
         UTF-16 -t UTF-8`"
    )]
    Utf16 {
        /// Name of the trace file.
        file: String,
    },
    /// No known trace format fits the first lines or bytes of the file.
    #[error(
        "{file}: the format of the trace is not recognised (first bytes `{first_bytes}`): describe the columns of a CSV \
         with --columns, or name the format with --format, one of {all_formats}",
        all_formats = Format::all_names()
    )]
    UnknownFormat {
        /// Name of the trace file.
        file: String,
        /// First bytes of the file, with escapes for non-printable bytes.
        first_bytes: String,
    },
    /// Several trace formats fit the first lines of the file.
    #[error(
        "{file}: the columns fit several formats, {formats}: name the format with --format{unit_option}",
        formats = Format::joined_names(candidates),
        unit_option = if candidates.contains(&Format::MqSim) {
            " (for mqsim also the unit of times with --time-unit)"
        } else {
            ""
        }
    )]
    AmbiguousFormat {
        /// Name of the trace file.
        file: String,
        /// Trace formats that fit the first lines of the file.
        candidates: Vec<Format>,
    },
    /// The trace format needs an option that is not set, because the file lacks a fact that only the user knows.
    #[error("{file}: a trace in the format {format} needs an option that is not set, so add it: {reason}")]
    NeedsOption {
        /// Name of the trace file.
        file: String,
        /// Format of the trace file.
        format: Format,
        /// Sentence that names the missing option and states why the trace format needs it.
        reason: &'static str,
    },
    /// An option is set that has no meaning for the format of the trace.
    #[error("{file}: {option} has no effect on a trace in the format {format}: leave it out")]
    UnusedOption {
        /// Name of the trace file.
        file: String,
        /// Format of the trace file.
        format: Format,
        /// Name of the unused option on the command line, and what it sets.
        option: &'static str,
    },
    /// The operating system failed to write a trace to the output.
    #[error("cannot write the output trace: {0}; free some space, or choose another place for it")]
    Write(#[from] io::Error),
    /// A request has a property that the output trace format cannot hold.
    #[error(
        "request {request_number} cannot be written to the output trace: {requirement}; change the request or leave it out"
    )]
    UnwritableRequest {
        /// Number of the request that cannot be written, from 1.
        request_number: u64,
        /// Sentence on what a request in the output trace must be like.
        requirement: &'static str,
    },
    /// The text about where a trace comes from is longer than a native trace can hold.
    #[error(
        "the provenance of the trace (--provenance) has {len_bytes} bytes, but a native trace holds at most 65536: \
         shorten it"
    )]
    LongProvenance {
        /// Length of the provenance, bytes.
        len_bytes: usize,
    },
    /// The trace has more distinct contents than a native trace can number.
    #[error(
        "with request {request} the trace would have more than 2^28 distinct contents, more than a native trace can \
         number: split the trace into parts"
    )]
    TooManyContents {
        /// Number of the request that brings the trace over the limit, from 1.
        request: u64,
    },
    /// The trace touches more distinct 4-KiB pages than 32-bit page numbers can address.
    #[error(
        "{trace} touches more than 2^32 - 1 distinct pages of 4 KiB, more than Wearwell can number: split it by time \
         or by device, and replay the parts"
    )]
    TooManyPages {
        /// Text that names the trace and, if another trace ages the drive before it, that trace, too.
        trace: String,
    },
}

/// Beginning of the advice in the error message about a line that cannot be parsed. The advice is removed from the
/// messages about lines that are skipped.
#[cfg(feature = "readers")]
const BAD_LINE_ADVICE_START: &str = "; correct the line, leave bad lines out";

/// Beginning of the advice in the error message about a record that cannot be parsed. The advice is removed from the
/// messages about records that are skipped.
#[cfg(feature = "readers")]
const BAD_RECORD_ADVICE_START: &str = "; get the file again from its source";

impl TraceError {
    /// Returns the number of requests read before the damage if this error is [`Self::TruncatedOrCorrupt`]; `None` for
    /// other errors.
    pub fn requests_before_damage(&self) -> Option<u64> {
        match self {
            Self::TruncatedOrCorrupt { requests, .. } => Some(*requests),
            _ => None,
        }
    }
}

/// Reason why the parser of a trace format refused one line or record. The reader adds the file name and the position
/// in the file.
#[cfg(feature = "readers")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ParseRefusal {
    /// Byte offset of the wrong text in its line.
    pub byte_offset: usize,
    /// Sentence on what the format requires at `byte_offset`.
    pub requirement: &'static str,
}

#[cfg(feature = "readers")]
impl ParseRefusal {
    /// Creates a refusal of a whole line or record; the reported position is its start.
    pub(crate) fn of_whole_record(requirement: &'static str) -> Self {
        Self { byte_offset: 0, requirement }
    }
}

/// Lines or records of a trace that were refused and skipped.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RejectedRecords {
    /// Number of refused lines or records of the trace.
    pub rejected_count: u64,
    /// Error messages of the first refused lines or records, at most [`Self::KEPT_ERROR_MESSAGES_MAX`].
    pub first_error_messages: Vec<String>,
}

impl RejectedRecords {
    /// Maximum number of error messages of refused lines that are kept; further refused lines are only counted.
    pub const KEPT_ERROR_MESSAGES_MAX: usize = 5;

    /// Counts a refused line or record, and keeps its error message (without advice) if it is one of the first.
    #[cfg(feature = "readers")]
    pub(crate) fn add_error(&mut self, error: &TraceError) {
        self.rejected_count += 1;
        if self.first_error_messages.len() < Self::KEPT_ERROR_MESSAGES_MAX {
            let message = error.to_string();
            let advice = [BAD_LINE_ADVICE_START, BAD_RECORD_ADVICE_START];
            let finding = advice.into_iter().find_map(|start| message.rsplit_once(start));
            self.first_error_messages.push(finding.map_or(&*message, |(finding, _)| finding).to_owned());
        }
    }
}

#[cfg(all(test, feature = "readers"))]
mod tests {
    use super::{RejectedRecords, TraceError};

    #[test]
    fn messages_about_skipped_lines_and_records_are_kept_without_advice() {
        let (file, found, requirement) = ("t".to_owned(), "x; y".to_owned(), "a line must be short");
        let line = TraceError::BadLine { file: file.clone(), line_number: 3, column: 1, found, requirement };
        let record = TraceError::BadRecord { file, record: 2, offset: 9, requirement };
        let mut rejected = RejectedRecords::default();
        rejected.add_error(&line);
        rejected.add_error(&record);
        assert_eq!(
            rejected.first_error_messages,
            [
                "t: line 3, column 1: found `x; y`, but a line must be short",
                "t: record 2 at byte 9 is refused: a line must be short"
            ]
        );
    }
}
