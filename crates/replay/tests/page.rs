//! Tests of HTML reports: each embeds the record that it shows, and no name in it becomes markup.

use std::ops::ControlFlow;

use common::{config_of_settings, generated_input, run_input, run_on_small_device};
use wearwell_replay::ablate::{AblatedMechanisms, Ablation, Ablations, SubsetOutcome};
use wearwell_replay::diff::{Diff, ResultFile};
use wearwell_replay::html_report::{HtmlReport, embedded_record, html_page};
use wearwell_replay::json::{FromJson, ToJson};
use wearwell_replay::life::{Endurance, Leveling, Lives};
use wearwell_replay::profile::{Profiler, Profiles};
use wearwell_replay::record::RunRecord;
use wearwell_replay::replay::Plan;
use wearwell_replay::report::Comparison;
use wearwell_replay::sweep::{FailedRun, SweepResults};

use crate::common;

/// Workload of the runs whose reports are tested.
const LOAD: &str = "zipf:pages=9000,requests=12000,read=0.3";
/// Text that, if not escaped, would end or begin a script, or end an HTML attribute.
const HOSTILE_TEXT: &str =
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&<!-- {{record}} \u{2028}";

/// Replays the workload on a small filled drive, with a timeline for the charts.
fn run_design(design: &str) -> RunRecord {
    run_on_small_device(&["precondition.mode=fill", "replay.timeline_cells=256"], LOAD, design)
}

/// Parses the record that an HTML page contains.
fn embedded_record_of<T: FromJson>(page: &str) -> T {
    T::from_json(embedded_record(page).expect("a page holds its record")).unwrap()
}

/// Returns the records of two designs on one workload.
fn comparison() -> Comparison {
    Comparison::of_runs(vec![run_design("page-map"), run_design("dftl")])
}

/// Returns sweep results of these runs and one failed run, whose texts are hostile.
fn swept_with_failure(runs: Vec<RunRecord>) -> SweepResults {
    let failed = FailedRun {
        trace: HOSTILE_TEXT.into(),
        design: HOSTILE_TEXT.into(),
        variant: HOSTILE_TEXT.into(),
        error: HOSTILE_TEXT.into(),
    };
    SweepResults { comparison: Comparison::of_runs(runs), failures: vec![failed] }
}

/// Returns the life of a small drive of 20 cycles, with a hostile input name.
fn lives_of_small_drive() -> Lives {
    let config = config_of_settings(&[
        "device.preset=lab-8g",
        "device.blocks_per_plane=128",
        "device.endurance_cycles=20",
        "replay.timeline_cells=64",
    ]);
    let input = generated_input("uniform:write=1.0,pages=4000,requests=50000");
    let plan = Plan::new(&config, &input).unwrap();
    let mut record = plan.new_life_record("page-map", Leveling::Configured, Endurance::default());
    plan.run_life(&mut record, &mut |_| ControlFlow::Continue(())).unwrap();
    record.input = HOSTILE_TEXT.into();
    Lives::of_drives(vec![record])
}

/// Returns an ablation of two mechanisms, with a hostile input name.
fn ablations() -> Ablations {
    let mechanisms = AblatedMechanisms::parse_names(&["recycle".into(), "delta".into()]).unwrap();
    let input = generated_input("zipf:pages=9000,requests=12000+dup:share=0.3");
    let ran = |subset| {
        let setting = mechanisms.subset_setting(subset);
        let config = config_of_settings(&["device.preset=lab-8g", "device.blocks_per_plane=128", &setting]);
        SubsetOutcome::Ran(Box::new(run_input(&config, &input, "page-map")))
    };
    let outcomes = mechanisms.subsets().map(ran).collect();
    Ablations::of_ablations(vec![Ablation::of_outcomes(
        (HOSTILE_TEXT.into(), "page-map".into(), String::new()),
        &mechanisms,
        outcomes,
    )])
}

/// Returns a profile of a generated workload, with a hostile input name.
fn profiles() -> Profiles {
    let mut profiler = Profiler::new(1);
    for request in common::requests_of("zipf:pages=900,requests=2000") {
        profiler.add_request(&request);
    }
    Profiles::of_profiles(vec![profiler.to_profile(HOSTILE_TEXT.into())])
}

/// Returns the differences between two results, one of which has a hostile design name.
fn diff_of_comparisons() -> Diff {
    let results = |comparison: &Comparison| ResultFile::parse("a", &comparison.to_pretty_json()).unwrap();
    let (mut a, b) = (comparison(), comparison());
    a.runs[0].design = HOSTILE_TEXT.into();
    a.runs[1].programs += 1;
    Diff::of_files(results(&a), results(&b), 0.0).unwrap()
}

#[test]
fn an_html_report_embeds_the_record_that_it_shows() {
    let comparison = comparison();
    assert_eq!(embedded_record_of::<Comparison>(&html_page(&comparison)), comparison);
    let swept = swept_with_failure(comparison.runs);
    assert_eq!(embedded_record_of::<SweepResults>(&html_page(&swept)), swept);
    let (lives, ablations, profiles) = (lives_of_small_drive(), ablations(), profiles());
    assert_eq!(embedded_record_of::<Lives>(&html_page(&lives)), lives);
    assert_eq!(embedded_record_of::<Ablations>(&html_page(&ablations)), ablations);
    assert_eq!(embedded_record_of::<Profiles>(&html_page(&profiles)), profiles);
    let diff = diff_of_comparisons();
    let embedded: serde_json::Value =
        serde_json::from_str(embedded_record(&html_page(&diff)).unwrap()).unwrap();
    assert_eq!(embedded, diff.to_json_value());
}

/// Checks that no hostile text in an HTML report becomes a tag: the report has its own three scripts only, and shows
/// the text escaped.
#[track_caller]
fn assert_no_markup(hostile: &dyn HtmlReport) {
    let page = html_page(hostile);
    let count = |text: &str| page.matches(text).count();
    assert_eq!((count("<script"), count("</script"), count("<img"), count("<!--")), (3, 3, 0, 0));
    assert!(count("&lt;script&gt;alert(1)") > 0, "the name is shown");
    assert_eq!(count("alert(1)</script"), 0);
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn names_in_an_html_report_are_escaped() {
    let mut comparison = comparison();
    for run in &mut comparison.runs {
        run.trace.path = HOSTILE_TEXT.into();
        run.variant = HOSTILE_TEXT.into();
        run.notes.push(HOSTILE_TEXT.into());
        run.partial_reason = Some(HOSTILE_TEXT.into());
        run.config.precondition.trace = Some(HOSTILE_TEXT.into());
        run.ram_bytes_by_structure.insert(HOSTILE_TEXT.into(), 1);
    }
    assert_no_markup(&comparison);
    assert_no_markup(&swept_with_failure(comparison.runs));
    assert_no_markup(&lives_of_small_drive());
    assert_no_markup(&ablations());
    assert_no_markup(&profiles());
    assert_no_markup(&diff_of_comparisons());
}

#[test]
fn an_html_report_states_assumptions_and_settings() {
    let mut record = run_design("page-map");
    record.notes.push("figures that depend on content rest on a model: dup".into());
    let page = html_page(&Comparison::of_runs(vec![record]));
    assert!(page.contains("<li>note: figures that depend on content rest on a model: dup</li>"));
    assert!(page.contains("replay.<wbr>timeline_cells</th><td>256</td><td>set</td>"));
    assert!(page.contains("gc.<wbr>policy</th><td>greedy</td><td>default"));
}

/// Bug: the sentence named the design with the least write amplification in pages, although another design programmed
/// fewer bytes for the same bytes of the host.
#[test]
fn the_first_sentence_of_an_html_report_ranks_designs_by_programs_per_host_byte() {
    let run = |design: &str, of_pages, of_bytes| {
        let mut record = run_design("page-map");
        (record.design, record.write_amplification) = (design.to_owned(), of_pages);
        record.bytes.write_amplification = Some(of_bytes);
        record
    };
    let comparison = Comparison::of_runs(vec![run("page-map", 1.862, 2.801), run("remap", 1.905, 2.513)]);
    let page = html_page(&comparison);
    assert!(page.contains("Least write amplification, bytes: remap with 2.513; page-map has 2.801."));
    let page = html_page(&swept_with_failure(comparison.runs));
    assert!(page.contains("Write amplification, bytes: from 2.513 (remap) to 2.801 (page-map)."));
    let page = html_page(&Comparison::of_runs(vec![run("page-map", 1.5, 1.5), run("remap", 2.0, 2.0)]));
    assert!(page.contains("Least write amplification: page-map with 1.500."));
}

#[test]
fn html_reports_have_bounded_size() {
    let record = run_on_small_device(&["timing.mode=event", "replay.timeline_cells=4096"], LOAD, "page-map");
    let one = html_page(&Comparison::of_runs(vec![record.clone()]));
    assert!(one.len() < 500_000, "{}", one.len());
    let light = RunRecord { timeline: None, ..record };
    let many = html_page(&swept_with_failure(vec![light; 50]));
    assert!(many.len() < 3_000_000, "{}", many.len());
}

#[test]
fn sweep_and_life_results_without_a_run_have_an_html_report() {
    assert!(html_page(&swept_with_failure(Vec::new())).contains("0 runs, 1 failed"));
    assert!(html_page(&Lives::of_drives(Vec::new())).contains("Life of"));
}
