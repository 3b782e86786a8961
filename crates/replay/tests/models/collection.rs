//! Garbage collection: write amplification of greedy and FIFO cleaning under uniform and skewed overwrites.
//!
//! The model is a page-mapped drive with two open blocks, one for host writes and one for copies. Before a host write,
//! victims are copied and erased while at most two blocks are free. Of victims with equally few valid pages, the model
//! takes the one whose valid count fell last; with skewed writes this rule changes write amplification by about a
//! percent. Engine and model execute the same writes. They differ in the blocks with which they begin, which the
//! tolerance covers.

use wearwell::design::page_map;
use wearwell::gc::{GcOptions, VictimPolicy};

use super::load::{Drive, Random, one_pool_geometry};

/// Rule by which the model drive chooses GC victims.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CleaningPolicy {
    /// The victim is the block with the fewest valid pages.
    Greedy,
    /// The victim is the block that was filled first.
    Fifo,
}

/// Event on a page or block of the model drive, from which the models of metadata (map, page validity) compute their
/// flash operations.
#[derive(Clone, Copy)]
pub enum Event {
    /// A logical page was written to a new flash page, by the host or as a copy.
    Written { lpn: u32 },
    /// The host overwrote the logical page that this flash page held.
    Invalidated { page: u32 },
    /// GC chose this block as a victim, and the validity store must report the block's valid pages.
    Queried { block: u32 },
    /// GC erased this block.
    Erased { block: u32 },
}

/// Page number that stands for no page, in both maps of the model drive.
const NO_PAGE: u32 = u32::MAX;
/// Number of free blocks at or below which a host write waits for GC.
const GC_START_FREE_BLOCKS: usize = 2;

/// Model of a page-mapped drive with one open block for host writes and one for copies.
pub struct PageMap {
    /// Rule by which victims are chosen.
    cleaning_policy: CleaningPolicy,
    /// Number of pages in a block.
    block_pages: u32,
    /// Flash page of each logical page; [`NO_PAGE`] if it was never written.
    page_of_lpn: Vec<u32>,
    /// Logical page that each flash page holds; [`NO_PAGE`] for free and invalid pages.
    lpn_of_page: Vec<u32>,
    /// Number of valid pages of each block.
    valid_page_counts: Vec<u32>,
    /// Time, in host writes, at which the block was filled or a page of it was last invalidated, by block.
    last_change_time: Vec<u64>,
    /// Numbers of the free blocks; the last one is opened next.
    free_blocks: Vec<u32>,
    /// Full blocks in the order in which they were filled.
    closed_blocks: Vec<u32>,
    /// Open block and its next free page, for host writes and for copies.
    open_blocks: [(u32, u32); 2],
    /// Number of host writes since the drive was new.
    host_writes_so_far: u64,
    /// Number of host writes that are measured.
    pub writes: u64,
    /// Number of pages that GC copied during the measurement.
    pub copies: u64,
    /// Events since the caller took the list last, in order.
    pub events: Vec<Event>,
}

impl PageMap {
    /// Creates an empty model drive with `logical` logical pages.
    pub fn new(cleaning_policy: CleaningPolicy, blocks: u32, block_pages: u32, logical: u32) -> Self {
        Self {
            cleaning_policy,
            block_pages,
            page_of_lpn: vec![NO_PAGE; logical as usize],
            lpn_of_page: vec![NO_PAGE; (blocks * block_pages) as usize],
            valid_page_counts: vec![0; blocks as usize],
            last_change_time: vec![0; blocks as usize],
            free_blocks: (2..blocks).rev().collect(),
            closed_blocks: Vec::new(),
            open_blocks: [(0, 0), (1, 0)],
            host_writes_so_far: 0,
            writes: 0,
            copies: 0,
            events: Vec::new(),
        }
    }

    /// Writes a logical page for the host, after collecting blocks while too few are free.
    pub fn write(&mut self, lpn: u32) {
        while self.free_blocks.len() <= GC_START_FREE_BLOCKS {
            self.collect_victim();
        }
        self.writes += 1;
        self.host_writes_so_far += 1;
        let old = self.page_of_lpn[lpn as usize];
        if old != NO_PAGE {
            self.lpn_of_page[old as usize] = NO_PAGE;
            self.valid_page_counts[(old / self.block_pages) as usize] -= 1;
            self.last_change_time[(old / self.block_pages) as usize] = self.host_writes_so_far;
            self.events.push(Event::Invalidated { page: old });
        }
        self.append_page(0, lpn);
    }

    /// Writes a logical page to the next free page of an open block; `stream` is 0 for host writes and 1 for copies.
    fn append_page(&mut self, stream: usize, lpn: u32) {
        if self.open_blocks[stream].1 == self.block_pages {
            self.closed_blocks.push(self.open_blocks[stream].0);
            self.last_change_time[self.open_blocks[stream].0 as usize] = self.host_writes_so_far;
            self.open_blocks[stream] = (self.free_blocks.pop().expect("a block is kept free"), 0);
        }
        let (block, page) = self.open_blocks[stream];
        let at = block * self.block_pages + page;
        self.page_of_lpn[lpn as usize] = at;
        self.lpn_of_page[at as usize] = lpn;
        self.valid_page_counts[block as usize] += 1;
        self.open_blocks[stream].1 += 1;
        self.events.push(Event::Written { lpn });
    }

    /// Chooses a victim, copies its valid pages, and erases it.
    fn collect_victim(&mut self) {
        let position = match self.cleaning_policy {
            CleaningPolicy::Fifo => 0,
            CleaningPolicy::Greedy => {
                let fewest = |&position: &usize| {
                    let block = self.closed_blocks[position] as usize;
                    (self.valid_page_counts[block], std::cmp::Reverse(self.last_change_time[block]))
                };
                (0..self.closed_blocks.len()).min_by_key(fewest).expect("blocks are full")
            }
        };
        let victim = self.closed_blocks.remove(position);
        self.events.push(Event::Queried { block: victim });
        let pages = victim * self.block_pages..(victim + 1) * self.block_pages;
        for page in pages {
            let lpn = std::mem::replace(&mut self.lpn_of_page[page as usize], NO_PAGE);
            if lpn != NO_PAGE {
                self.copies += 1;
                self.append_page(1, lpn);
            }
        }
        self.valid_page_counts[victim as usize] = 0;
        self.free_blocks.insert(0, victim);
        self.events.push(Event::Erased { block: victim });
    }

    /// Returns host writes plus copies, divided by host writes.
    pub fn write_amplification(&self) -> f64 {
        (self.writes + self.copies) as f64 / self.writes as f64
    }
}

/// Draws logical pages with probability proportional to `1 / rank^theta`; ranks are assigned to the pages at random.
struct Zipf {
    /// Sum of the weights of all ranks up to each rank.
    cumulative_weights: Vec<f64>,
    /// Logical page of each rank.
    page_of_rank: Vec<u32>,
}

impl Zipf {
    /// Assigns ranks to the pages at random.
    fn new(pages: u32, theta: f64, random: &mut Random) -> Self {
        let mut sum = 0.0;
        let cumulative_weights = (1..=pages)
            .map(|rank| {
                sum += (rank as f64).powf(-theta);
                sum
            })
            .collect();
        let mut page_of_rank: Vec<u32> = (0..pages).collect();
        for last in (1..pages as usize).rev() {
            page_of_rank.swap(last, random.draw_below(last as u64 + 1) as usize);
        }
        Self { cumulative_weights, page_of_rank }
    }

    /// Draws a logical page by its popularity.
    fn draw(&self, random: &mut Random) -> u32 {
        let at =
            random.draw_from_unit_interval() * self.cumulative_weights[self.cumulative_weights.len() - 1];
        self.page_of_rank[self.cumulative_weights.partition_point(|&below| below <= at)]
    }
}

/// Number of blocks of the drive.
const BLOCKS: u32 = 1024;
/// Number of pages in a block.
const BLOCK_PAGES: u32 = 128;

/// Returns the write amplification of the model and of the engine. For N logical pages, both write all pages once in
/// order, then 3 N random pages to warm up, then 2 N random pages that are measured. With `theta` 0 all pages are
/// equally popular.
fn model_and_engine_amplification(cleaning_policy: CleaningPolicy, spare: f64, theta: f64) -> [f64; 2] {
    let logical = ((BLOCKS * BLOCK_PAGES) as f64 / (1.0 + spare)) as u32;
    let policy =
        if cleaning_policy == CleaningPolicy::Greedy { VictimPolicy::Greedy } else { VictimPolicy::Fifo };
    let parts = page_map(GcOptions { policy, ..GcOptions::default() });
    let mut drive = Drive::new(one_pool_geometry(BLOCKS, BLOCK_PAGES), logical, &parts);
    let mut model = PageMap::new(cleaning_policy, BLOCKS, BLOCK_PAGES, logical);
    let mut random = Random::new(7);
    let zipf = Zipf::new(logical, theta, &mut random);
    for write in 0..6 * logical {
        if write == 4 * logical {
            drive.device.ftl_mut().clear_stats();
            (model.writes, model.copies) = (0, 0);
        }
        let lpn = if write < logical { write } else { zipf.draw(&mut random) };
        drive.write(lpn, 1);
        model.write(lpn);
        model.events.clear();
    }
    [model.write_amplification(), drive.stats().write_amplification()]
}

/// Checks that the engine's write amplification differs from that of the model by at most `percent` percent.
#[track_caller]
fn assert_amplification_is_that_of_the_model(cleaning_policy: CleaningPolicy, theta: f64, percent: f64) {
    for spare in [0.10, 0.28] {
        let [model, program] = model_and_engine_amplification(cleaning_policy, spare, theta);
        let error = 100.0 * (program / model - 1.0);
        println!(
            "{cleaning_policy:?}, theta {theta}, spare {spare}: {program:.4}, model {model:.4}, {error:+.2} %"
        );
        assert!(
            error.abs() <= percent,
            "{cleaning_policy:?}, theta {theta}, spare {spare}: {program}, model {model}"
        );
    }
}

#[test]
fn greedy_cleaning_amplifies_uniform_writes_as_the_model_does() {
    assert_amplification_is_that_of_the_model(CleaningPolicy::Greedy, 0.0, 0.5);
}

#[test]
fn greedy_cleaning_amplifies_skewed_writes_as_the_model_does() {
    assert_amplification_is_that_of_the_model(CleaningPolicy::Greedy, 0.9, 0.5);
}

#[test]
fn fifo_cleaning_amplifies_uniform_writes_as_the_model_does() {
    assert_amplification_is_that_of_the_model(CleaningPolicy::Fifo, 0.0, 0.5);
}

#[test]
fn fifo_cleaning_amplifies_skewed_writes_as_the_model_does() {
    assert_amplification_is_that_of_the_model(CleaningPolicy::Fifo, 0.9, 0.5);
}
