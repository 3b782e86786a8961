//! Timing of the NVRAM: a single resource that serves one store or scan at a time.

use super::TimingOptions;
use crate::operation::FlashOp;

/// Timing of the single NVRAM: the time from which it is free. Its stores and scans are served in the order in which
/// they become ready.
#[derive(Clone, Debug)]
pub(super) struct NvramTiming {
    /// Time from which the NVRAM is free, nanoseconds.
    free_at_ns: u64,
    /// Time to read one line of the NVRAM, picoseconds.
    line_read_ps: u64,
}

impl NvramTiming {
    /// Creates the timing of an NVRAM that is free from time 0.
    pub(super) fn new(options: &TimingOptions) -> Self {
        Self { free_at_ns: 0, line_read_ps: options.nvram_line_read_ps }
    }

    /// Books a scan of NVRAM that can begin at time `ready_ns`. Returns the time when the scan ends, nanoseconds.
    pub(super) fn book_scan_returning_end_ns(&mut self, scan: &FlashOp, ready_ns: u64) -> u64 {
        self.book_nvram_returning_end_ns(ready_ns, self.scan_ns(scan))
    }

    /// Returns how long a scan of NVRAM takes, nanoseconds.
    pub(super) fn scan_ns(&self, scan: &FlashOp) -> u64 {
        u64::from(scan.copied_page_or_nvram_line_count).saturating_mul(self.line_read_ps) / 1000
    }

    /// Books stores to NVRAM that take `duration_ns` nanoseconds in all, for a request that starts at time `start_ns`.
    /// Returns the time from `start_ns` until the stores end, nanoseconds.
    #[inline]
    pub(super) fn book_nvram_stores_returning_elapsed_ns(&mut self, start_ns: u64, duration_ns: u64) -> u64 {
        if duration_ns == 0 { 0 } else { self.book_nvram_returning_end_ns(start_ns, duration_ns) - start_ns }
    }

    /// Books the NVRAM for `duration_ns` nanoseconds, from `ready_ns` or from the time when it is free, whichever is
    /// later. Returns the end of the booked period.
    fn book_nvram_returning_end_ns(&mut self, ready_ns: u64, duration_ns: u64) -> u64 {
        self.free_at_ns = self.free_at_ns.max(ready_ns) + duration_ns;
        self.free_at_ns
    }
}
