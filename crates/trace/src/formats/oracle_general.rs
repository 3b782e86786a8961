//! Parser of `libCacheSim`'s `oracleGeneral`: little-endian records of 24 bytes, `time u32 (s), object u64, size u32,
//! next i64`.
//!
//! The format has no operation and no signature. It is therefore read only if the user names it and states whether the
//! requests are reads or writes. The object number is taken as the address of a 512-byte block, which is true of traces
//! that were made from block traces. Object numbers that are hashes are refused because they are too large.

use super::vscsi::le;
use crate::error::Bad;
use crate::read::fields::times;
use crate::read::open::Assume;
use crate::read::{Parsed, RecordFormat};
use crate::{Format, Op, Request, SECTOR_BYTES};

pub(crate) struct OracleGeneral {
    pub assume: Assume,
}

impl RecordFormat for OracleGeneral {
    const FORMAT: Format = Format::OracleGeneral;
    const HEAD_BYTES: usize = 24;

    fn len(&mut self, _head: &[u8]) -> Result<usize, Bad> {
        Ok(Self::HEAD_BYTES)
    }

    fn parse(&mut self, record: &[u8], into: &mut Request) -> Result<Parsed, Bad> {
        let op = match self.assume {
            Assume::Reads => Op::Read,
            Assume::Writes => Op::Write,
        };
        let offset = times(le(record, 4, 8), SECTOR_BYTES, 0, "an object number below 2^55")?;
        into.set(le(record, 0, 4) * 1_000_000_000, op, offset, le(record, 12, 4));
        Ok(Parsed::Request)
    }
}
