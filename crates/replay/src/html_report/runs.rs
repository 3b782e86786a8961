//! The HTML page of `wearwell replay` and `wearwell compare`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use wearwell_config::Config;

use super::HtmlReport;
use super::markup::{
    charts_element_of_runs, collapsible_html, filterable_html_table, html_element, html_heading,
    html_notes_list, html_table,
};
use crate::record::RunRecord;
use crate::report::{
    Comparison, figure_cell, figure_rows_with_full_titles, lines_above_table, lines_below_comparison,
    main_figure_rows, ranking_write_amplification, ranking_write_amplification_title,
};

/// Title of the notes on a result in its HTML page.
pub(super) const NOTES_TITLE: &str = "What these figures rest on";
/// Caption of the table of figures in the HTML page of runs.
const FIGURES_CAPTION: &str = "Ratios are to the first design; docs/figures.md defines each figure.";

impl HtmlReport for Comparison {
    fn result_kind(&self) -> &'static str {
        "runs"
    }

    fn title(&self) -> String {
        let designs = distinct_values(self.runs.iter().map(RunRecord::design_and_variant));
        html_page_title(
            &join_up_to_three(&designs, "designs"),
            self.runs.iter().map(|run| run.trace.path.clone()),
        )
    }

    fn body_html(&self) -> String {
        let mut first = 0;
        let section = |runs: &[RunRecord]| {
            let numbers = first..first + runs.len();
            first += runs.len();
            format!(
                "<section>\n{}{}</section>\n",
                main_result_html(runs),
                charts_element_of_runs(numbers) + &run_details_html(runs)
            )
        };
        self.runs_grouped_by_input().map(section).collect()
    }
}

/// Returns the distinct values, each once, in the order of their first occurrence.
pub(super) fn distinct_values(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    values.filter(|value| seen.insert(value.clone())).collect()
}

/// Joins up to three names with commas; for more names returns their number and `what`, such as `5 designs`.
pub(super) fn join_up_to_three(names: &[String], what: &str) -> String {
    if names.len() > 3 { format!("{} {what}", names.len()) } else { names.join(", ") }
}

/// Returns the title of a page of runs: what was run and, if there are several inputs, their number. A single input is
/// named in the heading below the title.
pub(super) fn html_page_title(what: &str, inputs: impl Iterator<Item = String>) -> String {
    match distinct_values(inputs).len() {
        0 | 1 => what.to_owned(),
        count => format!("{what} on {count} inputs"),
    }
}

/// Returns the first section of a page of runs: a sentence with the result, and a table of the figures that decide
/// between the runs.
fn main_result_html(runs: &[RunRecord]) -> String {
    let refs: Vec<&RunRecord> = runs.iter().collect();
    html_heading(&runs[0].trace.path)
        + &html_element("p", "lead", &lead_sentence(runs))
        + &html_table("answer", FIGURES_CAPTION, &main_figure_rows(&refs))
        + &html_element("p", "facts", lines_above_table(&runs[0]).trim_end())
        + &notes_html(runs)
}

/// Returns the sentence at the top of the page: the figures of the run or, for several runs, which has the least write
/// amplification.
fn lead_sentence(runs: &[RunRecord]) -> String {
    let title = ranking_write_amplification_title(runs);
    if let [run] = runs {
        let name = run.design_and_variant();
        return match ranking_write_amplification(run) {
            Some(value) => {
                format!(
                    "{name}: {title} {value:.3}, TB written until worn {}",
                    table_cell_of_tb_until_worn(run)
                )
            }
            None => format!("{name}: the host wrote nothing"),
        };
    }
    let amplification =
        |run| ranking_write_amplification(run).filter(|_| !run.partial).map(|value| (value, run));
    let order = |a: &(f64, &RunRecord), b: &(f64, &RunRecord)| a.0.total_cmp(&b.0);
    let Some((least, best)) = runs.iter().filter_map(amplification).min_by(order) else {
        return "No run went to its end.".to_owned();
    };
    let name = best.design_and_variant();
    match ranking_write_amplification(&runs[0]) {
        Some(of_first) if name != runs[0].design_and_variant() => format!(
            "Least {title}: {name} with {least:.3}; {} has {of_first:.3}.",
            runs[0].design_and_variant()
        ),
        _ => format!("Least {title}: {name} with {least:.3}."),
    }
}

/// Returns the title of a figure as the beginning of a sentence.
pub(super) fn with_capital_letter(title: &str) -> String {
    let (first, rest) = title.split_at(1);
    first.to_uppercase() + rest
}

/// Returns the table cell with the terabytes that the host can write until the drive is worn out.
fn table_cell_of_tb_until_worn(run: &RunRecord) -> String {
    figure_cell(run, "TB written until worn")
}

/// Returns the notes on the runs as HTML: whether each run was steady, remarks, and which runs are partial. The notes
/// are the lines that the terminal prints below the table of runs.
fn notes_html(runs: &[RunRecord]) -> String {
    html_notes_list(NOTES_TITLE, lines_below_comparison(runs).lines())
}

/// Returns the collapsible parts of a page of runs: all figures, the RAM of the controller, and the configuration.
pub(super) fn run_details_html(runs: &[RunRecord]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let refs: Vec<&RunRecord> = runs.iter().collect();
    collapsible_html("All figures", &html_table("", FIGURES_CAPTION, &figure_rows_with_full_titles(&refs)))
        + &collapsible_html("RAM of a controller by structure, bytes", &ram_table(&refs))
        + &collapsible_html(
            "Configuration and provenance",
            &(provenance_table(&refs) + &settings_table(&refs)),
        )
}

/// Returns the first row of a table with one column per run: `first`, and the titles of the runs.
fn title_row(first: &str, runs: &[&RunRecord]) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(runs.iter().map(|run| run.design_and_variant())).collect()
}

/// Returns an HTML table of the controller's RAM by use, with a column per run.
fn ram_table(runs: &[&RunRecord]) -> String {
    let structures: BTreeSet<&String> =
        runs.iter().flat_map(|run| run.ram_bytes_by_structure.keys()).collect();
    let of = |run: &&RunRecord, name: &String| {
        run.ram_bytes_by_structure.get(name).map_or_else(|| "-".to_owned(), u64::to_string)
    };
    let row =
        |name: &String| std::iter::once(name.clone()).chain(runs.iter().map(|run| of(run, name))).collect();
    let rows: Vec<Vec<String>> =
        std::iter::once(title_row("", runs)).chain(structures.into_iter().map(row)).collect();
    html_table("", "Bytes of controller RAM", &rows)
}

/// A fact about a run for its HTML page: the name of the fact, and a function that returns the fact as text.
type RunFact = (&'static str, fn(&RunRecord) -> String);

/// Facts that identify a run in its HTML page, such as version, seed and input.
const RUN_FACTS: [RunFact; 10] = [
    ("version of Wearwell", |run| run.version.clone()),
    ("seed", |run| run.seed.to_string()),
    ("input", |run| run.trace.path.clone()),
    ("SHA-256 of the input", |run| run.trace.sha256.clone().unwrap_or_else(|| "generated".to_owned())),
    ("requests measured", |run| run.trace.requests.to_string()),
    ("requests before, for aging", |run| run.trace.aging_requests.to_string()),
    ("bad lines skipped", |run| run.trace.rejected.to_string()),
    ("distinct 4-KiB pages", |run| run.trace.footprint_pages.to_string()),
    ("duration of the input, s", |run| run.trace.duration_s.to_string()),
    ("device preset", |run| run.device.preset.clone()),
];

/// Returns an HTML table of the facts that identify each run, such as version, seed and input.
fn provenance_table(runs: &[&RunRecord]) -> String {
    let row = |(name, value): &RunFact| {
        std::iter::once((*name).to_owned()).chain(runs.iter().map(|run| value(run))).collect()
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(title_row("", runs)).chain(RUN_FACTS.iter().map(row)).collect();
    html_table("left wrap", "Where the figures come from", &rows)
}

/// Returns an HTML table of every effective setting: its value (if the runs differ, the value of each run), and where
/// the value comes from. Rows of defaults can be hidden.
fn settings_table(runs: &[&RunRecord]) -> String {
    let configs: Vec<BTreeMap<String, String>> = runs.iter().map(|run| settings_of_run(run)).collect();
    let keys: BTreeSet<&String> = configs.iter().flat_map(BTreeMap::keys).collect();
    let value =
        |config: &BTreeMap<String, String>, key: &String| config.get(key).cloned().unwrap_or_default();
    let origin = |run: &&RunRecord, key: &String| {
        run.origins.get(key).map_or_else(|| ORIGIN_OF_DEFAULT_VALUES.to_owned(), ToString::to_string)
    };
    let row = |key: &String| {
        let values = distinct_values(configs.iter().map(|config| value(config, key)));
        let origins = distinct_values(runs.iter().map(|run| origin(run, key)));
        vec![key.clone(), values.join(", "), origins.join(", ")]
    };
    let head = ["key", "value", "from"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(keys.into_iter().map(row)).collect();
    let file = html_element("pre", "", &runs[0].config.to_toml());
    filterable_html_table(
        "left wrap",
        "Settings in effect: with them the same input gives the same run",
        &rows,
        ORIGIN_OF_DEFAULT_VALUES,
    ) + &collapsible_html(&format!("As a file, for --config: {}", runs[0].design_and_variant()), &file)
}

/// Text that is shown as the origin of a setting whose value is the built-in default.
const ORIGIN_OF_DEFAULT_VALUES: &str = "default";

/// Returns the settings of a run by dotted keys, the parts of its design included.
fn settings_of_run(run: &RunRecord) -> BTreeMap<String, String> {
    let parts = run.config.all_parts(&run.design);
    let parts = parts.map(|parts| Config { parts, ..run.config.clone() });
    flat_settings(parts.as_ref().unwrap_or(&run.config))
}

/// Returns a configuration as values by dotted keys, without keys that have no value.
fn flat_settings(config: &Config) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    add_flat_settings(
        "",
        &serde_json::to_value(config).expect("a configuration is plain data"),
        &mut settings,
    );
    settings
}

/// Adds a configuration value, or the values inside it, to `settings` under dotted keys that begin with `key`.
fn add_flat_settings(key: &str, value: &Value, settings: &mut BTreeMap<String, String>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => fields.iter().for_each(|(name, field)| {
            let dot = if key.is_empty() { "" } else { "." };
            add_flat_settings(&format!("{key}{dot}{name}"), field, settings);
        }),
        Value::String(text) => drop(settings.insert(key.to_owned(), text.clone())),
        other => drop(settings.insert(key.to_owned(), other.to_string())),
    }
}
