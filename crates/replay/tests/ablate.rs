//! Tests of ablations: Shapley values of small games, compared with results computed by hand, and the gains of content
//! mechanisms on simulated drives.

use common::{generated_input, run_input, small_device_config};
use wearwell_replay::ablate::{
    self, AblatedMechanisms, Ablation, CooperativeGame, FigureGains, SubsetOutcome,
};

use crate::common;

/// Makes the game (for Shapley values) whose value for subset `k` of the players is `values[k]`.
fn game_of_subset_values(values: &[f64]) -> CooperativeGame {
    CooperativeGame::of_subset_values(values.iter().map(|&value| Some(value)).collect())
}

/// Returns the Shapley value of each player of a game.
fn shapley_values(game: &CooperativeGame, players: usize) -> Vec<f64> {
    (0..players).map(|player| game.shapley_value(player).expect("every value is known")).collect()
}

/// Checks that the numbers found equal the expected ones, except for rounding errors.
#[track_caller]
fn assert_near(found: &[f64], expected: &[f64]) {
    let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
    assert!(
        found.len() == expected.len() && found.iter().zip(expected).all(is_near),
        "{found:?} {expected:?}"
    );
}

/// A player that adds the same gain to every subset has that gain as its Shapley value. In the list of subset values,
/// bit `k` of the index is set if player `k` belongs to the subset.
#[test]
fn the_shapley_value_of_a_player_with_constant_gain_is_that_gain() {
    let weights = [-3.0, 5.0, 11.0];
    let value = |subset: usize| {
        100.0 + (0..3).filter(|player| subset >> player & 1 == 1).map(|player| weights[player]).sum::<f64>()
    };
    let additive = game_of_subset_values(&(0..8).map(value).collect::<Vec<_>>());
    assert_near(&shapley_values(&additive, 3), &weights);
    for (player, weight) in weights.into_iter().enumerate() {
        assert_eq!(
            (additive.gain_alone(player), additive.gain_when_added_to_all_others(player)),
            (Some(weight), Some(weight))
        );
    }
    assert_eq!(additive.player_interaction(0, 2), Some(0.0));
}

#[test]
fn two_redundant_mechanisms_share_their_saving_and_removing_one_loses_nothing() {
    let substitutes = game_of_subset_values(&[100.0, 70.0, 70.0, 70.0]);
    assert_eq!(
        (substitutes.gain_alone(0), substitutes.gain_when_added_to_all_others(0)),
        (Some(-30.0), Some(0.0))
    );
    assert_near(&shapley_values(&substitutes, 2), &[-15.0, -15.0]);
    assert_eq!(
        substitutes.player_interaction(0, 1),
        Some(30.0),
        "all that each saves is the other's as well"
    );
}

#[test]
fn two_mechanisms_that_save_only_together_share_the_saving_equally() {
    let complements = game_of_subset_values(&[100.0, 100.0, 100.0, 60.0]);
    assert_eq!(
        (complements.gain_alone(1), complements.gain_when_added_to_all_others(1)),
        (Some(0.0), Some(-40.0))
    );
    assert_near(&shapley_values(&complements, 2), &[-20.0, -20.0]);
    assert_eq!(complements.player_interaction(0, 1), Some(-40.0));
}

/// One player has a left glove, two have a right one each; a pair is worth 1. In four of the six orders the left glove
/// completes a pair.
#[test]
fn the_glove_game_has_its_textbook_shapley_values() {
    let is_pair = |subset: usize| subset & 1 == 1 && subset > 1;
    let values: Vec<f64> = (0..8).map(|subset| f64::from(u8::from(is_pair(subset)))).collect();
    assert_near(&shapley_values(&game_of_subset_values(&values), 3), &[2.0 / 3.0, 1.0 / 6.0, 1.0 / 6.0]);
}

#[test]
fn shapley_values_add_up_to_the_gain_of_all_mechanisms() {
    for players in 1..=5 {
        let values: Vec<f64> = (0..1usize << players).map(|subset| (subset * 7919 % 997) as f64).collect();
        let sum: f64 = shapley_values(&game_of_subset_values(&values), players).iter().sum();
        assert!((sum - (values.last().unwrap() - values[0])).abs() < 1e-9, "{players} players: {sum}");
    }
}

#[test]
fn a_shapley_value_that_needs_a_missing_run_is_missing() {
    let game = CooperativeGame::of_subset_values(vec![Some(9.0), Some(7.0), None, Some(5.0)]);
    assert_eq!((game.gain_alone(0), game.gain_alone(1)), (Some(-2.0), None));
    assert_eq!(
        (game.gain_when_added_to_all_others(0), game.gain_when_added_to_all_others(1)),
        (None, Some(-2.0))
    );
    assert_eq!(
        (game.shapley_value(0), game.shapley_value(1), game.player_interaction(0, 1)),
        (None, None, None)
    );
}

/// Returns the content mechanisms with these names.
fn mechanisms_of_names(names: &[&str]) -> AblatedMechanisms {
    AblatedMechanisms::parse_names(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).unwrap()
}

/// Workload in which 30 % of the writes repeat a content, and a page compresses to half of its size.
const LOAD: &str = "uniform:write=1.0,pages=12000,requests=40000+dup:share=0.3,compress=0.5";

/// Replays `load` on a small drive with every subset of the mechanisms, and returns the outcomes of the runs.
fn run_all_subsets(mechanisms: &AblatedMechanisms, load: &str) -> Vec<SubsetOutcome> {
    let run = |setting: String| {
        run_input(&small_device_config(&[setting.as_str()]), &generated_input(load), "page-map")
    };
    let settings = mechanisms.subsets().map(|subset| mechanisms.subset_setting(subset));
    settings.map(|setting| SubsetOutcome::Ran(Box::new(run(setting)))).collect()
}

/// Makes an ablation of the design `page-map` from the outcomes of all subsets.
fn ablation_of_outcomes(mechanisms: &AblatedMechanisms, outcomes: Vec<SubsetOutcome>) -> Ablation {
    Ablation::of_outcomes((LOAD.to_owned(), "page-map".to_owned(), String::new()), mechanisms, outcomes)
}

/// Returns the gains of the mechanisms in the figure with the key `name`.
fn gains_of_figure<'a>(ablation: &'a Ablation, name: &str) -> &'a FigureGains {
    ablation.figures.iter().find(|gains| gains.figure == name).unwrap()
}

/// The gains that an ablation reports for deduplication equal differences between runs: used alone, against the run
/// without mechanisms; added last, against the run with all other mechanisms.
#[test]
fn an_ablation_finds_what_deduplication_saves() {
    let mechanisms = mechanisms_of_names(&["dedup", "compress"]);
    let outcomes = run_all_subsets(&mechanisms, LOAD);
    let programs = |outcome: &SubsetOutcome| match outcome {
        SubsetOutcome::Ran(run) => run.programs as f64,
        other => panic!("{other:?}"),
    };
    let [none, dedup, compress, both] = [0, 1, 2, 3].map(|number| programs(&outcomes[number]));
    let ablation = ablation_of_outcomes(&mechanisms, outcomes);
    assert!(!ablation.partial);
    let gains = gains_of_figure(&ablation, "programs");
    let of_dedup = &gains.mechanisms[0];
    let alone = of_dedup.alone.unwrap();
    assert_near(&[alone.absolute, alone.relative.unwrap()], &[dedup - none, (dedup - none) / none]);
    assert!(alone.relative.unwrap() < -0.25, "30 % of the writes repeat content: {alone:?}");
    assert_near(&[of_dedup.last.unwrap().absolute], &[both - compress]);
    let sum: f64 = gains.mechanisms.iter().map(|gain| gain.shapley.unwrap().absolute).sum();
    assert_near(&[sum, gains.whole.unwrap().absolute], &[both - none, both - none]);
    let overlap = gains.overlaps[0].overlap.unwrap().absolute;
    assert_near(&[overlap], &[(none - dedup) + (none - compress) - (none - both)]);
    assert!(overlap > 0.0, "a page that is not written is not compressed");
    let table = ablate::ablation_text(&ablation);
    assert!(table.contains("dedup and compress compete for the same writes"), "{table}");
}

/// Two mechanisms that overlap have a positive overlap in programs saved (fewer are better) and in TB written (more are
/// better).
#[test]
fn the_overlap_of_two_mechanisms_is_positive_in_lifetime_gained_and_in_programs_saved() {
    let mechanisms = mechanisms_of_names(&["dedup", "recycle"]);
    let ablation = ablation_of_outcomes(&mechanisms, run_all_subsets(&mechanisms, LOAD));
    let (programs, tb) =
        (gains_of_figure(&ablation, "programs"), gains_of_figure(&ablation, "tb_written_until_worn"));
    let overlap = |gains: &FigureGains| gains.overlaps[0].overlap.unwrap().absolute;
    assert!(programs.whole.unwrap().absolute < 0.0 && tb.whole.unwrap().absolute > 0.0);
    assert!(overlap(programs) > 0.0 && overlap(tb) > 0.0, "{programs:?} {tb:?}");
    let reads = gains_of_figure(&ablation, "read_mean_us");
    assert_eq!(
        (reads.baseline, reads.whole, &reads.why_no_shapley),
        (None, None, &None),
        "there is no time model"
    );
}

#[test]
fn ablation_figures_that_need_a_refused_subset_are_missing() {
    let mechanisms = mechanisms_of_names(&["dedup", "compress"]);
    let mut outcomes = run_all_subsets(&mechanisms, LOAD);
    outcomes[3] = SubsetOutcome::Refused("they do not go together".to_owned());
    let ablation = ablation_of_outcomes(&mechanisms, outcomes);
    assert!(!ablation.partial, "a refusal is an answer");
    let gains = gains_of_figure(&ablation, "programs");
    assert!(gains.mechanisms.iter().all(|gain| gain.alone.is_some()));
    assert!(gains.mechanisms.iter().all(|gain| gain.last.is_none() && gain.shapley.is_none()));
    assert!(gains.overlaps[0].overlap.is_none() && gains.whole.is_none());
    assert_eq!(gains.why_no_shapley.as_deref(), Some("the engine refuses dedup+compress"));
    let table = ablate::ablation_text(&ablation);
    assert!(table.contains("refused: dedup+compress: they do not go together"), "{table}");
    assert!(table.contains("no Shapley values, which need all 4 subsets, of page programs"), "{table}");
    let csv = ablate::data_table(&[ablation]).to_csv();
    let line = csv.lines().last().unwrap();
    assert!(line.starts_with("dedup+compress,they do not go together,\"uniform:"), "{line}");
}

/// The table shows a partial run, but no gain is computed from it.
#[test]
fn an_ablation_that_was_interrupted_is_partial() {
    let mechanisms = mechanisms_of_names(&["dedup", "compress"]);
    let mut outcomes = run_all_subsets(&mechanisms, LOAD);
    outcomes[3] = SubsetOutcome::NotRun;
    let SubsetOutcome::Ran(run) = &mut outcomes[2] else { panic!("it ran") };
    (run.partial, run.partial_reason) = (true, Some("interrupted".to_owned()));
    let ablation = ablation_of_outcomes(&mechanisms, outcomes);
    assert!(ablation.partial);
    let gains = gains_of_figure(&ablation, "programs");
    assert!(gains.mechanisms[0].alone.is_some() && gains.mechanisms[1].alone.is_none());
    assert!(gains.mechanisms[0].shapley.is_none());
    let table = ablate::ablation_text(&ablation);
    for said in ["PARTIAL: 1 of 4 subsets were not run", "PARTIAL: compress ended early: interrupted"] {
        assert!(table.contains(said), "no `{said}` in {table}");
    }
    assert_eq!(ablate::data_table(&[ablation]).rows().len(), 3, "what was not begun has no row");
}

/// A gain that is computed from extrapolated figures carries the mark of unsteady extrapolations.
#[test]
fn lifetime_changes_in_an_ablation_carry_the_unsteady_marks_of_their_runs() {
    let mechanisms = mechanisms_of_names(&["dedup"]);
    let set = |mut outcomes: Vec<SubsetOutcome>, steady: [bool; 2]| {
        for (outcome, is_steady) in outcomes.iter_mut().zip(steady) {
            let SubsetOutcome::Ran(run) = outcome else { panic!("it ran") };
            run.lifetime.is_from_steady_part = is_steady;
        }
        ablation_of_outcomes(&mechanisms, outcomes)
    };
    let outcomes = run_all_subsets(&mechanisms, LOAD);
    for (steady, is_marked) in [([true, true], false), ([true, false], true), ([false, true], true)] {
        let ablation = set(outcomes.clone(), steady);
        let change = gains_of_figure(&ablation, "tb_written_until_worn").mechanisms[0].alone.unwrap();
        assert_eq!(change.is_from_unsteady_run, is_marked, "{steady:?}");
        assert_eq!(ablate::ablation_text(&ablation).contains("* extrapolated"), is_marked);
        let programs = gains_of_figure(&ablation, "programs").mechanisms[0].alone.unwrap();
        assert!(!programs.is_from_unsteady_run, "counts are counted");
    }
}

/// Regression: the change of a lifetime was the difference between a whole run and the steady part of another run.
#[test]
fn an_ablation_compares_lifetimes_of_whole_runs_if_one_run_is_not_steady() {
    let mechanisms = mechanisms_of_names(&["dedup"]);
    let mut outcomes = run_all_subsets(&mechanisms, LOAD);
    outcomes[1] = outcomes[0].clone();
    for (outcome, is_steady) in outcomes.iter_mut().zip([true, false]) {
        let SubsetOutcome::Ran(run) = outcome else { panic!("it ran") };
        run.lifetime.is_from_steady_part = is_steady;
        run.lifetime.host_tb_written_until_worn = Some(if is_steady { 5.0 } else { 9.0 });
        // Of the steady part, with 1.8 times the write amplification of the whole run.
        (run.steady.programs, run.steady.host_bytes) = (run.programs * 9 / 10, run.bytes.host_written / 2);
    }
    let ablation = ablation_of_outcomes(&mechanisms, outcomes);
    let gains = gains_of_figure(&ablation, "tb_written_until_worn");
    let change = gains.mechanisms[0].alone.unwrap();
    assert!((gains.baseline.unwrap() - 9.0).abs() < 0.01, "{gains:?}");
    // Programs of the steady part are rounded to a whole number.
    assert!(change.absolute.abs() < 0.01 && change.is_from_unsteady_run, "{change:?}");
    let table = ablate::ablation_text(&ablation);
    let said = "changes and overlaps of TB written until worn are those of the whole runs";
    assert!(table.contains(said), "{table}");
}

#[test]
fn an_ablation_of_inseparable_mechanisms_is_refused_with_a_sentence() {
    let refused = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        AblatedMechanisms::parse_names(&names).expect_err("it is refused").to_string()
    };
    for (names, said) in [
        (&["dedupe"][..], "did you mean `dedup`"),
        (&[], "no mechanism"),
        (&["none"], "no mechanism"),
        (&["delta", "delta"], "delta twice"),
        (&["recycle", "remap", "dedup", "delta", "compress", "silent", "zip"], "7 mechanisms"),
    ] {
        assert!(refused(names).contains(said), "{names:?}: {}", refused(names));
    }
}

/// `dedup` executes remap commands too, so that `dedup` and `dedup` with `remap` are the same device.
#[test]
fn ablation_subsets_are_numbered_and_written_as_settings() {
    let mechanisms = mechanisms_of_names(&["dedup", "remap", "delta"]);
    let settings: Vec<String> =
        mechanisms.subsets().map(|subset| mechanisms.subset_setting(subset)).collect();
    let contents: Vec<&str> =
        settings.iter().map(|setting| setting.strip_prefix("parts.content=").unwrap()).collect();
    let expected = ["none", "remap", "dedup", "dedup", "delta", "remap+delta", "dedup+delta", "dedup+delta"];
    assert_eq!(contents, expected);
    assert_eq!(mechanisms.subsets().last(), Some(mechanisms.full_subset()));
    assert_eq!(mechanisms.subset_name(mechanisms.full_subset()), "remap+dedup+delta");
    assert_eq!(
        mechanisms_of_names(&["delta+remap", "dedup"]),
        mechanisms,
        "a plus sign separates names as well"
    );
}
