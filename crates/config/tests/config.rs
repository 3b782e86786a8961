//! Tests of configurations: which are refused and by which message, what presets resolve to, and which of several
//! sources of a value counts.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wearwell::content::recycle::DeadPageHistoryScope;
use wearwell::gc::VictimPolicy;
use wearwell::nand::preset;
use wearwell::sharing::reverse_map::{MAX_SEGMENTS, ReverseMapKind};
use wearwell_config::{
    Arrival, Config, ConfigError, DeviceConfig, PersistenceName, RecyclePolicy, ResolvedDevice,
    VictimPolicyName,
};

/// Bytes of a gibibyte.
const GIB: u64 = 1 << 30;

/// Returns settings (`section.key=value`) as owned strings.
fn to_settings(list: &[&str]) -> Vec<String> {
    list.iter().map(|&setting| setting.to_owned()).collect()
}

/// Builds a configuration from valid settings alone.
fn config_of_settings(list: &[&str]) -> Config {
    Config::from_text_and_settings(None, &to_settings(list)).unwrap()
}

/// Parses the text of a configuration file called `drive.toml`.
fn config_of_file(text: &str) -> Result<Config, ConfigError> {
    Config::from_text_and_settings(Some(("drive.toml", text)), &[])
}

/// Resolves the device of these settings for an input that touches 10,000 pages of 4 KiB.
fn resolve(list: &[&str]) -> Result<ResolvedDevice, ConfigError> {
    config_of_settings(list).resolve_device(10_000)
}

/// Returns the message with which a configuration is refused.
fn refusal_message<T: std::fmt::Debug>(result: Result<T, ConfigError>) -> String {
    result.unwrap_err().to_string()
}

/// Checks that a message contains all of `parts`.
#[track_caller]
fn assert_contains_all(sentence: &str, parts: &[&str]) {
    for part in parts {
        assert!(sentence.contains(part), "`{part}` is missing in: {sentence}");
    }
}

#[test]
fn an_unknown_key_in_a_file_is_refused_with_its_line_and_the_nearest_name() {
    let refused = refusal_message(config_of_file("[gc]\nlow_blocks = 3\npolicie = \"fifo\"\n"));
    assert_contains_all(&refused, &["drive.toml:3:", "`policie`", "did you mean `policy`?"]);
}

#[test]
fn an_unknown_section_is_refused_with_its_line_and_the_nearest_name() {
    let refused = refusal_message(config_of_file("\n[devise]\npreset = \"lab-8g\"\n"));
    assert_contains_all(&refused, &["drive.toml:2:", "`devise`", "did you mean `device`?"]);
}

#[test]
fn an_unknown_named_value_is_refused_with_the_nearest_valid_one() {
    let refused = refusal_message(config_of_file("[timing]\nmode = \"evnt\"\n"));
    assert_contains_all(&refused, &["drive.toml:2:", "`evnt`", "did you mean `event`?"]);
}

#[test]
fn a_value_of_the_wrong_kind_is_refused_with_its_line() {
    let refused = refusal_message(config_of_file("[device]\n\nchannels = \"four\"\n"));
    assert_contains_all(&refused, &["drive.toml:3:", "four", "the value must be a whole number"]);
}

/// Regression: messages named types of the program, such as `u64` and `unit variant`, and a seed above 2^63 - 1 was
/// called a string.
#[test]
fn values_of_the_wrong_kind_are_refused_in_words_of_the_user() {
    for (setting, said) in [
        ("gc.d=x", "the value must be a whole number from 0 to 4294967295, but is the "),
        ("gc.d=1.5", "the value must be a whole number from 0 to 4294967295, but is the "),
        ("wear.dynamic=3", "the value must be true or false, but is the "),
        ("delta.hot_accesses=300", "the value must be a whole number from 0 to 255, but is the "),
        ("device.read_us=abc", "the value must be a number, but is the "),
        ("gc.policy=3", "the value must be a name"),
        ("parts.content=none+dedup", "`none` stands for no content mechanism"),
        ("parts.content=4", "the value must be names of content mechanisms, such as dedup+recycle, or none"),
        ("replay.seed=-1", "the value must be a whole number, not negative, but is the "),
        ("replay.seed=9223372036854775808", "at most 9223372036854775807 (2^63 - 1)"),
        ("replay.seed=18_446_744_073_709_551_615", "at most 9223372036854775807 (2^63 - 1)"),
    ] {
        let refused = refusal_message(Config::from_text_and_settings(None, &[setting.to_owned()]));
        assert!(
            refused.starts_with(&format!("setting `{setting}`: ")) && refused.contains(said),
            "{refused}"
        );
    }
    let in_file = refusal_message(config_of_file("[replay]\nseed = 18446744073709551615\n"));
    assert_contains_all(&in_file, &["drive.toml:2: ", "at most 9223372036854775807"]);
    assert!(Config::from_text_and_settings(None, &["replay.seed=9223372036854775807".into()]).is_ok());
    let spare = Config::from_text_and_settings(None, &["device.spare_bytes=65537".into()]).unwrap();
    let refused = spare.resolve_device(1000).unwrap_err().to_string();
    assert_contains_all(&refused, &["device.spare_bytes is 65537", "at most 65536"]);
}

#[test]
fn negative_counts_are_refused() {
    assert_contains_all(&refusal_message(config_of_file("[buffer]\npages = -1\n")), &["drive.toml:2:", "-1"]);
}

#[test]
fn broken_toml_is_refused_with_its_line() {
    assert_contains_all(&refusal_message(config_of_file("[gc]\npolicy = \n")), &["drive.toml:2:"]);
}

/// Regression: the message about a word without quotes was `invalid boolean, expected false`, and that about a list
/// `wanted string or table`.
#[test]
fn a_name_in_a_file_that_is_no_string_is_refused_with_the_way_to_write_it() {
    for word in ["fifo", "true-greedy", "greedy"] {
        let refused = refusal_message(config_of_file(&format!("[gc]\npolicy = {word}\n")));
        assert_contains_all(
            &refused,
            &["drive.toml:2:", "must be in quotes, as in \"fifo\"", "quote the string"],
        );
    }
    let refused = refusal_message(config_of_file("[gc]\npolicy = [\"fifo\"]\n"));
    assert_contains_all(&refused, &["drive.toml:2:", "the value must be a name"]);
}

#[test]
fn the_error_for_a_misspelt_setting_names_it_and_the_nearest_key() {
    let refused = refusal_message(Config::from_text_and_settings(None, &to_settings(&["gc.polcy=fifo"])));
    assert_contains_all(&refused, &["setting `gc.polcy=fifo`", "did you mean `policy`?"]);
}

#[test]
fn settings_that_are_not_section_key_value_are_refused() {
    for (setting, wanted) in [
        ("gc.policy", "section.key=value"),
        ("policy=fifo", "gc.policy"),
        ("=", "gc.policy"),
        ("gc.=1", "unknown name"),
        (".policy=1", "unknown name"),
        ("gc.wear.dynamic=true", "unknown name"),
    ] {
        let refused = refusal_message(Config::from_text_and_settings(None, &to_settings(&[setting])));
        assert_contains_all(&refused, &[setting, wanted]);
    }
}

#[test]
fn only_the_wearwell_design_limits_its_fingerprint_store_by_default() {
    let scope = |design: &str, list: &[&str]| {
        let config = config_of_settings(list);
        let parts = config.design_parts(design, &config.resolve_device(10_000).unwrap()).unwrap();
        parts.content.recycle.expect("the design recycles").options.dead_page_history_scope
    };
    assert_eq!(scope("wearwell", &[]), DeadPageHistoryScope::FingerprintStore);
    assert_eq!(scope("wearwell", &["parts.content=recycle,dedup"]), DeadPageHistoryScope::FingerprintStore);
    assert_eq!(scope("wearwell", &["recycle.history=all"]), DeadPageHistoryScope::AllPages);
    assert_eq!(scope("recyclable", &[]), DeadPageHistoryScope::AllPages);
    assert_eq!(scope("recyclable", &["recycle.history=store"]), DeadPageHistoryScope::FingerprintStore);
    assert_eq!(scope("page-map", &["parts.content=recycle"]), DeadPageHistoryScope::AllPages);
}

#[test]
fn a_delta_map_journal_without_a_map_on_flash_is_refused() {
    let refused = refusal_message(resolve(&["delta.journal_pages=4"]));
    assert_contains_all(&refused, &["delta.journal_pages", "delta.cache_entries"]);
    assert!(resolve(&["delta.journal_pages=4", "delta.cache_entries=100"]).is_ok());
}

#[test]
fn impossible_geometries_are_refused_with_field_and_bound() {
    for (list, parts) in [
        (vec!["device.planes_per_die=0"], vec!["planes_per_die is 0"]),
        (vec!["device.pages_per_block=0"], vec!["pages_per_block is 0"]),
        (vec!["device.page_bytes=3000"], vec!["page_bytes is 3000", "power of two"]),
        (vec!["device.page_bytes=256"], vec!["page_bytes is 256", "512"]),
        (vec!["device.preset=gk-2t", "device.channels=16"], vec!["8589934592 pages", "32 bits"]),
        (
            vec!["device.preset=bench-8g", "device.superblock_planes=3"],
            vec!["superblock_planes is 3", "does not divide the number of planes of the device, 64"],
        ),
        (
            vec!["device.preset=bench-8g", "device.superblock_planes=4", "device.pages_per_block=20000"],
            vec!["80000 pages", "65535"],
        ),
        (
            vec![
                "device.channels=4294967295",
                "device.dies_per_channel=4294967295",
                "device.planes_per_die=9",
            ],
            vec!["32 bits"],
        ),
    ] {
        assert_contains_all(&refusal_message(resolve(&list)), &parts);
    }
}

/// Regression: a device of 2^32 planes with one page each passed all checks, and its number of planes then overflowed.
#[test]
fn a_device_with_too_many_planes_is_refused() {
    for (dies, parts) in [
        ("device.dies_per_channel=65536", ["4294967296 pages", "at most 4294967295"]),
        ("device.dies_per_channel=32768", ["2147483648 planes", "at most 65536"]),
    ] {
        let refused = resolve(&[
            "device.preset=lab-8g",
            "device.channels=65536",
            dies,
            "device.blocks_per_plane=1",
            "device.pages_per_block=1",
        ]);
        assert_contains_all(&refusal_message(refused), &parts);
    }
}

#[test]
fn over_provisioning_refers_to_logical_or_physical_pages() {
    let exported = |of: &str| {
        let of = format!("device.over_provisioning_of={of}");
        let resolved = resolve(&["device.preset=lab-8g", "device.over_provisioning=0.15", &of]).unwrap();
        (resolved.logical_pages, resolved.geometry.pages() as f64)
    };
    let (logical, physical) = exported("logical");
    assert_eq!(logical, (physical / 1.15) as u32);
    let (logical, physical) = exported("physical");
    assert_eq!(logical, (physical * 0.85) as u32);
}

#[test]
fn over_provisioning_out_of_range_is_refused() {
    for share in ["0", "-0.1", "+nan", "+inf"] {
        let setting = format!("device.over_provisioning={share}");
        assert_contains_all(&refusal_message(resolve(&[&setting])), &["device.over_provisioning is"]);
    }
    let all = resolve(&["device.over_provisioning=1.0", "device.over_provisioning_of=physical"]);
    assert_contains_all(&refusal_message(all), &["device.over_provisioning is 1", "nothing is exported"]);
}

#[test]
fn exported_pages_of_zero_or_of_all_flash_are_refused() {
    let refused = resolve(&["device.preset=lab-8g", "device.logical_pages=2097152"]);
    assert_contains_all(
        &refusal_message(refused),
        &["the device would export 2097152 logical pages, but its flash has 2097152 pages"],
    );
    assert_contains_all(
        &refusal_message(resolve(&["device.logical_pages=0"])),
        &["the device would export no logical page"],
    );
    assert_eq!(
        resolve(&["device.preset=lab-8g", "device.logical_pages=1000000"]).unwrap().logical_pages,
        1_000_000
    );
}

/// Regression: such numbers became 0, or were cut to the bound, without a message.
#[test]
fn settings_out_of_range_are_refused_not_clamped() {
    for setting in [
        "device.read_us=-1",
        "device.erase_us=+nan",
        "device.program_us=+inf",
        "device.channel_mb_per_s=0",
        "device.channel_mb_per_s=+nan",
        "device.factory_bad_share=0.5",
        "device.factory_bad_share=-0.01",
        "device.endurance_cycles=0",
        "device.fit=1.5",
        "device.fit=0",
        "device.fit=+nan",
        "gc.d=0",
        "gc.free_share=0.5",
        "gc.background_share=-0.1",
        "dftl.cache_entries=0",
        "timing.hash_us=-5",
        "timing.suspend_overhead_us=+nan",
        "precondition.share=1",
        "precondition.overwrite=-1",
        "replay.queue_depth=0",
        "replay.time_scale=-2",
    ] {
        let (name, _) = setting.split_once('=').unwrap();
        assert_contains_all(&refusal_message(resolve(&[setting])), &[name]);
    }
}

#[test]
fn an_unknown_device_and_an_unknown_design_are_refused_with_the_nearest_name() {
    let refused = refusal_message(resolve(&["device.preset=lab-8gb"]));
    assert_contains_all(&refused, &["unknown device `lab-8gb`", "did you mean `lab-8g`?", "auto", "tlc-1t"]);
    let config = Config::default();
    let refused = refusal_message(config.design_parts("pagemap", &config.resolve_device(1000).unwrap()));
    assert_contains_all(&refused, &["unknown design `pagemap`", "did you mean `page-map`?", "recyclable"]);
}

#[test]
fn every_preset_resolves_to_its_listed_geometry_timing_and_capacity() {
    for device in preset::all_presets() {
        let config = config_of_settings(&[&format!("device.preset={}", device.name)]);
        let resolved = config.resolve_device(1).unwrap();
        assert_eq!(resolved.preset_name, device.name);
        assert_eq!(resolved.geometry, device.geometry);
        assert_eq!(resolved.flash_timing, device.timing);
        assert_eq!(resolved.endurance_cycles, device.endurance_cycles);
        let spare = resolved.geometry.pages() as f64 / resolved.logical_pages as f64 - 1.0;
        assert!((spare - device.over_provisioning).abs() < 1e-6, "{}: {spare}", device.name);
        for design in wearwell::design::ALL {
            config.design_parts(design.name, &resolved).unwrap();
        }
        let remap = config.design_parts("remap", &resolved).unwrap().content.sharing.unwrap();
        let ReverseMapKind::Segments { nvram_bytes, segment_bytes } = remap.reverse_map else {
            panic!("it has segments")
        };
        assert!(nvram_bytes / u64::from(segment_bytes) <= MAX_SEGMENTS, "{}: {nvram_bytes}", device.name);
    }
}

/// Returns a preset's device, the number of its pages and exported pages, and the free blocks at which GC starts.
fn preset_capacity(name: &str) -> (ResolvedDevice, u64, u64) {
    let resolved = resolve(&[&format!("device.preset={name}")]).unwrap();
    let (pages, logical) = (resolved.geometry.pages(), resolved.logical_pages as u64);
    (resolved, pages, logical)
}

#[test]
fn paper_presets_have_the_capacity_of_their_papers() {
    let (lx, pages, _) = preset_capacity("lx-40g");
    assert_eq!((pages, lx.geometry.allocation_pools()), (10_485_760, 80));
    // 5 % of 2048 blocks per plane.
    assert_eq!(lx.gc_options.gc_start_free_blocks, 102);

    let (rm, pages, logical) = preset_capacity("rm-36g");
    assert_eq!((rm.geometry.blocks(), rm.geometry.block_pages()), (576, 16_384));
    assert_eq!((pages, logical), (9 << 20, 8 << 20), "32 GiB exported of 36");

    let (gk, pages, logical) = preset_capacity("gk-2t");
    assert_eq!((pages, gk.geometry.blocks()), (1 << 29, 1 << 22));
    assert_eq!(logical, (0.7 * (1u64 << 29) as f64) as u64);

    let (_, pages, logical) = preset_capacity("df-64g");
    assert_eq!(pages * 4096, 64 * GIB);
    assert_eq!(logical * 4096 / (1 << 20), 45_875, "44.8 GiB in MiB, rounded down");

    let (_, pages, logical) = preset_capacity("il-64g");
    assert_eq!(pages * 4096, 64 * GIB);
    assert_eq!(logical, (pages as f64 / 1.07) as u64);
}

#[test]
fn settings_accept_strings_with_and_without_quotes_and_blanks() {
    for setting in ["gc.policy=fifo", "gc.policy=\"fifo\"", "gc.policy='fifo'", " gc.policy = fifo "] {
        assert_eq!(config_of_settings(&[setting]).gc.policy, VictimPolicyName::Fifo, "{setting}");
    }
    let content = "content.model=dup:share=0.2,theta=0.9";
    assert_eq!(config_of_settings(&[content]).content.model.as_deref(), Some("dup:share=0.2,theta=0.9"));
    let whole = config_of_settings(&[
        "device.over_provisioning=1",
        "wear.dynamic=true",
        "device.blocks_per_plane=1_000",
    ]);
    assert_eq!(whole.device.over_provisioning, Some(1.0));
    assert!(whole.wear.dynamic);
    assert_eq!(whole.device.blocks_per_plane, Some(1000));
}

/// Regression: the policy name `inf` was read as the number infinity.
#[test]
fn the_word_inf_in_a_setting_is_read_as_a_string() {
    assert_eq!(config_of_settings(&["recycle.policy=inf"]).recycle.policy, RecyclePolicy::Inf);
}

#[test]
fn later_configuration_sources_override_only_the_keys_they_set() {
    let file = "[gc]\npolicy = \"fifo\"\nlow_blocks = 5\n[replay]\nseed = 3\n";
    let list = to_settings(&["gc.policy=random", "replay.seed=4", "replay.seed=5"]);
    let config = Config::from_text_and_settings(Some(("drive.toml", file)), &list).unwrap();
    assert_eq!((config.gc.policy, config.gc.low_blocks), (VictimPolicyName::Random, Some(5)));
    assert_eq!(config.seed(), 5);
    // What nothing names comes from the preset or is the default.
    assert_eq!(Config::default().seed(), 1);
    assert_eq!(config.resolve_device(1000).unwrap().gc_options.gc_start_free_blocks, 5);
    assert_eq!(
        config.resolve_device(1000).unwrap().gc_options.policy,
        VictimPolicy::DChoices { random_candidates: 1 }
    );
}

/// With the design `wearwell`, the tables of content mechanisms (deduplication, recycling, ...) take at most 1/8 byte
/// of RAM per flash page; but on small drives they may take 16 MiB.
#[test]
fn content_tables_are_limited_in_the_wearwell_design_and_where_a_limit_is_set() {
    /// Bytes of a mebibyte.
    const MIB: u64 = 1 << 20;
    let limit_bytes = |settings: &[&str], design: &str, pages: u64| {
        let settings: Vec<String> = settings.iter().map(|&text| text.to_owned()).collect();
        let config = Config::from_text_and_settings(None, &settings).unwrap();
        let resolved = config.resolve_device(pages).unwrap();
        let limit = config.design_parts(design, &resolved).unwrap().content.content_tables_ram_limit_bytes;
        (limit, resolved.geometry.pages())
    };
    assert_eq!(limit_bytes(&[], "wearwell", 100_000).0, Some(16 * MIB));
    let (limit, pages) = limit_bytes(&[], "wearwell", 200_000_000);
    assert!(limit == Some(pages / 8) && pages / 8 > 16 * MIB, "{limit:?} of {pages} pages");
    assert_eq!(limit_bytes(&["tables.content_least_mib=2"], "wearwell", 100_000).0, Some(2 * MIB));
    assert_eq!(limit_bytes(&["parts.content=delta"], "wearwell", 100_000).0, Some(16 * MIB));
    assert_eq!(limit_bytes(&["parts.content=silent"], "wearwell", 100_000).0, None);
    for design in ["page-map", "remap", "delta", "integrated"] {
        assert_eq!(limit_bytes(&[], design, 100_000).0, None, "{design}");
    }
    let settings = ["tables.content_bytes_per_page=4", "tables.content_least_mib=0"];
    let (limit, pages) = limit_bytes(&settings, "integrated", 100_000);
    assert_eq!(limit, Some(4 * pages));
}

#[test]
fn a_configuration_written_as_toml_is_read_back_equal() {
    let config = config_of_settings(&[
        "device.preset=tlc-1t",
        "device.over_provisioning=0.28",
        "device.over_provisioning_of=physical",
        "gc.policy=d-choices",
        "gc.d=7",
        "buffer.policy=slru",
        "recycle.policy=prob-fl",
        "timing.mode=event",
        "timing.suspend=true",
        "precondition.mode=aged",
        "precondition.trace=\"a \\\"quoted\\\" name\"",
        "content.model=unique",
        "replay.arrival=think",
        "replay.addresses=compact",
        "replay.zeroes=write",
        "replay.seed=9223372036854775807",
    ]);
    for config in [config, Config::default()] {
        assert_eq!(config_of_file(&config.to_toml()).unwrap(), config);
        let json = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<Config>(&json).unwrap(), config);
    }
}

#[test]
fn the_setting_device_fit_sizes_the_device_to_the_footprint() {
    for (list, footprint) in [
        (vec!["device.fit=0.9"], 1_000_000),
        (vec!["device.fit=1.0", "device.preset=bench-8g"], 5_000_000),
        (vec!["device.fit=0.5", "device.preset=tlc-1t"], 10_000_000),
    ] {
        let resolved = resolved_for_footprint(&list, footprint);
        let fit: f64 = list[0].split_once('=').unwrap().1.parse().unwrap();
        let exported_4k = resolved.logical_pages as u64 * resolved.geometry.page_bytes as u64 / 4096;
        let share = footprint as f64 / exported_4k as f64;
        // One block more per plane is the resolution.
        let finest = resolved.geometry.planes() as f64
            * resolved.geometry.pages_per_block as f64
            * (resolved.geometry.page_bytes / 4096) as f64
            / footprint as f64;
        assert!(share <= fit && share > fit / (1.0 + finest), "{list:?}: {share}, resolution {finest}");
    }
}

/// Resolves the device of valid settings for an input that touches `footprint` pages of 4 KiB.
fn resolved_for_footprint(list: &[&str], footprint: u64) -> ResolvedDevice {
    config_of_settings(list).resolve_device(footprint).unwrap()
}

#[test]
fn the_auto_device_is_as_large_as_the_input_and_a_preset_is_left_as_it_is() {
    let auto = resolved_for_footprint(&[], 500_000);
    assert_eq!(auto.preset_name, "auto");
    let share = 500_000.0 / auto.logical_pages as f64;
    assert!((0.999..=1.0).contains(&share), "{share}");
    let preset = resolved_for_footprint(&["device.preset=lab-8g"], 500_000);
    assert_eq!((preset.geometry.pages(), preset.reserve_blocks_per_plane), (1 << 21, 0.0));
}

/// The threshold of GC is a share of all blocks of a plane, also of those that a small drive has beyond what its input
/// needs.
#[test]
fn the_reserve_of_a_small_auto_device_contains_the_blocks_that_gc_keeps_free() {
    for (footprint, share) in [(1_000, 0.25), (2_400, 0.25), (1_000, 0.4)] {
        let share = format!("gc.free_share={share}");
        let resolved = resolved_for_footprint(&["device.pages_per_block=64", &share], footprint);
        let kept_free = f64::from(resolved.gc_options.gc_start_free_blocks);
        assert!(resolved.reserve_blocks_per_plane > kept_free, "{resolved:?}");
    }
}

/// Of 100 blocks of a plane, 10 are expected to be bad: the drive gets so many more.
#[test]
fn factory_bad_blocks_take_no_over_provisioning_from_a_drive_sized_to_its_input() {
    for footprint in [8_000, 500_000] {
        let good = resolved_for_footprint(&[], footprint);
        let some_bad = resolved_for_footprint(&["device.factory_bad_share=0.1"], footprint);
        assert_eq!(good.logical_pages.max(footprint as u32), good.logical_pages);
        let good_blocks = 0.9 * f64::from(some_bad.geometry.blocks_per_plane);
        assert!(good_blocks >= f64::from(good.geometry.blocks_per_plane) - 1.0, "{some_bad:?}");
        let exported_blocks = |device: &ResolvedDevice| {
            f64::from(device.logical_pages)
                / f64::from(device.geometry.planes())
                / f64::from(device.geometry.pages_per_block)
        };
        assert!((exported_blocks(&some_bad) - exported_blocks(&good)).abs() < 1.0, "{some_bad:?}");
    }
}

/// On a drive with few blocks per pool, GC keeps half of the spare space free or open. Without the reserve (blocks that
/// are neither exported nor spare), 15 % of over-provisioning acted as 10 %.
#[test]
fn over_provisioning_excludes_the_blocks_that_gc_keeps_free() {
    for footprint in [5_000, 50_000, 500_000] {
        for spare in [0.07, 0.15, 0.28] {
            let auto = resolved_for_footprint(&[&format!("device.over_provisioning={spare}")], footprint);
            let shared = auto.exported_and_spare_pages() as f64 / auto.logical_pages as f64 - 1.0;
            assert!((shared / spare - 1.0).abs() < 0.01, "{shared} for {spare} at {footprint}");
            let reserve = auto.geometry.pages() - auto.exported_and_spare_pages();
            let block_pages = u64::from(auto.geometry.pages_per_block * auto.geometry.planes());
            assert_eq!(auto.gc_options.gc_start_free_blocks, 2);
            assert!(
                reserve > 3 * block_pages && reserve <= 10 * block_pages,
                "{reserve} pages at {footprint}"
            );
        }
    }
    let none = resolved_for_footprint(&["device.reserve_blocks=0"], 500_000);
    assert_eq!(none.exported_and_spare_pages(), none.geometry.pages());
}

/// The footprint is to be only 1e-7 of the drive, which would then have more flash pages than page numbers of 32 bits
/// can name. The refusal must not advise fewer blocks, because their number follows from the input.
#[test]
fn a_device_fit_setting_that_needs_too_many_flash_pages_is_refused_and_named() {
    let refused = refusal_message(try_resolve_for_footprint(&["device.fit=1e-7"], 1_000));
    assert_contains_all(&refused, &["device.fit=0.0000001", "raise device.fit"]);
    assert!(!refused.contains("blocks_per_plane"), "{refused}");
}

#[test]
fn a_device_fit_setting_that_the_smallest_device_of_a_preset_exceeds_is_refused() {
    let refused =
        refusal_message(try_resolve_for_footprint(&["device.fit=0.9", "device.preset=tlc-1t"], 50_000));
    assert_contains_all(&refused, &["the input touches 90.00 %", "tlc-1t", "MiB"]);
    assert!(!refused.contains("  "), "{refused}");
    assert!(
        try_resolve_for_footprint(
            &["device.fit=0.9", "device.preset=lab-8g", "device.channels=1"],
            5_000_000
        )
        .is_ok()
    );
}

/// Regression: the preset's share of free blocks overrode the threshold that the user had set.
#[test]
fn a_gc_threshold_set_by_the_user_overrides_the_default() {
    let by_hand = resolved_for_footprint(&["device.preset=lx-40g", "gc.low_blocks=3"], 1_000);
    assert_eq!(by_hand.gc_options.gc_start_free_blocks, 3);
    let both =
        resolved_for_footprint(&["device.preset=lx-40g", "gc.low_blocks=3", "gc.free_share=0.05"], 1_000);
    assert_eq!(both.gc_options.gc_start_free_blocks, 102);
}

/// Bug: a number without a digit before its point (`.15`) was read as a string in a setting.
#[test]
fn numbers_that_begin_with_a_point_are_accepted_in_settings_and_refused_with_advice_in_files() {
    for text in [".15", "+.15", "0.15"] {
        let config = config_of_settings(&[&format!("device.over_provisioning={text}")]);
        assert_eq!(config.device.over_provisioning, Some(0.15), "{text}");
    }
    assert_eq!(config_of_settings(&["device.over_provisioning=2."]).device.over_provisioning, Some(2.0));
    let refused = refusal_message(config_of_file("[device]\nover_provisioning = .15\n"));
    assert_contains_all(&refused, &["drive.toml:2: ", "write 0.15, not .15"]);
}

/// Bug: `timing.multi_plane` was accepted, without effect, with the timeline engine, which has no multi-plane
/// operations.
#[test]
fn settings_that_the_timeline_engine_ignores_are_reported() {
    let designs = ["geckoftl".to_owned()];
    let is_ignored = |mode: &str, setting: &str| {
        let settings =
            [&format!("timing.mode={mode}"), "timing.suspend=true", "device.planes_per_die=2", setting];
        let config = Config::from_text_and_settings(None, &to_settings(&settings)).unwrap();
        !config.ignored_settings(&[setting.to_owned()], &designs).is_empty()
    };
    for setting in ["timing.multi_plane=true", "timing.suspend_max=3", "timing.suspend_overhead_us=5"] {
        assert!(is_ignored("timeline", setting), "{setting}");
        assert!(!is_ignored("event", setting), "{setting}");
    }
    for setting in ["timing.blocking_gc=true", "timing.independent_planes=true"] {
        assert!(!is_ignored("timeline", setting), "{setting}: the timeline engine uses it");
    }
    let settings = to_settings(&[
        "timing.mode=event",
        "timing.independent_planes=true",
        "timing.multi_plane=true",
        "device.planes_per_die=2",
    ]);
    let config = Config::from_text_and_settings(None, &settings).unwrap();
    assert_eq!(
        config.ignored_settings(&settings, &designs).len(),
        1,
        "independent planes exclude multi-plane"
    );
}

/// Bug: the value 0 of `timing.delta_codec_units` was documented as "no limit" and refused.
#[test]
fn zero_delta_codec_units_mean_no_limit() {
    assert!(try_resolve_for_footprint(&["timing.delta_codec_units=0"], 1_000).is_ok());
}

/// Bug: the threshold 0 acted as 1, because the next collection needs a free block, but the device was sized and
/// recorded with 0.
#[test]
fn a_gc_threshold_of_0_blocks_is_refused() {
    let refused = refusal_message(try_resolve_for_footprint(&["gc.low_blocks=0"], 1_000));
    assert_contains_all(&refused, &["gc.low_blocks is 0; it must be from 1 to"]);
    assert_eq!(resolved_for_footprint(&["gc.low_blocks=1"], 1_000).gc_options.gc_start_free_blocks, 1);
}

/// Resolves the device of these settings for an input that touches `footprint` pages of 4 KiB; the device may be
/// refused.
fn try_resolve_for_footprint(list: &[&str], footprint: u64) -> Result<ResolvedDevice, ConfigError> {
    config_of_settings(list).resolve_device(footprint)
}

/// Regression: with one or two spare blocks per plane the device could not be built, so that every tiny trace was
/// refused.
#[test]
fn the_auto_device_can_be_built_for_a_tiny_footprint() {
    for spare in ["0.07", "0.15", "0.5"] {
        let config = config_of_settings(&[&format!("device.over_provisioning={spare}")]);
        for footprint in [0, 1, 14, 900, 3_000, 20_000] {
            let resolved = config.resolve_device(footprint).unwrap();
            for design in wearwell::design::ALL {
                let parts = config.design_parts(design.name, &resolved).unwrap();
                let nvram_bytes = parts.total_nvram_bytes(&resolved.geometry, resolved.logical_pages);
                let nand = wearwell::nand::SimNand::new(
                    resolved.geometry.clone(),
                    parts.needed_retained_page_fields(),
                )
                .with_nvram(nvram_bytes);
                let device = wearwell::Device::new(
                    nand,
                    resolved.logical_pages,
                    &parts,
                    wearwell::DeviceOptions::default(),
                );
                assert!(device.is_ok(), "{} at {footprint}, {spare}: {:?}", design.name, device.err());
            }
        }
    }
}

/// Configuration file that uses every section; the mutation tests below start from it.
const VALID_FILE: &str = r#"
[device]
preset = "lab-8g"
channels = 2
pages_per_block = 64
page_bytes = 4096
superblock_planes = 2
read_us = 25.0
channel_mb_per_s = 400.0
over_provisioning = 0.15
over_provisioning_of = "physical"
fit = 0.9
[gc]
policy = "d-choices"
d = 5
free_share = 0.05
[wear]
static_gap = 10
[buffer]
pages = 100
[recycle]
policy = "prob-fl"
[dftl]
cache_entries = 100
[timing]
mode = "event"
hash_us = 32.0
[precondition]
mode = "steady"
overwrite = 0.5
[content]
model = "unique"
[replay]
arrival = "closed"
seed = 7
"#;

/// Returns where the values of a run come from, in the form in which tables show it.
fn origin_texts(config: &Config, design: &str) -> BTreeMap<String, String> {
    let resolved = config.resolve_device(10_000).unwrap();
    let effective = config.with_effective_values(&resolved, Arrival::Closed);
    let origins = config.origins(&effective, design);
    origins.into_iter().map(|(key, origin)| (key, origin.to_string())).collect()
}

#[test]
fn every_configuration_value_of_a_run_has_an_origin() {
    let file = "[gc]\n\npolicy = 'fifo'\n[timing]\nmode = 'event'\nmulti_plane = true\n";
    let set = to_settings(&["timing.mode=timeline", "device.over_provisioning=0.2"]);
    let config = Config::from_text_and_settings(Some(("drive.toml", file)), &set).unwrap();
    let origins = origin_texts(&config, "dftl");
    for (key, origin) in [
        ("gc.policy", "file drive.toml:3"),
        ("timing.multi_plane", "file drive.toml:6"),
        ("timing.mode", "set"),
        ("device.over_provisioning", "set"),
        ("device.channels", "preset auto"),
        ("device.blocks_per_plane", "input"),
        ("device.logical_pages", "input"),
        ("device.striping", "derived from timing.multi_plane"),
        ("replay.arrival", "input"),
        ("precondition.overwrite", "derived from precondition.mode"),
        ("parts.map", "design dftl"),
    ] {
        assert_eq!(origins.get(key).map(String::as_str), Some(origin), "{key}: {origins:?}");
    }
    for default in ["gc.ties", "replay.seed", "device.wear_out", "timing.read_priority"] {
        assert_eq!(origins.get(default), None, "{default}");
    }
    let fixed = config_of_settings(&["device.preset=tlc-1t", "gc.free_share=0.02", "parts.map=cached"]);
    let origins = origin_texts(&fixed, "page-map");
    for (key, origin) in [
        ("device.preset", "set"),
        ("device.over_provisioning", "preset tlc-1t"),
        ("device.logical_pages", "derived from device.over_provisioning"),
        ("device.blocks_per_plane", "preset tlc-1t"),
        ("gc.low_blocks", "derived from gc.free_share"),
        ("buffer.pages", "derived from device.page_bytes"),
        ("parts.map", "set"),
        ("parts.validity", "design page-map"),
    ] {
        assert_eq!(origins.get(key).map(String::as_str), Some(origin), "{key}: {origins:?}");
    }
}

/// Each value that a run fills in for an absent setting needs a rule that states its origin (preset, design, input,
/// ...). Without such a rule its origin would be reported as "set", as if a program had set it.
#[test]
fn values_that_a_run_fills_in_are_not_reported_as_set_by_the_user() {
    for device in preset::all_presets() {
        let preset = Config {
            device: DeviceConfig { preset: Some(device.name.to_owned()), ..DeviceConfig::default() },
            ..Config::default()
        };
        let set: Vec<_> =
            origin_texts(&preset, "geckoftl").into_iter().filter(|(_, origin)| origin == "set").collect();
        assert_eq!(set, [("device.preset".to_owned(), "set".to_owned())], "{}", device.name);
    }
    let modes = ["steady", "aged", "random", "in-use", "none", "fill", "constructed"];
    for mode in modes {
        let config = config_of_settings(&[&format!("precondition.mode={mode}"), "gc.policy=d-choices"]);
        let set: Vec<_> =
            origin_texts(&config, "page-map").into_iter().filter(|(_, origin)| origin == "set").collect();
        assert_eq!(set.len(), 2, "{mode}: {set:?}");
    }
}

/// Equal runs share one plan, wherever their settings were written, so origins must not make configurations differ.
#[test]
fn configurations_with_equal_values_are_equal_whatever_their_origins() {
    let file = config_of_file("[gc]\npolicy = 'fifo'\n").unwrap();
    assert_eq!(file, config_of_settings(&["gc.policy=fifo"]));
    assert_eq!(file.to_toml(), config_of_settings(&["gc.policy=fifo"]).to_toml());
}

/// Reads a configuration and resolves its device. Both may accept or refuse the configuration, but must not panic.
fn read_and_resolve(text: &str, list: &[String], footprint: u64) {
    if let Ok(config) = Config::from_text_and_settings(Some(("any.toml", text)), list)
        && let Ok(resolved) = config.resolve_device(footprint)
    {
        assert!(resolved.logical_pages > 0);
        assert!((resolved.logical_pages as u64) < resolved.geometry.pages());
        for design in wearwell::design::ALL {
            // A victim policy that a design cannot have is refused.
            let parts = config.design_parts(design.name, &resolved);
            assert!(matches!(parts, Ok(_) | Err(ConfigError::IncompatibleParts { .. })), "{parts:?}");
        }
    }
}

/// Generates numbers near every bound of a configuration value.
fn extreme_number() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<u32>().prop_map(|n| n.to_string()),
        (0u32..33).prop_map(|bits| (1u64 << bits).to_string()),
        any::<f64>().prop_map(|n| format!("{n:?}")),
        prop::sample::select(vec![
            "0",
            "1",
            "-1",
            "nan",
            "inf",
            "0.0",
            "1e300",
            "4294967295",
            "true",
            "\"x\""
        ])
        .prop_map(str::to_owned),
    ]
}

#[test]
fn the_configuration_file_mutated_by_the_fuzz_tests_is_valid() {
    config_of_file(VALID_FILE).unwrap().resolve_device(1_000_000).unwrap();
    // Regression: on a device of fixed size the parts are looked at for every footprint, and some are refused.
    read_and_resolve(&VALID_FILE.replace("fit = 0.9", "# fit"), &[], 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn random_bytes_as_a_configuration_file_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), setting in ".{0,40}") {
        read_and_resolve(&String::from_utf8_lossy(&bytes), &[setting], 1000);
    }

    #[test]
    fn mutated_configuration_files_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        footprint in any::<u64>(),
    ) {
        let mut bytes = VALID_FILE.as_bytes().to_vec();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        read_and_resolve(&String::from_utf8_lossy(&bytes), &[], footprint);
    }

    #[test]
    fn extreme_configuration_values_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), extreme_number()), 1..8),
        footprint in any::<u64>(),
    ) {
        let mut lines: Vec<String> = VALID_FILE.lines().map(str::to_owned).collect();
        for (at, value) in changes {
            let at = at.index(lines.len());
            if let Some((key, _)) = lines[at].clone().split_once('=') {
                lines[at] = format!("{key}= {value}");
            }
        }
        read_and_resolve(&lines.join("\n"), &[], footprint);
    }
}

/// Content mechanisms that replace those of a design keep its persistence, if they can be combined with it.
#[test]
fn other_content_mechanisms_keep_the_persistence_of_the_design() {
    let kept = |design: &str, settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(|&text| text.to_owned()).collect();
        let mut config = Config::from_text_and_settings(None, &settings).unwrap();
        let kept = config.keep_persistence_of_design(design).unwrap();
        (kept.design_persistence, kept.parts_persistence, config.parts.survives)
    };
    let (nvram, scan, battery) =
        (PersistenceName::NvramMap, PersistenceName::OobScan, PersistenceName::Battery);
    for content in ["none", "dedup", "delta+compress", "recycle+dedup+delta+compress"] {
        let content = format!("parts.content={content}");
        assert_eq!(kept("wearwell", &[&content]), (nvram, nvram, Some(nvram)), "{content}");
    }
    assert_eq!(kept("page-map", &["parts.content=none"]), (scan, scan, None));
    assert_eq!(kept("page-map", &["parts.content=delta"]), (scan, battery, None));
    assert_eq!(kept("recyclable", &["parts.content=none"]), (battery, battery, Some(battery)));
    // What the user chooses stays, also if the engine will refuse it.
    let chosen = ["parts.content=delta", "parts.survives=oob-scan"];
    assert_eq!(kept("wearwell", &chosen), (scan, scan, Some(scan)));
    // Of a design with another map, the default is the default of its parts.
    let flat = ["parts.content=dedup", "parts.map=flat", "parts.validity=ram"];
    assert_eq!(kept("wearwell", &flat), (battery, battery, None));
    assert!(Config::default().keep_persistence_of_design("no-design").is_none());
}
