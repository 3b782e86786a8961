//! Errors of configurations: reasons why a configuration is refused, worded as sentences for the user.

use std::fmt::Display;
use std::path::PathBuf;

/// Reason why a configuration is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A configuration file that cannot be read.
    #[error("{}: cannot read the configuration file: {source}; check its name and its permissions", file.display())]
    Unreadable {
        /// Path of the configuration file.
        file: PathBuf,
        /// Error of the operating system when the configuration file was read.
        source: std::io::Error,
    },
    /// A syntax error, an unknown key, or a value of the wrong type.
    #[error("{location}: the configuration is refused, so correct this: {message}")]
    Toml {
        /// File and line of the TOML error, or the setting that contains the error.
        location: String,
        /// What is wrong in the configuration, and which names are valid.
        message: String,
    },
    /// A name (of a design, device, ...) that does not exist.
    #[error("unknown {name_kind} `{name}`{suggestion}; expected one of {valid_names}")]
    UnknownName {
        /// Kind of name that is expected, such as `design`.
        name_kind: &'static str,
        /// The name that does not exist.
        name: String,
        /// The most similar valid name, worded as a question; empty if none is similar.
        suggestion: String,
        /// All valid names of this kind, separated by commas.
        valid_names: String,
    },
    /// A configuration value out of its range, or values that contradict each other.
    #[error("{0}")]
    InvalidValue(String),
    /// Parts of a design that cannot be combined.
    #[error("the parts of the design cannot be combined, so exchange one of them: {reason}; {advice}")]
    IncompatibleParts {
        /// Why the engine cannot combine the parts.
        reason: &'static str,
        /// Alternative changes of the configuration, each of which alone makes the parts compatible.
        advice: String,
    },
    /// A layout of the flash that is impossible.
    #[error(transparent)]
    Geometry(#[from] wearwell::nand::GeometryError),
}

impl ConfigError {
    /// Creates the error for a name that is none of the valid names `known`; the most similar of these is suggested.
    pub fn unknown_name<'a>(
        name_kind: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        Self::UnknownName {
            name_kind,
            name: name.to_owned(),
            suggestion: did_you_mean_text(name, &known),
            valid_names: known.join(", "),
        }
    }
}

/// Refuses a list of values (of designs or inputs, say) in which one occurs twice. Such a list makes equal runs, or says
/// a thing twice. `list` is what the user knows the list by, such as `--designs`.
///
/// # Errors
/// [`ConfigError::InvalidValue`] with the first value that occurs twice.
pub fn refuse_value_listed_twice<T: PartialEq + Display>(
    list: &str,
    values: &[T],
) -> Result<(), ConfigError> {
    match (1..values.len()).find(|&at| values[..at].contains(&values[at])) {
        Some(at) => {
            Err(ConfigError::InvalidValue(format!("{list} lists {} twice: leave one out", values[at])))
        }
        None => Ok(()),
    }
}

/// Returns `(did you mean "x"?)` for the most similar known name, or an empty text if none is similar. A name with
/// one letter wrong, missing or exchanged always counts as similar; otherwise similarity weighs common beginnings.
pub(crate) fn did_you_mean_text(name: &str, known: &[&str]) -> String {
    let similarity = |near: &str| match strsim::damerau_levenshtein(name, near) {
        0 | 1 => 1.0,
        _ => strsim::jaro_winkler(name, near),
    };
    let nearest = known.iter().map(|near| (similarity(near), near)).max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((similarity, near)) if similarity > 0.7 => format!(" (did you mean `{near}`?)"),
        _ => String::new(),
    }
}
