//! Writes run records as a printed table, as a data table of typed columns (CSV, Parquet) for analysis, and as JSON for
//! programs.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wearwell::operation::Cause;
use wearwell_config::{Arrival, Precondition};

use crate::data_table::{Cell, CellKind, DataColumn, DataTable};
use crate::notes::distinct_notes;
use crate::record::{Latency, RunRecord, SeriesPoint};

/// Version of the JSON form of [`Comparison`]. Added fields keep the version; a field that is removed or changes its
/// meaning increases it.
pub const RESULT_SCHEMA_VERSION: u32 = 2;

/// Records of several runs: designs on one input, or on several inputs and devices.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Version of the JSON document's layout, [`RESULT_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// One record per run. Runs on the same input and device are consecutive, with the baseline first.
    pub runs: Vec<RunRecord>,
}

impl Comparison {
    /// Creates the comparison of `runs`, of which the first on each input and device is the baseline.
    pub fn of_runs(runs: Vec<RunRecord>) -> Self {
        Self { schema_version: RESULT_SCHEMA_VERSION, runs }
    }

    /// Returns the records as a table of typed columns (for CSV and Parquet), one row per run: input, configuration and
    /// figures. The columns are always the same, so that files can be joined; a figure that a run does not have is
    /// empty.
    pub fn data_table(&self) -> DataTable {
        let mut table = DataTable::new(data_table_columns_of_runs());
        for run in &self.runs {
            table.push(data_table_cells_of_run(run));
        }
        table
    }

    /// Returns the tables, one for each input and device, with one row per figure and one column per run, followed by
    /// the ratio to the first run. Runs that do not fit [`LINE_WIDTH_CHARS`] follow in a further part of the table,
    /// which repeats the first run.
    pub fn to_table(&self) -> String {
        let table = |runs: &[RunRecord]| {
            let said = common_over_provisioning_settings(runs);
            let parts: Vec<String> = split_to_line_width(runs, &said)
                .iter()
                .map(|page| aligned_text(&rows_with_stacked_titles(page, &said)))
                .collect();
            lines_above_table(&runs[0]) + &parts.concat() + &lines_below_comparison(runs)
        };
        self.runs_grouped_by_input().map(table).collect::<Vec<_>>().join("\n")
    }

    /// Returns the tables of [`Self::to_table`] in Markdown, without a limit of width.
    pub fn to_markdown(&self) -> String {
        let table = |runs: &[RunRecord]| {
            let rows =
                figure_rows(&runs.iter().collect::<Vec<_>>(), &common_over_provisioning_settings(runs));
            lines_above_table(&runs[0]) + &markdown_table(&rows) + &lines_below_comparison(runs)
        };
        self.runs_grouped_by_input().map(table).collect::<Vec<_>>().join("\n")
    }

    /// Returns the lines below the printed tables that name each run that ended early, with the reason.
    pub fn partial_run_lines(&self) -> String {
        let lines = |runs: &[RunRecord]| -> String {
            labelled_runs(runs).iter().map(|(label, run)| partial_run_line(label, run)).collect()
        };
        self.runs_grouped_by_input().map(lines).collect()
    }

    /// Returns the run records in groups: consecutive runs on the same input and device.
    pub(crate) fn runs_grouped_by_input(&self) -> impl Iterator<Item = &[RunRecord]> {
        let is_alike = |a: &RunRecord, b: &RunRecord| a.trace.path == b.trace.path && a.device == b.device;
        self.runs.chunk_by(is_alike)
    }
}

/// Width of a terminal, in columns, into which tables are fitted; a table with only two runs may be wider.
pub const LINE_WIDTH_CHARS: usize = 80;

/// Returns the lines below a table of runs with ratios: an explanation of marked ratios, if there are any, then the
/// notes of [`lines_below_table`].
pub(crate) fn lines_below_comparison(runs: &[RunRecord]) -> String {
    other_part_ratio_explanation(runs) + &lines_below_table(&labelled_runs(runs))
}

/// Returns the runs, each with its label: its design, and the settings that distinguish it from others.
pub(crate) fn labelled_runs(runs: &[RunRecord]) -> Vec<(String, &RunRecord)> {
    runs.iter().map(|run| (run.design_and_variant(), run)).collect()
}

/// Divides the runs of a table into parts that fit the line width: each part has the first run and as many others as
/// fit.
fn split_to_line_width<'a>(runs: &'a [RunRecord], stated_settings: &[&str]) -> Vec<Vec<&'a RunRecord>> {
    let baseline = &runs[0];
    let mut pages = vec![vec![baseline]];
    for run in &runs[1..] {
        let page = pages.last_mut().expect("there is one");
        page.push(run);
        let width = aligned_text(&rows_with_stacked_titles(page, stated_settings))
            .lines()
            .map(str::len)
            .max()
            .unwrap_or(0);
        if width > LINE_WIDTH_CHARS && page.len() > 2 {
            page.pop();
            pages.push(vec![baseline, run]);
        }
    }
    pages
}

/// Returns the columns of run records in the data table (CSV, Parquet): first facts that distinguish runs, then
/// figures.
pub(crate) fn data_table_columns_of_runs() -> Vec<DataColumn> {
    let facts = RUN_FACT_COLUMNS.iter().map(|&(title, kind, _)| DataColumn::new(title, kind));
    facts
        .chain(data_table_columns().map(|column| DataColumn::new(column.key, column.figure.cell_kind())))
        .collect()
}

/// Returns the row of a run in the data table (CSV, Parquet), in the order of [`data_table_columns_of_runs`].
pub(crate) fn data_table_cells_of_run(run: &RunRecord) -> Vec<Cell> {
    let facts = RUN_FACT_COLUMNS.iter().map(|(_, _, value)| value(run));
    facts.chain(data_table_columns().map(|column| column.figure.typed_cell(run))).collect()
}

/// Returns the text that tables show for a figure of a run; `title` is the title of the figure's column.
pub(crate) fn figure_cell(run: &RunRecord, title: &str) -> String {
    let column = figure_columns().find(|column| column.title == title).expect("a title of a column");
    column.cell_text(run)
}

/// A fact that distinguishes runs (such as design or device): the title and kind of its column in CSV and Parquet, and
/// a function that returns the fact.
type RunFact = (&'static str, CellKind, fn(&RunRecord) -> Cell);

/// The columns of facts that distinguish runs, in the order of CSV and Parquet.
const RUN_FACT_COLUMNS: &[RunFact] = &[
    ("trace", CellKind::Text, |run| run.trace.path.clone().into()),
    ("design", CellKind::Text, |run| run.design.clone().into()),
    ("variant", CellKind::Text, |run| run.variant.clone().into()),
    ("partial", CellKind::Flag, |run| run.partial.into()),
    ("version", CellKind::Text, |run| run.version.clone().into()),
    ("seed", CellKind::Whole, |run| run.seed.into()),
    ("requests", CellKind::Whole, |run| run.trace.requests.into()),
    ("aging_requests", CellKind::Whole, |run| run.trace.aging_requests.into()),
    ("footprint_pages", CellKind::Whole, |run| run.trace.footprint_pages.into()),
    ("device", CellKind::Text, |run| run.device.preset.clone().into()),
    ("dies", CellKind::Whole, |run| run.device.dies().into()),
    ("block_pages", CellKind::Whole, |run| run.device.block_pages().into()),
    ("page_bytes", CellKind::Whole, |run| run.device.page_bytes.into()),
    ("physical_pages", CellKind::Whole, |run| run.device.physical_pages.into()),
    ("logical_pages", CellKind::Whole, |run| run.device.logical_pages.into()),
    ("over_provisioning", CellKind::Real, |run| run.device.over_provisioning.into()),
    ("reserve_blocks", CellKind::Real, |run| run.device.reserve_blocks.into()),
    ("gc_policy", CellKind::Text, |run| name_in_configuration(&run.config.gc.policy).into()),
    ("gc_low_blocks", CellKind::Whole, |run| run.device.gc_low_blocks.into()),
    ("buffer_pages", CellKind::Whole, |run| run.config.buffer.pages.unwrap_or_default().into()),
    ("precondition", CellKind::Text, |run| name_in_configuration(&run.config.precondition.mode).into()),
    ("timing", CellKind::Text, |run| run.timing.mode.clone().into()),
    ("arrival", CellKind::Text, |run| name_in_configuration(&run.service.arrival).into()),
    ("queue_depth", CellKind::Whole, |run| run.service.queue_depth.into()),
    ("overloaded", CellKind::Flag, |run| run.service.is_overloaded.into()),
    ("steady", CellKind::Flag, |run| run.steady.is_steady.into()),
];

/// Returns the name of an enum value (such as a victim policy) as it is written in a configuration.
fn name_in_configuration(value: &impl Serialize) -> String {
    let name = serde_json::to_value(value).expect("names are plain data");
    name.as_str().unwrap_or_default().to_owned()
}

/// A figure that is computed from a run record, and how tables show it.
pub(crate) struct FigureColumn {
    /// Title of the figure's column in CSV and Parquet; empty if only the printed table has the figure.
    key: &'static str,
    /// Title of the figure in tables for people.
    pub(crate) title: &'static str,
    /// Function that returns the figure of a run.
    figure: FigureFunction,
    /// Smallest number of digits after the decimal point; a small value gets more digits.
    min_decimal_places: usize,
    /// Whether a table also shows the ratio of the figure to that of the baseline.
    shows_ratio_to_baseline: bool,
    /// Whether the figure is extrapolated from the steady part of the run. Such a figure is marked if no part was
    /// steady.
    is_extrapolated: bool,
    /// In which tables the figure is shown.
    visibility: FigureVisibility,
}

/// A function that returns a figure of a run; `None` if the run does not have the figure.
#[derive(Clone, Copy)]
enum FigureFunction {
    /// The figure is a whole number, such as a count of pages.
    Count(fn(&RunRecord) -> Option<u64>),
    /// The figure is the number of page programs with this cause.
    ProgramsOfCause(Cause),
    /// The figure is a real number, such as a time or a share.
    RealNumber(fn(&RunRecord) -> Option<f64>),
}

impl FigureFunction {
    /// Returns the type of the figure's values in the data table: whole or real numbers.
    fn cell_kind(self) -> CellKind {
        match self {
            Self::Count(_) | Self::ProgramsOfCause(_) => CellKind::Whole,
            Self::RealNumber(_) => CellKind::Real,
        }
    }

    /// Returns the figure of a run as a typed cell; empty if the run does not have the figure.
    fn typed_cell(self, run: &RunRecord) -> Cell {
        match self {
            Self::Count(value) => value(run).into(),
            Self::ProgramsOfCause(cause) => programs_of_cause(run, cause).into(),
            Self::RealNumber(value) => value(run).into(),
        }
    }
}

impl FigureColumn {
    /// Returns the value of this column's figure for a run; `None` if the run does not have the figure.
    pub(crate) fn figure_of(&self, run: &RunRecord) -> Option<f64> {
        match self.figure {
            FigureFunction::Count(value) => value(run).map(|count| count as f64),
            FigureFunction::ProgramsOfCause(cause) => Some(programs_of_cause(run, cause) as f64),
            FigureFunction::RealNumber(value) => value(run),
        }
    }

    /// Returns the text of the figure's value. Positive values below 1e-8, which nine digits cannot show (such as years
    /// of a trace whose times have another unit), are written with an exponent.
    fn format_value(&self, value: f64) -> String {
        if value > 0.0 && value < 1e-8 {
            format!("{value:.2e}")
        } else {
            with_thousands_separators(value, self.decimal_places_of(value))
        }
    }

    /// Returns the number of digits after the decimal point that the table shows for a value of this size.
    pub(crate) fn decimal_places_of(&self, value: f64) -> usize {
        self.min_decimal_places.max(decimal_places(value))
    }

    /// Returns the figure of a run as text for a table.
    pub(crate) fn cell_text(&self, run: &RunRecord) -> String {
        let mark = if self.needs_unsteady_mark(run) { NOT_STEADY_MARK } else { "" };
        self.figure_of(run).map_or_else(|| "-".to_owned(), |value| self.format_value(value) + mark)
    }

    /// Returns the figure of a run as it is if it is computed from the part of the run after `start_request` requests.
    /// A figure that [`Self::figure_of`] extrapolates is converted: multiplied by the write amplification of the part
    /// from which it was extrapolated, and divided by that of the part asked for. Other figures are returned unchanged.
    /// `start_request` must be one that [`Self::compared_part_start_request`] returned for runs with this run.
    pub(crate) fn figure_of_part(&self, run: &RunRecord, start_request: u64) -> Option<f64> {
        let figure = self.figure_of(run)?;
        let start = counters_after_request(run, start_request).filter(|_| self.is_extrapolated);
        let Some(start) = start.filter(|start| run.bytes.host_written > start.host_bytes) else {
            return Some(figure);
        };
        let page_bytes = f64::from(run.device.page_bytes);
        let amplification_since = |start: SeriesPoint| {
            (run.bytes.programmed as f64 - start.programs as f64 * page_bytes)
                / (run.bytes.host_written - start.host_bytes) as f64
        };
        let of_extrapolated_part = if run.lifetime.is_from_steady_part {
            run.steady.programs as f64 * page_bytes / run.steady.host_bytes as f64
        } else {
            amplification_since(SeriesPoint::ZERO)
        };
        let of_part = amplification_since(start);
        Some(if of_part > 0.0 { figure * of_extrapolated_part / of_part } else { figure })
    }

    /// Returns the number of requests after which the part of these runs begins whose figures are compared; `None` if
    /// the figures that are shown are of one part already. Lifetimes are extrapolated from the steady part of each run,
    /// and from the whole of a run without a steady part. If the runs' parts differ, the part is compared in which all
    /// runs were steady; if only some were steady, the whole runs are.
    pub(crate) fn compared_part_start_request<'a>(
        &self,
        runs: impl IntoIterator<Item = &'a RunRecord>,
    ) -> Option<u64> {
        if !self.is_extrapolated {
            return None;
        }
        let runs: Vec<&RunRecord> = runs.into_iter().filter(|run| self.figure_of(run).is_some()).collect();
        let part_of = |run: &RunRecord| (run.lifetime.is_from_steady_part, run.steady.from_request);
        let parts: Vec<(bool, u64)> = runs.iter().map(|run| part_of(run)).collect();
        if parts.iter().all(|part| *part == parts[0]) {
            return None;
        }
        let all_are_steady = parts.iter().all(|&(is_steady, _)| is_steady);
        let latest_start = parts.iter().map(|&(_, from_request)| from_request).max().unwrap_or(0);
        let is_known = |run: &&RunRecord| counters_after_request(run, latest_start).is_some();
        Some(if all_are_steady && runs.iter().all(is_known) { latest_start } else { 0 })
    }

    /// Whether the printed table must mark the figure of this run as unreliable: it is extrapolated, but no part of the
    /// run was steady.
    pub(crate) fn needs_unsteady_mark(&self, run: &RunRecord) -> bool {
        self.is_extrapolated && !run.lifetime.is_from_steady_part && self.figure_of(run).is_some()
    }
}

/// Returns the counters of a run after its first `request` requests; `None` if the run's time series has no point there.
fn counters_after_request(run: &RunRecord, request: u64) -> Option<SeriesPoint> {
    if request == 0 {
        return Some(SeriesPoint::ZERO);
    }
    run.series.iter().find(|point| point.requests == request).copied()
}

/// Mark that follows a lifetime extrapolated from a run that was not steady, and that begins the sentence which
/// explains it.
pub(crate) const NOT_STEADY_MARK: &str = "*";
/// Mark that follows the ratio of two lifetimes that are extrapolated from different parts of their runs. The sentence
/// that explains the ratio begins with this mark.
const OTHER_PART_MARK: &str = "**";

/// Returns the number of digits after the decimal point that show the first three significant digits of a value less
/// than 1 (at most 9), or 0 for other values.
pub(crate) fn decimal_places(value: f64) -> usize {
    if value > 0.0 && value < 1.0 { (2.0 - value.log10().floor()).min(9.0) as usize } else { 0 }
}

/// In which tables a figure is shown: the printed table, the data table (CSV, Parquet), or both.
#[derive(Clone, Copy)]
enum FigureVisibility {
    /// The figure is shown in the printed table and in the data table (CSV, Parquet).
    Always,
    /// The figure is shown in the data table (CSV, Parquet), and in the printed table if the function returns true for
    /// at least one run.
    If(fn(&RunRecord) -> bool),
    /// The figure is shown in the data table (CSV, Parquet), and in the printed table if at least one run has page
    /// programs with this cause.
    IfProgramsOfCause(Cause),
    /// The figure is shown only in the printed table, and only if the function returns true for all runs.
    OnlyInPrintedTableIfAllRuns(fn(&RunRecord) -> bool),
    /// The figure is shown only in the data table (CSV, Parquet).
    OnlyInDataTable,
}

/// Creates a column of a figure that all tables show, with the ratio to the baseline.
const fn new_figure_column(key: &'static str, title: &'static str, figure: FigureFunction) -> FigureColumn {
    FigureColumn {
        key,
        title,
        figure,
        min_decimal_places: 0,
        shows_ratio_to_baseline: true,
        is_extrapolated: false,
        visibility: FigureVisibility::Always,
    }
}

/// Returns a column for a whole number.
const fn count_column(
    key: &'static str,
    title: &'static str,
    value: fn(&RunRecord) -> Option<u64>,
) -> FigureColumn {
    new_figure_column(key, title, FigureFunction::Count(value))
}

/// Returns a column for a real number.
const fn real_number_column(
    key: &'static str,
    title: &'static str,
    value: fn(&RunRecord) -> Option<f64>,
) -> FigureColumn {
    new_figure_column(key, title, FigureFunction::RealNumber(value))
}

/// Returns a column for a latency. The printed table shows it only if the run has a timing engine.
const fn latency_column(
    key: &'static str,
    title: &'static str,
    value: fn(&RunRecord) -> Option<f64>,
) -> FigureColumn {
    FigureColumn {
        min_decimal_places: 1,
        visibility: FigureVisibility::If(has_timing),
        ..real_number_column(key, title, value)
    }
}

/// Returns a column for a figure that is extrapolated from the steady part of a run.
const fn extrapolated_column(
    key: &'static str,
    title: &'static str,
    value: fn(&RunRecord) -> Option<f64>,
) -> FigureColumn {
    FigureColumn { min_decimal_places: 2, is_extrapolated: true, ..real_number_column(key, title, value) }
}

/// Returns a column of a number of bytes in MiB. The printed table shows it only if write amplification in bytes
/// differs from that in pages.
const fn mib_column_if_amplifications_differ(
    title: &'static str,
    value: fn(&RunRecord) -> Option<f64>,
) -> FigureColumn {
    FigureColumn {
        min_decimal_places: 1,
        visibility: FigureVisibility::OnlyInPrintedTableIfAllRuns(page_and_byte_amplification_differ),
        ..real_number_column("", title, value)
    }
}

/// Returns a column of the data table (CSV, Parquet) that the printed table does not show.
const fn data_only_column(key: &'static str, figure: FigureFunction) -> FigureColumn {
    FigureColumn { visibility: FigureVisibility::OnlyInDataTable, ..new_figure_column(key, key, figure) }
}

/// Columns of the figures that tables show before the page programs by cause, in the order of the tables. The last is
/// the sum of those.
const COLUMNS_BEFORE_PROGRAMS_BY_CAUSE: &[FigureColumn] = &[
    data_only_column("host_bytes", FigureFunction::Count(|run| Some(run.bytes.host_written))),
    data_only_column("programmed_bytes", FigureFunction::Count(|run| Some(run.bytes.programmed))),
    mib_column_if_amplifications_differ("written by the host, MiB", |run| {
        Some(run.bytes.host_written as f64 / 1_048_576.0)
    }),
    mib_column_if_amplifications_differ("programmed, MiB", |run| {
        Some(run.bytes.programmed as f64 / 1_048_576.0)
    }),
    count_column("host_page_writes", "host page writes", |run| Some(run.host_page_writes)),
    FigureColumn {
        visibility: FigureVisibility::If(|run| run.bytes.partial_page_writes > 0),
        ..count_column("partial_page_writes", "  of parts of pages", |run| {
            Some(run.bytes.partial_page_writes)
        })
    },
    FigureColumn {
        visibility: FigureVisibility::If(|run| run.bytes.partial_page_writes > 0),
        ..count_column("completed_page_writes", "    that read the rest first", |run| {
            Some(run.bytes.completed_page_writes)
        })
    },
    count_column("host_page_reads", "host page reads", |run| Some(run.host_page_reads)),
    FigureColumn {
        visibility: FigureVisibility::If(|run| run.host_page_trims > 0),
        ..count_column("host_page_trims", "host page trims", |run| Some(run.host_page_trims))
    },
    FigureColumn {
        visibility: FigureVisibility::If(|run| run.host_page_remaps > 0),
        ..count_column("host_page_remaps", "host page remaps", |run| Some(run.host_page_remaps))
    },
    FigureColumn {
        visibility: FigureVisibility::If(|run| run.buffer_absorbed_writes > 0),
        ..count_column("buffer_absorbed_writes", "absorbed by the write buffer", |run| {
            Some(run.buffer_absorbed_writes)
        })
    },
    FigureColumn {
        visibility: FigureVisibility::If(|run| writes_of_stored_form(run, "unchanged") > 0),
        ..count_column("unchanged_writes", "  unchanged, nothing stored", |run| {
            Some(writes_of_stored_form(run, "unchanged"))
        })
    },
    FigureColumn {
        visibility: FigureVisibility::If(|run| run.recycled_writes > 0),
        ..count_column("recycled_writes", "  served by recycling", |run| Some(run.recycled_writes))
    },
    FigureColumn {
        visibility: FigureVisibility::If(|run| writes_of_stored_form(run, "deduplicated") > 0),
        ..count_column("deduplicated_writes", "  served by deduplication", |run| {
            Some(writes_of_stored_form(run, "deduplicated"))
        })
    },
    FigureColumn {
        visibility: FigureVisibility::If(|run| writes_of_stored_form(run, "delta") > 0),
        ..count_column("delta_writes", "  stored as deltas", |run| Some(writes_of_stored_form(run, "delta")))
    },
    FigureColumn {
        visibility: FigureVisibility::If(|run| writes_of_stored_form(run, "packed") > 0),
        ..count_column("packed_writes", "  in chunks, or replaced waiting", |run| {
            Some(writes_of_stored_form(run, "packed"))
        })
    },
    FigureColumn {
        min_decimal_places: 1,
        visibility: FigureVisibility::If(|run| percent_of_writes_under_scheme(run, "dedup").is_some()),
        ..real_number_column("dedup_on_percent", "  deduplication on, % of writes", |run| {
            percent_of_writes_under_scheme(run, "dedup")
        })
    },
    FigureColumn {
        min_decimal_places: 1,
        visibility: FigureVisibility::If(|run| percent_of_writes_under_scheme(run, "recycle").is_some()),
        ..real_number_column("recycle_on_percent", "  recycling on, % of writes", |run| {
            percent_of_writes_under_scheme(run, "recycle")
        })
    },
    FigureColumn {
        min_decimal_places: 1,
        visibility: FigureVisibility::If(|run| percent_of_writes_under_scheme(run, "delta").is_some()),
        ..real_number_column("delta_on_percent", "  delta encoding on, % of writes", |run| {
            percent_of_writes_under_scheme(run, "delta")
        })
    },
    FigureColumn {
        min_decimal_places: 1,
        visibility: FigureVisibility::If(|run| percent_of_writes_under_scheme(run, "compress").is_some()),
        ..real_number_column("compress_on_percent", "  compression on, % of writes", |run| {
            percent_of_writes_under_scheme(run, "compress")
        })
    },
    count_column("programs", "page programs", |run| Some(run.programs)),
];

/// Columns of the page programs by cause, in the order of the tables: one for each cause, so that their sum is the
/// number of all page programs. The causes that are not named here follow in the order of [`Cause::ALL`].
static COLUMNS_OF_PROGRAMS_BY_CAUSE: LazyLock<[FigureColumn; Cause::COUNT]> = LazyLock::new(|| {
    let first = [
        Cause::Host,
        Cause::Gc,
        Cause::ContentMechanism,
        Cause::RemapLog,
        Cause::WearLeveling,
        Cause::Translation,
        Cause::Validity,
    ];
    let mut causes = Cause::ALL;
    causes.sort_by_key(|cause| first.iter().position(|other| other == cause).unwrap_or(first.len()));
    causes.map(column_of_programs_of_cause)
});

/// Returns the column of the page programs with this cause. The printed table always shows those of the host and of
/// garbage collection, and others only if a run has some.
fn column_of_programs_of_cause(cause: Cause) -> FigureColumn {
    let (key, title) = match cause {
        Cause::Host => ("programs_host", "  for the host"),
        Cause::Gc => ("programs_gc", "  by garbage collection"),
        Cause::WearLeveling => ("programs_wear", "  by wear leveling"),
        Cause::Translation => ("programs_translation", "  of translation pages"),
        Cause::Validity => ("programs_validity", "  of page validity"),
        Cause::RemapLog => ("programs_remap_log", "  of the remap log"),
        Cause::ContentMechanism => ("programs_content", "  of deltas and chunks"),
        Cause::Checkpoint => ("programs_checkpoint", "  of checkpoints"),
        Cause::BlockMetadata => ("programs_block_metadata", "  of block metadata"),
        Cause::Recovery => ("programs_recovery", "  by recovery"),
        Cause::Scrub => ("programs_scrub", "  by scrubbing"),
    };
    let visibility = match cause {
        Cause::Host | Cause::Gc => FigureVisibility::Always,
        _ => FigureVisibility::IfProgramsOfCause(cause),
    };
    FigureColumn { visibility, ..new_figure_column(key, title, FigureFunction::ProgramsOfCause(cause)) }
}

/// Columns of the figures that tables show after the page programs by cause and before the latencies, in the order of
/// the tables.
const COLUMNS_BEFORE_LATENCIES: &[FigureColumn] = &[
    count_column("reads", "page reads", |run| Some(run.reads)),
    count_column("erases", "block erases", |run| Some(run.erases)),
    FigureColumn {
        visibility: FigureVisibility::OnlyInPrintedTableIfAllRuns(|run| {
            !page_and_byte_amplification_differ(run)
        }),
        min_decimal_places: 3,
        ..real_number_column("", "write amplification", page_write_amplification)
    },
    FigureColumn {
        visibility: FigureVisibility::If(page_and_byte_amplification_differ),
        min_decimal_places: 3,
        ..real_number_column("write_amplification_bytes", "write amplification, bytes", |run| {
            run.bytes.write_amplification
        })
    },
    FigureColumn {
        visibility: FigureVisibility::If(page_and_byte_amplification_differ),
        min_decimal_places: 3,
        ..real_number_column("write_amplification", "write amplification, pages", page_write_amplification)
    },
];

/// Returns the columns of the latency of reads (`latency_columns!(read)`) or writes (`latency_columns!(write)`), in the
/// order of the tables. A macro, because the functions of a column are plain functions, which cannot hold which
/// requests they are for.
macro_rules! latency_columns {
    ($requests:ident) => {
        [
            data_only_column(
                concat!(stringify!($requests), "_count"),
                FigureFunction::Count(|run| value_if_timed(run, run.latency_us.$requests.count)),
            ),
            latency_column(
                concat!(stringify!($requests), "_mean_us"),
                concat!(stringify!($requests), " latency mean, us"),
                |run| latency_figure(run, &run.latency_us.$requests, 1, |l| l.mean),
            ),
            data_only_column(
                concat!(stringify!($requests), "_p50_us"),
                FigureFunction::RealNumber(|run| {
                    latency_figure(run, &run.latency_us.$requests, 2, |l| l.p50)
                }),
            ),
            data_only_column(
                concat!(stringify!($requests), "_p90_us"),
                FigureFunction::RealNumber(|run| {
                    latency_figure(run, &run.latency_us.$requests, 10, |l| l.p90)
                }),
            ),
            latency_column(
                concat!(stringify!($requests), "_p99_us"),
                concat!(stringify!($requests), " latency p99, us"),
                |run| latency_figure(run, &run.latency_us.$requests, 100, |l| l.p99),
            ),
            latency_column(
                concat!(stringify!($requests), "_p999_us"),
                concat!(stringify!($requests), " latency p99.9, us"),
                |run| latency_figure(run, &run.latency_us.$requests, 1000, |l| l.p999),
            ),
            data_only_column(
                concat!(stringify!($requests), "_max_us"),
                FigureFunction::RealNumber(|run| {
                    latency_figure(run, &run.latency_us.$requests, 1, |l| l.max)
                }),
            ),
        ]
    };
}

/// Columns of the latencies of reads and writes, in the order of the tables.
const COLUMNS_OF_LATENCIES: &[[FigureColumn; 7]] = &[latency_columns!(read), latency_columns!(write)];

/// Columns of the figures that tables show after the latencies of reads and writes, in the order of the tables.
const COLUMNS_AFTER_LATENCIES: &[FigureColumn] = &[
    FigureColumn {
        min_decimal_places: 1,
        visibility: FigureVisibility::If(|run| run.latency_us.flush.count > 0),
        ..real_number_column("flush_mean_us", "flush latency mean, us", |run| {
            latency_figure(run, &run.latency_us.flush, 1, |l| l.mean)
        })
    },
    FigureColumn {
        min_decimal_places: 1,
        visibility: FigureVisibility::If(|run| run.latency_us.flush.count >= 100),
        ..real_number_column("flush_p99_us", "flush latency p99, us", |run| {
            latency_figure(run, &run.latency_us.flush, 100, |l| l.p99)
        })
    },
    FigureColumn {
        visibility: FigureVisibility::If(has_timing),
        ..real_number_column("requests_per_s", "requests answered per second", |run| {
            run.service.requests_per_s
        })
    },
    FigureColumn {
        min_decimal_places: 1,
        visibility: FigureVisibility::If(has_timing),
        ..real_number_column("mb_per_s", "MB/s read and written", |run| run.service.mb_per_s)
    },
    FigureColumn {
        min_decimal_places: 3,
        visibility: FigureVisibility::If(|run| run.recovery.is_some()),
        ..real_number_column("recovery_s", "recovery from loss of power, s", |run| {
            run.recovery.as_ref().map(|recovery| recovery.total.time_s)
        })
    },
    data_only_column(
        "unwritten_page_reads",
        FigureFunction::Count(|run| Some(run.service.unwritten_page_reads)),
    ),
    data_only_column("device_s", FigureFunction::RealNumber(|run| value_if_timed(run, run.timing.device_s))),
    data_only_column(
        "array_utilisation",
        FigureFunction::RealNumber(|run| value_if_timed(run, run.timing.array_utilisation)),
    ),
    // 0 or 1, not a flag: files of earlier versions have these numbers, and can be joined with new ones.
    data_only_column(
        "is_from_steady_part",
        FigureFunction::Count(|run| {
            run.lifetime.host_tb_written_until_worn.map(|_| u64::from(run.lifetime.is_from_steady_part))
        }),
    ),
    extrapolated_column("tb_written_until_worn", "TB written until worn", |run| {
        run.lifetime.host_tb_written_until_worn
    }),
    FigureColumn {
        visibility: FigureVisibility::If(|run| run.lifetime.years.is_some()),
        ..extrapolated_column("years", "years at this rate", |run| {
            value_unless_overloaded(run, run.lifetime.years?)
        })
    },
    FigureColumn {
        visibility: FigureVisibility::If(|run| run.lifetime.scaled_years.is_some()),
        ..extrapolated_column("scaled_years", "  on the larger drive", |run| {
            value_unless_overloaded(run, run.lifetime.scaled_years?)
        })
    },
    extrapolated_column("drive_writes_per_day", "drive writes a day for 5 years", |run| {
        run.lifetime.drive_writes_per_day
    }),
    FigureColumn {
        min_decimal_places: 2,
        ..real_number_column("ram_mib", "controller RAM, MiB", |run| Some(run.ram_bytes as f64 / 1_048_576.0))
    },
    FigureColumn {
        min_decimal_places: 2,
        visibility: FigureVisibility::If(|run| run.bytes.ram_of_4k_map.is_some()),
        ..real_number_column("ram_of_4k_map_mib", "  if the map placed 4 KiB", |run| {
            run.bytes.ram_of_4k_map.map(|bytes| bytes as f64 / 1_048_576.0)
        })
    },
    FigureColumn {
        min_decimal_places: 3,
        shows_ratio_to_baseline: false,
        ..real_number_column("cpu_seconds", "simulation, CPU s", |run| Some(run.cpu_seconds))
    },
];

/// Returns all columns of figures, in the order of the tables.
fn figure_columns() -> impl Iterator<Item = &'static FigureColumn> {
    COLUMNS_BEFORE_PROGRAMS_BY_CAUSE
        .iter()
        .chain(&*COLUMNS_OF_PROGRAMS_BY_CAUSE)
        .chain(COLUMNS_BEFORE_LATENCIES)
        .chain(COLUMNS_OF_LATENCIES.as_flattened())
        .chain(COLUMNS_AFTER_LATENCIES)
}

/// Returns the column of the figure whose title in CSV and Parquet is `key`.
pub(crate) fn figure_column(key: &str) -> &'static FigureColumn {
    data_table_columns().find(|column| column.key == key).expect("figures are named in this file")
}

/// Returns the columns of the figures that the data table (CSV, Parquet) has.
fn data_table_columns() -> impl Iterator<Item = &'static FigureColumn> {
    figure_columns()
        .filter(|column| !matches!(column.visibility, FigureVisibility::OnlyInPrintedTableIfAllRuns(_)))
}

/// Returns the columns of the figures that the printed table shows for these runs.
fn table_columns(runs: &[&RunRecord]) -> impl Iterator<Item = &'static FigureColumn> {
    figure_columns().filter(|column| match column.visibility {
        FigureVisibility::Always => true,
        FigureVisibility::If(says) => runs.iter().any(|run| says(run)),
        FigureVisibility::IfProgramsOfCause(cause) => {
            runs.iter().any(|run| programs_of_cause(run, cause) > 0)
        }
        FigureVisibility::OnlyInPrintedTableIfAllRuns(says) => runs.iter().all(|run| says(run)),
        FigureVisibility::OnlyInDataTable => false,
    })
}

/// Returns those columns with one of these titles that the printed table shows for these runs, in the order of the
/// titles.
pub(crate) fn table_columns_with_titles<'a>(
    runs: &[RunRecord],
    titles: &'a [&str],
) -> impl Iterator<Item = &'static FigureColumn> + use<'a> {
    let runs: Vec<&RunRecord> = runs.iter().collect();
    let shown: Vec<&FigureColumn> = table_columns(&runs).collect();
    titles.iter().filter_map(move |title| shown.iter().find(|column| column.title == *title).copied())
}

/// Returns the share of the host's page writes, in percent, that arrived while lifetime management had the write-saving
/// scheme (such as deduplication) running.
fn percent_of_writes_under_scheme(run: &RunRecord, scheme: &str) -> Option<f64> {
    run.lifetime.schemes.get(scheme).map(|ran| 100.0 * ran.share_of_writes)
}

/// Returns the host page writes of a run that were stored in this form, such as `delta`.
fn writes_of_stored_form(run: &RunRecord, form: &str) -> u64 {
    run.writes_by_form.get(form).copied().unwrap_or(0)
}

/// Returns the page programs of a run with this cause.
fn programs_of_cause(run: &RunRecord, cause: Cause) -> u64 {
    run.programs_by_cause.get(cause.name()).copied().unwrap_or(0)
}

/// Returns the write amplification in pages; `None` if the host wrote nothing.
fn page_write_amplification(run: &RunRecord) -> Option<f64> {
    (run.host_page_writes > 0).then_some(run.write_amplification)
}

/// Returns the write amplification by which runs are ranked: bytes programmed per byte that the host wrote. `None` if
/// the host wrote nothing. Write amplification in pages would rank wrongly runs with unlike pages, write buffers or
/// remaps, because they divide by unlike numbers of page writes.
pub(crate) fn ranking_write_amplification(run: &RunRecord) -> Option<f64> {
    run.bytes.write_amplification.or_else(|| page_write_amplification(run))
}

/// Returns what tables of these runs call the write amplification of [`ranking_write_amplification`].
pub(crate) fn ranking_write_amplification_title<'a>(
    runs: impl IntoIterator<Item = &'a RunRecord>,
) -> &'static str {
    if runs.into_iter().any(page_and_byte_amplification_differ) {
        "write amplification, bytes"
    } else {
        "write amplification"
    }
}

/// Whether the run had a timing engine, so that it has times and latencies.
fn has_timing(run: &RunRecord) -> bool {
    run.timing.mode != "none"
}

/// Returns `value` if the run had a timing engine, else `None`.
fn value_if_timed<T>(run: &RunRecord, value: T) -> Option<T> {
    has_timing(run).then_some(value)
}

/// Returns a figure that depends on the rate of the requests; `None` if the drive was overloaded, because it cannot
/// sustain that rate.
fn value_unless_overloaded<T>(run: &RunRecord, value: T) -> Option<T> {
    (!run.service.is_overloaded).then_some(value)
}

/// Whether write amplification in bytes differs from that in pages by more than a thousandth.
fn page_and_byte_amplification_differ(run: &RunRecord) -> bool {
    let bytes = run.bytes.write_amplification.unwrap_or(run.write_amplification);
    (bytes - run.write_amplification).abs() > 0.001 * run.write_amplification
}

/// Returns a figure of a latency distribution; `None` if the distribution has fewer than `min_samples` requests, or if
/// the drive was overloaded, because latencies then grow with the run.
fn latency_figure(
    run: &RunRecord,
    latency: &Latency,
    min_samples: u64,
    figure: fn(&Latency) -> f64,
) -> Option<f64> {
    (latency.count >= min_samples && !run.service.is_overloaded).then(|| figure(latency))
}

/// Returns the settings of over-provisioning that all runs have in common. The lines above the table state these
/// settings, so that column titles leave them out.
fn common_over_provisioning_settings(runs: &[RunRecord]) -> Vec<&str> {
    let of_all =
        |setting: &&str| runs.iter().all(|run| run.variant.split(' ').any(|other| other == *setting));
    let shown = runs[0].variant.split(' ').filter(|setting| setting.starts_with("device.over_provisioning="));
    shown.filter(of_all).collect()
}

/// Returns the rows of a table of runs with stacked titles, because titles with settings would make columns too wide
/// for a terminal.
fn rows_with_stacked_titles(runs: &[&RunRecord], stated_settings: &[&str]) -> Vec<Vec<String>> {
    stack_titles(figure_rows(runs, stated_settings))
}

/// Replaces the first row of a table, its titles, by several rows with one word of each title per row.
pub(crate) fn stack_titles(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let titles = rows.remove(0);
    let words: Vec<Vec<&str>> = titles.iter().map(|title| title.split(' ').collect()).collect();
    let lines = words.iter().map(Vec::len).max().unwrap_or(1);
    let line = |k: usize| {
        words.iter().map(|of_title| of_title.get(k).copied().unwrap_or_default().to_owned()).collect()
    };
    (0..lines).map(line).chain(rows).collect()
}

/// Returns the table rows of all figures that a table of these runs shows; settings stated above the table are left out
/// of the titles.
fn figure_rows(runs: &[&RunRecord], stated_settings: &[&str]) -> Vec<Vec<String>> {
    selected_figure_rows(runs, stated_settings, |_| true)
}

/// Returns the table rows, titles first, of all figures that a table of these runs shows.
pub(crate) fn figure_rows_with_full_titles(runs: &[&RunRecord]) -> Vec<Vec<String>> {
    figure_rows(runs, &[])
}

/// Returns the table rows of the figures that decide between designs, in the order of their importance.
pub(crate) fn main_figure_rows(runs: &[&RunRecord]) -> Vec<Vec<String>> {
    let is_known = |column: &FigureColumn| runs.iter().any(|run| column.figure_of(run).is_some());
    let mut rows = selected_figure_rows(runs, &[], |column| {
        MAIN_FIGURE_TITLES.contains(&column.title) && is_known(column)
    });
    rows[1..].sort_by_key(|row| MAIN_FIGURE_TITLES.iter().position(|title| *title == row[0]));
    rows
}

/// Titles of the figures that decide between designs in a comparison, the most important first.
const MAIN_FIGURE_TITLES: [&str; 13] = [
    "write amplification",
    "write amplification, bytes",
    "TB written until worn",
    "years at this rate",
    "  on the larger drive",
    "drive writes a day for 5 years",
    "read latency mean, us",
    "read latency p99, us",
    "write latency mean, us",
    "write latency p99, us",
    "requests answered per second",
    "controller RAM, MiB",
    "block erases",
];

/// Returns the table rows of those figures for which `is_shown` is true, with the ratios to the first run.
fn selected_figure_rows(
    runs: &[&RunRecord],
    settings_stated_above_table: &[&str],
    is_shown: impl Fn(&FigureColumn) -> bool,
) -> Vec<Vec<String>> {
    let mut rows = vec![header_row(runs, settings_stated_above_table)];
    for column in table_columns(runs).filter(|column| is_shown(column)) {
        let mut row = vec![column.title.to_owned()];
        for (k, run) in runs.iter().enumerate() {
            row.push(column.cell_text(run));
            if k > 0 {
                row.push(ratio_to_baseline(column, run, runs[0]));
            }
        }
        rows.push(row);
    }
    rows
}

/// Returns the first row of a table of runs: the design and the distinguishing settings of each run.
fn header_row(runs: &[&RunRecord], stated_settings: &[&str]) -> Vec<String> {
    let mut header = vec![String::new()];
    for (k, run) in runs.iter().enumerate() {
        let label = run.design_and_variant();
        header.push(
            label.split(' ').filter(|word| !stated_settings.contains(word)).collect::<Vec<_>>().join(" "),
        );
        if k > 0 {
            header.push("ratio".to_owned());
        }
    }
    header
}

/// Returns the ratio of a figure to that of the baseline; blank if one of the two figures is missing, or describes only
/// a part of the input. If the two figures are extrapolated from different parts of the runs, both are computed from one
/// part ([`FigureColumn::compared_part_start_request`]).
pub(crate) fn ratio_to_baseline(column: &FigureColumn, run: &RunRecord, baseline: &RunRecord) -> String {
    let comparable = column.shows_ratio_to_baseline && !run.partial && !baseline.partial;
    let start_request = column.compared_part_start_request([run, baseline]);
    let figure = |run| match start_request {
        Some(start_request) => column.figure_of_part(run, start_request),
        None => column.figure_of(run),
    };
    let mark = if start_request.is_some() { OTHER_PART_MARK } else { "" };
    match (figure(run), figure(baseline)) {
        (Some(value), Some(base)) if comparable && base != 0.0 => format!("{:.3}{mark}", value / base),
        _ => String::new(),
    }
}

/// Returns a line that explains ratios with the mark `**`: they compare another part of the runs than the figures shown.
/// Empty if a table of these runs has no such ratio. The first run is the baseline.
pub(crate) fn other_part_ratio_explanation(runs: &[RunRecord]) -> String {
    let Some((baseline, others)) = runs.split_first() else { return String::new() };
    let is_marked = |run: &RunRecord| {
        figure_columns().any(|column| ratio_to_baseline(column, run, baseline).ends_with(OTHER_PART_MARK))
    };
    if !others.iter().any(is_marked) {
        return String::new();
    }
    format!(
        "{OTHER_PART_MARK} ratio of the part in which both runs were steady (of the whole runs if only one was steady): not the ratio of the figures shown\n"
    )
}

/// Returns the lines above a table of runs: the input, the device, and the drive's initial state.
pub(crate) fn lines_above_table(run: &RunRecord) -> String {
    let device = &run.device;
    let mib =
        |pages: u64| with_thousands_separators(pages as f64 * f64::from(device.page_bytes) / 1_048_576.0, 0);
    let buffer_pages = run.config.buffer.pages.unwrap_or_default();
    let buffer = match u64::from(buffer_pages) * u64::from(device.page_bytes) {
        0 => String::new(),
        bytes => {
            format!(
                ", write buffer of {buffer_pages} pages ({} KiB)",
                with_thousands_separators(bytes as f64 / 1024.0, 0)
            )
        }
    };
    let aging = if run.trace.aging_requests > 0 {
        format!(" after {} for aging", with_thousands_separators(run.trace.aging_requests as f64, 0))
    } else {
        String::new()
    };
    let reserve = reserve_phrase(run);
    format!(
        "{}: {} requests{aging}\n{}: {} MiB flash in {} {}, blocks of {} pages of {} bytes\n{} MiB exported: {:.1} % \
         over-provisioning{reserve}{buffer}\n{}\n{}\n",
        run.trace.path,
        with_thousands_separators(run.trace.requests as f64, 0),
        device.preset,
        mib(device.physical_pages),
        device.dies(),
        if device.dies() == 1 { "die" } else { "dies" },
        device.block_pages(),
        device.page_bytes,
        mib(device.logical_pages),
        device.over_provisioning * 100.0,
        initial_state_sentence(run),
        arrival_line(run),
    )
}

/// Returns a phrase on the blocks that hold no data: those that garbage collection keeps free or open, and factory-bad
/// ones. If these blocks are reserved in addition to the over-provisioning, the phrase states their number; otherwise it
/// states how much over-provisioning the blocks of garbage collection and the factory-bad ones leave. Empty if they
/// hardly reduce the over-provisioning.
fn reserve_phrase(run: &RunRecord) -> String {
    let device = &run.device;
    let acting = device.effective_over_provisioning();
    if device.reserve_blocks > 0.0 {
        let has_bad_blocks = run.config.device.factory_bad_share.is_some_and(|share| share > 0.0);
        let purpose = if has_bad_blocks { "collection and factory-bad blocks" } else { "collection" };
        format!(", and {:.1} blocks of each plane for {purpose}", device.reserve_blocks)
    } else if acting < 0.95 * device.over_provisioning {
        let (kept, percent) = (device.blocks_without_data_per_plane(), acting * 100.0);
        let bad = match device.factory_bad_blocks_per_plane() {
            0.0 => String::new(),
            bad => format!(", {bad:.1} are bad from the factory"),
        };
        format!(" (acts as {percent:.1} %: collection keeps {kept:.1} blocks of each plane{bad})")
    } else {
        String::new()
    }
}

/// Returns a line on how the requests of a run arrived (closed loop, or at which times); empty without a timing engine.
fn arrival_line(run: &RunRecord) -> String {
    match run.service.arrival {
        None | Some(Arrival::Auto) => String::new(),
        Some(Arrival::Open) => "requests came at the times of the input\n".to_owned(),
        Some(Arrival::Think) => "requests came their original gaps after the answers before\n".to_owned(),
        Some(Arrival::Closed) => {
            format!("closed loop: {} requests in flight\n", run.service.queue_depth.unwrap_or_default())
        }
    }
}

/// Returns a sentence on the drive's state before the first measured request.
fn initial_state_sentence(run: &RunRecord) -> &'static str {
    match run.config.precondition.mode {
        Precondition::InUse => "the drive was in use before the first request",
        Precondition::None => "the drive was empty before the first request",
        Precondition::Fill => "the drive was filled before the first request",
        Precondition::Steady => "the drive was filled and overwritten at random before the first request",
        Precondition::Random => "the drive was overwritten at random before the first request",
        Precondition::Constructed => {
            "the drive was in the steady state of random writes before the first request"
        }
        Precondition::Aged => "the drive was aged before the first measured request",
    }
}

/// Returns the lines below a table of runs: steadiness and notes of the runs, and why figures are incomplete.
pub(crate) fn lines_below_table(labelled: &[(String, &RunRecord)]) -> String {
    let steadiness = |(label, run): &(String, &RunRecord)| {
        let is_judged = run.host_page_writes > 0;
        is_judged.then(|| format!("{label}: {}\n", run.steady.describe(run.trace.requests)))
    };
    let steadiness: String = labelled.iter().filter_map(steadiness).collect();
    let partial = labelled.iter().map(|(label, run)| partial_run_line(label, run));
    steadiness + &unsteady_mark_explanation(labelled) + &note_lines(labelled) + &partial.collect::<String>()
}

/// Returns a line that explains lifetimes with the mark `*`; empty if a table of these runs has none.
pub(crate) fn unsteady_mark_explanation(labelled: &[(String, &RunRecord)]) -> String {
    if !labelled.iter().any(|(_, run)| figure_columns().any(|column| column.needs_unsteady_mark(run))) {
        return String::new();
    }
    format!(
        "{NOT_STEADY_MARK} extrapolated from a run that was not steady: a longer run gives another figure\n"
    )
}

/// Returns a line for each note on the runs, equal notes once: the notes of the records, and notes that follow from
/// their figures.
pub(crate) fn note_lines(labelled: &[(String, &RunRecord)]) -> String {
    let mut notes = distinct_notes(labelled);
    let any_run = |is_affected: fn(&RunRecord) -> bool| labelled.iter().any(|(_, run)| is_affected(run));
    if any_run(|run| run.erases == 0 && run.host_page_writes > 0) {
        notes.push("TB written is missing for runs in which no block was erased".to_owned());
    }
    if any_run(has_years_at_full_speed) {
        notes.push(
            "years in closed loop are those of a drive that is written as fast as it can: a slower one has more"
                .to_owned(),
        );
    }
    let rejected: BTreeSet<u64> = labelled.iter().map(|(_, run)| run.trace.rejected).collect();
    notes.extend(
        rejected.iter().filter(|&&lines| lines > 0).map(|lines| format!("bad lines skipped: {lines}")),
    );
    notes.iter().fold(String::new(), |text, note| text + "note: " + note + "\n")
}

/// Returns whether the run has years of a drive that is written as fast as it can: in closed loop, unless throttling
/// sets the rate of writes by the target lifetime.
fn has_years_at_full_speed(run: &RunRecord) -> bool {
    let is_throttled = run.lifetime.held_writes > 0;
    run.service.arrival == Some(Arrival::Closed) && !is_throttled && run.lifetime.years.is_some()
}

/// Returns the line that says why a run called `label` ended early; empty if the run is whole.
fn partial_run_line(label: &str, run: &RunRecord) -> String {
    let reason = run.partial_reason.as_ref();
    reason.map_or_else(String::new, |reason| format!("PARTIAL: {label} ended early: {reason}\n"))
}

/// Returns rows as aligned text: the first column aligned to the left, all other columns to the right.
pub(crate) fn aligned_text(rows: &[Vec<String>]) -> String {
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

/// Returns rows as a Markdown table, with the first row as the head.
pub(crate) fn markdown_table(rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule: Vec<String> =
        (0..rows[0].len()).map(|k| if k == 0 { "---" } else { "---:" }.to_owned()).collect();
    let body: String = rows[1..].iter().map(|row| line(row)).collect();
    format!("{}{}{body}\n", line(&rows[0]), line(&rule))
}

/// Returns a number with `digits` digits after the decimal point and commas between thousands.
pub fn with_thousands_separators(value: f64, digits: usize) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_one_column_of_programs_that_is_named_after_it() {
        let keys = data_table_columns().map(|column| column.key);
        let keys: Vec<&str> = keys.filter(|key| key.starts_with("programs_")).collect();
        let expected = Cause::ALL.map(|cause| format!("programs_{}", cause.name()));
        assert!(expected.iter().all(|key| keys.contains(&key.as_str())), "{keys:?}");
        assert_eq!(keys.len(), Cause::COUNT, "{keys:?}");
    }

    /// Pages of reports and of live devices draw programs by cause with the names in their script.
    #[test]
    fn the_script_of_pages_names_every_cause_as_tables_do() {
        let script = include_str!("html_report/script/base.js");
        for cause in Cause::ALL {
            let name = format!("{}: \"{}\"", cause.name(), column_of_programs_of_cause(cause).title.trim());
            assert!(script.contains(&name), "{name}");
        }
    }
}
