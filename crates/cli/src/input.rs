//! Traces as the user names them: files, pipes and standard input.
//!
//! A trace is read more than once: to find the pages that it touches, for its checksum, and by every design. An input
//! that can be read only once is therefore copied to a temporary file first, without decompression. A pipe may never
//! end: if all runs stop after some number of requests, only these requests are copied, and decompressed, because a
//! compressed stream cannot be cut at an arbitrary position. A second thread makes the copy, because a read from an
//! idle pipe waits and would not notice ctrl-C.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tempfile::{NamedTempFile, TempPath};
use wearwell_trace::{Format, OpenOptions};

use crate::Failure;
use crate::output::is_standard_stream;

/// Interval at which the copying of an input checks whether ctrl-C was pressed.
const INTERRUPTION_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A trace file that can be opened repeatedly.
pub(crate) struct TraceFile {
    /// Path of the trace, or of its temporary copy.
    pub(crate) path: PathBuf,
    /// Options for opening the trace, such as its format.
    pub(crate) options: OpenOptions,
    /// Whether only the first requests of a pipe or of standard input were copied.
    pub(crate) is_truncated_copy: bool,
    /// Temporary copy of a pipe or standard input; the file is removed when this value is dropped.
    _copy: Option<TempPath>,
}

impl TraceFile {
    /// Returns the trace at `path`; a pipe or standard input is copied to a temporary file. The copy ends after
    /// `max_requests` requests if this is set, and is given up when `is_interrupted` returns true.
    ///
    /// # Errors
    /// The input cannot be read, there is no space for the copy, or ctrl-C was pressed.
    pub(crate) fn open_repeatable(
        path: &Path,
        options: &OpenOptions,
        max_requests: Option<u64>,
        is_interrupted: impl Fn() -> bool,
    ) -> Result<Self, Failure> {
        let options = options.clone();
        let is_stream = fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
        if !is_standard_stream(path) && !is_stream {
            return Ok(Self { path: path.to_owned(), options, is_truncated_copy: false, _copy: None });
        }
        let name =
            if is_standard_stream(path) { "standard input".into() } else { path.display().to_string() };
        let options = OpenOptions { trace_name: Some(name.clone()), ..options };
        let failure = |error| Failure::of_input(&name, &error);
        let new_file = || NamedTempFile::with_prefix("wearwell-").map(NamedTempFile::into_parts);
        let no_copy = |error: io::Error| {
            Failure::of_run_with_message(format!(
                "cannot copy {name} to a temporary file in the directory {}: {error}; free space there, or set the \
                 environment variable TMPDIR to another directory",
                std::env::temp_dir().display()
            ))
        };
        let (whole_file, whole) = new_file().map_err(no_copy)?;
        let (part_file, part) = new_file().map_err(no_copy)?;
        let copy = StreamCopy { path: path.to_owned(), whole_file, part_file, options: options.clone() };
        let (sender, receiver) = mpsc::channel();
        // Without a receiver the command has been interrupted, and ends.
        thread::spawn(move || drop(sender.send(copy.copy_stream(max_requests))));
        let format = loop {
            match receiver.recv_timeout(INTERRUPTION_POLL_INTERVAL) {
                _ if is_interrupted() => return Err(Failure::interrupted()),
                Ok(made) => {
                    break made.map_err(|error| match error.kind() {
                        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => no_copy(error),
                        _ => failure(error),
                    })?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("the thread that copies the input panicked"),
            }
        };
        let copied = if format.is_some() { part } else { whole };
        Ok(Self {
            path: copied.to_path_buf(),
            options: OpenOptions { format: format.or(options.format), ..options },
            is_truncated_copy: format.is_some(),
            _copy: Some(copied),
        })
    }
}

/// A task that copies a stream: all of it to one file, or its first requests to another.
struct StreamCopy {
    /// Path of the stream as the user named it; `-` for standard input.
    path: PathBuf,
    /// File that receives everything that is read of the stream, unchanged.
    whole_file: File,
    /// File that receives the first requests, decompressed, if only some requests are copied.
    part_file: File,
    /// Options for opening the stream as a trace, such as its format.
    options: OpenOptions,
}

impl StreamCopy {
    /// Copies the stream up to request `max_requests`, if this number is set, and then returns the format of the trace.
    /// Copies the whole stream and returns `None` if the number is not set, or if the trace has fewer requests.
    fn copy_stream(mut self, max_requests: Option<u64>) -> io::Result<Option<Format>> {
        let mut stream: Box<dyn Read + Send> = if is_standard_stream(&self.path) {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(&self.path)?)
        };
        let Some(max_requests) = max_requests else {
            return io::copy(&mut stream, &mut self.whole_file).map(|_| None);
        };
        let name = self.options.trace_name_of(&self.path);
        let files = [self.whole_file, self.part_file];
        wearwell_trace::copy_first_requests(stream, &name, &self.options, max_requests, files)
    }
}
