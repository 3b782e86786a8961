//! Experiments of the Remap-SSD paper (RM, section 5), and how the values of its rows are computed from them.
//!
//! The device is the paper's emulated drive of 36 GiB with 576 superblocks over 16 dies. Scaled down, it has the same
//! number of superblocks with a sixteenth of the pages each. The reverse map (in NVRAM or in a log) is also a sixteenth
//! as large. So scanning the whole log takes as long, relative to copying a superblock, as in the paper. The price is
//! that a superblock has a sixteenth of the entries. Segments therefore have 256 bytes instead of 1 KiB; they still
//! leave 9 % of the NVRAM unused, those of the paper 2 %.
//!
//! Each load runs on a drive that was filled before, and writes 0.9 of its capacity, so that GC runs with every scheme.
//! The first half of the load ages the drive, and the second half is measured. Applications are host models in closed
//! loop. Performance is requests per second of device time, so that both saved writes and scans of a log count.
//! `NoRemap` is the plain page map; hosts then copy by reading and writing.

mod causes;

use super::experiment::{
    Experiment, ExperimentConditions, ExperimentRecords, ExperimentRun, ExperimentSize, MAX_CURVE_POINTS,
};
use super::request_source::RequestSource;
use super::verdict::NamedValue;

/// Sizes of the reverse map (log on flash, or NVRAM) for the drive of 36 GiB, MB, as in the Remap-SSD paper.
const REVERSE_MAP_MB: [u32; 3] = [40, 80, 120];
/// Sizes of the reverse map (log on flash, or NVRAM), MB, with which no write of duplicate content has to be programmed
/// for lack of entries, so that kinds of reverse map differ only in the cost of scans.
const AMPLE_REVERSE_MAP_MB: [u32; 3] = [120, 240, 480];
/// Sizes of the reverse map (log on flash, or NVRAM) for the drive of 288 GiB, MB.
const LARGE_DRIVE_REVERSE_MAP_MB: [u32; 3] = [160, 320, 640];
/// Kinds of reverse map (which logical pages share a flash page) that are compared: name in our experiments, and name
/// in the configuration.
const REVERSE_MAP_KINDS: [(&str, &str); 3] =
    [("segments", "segments"), ("nlog", "nvram-log"), ("flog", "flash-log")];
/// Names of the generated loads of section 5.2 of the Remap-SSD paper.
const GENERATED_LOADS: [&str; 4] = ["fileserver", "oltp", "ycsb", "random writes"];

/// The Remap-SSD paper's drive with the capacity that the experiments use.
struct ScaledDrive {
    /// Capacity of the drive as a share of that of the paper's drive.
    share_of_paper_capacity: f64,
    /// Number of pages that the drive exports.
    logical_pages: f64,
    /// Settings of the drive and of its timing, `section.key=value`.
    settings: Vec<String>,
}

/// Returns the settings of the Remap-SSD paper's drive at the requested size, its scale (1 = the paper's capacity), and
/// its number of logical pages.
fn scaled_drive(conditions: &ExperimentConditions) -> ScaledDrive {
    let (scale, blocks, pages) = match conditions.size {
        ExperimentSize::Quick => (1.0 / 16.0, 576, 64),
        ExperimentSize::Full => (1.0, 576, 1024),
    };
    let settings = vec![
        "device.preset=rm-36g".to_owned(),
        format!("device.blocks_per_plane={blocks}"),
        format!("device.pages_per_block={pages}"),
        "timing.mode=event".to_owned(),
        "replay.arrival=closed".to_owned(),
        format!("replay.seed={}", conditions.seed),
    ];
    ScaledDrive {
        share_of_paper_capacity: scale,
        logical_pages: f64::from(blocks * pages * 16) / 1.125,
        settings,
    }
}

/// Returns the settings for a reverse map of kind `map` with `mb` MB of NVRAM or log.
fn reverse_map_settings(map: &str, mb: f64) -> Vec<String> {
    vec![format!("remap.reverse_map={map}"), format!("remap.size_mib={mb}")]
}

/// Returns the generated load `name` of the Remap-SSD paper's section 5.2, which writes a few times the exported
/// capacity. The number of distinct contents is `share` times the logical pages.
fn request_source_of_load(name: &str, logical: f64, share: f64, seed: u64) -> RequestSource {
    let pages = 0.9 * logical;
    let contents = format!("seed={seed}+zipf:a=0.2,contents={}", (share * logical).round());
    match name {
        // A slot is four mean file sizes; a loop writes 36 pages.
        "fileserver" => RequestSource::Substitute(format!(
            "fileserver:files={},mean=32,loops={},{contents}",
            (pages / 128.0).round(),
            (2.0 * logical / 36.0).round()
        )),
        // A round writes about 164 pages in addition to the log.
        "oltp" => RequestSource::Substitute(format!(
            "oltp:pages={},rounds={},{contents}",
            pages.round() - 2560.0,
            (2.0 * logical / 164.0).round()
        )),
        "ycsb" => RequestSource::Substitute(format!(
            "ycsb:records={},updates={},checkpoint={},{contents}",
            (pages * 2.5).round(),
            (2.0 * logical).round(),
            (logical / 25.0).round()
        )),
        _ => RequestSource::Generated(format!(
            "uniform:pages={},requests={},{contents}",
            pages.round(),
            (4.0 * logical).round()
        )),
    }
}

/// Returns all experiments for the Remap-SSD paper (RM).
pub fn experiments(conditions: &ExperimentConditions) -> Vec<Experiment> {
    let catalogue = [
        deduplication_experiments(conditions),
        experiments_on_traces(conditions),
        sqlite_experiments(conditions),
        f2fs_experiments(conditions),
    ]
    .concat();
    let causes = causes::difference_cause_experiments(conditions, &catalogue);
    [catalogue, causes].concat()
}

/// Returns the experiments that deduplicate the generated loads of section 5.2 of the Remap-SSD paper, with every kind
/// and size of reverse map.
fn deduplication_experiments(conditions: &ExperimentConditions) -> Vec<Experiment> {
    let ScaledDrive { share_of_paper_capacity: scale, logical_pages, settings } = scaled_drive(conditions);
    let state = ["precondition.mode=aged", "precondition.filled=true"].map(str::to_owned).to_vec();
    let base = [settings, state, nvram_segment_size_setting(conditions.size)].concat();
    let mut experiments = Vec::new();
    for name in GENERATED_LOADS {
        let input = (request_source_of_load(name, logical_pages, 0.7, conditions.seed), scale);
        let mut add = |variant: &str, design, extra: Vec<String>| {
            let name = format!("{name}/{variant}");
            experiments.push(Experiment::new_replay(
                name,
                input.clone(),
                design,
                [base.clone(), extra].concat(),
            ));
        };
        add("noremap", "page-map", vec![]);
        add("opt", "remap", vec!["remap.reverse_map=ideal".to_owned()]);
        for (scheme, map) in REVERSE_MAP_KINDS {
            for mb in REVERSE_MAP_MB {
                add(&format!("{scheme}-{mb}"), "remap", reverse_map_settings(map, f64::from(mb) * scale));
            }
        }
        if name != GENERATED_LOADS[3] {
            continue;
        }
        for (scheme, map) in &REVERSE_MAP_KINDS[..2] {
            for mb in &AMPLE_REVERSE_MAP_MB[1..] {
                add(&format!("{scheme}-{mb}"), "remap", reverse_map_settings(map, f64::from(*mb) * scale));
            }
        }
        // Comparison with the engine `timeline`, in which a die has no queue but only a time from which on it is idle.
        let timeline = || vec!["timing.mode=timeline".to_owned()];
        for (scheme, map) in REVERSE_MAP_KINDS {
            let settings = [timeline(), reverse_map_settings(map, 120.0 * scale)].concat();
            add(&format!("timeline-{scheme}-120"), "remap", settings);
        }
    }
    experiments.extend(segment_size_experiments(conditions));
    experiments
}

/// Returns the setting for the size of NVRAM segments: the Remap-SSD paper's 1 KiB, or less if superblocks are scaled
/// down.
fn nvram_segment_size_setting(size: ExperimentSize) -> Vec<String> {
    match size {
        ExperimentSize::Quick => vec!["remap.segment_bytes=256".to_owned()],
        ExperimentSize::Full => Vec::new(),
    }
}

/// Returns experiments with NVRAM segments of two sizes. Each superblock wastes half a segment on average, and each
/// segment has a header of fixed size. So the wasted share of the NVRAM is that of the Remap-SSD paper only if
/// superblocks and segments keep their sizes; the scaled-down device has fewer superblocks instead.
fn segment_size_experiments(conditions: &ExperimentConditions) -> Vec<Experiment> {
    let blocks = match conditions.size {
        ExperimentSize::Quick => 72,
        ExperimentSize::Full => 576,
    };
    let ScaledDrive { settings, .. } = scaled_drive(conditions);
    let scale = f64::from(blocks) / 576.0;
    let logical = f64::from(blocks * 1024 * 16) / 1.125;
    let shape = [
        format!("device.blocks_per_plane={blocks}"),
        "device.pages_per_block=1024".to_owned(),
        "precondition.mode=aged".to_owned(),
    ];
    [1024, 8192]
        .map(|bytes| {
            let sizes = [
                reverse_map_settings("segments", 40.0 * scale),
                vec![format!("remap.segment_bytes={bytes}")],
            ]
            .concat();
            let input = (request_source_of_load("random writes", logical, 0.9, conditions.seed), scale);
            let settings = [settings.clone(), shape.to_vec(), sizes].concat();
            Experiment::new_replay(format!("segment/{bytes}"), input, "remap", settings)
        })
        .into()
}

/// Returns experiments with real contents on the Remap-SSD paper's 288 GiB drive with 2,304 superblocks over 32 dies.
/// Scaled down, superblocks, trace and reverse map all shrink by 32. The drive is in the state of Figure 6: random
/// writes until the first GC, and 70 % of the NVRAM filled with valid entries of random pages. Duplicates are 33 to 92
/// % of the writes in the three FIU systems (section 3.1); the substitutes have the least share for homes and the
/// greatest for mail. At full size a drive takes 2.5 GB of memory.
fn experiments_on_traces(conditions: &ExperimentConditions) -> Vec<Experiment> {
    let size = match conditions.size {
        ExperimentSize::Quick => 1.0 / 32.0,
        ExperimentSize::Full => 1.0,
    };
    let mut experiments = Vec::new();
    for (trace, name, duplicates) in [("homes", "fiu-homes", 0.33), ("mail", "fiu-mail", 0.92)] {
        let keys = format!(",duplicates={duplicates},seed={}", conditions.seed);
        let (source, scale) = conditions.traces.original_or_substitute(name, &keys, size);
        let drive = [
            "device.dies_per_channel=4".to_owned(),
            "device.superblock_planes=32".to_owned(),
            "device.blocks_per_plane=2304".to_owned(),
            format!("device.pages_per_block={}", (1024.0 * size).round()),
            "replay.addresses=compact".to_owned(),
            "precondition.mode=random".to_owned(),
            "precondition.bound_share=0.7".to_owned(),
        ];
        let base =
            [scaled_drive(conditions).settings, nvram_segment_size_setting(conditions.size), drive.to_vec()]
                .concat();
        let mut add = |variant: &str, design, extra: Vec<String>| {
            let input = (source.clone(), scale);
            let name = format!("{trace}/{variant}");
            experiments.push(Experiment::new_replay(name, input, design, [base.clone(), extra].concat()));
        };
        add("noremap", "page-map", vec![]);
        add("opt", "remap", vec!["remap.reverse_map=ideal".to_owned()]);
        for (scheme, map) in REVERSE_MAP_KINDS {
            for mb in LARGE_DRIVE_REVERSE_MAP_MB {
                add(&format!("{scheme}-{mb}"), "remap", reverse_map_settings(map, f64::from(mb) * size));
            }
        }
    }
    experiments
}

/// Returns experiments with all kinds of reverse map for a case study in which the host issues remaps, on a new device
/// with a reverse map of 80 MB. `spec` is the model of the host (file system or database) without its key `remap`.
fn case_study_experiments(conditions: &ExperimentConditions, name: &str, spec: &str) -> Vec<Experiment> {
    let ScaledDrive { share_of_paper_capacity: scale, settings, .. } = scaled_drive(conditions);
    let one = |variant: &str, design, remap: &str, extra: Vec<String>| {
        let source = RequestSource::Substitute(format!("{spec},remap={remap},seed={}", conditions.seed));
        let settings = [settings.clone(), nvram_segment_size_setting(conditions.size), extra].concat();
        Experiment::new_replay(format!("{name}/{variant}"), (source, scale), design, settings)
    };
    let mut experiments = vec![one("noremap", "page-map", "off", vec![])];
    for (scheme, map) in REVERSE_MAP_KINDS {
        let extra = [reverse_map_settings(map, 80.0 * scale), vec!["remap.dedup=false".to_owned()]].concat();
        experiments.push(one(scheme, "remap", "on", extra));
    }
    experiments
}

/// Returns the experiments with two tests of `SQLite`'s benchmark, whose checkpoints remap pages.
fn sqlite_experiments(conditions: &ExperimentConditions) -> Vec<Experiment> {
    let scale = scaled_drive(conditions).share_of_paper_capacity;
    let entries = |full: f64| (full * scale).round();
    [
        case_study_experiments(conditions, "fillrandom", &format!("sqlite-wal:entries={}", entries(1.6e6))),
        case_study_experiments(
            conditions,
            "fillseq",
            &format!("sqlite-wal:entries={},order=sequential", entries(1.5e6)),
        )
        .into_iter()
        .map(Experiment::with_progress_curve)
        .collect(),
    ]
    .concat()
}

/// Returns the experiments with the file system F2FS, which fills 0.9 of the device and whose files take 0.7 of that.
fn f2fs_experiments(conditions: &ExperimentConditions) -> Vec<Experiment> {
    let pages = 0.9 * scaled_drive(conditions).logical_pages;
    let segments = (pages / 512.0).floor();
    let files = (pages * 0.7 / 33.0).floor();
    case_study_experiments(
        conditions,
        "f2fs",
        &format!("f2fs-clean:segments={segments},files={files},ops={}", files * 4.0),
    )
}

/// Result of computing values; the error is the reason why a needed experiment has no record.
type Result<T> = std::result::Result<T, String>;

/// Computes our values for one row (reported result) of the Remap-SSD paper from the finished experiments; `None` if no
/// experiment is about the row.
pub fn row_values_from_experiments(id: &str, runs: &ExperimentRecords) -> Option<Result<Vec<NamedValue>>> {
    let row = row_values_of_unchecked_traces(id, runs)?;
    let is_of_traces = ["RM-24", "RM-25", "RM-26", "RM-27", "RM-28"].contains(&id);
    Some(if is_of_traces {
        row.and_then(|values| require_duplicates_in_traces(runs).map(|()| values))
    } else {
        row
    })
}

/// Returns an error if the traces have hardly any duplicates. Rows (reported results) about deduplicated traces mean
/// nothing then.
fn require_duplicates_in_traces(runs: &ExperimentRecords) -> Result<()> {
    for trace in ["homes", "mail"] {
        let opt = runs.finished_run_named(&format!("{trace}/opt"))?;
        let (deduplicated, writes) =
            (opt.figure("writes_by_form.deduplicated"), opt.figure("host_page_writes"));
        if deduplicated < 0.01 * writes {
            let record = opt.record();
            let advice = if record.substitute {
                String::new()
            } else {
                format!(
                    ": replace fiu-{trace}.* in the folder of --traces by a file with fingerprints of page contents, or \
                     remove it, so that the substitute is run, and repeat with --fresh"
                )
            };
            return Err(format!(
                "only {:.2} % of the writes of the trace fiu-{trace} ({}) were deduplicated, but a result about \
                 deduplicated traces needs at least 1 %{advice}",
                100.0 * deduplicated / writes,
                record.input
            ));
        }
    }
    Ok(())
}

/// Computes Wearwell's values for one row (reported result) of the Remap-SSD paper, without the check that the traces
/// have duplicates.
fn row_values_of_unchecked_traces(id: &str, runs: &ExperimentRecords) -> Option<Result<Vec<NamedValue>>> {
    Some(match id {
        "RM-15" => {
            values_by_load_and_duplicate_percent(runs, &[("10", "opt-10"), ("30", "opt")], |opt, none| {
                requests_per_s(opt) / requests_per_s(none)
            })
        }
        "RM-16" => values_by_load_and_duplicate_percent(runs, &[("30", "opt")], |opt, none| {
            100.0 * (1.0 - write_amplification(opt) / write_amplification(none))
        }),
        "RM-17" => percents_of_remaps_done_by_writes(runs, 40),
        "RM-18" => percents_of_remaps_done_by_writes(runs, 80),
        "RM-19" => percents_of_remaps_done_by_writes(runs, 120),
        "RM-20" => mean_throughput_gains_over_reverse_map_logs(runs, &GENERATED_LOADS, 40),
        "RM-21" => mean_throughput_gains_over_reverse_map_logs(runs, &GENERATED_LOADS, 80),
        "RM-22" => {
            mean_throughput_gains_over_reverse_map_logs(runs, &GENERATED_LOADS, 120).and_then(|values| {
                let on_timelines = percent_gains_over_reverse_map_logs(|scheme| {
                    let of = |scheme: &str| {
                        runs.finished_run_named(&format!("random writes/timeline-{scheme}-120"))
                            .map(requests_per_s)
                    };
                    Ok(of("segments")? / of(scheme)?)
                })?;
                let renamed = on_timelines
                    .into_iter()
                    .map(|value| NamedValue::new(format!("{}, timelines", value.of), value.value));
                Ok(values.into_iter().chain(renamed).collect())
            })
        }
        "RM-23" => REVERSE_MAP_MB
            .iter()
            .map(|&mb| Ok(NamedValue::new(format!("{mb} MB"), extra_write_amplification_percent(runs, mb)?)))
            .collect(),
        "RM-24" => throughput_gains_by_reverse_map_size(runs, "flog"),
        "RM-25" => throughput_gains_by_reverse_map_size(runs, "nlog"),
        "RM-26" => throughput_losses_against_ideal_map(runs),
        "RM-27" => ["homes", "mail"]
            .iter()
            .map(|trace| {
                Ok(NamedValue::new(*trace, ratio_to_baseline(runs, trace, "opt", "noremap", requests_per_s)?))
            })
            .collect(),
        "RM-28" => [("FLog", "flog"), ("NLog", "nlog")]
            .iter()
            .map(|(name, scheme)| {
                Ok(NamedValue::new(
                    *name,
                    mean_ratio_to_baseline(
                        runs,
                        &["homes", "mail"],
                        &format!("{scheme}-320"),
                        "segments-320",
                        write_amplification,
                    )?,
                ))
            })
            .collect(),
        "RM-29" => effect_of_nvram_segment_size(runs),
        "RM-33" => Ok(vec![]).and_then(|_: Vec<NamedValue>| {
            let left = mean_ratio_to_baseline(runs, &SQLITE_TESTS, "segments", "noremap", |run| {
                run.figure("programs")
            })?;
            Ok(vec![NamedValue::new("", 100.0 * (1.0 - left))])
        }),
        "RM-34" => percent_gains_over_reverse_map_logs(|scheme| {
            mean_ratio_to_baseline(runs, &SQLITE_TESTS, "segments", scheme, requests_per_s_after_first_erase)
        }),
        "RM-36" => largest_referrer_scan_kb(runs),
        "RM-37" => host_pages_per_s_after_first_erase(runs),
        "RM-38" => SQLITE_TESTS
            .iter()
            .map(|test| {
                let begins = |variant: &str| {
                    runs.finished_run_named(&format!("{test}/{variant}"))?
                        .required_figure("first_erase.share")
                };
                Ok(NamedValue::new(*test, f64::from(u8::from(begins("segments")? > begins("noremap")?))))
            })
            .collect(),
        "RM-39" => phase_speedup_percent(runs, "noremap", 1),
        "RM-40" => phase_speedup_percent(runs, "noremap", 2),
        "RM-41" => percent_gains_over_reverse_map_logs(|scheme| phase_duration_ratio(runs, scheme, 0)),
        "RM-42" => percent_gains_over_reverse_map_logs(|scheme| phase_duration_ratio(runs, scheme, 2)),
        "RM-43" => performance_losses_by_reverse_map(runs),
        _ => return None,
    })
}

/// Names of the tests of `SQLite`'s benchmark that are run, as in the Remap-SSD paper.
const SQLITE_TESTS: [&str; 2] = ["fillrandom", "fillseq"];

/// Returns the requests that a run completes per second of simulated time.
fn requests_per_s(run: ExperimentRun<'_>) -> f64 {
    run.figure("trace.requests") / run.figure("timing.device_s")
}

/// Returns the requests that a run completes per second of simulated time, counted from the run's first erase on.
fn requests_per_s_after_first_erase(run: ExperimentRun<'_>) -> f64 {
    run.figure("after_first_erase.requests_per_s")
}

/// Returns the write amplification of a run.
fn write_amplification(run: ExperimentRun<'_>) -> f64 {
    run.figure("write_amplification")
}

/// Returns `value` of the run of a variant on a load, divided by that of the baseline on this load.
fn ratio_to_baseline(
    runs: &ExperimentRecords,
    load_name: &str,
    variant: &str,
    baseline: &str,
    value: impl Fn(ExperimentRun<'_>) -> f64,
) -> Result<f64> {
    Ok(value(runs.finished_run_named(&format!("{load_name}/{variant}"))?)
        / value(runs.finished_run_named(&format!("{load_name}/{baseline}"))?))
}

/// Returns the mean over several loads of the ratio that [`ratio_to_baseline`] computes.
fn mean_ratio_to_baseline(
    runs: &ExperimentRecords,
    load_names: &[&str],
    variant: &str,
    baseline: &str,
    value: impl Fn(ExperimentRun<'_>) -> f64 + Copy,
) -> Result<f64> {
    let ratios: Result<Vec<f64>> =
        load_names.iter().map(|of| ratio_to_baseline(runs, of, variant, baseline, value)).collect();
    Ok(ratios?.iter().sum::<f64>() / load_names.len() as f64)
}

/// Computes `value` for every generated load and every share of duplicates, from a run of `Opt` (ideal reverse map) and
/// the run of `NoRemap`. Each entry of `duplicate_percents_and_runs` is a percentage of duplicates and the name of the
/// `Opt` run with it. `NoRemap` does not deduplicate, so its run is the same for all shares.
fn values_by_load_and_duplicate_percent(
    runs: &ExperimentRecords,
    duplicate_percents_and_runs: &[(&str, &str)],
    value: impl Fn(ExperimentRun<'_>, ExperimentRun<'_>) -> f64,
) -> Result<Vec<NamedValue>> {
    let of = |(duplicates, scheme): (&str, &str), load: &str| {
        let (opt, none) = (
            runs.finished_run_named(&format!("{load}/{scheme}"))?,
            runs.finished_run_named(&format!("{load}/noremap"))?,
        );
        Ok(NamedValue::new(format!("{load} {duplicates} %"), value(opt, none)))
    };
    duplicate_percents_and_runs
        .iter()
        .flat_map(|&share| GENERATED_LOADS.map(|load| of(share, load)))
        .collect()
}

/// Returns the share of the wanted remaps (mappings of a further LPN to a stored page) that became page programs
/// because no NVRAM entry was free, percent.
fn percents_of_remaps_done_by_writes(runs: &ExperimentRecords, mb: u32) -> Result<Vec<NamedValue>> {
    let of = |load: &&str| {
        let run = runs.finished_run_named(&format!("{load}/segments-{mb}"))?;
        let full = run.figure("parts.demoted_full");
        let all = full + run.figure("parts.demoted_saturated") + run.figure("writes_by_form.deduplicated");
        Ok(NamedValue::new(*load, 100.0 * full / all))
    };
    GENERATED_LOADS.iter().map(of).collect()
}

/// Returns the performance gain of Remap-SSD over the reverse map in a log on flash (`FLog`) and in a log in NVRAM
/// (`NLog`), percent. `ratio` receives the name of the log, `flog` or `nlog`, and returns Remap-SSD's performance
/// divided by that of the log.
fn percent_gains_over_reverse_map_logs(ratio: impl Fn(&str) -> Result<f64>) -> Result<Vec<NamedValue>> {
    [("FLog", "flog"), ("NLog", "nlog")]
        .iter()
        .map(|(name, scheme)| Ok(NamedValue::new(*name, 100.0 * (ratio(scheme)? - 1.0))))
        .collect()
}

/// Returns Remap-SSD's mean gain in requests per second over reverse maps in a log, percent.
fn mean_throughput_gains_over_reverse_map_logs(
    runs: &ExperimentRecords,
    load_names: &[&str],
    mb: u32,
) -> Result<Vec<NamedValue>> {
    percent_gains_over_reverse_map_logs(|scheme| {
        mean_ratio_to_baseline(
            runs,
            load_names,
            &format!("segments-{mb}"),
            &format!("{scheme}-{mb}"),
            requests_per_s,
        )
    })
}

/// Returns how much more write amplification Remap-SSD has than the two designs with the reverse map in a log, on
/// average, percent.
fn extra_write_amplification_percent(runs: &ExperimentRecords, mb: u32) -> Result<f64> {
    let over = |scheme: &str| {
        mean_ratio_to_baseline(
            runs,
            &GENERATED_LOADS,
            &format!("segments-{mb}"),
            &format!("{scheme}-{mb}"),
            write_amplification,
        )
    };
    Ok(100.0 * (f64::midpoint(over("flog")?, over("nlog")?) - 1.0))
}

/// Returns Remap-SSD's gain in requests per second over the design `scheme` on deduplicated traces, percent, for each
/// size of the reverse map.
fn throughput_gains_by_reverse_map_size(runs: &ExperimentRecords, scheme: &str) -> Result<Vec<NamedValue>> {
    let of = |mb: &u32| {
        let gain = mean_ratio_to_baseline(
            runs,
            &["homes", "mail"],
            &format!("segments-{mb}"),
            &format!("{scheme}-{mb}"),
            requests_per_s,
        )?;
        Ok(NamedValue::new(format!("{mb} MB"), 100.0 * (gain - 1.0)))
    };
    LARGE_DRIVE_REVERSE_MAP_MB.iter().map(of).collect()
}

/// Returns Remap-SSD's loss of requests per second against an ideal reverse map, percent: mean and largest.
fn throughput_losses_against_ideal_map(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let mut gaps = Vec::new();
    for trace in ["homes", "mail"] {
        for mb in LARGE_DRIVE_REVERSE_MAP_MB {
            gaps.push(
                100.0
                    * (1.0
                        - ratio_to_baseline(runs, trace, &format!("segments-{mb}"), "opt", requests_per_s)?),
            );
        }
    }
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    Ok(vec![
        NamedValue::new("mean", mean),
        NamedValue::new("largest", gaps.into_iter().fold(f64::MIN, f64::max)),
    ])
}

/// Returns what segments of 8192 instead of 1024 bytes cost: throughput and write amplification, percent.
fn effect_of_nvram_segment_size(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let of = |value: fn(ExperimentRun<'_>) -> f64| ratio_to_baseline(runs, "segment", "8192", "1024", value);
    Ok(vec![
        NamedValue::new("performance lost", 100.0 * (1.0 - of(requests_per_s)?)),
        NamedValue::new("write amplification", 100.0 * (of(write_amplification)? - 1.0)),
    ])
}

/// Returns the size of the largest set of reverse-map entries that GC scanned for one victim in the `SQLite` runs, kB.
fn largest_referrer_scan_kb(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let sizes: Result<Vec<f64>> = SQLITE_TESTS
        .iter()
        .map(|test| {
            runs.finished_run_named(&format!("{test}/segments"))?.required_figure("parts.largest_group_bytes")
        })
        .collect();
    Ok(vec![NamedValue::new("", sizes?.into_iter().fold(0.0, f64::max) / 1000.0)])
}

/// Returns the host pages written or remapped per second after Remap-SSD's first erase, with Remap-SSD and without
/// remaps, and whether the run without remaps is faster. The measured period is a tenth of Remap-SSD's run, as in the
/// paper's Figure 8b.
fn host_pages_per_s_after_first_erase(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let (remap, none) =
        (runs.finished_run_named("fillseq/segments")?, runs.finished_run_named("fillseq/noremap")?);
    let from = remap.required_figure("first_erase.device_s")?;
    let to = from + 0.1 * remap.required_figure("timing.device_s")?;
    let end_without_remaps = none.required_figure("timing.device_s")?;
    if to > end_without_remaps {
        return Err(format!(
            "the experiments fillseq/segments and fillseq/noremap cannot be compared from {from:.1} to {to:.1} s of \
             simulated time (a tenth of the run of fillseq/segments, from its first erase on), because \
             fillseq/noremap ends after {end_without_remaps:.1} s: give both experiments more requests"
        ));
    }
    let rate = |run: ExperimentRun<'_>| {
        (host_pages_written_until(run, to) - host_pages_written_until(run, from)) / (to - from)
    };
    let (remap, none) = (rate(remap), rate(none));
    Ok(vec![
        NamedValue::new("NoRemap is faster", f64::from(u8::from(none > remap))),
        NamedValue::new("NoRemap, pages/s", none),
        NamedValue::new("Remap-SSD, pages/s", remap),
    ])
}

/// Returns the number of host pages written until `device_s` seconds of simulated time, interpolated linearly between
/// the points of the recorded curve.
fn host_pages_written_until(run: ExperimentRun<'_>, device_s: f64) -> f64 {
    let point =
        |k: usize| (run.figure(&format!("curve.{k}.device_s")), run.figure(&format!("curve.{k}.host_pages")));
    let mut last = (0.0, 0.0);
    for next in (0..MAX_CURVE_POINTS).map(point).filter(|point| point.0 > 0.0) {
        if next.0 >= device_s {
            return last.1 + (next.1 - last.1) * (device_s - last.0) / (next.0 - last.0);
        }
        last = next;
    }
    last.1
}

/// Returns the simulated time that a phase of the trace takes, seconds.
fn phase_duration_s(run: ExperimentRun<'_>, phase: usize) -> f64 {
    let end = |phase: usize| run.figure(&format!("phases.{phase}.device_s"));
    if phase == 0 { end(0) } else { end(phase) - end(phase - 1) }
}

/// Returns the duration of a phase of the F2FS load in the run of `baseline`, divided by that of Remap-SSD.
fn phase_duration_ratio(runs: &ExperimentRecords, baseline: &str, phase: usize) -> Result<f64> {
    ratio_to_baseline(runs, "f2fs", baseline, "segments", |run| phase_duration_s(run, phase))
}

/// Returns by how many percent phase number `phase` of the F2FS load is faster with Remap-SSD than in the run of the
/// design `baseline`: one value.
fn phase_speedup_percent(runs: &ExperimentRecords, baseline: &str, phase: usize) -> Result<Vec<NamedValue>> {
    Ok(vec![NamedValue::new("", 100.0 * (phase_duration_ratio(runs, baseline, phase)? - 1.0))])
}

/// Returns the performance lost relative to `Opt` (ideal reverse map), percent, for reverse maps so large that hardly
/// any remap is executed as a write. What remains is the cost of scans.
fn performance_losses_by_reverse_map(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let opt = requests_per_s(runs.finished_run_named("random writes/opt")?);
    let lost = |scheme: &str| -> Result<Vec<f64>> {
        let of = |mb: &u32| {
            let run = runs.finished_run_named(&format!("random writes/{scheme}-{mb}"))?;
            let demoted = run.figure("parts.demoted_full") / run.figure("host_page_writes");
            if demoted > 0.01 {
                return Err(format!(
                    "in experiment random writes/{scheme}-{mb}, {:.1} % of the host page writes are remaps that were \
                     executed as writes because the reverse map of {mb} MB was full; this result compares reverse maps \
                     with enough room, so the limit is 1 %",
                    100.0 * demoted
                ));
            }
            Ok(100.0 * (1.0 - requests_per_s(run) / opt))
        };
        AMPLE_REVERSE_MAP_MB.iter().map(of).collect()
    };
    let (nlog, segments) = (lost("nlog")?, lost("segments")?);
    let holds = |of: &str, statement: bool| NamedValue::new(of, f64::from(u8::from(statement)));
    let grows = nlog.windows(2).all(|pair| pair[1] > pair[0] + 1.0);
    let spread = segments.iter().fold(f64::MIN, |most, &lost| most.max(lost))
        - segments.iter().fold(f64::MAX, |least, &lost| least.min(lost));
    let named = |name: &str, lost: &[f64]| -> Vec<NamedValue> {
        AMPLE_REVERSE_MAP_MB
            .iter()
            .zip(lost)
            .map(|(mb, lost)| NamedValue::new(format!("{name} {mb} MB, %"), *lost))
            .collect()
    };
    let judged = vec![holds("NLog loses more", grows), holds("Remap-SSD does not", spread < 1.0)];
    Ok([judged, named("NLog", &nlog), named("Remap-SSD", &segments)].concat())
}
