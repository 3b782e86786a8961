//! The `wearwell` command without its `main` function, as a library. So the command and its tests share one compiled
//! library.

#![forbid(unsafe_code)]

mod ablate;
mod args;
mod data_output;
mod diff;
mod file_size_signal;
mod image;
mod input;
mod jobs;
mod life;
mod lists;
mod log;
mod output;
mod parquet_file;
mod profile;
mod progress;
mod reproduce;
mod run;
mod serve;
mod suggested_names;
mod sweep;
mod systemd;
mod termination_signals;
mod top;
mod trace;
mod watch;

use std::process::ExitCode;

use args::{Cli, Command};
use clap::{CommandFactory, FromArgMatches};
pub use log::LinePrefixWriter;
pub use parquet_file::parquet_bytes;
pub use top::visible_part;
use wearwell_trace::TraceError;

/// Outcome of a command that did not fail: complete or partial.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The command did everything that its arguments request.
    Done,
    /// The result of the command covers only a part of its input.
    Partial,
}

/// Failure of a command: its message and exit status.
pub(crate) struct Failure {
    /// Message of the failure, one sentence.
    message: String,
    /// Exit status of the command: 1 for a failed run, 2 for wrong arguments, configuration or output, 3 for an
    /// interruption before there is a result.
    exit_status: u8,
    /// Whether the message of the failure was logged already.
    is_logged: bool,
}

impl Failure {
    fn new(message: impl Into<String>, exit_status: u8) -> Self {
        Self { message: message.into(), exit_status, is_logged: false }
    }

    /// Returns the failure of a command whose run ended with this error (exit status 1).
    pub(crate) fn of_run(error: &dyn std::error::Error) -> Self {
        Self::new(error.to_string(), 1)
    }

    /// Returns the failure of a command that cannot read a trace: exit status 2 if the options of the trace are wrong,
    /// else 1.
    pub(crate) fn of_trace(error: &TraceError) -> Self {
        match error {
            TraceError::UnusedOption { .. } | TraceError::NeedsOption { .. } => {
                Self::of_usage(error.to_string())
            }
            _ => Self::of_run(error),
        }
    }

    /// Returns the failure, with this message, of a command whose run failed (exit status 1).
    pub(crate) fn of_run_with_message(message: impl Into<String>) -> Self {
        Self::new(message, 1)
    }

    /// Returns the failure of a command that Ctrl-C ended before there was a result (exit status 3).
    pub(crate) fn interrupted() -> Self {
        Self::new(
            "interrupted before the first request, so that no result is written: start the command again",
            3,
        )
    }

    /// Returns the failure of a command that cannot read an input (exit status 1).
    pub(crate) fn of_input(name: &str, error: &std::io::Error) -> Self {
        Self::new(format!("{name}: cannot read the input, so remove the cause or name another: {error}"), 1)
    }

    /// Returns the failure of a command that cannot write a result (exit status 2).
    pub(crate) fn of_output(path: &std::path::Path, error: &std::io::Error) -> Self {
        let advice = match error.kind() {
            std::io::ErrorKind::NotFound => "; make the folder that is to contain it first",
            std::io::ErrorKind::IsADirectory => "; name a file",
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                "; name a file in a folder in which this user may create files"
            }
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => "; free some space",
            _ => "; remove the cause, or name another file",
        };
        Self::new(format!("{path}: cannot write this result: {error}{advice}", path = path.display()), 2)
    }

    /// Returns the failure of a command that cannot create a result folder, or cannot write to it (exit status 2).
    pub(crate) fn of_output_folder(folder: &std::path::Path, error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        let advice = match error.kind() {
            ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
                "; this is a file: name a folder, which is made if it does not exist"
            }
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                "; name a folder in which this user may create files"
            }
            _ => return Self::of_output(folder, error),
        };
        Self::new(
            format!(
                "{folder}: cannot write results to this folder: {error}{advice}",
                folder = folder.display()
            ),
            2,
        )
    }

    /// Returns the failure of a command that could replay none of its inputs; the reason for each input was reported
    /// before.
    pub(crate) fn no_replayable_input() -> Self {
        Self::new("none of the inputs could be replayed: remove the causes that are reported above", 1)
    }

    /// Returns the failure of a command that could read none of its inputs; the reason for each input was reported
    /// before.
    pub(crate) fn no_readable_input() -> Self {
        Self::new("none of the inputs could be read: remove the causes that are reported above", 1)
    }

    /// Returns the failure of a command that could profile none of its inputs; the reason for each input was reported
    /// before.
    pub(crate) fn no_profilable_input() -> Self {
        Self::new("none of the inputs could be profiled: remove the causes that are reported above", 1)
    }

    /// Prints the message, unless it was logged, and returns the exit status.
    pub(crate) fn print_unless_logged(&self) -> ExitCode {
        if !self.is_logged {
            self.print();
        }
        ExitCode::from(self.exit_status)
    }

    /// Prints the message to standard error, with the name of the command.
    pub(crate) fn print(&self) {
        output::print_message(&format!("wearwell: {}", self.message));
    }

    /// Returns the message of the failure, one sentence.
    pub(crate) fn message_text(&self) -> String {
        self.message.clone()
    }

    /// Logs the message as an error event, so that it is not printed at the end.
    pub(crate) fn log_message(self) -> Self {
        tracing::error!("{}", self.message);
        Self { is_logged: true, ..self }
    }

    /// Adds the name of the export to the message of a failure.
    pub(crate) fn with_export_name(self, name: &str) -> Self {
        Self { message: format!("export {name}: {}", self.message), ..self }
    }

    /// Puts the number of failed exports, and of all exports (`all`), before the message of this failure.
    pub(crate) fn with_failure_count(self, count: usize, all: usize) -> Self {
        Self::new(format!("{count} of {all} exports failed; {}", self.message), self.exit_status)
    }

    /// Returns whether the failure is a mistake in the command line or the configuration (exit status 2).
    pub(crate) fn is_usage_failure(&self) -> bool {
        self.exit_status == 2
    }

    /// Returns the failure of a command that asks for something impossible (exit status 2).
    pub(crate) fn of_usage(message: impl Into<String>) -> Self {
        Self::new(message, 2)
    }
}

/// Prints the whole output of a command that only prints a text, and returns the outcome of the command.
fn print_and_finish(text: &str) -> Result<Outcome, Failure> {
    output::print(text).map(|()| Outcome::Done)
}

/// Runs the command with the arguments of this process; returns its exit status.
pub fn run_command() -> ExitCode {
    file_size_signal::turn_file_size_signal_into_write_error();
    let parsed = Cli::from_arg_matches(&command_definition().get_matches());
    let result = match parsed.unwrap_or_else(|error| error.exit()).command {
        Command::Replay(args) => run::replay(&args),
        Command::Compare(args) => run::compare(&args),
        Command::Ablate(args) => ablate::ablate(&args),
        Command::Sweep(args) => sweep::sweep(&args),
        Command::Life(args) => life::life(&args),
        Command::Watch(args) => watch::watch(&args),
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
        Command::Resize { directory, size } => image::resize(&directory, size),
        Command::Snapshot { control, directory, export } => top::snapshot(&control, export, &directory),
        Command::Upgrade { directory } => image::upgrade(&directory),
        Command::Devices => print_and_finish(&lists::devices_text()),
        Command::Designs { design: None } => print_and_finish(&lists::designs_text()),
        Command::Designs { design: Some(design) } => {
            lists::design_as_file_text(&design).and_then(|file| print_and_finish(&file))
        }
        Command::Workloads => print_and_finish(&lists::workloads_text()),
        Command::Config(args) => run::show_config(&args),
        Command::Schema { of } => print_and_finish(&lists::schema_text(of)),
        Command::Man { folder } => lists::write_manual_pages(&folder),
        Command::Completions { shell } => print_and_finish(&lists::completion_script(shell)),
    };
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Partial) => ExitCode::from(3),
        Err(failure) => failure.print_unless_logged(),
    }
}

/// Returns all commands and options, with their help.
pub fn command_definition() -> clap::Command {
    with_negative_values(Cli::command())
}

/// Returns a command whose options take negative numbers as their values. Most are refused, but with the bounds of the
/// value: clap alone takes `-1` for an option that does not exist.
fn with_negative_values(command: clap::Command) -> clap::Command {
    let allow = |argument: clap::Arg| {
        let is_option = !argument.is_positional() && argument.get_action().takes_values();
        argument.allow_negative_numbers(is_option)
    };
    command.mut_args(allow).mut_subcommands(with_negative_values)
}
