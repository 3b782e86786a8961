//! Experiments of the Delta-FTL paper (DF, section 5), and how the values of its rows are computed from them.
//!
//! The device is the paper's 64-GB drive with a 64-MB write buffer; GC starts when less than 10 % of the exported space
//! is free. The traces write a quarter of the drive at most. So the drive is first brought to the steady state of
//! random writes (the paper does not state how it was filled), and most pages that GC collects were written before the
//! trace. The traces also run on a second drive, `settings_of_drive_fitted_to_trace`. It is little larger than the
//! footprint of the trace, and the first half of the trace ages it. Scaled down, planes have fewer blocks, the buffer
//! has fewer pages and the table of access counts fewer entries, in proportion to the requests. Deltas have Gaussian
//! ratios, as in the paper. The encoder runs at 934 MHz, at which the bus is slower than the encoder.
//!
//! The share of delta writes (Pc) depends on how soon a trace accesses a written address again. The paper publishes
//! neither this nor a Pc. So there is a second family of experiments, `set/`, on the generated load `delta-load`, which
//! was made for this project. Its Pc is fitted: with 0.83 to 0.84 the formula for foreground writes gives the three
//! mean GC counts of Figure 6. The row that compares them on this load (DF-34) is therefore not counted as a result.
//! The load runs on the paper's drive full of data and half full, lightly loaded and saturated. Variations change one
//! thing at a time: spare space, size and life of the hot set, reads of hot pages, open pages of the temp buffer. On
//! two traces the codec's times and the scan for cold pages are removed one by one.

use wearwell::content::delta::MIN_ACCESS_COUNT_TABLE_ENTRIES;
use wearwell_replay::theory;

use super::experiment::{Experiment, ExperimentConditions, ExperimentRecords, ExperimentRun, ExperimentSize};
use super::request_source::RequestSource;
use super::verdict::NamedValue;

/// Traces of the Delta-FTL paper: the paper's name and the name of our substitute.
const TRACES: [(&str, &str); 6] =
    [("F1", "f1"), ("F2", "f2"), ("C3", "c3"), ("C8", "c8"), ("DAP", "dap"), ("MSN", "msn")];
/// Compression ratios (delta size divided by page size, called Rc) of the Delta-FTL paper.
const COMPRESSION_RATIOS: [&str; 3] = ["0.50", "0.35", "0.20"];
/// Skews (theta of the Zipf distribution) of the synthetic loads; hotter pages cause more deltas.
const ZIPF_SKEWS: [&str; 3] = ["0.6", "0.9", "1.2"];
/// Channels of the Delta-FTL paper's drive as simulated at full size, each with one chip.
const FULL_SIZE_CHANNELS: f64 = 16.0;
/// Prefix of the names of quick (scaled-down) runs on a drive with [`FULL_SIZE_CHANNELS`] channels.
const MANY_CHANNELS_PREFIX: &str = "16-channels-";
/// Pages per block of the Delta-FTL paper's drive.
const PAGES_PER_BLOCK: f64 = 64.0;
/// Spare space of the Delta-FTL paper's drive, as a share of its physical pages.
const PAPER_SPARE_SHARE: f64 = 0.3;

/// Returns the settings of the Delta-FTL paper's drive at scale `scale`. The number of planes is reduced first: every
/// plane has its own open blocks for pages, GC copies and deltas, so with all planes, opening the delta log would cost
/// more than a short trace saves.
fn drive_settings(conditions: &ExperimentConditions, scale: f64) -> Vec<String> {
    let DriveShape { channels, blocks_per_plane } = DriveShape::paper_drive_scaled_by(scale);
    vec![
        "device.preset=df-64g".to_owned(),
        format!("device.channels={channels}"),
        format!("device.blocks_per_plane={blocks_per_plane}"),
        format!("buffer.pages={}", (16_384.0 * scale).round()),
        "precondition.mode=steady".to_owned(),
        "timing.mode=event".to_owned(),
        "timing.delta_encode_us=29.1".to_owned(),
        "timing.delta_decode_us=7.2".to_owned(),
        format!("replay.seed={}", conditions.seed),
    ]
}

/// Returns the settings of a drive of which the trace touches 0.9 of the logical pages, with the Delta-FTL paper's
/// spare space. A small footprint gets four dies, because many planes with few blocks each have no spare block.
fn settings_of_drive_fitted_to_trace(conditions: &ExperimentConditions, scale: f64) -> Vec<String> {
    let preset = match conditions.size {
        ExperimentSize::Quick => "device.preset=auto",
        ExperimentSize::Full => "device.preset=df-64g",
    };
    let fit =
        [preset, "device.over_provisioning=0.3", "device.over_provisioning_of=physical", "device.fit=0.9"];
    let rest = ["gc.free_share=0.07", "precondition.mode=aged", "timing.delta_encode_us=29.1"];
    let mut settings: Vec<String> = fit.into_iter().chain(rest).map(str::to_owned).collect();
    settings.push(format!("buffer.pages={}", (16_384.0 * scale).round()));
    settings.push(format!("replay.seed={}", conditions.seed));
    settings
}

/// Returns the settings of the delta design on the Delta-FTL paper's drive at scale `scale`.
fn drive_settings_of_delta_design(conditions: &ExperimentConditions, scale: f64) -> Vec<String> {
    let pages = DriveShape::paper_drive_scaled_by(scale).logical_pages(PAPER_SPARE_SHARE);
    let mut settings = drive_settings(conditions, scale);
    settings.extend(scaled_access_count_table(pages));
    settings
}

/// Returns the settings of the delta design on [`settings_of_drive_fitted_to_trace`]. The table of access counts is as
/// large as on the paper's drive at this scale, because the footprint of a trace does not decide how much RAM a
/// controller has.
fn settings_of_delta_design_fitted_to_trace(conditions: &ExperimentConditions, scale: f64) -> Vec<String> {
    let pages = DriveShape::paper_drive_scaled_by(scale).logical_pages(PAPER_SPARE_SHARE);
    let mut settings = settings_of_drive_fitted_to_trace(conditions, scale);
    settings.push(access_count_table(pages));
    settings
}

/// Returns the size of the table of access counts, of which the paper states none, for a drive with this many logical
/// pages: 1/16 of them, whether the drive is scaled down or not.
fn access_count_table(logical_pages: u64) -> String {
    format!("delta.heat_entries={}", logical_pages / LOGICAL_PAGES_PER_ACCESS_COUNT_ENTRY)
}

/// Returns [`access_count_table`] if the drive is scaled down so far that the default would be larger.
fn scaled_access_count_table(logical_pages: u64) -> Option<String> {
    let entries = logical_pages / LOGICAL_PAGES_PER_ACCESS_COUNT_ENTRY;
    (entries < u64::from(MIN_ACCESS_COUNT_TABLE_ENTRIES)).then(|| access_count_table(logical_pages))
}

/// GC policy in the experiments with deltas: the victim is the block with the most invalid data, and invalid deltas
/// count as well as invalid pages (Delta-FTL, section 3.6). Without deltas this is the greedy policy.
const DEAD_BYTES_GC_SETTING: &str = "gc.policy=dead-bytes";

/// Returns the setting of a content model in which deltas have the compression ratio `ratio`.
fn content_model_setting(ratio: &str) -> String {
    format!("content.model=unique:delta={ratio}")
}

/// Drives for the loads with a given share of delta writes (Pc): name, and spare share of the physical pages.
const DELTA_WORKLOAD_SPARE_SHARES_BY_FILL: [(&str, &str); 2] = [("full", "0.3"), ("half", "0.5")];
/// Levels of load: requests per second and chip (Poisson arrivals), or requests in flight per chip; a channel has one
/// chip.
const LOAD_LEVELS: [(&str, LoadLevelPerChip); 3] = [
    ("light", LoadLevelPerChip::RequestsPerSecond(300)),
    ("busy", LoadLevelPerChip::RequestsPerSecond(2000)),
    ("saturated", LoadLevelPerChip::InFlight(32)),
];
/// Spare shares of the physical pages for which the number of garbage collections is measured.
const SPARE_SHARES: [&str; 6] = ["0.1", "0.2", "0.3", "0.4", "0.5", "0.7"];
/// Variations of one parameter of the generated load `delta-load`: name, and the key that replaces the default.
const DELTA_WORKLOAD_VARIATIONS: [(&str, &str); 6] = [
    ("hot 1 %", "hot=0.01"),
    ("hot 6 %", "hot=0.06"),
    ("life 8", "life=8"),
    ("life 32", "life=32"),
    ("hot reads 0", "hot_reads=0"),
    ("hot reads 5.5 %", "hot_reads=0.055"),
];
/// Numbers of logical pages for which the table of access counts has one entry, in the experiments on its size.
const PAGES_PER_ACCESS_COUNT_ENTRY: [f64; 4] = [256.0, 64.0, 16.0, 4.0];
/// Suspected causes of differences between Wearwell's results and the Delta-FTL paper's, each with the settings that
/// remove the cause from a run.
const SETTINGS_REMOVING_DIFFERENCE_CAUSES: [(&str, &[&str]); 3] = [
    ("codec", &[ZERO_CODEC_TIME_SETTINGS[0], ZERO_CODEC_TIME_SETTINGS[1]]),
    ("scan", &[NO_COLD_PAGE_SCAN_SETTING]),
    ("both", &[ZERO_CODEC_TIME_SETTINGS[0], ZERO_CODEC_TIME_SETTINGS[1], NO_COLD_PAGE_SCAN_SETTING]),
];
/// Variants of the runs with compression ratio Rc = 0.5: name of the run, name of its values in a reported result, and
/// settings.
const DELTA_DESIGN_VARIANTS: [(&str, &str, &[&str]); 4] = [
    ("open4", "four open pages", &["delta.open_pages=4"]),
    ("codec-free", "codec free", &ZERO_CODEC_TIME_SETTINGS),
    (
        "both",
        "four open pages and codec free",
        &["delta.open_pages=4", ZERO_CODEC_TIME_SETTINGS[0], ZERO_CODEC_TIME_SETTINGS[1]],
    ),
    ("unscanned", "no scan", &[NO_COLD_PAGE_SCAN_SETTING]),
];
/// Settings with which the delta codec takes no time.
const ZERO_CODEC_TIME_SETTINGS: [&str; 2] = ["timing.delta_encode_us=0", "timing.delta_decode_us=0"];
/// Setting that turns off the scan for cold pages.
const NO_COLD_PAGE_SCAN_SETTING: &str = "delta.scan_interval_writes=0";
/// Size of the smaller table of access counts, in logical pages per table entry.
const SMALL_ACCESS_COUNT_TABLE_PAGES_PER_ENTRY: f64 = PAGES_PER_ACCESS_COUNT_ENTRY[1];
/// Numbers of journal pages after which the journal of map changes is merged with the L2P table; `None`: no journal.
const JOURNAL_PAGES_UNTIL_MERGE: [Option<u32>; 4] = [None, Some(4), Some(16), Some(64)];
/// Number of logical pages per entry of the mapping cache in the experiments with journals;
/// [`LOGICAL_PAGES_PER_ACCESS_COUNT_ENTRY`] is the corresponding ratio for the table of access counts.
const LOGICAL_PAGES_PER_MAP_CACHE_ENTRY: u64 = 32;
/// Number of logical pages per entry of the table of access counts, unless an experiment varies it.
const LOGICAL_PAGES_PER_ACCESS_COUNT_ENTRY: u64 = 16;
/// Number of eight-byte records that fit in a journal page of 4 KiB after its header.
const JOURNAL_RECORDS_PER_PAGE: f64 = 510.0;
/// Largest and smallest compression ratio (Rc) of the Delta-FTL paper. The runs on [`TRACES_FOR_CODEC_AND_SCAN_RUNS`]
/// and the variations of the generated load use only these two.
const EXTREME_COMPRESSION_RATIOS: [&str; 2] = ["0.50", "0.20"];
/// Traces for the runs in which the delta codec takes no time, or the scan for cold pages is off: the trace with the
/// most writes and the one with the most deltas. Of each: the paper's name, and the name of our substitute.
const TRACES_FOR_CODEC_AND_SCAN_RUNS: [(&str, &str); 2] = [("F1", "f1"), ("C8", "c8")];

/// Load on each chip of the drive: requests per second, or requests in flight.
#[derive(Clone, Copy)]
enum LoadLevelPerChip {
    /// Requests arrive at this rate per second and chip.
    RequestsPerSecond(u32),
    /// This number of requests per chip is in flight.
    InFlight(u32),
}

/// Returns all experiments for the Delta-FTL paper (DF).
pub fn experiments(conditions: &ExperimentConditions) -> Vec<Experiment> {
    let scale = match conditions.size {
        ExperimentSize::Quick => 0.05,
        ExperimentSize::Full => 1.0,
    };
    let mut experiments = Vec::new();
    for (trace, name) in TRACES {
        let (counted, size) =
            conditions.traces.original_or_substitute(name, &format!(",seed={}", conditions.seed), scale);
        experiments.push(Experiment::new_request_count_experiment(
            format!("{trace}/counts"),
            (counted.clone(), size),
        ));
        for (drive, settings, settings_of_delta_design) in [
            ("", drive_settings(conditions, size), drive_settings_of_delta_design(conditions, size)),
            (
                "fitted-",
                settings_of_drive_fitted_to_trace(conditions, size),
                settings_of_delta_design_fitted_to_trace(conditions, size),
            ),
        ] {
            let name = format!("{trace}/{drive}baseline");
            experiments.push(Experiment::new_replay(name, (counted.clone(), size), "page-map", settings));
            for ratio in COMPRESSION_RATIOS {
                let (source, settings) = with_delta_content(&counted, ratio, &settings_of_delta_design);
                let name = format!("{trace}/{drive}{ratio}");
                experiments.push(Experiment::new_replay(name, (source, size), "delta", settings));
            }
        }
    }
    experiments.extend(synthetic_experiments(conditions));
    experiments.extend(experiments_without_codec_time_or_cold_page_scan(conditions, scale));
    experiments.extend(access_count_table_experiments(conditions, scale));
    experiments.extend(delta_workload_experiments(conditions));
    if conditions.size == ExperimentSize::Quick {
        experiments.extend(difference_cause_experiments(conditions, scale));
        experiments.extend(many_channels_experiments(conditions, scale));
        experiments.extend(journal_experiments(conditions));
    }
    experiments
}

/// Returns scaled-down experiments that remove suspected causes of differences from the Delta-FTL paper: other sizes of
/// the table of access counts for all traces, and no scan for cold pages on drives that hold little more than the
/// trace.
fn difference_cause_experiments(conditions: &ExperimentConditions, scale: f64) -> Vec<Experiment> {
    let mut experiments = Vec::new();
    for (trace, name) in TRACES {
        let (counted, size) =
            conditions.traces.original_or_substitute(name, &format!(",seed={}", conditions.seed), scale);
        let mut add = |name: String, ratio: &str, drive: &[String], extra: String| {
            let (source, settings) = with_delta_content(&counted, ratio, drive);
            let settings = [settings, vec![extra]].concat();
            experiments.push(Experiment::new_replay(name, (source, size), "delta", settings));
        };
        if trace != "F1" {
            let entries = DriveShape::paper_drive_scaled_by(size).logical_pages(PAPER_SPARE_SHARE) as f64
                / SMALL_ACCESS_COUNT_TABLE_PAGES_PER_ENTRY;
            let entries = format!("delta.heat_entries={entries:.0}");
            add(
                format!("{trace}/heat-{SMALL_ACCESS_COUNT_TABLE_PAGES_PER_ENTRY}"),
                "0.35",
                &drive_settings(conditions, size),
                entries,
            );
        }
        if ["F1", "F2"].contains(&trace) {
            let name = format!("{trace}/fitted-0.50-without-scan");
            add(
                name,
                "0.50",
                &settings_of_delta_design_fitted_to_trace(conditions, size),
                NO_COLD_PAGE_SCAN_SETTING.to_owned(),
            );
        }
    }
    experiments
}

/// Returns scaled-down experiments on trace F1 (Financial1) with as many channels as the full-size drive. They show how
/// much of the read latency arises because one chip reads all pages of a request.
fn many_channels_experiments(conditions: &ExperimentConditions, scale: f64) -> [Experiment; 2] {
    let (counted, size) =
        conditions.traces.original_or_substitute("f1", &format!(",seed={}", conditions.seed), scale);
    let DriveShape { channels, blocks_per_plane } = DriveShape::paper_drive_scaled_by(size);
    let blocks = (blocks_per_plane * channels / FULL_SIZE_CHANNELS).round();
    let shape = DriveShape { channels: FULL_SIZE_CHANNELS, blocks_per_plane: blocks };
    let mut drive = drive_settings(conditions, size);
    drive.push(format!("device.channels={FULL_SIZE_CHANNELS}"));
    drive.push(format!("device.blocks_per_plane={blocks}"));
    let (source, mut settings) = with_delta_content(&counted, "0.50", &drive);
    settings.extend(scaled_access_count_table(shape.logical_pages(PAPER_SPARE_SHARE)));
    [
        Experiment::new_replay(
            format!("F1/{MANY_CHANNELS_PREFIX}baseline"),
            (counted, size),
            "page-map",
            drive,
        ),
        Experiment::new_replay(format!("F1/{MANY_CHANNELS_PREFIX}0.50"), (source, size), "delta", settings),
    ]
}

/// Returns experiments with the L2P table on flash and a cache for 1/32 of its entries, without and with a journal of
/// map updates. Power is lost after the last request.
fn journal_experiments(conditions: &ExperimentConditions) -> Vec<Experiment> {
    let scale = 0.02;
    let pages = DriveShape::paper_drive_scaled_by(scale).logical_pages(PAPER_SPARE_SHARE) - 1;
    let source = RequestSource::Generated(
        delta_workload_spec(conditions, pages, 10e6 * scale, "") + "+unique:delta=0.35",
    );
    let one = |journal_pages: Option<u32>| {
        let mut settings = drive_settings(conditions, scale);
        settings.extend(to_owned_strings(&[
            "device.over_provisioning=0.3",
            "device.over_provisioning_of=physical",
        ]));
        settings.extend(to_owned_strings(&[
            "timing.mode=none",
            DEAD_BYTES_GC_SETTING,
            "recovery.after_run=true",
        ]));
        settings.push(format!("delta.cache_entries={}", pages / LOGICAL_PAGES_PER_MAP_CACHE_ENTRY));
        settings.push(format!("delta.heat_entries={}", pages / LOGICAL_PAGES_PER_ACCESS_COUNT_ENTRY));
        settings.extend(journal_pages.map(|pages| format!("delta.journal_pages={pages}")));
        Experiment::new_replay(
            journal_experiment_name(journal_pages),
            (source.clone(), scale),
            "delta",
            settings,
        )
    };
    JOURNAL_PAGES_UNTIL_MERGE.into_iter().map(one).collect()
}

/// Returns the name of the experiment whose journal is merged after this number of pages; `None`: no journal.
fn journal_experiment_name(pages: Option<u32>) -> String {
    pages.map_or_else(|| "journal/none".to_owned(), |pages| format!("journal/{pages}"))
}

/// Returns experiments on traces F1 and C8 in which the delta codec takes no time, the scan for cold pages is off, or
/// both.
fn experiments_without_codec_time_or_cold_page_scan(
    conditions: &ExperimentConditions,
    scale: f64,
) -> Vec<Experiment> {
    let mut experiments = Vec::new();
    for (trace, name) in TRACES_FOR_CODEC_AND_SCAN_RUNS {
        let (counted, size) =
            conditions.traces.original_or_substitute(name, &format!(",seed={}", conditions.seed), scale);
        for (what, without) in SETTINGS_REMOVING_DIFFERENCE_CAUSES {
            for ratio in EXTREME_COMPRESSION_RATIOS {
                let (source, settings) =
                    with_delta_content(&counted, ratio, &drive_settings_of_delta_design(conditions, size));
                let settings = [settings, to_owned_strings(without)].concat();
                let name = format!("{trace}/{ratio}-without-{what}");
                experiments.push(Experiment::new_replay(name, (source, size), "delta", settings));
            }
        }
    }
    experiments
}

/// Returns experiments on trace F1 (Financial1) with several sizes of the table of access counts.
fn access_count_table_experiments(conditions: &ExperimentConditions, scale: f64) -> Vec<Experiment> {
    let (counted, size) =
        conditions.traces.original_or_substitute("f1", &format!(",seed={}", conditions.seed), scale);
    let one = |pages_per_entry: &f64| {
        let (source, mut settings) = with_delta_content(&counted, "0.35", &drive_settings(conditions, size));
        let entries =
            DriveShape::paper_drive_scaled_by(size).logical_pages(PAPER_SPARE_SHARE) as f64 / pages_per_entry;
        settings.push(format!("delta.heat_entries={entries:.0}"));
        Experiment::new_replay(format!("F1/heat-{pages_per_entry}"), (source, size), "delta", settings)
    };
    PAGES_PER_ACCESS_COUNT_ENTRY.iter().map(one).collect()
}

/// Copies string slices to a vector of owned strings.
fn to_owned_strings(of: &[&str]) -> Vec<String> {
    of.iter().map(|&text| text.to_owned()).collect()
}

/// Shape of the Delta-FTL paper's drive at a scale: channels (of one chip each) and blocks per plane.
#[derive(Clone, Copy)]
struct DriveShape {
    /// Number of channels, each with one chip of four planes.
    channels: f64,
    /// Number of blocks of each plane.
    blocks_per_plane: f64,
}

impl DriveShape {
    /// Returns the shape of the paper's drive with `scale` times its capacity. At least four planes remain.
    fn paper_drive_scaled_by(scale: f64) -> Self {
        let planes = (64.0 * scale).round().clamp(4.0, 64.0);
        let channels = (planes / 4.0).ceil();
        Self { channels, blocks_per_plane: (4096.0 * scale * 16.0 / channels).round() }
    }

    /// Returns the number of pages that the drive exports if `spare` is the spare share of its physical pages.
    fn logical_pages(self, spare: f64) -> u64 {
        let pages = self.channels * 4.0 * self.blocks_per_plane * PAGES_PER_BLOCK;
        (pages * (1.0 - spare)) as u64
    }
}

/// Returns the specification of the generated load whose share of delta writes (Pc) is fitted to the counts of
/// collections that the Delta-FTL paper reports; `keys` replace its default keys.
fn delta_workload_spec(conditions: &ExperimentConditions, pages: u64, requests: f64, keys: &str) -> String {
    let standard = ["deltas=0.98", "hot=0.03", "life=128", "hot_reads=0.02"];
    let replaced =
        |key: &&str| !keys.split(',').any(|other| other.split('=').next() == key.split('=').next());
    let standard: Vec<&str> = standard.into_iter().filter(replaced).collect();
    let keys = [keys, &standard.join(",")].join(",");
    format!(
        "delta-load:pages={pages},requests={requests},write=0.5,seed={},{}",
        conditions.seed,
        keys.trim_matches(',')
    )
}

/// Experiments on one drive with one generated load `delta-load`: the baseline, and the delta design at several
/// compression ratios.
struct DeltaLoadExperiments<'a> {
    /// Name of the load, with which the names of its experiments begin.
    name: String,
    /// Spare share of the drive's physical pages.
    spare_share: &'a str,
    /// Keys that replace default keys in the specification of the load.
    load_spec_keys: String,
    /// Settings of both the baseline and the delta design. Settings in `delta_settings` are for the delta design only.
    settings: Vec<String>,
    /// Additional settings of the delta design; empty for the delta design without a variation.
    delta_settings: Vec<String>,
    /// Compression ratios (delta size divided by page size) of the runs of the delta design.
    delta_compression_ratios: &'a [&'a str],
}

/// Returns the experiments with the generated load `delta-load`: levels of load, spare shares and variations of the
/// load.
fn delta_workload_experiments(conditions: &ExperimentConditions) -> Vec<Experiment> {
    let scale = match conditions.size {
        ExperimentSize::Quick => 0.02,
        ExperimentSize::Full => 0.2,
    };
    let channels = DriveShape::paper_drive_scaled_by(scale).channels;
    let mut runs = Vec::new();
    for (drive, spare) in DELTA_WORKLOAD_SPARE_SHARES_BY_FILL {
        for (level, how) in LOAD_LEVELS {
            let (keys, mut settings) = match how {
                LoadLevelPerChip::RequestsPerSecond(rate) => {
                    (format!("rate={}", f64::from(rate) * channels), Vec::new())
                }
                LoadLevelPerChip::InFlight(depth) => {
                    let depth = format!("replay.queue_depth={}", f64::from(depth) * channels);
                    (String::new(), vec!["replay.arrival=closed".to_owned(), depth])
                }
            };
            settings.push("timing.mode=event".to_owned());
            let name = format!("set/{drive}-{level}");
            let of = |name: String, of_delta: Vec<String>, ratios| DeltaLoadExperiments {
                name,
                spare_share: spare,
                load_spec_keys: keys.clone(),
                settings: settings.clone(),
                delta_settings: of_delta,
                delta_compression_ratios: ratios,
            };
            runs.push(of(name.clone(), Vec::new(), &COMPRESSION_RATIOS[..]));
            if level == "busy" {
                continue;
            }
            for (variant, _, settings) in DELTA_DESIGN_VARIANTS {
                runs.push(of(
                    format!("{name}-{variant}"),
                    to_owned_strings(settings),
                    &COMPRESSION_RATIOS[..1],
                ));
            }
        }
    }
    let counted = |name: String, spare, keys: &str, ratios| DeltaLoadExperiments {
        name,
        spare_share: spare,
        load_spec_keys: keys.to_owned(),
        settings: vec!["timing.mode=none".to_owned()],
        delta_settings: Vec::new(),
        delta_compression_ratios: ratios,
    };
    runs.extend(
        SPARE_SHARES.map(|spare| counted(format!("set/spare-{spare}"), spare, "", &COMPRESSION_RATIOS[..])),
    );
    runs.extend(
        DELTA_WORKLOAD_VARIATIONS
            .map(|(name, keys)| counted(format!("set/{name}"), "0.3", keys, &EXTREME_COMPRESSION_RATIOS[..])),
    );
    runs.iter().flat_map(|run| experiments_on_delta_workload(conditions, scale, run)).collect()
}

/// Returns the experiments on one drive and load: the baseline, unless the delta design is varied, and the delta design
/// at each compression ratio.
fn experiments_on_delta_workload(
    conditions: &ExperimentConditions,
    scale: f64,
    run: &DeltaLoadExperiments<'_>,
) -> Vec<Experiment> {
    let spare: f64 = run.spare_share.parse().expect("a share");
    let drive_pages = DriveShape::paper_drive_scaled_by(scale).logical_pages(spare);
    let load = delta_workload_spec(conditions, drive_pages - 1, 10e6 * scale, &run.load_spec_keys);
    let mut settings = drive_settings(conditions, scale);
    settings.push(format!("device.over_provisioning={}", run.spare_share));
    settings.push("device.over_provisioning_of=physical".to_owned());
    settings.extend_from_slice(&run.settings);
    let mut experiments = Vec::new();
    let is_variant = !run.delta_settings.is_empty();
    if !is_variant {
        let source = RequestSource::Generated(load.clone());
        let name = format!("{}/baseline", run.name);
        experiments.push(Experiment::new_replay(name, (source, scale), "page-map", settings.clone()));
    }
    for ratio in run.delta_compression_ratios {
        let source = RequestSource::Generated(format!("{load}+unique:delta={ratio}"));
        let mut settings = [settings.clone(), run.delta_settings.clone()].concat();
        settings.push(DEAD_BYTES_GC_SETTING.to_owned());
        settings.extend(scaled_access_count_table(drive_pages));
        experiments.push(Experiment::new_replay(
            format!("{}/{ratio}", run.name),
            (source, scale),
            "delta",
            settings,
        ));
    }
    experiments
}

/// Adds the content model in which overwrites have deltas of size `delta_compression_ratio`: to the specification of a
/// generated substitute, or to the settings if the trace is an original.
fn with_delta_content(
    source: &RequestSource,
    delta_compression_ratio: &str,
    settings: &[String],
) -> (RequestSource, Vec<String>) {
    let settings = [settings, &[DEAD_BYTES_GC_SETTING.to_owned()]].concat();
    match source {
        RequestSource::Substitute(spec) => {
            (RequestSource::Substitute(format!("{spec}+unique:delta={delta_compression_ratio}")), settings)
        }
        other => (other.clone(), [settings, vec![content_model_setting(delta_compression_ratio)]].concat()),
    }
}

/// Returns experiments with the delta design on Zipf loads of several compression ratios and skews.
fn synthetic_experiments(conditions: &ExperimentConditions) -> Vec<Experiment> {
    let scale = match conditions.size {
        ExperimentSize::Quick => 0.02,
        ExperimentSize::Full => 0.2,
    };
    let settings = [
        drive_settings_of_delta_design(conditions, scale),
        vec!["timing.mode=none".to_owned(), DEAD_BYTES_GC_SETTING.to_owned()],
    ]
    .concat();
    let one = |skew: &str, ratio: &str| {
        let (pages, requests) = (4e6 * scale, 16e6 * scale);
        let load = format!(
            "zipf:theta={skew},pages={pages},requests={requests},seed={}+unique:delta={ratio}",
            conditions.seed
        );
        let name = format!("synthetic/{skew}-{ratio}");
        Experiment::new_replay(name, (RequestSource::Generated(load), scale), "delta", settings.clone())
    };
    let by_ratio = COMPRESSION_RATIOS.map(|ratio| one("0.9", ratio));
    let by_skew = ["0.6", "1.2"].map(|skew| one(skew, "0.35"));
    by_ratio.into_iter().chain(by_skew).collect()
}

/// Result of computing values; the error is the reason why a needed experiment has no record.
type Result<T> = std::result::Result<T, String>;

/// Computes our values for one row (reported result) of the Delta-FTL paper from the finished experiments; `None` if no
/// experiment is about the row.
pub fn row_values_from_experiments(id: &str, runs: &ExperimentRecords) -> Option<Result<Vec<NamedValue>>> {
    Some(match id {
        "DF-08" => trace_table_values(runs, "F1"),
        "DF-09" => trace_table_values(runs, "F2"),
        "DF-10" => trace_table_values(runs, "C3"),
        "DF-11" => trace_table_values(runs, "C8"),
        "DF-12" => trace_table_values(runs, "DAP"),
        "DF-13" => trace_table_values(runs, "MSN"),
        "DF-14" => mean_comparison_on_paper_and_fitted_drive(runs, "0.50", gc_count_percent_of_baseline),
        "DF-15" => mean_comparison_on_paper_and_fitted_drive(runs, "0.35", gc_count_percent_of_baseline),
        "DF-16" => mean_comparison_on_paper_and_fitted_drive(runs, "0.20", gc_count_percent_of_baseline),
        "DF-17" => comparison_on_paper_and_fitted_drive(runs, "C3", "0.20", gc_count_percent_of_baseline),
        "DF-18" => comparison_on_paper_and_fitted_drive(runs, "F1", "0.50", gc_count_percent_of_baseline),
        "DF-20" => host_program_monotonicity_values(runs),
        "DF-21" => delta_write_shares(runs),
        "DF-22" => freed_pages_per_victim_of_two_traces(runs),
        "DF-23" => whether_gc_frees_most_pages_on_financial_traces(runs),
        "DF-24" => ["F1", "F2"]
            .map(|trace| {
                comparison_on_paper_and_fitted_drive(runs, trace, "0.50", freed_pages_per_victim_ratio)
            })
            .into_iter()
            .collect::<Result<Vec<_>>>()
            .map(|values| values.concat()),
        "DF-25" => TRACES
            .iter()
            .map(|(trace, ..)| {
                let run = runs.finished_run_named(&format!("{trace}/0.20"))?;
                let share = run.figure("parts.collections_of_deltas") / run.figure("parts.collections");
                Ok(NamedValue::new(*trace, 100.0 * share))
            })
            .collect(),
        "DF-26" => COMPRESSION_RATIOS
            .iter()
            .map(|ratio| {
                Ok(NamedValue::new(
                    *ratio,
                    mean_over_traces_on_paper_drive(runs, ratio, write_latency_saved_percent)?,
                ))
            })
            .collect(),
        "DF-27" => gc_time_per_victim_ratios(runs),
        "DF-28" => {
            let mut values = Vec::new();
            for (name, value) in [
                ("two pages ", two_flash_read_percent as DeltaToBaselineComparison),
                ("latency ", read_latency_added_percent),
            ] {
                for ratio in COMPRESSION_RATIOS {
                    match mean_over_traces_on_paper_drive(runs, ratio, value) {
                        Ok(mean) => values.push(NamedValue::new(format!("{name}{ratio}"), mean)),
                        Err(why) => return Some(Err(why)),
                    }
                }
            }
            values.extend(financial1_read_latency_increase_by_channels(runs));
            Ok(values)
        }
        "DF-29" => max_percent_of_reads_with_two_flash_reads(runs),
        "DF-34" => delta_workload_gc_counts_percent_of_baseline(runs),
        "DF-35" => write_latency_savings_on_delta_workload(runs),
        "DF-36" => read_latency_increases_on_delta_workload(runs),
        "DF-37" => gc_counts_percent_of_baseline_by_spare_share(runs),
        "DF-38" => delta_effects_by_load_variation(runs),
        "DF-39" => delta_effects_by_access_count_table_size(runs),
        "DF-40" => write_latency_changes_without_codec_or_scan(runs),
        "DF-41" => formula_and_run_values(runs),
        "DF-42" => l2p_journal_program_counts(runs),
        _ => return None,
    })
}

/// Returns the largest share, over all traces, of reads that take two flash reads, percent; whether trace F2 has this
/// share; the shares of all traces; and the increase of the read latency on F2, percent.
fn max_percent_of_reads_with_two_flash_reads(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let share =
        |trace: &str| compare_delta_run_with_baseline(runs, trace, "", "0.50", two_flash_read_percent);
    let shares: Vec<(&str, f64)> =
        TRACES.iter().map(|(trace, _)| Ok((*trace, share(trace)?))).collect::<Result<_>>()?;
    let largest = shares.iter().map(|&(_, share)| share).fold(0.0, f64::max);
    let latency = compare_delta_run_with_baseline(runs, "F2", "", "0.50", read_latency_added_percent)?;
    let mut values = vec![
        NamedValue::new("largest, %", largest),
        named_truth_value("F2 is the largest", share("F2")? >= largest),
    ];
    values
        .extend(shares.iter().map(|(trace, share)| NamedValue::new(format!("two pages {trace}, %"), *share)));
    values.push(NamedValue::new("latency F2, %", latency));
    Ok(values)
}

/// Returns how much the mean read latency on trace F1 (Financial1) grows against the baseline, percent: on the standard
/// drive, and on a drive of the same size with more channels, which reads the pages of a request at once. The value of
/// a run that is missing is left out.
fn financial1_read_latency_increase_by_channels(runs: &ExperimentRecords) -> Vec<NamedValue> {
    [("", "latency F1 0.50"), (MANY_CHANNELS_PREFIX, "latency F1 0.50, 16 channels")]
        .into_iter()
        .filter_map(|(drive, name)| {
            let value =
                compare_delta_run_with_baseline(runs, "F1", drive, "0.50", read_latency_added_percent);
            Some(NamedValue::new(name, value.ok()?))
        })
        .collect()
}

/// Returns the flash time per GC victim relative to the baseline: the median over the traces, and the values on the
/// generated load whose share of delta writes (Pc) is fitted to the paper.
fn gc_time_per_victim_ratios(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let mut values = median_over_traces_on_paper_drive(runs, gc_time_per_victim_ratio)?;
    for (drive, _) in DELTA_WORKLOAD_SPARE_SHARES_BY_FILL {
        for ratio in COMPRESSION_RATIOS {
            let (run, baseline) = run_and_baseline_of_delta_workload(runs, &format!("{drive}-light"), ratio)?;
            values.push(NamedValue::new(format!("{drive} {ratio}"), gc_time_per_victim_ratio(run, baseline)));
        }
    }
    Ok(values)
}

/// Returns the run of the delta design on a load with a given share of delta writes (Pc), and the run of its baseline.
fn run_and_baseline_of_delta_workload<'a>(
    runs: &'a ExperimentRecords,
    load_name: &str,
    ratio: &str,
) -> Result<(ExperimentRun<'a>, ExperimentRun<'a>)> {
    Ok((
        runs.finished_run_named(&format!("set/{load_name}/{ratio}"))?,
        runs.finished_run_named(&format!("set/{load_name}/baseline"))?,
    ))
}

/// Returns a variant of the delta run on a load with a given share of delta writes (Pc), and the baseline, which has no
/// variants.
fn variant_and_baseline_of_delta_workload<'a>(
    runs: &'a ExperimentRecords,
    load_name: &str,
    variant: &str,
) -> Result<(ExperimentRun<'a>, ExperimentRun<'a>)> {
    Ok((
        runs.finished_run_named(&format!("set/{load_name}-{variant}/0.50"))?,
        runs.finished_run_named(&format!("set/{load_name}/baseline"))?,
    ))
}

/// Returns the GC count on the loads with a given share of delta writes (Pc), in percent of the baseline's GC count, by
/// drive and compression ratio (Rc).
fn delta_workload_gc_counts_percent_of_baseline(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let mut values = Vec::new();
    for (drive, _) in DELTA_WORKLOAD_SPARE_SHARES_BY_FILL {
        let of = format!("{drive}-light");
        for ratio in COMPRESSION_RATIOS {
            let (run, baseline) = run_and_baseline_of_delta_workload(runs, &of, ratio)?;
            values.push(NamedValue::new(
                format!("{drive} {ratio}"),
                gc_count_percent_of_baseline(run, baseline),
            ));
        }
        let (run, baseline) = run_and_baseline_of_delta_workload(runs, &of, "0.35")?;
        values.push(NamedValue::new(format!("{drive} Pc %"), 100.0 * delta_write_share(run)));
        values.push(NamedValue::new(
            format!("{drive} invalid pages per victim"),
            freed_pages_per_victim(baseline),
        ));
        for (variant, name, _) in [DELTA_DESIGN_VARIANTS[0], DELTA_DESIGN_VARIANTS[3]] {
            let (run, baseline) = variant_and_baseline_of_delta_workload(runs, &of, variant)?;
            values.push(NamedValue::new(
                format!("{drive} 0.50, {name}"),
                gc_count_percent_of_baseline(run, baseline),
            ));
        }
    }
    Ok(values)
}

/// Returns how much of the mean write latency the delta design saves relative to the baseline, percent, on the
/// generated load for each drive, level of load and compression ratio.
fn write_latency_savings_on_delta_workload(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let mut values = Vec::new();
    for (drive, _) in DELTA_WORKLOAD_SPARE_SHARES_BY_FILL {
        for (level, _) in LOAD_LEVELS {
            let of = format!("{drive}-{level}");
            for ratio in COMPRESSION_RATIOS {
                let (run, baseline) = run_and_baseline_of_delta_workload(runs, &of, ratio)?;
                values.push(NamedValue::new(
                    format!("{drive} {level} {ratio}"),
                    write_latency_saved_percent(run, baseline),
                ));
            }
            if level == "busy" {
                continue;
            }
            for (variant, name, _) in DELTA_DESIGN_VARIANTS {
                let (run, baseline) = variant_and_baseline_of_delta_workload(runs, &of, variant)?;
                values.push(NamedValue::new(
                    format!("{drive} {level} 0.50, {name}"),
                    write_latency_saved_percent(run, baseline),
                ));
            }
        }
    }
    Ok(values)
}

/// Returns the increase of the mean read latency over the baseline on the loads with a given share of delta writes
/// (Pc), percent, by drive and compression ratio (Rc).
fn read_latency_increases_on_delta_workload(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let mut values = Vec::new();
    for (drive, _) in DELTA_WORKLOAD_SPARE_SHARES_BY_FILL {
        for ratio in COMPRESSION_RATIOS {
            let (run, baseline) = run_and_baseline_of_delta_workload(runs, &format!("{drive}-light"), ratio)?;
            values.push(NamedValue::new(
                format!("{drive} light {ratio}"),
                read_latency_added_percent(run, baseline),
            ));
            values.push(NamedValue::new(
                format!("two pages {drive} {ratio}"),
                two_flash_read_percent(run, baseline),
            ));
            let (run, baseline) =
                run_and_baseline_of_delta_workload(runs, &format!("{drive}-saturated"), ratio)?;
            values.push(NamedValue::new(
                format!("{drive} saturated {ratio}"),
                read_latency_added_percent(run, baseline),
            ));
        }
    }
    Ok(values)
}

/// Returns the GC count in percent of the baseline's GC count, for each compression ratio and spare share.
fn gc_counts_percent_of_baseline_by_spare_share(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let mut values = Vec::new();
    for ratio in COMPRESSION_RATIOS {
        for spare in SPARE_SHARES {
            let (run, baseline) = run_and_baseline_of_delta_workload(runs, &format!("spare-{spare}"), ratio)?;
            values.push(NamedValue::new(
                format!("Rc {ratio} spare {spare}"),
                gc_count_percent_of_baseline(run, baseline),
            ));
        }
    }
    Ok(values)
}

/// Returns the GC count (in percent of the baseline's), the share of delta writes and the share of reads that take two
/// flash reads, percent, for each variation of the load.
fn delta_effects_by_load_variation(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let mut values = Vec::new();
    for (name, _) in DELTA_WORKLOAD_VARIATIONS {
        for ratio in EXTREME_COMPRESSION_RATIOS {
            let (run, baseline) = run_and_baseline_of_delta_workload(runs, name, ratio)?;
            values.push(NamedValue::new(
                format!("{name}, Rc {ratio}"),
                gc_count_percent_of_baseline(run, baseline),
            ));
        }
        let (run, baseline) = run_and_baseline_of_delta_workload(runs, name, "0.20")?;
        values.push(NamedValue::new(format!("{name}, Pc %"), 100.0 * delta_write_share(run)));
        values.push(NamedValue::new(format!("{name}, two pages %"), two_flash_read_percent(run, baseline)));
    }
    Ok(values)
}

/// Returns, for each size of the table of access counts, the share of delta writes (percent) and the GC count (percent
/// of the baseline's GC count).
fn delta_effects_by_access_count_table_size(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let mut values = Vec::new();
    for pages in PAGES_PER_ACCESS_COUNT_ENTRY {
        let run = runs.finished_run_named(&format!("F1/heat-{pages}"))?;
        let left = gc_count_percent_of_baseline(run, runs.finished_run_named("F1/baseline")?);
        values.push(NamedValue::new(format!("Pc %, 1 of {pages}"), 100.0 * delta_write_share(run)));
        values.push(NamedValue::new(format!("collections %, 1 of {pages}"), left));
    }
    Ok(values)
}

/// Returns the change of the mean write latency relative to the baseline, percent, for four variants: the whole delta
/// design, without the delta codec's times, without the scan for cold pages, and without both. Also returns how many
/// GCs the scan causes, in percent of the baseline's GC count.
fn write_latency_changes_without_codec_or_scan(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let mut values = Vec::new();
    for (trace, _) in TRACES_FOR_CODEC_AND_SCAN_RUNS {
        for ratio in EXTREME_COMPRESSION_RATIOS {
            let baseline = runs.finished_run_named(&format!("{trace}/baseline"))?;
            let whole = runs.finished_run_named(&format!("{trace}/{ratio}"))?;
            let all = -write_latency_saved_percent(whole, baseline);
            values.push(NamedValue::new(format!("{trace} {ratio}: write latency"), all));
            for (what, _) in SETTINGS_REMOVING_DIFFERENCE_CAUSES {
                let run = runs.finished_run_named(&format!("{trace}/{ratio}-without-{what}"))?;
                let without = -write_latency_saved_percent(run, baseline);
                values.push(NamedValue::new(format!("{trace} {ratio}: without {what}"), without));
                if what == "scan" {
                    let scan = gc_count_percent_of_baseline(whole, baseline)
                        - gc_count_percent_of_baseline(run, baseline);
                    values.push(NamedValue::new(format!("{trace} {ratio}: collections by the scan"), scan));
                }
            }
        }
    }
    Ok(values)
}

/// Compares runs with the Delta-FTL paper's formulas, in which Pc is the share of writes that are stored as deltas and
/// Rc the size of a delta in pages. Programs per host write are compared with 1 - Pc + Pc Rc, once with the configured
/// Rc and once with the flash pages that were used per delta. GC counts relative to the baseline are compared with the
/// paper's expression 4 (consumption over gain).
fn formula_and_run_values(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let mut values = Vec::new();
    let drives = DELTA_WORKLOAD_SPARE_SHARES_BY_FILL.map(|(drive, _)| format!("set/{drive}-light"));
    for of in drives.iter().map(String::as_str).chain(["F1", "C8"]) {
        let baseline = runs.finished_run_named(&format!("{of}/baseline"))?;
        let name = of.trim_start_matches("set/").trim_end_matches("-light");
        for ratio in COMPRESSION_RATIOS {
            let run = runs.finished_run_named(&format!("{of}/{ratio}"))?;
            // A run without writes has no delta share.
            let (share, rate) = (delta_write_share(run).max(0.0), ratio.parse().expect("a ratio"));
            let packed = run.figure("parts.delta_pages_committed") / run.figure("parts.deltas_committed");
            let merged = run.figure("parts.merges_read_hot") + run.figure("parts.merges_write_cold");
            let host = run.figure("host_page_writes");
            let consumed = host_programs_per_write(run) + merged / host;
            let mut add = |what: &str, value: f64| {
                values.push(NamedValue::new(format!("{name} {ratio} {what}"), value));
            };
            add("foreground", host_programs_per_write(run));
            add("form", theory::delta_programs_per_host_write(share, rate));
            add("form, packed", theory::delta_programs_per_host_write(share, packed));
            add("merges", merged / host);
            add("collections", gc_count_percent_of_baseline(run, baseline) / 100.0);
            add("expression 4", consumed / freed_pages_per_victim_ratio(run, baseline));
        }
    }
    Ok(values)
}

/// Returns, for each merge interval of the journal of L2P updates: programs for the L2P table per thousand host writes,
/// in total and by kind, and the number of pages that are programmed on capacitor power when power is lost.
fn l2p_journal_program_counts(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let of = |journal| Ok((journal, runs.finished_run_named(&journal_experiment_name(journal))?));
    let all = JOURNAL_PAGES_UNTIL_MERGE.into_iter().map(of).collect::<Result<Vec<_>>>()?;
    let mut values = Vec::new();
    for (journal, run) in all {
        let name = journal.map_or_else(|| "no journal".to_owned(), |pages| format!("{pages} pages"));
        let mut add = |what: &str, value: f64| values.push(NamedValue::new(format!("{name}, {what}"), value));
        let per_thousand = |count: f64| 1000.0 * count / run.figure("host_page_writes");
        add("map", per_thousand(run.programs_by_cause("translation")));
        add("evictions", per_thousand(run.figure("parts.synchronisations")));
        add("journal", per_thousand(run.figure("parts.journal_pages")));
        add("merges", per_thousand(run.figure("parts.journal_merged_pages")));
        add("moved by collection", per_thousand(run.figure("parts.translation_copies")));
        add("at power loss, pages", run.required_figure("recovery.battery_programs")?);
        // Each delta of a host write is one record of the delta table. Deltas that GC moves are not counted.
        let deltas = run.figure("parts.deltas_committed") / JOURNAL_RECORDS_PER_PAGE;
        add("delta table, counted", per_thousand(deltas));
    }
    Ok(values)
}

/// Returns the figures of a trace in the paper's table: reads and writes (million), share of reads (percent), and
/// duration (hours).
fn trace_table_values(runs: &ExperimentRecords, trace: &str) -> Result<Vec<NamedValue>> {
    let run = runs.finished_run_named(&format!("{trace}/counts"))?;
    let millions = |figure: &str| run.figure_scaled_to_full_input(figure) / 1e6;
    Ok(vec![
        NamedValue::new("reads, M", millions("reads")),
        NamedValue::new("writes, M", millions("writes")),
        NamedValue::new("reads, %", 100.0 * run.figure("reads") / run.figure("requests")),
        NamedValue::new("hours", run.figure_scaled_to_full_input("duration_s") / 3600.0),
    ])
}

/// A function that computes a value from a run of the delta design and its baseline.
type DeltaToBaselineComparison = fn(ExperimentRun<'_>, ExperimentRun<'_>) -> f64;

/// Computes `value` from the delta run with compression ratio `ratio` and its baseline, for one trace.
fn compare_delta_run_with_baseline(
    runs: &ExperimentRecords,
    trace: &str,
    drive_prefix: &str,
    ratio: &str,
    value: DeltaToBaselineComparison,
) -> Result<f64> {
    let of = |variant: &str| runs.finished_run_named(&format!("{trace}/{drive_prefix}{variant}"));
    Ok(value(of(ratio)?, of("baseline")?))
}

/// Returns a comparison with the baseline for one trace, on the paper's drive, and on the drive that is fitted to the
/// trace.
fn comparison_on_paper_and_fitted_drive(
    runs: &ExperimentRecords,
    trace: &str,
    ratio: &str,
    value: DeltaToBaselineComparison,
) -> Result<Vec<NamedValue>> {
    Ok(vec![
        NamedValue::new(trace, compare_delta_run_with_baseline(runs, trace, "", ratio, value)?),
        NamedValue::new(
            format!("{trace} fitted"),
            compare_delta_run_with_baseline(runs, trace, "fitted-", ratio, value)?,
        ),
    ])
}

/// Returns the mean of `value` over all traces on one of the two drives.
fn mean_value_on_drive(
    runs: &ExperimentRecords,
    drive: &str,
    ratio: &str,
    value: DeltaToBaselineComparison,
) -> Result<f64> {
    let values: Result<Vec<f64>> = TRACES
        .iter()
        .map(|(trace, _)| compare_delta_run_with_baseline(runs, trace, drive, ratio, value))
        .collect();
    Ok(values?.iter().sum::<f64>() / TRACES.len() as f64)
}

/// Returns the mean of `value` over all traces on the Delta-FTL paper's drive.
fn mean_over_traces_on_paper_drive(
    runs: &ExperimentRecords,
    ratio: &str,
    value: DeltaToBaselineComparison,
) -> Result<f64> {
    mean_value_on_drive(runs, "", ratio, value)
}

/// Returns the mean of a comparison with the baseline over all traces, on the paper's drive and on drives fitted to the
/// traces. Also returns the comparison of each trace on the paper's drive.
fn mean_comparison_on_paper_and_fitted_drive(
    runs: &ExperimentRecords,
    ratio: &str,
    value: DeltaToBaselineComparison,
) -> Result<Vec<NamedValue>> {
    let mut values = vec![
        NamedValue::new("mean", mean_over_traces_on_paper_drive(runs, ratio, value)?),
        NamedValue::new("mean fitted", mean_value_on_drive(runs, "fitted-", ratio, value)?),
    ];
    for (trace, _) in TRACES {
        values.push(NamedValue::new(trace, compare_delta_run_with_baseline(runs, trace, "", ratio, value)?));
    }
    Ok(values)
}

/// Returns the median of `value` over all traces on the paper's drive, for compression ratio 0.50.
fn median_over_traces_on_paper_drive(
    runs: &ExperimentRecords,
    value: DeltaToBaselineComparison,
) -> Result<Vec<NamedValue>> {
    let values: Result<Vec<f64>> = TRACES
        .iter()
        .map(|(trace, _)| compare_delta_run_with_baseline(runs, trace, "", "0.50", value))
        .collect();
    let mut values = values?;
    values.sort_by(f64::total_cmp);
    Ok(vec![NamedValue::new("median", f64::midpoint(values[2], values[3]))])
}

/// Returns the number of blocks that GC erased in a run.
fn gc_count(run: ExperimentRun<'_>) -> f64 {
    run.figure("erases_by_cause.gc")
}

/// Returns the GC count of a run in percent of the baseline's.
fn gc_count_percent_of_baseline(run: ExperimentRun<'_>, baseline: ExperimentRun<'_>) -> f64 {
    100.0 * gc_count(run) / gc_count(baseline)
}

/// Returns the pages that GC frees per victim block: pages of a block minus the pages that GC programs for it.
fn freed_pages_per_victim(run: ExperimentRun<'_>) -> f64 {
    PAGES_PER_BLOCK - run.programs_by_cause("gc") / gc_count(run)
}

/// Returns the pages that GC frees per victim block, divided by those in the run of the baseline.
fn freed_pages_per_victim_ratio(run: ExperimentRun<'_>, baseline: ExperimentRun<'_>) -> f64 {
    freed_pages_per_victim(run) / freed_pages_per_victim(baseline)
}

/// Returns how much of the baseline's mean write latency a run saves, percent.
fn write_latency_saved_percent(run: ExperimentRun<'_>, baseline: ExperimentRun<'_>) -> f64 {
    let mean = |run: ExperimentRun<'_>| run.figure("latency_us.write.mean");
    100.0 * (1.0 - mean(run) / mean(baseline))
}

/// Returns the increase of the mean read latency over the baseline, percent; the latency includes decoding and
/// queueing.
fn read_latency_added_percent(run: ExperimentRun<'_>, baseline: ExperimentRun<'_>) -> f64 {
    let mean = |run: ExperimentRun<'_>| run.figure("latency_us.read.mean");
    100.0 * (mean(run) / mean(baseline) - 1.0)
}

/// Returns the share of the host's page reads that take two flash reads (base page and delta), percent.
fn two_flash_read_percent(run: ExperimentRun<'_>, _: ExperimentRun<'_>) -> f64 {
    100.0 * run.figure("parts.double_reads") / run.figure("host_page_reads")
}

/// Returns the flash time per GC victim (reads, programs and the erase), divided by that in the run of the baseline.
fn gc_time_per_victim_ratio(run: ExperimentRun<'_>, baseline: ExperimentRun<'_>) -> f64 {
    let time_us = |run: ExperimentRun<'_>| {
        (run.figure("reads_by_cause.gc") * 25.0 + run.programs_by_cause("gc") * 200.0) / gc_count(run)
            + 1500.0
    };
    time_us(run) / time_us(baseline)
}

/// Returns the share of the host's page writes that are stored as deltas (Pc).
fn delta_write_share(run: ExperimentRun<'_>) -> f64 {
    run.figure("writes_by_form.delta") / run.figure("host_page_writes")
}

/// Returns the pages programmed for the host per host write: whole pages and pages of packed deltas.
fn host_programs_per_write(run: ExperimentRun<'_>) -> f64 {
    (run.figure("writes_by_form.page") + run.figure("parts.delta_pages_committed"))
        / run.figure("host_page_writes")
}

/// Returns the value of a statement: 1 if the statement holds, otherwise 0.
fn named_truth_value(value_name: &str, statement: bool) -> NamedValue {
    NamedValue::new(value_name, f64::from(u8::from(statement)))
}

/// Returns whether each value is smaller than the value before it.
fn is_decreasing(values: &[f64]) -> bool {
    values.windows(2).all(|pair| pair[1] < pair[0])
}

/// Returns whether programs per host write fall with smaller deltas (Rc), and with more delta writes (Pc).
fn host_program_monotonicity_values(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let of = |skew: &str, ratio: &str| runs.finished_run_named(&format!("synthetic/{skew}-{ratio}"));
    let by_ratio: Result<Vec<f64>> =
        COMPRESSION_RATIOS.iter().map(|ratio| Ok(host_programs_per_write(of("0.9", ratio)?))).collect();
    let by_skew: Result<Vec<(f64, f64)>> = ZIPF_SKEWS
        .iter()
        .map(|skew| {
            let run = of(skew, "0.35")?;
            Ok((delta_write_share(run), host_programs_per_write(run)))
        })
        .collect();
    let mut by_skew = by_skew?;
    by_skew.sort_by(|a, b| a.0.total_cmp(&b.0));
    let by_share: Vec<f64> = by_skew.iter().map(|(_, foreground)| *foreground).collect();
    Ok(vec![
        named_truth_value("falls with Rc", is_decreasing(&by_ratio?)),
        named_truth_value("falls with Pc", is_decreasing(&by_share)),
    ])
}

/// Returns whether the share of delta writes (Pc) of each trace is independent of the compression ratio (Rc), whether
/// F1 and F2 have the lowest shares, and the shares of all traces.
fn delta_write_shares(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let mut shares = Vec::new();
    for (trace, _) in TRACES {
        let of: Result<Vec<f64>> = COMPRESSION_RATIOS
            .iter()
            .map(|ratio| Ok(delta_write_share(runs.finished_run_named(&format!("{trace}/{ratio}"))?)))
            .collect();
        shares.push(of?);
    }
    let mean = |of: &Vec<f64>| of.iter().sum::<f64>() / of.len() as f64;
    let is_flat = |of: &Vec<f64>| of.iter().all(|share| (share - mean(of)).abs() <= 0.01 * mean(of));
    let lowest_two = |k: usize| shares[2..].iter().all(|other| mean(&shares[k]) < mean(other));
    let mut values = vec![
        named_truth_value("independent of Rc", shares.iter().all(is_flat)),
        named_truth_value("F1, F2 lowest", lowest_two(0) && lowest_two(1)),
    ];
    values.extend(
        TRACES.iter().zip(&shares).map(|((trace, _), of)| NamedValue::new(format!("Pc {trace}"), mean(of))),
    );
    Ok(values)
}

/// Returns the mean number of pages that GC frees per victim, for two traces of the Delta-FTL paper: C8 on the
/// baseline, and F2 with deltas.
fn freed_pages_per_victim_of_two_traces(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    Ok(vec![
        NamedValue::new("C8 baseline", freed_pages_per_victim(runs.finished_run_named("C8/baseline")?)),
        NamedValue::new("F2 at 0.20", freed_pages_per_victim(runs.finished_run_named("F2/0.20")?)),
    ])
}

/// Returns whether GC frees more pages per victim on the traces F1 and F2 (Financial1 and Financial2) than on every
/// other trace, in the runs of the baseline.
fn whether_gc_frees_most_pages_on_financial_traces(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let of: Result<Vec<f64>> = TRACES
        .iter()
        .map(|(trace, _)| Ok(freed_pages_per_victim(runs.finished_run_named(&format!("{trace}/baseline"))?)))
        .collect();
    let of = of?;
    let lowest = of[0].min(of[1]);
    Ok(vec![named_truth_value("", of[2..].iter().all(|other| *other < lowest))])
}
