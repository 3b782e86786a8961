//! Views of run records: a table for people, CSV for spreadsheets, JSON for programs.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::record::RunRecord;

/// Several designs on one input.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Comparison {
    /// One record per design, baseline first; several inputs follow each other.
    pub runs: Vec<RunRecord>,
}

impl Comparison {
    /// Pretty-printed JSON.
    ///
    /// # Panics
    /// Never: records are plain data.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("records are plain data")
    }

    /// One line per run with the main figures.
    pub fn to_csv(&self) -> String {
        let columns = columns(&self.runs);
        let mut text = String::from("trace,design,partial");
        for column in &columns {
            write!(text, ",{}", column.key).expect("a string takes everything");
        }
        for run in &self.runs {
            let path = run.trace.path.replace('"', "\"\"");
            write!(text, "\n\"{path}\",{},{}", run.design, run.partial).expect("a string takes everything");
            for column in &columns {
                write!(text, ",{}", (column.value)(run)).expect("a string takes everything");
            }
        }
        text + "\n"
    }

    /// The table: one row per figure, one column per design, with the ratio to the first design beside it.
    pub fn to_table(&self) -> String {
        let mut text = String::new();
        let mut rest = &self.runs[..];
        while let Some(first) = rest.first() {
            let same_input = rest.iter().take_while(|run| run.trace.path == first.trace.path).count();
            let (runs, others) = rest.split_at(same_input);
            text += &table_of(runs);
            rest = others;
            if !rest.is_empty() {
                text.push('\n');
            }
        }
        text
    }
}

/// A figure of a record.
struct Column {
    key: &'static str,
    title: &'static str,
    value: fn(&RunRecord) -> f64,
    digits: usize,
    /// Whether a ratio to the baseline says something.
    ratio: bool,
}

const fn count(key: &'static str, title: &'static str, value: fn(&RunRecord) -> f64) -> Column {
    Column { key, title, value, digits: 0, ratio: true }
}

/// The figures that say something about these runs.
fn columns(runs: &[RunRecord]) -> Vec<Column> {
    let cause =
        |runs: &[RunRecord], name: &str| runs.iter().any(|run| run.programs_by_cause.contains_key(name));
    let mut columns = vec![
        count("host_page_writes", "host page writes", |run| run.host_page_writes as f64),
        count("host_page_reads", "host page reads", |run| run.host_page_reads as f64),
    ];
    if runs.iter().any(|run| run.recycled_writes > 0) {
        columns.push(count("recycled_writes", "  served by recycling", |run| run.recycled_writes as f64));
    }
    if runs.iter().any(|run| run.writes_by_form.contains_key("deduplicated")) {
        columns
            .push(count("deduplicated_writes", "  served by deduplication", |run| form(run, "deduplicated")));
    }
    if runs.iter().any(|run| run.writes_by_form.contains_key("delta")) {
        columns.push(count("delta_writes", "  stored as deltas", |run| form(run, "delta")));
    }
    if runs.iter().any(|run| run.writes_by_form.contains_key("packed")) {
        columns.push(count("packed_writes", "  compressed in chunks", |run| form(run, "packed")));
    }
    columns.push(count("programs", "page programs", |run| run.programs as f64));
    columns.push(count("programs_host", "  for the host", |run| programs(run, "host")));
    columns.push(count("programs_gc", "  by garbage collection", |run| programs(run, "gc")));
    if cause(runs, "content") {
        columns.push(count("programs_content", "  of deltas and chunks", |run| programs(run, "content")));
    }
    if cause(runs, "remap_log") {
        columns.push(count("programs_remap_log", "  of the remap log", |run| programs(run, "remap_log")));
    }
    if cause(runs, "wear") {
        columns.push(count("programs_wear", "  by wear leveling", |run| programs(run, "wear")));
    }
    if cause(runs, "translation") {
        columns.push(count("programs_translation", "  of translation pages", |run| {
            programs(run, "translation")
        }));
    }
    columns.push(count("reads", "page reads", |run| run.reads as f64));
    columns.push(count("erases", "block erases", |run| run.erases as f64));
    let amplification = |run: &RunRecord| run.write_amplification;
    columns.push(Column { digits: 3, ..count("write_amplification", "write amplification", amplification) });
    if runs.iter().any(|run| run.timing.mode != "none") {
        columns.extend(latency_columns());
    }
    let lifetime = |run: &RunRecord| run.lifetime.host_tb_written_until_worn;
    columns.push(Column { digits: 2, ..count("tb_written_until_worn", "TB written until worn", lifetime) });
    columns.push(Column {
        digits: 2,
        ..count("ram_mib", "controller RAM, MiB", |run| run.ram_bytes as f64 / 1_048_576.0)
    });
    let cpu = |run: &RunRecord| run.cpu_seconds;
    columns.push(Column { digits: 3, ratio: false, ..count("cpu_seconds", "simulation, CPU s", cpu) });
    columns
}

fn form(run: &RunRecord, form: &str) -> f64 {
    run.writes_by_form.get(form).copied().unwrap_or(0) as f64
}

fn programs(run: &RunRecord, cause: &str) -> f64 {
    run.programs_by_cause.get(cause).copied().unwrap_or(0) as f64
}

fn latency_columns() -> [Column; 6] {
    [
        Column {
            digits: 1,
            ..count("read_mean_us", "read latency mean, us", |run| run.latency_us.read.mean)
        },
        Column { digits: 1, ..count("read_p99_us", "read latency p99, us", |run| run.latency_us.read.p99) },
        Column {
            digits: 1,
            ..count("read_p999_us", "read latency p99.9, us", |run| run.latency_us.read.p999)
        },
        Column {
            digits: 1,
            ..count("write_mean_us", "write latency mean, us", |run| run.latency_us.write.mean)
        },
        Column {
            digits: 1,
            ..count("write_p99_us", "write latency p99, us", |run| run.latency_us.write.p99)
        },
        Column {
            digits: 1,
            ..count("write_p999_us", "write latency p99.9, us", |run| run.latency_us.write.p999)
        },
    ]
}

fn table_of(runs: &[RunRecord]) -> String {
    let baseline = &runs[0];
    let mut rows = vec![header(runs)];
    for column in columns(runs) {
        let mut row = vec![column.title.to_owned()];
        for (k, run) in runs.iter().enumerate() {
            row.push(grouped((column.value)(run), column.digits));
            if k > 0 {
                row.push(ratio(&column, run, baseline));
            }
        }
        rows.push(row);
    }
    preamble(baseline) + &aligned(&rows) + &postscript(runs)
}

fn header(runs: &[RunRecord]) -> Vec<String> {
    let mut header = vec![String::new()];
    for (k, run) in runs.iter().enumerate() {
        header.push(run.design.clone());
        if k > 0 {
            header.push("ratio".to_owned());
        }
    }
    header
}

fn ratio(column: &Column, run: &RunRecord, baseline: &RunRecord) -> String {
    let base = (column.value)(baseline);
    if !column.ratio || base == 0.0 {
        return String::new();
    }
    format!("{:.3}", (column.value)(run) / base)
}

/// What was replayed, on what.
fn preamble(run: &RunRecord) -> String {
    let device = &run.device;
    let mib = |pages: u64| pages as f64 * device.page_bytes as f64 / 1_048_576.0;
    let aging = if run.trace.aging_requests > 0 {
        format!(" after {} for aging", grouped(run.trace.aging_requests as f64, 0))
    } else {
        String::new()
    };
    format!(
        "{}: {} requests{aging}\n{}: {:.0} MiB flash, {:.0} MiB exported ({:.1} % over-provisioning), {} pages of {} bytes per block\n\n",
        run.trace.path,
        grouped(run.trace.requests as f64, 0),
        device.preset,
        mib(device.physical_pages),
        mib(device.logical_pages),
        device.over_provisioning * 100.0,
        device.layout[4] * device.superblock_planes,
        device.page_bytes,
    )
}

/// Notes, and why a figure is incomplete.
fn postscript(runs: &[RunRecord]) -> String {
    let mut text = String::new();
    let mut said: Vec<&str> = Vec::new();
    for note in runs.iter().flat_map(|run| &run.notes) {
        if !said.contains(&note.as_str()) {
            writeln!(text, "note: {note}").expect("a string takes everything");
            said.push(note);
        }
    }
    for run in runs {
        if let Some(reason) = &run.partial_reason {
            writeln!(text, "PARTIAL: {} ended early: {reason}", run.design)
                .expect("a string takes everything");
        }
        if run.trace.rejected > 0 {
            writeln!(text, "note: {} bad lines skipped", run.trace.rejected)
                .expect("a string takes everything");
        }
    }
    text
}

/// Columns aligned: the first to the left, figures to the right.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |k: usize| rows.iter().filter_map(|row| row.get(k)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (k, cell) in row.iter().enumerate() {
            match k {
                0 => write!(line, "{cell:<width$}", width = widths[0]),
                _ => write!(line, "  {cell:>width$}", width = widths[k]),
            }
            .expect("a string takes everything");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text + "\n"
}

/// A number with its thousands apart.
pub fn grouped(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(w, f)| (w, Some(f)));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |rest| ("-", rest));
    let mut grouped = String::new();
    for (k, digit) in whole.chars().enumerate() {
        if k > 0 && (whole.len() - k).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match fraction {
        Some(fraction) => format!("{sign}{grouped}.{fraction}"),
        None => format!("{sign}{grouped}"),
    }
}
