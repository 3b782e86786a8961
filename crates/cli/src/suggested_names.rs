//! Argument values that shell completion offers, although other values are accepted, too.
//!
//! These are names of designs, devices and policies. They may be followed by settings (`page-map:gc.policy=fifo`), and
//! the error about a wrong name is better when the configuration reports it, because it suggests the most similar name.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};
use wearwell::design;
use wearwell::nand::preset;
use wearwell_config::{AUTO_SIZED_PRESET_NAME, ContentMechanismName};

/// Parser of a command-line value that accepts any text. Its function returns the names that shell completion offers.
#[derive(Clone)]
pub(crate) struct SuggestedNames(fn() -> Vec<&'static str>);

impl SuggestedNames {
    /// Offers the names of all designs.
    pub(crate) const DESIGNS: Self = Self(|| design::ALL.iter().map(|design| design.name).collect());
    /// Offers the names of all device presets, `auto` first.
    pub(crate) const DEVICES: Self = Self(|| {
        let presets = preset::all_presets();
        std::iter::once(AUTO_SIZED_PRESET_NAME).chain(presets.iter().map(|device| device.name)).collect()
    });
    /// Offers the names of the victim policies of GC.
    pub(crate) const GC_POLICIES: Self =
        Self(|| vec!["greedy", "cost-benefit", "d-choices", "random", "fifo", "rc-gc", "dead-bytes"]);
    /// Offers the names of the content mechanisms.
    pub(crate) const CONTENT_MECHANISMS: Self =
        Self(|| ContentMechanismName::all_names().map(ContentMechanismName::name).collect());
    /// Offers the names of the time models.
    pub(crate) const TIMING_MODES: Self = Self(|| vec!["none", "timeline", "event"]);
    /// Offers the names of the states that a drive can have before the run.
    pub(crate) const PRECONDITION_MODES: Self =
        Self(|| vec!["in-use", "none", "fill", "steady", "random", "constructed", "aged"]);
    /// Offers the names of the ways in which requests arrive at the device.
    pub(crate) const ARRIVAL_MODES: Self = Self(|| vec!["auto", "open", "closed", "think"]);
}

impl TypedValueParser for SuggestedNames {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}
