//! Where results go: standard output and files.
//!
//! A result must not be lost, and must not destroy anything. One rule for every command that writes a file ([`Overwrite`]): the
//! file is new or empty, unless `--force` replaces it, and it is never one of the inputs. A regular file is replaced as a whole, so
//! that a reader sees the old or the new result. Anything else (a pipe, a terminal, `/dev/null`) is written to as it is and never
//! replaced. A reader that closes its pipe has seen enough: that is no failure. Folders of results (`reproduce --out`, `man`,
//! `--resume`) hold nothing else, and are renewed without `--force`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::Failure;

/// Which existing files a result may replace.
pub(crate) struct Overwrite<'a> {
    /// Files that the command reads: never replaced.
    pub(crate) inputs: &'a [&'a Path],
    /// Other files that hold something may be replaced.
    pub(crate) force: bool,
}

impl Overwrite<'_> {
    /// Refuses a regular file that holds something.
    fn check(&self, name: &Path, found: &fs::Metadata) -> Result<(), Failure> {
        let refuse = |why: &str| Err(Failure::of_usage(format!("{}: {why}", name.display())));
        if self.inputs.iter().any(|input| is_same_file(input, found)) {
            return refuse("is an input of this command, and would be replaced by its output");
        }
        if found.len() > 0 && !self.force {
            return refuse("exists; --force replaces it");
        }
        Ok(())
    }
}

/// Whether a path leads to that file, by this name or another.
fn is_same_file(path: &Path, file: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (file.dev(), file.ino()))
}

/// Prints to standard output.
///
/// # Errors
/// Standard output cannot be written, unless its reader has gone.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::of_output(Path::new("standard output"), &error))
        }
        _ => Ok(()),
    }
}

/// Whether a path stands for standard input or output.
pub(crate) fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// A file that a result is written into, or standard output.
pub(crate) struct Output {
    /// As the user wrote it.
    name: PathBuf,
    target: Target,
}

enum Target {
    Standard,
    /// A device, pipe or socket: written through.
    Special,
    /// A regular file, links followed, which may not exist yet.
    Regular(PathBuf),
}

impl Output {
    /// Checks that a result can be written there. Called before a run, which may take hours.
    ///
    /// # Errors
    /// A directory, a missing folder, a place where no file can be made, or a file that `overwrite` protects.
    pub(crate) fn at(path: &Path, overwrite: &Overwrite<'_>) -> Result<Self, Failure> {
        let name = path.to_owned();
        if is_standard(path) {
            return Ok(Self { name, target: Target::Standard });
        }
        let describe = |error: io::Error| Failure::of_output(path, &error);
        let resolved = match fs::canonicalize(path) {
            Ok(resolved) => resolved,
            Err(error) if error.kind() == ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(describe(error)),
        };
        let target = match fs::metadata(&resolved) {
            Ok(found) if found.is_dir() => return Err(describe(ErrorKind::IsADirectory.into())),
            Ok(found) if !found.is_file() => Target::Special,
            Ok(found) => {
                overwrite.check(path, &found)?;
                Target::Regular(resolved)
            }
            Err(_) => Target::Regular(resolved),
        };
        let output = Self { name, target };
        if let Some(partial) = output.partial() {
            File::create(&partial).and_then(|_| fs::remove_file(&partial)).map_err(describe)?;
        }
        Ok(output)
    }

    /// Whether results go to standard output, where a table would be in their way.
    pub(crate) fn is_standard(&self) -> bool {
        matches!(self.target, Target::Standard)
    }

    /// Whether it is a device, pipe or socket.
    pub(crate) fn is_special(&self) -> bool {
        matches!(self.target, Target::Special)
    }

    /// Writes the whole result.
    ///
    /// # Errors
    /// What the system says, with the path.
    pub(crate) fn write(&self, text: &str) -> Result<(), Failure> {
        if self.is_standard() {
            return print(text);
        }
        self.write_with(|path| {
            let describe = |error: io::Error| Failure::of_output(&self.name, &error);
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).open(path).map_err(describe)?;
            file.write_all(text.as_bytes()).map_err(describe)
        })
    }

    /// Has `write` make the file at the path that it is given: beside a regular file, which is replaced when it succeeded
    /// and left alone when it failed.
    ///
    /// # Errors
    /// Those of `write`, and of the replacement.
    ///
    /// # Panics
    /// On standard output, which has no path.
    pub(crate) fn write_with<T>(
        &self,
        write: impl FnOnce(&Path) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match (&self.target, self.partial()) {
            (Target::Regular(path), Some(partial)) => {
                let written = write(&partial).and_then(|result| {
                    let replaced = fs::rename(&partial, path);
                    replaced.map(|()| result).map_err(|error| Failure::of_output(&self.name, &error))
                });
                if written.is_err() {
                    let _ = fs::remove_file(&partial);
                }
                written
            }
            (Target::Special, _) => write(&self.name),
            _ => unreachable!("standard output has no path"),
        }
    }

    /// The file beside a regular one that becomes it.
    fn partial(&self) -> Option<PathBuf> {
        let Target::Regular(path) = &self.target else { return None };
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        Some(partial.into())
    }
}
