//! Parser of SPC traces (`UMass` Financial, `WebSearch`): `ASU,LBA,Size,Opcode,Timestamp`; further columns are ignored.
//!
//! The address counts 512-byte blocks of one application storage unit (ASU), so each unit is a device of its own. Sizes
//! are in bytes and times in seconds with a fraction.

use crate::error::ParseRefusal;
use crate::read::fields::CommaSeparatedFields;
use crate::read::{LineFormat, ParseOutcome};
use crate::{Format, Op, Request};

/// Error message about a wrong time.
const TIME_REQUIREMENT: &str = "the fifth field of the line must be the time in seconds, such as 0.000125";

/// Parser of the lines of traces of the Storage Performance Council (SPC).
pub(crate) struct Spc;

impl LineFormat for Spc {
    const FORMAT: Format = Format::Spc;
    const MAY_HAVE_HEADER: bool = true;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        let mut fields = CommaSeparatedFields::new(line);
        into.device = fields.next_u32(
            "the first field of the line must be the storage unit, a whole number from 0 to 4294967295",
        )?;
        let offset = fields.next_field().parse_sectors_as_bytes(
            "the second field of the line must be the first block of 512 bytes, a whole number below 2^55",
        )?;
        let len =
            fields.next_number("the third field of the line must be the size, a whole number of bytes")?;
        let opcode = fields.next_field();
        let op = match opcode.text {
            b"r" | b"R" => Op::Read,
            b"w" | b"W" => Op::Write,
            _ => {
                return opcode
                    .refuse("the fourth field of the line must be the operation, R (read) or W (write)");
            }
        };
        let time = fields.next_word(TIME_REQUIREMENT)?.parse_decimal(9, TIME_REQUIREMENT)?;
        into.set_common_fields(time, op, offset, len);
        Ok(ParseOutcome::Request)
    }
}
