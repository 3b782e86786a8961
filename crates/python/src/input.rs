//! Inputs of runs (traces and generated workloads), and running a design on them.
//!
//! A trace is read once to determine its extent and checksum. Later runs reuse these as long as the file does not
//! change.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use pyo3::prelude::*;
use wearwell::gc::UserVictimPolicy;
use wearwell_config::{Config, ConfigError};
use wearwell_replay::input::{Input as ReplayInput, trace_format_named};
use wearwell_replay::json::ToJson;
use wearwell_replay::record::RunRecord;
use wearwell_replay::replay::{InputSurveyResults, Plan, ReplayError, RunPhase};
use wearwell_trace::{self as trace, AssumedOp, BlockLayerStage, CsvColumns, Format, OpenOptions, TimeUnit};

use crate::configuration::Configuration;
use crate::policy::{OnInterrupt, SharedPythonFunction, python_victim_policy};
use crate::progress_watch::{ProgressWatch, phase_name};
use crate::{refusal_error, with_python_argument_names};

/// The source of a run's requests: a trace file or a generated workload.
#[pyclass(frozen, module = "wearwell._native")]
pub(crate) struct Input {
    /// Trace file or generated workload.
    source: InputSource,
    /// Extent and checksum of the trace, with the length and modification time that its file had when they were
    /// determined.
    cached_survey: Mutex<Option<(FileLengthAndMtime, InputSurveyResults)>>,
}

/// Where the requests of an input come from: a trace file, or a generator.
enum InputSource {
    /// A trace file.
    Trace {
        /// Path of the trace.
        path: PathBuf,
        /// How the trace is read: format and options of the user.
        options: OpenOptions,
        /// Format of the trace, as detected or as the user chose it.
        format: Format,
    },
    /// Specification of a generated workload. If it has no seed, it uses the seed of the run.
    Workload(String),
}

/// Length and modification time of a file; `None` if they cannot be read.
type FileLengthAndMtime = Option<(u64, SystemTime)>;

#[pymethods]
impl Input {
    /// Creates the input from a trace file, which is opened to detect its format.
    #[staticmethod]
    #[pyo3(signature = (
        path, *, format = None, action = None, time_unit = None, assume = None, skip_bad_lines = false, bytes = false,
        without_sidecars = false, columns = None, name = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn trace(
        path: PathBuf,
        format: Option<&str>,
        action: Option<&str>,
        time_unit: Option<&str>,
        assume: Option<&str>,
        skip_bad_lines: bool,
        bytes: bool,
        without_sidecars: bool,
        columns: Option<&str>,
        name: Option<String>,
    ) -> PyResult<Self> {
        let options = OpenOptions {
            format: format.map(trace_format_named).transpose().map_err(refusal_error)?,
            block_layer_stage: find_choice_named("action", action, &BLKTRACE_ACTIONS)?.unwrap_or_default(),
            time_unit: find_choice_named("time_unit", time_unit, &TIME_UNITS)?,
            assumed_op: find_choice_named("assume", assume, &ASSUMED_OPS)?,
            skips_bad_lines: skip_bad_lines,
            reads_payloads: bytes,
            allows_absent_page_size_files: without_sidecars,
            columns: columns.map(str::parse::<CsvColumns>).transpose().map_err(refusal_error)?,
            trace_name: name,
        };
        let format = trace::open(&path, &options).map_err(refusal_error)?.format();
        Ok(Self::of_source(InputSource::Trace { path, options, format }))
    }

    /// Creates the input from the specification of a generator or of a host model.
    #[staticmethod]
    fn workload(spec: &str) -> PyResult<Self> {
        ReplayInput::of_generator_spec(spec).map_err(refusal_error)?;
        Ok(Self::of_source(InputSource::Workload(spec.to_owned())))
    }

    /// Format of the input's trace; `None` for a generated input.
    #[getter]
    fn format(&self) -> Option<&'static str> {
        match &self.source {
            InputSource::Trace { format, .. } => Some(format.name()),
            InputSource::Workload(_) => None,
        }
    }

    /// Returns the key under which a finished run is stored: a digest of code, input, design and every effective
    /// setting. A trace file that is new or has changed is read to compute its checksum.
    fn stored_run_key(
        &self,
        py: Python<'_>,
        configuration: &Configuration,
        design: &str,
    ) -> PyResult<String> {
        py.detach(|| {
            self.with_checked_plan(
                &configuration.config,
                design,
                None,
                |plan| Ok(plan.run_result_key(design)),
            )
        })
    }

    /// Returns the name of the input in the record of a run with this configuration.
    fn name_in_records(&self, configuration: &Configuration) -> PyResult<String> {
        Ok(self.to_replay_input(&configuration.config)?.name())
    }

    /// Returns why the parts of the design cannot be combined, without advice; `None` if they can.
    fn refusal_of_parts(
        &self,
        py: Python<'_>,
        configuration: &Configuration,
        design: &str,
    ) -> PyResult<Option<String>> {
        let config = &configuration.config;
        py.detach(|| {
            let input = self.to_replay_input(config)?;
            let plan = self.plan_of_run(config, &input)?;
            match plan.check_designs(&[design.to_owned()]) {
                Ok(()) => Ok(None),
                Err(ReplayError::Config(ConfigError::IncompatibleParts { reason, .. })) => {
                    Ok(Some(reason.to_owned()))
                }
                Err(error) => Err(refusal_error(error)),
            }
        })
    }

    /// Returns a sentence that says why a size to which lifetimes are scaled would have no effect on a run of the design
    /// on this input; `None` if it would have one.
    fn unused_scale_sentence(
        &self,
        py: Python<'_>,
        configuration: &Configuration,
        design: &str,
    ) -> PyResult<Option<String>> {
        let sentence = py.detach(|| {
            self.with_checked_plan(&configuration.config, design, None, |plan| {
                Ok(plan.unused_scale_sentence())
            })
        })?;
        Ok(sentence.map(|sentence| with_python_argument_names(format!("{sentence}: leave it out"))))
    }

    /// Returns a sentence that says why lifetimes of a run of the design on this input cannot be scaled to a drive that
    /// exports `exported_bytes`; `None` if they can.
    fn too_small_scale_sentence(
        &self,
        py: Python<'_>,
        configuration: &Configuration,
        design: &str,
        exported_bytes: u64,
    ) -> PyResult<Option<String>> {
        let sentence = py.detach(|| {
            self.with_checked_plan(&configuration.config, design, None, |plan| {
                Ok(plan.too_small_scale_sentence(exported_bytes))
            })
        })?;
        Ok(sentence.map(with_python_argument_names))
    }

    /// Runs a design on the input to its end, or until ctrl-C. Returns the record of the run as JSON.
    #[pyo3(signature = (configuration, design, on_progress = None, victim_policy = None))]
    fn replay(
        &self,
        py: Python<'_>,
        configuration: &Configuration,
        design: &str,
        on_progress: Option<Py<PyAny>>,
        victim_policy: Option<(String, Py<PyAny>)>,
    ) -> PyResult<String> {
        let config = &configuration.config;
        py.detach(|| {
            let mut watch = ProgressWatch::new(on_progress);
            let (policy, outcome) = victim_policy
                .map(|(name, choose)| {
                    python_victim_policy(name, SharedPythonFunction::new(choose), OnInterrupt::EndRun)
                })
                .unzip();
            let outcome = outcome.unwrap_or_default();
            let record = self.with_checked_plan(config, design, policy, |plan| {
                let on_progress = &mut |progress| match outcome.engine_victims_since_interruption() {
                    Some(_) => ControlFlow::Break(()),
                    None => watch.report_progress(progress),
                };
                plan.run(design, on_progress).map_err(refusal_error)
            });
            let record = record.map_err(|error| outcome.policy_exception_or(error));
            if let Ok(record) = &record
                && !record.partial
            {
                watch.report_end(Some((phase_name(RunPhase::Replay), record.trace.requests)));
            }
            watch.into_exception()?;
            let record = record?;
            let mut record = RunRecord {
                variant: config.run_label(""),
                partial_reason: record.partial_reason.map(with_python_argument_names),
                ..record
            };
            if let Some(victims) = outcome.engine_victims_since_interruption() {
                note_victims_chosen_by_greedy_after_interrupt(&mut record, victims);
            }
            Ok(record.to_json())
        })
    }
}

impl Input {
    /// Creates the input from its source. The input is not read yet to find which pages it touches.
    fn of_source(source: InputSource) -> Self {
        Self { source, cached_survey: Mutex::default() }
    }

    /// Returns the input for the replay library. A workload is generated with the seed in its own specification
    /// (without one: the default seed), never with the seed of a run.
    pub(crate) fn to_replay_input_without_run_seed(&self) -> PyResult<ReplayInput> {
        match &self.source {
            InputSource::Trace { path, options, .. } => {
                Ok(ReplayInput::Trace { path: path.clone(), options: options.clone() })
            }
            InputSource::Workload(spec) => ReplayInput::of_generator_spec(spec).map_err(refusal_error),
        }
    }

    /// Returns the input of a run with this configuration, whose seed a generator without a seed uses.
    fn to_replay_input(&self, config: &Config) -> PyResult<ReplayInput> {
        match &self.source {
            InputSource::Workload(spec) => {
                ReplayInput::of_generator_spec_with_default_seed(spec, config.seed()).map_err(refusal_error)
            }
            InputSource::Trace { .. } => self.to_replay_input_without_run_seed(),
        }
    }

    /// Calls `then` with the checked plan of a run (input, device and settings). If `policy` is given, it chooses the
    /// GC victims.
    pub(crate) fn with_checked_plan<T>(
        &self,
        config: &Config,
        design: &str,
        policy: Option<UserVictimPolicy>,
        then: impl FnOnce(&Plan<'_>) -> PyResult<T>,
    ) -> PyResult<T> {
        let input = self.to_replay_input(config)?;
        let plan = self.plan_of_run(config, &input)?;
        let plan = match policy {
            Some(policy) => plan.with_user_policy(policy),
            None => plan,
        };
        plan.check_designs_and_content_model(&[design.to_owned()]).map_err(refusal_error)?;
        then(&plan)
    }

    /// Returns the plan of a run (input, device and settings). A trace file is read only if its length or modification
    /// time has changed since its last plan.
    fn plan_of_run<'a>(&self, config: &'a Config, input: &'a ReplayInput) -> PyResult<Plan<'a>> {
        let InputSource::Trace { path, .. } = &self.source else {
            return Plan::new(config, input).map_err(refusal_error);
        };
        let stamp = file_length_and_mtime(path);
        let mut known = self.cached_survey.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = match &*known {
            Some((then, surveyed)) if *then == stamp => {
                Plan::from_input_survey_results(config, input, surveyed.clone())
            }
            _ => Plan::new(config, input),
        };
        let plan = plan.map_err(refusal_error)?;
        *known = Some((stamp, plan.input_survey_results()));
        Ok(plan)
    }
}

/// Notes in the record of a run that ctrl-C interrupted the victim policy, and that the engine chose the last `victims`
/// victims. Marks the run as partial, even if all its requests were executed, because its figures are not those of the
/// policy alone.
fn note_victims_chosen_by_greedy_after_interrupt(record: &mut RunRecord, victims: u64) {
    record.partial = true;
    record.partial_reason.get_or_insert_with(|| "interrupted".to_owned());
    record.notes.push(format!(
        "ctrl-C interrupted the victim policy: the last {victims} victims, until the run ended, were chosen by greedy"
    ));
}

/// Returns the length and modification time of a file; `None` if they cannot be read.
fn file_length_and_mtime(path: &Path) -> FileLengthAndMtime {
    let found = fs::metadata(path).ok()?;
    Some((found.len(), found.modified().ok()?))
}

/// Stages of the block layer, by the letter that blktrace writes for them.
const BLKTRACE_ACTIONS: [(&str, BlockLayerStage); 3] =
    [("D", BlockLayerStage::Issue), ("Q", BlockLayerStage::Queue), ("C", BlockLayerStage::Complete)];
/// Units of the times in a trace, by their names in Python.
const TIME_UNITS: [(&str, TimeUnit); 3] =
    [("ps", TimeUnit::Picoseconds), ("ns", TimeUnit::Nanoseconds), ("us", TimeUnit::Microseconds)];
/// Operations that a trace without a column for the operation can be assumed to have, by their names in Python.
const ASSUMED_OPS: [(&str, AssumedOp); 2] = [("reads", AssumedOp::Reads), ("writes", AssumedOp::Writes)];

/// Returns the value that `name` selects from the choices `known`; `None` if no name is given. Returns an error if the
/// name is unknown; its message says that `what` is unknown.
fn find_choice_named<T: Copy>(
    what: &'static str,
    name: Option<&str>,
    known: &[(&str, T)],
) -> PyResult<Option<T>> {
    let Some(name) = name else { return Ok(None) };
    match known.iter().find(|(other, _)| *other == name) {
        Some(&(_, value)) => Ok(Some(value)),
        None => {
            Err(refusal_error(ConfigError::unknown_name(what, name, known.iter().map(|(other, _)| *other))))
        }
    }
}
