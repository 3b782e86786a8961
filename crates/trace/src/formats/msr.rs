//! Parser of the MSR Cambridge traces: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//!
//! Times are Windows file times (units of 100 ns since 1601); offsets and sizes are in bytes. The device is the disk
//! number. The host name is ignored, because each published file holds the requests of one host.

use crate::error::ParseRefusal;
use crate::read::fields::{CommaSeparatedFields, checked_product};
use crate::read::{LineFormat, ParseOutcome};
use crate::{Format, Op, Request};

/// Parser of the lines of MSR Cambridge traces.
pub(crate) struct Msr;

impl LineFormat for Msr {
    const FORMAT: Format = Format::Msr;
    const MAY_HAVE_HEADER: bool = true;

    #[inline]
    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        let mut fields = CommaSeparatedFields::new(line);
        let time = fields
            .next_number("the first field of the line must be the time, a whole number in units of 100 ns")?;
        fields.next_word("the second field of the line must be a host name")?;
        into.device = fields
            .next_u32("the third field of the line must be the disk, a whole number from 0 to 4294967295")?;
        let kind = fields.next_field();
        let op = match kind.text {
            b"Read" | b"read" => Op::Read,
            b"Write" | b"write" => Op::Write,
            _ => return kind.refuse("the fourth field of the line must be Read or Write"),
        };
        let offset =
            fields.next_number("the fifth field of the line must be the offset, a whole number of bytes")?;
        let len =
            fields.next_number("the sixth field of the line must be the size, a whole number of bytes")?;
        fields.next_number("the seventh field of the line must be the response time, a whole number")?;
        fields.require_end("the line must end after its seventh field")?;
        into.set_common_fields(
            checked_product(
                time,
                100,
                0,
                "the first field of the line, the time in units of 100 ns, must be at most 184467440737095516",
            )?,
            op,
            offset,
            len,
        );
        Ok(ParseOutcome::Request)
    }
}
