//! Copies the first requests of a trace that can be read only once, such as a pipe that never ends.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use crate::read::decompressed_stream::{DecompressedStream, decompress_stream};
use crate::read::open::open_decompressed_trace;
use crate::read::options::OpenOptions;
use crate::read::sidecar::CaptureSidecars;
use crate::{Format, Request};

/// Copies the first `max_requests` requests of the trace called `name` to `part`, decompressed, and returns the format
/// of the trace. Of a native trace, whole frames (groups of requests) are copied.
///
/// Returns `None` if the trace ends, is damaged or cannot be read before request `max_requests`. `whole` then holds
/// unchanged all bytes that were read of the stream, so that a reader of `whole` finds the same end, damage or bad
/// line; `part` is then of no use.
///
/// # Errors
/// The stream cannot be read, or a copy cannot be written.
pub fn copy_first_requests(
    stream: impl Read + Send + 'static,
    name: &str,
    options: &OpenOptions,
    max_requests: u64,
    [whole, mut part]: [File; 2],
) -> io::Result<Option<Format>> {
    let failure = CopyError::default();
    let raw =
        CopyingReader { stream, copy_file: whole, failure: failure.clone(), are_errors_from_source: true };
    let copied = decompress_stream(raw).ok().and_then(|stream| {
        let decompressed = CopyingReader {
            stream,
            copy_file: part.try_clone().ok()?,
            failure: failure.clone(),
            are_errors_from_source: false,
        };
        let source = DecompressedStream::new(Box::new(decompressed));
        let sidecars = || Ok(CaptureSidecars::default());
        let mut reader = open_decompressed_trace(source, name.to_owned(), options, sidecars).ok()?;
        let mut request = Request::default();
        while reader.delivered_requests() < max_requests {
            reader.next(&mut request).ok().filter(|&is_request| is_request)?;
        }
        Some((reader.format(), reader.consumed_bytes()?))
    });
    if let Some(error) = failure.take() {
        return Err(error);
    }
    let Some((format, len_bytes)) = copied else { return Ok(None) };
    part.flush()?;
    part.set_len(len_bytes)?;
    Ok(Some(format))
}

/// The error of the stream or of a file that ended a copy, kept here because the reader of the trace would report it as
/// damage of the trace.
#[derive(Clone, Default)]
struct CopyError(Arc<Mutex<Option<io::Error>>>);

impl CopyError {
    /// Stores `error`, unless an earlier error is stored already. Returns an error of the same kind, for the reader of
    /// the trace.
    fn store_error(&self, error: io::Error) -> io::Error {
        let kind = error.kind();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        kind.into()
    }

    /// Takes out the stored error; `None` if there was none.
    fn take(&self) -> Option<io::Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A stream of which everything that is read is also written to a file.
struct CopyingReader<R> {
    /// Stream that is read and copied.
    stream: R,
    /// File to which everything that is read is also written.
    copy_file: File,
    /// Storage for an error that ends the copy, shared by both readers of one copy.
    failure: CopyError,
    /// Whether `stream` is the source itself, so that its errors end the copy. The errors of a decompressed stream are
    /// damage of the trace instead.
    are_errors_from_source: bool,
}

impl<R: Read> Read for CopyingReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = match self.stream.read(into) {
            Err(error) if self.are_errors_from_source && error.kind() != io::ErrorKind::Interrupted => {
                return Err(self.failure.store_error(error));
            }
            read => read?,
        };
        self.copy_file.write_all(&into[..count]).map_err(|error| self.failure.store_error(error))?;
        Ok(count)
    }
}
