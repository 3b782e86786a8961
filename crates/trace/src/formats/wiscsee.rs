//! `WiscSee` block events: `pid D|C read|write|discard offset size time gap pre`.
//!
//! The tool's own extract of blkparse output, in bytes and seconds. `D` lines are requests given to the device and
//! `C` lines their completions; one of the two is taken. A read at offset -8388608 is the tool's end-of-setup mark,
//! not a request.

use crate::error::Bad;
use crate::read::fields::Blanks;
use crate::read::open::Action;
use crate::read::{LineFormat, Parsed};
use crate::{Format, Op, Request};

/// Offset of the mark between setup and workload: minus 16,384 sectors.
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
