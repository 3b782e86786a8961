//! Parser of `CloudPhysics` vSCSI traces as `libCacheSim` stores them: little-endian records of 32 (v1) or 40 bytes
//! (v2).
//!
//! A v1 record is `sequence, length, segments u32; command, version u16; block, time u64`. A v2 record is `command,
//! version u16; sequence, length, segments u32; block, time, response time u64`. Lengths are in bytes, block numbers
//! count 512 bytes, times are in microseconds, and the command is the SCSI opcode. Commands other than reads, writes,
//! write-same and cache flushes are skipped.

use crate::error::ParseRefusal;
use crate::read::fields::checked_product;
use crate::read::{ParseOutcome, RecordFormat};
use crate::{Format, Op, Request, SECTOR_BYTES};

/// Layout of a vSCSI trace record of one version: offsets of its fields, in bytes.
#[derive(Clone, Copy)]
struct RecordLayout {
    /// Version of the vSCSI trace format (1 or 2) whose records have this layout.
    version: u8,
    /// Bytes of one record.
    record_bytes: usize,
    /// Offset in the record of the field with the length of the request, bytes.
    length_offset_bytes: usize,
    /// Offset in the record of the field with the SCSI opcode, bytes.
    command_offset_bytes: usize,
    /// Offset in the record of the field with the first block number of the request, bytes.
    lba_offset_bytes: usize,
}

/// Layouts of the records of both known versions of the vSCSI trace format.
const RECORD_LAYOUTS: [RecordLayout; 2] = [
    RecordLayout {
        version: 1,
        record_bytes: 32,
        length_offset_bytes: 4,
        command_offset_bytes: 12,
        lba_offset_bytes: 16,
    },
    RecordLayout {
        version: 2,
        record_bytes: 40,
        length_offset_bytes: 8,
        command_offset_bytes: 0,
        lba_offset_bytes: 16,
    },
];

impl RecordLayout {
    /// Returns whether the record is long enough for this layout and contains the version of the layout.
    fn fits_record(self, record: &[u8]) -> bool {
        record.len() >= self.record_bytes && record[self.command_offset_bytes + 3] == self.version
    }
}

/// Parser of the records of `CloudPhysics` vSCSI traces.
#[derive(Default)]
pub(crate) struct Vscsi {
    /// Layout of the trace's records; `None` before the first record.
    layout: Option<RecordLayout>,
}

impl Vscsi {
    /// Returns whether the first record of a file, and the second if there is one, have the same known version of the
    /// vSCSI trace format.
    pub(crate) fn matches_version(head: &[u8]) -> bool {
        RECORD_LAYOUTS.iter().any(|layout| {
            let second = head.get(layout.record_bytes..).unwrap_or_default();
            layout.fits_record(head) && (second.is_empty() || layout.fits_record(second))
        })
    }
}

impl RecordFormat for Vscsi {
    const FORMAT: Format = Format::Vscsi;
    /// Number of bytes at the start of a record from which its version, and so its length, is known: a record of the
    /// shorter version.
    const HEAD_BYTES: usize = 32;

    /// Returns the length of the record, bytes, which depends on its version.
    fn record_len(&mut self, head: &[u8]) -> Result<usize, ParseRefusal> {
        // The head is shorter than a v2 record, so `RecordLayout::fits_record` cannot be used: compare the
        // version only, which is inside the head.
        let of_version = |layout: &&RecordLayout| head[layout.command_offset_bytes + 3] == layout.version;
        let layout = self.layout.or_else(|| RECORD_LAYOUTS.iter().find(of_version).copied());
        self.layout = layout;
        layout
            .map(|layout| layout.record_bytes)
            .ok_or(ParseRefusal::of_whole_record("a record of a vSCSI trace must be of version 1 or 2"))
    }

    fn parse(&mut self, record: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        let layout = self.layout.expect("the length was asked for first");
        if !layout.fits_record(record) {
            return Err(ParseRefusal::of_whole_record(
                "a record of a vSCSI trace must be of the same version as the first record",
            ));
        }
        let Some(op) = operation_of_scsi_command(read_little_endian(record, layout.command_offset_bytes, 2))
        else {
            return Ok(ParseOutcome::NotARequest);
        };
        let time_ns = checked_product(
            read_little_endian(record, layout.lba_offset_bytes + 8, 8),
            1000,
            0,
            "the time of a record must be at most 18446744073709551 microseconds",
        )?;
        let offset = checked_product(
            read_little_endian(record, layout.lba_offset_bytes, 8),
            SECTOR_BYTES,
            0,
            "the first block of a record, which counts 512 bytes, must be below 2^55",
        )?;
        match op {
            Op::Flush => into.set_common_fields(time_ns, op, 0, 0),
            _ => into.set_common_fields(
                time_ns,
                op,
                offset,
                read_little_endian(record, layout.length_offset_bytes, 4),
            ),
        }
        Ok(ParseOutcome::Request)
    }
}

/// Returns the operation of a SCSI opcode, in its variants of 6, 10, 12 and 16 bytes; `None` for commands that a trace
/// request cannot express, which are skipped.
fn operation_of_scsi_command(command: u64) -> Option<Op> {
    match command {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Op::Read),
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0x8e => Some(Op::Write),
        0x41 | 0x93 => Some(Op::Zero),
        0x35 | 0x91 => Some(Op::Flush),
        _ => None,
    }
}

/// Reads a little-endian number of `len` bytes at offset `at` of the record.
pub(crate) fn read_little_endian(record: &[u8], at: usize, len: usize) -> u64 {
    record[at..at + len].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}
