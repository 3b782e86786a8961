//! Parser of `libCacheSim`'s `oracleGeneral`: little-endian records of 24 bytes, `time u32 (s), object u64, size u32,
//! next i64`.
//!
//! The format has no operation and no signature. It is therefore read only if the user names it and states whether the
//! requests are reads or writes. The object number is taken as the address of a 512-byte block, which is true of traces
//! that were made from block traces. Object numbers that are hashes are refused because they are too large.

use super::vscsi::read_little_endian;
use crate::error::ParseRefusal;
use crate::read::fields::checked_product;
use crate::read::options::AssumedOp;
use crate::read::{ParseOutcome, RecordFormat};
use crate::{Format, Op, Request, SECTOR_BYTES};

/// Parser of the records of `libCacheSim` traces in the format `oracleGeneral`.
pub(crate) struct OracleGeneral {
    /// Operation of all requests, which the user states because the records have none.
    pub assumed_op: AssumedOp,
}

impl RecordFormat for OracleGeneral {
    const FORMAT: Format = Format::OracleGeneral;
    /// Length of a record, bytes. All records of this format have this length.
    const HEAD_BYTES: usize = 24;

    /// Returns the length of a record, bytes, which is the same for all.
    fn record_len(&mut self, _head: &[u8]) -> Result<usize, ParseRefusal> {
        Ok(Self::HEAD_BYTES)
    }

    fn parse(&mut self, record: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        let op = match self.assumed_op {
            AssumedOp::Reads => Op::Read,
            AssumedOp::Writes => Op::Write,
        };
        let offset = checked_product(
            read_little_endian(record, 4, 8),
            SECTOR_BYTES,
            0,
            "the object number of a record must be below 2^55, since it counts blocks of 512 bytes",
        )?;
        into.set_common_fields(
            read_little_endian(record, 0, 4) * 1_000_000_000,
            op,
            offset,
            read_little_endian(record, 12, 4),
        );
        Ok(ParseOutcome::Request)
    }
}
