//! Block traces.

use wearwell::content::Descriptor;

/// What a trace record asks of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Read bytes.
    Read,
    /// Write bytes.
    Write,
    /// Deallocate bytes (discard, trim).
    Trim,
    /// Write zeroes without payload.
    Zero,
    /// Make everything acknowledged durable.
    Flush,
}

/// One request of a trace. Readers fill the same value again and again, so that replay does not allocate.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    /// Arrival, nanoseconds since the first request of the trace.
    pub time_ns: u64,
    /// What is asked.
    pub op: Op,
    /// Device or volume number where the trace has several, else 0.
    pub device: u32,
    /// First byte.
    pub offset_bytes: u64,
    /// Length in bytes; 0 for a flush.
    pub len_bytes: u64,
    /// One descriptor per 4 KiB page that the request touches; empty where the trace does
    /// not know the content.
    pub content: Vec<Descriptor>,
    /// The bytes themselves, for captures that carry them (`len_bytes` long); else empty.
    pub bytes: Vec<u8>,
}
