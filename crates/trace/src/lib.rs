//! Block traces: what a request is, our own formats, and readers of everybody else's.
//!
//! Every format is one file with a parser of one line or one record; [`read`] turns it into a [`TraceReader`], and
//! [`open()`] finds out compression and format. A reader fills the same [`Request`] again and again, so replay does not
//! allocate. Everything a reader accepts is bounded ([`LINE_MAX_BYTES`], [`REQUEST_MAX_BYTES`]), because traces come
//! from strangers: no input may panic, hang or exhaust memory.
//!
//! - [`open()`] with [`OpenOptions`]: any file to a reader; [`Format`] lists what is known.
//! - [`TraceInfo`]: one pass that counts what a trace does to a device.
//! - [`convert()`] with [`NativeWriter`] or [`CsvWriter`]: any trace into ours (`docs/TRACE-FORMAT.md`).
//! - [`Footprint`]: sparse addresses onto a small drive.
//!
//! Whoever only records takes the crate without its feature `readers`: requests and [`NativeWriter`], no parser and no
//! decompressor.

#![forbid(unsafe_code)]

mod error;
mod format;
mod native;
mod request;
mod write;

#[cfg(feature = "readers")]
mod formats;
#[cfg(feature = "readers")]
pub mod read;

pub use error::{Rejected, TraceError};
pub use format::Format;
#[cfg(feature = "readers")]
pub use formats::CsvWriter;
pub use native::NativeWriter;
#[cfg(feature = "readers")]
pub use read::{
    Action, Assume, ByOp, Columns, ColumnsError, Compression, ContentInfo, Footprint, FootprintBuilder,
    LINE_MAX_BYTES, OpenOptions, TimeUnit, TraceInfo, TraceReader, convert, files_beside, open, open_stream,
    sha256,
};
pub use request::{ADDRESS_MAX_BYTES, Op, REQUEST_MAX_BYTES, Request, SECTOR_BYTES, SPAN_MAX_BYTES};
pub use wearwell::data::PAGE_BYTES;
pub use write::TraceWriter;

/// Digest of this crate's code without comments and layout: readers decide what a run is given.
pub const CODE_DIGEST: &str = env!("CODE_DIGEST");
