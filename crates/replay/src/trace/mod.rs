//! Block traces: reading, writing, counting and compacting them.
//!
//! Every format is one file with a parser of one line or one record; `reader` turns it into a [`TraceReader`], and
//! [`open()`] finds out compression and format. A reader fills the same [`Request`] again and again, so replay does not
//! allocate. Everything a reader accepts is bounded ([`LINE_MAX_BYTES`], [`REQUEST_MAX_BYTES`]), because traces come
//! from strangers: no input may panic, hang or exhaust memory.
//!
//! - [`open()`] with [`OpenOptions`]: any file to a reader; [`Format`] lists what is known.
//! - [`TraceInfo`]: one pass that counts what a trace does to a device.
//! - [`convert()`] with [`NativeWriter`] or [`CsvWriter`]: any trace into ours (`docs/TRACE-FORMAT.md`).
//! - [`Footprint`]: sparse addresses onto a small drive.

mod alibaba;
mod blkparse;
mod blktrace;
mod capture;
mod chunk;
mod columns;
mod convert;
mod csv;
mod disksim;
mod error;
mod fields;
mod fio;
mod fiu;
mod footprint;
mod format;
mod info;
mod mqsim;
mod msr;
mod native;
mod nbd;
mod open;
mod oracle_general;
mod reader;
mod sidecar;
mod source;
mod spc;
mod systor;
mod tencent;
mod vscsi;
mod wiscsee;

use std::ops::Range;

use wearwell::address::RemapMode;
use wearwell::content::Descriptor;

pub use columns::{Columns, ColumnsError};
pub use convert::{TraceWriter, convert};
pub use csv::CsvWriter;
pub use error::{Rejected, TraceError};
pub use footprint::{Footprint, FootprintBuilder};
pub use format::Format;
pub use info::sha256;
pub use info::{ByOp, ContentInfo, TraceInfo};
pub use native::NativeWriter;
pub use open::{Action, Assume, OpenOptions, TimeUnit, open, open_stream};
pub use reader::{ADDRESS_MAX_BYTES, REQUEST_MAX_BYTES, SPAN_MAX_BYTES, TraceReader};
pub(crate) use sidecar::files_beside;
pub use source::{Compression, LINE_MAX_BYTES};

/// The page size that content and counts refer to.
pub const PAGE_BYTES: u64 = 4096;
/// The unit of addresses in most formats.
pub const SECTOR_BYTES: u64 = 512;

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
    pub(crate) fn set(&mut self, time_ns: u64, op: Op, offset_bytes: u64, len_bytes: u64) {
        self.time_ns = time_ns;
        self.op = op;
        self.offset_bytes = offset_bytes;
        self.len_bytes = len_bytes;
    }

    /// Empties the parts that only some formats fill; keeps their memory.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.device = 0;
        self.source_bytes = 0;
        self.content.clear();
        self.bytes.clear();
    }
}
