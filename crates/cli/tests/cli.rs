//! Tests of the `wearwell` command as scripts use it: the fields of its JSON and CSV, its messages and its exit
//! statuses.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Exit status of a command that ran completely.
const EXIT_DONE: i32 = 0;
/// Exit status of a command whose run failed, for example because its input cannot be read.
const EXIT_RUN_FAILED: i32 = 1;
/// Exit status of a command whose command line or configuration is wrong.
const EXIT_USAGE_ERROR: i32 = 2;
/// Exit status of a command whose result is partial, for example after ctrl-C.
const EXIT_PARTIAL_RESULT: i32 = 3;

/// Runs the program `wearwell` with these arguments to its end.
fn wearwell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wearwell")).args(arguments).output().unwrap()
}

/// Returns what a command printed to standard output.
fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns what a command printed to standard error.
fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs a command, checks that it ends with exit status `code`, and returns what it prints.
#[track_caller]
fn run_expecting_exit_status(code: i32, arguments: &[&str]) -> String {
    let output = wearwell(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

/// Runs a command and checks that it is refused with exit status `code` and a message that contains all of `parts`.
#[track_caller]
fn assert_refused(code: i32, arguments: &[&str], parts: &[&str]) {
    let output = wearwell(arguments);
    let sentence = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {sentence}");
    for part in parts {
        assert!(sentence.contains(part), "`{part}` is missing in: {sentence}");
    }
    assert!(!sentence.contains("panicked"), "{sentence}");
}

/// Returns the run in a JSON result that has exactly one run.
fn single_run_in(json: &str) -> Value {
    let mut result: Value = serde_json::from_str(json).unwrap();
    let runs = result["runs"].as_array_mut().unwrap();
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

/// Returns the contents of a JSON file.
fn json_of(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// A folder with a trace in Wearwell's CSV: `requests` one-page requests over 997 pages, of which every fourth is a
/// read and the others are writes.
struct Fixture {
    /// Temporary folder of the test, which contains `trace.csv`.
    folder: tempfile::TempDir,
}

impl Fixture {
    /// Creates a temporary folder with a trace of this many requests.
    fn new(requests: u64) -> Self {
        let fixture = Self { folder: tempfile::tempdir().unwrap() };
        let mut text = "time_ns,op,offset_bytes,len_bytes,device,fingerprints,source_bytes\n".to_owned();
        for k in 0..requests {
            let (op, page) = (if k % 4 == 3 { "R" } else { "W" }, k * 7919 % 997);
            let content = if op == "W" { format!("{:x}", k % 50 + 1) } else { String::new() };
            writeln!(text, "{},{op},{},4096,0,{content},", k * 100_000, page * 4096).unwrap();
        }
        fs::write(fixture.file("trace.csv"), text).unwrap();
        fixture
    }

    /// Returns the path of a file in the temporary folder.
    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the path of a file in the temporary folder as text, for a command line.
    fn path(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }
}

#[test]
fn replay_with_every_flag_writes_a_record_with_the_stable_fields() {
    let fixture = Fixture::new(4000);
    let (trace, json) = (fixture.path("trace.csv"), fixture.path("run.json"));
    let table = run_expecting_exit_status(
        EXIT_DONE,
        &[
            "replay",
            &trace,
            "--design",
            "recyclable",
            "--device",
            "bench-8g",
            "--set",
            "device.blocks_per_plane=8",
            "--set",
            "device.over_provisioning=1",
            "--precondition",
            "none",
            "--format",
            "csv",
            "--timing",
            "event",
            "--seed",
            "7",
            "--json",
            &json,
        ],
    );
    assert!(table.contains("write amplification") && table.contains("recyclable"), "{table}");
    let record = single_run_in(&fs::read_to_string(&json).unwrap());
    assert_eq!(record["design"], "recyclable");
    assert_eq!(record["seed"], 7);
    assert_eq!(record["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(record["partial"], false);
    assert_eq!(record["host_page_writes"], 3000);
    assert_eq!(record["host_page_reads"], 1000);
    assert_eq!(record["trace"]["path"], trace.as_str());
    assert_eq!(record["trace"]["requests"], 4000);
    assert_eq!(record["device"]["preset"], "bench-8g");
    let sha256 = record["trace"]["sha256"].as_str().unwrap();
    assert!(sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit()));
    for counter in ["programs", "erases", "ram_bytes"] {
        assert!(record[counter].is_u64(), "{counter}");
    }
    assert!(record["programs_by_cause"]["host"].as_u64().unwrap() > 0);
    assert!(record["reads_by_cause"]["host"].as_u64().unwrap() > 0);
    assert!(record["write_amplification"].as_f64().unwrap() < 1.0, "equal content is recycled");
    assert!(record["cpu_seconds"].as_f64().unwrap() >= 0.0 && record["peak_rss_bytes"].is_u64());
    for kind in ["read", "write"] {
        for figure in ["mean", "p50", "p99", "p999"] {
            assert!(record["latency_us"][kind][figure].as_f64().unwrap() > 0.0, "{kind} {figure}");
        }
    }
}

#[test]
fn replay_of_a_generated_workload_needs_no_trace() {
    let json = run_expecting_exit_status(
        EXIT_DONE,
        &["replay", "--workload", "uniform:pages=1000,requests=5000", "--json", "-"],
    );
    let record = single_run_in(&json);
    assert_eq!((&record["design"], &record["host_page_writes"]), (&"page-map".into(), &5000.into()));
    assert!(record["trace"]["sha256"].is_null());
    assert!(record["trace"]["path"].as_str().unwrap().starts_with("uniform:"));
}

#[test]
fn compare_writes_one_run_per_input_and_design_baseline_first() {
    let fixture = Fixture::new(4000);
    fs::copy(fixture.file("trace.csv"), fixture.file("second.csv")).unwrap();
    let (first, second, json) =
        (fixture.path("trace.csv"), fixture.path("second.csv"), fixture.path("all.json"));
    let table = run_expecting_exit_status(
        EXIT_DONE,
        &["compare", &first, &second, "--designs", "dftl,page-map,recyclable", "--json", &json],
    );
    assert!(table.contains("ratio"), "{table}");
    let comparison = json_of(Path::new(&json));
    let runs = comparison["runs"].as_array().unwrap();
    let names: Vec<_> = runs.iter().map(|run| run["design"].as_str().unwrap()).collect();
    assert_eq!(names, ["dftl", "page-map", "recyclable", "dftl", "page-map", "recyclable"]);
    assert_eq!(runs[0]["trace"]["path"], first.as_str());
    assert_eq!(runs[5]["trace"]["path"], second.as_str());
    assert_eq!(runs[1]["programs"], runs[4]["programs"]);
    assert_eq!(comparison["schema_version"], 2);
}

#[test]
fn diff_lists_settings_and_results_that_differ_between_two_files() {
    let fixture = Fixture::new(2000);
    let trace = fixture.path("trace.csv");
    let (first, second) = (fixture.path("first.json"), fixture.path("second.json"));
    run_expecting_exit_status(EXIT_DONE, &["replay", &trace, "-q", "--json", &first]);
    run_expecting_exit_status(EXIT_DONE, &["replay", &trace, "-q", "--gc-policy", "fifo", "--json", &second]);
    let same = run_expecting_exit_status(EXIT_DONE, &["diff", &first, &first, "--exit-code"]);
    assert!(same.contains("no difference"), "{same}");
    let table = run_expecting_exit_status(EXIT_DONE, &["diff", &first, &second]);
    let [run, out] = ["  config.gc.policy", "  programs_by_cause.gc"].map(|field| table.find(field));
    assert!(run.is_some() && run < out, "{table}");
    run_expecting_exit_status(EXIT_RUN_FAILED, &["diff", &first, &second, "--exit-code"]);
    run_expecting_exit_status(EXIT_USAGE_ERROR, &["diff", &first, &trace, "--exit-code"]);
    run_expecting_exit_status(EXIT_USAGE_ERROR, &["diff", "-", "-"]);
}

#[test]
fn compare_csv_has_a_line_per_run_and_as_many_fields_as_titles() {
    let fixture = Fixture::new(1000);
    let csv = run_expecting_exit_status(
        EXIT_DONE,
        &["compare", &fixture.path("trace.csv"), "--designs", "page-map,dftl", "--csv", "-"],
    );
    let fields: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(fields.len(), 3);
    assert!(fields.iter().all(|&count| count == fields[0]), "{csv}");
    assert!(csv.starts_with("trace,design,variant,partial,version,seed,"), "{csv}");
    let titles = csv.lines().next().unwrap();
    let of_another = run_expecting_exit_status(
        EXIT_DONE,
        &["replay", &fixture.path("trace.csv"), "--timing", "event", "--csv", "-"],
    );
    assert_eq!(of_another.lines().next().unwrap(), titles, "files of any runs can be joined");
}

/// Options with several values run all combinations in one call, so that policies can be compared with each other.
#[test]
fn compare_with_lists_of_values_runs_every_combination() {
    let load = ["--workload", "uniform:write=1.0,pages=3000,requests=20000"];
    let designs = ["--designs", "page-map:gc.policy=fifo,page-map", "--over-provisioning", "0.07,0.28"];
    let arguments = |more: &[&'static str]| [&["compare"][..], &load, &designs, more].concat();
    let csv = run_expecting_exit_status(EXIT_DONE, &arguments(&["--csv", "-", "--jobs", "2"]));
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| lines[0].iter().position(|title| *title == name).unwrap();
    let trace_commas = lines[1].len() - lines[0].len();
    let field = |run: usize, name: &str| lines[run][column(name) + trace_commas];
    assert_eq!(lines.len(), 5);
    let shares: Vec<f64> = (1..5).map(|run| field(run, "over_provisioning").parse().unwrap()).collect();
    assert!(shares[0] < 0.08 && shares[1] < 0.08 && shares[2] > 0.27 && shares[3] > 0.27, "{shares:?}");
    let amplification = |run: usize| field(run, "write_amplification").parse::<f64>().unwrap();
    assert_eq!(field(1, "variant"), "device.over_provisioning=0.07 gc.policy=fifo");
    assert!(amplification(1) > amplification(2) && amplification(2) > amplification(4), "{csv}");
    let table = run_expecting_exit_status(EXIT_DONE, &arguments(&[]));
    assert_eq!(table.matches("% over-provisioning").count(), 2, "a table for each drive:\n{table}");
    let markdown = run_expecting_exit_status(EXIT_DONE, &arguments(&["--markdown"]));
    assert!(markdown.contains("| --- | ---: | ---: | ---: |"), "{markdown}");
    let ignored = ["compare", load[0], load[1], "--designs", "page-map:recycle.policy=lru,page-map"];
    assert_refused(EXIT_USAGE_ERROR, &ignored, &["recycle.policy", "page-map"]);
}

/// TB written, years and drive writes of a run that did not reach a steady state must be marked.
#[test]
fn lifetime_figures_of_an_unsteady_run_are_marked_with_a_star() {
    let load = |requests: &str| format!("uniform:write=1.0,pages=20000,rate=1000,requests={requests}");
    let marked = ["TB written", "years at", "larger drive", "drive writes a day"];
    for (requests, is_steady) in [("300", false), ("400000", true)] {
        let load = load(requests);
        let run = ["replay", "--workload", &load, "--precondition", "steady", "--scale-to", "1TiB"];
        let table = run_expecting_exit_status(EXIT_DONE, &run);
        for title in marked {
            let line = table.lines().find(|line| line.contains(title)).unwrap();
            assert_eq!(line.ends_with('*'), !is_steady, "{line}\n{table}");
        }
        assert_eq!(table.contains("* extrapolated from a run that was not steady"), !is_steady, "{table}");
        let record =
            single_run_in(&run_expecting_exit_status(EXIT_DONE, &[&run[..], &["--json", "-"]].concat()));
        assert!(record["lifetime"]["years"].is_number(), "there is something to mark");
        assert_eq!(record["lifetime"]["is_from_steady_part"], is_steady);
        let csv = run_expecting_exit_status(EXIT_DONE, &[&run[..], &["--csv", "-"]].concat());
        let titles: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
        let last: Vec<&str> = csv.lines().nth(1).unwrap().split(',').collect();
        let behind = titles.len() - titles.iter().position(|title| *title == "is_from_steady_part").unwrap();
        assert_eq!(last[last.len() - behind], if is_steady { "1" } else { "0" }, "{csv}");
    }
}

/// A figure with a mark must have its footnote, and a note under the table must be true for the runs in the table.
#[test]
fn figures_and_notes_of_a_compare_table_agree_with_what_the_run_did() {
    let table_of = |load: &str, more: &[&str]| {
        run_expecting_exit_status(EXIT_DONE, &[&["replay", "--workload", load][..], more].concat())
    };
    let line = |table: &str, title: &str| {
        let found = table.lines().find(|line| line.starts_with(title));
        found.unwrap_or_else(|| panic!("no {title} in {table}")).split_whitespace().last().unwrap().to_owned()
    };
    let load = "uniform:pages=20000,requests=5000";
    let reads = table_of(&format!("{load},read=1.0"), &[]);
    assert_eq!(line(&reads, "write amplification"), "-", "nothing was written: {reads}");
    let trims = table_of(&format!("{load},trim=1.0"), &[]);
    assert_eq!(line(&trims, "host page trims"), "5,000", "what was asked for is counted");
    let closed = table_of(&format!("{load},read=0.5"), &["--timing", "event"]);
    assert!(closed.contains("years in closed loop"), "a slower drive has more years: {closed}");
    let deallocated = table_of(&format!("{load},read=0.5,trim=0.5"), &["--timing", "event"]);
    assert!(deallocated.contains("had been deallocated"), "the drive was full before: {deallocated}");
    assert!(!deallocated.contains("never written"), "{deallocated}");
    let small = "uniform:pages=1000,requests=200";
    let buffered = table_of(small, &["--buffer-pages", "4096"]);
    assert!(buffered.contains("write buffer of 4096 pages (16,384 KiB)"), "{buffered}");
    assert_ne!(line(&buffered, "absorbed by the write buffer"), "0", "{buffered}");
    assert_ne!(line(&buffered, "page programs"), "0", "what is left in the buffer is programmed: {buffered}");
    let kept = table_of(small, &["--buffer-pages", "4096", "--set", "buffer.keep_at_end=true"]);
    assert!(kept.contains("in the write buffer at the end and not programmed"), "{kept}");
    let slow = table_of(&format!("{load},rate=0.05"), &["--timing", "event"]);
    assert_eq!(line(&slow, "requests answered per second"), "0.0500", "and not 0: {slow}");
}

/// Regression: the RAM row was cut to whole MiB, and did not say that a map of 4-KiB pages takes four times as much.
#[test]
fn the_result_table_states_the_ram_of_the_map_and_of_one_with_4_kib_pages() {
    let load = "uniform:pages=200000,requests=2000";
    let drive = ["--device", "tlc-1t", "--set", "device.blocks_per_plane=64"];
    let table = run_expecting_exit_status(EXIT_DONE, &[&["replay", "--workload", load][..], &drive].concat());
    assert!(table.contains("takes 7.48 MiB") && table.contains("would take 29.91"), "{table}");
    assert!(table.contains("write buffer of 256 pages (4,096 KiB)"), "{table}");
    for title in ["written by the host, MiB", "  of parts of pages", "  if the map placed 4 KiB"] {
        assert!(table.contains(title), "{title}: {table}");
    }
}

/// The assumptions of an extrapolated lifetime must be printed beside its figure.
#[test]
fn the_life_table_states_the_assumptions_of_its_extrapolation() {
    let life =
        ["life", "--workload", "uniform:pages=4000,requests=100000", "--set", "device.endurance_cycles=40"];
    let table = run_expecting_exit_status(EXIT_DONE, &life);
    assert!(table.contains("all blocks for equal and evenly worn"), "{table}");
    let left = |more: &[&str]| -> f64 {
        let json = run_expecting_exit_status(EXIT_DONE, &[&life[..], &["--json", "-"], more].concat());
        let lives: Value = serde_json::from_str(&json).unwrap();
        lives["drives"][0]["lives"][0]["usable_endurance"].as_f64().unwrap()
    };
    let (equal, usual) = (left(&["--spread", "0", "--early-share", "0"]), left(&[]));
    assert!((equal - 1.0).abs() < 1e-9 && usual > 0.7 && usual < 0.99, "{equal} {usual}");
}

#[test]
fn compare_tables_of_seven_designs_fit_a_terminal() {
    let designs = "page-map,recyclable,dftl,remap,delta,integrated,geckoftl";
    let load = "uniform:write=1.0,pages=3000,requests=20000";
    let table = run_expecting_exit_status(
        EXIT_DONE,
        &["compare", "--workload", load, "--designs", designs, "--content", "dup:share=0.2"],
    );
    let too_wide = |line: &&str| line.starts_with(' ') && line.len() > 80;
    assert_eq!(table.lines().filter(too_wide).count(), 0, "{table}");
    assert!(designs.split(',').all(|design| table.contains(design)), "{table}");
}

/// Regression: with several designs, settings of their own and several values of over-provisioning, the tables had 140
/// columns.
#[test]
fn sweep_tables_fit_a_terminal() {
    let designs = "page-map:gc.policy=fifo,page-map,page-map:gc.policy=d-choices";
    let load = "uniform:write=1.0,pages=3000,requests=2000";
    let sweep = ["compare", "--workload", load, "--designs", designs, "--over-provisioning", "0.07,0.28"];
    let table = run_expecting_exit_status(EXIT_DONE, &sweep);
    let too_wide = |line: &&str| line.starts_with(' ') && line.len() > 80;
    assert_eq!(table.lines().filter(too_wide).count(), 0, "{table}");
    let titles: Vec<&str> = table.lines().filter(|line| line.contains("gc.policy=fifo  ")).collect();
    assert!(titles.len() >= 2 && titles.iter().all(|line| line.starts_with(' ')), "{table}");
    assert!(
        table.contains("7.0 % over-provisioning") && table.contains("28.0 % over-provisioning"),
        "{table}"
    );
}

/// Regression: 32,029 unique pages were reported as "compressed in chunks" although they were only overwritten while
/// they waited in the chunk buffer.
#[test]
fn pages_overwritten_in_the_compression_buffer_are_not_reported_as_compressed() {
    let fixture = Fixture::new(0);
    let header = fs::read_to_string(fixture.file("trace.csv")).unwrap();
    let rows: Vec<String> = (0..9).map(|k| format!("{k},W,0,4096,0,,\n")).collect();
    fs::write(fixture.file("again.csv"), header + &rows.concat()).unwrap();
    let table = run_expecting_exit_status(
        EXIT_DONE,
        &["replay", &fixture.path("again.csv"), "--design", "integrated"],
    );
    assert!(table.contains("in chunks, or replaced waiting") && !table.contains("compressed"), "{table}");
    for said in [
        "costs no program if the page is written again while it waits",
        "pages in the chunk buffer at the end: 1;",
    ] {
        assert!(table.contains(said), "{said}: {table}");
    }
}

/// Bug: four writes of a page were one program and three deltas, and no note said that no delta was programmed.
#[test]
fn deltas_that_were_not_programmed_are_noted() {
    let fixture = Fixture::new(0);
    let header = fs::read_to_string(fixture.file("trace.csv")).unwrap();
    let rows: Vec<String> = (0..4).map(|k| format!("{k},W,0,4096,0,,\n")).collect();
    fs::write(fixture.file("again.csv"), header + &rows.concat()).unwrap();
    let again = fixture.path("again.csv");
    let run =
        ["replay", &again, "--design", "delta", "--precondition", "none", "--content", "unique:delta=0.2"];
    let record = single_run_in(&run_expecting_exit_status(EXIT_DONE, &[&run[..], &["--json", "-"]].concat()));
    let deltas = &record["writes_by_form"]["delta"];
    assert!(deltas.as_u64() > Some(0), "{record}");
    let note = format!("writes whose delta was not programmed: {deltas};");
    assert!(record["notes"].to_string().contains(&note), "{}", record["notes"]);
}

#[test]
fn a_larger_drive_lives_longer_at_the_same_write_rate() {
    let load = "uniform:write=1.0,pages=3000,requests=20000,rate=100";
    let json = run_expecting_exit_status(
        EXIT_DONE,
        &["replay", "--workload", load, "--scale-to", "1TiB", "--json", "-"],
    );
    let lifetime = single_run_in(&json)["lifetime"].clone();
    let (years, scaled) = (lifetime["years"].as_f64().unwrap(), lifetime["scaled_years"].as_f64().unwrap());
    assert!(scaled / years > 80_000.0 && scaled / years < 95_000.0, "{lifetime}");
}

#[test]
fn the_flag_quiet_prints_nothing() {
    let output = wearwell(&["replay", "--workload", "uniform:pages=1000,requests=1000", "--quiet"]);
    assert_eq!((stdout(&output), stderr(&output)), (String::new(), String::new()));
}

#[test]
fn command_line_flags_override_the_configuration_file() {
    let fixture = Fixture::new(1);
    fs::write(fixture.file("drive.toml"), "[gc]\npolicy = \"fifo\"\nlow_blocks = 9\n").unwrap();
    let file = fixture.path("drive.toml");
    let shown = run_expecting_exit_status(
        EXIT_DONE,
        &[
            "config",
            "--config",
            &file,
            "--gc-policy",
            "random",
            "--queue-depth",
            "3",
            "--over-provisioning",
            "1",
        ],
    );
    for line in ["policy = \"random\"", "low_blocks = 9", "queue_depth = 3", "over_provisioning = 1.0"] {
        assert!(shown.contains(line), "`{line}` is missing in:\n{shown}");
    }
    fs::write(fixture.file("shown.toml"), &shown).unwrap();
    assert_eq!(
        run_expecting_exit_status(EXIT_DONE, &["config", "--config", &fixture.path("shown.toml")]),
        shown
    );
}

/// Bug: `--set` overrode an option with one value even if it came before the option, and options with several values
/// overrode every `--set`.
#[test]
fn the_last_option_or_setting_of_a_key_on_the_command_line_counts() {
    let shown = |arguments: &[&str], line: &str| {
        let text = run_expecting_exit_status(EXIT_DONE, &[&["config"], arguments].concat());
        assert!(text.contains(line), "{arguments:?}: `{line}` is missing in:\n{text}");
    };
    shown(&["--set", "replay.seed=7", "--seed", "9"], "seed = 9");
    shown(&["--seed", "9", "--set", "replay.seed=7"], "seed = 7");
    shown(&["--set", "replay.seed=7", "--seed", "9", "--set", "replay.seed=8"], "seed = 8");
    shown(&["--set", "gc.policy=fifo", "--gc-policy", "random"], "policy = \"random\"");
    shown(&["--gc-policy", "random", "--set", "gc.policy = fifo"], "policy = \"fifo\"");
    let policies = |arguments: &[&str]| {
        let replay = ["replay", "--workload", "uniform:pages=1000,requests=100", "--json", "-"];
        let json = run_expecting_exit_status(EXIT_DONE, &[&replay[..], arguments].concat());
        let result: Value = serde_json::from_str(&json).unwrap();
        let policy_of = |run: &Value| run["config"]["gc"]["policy"].as_str().unwrap().to_owned();
        result["runs"].as_array().unwrap().iter().map(policy_of).collect::<Vec<_>>()
    };
    let several = ["--gc-policy", "random,cost-benefit"];
    let one = ["--set", "gc.policy=fifo"];
    assert_eq!(policies(&[several, one].concat()), ["fifo"]);
    assert_refused(
        EXIT_USAGE_ERROR,
        &[&["config"][..], &several].concat(),
        &["the configuration of one run"],
    );
    for (option, value) in
        [("--csv", "-"), ("--workload", "uniform:pages=9"), ("--jobs", "2"), ("--format", "msr")]
    {
        let refused = format!("unexpected argument '{option}'");
        assert_refused(EXIT_USAGE_ERROR, &["config", option, value], &[&refused]);
    }
    shown(&[several, one].concat(), "policy = \"fifo\"");
    assert_eq!(policies(&[one, several].concat()), ["random", "cost-benefit"]);
}

/// Bug: a value that was listed twice was run twice.
#[test]
fn a_value_that_is_listed_twice_is_refused() {
    for (command, option, list, twice) in [
        ("compare", "--gc-policy", "fifo,greedy,fifo", "fifo"),
        ("ablate", "--over-provisioning", "0.10,0.1", "0.1"),
        ("compare", "--designs", "page-map,dftl,page-map", "page-map"),
        ("life", "--designs", "dftl,dftl", "dftl"),
        ("life", "--leveling", "none,static,none", "none"),
    ] {
        let refused = [command, "--workload", "uniform:pages=1000,requests=100", option, list];
        assert_refused(EXIT_USAGE_ERROR, &refused, &[&format!("{option} lists {twice} twice")]);
    }
    let [trace, content] = ["a.wwt", "parts.content=dedup,delta,dedup"];
    assert_refused(EXIT_USAGE_ERROR, &["compare", trace, trace], &["the command line lists a.wwt twice"]);
    assert_refused(
        EXIT_USAGE_ERROR,
        &["replay", trace, "--set", content],
        &["parts.content lists dedup twice"],
    );
}

/// Bug: a negative value was taken for an option that does not exist.
#[test]
fn a_negative_value_is_refused_by_the_bounds_of_its_option() {
    let replay = ["replay", "--workload", "uniform:pages=1000,requests=100"];
    for (option, bound) in [("--seed", "--seed <N>"), ("--over-provisioning", "device.over_provisioning")] {
        assert_refused(EXIT_USAGE_ERROR, &[&replay[..], &[option, "-1"]].concat(), &[bound]);
    }
}

#[test]
fn the_last_of_an_option_and_a_setting_of_one_key_counts_in_watch_and_create() {
    let fixture = Fixture::new(1);
    let page = fixture.path("page.html");
    let watch = ["watch", "--out", &page, "--requests", "5", "--force", "--seed", "3"];
    run_expecting_exit_status(EXIT_DONE, &[&watch[..], &["--set", "replay.seed=4"]].concat());
    let last_set = fs::read_to_string(&page).unwrap();
    run_expecting_exit_status(
        EXIT_DONE,
        &["watch", "--out", &page, "--requests", "5", "--force", "--seed", "4"],
    );
    assert_eq!(last_set, fs::read_to_string(&page).unwrap());
    let image = fixture.path("image");
    let create = ["create", &image, "--set", "device.preset=lx-40g", "--device", "no-such-size"];
    assert_refused(EXIT_USAGE_ERROR, &create, &["no-such-size"]);
}

/// Bug: the label of a run whose settings give a key twice had both values, and so did not say which was used.
#[test]
fn the_label_of_a_run_has_one_value_for_each_key() {
    let compare = ["compare", "--workload", "uniform:pages=1000,requests=100", "--json", "-"];
    let designs =
        "page-map,page-map:gc.policy=fifo,page-map:gc.policy=fifo:wear.dynamic=true:gc.policy=random";
    let more = ["--designs", designs, "--over-provisioning", "0.1,0.2", "--gc-policy", "greedy,cost-benefit"];
    let result: Value =
        serde_json::from_str(&run_expecting_exit_status(EXIT_DONE, &[&compare[..], &more].concat())).unwrap();
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 12);
    for run in runs {
        let label = run["variant"].as_str().unwrap();
        let policy = run["config"]["gc"]["policy"].as_str().unwrap();
        assert_eq!(label.matches("gc.policy=").count(), 1, "{label}");
        assert!(label.contains(&format!("gc.policy={policy}")), "{label}, but {policy}");
    }
}

/// Bug: the lifetime in years was computed for a write rate that the drive could not sustain, and the notes did not say
/// which drive was overloaded.
#[test]
fn a_comparison_omits_the_lifetimes_of_overloaded_drives_and_names_their_designs() {
    let load = "uniform:pages=10000,requests=30000,rate=100000";
    let designs = "page-map,dftl";
    let table = run_expecting_exit_status(
        EXIT_DONE,
        &["compare", "--workload", load, "--timing", "event", "--scale-to", "1TiB", "--designs", designs],
    );
    for row in ["years at this rate", "on the larger drive", "write latency mean, us"] {
        let row = table.lines().find(|line| line.contains(row)).unwrap();
        assert!(row.ends_with('-'), "{row}");
    }
    for design in ["page-map", "dftl"] {
        assert!(table.contains(&format!("note: {design}: overload: requests came for 0.3 s")), "{table}");
    }
}

#[test]
fn options_for_reading_a_trace_are_refused_on_generated_requests() {
    let fixture = Fixture::new(1);
    let page = fixture.path("page.html");
    let load = ["--workload", "uniform:pages=1000,requests=100"];
    let sentence = ["says how a trace is read, but the requests are generated"];
    for command in ["replay", "compare", "profile", "life", "ablate"] {
        for option in [
            ["--format", "csv"],
            ["--assume", "reads"],
            ["--action", "q"],
            ["--columns", "t=1,op=2,offset=3,length=4,unit=us"],
        ] {
            assert_refused(
                EXIT_USAGE_ERROR,
                &[&[command][..], &load, &option].concat(),
                &[option[0], sentence[0]],
            );
        }
    }
    assert_refused(EXIT_USAGE_ERROR, &["watch", "--out", &page, "--format", "csv"], &sentence);
    assert_refused(EXIT_USAGE_ERROR, &["replay", "--workload", load[1], "--skip-bad-lines"], &sentence);
}

#[test]
fn a_lifetime_is_not_scaled_to_a_drive_of_zero_bytes() {
    let arguments = ["replay", "--workload", "uniform:pages=1000,requests=100", "--scale-to", "0"];
    assert_refused(EXIT_USAGE_ERROR, &arguments, &["a drive exports more than 0 bytes"]);
}

/// Regression: the failure of one run dropped the records of all runs of the same input, or of those after it.
#[test]
fn a_failed_run_of_a_comparison_leaves_the_other_runs_in_the_result() {
    let load = "uniform:pages=4000,requests=2000";
    for designs in ["page-map,geckoftl,dftl", "geckoftl,page-map,dftl"] {
        let comparison = ["compare", "--workload", load, "--designs", designs, "--json", "-"];
        // Only geckoftl stores something in the spare area.
        let ended = wearwell(&[&comparison[..], &["--set", "device.spare_bytes=0"]].concat());
        assert_eq!(ended.status.code(), Some(EXIT_USAGE_ERROR), "{}", stderr(&ended));
        assert!(stderr(&ended).contains("device.spare_bytes is 0"), "{}", stderr(&ended));
        let result: Value = serde_json::from_str(&stdout(&ended)).unwrap();
        let finished: Vec<&Value> =
            result["runs"].as_array().unwrap().iter().map(|run| &run["design"]).collect();
        assert_eq!(finished, ["page-map", "dftl"]);
    }
}

/// Regression: a conversion from the native format to the native format lost the text about the origin of the trace.
#[test]
fn a_conversion_keeps_the_provenance_or_says_that_it_is_lost() {
    let fixture = Fixture::new(10);
    let [csv, first, second] = ["trace.csv", "first.wwt", "second.wwt"].map(|name| fixture.path(name));
    run_expecting_exit_status(
        EXIT_DONE,
        &["trace", "convert", &csv, &first, "--provenance", "made for a test"],
    );
    run_expecting_exit_status(EXIT_DONE, &["trace", "convert", &first, &second]);
    assert!(run_expecting_exit_status(EXIT_DONE, &["trace", "info", &second]).contains("made for a test"));
    let back = fixture.path("back.csv");
    let to_csv = wearwell(&["trace", "convert", &second, &back]);
    assert!(stderr(&to_csv).contains("a CSV has no place for it"), "{}", stderr(&to_csv));
    let other = fixture.path("other.csv");
    assert_refused(
        EXIT_USAGE_ERROR,
        &["trace", "convert", &second, &other, "--provenance", "x"],
        &["leave it out"],
    );
    assert_refused(
        EXIT_USAGE_ERROR,
        &["trace", "convert", &first, &fixture.path("third.wwt"), "--bytes"],
        &["--bytes has no effect"],
    );
}

#[test]
fn misspelt_names_on_the_command_line_are_refused_with_the_nearest_right_one() {
    let fixture = Fixture::new(10);
    let trace = fixture.path("trace.csv");
    for (arguments, parts) in [
        (
            vec!["replay", &trace, "--design", "recycleable"],
            vec!["unknown design", "did you mean `recyclable`?"],
        ),
        (vec!["compare", &trace, "--designs", "page-map,dft"], vec!["unknown design `dft`", "`dftl`"]),
        (vec!["replay", &trace, "--device", "lx-40"], vec!["unknown device", "did you mean `lx-40g`?"]),
        (vec!["replay", &trace, "--format", "cvs"], vec!["unknown format", "did you mean `csv`?"]),
        (vec!["replay", &trace, "--timing", "events"], vec!["timing.mode", "did you mean `event`?"]),
        (vec!["replay", &trace, "--set", "gc.polcy=fifo"], vec!["gc.polcy=fifo", "did you mean `policy`?"]),
        (vec!["replay", "--workload", "unifrom:pages=10"], vec!["`unifrom`", "did you mean `uniform`?"]),
        (
            vec!["replay", &trace, "--design", "recyclable", "--content", "dupp"],
            vec!["content model", "did you mean `dup`?"],
        ),
    ] {
        assert_refused(EXIT_USAGE_ERROR, &arguments, &parts);
    }
}

#[test]
fn contradictions_on_the_command_line_are_refused() {
    let fixture = Fixture::new(10);
    let trace = fixture.path("trace.csv");
    assert_refused(EXIT_USAGE_ERROR, &["replay"], &["required"]);
    assert_refused(EXIT_USAGE_ERROR, &["replay", &trace, "--workload", "uniform"], &["cannot be used with"]);
    assert_refused(EXIT_USAGE_ERROR, &["compare", &trace, "--workload", "uniform"], &["cannot be used with"]);
    assert_refused(
        EXIT_USAGE_ERROR,
        &["replay", &trace, "--set", "device.page_bytes=3000"],
        &["page_bytes is 3000"],
    );
    assert_refused(
        EXIT_USAGE_ERROR,
        &["replay", &trace, "--set", "device.logical_pages=5"],
        &["raise device.logical_pages"],
    );
}

/// A device that is impossible gives exit status 2, like other mistakes in the configuration.
#[test]
fn an_impossible_device_is_refused_as_a_configuration_mistake() {
    let spec = "uniform:pages=10,requests=10";
    let settings = ["--device", "bench-8g", "--set", "device.blocks_per_plane=4"];
    let arguments = [&["replay", "--workload", spec][..], &settings].concat();
    assert_refused(
        EXIT_USAGE_ERROR,
        &arguments,
        &["logical pages do not fit", "raise device.over_provisioning"],
    );
}

#[test]
fn replay_of_a_missing_or_unreadable_trace_fails() {
    assert_refused(EXIT_RUN_FAILED, &["replay", "no/such/file.csv"], &["no/such/file.csv", "No such file"]);
    let fixture = Fixture::new(10);
    fs::write(fixture.file("noise"), "this is no trace\n").unwrap();
    assert_refused(
        EXIT_RUN_FAILED,
        &["replay", &fixture.path("noise")],
        &["noise", "the format of the trace is not recognised"],
    );
    assert_refused(
        EXIT_RUN_FAILED,
        &["trace", "info", &fixture.path("noise")],
        &["the format of the trace is not recognised"],
    );
}

#[test]
fn bad_trace_lines_end_a_replay_unless_they_are_skipped() {
    let fixture = Fixture::new(100);
    let path = fixture.path("trace.csv");
    let text = fs::read_to_string(&path).unwrap() + "5,W,x,4096,0,\n";
    fs::write(&path, text).unwrap();
    assert_refused(EXIT_RUN_FAILED, &["replay", &path], &["line 102, column 5"]);
    let json = run_expecting_exit_status(EXIT_DONE, &["replay", &path, "--skip-bad-lines", "--json", "-"]);
    assert_eq!(single_run_in(&json)["trace"]["rejected"], 1);
}

#[test]
fn a_bad_configuration_file_is_refused_with_its_line() {
    let fixture = Fixture::new(10);
    fs::write(fixture.file("drive.toml"), "[gc]\n\nlow_block = 3\n").unwrap();
    let (trace, file) = (fixture.path("trace.csv"), fixture.path("drive.toml"));
    let refused = ["drive.toml:3:", "did you mean `low_blocks`?"];
    assert_refused(EXIT_USAGE_ERROR, &["replay", &trace, "--config", &file], &refused);
    assert_refused(EXIT_USAGE_ERROR, &["replay", &trace, "--config", "absent.toml"], &["absent.toml"]);
}

#[test]
fn replay_of_a_truncated_trace_writes_a_partial_record() {
    let fixture = Fixture::new(300_000);
    run_expecting_exit_status(
        EXIT_DONE,
        &["trace", "convert", &fixture.path("trace.csv"), &fixture.path("whole.wwt")],
    );
    let whole = fs::read(fixture.file("whole.wwt")).unwrap();
    fs::write(fixture.file("cut.wwt"), &whole[..whole.len() - whole.len() / 8]).unwrap();
    let cut = fixture.path("cut.wwt");
    let json = run_expecting_exit_status(EXIT_PARTIAL_RESULT, &["replay", &cut, "--json", "-"]);
    let record = single_run_in(&json);
    assert_eq!(record["partial"], true);
    assert!(record["partial_reason"].as_str().unwrap().contains("truncated or corrupt"));
    let table = run_expecting_exit_status(EXIT_PARTIAL_RESULT, &["replay", &cut]);
    assert!(table.contains("PARTIAL: page-map ended early"), "{table}");
    assert!(run_expecting_exit_status(EXIT_PARTIAL_RESULT, &["trace", "info", &cut]).contains("DAMAGED"));
}

/// Bug: with `-q`, or with a result on standard output, nothing told why the exit status was 3.
#[test]
fn the_reason_why_a_run_is_partial_is_printed_even_if_no_table_is() {
    let fixture = Fixture::new(300_000);
    run_expecting_exit_status(
        EXIT_DONE,
        &["trace", "convert", &fixture.path("trace.csv"), &fixture.path("whole.wwt")],
    );
    let whole = fs::read(fixture.file("whole.wwt")).unwrap();
    fs::write(fixture.file("cut.wwt"), &whole[..whole.len() - whole.len() / 8]).unwrap();
    let cut = fixture.path("cut.wwt");
    for without_table in [&["-q"][..], &["--json", "-"], &["-q", "--json", "-"]] {
        let output = wearwell(&[&["replay", &cut], without_table].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(EXIT_PARTIAL_RESULT), "{said}");
        assert_eq!(said.matches("PARTIAL: page-map ended early").count(), 1, "{without_table:?}: {said}");
        assert!(said.contains("truncated or corrupt"), "{without_table:?}: {said}");
    }
    let with_table = wearwell(&["replay", &cut]);
    assert!(!stderr(&with_table).contains("PARTIAL"), "the table has the reason");
}

/// Returns the JSON output of `trace info`, without the fields that name the file.
fn trace_info_of(path: &str) -> Value {
    let mut info: Value =
        serde_json::from_str(&run_expecting_exit_status(EXIT_DONE, &["trace", "info", path, "--json"]))
            .unwrap();
    for key in ["format", "sha256", "provenance"] {
        info.as_object_mut().unwrap().remove(key);
    }
    info
}

#[test]
fn converting_a_trace_to_csv_and_back_changes_nothing() {
    let fixture = Fixture::new(5000);
    let [from, native, back, again] =
        ["trace.csv", "trace.wwt", "back.csv", "again.wwt"].map(|name| fixture.path(name));
    run_expecting_exit_status(
        EXIT_DONE,
        &["trace", "convert", &from, &native, "--provenance", "made for a test"],
    );
    run_expecting_exit_status(EXIT_DONE, &["trace", "convert", &native, &back]);
    run_expecting_exit_status(EXIT_DONE, &["trace", "convert", &back, &again]);
    let original = trace_info_of(&from);
    assert_eq!(original["requests"]["write"], 3750);
    assert_eq!(original["content"]["distinct"], 50);
    for converted in [&native, &back, &again] {
        assert_eq!(trace_info_of(converted), original);
    }
    assert_eq!(fs::read(&from).unwrap(), fs::read(&back).unwrap());
    assert!(run_expecting_exit_status(EXIT_DONE, &["trace", "info", &native]).contains("made for a test"));
}

/// Regression: `trace convert X X` replaced its input without a message, and so did a conversion to a link to the
/// input.
#[test]
fn trace_convert_never_overwrites_its_own_input() {
    let fixture = Fixture::new(100);
    let (path, hard, soft) = (fixture.path("trace.csv"), fixture.path("hard.csv"), fixture.path("soft.csv"));
    fs::hard_link(&path, &hard).unwrap();
    std::os::unix::fs::symlink(&path, &soft).unwrap();
    let before = fs::read(&path).unwrap();
    for to in [&path, &hard, &soft] {
        assert_refused(EXIT_USAGE_ERROR, &["trace", "convert", &path, to, "--force"], &["is an input"]);
        for command in ["replay", "compare", "ablate", "life", "profile"] {
            assert_refused(EXIT_USAGE_ERROR, &[command, &path, "--json", to, "--force"], &["is an input"]);
        }
    }
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// Regression: existing outputs were replaced without a message. An empty file may be replaced, because nothing is
/// lost.
#[test]
fn an_existing_output_file_is_overwritten_only_with_force() {
    let fixture = Fixture::new(100);
    let (trace, old, empty) = (fixture.path("trace.csv"), fixture.path("old.wwt"), fixture.path("empty"));
    fs::write(&old, "old").unwrap();
    let writers: [&[&str]; 7] = [
        &["trace", "convert", &trace, &old],
        &["replay", &trace, "-q", "--json", &old],
        &["replay", &trace, "-q", "--csv", &old],
        &["replay", &trace, "-q", "--parquet", &old],
        &["profile", &trace, "-q", "--json", &old],
        &["life", &trace, "-q", "--csv", &old, "--set", "device.endurance_cycles=3"],
        &["serve", "--memory", "--size", "16MiB", "--socket", &fixture.path("s"), "--record", &old],
    ];
    for writer in &writers {
        assert_refused(EXIT_USAGE_ERROR, writer, &["old.wwt", "exists", "--force"]);
        assert_eq!(fs::read_to_string(&old).unwrap(), "old", "{writer:?}");
    }
    for writer in &writers[..6] {
        run_expecting_exit_status(EXIT_DONE, &[writer, &["--force"][..]].concat());
        assert_ne!(fs::read_to_string(&old).unwrap_or_default(), "old", "{writer:?}");
        fs::write(&old, "old").unwrap();
    }
    fs::write(&empty, "").unwrap();
    run_expecting_exit_status(EXIT_DONE, &["replay", &trace, "-q", "--json", &empty]);
}

/// Regression: a recording to a new file `run.ops` truncated an existing `run.pages`, its second file, without a
/// message.
/// Bug: the new content was first written to the path of the output with `.partial` after it, over a file of that name
/// that the user had, even if it was the input.
#[test]
fn a_file_named_as_the_output_with_another_ending_keeps_its_content() {
    let fixture = Fixture::new(100);
    let (output, input) = (fixture.path("t.wwt"), fixture.path("t.wwt.partial"));
    run_expecting_exit_status(EXIT_DONE, &["trace", "convert", &fixture.path("trace.csv"), &output]);
    fs::rename(&output, &input).unwrap();
    let (before, names) = (fs::read(&input).unwrap(), fs::read_dir(fixture.folder.path()).unwrap().count());
    run_expecting_exit_status(EXIT_DONE, &["trace", "convert", &input, &output]);
    assert!(fs::read(&input).unwrap() == before && fs::read(&output).unwrap() == before);
    assert_eq!(fs::read_dir(fixture.folder.path()).unwrap().count(), names + 1, "no temporary file is left");
}

#[test]
fn an_existing_page_file_of_a_recording_is_overwritten_only_with_force() {
    let fixture = Fixture::new(100);
    let (ops, pages, socket) = (fixture.path("run.ops"), fixture.path("run.pages"), fixture.path("s"));
    fs::write(&pages, "old").unwrap();
    let serve = ["serve", "--memory", "--size", "16MiB", "--socket", &socket, "--record", &ops];
    assert_refused(EXIT_USAGE_ERROR, &serve, &["run.pages", "exists", "--force"]);
    assert_eq!(fs::read_to_string(&pages).unwrap(), "old");
    assert!(!Path::new(&ops).exists(), "nothing of a refused recording is created");
}

#[test]
fn a_failed_trace_conversion_leaves_no_output_file() {
    let fixture = Fixture::new(100);
    let path = fixture.path("trace.csv");
    fs::write(&path, fs::read_to_string(&path).unwrap() + "nonsense\n").unwrap();
    assert_refused(EXIT_RUN_FAILED, &["trace", "convert", &path, &fixture.path("out.wwt")], &["line 102"]);
    let names = fs::read_dir(fixture.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["trace.csv"]);
}

#[test]
fn list_commands_name_every_design_device_and_workload() {
    let devices = run_expecting_exit_status(EXIT_DONE, &["devices"]);
    for name in
        ["auto", "lx-40g", "df-64g", "rm-36g", "il-64g", "gk-2t", "tlc-1t", "qlc-2t", "lab-2t", "bench-8g"]
    {
        assert!(devices.lines().any(|line| line.split(' ').next() == Some(name)), "{name}");
    }
    let designs = run_expecting_exit_status(EXIT_DONE, &["designs"]);
    for word in ["page-map", "recyclable", "dftl", "source", "modelled", "not modelled"] {
        assert!(designs.contains(word), "{word}");
    }
    let workloads = run_expecting_exit_status(EXIT_DONE, &["workloads"]);
    for word in ["uniform", "zipf", "hotcold", "sequential", "theta", "dup"] {
        assert!(workloads.contains(word), "{word}");
    }
    let formats = run_expecting_exit_status(EXIT_DONE, &["trace", "formats"]);
    for word in ["native", "csv", "capture", "msr", "blkparse", "spc"] {
        assert!(formats.contains(word), "{word}");
    }
}

#[test]
fn shell_completions_contain_every_subcommand() {
    let script = run_expecting_exit_status(EXIT_DONE, &["completions", "bash"]);
    assert!(script.contains("complete -F") && script.contains("over-provisioning"));
    assert_refused(EXIT_USAGE_ERROR, &["completions", "cmd"], &["possible values", "bash"]);
}

#[test]
fn every_command_has_help_and_version() {
    assert_eq!(
        run_expecting_exit_status(EXIT_DONE, &["--version"]).trim(),
        format!("wearwell {}", env!("CARGO_PKG_VERSION"))
    );
    for command in ["replay", "compare", "trace", "devices", "designs", "workloads", "config", "completions"]
    {
        assert!(
            run_expecting_exit_status(EXIT_DONE, &[command, "--help"]).contains("Usage: wearwell"),
            "{command}"
        );
    }
}

#[cfg(unix)]
mod interruption {
    use std::process::{Child, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// Workload that runs much longer than a test waits.
    const LONG_WORKLOAD: &str = "uniform:pages=200000,requests=1000000000";

    /// Starts the program `wearwell` with these arguments without waiting for its end.
    fn start_wearwell(arguments: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wearwell"));
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Sends SIGINT, the signal of ctrl-C, to a running command.
    fn interrupt(child: &Child) {
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the end of an interrupted command, and fails if the command does not end soon.
    fn wait_for_interrupted(child: Child) -> Output {
        wait_for_interrupted_with_action(child, || ())
    }

    /// Waits for the end of an interrupted command like [`wait_for_interrupted`], and calls `meanwhile` repeatedly
    /// until then.
    fn wait_for_interrupted_with_action(mut child: Child, mut meanwhile: impl FnMut()) -> Output {
        let deadline = Instant::now() + Duration::from_secs(60);
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > deadline {
                child.kill().unwrap();
                panic!("ctrl-C was not heard");
            }
            meanwhile();
            std::thread::sleep(Duration::from_millis(20));
        }
        child.wait_with_output().unwrap()
    }

    /// Waits 1.5 s, in which the command starts and sets its ctrl-C handler; fails if the command has ended already.
    fn wait_until_running(child: &mut Child) {
        std::thread::sleep(Duration::from_millis(1500));
        assert!(child.try_wait().unwrap().is_none(), "the run is over already");
    }

    /// Starts a command whose standard input is a pipe, and returns it with the pipe.
    fn start_with_pipe(arguments: &[&str]) -> (Child, std::process::ChildStdin) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wearwell"));
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let pipe = child.stdin.take().unwrap();
        (child, pipe)
    }

    /// Regression: a trace that came through a pipe was copied to its end, although only some requests were replayed.
    #[test]
    fn of_a_pipe_that_never_ends_only_the_replayed_requests_are_read() {
        let header = "time_ns,op,offset_bytes,len_bytes,device,fingerprints,source_bytes\n";
        for (arguments, sample) in [
            (&["replay", "-", "--requests", "50", "--json", "-"][..], "0,W,4096,4096,0,,\n"),
            (
                &["compare", "-", "--requests", "50", "--designs", "page-map,dftl", "--json", "-"],
                "5,W,0,8192,0,,\n",
            ),
        ] {
            let (child, mut pipe) = start_with_pipe(arguments);
            let writer = std::thread::spawn(move || {
                use std::io::Write as _;
                // Ends when the command has ended and closed the pipe.
                pipe.write_all(header.as_bytes()).unwrap();
                while pipe.write_all(sample.repeat(1000).as_bytes()).is_ok() {}
            });
            let output = wait_for_interrupted(child);
            writer.join().unwrap();
            assert_eq!(output.status.code(), Some(EXIT_DONE), "{}", stderr(&output));
            let records: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(records["runs"][0]["trace"]["requests"], 50);
            assert!(
                stderr(&output).contains("standard input: only 50 requests are read"),
                "{}",
                stderr(&output)
            );
        }
    }

    /// Regression: ctrl-C was noticed only after the end of the pipe. The pipe of this test stays open, and empty.
    #[test]
    fn ctrl_c_ends_the_copy_of_a_pipe() {
        for command in ["replay", "profile"] {
            let (mut child, pipe) = start_with_pipe(&[command, "-"]);
            wait_until_running(&mut child);
            interrupt(&child);
            let output = wait_for_interrupted(child);
            drop(pipe);
            assert_eq!(output.status.code(), Some(EXIT_PARTIAL_RESULT), "{}", stderr(&output));
            assert!(stderr(&output).contains("interrupted before the first request"), "{}", stderr(&output));
        }
    }

    #[test]
    fn ctrl_c_during_a_replay_writes_a_partial_record() {
        let fixture = Fixture::new(1);
        let json = fixture.path("run.json");
        let mut child = start_wearwell(&["replay", "--workload", LONG_WORKLOAD, "--json", &json]);
        wait_until_running(&mut child);
        interrupt(&child);
        let output = wait_for_interrupted(child);
        assert_eq!(output.status.code(), Some(EXIT_PARTIAL_RESULT), "{}", stderr(&output));
        let record = single_run_in(&fs::read_to_string(&json).unwrap());
        assert_eq!((&record["partial"], &record["partial_reason"]), (&true.into(), &"interrupted".into()));
        let done = record["trace"]["requests"].as_u64().unwrap();
        assert!(done > 0 && record["host_page_writes"] == done);
    }

    #[test]
    fn ctrl_c_during_compare_keeps_the_finished_runs() {
        let fixture = Fixture::new(1);
        let json = fixture.path("runs.json");
        let mut child = start_wearwell(&[
            "compare",
            "--workload",
            LONG_WORKLOAD,
            "--designs",
            "page-map,dftl",
            "--json",
            &json,
        ]);
        wait_until_running(&mut child);
        interrupt(&child);
        assert_eq!(wait_for_interrupted(child).status.code(), Some(EXIT_PARTIAL_RESULT));
        let runs = json_of(Path::new(&json))["runs"].as_array().unwrap().clone();
        assert_eq!(runs.len(), 1, "the second design is not started");
        assert_eq!(runs[0]["partial"], true);
    }

    #[test]
    fn ctrl_c_during_preconditioning_ends_the_command() {
        let fixture = Fixture::new(1);
        let json = fixture.path("run.json");
        let workload = "uniform:pages=1000,requests=10";
        let mut child = start_wearwell(&[
            "replay",
            "--workload",
            workload,
            "--device",
            "lab-8g",
            "--precondition",
            "steady",
            "--set",
            "precondition.overwrite=1000",
            "--json",
            &json,
        ]);
        wait_until_running(&mut child);
        interrupt(&child);
        assert_eq!(wait_for_interrupted(child).status.code(), Some(EXIT_PARTIAL_RESULT));
        assert_eq!(single_run_in(&fs::read_to_string(&json).unwrap())["trace"]["requests"], 0);
    }

    /// Regression: ctrl-C during the survey of the input, when there was nothing to report, made the command panic.
    #[test]
    fn ctrl_c_during_the_first_pass_over_the_input_is_reported() {
        let fixture = Fixture::new(1);
        let fifo = fixture.path("never-ending.csv");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let mut child = start_wearwell(&["replay", &fifo, "--format", "csv"]);
        // The survey waits for the rest of the trace, which ends only after the signal.
        let mut writer = fs::OpenOptions::new().write(true).open(&fifo).unwrap();
        std::io::Write::write_all(
            &mut writer,
            b"time_ns,op,offset_bytes,len_bytes,device,fingerprints\n0,W,0,4096,0,\n",
        )
        .unwrap();
        wait_until_running(&mut child);
        interrupt(&child);
        std::thread::sleep(Duration::from_millis(200));
        drop(writer);
        // The command opens the pipe once more, for the checksum, and waits for a writer that ends at once. Opened both
        // ways a pipe never makes the test wait.
        let come_and_go = || drop(fs::OpenOptions::new().read(true).write(true).open(&fifo));
        let output = wait_for_interrupted_with_action(child, come_and_go);
        assert_eq!(output.status.code(), Some(EXIT_PARTIAL_RESULT), "{}", stderr(&output));
        assert!(stderr(&output).contains("interrupted before the first request"), "{}", stderr(&output));
    }
}

/// Runs a shell script in which `$W` is the program `wearwell` and `$1`, `$2`, ... are the arguments.
fn run_shell(script: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("bash");
    command.env("W", env!("CARGO_BIN_EXE_wearwell")).args(["-o", "pipefail", "-c", script, "bash"]);
    command.args(arguments).output().unwrap()
}

#[test]
fn a_closed_output_pipe_causes_no_panic() {
    let fixture = Fixture::new(400);
    let trace = fixture.path("trace.csv");
    for command in [
        "devices",
        "designs",
        "workloads",
        "config",
        "completions bash",
        "trace formats",
        "trace info $1",
        "replay $1",
        "compare $1 --designs page-map,dftl --json -",
    ] {
        let output = run_shell(&format!("$W {command} | true"), &[&trace]);
        assert_eq!(output.status.code(), Some(EXIT_DONE), "{command}: {}", stderr(&output));
        assert!(!stderr(&output).contains("panicked"), "{command}: {}", stderr(&output));
    }
    let full = run_shell("$W devices > /dev/full", &[]);
    assert_eq!(full.status.code(), Some(EXIT_USAGE_ERROR));
    assert!(
        stderr(&full).contains("standard output: cannot write this result: No space left"),
        "{}",
        stderr(&full)
    );
}

#[test]
fn a_trace_can_come_through_a_pipe_or_standard_input() {
    let fixture = Fixture::new(2000);
    let trace = fixture.path("trace.csv");
    let programs = |output: &Output| -> Value {
        assert_eq!(output.status.code(), Some(EXIT_DONE), "{}", stderr(output));
        single_run_in(&stdout(output))["programs"].clone()
    };
    let file = programs(&run_shell("$W replay $1 --json -", &[&trace]));
    assert_eq!(programs(&run_shell("cat $1 | $W replay - --json -", &[&trace])), file);
    assert_eq!(programs(&run_shell("gzip -c $1 | $W replay - --json -", &[&trace])), file);
    assert_eq!(programs(&run_shell("$W replay <(cat $1) --json -", &[&trace])), file);
    let named = run_shell("cat $1 | $W replay - --json -", &[&trace]);
    let record = single_run_in(&stdout(&named));
    assert_eq!(record["trace"]["path"], "standard input");
}

#[test]
fn results_are_written_through_pipes_and_links_without_replacing_them() {
    let fixture = Fixture::new(400);
    let (trace, pipe, link, target) =
        (fixture.path("trace.csv"), fixture.path("pipe"), fixture.path("link"), fixture.path("target"));
    let piped = run_shell("mkfifo $2; $W replay $1 -q --json $2 & cat $2; wait $!", &[&trace, &pipe]);
    assert_eq!(single_run_in(&stdout(&piped))["host_page_writes"], 300);
    assert!(!fs::metadata(&pipe).unwrap().is_file(), "the pipe is still a pipe");
    fs::write(&target, "old").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    assert_refused(EXIT_USAGE_ERROR, &["replay", &trace, "-q", "--csv", &link], &["exists"]);
    run_expecting_exit_status(EXIT_DONE, &["replay", &trace, "-q", "--csv", &link, "--force"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&target).unwrap().starts_with("trace,design"));
}

#[test]
fn an_unwritable_output_file_is_refused_before_the_run() {
    let fixture = Fixture::new(10);
    let folder = fixture.path("");
    let missing = fixture.path("nowhere/run.json");
    // The trace does not exist either: the output is what the message is about.
    assert_refused(
        EXIT_USAGE_ERROR,
        &["replay", "no.csv", "--json", &missing],
        &["nowhere/run.json", "No such file"],
    );
    assert_refused(EXIT_USAGE_ERROR, &["replay", "no.csv", "--json", &folder], &["directory"]);
    // Bug: the second result replaced the first, or both were mixed on standard output.
    for twice in ["results", "-"] {
        let arguments = ["replay", "no.csv", "--json", twice, "--csv", twice];
        assert_refused(EXIT_USAGE_ERROR, &arguments, &["--json and --csv both name"]);
    }
    // Bug: two names of one file were taken for two files.
    let (one, other) = (fixture.path("results"), fixture.path("./results"));
    let arguments = ["replay", "no.csv", "--json", &one, "--csv", &other];
    assert_refused(EXIT_USAGE_ERROR, &arguments, &["--json and --csv both name"]);
    // Bug: the page replaced the profile.
    let arguments = ["profile", "no.csv", "--json", &one, "--report", &other];
    assert_refused(EXIT_USAGE_ERROR, &arguments, &["--json and --report both name"]);
    let arguments = ["life", "no.csv", "--csv", &one, "--curves", &other];
    assert_refused(EXIT_USAGE_ERROR, &arguments, &["--csv and --curves both name"]);
}

#[test]
fn an_unreadable_trace_does_not_end_the_runs_of_other_traces() {
    let fixture = Fixture::new(400);
    let (trace, missing) = (fixture.path("trace.csv"), fixture.path("missing.csv"));
    let output = wearwell(&["compare", &missing, &trace, "--designs", "page-map", "-q", "--csv", "-"]);
    assert_eq!(output.status.code(), Some(EXIT_PARTIAL_RESULT));
    assert!(stderr(&output).contains("missing.csv"), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().count(), 2, "a header and the run of the other input");
    let infos = wearwell(&["trace", "info", &missing, &trace, &trace, "--json"]);
    assert_eq!(infos.status.code(), Some(EXIT_PARTIAL_RESULT));
    let list: Value = serde_json::from_str(&stdout(&infos)).unwrap();
    assert_eq!((list.as_array().unwrap().len(), &list[0]["path"]), (2, &trace.as_str().into()));
}

#[test]
fn replay_of_an_input_without_requests_fails() {
    let fixture = Fixture::new(0);
    assert_refused(EXIT_RUN_FAILED, &["replay", &fixture.path("trace.csv")], &["no request"]);
    fs::write(fixture.file("empty.csv"), "").unwrap();
    assert_refused(EXIT_RUN_FAILED, &["replay", &fixture.path("empty.csv")], &["empty"]);
    assert_refused(
        EXIT_USAGE_ERROR,
        &["replay", "--workload", "uniform:", "--requests", "0"],
        &["replay.requests is 0"],
    );
    // Only queued requests: the stage that is read by default has none.
    let queued = "  8,0    1        1     0.000000000   697  Q   W 223490 + 8 [kjournald]\n";
    fs::write(fixture.file("queued.txt"), queued).unwrap();
    assert_refused(
        EXIT_RUN_FAILED,
        &["replay", &fixture.path("queued.txt")],
        &["no request", "stage D", "--action"],
    );
    // Bug: statistics of nothing but zeroes were printed without a word.
    let info = wearwell(&["trace", "info", &fixture.path("queued.txt")]);
    let sentence = "the trace has no requests at stage D (--action Q or C reads another stage)";
    assert!(info.status.success() && stderr(&info).contains(&format!("queued.txt: {sentence}")), "{info:?}");
    assert_refused(EXIT_RUN_FAILED, &["profile", &fixture.path("queued.txt")], &["queued.txt", sentence]);
}

/// Bug: the note also stood below the years of a drive whose writes are throttled to its target lifetime.
#[test]
fn years_in_closed_loop_have_a_note_if_writes_are_not_throttled() {
    let note = |settings: &[&str]| {
        let workload =
            ["replay", "--workload", "uniform:pages=4000,requests=40000,write=1", "--set", "device.fit=0.9"];
        let loop_settings = ["--timing", "event", "--arrival", "closed"];
        let arguments = [&workload[..], &loop_settings, settings].concat();
        let text = run_expecting_exit_status(EXIT_DONE, &arguments);
        assert!(text.contains("years"), "{text}");
        text.contains("note: years in closed loop are those of a drive that is written as fast as it can")
    };
    assert!(note(&[]));
    let throttling = ["lifetime.schemes=throttling", "lifetime.target_years=5", "lifetime.epoch_s=10"];
    assert!(!note(&throttling.map(|setting| ["--set", setting]).concat()));
}

#[test]
fn the_seed_flag_changes_the_generated_workload() {
    let programs = |seed: &str, workload: &str| {
        // A drive in use is another drive for another seed.
        let arguments =
            ["replay", "--workload", workload, "--seed", seed, "--precondition", "none", "--json", "-"];
        single_run_in(&run_expecting_exit_status(EXIT_DONE, &arguments))["programs"].clone()
    };
    let load = "zipf:pages=3000,requests=30000";
    assert_ne!(programs("1", load), programs("2", load));
    assert_eq!(programs("2", load), programs("2", load));
    let own = "zipf:pages=3000,requests=30000,seed=9";
    assert_eq!(programs("1", own), programs("2", own), "a seed in the specification stays");
}

#[test]
fn settings_that_a_run_would_ignore_are_refused() {
    let fixture = Fixture::new(400);
    let trace = fixture.path("trace.csv");
    for (arguments, key) in [
        (vec!["--design", "geckoftl", "--set", "recycle.policy=inf"], "recycle.policy"),
        (vec!["--set", "gc.d=4"], "gc.d"),
        (vec!["--queue-depth", "8"], "replay.queue_depth"),
        (vec!["--timing", "event", "--arrival", "open", "--queue-depth", "8"], "replay.queue_depth"),
        (vec!["--set", "timing.suspend=true"], "timing.suspend"),
        (vec!["--arrival", "closed"], "replay.arrival"),
        (vec!["--set", "buffer.policy=slru"], "buffer.policy"),
        (vec!["--set", "precondition.share=0.2"], "precondition.share"),
        (vec!["--set", "lifetime.target_years=3"], "lifetime.target_years"),
        (vec!["--design", "recyclable", "--content", "dup:share=0.5"], "content.model"),
        (vec!["--content", "dup:share=0.5"], "content.model has no effect on page-map"),
        (vec!["--scale-to", "1TiB"], "--scale-to"),
    ] {
        // Every write of this trace has content.
        fs::write(
            fixture.file("written.csv"),
            "time_ns,op,offset_bytes,len_bytes,device,fingerprints\n0,W,0,4096,0,7\n",
        )
        .unwrap();
        let written = fixture.path("written.csv");
        let arguments = [vec!["replay", &written], arguments].concat();
        assert_refused(EXIT_USAGE_ERROR, &arguments, &[key, "no effect"]);
    }
    let several = ["compare", &trace, "--designs", "page-map,recyclable", "--set", "recycle.policy=inf"];
    let output = wearwell(&several);
    assert_eq!(output.status.code(), Some(EXIT_DONE));
    assert!(
        stderr(&output).contains("note: recycle.policy has no effect on page-map"),
        "{}",
        stderr(&output)
    );
}

/// Bug: `--gc-policy` was accepted although every design had a policy of its own.
#[test]
fn a_setting_that_every_design_overrides_is_refused() {
    let load = ["compare", "--workload", "uniform:pages=1000,requests=100", "--designs"];
    let both = "page-map:gc.policy=fifo,dftl:gc.policy=random";
    for option in
        [&["--gc-policy", "greedy"][..], &["--set", "gc.policy=greedy"], &["--gc-policy", "greedy,fifo"]]
    {
        assert_refused(
            EXIT_USAGE_ERROR,
            &[&load[..], &[both], option].concat(),
            &["gc.policy has no effect", "own"],
        );
    }
    run_expecting_exit_status(
        EXIT_DONE,
        &[&load[..], &["page-map:gc.policy=fifo,dftl", "--gc-policy", "greedy"]].concat(),
    );
}

/// Bug: only the configuration without the varied values was checked. So a list that no run used was accepted, and a
/// setting that one value of a list needed was refused.
#[test]
fn settings_are_checked_with_each_value_of_a_list() {
    let load = ["compare", "--workload", "uniform:pages=1000,requests=100", "--designs", "page-map"];
    let ignored =
        ["--device", "lab-8g", "--set", "device.logical_pages=1000000", "--over-provisioning", "0.15,0.5"];
    assert_refused(
        EXIT_USAGE_ERROR,
        &[&load[..], &ignored].concat(),
        &["device.over_provisioning has no effect on page-map"],
    );
    let ignored = ["--gc-policy", "fifo,random", "--set", "gc.ties=newest"];
    assert_refused(EXIT_USAGE_ERROR, &[&load[..], &ignored].concat(), &["gc.ties has no effect"]);
    let used = ["--gc-policy", "d-choices,fifo", "--set", "gc.d=4"];
    run_expecting_exit_status(EXIT_DONE, &[&load[..], &used].concat());
}

/// Bug: `life --leveling` silently replaced the settings of wear leveling.
#[test]
fn life_refuses_wear_settings_that_leveling_replaces() {
    let life = ["life", "--workload", "uniform:pages=1000,requests=100", "--leveling", "static", "--set"];
    for (setting, part) in [
        ("wear.static_gap=5", "wear.static_gap has no effect, because --leveling"),
        ("wear.dynamic=true", "wear.dynamic has no effect, because --leveling"),
    ] {
        assert_refused(EXIT_USAGE_ERROR, &[&life[..], &[setting]].concat(), &[part]);
    }
    let none = ["life", "--workload", "uniform:pages=1000,requests=100", "--leveling", "none"];
    assert_refused(EXIT_USAGE_ERROR, &[&none[..], &["--set", "wear.scan=true"]].concat(), &["wear.scan"]);
}

/// Bug: requests later than the event engine can represent all arrived at the same time, without a word.
#[test]
fn a_run_ends_where_the_time_of_the_event_engine_ends() {
    let run = |timing: &str| {
        // A request in 10,000 s: 9.1 years are 28,800 requests.
        let load = ["replay", "--workload", "zipf:pages=2000,requests=40000,write=1,rate=0.001", "--quiet"];
        let scaled = ["--set", "replay.time_scale=10", "--timing", timing, "--json", "-"];
        let output = wearwell(&[&load[..], &scaled].concat());
        (output.status.code(), single_run_in(&stdout(&output)))
    };
    let (code, ended) = run("event");
    assert_eq!(code, Some(EXIT_PARTIAL_RESULT));
    let reason = ended["partial_reason"].as_str().unwrap();
    assert!(reason.contains("the event engine represents 9.1 years"), "{reason}");
    let writes = ended["host_page_writes"].as_u64().unwrap();
    assert!((28_700..=28_900).contains(&writes), "{writes} writes in 9.1 years");
    let (code, whole) = run("timeline");
    assert_eq!((code, &whole["host_page_writes"]), (Some(EXIT_DONE), &Value::from(40_000)));
}

/// Bug: `--scale-to`, which scales lifetimes to another drive size, was accepted without effect in a run without times.
#[test]
fn scaling_a_lifetime_needs_a_run_with_times() {
    let untimed = ["replay", "--workload", "uniform:pages=1000,requests=100", "--scale-to", "1TiB"];
    assert_refused(EXIT_USAGE_ERROR, &untimed, &["--scale-to has no effect", "leave it out"]);
    run_expecting_exit_status(EXIT_DONE, &[&untimed[..], &["--timing", "event"]].concat());
    let open = [&untimed[..], &["--timing", "event", "--arrival", "open"]].concat();
    assert_refused(EXIT_USAGE_ERROR, &open, &["--scale-to has no effect"]);
    let fixture = Fixture::new(400);
    fs::write(
        fixture.file("untimed.csv"),
        "time_ns,op,offset_bytes,len_bytes,device\n0,W,0,4096,0\n0,W,4096,4096,0\n",
    )
    .unwrap();
    let (timed, untimed) = (fixture.path("trace.csv"), fixture.path("untimed.csv"));
    let several = wearwell(&["compare", &timed, &untimed, "--designs", "page-map", "--scale-to", "1TiB"]);
    assert_eq!(several.status.code(), Some(EXIT_DONE), "{}", stderr(&several));
    let note = "untimed.csv: --scale-to has no effect";
    assert_eq!(stderr(&several).matches(note).count(), 1, "{}", stderr(&several));
}

#[test]
fn a_lifetime_is_not_scaled_to_a_drive_smaller_than_the_simulated_one() {
    let load = "uniform:pages=1000,requests=100,rate=1000";
    let sentence = ["--scale-to is 10 bytes, but the simulated drive exports", "at least as large"];
    for command in ["replay", "compare", "life", "ablate"] {
        let arguments = [command, "--workload", load, "--scale-to", "10"];
        assert_refused(EXIT_USAGE_ERROR, &arguments, &sentence);
    }
}

#[test]
fn over_provisioning_out_of_range_is_refused_on_the_command_line() {
    for share in ["7", "0.00001", "0"] {
        let arguments = ["replay", "--workload", "uniform:pages=1000", "--over-provisioning", share];
        assert_refused(EXIT_USAGE_ERROR, &arguments, &["device.over_provisioning", "0.005 to 4"]);
    }
}

#[test]
fn a_capture_without_its_compressed_size_file_is_refused_unless_the_flag_allows_it() {
    let fixture = Fixture::new(0);
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/data/small.ops");
    fs::copy(capture, fixture.file("alone.ops")).unwrap();
    let alone = fixture.path("alone.ops");
    assert_refused(EXIT_RUN_FAILED, &["replay", &alone], &["no .psz file", "--without-sidecars"]);
    run_expecting_exit_status(EXIT_DONE, &["replay", &alone, "--without-sidecars"]);
}

#[test]
fn csv_traces_with_a_header_and_named_columns_are_read() {
    let fixture = Fixture::new(0);
    let info = |text: &str, options: &[&str]| -> Value {
        fs::write(fixture.file("any.csv"), text).unwrap();
        let path = fixture.path("any.csv");
        let arguments = [&["trace", "info", "--json", &path], options].concat();
        serde_json::from_str(&run_expecting_exit_status(EXIT_DONE, &arguments)).unwrap()
    };
    let msr = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n128166372003061629,usr,0,Read,4096,512,41\n";
    assert_eq!(info(msr, &[])["format"], "msr");
    let alibaba = "device_id,opcode,offset,length,timestamp\n1,W,0,4096,5\n";
    assert_eq!(info(alibaba, &[])["format"], "alibaba");
    let own = "when;what;where;long\n0.5;write;8;16\n0.7;read;8;16\n";
    let columns = "t=1,op=2,offset=3,length=4,unit=s,separator=semicolon,addresses=sectors";
    let counted = info(own, &["--columns", columns]);
    assert_eq!((&counted["requests"]["write"], &counted["requests"]["read"]), (&1.into(), &1.into()));
    assert_eq!((&counted["pages"]["write"], &counted["duration_ns"]), (&2.into(), &200_000_000.into()));
    assert_refused(
        EXIT_USAGE_ERROR,
        &["trace", "info", "x", "--columns", "t=1,op=1"],
        &["the keys op, offset and length are required"],
    );
    assert_refused(
        EXIT_USAGE_ERROR,
        &["trace", "info", "x", "--columns", "t=1,op=2,offset=3,length=4"],
        &["the unit of the times (t) is missing, so add it, such as unit=us"],
    );
    // Bug: of a key given twice the last value counted, so that times could be wrong by a factor of a thousand.
    for (columns, refusal) in [
        ("t=1,op=2,offset=3,length=4,unit=s,unit=ms", "the key `unit` is given twice"),
        ("op=2,offset=3,length=4,unit=s", "no column of times (t) is named"),
    ] {
        assert_refused(EXIT_USAGE_ERROR, &["trace", "info", "x", "--columns", columns], &[refusal]);
    }
    let without_times = info("write,8,16\n", &["--columns", "op=1,offset=2,length=3"]);
    assert_eq!(without_times["requests"]["write"], 1);
}

#[test]
fn the_life_command_writes_a_drive_until_it_is_worn_out() {
    let fixture = Fixture::new(0);
    let json = fixture.path("life.json");
    let load = "uniform:write=1.0,pages=4000,requests=100000,rate=1000";
    let drive = ["--set", "device.endurance_cycles=40", "--scale-to", "1TiB"];
    let asked = ["life", "--workload", load, "--designs", "page-map,geckoftl", "--leveling", "none,static"];
    let table = run_expecting_exit_status(
        EXIT_DONE,
        &[&asked[..], &drive, &["--seeds", "2", "--jobs", "2", "--json", &json]].concat(),
    );
    for said in
        ["TB written until the end", "lived / extrapolated", "static", "larger drive", "95 % interval"]
    {
        assert!(table.contains(said), "no `{said}` in {table}");
    }
    let records: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(records["schema_version"], 2);
    let records = records["drives"].as_array().unwrap();
    assert_eq!(records.len(), 4, "two designs, two kinds of leveling");
    for record in records {
        let lives = record["lives"].as_array().unwrap();
        assert_eq!(lives.iter().map(|life| life["seed"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
        assert!(
            lives.iter().all(|life| life["host_bytes"].as_u64().unwrap() > 0 && life["end"] != "interrupted")
        );
    }
    let again = run_expecting_exit_status(
        EXIT_DONE,
        &[&asked[..], &drive, &["--seeds", "2", "--json", "-"]].concat(),
    );
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(
        again["drives"][3]["lives"][1]["host_bytes"], records[3]["lives"][1]["host_bytes"],
        "jobs change nothing"
    );
}

#[test]
fn the_life_command_writes_its_curves_to_json_and_csv() {
    let fixture = Fixture::new(0);
    let (json, csv) = (fixture.path("life.json"), fixture.path("curves.csv"));
    let load = "uniform:write=1.0,pages=4000,requests=100000,rate=1000";
    let life = ["life", "--workload", load, "--seeds", "3", "--set", "device.endurance_cycles=30"];
    run_expecting_exit_status(EXIT_DONE, &[&life[..], &["--json", &json, "--curves", &csv, "-q"]].concat());
    let lives: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let drive = &lives["drives"][0];
    let estimate = &drive["estimates"]["host_bytes"];
    let written: Vec<f64> =
        drive["lives"].as_array().unwrap().iter().map(|life| life["host_bytes"].as_f64().unwrap()).collect();
    let mean = written.iter().sum::<f64>() / 3.0;
    assert!((estimate["mean"].as_f64().unwrap() / mean - 1.0).abs() < 1e-12, "{estimate}");
    assert!(estimate["half_width"].as_f64().unwrap() > 0.0, "{estimate}");
    assert!(drive["estimates"]["years"]["least"].as_f64().unwrap() > 0.0);
    let curves = drive["curves"].as_array().unwrap();
    let lines = fs::read_to_string(&csv).unwrap();
    assert!(lines.starts_with("input,design,leveling,drives,host_bytes,ended,spare.mean,spare.half_width"));
    assert_eq!(lines.lines().count(), 1 + curves.len());
    let (line, moment) = (lines.lines().last().unwrap(), curves.last().unwrap());
    let of_line: f64 = line.rsplit(',').next().unwrap().parse().unwrap();
    assert_eq!(Some(of_line), moment["max_erases"]["most"].as_f64(), "{line}");
    assert_eq!(
        (&moment["ended"], moment["host_bytes"].as_f64()),
        (&3.into(), written.iter().copied().reduce(f64::max))
    );
    assert_refused(EXIT_USAGE_ERROR, &[&life[..], &["--curves", &csv]].concat(), &["curves.csv", "--force"]);
}

/// Bug: a life that `--resume` loaded from its folder did not state where its wear-leveling settings came from
/// (`origins`).
#[test]
fn a_life_loaded_by_resume_states_where_its_settings_came_from() {
    let fixture = Fixture::new(0);
    let kept = fixture.path("lives");
    let load = "uniform:write=1.0,pages=4000,requests=100000";
    let life = ["life", "--workload", load, "--leveling", "static", "--set", "device.endurance_cycles=10"];
    let drive = || {
        let json =
            run_expecting_exit_status(EXIT_DONE, &[&life[..], &["--resume", &kept, "--json", "-"]].concat());
        let mut lives: Value = serde_json::from_str(&json).unwrap();
        lives["drives"][0].take()
    };
    let (lived, resumed) = (drive(), drive());
    assert_eq!(lived["origins"]["wear.static_gap"]["source"], "set");
    assert_eq!(lived, resumed);
}

/// A timeline (counters in windows of time) is recorded in the result of a life if the user requests one, as in that of
/// a run.
#[test]
fn a_life_has_a_timeline_if_it_is_asked_for() {
    let load = "uniform:write=1.0,pages=4000,requests=100000";
    let life = ["life", "--workload", load, "--set", "device.endurance_cycles=10", "--json", "-"];
    let has_timeline = |more: &[&str]| {
        let lives: Value =
            serde_json::from_str(&run_expecting_exit_status(EXIT_DONE, &[&life[..], more].concat())).unwrap();
        lives["drives"][0]["lives"][0]["timeline"].is_object()
    };
    assert!(!has_timeline(&[]));
    assert!(has_timeline(&["--set", "replay.timeline_cells=16"]));
}

#[test]
fn the_life_command_refuses_settings_that_it_would_ignore() {
    let load = ["life", "--workload", "uniform:pages=4000"];
    let is_refused_with =
        |more: &[&str], said: &[&str]| assert_refused(EXIT_USAGE_ERROR, &[&load[..], more].concat(), said);
    is_refused_with(&["--timing", "event"], &["timing", "no effect"]);
    is_refused_with(&["--precondition", "steady"], &["precondition", "new drive", "--empty"]);
    is_refused_with(&["--requests", "5"], &["replay.requests"]);
    is_refused_with(&["--spread", "3"], &["spread", "0.5"]);
    assert_refused(
        EXIT_RUN_FAILED,
        &["life", "--workload", "uniform:read=1.0,pages=4000"],
        &["requests without a write: 1000000"],
    );
}

#[test]
fn reproduce_refuses_unknown_papers_and_contradicting_options() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    assert_refused(EXIT_USAGE_ERROR, &["reproduce", "xx", "--out", out], &["xx", "lx", "df", "rm", "il"]);
    assert_refused(EXIT_USAGE_ERROR, &["reproduce", "il", "--out", out, "--render"], &["results.json"]);
    assert_refused(
        EXIT_USAGE_ERROR,
        &["reproduce", "il", "--out", out, "--traces", out],
        &["docs/reproduce.md"],
    );
    assert_refused(EXIT_USAGE_ERROR, &["reproduce", "il", "--quick", "--full"], &["--full"]);
    assert_refused(EXIT_USAGE_ERROR, &["reproduce", "il", "--out", out, "--jobs", "0"], &["--jobs"]);
}

/// Bug: `--jobs 0` was refused because the "number would be zero for non-zero type".
#[test]
fn numbers_of_which_one_is_needed_are_refused_with_a_sentence_for_users() {
    let load = ["--workload", "uniform:pages=99"];
    for (command, option) in
        [("compare", "--jobs"), ("ablate", "--jobs"), ("life", "--seeds"), ("life", "--jobs")]
    {
        for (number, reason) in [
            ("0", "a whole number, 1 or more"),
            ("-1", "a whole number, 1 or more"),
            ("two", "a whole number, 1 or more"),
            ("99999999999999999999", "too large"),
        ] {
            let option_with_number = format!("{option}={number}");
            let arguments = [&[command][..], &load, &[&option_with_number]].concat();
            assert_refused(EXIT_USAGE_ERROR, &arguments, &[option, number, reason]);
        }
    }
}

/// Bug: whether the summary of all papers can be written was seen only after the experiments, which may take hours.
#[test]
fn reproduce_refuses_a_summary_that_it_could_not_write_before_it_runs_experiments() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (document, marked, results) = (path("d.md"), path("marked.md"), path("results"));
    let refused = |out: &[&str], parts: &[&str]| {
        assert_refused(EXIT_USAGE_ERROR, &[&["reproduce", "gk", "--out", &results][..], out].concat(), parts);
        assert!(!Path::new(&results).exists(), "{out:?} ran experiments");
    };
    refused(&["--summary", &document], &["d.md", "No such file"]);
    fs::write(&document, "no marks").unwrap();
    refused(&["--summary", &document], &["d.md", "has no line"]);
    let marks =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reproduce.md")).unwrap();
    fs::write(&marked, marks).unwrap();
    refused(&["--summary", &marked], &["results.json", "first run the experiments"]);
    refused(&["--summary", &marked, "--full"], &["--summary", "`full`", "--out"]);
}

#[test]
fn reproduce_renders_the_pages_of_a_stored_record_again() {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers/il");
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("il")).unwrap();
    fs::copy(committed.join("results.json"), folder.path().join("il/results.json")).unwrap();
    run_expecting_exit_status(
        EXIT_DONE,
        &["reproduce", "il", "--render", "--out", folder.path().to_str().unwrap()],
    );
    for page in ["RESULTS.md", "RESULTS.html", "results.json"] {
        let text = |folder: &Path| fs::read_to_string(folder.join(page)).unwrap();
        assert!(
            text(&folder.path().join("il")) == text(&committed),
            "{page} is another than the committed one"
        );
    }
}
