//! Parser of `MQSim`'s ASCII traces: `time device sector sectors type`, where type 0 is a write and 1 is a read.
//!
//! Times are integers. Their unit is not stated in the file but in `MQSim`'s workload definition (`Time_Unit`), so the
//! user sets it as an option. The default is nanoseconds, because the example traces of `MQSim` use them. `SSDsim`
//! traces have the same columns.

use super::disksim::parse_address;
use crate::error::Bad;
use crate::read::fields::Blanks;
use crate::read::open::TimeUnit;
use crate::read::{LineFormat, Parsed};
use crate::{Format, Op, Request};

pub(crate) struct MqSim {
    pub unit: TimeUnit,
}

impl LineFormat for MqSim {
    const FORMAT: Format = Format::MqSim;

    fn parse(&mut self, line: &[u8], into: &mut Request) -> Result<Parsed, Bad> {
        let mut fields = Blanks::new(line);
        let time = fields.number("an integer time")?;
        into.time_ns = self.unit.to_ns(time).ok_or(Bad::whole("a time that fits"))?;
        parse_address(&mut fields, into)?;
        let kind = fields.field();
        into.op = match kind.text {
            b"0" => Op::Write,
            b"1" => Op::Read,
            _ => return kind.bad("type 0 (write) or 1 (read)"),
        };
        fields.finish("five columns")?;
        Ok(Parsed::Request)
    }
}
