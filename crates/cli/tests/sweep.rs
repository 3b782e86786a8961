//! Tests of `wearwell sweep`: its runs equal those of `compare`, no run is repeated, a failed run is a row of the
//! result, and mistakes in the sweep file are refused.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// A sweep of one workload with two designs, two shares of over-provisioning and two seeds.
const SWEEP_FILE: &str = r#"
[sweep]
workloads = ["zipf:pages=3000,requests=8000"]
designs = ["page-map", "page-map:gc.policy=fifo"]

[sweep.vary]
device.over_provisioning = [0.07, 0.28]
replay.seed = [1, 2]

[precondition]
mode = "fill"
"#;

/// Runs the program `wearwell` with these arguments to its end.
fn wearwell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wearwell")).args(arguments).output().unwrap()
}

/// Writes a sweep file with the text `file` to `folder`, and runs `wearwell sweep` on it with additional arguments.
fn run_sweep_command(folder: &Path, file: &str, more: &[&str]) -> Output {
    let path = folder.join("sweep.toml");
    fs::write(&path, file).unwrap();
    wearwell(&[&["sweep", path.to_str().unwrap()], more].concat())
}

/// Returns what a command printed to standard error.
fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns the JSON result that a sweep printed to standard output.
fn sweep_result_json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

/// Returns the fields that identify a run of a sweep, and its numbers of programs and erases, as text.
fn identifying_fields_and_figures(run: &Value) -> [String; 5] {
    let over_provisioning = &run["device"]["over_provisioning"];
    assert!(over_provisioning.is_f64(), "{over_provisioning}");
    [&run["seed"], over_provisioning, &run["config"]["gc"]["policy"], &run["programs"], &run["erases"]]
        .map(Value::to_string)
}

/// Returns the identifying fields and the main figures of all runs of a sweep, sorted.
fn identifying_fields_and_figures_of_runs(result: &Value) -> Vec<[String; 5]> {
    let mut runs: Vec<_> =
        result["runs"].as_array().unwrap().iter().map(identifying_fields_and_figures).collect();
    runs.sort();
    runs
}

#[test]
fn sweep_runs_equal_compare_runs_with_the_same_settings() {
    let folder = tempfile::tempdir().unwrap();
    let done = run_sweep_command(folder.path(), SWEEP_FILE, &["--jobs", "2", "--json", "-"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let result = sweep_result_json(&done);
    assert_eq!(result["failures"].as_array().unwrap().len(), 0);
    let mut compared = Vec::new();
    for seed in ["1", "2"] {
        let done = wearwell(&[
            "compare",
            "--workload",
            "zipf:pages=3000,requests=8000",
            "--designs",
            "page-map,page-map:gc.policy=fifo",
            "--over-provisioning",
            "0.07,0.28",
            "--precondition",
            "fill",
            "--seed",
            seed,
            "--json",
            "-",
        ]);
        compared.extend(identifying_fields_and_figures_of_runs(&sweep_result_json(&done)));
    }
    compared.sort();
    assert_eq!(compared.len(), 8);
    assert_eq!(identifying_fields_and_figures_of_runs(&result), compared);
}

#[test]
fn a_resumed_sweep_executes_only_unfinished_runs() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept");
    let resume = ["--resume", kept.to_str().unwrap(), "--json", "-"];
    let first = sweep_result_json(&run_sweep_command(folder.path(), SWEEP_FILE, &resume));
    let stamps = || {
        let files = fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap());
        let mut stamps: Vec<_> =
            files.map(|file| (file.file_name(), file.metadata().unwrap().modified().unwrap())).collect();
        stamps.sort();
        stamps
    };
    let before = stamps();
    assert_eq!(before.len(), 8);
    assert_eq!(sweep_result_json(&run_sweep_command(folder.path(), SWEEP_FILE, &resume)), first);
    assert_eq!(stamps(), before);
    let extended = SWEEP_FILE.replace("[1, 2]", "[1, 2, 3]");
    let more = sweep_result_json(&run_sweep_command(folder.path(), &extended, &resume));
    assert_eq!(more["runs"].as_array().unwrap().len(), 12);
    let after = stamps();
    assert_eq!((after.len(), after.iter().filter(|one| before.contains(one)).count()), (12, 8));
}

/// Bug: if the stored file of a run was replaced by a copy of another run's file, the table showed the result of the
/// other run.
#[test]
fn a_stored_run_under_the_name_of_another_run_is_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept");
    let resume = ["--resume", kept.to_str().unwrap(), "--json", "-"];
    let first = sweep_result_json(&run_sweep_command(folder.path(), SWEEP_FILE, &resume));
    let mut files: Vec<_> = fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let replaced = fs::read_to_string(&files[1]).unwrap();
    fs::copy(&files[0], &files[1]).unwrap();
    let again = sweep_result_json(&run_sweep_command(folder.path(), SWEEP_FILE, &resume));
    assert_eq!(
        identifying_fields_and_figures_of_runs(&again),
        identifying_fields_and_figures_of_runs(&first)
    );
    let repeated = fs::read_to_string(&files[1]).unwrap();
    let key_line = |text: &str| text.lines().nth(1).unwrap().to_owned();
    assert_eq!(key_line(&repeated), key_line(&replaced));
}

/// Bug: with a content model, runs on an input with contents failed, although the model was meant for another input.
#[test]
fn a_sweep_mixes_inputs_with_and_without_contents() {
    let folder = tempfile::tempdir().unwrap();
    let written =
        "time_ns,op,offset_bytes,len_bytes,device,fingerprints\n0,W,0,4096,0,7\n5,W,4096,4096,0,8\n";
    let trace = folder.path().join("written.csv");
    fs::write(&trace, written).unwrap();
    let file = |workloads: &str| {
        format!(
            "[sweep]\ntraces = [{:?}]\nworkloads = [{workloads}]\ndesigns = ['recyclable']\n[content]\n\
             model = 'dup:share=0.5'\n",
            trace.to_str().unwrap()
        )
    };
    let done = run_sweep_command(folder.path(), &file("'uniform:pages=2000,requests=100'"), &["--json", "-"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let sentence = "written.csv: content.model has no effect";
    assert_eq!(stderr(&done).matches(sentence).count(), 1, "{}", stderr(&done));
    let result = sweep_result_json(&done);
    let has_note = |run: &Value| run["notes"].to_string().contains(sentence);
    let noted: Vec<bool> = result["runs"].as_array().unwrap().iter().map(has_note).collect();
    assert_eq!(noted, [true, false]);
    // On the only input, the model is a mistake.
    let alone = run_sweep_command(folder.path(), &file(""), &[]);
    assert_eq!(alone.status.code(), Some(3), "{}", stderr(&alone));
    assert!(stderr(&alone).contains("content.model has no effect"), "{}", stderr(&alone));
}

#[test]
fn a_failed_run_of_a_sweep_is_a_row_and_the_other_runs_continue() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("runs.csv");
    let file = SWEEP_FILE
        .replace("designs = [", "traces = [\"nowhere.csv\"]\ndesigns = [")
        .replace("[0.07, 0.28]", "[0.07, 9.0]");
    let done = run_sweep_command(folder.path(), &file, &["--json", "-", "--csv", csv.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(3), "{}", stderr(&done));
    let result = sweep_result_json(&done);
    assert_eq!(result["runs"].as_array().unwrap().len(), 4);
    assert_eq!(result["failures"].as_array().unwrap().len(), 12);
    let said = stderr(&done);
    assert!(said.contains("and 7 other runs: nowhere.csv"), "{said}");
    assert!(said.contains("and 3 other runs: device.over_provisioning is 9"), "{said}");
    let csv = fs::read_to_string(csv).unwrap();
    assert_eq!(csv.lines().count(), 17);
    assert_eq!(
        csv.lines()
            .filter(|line| line.contains(
                "nowhere.csv: cannot open the trace, so remove the cause or name another file: No such file"
            ))
            .count(),
        8
    );
}

#[test]
fn mistakes_in_a_sweep_file_are_refused_before_any_run() {
    let folder = tempfile::tempdir().unwrap();
    let is_refused = |from: &str, to: &str, part: &str| {
        let done = run_sweep_command(folder.path(), &SWEEP_FILE.replace(from, to), &[]);
        assert_eq!(done.status.code(), Some(2), "{to}: {}", stderr(&done));
        assert!(stderr(&done).contains(part), "`{part}` is missing in: {}", stderr(&done));
    };
    is_refused("workloads", "workload", "workloads");
    is_refused("replay.seed", "replay.sed", "seed");
    is_refused("replay.seed", "gecko.parts", "gecko.parts has no effect on page-map");
    is_refused("[1, 2]", "1", "must be a list of values");
    is_refused("mode = \"fill\"", "mood = \"fill\"", "sweep.toml:11");
    is_refused("zipf:", "zip:", "zipf");
    let missing = wearwell(&["sweep", "nothing.toml"]);
    assert_eq!((missing.status.code(), stderr(&missing).contains("nothing.toml")), (Some(2), true));
}
