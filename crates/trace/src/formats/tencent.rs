//! Parser of the Tencent CBS traces: `Timestamp,Offset,Size,IOType,VolumeID`, in seconds and 512-byte sectors; type 0
//! is a read, 1 a write.
//!
//! Times have a resolution of one second. Requests of the same second keep the order of the file.

use crate::error::ParseRefusal;
use crate::read::fields::{CommaFields, checked_product};
use crate::read::{LineFormat, ParseOutcome};
use crate::{Format, Op, Request};

/// Parser of the lines of Tencent cloud block storage traces.
pub(crate) struct Tencent;

impl LineFormat for Tencent {
    const FORMAT: Format = Format::Tencent;
    const MAY_HAVE_HEADER: bool = true;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        let mut fields = CommaFields::new(line);
        let seconds = fields.next_number("a time in seconds")?;
        let offset = fields.next_field().parse_sectors_as_bytes("an offset in sectors")?;
        let len = fields.next_field().parse_sectors_as_bytes("a size in sectors")?;
        let kind = fields.next_field();
        let op = match kind.text {
            b"0" => Op::Read,
            b"1" => Op::Write,
            _ => return kind.refuse("type 0 (read) or 1 (write)"),
        };
        into.device = fields.next_u32("a volume number")?;
        fields.require_end("five columns")?;
        let time_ns = checked_product(seconds, 1_000_000_000, 0, "a time that fits in 64 bits")?;
        into.set_common_fields(time_ns, op, offset, len);
        Ok(ParseOutcome::Request)
    }
}
