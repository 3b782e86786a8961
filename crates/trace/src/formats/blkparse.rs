//! Parser of the default text of blkparse: `maj,min cpu seq time pid action rwbs sector + sectors [process]`.
//!
//! blkparse prints a request once per stage of its life, so events of only one action are taken: D (issued to the
//! driver) unless the user chooses Q (queued) or C (completed). Messages, and the summary after the events, are
//! skipped. `rwbs` consists of an optional F (flush before the operation), the operation and modifiers, in this order.

use crate::error::Bad;
use crate::read::fields::{Blanks, Field};
use crate::read::open::Action;
use crate::read::{LineFormat, Parsed};
use crate::{Format, Op, Request};

pub(crate) struct Blkparse {
    action: Action,
    events_seen: bool,
}

impl Blkparse {
    pub(crate) fn new(action: Action) -> Self {
        Self { action, events_seen: false }
    }
}

impl LineFormat for Blkparse {
    const FORMAT: Format = Format::Blkparse;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<Parsed, Bad> {
        let mut fields = Blanks::new(line);
        let device = fields.field();
        if self.events_seen && !device.text.contains(&b',') {
            return Ok(Parsed::Other); // the summary
        }
        into.device = device_number(device)?;
        fields.number("a processor number")?;
        fields.number("a sequence number")?;
        into.time_ns = fields.word("a time in seconds")?.decimal(9, "a time in seconds")?;
        fields.number("a process number")?;
        let action = fields.word("an action letter")?;
        self.events_seen = true;
        if action.text != self.action.letter().as_bytes() {
            return Ok(Parsed::Other);
        }
        parse_event(&mut fields, into)
    }
}

fn parse_event(fields: &mut Blanks<'_>, into: &mut Request) -> Result<Parsed, Bad> {
    let rwbs = fields.word("operation letters")?;
    let sector = fields.field();
    let plus = fields.field();
    if plus.text == b"+" {
        into.offset_bytes = sector.sectors("a sector number")?;
        into.len_bytes = fields.field().sectors("a number of sectors")?;
    } else if !(sector.text.is_empty() || sector.text.starts_with(b"[") || plus.text.starts_with(b"[")) {
        return plus.bad("`sector + sectors`");
    } else {
        into.offset_bytes = 0;
        into.len_bytes = 0;
    }
    let op = operation(rwbs.text, into.len_bytes);
    into.op = op.unwrap_or_default();
    if into.op == Op::Flush {
        into.offset_bytes = 0;
    }
    Ok(if op.is_some() { Parsed::Request } else { Parsed::Other })
}

/// Returns the operation of a block layer event from its RWBS field; `None` if it moves no data (pass-through commands,
/// zone operations).
fn operation(rwbs: &[u8], len_bytes: u64) -> Option<Op> {
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
fn device_number(field: Field<'_>) -> Result<u32, Bad> {
    let (major, minor) = field.split(b',');
    pack_device(major.small("major,minor")?, minor.small("major,minor")?, field.at)
}

/// Packs a device number: 12 bits of major and 20 bits of minor number.
pub(crate) fn pack_device(major: u32, minor: u32, at: usize) -> Result<u32, Bad> {
    if major >= 1 << 12 || minor >= 1 << 20 {
        return Err(Bad { at, expected: "a major number below 4096 and a minor number below 2^20" });
    }
    Ok(major << 20 | minor)
}
