//! Configurations of runs for Python, and lists of names: drives, designs, causes of flash operations.

use std::path::PathBuf;

use pyo3::prelude::*;
use wearwell::design;
use wearwell::nand::preset;
use wearwell::operation::Cause;
use wearwell_config::{Config, ConfigError};

use crate::refusal_error;

/// The configuration of a run, read from a file and from settings. If a key has several values, the last one counts;
/// settings come after the file.
#[pyclass(frozen, module = "wearwell._native")]
pub(crate) struct Configuration {
    /// The configuration as the engine reads it; absent values have their defaults.
    pub(crate) config: Config,
}

#[pymethods]
impl Configuration {
    /// Reads a TOML file, if one is given, and then the settings `section.key=value`.
    #[new]
    #[pyo3(signature = (settings, file = None))]
    fn new(settings: Vec<String>, file: Option<PathBuf>) -> PyResult<Self> {
        let config = Config::read(file.as_deref(), &settings).map_err(refusal_error)?;
        Ok(Self { config })
    }

    /// Returns the configuration as the text of a TOML file, with the default of every key that has one.
    fn to_toml(&self) -> String {
        self.config.to_toml()
    }

    /// Returns the seed of all random choices of a run.
    fn seed(&self) -> u64 {
        self.config.seed()
    }

    /// Returns all parts of the design (map, validity, content mechanisms, ...) as settings, joined by blanks.
    fn parts(&self, design: &str) -> PyResult<String> {
        Ok(self.config.all_parts(design).map_err(refusal_error)?.as_settings())
    }

    /// Returns this configuration with the persistence that the design has without `parts.content`, if the parts can be
    /// combined with it.
    fn keeping_persistence_of(&self, design: &str) -> Self {
        let mut config = self.config.clone();
        config.keep_persistence_of_design(design);
        Self { config }
    }

    /// Whether `parts.content` is set.
    fn has_chosen_content(&self) -> bool {
        self.config.parts.content.is_some()
    }

    /// Returns the keys of those settings that a run of the design would ignore. Each key has a message for the user
    /// that says so.
    fn ignored_settings(&self, settings: Vec<String>, design: &str) -> Vec<(String, String)> {
        let ignored = self.config.ignored_settings(&settings, &[design.to_owned()]);
        ignored.into_iter().map(|ignored| (ignored.setting_key.clone(), ignored.to_string())).collect()
    }
}

/// Returns all device presets, each as a pair: its name, and the source of its figures.
#[pyfunction]
pub(crate) fn devices() -> Vec<(&'static str, &'static str)> {
    let auto = ("auto", "a small drive with the timing of lx-40g, sized to the input; the default");
    let presets = preset::all_presets();
    std::iter::once(auto)
        .chain(presets.iter().map(|device| (device.name, device.source_of_figures)))
        .collect()
}

/// Returns the designs: name, source, what is modelled, what is not modelled.
#[pyfunction]
pub(crate) fn designs() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    let texts = |design: &design::DesignDescription| {
        (design.name, design.source, design.model_scope, design.model_limits)
    };
    design::ALL.iter().map(texts).collect()
}

/// Returns the names of all causes of flash operations, as the records of runs have them.
#[pyfunction]
pub(crate) fn causes() -> Vec<&'static str> {
    Cause::ALL.iter().map(|cause| cause.name()).collect()
}

/// Kinds of names that Python code checks itself (device, design, executor), for the message of `unknown_name`.
const NAME_KINDS: [&str; 3] = ["device", "design", "executor"];

/// Returns the error about an unknown name; the message suggests the most similar known name.
#[pyfunction]
pub(crate) fn unknown_name(what: &str, name: &str, known: Vec<String>) -> PyErr {
    let what = NAME_KINDS.into_iter().find(|kind| *kind == what).unwrap_or("name");
    refusal_error(ConfigError::unknown_name(what, name, known.iter().map(String::as_str)))
}
