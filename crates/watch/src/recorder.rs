//! Executes the requests of a step-by-step run (`wearwell watch`) on a small drive, and records each as a step.

use wearwell::design;
use wearwell::design::{ContentParts, MappingPart, Parts, Persistence};
use wearwell::events::{CandidateProperties, FtlEvent};
use wearwell::mapping::InvalidPageIdentification;
use wearwell::nand::{CutOutcome, Geometry};
use wearwell::operation::Cause;
use wearwell_config::{Config, ResolvedDevice};
use wearwell_replay::input::Input;
use wearwell_replay::replay::{ReplayError, RequestExecutor};
use wearwell_trace::{PAGE_BYTES, Request};

use crate::before_and_after::DriveBeforeAndAfter;
use crate::phrases::with_plural;
use crate::record::{
    DriveCounters, DriveState, EventRow, NamesByCode, VictimCandidateRow, Walkthrough, WalkthroughStep,
    WatchedDriveLayout, code_of_page_kind,
};
use crate::sentences::{StepKind, describe_step};
use crate::small_drive::{self, PageAndBlockSize, SmallDrive, SmallDriveSetup};
use crate::watched_requests::{WATCHED_REQUEST_PAGES_MAX, WatchedRequests};
use crate::{OnWalkthroughStep, WalkthroughOptions, gc_collection, parts_on_default_drive, recovery};

/// Executes the first requests of an input on a small drive of a design, and records every step.
pub(super) fn record_walkthrough(
    config: &Config,
    design: &str,
    input: &Input,
    walk_options: WalkthroughOptions,
    on_step: OnWalkthroughStep<'_>,
) -> Result<Walkthrough, ReplayError> {
    let form = PageAndBlockSize::for_parts(
        &parts_on_default_drive(config, design)?,
        !matches!(input, Input::Trace { .. }),
    );
    let config = small_drive::with_small_drive_settings(config, form);
    let mut load = WatchedRequests::read_from(input, walk_options.requests, &config)?;
    let SmallDriveSetup { device, resolved, parts } =
        small_drive::new_small_drive(&config, design, load.exported_pages)?;
    let described_page_bytes = if matches!(input, Input::Trace { .. }) {
        PAGE_BYTES
    } else {
        load.scale_to_page_size(resolved.geometry.page_bytes);
        resolved.geometry.page_bytes.into()
    };
    if parts.content.chunks.is_some() && parts.persistence == Persistence::NvramMap {
        load.generate_page_bytes(described_page_bytes);
    }
    let drive = describe_drive(&device, &resolved, &parts);
    let notes = walkthrough_notes(&load, input, &config, &resolved, &parts);
    let mut recorder = WalkthroughRecorder {
        executor: RequestExecutor::of_device(&device, config.replay.zeroes),
        state_after_last_step: DriveState::of_empty_drive(&drive),
        persistence: parts.persistence,
        steps: Vec::new(),
        device,
        drive,
        on_step,
    };
    recorder.run_requests(&load.requests, walk_options.power_cut_after_requests)?;
    let source = design::ALL.iter().find(|known| known.name == design).map_or("", |known| known.source);
    Ok(Walkthrough {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        design: design.to_owned(),
        source: source.to_owned(),
        input: input.name(),
        drive: recorder.drive,
        notes,
        names: NamesByCode::default(),
        steps: recorder.steps,
    })
}

/// Returns layout and garbage-collection options of the small drive, for the record.
fn describe_drive(device: &SmallDrive, resolved: &ResolvedDevice, parts: &Parts) -> WatchedDriveLayout {
    let geometry = &resolved.geometry;
    WatchedDriveLayout {
        dies: geometry.channels * geometry.dies_per_channel,
        planes_per_die: geometry.planes_per_die,
        superblock_planes: geometry.superblock_planes,
        pools: pool_names(geometry),
        blocks: geometry.blocks(),
        block_pages: geometry.block_pages(),
        page_bytes: geometry.page_bytes,
        logical_pages: resolved.logical_pages,
        low_blocks: device.ftl().gc_options().gc_start_free_blocks,
        policy: gc_collection::policy_name(parts.gc.policy).to_owned(),
        figure: gc_collection::ranking_figure_name(parts.gc.policy).to_owned(),
    }
}

/// Returns the names of the pools (planes, or groups of planes over which superblocks extend).
fn pool_names(geometry: &Geometry) -> Vec<String> {
    let (pools, dies) = (geometry.allocation_pools(), geometry.channels * geometry.dies_per_channel);
    let what = match pools {
        1 => return vec!["the drive".to_owned()],
        _ if pools == dies => "die",
        _ if pools == geometry.planes() => "plane",
        _ => "pool",
    };
    (0..pools).map(|pool| format!("{what} {pool}")).collect()
}

/// Returns the notes of a step-by-step run: sentences on what a reader must know about the drive and the input.
fn walkthrough_notes(
    watched_requests: &WatchedRequests,
    input: &Input,
    config: &Config,
    resolved: &ResolvedDevice,
    parts: &Parts,
) -> Vec<String> {
    let mut notes = vec![recovery::power_loss_persistence_sentence(parts.persistence).to_owned()];
    if let MappingPart::Cached(options) | MappingPart::Journalled { cache: options, .. } = &parts.mapping {
        notes.push(format!(
            "The map is on flash in translation pages; RAM caches {} of its {} entries.",
            options.cache_entries.min(resolved.logical_pages),
            resolved.logical_pages
        ));
        if options.identification == InvalidPageIdentification::AtSynchronisation {
            notes.push(
                "The FTL finds a page that was overwritten only when it writes the translation page. Until then the page is \
                 invalid here, but valid for the FTL, so that the FTL's counts of valid pages are upper bounds."
                    .to_owned(),
            );
        }
    }
    if watched_requests.has_compact_addresses {
        notes.push(
            "Only pages that the requests touch exist on the drive; they are numbered in order of address."
                .to_owned(),
        );
    }
    if watched_requests.skipped_requests > 0 {
        let requests = with_plural(watched_requests.skipped_requests, "request");
        notes.push(format!(
            "{requests} of more than {WATCHED_REQUEST_PAGES_MAX} pages before the last step: left out."
        ));
    }
    let looks_at_content = parts.content != ContentParts::default();
    let model = config.content.model.as_deref().unwrap_or("unique");
    if watched_requests.has_generated_content && looks_at_content {
        notes.push(format!("The input brings no content for its writes: the model {model} gives it."));
    }
    if watched_requests.has_generated_sizes && looks_at_content {
        notes
            .push(format!("The contents of the input have sizes of the model {model} where it brings none."));
    }
    if !matches!(input, Input::Trace { .. }) && resolved.geometry.page_bytes != 4096 {
        notes.push(format!(
            "Pages have {} bytes, so that few map entries fit into a page of metadata.",
            resolved.geometry.page_bytes
        ));
    }
    notes
}

/// Executes the requests of a step-by-step run on a small drive, and records each of them as a step.
struct WalkthroughRecorder<'a> {
    /// Small drive that executes the requests.
    device: SmallDrive,
    /// Executor that converts requests into calls of the drive.
    executor: RequestExecutor,
    /// Layout of the drive, as it is stored in the record of the step-by-step run.
    drive: WatchedDriveLayout,
    /// What preserves data over a loss of power on this design.
    persistence: Persistence,
    /// State of the drive after the last recorded step.
    state_after_last_step: DriveState,
    /// Steps recorded so far.
    steps: Vec<WalkthroughStep>,
    /// Callback that receives each step and the drive after it.
    on_step: OnWalkthroughStep<'a>,
}

impl WalkthroughRecorder<'_> {
    /// Executes the requests; power is lost after `cut_after` of them, unless it is `None`.
    fn run_requests(&mut self, requests: &[Request], cut_after: Option<u64>) -> Result<(), ReplayError> {
        self.device.ftl_mut().store_mut().flash_ops.enable_event_recording();
        self.finish_step(&StepKind::NewDrive)?;
        for (number, request) in (0..).zip(requests) {
            if cut_after == Some(number) {
                self.device
                    .ftl_mut()
                    .store_mut()
                    .nand_mut()
                    .power_cut_nand_mut()
                    .cut_after(0, CutOutcome::Torn);
            }
            if !self.execute_request(request)? {
                return Ok(());
            }
        }
        if cut_after.is_some() && !self.has_recorded_power_loss() {
            self.device.ftl_mut().store_mut().nand_mut().power_cut_nand_mut().cut_now();
            self.record_power_loss(None)?;
        }
        Ok(())
    }

    /// Whether a loss of power has been recorded as a step.
    fn has_recorded_power_loss(&self) -> bool {
        self.steps.iter().any(|step| step.marks.contains(&crate::StepGroup::Cut))
    }

    /// Executes a request as one step, or as two steps if power is lost in it. Returns `false` if the drive refused the
    /// request.
    fn execute_request(&mut self, request: &Request) -> Result<bool, ReplayError> {
        match self.executor.perform_request(&mut self.device, request) {
            Ok(_) => self.finish_step(&StepKind::Request(request)).map(|()| true),
            Err(error) if error.is_power_loss() => self.record_power_loss(Some(request)).map(|()| true),
            Err(error) => self.finish_step(&StepKind::Refused(request, error.to_string())).map(|()| false),
        }
    }

    /// Records the loss of power, during `request` or after the last request, and the recovery from it.
    fn record_power_loss(&mut self, request: Option<&Request>) -> Result<(), ReplayError> {
        self.device.ftl_mut().store_mut().nand_mut().power_cut_nand_mut().restore_power(None);
        self.finish_step(&StepKind::PowerLost(request))?;
        let report = self.device.recover()?;
        self.finish_step(&StepKind::Recovered(&report, self.persistence))
    }

    /// Adds a step to the record: the events and changes of the drive since the last step, with the sentences that
    /// explain them.
    fn finish_step(&mut self, step_kind: &StepKind<'_>) -> Result<(), ReplayError> {
        let store = self.device.ftl().store();
        let events: Vec<EventRow> = store.flash_ops.events().iter().map(event_row).collect();
        let tie_break = self.device.ftl().gc_options().tie_break;
        let counters = self.counters();
        let after = DriveState::of_flash_view(&self.device.flash_view()?);
        let mut step = WalkthroughStep { events, counters, ..WalkthroughStep::default() };
        self.state_after_last_step.set_changed_rows(&after, &mut step);
        describe_step(
            &mut step,
            step_kind,
            &DriveBeforeAndAfter {
                drive: &self.drive,
                before: &self.state_after_last_step,
                after: &after,
                tie_break,
            },
        );
        self.state_after_last_step = after;
        self.device.ftl_mut().store_mut().flash_ops.clear();
        (self.on_step)(&step, &mut self.device);
        self.steps.push(step);
        Ok(())
    }

    /// Returns the present counters of the drive.
    fn counters(&self) -> DriveCounters {
        let (stats, store) = (self.device.ftl().stats(), self.device.ftl().store());
        DriveCounters {
            host_writes: stats.host_page_writes,
            programs: stats.total_programs(),
            host_programs: stats.programs[Cause::Host as usize],
            reads: stats.total_reads(),
            erases: stats.total_erases(),
            binds: stats.deduplicated_writes + stats.recycled_writes + stats.remapped_pages,
            free_blocks: store.total_free_blocks(),
        }
    }
}

/// Converts an event that the engine reported to its row in the record.
fn event_row(event: &FtlEvent) -> EventRow {
    match event {
        FtlEvent::Read { ppn, cause, reads_only_spare_area } => {
            EventRow::Read { cause: cause.name(), page: ppn.0, spare: *reads_only_spare_area }
        }
        FtlEvent::Program { ppn, cause } => EventRow::Program { cause: cause.name(), page: ppn.0 },
        FtlEvent::Copy { from, to, cause } => EventRow::Copy { cause: cause.name(), from: from.0, to: to.0 },
        FtlEvent::Erase { block, cause } => EventRow::Erase { cause: cause.name(), block: block.0 },
        FtlEvent::MetadataWriteStart(reason) => EventRow::Reason { why: reason.name() },
        FtlEvent::Victim(choice) => EventRow::Victim {
            pool: choice.pool,
            free: choice.free_blocks,
            block: choice.block.0,
            rule: choice.rule.name(),
            candidates: choice.candidates.iter().map(candidate_row).collect(),
        },
    }
}

/// Converts a block that GC could collect to its row in the record.
fn candidate_row(candidate: &CandidateProperties) -> VictimCandidateRow {
    let CandidateProperties { block, valid_pages, age_programs, erases, kind, rank_score: figure } =
        *candidate;
    VictimCandidateRow(block.0, valid_pages, age_programs, erases, code_of_page_kind(Some(kind)), figure)
}
