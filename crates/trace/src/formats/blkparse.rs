//! Parser of the default text of blkparse: `maj,min cpu seq time pid action rwbs sector + sectors [process]`.
//!
//! blkparse prints a request once per stage of its life, so events of only one action are taken: D (issued to the
//! driver) unless the user chooses Q (queued) or C (completed). Messages, and the summary after the events, are
//! skipped. `rwbs` consists of an optional F (flush before the operation), the operation and modifiers, in this order.

use crate::error::ParseRefusal;
use crate::read::fields::{BlankSeparatedFields, Field};
use crate::read::options::BlockLayerStage;
use crate::read::{LineFormat, ParseOutcome};
use crate::{Format, Op, Request};

/// Error message about a wrong time.
const TIME_REQUIREMENT: &str = "the fourth field of the line must be the time in seconds, such as 0.000125";

/// Error message about a wrong device number.
const DEVICE_REQUIREMENT: &str =
    "the first field of the line must be the device as major,minor, such as 8,16";

/// Parser of the lines of blkparse output (events of the Linux block layer).
pub(crate) struct Blkparse {
    /// Stage (queued, issued or completed) of which events are read as requests; events of other stages are skipped.
    accepted_stage: BlockLayerStage,
    /// Whether an event was read; only after the first event can a line belong to the summary, which is skipped.
    has_seen_event: bool,
}

impl Blkparse {
    pub(crate) fn new(accepted_stage: BlockLayerStage) -> Self {
        Self { accepted_stage, has_seen_event: false }
    }
}

impl LineFormat for Blkparse {
    const FORMAT: Format = Format::Blkparse;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        let mut fields = BlankSeparatedFields::new(line);
        let device = fields.next_field();
        if self.has_seen_event && !device.text.contains(&b',') {
            return Ok(ParseOutcome::NotARequest); // the summary
        }
        into.device = parse_device_number(device)?;
        fields.next_number("the second field of the line must be the processor, a whole number")?;
        fields.next_number("the third field of the line must be the sequence number, a whole number")?;
        into.time_ns = fields.next_word(TIME_REQUIREMENT)?.parse_decimal(9, TIME_REQUIREMENT)?;
        fields.next_number("the fifth field of the line must be the process number, a whole number")?;
        let action = fields.next_word("the sixth field of the line must be the action, such as Q, D or C")?;
        self.has_seen_event = true;
        if action.text != self.accepted_stage.blkparse_letter().as_bytes() {
            return Ok(ParseOutcome::NotARequest);
        }
        parse_event(&mut fields, into)
    }
}

/// Parses the fields of an event after its action letter: operation, first sector and number of sectors.
fn parse_event(
    fields: &mut BlankSeparatedFields<'_>,
    into: &mut Request,
) -> Result<ParseOutcome, ParseRefusal> {
    let rwbs = fields.next_word(
        "the seventh field of the line must be the operation with its modifiers, such as R, W or WS",
    )?;
    let sector = fields.next_field();
    let plus = fields.next_field();
    if plus.text == b"+" {
        into.offset_bytes = sector.parse_sectors_as_bytes(
            "the eighth field of the line must be the first sector, a whole number below 2^55",
        )?;
        into.len_bytes = fields.next_field().parse_sectors_as_bytes(
            "the tenth field of the line must be the number of sectors, a whole number below 2^55",
        )?;
    } else if !(sector.text.is_empty() || sector.text.starts_with(b"[") || plus.text.starts_with(b"[")) {
        return plus.refuse(
            "the operation must be followed by the first sector, a plus sign and the number of sectors, such as 2048 \
             + 8",
        );
    } else {
        into.offset_bytes = 0;
        into.len_bytes = 0;
    }
    let op = operation_of_rwbs(rwbs.text, into.len_bytes);
    into.op = op.unwrap_or_default();
    if into.op == Op::Flush {
        into.offset_bytes = 0;
    }
    Ok(if op.is_some() { ParseOutcome::Request } else { ParseOutcome::NotARequest })
}

/// Returns the operation of a block layer event from its RWBS field (letters for operation and modifiers); `None` if
/// the event moves no data (pass-through commands, zone operations).
fn operation_of_rwbs(rwbs: &[u8], len_bytes: u64) -> Option<Op> {
    let (flush, rest) = match rwbs {
        [b'F', rest @ ..] => (true, rest),
        _ => (false, rwbs),
    };
    if flush && len_bytes == 0 {
        return Some(Op::Flush);
    }
    match rest {
        _ if len_bytes == 0 => None,
        [b'W', b'Z', ..] => Some(Op::Zero),
        [b'W', ..] => Some(Op::Write),
        [b'R', ..] => Some(Op::Read),
        [b'D', ..] => Some(Op::Trim),
        _ => None,
    }
}

/// Parses a device number `major,minor` and packs it as the kernel does, so that text and binary traces number a device
/// alike.
fn parse_device_number(field: Field<'_>) -> Result<u32, ParseRefusal> {
    let (major, minor) = field.split_at(b',');
    pack_device_number(
        major.parse_u32(DEVICE_REQUIREMENT)?,
        minor.parse_u32(DEVICE_REQUIREMENT)?,
        field.byte_offset,
    )
}

/// Packs a device number: 12 bits of major and 20 bits of minor number. If one is too large, the error is reported at
/// byte `byte_offset` of the line.
pub(crate) fn pack_device_number(major: u32, minor: u32, byte_offset: usize) -> Result<u32, ParseRefusal> {
    if major >= 1 << 12 || minor >= 1 << 20 {
        return Err(ParseRefusal {
            byte_offset,
            requirement: "the major number of the device must be below 4096, and its minor number below 2^20",
        });
    }
    Ok(major << 20 | minor)
}
