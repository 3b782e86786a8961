//! What a host write costs as a delta where a compressed chunk could store it, too: programs, and copies of garbage
//! collection.
//!
//! A delta takes less of a flash page than a chunk does, but its base is a whole flash page. The base is programmed,
//! stays valid as long as the page is in delta form, and is programmed again when it is merged with its delta. Counted
//! by their size alone, deltas would fill the drive with bases until garbage collection copies more than deltas save.
//! So the cost has three terms:
//!
//! - The delta's part of a flash page of deltas (measured by the caller).
//! - Programs of whole pages: the base, if the page is in a chunk yet, and the merge. They are divided among the deltas
//!   of the page: as many as its recent writes, because a page that was written often is expected to be written as
//!   often again.
//! - Copies that the space causes. The estimate is that of uniform random writes: if a share `u` of the flash is valid,
//!   victims of garbage collection have a valid share `v` with `u = (v - 1) / ln v` (the replay crate checks it as the
//!   law of FIFO collection), and each other program causes `v / (1 - v)` copies. `v` is measured, so valid pages need
//!   not be counted; the slope of the copies over `u` is what one more valid page costs. The price of the simplicity:
//!   hot pages cost less than that, because their blocks are collected when they hold little.
//!
//! Nothing can be measured of deltas that are not made. So one logical page in 64 is on trial: its writes may become
//! deltas whatever they cost. The pages on trial change when about as many pages were written as the drive has.

use super::heat::AccessCounts;
use crate::address::Lpn;
use crate::data::mix_bits;
use crate::operation::Cause;
use crate::stats::Stats;

/// Largest valid share of victims for which copies are estimated: beyond, the estimate grows without bound.
const MAX_VICTIM_VALID_SHARE: f64 = 0.95;
/// Number of intervals between two measurements in which about as many pages are written as the drive has, and after
/// which other pages are on trial.
const INTERVALS_PER_TRIAL: u32 = 16;
/// One logical page in this many is on trial.
const PAGES_PER_PAGE_ON_TRIAL: u64 = 64;

/// Counters of the drive from which the costs are measured.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    /// Programs of all causes.
    programs: u64,
    /// Programs of garbage collection.
    copies: u64,
    /// Host writes that became deltas.
    delta_writes: u64,
}

/// What a logical page takes of flash pages in delta form, and what it would take in a compressed chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlashPageShares {
    /// Share of a flash page that the base of the delta takes: 1, or less for a base in a chunk.
    pub base: f64,
    /// Share of a flash page that a delta takes on average.
    pub delta: f64,
    /// Share of a flash page that a page takes in a chunk on average.
    pub chunk: f64,
}

/// Cost of deltas of a drive that also compresses, measured again at intervals of host writes.
#[derive(Clone, Debug)]
pub(super) struct DeltaCost {
    /// Number of flash pages of the drive.
    flash_pages: u64,
    /// Number of host page writes from one measurement to the next.
    interval_writes: u32,
    /// Number of host page writes until the costs of deltas and of chunk members are measured again.
    writes_until_measurement: u32,
    /// Number of measurements made.
    measurements: u32,
    /// Counters of the drive at the last measurement.
    counters_at_measurement: Counters,
    /// Copies of garbage collection that one more valid flash page causes while a page stays in delta form; 0 before
    /// the first measurement.
    copies_per_held_page: f64,
}

impl DeltaCost {
    /// Creates the estimate for a drive with this number of flash pages; space costs nothing until it is measured.
    pub(super) fn new(flash_pages: u64) -> Self {
        let interval_writes = (flash_pages / u64::from(INTERVALS_PER_TRIAL)).max(1024) as u32;
        Self {
            flash_pages,
            interval_writes,
            writes_until_measurement: interval_writes,
            measurements: 0,
            counters_at_measurement: Counters::default(),
            copies_per_held_page: 0.0,
        }
    }

    /// Returns the programs that a write costs as a delta, less the copies of garbage collection that a chunk would
    /// cause. `whole_pages` are programmed while a page with the access counts `heat` is in delta form.
    pub(super) fn programs_per_delta(
        &self,
        heat: AccessCounts,
        whole_pages: u32,
        shares: FlashPageShares,
    ) -> f64 {
        let FlashPageShares { base, delta, chunk } = shares;
        let copies = (base + delta - chunk) * self.copies_per_held_page;
        delta + f64::from(whole_pages) / f64::from(heat.writes.max(1)) + copies
    }

    /// Returns whether writes of `lpn` may become deltas as a trial, whatever deltas cost.
    pub(super) fn is_on_trial(&self, lpn: Lpn) -> bool {
        let trial = u64::from(self.measurements / INTERVALS_PER_TRIAL);
        mix_bits(u64::from(lpn.0) << 32 | trial).is_multiple_of(PAGES_PER_PAGE_ON_TRIAL)
    }

    /// Counts a host page write. Returns whether enough pages were written since the last measurement that the caller
    /// must measure the costs of deltas and chunks again ([`Self::measure`]).
    pub(super) fn count_write_and_check_if_due(&mut self) -> bool {
        self.writes_until_measurement = self.writes_until_measurement.saturating_sub(1);
        self.writes_until_measurement == 0
    }

    /// Measures the costs from the counters of the drive, of which `pages_in_delta_form` logical pages have a delta.
    pub(super) fn measure(&mut self, stats: &Stats, pages_in_delta_form: u64) {
        let now = Counters {
            programs: stats.total_programs(),
            copies: stats.programs[Cause::Gc as usize],
            delta_writes: stats.delta_writes,
        };
        let before = self.counters_at_measurement;
        // Counters are cleared where the measured part of a run begins.
        let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now) as f64;
        let programs = since(now.programs, before.programs);
        let copies = since(now.copies, before.copies).min(programs);
        let deltas = since(now.delta_writes, before.delta_writes);
        // By Little's law, a page stays in delta form for this many intervals.
        let intervals_in_delta_form = pages_in_delta_form.max(1) as f64 / deltas.max(1.0);
        let programs_meanwhile = (programs - copies) * intervals_in_delta_form;
        let victim_valid_share = if programs > 0.0 { copies / programs } else { 0.0 };
        self.copies_per_held_page =
            programs_meanwhile / self.flash_pages as f64 * copies_per_valid_share(victim_valid_share);
        self.counters_at_measurement = now;
        self.writes_until_measurement = self.interval_writes;
        self.measurements = self.measurements.wrapping_add(1);
    }
}

/// Returns by how much the copies per other program grow with the valid share of the flash, if victims of garbage
/// collection have the valid share `v`: the derivative of `v / (1 - v)` with respect to `u = (v - 1) / ln v`.
fn copies_per_valid_share(v: f64) -> f64 {
    if v <= 0.0 {
        return 0.0;
    }
    let v = v.min(MAX_VICTIM_VALID_SHARE);
    let log = v.ln();
    log * log / ((1.0 - v) * (1.0 - v) * (log - 1.0 + v.recip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_valid_page_is_the_slope_of_the_law_of_uniform_writes() {
        let valid_share = |v: f64| (v - 1.0) / v.ln();
        let copies = |v: f64| v / (1.0 - v);
        for v in [0.01, 0.1, 0.3, 0.5, 0.7, 0.9] {
            let step = 1e-6;
            let slope =
                (copies(v + step) - copies(v - step)) / (valid_share(v + step) - valid_share(v - step));
            assert!((copies_per_valid_share(v) / slope - 1.0).abs() < 1e-3, "{v}: {slope}");
        }
        assert!(copies_per_valid_share(0.0) < f64::MIN_POSITIVE);
    }

    /// A drive of 1,000 pages that programs 100 pages for the host and 100 copies in an interval in which each of its
    /// 50 pages in delta form is written once.
    #[test]
    fn a_delta_is_charged_its_page_its_base_and_its_space() {
        let mut cost = DeltaCost::new(1000);
        let mut stats = Stats { delta_writes: 50, ..Stats::default() };
        (stats.programs[Cause::Host as usize], stats.programs[Cause::Gc as usize]) = (100, 100);
        cost.measure(&stats, 50);
        let copies = 0.1 * copies_per_valid_share(0.5);
        let heat = AccessCounts { reads: 0, writes: 8 };
        let shares = FlashPageShares { base: 1.0, delta: 0.25, chunk: 0.5 };
        let programs = cost.programs_per_delta(heat, 2, shares);
        assert!((programs - (0.25 + 2.0 / 8.0 + 0.75 * copies)).abs() < 1e-12);
        cost.measure(&stats, 50);
        assert!(cost.copies_per_held_page < f64::MIN_POSITIVE, "nothing was programmed since");
    }

    #[test]
    fn one_page_in_64_is_on_trial_and_others_later() {
        let mut cost = DeltaCost::new(1000);
        let on_trial =
            |cost: &DeltaCost| (0..64_000).map(Lpn).filter(|&lpn| cost.is_on_trial(lpn)).collect::<Vec<_>>();
        let first = on_trial(&cost);
        assert!(first.len().abs_diff(1000) < 150, "{}", first.len());
        for _ in 0..INTERVALS_PER_TRIAL - 1 {
            cost.measure(&Stats::default(), 0);
        }
        assert_eq!(on_trial(&cost), first);
        cost.measure(&Stats::default(), 0);
        assert_ne!(on_trial(&cost), first);
    }
}
