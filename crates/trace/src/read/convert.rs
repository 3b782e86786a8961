//! Conversion of a trace in any format into one of Wearwell's own formats. No request or content is lost; a CSV has no
//! place for the provenance that a native trace has in its header.

use crate::{Request, TraceError, TraceReader, TraceWriter};

/// Copies all requests from a trace reader to a trace writer, finishes the output and returns the number of requests.
///
/// # Errors
/// Those of the reader and of the writer; the output is then incomplete.
pub fn copy_trace(reader: &mut dyn TraceReader, writer: &mut dyn TraceWriter) -> Result<u64, TraceError> {
    let mut request = Request::default();
    while reader.next(&mut request)? {
        writer.write(&request)?;
    }
    writer.finish()
}
