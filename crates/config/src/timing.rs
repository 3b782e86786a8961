//! Configuration of timing: the timing engine, the device's scheduling, and how long the controller's own work takes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wearwell::nand::Geometry;
use wearwell::operation::NVRAM_LINE_BYTES;
use wearwell::stats::ControllerWorkCounts;
use wearwell::timing::{ControllerWork, FreeBlocksPerArray, SuspensionOptions, TimingMode, TimingOptions};

/// Options of the time model.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches; any combination means something")]
pub struct TimingConfig {
    /// Timing engine: none, a timeline per die and channel, or discrete events.
    pub mode: Mode,
    /// Serve host reads before host writes.
    pub read_priority: bool,
    /// Serve background work (GC) only while no host work waits for the same die.
    pub gc_yields: bool,
    /// Number of queued background operations per die above which background work is served before host writes. Absent:
    /// background work is served before host writes while the die has no erased page; while it has few, a part of the
    /// background work is served before each host write.
    pub gc_backlog_ops: Option<u32>,
    /// With more than `gc_backlog_ops` queued operations, serve background work before host reads too.
    pub gc_holds_reads: bool,
    /// Let a host write wait until the GC that it triggered has finished (foreground GC).
    pub blocking_gc: bool,
    /// Suspend programs and erases for host reads.
    pub suspend: bool,
    /// Time that a suspension adds to the suspended program or erase, microseconds.
    pub suspend_overhead_us: f64,
    /// Maximum number of times that one program or erase is suspended.
    pub suspend_max: u32,
    /// Run equal operations on several planes of a die as one multi-plane operation.
    pub multi_plane: bool,
    /// Let each plane of a die work independently, as if it were a die.
    pub independent_planes: bool,
    /// Time that each host request spends outside the flash, microseconds.
    pub controller_overhead_us: f64,
    /// Maximum number of host writes that are acknowledged and not programmed yet.
    pub buffered_writes: u32,
    /// Time for hashing and index look-up in designs that examine content, microseconds (32 in the papers on the
    /// Recyclable SSD and on Remap-SSD). Counts once per request that hashed a page, because the next page is hashed
    /// while one is programmed.
    pub hash_us: f64,
    /// Time to encode a delta (the difference of a page from its earlier version), microseconds (Delta-FTL, table 1, at
    /// 619 MHz).
    pub delta_encode_us: f64,
    /// Time to apply a delta to a page, microseconds (Delta-FTL, table 1, at 619 MHz).
    pub delta_decode_us: f64,
    /// Number of hardware units that encode and apply deltas (Delta-FTL, section 3.3.2: one processor). 0: as many
    /// units as there are requests.
    pub delta_codec_units: u32,
    /// Time to compress a page, microseconds (paper on integrated lifetime management, section IV).
    pub compress_us: f64,
    /// Time to decompress a page, microseconds. An assumption of ours, because the paper on integrated lifetime
    /// management leaves reads out.
    pub decompress_us: f64,
    /// Time to read 64 bytes of NVRAM, nanoseconds (Remap-SSD, section 5.1). There is one NVRAM, for which requests
    /// queue.
    pub nvram_read_ns: f64,
    /// Time to write 64 bytes of NVRAM, nanoseconds (Remap-SSD, section 5.1).
    pub nvram_write_ns: f64,
}

impl Default for TimingConfig {
    fn default() -> Self {
        let options = TimingOptions::default();
        Self {
            mode: Mode::None,
            read_priority: options.prioritises_reads,
            gc_yields: options.background_yields_to_host,
            gc_backlog_ops: None,
            gc_holds_reads: options.background_delays_reads,
            blocking_gc: options.uses_foreground_gc,
            suspend: false,
            suspend_overhead_us: 20.0,
            suspend_max: 4,
            multi_plane: false,
            independent_planes: false,
            controller_overhead_us: 0.0,
            buffered_writes: 0,
            hash_us: 32.0,
            delta_encode_us: 44.0,
            delta_decode_us: 10.9,
            delta_codec_units: 1,
            compress_us: 64.0,
            decompress_us: 16.0,
            nvram_read_ns: 50.0,
            nvram_write_ns: 500.0,
        }
    }
}

/// Names of the timing engines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// No time model; operations are only counted.
    #[default]
    None,
    /// A timeline for each die and channel that holds only when it is next free; no queues.
    Timeline,
    /// Discrete-event simulation with queues, priorities and suspension.
    Event,
}

impl TimingConfig {
    /// Returns the time that the controller works on a request (hashing, deltas, compression, NVRAM writes). NVRAM
    /// reads are not included, because the timing engine adds them. Deltas that are applied in merges (storing base and
    /// delta as one page) take no time here: no request waits for a merge, and requests come first at the delta
    /// processor.
    pub fn controller_work(&self, work: &ControllerWorkCounts) -> ControllerWork {
        let hash_us = if work.hashed_pages > 0 { self.hash_us } else { 0.0 };
        let delta_us = work.encoded_deltas as f64 * self.delta_encode_us
            + work.deltas_decoded_for_host as f64 * self.delta_decode_us;
        let compression_us = work.compressed_pages as f64 * self.compress_us
            + work.decompressed_pages as f64 * self.decompress_us;
        let nvram_ns = work.nvram_written_bytes as f64 / f64::from(NVRAM_LINE_BYTES) * self.nvram_write_ns;
        ControllerWork {
            work_parallel_to_other_requests_ns: ((hash_us + delta_us + compression_us) * 1000.0) as u64,
            delta_codec_work_ns: (delta_us * 1000.0) as u64,
            nvram_store_ns: nvram_ns as u64,
        }
    }

    /// Returns the timing engine that the configuration names.
    pub fn timing_mode(&self) -> TimingMode {
        match self.mode {
            Mode::None => TimingMode::None,
            Mode::Timeline => TimingMode::Timeline,
            Mode::Event => TimingMode::Event,
        }
    }

    /// Returns the options of the timing engine for a device on which GC keeps `low_blocks` free in each pool.
    pub fn timing_options(&self, geometry: &Geometry, low_blocks: u32) -> TimingOptions {
        let ns = |us: f64| (us * 1000.0).round() as u64;
        TimingOptions {
            prioritises_reads: self.read_priority || self.suspend,
            background_yields_to_host: self.gc_yields,
            max_background_backlog_ops: self.gc_backlog_ops.unwrap_or(u32::MAX),
            free_blocks: self
                .gc_backlog_ops
                .is_none()
                .then(|| self.free_blocks_per_array(geometry, low_blocks)),
            background_delays_reads: self.gc_holds_reads,
            uses_foreground_gc: self.blocking_gc,
            suspension: self.suspend.then(|| SuspensionOptions {
                resume_overhead_ns: ns(self.suspend_overhead_us),
                max_suspensions_per_op: self.suspend_max,
            }),
            uses_multi_plane_ops: self.multi_plane,
            has_independent_planes: self.independent_planes,
            controller_overhead_ns: ns(self.controller_overhead_us),
            delta_codec_units: self.delta_codec_units as usize,
            nvram_line_read_ps: ns(self.nvram_read_ns),
            max_buffered_writes: self.buffered_writes as usize,
            ..TimingOptions::default()
        }
    }

    /// Returns how many blocks GC keeps free in an array (a unit that works independently: die or plane): `low_blocks`
    /// for each plane.
    fn free_blocks_per_array(&self, geometry: &Geometry, low_blocks: u32) -> FreeBlocksPerArray {
        let planes = if self.independent_planes { 1 } else { geometry.planes_per_die };
        FreeBlocksPerArray { free_blocks: low_blocks * planes, pages_per_block: geometry.pages_per_block }
    }
}
