//! Delta-FTL: how many flash pages a delta costs.
//!
//! The model follows section 3.2 of the Delta-FTL paper. One page at a time is filled with deltas. It begins with the
//! number of deltas in 2 bytes, and each delta takes its bytes and 6 more (LPA and offset). A delta is never split, so
//! the first that does not fit closes the page and begins the next one. Delta sizes, as a share of the page, have a
//! Gaussian distribution with the mean Rc (section 5.1). The paper does not print sigma; here it is a quarter of Rc.
//!
//! The model has two forms. One gives the pages of a given series of sizes, which the engine must equal exactly. The
//! other gives the mean over all series, from the stationary distribution of how full the page is.

use wearwell::data::{ContentDescriptor, Fingerprint};
use wearwell::design::{DeltaOptions, delta};
use wearwell::gc::GcOptions;
use wearwell::operation::Cause;

use super::load::{Drive, PAGE_BYTES, Random, one_pool_geometry};

/// Size of a flash page, bytes.
const FLASH_PAGE_BYTES: usize = PAGE_BYTES as usize;
/// Size of the count of deltas at the beginning of a page, bytes.
const DELTA_COUNT_BYTES: usize = 2;
/// Size of the header (LPA and offset) beside each delta, bytes.
const DELTA_HEADER_BYTES: usize = 6;
/// Size of the largest delta that fits into a flash page beside its own header and the page's count of deltas, bytes.
const LARGEST_DELTA_BYTES: usize = FLASH_PAGE_BYTES - DELTA_COUNT_BYTES - DELTA_HEADER_BYTES;

/// A page of deltas that is packed by next fit: a delta that does not fit closes the page and begins the next one.
struct OpenPage {
    /// Number of bytes of the open page that are occupied.
    used_bytes: usize,
    /// Number of pages that are full and were closed.
    closed_pages: u64,
}

impl OpenPage {
    /// Creates an open page that has only the count of its deltas.
    fn new() -> Self {
        Self { used_bytes: DELTA_COUNT_BYTES, closed_pages: 0 }
    }

    /// Adds a delta to the open page; if it does not fit, closes the page and begins the next one.
    fn add_delta(&mut self, delta_bytes: usize) {
        if self.used_bytes + DELTA_HEADER_BYTES + delta_bytes > FLASH_PAGE_BYTES {
            self.closed_pages += 1;
            self.used_bytes = DELTA_COUNT_BYTES;
        }
        self.used_bytes += DELTA_HEADER_BYTES + delta_bytes;
    }
}

/// Returns the probability of every delta size, in bytes, for deltas of `ratio` of a page on average.
fn delta_size_probabilities(ratio: f64) -> Vec<f64> {
    let (mean, sigma) = (ratio * FLASH_PAGE_BYTES as f64, ratio * FLASH_PAGE_BYTES as f64 / 4.0);
    let mut density: Vec<f64> = (0..=LARGEST_DELTA_BYTES)
        .map(|bytes| (-((bytes as f64 - mean) / sigma).powi(2) / 2.0).exp())
        .collect();
    // At least a hundredth of a page.
    density[..FLASH_PAGE_BYTES / 100].fill(0.0);
    let sum: f64 = density.iter().sum();
    density.iter().map(|density| density / sum).collect()
}

/// Draws a delta size in bytes; `cumulative` has the probability of each size or a smaller one.
fn draw_delta_bytes(cumulative: &[f64], random: &mut Random) -> usize {
    let at = random.draw_from_unit_interval();
    cumulative.partition_point(|&below| below < at).min(LARGEST_DELTA_BYTES)
}

/// Returns the pages closed per delta in the long run, from the stationary distribution of how full the page is after a
/// delta (a Markov chain).
fn pages_per_delta(sizes: &[f64]) -> f64 {
    let possible: Vec<(usize, f64)> =
        sizes.iter().copied().enumerate().filter(|&(_, probability)| probability > 1e-12).collect();
    let mut filled = vec![0.0; FLASH_PAGE_BYTES + 1];
    filled[DELTA_COUNT_BYTES] = 1.0;
    let mut closed = 0.0;
    for step in 0..200 {
        let mut next = vec![0.0; FLASH_PAGE_BYTES + 1];
        let before = closed;
        closed = 0.0;
        for (used, &share) in filled.iter().enumerate().filter(|&(_, &share)| share > 0.0) {
            for &(bytes, probability) in &possible {
                if used + DELTA_HEADER_BYTES + bytes > FLASH_PAGE_BYTES {
                    closed += share * probability;
                    next[DELTA_COUNT_BYTES + DELTA_HEADER_BYTES + bytes] += share * probability;
                } else {
                    next[used + DELTA_HEADER_BYTES + bytes] += share * probability;
                }
            }
        }
        filled = next;
        if step > 10 && f64::abs(closed - before) < 1e-7 {
            return closed;
        }
    }
    panic!("the chain does not write_deferred: {closed}")
}

/// Number of logical pages, so large that the previous delta of a page is on flash when its next one is written.
const LOGICAL_PAGES: u32 = 2_000;
/// Number of times that every logical page is overwritten by a delta.
const OVERWRITES_PER_PAGE: u32 = 60;
/// Number of parts of a run, each long enough to be independent of the others. Their spread gives the standard error of
/// the mean.
const BATCHES: u32 = 60;

/// Creates a drive that stores every overwrite as a delta and never collects garbage.
fn new_drive() -> Drive {
    // The table counts accesses of every page, so that every overwrite becomes a delta.
    let design = DeltaOptions {
        access_count_table_entries: Some(1 << 16),
        cold_scan_interval_writes: 0,
        ..DeltaOptions::default()
    };
    // The drive has more pages than the test programs, so that GC never runs.
    Drive::new(
        one_pool_geometry(LOGICAL_PAGES * (OVERWRITES_PER_PAGE + 2) / 64, 64),
        LOGICAL_PAGES,
        &delta(GcOptions::default(), design, None),
    )
}

/// Returns the descriptor of content `number`, with the size of its delta if that is known.
fn page_descriptor(number: u64, delta_bytes: Option<usize>) -> ContentDescriptor {
    let delta_bytes = delta_bytes.map_or(ContentDescriptor::UNKNOWN_SIZE, |bytes| bytes as u16);
    ContentDescriptor { delta_bytes, ..ContentDescriptor::of_fingerprint(Fingerprint(1 + number)) }
}

/// Measures in the simulator how many flash pages are written per delta, for deltas that take the share
/// `ratio` of a page on average. Returns the mean and the standard error of that mean.
fn measure_mean_pages_per_delta_and_error(ratio: f64) -> (f64, f64) {
    let sizes = delta_size_probabilities(ratio);
    let cumulative: Vec<f64> = sizes
        .iter()
        .scan(0.0, |sum, share| {
            *sum += share;
            Some(*sum)
        })
        .collect();
    let mut drive = new_drive();
    (0..LOGICAL_PAGES).for_each(|lpn| drive.write_descriptor(lpn, page_descriptor(lpn as u64, None)));
    let (mut random, mut model) = (Random::new(1), OpenPage::new());
    let mut batches = Vec::new();
    let mut number = LOGICAL_PAGES as u64;
    for batch in 0..BATCHES {
        let closed_before = model.closed_pages;
        for lpn in 0..LOGICAL_PAGES {
            number += 1;
            let bytes = draw_delta_bytes(&cumulative, &mut random);
            model.add_delta(bytes);
            drive.write_descriptor(lpn, page_descriptor(number, Some(bytes)));
            let programs = drive.stats().programs[Cause::ContentMechanism as usize];
            assert_eq!(programs, model.closed_pages, "Rc {ratio}, batch {batch}, page {lpn}, {bytes} bytes");
        }
        batches.push((model.closed_pages - closed_before) as f64 / LOGICAL_PAGES as f64);
    }
    assert_eq!(
        drive.stats().programs[Cause::Host as usize],
        LOGICAL_PAGES as u64,
        "all overwrites became deltas"
    );
    let mean = batches.iter().sum::<f64>() / BATCHES as f64;
    let variance = batches.iter().map(|batch| (batch - mean).powi(2)).sum::<f64>() / (BATCHES - 1) as f64;
    (mean, (variance / BATCHES as f64).sqrt())
}

/// The engine programs a page of deltas exactly when the model closes it. Over many deltas, the number of pages per
/// delta agrees within four standard errors with the mean that follows from the stationary distribution of how full the
/// open page is (one sample in 16,000 is farther off).
#[test]
fn delta_pages_written_are_those_of_next_fit_packing() {
    // The second figures are from an independent simulation with another random number generator.
    for (ratio, audited) in [(0.50, 0.709), (0.35, 0.434), (0.20, 0.226)] {
        let form = pages_per_delta(&delta_size_probabilities(ratio));
        let (measured, error) = measure_mean_pages_per_delta_and_error(ratio);
        println!("Rc {ratio}: {measured:.5} pages per delta, form {form:.5}, standard error {error:.5}");
        assert!((measured - form).abs() < 4.0 * error, "Rc {ratio}: {measured}, form {form}, error {error}");
        assert!((form - audited).abs() < 0.0015, "Rc {ratio}: form {form}, another simulation {audited}");
    }
}

/// Section 3.5 of the Delta-FTL paper states `1 - Pc + Pc Rc` page writes per host write, where Pc is the share of
/// writes stored as deltas and Rc the mean delta size as a share of the page. This formula counts bytes, but flash
/// pages hold whole deltas. The engine programs `1 - Pc + Pc p` pages, with p pages per delta, which is well above the
/// formula.
#[test]
fn delta_writes_cost_more_pages_than_the_byte_formula_of_the_delta_ftl_paper() {
    for ratio in [0.50, 0.35, 0.20] {
        let sizes = delta_size_probabilities(ratio);
        let packed = pages_per_delta(&sizes);
        let mean_share: f64 =
            sizes.iter().enumerate().map(|(bytes, share)| share * bytes as f64).sum::<f64>()
                / FLASH_PAGE_BYTES as f64;
        let (measured, error) = measure_mean_pages_per_delta_and_error(ratio);
        for delta_share in [0.2, 0.5, 0.8] {
            let per_write = |pages: f64| 1.0 - delta_share + delta_share * pages;
            let [ours, form, papers] = [measured, packed, mean_share].map(per_write);
            assert!((ours - form).abs() < 4.0 * error * delta_share);
            assert!(ours - papers > 100.0 * (ours - form).abs().max(1e-5), "Rc {ratio}: {ours}, {papers}");
        }
    }
}

/// The largest delta fills a flash page of its own. If a delta is one byte larger, the whole page is stored instead.
#[test]
fn a_delta_larger_than_a_page_is_stored_as_a_full_page() {
    let mut drive = new_drive();
    drive.write_descriptor(0, page_descriptor(1, None));
    for (number, bytes, delta_writes) in [(2, LARGEST_DELTA_BYTES + 1, 0), (3, LARGEST_DELTA_BYTES, 1)] {
        drive.write_descriptor(0, page_descriptor(number, Some(bytes)));
        assert_eq!(drive.stats().delta_writes, delta_writes, "{bytes} bytes");
    }
}
