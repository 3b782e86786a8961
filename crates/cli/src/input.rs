//! Traces as the user names them: files, pipes and standard input.
//!
//! A trace is read more than once: for its extent, for its checksum, and by every design. An input that can be read
//! only once is therefore copied to a temporary file first, without decompression.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempPath;
use wearwell_trace::OpenOptions;

use crate::Failure;
use crate::output::is_standard_stream;

/// A trace file that can be opened repeatedly.
pub(crate) struct TraceFile {
    pub(crate) path: PathBuf,
    pub(crate) options: OpenOptions,
    /// Temporary copy of a pipe or standard input; the file is removed when this value is dropped.
    _copy: Option<TempPath>,
}

impl TraceFile {
    /// Returns the trace at `path`; a pipe or standard input is copied to a temporary file.
    ///
    /// # Errors
    /// The input cannot be read, or there is no space for the copy.
    pub(crate) fn open_repeatable(path: &Path, options: &OpenOptions) -> Result<Self, Failure> {
        let options = options.clone();
        let is_stream = fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
        if !is_standard_stream(path) && !is_stream {
            return Ok(Self { path: path.to_owned(), options, _copy: None });
        }
        let name =
            if is_standard_stream(path) { "standard input".into() } else { path.display().to_string() };
        let copied = copy_to_temporary_file(path).map_err(|error| Failure::of_input(&name, &error))?;
        Ok(Self {
            path: copied.to_path_buf(),
            options: OpenOptions { trace_name: Some(name), ..options },
            _copy: Some(copied),
        })
    }
}

fn copy_to_temporary_file(path: &Path) -> io::Result<TempPath> {
    let (mut copy, copied) = tempfile::NamedTempFile::with_prefix("wearwell-")?.into_parts();
    if is_standard_stream(path) {
        io::copy(&mut io::stdin().lock(), &mut copy)?;
    } else {
        io::copy(&mut File::open(path)?, &mut copy)?;
    }
    Ok(copied)
}
