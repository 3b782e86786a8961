//! Reads and writes block traces: the request type, Wearwell's own formats, and parsers of the public formats.
//!
//! Every format is one file with a parser of one line or one record. [`read`] makes a [`TraceReader`] of such a parser,
//! and [`open()`] detects compression and format. A reader fills the same [`Request`] again and again, so that replay
//! does not allocate. Lines and requests that a reader accepts are bounded ([`LINE_MAX_BYTES`], [`REQUEST_MAX_BYTES`]),
//! because trace files come from unknown sources: no input may cause a panic, an endless loop or exhaustion of memory.
//!
//! - [`open()`] with [`OpenOptions`]: opens any file as a reader; [`Format`] lists the known formats.
//! - [`TraceInfo`]: counts in one pass what a trace does to a device.
//! - [`copy_trace()`] with [`NativeWriter`] or [`CsvWriter`]: converts any trace into Wearwell's formats
//!   (`docs/TRACE-FORMAT.md`).
//! - [`Footprint`]: maps the sparse addresses of a trace onto a small drive.
//!
//! A program that only records traces can disable the crate's feature `readers`. It then gets requests and
//! [`NativeWriter`], without any parser or decompressor.

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

pub use error::{RejectedRecords, TraceError};
pub use format::Format;
#[cfg(feature = "readers")]
pub use formats::{CsvWriter, parse_content_descriptors};
pub use native::NativeWriter;
#[cfg(feature = "readers")]
pub use read::{
    AssumedOp, BlockLayerStage, Compression, ContentInfo, CountsByOp, CsvColumns, CsvColumnsError, Footprint,
    FootprintBuilder, LINE_MAX_BYTES, OpenOptions, TimeUnit, TraceInfo, TraceReader, copy_first_requests,
    copy_trace, file_sha256, open, open_stream, sidecar_files_of,
};
pub use request::{OFFSET_MAX_BYTES, Op, REQUEST_MAX_BYTES, Request, SECTOR_BYTES, TRIM_MAX_BYTES};
pub use wearwell::data::PAGE_BYTES;
pub use write::TraceWriter;

/// Digest of this crate's code without comments and layout. It is stored with each result of a run, because the trace
/// readers determine the requests of the run.
pub const CODE_DIGEST: &str = env!("CODE_DIGEST");
