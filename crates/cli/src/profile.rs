//! The command `profile`: measures the properties of traces, directories and disk images that decide whether a drive's
//! content mechanisms pay (duplicates, compressibility, similar versions, rewrites).

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use wearwell_replay::input::{Input, Requests};
use wearwell_replay::profile::files::Files;
use wearwell_replay::profile::{Profile, Profiler, Profiles};
use wearwell_trace::{OpenOptions, Request, TraceError};

use crate::args::ProfileArgs;
use crate::input::TraceFile;
use crate::output::print;
use crate::progress::Reporter;
use crate::run::Outputs;
use crate::{Failure, Outcome};

/// Number of profiled requests between two checks for ctrl-C.
const REQUESTS_PER_CHECK: u64 = 1 << 12;
/// Most unreadable files that the notes of a profile name.
const UNREADABLE_NAMED: usize = 3;

pub(crate) fn profile(args: &ProfileArgs) -> Result<Outcome, Failure> {
    if args.against.is_some() && args.paths.len() != 1 {
        return Err(Failure::of_usage("--against OLD compares one path with its old version"));
    }
    let inputs: Vec<&Path> = args.paths.iter().chain(&args.against).map(PathBuf::as_path).collect();
    let outputs = Outputs::at(args.json.as_deref(), None, &args.report, &inputs)?;
    let reporter = Reporter::new(args.quiet);
    let mut profiles = Vec::new();
    let mut failed = 0;
    for source in sources(args)? {
        if reporter.is_interrupted() {
            break;
        }
        match source.profile(args, &reporter) {
            Ok(profile) => profiles.push(profile),
            Err(failure) if args.paths.len() > 1 && !failure.is_of_usage() => {
                eprintln!("wearwell: {}", failure.message);
                failed += 1;
            }
            Err(failure) => return Err(failure),
        }
    }
    if profiles.is_empty() {
        return Err(if failed > 0 { Failure::of_profiles() } else { Failure::interrupted() });
    }
    let is_whole =
        profiles.len() == args.paths.len().max(1) && profiles.iter().all(|profile| !profile.partial);
    report(profiles, args, &outputs)?;
    Ok(if is_whole { Outcome::Done } else { Outcome::Partial })
}

fn report(profiles: Vec<Profile>, args: &ProfileArgs, outputs: &Outputs) -> Result<(), Failure> {
    let profiles = Profiles::of(profiles);
    if let Some(output) = &outputs.json {
        let text = serde_json::to_string_pretty(&profiles).map_err(|error| Failure::of_run(&error))?;
        output.write(&(text + "\n"))?;
    }
    outputs.write_page(&profiles)?;
    if !args.quiet && !outputs.take_stdout() {
        let tables: Vec<String> = profiles.profiles.iter().map(Profile::to_table).collect();
        print(&tables.join("\n"))?;
    }
    Ok(())
}

/// An input of the command `profile`: a generated workload, or a path whose kind is found when it is opened.
enum Source<'a> {
    Generated(Input),
    Path(&'a Path),
}

fn sources(args: &ProfileArgs) -> Result<Vec<Source<'_>>, Failure> {
    match &args.workload {
        Some(spec) => {
            let input = Input::generated(spec).map_err(|error| Failure::of_usage(error.to_string()))?;
            Ok(vec![Source::Generated(input)])
        }
        None => Ok(args.paths.iter().map(|path| Source::Path(path)).collect()),
    }
}

impl Source<'_> {
    fn profile(&self, args: &ProfileArgs, reporter: &Reporter) -> Result<Profile, Failure> {
        match self {
            Self::Generated(input) => profile_requests(input, args, reporter),
            Self::Path(path) => profile_path(path, args, reporter),
        }
    }
}

/// Profiles the requests of a trace; a file that is in no trace format is profiled by its bytes.
fn profile_path(path: &Path, args: &ProfileArgs, reporter: &Reporter) -> Result<Profile, Failure> {
    if path.is_dir() || args.files || args.against.is_some() {
        return profile_files(path, args, reporter);
    }
    let options = args.input.open_options()?;
    let file = TraceFile::at(path, &options)?;
    let is_told = options.format.is_some() || options.columns.is_some();
    match wearwell_trace::open(&file.path, &file.options) {
        Err(TraceError::Unknown { .. }) if !is_told => profile_files(&file.path, args, reporter)
            .map(|profile| Profile { input: file.options.name_of(path), ..profile }),
        Err(error) => Err(Failure::of_run(&error)),
        Ok(_) => {
            let options = OpenOptions { name: Some(file.options.name_of(path)), ..file.options.clone() };
            profile_requests(&Input::Trace { path: file.path.clone(), options }, args, reporter)
        }
    }
}

fn profile_requests(input: &Input, args: &ProfileArgs, reporter: &Reporter) -> Result<Profile, Failure> {
    let mut requests: Requests = input.open().map_err(|error| Failure::of_run(&error))?;
    let mut profiler = Profiler::new(args.sample);
    let mut progress = reporter.of_reading("profile", "requests");
    let mut request = Request::default();
    let mut done = 0;
    let mut notes = Vec::new();
    let mut partial = false;
    loop {
        match requests.next(&mut request) {
            Ok(true) => profiler.request(&request),
            Ok(false) => break,
            Err(error) if error.requests_before().is_some_and(|before| before > 0) => {
                notes.push(format!("DAMAGED: {error}"));
                partial = true;
                break;
            }
            Err(error) => return Err(Failure::of_run(&error)),
        }
        done += 1;
        if done % REQUESTS_PER_CHECK == 0 && progress(done, 0).is_break() {
            partial = true;
            break;
        }
    }
    if done == 0 {
        return Err(Failure::of_input(&input.name(), &std::io::Error::other("there is no request in it")));
    }
    if requests.rejected() > 0 {
        notes.push(format!("{} bad lines skipped", requests.rejected()));
    }
    Ok(with_notes(profiler.profile(input.name()), notes, partial))
}

fn profile_files(path: &Path, args: &ProfileArgs, reporter: &Reporter) -> Result<Profile, Failure> {
    let name = path.display().to_string();
    let mut files =
        Files::find(path, args.against.as_deref()).map_err(|error| Failure::of_input(&name, &error))?;
    let total = files.bytes;
    let count = files.count();
    let mut profiler = Profiler::new(args.sample);
    let mut progress = reporter.of_reading("profile", "bytes");
    let is_whole = files.read_into(&mut profiler, &mut |done| -> ControlFlow<()> { progress(done, total) });
    let mut notes = vec![format!("{count} files, {total} bytes")];
    let unreadable = files.unreadable.len();
    if unreadable > 0 {
        let named = files.unreadable[..unreadable.min(UNREADABLE_NAMED)].join("; ");
        notes.push(format!("{unreadable} could not be read: {named}"));
    }
    let profile = profiler.profile(name.clone());
    if profile.content.is_none() {
        return Err(Failure::of_input(&name, &std::io::Error::other("there is no page in it")));
    }
    Ok(with_notes(profile, notes, !is_whole || unreadable > 0))
}

fn with_notes(mut profile: Profile, mut notes: Vec<String>, partial: bool) -> Profile {
    notes.append(&mut profile.notes);
    Profile { notes, partial, ..profile }
}
