//! `MQSim` ASCII: `time device sector sectors type`; type 0 writes, 1 reads.
//!
//! Times are integers. Their unit is not in the file but in `MQSim`'s workload definition (`Time_Unit`), so it is an
//! option; nanoseconds are the default because `MQSim`'s own example traces use them. `SSDsim` traces look the same.

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
