//! The `wearwell` command: replays traces through flash translation layers, compares their effects on a drive, and
//! serves one as a live device.
//!
//! Exit status: 0 done, 1 the run failed, 2 the command line or configuration is wrong, 3 the result is partial.
//! `check` has its own: 0 clean, 1 consistent after recovery or `repair`, 2 corrupt, 3 cannot be audited. `diff
//! --exit-code` ends with 0 if nothing differs, 1 if something does, 2 if a file cannot be compared.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    wearwell_cli::run_command()
}
