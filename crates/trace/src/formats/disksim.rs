//! Parser of `DiskSim`'s ASCII traces: `time device block blocks flags`, in milliseconds with a fraction and 512-byte
//! blocks.
//!
//! The flags are hexadecimal, and bit 0 marks a read. The columns are those of `MQSim`, except that `MQSim`'s times are
//! integers.

use crate::error::ParseRefusal;
use crate::read::fields::BlankSeparatedFields;
use crate::read::{LineFormat, ParseOutcome};
use crate::{Format, Op, Request};

/// Error message about a wrong time.
const TIME_REQUIREMENT: &str = "the first field of the line must be the time in milliseconds, such as 0.125";

/// Error message about a wrong set of flags.
const FLAGS_REQUIREMENT: &str =
    "the fifth field of the line must be the flags, a hexadecimal number whose bit 0 is set for a read";

/// Parser of the lines of ASCII traces of the simulator `DiskSim`.
pub(crate) struct DiskSim;

impl LineFormat for DiskSim {
    const FORMAT: Format = Format::DiskSim;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        let mut fields = BlankSeparatedFields::new(line);
        let time_ns = fields.next_word(TIME_REQUIREMENT)?.parse_decimal(6, TIME_REQUIREMENT)?;
        parse_device_and_byte_range(&mut fields, into)?;
        let flags = fields.next_word(FLAGS_REQUIREMENT)?.parse_hex(FLAGS_REQUIREMENT)?;
        fields.require_end("the line must end after its fifth field")?;
        into.op = if flags & 1 == 1 { Op::Read } else { Op::Write };
        into.time_ns = time_ns;
        Ok(ParseOutcome::Request)
    }
}

/// Parses the three columns of a trace line between time and operation: device, address and length.
pub(crate) fn parse_device_and_byte_range(
    fields: &mut BlankSeparatedFields<'_>,
    into: &mut Request,
) -> Result<(), ParseRefusal> {
    into.device = fields
        .next_u32("the second field of the line must be the device, a whole number from 0 to 4294967295")?;
    into.offset_bytes = fields.next_field().parse_sectors_as_bytes(
        "the third field of the line must be the first sector, a whole number below 2^55",
    )?;
    into.len_bytes = fields.next_field().parse_sectors_as_bytes(
        "the fourth field of the line must be the number of sectors, a whole number below 2^55",
    )?;
    Ok(())
}
