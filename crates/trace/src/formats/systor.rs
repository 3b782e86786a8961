//! Parser of the SYSTOR '17 traces: `Timestamp,Response,IOType,LUN,Offset,Size`, in seconds and bytes, with a header
//! line.
//!
//! The device is the logical unit number (LUN). The response time may be empty and is not used.

use crate::error::ParseRefusal;
use crate::read::fields::CommaSeparatedFields;
use crate::read::{LineFormat, ParseOutcome};
use crate::{Format, Op, Request};

/// Error message about a wrong time.
const TIME_REQUIREMENT: &str = "the first field of the line must be the time in seconds, such as 0.000125";

/// Parser of the lines of SYSTOR '17 traces.
#[derive(Default)]
pub(crate) struct Systor {
    /// Whether a line was read; only the first line may be the header.
    has_read_line: bool,
}

impl LineFormat for Systor {
    const FORMAT: Format = Format::Systor;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        let first = !std::mem::replace(&mut self.has_read_line, true);
        if first && line.starts_with(b"Timestamp,Response,IOType,LUN") {
            return Ok(ParseOutcome::NotARequest);
        }
        let mut fields = CommaSeparatedFields::new(line);
        let time_ns = fields.next_word(TIME_REQUIREMENT)?.parse_decimal(9, TIME_REQUIREMENT)?;
        fields.next_field();
        let kind = fields.next_field();
        let op = match kind.text {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return kind.refuse("the third field of the line must be the type, R (read) or W (write)"),
        };
        into.device = fields.next_u32(
            "the fourth field of the line must be the logical unit, a whole number from 0 to 4294967295",
        )?;
        let offset =
            fields.next_number("the fifth field of the line must be the offset, a whole number of bytes")?;
        let len =
            fields.next_number("the sixth field of the line must be the size, a whole number of bytes")?;
        fields.require_end("the line must end after its sixth field")?;
        into.set_common_fields(time_ns, op, offset, len);
        Ok(ParseOutcome::Request)
    }
}
