//! Profiles whole inputs: the requests of a trace or generator, or the pages of files.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use wearwell_trace::{OpenOptions, Request, TraceError};

use super::files::ProfiledFiles;
use super::{Profile, Profiler};
use crate::input::Input;

/// Number of profiled requests between two reports of progress.
const REQUESTS_PER_PROGRESS_REPORT: u64 = 1 << 12;
/// Largest number of unreadable files whose names a note of the profile lists.
const NAMED_UNREADABLE_FILES_MAX: usize = 3;

/// Why an input cannot be profiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The files cannot be read, or the input has no request or no page.
    #[error("{name}: the input cannot be profiled, so correct it or name another: {source}")]
    Input {
        /// Name of the input.
        name: String,
        /// The error of reading the input, or what the input lacks.
        source: io::Error,
    },
}

impl ProfileError {
    /// Creates the error for the input called `name`.
    fn of_input(name: String, source: io::Error) -> Self {
        Self::Input { name, source }
    }
}

/// Callback that reports progress while an input is read. Its arguments are the amount read and the total (0: unknown),
/// in requests or in bytes; `Break` ends the reading with a partial profile.
pub type OnReadProgress<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;

/// Returns whether the file at `path` is profiled as a trace. A directory, and a file of unknown format, are profiled
/// by their bytes instead, unless the options name a format.
///
/// # Errors
/// The file cannot be opened, or is a damaged trace.
pub fn is_profiled_as_trace(path: &Path, options: &OpenOptions) -> Result<bool, ProfileError> {
    if path.is_dir() {
        return Ok(false);
    }
    let is_format_given = options.format.is_some() || options.columns.is_some();
    match wearwell_trace::open(path, options) {
        Err(TraceError::UnknownFormat { .. } | TraceError::Utf16 { .. }) if !is_format_given => Ok(false),
        opened => Ok(opened.map(|_| true)?),
    }
}

/// Profiles the requests of an input; one of `sampling_divisor` pages and contents is examined (1: all). Of a damaged
/// trace the part before the damage is profiled, and the profile is partial.
///
/// # Errors
/// The input cannot be read, or has no requests.
pub fn profile_requests(
    input: &Input,
    sampling_divisor: u64,
    on_read: OnReadProgress<'_>,
) -> Result<Profile, ProfileError> {
    let mut requests = input.open()?;
    let mut profiler = Profiler::new(sampling_divisor);
    let mut request = Request::default();
    let (mut done, mut notes, mut partial) = (0, Vec::new(), false);
    loop {
        match requests.next_request(&mut request) {
            Ok(true) => profiler.add_request(&request),
            Ok(false) => break,
            Err(error) if error.requests_before_damage().is_some_and(|before| before > 0) => {
                notes.push(format!("DAMAGED: {error}"));
                partial = true;
                break;
            }
            Err(error) => return Err(error.into()),
        }
        done += 1;
        if done % REQUESTS_PER_PROGRESS_REPORT == 0 && on_read(done, 0).is_break() {
            partial = true;
            break;
        }
    }
    if done == 0 {
        let sentence = match input {
            Input::Trace { .. } => {
                let hint = input.block_layer_stage_hint();
                let advice =
                    if hint.is_empty() { ": check the file and its format (--format)" } else { &hint };
                format!("the trace has no requests{advice}")
            }
            Input::Workload(_) | Input::Host(_) => {
                "the workload has no requests: raise the numbers in its specification, such as requests="
                    .to_owned()
            }
        };
        return Err(ProfileError::of_input(input.name(), io::Error::other(sentence)));
    }
    if requests.rejected_lines() > 0 {
        notes.push(format!("bad lines skipped: {}", requests.rejected_lines()));
    }
    Ok(add_notes_and_partial_mark(profiler.to_profile(input.name()), notes, partial))
}

/// Profiles the pages of a file, or of all files of a directory. The path of an old version, if given, adds the
/// differences between old and new pages. One of `sampling_divisor` contents is examined (1: all). Progress is counted
/// in bytes.
///
/// # Errors
/// The path cannot be read, or has no page.
pub fn profile_files(
    path: &Path,
    old_version: Option<&Path>,
    sampling_divisor: u64,
    on_read: OnReadProgress<'_>,
) -> Result<Profile, ProfileError> {
    let name = path.display().to_string();
    let mut files = ProfiledFiles::find(path, old_version)
        .map_err(|error| ProfileError::of_input(name.clone(), error))?;
    let (total, count) = (files.total_bytes, files.file_count());
    let mut profiler = Profiler::new(sampling_divisor);
    let is_whole = files.read_into_profiler(&mut profiler, &mut |done| on_read(done, total));
    let mut notes = vec![format!("{count} files, {total} bytes")];
    let unreadable = files.unreadable_paths.len();
    if unreadable > 0 {
        let named = files.unreadable_paths[..unreadable.min(NAMED_UNREADABLE_FILES_MAX)].join("; ");
        notes.push(format!("files and directories that could not be read: {unreadable} ({named})"));
    }
    let profile = profiler.to_profile(name.clone());
    if profile.content.is_none() && is_whole {
        let sentence = match notes.get(1) {
            Some(unreadable) => format!("no page could be read, so allow this user to read the files: {unreadable}"),
            None => "no regular file here has a byte to profile (symbolic links are not followed): name a file or a \
                     directory with data"
                .to_owned(),
        };
        return Err(ProfileError::of_input(name, io::Error::other(sentence)));
    }
    Ok(add_notes_and_partial_mark(profile, notes, !is_whole || unreadable > 0))
}

/// Adds `notes` to a profile, and marks the profile as partial if `partial` is set.
fn add_notes_and_partial_mark(mut profile: Profile, mut notes: Vec<String>, partial: bool) -> Profile {
    notes.append(&mut profile.notes);
    Profile { partial, notes, ..profile }
}
