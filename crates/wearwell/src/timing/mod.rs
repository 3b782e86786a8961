//! Computes the latencies of host requests from the flash operations that the FTL executed for them.
//!
//! The FTL runs first and leaves, per host request, a list of [`FlashOp`]s; a timing engine computes times from that
//! list afterwards. The FTL never sees a clock, which keeps it readable, and runs that only count operations pay
//! nothing for timing. The price: time influences the FTL only through the driver, which decides when requests arrive
//! (closed loop, idle periods).
//!
//! There are three engines behind [`TimingEngine`]:
//!
//! | mode | what it is | use it for |
//! |---|---|---|
//! | [`TimingMode::None`] | no times are computed | write amplification, wear |
//! | [`TimingMode::Timeline`] | one next-free time per array (die or plane) and per channel | light load without GC |
//! | [`TimingMode::Event`] | exact discrete events: queues, priorities, suspension | latency, anything under GC |
//!
//! The same driver loop serves all engines. Open loop: call `submit` with the trace's arrival times, and set
//! [`TimingOptions::is_open_loop`]. Closed loop with queue depth `qd`:
//! `while timing.outstanding() >= qd { timing.run_to_next_completion_ns(); }`, then submit at [`TimingEngine::now_ns`].
//!
//! # NVRAM scans precede the copies of GC
//!
//! Before GC copies pages of a victim, it must know the referrers (logical pages mapped to the victim's pages;
//! Remap-SSD, section 4.2: "before the migrations, valid P2L mappings of the victim superblock need to be retrieved").
//! The search for them is one [`OpKind::NvramScan`](crate::operation::OpKind::NvramScan) in the list of operations:
//!
//! - Background operations listed after a scan start only when the scan has ended. An operation with a predecessor
//!   (`ops_back_to_dependency`) waits for that predecessor alone.
//! - A scan starts after the flash reads of its own log, and after all earlier collections on the arrays (dies or
//!   planes) of its victim: one victim is collected at a time. While a scan waits, background work has priority on
//!   those arrays.
//! - There is one NVRAM. Scans and stores ([`ControllerWork::nvram_store_ns`]) use it in the order in which they become
//!   ready, so a scan delays later stores and other scans.
//! - The request whose list contains the scan waits for it.
//!
//! The event engine implements exactly this. The timeline engine never moves a booking, so there a scan waits for
//! everything that is booked on the arrays of its victim, host operations included.
//!
//! Invariants:
//! - A request completes when every operation it waits for ([`FlashOp::is_background`] is false) has completed.
//! - The latency of a read on an idle device is exactly tR + transfer + controller overhead.
//! - Equal calls give equal times: nothing is random, and simultaneous events have a fixed order.

mod array;
mod background_share;
mod channel;
mod codec;
mod event;
mod event_queue;
mod latency;
mod nvram;
mod nvram_scans;
mod op_queue;
mod timeline;
mod trace;
mod unfinished_requests;

pub use background_share::FreeBlocksPerArray;
use event::EventEngine;
pub use event_queue::MAX_ARRIVAL_NS;
use hdrhistogram::Histogram;
pub use latency::{Completion, LatencySummary};
use timeline::TimelineEngine;
use trace::{NoObserver, OpTracer};
pub use trace::{TimingTrace, TracedOp, TracedRequest};

use crate::address::{OptionalAddress, PlaneId};
use crate::nand::{FlashTiming, Geometry};
use crate::operation::FlashOp;
use crate::stats::FlashOpPage;

/// Kind of a host request. Latencies are recorded for each kind separately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestKind {
    /// Read: the host waits for data.
    Read,
    /// Write: the host waits until the device accepts the write in its buffer, or has programmed it if there is no
    /// buffer.
    Write,
    /// Trim (deallocation): changes only metadata.
    Trim,
    /// Flush: the host waits until all earlier writes are durable.
    Flush,
    /// Read of pages that were never written. The map answers it without flash, so counting it as a read would lower
    /// read latencies.
    UnwrittenRead,
}

impl RequestKind {
    /// Number of kinds of host requests.
    pub(crate) const COUNT: usize = 5;
}

/// Choice of the timing engine, which computes when flash operations and host requests end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TimingMode {
    /// No timing: requests complete when they arrive.
    #[default]
    None,
    /// Next-free times of arrays (dies or planes) and channels. Very cheap, but **wrong for latency under GC**: see
    /// [`TimingOptions`] and the module's documentation.
    Timeline,
    /// Exact discrete-event simulation of queues, priorities and suspension.
    Event,
}

/// Options of suspension, which interrupts a running program or erase for a host read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SuspensionOptions {
    /// Time added to the remaining tPROG or tBERS each time that a suspended program or erase resumes, nanoseconds.
    pub resume_overhead_ns: u64,
    /// Maximum number of suspensions of one program or erase (or multi-plane group). After that, host reads wait until
    /// the operation ends.
    pub max_suspensions_per_op: u32,
}

/// How the device schedules flash operations. The timeline engine has neither queues nor priorities. Of these options
/// it uses only `has_independent_planes`, `uses_foreground_gc`, `controller_overhead_ns`, `delta_codec_units`,
/// `nvram_line_read_ps`, `keeps_completions` and `is_open_loop`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches; any combination means something")]
pub struct TimingOptions {
    /// Whether reads that the host waits for are served before writes, on the array (die or plane) and on the channel.
    pub prioritises_reads: bool,
    /// Whether background work starts only when no host work waits for the same array (die or plane). If false, it is
    /// queued with host writes in order of arrival.
    pub background_yields_to_host: bool,
    /// Number of background operations queued on one array (die or plane) beyond which they are served before host
    /// writes, and alternate with host reads that have priority.
    pub max_background_backlog_ops: u32,
    /// Free blocks that the FTL keeps per array (die or plane), which determine how urgent background work is. While
    /// the array has no erased page, background work is served before host writes. While it has few, some background
    /// work is served before each host write. This is needed because the FTL counts a block as free when it starts to
    /// collect it, but the erase may be queued for long. `None` disables both rules.
    pub free_blocks: Option<FreeBlocksPerArray>,
    /// Whether background operations in excess of `max_background_backlog_ops` are served before host reads, too, and
    /// are not suspended. The collection of a large block then delays reads until it ends. No drive does this, because
    /// reads need no free block.
    pub background_delays_reads: bool,
    /// Whether GC is foreground GC: a request's own operations start only after the background operations in its list
    /// have finished.
    pub uses_foreground_gc: bool,
    /// Suspension of programs and erases for host reads; `None` if the flash cannot suspend. Needs `prioritises_reads`.
    pub suspension: Option<SuspensionOptions>,
    /// Whether adjacent queued operations of the same kind on different planes of one die run as one multi-plane
    /// operation.
    pub uses_multi_plane_ops: bool,
    /// Whether planes work independently of each other (read, program and erase at any time); overrides
    /// `uses_multi_plane_ops`.
    pub has_independent_planes: bool,
    /// Controller time added to every request, nanoseconds.
    pub controller_overhead_ns: u64,
    /// Number of units that encode and decode deltas ([`ControllerWork::delta_codec_work_ns`]); 0 means no limit.
    pub delta_codec_units: usize,
    /// Time in which a scan of NVRAM reads one line of [`NVRAM_LINE_BYTES`](crate::operation::NVRAM_LINE_BYTES),
    /// picoseconds.
    pub nvram_line_read_ps: u64,
    /// Size of the write buffer: number of writes that may be acknowledged before they are programmed. 0 means that a
    /// write is acknowledged when it is programmed. When the buffer is full, each write whose flash operations finish
    /// lets one more write be acknowledged. A flush completes when all earlier writes are programmed.
    pub max_buffered_writes: usize,
    /// Whether the completion time of every request is kept for [`TimingEngine::take_completions`] (24 bytes per
    /// request).
    pub keeps_completions: bool,
    /// Whether requests arrive independently of completions, so that [`TimingEngine::outstanding_requests`] and
    /// [`TimingEngine::run_to_next_completion_ns`] are never called. The timeline engine then keeps no list of
    /// unfinished requests, which saves 8 bytes for each of them and a tenth of the time.
    pub is_open_loop: bool,
    /// Whether the event engine records when each flash operation ran, for [`TimingEngine::take_trace`]. With and
    /// without a record it computes equal times, but recording takes longer. The other engines ignore this option.
    pub records_trace: bool,
}

impl Default for TimingOptions {
    /// Returns the options of a plain modern controller: read priority, GC yields to host work, all optional features
    /// off.
    fn default() -> Self {
        Self {
            prioritises_reads: true,
            background_yields_to_host: true,
            max_background_backlog_ops: u32::MAX,
            free_blocks: None,
            background_delays_reads: false,
            uses_foreground_gc: false,
            suspension: None,
            uses_multi_plane_ops: false,
            has_independent_planes: false,
            controller_overhead_ns: 0,
            delta_codec_units: 0,
            nvram_line_read_ps: 50_000,
            max_buffered_writes: 0,
            keeps_completions: false,
            is_open_loop: false,
            records_trace: false,
        }
    }
}

/// Location of a plane: number of its array (its die, or the plane itself if planes are independent), and number in the
/// die.
#[derive(Clone, Copy, Debug)]
struct PlaneLocation {
    /// Number of the array (die or plane) that holds the plane.
    array_number: u32,
    /// Number of the plane within its die, modulo 64. Operations on different planes are recognised by it.
    plane_in_die: u8,
}

/// Arrays and channels of the device as the timing engines see them. An array is a die, or a plane if planes are
/// independent.
#[derive(Clone, Debug)]
struct ArrayLayout {
    /// For each plane, its array (die or plane) and its number in the die.
    plane_locations: Vec<PlaneLocation>,
    /// For each array (die or plane), the number of its channel.
    channel_of_array: Vec<u32>,
    /// Number of channels of the device.
    channel_count: usize,
    /// Number of planes over which a block of the FTL extends: more than one for superblocks.
    planes_per_block: usize,
}

impl ArrayLayout {
    /// Creates the layout of a device of this geometry. `has_independent_planes` makes each plane an array.
    fn new(geometry: &Geometry, has_independent_planes: bool) -> Self {
        let planes_per_array = if has_independent_planes { 1 } else { geometry.planes_per_die };
        let place = |plane| PlaneLocation {
            array_number: plane / planes_per_array,
            plane_in_die: (plane % geometry.planes_per_die % 64) as u8,
        };
        let channel = |array| geometry.channel_of(PlaneId(array * planes_per_array));
        Self {
            plane_locations: (0..geometry.planes()).map(place).collect(),
            channel_of_array: (0..geometry.planes() / planes_per_array).map(channel).collect(),
            channel_count: geometry.channels as usize,
            planes_per_block: geometry.superblock_planes as usize,
        }
    }

    /// Returns the arrays (dies or planes) that hold the block whose first plane is `first_plane`, each once; empty if
    /// `first_plane` is `NONE`.
    fn arrays_of_block(&self, first_plane: PlaneId) -> Vec<u32> {
        let Some(first) = first_plane.to_option() else { return Vec::new() };
        let planes = &self.plane_locations[first.index()..first.index() + self.planes_per_block];
        let mut arrays: Vec<u32> = planes.iter().map(|place| place.array_number).collect();
        arrays.dedup();
        arrays
    }

    /// Returns this layout with the arrays (dies or planes) renumbered so that each channel has a multiple of eight
    /// array numbers; also returns the new number of each existing array. The event engine processes eight arrays of a
    /// channel at a time.
    fn with_channels_padded_to_eight_arrays(&self) -> (Self, Vec<u32>) {
        let there_are = (self.array_count() / self.channel_count) as u32;
        let stride = there_are.next_multiple_of(8);
        let numbers: Vec<u32> = (0..)
            .zip(&self.channel_of_array)
            .map(|(array, channel)| channel * stride + array % there_are)
            .collect();
        let place = |&place: &PlaneLocation| PlaneLocation {
            array_number: numbers[place.array_number as usize],
            ..place
        };
        let layout = Self {
            plane_locations: self.plane_locations.iter().map(place).collect(),
            channel_of_array: (0..self.channel_count as u32)
                .flat_map(|channel| std::iter::repeat_n(channel, stride as usize))
                .collect(),
            channel_count: self.channel_count,
            planes_per_block: self.planes_per_block,
        };
        (layout, numbers)
    }

    /// Returns the number of arrays (dies or planes).
    fn array_count(&self) -> usize {
        self.channel_of_array.len()
    }
}

/// Times that the controller and NVRAM take for a request in addition to its flash operations, nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ControllerWork {
    /// Controller work of the request (hashing, encoding) that runs in parallel to that of other requests, nanoseconds.
    /// It delays only this request.
    pub work_parallel_to_other_requests_ns: u64,
    /// Time of the request's stores to NVRAM, nanoseconds. There is one NVRAM, so the stores wait for those of other
    /// requests and for a running scan.
    pub nvram_store_ns: u64,
    /// Time to encode and decode the request's deltas, after its flash operations, nanoseconds. A part of
    /// `work_parallel_to_other_requests_ns`. If [`TimingOptions::delta_codec_units`] is set, requests wait for a free
    /// codec unit.
    pub delta_codec_work_ns: u64,
}

/// Timing engine: computes the times of host requests from their flash operations. All times are nanoseconds since the
/// start of the run.
#[derive(Clone, Debug)]
pub struct TimingEngine {
    /// The engine of the chosen timing mode.
    engine: AnyTimingEngine,
}

/// The timing engine of the chosen [`TimingMode`], with its state.
#[derive(Clone, Debug)]
enum AnyTimingEngine {
    /// No engine: requests complete at their arrival, and only their latencies of 0 are recorded.
    None(Box<latency::LatencyRecords>),
    /// The timeline engine: one next-free time per array and channel.
    Timeline(Box<TimelineEngine>),
    /// The event engine without a recorder of single operations.
    Event(Box<EventEngine<NoObserver>>),
    /// The event engine with a recorder of single operations. Each step of an operation is an event of its own.
    Traced(Box<EventEngine<OpTracer>>),
}

impl TimingEngine {
    /// Creates a timing engine for a device that is idle at time 0.
    ///
    /// # Panics
    /// If `options.suspension` is set without `options.prioritises_reads`.
    pub fn new(mode: TimingMode, geometry: &Geometry, flash: FlashTiming, options: TimingOptions) -> Self {
        assert!(
            options.suspension.is_none() || options.prioritises_reads,
            "suspension serves reads that have priority"
        );
        let layout = ArrayLayout::new(geometry, options.has_independent_planes);
        let engine = match mode {
            TimingMode::None => {
                AnyTimingEngine::None(Box::new(latency::LatencyRecords::new(options.keeps_completions)))
            }
            TimingMode::Timeline => {
                AnyTimingEngine::Timeline(Box::new(TimelineEngine::new(&layout, flash, &options)))
            }
            TimingMode::Event if options.records_trace => {
                AnyTimingEngine::Traced(Box::new(EventEngine::new(&layout, flash, options)))
            }
            TimingMode::Event => AnyTimingEngine::Event(Box::new(EventEngine::new(&layout, flash, options))),
        };
        Self { engine }
    }

    /// Submits one host request with its flash operations. Returns the number of the request: 0, 1, 2, .. in order of
    /// submission. Latency is measured from `arrival_ns`. If that time has passed (the driver delayed the request), the
    /// operations start at the current time. Cost: O(operations).
    ///
    /// # Panics
    /// If the predecessor of an operation (`ops_back_to_dependency`) would be before the start of the list, or if the
    /// operation's plane is outside the geometry.
    #[inline]
    pub fn submit(&mut self, kind: RequestKind, arrival_ns: u64, ops: &[FlashOp]) -> u64 {
        self.submit_with_controller_work(kind, arrival_ns, ControllerWork::default(), ops)
    }

    /// Submits a host request as [`TimingEngine::submit`] does, with controller work (`work`) in addition. The work
    /// delays the completion of the request, but occupies no flash.
    pub fn submit_with_controller_work(
        &mut self,
        kind: RequestKind,
        arrival_ns: u64,
        work: ControllerWork,
        ops: &[FlashOp],
    ) -> u64 {
        match &mut self.engine {
            AnyTimingEngine::None(ledger) => ledger.record_zero_latency_request(kind, arrival_ns),
            AnyTimingEngine::Timeline(engine) => engine.submit_request(kind, arrival_ns, work, ops),
            AnyTimingEngine::Event(engine) => engine.submit_request(kind, arrival_ns, work, ops),
            AnyTimingEngine::Traced(engine) => engine.submit_request(kind, arrival_ns, work, ops),
        }
    }

    /// Submits flash operations that belong to no host request (idle GC, checkpoints). No request waits for them,
    /// whatever their causes.
    pub fn submit_background(&mut self, arrival_ns: u64, ops: &[FlashOp]) {
        match &mut self.engine {
            AnyTimingEngine::None(ledger) => ledger.now_ns = ledger.now_ns.max(arrival_ns),
            AnyTimingEngine::Timeline(engine) => engine.submit_background(arrival_ns, ops),
            AnyTimingEngine::Event(engine) => engine.submit_background(arrival_ns, ops),
            AnyTimingEngine::Traced(engine) => engine.submit_background(arrival_ns, ops),
        }
    }

    /// Returns the number of host requests that have not completed.
    ///
    /// # Panics
    /// In the timeline engine, if [`TimingOptions::is_open_loop`] is set.
    pub fn outstanding_requests(&mut self) -> usize {
        match &mut self.engine {
            AnyTimingEngine::None(_) => 0,
            AnyTimingEngine::Timeline(engine) => engine.outstanding_requests(),
            AnyTimingEngine::Event(engine) => engine.outstanding_requests(),
            AnyTimingEngine::Traced(engine) => engine.outstanding_requests(),
        }
    }

    /// Advances time until a host request completes, and returns its completion time; `None` if none is outstanding.
    /// Requests that complete within a call of `submit`, before the new arrival, only lower
    /// [`TimingEngine::outstanding_requests`] and are not reported here.
    ///
    /// # Panics
    /// As [`TimingEngine::outstanding_requests`].
    pub fn run_to_next_completion_ns(&mut self) -> Option<u64> {
        match &mut self.engine {
            AnyTimingEngine::None(_) => None,
            AnyTimingEngine::Timeline(engine) => engine.run_to_next_completion_ns(),
            AnyTimingEngine::Event(engine) => engine.run_to_next_completion_ns(),
            AnyTimingEngine::Traced(engine) => engine.run_to_next_completion_ns(),
        }
    }

    /// Advances the simulated time until no host request is outstanding, but at most to `to_ns`. Returns whether no
    /// request is outstanding then. In that case [`TimingEngine::now_ns`] is the time of the last completion, if there
    /// was one: from then on the device is idle.
    pub fn complete_requests_until(&mut self, to_ns: u64) -> bool {
        match &mut self.engine {
            AnyTimingEngine::None(_) => true,
            AnyTimingEngine::Timeline(engine) => engine.complete_requests_until(to_ns),
            AnyTimingEngine::Event(engine) => engine.complete_requests_until(to_ns),
            AnyTimingEngine::Traced(engine) => engine.complete_requests_until(to_ns),
        }
    }

    /// Returns the simulated time, nanoseconds.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        match &self.engine {
            AnyTimingEngine::None(ledger) => ledger.now_ns,
            AnyTimingEngine::Timeline(engine) => engine.now_ns(),
            AnyTimingEngine::Event(engine) => engine.now_ns(),
            AnyTimingEngine::Traced(engine) => engine.now_ns(),
        }
    }

    /// Completes all flash operations, background work included. Returns the time of the last event, nanoseconds.
    pub fn run_to_completion_ns(&mut self) -> u64 {
        match &mut self.engine {
            AnyTimingEngine::None(ledger) => ledger.now_ns,
            AnyTimingEngine::Timeline(engine) => engine.run_to_completion_ns(),
            AnyTimingEngine::Event(engine) => engine.run_to_completion_ns(),
            AnyTimingEngine::Traced(engine) => engine.run_to_completion_ns(),
        }
    }

    /// Returns the histogram of the latencies, in nanoseconds, of completed requests of one kind. Summarise it with
    /// [`LatencySummary::of_histogram`].
    pub fn latency_histogram(&self, kind: RequestKind) -> &Histogram<u64> {
        self.request_latencies().histogram(kind)
    }

    /// Returns number, mean, percentiles and maximum of the latencies of completed requests of one kind, in
    /// nanoseconds. Percentiles are accurate to 0.1 %; mean and maximum are exact.
    pub fn latency_summary(&self, kind: RequestKind) -> LatencySummary {
        self.request_latencies().latency_summary(kind)
    }

    /// Returns the requests that completed since the last call, in order of completion time (timeline engine: of
    /// submission). Empty unless [`TimingOptions::keeps_completions`] is set.
    pub fn take_completions(&mut self) -> Vec<Completion> {
        match &mut self.engine {
            AnyTimingEngine::None(ledger) => ledger.take_completions(),
            AnyTimingEngine::Timeline(engine) => engine.latency_records_mut().take_completions(),
            AnyTimingEngine::Event(engine) => engine.latency_records_mut().take_completions(),
            AnyTimingEngine::Traced(engine) => engine.latency_records_mut().take_completions(),
        }
    }

    /// Sets the flash pages on which the operations that are submitted next are executed. Does nothing unless the
    /// engine records single operations ([`TimingOptions::records_trace`]).
    pub fn set_pages_of_next_ops(&mut self, places: &[FlashOpPage]) {
        if let AnyTimingEngine::Traced(engine) = &mut self.engine {
            engine.op_observer_mut().set_pages_of_next_ops(places);
        }
    }

    /// Returns the flash operations and host requests that ended since the last call, in order of their end. Empty
    /// unless the engine is [`TimingMode::Event`] and [`TimingOptions::records_trace`] is set.
    pub fn take_trace(&mut self) -> TimingTrace {
        match &mut self.engine {
            AnyTimingEngine::Traced(engine) => engine.op_observer_mut().take_trace(),
            AnyTimingEngine::None(_) | AnyTimingEngine::Timeline(_) | AnyTimingEngine::Event(_) => {
                TimingTrace::default()
            }
        }
    }

    /// Returns the time that each array has been busy so far, nanoseconds. An array is a die, or a plane with
    /// [`TimingOptions::has_independent_planes`]. It is busy while it works, holds data for its channel, or is
    /// suspended.
    pub fn array_busy_ns(&self) -> Vec<u64> {
        match &self.engine {
            AnyTimingEngine::None(_) => Vec::new(),
            AnyTimingEngine::Timeline(engine) => engine.array_busy_ns(),
            AnyTimingEngine::Event(engine) => engine.array_busy_ns(),
            AnyTimingEngine::Traced(engine) => engine.array_busy_ns(),
        }
    }

    /// Returns the time that each channel has spent on transfers so far, nanoseconds.
    pub fn channel_busy_ns(&self) -> Vec<u64> {
        match &self.engine {
            AnyTimingEngine::None(_) => Vec::new(),
            AnyTimingEngine::Timeline(engine) => engine.channel_busy_ns(),
            AnyTimingEngine::Event(engine) => engine.channel_busy_ns(),
            AnyTimingEngine::Traced(engine) => engine.channel_busy_ns(),
        }
    }

    /// Returns the number of flash operations completed so far (timeline engine: booked so far).
    pub fn completed_ops(&self) -> u64 {
        match &self.engine {
            AnyTimingEngine::None(_) => 0,
            AnyTimingEngine::Timeline(engine) => engine.completed_ops(),
            AnyTimingEngine::Event(engine) => engine.completed_ops(),
            AnyTimingEngine::Traced(engine) => engine.completed_ops(),
        }
    }

    /// Returns the latencies of completed requests, which every engine records.
    fn request_latencies(&self) -> &latency::LatencyRecords {
        match &self.engine {
            AnyTimingEngine::None(ledger) => ledger,
            AnyTimingEngine::Timeline(engine) => engine.latency_records(),
            AnyTimingEngine::Event(engine) => engine.latency_records(),
            AnyTimingEngine::Traced(engine) => engine.latency_records(),
        }
    }
}
