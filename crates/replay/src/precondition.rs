//! The state of the device before the first measured request.
//!
//! From an empty device garbage collection never starts on most traces, so a result without preconditioning says
//! little. Four ways: fill; fill and overwrite at random until the first collection and one more physical capacity
//! (so that write amplification is steady); the steady state of uniform random writes built directly, which takes
//! seconds where the long way takes minutes, and is exact for that workload only; and aging by a trace, which is the
//! driver's business.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::address::Lpn;
use wearwell::content::{Descriptor, Fingerprint, mix};
use wearwell::nand::Nand;
use wearwell::{Device, Error, Ftl};

use crate::theory;
use crate::workload::draw::below;
use crate::workload::permutation::Permutation;

/// Contents that no trace or model has: the top bit of a mixed number, by page and pass.
fn unique_content(page: u64, pass: u64) -> Descriptor {
    Descriptor::of(Fingerprint(mix(page ^ pass << 40) | 1 << 63))
}

/// Writes every exported page once, in order, with content of its own.
///
/// # Errors
/// Those of the device.
pub fn fill<N: Nand>(device: &mut Device<N>) -> Result<(), Error> {
    for page in 0..device.ftl().logical_pages() {
        device.write_page(Lpn(page), unique_content(page as u64, 0))?;
    }
    device.flush()
}

/// Uniform random overwrites until the first collection and `capacities` more physical capacities.
///
/// # Errors
/// Those of the device.
pub fn overwrite<N: Nand>(device: &mut Device<N>, capacities: f64, seed: u64) -> Result<(), Error> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let pages = device.ftl().logical_pages() as u64;
    let before = device.ftl().stats().gc_victims;
    let mut written = 0;
    while device.ftl().stats().gc_victims == before {
        overwrite_one(device, &mut random, pages, &mut written)?;
    }
    let more = (device.ftl().store().geometry().pages() as f64 * capacities) as u64;
    let end = written + more;
    while written < end {
        overwrite_one(device, &mut random, pages, &mut written)?;
    }
    device.flush()
}

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
/// permutation. About 20 ns per logical page.
///
/// # Errors
/// Those of the device; [`Error::Options`] if the device is not empty.
pub fn construct<N: Nand>(device: &mut Device<N>, seed: u64) -> Result<(), Error> {
    let ftl = device.ftl_mut();
    if ftl.stats().total_programs() > 0 {
        return Err(Error::Options("a steady state is constructed on an empty device only".into()));
    }
    let plan = Plan::of(ftl, seed);
    let mut pages = plan.pages;
    for pool in 0..ftl.store().pools() {
        for _ in 0..plan.closed_blocks_per_pool {
            let valid = plan.draw.valid_pages(&mut pages.random);
            build_block(ftl, pool, valid, &mut pages)?;
        }
    }
    while let Some(lpn) = pages.next() {
        ftl.write(lpn, wearwell::content::Content::Descriptor(unique_content(lpn.0 as u64, 0)))?;
    }
    Ok(())
}

/// Appends a block with `valid` pages of the permutation, spread evenly, and dead ones between.
fn build_block<N: Nand>(ftl: &mut Ftl<N>, pool: u32, valid: u32, pages: &mut Pages) -> Result<(), Error> {
    let block_pages = ftl.store().geometry().block_pages();
    let lpns: Vec<Lpn> = std::iter::from_fn(|| pages.next()).take(valid as usize).collect();
    std::hint::black_box(ftl.warm(&lpns, &[]));
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
    fn next(&mut self) -> Option<Lpn> {
        let page = (self.next < self.order.domain()).then(|| self.order.apply(self.next))?;
        self.next += 1;
        Some(Lpn(page as u32))
    }
}

/// Cumulative shares of blocks by valid pages.
struct Quotas {
    cumulative: Vec<f64>,
}

impl Quotas {
    fn valid_pages(&self, random: &mut Xoshiro256PlusPlus) -> u32 {
        let draw = random.random::<f64>();
        self.cumulative.partition_point(|&share| share < draw).min(self.cumulative.len() - 1) as u32
    }
}

struct Plan {
    closed_blocks_per_pool: u32,
    draw: Quotas,
    pages: Pages,
}

impl Plan {
    fn of<N: Nand>(ftl: &Ftl<N>, seed: u64) -> Self {
        let store = ftl.store();
        let (pools, block_pages) = (store.pools(), store.geometry().block_pages());
        let free = store.total_free_blocks() / pools;
        // What a pool keeps besides closed blocks: its free blocks at rest and the open blocks of two streams.
        let kept_free = ftl.gc_options().low_blocks + 1;
        let utilisation = theory::effective_utilisation(
            ftl.logical_pages() as u64,
            store.total_free_blocks() as u64 * block_pages as u64,
            (kept_free * pools) as u64,
            2 * pools as u64,
            block_pages as u64,
        );
        let steady = theory::greedy(utilisation, block_pages as usize);
        let mut sum = 0.0;
        let cumulative = steady.shares.iter().map(|share| {
            sum += share;
            sum
        });
        Self {
            closed_blocks_per_pool: free.saturating_sub(kept_free + 2),
            draw: Quotas { cumulative: cumulative.collect() },
            pages: Pages {
                order: Permutation::new(ftl.logical_pages() as u64, seed),
                next: 0,
                random: Xoshiro256PlusPlus::seed_from_u64(mix(seed)),
            },
        }
    }
}
