//! Parser of `WiscSee`'s block events: `pid D|C read|write|discard offset size time gap pre`.
//!
//! The tool extracts these lines from blkparse output, in bytes and seconds. `D` lines are requests issued to the
//! device and `C` lines are their completions; the user chooses one of the two. A read at offset -8388608 is a mark by
//! which the tool ends its setup phase. It is not a request and is skipped.

use crate::error::Bad;
use crate::read::fields::Blanks;
use crate::read::open::Action;
use crate::read::{LineFormat, Parsed};
use crate::{Format, Op, Request};

/// Offset in bytes, as text in a trace line, that marks the end of the setup phase: minus 16,384 sectors.
const MARK_OFFSET: &[u8] = b"-8388608";

pub(crate) struct Wiscsee {
    pub action: Action,
}

impl LineFormat for Wiscsee {
    const FORMAT: Format = Format::Wiscsee;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<Parsed, Bad> {
        let mut fields = Blanks::new(line);
        fields.number("a process number")?;
        let action = fields.field();
        let wanted = match action.text {
            b"D" => self.action != Action::Complete,
            b"C" => self.action == Action::Complete,
            _ => return action.bad("action D or C"),
        };
        let kind = fields.field();
        let op = match kind.text {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"discard" => Op::Trim,
            _ => return kind.bad("read, write or discard"),
        };
        let offset = fields.field();
        if !wanted || offset.text == MARK_OFFSET {
            return Ok(Parsed::Other);
        }
        let offset = offset.number("an offset in bytes")?;
        let len = fields.number("a size in bytes")?;
        let time_ns = fields.word("a time in seconds")?.decimal(9, "a time in seconds")?;
        into.set(time_ns, op, offset, len);
        Ok(Parsed::Request)
    }
}
