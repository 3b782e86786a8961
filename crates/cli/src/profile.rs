//! The command `profile`: measures the properties of traces, directories and disk images that decide whether a drive's
//! content mechanisms pay (duplicates, compressibility, similar versions, rewrites).

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};
use wearwell_replay::input::Input;
use wearwell_replay::json::ToJson;
use wearwell_replay::profile::files::ProfiledFiles;
use wearwell_replay::profile::{self, Profile, Profiles};
use wearwell_trace::{OpenOptions, TraceError};

use crate::args::ProfileArgs;
use crate::input::TraceFile;
use crate::output::print;
use crate::progress::ProgressReporter;
use crate::run::{Outputs, read_config, replay_failure};
use crate::{Failure, Outcome};

/// Executes the command `profile`: profiles each input and writes the profiles.
pub(crate) fn profile(args: &ProfileArgs) -> Result<Outcome, Failure> {
    if args.against.is_some() && args.paths.len() != 1 {
        return Err(Failure::of_usage(
            "--against OLD compares one PATH with OLD, an older version of it: give exactly one PATH",
        ));
    }
    let inputs: Vec<&Path> =
        args.paths.iter().chain(&args.against).chain(&args.config).map(PathBuf::as_path).collect();
    let outputs = Outputs::of_json_and_report(args.json.as_deref(), &args.report, &inputs)?;
    let reporter = ProgressReporter::new(args.quiet);
    let mut profiles = Vec::new();
    let mut failed = 0;
    for source in profile_sources(args)? {
        if reporter.is_interrupted() {
            break;
        }
        match source.profile(args, &reporter) {
            Ok(profile) => profiles.push(profile),
            Err(failure) if args.paths.len() > 1 && !failure.is_usage_failure() => {
                failure.print();
                failed += 1;
            }
            Err(failure) => return Err(failure),
        }
    }
    if profiles.is_empty() {
        return Err(if failed > 0 { Failure::no_profilable_input() } else { Failure::interrupted() });
    }
    let is_whole =
        profiles.len() == args.paths.len().max(1) && profiles.iter().all(|profile| !profile.partial);
    write_profiles(profiles, args, &outputs)?;
    Ok(if is_whole { Outcome::Done } else { Outcome::Partial })
}

/// Writes the profiles to the requested files, and prints their tables unless standard output holds a result.
fn write_profiles(profiles: Vec<Profile>, args: &ProfileArgs, outputs: &Outputs) -> Result<(), Failure> {
    let profiles = Profiles::of_profiles(profiles);
    if let Some(output) = &outputs.json_output {
        let text = profiles.to_pretty_json();
        output.write(&(text + "\n"))?;
    }
    outputs.write_html_page(&profiles)?;
    if !args.quiet && !outputs.has_stdout_result() {
        let tables: Vec<String> = profiles.profiles.iter().map(Profile::to_table).collect();
        print(&tables.join("\n"))?;
    }
    Ok(())
}

/// An input of the command `profile`: a generated workload, or a path whose kind is found when it is opened.
enum ProfileSource<'a> {
    /// A generated workload.
    Generated(Input),
    /// Path of a trace, directory, disk image or any other file.
    Path(&'a Path),
}

/// Returns the inputs that the command line names: one workload, or any number of paths.
fn profile_sources(args: &ProfileArgs) -> Result<Vec<ProfileSource<'_>>, Failure> {
    match &args.workload {
        Some(spec) => {
            args.input.refuse_trace_options_for_workload()?;
            let input =
                Input::of_generator_spec(spec).map_err(|error| Failure::of_usage(error.to_string()))?;
            Ok(vec![ProfileSource::Generated(input)])
        }
        None => Ok(args.paths.iter().map(|path| ProfileSource::Path(path)).collect()),
    }
}

impl ProfileSource<'_> {
    /// Profiles this input.
    fn profile(&self, args: &ProfileArgs, reporter: &ProgressReporter) -> Result<Profile, Failure> {
        match self {
            Self::Generated(input) => profile_requests(input, args, reporter),
            Self::Path(path) => profile_input_at_path(path, args, reporter),
        }
    }
}

/// Profiles the requests of a trace; a file that is in no trace format is profiled by its bytes.
fn profile_input_at_path(
    path: &Path,
    args: &ProfileArgs,
    reporter: &ProgressReporter,
) -> Result<Profile, Failure> {
    if path.is_dir() || args.files || args.against.is_some() {
        return profile_files(path, args, reporter);
    }
    let options = args.input.open_options()?;
    let file = TraceFile::open_repeatable(path, &options, None, || reporter.is_interrupted())?;
    let name = file.options.trace_name_of(path);
    if !profile::is_profiled_as_trace(&file.path, &file.options).map_err(|error| Failure::of_run(&error))? {
        let profile = profile_files(&file.path, args, reporter)?;
        return Ok(Profile { input: name, ..profile });
    }
    let options = OpenOptions { trace_name: Some(name), ..file.options.clone() };
    profile_requests(&Input::Trace { path: file.path.clone(), options }, args, reporter)
}

/// Profiles the requests of a trace or workload, and runs the content mechanisms on it if requested.
fn profile_requests(
    input: &Input,
    args: &ProfileArgs,
    reporter: &ProgressReporter,
) -> Result<Profile, Failure> {
    let mut progress = reporter.progress_callback_of_reading("profile", "requests");
    let profile = profile::profile_requests(input, args.sample, &mut progress);
    let mut profile = profile.map_err(|error| Failure::of_run(&error))?;
    run_content_mechanisms(&mut profile, input, args, reporter)?;
    Ok(profile)
}

/// Profiles the bytes of a file, directory or disk image, and runs the content mechanisms on them if requested.
fn profile_files(path: &Path, args: &ProfileArgs, reporter: &ProgressReporter) -> Result<Profile, Failure> {
    let mut progress = reporter.progress_callback_of_reading("profile", "bytes");
    let profile = profile::profile_files(path, args.against.as_deref(), args.sample, &mut progress);
    let mut profile = profile.map_err(|error| Failure::of_run(&error))?;
    if args.run {
        let trace = write_temporary_trace_of_files(path, reporter)?;
        let options = OpenOptions { trace_name: Some(profile.input.clone()), ..OpenOptions::default() };
        let input = Input::Trace { path: trace.to_path_buf(), options };
        run_content_mechanisms(&mut profile, &input, args, reporter)?;
    }
    Ok(profile)
}

/// Writes a temporary trace in which each page of the files at `path` is written once, and returns its path.
fn write_temporary_trace_of_files(path: &Path, reporter: &ProgressReporter) -> Result<TempPath, Failure> {
    let name = path.display().to_string();
    let of_input = |error: io::Error| Failure::of_input(&name, &error);
    let mut files = ProfiledFiles::find(path, None).map_err(of_input)?;
    let total = files.total_bytes;
    let mut progress = reporter.progress_callback_of_reading("run", "bytes");
    let unwritable_trace = |error: io::Error| {
        Failure::of_run_with_message(format!(
            "cannot write a temporary trace for --run in the directory {}: {error}; free space there, or set the \
             environment variable TMPDIR to another directory",
            std::env::temp_dir().display()
        ))
    };
    let (file, trace) = NamedTempFile::with_prefix("wearwell-").map_err(unwritable_trace)?.into_parts();
    let written = files.write_trace(BufWriter::new(file), &mut |done| progress(done, total));
    written.map_err(|error| match error {
        TraceError::Write(error) => unwritable_trace(error),
        other => Failure::of_trace(&other),
    })?;
    Ok(trace)
}

/// Runs the content mechanisms on a drive and adds what they save to the profile, if the user requested it and the
/// profile is complete.
fn run_content_mechanisms(
    profile: &mut Profile,
    input: &Input,
    args: &ProfileArgs,
    reporter: &ProgressReporter,
) -> Result<(), Failure> {
    if !args.run || reporter.is_interrupted() {
        return Ok(());
    }
    let config = read_config(args.config.as_deref(), &args.settings)?;
    let every = profile::config_with_every_mechanism(&config);
    if let Some(ignored) =
        every.ignored_settings(&args.settings, &[profile::BASELINE_DESIGN.to_owned()]).first()
    {
        return Err(Failure::of_usage(ignored.to_string()));
    }
    let mut progress = reporter.progress_callback_of_run(profile::BASELINE_DESIGN);
    profile.measure_mechanism_savings(&config, input, &mut progress).map_err(|error| replay_failure(&error))
}
