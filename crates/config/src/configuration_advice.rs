//! Refuses a design whose parts cannot be combined, and searches for changes of the configuration that make them
//! compatible.
//!
//! The changes are found by trying. Single changes are tried first: another map, page-validity store, reverse map or
//! persistence (way to survive a loss of power), fewer content mechanisms, and settings of the user left out. Then two
//! to four of these are tried together. So the rules of the engine are not repeated here, and none of them refuses the
//! advised configuration. (A device may still be refused for its layout.) A refused configuration costs up to some ten
//! thousand trials, which take less than a second.
//!
//! Invariant: with the advised change the engine can combine the parts, and no setting of the user loses its effect.

use wearwell::Error;
use wearwell::design::Parts;

use super::parts::{names_of_parts, setting_text_of_name};
use super::{
    Config, ConfigError, ContentMechanismList, ContentMechanismName, DeviceConfig, MapName, MappingConfig,
    MetadataGcName, PartsConfig, PersistenceName, RecoveryConfig, ResolvedDevice, ReverseMapName,
    ValidityStoreName, VictimPolicyName, WearConfig,
};

/// Hardware with which a device is assumed to survive a loss of power.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PowerLossAssumption {
    /// The hardware that the design of the device assumes, which may include a battery.
    AsDesigned,
    /// Flash and NVRAM alone, without a battery: the hardware of an image of `wearwell serve`.
    NoBattery,
}

impl PowerLossAssumption {
    /// Returns the parts (map, page validity, ...) of the design called `design`, without a battery if this assumption
    /// about the hardware excludes one.
    fn design_parts_under_assumption(
        self,
        config: &Config,
        design: &str,
        resolved: &ResolvedDevice,
    ) -> Result<Parts, ConfigError> {
        let parts = config.unchecked_design_parts(design, resolved)?;
        Ok(match self {
            Self::AsDesigned => parts,
            Self::NoBattery => parts.without_battery(),
        })
    }
}

/// Why parts are refused for an image that a drive with a battery could have.
const LACK_OF_BATTERY: &str = "the parts as configured need a battery that keeps tables in RAM when power is lost, and \
                               the image of a live device has none";

/// A change of one key of a configuration, and the configuration with this change.
#[derive(Clone)]
struct KeyChange {
    /// The changed key, as `section.key`.
    key: &'static str,
    /// The new value of the key; `None` if the key is left out.
    value: Option<String>,
    /// Another key, set by the user, that chooses the same part of the design, and that the changed key replaces;
    /// `None` if there is no such key.
    replaced_key: Option<&'static str>,
    /// The configuration with this change.
    changed_config: Config,
}

impl Config {
    /// Returns the parts of the design called `design`; those that the section `[parts]` sets replace the design's own.
    ///
    /// # Errors [`ConfigError::UnknownName`]; [`ConfigError::InvalidValue`] if a part is chosen twice;
    /// [`ConfigError::IncompatibleParts`] if the parts cannot be combined; this error advises changes of the
    /// configuration that make them compatible.
    pub fn design_parts(&self, design: &str, resolved: &ResolvedDevice) -> Result<Parts, ConfigError> {
        self.compatible_parts(design, resolved, PowerLossAssumption::AsDesigned)
    }

    /// Returns the parts of the design called `design` for an image of a live device, which has no battery
    /// ([`Parts::without_battery`]).
    ///
    /// # Errors
    /// Those of [`Self::design_parts`].
    pub fn design_parts_for_image(
        &self,
        design: &str,
        resolved: &ResolvedDevice,
    ) -> Result<Parts, ConfigError> {
        self.compatible_parts(design, resolved, PowerLossAssumption::NoBattery)
    }

    /// Returns the parts of a design, or an error with advice if they cannot be combined.
    fn compatible_parts(
        &self,
        design: &str,
        resolved: &ResolvedDevice,
        power_loss_assumption: PowerLossAssumption,
    ) -> Result<Parts, ConfigError> {
        let parts = power_loss_assumption.design_parts_under_assumption(self, design, resolved)?;
        match parts.require_compatible() {
            Ok(()) => Ok(parts),
            Err(Error::IncompatibleParts { reason }) => Err(ConfigError::IncompatibleParts {
                reason: if self.needs_battery(design, resolved)? { LACK_OF_BATTERY } else { reason },
                advice: ConfigChangeSearch { design, resolved, power_loss_assumption, refused: self }
                    .advice(&parts),
            }),
            Err(other) => Err(ConfigError::InvalidValue(other.to_string())),
        }
    }

    /// Returns whether the parts of the design called `design` can be combined if the drive has a battery. Parts that
    /// were refused without one then lack nothing else.
    fn needs_battery(&self, design: &str, resolved: &ResolvedDevice) -> Result<bool, ConfigError> {
        Ok(self.unchecked_design_parts(design, resolved)?.require_compatible().is_ok())
    }
}

/// Search for changes of a refused configuration that make the parts of its design compatible.
struct ConfigChangeSearch<'a> {
    /// Name of the design.
    design: &'a str,
    /// Device of the refused configuration, with every absent value filled in.
    resolved: &'a ResolvedDevice,
    /// Hardware with which the device is assumed to survive a loss of power.
    power_loss_assumption: PowerLossAssumption,
    /// Configuration that was refused, and for which changes are searched.
    refused: &'a Config,
}

impl ConfigChangeSearch<'_> {
    /// Returns changes of the configuration that make the parts compatible, as the verb phrase of a sentence: `choose
    /// parts.map=flat, or leave recovery.by out`. `parts` are the incompatible parts.
    fn advice(&self, parts: &Parts) -> String {
        let present = names_of_parts(parts, self.resolved.logical_pages);
        let ignored_before = self.keys_without_effect(self.refused);
        let singles = single_key_changes(self.refused, &present);
        let accepted = singles.iter().filter(|change| self.is_accepted(change, &ignored_before));
        let accepted: Vec<&KeyChange> = accepted.collect();
        if !accepted.is_empty() {
            return changes_text(&accepted);
        }
        let several = (2..=MAX_ADVISED_CHANGES).find_map(|count| {
            self.first_accepted_changes(self.refused, &[], count, &present, &ignored_before)
        });
        match several {
            Some(changes) => {
                changes.iter().map(|change| changes_text(&[change])).collect::<Vec<_>>().join(" and ")
            }
            // Nothing that the user left out or chose would help.
            None if self.is_design_itself_refused() => "choose another design".into(),
            None => {
                format!(
                    "start again from the parts of a design, which `wearwell designs {}` prints",
                    self.design
                )
            }
        }
    }

    /// Returns whether the parts of the design cannot be combined even if no setting changes them.
    fn is_design_itself_refused(&self) -> bool {
        let parts = self.power_loss_assumption.design_parts_under_assumption(
            &Config::default(),
            self.design,
            self.resolved,
        );
        parts.is_ok_and(|parts| parts.require_compatible().is_err())
    }

    /// Searches for `count` further changes of `config`, which already has the changes `made`. Returns all changes of
    /// the first accepted combination. Each key is changed at most once. `present` are the parts of the refused design,
    /// and `ignored_before` the settings that had no effect before the changes.
    fn first_accepted_changes(
        &self,
        config: &Config,
        made: &[KeyChange],
        count: usize,
        present: &PartsConfig,
        ignored_before: &[String],
    ) -> Option<Vec<KeyChange>> {
        let last_key = made.last().map_or("", |change| change.key);
        let changes = single_key_changes(config, present);
        changes.into_iter().filter(|change| change.key > last_key).find_map(|change| {
            let all = [made, std::slice::from_ref(&change)].concat();
            if count > 1 {
                return self.first_accepted_changes(
                    &change.changed_config,
                    &all,
                    count - 1,
                    present,
                    ignored_before,
                );
            }
            self.is_accepted(&change, ignored_before).then_some(all)
        })
    }

    /// Returns whether, after the change, the parts can be combined and no setting of the user loses its effect.
    /// `ignored_before` are the keys of the settings that had no effect before the change.
    fn is_accepted(&self, change: &KeyChange, ignored_before: &[String]) -> bool {
        let config = &change.changed_config;
        // Which parts can be combined does not depend on the device, and the changed configuration may not fit this
        // one.
        let on_any_device = Config { device: DeviceConfig::default(), ..config.clone() };
        let resolved = on_any_device.resolve_device(ADVICE_FOOTPRINT_PAGES);
        let parts = resolved.and_then(|resolved| {
            self.power_loss_assumption.design_parts_under_assumption(config, self.design, &resolved)
        });
        let Ok(parts) = parts else { return false };
        // Without a battery, some values of `parts.survives` stand for another one.
        let is_as_chosen = config.parts.survives.is_none_or(|name| {
            Some(name) == self.refused.parts.survives
                || name == PersistenceName::of_persistence(parts.persistence)
        });
        is_as_chosen
            && parts.require_compatible().is_ok()
            && self.keys_without_effect(config).iter().all(|key| ignored_before.contains(key))
    }

    /// Returns the keys of the settings of the user that have no effect on the design under this configuration.
    fn keys_without_effect(&self, config: &Config) -> Vec<String> {
        let ignored = config.ignored_settings(&config.origins.keys(), &[self.design.to_owned()]);
        ignored.into_iter().map(|setting| setting.setting_key).collect()
    }
}

/// Pages of 4 KiB that the input touches, for the device on which changes of the configuration are tried.
const ADVICE_FOOTPRINT_PAGES: u64 = 1 << 16;
/// Maximum number of changes that advice combines, if no smaller number of changes makes the parts compatible.
const MAX_ADVISED_CHANGES: usize = 4;

/// Kinds of L2P maps, in the order in which advice tries them.
const MAPS: [MapName; 3] = [MapName::Cached, MapName::Flat, MapName::Lazy];
/// Kinds of page-validity stores, in the order in which advice tries them.
const VALIDITY_STORES: [ValidityStoreName; 4] =
    [ValidityStoreName::Ram, ValidityStoreName::Bitmap, ValidityStoreName::Log, ValidityStoreName::Gecko];
/// Kinds of reverse maps, in the order in which advice tries them.
const REVERSE_MAPS: [ReverseMapName; 5] = [
    ReverseMapName::Ideal,
    ReverseMapName::Segments,
    ReverseMapName::NvramLog,
    ReverseMapName::FlashLog,
    ReverseMapName::None,
];
/// Means by which data survives a loss of power, in the order in which advice tries them.
const PERSISTENCES: [PersistenceName; 7] = [
    PersistenceName::NvramMap,
    PersistenceName::OobScan,
    PersistenceName::NvramEntries,
    PersistenceName::Backward,
    PersistenceName::BackwardSynchronising,
    PersistenceName::BatteryFlush,
    PersistenceName::Battery,
];

/// The key of a setting, and a function that resets the setting to its default.
type SettingToLeaveOut = (&'static str, fn(&mut Config));

/// Settings about parts of a design that advice may propose to leave out.
const REMOVABLE_SETTINGS: [SettingToLeaveOut; 10] = [
    ("mapping.identification", |config| {
        config.mapping.identification = MappingConfig::default().identification;
    }),
    ("mapping.checkpoints", |config| {
        config.mapping.checkpoints = MappingConfig::default().checkpoints;
    }),
    ("mapping.dirty_share", |config| {
        config.mapping.dirty_share = MappingConfig::default().dirty_share;
    }),
    ("remap.atomic_commands", |config| config.remap.atomic_commands = false),
    ("delta.journal_pages", |config| config.delta.journal_pages = None),
    ("recovery.by", |config| config.recovery.by = RecoveryConfig::default().by),
    ("recovery.blocks", |config| config.recovery.blocks = RecoveryConfig::default().blocks),
    ("validity.kind", |config| config.validity.kind = None),
    ("wear.static_gap", |config| config.wear.static_gap = WearConfig::default().static_gap),
    ("wear.dual_pool_gap", |config| config.wear.dual_pool_gap = WearConfig::default().dual_pool_gap),
];

/// Returns all single changes of `config` that advice may name: another part, another value of an option on which the
/// combination of parts depends, or a setting left out. `present` are the parts of the refused design.
fn single_key_changes(config: &Config, present: &PartsConfig) -> Vec<KeyChange> {
    let mut changes = Vec::new();
    let mut add = |key, value: Option<String>, replaced_key, apply: &dyn Fn(&mut Config)| {
        let mut changed = config.clone();
        apply(&mut changed);
        if changed != *config {
            [Some(key), replaced_key]
                .into_iter()
                .flatten()
                .for_each(|key| changed.origins.remove_setting(key));
            if let Some(value) = &value {
                changed.origins.record_setting_origin(&format!("{key}={value}"));
            }
            changes.push(KeyChange { key, value, replaced_key, changed_config: changed });
        }
    };
    let replaced = |is_set: bool, key: &'static str| is_set.then_some(key);
    for name in MAPS.into_iter().filter(|&name| present.map != Some(name)) {
        let replaced = replaced(config.delta.cache_entries.is_some(), "delta.cache_entries");
        add("parts.map", Some(setting_text_of_name(name)), replaced, &|config| {
            config.parts.map = Some(name);
            config.delta.cache_entries = None;
        });
    }
    for name in VALIDITY_STORES.into_iter().filter(|&name| present.validity != Some(name)) {
        let replaced = replaced(config.validity.kind.is_some(), "validity.kind");
        add("parts.validity", Some(setting_text_of_name(name)), replaced, &|config| {
            config.parts.validity = Some(name);
            config.validity.kind = None;
        });
    }
    for name in REVERSE_MAPS.into_iter().filter(|&name| present.reverse_map != Some(name)) {
        let is_set = config.remap.reverse_map != ReverseMapName::default();
        let replaced = replaced(is_set, "remap.reverse_map");
        add("parts.reverse_map", Some(setting_text_of_name(name)), replaced, &|config| {
            config.parts.reverse_map = Some(name);
            config.remap.reverse_map = ReverseMapName::default();
        });
    }
    for name in PERSISTENCES.into_iter().filter(|&name| present.survives != Some(name)) {
        let replaced = replaced(config.recovery.by.is_some(), "recovery.by");
        add("parts.survives", Some(setting_text_of_name(name)), replaced, &|config| {
            config.parts.survives = Some(name);
            config.recovery.by = None;
        });
    }
    for list in lists_with_one_mechanism_less(present.content.as_ref()) {
        add("parts.content", Some(list.setting_value()), None, &|config| {
            config.parts.content = Some(list.clone());
        });
    }
    add("delta.open_pages", Some("1".into()), None, &|config| config.delta.open_pages = 1);
    for checkpoints in [true, false] {
        add("mapping.checkpoints", Some(checkpoints.to_string()), None, &|config| {
            config.mapping.checkpoints = Some(checkpoints);
        });
    }
    add("gc.metadata", Some("greedy".into()), None, &|config| {
        config.gc.metadata = Some(MetadataGcName::Greedy);
    });
    add("gc.policy", Some("greedy".into()), None, &|config| config.gc.policy = VictimPolicyName::Greedy);
    for (key, apply) in REMOVABLE_SETTINGS {
        add(key, None, None, &apply);
    }
    changes
}

/// Returns the lists of content mechanisms that have one mechanism less than `mechanisms`, and the empty list.
fn lists_with_one_mechanism_less(mechanisms: Option<&ContentMechanismList>) -> Vec<ContentMechanismList> {
    let names: Vec<ContentMechanismName> = mechanisms.cloned().map_or_else(Vec::new, Into::into);
    let without = |left_out: &ContentMechanismName| -> Vec<ContentMechanismName> {
        names.iter().filter(|name| *name != left_out).copied().collect()
    };
    let mut lists: Vec<ContentMechanismList> =
        names.iter().map(|name| ContentMechanismList::of_names(&without(name))).collect();
    if names.len() > 1 {
        lists.push(ContentMechanismList::default());
    }
    lists
}

/// Returns the text of alternative changes, each of which alone makes the parts compatible, as the verb phrase of a
/// sentence: `choose parts.map=flat or lazy, or leave recovery.by out`.
fn changes_text(changes: &[&KeyChange]) -> String {
    let of_one_key = |of_key: &[&KeyChange]| {
        let KeyChange { key, replaced_key, .. } = of_key[0];
        let values: Vec<&str> = of_key.iter().filter_map(|change| change.value.as_deref()).collect();
        let values = values.join(" or ");
        match replaced_key {
            _ if values.is_empty() => format!("leave {key} out"),
            Some(replaced) => format!("choose {key}={values} in place of {replaced}"),
            None => format!("choose {key}={values}"),
        }
    };
    let choices: Vec<String> = changes.chunk_by(|a, b| a.key == b.key).map(of_one_key).collect();
    choices.join(", or ")
}
