//! The state of the device before the first measured request.
//!
//! From an empty device garbage collection never starts on most traces, so a result without preconditioning says
//! little. Ways: random writes until the first collection; fill; fill and overwrite at random until the first collection
//! and one more physical capacity (so that write amplification is steady); the steady state of uniform random writes built
//! directly, which takes seconds where the long way takes minutes, and is exact for that workload only; a drive in use, the
//! default, which is the built one wherever it can be; and aging by a trace, which is the driver's business.

use std::ops::ControlFlow::{self, Break, Continue};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::address::{Lpn, RemapMode};
use wearwell::data::{Content, Descriptor, Fingerprint, mix};
use wearwell::gc::MetadataGc;
use wearwell::mapping::Mapping;
use wearwell::nand::Nand;
use wearwell::{Device, Error, Ftl};

use crate::record::SeriesPoint;
use crate::steadiness::Steadiness;
use crate::theory;
use crate::workload::draw::below;
use crate::workload::permutation::Permutation;

/// Contents that no trace or model has: the top bit of a mixed number, by page and pass.
fn unique_content(page: u64, pass: u64) -> Descriptor {
    Descriptor::of(Fingerprint(mix(page ^ pass << 40) | 1 << 63))
}

/// Called with steps done and expected; `Break` leaves the device as it is then.
pub type OnStep<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;

/// Steps between calls.
const REPORT_EVERY: u64 = 1 << 16;

/// Reports every so often.
fn report(on_step: OnStep<'_>, done: u64, total: u64) -> ControlFlow<()> {
    if done.is_multiple_of(REPORT_EVERY) { on_step(done, total) } else { Continue(()) }
}

/// Writes every exported page once, in order, with content of its own.
///
/// # Errors
/// Those of the device.
pub fn fill<N: Nand>(device: &mut Device<N>, on_step: OnStep<'_>) -> Result<ControlFlow<()>, Error> {
    let pages = device.ftl().logical_pages();
    for page in 0..pages {
        if report(on_step, page as u64, pages as u64).is_break() {
            return Ok(Break(()));
        }
        device.write_page(Lpn(page), unique_content(page as u64, 0))?;
    }
    device.flush().map(|()| Continue(()))
}

/// Fills, and overwrites as [`overwrite`] does. How steady the `capacities` after the first collection were: writes end with
/// them, steady or not, so that the state is the same whatever the threshold of steadiness.
///
/// # Errors
/// As there.
pub fn steady<N: Nand>(
    device: &mut Device<N>,
    capacities: f64,
    seed: u64,
    on_step: OnStep<'_>,
) -> Result<ControlFlow<(), Steadiness>, Error> {
    if fill(device, on_step)?.is_break() {
        return Ok(Break(()));
    }
    let mut points = Vec::new();
    let flow = overwrite_noting(device, capacities, seed, on_step, &mut |point| points.push(point))?;
    let exported_bytes = device.bytes();
    Ok(flow.map_continue(|()| Steadiness::of(&points, exported_bytes)))
}

/// Constructs, and brings the drive to rest: maps and page validity on flash take the room that was left for them, so that
/// every design has the same number of free blocks. Overwrites as [`overwrite`] does; none for 0.
///
/// # Errors
/// Those of [`construct`] and [`overwrite`].
pub fn constructed<N: Nand>(
    device: &mut Device<N>,
    capacities: f64,
    seed: u64,
    on_step: OnStep<'_>,
) -> Result<ControlFlow<()>, Error> {
    match construct(device, seed, on_step)? {
        Continue(()) if capacities > 0.0 => overwrite(device, capacities, mix(seed), on_step),
        flow => Ok(flow),
    }
}

/// A drive that has been in use for long: constructed, or where pools are too small for that filled and overwritten; then it
/// says how steady that was. A write buffer that absorbs everything leaves it as it is then.
///
/// # Errors
/// Those of the device.
pub fn in_use<N: Nand>(
    device: &mut Device<N>,
    capacities: f64,
    seed: u64,
    on_step: OnStep<'_>,
) -> Result<ControlFlow<(), Option<Steadiness>>, Error> {
    let settled = if pool_plans(device.ftl()).is_ok() {
        constructed(device, capacities, seed, on_step).map(|flow| flow.map_continue(|()| None))
    } else {
        steady(device, 1.0, seed, on_step).map(|flow| flow.map_continue(Some))
    };
    match settled {
        Err(Error::Options(_)) => Ok(Continue(None)),
        other => other,
    }
}

/// Uniform random overwrites until the first collection and `capacities` more physical capacities.
///
/// # Errors
/// Those of the device; [`Error::Options`] if a write buffer absorbs so much that collection never starts.
pub fn overwrite<N: Nand>(
    device: &mut Device<N>,
    capacities: f64,
    seed: u64,
    on_step: OnStep<'_>,
) -> Result<ControlFlow<()>, Error> {
    overwrite_noting(device, capacities, seed, on_step, &mut |_| ())
}

/// Moments of the overwrites after the first collection by which their steadiness is judged.
const NOTED_MOMENTS: u64 = 40;

/// [`overwrite`], with the counters since the first collection at [`NOTED_MOMENTS`].
fn overwrite_noting<N: Nand>(
    device: &mut Device<N>,
    capacities: f64,
    seed: u64,
    on_step: OnStep<'_>,
    on_moment: &mut dyn FnMut(SeriesPoint),
) -> Result<ControlFlow<()>, Error> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let pages = device.ftl().logical_pages() as u64;
    let physical = device.ftl().store().geometry().pages();
    let before = device.ftl().stats().gc_victims;
    let more = (physical as f64 * capacities) as u64;
    let mut written = 0;
    while device.ftl().stats().gc_victims == before {
        if written == PATIENCE_CAPACITIES * physical {
            return Err(Error::Options(NEVER_COLLECTS.into()));
        }
        if report(on_step, written, physical + more).is_break() {
            return Ok(Break(()));
        }
        overwrite_one(device, &mut random, pages, &mut written)?;
    }
    let (first, at_first) = (written, Written::by(device));
    let end = written + more;
    let every = more.div_ceil(NOTED_MOMENTS).max(1);
    while written < end {
        if report(on_step, written, end).is_break() {
            return Ok(Break(()));
        }
        overwrite_one(device, &mut random, pages, &mut written)?;
        if (written - first).is_multiple_of(every) {
            on_moment(at_first.until(&Written::by(device), written - first));
        }
    }
    device.flush().map(|()| Continue(()))
}

/// Counters that tell write amplification and collection.
struct Written {
    host_page_writes: u64,
    programs: u64,
    erases: u64,
}

impl Written {
    fn by<N: Nand>(device: &Device<N>) -> Self {
        let stats = device.ftl().stats();
        Self {
            host_page_writes: stats.host_page_writes,
            programs: stats.total_programs(),
            erases: stats.total_erases(),
        }
    }

    fn until(&self, now: &Self, requests: u64) -> SeriesPoint {
        SeriesPoint {
            requests,
            host_page_writes: now.host_page_writes - self.host_page_writes,
            programs: now.programs - self.programs,
            erases: now.erases - self.erases,
            ..SeriesPoint::ZERO
        }
    }
}

/// Writes the pages that wait for a whole chunk: they were counted, and the counters will begin anew.
///
/// # Errors
/// Those of the device.
pub fn write_gathered<N: Nand>(device: &mut Device<N>) -> Result<(), Error> {
    if device.ftl().gathering_pages() > 0 { device.flush() } else { Ok(()) }
}

/// Binds random logical pages to others, each a page that has a place, until the reverse map holds `entries` valid entries or
/// refuses one. Nothing happens on a design that cannot bind.
///
/// # Errors
/// Those of the device.
pub fn bind<N: Nand>(
    device: &mut Device<N>,
    entries: u64,
    seed: u64,
    on_step: OnStep<'_>,
) -> Result<ControlFlow<()>, Error> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let pages = device.ftl().logical_pages() as u64;
    let page_bytes = device.ftl().store().geometry().page_bytes as u64;
    let refused = device.ftl().stats().demoted_full;
    let mut tried = 0;
    while device.ftl().binds()
        && device.ftl().valid_entries() < entries
        && device.ftl().stats().demoted_full == refused
        && tried < PATIENCE_CAPACITIES * pages
    {
        tried += 1;
        let (target, source) = (below(&mut random, pages), below(&mut random, pages));
        if !device.ftl().is_mapped(Lpn(source as u32)) {
            continue;
        }
        if report(on_step, device.ftl().valid_entries(), entries).is_break() {
            return Ok(Break(()));
        }
        device.remap(target * page_bytes, source * page_bytes, page_bytes, RemapMode::Copy)?;
    }
    device.flush().map(|()| Continue(()))
}

/// Physical capacities of overwrites without a collection after which there will never be one.
const PATIENCE_CAPACITIES: u64 = 64;
const NEVER_COLLECTS: &str = "precondition.mode steady or random: the write buffer absorbs nearly all writes, so garbage \
    collection never starts; use fill, or fewer buffer.pages";

fn overwrite_one<N: Nand>(
    device: &mut Device<N>,
    random: &mut Xoshiro256PlusPlus,
    pages: u64,
    written: &mut u64,
) -> Result<(), Error> {
    *written += 1;
    let page = below(random, pages);
    device.write_page(Lpn(page as u32), unique_content(page, *written))
}

/// Fills an empty device so that it is in the steady state of uniform random writes under greedy collection: closed
/// blocks hold as many valid pages as the mean field says ([`theory::greedy`]), and which pages is a pseudo-random
/// permutation. Host writes take turns over the pools, so every pool holds the same number of valid pages, also where
/// bad blocks leave it fewer blocks. The counters are zero afterwards: the dead pages are nobody's writes. About 20 ns per
/// logical page. A map and page validity on flash are written once, at the end; the room that they take when they are
/// written again and again is left free.
///
/// # Errors
/// Those of the device; [`Error::Options`] if the device is not empty, or so small that what garbage collection keeps
/// free leaves a pool no room for a steady state.
pub fn construct<N: Nand>(
    device: &mut Device<N>,
    seed: u64,
    on_step: OnStep<'_>,
) -> Result<ControlFlow<()>, Error> {
    let ftl = device.ftl_mut();
    if ftl.store().sequence() > 0 {
        return Err(Error::Options("a steady state is constructed on an empty device only".into()));
    }
    let plans = pool_plans(ftl)?;
    let mut pages = Pages::of(ftl.logical_pages(), seed);
    let total = plans.iter().map(|plan| u64::from(plan.closed_blocks)).sum();
    let mut built = 0;
    for (plan, pool) in plans.iter().zip(0..) {
        let start = pages.random.random::<f64>();
        for k in 0..plan.closed_blocks {
            if report(on_step, built, total).is_break() {
                return Ok(Break(()));
            }
            let valid = plan.valid_pages(start + f64::from(k) * GOLDEN_SECTION);
            build_block(ftl, pool, valid, &mut pages)?;
            built += 1;
        }
    }
    ftl.finish_construction()?;
    while let Some(lpn) = pages.next() {
        ftl.write(lpn, Content::Descriptor(unique_content(lpn.0 as u64, 0)))?;
    }
    write_gathered(device)?;
    device.ftl_mut().clear_stats();
    Ok(Continue(()))
}

fn pool_plans<N: Nand>(ftl: &Ftl<N>) -> Result<Vec<PoolPlan>, Error> {
    (0..ftl.store().pools()).map(|pool| PoolPlan::of(ftl, pool)).collect()
}

const GOLDEN_SECTION: f64 = 0.618_033_988_749_894_9;

/// Appends a block with `valid` pages of the permutation, spread evenly, and dead ones between.
fn build_block<N: Nand>(ftl: &mut Ftl<N>, pool: u32, valid: u32, pages: &mut Pages) -> Result<(), Error> {
    let block_pages = ftl.store().data_pages();
    let lpns: Vec<Lpn> = std::iter::from_fn(|| pages.next()).take(valid as usize).collect();
    ftl.prefetch(&lpns, &[]);
    let mut placed = lpns.iter();
    for offset in 0..block_pages {
        let is_valid = (offset + 1) * valid / block_pages > offset * valid / block_pages;
        let lpn = if is_valid { placed.next().copied() } else { None };
        let page = lpn.map_or(u64::from(offset) | 1 << 39, |lpn| lpn.0 as u64);
        ftl.construct_page(pool, lpn, unique_content(page, 0))?;
    }
    Ok(())
}

/// Logical pages in the order in which blocks take them.
struct Pages {
    order: Permutation,
    next: u64,
    random: Xoshiro256PlusPlus,
}

impl Pages {
    fn of(logical_pages: u32, seed: u64) -> Self {
        Self {
            order: Permutation::new(logical_pages as u64, seed),
            next: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(mix(seed)),
        }
    }

    fn next(&mut self) -> Option<Lpn> {
        let page = (self.next < self.order.domain()).then(|| self.order.apply(self.next))?;
        self.next += 1;
        Some(Lpn(page as u32))
    }
}

/// What metadata takes of a pool in the steady state.
struct MetadataRoom {
    /// Open blocks of its streams.
    streams: u32,
    /// Blocks of its own.
    blocks: u32,
    /// Pages that are collected with the data: as full or empty as data blocks.
    collected_pages: u64,
}

impl MetadataRoom {
    /// Metadata that is collected like data shares the blocks' mean of valid pages. Left alone until it is empty, a block
    /// of translation pages, each of which is written again at a constant rate, waits for the last of its pages, a harmonic
    /// number times as long as for one; the pages of a validity structure die together, a run at a time.
    fn of<N: Nand>(ftl: &Ftl<N>) -> Self {
        let pools = ftl.store().pools();
        let block_pages = ftl.store().data_pages();
        let pages = ftl.metadata_pages().div_ceil(u64::from(pools));
        let streams = u32::from(pages > 0) + u32::from(ftl.validity().is_on_flash());
        if ftl.gc_options().metadata == MetadataGc::Greedy {
            return Self { streams, blocks: 0, collected_pages: pages };
        }
        let of_map = ftl.mapping().metadata_pages().div_ceil(u64::from(pools)).min(pages);
        let waiting: f64 = (1..=block_pages).map(|left| 1.0 / f64::from(left)).sum();
        let room = of_map as f64 * waiting + (pages - of_map) as f64;
        Self { streams, blocks: (room / f64::from(block_pages)).ceil() as u32, collected_pages: 0 }
    }
}

/// The steady state of one pool.
struct PoolPlan {
    closed_blocks: u32,
    /// Cumulative shares of blocks by valid pages.
    cumulative: Vec<f64>,
}

impl PoolPlan {
    fn of<N: Nand>(ftl: &Ftl<N>, pool: u32) -> Result<Self, Error> {
        let store = ftl.store();
        let (block_pages, free) = (store.data_pages(), store.free_blocks(pool));
        let metadata = MetadataRoom::of(ftl);
        // What a pool keeps besides closed blocks: its free blocks at rest and the open blocks of its streams.
        let kept_free = ftl.gc_options().low_blocks + 1;
        let streams = 2 + metadata.streams;
        let closed_blocks = free.saturating_sub(kept_free + streams + metadata.blocks);
        let valid = ftl.logical_pages() as u64 / u64::from(store.pools());
        let collected = valid + metadata.collected_pages;
        if valid == 0 || collected >= u64::from(closed_blocks) * u64::from(block_pages) {
            return Err(Error::Options(format!(
                "precondition.mode constructed: pool {pool} has {free} blocks of {block_pages} pages, too few for \
                 {valid} valid pages beside metadata and what garbage collection keeps free; use steady"
            )));
        }
        let utilisation = theory::effective_utilisation(
            collected,
            u64::from(free - metadata.blocks) * u64::from(block_pages),
            u64::from(kept_free),
            u64::from(streams),
            u64::from(block_pages),
        );
        let closed_blocks = (u64::from(closed_blocks) * valid / collected) as u32;
        let steady = theory::greedy(utilisation, block_pages as usize);
        let mut sum = 0.0;
        let cumulative = steady.shares.iter().map(|share| {
            sum += share;
            sum
        });
        Ok(Self { closed_blocks, cumulative: cumulative.collect() })
    }

    /// Valid pages of the next block. Multiples of the golden section, modulo 1, fill the unit interval evenly, so that
    /// a few thousand blocks meet the quotas closely; independent draws would be off by tens of blocks' worth of pages,
    /// which shows in the write amplification of the next writes.
    fn valid_pages(&self, multiple: f64) -> u32 {
        let draw = multiple.fract();
        self.cumulative.partition_point(|&share| share < draw).min(self.cumulative.len() - 1) as u32
    }
}
