//! Parser of the Alibaba block traces: `device_id,opcode,offset,length,timestamp`, in bytes and microseconds.

use crate::error::ParseRefusal;
use crate::read::fields::{CommaFields, checked_product};
use crate::read::{LineFormat, ParseOutcome};
use crate::{Format, Op, Request};

/// Parser of the lines of Alibaba cloud block traces.
pub(crate) struct Alibaba;

impl LineFormat for Alibaba {
    const FORMAT: Format = Format::Alibaba;
    const MAY_HAVE_HEADER: bool = true;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        let mut fields = CommaFields::new(line);
        into.device = fields.next_u32("a device number")?;
        let opcode = fields.next_field();
        let op = match opcode.text {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return opcode.refuse("opcode R or W"),
        };
        let offset = fields.next_number("an offset in bytes")?;
        let len = fields.next_number("a length in bytes")?;
        let time = fields.next_word("a time in microseconds")?;
        fields.require_end("five columns")?;
        let time_us = time.parse_number("a time in microseconds")?;
        into.set_common_fields(
            checked_product(time_us, 1000, time.byte_offset, "a time that fits in 64 bits")?,
            op,
            offset,
            len,
        );
        Ok(ParseOutcome::Request)
    }
}
