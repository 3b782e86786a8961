//! Parser of the Alibaba block traces: `device_id,opcode,offset,length,timestamp`, in bytes and microseconds.

use crate::error::Bad;
use crate::read::fields::{Commas, times};
use crate::read::{LineFormat, Parsed};
use crate::{Format, Op, Request};

pub(crate) struct Alibaba;

impl LineFormat for Alibaba {
    const FORMAT: Format = Format::Alibaba;
    const MAY_HAVE_HEADER: bool = true;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<Parsed, Bad> {
        let mut fields = Commas::new(line);
        into.device = fields.small("a device number")?;
        let opcode = fields.field();
        let op = match opcode.text {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return opcode.bad("opcode R or W"),
        };
        let offset = fields.number("an offset in bytes")?;
        let len = fields.number("a length in bytes")?;
        let time = fields.word("a time in microseconds")?;
        fields.finish("five columns")?;
        let time_us = time.number("a time in microseconds")?;
        into.set(times(time_us, 1000, time.at, "a time that fits")?, op, offset, len);
        Ok(Parsed::Request)
    }
}
