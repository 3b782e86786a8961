//! A snapshot of a device for the dashboard: counters, health, wear and the map of its blocks, as JSON of bounded size.
//!
//! Counters and health are the reports of the control socket. The engine looks at the blocks in slices, between which
//! it executes the requests of clients, so that a large device is not delayed for long. So the map of a device that is
//! written meanwhile is not of one moment; counters and health are.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wearwell::block_map::{self, EraseHistogram};

use crate::control::report::{self, WearReport};
use crate::device::{FlashDevice, Medium};
use crate::engine::{Engine, Stopped};

/// Most cells of the map of blocks, two bytes each; on larger devices consecutive blocks share a cell.
const CELLS_MAX: u32 = 2048;
/// Blocks that the engine looks at before requests of clients are executed, at least one cell.
const SLICE_BLOCKS: u32 = 1 << 14;

/// A snapshot of a device.
pub(super) struct Snapshot {
    stats: Value,
    health: Value,
    survey: BlockSurveyState,
    /// Time that the engine spent on the snapshot.
    pub(super) engine_time: Duration,
}

/// Takes a snapshot of the device of an engine.
///
/// # Errors
/// [`Stopped`] if the engine has ended.
pub(super) fn take<N: Medium>(engine: &Engine<FlashDevice<N>>) -> Result<Snapshot, Stopped> {
    let mut survey = engine.ask(|device| BlockSurveyState::begin(device))?;
    while survey.next < survey.blocks {
        survey = engine.ask(move |device| {
            survey.continue_survey(device);
            survey
        })?;
    }
    engine.ask(move |device| survey.end(device))
}

impl Snapshot {
    /// Returns the snapshot in one line. `at_s` is when it was taken, in seconds since the dashboard was opened.
    pub(super) fn to_json(&self, at_s: f64) -> String {
        let BlockSurveyState { blocks, blocks_per_cell, cells, wear, .. } = &self.survey;
        let EraseHistogram { first_erases, erases_per_bin, blocks: by_erases } =
            EraseHistogram::of_erase_counts(wear.erases.iter().copied());
        json!({
            "at_s": at_s,
            "stats": self.stats,
            "health": self.health,
            "blocks": blocks,
            "blocks_per_cell": blocks_per_cell,
            "cells": cells,
            "wear": {
                "first_erases": first_erases,
                "erases_per_bin": erases_per_bin,
                "blocks": by_erases,
            },
        })
        .to_string()
    }
}

/// What was found at the blocks of a device so far.
struct BlockSurveyState {
    blocks: u32,
    blocks_per_cell: u32,
    /// First block of the next slice.
    next: u32,
    cells: String,
    wear: WearReport,
    engine_time: Duration,
}

impl BlockSurveyState {
    /// Looks at the first slice of blocks.
    fn begin<N: Medium>(device: &FlashDevice<N>) -> Self {
        let blocks = device.device().ftl().store().geometry().blocks();
        let mut survey = Self {
            blocks,
            blocks_per_cell: block_map::blocks_per_cell(blocks, CELLS_MAX),
            next: 0,
            cells: String::new(),
            wear: WearReport::default(),
            engine_time: Duration::ZERO,
        };
        survey.continue_survey(device);
        survey
    }

    /// Looks at the next slice of blocks: whole cells, the last one of the device excepted.
    fn continue_survey<N: Medium>(&mut self, device: &FlashDevice<N>) {
        let began = Instant::now();
        let cells = (SLICE_BLOCKS / self.blocks_per_cell).max(1);
        let end = self.next.saturating_add(cells * self.blocks_per_cell).min(self.blocks);
        let store = device.device().ftl().store();
        block_map::append_cells(store, self.next..end, self.blocks_per_cell, &mut self.cells);
        self.wear.add(device, self.next..end);
        self.next = end;
        self.engine_time += began.elapsed();
    }

    /// Completes the snapshot by counters and health.
    fn end<N: Medium>(mut self, device: &mut FlashDevice<N>) -> Snapshot {
        let began = Instant::now();
        let (stats, health) = (report::stats(device), report::health_of(device, &self.wear));
        self.engine_time += began.elapsed();
        let engine_time = self.engine_time;
        Snapshot { stats, health, survey: self, engine_time }
    }
}
