//! Parser of the Tencent CBS traces: `Timestamp,Offset,Size,IOType,VolumeID`, in seconds and 512-byte sectors; type 0
//! is a read, 1 a write.
//!
//! Times have a resolution of one second. Requests of the same second keep the order of the file.

use crate::error::Bad;
use crate::read::fields::{Commas, times};
use crate::read::{LineFormat, Parsed};
use crate::{Format, Op, Request};

pub(crate) struct Tencent;

impl LineFormat for Tencent {
    const FORMAT: Format = Format::Tencent;
    const MAY_HAVE_HEADER: bool = true;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<Parsed, Bad> {
        let mut fields = Commas::new(line);
        let seconds = fields.number("a time in seconds")?;
        let offset = fields.field().sectors("an offset in sectors")?;
        let len = fields.field().sectors("a size in sectors")?;
        let kind = fields.field();
        let op = match kind.text {
            b"0" => Op::Read,
            b"1" => Op::Write,
            _ => return kind.bad("type 0 (read) or 1 (write)"),
        };
        into.device = fields.small("a volume number")?;
        fields.finish("five columns")?;
        let time_ns = times(seconds, 1_000_000_000, 0, "a time that fits")?;
        into.set(time_ns, op, offset, len);
        Ok(Parsed::Request)
    }
}
