//! Sweeps: runs of several designs on several inputs, with all combinations of varied settings, as described by a file.
//!
//! The file is a configuration with one more section, `[sweep]`. So every setting is written as in any configuration,
//! and the file of a single run becomes a sweep by a few more lines. The price: the section is removed from the text
//! before the rest is read as a configuration. Its lines become blank lines, so that errors keep their line numbers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use toml::de::DeTable;
use wearwell::design;
use wearwell_config::{Config, ConfigError, key_of_setting, line_at, refuse_value_listed_twice};

use crate::data_table::{Cell, CellKind, DataColumn, DataTable};
use crate::input::Input;
use crate::record::RunRecord;
use crate::report::{
    Comparison, FigureColumn, aligned_text, data_table_cells_of_run, data_table_columns_of_runs,
    figure_column, labelled_runs, markdown_table, note_lines, other_part_ratio_explanation,
    ratio_to_baseline, stack_titles, table_columns_with_titles, unsteady_mark_explanation,
};

/// The section `[sweep]` of a sweep file: inputs, designs and varied settings.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SweepFileSection {
    /// Paths of the trace files to replay.
    traces: Vec<PathBuf>,
    /// Specifications of workload generators and host models to replay.
    workloads: Vec<String>,
    /// Names of the designs to run, each optionally with settings of its own.
    designs: Vec<String>,
    /// Values of each setting that the sweep varies, by key.
    vary: toml::Table,
}

impl Default for SweepFileSection {
    fn default() -> Self {
        Self {
            traces: Vec::new(),
            workloads: Vec::new(),
            designs: vec!["page-map".into()],
            vary: toml::Table::new(),
        }
    }
}

/// Parsed content of a sweep file: inputs, designs and varied settings.
#[derive(Clone, PartialEq, Debug)]
pub struct SweepFile {
    /// Trace files that the sweep replays.
    pub traces: Vec<PathBuf>,
    /// Specifications of workload generators and host models that the sweep replays.
    pub workloads: Vec<String>,
    /// Designs that the sweep runs, each optionally with settings of its own (`page-map:gc.policy=fifo`).
    pub designs: Vec<String>,
    /// Lists of settings (`key=value`), one for each combination of the values that the sweep varies; a single empty
    /// list if nothing is varied.
    pub setting_combinations: Vec<Vec<String>>,
    /// Name of the sweep file, and its text without the section `[sweep]`.
    name_and_configuration: (String, String),
}

/// The section `[sweep]` of a sweep file with its subsections; everything else in the file is configuration.
#[derive(Deserialize)]
struct FileWithSweepSection {
    /// Content of the section `[sweep]`.
    sweep: SweepFileSection,
}

impl SweepFile {
    /// Reads a sweep file.
    ///
    /// # Errors
    /// [`ConfigError`] with file and line, or with the key that is wrong.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|source| ConfigError::Unreadable { file: path.to_owned(), source })?;
        Self::from_text(&path.display().to_string(), &text)
    }

    /// Parses the text of a sweep file called `name`.
    ///
    /// # Errors
    /// As [`SweepFile::read`].
    pub fn from_text(name: &str, text: &str) -> Result<Self, ConfigError> {
        let (sweep_section, configuration) = split_off_sweep_section(text);
        let SweepFileSection { traces, workloads, designs, vary } =
            toml::from_str::<FileWithSweepSection>(&sweep_section)
                .map_err(|error| {
                    let line = line_at(&sweep_section, error.span().map_or(0, |span| span.start));
                    ConfigError::Toml {
                        location: format!("{name}:{line}"),
                        message: format!(
                            "{error}; docs/sweep.md describes what the section [sweep] may contain",
                            error = error.message()
                        ),
                    }
                })?
                .sweep;
        if traces.is_empty() && workloads.is_empty() {
            return Err(ConfigError::InvalidValue(format!(
                "{name}: [sweep] names no input: set sweep.traces or sweep.workloads"
            )));
        }
        if designs.is_empty() {
            return Err(ConfigError::InvalidValue(format!(
                "{name}: sweep.designs is an empty list: name at least one design, or leave the line out to run \
                 page-map"
            )));
        }
        let paths: Vec<String> = traces.iter().map(|path| path.display().to_string()).collect();
        for (list, values) in [("traces", &paths), ("workloads", &workloads), ("designs", &designs)] {
            refuse_value_listed_twice(&format!("{name}: sweep.{list}"), values)?;
        }
        let mut axes = Vec::new();
        add_setting_axes(&vary, "", &mut axes)
            .map_err(|sentence| ConfigError::InvalidValue(format!("{name}: {sentence}")))?;
        let file = (name.to_owned(), configuration);
        let sweep = Self {
            traces,
            workloads,
            designs,
            setting_combinations: combine_axes(&axes),
            name_and_configuration: file,
        };
        sweep.config_with_settings(&[])?;
        for setting in axes.iter().flatten() {
            sweep.config_with_settings(std::slice::from_ref(setting)).map_err(|error| match error {
                ConfigError::Toml { location, message } => {
                    let line = line_of_varied_key(&sweep_section, key_of_setting(setting));
                    ConfigError::Toml { location: format!("{name}:{line}: {location}"), message }
                }
                other => other,
            })?;
        }
        sweep.require_existing_designs()?;
        sweep.require_valid_workloads()?;
        Ok(sweep)
    }

    /// Refuses names of designs that do not exist. Without this check, a run with such a name would fail only after
    /// hours of other runs.
    fn require_existing_designs(&self) -> Result<(), ConfigError> {
        let names = || design::ALL.iter().map(|design| design.name);
        let designs = self.designs.iter().map(|text| text.split(':').next().unwrap_or_default());
        let unknown = designs.into_iter().find(|&name| names().all(|known| known != name));
        unknown.map_or(Ok(()), |name| Err(ConfigError::unknown_name("design", name, names())))
    }

    /// Refuses a specification of a workload that is valid in no grammar. The error names the entry of
    /// `sweep.workloads`.
    fn require_valid_workloads(&self) -> Result<(), ConfigError> {
        for (index, spec) in self.workloads.iter().enumerate() {
            Input::of_generator_spec(spec).map_err(|error| {
                let file = &self.name_and_configuration.0;
                let number = index + 1;
                ConfigError::InvalidValue(format!(
                    "{file}: entry {number} of sweep.workloads, `{spec}`, is refused, so correct it: {error}"
                ))
            })?;
        }
        Ok(())
    }

    /// Returns the configuration of the sweep file, in which `settings` (each `key=value`) replace values of the file.
    ///
    /// # Errors
    /// As [`Config::from_text_and_settings`].
    pub fn config_with_settings(&self, settings: &[String]) -> Result<Config, ConfigError> {
        Config::from_text_and_settings(
            Some((&self.name_and_configuration.0, &self.name_and_configuration.1)),
            settings,
        )
    }
}

/// Splits a sweep file into two texts: the lines of `[sweep]` and `[sweep.*]`, and all other lines. In each text, blank
/// lines replace the lines of the other.
fn split_off_sweep_section(text: &str) -> (String, String) {
    let (mut sweep, mut rest, mut in_sweep) = (String::new(), String::new(), false);
    for line in text.lines() {
        let code = line.split('#').next().unwrap_or_default().trim();
        if let Some(header) = code.strip_prefix('[').and_then(|code| code.strip_suffix(']')) {
            let section = header.trim().split('.').next().unwrap_or_default().trim();
            in_sweep = section == "sweep";
        }
        let (of, other) = if in_sweep { (&mut sweep, &mut rest) } else { (&mut rest, &mut sweep) };
        of.push_str(line);
        of.push('\n');
        other.push('\n');
    }
    if sweep.trim().is_empty() {
        sweep.push_str("[sweep]\n");
    }
    (sweep, rest)
}

/// Returns the number of the line on which the lines of `[sweep]` vary this key (`section.key`).
///
/// # Panics
/// If they do not vary it.
fn line_of_varied_key(sweep_section: &str, key: &str) -> usize {
    /// Returns the byte offset of the key in a table. Names in the table may be several parts of the key (in quotes).
    fn offset_in(table: &DeTable<'_>, key: &str) -> Option<usize> {
        table.iter().find_map(|(name, value)| match key.strip_prefix(name.get_ref().as_ref())? {
            "" => Some(name.span().start),
            rest => offset_in(value.get_ref().as_table()?, rest.strip_prefix('.')?),
        })
    }
    let document = DeTable::parse(sweep_section).expect("the text was parsed");
    let offset = offset_in(document.get_ref(), &format!("sweep.vary.{key}"));
    line_at(sweep_section, offset.expect("the key is one of those that are varied"))
}

/// The settings (`key=value`) of one key that a sweep varies, one setting per value.
type SettingAxis = Vec<String>;

/// Adds the settings of each key in `table`, a section below `[sweep.vary]`, to `axes`; the error is a sentence.
fn add_setting_axes(
    table: &toml::Table,
    key_prefix: &str,
    axes: &mut Vec<SettingAxis>,
) -> Result<(), String> {
    for (name, value) in table {
        let key = format!("{key_prefix}{name}");
        match value {
            toml::Value::Table(inner) => add_setting_axes(inner, &format!("{key}."), axes)?,
            _ if axes.iter().flatten().any(|setting| setting.starts_with(&format!("{key}="))) => {
                return Err(format!(
                    "sweep.vary.{key} is given twice, with the key in quotes and without: write all its values in one \
                     list"
                ));
            }
            toml::Value::Array(values) if !values.is_empty() => {
                refuse_value_listed_twice(&format!("sweep.vary.{key}"), values)
                    .map_err(|error| error.to_string())?;
                axes.push(values.iter().map(|value| format!("{key}={}", setting_value(value))).collect());
            }
            toml::Value::Array(_) => {
                return Err(format!(
                    "sweep.vary.{key} is an empty list: name at least one value, or leave the line out"
                ));
            }
            _ => {
                return Err(format!(
                    "sweep.vary.{key} is {value}, but must be a list of values: to use one value in all runs, set \
                     {key} outside [sweep.vary], in the section to which it belongs"
                ));
            }
        }
    }
    Ok(())
}

/// Returns a TOML value in the form that it has in a setting `key=value`. A list of names (only content mechanisms are
/// such a list) becomes one text, which is `none` for the empty list.
fn setting_value(value: &toml::Value) -> String {
    let names =
        value.as_array().and_then(|items| items.iter().map(toml::Value::as_str).collect::<Option<Vec<_>>>());
    match names {
        Some(names) if names.is_empty() => "\"none\"".to_owned(),
        Some(names) => format!("\"{}\"", names.join(",")),
        None => value.to_string(),
    }
}

/// Returns all combinations that take one setting of each varied key. The last key varies fastest.
fn combine_axes(axes: &[SettingAxis]) -> Vec<Vec<String>> {
    axes.iter().fold(vec![Vec::new()], |points, axis| {
        let with = |point: &Vec<String>, setting: &String| [point.clone(), vec![setting.clone()]].concat();
        points.iter().flat_map(|point| axis.iter().map(move |setting| with(point, setting))).collect()
    })
}

/// A run of a sweep that ended with an error.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FailedRun {
    /// Trace file, or specification of the workload, of the failed run.
    pub trace: String,
    /// Name of the failed run's design.
    pub design: String,
    /// Settings that distinguish the failed run from others of the sweep.
    pub variant: String,
    /// Message of the error that ended the run.
    pub error: String,
}

impl FailedRun {
    /// Returns the text of the failed run in the column `title` of run records; empty for columns that only a finished
    /// run can fill.
    fn cell(&self, title: &str) -> Cell {
        match title {
            "trace" => self.trace.clone().into(),
            "design" => self.design.clone().into(),
            "variant" => self.variant.clone().into(),
            _ => Cell::Empty,
        }
    }
}

/// Results of a sweep; `wearwell sweep --json` writes them.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct SweepResults {
    /// Records of the sweep's runs that have a result.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// The sweep's runs that ended with an error.
    pub failures: Vec<FailedRun>,
}

/// Reads the three fields of the JSON document. The code that is derived for a flattened field would read the records into
/// memory first and parse them from there, for which everything that parses a record would be compiled a second time.
impl<'de> Deserialize<'de> for SweepResults {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct SweepDocument {
            schema_version: u32,
            runs: Vec<RunRecord>,
            failures: Vec<FailedRun>,
        }
        let SweepDocument { schema_version, runs, failures } = SweepDocument::deserialize(deserializer)?;
        Ok(Self { comparison: Comparison { schema_version, runs }, failures })
    }
}

impl SweepResults {
    /// Returns the results as a table of typed columns (for CSV and Parquet): [`Comparison::data_table`] with a last
    /// column `error`. A failed run has a row with its trace, design, variant and error, and otherwise empty cells.
    pub fn data_table(&self) -> DataTable {
        let columns = data_table_columns_of_runs();
        let of_error = DataColumn::new("error", CellKind::Text);
        let mut table = DataTable::new(columns.iter().cloned().chain([of_error]).collect());
        for run in &self.comparison.runs {
            table.push(data_table_cells_of_run(run).into_iter().chain([Cell::Empty]).collect());
        }
        for failed in &self.failures {
            let known = columns.iter().map(|column| failed.cell(&column.title));
            table.push(known.chain([failed.error.clone().into()]).collect());
        }
        table
    }

    /// Returns a table for each input of the sweep with a line per run: its design and settings, and its main figures.
    /// The marks in the tables and the notes on the runs are explained below the last table.
    pub fn to_table(&self) -> String {
        self.format_tables(|rows| aligned_text(&stack_titles(rows)))
    }

    /// Returns the tables of [`Self::to_table`] in Markdown.
    pub fn to_markdown(&self) -> String {
        self.format_tables(|rows| markdown_table(&rows))
    }

    /// Returns the table of each input below its name, and then the lines below the tables; `write` converts the rows
    /// of a table to text.
    fn format_tables(&self, write: fn(Vec<Vec<String>>) -> String) -> String {
        let tables = self.rows_by_input().map(|(input, rows)| format!("{input}\n\n{}", write(rows)));
        tables.collect::<String>() + &self.lines_below_tables()
    }

    /// Returns the lines below the tables: explanations of the marks in the tables, if there are any, and the notes on
    /// the runs, equal notes once.
    pub(crate) fn lines_below_tables(&self) -> String {
        let mut labelled = labelled_runs(&self.comparison.runs);
        if self.runs_by_input().count() > 1 {
            for (label, run) in &mut labelled {
                *label = format!("{label} on {}", run.trace.path);
            }
        }
        let explanation =
            self.runs_by_input().map(other_part_ratio_explanation).find(|line| !line.is_empty());
        explanation.unwrap_or_default() + &unsteady_mark_explanation(&labelled) + &note_lines(&labelled)
    }

    /// Returns the run records in groups: consecutive runs on the same input, which have a table of their own.
    fn runs_by_input(&self) -> impl Iterator<Item = &[RunRecord]> {
        self.comparison.runs.chunk_by(|a, b| a.trace.path == b.trace.path)
    }

    /// Returns the name of each input of the sweep with the rows of its table, titles first.
    pub(crate) fn rows_by_input(&self) -> impl Iterator<Item = (String, Vec<Vec<String>>)> {
        self.runs_by_input().map(|runs| (runs[0].trace.path.clone(), table_rows(runs)))
    }

    /// Returns a line for each different error of the sweep's runs: the error, the first run that ended with it, and
    /// the number of other runs that did.
    pub fn failure_lines(&self) -> String {
        let mut errors: Vec<(&FailedRun, usize)> = Vec::new();
        for failed in &self.failures {
            match errors.iter_mut().find(|(first, _)| first.error == failed.error) {
                Some((_, runs)) => *runs += 1,
                None => errors.push((failed, 1)),
            }
        }
        let line = |(first, runs): (&FailedRun, usize)| {
            let names = [&first.design, &first.variant].map(String::as_str);
            let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
            let others = match runs - 1 {
                0 => String::new(),
                1 => " and another run".to_owned(),
                more => format!(" and {more} other runs"),
            };
            format!("FAILED: {} on {}{others}: {}\n", names.join(" "), first.trace, first.error)
        };
        errors.into_iter().map(line).collect()
    }

    /// Adds the outcome of a run: its record to the results of the sweep, or its error to the failures.
    pub fn add_outcome(&mut self, outcome: Result<RunRecord, FailedRun>) {
        match outcome {
            Ok(record) => self.comparison.runs.push(record),
            Err(failed) => self.failures.push(failed),
        }
    }
}

/// Titles of the figures in the tables of a sweep. Write amplification in bytes and in pages are shown if they differ
/// in a run of the table, otherwise one of them.
const FIGURE_TITLES: [&str; 5] = [
    "write amplification",
    "write amplification, bytes",
    "write amplification, pages",
    "block erases",
    "TB written until worn",
];

/// Key of the figure whose ratio to the first run the tables show. The ratio is needed because the lifetimes of two
/// runs may be extrapolated from unlike parts of the runs, so that the figures alone may be in a wrong order.
const RATIO_FIGURE_KEY: &str = "tb_written_until_worn";

/// Keys of the settings in the labels of a table's rows. A label shows only the last part of a key (`policy` of
/// `gc.policy`), but the whole key if another key of the table ends in the same part.
struct ShortKeyNames<'a>(BTreeSet<&'a str>);

impl<'a> ShortKeyNames<'a> {
    /// Collects the keys of the settings that distinguish these runs.
    fn of_runs(runs: &'a [RunRecord]) -> Self {
        let settings = runs.iter().flat_map(|run| run.variant.split(' '));
        Self(settings.filter_map(|setting| setting.split_once('=')).map(|(key, _)| key).collect())
    }

    /// Returns the short form of a setting's key that labels show: its last part, or the whole key if that is
    /// ambiguous.
    fn short_name<'k>(&self, key: &'k str) -> &'k str {
        let last_part = |key: &'k str| key.rsplit('.').next().unwrap_or(key);
        let is_of_other = |other: &&str| *other != key && other.rsplit('.').next() == Some(last_part(key));
        if self.0.iter().any(is_of_other) { key } else { last_part(key) }
    }
}

/// Returns the rows of the table of runs on one input, titles first: the main figures of each run, and the ratio of its
/// lifetime to that of the first.
fn table_rows(runs: &[RunRecord]) -> Vec<Vec<String>> {
    let columns: Vec<&FigureColumn> = table_columns_with_titles(runs, &FIGURE_TITLES).collect();
    let names = ShortKeyNames::of_runs(runs);
    let titles = std::iter::once("").chain(columns.iter().map(|column| column.title)).chain(["ratio"]);
    let row = |(number, run): (usize, &RunRecord)| {
        let ratio = match number {
            0 => String::new(),
            _ => ratio_to_baseline(figure_column(RATIO_FIGURE_KEY), run, &runs[0]),
        };
        let cells = columns.iter().map(|column| column.cell_text(run));
        std::iter::once(row_label(run, &names)).chain(cells).chain([ratio]).collect()
    };
    let titles = titles.map(str::to_owned).collect();
    std::iter::once(titles).chain(runs.iter().enumerate().map(row)).collect()
}

/// Returns the label of a run in its table: its design and the settings that distinguish it, with short keys.
fn row_label(run: &RunRecord, names: &ShortKeyNames<'_>) -> String {
    let short = |setting: &str| {
        setting.split_once('=').map(|(key, value)| format!("{}={value}", names.short_name(key)))
    };
    let partial = run.partial.then(|| "PARTIAL".to_owned());
    let settings = run.variant.split(' ').filter_map(short).chain(partial);
    std::iter::once(run.design.clone()).chain(settings).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text of a sweep file that varies several settings, for tests.
    const SWEEP_TEXT: &str = "
# What is the same in all runs.
[device]
preset = 'lab-8g'

[sweep]     # What is not.
workloads = ['uniform:pages=2000,requests=4000']
designs = ['page-map', 'page-map:gc.policy=fifo']

[sweep.vary]
device.over_provisioning = [
    0.07,
    0.15,
]
replay.seed = [1, 2]

[gc]
low_blocks = 5
";

    /// Bug: the empty list became an empty text, which names no mechanism.
    #[test]
    fn a_varied_list_of_mechanisms_may_be_empty() {
        let text = "[sweep]\ntraces = ['t']\n[sweep.vary]\nparts.content = [[], ['dedup', 'recycle']]\n";
        let sweep = SweepFile::from_text("sweep.toml", text).unwrap();
        let contents = sweep.setting_combinations.iter().map(|settings| {
            let content = sweep.config_with_settings(settings).unwrap().parts.content;
            content.unwrap().setting_value()
        });
        assert_eq!(contents.collect::<Vec<_>>(), ["none", "recycle+dedup"]);
    }

    #[test]
    fn a_sweep_file_gives_every_combination_of_its_varied_settings() {
        let sweep = SweepFile::from_text("sweep.toml", SWEEP_TEXT).unwrap();
        assert_eq!(sweep.designs, ["page-map", "page-map:gc.policy=fifo"]);
        let points: Vec<String> = sweep.setting_combinations.iter().map(|point| point.join(" ")).collect();
        assert_eq!(
            points,
            [
                "device.over_provisioning=0.07 replay.seed=1",
                "device.over_provisioning=0.07 replay.seed=2",
                "device.over_provisioning=0.15 replay.seed=1",
                "device.over_provisioning=0.15 replay.seed=2",
            ]
        );
        let config = sweep.config_with_settings(&sweep.setting_combinations[1]).unwrap();
        assert_eq!((config.device.over_provisioning, config.seed()), (Some(0.07), 2));
        assert_eq!((config.device.preset.as_deref(), config.gc.low_blocks), (Some("lab-8g"), Some(5)));
    }

    /// Two varied keys that end in the same part (such as `cache_entries`) are written out in full in the labels of a
    /// sweep table.
    #[test]
    fn keys_with_the_same_last_part_are_written_out_in_the_labels_of_a_sweep_table() {
        let names =
            ShortKeyNames(BTreeSet::from(["gc.policy", "dftl.cache_entries", "mapping.cache_entries"]));
        let short = ["gc.policy", "dftl.cache_entries"].map(|key| names.short_name(key));
        assert_eq!(short, ["policy", "dftl.cache_entries"]);
    }

    #[test]
    fn equal_sweep_errors_share_a_printed_line_but_have_a_csv_row_each() {
        let failed = |seed: u32, error: &str| FailedRun {
            trace: "a, b".into(),
            design: "page-map".into(),
            variant: format!("replay.seed={seed}"),
            error: error.into(),
        };
        let failures = vec![failed(1, "too small"), failed(2, "too large"), failed(3, "too small")];
        let swept = SweepResults { comparison: Comparison::of_runs(Vec::new()), failures };
        assert_eq!(
            swept.failure_lines(),
            "FAILED: page-map replay.seed=1 on a, b and another run: too small\n\
             FAILED: page-map replay.seed=2 on a, b: too large\n"
        );
        let csv = swept.data_table().to_csv();
        let fields = csv.lines().next().unwrap().split(',').count();
        assert!(csv.lines().nth(1).unwrap().starts_with("\"a, b\",page-map,replay.seed=1,,"));
        // The name of the input contains a comma too.
        assert!(csv.lines().skip(1).all(|line| line.split(',').count() == fields + 1), "{csv}");
    }

    #[test]
    fn errors_in_a_sweep_file_name_the_line_or_key() {
        let error = |file: &str| SweepFile::from_text("sweep.toml", file).unwrap_err().to_string();
        assert!(error("[gc]\npolicy = 'fifo'\n").contains("names no input"));
        let workload = "[sweep]\nworkloads = ['uniform:pages=9']\n";
        assert!(error(&format!("{workload}[gc]\n\npolice = 'fifo'\n")).starts_with("sweep.toml:5"));
        assert!(error(&format!("{workload}designs = []\n")).contains("empty list"));
        assert!(error(&format!("{workload}vary.gc.policy = 'fifo'\n")).contains("a list of values"));
        assert!(error(&format!("{workload}vary.gc.policy = []\n")).contains("an empty list: name"));
        let unknown = error(&format!("{workload}vary.gc.policy = ['fifo']\nvary.gc.police = ['fifo']\n"));
        assert!(unknown.contains(":4: setting `gc.police=\"fifo\"`"), "{unknown}");
        assert!(unknown.contains("did you mean `policy`?"), "{unknown}");
        let wrong = error(&format!("{workload}[sweep.vary]\n'gc.d' = [2, 3, 'many']\n"));
        assert!(wrong.contains(":4: setting `gc.d=\"many\"`"), "{wrong}");
        let twice = format!("{workload}vary.gc.policy = ['fifo']\nvary.'gc.policy' = ['greedy']\n");
        assert!(error(&twice).contains("sweep.vary.gc.policy is given twice"), "{}", error(&twice));
        let twice = error(&format!("{workload}designs = ['dftl', 'lazyftl', 'dftl']\n"));
        assert!(twice.contains("sweep.designs lists dftl twice"), "{twice}");
        let twice = error(&format!("{workload}vary.replay.seed = [1, 2, 1]\n"));
        assert!(twice.contains("sweep.vary.replay.seed lists 1 twice"), "{twice}");
        let misspelt = error("[gc]\npolicy = 'fifo'\n[sweep]\ntrace = ['x']\n");
        assert!(misspelt.starts_with("sweep.toml:4: ") && misspelt.contains("traces"), "{misspelt}");
        assert!(error(&format!("{workload}designs = ['page-mop:gc.policy=fifo']\n")).contains("`page-map`?"));
        let unknown = error("[sweep]\nworkloads = ['uniform:pages=9', 'unifrom:pages=9']\n");
        assert!(
            unknown.starts_with(
                "sweep.toml: entry 2 of sweep.workloads, `unifrom:pages=9`, is refused, so correct it: there is no workload"
            ),
            "{unknown}"
        );
    }

    /// In a sweep file, a list of content mechanisms is one value of a setting, not several values to vary.
    #[test]
    fn a_list_of_mechanisms_in_a_sweep_file_is_one_value() {
        let file =
            "[sweep]\nworkloads = ['uniform:pages=9']\nvary.parts.content = ['none', ['dedup', 'recycle']]\n";
        let sweep = SweepFile::from_text("sweep.toml", file).unwrap();
        assert_eq!(
            sweep.setting_combinations,
            [["parts.content=\"none\""], ["parts.content=\"dedup,recycle\""]]
        );
    }
}
