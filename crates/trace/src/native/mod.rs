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

/// Numbers of the operations (read, write, ...) in the low three bits of a record's first byte.
mod operation_code {
    /// Number of a read in the lowest bits of the first byte of a record.
    pub const OP_READ: u8 = 0;
    /// Number of a write in the lowest bits of the first byte of a record.
    pub const OP_WRITE: u8 = 1;
    /// Number of a trim in the lowest bits of the first byte of a record.
    pub const OP_TRIM: u8 = 2;
    /// Number of a zeroing in the lowest bits of the first byte of a record.
    pub const OP_ZERO: u8 = 3;
    /// Number of a flush in the lowest bits of the first byte of a record.
    pub const OP_FLUSH: u8 = 4;
    /// Number of a remap that keeps the source pages, in the lowest bits of the first byte of a record.
    pub const OP_REMAP_COPY: u8 = 5;
    /// Number of a remap that deallocates the source pages, in the lowest bits of the first byte of a record.
    pub const OP_REMAP_RELOCATE: u8 = 6;
    /// Number in place of the operation in a record that is no request to the device but a mark (e.g. the beginning of
    /// a phase). The number after it states which mark.
    pub const OP_MARK: u8 = 7;
    /// Number of the mark for the beginning of a phase, whose results are reported separately.
    pub const PHASE_MARK_CODE: u64 = 0;
}

/// Kinds of a run (sequence of page contents that is encoded as one). The first number of a run holds the kind in its
/// low two bits and the length minus one in the others.
mod run {
    /// Kind of a run of page contents (sequence that is encoded as one) that occur for the first time in the trace.
    /// Each is stored with its fingerprint.
    pub const NEW_CONTENTS_RUN_KIND: u64 = 0;
    /// Kind of a run of page contents (sequence that is encoded as one) that occur for the first time in the trace.
    /// Their fingerprints count up from that of the last new content, so none is stored.
    pub const NEW_CONSECUTIVE_CONTENTS_RUN_KIND: u64 = 1;
    /// Kind of a run of page contents (sequence that is encoded as one) that occurred before in the trace and have
    /// consecutive content numbers.
    pub const KNOWN_CONSECUTIVE_CONTENTS_RUN_KIND: u64 = 2;
    /// Kind of a run (sequence that is encoded as one) that repeats one page content, which occurred before in the
    /// trace.
    pub const KNOWN_REPEATED_CONTENT_RUN_KIND: u64 = 3;
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
