//! Parser of NBD transaction logs: big-endian requests of 28 bytes and replies of 16 bytes, as sent on the network.
//!
//! A request is `magic u32, flags u16, command u16, handle u64, offset u64, length u32`. Replies are skipped. The log
//! contains neither times nor payload, so every request gets time 0. Flags for forced unit access are ignored.

use crate::error::ParseRefusal;
use crate::read::{ParseOutcome, RecordFormat};
use crate::{Format, Op, Request};

/// Magic number in the first four bytes of an NBD request.
const REQUEST_MAGIC: [u8; 4] = [0x25, 0x60, 0x95, 0x13];
/// Magic number in the first four bytes of an NBD reply.
const REPLY_MAGIC: [u8; 4] = [0x67, 0x44, 0x66, 0x98];
/// Bytes of an NBD request before its payload.
const REQUEST_HEADER_BYTES: usize = 28;
/// Bytes of an NBD reply before its payload.
const REPLY_HEADER_BYTES: usize = 16;

/// Parser of the records of NBD transaction logs.
pub(crate) struct Nbd;

impl Nbd {
    /// Returns whether a file begins with an NBD request.
    pub(crate) fn matches_signature(head: &[u8]) -> bool {
        head.starts_with(&REQUEST_MAGIC)
    }
}

impl RecordFormat for Nbd {
    const FORMAT: Format = Format::Nbd;
    /// Number of bytes at the start of a record from which its length is computed: those of a reply, which is the
    /// shortest record.
    const HEAD_BYTES: usize = REPLY_HEADER_BYTES;

    /// Returns the length of the request or reply that begins with `head`, bytes.
    fn record_len(&mut self, head: &[u8]) -> Result<usize, ParseRefusal> {
        match head[..4].try_into().expect("four bytes") {
            REQUEST_MAGIC => Ok(REQUEST_HEADER_BYTES),
            REPLY_MAGIC => Ok(REPLY_HEADER_BYTES),
            _ => Err(ParseRefusal::of_whole_record(
                "a record must begin with the magic number of an NBD request (0x25609513) or reply (0x67446698)",
            )),
        }
    }

    fn parse(&mut self, record: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        if record.len() == REPLY_HEADER_BYTES {
            return Ok(ParseOutcome::NotARequest);
        }
        let be = |at: usize, len: usize| {
            record[at..at + len].iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
        };
        let op = match be(6, 2) {
            0 => Op::Read,
            1 => Op::Write,
            3 => Op::Flush,
            4 => Op::Trim,
            6 => Op::Zero,
            2 | 5 | 7 | 8 => return Ok(ParseOutcome::NotARequest), // disconnect, cache, block status, resize
            _ => {
                return Err(ParseRefusal::of_whole_record(
                    "the command number of an NBD request must be at most 8",
                ));
            }
        };
        match op {
            Op::Flush => into.set_common_fields(0, op, 0, 0),
            _ => into.set_common_fields(0, op, be(16, 8), be(24, 4)),
        }
        Ok(ParseOutcome::Request)
    }
}
