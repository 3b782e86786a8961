//! Spec strings: `kind:key=value,key=value`.
//!
//! One grammar serves generators and content models, so that a run is named by one line that can be typed, stored in
//! a report and parsed again. Unknown names are refused with the nearest valid one, because a misspelt key that is
//! silently ignored gives a wrong result that looks right. The tables that drive the checks also print `--help`.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// One key of a spec string.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// As written before `=`.
    pub name: &'static str,
    /// Value when the key is absent.
    pub default: &'static str,
    /// What it sets, with unit and bounds.
    pub meaning: &'static str,
}

/// One kind: the word before the colon.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// As written.
    pub name: &'static str,
    /// What it stands for.
    pub meaning: &'static str,
    /// Keys that only this kind knows.
    pub keys: &'static [Key],
}

/// All that may be written.
#[derive(Clone, Copy, Debug)]
pub struct Grammar {
    /// What the kinds are, for messages: "generator".
    pub what: &'static str,
    /// The kinds.
    pub kinds: &'static [Kind],
    /// Keys that every kind knows.
    pub common: &'static [Key],
}

impl Grammar {
    /// The table of names for `--help`: kinds with their keys, then the common keys.
    pub fn help(&self) -> String {
        let mut text = String::new();
        for kind in self.kinds {
            let _ = writeln!(text, "{:<12} {}", kind.name, kind.meaning);
            kind.keys.iter().for_each(|key| help_line(&mut text, key));
        }
        let _ = writeln!(text, "every {}:", self.what);
        self.common.iter().for_each(|key| help_line(&mut text, key));
        text
    }
}

fn help_line(text: &mut String, key: &Key) {
    let _ = writeln!(text, "  {:<15} {} [{}]", key.name, key.meaning, key.default);
}

/// Why a spec string was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The word before the colon is not a kind.
    #[error("there is no {what} `{name}`; did you mean `{nearest}`? Valid: {valid}")]
    UnknownKind {
        /// "generator" or "content model".
        what: &'static str,
        /// As written.
        name: String,
        /// The most similar valid name.
        nearest: &'static str,
        /// All valid names.
        valid: String,
    },
    /// The kind does not know the key.
    #[error("`{kind}` has no key `{key}`; did you mean `{nearest}`? Valid: {valid}")]
    UnknownKey {
        /// The kind that was asked.
        kind: &'static str,
        /// As written.
        key: String,
        /// The most similar valid key.
        nearest: &'static str,
        /// All valid keys of this kind.
        valid: String,
    },
    /// A part is not `key=value`.
    #[error("`{0}` is not of the form key=value")]
    NotAPair(String),
    /// A key appears twice.
    #[error("`{0}` is given twice")]
    Repeated(String),
    /// A value that cannot be read.
    #[error("{key}={value}: expected {expected}")]
    BadValue {
        /// The key.
        key: &'static str,
        /// As written.
        value: String,
        /// What would be right.
        expected: &'static str,
    },
    /// A value outside its bounds.
    #[error("{key}={value} is out of range: {bound}")]
    OutOfRange {
        /// The key.
        key: &'static str,
        /// As written.
        value: String,
        /// The bound that it violates.
        bound: String,
    },
    /// Values that are right one by one and do not go together.
    #[error("{0}")]
    Conflict(String),
}

/// A spec string taken apart, with every name checked and no value read yet.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    pub kind: &'static str,
    pairs: Vec<(&'static str, &'a str)>,
}

impl<'a> Options<'a> {
    pub fn parse(text: &'a str, grammar: &Grammar) -> Result<Self, SpecError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let kind = find_kind(name.trim(), grammar)?;
        let mut pairs: Vec<(&'static str, &str)> = Vec::new();
        for part in rest.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| SpecError::NotAPair(part.into()))?;
            let key = find_key(key.trim(), kind, grammar)?;
            if pairs.iter().any(|(seen, _)| *seen == key) {
                return Err(SpecError::Repeated(key.into()));
            }
            pairs.push((key, value.trim()));
        }
        Ok(Self { kind: kind.name, pairs })
    }

    /// The value as written.
    pub fn text(&self, key: &'static str) -> Option<&'a str> {
        self.pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    /// A number within `bounds`, if given.
    pub fn number(&self, key: &'static str, bounds: RangeInclusive<f64>) -> Result<Option<f64>, SpecError> {
        self.text(key).map(|value| within(key, value, parsed(key, value, "a number")?, &bounds)).transpose()
    }

    /// A whole number within `bounds`, if given.
    pub fn integer(&self, key: &'static str, bounds: RangeInclusive<u64>) -> Result<Option<u64>, SpecError> {
        self.text(key)
            .map(|value| within(key, value, parsed(key, value, "a whole number")?, &bounds))
            .transpose()
    }

    /// `yes` or `no`, if given.
    pub fn switch(&self, key: &'static str) -> Result<Option<bool>, SpecError> {
        match self.text(key) {
            None => Ok(None),
            Some("yes") => Ok(Some(true)),
            Some("no") => Ok(Some(false)),
            Some(value) => Err(SpecError::BadValue { key, value: value.into(), expected: "yes or no" }),
        }
    }

    /// Pairs `a:b/a:b`, if given; a lone `a` is read as `a:1`.
    pub fn weighted(&self, key: &'static str) -> Result<Option<Vec<(f64, f64)>>, SpecError> {
        let expected = "value:weight, several of them separated by /";
        let read = |item: &str| {
            let (value, weight) = item.split_once(':').unwrap_or((item, "1"));
            Ok((parsed(key, value, expected)?, parsed(key, weight, expected)?))
        };
        self.text(key).map(|list| list.split('/').map(read).collect()).transpose()
    }
}

pub(crate) fn parsed<T: FromStr>(
    key: &'static str,
    value: &str,
    expected: &'static str,
) -> Result<T, SpecError> {
    value.trim().parse().map_err(|_| SpecError::BadValue { key, value: value.into(), expected })
}

pub(crate) fn within<T: PartialOrd + std::fmt::Display>(
    key: &'static str,
    value: &str,
    number: T,
    bounds: &RangeInclusive<T>,
) -> Result<T, SpecError> {
    if bounds.contains(&number) {
        return Ok(number);
    }
    let bound = format!("must lie in {} to {}", bounds.start(), bounds.end());
    Err(SpecError::OutOfRange { key, value: value.into(), bound })
}

fn find_kind(name: &str, grammar: &Grammar) -> Result<&'static Kind, SpecError> {
    grammar.kinds.iter().find(|kind| kind.name == name).ok_or_else(|| {
        let valid: Vec<_> = grammar.kinds.iter().map(|kind| kind.name).collect();
        SpecError::UnknownKind {
            what: grammar.what,
            name: name.into(),
            nearest: nearest(name, &valid),
            valid: valid.join(", "),
        }
    })
}

fn find_key(key: &str, kind: &'static Kind, grammar: &Grammar) -> Result<&'static str, SpecError> {
    let valid: Vec<_> = kind.keys.iter().chain(grammar.common).map(|key| key.name).collect();
    valid.iter().find(|name| **name == key).copied().ok_or_else(|| SpecError::UnknownKey {
        kind: kind.name,
        key: key.into(),
        nearest: nearest(key, &valid),
        valid: valid.join(", "),
    })
}

/// The most similar name; the first of equally similar ones.
pub(crate) fn nearest(name: &str, valid: &[&'static str]) -> &'static str {
    let similarity = |candidate: &str| strsim::jaro_winkler(name, candidate);
    valid
        .iter()
        .copied()
        .reduce(|best, next| if similarity(next) > similarity(best) { next } else { best })
        .expect("a grammar has names")
}
