//! Experiments of the `GeckoFTL` paper (GK, section 5) and what its rows take from them.
//!
//! Load and state are the paper's: uniform random page writes on a full device in its steady state, which is constructed.
//! Write amplification is the paper's measure, internal writes and a tenth of internal reads per host write. Copies that
//! garbage collection makes of metadata are a share of their own, as section 5.3 speaks of updating metadata without them.
//!
//! A quick run scales the device and keeps R, B, V, T, S, delta and the cached entries per translation page; the map's
//! cost does not depend on the scale then, and Logarithmic Gecko's grows by about a level per doubling. Every measured row
//! names the capacity that it was measured at.
//!
//! Sections 5.1 and 5.2 look at validity alone; here it is measured inside the whole design, which reports invalid pages
//! when it writes the map. The rows about the bitmap on flash have it told at once, so that updates can be counted.

use super::closed_forms::metadata::DELTA;
use super::experiment::{Experiment, Run, Runs, Setting, Size, Source};
use super::verdict::Value;

/// Blocks of the paper's device, and its pages per block.
const PAPER_BLOCKS: u64 = 1 << 22;
const BLOCK_PAGES: u64 = 128;
/// R, percent.
const UTILISATION: u32 = 70;
/// Pages of flash for each cached entry: C = 2^19 beside 2^29 pages.
const PAGES_PER_ENTRY: u64 = 1024;
/// The large cache of Figure 14, 68 MiB over 4.
const LARGE_CACHE: u64 = 17;

const RATIOS: [u32; 6] = [2, 3, 4, 8, 16, 32];
const PARTS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const WHOLE_ENTRIES: [u64; 3] = [32, 64, 128];
const BALANCED: [u64; 3] = [64, 128, 256];
const UTILISATIONS: [u32; 5] = [50, 70, 80, 85, 90];
const FTLS: [(&str, &str); 5] = [
    ("DFTL", "dftl"),
    ("LazyFTL", "lazyftl"),
    ("u-FTL", "u-ftl"),
    ("IB-FTL", "ib-ftl"),
    ("GeckoFTL", "geckoftl"),
];

/// A device and a number of host writes.
#[derive(Clone, Copy)]
struct Load {
    blocks: u64,
    block_pages: u64,
    /// Percent.
    utilisation: u32,
    writes: u64,
    /// Cache of the paper times so much.
    cache: u64,
}

impl Load {
    fn of(setting: &Setting) -> Self {
        let (blocks, writes) = match setting.size {
            Size::Quick => (1 << 14, 1_000_000),
            Size::Full => (PAPER_BLOCKS, 50_000_000),
        };
        Self { blocks, block_pages: BLOCK_PAGES, utilisation: UTILISATION, writes, cache: 1 }
    }

    fn pages(self) -> u64 {
        self.blocks * self.block_pages
    }

    fn cache_entries(self) -> u64 {
        self.cache * self.pages() / PAGES_PER_ENTRY
    }

    fn experiment(self, setting: &Setting, name: String, design: &'static str, extra: &[&str]) -> Experiment {
        let logical = self.pages() * u64::from(self.utilisation) / 100;
        let load =
            format!("uniform:write=1.0,pages={logical},requests={},seed={}", self.writes, setting.seed);
        let settings = [
            "device.preset=gk-2t".to_owned(),
            format!("device.blocks_per_plane={}", self.blocks),
            format!("device.pages_per_block={}", self.block_pages),
            format!("device.logical_pages={logical}"),
            format!("mapping.cache_entries={}", self.cache_entries()),
            "precondition.mode=constructed".to_owned(),
            format!("replay.seed={}", setting.seed),
        ];
        let settings = settings.into_iter().chain(extra.iter().map(|&one| one.to_owned())).collect();
        let scale = self.blocks as f64 / PAPER_BLOCKS as f64;
        Experiment::replay(name, (Source::Generated(load), scale), design, settings)
    }
}

/// Blocks of the devices of Figure 11 beside the one that all other rows are about: 2, 32 and 128 GiB.
const CAPACITIES: [u64; 3] = [1 << 12, 1 << 16, 1 << 18];
/// Host writes per block that take Logarithmic Gecko through all its levels.
const WRITES_PER_BLOCK: u64 = 10;

/// Everything that the rows need.
pub fn experiments(setting: &Setting) -> Vec<Experiment> {
    let load = Load::of(setting);
    [
        designs(setting, load),
        validity_alone(setting, load),
        figure_14(setting, load),
        recoveries(setting, load),
    ]
    .concat()
}

/// Figure 13, and what GeckoFTL's garbage collection saves.
fn designs(setting: &Setting, load: Load) -> Vec<Experiment> {
    let mut experiments: Vec<Experiment> =
        FTLS.iter().map(|&(name, design)| load.experiment(setting, name.to_owned(), design, &[])).collect();
    let greedy = "GeckoFTL/metadata collected".to_owned();
    experiments.push(load.experiment(setting, greedy, "geckoftl", &["gc.metadata=greedy"]));
    experiments
}

/// Figures 9 to 12: Logarithmic Gecko and the bitmap on flash.
fn validity_alone(setting: &Setting, load: Load) -> Vec<Experiment> {
    let gecko = |load: Load, name: String, extra: &[&str]| load.experiment(setting, name, "geckoftl", extra);
    let at_once = "mapping.identification=on-update";
    let mut experiments = vec![
        load.experiment(setting, "bitmap".into(), "u-ftl", &[at_once]),
        gecko(load, "pairwise".into(), &["gecko.merge=pairwise"]),
    ];
    for ratio in RATIOS.into_iter().filter(|&ratio| ratio != 2) {
        experiments.push(gecko(load, format!("T={ratio}"), &[&format!("gecko.size_ratio={ratio}")]));
    }
    for parts in PARTS.into_iter().filter(|&parts| parts != 4) {
        experiments.push(gecko(load, format!("S={parts}"), &[&format!("gecko.parts={parts}")]));
    }
    for block_pages in WHOLE_ENTRIES.into_iter().filter(|&pages| pages != BLOCK_PAGES) {
        let load = Load { block_pages, ..load };
        experiments.push(gecko(load, format!("S=1,B={block_pages}"), &["gecko.parts=1"]));
    }
    for block_pages in BALANCED.into_iter().filter(|&pages| pages != BLOCK_PAGES) {
        experiments.push(gecko(Load { block_pages, ..load }, format!("B={block_pages}"), &[]));
    }
    for utilisation in UTILISATIONS.into_iter().filter(|&utilisation| utilisation != UTILISATION) {
        experiments.push(gecko(Load { utilisation, ..load }, format!("R={}", share(utilisation)), &[]));
    }
    for blocks in CAPACITIES {
        let writes = load.writes.max(WRITES_PER_BLOCK * blocks);
        experiments.push(gecko(Load { blocks, writes, ..load }, format!("K={blocks}"), &[]));
    }
    let small = Load { blocks: 1 << 12, ..load };
    experiments.push(small.experiment(setting, "bitmap/K=4096".into(), "u-ftl", &[at_once]));
    experiments
}

/// As much RAM for the cache as the bitmap would take, and all with GeckoFTL's garbage collection.
fn figure_14(setting: &Setting, load: Load) -> Vec<Experiment> {
    let large = Load { cache: LARGE_CACHE, ..load };
    let spared = ["gc.metadata=when-empty"];
    vec![
        load.experiment(setting, "Fig. 14/DFTL".into(), "dftl", &spared),
        large.experiment(setting, "Fig. 14/u-FTL".into(), "u-ftl", &spared),
        large.experiment(setting, "Fig. 14/GeckoFTL".into(), "geckoftl", &spared),
    ]
}

/// A recovery in the middle of a run, and the log of IB-FTL for as long as it takes to clean it several times.
fn recoveries(setting: &Setting, load: Load) -> Vec<Experiment> {
    let cut = format!("recovery.after_requests={}", load.writes / 2);
    let small = Load { blocks: load.blocks / 4, ..load };
    let invalid = small.pages() * u64::from(100 - UTILISATION) / 100;
    let log = Load { writes: 12 * invalid, ..small };
    vec![
        load.experiment(setting, "GeckoFTL/recovered".into(), "geckoftl", &[&cut]),
        log.experiment(setting, "IB-FTL/log".into(), "ib-ftl", &[]),
    ]
}

fn share(percent: u32) -> f64 {
    f64::from(percent) / 100.0
}

type Result<T> = std::result::Result<T, String>;

/// What a row measures; `None` if no experiment is about it.
pub fn measure(id: &str, runs: &Runs) -> Option<Result<Vec<Value>>> {
    let values = match id {
        "GK-16" => bitmap_operations(runs),
        "GK-18" => gecko_operations(runs),
        "GK-19" => bitmap_per_interval(runs),
        "GK-21" => every_ratio(runs),
        "GK-22" => best_ratio(runs),
        "GK-23" => saved(runs),
        "GK-24" => blocks(runs, &WHOLE_ENTRIES, ("B = 128 over B = 32", 2, 0), whole_entries),
        "GK-25" => blocks(runs, &BALANCED, ("B = 256 over B = 64", 2, 0), balanced),
        "GK-26" => parts(runs),
        "GK-27" => growth(runs),
        "GK-29" => over_provisioning(runs),
        "GK-41" => data_writes(runs),
        "GK-42" => map_alike(runs),
        "GK-43" => map_highest(runs),
        "GK-44" => checkpoints(runs),
        "GK-45" => validity(runs),
        "GK-46" => metadata_collected(runs),
        "GK-48" => large_cache(runs),
        "GK-49" => best_total(runs),
        "GK-51" => multi_way(runs),
        "GK-52" => space(runs),
        "GK-55" => backward_reads(runs),
        "GK-56" => corrections(runs),
        "GK-59" => log_cleaning(runs),
        _ => return None,
    };
    Some(values)
}

fn holds(of: impl Into<String>, statement: bool) -> Value {
    Value::new(of, f64::from(u8::from(statement)))
}

/// The capacity behind a row, GiB.
fn at(run: Run<'_>) -> Value {
    let bytes = run.figure("device.physical_pages") * run.figure("device.page_bytes");
    Value::new("device, GiB", bytes / f64::from(1 << 30))
}

fn per_write(run: Run<'_>, figure: &str) -> f64 {
    run.figure(figure) / run.figure("host_page_writes")
}

/// Programs and reads of some causes, in the paper's measure.
fn amplification(run: Run<'_>, causes: &[&str]) -> f64 {
    let of = |what: &str| -> f64 {
        causes.iter().map(|cause| per_write(run, &format!("{what}_by_cause.{cause}"))).sum::<f64>()
    };
    of("programs") + of("reads") / DELTA
}

fn validity_cost(run: Run<'_>) -> f64 {
    amplification(run, &["validity"])
}

fn map_cost(run: Run<'_>) -> f64 {
    amplification(run, &["translation", "checkpoint"])
}

/// Updates of the table alone: a read and a write each.
fn synchronisation_cost(run: Run<'_>) -> f64 {
    let writes =
        per_write(run, "programs_by_cause.translation") + per_write(run, "programs_by_cause.checkpoint");
    writes * (1.0 + 1.0 / DELTA)
}

/// What collection copied of metadata, a read and a write each.
fn copy_cost(run: Run<'_>) -> f64 {
    let copies = per_write(run, "parts.translation_copies") + per_write(run, "parts.validity_copies");
    copies * (1.0 + 1.0 / DELTA)
}

/// Data pages programmed per host write, copies included.
fn data_programs(run: Run<'_>) -> f64 {
    let copies =
        run.programs("gc") - run.figure("parts.translation_copies") - run.figure("parts.validity_copies");
    (run.programs("host") + copies) / run.figure("host_page_writes")
}

/// Blocks of data collected; each asked the validity store once.
fn queries(run: Run<'_>) -> f64 {
    run.figure("parts.collections") - run.figure("parts.collections_of_metadata")
}

fn bitmap_operations(runs: &Runs) -> Result<Vec<Value>> {
    let run = runs.get("bitmap")?;
    let (writes, reads) = (run.programs("validity"), run.figure("reads_by_cause.validity"));
    let updates = run.figure("host_page_writes");
    Ok(vec![
        // Every write has its report; the reads of queries are counted by what asked.
        Value::new("reads per update", (reads - queries(run)) / updates),
        Value::new("writes per update", writes / updates),
        Value::new("reads per query", (reads - writes) / queries(run)),
        at(run),
    ])
}

fn bitmap_per_interval(runs: &Runs) -> Result<Vec<Value>> {
    let run = runs.get("bitmap")?;
    let of = |figure: &str| 10_000.0 * per_write(run, figure);
    Ok(vec![
        Value::new("reads", of("reads_by_cause.validity")),
        Value::new("writes", of("programs_by_cause.validity")),
        at(run),
    ])
}

/// Reads of merges: all but those of queries.
fn merge_reads(run: Run<'_>) -> f64 {
    run.figure("reads_by_cause.validity") - run.figure("parts.gecko_query_reads")
}

fn gecko_operations(runs: &Runs) -> Result<Vec<Value>> {
    let run = runs.get("GeckoFTL")?;
    let levels = run.required("parts.gecko_levels")?;
    let updates = run.required("parts.gecko_reports")? + run.figure("parts.gecko_markers");
    let bound = 2.0 * levels / run.required("parts.gecko_buffer_entries")?;
    let writes = run.programs("validity") / updates;
    let reads = merge_reads(run) / updates;
    let per_query = run.figure("parts.gecko_query_reads") / run.required("parts.gecko_queries")?;
    Ok(vec![
        holds("updates within the bound", writes <= bound && reads <= bound),
        holds("queries within the bound", per_query <= 2.0 * levels),
        Value::new("writes per update", writes),
        Value::new("merge reads per update", reads),
        Value::new("bound of each", bound),
        Value::new("reads per query", per_query),
        Value::new("levels", levels),
        Value::new("writes per host write", per_write(run, "programs_by_cause.validity")),
        Value::new("query reads per host write", per_write(run, "parts.gecko_query_reads")),
        at(run),
    ])
}

fn of_ratio(runs: &Runs, ratio: u32) -> Result<Run<'_>> {
    if ratio == 2 { runs.get("GeckoFTL") } else { runs.get(&format!("T={ratio}")) }
}

fn ratio_costs(runs: &Runs) -> Result<Vec<(u32, f64)>> {
    RATIOS.into_iter().map(|ratio| Ok((ratio, validity_cost(of_ratio(runs, ratio)?)))).collect()
}

fn every_ratio(runs: &Runs) -> Result<Vec<Value>> {
    let bitmap = runs.get("bitmap")?;
    let (costs, bitmap_cost) = (ratio_costs(runs)?, validity_cost(bitmap));
    let mut values = vec![holds("for every T", costs.iter().all(|&(_, cost)| cost < bitmap_cost))];
    values.extend(costs.iter().map(|(ratio, cost)| Value::new(format!("T = {ratio}"), *cost)));
    values.extend([Value::new("bitmap", bitmap_cost), at(bitmap)]);
    Ok(values)
}

fn best_ratio(runs: &Runs) -> Result<Vec<Value>> {
    let costs = ratio_costs(runs)?;
    let best = costs.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0.0, |&(ratio, _)| f64::from(ratio));
    Ok(vec![Value::new("T", best), at(of_ratio(runs, 2)?)])
}

fn saved(runs: &Runs) -> Result<Vec<Value>> {
    let (gecko, bitmap) = (runs.get("GeckoFTL")?, runs.get("bitmap")?);
    let (ours, theirs) = (validity_cost(gecko), validity_cost(bitmap));
    Ok(vec![
        Value::new("saved, %", 100.0 * (1.0 - ours / theirs)),
        Value::new("Logarithmic Gecko", ours),
        Value::new("bitmap", theirs),
        at(gecko),
    ])
}

fn whole_entries(runs: &Runs, block_pages: u64) -> Result<Run<'_>> {
    if block_pages == BLOCK_PAGES { runs.get("S=1") } else { runs.get(&format!("S=1,B={block_pages}")) }
}

fn balanced(runs: &Runs, block_pages: u64) -> Result<Run<'_>> {
    if block_pages == BLOCK_PAGES { runs.get("GeckoFTL") } else { runs.get(&format!("B={block_pages}")) }
}

/// Cost and writes for some block sizes, and the cost of one over that of another, by their places.
fn blocks<'a>(
    runs: &'a Runs,
    sizes: &[u64],
    (name, above, below): (&str, usize, usize),
    run_of: impl Fn(&'a Runs, u64) -> Result<Run<'a>>,
) -> Result<Vec<Value>> {
    let of = |&block_pages: &u64| Ok((block_pages, run_of(runs, block_pages)?));
    let all: Vec<(u64, Run<'_>)> = sizes.iter().map(of).collect::<Result<_>>()?;
    let mut values = vec![Value::new(name, validity_cost(all[above].1) / validity_cost(all[below].1))];
    values.extend(all.iter().map(|(pages, run)| Value::new(format!("B = {pages}"), validity_cost(*run))));
    values.extend(all.iter().map(|(pages, run)| {
        Value::new(format!("writes, B = {pages}"), per_write(*run, "programs_by_cause.validity"))
    }));
    values.push(Value::new("blocks", all[0].1.figure("device.physical_pages") / sizes[0] as f64));
    Ok(values)
}

fn parts(runs: &Runs) -> Result<Vec<Value>> {
    let run_of = |parts: u32| if parts == 4 { runs.get("GeckoFTL") } else { runs.get(&format!("S={parts}")) };
    let costs: Vec<(u32, f64)> =
        PARTS.into_iter().map(|parts| Ok((parts, validity_cost(run_of(parts)?)))).collect::<Result<_>>()?;
    let best = costs.iter().map(|&(_, cost)| cost).fold(f64::MAX, f64::min);
    let last = costs.last().map_or(f64::NAN, |&(_, cost)| cost);
    let mut values = vec![Value::new("ratio", last / best)];
    values.extend(costs.iter().map(|(parts, cost)| Value::new(format!("S = {parts}"), *cost)));
    values.push(at(run_of(4)?));
    Ok(values)
}

fn growth(runs: &Runs) -> Result<Vec<Value>> {
    let (base, small_bitmap) = (runs.get("bitmap")?, runs.get("bitmap/K=4096")?);
    let gecko = runs.get("GeckoFTL")?;
    let base_gib = at(gecko).value;
    let mut points = vec![(base_gib, validity_cost(gecko))];
    for blocks in CAPACITIES {
        let run = runs.get(&format!("K={blocks}"))?;
        points.push((at(run).value, validity_cost(run)));
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, last) = (points[0], points[points.len() - 1]);
    let bitmaps = (validity_cost(small_bitmap), validity_cost(base));
    let mut values = vec![
        holds("grows", points.windows(2).all(|pair| pair[1].1 > pair[0].1)),
        holds("by less than a tenth of capacity", last.1 / first.1 < 0.1 * last.0 / first.0),
        holds("bitmap constant", (bitmaps.0 / bitmaps.1 - 1.0).abs() < 0.01),
    ];
    values.extend(points.iter().map(|(gib, cost)| Value::new(format!("{gib} GiB"), *cost)));
    values.push(Value::new("bitmap, 2 GiB", bitmaps.0));
    values.push(Value::new(format!("bitmap, {base_gib} GiB"), bitmaps.1));
    Ok(values)
}

fn over_provisioning(runs: &Runs) -> Result<Vec<Value>> {
    let run_of = |utilisation: u32| match utilisation {
        UTILISATION => runs.get("GeckoFTL"),
        _ => runs.get(&format!("R={}", share(utilisation))),
    };
    let all: Vec<(f64, Run<'_>)> =
        UTILISATIONS.into_iter().map(|one| Ok((share(one), run_of(one)?))).collect::<Result<_>>()?;
    let reads: Vec<f64> = all.iter().map(|(_, run)| per_write(*run, "parts.gecko_query_reads")).collect();
    let costs: Vec<f64> = all.iter().map(|(_, run)| validity_cost(*run)).collect();
    let rise = costs[costs.len() - 1] - costs[0];
    let bitmap = validity_cost(runs.get("bitmap")?);
    let mut values = vec![
        holds("query reads rise", reads.windows(2).all(|pair| pair[1] > pair[0])),
        holds("total rises by less than 1 % of the bitmap's", rise < 0.01 * bitmap),
    ];
    let points = |what: &str, points: &[f64]| -> Vec<Value> {
        all.iter()
            .zip(points)
            .map(|((share, _), value)| Value::new(format!("{what}R = {share}"), *value))
            .collect()
    };
    values.extend(points("", &costs));
    values.extend(points("query reads, ", &reads));
    values.push(at(all[0].1));
    Ok(values)
}

/// A figure of every design.
fn of_designs(runs: &Runs, figure: impl Fn(Run<'_>) -> f64) -> Result<Vec<Value>> {
    FTLS.iter().map(|(name, _)| Ok(Value::new(*name, figure(runs.get(name)?)))).collect()
}

fn spread(values: &[Value]) -> f64 {
    let of = |f: fn(f64, f64) -> f64, start| values.iter().map(|value| value.value).fold(start, f);
    of(f64::max, f64::MIN) / of(f64::min, f64::MAX)
}

fn data_writes(runs: &Runs) -> Result<Vec<Value>> {
    let mut values = of_designs(runs, data_programs)?;
    values.insert(0, Value::new("largest over smallest", spread(&values)));
    values.push(at(runs.get("GeckoFTL")?));
    Ok(values)
}

fn map_alike(runs: &Runs) -> Result<Vec<Value>> {
    let alike = |values: &mut Vec<Value>| {
        values.retain(|value| ["DFTL", "u-FTL", "GeckoFTL"].contains(&value.of.as_str()));
    };
    let mut values = of_designs(runs, map_cost)?;
    alike(&mut values);
    values.insert(0, Value::new("largest over smallest", spread(&values)));
    let mut updates = of_designs(runs, synchronisation_cost)?;
    alike(&mut updates);
    values.insert(1, Value::new("updates alone", spread(&updates)));
    values.push(at(runs.get("GeckoFTL")?));
    Ok(values)
}

fn map_highest(runs: &Runs) -> Result<Vec<Value>> {
    let mut values = of_designs(runs, map_cost)?;
    let is_bound = |value: &&Value| ["LazyFTL", "IB-FTL"].contains(&value.of.as_str());
    let least_bound = values.iter().filter(is_bound).map(|value| value.value).fold(f64::MAX, f64::min);
    let most_other =
        values.iter().filter(|value| !is_bound(value)).map(|value| value.value).fold(f64::MIN, f64::max);
    values.insert(0, holds("LazyFTL and IB-FTL highest", least_bound > most_other));
    values.push(at(runs.get("GeckoFTL")?));
    Ok(values)
}

/// The map's cost with checkpoints over that of the same cache without.
fn checkpoints(runs: &Runs) -> Result<Vec<Value>> {
    let (gecko, without) = (runs.get("GeckoFTL")?, runs.get("u-FTL")?);
    let by = |cause: &str| gecko.programs(cause);
    Ok(vec![
        Value::new("GeckoFTL over u-FTL", synchronisation_cost(gecko) / synchronisation_cost(without)),
        Value::new("share of checkpoints", by("checkpoint") / (by("checkpoint") + by("translation"))),
        at(gecko),
    ])
}

fn validity(runs: &Runs) -> Result<Vec<Value>> {
    let mut values = of_designs(runs, validity_cost)?;
    let of = |name: &str| values.iter().find(|value| value.of == name).map_or(f64::NAN, |value| value.value);
    let claims = [
        holds("u-FTL highest", FTLS.iter().all(|(name, _)| *name == "u-FTL" || of(name) < of("u-FTL"))),
        holds(
            "IB-FTL and GeckoFTL below a tenth of it",
            of("IB-FTL").max(of("GeckoFTL")) < 0.1 * of("u-FTL"),
        ),
        holds("bitmap in RAM none", of("DFTL").max(of("LazyFTL")) <= 0.0),
    ];
    values.splice(0..0, claims);
    values.push(at(runs.get("GeckoFTL")?));
    Ok(values)
}

/// All programs and reads per host write, in the paper's measure.
fn all_cost(run: Run<'_>) -> f64 {
    per_write(run, "programs") + per_write(run, "reads") / DELTA
}

fn metadata_collected(runs: &Runs) -> Result<Vec<Value>> {
    let (spared, greedy) = (runs.get("GeckoFTL")?, runs.get("GeckoFTL/metadata collected")?);
    let mut values = vec![
        holds("costs more", all_cost(greedy) > all_cost(spared)),
        holds("none collected", copy_cost(spared) <= 0.0),
        Value::new("all, spared", all_cost(spared)),
        Value::new("all, collected", all_cost(greedy)),
        Value::new("copies of metadata, collected", copy_cost(greedy)),
    ];
    values.extend(of_designs(runs, copy_cost)?);
    values.push(at(spared));
    Ok(values)
}

fn large_cache(runs: &Runs) -> Result<Vec<Value>> {
    let (small, large) = (runs.get("Fig. 14/DFTL")?, runs.get("Fig. 14/GeckoFTL")?);
    Ok(vec![Value::new("4 MB", map_cost(small)), Value::new("68 MB", map_cost(large)), at(large)])
}

fn best_total(runs: &Runs) -> Result<Vec<Value>> {
    let names = ["DFTL", "u-FTL", "GeckoFTL"];
    let all: Vec<(&str, Run<'_>)> = names
        .into_iter()
        .map(|name| Ok((name, runs.get(&format!("Fig. 14/{name}"))?)))
        .collect::<Result<_>>()?;
    let cost = |run: Run<'_>| map_cost(run) + validity_cost(run);
    let gecko = cost(all[2].1);
    let mut values = vec![holds("GeckoFTL lowest", all[..2].iter().all(|(_, run)| cost(*run) > gecko))];
    values.extend(all.iter().map(|(name, run)| Value::new(*name, cost(*run))));
    for (name, run) in &all {
        values.push(Value::new(format!("{name}, map"), map_cost(*run)));
        values.push(Value::new(format!("{name}, validity"), validity_cost(*run)));
    }
    values.push(at(all[0].1));
    Ok(values)
}

fn multi_way(runs: &Runs) -> Result<Vec<Value>> {
    let (multi, pair) = (runs.get("GeckoFTL")?, runs.get("pairwise")?);
    let writes = |run: Run<'_>| per_write(run, "programs_by_cause.validity");
    Ok(vec![
        Value::new("ratio", writes(multi) / writes(pair)),
        Value::new("multi-way, writes", writes(multi)),
        Value::new("pairwise, writes", writes(pair)),
        at(multi),
    ])
}

fn space(runs: &Runs) -> Result<Vec<Value>> {
    let of = |run: Run<'_>| -> Result<f64> {
        Ok(run.required("parts.gecko_pages")? / run.required("parts.gecko_largest_run_pages")?)
    };
    let all: Vec<(u32, f64)> =
        RATIOS.into_iter().map(|ratio| Ok((ratio, of(of_ratio(runs, ratio)?)?))).collect::<Result<_>>()?;
    let largest = all.iter().map(|&(_, pages)| pages).fold(f64::MIN, f64::max);
    let mut values = vec![Value::new("largest", largest)];
    values.extend(all.iter().map(|(ratio, pages)| Value::new(format!("T = {ratio}"), *pages)));
    values.push(at(of_ratio(runs, 2)?));
    Ok(values)
}

fn backward_reads(runs: &Runs) -> Result<Vec<Value>> {
    let run = runs.get("GeckoFTL/recovered")?;
    let reads = run.required("recovery.steps.changed entries.spare_reads")?;
    Ok(vec![
        Value::new("reads over C", reads / run.required("parts.cache_entries")?),
        Value::new("all of the recovery, s", run.figure("recovery.total.time_s")),
        at(run),
    ])
}

fn corrections(runs: &Runs) -> Result<Vec<Value>> {
    let run = runs.get("GeckoFTL/recovered")?;
    let pages = run.required("parts.translation_pages")?;
    let entries = run.required("parts.cache_entries")?;
    Ok(vec![
        Value::new("aborted synchronisations over TPT", run.figure("parts.aborted_synchronisations") / pages),
        Value::new("spare reads over C", run.figure("parts.uncertain_spare_reads") / entries),
        at(run),
    ])
}

fn log_cleaning(runs: &Runs) -> Result<Vec<Value>> {
    let run = runs.get("IB-FTL/log")?;
    let reports = run.required("parts.log_reports")?;
    let per_page = run.required("parts.log_page_entries")?;
    Ok(vec![
        Value::new("inserted again", run.figure("parts.log_reinserted") / reports),
        Value::new("pages times V", run.programs("validity") * per_page / reports),
        at(run),
    ])
}
