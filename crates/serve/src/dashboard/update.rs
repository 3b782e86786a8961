//! A dashboard update of a device: counters, health, wear and the chart of its blocks, as JSON of bounded size.
//!
//! Counters and health are the reports of the control socket. The blocks are examined in steps, between which requests
//! of clients are executed, so that a large device is not delayed for long. If the device is written meanwhile, the
//! parts of the chart show different moments. Counters and health are read at one moment.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wearwell::block_chart::{self, EraseHistogram};

use crate::control::report::{self, WearReport};
use crate::device::FlashDevice;
use crate::device_queue::{DeviceQueue, DeviceStopped};

/// Maximum number of cells of the dashboard's block chart, two bytes each. On a device with more blocks, several
/// consecutive blocks share a cell.
const BLOCK_CHART_CELLS_MAX: u32 = 2048;
/// Number of blocks that one step of a dashboard update examines. Requests of clients are executed between steps. If
/// one cell of the block chart stands for more blocks, a step examines the blocks of one cell.
const BLOCKS_PER_EXAMINATION_STEP: u32 = 1 << 14;

/// Counters, health, wear and block chart of a device, as sent to dashboard clients.
pub(super) struct DashboardUpdate {
    /// Answer to the control command `stats`: the counters.
    stats: Value,
    /// Answer to the control command `health`: the health log.
    health: Value,
    /// Result of the examination of all blocks: the block chart and the wear of the device.
    block_examination: BlockExamination,
    /// Wall-clock time for which making this update used the device.
    pub(super) device_use_duration: Duration,
}

/// Gathers a dashboard update of the device behind `device_queue`.
///
/// # Errors
/// [`DeviceStopped`] if the queue has ended.
pub(super) fn gather_dashboard_update(
    device_queue: &DeviceQueue<FlashDevice>,
) -> Result<DashboardUpdate, DeviceStopped> {
    let mut survey = device_queue.run_and_wait(|device| BlockExamination::begin_examination(device))?;
    while survey.next_block_to_examine < survey.block_count {
        survey = device_queue.run_and_wait(move |device| {
            survey.examine_next_blocks(device);
            survey
        })?;
    }
    device_queue.run_and_wait(move |device| survey.into_dashboard_update(device))
}

impl DashboardUpdate {
    /// Encodes the dashboard update as one line of JSON. `at_s` is the time at which it was gathered, in seconds since
    /// the dashboard was opened.
    pub(super) fn to_json(&self, at_s: f64) -> String {
        let BlockExamination {
            block_count: blocks,
            blocks_per_chart_cell,
            block_chart_cells: cells,
            wear,
            ..
        } = &self.block_examination;
        let EraseHistogram { first_bin_start_erases, bin_width_erases, blocks_per_bin: by_erases } =
            EraseHistogram::of_erase_counts(wear.erase_counts.iter().copied());
        json!({
            "at_s": at_s,
            "stats": self.stats,
            "health": self.health,
            "blocks": blocks,
            "blocks_per_cell": blocks_per_chart_cell,
            "cells": cells,
            "wear": {
                "first_erases": first_bin_start_erases,
                "erases_per_bin": bin_width_erases,
                "blocks": by_erases,
            },
        })
        .to_string()
    }
}

/// Progress of the examination of a device's blocks for a dashboard update: block chart and wear so far.
struct BlockExamination {
    /// Number of blocks of the device.
    block_count: u32,
    /// Number of consecutive blocks for which one cell of the block chart stands.
    blocks_per_chart_cell: u32,
    /// Number of the first block that is not examined yet. The next call of [`BlockExamination::examine_next_blocks`]
    /// begins there.
    next_block_to_examine: u32,
    /// Cells of the block chart for the blocks examined so far, two characters each.
    block_chart_cells: String,
    /// Wear of the blocks examined so far.
    wear: WearReport,
    /// Wall-clock time for which making the update has used the device so far.
    device_use_duration: Duration,
}

impl BlockExamination {
    /// Begins the examination of a device's blocks for a dashboard update, and examines the blocks of the first step.
    fn begin_examination(device: &FlashDevice) -> Self {
        let blocks = device.device().geometry().blocks();
        let mut survey = Self {
            block_count: blocks,
            blocks_per_chart_cell: block_chart::blocks_per_chart_cell(blocks, BLOCK_CHART_CELLS_MAX),
            next_block_to_examine: 0,
            block_chart_cells: String::new(),
            wear: WearReport::default(),
            device_use_duration: Duration::ZERO,
        };
        survey.examine_next_blocks(device);
        survey
    }

    /// Examines the blocks of one step: adds them to the block chart and the wear report. A step consists of whole
    /// cells of the chart, except at the end of the device.
    fn examine_next_blocks(&mut self, device: &FlashDevice) {
        let began = Instant::now();
        let cells = (BLOCKS_PER_EXAMINATION_STEP / self.blocks_per_chart_cell).max(1);
        let end = self
            .next_block_to_examine
            .saturating_add(cells * self.blocks_per_chart_cell)
            .min(self.block_count);
        let store = device.device().ftl().store();
        block_chart::append_chart_cells(
            store,
            self.next_block_to_examine..end,
            self.blocks_per_chart_cell,
            &mut self.block_chart_cells,
        );
        self.wear.add_blocks(device, self.next_block_to_examine..end);
        self.next_block_to_examine = end;
        self.device_use_duration += began.elapsed();
    }

    /// Makes a dashboard update of the completed examination, by adding the counters and the health of the device.
    fn into_dashboard_update(mut self, device: &mut FlashDevice) -> DashboardUpdate {
        let began = Instant::now();
        let (stats, health) =
            (report::stats_answer(device), report::health_answer_with_wear(device, &self.wear));
        self.device_use_duration += began.elapsed();
        let device_time = self.device_use_duration;
        DashboardUpdate { stats, health, block_examination: self, device_use_duration: device_time }
    }
}
