//! Tests that `--parquet` writes the table of `--csv`: equal cells, with types, and nulls where the CSV has empty
//! cells.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use wearwell_replay::data_table::{CellKind, DataColumn, DataTable};

/// Runs the program `wearwell` with these arguments to its end.
fn wearwell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wearwell")).args(arguments).output().unwrap()
}

/// Returns the fields of each CSV line. A field in quotes may contain commas, and quotes that are doubled.
fn rows_of_csv(text: &str) -> Vec<Vec<String>> {
    let fields = |line: &str| {
        let (mut fields, mut is_quoted) = (vec![String::new()], false);
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '"' if is_quoted && chars.peek() == Some(&'"') => {
                    chars.next();
                    fields.last_mut().unwrap().push('"');
                }
                '"' => is_quoted = !is_quoted,
                ',' if !is_quoted => fields.push(String::new()),
                _ => fields.last_mut().unwrap().push(c),
            }
        }
        fields
    };
    text.lines().map(fields).collect()
}

/// Returns a value of a Parquet file as the text that it has in CSV.
fn text_of(value: &Field) -> String {
    match value {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Long(value) => value.to_string(),
        Field::Double(value) => value.to_string(),
        Field::Bool(value) => value.to_string(),
        other => panic!("{other:?} is of a type that no column has"),
    }
}

/// The types that a column of results may have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum ColumnKind {
    /// Texts (UTF8).
    Text,
    /// Whole numbers (INT64).
    WholeNumber,
    /// Real numbers (DOUBLE).
    RealNumber,
    /// Truth values (BOOLEAN).
    Flag,
}

/// Contents of a Parquet file: columns, rows and the version in its metadata.
struct ParquetContents {
    /// Title and type of each column.
    columns: Vec<(String, ColumnKind)>,
    /// Values of each row, in the order of the columns.
    rows: Vec<Vec<Field>>,
    /// Version of the program that wrote the file, from the file's metadata.
    version: String,
}

impl ParquetContents {
    /// Parses the bytes of a Parquet file.
    fn parse(bytes: &[u8]) -> Self {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let file = SerializedFileReader::new(file).unwrap();
        let metadata = file.metadata().file_metadata();
        let kind = |column: &parquet::schema::types::Type| {
            let info = column.get_basic_info();
            assert_eq!(info.repetition(), Repetition::OPTIONAL, "{}", column.name());
            match (column.get_physical_type(), info.logical_type_ref()) {
                (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)) => ColumnKind::Text,
                (PhysicalType::INT64, None) => ColumnKind::WholeNumber,
                (PhysicalType::DOUBLE, None) => ColumnKind::RealNumber,
                (PhysicalType::BOOLEAN, None) => ColumnKind::Flag,
                other => panic!("{}: {other:?}", column.name()),
            }
        };
        let columns = metadata.schema().get_fields().iter();
        let columns = columns.map(|column| (column.name().to_owned(), kind(column))).collect();
        let versions = metadata.key_value_metadata().unwrap().iter();
        let version =
            versions.filter(|pair| pair.key == "wearwell.version").find_map(|pair| pair.value.clone());
        let rows = file.get_row_iter(None).unwrap();
        let rows = rows.map(|row| row.unwrap().into_columns().into_iter().map(|(_, value)| value).collect());
        Self { columns, rows: rows.collect(), version: version.unwrap() }
    }

    /// Returns the type of the column with this title.
    fn column_kind(&self, title: &str) -> ColumnKind {
        let column = self.columns.iter().find(|(known, _)| known == title);
        column.unwrap_or_else(|| panic!("no column {title}")).1
    }

    /// Checks that all titles and cells of a Parquet file equal those of a CSV of the same results, and that at least
    /// one cell is null.
    #[track_caller]
    fn assert_equals_csv(&self, csv: &str) {
        let mut rows = rows_of_csv(csv);
        let titles = rows.remove(0);
        assert_eq!(self.columns.iter().map(|(title, _)| title.as_str()).collect::<Vec<_>>(), titles);
        assert_eq!(self.rows.len(), rows.len());
        for (of_parquet, of_csv) in self.rows.iter().zip(&rows) {
            assert_eq!(&of_parquet.iter().map(text_of).collect::<Vec<_>>(), of_csv);
        }
        assert!(self.rows.iter().flatten().any(|value| *value == Field::Null), "{csv}");
        assert_eq!(self.version, env!("CARGO_PKG_VERSION"));
        let kinds: BTreeSet<ColumnKind> = self.columns.iter().map(|(_, kind)| *kind).collect();
        assert_eq!(kinds.len(), 4, "every type is there");
    }

    /// Checks that the columns with these titles have the given types.
    #[track_caller]
    fn assert_column_kinds(&self, expected: &[(&str, ColumnKind)]) {
        for &(title, kind) in expected {
            assert_eq!(self.column_kind(title), kind, "{title}");
        }
    }
}

/// Runs a command, checks that it ends with exit status `code`, and returns its Parquet file and its CSV.
#[track_caller]
fn parquet_and_csv_of(code: i32, arguments: &[&str]) -> (ParquetContents, String) {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["runs.csv", "runs.parquet"].map(|name| folder.path().join(name));
    let [csv, parquet] = paths.each_ref().map(|path| path.to_str().unwrap());
    let output = wearwell(&[arguments, &["-q", "--csv", csv, "--parquet", parquet]].concat());
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.is_empty());
    (ParquetContents::parse(&fs::read(parquet).unwrap()), fs::read_to_string(csv).unwrap())
}

/// Workload of a few seconds, in which some writes repeat a content and some compress.
const LOAD: &str = "zipf:pages=3000,requests=8000,rate=2000+dup:share=0.3,compress=0.5";

#[test]
fn the_parquet_file_of_a_comparison_has_the_cells_of_its_csv() {
    let compared = ["compare", "--workload", LOAD, "--designs", "page-map,dftl:mapping.cache_entries=64"];
    for timing in ["none", "event"] {
        let (parquet, csv) = parquet_and_csv_of(0, &[&compared[..], &["--timing", timing]].concat());
        parquet.assert_equals_csv(&csv);
        assert_eq!(parquet.rows.len(), 2);
        parquet.assert_column_kinds(&[
            ("trace", ColumnKind::Text),
            ("partial", ColumnKind::Flag),
            ("seed", ColumnKind::WholeNumber),
            ("over_provisioning", ColumnKind::RealNumber),
            ("queue_depth", ColumnKind::WholeNumber),
            ("steady", ColumnKind::Flag),
            ("host_bytes", ColumnKind::WholeNumber),
            ("programs_translation", ColumnKind::WholeNumber),
            ("dedup_on_percent", ColumnKind::RealNumber),
            ("erases", ColumnKind::WholeNumber),
            ("write_amplification", ColumnKind::RealNumber),
            ("read_count", ColumnKind::WholeNumber),
            ("read_p99_us", ColumnKind::RealNumber),
            ("is_from_steady_part", ColumnKind::WholeNumber),
            ("years", ColumnKind::RealNumber),
            ("cpu_seconds", ColumnKind::RealNumber),
        ]);
    }
}

#[test]
fn the_parquet_file_of_an_ablation_marks_the_subset_that_was_refused() {
    let parts = ["--parts", "dedup,compress", "--set", "parts.reverse_map=segments"];
    let (parquet, csv) = parquet_and_csv_of(0, &[&["ablate", "--workload", LOAD][..], &parts].concat());
    parquet.assert_equals_csv(&csv);
    parquet.assert_column_kinds(&[
        ("subset", ColumnKind::Text),
        ("refused", ColumnKind::Text),
        ("programs", ColumnKind::WholeNumber),
    ]);
    let refused: Vec<bool> = parquet.rows.iter().map(|row| row[1] != Field::Null).collect();
    assert_eq!(refused, [false, false, false, true]);
    assert!(parquet.rows[3].iter().filter(|value| **value != Field::Null).count() == 5, "{csv}");
}

#[test]
fn the_parquet_file_of_a_sweep_has_its_failures() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sweep.toml");
    let file = format!("[sweep]\ntraces = [\"no, where.csv\"]\nworkloads = [\"{LOAD}\"]\n");
    fs::write(&path, file).unwrap();
    let (parquet, csv) = parquet_and_csv_of(3, &["sweep", path.to_str().unwrap()]);
    parquet.assert_equals_csv(&csv);
    assert_eq!(parquet.columns.last(), Some(&("error".to_owned(), ColumnKind::Text)));
    let errors: Vec<String> = parquet.rows.iter().map(|row| text_of(row.last().unwrap())).collect();
    assert!(errors[0].is_empty() && errors[1].contains("no, where.csv"), "{errors:?}");
}

#[test]
fn the_parquet_files_of_life_have_the_values_of_its_csv_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let life = ["life", "--workload", "uniform:write=1.0,pages=4000,requests=100000,rate=1000"];
    let life = [&life[..], &["--set", "device.endurance_cycles=10", "--leveling", "none,static"]].concat();
    let [csv_curves, parquet_curves] = ["curves.csv", "curves.parquet"].map(file);
    let (parquet, csv) = parquet_and_csv_of(0, &[&life[..], &["--curves", &csv_curves]].concat());
    parquet.assert_equals_csv(&csv);
    assert_eq!(parquet.rows.len(), 2);
    parquet.assert_column_kinds(&[
        ("end", ColumnKind::Text),
        ("is_filled", ColumnKind::Flag),
        ("rated_cycles", ColumnKind::WholeNumber),
        ("time_scale", ColumnKind::RealNumber),
        ("scale_to_bytes", ColumnKind::WholeNumber),
        ("years", ColumnKind::RealNumber),
        ("first_failure_bytes", ColumnKind::WholeNumber),
        ("extrapolated_bytes", ColumnKind::RealNumber),
        ("erases_p50", ColumnKind::WholeNumber),
    ]);
    let done = wearwell(&[&life[..], &["-q", "--curves", &parquet_curves]].concat());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let curves = ParquetContents::parse(&fs::read(parquet_curves).unwrap());
    let rows = rows_of_csv(&fs::read_to_string(csv_curves).unwrap());
    assert_eq!(
        curves.rows.iter().map(|row| row.iter().map(text_of).collect()).collect::<Vec<Vec<_>>>(),
        rows[1..]
    );
    curves.assert_column_kinds(&[
        ("input", ColumnKind::Text),
        ("host_bytes", ColumnKind::WholeNumber),
        ("spare.half_width", ColumnKind::RealNumber),
    ]);
}

#[test]
fn a_parquet_file_on_standard_output_excludes_every_other_output() {
    let replayed = ["replay", "--workload", LOAD, "--parquet", "-"];
    let done = wearwell(&replayed);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(ParquetContents::parse(&done.stdout).rows.len(), 1);
    for other in ["--csv", "--json", "--report"] {
        let refused = wearwell(&[&replayed[..], &[other, "-"]].concat());
        assert_eq!(refused.status.code(), Some(2), "{other}");
        let sentence = String::from_utf8(refused.stderr).unwrap();
        assert!(sentence.contains("--parquet - writes to standard output"), "{sentence}");
    }
}

#[test]
fn the_parquet_path_is_checked_before_the_run_and_overwritten_only_with_force() {
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.parquet");
    fs::write(&old, "old").unwrap();
    let refusal = |path: &Path| {
        let output = wearwell(&["replay", "no.csv", "--parquet", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refusal(&old).contains("the file exists: name another output file, or replace it with --force"));
    assert!(refusal(&folder.path().join("nowhere/runs.parquet")).contains("No such file"));
    assert_eq!(fs::read_to_string(&old).unwrap(), "old");
    let replayed = ["replay", "--workload", LOAD, "-q", "--force", "--parquet", old.to_str().unwrap()];
    assert!(wearwell(&replayed).status.success());
    assert_eq!(ParquetContents::parse(&fs::read(old).unwrap()).rows.len(), 1);
}

#[test]
fn a_number_beyond_int64_is_refused_with_its_column() {
    let mut table = DataTable::new(vec![DataColumn::new("seed", CellKind::Whole)]);
    table.push(vec![(i64::MAX as u64).into()]);
    assert!(wearwell_cli::parquet_bytes(&table).is_ok());
    table.push(vec![u64::MAX.into()]);
    let sentence = wearwell_cli::parquet_bytes(&table).unwrap_err().to_string();
    assert!(sentence.contains("column seed has the value 18446744073709551615"), "{sentence}");
}
