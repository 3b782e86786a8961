//! Tests which settings are reported as having no effect: on a design, on a simulation of a drive's whole life, on a
//! drive operated step by step, on a live device.

use wearwell_config::{Config, SettingIgnoredByRunKind};

/// Returns the key of each setting that some of these designs ignore, and whether all of them ignore it.
fn ignored_by_designs(settings: &[&str], designs: &[&str]) -> Vec<(String, bool)> {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let config = Config::from_text_and_settings(None, &owned(settings)).unwrap();
    config
        .ignored_settings(&owned(settings), &owned(designs))
        .into_iter()
        .map(|one| (one.setting_key, one.is_ignored_by_all_designs))
        .collect()
}

/// Bug: the message said under which condition the ignored setting has an effect, but under this condition another rule
/// still ignored it.
#[test]
fn the_message_states_the_condition_of_the_rule_that_ignores_the_key() {
    for (setting, design, condition) in [
        ("timing.suspend=true", "page-map", "timing.mode is event"),
        ("timing.delta_encode_us=5.0", "page-map", "overwrites are stored as deltas"),
        ("remap.reverse_map=ideal", "page-map", "the design is remap; other designs have parts.reverse_map"),
        ("remap.verify_on_hit=true", "integrated", "pages are shared, and the design is not integrated"),
        ("validity.kind=log", "page-map", "other designs have parts.validity"),
    ] {
        let settings = [setting.to_owned()];
        let config = Config::from_text_and_settings(None, &settings).unwrap();
        let ignored = config.ignored_settings(&settings, &[design.to_owned()]);
        assert!(ignored[0].effect_condition.contains(condition), "{}", ignored[0]);
    }
}

/// Bug: these were accepted. `parts.content` replaces the mechanisms that `lifetime.schemes` chooses on `integrated`, and
/// only lifetime management of compression uses the energy of compression.
#[test]
fn lifetime_settings_without_effect_are_reported() {
    let is_ignored = |settings: &[&str], design: &str| !ignored_by_designs(settings, &[design]).is_empty();
    for schemes in ["baseline", "dedup", "compression"].map(|name| format!("lifetime.schemes={name}")) {
        assert!(is_ignored(&[&schemes, "parts.content=dedup+compress"], "integrated"), "{schemes}");
        assert!(!is_ignored(&[&schemes], "integrated"), "{schemes}");
    }
    let fitted = "lifetime.fitted_energy=true";
    for design in ["page-map", "delta", "integrated", "wearwell"] {
        assert!(is_ignored(&[fitted], design), "{design}: nothing is managed");
    }
    let best = "lifetime.schemes=best";
    assert!(is_ignored(&[fitted, best], "recyclable") && !is_ignored(&[fitted, best], "wearwell"));
}

#[test]
fn settings_without_effect_on_a_life_are_reported() {
    let of = |file: &str, settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(|&text| text.to_owned()).collect();
        Config::from_text_and_settings(Some(("drive.toml", file)), &settings)
            .unwrap()
            .setting_ignored_by_life_run()
            .map(|setting| setting.key)
    };
    assert_eq!(of("", &["wear.dynamic=true", "replay.seed=3", "replay.time_scale=2.0"]), None);
    assert_eq!(of("[precondition]\nmode = 'steady'", &[]), Some("precondition.mode".into()));
    assert_eq!(of("[recovery]\nafter_run = true", &[]), Some("recovery.after_run".into()));
    assert_eq!(of("", &["timing.mode=event"]), Some("timing.mode".into()));
    assert_eq!(of("", &["timing.delta_encode_us=5.0"]), None, "it decides how large a delta may be");
    assert_eq!(of("", &["timing.delta_encode_us=5.0", "timing.suspend=true"]), Some("timing.suspend".into()));
    assert_eq!(of("", &["replay.requests=5"]), Some("replay.requests".into()));
}

/// Returns the key that `find` reports as without effect in a configuration with this setting alone.
fn key_without_effect(setting: &str, find: fn(&Config) -> Option<SettingIgnoredByRunKind>) -> Option<String> {
    let config = Config::from_text_and_settings(None, &[setting.to_owned()]).unwrap();
    find(&config).map(|setting| setting.key)
}

#[test]
fn settings_without_effect_on_a_drive_operated_step_by_step_are_reported() {
    let find = Config::setting_ignored_by_stepped_drive;
    for used in ["gc.policy=fifo", "replay.seed=3", "device.wear_out=true", "timing.delta_encode_us=5.0"] {
        assert_eq!(key_without_effect(used, find), None, "{used}");
    }
    for left_out in [
        "timing.mode=event",
        "precondition.mode=steady",
        "content.model=unique",
        "replay.requests=5",
        "lifetime.schemes=integrated",
        "gc.background_share=0.1",
        "recovery.after_requests=5",
    ] {
        let key = key_without_effect(left_out, find);
        assert_eq!(key.as_deref(), left_out.split('=').next(), "{left_out}");
    }
}

#[test]
fn settings_without_effect_on_a_live_device_are_reported() {
    let find = Config::setting_ignored_by_live_device;
    for used in [
        "gc.policy=fifo",
        "precondition.mode=none",
        "device.wear_out=false",
        "lifetime.schemes=best",
        "replay.seed=3",
        "timing.delta_encode_us=5.0",
    ] {
        assert_eq!(key_without_effect(used, find), None, "{used}");
    }
    for left_out in [
        "timing.mode=event",
        "precondition.mode=steady",
        "content.model=unique",
        "lifetime.schemes=throttling",
        "device.wear_out=true",
        "device.factory_bad_share=0.1",
        "device.striping=channel-first",
        "device.fit=0.5",
        "buffer.keep_at_end=true",
        "timing.suspend=true",
        "gc.background_share=0.1",
        "recovery.after_run=true",
        "recovery.after_requests=5",
        "replay.requests=5",
    ] {
        let key = key_without_effect(left_out, find);
        assert_eq!(key.as_deref(), left_out.split('=').next(), "{left_out}");
    }
}

#[test]
fn settings_without_effect_on_a_live_device_can_be_reset_and_others_stay() {
    let read = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(|&text| text.to_owned()).collect();
        Config::from_text_and_settings(None, &settings).unwrap()
    };
    let used = ["gc.policy=fifo", "replay.seed=3", "timing.delta_encode_us=5.0", "device.page_bytes=8192"];
    let ignored = [
        "timing.mode=event",
        "timing.suspend=true",
        "precondition.mode=steady",
        "precondition.bound_share=0.5",
        "content.model=unique",
        "lifetime.schemes=integrated",
        "device.fit=0.5",
        "device.striping=channel-first",
        "gc.background_share=0.1",
        "recovery.after_run=true",
        "replay.requests=5",
    ];
    let both = read(&[&used[..], &ignored].concat());
    assert_eq!(both.without_settings_ignored_by_live_device(), read(&used));
}

#[test]
fn limits_of_content_tables_without_effect_are_reported() {
    let (limit, least) = ("tables.content_bytes_per_page=2", "tables.content_least_mib=1");
    let without_effect = |setting: &str| [(setting.split('=').next().unwrap().to_owned(), true)];
    for design in ["page-map", "geckoftl", "recyclable", "remap"] {
        assert_eq!(ignored_by_designs(&[limit], &[design]), without_effect(limit), "{design}");
        assert_eq!(ignored_by_designs(&[least], &[design]), without_effect(least), "{design}");
    }
    for design in ["delta", "integrated"] {
        assert_eq!(ignored_by_designs(&[limit, least], &[design]), [], "{design}");
        assert_eq!(ignored_by_designs(&[least], &[design]), without_effect(least), "{design}");
    }
    assert_eq!(ignored_by_designs(&[least], &["wearwell"]), []);
    assert_eq!(ignored_by_designs(&[limit, "remap.sparse_counts=true"], &["remap"]), []);
    assert_eq!(ignored_by_designs(&["parts.content=silent", least], &["wearwell"]), without_effect(least));
}

/// Regression: these settings were accepted without effect: options of page sharing on the design `wearwell`, which
/// fixes them, and the size of a reverse map of a kind that has no size.
#[test]
fn options_of_sharing_without_effect_are_reported() {
    for ignored in ["remap.atomic_commands=true", "remap.sparse_counts=true", "remap.size_mib=10"] {
        let key = ignored.split('=').next().unwrap().to_owned();
        assert_eq!(ignored_by_designs(&[ignored], &["wearwell"]), [(key, true)], "{ignored}");
    }
    for used in ["remap.atomic_commands=true", "remap.sparse_counts=true", "remap.size_mib=10"] {
        assert_eq!(ignored_by_designs(&[used], &["remap"]), [], "{used}");
    }
    for ignored in [
        "timing.compress_us=1",
        "timing.hash_us=1",
        "timing.delta_codec_units=2",
        "precondition.bound_share=0.5",
        "mapping.cached_nodes=4",
        "validity.batch=true",
        "gc.metadata_share=0.1",
    ] {
        let settings = ["timing.mode=event", ignored];
        let key = ignored.split('=').next().unwrap().to_owned();
        for design in ["page-map", "lazyftl"] {
            assert_eq!(
                ignored_by_designs(&settings, &[design]),
                [(key.clone(), true)],
                "{ignored} on {design}"
            );
        }
    }
    let sized = ["device.logical_pages=3200", "device.over_provisioning=0.2"];
    assert_eq!(ignored_by_designs(&sized, &["page-map"]), [("device.over_provisioning".to_owned(), true)]);
    let of_physical = ["device.logical_pages=3200", "device.over_provisioning_of=physical"];
    assert_eq!(
        ignored_by_designs(&of_physical, &["page-map"]),
        [("device.over_provisioning_of".to_owned(), true)]
    );
    let with_ideal_map = ["parts.content=remap", "remap.reverse_map=nvram-log"];
    assert_eq!(ignored_by_designs(&with_ideal_map, &["page-map"]), [("remap.reverse_map".to_owned(), true)]);
}

/// Bug: the times of flash operations were accepted, without effect, in runs without a time model.
#[test]
fn the_times_of_flash_operations_are_ignored_where_nothing_takes_time() {
    for key in ["read_us", "program_us", "erase_us", "channel_mb_per_s"] {
        let key = format!("device.{key}");
        let setting = format!("{key}=90");
        let of = |more: &[&str], design| ignored_by_designs(&[&[setting.as_str()], more].concat(), &[design]);
        assert_eq!(of(&[], "page-map"), [(key.clone(), true)], "{key}");
        assert_eq!(of(&["timing.mode=event"], "page-map"), [], "{key}");
        // The time of a recovery, and the largest size of a delta, follow from those of reads and programs.
        let is_of_erases = key == "device.erase_us";
        assert_eq!(of(&["recovery.after_run=true"], "page-map").is_empty(), !is_of_erases, "{key}");
        assert_eq!(of(&[], "delta").is_empty(), !is_of_erases, "{key}");
    }
}

/// Bug: settings of the event engine were accepted that another of its settings overrides.
#[test]
fn settings_that_another_setting_of_the_event_engine_overrides_are_ignored() {
    let event = "timing.mode=event";
    for (overriding, setting) in [
        ("timing.gc_yields=false", "timing.gc_backlog_ops=1"),
        ("timing.gc_yields=false", "timing.gc_holds_reads=true"),
        ("timing.suspend=true", "timing.read_priority=false"),
        ("replay.arrival=closed", "gc.background_share=0.2"),
        ("device.planes_per_die=1", "timing.multi_plane=true"),
        ("device.planes_per_die=1", "timing.independent_planes=true"),
    ] {
        let key = setting.split('=').next().expect("a key").to_owned();
        assert_eq!(
            ignored_by_designs(&[event, overriding, setting], &["page-map"]),
            [(key, true)],
            "{overriding}"
        );
    }
    let holds = [event, "timing.gc_holds_reads=true"];
    assert_eq!(ignored_by_designs(&holds, &["page-map"]), [("timing.gc_holds_reads".to_owned(), true)]);
    assert_eq!(ignored_by_designs(&[holds[0], holds[1], "timing.gc_backlog_ops=9"], &["page-map"]), []);
    for planes in ["timing.multi_plane=true", "timing.independent_planes=true"] {
        assert_eq!(ignored_by_designs(&[event, "device.planes_per_die=2", planes], &["page-map"]), []);
    }
}

/// Bug: `recovery.spare_read_us`, the time of reading a spare area, was accepted, without effect, in a run without a
/// loss of power.
#[test]
fn the_spare_read_time_is_ignored_without_a_power_loss() {
    let price = "recovery.spare_read_us=3";
    let ignored = [("recovery.spare_read_us".to_owned(), true)];
    assert_eq!(ignored_by_designs(&[price], &["geckoftl"]), ignored);
    for loss in ["recovery.after_run=true", "recovery.after_requests=5"] {
        assert_eq!(ignored_by_designs(&[price, loss], &["geckoftl"]), [], "{loss}");
    }
}

/// Regression: `validity.kind` and `recovery.by` were accepted, without effect, on designs that get a map on flash from
/// `parts.map`.
#[test]
fn page_validity_and_recovery_of_a_design_with_another_map_are_set_in_the_parts_section() {
    let of = |setting, designs| ignored_by_designs(&["parts.map=cached", setting], designs);
    assert_eq!(of("validity.kind=bitmap", &["page-map"]), [("validity.kind".to_owned(), true)]);
    assert_eq!(of("validity.kind=bitmap", &["geckoftl"]), []);
    // With another map, the recovery is the default of the parts, or parts.survives.
    assert_eq!(of("recovery.by=battery", &["page-map", "geckoftl"]), [("recovery.by".to_owned(), true)]);
    assert_eq!(ignored_by_designs(&["recovery.by=battery"], &["geckoftl"]), []);
}

#[test]
fn settings_of_another_design_are_reported_as_ignored() {
    assert_eq!(ignored_by_designs(&["recycle.policy=inf"], &["geckoftl"]), [("recycle.policy".into(), true)]);
    assert_eq!(
        ignored_by_designs(&["recycle.policy=inf"], &["page-map", "recyclable"]),
        [("recycle.policy".into(), false)]
    );
    assert_eq!(ignored_by_designs(&["recycle.policy=inf"], &["recyclable"]), []);
    assert_eq!(ignored_by_designs(&["gecko.parts=4"], &["dftl"]), [("gecko.parts".into(), true)]);
    assert_eq!(ignored_by_designs(&["gecko.parts=4", "validity.kind=gecko"], &["dftl"]), []);
}

#[test]
fn blocks_per_plane_is_ignored_on_a_device_sized_to_the_input() {
    let blocks = "device.blocks_per_plane=12";
    let is_ignored = [("device.blocks_per_plane".to_owned(), true)];
    assert_eq!(ignored_by_designs(&[blocks], &["page-map"]), is_ignored);
    assert_eq!(ignored_by_designs(&[blocks, "device.preset=auto"], &["page-map"]), is_ignored);
    assert_eq!(
        ignored_by_designs(&[blocks, "device.preset=lab-8g", "device.fit=0.5"], &["page-map"]),
        is_ignored
    );
    assert_eq!(ignored_by_designs(&[blocks, "device.preset=lab-8g"], &["page-map"]), []);
    assert_eq!(ignored_by_designs(&[blocks, "device.logical_pages=100"], &["page-map"]), []);
}

#[test]
fn settings_of_parts_that_replace_those_of_the_design_have_an_effect() {
    assert_eq!(ignored_by_designs(&["parts.content=recycle", "recycle.policy=inf"], &["page-map"]), []);
    assert_eq!(
        ignored_by_designs(&["parts.content=dedup", "recycle.policy=inf"], &["recyclable"]),
        [("recycle.policy".into(), true)]
    );
    assert_eq!(ignored_by_designs(&["parts.map=cached", "mapping.cache_entries=9"], &["page-map"]), []);
    assert_eq!(
        ignored_by_designs(&["parts.map=flat", "mapping.cache_entries=9"], &["dftl"]),
        [("mapping.cache_entries".into(), true)]
    );
    assert_eq!(
        ignored_by_designs(&["parts.reverse_map=ideal"], &["page-map"]),
        [("parts.reverse_map".into(), true)]
    );
    let twice = ["parts.content=dedup", "remap.dedup=false"];
    assert_eq!(ignored_by_designs(&twice, &["remap"]), [("remap.dedup".into(), true)]);
}

#[test]
fn settings_of_unused_lifetime_management_are_reported() {
    let best = ["parts.content=delta", "lifetime.schemes=best", "lifetime.epoch_writes=9"];
    assert_eq!(ignored_by_designs(&best, &["page-map"]), []);
    assert_eq!(ignored_by_designs(&best[1..], &["recyclable", "delta", "remap", "integrated"]), []);
    let nothing_to_switch = [("lifetime.epoch_writes".into(), true), ("lifetime.schemes".into(), true)];
    assert_eq!(ignored_by_designs(&best[1..], &["dftl"]), nothing_to_switch);
    let timed = ["lifetime.schemes=best", "lifetime.epoch_s=9"];
    assert_eq!(ignored_by_designs(&timed, &["integrated"]), [("lifetime.epoch_s".into(), true)]);
    let counted = ["lifetime.schemes=integrated", "lifetime.epoch_writes=9"];
    assert_eq!(ignored_by_designs(&counted, &["integrated"]), [("lifetime.epoch_writes".into(), true)]);
}

#[test]
fn settings_of_a_mode_that_is_off_are_reported_as_ignored() {
    for setting in ["gc.d=3", "timing.suspend=true", "replay.queue_depth=4", "precondition.share=0.3"] {
        let key = setting.split('=').next().unwrap();
        assert_eq!(ignored_by_designs(&[setting], &["page-map"]), [(key.into(), true)], "{setting}");
    }
    assert_eq!(ignored_by_designs(&["timing.mode=event", "timing.suspend=true"], &["page-map"]), []);
    let closed = ["timing.mode=timeline", "replay.arrival=closed", "replay.queue_depth=4"];
    assert_eq!(ignored_by_designs(&closed, &["page-map"]), []);
    assert_eq!(ignored_by_designs(&["buffer.policy=slru"], &["page-map"]), [("buffer.policy".into(), true)]);
    assert_eq!(ignored_by_designs(&["buffer.policy=slru", "device.preset=tlc-1t"], &["page-map"]), []);
    let suspended = ["timing.mode=timeline", "timing.suspend=true"];
    assert_eq!(ignored_by_designs(&suspended, &["page-map"]), [("timing.suspend".into(), true)]);
}

/// Returns whether the last of these settings has no effect on the design.
fn is_last_setting_ignored(settings: &[&str], design: &str) -> bool {
    let key = settings.last().unwrap().split('=').next().unwrap();
    ignored_by_designs(settings, &[design]).iter().any(|(ignored, _)| ignored == key)
}

/// Regression: these settings were accepted although nothing read them. Each case has a setting, runs on which it has
/// an effect, and runs on which it has none: there, two values gave the same record.
#[test]
fn settings_that_nothing_reads_are_reported_as_ignored() {
    /// The other settings of a run, and the name of its design.
    type SettingsAndDesign<'a> = (&'a [&'a str], &'a str);
    let event: &[&str] = &["timing.mode=event"];
    let bounded: &[&str] = &["delta.max_ratio=0.5"];
    let cases: &[(&str, &[SettingsAndDesign<'_>], &[SettingsAndDesign<'_>])] = &[
        (
            "timing.delta_encode_us=9",
            &[(event, "delta"), (&[], "delta")],
            &[(bounded, "delta"), (event, "page-map")],
        ),
        (
            "timing.nvram_read_ns=9",
            &[(event, "remap")],
            &[(event, "page-map"), (event, "wearwell"), (&[], "remap")],
        ),
        (
            "timing.nvram_write_ns=9",
            &[(event, "remap"), (event, "wearwell")],
            &[(event, "page-map"), (event, "delta"), (event, "geckoftl"), (&[], "remap")],
        ),
        ("timing.buffered_writes=9", &[(event, "page-map")], &[(&["timing.mode=timeline"], "page-map")]),
        ("lifetime.schemes=baseline", &[(&[], "integrated")], &[(&[], "wearwell"), (&[], "remap")]),
        ("lifetime.schemes=dedup", &[(&[], "integrated")], &[(&[], "wearwell"), (&[], "remap")]),
        ("lifetime.schemes=compression", &[(&[], "integrated")], &[(&[], "wearwell"), (&[], "page-map")]),
        (
            "lifetime.verify_on_hit=true",
            &[(&[], "integrated"), (&["parts.content=dedup"], "integrated")],
            &[(&["lifetime.schemes=compression"], "integrated"), (&[], "wearwell"), (&[], "remap")],
        ),
        (
            "recycle.window=9",
            &[(&["recycle.policy=prob-fl"], "recyclable")],
            &[(&[], "recyclable"), (&["recycle.policy=inf"], "recyclable")],
        ),
        ("recycle.entries=9", &[(&[], "recyclable")], &[(&["recycle.policy=inf"], "recyclable")]),
        (
            "replay.time_scale=9",
            &[(&[], "page-map"), (&["timing.mode=event", "replay.arrival=think"], "page-map")],
            &[(&["timing.mode=event", "replay.arrival=closed"], "page-map")],
        ),
    ];
    for (setting, effective, ignored) in cases {
        for (runs, is_ignored) in [(effective, false), (ignored, true)] {
            for (others, design) in *runs {
                let settings = [*others, &[*setting]].concat();
                assert_eq!(
                    is_last_setting_ignored(&settings, design),
                    is_ignored,
                    "{settings:?} on {design}"
                );
            }
        }
    }
}

/// Bug: these settings were accepted, without effect, beside another setting that replaces them or makes them unused.
#[test]
fn settings_that_another_setting_replaces_are_reported_as_ignored() {
    let is_ignored = |settings: &[&str], design: &str, expected: bool| {
        assert_eq!(is_last_setting_ignored(settings, design), expected, "{settings:?} on {design}");
    };
    is_ignored(&["dftl.cache_entries=30", "mapping.cache_entries=60"], "dftl", true);
    is_ignored(&["dftl.cache_entries=30", "mapping.least_cache_entries=60"], "dftl", true);
    is_ignored(&["dftl.cache_entries=30", "mapping.cache_entries=60"], "geckoftl", false);
    is_ignored(&["parts.map=flat", "dftl.cache_entries=30"], "dftl", true);
    is_ignored(&["dftl.cache_entries=30"], "dftl", false);
    is_ignored(&["mapping.cache_entries=60", "mapping.least_cache_entries=600"], "dftl", true);
    is_ignored(&["mapping.least_cache_entries=600"], "dftl", false);

    is_ignored(&["remap.index_entries=500", "remap.index_share=0.5"], "remap", true);
    is_ignored(&["remap.index_share=0.5", "remap.index_entries=500"], "remap", false);
    for index in ["remap.index_entries=500", "remap.index_share=0.5", "remap.verify_on_hit=true"] {
        is_ignored(&["remap.dedup=false", index], "remap", true);
        is_ignored(&["remap.reverse_map=none", index], "remap", true);
        is_ignored(&["parts.content=remap", index], "page-map", true);
        is_ignored(&["parts.content=dedup", index], "page-map", false);
        is_ignored(&[index], "remap", false);
        is_ignored(&[index], "wearwell", false);
    }
    is_ignored(&["remap.reverse_map=none", "precondition.bound_share=0.4"], "remap", true);
    is_ignored(&["remap.reverse_map=ideal", "precondition.bound_share=0.4"], "remap", false);
    let with_bound_share = ["precondition.bound_share=0.4", "remap.reverse_map=none", "remap.size_mib=10"];
    is_ignored(&with_bound_share, "remap", true);

    is_ignored(&["delta.scan_interval_writes=0", "delta.scan_entries=5"], "delta", true);
    is_ignored(&["delta.scan_interval_writes=9", "delta.scan_entries=5"], "delta", false);
}

/// Bug: a content model was accepted, without effect, on designs that do not examine contents.
#[test]
fn a_content_model_is_ignored_by_designs_without_content_mechanism() {
    let model = "content.model=dup:share=0.5";
    for design in ["page-map", "dftl", "geckoftl"] {
        assert!(is_last_setting_ignored(&[model], design), "{design}");
        assert!(!is_last_setting_ignored(&["parts.content=silent", model], design), "{design}");
    }
    for design in ["recyclable", "remap", "delta", "integrated", "wearwell"] {
        assert!(!is_last_setting_ignored(&[model], design), "{design}");
    }
    assert!(is_last_setting_ignored(&["parts.content=none", model], "recyclable"));
}

#[test]
fn a_model_of_sizes_is_ignored_by_designs_that_use_no_sizes() {
    let model = "content.model=recorded:compress=0.5";
    for design in ["page-map", "recyclable", "remap"] {
        assert!(is_last_setting_ignored(&[model], design), "{design}");
        assert!(!is_last_setting_ignored(&["parts.content=delta", model], design), "{design}");
    }
    for design in ["delta", "integrated", "wearwell"] {
        assert!(!is_last_setting_ignored(&[model], design), "{design}");
    }
}

/// Bug: `integrated` was accepted, without effect, where no lifetime management runs.
#[test]
fn integrated_schemes_are_ignored_by_designs_that_the_algorithm_does_not_manage() {
    let schemes = "lifetime.schemes=integrated";
    for design in ["page-map", "recyclable", "remap", "delta", "dftl"] {
        assert!(is_last_setting_ignored(&[schemes], design), "{design}");
        assert!(!is_last_setting_ignored(&["parts.content=recycle", schemes], design), "{design}");
    }
    for design in ["integrated", "wearwell"] {
        assert!(!is_last_setting_ignored(&[schemes], design), "{design}");
    }
}

/// A rule for a key that does not exist would never apply.
#[test]
fn every_ignored_setting_rule_names_an_existing_key() {
    let documents = include_str!("../../../docs/configuration.md");
    for key in wearwell_config::ignorable_setting_keys() {
        let known = match key.strip_suffix('.') {
            Some(section) => documents.contains(&format!("## `[{section}]`")),
            None => documents.contains(&format!("| `{key}` |")),
        };
        assert!(known, "{key}");
    }
}
