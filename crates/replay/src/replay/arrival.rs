//! Decides when a request starts: in open loop, closed loop or with think time, delayed by throttling; and runs
//! background garbage collection in idle gaps.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use wearwell::Error;
use wearwell::operation::{FlashOp, OpKind};
use wearwell::timing::{Completion, MAX_ARRIVAL_NS, TimingEngine};
use wearwell_config::{Arrival, ReplayConfig};
use wearwell_trace::Request;

use super::Run;

/// Arrival time of the current request and completion time of the last request, and the rules by which the next request
/// arrives.
#[derive(Clone, Debug)]
pub(super) struct RequestClock {
    /// Rules by which the next request arrives.
    pace: ArrivalPace,
    /// Arrival time of the current request, nanoseconds.
    pub(super) arrival_ns: u64,
    /// Latest time in the trace of the requests so far, nanoseconds.
    pub(super) latest_request_trace_ns: u64,
    /// Completion time of the request that completed last, nanoseconds. If a later request has arrived on the idle
    /// device, or throttling has delayed its start, this is its arrival or start time.
    pub(super) last_completion_ns: u64,
    /// For each queue slot of a closed loop that no request occupies, the time from which it is free, nanoseconds;
    /// `None` unless writes may be throttled. Requests start in the order of the input, so a request that has taken a
    /// slot behind a throttled write has arrived, but waits. Without throttling it starts as soon as a slot is free.
    free_slots_ns: Option<BinaryHeap<Reverse<u64>>>,
}

/// Rules for when requests of a replay arrive: the arrival mode, the largest number of requests in flight, and the
/// factor for the trace's times.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrivalPace {
    /// Arrival mode of requests: at the input's times (open loop), with a fixed number in flight (closed loop), or with
    /// think time.
    arrival: Arrival,
    /// Largest number of requests in flight; not used in open loop.
    queue_depth: usize,
    /// Factor by which the times of the trace are multiplied.
    time_scale: f64,
}

impl ArrivalPace {
    /// Creates the rules for arrivals from the configuration; `arrival` is the mode that is in effect.
    pub(super) fn new(config: &ReplayConfig, arrival: Arrival) -> Self {
        let queue_depth = match arrival {
            Arrival::Auto | Arrival::Open => usize::MAX,
            Arrival::Closed => config.queue_depth() as usize,
            Arrival::Think => 1,
        };
        Self { arrival, queue_depth, time_scale: config.time_scale() }
    }

    /// Returns a time of the trace multiplied by the time scale, nanoseconds.
    #[inline]
    fn scaled_time_ns(self, ns: u64) -> u64 {
        if (self.time_scale - 1.0).abs() < f64::EPSILON { ns } else { (ns as f64 * self.time_scale) as u64 }
    }
}

impl RequestClock {
    /// Creates a clock for the arrivals of requests, at time 0. `may_throttle` is whether writes may be throttled.
    pub(super) fn new(pace: ArrivalPace, may_throttle: bool) -> Self {
        let tracks_slots = may_throttle && pace.arrival == Arrival::Closed;
        Self {
            pace,
            arrival_ns: 0,
            latest_request_trace_ns: 0,
            last_completion_ns: 0,
            free_slots_ns: tracks_slots.then(|| vec![Reverse(0); pace.queue_depth].into()),
        }
    }

    /// Returns whether [`Self::free_slots_of`] must be told every completion.
    fn needs_completions(&self) -> bool {
        self.free_slots_ns.is_some()
    }

    /// Frees the queue slots of completed requests.
    fn free_slots_of(&mut self, completions: &[Completion]) {
        if let Some(slots) = &mut self.free_slots_ns {
            slots.extend(completions.iter().map(|completion| Reverse(completion.completed_at_ns)));
        }
    }

    /// Gives the queue slot that has been free for longest to the current request, which has been submitted.
    pub(super) fn take_slot(&mut self) {
        self.free_slots_ns.as_mut().and_then(BinaryHeap::pop);
    }

    /// Sets the arrival time of a request whose time in the trace is `trace_ns`; `first_ns` is the time of the first
    /// request. In closed loop or with think time, it first completes the earlier requests for which the arrival must
    /// wait.
    #[inline]
    pub(super) fn set_arrival_time(&mut self, timing: &mut TimingEngine, trace_ns: u64, first_ns: u64) {
        let pace = self.pace;
        let gap_ns = trace_ns.saturating_sub(self.latest_request_trace_ns);
        // After a time that runs backwards the next gap is not counted again.
        self.latest_request_trace_ns = self.latest_request_trace_ns.max(trace_ns);
        let arrival_ns = match pace.arrival {
            Arrival::Auto | Arrival::Open => pace.scaled_time_ns(trace_ns.saturating_sub(first_ns)),
            Arrival::Closed => self.complete_until_below_depth(pace.queue_depth, timing).max(timing.now_ns()),
            Arrival::Think => {
                self.complete_until_below_depth(pace.queue_depth, timing) + pace.scaled_time_ns(gap_ns)
            }
        };
        self.arrival_ns = self.arrival_ns.max(arrival_ns);
    }

    /// Sets the arrival time of the current request to the moment from which a queue slot was free for it.
    fn set_arrival_time_to_free_slot(&mut self) {
        if let Some(Reverse(free_ns)) = self.free_slots_ns.as_ref().and_then(|slots| slots.peek()) {
            self.arrival_ns = *free_ns;
        }
    }

    /// Returns whether a request of the batch might arrive later than the event engine can represent. `first_ns` is the
    /// time in the trace of the first request of the run.
    pub(super) fn may_leave_event_time(&self, batch: &[Request], first_ns: u64) -> bool {
        let latest_trace_ns = batch.iter().map(|request| request.time_ns).max().unwrap_or(0);
        let gaps_ns = latest_trace_ns.saturating_sub(self.latest_request_trace_ns.max(first_ns));
        let wait_ns = match self.pace.arrival {
            Arrival::Closed => 0,
            Arrival::Auto | Arrival::Open | Arrival::Think => self.pace.scaled_time_ns(gaps_ns),
        };
        self.arrival_ns.max(self.last_completion_ns).saturating_add(wait_ns) > MAX_ARRIVAL_NS
    }

    /// Completes requests until fewer than `depth` requests are in flight. Returns the time, in nanoseconds, from which
    /// this is so.
    #[inline]
    fn complete_until_below_depth(&mut self, depth: usize, timing: &mut TimingEngine) -> u64 {
        // A request without flash operations completes on arrival and is not reported.
        self.last_completion_ns = self.last_completion_ns.max(self.arrival_ns);
        while timing.outstanding_requests() >= depth {
            let Some(completed) = timing.run_to_next_completion_ns() else { break };
            self.last_completion_ns = completed;
        }
        self.last_completion_ns
    }
}

impl Run<'_> {
    /// Sets the arrival time of the next request, and runs the background garbage collection that fits into the idle
    /// time before it.
    pub(super) fn advance_to_next_arrival(&mut self, trace_ns: u64) -> Result<(), Error> {
        let before = self.clock.arrival_ns;
        let timing = self.timing.as_mut().expect("arrival needs a timing engine");
        self.clock.set_arrival_time(timing, trace_ns, self.host_request_counts.first_request_ns.unwrap_or(0));
        if self.clock.needs_completions() {
            self.take_completions();
            self.clock.set_arrival_time_to_free_slot();
        }
        self.collect_while_idle(before)
    }

    /// Returns whether the timing engine must keep the completion of every request for [`Self::take_completions`].
    pub(super) fn needs_completions(&self) -> bool {
        self.compressed_chunk_response_times.is_some() || self.clock.needs_completions()
    }

    /// Takes the completions since the last call from the timing engine. They free queue slots, and end the response
    /// times of writes that waited in the chunk buffer.
    pub(super) fn take_completions(&mut self) {
        let Some(timing) = &mut self.timing else { return };
        let completions = timing.take_completions();
        self.clock.free_slots_of(&completions);
        if let Some(gathered_responses) = &mut self.compressed_chunk_response_times {
            gathered_responses.add_waiting_write_latencies(&completions);
        }
    }

    /// Advances time to the moment at which lifetime management lets the request start (throttling). Without a timing
    /// engine no request is delayed, and only the write-saving schemes (deduplication, compression, ...) are switched.
    pub(super) fn apply_lifetime_management(&mut self, request: &Request) -> Result<(), Error> {
        let Some(managed) = &mut self.lifetime_management else { return Ok(()) };
        let Some(timing) = &mut self.timing else { return managed.begin_epoch_if_due(&mut self.device, 0) };
        let is_write = self.executor.is_write(request);
        let arrival_ns = self.clock.arrival_ns.max(timing.now_ns());
        let start_ns = managed.admit_request_and_get_start_ns(&mut self.device, arrival_ns, is_write)?;
        if start_ns > arrival_ns {
            timing.submit_background(start_ns, &[]);
            self.clock.last_completion_ns = self.clock.last_completion_ns.max(start_ns);
        }
        Ok(())
    }

    /// Runs as many background collections of blocks as fit into the idle gap before the next request arrives. The gap
    /// begins when the device has answered every earlier request, but not before `since_ns` (nanoseconds).
    fn collect_while_idle(&mut self, since_ns: u64) -> Result<(), Error> {
        if self.plan.resolved_device.gc_options.background_gc_below_free_blocks == 0 {
            return Ok(());
        }
        let until_ns = self.clock.arrival_ns;
        let timing = self.timing.as_mut().expect("arrival needs a timing engine");
        if !timing.complete_requests_until(until_ns) {
            return Ok(());
        }
        let since_ns = since_ns.max(timing.now_ns());
        let mut idle_ns = until_ns.saturating_sub(since_ns);
        let flash = self.plan.resolved_device.flash_timing;
        let dies = self.plan.resolved_device.geometry.dies() as u64;
        let line_read_ps = self.plan.timing_options().nvram_line_read_ps;
        let cost = |op: &FlashOp| match op.kind {
            OpKind::Read => flash.read_ns,
            OpKind::Program => flash.program_ns,
            OpKind::Erase => flash.erase_ns,
            OpKind::Copies => {
                u64::from(op.copied_page_or_nvram_line_count) * (flash.read_ns + flash.program_ns)
            }
            // A scan of NVRAM makes all dies wait.
            OpKind::NvramScan => u64::from(op.copied_page_or_nvram_line_count) * line_read_ps / 1000 * dies,
        };
        while idle_ns > flash.erase_ns && self.device.ftl_mut().collect_in_background()? {
            let busy_ns: u64 = self.device.flash_ops_of_last_request().iter().map(cost).sum();
            self.submit_background_ops(since_ns);
            idle_ns = idle_ns.saturating_sub(busy_ns / dies);
        }
        Ok(())
    }
}
