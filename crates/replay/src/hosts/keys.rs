//! The keys of a host model, all of them present: defaults stand in the grammar and nowhere else.

use std::ops::RangeInclusive;

use crate::workload::options::{Options, SpecError};

/// Typed access to a completed specification.
#[derive(Debug)]
pub(super) struct Keys<'a> {
    options: &'a Options<'a>,
}

const COMPLETE: &str = "a completed specification has every key";

impl<'a> Keys<'a> {
    pub(super) fn new(options: &'a Options<'a>) -> Self {
        Self { options }
    }

    pub(super) fn integer(&self, key: &'static str, bounds: RangeInclusive<u64>) -> Result<u64, SpecError> {
        self.options.integer(key, bounds).map(|value| value.expect(COMPLETE))
    }

    pub(super) fn number(&self, key: &'static str, bounds: RangeInclusive<f64>) -> Result<f64, SpecError> {
        self.options.number(key, bounds).map(|value| value.expect(COMPLETE))
    }

    /// Whether the value is the first of two words.
    pub(super) fn is_first_of(
        &self,
        key: &'static str,
        [first, second]: [&str; 2],
        expected: &'static str,
    ) -> Result<bool, SpecError> {
        match self.options.text(key).expect(COMPLETE) {
            value if value == first => Ok(true),
            value if value == second => Ok(false),
            value => Err(SpecError::BadValue { key, value: value.into(), expected }),
        }
    }

    /// `on` or `off`.
    pub(super) fn switch(&self, key: &'static str) -> Result<bool, SpecError> {
        self.is_first_of(key, ["on", "off"], "on or off")
    }
}
