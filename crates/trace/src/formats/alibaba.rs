//! Parser of the Alibaba block traces: `device_id,opcode,offset,length,timestamp`, in bytes and microseconds.

use crate::error::ParseRefusal;
use crate::read::fields::{CommaSeparatedFields, checked_product};
use crate::read::{LineFormat, ParseOutcome};
use crate::{Format, Op, Request};

/// Error message about a wrong time.
const TIME_REQUIREMENT: &str = "the fifth field of the line must be the time, a whole number of microseconds";

/// Parser of the lines of Alibaba cloud block traces.
pub(crate) struct Alibaba;

impl LineFormat for Alibaba {
    const FORMAT: Format = Format::Alibaba;
    const MAY_HAVE_HEADER: bool = true;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        let mut fields = CommaSeparatedFields::new(line);
        into.device = fields.next_u32(
            "the first field of the line must be the device, a whole number from 0 to 4294967295",
        )?;
        let opcode = fields.next_field();
        let op = match opcode.text {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => {
                return opcode
                    .refuse("the second field of the line must be the operation, R (read) or W (write)");
            }
        };
        let offset =
            fields.next_number("the third field of the line must be the offset, a whole number of bytes")?;
        let len =
            fields.next_number("the fourth field of the line must be the length, a whole number of bytes")?;
        let time = fields.next_word(TIME_REQUIREMENT)?;
        fields.require_end("the line must end after its fifth field")?;
        let time_us = time.parse_number(TIME_REQUIREMENT)?;
        into.set_common_fields(
            checked_product(
                time_us,
                1000,
                time.byte_offset,
                "the fifth field of the line, the time, must be at most 18446744073709551 microseconds",
            )?,
            op,
            offset,
            len,
        );
        Ok(ParseOutcome::Request)
    }
}
