//! Reports of a device as JSON: counters, health and write amplification. `docs/serve-protocol.md` says how the
//! names of counters correspond to those in run records. Health is named as in `nvme smart-log -o json`.

use std::ops::Range;

use serde_json::{Map, Value, json};
use wearwell::address::BlockId;
use wearwell::operation::Cause;
use wearwell::stats::{CountsByCause, Stats, nonzero_counts_by_cause};

use crate::device::FlashDevice;

/// Number of bytes of one data unit, in which the NVMe health log counts data read and written: 1000 sectors of 512
/// bytes.
const NVME_DATA_UNIT_BYTES: u64 = 1000 * 512;
/// Threshold of the share of spare blocks that are still good, percent; below it the health log warns.
const AVAILABLE_SPARE_THRESHOLD_PERCENT: u64 = 10;

/// Returns the answer to the control command `stats`: every counter since the server started.
pub(crate) fn stats_answer(device: &FlashDevice) -> Value {
    let ftl = device.device().ftl();
    let stats = ftl.stats();
    let commands = device.host_command_counts();
    let ram = device.device().ram_bytes_by_structure();
    json!({
        "design": device.health_facts().design,
        "capacity_bytes": device.device().capacity_bytes(),
        "page_bytes": ftl.store().geometry().page_bytes,
        "host_reads": commands.reads,
        "host_writes": commands.writes,
        "host_trims": commands.trims,
        "host_flushes": commands.executed_flushes,
        "host_remaps": commands.remaps,
        "host_bytes_read": commands.bytes_read,
        "host_bytes_written": commands.bytes_written,
        "host_page_writes": stats.host_page_writes,
        "host_page_reads": stats.host_page_reads,
        "host_page_trims": stats.host_page_trims,
        "buffer_absorbed_writes": device.device().absorbed_writes(),
        "unchanged_writes": stats.unchanged_writes,
        "recycled_writes": stats.recycled_writes,
        "deduplicated_writes": stats.deduplicated_writes,
        "delta_writes": stats.delta_writes,
        "packed_writes": stats.compressed_chunk_writes,
        "bound_pages_by_remap": stats.remapped_pages,
        "programs": stats.total_programs(),
        "programs_by_cause": nonzero_counts_by_cause(&stats.programs),
        "reads": stats.total_reads(),
        "reads_by_cause": nonzero_counts_by_cause(&stats.reads),
        "erases": stats.total_erases(),
        "erases_by_cause": nonzero_counts_by_cause(&stats.erases),
        "collections": stats.gc_victims,
        "retired_blocks": stats.retired_blocks,
        "media_errors": stats.media_errors,
        "lost_pages": stats.lost_pages,
        "free_blocks": ftl.store().total_free_blocks(),
        "write_amplification": stats.write_amplification(),
        "recording_failure": device.recording_failure_message(),
        "ram_bytes": ram.iter().map(|(_, bytes)| bytes).sum::<u64>(),
        "ram_bytes_by_structure": ram.into_iter().map(|(name, bytes)| (name.to_owned(), bytes.into())).collect::<Map<_, _>>(),
    })
}

/// Returns the answer to the control command `health`: the health log. Its wear counts cover the whole life of the
/// medium. Commands of clients and operations of the engine are counted from the start of the server.
pub(crate) fn health_answer(device: &mut FlashDevice) -> Value {
    let wear = WearReport::of(device);
    health_answer_with_wear(device, &wear)
}

/// Returns the answer to the control command `health` (the health log), with the wear of the blocks that the caller has
/// determined. Takes constant time if no page is lost, and otherwise time in proportion to the number of logical pages.
pub(crate) fn health_answer_with_wear(device: &mut FlashDevice, wear: &WearReport) -> Value {
    let lost = device.lost_logical_pages().len();
    let device = &*device;
    let ftl = device.device().ftl();
    let (identity, commands, stats) = (device.health_facts(), device.host_command_counts(), ftl.stats());
    let page_bytes = u64::from(ftl.store().geometry().page_bytes);
    let blocks = ftl.store().geometry().blocks();
    let spare_percent = ftl.available_spare_percent(wear.bad_blocks) as u64;
    let used = 100.0 * wear.mean_erase_count() / f64::from(identity.endurance_cycles.max(1));
    let is_short_of_spare = spare_percent < AVAILABLE_SPARE_THRESHOLD_PERCENT;
    let is_damaged = stats.media_errors > 0 || lost > 0 || device.possibly_stale_lpn_count() > 0;
    let is_unreliable = device.write_failure_message().is_some() || is_damaged;
    json!({
        "critical_warning": u64::from(is_short_of_spare) | u64::from(is_unreliable) << 2,
        "failure": device.write_failure_message(),
        "avail_spare": spare_percent,
        "spare_thresh": AVAILABLE_SPARE_THRESHOLD_PERCENT,
        "percent_used": (used.ceil() as u64).min(255),
        "data_units_read": commands.bytes_read.div_ceil(NVME_DATA_UNIT_BYTES),
        "data_units_written": commands.bytes_written.div_ceil(NVME_DATA_UNIT_BYTES),
        "host_read_commands": commands.reads,
        "host_write_commands": commands.writes,
        "power_cycles": identity.power_cycles,
        "unsafe_shutdowns": identity.unsafe_shutdowns,
        "media_errors": stats.media_errors,
        "lost_logical_pages": lost,
        "unproven_logical_pages": device.possibly_stale_lpn_count(),
        "physical_media_bytes_written": stats.total_programs() * page_bytes,
        "physical_media_bytes_read": stats.total_reads() * page_bytes,
        "media_data_units_written": (stats.total_programs() * page_bytes).div_ceil(NVME_DATA_UNIT_BYTES),
        "max_erase_count": wear.erase_counts.iter().max().unwrap_or(&0),
        "min_erase_count": wear.erase_counts.iter().min().unwrap_or(&0),
        "mean_erase_count": wear.mean_erase_count(),
        "rated_erase_count": identity.endurance_cycles,
        "bad_blocks": wear.bad_blocks,
        "percent_free_blocks": 100 * u64::from(ftl.store().total_free_blocks()) / u64::from(blocks),
    })
}

/// Returns the answer to the control command `wa`: write amplification, and its part for each cause of programs. The
/// parts add up to the write amplification.
pub(super) fn write_amplification_answer(device: &FlashDevice) -> Value {
    let ftl = device.device().ftl();
    let stats = ftl.stats();
    let page_bytes = u64::from(ftl.store().geometry().page_bytes);
    json!({
        "write_amplification": stats.write_amplification(),
        "by_cause": write_amplification_by_cause(stats, &stats.programs),
        "host_page_writes": stats.host_page_writes,
        "host_bytes": stats.host_page_writes * page_bytes,
        "flash_bytes": stats.total_programs() * page_bytes,
    })
}

/// For each cause that programmed pages, returns the page programs of that cause divided by the pages that the host
/// wrote.
fn write_amplification_by_cause(stats: &Stats, programs: &CountsByCause) -> Map<String, Value> {
    let host_pages = stats.host_page_writes.max(1) as f64;
    let causes = Cause::ALL.iter().map(|&cause| (cause.name(), programs[cause as usize]));
    causes
        .filter(|&(_, count)| count > 0)
        .map(|(name, count)| (name.to_owned(), (count as f64 / host_pages).into()))
        .collect()
}

/// Wear of the blocks of a device: erase counts of good blocks, and number of bad blocks.
#[derive(Debug, Default)]
pub(crate) struct WearReport {
    /// Erase counts of the good blocks.
    pub(crate) erase_counts: Vec<u32>,
    /// Number of blocks that are bad.
    pub(crate) bad_blocks: u32,
}

impl WearReport {
    /// Returns the wear of all blocks of `device`.
    fn of(device: &FlashDevice) -> Self {
        let mut wear = Self::default();
        wear.add_blocks(device, 0..device.device().geometry().blocks());
        wear
    }

    /// Adds the erase counts and bad blocks of a range of blocks to the report.
    pub(crate) fn add_blocks(&mut self, device: &FlashDevice, blocks: Range<u32>) {
        let nand = device.device().medium();
        for block in blocks.map(BlockId) {
            if nand.is_bad(block) {
                self.bad_blocks += 1;
            } else {
                self.erase_counts.push(nand.erase_count(block));
            }
        }
    }

    /// Returns the mean number of erases per good block; 0 if there is no good block.
    fn mean_erase_count(&self) -> f64 {
        let sum: u64 = self.erase_counts.iter().copied().map(u64::from).sum();
        sum as f64 / self.erase_counts.len().max(1) as f64
    }
}
