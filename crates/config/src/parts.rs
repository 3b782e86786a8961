//! The `[parts]` section: exchanges single parts of a design (content mechanisms, map, page validity, recovery).
//!
//! A named design is a set of defaults for this section ([`Config::design_as_toml`] prints it); a part named here
//! replaces the design's own. Options of a part stay in the section of its mechanism (`[recycle]`, `[remap]`,
//! `[delta]`, `[mapping]`, `[gecko]`). The engine decides which parts can be combined; `configuration_advice.rs` adds
//! to a refusal what would be accepted. `docs/composition.md` lists all mixtures of content, map and page validity.

use std::borrow::Cow;
use std::cmp::Ordering;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use wearwell::content::MechanismKind;
use wearwell::content::recycle::DeadPageHistoryScope;
use wearwell::design::{
    self, CompressionOptions, ContentParts, MappingPart, Parts, Persistence, SharingOptions,
};
use wearwell::gc::MetadataGcRule;
use wearwell::mapping::{DemandPagedMapOptions, DirectoryLocation, InvalidPageIdentification};
use wearwell::sharing::counts::ReferenceCountForm;
use wearwell::sharing::reverse_map::ReverseMapKind;
use wearwell::validity::ValidityStoreKind;

use super::{
    Config, ConfigError, DeadPageHistoryName, MetadataGcName, ResolvedDevice, ReverseMapName,
    ValidityStoreName, refuse_value_listed_twice,
};

/// Names of the parts (content mechanisms, map, page validity, recovery) that replace a design's own; an absent part is
/// the design's own.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PartsConfig {
    /// All content mechanisms of the design: a list, or names joined by commas or plus signs; `none` for no mechanism.
    pub content: Option<ContentMechanismList>,
    /// How the L2P table is stored.
    pub map: Option<MapName>,
    /// Where page validity (which pages of a block are valid) is stored.
    pub validity: Option<ValidityStoreName>,
    /// Reverse map: how the logical pages that share a flash page are recorded. Absent: the design's own, or `ideal` if
    /// the design shares no pages.
    pub reverse_map: Option<ReverseMapName>,
    /// What preserves acknowledged data over a loss of power. Absent: as in the design. If `content`, `map` or
    /// `reverse_map` replaces a part of the design, absent means: as in the papers about the new parts, or `battery` if
    /// none of them says it.
    pub survives: Option<PersistenceName>,
}

/// Names of the content mechanisms (ways to save flash writes by looking at content).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContentMechanismName {
    /// The host's remap commands let several logical pages share a flash page (Remap-SSD).
    Remap,
    /// A content mechanism of the engine, by its kind.
    Mechanism(MechanismKind),
}

/// The content mechanisms of the papers on Recyclable SSD, Remap-SSD, Delta-FTL and integrated lifetime management, in
/// the order in which lists name them.
const PAPER_MECHANISMS: [ContentMechanismName; 5] = [
    ContentMechanismName::RECYCLE,
    ContentMechanismName::Remap,
    ContentMechanismName::DEDUP,
    ContentMechanismName::DELTA,
    ContentMechanismName::COMPRESS,
];

impl ContentMechanismName {
    /// Recycling: a dead page becomes valid again if its content is written again (recyclable-SSD paper).
    pub const RECYCLE: Self = Self::Mechanism(MechanismKind::Recycle);
    /// Deduplication: logical pages share a flash page by remap commands (Remap-SSD), and by writes of equal content.
    pub const DEDUP: Self = Self::Mechanism(MechanismKind::Dedup);
    /// Delta encoding: an overwrite is stored as its difference from the earlier version (Delta-FTL).
    pub const DELTA: Self = Self::Mechanism(MechanismKind::Delta);
    /// Compression: pages are compressed together in chunks (paper on integrated lifetime management).
    pub const COMPRESS: Self = Self::Mechanism(MechanismKind::Compression);

    /// Returns all content mechanisms (which decide how a write is stored), in the order of tables and help texts:
    /// first those of the papers, then the others.
    pub fn all_names() -> impl Iterator<Item = Self> + Clone {
        PAPER_MECHANISMS.into_iter().chain(stateless_mechanisms().map(Self::Mechanism))
    }

    /// Returns the content mechanism (deduplication, recycling, delta encoding, compression and so on) called `name`,
    /// if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all_names().find(|known| known.name() == name)
    }

    /// Returns the name of the content mechanism in configuration files and settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Remap => "remap",
            Self::Mechanism(kind) => kind.name(),
        }
    }

    /// Returns what the content mechanism does, in one sentence.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Remap => {
                "The host's remap commands let several logical pages share a flash page (Remap-SSD)."
            }
            Self::Mechanism(kind) => kind.summary(),
        }
    }

    /// Returns the position of the content mechanism in [`Self::all_names`].
    fn position_in_all_names(self) -> usize {
        Self::all_names().take_while(|&other| other != self).count()
    }
}

/// Returns the content mechanisms that keep nothing on flash and have no options.
fn stateless_mechanisms() -> impl Iterator<Item = MechanismKind> + Clone {
    MechanismKind::ALL.into_iter().filter(|kind| kind.is_stateless())
}

impl PartialOrd for ContentMechanismName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ContentMechanismName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.position_in_all_names().cmp(&other.position_in_all_names())
    }
}

impl Serialize for ContentMechanismName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for ContentMechanismName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::from_name(&name).ok_or_else(|| serde::de::Error::custom(unknown_mechanism_error(&name)))
    }
}

impl JsonSchema for ContentMechanismName {
    fn schema_name() -> Cow<'static, str> {
        "ContentMechanismName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = Self::all_names().map(
            |name| json_schema!({ "description": name.summary(), "type": "string", "const": name.name() }),
        );
        json_schema!({
            "description": "Content mechanisms (ways to save flash writes by looking at content) by name.",
            "oneOf": names.collect::<Vec<_>>(),
        })
    }
}

/// Returns the error about a content mechanism that does not exist.
fn unknown_mechanism_error(word: &str) -> ConfigError {
    ConfigError::unknown_name(
        "content mechanism",
        word,
        ContentMechanismName::all_names().map(ContentMechanismName::name).chain(["none"]),
    )
}

/// A set of content mechanisms: each at most once, in the order of [`ContentMechanismName::all_names`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "UserMechanismList", into = "Vec<ContentMechanismName>")]
#[schemars(with = "Vec<ContentMechanismName>")]
pub struct ContentMechanismList(Vec<ContentMechanismName>);

/// A list of content mechanisms as the user writes it: a list in a configuration file, one text in a setting.
#[derive(Deserialize)]
#[serde(untagged)]
enum UserMechanismList {
    /// Names as a list in a configuration file.
    List(Vec<String>),
    /// Names as one text in a setting, joined by commas or plus signs.
    Text(String),
}

impl TryFrom<UserMechanismList> for ContentMechanismList {
    type Error = ConfigError;

    fn try_from(written: UserMechanismList) -> Result<Self, ConfigError> {
        let words: Vec<String> = match written {
            UserMechanismList::List(words) => words,
            UserMechanismList::Text(text) => {
                text.split([',', '+']).map(|word| word.trim().to_owned()).collect()
            }
        };
        if words.len() > 1 && words.iter().any(|word| word == "none") {
            return Err(ConfigError::InvalidValue(
                "`none` stands for no content mechanism, so that it cannot be in a list with others: leave it out, or \
                 leave the others out"
                    .into(),
            ));
        }
        refuse_value_listed_twice("parts.content", &words)?;
        let mut names = Vec::new();
        for word in words.iter().filter(|&word| word != "none") {
            names.push(ContentMechanismName::from_name(word).ok_or_else(|| unknown_mechanism_error(word))?);
        }
        Ok(Self::of_names(&names))
    }
}

impl From<ContentMechanismList> for Vec<ContentMechanismName> {
    fn from(list: ContentMechanismList) -> Self {
        list.0
    }
}

impl ContentMechanismList {
    /// Creates the list of these content mechanisms, sorted and without repetitions.
    pub fn of_names(names: &[ContentMechanismName]) -> Self {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        Self(names)
    }

    /// Returns the list as it is written in a setting: names joined by plus signs, or `none`.
    pub fn setting_value(&self) -> String {
        let names: Vec<&str> = self.0.iter().map(|name| name.name()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join("+") }
    }

    /// Returns whether the list contains the content mechanism `name`.
    pub fn contains(&self, name: ContentMechanismName) -> bool {
        self.0.contains(&name)
    }
}

/// Names of the kinds of L2P tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MapName {
    /// The whole L2P table in RAM.
    Flat,
    /// L2P table on flash with a cache in RAM; the flash page that a write replaces is invalidated at once (DFTL).
    Cached,
    /// L2P table on flash with a cache in RAM; the flash page that a write replaces is invalidated only when the
    /// translation page is written. Takes checkpoints (`GeckoFTL`).
    Lazy,
}

/// Names of the means by which acknowledged data survives a loss of power.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PersistenceName {
    /// Recovery reads the spare areas of all pages; trims are not durable.
    OobScan,
    /// A battery keeps the contents of RAM during a loss of power.
    Battery,
    /// After a loss of power, a battery lasts long enough to write to flash what is only in RAM.
    BatteryFlush,
    /// Recovery reads data pages from the newest one backwards, to find the map entries that changed last.
    Backward,
    /// Recovery reads data pages from the newest one backwards, to find the map entries that changed last, and writes
    /// these entries to flash before the device works again.
    BackwardSynchronising,
    /// Recovery reads the spare areas of all pages, and the entries of the reverse map in NVRAM.
    NvramEntries,
    /// A copy of the L2P map is kept in NVRAM, 8 bytes per logical page.
    NvramMap,
}

impl PersistenceName {
    /// Returns the name, in configuration files and settings, of this means to survive a loss of power.
    pub fn name(self) -> String {
        setting_text_of_name(self)
    }

    /// Returns the persistence (way to survive a loss of power), in the engine's form, that this name selects.
    fn persistence(self) -> Persistence {
        match self {
            Self::OobScan => Persistence::OobScan,
            Self::Battery => Persistence::BatteryRam,
            Self::BatteryFlush => Persistence::BatteryFlush,
            Self::Backward => Persistence::BackwardScan { writes_map_before_first_request: false },
            Self::BackwardSynchronising => {
                Persistence::BackwardScan { writes_map_before_first_request: true }
            }
            Self::NvramEntries => Persistence::DurableReverseMap,
            Self::NvramMap => Persistence::NvramMap,
        }
    }

    /// Returns the name of a design's persistence (way to survive a loss of power).
    pub(super) fn of_persistence(persistence: Persistence) -> Self {
        match persistence {
            Persistence::OobScan => Self::OobScan,
            Persistence::BatteryRam => Self::Battery,
            Persistence::BatteryFlush => Self::BatteryFlush,
            Persistence::BackwardScan { writes_map_before_first_request: false } => Self::Backward,
            Persistence::BackwardScan { writes_map_before_first_request: true } => {
                Self::BackwardSynchronising
            }
            Persistence::DurableReverseMap => Self::NvramEntries,
            Persistence::NvramMap => Self::NvramMap,
        }
    }
}

/// How data survives a loss of power in a design: with the content mechanisms of the design, and with the mechanisms
/// that `parts.content` sets in their place ([`Config::keep_persistence_of_design`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DesignAndPartsPersistence {
    /// How data survives a loss of power if the design has its own content mechanisms.
    pub design_persistence: PersistenceName,
    /// How data survives a loss of power if the design has the content mechanisms that `parts.content` sets. Equals
    /// `design_persistence`, unless these mechanisms cannot be combined with it.
    pub parts_persistence: PersistenceName,
}

impl PartsConfig {
    /// Returns whether the section sets a part (content, map or reverse map) with which the design loses its own
    /// persistence (way to survive a loss of power) and gets the default of the new parts.
    pub(super) fn changes_default_persistence(&self) -> bool {
        self.content.is_some() || self.map.is_some() || self.reverse_map.is_some()
    }

    /// Returns the parts that the section `[parts]` sets, written as settings (`parts.key=value`, joined by blanks);
    /// empty if it sets none.
    pub fn as_settings(&self) -> String {
        let written = toml::Table::try_from(self).expect("names are plain data");
        let plain = |value: &toml::Value| match value {
            toml::Value::Array(names) if names.is_empty() => "none".to_owned(),
            toml::Value::Array(names) => {
                names.iter().filter_map(toml::Value::as_str).collect::<Vec<_>>().join("+")
            }
            other => other.as_str().unwrap_or_default().to_owned(),
        };
        let settings = written.iter().map(|(key, value)| format!("parts.{key}={}", plain(value)));
        settings.collect::<Vec<_>>().join(" ")
    }
}

impl Config {
    /// Refuses a configuration that chooses one part twice, in `[parts]` and in the section of the mechanism.
    pub(super) fn refuse_parts_set_twice(&self) -> Result<(), ConfigError> {
        let parts = &self.parts;
        let said_twice = [
            (parts.validity.is_some() && self.validity.kind.is_some(), "parts.validity", "validity.kind"),
            (parts.survives.is_some() && self.recovery.by.is_some(), "parts.survives", "recovery.by"),
            (
                parts.reverse_map.is_some() && self.remap.reverse_map != ReverseMapName::default(),
                "parts.reverse_map",
                "remap.reverse_map",
            ),
            (parts.map.is_some() && self.delta.cache_entries.is_some(), "parts.map", "delta.cache_entries"),
        ];
        match said_twice.into_iter().find(|(is_said_twice, ..)| *is_said_twice) {
            Some((_, one, other)) => Err(ConfigError::InvalidValue(format!(
                "{one} and {other} both choose the same part of the design: leave one of them out"
            ))),
            None => Ok(()),
        }
    }

    /// Replaces the design's own parts (content mechanisms, map, page validity, recovery) by those that `[parts]` sets.
    pub(super) fn replace_parts(&self, parts: &mut Parts, resolved: &ResolvedDevice) {
        let asked = &self.parts;
        if let Some(list) = &asked.content {
            parts.content = self.content_parts(list, &parts.content, resolved);
        }
        if let (Some(name), Some(sharing)) = (asked.reverse_map, &mut parts.content.sharing) {
            sharing.reverse_map = self.remap.reverse_map_part(name, &resolved.geometry);
        }
        if let Some(name) = asked.map {
            parts.mapping = self.mapping_part_named(name, parts.mapping, resolved);
        }
        if let Some(name) = asked.validity {
            parts.validity =
                self.validity.validity_store_named(name, self.gecko.gecko_options(&resolved.geometry));
        }
        match asked.survives {
            Some(name) => parts.persistence = name.persistence(),
            None if asked.changes_default_persistence() => parts.persistence = parts.default_persistence(),
            None => {}
        }
    }

    /// Returns the parts for the content mechanisms named in `list`. Recycling and page sharing keep the options that
    /// they have in `design_content`, the content mechanisms of the named design; a mechanism that the design lacks
    /// gets the configured options.
    fn content_parts(
        &self,
        list: &ContentMechanismList,
        design_content: &ContentParts,
        resolved: &ResolvedDevice,
    ) -> ContentParts {
        let deduplicates = list.contains(ContentMechanismName::DEDUP);
        let shares = deduplicates || list.contains(ContentMechanismName::Remap);
        ContentParts {
            recycle: list
                .contains(ContentMechanismName::RECYCLE)
                .then(|| design_content.recycle.clone().unwrap_or_else(|| self.recycling_part(resolved))),
            sharing: shares.then(|| self.page_sharing_part(deduplicates, design_content.sharing, resolved)),
            delta: list.contains(ContentMechanismName::DELTA).then(|| self.delta_options(resolved)),
            chunks: list.contains(ContentMechanismName::COMPRESS).then(CompressionOptions::default),
            stateless_mechanisms: stateless_mechanisms()
                .filter(|&kind| list.contains(ContentMechanismName::Mechanism(kind)))
                .collect(),
            content_tables_ram_limit_bytes: None,
        }
    }

    /// Returns the options of page sharing: those of the design (`own`) if it shares pages, otherwise those of the
    /// section `[remap]`, with an ideal reverse map. `deduplicates` decides whether they include deduplication.
    fn page_sharing_part(
        &self,
        deduplicates: bool,
        own: Option<SharingOptions>,
        resolved: &ResolvedDevice,
    ) -> SharingOptions {
        let configured = self.remap.page_sharing_options(&resolved.geometry, resolved.logical_pages);
        let base = own.unwrap_or(SharingOptions { reverse_map: ReverseMapKind::Ideal, ..configured });
        let dedup = base.dedup.unwrap_or_else(|| self.remap.dedup_options(resolved.logical_pages));
        SharingOptions { dedup: deduplicates.then_some(dedup), ..base }
    }

    /// Returns the map called `name`. The number of cache entries of a map on flash is that of the design's own map
    /// (`own`) if that map is on flash too, otherwise the default.
    fn mapping_part_named(&self, name: MapName, own: MappingPart, resolved: &ResolvedDevice) -> MappingPart {
        let entries = match own {
            MappingPart::Cached(cache) | MappingPart::Journalled { cache, .. } => cache.cache_entries,
            MappingPart::Flat => self.cached_map_entries(None, resolved),
        };
        let eager = DemandPagedMapOptions::with_cache_capacity(entries);
        let lazy = DemandPagedMapOptions {
            identification: InvalidPageIdentification::AtSynchronisation,
            makes_checkpoints: true,
            ..eager
        };
        let nodes = self.cached_directory_nodes(resolved);
        match name {
            MapName::Flat => MappingPart::Flat,
            MapName::Cached => MappingPart::Cached(self.mapping.demand_paged_map_options(eager, nodes)),
            MapName::Lazy => MappingPart::Cached(self.mapping.demand_paged_map_options(lazy, nodes)),
        }
    }

    /// Keeps the way in which the design called `design` survives a loss of power, although `parts.content` replaces
    /// its content mechanisms: sets `parts.survives` to the persistence that the design has without `parts.content`, if
    /// the parts can be combined with it. Changes nothing if they cannot, or if `parts.survives` is set. Returns `None`
    /// if there is no such design, or if both `[parts]` and another section choose the same part.
    pub fn keep_persistence_of_design(&mut self, design: &str) -> Option<DesignAndPartsPersistence> {
        let own_content = PartsConfig { content: None, ..self.parts.clone() };
        let whole = Self { parts: own_content, ..self.clone() }.parts_on_default_device(design)?.persistence;
        let default = self.parts_on_default_device(design)?.persistence;
        let design_persistence = PersistenceName::of_persistence(whole);
        if default != whole {
            let mut kept = self.clone();
            kept.parts.survives = Some(design_persistence);
            kept.recovery.by = None;
            if kept.parts_on_default_device(design)?.require_compatible().is_ok() {
                *self = kept;
                return Some(DesignAndPartsPersistence {
                    design_persistence,
                    parts_persistence: design_persistence,
                });
            }
        }
        Some(DesignAndPartsPersistence {
            design_persistence,
            parts_persistence: PersistenceName::of_persistence(default),
        })
    }

    /// Returns the label that distinguishes a run with these settings (joined by blanks) from other runs. The label
    /// always includes the settings of `[parts]`, because they change what the design is.
    pub fn run_label(&self, settings: &str) -> String {
        if settings.contains("parts.") {
            return settings.to_owned();
        }
        [&self.parts.as_settings(), settings].join(" ").trim().to_owned()
    }

    /// Returns all parts that a design has under this configuration: its own, and those that replace them (content
    /// mechanisms, map, page validity, recovery).
    ///
    /// # Errors
    /// [`ConfigError::UnknownName`]; [`ConfigError::InvalidValue`] if a part is chosen twice, or if the device is
    /// impossible.
    ///
    /// # Panics
    /// Never: the parts of a design have names.
    pub fn all_parts(&self, design: &str) -> Result<PartsConfig, ConfigError> {
        let resolved = Self::default().resolve_device(LARGE_DRIVE_FOOTPRINT_PAGES)?;
        Ok(names_of_parts(&self.unchecked_design_parts(design, &resolved)?, resolved.logical_pages))
    }

    /// Returns a named design as the text of a configuration file: its parts, and those options of the parts that
    /// differ from the defaults of their sections. A run of `page-map` with this file is a run of the design.
    ///
    /// # Errors
    /// [`ConfigError::UnknownName`].
    pub fn design_as_toml(design: &str) -> Result<String, ConfigError> {
        let config = Self::default();
        let resolved = config.resolve_device(LARGE_DRIVE_FOOTPRINT_PAGES)?;
        let parts = config.unchecked_design_parts(design, &resolved)?;
        let known = design::ALL.iter().find(|known| known.name == design);
        let source = known.map_or("", |known| known.source);
        let head = format!(
            "# {design}: {source}\n# Save it as {design}.toml, and: wearwell replay TRACE --config {design}.toml\n\n"
        );
        let mut file = toml_sections_of(&parts, resolved.logical_pages);
        if let Some(least) = Self::min_cache_entries(design) {
            let mapping = file.entry("mapping").or_insert_with(|| toml::Table::new().into());
            let section = mapping.as_table_mut().expect("a section is a table");
            section.insert("least_cache_entries".into(), i64::from(least).into());
        }
        if let Some(bytes) = Self::content_table_bytes_per_page(design) {
            let limit = toml::Table::from_iter([("content_bytes_per_page".to_owned(), bytes.into())]);
            file.insert("tables".into(), limit.into());
        }
        Ok(head + &file.to_string())
    }
}

/// Footprint (touched pages of 4 KiB) of a drive so large that no option is at its minimum value.
const LARGE_DRIVE_FOOTPRINT_PAGES: u64 = 1 << 24;

/// Returns the name of a design's part as a TOML value of a configuration file.
fn toml_value_of_name(name: impl Serialize) -> toml::Value {
    toml::Value::try_from(name).expect("a name is a string")
}

/// Returns the name of a design's part as it is written in a setting.
pub(super) fn setting_text_of_name(name: impl Serialize) -> String {
    toml_value_of_name(name).as_str().expect("a name is a string").to_owned()
}

/// Returns the names of the content mechanisms of a design.
fn content_list_of(content: &ContentParts) -> ContentMechanismList {
    let ContentParts {
        recycle,
        sharing,
        delta,
        chunks,
        stateless_mechanisms: filters,
        content_tables_ram_limit_bytes: _,
    } = content;
    let deduplicates = sharing.is_some_and(|sharing| sharing.dedup.is_some());
    let present = [
        (ContentMechanismName::RECYCLE, recycle.is_some()),
        (ContentMechanismName::Remap, sharing.is_some() && !deduplicates),
        (ContentMechanismName::DEDUP, deduplicates),
        (ContentMechanismName::DELTA, delta.is_some()),
        (ContentMechanismName::COMPRESS, chunks.is_some()),
    ];
    let of_papers = present.into_iter().filter(|(_, is_present)| *is_present).map(|(name, _)| name);
    ContentMechanismList(of_papers.chain(filters.iter().map(ContentMechanismName::Mechanism)).collect())
}

/// Returns the name of this kind of reverse map in configuration files.
fn reverse_map_name(part: ReverseMapKind) -> ReverseMapName {
    match part {
        ReverseMapKind::Segments { .. } => ReverseMapName::Segments,
        ReverseMapKind::NvramLog { .. } => ReverseMapName::NvramLog,
        ReverseMapKind::FlashLog { .. } => ReverseMapName::FlashLog,
        ReverseMapKind::Ideal => ReverseMapName::Ideal,
        ReverseMapKind::OobOnly => ReverseMapName::None,
    }
}

/// Returns the names of all parts of a design, as the section `[parts]` in which every key is set.
pub(super) fn names_of_parts(parts: &Parts, logical_pages: u32) -> PartsConfig {
    let parts = toml_sections_of(parts, logical_pages).remove("parts").expect("a design has parts");
    parts.try_into().expect("parts have the names of the section")
}

/// Returns the parts of a design and their options as the TOML sections of a configuration file.
fn toml_sections_of(parts: &Parts, logical_pages: u32) -> toml::Table {
    let mut file = toml::Table::new();
    let mut set = |section: &str, key: &str, value: toml::Value| {
        let entry = file.entry(section).or_insert_with(|| toml::Table::new().into());
        entry.as_table_mut().expect("a section is a table").insert(key.to_owned(), value);
    };
    let list = content_list_of(&parts.content);
    let list = list.0.iter().map(|name| toml::Value::String(name.name().into()));
    set("parts", "content", toml::Value::Array(list.collect()));
    set("parts", "survives", toml_value_of_name(PersistenceName::of_persistence(parts.persistence)));
    if let Some(recycle) = &parts.content.recycle
        && recycle.options.dead_page_history_scope == DeadPageHistoryScope::FingerprintStore
    {
        set("recycle", "history", toml_value_of_name(DeadPageHistoryName::Store));
    }
    if let Some(sharing) = parts.content.sharing {
        set("parts", "reverse_map", toml_value_of_name(reverse_map_name(sharing.reverse_map)));
        if sharing.reference_count_form == ReferenceCountForm::Sparse {
            set("remap", "sparse_counts", true.into());
        }
        if let Some(entries) = sharing.dedup.and_then(|dedup| dedup.capacity_entries) {
            let pages_per_entry = (f64::from(logical_pages) / f64::from(entries)).floor();
            set("remap", "index_share", (1.0 / pages_per_entry).into());
        }
    }
    let validity = match parts.validity {
        ValidityStoreKind::Ram => ValidityStoreName::Ram,
        ValidityStoreKind::Bitmap(_) => ValidityStoreName::Bitmap,
        ValidityStoreKind::Log => ValidityStoreName::Log,
        ValidityStoreKind::Gecko(_) => ValidityStoreName::Gecko,
    };
    set("parts", "validity", toml_value_of_name(validity));
    let map = match parts.mapping {
        MappingPart::Flat => MapName::Flat,
        MappingPart::Cached(cache) | MappingPart::Journalled { cache, .. } => {
            let is_lazy = cache.identification == InvalidPageIdentification::AtSynchronisation;
            if let Some(dirty) = cache.max_dirty_entries {
                let tenths = (10.0 * f64::from(dirty) / f64::from(cache.cache_entries)).round();
                set("mapping", "dirty_share", (tenths / 10.0).into());
            }
            if cache.makes_checkpoints != is_lazy {
                set("mapping", "checkpoints", cache.makes_checkpoints.into());
            }
            if matches!(cache.directory, DirectoryLocation::Tree { .. }) {
                set("mapping", "directory", "tree".into());
            }
            if is_lazy { MapName::Lazy } else { MapName::Cached }
        }
    };
    set("parts", "map", toml_value_of_name(map));
    if let MetadataGcRule::WhenAllPagesInvalid { max_metadata_block_share: share } = parts.gc.metadata_gc {
        set("gc", "metadata", toml_value_of_name(MetadataGcName::WhenEmpty));
        set("gc", "metadata_share", share.into());
    }
    file
}
