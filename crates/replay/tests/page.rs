//! Pages: each holds the record that it shows, whatever it is called, and nothing of it becomes markup.

use std::ops::ControlFlow;

use common::{config_of, generated, measure, measure_generated};
use serde::de::DeserializeOwned;
use wearwell_replay::ablate::{Ablation, Ablations, Mechanisms, SubsetOutcome};
use wearwell_replay::diff::{Diff, Results};
use wearwell_replay::life::{Endurance, Leveling, Lives};
use wearwell_replay::page::{Report, html, record_in};
use wearwell_replay::profile::{Profiler, Profiles};
use wearwell_replay::record::RunRecord;
use wearwell_replay::replay::Plan;
use wearwell_replay::report::Comparison;
use wearwell_replay::sweep::{FailedRun, Swept};

use crate::common;

const LOAD: &str = "zipf:pages=9000,requests=12000,read=0.3";
/// What would end a script, begin one, or leave an attribute, if it were not escaped.
const HOSTILE: &str =
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&<!-- {{record}} \u{2028}";

fn run(design: &str) -> RunRecord {
    measure_generated(&["precondition.mode=fill", "replay.timeline_cells=256"], LOAD, design)
}

fn held<T: DeserializeOwned>(page: &str) -> T {
    serde_json::from_str(record_in(page).expect("a page holds its record")).unwrap()
}

fn comparison() -> Comparison {
    Comparison::of(vec![run("page-map"), run("dftl")])
}

fn swept(runs: Vec<RunRecord>) -> Swept {
    let failed = FailedRun {
        trace: HOSTILE.into(),
        design: HOSTILE.into(),
        variant: HOSTILE.into(),
        error: HOSTILE.into(),
    };
    Swept { comparison: Comparison::of(runs), failures: vec![failed] }
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
    plan.live(&mut record, &mut |_| ControlFlow::Continue(())).unwrap();
    record.input = HOSTILE.into();
    Lives::of(vec![record])
}

fn ablations() -> Ablations {
    let mechanisms = Mechanisms::named(&["recycle".into(), "delta".into()]).unwrap();
    let input = generated("zipf:pages=9000,requests=12000+dup:share=0.3");
    let ran = |subset| {
        let setting = mechanisms.setting(subset);
        let config = config_of(&["device.preset=lab-8g", "device.blocks_per_plane=128", &setting]);
        SubsetOutcome::Ran(Box::new(measure(&config, &input, "page-map")))
    };
    let outcomes = mechanisms.subsets().map(ran).collect();
    Ablations::of(vec![Ablation::of(
        (HOSTILE.into(), "page-map".into(), String::new()),
        &mechanisms,
        outcomes,
    )])
}

fn profiles() -> Profiles {
    let mut profiler = Profiler::new(1);
    for request in common::requests_of("zipf:pages=900,requests=2000") {
        profiler.request(&request);
    }
    Profiles::of(vec![profiler.profile(HOSTILE.into())])
}

fn diff() -> Diff {
    let results = |comparison: &Comparison| Results::parse("a", &comparison.to_json()).unwrap();
    let (mut a, b) = (comparison(), comparison());
    a.runs[0].design = HOSTILE.into();
    a.runs[1].programs += 1;
    Diff::of(results(&a), results(&b), 0.0).unwrap()
}

#[test]
fn a_page_holds_the_record_that_it_shows() {
    let comparison = comparison();
    assert_eq!(held::<Comparison>(&html(&comparison)), comparison);
    let swept = swept(comparison.runs);
    assert_eq!(held::<Swept>(&html(&swept)), swept);
    let (lives, ablations, profiles) = (lives(), ablations(), profiles());
    assert_eq!(held::<Lives>(&html(&lives)), lives);
    assert_eq!(held::<Ablations>(&html(&ablations)), ablations);
    assert_eq!(held::<Profiles>(&html(&profiles)), profiles);
    let diff = diff();
    assert_eq!(held::<serde_json::Value>(&html(&diff)), serde_json::to_value(&diff).unwrap());
}

/// The tags of a page are those of the same page about something harmless.
#[track_caller]
fn assert_no_markup<T: Report>(hostile: &T) {
    let page = html(hostile);
    let count = |text: &str| page.matches(text).count();
    assert_eq!((count("<script"), count("</script"), count("<img"), count("<!--")), (3, 3, 0, 0));
    assert!(count("&lt;script&gt;alert(1)") > 0, "the name is shown");
    assert_eq!(count("alert(1)</script"), 0);
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn names_are_no_markup() {
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
fn a_page_says_what_figures_rest_on_and_what_was_set() {
    let mut record = run("page-map");
    record.notes.push("figures that depend on content rest on a model: dup".into());
    let page = html(&Comparison::of(vec![record]));
    assert!(page.contains("<li>note: figures that depend on content rest on a model: dup</li>"));
    assert!(page.contains("replay.<wbr>timeline_cells</th><td>256</td><td>set</td>"));
    assert!(page.contains("gc.<wbr>policy</th><td>greedy</td><td>default"));
}

#[test]
fn pages_are_small_whatever_is_compared() {
    let record = measure_generated(&["timing.mode=event", "replay.timeline_cells=4096"], LOAD, "page-map");
    let one = html(&Comparison::of(vec![record.clone()]));
    assert!(one.len() < 500_000, "{}", one.len());
    let light = RunRecord { timeline: None, ..record };
    let many = html(&swept(vec![light; 50]));
    assert!(many.len() < 3_000_000, "{}", many.len());
}

#[test]
fn results_without_a_run_have_a_page() {
    assert!(html(&swept(Vec::new())).contains("0 runs, 1 failed"));
    assert!(html(&Lives::of(Vec::new())).contains("Life of"));
}
