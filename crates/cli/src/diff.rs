//! The command `diff`: reports what differs between two results.

use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

use wearwell_replay::diff::{Diff, ResultFile};

use crate::Failure;
use crate::args::DiffArgs;
use crate::output::{is_standard_stream, print};
use crate::run::Outputs;

/// Executes the command `diff`: prints the differences of two result files, and returns the exit status.
pub(crate) fn diff(args: &DiffArgs) -> ExitCode {
    match compare_and_print(args) {
        Ok(diff) => ExitCode::from(u8::from(args.exit_code && !diff.is_empty())),
        Err(failure) => failure.print_unless_logged(),
    }
}

/// Compares both results, writes the HTML page if one is requested, and prints the differences.
fn compare_and_print(args: &DiffArgs) -> Result<Diff, Failure> {
    let outputs = Outputs::of_json_and_report(None, &args.report, &[&args.first, &args.second])?;
    let diff = compare_results(args)?;
    outputs.write_html_page(&diff)?;
    if !outputs.has_stdout_result() {
        print(&diff.to_table())?;
    }
    Ok(diff)
}

/// Reads both results and returns their differences.
fn compare_results(args: &DiffArgs) -> Result<Diff, Failure> {
    if is_standard_stream(&args.first) && is_standard_stream(&args.second) {
        return Err(Failure::of_usage(
            "only one of the two results can be read from standard input (-): name a file for the other",
        ));
    }
    let (first, second) = (read_result(&args.first)?, read_result(&args.second)?);
    Diff::of_files(first, second, args.within).map_err(|error| Failure::of_usage(error.to_string()))
}

/// Reads a result from a file, or from standard input if the path is `-`.
fn read_result(path: &Path) -> Result<ResultFile, Failure> {
    let name = path.display().to_string();
    let text =
        if is_standard_stream(path) { io::read_to_string(io::stdin()) } else { fs::read_to_string(path) };
    let text = text.map_err(|error| {
        Failure::of_usage(match error.kind() {
            io::ErrorKind::InvalidData => {
                format!("{name} is not UTF-8 text: name a result that a wearwell command wrote with --json")
            }
            _ => format!("{name}: cannot read this result, so name another or remove the cause: {error}"),
        })
    })?;
    ResultFile::parse(&name, &text).map_err(|error| Failure::of_usage(error.to_string()))
}
