//! Tests of reproducing papers: targets (reported results) are complete, every row is measured or states why not,
//! verdicts follow one rule, pages are generated from records, and an interrupted run continues where it stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use wearwell_papers::differing_rows::differing_row_ids;
use wearwell_papers::experiment::{
    Experiment, ExperimentRecord, ExperimentRecords, ExperimentWork, InputKind,
};
use wearwell_papers::reason_digest::digest_of_values_behind_reason;
use wearwell_papers::request_source::RequestSource;
use wearwell_papers::result_counts::{OutcomeCounts, ResultCounts};
use wearwell_papers::results::ReproducedResult;
use wearwell_papers::target::{
    ComparisonKind, DifferenceReason, Evidence, NeededInput, ReasonSupport, ReportedResult, ReportedResults,
    ReportedValue, UnjudgedValues,
};
use wearwell_papers::verdict::{self, NamedValue, Outcome};
use wearwell_papers::{
    ExperimentConditions, ExperimentJob, ExperimentObserver, ExperimentRunOptions, ExperimentSize,
    OriginalTraces, Paper, PaperResults, closed_forms, experiment_runner, experiments, figures, render,
    row_values_from_experiments, summary,
};
use wearwell_replay::replay::Progress;

/// Returns the conditions of experiments of this size, with seed 1 and without original traces.
fn conditions_of_size(size: ExperimentSize) -> ExperimentConditions {
    ExperimentConditions { size, seed: 1, traces: OriginalTraces::default() }
}

/// Returns the folder `papers` of the repository, with the targets and the stored results.
fn papers_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers")
}

// Targets.

#[test]
fn every_reported_result_of_a_paper_has_one_row_in_order() {
    for (paper, rows) in Paper::ALL.into_iter().zip([46, 42, 45, 18, 61]) {
        let targets = paper.targets();
        assert_eq!(targets.paper.key, paper.name());
        let prefix = paper.name().to_uppercase();
        let expected: Vec<String> = (1..=rows).map(|number| format!("{prefix}-{number:02}")).collect();
        let ids: Vec<String> = targets.rows.iter().map(|row| row.id.clone()).collect();
        assert_eq!(ids, expected);
    }
}

#[test]
fn every_target_has_a_valid_comparison() {
    for target in Paper::ALL.into_iter().flat_map(|paper| paper.targets().rows) {
        let ReportedResult { id, values, compare, .. } = &target;
        let names: BTreeSet<&str> = values.iter().map(|value| value.of.as_str()).collect();
        assert_eq!(names.len(), values.len(), "{id} names a value twice");
        assert_eq!(
            values.is_empty(),
            compare.kind == ComparisonKind::Context,
            "{id} has values exactly if they are compared"
        );
        for value in values {
            let has_number = value.value.is_some() || value.low.is_some() || value.high.is_some();
            assert_eq!(has_number, compare.kind != ComparisonKind::Ordering, "{id} {}", value.of);
            assert!(
                value.low.is_none_or(|low| value.high.is_none_or(|high| low <= high)),
                "{id} is upside down"
            );
        }
        assert!(compare.kind != ComparisonKind::Within || compare.percent > 0.0, "{id} tolerates nothing");
    }
}

#[test]
fn contradictions_of_a_paper_name_existing_rows() {
    for paper in Paper::ALL {
        let targets = paper.targets();
        for name in targets.rows.iter().flat_map(|row| &row.contradictions) {
            assert!(targets.contradictions.contains_key(name), "{paper} does not explain {name}");
        }
    }
}

/// Every row of a paper must say on what kind of evidence Wearwell's values are based.
#[test]
fn every_reported_result_names_the_kind_of_evidence_of_its_values() {
    for target in Paper::ALL.into_iter().flat_map(|paper| paper.targets().rows) {
        let Some(evidence) = target.evidence else { panic!("{} names no evidence", target.id) };
        let has_values = !target.values.is_empty();
        assert!(evidence != Evidence::CannotFail || has_values, "{}: what cannot fail?", target.id);
    }
}

/// The declared evidence of a row must fit the code: a row computed by a formula uses no run, and a measured row uses
/// at least one.
#[test]
fn the_declared_evidence_of_a_row_matches_how_its_values_are_computed() {
    for paper in Paper::ALL {
        let runs = minimal_records(&experiments(paper, &conditions_of_size(ExperimentSize::Quick)));
        for target in paper.targets().rows {
            let is_computed = closed_forms::row_values_from_formula(&target.id).is_some();
            let is_measured = row_values_from_experiments(paper, &target.id, &runs).is_some();
            let has_asked = !runs.take_used_experiments_and_input_kind(true).0.is_empty();
            let (id, evidence) = (&target.id, target.evidence.expect("another test insists"));
            assert_eq!(has_asked, is_measured, "{id} measures without an experiment");
            let fits = match evidence {
                Evidence::Measured | Evidence::Fitted => has_asked,
                Evidence::Executed | Evidence::Formula | Evidence::Arithmetic => is_computed && !has_asked,
                Evidence::CannotFail => is_computed || has_asked,
                Evidence::None => !is_computed && !is_measured,
            };
            assert!(fits, "{id} is not {}", evidence.describe());
        }
    }
}

/// Returns whether a reported range is so wide that it excludes hardly any value: one end is open or zero, or one end
/// is ten times the other.
fn is_wide_range(reported: &ReportedValue) -> bool {
    let (low, high) = reported.range_bounds();
    let has_range = reported.low.is_some() || reported.high.is_some();
    has_range && (low.is_infinite() || high.is_infinite() || low == 0.0 || low > 0.0 && high >= 10.0 * low)
}

#[test]
fn a_wide_tolerance_states_which_values_would_be_outside() {
    for target in Paper::ALL.into_iter().flat_map(|paper| paper.targets().rows) {
        let counts = target.evidence.is_some_and(Evidence::counts_as_reproduced);
        let is_compared = matches!(target.compare.kind, ComparisonKind::Within | ComparisonKind::Range);
        if counts && is_compared && target.values.iter().any(is_wide_range) {
            assert!(!target.fails_if.is_empty(), "{}: what would miss this band?", target.id);
        }
    }
}

#[test]
fn a_result_marked_as_a_repeat_names_an_existing_original() {
    for paper in Paper::ALL {
        let targets = paper.targets();
        for target in targets.rows.iter().filter(|row| !row.repeats.is_empty()) {
            for other in &target.repeats {
                let other = targets
                    .reported_result_with_id(other)
                    .unwrap_or_else(|| panic!("{} repeats nothing", target.id));
                assert!(other.repeats.is_empty(), "{} is counted nowhere", other.id);
            }
        }
    }
}

/// If the same values are compared in several rows (reported results), only one of these rows may count as reproduced.
#[test]
fn results_that_compare_the_same_values_are_declared_as_repeats() {
    for paper in Paper::ALL {
        let (targets, results) = (paper.targets(), results_in(&papers_folder().join(paper.name())));
        let judged = |row: &ReproducedResult| -> Vec<u64> {
            let target = targets.reported_result_with_id(&row.id).unwrap();
            let is_judged =
                |value: &&NamedValue| target.values.iter().any(|reported| reported.of == value.of);
            // Statements that hold are 1 and say nothing about which figures they are about.
            let numbers = row.ours.iter().filter(is_judged).map(|value| value.value.abs().to_bits());
            let numbers: Vec<u64> =
                numbers.filter(|&bits| bits != 1f64.to_bits() && bits != 0f64.to_bits()).collect();
            // A single figure of two formulas may be equal by chance.
            let is_result = target.evidence.is_some_and(Evidence::counts_as_reproduced);
            if is_result || numbers.len() > 1 { numbers } else { Vec::new() }
        };
        for (k, row) in results.rows.iter().enumerate() {
            for other in results.rows[..k].iter().filter(|other| !judged(other).is_empty()) {
                let is_marked = |a: &ReproducedResult, b: &ReproducedResult| {
                    targets.reported_result_with_id(&a.id).unwrap().repeats.contains(&b.id)
                };
                assert!(
                    judged(row) != judged(other) || is_marked(row, other) || is_marked(other, row),
                    "{} judges the values of {}",
                    row.id,
                    other.id
                );
            }
        }
    }
}

#[test]
fn unknown_keys_in_a_targets_file_are_refused() {
    let text = include_str!("../../../papers/lx/targets.toml").replacen("metric =", "metrik =", 1);
    assert!(ReportedResults::parse(&text).is_err());
}

// Experiments.

/// Ids of the rows (reported results) that no experiment measures, each with the reason.
const UNMEASURED_ROWS: [&str; 1] = [
    "IL-15", // a property of a private trace
];

/// Returns records of finished experiments with only the figures that the computation of rows (reported results)
/// requires; each figure is 1.
fn minimal_records(experiments: &[Experiment]) -> ExperimentRecords {
    let insisted = [
        "latency_us.write.mean",
        "lifetime.energy_uj_per_page",
        "lifetime.elapsed_s",
        "recovery.total.time_s",
        "first_erase.share",
        "parts.largest_group_bytes",
        "parts.cache_entries",
        "parts.translation_pages",
        "parts.gecko_levels",
        "parts.gecko_buffer_entries",
        "parts.gecko_reports",
        "parts.gecko_queries",
        "parts.gecko_pages",
        "parts.gecko_largest_run_pages",
        "parts.log_reports",
        "parts.log_page_entries",
        "recovery.steps.changed entries.spare_reads",
    ];
    let mut runs = ExperimentRecords::default();
    for experiment in experiments {
        let figures = insisted.map(|name| (name.to_owned(), 1.0)).into();
        runs.add_record(ExperimentRecord {
            name: experiment.name.clone(),
            scale: 1.0,
            figures,
            ..ExperimentRecord::default()
        });
    }
    runs
}

#[test]
fn every_row_has_measured_values_or_a_reason_for_none() {
    for paper in Paper::ALL {
        let runs = minimal_records(&experiments(paper, &conditions_of_size(ExperimentSize::Quick)));
        for target in paper.targets().rows {
            let is_computed = closed_forms::row_values_from_formula(&target.id).is_some();
            let is_measured = row_values_from_experiments(paper, &target.id, &runs).is_some();
            let has_reason = target.compare.kind == ComparisonKind::Context
                || target.class == NeededInput::Priv
                || UNMEASURED_ROWS.contains(&target.id.as_str());
            assert!(is_computed || is_measured || has_reason, "{} is forgotten", target.id);
            assert!(!(is_computed && is_measured), "{} is both computed and measured", target.id);
        }
    }
}

#[test]
fn every_experiment_is_used_by_a_row_and_every_row_finds_its_experiments() {
    for paper in Paper::ALL {
        let experiments = experiments(paper, &conditions_of_size(ExperimentSize::Quick));
        let names: BTreeSet<String> = experiments.iter().map(|experiment| experiment.name.clone()).collect();
        assert_eq!(names.len(), experiments.len(), "{paper} names an experiment twice");
        let runs = minimal_records(&experiments);
        for target in paper.targets().rows {
            row_values_from_experiments(paper, &target.id, &runs);
        }
        let mut asked: BTreeSet<String> =
            runs.take_used_experiments_and_input_kind(true).0.into_iter().collect();
        let differences = paper.targets().differences;
        let is_test = |name: &&String| differences.iter().any(|difference| difference.is_tested_by(name));
        asked.extend(names.iter().filter(is_test).cloned());
        let unknown: Vec<_> = asked.difference(&names).collect();
        let idle: Vec<_> = names.difference(&asked).collect();
        assert!(unknown.is_empty() && idle.is_empty(), "{paper}: not defined {unknown:?}; not used {idle:?}");
    }
}

#[test]
fn measured_values_have_the_names_that_their_targets_expect() {
    for paper in Paper::ALL {
        let runs = minimal_records(&experiments(paper, &conditions_of_size(ExperimentSize::Quick)));
        for target in paper.targets().rows {
            let computed = closed_forms::row_values_from_formula(&target.id).map(Ok);
            let Some(Ok(ours)) = computed.or_else(|| row_values_from_experiments(paper, &target.id, &runs))
            else {
                continue;
            };
            for reported in &target.values {
                assert!(
                    ours.iter().any(|value| value.of == reported.of),
                    "{} lacks `{}`",
                    target.id,
                    reported.of
                );
            }
        }
    }
}

/// If a target (reported result) did not name one of its measured values, a deviation of this value could go unnoticed.
#[test]
fn every_measured_value_is_compared_with_a_reported_one_or_only_shown() {
    for paper in Paper::ALL {
        let runs = minimal_records(&experiments(paper, &conditions_of_size(ExperimentSize::Quick)));
        let targets = paper.targets();
        let mut unused: Vec<&str> = targets.beside.iter().flat_map(|beside| as_strs(&beside.of)).collect();
        for target in &targets.rows {
            let computed = closed_forms::row_values_from_formula(&target.id).map(Ok);
            let Some(Ok(ours)) = computed.or_else(|| row_values_from_experiments(paper, &target.id, &runs))
            else {
                continue;
            };
            let names = || ours.iter().map(|value| value.of.as_str());
            if let Some(of) = target.first_unmentioned_value(names()) {
                panic!("{} measures `{of}` and neither judges it nor sets it beside", target.id);
            }
            let is_shown = |of: &str| {
                names().any(|name| target.reason_not_judged(name).is_some() && matches_name_pattern(of, name))
            };
            unused.retain(|of| !is_shown(of));
            let own = target.beside.iter().filter(|beside| !targets.beside.contains(beside));
            for pattern in own.flat_map(|beside| &beside.of) {
                assert!(is_shown(pattern), "{} has no value `{pattern}` to set beside", target.id);
            }
        }
        assert!(unused.is_empty(), "{paper} has no value {unused:?} to set beside");
    }
}

/// Returns the strings as string slices.
fn as_strs(of: &[String]) -> impl Iterator<Item = &str> {
    of.iter().map(String::as_str)
}

/// Returns whether a value's name equals `pattern`, in which `*` stands for any characters.
fn matches_name_pattern(pattern: &str, name: &str) -> bool {
    UnjudgedValues { of: vec![pattern.to_owned()], why: String::new() }.contains_value_named(name)
}

#[test]
fn name_patterns_of_shown_values_match_as_documented() {
    let cases = [("a", "a", true), ("a", "ab", false), ("a*", "ab", true), ("* b", "a b", true)];
    let more =
        [("*", "", true), ("x *, y", "x 1, y", true), ("x *, y", "x 1, z", false), ("*b*", "abc", true)];
    for (pattern, name, is_match) in cases.into_iter().chain(more) {
        assert_eq!(matches_name_pattern(pattern, name), is_match, "{pattern} and {name}");
    }
}

/// If this binary cannot run an experiment, the error must name the unsupported part. Otherwise a misspelt setting
/// would be reported as an unsupported part.
#[test]
fn unavailable_experiments_name_what_is_not_available() {
    for paper in Paper::ALL {
        for experiment in [ExperimentSize::Quick, ExperimentSize::Full]
            .into_iter()
            .flat_map(|size| experiments(paper, &conditions_of_size(size)))
        {
            match experiment.check_supported() {
                Ok(()) => {}
                Err(why) => assert!(
                    paper != Paper::RecyclableSsd && why.ends_with("not available"),
                    "{}: {why}",
                    experiment.name
                ),
            }
        }
    }
}

#[test]
fn quick_experiments_have_smaller_inputs_than_full_ones() {
    for paper in Paper::ALL {
        let scale = |size| {
            experiments(paper, &conditions_of_size(size))
                .iter()
                .map(|one| one.input_share)
                .fold(0.0, f64::max)
        };
        assert!(scale(ExperimentSize::Quick) < scale(ExperimentSize::Full), "{paper}");
        assert!((scale(ExperimentSize::Full) - 1.0).abs() < 1e-9, "{paper} is as large as the paper's");
    }
}

#[test]
fn original_traces_replace_generated_substitutes() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("FIU-Mail.blkparse.zst"), "").unwrap();
    std::fs::write(folder.path().join("notes.txt"), "").unwrap();
    let traces = OriginalTraces::find_in(folder.path()).unwrap();
    assert_eq!(traces.len(), 1);
    let with = experiments(
        Paper::RecyclableSsd,
        &ExperimentConditions { traces, ..conditions_of_size(ExperimentSize::Quick) },
    );
    let of = |name: &str| with.iter().find(|experiment| experiment.name == name).unwrap().clone();
    let mail = of("mail/128k");
    assert!(!mail.has_substitute_input() && matches!(mail.source, RequestSource::Original(_)));
    assert!((mail.input_share - 1.0).abs() < 1e-9, "an original is not scaled down");
    assert!(format!("{mail:?}").contains("recycle.entries=131072"), "{mail:?}");
    assert!(of("web/128k").has_substitute_input());
}

// Verdicts.

/// Parses one target (reported result) from the part of a targets file that determines its comparison.
fn parsed_target(text: &str) -> ReportedResult {
    let text = format!(
        "[paper]\nkey = \"lx\"\ntitle = \"\"\nsource = \"\"\n[[target]]\nid = \"X-01\"\nplace = \"\"\nmetric = \"\"\n\
         configuration = \"\"\nclass = \"PUB\"\nevidence = \"measured\"\nreported = \"\"\n{text}"
    );
    ReportedResults::parse(&text).unwrap().rows.remove(0)
}

/// Returns the verdict about values of Wearwell in words, for an input of the paper or a substitute.
fn verdict_of(target: &ReportedResult, ours: &[(&str, f64)], substitute: bool) -> String {
    let input = if substitute { InputKind::Substitute } else { InputKind::OfPaper };
    verdict_on_input(target, ours, input)
}

/// Returns the verdict about values of Wearwell in words, for this kind of input.
fn verdict_on_input(target: &ReportedResult, ours: &[(&str, f64)], input: InputKind) -> String {
    let ours: Vec<NamedValue> = ours.iter().map(|(of, value)| NamedValue::new(*of, *value)).collect();
    verdict::judge_values(target, &ours, input).to_string()
}

#[test]
fn a_verdict_within_tolerance_quotes_the_largest_deviation() {
    let both = parsed_target(
        "values = [{ of = \"a\", value = 50.0 }, { of = \"b\", value = 20.0 }]\n\
         compare = { kind = \"within\", percent = 10.0, neutral = 0.0 }",
    );
    assert_eq!(verdict_of(&both, &[("a", 50.0), ("b", 20.0)], false), "reproduced within 0 %");
    assert_eq!(verdict_of(&both, &[("a", 51.0), ("b", 18.5)], false), "reproduced within 7.5 %");
    assert_eq!(verdict_of(&both, &[("a", 51.0), ("b", 18.0)], false), "reproduced within 10 %");
    assert_eq!(verdict_of(&both, &[("a", 50.0), ("b", 17.9)], false), "direction only");
    assert_eq!(verdict_of(&both, &[("a", 50.0), ("b", -1.0)], false), "not reproduced: off by 105 %");
    assert_eq!(verdict_of(&both, &[("a", 51.0), ("b", 20.0)], true), "substitute input; agrees within 2 %");
    assert_eq!(verdict_of(&both, &[("a", 51.0), ("b", 2.0)], true), "substitute input; direction only");
    assert_eq!(verdict_of(&both, &[("a", 50.0)], false), "not run: b was not measured");
    assert_eq!(
        verdict_of(&both, &[("a", 50.0), ("b", f64::NAN)], false),
        "not run: the runs give no number for b"
    );
}

#[test]
fn a_value_that_misses_the_tolerance_but_has_the_reported_direction_is_direction_only() {
    let normalised = parsed_target(
        "values = [{ value = 58.0 }]\ncompare = { kind = \"within\", percent = 10.0, neutral = 100.0 }",
    );
    assert_eq!(verdict_of(&normalised, &[("", 90.0)], false), "direction only");
    assert_eq!(verdict_of(&normalised, &[("", 101.0)], false), "not reproduced: off by 75 %");
    let no_neutral =
        parsed_target("values = [{ value = 58.0 }]\ncompare = { kind = \"within\", percent = 10.0 }");
    assert_eq!(verdict_of(&no_neutral, &[("", 90.0)], false), "not reproduced: off by 56 %");
}

/// A run with one seed gives no evidence for an effect that is a small share of the reported one.
#[test]
fn an_effect_of_less_than_a_tenth_of_the_reported_one_is_no_effect() {
    let no_effect = "not reproduced: less than a tenth of the effect";
    let gains = parsed_target(
        "values = [{ of = \"a\", value = 20.0 }, { of = \"b\", value = 4.0 }]\n\
         compare = { kind = \"within\", percent = 20.0, neutral = 0.0 }",
    );
    assert_eq!(verdict_of(&gains, &[("a", 2.0), ("b", 0.4)], false), "direction only");
    assert_eq!(verdict_of(&gains, &[("a", 10.0), ("b", 0.39)], false), no_effect);
    assert_eq!(verdict_of(&gains, &[("a", 1.9), ("b", 4.0)], true), format!("substitute input; {no_effect}"));
    assert_eq!(verdict_of(&gains, &[("a", 1.9), ("b", -0.1)], false), "not reproduced: off by 103 %");
    let normalised = parsed_target(
        "values = [{ value = 80.0 }]\ncompare = { kind = \"within\", percent = 10.0, neutral = 100.0 }",
    );
    assert_eq!(verdict_of(&normalised, &[("", 98.0)], false), "direction only");
    assert_eq!(verdict_of(&normalised, &[("", 98.1)], false), no_effect);
    let range = parsed_target(
        "values = [{ low = 6.0, high = 11.0 }]\ncompare = { kind = \"range\", percent = 1.0, neutral = 1.0 }",
    );
    assert_eq!(verdict_of(&range, &[("", 1.5)], false), "direction only");
    assert_eq!(verdict_of(&range, &[("", 1.4)], false), no_effect);
    assert_eq!(verdict_of(&range, &[("", 90.0)], false), "direction only", "more than reported is an effect");
    let direction =
        parsed_target("values = [{ value = 4.0 }]\ncompare = { kind = \"direction\", neutral = 0.0 }");
    assert_eq!(verdict_of(&direction, &[("", 0.4)], false), "direction only");
    assert_eq!(verdict_of(&direction, &[("", 0.3)], false), no_effect);
    let open = parsed_target("values = [{ low = 0.0 }]\ncompare = { kind = \"direction\", neutral = 0.0 }");
    assert_eq!(verdict_of(&open, &[("", 0.1)], false), "direction only", "no size is reported");
}

#[test]
fn a_load_made_for_this_project_is_never_called_reproduced() {
    let row = parsed_target("values = [{ value = 10.0 }]\ncompare = { kind = \"within\", percent = 10.0 }");
    let of = |ours: f64| verdict_on_input(&row, &[("", ours)], InputKind::MadeLoad);
    assert_eq!(of(10.0), "load made for this project; agrees within 0 %");
    assert_eq!(of(20.0), "load made for this project; not reproduced: off by 100 %");
    let holds = parsed_target("values = [{ value = 1.0 }]\ncompare = { kind = \"holds\" }");
    let holds = verdict_on_input(&holds, &[("", 1.0)], InputKind::MadeLoad);
    assert_eq!(holds, "load made for this project; holds");
}

#[test]
fn a_generated_load_is_input_of_the_paper_only_if_the_paper_generates_loads() {
    let record = |name: &str, substitute: bool| ExperimentRecord {
        name: name.to_owned(),
        substitute,
        ..ExperimentRecord::default()
    };
    let original = ExperimentRecord { sha256: Some("0".to_owned()), ..record("original", false) };
    let mut runs = ExperimentRecords::default();
    for record in [record("generated", false), record("substitute", true), original] {
        runs.add_record(record);
    }
    let kind_of = |names: &[&str], generates_loads: bool| {
        assert!(names.iter().all(|name| runs.finished_run_named(name).is_ok()));
        runs.take_used_experiments_and_input_kind(generates_loads).1
    };
    assert_eq!(kind_of(&["generated"], true), InputKind::OfPaper);
    assert_eq!(kind_of(&["generated"], false), InputKind::MadeLoad);
    assert_eq!(kind_of(&["original"], false), InputKind::OfPaper);
    assert_eq!(kind_of(&["original", "generated"], false), InputKind::OfPaper, "the load is beside");
    assert_eq!(kind_of(&[], false), InputKind::OfPaper, "a formula has no input");
    assert_eq!(kind_of(&["original", "substitute"], false), InputKind::Substitute);
    assert_eq!(kind_of(&["generated", "substitute"], false), InputKind::Substitute);
    let generating = Paper::ALL.into_iter().filter(|paper| paper.targets().paper.generates_loads);
    assert_eq!(
        generating.collect::<Vec<_>>(),
        [Paper::RemapSsd, Paper::GeckoFtl],
        "the others have traces alone"
    );
}

#[test]
fn a_reported_range_contains_a_value_or_yields_its_deviation() {
    let range = parsed_target(
        "values = [{ low = 10.0, high = 20.0 }]\ncompare = { kind = \"range\", percent = 5.0 }",
    );
    assert_eq!(verdict_of(&range, &[("", 10.0)], false), "reproduced, inside the range");
    assert_eq!(verdict_of(&range, &[("", 20.9)], false), "reproduced within 4.5 %");
    assert_eq!(verdict_of(&range, &[("", 5.0)], false), "not reproduced: off by 50 %");
    let open = parsed_target("values = [{ high = 1.0 }]\ncompare = { kind = \"range\" }");
    assert_eq!(verdict_of(&open, &[("", -5.0)], false), "reproduced, inside the range");
    assert_eq!(verdict_of(&open, &[("", 1.01)], false), "not reproduced: off by 1 %");
}

#[test]
fn values_are_rounded_to_the_printed_digits_before_comparison() {
    let digits = parsed_target("values = [{ value = 89.5, digits = 1 }]\ncompare = { kind = \"digits\" }");
    assert_eq!(verdict_of(&digits, &[("", 89.51)], false), "reproduced exactly");
    assert_eq!(verdict_of(&digits, &[("", 89.549)], false), "reproduced exactly");
    assert_eq!(verdict_of(&digits, &[("", 89.57)], false), "not reproduced: off by 0.1 %");
    let nothing = parsed_target("values = [{ value = 0.0, digits = 1 }]\ncompare = { kind = \"digits\" }");
    assert_eq!(verdict_of(&nothing, &[("", 0.04)], false), "reproduced exactly");
    assert_eq!(verdict_of(&nothing, &[("", 0.06)], false), "not reproduced");
}

#[test]
fn orderings_and_statements_of_a_paper_are_judged_as_true_or_false() {
    let order = parsed_target(
        "values = [{ of = \"a\" }, { of = \"b\" }, { of = \"c\" }]\ncompare = { kind = \"ordering\" }",
    );
    assert_eq!(verdict_of(&order, &[("c", 1.0), ("b", 2.0), ("a", 3.0)], false), "holds");
    assert_eq!(verdict_of(&order, &[("a", 3.0), ("b", 2.0), ("c", 2.0)], false), "not reproduced");
    let holds = parsed_target("values = [{ value = 1.0 }]\ncompare = { kind = \"holds\" }");
    assert_eq!(verdict_of(&holds, &[("", 1.0)], true), "substitute input; holds");
    assert_eq!(verdict_of(&holds, &[("", 0.0)], false), "not reproduced");
    let direction =
        parsed_target("values = [{ value = 2.8 }]\ncompare = { kind = \"direction\", neutral = 0.0 }");
    assert_eq!(verdict_of(&direction, &[("", 40.0)], false), "direction only");
    assert_eq!(verdict_of(&direction, &[("", -0.1)], false), "not reproduced");
}

#[test]
fn paper_values_that_generate_a_substitute_trace_are_not_counted_as_results() {
    let given = parsed_target(
        "values = [{ value = 9.3 }]\ncompare = { kind = \"within\", percent = 2.0 }\ngiven_to_substitute = true",
    );
    assert_eq!(verdict_of(&given, &[("", 9.3)], true), "substitute input, made from these figures");
    assert_eq!(verdict_of(&given, &[("", 9.3)], false), "reproduced within 0 %");
    assert_eq!(verdict_of(&given, &[("", 5.0)], false), "not reproduced: off by 47 %");
}

#[test]
fn values_given_to_the_trace_generator_are_judged_separately() {
    let row = parsed_target(
        "values = [{ of = \"free\", value = 10.0 }, { of = \"made\", value = 50.0, given = true }]\n\
         compare = { kind = \"within\", percent = 10.0, given_percent = 2.0 }",
    );
    let of =
        |free: f64, made: f64, substitute| verdict_of(&row, &[("free", free), ("made", made)], substitute);
    assert_eq!(of(10.5, 50.5, true), "substitute input; agrees within 5 %; given values within 1 %");
    assert_eq!(of(10.5, 45.0, true), "substitute input; agrees within 5 %; given values missed by 10 %");
    assert_eq!(
        of(20.0, 50.0, true),
        "substitute input; not reproduced: off by 100 %; given values within 0 %"
    );
    assert_eq!(of(10.5, 45.0, false), "reproduced within 10 %", "an original is judged by all values");
    let only = parsed_target(
        "values = [{ value = 50.0, given = true }]\ncompare = { kind = \"within\", percent = 10.0 }",
    );
    assert_eq!(verdict_of(&only, &[("", 50.0)], true), "substitute input, made from these figures");
}

#[test]
fn an_ordering_with_a_margin_requires_that_gap_between_values() {
    let half = parsed_target(
        "values = [{ of = \"a\" }, { of = \"b\" }]\ncompare = { kind = \"ordering\", percent = 50.0 }",
    );
    assert_eq!(verdict_of(&half, &[("a", 2.0), ("b", 1.0)], false), "holds");
    assert_eq!(verdict_of(&half, &[("a", 2.0), ("b", 1.1)], false), "not reproduced");
    assert_eq!(verdict_of(&half, &[("a", 0.0), ("b", 0.0)], false), "not reproduced");
}

#[test]
fn a_value_that_the_target_does_not_mention_gets_no_verdict() {
    let one = "values = [{ of = \"a\", value = 1.0 }]\ncompare = { kind = \"within\", percent = 2.0 }";
    let ours = [("a", 1.0), ("b", 90.0)];
    let forgotten = "not run: the target does not mention the value `b`";
    assert_eq!(verdict_of(&parsed_target(one), &ours, false), forgotten);
    let beside = format!("{one}\nbeside = [{{ of = [\"b\"], why = \"of another drive\" }}]");
    assert_eq!(verdict_of(&parsed_target(&beside), &ours, false), "reproduced within 0 %");
}

/// A row counts as reproduced only if code was executed that could have given another result: a run of a design, or one
/// mechanism alone.
#[test]
fn values_from_formulas_or_fitted_loads_never_count_as_reproduced() {
    let of = |evidence: &str| {
        let mut row =
            parsed_target("values = [{ value = 1.0 }]\ncompare = { kind = \"within\", percent = 2.0 }");
        row.evidence = toml::from_str::<BTreeMap<String, Evidence>>(&format!("a = \"{evidence}\""))
            .unwrap()
            .get("a")
            .copied();
        [1.0, 2.0].map(|ours| verdict_of(&row, &[("", ours)], false))
    };
    assert_eq!(of("executed")[0], "executed mechanism; reproduced within 0 %");
    let fitted = ["agrees within 0 %", "disagrees: off by 100 %"];
    assert_eq!(of("fitted"), fitted.map(|outcome| format!("load fitted to these figures; {outcome}")));
    for evidence in ["formula", "arithmetic", "cannot-fail"] {
        let [agrees, misses] = of(evidence);
        let words = evidence.replace('-', " ");
        assert_eq!(agrees, format!("{words}; agrees within 0 %"));
        assert_eq!(misses, format!("{words}; disagrees: off by 100 %"));
    }
}

#[test]
fn the_summary_counts_reported_results_by_kind_of_evidence() {
    let mut results = PaperResults::new_empty(Paper::GeckoFtl, ExperimentSize::Quick, 1);
    results.evaluate_all_rows(Paper::GeckoFtl, None);
    let tally = ResultCounts::of_results(&Paper::GeckoFtl.targets(), &results);
    let reproduced = tally.measured.agreeing_results + tally.executed_mechanism_results.agreeing_results;
    assert_eq!((reproduced, tally.measured.total_compared()), (0, 0), "nothing was run");
    assert!(
        tally.arithmetic_results.agreeing_results > 10
            && tally.formula_results.agreeing_results > 5
            && tally.rows_without_stated_evidence == 0,
        "{tally:?}"
    );
    let counted = [tally.formula_results, tally.arithmetic_results, tally.cannot_fail_results]
        .map(OutcomeCounts::total_compared);
    let others = tally.rows_repeating_others + tally.context_only_rows + tally.not_run_rows;
    assert_eq!(counted.iter().sum::<usize>() + others, tally.total_rows, "every row is counted once");
    assert_eq!(tally.result_count_sentences()[0], "Nothing was executed.");
}

#[test]
fn reported_results_without_values_state_the_reason() {
    let public = parsed_target("values = [{ value = 1.0 }]\ncompare = { kind = \"within\", percent = 2.0 }");
    assert_eq!(
        verdict::not_run_verdict(&public, "design x not available").to_string(),
        "not run: design x not available"
    );
    let mut private = public;
    private.class = NeededInput::Priv;
    assert!(matches!(verdict::not_run_verdict(&private, "").outcome, Outcome::NotReproducible(_)));
    assert!(matches!(
        verdict::not_run_verdict(&private, "design x not available").outcome,
        Outcome::NotRun(_)
    ));
    private.not_reproducible = "secret".into();
    assert_eq!(verdict::not_run_verdict(&private, "anything").to_string(), "not reproducible: secret");
}

// Sessions.

/// Observer of a run of experiments that records which experiments ran, and ends the run before the experiment number
/// `stop_before_experiment_number`.
#[derive(Default)]
struct RecordingObserver {
    /// Names of the experiments that were started, in order.
    started_experiments: Vec<String>,
    /// Names of the experiments that could not be run.
    not_run: Vec<String>,
    /// Number of the experiment before which the run is ended; 0 for a run to the end.
    stop_before_experiment_number: usize,
    /// Number of experiments that run at a time.
    max_parallel_experiments: usize,
}

impl ExperimentObserver for RecordingObserver {
    fn experiment_begins(
        &mut self,
        number: usize,
        _: usize,
        name: &str,
        left: Option<Duration>,
    ) -> ControlFlow<()> {
        assert!(number > 1 || left.is_none(), "nothing has finished yet");
        assert!(
            number <= self.max_parallel_experiments.max(1) || left.is_some(),
            "an estimate has something to go by"
        );
        if number == self.stop_before_experiment_number {
            return ControlFlow::Break(());
        }
        self.started_experiments.push(name.to_owned());
        ControlFlow::Continue(())
    }

    fn experiment_progress(&mut self, _: &str, _: Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn experiment_not_run(&mut self, name: &str, _: &str) {
        self.not_run.push(name.to_owned());
    }
}

/// Returns an experiment that takes less than a second: a generated load on a design.
fn small_experiment(name: &str, design: &'static str, seed: u64) -> Experiment {
    let load = format!("uniform:pages=4000,requests=20000,seed={seed}+dup:share=0.3");
    Experiment::new_replay(
        name,
        (RequestSource::Generated(load), 0.5),
        design,
        vec!["device.fit=0.9".to_owned()],
    )
}

/// Returns the options of a scaled-down run of experiments whose results are stored in `folder`, one experiment at a
/// time.
fn quick_run_options(folder: &Path) -> ExperimentRunOptions {
    ExperimentRunOptions {
        size: ExperimentSize::Quick,
        seed: 1,
        result_folder: folder.into(),
        traces: OriginalTraces::default(),
        reruns_all: false,
        max_parallel_experiments: 1,
    }
}

/// Runs experiments until the experiment number `stop_before_experiment_number` (0: to the end); returns the results
/// and the observer.
fn run_until_experiment(
    wanted: &[Experiment],
    options: &ExperimentRunOptions,
    stop_before_experiment_number: usize,
) -> (PaperResults, RecordingObserver) {
    let mut watch = RecordingObserver {
        stop_before_experiment_number,
        max_parallel_experiments: options.max_parallel_experiments,
        ..RecordingObserver::default()
    };
    let jobs: Vec<ExperimentJob> = wanted.iter().cloned().map(ExperimentJob::from).collect();
    let results =
        experiment_runner::run_experiment_jobs(Paper::RecyclableSsd, &jobs, options, &mut watch).unwrap();
    (results, watch)
}

#[test]
fn an_interrupted_reproduction_continues_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let options = quick_run_options(folder.path());
    let wanted = [
        small_experiment("a", "page-map", 1),
        small_experiment("b", "recyclable", 1),
        small_experiment("c", "recyclable", 2),
    ];
    let (partial, watch) = run_until_experiment(&wanted, &options, 2);
    assert!(partial.partial);
    assert_eq!(watch.started_experiments, ["a"]);
    assert_eq!(partial.experiments.len(), 1);
    let page = std::fs::read_to_string(folder.path().join("RESULTS.md")).unwrap();
    assert!(page.contains("PARTIAL"), "{page}");

    let (complete, watch) = run_until_experiment(&wanted, &options, 0);
    assert!(!complete.partial);
    assert_eq!(watch.started_experiments, ["b", "c"], "what was finished is not run again");
    assert_eq!(complete.experiments[0], partial.experiments[0]);
    let names: Vec<&str> = complete.experiments.iter().map(|record| record.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);

    assert!(run_until_experiment(&wanted, &options, 0).1.started_experiments.is_empty());
    let changed = [wanted[0].clone(), small_experiment("b", "recyclable", 7), wanted[2].clone()];
    let (rerun, watch) = run_until_experiment(&changed, &options, 0);
    assert_eq!(watch.started_experiments, ["b"], "what changed is run again");
    assert_ne!(rerun.experiments[1].figures, complete.experiments[1].figures);
    let fresh = ExperimentRunOptions { reruns_all: true, ..options };
    assert_eq!(run_until_experiment(&changed, &fresh, 0).1.started_experiments, ["a", "b", "c"]);
}

#[test]
fn experiments_with_the_same_seed_give_the_same_record() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let records = folders.map(|folder| {
        run_until_experiment(&[small_experiment("a", "recyclable", 3)], &quick_run_options(folder.path()), 0);
        std::fs::read_to_string(folder.path().join("results.json")).unwrap()
    });
    assert_eq!(records[0], records[1]);
    assert!(records[0].contains("\"recycled_writes\""), "figures are in the record");
    assert!(!records[0].contains("cpu_seconds"), "figures of the machine are not");
}

#[test]
fn experiments_with_unknown_designs_settings_or_loads_are_reported_as_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut unknown_setting = small_experiment("b", "page-map", 1);
    if let ExperimentWork::Replay { settings, .. } = &mut unknown_setting.work {
        settings.push("nothing.at_all=1".to_owned());
    }
    let unknown_load = Experiment::new_request_count_experiment(
        "c",
        (RequestSource::Generated("nothing:pages=4".into()), 1.0),
    );
    let wanted = [
        small_experiment("a", "no-such-design", 1),
        unknown_setting,
        unknown_load,
        small_experiment("d", "page-map", 1),
    ];
    let (results, watch) = run_until_experiment(&wanted, &quick_run_options(folder.path()), 0);
    assert_eq!(watch.not_run, ["a", "b", "c"]);
    assert_eq!(results.experiments.len(), 1);
    assert_eq!(
        results.not_run["a"],
        format!(
            "the design `no-such-design` of this experiment is not supported by wearwell {}: there is no such design; \
             report this as a defect",
            env!("CARGO_PKG_VERSION")
        )
    );
    assert!(results.not_run["b"].starts_with("the setting "), "{}", results.not_run["b"]);
    assert!(results.not_run["c"].starts_with("the workload `"), "{}", results.not_run["c"]);
}

#[test]
fn counted_requests_and_pages_equal_those_of_the_trace() {
    let substitute = RequestSource::Substitute("fiu-web:scale=0.01".into());
    let count = Experiment::new_request_count_experiment("web/counts", (substitute, 0.01));
    let record = count.run(&mut |_| ControlFlow::Continue(())).unwrap();
    let figure = |name: &str| record.figures.get(name).copied().unwrap_or(0.0);
    assert!(record.substitute);
    assert!((figure("requests") - 59_000.0).abs() < 2.0, "{}", figure("requests"));
    assert!((figure("addresses") - 8_000.0).abs() < 2.0);
    assert!((figure("invalid") - (figure("pages_written") - figure("addresses"))).abs() < 0.5);
    // 2.5 of 15.5 GB.
    assert!((figure("recycled") / figure("invalid") - 2.5 / 15.5).abs() < 0.01, "{}", figure("recycled"));
    let versions: f64 = (0..16).map(|version| figure(&format!("recycled_by_version.{version}"))).sum();
    assert!((versions - figure("recycled")).abs() < 0.5);
}

/// Expected counts were computed by hand. The trace has two addresses and a content that dies, and whose page is read
/// before it is recycled.
#[test]
fn a_recycled_page_keeps_its_read_count_and_leaves_the_dead_list() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.csv");
    let lines = [
        "time_ns,op,offset_bytes,len_bytes,device,fingerprints,source_bytes",
        "0,W,0,4096,0,a,",    // page 0 holds a
        "1,R,0,4096,0,,",     // and is read once
        "2,W,0,4096,0,b,",    // a dies with popularity 1
        "3,W,0,4096,0,c,",    // b dies, newer than a
        "4,W,4096,4096,0,a,", // a comes back, second of its list: version 14
        "5,W,4096,4096,0,b,", // b comes back as the newest: version 15; a dies again
        "6,W,8192,4096,0,c,", // c is valid and no dead page: new
    ];
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    let count = Experiment::new_request_count_experiment("small", (RequestSource::Original(path), 1.0));
    let record = count.run(&mut |_| ControlFlow::Continue(())).unwrap();
    let figure = |name: &str| record.figures.get(name).copied().unwrap_or(0.0);
    assert_eq!([figure("reads"), figure("writes"), figure("addresses")].map(|n| n as u64), [1, 6, 3]);
    assert_eq!([figure("invalid"), figure("recycled")].map(|n| n as u64), [3, 2]);
    assert_eq!(
        [figure("recycled_by_version.14"), figure("recycled_by_version.15")].map(|n| n as u64),
        [1, 1]
    );
    // a died twice with its read, b once without.
    let dead = [figure("invalid_by_popularity.0"), figure("invalid_by_popularity.1")];
    assert_eq!(dead.map(|n| n as u64), [1, 2]);
}

// Pages.

/// Returns results of a paper without experiments: only rows that a formula computes have values.
fn example_results() -> PaperResults {
    let mut results = PaperResults::new_empty(Paper::RecyclableSsd, ExperimentSize::Quick, 1);
    results.evaluate_all_rows(Paper::RecyclableSsd, None);
    results
}

#[test]
fn the_markdown_page_has_a_line_for_every_row() {
    let (targets, mut results) = (Paper::RecyclableSsd.targets(), example_results());
    let row = results.rows.iter_mut().find(|row| row.id == "LX-17").unwrap();
    row.ours = vec![NamedValue::new("mail", 30.0)];
    row.input = InputKind::Substitute;
    let page = render::results_markdown(&targets, &results, &[]);
    assert!(page.starts_with("<!-- Generated by `wearwell reproduce`"), "{page}");
    for target in &targets.rows {
        assert_eq!(page.matches(&format!("| {} |", target.id)).count(), 1, "{}", target.id);
    }
    let line = page.lines().find(|line| line.contains("LX-17")).unwrap();
    assert!(
        line.contains("| 31.1 % | mail 30 % | 0.965 | substitute input; agrees within 3.6 % |"),
        "{line}"
    );
    assert!(line.contains("X11") && page.contains("- **X11**: "), "{line}");
    assert!(
        page.contains("| LX-20 |")
            && page.contains("not run: experiment homes/64k has no result in results.json")
    );
}

#[test]
fn the_html_page_escapes_text_and_has_the_rows_of_the_markdown_page() {
    let (targets, mut results) = (Paper::RecyclableSsd.targets(), example_results());
    results.not_run.insert("a<b".into(), "x & y".into());
    let page = render::results_html(&targets, &results, &[]);
    assert!(page.contains("<b>a&lt;b</b>: x &amp; y"));
    assert!(page.contains("LRU &gt; PROB &gt; PROB+FL"));
    let rows = page.matches("<tr class=").count();
    assert_eq!(rows, targets.rows.len());
}

#[test]
fn a_figure_is_drawn_only_if_its_values_exist() {
    let (targets, mut results) = (Paper::RecyclableSsd.targets(), example_results());
    assert!(figures::draw_figures(&targets, &results).is_empty());
    let values =
        [("homes", 14.0), ("mail", 20.0), ("web", 10.0)].map(|(of, value)| NamedValue::new(of, value));
    results.rows.iter_mut().find(|row| row.id == "LX-28").unwrap().ours = values.to_vec();
    let drawn = figures::draw_figures(&targets, &results);
    assert_eq!(drawn.len(), 1);
    assert_eq!(drawn[0].file_name(), "lx-fig12.svg");
    assert!(drawn[0].svg.contains("<svg") && drawn[0].svg.contains("LRU homes"));
    assert!(render::results_markdown(&targets, &results, &drawn).contains("](figures/lx-fig12.svg)"));
}

#[test]
fn results_written_as_json_are_read_back_equal() {
    let results = example_results();
    assert!(
        PaperResults::from_json(&results.to_json()).unwrap() == results,
        "a record read back is the record"
    );
    let ReproducedResult { verdict, .. } = &results.rows[4];
    assert_eq!(verdict, "arithmetic; agrees exactly", "LX-05 is a closed form");
}

/// Returns the folders of the result records in the repository: a scaled-down run of every paper, and full-size runs of
/// some papers.
fn checked_in_result_folders() -> Vec<(Paper, PathBuf)> {
    let quick = Paper::ALL.map(|paper| (paper, papers_folder().join(paper.name())));
    let full = Paper::ALL.map(|paper| (paper, papers_folder().join("full").join(paper.name())));
    quick.into_iter().chain(full.into_iter().filter(|(_, folder)| folder.exists())).collect()
}

#[test]
fn every_checked_in_row_that_misses_its_target_has_a_reason() {
    for (paper, folder) in checked_in_result_folders() {
        let (targets, results) = (paper.targets(), results_in(&folder));
        let explained: Vec<&str> =
            targets.differences.iter().flat_map(|of| of.rows.iter().map(String::as_str)).collect();
        for row in &explained {
            assert!(
                targets.reported_result_with_id(row).is_some(),
                "{paper} explains {row}, which does not exist"
            );
        }
        let open: Vec<&str> =
            differing_row_ids(&targets, &results).filter(|row| !explained.contains(row)).collect();
        assert!(open.is_empty(), "{paper}: no reason is given for {open:?}");
    }
}

/// A reason that claims to be tested must name existing experiments and figures; a reason that names none is shown as
/// untested.
#[test]
fn reasons_for_differences_name_the_experiments_that_tested_them() {
    for paper in Paper::ALL {
        let targets = paper.targets();
        let defined: BTreeSet<String> = [ExperimentSize::Quick, ExperimentSize::Full]
            .into_iter()
            .flat_map(|size| experiments(paper, &conditions_of_size(size)))
            .map(|experiment| experiment.name)
            .collect();
        for difference in &targets.differences {
            let of = difference.rows.join(", ");
            for name in &difference.tested_by {
                let alone = DifferenceReason { tested_by: vec![name.clone()], ..difference.clone() };
                assert!(
                    defined.iter().any(|experiment| alone.is_tested_by(experiment)),
                    "{of}: there is no experiment {name} that could test the reason"
                );
            }
            let has_figure =
                !difference.figures.is_empty() || difference.why.contains(|c: char| c.is_ascii_digit());
            assert!(difference.tested_by.is_empty() || has_figure, "{of}: what did the test show?");
            assert!(
                !difference.tested_by.is_empty() || difference.figures.is_empty(),
                "{of}: figures of what?"
            );
            assert_at_most_one_kind_of_support(&targets, difference);
        }
        for (_, folder) in checked_in_result_folders().into_iter().filter(|(other, _)| *other == paper) {
            let results = results_in(&folder);
            let page = std::fs::read_to_string(folder.join("RESULTS.md")).unwrap();
            for difference in &targets.differences {
                let records = results.experiments.iter();
                for record in records.filter(|record| difference.is_tested_by(&record.name)) {
                    for figure in &difference.figures {
                        assert!(record.figures.contains_key(figure), "{} has no {figure}", record.name);
                    }
                }
                let differs = |row: &String| differing_row_ids(&targets, &results).any(|other| other == row);
                if difference.support_for_reason() == ReasonSupport::Untested
                    && difference.rows.iter().any(differs)
                {
                    assert!(
                        page.contains(&format!("{} **Untested.**", difference.why)),
                        "{}",
                        difference.why
                    );
                }
            }
        }
    }
}

/// Texts of reasons quote numbers by hand, and could go stale unnoticed when a record changes.
#[test]
fn texts_of_reasons_were_compared_with_the_present_records() {
    let mut stale = Vec::new();
    for paper in Paper::ALL {
        let folders = checked_in_result_folders().into_iter().filter(|(other, _)| *other == paper);
        let records: Vec<PaperResults> = folders.map(|(_, folder)| results_in(&folder)).collect();
        for difference in &paper.targets().differences {
            let digest = digest_of_values_behind_reason(difference, &records);
            if digest != difference.checked_against {
                stale.push(format!(
                    "papers/{paper}/targets.toml, reason for {}: compare the numbers in its text with the records, \
                     correct them, then write checked_against = \"{digest}\"",
                    difference.rows.join(", ")
                ));
            }
        }
    }
    assert!(stale.is_empty(), "values behind reasons have changed:\n{}", stale.join("\n"));
}

/// A change below the third digit must not ask for a new comparison, and a change of the third must.
#[test]
fn the_digest_of_a_reason_depends_on_three_digits_of_each_value() {
    let difference: DifferenceReason =
        toml::from_str("rows = [\"LX-21\"]\nwhy = \"A cause.\"\ntested_by = [\"homes/*\"]").unwrap();
    let digest = |name: &str, value: f64| {
        let mut results = PaperResults::new_empty(Paper::RecyclableSsd, ExperimentSize::Quick, 1);
        results.experiments = vec![ExperimentRecord {
            name: name.to_owned(),
            figures: [("erases".to_owned(), value)].into(),
            ..ExperimentRecord::default()
        }];
        digest_of_values_behind_reason(&difference, &[results])
    };
    assert_eq!(digest("homes/128k", 1234.0), digest("homes/128k", 1233.0));
    assert_ne!(digest("homes/128k", 1234.0), digest("homes/128k", 1245.0));
    assert_eq!(digest("mail/128k", 1234.0), digest("mail/128k", 9999.0), "it did not test the reason");
}

/// Checks that the reason for a difference has at most one kind of support: experiments, a contradiction in the paper,
/// or that the paper reports no number. A contradiction must quote numbers from at least two places of the paper. If
/// the paper reports no number for a row, the row must compare only the direction of the effect.
fn assert_at_most_one_kind_of_support(targets: &ReportedResults, difference: &DifferenceReason) {
    let DifferenceReason { rows, tested_by, contradiction, has_no_figure, remains, .. } = difference;
    let of = rows.join(", ");
    let grounds = [!tested_by.is_empty(), !contradiction.is_empty(), *has_no_figure];
    assert!(grounds.into_iter().filter(|&ground| ground).count() <= 1, "{of} claims two things");
    let places: BTreeSet<&str> = contradiction.iter().map(|statement| statement.place.as_str()).collect();
    assert!(contradiction.is_empty() || places.len() >= 2, "{of}: a contradiction has two places");
    for statement in contradiction {
        let has_figure = statement.says.contains(|c: char| c.is_ascii_digit());
        assert!(has_figure, "{of}: {} says no figure", statement.place);
    }
    assert!(remains.is_empty() || !tested_by.is_empty(), "{of}: what remains after no test?");
    for row in rows.iter().filter(|_| *has_no_figure) {
        let kind = targets.reported_result_with_id(row).map(|target| target.compare.kind);
        assert_eq!(kind, Some(ComparisonKind::Direction), "{row} compares more than a direction");
    }
}

#[test]
fn a_tested_reason_is_confirmed_only_if_no_difference_remains() {
    let of = |keys: &str| -> DifferenceReason {
        toml::from_str(&format!("rows = [\"X-01\"]\nwhy = \"A cause.\"\n{keys}")).unwrap()
    };
    let tested = of("tested_by = [\"a/*\"]");
    assert_eq!(tested.support_for_reason(), ReasonSupport::Confirmed);
    let remaining = of("tested_by = [\"a/*\"]\nremains = \"3 instead of 2\"");
    assert_eq!(remaining.support_for_reason(), ReasonSupport::DifferenceRemains);
    assert_eq!(of("").support_for_reason(), ReasonSupport::Untested);
    let results = PaperResults::new_empty(Paper::RecyclableSsd, ExperimentSize::Quick, 1);
    let text = |difference: &DifferenceReason| summary::support_text_for_reason(difference, &results);
    assert_eq!(text(&tested), "Tested by `a/*` (not run at this size).");
    let not_gone = "Tested by `a/*` (not run at this size). **A difference remains:** 3 instead of 2.";
    assert_eq!(text(&remaining), not_gone);
}

#[test]
fn a_results_page_lists_every_contradiction_within_its_paper() {
    for paper in Paper::ALL {
        let (targets, mut results) =
            (paper.targets(), PaperResults::new_empty(paper, ExperimentSize::Quick, 1));
        results.evaluate_all_rows(paper, None);
        let page = render::results_markdown(&targets, &results, &[]);
        for name in targets.contradictions.keys() {
            assert!(page.contains(&format!("- **{name}**: ")), "{paper} does not list {name}");
        }
    }
}

#[test]
fn a_deviation_from_a_range_with_end_zero_is_printed_in_the_unit_of_the_value() {
    let (targets, mut results) =
        (Paper::RemapSsd.targets(), PaperResults::new_empty(Paper::RemapSsd, ExperimentSize::Quick, 1));
    results.evaluate_all_rows(Paper::RemapSsd, None);
    let row = results.rows.iter_mut().find(|row| row.id == "RM-29").unwrap();
    row.ours = vec![NamedValue::new("performance lost", -0.25), NamedValue::new("write amplification", 2.0)];
    let page = render::results_markdown(&targets, &results, &[]);
    assert!(page.contains("| 0.25 % outside, inside |"), "{page}");
}

#[test]
fn headline_claims_name_existing_rows_and_values() {
    for paper in Paper::ALL {
        let (targets, results) = (paper.targets(), results_in(&papers_folder().join(paper.name())));
        assert!(!targets.headlines.is_empty(), "{paper} claims nothing");
        assert_eq!(
            summary::lines_on_claims_of_abstract(&targets, &results).len(),
            targets.headlines.len(),
            "{paper}"
        );
        for headline in &targets.headlines {
            let target = targets.reported_result_with_id(&headline.row).unwrap();
            for of in &headline.of {
                assert!(target.values.iter().any(|value| value.of == *of), "{} names no {of}", headline.row);
            }
            let row = results.rows.iter().find(|row| row.id == headline.row).unwrap();
            for of in &headline.beside {
                assert!(row.ours.iter().any(|value| value.of == *of), "{} measures no {of}", headline.row);
                assert!(target.reason_not_judged(of).is_some(), "{} judges {of}", headline.row);
            }
        }
    }
}

/// The summary in the document must equal the summary that is generated from the records.
#[test]
fn the_checked_in_summary_is_generated_from_the_records() {
    let records = Paper::ALL.map(|paper| {
        let full = papers_folder().join("full").join(paper.name());
        let full = full.exists().then(|| results_in(&full));
        (paper, results_in(&papers_folder().join(paper.name())), full)
    });
    let document = std::fs::read_to_string(papers_folder().join("../docs/reproduce.md")).unwrap();
    let again = summary::update_summary_in_document(&document, &records).unwrap();
    let command = "`wearwell reproduce all --render --summary docs/reproduce.md`";
    assert!(document == again, "docs/reproduce.md is not what the records say; make it again with {command}");
}

/// Reads the results that are stored in a folder.
fn results_in(folder: &Path) -> PaperResults {
    let text = std::fs::read_to_string(folder.join("results.json")).unwrap();
    PaperResults::from_json(&text).unwrap()
}

/// The result pages in the repository must equal those generated from their records, and the rows of a record must
/// equal those computed from its experiments.
#[test]
fn checked_in_result_pages_are_generated_from_their_records() {
    for (paper, folder) in checked_in_result_folders() {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let results = PaperResults::from_json(&read("results.json")).unwrap();
        let again = format!("; make it again with `wearwell reproduce {paper} --render`");
        let mut evaluated = results.clone();
        evaluated.evaluate_all_rows(
            paper,
            experiment_runner::quick_results_to_compare_with(paper, results.size, &folder).as_ref(),
        );
        for (ours, written) in evaluated.rows.iter().zip(&results.rows) {
            assert_eq!(ours, written, "rows of {paper}{again}");
        }
        assert_eq!(evaluated.rows.len(), results.rows.len(), "rows of {paper}{again}");
        let targets = paper.targets();
        let drawn = figures::draw_figures(&targets, &results);
        assert_eq!(
            read("RESULTS.md"),
            render::results_markdown(&targets, &results, &drawn),
            "RESULTS.md of {paper}{again}"
        );
        assert_eq!(
            read("RESULTS.html"),
            render::results_html(&targets, &results, &drawn),
            "RESULTS.html of {paper}{again}"
        );
        for figure in drawn {
            assert_eq!(
                read(&format!("figures/{}", figure.file_name())),
                figure.svg,
                "{}{again}",
                figure.name
            );
        }
    }
}

// Stale records.

#[test]
fn an_experiment_is_run_again_if_its_code_or_definition_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (options, wanted) = (quick_run_options(folder.path()), [small_experiment("a", "page-map", 1)]);
    let path = folder.path().join("results.json");
    assert_eq!(run_until_experiment(&wanted, &options, 0).1.started_experiments, ["a"]);
    assert!(run_until_experiment(&wanted, &options, 0).1.started_experiments.is_empty());
    let text = std::fs::read_to_string(&path).unwrap();
    let code = wearwell_papers::experiment::code_digest();
    assert_eq!(text.matches(&code).count(), 1);
    std::fs::write(&path, text.replace(&code, "0-0")).unwrap();
    assert_eq!(run_until_experiment(&wanted, &options, 0).1.started_experiments, ["a"], "other code ran it");
}

/// The result files must not depend on the number of threads; their order is that of the catalogue of experiments.
#[test]
fn parallel_experiments_give_the_results_of_sequential_ones() {
    let wanted: Vec<Experiment> =
        (1..=5).map(|seed| small_experiment(&format!("e{seed}"), "recyclable", seed)).collect();
    let text = |jobs: usize| {
        let folder = tempfile::tempdir().unwrap();
        let (results, watch) = run_until_experiment(
            &wanted,
            &ExperimentRunOptions { max_parallel_experiments: jobs, ..quick_run_options(folder.path()) },
            0,
        );
        assert_eq!((results.partial, watch.started_experiments.len()), (false, 5));
        ["results.json", "RESULTS.md"].map(|name| std::fs::read_to_string(folder.path().join(name)).unwrap())
    };
    let alone = text(1);
    for jobs in [2, 3, 16] {
        assert!(text(jobs) == alone, "{jobs} at a time give another record");
    }
}

#[test]
fn an_interrupted_parallel_reproduction_keeps_its_finished_experiments() {
    let folder = tempfile::tempdir().unwrap();
    let options = ExperimentRunOptions { max_parallel_experiments: 3, ..quick_run_options(folder.path()) };
    let wanted: Vec<Experiment> =
        (1..=6).map(|seed| small_experiment(&format!("e{seed}"), "page-map", seed)).collect();
    let (partial, watch) = run_until_experiment(&wanted, &options, 5);
    assert!(partial.partial && watch.started_experiments.len() == 4, "{:?}", watch.started_experiments);
    let kept: BTreeSet<String> = partial.experiments.iter().map(|record| record.name.clone()).collect();
    assert!(!kept.is_empty() && kept.iter().all(|name| watch.started_experiments.contains(name)), "{kept:?}");
    let (complete, rest) = run_until_experiment(&wanted, &options, 0);
    assert_eq!((complete.partial, complete.experiments.len()), (false, 6));
    assert!(
        rest.started_experiments.iter().all(|name| !kept.contains(name))
            && rest.started_experiments.len() + kept.len() == 6
    );
}

/// If the record cannot be written, the run of the experiments ends with that error, even while some of them still run.
#[test]
fn a_deleted_result_folder_ends_the_reproduction() {
    /// Observer that deletes the folder of results when an experiment begins.
    struct FolderDeletingObserver(PathBuf);

    impl ExperimentObserver for FolderDeletingObserver {
        fn experiment_begins(&mut self, _: usize, _: usize, _: &str, _: Option<Duration>) -> ControlFlow<()> {
            let _ = std::fs::remove_dir_all(&self.0);
            ControlFlow::Continue(())
        }

        fn experiment_progress(&mut self, _: &str, _: Progress) -> ControlFlow<()> {
            ControlFlow::Continue(())
        }

        fn experiment_not_run(&mut self, _: &str, _: &str) {}
    }

    let folder = tempfile::tempdir().unwrap();
    let options =
        ExperimentRunOptions { max_parallel_experiments: 2, ..quick_run_options(&folder.path().join("lx")) };
    let jobs: Vec<ExperimentJob> =
        (1..=4).map(|seed| small_experiment(&format!("e{seed}"), "page-map", seed).into()).collect();
    let outcome = experiment_runner::run_experiment_jobs(
        Paper::RecyclableSsd,
        &jobs,
        &options,
        &mut FolderDeletingObserver(options.result_folder.clone()),
    );
    assert!(outcome.is_err());
}

#[test]
fn a_full_size_record_stores_the_digest_of_its_scaled_down_figures() {
    let folder = tempfile::tempdir().unwrap();
    let job = ExperimentJob {
        experiment: small_experiment("a", "recyclable", 1),
        scaled_down_experiment: Some(small_experiment("a", "recyclable", 2)),
    };
    let results = experiment_runner::run_experiment_jobs(
        Paper::RecyclableSsd,
        &[job],
        &quick_run_options(folder.path()),
        &mut RecordingObserver::default(),
    )
    .unwrap();
    let quick = small_experiment("a", "recyclable", 2).run(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(results.experiments[0].quick_digest, Some(quick.figures_digest()));
    assert_ne!(results.experiments[0].figures_digest(), quick.figures_digest());
}

/// Full-size runs take hours, and most code changes change no figure. So a full-size record of older code is kept,
/// instead of run again, if the scaled-down run has the same figures.
#[test]
fn a_full_size_record_of_older_code_is_kept_if_the_scaled_down_run_is_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let job = |name: &str| ExperimentJob {
        experiment: small_experiment(name, "recyclable", 1),
        scaled_down_experiment: Some(small_experiment("quick", "recyclable", 2)),
    };
    let jobs = [job("same"), job("other")];
    let run = |watch: &mut RecordingObserver| {
        experiment_runner::run_experiment_jobs(
            Paper::RecyclableSsd,
            &jobs,
            &quick_run_options(folder.path()),
            watch,
        )
        .unwrap()
        .experiments
    };
    let today = run(&mut RecordingObserver::default());
    let mut older = PaperResults::new_empty(Paper::RecyclableSsd, ExperimentSize::Full, 1);
    older.experiments.clone_from(&today);
    for record in &mut older.experiments {
        record.code = "older".to_owned();
        record.figures.insert("made_by_older_code".to_owned(), 1.0);
    }
    older.experiments[1].quick_digest = Some("another".to_owned());
    std::fs::write(folder.path().join("results.json"), older.to_json()).unwrap();

    let now = run(&mut RecordingObserver::default());
    assert_eq!(now, [older.experiments[0].clone(), today[1].clone()]);
}

/// A full-size record is valid as long as scaled-down runs of the same names have the figures that they had when the
/// record was made.
#[test]
fn full_size_results_of_older_code_are_marked() {
    let defined = experiments(Paper::RecyclableSsd, &conditions_of_size(ExperimentSize::Full));
    let of = |name: &str| defined.iter().find(|experiment| experiment.name == name).unwrap();
    let record = |name: &str, figure: f64| ExperimentRecord {
        name: name.to_owned(),
        key: of(name).definition_digest(),
        scale: 1.0,
        figures: [("write_reduction".to_owned(), figure)].into(),
        ..ExperimentRecord::default()
    };
    let names = ["homes/infinite", "mail/infinite", "web/infinite"];
    let mut quick = PaperResults::new_empty(Paper::RecyclableSsd, ExperimentSize::Quick, 1);
    quick.experiments = names[..2].iter().map(|name| record(name, 0.1)).collect();
    let mut full = PaperResults::new_empty(Paper::RecyclableSsd, ExperimentSize::Full, 1);
    full.experiments = names.iter().map(|name| record(name, 0.2)).collect();
    for (full, quick) in full.experiments.iter_mut().zip(&quick.experiments) {
        full.quick_digest = Some(quick.figures_digest());
    }
    let older = |full: &PaperResults, quick: Option<&PaperResults>| {
        let mut full = full.clone();
        full.evaluate_all_rows(Paper::RecyclableSsd, quick);
        let marked = full.rows.iter().filter(|row| row.verdict.contains("measured by older code")).count();
        (full.older_code.into_iter().collect::<Vec<_>>(), marked)
    };
    assert_eq!(older(&full, Some(&quick)), (vec![], 0));

    let mut changed = quick.clone();
    changed.experiments[0].figures.insert("erases".to_owned(), 1.0);
    let expected = vec![names[0].to_owned(), names[2].to_owned()];
    assert_eq!(
        older(&full, Some(&changed)),
        (expected, 2),
        "one without a counterpart falls with the others"
    );

    let mut redefined = full.clone();
    redefined.experiments[1].key = "another".to_owned();
    let expected = vec![names[1].to_owned(), names[2].to_owned()];
    assert_eq!(older(&redefined, Some(&quick)), (expected, 2));

    let all: Vec<String> = names.map(str::to_owned).into();
    assert_eq!(older(&full, None), (all, 3), "nothing is known without a quick record");
    for record in &mut full.experiments {
        record.code = wearwell_papers::experiment::code_digest();
    }
    assert_eq!(older(&full, None), (vec![], 0), "but for what this code has run");
}

/// Returns what an experiment exercises: its design, its generators, and every setting whose value is a name.
fn exercised_features(experiment: &Experiment) -> BTreeSet<String> {
    let mut features: BTreeSet<String> = BTreeSet::new();
    for part in experiment.source.name().split('+') {
        features.insert(part.split(':').next().unwrap_or_default().to_owned());
    }
    if let ExperimentWork::Replay { design, settings } = &experiment.work {
        features.insert((*design).to_owned());
        let is_word = |setting: &&String| {
            let value = setting.split_once('=').map_or("", |(_, value)| value);
            value.parse::<f64>().is_err()
        };
        features.extend(settings.iter().filter(is_word).cloned());
    }
    features
}

/// Largest cost of the sample of a paper's experiments, counted in host pages and flash operations. The cheapest run of
/// every design is in the sample even if it exceeds this cost. With it the samples of all papers together run for a
/// minute.
const MAX_SAMPLE_COST_PAGES: f64 = 12e6;

/// Returns a sample of a paper's experiments: the cheapest ones that use every design, and then as many as the budget
/// allows of those that exercise other settings. Cost is counted in host pages, flash operations and, if the device is
/// preconditioned, its pages.
fn affordable_sample(wanted: &[Experiment], results: &PaperResults) -> Vec<Experiment> {
    let cost = |experiment: &Experiment| {
        let record = results.experiments.iter().find(|record| record.name == experiment.name);
        let figure = |name: &str| record.and_then(|record| record.figures.get(name)).copied().unwrap_or(0.0);
        let is_filled = format!("{experiment:?}").contains("precondition.mode");
        let device = if is_filled { figure("device.physical_pages") } else { 0.0 };
        ["requests", "trace.requests", "programs", "reads"].map(figure).iter().sum::<f64>() + device
    };
    let mut by_cost: Vec<&Experiment> = wanted.iter().collect();
    by_cost.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    let (mut sample, mut covered, mut pages) = (Vec::<Experiment>::new(), BTreeSet::new(), 0.0);
    let design = |experiment: &Experiment| match &experiment.work {
        ExperimentWork::Replay { design, .. } => *design,
        ExperimentWork::CountRequests => "",
    };
    for &experiment in &by_cost {
        if sample.iter().all(|other| design(other) != design(experiment)) {
            covered.extend(exercised_features(experiment));
            pages += cost(experiment);
            sample.push(experiment.clone());
        }
    }
    for &experiment in &by_cost {
        let is_new = !exercised_features(experiment).is_subset(&covered);
        if is_new && pages + cost(experiment) <= MAX_SAMPLE_COST_PAGES {
            covered.extend(exercised_features(experiment));
            pages += cost(experiment);
            sample.push(experiment.clone());
        }
    }
    sample
}

/// Fails if the stored results of the scaled-down experiments of `paper` were made by other code, or from another list
/// of experiments, than the present ones.
fn assert_stored_results_are_current(paper: Paper) {
    let again = format!("make it again with `wearwell reproduce {paper}`");
    let (results, wanted) = (
        results_in(&papers_folder().join(paper.name())),
        experiments(paper, &conditions_of_size(ExperimentSize::Quick)),
    );
    assert!(
        !results.partial && results.size == ExperimentSize::Quick && results.seed == 1,
        "{paper}; {again}"
    );
    let recorded: BTreeSet<(&str, &str)> =
        results.experiments.iter().map(|record| (record.name.as_str(), record.key.as_str())).collect();
    let keys: Vec<(String, String)> =
        wanted.iter().map(|experiment| (experiment.name.clone(), experiment.definition_digest())).collect();
    let defined: BTreeSet<(&str, &str)> =
        keys.iter().map(|(name, key)| (name.as_str(), key.as_str())).collect();
    let lacking: Vec<_> = defined.difference(&recorded).map(|(name, _)| name).collect();
    let gone: Vec<_> = recorded.difference(&defined).map(|(name, _)| name).collect();
    assert!(lacking.is_empty(), "the record of {paper} lacks {lacking:?} as they are defined; {again}");
    assert!(gone.is_empty(), "the record of {paper} has {gone:?}, which nothing defines; {again}");
    for experiment in affordable_sample(&wanted, &results) {
        let started = std::time::Instant::now();
        let name = &experiment.name;
        let ours = experiment
            .run(&mut |_| ControlFlow::Continue(()))
            .unwrap_or_else(|why| panic!("{name}: {why:?}"));
        let record = results.experiments.iter().find(|record| record.name == *name).unwrap();
        let figures: BTreeSet<&String> = ours.figures.keys().chain(record.figures.keys()).collect();
        for figure in figures {
            let (ours, theirs) = (ours.figures.get(figure), record.figures.get(figure));
            assert_eq!(ours, theirs, "{figure} of {paper} {name}, run now and recorded; {again}");
        }
        println!("{paper} {name}: {:.1} s", started.elapsed().as_secs_f64());
    }
}

#[test]
fn the_checked_in_recyclable_ssd_record_was_made_by_this_code() {
    assert_stored_results_are_current(Paper::RecyclableSsd);
}

#[test]
fn the_checked_in_delta_ftl_record_was_made_by_this_code() {
    assert_stored_results_are_current(Paper::DeltaFtl);
}

#[test]
fn the_checked_in_remap_ssd_record_was_made_by_this_code() {
    assert_stored_results_are_current(Paper::RemapSsd);
}

#[test]
fn the_checked_in_record_of_integrated_lifetime_management_was_made_by_this_code() {
    assert_stored_results_are_current(Paper::IntegratedLifetime);
}

#[test]
fn the_checked_in_geckoftl_record_was_made_by_this_code() {
    assert_stored_results_are_current(Paper::GeckoFtl);
}

/// Bug: the duration of a trace began with its first read or write, but ended with its last request of any operation.
#[test]
fn the_duration_of_a_trace_begins_with_its_first_request_of_any_operation() {
    use wearwell_trace::{CsvWriter, Op, OpenOptions, Request, TraceWriter};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.csv");
    let mut writer = CsvWriter::new(std::fs::File::create(&path).unwrap()).unwrap();
    for (time_s, op) in [(1, Op::Flush), (2, Op::Trim), (5, Op::Write), (9, Op::Read), (11, Op::Trim)] {
        let len_bytes = if op == Op::Flush { 0 } else { 4096 };
        writer
            .write(&Request { time_ns: time_s * 1_000_000_000, op, len_bytes, ..Request::default() })
            .unwrap();
    }
    writer.finish().unwrap();
    let input = wearwell_replay::input::Input::Trace { path, options: OpenOptions::default() };
    let figures =
        wearwell_papers::statistics::compute_trace_statistics(&input, &mut |_| ControlFlow::Continue(()))
            .unwrap();
    assert_eq!(figures["duration_s"].to_bits(), 10.0_f64.to_bits());
}
