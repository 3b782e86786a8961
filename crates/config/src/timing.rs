//! Timing: the engine, how the device schedules, and what the controller's own work takes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wearwell::nand::Geometry;
use wearwell::operation::NVRAM_LINE_BYTES;
use wearwell::stats::Work;
use wearwell::timing::{ControllerWork, FreeBlocks, Suspend, TimingMode, TimingOptions};

/// How time is modelled.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches; any combination means something")]
pub struct TimingConfig {
    /// Engine.
    pub mode: Mode,
    /// Host reads before writes.
    pub read_priority: bool,
    /// Background work yields to host work.
    pub gc_yields: bool,
    /// Background operations queued per die after which they go before host writes. Absent: they do while no page
    /// of the die is erased, and in shares before each host write while few are.
    pub gc_backlog_ops: Option<u32>,
    /// From then on they go before host reads too.
    pub gc_holds_reads: bool,
    /// A write waits for the GC it triggered.
    pub blocking_gc: bool,
    /// Programs and erases are suspended for host reads.
    pub suspend: bool,
    /// Cost of a suspension, microseconds.
    pub suspend_overhead_us: f64,
    /// Suspensions per operation at most.
    pub suspend_max: u32,
    /// Multi-plane operations.
    pub multi_plane: bool,
    /// Planes work independently.
    pub independent_planes: bool,
    /// Time outside the flash per request, microseconds.
    pub controller_overhead_us: f64,
    /// Writes that may be acknowledged before they are programmed.
    pub buffered_writes: u32,
    /// Hash and look-up of content-aware designs, once per request that hashed a page (the unit hashes the next page
    /// while one is programmed), microseconds (LX, RM: 32).
    pub hash_us: f64,
    /// Making a delta, microseconds (DF, table 1, at 619 MHz).
    pub delta_encode_us: f64,
    /// Applying a delta, microseconds (DF, table 1, at 619 MHz).
    pub delta_decode_us: f64,
    /// Units that make and apply deltas (DF, section 3.3.2: one processor); 0 = as many as there are requests.
    pub delta_codec_units: u32,
    /// Compressing a page, microseconds (IL, section IV).
    pub compress_us: f64,
    /// Decompressing a page, microseconds; our assumption, as IL leaves reads out.
    pub decompress_us: f64,
    /// Reading 64 bytes of NVRAM, nanoseconds (RM, section 5.1). There is one NVRAM: requests wait for each other there.
    pub nvram_read_ns: f64,
    /// Storing 64 bytes of NVRAM, nanoseconds (RM, section 5.1).
    pub nvram_write_ns: f64,
}

impl Default for TimingConfig {
    fn default() -> Self {
        let options = TimingOptions::default();
        Self {
            mode: Mode::None,
            read_priority: options.read_priority,
            gc_yields: options.gc_yields,
            gc_backlog_ops: None,
            gc_holds_reads: options.gc_holds_reads,
            blocking_gc: options.blocking_gc,
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

/// Timing engines by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Counts only.
    #[default]
    None,
    /// Next-free times.
    Timeline,
    /// Events with queues and priorities.
    Event,
}

impl TimingConfig {
    /// What the controller's own work takes a request. Scans of NVRAM are operations that the timing engine prices. Deltas
    /// that merges apply are not priced: no request waits for them, and they yield the processor to those that requests
    /// wait for.
    pub fn price(&self, work: &Work) -> ControllerWork {
        let hash_us = if work.hashed_pages > 0 { self.hash_us } else { 0.0 };
        let delta_us = work.encoded_deltas as f64 * self.delta_encode_us
            + work.decoded_deltas as f64 * self.delta_decode_us;
        let compression_us = work.compressed_pages as f64 * self.compress_us
            + work.decompressed_pages as f64 * self.decompress_us;
        let nvram_ns = work.nvram_written_bytes as f64 / f64::from(NVRAM_LINE_BYTES) * self.nvram_write_ns;
        ControllerWork {
            own_ns: ((hash_us + delta_us + compression_us) * 1000.0) as u64,
            codec_ns: (delta_us * 1000.0) as u64,
            nvram_ns: nvram_ns as u64,
        }
    }

    /// The engine.
    pub fn engine(&self) -> TimingMode {
        match self.mode {
            Mode::None => TimingMode::None,
            Mode::Timeline => TimingMode::Timeline,
            Mode::Event => TimingMode::Event,
        }
    }

    /// Its options on a device whose pools keep `low_blocks` free.
    pub fn options(&self, geometry: &Geometry, low_blocks: u32) -> TimingOptions {
        let ns = |us: f64| (us * 1000.0).round() as u64;
        TimingOptions {
            read_priority: self.read_priority || self.suspend,
            gc_yields: self.gc_yields,
            gc_backlog_ops: self.gc_backlog_ops.unwrap_or(u32::MAX),
            free_blocks: self.gc_backlog_ops.is_none().then(|| self.free_blocks(geometry, low_blocks)),
            gc_holds_reads: self.gc_holds_reads,
            blocking_gc: self.blocking_gc,
            suspend: self
                .suspend
                .then(|| Suspend { overhead_ns: ns(self.suspend_overhead_us), max_per_op: self.suspend_max }),
            multi_plane: self.multi_plane,
            independent_planes: self.independent_planes,
            controller_overhead_ns: ns(self.controller_overhead_us),
            codec_units: self.delta_codec_units as usize,
            nvram_line_read_ps: ns(self.nvram_read_ns),
            buffered_writes: self.buffered_writes as usize,
            ..TimingOptions::default()
        }
    }

    /// What GC keeps free for an array: `low_blocks` of each plane.
    fn free_blocks(&self, geometry: &Geometry, low_blocks: u32) -> FreeBlocks {
        let planes = if self.independent_planes { 1 } else { geometry.planes_per_die };
        FreeBlocks { blocks: low_blocks * planes, pages_per_block: geometry.pages_per_block }
    }
}
