//! Parser of `DiskSim`'s ASCII traces: `time device block blocks flags`, in milliseconds with a fraction and 512-byte
//! blocks.
//!
//! The flags are hexadecimal, and bit 0 marks a read. The columns are those of `MQSim`, except that `MQSim`'s times are
//! integers.

use crate::error::Bad;
use crate::read::fields::Blanks;
use crate::read::{LineFormat, Parsed};
use crate::{Format, Op, Request};

pub(crate) struct DiskSim;

impl LineFormat for DiskSim {
    const FORMAT: Format = Format::DiskSim;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<Parsed, Bad> {
        let mut fields = Blanks::new(line);
        let time_ns = fields.word("a time in milliseconds")?.decimal(6, "a time in milliseconds")?;
        parse_address(&mut fields, into)?;
        let flags = fields.word("flags, bit 0 set for a read")?.hex("flags, bit 0 set for a read")?;
        fields.finish("five columns")?;
        into.op = if flags & 1 == 1 { Op::Read } else { Op::Write };
        into.time_ns = time_ns;
        Ok(Parsed::Request)
    }
}

/// Parses the three columns of a trace line between time and operation: device, address and length.
pub(crate) fn parse_address(fields: &mut Blanks<'_>, into: &mut Request) -> Result<(), Bad> {
    into.device = fields.small("a device number")?;
    into.offset_bytes = fields.field().sectors("an address in sectors")?;
    into.len_bytes = fields.field().sectors("a size in sectors")?;
    Ok(())
}
