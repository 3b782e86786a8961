//! Parser of the MSR Cambridge traces: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//!
//! Times are Windows file times (units of 100 ns since 1601); offsets and sizes are in bytes. The device is the disk
//! number. The host name is ignored, because each published file holds the requests of one host.

use crate::error::Bad;
use crate::read::fields::{Commas, times};
use crate::read::{LineFormat, Parsed};
use crate::{Format, Op, Request};

pub(crate) struct Msr;

impl LineFormat for Msr {
    const FORMAT: Format = Format::Msr;
    const MAY_HAVE_HEADER: bool = true;

    #[inline]
    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<Parsed, Bad> {
        let mut fields = Commas::new(line);
        let time = fields.number("a timestamp in units of 100 ns")?;
        fields.word("a host name")?;
        into.device = fields.small("a disk number")?;
        let kind = fields.field();
        let op = match kind.text {
            b"Read" | b"read" => Op::Read,
            b"Write" | b"write" => Op::Write,
            _ => return kind.bad("Read or Write"),
        };
        let offset = fields.number("an offset in bytes")?;
        let len = fields.number("a size in bytes")?;
        fields.number("a response time")?;
        fields.finish("seven columns")?;
        into.set(times(time, 100, 0, "a timestamp that fits")?, op, offset, len);
        Ok(Parsed::Request)
    }
}
