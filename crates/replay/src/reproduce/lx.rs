//! Experiments of the Recyclable SSD paper (LX, section V) and what its rows take from them.
//!
//! Device: the paper's 40-GiB drive (Table II). Its traces write less than it holds, so on an empty drive garbage
//! collection would never start; every exported page is written once before, which is also how the paper's simulator
//! begins. Then the first half of the trace ages the drive and the second is measured, as the paper's weeks are. Scaled
//! down, planes have fewer blocks and stores fewer entries, in proportion to the requests. A second drive, fitted so that
//! the footprint is 90 % of what it exports, shows what less room for dead pages does; its values stand beside the others
//! as `fitted`.

use super::closed_forms::percent;
use super::experiment::{Experiment, Run, Runs, Setting, Size, Source};
use super::verdict::Value;

/// Traces, and how many times their footprint a device must hold that never erases: more than writes / addresses.
const TRACES: [(&str, &str, u32); 3] =
    [("homes", "fiu-homes", 6), ("mail", "fiu-mail", 15), ("web", "fiu-web", 9)];

/// Entries of the three stores.
const STORES: [(&str, f64); 3] = [("64k", 65_536.0), ("128k", 131_072.0), ("256k", 262_144.0)];

/// What the stores of a run have in common.
struct Variant {
    name: String,
    design: &'static str,
    settings: Vec<String>,
}

fn variant(name: impl Into<String>, settings: &[&str]) -> Variant {
    let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
    Variant { name: name.into(), design: "recyclable", settings }
}

/// The runs of one trace, for stores scaled down by `scale`.
fn variants(scale: f64) -> Vec<Variant> {
    let entries = |entries: f64| format!("recycle.entries={}", (entries * scale).round());
    let standard = entries(STORES[1].1);
    let standard = standard.as_str();
    let timed = ["timing.mode=event", "timing.hash_us=32.0"];
    let mut variants: Vec<Variant> = STORES
        .into_iter()
        .map(|(name, count)| variant(name, &[&entries(count), "recycle.policy=prob"]))
        .collect();
    variants.extend([
        Variant { design: "page-map", ..variant("baseline", &[]) },
        variant("infinite", &["recycle.policy=inf"]),
        variant("128k-rc-gc", &[standard, "recycle.policy=prob", "gc.policy=rc-gc"]),
        variant("128k-lru", &[standard, "recycle.policy=lru"]),
        variant("128k-fl", &[standard, "recycle.policy=prob-fl"]),
        Variant { design: "page-map", ..variant("timed-baseline", &timed[..1]) },
        variant("timed-lru", &[&timed[..], &[standard, "recycle.policy=lru"]].concat()),
        variant("timed-prob", &[&timed[..], &[standard, "recycle.policy=prob"]].concat()),
    ]);
    variants
}

/// Blocks per plane of the paper's drive.
const BLOCKS: f64 = 2048.0;

/// Settings of every run on the paper's drive. A later setting wins over an earlier one.
fn whole(setting: &Setting, scale: f64) -> Vec<String> {
    vec![
        "device.preset=lx-40g".to_owned(),
        format!("device.blocks_per_plane={}", (BLOCKS * scale).round()),
        "precondition.mode=aged".to_owned(),
        "precondition.filled=true".to_owned(),
        format!("replay.seed={}", setting.seed),
    ]
}

/// Settings of every run on a drive that the footprint fills. A small footprint has four dies, since many planes of
/// few blocks each have no spare block.
fn fitted(setting: &Setting) -> Vec<String> {
    let preset = match setting.size {
        Size::Quick => "device.preset=auto",
        Size::Full => "device.preset=lx-40g",
    };
    [preset, "device.fit=0.9", "gc.free_share=0.05", "precondition.mode=aged"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("replay.seed={}", setting.seed)])
        .collect()
}

/// Everything that the rows need.
pub fn experiments(setting: &Setting) -> Vec<Experiment> {
    let scale = match setting.size {
        Size::Quick => 0.05,
        Size::Full => 1.0,
    };
    let mut experiments = Vec::new();
    for (short, name, never_erasing) in TRACES {
        let input = setting.traces.source(name, &format!(",seed={}", setting.seed), scale);
        let scale = input.1;
        experiments.push(Experiment::count(format!("{short}/counts"), input.clone()));
        let mut add = |kind: &str, Variant { name, design, settings }: Variant, base: Vec<String>| {
            let name = format!("{short}/{kind}{name}");
            experiments.push(Experiment::replay(name, input.clone(), design, [base, settings].concat()));
        };
        for variant in variants(scale) {
            add("", variant, whole(setting, scale));
        }
        let both = |variant: &Variant| ["baseline", "128k"].contains(&variant.name.as_str());
        for variant in variants(scale).into_iter().filter(both) {
            add("fitted-", variant, fitted(setting));
        }
        let roomy = format!("device.over_provisioning={never_erasing}.0");
        add("", variant("recyclable", &["recycle.policy=inf", &roomy]), fitted(setting));
    }
    experiments.extend(synthetic(setting));
    experiments
}

/// A load with locality of addresses and contents, and none of the FIU traces' assumptions. Its footprint is that of
/// web, so the stores are the paper's at that scale.
fn synthetic(setting: &Setting) -> Vec<Experiment> {
    let scale = match setting.size {
        Size::Quick => 0.05,
        Size::Full => 0.5,
    };
    let pages = 800_000.0 * scale;
    let load = format!(
        "zipf:theta=0.9,pages={pages},requests={},read=0.4,seed={}+dup:share=0.4,theta=0.8,pool={}",
        pages * 12.0,
        setting.seed,
        pages * 2.0
    );
    // Requests of a few pages that bring back what their pages held, the newest version most often: neighbours come back
    // together, which is what fast loading bets on.
    let local = format!(
        "zipf:theta=0.9,pages={pages},requests={},read=0.4,size=8,seed={}+revert:share=0.3,depth=8",
        pages * 3.0,
        setting.seed
    );
    let locality = variants(scale)
        .into_iter()
        .filter(|variant| ["128k", "128k-lru", "128k-fl"].contains(&variant.name.as_str()));
    let locality = locality.map(|Variant { name, design, settings }| {
        let settings = [fitted(setting), settings].concat();
        let input = (Source::Generated(local.clone()), scale);
        Experiment::replay(format!("locality/{name}"), input, design, settings)
    });
    let source = Source::Generated(load);
    let wanted = ["baseline", "64k", "128k", "256k"];
    let variants = variants(scale).into_iter().filter(|variant| wanted.contains(&variant.name.as_str()));
    variants
        .map(|Variant { name, design, settings }| {
            let settings = [fitted(setting), settings].concat();
            Experiment::replay(format!("synthetic/{name}"), (source.clone(), scale), design, settings)
        })
        .chain(locality)
        .collect()
}

type Result<T> = std::result::Result<T, String>;

/// What a row measures; `None` if no experiment is about it.
pub fn measure(id: &str, runs: &Runs) -> Option<Result<Vec<Value>>> {
    let reduction = |run: Run<'_>| 100.0 * run.figure("write_reduction");
    let traces = ["homes", "mail", "web"];
    Some(match id {
        "LX-02" => table(runs, "homes"),
        "LX-03" => table(runs, "mail"),
        "LX-04" => table(runs, "web"),
        "LX-07" => each(runs, &traces, "counts", |run| gib(run.extrapolated("recycled"))),
        "LX-09" => each(runs, &traces, "counts", |run| mode(run, "invalid_by_popularity")),
        "LX-10" => each(runs, &traces, "counts", |run| recyclable_at(run, 0)),
        "LX-11" => each(runs, &traces, "counts", largest_recyclable),
        "LX-12" => each(runs, &traces, "counts", |run| share_from_8(run, "invalid_by_popularity")),
        "LX-13" => each(runs, &traces, "counts", |run| share_from_8(run, "recycled_by_popularity")),
        "LX-14" => {
            each(runs, &traces, "counts", |run| run.figure("invalid") / run.figure("overwritten_addresses"))
        }
        "LX-15" => each(runs, &traces, "counts", newest_four),
        "LX-17" => each(runs, &["mail"], "infinite", reduction),
        "LX-18" => each(runs, &["homes"], "infinite", reduction),
        "LX-19" => each(runs, &["web"], "infinite", reduction),
        "LX-20" => each(runs, &traces, "64k", reduction),
        "LX-21" => each(runs, &traces, "128k", reduction)
            .map(|values| [values, beside(runs, "fitted-128k", "fitted", reduction)].concat()),
        "LX-22" => each(runs, &traces, "256k", reduction),
        "LX-23" => each(runs, &["mail"], "counts", |run| run.figure("writes") / run.figure("addresses")),
        "LX-24" => against(runs, "baseline", "infinite", erases_saved),
        "LX-25" => stores(runs, "web", &["64k", "128k", "256k", "infinite"]),
        "LX-26" => stores(runs, "mail", &["256k", "64k"]),
        "LX-27" => erase_reductions(runs, "")
            .map(|values| [values, erase_reductions(runs, "fitted-").unwrap_or_default()].concat()),
        "LX-28" => response(runs, "timed-lru", 1.0),
        "LX-29" => response(runs, "timed-prob", 1.0),
        "LX-30" => response(runs, "timed-prob", -1.0),
        "LX-31" => each(runs, &traces, "128k", comparisons)
            .map(|values| [values, beside(runs, "128k-lru", "LRU", comparisons)].concat()),
        "LX-32" => {
            against(runs, "128k", "128k-fl", |prob, fl| percent(1.0 - comparisons(fl) / comparisons(prob)))
        }
        "LX-33" => each(runs, &["web"], "128k-fl", comparisons),
        "LX-34" => comparison_order(runs),
        "LX-36" => against(runs, "recyclable", "128k", |all, got| percent(recycled(got) / recycled(all))),
        "LX-37" => {
            against(runs, "recyclable", "128k-rc-gc", |all, got| percent(recycled(got) / recycled(all)))
        }
        "LX-38" => {
            against(runs, "128k", "128k-rc-gc", |greedy, rc| percent(recycled(rc) / recycled(greedy) - 1.0))
        }
        "LX-39" => diminishing_return(runs),
        _ => return None,
    })
}

/// One value per trace from the run of one variant.
fn each(runs: &Runs, traces: &[&str], variant: &str, value: impl Fn(Run<'_>) -> f64) -> Result<Vec<Value>> {
    let of = |trace: &&str| Ok(Value::new(*trace, value(runs.get(&format!("{trace}/{variant}"))?)));
    traces.iter().map(of).collect()
}

/// One value per trace from two variants.
fn against(
    runs: &Runs,
    reference: &str,
    variant: &str,
    value: impl Fn(Run<'_>, Run<'_>) -> f64,
) -> Result<Vec<Value>> {
    let of = |(trace, ..): (&str, &str, u32)| {
        let reference = runs.get(&format!("{trace}/{reference}"))?;
        Ok(Value::new(trace, value(reference, runs.get(&format!("{trace}/{variant}"))?)))
    };
    TRACES.into_iter().map(of).collect()
}

fn table(runs: &Runs, trace: &str) -> Result<Vec<Value>> {
    let counts = runs.get(&format!("{trace}/counts"))?;
    let millions = |figure: &str| counts.extrapolated(figure) / 1e6;
    Ok(vec![
        Value::new("requests, M", millions("requests")),
        Value::new("writes, %", percent(counts.figure("writes") / counts.figure("requests"))),
        Value::new("addresses, M", millions("addresses")),
    ])
}

fn gib(pages: f64) -> f64 {
    pages * 4096.0 / f64::from(1 << 30)
}

fn class(run: Run<'_>, histogram: &str, class: usize) -> f64 {
    run.figure(&format!("{histogram}.{class}"))
}

fn classes(run: Run<'_>, histogram: &str, range: std::ops::Range<usize>) -> f64 {
    range.map(|k| class(run, histogram, k)).sum()
}

/// The fullest class.
fn mode(run: Run<'_>, histogram: &str) -> f64 {
    let fullest = (0..16).max_by(|&a, &b| class(run, histogram, a).total_cmp(&class(run, histogram, b)));
    fullest.unwrap_or(0) as f64
}

fn share_from_8(run: Run<'_>, histogram: &str) -> f64 {
    percent(classes(run, histogram, 8..16) / classes(run, histogram, 0..16))
}

fn recyclable_at(run: Run<'_>, popularity: usize) -> f64 {
    let dead = class(run, "invalid_by_popularity", popularity);
    percent(class(run, "recycled_by_popularity", popularity) / dead.max(1.0))
}

fn largest_recyclable(run: Run<'_>) -> f64 {
    (0..16).map(|popularity| recyclable_at(run, popularity)).fold(0.0, f64::max)
}

fn newest_four(run: Run<'_>) -> f64 {
    percent(classes(run, "recycled_by_version", 12..16) / run.figure("recycled"))
}

fn recycled(run: Run<'_>) -> f64 {
    run.figure("recycled_writes")
}

fn comparisons(run: Run<'_>) -> f64 {
    run.figure("parts.mean_comparisons_on_hit")
}

fn erases(run: Run<'_>, baseline: Run<'_>) -> f64 {
    percent(run.figure("erases") / baseline.figure("erases"))
}

/// Values of another variant, which no target names; none where the run is missing.
fn beside(runs: &Runs, variant: &str, name: &str, value: impl Fn(Run<'_>) -> f64) -> Vec<Value> {
    let of = |(trace, ..): (&str, &str, u32)| {
        let run = runs.get(&format!("{trace}/{variant}")).ok()?;
        Some(Value::new(format!("{trace} {name}"), value(run)))
    };
    TRACES.into_iter().filter_map(of).collect()
}

fn erases_saved(baseline: Run<'_>, run: Run<'_>) -> f64 {
    100.0 - erases(run, baseline)
}

/// Erases saved with the standard store, on the paper's drive or on the fitted one.
fn erase_reductions(runs: &Runs, drive: &str) -> Result<Vec<Value>> {
    let mut values = against(runs, &format!("{drive}baseline"), &format!("{drive}128k"), erases_saved)?;
    if !drive.is_empty() {
        for value in &mut values {
            value.of += " fitted";
        }
    }
    Ok(values)
}

/// Erases with several stores relative to the baseline.
fn stores(runs: &Runs, trace: &str, stores: &[&str]) -> Result<Vec<Value>> {
    let baseline = runs.get(&format!("{trace}/baseline"))?;
    let of = |store: &&str| {
        let name = if *store == "infinite" { (*store).to_owned() } else { store.to_uppercase() };
        Ok(Value::new(name, erases(runs.get(&format!("{trace}/{store}"))?, baseline)))
    };
    stores.iter().map(of).collect()
}

/// Mean response time over reads and writes, against the baseline, percent; `sign` -1 makes it a reduction.
fn response(runs: &Runs, variant: &str, sign: f64) -> Result<Vec<Value>> {
    let mean = |run: Run<'_>| {
        let sum = |kind: &str| {
            run.figure(&format!("latency_us.{kind}.count")) * run.figure(&format!("latency_us.{kind}.mean"))
        };
        let count = run.figure("latency_us.read.count") + run.figure("latency_us.write.count");
        (sum("read") + sum("write")) / count
    };
    against(runs, "timed-baseline", variant, |baseline, run| sign * percent(mean(run) / mean(baseline) - 1.0))
}

fn comparison_order(runs: &Runs) -> Result<Vec<Value>> {
    [("LRU", "128k-lru"), ("PROB", "128k"), ("PROB+FL", "128k-fl")]
        .into_iter()
        .map(|(name, variant)| Ok(Value::new(name, comparisons(runs.get(&format!("locality/{variant}"))?))))
        .collect()
}

/// Erases that each doubling of the store saves, percent of the baseline's.
fn diminishing_return(runs: &Runs) -> Result<Vec<Value>> {
    let baseline = runs.get("synthetic/baseline")?;
    let left = |store: &str| Ok::<_, String>(erases(runs.get(&format!("synthetic/{store}"))?, baseline));
    Ok(vec![
        Value::new("64K to 128K", left("64k")? - left("128k")?),
        Value::new("128K to 256K", left("128k")? - left("256k")?),
    ])
}
