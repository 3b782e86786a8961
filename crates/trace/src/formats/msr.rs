//! Parser of the MSR Cambridge traces: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//!
//! Times are Windows file times (units of 100 ns since 1601); offsets and sizes are in bytes. The device is the disk
//! number. The host name is ignored, because each published file holds the requests of one host.

use crate::error::ParseRefusal;
use crate::read::fields::{CommaFields, checked_product};
use crate::read::{LineFormat, ParseOutcome};
use crate::{Format, Op, Request};

/// Parser of the lines of MSR Cambridge traces.
pub(crate) struct Msr;

impl LineFormat for Msr {
    const FORMAT: Format = Format::Msr;
    const MAY_HAVE_HEADER: bool = true;

    #[inline]
    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        let mut fields = CommaFields::new(line);
        let time = fields.next_number("a timestamp in units of 100 ns")?;
        fields.next_word("a host name")?;
        into.device = fields.next_u32("a disk number")?;
        let kind = fields.next_field();
        let op = match kind.text {
            b"Read" | b"read" => Op::Read,
            b"Write" | b"write" => Op::Write,
            _ => return kind.refuse("Read or Write"),
        };
        let offset = fields.next_number("an offset in bytes")?;
        let len = fields.next_number("a size in bytes")?;
        fields.next_number("a response time")?;
        fields.require_end("seven columns")?;
        into.set_common_fields(
            checked_product(time, 100, 0, "a timestamp that fits in 64 bits")?,
            op,
            offset,
            len,
        );
        Ok(ParseOutcome::Request)
    }
}
