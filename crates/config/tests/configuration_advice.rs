//! Tests of the advice in the error about parts of a design that cannot be combined: the engine accepts the
//! configurations that the error suggests.

use wearwell::design::ALL;
use wearwell_config::{Config, ConfigError};

/// Builds a configuration from valid settings alone.
fn config_of(settings: &[String]) -> Config {
    Config::from_text_and_settings(None, settings).unwrap_or_else(|error| panic!("{settings:?}: {error}"))
}

/// Returns the refusal of a design with these settings, for an image or for a simulation; `None` if it is accepted.
fn refusal(design: &str, settings: &[String], is_image: bool) -> Option<(&'static str, String)> {
    let config = config_of(settings);
    let resolved = config.resolve_device(100_000).unwrap();
    let parts = if is_image {
        config.design_parts_for_image(design, &resolved)
    } else {
        config.design_parts(design, &resolved)
    };
    match parts {
        Ok(_) => None,
        Err(ConfigError::IncompatibleParts { reason, advice }) => Some((reason, advice)),
        Err(other) => panic!("{design} with {settings:?}: {other}"),
    }
}

/// Returns the settings that result if the user follows the advice of a refusal: one list for each alternative.
fn settings_following_advice(advice: &str, settings: &[String]) -> Vec<Vec<String>> {
    let without = |settings: &[String], key: &str| -> Vec<String> {
        settings.iter().filter(|setting| setting.split('=').next() != Some(key)).cloned().collect()
    };
    let mut all = Vec::new();
    for alternative in advice.split(", or ") {
        let mut followed = vec![settings.to_vec()];
        for change in alternative.split(" and ") {
            if let Some(key) = change.strip_prefix("leave ").and_then(|rest| rest.strip_suffix(" out")) {
                followed = followed.iter().map(|settings| without(settings, key)).collect();
                continue;
            }
            let choice = change.strip_prefix("choose ").unwrap_or(change);
            let (choice, replaced) = choice.split_once(" in place of ").unwrap_or((choice, ""));
            let (key, values) = choice.split_once('=').unwrap_or_else(|| panic!("{advice}"));
            let with = |settings: &Vec<String>| -> Vec<Vec<String>> {
                let kept = without(&without(settings, key), replaced);
                let set = |value: &str| [kept.clone(), vec![format!("{key}={value}")]].concat();
                values.split(" or ").map(set).collect()
            };
            followed = followed.iter().flat_map(with).collect();
        }
        all.extend(followed);
    }
    all
}

/// Checks that each alternative of the advice is accepted and that no setting loses its effect. Returns whether the
/// settings were refused at all.
fn assert_advice_is_accepted(design: &str, settings: &[String], is_image: bool) -> bool {
    let Some((reason, advice)) = refusal(design, settings, is_image) else { return false };
    let followed = settings_following_advice(&advice, settings);
    assert!(!followed.is_empty(), "{design} with {settings:?}: {reason}: {advice}");
    for settings in followed {
        let again = refusal(design, &settings, is_image);
        assert_eq!(again, None, "{design} with {settings:?}, as advised: {reason}: {advice}");
        let ignored = config_of(&settings).ignored_settings(&settings, &[design.to_owned()]);
        assert!(ignored.is_empty(), "{design} with {settings:?}, as advised: {ignored:?}");
    }
    true
}

/// Settings that the engine refuses in some designs, alone or in pairs.
const SETTINGS: [&str; 29] = [
    "parts.map=flat",
    "parts.map=cached",
    "parts.map=lazy",
    "parts.validity=ram",
    "parts.validity=bitmap",
    "parts.validity=log",
    "parts.validity=gecko",
    "parts.survives=oob-scan",
    "parts.survives=battery",
    "parts.survives=battery-flush",
    "parts.survives=backward",
    "parts.survives=nvram-entries",
    "parts.survives=nvram-map",
    "parts.content=none",
    "parts.content=remap",
    "parts.content=dedup+recycle",
    "parts.content=delta",
    "parts.content=recycle+dedup+delta+compress",
    "parts.reverse_map=segments",
    "parts.reverse_map=none",
    "remap.atomic_commands=true",
    "recovery.by=backward",
    "recovery.by=battery",
    "recovery.blocks=head-tail",
    "recovery.blocks=first-pages",
    "validity.kind=bitmap",
    "mapping.dirty_share=0.1",
    "mapping.checkpoints=true",
    "gc.policy=fifo",
];

/// Returns whether the settings are accepted apart from rules on combining parts: no part is set twice, and each
/// setting has an effect.
fn is_accepted_without_part_combination_rules(design: &str, settings: &[String]) -> bool {
    let key_of = |setting: &String| setting.split('=').next().unwrap_or_default().to_owned();
    let keys: Vec<String> = settings.iter().map(key_of).collect();
    if keys.iter().enumerate().any(|(at, key)| keys[..at].contains(key)) {
        return false;
    }
    let config = config_of(settings);
    let resolved = config.resolve_device(100_000).unwrap();
    !matches!(config.design_parts(design, &resolved), Err(ConfigError::InvalidValue(_)))
        && config.ignored_settings(settings, &[design.to_owned()]).is_empty()
}

/// Regression: refusals advised `parts.map=lazy` where it was set, a reverse map that the map forbids, or settings that
/// the chosen parts do not have.
#[test]
fn settings_that_follow_the_advice_of_a_refusal_are_accepted() {
    let mut refused = 0;
    for design in ALL.iter().map(|design| design.name) {
        for (at, first) in SETTINGS.iter().enumerate() {
            for second in &SETTINGS[at..] {
                let mut settings = vec![(*first).to_owned()];
                settings.extend((first != second).then(|| (*second).to_owned()));
                if !is_accepted_without_part_combination_rules(design, &settings) {
                    continue;
                }
                refused += u32::from(assert_advice_is_accepted(design, &settings, false));
                refused += u32::from(assert_advice_is_accepted(design, &settings, true));
            }
        }
    }
    println!("{refused} refusals");
    assert!(refused > 1000, "{refused} refusals");
}

#[test]
fn a_refusal_names_what_replaces_the_setting_of_the_user() {
    let refused = |design, settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
        refusal(design, &settings, false).expect("it is refused").1
    };
    let advice = refused("dftl", &["recovery.by=backward"]);
    assert!(advice.contains("in place of recovery.by"), "{advice}");
    assert!(advice.contains("leave recovery.by out"), "{advice}");
    let advice = refused("page-map", &["parts.map=lazy", "parts.content=delta"]);
    assert_eq!(advice, "choose parts.map=cached or flat, or choose parts.content=none");
}
