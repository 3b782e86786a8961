//! Typed access to the keys of a host model's specification. All keys are present, because defaults were filled in from
//! the grammar.

use std::ops::RangeInclusive;

use super::host_model_spec_kind;
use crate::workload::spec_grammar::{SpecError, SpecOptions};

/// Reads the typed values of a host model's specification in which all keys are present.
#[derive(Debug)]
pub(super) struct SpecValues<'a> {
    /// Keys of the specification with their values as text.
    options: &'a SpecOptions<'a>,
}

/// Message of the panic if a key is missing, which defaults prevent.
const COMPLETE_SPEC_MESSAGE: &str = "a completed specification has every key";

impl<'a> SpecValues<'a> {
    /// Creates typed access to the keys of a specification in which defaults are filled in.
    pub(super) fn new(options: &'a SpecOptions<'a>) -> Self {
        Self { options }
    }

    /// Returns the value of `key` as an integer.
    ///
    /// # Errors
    /// [`SpecError`] if the value is no integer or not within `bounds`.
    pub(super) fn integer_of_key(
        &self,
        key: &'static str,
        bounds: RangeInclusive<u64>,
    ) -> Result<u64, SpecError> {
        self.options.integer_value(key, bounds).map(|value| value.expect(COMPLETE_SPEC_MESSAGE))
    }

    /// Returns the value of `key` as a number.
    ///
    /// # Errors
    /// [`SpecError`] if the value is no number or not within `bounds`.
    pub(super) fn number_of_key(
        &self,
        key: &'static str,
        bounds: RangeInclusive<f64>,
    ) -> Result<f64, SpecError> {
        self.options.number_value(key, bounds).map(|value| value.expect(COMPLETE_SPEC_MESSAGE))
    }

    /// Returns whether the value of `key` is the first of two allowed words. Any third word is an error, which states
    /// the `expected` words.
    pub(super) fn is_first_of_two_words(
        &self,
        key: &'static str,
        [first, second]: [&str; 2],
        expected: &'static str,
    ) -> Result<bool, SpecError> {
        match self.options.text_value(key).expect(COMPLETE_SPEC_MESSAGE) {
            value if value == first => Ok(true),
            value if value == second => Ok(false),
            value => Err(SpecError::BadValue { key, value: value.into(), expected }),
        }
    }

    /// Refuses a value of `key` that is not the default, because it would have no effect: the key counts only if the key
    /// and value `needed` are given, such as `load=ycsb`.
    pub(super) fn refuse_without_effect(&self, key: &'static str, needed: &str) -> Result<(), SpecError> {
        let kind = host_model_spec_kind(self.options.kind_name);
        let default = kind.keys.iter().find(|known| known.name == key).map(|known| known.default);
        let value = self.options.text_value(key);
        if value == default {
            return Ok(());
        }
        Err(SpecError::ConflictingKeys(format!(
            "`{key}={}` has no effect on {}: it counts with {needed} only: leave it out, or set {needed}",
            value.expect(COMPLETE_SPEC_MESSAGE),
            kind.name
        )))
    }

    /// Returns whether the value of `key` is `on`; the only other value is `off`.
    pub(super) fn is_key_on(&self, key: &'static str) -> Result<bool, SpecError> {
        self.is_first_of_two_words(key, ["on", "off"], "on or off")
    }
}
