//! Experiments of the integrated lifetime management paper (IL, section IV), and how the values of its rows are
//! computed from them.
//!
//! The device is the paper's drive, new. A scaled-down run has a 16th of the requests, of their addresses and of the
//! drive's blocks, and 16 times the rated cycles. So the bytes that the drive can take in its life, the capacity of an
//! epoch and the share of time that GC takes are those of the paper. Each request arrives its original gap after the
//! preceding completion, so that a throttled write delays all later ones; only then can throttling extend a life.
//! Lifetime is the budget of program/erase cycles divided by the rate of page programs in device time. For managed
//! configurations, the rate is taken after the first epoch, in which the lifetime manager has no measurements yet. An
//! epoch is the paper's 300 s, of which five years have 525,600.
//!
//! The generated loads that replace the traces write at the rate that follows from Table I without write amplification.
//! As the drive also programs pages for GC, gaps are multiplied by the baseline's programs per host write
//! ([`Trace::programs_per_write_quick_and_full`]) and reduced by the time in which the baseline serves a request, as in
//! a recorded trace. The baseline's lifetime is therefore an input. On a drive that never collects, every configuration
//! keeps the pauses with which the baseline of that drive, at one program per host write, has this lifetime.
//!
//! The response time has two definitions, because the chunk buffer acknowledges three of four pages on arrival:
//! - *Equal buffers*: every configuration acknowledges writes from a battery-backed buffer of eight pages. A chunk
//!   takes four of them while it is filled and four while it is written. Without chunks, eight writes may be
//!   unfinished.
//! - *Until programmed*: no write is acknowledged early. The pages of a chunk have the response time of its last write.
//!
//! A control load of unique pages that cannot be compressed runs through the same configurations. No scheme can save
//! writes there, so a gain on this load would show a measurement error. Energies are computed from the printed powers.
//! Values named `2x` use twice the energy of compression, with which the paper's break-even is obtained.

use super::closed_forms::{bytes_per_s_for_lifetime, endurance_budget_bytes};
use super::experiment::{Experiment, ExperimentConditions, ExperimentRecords, ExperimentRun, ExperimentSize};
use super::request_source::RequestSource;
use super::verdict::NamedValue;

/// A trace of the integrated lifetime management paper, and its generated substitute.
#[derive(Clone, Copy)]
struct Trace {
    /// Name of the trace in the paper; `substitute_name` is the name of the generated load that replaces the trace.
    name: &'static str,
    /// Name of the generated load that replaces the trace.
    substitute_name: &'static str,
    /// Lifetime of the drive with the baseline, years (integrated lifetime management paper, Table I), which determines
    /// the write rate of the substitute.
    paper_baseline_lifetime_years: f64,
    /// Page programs per host write of the baseline, as measured by Wearwell: scaled down, and at full size.
    programs_per_write_quick_and_full: [f64; 2],
}

/// The traces of the integrated lifetime management paper.
const TRACES: [Trace; 3] = [
    Trace {
        name: "WKSN",
        substitute_name: "wksn",
        paper_baseline_lifetime_years: 6.8,
        programs_per_write_quick_and_full: [1.001, 1.001],
    },
    Trace {
        name: "Media",
        substitute_name: "media",
        paper_baseline_lifetime_years: 3.8,
        programs_per_write_quick_and_full: [1.075, 1.079],
    },
    Trace {
        name: "DVMT",
        substitute_name: "dvmt",
        paper_baseline_lifetime_years: 3.04,
        programs_per_write_quick_and_full: [1.137, 1.140],
    },
];
/// Names of the compared configurations of lifetime management (the paper's schemes).
const LIFETIME_SCHEMES: [&str; 5] = ["baseline", "throttling", "compression", "dedup", "integrated"];
/// Number of host reads per host write in the generated loads that replace the paper's traces.
const READS_PER_WRITE: f64 = 0.3;
/// Writes per second of the synthetic load: 1.97 MB/s, 1.5 times what the drive's target lifetime allows without GC.
const SYNTHETIC_LOAD_WRITES_PER_S: f64 = 480.0;
/// Writes per second of the control load, whose pages are unique and incompressible: 0.98 MB/s, less than the drive's
/// target lifetime allows.
const INCOMPRESSIBLE_LOAD_WRITES_PER_S: f64 = 240.0;
/// Number of page addresses of the synthetic loads at full size: most pages of the drive, so that GC runs.
const SYNTHETIC_LOAD_PAGES: f64 = 14e6;

/// End of the name of a variant without GC. The drive has [`LARGE_DRIVE_SIZE_FACTOR`] times the paper's capacity and so
/// never needs GC; its rated cycles are reduced, so that it can take as many bytes in its life as the paper's drive.
const WITHOUT_GC_SUFFIX: &str = ", never collected";
/// Name of the runs of compression without GC.
const COMPRESSION_WITHOUT_GC_RUN_NAME: &str = "compression, never collected";
/// Settings with which compression and decompression take no time. The energy of compression stays, because the energy
/// model has times of its own.
const NO_CODEC_TIME: [&str; 2] = ["timing.compress_us=0", "timing.decompress_us=0"];
/// Size of the large drive in the runs of compression without GC, as a multiple of the paper's drive.
const LARGE_DRIVE_SIZE_FACTOR: u32 = 15;

/// Shares of the writes that repeat an earlier page content, in variants of the generated load for the trace Media
/// (whose own share is 0.003). The first is less than the break-even of deduplication, the second greater.
const REPEATED_WRITE_SHARES: [&str; 2] = ["0.018", "0.025"];

/// Moment at which a write is acknowledged to the host.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AcknowledgeMoment {
    /// The write is acknowledged when it is in the write buffer, of eight pages in every configuration.
    WhenBuffered,
    /// The write is acknowledged when its page has been programmed.
    WhenProgrammed,
}

impl AcknowledgeMoment {
    /// Returns the response time of a write on an idle drive without deduplication, compression and throttling,
    /// seconds.
    fn idle_write_response_s(self) -> f64 {
        match self {
            Self::WhenBuffered => 0.0,
            Self::WhenProgrammed => 610e-6,
        }
    }

    /// Returns how many writes may be acknowledged before they are programmed, apart from the four pages in the chunk
    /// buffer. With compression it is one write: the write that completes a chunk of four pages compressed together.
    fn max_buffered_writes(self, scheme: &str) -> u32 {
        match (self, scheme) {
            (Self::WhenProgrammed, _) => 0,
            (Self::WhenBuffered, "compression" | "integrated") => 1,
            (Self::WhenBuffered, _) => 8,
        }
    }

    /// Returns the name of the experiment with a variant of the drive on a trace.
    fn experiment_name(self, trace: &str, variant: &str) -> String {
        let suffix = if self == Self::WhenProgrammed { ", until programmed" } else { "" };
        format!("{trace}/{variant}{suffix}")
    }
}

/// Returns the factor by which the pauses between requests are multiplied, so that the drive programs `writes_per_s`
/// pages per second: `programs_per_write - writes_per_s * (write_s + reads * 60 us)`. A host write causes
/// `programs_per_write` programs, and the drive works `write_s` seconds plus 60 us for each of `reads` page reads per
/// host write. At factor 1 the pauses alone give `writes_per_s` host writes per second.
fn request_gap_multiplier(writes_per_s: f64, programs_per_write: f64, (write_s, reads): (f64, f64)) -> f64 {
    programs_per_write - writes_per_s * (write_s + reads * 60e-6)
}

/// Returns the page writes per second that use up the rated cycles of the paper's drive (64 GiB, 3000 cycles) in this
/// many years.
fn writes_per_s_for_lifetime(years: f64) -> f64 {
    bytes_per_s_for_lifetime(endurance_budget_bytes(64.0 * f64::from(1 << 30), 3000.0), years) / 4096.0
}

/// Returns the scale of the experiments: the share of the paper's (IL) drive, and of its one-day request stream. It is
/// 1 at full size.
fn drive_and_input_scale_of(size: ExperimentSize) -> f64 {
    match size {
        ExperimentSize::Quick => 1.0 / 16.0,
        ExperimentSize::Full => 1.0,
    }
}

/// Returns the settings of the paper's drive with a scheme of lifetime management. The pauses between requests are
/// multiplied by `request_gap_factor`.
fn experiment_settings(
    conditions: &ExperimentConditions,
    scheme: &str,
    acknowledge_moment: AcknowledgeMoment,
    request_gap_factor: f64,
) -> Vec<String> {
    let scale = drive_and_input_scale_of(conditions.size);
    vec![
        "device.preset=il-64g".to_owned(),
        format!("device.blocks_per_plane={}", 8192.0 * scale),
        format!("device.endurance_cycles={}", 3000.0 / scale),
        "timing.mode=event".to_owned(),
        "timing.hash_us=8.6".to_owned(),
        format!("timing.buffered_writes={}", acknowledge_moment.max_buffered_writes(scheme)),
        "replay.arrival=think".to_owned(),
        format!("replay.time_scale={request_gap_factor:.4}"),
        format!("lifetime.schemes={scheme}"),
        format!("replay.seed={}", conditions.seed),
    ]
}

/// Returns the name of the design for a scheme of lifetime management: the page map for the baseline and throttling,
/// which do not examine content, otherwise `integrated`.
fn design_name_of(scheme: &str) -> &'static str {
    match scheme {
        "baseline" | "throttling" => "page-map",
        _ => "integrated",
    }
}

/// Returns all experiments for the integrated lifetime management paper (IL).
pub fn experiments(conditions: &ExperimentConditions) -> Vec<Experiment> {
    let mut experiments: Vec<Experiment> =
        TRACES.into_iter().flat_map(|trace| experiments_on_trace(conditions, trace)).collect();
    for scheme in ["throttling", "integrated"] {
        let load = format!("rate={SYNTHETIC_LOAD_WRITES_PER_S}+dup:share=0.05,compress=0.95");
        let gap_scale = request_gap_multiplier(SYNTHETIC_LOAD_WRITES_PER_S, 1.0, (0.0, 0.0));
        experiments.push(synthetic_experiment(
            conditions,
            "synthetic",
            scheme,
            AcknowledgeMoment::WhenBuffered,
            (load, gap_scale, 40e6),
        ));
    }
    for answer in [AcknowledgeMoment::WhenBuffered, AcknowledgeMoment::WhenProgrammed] {
        for scheme in LIFETIME_SCHEMES {
            let load = format!("rate={INCOMPRESSIBLE_LOAD_WRITES_PER_S}+unique");
            let gap_scale = request_gap_multiplier(
                INCOMPRESSIBLE_LOAD_WRITES_PER_S,
                1.0,
                (answer.idle_write_response_s(), 0.0),
            );
            experiments.push(synthetic_experiment(
                conditions,
                "control",
                scheme,
                answer,
                (load, gap_scale, 20e6),
            ));
        }
    }
    experiments
}

/// Returns the experiments on the substitute of one trace, with all schemes of lifetime management and their variants.
fn experiments_on_trace(conditions: &ExperimentConditions, trace: Trace) -> Vec<Experiment> {
    let scale = drive_and_input_scale_of(conditions.size);
    let programs_per_write =
        trace.programs_per_write_quick_and_full[usize::from(conditions.size == ExperimentSize::Full)];
    let mut experiments = Vec::new();
    let mut add = |variant: &str, scheme: &str, answer: AcknowledgeMoment, extra: &[&str]| {
        let load = format!(
            "{}:scale={scale},seed={}{}",
            trace.substitute_name,
            conditions.seed,
            content_model_with_repeated_pages(variant)
        );
        let times = (answer.idle_write_response_s(), READS_PER_WRITE);
        let gap_scale = request_gap_multiplier(
            writes_per_s_for_lifetime(trace.paper_baseline_lifetime_years),
            if variant.ends_with(WITHOUT_GC_SUFFIX) { 1.0 } else { programs_per_write },
            times,
        );
        let extra = extra.iter().map(|&setting| setting.to_owned());
        let settings =
            experiment_settings(conditions, scheme, answer, gap_scale).into_iter().chain(extra).collect();
        let name = answer.experiment_name(trace.name, variant);
        experiments.push(Experiment::new_replay(
            name,
            (RequestSource::Substitute(load), scale),
            design_name_of(scheme),
            settings,
        ));
    };
    for scheme in LIFETIME_SCHEMES {
        add(scheme, scheme, AcknowledgeMoment::WhenBuffered, &[]);
        // Row IL-08 compares these two schemes on DVMT.
        let is_compared = ["throttling", "integrated"].contains(&scheme);
        if trace.name == "WKSN" || trace.name == "DVMT" && is_compared {
            add(scheme, scheme, AcknowledgeMoment::WhenProgrammed, &[]);
        }
    }
    if trace.name == "WKSN" {
        for scheme in ["compression", "integrated"] {
            let variant = format!("{scheme} without codec time");
            add(&variant, scheme, AcknowledgeMoment::WhenProgrammed, &NO_CODEC_TIME);
        }
    } else {
        let blocks =
            format!("device.blocks_per_plane={}", 8192.0 * scale * f64::from(LARGE_DRIVE_SIZE_FACTOR));
        let cycles =
            format!("device.endurance_cycles={}", 3000.0 / scale / f64::from(LARGE_DRIVE_SIZE_FACTOR));
        // The reasons for the differences in lifetime are tested at both sizes, the others by quick runs alone.
        let mut without_gc = vec![
            ("baseline", "baseline", &[][..]),
            ("compression", "compression", &[]),
            ("compression without codec time", "compression", &NO_CODEC_TIME),
        ];
        if trace.name == "DVMT" && conditions.size == ExperimentSize::Quick {
            without_gc.extend([
                ("throttling", "throttling", &[][..]),
                ("integrated", "integrated", &[]),
                ("integrated-2x", "integrated", &["lifetime.fitted_energy=true"]),
            ]);
        }
        for (variant, scheme, extra) in without_gc {
            let extra: Vec<&str> = [&blocks[..], &cycles[..]].iter().chain(extra).copied().collect();
            add(&format!("{variant}{WITHOUT_GC_SUFFIX}"), scheme, AcknowledgeMoment::WhenBuffered, &extra);
        }
    }
    if trace.name == "Media" && conditions.size == ExperimentSize::Quick {
        for share in REPEATED_WRITE_SHARES {
            for scheme in ["dedup", "integrated"] {
                let variant = format!("{scheme}, {share} repeated");
                add(&variant, scheme, AcknowledgeMoment::WhenBuffered, &[]);
            }
        }
    }
    if trace.name != "Media" {
        add("integrated-2x", "integrated", AcknowledgeMoment::WhenBuffered, &["lifetime.fitted_energy=true"]);
    }
    experiments
}

/// Returns the content model for a variant of the trace Media with another share of repeated pages, which the variant's
/// name states; empty if the name states no share.
fn content_model_with_repeated_pages(variant: &str) -> String {
    let share =
        REPEATED_WRITE_SHARES.into_iter().find(|share| variant.ends_with(&format!("{share} repeated")));
    share.map_or_else(String::new, |share| {
        format!("+dup:share={share},theta=0.9,pool=100000,compress=0.7907,compress_sigma=0.05")
    })
}

/// Returns an experiment with uniform writes over most of the drive; `full_requests` is the number of requests at full
/// size.
fn synthetic_experiment(
    conditions: &ExperimentConditions,
    name: &str,
    scheme: &str,
    acknowledge_moment: AcknowledgeMoment,
    (load, gap_scale, full_requests): (String, f64, f64),
) -> Experiment {
    let scale = drive_and_input_scale_of(conditions.size);
    let (rate, content) = load.split_once('+').unwrap_or((&load, "unique"));
    let load = format!(
        "uniform:write=1.0,pages={},requests={},{rate},seed={}+{content}",
        (SYNTHETIC_LOAD_PAGES * scale).round(),
        (full_requests * scale).round(),
        conditions.seed
    );
    let settings = experiment_settings(conditions, scheme, acknowledge_moment, gap_scale);
    Experiment::new_replay(
        acknowledge_moment.experiment_name(name, scheme),
        (RequestSource::Generated(load), scale),
        design_name_of(scheme),
        settings,
    )
}

/// Result of computing values; the error is the reason why a needed experiment has no record.
type Result<T> = std::result::Result<T, String>;

/// Computes our values for one row (reported result) of the integrated lifetime management paper from the finished
/// experiments; `None` if no experiment is about the row.
pub fn row_values_from_experiments(id: &str, runs: &ExperimentRecords) -> Option<Result<Vec<NamedValue>>> {
    Some(match id {
        "IL-01" => lifetime_values(runs, "WKSN"),
        "IL-02" => lifetime_values(runs, "Media"),
        "IL-03" => lifetime_values(runs, "DVMT"),
        "IL-04" => wksn_response_time_values(runs),
        "IL-05" => energy_saved_values(runs, "WKSN", 1.0),
        "IL-06" => energy_saved_values(runs, "DVMT", -1.0),
        "IL-07" => lifetime_management_decisions(runs),
        "IL-08" => response_times_on_trace_dvmt_us(runs),
        "IL-16" => throttled_lifetime_values(runs),
        "IL-18" => greatest_response_and_energy_gains(runs),
        _ => return None,
    })
}

/// Returns the lifetime of the drive: years of 365 days until the budget of page programs is used, at the measured
/// rate. Runs with lifetime management count from their second epoch on.
fn lifetime_years(run: ExperimentRun<'_>) -> f64 {
    let managed = run.figure("lifetime.years_after_first_epoch");
    if managed > 0.0 { managed } else { run.figure("lifetime.years_by_programs") }
}

/// Returns the page programs of a run per host page write.
fn programs_per_write(run: ExperimentRun<'_>) -> f64 {
    run.figure("programs") / run.figure("host_page_writes")
}

/// Returns, for each scheme on one trace: the lifetime in years, the programs per host write, and the erases per block.
fn lifetime_values(runs: &ExperimentRecords, trace: &str) -> Result<Vec<NamedValue>> {
    let run = |scheme: &str| runs.finished_run_named(&format!("{trace}/{scheme}"));
    let of = |name: &str, figure: fn(ExperimentRun<'_>) -> f64| -> Result<Vec<NamedValue>> {
        LIFETIME_SCHEMES
            .iter()
            .map(|scheme| Ok(NamedValue::new(format!("{name}{scheme}"), figure(run(scheme)?))))
            .collect()
    };
    let whole_run = |run: ExperimentRun<'_>| run.figure("lifetime.years_by_programs");
    let mut values = of("", lifetime_years)?;
    values.extend(of("programs per host write, ", programs_per_write)?);
    values.extend(of("erases per block, ", |run| run.figure("lifetime.mean_erases_per_block"))?);
    if trace != "WKSN" {
        let run = run(COMPRESSION_WITHOUT_GC_RUN_NAME)?;
        values.push(NamedValue::new(
            format!("programs per host write, {COMPRESSION_WITHOUT_GC_RUN_NAME}"),
            programs_per_write(run),
        ));
    }
    values.push(NamedValue::new("first epoch included, throttling", whole_run(run("throttling")?)));
    values.push(NamedValue::new("first epoch included, integrated", whole_run(run("integrated")?)));
    Ok(values)
}

/// Returns the mean time until a write is acknowledged, microseconds. A mean of 0, which a write buffer causes, is
/// absent from a record, so an absent mean is returned as 0.
fn mean_acknowledge_us(run: ExperimentRun<'_>) -> Result<f64> {
    run.required_figure("lifetime.elapsed_s")?;
    Ok(run.figure("latency_us.write.mean"))
}

/// Returns the mean time until a host write is programmed, microseconds. The run must have no write buffer; only the
/// chunk buffer (pages that will be compressed together) may acknowledge writes before they are programmed.
fn mean_time_until_programmed_us(run: ExperimentRun<'_>) -> Result<f64> {
    let charged = run.figure("lifetime.write_until_programmed_us");
    if charged > 0.0 { Ok(charged) } else { mean_acknowledge_us(run) }
}

/// Returns the energy that a run takes per host page write, microjoules.
fn energy_uj_per_page_write(run: ExperimentRun<'_>) -> Result<f64> {
    run.required_figure("lifetime.energy_uj_per_page")
}

/// Returns how much of a value (such as energy) a variant of the drive saves relative to the baseline on the same
/// trace, percent.
fn saved_percent(
    runs: &ExperimentRecords,
    (trace, variant, answer): (&str, &str, AcknowledgeMoment),
    value: impl Fn(ExperimentRun<'_>) -> Result<f64>,
) -> Result<f64> {
    let of = |variant: &str| value(runs.finished_run_named(&answer.experiment_name(trace, variant))?);
    Ok(100.0 * (1.0 - of(variant)? / of("baseline")?))
}

/// Returns what the scheme `integrated` saves relative to the baseline on trace WKSN, percent (response times, and
/// programs per host write), and the mean response times of all schemes, microseconds.
fn wksn_response_time_values(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let through = ("WKSN", "integrated", AcknowledgeMoment::WhenProgrammed);
    let mut values = vec![
        NamedValue::new("until programmed", saved_percent(runs, through, mean_time_until_programmed_us)?),
        // With the chunk buffer counted as acknowledgement: three of four writes have a response time of zero.
        NamedValue::new(
            "acknowledged by the chunk buffer alone",
            saved_percent(runs, through, mean_acknowledge_us)?,
        ),
        NamedValue::new("programs", saved_percent(runs, through, |run| Ok(programs_per_write(run)))?),
    ];
    for scheme in LIFETIME_SCHEMES {
        let run =
            |answer: AcknowledgeMoment| runs.finished_run_named(&answer.experiment_name("WKSN", scheme));
        values.push(NamedValue::new(
            format!("equal buffers, {scheme}, us"),
            mean_acknowledge_us(run(AcknowledgeMoment::WhenBuffered)?)?,
        ));
        values.push(NamedValue::new(
            format!("until programmed, {scheme}, us"),
            mean_time_until_programmed_us(run(AcknowledgeMoment::WhenProgrammed)?)?,
        ));
    }
    Ok(values)
}

/// Returns the mean response times with the schemes `throttling` and `integrated` on trace DVMT, microseconds.
fn response_times_on_trace_dvmt_us(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let mut values = Vec::new();
    for scheme in ["throttling", "integrated"] {
        values.push(NamedValue::new(
            scheme,
            mean_acknowledge_us(
                runs.finished_run_named(&AcknowledgeMoment::WhenBuffered.experiment_name("DVMT", scheme))?,
            )?,
        ));
    }
    for scheme in ["throttling", "integrated"] {
        let run =
            runs.finished_run_named(&AcknowledgeMoment::WhenProgrammed.experiment_name("DVMT", scheme))?;
        values.push(NamedValue::new(
            format!("until programmed, {scheme}"),
            mean_time_until_programmed_us(run)?,
        ));
    }
    Ok(values)
}

/// Returns the lifetime, years, and the programs per host write on the synthetic load, for the two schemes that
/// throttle (`throttling`, `integrated`).
fn throttled_lifetime_values(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let mut values = Vec::new();
    for scheme in ["throttling", "integrated"] {
        let run = runs.finished_run_named(&format!("synthetic/{scheme}"))?;
        values.push(NamedValue::new(scheme, lifetime_years(run)));
        values.push(NamedValue::new(format!("programs per host write, {scheme}"), programs_per_write(run)));
    }
    Ok(values)
}

/// Returns the energy that the scheme `integrated` saves relative to the baseline, percent: with the powers that the
/// paper prints, and with twice the energy of compression. With `sign` -1, returns the increase.
fn energy_saved_values(runs: &ExperimentRecords, trace: &str, sign: f64) -> Result<Vec<NamedValue>> {
    let of = |variant: &str| {
        saved_percent(runs, (trace, variant, AcknowledgeMoment::WhenBuffered), energy_uj_per_page_write)
    };
    Ok(vec![
        NamedValue::new("", sign * of("integrated")?),
        NamedValue::new("2x", sign * of("integrated-2x")?),
    ])
}

/// Returns what the integrated lifetime management decided about the trace Media, derived from the run. Compression
/// counts as off if less than a tenth of the pages were compressed or tried. Deduplication counts as on if it found
/// more than half of the duplicates that the scheme `dedup` alone finds.
fn lifetime_management_decisions(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let (run, dedup) =
        (runs.finished_run_named("Media/integrated")?, runs.finished_run_named("Media/dedup")?);
    let compressed = run.figure("parts.chunk_members") + run.figure("parts.chunk_incompressible_pages");
    let shared = |run: ExperimentRun<'_>| run.figure("writes_by_form.deduplicated");
    let throttled = run.figure("lifetime.throttled_epochs") / run.figure("lifetime.epochs");
    let holds = |of: &str, statement: bool| NamedValue::new(of, f64::from(u8::from(statement)));
    Ok(vec![
        holds("compression off", compressed < 0.1 * run.figure("host_page_writes")),
        holds("dedup on", shared(run) > 0.5 * shared(dedup)),
        holds("throttled", throttled > 0.5),
    ])
}

/// Returns the greatest savings in response time and energy relative to the baseline, percent, and the savings on the
/// control load. The savings on the control load should be zero; otherwise the greatest savings do not come from
/// lifetime management.
fn greatest_response_and_energy_gains(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let of = |trace, variant, answer, value: fn(ExperimentRun<'_>) -> Result<f64>| {
        saved_percent(runs, (trace, variant, answer), value)
    };
    let (buffers, programs) = (AcknowledgeMoment::WhenBuffered, AcknowledgeMoment::WhenProgrammed);
    let mut values = vec![
        NamedValue::new("response time", of("WKSN", "integrated", programs, mean_time_until_programmed_us)?),
        NamedValue::new("energy", of("WKSN", "integrated", buffers, energy_uj_per_page_write)?),
        NamedValue::new("energy 2x", of("WKSN", "integrated-2x", buffers, energy_uj_per_page_write)?),
    ];
    for scheme in &LIFETIME_SCHEMES[1..] {
        let control = |what: &str, gain: f64| NamedValue::new(format!("control, {scheme}, {what}"), gain);
        values
            .push(control("response time", of("control", scheme, programs, mean_time_until_programmed_us)?));
        values.push(control(
            "acknowledged by the chunk buffer alone",
            of("control", scheme, programs, mean_acknowledge_us)?,
        ));
        values.push(control("energy", of("control", scheme, buffers, energy_uj_per_page_write)?));
        values.push(control("programs", of("control", scheme, buffers, |run| Ok(programs_per_write(run)))?));
    }
    Ok(values)
}
