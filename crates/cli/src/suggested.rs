//! Values that completion scripts offer although others are accepted: names of designs, devices and policies, which may come
//! with settings (`page-map:gc.policy=fifo`) and whose mistakes the configuration answers better, with the nearest name.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};
use wearwell::design;
use wearwell::nand::preset;
use wearwell_config::ContentName;

/// Takes any text, and offers these names.
#[derive(Clone)]
pub(crate) struct Suggested(fn() -> Vec<&'static str>);

impl Suggested {
    pub(crate) const DESIGNS: Self = Self(|| design::ALL.iter().map(|design| design.name).collect());
    pub(crate) const DEVICES: Self = Self(|| {
        let presets = preset::all();
        std::iter::once("auto").chain(presets.iter().map(|device| device.name)).collect()
    });
    pub(crate) const POLICIES: Self =
        Self(|| vec!["greedy", "cost-benefit", "d-choices", "random", "fifo", "rc-gc", "dead-bytes"]);
    pub(crate) const MECHANISMS: Self = Self(|| ContentName::ALL.iter().map(|name| name.name()).collect());
    pub(crate) const TIMING: Self = Self(|| vec!["none", "timeline", "event"]);
    pub(crate) const PRECONDITIONS: Self =
        Self(|| vec!["in-use", "none", "fill", "steady", "random", "constructed", "aged"]);
    pub(crate) const ARRIVALS: Self = Self(|| vec!["auto", "open", "closed", "think"]);
}

impl TypedValueParser for Suggested {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}
