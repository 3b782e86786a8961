//! Experiments of the `GeckoFTL` paper (GK, section 5), and how the values of its rows are computed from them.
//!
//! Load and state are the paper's: uniform random page writes on a full device in its steady state. The steady state is
//! set up directly, without the writes that lead to it. Write amplification is the paper's measure: internal writes
//! plus a tenth of the internal reads, per host write. Copies of metadata pages by GC are reported separately, because
//! section 5.3 excludes them from the cost of updating metadata.
//!
//! A scaled-down run has fewer blocks (K). Unchanged are the paper's R (logical pages per physical page), B (pages per
//! block), V (entries in the RAM buffer of Logarithmic Gecko), T (size ratio of its levels), S (parts of a block's
//! bitmap), delta (duration of a program divided by that of a read) and the cached entries per translation page. The
//! map's cost then does not depend on the scale; that of Logarithmic Gecko (page validity on flash) grows by about a
//! level per doubling. Every measured row states the capacity of its device.
//!
//! Recovery is only a formula in the paper. Here the formula at 2 TiB is shown with a recovery that is simulated on a
//! device of 128 GiB and with the formula for that device. In a full-size run the sweeps over block sizes have K = 2^16
//! blocks instead of 2^22, because 2^22 blocks of 1024 pages would have more pages than there are page numbers.
//!
//! Sections 5.1 and 5.2 examine page validity alone. Here it is measured inside the whole design, which reports invalid
//! pages when it writes the map. For rows about the bitmap on flash, invalid pages are reported on each write, so that
//! updates can be counted.

use super::closed_forms::metadata::{
    ComparedFtl, ModelledDeviceSize, PROGRAM_TO_READ_TIME_RATIO, recovery_row_values_from_formula,
};
use super::experiment::{Experiment, ExperimentConditions, ExperimentRecords, ExperimentRun, ExperimentSize};
use super::request_source::RequestSource;
use super::verdict::NamedValue;

/// Number of blocks of the GeckoFTL paper's device; [`PAPER_PAGES_PER_BLOCK`] is its number of pages per block.
const PAPER_DEVICE_BLOCKS: u64 = 1 << 22;
/// Number of pages per block of the GeckoFTL paper's device (B).
const PAPER_PAGES_PER_BLOCK: u64 = 128;
/// Logical pages in percent of the physical pages (the paper's R).
const UTILISATION_PERCENT: u32 = 70;
/// Number of flash pages per entry of the cached mapping table: C = 2^19 entries for 2^29 pages.
const PAGES_PER_CACHE_ENTRY: u64 = 1024;
/// Size of the larger mapping cache in the GeckoFTL paper's Figure 14, as a multiple of the default cache: 68 MiB / 4
/// MiB.
const LARGE_TO_DEFAULT_CACHE_RATIO: u64 = 17;

/// Size ratios T of Logarithmic Gecko (page validity on flash) that are compared: how much larger each sorted level is
/// than the one before.
const GECKO_SIZE_RATIOS: [u32; 6] = [2, 3, 4, 8, 16, 32];
/// Number of parts of the validity bitmap of a block that the GeckoFTL paper uses by default (S).
const PAPER_PARTS_PER_BITMAP: u32 = 4;
/// Number S of parts of a block's bitmap from which on a part fits into one byte. With more parts, entries get no
/// smaller, and only the number of keys grows.
const PARTS_OF_ONE_BYTE: u32 = 16;
/// Numbers of parts per validity bitmap (S) that are compared.
const PARTS_PER_BITMAP: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Numbers of pages per block in the experiments for the GeckoFTL paper's Figure 10: the paper's 128, two smaller ones
/// and three larger ones.
const BLOCK_SIZES_PAGES: [u64; 6] = [32, 64, 128, 256, 512, 1024];
/// Number of pages in each part of a block's validity bitmap, if parts have the size that the GeckoFTL paper calls
/// balanced.
const PAGES_PER_BITMAP_PART: u64 = 32;
/// Logical pages in percent of the physical pages (R) that are compared.
const UTILISATION_PERCENTS: [u32; 5] = [50, 70, 80, 85, 90];
/// The compared FTLs: name in the GeckoFTL paper, and name of the design in Wearwell.
const FTL_AND_DESIGN_NAMES: [(&str, &str); 5] = [
    ("DFTL", "dftl"),
    ("LazyFTL", "lazyftl"),
    ("u-FTL", "u-ftl"),
    ("IB-FTL", "ib-ftl"),
    ("GeckoFTL", "geckoftl"),
];

/// A device of some size, and a number of random host writes on it.
#[derive(Clone, Copy)]
struct RandomWriteRun {
    /// Number of blocks of the device (K in the GeckoFTL paper).
    blocks: u64,
    /// Number of pages per block of the device (B in the GeckoFTL paper).
    pages_per_block: u64,
    /// R: logical pages in percent of the physical pages of the device.
    utilisation_percent: u32,
    /// Number of random page writes of the host.
    host_writes: u64,
    /// Size of the cached mapping table, as a multiple of the GeckoFTL paper's.
    map_cache_size_factor: u64,
}

impl RandomWriteRun {
    /// Returns the run on the paper's device, or on a smaller one with fewer writes if the experiments are scaled down.
    fn of_conditions(conditions: &ExperimentConditions) -> Self {
        let (blocks, host_writes) = match conditions.size {
            ExperimentSize::Quick => (1 << 14, 1_000_000),
            ExperimentSize::Full => (PAPER_DEVICE_BLOCKS, 50_000_000),
        };
        Self {
            blocks,
            pages_per_block: PAPER_PAGES_PER_BLOCK,
            utilisation_percent: UTILISATION_PERCENT,
            host_writes,
            map_cache_size_factor: 1,
        }
    }

    /// Returns the number of physical pages of the device.
    fn physical_pages(self) -> u64 {
        self.blocks * self.pages_per_block
    }

    /// Returns the number of entries of the cached mapping table (C).
    fn cache_entries(self) -> u64 {
        self.map_cache_size_factor * self.physical_pages() / PAGES_PER_CACHE_ENTRY
    }

    /// Returns the experiment that executes the random writes on a design with additional settings.
    fn experiment(
        self,
        conditions: &ExperimentConditions,
        name: String,
        design: &'static str,
        extra_settings: &[&str],
    ) -> Experiment {
        let logical = self.physical_pages() * u64::from(self.utilisation_percent) / 100;
        let load = format!(
            "uniform:write=1.0,pages={logical},requests={},seed={}",
            self.host_writes, conditions.seed
        );
        let settings = [
            "device.preset=gk-2t".to_owned(),
            format!("device.blocks_per_plane={}", self.blocks),
            format!("device.pages_per_block={}", self.pages_per_block),
            format!("device.logical_pages={logical}"),
            format!("mapping.cache_entries={}", self.cache_entries()),
            "precondition.mode=constructed".to_owned(),
            format!("replay.seed={}", conditions.seed),
        ];
        let settings = settings.into_iter().chain(extra_settings.iter().map(|&one| one.to_owned())).collect();
        let scale = self.blocks as f64 / PAPER_DEVICE_BLOCKS as f64;
        Experiment::new_replay(name, (RequestSource::Generated(load), scale), design, settings)
    }
}

/// Numbers of blocks of the additional devices for the GeckoFTL paper's Figure 11: 2, 32 and 128 GiB.
const FIGURE_11_BLOCKS: [u64; 3] = [1 << 12, 1 << 16, 1 << 18];
/// Number of blocks of a device on which the last level of Logarithmic Gecko (page validity on flash) is less full than
/// on the device of the other experiments: about half as full on a logarithmic scale.
const DEVICE_BLOCKS_WITH_HALF_FULL_GECKO_LEVEL: u64 = 11_584;
/// Number of host writes per block after which Logarithmic Gecko (page validity on flash) uses all its levels.
const HOST_WRITES_PER_BLOCK: u64 = 10;
/// Number of blocks of the devices (128 GiB) on which power is lost and recovery is executed. Power is lost after half
/// of the host writes, when every part of the mapping cache has been replaced several times.
const RECOVERY_DEVICE_BLOCKS: u64 = 1 << 18;
/// Number of host writes of the runs in which power is lost and recovery is executed.
const RECOVERY_RUN_HOST_WRITES: u64 = 2_000_000;
/// Settings for the operation times in the paper's formulas (section 2): 3 us for a spare area, and times of page
/// operations that include the transfer.
const PAPER_RECOVERY_TIME_SETTINGS: [&str; 2] =
    ["recovery.spare_read_us=3", "device.channel_mb_per_s=1000000"];

/// Returns all experiments for the GeckoFTL paper (GK).
pub fn experiments(conditions: &ExperimentConditions) -> Vec<Experiment> {
    let load = RandomWriteRun::of_conditions(conditions);
    [
        design_experiments(conditions, load),
        validity_store_experiments(conditions, load),
        figure_14_experiments(conditions, load),
        recovery_experiments(conditions, load),
        suspected_cause_experiments(conditions, load),
    ]
    .concat()
}

/// Returns experiments on small devices that remove suspected causes of differences from the GeckoFTL paper: DFTL that
/// reports old pages as invalid only when it writes translation pages, and Logarithmic Gecko with pairwise instead of
/// multi-way merges for other capacities and size ratios.
fn suspected_cause_experiments(conditions: &ExperimentConditions, load: RandomWriteRun) -> Vec<Experiment> {
    if conditions.size == ExperimentSize::Full {
        return Vec::new();
    }
    let lazily = "mapping.identification=at-synchronisation";
    let mut experiments = vec![load.experiment(conditions, "DFTL/lazy".into(), "dftl", &[lazily])];
    let gecko = |load: RandomWriteRun, name: String, extra: &[&str]| {
        load.experiment(conditions, name, "geckoftl", extra)
    };
    let pairwise = "gecko.merge=pairwise";
    for ratio in [3, 4, 8] {
        let ratio_setting = format!("gecko.size_ratio={ratio}");
        experiments.push(gecko(load, format!("T={ratio}/pairwise"), &[&ratio_setting, pairwise]));
    }
    for blocks in FIGURE_11_BLOCKS {
        let writes = load.host_writes.max(HOST_WRITES_PER_BLOCK * blocks);
        let load = RandomWriteRun { blocks, host_writes: writes, ..load };
        experiments.push(gecko(load, format!("K={blocks}/pairwise"), &[pairwise]));
    }
    let between = RandomWriteRun { blocks: DEVICE_BLOCKS_WITH_HALF_FULL_GECKO_LEVEL, ..load };
    experiments.push(gecko(between, format!("K={DEVICE_BLOCKS_WITH_HALF_FULL_GECKO_LEVEL}"), &[]));
    experiments.push(gecko(
        between,
        format!("K={DEVICE_BLOCKS_WITH_HALF_FULL_GECKO_LEVEL}/pairwise"),
        &[pairwise],
    ));
    experiments
}

/// Returns the experiments for the GeckoFTL paper's Figure 13 (all five designs), and one that shows what `GeckoFTL`
/// saves by collecting metadata blocks only when they are empty.
fn design_experiments(conditions: &ExperimentConditions, load: RandomWriteRun) -> Vec<Experiment> {
    let mut experiments: Vec<Experiment> = FTL_AND_DESIGN_NAMES
        .iter()
        .map(|&(name, design)| load.experiment(conditions, name.to_owned(), design, &[]))
        .collect();
    let greedy = "GeckoFTL/metadata collected".to_owned();
    experiments.push(load.experiment(conditions, greedy, "geckoftl", &["gc.metadata=greedy"]));
    experiments
}

/// Returns the experiments for the GeckoFTL paper's Figures 9 to 12: page validity on flash in Logarithmic Gecko and in
/// a bitmap.
fn validity_store_experiments(conditions: &ExperimentConditions, load: RandomWriteRun) -> Vec<Experiment> {
    let gecko = |load: RandomWriteRun, name: String, extra: &[&str]| {
        load.experiment(conditions, name, "geckoftl", extra)
    };
    let at_once = "mapping.identification=on-update";
    let mut experiments = vec![
        load.experiment(conditions, "bitmap".into(), "u-ftl", &[at_once]),
        gecko(load, "pairwise".into(), &["gecko.merge=pairwise"]),
    ];
    for ratio in GECKO_SIZE_RATIOS.into_iter().filter(|&ratio| ratio != 2) {
        experiments.push(gecko(load, format!("T={ratio}"), &[&format!("gecko.size_ratio={ratio}")]));
    }
    for parts in PARTS_PER_BITMAP.into_iter().filter(|&parts| parts != PAPER_PARTS_PER_BITMAP) {
        experiments.push(gecko(load, format!("S={parts}"), &[&format!("gecko.parts={parts}")]));
    }
    experiments.extend(block_size_experiments(conditions, load));
    for utilisation in
        UTILISATION_PERCENTS.into_iter().filter(|&utilisation| utilisation != UTILISATION_PERCENT)
    {
        experiments.push(gecko(
            RandomWriteRun { utilisation_percent: utilisation, ..load },
            format!("R={}", percent_to_fraction(utilisation)),
            &[],
        ));
    }
    for blocks in FIGURE_11_BLOCKS {
        let writes = load.host_writes.max(HOST_WRITES_PER_BLOCK * blocks);
        experiments.push(gecko(
            RandomWriteRun { blocks, host_writes: writes, ..load },
            format!("K={blocks}"),
            &[],
        ));
    }
    let small = RandomWriteRun { blocks: 1 << 12, ..load };
    experiments.push(small.experiment(conditions, "bitmap/K=4096".into(), "u-ftl", &[at_once]));
    experiments
}

/// Returns the number of blocks of the device in sweeps over block sizes. In full-size runs it is smaller than in the
/// GeckoFTL paper, so that 1024 pages per block are possible.
fn block_size_sweep_device_blocks(load: RandomWriteRun) -> u64 {
    load.blocks.min(1 << 16)
}

/// Returns the experiments for the GeckoFTL paper's Figure 10: validity bitmaps of whole blocks, bitmaps in parts of 32
/// pages, and such parts on a device whose capacity, and so its number of keys, does not grow with the block size.
fn block_size_experiments(conditions: &ExperimentConditions, load: RandomWriteRun) -> Vec<Experiment> {
    let blocks = block_size_sweep_device_blocks(load);
    let mut experiments = Vec::new();
    for block_pages in BLOCK_SIZES_PAGES {
        let parts = format!("gecko.parts={}", block_pages / PAGES_PER_BITMAP_PART);
        let mut add = |name: &str, blocks: u64, parts: &str| {
            let load = RandomWriteRun { blocks, pages_per_block: block_pages, ..load };
            let name = format!("{name}/B={block_pages}");
            experiments.push(load.experiment(conditions, name, "geckoftl", &[parts]));
        };
        add("whole", blocks, "gecko.parts=1");
        add("parts of 32", blocks, &parts);
        add("parts of 32, same capacity", blocks * PAPER_PAGES_PER_BLOCK / block_pages, &parts);
    }
    experiments
}

/// Returns the experiments for the GeckoFTL paper's Figure 14: designs without a validity bitmap in RAM have a cache
/// that is larger by the bitmap's size. All use `GeckoFTL`'s rule for GC of metadata.
fn figure_14_experiments(conditions: &ExperimentConditions, load: RandomWriteRun) -> Vec<Experiment> {
    let large = RandomWriteRun { map_cache_size_factor: LARGE_TO_DEFAULT_CACHE_RATIO, ..load };
    let spared = ["gc.metadata=when-empty"];
    vec![
        load.experiment(conditions, "Fig. 14/DFTL".into(), "dftl", &spared),
        large.experiment(conditions, "Fig. 14/u-FTL".into(), "u-ftl", &spared),
        large.experiment(conditions, "Fig. 14/GeckoFTL".into(), "geckoftl", &spared),
    ]
}

/// Returns the experiments with a recovery in the middle of a run, and one that runs IB-FTL until its log of invalid
/// pages has been cleaned several times.
fn recovery_experiments(conditions: &ExperimentConditions, load: RandomWriteRun) -> Vec<Experiment> {
    let cut = format!("recovery.after_requests={}", load.host_writes / 2);
    let small = RandomWriteRun { blocks: load.blocks / 4, ..load };
    let invalid = small.physical_pages() * u64::from(100 - UTILISATION_PERCENT) / 100;
    let log = RandomWriteRun { host_writes: 12 * invalid, ..small };
    let mut experiments = vec![
        load.experiment(
            conditions,
            "GeckoFTL/recovered".into(),
            "geckoftl",
            &[&[&*cut], &PAPER_RECOVERY_TIME_SETTINGS[..]].concat(),
        ),
        log.experiment(conditions, "IB-FTL/log".into(), "ib-ftl", &[]),
    ];
    let executed =
        RandomWriteRun { blocks: RECOVERY_DEVICE_BLOCKS, host_writes: RECOVERY_RUN_HOST_WRITES, ..load };
    let cut = format!("recovery.after_requests={}", RECOVERY_RUN_HOST_WRITES / 2);
    let settings = [&[&*cut], &PAPER_RECOVERY_TIME_SETTINGS[..]].concat();
    for (name, design) in FTL_AND_DESIGN_NAMES {
        experiments.push(executed.experiment(conditions, format!("recovery/{name}"), design, &settings));
    }
    experiments
}

/// Converts percent to a share (0 to 1).
fn percent_to_fraction(percent: u32) -> f64 {
    f64::from(percent) / 100.0
}

/// Result of computing values; the error is the reason why a needed experiment has no record.
type Result<T> = std::result::Result<T, String>;

/// Computes our values for one row (reported result) of the GeckoFTL paper from the finished experiments; `None` if no
/// experiment is about the row.
pub fn row_values_from_experiments(id: &str, runs: &ExperimentRecords) -> Option<Result<Vec<NamedValue>>> {
    let values = match id {
        "GK-16" => bitmap_operation_costs(runs),
        "GK-18" => gecko_operation_costs(runs),
        "GK-19" => bitmap_operations_per_10000_writes(runs),
        "GK-21" => validity_costs_by_size_ratio(runs),
        "GK-22" => best_size_ratio(runs),
        "GK-23" => validity_cost_percent_of_bitmap(runs),
        "GK-24" => validity_cost_growth_with_block_size(runs),
        "GK-25" => validity_cost_growth_for_parts_of_32_pages(runs),
        "GK-26" => validity_costs_by_parts_per_bitmap(runs),
        "GK-27" => validity_cost_growth_with_capacity(runs),
        "GK-29" => validity_costs_by_utilisation(runs),
        "GK-35" => geckoftl_recovery_times(runs),
        "GK-36" => recovery_times_of_all_designs(runs),
        "GK-37" => invalid_page_log_recovery_times(runs),
        "GK-38" => block_scan_share_of_recovery(runs),
        "GK-39" => simulated_recovery_time_saved_percent(runs),
        "GK-41" => data_programs_by_design(runs),
        "GK-42" => map_costs_of_dftl_u_ftl_and_geckoftl(runs),
        "GK-43" => map_costs_and_most_costly_designs(runs),
        "GK-44" => checkpoint_cost(runs),
        "GK-45" => validity_costs_by_design(runs),
        "GK-46" => write_amplification_with_metadata_gc(runs),
        "GK-48" => map_cost_small_and_large_cache(runs),
        "GK-49" => design_with_least_cost(runs),
        "GK-51" => multi_way_merge_costs(runs),
        "GK-52" => gecko_pages_relative_to_largest_run(runs),
        "GK-55" => backward_scan_spare_reads(runs),
        "GK-56" => map_correction_costs_after_recovery(runs),
        "GK-59" => log_cleaning_costs(runs),
        _ => return None,
    };
    Some(values)
}

/// Returns the value of a statement: 1 if the statement holds, otherwise 0.
fn named_truth_value(value_name: impl Into<String>, statement: bool) -> NamedValue {
    NamedValue::new(value_name, f64::from(u8::from(statement)))
}

/// Returns the capacity of a run's device, GiB, as a value that is shown with a row (reported result).
fn device_capacity_value(run: ExperimentRun<'_>) -> NamedValue {
    let bytes = run.figure("device.physical_pages") * run.figure("device.page_bytes");
    NamedValue::new("device, GiB", bytes / f64::from(1 << 30))
}

/// Returns a figure of a run divided by its host page writes.
fn figure_per_host_write(run: ExperimentRun<'_>, figure: &str) -> f64 {
    run.figure(figure) / run.figure("host_page_writes")
}

/// Returns the write amplification, in the GeckoFTL paper's measure, of the flash operations with these causes:
/// programs plus a tenth of the reads, per host write.
fn write_amplification_by_causes(run: ExperimentRun<'_>, causes: &[&str]) -> f64 {
    let of = |what: &str| -> f64 {
        causes
            .iter()
            .map(|cause| figure_per_host_write(run, &format!("{what}_by_cause.{cause}")))
            .sum::<f64>()
    };
    of("programs") + of("reads") / PROGRAM_TO_READ_TIME_RATIO
}

/// Returns the write amplification by page validity: programs plus a tenth of the reads, per host write.
fn validity_write_amplification(run: ExperimentRun<'_>) -> f64 {
    write_amplification_by_causes(run, &["validity"])
}

/// Returns the write amplification by the map: programs plus a tenth of the reads, per host write.
fn map_write_amplification(run: ExperimentRun<'_>) -> f64 {
    write_amplification_by_causes(run, &["translation", "checkpoint"])
}

/// Returns the cost of updating translation pages, each by one read and one program: programs plus a tenth of the
/// reads, per host write.
fn synchronisation_write_amplification(run: ExperimentRun<'_>) -> f64 {
    let writes = figure_per_host_write(run, "programs_by_cause.translation")
        + figure_per_host_write(run, "programs_by_cause.checkpoint");
    writes * (1.0 + 1.0 / PROGRAM_TO_READ_TIME_RATIO)
}

/// Returns the cost of GC's copies of metadata pages, each by one read and one program: programs plus a tenth of the
/// reads, per host write.
fn metadata_copy_write_amplification(run: ExperimentRun<'_>) -> f64 {
    let copies = figure_per_host_write(run, "parts.translation_copies")
        + figure_per_host_write(run, "parts.validity_copies");
    copies * (1.0 + 1.0 / PROGRAM_TO_READ_TIME_RATIO)
}

/// Returns the data pages that a run programs per host write, including copies by GC.
fn data_programs_per_host_write(run: ExperimentRun<'_>) -> f64 {
    let copies = run.programs_by_cause("gc")
        - run.figure("parts.translation_copies")
        - run.figure("parts.validity_copies");
    (run.programs_by_cause("host") + copies) / run.figure("host_page_writes")
}

/// Returns the number of queries for page validity in a run: one for each data block that GC collected.
fn validity_query_count(run: ExperimentRun<'_>) -> f64 {
    run.figure("parts.collections") - run.figure("parts.collections_of_metadata")
}

/// Returns the flash operations of a validity bitmap on flash: reads and writes per update, reads per query.
fn bitmap_operation_costs(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let run = runs.finished_run_named("bitmap")?;
    let (writes, reads) = (run.programs_by_cause("validity"), run.figure("reads_by_cause.validity"));
    let updates = run.figure("host_page_writes");
    Ok(vec![
        // Every host write reports an invalid page. Reads of queries are attributed to validity as well, one per query.
        NamedValue::new("reads per update", (reads - validity_query_count(run)) / updates),
        NamedValue::new("writes per update", writes / updates),
        NamedValue::new("reads per query", (reads - writes) / validity_query_count(run)),
        device_capacity_value(run),
    ])
}

/// Returns the flash operations for a validity bitmap on flash, per 10,000 host writes.
fn bitmap_operations_per_10000_writes(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let run = runs.finished_run_named("bitmap")?;
    let of = |figure: &str| 10_000.0 * figure_per_host_write(run, figure);
    Ok(vec![
        NamedValue::new("reads", of("reads_by_cause.validity")),
        NamedValue::new("writes", of("programs_by_cause.validity")),
        device_capacity_value(run),
    ])
}

/// Returns the flash reads for merges of Logarithmic Gecko (page validity on flash): all reads for page validity except
/// those of queries.
fn gecko_merge_reads(run: ExperimentRun<'_>) -> f64 {
    run.figure("reads_by_cause.validity") - run.figure("parts.gecko_query_reads")
}

/// Returns the cost of page validity without the reads of GC queries: programs plus a tenth of the reads, per host
/// write.
fn validity_update_write_amplification(run: ExperimentRun<'_>) -> f64 {
    figure_per_host_write(run, "programs_by_cause.validity")
        + gecko_merge_reads(run) / run.figure("host_page_writes") / PROGRAM_TO_READ_TIME_RATIO
}

/// Returns the flash operations of Logarithmic Gecko per update and per query, and whether they are within the bounds
/// that the GeckoFTL paper gives.
fn gecko_operation_costs(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let run = runs.finished_run_named("GeckoFTL")?;
    let levels = run.required_figure("parts.gecko_levels")?;
    let updates = run.required_figure("parts.gecko_reports")? + run.figure("parts.gecko_markers");
    let bound = 2.0 * levels / run.required_figure("parts.gecko_buffer_entries")?;
    let writes = run.programs_by_cause("validity") / updates;
    let reads = gecko_merge_reads(run) / updates;
    let per_query = run.figure("parts.gecko_query_reads") / run.required_figure("parts.gecko_queries")?;
    Ok(vec![
        named_truth_value("updates within the bound", writes <= bound && reads <= bound),
        named_truth_value("queries within the bound", per_query <= 2.0 * levels),
        NamedValue::new("writes per update", writes),
        NamedValue::new("merge reads per update", reads),
        NamedValue::new("bound of each", bound),
        NamedValue::new("reads per query", per_query),
        NamedValue::new("levels", levels),
        NamedValue::new("writes per host write", figure_per_host_write(run, "programs_by_cause.validity")),
        NamedValue::new("query reads per host write", figure_per_host_write(run, "parts.gecko_query_reads")),
        device_capacity_value(run),
    ])
}

/// Returns the run of `GeckoFTL` with this size ratio T of Logarithmic Gecko.
fn run_of_size_ratio(runs: &ExperimentRecords, ratio: u32) -> Result<ExperimentRun<'_>> {
    if ratio == 2 {
        runs.finished_run_named("GeckoFTL")
    } else {
        runs.finished_run_named(&format!("T={ratio}"))
    }
}

/// Returns each size ratio T with the cost of page validity per host write.
fn validity_costs_of_size_ratios(runs: &ExperimentRecords) -> Result<Vec<(u32, f64)>> {
    GECKO_SIZE_RATIOS
        .into_iter()
        .map(|ratio| Ok((ratio, validity_write_amplification(run_of_size_ratio(runs, ratio)?))))
        .collect()
}

/// Returns the cost of page validity for each size ratio T, and whether each cost is less than that of the bitmap on
/// flash.
fn validity_costs_by_size_ratio(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let bitmap = runs.finished_run_named("bitmap")?;
    let (costs, bitmap_cost) = (validity_costs_of_size_ratios(runs)?, validity_write_amplification(bitmap));
    let mut values =
        vec![named_truth_value("for every T", costs.iter().all(|&(_, cost)| cost < bitmap_cost))];
    values.extend(costs.iter().map(|(ratio, cost)| NamedValue::new(format!("T = {ratio}"), *cost)));
    values.extend([NamedValue::new("bitmap", bitmap_cost), device_capacity_value(bitmap)]);
    Ok(values)
}

/// Returns the size ratio T between levels of Logarithmic Gecko at which page validity costs least.
fn best_size_ratio(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let costs = validity_costs_of_size_ratios(runs)?;
    let best = costs.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0.0, |&(ratio, _)| f64::from(ratio));
    Ok(vec![NamedValue::new("T", best), device_capacity_value(run_of_size_ratio(runs, 2)?)])
}

/// Returns the cost of page validity in Logarithmic Gecko, in percent of the cost in a bitmap on flash, and both costs.
fn validity_cost_percent_of_bitmap(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let (gecko, bitmap) = (runs.finished_run_named("GeckoFTL")?, runs.finished_run_named("bitmap")?);
    let (ours, theirs) = (validity_write_amplification(gecko), validity_write_amplification(bitmap));
    Ok(vec![
        NamedValue::new("left, %", 100.0 * ours / theirs),
        NamedValue::new("Logarithmic Gecko", ours),
        NamedValue::new("bitmap", theirs),
        device_capacity_value(gecko),
    ])
}

/// Costs of page validity (programs plus a tenth of the reads, per host write) for each block size of a sweep.
struct BlockSizeSweep {
    /// For each block size: write amplification by page validity (programs plus a tenth of the reads, per host write),
    /// including the reads of GC queries.
    validity_write_amplifications: Vec<f64>,
    /// For each block size: write amplification by page validity without the reads of GC queries. It is the cost of
    /// merges, which are caused by reports of invalid pages and by erase markers.
    validity_update_write_amplifications: Vec<f64>,
}

/// Collects the costs of page validity from the experiments `name` for all block sizes.
fn block_size_sweep(runs: &ExperimentRecords, name: &str) -> Result<BlockSizeSweep> {
    let of = |&pages: &u64| runs.finished_run_named(&format!("{name}/B={pages}"));
    let all: Vec<ExperimentRun<'_>> = BLOCK_SIZES_PAGES.iter().map(of).collect::<Result<_>>()?;
    Ok(BlockSizeSweep {
        validity_write_amplifications: all.iter().map(|run| validity_write_amplification(*run)).collect(),
        validity_update_write_amplifications: all
            .iter()
            .map(|run| validity_update_write_amplification(*run))
            .collect(),
    })
}

/// Returns the costs as values whose names are `what` and the block size.
fn values_by_block_size<'a>(what: &'a str, costs: &'a [f64]) -> impl Iterator<Item = NamedValue> + 'a {
    BLOCK_SIZES_PAGES
        .iter()
        .zip(costs)
        .map(move |(pages, cost)| NamedValue::new(format!("{what}B = {pages}"), *cost))
}

/// Returns, from the costs for all block sizes, those for the GeckoFTL paper's block size and all larger ones.
fn costs_from_paper_block_size_up(costs: &[f64]) -> &[f64] {
    &costs[BLOCK_SIZES_PAGES.iter().position(|&pages| pages == PAPER_PAGES_PER_BLOCK).unwrap_or(0)..]
}

/// Returns the largest cost divided by the smallest.
fn largest_over_smallest(costs: &[f64]) -> f64 {
    let of = |f: fn(f64, f64) -> f64, start| costs.iter().copied().fold(start, f);
    of(f64::max, f64::MIN) / of(f64::min, f64::MAX)
}

/// Returns, for validity bitmaps of whole blocks, how the cost of page validity grows with each doubling of the block
/// size, and from the GeckoFTL paper's block size to the largest.
fn validity_cost_growth_with_block_size(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let BlockSizeSweep { validity_write_amplifications: all, validity_update_write_amplifications: updates } =
        block_size_sweep(runs, "whole")?;
    let mut values: Vec<NamedValue> = BLOCK_SIZES_PAGES
        .windows(2)
        .zip(all.windows(2))
        .map(|(pages, cost)| {
            NamedValue::new(format!("B = {} over B = {}", pages[1], pages[0]), cost[1] / cost[0])
        })
        .collect();
    let large = costs_from_paper_block_size_up(&all);
    values.push(NamedValue::new("B = 1024 over B = 128", large[large.len() - 1] / large[0]));
    values.extend(values_by_block_size("", &all));
    values.extend(values_by_block_size("without queries, ", &updates));
    values.push(NamedValue::new(
        "blocks",
        runs.finished_run_named("whole/B=128")?.figure("device.physical_pages") / 128.0,
    ));
    Ok(values)
}

/// Returns how the cost of page validity varies with the block size if validity bitmaps have parts of 32 pages.
fn validity_cost_growth_for_parts_of_32_pages(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let (growing, same) =
        (block_size_sweep(runs, "parts of 32")?, block_size_sweep(runs, "parts of 32, same capacity")?);
    let spread = |of: &str, costs: &[f64]| {
        NamedValue::new(of, largest_over_smallest(costs_from_paper_block_size_up(costs)))
    };
    let mut values = vec![
        spread("largest over smallest", &growing.validity_write_amplifications),
        spread("without queries", &growing.validity_update_write_amplifications),
        spread("without queries, same capacity", &same.validity_update_write_amplifications),
    ];
    values.extend(values_by_block_size("", &growing.validity_write_amplifications));
    values.extend(values_by_block_size("without queries, ", &growing.validity_update_write_amplifications));
    values.extend(values_by_block_size(
        "without queries, same capacity, ",
        &same.validity_update_write_amplifications,
    ));
    values.push(NamedValue::new(
        "blocks",
        runs.finished_run_named("parts of 32/B=128")?.figure("device.physical_pages") / 128.0,
    ));
    Ok(values)
}

/// Returns the cost of page validity for each number S of parts of a block's bitmap, and quotients of these costs. The
/// first is S = 128 over a moderate S, [`PARTS_OF_ONE_BYTE`], beyond which the paper has the cost rise.
fn validity_costs_by_parts_per_bitmap(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let run_of = |parts: u32| {
        if parts == PAPER_PARTS_PER_BITMAP {
            runs.finished_run_named("GeckoFTL")
        } else {
            runs.finished_run_named(&format!("S={parts}"))
        }
    };
    let costs: Vec<(u32, f64)> = PARTS_PER_BITMAP
        .into_iter()
        .map(|parts| Ok((parts, validity_write_amplification(run_of(parts)?))))
        .collect::<Result<_>>()?;
    let best = costs.iter().map(|&(_, cost)| cost).fold(f64::MAX, f64::min);
    let last = costs.last().map_or(f64::NAN, |&(_, cost)| cost);
    let of_paper = validity_write_amplification(run_of(PAPER_PARTS_PER_BITMAP)?);
    let of_moderate = validity_write_amplification(run_of(PARTS_OF_ONE_BYTE)?);
    let mut values = vec![
        NamedValue::new("ratio", last / of_moderate),
        NamedValue::new("S = 128 over S = 4", last / of_paper),
        NamedValue::new("S = 128 over the best", last / best),
        NamedValue::new("S = 4 over the best", of_paper / best),
    ];
    values.extend(costs.iter().map(|(parts, cost)| NamedValue::new(format!("S = {parts}"), *cost)));
    let updates: Vec<(u32, f64)> = PARTS_PER_BITMAP
        .into_iter()
        .map(|parts| Ok((parts, validity_update_write_amplification(run_of(parts)?))))
        .collect::<Result<_>>()?;
    let of_moderate = validity_update_write_amplification(run_of(PARTS_OF_ONE_BYTE)?);
    let last = updates.last().map_or(f64::NAN, |&(_, cost)| cost);
    values.push(NamedValue::new("without queries, ratio", last / of_moderate));
    let of = |(parts, cost): &(u32, f64)| NamedValue::new(format!("without queries, S = {parts}"), *cost);
    values.extend(updates.iter().map(of));
    values.push(device_capacity_value(run_of(PAPER_PARTS_PER_BITMAP)?));
    Ok(values)
}

/// Returns whether the cost of page validity grows with the capacity as the paper claims, and the costs.
fn validity_cost_growth_with_capacity(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let (base, small_bitmap) =
        (runs.finished_run_named("bitmap")?, runs.finished_run_named("bitmap/K=4096")?);
    let gecko = runs.finished_run_named("GeckoFTL")?;
    let base_gib = device_capacity_value(gecko).value;
    let mut points = vec![(base_gib, validity_write_amplification(gecko))];
    for blocks in FIGURE_11_BLOCKS {
        let run = runs.finished_run_named(&format!("K={blocks}"))?;
        points.push((device_capacity_value(run).value, validity_write_amplification(run)));
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, last) = (points[0], points[points.len() - 1]);
    let bitmaps = (validity_write_amplification(small_bitmap), validity_write_amplification(base));
    let mut values = vec![
        named_truth_value("grows", points.windows(2).all(|pair| pair[1].1 > pair[0].1)),
        named_truth_value("by less than a tenth of capacity", last.1 / first.1 < 0.1 * last.0 / first.0),
        named_truth_value("bitmap constant", (bitmaps.0 / bitmaps.1 - 1.0).abs() < 0.01),
    ];
    values.extend(points.iter().map(|(gib, cost)| NamedValue::new(format!("{gib} GiB"), *cost)));
    values.push(NamedValue::new("bitmap, 2 GiB", bitmaps.0));
    values.push(NamedValue::new(format!("bitmap, {base_gib} GiB"), bitmaps.1));
    Ok(values)
}

/// Returns the cost of page validity per host write for each utilisation R, and whether the paper's claims hold.
fn validity_costs_by_utilisation(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let run_of = |utilisation: u32| match utilisation {
        UTILISATION_PERCENT => runs.finished_run_named("GeckoFTL"),
        _ => runs.finished_run_named(&format!("R={}", percent_to_fraction(utilisation))),
    };
    let all: Vec<(f64, ExperimentRun<'_>)> = UTILISATION_PERCENTS
        .into_iter()
        .map(|one| Ok((percent_to_fraction(one), run_of(one)?)))
        .collect::<Result<_>>()?;
    let reads: Vec<f64> =
        all.iter().map(|(_, run)| figure_per_host_write(*run, "parts.gecko_query_reads")).collect();
    let costs: Vec<f64> = all.iter().map(|(_, run)| validity_write_amplification(*run)).collect();
    let rise = costs[costs.len() - 1] - costs[0];
    let bitmap = validity_write_amplification(runs.finished_run_named("bitmap")?);
    let mut values = vec![
        named_truth_value("query reads rise", reads.windows(2).all(|pair| pair[1] > pair[0])),
        named_truth_value("total rises by less than 1 % of the bitmap's", rise < 0.01 * bitmap),
    ];
    let points = |what: &str, points: &[f64]| -> Vec<NamedValue> {
        all.iter()
            .zip(points)
            .map(|((share, _), value)| NamedValue::new(format!("{what}R = {share}"), *value))
            .collect()
    };
    values.extend(points("", &costs));
    values.extend(points("query reads, ", &reads));
    let updates: Vec<f64> = all.iter().map(|(_, run)| validity_update_write_amplification(*run)).collect();
    values.extend(points("without queries, ", &updates));
    let rise = updates[updates.len() - 1] - updates[0];
    values.push(NamedValue::new("rise without queries, % of the bitmap's", 100.0 * rise / bitmap));
    values.push(device_capacity_value(all[0].1));
    Ok(values)
}

/// Returns the result of `figure` for the run of each of the five FTL designs that the GeckoFTL paper compares.
fn value_per_design(
    runs: &ExperimentRecords,
    figure: impl Fn(ExperimentRun<'_>) -> f64,
) -> Result<Vec<NamedValue>> {
    FTL_AND_DESIGN_NAMES
        .iter()
        .map(|(name, _)| Ok(NamedValue::new(*name, figure(runs.finished_run_named(name)?))))
        .collect()
}

/// Returns the largest of the values divided by the smallest.
fn largest_over_smallest_value(values: &[NamedValue]) -> f64 {
    let of = |f: fn(f64, f64) -> f64, start| values.iter().map(|value| value.value).fold(start, f);
    of(f64::max, f64::MIN) / of(f64::min, f64::MAX)
}

/// Returns the run in which a recovery of this design was executed.
fn recovery_run_of(runs: &ExperimentRecords, design: ComparedFtl) -> Result<ExperimentRun<'_>> {
    runs.finished_run_named(&format!("recovery/{}", design.name()))
}

/// Returns the duration of a design's simulated recovery, seconds, with flash operations one after the other. What a
/// battery wrote at power loss is not included.
fn simulated_recovery_s(runs: &ExperimentRecords, design: ComparedFtl) -> Result<f64> {
    recovery_run_of(runs, design)?.required_figure("recovery.total.time_s")
}

/// Returns the duration of a step of recovery, seconds; 0 if the step is absent because it took no time.
fn recovery_step_s(run: ExperimentRun<'_>, step: &str) -> f64 {
    run.figure(&format!("recovery.steps.{step}.time_s"))
}

/// Names of the steps of an executed recovery, in their order in a record.
const RECOVERY_STEPS: [&str; 7] = [
    "blocks",
    "directory",
    "validity directories",
    "changed entries",
    "validity buffer",
    "valid counts",
    "synchronisation",
];

/// Returns the duration of each step of a simulated recovery, seconds.
fn simulated_recovery_step_durations_s(run: ExperimentRun<'_>) -> impl Iterator<Item = NamedValue> + '_ {
    RECOVERY_STEPS
        .into_iter()
        .map(move |step| NamedValue::new(format!("executed, {step}"), recovery_step_s(run, step)))
}

/// Returns what the formulas for recovery time give for a row (reported result) on a device of 2 TiB, to be shown next
/// to executed recoveries.
fn recovery_formula_values(id: &str) -> Vec<NamedValue> {
    let values = recovery_row_values_from_formula(id).unwrap_or_default();
    values.into_iter().map(|value| NamedValue::new(format!("2 TiB, {}", value.of), value.value)).collect()
}

/// Returns the size of the device on which recoveries are executed, as parameters of the formulas for RAM and recovery
/// time.
fn recovery_device_size() -> ModelledDeviceSize {
    let pages = (RECOVERY_DEVICE_BLOCKS * PAPER_PAGES_PER_BLOCK) as f64;
    let bytes = pages * 4096.0;
    ModelledDeviceSize {
        cache_entries: pages / PAGES_PER_CACHE_ENTRY as f64,
        ..ModelledDeviceSize::of_capacity(bytes)
    }
}

/// Returns the duration of each step of `GeckoFTL`'s recovery, by formula and as executed, seconds.
fn geckoftl_recovery_times(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let run = recovery_run_of(runs, ComparedFtl::GeckoFtl)?;
    let of_formula = recovery_device_size().recovery_step_durations_s(ComparedFtl::GeckoFtl);
    let mut values = recovery_formula_values("GK-35");
    values.extend(of_formula.into_iter().map(|(step, s)| NamedValue::new(format!("formula, {step}"), s)));
    values.extend(simulated_recovery_step_durations_s(run));
    values.push(NamedValue::new("executed, all", simulated_recovery_s(runs, ComparedFtl::GeckoFtl)?));
    values.push(device_capacity_value(run));
    Ok(values)
}

/// Returns the duration of each design's recovery, by formula and as executed, seconds.
fn recovery_times_of_all_designs(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let of_formula = |design: ComparedFtl| recovery_device_size().recovery_s(design);
    let executed: Vec<(ComparedFtl, f64)> = ComparedFtl::ALL
        .into_iter()
        .map(|design| Ok((design, simulated_recovery_s(runs, design)?)))
        .collect::<Result<_>>()?;
    let lazy_over_dftl = executed[0].1 / executed[1].1;
    let paper = recovery_row_values_from_formula("GK-36").unwrap_or_default();
    let mut values = vec![
        named_truth_value("formula", paper[0].value > paper[1].value),
        named_truth_value("executed", lazy_over_dftl > 1.0),
    ];
    values.extend(recovery_formula_values("GK-36"));
    for (design, time_s) in executed {
        values.push(NamedValue::new(format!("formula, {}", design.name()), of_formula(design)));
        values.push(NamedValue::new(format!("executed, {}", design.name()), time_s));
    }
    values.push(device_capacity_value(recovery_run_of(runs, ComparedFtl::Dftl)?));
    Ok(values)
}

/// Returns the durations of the steps of IB-FTL's recovery, by formula and as executed, seconds.
fn invalid_page_log_recovery_times(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let run = recovery_run_of(runs, ComparedFtl::IbFtl)?;
    let all = simulated_recovery_s(runs, ComparedFtl::IbFtl)?;
    // IB-FTL's log is read in the step that restores its chains and the erase times of blocks; the valid counts follow
    // from that reading.
    let both = recovery_step_s(run, "validity directories") + recovery_step_s(run, "synchronisation");
    let mut values = recovery_formula_values("GK-37");
    values.insert(0, named_truth_value("executed", both > 0.5 * all));
    values.extend(simulated_recovery_step_durations_s(run));
    values.push(NamedValue::new("executed, all", all));
    values.push(device_capacity_value(run));
    Ok(values)
}

/// Returns whether the scan of blocks is the longest step of `GeckoFTL`'s executed recovery, and the share of the scan
/// in the recovery time, percent.
fn block_scan_share_of_recovery(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let run = recovery_run_of(runs, ComparedFtl::GeckoFtl)?;
    let all = simulated_recovery_s(runs, ComparedFtl::GeckoFtl)?;
    let blocks = recovery_step_s(run, "blocks");
    let mut values = recovery_formula_values("GK-38");
    values.insert(
        0,
        named_truth_value(
            "executed",
            RECOVERY_STEPS[1..].iter().all(|step| recovery_step_s(run, step) < blocks),
        ),
    );
    values.push(NamedValue::new("executed, share, %", 100.0 * blocks / all));
    values.push(device_capacity_value(run));
    Ok(values)
}

/// Returns the time that `GeckoFTL`'s simulated recovery saves compared with `LazyFTL`'s, percent.
fn simulated_recovery_time_saved_percent(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let (gecko, lazy) =
        (simulated_recovery_s(runs, ComparedFtl::GeckoFtl)?, recovery_run_of(runs, ComparedFtl::LazyFtl)?);
    let all = simulated_recovery_s(runs, ComparedFtl::LazyFtl)?;
    let others = all - recovery_step_s(lazy, "synchronisation") - recovery_step_s(lazy, "changed entries");
    let saved = |of: f64| 100.0 * (1.0 - gecko / of);
    let mut values = recovery_row_values_from_formula("GK-39").unwrap_or_default();
    values.push(NamedValue::new("executed", saved(all)));
    values.push(NamedValue::new("executed, without its synchronisation", saved(others)));
    // The step reads and programs one page per translation page. Pages beyond the bound on dirty entries are left out.
    let pages = lazy.figure("recovery.steps.synchronisation.programs");
    let bound = (lazy.required_figure("parts.cache_entries")? / 10.0).ceil();
    let beyond_bound_s = recovery_step_s(lazy, "synchronisation") * (1.0 - (bound / pages).min(1.0));
    values.push(NamedValue::new("executed, synchronisation of 3,277 pages", saved(all - beyond_bound_s)));
    values.push(device_capacity_value(lazy));
    Ok(values)
}

/// Returns the data pages that each design programs per host write, and the largest of these numbers divided by the
/// smallest.
fn data_programs_by_design(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let mut values = value_per_design(runs, data_programs_per_host_write)?;
    values.insert(0, NamedValue::new("largest over smallest", largest_over_smallest_value(&values)));
    values.push(device_capacity_value(runs.finished_run_named("GeckoFTL")?));
    Ok(values)
}

/// Returns the cost of the map on flash per host write (programs plus a tenth of the reads) of DFTL, u-FTL and
/// `GeckoFTL`, and the largest of these costs divided by the smallest.
fn map_costs_of_dftl_u_ftl_and_geckoftl(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let alike = |values: &mut Vec<NamedValue>| {
        values.retain(|value| ["DFTL", "u-FTL", "GeckoFTL"].contains(&value.of.as_str()));
    };
    let mut values = value_per_design(runs, map_write_amplification)?;
    alike(&mut values);
    values.insert(0, NamedValue::new("largest over smallest", largest_over_smallest_value(&values)));
    let mut updates = value_per_design(runs, synchronisation_write_amplification)?;
    alike(&mut updates);
    values.insert(1, NamedValue::new("updates alone", largest_over_smallest_value(&updates)));
    values.push(device_capacity_value(runs.finished_run_named("GeckoFTL")?));
    Ok(values)
}

/// Returns whether `LazyFTL` and IB-FTL have the highest write amplification by the map (programs plus a tenth of the
/// reads, per host write), and the write amplification by the map of all designs.
fn map_costs_and_most_costly_designs(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let mut values = value_per_design(runs, map_write_amplification)?;
    let is_bound = |value: &&NamedValue| ["LazyFTL", "IB-FTL"].contains(&value.of.as_str());
    let least_bound = values.iter().filter(is_bound).map(|value| value.value).fold(f64::MAX, f64::min);
    let most_other =
        values.iter().filter(|value| !is_bound(value)).map(|value| value.value).fold(f64::MIN, f64::max);
    values.insert(0, named_truth_value("LazyFTL and IB-FTL highest", least_bound > most_other));
    values.push(device_capacity_value(runs.finished_run_named("GeckoFTL")?));
    Ok(values)
}

/// Compares the cost of updating translation pages with checkpoints (`GeckoFTL`) and without (u-FTL), with caches of
/// the same size.
fn checkpoint_cost(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let (gecko, without) = (runs.finished_run_named("GeckoFTL")?, runs.finished_run_named("u-FTL")?);
    let by = |cause: &str| gecko.programs_by_cause(cause);
    Ok(vec![
        NamedValue::new(
            "GeckoFTL over u-FTL",
            synchronisation_write_amplification(gecko) / synchronisation_write_amplification(without),
        ),
        NamedValue::new("share of checkpoints", by("checkpoint") / (by("checkpoint") + by("translation"))),
        device_capacity_value(gecko),
    ])
}

/// Returns the cost of page validity of each design, per host write, and whether the paper's claims hold.
fn validity_costs_by_design(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let mut values = value_per_design(runs, validity_write_amplification)?;
    let of = |name: &str| values.iter().find(|value| value.of == name).map_or(f64::NAN, |value| value.value);
    let claims = [
        named_truth_value(
            "u-FTL highest",
            FTL_AND_DESIGN_NAMES.iter().all(|(name, _)| *name == "u-FTL" || of(name) < of("u-FTL")),
        ),
        named_truth_value(
            "IB-FTL and GeckoFTL below a tenth of it",
            of("IB-FTL").max(of("GeckoFTL")) < 0.1 * of("u-FTL"),
        ),
        named_truth_value("bitmap in RAM none", of("DFTL").max(of("LazyFTL")) <= 0.0),
    ];
    values.splice(0..0, claims);
    values.push(device_capacity_value(runs.finished_run_named("GeckoFTL")?));
    Ok(values)
}

/// Returns the write amplification by all flash operations: programs plus a tenth of the reads, per host write.
fn total_write_amplification(run: ExperimentRun<'_>) -> f64 {
    figure_per_host_write(run, "programs") + figure_per_host_write(run, "reads") / PROGRAM_TO_READ_TIME_RATIO
}

/// Returns the write amplification of `GeckoFTL` (programs plus a tenth of the reads, per host write) in two cases: GC
/// spares metadata blocks, or GC collects them like data blocks.
fn write_amplification_with_metadata_gc(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let (spared, greedy) =
        (runs.finished_run_named("GeckoFTL")?, runs.finished_run_named("GeckoFTL/metadata collected")?);
    let mut values = vec![
        named_truth_value(
            "costs more",
            total_write_amplification(greedy) > total_write_amplification(spared),
        ),
        named_truth_value("none collected", metadata_copy_write_amplification(spared) <= 0.0),
        NamedValue::new("all, spared", total_write_amplification(spared)),
        NamedValue::new("all, collected", total_write_amplification(greedy)),
        NamedValue::new("copies of metadata, collected", metadata_copy_write_amplification(greedy)),
    ];
    values.extend(value_per_design(runs, metadata_copy_write_amplification)?);
    values.push(device_capacity_value(spared));
    Ok(values)
}

/// Returns the write amplification by the map (programs plus a tenth of the reads, per host write) with a cache of 4
/// MB, and of 68 MB.
fn map_cost_small_and_large_cache(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let (small, large) =
        (runs.finished_run_named("Fig. 14/DFTL")?, runs.finished_run_named("Fig. 14/GeckoFTL")?);
    Ok(vec![
        NamedValue::new("4 MB", map_write_amplification(small)),
        NamedValue::new("68 MB", map_write_amplification(large)),
        device_capacity_value(large),
    ])
}

/// Returns whether `GeckoFTL` has the least cost of map and page validity in Figure 14, and all costs.
fn design_with_least_cost(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let names = ["DFTL", "u-FTL", "GeckoFTL"];
    let all: Vec<(&str, ExperimentRun<'_>)> = names
        .into_iter()
        .map(|name| Ok((name, runs.finished_run_named(&format!("Fig. 14/{name}"))?)))
        .collect::<Result<_>>()?;
    let cost = |run: ExperimentRun<'_>| map_write_amplification(run) + validity_write_amplification(run);
    let gecko = cost(all[2].1);
    let mut values =
        vec![named_truth_value("GeckoFTL lowest", all[..2].iter().all(|(_, run)| cost(*run) > gecko))];
    values.extend(all.iter().map(|(name, run)| NamedValue::new(*name, cost(*run))));
    for (name, run) in &all {
        values.push(NamedValue::new(format!("{name}, map"), map_write_amplification(*run)));
        values.push(NamedValue::new(format!("{name}, validity"), validity_write_amplification(*run)));
    }
    values.push(device_capacity_value(all[0].1));
    Ok(values)
}

/// Returns the programs for page validity per host write with multi-way and with pairwise merges, and their ratio.
fn multi_way_merge_costs(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let (multi, pair) = (runs.finished_run_named("GeckoFTL")?, runs.finished_run_named("pairwise")?);
    let writes = |run: ExperimentRun<'_>| figure_per_host_write(run, "programs_by_cause.validity");
    Ok(vec![
        NamedValue::new("ratio", writes(multi) / writes(pair)),
        NamedValue::new("multi-way, writes", writes(multi)),
        NamedValue::new("pairwise, writes", writes(pair)),
        device_capacity_value(multi),
    ])
}

/// Returns the pages of all runs (sorted levels) of Logarithmic Gecko, divided by the pages of the largest run, for
/// each size ratio.
fn gecko_pages_relative_to_largest_run(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let of = |run: ExperimentRun<'_>| -> Result<f64> {
        Ok(run.required_figure("parts.gecko_pages")?
            / run.required_figure("parts.gecko_largest_run_pages")?)
    };
    let all: Vec<(u32, f64)> = GECKO_SIZE_RATIOS
        .into_iter()
        .map(|ratio| Ok((ratio, of(run_of_size_ratio(runs, ratio)?)?)))
        .collect::<Result<_>>()?;
    let largest = all.iter().map(|&(_, pages)| pages).fold(f64::MIN, f64::max);
    let mut values = vec![NamedValue::new("largest", largest)];
    values.extend(all.iter().map(|(ratio, pages)| NamedValue::new(format!("T = {ratio}"), *pages)));
    values.push(device_capacity_value(run_of_size_ratio(runs, 2)?));
    Ok(values)
}

/// Returns two values: the number of spare areas that the backward scan of a recovery reads, divided by the number C of
/// cache entries; and the duration of the recovery, seconds.
fn backward_scan_spare_reads(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let run = runs.finished_run_named("GeckoFTL/recovered")?;
    let reads = run.required_figure("recovery.steps.changed entries.spare_reads")?;
    Ok(vec![
        NamedValue::new("reads over C", reads / run.required_figure("parts.cache_entries")?),
        NamedValue::new("all of the recovery, s", run.figure("recovery.total.time_s")),
        device_capacity_value(run),
    ])
}

/// Returns what corrections of the map cost after a recovery: aborted synchronisations per translation page, and spare
/// reads per cache entry.
fn map_correction_costs_after_recovery(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let run = runs.finished_run_named("GeckoFTL/recovered")?;
    let pages = run.required_figure("parts.translation_pages")?;
    let entries = run.required_figure("parts.cache_entries")?;
    Ok(vec![
        NamedValue::new(
            "aborted synchronisations over TPT",
            run.figure("parts.aborted_synchronisations") / pages,
        ),
        NamedValue::new("spare reads over C", run.figure("parts.uncertain_spare_reads") / entries),
        device_capacity_value(run),
    ])
}

/// Returns what cleaning of IB-FTL's log costs per report of an invalid page: entries inserted again, and entries
/// written (log pages times entries per page).
fn log_cleaning_costs(runs: &ExperimentRecords) -> Result<Vec<NamedValue>> {
    let run = runs.finished_run_named("IB-FTL/log")?;
    let reports = run.required_figure("parts.log_reports")?;
    let per_page = run.required_figure("parts.log_page_entries")?;
    Ok(vec![
        NamedValue::new("inserted again", run.figure("parts.log_reinserted") / reports),
        NamedValue::new("pages times V", run.programs_by_cause("validity") * per_page / reports),
        device_capacity_value(run),
    ])
}
