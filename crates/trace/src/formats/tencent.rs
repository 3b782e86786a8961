//! Parser of the Tencent CBS traces: `Timestamp,Offset,Size,IOType,VolumeID`, in seconds and 512-byte sectors; type 0
//! is a read, 1 a write.
//!
//! Times have a resolution of one second. Requests of the same second keep the order of the file.

use crate::error::ParseRefusal;
use crate::read::fields::{CommaSeparatedFields, checked_product};
use crate::read::{LineFormat, ParseOutcome};
use crate::{Format, Op, Request};

/// Parser of the lines of Tencent cloud block storage traces.
pub(crate) struct Tencent;

impl LineFormat for Tencent {
    const FORMAT: Format = Format::Tencent;
    const MAY_HAVE_HEADER: bool = true;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        let mut fields = CommaSeparatedFields::new(line);
        let seconds =
            fields.next_number("the first field of the line must be the time, a whole number of seconds")?;
        let offset = fields.next_field().parse_sectors_as_bytes(
            "the second field of the line must be the first sector, a whole number below 2^55",
        )?;
        let len = fields.next_field().parse_sectors_as_bytes(
            "the third field of the line must be the number of sectors, a whole number below 2^55",
        )?;
        let kind = fields.next_field();
        let op = match kind.text {
            b"0" => Op::Read,
            b"1" => Op::Write,
            _ => return kind.refuse("the fourth field of the line must be the type, 0 (read) or 1 (write)"),
        };
        into.device = fields.next_u32(
            "the fifth field of the line must be the volume, a whole number from 0 to 4294967295",
        )?;
        fields.require_end("the line must end after its fifth field")?;
        let time_ns = checked_product(
            seconds,
            1_000_000_000,
            0,
            "the first field of the line, the time, must be at most 18446744073 seconds",
        )?;
        into.set_common_fields(time_ns, op, offset, len);
        Ok(ParseOutcome::Request)
    }
}
