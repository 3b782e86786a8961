//! Simulates a drive from its first write to its end: repeats the input on blocks that fail when they are worn out.

use std::collections::BTreeMap;
use std::ops::ControlFlow::{Break, Continue};

use wearwell::Error;
use wearwell::address::BlockId;
use wearwell::data::mix_bits;
use wearwell::lifetime::YEAR_S;
use wearwell::nand::{Nand as _, SimNand};
use wearwell::operation::Cause;
use wearwell_config::{Config, Origin, ResolvedDevice};
use wearwell_trace::Request;

use super::{
    OnProgress, Plan, Progress, REQUESTS_PER_BATCH, REQUESTS_PER_PROGRESS_REPORT, ReplayError, Run, RunPhase,
    WRITES_PER_BATCH,
};
use crate::life::{self, Endurance, Leveling, Life, LifeEndReason, LifePoint, LifeRecord, Wear};
use crate::lifetime::{blocks_good_from_factory, physical_blocks_good_from_factory};
use crate::record::SeriesPoint;
use crate::{precondition, process};

/// Largest number of points in the series that records a drive's life. When the series has this many points, every
/// second point is dropped.
const SERIES_POINTS_MAX: usize = 400;
/// Start and end of the range, in mean erases per block, from which the lifetime is extrapolated. A drive that was
/// filled in order is steady after about ten erases per block, so the range starts later.
/// [`EXTRAPOLATION_ENDURANCE_SHARE_RANGE`] applies instead if this range would be a large part of the rated cycles.
const EXTRAPOLATION_MEAN_ERASES_RANGE: [f64; 2] = [15.0, 30.0];
/// Start and end of the range from which the lifetime is extrapolated, as mean erases per block divided by the rated
/// cycles. For the start, and for the end, the smaller of this value and that of [`EXTRAPOLATION_MEAN_ERASES_RANGE`]
/// applies.
const EXTRAPOLATION_ENDURANCE_SHARE_RANGE: [f64; 2] = [0.1, 0.2];

impl Plan<'_> {
    /// Creates the record for simulated drive lives of `design`, without any life yet. The record states that each
    /// drive is filled before the first request.
    pub fn new_life_record(&self, design: &str, leveling: Leveling, endurance: Endurance) -> LifeRecord {
        let ResolvedDevice { geometry, logical_pages, endurance_cycles, .. } = &self.resolved_device;
        let page_bytes = u64::from(geometry.page_bytes);
        LifeRecord {
            input: self.input.name(),
            design: design.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            leveling,
            leveling_ram_bytes: 0,
            config: self.config.clone(),
            origins: self.setting_origins_of_lives(design),
            endurance,
            rated_cycles: *endurance_cycles,
            exported_bytes: u64::from(*logical_pages) * page_bytes,
            physical_bytes: geometry.pages() * page_bytes,
            is_filled: true,
            scale_to_bytes: None,
            estimates: None,
            curves: Vec::new(),
            lives: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Replays the input on the design of `record` repeatedly until the drive has ended (its spare blocks have failed),
    /// and adds this life to `record`. The configuration's preconditioning is not used, because a life begins with a
    /// new drive.
    ///
    /// # Errors
    /// [`ReplayError`] if the drive cannot be built or filled, or the input cannot be read to its end.
    pub fn run_life(&self, record: &mut LifeRecord, on_progress: OnProgress<'_>) -> Result<(), ReplayError> {
        let started = process::thread_cpu_seconds();
        let run = Run::new(self, &record.design)?;
        let resolved = &self.resolved_device;
        let seed = mix_bits(self.config.seed() ^ ENDURANCE_LIMITS_SEED_SALT);
        let limits =
            record.endurance.draw_wear_limits(resolved.geometry.blocks(), resolved.endurance_cycles, seed);
        let mut living = LifeSimulation::new(run, &record.endurance);
        let limits_of_good_blocks: Vec<_> = blocks_good_from_factory(living.run.device.ftl().store())
            .map(|block| limits[block.index()])
            .collect();
        living.usable_endurance_share = life::usable_endurance_share(
            &limits_of_good_blocks,
            living.failed_blocks_ending_life,
            resolved.endurance_cycles,
        );
        let nand = living.run.device.ftl_mut().store_mut().nand_mut();
        nand.downcast_mut::<SimNand>().expect("replays run on simulated flash").set_wear_limits(limits);
        let end = living.wear_out(record.is_filled, on_progress)?;
        let mut life = living.finish_life(end);
        life.cpu_seconds = process::thread_cpu_seconds() - started;
        record.notes = living.run.notes();
        let wear = living.run.device.ftl().gc_options().wear;
        record.leveling_ram_bytes =
            wear.ram_bytes_by_structure(resolved.geometry.blocks()).iter().map(|part| part.1).sum();
        record.config = self.config_of_lives();
        record.origins = self.setting_origins_of_lives(&record.design);
        record.lives.push(life);
        Ok(())
    }
}

impl Plan<'_> {
    /// Returns where the values of the configuration of simulated lives of `design` come from, without the seed
    /// ([`Plan::setting_origins`]).
    pub fn setting_origins_of_lives(&self, design: &str) -> BTreeMap<String, Origin> {
        let mut origins = self.setting_origins(design);
        origins.remove("replay.seed");
        origins
    }

    /// Returns the configuration of the simulated lives with every effective value, but without the seed.
    pub(super) fn config_of_lives(&self) -> Config {
        let mut config = self.effective_config();
        config.replay.seed = None;
        config
    }
}

/// Number that is mixed into the seed from which the endurance limits of the blocks are drawn, so that they are
/// independent of the random contents and faults.
const ENDURANCE_LIMITS_SEED_SALT: u64 = 0x6c69_6665;

/// A simulated drive that is being worn out.
struct LifeSimulation<'a> {
    /// Run of the design on the input; it wears out the simulated drive.
    run: Run<'a>,
    /// Bytes that the host has written to the drive so far, including the first fill.
    host_bytes: u64,
    /// Number of requests replayed so far.
    requests: u64,
    /// Number of the drive's good blocks beyond those that the exported pages need.
    spare_block_count: u64,
    /// Number of failed blocks at which the simulated drive has ended.
    failed_blocks_ending_life: u64,
    /// Number of the drive's physical blocks that were good when it was new; each block of a superblock counts.
    physical_blocks: f64,
    /// Rated number of block erases of the whole drive: physical blocks times rated cycles.
    rated_drive_erases: f64,
    /// Mean P/E cycles that the drive's blocks provide under perfect wear leveling before the drive runs out of spare
    /// blocks, as a fraction of the rated cycles.
    usable_endurance_share: f64,
    /// Bytes that the host had written when the first block failed; `None` before.
    host_bytes_at_first_failure: Option<u64>,
    /// Host bytes and mean erases per block at the start and at the end of the range from which the lifetime is
    /// extrapolated.
    bytes_and_erases_of_extrapolation_range: [Option<(u64, f64)>; 2],
    /// Sum of the durations of all passes over the input, seconds, according to the arrival times in the input.
    elapsed_s: f64,
    /// States of the drive so far, at most [`SERIES_POINTS_MAX`].
    series: Vec<LifePoint>,
    /// Number of host bytes between two points of the series that records the drive's life.
    series_interval_bytes: u64,
    /// Number of host bytes at which the next point of the drive's series is recorded.
    next_series_point_at_host_bytes: u64,
    /// Number of host bytes between two samples of the timeline.
    timeline_interval_bytes: u64,
    /// Number of host bytes at which the timeline is sampled next.
    next_timeline_sample_at_host_bytes: u64,
}

impl<'a> LifeSimulation<'a> {
    /// Creates the simulation of a new drive's life, whose blocks have this endurance.
    fn new(run: Run<'a>, endurance: &Endurance) -> Self {
        let (store, resolved) = (run.device.ftl().store(), &run.plan.resolved_device);
        let blocks = u64::from(resolved.geometry.blocks());
        let bad = (0..resolved.geometry.blocks()).filter(|&block| store.nand().is_bad(BlockId(block)));
        let needed = u64::from(resolved.logical_pages).div_ceil(u64::from(store.data_pages_per_block()));
        let spare_block_count = blocks - bad.count() as u64 - needed;
        let series_interval_bytes = run.device.capacity_bytes() / 4;
        let physical_blocks = physical_blocks_good_from_factory(store) as f64;
        Self {
            host_bytes: 0,
            requests: 0,
            spare_block_count,
            failed_blocks_ending_life: (spare_block_count as f64 * (1.0 - endurance.spare_minimum))
                .ceil()
                .max(1.0) as u64,
            physical_blocks,
            rated_drive_erases: physical_blocks * f64::from(resolved.endurance_cycles),
            usable_endurance_share: 1.0,
            host_bytes_at_first_failure: None,
            bytes_and_erases_of_extrapolation_range: [None; 2],
            elapsed_s: 0.0,
            series: Vec::new(),
            series_interval_bytes,
            next_series_point_at_host_bytes: 0,
            timeline_interval_bytes: series_interval_bytes,
            next_timeline_sample_at_host_bytes: 0,
            run,
        }
    }

    /// Fills the drive if `is_filled` is set, and replays the input until the drive has ended; returns why it ended.
    fn wear_out(
        &mut self,
        is_filled: bool,
        on_progress: OnProgress<'_>,
    ) -> Result<LifeEndReason, ReplayError> {
        self.run.start_timeline();
        self.sample_life_timeline();
        if is_filled && let Some(end) = self.fill_drive(on_progress)? {
            return Ok(end);
        }
        let mut requests_of_first_pass = None;
        loop {
            let (before, bytes_before) = (self.requests, self.host_bytes);
            let end = self.replay_input_once(on_progress)?;
            self.elapsed_s += self.run.arrival_span_s();
            let counts = &mut self.run.host_request_counts;
            counts.first_request_ns = None;
            // The notes state what the input has, not what all passes over it have had.
            (counts.out_of_order_requests, counts.empty_requests, self.run.input.untouched_trim_counts) =
                *requests_of_first_pass.get_or_insert((
                    counts.out_of_order_requests,
                    counts.empty_requests,
                    self.run.input.untouched_trim_counts,
                ));
            if let Some(end) = end {
                return Ok(end);
            }
            if self.host_bytes == bytes_before {
                let (input, requests) = (self.run.plan.input.name(), self.requests - before);
                let hint = format!(
                    " that write (requests without a write: {requests}; a remap counts as one, because it writes no \
                     bytes of the host, in which a life is measured), so that no drive wears out"
                );
                return Err(ReplayError::NoRequests { input, hint });
            }
            self.run.input.request_reader = self.run.plan.input.open()?;
        }
    }

    /// Writes all exported pages once, as a part of the drive's life. Returns [`LifeEndReason::Interrupted`] if the
    /// user interrupts, otherwise `None`.
    fn fill_drive(&mut self, on_progress: OnProgress<'_>) -> Result<Option<LifeEndReason>, ReplayError> {
        let mut step = |done, total| {
            on_progress(Progress {
                phase: RunPhase::Precondition,
                done_work_units: done,
                total_work_units: total,
            })
        };
        let filled = precondition::fill_sequentially(&mut self.run.device, &mut step)?;
        self.host_bytes += self.run.device.capacity_bytes();
        self.record_life_point();
        self.sample_life_timeline();
        Ok(filled.is_break().then_some(LifeEndReason::Interrupted))
    }

    /// Replays the input once on the drive that is being worn out. Returns why the drive ended; `None` if the drive has
    /// not ended at the end of the input.
    fn replay_input_once(
        &mut self,
        on_progress: OnProgress<'_>,
    ) -> Result<Option<LifeEndReason>, ReplayError> {
        let ahead = if self.run.can_batch_writes() { WRITES_PER_BATCH } else { REQUESTS_PER_BATCH };
        let mut batch = vec![Request::default(); ahead];
        loop {
            let (read, damage) = self.run.input.read_batch(&mut batch);
            let bytes_before = self.run.host_request_counts.written_bytes;
            let (executed, outcome) = self.run.execute_batch(&batch[..read]);
            self.requests += executed as u64;
            self.host_bytes += self.run.host_request_counts.written_bytes - bytes_before;
            if self.host_bytes >= self.next_series_point_at_host_bytes {
                self.record_life_point();
            }
            if self.host_bytes >= self.next_timeline_sample_at_host_bytes {
                self.sample_life_timeline();
            }
            match outcome {
                Err(Error::Full { .. }) => return Ok(Some(LifeEndReason::Full)),
                other => other?,
            }
            if self.failed_blocks() > 0 && self.record_failure_and_check_end_of_life() {
                return Ok(Some(LifeEndReason::Spare));
            }
            if let Some(damage) = damage {
                return Err(damage.into());
            }
            if read < batch.len() {
                return Ok(None);
            }
            if self.requests % REQUESTS_PER_PROGRESS_REPORT < ahead as u64
                && self.report_progress(on_progress)
            {
                return Ok(Some(LifeEndReason::Interrupted));
            }
        }
    }

    /// Reports the progress of a drive's life: its block erases so far, and the erases for which all of its blocks are
    /// rated. Returns whether the user ends the run.
    fn report_progress(&self, on_progress: OnProgress<'_>) -> bool {
        let done = self.run.device.ftl().stats().total_erases().min(self.rated_drive_erases as u64);
        let flow = on_progress(Progress {
            phase: RunPhase::Life,
            done_work_units: done,
            total_work_units: self.rated_drive_erases as u64,
        });
        match flow {
            Break(()) => true,
            Continue(()) => false,
        }
    }

    /// Returns the number of blocks that have failed so far.
    fn failed_blocks(&self) -> u64 {
        self.run.device.ftl().stats().retired_blocks
    }

    /// Records the host bytes at the first block failure; returns whether the failed blocks end the life of the drive.
    fn record_failure_and_check_end_of_life(&mut self) -> bool {
        self.host_bytes_at_first_failure.get_or_insert(self.host_bytes);
        self.failed_blocks() >= self.failed_blocks_ending_life
    }

    /// Returns the erases per block, mean over all blocks. An erase that fails uses no cycle and does not count.
    fn mean_erases_per_block(&self) -> f64 {
        let erases: u64 = self.erase_counts().map(u64::from).sum();
        erases as f64 / self.erase_counts().count().max(1) as f64
    }

    /// Adds a point with the drive's present wear and counters to the time series of its life. Also records whether the
    /// range of this series from which the lifetime is extrapolated starts or ends at this point.
    fn record_life_point(&mut self) {
        self.next_series_point_at_host_bytes = self.host_bytes + self.series_interval_bytes;
        let mean_erases = self.mean_erases_per_block();
        let rated = self.rated_drive_erases / self.physical_blocks;
        let shares = EXTRAPOLATION_ENDURANCE_SHARE_RANGE.map(|share| share * rated);
        for (noted, (erases, share)) in self
            .bytes_and_erases_of_extrapolation_range
            .iter_mut()
            .zip(EXTRAPOLATION_MEAN_ERASES_RANGE.into_iter().zip(shares))
        {
            if noted.is_none() && mean_erases >= erases.min(share) {
                *noted = Some((self.host_bytes, mean_erases));
            }
        }
        if self.series.len() == SERIES_POINTS_MAX {
            self.series_interval_bytes *= 2;
            let points = std::mem::take(&mut self.series);
            self.series = points.into_iter().skip(1).step_by(2).collect();
        }
        let point = self.life_point();
        self.series.push(point);
    }

    /// Returns the counters of the drive's life so far; the bytes of the first fill count as written by the host.
    fn life_counters(&self) -> SeriesPoint {
        SeriesPoint { requests: self.requests, host_bytes: self.host_bytes, ..self.run.current_counters() }
    }

    /// Samples the state of the drive for the timeline of its life.
    fn sample_life_timeline(&mut self) {
        self.next_timeline_sample_at_host_bytes = self.host_bytes + self.timeline_interval_bytes;
        self.run.sample_timeline(&self.life_counters());
    }

    /// Returns the present state of the drive as a point of its life.
    fn life_point(&self) -> LifePoint {
        let failed = self.failed_blocks() as f64 / self.spare_block_count.max(1) as f64;
        LifePoint {
            host_bytes: self.host_bytes,
            programs: self.run.device.ftl().stats().total_programs(),
            mean_erases: self.mean_erases_per_block(),
            max_erases: self.erase_counts().max().unwrap_or(0),
            // A drive that still finds room may lose more blocks than it has spare ones.
            spare: (1.0 - failed).max(0.0),
        }
    }

    /// Returns the number of erases of each block that was good when the drive was new.
    fn erase_counts(&self) -> impl Iterator<Item = u32> + '_ {
        let store = self.run.device.ftl().store();
        blocks_good_from_factory(store).map(|block| store.nand().erase_count(block))
    }

    /// Returns the drive's lifetime in host bytes, extrapolated from a range of its life: the host bytes of the range,
    /// divided by the share of all rated cycles that the range used. `None` if the life did not reach the end of the
    /// range, or if no block was erased in the range.
    fn extrapolated_lifetime_host_bytes(&self) -> Option<f64> {
        let [Some((from, erases_before)), Some((to, erases))] = self.bytes_and_erases_of_extrapolation_range
        else {
            return None;
        };
        let used = (erases - erases_before) * self.physical_blocks / self.rated_drive_erases;
        (used > 0.0).then(|| (to - from) as f64 / used)
    }

    /// Returns the finished life of the drive with all its figures; `end` is the reason why it ended.
    fn finish_life(&mut self, end: LifeEndReason) -> Life {
        let last = self.life_point();
        self.series.push(last);
        let plan = self.run.plan;
        Life {
            seed: plan.config.seed(),
            end,
            host_bytes: self.host_bytes,
            media_bytes: last.programs * self.run.page_bytes,
            passes: self.requests as f64 / plan.survey.requests.max(1) as f64,
            years: (self.elapsed_s > 0.0).then(|| self.elapsed_s / YEAR_S as f64),
            extrapolated_bytes: self.extrapolated_lifetime_host_bytes(),
            usable_endurance: self.usable_endurance_share,
            first_failure_bytes: self.host_bytes_at_first_failure,
            failed_blocks: self.failed_blocks(),
            wear: Wear::of_erase_counts(self.erase_counts().collect()),
            leveling_programs: self.run.device.ftl().stats().programs[Cause::WearLeveling as usize],
            leveling_erases: self.run.device.ftl().stats().erases[Cause::WearLeveling as usize],
            series: std::mem::take(&mut self.series),
            timeline: self.run.finish_timeline(&self.life_counters()),
            cpu_seconds: 0.0,
        }
    }
}
