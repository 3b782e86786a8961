//! Reports on a run: samples of the counters during the run, and the run record at its end.

use std::collections::BTreeMap;

use wearwell::data::UnknownSizeCounts;
use wearwell::lifetime::YEAR_S;
use wearwell::operation::Cause;
use wearwell::recovery::RecoveryStepCost;
use wearwell::stats::{Stats, nonzero_counts_by_cause};
use wearwell::timing::{LatencySummary, RequestKind, TimingMode};
use wearwell_config::{Arrival, Precondition, ResolvedDevice};
use wearwell_trace::PAGE_BYTES;

use super::prepared_input::UntouchedTrimCounts;
use super::{EarlyEndReason, ReplayError, Run, part_figures};
use crate::content_model::ContentSource;
use crate::input::InputReader;
use crate::lifetime::{self, LifetimeManagement};
use crate::notes::OVERLOAD_NOTE_START;
use crate::record::{
    BytesRecord, DeviceRecord, Latency, LatencyRecord, LayoutRecord, LifetimeRecord, RecoveryOpTimes,
    RecoveryRecord, RunRecord, SeriesPoint, ServiceRecord, TimeRecord, TraceRecord,
};
use crate::report::with_thousands_separators;
use crate::steadiness::Steadiness;
use crate::timeline::{Timeline, TimelineRecorder};

/// Largest share of page writes with an unknown compressed size or delta size for which the run record gets no note.
/// Only pages count of which a part has a known size.
const MAX_UNKNOWN_SIZE_SHARE_WITHOUT_NOTE: f64 = 0.01;

impl Run<'_> {
    /// Adds the present counters to the run's time series and to its timeline, if it has one.
    pub(super) fn sample_counters(&mut self) {
        let counters = self.current_counters();
        self.observations.series_points.push(counters);
        self.sample_timeline(&counters);
    }

    /// Starts recording the run's timeline, if the configuration sets one.
    pub(super) fn start_timeline(&mut self) {
        let blocks = self.device.ftl().store().blocks().len();
        self.observations.timeline_recorder =
            self.plan.config.replay.timeline_cells.map(|cells| TimelineRecorder::new(cells, blocks));
    }

    /// Samples the present state of the drive for the timeline; does nothing without a timeline.
    pub(super) fn sample_timeline(&mut self, counters: &SeriesPoint) {
        if let Some(recorder) = &mut self.observations.timeline_recorder {
            recorder.add_sample(counters, self.device.ftl(), self.timing.as_ref());
        }
    }

    /// Returns the timeline, with the present state of the drive as its last sample; `None` without a timeline.
    pub(super) fn finish_timeline(&mut self, counters: &SeriesPoint) -> Option<Timeline> {
        let recorder = self.observations.timeline_recorder.take()?;
        Some(recorder.into_timeline(counters, self.device.ftl(), self.timing.as_ref()))
    }

    /// Returns the counters of the measured part of the run so far.
    pub(super) fn current_counters(&self) -> SeriesPoint {
        let ftl = self.device.ftl();
        let stats = ftl.stats();
        SeriesPoint {
            requests: self.host_request_counts.requests,
            host_page_writes: stats.host_page_writes,
            host_bytes: self.host_request_counts.written_bytes,
            host_page_remaps: self.host_request_counts.remapped_pages,
            programs: stats.total_programs(),
            erases: stats.total_erases(),
            recycled_writes: stats.recycled_writes,
            free_blocks: ftl.store().total_free_blocks(),
            device_s: self.timing.as_ref().map_or(0.0, |timing| timing.now_ns() as f64 / 1e9),
        }
    }

    /// Returns the times of the flash operations of a recovery on this device.
    fn recovery_op_times(&self) -> RecoveryOpTimes {
        let device = &self.plan.resolved_device;
        let spare_read_us = self.plan.config.recovery.spare_read_us;
        RecoveryOpTimes::of_flash(&device.flash_timing, &device.geometry, spare_read_us)
    }

    /// Executes the recovery from a loss of power at this moment of the run, and returns its cost.
    pub(super) fn recover(&mut self) -> Result<RecoveryRecord, ReplayError> {
        let costs = self.recovery_op_times();
        let before = self.device.ftl().stats().clone();
        let report = self.device.recover()?;
        // No request waits for them: the time of a recovery is a figure of its own.
        self.device.ftl_mut().store_mut().flash_ops.clear();
        if let Some(gathered) = &mut self.compressed_chunk_response_times {
            gathered.drop_lost_writes(self.device.ftl().logical_pages_awaiting_compression());
        }
        let stats = self.device.ftl().stats();
        let spare_reads = stats.total_spare_reads() - before.total_spare_reads();
        let total = RecoveryStepCost {
            spare_reads,
            page_reads: stats.total_reads() - before.total_reads() - spare_reads - report.battery_page_reads,
            programs: stats.total_programs() - before.total_programs() - report.battery_programs,
        };
        let steps = report
            .steps
            .named_step_costs()
            .into_iter()
            .filter(|(_, cost)| *cost != RecoveryStepCost::default());
        Ok(RecoveryRecord {
            total: costs.cost_with_time(&total),
            battery_programs: report.battery_programs,
            steps: steps.map(|(name, cost)| (name.to_owned(), costs.cost_with_time(&cost))).collect(),
        })
    }

    /// Makes the record of the run at its end; `ended` is the reason if the run ended early.
    pub(super) fn make_record(&mut self, design: &str, ended: EarlyEndReason) -> RunRecord {
        let stats = self.device.ftl().stats().clone();
        let ram = self.device.ram_bytes_by_structure();
        let host_writes = stats.host_page_writes;
        let steady = Steadiness::of_samples(&self.counter_series_to_run_end(), self.device.capacity_bytes());
        RunRecord {
            design: design.to_owned(),
            variant: String::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: self.plan.config.seed(),
            partial: ended.is_some(),
            partial_reason: ended,
            trace: self.trace_record(),
            device: self.device_record(),
            bytes: self.bytes_record(&stats),
            host_page_writes: host_writes,
            host_page_reads: stats.host_page_reads,
            host_page_trims: stats.host_page_trims,
            host_page_remaps: self.host_request_counts.remapped_pages,
            buffer_absorbed_writes: self.device.absorbed_writes()
                - self.subtracted_counters.buffer_absorbed_writes,
            recycled_writes: stats.recycled_writes,
            writes_by_form: host_writes_by_stored_form(&stats),
            write_reduction: saved_host_write_share(&stats),
            programs: stats.total_programs(),
            programs_by_cause: nonzero_counts_by_cause(&stats.programs),
            reads: stats.total_reads(),
            reads_by_cause: nonzero_counts_by_cause(&stats.reads),
            spare_reads_by_cause: nonzero_counts_by_cause(&stats.spare_reads),
            media_errors: stats.media_errors,
            lost_pages: stats.lost_pages,
            erases: stats.total_erases(),
            erases_by_cause: nonzero_counts_by_cause(&stats.erases),
            write_amplification: stats.write_amplification(),
            service: self.request_service_record(&stats),
            latency_us: self.latency_record(),
            timing: self.time_record(),
            lifetime: self.lifetime_record(&steady),
            steady,
            parts: part_figures::figures_of_parts(self.device.ftl()),
            ram_bytes: ram.iter().map(|(_, bytes)| bytes).sum(),
            ram_bytes_by_structure: ram.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect(),
            notes: self.notes(),
            series: std::mem::take(&mut self.observations.series_points),
            timeline: self.finish_timeline(&self.current_counters()),
            phases: std::mem::take(&mut self.observations.phase_counters),
            recovery: self.observations.recovery.take(),
            peak_rss_bytes: 0,
            cpu_seconds: 0.0,
            precondition_cpu_seconds: 0.0,
            config: self.plan.effective_config(),
            origins: self.plan.setting_origins(design),
        }
    }

    /// Returns the run's time series of counters. If the last regular sample was taken before the end of the run, a
    /// point for the end is added.
    fn counter_series_to_run_end(&self) -> Vec<SeriesPoint> {
        let end = self.current_counters();
        let is_missing =
            self.observations.series_points.last().is_none_or(|last| last.requests < end.requests);
        self.observations.series_points.iter().copied().chain(is_missing.then_some(end)).collect()
    }

    /// Returns the bytes that the host wrote and the bytes that were programmed.
    fn bytes_record(&self, stats: &Stats) -> BytesRecord {
        let programmed = stats.total_programs() * self.page_bytes;
        let partial = self.device.partial_write_counts().since(self.subtracted_counters.partial_write_counts);
        BytesRecord {
            host_written: self.host_request_counts.written_bytes,
            programmed,
            write_amplification: (self.host_request_counts.written_bytes > 0)
                .then(|| programmed as f64 / self.host_request_counts.written_bytes as f64),
            mapping_unit: self.plan.resolved_device.geometry.page_bytes,
            buffered: self.device.buffered_pages() as u64 * self.page_bytes,
            partial_page_writes: partial.partial_page_writes,
            completed_page_writes: partial.read_modify_writes,
            ram_of_4k_map: self.ram_bytes_with_4k_map(),
        }
    }

    /// Returns the RAM that a controller would need for this design if its map had units of 4 KiB, bytes; `None` if the
    /// pages of the device are 4 KiB or smaller. Only structures with an entry per mapped page grow; the cache of a map
    /// on flash keeps its configured size.
    fn ram_bytes_with_4k_map(&self) -> Option<u64> {
        /// RAM structures that have an entry per mapped page, so that they grow with smaller pages.
        const NAMES_OF_PER_PAGE_STRUCTURES: [&str; 3] =
            ["l2p table", "page validity bitmap", "global mapping directory"];
        let units = self.page_bytes / PAGE_BYTES;
        let finer = |(name, bytes): (&str, u64)| {
            if NAMES_OF_PER_PAGE_STRUCTURES.contains(&name) { bytes * units } else { bytes }
        };
        (units > 1).then(|| self.device.ram_bytes_by_structure().into_iter().map(finer).sum())
    }

    /// Returns the description of the run's input.
    fn trace_record(&self) -> TraceRecord {
        TraceRecord {
            path: self.plan.input.name(),
            sha256: self.plan.input_sha256.clone(),
            requests: self.host_request_counts.requests,
            aging_requests: self.aging_requests,
            rejected: self.input.request_reader.rejected_lines(),
            footprint_pages: self.plan.survey.footprint_pages,
            duration_s: self.input_duration_s(),
        }
    }

    /// Returns the time from the first measured request to the latest one, by the times of the input, seconds.
    pub(super) fn input_duration_s(&self) -> f64 {
        self.host_request_counts
            .latest_request_ns
            .saturating_sub(self.host_request_counts.first_request_ns.unwrap_or(0)) as f64
            / 1e9
    }

    /// Returns the description of the run's device.
    fn device_record(&self) -> DeviceRecord {
        let ResolvedDevice {
            preset_name: preset,
            geometry,
            endurance_cycles,
            logical_pages,
            reserve_blocks_per_plane,
            gc_options: gc,
            ..
        } = &self.plan.resolved_device;
        DeviceRecord {
            preset: preset.clone(),
            layout: LayoutRecord {
                channels: geometry.channels,
                dies_per_channel: geometry.dies_per_channel,
                planes_per_die: geometry.planes_per_die,
                blocks_per_plane: geometry.blocks_per_plane,
                pages_per_block: geometry.pages_per_block,
            },
            superblock_planes: geometry.superblock_planes,
            page_bytes: geometry.page_bytes,
            physical_pages: geometry.pages(),
            logical_pages: *logical_pages as u64,
            over_provisioning: self.plan.resolved_device.exported_and_spare_pages() as f64
                / *logical_pages as f64
                - 1.0,
            reserve_blocks: *reserve_blocks_per_plane,
            factory_bad_blocks: self.plan.config.factory_bad_blocks(geometry).len() as u64,
            gc_low_blocks: gc.gc_start_free_blocks,
            endurance_cycles: *endurance_cycles,
        }
    }

    /// Returns the latency distributions of reads, writes and flushes, in microseconds.
    fn latency_record(&self) -> LatencyRecord {
        let Some(timing) = &self.timing else { return LatencyRecord::default() };
        let summary = |kind, binned: &_| {
            let binned = LatencySummary::of_histogram(binned).into();
            Latency { binned: Some(Box::new(binned)), ..timing.latency_summary(kind).into() }
        };
        let mut all_reads = timing.latency_histogram(RequestKind::Read).clone();
        all_reads
            .add(timing.latency_histogram(RequestKind::UnwrittenRead))
            .expect("kinds have equal histograms");
        LatencyRecord {
            read: summary(RequestKind::Read, &all_reads),
            write: summary(RequestKind::Write, timing.latency_histogram(RequestKind::Write)),
            flush: summary(RequestKind::Flush, timing.latency_histogram(RequestKind::Flush)),
        }
    }

    /// Returns how the host's requests arrived in the run, and at what rate the drive answered them.
    fn request_service_record(&self, stats: &Stats) -> ServiceRecord {
        let arrival = self.plan.arrival_mode();
        let service =
            ServiceRecord { unwritten_page_reads: stats.unwritten_page_reads, ..ServiceRecord::default() };
        if self.timing.is_none() {
            return service;
        }
        let answered_s = self.observations.last_answer_ns as f64 / 1e9;
        let per_second = |amount: f64| (answered_s > 0.0).then(|| amount / answered_s);
        ServiceRecord {
            arrival: Some(arrival),
            queue_depth: (arrival == Arrival::Closed).then(|| self.plan.config.replay.queue_depth()),
            requests_per_s: per_second(self.host_request_counts.requests as f64),
            mb_per_s: per_second(
                (self.host_request_counts.written_bytes + self.host_request_counts.read_bytes) as f64 / 1e6,
            ),
            queue_at_end_s: self.queue_drain_s(),
            is_overloaded: self.is_overloaded(),
            ..service
        }
    }

    /// Returns the time from the last arrival of a request to the last answer, seconds; `None` unless requests arrive
    /// at the input's times.
    fn queue_drain_s(&self) -> Option<f64> {
        let is_open = self.plan.arrival_mode() == Arrival::Open;
        (is_open && self.observations.last_answer_ns > 0)
            .then(|| (self.observations.last_answer_ns as f64 / 1e9 - self.arrival_span_s()).max(0.0))
    }

    /// Whether requests arrived faster than the drive answered them: the time to answer the requests that are queued at
    /// the end is longer than a fiftieth of the time in which requests arrived, plus 0.02 s (more than any garbage
    /// collection takes).
    fn is_overloaded(&self) -> bool {
        self.queue_drain_s().is_some_and(|queue_s| queue_s > 0.02 + 0.02 * self.arrival_span_s())
    }

    /// Returns the time from the first arrival of a request to the last arrival in open loop, seconds.
    pub(super) fn arrival_span_s(&self) -> f64 {
        self.input_duration_s() * self.plan.config.replay.time_scale()
    }

    /// Returns device time and utilisation of arrays (dies or planes) and channels.
    fn time_record(&self) -> TimeRecord {
        let Some(timing) = &self.timing else {
            return TimeRecord { mode: "none".into(), ..TimeRecord::default() };
        };
        let now = timing.now_ns().max(1) as f64;
        let share = |busy: Vec<u64>| busy.iter().sum::<u64>() as f64 / (busy.len().max(1) as f64 * now);
        TimeRecord {
            mode: format!("{:?}", self.plan.config.timing.mode).to_lowercase(),
            device_s: now / 1e9,
            array_utilisation: share(timing.array_busy_ns()),
            channel_utilisation: share(timing.channel_busy_ns()),
        }
    }

    /// Returns the wear of the run and the lifetime extrapolated from it; `steady` is the steady part of the run.
    fn lifetime_record(&self, steady: &Steadiness) -> LifetimeRecord {
        let cycles = self.plan.resolved_device.endurance_cycles;
        let mut record = lifetime::lifetime_record(&self.device, cycles, self.elapsed_s());
        lifetime::extrapolate_lifetime(
            &mut record,
            &self.device,
            cycles,
            steady,
            self.host_request_counts.written_bytes,
        );
        if let Some(managed) = &self.lifetime_management {
            managed.add_to_record(&self.device, &mut record);
        }
        record.write_until_programmed_us = self.mean_write_to_program_us();
        record.energy_uj_per_page = per_host_page_write(self.energy_uj(), self.device.ftl().stats());
        record
    }

    /// Returns the mean time until the content of a host write is programmed or mapped, microseconds.
    fn mean_write_to_program_us(&self) -> f64 {
        let (Some(timing), Some(gathered)) = (&self.timing, &self.compressed_chunk_response_times) else {
            return 0.0;
        };
        let answered = LatencySummary::of_histogram(timing.latency_histogram(RequestKind::Write));
        gathered.mean_write_to_program_us(answered.mean_ns / 1e3, answered.request_count)
    }

    /// Returns the duration of the measured part, seconds: in open loop the duration of the trace, scaled by
    /// `replay.time_scale`, else the device time. If earlier writes have exceeded the throttling budget, the time until
    /// the next write could start is added.
    fn elapsed_s(&self) -> f64 {
        let arrivals_s = self.arrival_span_s();
        let Some(timing) = &self.timing else { return arrivals_s };
        if self.plan.arrival_mode() == Arrival::Open {
            return arrivals_s;
        }
        let now_ns = timing.now_ns();
        let pending_delay_ns = self
            .lifetime_management
            .as_ref()
            .map_or(0, |managed| managed.pending_delay_ns(&self.device, now_ns));
        (now_ns + pending_delay_ns) as f64 / 1e9
    }

    /// Returns the energy of the programs, hashing and compression in the measured part, microjoules.
    fn energy_uj(&self) -> f64 {
        let energy = self.plan.config.lifetime.energy_model();
        let stats = self.device.ftl().stats();
        let in_programs = stats.total_programs() as f64
            + stats.controller_work.hashed_pages as f64 * energy.dedup_energy_in_program_energies()
            + stats.controller_work.compressed_pages as f64 * energy.compression_energy_in_program_energies();
        in_programs * energy.program.energy_pj() as f64 / 1e6
    }

    /// Returns the notes of the run record: what a reader of its figures must know.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        notes.extend(self.notes_of_content_models());
        let of_unused_model = self.plan.unused_content_model_sentence();
        notes.extend(of_unused_model.or_else(|| self.note_of_unused_content_model()));
        if let InputReader::Host(generator) = &self.input.request_reader {
            notes.push(format!("requests come from a host model; {}", generator.describe_content()));
        }
        if self.plan.compacts_addresses() {
            notes.push("addresses are compacted: only touched pages exist, in order".to_owned());
        }
        notes.extend(self.note_of_user_policy());
        notes.extend(self.note_of_request_limit());
        notes.extend(self.note_of_unsorted_times());
        notes.extend(self.note_of_absent_times());
        notes.extend(self.note_of_empty_requests());
        notes.extend(self.note_of_untouched_trims());
        notes.extend(self.note_of_input_duration());
        notes.extend(self.note_of_unsteady_precondition());
        notes.extend(self.note_of_enlarged_drive());
        notes.extend(self.note_of_page_size());
        notes.extend(self.notes_of_absent_sizes());
        notes.extend(self.notes_of_unknown_sizes());
        notes.extend(self.note_of_copied_remaps());
        notes.extend(self.note_of_partly_trimmed_pages());
        notes.extend(self.note_of_full_reverse_map());
        notes.extend(self.note_of_full_content_tables());
        if self.device.buffered_pages() > 0 {
            notes.push(format!(
                "{} pages are in the write buffer at the end and not programmed, those of preconditioning among them",
                self.device.buffered_pages()
            ));
        }
        notes.extend(self.note_of_buffered_writes());
        notes.extend(self.note_of_chunk_buffer());
        notes.extend(self.note_of_unfinished_chunk());
        notes.extend(self.note_of_unprogrammed_deltas());
        let managed = self.lifetime_management.as_ref();
        notes.extend(managed.and_then(LifetimeManagement::sentence_on_single_epoch));
        notes.extend(self.note_of_overload());
        notes.extend(self.note_of_long_queue());
        notes.extend(self.note_of_unwritten_pages());
        notes.extend(self.note_of_recovery_time());
        notes.extend(self.note_of_postponed_collections());
        notes.extend(self.note_of_unstriped_metadata());
        notes.extend(self.note_of_remap_latencies());
        if self.plan.config.timing.timing_mode() == TimingMode::Timeline {
            notes.push(
                "timelines book operations in their order and fill no gap: under load, rates, utilisation and latencies \
                 are not those of a drive; timing.mode=event computes these"
                    .to_owned(),
            );
        }
        notes
    }
}

impl Run<'_> {
    /// Returns a note for each content model on which figures of the run rest: that of a workload, and that of writes
    /// whose input has no content, or no sizes of it.
    fn notes_of_content_models(&self) -> impl Iterator<Item = String> + use<> {
        let of_workload = match &self.input.request_reader {
            InputReader::Workload(generator) => generator.describe_content(),
            InputReader::Trace(_) | InputReader::Host(_) => None,
        };
        let of_other_writes = (self.plan.survey.has_writes_without_content || self.uses_drawn_sizes())
            .then(|| self.input.content_model.describe());
        let models =
            [of_workload, of_other_writes].map(|model| model.filter(|_| self.has_content_mechanisms));
        let note = |model| format!("figures that depend on content rest on a model: {model}");
        models.into_iter().flatten().map(note)
    }

    /// Whether the design uses sizes of contents, and the content model `recorded` has drawn some.
    fn uses_drawn_sizes(&self) -> bool {
        self.uses_content_sizes() && self.input.content_model.has_drawn_sizes_for_recorded()
    }

    /// Whether the design uses compressed sizes or delta sizes of contents.
    fn uses_content_sizes(&self) -> bool {
        let ftl = self.device.ftl();
        ftl.compression_statistics().is_some() || ftl.delta_statistics().is_some()
    }

    /// Returns a note if the content model `recorded` has drawn nothing. Which writes replace a content, and so have a
    /// delta size, is only known after the run.
    fn note_of_unused_content_model(&self) -> Option<String> {
        let is_unused = self.draws_only_sizes()
            && self.uses_content_sizes()
            && !self.plan.survey.has_writes_without_content
            && !self.input.content_model.has_drawn_sizes_for_recorded();
        is_unused.then(|| {
            "content.model has no effect: all contents of the input had the sizes that it draws, or replaced no other \
             content"
                .to_owned()
        })
    }

    /// Whether the content model is `recorded`.
    fn draws_only_sizes(&self) -> bool {
        self.plan.content_spec.source == ContentSource::Recorded
    }

    /// Returns a note that a policy of the user chose the GC victims; `None` if there is no such policy.
    fn note_of_user_policy(&self) -> Option<String> {
        let name = self.plan.user_policy.as_ref()?.name();
        Some(format!("victims were chosen by {name}, a policy from outside the engine, and not by gc.policy"))
    }

    /// Returns a note if much flash work was still queued when the last request was answered. A drive can answer
    /// requests faster than it collects garbage, until it has used up the blocks that it keeps free.
    fn note_of_postponed_collections(&self) -> Option<String> {
        let end_ns = self.timing.as_ref()?.now_ns();
        let left_ns = end_ns.saturating_sub(self.observations.last_answer_ns);
        let rate = self.requests_per_busy_s()?;
        (self.observations.last_answer_ns > 0 && left_ns > end_ns / 20).then(|| {
            format!(
                "flash work of {:.3} s was queued when the last request was answered: many more such requests would be \
                 answered at no more than {rate:.0} a second",
                left_ns as f64 / 1e9,
            )
        })
    }

    /// Returns a note if the plane that receives the metadata of one kind gets more programs than its share, so that it
    /// limits what the drive can do. A firmware that stripes its metadata has no such limit.
    fn note_of_unstriped_metadata(&self) -> Option<String> {
        let (ftl, pools) = (self.device.ftl(), self.device.ftl().store().allocation_pools());
        let of_metadata = [Cause::Translation, Cause::Validity, Cause::RemapLog];
        let programs: u64 = of_metadata.iter().map(|&cause| ftl.stats().programs[cause as usize]).sum();
        let exceeds_share = programs * u64::from(pools) > ftl.stats().total_programs();
        let is_noted =
            self.timing.is_some() && pools > 1 && exceeds_share && !self.plan.config.device.metadata_striping;
        is_noted.then(|| {
            format!(
                "metadata of one kind is written to one of {pools} planes or superblocks at a time, and takes {:.1} % of \
                 the programs: this limits rate and latency (device.metadata_striping=true spreads it over all)",
                100.0 * programs as f64 / ftl.stats().total_programs() as f64
            )
        })
    }

    /// Returns a note if the latencies of writes contain those of remap requests, most of which program nothing.
    fn note_of_remap_latencies(&self) -> Option<String> {
        let pages = self.host_request_counts.remapped_pages;
        (self.timing.is_some() && pages > 0).then(|| {
            format!(
                "the latencies of writes are those of writes and of remap requests ({pages} pages), most of which program \
                 nothing"
            )
        })
    }

    /// Returns the request rate that the drive can sustain if all arrays (dies or planes) are always busy: the number
    /// of requests divided by the mean busy time of an array. `None` if no array was busy.
    fn requests_per_busy_s(&self) -> Option<f64> {
        let busy_ns = self.timing.as_ref()?.array_busy_ns();
        let mean_busy_s = busy_ns.iter().sum::<u64>() as f64 / busy_ns.len().max(1) as f64 / 1e9;
        (mean_busy_s > 0.0).then(|| self.host_request_counts.requests as f64 / mean_busy_s)
    }

    /// Returns a note with the times of flash operations on which the time of the recovery rests; `None` if there was
    /// no recovery.
    fn note_of_recovery_time(&self) -> Option<String> {
        let RecoveryOpTimes { spare_read_us, page_read_us, program_us } = self.recovery_op_times();
        let is_within_run = self.plan.config.recovery.after_requests.is_some() && self.timing.is_some();
        let left_out = if is_within_run {
            "; no request waits for it, so latencies, rates and utilisation leave it out"
        } else {
            ""
        };
        self.observations.recovery.as_ref().map(|_| {
            format!(
                "the time of recovery is that of its flash operations one after the other: {spare_read_us:.1} us for a spare \
                 area, {page_read_us:.1} us for a page read, {program_us:.1} us for a page program{left_out}"
            )
        })
    }

    /// Returns a note if the random overwrites of preconditioning ended before write amplification was steady.
    fn note_of_unsteady_precondition(&self) -> Option<String> {
        let settled =
            self.observations.precondition_steadiness.as_ref().filter(|settled| !settled.is_steady)?;
        Some(format!(
            "preconditioning ended before its random overwrites were steady: write amplification moved by {:.0} % in their last \
             half (precondition.overwrite sets their number)",
            100.0 * settled.deviation
        ))
    }

    /// Returns a note if remap requests concerned parts of pages, which no drive can remap.
    fn note_of_copied_remaps(&self) -> Option<String> {
        let copied = self.executor.remap_by_copy_counts();
        let unknown = if copied.unknown_contents > 0 {
            "; the trace does not say what they copied, so their contents count as new"
        } else {
            ""
        };
        (copied.requests > 0).then(|| {
            format!(
                "remap requests of parts of the drive's pages ({} bytes), which the host executed as reads and writes: \
                 {}{unknown}",
                self.page_bytes, copied.requests
            )
        })
    }

    /// Returns a note if more than one percent of the pages that trims touched were covered only in part.
    fn note_of_partly_trimmed_pages(&self) -> Option<String> {
        let kept = self.executor.pages_partly_trimmed() - self.subtracted_counters.pages_partly_trimmed;
        let trimmed = self.device.ftl().stats().host_page_trims;
        (kept > (kept + trimmed) / 100).then(|| {
            format!(
                "pages ({} bytes) that trims covered only in part: {kept}; these kept their data, because a drive \
                 deallocates whole pages",
                self.page_bytes
            )
        })
    }

    /// Returns a note if the reverse map was so full that more than one percent of the pages that could be mapped
    /// without a program had to be programmed.
    fn note_of_full_reverse_map(&self) -> Option<String> {
        let stats = self.device.ftl().stats();
        let (refused, bound) =
            (stats.writes_due_to_full_reverse_map, stats.deduplicated_writes + stats.remapped_pages);
        (refused > (bound + refused) / 100).then(|| {
            format!(
                "duplicates and remapped pages that were written because the reverse map had no room for them: \
                 {refused} (mapped without a program: {bound}); remap.size_mib sets its size"
            )
        })
    }

    /// Returns a note if content mechanisms refused more than one percent of the host writes because their tables had
    /// reached their limit.
    fn note_of_full_content_tables(&self) -> Option<String> {
        let stats = self.device.ftl().stats();
        let refused = stats.pages_stored_plainly_due_to_full_content_tables;
        (refused > stats.host_page_writes / 100).then(|| {
            format!(
                "writes that were not shared, compressed or stored as deltas because the tables of these mechanisms \
                 had reached their limit: {refused}, counted once for each mechanism (pages written by the host: {}); \
                 tables.content_bytes_per_page sets the limit",
                stats.host_page_writes
            )
        })
    }

    /// Returns a note if the input ends before the number of requests after which the run was to stop.
    fn note_of_request_limit(&self) -> Option<String> {
        let before = if self.plan.aging_input.is_some() { 0 } else { self.aging_requests };
        let available = self.plan.survey.requests.saturating_sub(before);
        let limit = self.plan.config.replay.requests.filter(|&limit| limit > available)?;
        Some(format!(
            "replay.requests is {limit}, but the input has only {available} requests, so that the setting changes nothing"
        ))
    }

    /// Returns a note if the configuration lets requests arrive at the input's times, but the input has no times.
    fn note_of_absent_times(&self) -> Option<String> {
        (self.timing.is_some() && self.is_open_loop_without_request_times()).then(|| {
            "the requests of the input have no times, or all the same, and replay.arrival is open: all of them arrive at \
             once, and latencies are the length of that queue (replay.arrival=closed asks for a number of requests in \
             flight instead)"
                .to_owned()
        })
    }

    /// Returns whether requests should arrive at the times of the input (open loop), but the input has no distinct
    /// times.
    fn is_open_loop_without_request_times(&self) -> bool {
        self.plan.arrival_mode() == Arrival::Open && !self.plan.survey.has_distinct_request_times
    }

    /// Returns a note if the input has requests of no bytes.
    fn note_of_empty_requests(&self) -> Option<String> {
        let empty = self
            .host_request_counts
            .empty_requests
            .saturating_sub(self.measured_untouched_trim_counts().trims);
        let left_out = if self.timing.is_some() { " and are in no latency" } else { "" };
        (empty > 0).then(|| format!("requests of no bytes: {empty}; they ask nothing of the drive{left_out}"))
    }

    /// Returns a note if trims concern pages that do not exist because addresses are compacted.
    fn note_of_untouched_trims(&self) -> Option<String> {
        let UntouchedTrimCounts { trims, pages } = self.measured_untouched_trim_counts();
        (pages > 0 || trims > 0).then(|| {
            format!(
                "{pages} trimmed pages are left out, because the input neither reads, writes nor zeroes them; trims of which \
                 nothing is left: {trims}"
            )
        })
    }

    /// Returns the trims of the measured part that were left out because addresses are compacted.
    fn measured_untouched_trim_counts(&self) -> UntouchedTrimCounts {
        let (all, before) =
            (self.input.untouched_trim_counts, self.subtracted_counters.untouched_trim_counts);
        UntouchedTrimCounts { trims: all.trims - before.trims, pages: all.pages - before.pages }
    }

    /// Returns a note if measured requests have times before that of an earlier request; the note states how these
    /// requests were treated.
    fn note_of_unsorted_times(&self) -> Option<String> {
        let moved = self.input.request_reader.requests_clamped_to_start_time();
        let late = self.host_request_counts.out_of_order_requests + moved
            - self.subtracted_counters.requests_clamped_to_start_time;
        let effect = match (self.timing.is_some(), self.plan.arrival_mode()) {
            (true, Arrival::Open) => "they arrive at the latest time until then",
            (true, Arrival::Think) => "they arrive without a gap",
            _ => "the input counts as long as up to its latest time",
        };
        (late > 0).then(|| {
            format!(
                "times run backwards: {late} requests have a time before that of an earlier one; {effect} (the latest time is \
                 {:.3} s after the first)",
                self.input_duration_s()
            )
        })
    }

    /// Returns a note if the input lasts for more than a year, which more likely means that its times were read in a
    /// wrong unit.
    fn note_of_input_duration(&self) -> Option<String> {
        let years = self.input_duration_s() / YEAR_S as f64;
        (years > 1.0).then(|| {
            format!(
                "the input lasts {years:.1} years: if that is wrong, name the unit of its times or its format when \
                 the trace is read"
            )
        })
    }

    /// Returns a note if a drive that is sized to the input exports more than twice the pages that the input touches,
    /// because GC needs more spare blocks in each plane than the over-provisioning of a smaller drive would be.
    fn note_of_enlarged_drive(&self) -> Option<String> {
        let device = &self.plan.resolved_device;
        let touched_bytes = self.plan.survey.footprint_pages * PAGE_BYTES;
        let exported_bytes = u64::from(device.logical_pages) * self.page_bytes;
        (device.is_enlarged_for_gc && exported_bytes > 2 * touched_bytes).then(|| {
            let mib = |bytes: u64| with_thousands_separators(bytes as f64 / 1_048_576.0, 0);
            format!(
                "the drive exports {} MiB, although the input touches {} MiB: with so little over-provisioning, garbage \
                 collection needs {} blocks in each plane (set device.over_provisioning higher, or fewer planes)",
                mib(exported_bytes),
                mib(touched_bytes),
                device.geometry.blocks_per_plane
            )
        })
    }

    /// Returns a note if host writes can be smaller than a page, with the RAM that a map of 4-KiB units would need.
    fn note_of_page_size(&self) -> Option<String> {
        let page_bytes = self.page_bytes;
        let mib = |bytes: u64| with_thousands_separators(bytes as f64 / 1_048_576.0, 2);
        let table = self.device.ram_bytes_by_structure().into_iter().find(|&(name, _)| name == "l2p table");
        let ram = table.map(|(_, bytes)| {
            let finer = mib(bytes * page_bytes / PAGE_BYTES);
            format!(
                "; its table takes {} MiB of the controller's RAM, and one of {PAGE_BYTES}-byte units would take {finer}",
                mib(bytes)
            )
        });
        let joined =
            match self.plan.config.write_buffer_options(&self.plan.resolved_device.geometry).capacity_pages {
                0 => String::new(),
                pages => format!(
                    ", unless its neighbours come while it is among the {pages} pages of the write buffer"
                ),
            };
        (page_bytes > PAGE_BYTES).then(|| {
            format!(
                "the map places pages of {page_bytes} bytes: a smaller write programs a whole one, after reading the rest{joined}{}",
                ram.unwrap_or_default()
            )
        })
    }

    /// Returns how many page writes so far have an unknown compressed size or delta size, although that of a part of
    /// the page is known.
    pub(super) fn unknown_size_counts_so_far(&self) -> UnknownSizeCounts {
        self.device.unknown_size_counts().plus(self.executor.unknown_size_counts())
    }

    /// Returns a note for each kind of content size (compressed size, delta size) that the design uses, if the input
    /// brings contents but no such size.
    fn notes_of_absent_sizes(&self) -> impl Iterator<Item = String> + use<> {
        let brings_contents = !matches!(self.input.request_reader, InputReader::Workload(_))
            && !self.plan.survey.has_writes_without_content;
        let (ftl, known) = (self.device.ftl(), self.input.known_content_sizes);
        let writes = ftl.stats().host_page_writes;
        let kinds = [
            (
                "compressed size, so compression stores",
                ftl.compression_statistics().is_some() && !known.is_compressed_size_known,
            ),
            (
                "size of its difference to the page before, so delta encoding stores",
                ftl.delta_statistics().is_some() && !known.is_delta_size_known,
            ),
        ];
        let is_noted = move |&(_, is_absent): &(&str, bool)| is_absent && brings_contents && writes > 0;
        let advice = if self.draws_only_sizes() {
            ""
        } else {
            ". A content model may draw sizes (--content recorded:compress=MEAN,delta=MEAN)"
        };
        kinds.into_iter().filter(is_noted).map(move |(kind, _)| {
            format!(
                "no content of the input has a {kind} every page whole: a zero says nothing about the mechanism{advice}"
            )
        })
    }

    /// Returns a note for each kind of content size (compressed size, delta size) that the design uses but that is
    /// unknown for many written pages. The input has sizes of 4-KiB pages, and the device has larger pages.
    fn notes_of_unknown_sizes(&self) -> impl Iterator<Item = String> + use<> {
        let lost = self.unknown_size_counts_so_far().since(self.subtracted_counters.unknown_size_counts);
        let ftl = self.device.ftl();
        let writes = ftl.stats().host_page_writes;
        let page_bytes = self.page_bytes;
        let kinds = [
            ("compressed", lost.pages_with_unknown_compressed_size, ftl.compression_statistics().is_some()),
            ("delta", lost.pages_with_unknown_delta_size, ftl.delta_statistics().is_some()),
        ];
        let is_noted = move |&(_, count, is_used): &(&str, u64, bool)| {
            is_used
                && page_bytes > PAGE_BYTES
                && count as f64 > MAX_UNKNOWN_SIZE_SHARE_WITHOUT_NOTE * writes as f64
        };
        kinds.into_iter().filter(is_noted).map(move |(kind, count, _)| {
            format!(
                "{count} of {writes} page writes were stored with an unknown {kind} size, although contents have sizes: a page \
                 of {page_bytes} bytes has one only if it is written whole, with known sizes of all parts of {PAGE_BYTES} bytes"
            )
        })
    }

    /// Returns a note on writes while the write buffer is full: each is answered only when a page of the buffer is
    /// programmed. `None` without a buffer or timing, or if `timing.buffered_writes` is set.
    fn note_of_buffered_writes(&self) -> Option<String> {
        let config = self.plan.config;
        let has_buffer = config.write_buffer_options(&self.plan.resolved_device.geometry).capacity_pages > 0;
        (has_buffer && self.timing.is_some() && config.timing.buffered_writes == 0).then(|| {
            "a write that finds the write buffer full is answered only when the page that leaves the buffer is \
             programmed; with timing.buffered_writes above 0, up to that many such writes are answered at once"
                .to_owned()
        })
    }

    /// Returns a note on the effect of buffering pages for compressed chunks: apart from compression itself, it
    /// shortens response times and saves programs.
    fn note_of_chunk_buffer(&self) -> Option<String> {
        (self.device.ftl().stats().compressed_chunk_writes > 0).then(|| {
            "pages gather for a chunk in RAM: such a write is answered at once, is durable by a battery or after a flush, and \
             costs no program if the page is written again while it waits, whatever its content"
                .to_owned()
        })
    }

    /// Returns a note if pages are still buffered for an incomplete compressed chunk at the end of the run.
    fn note_of_unfinished_chunk(&self) -> Option<String> {
        let pages = self.device.ftl().logical_pages_awaiting_compression();
        (pages > 0).then(|| {
            format!("pages in the chunk buffer at the end: {pages}; the host wrote them, and they are not programmed")
        })
    }

    /// Returns a note if the deltas of more than one percent of the host writes were not programmed, because they are
    /// still in the RAM buffer of deltas at the end of the run, or were replaced there.
    fn note_of_unprogrammed_deltas(&self) -> Option<String> {
        let ftl = self.device.ftl();
        let stats = ftl.stats();
        let deltas = stats.delta_writes.saturating_sub(ftl.delta_statistics()?.committed_deltas);
        (deltas > stats.host_page_writes / 100).then(|| {
            format!(
                "writes whose delta was not programmed: {deltas}; it is in RAM at the end, where deltas gather until they \
                 fill a page, or a later write of the page replaced it there"
            )
        })
    }

    /// Returns a note if requests arrived at the trace's times faster than the drive could answer them; otherwise
    /// `None`.
    fn note_of_overload(&self) -> Option<String> {
        let queue_s = self
            .queue_drain_s()
            .filter(|_| self.is_overloaded() && !self.is_open_loop_without_request_times())?;
        Some(format!(
            "{OVERLOAD_NOTE_START}: requests came for {:.1} s, and the last was answered {queue_s:.1} s after it came; latencies would be the \
             length of that queue, and years those at a rate that the drive cannot take, so that the table leaves both out \
             (replay.arrival=closed asks for a number of requests in flight instead)",
            self.arrival_span_s()
        ))
    }

    /// Returns a note if the drive could answer all requests in the end, but let one wait for more than a second, which
    /// is longer than any work of a drive takes: for a time, requests came faster than it could answer them.
    fn note_of_long_queue(&self) -> Option<String> {
        let timing = self.timing.as_ref().filter(|_| self.plan.arrival_mode() == Arrival::Open)?;
        let max_ns = |kind| LatencySummary::of_histogram(timing.latency_histogram(kind)).max_ns;
        let longest_s = max_ns(RequestKind::Read).max(max_ns(RequestKind::Write)) as f64 / 1e9;
        (longest_s > 1.0 && !self.is_overloaded()).then(|| {
            format!(
                "for a time, requests came faster than the drive answered them: one was answered {longest_s:.1} s after \
                 it came; mean and upper percentiles of the latencies are those of that queue"
            )
        })
    }

    /// Returns a note if reads needed no flash operation because their pages were never written, or were deallocated.
    fn note_of_unwritten_pages(&self) -> Option<String> {
        let stats = self.device.ftl().stats();
        let (unwritten, all) = (stats.unwritten_page_reads, stats.host_page_reads);
        let is_partly_empty = matches!(
            self.plan.config.precondition.mode,
            Precondition::None | Precondition::Random | Precondition::Aged
        );
        (self.timing.is_some() && unwritten > 0).then(|| {
            let why = if is_partly_empty {
                "were never written, or deallocated (precondition.mode=fill writes every page before)"
            } else {
                "had been deallocated"
            };
            format!(
                "pages read that {why}: {unwritten} of {all}; for these no flash page was read, and requests for only \
                 such pages are left out of read latencies"
            )
        })
    }
}

/// Returns `total` divided by the number of host page writes; 0 without host page writes.
fn per_host_page_write(total: f64, stats: &Stats) -> f64 {
    if stats.host_page_writes == 0 { 0.0 } else { total / stats.host_page_writes as f64 }
}

/// Returns host page writes by the form in which they were stored (page, delta, packed and others); forms with a count
/// of zero are absent.
fn host_writes_by_stored_form(stats: &Stats) -> BTreeMap<String, u64> {
    let without_page = [
        ("unchanged", stats.unchanged_writes),
        ("recycled", stats.recycled_writes),
        ("deduplicated", stats.deduplicated_writes),
        ("delta", stats.delta_writes),
        ("packed", stats.compressed_chunk_writes),
    ];
    let pages = stats.host_page_writes - without_page.iter().map(|(_, count)| count).sum::<u64>();
    let forms = without_page.into_iter().chain([("page", pages)]).filter(|&(_, count)| count > 0);
    forms.map(|(form, count)| (form.to_owned(), count)).collect()
}

/// Returns the share of host page writes that needed no program: `(n - m) / n`, where n counts the host's page writes
/// and m the programs of host data, packed pages included, but not those of garbage collection (Recyclable SSD paper,
/// section V-B). Without host page writes nothing is saved.
fn saved_host_write_share(stats: &Stats) -> f64 {
    let programs = stats.programs[Cause::Host as usize] + stats.programs[Cause::ContentMechanism as usize];
    if stats.host_page_writes == 0 { 0.0 } else { 1.0 - per_host_page_write(programs as f64, stats) }
}
