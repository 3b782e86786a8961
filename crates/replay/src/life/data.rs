//! Lives of drives as tables of typed columns (for CSV and Parquet), always the same columns: one row per life,
//! including the configuration, or one row per moment of a drive's curves.

use super::{CurvePoint, Estimate, Life, LifeEndReason, LifeRecord};
use crate::data_table::{Cell, CellKind, DataColumn, DataTable};

/// A column of a table of lives: its title and kind, and a function that returns its cell for a life.
type LifeColumn = (&'static str, CellKind, fn(&LifeRecord, &Life) -> Cell);

/// Returns lives of drives as a table of typed columns (for CSV and Parquet), one row per life. All tables have the
/// same columns, so that files of different lives can be joined; a figure that a life does not have is an empty cell.
pub fn data_table(records: &[LifeRecord]) -> DataTable {
    let columns = LIFE_COLUMNS.iter().map(|&(title, kind, _)| DataColumn::new(title, kind));
    let mut table = DataTable::new(columns.collect());
    for record in records {
        for life in &record.lives {
            table.push(LIFE_COLUMNS.iter().map(|(_, _, value)| value(record, life)).collect());
        }
    }
    table
}

/// A figure of a drive's curves: its name, and a function that returns its estimate from a point of the curves.
type CurveFigure = (&'static str, fn(&CurvePoint) -> Estimate);

/// The figures of a drive's curves, in the order of the table's columns.
const CURVE_FIGURES: [CurveFigure; 4] = [
    ("spare", |point| point.spare),
    ("write_amplification", |point| point.write_amplification),
    ("mean_erases", |point| point.mean_erases),
    ("max_erases", |point| point.max_erases),
];

/// Returns the curves of drives' lives as a table of typed columns (for CSV and Parquet), one row per drive and moment.
/// Each figure has its mean over the seeds, half of the 95 % interval of the mean (empty with one seed), and the
/// extremes.
pub fn curves_data_table(records: &[LifeRecord]) -> DataTable {
    let mut table = DataTable::new(curve_columns());
    for record in records {
        for point in &record.curves {
            table.push(curve_row(record, point));
        }
    }
    table
}

/// Returns the columns of the table of curves: input, drive, host bytes, and each figure with its interval and
/// extremes.
fn curve_columns() -> Vec<DataColumn> {
    let names = ["input", "design", "leveling"].map(|title| DataColumn::new(title, CellKind::Text));
    let counts = ["drives", "host_bytes", "ended"].map(|title| DataColumn::new(title, CellKind::Whole));
    let parts = CURVE_FIGURES.iter().flat_map(|(name, _)| {
        ["mean", "half_width", "least", "most"]
            .map(|part| DataColumn::new(&format!("{name}.{part}"), CellKind::Real))
    });
    names.into_iter().chain(counts).chain(parts).collect()
}

/// Returns the table cells of one point of a drive's curves, in the order of [`curve_columns`].
fn curve_row(record: &LifeRecord, point: &CurvePoint) -> Vec<Cell> {
    let drive = [
        record.input.clone().into(),
        record.design.clone().into(),
        record.leveling.name().into(),
        (record.lives.len() as u64).into(),
        point.host_bytes.into(),
        point.ended.into(),
    ];
    let figures = CURVE_FIGURES.iter().flat_map(|(_, figure)| {
        let Estimate { mean, half_width, least, most } = figure(point);
        [mean.into(), half_width.into(), least.into(), most.into()]
    });
    drive.into_iter().chain(figures).collect()
}

/// Returns the name of a configuration value, as a configuration file writes it.
fn config_value_name<T: serde::Serialize>(value: &T) -> String {
    let value = serde_json::to_value(value).expect("settings are plain data");
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The columns of the table of lives, from left to right.
const LIFE_COLUMNS: &[LifeColumn] = &[
    ("input", CellKind::Text, |record, _| record.input.clone().into()),
    ("design", CellKind::Text, |record, _| record.design.clone().into()),
    ("leveling", CellKind::Text, |record, _| record.leveling.name().into()),
    ("version", CellKind::Text, |record, _| record.version.clone().into()),
    ("seed", CellKind::Whole, |_, life| life.seed.into()),
    ("end", CellKind::Text, |_, life| config_value_name(&life.end).into()),
    ("partial", CellKind::Flag, |_, life| (life.end == LifeEndReason::Interrupted).into()),
    ("is_filled", CellKind::Flag, |record, _| record.is_filled.into()),
    ("preset", CellKind::Text, |record, _| record.config.device.preset.clone().into()),
    ("page_bytes", CellKind::Whole, |record, _| record.config.device.page_bytes.into()),
    ("pages_per_block", CellKind::Whole, |record, _| record.config.device.pages_per_block.into()),
    ("exported_bytes", CellKind::Whole, |record, _| record.exported_bytes.into()),
    ("physical_bytes", CellKind::Whole, |record, _| record.physical_bytes.into()),
    ("rated_cycles", CellKind::Whole, |record, _| record.rated_cycles.into()),
    ("spread", CellKind::Real, |record, _| record.endurance.spread.into()),
    ("early_share", CellKind::Real, |record, _| record.endurance.early_share.into()),
    ("program_share", CellKind::Real, |record, _| record.endurance.program_share.into()),
    ("spare_minimum", CellKind::Real, |record, _| record.endurance.spare_minimum.into()),
    ("victim_policy", CellKind::Text, |record, _| config_value_name(&record.config.gc.policy).into()),
    ("gc_low_blocks", CellKind::Whole, |record, _| record.config.gc.low_blocks.into()),
    ("wear_dynamic", CellKind::Flag, |record, _| record.config.wear.dynamic.into()),
    ("wear_static_gap", CellKind::Whole, |record, _| record.config.wear.static_gap.into()),
    ("wear_dual_pool_gap", CellKind::Whole, |record, _| record.config.wear.dual_pool_gap.into()),
    ("wear_scan", CellKind::Flag, |record, _| record.config.wear.scan.into()),
    ("buffer_pages", CellKind::Whole, |record, _| record.config.buffer.pages.unwrap_or_default().into()),
    ("time_scale", CellKind::Real, |record, _| record.config.replay.time_scale.into()),
    ("scale_to_bytes", CellKind::Whole, |record, _| record.scale_to_bytes.into()),
    ("leveling_ram_bytes", CellKind::Whole, |record, _| record.leveling_ram_bytes.into()),
    ("host_bytes", CellKind::Whole, |_, life| life.host_bytes.into()),
    ("media_bytes", CellKind::Whole, |_, life| life.media_bytes.into()),
    ("write_amplification", CellKind::Real, |_, life| life.write_amplification().into()),
    ("passes", CellKind::Real, |_, life| life.passes.into()),
    ("years", CellKind::Real, |_, life| life.years.into()),
    ("scaled_years", CellKind::Real, |record, life| record.years_on_larger_drive(life).into()),
    ("drive_writes_per_day", CellKind::Real, |record, life| record.drive_writes_per_day(life).into()),
    ("extrapolated_bytes", CellKind::Real, |_, life| life.extrapolated_bytes.into()),
    ("usable_endurance", CellKind::Real, |_, life| life.usable_endurance.into()),
    ("first_failure_bytes", CellKind::Whole, |_, life| life.first_failure_bytes.into()),
    ("failed_blocks", CellKind::Whole, |_, life| life.failed_blocks.into()),
    ("erases_mean", CellKind::Real, |_, life| life.wear.mean.into()),
    ("erases_least", CellKind::Whole, |_, life| life.wear.least.into()),
    ("erases_p10", CellKind::Whole, |_, life| life.wear.p10.into()),
    ("erases_p50", CellKind::Whole, |_, life| life.wear.p50.into()),
    ("erases_p90", CellKind::Whole, |_, life| life.wear.p90.into()),
    ("erases_most", CellKind::Whole, |_, life| life.wear.most.into()),
    ("leveling_programs", CellKind::Whole, |_, life| life.leveling_programs.into()),
    ("leveling_erases", CellKind::Whole, |_, life| life.leveling_erases.into()),
    ("cpu_seconds", CellKind::Real, |_, life| life.cpu_seconds.into()),
];
