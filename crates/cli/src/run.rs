//! `replay`, `compare` and `config`.

use std::fs;
use std::path::{Path, PathBuf};

use wearwell_replay::config::Config;
use wearwell_replay::input::Input;
use wearwell_replay::replay::{Plan, ReplayError};
use wearwell_replay::report::Comparison;

use crate::args::{CompareArgs, ReplayArgs, RunArgs};
use crate::input::TraceFile;
use crate::output::{Output, print};
use crate::progress::Reporter;
use crate::{Failure, Outcome};

pub(crate) fn replay(args: &ReplayArgs) -> Result<Outcome, Failure> {
    let runs = run_all(args.trace.iter(), std::slice::from_ref(&args.design), &args.run)?;
    let Some(run) = runs.comparison.runs.first() else { return Err(Failure::interrupted()) };
    let json = serde_json::to_string_pretty(run).map_err(|error| Failure::of_run(&error))?;
    runs.report(&json, &args.run)
}

pub(crate) fn compare(args: &CompareArgs) -> Result<Outcome, Failure> {
    let runs = run_all(args.traces.iter(), &args.designs, &args.run)?;
    if runs.comparison.runs.is_empty() {
        return Err(Failure::interrupted());
    }
    let json = runs.comparison.to_json();
    runs.report(&json, &args.run)
}

pub(crate) fn show_config(args: &RunArgs) -> Result<Outcome, Failure> {
    print(&config(args)?.to_toml())?;
    Ok(Outcome::Done)
}

fn config(args: &RunArgs) -> Result<Config, Failure> {
    config_with(args, &[])
}

/// The configuration of the command line with settings that win over it.
pub(crate) fn config_with(args: &RunArgs, settings: &[String]) -> Result<Config, Failure> {
    let mut all = args.all_settings();
    all.extend_from_slice(settings);
    read_config(args.config.as_deref(), &all)
}

/// A configuration from an optional file and settings.
pub(crate) fn read_config(path: Option<&Path>, settings: &[String]) -> Result<Config, Failure> {
    let file = match path {
        Some(path) => {
            let text = fs::read_to_string(path)
                .map_err(|error| Failure::of_usage(format!("{}: {error}", path.display())))?;
            Some((path.display().to_string(), text))
        }
        None => None,
    };
    let file = file.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
    Config::from_parts(file, settings).map_err(|error| Failure::of_usage(error.to_string()))
}

/// The files that results go to, checked before anything runs.
struct Outputs {
    json: Option<Output>,
    csv: Option<Output>,
}

impl Outputs {
    fn of(args: &RunArgs) -> Result<Self, Failure> {
        let at = |path: &Option<PathBuf>| path.as_deref().map(Output::at).transpose();
        Ok(Self { json: at(&args.json)?, csv: at(&args.csv)? })
    }

    fn take_stdout(&self) -> bool {
        [&self.json, &self.csv].into_iter().flatten().any(Output::is_standard)
    }
}

/// What was run of what was asked for.
struct Runs {
    comparison: Comparison,
    outputs: Outputs,
    /// Every design on every input, each to its end.
    complete: bool,
}

impl Runs {
    fn report(&self, json: &str, args: &RunArgs) -> Result<Outcome, Failure> {
        if let Some(output) = &self.outputs.json {
            output.write(&format!("{json}\n"))?;
        }
        if let Some(output) = &self.outputs.csv {
            output.write(&self.comparison.to_csv())?;
        }
        if !args.quiet && !self.outputs.take_stdout() {
            print(&self.comparison.to_table())?;
        }
        Ok(if self.complete { Outcome::Done } else { Outcome::Partial })
    }
}

/// Every input through every design; ctrl-C ends the run in hand and keeps what is done. Of several inputs one that
/// cannot be read is named, and the others are run.
fn run_all<'a>(
    traces: impl Iterator<Item = &'a PathBuf>,
    designs: &[String],
    args: &RunArgs,
) -> Result<Runs, Failure> {
    let outputs = Outputs::of(args)?;
    let config = config(args)?;
    refuse_ignored(&config, designs, args)?;
    let reporter = Reporter::new(args.quiet);
    let sources = sources(traces, args, &config)?;
    let mut comparison = Comparison::default();
    let mut complete = true;
    for source in &sources {
        if reporter.is_interrupted() {
            break;
        }
        match run_one(source, designs, &config, &reporter, &mut comparison) {
            Err(failure) if sources.len() > 1 && !failure.is_of_usage() => {
                eprintln!("wearwell: {}", failure.message);
                complete = false;
            }
            ended => ended?,
        }
    }
    if comparison.runs.is_empty() && !complete {
        return Err(Failure::of_inputs());
    }
    complete &= comparison.runs.len() == sources.len() * designs.len();
    complete &= comparison.runs.iter().all(|run| !run.partial);
    Ok(Runs { comparison, outputs, complete })
}

/// Settings of the command line that no design uses are refused; those that some use are noted.
pub(crate) fn refuse_ignored(config: &Config, designs: &[String], args: &RunArgs) -> Result<(), Failure> {
    for ignored in config.ignored(&args.all_settings(), designs) {
        let sentence = format!(
            "{} has no effect on {}: it counts when {}",
            ignored.key,
            ignored.designs.join(", "),
            ignored.when
        );
        if ignored.by_all {
            return Err(Failure::of_usage(sentence));
        }
        if !args.quiet {
            eprintln!("wearwell: note: {sentence}");
        }
    }
    Ok(())
}

/// Where requests come from, as the user said it.
pub(crate) enum InputSource {
    Generated(Input),
    Trace(PathBuf, wearwell_replay::trace::OpenOptions),
}

/// An input, and the copy of what can be read only once.
pub(crate) struct OpenedInput {
    pub(crate) input: Input,
    _file: Option<TraceFile>,
}

impl InputSource {
    /// Makes the input one that can be read again and again.
    ///
    /// # Errors
    /// Those of [`TraceFile::at`].
    pub(crate) fn open(&self) -> Result<OpenedInput, Failure> {
        match self {
            Self::Generated(input) => Ok(OpenedInput { input: input.clone(), _file: None }),
            Self::Trace(path, options) => {
                let file = TraceFile::at(path, options)?;
                let input = Input::Trace { path: file.path.clone(), options: file.options.clone() };
                Ok(OpenedInput { input, _file: Some(file) })
            }
        }
    }
}

pub(crate) fn sources<'a>(
    traces: impl Iterator<Item = &'a PathBuf>,
    args: &RunArgs,
    config: &Config,
) -> Result<Vec<InputSource>, Failure> {
    if let Some(spec) = &args.workload {
        let input = Input::generated_with_seed(spec, config.seed())
            .map_err(|error| Failure::of_usage(error.to_string()))?;
        return Ok(vec![InputSource::Generated(input)]);
    }
    let options = args.input.open_options()?;
    Ok(traces.map(|path| InputSource::Trace(path.clone(), options.clone())).collect())
}

/// One input through every design.
fn run_one(
    source: &InputSource,
    designs: &[String],
    config: &Config,
    reporter: &Reporter,
    comparison: &mut Comparison,
) -> Result<(), Failure> {
    let opened = source.open()?;
    let plan = planned(config, &opened.input, designs)?;
    for design in designs {
        if reporter.is_interrupted() {
            break;
        }
        let record = plan.run(design, &mut reporter.of_design(design)).map_err(|error| failure(&error))?;
        comparison.runs.push(record);
    }
    Ok(())
}

/// The plan of a run, refused before anything runs for minutes: a misspelt design, a content model that nothing asks for.
pub(crate) fn planned<'a>(
    config: &'a Config,
    input: &'a Input,
    designs: &[String],
) -> Result<Plan<'a>, Failure> {
    let plan = Plan::new(config, input).map_err(|error| failure(&error))?;
    if config.content.model.is_some() && !plan.survey().lacks_content {
        let message = format!("{}: content.model has no effect: every write has content", input.name());
        return Err(Failure::of_usage(message));
    }
    for design in designs {
        config.parts(design, plan.resolved()).map_err(|error| Failure::of_usage(error.to_string()))?;
    }
    Ok(plan)
}

pub(crate) fn failure(error: &ReplayError) -> Failure {
    match error {
        ReplayError::Config(_) | ReplayError::Content(_) => Failure::of_usage(error.to_string()),
        _ => Failure::of_run(error),
    }
}
