//! Parser of `MQSim`'s ASCII traces: `time device sector sectors type`, where type 0 is a write and 1 is a read.
//!
//! Times are integers. Their unit is not stated in the file but in `MQSim`'s workload definition (`Time_Unit`), so the
//! user sets it as an option. The default is nanoseconds, because the example traces of `MQSim` use them. `SSDsim`
//! traces have the same columns.

use super::disksim::parse_device_and_byte_range;
use crate::error::ParseRefusal;
use crate::read::fields::BlankSeparatedFields;
use crate::read::options::TimeUnit;
use crate::read::{LineFormat, ParseOutcome};
use crate::{Format, Op, Request};

/// Parser of the lines of traces of the simulators `MQSim` and `SSDsim`.
pub(crate) struct MqSim {
    /// Unit of the times in the trace, which the file does not state.
    pub time_unit: TimeUnit,
}

impl LineFormat for MqSim {
    const FORMAT: Format = Format::MqSim;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<ParseOutcome, ParseRefusal> {
        let mut fields = BlankSeparatedFields::new(line);
        let time = fields.next_number(
            "the first field of the line must be the time, a whole number in the unit of --time-unit",
        )?;
        into.time_ns = self.time_unit.to_ns(time).ok_or(ParseRefusal::of_whole_record(
            "the first field of the line, the time, must be below 2^64 nanoseconds",
        ))?;
        parse_device_and_byte_range(&mut fields, into)?;
        let kind = fields.next_field();
        into.op = match kind.text {
            b"0" => Op::Write,
            b"1" => Op::Read,
            _ => return kind.refuse("the fifth field of the line must be the type, 0 (write) or 1 (read)"),
        };
        fields.require_end("the line must end after its fifth field")?;
        Ok(ParseOutcome::Request)
    }
}
