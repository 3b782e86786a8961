//! Opens a trace file as a reader: compression is found by magic number, the format by content, the rest by options.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::recognise::candidate_formats;
use crate::formats::alibaba::Alibaba;
use crate::formats::blkparse::Blkparse;
use crate::formats::blktrace::Blktrace;
use crate::formats::capture::Capture;
use crate::formats::csv::Csv;
use crate::formats::disksim::DiskSim;
use crate::formats::fio::FioLog;
use crate::formats::fiu::Fiu;
use crate::formats::mqsim::MqSim;
use crate::formats::msr::Msr;
use crate::formats::nbd::Nbd;
use crate::formats::oracle_general::OracleGeneral;
use crate::formats::spc::Spc;
use crate::formats::systor::Systor;
use crate::formats::tencent::Tencent;
use crate::formats::vscsi::Vscsi;
use crate::formats::wiscsee::Wiscsee;
use crate::native::NativeReader;
use crate::read::decompressed_stream::{DecompressedStream, decompress_stream};
use crate::read::options::{BlockLayerStage, OpenOptions};
use crate::read::sidecar::CaptureSidecars;
use crate::read::{BinaryReader, CommonReaderState, TextReader};
use crate::{Format, TraceError, TraceReader};

/// Number of bytes at the start of a trace file by which its format is detected.
const FORMAT_DETECTION_BYTES: usize = 64 << 10;

/// Opens a trace file for reading.
///
/// # Errors
/// [`TraceError::CannotOpen`] if it cannot be read, [`TraceError::UnknownFormat`] or [`TraceError::AmbiguousFormat`] if
/// the format cannot be detected, [`TraceError::Utf16`] if the format is text and the file is in UTF-16,
/// [`TraceError::TruncatedOrCorrupt`] if its first bytes are damaged, [`TraceError::NeedsOption`] if the format needs
/// an option that is not set, [`TraceError::UnusedOption`] if an option is set that has no meaning for the format.
pub fn open(path: &Path, options: &OpenOptions) -> Result<Box<dyn TraceReader>, TraceError> {
    let open_error = |source| TraceError::CannotOpen { file: options.trace_name_of(path), source };
    if path.is_dir() {
        let message = "the path is a directory: name a trace file in it (of a capture, the .ops file)";
        return Err(open_error(std::io::Error::new(std::io::ErrorKind::IsADirectory, message)));
    }
    let file = File::open(path).map_err(open_error)?;
    let sidecars = || CaptureSidecars::open_beside_capture(path, options).map_err(open_error);
    open_with_sidecars(file, options.trace_name_of(path), options, sidecars)
}

/// Opens a trace from a stream; `name` is used in error messages. If the trace is a capture, the files that belong to
/// it (sizes and bytes of its pages) are not read.
///
/// # Errors
/// As [`open()`].
pub fn open_stream(
    trace_stream: impl Read + Send + 'static,
    name: &str,
    options: &OpenOptions,
) -> Result<Box<dyn TraceReader>, TraceError> {
    open_with_sidecars(trace_stream, name.to_owned(), options, || Ok(CaptureSidecars::default()))
}

/// Opens a trace from a stream, perhaps compressed. `file` is its name, and `sidecars` opens the files next to it if it
/// is a capture.
fn open_with_sidecars(
    raw: impl Read + Send + 'static,
    file: String,
    options: &OpenOptions,
    sidecars: impl FnOnce() -> Result<CaptureSidecars, TraceError>,
) -> Result<Box<dyn TraceReader>, TraceError> {
    let open_error = |source| TraceError::CannotOpen { file: file.clone(), source };
    let source = DecompressedStream::new(decompress_stream(raw).map_err(open_error)?);
    open_decompressed_trace(source, file, options, sidecars)
}

/// Opens a trace whose decompressed bytes `source` delivers. `file` is its name, and `sidecars` opens the files next to
/// it if it is a capture.
pub(crate) fn open_decompressed_trace(
    mut source: DecompressedStream,
    file: String,
    options: &OpenOptions,
    sidecars: impl FnOnce() -> Result<CaptureSidecars, TraceError>,
) -> Result<Box<dyn TraceReader>, TraceError> {
    if options.format.is_none_or(is_text) {
        skip_utf_8_mark(&mut source, &file)?;
    }
    let format = match options.format {
        Some(format) => format,
        None if options.columns.is_some() => Format::Columns,
        None => detect_format(&mut source, &file, options)?,
    };
    if let Some(option) = unused_option(format, options) {
        return Err(TraceError::UnusedOption { file, format, option });
    }
    if is_text(format) && begins_as_utf_16(&mut source, &file)? {
        return Err(TraceError::Utf16 { file });
    }
    let tally = CommonReaderState::new(file, options.skips_bad_lines);
    if format == Format::Capture {
        return Ok(Box::new(TextReader::new(source, Capture::new(sidecars()?), tally)));
    }
    make_reader(format, source, tally, options)
}

/// Returns the description of an option that is set but has no meaning for this trace format; `None` if there is none.
fn unused_option(format: Format, options: &OpenOptions) -> Option<&'static str> {
    let unused = [
        (
            "--action (the stage of requests)",
            options.block_layer_stage != BlockLayerStage::default() && !format.records_stages(),
        ),
        ("--time-unit (the unit of times)", options.time_unit.is_some() && format != Format::MqSim),
        ("--assume (reads or writes)", options.assumed_op.is_some() && format != Format::OracleGeneral),
        ("--bytes (replaying page bytes)", options.reads_payloads && format != Format::Capture),
        (
            "--without-sidecars (the files of sizes beside it may be missing)",
            options.allows_absent_page_size_files && format != Format::Capture,
        ),
        ("--columns (the columns of a CSV)", options.columns.is_some() && format != Format::Columns),
    ];
    unused.into_iter().find(|&(_, is_unused)| is_unused).map(|(option, _)| option)
}

/// Detects the format of a trace from its first bytes; an error if no format or several formats fit.
fn detect_format(
    source: &mut DecompressedStream,
    file: &str,
    options: &OpenOptions,
) -> Result<Format, TraceError> {
    let (head, complete) =
        source.peek_up_to_damage(FORMAT_DETECTION_BYTES).map_err(|error| first_read_error(file, error))?;
    let candidates = candidate_formats(head, complete, options);
    let has_whole_line = memchr::memchr(b'\n', head).is_some();
    let error = match candidates[..] {
        [format] => return Ok(format),
        [] if head.is_empty() => TraceError::Empty { file: file.to_owned() },
        [] if has_utf_16_mark(head) => TraceError::Utf16 { file: file.to_owned() },
        [] => {
            let first_bytes = head[..head.len().min(40)].escape_ascii().to_string();
            TraceError::UnknownFormat { file: file.to_owned(), first_bytes }
        }
        _ => TraceError::AmbiguousFormat { file: file.to_owned(), candidates },
    };
    // Before the end of its first line, damage hides the format of a text.
    match source.take_postponed_error() {
        Some(damage) if !has_whole_line => Err(first_read_error(file, damage)),
        _ => Err(error),
    }
}

/// Byte order mark with which some programs begin text in UTF-8.
const UTF_8_MARK: &[u8] = b"\xef\xbb\xbf";

/// Consumes the byte order mark of UTF-8 if the stream begins with it: it is not a part of the first line.
fn skip_utf_8_mark(source: &mut DecompressedStream, file: &str) -> Result<(), TraceError> {
    let (head, _) =
        source.peek_up_to_damage(UTF_8_MARK.len()).map_err(|error| first_read_error(file, error))?;
    if head == UTF_8_MARK {
        source.consume_bytes(UTF_8_MARK.len());
    }
    Ok(())
}

/// Byte order marks with which text in UTF-16 begins: little-endian and big-endian.
const UTF_16_MARKS: [&[u8]; 2] = [&[0xff, 0xfe], &[0xfe, 0xff]];

/// Returns whether traces of this format are read line by line.
fn is_text(format: Format) -> bool {
    let is_binary = matches!(
        format,
        Format::Native | Format::Blktrace | Format::Vscsi | Format::OracleGeneral | Format::Nbd
    );
    !is_binary
}

/// Returns whether a file begins with the byte order mark of UTF-16.
fn has_utf_16_mark(head: &[u8]) -> bool {
    UTF_16_MARKS.iter().any(|mark| head.starts_with(mark))
}

/// Returns whether the stream begins with the byte order mark of UTF-16, without consuming it.
fn begins_as_utf_16(source: &mut DecompressedStream, file: &str) -> Result<bool, TraceError> {
    let (head, _) = source.peek_up_to_damage(2).map_err(|error| first_read_error(file, error))?;
    Ok(has_utf_16_mark(head))
}

/// Returns the error about a file whose first bytes cannot be read. If the operating system reported the error (it then
/// has a number), the file cannot be opened; otherwise the decompressor reported it, and the file is damaged.
fn first_read_error(file: &str, source: std::io::Error) -> TraceError {
    let file = file.to_owned();
    if source.raw_os_error().is_some() {
        return TraceError::CannotOpen { file, source };
    }
    TraceError::TruncatedOrCorrupt { file, requests: 0, source }
}

/// Creates the reader for a trace of this format. A capture is read without the files next to it.
fn make_reader(
    format: Format,
    source: DecompressedStream,
    tally: CommonReaderState,
    options: &OpenOptions,
) -> Result<Box<dyn TraceReader>, TraceError> {
    let block_layer_stage = options.block_layer_stage;
    Ok(match format {
        Format::Native => Box::new(NativeReader::new(source, tally)?),
        Format::Csv => Box::new(TextReader::new(source, Csv::default(), tally)),
        Format::Columns => {
            let columns = options.columns.clone().ok_or_else(|| TraceError::NeedsOption {
                file: tally.file_name.clone(),
                format,
                reason: "its columns may be in any order, so name them with --columns, such as \
                         t=1,op=2,offset=3,length=4,unit=us",
            })?;
            Box::new(TextReader::new(source, columns, tally))
        }
        Format::Capture => Box::new(TextReader::new(source, Capture::default(), tally)),
        Format::Fiu => Box::new(TextReader::new(source, Fiu::default(), tally)),
        Format::Blkparse => Box::new(TextReader::new(source, Blkparse::new(block_layer_stage), tally)),
        Format::Blktrace => Box::new(BinaryReader::new(source, Blktrace::new(block_layer_stage), tally)),
        Format::Msr => Box::new(TextReader::new(source, Msr, tally)),
        Format::Spc => Box::new(TextReader::new(source, Spc, tally)),
        Format::DiskSim => Box::new(TextReader::new(source, DiskSim, tally)),
        Format::MqSim => {
            let unit = options.time_unit.unwrap_or_default();
            Box::new(TextReader::new(source, MqSim { time_unit: unit }, tally))
        }
        Format::Fio => Box::new(TextReader::new(source, FioLog::default(), tally)),
        Format::Vscsi => Box::new(BinaryReader::new(source, Vscsi::default(), tally)),
        Format::OracleGeneral => {
            let assumed_op = options.assumed_op.ok_or_else(|| TraceError::NeedsOption {
                file: tally.file_name.clone(),
                format,
                reason: "it records no operations, so state with --assume whether its requests are reads or writes",
            })?;
            Box::new(BinaryReader::new(source, OracleGeneral { assumed_op }, tally))
        }
        Format::Alibaba => Box::new(TextReader::new(source, Alibaba, tally)),
        Format::Tencent => Box::new(TextReader::new(source, Tencent, tally)),
        Format::Wiscsee => Box::new(TextReader::new(source, Wiscsee { block_layer_stage }, tally)),
        Format::Nbd => Box::new(BinaryReader::new(source, Nbd, tally)),
        Format::Systor => Box::new(TextReader::new(source, Systor::default(), tally)),
    })
}
