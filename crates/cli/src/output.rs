//! Writes results to standard output and to files.
//!
//! A result must not be lost and must not destroy other data. All commands that write a file follow one rule
//! ([`OverwriteRule`]): the file is new or empty, unless `--force` allows to replace it, and it is never one of the
//! inputs. A regular file is replaced as a whole, so that a reader sees either the old or the new result. Any other
//! file (a pipe, a terminal, `/dev/null`) is written through and never replaced. It is no error if the reader of a
//! pipe closes it early. Folders of results (`reproduce --out`, `man`, `--resume`) contain nothing else, so their
//! files are replaced without `--force`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use wearwell_replay::atomic_file::create_file_beside;

use crate::Failure;

/// Rule that decides which existing files the result of a command may replace.
pub(crate) struct OverwriteRule<'a> {
    /// Files that the command reads; a result never replaces them.
    pub(crate) input_paths: &'a [&'a Path],
    /// Whether a result may replace files that are not empty, other than the inputs (`--force`).
    pub(crate) force: bool,
}

impl OverwriteRule<'_> {
    /// Refuses to write a result to an existing regular file if it is an input, or is not empty and `force` is not set.
    fn check_existing_file(&self, name: &Path, found: &fs::Metadata) -> Result<(), Failure> {
        let refuse = |why: &str| Err(Failure::of_usage(format!("{}: {why}", name.display())));
        if self.input_paths.iter().any(|input| is_same_file(input, found)) {
            return refuse(
                "the file is an input of this command, and would be replaced by its output: name another output file",
            );
        }
        if found.len() > 0 && !self.force {
            return refuse("the file exists: name another output file, or replace it with --force");
        }
        Ok(())
    }
}

/// Returns whether `path` refers to the given file, under this name or by a link.
fn is_same_file(path: &Path, file: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (file.dev(), file.ino()))
}

/// Returns the file to which an output is written, so that two names of one file can be told: its path after following
/// links, even if the file does not exist yet. `-` stands for standard output.
pub(crate) fn file_of_output(path: &Path) -> PathBuf {
    if is_standard_stream(path) {
        return path.to_owned();
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let in_folder = || Some(fs::canonicalize(folder).ok()?.join(path.file_name()?));
    fs::canonicalize(path).ok().or_else(in_folder).unwrap_or_else(|| path.to_owned())
}

/// Prints a text to standard output.
///
/// # Errors
/// Standard output cannot be written. A pipe that its reader closed is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// Prints a message, one or more lines, to standard error. If it cannot be written there, it is dropped: a message that
/// nobody takes must not end a command, as the panic of `eprintln!` would, nor change its exit status.
pub(crate) fn print_message(text: &str) {
    let mut line = text.to_owned();
    line.push('\n');
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Writes bytes to standard output; a pipe that its reader closed is no error.
fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::of_output(Path::new("standard output"), &error))
        }
        _ => Ok(()),
    }
}

/// Returns whether a path is `-`, which stands for standard input or output.
pub(crate) fn is_standard_stream(path: &Path) -> bool {
    path == Path::new("-")
}

/// Where a result is written: a file or standard output.
pub(crate) struct OutputDestination {
    /// Path of the output as the user wrote it.
    user_path: PathBuf,
    /// Kind of the output (standard output, special or regular file) and, of a regular file, its path after following
    /// links.
    target: OutputTarget,
}

/// What a result is written to: standard output, a special file or a regular file.
enum OutputTarget {
    /// The output is standard output.
    StandardOutput,
    /// The output is a device, pipe or socket, which is written through.
    SpecialFile,
    /// The output is a regular file, with its path after following links; the file may not exist yet.
    RegularFile(PathBuf),
}

impl OutputDestination {
    /// Returns an output that writes a result to `path`, after checking that it can be written there. Called before a
    /// run, which may take hours.
    ///
    /// # Errors
    /// A directory, a missing folder, a folder in which no file can be created, or a file that `overwrite` protects.
    pub(crate) fn for_path(path: &Path, overwrite: &OverwriteRule<'_>) -> Result<Self, Failure> {
        let name = path.to_owned();
        if is_standard_stream(path) {
            return Ok(Self { user_path: name, target: OutputTarget::StandardOutput });
        }
        let describe = |error: io::Error| Failure::of_output(path, &error);
        let resolved = match fs::canonicalize(path) {
            Ok(resolved) => resolved,
            Err(error) if error.kind() == ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(describe(error)),
        };
        let target = match fs::metadata(&resolved) {
            Ok(found) if found.is_dir() => return Err(describe(ErrorKind::IsADirectory.into())),
            Ok(found) if !found.is_file() => OutputTarget::SpecialFile,
            Ok(found) => {
                overwrite.check_existing_file(path, &found)?;
                OutputTarget::RegularFile(resolved)
            }
            Err(_) => OutputTarget::RegularFile(resolved),
        };
        if let OutputTarget::RegularFile(path) = &target {
            create_file_beside(path).map_err(describe)?;
        }
        Ok(Self { user_path: name, target })
    }

    /// Returns whether the output is standard output, so that the command must not print a table there.
    pub(crate) fn is_standard_output(&self) -> bool {
        matches!(self.target, OutputTarget::StandardOutput)
    }

    /// Returns whether the output is a device, pipe or socket.
    pub(crate) fn is_special_file(&self) -> bool {
        matches!(self.target, OutputTarget::SpecialFile)
    }

    /// Writes the whole result to the output.
    ///
    /// # Errors
    /// The error of the operating system, with the path.
    pub(crate) fn write(&self, text: &str) -> Result<(), Failure> {
        self.write_bytes(text.as_bytes())
    }

    /// Writes a whole result that is not text to the output.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub(crate) fn write_bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        if self.is_standard_output() {
            return print_bytes(bytes);
        }
        self.write_with(|mut file| {
            file.write_all(bytes).map_err(|error| Failure::of_output(&self.user_path, &error))
        })
    }

    /// Calls `write` with the file, opened for writing, that takes the result. For a regular file this is a temporary
    /// file next to it, which replaces it if `write` succeeds and is removed if it fails.
    ///
    /// # Errors
    /// Those of `write`; the file cannot be opened, or replaced.
    ///
    /// # Panics
    /// On standard output.
    pub(crate) fn write_with<T>(&self, write: impl FnOnce(File) -> Result<T, Failure>) -> Result<T, Failure> {
        let describe = |error: io::Error| Failure::of_output(&self.user_path, &error);
        match &self.target {
            OutputTarget::RegularFile(path) => {
                let partial = create_file_beside(path).map_err(describe)?;
                let result = write(partial.reopen().map_err(describe)?)?;
                partial.persist(path).map_err(|refused| describe(refused.error))?;
                Ok(result)
            }
            OutputTarget::SpecialFile => {
                write(OpenOptions::new().write(true).open(&self.user_path).map_err(describe)?)
            }
            OutputTarget::StandardOutput => unreachable!("the caller writes to standard output itself"),
        }
    }
}
