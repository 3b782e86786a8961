//! Specification strings of the form `kind:key=value,key=value`.
//!
//! One grammar serves generators and content models, so that a run is named by one line that can be typed, stored in a
//! report and parsed again. Unknown names are refused with the most similar valid one, because a misspelt key that is
//! silently ignored gives a wrong result that looks right. The tables behind the checks also print `--help`.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// One key of a specification string such as `zipf:theta=0.9`, with its default.
#[derive(Clone, Copy, Debug)]
pub struct SpecKey {
    /// Name of the key, before `=`.
    pub name: &'static str,
    /// Value that is used if the key is absent.
    pub default: &'static str,
    /// Description of what the key sets, for `--help`.
    pub meaning: &'static str,
}

/// A kind of workload generator, host model or content model that a specification names, such as `zipf` in
/// `zipf:theta=0.9`.
#[derive(Clone, Copy, Debug)]
pub struct SpecKind {
    /// Name of the kind of generator or model, the word before the colon.
    pub name: &'static str,
    /// Description of what this kind generates, for `--help`.
    pub meaning: &'static str,
    /// Keys of a specification that only this kind of generator or model accepts.
    pub keys: &'static [SpecKey],
}

/// All kinds and keys that a specification string may contain.
#[derive(Clone, Copy, Debug)]
pub struct SpecGrammar {
    /// Noun that error messages use for what the grammar specifies: "generator", "host model" or "content model".
    pub generator_noun: &'static str,
    /// The kinds of generator or model that the grammar accepts.
    pub kinds: &'static [SpecKind],
    /// Keys that every kind of generator or model accepts.
    pub common_keys: &'static [SpecKey],
}

impl SpecGrammar {
    /// Returns the table of names for `--help`: kinds with their keys, then the common keys.
    pub fn help_text(&self) -> String {
        let mut text = String::new();
        for kind in self.kinds {
            let _ = writeln!(text, "{:<12} {}", kind.name, kind.meaning);
            kind.keys.iter().for_each(|key| add_help_line(&mut text, key));
        }
        let _ = writeln!(text, "every {}:", self.generator_noun);
        self.common_keys.iter().for_each(|key| add_help_line(&mut text, key));
        text
    }
}

/// Appends the line of a key to the help text: its name, default and meaning.
fn add_help_line(text: &mut String, key: &SpecKey) {
    let _ = writeln!(text, "  {:<15} {} [{}]", key.name, key.meaning, key.default);
}

/// Why a specification string was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The word before the colon of a specification string is not a known kind.
    #[error(
        "there is no {generator_noun} `{name}`{did_you_mean} Valid: {valid_names}",
        did_you_mean = did_you_mean_or_sentence_end(name, nearest_name)
    )]
    UnknownKind {
        /// What the unknown name should be: a "generator", a "host model" or a "content model".
        generator_noun: &'static str,
        /// The unknown name, as written.
        name: String,
        /// The most similar valid name.
        nearest_name: &'static str,
        /// All valid names, separated by commas.
        valid_names: String,
    },
    /// The kind of generator or model does not accept the key.
    #[error(
        "`{kind}` has no key `{key}`{did_you_mean} Valid: {valid_names}",
        did_you_mean = did_you_mean_or_sentence_end(key, nearest_name)
    )]
    UnknownKey {
        /// Kind of generator or model that the specification names before its colon, such as `zipf` in
        /// `zipf:theta=0.9`.
        kind: &'static str,
        /// The unknown key, as written.
        key: String,
        /// The most similar valid key.
        nearest_name: &'static str,
        /// All valid keys of this kind, separated by commas.
        valid_names: String,
    },
    /// A part of a specification string is not of the form `key=value`.
    #[error("`{0}` in the specification must be of the form key=value, such as pages=1000")]
    NotAPair(String),
    /// A key appears twice in a specification string.
    #[error("the key `{0}` is given twice in the specification: leave one out")]
    RepeatedKey(String),
    /// A value in a specification string cannot be parsed.
    #[error("`{key}={value}` in the specification is refused: the value must be {expected}")]
    BadValue {
        /// Key whose value cannot be parsed.
        key: &'static str,
        /// The value of the key, as written.
        value: String,
        /// What kind of value the key expects.
        expected: &'static str,
    },
    /// A value in a specification string is outside its bounds.
    #[error(
        "`{key}={value}` in the specification is out of range, so choose another value: {violated_bound}"
    )]
    OutOfRange {
        /// Key whose value is outside its bounds.
        key: &'static str,
        /// The value of the key, as written.
        value: String,
        /// The bound that the value violates.
        violated_bound: String,
    },
    /// Values in a specification string are valid individually but contradict each other.
    #[error("the specification contradicts itself, so change one of its keys: {0}")]
    ConflictingKeys(String),
}

/// A specification string split into its pairs, with every name checked and no value parsed yet.
#[derive(Debug)]
pub(crate) struct SpecOptions<'a> {
    /// Name of the kind of generator or model, the word before the colon.
    pub kind_name: &'static str,
    /// Keys with their values as text, in the order of the specification string.
    key_value_pairs: Vec<(&'static str, &'a str)>,
}

impl<'a> SpecOptions<'a> {
    /// Splits a specification string into its kind and pairs, and refuses unknown or repeated names.
    pub fn parse(text: &'a str, grammar: &SpecGrammar) -> Result<Self, SpecError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let kind = find_kind(name.trim(), grammar)?;
        let mut pairs: Vec<(&'static str, &str)> = Vec::new();
        for part in rest.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| SpecError::NotAPair(part.into()))?;
            let key = find_key(key.trim(), kind, grammar)?;
            if pairs.iter().any(|(seen, _)| *seen == key) {
                return Err(SpecError::RepeatedKey(key.into()));
            }
            pairs.push((key, value.trim()));
        }
        Ok(Self { kind_name: kind.name, key_value_pairs: pairs })
    }

    /// Returns the value of `key` as written; `None` if the key is absent.
    pub fn text_value(&self, key: &'static str) -> Option<&'a str> {
        self.key_value_pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    /// Returns the value of `key` as a number within `bounds`; `None` if the key is absent.
    pub fn number_value(
        &self,
        key: &'static str,
        bounds: RangeInclusive<f64>,
    ) -> Result<Option<f64>, SpecError> {
        self.text_value(key)
            .map(|value| require_within(key, value, parse_value(key, value, "a number")?, &bounds))
            .transpose()
    }

    /// Returns the value of `key` as a whole number within `bounds`; `None` if the key is absent.
    pub fn integer_value(
        &self,
        key: &'static str,
        bounds: RangeInclusive<u64>,
    ) -> Result<Option<u64>, SpecError> {
        self.text_value(key)
            .map(|value| {
                let number =
                    parse_value(key, value, "a whole number in digits, such as 1000000, below 2^64")?;
                require_within(key, value, number, &bounds)
            })
            .transpose()
    }

    /// Returns whether the value of `key` is `yes`; the only other value is `no`. `None` if the key is absent.
    pub fn switch_value(&self, key: &'static str) -> Result<Option<bool>, SpecError> {
        match self.text_value(key) {
            None => Ok(None),
            Some("yes") => Ok(Some(true)),
            Some("no") => Ok(Some(false)),
            Some(value) => Err(SpecError::BadValue { key, value: value.into(), expected: "yes or no" }),
        }
    }

    /// Returns the value of `key` as a list of pairs, written `a:b/a:b`; `None` if the key is absent. A single `a` is
    /// read as `a:1`.
    pub fn weighted_values(&self, key: &'static str) -> Result<Option<Vec<(f64, f64)>>, SpecError> {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let pair = |item: &str| {
            let (value, weight) = item.split_once(':').unwrap_or((item, "1"));
            Some((number(value)?, number(weight)?))
        };
        let Some(list) = self.text_value(key) else { return Ok(None) };
        match list.split('/').map(pair).collect() {
            Some(pairs) => Ok(Some(pairs)),
            None => Err(SpecError::BadValue {
                key,
                value: list.into(),
                expected: "numbers, each alone or as number:weight, separated by /, such as 4:0.7/8:0.3",
            }),
        }
    }
}

/// Parses the text of a key's value; the error states what is `expected`.
pub(crate) fn parse_value<T: FromStr>(
    key: &'static str,
    value: &str,
    expected: &'static str,
) -> Result<T, SpecError> {
    value.trim().parse().map_err(|_| SpecError::BadValue { key, value: value.into(), expected })
}

/// Returns `number` if it is within `bounds`; otherwise an error that names the key and its value.
pub(crate) fn require_within<T: PartialOrd + std::fmt::Display>(
    key: &'static str,
    value: &str,
    number: T,
    bounds: &RangeInclusive<T>,
) -> Result<T, SpecError> {
    if bounds.contains(&number) {
        return Ok(number);
    }
    // The value may be a list, of which this is one number.
    let number = number.to_string();
    let subject = if number == value { "the value" } else { number.as_str() };
    let violated_bound = format!("{subject} must be from {} to {}", bounds.start(), bounds.end());
    Err(SpecError::OutOfRange { key, value: value.into(), violated_bound })
}

/// Returns the kind of generator or model called `name`; the error suggests the most similar name.
fn find_kind(name: &str, grammar: &SpecGrammar) -> Result<&'static SpecKind, SpecError> {
    grammar.kinds.iter().find(|kind| kind.name == name).ok_or_else(|| {
        let valid: Vec<_> = grammar.kinds.iter().map(|kind| kind.name).collect();
        SpecError::UnknownKind {
            generator_noun: grammar.generator_noun,
            name: name.into(),
            nearest_name: most_similar_name(name, &valid),
            valid_names: valid.join(", "),
        }
    })
}

/// Returns `key` if the kind of generator or model accepts it; the error suggests the most similar key.
fn find_key(key: &str, kind: &'static SpecKind, grammar: &SpecGrammar) -> Result<&'static str, SpecError> {
    let valid: Vec<_> = kind.keys.iter().chain(grammar.common_keys).map(|key| key.name).collect();
    valid.iter().find(|name| **name == key).copied().ok_or_else(|| SpecError::UnknownKey {
        kind: kind.name,
        key: key.into(),
        nearest_name: most_similar_name(key, &valid),
        valid_names: valid.join(", "),
    })
}

/// Returns the middle of a message about an unknown name: the question whether the nearest valid name was meant, if the
/// two names are similar, or else the end of the sentence.
fn did_you_mean_or_sentence_end(name: &str, nearest_name: &str) -> String {
    /// Similarity of two names (0 to 1) above which a message suggests the valid name.
    const MIN_SIMILARITY: f64 = 0.7;
    if strsim::jaro_winkler(name, nearest_name) > MIN_SIMILARITY {
        format!("; did you mean `{nearest_name}`?")
    } else {
        ".".to_owned()
    }
}

/// Returns the most similar of the `valid` names; the first one if several are equally similar.
pub(crate) fn most_similar_name(name: &str, valid: &[&'static str]) -> &'static str {
    let similarity = |candidate: &str| strsim::jaro_winkler(name, candidate);
    valid
        .iter()
        .copied()
        .reduce(|best, next| if similarity(next) > similarity(best) { next } else { best })
        .expect("a grammar has names")
}
