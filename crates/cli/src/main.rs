//! The `wearwell` command: replay traces through flash translation layers, compare what they do to a drive, and serve
//! one as a live device.
//!
//! Exit status: 0 done, 1 the run failed, 2 the command line or configuration is wrong, 3 the result is partial. `check` has
//! its own: 0 clean, 1 not closed but consistent after recovery, 2 corrupt, 3 cannot be looked at. `diff --exit-code` ends with 0
//! where nothing differs, 1 where something does, 2 where a file cannot be compared.

#![forbid(unsafe_code)]

mod ablate;
mod args;
mod diff;
mod image;
mod input;
mod jobs;
mod life;
mod lists;
mod log;
mod output;
mod profile;
mod progress;
mod reproduce;
mod run;
mod serve;
mod suggested;
mod sweep;
mod systemd;
mod top;
mod trace;

use std::process::ExitCode;

use args::{Cli, Command};
use clap::Parser;

/// How a command that did not fail ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Completely.
    Done,
    /// With a result that covers only a part of the input.
    Partial,
}

/// A failure with its exit status.
pub(crate) struct Failure {
    message: String,
    status: u8,
    /// The message is in the log already.
    is_logged: bool,
}

impl Failure {
    fn new(message: impl Into<String>, status: u8) -> Self {
        Self { message: message.into(), status, is_logged: false }
    }

    /// The run failed.
    pub(crate) fn of_run(error: &dyn std::error::Error) -> Self {
        Self::new(error.to_string(), 1)
    }

    /// Ctrl-C came before there was anything to report.
    pub(crate) fn interrupted() -> Self {
        Self::new("interrupted before the first request; nothing is written", 3)
    }

    /// An input could not be read.
    pub(crate) fn of_input(name: &str, error: &std::io::Error) -> Self {
        Self::new(format!("{name}: {error}"), 1)
    }

    /// A result could not be written.
    pub(crate) fn of_output(path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::new(format!("{}: {error}", path.display()), 2)
    }

    /// None of several inputs could be replayed; each was named.
    pub(crate) fn of_inputs() -> Self {
        Self::new("none of the inputs could be replayed", 1)
    }

    /// None of several inputs could be profiled; each was named.
    pub(crate) fn of_profiles() -> Self {
        Self::new("none of the inputs could be profiled", 1)
    }

    /// Says what failed; the status to end with.
    pub(crate) fn report(&self) -> ExitCode {
        if !self.is_logged {
            eprintln!("wearwell: {}", self.message);
        }
        ExitCode::from(self.status)
    }

    /// What failed, in a sentence.
    pub(crate) fn sentence(&self) -> String {
        self.message.clone()
    }

    /// Logs what failed as an error, instead of printing it at the end.
    pub(crate) fn logged(self) -> Self {
        tracing::error!("{}", self.message);
        Self { is_logged: true, ..self }
    }

    /// The same, of one export.
    pub(crate) fn of_export(self, name: &str) -> Self {
        Self { message: format!("export {name}: {}", self.message), ..self }
    }

    /// The first of several failures.
    pub(crate) fn of_several(self, count: usize, all: usize) -> Self {
        Self::new(format!("{count} of {all} exports failed; {}", self.message), self.status)
    }

    /// Whether the command line is to blame.
    pub(crate) fn is_of_usage(&self) -> bool {
        self.status == 2
    }

    /// The user asked for something that cannot be.
    pub(crate) fn of_usage(message: impl Into<String>) -> Self {
        Self::new(message, 2)
    }
}

/// A command that prints a text.
fn prints(text: &str) -> Result<Outcome, Failure> {
    output::print(text).map(|()| Outcome::Done)
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Replay(args) => run::replay(&args),
        Command::Compare(args) => run::compare(&args),
        Command::Ablate(args) => ablate::ablate(&args),
        Command::Sweep(args) => sweep::sweep(&args),
        Command::Life(args) => life::life(&args),
        Command::Reproduce(args) => reproduce::reproduce(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Top(args) => top::top(&args),
        Command::Profile(args) => profile::profile(&args),
        Command::Diff(args) => return diff::diff(&args),
        Command::Trace { command } => trace::trace(&command),
        Command::Create(args) => image::create(&args),
        Command::Check { directory } => return image::check(&directory),
        Command::Repair(args) => image::repair(&args),
        Command::Copy(args) => image::copy(&args),
        Command::Snapshot { control, directory, export } => top::snapshot(&control, export, &directory),
        Command::Upgrade { directory } => image::upgrade(&directory),
        Command::Devices => prints(&lists::devices()),
        Command::Designs { design: None } => prints(&lists::designs()),
        Command::Designs { design: Some(design) } => lists::file_of(&design).and_then(|file| prints(&file)),
        Command::Workloads => prints(&lists::workloads()),
        Command::Config(args) => run::show_config(&args),
        Command::Schema { of } => prints(&lists::schema(of)),
        Command::Man { folder } => lists::man(&folder),
        Command::Completions { shell } => prints(&lists::completions(shell)),
    };
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Partial) => ExitCode::from(3),
        Err(failure) => failure.report(),
    }
}
