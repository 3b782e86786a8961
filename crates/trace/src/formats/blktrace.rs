//! Parser of blktrace's binary records: 48 bytes each, followed by a payload whose length the record holds.
//!
//! A record is `magic u32, sequence u32, time u64 (ns), sector u64, bytes u32, action u32, pid u32, device u32, cpu
//! u32, error u16, payload length u16`, in the byte order of the recording machine. The low half of the action is the
//! stage of the request; events of one stage are taken, as in [`super::blkparse`]. The high half is a set of
//! categories.

use crate::error::ParseRefusal;
use crate::read::fields::checked_product;
use crate::read::options::BlockLayerStage;
use crate::read::{ParseOutcome, RecordFormat};
use crate::{Format, Op, Request, SECTOR_BYTES};

/// Bytes of a blktrace record before its payload.
const RECORD_HEADER_BYTES: usize = 48;
/// Magic number of a blktrace record; its low byte holds the version of the format.
const MAGIC: u32 = 0x6561_7400;
/// Error message about a record that does not begin with the magic number.
const MAGIC_REQUIREMENT: &str = "a record must begin with the magic number 0x656174xx of blktrace, whose last byte is \
                                 the version of the format";

/// Bit of the field `action` of a blktrace record: the request is a write.
const CATEGORY_WRITE: u32 = 1 << 17;
/// Bit of the field `action` of a blktrace record: the request flushes the write cache of the device.
const CATEGORY_FLUSH: u32 = 1 << 18;
/// Bit of the field `action` of a blktrace record: a pass-through command, which is skipped.
const CATEGORY_PASS_THROUGH: u32 = 1 << 25;
/// Bit of the field `action` of a blktrace record: a message of the tracer and no request; it is skipped.
const CATEGORY_NOTIFY: u32 = 1 << 26;
/// Bit of the field `action` of a blktrace record: the request is a discard (TRIM).
const CATEGORY_DISCARD: u32 = 1 << 29;

/// Parser of the binary records of blktrace (events of the Linux block layer).
pub(crate) struct Blktrace {
    /// Stage (queued, issued or completed) of which events are read as requests; events of other stages are skipped.
    accepted_stage: BlockLayerStage,
}

impl Blktrace {
    pub(crate) fn new(accepted_stage: BlockLayerStage) -> Self {
        Self { accepted_stage }
    }

    /// Returns whether a file begins with a blktrace record, in either byte order.
    pub(crate) fn matches_signature(head: &[u8]) -> bool {
        head.len() >= RECORD_HEADER_BYTES && ByteOrder::of_record(head).is_some()
    }
}

/// Byte order of the numbers in a blktrace record, which is that of the recording machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteOrder {
    /// The least significant byte of a number comes first.
    Little,
    /// The most significant byte of a number comes first.
    Big,
}

impl ByteOrder {
    /// Returns the byte order of a record by its magic number; `None` if the magic number is not blktrace's.
    fn of_record(record: &[u8]) -> Option<Self> {
        let magic: [u8; 4] = record[..4].try_into().expect("four bytes");
        let is_magic = |word: u32| word & !0xff == MAGIC;
        if is_magic(u32::from_le_bytes(magic)) {
            Some(Self::Little)
        } else {
            is_magic(u32::from_be_bytes(magic)).then_some(Self::Big)
        }
    }

    /// Reads an unsigned number of `len` bytes at offset `at` of the record, in this byte order.
    fn read_number(self, record: &[u8], at: usize, len: usize) -> u64 {
        let bytes = &record[at..at + len];
        let fold = |value: u64, &byte: &u8| value << 8 | u64::from(byte);
        match self {
            Self::Little => bytes.iter().rev().fold(0, fold),
            Self::Big => bytes.iter().fold(0, fold),
        }
    }
}

impl RecordFormat for Blktrace {
    const FORMAT: Format = Format::Blktrace;
    /// Number of bytes at the start of a record from which its length is computed: the header, that is all before the
    /// payload.
    const HEAD_BYTES: usize = RECORD_HEADER_BYTES;

    /// Returns the length of the record, bytes: header and payload.
    fn record_len(&mut self, head: &[u8]) -> Result<usize, ParseRefusal> {
        let order = ByteOrder::of_record(head).ok_or(ParseRefusal::of_whole_record(MAGIC_REQUIREMENT))?;
        Ok(RECORD_HEADER_BYTES + order.read_number(head, 46, 2) as usize)
    }

    fn parse(&mut self, record: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        let order = ByteOrder::of_record(record).ok_or(ParseRefusal::of_whole_record(MAGIC_REQUIREMENT))?;
        let action = order.read_number(record, 28, 4) as u32;
        let len = order.read_number(record, 24, 4);
        let notice = action & (CATEGORY_NOTIFY | CATEGORY_PASS_THROUGH) != 0;
        let Some(op) = operation_of_action(action, len)
            .filter(|_| !notice && action & 0xffff == action_code_of_stage(self.accepted_stage))
        else {
            return Ok(ParseOutcome::NotARequest);
        };
        let sector = order.read_number(record, 16, 8);
        let offset = if op == Op::Flush {
            0
        } else {
            checked_product(sector, SECTOR_BYTES, 0, "the first sector of a request must be below 2^55")?
        };
        into.set_common_fields(order.read_number(record, 8, 8), op, offset, len);
        into.device = order.read_number(record, 36, 4) as u32;
        Ok(ParseOutcome::Request)
    }
}

/// Returns the blktrace action code (`__BLK_TA_*`) for a stage of a request: queued, issued or completed.
fn action_code_of_stage(action: BlockLayerStage) -> u32 {
    match action {
        BlockLayerStage::Queue => 1,
        BlockLayerStage::Issue => 7,
        BlockLayerStage::Complete => 8,
    }
}

/// Returns the operation of a request from the category bits in the action of its record; `None` if the request moves
/// no data.
fn operation_of_action(action: u32, len_bytes: u64) -> Option<Op> {
    if action & CATEGORY_FLUSH != 0 && len_bytes == 0 {
        return Some(Op::Flush);
    }
    match action {
        _ if len_bytes == 0 => None,
        _ if action & CATEGORY_DISCARD != 0 => Some(Op::Trim),
        _ if action & CATEGORY_WRITE != 0 => Some(Op::Write),
        _ => Some(Op::Read),
    }
}
