//! The run record: everything that is needed to trust, repeat and compare a result, in one self-contained value.
//!
//! Terminal tables, JSON and CSV are views of the record. Names and units of its fields are stable; fields are added,
//! not changed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wearwell::nand::{FlashTiming, Geometry};
use wearwell::recovery::RecoveryStepCost;
use wearwell::timing::LatencySummary;
use wearwell_config::{Arrival, Config, Origin, free_and_unwritten_blocks_per_pool};

pub use crate::series_point::SeriesPoint;
use crate::steadiness::Steadiness;
use crate::timeline::Timeline;

/// The result of one design's run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    /// Name of the design.
    pub design: String,
    /// Settings that distinguish this run from the others of a comparison; empty if the design's name suffices.
    #[serde(default)]
    pub variant: String,
    /// Version of this software.
    pub version: String,
    /// Seed of all random choices of the run.
    pub seed: u64,
    /// Whether the run ended before the end of the input; all figures of the record then describe the part that was
    /// replayed.
    pub partial: bool,
    /// Why the run ended before the end of the input; absent if it did not.
    pub partial_reason: Option<String>,
    /// The input of the run.
    pub trace: TraceRecord,
    /// The device of the run.
    pub device: DeviceRecord,
    /// Bytes that the host wrote and bytes that were programmed in the run.
    #[serde(default)]
    pub bytes: BytesRecord,
    /// Whether write amplification was steady in the measured part of the run.
    #[serde(default)]
    pub steady: Steadiness,
    /// Page writes that the FTL received from the write buffer, or from the host if there is no write buffer.
    pub host_page_writes: u64,
    /// Page reads that the FTL served for the host.
    pub host_page_reads: u64,
    /// Pages that the host deallocated (trimmed).
    pub host_page_trims: u64,
    /// Pages that the host requested to remap. On a design without remaps they are executed as page reads, writes and
    /// trims, and are counted as these too.
    #[serde(default)]
    pub host_page_remaps: u64,
    /// Page writes that the write buffer absorbed, so that the FTL did not receive them: the page was written again, or
    /// trimmed, while it was in the buffer.
    pub buffer_absorbed_writes: u64,
    /// Host page writes that programmed nothing because a dead page with equal content was revived.
    pub recycled_writes: u64,
    /// Host page writes by the form in which they were stored: `page` (whole), `unchanged` (not at all: the page had
    /// the content already), `recycled` (by reviving a dead page), `deduplicated` (mapped to a stored page of equal
    /// content), `delta`, or `packed` (into a compressed chunk).
    #[serde(default)]
    pub writes_by_form: BTreeMap<String, u64>,
    /// Share of host page writes that needed no page program for host data: `(writes - programs) / writes`, or 0 without
    /// host page writes. Programs of garbage collection do not count.
    pub write_reduction: f64,
    /// Page programs of all causes.
    pub programs: u64,
    /// Page programs by cause; causes without any are absent.
    pub programs_by_cause: BTreeMap<String, u64>,
    /// Flash page reads of all causes, including reads of the spare area alone.
    pub reads: u64,
    /// Flash reads by cause; causes without any are absent.
    pub reads_by_cause: BTreeMap<String, u64>,
    /// Flash reads that read only a spare area, by cause; they are included in `reads_by_cause`.
    #[serde(default)]
    pub spare_reads_by_cause: BTreeMap<String, u64>,
    /// Flash pages that could not be read.
    #[serde(default)]
    pub media_errors: u64,
    /// Pages whose data was lost: garbage collection could not read them, and programmed a page marked as lost in their
    /// place.
    #[serde(default)]
    pub lost_pages: u64,
    /// Block erases of all causes.
    pub erases: u64,
    /// Block erases by cause; causes without any are absent.
    pub erases_by_cause: BTreeMap<String, u64>,
    /// Write amplification in pages: `programs / host_page_writes`, or 0 without host page writes.
    /// [`BytesRecord::write_amplification`] counts bytes.
    pub write_amplification: f64,
    /// How requests arrived in the run, and how many the drive answered.
    #[serde(default)]
    pub service: ServiceRecord,
    /// Latencies of host requests, microseconds; zero without a timing engine.
    pub latency_us: LatencyRecord,
    /// Figures of the time model for the run: device time and utilisation.
    pub timing: TimeRecord,
    /// Wear of the blocks in the run, and lifetime extrapolated from it.
    pub lifetime: LifetimeRecord,
    /// Figures that the parts of the design (map, page validity, content mechanisms and others) counted in the run, by
    /// name, such as map cache hits or merges; figures that are zero are absent.
    pub parts: BTreeMap<String, f64>,
    /// RAM that a controller needs for this design, bytes.
    pub ram_bytes: u64,
    /// RAM of the controller by data structure, bytes.
    pub ram_bytes_by_structure: BTreeMap<String, u64>,
    /// Time series: the counters of the run at regular moments, at most 200 points.
    pub series: Vec<SeriesPoint>,
    /// Timeline of the run (counters, latencies and maps of the blocks); recorded only if `replay.timeline_cells` is
    /// set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// Counters at the end of each phase of the run, for inputs that have phases; the difference of two successive
    /// entries is the activity of a phase.
    #[serde(default)]
    pub phases: Vec<SeriesPoint>,
    /// Cost of the recovery from a loss of power after the last request, or after `recovery.after_requests` requests,
    /// if the configuration sets one.
    #[serde(default)]
    pub recovery: Option<RecoveryRecord>,
    /// Remarks on the result, such as which figures rest on a model rather than on the input.
    pub notes: Vec<String>,
    /// Largest resident memory of this process during the run, bytes; 0 on systems that do not report it.
    pub peak_rss_bytes: u64,
    /// CPU time of the measured part of the replay, seconds.
    pub cpu_seconds: f64,
    /// CPU time of preconditioning, seconds.
    pub precondition_cpu_seconds: f64,
    /// The configuration with every value that the run used; another run with it on the same input has the same result.
    pub config: Config,
    /// Origin of each value of the configuration (such as file, command line or preset), by key (`section.key`). Keys
    /// that are not listed have their default. The list also has the parts of the design, and keys that are not in
    /// `config` themselves but determine values in it (such as `device.over_provisioning`).
    #[serde(default)]
    pub origins: BTreeMap<String, Origin>,
}

impl RunRecord {
    /// Returns the record with the lifetime in years also scaled to a drive that exports `bytes` bytes. If `bytes` is
    /// `None`, the record gets no scaled years.
    #[must_use]
    pub fn with_years_scaled_to_exported_bytes(mut self, bytes: Option<u64>) -> Self {
        let exported = self.device.logical_pages as f64 * f64::from(self.device.page_bytes);
        self.lifetime.scale_to_bytes = bytes;
        self.lifetime.scaled_years =
            bytes.and_then(|bytes| Some(self.lifetime.years? * bytes as f64 / exported));
        self
    }

    /// Returns the design's name, followed by the settings that distinguish the run from others.
    pub fn design_and_variant(&self) -> String {
        if self.variant.is_empty() {
            self.design.clone()
        } else {
            format!("{} {}", self.design, self.variant)
        }
    }
}

/// A recovery from a loss of power that was executed in the simulation. Its flash operations are counted, and its time
/// is the sum of their times, as if they ran one after the other.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryRecord {
    /// Cost of the whole recovery, without the pages that a battery wrote.
    pub total: RecoveryCost,
    /// Pages that a battery wrote to flash when the power was lost.
    pub battery_programs: u64,
    /// Cost of the steps of recovery by name; steps without flash operations are absent.
    pub steps: BTreeMap<String, RecoveryCost>,
}

/// Flash operations of a recovery (or of one of its steps), and the time that they take.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryCost {
    /// Reads of spare areas alone during the recovery.
    pub spare_reads: u64,
    /// Reads of whole pages during the recovery.
    pub page_reads: u64,
    /// Page programs during the recovery.
    pub programs: u64,
    /// Sum of the times of the recovery's flash operations, seconds.
    pub time_s: f64,
}

/// Times of the flash operations of a recovery, microseconds; the operations run one after the other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RecoveryOpTimes {
    /// Time to read a spare area, microseconds.
    pub spare_read_us: f64,
    /// Time to read a page, microseconds.
    pub page_read_us: f64,
    /// Time to program a page, microseconds.
    pub program_us: f64,
}

impl RecoveryOpTimes {
    /// Returns the times of recovery's operations on a flash device: tR or tPROG, and the transfer on the channel. A
    /// read of a spare area takes `spare_read_us` microseconds; if that is `None`, it takes tR and the transfer of the
    /// spare area.
    pub fn of_flash(timing: &FlashTiming, geometry: &Geometry, spare_read_us: Option<f64>) -> Self {
        let us = |array_ns: u64, bytes: u32| (array_ns + timing.transfer_ns(bytes)) as f64 / 1000.0;
        Self {
            spare_read_us: spare_read_us.unwrap_or_else(|| us(timing.read_ns, geometry.spare_bytes)),
            page_read_us: us(timing.read_ns, geometry.page_bytes),
            program_us: us(timing.program_ns, geometry.page_bytes),
        }
    }

    /// Returns the flash operations of a recovery step `cost` with the time that they take.
    pub fn cost_with_time(&self, cost: &RecoveryStepCost) -> RecoveryCost {
        let RecoveryStepCost { spare_reads, page_reads, programs } = *cost;
        let time_us = spare_reads as f64 * self.spare_read_us
            + page_reads as f64 * self.page_read_us
            + programs as f64 * self.program_us;
        RecoveryCost { spare_reads, page_reads, programs, time_s: time_us / 1e6 }
    }
}

/// The input of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TraceRecord {
    /// Path of the trace file, or the specification of a generated workload.
    pub path: String,
    /// SHA-256 of the trace file; absent for generated workloads.
    pub sha256: Option<String>,
    /// Number of requests replayed in the measured part.
    pub requests: u64,
    /// Number of requests that aged the device before the measured part.
    pub aging_requests: u64,
    /// Number of rejected lines: lines of the trace file that were skipped as invalid.
    pub rejected: u64,
    /// Number of distinct 4-KiB pages that the input touches.
    pub footprint_pages: u64,
    /// Time from the first to the last measured request, in the trace's own times, seconds.
    pub duration_s: f64,
}

/// Bytes that the host wrote and bytes that were programmed. Counters of pages count a write to a part of a page as a
/// whole page; these bytes count only the part.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BytesRecord {
    /// Bytes of the host's write requests in the run.
    pub host_written: u64,
    /// Bytes of all page programs in the run.
    pub programmed: u64,
    /// Write amplification in bytes: `programmed / host_written`; absent if the host wrote nothing.
    pub write_amplification: Option<f64>,
    /// Size of the map's unit, bytes: a page of the device.
    pub mapping_unit: u32,
    /// Bytes still in the write buffer at the end: written by the host and not programmed. 0 unless
    /// `buffer.keep_at_end` is set or power is lost after the last request.
    pub buffered: u64,
    /// Page writes to the FTL that cover only a part of their page; each of them programs a whole page.
    pub partial_page_writes: u64,
    /// Page writes that cover only a part of a page with data, so that the rest of the page was read first
    /// (read-modify-write).
    pub completed_page_writes: u64,
    /// RAM of a controller whose map has units of 4 KiB, bytes, for comparison with [`RunRecord::ram_bytes`]; absent if
    /// the pages of the device are 4 KiB or smaller.
    pub ram_of_4k_map: Option<u64>,
}

/// The device of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeviceRecord {
    /// Name of the device preset.
    pub preset: String,
    /// Number of channels, dies, planes, blocks and pages of the device.
    pub layout: LayoutRecord,
    /// Planes that form a superblock; 1 = plain blocks.
    pub superblock_planes: u32,
    /// Data bytes per page.
    pub page_bytes: u32,
    /// Number of physical pages, factory-bad blocks included.
    pub physical_pages: u64,
    /// Number of exported pages.
    pub logical_pages: u64,
    /// Over-provisioning: (physical - reserve - logical) / logical pages.
    pub over_provisioning: f64,
    /// Blocks of each plane that count neither as exported nor as over-provisioning: those that GC keeps free, the
    /// unwritten part of the open blocks, and the expected number of factory-bad blocks. 0 unless the device was sized
    /// to the input or the configuration sets them.
    #[serde(default)]
    pub reserve_blocks: f64,
    /// Number of blocks that are bad from the factory.
    #[serde(default)]
    pub factory_bad_blocks: u64,
    /// Number of free blocks of a pool (a plane, or the planes of a superblock) at or below which GC runs.
    pub gc_low_blocks: u32,
    /// Rated program/erase cycles of a block.
    pub endurance_cycles: u32,
}

impl DeviceRecord {
    /// Returns the number of dies of all channels.
    pub fn dies(&self) -> u32 {
        self.layout.channels * self.layout.dies_per_channel
    }

    /// Returns how many blocks of each plane hold no data because GC keeps them free, or because they are open and not
    /// yet written.
    pub fn blocks_without_data_per_plane(&self) -> f64 {
        free_and_unwritten_blocks_per_pool(self.gc_low_blocks)
    }

    /// Returns how many blocks of each plane are bad from the factory, on average.
    pub fn factory_bad_blocks_per_plane(&self) -> f64 {
        self.factory_bad_blocks as f64 / f64::from(self.dies() * self.layout.planes_per_die)
    }

    /// Returns the over-provisioning without the blocks that GC keeps free or open, and without those that are bad from
    /// the factory. This over-provisioning determines write amplification. It is negative if these blocks are more than
    /// the spare space.
    pub fn effective_over_provisioning(&self) -> f64 {
        let planes = self.dies() * self.layout.planes_per_die;
        let row_pages = f64::from(planes) * f64::from(self.layout.pages_per_block);
        let without_data = self.blocks_without_data_per_plane() + self.factory_bad_blocks_per_plane();
        let kept = (without_data - self.reserve_blocks).max(0.0) * row_pages;
        self.over_provisioning - kept / self.logical_pages as f64
    }

    /// Returns the number of pages that are erased together: those of a block or superblock.
    pub fn block_pages(&self) -> u32 {
        self.layout.pages_per_block * self.superblock_planes
    }
}

/// Physical layout of a device: its numbers of channels, dies, planes, blocks and pages.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LayoutRecord {
    /// Number of channels.
    pub channels: u32,
    /// Dies per channel.
    pub dies_per_channel: u32,
    /// Planes per die.
    pub planes_per_die: u32,
    /// Blocks per plane.
    pub blocks_per_plane: u32,
    /// Pages per block.
    pub pages_per_block: u32,
}

/// Latency distributions of host requests, microseconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LatencyRecord {
    /// Latency of host reads, microseconds.
    pub read: Latency,
    /// Latency of host writes, microseconds.
    pub write: Latency,
    /// Latency of flushes; if writes are acknowledged before they are programmed, the host waits for the programs here.
    #[serde(default)]
    pub flush: Latency,
}

/// How the host's requests arrived in a run, and at what rate the drive answered them; without a timing engine all
/// figures but `unwritten_page_reads` are absent.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServiceRecord {
    /// The arrival mode that was in effect in the run: at the input's times, closed loop, or think time.
    pub arrival: Option<Arrival>,
    /// Number of requests in flight; only in closed loop.
    pub queue_depth: Option<u32>,
    /// Requests answered per second of device time (IOPS).
    pub requests_per_s: Option<f64>,
    /// Rate of host reads and writes, MB (10^6 bytes) per second of device time.
    pub mb_per_s: Option<f64>,
    /// Backlog at the end of the run: time from the last arrival of a request to the last answer, seconds; only if
    /// requests arrive at the input's times.
    pub queue_at_end_s: Option<f64>,
    /// Whether requests arrived faster than the drive could answer them. Latencies then reflect the length of the
    /// queue, and grow with the run.
    pub is_overloaded: bool,
    /// Host page reads of pages that were never written, or were deallocated; they need no flash operation. Requests
    /// that read only such pages are left out of read latencies.
    pub unwritten_page_reads: u64,
}

/// A latency distribution of host requests, microseconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Number of requests in the latency distribution.
    pub count: u64,
    /// Mean latency, microseconds.
    pub mean: f64,
    /// Median latency, microseconds.
    pub p50: f64,
    /// 90th percentile of the latency, microseconds.
    pub p90: f64,
    /// 99th percentile of the latency, microseconds.
    pub p99: f64,
    /// 99.9th percentile of the latency, microseconds.
    pub p999: f64,
    /// 99.99th percentile of the latency, microseconds.
    pub p9999: f64,
    /// Largest latency, microseconds.
    pub max: f64,
    /// The same latency distribution as in the other fields, but computed only from the bins of the latency histogram,
    /// not from exact latencies; used only in records of reproduced papers.
    #[serde(skip)]
    pub binned: Option<Box<Latency>>,
}

impl From<LatencySummary> for Latency {
    fn from(summary: LatencySummary) -> Self {
        let us = |ns: u64| ns as f64 / 1000.0;
        Self {
            count: summary.request_count,
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

/// Figures of the timing engine for a run: simulated time and utilisation.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TimeRecord {
    /// Name of the timing engine.
    pub mode: String,
    /// Device time (simulated time) at which the last operation ended, seconds since the first measured request.
    pub device_s: f64,
    /// Share of the device time in which dies (or independent planes) were busy, mean over all of them.
    pub array_utilisation: f64,
    /// Share of the device time in which channels were busy, mean over all of them.
    pub channel_utilisation: f64,
}

/// Wear of the drive, the lifetime that it implies, and the work of lifetime management. A year has 365 days.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LifetimeRecord {
    /// Erases per block in the measured part, mean over all blocks.
    pub mean_erases_per_block: f64,
    /// Erases of the most worn block since the device was new.
    pub max_erase_count: u32,
    /// Erases of the least worn block since the device was new.
    pub min_erase_count: u32,
    /// Share of the rated program/erase cycles that the measured part of the run used, mean over all blocks.
    pub endurance_used: f64,
    /// Bytes that the host can write until all rated cycles are used, TB (10^12):
    /// `physical bytes x cycles / write amplification in bytes`, from the steady part of the run, or from all of it if
    /// no part was steady. Physical bytes are those of blocks that were good from the factory. Absent if no block was
    /// erased or nothing was written.
    pub host_tb_written_until_worn: Option<f64>,
    /// Whether the extrapolation rests on a steady part of the run. If not, `host_tb_written_until_worn`, `years`,
    /// `scaled_years` and `drive_writes_per_day` hold for this run length only: a longer run of the same load gives
    /// other figures.
    pub is_from_steady_part: bool,
    /// Years until `host_tb_written_until_worn` is reached at the rate of host bytes in `elapsed_s`; absent if the run
    /// has neither request times nor a timing engine.
    pub years: Option<f64>,
    /// Years of a drive of `scale_to_bytes` exported bytes that receives the same bytes per second as the simulated
    /// drive, and so fewer drive writes per day. Assumes that both drives have the same write amplification, which
    /// holds if the footprint grows in proportion.
    pub scaled_years: Option<f64>,
    /// Exported capacity, in bytes, of the drive to which `scaled_years` is scaled; absent if no size was given.
    pub scale_to_bytes: Option<u64>,
    /// Drive writes per day that use up the rated cycles in five years: the usual rating (DWPD). Absent if
    /// `host_tb_written_until_worn` is absent.
    pub drive_writes_per_day: Option<f64>,
    /// Years until the rated cycles are used, at the rate of the page programs in the whole measured part, including
    /// those before the first garbage collection.
    pub years_by_programs: Option<f64>,
    /// Predicted years until the rated cycles are used, computed as `years_by_programs`, but without the first epoch of
    /// lifetime management. In that epoch nothing is known yet and no write-saving scheme runs: in five years it is a
    /// 525,600th of the time, but in a short run a large part. Absent without lifetime management.
    pub years_after_first_epoch: Option<f64>,
    /// Mean latency of host writes, microseconds, if a write ends only when its content is programmed or mapped to a
    /// stored page with equal content. A page that is buffered until a compressed chunk is full counts with the
    /// response time of the write that completes the chunk. 0 without timing or compression; `latency_us.write` is then
    /// the figure.
    pub write_until_programmed_us: f64,
    /// Duration of the measured part of the run, seconds: in open loop the duration of the trace, else the device time
    /// (simulated time).
    pub elapsed_s: f64,
    /// Energy of programs, hashing and compression per host page write, microjoules, with the powers and times that the
    /// paper on integrated lifetime management states for a page of 4 KiB, whatever the page size and times of the
    /// device; reads and erases are left out, as in that paper.
    pub energy_uj_per_page: f64,
    /// Total time for which throttling held back (delayed) host writes, seconds.
    pub held_s: f64,
    /// Number of host writes that throttling held back (delayed).
    pub held_writes: u64,
    /// Number of epochs of lifetime management in which requests arrived; 0 without management.
    pub epochs: u64,
    /// Number of epochs of lifetime management in which host writes were throttled.
    pub throttled_epochs: u64,
    /// How long each content scheme (such as deduplication) was running under lifetime management, by its name in
    /// `parts.content`; empty without management.
    pub schemes: BTreeMap<String, SchemeRecord>,
}

/// How long a write-saving scheme (such as deduplication) was running under lifetime management.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SchemeRecord {
    /// Number of epochs in which the content scheme (such as deduplication) was running.
    pub epochs: u64,
    /// Share of the host's page writes that arrived in the epochs in which the content scheme (such as deduplication)
    /// was running.
    pub share_of_writes: f64,
}
