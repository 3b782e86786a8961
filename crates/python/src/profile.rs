//! Profiles inputs and files for Python, and runs the content mechanisms on them.

use std::fs::File;
use std::io::BufWriter;
use std::ops::ControlFlow;
use std::path::PathBuf;

use pyo3::prelude::*;
use wearwell_replay::html_report;
use wearwell_replay::json::{FromJson, ToJson};
use wearwell_replay::profile::files::ProfiledFiles;
use wearwell_replay::profile::{self, BASELINE_DESIGN, Profile, ProfileError, Profiles};
use wearwell_trace::OpenOptions;

use crate::configuration::Configuration;
use crate::input::Input;
use crate::progress_watch::ProgressWatch;
use crate::refusal_error;

/// Largest value of the argument `sample`. One of `sample` pages and contents is profiled, so this value gives the
/// smallest sample.
const MAX_SAMPLE_DIVISOR: u64 = 1_000_000;

/// Parses the JSON of a profile; the error is a `WearwellError`.
fn parse_profile(profile: &str) -> PyResult<Profile> {
    Profile::from_json(profile).map_err(|error| {
        refusal_error(format!(
            "this text is not the JSON of a profile ({error}): give what ProfileResult.to_json() returns, or one \
             element of `profiles` in the output of wearwell profile --json"
        ))
    })
}

/// Returns an error unless `sample` is from 1 to [`MAX_SAMPLE_DIVISOR`]. One in `sample` pages is profiled.
fn require_valid_sample_divisor(sample: u64) -> PyResult<()> {
    if (1..=MAX_SAMPLE_DIVISOR).contains(&sample) {
        return Ok(());
    }
    Err(refusal_error(format!(
        "sample is {sample}: give an integer from 1 to {MAX_SAMPLE_DIVISOR}, so that one of so many pages is profiled"
    )))
}

/// Profiles an input by `measure`, which reports its progress to Python under the name `profile`. Returns the profile
/// as JSON, and whether ctrl-C ended it.
fn profile_with_progress(
    py: Python<'_>,
    on_progress: Option<Py<PyAny>>,
    measure: impl FnOnce(&mut dyn FnMut(u64, u64) -> ControlFlow<()>) -> Result<Profile, ProfileError> + Send,
) -> PyResult<(String, bool)> {
    py.detach(|| {
        let (mut watch, mut is_interrupted) = (ProgressWatch::new(on_progress), false);
        let profile = measure(&mut |done, total| {
            let flow = watch.report_phase_progress("profile", done, total);
            is_interrupted |= flow.is_break();
            flow
        });
        if let Ok(profile) = &profile
            && !is_interrupted
        {
            watch.report_end(profile.traffic.as_ref().map(|traffic| ("profile", traffic.requests)));
        }
        watch.into_exception()?;
        Ok((profile.map_err(refusal_error)?.to_json(), is_interrupted))
    })
}

/// Profiles the requests of an input, to its end or until ctrl-C; only one in `sample` pages and contents is examined.
/// Returns the profile as JSON, and whether ctrl-C ended it.
#[pyfunction]
#[pyo3(signature = (input, sample = 1, on_progress = None))]
pub(crate) fn profile_requests(
    py: Python<'_>,
    input: &Input,
    sample: u64,
    on_progress: Option<Py<PyAny>>,
) -> PyResult<(String, bool)> {
    require_valid_sample_divisor(sample)?;
    let input = input.to_replay_input_without_run_seed()?;
    profile_with_progress(py, on_progress, |progress| profile::profile_requests(&input, sample, progress))
}

/// Runs each content mechanism by itself on an input and adds what it saves to the profile, both as JSON.
#[pyfunction]
#[pyo3(signature = (input, configuration, profile, on_progress = None))]
pub(crate) fn run_mechanisms(
    py: Python<'_>,
    input: &Input,
    configuration: &Configuration,
    profile: &str,
    on_progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let (input, mut profile) = (input.to_replay_input_without_run_seed()?, parse_profile(profile)?);
    py.detach(|| {
        let mut watch = ProgressWatch::new(on_progress);
        let mut is_interrupted = false;
        let ran = profile.measure_mechanism_savings(&configuration.config, &input, &mut |progress| {
            let flow = watch.report_progress(progress);
            is_interrupted |= flow.is_break();
            flow
        });
        if ran.is_ok() && !is_interrupted {
            watch.report_end(None);
        }
        watch.into_exception()?;
        ran.map_err(refusal_error)?;
        Ok(profile.to_json())
    })
}

/// Returns messages about those settings that none of the runs of a profile would use.
#[pyfunction]
pub(crate) fn ignored_by_profile(configuration: &Configuration, settings: Vec<String>) -> Vec<String> {
    let every = profile::config_with_every_mechanism(&configuration.config);
    every.ignored_settings(&settings, &[BASELINE_DESIGN.to_owned()]).iter().map(ToString::to_string).collect()
}

/// Whether a path is profiled as a trace; a directory, and a file of unknown format, are profiled by their bytes.
#[pyfunction]
pub(crate) fn is_trace(path: PathBuf) -> PyResult<bool> {
    profile::is_profiled_as_trace(&path, &OpenOptions::default()).map_err(refusal_error)
}

/// Profiles the pages of a file or of all files of a directory, to the end or until ctrl-C. Returns the profile as
/// JSON, and whether ctrl-C ended it.
#[pyfunction]
#[pyo3(signature = (path, against = None, sample = 1, on_progress = None))]
pub(crate) fn profile_files(
    py: Python<'_>,
    path: PathBuf,
    against: Option<PathBuf>,
    sample: u64,
    on_progress: Option<Py<PyAny>>,
) -> PyResult<(String, bool)> {
    require_valid_sample_divisor(sample)?;
    profile_with_progress(py, on_progress, |progress| {
        profile::profile_files(&path, against.as_deref(), sample, progress)
    })
}

/// Writes a trace to the file `target`, with one write for each page of a file, or of all files of a directory. Returns
/// the number of pages; files that cannot be read are left out.
#[pyfunction]
pub(crate) fn write_trace_of_files(py: Python<'_>, path: PathBuf, target: PathBuf) -> PyResult<u64> {
    py.detach(|| {
        let mut files = ProfiledFiles::find(&path, None)
            .map_err(|error| refusal_error(format!("{}: cannot read the files to profile, so allow this user to read \
                                                    them or name others: {error}", path.display())))?;
        let out =
            File::create(&target).map_err(|error| refusal_error(format!("{}: cannot write the trace of the files, so \
                                                                         name a file in a folder in which files can \
                                                                         be written: {error}", target.display())))?;
        files.write_trace(BufWriter::new(out), &mut |_| ControlFlow::Continue(())).map_err(refusal_error)
    })
}

/// Returns a profile as the text that `wearwell profile` prints.
#[pyfunction]
pub(crate) fn table_of_profile(profile: &str) -> PyResult<String> {
    Ok(parse_profile(profile)?.to_table())
}

/// Returns the HTML page of profiles.
#[pyfunction]
pub(crate) fn html_page_of_profiles(profiles: Vec<String>) -> PyResult<String> {
    Ok(html_report::html_page(&Profiles::of_profiles(
        profiles.iter().map(|profile| parse_profile(profile)).collect::<PyResult<_>>()?,
    )))
}

/// Returns the tables and notes of the HTML page of a profile, without its charts.
#[pyfunction]
pub(crate) fn html_tables_of_profile(profile: &str) -> PyResult<String> {
    Ok(html_report::tables_html(&Profiles::of_profiles(vec![parse_profile(profile)?])))
}
