//! Experiments: named runs of one input on one design. Their figures are compared with the rows (reported results) of a
//! paper.
//!
//! A row is not an experiment: Figures 10 and 11 of a paper may come from the same runs. So a paper has a catalogue of
//! experiments, and a row requests figures by the name of an experiment. The requested names are recorded, which gives
//! every row its provenance. Figures are the numbers of a run record under dotted names (`programs_by_cause.gc`), so a
//! new figure can be used without changing this module. The price: a counter whose name is misspelt reads as zero,
//! because records omit counters that are zero. Rows that need a figure to exist use
//! [`ExperimentRun::required_figure`].

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use wearwell::lifetime::YEAR_S;
use wearwell_config::{Arrival, Config, ConfigError, Precondition, StripingName, VictimTieBreakName};
use wearwell_replay::code_digest;
use wearwell_replay::input::Input;
use wearwell_replay::json::ToJson;
use wearwell_replay::record::RunRecord;
use wearwell_replay::replay::{OnProgress, Plan, ReplayError};

use super::missing_record::{MissingRecordReason, unsupported_part_sentence};
use super::request_source::RequestSource;
use super::traces::OriginalTraces;

/// Size of the experiments: scaled down, or that of the paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExperimentSize {
    /// Scaled down, so that all experiments of a paper take minutes.
    Quick,
    /// As large as in the paper, as far as memory allows.
    Full,
}

/// Conditions for which the list of a paper's experiments is made: size, seed, traces.
#[derive(Clone, Debug)]
pub struct ExperimentConditions {
    /// Size of the experiments: scaled down, or that of the paper.
    pub size: ExperimentSize,
    /// Seed of all random generators and designs.
    pub seed: u64,
    /// Original traces of the papers that the user has.
    pub traces: OriginalTraces,
}

/// Kind of the input from which Wearwell's values of a row (reported result) come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InputKind {
    /// The input is the paper's: its original trace, or a generated load, if the paper generated it as well.
    #[default]
    OfPaper,
    /// The input is a generated load that replaces a trace or an application of the paper.
    Substitute,
    /// The input is a generated load that was made for this project: the paper has no such load.
    MadeLoad,
}

/// What an experiment does with its requests: replay or count them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExperimentWork {
    /// Replays the requests on a design with these settings.
    Replay {
        /// Name of the design on which the requests are replayed.
        design: &'static str,
        /// Settings of the replay, `section.key=value`.
        settings: Vec<String>,
    },
    /// Counts the requests of the input; no device is simulated. See [`super::statistics`].
    CountRequests,
}

/// A named run (replay or count) whose figures are used for rows (reported results) of a paper.
#[derive(Clone, PartialEq, Debug)]
pub struct Experiment {
    /// Name of the experiment, unique within the paper, e.g. `mail/128k`.
    pub name: String,
    /// Source of the requests: a generated load or a trace.
    pub source: RequestSource,
    /// Size of the experiment's input as a share of the paper's input; counts are divided by it to extrapolate.
    pub input_share: f64,
    /// What is done with the requests: replay on a design, or count.
    pub work: ExperimentWork,
    /// Whether the progress over simulated time is recorded, as figures `curve.K.device_s` and `curve.K.host_pages`.
    pub has_progress_curve: bool,
}

/// Maximum number of points of a recorded progress curve.
pub const MAX_CURVE_POINTS: usize = 200;

impl Experiment {
    /// Creates an experiment that replays the input on a design with these settings.
    pub fn new_replay(
        name: impl Into<String>,
        (source, input_share): (RequestSource, f64),
        design: &'static str,
        settings: Vec<String>,
    ) -> Self {
        Self {
            name: name.into(),
            source,
            input_share,
            work: ExperimentWork::Replay { design, settings },
            has_progress_curve: false,
        }
    }

    /// Creates an experiment that counts the requests of the input and simulates no device.
    pub fn new_request_count_experiment(
        name: impl Into<String>,
        (source, input_share): (RequestSource, f64),
    ) -> Self {
        Self {
            name: name.into(),
            source,
            input_share,
            work: ExperimentWork::CountRequests,
            has_progress_curve: false,
        }
    }

    /// Returns the experiment with recording of its progress over simulated time switched on.
    #[must_use]
    pub fn with_progress_curve(self) -> Self {
        Self { has_progress_curve: true, ..self }
    }

    /// Returns whether the experiment's input is a generated load that replaces a trace or an application of the paper.
    pub fn has_substitute_input(&self) -> bool {
        matches!(self.source, RequestSource::Substitute(_))
    }

    /// Returns a digest of what the experiment runs: name, input and its scale, design, settings, and the size of a
    /// trace file. A record is up to date if this digest and that of the code ([`code_digest()`]) are unchanged.
    pub fn definition_digest(&self) -> String {
        let (kind, bytes) = match &self.source {
            RequestSource::Generated(_) => ("generated", 0),
            RequestSource::Substitute(_) => ("substitute", 0),
            RequestSource::Original(path) => {
                ("original", std::fs::metadata(path).map_or(0, |file| file.len()))
            }
        };
        let work = match &self.work {
            ExperimentWork::Replay { design, settings } => format!("{design} {}", settings.join(" ")),
            ExperimentWork::CountRequests => "count".to_owned(),
        };
        let (name, input, scale, curve) =
            (&self.name, self.source.name(), self.input_share, self.has_progress_curve);
        code_digest::short_sha256(&format!("{name}\n{kind} {bytes} {input}\n{scale}\n{work}\n{curve}"))
    }

    /// Returns whether the experiment's input is the paper's original trace file.
    pub fn has_original_trace_input(&self) -> bool {
        matches!(self.source, RequestSource::Original(_))
    }

    /// Checks whether this binary supports the experiment's workload, design and settings.
    ///
    /// # Errors
    /// A message that names what is not supported.
    pub fn check_supported(&self) -> Result<(), String> {
        let input = self.source.input()?;
        if let ExperimentWork::Replay { design, settings } = &self.work {
            require_design(design)?;
            let config = experiment_config(settings)?;
            if matches!(input, Input::Workload(_) | Input::Host(_)) {
                config.resolve_device(1 << 20).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Runs the experiment and returns its figures as a record.
    ///
    /// # Errors
    /// [`MissingRecordReason::Interrupted`] if the observer ended the run, [`MissingRecordReason::NotRun`] with the
    /// reason in all other cases.
    pub fn run(&self, on_progress: OnProgress<'_>) -> Result<ExperimentRecord, MissingRecordReason> {
        let mut record = ExperimentRecord {
            name: self.name.clone(),
            key: self.definition_digest(),
            code: code_digest(),
            substitute: self.has_substitute_input(),
            input: self.source.name(),
            scale: self.input_share,
            ..ExperimentRecord::default()
        };
        let input = self.source.input().map_err(MissingRecordReason::NotRun)?;
        match &self.work {
            ExperimentWork::CountRequests => {
                record.figures = super::statistics::compute_trace_statistics(&input, on_progress)?;
            }
            ExperimentWork::Replay { design, settings } => {
                record.design = Some((*design).to_owned());
                record.settings.clone_from(settings);
                let run = replay(&input, design, settings, on_progress)?;
                record.set_run_results(&run);
                if self.has_progress_curve {
                    record.add_curve_figures(&run);
                }
            }
        }
        Ok(record)
    }
}

/// Returns a digest of the code that determines figures (that of the replay library and of this crate), without
/// comments and layout. If it changes, every figure may have changed.
pub fn code_digest() -> String {
    format!("{}-{}", code_digest::simulation_code_digest(), env!("CODE_DIGEST"))
}

/// Replays the input on a design with these settings, and returns the record of the run; an error if the user ended the
/// run or it did not reach the last request.
fn replay(
    input: &Input,
    design: &str,
    settings: &[String],
    on_progress: OnProgress<'_>,
) -> Result<RunRecord, MissingRecordReason> {
    require_design(design).map_err(MissingRecordReason::NotRun)?;
    let config = experiment_config(settings).map_err(MissingRecordReason::NotRun)?;
    let plan = Plan::new(&config, input).map_err(|error| missing_record_reason(&error))?;
    let mut interrupted = false;
    let record = plan.run(design, &mut |progress| {
        let flow = on_progress(progress);
        interrupted |= flow.is_break();
        flow
    });
    match record.map_err(|error| missing_record_reason(&error))? {
        _ if interrupted => Err(MissingRecordReason::Interrupted),
        RunRecord { partial_reason: Some(reason), .. } => {
            Err(MissingRecordReason::NotRun(format!("the run was stopped before its last request: {reason}")))
        }
        record => Ok(record),
    }
}

/// Returns an error if this binary has no design called `name`.
fn require_design(name: &str) -> Result<(), String> {
    let is_known = wearwell::design::ALL.iter().any(|design| design.name == name);
    if is_known {
        Ok(())
    } else {
        Err(unsupported_part_sentence(&format!("the design `{name}`"), "there is no such design"))
    }
}

/// Builds the configuration of an experiment: its settings, on top of defaults that match the papers.
///
/// These defaults are: an empty drive, sized so that the input touches 0.9 of its pages; spare space that includes the
/// blocks that GC keeps free; requests at the input's times, even if all of these are 0; GC that delays host reads from
/// a backlog of 1024 operations on; writes that use all planes of a die first; among equal GC victims the one with the
/// latest invalidation; no write buffer unless set, and no flush of it at the end. An unknown setting is reported as
/// not available in this binary.
fn experiment_config(settings: &[String]) -> Result<Config, String> {
    let all: Vec<String> =
        std::iter::once("precondition.mode=none".to_owned()).chain(settings.iter().cloned()).collect();
    let mut config = Config::from_text_and_settings(None, &all).map_err(|error| match error {
        ConfigError::Toml { location, message } if message.starts_with("unknown") => {
            unsupported_part_sentence(&format!("the setting {location}"), &message)
        }
        error => error.to_string(),
    })?;
    let device = &mut config.device;
    device.striping.get_or_insert(StripingName::PlaneFirst);
    device.reserve_blocks.get_or_insert(0.0);
    if device.preset.as_deref().is_none_or(|preset| preset == "auto") && device.logical_pages.is_none() {
        device.fit.get_or_insert(0.9);
    }
    if config.replay.arrival == Arrival::Auto {
        config.replay.arrival = Arrival::Open;
    }
    config.timing.gc_backlog_ops.get_or_insert(1024);
    config.timing.gc_holds_reads = true;
    config.gc.ties = VictimTieBreakName::Newest;
    config.buffer.pages.get_or_insert(0);
    config.buffer.keep_at_end = true;
    if config.precondition.mode == Precondition::Constructed {
        config.precondition.overwrite.get_or_insert(0.0);
    }
    Ok(config)
}

/// Converts an error of a replay to the reason why the experiment has no record.
fn missing_record_reason(error: &ReplayError) -> MissingRecordReason {
    MissingRecordReason::NotRun(error.to_string())
}

/// Result of an experiment: its figures, and all that is needed to judge and reproduce them.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ExperimentRecord {
    /// Name of the experiment that was run.
    pub name: String,
    /// Digest of the experiment's definition when it was run, from [`Experiment::definition_digest`].
    pub key: String,
    /// Digest of the code that ran the experiment, as returned by [`code_digest()`].
    #[serde(default)]
    pub code: String,
    /// For a full-size experiment, digest of the figures that the scaled-down experiment of the same name had with the
    /// same code. As long as scaled-down runs still have these figures, no change of the code has affected this record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quick_digest: Option<String>,
    /// Whether the experiment's input replaced a trace or an application of the paper.
    pub substitute: bool,
    /// Input of the experiment: path of the trace file, or specification of the load.
    pub input: String,
    /// Size of the experiment's input as a share of the paper's input.
    pub scale: f64,
    /// SHA-256 of the trace file; `None` for generated loads.
    pub sha256: Option<String>,
    /// Name of the design on which requests were replayed; absent if they were only counted.
    pub design: Option<String>,
    /// Settings of the run, `section.key=value`.
    pub settings: Vec<String>,
    /// Numbers that the run yielded, by dotted name; zeroes are omitted.
    pub figures: BTreeMap<String, f64>,
    /// Notes of the run about its result, e.g. which figures rest on a model.
    pub notes: Vec<String>,
}

/// Fields of a replay's record that are not taken as figures, because they are not numbers, repeat others, or differ
/// between machines.
const NON_FIGURE_FIELDS: [&str; 9] = [
    "bytes",
    "config",
    "service",
    "series",
    "steady",
    "peak_rss_bytes",
    "cpu_seconds",
    "precondition_cpu_seconds",
    "ram_bytes_by_structure",
];

impl ExperimentRecord {
    /// Returns a digest of all figures of the record, which changes if any bit of any figure changes.
    pub fn figures_digest(&self) -> String {
        let lines = self.figures.iter().map(|(name, value)| format!("{name} {:016x}\n", value.to_bits()));
        code_digest::short_sha256(&lines.collect::<String>())
    }

    /// Sets figures, notes and the checksum of the trace from the record of a run.
    fn set_run_results(&mut self, run: &RunRecord) {
        self.sha256.clone_from(&run.trace.sha256);
        self.notes.clone_from(&run.notes);
        let value = run.to_json_value();
        let serde_json::Value::Object(fields) = value else { unreachable!("a record has fields") };
        for (name, value) in fields.iter().filter(|(name, _)| !NON_FIGURE_FIELDS.contains(&name.as_str())) {
            add_flattened_numbers(name, value, &mut self.figures);
        }
        self.figures.retain(|name, _| !(name.starts_with("phases.") && name.ends_with(".host_bytes")));
        // A property of the drive, which the settings have.
        self.figures.remove("parts.nvram_bytes");
        self.set_layout_figures(run);
        self.set_binned_latency_figures(run);
        self.set_paper_lifetime_figures(run);
        self.add_figures_about_first_erase(run);
    }

    /// Replaces the named figures of the device's layout (channels, dies, planes, blocks, pages) by figures that are
    /// numbered by position, as in the records of the repository.
    fn set_layout_figures(&mut self, run: &RunRecord) {
        self.figures.retain(|name, _| !name.starts_with("device.layout."));
        let layout = run.device.layout;
        let places = [
            layout.channels,
            layout.dies_per_channel,
            layout.planes_per_die,
            layout.blocks_per_plane,
            layout.pages_per_block,
        ];
        for (place, count) in places.into_iter().enumerate() {
            self.figures.insert(format!("device.layout.{place}"), f64::from(count));
        }
    }

    /// Replaces the latency figures of the record by those computed from the bins of the latency histogram, and removes
    /// the latencies of flushes. Checked-in records have this form.
    fn set_binned_latency_figures(&mut self, run: &RunRecord) {
        self.figures.retain(|name, _| !name.starts_with("latency_us.flush."));
        for (kind, latency) in [("read", &run.latency_us.read), ("write", &run.latency_us.write)] {
            if let Some(binned) = &latency.binned {
                let value = serde_json::to_value(binned).expect("figures are plain data");
                add_flattened_numbers(&format!("latency_us.{kind}"), &value, &mut self.figures);
            }
        }
    }

    /// Replaces the lifetime figures of the record by figures according to the papers' definition: computed from all
    /// erases of the run, for the drive as simulated.
    fn set_paper_lifetime_figures(&mut self, run: &RunRecord) {
        self.figures.remove("lifetime.drive_writes_per_day");
        self.figures.remove("lifetime.host_tb_written_until_worn");
        self.figures.remove("lifetime.years");
        self.figures.retain(|name, _| !name.starts_with("lifetime.schemes."));
        let (used, elapsed_s) = (run.lifetime.endurance_used, run.lifetime.elapsed_s);
        let host_bytes = run.host_page_writes as f64 * f64::from(run.device.page_bytes);
        if used > 0.0 && host_bytes > 0.0 {
            self.figures.insert("lifetime.host_tb_written_until_worn".to_owned(), host_bytes / used / 1e12);
        }
        if used > 0.0 && elapsed_s > 0.0 {
            self.figures.insert("lifetime.years".to_owned(), elapsed_s / YEAR_S as f64 / used);
        }
    }

    /// Adds two figures about the first erase to the record: when it happened, as a share of the requests, and the
    /// request rate after it. Their precision is limited by the time series, which has at most 200 points.
    fn add_figures_about_first_erase(&mut self, run: &RunRecord) {
        let (Some(first), Some(last)) = (run.series.iter().find(|point| point.erases > 0), run.series.last())
        else {
            return;
        };
        let mut add = |name: &str, value: f64| self.figures.insert(name.to_owned(), value);
        add("first_erase.share", first.requests as f64 / last.requests as f64);
        add("first_erase.device_s", first.device_s);
        if last.device_s > first.device_s {
            let rate = (last.requests - first.requests) as f64 / (last.device_s - first.device_s);
            add("after_first_erase.requests_per_s", rate);
        }
    }
}

impl ExperimentRecord {
    /// Adds the points of the run's progress curve as figures `curve.K.device_s` and `curve.K.host_pages`.
    fn add_curve_figures(&mut self, run: &RunRecord) {
        for (k, point) in run.series.iter().take(MAX_CURVE_POINTS).enumerate() {
            let pages = point.host_page_writes + point.host_page_remaps;
            self.figures.insert(format!("curve.{k}.device_s"), point.device_s);
            self.figures.insert(format!("curve.{k}.host_pages"), pages as f64);
        }
    }
}

/// Adds each number in a JSON value to `into`, under its dotted name (`programs_by_cause.gc`). Zeroes are omitted.
fn add_flattened_numbers(name: &str, value: &serde_json::Value, into: &mut BTreeMap<String, f64>) {
    match value {
        serde_json::Value::Number(number) => {
            let value = number.as_f64().unwrap_or_default();
            if value != 0.0 {
                into.insert(name.to_owned(), value);
            }
        }
        serde_json::Value::Object(fields) => {
            for (field, value) in fields {
                add_flattened_numbers(&format!("{name}.{field}"), value, into);
            }
        }
        serde_json::Value::Array(items) => {
            for (k, value) in items.iter().enumerate() {
                add_flattened_numbers(&format!("{name}.{k}"), value, into);
            }
        }
        _ => {}
    }
}

/// Records of all experiments of a paper, by the experiment's name. Also notes which experiments are used for the
/// current row (reported result).
#[derive(Debug, Default)]
pub struct ExperimentRecords {
    /// Record of each experiment, or the reason why it was not run, by the name of the experiment.
    records: BTreeMap<String, Result<ExperimentRecord, String>>,
    /// Names of the experiments that have been used for the current row (reported result).
    used_experiment_names: RefCell<BTreeSet<String>>,
}

impl ExperimentRecords {
    /// Adds the record of a finished experiment to those of the paper.
    pub fn add_record(&mut self, record: ExperimentRecord) {
        self.records.insert(record.name.clone(), Ok(record));
    }

    /// Notes that an experiment was not run, with the reason.
    pub fn add_not_run_reason(&mut self, name: &str, why: &str) {
        self.records.insert(name.to_owned(), Err(why.to_owned()));
    }

    /// Returns the record of the experiment called `name`, and notes that the current row (reported result) uses it.
    ///
    /// # Errors
    /// The reason why the experiment was not run.
    pub fn finished_run_named(&self, name: &str) -> Result<ExperimentRun<'_>, String> {
        self.used_experiment_names.borrow_mut().insert(name.to_owned());
        match self.records.get(name) {
            Some(Ok(record)) => Ok(ExperimentRun(record)),
            Some(Err(why)) => Err(why.clone()),
            None => Err(format!(
                "experiment {name} has no result in results.json: it was not run yet (run `wearwell reproduce PAPER` \
                 without --render), or it is not run at this size (quick or full)"
            )),
        }
    }

    /// Returns the names of the experiments whose figures were used since the last call of this function, and the kind
    /// of their input. `paper_generates_loads` states whether the paper has generated loads of its own. If the
    /// experiments have several kinds of input, the kind is:
    ///
    /// - `Substitute`, if any input is a substitute;
    /// - else `OfPaper`, if any input is an original trace. Values on generated loads are then shown, but not compared
    ///   with the paper.
    pub fn take_used_experiments_and_input_kind(
        &self,
        paper_generates_loads: bool,
    ) -> (Vec<String>, InputKind) {
        let asked: Vec<String> =
            std::mem::take(&mut *self.used_experiment_names.borrow_mut()).into_iter().collect();
        let records = || asked.iter().filter_map(|name| self.records.get(name)?.as_ref().ok());
        let kind = if records().any(|record| record.substitute) {
            InputKind::Substitute
        } else if paper_generates_loads || asked.is_empty() || records().any(|record| record.sha256.is_some())
        {
            InputKind::OfPaper
        } else {
            InputKind::MadeLoad
        };
        (asked, kind)
    }
}

/// The record of one experiment, for access to its figures (numbers by dotted name).
#[derive(Clone, Copy, Debug)]
pub struct ExperimentRun<'a>(&'a ExperimentRecord);

impl ExperimentRun<'_> {
    /// Returns the record of the experiment.
    pub fn record(&self) -> &ExperimentRecord {
        self.0
    }

    /// Returns a figure of the experiment by its dotted name; 0 if it is absent.
    pub fn figure(self, name: &str) -> f64 {
        self.0.figures.get(name).copied().unwrap_or(0.0)
    }

    /// Returns a figure of the experiment extrapolated to the paper's whole input: divided by the scale of the
    /// experiment.
    pub fn figure_scaled_to_full_input(self, name: &str) -> f64 {
        self.figure(name) / self.0.scale
    }

    /// Returns a figure of the experiment that must be present.
    ///
    /// # Errors
    /// The record has no figure of this name.
    pub fn required_figure(self, name: &str) -> Result<f64, String> {
        let missing = || {
            format!(
                "the record of experiment {} in results.json has no value `{name}`: the run had none (for example, \
                 because no block was erased), or an older version of wearwell wrote the record: repeat the experiment \
                 with --fresh",
                self.0.name
            )
        };
        self.0.figures.get(name).copied().ok_or_else(missing)
    }

    /// Returns the number of page programs of the experiment for one cause.
    pub fn programs_by_cause(self, cause: &str) -> f64 {
        self.figure(&format!("programs_by_cause.{cause}"))
    }
}
