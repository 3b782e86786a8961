//! The run record: everything a result needs to be trusted, repeated and compared, in one self-contained value.
//!
//! Terminal tables, JSON and CSV are views of it. Names and units of the fields are stable; fields are added, not
//! changed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wearwell::nand::FlashTiming;
use wearwell::recovery::StepCost;
use wearwell::timing::LatencySummary;
use wearwell_config::{Arrival, Config, blocks_kept};

use crate::steadiness::Steadiness;
use crate::timeline::Timeline;

/// One design's run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    /// Name of the design.
    pub design: String,
    /// Settings that tell the run from others of a comparison; empty if the design does.
    #[serde(default)]
    pub variant: String,
    /// Version of this software.
    pub version: String,
    /// Seed.
    pub seed: u64,
    /// The input was not replayed to its end; figures describe the part before.
    pub partial: bool,
    /// Why the run ended early.
    pub partial_reason: Option<String>,
    /// The input.
    pub trace: TraceRecord,
    /// The device.
    pub device: DeviceRecord,
    /// What was written, in bytes.
    #[serde(default)]
    pub bytes: BytesRecord,
    /// Whether write amplification was steady.
    #[serde(default)]
    pub steady: Steadiness,
    /// Pages that left the write buffer towards the FTL.
    pub host_page_writes: u64,
    /// Pages read by the host from the FTL.
    pub host_page_reads: u64,
    /// Pages deallocated.
    pub host_page_trims: u64,
    /// Pages that the host asked to remap. Where the design has no remap they are also counted as page reads, writes
    /// and trims, as far as they cost one.
    #[serde(default)]
    pub host_page_remaps: u64,
    /// Page writes absorbed by the write buffer.
    pub buffer_absorbed_writes: u64,
    /// Host page writes served by reviving a dead page.
    pub recycled_writes: u64,
    /// Host page writes by what became of them: page, recycled, deduplicated, delta, packed.
    #[serde(default)]
    pub writes_by_form: BTreeMap<String, u64>,
    /// Share of host page writes that cost no program of their own.
    pub write_reduction: f64,
    /// Page programs.
    pub programs: u64,
    /// Page programs by cause; causes without any are absent.
    pub programs_by_cause: BTreeMap<String, u64>,
    /// Page and spare-area reads.
    pub reads: u64,
    /// The same by cause.
    pub reads_by_cause: BTreeMap<String, u64>,
    /// Those of them that read only a spare area, by cause.
    #[serde(default)]
    pub spare_reads_by_cause: BTreeMap<String, u64>,
    /// Flash pages found unreadable.
    #[serde(default)]
    pub media_errors: u64,
    /// Pages programmed as lost: what collection carried on of pages that could not be read.
    #[serde(default)]
    pub lost_pages: u64,
    /// Block erases.
    pub erases: u64,
    /// The same by cause.
    pub erases_by_cause: BTreeMap<String, u64>,
    /// `programs / host_page_writes`: in pages. [`BytesRecord::write_amplification`] counts bytes.
    pub write_amplification: f64,
    /// How requests came, and how many were answered.
    #[serde(default)]
    pub service: ServiceRecord,
    /// Latencies, microseconds; zero without timing.
    pub latency_us: LatencyRecord,
    /// Time model.
    pub timing: TimeRecord,
    /// Wear and lifetime.
    pub lifetime: LifetimeRecord,
    /// Figures of the design's parts, by name.
    pub parts: BTreeMap<String, f64>,
    /// RAM of a controller for this design, bytes.
    pub ram_bytes: u64,
    /// The same by structure.
    pub ram_bytes_by_structure: BTreeMap<String, u64>,
    /// Counters over the run, at most 200 points.
    pub series: Vec<SeriesPoint>,
    /// What happened over time and where on the flash, if `replay.timeline_cells` asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// Counters at the end of each phase, for inputs that have phases: differences are what a phase did.
    #[serde(default)]
    pub phases: Vec<SeriesPoint>,
    /// What the recovery after the last request took, if one was asked for.
    #[serde(default)]
    pub recovery: Option<RecoveryRecord>,
    /// What figures rest on a model rather than on the input.
    pub notes: Vec<String>,
    /// Largest resident memory of this process during the run, bytes (0 where the system does not tell).
    pub peak_rss_bytes: u64,
    /// CPU time of the measured part of the replay, seconds.
    pub cpu_seconds: f64,
    /// CPU time of preconditioning, seconds.
    pub precondition_cpu_seconds: f64,
    /// The configuration with every value that the run used: it gives the same run again, on this input.
    pub config: Config,
}

impl RunRecord {
    /// With the years of a drive of so many exported bytes, if a size is given.
    #[must_use]
    pub fn scaled_to(mut self, bytes: Option<u64>) -> Self {
        let exported = self.device.logical_pages as f64 * f64::from(self.device.page_bytes);
        self.lifetime.scale_to_bytes = bytes;
        self.lifetime.scaled_years =
            bytes.and_then(|bytes| Some(self.lifetime.years? * bytes as f64 / exported));
        self
    }

    /// The design and what tells the run from others.
    pub fn label(&self) -> String {
        if self.variant.is_empty() {
            self.design.clone()
        } else {
            format!("{} {}", self.design, self.variant)
        }
    }
}

/// A recovery that was executed: operations counted, and priced one after the other.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryRecord {
    /// All of it, without what a battery wrote.
    pub total: RecoveryCost,
    /// Pages that a battery wrote when power went away.
    pub battery_programs: u64,
    /// Steps by name, where the recovery has steps; those that took nothing are absent.
    pub steps: BTreeMap<String, RecoveryCost>,
}

/// Flash operations of a recovery or of one of its steps, and their time.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryCost {
    /// Spare areas read.
    pub spare_reads: u64,
    /// Pages read.
    pub page_reads: u64,
    /// Pages programmed.
    pub programs: u64,
    /// Time, seconds.
    pub time_s: f64,
}

/// Times of flash operations in a recovery, which does one after the other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RecoveryCosts {
    /// Reading a spare area.
    pub spare_read_us: f64,
    /// Reading a page.
    pub page_read_us: f64,
    /// Programming a page.
    pub program_us: f64,
}

impl RecoveryCosts {
    /// A spare area is read in 3 us where a page is read in 100 (`GeckoFTL`, section 2).
    pub fn of(timing: &FlashTiming) -> Self {
        let page_read_us = timing.read_ns as f64 / 1000.0;
        Self {
            spare_read_us: 0.03 * page_read_us,
            page_read_us,
            program_us: timing.program_ns as f64 / 1000.0,
        }
    }

    /// Operations with their time.
    pub fn price(&self, cost: &StepCost) -> RecoveryCost {
        let StepCost { spare_reads, page_reads, programs } = *cost;
        let time_us = spare_reads as f64 * self.spare_read_us
            + page_reads as f64 * self.page_read_us
            + programs as f64 * self.program_us;
        RecoveryCost { spare_reads, page_reads, programs, time_s: time_us / 1e6 }
    }
}

/// The input of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TraceRecord {
    /// File or workload specification.
    pub path: String,
    /// SHA-256 of the file; absent for generated workloads.
    pub sha256: Option<String>,
    /// Requests replayed and measured.
    pub requests: u64,
    /// Requests used for aging, before measurement.
    pub aging_requests: u64,
    /// Lines skipped as bad.
    pub rejected: u64,
    /// Distinct 4-KiB pages touched.
    pub footprint_pages: u64,
    /// From first to last measured request, seconds of trace time.
    pub duration_s: f64,
}

/// What was written, in bytes: of pages a write that fills a part of one counts as a whole.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BytesRecord {
    /// Bytes of the host's write requests.
    pub host_written: u64,
    /// Bytes of all page programs.
    pub programmed: u64,
    /// `programmed / host_written`; absent if the host wrote nothing.
    pub write_amplification: Option<f64>,
    /// The smallest piece that the map can place, bytes: the device's page.
    pub mapping_unit: u32,
    /// Bytes still in the write buffer at the end: written by the host, and not programmed. 0 unless `buffer.keep_at_end`, or the
    /// loss of power behind the last request, leaves them there.
    pub buffered: u64,
    /// Page writes that left the write buffer, or came without one, with a part of their page: each programs a whole page.
    pub partial_page_writes: u64,
    /// Those of them whose page held data: it was read first (read-modify-write).
    pub completed_page_writes: u64,
    /// RAM of a controller whose map places 4 KiB, bytes, beside [`RunRecord::ram_bytes`]; absent where the device's pages are not
    /// larger.
    pub ram_of_4k_map: Option<u64>,
}

/// The device of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeviceRecord {
    /// Preset.
    pub preset: String,
    /// How flash is divided.
    pub layout: LayoutRecord,
    /// Planes per superblock.
    pub superblock_planes: u32,
    /// Data bytes per page.
    pub page_bytes: u32,
    /// Physical pages.
    pub physical_pages: u64,
    /// Exported pages.
    pub logical_pages: u64,
    /// (physical - reserve - logical) / logical.
    pub over_provisioning: f64,
    /// Blocks of each plane that are neither exported nor over-provisioning: what GC keeps free and open. 0 unless the device
    /// was sized to the input.
    #[serde(default)]
    pub reserve_blocks: f64,
    /// Free blocks per pool at or below which GC runs.
    pub gc_low_blocks: u32,
    /// Rated cycles.
    pub endurance_cycles: u32,
}

impl DeviceRecord {
    /// Dies of all channels.
    pub fn dies(&self) -> u32 {
        self.layout.channels * self.layout.dies_per_channel
    }

    /// Blocks of each plane that are no room for data, because GC keeps them free or they are open.
    pub fn blocks_kept(&self) -> f64 {
        blocks_kept(self.gc_low_blocks)
    }

    /// Over-provisioning without the blocks that GC keeps: what write amplification follows. Negative where they are more
    /// than the spare space.
    pub fn acting_over_provisioning(&self) -> f64 {
        let planes = self.dies() * self.layout.planes_per_die;
        let row_pages = f64::from(planes) * f64::from(self.layout.pages_per_block);
        let kept = (self.blocks_kept() - self.reserve_blocks).max(0.0) * row_pages;
        self.over_provisioning - kept / self.logical_pages as f64
    }

    /// Pages that are erased together.
    pub fn block_pages(&self) -> u32 {
        self.layout.pages_per_block * self.superblock_planes
    }
}

/// Channels, dies, planes, blocks and pages of a device.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LayoutRecord {
    /// Channels.
    pub channels: u32,
    /// Dies of a channel.
    pub dies_per_channel: u32,
    /// Planes of a die.
    pub planes_per_die: u32,
    /// Blocks of a plane.
    pub blocks_per_plane: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
}

/// Latency distributions.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LatencyRecord {
    /// Host reads.
    pub read: Latency,
    /// Host writes.
    pub write: Latency,
    /// Flushes: what the host waits for where writes are answered before they are programmed.
    #[serde(default)]
    pub flush: Latency,
}

/// How requests came, and how many the drive answered. Absent figures need a timing engine.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServiceRecord {
    /// When requests came, as it was in effect: at the input's times, closed loop or think time.
    pub arrival: Option<Arrival>,
    /// Requests in flight in closed loop.
    pub queue_depth: Option<u32>,
    /// Requests answered per second of device time (IOPS).
    pub requests_per_s: Option<f64>,
    /// Bytes read and written by the host per second of device time, MB/s (10^6).
    pub mb_per_s: Option<f64>,
    /// Seconds from the last arrival to the last answer, where requests come at the input's times.
    pub queue_at_end_s: Option<f64>,
    /// Requests came faster than the drive answers them: latencies are the length of the queue, and grow with the run.
    pub is_overloaded: bool,
    /// Host page reads of pages that were never written, or deallocated: they cost no flash operation. Requests that read
    /// nothing else are left out of read latencies.
    pub unwritten_page_reads: u64,
}

/// One distribution, microseconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Requests.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// 99.99th percentile.
    pub p9999: f64,
    /// Largest.
    pub max: f64,
    /// The same from the bins of the histogram alone, which the records of reproduced papers hold.
    #[serde(skip)]
    pub binned: Option<Box<Latency>>,
}

impl From<LatencySummary> for Latency {
    fn from(summary: LatencySummary) -> Self {
        let us = |ns: u64| ns as f64 / 1000.0;
        Self {
            count: summary.count,
            mean: summary.mean_ns / 1000.0,
            p50: us(summary.p50_ns),
            p90: us(summary.p90_ns),
            p99: us(summary.p99_ns),
            p999: us(summary.p999_ns),
            p9999: us(summary.p9999_ns),
            max: us(summary.max_ns),
            ..Self::default()
        }
    }
}

/// Device time.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TimeRecord {
    /// Engine.
    pub mode: String,
    /// When the last operation ended, seconds of device time since the first measured request.
    pub device_s: f64,
    /// Busy share of the dies (or planes).
    pub array_utilisation: f64,
    /// Busy share of the channels.
    pub channel_utilisation: f64,
}

/// Wear, how long the device lasts at this rate, and what was done about it. A year has 365 days.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LifetimeRecord {
    /// Erases per block in the measured part, mean over all blocks.
    pub mean_erases_per_block: f64,
    /// Wear of the most worn block since the device was new.
    pub max_erase_count: u32,
    /// Wear of the least worn block.
    pub min_erase_count: u32,
    /// Share of the rated cycles that the measured part used.
    pub endurance_used: f64,
    /// Bytes that the host can write until all rated cycles are used, TB (10^12): `physical bytes x cycles / write
    /// amplification in bytes` over the steady part (over all without one). Absent if no block was erased or nothing written.
    pub host_tb_written_until_worn: Option<f64>,
    /// Whether that part was steady. If not, `host_tb_written_until_worn`, `years`, `scaled_years` and `drive_writes_per_day` are
    /// figures of the moment: a longer run of the same load gives others.
    pub is_from_steady_part: bool,
    /// Years until then at the rate of host bytes in `elapsed_s`; absent without time.
    pub years: Option<f64>,
    /// Years of a drive of `scale_to_bytes` exported bytes that takes the same bytes per second: it takes fewer drive writes,
    /// and its write amplification is the same if what is written to it, and where, grows in proportion.
    pub scaled_years: Option<f64>,
    /// The size of that drive, if one was asked for.
    pub scale_to_bytes: Option<u64>,
    /// Drive writes a day that use the rated cycles up in five years: the usual rating (DWPD). Absent as TB written.
    pub drive_writes_per_day: Option<f64>,
    /// Years by the programs of the whole measured part, also before the first collection.
    pub years_by_programs: Option<f64>,
    /// As `years_by_programs`, from what came after the first epoch of lifetime management, in which nothing is known and
    /// nothing is done: of five years that epoch is a 500,000th, of a short run a large part. Absent without management.
    pub years_after_first_epoch: Option<f64>,
    /// Mean response time of host writes until their content is on flash or bound, microseconds. Pages that gather in a chunk
    /// have the response of the write that completes it. 0 without timing or compression: `latency_us.write` says it then.
    pub write_until_programmed_us: f64,
    /// Time that the measured part took, seconds: the trace's in open loop, else the device's.
    pub elapsed_s: f64,
    /// Energy of programs, hashing and compression per host page write, microjoules, at IL's powers and times; reads and
    /// erases are left out, as there.
    pub energy_uj_per_page: f64,
    /// Time for which throttling held host writes back, seconds.
    pub held_s: f64,
    /// Host writes held back.
    pub held_writes: u64,
    /// Epochs of lifetime management in which requests came; 0 without management.
    pub epochs: u64,
    /// Those in which writes were throttled.
    pub throttled_epochs: u64,
    /// For how long each content scheme ran under lifetime management, by its name in `parts.content`; empty without.
    pub schemes: BTreeMap<String, SchemeRecord>,
}

/// For how long a content scheme ran.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SchemeRecord {
    /// Epochs in which it ran.
    pub epochs: u64,
    /// Share of the host's page writes that came in these epochs.
    pub share_of_writes: f64,
}

/// Counters at one moment of the run.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SeriesPoint {
    /// Requests so far.
    pub requests: u64,
    /// Host page writes so far.
    pub host_page_writes: u64,
    /// Bytes of the host's write requests so far.
    #[serde(default)]
    pub host_bytes: u64,
    /// Pages that the host remapped so far.
    #[serde(default)]
    pub host_page_remaps: u64,
    /// Programs so far.
    pub programs: u64,
    /// Erases so far.
    pub erases: u64,
    /// Recycled writes so far.
    pub recycled_writes: u64,
    /// Free blocks now.
    pub free_blocks: u32,
    /// Device time, seconds; 0 without timing.
    #[serde(default)]
    pub device_s: f64,
}

impl SeriesPoint {
    /// Before the first request.
    pub const ZERO: Self = Self {
        requests: 0,
        host_page_writes: 0,
        host_bytes: 0,
        host_page_remaps: 0,
        programs: 0,
        erases: 0,
        recycled_writes: 0,
        free_blocks: 0,
        device_s: 0.0,
    };
}
