//! Finds settings that a run would ignore.
//!
//! A setting without effect misleads as much as a misspelt one: comparing two cache sizes on a design without a cache
//! suggests that the size does not matter. A rule states for which runs a key, or a whole section, has an effect; a key
//! without a rule always has one. The rules are written by hand, because a trial run cannot distinguish a setting
//! without effect from one that was set to its default.

use std::fmt;

use wearwell::content::{MechanismKind, MechanismSet};
use wearwell::design::{ContentParts, MappingPart, Parts, Persistence};
use wearwell::gc::MetadataGcRule;
use wearwell::mapping::DirectoryLocation;
use wearwell::sharing::reverse_map::ReverseMapKind;
use wearwell::validity::ValidityStoreKind;

use super::origin::{key_of_setting, values_by_key};
use super::resolve::AUTO_SIZED_PRESET_NAME;
use super::{
    Arrival, Config, ContentConfig, LifetimeConfig, LifetimeSchemes, Mode, Precondition, PreconditionConfig,
    RecyclePolicy, ReplayConfig, StripingName, TimingConfig, VictimPolicyName,
};

/// A rule that states under which condition the settings of one key or section have an effect on a run.
struct SettingEffectRule {
    /// Key of the settings that the rule covers (`section.key`), or a section with a dot at its end (`section.`).
    key_or_section: &'static str,
    /// Keys of the section to which this rule does not apply.
    excepted_keys: &'static [&'static str],
    /// Whether a run of this design with this configuration reads the setting of the rule. A setting that no run reads
    /// is refused.
    is_used: fn(&Config, &DesignWithParts<'_>) -> bool,
    /// The condition under which the rule's setting has an effect, in words, for the error message.
    effect_condition: &'static str,
}

/// A design, and the parts that it has under the configuration that is checked.
struct DesignWithParts<'a> {
    /// Name of the design.
    design: &'a str,
    /// Parts (map, page validity, content mechanisms and others) of the design.
    parts: Parts,
}

/// Returns the rule that states when one key, or a whole section without excepted keys, has an effect.
const fn rule_for_key_or_section(
    key_or_section: &'static str,
    is_used: fn(&Config, &DesignWithParts<'_>) -> bool,
    effect_condition: &'static str,
) -> SettingEffectRule {
    SettingEffectRule { key_or_section, excepted_keys: &[], is_used, effect_condition }
}

/// Words for error messages: the condition that the section `[mapping]` configures the map of the design.
const WHEN_MAP_IS_ON_FLASH: &str = "the design has a map on flash, but not that of [delta]: on the designs dftl, \
                                    lazyftl, u-ftl, ib-ftl, geckoftl and wearwell unless parts.map is flat, and on \
                                    any design with parts.map=cached or parts.map=lazy";
/// Words for error messages: the condition that the sections `[validity]` and `[recovery]` choose parts of the design.
const WHEN_VALIDITY_AND_RECOVERY_APPLY: &str = "the design is dftl, lazyftl, u-ftl, ib-ftl, geckoftl or wearwell and \
                                                has its map on flash; other designs have parts.validity and \
                                                parts.survives";
/// Words for error messages: the condition that logical pages may share flash pages.
const WHEN_PAGES_ARE_SHARED: &str = "pages are shared: on the designs remap, integrated and wearwell, or with remap \
                                     or dedup in parts.content";
/// Words for error messages: the condition that the section `[remap]` configures how logical pages share flash pages.
const WHEN_SHARING_IS_SET_BY_REMAP: &str = "pages are shared, and the design is not integrated: on the designs remap \
                                            and wearwell, or with remap or dedup in parts.content";
/// Words for error messages: the condition that overwrites are stored as deltas.
const WHEN_DELTAS_ARE_ENCODED: &str =
    "overwrites are stored as deltas: on the designs delta and wearwell, or with delta in parts.content";
/// Words for error messages: the condition that pages are compressed.
const WHEN_PAGES_ARE_COMPRESSED: &str =
    "pages are compressed: on the designs integrated and wearwell, or with compress in parts.content";
/// Words for error messages: the condition that the section `[remap]` chooses the reverse map.
const WHEN_REMAP_SECTION_SETS_REVERSE_MAP: &str = "the design is remap; other designs have parts.reverse_map";
/// Words for error messages: the condition that the configured size of the reverse map is used.
const WHEN_REVERSE_MAP_HAS_SIZE: &str = "pages are shared, and parts.reverse_map (in the design remap: \
                                         remap.reverse_map) is segments, nvram-log or flash-log, or it is ideal and \
                                         precondition.bound_share is set";
/// Words for error messages: the condition that deduplication searches a content index.
const WHEN_PAGES_ARE_DEDUPLICATED: &str = "host writes are deduplicated: on the design wearwell, on the design remap unless remap.dedup is false, or with \
     dedup in parts.content; and parts.reverse_map (in the design remap: remap.reverse_map) is not none";
/// Words for error messages: the condition that the section `[mapping]` sets the size of the L2P map's cache.
const WHEN_DFTL_SECTION_SETS_NO_CACHE_SIZE: &str =
    "dftl.cache_entries, which replaces it on the design dftl, is not set";
/// Words for error messages: the condition that the section `[remap]` sets the options of page sharing. With the design
/// wearwell, these options cannot be set.
const WHEN_REMAP_SETS_SHARING_OPTIONS: &str = "pages are shared and the design is not wearwell: on the design remap, \
                                               or with remap or dedup in parts.content on another design";
/// Words for error messages: the condition that the drive has a write buffer.
const WHEN_WRITES_ARE_BUFFERED: &str =
    "buffer.pages is above 0, or unset on a drive whose pages are larger than 4 KiB";
/// Words for error messages: the condition that the run has a time model.
const WHEN_TIME_IS_MODELLED: &str = "there is a time model: timing.mode is timeline or event";

/// Words for error messages: the condition that programs and erases are suspended for reads.
const WHEN_OPERATIONS_ARE_SUSPENDED: &str = "timing.suspend is true, and timing.mode is event";

/// Words for error messages: the condition that the run uses the durations of transfers and of delta encoding.
const WHEN_TRANSFER_RATE_IS_USED: &str =
    "there is a time model (timing.mode is timeline or event), or delta.max_ratio is not set";

/// Words for error messages: the condition that the run uses the times of reads, programs and transfers.
const WHEN_FLASH_TIMES_ARE_USED: &str = "there is a time model (timing.mode is timeline or event), the run loses power \
                                         (recovery.after_run or recovery.after_requests), or overwrites are stored as \
                                         deltas and delta.max_ratio is not set";
/// Words for error messages: the condition that background work waits for host work.
const WHEN_BACKGROUND_WORK_YIELDS: &str = "timing.mode is event, and timing.gc_yields is true";
/// Words for error messages: the condition that planes of one die can work at the same time.
const WHEN_DIES_HAVE_SEVERAL_PLANES: &str = "device.planes_per_die is above 1";

/// Words for error messages: the condition that host writes are throttled.
const WHEN_WRITES_ARE_THROTTLED: &str = "writes are held back: lifetime.schemes is throttling, or integrated on the \
                                         designs integrated and wearwell or with parts.content";
/// Words for error messages: the condition that lifetime management chooses the schemes that save both writes and
/// energy.
const WHEN_BEST_SCHEMES_RUN: &str = "lifetime.schemes is best, and the design has a content mechanism";

/// Returns whether lifetime management runs: write-saving schemes are chosen per epoch, or host writes are throttled.
fn has_lifetime_management(config: &Config, chosen: &DesignWithParts<'_>) -> bool {
    config.lifetime_options(chosen.design, &chosen.parts.content).is_some()
}

/// Returns whether lifetime management runs for a target in years.
fn has_lifetime_target(config: &Config, chosen: &DesignWithParts<'_>) -> bool {
    has_lifetime_management(config, chosen) && config.lifetime.schemes != LifetimeSchemes::Best
}

/// Returns whether lifetime management runs the schemes that save both writes and energy (`lifetime.schemes=best`).
fn chooses_best_lifetime_schemes(config: &Config, chosen: &DesignWithParts<'_>) -> bool {
    has_lifetime_management(config, chosen) && config.lifetime.schemes == LifetimeSchemes::Best
}

/// Returns whether the design has a map on flash that the section `[mapping]` configures. The map of the design `delta`
/// is configured by `[delta]` instead.
fn uses_mapping_section(config: &Config, chosen: &DesignWithParts<'_>) -> bool {
    let is_described = chosen.design != "delta" || config.parts.map.is_some();
    matches!(chosen.parts.mapping, MappingPart::Cached(_)) && is_described
}

/// Returns whether the design writes pages of metadata: of a map, of page validity, or of a log of remaps.
fn has_metadata_on_flash(parts: &Parts) -> bool {
    let reverse_map = parts.content.sharing.map(|sharing| sharing.reverse_map);
    parts.mapping != MappingPart::Flat
        || parts.validity != ValidityStoreKind::Ram
        || matches!(reverse_map, Some(ReverseMapKind::FlashLog { .. }))
}

/// Returns whether the design takes page validity and recovery of its map on flash from the sections `[validity]` and
/// `[recovery]`. A mixture of parts on any other design takes them from `[parts]`.
fn uses_validity_and_recovery_sections(config: &Config, chosen: &DesignWithParts<'_>) -> bool {
    let is_own = matches!(chosen.design, "dftl" | "lazyftl" | "u-ftl" | "ib-ftl" | "geckoftl" | "wearwell");
    is_own && uses_mapping_section(config, chosen)
}

/// Returns whether logical pages may share flash pages, and the section `[remap]` sets the options of this sharing.
fn uses_remap_section(_: &Config, chosen: &DesignWithParts<'_>) -> bool {
    chosen.parts.content.sharing.is_some() && chosen.design != "integrated"
}

/// Returns whether the design stores overwrites as deltas.
fn encodes_deltas(_: &Config, chosen: &DesignWithParts<'_>) -> bool {
    chosen.parts.content.delta.is_some()
}

/// Returns whether the design compresses pages.
fn compresses_pages(_: &Config, chosen: &DesignWithParts<'_>) -> bool {
    chosen.parts.content.chunks.is_some()
}

/// Returns whether a content mechanism of the design needs the hashes of pages.
fn hashes_contents(_: &Config, chosen: &DesignWithParts<'_>) -> bool {
    MechanismSet::of_design(&chosen.parts.content).iter().any(MechanismKind::needs_hash)
}

/// Returns the kind of the design's reverse map; `None` if logical pages do not share flash pages.
fn reverse_map_kind(chosen: &DesignWithParts<'_>) -> Option<ReverseMapKind> {
    chosen.parts.content.sharing.map(|sharing| sharing.reverse_map)
}

/// Returns whether the configured size of the reverse map is used: the reverse map is limited to it, or preconditioning
/// fills a share of it.
fn uses_size_of_reverse_map(config: &Config, chosen: &DesignWithParts<'_>) -> bool {
    reverse_map_kind(chosen).is_some_and(|kind| {
        kind != ReverseMapKind::OobOnly
            && (kind != ReverseMapKind::Ideal || config.precondition.bound_share.is_some())
    })
}

/// Returns whether the design has a reverse map with entries. Without entries, a logical page cannot be mapped to
/// content that is stored already.
fn has_reverse_map_with_entries(_: &Config, chosen: &DesignWithParts<'_>) -> bool {
    reverse_map_kind(chosen).is_some_and(|kind| kind != ReverseMapKind::OobOnly)
}

/// Returns whether the design deduplicates host writes by means of a content index.
fn has_content_index(config: &Config, chosen: &DesignWithParts<'_>) -> bool {
    let has_dedup = chosen.parts.content.sharing.is_some_and(|sharing| sharing.dedup.is_some());
    has_dedup && has_reverse_map_with_entries(config, chosen)
}

/// Returns whether the size of the L2P map's cache is that of the section `[mapping]`. The section `[dftl]` may set
/// another one for the design `dftl`.
fn uses_cache_size_of_mapping_section(config: &Config, chosen: &DesignWithParts<'_>) -> bool {
    chosen.design != "dftl" || config.dftl.cache_entries.is_none()
}

/// Returns whether the section `[remap]` sets the options of page sharing. On the design wearwell these options are
/// fixed.
fn uses_remap_sharing_options(config: &Config, chosen: &DesignWithParts<'_>) -> bool {
    uses_remap_section(config, chosen) && chosen.design != "wearwell"
}

/// Returns whether the drive has a write buffer between host and FTL.
fn has_write_buffer(config: &Config, _: &DesignWithParts<'_>) -> bool {
    config.has_write_buffer()
}

/// Returns whether the run has a time model: the timeline engine or the event engine.
fn has_time_model(config: &Config, _: &DesignWithParts<'_>) -> bool {
    config.timing.mode != Mode::None
}

/// Returns whether the event engine times the run.
fn has_event_engine(config: &Config, _: &DesignWithParts<'_>) -> bool {
    config.timing.mode == Mode::Event
}

/// Returns whether programs and erases are suspended for reads, which only the event engine simulates.
fn suspends_operations(config: &Config, chosen: &DesignWithParts<'_>) -> bool {
    has_event_engine(config, chosen) && config.timing.suspend
}

/// Returns whether the design computes the largest size of a delta that is worth storing from the times of flash
/// operations and of delta encoding. This needs no time model of the run.
fn derives_max_delta_size_from_times(config: &Config, chosen: &DesignWithParts<'_>) -> bool {
    encodes_deltas(config, chosen) && config.delta.max_ratio.is_none()
}

/// Returns whether the run uses the transfer rate of a channel and the time to encode a delta.
fn uses_transfer_rate(config: &Config, chosen: &DesignWithParts<'_>) -> bool {
    has_time_model(config, chosen) || derives_max_delta_size_from_times(config, chosen)
}

/// Returns whether the run uses the times of reads, programs and transfers: for a time model, for the time of a
/// recovery, or for the largest size of a delta.
fn uses_flash_times(config: &Config, chosen: &DesignWithParts<'_>) -> bool {
    uses_transfer_rate(config, chosen) || config.recovery.has_power_loss()
}

/// Returns whether the event engine lets background work wait while host work waits for the same die.
fn background_yields(config: &Config, chosen: &DesignWithParts<'_>) -> bool {
    has_event_engine(config, chosen) && config.timing.gc_yields
}

/// Returns whether a die of the device has several planes. A device that is refused for another reason counts as one
/// that has.
fn has_several_planes_per_die(config: &Config, _: &DesignWithParts<'_>) -> bool {
    config.resolve_device(1).map_or(true, |device| device.geometry.planes_per_die > 1)
}

/// Returns whether the reverse map is in NVRAM, where GC scans it.
fn has_reverse_map_in_nvram(_: &Config, chosen: &DesignWithParts<'_>) -> bool {
    matches!(
        reverse_map_kind(chosen),
        Some(ReverseMapKind::Segments { .. } | ReverseMapKind::NvramLog { .. })
    )
}

/// Returns whether stores to NVRAM take time in a run: the map or the reverse map of the design is in NVRAM, and the
/// design has a content mechanism. The time of the controller's work is not counted in other designs.
fn charges_time_for_nvram_stores(config: &Config, chosen: &DesignWithParts<'_>) -> bool {
    let has_content_mechanism = chosen.parts.content != ContentParts::default();
    let stores_words =
        chosen.parts.persistence == Persistence::NvramMap || has_reverse_map_in_nvram(config, chosen);
    has_content_mechanism && stores_words
}

/// Returns whether the device has the size that its configuration keys set, instead of being resized to the input.
fn has_fixed_device_size(config: &Config, _: &DesignWithParts<'_>) -> bool {
    let is_auto = config.device.preset.as_deref().is_none_or(|name| name == AUTO_SIZED_PRESET_NAME);
    config.device.fit.is_none() && (!is_auto || config.device.logical_pages.is_some())
}

/// Rules on which settings have an effect under which conditions; a key may have several, all of which must hold.
const SETTING_EFFECT_RULES: &[SettingEffectRule] = &[
    rule_for_key_or_section(
        "device.blocks_per_plane",
        has_fixed_device_size,
        "device.fit is not set, and device.preset (or --device) names a drive of a fixed size, not auto, or \
         device.logical_pages is set",
    ),
    rule_for_key_or_section(
        "recycle.",
        |_, chosen| chosen.parts.content.recycle.is_some(),
        "dead pages are recycled: on the designs recyclable and wearwell, or with recycle in parts.content",
    ),
    rule_for_key_or_section(
        "recycle.window",
        |config, _| config.recycle.policy == RecyclePolicy::ProbFl,
        "recycle.policy is prob-fl",
    ),
    rule_for_key_or_section(
        "recycle.entries",
        |config, _| config.recycle.policy != RecyclePolicy::Inf,
        "recycle.policy is not inf, a store without a limit",
    ),
    rule_for_key_or_section(
        "remap.reverse_map",
        |_, chosen| chosen.design == "remap",
        WHEN_REMAP_SECTION_SETS_REVERSE_MAP,
    ),
    SettingEffectRule {
        key_or_section: "remap.",
        excepted_keys: &["remap.dedup", "remap.size_mib", "remap.segment_bytes"],
        is_used: uses_remap_section,
        effect_condition: WHEN_SHARING_IS_SET_BY_REMAP,
    },
    rule_for_key_or_section(
        "remap.dedup",
        |config, chosen| config.parts.content.is_none() && chosen.design == "remap",
        "the design is remap and parts.content is not set; with parts.content, dedup in its list decides",
    ),
    rule_for_key_or_section("remap.index_entries", has_content_index, WHEN_PAGES_ARE_DEDUPLICATED),
    rule_for_key_or_section("remap.index_share", has_content_index, WHEN_PAGES_ARE_DEDUPLICATED),
    rule_for_key_or_section(
        "remap.index_share",
        |config, _| config.remap.index_entries.is_none(),
        "remap.index_entries is not set",
    ),
    rule_for_key_or_section("remap.verify_on_hit", has_content_index, WHEN_PAGES_ARE_DEDUPLICATED),
    rule_for_key_or_section("remap.size_mib", uses_size_of_reverse_map, WHEN_REVERSE_MAP_HAS_SIZE),
    rule_for_key_or_section(
        "remap.segment_bytes",
        has_reverse_map_in_nvram,
        "the reverse map is in NVRAM: parts.reverse_map (in the design remap: remap.reverse_map) is segments or \
         nvram-log",
    ),
    rule_for_key_or_section(
        "remap.sparse_counts",
        uses_remap_sharing_options,
        WHEN_REMAP_SETS_SHARING_OPTIONS,
    ),
    rule_for_key_or_section(
        "remap.atomic_commands",
        uses_remap_sharing_options,
        WHEN_REMAP_SETS_SHARING_OPTIONS,
    ),
    rule_for_key_or_section(
        "parts.reverse_map",
        |_, chosen| chosen.parts.content.sharing.is_some(),
        WHEN_PAGES_ARE_SHARED,
    ),
    rule_for_key_or_section("delta.", encodes_deltas, WHEN_DELTAS_ARE_ENCODED),
    rule_for_key_or_section(
        "delta.open_pages",
        |config, chosen| chosen.design != "wearwell" || config.parts.content.is_some(),
        "the design is not wearwell, which fills one page of deltas at a time",
    ),
    rule_for_key_or_section(
        "delta.scan_entries",
        |config, _| config.delta.scan_interval_writes > 0,
        "delta.scan_interval_writes is above 0",
    ),
    rule_for_key_or_section(
        "delta.cache_entries",
        |_, chosen| chosen.design == "delta",
        "the design is delta",
    ),
    rule_for_key_or_section(
        "delta.journal_pages",
        |_, chosen| chosen.design == "delta",
        "the design is delta",
    ),
    rule_for_key_or_section(
        "tables.",
        |_, chosen| chosen.parts.content.has_growing_tables(),
        "tables in RAM grow with the stored contents: on the designs integrated, delta and wearwell, with delta or \
         compress in parts.content, or with remap or dedup in it if parts.reverse_map is ideal",
    ),
    rule_for_key_or_section(
        "tables.content_least_mib",
        |_, chosen| chosen.parts.content.content_tables_ram_limit_bytes.is_some(),
        "tables.content_bytes_per_page is set, as on wearwell",
    ),
    rule_for_key_or_section("dftl.", |_, chosen| chosen.design == "dftl", "the design is dftl"),
    rule_for_key_or_section("dftl.", uses_mapping_section, WHEN_MAP_IS_ON_FLASH),
    rule_for_key_or_section("mapping.", uses_mapping_section, WHEN_MAP_IS_ON_FLASH),
    rule_for_key_or_section(
        "mapping.cache_entries",
        uses_cache_size_of_mapping_section,
        WHEN_DFTL_SECTION_SETS_NO_CACHE_SIZE,
    ),
    rule_for_key_or_section(
        "mapping.least_cache_entries",
        uses_cache_size_of_mapping_section,
        WHEN_DFTL_SECTION_SETS_NO_CACHE_SIZE,
    ),
    rule_for_key_or_section(
        "mapping.least_cache_entries",
        |config, _| config.mapping.cache_entries.is_none(),
        "mapping.cache_entries is not set",
    ),
    SettingEffectRule {
        key_or_section: "validity.",
        excepted_keys: &["validity.kind"],
        is_used: uses_mapping_section,
        effect_condition: WHEN_MAP_IS_ON_FLASH,
    },
    rule_for_key_or_section(
        "gecko.",
        |_, chosen| matches!(chosen.parts.validity, ValidityStoreKind::Gecko(_)),
        "page validity is in Logarithmic Gecko: on the designs geckoftl and wearwell unless validity.kind or \
         parts.validity names another store, or with validity.kind=gecko or parts.validity=gecko",
    ),
    rule_for_key_or_section(
        "validity.kind",
        uses_validity_and_recovery_sections,
        WHEN_VALIDITY_AND_RECOVERY_APPLY,
    ),
    rule_for_key_or_section(
        "recovery.by",
        uses_validity_and_recovery_sections,
        WHEN_VALIDITY_AND_RECOVERY_APPLY,
    ),
    rule_for_key_or_section(
        "recovery.by",
        |config, _| !config.parts.changes_default_persistence(),
        "parts.content, parts.map and parts.reverse_map are not set; with one of them, parts.survives chooses the \
         recovery",
    ),
    rule_for_key_or_section(
        "recovery.spare_read_us",
        |config, _| config.recovery.has_power_loss(),
        "the run loses power: recovery.after_run or recovery.after_requests is set",
    ),
    rule_for_key_or_section(
        "device.metadata_striping",
        |_, chosen| has_metadata_on_flash(&chosen.parts),
        "the design has metadata on flash: a map, page validity, or a log of remaps",
    ),
    rule_for_key_or_section("gc.metadata", uses_mapping_section, WHEN_MAP_IS_ON_FLASH),
    rule_for_key_or_section("gc.metadata_share", uses_mapping_section, WHEN_MAP_IS_ON_FLASH),
    rule_for_key_or_section(
        "gc.metadata_share",
        |_, chosen| matches!(chosen.parts.gc.metadata_gc, MetadataGcRule::WhenAllPagesInvalid { .. }),
        "gc.metadata is when-empty: on the design geckoftl unless gc.metadata is greedy, on other designs with a map on \
         flash only if it is set",
    ),
    rule_for_key_or_section(
        "mapping.cached_nodes",
        |_, chosen| {
            let MappingPart::Cached(map) = chosen.parts.mapping else { return false };
            matches!(map.directory, DirectoryLocation::Tree { .. })
        },
        "mapping.directory is tree: on the designs u-ftl and ib-ftl, or if it is set",
    ),
    rule_for_key_or_section(
        "validity.batch",
        |_, chosen| matches!(chosen.parts.validity, ValidityStoreKind::Bitmap(_)),
        "page validity is in a bitmap on flash: on the design u-ftl unless validity.kind names another store, or with \
         validity.kind=bitmap or parts.validity=bitmap",
    ),
    rule_for_key_or_section(
        "gc.d",
        |config, _| config.gc.policy == VictimPolicyName::DChoices,
        "gc.policy is d-choices",
    ),
    rule_for_key_or_section(
        "gc.ties",
        |config, chosen| config.gc.policy == VictimPolicyName::Greedy || uses_mapping_section(config, chosen),
        "gc.policy is greedy",
    ),
    rule_for_key_or_section("gc.background_share", has_time_model, WHEN_TIME_IS_MODELLED),
    rule_for_key_or_section(
        "gc.background_share",
        |config, _| config.replay.arrival != Arrival::Closed,
        "replay.arrival is not closed (closed leaves the drive no idle time)",
    ),
    rule_for_key_or_section(
        "wear.scan",
        |config, _| config.wear.static_gap > 0,
        "wear.static_gap is above 0",
    ),
    rule_for_key_or_section("buffer.policy", has_write_buffer, WHEN_WRITES_ARE_BUFFERED),
    rule_for_key_or_section("buffer.keep_at_end", has_write_buffer, WHEN_WRITES_ARE_BUFFERED),
    SettingEffectRule {
        key_or_section: "timing.",
        excepted_keys: &[
            "timing.mode",
            "timing.delta_encode_us",
            "timing.read_priority",
            "timing.gc_yields",
            "timing.gc_backlog_ops",
            "timing.gc_holds_reads",
            "timing.suspend",
            "timing.suspend_overhead_us",
            "timing.suspend_max",
            "timing.buffered_writes",
            "timing.multi_plane",
        ],
        is_used: has_time_model,
        effect_condition: WHEN_TIME_IS_MODELLED,
    },
    rule_for_key_or_section("timing.delta_encode_us", encodes_deltas, WHEN_DELTAS_ARE_ENCODED),
    rule_for_key_or_section("timing.delta_encode_us", uses_transfer_rate, WHEN_TRANSFER_RATE_IS_USED),
    rule_for_key_or_section(
        "timing.hash_us",
        hashes_contents,
        "contents are hashed: dedup or recycle is a part of the design",
    ),
    rule_for_key_or_section("timing.compress_us", compresses_pages, WHEN_PAGES_ARE_COMPRESSED),
    rule_for_key_or_section("timing.decompress_us", compresses_pages, WHEN_PAGES_ARE_COMPRESSED),
    rule_for_key_or_section("timing.delta_decode_us", encodes_deltas, WHEN_DELTAS_ARE_ENCODED),
    rule_for_key_or_section("timing.delta_codec_units", encodes_deltas, WHEN_DELTAS_ARE_ENCODED),
    rule_for_key_or_section(
        "timing.read_priority",
        |config, chosen| has_event_engine(config, chosen) && !config.timing.suspend,
        "timing.mode is event, and timing.suspend is false (with it, reads always have priority)",
    ),
    rule_for_key_or_section("timing.gc_yields", has_event_engine, "timing.mode is event"),
    rule_for_key_or_section("timing.gc_backlog_ops", background_yields, WHEN_BACKGROUND_WORK_YIELDS),
    rule_for_key_or_section("timing.gc_holds_reads", background_yields, WHEN_BACKGROUND_WORK_YIELDS),
    rule_for_key_or_section(
        "timing.gc_holds_reads",
        |config, chosen| {
            config.timing.gc_backlog_ops.is_some() || has_reverse_map_with_entries(config, chosen)
        },
        "timing.gc_backlog_ops is set, or pages are shared and GC scans the reverse map",
    ),
    rule_for_key_or_section("timing.suspend", has_event_engine, "timing.mode is event"),
    rule_for_key_or_section("timing.buffered_writes", has_event_engine, "timing.mode is event"),
    rule_for_key_or_section(
        "timing.nvram_read_ns",
        has_reverse_map_in_nvram,
        "the reverse map is in NVRAM: parts.reverse_map (in the design remap: remap.reverse_map) is segments or \
         nvram-log",
    ),
    rule_for_key_or_section(
        "timing.nvram_write_ns",
        charges_time_for_nvram_stores,
        "the design has a content mechanism, and its map (wearwell, or parts.survives=nvram-map) or its reverse map \
         (segments or nvram-log) is in NVRAM",
    ),
    rule_for_key_or_section("timing.suspend_overhead_us", suspends_operations, WHEN_OPERATIONS_ARE_SUSPENDED),
    rule_for_key_or_section("timing.suspend_max", suspends_operations, WHEN_OPERATIONS_ARE_SUSPENDED),
    rule_for_key_or_section(
        "timing.multi_plane",
        |config, chosen| has_event_engine(config, chosen) && !config.timing.independent_planes,
        "timing.mode is event, and timing.independent_planes is false (device.striping alone orders pages as for \
         multi-plane operations)",
    ),
    rule_for_key_or_section("timing.multi_plane", has_several_planes_per_die, WHEN_DIES_HAVE_SEVERAL_PLANES),
    rule_for_key_or_section(
        "timing.independent_planes",
        has_several_planes_per_die,
        WHEN_DIES_HAVE_SEVERAL_PLANES,
    ),
    rule_for_key_or_section("lifetime.target_years", has_lifetime_target, WHEN_WRITES_ARE_THROTTLED),
    rule_for_key_or_section("lifetime.epoch_s", has_lifetime_target, WHEN_WRITES_ARE_THROTTLED),
    rule_for_key_or_section("lifetime.epoch_writes", chooses_best_lifetime_schemes, WHEN_BEST_SCHEMES_RUN),
    rule_for_key_or_section(
        "lifetime.schemes",
        |config, chosen| {
            config.lifetime.schemes != LifetimeSchemes::Best || has_lifetime_management(config, chosen)
        },
        "the design has a content mechanism, which best can switch off",
    ),
    rule_for_key_or_section(
        "lifetime.schemes",
        |config, chosen| {
            config.lifetime.schemes != LifetimeSchemes::Integrated || has_lifetime_management(config, chosen)
        },
        "the design is integrated or wearwell, or parts.content is set; other designs have throttling and, if they \
         have a content mechanism, best",
    ),
    rule_for_key_or_section(
        "lifetime.schemes",
        |config, chosen| {
            let chooses_mechanisms = matches!(
                config.lifetime.schemes,
                LifetimeSchemes::Baseline | LifetimeSchemes::Dedup | LifetimeSchemes::Compression
            );
            !chooses_mechanisms || chosen.design == "integrated" && config.parts.content.is_none()
        },
        "the design is integrated, of which baseline, dedup and compression choose the mechanisms, and parts.content \
         is not set; other designs have parts.content",
    ),
    rule_for_key_or_section(
        "lifetime.fitted_energy",
        |config, chosen| has_lifetime_management(config, chosen) && compresses_pages(config, chosen),
        "pages are compressed, and lifetime.schemes is best, throttling or integrated",
    ),
    rule_for_key_or_section(
        "lifetime.verify_on_hit",
        |_, chosen| {
            let dedups = chosen.parts.content.sharing.is_some_and(|sharing| sharing.dedup.is_some());
            chosen.design == "integrated" && dedups
        },
        "the design is integrated and deduplicates; other designs have remap.verify_on_hit",
    ),
    rule_for_key_or_section(
        "device.over_provisioning",
        |config, _| config.device.logical_pages.is_none(),
        "device.logical_pages is not set",
    ),
    rule_for_key_or_section(
        "device.over_provisioning_of",
        |config, _| config.device.logical_pages.is_none(),
        "device.logical_pages is not set",
    ),
    rule_for_key_or_section("device.read_us", uses_flash_times, WHEN_FLASH_TIMES_ARE_USED),
    rule_for_key_or_section("device.program_us", uses_flash_times, WHEN_FLASH_TIMES_ARE_USED),
    rule_for_key_or_section("device.channel_mb_per_s", uses_flash_times, WHEN_FLASH_TIMES_ARE_USED),
    rule_for_key_or_section("device.erase_us", has_time_model, WHEN_TIME_IS_MODELLED),
    rule_for_key_or_section(
        "precondition.bound_share",
        |_, chosen| chosen.parts.content.sharing.is_some(),
        WHEN_PAGES_ARE_SHARED,
    ),
    rule_for_key_or_section(
        "precondition.bound_share",
        has_reverse_map_with_entries,
        "parts.reverse_map (in the design remap: remap.reverse_map) is not none",
    ),
    rule_for_key_or_section(
        "content.model",
        |_, chosen| chosen.parts.content != ContentParts::default(),
        "the design has a content mechanism: on the designs recyclable, remap, delta, integrated and wearwell, or with \
         parts.content",
    ),
    rule_for_key_or_section(
        "content.model",
        |config, chosen| {
            let draws_only_sizes =
                config.content.model.as_deref().is_some_and(|model| model.trim().starts_with("recorded"));
            let uses_sizes = chosen.parts.content.chunks.is_some() || chosen.parts.content.delta.is_some();
            !draws_only_sizes || uses_sizes
        },
        "the design compresses pages or stores deltas: the content model recorded draws only sizes",
    ),
    rule_for_key_or_section("replay.arrival", has_time_model, WHEN_TIME_IS_MODELLED),
    rule_for_key_or_section(
        "replay.time_scale",
        |config, _| config.replay.arrival != Arrival::Closed,
        "replay.arrival is not closed (closed ignores the times of the input)",
    ),
    rule_for_key_or_section(
        "replay.queue_depth",
        |config, chosen| {
            has_time_model(config, chosen) && matches!(config.replay.arrival, Arrival::Auto | Arrival::Closed)
        },
        "replay.arrival is closed and there is a time model (timing.mode)",
    ),
    rule_for_key_or_section(
        "precondition.overwrite",
        |config, _| {
            !matches!(config.precondition.mode, Precondition::None | Precondition::Fill | Precondition::Aged)
        },
        "precondition.mode is in-use, steady, constructed or random",
    ),
    rule_for_key_or_section(
        "precondition.trace",
        |config, _| config.precondition.mode == Precondition::Aged,
        "precondition.mode is aged",
    ),
    rule_for_key_or_section(
        "precondition.share",
        |config, _| config.precondition.mode == Precondition::Aged && config.precondition.trace.is_none(),
        "precondition.mode is aged and precondition.trace is not set",
    ),
    rule_for_key_or_section(
        "precondition.filled",
        |config, _| config.precondition.mode == Precondition::Aged,
        "precondition.mode is aged",
    ),
];

impl SettingEffectRule {
    /// Returns whether the rule covers the setting with this key (`section.key`).
    fn applies_to_key(&self, key: &str) -> bool {
        let whole_section = self.key_or_section.ends_with('.') && key.starts_with(self.key_or_section);
        (key == self.key_or_section || whole_section) && !self.excepted_keys.contains(&key)
    }
}

/// A setting that some of the designs of a run ignore.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingIgnoredByDesigns {
    /// Key of the ignored setting, as `section.key`.
    pub setting_key: String,
    /// Names of the designs that ignore the setting.
    pub ignoring_designs: Vec<String>,
    /// The condition under which the ignored setting would have an effect.
    pub effect_condition: &'static str,
    /// Whether all designs of the run ignore the setting, so that it is refused.
    pub is_ignored_by_all_designs: bool,
}

/// Writes the sentence that tells the user which setting is ignored and when it would have an effect.
impl fmt::Display for SettingIgnoredByDesigns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{key} has no effect on {designs}: it counts when {condition}",
            key = self.setting_key,
            designs = self.ignoring_designs.join(", "),
            condition = self.effect_condition
        )
    }
}

/// A setting of the user that has no effect on a kind of run, whatever the design.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingIgnoredByRunKind {
    /// Key of the setting, `section.key`.
    pub key: String,
    /// Why the setting has no effect: a sentence about this kind of run (life simulation, drive controlled step by
    /// step, or live device).
    pub reason: &'static str,
}

/// A section or key, a function that returns whether a configuration sets it, and why that setting has no effect (as in
/// `SettingIgnoredByRunKind::reason`).
type SettingCheck = (&'static str, fn(&Config) -> bool, &'static str);

/// Why a setting about times has no effect on a drive that a program controls step by step.
const NO_CLOCK_ON_STEPPED_DRIVE_REASON: &str = "a drive that gets its requests one by one has no clock";
/// Why a setting about a loss of power has no effect on a drive that a program controls step by step.
const POWER_LOSS_ONLY_ON_COMMAND_REASON: &str =
    "a drive that gets its requests one by one loses power only when it is told to";
/// Why a setting about times has no effect on a simulation of a drive's whole life, which has no clock of its own.
const NO_CLOCK_IN_LIFE_REASON: &str = "a life has no clock but the times of the input";
/// Why a setting about a loss of power has no effect on a simulation of a drive's whole life.
const NO_POWER_LOSS_IN_LIFE_REASON: &str = "the drive of a life never loses power";
/// Why a setting about a loss of power has no effect on a live device.
const LIVE_DEVICE_RECOVERS_AT_START_REASON: &str = "a live device recovers whenever it is started";

/// Settings that a life (`wearwell life`: a trace repeated until the drive is worn out) ignores. A life starts with a
/// new drive and has no clock except the times of the input.
const SETTINGS_IGNORED_BY_LIFE_RUN: [SettingCheck; 10] = [
    ("timing", |config| config.timing.has_time_model_settings(), NO_CLOCK_IN_LIFE_REASON),
    ("recovery.after_run", |config| config.recovery.after_run, "a life ends when the drive is worn out"),
    (
        "recovery.after_requests",
        |config| config.recovery.after_requests.is_some(),
        NO_POWER_LOSS_IN_LIFE_REASON,
    ),
    (
        "recovery.spare_read_us",
        |config| config.recovery.spare_read_us.is_some(),
        NO_POWER_LOSS_IN_LIFE_REASON,
    ),
    ("lifetime", |config| config.lifetime != LifetimeConfig::default(), "a life has no lifetime management"),
    (
        "precondition",
        |config| config.precondition != PreconditionConfig::default(),
        "a life begins with a new drive, which is filled unless --empty is given",
    ),
    ("replay.arrival", |config| config.replay.arrival != Arrival::default(), NO_CLOCK_IN_LIFE_REASON),
    ("replay.queue_depth", |config| config.replay.queue_depth.is_some(), NO_CLOCK_IN_LIFE_REASON),
    (
        "replay.requests",
        |config| config.replay.requests.is_some(),
        "a life repeats the whole input until the drive is worn out",
    ),
    ("device.wear_out", |config| config.device.wear_out.is_some(), "a life always wears blocks out"),
];

/// Settings that are ignored on a drive that a program controls step by step, which has neither clock nor input.
const SETTINGS_IGNORED_BY_STEPPED_DRIVE: [SettingCheck; 9] = [
    ("timing.mode", |config| config.timing.mode != Mode::default(), NO_CLOCK_ON_STEPPED_DRIVE_REASON),
    ("recovery.after_run", |config| config.recovery.after_run, POWER_LOSS_ONLY_ON_COMMAND_REASON),
    (
        "recovery.after_requests",
        |config| config.recovery.after_requests.is_some(),
        POWER_LOSS_ONLY_ON_COMMAND_REASON,
    ),
    (
        "recovery.spare_read_us",
        |config| config.recovery.spare_read_us.is_some(),
        NO_CLOCK_ON_STEPPED_DRIVE_REASON,
    ),
    (
        "lifetime",
        |config| config.lifetime != LifetimeConfig::default(),
        "a drive that gets its requests one by one has no lifetime management",
    ),
    (
        "precondition",
        |config| config.precondition != PreconditionConfig::default(),
        "a drive that gets its requests one by one is new and empty at the start",
    ),
    (
        "content",
        |config| config.content != ContentConfig::default(),
        "a drive that gets its requests one by one stores the bytes that the program writes",
    ),
    ("gc.background_share", |config| config.gc.background_share.is_some(), NO_CLOCK_ON_STEPPED_DRIVE_REASON),
    (
        "replay",
        |config| config.replay.differs_from_default_but_for_seed(),
        "the requests of such a drive come one by one, whatever the section [replay] says",
    ),
];

/// Settings that are ignored on a live device: its clients send the requests with their bytes, its flash is memory or
/// files, and it has no time model.
const SETTINGS_IGNORED_BY_LIVE_DEVICE: [SettingCheck; 14] = [
    (
        "device.fit",
        |config| config.device.fit.is_some(),
        "a live device has the size that it is created with",
    ),
    (
        "device.factory_bad_share",
        |config| config.device.factory_bad_share.is_some_and(|share| share > 0.0),
        "a live device has no bad blocks at the start",
    ),
    ("device.wear_out", |config| config.device.wear_out == Some(true), "a live device does not wear out"),
    (
        "precondition",
        |config| {
            config.precondition != PreconditionConfig::default()
                && config.precondition.mode != Precondition::None
        },
        "a live device begins empty",
    ),
    (
        "content",
        |config| config.content != ContentConfig::default(),
        "a live device stores the bytes that its clients write",
    ),
    ("buffer.keep_at_end", |config| config.buffer.keep_at_end, "a live device has no last request"),
    (
        "gc.background_share",
        |config| config.gc.background_share.is_some(),
        "a live device collects garbage only when it is written to",
    ),
    ("recovery.after_run", |config| config.recovery.after_run, LIVE_DEVICE_RECOVERS_AT_START_REASON),
    (
        "recovery.after_requests",
        |config| config.recovery.after_requests.is_some(),
        LIVE_DEVICE_RECOVERS_AT_START_REASON,
    ),
    (
        "recovery.spare_read_us",
        |config| config.recovery.spare_read_us.is_some(),
        "a live device has no time model",
    ),
    ("timing", |config| config.timing.has_time_model_settings(), "a live device models no time"),
    (
        "replay",
        |config| config.replay.differs_from_default_but_for_seed(),
        "a live device gets its requests from its clients",
    ),
    (
        "lifetime.schemes",
        |config| config.lifetime.is_throttling(),
        "a live device models no time, so that no write can be delayed",
    ),
    (
        "device.striping",
        |config| config.device.striping.is_some_and(|order| order != StripingName::PlaneFirst),
        "a live device stripes its pages plane first",
    ),
];

/// Returns the keys of the settings that some designs or devices ignore; a key that ends in `.` stands for its section.
pub fn ignorable_setting_keys() -> impl Iterator<Item = &'static str> {
    SETTING_EFFECT_RULES.iter().map(|rule| rule.key_or_section)
}

impl TimingConfig {
    /// Returns whether any setting that only a time model uses has another value than its default. The time to encode a
    /// delta does not count, because it also decides how large a delta may be.
    fn has_time_model_settings(&self) -> bool {
        *self != Self { delta_encode_us: self.delta_encode_us, ..Self::default() }
    }
}

impl ReplayConfig {
    /// Returns whether any setting of the section other than the seed has another value than its default.
    fn differs_from_default_but_for_seed(&self) -> bool {
        *self != Self { seed: self.seed, ..Self::default() }
    }
}

impl Config {
    /// Returns a setting of this configuration that would be ignored on a drive that a program controls step by step,
    /// if there is one.
    pub fn setting_ignored_by_stepped_drive(&self) -> Option<SettingIgnoredByRunKind> {
        self.first_setting_ignored_by_run_kind(&SETTINGS_IGNORED_BY_STEPPED_DRIVE)
    }

    /// Returns a setting of this configuration that a life (a trace repeated until the drive is worn out) would ignore,
    /// if there is one.
    pub fn setting_ignored_by_life_run(&self) -> Option<SettingIgnoredByRunKind> {
        self.first_setting_ignored_by_run_kind(&SETTINGS_IGNORED_BY_LIFE_RUN)
    }

    /// Returns a setting of this configuration that a live device (`wearwell serve`) would ignore, if there is one.
    pub fn setting_ignored_by_live_device(&self) -> Option<SettingIgnoredByRunKind> {
        self.first_setting_ignored_by_run_kind(&SETTINGS_IGNORED_BY_LIVE_DEVICE)
    }

    /// Resets every setting that a live device (`wearwell serve`) would ignore to its default. Images that were made
    /// before such settings were refused may have some.
    #[must_use]
    pub fn without_settings_ignored_by_live_device(mut self) -> Self {
        while let Some(setting) = self.setting_ignored_by_live_device() {
            self = self.with_default_of(&setting.key);
        }
        self
    }

    /// Returns the first of the settings in `checks` (settings that a kind of run ignores) that this configuration
    /// sets.
    fn first_setting_ignored_by_run_kind(&self, checks: &[SettingCheck]) -> Option<SettingIgnoredByRunKind> {
        let &(name, _, reason) = checks.iter().find(|(_, is_asked_for, _)| is_asked_for(self))?;
        Some(SettingIgnoredByRunKind { key: self.changed_key_of_section(name), reason })
    }

    /// Returns the first key of `section`, as `section.key`, that has another value than its default and that is
    /// ignored by some kind of run. If `section` is itself a key, returns that key.
    fn changed_key_of_section(&self, section: &str) -> String {
        let defaults = values_by_key(&Self::default());
        let is_changed = |(key, value): &(String, toml::Value)| {
            key.split('.').next() == Some(section)
                && !["replay.seed", "timing.delta_encode_us"].contains(&key.as_str())
                && defaults.get(key) != Some(value)
        };
        let changed = values_by_key(self).into_iter().find(is_changed);
        changed.map_or_else(|| section.to_owned(), |(key, _)| key)
    }

    /// Returns which of these settings (`section.key=value`) are ignored by runs of these designs.
    pub fn ignored_settings(&self, settings: &[String], designs: &[String]) -> Vec<SettingIgnoredByDesigns> {
        let mut keys: Vec<&str> = settings.iter().map(|setting| key_of_setting(setting)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.iter().filter_map(|key| self.ignored_setting_of_key(key, designs)).collect()
    }

    /// Returns the parts of a design on a device with default values: the kinds of the parts do not depend on the
    /// device. `None` if there is no such design, or if a part is chosen twice; both errors are reported later.
    pub(super) fn parts_on_default_device(&self, design: &str) -> Option<Parts> {
        let resolved = Self::default().resolve_device(1 << 16).ok()?;
        self.unchecked_design_parts(design, &resolved).ok()
    }

    /// Returns the setting with this key, together with the names in `designs` of the designs that ignore it; `None` if
    /// every design uses it.
    fn ignored_setting_of_key(&self, key: &str, designs: &[String]) -> Option<SettingIgnoredByDesigns> {
        let broken = |design: &String| {
            let chosen = DesignWithParts { design, parts: self.parts_on_default_device(design)? };
            SETTING_EFFECT_RULES
                .iter()
                .find(|rule| rule.applies_to_key(key) && !(rule.is_used)(self, &chosen))
        };
        let ignoring: Vec<String> =
            designs.iter().filter(|&design| broken(design).is_some()).cloned().collect();
        let effect_condition = ignoring.first().and_then(broken)?.effect_condition;
        let by_all = ignoring.len() == designs.len();
        Some(SettingIgnoredByDesigns {
            setting_key: key.to_owned(),
            ignoring_designs: ignoring,
            effect_condition,
            is_ignored_by_all_designs: by_all,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of all designs.
    fn design_names() -> impl Iterator<Item = &'static str> {
        wearwell::design::ALL.iter().map(|design| design.name)
    }

    /// Returns the designs that the condition in words names after ": on the design", ", on the design" or their
    /// plurals; empty if it names none there.
    fn designs_named_by(condition: &str) -> Vec<&str> {
        let lists = [": on the design", ", on the design"].map(|words| condition.split(words).skip(1));
        let lists = lists.into_iter().flatten();
        let words = lists.flat_map(|list| {
            let names = list.strip_prefix("s ").unwrap_or(list);
            let end = names.find([';', ':']).unwrap_or(names.len());
            names[..end]
                .split([' ', ','])
                .take_while(|word| !["unless", "with", "without", "if"].contains(word))
        });
        let designs = design_names().collect::<Vec<_>>();
        words.filter(|word| designs.contains(word)).collect()
    }

    /// Bug: the condition of `gc.metadata_share` named a design on which the key has no effect.
    #[test]
    fn a_condition_names_the_designs_on_which_a_setting_has_an_effect_by_default() {
        let config = Config::default();
        let mut checked_rules = 0;
        for SettingEffectRule { key_or_section, is_used, effect_condition, .. } in SETTING_EFFECT_RULES {
            let named = designs_named_by(effect_condition);
            checked_rules += usize::from(!named.is_empty());
            for design in design_names().filter(|_| !named.is_empty()) {
                let parts = config.parts_on_default_device(design).unwrap();
                let is_kept_by_rule = is_used(&config, &DesignWithParts { design, parts });
                if named.contains(&design) {
                    assert!(is_kept_by_rule, "{key_or_section} on {design}: {effect_condition}");
                } else if is_kept_by_rule {
                    let ignored = config.ignored_setting_of_key(key_or_section, &[design.to_owned()]);
                    assert!(ignored.is_some(), "{key_or_section} on {design}: {effect_condition}");
                }
            }
        }
        assert!(checked_rules > 10, "only {checked_rules} conditions name designs");
    }
}
