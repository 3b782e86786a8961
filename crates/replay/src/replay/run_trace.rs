//! Records the flash operations and requests in a window (a part of a run, by requests or time) for the Perfetto
//! viewer.
//!
//! The timing engine reports every operation and request when it ends, and the recorder keeps those that overlap its
//! window. So the trace also has the operations that were running when the window opened. Memory is bounded: after
//! [`MAX_TRACED_OPS_AND_REQUESTS`] operations and requests the window closes.

use std::ops::Range;
use std::str::FromStr;

use rustc_hash::FxHashMap;
use wearwell::nand::Geometry;
use wearwell::timing::{TimingTrace, TracedOp, TracedRequest};
use wearwell_trace::{Op, Request};

use crate::record::SeriesPoint;

/// Largest number of flash operations and requests in a trace, which keeps the trace's file below 30 MB. Operations and
/// requests that are running when the number is reached are added.
pub const MAX_TRACED_OPS_AND_REQUESTS: usize = 100_000;

/// The part of a run of which every flash operation is recorded: a range of requests, or of time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceWindow {
    /// Range of request numbers, from the arrival of the first request to the answer of the last. The first request of
    /// the measured part has number 0.
    Requests(Range<u64>),
    /// Period of simulated time, nanoseconds since the start of the measured part.
    TimeNs(Range<u64>),
}

impl Default for TraceWindow {
    /// Returns the window of the first 1000 requests.
    fn default() -> Self {
        Self::Requests(0..1000)
    }
}

/// Parses a time such as `1.5ms`. Returns nanoseconds, or `None` if the text is not a time.
fn parse_time_ns(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let unit_ns = match &text[digits.len()..] {
        "s" => 1e9,
        "ms" => 1e6,
        "us" => 1e3,
        "ns" => 1.0,
        _ => return None,
    };
    let amount: f64 = digits.parse().ok()?;
    (amount >= 0.0 && amount.is_finite()).then(|| (amount * unit_ns).round() as u64)
}

/// Parses the start and the end of a trace window with `parse`; an empty start is 0, and an empty end means unbounded.
/// Returns `None` if a bound is invalid or the range is empty.
fn parse_window_bounds(from: &str, to: &str, parse: impl Fn(&str) -> Option<u64>) -> Option<Range<u64>> {
    let bound = |text: &str, absent| if text.is_empty() { Some(absent) } else { parse(text) };
    Some(bound(from, 0)?..bound(to, u64::MAX)?).filter(|range| range.start < range.end)
}

impl FromStr for TraceWindow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let window = text.split_once("..").and_then(|(from, to)| {
            let numbers = parse_window_bounds(from, to, |bound| bound.parse().ok()).map(Self::Requests);
            numbers.or_else(|| parse_window_bounds(from, to, parse_time_ns).map(Self::TimeNs))
        });
        window.ok_or_else(|| {
            "a window is a range of requests or of simulated time whose end is after its start, such as 5000..6000, 5000.. or \
             1.5s..1520ms"
                .to_owned()
        })
    }
}

/// One host request in the recorded window of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WindowRequest {
    /// Number, kind and times of the request.
    pub traced_request: TracedRequest,
    /// Operation of the request: read, write, trim and so on.
    pub op: Op,
    /// Address of the first byte of the request, as the device sees it.
    pub offset_bytes: u64,
    /// Length of the request, bytes.
    pub len_bytes: u64,
}

/// Free blocks and counters of the FTL after a request in the recorded window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FtlStateSample {
    /// Arrival time of the request after which the state was sampled, nanoseconds since the start of the run.
    pub time_ns: u64,
    /// Number of free blocks of the device.
    pub free_blocks: u32,
    /// Page programs of all causes since the start of the window.
    pub programs: u64,
    /// Host page writes since the start of the window.
    pub host_page_writes: u64,
}

/// Flash operations, host requests and NVRAM scans in the recorded window of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct RunTrace {
    /// Name of the design that was run.
    pub design: String,
    /// Name of the trace or workload that was replayed.
    pub input: String,
    /// Layout of the device.
    pub geometry: Geometry,
    /// Whether each plane works on its own; otherwise all planes of a die work together.
    pub has_independent_planes: bool,
    /// Flash operations that overlap the window, in order of their end.
    pub flash_ops: Vec<TracedOp>,
    /// Requests that overlap the window, in order of their answer.
    pub requests: Vec<WindowRequest>,
    /// Start and end, nanoseconds, of each scan of the reverse-map log in NVRAM that overlaps the window.
    pub nvram_scan_spans_ns: Vec<(u64, u64)>,
    /// State of the FTL after each request that arrived in the recorded window.
    pub ftl_state_samples: Vec<FtlStateSample>,
    /// Whether the window was closed early because the trace had reached its largest size.
    pub is_truncated: bool,
}

/// Recorder that fills a [`RunTrace`] during a run.
#[derive(Debug)]
pub(super) struct RunTraceRecorder {
    /// Part of the run that is recorded: a range of requests, or of time.
    window: TraceWindow,
    /// Period of simulated time that the window covers, nanoseconds. For a window of requests, the start is set when
    /// the first request arrives, and the end when the last request is answered.
    window_ns: Range<u64>,
    /// Number of requests of the recorded range that have not been answered; `None` if a period of time is recorded.
    unanswered_traced_requests: Option<u64>,
    /// Operation, address and length of each request that has not been answered, by request number.
    in_flight_requests: FxHashMap<u64, (Op, u64, u64)>,
    /// Page programs and host page writes of the run before the window.
    programs_and_writes_before_window: [u64; 2],
    /// Trace with the operations and requests recorded so far.
    trace: RunTrace,
}

impl RunTraceRecorder {
    /// Creates the recorder of a window of a run, which adds what it records to `trace`.
    pub(super) fn new(window: TraceWindow, trace: RunTrace) -> Self {
        let (window_ns, unanswered_traced_requests) = match &window {
            TraceWindow::Requests(numbers) => (u64::MAX..u64::MAX, Some(numbers.end - numbers.start)),
            TraceWindow::TimeNs(span_ns) => (span_ns.clone(), None),
        };
        Self {
            window,
            window_ns,
            unanswered_traced_requests,
            in_flight_requests: FxHashMap::default(),
            programs_and_writes_before_window: [0, 0],
            trace,
        }
    }

    /// Records a request with the given `number` and arrival time `arrival_ns` that was submitted to the timing engine,
    /// and the counters after the request.
    pub(super) fn record_submitted_request(
        &mut self,
        number: u64,
        arrival_ns: u64,
        request: &Request,
        counters: &SeriesPoint,
    ) {
        self.in_flight_requests.insert(number, (request.op, request.offset_bytes, request.len_bytes));
        if let TraceWindow::Requests(numbers) = &self.window
            && numbers.start == number
        {
            self.window_ns.start = arrival_ns;
        }
        let [programs, writes] = self.programs_and_writes_before_window;
        if self.window_ns.contains(&arrival_ns) {
            self.trace.ftl_state_samples.push(FtlStateSample {
                time_ns: arrival_ns,
                free_blocks: counters.free_blocks,
                programs: counters.programs - programs,
                host_page_writes: counters.host_page_writes - writes,
            });
        } else if self.trace.ftl_state_samples.is_empty() {
            self.programs_and_writes_before_window = [counters.programs, counters.host_page_writes];
        }
    }

    /// Adds the flash operations, requests and NVRAM scans that have ended since the last call, as the timing engine
    /// reports them.
    pub(super) fn add_timing_trace(&mut self, ended: TimingTrace) {
        for times in ended.requests {
            self.record_completion(times);
        }
        let Range { start, end } = self.window_ns;
        let overlaps = |from: u64, to: u64| from < end && to > start;
        self.trace.flash_ops.extend(ended.ops.into_iter().filter(|op| overlaps(op.start_ns, op.end_ns)));
        self.trace
            .nvram_scan_spans_ns
            .extend(ended.nvram_scan_spans_ns.into_iter().filter(|&(from, to)| overlaps(from, to)));
        let size = self.trace.flash_ops.len() + self.trace.requests.len();
        if size >= MAX_TRACED_OPS_AND_REQUESTS && !self.trace.is_truncated {
            self.trace.is_truncated = true;
            let last = self.trace.flash_ops.iter().map(|op| op.end_ns);
            self.close_window(
                last.chain(self.trace.requests.iter().map(|r| r.traced_request.completed_at_ns))
                    .max()
                    .unwrap_or(end),
            );
        }
    }

    /// Adds a request that was answered to the trace if it overlaps the window. The answer of the last request of a
    /// window of requests closes the window.
    fn record_completion(&mut self, traced_request: TracedRequest) {
        let Some((op, offset_bytes, len_bytes)) =
            self.in_flight_requests.remove(&traced_request.request_number)
        else {
            return;
        };
        let TracedRequest { request_number: number, arrival_ns, completed_at_ns, .. } = traced_request;
        if arrival_ns < self.window_ns.end && completed_at_ns >= self.window_ns.start {
            self.trace.requests.push(WindowRequest { traced_request, op, offset_bytes, len_bytes });
        }
        if let (TraceWindow::Requests(numbers), Some(unanswered)) =
            (&self.window, &mut self.unanswered_traced_requests)
            && numbers.contains(&number)
        {
            *unanswered -= 1;
            if *unanswered == 0 {
                self.close_window(completed_at_ns);
            }
        }
    }

    /// Ends the recorded window of the run at `end_ns` if it would end later, and drops the operations, requests and
    /// states from after `end_ns`.
    fn close_window(&mut self, end_ns: u64) {
        self.window_ns.end = self.window_ns.end.min(end_ns);
        let end_ns = self.window_ns.end;
        self.trace.flash_ops.retain(|op| op.start_ns < end_ns);
        self.trace.requests.retain(|request| request.traced_request.arrival_ns < end_ns);
        self.trace.nvram_scan_spans_ns.retain(|scan| scan.0 < end_ns);
        self.trace.ftl_state_samples.retain(|state| state.time_ns < end_ns);
    }

    /// Returns the finished trace of the run.
    pub(super) fn into_run_trace(self) -> RunTrace {
        self.trace
    }
}
