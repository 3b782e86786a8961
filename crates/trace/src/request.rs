//! A request of a block trace, its units and its limits.

use std::ops::Range;

use wearwell::address::RemapMode;
use wearwell::data::{ContentDescriptor, PAGE_BYTES};

/// Bytes of a sector, the unit of addresses in most trace formats.
pub const SECTOR_BYTES: u64 = 512;

/// Longest read, write or remap request that is accepted, bytes. Real requests are a thousand times shorter. The limit
/// prevents that a wrong length in a trace makes a program allocate without bound.
pub const REQUEST_MAX_BYTES: u64 = 1 << 30;
/// Longest trim or zeroing request that is accepted, bytes (16 TiB). One such request may span a whole drive.
pub const TRIM_MAX_BYTES: u64 = 1 << 44;
/// Highest byte address of a request that is accepted. The sum of offset and length then never overflows.
pub const OFFSET_MAX_BYTES: u64 = 1 << 62;

/// Operation of a trace request on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Op {
    /// Reads bytes.
    #[default]
    Read,
    /// Writes bytes.
    Write,
    /// Deallocates bytes (TRIM, discard).
    Trim,
    /// Writes zeroes without payload.
    Zero,
    /// Makes all acknowledged writes durable.
    Flush,
    /// Remap: maps whole pages to the contents of other pages, from [`Request::remap_source_offset_bytes`] on, without
    /// sending data.
    Remap(RemapMode),
    /// No operation of the device but a marker: a new phase of the trace begins, whose results are reported separately.
    PhaseMarker,
}

/// One request of a trace. Readers fill the same value again and again, so that replay does not allocate.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Request {
    /// Arrival time, in nanoseconds since the first request of the trace.
    pub time_ns: u64,
    /// Operation that the request performs.
    pub op: Op,
    /// Device or volume number of the request; 0 if the trace has only one device.
    pub device: u32,
    /// Address of the first byte that the request touches.
    pub offset_bytes: u64,
    /// Length of the request in bytes; 0 for a flush and for a phase.
    pub len_bytes: u64,
    /// Address of the first source byte of a remap request, on the same device; 0 for other operations.
    pub remap_source_offset_bytes: u64,
    /// One content descriptor (fingerprint and sizes) per 4-KiB page that the request touches; empty if the trace does
    /// not record contents.
    pub content: Vec<ContentDescriptor>,
    /// Payload of a write (`len_bytes` long), for captures that contain it; otherwise empty.
    pub payload: Vec<u8>,
}

impl Request {
    /// Returns the 4-KiB pages that the request touches entirely or in part; none for an empty request.
    #[inline]
    pub fn pages(&self) -> Range<u64> {
        let first = self.offset_bytes / PAGE_BYTES;
        if self.len_bytes == 0 {
            return first..first;
        }
        first..self.end_offset_bytes().div_ceil(PAGE_BYTES)
    }

    /// Returns the 4-KiB pages that are the source of a remap request; none for other requests.
    pub fn remap_source_pages(&self) -> Range<u64> {
        let first = self.remap_source_offset_bytes / PAGE_BYTES;
        if !matches!(self.op, Op::Remap(_)) {
            return first..first;
        }
        first..first + self.len_bytes / PAGE_BYTES
    }

    /// Returns the 4-KiB pages of which the request covers every byte.
    pub fn whole_pages(&self) -> Range<u64> {
        let first = self.offset_bytes.div_ceil(PAGE_BYTES);
        first..(self.end_offset_bytes() / PAGE_BYTES).max(first)
    }

    /// Returns the address after the request's last byte (offset plus length). Readers have checked that it does not
    /// overflow.
    #[inline]
    pub fn end_offset_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.len_bytes)
    }

    /// Sets the fields of the request that every trace format records.
    #[inline]
    pub fn set_common_fields(&mut self, time_ns: u64, op: Op, offset_bytes: u64, len_bytes: u64) {
        self.time_ns = time_ns;
        self.op = op;
        self.offset_bytes = offset_bytes;
        self.len_bytes = len_bytes;
    }

    /// Resets the fields of the request that only some trace formats fill, and keeps their memory.
    #[inline]
    pub fn clear_optional_fields(&mut self) {
        self.device = 0;
        self.remap_source_offset_bytes = 0;
        self.content.clear();
        self.payload.clear();
    }
}

/// Checks a request against the limits of length and address that hold for every trace format.
#[inline]
pub(crate) fn check_request_limits(request: &Request) -> Result<(), &'static str> {
    let (max, message) = match request.op {
        Op::Read | Op::Write => (REQUEST_MAX_BYTES, "a read or write must have at most 1 GiB"),
        Op::Remap(_) => (REQUEST_MAX_BYTES, "a remap must have at most 1 GiB"),
        Op::Trim | Op::Zero => (TRIM_MAX_BYTES, "a trim or zeroing must have at most 16 TiB"),
        Op::Flush | Op::PhaseMarker => (0, "a flush or phase must have the length 0"),
    };
    if request.len_bytes > max {
        return Err(message);
    }
    if request.offset_bytes.max(request.remap_source_offset_bytes) > OFFSET_MAX_BYTES {
        return Err("the addresses of a request must be at most 2^62 bytes");
    }
    let parts = request.offset_bytes | request.len_bytes | request.remap_source_offset_bytes;
    if matches!(request.op, Op::Remap(_)) && !parts.is_multiple_of(PAGE_BYTES) {
        return Err("the offset, length and source of a remap must be multiples of 4096 bytes");
    }
    Ok(())
}
