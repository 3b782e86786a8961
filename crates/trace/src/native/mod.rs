//! Wearwell's binary trace format: compact, fast to read and checksummed (`docs/TRACE-FORMAT.md` gives every byte).
//!
//! A record is stored as differences to the preceding record, as varints. Records are collected in frames, each of
//! which is compressed and checksummed. A page content is stored once, when it first occurs, and is later referred to
//! by a small number. The price is that a file must be read from its start, because frames refer to contents of earlier
//! frames. An end record holds the counts, so that a truncated file is detected.

#[cfg(feature = "readers")]
mod reader;
mod writer;

#[cfg(feature = "readers")]
pub(crate) use reader::{NativeReader, matches_signature};
pub use writer::NativeWriter;

/// Signature at the start of a native trace file; as in PNG, its line ends reveal a transfer in text mode.
const MAGIC: [u8; 8] = *b"\x89WWT\r\n\x1a\n";
/// Version of the native trace format, the only one that is written and read.
const FORMAT_VERSION: u16 = 1;
/// Bytes of a native trace file's header before the provenance text: magic, version, flags, page size, length of the
/// provenance.
const FIXED_HEADER_BYTES: usize = 20;
/// Longest provenance text (where the trace comes from) in the file header, bytes.
const PROVENANCE_MAX_BYTES: usize = 64 << 10;

/// Bytes of the header of a frame (compressed group of records): kind, number of records, raw length, stored length and
/// checksum, a u32 each.
const FRAME_HEADER_BYTES: usize = 20;
/// Kind of a frame (compressed group of records) that holds requests.
const FRAME_KIND_RECORDS: u32 = 1;
/// Kind of the last frame of a file, the end record: it holds the counts by which a truncated file is detected.
const FRAME_KIND_END: u32 = 2;
/// Uncompressed size at which a frame (compressed group of records) is completed, bytes; [`FRAME_MAX_RECORDS`] is the
/// other limit. One record adds at most 4 MiB.
const FRAME_TARGET_BYTES: usize = 256 << 10;
/// Maximum number of records in a frame (compressed group of records).
const FRAME_MAX_RECORDS: u32 = 1 << 16;

/// Maximum number of 4-KiB pages that one request may touch: 1 GiB that starts inside a page.
pub(crate) const MAX_REQUEST_PAGES: u64 = (1 << 18) + 1;
/// Maximum number of distinct page contents in a trace (1 TiB of pages). This bounds the reader's memory.
const DISTINCT_CONTENTS_MAX: usize = 1 << 28;

/// Flags in the first byte of a request's record: which fields follow. The low three bits are the operation, see
/// [`operation_code`].
mod record_flags {
    /// Flag in the first byte of a record: the record holds a device number, because it is not that of the preceding
    /// record.
    pub const HAS_DEVICE: u8 = 1 << 3;
    /// Flag in the first byte of a record: the record holds a length, because it is not that of the preceding record.
    pub const HAS_LENGTH: u8 = 1 << 4;
    /// Flag in the first byte of a record: the record holds the page contents of the request (fingerprints and
    /// compressed sizes).
    pub const HAS_CONTENT: u8 = 1 << 5;
    /// Flag in the first byte of a record: the record holds a delta size per page of the request.
    pub const HAS_DELTA_SIZES: u8 = 1 << 6;
    /// Flag in the first byte of a record: addresses and length of the record are in bytes. Without the flag they are
    /// in pages of 4 KiB.
    pub const ADDRESSES_ARE_IN_BYTES: u8 = 1 << 7;
}

/// Codes of the operations (read, write, ...), stored in the low three bits of the first byte of a record.
mod operation_code {
    /// Operation code of a read.
    pub const OP_READ: u8 = 0;
    /// Operation code of a write.
    pub const OP_WRITE: u8 = 1;
    /// Operation code of a trim.
    pub const OP_TRIM: u8 = 2;
    /// Operation code of a zeroing (writing zeros without payload).
    pub const OP_ZERO: u8 = 3;
    /// Operation code of a flush.
    pub const OP_FLUSH: u8 = 4;
    /// Operation code of a remap that keeps the source pages.
    pub const OP_REMAP_COPY: u8 = 5;
    /// Operation code of a remap that deallocates the source pages.
    pub const OP_REMAP_RELOCATE: u8 = 6;
    /// Operation code of a record that is no request to the device but a marker, such as the beginning of a phase. The
    /// number after it states which marker.
    pub const OP_MARKER_INSTEAD_OF_REQUEST: u8 = 7;
    /// Code of the marker for the beginning of a phase, whose results are reported separately.
    pub const PHASE_MARKER_CODE: u64 = 0;
}

/// Kinds of content runs. A content run is a sequence of page contents that are encoded together. Its first number
/// holds the kind in the low two bits and the length minus one in the other bits.
mod run {
    /// Kind of a content run (page contents encoded together) whose contents occur for the first time in the trace.
    /// Each is stored with its fingerprint.
    pub const RUN_KIND_NEW_CONTENTS: u64 = 0;
    /// Kind of a content run (page contents encoded together) whose contents occur for the first time in the trace.
    /// Their fingerprints count up from that of the last new content, so none is stored.
    pub const RUN_KIND_NEW_CONSECUTIVE_CONTENTS: u64 = 1;
    /// Kind of a content run (page contents encoded together) whose contents occurred earlier in the trace and have
    /// consecutive content numbers.
    pub const RUN_KIND_EARLIER_CONSECUTIVE_CONTENTS: u64 = 2;
    /// Kind of a content run (page contents encoded together) that repeats a single content, which occurred earlier in
    /// the trace.
    pub const RUN_KIND_REPEATED_EARLIER_CONTENT: u64 = 3;
}

/// Fields of the preceding record in the file. The next record stores its differences to them. All are zero at the
/// start of a frame.
#[derive(Clone, Copy, Default)]
struct PreviousRecord {
    /// Time of the preceding record's request, nanoseconds since the first request of the trace.
    time_ns: u64,
    /// Address after the last byte of the preceding record's request.
    end_offset_bytes: u64,
    /// Length of the preceding record's request, bytes.
    len_bytes: u64,
    /// Device number of the preceding record's request.
    device: u32,
}

/// Returns the CRC-32 (as in gzip) over both `parts` of a frame: its header without the checksum field, and its stored
/// payload.
fn frame_checksum(parts: [&[u8]; 2]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    for part in parts {
        crc.update(part);
    }
    crc.finalize()
}

/// Encodes a signed difference as an unsigned number so that small magnitudes become small numbers: 0, -1, 1, -2, ...
/// become 0, 1, 2, 3, ...
#[inline]
fn zigzag(difference: u64) -> u64 {
    let signed = difference.cast_signed();
    ((signed << 1) ^ (signed >> 63)).cast_unsigned()
}
