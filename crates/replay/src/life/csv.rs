//! Lives of drives as CSV, always in the same columns: one line per life, including the configuration, or one line per
//! moment of a drive's curves.

use super::{CurvePoint, End, Estimate, Life, LifeRecord};
use crate::report::quoted;

/// A CSV column: its title, and a function that returns its field for a life.
type Column = (&'static str, fn(&LifeRecord, &Life) -> String);

/// Returns lives of drives as CSV lines with a head. A figure that a life does not have is empty, so that files of any
/// lives can be joined.
pub fn csv(records: &[LifeRecord]) -> String {
    let line = |fields: Vec<String>| fields.join(",") + "\n";
    let head = line(COLUMNS.iter().map(|&(name, _)| name.to_owned()).collect());
    let lives = records.iter().flat_map(|record| record.lives.iter().map(move |life| (record, life)));
    let fields = |(record, life): (&LifeRecord, &Life)| {
        COLUMNS.iter().map(|(_, value)| quoted(&value(record, life))).collect()
    };
    head + &lives.map(|life| line(fields(life))).collect::<String>()
}

/// A figure of a drive's curves: its name, and a function that returns it at a moment.
type Curve = (&'static str, fn(&CurvePoint) -> Estimate);

const CURVES: [Curve; 4] = [
    ("spare", |point| point.spare),
    ("write_amplification", |point| point.write_amplification),
    ("mean_erases", |point| point.mean_erases),
    ("max_erases", |point| point.max_erases),
];

/// Returns the curves of drives' lives as CSV lines with a head: one line per drive and moment; of each figure the mean
/// over the seeds, half of its 95 % interval (empty with one seed), and the extremes.
pub fn curves_csv(records: &[LifeRecord]) -> String {
    let line = |fields: Vec<String>| fields.join(",") + "\n";
    let named = CURVES
        .iter()
        .flat_map(|(name, _)| ["mean", "half_width", "least", "most"].map(|part| format!("{name}.{part}")));
    let who = ["input", "design", "leveling", "drives", "host_bytes", "ended"].map(str::to_owned);
    let head = line(who.into_iter().chain(named).collect());
    let moments = records.iter().flat_map(|record| record.curves.iter().map(move |point| (record, point)));
    head + &moments.map(|(record, point)| line(curve_fields(record, point))).collect::<String>()
}

fn curve_fields(record: &LifeRecord, point: &CurvePoint) -> Vec<String> {
    let who = [
        quoted(&record.input),
        quoted(&record.design),
        record.leveling.name().to_owned(),
        record.lives.len().to_string(),
        point.host_bytes.to_string(),
        point.ended.to_string(),
    ];
    let figures = CURVES.iter().flat_map(|(_, figure)| {
        let Estimate { mean, half_width, least, most } = figure(point);
        [mean.to_string(), text_of(half_width), least.to_string(), most.to_string()]
    });
    who.into_iter().chain(figures).collect()
}

fn text_of<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Returns the name of a configuration value, as a configuration file writes it.
fn name_of<T: serde::Serialize>(value: &T) -> String {
    let value = serde_json::to_value(value).expect("settings are plain data");
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

const COLUMNS: &[Column] = &[
    ("input", |record, _| record.input.clone()),
    ("design", |record, _| record.design.clone()),
    ("leveling", |record, _| record.leveling.name().to_owned()),
    ("version", |record, _| record.version.clone()),
    ("seed", |_, life| life.seed.to_string()),
    ("end", |_, life| name_of(&life.end)),
    ("partial", |_, life| (life.end == End::Interrupted).to_string()),
    ("is_filled", |record, _| record.is_filled.to_string()),
    ("preset", |record, _| text_of(record.config.device.preset.as_ref())),
    ("page_bytes", |record, _| text_of(record.config.device.page_bytes)),
    ("pages_per_block", |record, _| text_of(record.config.device.pages_per_block)),
    ("exported_bytes", |record, _| record.exported_bytes.to_string()),
    ("physical_bytes", |record, _| record.physical_bytes.to_string()),
    ("rated_cycles", |record, _| record.rated_cycles.to_string()),
    ("spread", |record, _| record.endurance.spread.to_string()),
    ("early_share", |record, _| record.endurance.early_share.to_string()),
    ("program_share", |record, _| record.endurance.program_share.to_string()),
    ("spare_minimum", |record, _| record.endurance.spare_minimum.to_string()),
    ("victim_policy", |record, _| name_of(&record.config.gc.policy)),
    ("gc_low_blocks", |record, _| text_of(record.config.gc.low_blocks)),
    ("wear_dynamic", |record, _| record.config.wear.dynamic.to_string()),
    ("wear_static_gap", |record, _| record.config.wear.static_gap.to_string()),
    ("wear_dual_pool_gap", |record, _| record.config.wear.dual_pool_gap.to_string()),
    ("wear_scan", |record, _| record.config.wear.scan.to_string()),
    ("buffer_pages", |record, _| record.config.buffer.pages.unwrap_or_default().to_string()),
    ("time_scale", |record, _| text_of(record.config.replay.time_scale)),
    ("scale_to_bytes", |record, _| text_of(record.scale_to_bytes)),
    ("leveling_ram_bytes", |record, _| record.leveling_ram_bytes.to_string()),
    ("host_bytes", |_, life| life.host_bytes.to_string()),
    ("media_bytes", |_, life| life.media_bytes.to_string()),
    ("write_amplification", |_, life| life.write_amplification().to_string()),
    ("passes", |_, life| life.passes.to_string()),
    ("years", |_, life| text_of(life.years)),
    ("scaled_years", |record, life| text_of(record.scaled_years(life))),
    ("drive_writes_per_day", |record, life| text_of(record.drive_writes_per_day(life))),
    ("extrapolated_bytes", |_, life| text_of(life.extrapolated_bytes)),
    ("usable_endurance", |_, life| life.usable_endurance.to_string()),
    ("first_failure_bytes", |_, life| text_of(life.first_failure_bytes)),
    ("failed_blocks", |_, life| life.failed_blocks.to_string()),
    ("erases_mean", |_, life| life.wear.mean.to_string()),
    ("erases_least", |_, life| life.wear.least.to_string()),
    ("erases_p10", |_, life| life.wear.p10.to_string()),
    ("erases_p50", |_, life| life.wear.p50.to_string()),
    ("erases_p90", |_, life| life.wear.p90.to_string()),
    ("erases_most", |_, life| life.wear.most.to_string()),
    ("leveling_programs", |_, life| life.leveling_programs.to_string()),
    ("leveling_erases", |_, life| life.leveling_erases.to_string()),
    ("cpu_seconds", |_, life| life.cpu_seconds.to_string()),
];
