//! Lives of drives as typed tables, always in the same columns: one row per life, including the configuration, or one
//! row per moment of a drive's curves.

use super::{CurvePoint, End, Estimate, Life, LifeRecord};
use crate::data_table::{Cell, DataColumn, DataTable, Kind};

/// A column of a table of lives: its title and kind, and a function that returns its cell for a life.
type Column = (&'static str, Kind, fn(&LifeRecord, &Life) -> Cell);

/// Returns lives of drives as a typed table. A figure that a life does not have is empty, so that files of any lives can
/// be joined.
pub fn data_table(records: &[LifeRecord]) -> DataTable {
    let columns = COLUMNS.iter().map(|&(title, kind, _)| DataColumn::new(title, kind));
    let mut table = DataTable::new(columns.collect());
    for record in records {
        for life in &record.lives {
            table.push(COLUMNS.iter().map(|(_, _, value)| value(record, life)).collect());
        }
    }
    table
}

/// A figure of a drive's curves: its name, and a function that returns it at a moment.
type Curve = (&'static str, fn(&CurvePoint) -> Estimate);

const CURVES: [Curve; 4] = [
    ("spare", |point| point.spare),
    ("write_amplification", |point| point.write_amplification),
    ("mean_erases", |point| point.mean_erases),
    ("max_erases", |point| point.max_erases),
];

/// Returns the curves of drives' lives as a typed table: one row per drive and moment; of each figure the mean over the
/// seeds, half of its 95 % interval (empty with one seed), and the extremes.
pub fn curves_data_table(records: &[LifeRecord]) -> DataTable {
    let mut table = DataTable::new(curve_columns());
    for record in records {
        for point in &record.curves {
            table.push(curve_row(record, point));
        }
    }
    table
}

fn curve_columns() -> Vec<DataColumn> {
    let names = ["input", "design", "leveling"].map(|title| DataColumn::new(title, Kind::Text));
    let counts = ["drives", "host_bytes", "ended"].map(|title| DataColumn::new(title, Kind::Whole));
    let parts = CURVES.iter().flat_map(|(name, _)| {
        ["mean", "half_width", "least", "most"]
            .map(|part| DataColumn::new(&format!("{name}.{part}"), Kind::Real))
    });
    names.into_iter().chain(counts).chain(parts).collect()
}

/// Returns the cells of a moment, in the order of [`curve_columns`].
fn curve_row(record: &LifeRecord, point: &CurvePoint) -> Vec<Cell> {
    let drive = [
        record.input.clone().into(),
        record.design.clone().into(),
        record.leveling.name().into(),
        (record.lives.len() as u64).into(),
        point.host_bytes.into(),
        point.ended.into(),
    ];
    let figures = CURVES.iter().flat_map(|(_, figure)| {
        let Estimate { mean, half_width, least, most } = figure(point);
        [mean.into(), half_width.into(), least.into(), most.into()]
    });
    drive.into_iter().chain(figures).collect()
}

/// Returns the name of a configuration value, as a configuration file writes it.
fn name_of<T: serde::Serialize>(value: &T) -> String {
    let value = serde_json::to_value(value).expect("settings are plain data");
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

const COLUMNS: &[Column] = &[
    ("input", Kind::Text, |record, _| record.input.clone().into()),
    ("design", Kind::Text, |record, _| record.design.clone().into()),
    ("leveling", Kind::Text, |record, _| record.leveling.name().into()),
    ("version", Kind::Text, |record, _| record.version.clone().into()),
    ("seed", Kind::Whole, |_, life| life.seed.into()),
    ("end", Kind::Text, |_, life| name_of(&life.end).into()),
    ("partial", Kind::Flag, |_, life| (life.end == End::Interrupted).into()),
    ("is_filled", Kind::Flag, |record, _| record.is_filled.into()),
    ("preset", Kind::Text, |record, _| record.config.device.preset.clone().into()),
    ("page_bytes", Kind::Whole, |record, _| record.config.device.page_bytes.into()),
    ("pages_per_block", Kind::Whole, |record, _| record.config.device.pages_per_block.into()),
    ("exported_bytes", Kind::Whole, |record, _| record.exported_bytes.into()),
    ("physical_bytes", Kind::Whole, |record, _| record.physical_bytes.into()),
    ("rated_cycles", Kind::Whole, |record, _| record.rated_cycles.into()),
    ("spread", Kind::Real, |record, _| record.endurance.spread.into()),
    ("early_share", Kind::Real, |record, _| record.endurance.early_share.into()),
    ("program_share", Kind::Real, |record, _| record.endurance.program_share.into()),
    ("spare_minimum", Kind::Real, |record, _| record.endurance.spare_minimum.into()),
    ("victim_policy", Kind::Text, |record, _| name_of(&record.config.gc.policy).into()),
    ("gc_low_blocks", Kind::Whole, |record, _| record.config.gc.low_blocks.into()),
    ("wear_dynamic", Kind::Flag, |record, _| record.config.wear.dynamic.into()),
    ("wear_static_gap", Kind::Whole, |record, _| record.config.wear.static_gap.into()),
    ("wear_dual_pool_gap", Kind::Whole, |record, _| record.config.wear.dual_pool_gap.into()),
    ("wear_scan", Kind::Flag, |record, _| record.config.wear.scan.into()),
    ("buffer_pages", Kind::Whole, |record, _| record.config.buffer.pages.unwrap_or_default().into()),
    ("time_scale", Kind::Real, |record, _| record.config.replay.time_scale.into()),
    ("scale_to_bytes", Kind::Whole, |record, _| record.scale_to_bytes.into()),
    ("leveling_ram_bytes", Kind::Whole, |record, _| record.leveling_ram_bytes.into()),
    ("host_bytes", Kind::Whole, |_, life| life.host_bytes.into()),
    ("media_bytes", Kind::Whole, |_, life| life.media_bytes.into()),
    ("write_amplification", Kind::Real, |_, life| life.write_amplification().into()),
    ("passes", Kind::Real, |_, life| life.passes.into()),
    ("years", Kind::Real, |_, life| life.years.into()),
    ("scaled_years", Kind::Real, |record, life| record.scaled_years(life).into()),
    ("drive_writes_per_day", Kind::Real, |record, life| record.drive_writes_per_day(life).into()),
    ("extrapolated_bytes", Kind::Real, |_, life| life.extrapolated_bytes.into()),
    ("usable_endurance", Kind::Real, |_, life| life.usable_endurance.into()),
    ("first_failure_bytes", Kind::Whole, |_, life| life.first_failure_bytes.into()),
    ("failed_blocks", Kind::Whole, |_, life| life.failed_blocks.into()),
    ("erases_mean", Kind::Real, |_, life| life.wear.mean.into()),
    ("erases_least", Kind::Whole, |_, life| life.wear.least.into()),
    ("erases_p10", Kind::Whole, |_, life| life.wear.p10.into()),
    ("erases_p50", Kind::Whole, |_, life| life.wear.p50.into()),
    ("erases_p90", Kind::Whole, |_, life| life.wear.p90.into()),
    ("erases_most", Kind::Whole, |_, life| life.wear.most.into()),
    ("leveling_programs", Kind::Whole, |_, life| life.leveling_programs.into()),
    ("leveling_erases", Kind::Whole, |_, life| life.leveling_erases.into()),
    ("cpu_seconds", Kind::Real, |_, life| life.cpu_seconds.into()),
];
