//! The replay driver: one input through one design, from preconditioning to the run record.
//!
//! The hot loop reads requests in small batches and looks up the map entries of the whole batch before it executes
//! it, because on devices larger than the caches the first access to the map is the dearest step of a write and a
//! batch of them overlaps (a factor of two at 8 GB). Everything else about a request is decided once per request,
//! not per page.
//!
//! Time: open loop issues at the trace's times, closed loop keeps a number of requests in flight, think time keeps
//! the gap after the previous completion. Without a timing engine arrival means nothing and the loop only counts.
//! Throttled writes start later than they arrive (`lifetime.rs`).

use std::ops::ControlFlow::{self, Break, Continue};

use wearwell::address::{BlockId, Lpn};
use wearwell::content::{Descriptor, Fingerprint, mix};
use wearwell::device::SECTOR_BYTES;
use wearwell::lifetime::{Choice, LifetimeOptions};
use wearwell::mapping::AnyMapping;
use wearwell::nand::{Nand as _, Retain, SimNand};
use wearwell::recovery::StepCost;
use wearwell::stats::{Stats, Work};
use wearwell::timing::{Cause, ControllerWork, LatencySummary, OpKind, RequestKind, Timing, TimingMode};
use wearwell::validity::AnyValidity;
use wearwell::{Device, DeviceOptions, Error};

use crate::config::{Addresses, Arrival, Config, ConfigError, Precondition, Resolved, Zeroes};
use crate::content_model::{ContentModel, Spec as ContentSpec};
use crate::input::{Input, Requests, Survey};
use crate::lifetime::{self, Managed};
use crate::precondition;
use crate::process;
use crate::record::{
    DeviceRecord, LatencyRecord, LifetimeRecord, RecoveryCosts, RecoveryRecord, RunRecord, SeriesPoint,
    TimeRecord, TraceRecord, by_cause,
};
use crate::trace::{Op, OpenOptions, PAGE_BYTES, Request, TraceError};

/// Why a run could not start or had to end without a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The input.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The device refused to be built or preconditioned.
    #[error("{0}")]
    Device(#[from] Error),
    /// The content model.
    #[error("content model: {0}")]
    Content(String),
}

/// What a run is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Bringing the device into its state.
    Precondition,
    /// Requests that age the device.
    Aging,
    /// Measured requests.
    Replay,
}

/// Reported every few ten thousand requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Phase.
    pub phase: Phase,
    /// Requests done in this phase.
    pub done: u64,
    /// Requests of this phase, if known.
    pub total: u64,
}

/// Called with the progress; `Break` ends the run with a partial result.
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// Requests read ahead.
const BATCH: usize = 32;
/// Requests between progress reports.
const REPORT_EVERY: u64 = 1 << 16;
/// Points of the time series at most.
const SERIES_POINTS: u64 = 200;

/// What all designs of a comparison share: the surveyed input and the resolved device.
#[derive(Debug)]
pub struct Plan<'a> {
    config: &'a Config,
    input: &'a Input,
    aging: Option<Input>,
    survey: Survey,
    resolved: Resolved,
    content: ContentSpec,
    sha256: Option<String>,
}

impl<'a> Plan<'a> {
    /// Surveys the input and resolves the device.
    ///
    /// # Errors
    /// Those of the configuration and of the trace.
    pub fn new(config: &'a Config, input: &'a Input) -> Result<Self, ReplayError> {
        let aging = aging_input(config, input);
        let survey = input.survey(aging.as_ref())?;
        let resolved = config.resolve(survey.footprint_pages)?;
        let model = config.content.model.as_deref().unwrap_or("unique");
        let content = model
            .parse()
            .map_err(|error: crate::workload::SpecError| ReplayError::Content(error.to_string()))?;
        let sha256 = match input {
            Input::Trace { path, .. } => crate::trace::sha256(path).ok(),
            Input::Workload(_) | Input::Host(_) => None,
        };
        let plan = Self { config, input, aging, survey, resolved, content, sha256 };
        plan.require_room()?;
        Ok(plan)
    }

    /// The device every design runs on.
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// What the input touches.
    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    fn exported_bytes(&self) -> u64 {
        self.resolved.logical_pages as u64 * self.resolved.geometry.page_bytes as u64
    }

    /// Whether addresses are compacted. A generator's are dense as they are.
    fn compacts(&self) -> bool {
        let too_far = || self.survey.end_bytes > self.exported_bytes();
        match self.config.replay.addresses {
            _ if self.survey.footprint.is_none() => false,
            Addresses::Compact => true,
            Addresses::Exact => false,
            Addresses::Auto => self.survey.several_devices || too_far(),
        }
    }

    /// Refuses an input that cannot fit, before hours are spent on its beginning.
    fn require_room(&self) -> Result<(), ConfigError> {
        let (touched, how) = if self.compacts() {
            (self.survey.footprint_pages * PAGE_BYTES, "")
        } else {
            (self.survey.end_bytes, " at its addresses")
        };
        let exported = self.exported_bytes();
        if touched <= exported {
            return Ok(());
        }
        Err(ConfigError::Value(format!(
            "the input needs {touched} bytes{how} and the device exports {exported}: choose a larger device, or \
             device.fit to size it to the input"
        )))
    }

    /// Replays the input through one design.
    ///
    /// # Errors
    /// [`ReplayError`] if there is nothing to report; a run that ends early returns a record marked partial.
    pub fn run(&self, design: &str, on_progress: OnProgress<'_>) -> Result<RunRecord, ReplayError> {
        process::reset_peak_rss();
        let mut run = Run::new(self, design)?;
        let started = process::thread_cpu_seconds();
        let mut ended = run.precondition(on_progress)?;
        let conditioned = process::thread_cpu_seconds();
        if ended.is_none() {
            ended = run.replay(on_progress)?;
        }
        let finished = process::thread_cpu_seconds();
        let mut record = run.record(design, ended);
        if self.config.recovery.after_run && !record.partial {
            record.recovery = Some(run.recover()?);
        }
        record.precondition_cpu_seconds = conditioned - started;
        record.cpu_seconds = finished - conditioned;
        record.peak_rss_bytes = process::peak_rss_bytes();
        Ok(record)
    }
}

/// The trace that ages the device, read like the input except for its format, which may be another.
fn aging_input(config: &Config, input: &Input) -> Option<Input> {
    let precondition = &config.precondition;
    let path = precondition.trace.as_ref().filter(|_| precondition.mode == Precondition::Aged)?;
    let options = match input {
        Input::Trace { options, .. } => OpenOptions { format: None, ..options.clone() },
        Input::Workload(_) | Input::Host(_) => OpenOptions::default(),
    };
    Some(Input::Trace { path: path.into(), options })
}

/// A device that cannot be built as configured is a mistake in the configuration.
fn refused(error: Error) -> ReplayError {
    match error {
        Error::NoSpareSpace { .. } | Error::Options(_) => ConfigError::Value(error.to_string()).into(),
        other => other.into(),
    }
}

/// Why a phase ended before its input did.
type Ended = Option<String>;

/// One design being run.
/// The design whose schemes the lifetime manager switches.
const INTEGRATED: &str = "integrated";

struct Run<'a> {
    plan: &'a Plan<'a>,
    device: Device<SimNand>,
    requests: Requests,
    content: ContentModel,
    timing: Option<Timing>,
    /// Lifetime management, if the configuration asks for any.
    managed: Option<Managed>,
    /// Whether the design is the one whose schemes can be switched.
    has_schemes: bool,
    compacts: bool,
    looks_at_content: bool,
    page_bytes: u64,
    page_shift: u32,
    exported_bytes: u64,
    /// Time of the current request and completion of the last one, nanoseconds.
    clock: Clock,
    descriptors: Vec<Descriptor>,
    /// What the last read returned, where the medium keeps bytes.
    bytes_read: Vec<u8>,
    /// First pages of the batch's writes, and their contents where known.
    upcoming: Vec<Lpn>,
    upcoming_contents: Vec<Fingerprint>,
    series: Vec<SeriesPoint>,
    /// The recovery in the middle of the run.
    recovery: Option<RecoveryRecord>,
    /// Counters when each phase but the first began.
    phases: Vec<SeriesPoint>,
    remapped_pages: u64,
    /// The controller\'s work up to the request in hand.
    work_before: Work,
    /// Writes that the buffer absorbed before the measured part.
    absorbed_before: u64,
    measured: u64,
    aged: u64,
    first_ns: Option<u64>,
    last_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "units stand last in names")]
struct Clock {
    arrival_ns: u64,
    previous_trace_ns: u64,
    completed_ns: u64,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan<'a>, design: &str) -> Result<Self, ReplayError> {
        let resolved = &plan.resolved;
        let parts = plan.config.parts(design, resolved)?;
        let carries_bytes = matches!(plan.input, Input::Trace { options, .. } if options.bytes);
        let sequence = plan.config.recovery.is_executed();
        let generation = sequence && parts.content.delta.is_some();
        let retain = Retain { bytes: carries_bytes, sequence, generation, ..parts.retain() };
        let mut nand = SimNand::new(resolved.geometry.clone(), retain)
            .with_nvram(parts.nvram_bytes(resolved.geometry.page_bytes))
            .with_factory_bad(plan.factory_bad());
        if plan.config.device.wear_out == Some(true) {
            nand = nand.with_endurance(resolved.endurance_cycles);
        }
        let options = DeviceOptions { buffer: plan.config.buffer() };
        let device = Device::new(nand, resolved.logical_pages, &parts, options).map_err(refused)?;
        Ok(Self {
            looks_at_content: device.ftl().looks_at_content(),
            page_bytes: resolved.geometry.page_bytes as u64,
            page_shift: resolved.geometry.page_bytes.trailing_zeros(),
            exported_bytes: device.bytes(),
            requests: plan.input.open()?,
            content: ContentModel::new(&plan.content, plan.config.seed()),
            timing: None,
            managed: None,
            has_schemes: design == INTEGRATED,
            compacts: plan.compacts(),
            clock: Clock::default(),
            descriptors: Vec::new(),
            bytes_read: Vec::new(),
            upcoming: Vec::with_capacity(BATCH),
            upcoming_contents: Vec::with_capacity(BATCH),
            series: Vec::new(),
            recovery: None,
            phases: Vec::new(),
            remapped_pages: 0,
            work_before: Work::default(),
            absorbed_before: 0,
            measured: 0,
            aged: 0,
            first_ns: None,
            last_ns: 0,
            plan,
            device,
        })
    }

    /// Brings the device into its state and clears the counters.
    fn precondition(&mut self, on_progress: OnProgress<'_>) -> Result<Ended, ReplayError> {
        let config = &self.plan.config.precondition;
        let seed = mix(self.plan.config.seed());
        let device = &mut self.device;
        let mut step = |done, total| on_progress(Progress { phase: Phase::Precondition, done, total });
        let flow = match config.mode {
            Precondition::Aged if config.filled == Some(true) => precondition::fill(device, &mut step)?,
            Precondition::None | Precondition::Aged => Continue(()),
            Precondition::Fill => precondition::fill(device, &mut step)?,
            Precondition::Steady => {
                let capacities = config.overwrite.unwrap_or(1.0);
                match precondition::fill(device, &mut step)? {
                    Continue(()) => precondition::overwrite(device, capacities, seed, &mut step)?,
                    Break(()) => Break(()),
                }
            }
            Precondition::Constructed => precondition::construct(device, seed, &mut step)?,
        };
        device.ftl_mut().forget_access_counts();
        let ended = match (flow, config.mode) {
            (Break(()), _) => Some("interrupted before the first measured request".into()),
            (Continue(()), Precondition::Aged) => self.age(on_progress)?,
            (Continue(()), _) => None,
        };
        self.device.ftl_mut().clear_stats();
        self.work_before = Work::default();
        self.absorbed_before = self.device.absorbed_writes();
        Ok(ended)
    }

    /// Ages the device with another trace, or with the first part of the input.
    fn age(&mut self, on_progress: OnProgress<'_>) -> Result<Ended, ReplayError> {
        let ended = if let Some(input) = &self.plan.aging {
            let measured = std::mem::replace(&mut self.requests, input.open()?);
            let ended = self.pump(None, self.plan.survey.aging_requests, Phase::Aging, on_progress)?;
            self.requests = measured;
            ended
        } else {
            let share = self.plan.config.precondition.share.unwrap_or(0.5);
            let count = (self.plan.survey.requests as f64 * share) as u64;
            self.pump(Some(count), count, Phase::Aging, on_progress)?
        };
        self.aged = std::mem::take(&mut self.measured);
        (self.first_ns, self.last_ns) = (None, 0);
        self.series.clear();
        self.phases.clear();
        self.remapped_pages = 0;
        Ok(ended)
    }

    /// The measured part.
    fn replay(&mut self, on_progress: OnProgress<'_>) -> Result<Ended, ReplayError> {
        let config = self.plan.config;
        if config.timing.engine() != TimingMode::None {
            let resolved = &self.plan.resolved;
            let options = config.timing.options();
            self.timing =
                Some(Timing::new(config.timing.engine(), &resolved.geometry, resolved.timing, options));
            self.device.ftl_mut().store_mut().ops.listen(true);
        }
        let endurance_cycles = self.plan.resolved.endurance_cycles;
        let options = config.lifetime.options().filter(|options| self.is_managed(options));
        self.managed = options.map(|options| Managed::new(options, &self.device, endurance_cycles));
        let aged = if self.plan.aging.is_some() { 0 } else { self.aged };
        let left = self.plan.survey.requests.saturating_sub(aged);
        let limit = config.replay.requests;
        let total = limit.map_or(left, |limit| limit.min(left));
        let ended = match config.recovery.after_requests.filter(|&cut| cut < total) {
            Some(cut) => self.replay_with_cut(cut, total, on_progress)?,
            None => self.pump(limit, total, Phase::Replay, on_progress)?,
        };
        if let Some(timing) = &mut self.timing {
            timing.drain();
        }
        if !self.phases.is_empty() {
            self.phases.push(self.counters());
        }
        Ok(ended)
    }

    /// The measured part with a loss of power behind request `cut`.
    fn replay_with_cut(
        &mut self,
        cut: u64,
        total: u64,
        on_progress: OnProgress<'_>,
    ) -> Result<Ended, ReplayError> {
        let ended = self.pump(Some(cut), cut, Phase::Replay, on_progress)?;
        if ended.is_some() {
            return Ok(ended);
        }
        self.recovery = Some(self.recover()?);
        self.pump(Some(total - cut), total - cut, Phase::Replay, on_progress)
    }

    /// Executes requests up to `limit`, or to the end of the input, of which `total` are expected: the survey stops at
    /// damage, so only reading on tells whether the input really ends there.
    fn pump(
        &mut self,
        limit: Option<u64>,
        total: u64,
        phase: Phase,
        on_progress: OnProgress<'_>,
    ) -> Result<Ended, ReplayError> {
        let mut batch: Vec<Request> = vec![Request::default(); BATCH];
        let series_every = total.div_ceil(SERIES_POINTS).max(1);
        let limit = limit.unwrap_or(u64::MAX);
        let (mut done, mut sample_at) = (0, series_every);
        while done < limit {
            let wanted = (limit - done).min(BATCH as u64) as usize;
            let (read, damage) = self.read_batch(&mut batch[..wanted]);
            self.device.ftl().warm(&self.upcoming, &self.upcoming_contents);
            for request in &batch[..read] {
                if let Err(error) = self.execute(request) {
                    return Ok(Some(error.to_string()));
                }
                done += 1;
                self.measured += 1;
                if done == sample_at {
                    sample_at += series_every;
                    self.sample();
                }
            }
            if let Some(damage) = damage {
                return if done + self.aged == 0 { Err(damage.into()) } else { Ok(Some(damage.to_string())) };
            }
            if read < wanted {
                return Ok(None);
            }
            if done % REPORT_EVERY < BATCH as u64 && on_progress(Progress { phase, done, total }).is_break() {
                return Ok(Some("interrupted".into()));
            }
        }
        Ok(None)
    }

    /// Reads and prepares requests, and notes what the device should look up before it executes them: the memory
    /// accesses of the batch then overlap.
    fn read_batch(&mut self, batch: &mut [Request]) -> (usize, Option<TraceError>) {
        let (read, damage) = self.read_requests(batch);
        let (batch, last) = (&mut batch[..read], self.device.ftl().logical_pages() as u64 - 1);
        if self.looks_at_content {
            let writes = batch.iter().filter(|request| request.op == Op::Write && request.content.is_empty());
            self.content.warm(writes.map(|request| request.pages().start));
        }
        self.upcoming.clear();
        self.upcoming_contents.clear();
        for request in batch {
            self.prepare(request);
            if request.op == Op::Write {
                self.upcoming.push(Lpn((request.offset_bytes >> self.page_shift).min(last) as u32));
            }
        }
        (read, damage)
    }

    /// Fills a batch, to the end of the input or to its damage.
    fn read_requests(&mut self, batch: &mut [Request]) -> (usize, Option<TraceError>) {
        for (k, request) in batch.iter_mut().enumerate() {
            match self.requests.next(request) {
                Ok(true) => {}
                Ok(false) => return (k, None),
                Err(error) => return (k, Some(error)),
            }
        }
        (batch.len(), None)
    }

    /// What is done to a request before it is executed: content where it lacks some, dense addresses.
    #[inline]
    fn prepare(&mut self, request: &mut Request) {
        if self.looks_at_content {
            self.give_content(request);
        }
        if self.compacts
            && let Some(footprint) = &self.plan.survey.footprint
        {
            footprint.compact(request);
        }
    }

    /// Content from the model for a write that comes without, drawn when the request is read, in order.
    fn give_content(&mut self, request: &mut Request) {
        match request.op {
            Op::Write if request.content.is_empty() && request.bytes.is_empty() => {
                self.content.fill(request.pages(), &mut request.content);
            }
            Op::Trim | Op::Zero => self.content.forget(request.whole_pages()),
            Op::Remap(mode) => self.content.remap(request.pages(), request.source_pages(), mode),
            _ => {}
        }
        if request.op == Op::Write {
            self.upcoming_contents.extend(request.content.first().map(|content| content.fingerprint));
        }
    }

    fn execute(&mut self, request: &Request) -> Result<(), Error> {
        let time_ns = request.time_ns;
        if self.first_ns.is_none() {
            (self.first_ns, self.clock.previous_trace_ns) = (Some(time_ns), time_ns);
        }
        self.last_ns = time_ns;
        if request.op == Op::Phase {
            self.phases.push(self.counters());
            return Ok(());
        }
        if self.timing.is_some() {
            self.arrive(time_ns)?;
        }
        if self.managed.is_some() {
            self.hold_back(request)?;
        }
        let kind = self.perform(request)?;
        if let Some(timing) = &mut self.timing {
            let work = self.device.ftl().stats().work;
            let price = || self.plan.config.timing.price(&work.since(&self.work_before));
            let priced = if self.looks_at_content { price() } else { ControllerWork::default() };
            self.work_before = work;
            timing.submit_with_work(kind, self.clock.arrival_ns, priced, self.device.ops());
            self.device.ftl_mut().store_mut().ops.clear();
        }
        Ok(())
    }

    /// Sets the arrival time of the next request, after the idle work that fits before it.
    fn arrive(&mut self, trace_ns: u64) -> Result<(), Error> {
        let timing = self.timing.as_mut().expect("arrival needs a timing engine");
        let config = &self.plan.config.replay;
        let scale = config.time_scale.unwrap_or(1.0);
        let scaled =
            |ns: u64| if (scale - 1.0).abs() < f64::EPSILON { ns } else { (ns as f64 * scale) as u64 };
        let gap = scaled(trace_ns.saturating_sub(self.clock.previous_trace_ns));
        self.clock.previous_trace_ns = trace_ns;
        let depth = match config.arrival {
            Arrival::Open => usize::MAX,
            Arrival::Closed => config.queue_depth.unwrap_or(32) as usize,
            Arrival::Think => 1,
        };
        let before = self.clock.arrival_ns;
        // What needs no flash operation completes when it arrives and is not reported.
        self.clock.completed_ns = self.clock.completed_ns.max(before);
        while timing.outstanding() >= depth {
            let Some(completed) = timing.complete_one() else { break };
            self.clock.completed_ns = completed;
        }
        self.clock.arrival_ns = match config.arrival {
            Arrival::Open => scaled(trace_ns.saturating_sub(self.first_ns.unwrap_or(0))),
            Arrival::Closed => self.clock.completed_ns.max(timing.now_ns()),
            Arrival::Think => self.clock.completed_ns + gap,
        };
        self.clock.arrival_ns = self.clock.arrival_ns.max(before);
        self.collect_while_idle(before)
    }

    /// Content schemes are managed in the design that has them; throttling needs none.
    fn is_managed(&self, options: &LifetimeOptions) -> bool {
        options.choice == Choice::Algorithm && (options.schemes.is_empty() || self.has_schemes)
    }

    /// Lets time pass until the request may start, if lifetime management holds it back.
    fn hold_back(&mut self, request: &Request) -> Result<(), Error> {
        let (Some(managed), Some(timing)) = (&mut self.managed, &mut self.timing) else { return Ok(()) };
        let zeroes_are_written = self.plan.config.replay.zeroes == Zeroes::Write;
        let is_write = request.op == Op::Write || request.op == Op::Zero && zeroes_are_written;
        let arrival_ns = self.clock.arrival_ns.max(timing.now_ns());
        let start_ns = managed.start_ns(&mut self.device, arrival_ns, is_write)?;
        if start_ns > arrival_ns {
            timing.submit_background(start_ns, &[]);
            self.clock.completed_ns = self.clock.completed_ns.max(start_ns);
        }
        Ok(())
    }

    /// Background GC in the gap since the last arrival, as far as its operations fit: from the time on when the device had
    /// answered every request.
    fn collect_while_idle(&mut self, since_ns: u64) -> Result<(), Error> {
        if self.plan.resolved.gc.background_blocks == 0 {
            return Ok(());
        }
        let until_ns = self.clock.arrival_ns;
        let timing = self.timing.as_mut().expect("arrival needs a timing engine");
        if !timing.complete_until(until_ns) {
            return Ok(());
        }
        let since_ns = since_ns.max(timing.now_ns());
        let mut idle_ns = until_ns.saturating_sub(since_ns);
        let flash = self.plan.resolved.timing;
        let cost = |kind| match kind {
            OpKind::Read => flash.read_ns,
            OpKind::Program => flash.program_ns,
            OpKind::Erase => flash.erase_ns,
        };
        let dies = self.plan.resolved.geometry.dies() as u64;
        while idle_ns > flash.erase_ns && self.device.ftl_mut().collect_in_background()? {
            let busy_ns: u64 = self.device.ops().iter().map(|op| cost(op.kind)).sum();
            if let Some(timing) = &mut self.timing {
                timing.submit_background(since_ns, self.device.ops());
            }
            self.device.ftl_mut().store_mut().ops.clear();
            idle_ns = idle_ns.saturating_sub(busy_ns / dies);
        }
        Ok(())
    }

    #[inline]
    fn perform(&mut self, request: &Request) -> Result<RequestKind, Error> {
        if let Some((lpn, descriptor)) = self.as_page_write(request) {
            return self.device.write_page(lpn, descriptor).map(|()| RequestKind::Write);
        }
        self.perform_any(request)
    }

    /// A write that covers exactly one page: the bulk of most runs, spared the way through sectors.
    #[inline]
    fn as_page_write(&self, request: &Request) -> Option<(Lpn, Descriptor)> {
        let plain = request.op == Op::Write
            && request.len_bytes == self.page_bytes
            && request.offset_bytes & (self.page_bytes - 1) == 0
            && request.offset_bytes < self.exported_bytes
            && request.bytes.is_empty();
        let descriptor = match (self.looks_at_content, &request.content[..]) {
            (false, _) => Descriptor::of(Fingerprint::ZERO_PAGE),
            (true, [one]) if self.page_bytes == PAGE_BYTES => *one,
            _ => return None,
        };
        plain.then_some((Lpn((request.offset_bytes >> self.page_shift) as u32), descriptor))
    }

    fn perform_any(&mut self, request: &Request) -> Result<RequestKind, Error> {
        let (offset, len) = Self::sectors_of(request);
        match request.op {
            Op::Read => self.read(offset, len).map(|()| RequestKind::Read),
            Op::Write => self.write(request, offset, len).map(|()| RequestKind::Write),
            Op::Zero if self.plan.config.replay.zeroes == Zeroes::Write => {
                self.descriptors.clear();
                let pages = len.div_ceil(self.page_bytes) as usize + 1;
                self.descriptors.resize(pages, Descriptor::of(Fingerprint::ZERO_PAGE));
                self.write_descriptors(offset, len).map(|()| RequestKind::Write)
            }
            Op::Trim | Op::Zero => self.device.trim(offset, len).map(|()| RequestKind::Trim),
            Op::Flush => self.device.flush().map(|()| RequestKind::Flush),
            Op::Remap(mode) => {
                self.remapped_pages += len / self.page_bytes;
                self.device.remap(offset, request.source_bytes, len, mode).map(|()| RequestKind::Write)
            }
            Op::Phase => unreachable!("a phase asks nothing of the device"),
        }
    }

    /// The request in whole sectors: traces may name single bytes.
    fn sectors_of(request: &Request) -> (u64, u64) {
        if request.len_bytes == 0 {
            return (0, 0);
        }
        let start = request.offset_bytes / SECTOR_BYTES * SECTOR_BYTES;
        (start, request.end_bytes().div_ceil(SECTOR_BYTES) * SECTOR_BYTES - start)
    }

    /// With real bytes a read takes them, as a host's does: a mechanism may use what was read (merging a delta).
    fn read(&mut self, offset: u64, len: u64) -> Result<(), Error> {
        let wanted = if self.device.ftl().store().nand().keeps_bytes() { len as usize } else { 0 };
        self.bytes_read.resize(wanted, 0);
        self.device.read(offset, len, &mut self.bytes_read)
    }

    fn write(&mut self, request: &Request, offset: u64, len: u64) -> Result<(), Error> {
        if !request.bytes.is_empty() {
            return self.device.write(offset, len, wearwell::device::HostData::Bytes(&request.bytes));
        }
        self.descriptors.clear();
        if !self.looks_at_content || request.content.is_empty() {
            self.descriptors.push(Descriptor::of(Fingerprint::ZERO_PAGE));
            return self.write_descriptors(offset, len);
        }
        self.descriptors.extend_from_slice(&request.content);
        if self.page_bytes != PAGE_BYTES {
            self.regroup(offset, len);
        }
        self.write_descriptors(offset, len)
    }

    fn write_descriptors(&mut self, offset: u64, len: u64) -> Result<(), Error> {
        self.device.write(offset, len, wearwell::device::HostData::Descriptors(&self.descriptors))
    }

    /// Turns descriptors of 4-KiB pages into descriptors of the device's pages: larger pages mix the identities of
    /// their parts, smaller ones split them.
    fn regroup(&mut self, offset: u64, len: u64) {
        let small = std::mem::take(&mut self.descriptors);
        let first_small = offset / PAGE_BYTES;
        let pages = offset / self.page_bytes..(offset + len).div_ceil(self.page_bytes);
        for page in pages {
            let (start, end) = (page * self.page_bytes, (page + 1) * self.page_bytes);
            let covered = start.max(offset) / PAGE_BYTES..end.min(offset + len).div_ceil(PAGE_BYTES);
            let parts =
                covered.map(|k| small[((k - first_small) as usize).min(small.len() - 1)].fingerprint.0);
            let parts: Vec<u64> = parts.collect();
            let zero = parts.iter().all(|&part| part == 0);
            let within = if self.page_bytes < PAGE_BYTES { Some(start % PAGE_BYTES) } else { None };
            let identity = if zero {
                Fingerprint::ZERO_PAGE
            } else {
                Fingerprint::combine(parts.into_iter().chain(within))
            };
            self.descriptors.push(Descriptor::of(identity));
        }
    }

    fn sample(&mut self) {
        let counters = self.counters();
        self.series.push(counters);
    }

    fn counters(&self) -> SeriesPoint {
        let ftl = self.device.ftl();
        let stats = ftl.stats();
        SeriesPoint {
            requests: self.measured,
            host_page_writes: stats.host_page_writes,
            host_page_remaps: self.remapped_pages,
            programs: stats.total_programs(),
            erases: stats.total_erases(),
            recycled_writes: stats.recycled_writes,
            free_blocks: ftl.store().total_free_blocks(),
            device_s: self.timing.as_ref().map_or(0.0, |timing| timing.now_ns() as f64 / 1e9),
        }
    }

    /// Power is lost behind the last request.
    fn recover(&mut self) -> Result<RecoveryRecord, ReplayError> {
        let costs = RecoveryCosts::of(&self.plan.resolved.timing);
        let before = self.device.ftl().stats().clone();
        let report = self.device.recover()?;
        let stats = self.device.ftl().stats();
        let spare_reads = stats.total_spare_reads() - before.total_spare_reads();
        let total = StepCost {
            spare_reads,
            page_reads: stats.total_reads() - before.total_reads() - spare_reads,
            programs: stats.total_programs() - before.total_programs() - report.battery_programs,
        };
        let steps = report.steps.by_name().into_iter().filter(|(_, cost)| *cost != StepCost::default());
        Ok(RecoveryRecord {
            total: costs.price(&total),
            battery_programs: report.battery_programs,
            steps: steps.map(|(name, cost)| (name.to_owned(), costs.price(&cost))).collect(),
        })
    }

    fn record(&mut self, design: &str, ended: Ended) -> RunRecord {
        let stats = self.device.ftl().stats().clone();
        let ram = self.device.ram_bytes();
        let host_writes = stats.host_page_writes;
        RunRecord {
            design: design.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: self.plan.config.seed(),
            partial: ended.is_some(),
            partial_reason: ended,
            trace: self.trace_record(),
            device: self.device_record(),
            host_page_writes: host_writes,
            host_page_reads: stats.host_page_reads,
            host_page_trims: stats.host_page_trims,
            host_page_remaps: self.remapped_pages,
            buffer_absorbed_writes: self.device.absorbed_writes() - self.absorbed_before,
            recycled_writes: stats.recycled_writes,
            writes_by_form: writes_by_form(&stats),
            write_reduction: write_reduction(&stats),
            programs: stats.total_programs(),
            programs_by_cause: by_cause(&stats.programs),
            reads: stats.total_reads(),
            reads_by_cause: by_cause(&stats.reads),
            spare_reads_by_cause: by_cause(&stats.spare_reads),
            erases: stats.total_erases(),
            erases_by_cause: by_cause(&stats.erases),
            write_amplification: stats.write_amplification(),
            latency_us: self.latency_record(),
            timing: self.time_record(),
            lifetime: self.lifetime_record(),
            parts: self.part_figures(),
            ram_bytes: ram.iter().map(|(_, bytes)| bytes).sum(),
            ram_bytes_by_structure: ram.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect(),
            notes: self.notes(),
            series: std::mem::take(&mut self.series),
            phases: std::mem::take(&mut self.phases),
            recovery: self.recovery.take(),
            peak_rss_bytes: 0,
            cpu_seconds: 0.0,
            precondition_cpu_seconds: 0.0,
            config: self.plan.config.clone(),
        }
    }

    fn trace_record(&self) -> TraceRecord {
        TraceRecord {
            path: self.plan.input.name(),
            sha256: self.plan.sha256.clone(),
            requests: self.measured,
            aging_requests: self.aged,
            rejected: self.requests.rejected(),
            footprint_pages: self.plan.survey.footprint_pages,
            duration_s: self.duration_s(),
        }
    }

    fn duration_s(&self) -> f64 {
        self.last_ns.saturating_sub(self.first_ns.unwrap_or(0)) as f64 / 1e9
    }

    fn device_record(&self) -> DeviceRecord {
        let Resolved { preset, geometry, endurance_cycles, logical_pages, gc, .. } = &self.plan.resolved;
        DeviceRecord {
            preset: preset.clone(),
            layout: [
                geometry.channels,
                geometry.dies_per_channel,
                geometry.planes_per_die,
                geometry.blocks_per_plane,
                geometry.pages_per_block,
            ],
            superblock_planes: geometry.superblock_planes,
            page_bytes: geometry.page_bytes,
            physical_pages: geometry.pages(),
            logical_pages: *logical_pages as u64,
            over_provisioning: geometry.pages() as f64 / *logical_pages as f64 - 1.0,
            gc_low_blocks: gc.low_blocks,
            endurance_cycles: *endurance_cycles,
        }
    }

    fn latency_record(&self) -> LatencyRecord {
        let Some(timing) = &self.timing else { return LatencyRecord::default() };
        let summary = |kind| LatencySummary::of(timing.latency(kind)).into();
        LatencyRecord { read: summary(RequestKind::Read), write: summary(RequestKind::Write) }
    }

    fn time_record(&self) -> TimeRecord {
        let Some(timing) = &self.timing else {
            return TimeRecord { mode: "none".into(), ..TimeRecord::default() };
        };
        let now = timing.now_ns().max(1) as f64;
        let share = |busy: Vec<u64>| busy.iter().sum::<u64>() as f64 / (busy.len().max(1) as f64 * now);
        TimeRecord {
            mode: format!("{:?}", self.plan.config.timing.mode).to_lowercase(),
            device_s: now / 1e9,
            array_utilisation: share(timing.array_busy_ns()),
            channel_utilisation: share(timing.channel_busy_ns()),
        }
    }

    fn lifetime_record(&self) -> LifetimeRecord {
        let mut record =
            lifetime::record(&self.device, self.plan.resolved.endurance_cycles, self.elapsed_s());
        if let Some(managed) = &self.managed {
            managed.report(&mut record);
        }
        record.energy_uj_per_page = self.energy_uj() / record_pages(self.device.ftl().stats());
        record
    }

    /// The time that the measured part took: the trace's, or the device's where arrival depends on completions. Writes
    /// that are not paid for yet take the time until the next one could start.
    fn elapsed_s(&self) -> f64 {
        let Some(timing) = &self.timing else { return self.duration_s() };
        if self.plan.config.replay.arrival == Arrival::Open {
            return self.duration_s();
        }
        let now_ns = timing.now_ns();
        let owed_ns = self.managed.as_ref().map_or(0, |managed| managed.owed_ns(&self.device, now_ns));
        (now_ns + owed_ns) as f64 / 1e9
    }

    fn energy_uj(&self) -> f64 {
        let energy = self.plan.config.lifetime.energy();
        let stats = self.device.ftl().stats();
        let in_programs = stats.total_programs() as f64
            + stats.work.hashed_pages as f64 * energy.dedup_overhead()
            + stats.work.compressed_pages as f64 * energy.compression_overhead();
        in_programs * energy.program.energy_pj() as f64 / 1e6
    }

    fn part_figures(&self) -> std::collections::BTreeMap<String, f64> {
        let ftl = self.device.ftl();
        let mut figures = std::collections::BTreeMap::new();
        let mut add = |name: &str, value: f64| {
            figures.insert(name.to_owned(), value);
        };
        if let Some(recycle) = ftl.recycle() {
            let counts = recycle.statistics();
            add("store_entries", recycle.store_len() as f64);
            add("store_hits", counts.hits as f64);
            add("store_misses", counts.misses as f64);
            add("mean_comparisons_on_hit", counts.mean_comparisons_on_hit().unwrap_or(0.0));
        }
        if let AnyMapping::Cached(cached) = ftl.mapping() {
            let counts = cached.counts();
            add("cache_hits", counts.hits as f64);
            add("cache_misses", counts.misses as f64);
            add("synchronisations", counts.synchronisations as f64);
            add("dirty_inserts", counts.dirty_inserts as f64);
            add("checkpoint_synchronisations", counts.checkpoint_synchronisations as f64);
            add("aborted_synchronisations", counts.aborted_synchronisations as f64);
            add("uncertain_spare_reads", counts.uncertain_reads as f64);
            add("cache_entries", f64::from(cached.options().entries));
            add("translation_pages", cached.translation_pages() as f64);
        }
        match ftl.validity() {
            AnyValidity::Ram(_) => {}
            AnyValidity::Bitmap(bitmap) => add("bitmap_pages", f64::from(bitmap.bitmap_pages())),
            AnyValidity::Log(log) => {
                add("log_pages", f64::from(log.pages_held()));
                add("log_page_entries", f64::from(log.page_entries()));
                add("log_reports", log.counts().reports as f64);
                add("log_reinserted", log.counts().reinserted as f64);
            }
            AnyValidity::Gecko(gecko) => {
                let counts = gecko.counts();
                add("gecko_reports", counts.reports as f64);
                add("gecko_markers", counts.markers as f64);
                add("gecko_queries", counts.queries as f64);
                add("gecko_query_reads", counts.query_reads as f64);
                add("gecko_levels", f64::from(gecko.levels()));
                add("gecko_buffer_entries", f64::from(gecko.buffer_entries()));
                add("gecko_runs", gecko.runs().count() as f64);
                add("gecko_pages", gecko.runs().map(|(_, _, pages)| f64::from(pages)).sum());
                add("gecko_largest_run_pages", f64::from(gecko.largest_run_pages()));
            }
        }
        let stats = ftl.stats();
        add("demoted_saturated", stats.demoted_saturated as f64);
        add("demoted_full", stats.demoted_full as f64);
        add("bound_pages_by_remap", stats.remapped_pages as f64);
        add("collections", stats.gc_victims as f64);
        add("collections_of_deltas", stats.gc_delta_victims as f64);
        add("collections_of_metadata", stats.gc_metadata_victims as f64);
        add("translation_copies", stats.gc_translation_copies as f64);
        add("validity_copies", stats.gc_validity_copies as f64);
        add("metadata_blocks", f64::from(ftl.store().blocks().metadata_blocks()));
        add("referrer_scan_bytes", stats.referrer_scan_bytes as f64);
        add("largest_group_bytes", stats.largest_referrer_scan_bytes as f64);
        add("nvram_written_bytes", stats.work.nvram_written_bytes as f64);
        add("nvram_read_bytes", stats.work.nvram_read_bytes as f64);
        if let Some(counts) = ftl.delta_statistics() {
            add("delta_pages_committed", counts.committed_pages as f64);
            add("deltas_committed", counts.committed_deltas as f64);
            add("delta_pages_compacted", counts.compacted_pages as f64);
            add("merges_read_hot", counts.read_hot_merges as f64);
            add("merges_write_cold", counts.write_cold_merges as f64);
            add("merges_gc", counts.gc_merges as f64);
            add("deltas_bypassed", counts.bypassed as f64);
            add("deltas_incompressible", counts.incompressible as f64);
            add("double_reads", counts.double_reads as f64);
        }
        if let Some(counts) = ftl.chunk_statistics() {
            add("chunks", counts.chunks as f64);
            add("chunk_members", counts.members as f64);
            add("chunk_pages", counts.pages as f64);
            add("chunk_incompressible_pages", counts.incompressible as f64);
            add("chunks_repacked", counts.repacked as f64);
            add("chunks_unpacked", counts.unpacked as f64);
        }
        figures.retain(|_, value| *value != 0.0);
        figures
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.looks_at_content && self.plan.survey.lacks_content {
            notes
                .push(format!("figures that depend on content rest on a model: {}", self.content.describe()));
        }
        if let Requests::Host(generator) = &self.requests {
            notes.push(format!("requests come from a host model; {}", generator.describe_content()));
        }
        if self.compacts {
            notes.push("addresses are compacted: only touched pages exist, in order".to_owned());
        }
        if self.plan.config.timing.engine() == TimingMode::Timeline {
            notes.push(
                "timelines price operations in order: latencies under GC are not meaningful".to_owned(),
            );
        }
        notes
    }
}

fn record_pages(stats: &Stats) -> f64 {
    stats.host_page_writes.max(1) as f64
}

/// Host page writes by what became of them; forms without any are absent.
fn writes_by_form(stats: &Stats) -> std::collections::BTreeMap<String, u64> {
    let without_page = [
        ("recycled", stats.recycled_writes),
        ("deduplicated", stats.deduplicated_writes),
        ("delta", stats.delta_writes),
        ("packed", stats.packed_writes),
    ];
    let pages = stats.host_page_writes - without_page.iter().map(|(_, count)| count).sum::<u64>();
    let forms = without_page.into_iter().chain([("page", pages)]).filter(|&(_, count)| count > 0);
    forms.map(|(form, count)| (form.to_owned(), count)).collect()
}

/// Share of host page writes that cost no program: `(n - m) / n`, where m counts the programs made for host data,
/// packed pages included, and not those of garbage collection (LX, section V-B).
fn write_reduction(stats: &Stats) -> f64 {
    let programs = stats.programs[Cause::Host as usize] + stats.programs[Cause::Content as usize];
    1.0 - programs as f64 / record_pages(stats)
}

impl Plan<'_> {
    /// Bad blocks drawn by the seed.
    fn factory_bad(&self) -> Vec<BlockId> {
        let share = self.config.device.factory_bad_share.unwrap_or(0.0).clamp(0.0, 0.2);
        let threshold = (share * u64::MAX as f64) as u64;
        let seed = self.config.seed();
        let is_bad = |block: &u32| share > 0.0 && mix(mix(seed) ^ *block as u64) < threshold;
        (0..self.resolved.geometry.blocks()).filter(is_bad).map(BlockId).collect()
    }
}
