//! A request of a trace, its units and its limits.

use std::ops::Range;

use wearwell::address::RemapMode;
use wearwell::data::{Descriptor, PAGE_BYTES};

/// The unit of addresses in most formats.
pub const SECTOR_BYTES: u64 = 512;

/// Longest read or write that is accepted: real ones are a thousand times smaller, and a false length must not make
/// a consumer allocate without bound.
pub const REQUEST_MAX_BYTES: u64 = 1 << 30;
/// Longest trim or zeroing, which may span a whole drive: 16 TiB.
pub const SPAN_MAX_BYTES: u64 = 1 << 44;
/// Addresses end here, so that sums of offset and length never overflow.
pub const ADDRESS_MAX_BYTES: u64 = 1 << 62;

/// What a trace record asks of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Op {
    /// Read bytes.
    #[default]
    Read,
    /// Write bytes.
    Write,
    /// Deallocate bytes (discard, trim).
    Trim,
    /// Write zeroes without payload.
    Zero,
    /// Make everything acknowledged durable.
    Flush,
    /// Give whole pages the contents of others, from [`Request::source_bytes`] on, without sending them.
    Remap(RemapMode),
    /// Nothing is asked; what follows belongs to another phase of the input, to be reported by itself.
    Phase,
}

/// One request of a trace. Readers fill the same value again and again, so that replay does not allocate.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Request {
    /// Arrival, nanoseconds since the first request of the trace.
    pub time_ns: u64,
    /// What is asked.
    pub op: Op,
    /// Device or volume number where the trace has several, else 0.
    pub device: u32,
    /// First byte.
    pub offset_bytes: u64,
    /// Length in bytes; 0 for a flush and for a phase.
    pub len_bytes: u64,
    /// First byte that a remap takes from, on the same device; else 0.
    pub source_bytes: u64,
    /// One descriptor per 4 KiB page that the request touches; empty where the trace does
    /// not know the content.
    pub content: Vec<Descriptor>,
    /// The bytes themselves, for captures that carry them (`len_bytes` long); else empty.
    pub bytes: Vec<u8>,
}

impl Request {
    /// The 4-KiB pages that the request touches, also in part; none for an empty request.
    #[inline]
    pub fn pages(&self) -> Range<u64> {
        let first = self.offset_bytes / PAGE_BYTES;
        if self.len_bytes == 0 {
            return first..first;
        }
        first..self.end_bytes().div_ceil(PAGE_BYTES)
    }

    /// The 4-KiB pages that a remap takes from; none for other requests.
    pub fn source_pages(&self) -> Range<u64> {
        let first = self.source_bytes / PAGE_BYTES;
        if !matches!(self.op, Op::Remap(_)) {
            return first..first;
        }
        first..first + self.len_bytes / PAGE_BYTES
    }

    /// The 4-KiB pages that the request covers from end to end.
    pub fn whole_pages(&self) -> Range<u64> {
        let first = self.offset_bytes.div_ceil(PAGE_BYTES);
        first..(self.end_bytes() / PAGE_BYTES).max(first)
    }

    /// The byte behind the last one; readers have checked that it fits.
    #[inline]
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.len_bytes)
    }

    /// Sets the fields that every format has.
    #[inline]
    pub fn set(&mut self, time_ns: u64, op: Op, offset_bytes: u64, len_bytes: u64) {
        self.time_ns = time_ns;
        self.op = op;
        self.offset_bytes = offset_bytes;
        self.len_bytes = len_bytes;
    }

    /// Empties the parts that only some formats fill; keeps their memory.
    #[inline]
    pub fn clear(&mut self) {
        self.device = 0;
        self.source_bytes = 0;
        self.content.clear();
        self.bytes.clear();
    }
}

/// The limits that hold for requests of every format.
#[inline]
pub(crate) fn check_limits(request: &Request) -> Result<(), &'static str> {
    let (max, message) = match request.op {
        Op::Read | Op::Write => (REQUEST_MAX_BYTES, "a read or write of at most 1 GiB"),
        Op::Remap(_) => (REQUEST_MAX_BYTES, "a remap of at most 1 GiB"),
        Op::Trim | Op::Zero => (SPAN_MAX_BYTES, "a trim or zeroing of at most 16 TiB"),
        Op::Flush | Op::Phase => (0, "a flush or phase without length"),
    };
    if request.len_bytes > max {
        return Err(message);
    }
    if request.offset_bytes.max(request.source_bytes) > ADDRESS_MAX_BYTES {
        return Err("an address below 2^62");
    }
    let parts = request.offset_bytes | request.len_bytes | request.source_bytes;
    if matches!(request.op, Op::Remap(_)) && !parts.is_multiple_of(PAGE_BYTES) {
        return Err("a remap of whole 4-KiB pages");
    }
    Ok(())
}
