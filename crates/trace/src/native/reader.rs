//! Reader of Wearwell's binary trace format.

use std::io::{Error, ErrorKind};

use wearwell::address::RemapMode;
use wearwell::data::{ContentDescriptor, Fingerprint};

use super::{
    DISTINCT_CONTENTS_MAX, FIXED_HEADER_BYTES, FORMAT_VERSION, FRAME_HEADER_BYTES, FRAME_KIND_END,
    FRAME_KIND_RECORDS, FRAME_MAX_RECORDS, MAGIC, MAX_REQUEST_PAGES, PROVENANCE_MAX_BYTES, PreviousRecord,
    frame_checksum, operation_code, record_flags, run,
};
use crate::error::{ParseRefusal, RejectedRecords};
use crate::read::CommonReaderState;
use crate::read::decompressed_stream::DecompressedStream;
use crate::request::check_request_limits;
use crate::{Format, Op, PAGE_BYTES, Request, TraceError, TraceReader};

/// Payload bytes of the file's end record: numbers of requests, of pages with content and of distinct contents.
const END_RECORD_PAYLOAD_BYTES: usize = 24;
/// Maximum size of a frame (compressed group of records) that is accepted, bytes, both as stored and after
/// decompression.
const FRAME_MAX_BYTES: usize = 8 << 20;
/// Mask of the bits of a record's first byte that hold the operation.
const OP_MASK: u8 = 0b111;

/// Returns whether a file begins with the signature of the native format.
pub(crate) fn matches_signature(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

/// Reader of a trace in the native format. Damage always ends the trace: a record depends on those before it, so none
/// can be skipped.
pub(crate) struct NativeReader {
    /// Bytes of the trace file, decompressed if the file as a whole is compressed. The frames in it are still
    /// compressed.
    source: DecompressedStream,
    /// Counters that every trace reader keeps: requests, refused records, start time.
    common_state: CommonReaderState,
    /// Text about the origin of the trace, from the header of the file.
    provenance: String,
    /// Payload of the current frame as stored, that is compressed.
    stored_payload: Vec<u8>,
    /// Decompressed records of the current frame.
    frame_bytes: Vec<u8>,
    /// Index in `frame_bytes` of the next record.
    next_byte_index: usize,
    /// Number of records of the current frame that have not been read yet.
    records_left_in_frame: u32,
    /// Whether the end record of the file was read, so that no request follows.
    has_read_end_record: bool,
    /// Fields of the record that was read last, to which the next record stores its differences.
    previous_record: PreviousRecord,
    /// Page contents that were read so far, to which records refer by number.
    known_contents: KnownContents,
    /// Number of pages with content that were read so far, for the check against the end record.
    pages_with_content: u64,
    /// Decompressor of frames (groups of records).
    decompressor: zstd::bulk::Decompressor<'static>,
}

/// Distinct page contents read so far, by content number, and the number of the content read last, to which the next
/// number is relative.
#[derive(Default)]
struct KnownContents {
    /// Fingerprint and compressed size (bytes) of each distinct page content.
    contents_by_number: Vec<(Fingerprint, u16)>,
    /// Number of the content that was read last. The next number is stored as its difference to this one.
    previous_content_number: u64,
}

impl NativeReader {
    /// Reads the header of a trace file; the requests are read later.
    pub(crate) fn new(
        mut source: DecompressedStream,
        common_state: CommonReaderState,
    ) -> Result<Self, TraceError> {
        let provenance = read_header(&mut source, &common_state)?;
        let decompressor =
            zstd::bulk::Decompressor::new().map_err(|error| common_state.corrupt_error(error))?;
        Ok(Self {
            source,
            common_state,
            provenance,
            stored_payload: Vec::new(),
            frame_bytes: Vec::new(),
            next_byte_index: 0,
            records_left_in_frame: 0,
            has_read_end_record: false,
            previous_record: PreviousRecord::default(),
            known_contents: KnownContents::default(),
            pages_with_content: 0,
            decompressor,
        })
    }

    /// Reads frames (compressed groups of records) until one has records. Returns false if the end record of the file
    /// was read instead.
    #[cold]
    fn next_frame(&mut self) -> Result<bool, TraceError> {
        if self.next_byte_index != self.frame_bytes.len() {
            return Err(self.common_state.corrupt_error(corrupt_data_error(
                "a frame (group of requests) must end with its last record, but has further bytes",
            )));
        }
        while self.records_left_in_frame == 0 && !self.has_read_end_record {
            self.read_frame().map_err(|error| self.common_state.corrupt_error(error))?;
        }
        Ok(!self.has_read_end_record)
    }

    /// Reads the next frame and checks its checksum. Then decompresses the frame or, if it is the end record, checks
    /// its counts.
    fn read_frame(&mut self) -> Result<(), Error> {
        let header = self.source.peek(FRAME_HEADER_BYTES)?;
        let Ok(header) = <[u8; FRAME_HEADER_BYTES]>::try_from(header) else {
            return Err(Error::new(
                ErrorKind::UnexpectedEof,
                "a native trace must end with an end record, but the file was cut off before it",
            ));
        };
        self.source.consume_bytes(FRAME_HEADER_BYTES);
        let [kind, records, raw_len, stored_len, sum] = little_endian_words(&header);
        if stored_len as usize > FRAME_MAX_BYTES
            || raw_len as usize > FRAME_MAX_BYTES
            || records > FRAME_MAX_RECORDS
        {
            return Err(corrupt_data_error(
                "a frame (group of requests) must have at most 8 MiB and 65536 records, but has more",
            ));
        }
        self.stored_payload.clear();
        self.source.read_exact(stored_len as usize, &mut self.stored_payload)?;
        if frame_checksum([&header[..16], &self.stored_payload]) != sum {
            return Err(corrupt_data_error(
                "the checksum of a frame (group of requests) must be that of its bytes, but is another",
            ));
        }
        match kind {
            FRAME_KIND_RECORDS => self.decompress_frame(records, raw_len as usize),
            FRAME_KIND_END => self.check_end_record(),
            _ => Err(corrupt_data_error(
                "a frame must be a group of requests or the end record, but is of another kind",
            )),
        }
    }

    /// Decompresses a frame of `records` records to `raw_len` bytes and starts reading at its first record.
    fn decompress_frame(&mut self, records: u32, raw_len: usize) -> Result<(), Error> {
        self.frame_bytes.clear();
        self.frame_bytes.reserve(raw_len);
        self.decompressor.decompress_to_buffer(&self.stored_payload, &mut self.frame_bytes)?;
        if self.frame_bytes.len() != raw_len || records == 0 {
            return Err(corrupt_data_error(
                "a frame (group of requests) must have the length and the records that its header states, but has not",
            ));
        }
        (self.next_byte_index, self.records_left_in_frame, self.previous_record) =
            (0, records, PreviousRecord::default());
        Ok(())
    }

    /// Checks that the counts in the end record equal what was read, and that the file ends after it.
    fn check_end_record(&mut self) -> Result<(), Error> {
        let counts = [
            self.common_state.delivered_requests,
            self.pages_with_content,
            self.known_contents.contents_by_number.len() as u64,
        ];
        let expected: Vec<u8> = counts.iter().flat_map(|count| count.to_le_bytes()).collect();
        if self.stored_payload.len() != END_RECORD_PAYLOAD_BYTES || self.stored_payload != expected {
            return Err(corrupt_data_error(
                "the end record must state the numbers of requests and contents that were read, but states others, so \
                 that a part is missing or was inserted",
            ));
        }
        if !self.source.peek(1)?.is_empty() {
            return Err(corrupt_data_error(
                "a native trace must end with its end record, but further bytes follow",
            ));
        }
        self.has_read_end_record = true;
        Ok(())
    }

    /// Parses the next record of the current frame into the request, whose page contents it fills, too.
    #[inline]
    fn read_record(&mut self, into: &mut Request) -> Result<(), ParseRefusal> {
        let mut cursor = Cursor { frame_bytes: &self.frame_bytes, next_byte_index: self.next_byte_index };
        let head = cursor.read_byte()?;
        let previous_record = self.previous_record;
        let unit = if head & record_flags::ADDRESSES_ARE_IN_BYTES == 0 { PAGE_BYTES } else { 1 };
        into.op = op_of_code(head);
        into.time_ns = previous_record.time_ns.wrapping_add(unzigzag(cursor.read_varint()?));
        let offset = (previous_record.end_offset_bytes / unit).wrapping_add(unzigzag(cursor.read_varint()?));
        into.offset_bytes = offset
            .checked_mul(unit)
            .ok_or(ParseRefusal::of_whole_record("the offset of a request must be below 2^64 bytes"))?;
        into.len_bytes = previous_record.len_bytes;
        if head & record_flags::HAS_LENGTH != 0 {
            into.len_bytes = cursor
                .read_varint()?
                .checked_mul(unit)
                .ok_or(ParseRefusal::of_whole_record("the length of a request must be below 2^64 bytes"))?;
        }
        into.device = previous_record.device;
        if head & record_flags::HAS_DEVICE != 0 {
            into.device = cursor.read_varint()?.try_into().map_err(|_| {
                ParseRefusal::of_whole_record(
                    "the device of a request must be a whole number from 0 to 4294967295",
                )
            })?;
        }
        match head & OP_MASK {
            operation_code::OP_REMAP_COPY | operation_code::OP_REMAP_RELOCATE => {
                let source = (into.offset_bytes / unit).wrapping_add(unzigzag(cursor.read_varint()?));
                into.remap_source_offset_bytes = source
                    .checked_mul(unit)
                    .ok_or(ParseRefusal::of_whole_record("the source of a remap must be below 2^64 bytes"))?;
            }
            operation_code::OP_MARKER_INSTEAD_OF_REQUEST
                if cursor.read_varint()? != operation_code::PHASE_MARKER_CODE =>
            {
                return Err(ParseRefusal::of_whole_record(
                    "a mark must be that of the begin of a phase, the only kind of mark that there is",
                ));
            }
            _ => {}
        }
        check_request_limits(into).map_err(ParseRefusal::of_whole_record)?;
        self.previous_record = PreviousRecord::of_request(into);
        if head & record_flags::HAS_CONTENT != 0 {
            self.known_contents.read_page_contents(&mut cursor, into)?;
            self.pages_with_content += into.content.len() as u64;
            if head & record_flags::HAS_DELTA_SIZES != 0 {
                read_delta_sizes(&mut cursor, &mut into.content)?;
            }
        }
        self.next_byte_index = cursor.next_byte_index;
        Ok(())
    }
}

impl TraceReader for NativeReader {
    fn next(&mut self, into: &mut Request) -> Result<bool, TraceError> {
        if self.records_left_in_frame == 0 && !self.next_frame()? {
            return Ok(false);
        }
        into.clear_optional_fields();
        if let Err(bad) = self.read_record(into) {
            return Err(TraceError::BadRecord {
                file: self.common_state.file_name.clone(),
                record: self.common_state.delivered_requests + 1,
                offset: self.source.offset_bytes(),
                requirement: bad.requirement,
            });
        }
        self.records_left_in_frame -= 1;
        self.common_state.delivered_requests += 1;
        Ok(true)
    }

    fn format(&self) -> Format {
        Format::Native
    }

    fn delivered_requests(&self) -> u64 {
        self.common_state.delivered_requests
    }

    fn rejected_records(&self) -> &RejectedRecords {
        &self.common_state.rejected_records
    }

    fn consumed_bytes(&self) -> Option<u64> {
        Some(self.source.offset_bytes())
    }

    fn provenance(&self) -> Option<&str> {
        Some(&self.provenance)
    }
}

/// Returns an error about damaged data, with this message.
fn corrupt_data_error(message: &str) -> Error {
    Error::new(ErrorKind::InvalidData, message)
}

/// Returns the first `N` 32-bit words of the bytes, which are little-endian.
fn little_endian_words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    std::array::from_fn(|index| {
        u32::from_le_bytes(bytes[index * 4..index * 4 + 4].try_into().expect("four bytes"))
    })
}

/// Reads and checks the header of a native trace file and returns its text about the trace's origin.
fn read_header(
    source: &mut DecompressedStream,
    common_state: &CommonReaderState,
) -> Result<String, TraceError> {
    let corrupt = |error| common_state.corrupt_error(error);
    let mut header = Vec::new();
    source.read_exact(FIXED_HEADER_BYTES, &mut header).map_err(corrupt)?;
    if let Some(reason) = unreadable_header_reason(&header) {
        let file = common_state.file_name.clone();
        return Err(TraceError::UnreadableHeader { file, reason });
    }
    let [_, _, provenance_len] = little_endian_words(&header[8..]);
    read_provenance(source, header, provenance_len as usize).map_err(corrupt)
}

/// Returns why this version of Wearwell cannot read a file with this header as a native trace, and what to do; `None`
/// if it can.
fn unreadable_header_reason(header: &[u8]) -> Option<String> {
    if !matches_signature(header) {
        return Some(
            "the file does not begin with the signature of a native trace: name its format by --format, or get the \
             file again from its source"
                .to_owned(),
        );
    }
    let [version_and_flags, page_bytes, _] = little_endian_words(&header[8..]);
    let (version, flags) = (version_and_flags & 0xffff, version_and_flags >> 16);
    (version != u32::from(FORMAT_VERSION) || flags != 0 || u64::from(page_bytes) != PAGE_BYTES).then(|| {
        format!(
            "the native trace has format version {version}, flags {flags:#x} and pages of {page_bytes} bytes, but \
             this version of Wearwell reads only version {FORMAT_VERSION}, flags 0x0 and pages of {PAGE_BYTES} bytes: \
             use the version of Wearwell that wrote the file, or convert the original trace again by `wearwell trace \
             convert`"
        )
    })
}

/// Reads the text about the trace's origin, which follows the first bytes of the header (`header`), and checks the
/// checksum of both.
fn read_provenance(
    source: &mut DecompressedStream,
    mut header: Vec<u8>,
    provenance_len: usize,
) -> Result<String, Error> {
    if provenance_len > PROVENANCE_MAX_BYTES {
        return Err(corrupt_data_error(
            "the text on the origin of the trace (provenance) must be at most 64 KiB long, but is longer",
        ));
    }
    source.read_exact(provenance_len + 4, &mut header)?;
    let (body, sum) = header.split_at(header.len() - 4);
    if frame_checksum([body, &[]]).to_le_bytes() != sum {
        return Err(corrupt_data_error(
            "the checksum of the header must be that of its bytes, but is another",
        ));
    }
    String::from_utf8(body[FIXED_HEADER_BYTES..].to_vec()).map_err(|_| {
        corrupt_data_error("the text on the origin of the trace (provenance) must be UTF-8, but is not")
    })
}

/// Returns the operation that the low three bits of the first byte of a record denote.
#[inline]
fn op_of_code(number: u8) -> Op {
    match number & OP_MASK {
        operation_code::OP_READ => Op::Read,
        operation_code::OP_WRITE => Op::Write,
        operation_code::OP_TRIM => Op::Trim,
        operation_code::OP_ZERO => Op::Zero,
        operation_code::OP_FLUSH => Op::Flush,
        operation_code::OP_REMAP_COPY => Op::Remap(RemapMode::Copy),
        operation_code::OP_REMAP_RELOCATE => Op::Remap(RemapMode::Relocate),
        _ => Op::PhaseMarker,
    }
}

/// Error message about a wrong end of a record.
const RECORD_END_REQUIREMENT: &str = "a record must end inside its frame (group of requests)";

/// Read position in the decompressed bytes of a frame (group of records).
struct Cursor<'a> {
    /// Decompressed records of the frame.
    frame_bytes: &'a [u8],
    /// Index in `frame_bytes` of the byte that is read next.
    next_byte_index: usize,
}

impl Cursor<'_> {
    /// Reads the next byte of the frame; an error if the frame ends before.
    #[inline]
    fn read_byte(&mut self) -> Result<u8, ParseRefusal> {
        let byte = *self
            .frame_bytes
            .get(self.next_byte_index)
            .ok_or(ParseRefusal::of_whole_record(RECORD_END_REQUIREMENT))?;
        self.next_byte_index += 1;
        Ok(byte)
    }

    /// Reads a number of up to 64 bits that is stored as a varint: 7 bits per byte, lowest first.
    #[inline]
    fn read_varint(&mut self) -> Result<u64, ParseRefusal> {
        let first = self.read_byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.read_byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ParseRefusal::of_whole_record("a number in a record must have at most ten bytes"))
    }

    /// Reads the next `N` bytes of the frame; an error if the frame ends before.
    #[inline]
    fn read_byte_array<const N: usize>(&mut self) -> Result<[u8; N], ParseRefusal> {
        let bytes = self
            .frame_bytes
            .get(self.next_byte_index..self.next_byte_index + N)
            .and_then(|bytes| bytes.try_into().ok());
        self.next_byte_index += N;
        bytes.ok_or(ParseRefusal::of_whole_record(RECORD_END_REQUIREMENT))
    }
}

impl KnownContents {
    /// Reads runs of page contents (sequences that are encoded as one) until every page of the request has a content
    /// descriptor.
    fn read_page_contents(
        &mut self,
        cursor: &mut Cursor<'_>,
        into: &mut Request,
    ) -> Result<(), ParseRefusal> {
        let pages = into.pages();
        let pages = pages.end - pages.start;
        if pages == 0 || pages > MAX_REQUEST_PAGES {
            return Err(ParseRefusal::of_whole_record(
                "a request with page contents must touch 1 to 2^18 + 1 pages of 4096 bytes",
            ));
        }
        while (into.content.len() as u64) < pages {
            let head = cursor.read_varint()?;
            let left = pages - into.content.len() as u64;
            if head >> 2 >= left {
                return Err(ParseRefusal::of_whole_record(
                    "a request must not have more page contents than it touches pages of 4096 bytes",
                ));
            }
            self.read_content_run(head & 3, (head >> 2) + 1, cursor, &mut into.content)?;
        }
        Ok(())
    }

    /// Reads a content run (page contents encoded together) of `count` contents, whose kind and length were read
    /// already, and appends their descriptors.
    fn read_content_run(
        &mut self,
        kind: u64,
        count: u64,
        cursor: &mut Cursor<'_>,
        into: &mut Vec<ContentDescriptor>,
    ) -> Result<(), ParseRefusal> {
        if kind == run::RUN_KIND_NEW_CONTENTS || kind == run::RUN_KIND_NEW_CONSECUTIVE_CONTENTS {
            return self.read_new_contents(kind, count, cursor, into);
        }
        let first = (self.previous_content_number + 1).wrapping_add(unzigzag(cursor.read_varint()?));
        let step = u64::from(kind == run::RUN_KIND_EARLIER_CONSECUTIVE_CONTENTS);
        self.previous_content_number = first.saturating_add((count - 1) * step);
        let known_content_count = self.contents_by_number.len() as u64;
        if first >= known_content_count || self.previous_content_number >= known_content_count {
            return Err(ParseRefusal::of_whole_record(
                "a repeated page content must be one that occurred earlier in the trace",
            ));
        }
        into.extend((0..count).map(|index| self.known_descriptor((first + index * step) as usize)));
        Ok(())
    }

    /// Reads a run of `count` page contents that occur for the first time, numbers them, and appends their descriptors.
    fn read_new_contents(
        &mut self,
        kind: u64,
        count: u64,
        cursor: &mut Cursor<'_>,
        into: &mut Vec<ContentDescriptor>,
    ) -> Result<(), ParseRefusal> {
        if self.contents_by_number.len() + count as usize > DISTINCT_CONTENTS_MAX {
            return Err(ParseRefusal::of_whole_record(
                "the trace must have at most 2^28 distinct page contents",
            ));
        }
        for _ in 0..count {
            let newest = self.contents_by_number.last().map_or(0, |(fingerprint, _)| fingerprint.0);
            let fingerprint = match kind {
                run::RUN_KIND_NEW_CONTENTS => u64::from_le_bytes(cursor.read_byte_array()?),
                _ => newest.wrapping_add(1),
            };
            self.contents_by_number
                .push((Fingerprint(fingerprint), u16::from_le_bytes(cursor.read_byte_array()?)));
            into.push(self.known_descriptor(self.contents_by_number.len() - 1));
        }
        self.previous_content_number = self.contents_by_number.len() as u64 - 1;
        Ok(())
    }

    /// Returns the descriptor of the page content with this number; its delta size is unknown.
    #[inline]
    fn known_descriptor(&self, id: usize) -> ContentDescriptor {
        let (fingerprint, compressed_bytes) = self.contents_by_number[id];
        ContentDescriptor { fingerprint, compressed_bytes, delta_bytes: ContentDescriptor::UNKNOWN_SIZE }
    }
}

/// Reads the delta size of each page content of a request.
fn read_delta_sizes(cursor: &mut Cursor<'_>, content: &mut [ContentDescriptor]) -> Result<(), ParseRefusal> {
    for descriptor in content {
        descriptor.delta_bytes = u16::from_le_bytes(cursor.read_byte_array()?);
    }
    Ok(())
}

/// Decodes a signed difference that [`super::zigzag`] encoded as an unsigned number.
#[inline]
fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::super::zigzag;
    use super::unzigzag;

    #[test]
    fn zigzag_decoding_inverts_encoding_also_at_the_limits() {
        for value in [0, 1, u64::MAX, i64::MAX as u64, 1 << 63] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
        assert_eq!(zigzag(u64::MAX), 1);
    }
}
