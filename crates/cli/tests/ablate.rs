//! Tests of `wearwell ablate`: its runs equal those of `compare`, no configuration is run twice, and impossible
//! requests are refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::Value;

/// Workload in which some writes repeat a content, some resemble the older version, and some compress.
const LOAD: &str =
    "zipf:pages=3000,requests=20000,write=0.8,read=0.2,rate=200+dup:share=0.3,compress=0.5,delta=0.3";

/// Runs the program `wearwell` with these arguments to its end.
fn wearwell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wearwell")).args(arguments).output().unwrap()
}

/// Returns what a command printed to standard error.
fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs a command that must succeed, and returns what it prints.
#[track_caller]
fn stdout_of(arguments: &[&str]) -> String {
    let output = wearwell(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs `wearwell ablate` on the workload `LOAD` with additional arguments, and checks that it is refused with a
/// message that contains all of `parts`.
#[track_caller]
fn assert_refused(more: &[&str], parts: &[&str]) {
    let output = wearwell(&[&["ablate", "--workload", LOAD], more].concat());
    let sentence = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{more:?}: {sentence}");
    for part in parts {
        assert!(sentence.contains(part), "`{part}` is missing in: {sentence}");
    }
}

/// Returns the ablation in a JSON result that has exactly one.
fn only_ablation(json: &str) -> Value {
    let mut result: Value = serde_json::from_str(json).unwrap();
    let ablations = result["ablations"].as_array_mut().unwrap();
    assert_eq!(ablations.len(), 1);
    ablations.remove(0)
}

/// Returns a run record without the fields that differ from run to run, and without the choice of the design's parts
/// (`config.parts`).
fn without_varying_fields(run: &Value) -> Value {
    let mut run = run.clone();
    let fields = run.as_object_mut().unwrap();
    for differs in ["cpu_seconds", "precondition_cpu_seconds", "peak_rss_bytes", "variant", "origins"] {
        fields.remove(differs).unwrap();
    }
    run["config"].as_object_mut().unwrap().remove("parts").unwrap();
    run
}

/// The baseline of an ablation equals the design without mechanisms, and a subset equals the design with these
/// mechanisms. Number of jobs and timing change nothing.
#[test]
fn ablation_runs_have_the_results_of_compare_runs_with_the_same_parts() {
    let options = ["--workload", LOAD, "--timing", "event", "--jobs", "2", "--json", "-"];
    let ablated = stdout_of(&[&["ablate", "--parts", "dedup,delta"], &options[..]].concat());
    let designs = "page-map,page-map:parts.content=dedup,page-map:parts.content=delta,page-map:parts.content=dedup+delta";
    let compared = stdout_of(&[&["compare", "--designs", designs], &options[..]].concat());
    let compared: Value = serde_json::from_str(&compared).unwrap();
    let ablation = only_ablation(&ablated);
    let runs = compared["runs"].as_array().unwrap();
    let subsets = ablation["subsets"].as_array().unwrap();
    assert_eq!((runs.len(), subsets.len()), (4, 4));
    for (subset, run) in subsets.iter().zip(runs) {
        assert_eq!(
            without_varying_fields(&subset["run"]),
            without_varying_fields(run),
            "{}",
            subset["mechanisms"]
        );
    }
    assert_eq!(subsets[1]["run"]["variant"], "parts.content=dedup");
    assert!(runs[1]["programs"].as_u64() < runs[0]["programs"].as_u64(), "and deduplication did something");
    let write_latency = &ablation["figures"][4];
    assert_eq!(write_latency["figure"], "write_mean_us");
    assert!(write_latency["mechanisms"][0]["shapley"]["absolute"].is_number(), "{write_latency}");
}

/// Bug: the subsets of a design had the default persistence of their parts, such as a battery in place of NVRAM. So the
/// subset of all mechanisms was another drive than the design.
#[test]
fn the_subset_of_all_mechanisms_of_a_design_equals_a_run_of_the_design() {
    let all = [
        ("wearwell", "recycle,dedup,delta,compress"),
        ("remap", "dedup"),
        ("recyclable", "recycle"),
        ("delta", "delta"),
        ("integrated", "dedup,compress"),
    ];
    for (design, parts) in all {
        let asked = ["--workload", LOAD, "--timing", "event", "--json", "-", "--design", design];
        let ablation = only_ablation(&stdout_of(&[&["ablate", "--parts", parts], &asked[..]].concat()));
        let replayed: Value = serde_json::from_str(&stdout_of(&[&["replay"], &asked[..]].concat())).unwrap();
        let whole = ablation["subsets"].as_array().unwrap().last().unwrap();
        assert_eq!(
            without_varying_fields(&whole["run"]),
            without_varying_fields(&replayed["runs"][0]),
            "{design}"
        );
    }
}

/// A design whose map is in NVRAM keeps its map there in every subset. A page map that is recovered from spare areas
/// alone cannot be combined with content mechanisms; in subsets with a mechanism this kind of recovery is replaced, and
/// a note says so.
#[test]
fn ablation_subsets_keep_the_persistence_of_the_design_or_a_note_says_why_not() {
    let of = |design: &str, parts: &str| {
        let asked = ["ablate", "--workload", LOAD, "--design", design, "--parts", parts, "--json", "-"];
        let ablation = only_ablation(&stdout_of(&asked));
        let survives = |subset: &Value| subset["run"]["config"]["parts"]["survives"].clone();
        let all = ablation["subsets"].as_array().unwrap().iter().map(survives).collect::<Vec<_>>();
        (all, ablation["notes"].clone())
    };
    let (survives, notes) = of("wearwell", "dedup,delta");
    assert_eq!((survives, notes), (vec!["nvram-map".into(); 4], Value::Array(Vec::new())));
    let (survives, notes) = of("page-map", "recycle,delta,compress");
    assert_eq!(survives, vec![Value::Null; 8], "the default of the parts, as in compare");
    let note =
        "parts.survives=oob-scan, as on page-map, is impossible for all subsets but none (instead: battery)";
    assert_eq!(notes, Value::Array(vec![note.into()]));
    let table = stdout_of(&["ablate", "--workload", LOAD, "--parts", "recycle,delta,compress"]);
    assert!(table.contains(&format!("note: {note}")), "{table}");
    let (_, notes) = of("remap", "dedup,delta");
    let note = "parts.survives=nvram-entries, as on remap, is impossible for none, delta, dedup+delta (instead: oob-scan \
                (1) or battery (2))";
    assert_eq!(notes, Value::Array(vec![note.into()]));
}

/// Returns the time of the last change of each file in a folder.
fn modification_times(folder: &Path) -> BTreeMap<String, SystemTime> {
    let files = fs::read_dir(folder).unwrap().map(Result::unwrap);
    files
        .map(|file| (file.file_name().into_string().unwrap(), file.metadata().unwrap().modified().unwrap()))
        .collect()
}

#[test]
fn a_resumed_ablation_reuses_finished_runs_and_prints_the_same_result() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().to_str().unwrap();
    let asked = ["ablate", "--workload", LOAD, "--parts", "recycle,compress", "--resume", kept];
    let again = |more: &[&str]| {
        let output = wearwell(&[&asked, more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output))
    };
    let (first, _) = again(&[]);
    let files = modification_times(folder.path());
    assert_eq!(files.len(), 4);
    let (second, said) = again(&["--jobs", "2"]);
    assert_eq!(first, second);
    assert!(said.contains("4 of 4 runs were made before"), "{said}");
    assert_eq!(modification_times(folder.path()), files);
    fs::remove_file(folder.path().join(files.keys().next().unwrap())).unwrap();
    let (third, said) = again(&[]);
    assert!(third == first && said.contains("3 of 4 runs were made before"), "{said}\n{third}");
    let (other, said) = again(&["--over-provisioning", "0.3"]);
    assert!(other != first && !said.contains("before"), "another drive is another run: {said}");
    assert_eq!(modification_times(folder.path()).len(), 8);
}

/// Deduplication includes remap commands, so the four subsets of the two mechanisms give only three different drives.
#[test]
fn an_ablation_runs_a_drive_once_if_two_subsets_give_the_same_drive() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().to_str().unwrap();
    let json =
        stdout_of(&["ablate", "--workload", LOAD, "--parts", "remap,dedup", "--resume", kept, "--json", "-"]);
    assert_eq!(modification_times(folder.path()).len(), 3);
    let ablation = only_ablation(&json);
    assert_eq!(ablation["subsets"][2]["run"], ablation["subsets"][3]["run"]);
    assert_eq!(ablation["figures"][0]["mechanisms"][0]["last"]["absolute"], 0.0);
}

/// Entries of a segment reverse map name flash pages and not members of compressed chunks. So deduplication and
/// compression are refused together, and each is accepted alone.
#[test]
fn an_ablation_names_a_refused_subset_and_leaves_its_cells_blank() {
    let parts = ["--parts", "dedup,compress", "--set", "parts.reverse_map=segments"];
    let asked = [&["ablate", "--workload", LOAD][..], &parts].concat();
    let ablation = only_ablation(&stdout_of(&[&asked[..], &["--json", "-"]].concat()));
    let both = &ablation["subsets"][3];
    let sentence = both["refused"].as_str().unwrap();
    assert!(both["run"].is_null() && sentence.contains("members of compressed chunks"), "{both}");
    let dedup = &ablation["figures"][0]["mechanisms"][0];
    assert!(dedup["alone"]["absolute"].as_f64().unwrap() < 0.0);
    assert!(dedup["last"].is_null() && dedup["shapley"].is_null(), "{dedup}");
    let table = stdout_of(&asked);
    assert!(table.contains(&format!("refused: dedup+compress: {sentence}")), "{table}");
    assert!(table.contains("the engine refuses dedup+compress"), "{table}");
    let csv = stdout_of(&[&asked[..], &["--csv", "-"]].concat());
    assert!(csv.lines().nth(4).unwrap().starts_with("dedup+compress,"), "{csv}");
    // What the design is without any change need not be possible, because no subset is that.
    let changed = ["--design", "recyclable", "--set", "parts.survives=oob-scan", "--parts", "silent"];
    let ablation = only_ablation(&stdout_of(&[&asked[..3], &changed, &["--json", "-"]].concat()));
    assert!(
        ablation["subsets"].as_array().unwrap().iter().all(|subset| subset["run"].is_object()),
        "{ablation}"
    );
    let lazy = ["--design", "geckoftl", "--set", "parts.map=lazy", "--parts", "dedup"];
    let ablation = only_ablation(&stdout_of(&[&asked[..3], &lazy, &["--json", "-"]].concat()));
    assert!(ablation["subsets"][0]["run"].is_object() && ablation["subsets"][1]["run"].is_null());
}

#[test]
fn ablation_csv_has_the_subset_followed_by_the_columns_of_compare() {
    let head = |arguments: &[&str]| {
        stdout_of(&[arguments, &["--workload", LOAD, "--csv", "-"]].concat())
            .lines()
            .next()
            .unwrap()
            .to_owned()
    };
    let one = head(&["ablate", "--parts", "compress"]);
    let other = head(&["ablate", "--parts", "recycle,dedup", "--timing", "timeline"]);
    assert_eq!(one, other);
    assert_eq!(one, format!("subset,refused,{}", head(&["compare", "--designs", "dftl"])));
}

#[test]
fn ablation_tables_of_all_mechanisms_fit_a_terminal() {
    let asked =
        ["ablate", "--workload", LOAD, "--parts", "recycle,remap,dedup,delta,compress", "--timing", "event"];
    let table = stdout_of(&asked);
    let heads = ["page programs, ", "subset ", "what each", "overlaps", " "];
    let tables = table.split("\n\n").filter(|block| heads.iter().any(|head| block.starts_with(head)));
    let mut blocks = 0;
    for line in tables.inspect(|_| blocks += 1).flat_map(str::lines) {
        assert!(line.len() <= 80, "{line}\n{table}");
    }
    assert!(blocks >= 3, "{table}");
    for said in ["recycle+remap+dedup+delta+compress", "write latency mean, us", "Shapley", "overlaps"] {
        assert!(table.contains(said), "no `{said}` in {table}");
    }
    let untimed = stdout_of(&["ablate", "--workload", LOAD, "--parts", "dedup", "--markdown"]);
    assert!(untimed.lines().any(|line| line.starts_with("| read latency mean, us | - ")), "{untimed}");
    assert!(untimed.contains("| --- | ---: |"), "{untimed}");
}

#[test]
fn an_ablation_prints_one_table_per_trace_and_sweep_point() {
    let folder = tempfile::tempdir().unwrap();
    let head = "time_ns,op,offset_bytes,len_bytes,device,fingerprints,source_bytes\n".to_owned();
    let line = |k: u64| format!("{},W,{},4096,0,{:x},\n", k * 1000, k * 7919 % 997 * 4096, k % 50 + 1);
    let text = head + &(0..2000).map(line).collect::<String>();
    let paths = ["one.csv", "two.csv"].map(|name| folder.path().join(name).display().to_string());
    for path in &paths {
        fs::write(path, &text).unwrap();
    }
    let swept = ["--parts", "dedup", "--over-provisioning", "0.1,0.3", "--json", "-"];
    let json = stdout_of(&[&["ablate", &paths[0], &paths[1]], &swept[..]].concat());
    let result: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(result["schema_version"], 2);
    let of = |ablation: &Value| (ablation["input"].clone(), ablation["settings"].clone());
    let found: Vec<_> = result["ablations"].as_array().unwrap().iter().map(of).collect();
    let expected = [&paths[0], &paths[0], &paths[1], &paths[1]].into_iter().zip([0.1, 0.3, 0.1, 0.3]);
    let expected: Vec<(Value, Value)> = expected
        .map(|(path, share)| (path.as_str().into(), format!("device.over_provisioning={share}").into()))
        .collect();
    assert_eq!(found, expected);
    let missing = folder.path().join("missing.csv").display().to_string();
    let output = wearwell(&["ablate", &missing, &paths[0], "--parts", "dedup", "-q", "--csv", "-"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("missing.csv"), "{}", stderr(&output));
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 3);
}

#[test]
fn an_ablation_refuses_mechanisms_that_cannot_be_switched_off_singly() {
    assert_refused(&["--parts", "dedupe"], &["did you mean `dedup`"]);
    assert_refused(&["--parts", ""], &["no mechanism"]);
    assert_refused(&["--parts", "delta,delta"], &["delta twice"]);
    assert_refused(&["--parts", "recycle,remap,dedup,delta,compress,silent,zip"], &["7 mechanisms"]);
    assert_refused(&["--set", "parts.content=dedup"], &["parts.content is set", "--parts"]);
    assert_refused(
        &["--parts", "dedup", "--set", "delta.journal_pages=4"],
        &["delta.journal_pages", "no effect"],
    );
    assert_refused(&["--design", "page-mapp"], &["page-map"]);
}

#[test]
fn ctrl_c_during_an_ablation_writes_the_finished_runs_as_partial() {
    let folder = tempfile::tempdir().unwrap();
    let (json, kept) = (folder.path().join("subsets.json"), folder.path().join("kept"));
    let long = "uniform:pages=200000,requests=1000000000";
    let mut child = Command::new(env!("CARGO_BIN_EXE_wearwell"))
        .args(["ablate", "--workload", long, "--parts", "dedup", "--json", json.to_str().unwrap()])
        .args(["--resume", kept.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The folder is made before the signal is listened to, a moment later.
    while !kept.exists() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(1500));
    assert!(child.try_wait().unwrap().is_none(), "the run is over already");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(3));
    let ablation = only_ablation(&fs::read_to_string(json).unwrap());
    assert_eq!(ablation["partial"], true);
    assert_eq!(ablation["subsets"][0]["run"]["partial_reason"], "interrupted");
    assert!(ablation["subsets"][1]["run"].is_null() && ablation["subsets"][1]["refused"].is_null());
    assert_eq!(modification_times(&kept).len(), 0, "what is not finished is not kept");
}
