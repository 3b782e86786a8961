//! What all designs of a comparison share: the input, surveyed once, and the device on which it runs.

use std::collections::BTreeMap;

use wearwell::gc::UserVictimPolicy;
use wearwell::timing::{TimingMode, TimingOptions};
use wearwell_config::{
    Arrival, Config, ConfigError, Origin, Precondition, ResolvedDevice, TraceAddressMapping,
};
use wearwell_trace::{OpenOptions, PAGE_BYTES};

use super::{OnProgress, ReplayError, Run, RunTrace, RunTraceRecorder, TraceWindow};
use crate::content_model::{ContentModelSpec, ContentSource};
use crate::input::{Input, InputSurvey};
use crate::process;
use crate::record::RunRecord;
use crate::report::with_thousands_separators;

/// Plan for replaying an input on several designs: the results of surveying the input, and the device on which every
/// design runs.
#[derive(Debug)]
pub struct Plan<'a> {
    /// Configuration of the runs.
    pub(super) config: &'a Config,
    /// Input that is replayed on every design.
    pub(super) input: &'a Input,
    /// Trace that ages the device before the input; `None` if there is none.
    pub(super) aging_input: Option<Input>,
    /// Extent of the input: its requests, and the pages that they touch.
    pub(super) survey: InputSurvey,
    /// Device that the configuration describes, sized to the input.
    pub(super) resolved_device: ResolvedDevice,
    /// Content model for writes that have no content.
    pub(super) content_spec: ContentModelSpec,
    /// SHA-256 of the trace file; `None` for generated inputs.
    pub(super) input_sha256: Option<String>,
    /// Policy of the user that chooses GC victims instead of `gc.policy`; `None` if there is none.
    pub(super) user_policy: Option<UserVictimPolicy>,
}

/// What a pass over all requests of an input found (such as the number of requests and the largest address). Further
/// run plans for the same input can be made from it without another pass.
#[derive(Clone, Debug)]
pub struct InputSurveyResults {
    /// Trace that ages the device before the input; `None` if there is none.
    aging_input: Option<Input>,
    /// Extent of the input: its requests, and the pages that they touch.
    survey: InputSurvey,
    /// SHA-256 of the trace file; `None` for generated inputs.
    input_sha256: Option<String>,
}

impl<'a> Plan<'a> {
    /// Surveys the input, and resolves the device that the configuration describes.
    ///
    /// # Errors
    /// Errors of the configuration and of the trace.
    pub fn new(config: &'a Config, input: &'a Input) -> Result<Self, ReplayError> {
        let aging = aging_input(config, input);
        let survey = input.survey(aging.as_ref())?;
        if survey.requests == 0 {
            return Err(ReplayError::NoRequests {
                input: input.name(),
                hint: input.block_layer_stage_hint(),
            });
        }
        let sha256 = match input {
            Input::Trace { path, .. } => wearwell_trace::file_sha256(path).ok(),
            Input::Workload(_) | Input::Host(_) => None,
        };
        Self::of_survey(config, input, (aging, survey), sha256)
    }

    /// Plans to replay this plan's input on the device of another configuration. The input is not read again unless
    /// that configuration ages the device with another trace.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn with_config(&self, config: &'a Config) -> Result<Self, ReplayError> {
        Self::from_input_survey_results(config, self.input, self.input_survey_results())
    }

    /// Lets `policy` choose the GC victims of every run instead of `gc.policy`, in preconditioning too. The run records
    /// contain a note on the policy.
    #[must_use]
    pub fn with_user_policy(self, policy: UserVictimPolicy) -> Self {
        Self { user_policy: Some(policy), ..self }
    }

    /// Returns what the first pass over the input found (such as its footprint), so that another plan for the same
    /// input can be made without that pass: [`Self::from_input_survey_results`].
    pub fn input_survey_results(&self) -> InputSurveyResults {
        InputSurveyResults {
            aging_input: self.aging_input.clone(),
            survey: self.survey.clone(),
            input_sha256: self.input_sha256.clone(),
        }
    }

    /// Plans the replay of an input as [`Self::new`] does, but with the results of an earlier survey. The input must
    /// not have changed since that survey.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn from_input_survey_results(
        config: &'a Config,
        input: &'a Input,
        surveyed: InputSurveyResults,
    ) -> Result<Self, ReplayError> {
        let InputSurveyResults { aging_input: before, survey, input_sha256 } = surveyed;
        let aging = aging_input(config, input);
        if aging.as_ref().map(Input::name) != before.as_ref().map(Input::name) {
            return Self::new(config, input);
        }
        Self::of_survey(config, input, (aging, survey), input_sha256)
    }

    /// Refuses an unknown design. Also refuses a content model if all writes of the input and of the aging trace have
    /// contents, because the model would have no effect. Without this check such mistakes would appear only after
    /// minutes.
    ///
    /// # Errors
    /// [`ReplayError::Config`].
    pub fn check_designs_and_content_model(&self, designs: &[String]) -> Result<(), ReplayError> {
        match self.unused_content_model_sentence() {
            Some(sentence) => Err(ConfigError::InvalidValue(format!("{sentence}: leave it out")).into()),
            None => self.check_designs(designs),
        }
    }

    /// Refuses an unknown design, and parts that cannot be combined.
    ///
    /// # Errors
    /// [`ReplayError::Config`].
    pub fn check_designs(&self, designs: &[String]) -> Result<(), ReplayError> {
        designs
            .iter()
            .try_for_each(|design| self.config.design_parts(design, &self.resolved_device).map(drop))?;
        Ok(())
    }

    /// Returns a sentence, with the name of the input, that says why the configured content model has no effect; `None`
    /// if it has one, or if there is no model. The content model has no effect if all writes of the input and of the
    /// aging trace have contents, and also the sizes that the model draws for recorded contents.
    pub fn unused_content_model_sentence(&self) -> Option<String> {
        self.config.content.model.as_ref()?;
        let absent = match self.content_spec.source {
            ContentSource::Recorded if self.survey.sizes_known_of_all_contents.is_none() => {
                "write with content"
            }
            ContentSource::Recorded => "content without the sizes that the model draws",
            _ => "write without content",
        };
        let inputs =
            if self.aging_input.is_some() { "this input and the aging trace have" } else { "this input has" };
        (!self.uses_content_model()).then(|| {
            format!("{}: content.model has no effect, because {inputs} no {absent}", self.input.name())
        })
    }

    /// Returns whether contents of the run, or their sizes, come from the content model of writes (the default one, if
    /// none is configured).
    fn uses_content_model(&self) -> bool {
        match (self.content_spec.source, self.survey.sizes_known_of_all_contents) {
            (ContentSource::Recorded, None) => false,
            (ContentSource::Recorded, Some(known)) => known.or(self.content_spec.drawn_sizes()) != known,
            _ => self.survey.has_writes_without_content,
        }
    }

    /// Returns a sentence, with the name of the input, that says why a size to which lifetimes are scaled (`--scale-to`)
    /// has no effect; `None` if it has one. It has none if no lifetime is known in years.
    pub fn unused_scale_sentence(&self) -> Option<String> {
        (!self.can_extrapolate_years()).then(|| {
            format!(
                "{}: --scale-to has no effect, because the requests of this input have no times, or all the same, and \
                 no time model gives them any, so that no lifetime is known in years",
                self.input.name()
            )
        })
    }

    /// Returns a sentence that says why lifetimes cannot be scaled (`--scale-to`) to a drive that exports `bytes`; `None`
    /// if they can. They cannot if the simulated drive exports more: the other drive could not hold its data.
    pub fn too_small_scale_sentence(&self, bytes: u64) -> Option<String> {
        let ResolvedDevice { logical_pages, geometry, .. } = &self.resolved_device;
        let simulated_bytes = u64::from(*logical_pages) * u64::from(geometry.page_bytes);
        (bytes < simulated_bytes).then(|| {
            format!(
                "--scale-to is {bytes} bytes, but the simulated drive exports {simulated_bytes}: give the size of a drive \
                 at least as large, or leave --scale-to out"
            )
        })
    }

    /// Returns whether a lifetime in years can be extrapolated from a run, because the run has a duration. The duration
    /// follows from the arrival times in the input or, without open-loop arrival, from the timing model.
    fn can_extrapolate_years(&self) -> bool {
        let has_times_of_device =
            self.config.timing.timing_mode() != TimingMode::None && self.arrival_mode() != Arrival::Open;
        self.survey.has_distinct_request_times || has_times_of_device
    }

    /// Creates the plan for an input over which the first pass (survey) was made already; the survey determines the
    /// size of the device.
    fn of_survey(
        config: &'a Config,
        input: &'a Input,
        (aging, survey): (Option<Input>, InputSurvey),
        input_sha256: Option<String>,
    ) -> Result<Self, ReplayError> {
        let resolved = config.resolve_device(survey.footprint_pages)?;
        let model = config.content.model.as_deref().unwrap_or("unique");
        let content = model
            .parse()
            .map_err(|error: crate::workload::SpecError| ReplayError::Content(error.to_string()))?;
        let plan = Self {
            config,
            input,
            aging_input: aging,
            survey,
            resolved_device: resolved,
            content_spec: content,
            input_sha256,
            user_policy: None,
        };
        plan.require_input_fits()?;
        plan.refuse_merged_devices()?;
        plan.refuse_unused_queue_depth()?;
        plan.refuse_unused_time_scale()?;
        Ok(plan)
    }

    /// Returns the arrival mode of the run's requests; if the configuration leaves it open, the input decides.
    pub(super) fn arrival_mode(&self) -> Arrival {
        match self.config.replay.arrival {
            Arrival::Auto if self.survey.has_distinct_request_times => Arrival::Open,
            Arrival::Auto => Arrival::Closed,
            arrival => arrival,
        }
    }

    /// Returns the configuration with every value that a run uses.
    pub(super) fn effective_config(&self) -> Config {
        self.config.with_effective_values(&self.resolved_device, self.arrival_mode())
    }

    /// Returns where the values of the configuration of a run of `design` come from, by key ([`Config::origins`]). A
    /// stored result that is reused may have equal values that come from other places.
    pub fn setting_origins(&self, design: &str) -> BTreeMap<String, Origin> {
        self.config.origins(&self.effective_config(), design)
    }

    /// Returns the options of the timing engine for this device.
    pub(super) fn timing_options(&self) -> TimingOptions {
        self.config.timing.timing_options(
            &self.resolved_device.geometry,
            self.resolved_device.gc_options.gc_start_free_blocks,
        )
    }

    /// Refuses `replay.addresses=exact` if the trace has several devices whose pages would become the same page of the
    /// drive. If another trace ages the drive, this is accepted.
    fn refuse_merged_devices(&self) -> Result<(), ConfigError> {
        let has_merged_pages = self.config.replay.addresses == TraceAddressMapping::Exact
            && self.survey.has_several_devices
            && self.aging_input.is_none()
            && self
                .survey
                .footprint
                .as_ref()
                .is_some_and(|pages| pages.is_one_page_touched_by_several_devices());
        if !has_merged_pages {
            return Ok(());
        }
        Err(ConfigError::InvalidValue(format!(
            "{}: the trace has requests of several devices at the same addresses, and with replay.addresses=exact \
             they would overwrite each other on one drive: set replay.addresses=compact, which gives each device \
             pages of its own",
            self.input.name()
        )))
    }

    /// Refuses a queue depth if requests arrive at the times of the input, where the depth would have no effect.
    fn refuse_unused_queue_depth(&self) -> Result<(), ConfigError> {
        let is_auto = self.config.replay.arrival == Arrival::Auto;
        if is_auto && self.survey.has_distinct_request_times && self.config.replay.queue_depth.is_some() {
            return Err(ConfigError::InvalidValue(
                "replay.queue_depth has no effect, because requests arrive at the times of the input: leave it out, or \
                 set replay.arrival=closed, which ignores the times"
                    .into(),
            ));
        }
        Ok(())
    }

    /// Refuses a time scale for an input without times, which has no gaps to scale. A scale of 1 is not refused,
    /// because the configuration in the record of any run has it.
    fn refuse_unused_time_scale(&self) -> Result<(), ConfigError> {
        let changes_times = (self.config.replay.time_scale() - 1.0).abs() > 0.0;
        if !changes_times || self.survey.has_distinct_request_times {
            return Ok(());
        }
        Err(ConfigError::InvalidValue(format!(
            "replay.time_scale has no effect, because the requests of {} have no times, or all the same time: leave it \
             out, or choose an input with times (of a generated workload: add rate=)",
            self.input.name()
        )))
    }

    /// Returns the device that the configuration describes, on which every design runs.
    pub fn resolved_device(&self) -> &ResolvedDevice {
        &self.resolved_device
    }

    /// Returns the survey of the input, such as the number of its requests and of the pages that they touch.
    pub fn survey(&self) -> &InputSurvey {
        &self.survey
    }

    /// Returns the bytes that the device exports to the host.
    fn exported_bytes(&self) -> u64 {
        self.resolved_device.logical_pages as u64 * self.resolved_device.geometry.page_bytes as u64
    }

    /// Whether the device has only the pages that the input touches, numbered densely. Always false for generators,
    /// whose addresses are dense already.
    pub(super) fn compacts_addresses(&self) -> bool {
        let too_far = || self.survey.end_offset_bytes > self.exported_bytes();
        match self.config.replay.addresses {
            _ if self.survey.footprint.is_none() => false,
            TraceAddressMapping::Compact => true,
            TraceAddressMapping::Exact => false,
            TraceAddressMapping::Auto => self.survey.has_several_devices || too_far(),
        }
    }

    /// Refuses an input that does not fit the device, before hours are spent on its beginning.
    fn require_input_fits(&self) -> Result<(), ConfigError> {
        let is_compact = self.compacts_addresses();
        // The survey is of both: an aging trace may be what does not fit.
        let (what, touches, reaches) = match self.aging_input {
            None => ("the input", "the input touches", "the addresses of the input reach up to"),
            Some(_) => (
                "the input or the aging trace (precondition.trace)",
                "together they touch",
                "the addresses of one of them reach up to",
            ),
        };
        let (touched, phrase) = if is_compact {
            (self.survey.footprint_pages * PAGE_BYTES, touches)
        } else {
            (self.survey.end_offset_bytes, reaches)
        };
        let exported = self.exported_bytes();
        if touched <= exported {
            return Ok(());
        }
        let size = |bytes: u64| {
            let mib = with_thousands_separators(bytes as f64 / 1_048_576.0, 1);
            format!("{mib} MiB ({} bytes)", with_thousands_separators(bytes as f64, 0))
        };
        let advice = if !is_compact && self.survey.footprint.is_some() {
            ", or set replay.addresses=compact, which numbers the touched pages without gaps"
        } else if self.config.device.logical_pages.is_some() {
            " (raise device.logical_pages, or leave it out)"
        } else if self.config.is_device_sized_to_input() || self.config.device.fit.is_some() {
            " (set device.fit to less than 1, or choose a preset)"
        } else {
            ", or set device.fit, which sizes the device to the input"
        };
        Err(ConfigError::InvalidValue(format!(
            "{what} is too large: {phrase} {size}, but the device exports {exported_size}: choose a larger \
             device{advice}",
            size = size(touched),
            exported_size = size(exported)
        )))
    }

    /// Replays the input on one design.
    ///
    /// # Errors
    /// [`ReplayError`] if there is nothing to report; a run that ends early returns a record marked as partial.
    pub fn run(&self, design: &str, on_progress: OnProgress<'_>) -> Result<RunRecord, ReplayError> {
        process::reset_peak_rss();
        self.execute_run(Run::new(self, design)?, design, on_progress).map(|(record, _)| record)
    }

    /// Replays the input on one design as [`Plan::run`] does, and records the single flash operations in a window of
    /// the run. The record is the same except for CPU time and memory; the run takes longer.
    ///
    /// # Errors
    /// As [`Plan::run`]; also [`ReplayError::Config`] if there are no times of single operations.
    pub fn run_traced(
        &self,
        design: &str,
        window: TraceWindow,
        on_progress: OnProgress<'_>,
    ) -> Result<(RunRecord, RunTrace), ReplayError> {
        self.require_event_timing()?;
        process::reset_peak_rss();
        let mut run = Run::new(self, design)?;
        run.trace_recorder = Some(RunTraceRecorder::new(window, self.empty_trace(design)));
        let (record, trace) = self.execute_run(run, design, on_progress)?;
        Ok((record, trace.expect("the run had a tape")))
    }

    /// Refuses a trace of single operations without the engine that computes their times.
    ///
    /// # Errors
    /// [`ConfigError::InvalidValue`].
    pub fn require_event_timing(&self) -> Result<(), ConfigError> {
        if self.config.timing.timing_mode() == TimingMode::Event {
            return Ok(());
        }
        Err(ConfigError::InvalidValue(
            "a trace of flash operations (--perfetto) needs the time of each operation, which only timing.mode=event \
             computes: set timing.mode to event (--timing event)"
                .into(),
        ))
    }

    /// Returns a trace without operations and requests, to which the recorder adds those of the run.
    fn empty_trace(&self, design: &str) -> RunTrace {
        RunTrace {
            design: design.to_owned(),
            input: self.input.name(),
            geometry: self.resolved_device.geometry.clone(),
            has_independent_planes: self.timing_options().has_independent_planes,
            flash_ops: Vec::new(),
            requests: Vec::new(),
            nvram_scan_spans_ns: Vec::new(),
            ftl_state_samples: Vec::new(),
            is_truncated: false,
        }
    }

    /// Executes a run from preconditioning to its end, and returns its record, and its trace if it is traced.
    fn execute_run(
        &self,
        mut run: Run<'_>,
        design: &str,
        on_progress: OnProgress<'_>,
    ) -> Result<(RunRecord, Option<RunTrace>), ReplayError> {
        let started = process::thread_cpu_seconds();
        let mut ended = run.precondition(on_progress)?;
        let conditioned = process::thread_cpu_seconds();
        if ended.is_none() {
            ended = run.replay_measured_part(on_progress)?;
        }
        let finished = process::thread_cpu_seconds();
        let mut record = run.make_record(design, ended);
        if self.config.recovery.after_run && !record.partial {
            record.recovery = Some(run.recover()?);
        }
        record.precondition_cpu_seconds = conditioned - started;
        record.cpu_seconds = finished - conditioned;
        record.peak_rss_bytes = process::peak_rss_bytes();
        Ok((record, run.trace_recorder.map(RunTraceRecorder::into_run_trace)))
    }
}

/// Returns the trace that ages the device, if the configuration sets one. The trace is read with the options of the
/// input, except for the format, which may be another one.
fn aging_input(config: &Config, input: &Input) -> Option<Input> {
    let precondition = &config.precondition;
    let path = precondition.trace.as_ref().filter(|_| precondition.mode == Precondition::Aged)?;
    let options = match input {
        Input::Trace { options, .. } => {
            OpenOptions { format: None, columns: None, trace_name: None, ..options.clone() }
        }
        Input::Workload(_) | Input::Host(_) => OpenOptions::default(),
    };
    Some(Input::Trace { path: path.into(), options })
}
