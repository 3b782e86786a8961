//! An experiment: one input through one design, named, sized and seeded, whose figures several rows may use.
//!
//! A row is not an experiment: Figure 10 and Figure 11 of a paper come from the same runs. So a paper's catalogue is a
//! list of experiments, and a row asks for figures by the name of the experiment; what it asked for is noted, which
//! gives every row its provenance. Figures are the numbers of a run record by dotted name (`programs_by_cause.gc`), so
//! that a part's new figure can be used without touching this module. A misspelt figure is zero if it names a counter,
//! since counters that stayed zero are absent from records; rows that need a figure to exist use [`Run::required`].
//!
//! An experiment that this binary cannot run (its design, workload or setting is not there yet) is not a failure: it
//! says what is missing and the row is not run.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use wearwell::lifetime::YEAR_S;
use wearwell_config::{Arrival, Config, ConfigError, Precondition, StripingName, TiesName};
use wearwell_replay::code;
use wearwell_replay::input::Input;
use wearwell_replay::record::RunRecord;
use wearwell_replay::replay::{OnProgress, Plan, ReplayError};
use wearwell_trace::OpenOptions;

use super::traces::Traces;

/// How much is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// Scaled down: minutes for a paper.
    Quick,
    /// As large as the paper's, where memory allows.
    Full,
}

/// What a catalogue is made for.
#[derive(Clone, Debug)]
pub struct Setting {
    /// How much is run.
    pub size: Size,
    /// Seed of every generator and design.
    pub seed: u64,
    /// Original traces that were found.
    pub traces: Traces,
}

/// Where an experiment's requests come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// A load that the row is about.
    Generated(String),
    /// A generated load in place of a trace or an application.
    Substitute(String),
    /// The original trace.
    Original(std::path::PathBuf),
}

impl Source {
    /// The specification or file.
    pub fn name(&self) -> String {
        match self {
            Self::Generated(spec) | Self::Substitute(spec) => spec.clone(),
            Self::Original(path) => path.display().to_string(),
        }
    }

    fn input(&self) -> Result<Input, String> {
        match self {
            Self::Generated(spec) | Self::Substitute(spec) => {
                Input::generated(spec).map_err(|error| format!("workload not available: {error}"))
            }
            Self::Original(path) => Ok(Input::Trace { path: path.clone(), options: OpenOptions::default() }),
        }
    }
}

/// What is done with the requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Work {
    /// They run through a design with these settings.
    Replay {
        /// Design.
        design: &'static str,
        /// Settings `section.key=value`.
        settings: Vec<String>,
    },
    /// They are counted, as on a device that never forgets: see [`super::statistics`].
    Count,
}

/// A named run.
#[derive(Clone, PartialEq, Debug)]
pub struct Experiment {
    /// Unique within the paper: `mail/128k`.
    pub name: String,
    /// Requests.
    pub source: Source,
    /// Share of the paper's input that they are; counts are divided by it.
    pub scale: f64,
    /// What is done with them.
    pub work: Work,
    /// Whether progress over device time is kept, as figures `curve.K.device_s` and `curve.K.host_pages`.
    pub has_curve: bool,
}

/// Points of a curve at most.
pub const CURVE_POINTS: usize = 200;

impl Experiment {
    /// A run of a design.
    pub fn replay(
        name: impl Into<String>,
        (source, scale): (Source, f64),
        design: &'static str,
        settings: Vec<String>,
    ) -> Self {
        Self { name: name.into(), source, scale, work: Work::Replay { design, settings }, has_curve: false }
    }

    /// A count of the requests.
    pub fn count(name: impl Into<String>, (source, scale): (Source, f64)) -> Self {
        Self { name: name.into(), source, scale, work: Work::Count, has_curve: false }
    }

    /// The same, with its progress over device time.
    #[must_use]
    pub fn with_curve(self) -> Self {
        Self { has_curve: true, ..self }
    }

    /// Whether the input stands in for another.
    pub fn is_substitute(&self) -> bool {
        matches!(self.source, Source::Substitute(_))
    }

    /// Digest of what is run: name, input and its scale, design, settings, and the size of a trace file. With [`code()`] it
    /// says whether a record still is what a run would give.
    pub fn key(&self) -> String {
        let (kind, bytes) = match &self.source {
            Source::Generated(_) => ("generated", 0),
            Source::Substitute(_) => ("substitute", 0),
            Source::Original(path) => ("original", std::fs::metadata(path).map_or(0, |file| file.len())),
        };
        let work = match &self.work {
            Work::Replay { design, settings } => format!("{design} {}", settings.join(" ")),
            Work::Count => "count".to_owned(),
        };
        let (name, input, scale, curve) = (&self.name, self.source.name(), self.scale, self.has_curve);
        code::digest(&format!("{name}\n{kind} {bytes} {input}\n{scale}\n{work}\n{curve}"))
    }

    /// Whether the requests are those of a trace file.
    pub fn is_original(&self) -> bool {
        matches!(self.source, Source::Original(_))
    }

    /// Whether this binary knows the workload, the design and the settings.
    ///
    /// # Errors
    /// What it does not know.
    pub fn availability(&self) -> Result<(), String> {
        let input = self.source.input()?;
        if let Work::Replay { design, settings } = &self.work {
            require_design(design)?;
            let config = config_of(settings)?;
            if matches!(input, Input::Workload(_) | Input::Host(_)) {
                config.resolve(1 << 20).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Runs it.
    ///
    /// # Errors
    /// [`Trouble::Interrupted`] if the observer said so, [`Trouble::NotRun`] with the reason for everything else.
    pub fn run(&self, on_progress: OnProgress<'_>) -> Result<Record, Trouble> {
        let mut record = Record {
            name: self.name.clone(),
            key: self.key(),
            code: code(),
            substitute: self.is_substitute(),
            input: self.source.name(),
            scale: self.scale,
            ..Record::default()
        };
        let input = self.source.input().map_err(Trouble::NotRun)?;
        match &self.work {
            Work::Count => {
                record.figures = super::statistics::count(&input, on_progress)?;
            }
            Work::Replay { design, settings } => {
                record.design = Some((*design).to_owned());
                record.settings.clone_from(settings);
                let run = replay(&input, design, settings, on_progress)?;
                record.take(&run);
                if self.has_curve {
                    record.take_curve(&run);
                }
            }
        }
        Ok(record)
    }
}

/// Digest of the code that makes figures: that of runs and this crate's, without comments and layout. Whatever changes it may
/// have changed every figure.
pub fn code() -> String {
    format!("{}-{}", code::of_runs(), env!("CODE_DIGEST"))
}

/// Why there is no record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// The user ended it.
    Interrupted,
    /// It cannot be run, with the reason.
    NotRun(String),
}

fn replay(
    input: &Input,
    design: &str,
    settings: &[String],
    on_progress: OnProgress<'_>,
) -> Result<RunRecord, Trouble> {
    require_design(design).map_err(Trouble::NotRun)?;
    let config = config_of(settings).map_err(Trouble::NotRun)?;
    let plan = Plan::new(&config, input).map_err(|error| failed(&error))?;
    let mut interrupted = false;
    let record = plan.run(design, &mut |progress| {
        let flow = on_progress(progress);
        interrupted |= flow.is_break();
        flow
    });
    match record.map_err(|error| failed(&error))? {
        _ if interrupted => Err(Trouble::Interrupted),
        RunRecord { partial_reason: Some(reason), .. } => {
            Err(Trouble::NotRun(format!("ended early: {reason}")))
        }
        record => Ok(record),
    }
}

fn require_design(name: &str) -> Result<(), String> {
    let is_known = wearwell::design::ALL.iter().any(|design| design.name == name);
    if is_known { Ok(()) } else { Err(format!("design {name} not available")) }
}

/// What the catalogues start from: an empty drive, fitted so that nine tenths of it are touched, whose spare space includes
/// what GC keeps free, as in the papers; requests that come at the input's times even if all of these are 0; collections that
/// hold reads from a backlog of 1024 operations on; writes that go to all planes of a die first; of equal victims the one
/// whose pages died last; and write buffers that are not written out at the end. A setting that no
/// configuration has belongs to a part that is not there.
fn config_of(settings: &[String]) -> Result<Config, String> {
    let all: Vec<String> =
        std::iter::once("precondition.mode=none".to_owned()).chain(settings.iter().cloned()).collect();
    let mut config = Config::from_parts(None, &all).map_err(|error| match error {
        ConfigError::Toml { place, message } if message.starts_with("unknown") => {
            format!("{place} not available")
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
    config.gc.ties = TiesName::Newest;
    config.buffer.pages.get_or_insert(0);
    config.buffer.keep_at_end = true;
    if config.precondition.mode == Precondition::Constructed {
        config.precondition.overwrite.get_or_insert(0.0);
    }
    Ok(config)
}

fn failed(error: &ReplayError) -> Trouble {
    Trouble::NotRun(error.to_string())
}

/// What an experiment gave, self-contained.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// Name of the experiment.
    pub name: String,
    /// Its [`Experiment::key`].
    pub key: String,
    /// The [`code()`] that ran it.
    #[serde(default)]
    pub code: String,
    /// Of a run at full size: digest of the figures that the quick experiment of the same name had with the same code.
    /// As long as quick runs give these figures, the code has changed nothing that this record depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quick_digest: Option<String>,
    /// The input stood in for another.
    pub substitute: bool,
    /// Trace file or specification.
    pub input: String,
    /// Share of the paper's input that was run.
    pub scale: f64,
    /// SHA-256 of the trace file.
    pub sha256: Option<String>,
    /// Design; absent if requests were only counted.
    pub design: Option<String>,
    /// Settings of the run.
    pub settings: Vec<String>,
    /// Figures by dotted name.
    pub figures: BTreeMap<String, f64>,
    /// What the run said about its result.
    pub notes: Vec<String>,
}

/// Parts of a run record that are no figures, say the same as others, or differ between machines.
const LEFT_OUT: [&str; 9] = [
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

impl Record {
    /// Digest of all figures, to the last bit.
    pub fn figures_digest(&self) -> String {
        let lines = self.figures.iter().map(|(name, value)| format!("{name} {:016x}\n", value.to_bits()));
        code::digest(&lines.collect::<String>())
    }

    fn take(&mut self, run: &RunRecord) {
        self.sha256.clone_from(&run.trace.sha256);
        self.notes.clone_from(&run.notes);
        let value = serde_json::to_value(run).expect("records are plain data");
        let serde_json::Value::Object(fields) = value else { unreachable!("a record has fields") };
        for (name, value) in fields.iter().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str())) {
            flatten(name, value, &mut self.figures);
        }
        self.figures.retain(|name, _| !(name.starts_with("phases.") && name.ends_with(".host_bytes")));
        self.take_layout(run);
        self.take_binned_latencies(run);
        self.take_lifetime(run);
        self.take_first_erase(run);
    }

    /// The layout as the records have it, by place: channels, dies, planes, blocks, pages.
    fn take_layout(&mut self, run: &RunRecord) {
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

    /// Latencies as the records have them: from a histogram's bins, no flushes.
    fn take_binned_latencies(&mut self, run: &RunRecord) {
        self.figures.retain(|name, _| !name.starts_with("latency_us.flush."));
        for (kind, latency) in [("read", &run.latency_us.read), ("write", &run.latency_us.write)] {
            if let Some(binned) = &latency.binned {
                let value = serde_json::to_value(binned).expect("figures are plain data");
                flatten(&format!("latency_us.{kind}"), &value, &mut self.figures);
            }
        }
    }

    /// Lifetime as papers measure it: by erases of the whole run, on the drive as it was.
    fn take_lifetime(&mut self, run: &RunRecord) {
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

    /// When erasing began, as a share of the requests, and the rate of requests from then on. The time series has at
    /// most 200 points, which bounds the precision.
    fn take_first_erase(&mut self, run: &RunRecord) {
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

impl Record {
    fn take_curve(&mut self, run: &RunRecord) {
        for (k, point) in run.series.iter().take(CURVE_POINTS).enumerate() {
            let pages = point.host_page_writes + point.host_page_remaps;
            self.figures.insert(format!("curve.{k}.device_s"), point.device_s);
            self.figures.insert(format!("curve.{k}.host_pages"), pages as f64);
        }
    }
}

/// Numbers by dotted name; zeroes are left out.
fn flatten(name: &str, value: &serde_json::Value, into: &mut BTreeMap<String, f64>) {
    match value {
        serde_json::Value::Number(number) => {
            let value = number.as_f64().unwrap_or_default();
            if value != 0.0 {
                into.insert(name.to_owned(), value);
            }
        }
        serde_json::Value::Object(fields) => {
            for (field, value) in fields {
                flatten(&format!("{name}.{field}"), value, into);
            }
        }
        serde_json::Value::Array(items) => {
            for (k, value) in items.iter().enumerate() {
                flatten(&format!("{name}.{k}"), value, into);
            }
        }
        _ => {}
    }
}

/// The finished experiments, as rows see them.
#[derive(Debug, Default)]
pub struct Runs {
    records: BTreeMap<String, Result<Record, String>>,
    asked: RefCell<BTreeSet<String>>,
}

impl Runs {
    /// Adds a finished experiment.
    pub fn add(&mut self, record: Record) {
        self.records.insert(record.name.clone(), Ok(record));
    }

    /// Adds an experiment that was not run.
    pub fn add_not_run(&mut self, name: &str, why: &str) {
        self.records.insert(name.to_owned(), Err(why.to_owned()));
    }

    /// The figures of an experiment.
    ///
    /// # Errors
    /// Why it was not run.
    pub fn get(&self, name: &str) -> Result<Run<'_>, String> {
        self.asked.borrow_mut().insert(name.to_owned());
        match self.records.get(name) {
            Some(Ok(record)) => Ok(Run(record)),
            Some(Err(why)) => Err(why.clone()),
            None => Err(format!("experiment {name} was not run yet")),
        }
    }

    /// Names asked for since the last call, and whether one of their inputs stood in for another.
    pub fn take_asked(&self) -> (Vec<String>, bool) {
        let asked: Vec<String> = std::mem::take(&mut *self.asked.borrow_mut()).into_iter().collect();
        let substitute = asked
            .iter()
            .filter_map(|name| self.records.get(name)?.as_ref().ok())
            .any(|record| record.substitute);
        (asked, substitute)
    }
}

/// One experiment's figures.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a>(&'a Record);

impl Run<'_> {
    /// A counter; absent means zero.
    pub fn figure(self, name: &str) -> f64 {
        self.0.figures.get(name).copied().unwrap_or(0.0)
    }

    /// A counter as if the whole input had been run: divided by the scale.
    pub fn extrapolated(self, name: &str) -> f64 {
        self.figure(name) / self.0.scale
    }

    /// A figure that must be there.
    ///
    /// # Errors
    /// The record has no such figure.
    pub fn required(self, name: &str) -> Result<f64, String> {
        let missing = || format!("{} reports no {name}", self.0.name);
        self.0.figures.get(name).copied().ok_or_else(missing)
    }

    /// Programs for one cause.
    pub fn programs(self, cause: &str) -> f64 {
        self.figure(&format!("programs_by_cause.{cause}"))
    }
}
