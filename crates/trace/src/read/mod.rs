//! Readers of whole traces, built from parsers of one line or one record.
//!
//! `TextReader` and `BinaryReader` contain what all formats share: positions for error messages, refused lines, the
//! time base and the limits. A format only parses one line or record. The time of the first request is subtracted from
//! all times. In unsorted traces a time before that of the first request becomes 0, because replay starts at time 0.

pub(crate) mod columns;
mod convert;
pub(crate) mod decompressed_stream;
pub(crate) mod fields;
mod footprint;
mod info;
pub(crate) mod open;
pub(crate) mod options;
mod page_group;
mod partial_copy;
mod recognise;
pub(crate) mod sidecar;

pub use columns::{CsvColumns, CsvColumnsError};
pub use convert::copy_trace;
pub use decompressed_stream::{Compression, LINE_MAX_BYTES};
use decompressed_stream::{DecompressedStream, LineResult};
pub use footprint::{Footprint, FootprintBuilder};
pub use info::{ContentInfo, CountsByOp, TraceInfo, file_sha256};
pub use open::{open, open_stream};
pub use options::{AssumedOp, BlockLayerStage, OpenOptions, TimeUnit};
pub use partial_copy::copy_first_requests;
pub use sidecar::sidecar_files_of;

use crate::error::{ParseRefusal, RejectedRecords, TraceError};
use crate::request::check_request_limits;
use crate::{Format, Request};

/// A reader that delivers the requests of a trace one by one.
pub trait TraceReader: Send {
    /// Reads the next request of the trace into `into`. Returns false at the end of the trace; `into` is then
    /// unspecified.
    ///
    /// # Errors
    /// [`TraceError::BadLine`] or [`TraceError::BadRecord`] for bad input (unless bad lines are skipped and counted),
    /// [`TraceError::TruncatedOrCorrupt`] when the file is damaged, [`TraceError::BadSidecar`] when a file next to a
    /// capture is damaged, [`TraceError::UnskippableLine`] when a bad line of a capture is to be skipped but the delta
    /// sizes of its pages cannot be found. After an error the reader must not be used further.
    fn next(&mut self, into: &mut Request) -> Result<bool, TraceError>;

    /// Returns the format of the trace that is read.
    fn format(&self) -> Format;

    /// Returns the number of requests that the reader has delivered so far.
    fn delivered_requests(&self) -> u64;

    /// Returns the lines or records of the trace that were refused and skipped so far.
    fn rejected_records(&self) -> &RejectedRecords;

    /// Returns the number of requests so far whose time in the file is earlier than that of the preceding request.
    /// Readers that deliver the times of the file unchanged return 0, because their caller can count these requests.
    fn unsorted_request_count(&self) -> u64 {
        0
    }

    /// Returns the number of requests at the start of the trace whose time in the file is earlier than that of the
    /// first request; their time is set to 0. Only requests before the first one with a time greater than 0 are
    /// counted: the caller cannot see from their times that they are out of order. Readers that deliver the times of
    /// the file unchanged return 0.
    fn requests_clamped_to_start_time(&self) -> u64 {
        0
    }

    /// Returns the number of bytes of the decompressed trace up to the end of the last delivered request, or of the
    /// frame of requests that contains it; `None` if the reader does not know it.
    fn consumed_bytes(&self) -> Option<u64> {
        None
    }

    /// Returns the text about the trace's origin that its file contains; `None` if the format stores none.
    fn provenance(&self) -> Option<&str> {
        None
    }
}

/// Result of parsing one line or record of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ParseOutcome {
    /// The line or record was a request, whose fields have been filled in. Its time is not yet relative to the first
    /// request.
    Request,
    /// The line or record was valid but no request: a header, or an event of another kind, which is skipped.
    NotARequest,
}

/// Parser of one line of a trace in a text format. The caller clears the request `into` before each line. The parser
/// sets the time of the request in nanoseconds since an arbitrary start, which the caller then makes relative to the
/// first request.
pub(crate) trait LineFormat: Send {
    /// Trace format whose lines this parser reads.
    const FORMAT: Format;
    /// Whether files of this trace format may begin with a line that names the columns.
    const MAY_HAVE_HEADER: bool = false;

    /// Parses one line, without its line end, into the request; lines that are no request are reported as such.
    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal>;

    /// Returns a sentence on a damaged file next to the trace if the last line was refused because of that file: the
    /// line itself may be right, and is never skipped.
    fn take_sidecar_damage(&mut self) -> Option<String> {
        None
    }

    /// Skips what the files next to the trace hold for the line, which was refused and is left out; `line` is `None` if
    /// the line is too long to be stored. The parser has taken nothing from these files for a line that was refused.
    fn skip_sidecar_entries(&mut self, _line: Option<&[u8]>) -> Result<(), SkipRefusal> {
        Ok(())
    }
}

/// Reason why a refused line of a trace cannot be left out: nothing shows how many entries of the file `sidecar` belong
/// to it.
pub(crate) struct SkipRefusal {
    /// Path of the file next to the trace whose entries cannot be skipped.
    pub sidecar: String,
    /// Sentence on why the line cannot be left out.
    pub reason: &'static str,
}

/// Parser of one record of a trace in a binary format.
pub(crate) trait RecordFormat: Send {
    /// Trace format whose records this parser reads.
    const FORMAT: Format;
    /// Length of the first part of a record that determines the length of the whole record, bytes; no record is
    /// shorter.
    const HEAD_BYTES: usize;

    /// Returns the length of the record that begins with `head`, bytes; it is at most 128 KiB. An error ends the trace,
    /// because the start of the next record is unknown.
    fn record_len(&mut self, head: &[u8]) -> Result<usize, ParseRefusal>;

    /// Parses one whole record into the request; records that are no request are reported as such.
    fn parse(&mut self, record: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal>;
}

/// State that every trace reader keeps about its file: delivered requests, refused lines, start time.
pub(crate) struct CommonReaderState {
    /// Name of the trace file, for error messages.
    pub file_name: String,
    /// Number of requests that the reader has delivered so far.
    pub delivered_requests: u64,
    /// Lines or records that were refused and skipped so far.
    pub rejected_records: RejectedRecords,
    /// Whether bad lines and records are counted and skipped, instead of ending the trace with an error.
    skips_bad_lines: bool,
    /// Time of the first request as stored in the file, nanoseconds; `None` before it is read.
    first_request_ns: Option<u64>,
    /// Time of the preceding request as stored in the file, nanoseconds; requests with an earlier time are counted as
    /// unsorted.
    previous_request_ns: u64,
    /// Number of requests whose time in the file is earlier than that of the preceding request.
    unsorted_requests: u64,
    /// Latest time of the requests delivered so far, nanoseconds since the first request.
    latest_delivered_request_ns: u64,
    /// Number of requests whose time in the file is earlier than that of the first request, and which came before the
    /// first request with a time greater than 0. Their time is set to 0.
    requests_clamped_to_start_time: u64,
}

impl CommonReaderState {
    pub(crate) fn new(file_name: String, skips_bad_lines: bool) -> Self {
        Self {
            file_name,
            delivered_requests: 0,
            rejected_records: RejectedRecords::default(),
            skips_bad_lines,
            first_request_ns: None,
            previous_request_ns: 0,
            unsorted_requests: 0,
            latest_delivered_request_ns: 0,
            requests_clamped_to_start_time: 0,
        }
    }

    /// Checks the limits of a parsed request, counts it, and makes its time relative to that of the trace's first
    /// request.
    #[inline]
    fn accept_request(&mut self, request: &mut Request) -> Result<(), ParseRefusal> {
        check_request_limits(request).map_err(ParseRefusal::of_whole_record)?;
        self.unsorted_requests += u64::from(request.time_ns < self.previous_request_ns);
        self.previous_request_ns = request.time_ns;
        let base = *self.first_request_ns.get_or_insert(request.time_ns);
        let is_moved_to_start = request.time_ns < base && self.latest_delivered_request_ns == 0;
        self.requests_clamped_to_start_time += u64::from(is_moved_to_start);
        request.time_ns = request.time_ns.saturating_sub(base);
        self.latest_delivered_request_ns = self.latest_delivered_request_ns.max(request.time_ns);
        self.delivered_requests += 1;
        Ok(())
    }

    /// Counts a bad line or record if the user lets them be skipped; otherwise returns the error, which ends the trace.
    pub(crate) fn count_rejected(&mut self, error: TraceError) -> Result<(), TraceError> {
        if !self.skips_bad_lines {
            return Err(error);
        }
        self.rejected_records.add_error(&error);
        Ok(())
    }

    /// Returns the error of a file that ends too early or is damaged.
    pub(crate) fn corrupt_error(&self, source: std::io::Error) -> TraceError {
        let file = self.file_name.clone();
        TraceError::TruncatedOrCorrupt { file, requests: self.delivered_requests, source }
    }
}

/// Returns whether the first line of a file, which does not parse as a request, is a header with column names: it has
/// letters but no digit, while a request has digits at least in its address.
pub(crate) fn is_header<F: LineFormat>(line: &[u8]) -> bool {
    F::MAY_HAVE_HEADER && line.iter().any(u8::is_ascii_alphabetic) && !line.iter().any(u8::is_ascii_digit)
}

/// Reader of a trace in a text format: one request per line.
pub(crate) struct TextReader<F> {
    /// Decompressed bytes of the trace file.
    source: DecompressedStream,
    /// Parser of the lines, in the format of the trace.
    format: F,
    /// Number of the line that was read last, from 1.
    line_number: u64,
    /// Counters that every trace reader keeps: requests, refused lines, start time.
    common_state: CommonReaderState,
}

impl<F: LineFormat> TextReader<F> {
    pub(crate) fn new(source: DecompressedStream, format: F, common_state: CommonReaderState) -> Self {
        Self { source, format, line_number: 0, common_state }
    }

    /// Returns the error about the last line, which cannot be left out.
    #[cold]
    fn error_of_unskippable_line(&self, refusal: SkipRefusal) -> TraceError {
        TraceError::UnskippableLine {
            file: self.common_state.file_name.clone(),
            line_number: self.line_number,
            delta_size_file: refusal.sidecar,
            reason: refusal.reason,
        }
    }

    /// Returns the error about the last line; `bad` is the refusal by its parser.
    #[cold]
    fn error_of_line(&self, line: &[u8], bad: ParseRefusal) -> TraceError {
        let (before, rest) = line.split_at(bad.byte_offset.min(line.len()));
        let found = String::from_utf8_lossy(&rest[..rest.len().min(160)]);
        TraceError::BadLine {
            file: self.common_state.file_name.clone(),
            line_number: self.line_number,
            column: String::from_utf8_lossy(before).chars().count() + 1,
            requirement: bad.requirement,
            found: quoted_line_part(&found, bad.byte_offset).chars().take(40).collect(),
        }
    }
}

/// Returns the part of a bad line, from the error on, that the error message quotes: one field if the error is in a
/// field, everything if the error concerns the whole line (`at` is 0).
fn quoted_line_part(rest: &str, at: usize) -> &str {
    let end = rest.find([',', ';', '\t', ' ']).filter(|_| at > 0);
    &rest[..end.unwrap_or(rest.len())]
}

impl<F: LineFormat> TraceReader for TextReader<F> {
    fn next(&mut self, into: &mut Request) -> Result<bool, TraceError> {
        loop {
            self.line_number += 1;
            let is_first = self.line_number == 1;
            let line = match self.source.next_line() {
                Ok(LineResult::Whole(range)) => self.source.bytes_of_line(range),
                Ok(LineResult::TooLong) => {
                    let error = self.error_of_line(
                        b"a longer one",
                        ParseRefusal::of_whole_record("a line must be shorter than 1 MiB"),
                    );
                    self.common_state.count_rejected(error)?;
                    let skipped = self.format.skip_sidecar_entries(None);
                    skipped.map_err(|refusal| self.error_of_unskippable_line(refusal))?;
                    continue;
                }
                Ok(LineResult::End) => return Ok(false),
                Err(error) => return Err(self.common_state.corrupt_error(error)),
            };
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.trim_ascii_start().is_empty() {
                continue;
            }
            into.clear_optional_fields();
            let parsed = self.format.parse(line, into);
            let accepted = match parsed {
                Ok(ParseOutcome::Request) => self.common_state.accept_request(into),
                Ok(ParseOutcome::NotARequest) => continue,
                Err(_) if is_first && is_header::<F>(line) => continue,
                Err(bad) => Err(bad),
            };
            match accepted {
                Ok(()) => return Ok(true),
                Err(bad) => {
                    if let Some(reason) = self.format.take_sidecar_damage() {
                        let (file, line_number) = (self.common_state.file_name.clone(), self.line_number);
                        return Err(TraceError::BadSidecar { file, line_number, reason });
                    }
                    let error = self.error_of_line(line, bad);
                    self.common_state.count_rejected(error)?;
                    let skipped = self.format.skip_sidecar_entries(Some(line));
                    skipped.map_err(|refusal| self.error_of_unskippable_line(refusal))?;
                }
            }
        }
    }

    fn format(&self) -> Format {
        F::FORMAT
    }

    fn delivered_requests(&self) -> u64 {
        self.common_state.delivered_requests
    }

    fn rejected_records(&self) -> &RejectedRecords {
        &self.common_state.rejected_records
    }

    fn unsorted_request_count(&self) -> u64 {
        self.common_state.unsorted_requests
    }

    fn requests_clamped_to_start_time(&self) -> u64 {
        self.common_state.requests_clamped_to_start_time
    }

    fn consumed_bytes(&self) -> Option<u64> {
        Some(self.source.offset_bytes())
    }
}

/// Reader of a trace in a binary format whose records contain their own length.
pub(crate) struct BinaryReader<F> {
    /// Decompressed bytes of the trace file.
    source: DecompressedStream,
    /// Parser of the records, in the format of the trace.
    format: F,
    /// Number of the record that was read last, from 1.
    record_number: u64,
    /// Counters that every trace reader keeps: requests, refused records, start time.
    common_state: CommonReaderState,
}

impl<F: RecordFormat> BinaryReader<F> {
    pub(crate) fn new(source: DecompressedStream, format: F, common_state: CommonReaderState) -> Self {
        Self { source, format, record_number: 0, common_state }
    }

    /// Returns the error about the current record; `bad` is the refusal by its parser.
    #[cold]
    fn error_of_record(&self, bad: ParseRefusal) -> TraceError {
        let file = self.common_state.file_name.clone();
        TraceError::BadRecord {
            file,
            record: self.record_number,
            offset: self.source.offset_bytes(),
            requirement: bad.requirement,
        }
    }

    /// Returns the error about a file that ends inside the current record.
    #[cold]
    fn error_of_truncated_record(&self) -> TraceError {
        let message = format!(
            "the end of the file cuts off record {} at byte {}",
            self.record_number,
            self.source.offset_bytes()
        );
        self.common_state.corrupt_error(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, message))
    }

    /// Returns the length of the next record of the trace and loads the record into the buffer; `None` at the end of
    /// the file.
    fn load_next_record(&mut self) -> Result<Option<usize>, TraceError> {
        self.record_number += 1;
        let head = self.source.peek(F::HEAD_BYTES).map_err(|error| self.common_state.corrupt_error(error))?;
        if head.is_empty() {
            return Ok(None);
        }
        if head.len() < F::HEAD_BYTES {
            return Err(self.error_of_truncated_record());
        }
        let len = self.format.record_len(head).map_err(|bad| self.error_of_record(bad))?;
        let available = self.source.peek(len).map_err(|error| self.common_state.corrupt_error(error))?.len();
        if available < len { Err(self.error_of_truncated_record()) } else { Ok(Some(len)) }
    }
}

impl<F: RecordFormat> TraceReader for BinaryReader<F> {
    fn next(&mut self, into: &mut Request) -> Result<bool, TraceError> {
        while let Some(len) = self.load_next_record()? {
            into.clear_optional_fields();
            let record = self.source.peek(len).map_err(|error| self.common_state.corrupt_error(error))?;
            let accepted = match self.format.parse(record, into) {
                Ok(ParseOutcome::Request) => self.common_state.accept_request(into).map(|()| true),
                Ok(ParseOutcome::NotARequest) => Ok(false),
                Err(bad) => Err(bad),
            };
            if let Err(bad) = accepted {
                let error = self.error_of_record(bad);
                self.common_state.count_rejected(error)?;
            }
            self.source.consume_bytes(len);
            if accepted == Ok(true) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn format(&self) -> Format {
        F::FORMAT
    }

    fn delivered_requests(&self) -> u64 {
        self.common_state.delivered_requests
    }

    fn rejected_records(&self) -> &RejectedRecords {
        &self.common_state.rejected_records
    }

    fn unsorted_request_count(&self) -> u64 {
        self.common_state.unsorted_requests
    }

    fn requests_clamped_to_start_time(&self) -> u64 {
        self.common_state.requests_clamped_to_start_time
    }

    fn consumed_bytes(&self) -> Option<u64> {
        Some(self.source.offset_bytes())
    }
}
