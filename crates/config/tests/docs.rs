//! Tests that `docs/configuration.md` names exactly the existing keys, each with its default and every value that it
//! may take by name. The expected names come from the parser itself, whose refusals list the valid names.

use std::collections::BTreeSet;

use wearwell_config::{Config, ConfigError};

/// Text of docs/configuration.md.
const DOCUMENT: &str = include_str!("../../../docs/configuration.md");
/// A name that no configuration value has.
const INVALID_NAME: &str = "zzz-nobody";

/// Returns the values that the parser would have accepted in place of the invalid value [`INVALID_NAME`].
fn accepted_values_of(setting: &str) -> Vec<String> {
    let refusal =
        Config::from_text_and_settings(None, &[setting.to_owned()]).expect_err("nobody has this name");
    let ConfigError::Toml { message, .. } = refusal else { panic!("{setting}: {refusal}") };
    let names = message.split('`').skip(1).step_by(2).filter(|name| *name != INVALID_NAME);
    let is_list = message.contains("expected");
    // A suggestion at the end repeats one of the names.
    names.filter(|_| is_list).map(str::to_owned).collect()
}

/// Returns all configuration keys (`section.key`), as the refusals of the parser list them.
fn configuration_keys() -> BTreeSet<String> {
    let sections = accepted_values_of(&format!("{INVALID_NAME}.x=1"));
    let of_section = |section: &String| {
        let keys = accepted_values_of(&format!("{section}.{INVALID_NAME}=1"));
        keys.into_iter().map(move |key| format!("{section}.{key}")).collect::<Vec<_>>()
    };
    sections.iter().flat_map(of_section).collect()
}

/// Returns the rows of the tables in docs/configuration.md: key, unit, default, meaning.
fn setting_rows_of_document() -> Vec<[&'static str; 4]> {
    let is_row = |line: &&str| line.starts_with("| `");
    let cells = |line: &'static str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        cells.try_into().unwrap_or_else(|cells| panic!("not four cells: {cells:?}"))
    };
    DOCUMENT.lines().filter(is_row).map(cells).collect()
}

/// Returns the row about this key in the tables of docs/configuration.md.
fn document_row_of_setting(key: &str) -> [&'static str; 4] {
    let name = format!("`{key}`");
    setting_rows_of_document()
        .into_iter()
        .find(|row| row[0] == name)
        .unwrap_or_else(|| panic!("docs/configuration.md lacks {key}"))
}

#[test]
fn the_configuration_document_lists_exactly_the_existing_keys() {
    let documented: BTreeSet<String> =
        setting_rows_of_document().iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
    let keys = configuration_keys();
    assert!(keys.len() > 50, "only {} keys: the parser's refusals read differently now", keys.len());
    let missing: Vec<_> = keys.difference(&documented).collect();
    let stray: Vec<_> = documented.difference(&keys).collect();
    assert!(missing.is_empty() && stray.is_empty(), "not documented: {missing:?}; not a key: {stray:?}");
}

#[test]
fn documented_defaults_equal_those_of_the_configuration() {
    let defaults: toml::Table = Config::default().to_toml().parse().expect("it writes TOML");
    let mut seen = 0;
    for (section, table) in &defaults {
        for (key, value) in table.as_table().expect("sections are tables") {
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let [name, _, default, _] = document_row_of_setting(&format!("{section}.{key}"));
            assert_eq!(default, format!("`{shown}`"), "default of {name}");
            seen += 1;
        }
    }
    assert!(seen > 20, "only {seen} keys have a default");
}

#[test]
fn every_named_configuration_value_is_documented() {
    let mut named_keys = 0;
    for key in configuration_keys() {
        let [_, unit, default, meaning] = document_row_of_setting(&key);
        if unit != "name" || key == "device.preset" {
            continue;
        }
        let values = accepted_values_of(&format!("{key}={INVALID_NAME}"));
        assert!(!values.is_empty(), "{key} takes no names");
        named_keys += 1;
        for value in values {
            let shown = format!("`{value}`");
            assert!(
                meaning.contains(&shown) || default == shown,
                "{key} may be {value}; its row does not say so"
            );
        }
    }
    assert!(named_keys > 7, "only {named_keys} keys take names");
}

#[test]
fn the_documented_example_is_a_valid_configuration() {
    let block =
        DOCUMENT.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let config =
        Config::from_text_and_settings(Some(("drive.toml", block)), &["gc.policy=cost-benefit".to_owned()]);
    config.expect("the example is valid").resolve_device(50_000).expect("and describes a device");
}
