//! Any trace into one of our own formats, without loss.

use crate::{Request, TraceError, TraceReader, TraceWriter};

/// Copies a whole trace and finishes the output; returns the number of requests.
///
/// # Errors
/// Those of the reader and of the writer; the output is then incomplete.
pub fn convert(reader: &mut dyn TraceReader, writer: &mut dyn TraceWriter) -> Result<u64, TraceError> {
    let mut request = Request::default();
    while reader.next(&mut request)? {
        writer.write(&request)?;
    }
    writer.finish()
}
