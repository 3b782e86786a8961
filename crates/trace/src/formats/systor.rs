//! Parser of the SYSTOR '17 traces: `Timestamp,Response,IOType,LUN,Offset,Size`, in seconds and bytes, with a header
//! line.
//!
//! The device is the logical unit number (LUN). The response time may be empty and is not used.

use crate::error::Bad;
use crate::read::fields::Commas;
use crate::read::{LineFormat, Parsed};
use crate::{Format, Op, Request};

#[derive(Default)]
pub(crate) struct Systor {
    started: bool,
}

impl LineFormat for Systor {
    const FORMAT: Format = Format::Systor;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<Parsed, Bad> {
        let first = !std::mem::replace(&mut self.started, true);
        if first && line.starts_with(b"Timestamp,Response,IOType,LUN") {
            return Ok(Parsed::Other);
        }
        let mut fields = Commas::new(line);
        let time_ns = fields.word("a time in seconds")?.decimal(9, "a time in seconds")?;
        fields.field();
        let kind = fields.field();
        let op = match kind.text {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return kind.bad("type R or W"),
        };
        into.device = fields.small("a logical unit number")?;
        let offset = fields.number("an offset in bytes")?;
        let len = fields.number("a size in bytes")?;
        fields.finish("six columns")?;
        into.set(time_ns, op, offset, len);
        Ok(Parsed::Request)
    }
}
