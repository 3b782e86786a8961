//! Lifetime management in a replay: passes time and counters to [`LifetimeController`], switches its write-saving
//! schemes (deduplication, compression, ...), and delays host writes.
//!
//! If epochs are counted in host writes, no time is needed and nothing is delayed, so that schemes can be switched in
//! any replay, even in one without a time model.
//!
//! A throttled write starts later than it arrived, and the delay is part of its latency. Later requests are delayed
//! too, so throttling needs an arrival mode that depends on completions. With arrivals at the trace's times, writes
//! would only queue up in front of the device. In closed loop the requests in flight behind a throttled write have
//! arrived, and the delay is part of their latencies as well.

use wearwell::address::BlockId;
use wearwell::lifetime::{
    EpochLength, LifetimeController, LifetimeCounters, LifetimeOptions, MechanismKind, WriteActivity, YEAR_S,
    remaining_endurance_bytes,
};
use wearwell::nand::Nand;
use wearwell::store::FlashPageStore;
use wearwell::{Device, Error};

use crate::record::{LifetimeRecord, SchemeRecord};
use crate::steadiness::Steadiness;

/// Latest time at which a throttled write may start: 292 years of simulated time, half of what the clock of the timing
/// engine can represent, so that sums with the times of operations do not overflow.
const MAX_THROTTLED_WRITE_START_NS: u64 = u64::MAX / 2;

/// Lifetime management of one run (choice of write-saving schemes, throttling), with its counters for the run record.
#[derive(Clone, Debug)]
pub(crate) struct LifetimeManagement {
    /// Controller that chooses the write-saving schemes (deduplication, compression, ...) and computes throttling
    /// delays.
    lifetime_controller: LifetimeController,
    /// Rated program/erase cycles of a block.
    endurance_cycles: u32,
    /// Erases of physical blocks before the measured part of the run.
    erases_before_run: u64,
    /// Bytes that could still be programmed at the start of the measured part of the run.
    endurance_bytes_at_start: u64,
    /// Total time for which throttling delayed host writes, nanoseconds.
    total_throttle_delay_ns: u64,
    /// Number of host writes that throttling delayed.
    throttled_writes: u64,
    /// Number of epochs in which at least one request arrived.
    epochs: u64,
    /// Number of epochs in which host writes were throttled.
    throttled_epochs: u64,
    /// For each write-saving scheme (deduplication, compression, ...; the index is a [`MechanismKind`]): how long the
    /// scheme was running.
    scheme_activity: [SchemeActivity; MechanismKind::COUNT],
    /// Host page writes up to the last decision on the write-saving schemes.
    host_writes_at_last_decision: u64,
    /// Start (nanoseconds) of the second epoch in which lifetime management received a request, and the number of page
    /// programs before that request; `None` before then, and if epochs are counted in host writes.
    second_epoch_start_ns_and_programs: Option<(u64, u64)>,
}

/// How long a write-saving scheme (deduplication, compression, ...) was running, in epochs and in host page writes.
#[derive(Clone, Copy, Debug, Default)]
struct SchemeActivity {
    /// Number of epochs in which the scheme was running.
    epochs: u64,
    /// Number of host page writes while the scheme was running.
    host_page_writes: u64,
}

impl LifetimeManagement {
    /// Creates the lifetime management of a device whose counters have just been cleared. The target lifetime in years
    /// counts from this moment, whereas wear counts from the beginning of the drive's life.
    pub(crate) fn new(options: LifetimeOptions, device: &Device, endurance_cycles: u32) -> Self {
        let store = device.ftl().store();
        let geometry = store.geometry();
        let erases = (0..geometry.blocks()).map(|block| store.nand().erase_count(BlockId(block)) as u64);
        let erases_before_run = erases.sum::<u64>() * geometry.superblock_planes as u64;
        Self {
            erases_before_run,
            endurance_bytes_at_start: endurance_bytes_left(store, endurance_cycles, erases_before_run),
            lifetime_controller: LifetimeController::new(options),
            endurance_cycles,
            total_throttle_delay_ns: 0,
            throttled_writes: 0,
            epochs: 0,
            throttled_epochs: 0,
            scheme_activity: [SchemeActivity::default(); MechanismKind::COUNT],
            host_writes_at_last_decision: 0,
            second_epoch_start_ns_and_programs: None,
        }
    }

    /// Returns a sentence if the run ended in its first epoch, for which nothing could be decided from what the host
    /// wrote; otherwise `None`.
    pub(crate) fn sentence_on_single_epoch(&self) -> Option<String> {
        let (length, key) = match self.lifetime_controller.options().epoch_length {
            EpochLength::Seconds(seconds) => (format!("{seconds} s"), "lifetime.epoch_s"),
            EpochLength::HostWrites(pages) => (format!("{pages} page writes"), "lifetime.epoch_writes"),
        };
        (self.epochs < 2).then(|| {
            format!(
                "the run ended in the first epoch of lifetime management ({length}), so that nothing was decided from \
                 what the host wrote: a longer input, or a smaller {key}, gives it something to decide"
            )
        })
    }

    /// Returns the time in nanoseconds at which a request that arrived at `arrival_ns` may start: its arrival, or a
    /// later time if the request is a host write and writes are throttled.
    ///
    /// # Errors
    /// [`Error::ThrottledForever`] if a write would start after [`MAX_THROTTLED_WRITE_START_NS`], because the drive has
    /// used up its rated cycles; errors of the device if schemes are switched.
    pub(crate) fn admit_request_and_get_start_ns(
        &mut self,
        device: &mut Device,
        arrival_ns: u64,
        is_write: bool,
    ) -> Result<u64, Error> {
        let mut now_ns = arrival_ns;
        loop {
            // The flash bytes are read before the schemes are switched, because switching may write buffered pages.
            let flash_bytes = programmed_bytes(device);
            self.begin_epoch_if_due(device, now_ns)?;
            match self.lifetime_controller.delay_ns(now_ns, flash_bytes) {
                delay_ns if is_write && delay_ns > 0 => {
                    now_ns = now_ns.saturating_add(delay_ns);
                    if now_ns > MAX_THROTTLED_WRITE_START_NS {
                        return Err(Error::ThrottledForever {
                            max_years: MAX_THROTTLED_WRITE_START_NS / (YEAR_S * 1_000_000_000),
                        });
                    }
                    self.total_throttle_delay_ns += delay_ns;
                }
                _ => break,
            }
        }
        self.throttled_writes += u64::from(now_ns > arrival_ns);
        Ok(now_ns)
    }

    /// If a new epoch has begun, decides which write-saving schemes (deduplication, compression, ...) run in it, and
    /// switches them.
    ///
    /// # Errors
    /// As [`LifetimeManagement::admit_request_and_get_start_ns`].
    pub(crate) fn begin_epoch_if_due(&mut self, device: &mut Device, now_ns: u64) -> Result<(), Error> {
        let now = match self.lifetime_controller.options().epoch_length {
            EpochLength::Seconds(_) => now_ns,
            EpochLength::HostWrites(_) => device.ftl().stats().host_page_writes,
        };
        if !self.lifetime_controller.is_decision_due(now) {
            return Ok(());
        }
        self.count_scheme_writes(device);
        let counters = self.lifetime_counters(device);
        let Some(decision) = self.lifetime_controller.advance_to(now, &counters) else { return Ok(()) };
        self.epochs += 1;
        if let (2, EpochLength::Seconds(seconds)) =
            (self.epochs, self.lifetime_controller.options().epoch_length)
        {
            // The throttling budget accumulates from the start of the epoch, even if the epoch's first request arrives
            // later.
            let start_ns = self.lifetime_controller.epoch_at(now) * u64::from(seconds) * 1_000_000_000;
            self.second_epoch_start_ns_and_programs = Some((start_ns, device.ftl().stats().total_programs()));
        }
        self.throttled_epochs += u64::from(decision.throttle_bytes_per_epoch.is_some());
        for kind in self.lifetime_controller.running_schemes().iter() {
            self.scheme_activity[kind as usize].epochs += 1;
        }
        device.ftl_mut().switch_content_mechanisms(self.lifetime_controller.running_schemes())
    }

    /// Adds the host page writes since the last decision to the count of each write-saving scheme (deduplication,
    /// compression, ...) that was running.
    fn count_scheme_writes(&mut self, device: &Device) {
        let writes = device.ftl().stats().host_page_writes;
        for kind in self.lifetime_controller.running_schemes().iter() {
            self.scheme_activity[kind as usize].host_page_writes +=
                writes - self.host_writes_at_last_decision;
        }
        self.host_writes_at_last_decision = writes;
    }

    /// Returns the counters from which lifetime management decides: bytes written and programmed, bytes that can still
    /// be programmed, and the bytes of each scheme.
    fn lifetime_counters(&self, device: &Device) -> LifetimeCounters {
        let stats = device.ftl().stats();
        let geometry = device.ftl().store().geometry();
        let page_bytes = geometry.page_bytes as u64;
        let activity = WriteActivity {
            host_bytes: stats.host_page_writes * page_bytes,
            host_programmed_bytes: device.ftl().pages_programmed_for_host_writes() * page_bytes,
            flash_bytes: programmed_bytes(device),
            throttled_ns: self.total_throttle_delay_ns,
        };
        // A block that is full and not erased yet has used its cycle, so programs count if they are more than the
        // erases.
        let erases = self.erases_before_run + stats.total_erases();
        let remaining_bytes = endurance_bytes_left(device.ftl().store(), self.endurance_cycles, erases)
            .min(self.endurance_bytes_at_start.saturating_sub(activity.flash_bytes));
        let schemes = self.lifetime_controller.options().schemes.iter();
        let schemes = schemes.map(|scheme| device.ftl().scheme_byte_counts(scheme.kind)).collect();
        LifetimeCounters { activity, remaining_endurance_bytes: remaining_bytes, scheme_byte_counts: schemes }
    }

    /// Returns for how many nanoseconds throttling would delay a write that arrived at `now_ns`, after the last request
    /// of the run. The delay is more than 0 if earlier writes exceeded the budget.
    pub(crate) fn pending_delay_ns(&self, device: &Device, now_ns: u64) -> u64 {
        self.lifetime_controller.delay_ns(now_ns, programmed_bytes(device))
    }

    /// Adds the results of lifetime management to the record of a run.
    pub(crate) fn add_to_record(&self, device: &Device, record: &mut LifetimeRecord) {
        let mut ended = self.clone();
        ended.count_scheme_writes(device);
        let all_writes = ended.host_writes_at_last_decision.max(1) as f64;
        record.schemes = self
            .lifetime_controller
            .options()
            .schemes
            .iter()
            .map(|scheme| {
                let SchemeActivity { epochs, host_page_writes } = ended.scheme_activity[scheme.kind as usize];
                let share_of_writes = host_page_writes as f64 / all_writes;
                (scheme.kind.name().to_owned(), SchemeRecord { epochs, share_of_writes })
            })
            .collect();
        if let Some((since_ns, programs_before)) = self.second_epoch_start_ns_and_programs {
            let programs = device.ftl().stats().total_programs() - programs_before;
            let elapsed_s = record.elapsed_s - since_ns as f64 / 1e9;
            record.years_after_first_epoch =
                years_at_program_rate(device, self.endurance_cycles, programs, elapsed_s);
        }
        record.held_s = self.total_throttle_delay_ns as f64 / 1e9;
        record.held_writes = self.throttled_writes;
        record.epochs = self.epochs;
        record.throttled_epochs = self.throttled_epochs;
    }
}

/// Returns the bytes of all page programs of the device since its counters were cleared.
fn programmed_bytes(device: &Device) -> u64 {
    device.ftl().stats().total_programs() * device.ftl().store().geometry().page_bytes as u64
}

/// Returns the blocks that were good when the drive was new. Blocks that are bad from the factory are never erased, and
/// have no cycles that a workload could use.
pub(crate) fn blocks_good_from_factory(store: &FlashPageStore) -> impl Iterator<Item = BlockId> + Clone + '_ {
    let is_good = |&block: &BlockId| !store.nand().is_bad(block) || store.nand().erase_count(block) > 0;
    (0..store.geometry().blocks()).map(BlockId).filter(is_good)
}

/// Returns the number of physical blocks that were good when the drive was new; each block of a superblock counts.
pub(crate) fn physical_blocks_good_from_factory(store: &FlashPageStore) -> u64 {
    blocks_good_from_factory(store).count() as u64 * u64::from(store.geometry().superblock_planes)
}

/// Returns the number of pages in the blocks that were good when the drive was new.
fn pages_good_from_factory(store: &FlashPageStore) -> f64 {
    physical_blocks_good_from_factory(store) as f64 * f64::from(store.geometry().pages_per_block)
}

/// Returns how many bytes can still be programmed within the rated cycles after `erases` erases of physical blocks.
fn endurance_bytes_left(store: &FlashPageStore, endurance_cycles: u32, erases: u64) -> u64 {
    let geometry = store.geometry();
    let blocks = physical_blocks_good_from_factory(store);
    let block_bytes = geometry.pages_per_block as u64 * geometry.page_bytes as u64;
    remaining_endurance_bytes(blocks, endurance_cycles, erases, block_bytes)
}

/// Returns the years until the rated cycles of all pages are used, if the drive continues to make `programs` page
/// programs per `elapsed_s` seconds; `None` if either is 0.
fn years_at_program_rate(
    device: &Device,
    endurance_cycles: u32,
    programs: u64,
    elapsed_s: f64,
) -> Option<f64> {
    let budget = pages_good_from_factory(device.ftl().store()) * f64::from(endurance_cycles);
    let used = programs as f64 / budget;
    (used > 0.0 && elapsed_s > 0.0).then(|| elapsed_s / YEAR_S as f64 / used)
}

/// Returns the wear of the drive (erases per block, endurance used) in the measured part of a run, which took
/// `elapsed_s` seconds.
pub(crate) fn lifetime_record(device: &Device, endurance_cycles: u32, elapsed_s: f64) -> LifetimeRecord {
    let store = device.ftl().store();
    let wear = blocks_good_from_factory(store).map(|block| store.nand().erase_count(block));
    let blocks = physical_blocks_good_from_factory(store) as f64;
    let stats = device.ftl().stats();
    let mean = stats.total_erases() as f64 / blocks;
    LifetimeRecord {
        mean_erases_per_block: mean,
        max_erase_count: wear.clone().max().unwrap_or(0),
        min_erase_count: wear.min().unwrap_or(0),
        endurance_used: mean / endurance_cycles as f64,
        years_by_programs: years_at_program_rate(device, endurance_cycles, stats.total_programs(), elapsed_s),
        elapsed_s,
        ..LifetimeRecord::default()
    }
}

/// Adds the extrapolated lifetime to the record: host bytes until the rated cycles of all blocks are used, drive writes
/// per day, and years. Assumes the write amplification of `steadiness`, the steady part of the run, and the rate of
/// `host_bytes` per `record.elapsed_s`.
pub(crate) fn extrapolate_lifetime(
    record: &mut LifetimeRecord,
    device: &Device,
    endurance_cycles: u32,
    steadiness: &Steadiness,
    host_bytes: u64,
) {
    if steadiness.erases == 0 || steadiness.programs == 0 || steadiness.host_bytes == 0 {
        return;
    }
    let geometry = device.ftl().store().geometry();
    let page_bytes = f64::from(geometry.page_bytes);
    let amplification = steadiness.programs as f64 * page_bytes / steadiness.host_bytes as f64;
    let written = pages_good_from_factory(device.ftl().store()) * page_bytes * f64::from(endurance_cycles)
        / amplification;
    record.is_from_steady_part = steadiness.is_steady;
    record.host_tb_written_until_worn = Some(written / 1e12);
    record.drive_writes_per_day = Some(written / device.capacity_bytes() as f64 / RATING_PERIOD_DAYS);
    if record.elapsed_s > 0.0 {
        record.years = Some(written / host_bytes as f64 * record.elapsed_s / YEAR_S as f64);
    }
}

/// Days over which a rating in drive writes per day is stated: five years.
const RATING_PERIOD_DAYS: f64 = 5.0 * 365.0;
