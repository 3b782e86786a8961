//! Recording: writes the operations that the engine executes as a trace.
//!
//! A recording holds exactly the calls that reached the engine, in their order and all in whole pages, so that a replay
//! through the same design on the same device does the same flash operations. Contents are recorded as fingerprints and
//! compressed sizes (native format). Designs that store deltas or compressed chunks need the bytes themselves to repeat
//! exactly what they did: for a file name that ends in `.ops` the recording is a capture, with the bytes of every
//! distinct page in a second file (`.pages`), which `replay --bytes` reads.
//!
//! If a file cannot be written, the recording ends there, and the device continues. What was recorded before can be
//! replayed: the files get whole records only, and the line of a capture is written after its pages.
//!
//! The price is a hash and a trial compression per page written, while no other request is executed. Times are those of
//! this machine.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use tracing::error;
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
    /// Path of the trace file, for messages.
    path: PathBuf,
    /// Writer of the trace file, for the format that the file name selects.
    trace_writer: RecordingWriter,
    /// Time at which the recording began; times in the trace count from it.
    recording_start: Instant,
    /// Request that is filled and written for each operation, so that its memory is reused.
    request_buffer: Request,
    /// Error message about the write that ended the recording early; `None` while the file can be written.
    write_failure_message: Option<String>,
}

impl std::fmt::Debug for OperationRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recorder of operations to {}", self.path.display())
    }
}

/// Writer of the trace file, in the format that the file name selects.
enum RecordingWriter {
    /// Writer of the native trace format, which has fingerprints of the pages.
    Native(Box<NativeRecordingWriter>),
    /// Writer of a capture, which has the bytes of the pages.
    Capture(CaptureWriter),
}

impl RecordingWriter {
    /// Appends an operation to the recording. `request_buffer` is the operation without the contents of a write, whose
    /// data is `written_bytes`.
    fn write(&mut self, request_buffer: &mut Request, written_bytes: &[u8]) -> Result<(), String> {
        match self {
            Self::Native(native) => {
                request_buffer.content.clear();
                let pages = written_bytes.chunks_exact(PAGE_BYTES as usize);
                request_buffer.content.extend(pages.map(descriptor_of_page));
                native.write(request_buffer)
            }
            Self::Capture(capture) => {
                capture.write(request_buffer, written_bytes).map_err(|error| error.to_string())
            }
        }
    }

    /// Writes all that is still in memory to the files.
    fn finish(&mut self) -> Result<(), String> {
        match self {
            Self::Native(native) => native.finish(),
            Self::Capture(capture) => capture.write_pending_lines().map_err(|error| error.to_string()),
        }
    }

    /// Returns the number of requests that the trace file holds. In the native format, those of frames that could not
    /// be written are included.
    fn held_request_count(&self) -> u64 {
        match self {
            Self::Native(native) => native.request_count,
            Self::Capture(capture) => capture.written_line_count,
        }
    }
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
        let create = |file: &Path| RecordFile::create(file).map_err(|error| failed(file, &error));
        let trace_writer = if is_capture(path) {
            let page_path = page_file_of_capture(path);
            let (operations, pages) = (create(path)?, create(&page_path)?);
            let writer = CaptureWriter::new(operations, pages).map_err(|error| failed(path, &error))?;
            RecordingWriter::Capture(writer)
        } else {
            let writer = NativeRecordingWriter::new(create(path)?, provenance)
                .map_err(|error| failed(path, &error))?;
            RecordingWriter::Native(Box::new(writer))
        };
        Ok(Self {
            path: path.to_owned(),
            trace_writer,
            recording_start: Instant::now(),
            request_buffer: Request::default(),
            write_failure_message: None,
        })
    }

    /// Appends an operation to the recording. If a file cannot be written, the recording ends before this operation:
    /// the failure is logged, and [`OperationRecorder::finish`] returns it.
    pub(crate) fn record(&mut self, op: Op, offset: u64, len: u64, more: OperationDetails<'_>) {
        if self.write_failure_message.is_some() {
            return;
        }
        let request = &mut self.request_buffer;
        request.time_ns = self.recording_start.elapsed().as_nanos() as u64;
        (request.op, request.offset_bytes, request.len_bytes) = (op, offset, len);
        request.remap_source_offset_bytes = more.source_offset_bytes;
        if let Err(reason) = self.trace_writer.write(request, more.written_bytes) {
            error!(
                "the recording {} (--record) has ended, because it cannot go on: {reason}; the device is served on: \
                 remove the cause, and start the server again to record again",
                self.path.display()
            );
            self.write_failure_message = Some(reason);
        }
    }

    /// Returns why the recording has ended before the device; `None` while it goes on.
    pub(crate) fn write_failure_message(&self) -> Option<&str> {
        self.write_failure_message.as_deref()
    }

    /// Completes the trace file and returns the number of requests in it.
    ///
    /// # Errors
    /// [`DeviceError::Failed`] if a file could not be written, now or before. The recording then holds only the
    /// requests before the failure. If a part of them is still in memory and cannot be written now, it lacks these too.
    pub fn finish(mut self) -> Result<u64, DeviceError> {
        let ended = self.trace_writer.finish();
        let held_requests = self.trace_writer.held_request_count();
        let finished = self.write_failure_message.take().map_or(ended, Err);
        finished.map(|()| held_requests).map_err(|reason| {
            DeviceError::Failed(format!(
                "the recording {} (--record) is incomplete, because it could not go on: {reason}; it ends after request \
                 {held_requests} or earlier: remove the cause, and record again to have all requests",
                self.path.display()
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

/// File of a recording, to which whole records are appended. A record that could only be written in part is cut off
/// again.
struct RecordFile {
    /// The file, positioned at its end.
    file: File,
    /// Length of the whole records in the file, bytes.
    len_bytes: u64,
}

impl RecordFile {
    /// Creates an empty file, or empties it if it exists.
    fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::create(path)?, len_bytes: 0 })
    }

    /// Appends all of `bytes`, or nothing if that fails.
    fn append_all_or_nothing(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.append(bytes, |_| 0).1
    }

    /// Appends `bytes`. If the operating system accepts only a part of them, the beginning of the part that consists of
    /// whole records stays, whose length `whole_record_bytes` returns. Returns the number of bytes that were appended,
    /// and whether they are all.
    fn append(&mut self, bytes: &[u8], whole_record_bytes: fn(&[u8]) -> usize) -> (usize, io::Result<()>) {
        let written = self.file.write_all(bytes);
        let mut appended_bytes = bytes.len();
        if written.is_err() {
            let end = self.file.stream_position().unwrap_or(self.len_bytes);
            let accepted_bytes = end.saturating_sub(self.len_bytes) as usize;
            appended_bytes = whole_record_bytes(&bytes[..accepted_bytes.min(bytes.len())]);
            // If the file cannot be cut, its readers report the incomplete record.
            let end = self.len_bytes + appended_bytes as u64;
            let _ = self.file.set_len(end).and_then(|()| self.file.seek(SeekFrom::Start(end)));
        }
        self.len_bytes += appended_bytes as u64;
        (appended_bytes, written)
    }
}

/// Writer of a recording in the native format. Frames of the format (groups of requests) are made in memory and
/// appended to the file as a whole. Frames that could not be appended are kept for the next attempt, so that the file
/// never ends within a frame.
struct NativeRecordingWriter {
    /// Writer of the format. Its output are the frames that are not in the file yet.
    writer: NativeWriter<Vec<u8>>,
    /// The trace file.
    trace_file: RecordFile,
    /// Number of requests in the frames, those in memory included.
    request_count: u64,
}

impl NativeRecordingWriter {
    /// Begins the trace file with the header of the format.
    fn new(trace_file: RecordFile, provenance: &str) -> Result<Self, String> {
        let writer = NativeWriter::new(Vec::new(), provenance).map_err(|error| error.to_string())?;
        let mut native = Self { writer, trace_file, request_count: 0 };
        native.write_pending_frames()?;
        Ok(native)
    }

    /// Adds a request to the present frame, and appends the frame to the file if it is complete.
    fn write(&mut self, request: &Request) -> Result<(), String> {
        self.writer.write(request).map_err(|error| error.to_string())?;
        self.request_count += 1;
        self.write_pending_frames()
    }

    /// Appends the last frame and the end record of the format to the file.
    fn finish(&mut self) -> Result<(), String> {
        self.writer.finish().map_err(|error| error.to_string())?;
        self.write_pending_frames()
    }

    /// Appends the frames that are not in the file yet to the file.
    fn write_pending_frames(&mut self) -> Result<(), String> {
        let pending = self.writer.output_mut();
        if !pending.is_empty() {
            self.trace_file.append_all_or_nothing(pending).map_err(|error| error.to_string())?;
            pending.clear();
        }
        Ok(())
    }
}

/// Writer of a capture: a text file of operations (`.ops`), and a file with the bytes of each distinct page (`.pages`).
/// The operations refer to pages by number: the position of the page in the second file. A line of the first file is
/// written after its pages, so that every line in the file can be replayed.
struct CaptureWriter {
    /// Text file of the recorded requests of clients (`.ops`).
    operation_file: RecordFile,
    /// The file with the bytes of each distinct page (`.pages`).
    page_file: RecordFile,
    /// Lines of requests that are not in the file of operations yet. Their pages are stored.
    pending_lines: String,
    /// Number of requests in the file of operations.
    written_line_count: u64,
    /// Number of each page in the file of pages, by the digest of its content.
    page_numbers_by_digest: HashMap<[u8; 16], u32>,
}

impl CaptureWriter {
    /// Begins the two files of a capture: writes the first line of the file of operations, and page number 0, the page
    /// of zeros.
    fn new(mut operation_file: RecordFile, mut page_file: RecordFile) -> io::Result<Self> {
        operation_file.append_all_or_nothing(b"# blkcap v1 page=4096 bytes in .pages\n")?;
        // Page number 0 is the page of zeros.
        page_file.append_all_or_nothing(&[0; PAGE_BYTES as usize])?;
        Ok(Self {
            operation_file,
            page_file,
            pending_lines: String::new(),
            written_line_count: 0,
            page_numbers_by_digest: HashMap::new(),
        })
    }

    /// Appends an operation to the capture. For a write, also appends the pages that are not stored yet. After an
    /// error, no operation may be appended any more.
    fn write(&mut self, request: &Request, written_bytes: &[u8]) -> io::Result<()> {
        /// Length of the pending lines from which on they are written to the file, bytes.
        const PENDING_LINES_MAX_BYTES: usize = 1 << 15;
        let added = self.add_line(request, written_bytes);
        if added.is_ok() && self.pending_lines.len() < PENDING_LINES_MAX_BYTES {
            return Ok(());
        }
        added.and(self.write_pending_lines())
    }

    /// Stores the new pages of a request, and adds the line of the request to the pending lines.
    fn add_line(&mut self, request: &Request, written_bytes: &[u8]) -> io::Result<()> {
        let letter = match request.op {
            Op::Read => 'R',
            Op::Write => 'W',
            Op::Trim => 'D',
            Op::Zero => 'Z',
            Op::Flush => 'F',
            Op::Remap(_) | Op::PhaseMarker => {
                return Err(io::Error::other(
                    "a capture with bytes (a .ops file) cannot hold a remap: use a .wwt file",
                ));
            }
        };
        let page_numbers = self.store_new_pages(written_bytes)?;
        let line = &mut self.pending_lines;
        // Writes to a string do not fail.
        let _ = write!(line, "{letter} {}", request.time_ns / 1000);
        if request.op != Op::Flush {
            let _ = write!(line, " {} {}", request.offset_bytes / PAGE_BYTES, request.len_bytes / PAGE_BYTES);
        }
        for number in page_numbers {
            let _ = write!(line, " {number}");
        }
        line.push('\n');
        Ok(())
    }

    /// Returns the number of each page of a write in the file of pages. Pages that the file does not contain yet are
    /// appended to it.
    fn store_new_pages(&mut self, written_bytes: &[u8]) -> io::Result<Vec<u32>> {
        let mut new_pages = Vec::new();
        let number_of = |page: &[u8]| {
            if fingerprint_of(page) == Fingerprint::ZERO_PAGE {
                return 0;
            }
            let next = self.page_numbers_by_digest.len() as u32 + 1;
            let number = *self.page_numbers_by_digest.entry(page_digest(page)).or_insert(next);
            if number == next {
                new_pages.extend_from_slice(page);
            }
            number
        };
        let numbers = written_bytes.chunks_exact(PAGE_BYTES as usize).map(number_of).collect();
        self.page_file.append_all_or_nothing(&new_pages)?;
        Ok(numbers)
    }

    /// Writes the pending lines to the file of operations: after an error, as many whole lines as the file has room
    /// for.
    fn write_pending_lines(&mut self) -> io::Result<()> {
        let whole_line_bytes =
            |part: &[u8]| part.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let (bytes, written) = self.operation_file.append(self.pending_lines.as_bytes(), whole_line_bytes);
        self.written_line_count +=
            self.pending_lines.drain(..bytes).filter(|&letter| letter == '\n').count() as u64;
        written
    }
}

/// Returns a digest of 128 bits that identifies the content of a page. It consists of the 64-bit fingerprint of the
/// page, and the fingerprint of the byte 1 followed by the page.
fn page_digest(page: &[u8]) -> [u8; 16] {
    let marked: Vec<u8> = [&[1], page].concat();
    let halves = [fingerprint_of(page).0, fingerprint_of(&marked).0].map(u64::to_le_bytes);
    halves.concat().try_into().expect("two words of eight bytes")
}

#[cfg(test)]
mod tests {
    use wearwell_trace::{OpenOptions, open};

    use super::*;

    /// Number of requests that are recorded before a file can no longer be written.
    const REQUESTS_BEFORE_FAILURE: u64 = 3;

    /// Records the write of a page that no other number has.
    fn record_write(recorder: &mut OperationRecorder, number: u64) {
        let page: Vec<u8> = number.to_le_bytes().repeat(PAGE_BYTES as usize / 8);
        let details = OperationDetails { source_offset_bytes: 0, written_bytes: &page };
        recorder.record(Op::Write, number * PAGE_BYTES, PAGE_BYTES, details);
    }

    /// Returns the file of the recording that holds the contents of pages.
    fn content_file(recorder: &mut OperationRecorder) -> &mut RecordFile {
        match &mut recorder.trace_writer {
            RecordingWriter::Native(native) => &mut native.trace_file,
            RecordingWriter::Capture(capture) => &mut capture.page_file,
        }
    }

    /// Returns the number of requests that a reader finds in a recording.
    fn number_of_readable_requests(path: &Path) -> u64 {
        let options = OpenOptions { reads_payloads: is_capture(path), ..OpenOptions::default() };
        let mut reader = open(path, &options).expect("the recording is a trace");
        let mut request = Request::default();
        while reader.next(&mut request).expect("all of the recording can be read") {}
        reader.delivered_requests()
    }

    /// Bug: the beginning of the line of a write was in the file although its pages could not be stored, so that the
    /// whole capture could not be replayed. A trace in the native format ended within a frame.
    #[test]
    fn a_recording_that_failed_holds_whole_requests_only() {
        for name in ["run.ops", "run.wwt"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            let mut recorder = OperationRecorder::create(&path, "").unwrap();
            for number in 1..=REQUESTS_BEFORE_FAILURE {
                record_write(&mut recorder, number);
            }
            // A handle that cannot be written to.
            let unwritable = File::open(&path).unwrap();
            let writable = std::mem::replace(&mut content_file(&mut recorder).file, unwritable);
            let mut number = REQUESTS_BEFORE_FAILURE;
            while recorder.write_failure_message().is_none() {
                number += 1;
                record_write(&mut recorder, number);
            }
            record_write(&mut recorder, number + 1);
            content_file(&mut recorder).file = writable;
            let refused = recorder.finish().unwrap_err().to_string();
            // In the native format, the last request is in the frame that could not be written at first.
            let held = if is_capture(&path) { number - 1 } else { number };
            assert!(
                refused.contains(name) && refused.contains(&format!("after request {held} or")),
                "{refused}"
            );
            assert_eq!(number_of_readable_requests(&path), held, "{name}");
        }
    }
}
