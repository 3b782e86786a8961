//! The replay driver: replays one input on one design, from preconditioning to the run record.
//!
//! The hot loop reads requests in small batches and looks up the map entries of the whole batch before it executes it.
//! On devices larger than the CPU caches the first access to the map is the most expensive step of a write, and the
//! accesses of a batch overlap (a factor of two at 8 GB). All other decisions are made once per request, not per page.
//!
//! Time: in open loop requests arrive at the trace's times; in closed loop a fixed number is in flight; with think time
//! each request arrives its original gap after the previous completion. Without a timing engine the arrival mode has no
//! effect and the loop only counts. Throttled writes start later than they arrive (`lifetime.rs`).
//!
//! | file | what it decides |
//! |---|---|
//! | `plan.rs` | which device the input runs on, once for all designs |
//! | `mod.rs` | the order of phases: preconditioning, aging, the batches of the measured part |
//! | `prepared_input.rs` | how requests are read and prepared: contents, dense addresses |
//! | `batch.rs` | which requests of a batch are executed in one call |
//! | `arrival.rs` | when a request starts |
//! | `request_executor.rs` | which device calls a request becomes |
//! | `compressed_chunk_response_times.rs` | the response time of a write that is buffered for a compressed chunk |
//! | `life.rs` | when a drive has ended, if the input is repeated until then |
//! | `run_record.rs`, `part_figures.rs` | what the run record contains |
//! | `run_trace.rs` | which flash operations and requests a trace contains |
//! | `result_key.rs` | the key under which a finished result is stored |

mod arrival;
mod batch;
mod compressed_chunk_response_times;
mod life;
mod part_figures;
mod plan;
mod prepared_input;
mod request_executor;
mod result_key;
mod run_record;
mod run_trace;

use std::ops::ControlFlow::{self, Break, Continue};

use arrival::{ArrivalPace, RequestClock};
use compressed_chunk_response_times::{ChunkBufferTraffic, CompressedChunkResponseTimes};
pub use plan::{InputSurveyResults, Plan};
use prepared_input::{PreparedInput, UntouchedTrimCounts};
pub use request_executor::RequestExecutor;
use run_trace::RunTraceRecorder;
pub use run_trace::{FtlStateSample, MAX_TRACED_OPS_AND_REQUESTS, RunTrace, TraceWindow, WindowRequest};
use wearwell::data::{UnknownSizeCounts, mix_bits};
use wearwell::device::PartialWriteCounts;
use wearwell::lifetime::LifetimeOptions;
use wearwell::nand::{RetainedPageFields, SimNand};
use wearwell::stats::ControllerWorkCounts;
use wearwell::timing::{ControllerWork, RequestKind, TimingEngine, TimingMode, TimingOptions};
use wearwell::{Device, DeviceOptions, Error};
use wearwell_config::{Arrival, ConfigError, Mode, Precondition};
use wearwell_trace::{Op, Request, TraceError};

use crate::input::Input;
use crate::lifetime::LifetimeManagement;
use crate::precondition;
use crate::record::{RecoveryRecord, SeriesPoint};
use crate::steadiness::Steadiness;
use crate::timeline::TimelineRecorder;

/// Why a run could not start, or ended without a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An input (trace or workload) cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The device could not be built or preconditioned.
    #[error(transparent)]
    Device(#[from] Error),
    /// The specification of a content model is invalid.
    #[error("the content model (content.model) is refused, so correct it: {0}")]
    Content(String),
    /// The input has no requests, or writes nothing although it is to wear out a drive.
    #[error("{input}: the input has no requests{hint}; choose another input")]
    NoRequests {
        /// Name of the input.
        input: String,
        /// Hint how the input could be read so that it has requests, or the reason why it has none.
        hint: String,
    },
}

impl ReplayError {
    /// Whether the error is due to the configuration or the device, so that another device or design may succeed on the
    /// same input.
    pub fn is_due_to_configuration_or_device(&self) -> bool {
        matches!(self, Self::Config(_) | Self::Device(_))
    }
}

/// Phases of a run (one design on one input), or of a drive's life until the drive is worn out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunPhase {
    /// Preconditioning: bringing the device into its initial state.
    Precondition,
    /// Replay of requests that age the device before the measured part.
    Aging,
    /// Replay of the measured requests.
    Replay,
    /// Wearing out a drive by repeating the input; progress is counted in erases.
    Life,
}

/// Progress of a phase of the run, reported every few ten thousand requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The current phase of the run.
    pub phase: RunPhase,
    /// Number of requests executed in this phase of the run; page writes in [`RunPhase::Precondition`], erases in
    /// [`RunPhase::Life`].
    pub done_work_units: u64,
    /// Expected number of requests in this phase of the run; page writes in [`RunPhase::Precondition`], erases in
    /// [`RunPhase::Life`].
    pub total_work_units: u64,
}

/// Callback that receives the progress of a run; `Break` ends the run with a partial result.
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// Why a run ends whose input lasts longer than the time that the event engine can represent.
const EVENT_TIME_IS_OVER_REASON: &str = "the event engine represents 9.1 years of drive time, and the input lasts \
    longer: lower replay.time_scale, name the unit of the input's times when it is read, or choose timing.mode=timeline";

/// Number of requests that the replay reads ahead as one batch.
const REQUESTS_PER_BATCH: usize = 32;
/// Number of requests in a batch if all of them are page writes that one call of the FTL executes. It may exceed
/// [`REQUESTS_PER_BATCH`], because such a call does not depend on data that earlier requests left in the CPU cache.
const WRITES_PER_BATCH: usize = 128;
/// Number of requests between two reports of a run's progress.
const REQUESTS_PER_PROGRESS_REPORT: u64 = 1 << 16;
/// Largest number of points in a run's time series of counters.
const SERIES_POINTS_MAX: u64 = 200;

/// Reason why a phase of a run ended before the end of its input; `None` if the phase reached the end.
type EarlyEndReason = Option<String>;

/// Run of one design on one input, with its device, clock and counters.
struct Run<'a> {
    /// Input and device that the runs of all designs share.
    plan: &'a Plan<'a>,
    /// Simulated device on which the design runs.
    device: Device,
    /// Input of the run, read in batches of prepared requests.
    input: PreparedInput,
    /// Executor of all requests that are not writes of exactly one page.
    executor: RequestExecutor,
    /// Timing engine; `None` if the run only counts operations.
    timing: Option<TimingEngine>,
    /// Arrival time of the current request and completion time of the last request, nanoseconds.
    clock: RequestClock,
    /// Response times of writes that are buffered for compressed chunks; `None` without timing or on a design without
    /// such chunks.
    compressed_chunk_response_times: Option<CompressedChunkResponseTimes>,
    /// Recorder of single flash operations for a trace viewer; `None` unless the run is traced.
    trace_recorder: Option<RunTraceRecorder>,
    /// Options with which lifetime management starts at the measured part; `None` if it is off.
    lifetime_options: Option<LifetimeOptions>,
    /// Lifetime management during the measured part; `None` if the configuration does not enable it.
    lifetime_management: Option<LifetimeManagement>,
    /// Whether the design has a content mechanism that examines written pages.
    has_content_mechanisms: bool,
    /// Data bytes per page of the device.
    page_bytes: u64,
    /// Counts of the host's requests and their bytes in the measured part.
    host_request_counts: HostRequestCounts,
    /// Measurements that device counters do not contain: samples over time, counters per phase, and the recovery's
    /// cost.
    observations: RunObservations,
    /// Counters of the device before the measured part of the run, or before the current request; they are subtracted
    /// from the present counters.
    subtracted_counters: SubtractedCounters,
    /// Number of requests that aged the device before the measured part.
    aging_requests: u64,
}

/// Counts of the host's requests, and of their bytes and pages, since the end of the aging phase.
#[derive(Debug, Default)]
struct HostRequestCounts {
    /// Number of requests executed.
    requests: u64,
    /// Bytes of all write requests.
    written_bytes: u64,
    /// Bytes of all read requests.
    read_bytes: u64,
    /// Pages that the host requested to remap.
    remapped_pages: u64,
    /// Arrival time of the first request, as the input states it, nanoseconds; `None` before the first request.
    first_request_ns: Option<u64>,
    /// Latest arrival time of the requests so far, as the input states it, nanoseconds.
    latest_request_ns: u64,
    /// Number of requests whose time in the input lies before that of an earlier request.
    out_of_order_requests: u64,
    /// Number of requests of no bytes, apart from flushes.
    empty_requests: u64,
}

/// Observations of the run that the counters of the device do not contain.
#[derive(Debug, Default)]
struct RunObservations {
    /// How steady write amplification was during the random overwrites of preconditioning; `None` if there were no
    /// overwrites, or too few to judge.
    precondition_steadiness: Option<Steadiness>,
    /// Counters of the run, sampled after regular numbers of requests.
    series_points: Vec<SeriesPoint>,
    /// Counters at the start of each phase of the input except the first. At the end of the run, the counters at its
    /// end are added.
    phase_counters: Vec<SeriesPoint>,
    /// Recorder of the run's timeline; `None` unless the configuration asks for a timeline.
    timeline_recorder: Option<TimelineRecorder>,
    /// Cost of the recovery from a loss of power in the middle of the run; `None` if there was none.
    recovery: Option<RecoveryRecord>,
    /// Time at which the last request was answered, nanoseconds, without the background work after it.
    last_answer_ns: u64,
}

/// Counters of the device at an earlier moment. They are subtracted from later counters, to count what happened since
/// that moment.
#[derive(Debug, Default)]
struct SubtractedCounters {
    /// Total of the controller's work (hashing, deltas, compression) up to the current request.
    controller_work: ControllerWorkCounts,
    /// Page writes that the write buffer absorbed before the measured part of the run.
    buffer_absorbed_writes: u64,
    /// Writes of parts of pages before the measured part of the run.
    partial_write_counts: PartialWriteCounts,
    /// Page writes before the measured part of the run whose compressed size or delta size is unknown, although that of
    /// a part of the page is known.
    unknown_size_counts: UnknownSizeCounts,
    /// Number of pages before the measured part of the run that a trim request covered only in part.
    pages_partly_trimmed: u64,
    /// Number of requests before the measured part of the run whose arrival time lay before the start of the trace, so
    /// that the trace reader raised it to the start time.
    requests_clamped_to_start_time: u64,
    /// Trims before the measured part of the run that were left out because addresses are compacted.
    untouched_trim_counts: UntouchedTrimCounts,
}

impl<'a> Run<'a> {
    /// Builds the device of `design` for a run, and opens the input of the plan.
    fn new(plan: &'a Plan<'a>, design: &str) -> Result<Self, ReplayError> {
        let resolved = &plan.resolved_device;
        let parts = plan.config.design_parts(design, resolved)?;
        let carries_bytes = matches!(plan.input, Input::Trace { options, .. } if options.reads_payloads);
        let sequence = plan.config.recovery.has_power_loss();
        let generation = sequence && parts.content.delta.is_some();
        let packed = sequence && parts.recovery_reads_packed_pages();
        let retain = RetainedPageFields {
            keeps_data_bytes: carries_bytes,
            keeps_sequence_numbers: sequence,
            keeps_first_write_sequence_numbers: generation,
            keeps_packed_page_bytes: packed,
            ..parts.needed_retained_page_fields()
        };
        let mut nand = SimNand::new(resolved.geometry.clone(), retain)
            .with_nvram(parts.total_nvram_bytes(&resolved.geometry, resolved.logical_pages))
            .with_factory_bad_blocks(plan.config.factory_bad_blocks(&resolved.geometry));
        if plan.config.device.wear_out == Some(true) {
            nand = nand.with_endurance(resolved.endurance_cycles);
        }
        let options = DeviceOptions { buffer: plan.config.write_buffer_options(&resolved.geometry) };
        let mut device =
            Device::new(nand, resolved.logical_pages, &parts, options).map_err(to_config_error)?;
        device.ftl_mut().store_mut().set_striping(plan.config.striping_name().into());
        device.ftl_mut().set_user_victim_policy(plan.user_policy.clone());
        Ok(Self {
            has_content_mechanisms: device.ftl().has_content_mechanisms(),
            page_bytes: resolved.geometry.page_bytes as u64,
            input: PreparedInput::open(plan, &device)?,
            timing: None,
            lifetime_management: None,
            compressed_chunk_response_times: None,
            trace_recorder: None,
            lifetime_options: plan.config.lifetime_options(design, &parts.content),
            clock: RequestClock::new(
                ArrivalPace::new(&plan.config.replay, plan.arrival_mode()),
                plan.config.lifetime.is_throttling(),
            ),
            executor: RequestExecutor::of_device(&device, plan.config.replay.zeroes),
            host_request_counts: HostRequestCounts::default(),
            observations: RunObservations::default(),
            subtracted_counters: SubtractedCounters::default(),
            aging_requests: 0,
            plan,
            device,
        })
    }

    /// Brings the device into the initial state that the configuration sets, and clears the counters.
    fn precondition(&mut self, on_progress: OnProgress<'_>) -> Result<EarlyEndReason, ReplayError> {
        let config = &self.plan.config.precondition;
        let seed = mix_bits(self.plan.config.seed());
        let device = &mut self.device;
        let mut step = |done, total| {
            on_progress(Progress {
                phase: RunPhase::Precondition,
                done_work_units: done,
                total_work_units: total,
            })
        };
        let capacities = config.overwrites_in_physical_capacities();
        let flow = match config.mode {
            Precondition::Aged if config.filled == Some(true) => {
                precondition::fill_sequentially(device, &mut step)?
            }
            Precondition::None | Precondition::Aged => Continue(()),
            Precondition::Fill => precondition::fill_sequentially(device, &mut step)?,
            Precondition::Steady => {
                let flow = precondition::write_to_steady_state(device, capacities, seed, &mut step)?;
                flow.map_continue(|settled| self.observations.precondition_steadiness = Some(settled))
            }
            Precondition::Random => precondition::overwrite_at_random(device, capacities, seed, &mut step)?,
            Precondition::Constructed => {
                precondition::construct_steady_state_and_overwrite(device, capacities, seed, &mut step)?
            }
            Precondition::InUse => {
                let flow = precondition::bring_into_used_state(device, capacities, seed, &mut step)?;
                flow.map_continue(|settled| self.observations.precondition_steadiness = settled)
            }
        };
        device.ftl_mut().reset_page_access_counts();
        let ended = match (flow, config.mode) {
            (Break(()), _) => Some("interrupted before the first measured request".into()),
            (Continue(()), Precondition::Aged) => self.age_device(on_progress)?,
            (Continue(()), _) => None,
        };
        if ended.is_none() {
            self.remap_pages_at_random(on_progress)?;
        }
        if !self.plan.config.buffer.keep_at_end {
            self.device.write_out_buffer()?;
        }
        // Last, because pages of the write buffer may join those that await compression.
        precondition::flush_if_pages_await_compression(&mut self.device)?;
        self.device.ftl_mut().clear_stats();
        self.subtracted_counters.controller_work = ControllerWorkCounts::default();
        self.subtracted_counters.buffer_absorbed_writes = self.device.absorbed_writes();
        self.subtracted_counters.partial_write_counts = self.device.partial_write_counts();
        self.subtracted_counters.pages_partly_trimmed = self.executor.pages_partly_trimmed();
        self.subtracted_counters.unknown_size_counts = self.unknown_size_counts_so_far();
        Ok(ended)
    }

    /// Executes random remaps until the reverse map is filled to the share `precondition.bound_share`; does nothing
    /// without that setting.
    fn remap_pages_at_random(&mut self, on_progress: OnProgress<'_>) -> Result<(), ReplayError> {
        let config = self.plan.config;
        let Some(share) = config.precondition.bound_share else { return Ok(()) };
        let entries =
            config.remap.reverse_map_capacity_entries(&self.plan.resolved_device.geometry) as f64 * share;
        let mut step = |done, total| {
            on_progress(Progress {
                phase: RunPhase::Precondition,
                done_work_units: done,
                total_work_units: total,
            })
        };
        // An interruption is noticed in the next phase.
        let _ = precondition::remap_random_pages(
            &mut self.device,
            entries as u64,
            mix_bits(mix_bits(config.seed())),
            &mut step,
        )?;
        Ok(())
    }

    /// Ages the device with another trace, or with the first part of the input.
    fn age_device(&mut self, on_progress: OnProgress<'_>) -> Result<EarlyEndReason, ReplayError> {
        let ended = if let Some(input) = &self.plan.aging_input {
            let measured = std::mem::replace(&mut self.input.request_reader, input.open()?);
            let ended = self.execute_requests(
                0,
                None,
                self.plan.survey.aging_requests,
                RunPhase::Aging,
                on_progress,
            )?;
            self.input.request_reader = measured;
            ended
        } else {
            let share = self.plan.config.precondition.aging_share_of_requests();
            let count = (self.plan.survey.requests as f64 * share) as u64;
            self.execute_requests(0, Some(count), count, RunPhase::Aging, on_progress)?
        };
        self.aging_requests = std::mem::take(&mut self.host_request_counts).requests;
        self.observations.series_points.clear();
        self.observations.phase_counters.clear();
        self.subtracted_counters.requests_clamped_to_start_time =
            self.input.request_reader.requests_clamped_to_start_time();
        self.subtracted_counters.untouched_trim_counts = self.input.untouched_trim_counts;
        Ok(ended)
    }

    /// Replays the measured part of the input: the requests after preconditioning and aging.
    fn replay_measured_part(&mut self, on_progress: OnProgress<'_>) -> Result<EarlyEndReason, ReplayError> {
        let config = self.plan.config;
        if config.timing.timing_mode() != TimingMode::None {
            let resolved = &self.plan.resolved_device;
            let is_open_loop = self.plan.arrival_mode() == Arrival::Open;
            self.compressed_chunk_response_times =
                self.device.ftl().compression_statistics().map(|_| CompressedChunkResponseTimes::default());
            let keeps_completions = self.needs_completions();
            let trace = self.trace_recorder.is_some();
            let options = TimingOptions {
                is_open_loop,
                keeps_completions,
                records_trace: trace,
                ..self.plan.timing_options()
            };
            self.timing = Some(TimingEngine::new(
                config.timing.timing_mode(),
                &resolved.geometry,
                resolved.flash_timing,
                options,
            ));
            self.device.ftl_mut().store_mut().flash_ops.set_op_recording(true);
            self.device.ftl_mut().store_mut().flash_ops.set_op_page_recording(trace);
        }
        let endurance_cycles = self.plan.resolved_device.endurance_cycles;
        let options = self.lifetime_options.take();
        self.lifetime_management =
            options.map(|options| LifetimeManagement::new(options, &self.device, endurance_cycles));
        self.start_timeline();
        self.sample_timeline(&self.current_counters());
        let aged = if self.plan.aging_input.is_some() { 0 } else { self.aging_requests };
        let left = self.plan.survey.requests.saturating_sub(aged);
        let limit = config.replay.requests;
        let total = limit.map_or(left, |limit| limit.min(left));
        if let Some(cut) = config.recovery.after_requests.filter(|&cut| cut > total) {
            return Err(ConfigError::InvalidValue(format!(
                "recovery.after_requests is {cut}, but the number of replayed requests is only {total}: lower \
                 recovery.after_requests to at most {total}"
            ))
            .into());
        }
        let ended = match config.recovery.after_requests {
            Some(cut) => self.replay_with_power_cut(cut, limit, total, on_progress)?,
            None => self.execute_requests(0, limit, total, RunPhase::Replay, on_progress)?,
        };
        if let Some(timing) = &mut self.timing {
            timing.complete_requests_until(u64::MAX);
            self.observations.last_answer_ns = timing.now_ns();
            timing.run_to_completion_ns();
            self.take_completions();
        }
        let ended = ended.or(self.write_out_buffer_at_end());
        if let (Some(tape), Some(timing)) = (&mut self.trace_recorder, &mut self.timing) {
            tape.add_timing_trace(timing.take_trace());
        }
        if !self.observations.phase_counters.is_empty() {
            self.observations.phase_counters.push(self.current_counters());
        }
        Ok(ended)
    }

    /// Writes out the write buffer after the last request: the host wrote these pages, so their programs and the time
    /// of their programs are part of the run. Does nothing if power is lost after the last request, or if
    /// `buffer.keep_at_end` is set.
    fn write_out_buffer_at_end(&mut self) -> EarlyEndReason {
        let config = self.plan.config;
        let is_kept = config.buffer.keep_at_end || config.recovery.after_run;
        if is_kept || self.device.buffered_pages() == 0 {
            return None;
        }
        let emptied = self.device.write_out_buffer();
        self.submit_background_ops(self.timing.as_ref().map_or(0, TimingEngine::now_ns));
        if let Some(timing) = &mut self.timing {
            timing.run_to_completion_ns();
        }
        if self
            .observations
            .series_points
            .pop_if(|last| last.requests == self.host_request_counts.requests)
            .is_some()
        {
            self.observations.series_points.push(self.current_counters());
        }
        emptied.err().map(|error| error.to_string())
    }

    /// Passes to the timing engine, if there is one, the flash operations that the device has executed since the last
    /// request. They count as work for which no request waits, and can start at `at_ns` (nanoseconds).
    fn submit_background_ops(&mut self, at_ns: u64) {
        if let Some(timing) = &mut self.timing {
            timing.set_pages_of_next_ops(self.device.ftl().store().flash_ops.request_op_pages());
            timing.submit_background(at_ns, self.device.flash_ops_of_last_request());
            submit_deferred_ops(timing, &self.device, at_ns);
        }
        self.device.ftl_mut().store_mut().flash_ops.clear();
    }

    /// Replays the measured part of the input, at most `max_requests` requests, with a loss of power, and recovery, after
    /// `cut_after_requests` requests.
    fn replay_with_power_cut(
        &mut self,
        cut_after_requests: u64,
        max_requests: Option<u64>,
        total: u64,
        on_progress: OnProgress<'_>,
    ) -> Result<EarlyEndReason, ReplayError> {
        let ended =
            self.execute_requests(0, Some(cut_after_requests), total, RunPhase::Replay, on_progress)?;
        if ended.is_some() {
            return Ok(ended);
        }
        self.observations.recovery = Some(self.recover()?);
        self.execute_requests(cut_after_requests, max_requests, total, RunPhase::Replay, on_progress)
    }

    /// Executes the requests of a phase after the first `done_before`, which were executed already, up to the request
    /// with number `max_requests`, or to the end of the input without this limit. `total` is the number of requests of
    /// the whole phase that the survey of the input counted: it spaces the samples of the counters and is the end of
    /// reported progress. The survey stops where the input is damaged, so reading continues after `total` requests to
    /// detect damage.
    fn execute_requests(
        &mut self,
        done_before: u64,
        max_requests: Option<u64>,
        total: u64,
        phase: RunPhase,
        on_progress: OnProgress<'_>,
    ) -> Result<EarlyEndReason, ReplayError> {
        let lookahead = if self.can_batch_writes() { WRITES_PER_BATCH } else { REQUESTS_PER_BATCH };
        let mut batch: Vec<Request> = vec![Request::default(); lookahead];
        let series_every = total.div_ceil(SERIES_POINTS_MAX).max(1);
        let limit = max_requests.unwrap_or(u64::MAX);
        let mut done = done_before;
        let mut sample_at = (done / series_every + 1) * series_every;
        while done < limit {
            let wanted = (limit.min(sample_at) - done).min(lookahead as u64) as usize;
            let (read, damage) = self.input.read_batch(&mut batch[..wanted]);
            if self.may_leave_event_time(&batch[..read]) {
                return Ok(Some(EVENT_TIME_IS_OVER_REASON.into()));
            }
            let (executed, outcome) = self.execute_batch(&batch[..read]);
            done += executed as u64;
            if done == sample_at {
                sample_at += series_every;
                self.sample_counters();
            }
            match outcome {
                Err(error @ Error::VictimPolicyFailed { .. }) => return Err(error.into()),
                Err(error) => return Ok(Some(error.to_string())),
                Ok(()) => {}
            }
            if let Some(damage) = damage {
                return if done + self.aging_requests == 0 {
                    Err(damage.into())
                } else {
                    Ok(Some(damage.to_string()))
                };
            }
            if read < wanted {
                return Ok(None);
            }
            if done % REQUESTS_PER_PROGRESS_REPORT < lookahead as u64
                && on_progress(Progress { phase, done_work_units: done, total_work_units: total }).is_break()
            {
                return Ok(Some("interrupted".into()));
            }
        }
        Ok(None)
    }

    /// Returns whether the event engine times the run and a request of the batch might arrive later than the engine can
    /// represent.
    fn may_leave_event_time(&self, batch: &[Request]) -> bool {
        let first_ns =
            self.host_request_counts.first_request_ns.or(batch.first().map(|request| request.time_ns));
        self.timing.is_some()
            && self.plan.config.timing.mode == Mode::Event
            && self.clock.may_leave_event_time(batch, first_ns.unwrap_or(0))
    }

    /// Records the time of a request in the input: first, latest, and whether it lies before that of an earlier
    /// request.
    fn record_request_time(&mut self, time_ns: u64) {
        let counts = &mut self.host_request_counts;
        if counts.first_request_ns.is_none() {
            (counts.first_request_ns, counts.latest_request_ns) = (Some(time_ns), time_ns);
            self.clock.latest_request_trace_ns = time_ns;
        }
        // Times may run backwards: the input lasts until its latest time.
        counts.out_of_order_requests += u64::from(time_ns < counts.latest_request_ns);
        counts.latest_request_ns = counts.latest_request_ns.max(time_ns);
    }

    /// Executes one request on the device, and submits its flash operations to the timing engine.
    fn execute_request(&mut self, request: &Request) -> Result<(), Error> {
        let time_ns = request.time_ns;
        self.record_request_time(time_ns);
        if request.op == Op::PhaseMarker {
            self.observations.phase_counters.push(self.current_counters());
            return Ok(());
        }
        if self.timing.is_some() {
            self.advance_to_next_arrival(time_ns)?;
        }
        if request.len_bytes == 0 && request.op != Op::Flush {
            // It asks nothing of the drive. As a request answered at once, it would lower latencies.
            self.host_request_counts.empty_requests += 1;
            return Ok(());
        }
        if self.lifetime_management.is_some() {
            self.apply_lifetime_management(request)?;
        }
        let chunk_buffer_before = match &self.compressed_chunk_response_times {
            Some(_) => ChunkBufferTraffic::of(self.device.ftl()),
            None => None,
        };
        let reads = self.all_and_unwritten_page_reads();
        let kind = match self.perform_request(request)? {
            RequestKind::Read if self.were_only_unwritten_pages_read(reads) => RequestKind::UnwrittenRead,
            kind => kind,
        };
        if let Some(timing) = &mut self.timing {
            let work = self.device.ftl().stats().controller_work;
            let price = || {
                self.plan
                    .config
                    .timing
                    .controller_work(&work.since(&self.subtracted_counters.controller_work))
            };
            let priced = if self.has_content_mechanisms { price() } else { ControllerWork::default() };
            self.subtracted_counters.controller_work = work;
            timing.set_pages_of_next_ops(self.device.ftl().store().flash_ops.request_op_pages());
            let number = timing.submit_with_controller_work(
                kind,
                self.clock.arrival_ns,
                priced,
                self.device.flash_ops_of_last_request(),
            );
            submit_deferred_ops(timing, &self.device, self.clock.arrival_ns);
            self.device.ftl_mut().store_mut().flash_ops.clear();
            if let Some(gathered_responses) = &mut self.compressed_chunk_response_times {
                let now = ChunkBufferTraffic::of(self.device.ftl());
                if let Some((before, now)) = chunk_buffer_before.zip(now) {
                    gathered_responses.record_request(number, before, now);
                }
            }
            self.clock.take_slot();
            if self.needs_completions() {
                self.take_completions();
            }
            if self.trace_recorder.is_some() {
                self.record_request_in_trace(number, request);
            }
        }
        Ok(())
    }

    /// Records a request that was just submitted in the trace of the run. Also records the flash operations and
    /// requests that have ended since the previous request.
    fn record_request_in_trace(&mut self, number: u64, request: &Request) {
        let counters = self.current_counters();
        if let (Some(tape), Some(timing)) = (&mut self.trace_recorder, &mut self.timing) {
            tape.record_submitted_request(number, self.clock.arrival_ns, request, &counters);
            tape.add_timing_trace(timing.take_trace());
        }
    }

    /// Returns two numbers: the pages that the host has read, and those of them that held nothing because they were
    /// never written, or were deallocated.
    #[inline]
    fn all_and_unwritten_page_reads(&self) -> [u64; 2] {
        let stats = self.device.ftl().stats();
        [stats.host_page_reads, stats.unwritten_page_reads]
    }

    /// Whether the host has read at least one page since the counts `before` (from
    /// [`Self::all_and_unwritten_page_reads`]), and none of the pages read held data.
    #[inline]
    fn were_only_unwritten_pages_read(&self, before: [u64; 2]) -> bool {
        let [read, unwritten] = self.all_and_unwritten_page_reads();
        unwritten > before[1] && unwritten - before[1] == read - before[0]
    }
}

/// Converts the error of a device that cannot be built as configured into an error of the configuration.
fn to_config_error(error: Error) -> ReplayError {
    match error {
        Error::TooFewPhysicalPages { .. } | Error::IncompatibleParts { .. } | Error::InvalidOptions(_) => {
            ConfigError::InvalidValue(error.to_string()).into()
        }
        other => other.into(),
    }
}

/// Submits flash operations that the device has deferred, for which no request waits, to the timing engine as work from
/// `at_ns` (nanoseconds) on.
fn submit_deferred_ops(timing: &mut TimingEngine, device: &Device, at_ns: u64) {
    if !device.deferred_flash_ops().is_empty() {
        timing.set_pages_of_next_ops(device.ftl().store().flash_ops.deferred_op_pages());
        timing.submit_background(at_ns, device.deferred_flash_ops());
    }
}
