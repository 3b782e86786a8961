//! What tells a result from all others: the digest of everything that it depends on, by which finished results are kept.
//!
//! A trace counts by its SHA-256; the files beside a capture, and the trace that ages a drive, by length and time of change.

use std::path::Path;
use std::time::SystemTime;

use wearwell_config::Config;
use wearwell_trace as trace;

use super::Plan;
use crate::code;
use crate::input::Input;
use crate::life::LifeRecord;

impl Plan<'_> {
    /// Digest of all that a run of `design` depends on: code, input, design and settings.
    pub fn run_key(&self, design: &str) -> String {
        self.key(design, &self.config.effective(&self.resolved, self.arrival()), "")
    }

    /// Digest of all that the life of `record`'s drive depends on: code, input, design, settings, seed and limits.
    pub fn life_key(&self, record: &LifeRecord) -> String {
        let (seed, endurance, is_filled) = (self.config.seed(), record.endurance, record.is_filled);
        self.key(&record.design, &self.config_of_lives(), &format!("{seed} {endurance:?} {is_filled}"))
    }

    fn key(&self, design: &str, config: &Config, more: &str) -> String {
        let (made_by, input, read) = (code::of_runs(), self.input.name(), self.read());
        let settings = config.to_toml();
        code::digest(&format!("{made_by}\n{input}\n{read}\n{design}\n{more}\n{settings}"))
    }

    /// What is read, and how; nothing of an input that its name describes.
    fn read(&self) -> String {
        let input = match self.input {
            Input::Trace { path, options } => {
                let beside: Vec<_> = trace::files_beside(path).iter().map(|file| stamp(file)).collect();
                format!("{options:?} {:?} {beside:?}", self.sha256)
            }
            Input::Workload(_) | Input::Host(_) => String::new(),
        };
        match &self.aging {
            Some(Input::Trace { path, options }) => format!("{input} after {options:?} {:?}", stamp(path)),
            _ => input,
        }
    }
}

/// Length and time of change of a file.
fn stamp(path: &Path) -> Option<(u64, Option<SystemTime>)> {
    std::fs::metadata(path).map(|file| (file.len(), file.modified().ok())).ok()
}
