//! Configurations, and the names that they choose from.

use std::path::PathBuf;

use pyo3::prelude::*;
use wearwell::design;
use wearwell::nand::preset;
use wearwell_config::{Config, ConfigError};

use crate::refused;

/// A configuration of a run: a file, then settings, later ones winning.
#[pyclass(frozen, module = "wearwell._native")]
pub(crate) struct Configuration {
    pub(crate) config: Config,
}

#[pymethods]
impl Configuration {
    /// From settings `section.key=value`, and from a TOML file in front of them.
    #[new]
    #[pyo3(signature = (settings, file = None))]
    fn new(settings: Vec<String>, file: Option<PathBuf>) -> PyResult<Self> {
        let config = Config::read(file.as_deref(), &settings).map_err(refused)?;
        Ok(Self { config })
    }

    /// As a file; defaults included where they have a value.
    fn to_toml(&self) -> String {
        self.config.to_toml()
    }

    /// All parts that a design has, as settings joined by blanks.
    fn parts(&self, design: &str) -> PyResult<String> {
        Ok(self.config.all_parts(design).map_err(refused)?.settings())
    }

    /// Keys of those settings that a run of the design would ignore, each with the sentence about it.
    fn ignored(&self, settings: Vec<String>, design: &str) -> Vec<(String, String)> {
        let ignored = self.config.ignored(&settings, &[design.to_owned()]);
        ignored.into_iter().map(|ignored| (ignored.key.clone(), ignored.to_string())).collect()
    }
}

/// Presets of drives, with the source of their figures.
#[pyfunction]
pub(crate) fn devices() -> Vec<(&'static str, &'static str)> {
    let auto = ("auto", "a small drive with the timing of lx-40g, sized to the input; the default");
    let presets = preset::all();
    std::iter::once(auto).chain(presets.iter().map(|device| (device.name, device.source))).collect()
}

/// Designs: name, source, what is modelled, what is not.
#[pyfunction]
pub(crate) fn designs() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    let texts = |design: &design::Design| (design.name, design.source, design.modelled, design.not_modelled);
    design::ALL.iter().map(texts).collect()
}

/// Kinds of names that Python knows by itself.
const KINDS: [&str; 3] = ["device", "design", "executor"];

/// The error about a name that nothing has, with the nearest one.
#[pyfunction]
pub(crate) fn unknown_name(what: &str, name: &str, known: Vec<String>) -> PyErr {
    let what = KINDS.into_iter().find(|kind| *kind == what).unwrap_or("name");
    refused(ConfigError::unknown(what, name, known.iter().map(String::as_str)))
}
