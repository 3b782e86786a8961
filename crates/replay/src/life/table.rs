//! Prints simulated drive lives as a text table.

use std::fmt::Write as _;

use super::{Estimate, Leveling, Life, LifeEndReason, LifeRecord};
use crate::report::{aligned_text, decimal_places, with_thousands_separators};

/// Returns the table of drives' lives: one row per figure, one column per design and wear leveling. With several seeds,
/// each figure is a mean with half of its 95 % interval. The table is empty without lives.
pub fn lives_table(records: &[LifeRecord]) -> String {
    to_lives_table(records).map_or_else(String::new, |LivesTable { preamble, rows, notes }| {
        preamble + &aligned_text(&rows) + &notes
    })
}

/// The table of drives' lives, and the lines above and below it.
pub(crate) struct LivesTable {
    /// Line above the table, which describes the drive.
    pub(crate) preamble: String,
    /// Rows of the table, each a title and one text per drive; the first row has the names of the designs.
    pub(crate) rows: Vec<Vec<String>>,
    /// Notes below the table.
    pub(crate) notes: String,
}

/// Returns the table of simulated drive lives, with the text above and below it; `None` if no life was simulated.
pub(crate) fn to_lives_table(records: &[LifeRecord]) -> Option<LivesTable> {
    let records: Vec<&LifeRecord> = records.iter().filter(|record| !record.lives.is_empty()).collect();
    let first = records.first()?;
    let mut rows = vec![table_row("", &records, |record| owned_text(&record.design))];
    if records.iter().any(|record| record.leveling != Leveling::Configured) {
        rows.push(table_row("wear leveling", &records, |record| owned_text(record.leveling.name())));
    }
    let (total, gains) = LIFE_FIGURES.split_at(1);
    rows.push(table_row(total[0].title, &records, |record| figure_cell(record, &total[0])));
    if records.len() > 1 {
        rows.push(table_row("  over that of the first column", &records, |record| {
            lifetime_ratio_to_first(record, first)
        }));
    }
    let is_shown = |figure: &&LifeFigure| {
        figure.is_always_shown || records.iter().any(|r| estimate_figure(r, figure).is_some())
    };
    for figure in gains.iter().filter(is_shown) {
        rows.push(table_row(figure.title, &records, |record| figure_cell(record, figure)));
    }
    rows.push(table_row("end", &records, end_reasons_cell));
    Some(LivesTable { preamble: drive_description(first), rows, notes: notes_below_table(&records) })
}

/// Returns a copy of `text`, for table cells.
fn owned_text(text: &str) -> String {
    text.to_owned()
}

/// Returns a row of the table of drives' lives: the title, and the text that `cell` returns for each record.
fn table_row(title: &str, records: &[&LifeRecord], cell: impl Fn(&LifeRecord) -> String) -> Vec<String> {
    std::iter::once(title.to_owned()).chain(records.iter().map(|record| cell(record))).collect()
}

/// Returns the host bytes of a drive until its end, divided by those of the first drive.
fn lifetime_ratio_to_first(record: &LifeRecord, first: &LifeRecord) -> String {
    let bytes = |record: &LifeRecord| {
        let has_ended = record.lives.iter().all(|life| life.end != LifeEndReason::Interrupted);
        record.host_bytes().filter(|_| has_ended).map(|estimate| estimate.mean)
    };
    match (bytes(record), bytes(first)) {
        (Some(bytes), Some(of_first)) => with_thousands_separators(bytes / of_first, 3),
        _ => "-".to_owned(),
    }
}

/// A row of the table of drives' lives: a figure that is computed for each life.
struct LifeFigure {
    /// Title of the figure's row, with its unit; leading blanks indent it below the row before.
    title: &'static str,
    /// Digits of the figure after the decimal point; a small value gets more, to show its first three significant
    /// digits.
    min_decimal_digits: usize,
    /// Whether the row of the figure is shown even if no record has the figure.
    is_always_shown: bool,
    /// Function that returns the figure of a life; `None` if the life does not have the figure.
    value_of: fn(&LifeRecord, &Life) -> Option<f64>,
}

/// Creates a row of the table that is always shown; `value` computes its figure from a life.
const fn life_figure(
    title: &'static str,
    min_decimal_digits: usize,
    value: fn(&LifeRecord, &Life) -> Option<f64>,
) -> LifeFigure {
    LifeFigure { title, min_decimal_digits, is_always_shown: true, value_of: value }
}

/// Returns the mean of a figure over the lives of all seeds, with its confidence interval; `None` if a life lacks the
/// figure.
fn estimate_figure(record: &LifeRecord, figure: &LifeFigure) -> Option<Estimate> {
    record.estimate(|life| (figure.value_of)(record, life))
}

/// Bytes in a terabyte (10^12).
const BYTES_PER_TB: f64 = 1e12;

/// Returns `value`, a figure of a whole drive life, if the life was simulated to its end; `None` if it was interrupted.
fn value_if_drive_ended(life: &Life, value: f64) -> Option<f64> {
    (life.end != LifeEndReason::Interrupted).then_some(value)
}

/// Figures of the table of drives' lives, from top to bottom.
const LIFE_FIGURES: &[LifeFigure] = &[
    life_figure("TB written until the end", 3, |_, life| {
        value_if_drive_ended(life, life.host_bytes as f64 / BYTES_PER_TB)
    }),
    life_figure("  extrapolated from the beginning", 3, |_, life| {
        Some(life.extrapolated_bytes? / BYTES_PER_TB)
    }),
    life_figure("  lived / extrapolated", 3, |_, life| {
        value_if_drive_ended(life, life.host_bytes as f64 / life.extrapolated_bytes?)
    }),
    life_figure("  left by the spread of endurance", 3, |_, life| Some(life.usable_endurance)),
    life_figure("  at the first failed block", 3, |_, life| {
        Some(life.first_failure_bytes? as f64 / BYTES_PER_TB)
    }),
    life_figure("drive writes until the end", 1, |record, life| {
        value_if_drive_ended(life, life.host_bytes as f64 / record.exported_bytes as f64)
    }),
    life_figure("years at the input's rate", 2, |_, life| value_if_drive_ended(life, life.years?)),
    LifeFigure {
        is_always_shown: false,
        ..life_figure("  on the larger drive", 2, |record, life| {
            value_if_drive_ended(life, record.years_on_larger_drive(life)?)
        })
    },
    LifeFigure {
        is_always_shown: false,
        ..life_figure("drive writes a day", 2, LifeRecord::drive_writes_per_day)
    },
    life_figure("write amplification, bytes", 3, |_, life| Some(life.write_amplification())),
    life_figure("failed blocks", 0, |_, life| Some(life.failed_blocks as f64)),
    life_figure("erases per block, mean", 1, |_, life| Some(life.wear.mean)),
    life_figure("  the least worn block", 0, |_, life| Some(life.wear.least.into())),
    life_figure("  a tenth of the blocks has at most", 0, |_, life| Some(life.wear.p10.into())),
    life_figure("  half of them", 0, |_, life| Some(life.wear.p50.into())),
    life_figure("  nine tenths", 0, |_, life| Some(life.wear.p90.into())),
    life_figure("  the most worn block", 0, |_, life| Some(life.wear.most.into())),
    LifeFigure {
        is_always_shown: false,
        ..life_figure("copied by wear leveling, % of programs", 2, leveling_programs_percent)
    },
    LifeFigure { is_always_shown: false, ..life_figure("RAM of wear leveling, KiB", 1, leveling_ram_kib) },
    life_figure("simulation, CPU s", 1, |_, life| Some(life.cpu_seconds)),
];

/// Returns the page programs made by wear leveling, in percent of all page programs. Returns `None` for a record of the
/// configured wear leveling (kind `Configured`) if the configuration has no wear leveling.
fn leveling_programs_percent(record: &LifeRecord, life: &Life) -> Option<f64> {
    let is_asked = record.leveling != Leveling::Configured || record.leveling_ram_bytes > 0;
    is_asked.then(|| 100.0 * life.leveling_programs as f64 / life.programs().max(1) as f64)
}

/// Returns the RAM that wear leveling takes in a controller, KiB; `None` if the configuration has no wear leveling.
fn leveling_ram_kib(record: &LifeRecord, _: &Life) -> Option<f64> {
    let is_asked = record.leveling != Leveling::Configured || record.leveling_ram_bytes > 0;
    is_asked.then(|| record.leveling_ram_bytes as f64 / 1024.0)
}

/// Returns the table cell of a figure: its mean over the lives of all seeds, and half of its 95 % interval if there are
/// several.
fn figure_cell(record: &LifeRecord, figure: &LifeFigure) -> String {
    let Some(Estimate { mean, half_width, .. }) = estimate_figure(record, figure) else {
        return "-".to_owned();
    };
    let digits =
        if figure.min_decimal_digits == 0 { 0 } else { figure.min_decimal_digits.max(decimal_places(mean)) };
    match half_width {
        None => with_thousands_separators(mean, digits),
        Some(half) => format!(
            "{} +- {}",
            with_thousands_separators(mean, digits),
            with_thousands_separators(half, digits)
        ),
    }
}

/// Returns the table cell with the reasons why the drives ended; with several seeds, each reason has its number of
/// drives.
fn end_reasons_cell(record: &LifeRecord) -> String {
    let count = |end: LifeEndReason| record.lives.iter().filter(|life| life.end == end).count();
    let named = [
        (LifeEndReason::Spare, "spare gone"),
        (LifeEndReason::Full, "full"),
        (LifeEndReason::Interrupted, "INTERRUPTED"),
    ];
    let said: Vec<String> = named
        .into_iter()
        .filter(|&(end, _)| count(end) > 0)
        .map(
            |(end, name)| {
                if record.lives.len() == 1 { name.to_owned() } else { format!("{} {name}", count(end)) }
            },
        )
        .collect();
    said.join(", ")
}

/// Returns the line above the table: input, size, over-provisioning and endurance of the drive.
fn drive_description(record: &LifeRecord) -> String {
    let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
    let endurance = &record.endurance;
    format!(
        "{}, repeated until the drive is worn out; the new drive is {}\n{:.0} MiB flash, {:.0} MiB exported ({:.1} % over-provisioning); blocks \
         endure {} cycles on average, standard deviation {:.1} %, and {:.2} % of them fail early; the end is at {:.0} % of \
         the spare blocks\n\n",
        record.input,
        if record.is_filled { "filled first" } else { "empty: what the input never writes is spare space" },
        mib(record.physical_bytes),
        mib(record.exported_bytes),
        over_provisioning_ratio(record) * 100.0,
        record.rated_cycles,
        endurance.spread * 100.0,
        endurance.early_share * 100.0,
        endurance.spare_minimum * 100.0,
    )
}

/// Returns the configured over-provisioning (spare / exported bytes). Excludes the reserve (blocks that garbage collection
/// keeps free, and the expected number of factory-bad blocks), which a drive that is sized to the input has in addition.
fn over_provisioning_ratio(record: &LifeRecord) -> f64 {
    let device = &record.config.device;
    let counts = [
        device.channels,
        device.dies_per_channel,
        device.planes_per_die,
        device.pages_per_block,
        device.page_bytes,
    ];
    let bytes_of_a_block_of_each_plane: f64 =
        counts.into_iter().map(|count| f64::from(count.unwrap_or(1))).product();
    let reserve_bytes = device.reserve_blocks.unwrap_or(0.0) * bytes_of_a_block_of_each_plane;
    (record.physical_bytes as f64 - reserve_bytes) / record.exported_bytes as f64 - 1.0
}

/// Returns the notes below the table of drives' lives.
fn notes_below_table(records: &[&LifeRecord]) -> String {
    let mut text = "note: the extrapolation takes all blocks for equal and evenly worn. The spread of their endurance alone leaves a \
                    perfectly leveled drive the share of it that is shown; uneven wear, and write amplification that grows as spare \
                    blocks fail, take the rest\n"
        .to_owned();
    let mut said: Vec<&str> = Vec::new();
    for note in records.iter().flat_map(|record| &record.notes) {
        if !said.contains(&note.as_str()) {
            writeln!(text, "note: {note}").expect("a string takes everything");
            said.push(note);
        }
    }
    if let Some(bytes) = records.iter().find_map(|record| record.scale_to_bytes) {
        writeln!(
            text,
            "note: the larger drive exports {:.1} GB; what is written to it, and where, grows in proportion",
            bytes as f64 / 1e9
        )
        .expect("a string takes everything");
    }
    if records.iter().any(|record| record.lives.len() > 1) {
        text += "note: mean over the seeds +- half of its 95 % interval\n";
    }
    for record in records {
        for life in record.lives.iter().filter(|life| life.end == LifeEndReason::Interrupted) {
            let written = with_thousands_separators(
                life.host_bytes as f64 / BYTES_PER_TB,
                decimal_places(life.host_bytes as f64 / BYTES_PER_TB).max(3),
            );
            writeln!(
                text,
                "PARTIAL: {}, seed {}: interrupted after {written} TB, and still lived",
                record.design, life.seed
            )
            .expect("a string takes everything");
        }
    }
    text
}
