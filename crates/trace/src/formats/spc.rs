//! Parser of SPC traces (`UMass` Financial, `WebSearch`): `ASU,LBA,Size,Opcode,Timestamp`; further columns are ignored.
//!
//! The address counts 512-byte blocks of one application storage unit (ASU), so each unit is a device of its own. Sizes
//! are in bytes and times in seconds with a fraction.

use crate::error::Bad;
use crate::read::fields::Commas;
use crate::read::{LineFormat, Parsed};
use crate::{Format, Op, Request};

pub(crate) struct Spc;

impl LineFormat for Spc {
    const FORMAT: Format = Format::Spc;
    const MAY_HAVE_HEADER: bool = true;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<Parsed, Bad> {
        let mut fields = Commas::new(line);
        into.device = fields.small("a storage unit number")?;
        let offset = fields.field().sectors("a block address")?;
        let len = fields.number("a size in bytes")?;
        let opcode = fields.field();
        let op = match opcode.text {
            b"r" | b"R" => Op::Read,
            b"w" | b"W" => Op::Write,
            _ => return opcode.bad("opcode R or W"),
        };
        let time = fields.word("a time in seconds")?.decimal(9, "a time in seconds")?;
        into.set(time, op, offset, len);
        Ok(Parsed::Request)
    }
}
