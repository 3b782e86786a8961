//! The repository in which the tests lie, and cargo in it.

use std::path::Path;
use std::process::Command;

/// Returns the top folder of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate lies two levels down")
}

/// Returns a command that starts cargo in the top folder of the repository.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}
