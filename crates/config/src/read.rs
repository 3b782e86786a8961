//! Parses a configuration from a file and single settings, and says where each error is.

use std::path::Path;

use serde::Deserialize as _;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, did_you_mean_text};
use super::origin::line_at;
use super::{Config, Origins};

impl Config {
    /// Builds a configuration from an optional file and settings of the form `key=value`.
    ///
    /// # Errors
    /// [`ConfigError::Unreadable`], and the errors of [`Self::from_text_and_settings`].
    pub fn read(file: Option<&Path>, settings: &[String]) -> Result<Self, ConfigError> {
        let Some(path) = file else { return Self::from_text_and_settings(None, settings) };
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|source| ConfigError::Unreadable { file: path.to_owned(), source })?;
        Self::from_text_and_settings(Some((&path.display().to_string(), &text)), settings)
    }

    /// Builds a configuration from an optional file (its name and text) and settings of the form `key=value`.
    ///
    /// # Errors
    /// [`ConfigError::Toml`] with file and line, or with the setting.
    pub fn from_text_and_settings(
        file: Option<(&str, &str)>,
        settings: &[String],
    ) -> Result<Self, ConfigError> {
        let Some((name, text)) = file else {
            return Self::from_table_and_settings(toml::Table::new(), Origins::default(), settings);
        };
        let (config, origins) = parse_config_text(name, text)?;
        if settings.is_empty() {
            return Ok(Self { origins, ..config });
        }
        let table = toml::from_str(text).expect("the text was parsed");
        Self::from_table_and_settings(table, origins, settings)
    }

    /// Builds a configuration from the `table` of a file, whose values have these `origins`, and settings of the form
    /// `key=value`.
    fn from_table_and_settings(
        mut table: toml::Table,
        mut origins: Origins,
        settings: &[String],
    ) -> Result<Self, ConfigError> {
        for setting in settings {
            apply_setting(&mut table, setting)?;
            origins.record_setting_origin(setting);
        }
        let place = || "configuration".to_owned();
        let config: Self = table.try_into().map_err(|error| toml_error(place(), &error))?;
        Ok(Self { origins, ..config })
    }

    /// Returns the configuration as TOML text, with default values; options without a value are left out.
    ///
    /// # Panics
    /// Never: every configuration has a TOML form.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a configuration is plain data")
    }
}

/// Parses the configuration file alone, without settings, so that an error has a line number. Returns also where its
/// values were set.
fn parse_config_text(name: &str, text: &str) -> Result<(Config, Origins), ConfigError> {
    let place_of = |at: usize| format!("{name}:{}", line_at(text, at));
    let error_of =
        |error: toml::de::Error| toml_error(place_of(error.span().map_or(0, |span| span.start)), &error);
    let document = DeTable::parse(text).map_err(error_of)?;
    if let Some(at) = too_large_integer_offset_bytes(document.get_ref()) {
        return Err(ConfigError::Toml {
            location: place_of(at),
            message: TOO_LARGE_INTEGER_MESSAGE.to_owned(),
        });
    }
    let origins = Origins::of_config_file(name, text, document.get_ref());
    let config = Config::deserialize(toml::Deserializer::from(document)).map_err(error_of)?;
    Ok((config, origins))
}

/// Returns the byte offset of the first whole number of more than 63 bits in the text of a configuration file; `None`
/// if there is none.
fn too_large_integer_offset_bytes(document: &DeTable<'_>) -> Option<usize> {
    let sections = document.values().filter_map(|section| section.get_ref().as_table());
    let mut values = sections.flat_map(|keys| keys.values());
    let is_too_large = |value: &DeValue<'_>| {
        value.as_integer().is_some_and(|number| i64::from_str_radix(number.as_str(), number.radix()).is_err())
    };
    values.find(|value| is_too_large(value.get_ref())).map(|value| value.span().start)
}

/// Sets one key `section.key` of the table to the value in `setting` (`section.key=value`). A value that is not valid
/// TOML becomes a string.
fn apply_setting(table: &mut toml::Table, setting: &str) -> Result<(), ConfigError> {
    let refuse = |message: &str| ConfigError::Toml {
        location: format!("setting `{setting}`"),
        message: message.to_owned(),
    };
    let (key, value) = setting
        .split_once('=')
        .ok_or_else(|| refuse("a setting must be of the form section.key=value, such as gc.policy=fifo"))?;
    let (section, key) = key
        .trim()
        .split_once('.')
        .ok_or_else(|| refuse("the key of a setting must be of the form section.key, such as gc.policy"))?;
    if is_too_large_integer(value.trim()) {
        return Err(refuse(TOO_LARGE_INTEGER_MESSAGE));
    }
    let value = parse_literal(value.trim());
    let single = toml::Table::from_iter([(key.to_owned(), value)]);
    let alone = toml::Table::from_iter([(section.to_owned(), toml::Value::Table(single.clone()))]);
    let _: Config = alone.try_into().map_err(|error| toml_error(format!("setting `{setting}`"), &error))?;
    let entry = table.entry(section).or_insert_with(|| toml::Value::Table(toml::Table::new()));
    if let Some(section) = entry.as_table_mut() {
        section.extend(single);
    }
    Ok(())
}

/// Error message about a whole number that is too large for TOML.
const TOO_LARGE_INTEGER_MESSAGE: &str =
    "whole numbers are at most 9223372036854775807 (2^63 - 1): set a smaller one";

/// Returns whether the text is a whole number of more than 63 bits.
fn is_too_large_integer(text: &str) -> bool {
    let digits = text.replace('_', "");
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()) && digits.parse::<i64>().is_err()
}

/// End of a TOML parser's message about a value of the wrong type, and what our message calls that type.
const PLAIN_NAMES_OF_PARSER_TYPES: [(&str, &str); 6] = [
    (", expected u64", "a whole number, not negative"),
    (", expected u32", "a whole number from 0 to 4294967295"),
    (", expected u8", "a whole number from 0 to 255"),
    (", expected usize", "a whole number, not negative"),
    (", expected f64", "a number"),
    (", expected a boolean", "true or false"),
];

/// Returns a message of the TOML parser in words that a user knows.
fn message_in_user_terms(message: &str) -> String {
    if message.ends_with("value was too large") {
        return TOO_LARGE_INTEGER_MESSAGE.to_owned();
    }
    if matches!(message, "invalid mantissa, expected digits" | "invalid fraction, expected digits") {
        return "a number needs a digit before and after its decimal point: write 0.15, not .15".to_owned();
    }
    // The parser takes a value that begins with t or f for true or false.
    if message.starts_with("invalid boolean") || message.starts_with("string values must be quoted") {
        return "a value that is a word must be in quotes, as in \"fifo\", unless it is true or false: quote the string"
            .to_owned();
    }
    // The second message is about a list or a date.
    if message.starts_with("invalid type: unit variant") || message == "wanted string or table" {
        return "the value must be a name (docs/configuration.md lists the names that each setting accepts)"
            .to_owned();
    }
    // Only a list of content mechanisms has more than one form.
    if message.starts_with("data did not match any variant of untagged enum") {
        return "the value must be names of content mechanisms, such as dedup+recycle, or none".to_owned();
    }
    // What the parser calls a field is a key or a section, and a variant is a value.
    if let Some(rest) = message.strip_prefix("unknown field") {
        return format!("unknown name{rest}");
    }
    if let Some(rest) = message.strip_prefix("unknown variant") {
        return format!("unknown value{rest}");
    }
    let of_value = message.strip_prefix("invalid type: ").or(message.strip_prefix("invalid value: "));
    let named = PLAIN_NAMES_OF_PARSER_TYPES
        .iter()
        .find_map(|(named, plain)| Some((of_value?.strip_suffix(named)?, plain)));
    named.map_or_else(
        || message.to_owned(),
        |(found, plain)| format!("the value must be {plain}, but is the {found}"),
    )
}

/// Parses the value of a setting as TOML. A word is a string, even if TOML takes it for a number (`inf`, `nan`).
fn parse_literal(text: &str) -> toml::Value {
    let is_word =
        text.chars().all(|c| c.is_ascii_alphabetic() || c == '-') && text != "true" && text != "false";
    let parsed: Result<toml::Table, _> = toml::from_str(&format!("value = {text}"));
    match parsed {
        Ok(mut table) if !is_word => {
            table.remove("value").unwrap_or_else(|| toml::Value::String(text.to_owned()))
        }
        _ => parse_incomplete_decimal(text)
            .map_or_else(|| toml::Value::String(text.to_owned()), toml::Value::Float),
    }
}

/// Returns the value of a number with no digit before or after its decimal point (`.15`, `2.`), which TOML does not
/// accept; `None` for any other text.
fn parse_incomplete_decimal(text: &str) -> Option<f64> {
    let is_decimal = text.chars().all(|c| c.is_ascii_digit() || "+-.".contains(c));
    text.parse().ok().filter(|_| is_decimal)
}

/// Converts an error of the TOML parser. A message about an "unknown field" or "unknown variant" gets the most similar
/// valid name as a suggestion.
fn toml_error(location: String, error: &toml::de::Error) -> ConfigError {
    let message = message_in_user_terms(error.message());
    let mut quoted = message.split('`').skip(1).step_by(2);
    let near = match quoted.next() {
        // The refusal of a content mechanism has its own question.
        Some(name) if message.starts_with("unknown") && !message.contains("did you mean") => {
            did_you_mean_text(name, &quoted.collect::<Vec<_>>())
        }
        _ => String::new(),
    };
    ConfigError::Toml { location, message: message + &near }
}
