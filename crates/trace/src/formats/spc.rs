//! Parser of SPC traces (`UMass` Financial, `WebSearch`): `ASU,LBA,Size,Opcode,Timestamp`; further columns are ignored.
//!
//! The address counts 512-byte blocks of one application storage unit (ASU), so each unit is a device of its own. Sizes
//! are in bytes and times in seconds with a fraction.

use crate::error::ParseRefusal;
use crate::read::fields::CommaFields;
use crate::read::{LineFormat, ParseOutcome};
use crate::{Format, Op, Request};

/// Parser of the lines of traces of the Storage Performance Council (SPC).
pub(crate) struct Spc;

impl LineFormat for Spc {
    const FORMAT: Format = Format::Spc;
    const MAY_HAVE_HEADER: bool = true;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        let mut fields = CommaFields::new(line);
        into.device = fields.next_u32("a storage unit number")?;
        let offset = fields.next_field().parse_sectors_as_bytes("a block address")?;
        let len = fields.next_number("a size in bytes")?;
        let opcode = fields.next_field();
        let op = match opcode.text {
            b"r" | b"R" => Op::Read,
            b"w" | b"W" => Op::Write,
            _ => return opcode.refuse("opcode R or W"),
        };
        let time = fields.next_word("a time in seconds")?.parse_decimal(9, "a time in seconds")?;
        into.set_common_fields(time, op, offset, len);
        Ok(ParseOutcome::Request)
    }
}
