//! Lifetime management in a replay: tells [`Lifetime`] the time and the counters, and holds host writes back.
//!
//! A write that is held back starts later, but it arrived when it arrived: the wait is part of its latency. Time
//! stretches for the requests after it, which is why throttling needs an arrival that depends on completions; with
//! arrivals at the trace's times writes would only pile up in front of the device.

use wearwell::address::BlockId;
use wearwell::lifetime::{
    Activity, Counters, Lifetime, LifetimeOptions, Observed, Scheme, SchemeKind, SchemeSet, YEAR_S,
    remaining_bytes,
};
use wearwell::nand::{Geometry, Nand, SimNand};
use wearwell::timing::Cause;
use wearwell::{Device, Error};

use crate::record::LifetimeRecord;
use crate::steadiness::Steadiness;

/// Lifetime management of one run.
#[derive(Debug)]
pub(crate) struct Managed {
    lifetime: Lifetime,
    endurance_cycles: u32,
    /// Erases of physical blocks before the measured part, and the bytes that could be programmed at its start.
    worn_before: u64,
    fresh_bytes: u64,
    held_ns: u64,
    held_writes: u64,
    epochs: u64,
    throttled_epochs: u64,
    /// Start of the second epoch that had requests, and the programs until then.
    second_epoch: Option<(u64, u64)>,
}

impl Managed {
    /// Management of a device whose counters have just been cleared. Its life counts from now, its wear from the
    /// beginning.
    pub(crate) fn new(options: LifetimeOptions, device: &Device<SimNand>, endurance_cycles: u32) -> Self {
        let store = device.ftl().store();
        let geometry = store.geometry();
        let erases = (0..geometry.blocks()).map(|block| store.nand().erase_count(BlockId(block)) as u64);
        let worn_before = erases.sum::<u64>() * geometry.superblock_planes as u64;
        Self {
            worn_before,
            fresh_bytes: left_bytes(geometry, endurance_cycles, worn_before),
            lifetime: Lifetime::new(options),
            endurance_cycles,
            held_ns: 0,
            held_writes: 0,
            epochs: 0,
            throttled_epochs: 0,
            second_epoch: None,
        }
    }

    /// When a request that came at `now_ns` may start: then, or later if it is a host write and writes are throttled.
    ///
    /// # Errors
    /// What switching schemes meets: pages that wait for compression are written when it goes off.
    pub(crate) fn start_ns(
        &mut self,
        device: &mut Device<SimNand>,
        arrival_ns: u64,
        is_write: bool,
    ) -> Result<u64, Error> {
        let mut now_ns = arrival_ns;
        loop {
            let counters = self.counters(device);
            if let Some(decision) = self.lifetime.advance(now_ns, &counters) {
                self.epochs += 1;
                if self.epochs == 2 {
                    // Throttling earns from the start of the epoch on, whenever its first request comes.
                    let epoch_ns = u64::from(self.lifetime.options().epoch_s) * 1_000_000_000;
                    let start_ns = self.lifetime.epoch_of(now_ns) * epoch_ns;
                    self.second_epoch = Some((start_ns, device.ftl().stats().total_programs()));
                }
                self.throttled_epochs += u64::from(decision.throttle_bytes_per_epoch.is_some());
                self.switch(device, decision.enabled)?;
            }
            match self.lifetime.delay_ns(now_ns, counters.activity.flash_bytes) {
                delay_ns if is_write && delay_ns > 0 => {
                    now_ns = now_ns.saturating_add(delay_ns);
                    self.held_ns += delay_ns;
                }
                _ => break,
            }
        }
        self.held_writes += u64::from(now_ns > arrival_ns);
        Ok(now_ns)
    }

    fn switch(&self, device: &mut Device<SimNand>, enabled: SchemeSet) -> Result<(), Error> {
        let runs = |kind| {
            let mut schemes = self.lifetime.options().schemes.iter();
            schemes.position(|scheme| scheme.kind == kind).is_some_and(|at| enabled.contains(at))
        };
        device.ftl_mut().switch_schemes(runs(SchemeKind::Dedup), runs(SchemeKind::Compression))
    }

    fn counters(&self, device: &Device<SimNand>) -> Counters {
        let stats = device.ftl().stats();
        let geometry = device.ftl().store().geometry();
        let page_bytes = geometry.page_bytes as u64;
        let stored_pages = stats.programs[Cause::Host as usize] + stats.programs[Cause::Content as usize];
        let activity = Activity {
            host_bytes: stats.host_page_writes * page_bytes,
            stored_bytes: stored_pages * page_bytes,
            flash_bytes: stats.total_programs() * page_bytes,
            held_ns: self.held_ns,
        };
        // Blocks that have been filled and not erased yet have used their cycle: what was programmed counts if it is
        // more than what was erased.
        let erases = self.worn_before + stats.total_erases();
        let remaining_bytes = left_bytes(geometry, self.endurance_cycles, erases)
            .min(self.fresh_bytes.saturating_sub(activity.flash_bytes));
        let [dedup, compression] = device.ftl().observed_schemes();
        let observed = |scheme: &Scheme| match scheme.kind {
            SchemeKind::Dedup => dedup,
            SchemeKind::Compression => compression,
            _ => Observed::default(),
        };
        let schemes = self.lifetime.options().schemes.iter().map(observed).collect();
        Counters { activity, remaining_bytes, schemes }
    }

    /// How long a write at `now_ns`, after the last request, would be held back: time that the writes before it have
    /// used up.
    pub(crate) fn owed_ns(&self, device: &Device<SimNand>, now_ns: u64) -> u64 {
        self.lifetime.delay_ns(now_ns, self.counters(device).activity.flash_bytes)
    }

    /// Adds what was managed to a record of a run of `elapsed_s`.
    pub(crate) fn report(&self, device: &Device<SimNand>, record: &mut LifetimeRecord) {
        if let Some((since_ns, programs_before)) = self.second_epoch {
            let programs = device.ftl().stats().total_programs() - programs_before;
            let elapsed_s = record.elapsed_s - since_ns as f64 / 1e9;
            record.years_after_first_epoch =
                years_by_programs(device, self.endurance_cycles, programs, elapsed_s);
        }
        record.held_s = self.held_ns as f64 / 1e9;
        record.held_writes = self.held_writes;
        record.epochs = self.epochs;
        record.throttled_epochs = self.throttled_epochs;
    }
}

/// Bytes that can be programmed after that many erases of physical blocks.
fn left_bytes(geometry: &Geometry, endurance_cycles: u32, erases: u64) -> u64 {
    let blocks = geometry.blocks() as u64 * geometry.superblock_planes as u64;
    let block_bytes = geometry.pages_per_block as u64 * geometry.page_bytes as u64;
    remaining_bytes(blocks, endurance_cycles, erases, block_bytes)
}

/// Years until the rated cycles of all pages are used, if `programs` take `elapsed_s`.
fn years_by_programs(
    device: &Device<SimNand>,
    endurance_cycles: u32,
    programs: u64,
    elapsed_s: f64,
) -> Option<f64> {
    let budget = device.ftl().store().geometry().pages() as f64 * endurance_cycles as f64;
    let used = programs as f64 / budget;
    (used > 0.0 && elapsed_s > 0.0).then(|| elapsed_s / YEAR_S as f64 / used)
}

/// Wear of the measured part of a run, which took `elapsed_s`.
pub(crate) fn record(device: &Device<SimNand>, endurance_cycles: u32, elapsed_s: f64) -> LifetimeRecord {
    let store = device.ftl().store();
    let geometry = store.geometry();
    let wear = (0..geometry.blocks()).map(|block| store.nand().erase_count(BlockId(block)));
    let blocks = geometry.blocks() as f64 * geometry.superblock_planes as f64;
    let stats = device.ftl().stats();
    let mean = stats.total_erases() as f64 / blocks;
    LifetimeRecord {
        mean_erases_per_block: mean,
        max_erase_count: wear.clone().max().unwrap_or(0),
        min_erase_count: wear.min().unwrap_or(0),
        endurance_used: mean / endurance_cycles as f64,
        years_by_programs: years_by_programs(device, endurance_cycles, stats.total_programs(), elapsed_s),
        elapsed_s,
        ..LifetimeRecord::default()
    }
}

/// What the drive lives to see if it goes on as in the steady part: all of its bytes can be programmed as often as the rated
/// cycles say. `host_bytes` were written in `record.elapsed_s`.
pub(crate) fn extrapolate(
    record: &mut LifetimeRecord,
    device: &Device<SimNand>,
    endurance_cycles: u32,
    steady: &Steadiness,
    host_bytes: u64,
) {
    if steady.erases == 0 || steady.programs == 0 || steady.host_bytes == 0 {
        return;
    }
    let geometry = device.ftl().store().geometry();
    let page_bytes = f64::from(geometry.page_bytes);
    let amplification = steady.programs as f64 * page_bytes / steady.host_bytes as f64;
    let written = geometry.pages() as f64 * page_bytes * f64::from(endurance_cycles) / amplification;
    record.is_from_steady_part = steady.is_steady;
    record.host_tb_written_until_worn = Some(written / 1e12);
    record.drive_writes_per_day = Some(written / device.bytes() as f64 / RATED_DAYS);
    if record.elapsed_s > 0.0 {
        record.years = Some(written / host_bytes as f64 * record.elapsed_s / YEAR_S as f64);
    }
}

/// Drive writes a day are rated for five years.
const RATED_DAYS: f64 = 5.0 * 365.0;
