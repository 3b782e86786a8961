//! Tests of the help of all commands: its examples can be run, and each of its words has one meaning.

use wearwell_config::Config;
use wearwell_replay::content_model::ContentModelSpec;
use wearwell_replay::input::Input;

/// Returns the command lines of the examples in `--help`, each split into words and cut where a shell redirects the
/// output to a file.
fn example_command_lines(command: &clap::Command) -> Vec<Vec<String>> {
    let own = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines = own.lines().filter(|line| line.starts_with("  wearwell "));
    let words =
        |line: &str| line.split_whitespace().take_while(|word| *word != ">").map(str::to_owned).collect();
    lines.map(words).chain(command.get_subcommands().flat_map(example_command_lines)).collect()
}

#[test]
fn examples_in_help_are_commands() {
    let examples = example_command_lines(&wearwell_cli::command_definition());
    assert!(examples.len() > 10, "{examples:?}");
    for words in examples {
        assert!(
            wearwell_cli::command_definition().try_get_matches_from(&words).is_ok(),
            "{}",
            words.join(" ")
        );
    }
}

/// Returns the values of an option in the examples of `--help`: the word after each `flag`.
fn example_values_of(flag: &str) -> Vec<String> {
    let examples = example_command_lines(&wearwell_cli::command_definition());
    let pairs = examples.iter().flat_map(|words| words.windows(2));
    pairs.filter(|pair| pair[0] == flag).map(|pair| pair[1].clone()).collect()
}

/// Regression: examples used `zipf:a=0.9`, a key that no generator has.
#[test]
fn every_workload_and_setting_in_help_examples_parses() {
    let (workloads, contents, settings) =
        (example_values_of("--workload"), example_values_of("--content"), example_values_of("--set"));
    assert!(workloads.len() > 2 && !contents.is_empty() && !settings.is_empty());
    for spec in workloads {
        Input::of_generator_spec(&spec).unwrap_or_else(|error| panic!("{spec}: {error}"));
    }
    for spec in contents {
        spec.parse::<ContentModelSpec>().unwrap_or_else(|error| panic!("{spec}: {error}"));
    }
    Config::from_text_and_settings(None, &settings).unwrap_or_else(|error| panic!("{settings:?}: {error}"));
}

/// Bug: the list of designs in the help of `create` and `serve` was written by hand and lacked the newest ones.
#[test]
fn help_of_live_devices_names_all_designs() {
    let mut command = wearwell_cli::command_definition();
    for name in ["create", "serve"] {
        let live = command.find_subcommand_mut(name).expect("a command");
        let help = live.render_long_help().to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        for design in wearwell::design::ALL {
            assert!(help.contains(design.name), "{name}: {} is missing in: {help}", design.name);
        }
        assert!(help.contains("only in memory: u-ftl)"), "{name}: {help}");
    }
}

/// The word "closed" means a loop with requests in flight (`replay.arrival`), so no help of a generator uses it.
#[test]
fn workload_help_does_not_use_the_word_closed() {
    let help = wearwell_replay::workload::WORKLOAD_GRAMMAR.help_text()
        + &wearwell_replay::host_models::HOST_MODEL_GRAMMAR.help_text();
    assert!(!help.contains("closed"), "{help}");
}

/// Bug: the help of `life` said that several values of `--over-provisioning` or `--gc-policy` are run one by one, but
/// the command refused them.
#[test]
fn help_of_life_does_not_offer_several_values_of_an_option() {
    let mut command = wearwell_cli::command_definition();
    let mut help = |name: &str| {
        let found = command.find_subcommand_mut(name).expect("a command");
        found.render_long_help().to_string().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (life, compare) = (help("life"), help("compare"));
    for offered in ["several, with commas between them, are run one by one", "; or several"] {
        assert!(compare.contains(offered), "`{offered}` is missing in: {compare}");
        assert!(!life.contains(offered), "`{offered}` is in: {life}");
    }
    assert!(life.contains("Spare space / logical space [device.over_provisioning]"), "{life}");
}
