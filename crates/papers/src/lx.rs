//! Experiments of the Recyclable SSD paper (LX, section V), and how the values of its rows are computed from them.
//!
//! Drive: the paper's drive of 40 GiB (Table II), whose pages are "firstly initialized as free". The first half of a
//! trace ages the drive and the second half is measured, like the paper's two weeks. There are three drives:
//!
//! - the paper's drive, not filled before. Of the three traces only mail writes more than it holds, so homes and web
//!   never erase;
//! - `sized`: a drive whose number of blocks is chosen per trace, so that every trace writes as many times the capacity
//!   of its drive as mail writes on the paper's drive. All rows about erases use it;
//! - `filled`: the sized drive, of which every exported page is written before the trace.
//!
//! Load: the generated loads that replace the traces have as many reads as Figure 2 needs, because popularity (reads of
//! a page) decides which pages the paper's store keeps. A few runs have the reads of Table I or other changes for
//! comparison. Scaled down, planes have fewer blocks and stores have fewer entries, in proportion to the requests.

use super::closed_forms::to_percent;
use super::experiment::{Experiment, ExperimentConditions, ExperimentRecords, ExperimentRun, ExperimentSize};
use super::request_source::RequestSource;
use super::verdict::NamedValue;

/// A trace of the Recyclable SSD paper, with its figures in Table I.
struct Trace {
    /// Name of the trace in names of experiments.
    short_name: &'static str,
    /// Name of the trace file, or of the generated substitute.
    name: &'static str,
    /// Number of requests of the trace, in million (Recyclable SSD paper, Table I).
    requests_million: f64,
    /// Share of the trace's requests that are writes (Recyclable SSD paper, Table I).
    write_share: f64,
    /// Size of a device on which the trace never causes an erase, as a multiple of the trace's footprint. It is more
    /// than the number of writes of the trace divided by its number of addresses.
    erase_free_device_footprint_multiple: u32,
}

/// The three FIU traces of the Recyclable SSD paper.
const TRACES: [Trace; 3] = [
    Trace {
        short_name: "homes",
        name: "fiu-homes",
        requests_million: 9.3,
        write_share: 0.938,
        erase_free_device_footprint_multiple: 6,
    },
    Trace {
        short_name: "mail",
        name: "fiu-mail",
        requests_million: 16.3,
        write_share: 0.753,
        erase_free_device_footprint_multiple: 15,
    },
    Trace {
        short_name: "web",
        name: "fiu-web",
        requests_million: 5.9,
        write_share: 0.825,
        erase_free_device_footprint_multiple: 9,
    },
];

impl Trace {
    /// Returns the number of writes of the trace, million.
    fn writes_million(&self) -> f64 {
        self.requests_million * self.write_share
    }
}

/// Index in `TRACES` of mail, the only trace that writes more than the Recyclable SSD paper's drive holds.
const MAIL_TRACE_INDEX: usize = 1;

/// The three sizes of the fingerprint store (of dead pages) in the Recyclable SSD paper: name and number of entries.
const FINGERPRINT_STORE_ENTRIES: [(&str, f64); 3] =
    [("64k", 65_536.0), ("128k", 131_072.0), ("256k", 262_144.0)];
/// Number of entries of the fingerprint store that the Recyclable SSD paper uses by default.
const PAPER_DEFAULT_FINGERPRINT_STORE_ENTRIES: f64 = FINGERPRINT_STORE_ENTRIES[1].1;

/// Age at which an entry is removed from the fingerprint store in the runs `128k-leaving`, in flash programs per entry
/// of the store.
const FINGERPRINT_AGE_LIMIT_PROGRAMS_PER_ENTRY: f64 = 4.0;

/// Pages of the write buffer in Figure 5 (4 MiB) of the Recyclable SSD paper, which does not state its size.
const WRITE_BUFFER_PAGES: f64 = 1024.0;

/// A named variant of an experiment: a design with settings.
struct ExperimentVariant {
    /// Name of the variant, with which the names of its experiments end.
    name: String,
    /// Name of the design.
    design: &'static str,
    /// Settings of the variant in addition to those of the drive.
    settings: Vec<String>,
}

/// Returns a variant of the design `recyclable`, which revives dead pages.
fn recyclable_variant(name: impl Into<String>, settings: &[&str]) -> ExperimentVariant {
    let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
    ExperimentVariant { name: name.into(), design: "recyclable", settings }
}

/// Returns a variant of the design `page-map`, with which recycling is compared.
fn baseline_variant(name: &str, settings: &[&str]) -> ExperimentVariant {
    ExperimentVariant { design: "page-map", ..recyclable_variant(name, settings) }
}

/// Returns the setting for a fingerprint store of `scale` times `count` entries.
fn fingerprint_store_entries_setting(count: f64, scale: f64) -> String {
    format!("recycle.entries={}", (count * scale).round())
}

/// Returns the setting for a fingerprint store of `scale` times the entries that the paper uses by default.
fn default_fingerprint_store_setting(scale: f64) -> String {
    fingerprint_store_entries_setting(PAPER_DEFAULT_FINGERPRINT_STORE_ENTRIES, scale)
}

/// Returns the variants (designs with settings) that are run on every drive.
fn variants_for_every_drive(scale: f64) -> Vec<ExperimentVariant> {
    let standard = default_fingerprint_store_setting(scale);
    vec![
        baseline_variant("baseline", &[]),
        recyclable_variant("infinite", &["recycle.policy=inf"]),
        recyclable_variant("128k", &[&standard, "recycle.policy=prob"]),
        recyclable_variant("128k-lru", &[&standard, "recycle.policy=lru"]),
    ]
}

/// Returns the variants with the smaller and the larger fingerprint store, each with the Recyclable SSD paper's
/// eviction policy (PROB) and with LRU.
fn fingerprint_store_size_variants(scale: f64) -> Vec<ExperimentVariant> {
    let both = |(name, count): (&str, f64)| {
        let entries = fingerprint_store_entries_setting(count, scale);
        [
            recyclable_variant(name, &[&entries, "recycle.policy=prob"]),
            recyclable_variant(format!("{name}-lru"), &[&entries, "recycle.policy=lru"]),
        ]
    };
    [FINGERPRINT_STORE_ENTRIES[0], FINGERPRINT_STORE_ENTRIES[2]].into_iter().flat_map(both).collect()
}

/// Returns the variant (design with settings) with the default fingerprint store in which entries are removed when they
/// are old.
fn aged_entry_removal_variant(scale: f64) -> ExperimentVariant {
    let life = format!(
        "recycle.refresh_age_programs={}",
        (FINGERPRINT_AGE_LIMIT_PROGRAMS_PER_ENTRY * PAPER_DEFAULT_FINGERPRINT_STORE_ENTRIES * scale).round()
    );
    recyclable_variant(
        "128k-leaving",
        &[&default_fingerprint_store_setting(scale), "recycle.policy=prob", &life],
    )
}

/// Returns the variants that are run only on the Recyclable SSD paper's drive: with fast loading of fingerprints, with
/// the write buffer, and with response times.
fn paper_drive_variants(scale: f64) -> Vec<ExperimentVariant> {
    let standard = default_fingerprint_store_setting(scale);
    let prob = [standard.as_str(), "recycle.policy=prob"];
    let lru = [standard.as_str(), "recycle.policy=lru"];
    let buffer = format!("buffer.pages={}", (WRITE_BUFFER_PAGES * scale).ceil());
    let buffer = [buffer.as_str()];
    let timed = ["timing.mode=event", "timing.hash_us=32.0"];
    let unhashed = ["timing.mode=event", "timing.hash_us=0.0"];
    vec![
        recyclable_variant("128k-fl", &[&standard, "recycle.policy=prob-fl"]),
        baseline_variant("buffered-baseline", &buffer),
        recyclable_variant("buffered-128k", &[&prob[..], &buffer].concat()),
        recyclable_variant("buffered-128k-lru", &[&lru[..], &buffer].concat()),
        baseline_variant("timed-baseline", &timed[..1]),
        recyclable_variant("timed-lru", &[&timed[..], &lru].concat()),
        recyclable_variant("timed-prob", &[&timed[..], &prob].concat()),
        recyclable_variant("timed-infinite", &[&timed[..], &["recycle.policy=inf"]].concat()),
        recyclable_variant("timed-unhashed-lru", &[&unhashed[..], &lru].concat()),
        recyclable_variant("timed-unhashed-prob", &[&unhashed[..], &prob].concat()),
        recyclable_variant("timed-unhashed-infinite", &[&unhashed[..], &["recycle.policy=inf"]].concat()),
        baseline_variant("timed-buffered-baseline", &[&timed[..1], &buffer].concat()),
        recyclable_variant("timed-buffered-prob", &[&timed[..], &prob, &buffer].concat()),
    ]
}

/// Blocks per plane of the Recyclable SSD paper's drive.
const BLOCKS_PER_PLANE: f64 = 2048.0;

/// Physical pages of the Recyclable SSD paper's drive, million.
const PHYSICAL_PAGES_MILLION: f64 = 10.485_76;

/// Numbers of host writes per physical page of the drive for the runs `overrun-*`; trace mail has 1.17 on the
/// Recyclable SSD paper's drive.
const WRITES_PER_PHYSICAL_PAGE: [f64; 4] = [1.0, 1.1, 1.4, 2.0];

/// Returns the settings for experiments on a drive like that of the Recyclable SSD paper, with `blocks` blocks per
/// plane, not filled before.
fn drive_settings(conditions: &ExperimentConditions, blocks: f64) -> Vec<String> {
    vec![
        "device.preset=lx-40g".to_owned(),
        format!("device.blocks_per_plane={}", blocks.round()),
        "precondition.mode=aged".to_owned(),
        format!("replay.seed={}", conditions.seed),
    ]
}

/// Returns the settings for experiments on a drive of which every exported page is written before the trace; it has
/// `blocks` blocks per plane.
fn filled_drive_settings(conditions: &ExperimentConditions, blocks: f64) -> Vec<String> {
    [drive_settings(conditions, blocks), vec!["precondition.filled=true".to_owned()]].concat()
}

/// Returns the settings for experiments on a drive of which the trace touches 0.9 of the logical pages, not filled
/// before. A small footprint gets four dies, because many planes with few blocks each have no spare block.
fn settings_of_drive_fitted_to_trace(conditions: &ExperimentConditions) -> Vec<String> {
    let preset = match conditions.size {
        ExperimentSize::Quick => "device.preset=auto",
        ExperimentSize::Full => "device.preset=lx-40g",
    };
    [preset, "device.fit=0.9", "gc.free_share=0.05", "precondition.mode=aged"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("replay.seed={}", conditions.seed)])
        .collect()
}

/// Returns all experiments for the Recyclable SSD paper (LX).
pub fn experiments(conditions: &ExperimentConditions) -> Vec<Experiment> {
    let scale = match conditions.size {
        ExperimentSize::Quick => 0.05,
        ExperimentSize::Full => 1.0,
    };
    let of_trace = TRACES.iter().flat_map(|trace| experiments_on_trace(conditions, trace, scale));
    of_trace.chain(synthetic_experiments(conditions)).chain(eviction_policy_experiments(conditions)).collect()
}

/// A drive on which designs are run on one trace.
struct TraceDrive {
    /// Beginning of the names of the experiments: that of the trace, a slash, and a word for drive and load.
    name_prefix: String,
    /// Requests of the trace, and their number as a share of the paper's.
    input: (RequestSource, f64),
    /// Settings of the drive.
    settings: Vec<String>,
}

impl TraceDrive {
    /// Returns one experiment on this drive for each variant (design with settings).
    fn experiments_with(&self, variants: impl IntoIterator<Item = ExperimentVariant>) -> Vec<Experiment> {
        let experiment = |ExperimentVariant { name, design, settings }: ExperimentVariant| {
            let settings = [self.settings.clone(), settings].concat();
            Experiment::new_replay(
                format!("{}{name}", self.name_prefix),
                self.input.clone(),
                design,
                settings,
            )
        };
        variants.into_iter().map(experiment).collect()
    }
}

/// A trace of the paper with the conditions of the experiments on it.
struct TraceExperiments<'a> {
    /// Size and seed of the experiments, and the original traces that the user has.
    conditions: &'a ExperimentConditions,
    /// Trace that the experiments replay.
    trace: &'a Trace,
    /// Share of the trace's requests that its substitute has, if the user does not have the original trace.
    substitute_scale: f64,
    /// Requests of the trace with the reads that Figure 2 needs, and their number as a share of the paper's.
    input: (RequestSource, f64),
}

/// Returns the experiments on one trace, on three drives: the paper's, `sized` (its size is chosen for the trace) and
/// `filled` (as `sized`, but every exported page is written before the trace).
fn experiments_on_trace(conditions: &ExperimentConditions, trace: &Trace, scale: f64) -> Vec<Experiment> {
    let input = trace_input(conditions, trace, "reads=figures,", scale);
    TraceExperiments { conditions, trace, substitute_scale: scale, input }.all()
}

/// Returns the requests of a trace, and their number as a share of the paper's. If a substitute replaces the trace,
/// `keys` are options of its generator, and `scale` is its share of the trace's requests.
fn trace_input(
    conditions: &ExperimentConditions,
    trace: &Trace,
    keys: &str,
    scale: f64,
) -> (RequestSource, f64) {
    let options = format!(",{keys}seed={}", conditions.seed);
    conditions.traces.original_or_substitute(trace.name, &options, scale)
}

impl TraceExperiments<'_> {
    /// Returns all experiments on the trace.
    fn all(&self) -> Vec<Experiment> {
        let count = |name: &str, input| {
            Experiment::new_request_count_experiment(format!("{}/{name}", self.trace.short_name), input)
        };
        [
            vec![count("counts", self.input.clone())],
            self.of_store_sizes(&self.paper_drive(""), true),
            // For homes, Figure 11 has the default store only.
            self.of_store_sizes(&self.sized_drive(), self.trace.short_name != "homes"),
            self.paper_drive("").experiments_with(paper_drive_variants(self.scale())),
            self.of_recycling_aware_gc_on_sized_drive(),
            self.of_filled_drive(),
            self.of_drives_written_more_often(),
            self.of_drive_without_erases(),
            self.of_other_substitutes(),
            vec![count("table-counts", self.input_with("reads=table,"))],
        ]
        .concat()
    }

    /// Returns the scale of the drive and of its fingerprint stores: that of the requests.
    fn scale(&self) -> f64 {
        self.input.1
    }

    /// Returns the requests of the trace if its substitute has these options.
    fn input_with(&self, keys: &str) -> (RequestSource, f64) {
        trace_input(self.conditions, self.trace, keys, self.substitute_scale)
    }

    /// Returns the number of blocks per plane of the paper's drive.
    fn blocks_of_paper_drive(&self) -> f64 {
        BLOCKS_PER_PLANE * self.scale()
    }

    /// Returns the number of blocks per plane of the drive to whose capacity the writes of this trace are as many times
    /// as those of mail are to that of the paper's drive.
    fn blocks_of_sized_drive(&self) -> f64 {
        self.blocks_of_paper_drive() * self.trace.writes_million() / TRACES[MAIL_TRACE_INDEX].writes_million()
    }

    /// Returns the drive with these settings for the trace; `kind` is the word for it in names of experiments.
    fn drive(&self, kind: &str, settings: Vec<String>) -> TraceDrive {
        let name_prefix = format!("{}/{kind}", self.trace.short_name);
        TraceDrive { name_prefix, input: self.input.clone(), settings }
    }

    /// Returns the paper's drive; `kind` is the word for it in names of experiments.
    fn paper_drive(&self, kind: &str) -> TraceDrive {
        self.drive(kind, drive_settings(self.conditions, self.blocks_of_paper_drive()))
    }

    /// Returns the drive whose size is chosen for the trace.
    fn sized_drive(&self) -> TraceDrive {
        self.drive("sized-", drive_settings(self.conditions, self.blocks_of_sized_drive()))
    }

    /// Returns the experiments with fingerprint stores of the default size, and with other sizes if `has_other_sizes`.
    fn of_store_sizes(&self, drive: &TraceDrive, has_other_sizes: bool) -> Vec<Experiment> {
        let scale = self.scale();
        let other_sizes = if has_other_sizes { fingerprint_store_size_variants(scale) } else { Vec::new() };
        let of_default_size =
            variants_for_every_drive(scale).into_iter().chain([aged_entry_removal_variant(scale)]);
        drive.experiments_with(of_default_size.chain(other_sizes))
    }

    /// Returns the experiments on the sized drive with the GC policy that spares pages which may be recycled.
    fn of_recycling_aware_gc_on_sized_drive(&self) -> Vec<Experiment> {
        let standard = default_fingerprint_store_setting(self.scale());
        let settings = [&*standard, "recycle.policy=prob", "gc.policy=rc-gc"];
        self.sized_drive()
            .experiments_with([recyclable_variant("128k-rc-gc", &settings), infinite_store_with_rc_gc()])
    }

    /// Returns the experiments on the sized drive of which every exported page is written before the trace.
    fn of_filled_drive(&self) -> Vec<Experiment> {
        let settings = filled_drive_settings(self.conditions, self.blocks_of_sized_drive());
        let variants =
            [infinite_store_with_rc_gc()].into_iter().chain(variants_for_every_drive(self.scale()));
        self.drive("filled-", settings).experiments_with(variants)
    }

    /// Returns the experiments, for trace web alone, on smaller drives, which are written more often than the paper's.
    fn of_drives_written_more_often(&self) -> Vec<Experiment> {
        if self.trace.short_name != "web" {
            return Vec::new();
        }
        let of_drive = |overrun: f64| {
            let blocks =
                self.blocks_of_paper_drive() * self.trace.writes_million() / overrun / PHYSICAL_PAGES_MILLION;
            let variants = variants_for_every_drive(self.scale()).into_iter();
            self.drive(&format!("overrun-{overrun}-"), drive_settings(self.conditions, blocks))
                .experiments_with(variants.filter(|variant| variant.name != "128k"))
        };
        WRITES_PER_PHYSICAL_PAGE.into_iter().flat_map(of_drive).collect()
    }

    /// Returns the experiment on a drive with enough spare space that nothing is ever erased.
    fn of_drive_without_erases(&self) -> Vec<Experiment> {
        let spare = f64::from(self.trace.erase_free_device_footprint_multiple);
        // The spare space as a share of the flash.
        let roomy = format!("device.over_provisioning={:.6}", spare / (1.0 + spare));
        let settings = ["recycle.policy=inf", &roomy, "device.over_provisioning_of=physical"];
        self.drive("", settings_of_drive_fitted_to_trace(self.conditions))
            .experiments_with([recyclable_variant("recyclable", &settings)])
    }

    /// Returns the experiments on substitutes with other options: the reads of Table I, both weeks, and pages that
    /// return in runs. None if the user has the original trace.
    fn of_other_substitutes(&self) -> Vec<Experiment> {
        if !matches!(self.input.0, RequestSource::Substitute(_)) {
            return Vec::new();
        }
        let standard = default_fingerprint_store_setting(self.scale());
        let prob = || recyclable_variant("128k", &[&standard, "recycle.policy=prob"]);
        let loading = recyclable_variant("128k-fl", &[&standard, "recycle.policy=prob-fl"]);
        let infinite = recyclable_variant("infinite", &["recycle.policy=inf"]);
        let on =
            |kind: &str, keys: &str| TraceDrive { input: self.input_with(keys), ..self.paper_drive(kind) };
        [
            on("table-", "reads=table,").experiments_with([prob()]),
            on("both-weeks-", "reads=figures,from=0,").experiments_with([infinite]),
            on("runs-", "reads=figures,run=8,").experiments_with([prob(), loading]),
        ]
        .concat()
    }
}

/// Returns the variant with an unbounded fingerprint store and the GC policy that spares pages which may be recycled.
fn infinite_store_with_rc_gc() -> ExperimentVariant {
    recyclable_variant("infinite-rc-gc", &["recycle.policy=inf", "gc.policy=rc-gc"])
}

/// Returns the scale of the synthetic loads and their fingerprint stores. At scale 1 the footprint is that of the trace
/// web, and the stores have the sizes in the Recyclable SSD paper.
fn synthetic_load_scale(conditions: &ExperimentConditions) -> f64 {
    match conditions.size {
        ExperimentSize::Quick => 0.05,
        ExperimentSize::Full => 0.5,
    }
}

/// Returns experiments on a synthetic load with locality of addresses and contents, which rests on none of the
/// assumptions about the FIU traces.
fn synthetic_experiments(conditions: &ExperimentConditions) -> Vec<Experiment> {
    let scale = synthetic_load_scale(conditions);
    let pages = 800_000.0 * scale;
    let load = format!(
        "zipf:theta=0.9,pages={pages},requests={},read=0.4,seed={}+dup:share=0.4,theta=0.8,pool={}",
        pages * 12.0,
        conditions.seed,
        pages * 2.0
    );
    let store = |(name, count): (&str, f64)| {
        recyclable_variant(name, &[&fingerprint_store_entries_setting(count, scale), "recycle.policy=prob"])
    };
    // A load with few contents of equal probability: each is written again after some thousand writes on average, and
    // none much later.
    let soon =
        load.replace(&format!("theta=0.8,pool={}", pages * 2.0), &format!("theta=0,pool={}", pages / 50.0));
    let loads = [("synthetic", load), ("synthetic-soon", soon)];
    let loads = loads.into_iter().take(if conditions.size == ExperimentSize::Quick { 2 } else { 1 });
    let of = |(name, load): (&str, String)| {
        let variants =
            FINGERPRINT_STORE_ENTRIES.into_iter().map(store).chain([baseline_variant("baseline", &[])]);
        let one = |variant: ExperimentVariant| {
            let settings = [settings_of_drive_fitted_to_trace(conditions), variant.settings].concat();
            let input = (RequestSource::Generated(load.clone()), scale);
            Experiment::new_replay(format!("{name}/{}", variant.name), input, variant.design, settings)
        };
        variants.map(one).collect::<Vec<_>>()
    };
    loads.flat_map(of).collect()
}

/// Returns experiments on generated loads that suit, or do not suit, each mechanism of the Recyclable SSD paper, e.g.
/// its eviction policy. Only the pages of a fifth of the addresses are read. Every second content of these pages is
/// written again after it is dead, but only one in twenty of the other contents.
fn eviction_policy_experiments(conditions: &ExperimentConditions) -> Vec<Experiment> {
    let scale = synthetic_load_scale(conditions);
    let pages = 800_000.0 * scale;
    // A fingerprint store with entries for a tenth of the addresses.
    let standard = fingerprint_store_entries_setting(pages / 10.0, 1.0);
    // On a filled drive there are fewer dead pages than that store has entries; this store has fewer entries than there
    // are dead pages.
    let small = fingerprint_store_entries_setting(pages / 20.0, 1.0);
    let life = format!(
        "recycle.refresh_age_programs={}",
        (FINGERPRINT_AGE_LIMIT_PROGRAMS_PER_ENTRY * pages / 20.0).round()
    );
    let small_prob = [small.as_str(), "recycle.policy=prob"];
    let small_lru = [small.as_str(), "recycle.policy=lru"];
    let prob = [standard.as_str(), "recycle.policy=prob"];
    let lru = [standard.as_str(), "recycle.policy=lru"];
    let loading = [standard.as_str(), "recycle.policy=prob-fl"];
    let infinite = ["recycle.policy=inf"];
    let rc_gc = ["recycle.policy=inf", "gc.policy=rc-gc"];
    let filled = "precondition.filled=true";
    let skewed = "theta=0.9";
    let alike = "theta=0";
    let runs: [(&str, &str, Vec<ExperimentVariant>); 6] = [
        (
            "skewed",
            skewed,
            vec![
                recyclable_variant("prob", &small_prob),
                recyclable_variant("lru", &small_lru),
                recyclable_variant("infinite", &infinite),
                recyclable_variant("prob-leaving", &[&small_prob[..], &[&life]].concat()),
                recyclable_variant("filled-prob", &[&small_prob[..], &[filled]].concat()),
                recyclable_variant("filled-lru", &[&small_lru[..], &[filled]].concat()),
                recyclable_variant("filled-infinite", &[&infinite[..], &[filled]].concat()),
            ],
        ),
        (
            "alike",
            alike,
            vec![
                recyclable_variant("prob", &prob),
                recyclable_variant("lru", &lru),
                recyclable_variant("fl", &loading),
            ],
        ),
        (
            "runs",
            "theta=0,run=8",
            vec![
                recyclable_variant("prob", &prob),
                recyclable_variant("lru", &lru),
                recyclable_variant("fl", &loading),
            ],
        ),
        (
            "no-prediction",
            "theta=0,other_return=0.5",
            vec![recyclable_variant("prob", &prob), recyclable_variant("lru", &lru)],
        ),
        (
            "few-popular",
            "theta=0,reads=15",
            vec![recyclable_variant("greedy", &infinite), recyclable_variant("rc-gc", &rc_gc)],
        ),
        (
            "half-popular",
            "theta=0,reads=15,popular=0.5,newest=1",
            vec![recyclable_variant("greedy", &infinite), recyclable_variant("rc-gc", &rc_gc)],
        ),
    ];
    let mut experiments = Vec::new();
    for (load, keys, variants) in runs {
        let spec = format!("predicted:pages={pages},writes={},{keys},seed={}", pages * 10.0, conditions.seed);
        for ExperimentVariant { name, design, settings } in variants {
            let input = (RequestSource::Generated(spec.clone()), scale);
            let settings = [settings_of_drive_fitted_to_trace(conditions), settings].concat();
            experiments.push(Experiment::new_replay(format!("{load}/{name}"), input, design, settings));
        }
    }
    experiments
}

/// Result of computing values; the error is the reason why a needed experiment has no record.
type Result<T> = std::result::Result<T, String>;

/// Function that computes our values for one row (reported result) of the paper from the finished experiments.
type RowValues = fn(&ExperimentRecords) -> Result<Vec<NamedValue>>;

/// Names of the paper's traces in names of experiments.
const TRACE_NAMES: [&str; 3] = ["homes", "mail", "web"];

/// Rows (reported results) of the paper that experiments are about, and the function that computes our values for each.
const ROW_VALUES: &[(&str, RowValues)] = &[
    // Rows about the traces themselves, without a design.
    ("LX-02", |runs| trace_table_values(runs, "homes")),
    ("LX-03", |runs| trace_table_values(runs, "mail")),
    ("LX-04", |runs| trace_table_values(runs, "web")),
    ("LX-07", |runs| {
        value_per_trace(runs, &TRACE_NAMES, "counts", |run| {
            pages_to_gib(run.figure_scaled_to_full_input("recycled"))
        })
    }),
    ("LX-09", |runs| {
        value_per_trace(runs, &TRACE_NAMES, "counts", |run| most_frequent_class(run, "invalid_by_popularity"))
    }),
    ("LX-10", |runs| {
        value_per_trace(runs, &TRACE_NAMES, "counts", |run| recyclable_percent_at_popularity(run, 0))
    }),
    ("LX-11", |runs| value_per_trace(runs, &TRACE_NAMES, "counts", max_recyclable_percent_over_popularities)),
    ("LX-12", |runs| {
        value_per_trace(runs, &TRACE_NAMES, "counts", |run| {
            percent_in_histogram_classes_8_to_15(run, "invalid_by_popularity")
        })
        .map(|values| [values, reads_needed_for_popularity(runs)].concat())
    }),
    ("LX-13", |runs| {
        value_per_trace(runs, &TRACE_NAMES, "counts", |run| {
            percent_in_histogram_classes_8_to_15(run, "recycled_by_popularity")
        })
    }),
    ("LX-14", |runs| {
        value_per_trace(runs, &TRACE_NAMES, "counts", |run| {
            run.figure("invalid") / run.figure("overwritten_addresses")
        })
    }),
    ("LX-15", |runs| value_per_trace(runs, &TRACE_NAMES, "counts", recycled_percent_of_newest_four_versions)),
    ("LX-23", |runs| {
        value_per_trace(runs, &["mail"], "counts", |run| run.figure("writes") / run.figure("addresses"))
    }),
    // Rows about fingerprint stores of several sizes and eviction policies.
    ("LX-17", |runs| {
        value_per_trace(runs, &["mail"], "infinite", write_reduction_percent)
            .map(function_appending_write_reductions(runs, &["mail"]))
    }),
    ("LX-18", |runs| {
        value_per_trace(runs, &["homes"], "infinite", write_reduction_percent)
            .map(function_appending_write_reductions(runs, &["homes"]))
    }),
    ("LX-19", |runs| {
        value_per_trace(runs, &["web"], "infinite", write_reduction_percent)
            .map(function_appending_write_reductions(runs, &["web"]))
    }),
    ("LX-20", |runs| {
        append_values_of_further_variants(
            runs,
            value_per_trace(runs, &TRACE_NAMES, "64k", write_reduction_percent),
            &[("64k-lru", "LRU")],
            write_reduction_percent,
        )
    }),
    ("LX-21", |runs| {
        append_values_of_further_variants(
            runs,
            value_per_trace(runs, &TRACE_NAMES, "128k", write_reduction_percent),
            &[
                ("128k-lru", "LRU"),
                ("128k-leaving", "leaving"),
                ("table-128k", "reads of Table I"),
                ("buffered-128k", "buffered"),
                ("filled-128k", "filled"),
                ("filled-128k-lru", "filled LRU"),
            ],
            write_reduction_percent,
        )
    }),
    ("LX-22", |runs| {
        append_values_of_further_variants(
            runs,
            value_per_trace(runs, &TRACE_NAMES, "256k", write_reduction_percent),
            &[("256k-lru", "LRU")],
            write_reduction_percent,
        )
    }),
    ("LX-24", |runs| {
        value_per_trace_against_baseline(runs, "sized-baseline", "sized-infinite", erases_saved_percent).map(
            |values| [values, erases_saved_percent_on_drive(runs, "filled-", "infinite", "filled")].concat(),
        )
    }),
    ("LX-25", |runs| erases_percent_by_fingerprint_store(runs, "web", &["64k", "128k", "256k", "infinite"])),
    ("LX-26", |runs| erases_percent_by_fingerprint_store(runs, "mail", &["256k", "64k"])),
    ("LX-27", |runs| {
        value_per_trace_against_baseline(runs, "sized-baseline", "sized-128k", erases_saved_percent).map(
            |values| {
                let lru = erases_saved_percent_on_drive(runs, "sized-", "128k-lru", "LRU");
                let leaving = erases_saved_percent_on_drive(runs, "sized-", "128k-leaving", "leaving");
                [values, lru, leaving, erases_saved_percent_on_drive(runs, "filled-", "128k", "filled")]
                    .concat()
            },
        )
    }),
    ("LX-28", |runs| {
        response_time_changes(runs, "timed-lru", 1.0).map(|values| {
            [values, response_time_changes_of_variants(runs, &[("timed-unhashed-lru", "without hash")], 1.0)]
                .concat()
        })
    }),
    ("LX-29", |runs| {
        response_time_changes(runs, "timed-prob", 1.0).map(|values| {
            [values, response_time_changes_of_variants(runs, &FURTHER_RESPONSE_TIME_VARIANTS, 1.0)].concat()
        })
    }),
    ("LX-30", |runs| {
        response_time_changes(runs, "timed-prob", -1.0).map(|values| {
            [values, response_time_changes_of_variants(runs, &FURTHER_RESPONSE_TIME_VARIANTS, -1.0)].concat()
        })
    }),
    ("LX-31", |runs| {
        append_values_of_further_variants(
            runs,
            value_per_trace(runs, &TRACE_NAMES, "128k", mean_comparisons_per_fingerprint_store_hit),
            &[("128k-lru", "LRU"), ("128k-leaving", "leaving")],
            mean_comparisons_per_fingerprint_store_hit,
        )
    }),
    ("LX-32", |runs| {
        value_per_trace_against_baseline(runs, "128k", "128k-fl", fingerprint_store_comparisons_saved_percent)
            .map(|values| {
                [
                    values,
                    named_trace_values_against_baseline(
                        runs,
                        "runs-128k",
                        "runs-128k-fl",
                        "in runs",
                        fingerprint_store_comparisons_saved_percent,
                    ),
                ]
                .concat()
            })
    }),
    ("LX-33", |runs| value_per_trace(runs, &["web"], "128k-fl", mean_comparisons_per_fingerprint_store_hit)),
    ("LX-34", |runs| mean_comparisons_by_eviction_policy(runs)),
    ("LX-36", |runs| recycled_percent_per_trace(runs, "sized-128k")),
    ("LX-37", |runs| recycled_percent_per_trace(runs, "sized-128k-rc-gc")),
    ("LX-38", |runs| {
        value_per_trace_against_baseline(runs, "sized-128k", "sized-128k-rc-gc", recycling_gain_percent).map(
            |values| {
                let infinite = named_trace_values_against_baseline(
                    runs,
                    "sized-infinite",
                    "sized-infinite-rc-gc",
                    "infinite",
                    recycling_gain_percent,
                );
                let filled = named_trace_values_against_baseline(
                    runs,
                    "filled-infinite",
                    "filled-infinite-rc-gc",
                    "filled infinite",
                    recycling_gain_percent,
                );
                [values, infinite, filled].concat()
            },
        )
    }),
    ("LX-39", |runs| erases_saved_percent_per_store_doubling(runs)),
    // Rows that compare two eviction policies, each on a load for which the paper claims a gain and on one for which it
    // does not.
    ("LX-40", |runs| {
        value_per_trace_against_baseline(runs, "128k-lru", "128k", recycling_gain_percent).map(|values| {
            [
                values,
                named_trace_values_against_baseline(
                    runs,
                    "filled-128k-lru",
                    "filled-128k",
                    "filled",
                    recycling_gain_percent,
                ),
            ]
            .concat()
        })
    }),
    ("LX-41", |runs| {
        values_of_compared_runs(
            runs,
            &[
                ("reads predict return", "alike/lru", "alike/prob"),
                ("without prediction", "no-prediction/lru", "no-prediction/prob"),
                ("skewed addresses", "skewed/lru", "skewed/prob"),
            ],
            recycling_gain_percent,
        )
    }),
    ("LX-42", |runs| {
        values_of_compared_runs(
            runs,
            &[
                ("neighbours return together", "runs/prob", "runs/fl"),
                ("pages return alone", "alike/prob", "alike/fl"),
            ],
            fingerprint_store_comparisons_saved_percent,
        )
    }),
    ("LX-43", |runs| {
        values_of_compared_runs(
            runs,
            &[
                ("a fifth is popular", "few-popular/greedy", "few-popular/rc-gc"),
                ("half is popular", "half-popular/greedy", "half-popular/rc-gc"),
            ],
            recycling_gain_percent,
        )
    }),
    ("LX-44", |runs| write_reduction_if_popular_pages_never_recur(runs)),
    ("LX-45", |runs| Ok(writes_and_recycling_with_write_buffer(runs))),
    ("LX-46", |runs| erases_saved_percent_by_drive_size(runs)),
];

/// Computes our values for one row (reported result) of the Recyclable SSD paper from the finished experiments; `None`
/// if no experiment is about the row.
pub fn row_values_from_experiments(id: &str, runs: &ExperimentRecords) -> Option<Result<Vec<NamedValue>>> {
    ROW_VALUES.iter().find(|(row, _)| *row == id).map(|(_, values)| values(runs))
}

/// Returns the share of page writes that recycling saved, percent.
fn write_reduction_percent(run: ExperimentRun<'_>) -> f64 {
    100.0 * run.figure("write_reduction")
}

/// Returns one value per trace, computed from the run of one variant (design with settings).
fn value_per_trace(
    runs: &ExperimentRecords,
    traces: &[&str],
    variant: &str,
    value: impl Fn(ExperimentRun<'_>) -> f64,
) -> Result<Vec<NamedValue>> {
    let of = |trace: &&str| {
        Ok(NamedValue::new(*trace, value(runs.finished_run_named(&format!("{trace}/{variant}"))?)))
    };
    traces.iter().map(of).collect()
}

/// Returns one value per trace, computed from the runs of a reference and of a variant (designs with settings).
fn value_per_trace_against_baseline(
    runs: &ExperimentRecords,
    baseline: &str,
    variant: &str,
    value: impl Fn(ExperimentRun<'_>, ExperimentRun<'_>) -> f64,
) -> Result<Vec<NamedValue>> {
    let of = |Trace { short_name: short, .. }: &Trace| {
        let baseline = runs.finished_run_named(&format!("{short}/{baseline}"))?;
        Ok(NamedValue::new(*short, value(baseline, runs.finished_run_named(&format!("{short}/{variant}"))?)))
    };
    TRACES.iter().map(of).collect()
}

/// Returns the figures of a trace in Table I of the paper: requests (million), share of writes (percent), and addresses
/// (million).
fn trace_table_values(runs: &ExperimentRecords, trace: &str) -> Result<Vec<NamedValue>> {
    let counts = runs.finished_run_named(&format!("{trace}/table-counts"))?;
    let millions = |figure: &str| counts.figure_scaled_to_full_input(figure) / 1e6;
    Ok(vec![
        NamedValue::new("requests, M", millions("requests")),
        NamedValue::new("writes, %", to_percent(counts.figure("writes") / counts.figure("requests"))),
        NamedValue::new("addresses, M", millions("addresses")),
    ])
}

/// Converts a number of pages of 4 KiB to GiB.
fn pages_to_gib(pages: f64) -> f64 {
    pages * 4096.0 / f64::from(1 << 30)
}

/// Returns the count of class `class` (0 to 15) in a histogram of dead pages by popularity (number of reads) or by
/// version.
fn count_in_histogram_class(run: ExperimentRun<'_>, histogram: &str, class: usize) -> f64 {
    run.figure(&format!("{histogram}.{class}"))
}

/// Returns the sum of the counts of several classes (0 to 15) in a histogram of dead pages by popularity (number of
/// reads) or by version.
fn count_in_histogram_classes(
    run: ExperimentRun<'_>,
    histogram_name: &str,
    range: std::ops::Range<usize>,
) -> f64 {
    range.map(|k| count_in_histogram_class(run, histogram_name, k)).sum()
}

/// Returns the class (popularity or version of pages, 0 to 15) with the greatest count in a histogram.
fn most_frequent_class(run: ExperimentRun<'_>, histogram: &str) -> f64 {
    let fullest = (0..16).max_by(|&a, &b| {
        count_in_histogram_class(run, histogram, a).total_cmp(&count_in_histogram_class(run, histogram, b))
    });
    fullest.unwrap_or(0) as f64
}

/// Returns how many of the pages counted in a histogram are in its classes 8 to 15 (popularity or version), percent.
fn percent_in_histogram_classes_8_to_15(run: ExperimentRun<'_>, histogram: &str) -> f64 {
    to_percent(
        count_in_histogram_classes(run, histogram, 8..16) / count_in_histogram_classes(run, histogram, 0..16),
    )
}

/// Returns the share of the dead pages with this popularity (number of reads) whose content was written again, percent.
fn recyclable_percent_at_popularity(run: ExperimentRun<'_>, popularity: usize) -> f64 {
    let dead = count_in_histogram_class(run, "invalid_by_popularity", popularity);
    to_percent(count_in_histogram_class(run, "recycled_by_popularity", popularity) / dead.max(1.0))
}

/// Returns the largest recyclable share over all popularities, percent. A popularity is a number of reads; its
/// recyclable share is the share of its dead pages whose content was written again.
fn max_recyclable_percent_over_popularities(run: ExperimentRun<'_>) -> f64 {
    (0..16).map(|popularity| recyclable_percent_at_popularity(run, popularity)).fold(0.0, f64::max)
}

/// Returns how many of the recycled pages were among the newest four dead versions of an address, percent.
fn recycled_percent_of_newest_four_versions(run: ExperimentRun<'_>) -> f64 {
    to_percent(count_in_histogram_classes(run, "recycled_by_version", 12..16) / run.figure("recycled"))
}

/// Returns the number of host page writes that revived a dead page in a run.
fn recycled_pages(run: ExperimentRun<'_>) -> f64 {
    run.figure("recycled_writes")
}

/// Returns the mean number of comparisons that a linear search of the fingerprint store takes for a hit.
fn mean_comparisons_per_fingerprint_store_hit(run: ExperimentRun<'_>) -> f64 {
    run.figure("parts.mean_comparisons_on_hit")
}

/// Returns the erases of a run in percent of those of the baseline.
fn erases_percent_of_baseline(run: ExperimentRun<'_>, baseline: ExperimentRun<'_>) -> f64 {
    to_percent(run.figure("erases") / baseline.figure("erases"))
}

/// Adds to `values` the values of further variants (designs with settings), which are shown but not compared with the
/// paper. A variant that was not run has no value.
fn append_values_of_further_variants(
    runs: &ExperimentRecords,
    values: Result<Vec<NamedValue>>,
    variants_and_names: &[(&str, &str)],
    value: impl Fn(ExperimentRun<'_>) -> f64,
) -> Result<Vec<NamedValue>> {
    let mut values = values?;
    for (variant, name) in variants_and_names {
        for Trace { short_name: short, .. } in &TRACES {
            if let Ok(run) = runs.finished_run_named(&format!("{short}/{variant}")) {
                values.push(NamedValue::new(format!("{short} {name}"), value(run)));
            }
        }
    }
    Ok(values)
}

/// Appends the text `name` to the name of each value of a reported result.
fn with_suffix_on_value_names(values: Vec<NamedValue>, name: &str) -> Vec<NamedValue> {
    values.into_iter().map(|value| NamedValue::new(format!("{} {name}", value.of), value.value)).collect()
}

/// Returns one value per trace as [`value_per_trace_against_baseline`] does, with the text `name` appended to the names
/// of the traces; no value if a run is missing.
fn named_trace_values_against_baseline(
    runs: &ExperimentRecords,
    baseline: &str,
    variant: &str,
    name: &str,
    value: impl Fn(ExperimentRun<'_>, ExperimentRun<'_>) -> f64,
) -> Vec<NamedValue> {
    with_suffix_on_value_names(
        value_per_trace_against_baseline(runs, baseline, variant, value).unwrap_or_default(),
        name,
    )
}

/// Returns a function that adds two write reductions (percent) per trace to a list of values. Both use an unbounded
/// fingerprint store: one on a drive filled before the trace, the other on a load whose contents recur both in the half
/// of the trace that ages the drive and in the measured half (the paper's two weeks).
fn function_appending_write_reductions<'a>(
    runs: &'a ExperimentRecords,
    traces: &'a [&str],
) -> impl Fn(Vec<NamedValue>) -> Vec<NamedValue> + 'a {
    move |mut values| {
        for (variant, name) in
            [("filled-infinite", "filled"), ("both-weeks-infinite", "returns in both weeks")]
        {
            for trace in traces {
                if let Ok(run) = runs.finished_run_named(&format!("{trace}/{variant}")) {
                    values.push(NamedValue::new(
                        format!("{trace} {name}"),
                        100.0 * run.figure("write_reduction"),
                    ));
                }
            }
        }
        values
    }
}

/// Returns, for each trace, the number of reads (million) that the reported popularity of the invalid pages would
/// require, and the number of reads in Table I of the Recyclable SSD paper.
fn reads_needed_for_popularity(runs: &ExperimentRecords) -> Vec<NamedValue> {
    let of = |trace: &Trace| {
        let reads = |counts: &str| {
            let run = runs.finished_run_named(&format!("{}/{counts}", trace.short_name)).ok()?;
            Some(run.figure_scaled_to_full_input("reads") / 1e6)
        };
        Some([
            NamedValue::new(format!("{} reads, M", trace.short_name), reads("counts")?),
            NamedValue::new(format!("{} reads of Table I, M", trace.short_name), reads("table-counts")?),
        ])
    };
    TRACES.iter().filter_map(of).flatten().collect()
}

/// Returns the increase of the number of recycled pages relative to the reference run, percent.
fn recycling_gain_percent(baseline: ExperimentRun<'_>, run: ExperimentRun<'_>) -> f64 {
    to_percent(recycled_pages(run) / recycled_pages(baseline) - 1.0)
}

/// Returns how much fewer comparisons a hit in the fingerprint store takes than in the baseline run, percent.
fn fingerprint_store_comparisons_saved_percent(baseline: ExperimentRun<'_>, run: ExperimentRun<'_>) -> f64 {
    to_percent(
        1.0 - mean_comparisons_per_fingerprint_store_hit(run)
            / mean_comparisons_per_fingerprint_store_hit(baseline),
    )
}

/// Returns one value for each triple in `names_baselines_and_runs`, computed from a baseline run and another run. A
/// triple has the name of the value, the name of the baseline run, and the name of the other run.
fn values_of_compared_runs(
    runs: &ExperimentRecords,
    names_baselines_and_runs: &[(&str, &str, &str)],
    value: impl Fn(ExperimentRun<'_>, ExperimentRun<'_>) -> f64,
) -> Result<Vec<NamedValue>> {
    let of = |(name, baseline, run): &(&str, &str, &str)| {
        Ok(NamedValue::new(*name, value(runs.finished_run_named(baseline)?, runs.finished_run_named(run)?)))
    };
    names_baselines_and_runs.iter().map(of).collect()
}

/// Returns, for each trace, how many of the pages that could have been recycled were recycled by a variant (design with
/// settings), percent.
fn recycled_percent_per_trace(runs: &ExperimentRecords, variant: &str) -> Result<Vec<NamedValue>> {
    value_per_trace_against_baseline(runs, "recyclable", variant, |all, got| {
        to_percent(recycled_pages(got) / recycled_pages(all))
    })
}

/// Returns the write reduction by recycling, percent, on a load in which popular pages are never written again: with
/// each eviction policy, and with two changes that might raise the reduction: a filled drive, and the removal of old
/// entries from the fingerprint store.
fn write_reduction_if_popular_pages_never_recur(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let named_runs = [
        ("PROB", "prob"),
        ("LRU", "lru"),
        ("infinite", "infinite"),
        ("PROB, entries leaving", "prob-leaving"),
        ("filled PROB", "filled-prob"),
        ("filled LRU", "filled-lru"),
        ("filled infinite", "filled-infinite"),
    ];
    let of = |(name, run): (&str, &str)| {
        Ok(NamedValue::new(
            name,
            100.0 * runs.finished_run_named(&format!("skewed/{run}"))?.figure("write_reduction"),
        ))
    };
    named_runs.into_iter().map(of).collect()
}

/// Returns the effect of the write buffer: writes that reach the FTL and recycled pages, each in percent of those
/// without the buffer.
fn writes_and_recycling_with_write_buffer(runs: &ExperimentRecords) -> Vec<NamedValue> {
    let writes = |all: ExperimentRun<'_>, buffered: ExperimentRun<'_>| {
        to_percent(buffered.figure("host_page_writes") / all.figure("host_page_writes"))
    };
    let recycled = |all: ExperimentRun<'_>, buffered: ExperimentRun<'_>| {
        to_percent(recycled_pages(buffered) / recycled_pages(all))
    };
    [
        named_trace_values_against_baseline(runs, "baseline", "buffered-baseline", "writes", writes),
        named_trace_values_against_baseline(runs, "128k", "buffered-128k", "recycled, PROB", recycled),
        named_trace_values_against_baseline(runs, "128k-lru", "buffered-128k-lru", "recycled, LRU", recycled),
    ]
    .concat()
}

/// Returns the erases that a run saves relative to the baseline, percent.
fn erases_saved_percent(baseline: ExperimentRun<'_>, run: ExperimentRun<'_>) -> f64 {
    100.0 - erases_percent_of_baseline(run, baseline)
}

/// Returns, for each trace of one of the drives, the percentage of erases that a variant (design with settings) saves
/// relative to the baseline. A value is named after its trace, followed by `name`.
fn erases_saved_percent_on_drive(
    runs: &ExperimentRecords,
    drive: &str,
    variant: &str,
    name: &str,
) -> Vec<NamedValue> {
    named_trace_values_against_baseline(
        runs,
        &format!("{drive}baseline"),
        &format!("{drive}{variant}"),
        name,
        erases_saved_percent,
    )
}

/// Returns the erases with fingerprint stores of several sizes in percent of the baseline's: first with the Recyclable
/// SSD paper's eviction policy (PROB), then with LRU.
fn erases_percent_by_fingerprint_store(
    runs: &ExperimentRecords,
    trace: &str,
    stores: &[&str],
) -> Result<Vec<NamedValue>> {
    let baseline = runs.finished_run_named(&format!("{trace}/sized-baseline"))?;
    let of = |store: &str| {
        Ok::<_, String>(erases_percent_of_baseline(
            runs.finished_run_named(&format!("{trace}/sized-{store}"))?,
            baseline,
        ))
    };
    let mut values = Vec::new();
    for store in stores {
        let name = if *store == "infinite" { (*store).to_owned() } else { store.to_uppercase() };
        values.push(NamedValue::new(name, of(store)?));
    }
    for store in stores.iter().filter(|store| **store != "infinite") {
        values.push(NamedValue::new(format!("{} LRU", store.to_uppercase()), of(&format!("{store}-lru"))?));
    }
    values.push(NamedValue::new("128K leaving", of("128k-leaving")?));
    Ok(values)
}

/// Variants (designs with settings) whose response times are shown next to those of the fingerprint store with the
/// Recyclable SSD paper's eviction policy (PROB).
const FURTHER_RESPONSE_TIME_VARIANTS: [(&str, &str); 4] = [
    ("timed-unhashed-prob", "without hash"),
    ("timed-infinite", "infinite"),
    ("timed-unhashed-infinite", "infinite without hash"),
    ("timed-buffered-prob", "buffered"),
];

/// Returns, for each variant (design with settings), the change of the mean response time relative to the baseline,
/// percent. If `sign` is -1, it returns the reduction instead. The name of a value is the trace followed by the text of
/// the variant. Variants with a write buffer are compared with the baseline that has a write buffer, too.
fn response_time_changes_of_variants(
    runs: &ExperimentRecords,
    variants: &[(&str, &str)],
    sign: f64,
) -> Vec<NamedValue> {
    let of = |(variant, name): &(&str, &str)| {
        let is_buffered = variant.contains("buffered");
        let baseline = if is_buffered { "timed-buffered-baseline" } else { "timed-baseline" };
        with_suffix_on_value_names(
            response_time_changes_against(runs, baseline, variant, sign).unwrap_or_default(),
            name,
        )
    };
    variants.iter().flat_map(of).collect()
}

/// Returns the erases that a fingerprint store saves, percent, on drives of several sizes. The name of a size is the
/// number of host writes per page of the drive.
fn erases_saved_percent_by_drive_size(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let mut values = Vec::new();
    for overrun in WRITES_PER_PHYSICAL_PAGE {
        let run = |variant: &str| runs.finished_run_named(&format!("web/overrun-{overrun}-{variant}"));
        for (variant, name) in [("128k-lru", "LRU"), ("infinite", "infinite")] {
            values.push(NamedValue::new(
                format!("{overrun}: {name}"),
                erases_saved_percent(run("baseline")?, run(variant)?),
            ));
        }
    }
    Ok(values)
}

/// Returns the mean response time of reads and writes, weighted as in Table I of the Recyclable SSD paper,
/// microseconds. An unweighted mean would be wrong, because the generated loads that replace the traces have the reads
/// of Figure 2, which are more than those of Table I.
fn weighted_response_us(run: ExperimentRun<'_>, write_share: f64) -> f64 {
    let mean = |kind: &str| run.figure(&format!("latency_us.{kind}.mean"));
    write_share * mean("write") + (1.0 - write_share) * mean("read")
}

/// Returns the change of the mean response time relative to the baseline, percent; with `sign` -1 its reduction.
fn response_time_changes(runs: &ExperimentRecords, variant: &str, sign: f64) -> Result<Vec<NamedValue>> {
    response_time_changes_against(runs, "timed-baseline", variant, sign)
}

/// Returns the change of the mean response time per trace relative to `baseline`, percent, times `change_sign`.
fn response_time_changes_against(
    runs: &ExperimentRecords,
    baseline: &str,
    variant: &str,
    change_sign: f64,
) -> Result<Vec<NamedValue>> {
    let of = |Trace { short_name: short, write_share, .. }: &Trace| {
        let mean = |variant: &str| {
            Ok::<_, String>(weighted_response_us(
                runs.finished_run_named(&format!("{short}/{variant}"))?,
                *write_share,
            ))
        };
        Ok(NamedValue::new(*short, change_sign * to_percent(mean(variant)? / mean(baseline)? - 1.0)))
    };
    TRACES.iter().map(of).collect()
}

/// Returns the mean number of comparisons per hit in the fingerprint store, for each eviction policy.
fn mean_comparisons_by_eviction_policy(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    [("LRU", "lru"), ("PROB", "prob"), ("PROB+FL", "fl")]
        .into_iter()
        .map(|(name, variant)| {
            Ok(NamedValue::new(
                name,
                mean_comparisons_per_fingerprint_store_hit(
                    runs.finished_run_named(&format!("runs/{variant}"))?,
                ),
            ))
        })
        .collect()
}

/// Returns the erases that each doubling of the fingerprint store saves, percent of the baseline's erases.
fn erases_saved_percent_per_store_doubling(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let baseline = runs.finished_run_named("synthetic/baseline")?;
    let left = |store: &str| {
        Ok::<_, String>(erases_percent_of_baseline(
            runs.finished_run_named(&format!("synthetic/{store}"))?,
            baseline,
        ))
    };
    Ok(vec![
        NamedValue::new("64K to 128K", left("64k")? - left("128k")?),
        NamedValue::new("128K to 256K", left("128k")? - left("256k")?),
    ])
}
