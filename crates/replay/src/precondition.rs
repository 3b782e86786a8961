//! Preconditioning: brings the device into a defined state before the first measured request.
//!
//! On an empty device most traces are too short to start garbage collection, so a result without preconditioning says
//! little. There are four methods. The first writes random pages until the first collection, and the second fills the
//! drive sequentially. The third fills it and overwrites random pages until the first collection and for one more
//! physical capacity, so that write amplification is steady. The fourth builds the steady state of uniform random
//! writes directly. Building takes seconds where overwriting takes minutes, and is exact for uniform random writes
//! only. The default, a drive in use, is the built state wherever pools are large enough for it. Aging by a trace is
//! done by the replay driver.

use std::ops::ControlFlow::{self, Break, Continue};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::address::{Lpn, RemapMode};
use wearwell::data::{Content, ContentDescriptor, Fingerprint, mix_bits};
use wearwell::gc::MetadataGcRule;
use wearwell::mapping::Mapping;
use wearwell::{Device, Error, Ftl};

use crate::record::SeriesPoint;
use crate::steadiness::Steadiness;
use crate::theory;
use crate::workload::draw::uniform_below;
use crate::workload::permutation::Permutation;

/// Returns the content that preconditioning writes to a page in a pass. Its fingerprint is a hash of page number and
/// pass with the top bit set, so no trace and no content model writes the same content.
fn unique_content(page: u64, pass: u64) -> ContentDescriptor {
    ContentDescriptor::of_fingerprint(Fingerprint(mix_bits(page ^ pass << 40) | 1 << 63))
}

/// Callback that receives the preconditioning steps done and expected. If it returns `Break`, preconditioning ends, and
/// the device stays in its state of that moment.
pub type OnPreconditionStep<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;

/// Number of preconditioning steps between two calls of the progress callback.
const STEPS_PER_PROGRESS_REPORT: u64 = 1 << 16;

/// Calls the progress callback of preconditioning once every [`STEPS_PER_PROGRESS_REPORT`] steps.
fn report_step(on_step: OnPreconditionStep<'_>, done: u64, total: u64) -> ControlFlow<()> {
    if done.is_multiple_of(STEPS_PER_PROGRESS_REPORT) { on_step(done, total) } else { Continue(()) }
}

/// Writes every exported page once, in order, each page with a content of its own.
///
/// # Errors
/// Errors of the device.
pub fn fill_sequentially(
    device: &mut Device,
    on_step: OnPreconditionStep<'_>,
) -> Result<ControlFlow<()>, Error> {
    let pages = device.ftl().logical_pages();
    for page in 0..pages {
        if report_step(on_step, page as u64, pages as u64).is_break() {
            return Ok(Break(()));
        }
        device.write_page_descriptor(Lpn(page), unique_content(page as u64, 0))?;
    }
    device.flush().map(|()| Continue(()))
}

/// Writes every exported page, then overwrites random pages until `physical_capacity_overwrites` physical capacities
/// are written after the first garbage collection. Returns how steady write amplification was during these overwrites.
/// The overwrites end there whether write amplification is steady or not, so that the resulting state does not depend
/// on the threshold of steadiness.
///
/// # Errors
/// As [`overwrite_at_random`].
pub fn write_to_steady_state(
    device: &mut Device,
    physical_capacity_overwrites: f64,
    seed: u64,
    on_step: OnPreconditionStep<'_>,
) -> Result<ControlFlow<(), Steadiness>, Error> {
    if fill_sequentially(device, on_step)?.is_break() {
        return Ok(Break(()));
    }
    let mut points = Vec::new();
    let flow =
        overwrite_and_sample_counters(device, physical_capacity_overwrites, seed, on_step, &mut |point| {
            points.push(point);
        })?;
    let exported_bytes = device.capacity_bytes();
    Ok(flow.map_continue(|()| Steadiness::of_samples(&points, exported_bytes)))
}

/// Builds the steady state of uniform random writes by [`construct_steady_state`], then overwrites
/// `physical_capacity_overwrites` physical capacities of random pages as [`overwrite_at_random`] does (none for 0). The
/// overwrites let maps and page validity on flash occupy the space that was left for them, so that every design has the
/// same number of free blocks.
///
/// # Errors
/// Errors of [`construct_steady_state`] and [`overwrite_at_random`].
pub fn construct_steady_state_and_overwrite(
    device: &mut Device,
    physical_capacity_overwrites: f64,
    seed: u64,
    on_step: OnPreconditionStep<'_>,
) -> Result<ControlFlow<()>, Error> {
    match construct_steady_state(device, seed, on_step)? {
        Continue(()) if physical_capacity_overwrites > 0.0 => {
            overwrite_at_random(device, physical_capacity_overwrites, mix_bits(seed), on_step)
        }
        flow => Ok(flow),
    }
}

/// Brings the device into the state of a drive that has long been in use, by [`construct_steady_state_and_overwrite`].
/// If its pools (planes, or planes of a superblock) have too few blocks for that function, [`write_to_steady_state`] is
/// used instead, and the steadiness is returned. If a write buffer absorbs nearly all writes, preconditioning stops,
/// and the device stays as it is then.
///
/// # Errors
/// Errors of the device.
pub fn bring_into_used_state(
    device: &mut Device,
    physical_capacity_overwrites: f64,
    seed: u64,
    on_step: OnPreconditionStep<'_>,
) -> Result<ControlFlow<(), Option<Steadiness>>, Error> {
    let settled = if pool_steady_states(device.ftl()).is_ok() {
        construct_steady_state_and_overwrite(device, physical_capacity_overwrites, seed, on_step)
            .map(|flow| flow.map_continue(|()| None))
    } else {
        write_to_steady_state(device, 1.0, seed, on_step).map(|flow| flow.map_continue(Some))
    };
    match settled {
        Err(Error::InvalidOptions(_)) => Ok(Continue(None)),
        other => other,
    }
}

/// Writes uniform random pages until the first garbage collection, and then `physical_capacity_overwrites` more
/// physical capacities.
///
/// # Errors
/// Errors of the device; [`Error::InvalidOptions`] if a write buffer absorbs so much that collection never starts.
pub fn overwrite_at_random(
    device: &mut Device,
    physical_capacity_overwrites: f64,
    seed: u64,
    on_step: OnPreconditionStep<'_>,
) -> Result<ControlFlow<()>, Error> {
    overwrite_and_sample_counters(device, physical_capacity_overwrites, seed, on_step, &mut |_| ())
}

/// Number of samples of the counters after the first garbage collection, from which the steadiness of write
/// amplification is judged.
const STEADINESS_SAMPLES: u64 = 40;

/// Overwrites random pages as [`overwrite_at_random`] does, and calls `on_sample` with the counters since the first
/// garbage collection, [`STEADINESS_SAMPLES`] times.
fn overwrite_and_sample_counters(
    device: &mut Device,
    physical_capacity_overwrites: f64,
    seed: u64,
    on_step: OnPreconditionStep<'_>,
    on_sample: &mut dyn FnMut(SeriesPoint),
) -> Result<ControlFlow<()>, Error> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let pages = device.ftl().logical_pages() as u64;
    let physical = device.ftl().store().geometry().pages();
    let before = device.ftl().stats().gc_victims;
    let more = (physical as f64 * physical_capacity_overwrites) as u64;
    let mut written = 0;
    while device.ftl().stats().gc_victims == before {
        if written == MAX_CAPACITY_OVERWRITES_WITHOUT_GC * physical {
            return Err(Error::InvalidOptions(GC_NEVER_STARTS_MESSAGE.into()));
        }
        if report_step(on_step, written, physical + more).is_break() {
            return Ok(Break(()));
        }
        overwrite_random_page(device, &mut random, pages, &mut written)?;
    }
    let (first, at_first) = (written, WriteCounters::of_device(device));
    let end = written + more;
    let every = more.div_ceil(STEADINESS_SAMPLES).max(1);
    while written < end {
        if report_step(on_step, written, end).is_break() {
            return Ok(Break(()));
        }
        overwrite_random_page(device, &mut random, pages, &mut written)?;
        if (written - first).is_multiple_of(every) {
            on_sample(at_first.series_point_until(&WriteCounters::of_device(device), written - first));
        }
    }
    device.flush().map(|()| Continue(()))
}

/// Counters from which write amplification is computed: host writes, programs, erases.
struct WriteCounters {
    /// Host page writes since the counters of the device were cleared.
    host_page_writes: u64,
    /// Page programs of all causes since the counters of the device were cleared.
    programs: u64,
    /// Block erases of all causes since the counters of the device were cleared.
    erases: u64,
}

impl WriteCounters {
    /// Reads the present counters of the device.
    fn of_device(device: &Device) -> Self {
        let stats = device.ftl().stats();
        Self {
            host_page_writes: stats.host_page_writes,
            programs: stats.total_programs(),
            erases: stats.total_erases(),
        }
    }

    /// Returns the counts between this moment and the later moment `now`, as a sample after `requests` requests.
    fn series_point_until(&self, now: &Self, requests: u64) -> SeriesPoint {
        SeriesPoint {
            requests,
            host_page_writes: now.host_page_writes - self.host_page_writes,
            programs: now.programs - self.programs,
            erases: now.erases - self.erases,
            ..SeriesPoint::ZERO
        }
    }
}

/// Programs the pages that wait in RAM until a compressed chunk is full, although the chunk is not. Called before the
/// counters are cleared, because the host writes of these pages are already counted.
///
/// # Errors
/// Errors of the device.
pub fn flush_if_pages_await_compression(device: &mut Device) -> Result<(), Error> {
    if device.ftl().logical_pages_awaiting_compression() > 0 { device.flush() } else { Ok(()) }
}

/// Remaps random logical pages to the flash pages of others, until the reverse map holds `wanted_reverse_map_entries`
/// valid entries or is full, or until 64 remaps per logical page were tried. Does nothing on a design without remaps.
///
/// # Errors
/// Errors of the device.
pub fn remap_random_pages(
    device: &mut Device,
    wanted_reverse_map_entries: u64,
    seed: u64,
    on_step: OnPreconditionStep<'_>,
) -> Result<ControlFlow<()>, Error> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let pages = device.ftl().logical_pages() as u64;
    let page_bytes = device.ftl().store().geometry().page_bytes as u64;
    let refused = device.ftl().stats().writes_due_to_full_reverse_map;
    let mut tried = 0;
    while device.ftl().can_map_without_program()
        && device.ftl().valid_reverse_map_entries() < wanted_reverse_map_entries
        && device.ftl().stats().writes_due_to_full_reverse_map == refused
        && tried < MAX_CAPACITY_OVERWRITES_WITHOUT_GC * pages
    {
        tried += 1;
        let (target, source) = (uniform_below(&mut random, pages), uniform_below(&mut random, pages));
        if !device.ftl().is_known_mapped(Lpn(source as u32)) {
            continue;
        }
        if report_step(on_step, device.ftl().valid_reverse_map_entries(), wanted_reverse_map_entries)
            .is_break()
        {
            return Ok(Break(()));
        }
        device.remap(target * page_bytes, source * page_bytes, page_bytes, RemapMode::Copy)?;
    }
    device.flush().map(|()| Continue(()))
}

/// Amount of overwrites, as a multiple of the physical capacity: if so many overwrites cause no garbage collection, it
/// is assumed that garbage collection never starts.
const MAX_CAPACITY_OVERWRITES_WITHOUT_GC: u64 = 64;
/// Message of the error if overwrites do not start garbage collection.
const GC_NEVER_STARTS_MESSAGE: &str = "precondition.mode=steady or random: the write buffer absorbs nearly all \
                                       writes, so that garbage collection never starts: set precondition.mode=fill, \
                                       or lower buffer.pages";

/// Writes one uniformly random logical page with a new content; `page_write_count` counts the writes.
fn overwrite_random_page(
    device: &mut Device,
    random: &mut Xoshiro256PlusPlus,
    logical_pages: u64,
    page_write_count: &mut u64,
) -> Result<(), Error> {
    *page_write_count += 1;
    let page = uniform_below(random, logical_pages);
    device.write_page_descriptor(Lpn(page as u32), unique_content(page, *page_write_count))
}

/// Fills an empty device so that it is in the steady state of uniform random writes under greedy collection. Closed
/// blocks hold as many valid pages as the mean field predicts ([`theory::greedy_steady_state`]); which logical pages
/// they hold is a pseudo-random permutation. Host writes alternate between the pools, so every pool holds the same
/// number of valid pages, even if bad blocks leave a pool fewer blocks. The counters are zero afterwards, because no
/// host wrote the invalid pages. Takes about 20 ns per logical page. A map and page validity on flash are written once,
/// at the end; the space that they occupy after repeated updates is left free.
///
/// # Errors
/// Errors of the device; [`Error::InvalidOptions`] if the device is not empty, or so small that the blocks that garbage
/// collection keeps free leave a pool no space for a steady state.
pub fn construct_steady_state(
    device: &mut Device,
    seed: u64,
    on_step: OnPreconditionStep<'_>,
) -> Result<ControlFlow<()>, Error> {
    let ftl = device.ftl_mut();
    if ftl.store().last_sequence() > 0 {
        return Err(Error::InvalidOptions(
            "precondition.mode=constructed needs an empty device, but this one was written to: use a new device, or \
             set precondition.mode=steady"
                .into(),
        ));
    }
    let plans = pool_steady_states(ftl)?;
    let mut pages = PageOrder::of_seed(ftl.logical_pages(), seed);
    let total = plans.iter().map(|plan| u64::from(plan.closed_blocks)).sum();
    let mut built = 0;
    for (plan, pool) in plans.iter().zip(0..) {
        let start = pages.random.random::<f64>();
        for k in 0..plan.closed_blocks {
            if report_step(on_step, built, total).is_break() {
                return Ok(Break(()));
            }
            let valid = plan.valid_pages_of_next_block(start + f64::from(k) * GOLDEN_SECTION);
            build_block(ftl, pool, valid, &mut pages)?;
            built += 1;
        }
    }
    ftl.finish_initial_drive_state()?;
    while let Some(lpn) = pages.next() {
        ftl.write(lpn, Content::Descriptor(unique_content(lpn.0 as u64, 0)))?;
    }
    flush_if_pages_await_compression(device)?;
    device.ftl_mut().clear_stats();
    Ok(Continue(()))
}

/// Returns the steady state of every pool (plane, or planes of a superblock).
fn pool_steady_states(ftl: &Ftl) -> Result<Vec<PoolSteadyState>, Error> {
    (0..ftl.store().allocation_pools()).map(|pool| PoolSteadyState::of_pool(ftl, pool)).collect()
}

/// The fractional part of the golden ratio: its multiples, modulo 1, cover the range from 0 to 1 evenly.
const GOLDEN_SECTION: f64 = 0.618_033_988_749_894_9;

/// Fills a block of `pool` (a plane, or the planes of a superblock) with `valid` valid pages, taken from the
/// permutation of logical pages and spread evenly, and with invalid pages between them. Each invalid page is an older
/// version of the next valid page, or of a page that is written later.
fn build_block(ftl: &mut Ftl, pool: u32, valid: u32, pages: &mut PageOrder) -> Result<(), Error> {
    let block_pages = ftl.store().data_pages_per_block();
    let lpns: Vec<Lpn> = std::iter::from_fn(|| pages.next_page_unless_last()).take(valid as usize).collect();
    ftl.prefetch_table_entries_for_writes(&lpns, &[]);
    let mut placed = lpns.into_iter().peekable();
    for offset in 0..block_pages {
        let is_due = (offset + 1) * valid / block_pages > offset * valid / block_pages;
        let lpn = placed.peek().copied().unwrap_or_else(|| pages.peek_page());
        let is_valid = placed.next_if(|_| is_due).is_some();
        let page = if is_valid { u64::from(lpn.0) } else { u64::from(offset) | 1 << 39 };
        ftl.construct_initial_page(pool, lpn, is_valid, unique_content(page, 0))?;
    }
    Ok(())
}

/// Pseudo-random order of all logical pages, in which preconditioning writes them into the blocks that it fills without
/// executing host writes.
struct PageOrder {
    /// Pseudo-random permutation of all logical pages.
    permutation: Permutation,
    /// Position in the permutation of the logical page that is placed next.
    next_index: u64,
    /// Random number generator for the placement of pages inside blocks.
    random: Xoshiro256PlusPlus,
}

impl PageOrder {
    /// Creates the order of all logical pages that belongs to a seed.
    fn of_seed(logical_pages: u32, seed: u64) -> Self {
        Self {
            permutation: Permutation::new(logical_pages as u64, seed),
            next_index: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(mix_bits(seed)),
        }
    }

    /// Returns the next logical page of the order; `None` after the last one.
    fn next(&mut self) -> Option<Lpn> {
        let page = (self.next_index < self.permutation.domain_size()).then(|| self.peek_page())?;
        self.next_index += 1;
        Some(page)
    }

    /// Returns the next logical page, or `None` if it is the last one. The last page is written after the blocks are
    /// built. Until then, all invalid pages are constructed as old versions of it.
    fn next_page_unless_last(&mut self) -> Option<Lpn> {
        if self.next_index + 1 < self.permutation.domain_size() { self.next() } else { None }
    }

    /// Returns the logical page that [`Self::next`] returns next; there must be one.
    fn peek_page(&self) -> Lpn {
        Lpn(self.permutation.apply(self.next_index) as u32)
    }
}

/// Space that metadata (map and page validity on flash) occupies in a plane, or the planes of a superblock, in the
/// steady state.
struct MetadataSpace {
    /// Number of open blocks for metadata: one for each stream of metadata writes (map, page validity).
    open_metadata_blocks: u32,
    /// Number of blocks that hold only metadata (map and page validity on flash).
    metadata_blocks: u32,
    /// Number of metadata pages (of the map and page validity) in blocks that GC collects like data blocks, with the
    /// same share of valid pages.
    metadata_pages_in_data_blocks: u64,
}

impl MetadataSpace {
    /// Estimates the space that metadata on flash occupies in the steady state.
    ///
    /// If GC collects metadata like data, metadata pages are counted with the pages in data blocks. If GC waits until
    /// metadata blocks are empty, a block of n translation pages stays in use until its last page is invalid. Each
    /// translation page is rewritten at a constant rate, so that this takes H(n) = 1 + 1/2 + ... + 1/n times as long on
    /// average as for a single page. Translation pages then take H(n) times their number of pages. Pages of a validity
    /// structure take only their own number of pages, because all pages of a sorted run become invalid together.
    fn estimate(ftl: &Ftl) -> Self {
        let pools = ftl.store().allocation_pools();
        let block_pages = ftl.store().data_pages_per_block();
        let pages = ftl.max_metadata_pages().div_ceil(u64::from(pools));
        let open_metadata_blocks = u32::from(pages > 0) + u32::from(ftl.validity().is_on_flash());
        if ftl.gc_options().metadata_gc == MetadataGcRule::Greedy {
            return Self { open_metadata_blocks, metadata_blocks: 0, metadata_pages_in_data_blocks: pages };
        }
        let of_map = ftl.mapping().max_metadata_pages().div_ceil(u64::from(pools)).min(pages);
        let waiting: f64 = (1..=block_pages).map(|left| 1.0 / f64::from(left)).sum();
        let room = of_map as f64 * waiting + (pages - of_map) as f64;
        Self {
            open_metadata_blocks,
            metadata_blocks: (room / f64::from(block_pages)).ceil() as u32,
            metadata_pages_in_data_blocks: 0,
        }
    }
}

/// The steady state of one pool (a plane, or the planes of a superblock): how many closed blocks it has, and how many
/// valid pages they hold.
struct PoolSteadyState {
    /// Number of closed blocks of the pool.
    closed_blocks: u32,
    /// Cumulative share of the pool's closed blocks by number of valid pages; index 0 is for blocks without valid
    /// pages.
    cumulative_block_shares_by_valid_pages: Vec<f64>,
}

impl PoolSteadyState {
    /// Predicts the steady state of a pool from its blocks, its valid pages and the space of metadata.
    fn of_pool(ftl: &Ftl, pool: u32) -> Result<Self, Error> {
        let store = ftl.store();
        let (block_pages, free) = (store.data_pages_per_block(), store.free_blocks(pool));
        let metadata = MetadataSpace::estimate(ftl);
        // Besides closed blocks a pool has the free blocks that GC keeps, and the open block of each stream.
        let kept_free = ftl.gc_options().gc_start_free_blocks + 1;
        let streams = 2 + metadata.open_metadata_blocks;
        let closed_blocks = free.saturating_sub(kept_free + streams + metadata.metadata_blocks);
        let valid = ftl.logical_pages() as u64 / u64::from(store.allocation_pools());
        let collected = valid + metadata.metadata_pages_in_data_blocks;
        if valid == 0 {
            return Err(Error::InvalidOptions(format!(
                "precondition.mode=constructed: the drive exports {} pages, fewer than its {} pools (planes, or \
                 groups of planes), so that a pool would have no valid page: set precondition.mode=steady",
                ftl.logical_pages(),
                store.allocation_pools()
            )));
        }
        if collected >= u64::from(closed_blocks) * u64::from(block_pages) {
            return Err(Error::InvalidOptions(format!(
                "precondition.mode=constructed: pool {pool} (a plane, or a group of planes) has {free} free blocks of \
                 {block_pages} pages, too few for {valid} valid pages, metadata, open blocks and the blocks that \
                 garbage collection keeps free: set precondition.mode=steady"
            )));
        }
        let utilisation = theory::effective_utilisation(
            collected,
            u64::from(free - metadata.metadata_blocks) * u64::from(block_pages),
            u64::from(kept_free),
            u64::from(streams),
            u64::from(block_pages),
        );
        let closed_blocks = (u64::from(closed_blocks) * valid / collected) as u32;
        let steady = theory::greedy_steady_state(utilisation, block_pages as usize);
        let mut sum = 0.0;
        let cumulative = steady.valid_count_shares.iter().map(|share| {
            sum += share;
            sum
        });
        Ok(Self { closed_blocks, cumulative_block_shares_by_valid_pages: cumulative.collect() })
    }

    /// Returns the number of valid pages of the next block that is constructed, chosen from the predicted distribution
    /// by the fractional part of `multiple` (a multiple of the golden section). Successive multiples cover 0 to 1
    /// evenly, so that a few thousand blocks match the distribution closely. Independent random draws would deviate by
    /// tens of blocks' worth of pages, and distort the write amplification of the next writes.
    fn valid_pages_of_next_block(&self, multiple: f64) -> u32 {
        let draw = multiple.fract();
        self.cumulative_block_shares_by_valid_pages
            .partition_point(|&share| share < draw)
            .min(self.cumulative_block_shares_by_valid_pages.len() - 1) as u32
    }
}
