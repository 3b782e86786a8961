//! Parser of `DiskSim`'s ASCII traces: `time device block blocks flags`, in milliseconds with a fraction and 512-byte
//! blocks.
//!
//! The flags are hexadecimal, and bit 0 marks a read. The columns are those of `MQSim`, except that `MQSim`'s times are
//! integers.

use crate::error::ParseRefusal;
use crate::read::fields::BlankFields;
use crate::read::{LineFormat, ParseOutcome};
use crate::{Format, Op, Request};

/// Parser of the lines of ASCII traces of the simulator `DiskSim`.
pub(crate) struct DiskSim;

impl LineFormat for DiskSim {
    const FORMAT: Format = Format::DiskSim;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        let mut fields = BlankFields::new(line);
        let time_ns =
            fields.next_word("a time in milliseconds")?.parse_decimal(6, "a time in milliseconds")?;
        parse_device_and_byte_range(&mut fields, into)?;
        let flags =
            fields.next_word("flags, bit 0 set for a read")?.parse_hex("flags, bit 0 set for a read")?;
        fields.require_end("five columns")?;
        into.op = if flags & 1 == 1 { Op::Read } else { Op::Write };
        into.time_ns = time_ns;
        Ok(ParseOutcome::Request)
    }
}

/// Parses the three columns of a trace line between time and operation: device, address and length.
pub(crate) fn parse_device_and_byte_range(
    fields: &mut BlankFields<'_>,
    into: &mut Request,
) -> Result<(), ParseRefusal> {
    into.device = fields.next_u32("a device number")?;
    into.offset_bytes = fields.next_field().parse_sectors_as_bytes("an address in sectors")?;
    into.len_bytes = fields.next_field().parse_sectors_as_bytes("a size in sectors")?;
    Ok(())
}
