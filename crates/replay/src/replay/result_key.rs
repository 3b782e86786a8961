//! Keys of results: the digest of everything that a result depends on, under which finished results are stored and
//! found again.
//!
//! A trace is identified by its SHA-256; files next to a trace, and the trace that ages a drive, by their length and
//! modification time.

use std::path::Path;
use std::time::SystemTime;

use wearwell_config::Config;
use wearwell_trace as trace;

use super::Plan;
use crate::code_digest;
use crate::input::Input;
use crate::life::LifeRecord;

impl Plan<'_> {
    /// Returns the digest of everything that a run of `design` depends on: code, input, design and settings.
    pub fn run_result_key(&self, design: &str) -> String {
        self.result_key(
            design,
            &self.config.with_effective_values(&self.resolved_device, self.arrival_mode()),
            "",
        )
    }

    /// Returns the digest of everything that the life of `record`'s drive depends on: code, input, design, settings,
    /// seed and endurance limits.
    pub fn life_result_key(&self, record: &LifeRecord) -> String {
        let (seed, endurance, is_filled) = (self.config.seed(), record.endurance, record.is_filled);
        self.result_key(&record.design, &self.config_of_lives(), &format!("{seed} {endurance:?} {is_filled}"))
    }

    /// Returns the digest of code, input, design and settings, and of `more`, everything else on which the result
    /// depends.
    fn result_key(&self, design: &str, config: &Config, more: &str) -> String {
        let (made_by, input, read) =
            (code_digest::simulation_code_digest(), self.input.name(), self.describe_input_file());
        let settings = config.to_toml();
        code_digest::short_sha256(&format!("{made_by}\n{input}\n{read}\n{design}\n{more}\n{settings}"))
    }

    /// Returns a description of the input's file and of how it is read, as a part of a result's key. Generators have
    /// none, because their name describes them completely.
    fn describe_input_file(&self) -> String {
        let input = match self.input {
            Input::Trace { path, options } => {
                let beside: Vec<_> =
                    trace::sidecar_files_of(path).iter().map(|file| length_and_mtime(file)).collect();
                format!("{options:?} {:?} {beside:?}", self.input_sha256)
            }
            Input::Workload(_) | Input::Host(_) => String::new(),
        };
        match &self.aging_input {
            Some(Input::Trace { path, options }) => {
                format!("{input} after {options:?} {:?}", length_and_mtime(path))
            }
            _ => input,
        }
    }
}

/// Returns the length and modification time of a file; `None` if it does not exist.
fn length_and_mtime(path: &Path) -> Option<(u64, Option<SystemTime>)> {
    std::fs::metadata(path).map(|file| (file.len(), file.modified().ok())).ok()
}
