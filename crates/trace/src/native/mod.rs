//! Our binary format: small, fast to read, checked (`docs/TRACE-FORMAT.md` gives every byte).
//!
//! Records are differences to the record before, as varints, in frames that are compressed and checksummed one by one.
//! A page content is stored once, when it first occurs, and is a small number from then on. The price is that a file
//! is read from its start: later frames refer to contents of earlier ones. An end record holds the counts, so a
//! file that was cut is never taken for a short one.

#[cfg(feature = "readers")]
mod reader;
mod writer;

#[cfg(feature = "readers")]
pub(crate) use reader::{NativeReader, fits};
pub use writer::NativeWriter;

/// Like PNG's, the signature shows damage by text-mode transfers.
const MAGIC: [u8; 8] = *b"\x89WWT\r\n\x1a\n";
const VERSION: u16 = 1;
/// Magic, version, flags, page size, length of the provenance.
const HEADER_BYTES: usize = 20;
/// Longest provenance.
const PROVENANCE_MAX_BYTES: usize = 64 << 10;

/// Kind, records, raw length, stored length, checksum: five u32.
const FRAME_HEADER_BYTES: usize = 20;
const KIND_RECORDS: u32 = 1;
const KIND_END: u32 = 2;
/// A frame is closed when it has this many bytes or records. One record adds at most 4 MiB.
const FRAME_TARGET_BYTES: usize = 256 << 10;
const FRAME_MAX_RECORDS: u32 = 1 << 16;

/// Most pages of one request: 1 GiB that starts inside a page.
pub(crate) const PAGES_MAX: u64 = (1 << 18) + 1;
/// Most distinct contents (1 TiB of pages); bounds the reader's memory.
const CONTENTS_MAX: usize = 1 << 28;

/// Bits of the first byte of a record; the low three are the operation.
mod head {
    pub const DEVICE: u8 = 1 << 3;
    pub const LENGTH: u8 = 1 << 4;
    pub const CONTENT: u8 = 1 << 5;
    pub const DELTAS: u8 = 1 << 6;
    pub const BYTES: u8 = 1 << 7;
}

/// Operations of the head.
mod code {
    pub const READ: u8 = 0;
    pub const WRITE: u8 = 1;
    pub const TRIM: u8 = 2;
    pub const ZERO: u8 = 3;
    pub const FLUSH: u8 = 4;
    pub const REMAP_COPY: u8 = 5;
    pub const REMAP_RELOCATE: u8 = 6;
    /// Nothing for the device; a number says what.
    pub const MARK: u8 = 7;
    /// The mark of a phase.
    pub const PHASE: u64 = 0;
}

/// Kinds of a run of contents; the low two bits of its head, the length less one above.
mod run {
    /// New contents with arbitrary fingerprints.
    pub const NEW: u64 = 0;
    /// New contents whose fingerprints count up from the last new one.
    pub const NEW_NEXT: u64 = 1;
    /// Known contents with consecutive numbers.
    pub const RANGE: u64 = 2;
    /// One known content again and again.
    pub const REPEAT: u64 = 3;
}

/// What the next record is a difference to; starts anew in every frame.
#[derive(Clone, Copy, Default)]
struct Previous {
    time_ns: u64,
    end_bytes: u64,
    len_bytes: u64,
    device: u32,
}

/// CRC-32 (as in gzip) of a frame header without its checksum, and of the stored payload.
fn checksum(parts: [&[u8]; 2]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    for part in parts {
        crc.update(part);
    }
    crc.finalize()
}

/// A signed difference with small magnitudes first: 0, -1, 1, -2, ...
#[inline]
fn zigzag(difference: u64) -> u64 {
    let signed = difference.cast_signed();
    ((signed << 1) ^ (signed >> 63)).cast_unsigned()
}
