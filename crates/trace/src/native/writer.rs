//! Writer of Wearwell's binary trace format.

use std::io::{self, Write};

use rustc_hash::FxHashMap;
use wearwell::address::RemapMode;
use wearwell::data::{ContentDescriptor, Fingerprint};

use super::{
    DISTINCT_CONTENTS_MAX, FIXED_HEADER_BYTES, FORMAT_VERSION, FRAME_HEADER_BYTES, FRAME_KIND_END,
    FRAME_KIND_RECORDS, FRAME_MAX_RECORDS, FRAME_TARGET_BYTES, MAGIC, PROVENANCE_MAX_BYTES, PreviousRecord,
    frame_checksum, operation_code, record_flags, run, zigzag,
};
use crate::write::{TraceWriter, check_writable};
use crate::{Op, PAGE_BYTES, Request, TraceError};

/// Compression level of zstd for frames: it compresses well and decodes as fast as the lowest level.
const ZSTD_LEVEL: i32 = 3;

/// Writer of traces in the native binary format.
pub struct NativeWriter<W> {
    /// Output to which the trace file is written.
    out: W,
    /// Encoded records of the current frame (compressed group of records), not yet compressed.
    frame_bytes: Vec<u8>,
    /// Number of records in the current frame.
    frame_record_count: u32,
    /// Fields of the record that was written last, to which the next record stores its differences.
    previous_record: PreviousRecord,
    /// Numbers of the page contents written so far.
    content_numbers: ContentNumbering,
    /// Number of requests that were written so far.
    written_requests: u64,
    /// Number of pages written with content so far, for the end record.
    pages_with_content: u64,
    /// Compressor of frames (groups of records).
    compressor: zstd::bulk::Compressor<'static>,
}

impl<W: Write> NativeWriter<W> {
    /// Starts a trace file in the native format. `provenance` is a text about where the trace comes from; readers
    /// return it.
    ///
    /// # Errors
    /// [`TraceError::LongProvenance`] if the provenance exceeds 64 KiB, [`TraceError::Write`] if `out` fails.
    pub fn new(mut out: W, provenance: &str) -> Result<Self, TraceError> {
        if provenance.len() > PROVENANCE_MAX_BYTES {
            return Err(TraceError::LongProvenance { len_bytes: provenance.len() });
        }
        out.write_all(&encode_header(provenance))?;
        Ok(Self {
            out,
            frame_bytes: Vec::with_capacity(FRAME_TARGET_BYTES * 2),
            frame_record_count: 0,
            previous_record: PreviousRecord::default(),
            content_numbers: ContentNumbering::default(),
            written_requests: 0,
            pages_with_content: 0,
            compressor: zstd::bulk::Compressor::new(ZSTD_LEVEL)?,
        })
    }

    /// Returns the output, such as a buffer in memory from which the caller takes what was written.
    pub fn output_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Appends the record of a request, apart from its page contents, to the current frame.
    fn put_record(&mut self, request: &Request) {
        let previous_record = self.previous_record;
        let unit = address_unit_bytes(request);
        self.frame_bytes.push(record_head_byte(request, previous_record));
        put_varint(&mut self.frame_bytes, zigzag(request.time_ns.wrapping_sub(previous_record.time_ns)));
        let moved = (request.offset_bytes / unit).wrapping_sub(previous_record.end_offset_bytes / unit);
        put_varint(&mut self.frame_bytes, zigzag(moved));
        if request.len_bytes != previous_record.len_bytes {
            put_varint(&mut self.frame_bytes, request.len_bytes / unit);
        }
        if request.device != previous_record.device {
            put_varint(&mut self.frame_bytes, u64::from(request.device));
        }
        match request.op {
            Op::Remap(_) => {
                let apart =
                    (request.remap_source_offset_bytes / unit).wrapping_sub(request.offset_bytes / unit);
                put_varint(&mut self.frame_bytes, zigzag(apart));
            }
            Op::PhaseMarker => put_varint(&mut self.frame_bytes, operation_code::PHASE_MARKER_CODE),
            _ => {}
        }
        self.previous_record = PreviousRecord::of_request(request);
    }

    /// Appends the page contents of a request to the current frame, with delta sizes if any is known.
    fn put_page_contents(&mut self, content: &[ContentDescriptor]) {
        self.pages_with_content += content.len() as u64;
        self.content_numbers.put_contents(content, &mut self.frame_bytes);
        if has_delta_sizes(content) {
            self.frame_bytes
                .extend(content.iter().flat_map(|descriptor| descriptor.delta_bytes.to_le_bytes()));
        }
    }

    /// Compresses and writes the current frame if it has records, and begins a new one.
    fn end_frame(&mut self) -> io::Result<()> {
        if self.frame_record_count > 0 {
            let stored = self.compressor.compress(&self.frame_bytes)?;
            let raw_len = self.frame_bytes.len();
            self.put_frame(FRAME_KIND_RECORDS, raw_len, &stored)?;
        }
        self.frame_bytes.clear();
        self.frame_record_count = 0;
        self.previous_record = PreviousRecord::default();
        Ok(())
    }

    /// Writes one frame: header, checksum, and the payload `stored`, which is `raw_len` bytes when decompressed.
    fn put_frame(&mut self, kind: u32, raw_len: usize, stored: &[u8]) -> io::Result<()> {
        let mut header = Vec::with_capacity(FRAME_HEADER_BYTES);
        for word in [kind, self.frame_record_count, raw_len as u32, stored.len() as u32] {
            header.extend(word.to_le_bytes());
        }
        let sum = frame_checksum([&header, stored]);
        header.extend(sum.to_le_bytes());
        self.out.write_all(&header)?;
        self.out.write_all(stored)
    }
}

impl<W: Write> TraceWriter for NativeWriter<W> {
    fn write(&mut self, request: &Request) -> Result<(), TraceError> {
        self.written_requests += 1;
        check_writable(request, self.written_requests)?;
        if self.content_numbers.number_by_content.len() + request.content.len() > DISTINCT_CONTENTS_MAX {
            return Err(TraceError::TooManyContents { request: self.written_requests });
        }
        self.put_record(request);
        if !request.content.is_empty() {
            self.put_page_contents(&request.content);
        }
        self.frame_record_count += 1;
        if self.frame_bytes.len() >= FRAME_TARGET_BYTES || self.frame_record_count == FRAME_MAX_RECORDS {
            self.end_frame()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<u64, TraceError> {
        self.end_frame()?;
        let counts = [
            self.written_requests,
            self.pages_with_content,
            self.content_numbers.number_by_content.len() as u64,
        ];
        let payload: Vec<u8> = counts.iter().flat_map(|count| count.to_le_bytes()).collect();
        self.put_frame(FRAME_KIND_END, payload.len(), &payload)?;
        self.out.flush()?;
        Ok(self.written_requests)
    }
}

impl PreviousRecord {
    /// Returns the fields of the request to which the next record stores its differences.
    #[inline]
    pub(super) fn of_request(request: &Request) -> Self {
        Self {
            time_ns: request.time_ns,
            end_offset_bytes: request.offset_bytes + request.len_bytes,
            len_bytes: request.len_bytes,
            device: request.device,
        }
    }
}

/// Returns the header of a native trace file, with the text about its origin and a checksum.
fn encode_header(provenance: &str) -> Vec<u8> {
    let mut header = Vec::with_capacity(FIXED_HEADER_BYTES + provenance.len() + 4);
    header.extend(MAGIC);
    header.extend(FORMAT_VERSION.to_le_bytes());
    header.extend(0_u16.to_le_bytes());
    header.extend((PAGE_BYTES as u32).to_le_bytes());
    header.extend((provenance.len() as u32).to_le_bytes());
    header.extend(provenance.as_bytes());
    let sum = frame_checksum([&header, &[]]);
    header.extend(sum.to_le_bytes());
    header
}

/// Returns the unit in which the request's addresses are stored, bytes: a page if offset and length are multiples of a
/// page, else one byte.
fn address_unit_bytes(request: &Request) -> u64 {
    let whole =
        request.offset_bytes.is_multiple_of(PAGE_BYTES) && request.len_bytes.is_multiple_of(PAGE_BYTES);
    if whole { PAGE_BYTES } else { 1 }
}

/// Returns the first byte of the record of a request: its operation, and flags for the fields that follow.
fn record_head_byte(request: &Request, previous_record: PreviousRecord) -> u8 {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    op_code(request.op)
        | flag(request.device != previous_record.device, record_flags::HAS_DEVICE)
        | flag(request.len_bytes != previous_record.len_bytes, record_flags::HAS_LENGTH)
        | flag(!request.content.is_empty(), record_flags::HAS_CONTENT)
        | flag(has_delta_sizes(&request.content), record_flags::HAS_DELTA_SIZES)
        | flag(address_unit_bytes(request) == 1, record_flags::ADDRESSES_ARE_IN_BYTES)
}

/// Returns the number of an operation in the first byte of a record.
fn op_code(op: Op) -> u8 {
    match op {
        Op::Read => operation_code::OP_READ,
        Op::Write => operation_code::OP_WRITE,
        Op::Trim => operation_code::OP_TRIM,
        Op::Zero => operation_code::OP_ZERO,
        Op::Flush => operation_code::OP_FLUSH,
        Op::Remap(RemapMode::Copy) => operation_code::OP_REMAP_COPY,
        Op::Remap(RemapMode::Relocate) => operation_code::OP_REMAP_RELOCATE,
        Op::PhaseMarker => operation_code::OP_MARKER_INSTEAD_OF_REQUEST,
    }
}

/// Returns whether the delta size of any of these page contents is known.
fn has_delta_sizes(content: &[ContentDescriptor]) -> bool {
    content.iter().any(|descriptor| descriptor.delta_bytes != ContentDescriptor::UNKNOWN_SIZE)
}

/// Appends a number as a varint: 7 bits per byte, lowest first; the highest bit of a byte states that another follows.
fn put_varint(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// A content run (page contents encoded together) to which further contents can still be added.
#[derive(Clone, Copy)]
struct UnfinishedContentRun {
    /// Kind of the run, one of the constants in the module `run`.
    content_run_kind: u64,
    /// Number of the first content of the run.
    first_content_number: u32,
    /// Number of page contents in the run so far.
    content_count: u64,
}

impl UnfinishedContentRun {
    /// Adds one page content to the run if it continues the run; returns whether it was added.
    fn extend_with_content(&mut self, kind: u64, id: u32) -> bool {
        let follows = match (self.content_run_kind, kind) {
            (run::RUN_KIND_NEW_CONTENTS, run::RUN_KIND_NEW_CONTENTS)
            | (run::RUN_KIND_NEW_CONSECUTIVE_CONTENTS, run::RUN_KIND_NEW_CONSECUTIVE_CONTENTS) => true,
            (run::RUN_KIND_EARLIER_CONSECUTIVE_CONTENTS, run::RUN_KIND_EARLIER_CONSECUTIVE_CONTENTS)
                if u64::from(id) == u64::from(self.first_content_number) + self.content_count =>
            {
                true
            }
            (run::RUN_KIND_EARLIER_CONSECUTIVE_CONTENTS, run::RUN_KIND_EARLIER_CONSECUTIVE_CONTENTS)
                if self.content_count == 1 && id == self.first_content_number =>
            {
                self.content_run_kind = run::RUN_KIND_REPEATED_EARLIER_CONTENT;
                true
            }
            (run::RUN_KIND_REPEATED_EARLIER_CONTENT, run::RUN_KIND_EARLIER_CONSECUTIVE_CONTENTS) => {
                id == self.first_content_number
            }
            _ => false,
        };
        self.content_count += u64::from(follows);
        follows
    }

    /// Returns the number of the last content of the run.
    fn last_content_number(self) -> u32 {
        if self.content_run_kind == run::RUN_KIND_REPEATED_EARLIER_CONTENT {
            self.first_content_number
        } else {
            self.first_content_number + (self.content_count - 1) as u32
        }
    }
}

/// Numbers distinct page contents in order of their first occurrence. Contents with the same fingerprint but different
/// compressed sizes get different numbers, so that the file keeps both sizes.
#[derive(Default)]
struct ContentNumbering {
    /// Number of each distinct content, by fingerprint and compressed size (bytes).
    number_by_content: FxHashMap<(Fingerprint, u16), u32>,
    /// Fingerprint of the content that was numbered last.
    newest_fingerprint: u64,
    /// Number of the last content in the preceding content run. The next run stores its first number as the difference
    /// to it.
    last_content_number: u32,
    /// Encoded fingerprints and compressed sizes of those contents of the current content run that occur for the first
    /// time.
    encoded_new_contents: Vec<u8>,
}

impl ContentNumbering {
    /// Appends the page contents of a request to `into`, encoded as runs.
    fn put_contents(&mut self, content: &[ContentDescriptor], into: &mut Vec<u8>) {
        let mut current: Option<UnfinishedContentRun> = None;
        for descriptor in content {
            let (kind, id) = self.assign_content_number(*descriptor);
            if !current.as_mut().is_some_and(|run| run.extend_with_content(kind, id)) {
                self.put_content_run(
                    current.replace(UnfinishedContentRun {
                        content_run_kind: kind,
                        first_content_number: id,
                        content_count: 1,
                    }),
                    into,
                );
            }
            self.put_new_content(kind, *descriptor);
        }
        self.put_content_run(current, into);
    }

    /// Returns the kind of run to which a page content belongs, and the number of the content. A content that occurs
    /// for the first time gets the next number.
    fn assign_content_number(&mut self, descriptor: ContentDescriptor) -> (u64, u32) {
        let next = self.number_by_content.len() as u32;
        let id = *self
            .number_by_content
            .entry((descriptor.fingerprint, descriptor.compressed_bytes))
            .or_insert(next);
        let follows = descriptor.fingerprint.0 == self.newest_fingerprint.wrapping_add(1);
        let kind = match id == next {
            false => run::RUN_KIND_EARLIER_CONSECUTIVE_CONTENTS,
            true if follows => run::RUN_KIND_NEW_CONSECUTIVE_CONTENTS,
            true => run::RUN_KIND_NEW_CONTENTS,
        };
        (kind, id)
    }

    /// Encodes fingerprint and compressed size of a content that occurs for the first time; nothing for a known
    /// content.
    fn put_new_content(&mut self, kind: u64, descriptor: ContentDescriptor) {
        if kind == run::RUN_KIND_NEW_CONTENTS {
            self.encoded_new_contents.extend(descriptor.fingerprint.0.to_le_bytes());
        }
        if kind == run::RUN_KIND_NEW_CONTENTS || kind == run::RUN_KIND_NEW_CONSECUTIVE_CONTENTS {
            self.encoded_new_contents.extend(descriptor.compressed_bytes.to_le_bytes());
            self.newest_fingerprint = descriptor.fingerprint.0;
        }
    }

    /// Appends a finished content run (page contents encoded together) to `into`: its kind, its length, the number of
    /// its first content, and its new contents.
    fn put_content_run(&mut self, run: Option<UnfinishedContentRun>, into: &mut Vec<u8>) {
        let Some(run) = run else { return };
        put_varint(into, (run.content_count - 1) << 2 | run.content_run_kind);
        if run.content_run_kind == run::RUN_KIND_EARLIER_CONSECUTIVE_CONTENTS
            || run.content_run_kind == run::RUN_KIND_REPEATED_EARLIER_CONTENT
        {
            put_varint(
                into,
                zigzag(
                    u64::from(run.first_content_number).wrapping_sub(u64::from(self.last_content_number) + 1),
                ),
            );
        }
        into.append(&mut self.encoded_new_contents);
        self.last_content_number = run.last_content_number();
    }
}
