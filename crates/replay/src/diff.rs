//! Compares two results that were written as JSON: what was run, and what the figures are.
//!
//! A difference between figures is of no use without its cause, and the cause is in the records: input, drive,
//! configuration, version and seed of each run. The records are compared as they are in the files, field by field, and
//! not as types of this version. So results of another version can be compared too, and no new field is forgotten here.
//! The price: fields have their names of the JSON form (`docs/schema`), with dots between.
//!
//! Where the values of settings come from is not compared, but stands beside those that differ.
//!
//! Invariant: effects of the machine on a run (seconds, memory) are not compared, nor is whether a timeline was
//! recorded.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value};
use wearwell_config::Origin;

use crate::html_report::embedded_record;
use crate::json::ToJson;
use crate::report::aligned_text;

/// Names of the fields that describe what was run, such as the design and its settings, at any depth of the record; all
/// other fields are results.
const RUN_DESCRIPTION_FIELDS: [&str; 12] = [
    "config",
    "design",
    "device",
    "endurance",
    "input",
    "is_filled",
    "leveling",
    "mechanisms",
    "seed",
    "settings",
    "trace",
    "version",
];
/// Fields of a run's record that are not compared: they differ between two identical runs, are recorded only for a
/// report, or repeat settings that are compared (the name of a variant).
const IGNORED_FIELDS: [&str; 6] =
    ["cpu_seconds", "precondition_cpu_seconds", "peak_rss_bytes", "timeline", "timeline_cells", "variant"];
/// Beginnings of the names of the fields that a run's table does not show if the run was overloaded.
const RATE_DEPENDENT_FIELDS: [&str; 3] = ["latency_us.", "lifetime.years", "lifetime.scaled_years"];
/// Largest number of records in a list whose records are compared one by one. A longer list holds samples over time,
/// and is compared as a whole.
const MAX_RECORDS_COMPARED_SINGLY: usize = 64;
/// Names of the lists of records in the files that `replay` and `compare`, `life`, `ablate` and `profile` write.
const RECORD_LIST_NAMES: [&str; 4] = ["runs", "drives", "ablations", "profiles"];

/// Why two result files cannot be compared.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DiffError {
    /// The text of a file is not JSON.
    #[error(
        "{file}: the file is not JSON ({message}): give a file that --json or --report of replay, compare, sweep, \
         life, ablate or profile wrote"
    )]
    NotJson {
        /// Name of the result file.
        file: String,
        /// Message of the JSON parser, with line and column of the mistake.
        message: String,
    },
    /// The file is JSON, but contains no list of records.
    #[error(
        "{file}: the file has no list of results (runs, drives, ablations or profiles): give a file that --json or \
         --report of replay, compare, sweep, life, ablate or profile wrote"
    )]
    NoRecords {
        /// Name of the result file.
        file: String,
    },
    /// The files contain results of different kinds, such as runs and lives.
    #[error(
        "the first file contains {first_list_name} and the second {second_list_name}, which have no figures in common: \
         give two results of the same command"
    )]
    DifferentRecordKinds {
        /// Name of the list of records in the first file.
        first_list_name: &'static str,
        /// Name of the list of records in the second file.
        second_list_name: &'static str,
    },
}

/// The records of one result file.
#[derive(Clone, PartialEq, Debug)]
pub struct ResultFile {
    /// Name of the list of records in the file, such as `runs` or `drives`.
    list_name: &'static str,
    /// Records of the results in the file, such as runs, as JSON objects.
    records: Vec<Map<String, Value>>,
}

impl ResultFile {
    /// Parses the text of a result file: JSON, or an [HTML page](crate::html_report) that contains it. `file` is its
    /// name in errors.
    ///
    /// # Errors
    /// [`DiffError`] if the text is not a result of this program.
    pub fn parse(file: &str, text: &str) -> Result<Self, DiffError> {
        let mut value: Map<String, Value> = serde_json::from_str(embedded_record(text).unwrap_or(text))
            .map_err(|error| DiffError::NotJson { file: file.to_owned(), message: error.to_string() })?;
        let found = RECORD_LIST_NAMES.into_iter().find_map(|list| match value.remove(list)? {
            Value::Array(records) => {
                Some((list, records.into_iter().map(into_json_object).collect::<Option<Vec<_>>>()?))
            }
            _ => None,
        });
        let (list, records) = found.ok_or_else(|| DiffError::NoRecords { file: file.to_owned() })?;
        Ok(Self { list_name: list, records })
    }
}

/// Returns the fields of a JSON object; `None` if `value` is no object.
fn into_json_object(value: Value) -> Option<Map<String, Value>> {
    if let Value::Object(object) = value { Some(object) } else { None }
}

/// A field that differs between two records; a value is `None` if its record does not have the field.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Difference {
    /// Name of the field, with dots for fields inside others: `lifetime.years`.
    pub field: String,
    /// Value of the field in the first file (a).
    pub a: Option<Value>,
    /// Value of the field in the second file (b).
    pub b: Option<Value>,
    /// For a setting: where the value in the first and in the second file comes from (`default`, `set`, `file
    /// drive.toml:3`, ..). Absent for other fields, and if a file does not record it.
    pub origins: [Option<String>; 2],
    /// Whether tables hide the value of the first and of the second file: a latency or a lifetime in years of an
    /// overloaded run. Latencies of such a run grow with its length, and the drive cannot sustain the rate of the
    /// requests.
    pub is_hidden: [bool; 2],
}

/// Two runs, one of each result file, with the fields in which their records differ.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RunPair {
    /// Design and input of the compared runs; those of both runs if they differ.
    pub title: String,
    /// Fields that differ and describe what was run, such as settings.
    pub causes: Vec<Difference>,
    /// Differences in results: fields with results whose values differ.
    pub results: Vec<Difference>,
}

/// All differences between two result files.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Diff {
    /// Runs of the two files that were compared with each other.
    pub pairs: Vec<RunPair>,
    /// Titles of runs that only the first file (a) contains.
    pub only_a: Vec<String>,
    /// Titles of runs that only the second file (b) contains.
    pub only_b: Vec<String>,
}

impl ToJson for Diff {
    fn to_json(&self) -> String {
        serde_json::to_string(self).expect("results are plain data")
    }
}

impl Diff {
    /// Compares two files. A run is paired with the first unpaired run of equal title in the other file; the remaining
    /// runs by design and input, and then in order. All fields are compared. Two numbers count as equal if they differ
    /// by at most `within` times the larger of both (0: only identical numbers).
    ///
    /// # Errors
    /// [`DiffError::DifferentRecordKinds`] if the files contain results of different kinds.
    pub fn of_files(a: ResultFile, b: ResultFile, within: f64) -> Result<Self, DiffError> {
        if a.list_name != b.list_name {
            return Err(DiffError::DifferentRecordKinds {
                first_list_name: a.list_name,
                second_list_name: b.list_name,
            });
        }
        let mut of_b: Vec<_> = b.records.into_iter().map(Some).collect();
        let mut of_a: Vec<_> = a.records.into_iter().map(|record| (None, record)).collect();
        for name in [record_title, design_and_input] {
            for (partner, record) in of_a.iter_mut().filter(|(partner, _)| partner.is_none()) {
                *partner = of_b
                    .iter_mut()
                    .find(|other| other.as_ref().is_some_and(|other| name(other) == name(record)))
                    .and_then(Option::take);
            }
        }
        let mut rest = of_b.into_iter().flatten();
        let mut diff = Self { pairs: Vec::new(), only_a: Vec::new(), only_b: Vec::new() };
        for (partner, record) in of_a {
            match partner.or_else(|| rest.next()) {
                Some(partner) => diff.pairs.push(RunPair::of_records(&record, &partner, within)),
                None => diff.only_a.push(record_title(&record)),
            }
        }
        diff.only_b.extend(rest.map(|record| record_title(&record)));
        Ok(diff)
    }

    /// Whether the two result files do not differ.
    pub fn is_empty(&self) -> bool {
        let is_equal = |pair: &RunPair| pair.causes.is_empty() && pair.results.is_empty();
        self.only_a.is_empty() && self.only_b.is_empty() && self.pairs.iter().all(is_equal)
    }

    /// Returns a table of the differences for each pair of runs, with the ratio of the second file's number to the
    /// first's.
    pub fn to_table(&self) -> String {
        let only = |which: &'static str| move |title: &String| format!("only in the {which}: {title}\n");
        let only_a = self.only_a.iter().map(only("first"));
        let only_b = self.only_b.iter().map(only("second"));
        let parts: Vec<String> =
            self.pairs.iter().map(RunPair::to_table).chain(only_a).chain(only_b).collect();
        parts.concat()
    }
}

impl RunPair {
    /// Compares the records of two runs. Two numbers of results count as equal if their difference is at most `within`
    /// times the larger one; what was run is compared exactly.
    fn of_records(a: &Map<String, Value>, b: &Map<String, Value>, within: f64) -> Self {
        let (of_a, of_b) = (record_title(a), record_title(b));
        let title = if of_a == of_b { of_a } else { format!("{of_a} | {of_b}") };
        let (a, b) = (flat_fields(a), flat_fields(b));
        let fields = a.keys().chain(b.keys()).filter(|field| !is_origin_field(field));
        let fields: BTreeSet<&String> = fields.collect();
        let differences = fields.into_iter().filter_map(|field| {
            let (of_a, of_b) = (a.get(field), b.get(field));
            let within = if is_run_description_field(field) { 0.0 } else { within };
            let differs = !are_equal_within(of_a, of_b, within);
            differs.then(|| Difference {
                field: field.clone(),
                a: of_a.cloned(),
                b: of_b.cloned(),
                origins: [&a, &b].map(|fields| setting_origin(field, fields)),
                is_hidden: [&a, &b].map(|fields| is_figure_of_overloaded_run(field, fields)),
            })
        });
        let (causes, results) =
            differences.partition(|difference| is_run_description_field(&difference.field));
        Self { title, causes, results }
    }

    /// Returns the table of the fields in which the two runs differ. Below it are the texts, such as notes, that only
    /// one of the runs has.
    fn to_table(&self) -> String {
        if self.causes.is_empty() && self.results.is_empty() {
            return format!("{}: no difference\n\n", self.title);
        }
        let mut rows = vec![["", "first", "second", "ratio"].map(str::to_owned).to_vec()];
        for (head, differences) in [("what was run", &self.causes), ("what came out", &self.results)] {
            if differences.is_empty() {
                rows.push(vec![format!("{head}: the same")]);
                continue;
            }
            rows.push(vec![format!("{head}:")]);
            rows.extend(differences.iter().filter_map(Difference::table_row));
        }
        let lines = self.lines_below_table().iter().fold(String::new(), |text, line| text + line + "\n");
        let gap = if lines.is_empty() { "" } else { "\n" };
        format!("{}\n{}{lines}{gap}", self.title, aligned_text(&rows))
    }

    /// Returns the lines below the table: each text of a list (such as a note) that only one run has, and a line on
    /// figures that the table leaves out.
    pub(crate) fn lines_below_table(&self) -> Vec<String> {
        let differences = || self.causes.iter().chain(&self.results);
        let mut lines: Vec<String> = differences().flat_map(Difference::lines_of_texts).collect();
        let hidden = differences().filter(|difference| difference.is_hidden == [true; 2]).count();
        if hidden > 0 {
            lines.push(format!(
                "not shown: {hidden} latencies and lifetimes in years that differ, because both runs were overloaded"
            ));
        }
        lines
    }
}

impl Difference {
    /// Returns the table row of a field that differs: its name, both values, and their ratio; of two lists the number
    /// of entries that differ. `None` if both values are lists of long texts, which [`Self::lines_of_texts`] returns,
    /// or are hidden.
    pub(crate) fn table_row(&self) -> Option<Vec<String>> {
        if self.is_hidden == [true; 2] || self.lists_of_long_texts().is_some() {
            return None;
        }
        let text = |value: &Option<Value>, origin: &Option<String>, is_hidden: bool| {
            let value = value.as_ref().filter(|_| !is_hidden);
            let origin = origin.as_ref().map(|origin| format!(" ({origin})"));
            cell_text_of_value(value) + &origin.unwrap_or_default()
        };
        let [of_a, of_b] = &self.origins;
        let a = text(&self.a, of_a, self.is_hidden[0]);
        let b = text(&self.b, of_b, self.is_hidden[1]);
        Some(vec![format!("  {}", self.field), a, b + &self.differing_entries_text(), self.ratio_text()])
    }

    /// Returns how many entries of two long lists, such as samples over time, differ; empty if a value is no such list.
    fn differing_entries_text(&self) -> String {
        let (Some(Value::Array(a)), Some(Value::Array(b))) = (&self.a, &self.b) else { return String::new() };
        if short_list_text(a).is_some() && short_list_text(b).is_some() {
            return String::new();
        }
        let of_both = a.iter().zip(b).filter(|(a, b)| a != b).count();
        format!(", {} differ", of_both + a.len().abs_diff(b.len()))
    }

    /// Returns a line for each text that only one of the two values has, if both are lists of long texts, such as
    /// notes.
    fn lines_of_texts(&self) -> Vec<String> {
        let Some([a, b]) = self.lists_of_long_texts() else { return Vec::new() };
        let only = |which: &str, texts: &[&str], other: &[&str]| -> Vec<String> {
            let missing = texts.iter().filter(|text| !other.contains(text));
            missing.map(|text| format!("{}, only in the {which}: {text}", self.field)).collect()
        };
        let lines = [only("first", &a, &b), only("second", &b, &a)].concat();
        if lines.is_empty() {
            vec![format!("{}: the same texts in another order", self.field)]
        } else {
            lines
        }
    }

    /// Returns the texts of both values if both are lists of texts that are too long for a cell; a missing list counts
    /// as empty. `None` if a value is anything else.
    fn lists_of_long_texts(&self) -> Option<[Vec<&str>; 2]> {
        let is_long = |value: &Option<Value>| {
            value.as_ref().and_then(Value::as_array).is_some_and(|entries| short_list_text(entries).is_none())
        };
        let lists = [texts_of_list(self.a.as_ref())?, texts_of_list(self.b.as_ref())?];
        (is_long(&self.a) || is_long(&self.b)).then_some(lists)
    }

    /// Returns the ratio of the field's value in the second file to that in the first; empty if a value is not a number
    /// or is hidden, or if the first is 0.
    fn ratio_text(&self) -> String {
        let number = |value: &Option<Value>| value.as_ref().and_then(Value::as_f64);
        match (number(&self.a), number(&self.b)) {
            (Some(a), Some(b)) if a != 0.0 && self.is_hidden == [false; 2] => format!("{:.4}", b / a),
            _ => String::new(),
        }
    }
}

/// Returns the texts of a list, none if the list is missing; `None` if the value is anything else.
fn texts_of_list(value: Option<&Value>) -> Option<Vec<&str>> {
    match value {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(entries)) => entries.iter().map(Value::as_str).collect(),
        Some(_) => None,
    }
}

/// Whether a field of a run's record is one that tables do not show if the run was overloaded, and the run was: a
/// latency or a lifetime in years. `fields` are all fields of the record.
fn is_figure_of_overloaded_run(field: &str, fields: &BTreeMap<String, Value>) -> bool {
    RATE_DEPENDENT_FIELDS.iter().any(|name| {
        // Records in lists, such as the runs of an ablation, have the names of their fields after a prefix.
        let Some(prefix) = field.find(name).map(|at| &field[..at]) else { return false };
        let is_whole_name = prefix.is_empty() || prefix.ends_with('.');
        let overloaded = fields.get(&format!("{prefix}service.is_overloaded"));
        is_whole_name && field.rsplit('.').next() != Some("count") && overloaded == Some(&Value::Bool(true))
    })
}

/// Largest number of characters of a value that a table cell shows in full.
const MAX_CELL_CHARS: usize = 24;

/// Returns the text of a table cell for the JSON value of a field: short texts unchanged, numbers with six significant
/// digits, and for a list its texts if they are short, otherwise its length.
fn cell_text_of_value(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::Array(entries)) => short_list_text(entries).unwrap_or_else(|| match entries.len() {
            1 => "1 entry".to_owned(),
            count => format!("{count} entries"),
        }),
        Some(Value::String(text)) if text.chars().count() > MAX_CELL_CHARS => {
            text.chars().take(MAX_CELL_CHARS - 3).chain("...".chars()).collect()
        }
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number
            .as_u64()
            .map_or_else(|| six_digit_text(number.as_f64().unwrap_or(f64::NAN)), |whole| whole.to_string()),
        Some(other) => other.to_string(),
    }
}

/// Returns the texts of a list with commas between them, such as names of mechanisms; `None` if they are too long for a
/// cell, or not all entries are texts.
fn short_list_text(entries: &[Value]) -> Option<String> {
    let texts: Vec<&str> = entries.iter().map(Value::as_str).collect::<Option<_>>()?;
    let text = texts.join(", ");
    (text.chars().count() <= MAX_CELL_CHARS).then_some(text)
}

/// Returns a number with six significant digits, without trailing zeros.
fn six_digit_text(number: f64) -> String {
    format!("{number:.5e}").parse::<f64>().expect("a number was printed").to_string()
}

/// Whether two JSON values are equal, or are numbers that differ by at most `within` times the larger of both.
fn are_equal_within(a: Option<&Value>, b: Option<&Value>, within: f64) -> bool {
    let number = |value: Option<&Value>| value.and_then(Value::as_f64);
    match (number(a), number(b)) {
        (Some(a), Some(b)) => (a - b).abs() <= within * a.abs().max(b.abs()),
        _ => a.unwrap_or(&Value::Null) == b.unwrap_or(&Value::Null),
    }
}

/// Whether a field of a run's record describes what was run (such as the design); other fields are results.
fn is_run_description_field(field: &str) -> bool {
    field.split('.').any(|name| RUN_DESCRIPTION_FIELDS.contains(&name))
}

/// Prefix of those fields of a record that hold where the values of the settings in `config` come from.
const ORIGINS_PREFIX: &str = "origins.";

/// Whether a field holds the origin of a setting's value (default, file, preset and so on).
fn is_origin_field(field: &str) -> bool {
    field.starts_with(ORIGINS_PREFIX) || field.contains(&format!(".{ORIGINS_PREFIX}"))
}

/// Returns where the value of the setting `field` comes from (default, file, preset and so on), found in the fields of
/// its record; `None` for a field that is no setting, and if the record does not contain the origin.
fn setting_origin(field: &str, fields: &BTreeMap<String, Value>) -> Option<String> {
    let at = if field.starts_with("config.") { 0 } else { field.find(".config.")? + 1 };
    let (before, key) = (&field[..at], &field[at + "config.".len()..]);
    let text = |name: &str| fields.get(&format!("{before}{ORIGINS_PREFIX}{key}.{name}"))?.as_str();
    if let Some(source) = text("source").and_then(|source| serde_json::from_value(source.into()).ok()) {
        return Some(Origin { source, place: text("place").map(str::to_owned) }.to_string());
    }
    let says = fields.keys().any(|field| field.starts_with(&format!("{before}{ORIGINS_PREFIX}")));
    (says && fields.contains_key(field)).then(|| "default".to_owned())
}

/// Returns all fields of a record, by name. Fields of inner records have names with dots, and fields of records in
/// short lists also contain the record's number in the list.
fn flat_fields(record: &Map<String, Value>) -> BTreeMap<String, Value> {
    let mut fields = BTreeMap::new();
    add_flat_fields("", record, &mut fields);
    fields
}

/// Adds the fields of a record, and of the records inside it, to `fields`, under dotted names that begin with `prefix`.
fn add_flat_fields(prefix: &str, record: &Map<String, Value>, fields: &mut BTreeMap<String, Value>) {
    for (name, value) in record.iter().filter(|(name, _)| !IGNORED_FIELDS.contains(&name.as_str())) {
        let field = format!("{prefix}{name}");
        match value {
            Value::Object(inner) => add_flat_fields(&format!("{field}."), inner, fields),
            Value::Array(entries)
                if entries.len() <= MAX_RECORDS_COMPARED_SINGLY && entries.iter().all(Value::is_object) =>
            {
                let records = entries.iter().filter_map(Value::as_object).enumerate();
                records.for_each(|(k, inner)| add_flat_fields(&format!("{field}.{k}."), inner, fields));
            }
            value => {
                fields.insert(field, value.clone());
            }
        }
    }
}

/// Returns the title of a record of a run: its design, variant and input.
fn record_title(record: &Map<String, Value>) -> String {
    title_of_fields(record, &["design", "variant"])
}

/// Returns design and input of a record of a run as a text.
fn design_and_input(record: &Map<String, Value>) -> String {
    title_of_fields(record, &["design"])
}

/// Returns the texts of these fields of a record, and the name of its input; `record` if it has none of them.
fn title_of_fields(record: &Map<String, Value>, fields: &[&str]) -> String {
    let text = |field: &str| record.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let trace = record.get("trace").and_then(|trace| trace.get("path")).and_then(Value::as_str);
    let of_input = [trace.or_else(|| text("path")), text("input")];
    let parts: Vec<&str> = fields.iter().map(|field| text(field)).chain(of_input).flatten().collect();
    if parts.is_empty() { "record".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses the JSON text of a result file.
    fn parse_result_file(text: &str) -> ResultFile {
        ResultFile::parse("x.json", text).expect("a result")
    }

    /// Compares the JSON texts of two result files.
    fn diff_of_texts(a: &str, b: &str, within: f64) -> Diff {
        Diff::of_files(parse_result_file(a), parse_result_file(b), within).expect("of one kind")
    }

    /// JSON text of a result file with one run, whose description, result and CPU time tests change.
    const RUN_JSON: &str = r#"{"runs": [{"design": "dftl", "config": {"gc": {"low": 2}}, "programs": 100, "cpu_seconds": 1.5}]}"#;

    #[test]
    fn diff_ignores_times_and_memory_of_the_machine() {
        assert!(diff_of_texts(RUN_JSON, RUN_JSON, 0.0).is_empty());
        let slower = RUN_JSON.replace("1.5", "9.5");
        let same = diff_of_texts(RUN_JSON, &slower, 0.0);
        assert!(same.is_empty());
        assert_eq!(same.to_table(), "dftl: no difference\n\n");
    }

    #[test]
    fn diff_of_drive_lives_compares_each_life_and_ignores_cpu_times() {
        let drive =
            r#"{"drives": [{"design": "dftl", "lives": [{"seed": 1, "end": "full", "cpu_seconds": 1.5}]}]}"#;
        assert!(diff_of_texts(drive, &drive.replace("1.5", "9.5"), 0.0).is_empty());
        let found =
            diff_of_texts(drive, &drive.replace("full", "worn").replace("\"seed\": 1", "\"seed\": 2"), 0.0);
        let names =
            |differences: &[Difference]| differences.iter().map(|one| one.field.clone()).collect::<Vec<_>>();
        assert_eq!(names(&found.pairs[0].causes), ["lives.0.seed"]);
        assert_eq!(names(&found.pairs[0].results), ["lives.0.end"]);
    }

    /// Bug: drives that differed by less than the tolerance counted as the same drive.
    #[test]
    fn diff_tolerates_differences_of_results_only() {
        let other = RUN_JSON.replace("\"low\": 2", "\"low\": 2.01").replace("100", "100.5");
        let found = diff_of_texts(RUN_JSON, &other, 0.01);
        assert_eq!((found.pairs[0].causes.len(), found.pairs[0].results.len()), (1, 0));
    }

    #[test]
    fn diff_lists_settings_apart_from_results() {
        let other = RUN_JSON.replace("\"low\": 2", "\"low\": 4").replace("100", "150");
        let found = diff_of_texts(RUN_JSON, &other, 0.0);
        let [pair] = &found.pairs[..] else { panic!("one pair") };
        assert_eq!(pair.causes[0].field, "config.gc.low");
        assert_eq!(
            (pair.results[0].field.as_str(), pair.results[0].ratio_text().as_str()),
            ("programs", "1.5000")
        );
        assert_eq!((pair.causes.len(), pair.results.len()), (1, 1));
    }

    #[test]
    fn diff_ignores_differences_within_the_given_tolerance() {
        let other = RUN_JSON.replace("100", "101");
        assert!(!diff_of_texts(RUN_JSON, &other, 0.0).is_empty());
        assert!(diff_of_texts(RUN_JSON, &other, 0.01).is_empty());
    }

    #[test]
    fn diff_pairs_runs_by_design_and_the_rest_in_order() {
        let of = |designs: &[&str]| {
            let runs: Vec<String> =
                designs.iter().map(|design| format!(r#"{{"design": "{design}"}}"#)).collect();
            format!(r#"{{"runs": [{}]}}"#, runs.join(","))
        };
        let found = diff_of_texts(&of(&["a", "b", "c"]), &of(&["b", "x", "a"]), 0.0);
        let titles: Vec<&str> = found.pairs.iter().map(|pair| pair.title.as_str()).collect();
        assert_eq!(titles, ["a", "b", "c | x"]);
        let found = diff_of_texts(&of(&["a"]), &of(&["a", "b"]), 0.0);
        assert_eq!((found.only_a.len(), found.only_b), (0, vec!["b".to_owned()]));
    }

    /// Bug: a run with the name of a variant was paired with a run of another design.
    #[test]
    fn diff_pairs_runs_of_one_design_although_their_variants_have_other_names() {
        let named = r#"{"runs": [{"design": "a", "variant": "v"}, {"design": "b", "variant": "v"}]}"#;
        let found = diff_of_texts(r#"{"runs": [{"design": "b"}]}"#, named, 0.0);
        let [pair] = &found.pairs[..] else { panic!("one pair") };
        assert_eq!((pair.title.as_str(), &found.only_b[..]), ("b | b, v", &["a, v".to_owned()][..]));
        assert!(pair.causes.is_empty() && pair.results.is_empty(), "the name of a variant is no figure");
    }

    /// A field that one of two compared runs does not have is listed as a difference without a value.
    #[test]
    fn diff_treats_a_missing_field_as_null() {
        let null = RUN_JSON.replace("\"programs\": 100", "\"programs\": null");
        let without = RUN_JSON.replace("\"programs\": 100, ", "");
        assert!(diff_of_texts(&null, &without, 0.0).is_empty());
        assert_eq!(diff_of_texts(RUN_JSON, &without, 0.0).pairs[0].results[0].b, None);
    }

    #[test]
    fn diff_error_names_the_file_that_is_no_result() {
        let refused = |text| ResultFile::parse("y.json", text).expect_err("no result").to_string();
        assert!(refused("{").starts_with("y.json: the file is not JSON"));
        assert!(refused("{}").starts_with("y.json: the file has no list of results"));
        assert!(refused(r#"{"runs": 3}"#).starts_with("y.json: the file has no list of results"));
        let lives = parse_result_file(r#"{"drives": []}"#);
        assert!(matches!(
            Diff::of_files(parse_result_file(RUN_JSON), lives, 0.0),
            Err(DiffError::DifferentRecordKinds { .. })
        ));
    }

    /// Bug: two lists of notes that differed were printed as their lengths.
    #[test]
    fn notes_that_only_one_run_has_are_printed_as_texts() {
        let run = |notes: &[&str]| {
            serde_json::json!({ "runs": [{ "design": "dftl", "notes": notes }] }).to_string()
        };
        let table = |a: &[&str], b: &[&str]| diff_of_texts(&run(a), &run(b), 0.0).to_table();
        let (both, first, second) =
            ("a long note on both runs", "a note on run a alone", "a note on run b alone");
        let shown = table(&[both, first], &[second, both]);
        let lines = format!("notes, only in the first: {first}\nnotes, only in the second: {second}\n");
        assert!(shown.contains(&lines), "{shown}");
        assert!(!shown.contains(both) && !shown.contains("entries"), "{shown}");
        let turned = table(&[both, first], &[first, both]);
        assert!(turned.contains("notes: the same texts in another order"), "{turned}");
        let short = table(&[], &["dedup", "delta"]);
        assert!(
            short.lines().any(|line| line.split_whitespace().eq(["notes", "-", "dedup,", "delta"])),
            "{short}"
        );
    }

    #[test]
    fn of_two_series_that_differ_the_number_of_differing_samples_is_printed() {
        let run = |series: &[u32]| serde_json::json!({ "runs": [{ "series": series }] }).to_string();
        let shown = diff_of_texts(&run(&[1, 2, 3]), &run(&[1, 4, 3, 9]), 0.0).to_table();
        assert!(shown.contains("3 entries  4 entries, 2 differ"), "{shown}");
    }

    /// Bug: `diff` printed ratios of latencies that `compare` does not show, because the drive was overloaded.
    #[test]
    fn latencies_and_years_of_an_overloaded_run_are_not_shown() {
        let run = |overloaded: bool, p99: u32| {
            let fields = format!(
                r#""service": {{"is_overloaded": {overloaded}}}, "lifetime": {{"years": {p99}}},
                   "latency_us": {{"read": {{"count": {p99}, "p99": {p99}}}}}"#
            );
            format!(r#"{{"runs": [{{"design": "dftl", {fields}}}]}}"#)
        };
        let rows = |a: String, b: String| {
            let found = diff_of_texts(&a, &b, 0.0);
            let rows = found.pairs[0].results.iter().filter_map(Difference::table_row);
            (rows.map(|row| row[1..].join("|")).collect::<Vec<_>>(), found.to_table())
        };
        assert_eq!(rows(run(false, 2), run(false, 4)).0, ["2|4|2.0000"; 3]);
        let (one_overloaded, _) = rows(run(false, 2), run(true, 4));
        assert_eq!(one_overloaded, ["2|4|2.0000", "2|-|", "2|-|", "false|true|"]);
        let (both_overloaded, table) = rows(run(true, 2), run(true, 4));
        assert_eq!(both_overloaded, ["2|4|2.0000"]);
        assert!(table.contains("not shown: 2 latencies and lifetimes in years"), "{table}");
    }

    #[test]
    fn diff_prints_numbers_with_six_digits() {
        let text = |number: f64| cell_text_of_value(Some(&Value::from(number)));
        assert_eq!(
            [text(1.534_039_21), text(0.000_012_345_678), text(1e9)],
            ["1.53404", "0.0000123457", "1000000000"]
        );
        assert_eq!(cell_text_of_value(Some(&Value::from(457_248_u64))), "457248");
    }
}
