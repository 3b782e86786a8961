//! Recording: writes the operations that the engine executes as a trace.
//!
//! A recording holds exactly the calls that reached the engine, in their order and all in whole pages, so that a replay
//! through the same design on the same device does the same flash operations. Contents are recorded as fingerprints and
//! compressed sizes (native format). Designs that store deltas or compressed chunks need the bytes themselves to repeat
//! exactly what they did: for a file name that ends in `.ops` the recording is a capture, with the bytes of every
//! distinct page in a second file (`.pages`), which `replay --bytes` reads.
//!
//! The price is a hash and a trial compression per page written, while no other request is executed. Times are those of
//! this machine.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use wearwell::data::{ContentDescriptor, Fingerprint, compressed_len, fingerprint_of};
use wearwell_trace::{NativeWriter, Op, PAGE_BYTES, Request, TraceWriter};

use crate::device_error::DeviceError;

/// Details of a recorded operation besides its range of target bytes: the source of a remap, or the data of a write.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OperationDetails<'a> {
    /// Offset of the source range of a remap, bytes; 0 for other operations.
    pub(crate) source_offset_bytes: u64,
    /// Data of a write, in whole pages; empty for other operations.
    pub(crate) written_bytes: &'a [u8],
}

/// Recorder that writes the operations of a device to a trace file.
pub struct OperationRecorder {
    /// Writer of the trace file, for the format that the file name selects.
    trace_writer: RecordingWriter,
    /// Time at which the recording began; times in the trace count from it.
    recording_start: Instant,
    /// Request that is filled and written for each operation, so that its memory is reused.
    request_buffer: Request,
    /// Number of requests recorded so far.
    request_count: u64,
    /// Error message about the write that ended the recording early; `None` while the file can be written.
    write_failure_message: Option<String>,
}

impl std::fmt::Debug for OperationRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recorder of {} requests", self.request_count)
    }
}

/// Writer of the trace file, in the format that the file name selects.
enum RecordingWriter {
    /// Writer of the native trace format, which has fingerprints of the pages.
    Native(Box<NativeWriter<BufWriter<File>>>),
    /// Writer of a capture, which has the bytes of the pages.
    Capture(CaptureWriter),
}

/// Returns the files that a recording to `path` creates, and truncates if they exist: `path`, and for a capture
/// (`NAME.ops`) the file with the bytes of its pages (`NAME.pages`).
pub fn files_of_recording(path: &Path) -> Vec<PathBuf> {
    let page_file = is_capture(path).then(|| page_file_of_capture(path));
    std::iter::once(path.to_owned()).chain(page_file).collect()
}

/// Whether a recording to `path` is a capture, which holds the bytes of pages: its name ends in `.ops`.
fn is_capture(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "ops")
}

/// Returns the path of the second file of a capture, which holds the bytes of pages.
fn page_file_of_capture(path: &Path) -> PathBuf {
    path.with_extension("pages")
}

impl OperationRecorder {
    /// Begins a recording in a new file. If its name ends in `.ops`, the recording is a capture with the bytes of
    /// pages, else a trace in the native format.
    ///
    /// # Errors
    /// [`DeviceError::Failed`] with the file and the reason.
    pub fn create(path: &Path, provenance: &str) -> Result<Self, DeviceError> {
        let failed = |file: &Path, error: &dyn std::fmt::Display| {
            DeviceError::Failed(format!(
                "cannot record to {} (--record): {error}; name a file in a folder in which this user may create \
                 files, on a disk with free space",
                file.display()
            ))
        };
        let create = |file: &Path| match File::create(file) {
            Ok(created) => Ok(BufWriter::new(created)),
            Err(error) => Err(failed(file, &error)),
        };
        let form = if is_capture(path) {
            let page_path = page_file_of_capture(path);
            let (operations, pages) = (create(path)?, create(&page_path)?);
            let writer = CaptureWriter::new(operations, pages).map_err(|error| failed(path, &error))?;
            RecordingWriter::Capture(writer)
        } else {
            let writer =
                NativeWriter::new(create(path)?, provenance).map_err(|error| failed(path, &error))?;
            RecordingWriter::Native(Box::new(writer))
        };
        Ok(Self {
            trace_writer: form,
            recording_start: Instant::now(),
            request_buffer: Request::default(),
            request_count: 0,
            write_failure_message: None,
        })
    }

    /// Appends an operation to the recording. If the file cannot be written, the recording ends with this operation,
    /// and [`OperationRecorder::finish`] returns the error.
    pub(crate) fn record(&mut self, op: Op, offset: u64, len: u64, more: OperationDetails<'_>) {
        if self.write_failure_message.is_some() {
            return;
        }
        let request = &mut self.request_buffer;
        request.time_ns = self.recording_start.elapsed().as_nanos() as u64;
        (request.op, request.offset_bytes, request.len_bytes) = (op, offset, len);
        request.remap_source_offset_bytes = more.source_offset_bytes;
        let written = match &mut self.trace_writer {
            RecordingWriter::Native(writer) => {
                request.content.clear();
                request
                    .content
                    .extend(more.written_bytes.chunks_exact(PAGE_BYTES as usize).map(descriptor_of_page));
                writer.write(request).map_err(|error| error.to_string())
            }
            RecordingWriter::Capture(capture) => {
                capture.write(request, more.written_bytes).map_err(|error| error.to_string())
            }
        };
        self.request_count += 1;
        self.write_failure_message = written.err();
    }

    /// Completes the trace file and returns the number of requests in it.
    ///
    /// # Errors
    /// [`DeviceError::Failed`] if the file could not be written, now or before. The recording then ends before the
    /// request whose write failed, and the requests before it can be read as far as they reached the file.
    pub fn finish(mut self) -> Result<u64, DeviceError> {
        let ended = match &mut self.trace_writer {
            RecordingWriter::Native(writer) => writer.finish().map_err(|error| error.to_string()),
            RecordingWriter::Capture(capture) => {
                capture.finish().map(|()| self.request_count).map_err(|error| error.to_string())
            }
        };
        let finished = self.write_failure_message.take().map_or(ended, Err);
        finished.map_err(|reason| {
            DeviceError::Failed(format!(
                "the recording (--record) is incomplete, because it ends at request {}: {reason}; remove the cause, \
                 and record again to have all requests",
                self.request_count
            ))
        })
    }
}

/// Returns the content descriptor of a page, as the trace stores it: fingerprint and compressed size.
fn descriptor_of_page(page: &[u8]) -> ContentDescriptor {
    ContentDescriptor {
        compressed_bytes: compressed_len(page) as u16,
        ..ContentDescriptor::of_fingerprint(fingerprint_of(page))
    }
}

/// Writer of a capture: a text file of operations (`.ops`), and a file with the bytes of each distinct page (`.pages`).
/// The operations refer to pages by number: the position of the page in the second file.
struct CaptureWriter {
    /// Text file of the recorded requests of clients (`.ops`).
    operation_file: BufWriter<File>,
    /// The file with the bytes of each distinct page (`.pages`).
    page_file: BufWriter<File>,
    /// Number of each page in the file of pages, by the digest of its content.
    page_numbers_by_digest: HashMap<[u8; 16], u32>,
}

impl CaptureWriter {
    /// Begins the two files of a capture: writes the first line of the file of operations, and page number 0, the page
    /// of zeros.
    fn new(mut ops: BufWriter<File>, mut pages: BufWriter<File>) -> io::Result<Self> {
        ops.write_all(b"# blkcap v1 page=4096 bytes in .pages\n")?;
        // Page number 0 is the page of zeros.
        pages.write_all(&[0; PAGE_BYTES as usize])?;
        Ok(Self { operation_file: ops, page_file: pages, page_numbers_by_digest: HashMap::new() })
    }

    /// Appends an operation to the capture. For a write, also appends the pages that are not stored yet.
    fn write(&mut self, request: &Request, bytes: &[u8]) -> io::Result<()> {
        let letter = match request.op {
            Op::Read => 'R',
            Op::Write => 'W',
            Op::Trim => 'D',
            Op::Zero => 'Z',
            Op::Flush => return writeln!(self.operation_file, "F {}", request.time_ns / 1000),
            Op::Remap(_) | Op::PhaseMarker => {
                return Err(io::Error::other(
                    "a capture with bytes (a .ops file) cannot hold a remap: use a .wwt file",
                ));
            }
        };
        let (first, pages) = (request.offset_bytes / PAGE_BYTES, request.len_bytes / PAGE_BYTES);
        write!(self.operation_file, "{letter} {} {first} {pages}", request.time_ns / 1000)?;
        for page in bytes.chunks_exact(PAGE_BYTES as usize) {
            let number = self.store_page_once(page)?;
            write!(self.operation_file, " {number}")?;
        }
        writeln!(self.operation_file)
    }

    /// Returns the number of a page in the file of pages. The page is appended to the file if the file does not contain
    /// it yet.
    fn store_page_once(&mut self, page: &[u8]) -> io::Result<u32> {
        if fingerprint_of(page) == Fingerprint::ZERO_PAGE {
            return Ok(0);
        }
        let next = self.page_numbers_by_digest.len() as u32 + 1;
        let number = *self.page_numbers_by_digest.entry(page_digest(page)).or_insert(next);
        if number == next {
            self.page_file.write_all(page)?;
        }
        Ok(number)
    }

    /// Writes all buffered bytes to the two files.
    fn finish(&mut self) -> io::Result<()> {
        self.operation_file.flush()?;
        self.page_file.flush()
    }
}

/// Returns a digest of 128 bits that identifies the content of a page. It consists of the 64-bit fingerprint of the
/// page, and the fingerprint of the byte 1 followed by the page.
fn page_digest(page: &[u8]) -> [u8; 16] {
    let marked: Vec<u8> = [&[1], page].concat();
    let halves = [fingerprint_of(page).0, fingerprint_of(&marked).0].map(u64::to_le_bytes);
    halves.concat().try_into().expect("two words of eight bytes")
}
