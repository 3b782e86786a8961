//! The trait of all trace writers, and the check of what they refuse.

use crate::native::MAX_REQUEST_PAGES;
use crate::request::check_request_limits;
use crate::{Request, TraceError};

/// A writer of trace requests in some trace format.
pub trait TraceWriter {
    /// Appends one request to the trace.
    ///
    /// # Errors
    /// [`TraceError::UnwritableRequest`] if the format cannot hold the request, [`TraceError::Write`] if the output
    /// fails.
    fn write(&mut self, request: &Request) -> Result<(), TraceError>;

    /// Completes the trace file and returns its number of requests. If a native file is not completed, its readers
    /// report it as truncated.
    ///
    /// # Errors
    /// [`TraceError::Write`] if the output fails.
    fn finish(&mut self) -> Result<u64, TraceError>;
}

/// Returns an error for a request that a trace reader would refuse, so that every written trace can be read again.
/// `number` is the number of the request for the error message, from 1.
pub(crate) fn check_writable(request: &Request, number: u64) -> Result<(), TraceError> {
    let refuse = |requirement| Err(TraceError::UnwritableRequest { request_number: number, requirement });
    let pages = request.pages();
    let content = request.content.len() as u64;
    match check_request_limits(request) {
        Err(reason) => refuse(reason),
        Ok(()) if !request.payload.is_empty() => refuse(
            "a request in the output trace must be without page bytes: read the capture without --bytes",
        ),
        Ok(()) if content > MAX_REQUEST_PAGES => {
            refuse("a request in the output trace must have content for at most 2^18 + 1 pages of 4096 bytes")
        }
        Ok(()) if content != 0 && content != pages.end - pages.start => refuse(
            "a request in the output trace must have the contents of all pages of 4096 bytes that it touches, or of \
             none",
        ),
        Ok(()) => Ok(()),
    }
}
