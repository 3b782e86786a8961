//! Tests of HTML reports: each embeds the record that it shows, and no name in it becomes markup.

use std::ops::ControlFlow;

use common::{config_of, generated, measure, measure_generated};
use serde::de::DeserializeOwned;
use wearwell_replay::ablate::{AblatedMechanisms, Ablation, Ablations, SubsetOutcome};
use wearwell_replay::diff::{Diff, ResultFile};
use wearwell_replay::life::{Endurance, Leveling, Lives};
use wearwell_replay::page::{HtmlReport, embedded_record, html_page};
use wearwell_replay::profile::{Profiler, Profiles};
use wearwell_replay::record::RunRecord;
use wearwell_replay::replay::Plan;
use wearwell_replay::report::Comparison;
use wearwell_replay::sweep::{FailedRun, Swept};

use crate::common;

const LOAD: &str = "zipf:pages=9000,requests=12000,read=0.3";
/// Text that would end a script, begin one, or leave an HTML attribute if it were not escaped.
const HOSTILE: &str =
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&<!-- {{record}} \u{2028}";

fn run(design: &str) -> RunRecord {
    measure_generated(&["precondition.mode=fill", "replay.timeline_cells=256"], LOAD, design)
}

fn held<T: DeserializeOwned>(page: &str) -> T {
    serde_json::from_str(embedded_record(page).expect("a page holds its record")).unwrap()
}

fn comparison() -> Comparison {
    Comparison::of_runs(vec![run("page-map"), run("dftl")])
}

fn swept(runs: Vec<RunRecord>) -> Swept {
    let failed = FailedRun {
        trace: HOSTILE.into(),
        design: HOSTILE.into(),
        variant: HOSTILE.into(),
        error: HOSTILE.into(),
    };
    Swept { comparison: Comparison::of_runs(runs), failures: vec![failed] }
}

fn lives() -> Lives {
    let config = config_of(&[
        "device.preset=lab-8g",
        "device.blocks_per_plane=128",
        "device.endurance_cycles=20",
        "replay.timeline_cells=64",
    ]);
    let input = generated("uniform:write=1.0,pages=4000,requests=50000");
    let plan = Plan::new(&config, &input).unwrap();
    let mut record = plan.life_record("page-map", Leveling::Configured, Endurance::default());
    plan.run_life(&mut record, &mut |_| ControlFlow::Continue(())).unwrap();
    record.input = HOSTILE.into();
    Lives::of_drives(vec![record])
}

fn ablations() -> Ablations {
    let mechanisms = AblatedMechanisms::parse_names(&["recycle".into(), "delta".into()]).unwrap();
    let input = generated("zipf:pages=9000,requests=12000+dup:share=0.3");
    let ran = |subset| {
        let setting = mechanisms.subset_setting(subset);
        let config = config_of(&["device.preset=lab-8g", "device.blocks_per_plane=128", &setting]);
        SubsetOutcome::Ran(Box::new(measure(&config, &input, "page-map")))
    };
    let outcomes = mechanisms.subsets().map(ran).collect();
    Ablations::of_ablations(vec![Ablation::of_outcomes(
        (HOSTILE.into(), "page-map".into(), String::new()),
        &mechanisms,
        outcomes,
    )])
}

fn profiles() -> Profiles {
    let mut profiler = Profiler::new(1);
    for request in common::requests_of("zipf:pages=900,requests=2000") {
        profiler.add_request(&request);
    }
    Profiles::of_profiles(vec![profiler.to_profile(HOSTILE.into())])
}

fn diff() -> Diff {
    let results = |comparison: &Comparison| ResultFile::parse("a", &comparison.to_json()).unwrap();
    let (mut a, b) = (comparison(), comparison());
    a.runs[0].design = HOSTILE.into();
    a.runs[1].programs += 1;
    Diff::of_files(results(&a), results(&b), 0.0).unwrap()
}

#[test]
fn an_html_report_embeds_the_record_that_it_shows() {
    let comparison = comparison();
    assert_eq!(held::<Comparison>(&html_page(&comparison)), comparison);
    let swept = swept(comparison.runs);
    assert_eq!(held::<Swept>(&html_page(&swept)), swept);
    let (lives, ablations, profiles) = (lives(), ablations(), profiles());
    assert_eq!(held::<Lives>(&html_page(&lives)), lives);
    assert_eq!(held::<Ablations>(&html_page(&ablations)), ablations);
    assert_eq!(held::<Profiles>(&html_page(&profiles)), profiles);
    let diff = diff();
    assert_eq!(held::<serde_json::Value>(&html_page(&diff)), serde_json::to_value(&diff).unwrap());
}

/// Checks that no hostile text in an HTML report becomes a tag: the report has its own three scripts only, and shows
/// the text escaped.
#[track_caller]
fn assert_no_markup<T: HtmlReport>(hostile: &T) {
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
        run.trace.path = HOSTILE.into();
        run.variant = HOSTILE.into();
        run.notes.push(HOSTILE.into());
        run.partial_reason = Some(HOSTILE.into());
        run.config.precondition.trace = Some(HOSTILE.into());
        run.ram_bytes_by_structure.insert(HOSTILE.into(), 1);
    }
    assert_no_markup(&comparison);
    assert_no_markup(&swept(comparison.runs));
    assert_no_markup(&lives());
    assert_no_markup(&ablations());
    assert_no_markup(&profiles());
    assert_no_markup(&diff());
}

#[test]
fn an_html_report_states_assumptions_and_settings() {
    let mut record = run("page-map");
    record.notes.push("figures that depend on content rest on a model: dup".into());
    let page = html_page(&Comparison::of_runs(vec![record]));
    assert!(page.contains("<li>note: figures that depend on content rest on a model: dup</li>"));
    assert!(page.contains("replay.<wbr>timeline_cells</th><td>256</td><td>set</td>"));
    assert!(page.contains("gc.<wbr>policy</th><td>greedy</td><td>default"));
}

#[test]
fn html_reports_are_small_whatever_is_compared() {
    let record = measure_generated(&["timing.mode=event", "replay.timeline_cells=4096"], LOAD, "page-map");
    let one = html_page(&Comparison::of_runs(vec![record.clone()]));
    assert!(one.len() < 500_000, "{}", one.len());
    let light = RunRecord { timeline: None, ..record };
    let many = html_page(&swept(vec![light; 50]));
    assert!(many.len() < 3_000_000, "{}", many.len());
}

#[test]
fn results_without_a_run_have_an_html_report() {
    assert!(html_page(&swept(Vec::new())).contains("0 runs, 1 failed"));
    assert!(html_page(&Lives::of_drives(Vec::new())).contains("Life of"));
}
