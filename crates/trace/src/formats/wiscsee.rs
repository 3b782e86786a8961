//! Parser of `WiscSee`'s block events: `pid D|C read|write|discard offset size time gap pre`.
//!
//! The tool extracts these lines from blkparse output, in bytes and seconds. `D` lines are requests issued to the
//! device and `C` lines are their completions; the user chooses one of the two. A read at offset -8388608 is a mark by
//! which the tool ends its setup phase. It is not a request and is skipped.

use crate::error::ParseRefusal;
use crate::read::fields::BlankSeparatedFields;
use crate::read::options::BlockLayerStage;
use crate::read::{LineFormat, ParseOutcome};
use crate::{Format, Op, Request};

/// Offset in bytes, as text in a trace line, that marks the end of the setup phase: minus 16,384 sectors.
const SETUP_END_OFFSET: &[u8] = b"-8388608";

/// Error message about a wrong time.
const TIME_REQUIREMENT: &str = "the sixth field of the line must be the time in seconds, such as 0.000125";

/// Parser of the lines that the tool `WiscSee` extracts from blkparse output.
pub(crate) struct Wiscsee {
    /// Stage whose lines are read as requests: `C` lines for completed requests, `D` lines for any other stage.
    pub block_layer_stage: BlockLayerStage,
}

impl LineFormat for Wiscsee {
    const FORMAT: Format = Format::Wiscsee;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        let mut fields = BlankSeparatedFields::new(line);
        fields.next_number("the first field of the line must be the process number, a whole number")?;
        let action = fields.next_field();
        let wanted = match action.text {
            b"D" => self.block_layer_stage != BlockLayerStage::Complete,
            b"C" => self.block_layer_stage == BlockLayerStage::Complete,
            _ => return action.refuse("the second field of the line must be D (issued) or C (completed)"),
        };
        let kind = fields.next_field();
        let op = match kind.text {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"discard" => Op::Trim,
            _ => return kind.refuse("the third field of the line must be read, write or discard"),
        };
        let offset = fields.next_field();
        if !wanted || offset.text == SETUP_END_OFFSET {
            return Ok(ParseOutcome::NotARequest);
        }
        let offset = offset
            .parse_number("the fourth field of the line must be the offset, a whole number of bytes")?;
        let len =
            fields.next_number("the fifth field of the line must be the size, a whole number of bytes")?;
        let time_ns = fields.next_word(TIME_REQUIREMENT)?.parse_decimal(9, TIME_REQUIREMENT)?;
        into.set_common_fields(time_ns, op, offset, len);
        Ok(ParseOutcome::Request)
    }
}
