//! Where the value of each setting comes from: a file and its line, an option, a preset, the input.
//!
//! When a configuration is read, it records where its values were set ([`Origins`]). Values that a run fills in for
//! absent settings are known only after the device is resolved; [`Config::origins`] combines both. Values that equal
//! their default are not listed, so that the list is short and shows what is special about a run.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::de::DeTable;

use crate::Config;
use crate::resolve::AUTO_SIZED_PRESET_NAME;

/// Kind of source from which a setting got its value: file, command line, preset and so on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SettingSource {
    /// The value is in a configuration file; `place` is the name of the file and the line.
    File,
    /// The value was set by `--set`, by another option, or by an argument of a program; these override files.
    Set,
    /// The value comes from the device preset; `place` is the name of the preset.
    Preset,
    /// The user did not set this part, and the design has it; `place` is the name of the design.
    Design,
    /// The value was computed from the input: from the pages that it touches, or from whether its requests have times.
    Input,
    /// The value was computed from another setting; `place` is the key of that setting.
    Derived,
}

/// Origin of the value of a setting: the kind of its source, and where exactly.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// Kind of source from which the setting got its value.
    pub source: SettingSource,
    /// Where exactly the value was set, such as `drive.toml:12` or the name of a preset; absent if the kind of source
    /// says all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl Origin {
    /// Returns the origin of a value with this kind of source, and where exactly it was set.
    fn at_place(source: SettingSource, place: &str) -> Self {
        Self { source, place: Some(place.to_owned()) }
    }

    /// Returns the origin of a value whose source has no further details, such as the command line.
    const fn of_kind(source: SettingSource) -> Self {
        Self { source, place: None }
    }
}

/// Writes the origin as tables show it: `file drive.toml:12`, `set`, `preset tlc-1t`, `derived from gc.free_share`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.source {
            SettingSource::File => "file",
            SettingSource::Set => "set",
            SettingSource::Preset => "preset",
            SettingSource::Design => "design",
            SettingSource::Input => "input",
            SettingSource::Derived => "derived from",
        };
        match &self.place {
            Some(place) => write!(f, "{kind} {place}"),
            None => f.write_str(kind),
        }
    }
}

/// Where the values of a configuration were set, by key (`section.key`). All `Origins` compare as equal, so that two
/// configurations with equal values are equal wherever the values were set.
#[derive(Clone, Debug, Default)]
pub struct Origins(BTreeMap<String, Origin>);

impl PartialEq for Origins {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Origins {
    /// Returns the origins of the values in the configuration file `name`: the line of each key in `text`, the text of
    /// the file. `document` is this text as parsed.
    pub(crate) fn of_config_file(name: &str, text: &str, document: &DeTable<'_>) -> Self {
        let mut origins = Self::default();
        for (section, keys) in document {
            let Some(keys) = keys.get_ref().as_table() else { continue };
            for key in keys.keys() {
                let line = line_at(text, key.span().start);
                let origin = Origin::at_place(SettingSource::File, &format!("{name}:{line}"));
                origins.0.insert(format!("{}.{}", section.get_ref(), key.get_ref()), origin);
            }
        }
        origins
    }

    /// Returns the keys (`section.key`) of all settings of the user.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// Removes the origin of the setting with this key, for a configuration in which the setting is left out.
    pub(crate) fn remove_setting(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// Records that a value was set by the setting `setting` (`section.key=value`) and not by a file.
    pub(crate) fn record_setting_origin(&mut self, setting: &str) {
        self.0.insert(key_of_setting(setting).to_owned(), Origin::of_kind(SettingSource::Set));
    }
}

/// Returns the number of the line at byte `offset` of a text; of its last line, if the text is shorter.
pub fn line_at(text: &str, offset: usize) -> usize {
    text[..offset.min(text.len())].matches('\n').count() + 1
}

/// Returns the key (`section.key`) of a setting `section.key=value`.
pub fn key_of_setting(setting: &str) -> &str {
    setting.split('=').next().unwrap_or_default().trim()
}

/// Returns the values of a configuration by key (`section.key`), without absent ones.
pub(super) fn values_by_key(config: &Config) -> BTreeMap<String, toml::Value> {
    let sections = toml::Table::try_from(config).expect("a configuration is plain data");
    let keys = |(section, keys): (String, toml::Value)| {
        let keys = if let toml::Value::Table(keys) = keys { keys } else { toml::Table::new() };
        keys.into_iter().map(move |(key, value)| (format!("{section}.{key}"), value))
    };
    sections.into_iter().flat_map(keys).collect()
}

impl Config {
    /// Returns this configuration with the default of the setting `key` (`section.key`).
    pub(super) fn with_default_of(&self, key: &str) -> Self {
        let (section, name) = key.split_once('.').expect("a key has a section");
        let mut sections = toml::Table::try_from(self).expect("a configuration is plain data");
        if let Some(toml::Value::Table(keys)) = sections.get_mut(section) {
            keys.remove(name);
        }
        sections.try_into().expect("every setting has a default")
    }

    /// Returns where the values of a run of `design` come from, by key (`section.key`). `effective` is this
    /// configuration as the run used it ([`Config::with_effective_values`]). Keys of which the value is the default are
    /// absent.
    pub fn origins(&self, effective: &Self, design: &str) -> BTreeMap<String, Origin> {
        let default = values_by_key(&Self::default());
        let mut origins = self.origins.0.clone();
        let parts = self.all_parts(design).map(|parts| Self { parts, ..Self::default() });
        for key in
            parts.iter().flat_map(values_by_key).map(|(key, _)| key).filter(|key| key.starts_with("parts."))
        {
            origins.entry(key).or_insert_with(|| Origin::at_place(SettingSource::Design, design));
        }
        if self.device.over_provisioning.is_none() && self.device.logical_pages.is_none() {
            let preset = Origin::at_place(SettingSource::Preset, self.preset_name());
            origins.insert("device.over_provisioning".to_owned(), preset);
        }
        for (key, value) in values_by_key(effective) {
            if !origins.contains_key(&key)
                && default.get(&key) != Some(&value)
                && let Some(origin) = self.resolved_origin(&key, effective)
            {
                origins.insert(key, origin);
            }
        }
        origins
    }

    /// Returns the name of the device preset; `auto` if none is set.
    fn preset_name(&self) -> &str {
        self.device.preset.as_deref().unwrap_or(AUTO_SIZED_PRESET_NAME)
    }

    /// Returns from where a run took the value of a setting that the user left absent; `None` if the value is the
    /// default.
    fn resolved_origin(&self, key: &str, effective: &Self) -> Option<Origin> {
        let derived = |from: &str| Some(Origin::at_place(SettingSource::Derived, from));
        let input = Some(Origin::of_kind(SettingSource::Input));
        match key {
            "device.blocks_per_plane" | "device.logical_pages" if self.is_device_sized_to_input() => input,
            "device.reserve_blocks" if self.is_device_sized_to_input() => derived("gc.low_blocks"),
            "device.logical_pages" => derived("device.over_provisioning"),
            "device.striping" => self
                .timing
                .multi_plane
                .then(|| Origin::at_place(SettingSource::Derived, "timing.multi_plane")),
            "gc.low_blocks" if self.gc.free_share.is_some() => derived("gc.free_share"),
            "gc.low_blocks" => derived("device.blocks_per_plane"),
            "buffer.pages" if effective.buffer.pages != Some(0) => derived("device.page_bytes"),
            "precondition.overwrite" => derived("precondition.mode"),
            "replay.arrival" => input,
            "device.preset" if self.preset_name() != AUTO_SIZED_PRESET_NAME => {
                Some(Origin::of_kind(SettingSource::Set))
            }
            "device.preset"
            | "device.reserve_blocks"
            | "device.factory_bad_share"
            | "device.wear_out"
            | "device.over_provisioning_of"
            | "gc.background_share"
            | "gc.d"
            | "buffer.pages"
            | "precondition.share"
            | "precondition.filled"
            | "replay.seed"
            | "replay.time_scale"
            | "replay.queue_depth" => None,
            _ if key.starts_with("device.") => {
                Some(Origin::at_place(SettingSource::Preset, self.preset_name()))
            }
            // A program built the configuration without reading it.
            _ => Some(Origin::of_kind(SettingSource::Set)),
        }
    }
}
