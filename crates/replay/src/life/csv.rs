//! Lives of drives as CSV: one line per life, always in the same columns, including the configuration.

use super::{End, Life, LifeRecord};
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
