//! Tests of designs that are composed of parts (content mechanisms, map, page validity and others). The engine accepts
//! the combinations that `docs/composition.md` lists, each of them runs, and a named design equals its combination.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use wearwell::address::RemapMode;
use wearwell::data::mix_bits;
use wearwell::design::{Parts, Persistence};
use wearwell::device::HostData;
use wearwell::nand::{RetainedPageFields, SimNand};
use wearwell::{Device, DeviceOptions, Error};
use wearwell_config::{Config, ConfigError};
use wearwell_replay::json::ToJson;
use wearwell_replay::record::RunRecord;

use crate::common::{config_of_settings, generated_input, run_input, small_device_config};

/// Path of the document `docs/composition.md`.
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/composition.md");
/// Heading in `docs/composition.md` after which the table of mixtures of mechanisms stands.
const TABLE_HEADING: &str = "## The table";

/// Content mechanisms that the table of mixtures combines.
const CONTENT_MECHANISM_NAMES: [&str; 4] = ["recycle", "dedup", "delta", "compress"];
/// Kinds of map (L2P table) that the tests combine with every page-validity store and every set of content mechanisms.
const MAPS: [&str; 3] = ["flat", "cached", "lazy"];
/// Page-validity stores that the tests combine with every kind of map and every set of content mechanisms.
const VALIDITY_STORES: [&str; 4] = ["ram", "bitmap", "log", "gecko"];

/// Returns every subset of the content mechanisms, in the form that `parts.content` takes.
fn content_mechanism_subsets() -> Vec<String> {
    let subset = |bits: usize| -> String {
        let named = CONTENT_MECHANISM_NAMES.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
        named.map(|(_, &name)| name).collect::<Vec<_>>().join("+")
    };
    (0..1 << CONTENT_MECHANISM_NAMES.len())
        .map(subset)
        .map(|name| if name.is_empty() { "none".into() } else { name })
        .collect()
}

/// Returns the settings of a mixture of content mechanisms, map and page-validity store.
fn mixture_settings(content: &str, map: &str, validity: &str) -> Vec<String> {
    vec![format!("parts.content={content}"), format!("parts.map={map}"), format!("parts.validity={validity}")]
}

/// Builds the device of the configuration, on simulated flash that retains `fields` of each page, or those that the
/// design needs. Returns the reason for which the combination of parts is refused.
fn build_device(config: &Config, fields: Option<RetainedPageFields>) -> Result<(Device, Parts), String> {
    let resolved = config.resolve_device(8000).unwrap();
    let parts = match config.design_parts("page-map", &resolved) {
        Ok(parts) => parts,
        Err(ConfigError::IncompatibleParts { reason, .. }) => return Err(reason.to_owned()),
        Err(other) => panic!("{config:?}: {other}"),
    };
    let nvram_bytes = parts.total_nvram_bytes(&resolved.geometry, resolved.logical_pages);
    let fields = fields.unwrap_or_else(|| parts.needed_retained_page_fields());
    let nand = SimNand::new(resolved.geometry.clone(), fields).with_nvram(nvram_bytes);
    match Device::new(nand, resolved.logical_pages, &parts, DeviceOptions::default()) {
        Ok(device) => Ok((device, parts)),
        Err(Error::InvalidOptions(sentence)) => Err(sentence),
        Err(other) => panic!("{config:?}: {other}"),
    }
}

/// Returns the reason for which a device with these settings is refused; `None` if it is accepted.
fn engine_refusal(settings: &[String]) -> Option<String> {
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    build_device(&small_device_config(&settings), None).err()
}

/// Returns the table in `docs/composition.md` of design mixtures (combinations of content mechanisms, map and page
/// validity), followed by the numbered reasons for which the engine refuses some of them.
fn design_mixture_table() -> String {
    let mut reasons: Vec<String> = Vec::new();
    let mut accepted = 0;
    let mut rows = String::new();
    for content in content_mechanism_subsets() {
        let _ = write!(rows, "| {content} ");
        for (map, validity) in MAPS.iter().flat_map(|map| VALIDITY_STORES.map(|store| (*map, store))) {
            let cell = match engine_refusal(&mixture_settings(&content, map, validity)) {
                None => {
                    accepted += 1;
                    "yes".to_owned()
                }
                Some(reason) => {
                    let known = reasons.iter().position(|other| *other == reason);
                    let at = known.unwrap_or(reasons.len());
                    if known.is_none() {
                        reasons.push(reason);
                    }
                    format!("({})", at + 1)
                }
            };
            let _ = write!(rows, "| {cell} ");
        }
        rows.push_str("|\n");
    }
    let columns = MAPS
        .iter()
        .flat_map(|map| VALIDITY_STORES.map(|store| format!("| {map}, {store} ")))
        .collect::<String>();
    let all = content_mechanism_subsets().len() * MAPS.len() * VALIDITY_STORES.len();
    let mut text = format!(
        "\n{accepted} of {all} mixtures are accepted.\n\n| content {columns}|\n|{}\n{rows}\n",
        "---|".repeat(1 + MAPS.len() * VALIDITY_STORES.len())
    );
    for (number, reason) in (1..).zip(reasons) {
        let _ = writeln!(text, "{number}. {reason}");
    }
    text
}

/// The table is written again by `WEARWELL_RENEW=1 cargo test -p wearwell-replay composition::`.
#[test]
fn the_documented_table_of_combined_parts_is_up_to_date() {
    let document = std::fs::read_to_string(DOCUMENT).expect("docs/composition.md is there");
    let (head, written) = document.split_once(TABLE_HEADING).expect("it has a table");
    let (written, table) = (written.trim_start_matches('\n'), design_mixture_table());
    if std::env::var_os("WEARWELL_RENEW").is_some() {
        std::fs::write(DOCUMENT, format!("{head}{TABLE_HEADING}\n{table}")).unwrap();
        return;
    }
    assert!(written == table.trim_start_matches('\n'), "the engine accepts other mixtures now:\n{table}");
}

/// Workload of reads, trims and writes, on which every mechanism finds something: repeated contents, small deltas and
/// compressible pages. The drive collects all the time.
const LOAD: &str =
    "zipf:pages=12000,requests=40000,write=0.8,read=0.15,trim=0.05+dup:share=0.3,compress=0.5,delta=0.3";

/// Every combination of content mechanisms, map and page-validity store that the engine accepts runs to its end,
/// collects garbage, and uses its mechanisms.
#[test]
fn every_accepted_mixture_of_parts_runs_and_collects_garbage() {
    let mut mixtures = 0;
    for content in content_mechanism_subsets() {
        for (map, validity) in MAPS.iter().flat_map(|map| VALIDITY_STORES.map(|store| (*map, store))) {
            let settings = mixture_settings(&content, map, validity);
            if engine_refusal(&settings).is_some() {
                continue;
            }
            let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
            let record = run_input(&small_device_config(&settings), &generated_input(LOAD), "page-map");
            assert!(!record.partial && record.erases > 0, "{settings:?}: {:?}", record.partial_reason);
            assert_mechanisms_acted(&record, &content);
            mixtures += 1;
        }
    }
    let document = std::fs::read_to_string(DOCUMENT).expect("docs/composition.md is there");
    let documented = format!(
        "\n{mixtures} of {} mixtures are accepted.\n",
        content_mechanism_subsets().len() * MAPS.len() * VALIDITY_STORES.len()
    );
    assert!(document.contains(&documented), "{mixtures} mixtures ran, but the documented number is another");
}

/// Checks that each mechanism of the mixture `content` served some of the writes, and no other mechanism did.
fn assert_mechanisms_acted(record: &RunRecord, content: &str) {
    for (mechanism, form) in
        [("recycle", "recycled"), ("dedup", "deduplicated"), ("delta", "delta"), ("compress", "packed")]
    {
        let writes = record.writes_by_form.get(form).copied().unwrap_or(0);
        assert_eq!(writes > 0, content.contains(mechanism), "{content}: {writes} writes {form}");
    }
}

/// Returns the record without the fields (names, settings, CPU time, memory) in which two runs with the same flash
/// operations may differ.
fn without_varying_fields(record: RunRecord) -> RunRecord {
    RunRecord {
        design: String::new(),
        config: Config::default(),
        origins: BTreeMap::new(),
        cpu_seconds: 0.0,
        precondition_cpu_seconds: 0.0,
        peak_rss_bytes: 0,
        ..record
    }
}

/// Values of `parts.survives`, the means by which a design keeps its metadata over a loss of power.
const PERSISTENCE_PART_NAMES: [&str; 7] = [
    "battery",
    "nvram-map",
    "oob-scan",
    "nvram-entries",
    "battery-flush",
    "backward",
    "backward-synchronising",
];
/// Kinds of reverse map, as `remap.reverse_map` names them.
const REVERSE_MAPS: [&str; 5] = ["segments", "nvram-log", "flash-log", "ideal", "none"];
/// Settings of a tiny drive that garbage collection overwrites many times within a thousand writes.
const TINY_DRIVE: [&str; 6] = [
    "device.preset=bench-8g",
    "device.channels=1",
    "device.dies_per_channel=1",
    "device.blocks_per_plane=80",
    "device.pages_per_block=8",
    "device.over_provisioning=0.6",
];

/// Returns the settings of every combination of content, map, page validity, reverse map and means to survive a loss of
/// power, accepted or not. A reverse map is a part of designs that share pages only.
fn combinations_with_each_persistence_part() -> impl Iterator<Item = Vec<String>> {
    let mut contents = content_mechanism_subsets();
    contents.extend(["remap", "silent"].map(String::from));
    let mixtures = contents.into_iter().flat_map(|content| {
        let columns = MAPS.iter().flat_map(|map| VALIDITY_STORES.map(|store| (*map, store)));
        columns.map(move |(map, validity)| mixture_settings(&content, map, validity)).collect::<Vec<_>>()
    });
    mixtures.flat_map(|mixture| {
        let shares = mixture[0].contains("dedup") || mixture[0].contains("remap");
        let reverse_maps = if shares { &REVERSE_MAPS[..] } else { &[""] };
        let reverse_maps =
            reverse_maps.iter().flat_map(|kind| PERSISTENCE_PART_NAMES.map(|survives| (*kind, survives)));
        let combination = |(reverse_map, survives): (&str, &str)| {
            let mut settings = mixture.clone();
            settings.extend((!reverse_map.is_empty()).then(|| format!("parts.reverse_map={reverse_map}")));
            settings.push(format!("parts.survives={survives}"));
            settings
        };
        reverse_maps.map(combination).collect::<Vec<_>>()
    })
}

/// Under every combination of parts that the engine accepts, flushed data survives a loss of power right after the
/// flush. (Under the OOB scan a trimmed page may return.) Regression: 21 accepted combinations with an explicit
/// `parts.survives` panicked in recovery, and deduplication with `nvram-entries` and an ideal reverse map returned
/// older data.
#[test]
fn every_accepted_combination_of_parts_keeps_flushed_data_over_a_power_loss() {
    let (mut accepted, mut offered) = (0, 0);
    for settings in combinations_with_each_persistence_part() {
        offered += 1;
        if let Some((device, parts)) = tiny_drive(&settings) {
            accepted += 1;
            assert_flushed_data_survives(device, parts.persistence != Persistence::OobScan, &settings);
        }
    }
    println!("{accepted} of {offered} combinations are accepted");
    assert!(accepted > 300, "{accepted} of {offered} are accepted");
}

/// Returns a tiny drive that keeps the bytes of pages, and its parts; `None` if the engine refuses the combination.
fn tiny_drive(settings: &[String]) -> Option<(Device, Parts)> {
    let settings: Vec<&str> = TINY_DRIVE.into_iter().chain(settings.iter().map(String::as_str)).collect();
    build_device(&config_of_settings(&settings), Some(RetainedPageFields::ALL)).ok()
}

/// Checks that flushed data is read back after several losses of power, each right after a flush.
fn assert_flushed_data_survives(mut device: Device, trims_are_durable: bool, settings: &[String]) {
    let page_bytes = u64::from(device.ftl().store().geometry().page_bytes);
    let pages = u64::from(device.ftl().logical_pages());
    // Contents are similar to each other and compressible, and some are written again while others of them are dead.
    let page_of = |id: u64| -> Vec<u8> {
        let word = |at: u64| if at.is_multiple_of(3) { mix_bits(id << 16 | at) } else { mix_bits(id % 4) };
        (0..page_bytes / 8).flat_map(|at| word(at).to_le_bytes()).collect()
    };
    let mut expected: Vec<Option<Option<u64>>> = vec![Some(None); pages as usize];
    let mut found = vec![0; page_bytes as usize];
    for loss in 0..3 {
        for operation in 0..800 {
            let draw = mix_bits(loss << 32 | operation);
            let (at, from) = ((draw >> 8) % pages, (draw >> 24) % pages);
            match draw % 16 {
                0 => {
                    device.trim(at * page_bytes, page_bytes).unwrap();
                    expected[at as usize] = trims_are_durable.then_some(None);
                }
                1 | 2 => {
                    device
                        .remap(at * page_bytes, from * page_bytes, page_bytes, RemapMode::Copy)
                        .unwrap_or_else(|error| panic!("{settings:?}: {error}"));
                    // A remap of a page without content is a trim.
                    let content = expected[from as usize];
                    expected[at as usize] = content.filter(|id| id.is_some() || trims_are_durable);
                }
                _ => {
                    let id = 1 + (draw >> 40) % 600;
                    device.write(at * page_bytes, page_bytes, HostData::Bytes(&page_of(id))).unwrap();
                    expected[at as usize] = Some(Some(id));
                }
            }
        }
        device.flush().unwrap();
        device.recover().unwrap_or_else(|error| panic!("{settings:?}: {error}"));
        device.ftl_mut().check().unwrap_or_else(|violation| panic!("{settings:?}: {violation}"));
        for (at, expected) in (0..).zip(&expected) {
            let Some(content) = expected else { continue };
            device.read(at * page_bytes, page_bytes, &mut found).unwrap();
            let content = content.map_or(vec![0; page_bytes as usize], page_of);
            assert!(found == content, "{settings:?}: page {at} after loss {loss}");
        }
    }
    assert!(device.ftl().stats().total_erases() > 20, "{settings:?}: collection has to be at work");
}

/// A named design (such as `dftl`) has the same result as a design that is combined from its parts: map, page validity,
/// content mechanisms and others.
#[test]
fn a_named_design_equals_the_mixture_of_its_parts() {
    for design in wearwell::design::ALL {
        let file = Config::design_as_toml(design.name).unwrap();
        let of_file =
            Config::from_text_and_settings(Some(("design.toml", &file)), &["precondition.mode=none".into()])
                .unwrap();
        let input = generated_input(LOAD);
        let named = run_input(&config_of_settings(&[]), &input, design.name);
        let by_parts = run_input(&of_file, &input, "page-map");
        assert!(named.erases > 0, "{}", design.name);
        let [named, by_parts] = [named, by_parts].map(|run| without_varying_fields(run).to_json_value());
        assert_eq!(named, by_parts, "{}:\n{file}", design.name);
    }
}

/// Settings of parts (map, page validity, content mechanisms) are refused if a name is misspelt, or if two settings
/// choose the same part.
#[test]
fn parts_that_are_set_twice_or_misspelt_are_refused() {
    let refused = |settings: &[&str]| -> String {
        let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
        match Config::from_text_and_settings(None, &settings) {
            Err(error) => error.to_string(),
            Ok(config) => config
                .design_parts("geckoftl", &config.resolve_device(8000).unwrap())
                .expect_err("it is refused")
                .to_string(),
        }
    };
    let cases: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("did you mean `dedup`", &["parts.content=dedupe+delta"][..]),
        ("parts.validity and validity.kind", &["parts.validity=log", "validity.kind=log"]),
        ("parts.survives and recovery.by", &["parts.survives=battery", "recovery.by=battery"]),
        ("unknown value", &["parts.map=flatt"]),
    ]);
    for (sentence, settings) in cases {
        let said = refused(settings);
        assert!(said.contains(sentence), "{settings:?}: {said}");
    }
}
