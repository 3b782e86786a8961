//! Parser of the SYSTOR '17 traces: `Timestamp,Response,IOType,LUN,Offset,Size`, in seconds and bytes, with a header
//! line.
//!
//! The device is the logical unit number (LUN). The response time may be empty and is not used.

use crate::error::ParseRefusal;
use crate::read::fields::CommaFields;
use crate::read::{LineFormat, ParseOutcome};
use crate::{Format, Op, Request};

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
            return Ok(ParseOutcome::Other);
        }
        let mut fields = CommaFields::new(line);
        let time_ns = fields.next_word("a time in seconds")?.parse_decimal(9, "a time in seconds")?;
        fields.next_field();
        let kind = fields.next_field();
        let op = match kind.text {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return kind.refuse("type R or W"),
        };
        into.device = fields.next_u32("a logical unit number")?;
        let offset = fields.next_number("an offset in bytes")?;
        let len = fields.next_number("a size in bytes")?;
        fields.require_end("six columns")?;
        into.set_common_fields(time_ns, op, offset, len);
        Ok(ParseOutcome::Request)
    }
}
