//! Tests of `--report`: every command that has results writes an HTML page of them if the user requests one.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use wearwell_replay::html_report::embedded_record;

use crate::repository;

/// Short workload of the tests.
const LOAD: &str = "zipf:pages=3000,requests=8000,read=0.2";

/// Runs the program `wearwell` with these arguments to its end.
fn wearwell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wearwell")).args(arguments).output().unwrap()
}

/// Runs a command in a folder so that it writes an HTML page, and returns the kind of the page and its embedded record.
fn html_kind_and_record_of_command(folder: &Path, arguments: &[&str]) -> (String, Value) {
    let path = folder.join("page.html");
    let page = path.to_str().unwrap();
    let output = wearwell(&[arguments, &["--report", page, "--force", "-q"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    html_kind_and_record_of_file(&path)
}

/// Returns the kind of an HTML page of results, and the record that is embedded in it.
fn html_kind_and_record_of_file(path: &Path) -> (String, Value) {
    let text = fs::read_to_string(path).unwrap();
    let kind = text.split("data-kind=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned();
    (kind, serde_json::from_str(embedded_record(&text).unwrap()).unwrap())
}

#[test]
fn every_command_with_results_writes_an_html_report() {
    let folder = tempfile::tempdir().unwrap();
    let of = |arguments: &[&str]| html_kind_and_record_of_command(folder.path(), arguments);
    let sweep = folder.path().join("sweep.toml");
    fs::write(
        &sweep,
        format!("[sweep]\nworkloads = [\"{LOAD}\"]\nvary.gc.policy = [\"fifo\", \"greedy\"]\n"),
    )
    .unwrap();
    let few_cycles = ["--set", "device.endurance_cycles=10"];
    let commands: [(&str, &str, Vec<&str>); 6] = [
        ("runs", "runs", vec!["replay", "--workload", LOAD, "--timing", "event"]),
        ("runs", "runs", vec!["compare", "--workload", LOAD, "--designs", "page-map,dftl"]),
        ("ablations", "ablations", vec!["ablate", "--workload", LOAD, "--parts", "recycle,dedup"]),
        ("lives", "drives", [&["life", "--workload", LOAD][..], &few_cycles].concat()),
        ("profile", "profiles", vec!["profile", "--workload", LOAD]),
        ("sweep", "runs", vec!["sweep", sweep.to_str().unwrap()]),
    ];
    for (kind, list, arguments) in commands {
        let (found, record) = of(&arguments);
        assert_eq!(found, kind, "{arguments:?}");
        assert!(!record[list].as_array().unwrap().is_empty(), "{arguments:?}");
    }
}

/// With `--report`, the runs of `compare` and the lives of `life` record a timeline. Sweeps and ablations record none,
/// because they have too many runs.
#[test]
fn the_option_report_makes_runs_and_lives_record_a_timeline() {
    let folder = tempfile::tempdir().unwrap();
    let compare = ["compare", "--workload", LOAD, "--designs", "page-map,dftl"];
    let (_, record) = html_kind_and_record_of_command(folder.path(), &compare);
    assert!(record["runs"].as_array().unwrap().iter().all(|run| run["timeline"]["frames"].is_array()));
    let life = ["life", "--workload", LOAD, "--set", "device.endurance_cycles=10"];
    let (_, record) = html_kind_and_record_of_command(folder.path(), &life);
    assert!(record["drives"][0]["lives"][0]["timeline"]["frames"].is_array());
    let (_, record) =
        html_kind_and_record_of_command(folder.path(), &["ablate", "--workload", LOAD, "--parts", "recycle"]);
    assert!(record["ablations"][0]["subsets"][0]["run"]["timeline"].is_null());
    let output = wearwell(&[&compare[..], &["-q", "--json", "-"]].concat());
    assert!(!String::from_utf8(output.stdout).unwrap().contains("timeline"));
}

#[test]
fn diff_reads_the_results_embedded_in_html_reports() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let replay = |page: &str, policy: &str| {
        let output =
            wearwell(&["replay", "--workload", LOAD, "--gc-policy", policy, "--report", &file(page), "-q"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    replay("a.html", "greedy");
    replay("b.html", "fifo");
    wearwell(&["replay", "--workload", LOAD, "--json", &file("a.json"), "-q"]);
    let same = wearwell(&["diff", &file("a.html"), &file("a.json"), "--exit-code"]);
    assert_eq!(same.status.code(), Some(0), "{}", String::from_utf8_lossy(&same.stdout));
    let output = wearwell(&["diff", &file("a.html"), &file("b.html"), "--report", &file("diff.html")]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("config.gc.policy"));
    let (kind, record) = html_kind_and_record_of_file(Path::new(&file("diff.html")));
    assert_eq!(kind, "diff");
    assert_eq!(record["pairs"][0]["causes"][0]["field"], "config.gc.policy");
    assert!(!record["pairs"][0]["results"].as_array().unwrap().is_empty());
}

#[test]
fn the_report_path_is_checked_before_the_run_and_overwritten_only_with_force() {
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.html");
    fs::write(&old, "old").unwrap();
    let old = old.to_str().unwrap();
    let workload = ["--workload", LOAD];
    for command in ["replay", "compare", "ablate", "life", "profile"] {
        let output = wearwell(&[&[command][..], &workload, &["--report", old]].concat());
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(
            String::from_utf8_lossy(&output.stderr)
                .contains("old.html: the file exists: name another output file, or replace it with --force")
        );
    }
    let diff = wearwell(&["diff", old, old, "--report", old]);
    assert!(String::from_utf8_lossy(&diff.stderr).contains("is an input of this command"));
    assert_eq!(fs::read_to_string(old).unwrap(), "old");
    let output = wearwell(&["replay", "--workload", LOAD, "--report", "-"]);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
}

/// The HTML page of a run of a million requests must be smaller than 3 MB.
#[test]
fn the_html_report_of_a_long_run_is_small() {
    let folder = tempfile::tempdir().unwrap();
    let load = "zipf:pages=100000,requests=300000,read=0.3";
    html_kind_and_record_of_command(
        folder.path(),
        &["compare", "--workload", load, "--timing", "event", "--device", "lab-8g"],
    );
    let bytes = fs::metadata(folder.path().join("page.html")).unwrap().len();
    assert!(bytes < 3_000_000, "{bytes}");
}

/// The commands in docs/reports.md must work as they are printed there.
#[test]
fn every_command_in_the_reports_document_runs() {
    let root = repository::root();
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root.join("traces"), folder.path().join("traces")).unwrap();
    let document = fs::read_to_string(root.join("docs/reports.md")).unwrap();
    let commands: Vec<&str> = document.lines().filter_map(|line| line.strip_prefix("wearwell ")).collect();
    assert_eq!(commands.len(), 3);
    for command in commands {
        let mut run = Command::new(env!("CARGO_BIN_EXE_wearwell"));
        let output = run.args(command.split(' ')).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let (kind, record) = html_kind_and_record_of_file(&folder.path().join("designs.html"));
    assert_eq!((kind.as_str(), record["runs"].as_array().unwrap().len()), ("runs", 3));
    assert_eq!(html_kind_and_record_of_file(&folder.path().join("diff.html")).0, "diff");
}

/// Neither the number of blocks of a drive nor the length of a run may make the HTML page larger, or take more memory
/// for it.
#[test]
fn the_html_report_of_a_large_drive_and_a_long_run_has_bounded_size() {
    let folder = tempfile::tempdir().unwrap();
    let drive = [
        "--device",
        "bench-8g",
        "--set",
        "device.blocks_per_plane=16384",
        "--set",
        "device.pages_per_block=4",
    ];
    let load = "uniform:pages=2000000,requests=60000,read=0.3,rate=40000";
    let large =
        [&["replay", "--workload", load, "--timing", "event", "--precondition", "fill"][..], &drive].concat();
    let (_, record) = html_kind_and_record_of_command(folder.path(), &large);
    let page = fs::metadata(folder.path().join("page.html")).unwrap().len();
    let run = &record["runs"][0];
    assert_eq!(run["timeline"]["blocks"], 1 << 20, "blocks of the drive");
    assert!(page < 1_000_000, "the page has {page} bytes");
    let output = wearwell(&[&large[..], &["-q", "--json", "-"]].concat());
    let alone: Value = serde_json::from_slice(&output.stdout).unwrap();
    let peak = |run: &Value| run["peak_rss_bytes"].as_u64().unwrap();
    let more = peak(run).saturating_sub(peak(&alone["runs"][0]));
    assert!(more < 16 << 20, "{more} bytes of memory for a page");
}

#[test]
fn html_reports_and_diff_tell_where_settings_come_from() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(file("drive.toml"), "[gc]\n\npolicy = 'fifo'\n").unwrap();
    let replay = |page: &str, more: &[&str]| {
        let page = file(page);
        let arguments = [&["replay", "--workload", LOAD, "--report", &page, "-q"][..], more].concat();
        let output = wearwell(&arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read_to_string(page).unwrap()
    };
    let config = file("drive.toml");
    let page = replay("a.html", &["--config", &config]);
    let at = format!("{config}:3");
    let record: Value = serde_json::from_str(embedded_record(&page).unwrap()).unwrap();
    let origins = &record["runs"][0]["origins"];
    assert_eq!(origins["gc.policy"], serde_json::json!({ "source": "file", "place": at }));
    assert_eq!(origins["device.read_us"], serde_json::json!({ "source": "preset", "place": "auto" }));
    assert_eq!(origins["gc.ties"], Value::Null);
    assert!(page.contains(&format!("<td>file {at}</td>")), "the table of settings has no origins");
    assert!(page.contains("<tr class=\"common\">") && page.contains("type=\"checkbox\""));
    replay("b.html", &["--over-provisioning", "0.3"]);
    let output = wearwell(&["diff", &file("a.html"), &file("b.html")]);
    let table = String::from_utf8(output.stdout).unwrap();
    let row = table.lines().find(|line| line.contains("config.gc.policy")).unwrap();
    assert!(row.contains(&format!("fifo (file {at})")) && row.contains("greedy (default)"), "{row}");
    assert!(!table.contains("origins"), "{table}");
    // The same run from other places is the same.
    replay("c.html", &["--set", "gc.policy=fifo"]);
    let output = wearwell(&["diff", &file("a.html"), &file("c.html"), "--exit-code"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
