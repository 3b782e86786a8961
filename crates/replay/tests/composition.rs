//! Designs from parts: `docs/composition.md` says which mixtures of content, map and page validity the engine accepts,
//! every one of them runs, and a named design is nothing but its parts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use wearwell::nand::SimNand;
use wearwell::{Device, DeviceOptions, Error};
use wearwell_config::Config;
use wearwell_replay::record::RunRecord;

use crate::common::{config_of_settings, generated_input, run_input, small_device_config};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/composition.md");
/// Heading in `docs/composition.md` after which the table of mixtures of mechanisms stands.
const TABLE_HEADING: &str = "## The table";

const MECHANISMS: [&str; 4] = ["recycle", "dedup", "delta", "compress"];
const MAPS: [&str; 3] = ["flat", "cached", "lazy"];
const VALIDITY_STORES: [&str; 4] = ["ram", "bitmap", "log", "gecko"];

/// Returns every subset of the content mechanisms, in the form that `parts.content` takes.
fn content_subsets() -> Vec<String> {
    let subset = |bits: usize| -> String {
        let named = MECHANISMS.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
        named.map(|(_, &name)| name).collect::<Vec<_>>().join("+")
    };
    (0..1 << MECHANISMS.len())
        .map(subset)
        .map(|name| if name.is_empty() { "none".into() } else { name })
        .collect()
}

fn mixture_settings(content: &str, map: &str, validity: &str) -> Vec<String> {
    vec![format!("parts.content={content}"), format!("parts.map={map}"), format!("parts.validity={validity}")]
}

/// Returns the sentence with which the engine refuses a device with these settings; `None` if the engine accepts them.
fn engine_refusal(settings: &[String]) -> Option<String> {
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let config = small_device_config(&settings);
    let resolved = config.resolve_device(8000).unwrap();
    let parts = config.design_parts("page-map", &resolved).unwrap();
    let nvram_bytes = parts.nvram_bytes_with_map(&resolved.geometry, resolved.logical_pages);
    let nand =
        SimNand::new(resolved.geometry.clone(), parts.needed_retained_page_fields()).with_nvram(nvram_bytes);
    match Device::new(nand, resolved.logical_pages, &parts, DeviceOptions::default()) {
        Ok(_) => None,
        Err(Error::InvalidOptions(sentence)) => Some(sentence),
        Err(other) => panic!("{settings:?}: {other}"),
    }
}

/// Returns the table of mixtures of mechanisms as `docs/composition.md` shows it, followed by the numbered reasons why
/// the engine refuses some.
fn mixture_table() -> String {
    let mut reasons: Vec<String> = Vec::new();
    let mut accepted = 0;
    let mut rows = String::new();
    for content in content_subsets() {
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
    let all = content_subsets().len() * MAPS.len() * VALIDITY_STORES.len();
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
fn the_documented_table_of_mixtures_is_up_to_date() {
    let document = std::fs::read_to_string(DOCUMENT).expect("docs/composition.md is there");
    let (head, written) = document.split_once(TABLE_HEADING).expect("it has a table");
    let (written, table) = (written.trim_start_matches('\n'), mixture_table());
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

#[test]
fn every_accepted_mixture_of_parts_runs_and_collects_garbage() {
    let mut mixtures = 0;
    for content in content_subsets() {
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
    println!("{mixtures} mixtures");
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
        let [named, by_parts] =
            [named, by_parts].map(|run| serde_json::to_value(without_varying_fields(run)).unwrap());
        assert_eq!(named, by_parts, "{}:\n{file}", design.name);
    }
}

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
        ("unknown variant", &["parts.map=flatt"]),
    ]);
    for (sentence, settings) in cases {
        let said = refused(settings);
        assert!(said.contains(sentence), "{settings:?}: {said}");
    }
}
