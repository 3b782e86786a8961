//! From flash operations to time.
//!
//! The FTL runs first and leaves, per host request, a list of [`FlashOp`]s; a timing engine prices that list
//! afterwards. The FTL never sees a clock, which keeps it readable and lets counts-only runs pay nothing. The
//! price: time flows back only through the driver (closed-loop arrival, idle periods).
//!
//! Three engines stand behind [`Timing`]:
//!
//! | mode | what it is | use it for |
//! |---|---|---|
//! | [`TimingMode::None`] | nothing is priced | write amplification, wear |
//! | [`TimingMode::Timeline`] | one next-free time per array and per channel | throughput, light load without GC |
//! | [`TimingMode::Event`] | exact discrete events: queues, priorities, suspension | latency, anything under GC |
//!
//! One driver loop serves all of them. Open loop: `submit` with the trace's arrival times, and say so
//! ([`TimingOptions::open_loop`]). Closed loop with queue depth `qd`:
//! `while timing.outstanding() >= qd { timing.complete_one(); }`, then submit at [`Timing::now_ns`].
//!
//! # Scans come before the copies
//!
//! A collection must know the referrers of its victim before it copies a page (Remap-SSD, section 4.2: "before the
//! migrations, valid P2L mappings of the victim superblock need to be retrieved"). The search for them is one
//! [`OpKind::Scan`] in the list of operations:
//!
//! - Background operations that stand behind a scan in its list start only after the scan has ended. An operation that
//!   names another (`after`) follows that one alone.
//! - A scan starts after the flash reads of its own log, and when the arrays of its victim have finished the collections
//!   before it: one victim is collected at a time. While a scan waits, background work goes first on those arrays.
//! - There is one NVRAM. Scans and stores ([`ControllerWork::nvram_ns`]) take turns in the order in which they are ready,
//!   so a log that is being scanned holds up stores to it, and other scans.
//! - The request whose list contains the scan waits for it.
//!
//! The event engine takes this literally. On timelines bookings are never moved, so a scan waits for everything that
//! is booked on the arrays of its victim, host work included.
//!
//! Invariants:
//! - A request completes when every operation it waits for ([`FlashOp::is_background`] is false) has completed.
//! - The latency of a read on an idle device is exactly tR + transfer + controller overhead.
//! - Same calls, same times: nothing here is random, and simultaneous events have a fixed order.

mod array;
mod channel;
mod codec;
mod event;
mod event_queue;
mod latency;
mod nvram;
mod op_queue;
mod scans;
mod timeline;
mod unfinished;

use event::EventEngine;
use hdrhistogram::Histogram;
pub use latency::{Completion, LatencySummary};
use timeline::TimelineEngine;

use crate::address::{Address, PlaneId};
use crate::nand::{FlashTiming, Geometry};
use crate::operation::FlashOp;

/// What the host asked for, as far as timing and latency accounts care.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestKind {
    /// The host waits for data.
    Read,
    /// The host waits until the write is accepted (buffer) or programmed.
    Write,
    /// Deallocation: metadata only.
    Trim,
    /// Drain of volatile state.
    Flush,
    /// A read of pages that were never written: the map answers it alone, so it would make reads look fast.
    UnwrittenRead,
}

impl RequestKind {
    /// Number of kinds.
    pub(crate) const COUNT: usize = 5;
}

/// Which engine prices the operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TimingMode {
    /// No time at all: requests complete when they arrive.
    #[default]
    None,
    /// Next-free times. Nearly free, and **wrong for latency under GC**: see [`TimingOptions`] and the module.
    Timeline,
    /// Exact events.
    Event,
}

/// Suspension of a running program or erase in favour of a host read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Suspend {
    /// Added to the remaining array time at each resume, in nanoseconds.
    pub overhead_ns: u64,
    /// Suspensions one operation (or multi-plane group) may suffer; reads then wait for its end.
    pub max_per_op: u32,
}

/// How a device schedules. The timeline engine knows neither queues nor priorities: of these options it uses
/// `independent_planes`, `blocking_gc`, `controller_overhead_ns`, `codec_units`, `nvram_line_read_ps`, `keep_completions`
/// and `open_loop` only.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches; any combination means something")]
pub struct TimingOptions {
    /// Reads that the host waits for go before writes, on the array and on the channel.
    pub read_priority: bool,
    /// Background work goes only when no host work waits for the same array; otherwise it queues with host writes in
    /// order of arrival.
    pub gc_yields: bool,
    /// With more queued background operations than this on one array, background work goes before host writes, and by
    /// turns with host reads that have priority.
    pub gc_backlog_ops: u32,
    /// The same while an array has no erased page, and a share of background work before each host write while it has few: the
    /// FTL counts a block as free when it decides to collect it, and the erase may be queued for long. `None` = the device may
    /// fall behind as it likes.
    pub free_blocks: Option<FreeBlocks>,
    /// Beyond `gc_backlog_ops` background work also goes before host reads, all of it, and is not suspended. A collection
    /// of a large block then holds reads for as long as it takes, which no drive does: reads need no free block.
    pub gc_holds_reads: bool,
    /// A request starts its own operations only after the background work of its list (foreground GC).
    pub blocking_gc: bool,
    /// Suspend programs and erases for host reads; `None` = the part cannot. Needs `read_priority`.
    pub suspend: Option<Suspend>,
    /// Queued neighbours of the same kind on different planes of one die run as one array operation.
    pub multi_plane: bool,
    /// Each plane is an array of its own (read, program and erase at any time); overrides `multi_plane`.
    pub independent_planes: bool,
    /// Time added to every request outside the flash, in nanoseconds.
    pub controller_overhead_ns: u64,
    /// Units that make and apply deltas ([`ControllerWork::codec_ns`]); 0 = as many as there are requests.
    pub codec_units: usize,
    /// Reading [`NVRAM_LINE_BYTES`] of NVRAM in a scan, in picoseconds.
    pub nvram_line_read_ps: u64,
    /// Writes acknowledged before they are programmed: the number that may be unfinished; 0 = acknowledge when
    /// programmed. When full, one more write is acknowledged per write whose flash operations finish. A flush completes when all
    /// writes before it are programmed.
    pub buffered_writes: usize,
    /// Keep the completion time of every request for [`Timing::take_completions`] (24 bytes each).
    pub keep_completions: bool,
    /// Requests come whatever is unfinished: [`Timing::outstanding`] and [`Timing::complete_one`] are not called. Timelines
    /// then keep no list of what is unfinished (8 bytes each, and a tenth of the time).
    pub open_loop: bool,
}

/// Free blocks that the FTL keeps for an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreeBlocks {
    /// Their number while collection rests.
    pub blocks: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
}

impl FreeBlocks {
    fn pages(self) -> i64 {
        i64::from(self.pages_per_block) * i64::from(self.blocks)
    }

    /// Pages of them that wait for an erase: the blocks whose erase is queued, less what the copies in the queue will fill. A
    /// copy is a read and a program, so every other operation beside the erases programs a page.
    #[inline]
    fn pages_awaited(self, queued_ops: u32, queued_erases: u32) -> i64 {
        let to_program = i64::from((queued_ops - queued_erases).div_ceil(2));
        i64::from(self.pages_per_block) * i64::from(queued_erases) - to_program
    }

    /// Whether no page is erased that a host write could program: the FTL has these blocks and what collections gained, and
    /// all of it waits for an erase.
    #[inline]
    fn are_used_up(self, queued_ops: u32, queued_erases: u32, gained_pages: i64) -> bool {
        self.pages_awaited(queued_ops, queued_erases) >= self.pages() + gained_pages
    }

    /// Background operations that go before each host write. None while at most half of the blocks wait for their erase; else
    /// as many as leave that half when what collections gained is written, and the next collection begins.
    #[inline]
    fn background_ops_per_write(self, queued_ops: u32, queued_erases: u32, gained_pages: i64) -> u32 {
        let awaited = self.pages_awaited(queued_ops, queued_erases);
        let excess = awaited - self.pages() / 2;
        if excess <= 0 {
            return 0;
        }
        let per_write = i64::from(queued_ops) * excess / (awaited * gained_pages.max(1));
        per_write.try_into().unwrap_or(u32::MAX)
    }
}

impl Default for TimingOptions {
    /// A plain modern controller: read priority, yielding GC, nothing optional.
    fn default() -> Self {
        Self {
            read_priority: true,
            gc_yields: true,
            gc_backlog_ops: u32::MAX,
            free_blocks: None,
            gc_holds_reads: false,
            blocking_gc: false,
            suspend: None,
            multi_plane: false,
            independent_planes: false,
            controller_overhead_ns: 0,
            codec_units: 0,
            nvram_line_read_ps: 50_000,
            buffered_writes: 0,
            keep_completions: false,
            open_loop: false,
        }
    }
}

/// Where a plane belongs.
#[derive(Clone, Copy, Debug)]
struct Place {
    array: u32,
    /// Number of the plane within its die, modulo 64.
    plane_in_die: u8,
}

/// Flash units that take part in timing, shared by the engines.
#[derive(Clone, Debug)]
struct Layout {
    /// By plane.
    planes: Vec<Place>,
    /// Channel of each array.
    channel_of_array: Vec<u32>,
    channels: usize,
    /// Planes that a block lies on.
    planes_per_block: usize,
}

impl Layout {
    fn new(geometry: &Geometry, independent_planes: bool) -> Self {
        let planes_per_array = if independent_planes { 1 } else { geometry.planes_per_die };
        let place = |plane| Place {
            array: plane / planes_per_array,
            plane_in_die: (plane % geometry.planes_per_die % 64) as u8,
        };
        let channel = |array| geometry.channel_of(PlaneId(array * planes_per_array));
        Self {
            planes: (0..geometry.planes()).map(place).collect(),
            channel_of_array: (0..geometry.planes() / planes_per_array).map(channel).collect(),
            channels: geometry.channels as usize,
            planes_per_block: geometry.superblock_planes as usize,
        }
    }

    /// The arrays that hold the block whose first plane is `plane`, each once; none for no plane.
    fn arrays_of_block(&self, plane: PlaneId) -> Vec<u32> {
        let Some(first) = plane.some() else { return Vec::new() };
        let planes = &self.planes[first.index()..first.index() + self.planes_per_block];
        let mut arrays: Vec<u32> = planes.iter().map(|place| place.array).collect();
        arrays.dedup();
        arrays
    }

    /// The same with so many arrays on every channel that they fill eights, and the numbers of those that there are.
    fn in_eights(&self) -> (Self, Vec<u32>) {
        let there_are = (self.arrays() / self.channels) as u32;
        let stride = there_are.next_multiple_of(8);
        let numbers: Vec<u32> = (0..)
            .zip(&self.channel_of_array)
            .map(|(array, channel)| channel * stride + array % there_are)
            .collect();
        let place = |&place: &Place| Place { array: numbers[place.array as usize], ..place };
        let layout = Self {
            planes: self.planes.iter().map(place).collect(),
            channel_of_array: (0..self.channels as u32)
                .flat_map(|channel| std::iter::repeat_n(channel, stride as usize))
                .collect(),
            channels: self.channels,
            planes_per_block: self.planes_per_block,
        };
        (layout, numbers)
    }

    fn arrays(&self) -> usize {
        self.channel_of_array.len()
    }
}

/// What a request takes of the controller beside the flash, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ControllerWork {
    /// Work that requests do side by side (hashing, encoding): it delays the request's own answer.
    pub own_ns: u64,
    /// Stores to NVRAM. There is one NVRAM, and its bandwidth is the limit: requests wait for each other, and for a scan
    /// that is under way.
    pub nvram_ns: u64,
    /// Making and applying deltas, when the flash operations are done: a part of `own_ns` for which requests wait for each
    /// other if [`TimingOptions::codec_units`] is set.
    pub codec_ns: u64,
}

/// A timing engine. All times are nanoseconds since the start of the run.
#[derive(Clone, Debug)]
pub struct Timing {
    engine: Engine,
}

#[derive(Clone, Debug)]
enum Engine {
    None(Box<latency::Ledger>),
    Timeline(Box<TimelineEngine>),
    Event(Box<EventEngine>),
}

impl Timing {
    /// An engine for an idle device at time 0.
    ///
    /// # Panics
    /// If `options.suspend` is set without `options.read_priority`.
    pub fn new(mode: TimingMode, geometry: &Geometry, flash: FlashTiming, options: TimingOptions) -> Self {
        assert!(
            options.suspend.is_none() || options.read_priority,
            "suspension serves reads that have priority"
        );
        let layout = Layout::new(geometry, options.independent_planes);
        let engine = match mode {
            TimingMode::None => Engine::None(Box::new(latency::Ledger::new(options.keep_completions))),
            TimingMode::Timeline => Engine::Timeline(Box::new(TimelineEngine::new(&layout, flash, &options))),
            TimingMode::Event => Engine::Event(Box::new(EventEngine::new(&layout, flash, options))),
        };
        Self { engine }
    }

    /// Prices one host request and returns its number: 0, 1, 2, .. in order of submission. Latency counts from
    /// `arrival_ns`; a request that arrives in the past (a driver that held it back) starts now. Cost: O(operations).
    ///
    /// # Panics
    /// If an operation's `after` reaches before the list or its plane is outside the geometry.
    #[inline]
    pub fn submit(&mut self, kind: RequestKind, arrival_ns: u64, ops: &[FlashOp]) -> u64 {
        self.submit_with_work(kind, arrival_ns, ControllerWork::default(), ops)
    }

    /// As [`Timing::submit`], for a request that also takes time of the controller: its answer comes that much later, and
    /// the flash is not held up.
    #[inline]
    pub fn submit_with_work(
        &mut self,
        kind: RequestKind,
        arrival_ns: u64,
        work: ControllerWork,
        ops: &[FlashOp],
    ) -> u64 {
        match &mut self.engine {
            Engine::None(ledger) => ledger.pass(kind, arrival_ns),
            Engine::Timeline(engine) => engine.submit(kind, arrival_ns, work, ops),
            Engine::Event(engine) => engine.submit(kind, arrival_ns, work, ops),
        }
    }

    /// Prices flash work that belongs to no host request (idle GC, checkpoints), whatever its causes.
    pub fn submit_background(&mut self, arrival_ns: u64, ops: &[FlashOp]) {
        match &mut self.engine {
            Engine::None(ledger) => ledger.now_ns = ledger.now_ns.max(arrival_ns),
            Engine::Timeline(engine) => engine.submit_background(arrival_ns, ops),
            Engine::Event(engine) => engine.submit_background(arrival_ns, ops),
        }
    }

    /// Host requests that have not completed yet.
    ///
    /// # Panics
    /// On timelines, if [`TimingOptions::open_loop`] says that nobody asks.
    #[inline]
    pub fn outstanding(&mut self) -> usize {
        match &mut self.engine {
            Engine::None(_) => 0,
            Engine::Timeline(engine) => engine.outstanding(),
            Engine::Event(engine) => engine.outstanding(),
        }
    }

    /// Runs until some host request completes and returns its completion time; `None` if none is outstanding.
    /// Requests that complete inside `submit` (before the new arrival) lower [`Timing::outstanding`] and are not
    /// reported again.
    ///
    /// # Panics
    /// As [`Timing::outstanding`].
    #[inline]
    pub fn complete_one(&mut self) -> Option<u64> {
        match &mut self.engine {
            Engine::None(_) => None,
            Engine::Timeline(engine) => engine.complete_one(),
            Engine::Event(engine) => engine.complete_one(),
        }
    }

    /// Runs until no host request is outstanding, but not beyond `to_ns`; whether none is then. [`Timing::now_ns`] is the
    /// time when the last one completed, if one did: an idle device is idle from then on.
    pub fn complete_until(&mut self, to_ns: u64) -> bool {
        match &mut self.engine {
            Engine::None(_) => true,
            Engine::Timeline(engine) => engine.complete_until(to_ns),
            Engine::Event(engine) => engine.complete_until(to_ns),
        }
    }

    /// The time up to which the device has been simulated.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        match &self.engine {
            Engine::None(ledger) => ledger.now_ns,
            Engine::Timeline(engine) => engine.now_ns(),
            Engine::Event(engine) => engine.now_ns(),
        }
    }

    /// Runs everything, background work included, to its end and returns the time of the last event.
    pub fn drain(&mut self) -> u64 {
        match &mut self.engine {
            Engine::None(ledger) => ledger.now_ns,
            Engine::Timeline(engine) => engine.drain(),
            Engine::Event(engine) => engine.drain(),
        }
    }

    /// Latencies of completed requests of one kind, in nanoseconds. Summarise with [`LatencySummary::of`].
    pub fn latency(&self, kind: RequestKind) -> &Histogram<u64> {
        self.ledger().histogram(kind)
    }

    /// The figures of the completed requests of one kind: percentiles within 0.1 %, mean and maximum exact.
    pub fn latency_summary(&self, kind: RequestKind) -> LatencySummary {
        self.ledger().summary(kind)
    }

    /// Completions since the last call, in order of completion time (timeline: of submission). Empty unless
    /// [`TimingOptions::keep_completions`] is set.
    pub fn take_completions(&mut self) -> Vec<Completion> {
        match &mut self.engine {
            Engine::None(ledger) => ledger.take(),
            Engine::Timeline(engine) => engine.ledger_mut().take(),
            Engine::Event(engine) => engine.ledger_mut().take(),
        }
    }

    /// Time each array has been busy so far, in nanoseconds. An array is a die, or a plane with
    /// [`TimingOptions::independent_planes`]; it is busy while it works, holds data for its channel, or is suspended.
    pub fn array_busy_ns(&self) -> Vec<u64> {
        match &self.engine {
            Engine::None(_) => Vec::new(),
            Engine::Timeline(engine) => engine.array_busy_ns(),
            Engine::Event(engine) => engine.array_busy_ns(),
        }
    }

    /// Time each channel has been granted to transfers so far, in nanoseconds.
    pub fn channel_busy_ns(&self) -> Vec<u64> {
        match &self.engine {
            Engine::None(_) => Vec::new(),
            Engine::Timeline(engine) => engine.channel_busy_ns(),
            Engine::Event(engine) => engine.channel_busy_ns(),
        }
    }

    /// Flash operations completed so far (timeline: priced).
    pub fn completed_ops(&self) -> u64 {
        match &self.engine {
            Engine::None(_) => 0,
            Engine::Timeline(engine) => engine.completed_ops(),
            Engine::Event(engine) => engine.completed_ops(),
        }
    }

    fn ledger(&self) -> &latency::Ledger {
        match &self.engine {
            Engine::None(ledger) => ledger,
            Engine::Timeline(engine) => engine.ledger(),
            Engine::Event(engine) => engine.ledger(),
        }
    }
}
