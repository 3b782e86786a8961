//! The accessing table (AT): how often each physical page was read while it was valid.
//!
//! Popularity needs no more than 4 bits, because counts of 15 and more are one class. The paper describes sorted
//! (location, times) pairs. As every location has a counter, a dense array suffices, in which two counters share a
//! byte: 0.5 B per page instead of 5 B. The price is a shift and a mask per access.
//!
//! One more bit for each cache line of counters tells whether all of them are certainly 0. So the counters are hardly
//! accessed if little is read.
//!
//! A drive that records older versions only of the pages in its fingerprint store also counts reads of few pages only:
//! the most recently read ones ([`RecentReadCounters`]).
//!
//! Invariants: a counter saturates at 15; only valid pages are counted; an erase resets to 0. Source: LX-SSD (Zhou et
//! al.), section IV-B.2.

use crate::address::{OptionalAddress, Ppn};
use crate::divide::Divider;
use crate::tables::PageSet;

/// Largest read count of a physical page: 15 means "15 or more". The paper calls pages with this count over-accessed.
pub const MAX_READ_COUNT: u8 = 15;

/// Number of physical pages whose read counters share a cache line.
const PAGES_PER_COUNTER_LINE: u32 = 128;

/// Read counters of physical pages, each from 0 to [`MAX_READ_COUNT`]: of all pages, or of the pages read last.
#[derive(Clone, Debug)]
pub(super) enum ReadCounts {
    /// Reads of every physical page are counted.
    AllPages(DenseReadCounters),
    /// Only reads of the physical pages that were read last are counted.
    RecentPages(RecentReadCounters),
}

impl ReadCounts {
    /// Creates read counters of all `physical_pages` pages, all 0. Memory: `physical_pages / 2` bytes.
    pub(super) fn with_counter_per_page(physical_pages: usize) -> Self {
        Self::AllPages(DenseReadCounters::new(physical_pages))
    }

    /// Creates read counters for the pages read last, in a table of `places` counters. A counter takes 8 bytes of
    /// memory here, and 5 in a real drive.
    pub(super) fn for_recent_pages(places: usize) -> Self {
        Self::RecentPages(RecentReadCounters::new(places.max(1)))
    }

    /// Resets all read counts to 0.
    pub(super) fn clear(&mut self) {
        match self {
            Self::AllPages(counters) => *counters = DenseReadCounters::new(2 * counters.counter_pairs.len()),
            Self::RecentPages(counters) => counters.counted_pages.fill(RecentReadCounters::NO_PAGE),
        }
    }

    /// Returns the number of reads counted for the physical page `ppn`, 0 to [`MAX_READ_COUNT`].
    #[inline]
    pub(super) fn read_count(&self, ppn: Ppn) -> u8 {
        match self {
            Self::AllPages(counters) => counters.read_count(ppn),
            Self::RecentPages(counters) => counters.read_count(ppn),
        }
    }

    /// Counts one more read of the physical page `ppn`, up to [`MAX_READ_COUNT`].
    #[inline]
    pub(super) fn count_read(&mut self, ppn: Ppn) {
        match self {
            Self::AllPages(counters) => counters.count_read(ppn),
            Self::RecentPages(counters) => {
                counters.set_read_count(ppn, (counters.read_count(ppn) + 1).min(MAX_READ_COUNT));
            }
        }
    }

    /// Resets the read counts of the `count` physical pages from `first` on to 0. O(count) if one of them may have been
    /// read.
    pub(super) fn reset_range(&mut self, first: Ppn, count: u32) {
        match self {
            Self::AllPages(counters) => counters.reset_range(first, count),
            Self::RecentPages(counters) => counters.reset_range(first, count),
        }
    }

    /// Returns whether no read of the `count` physical pages from `first` on is counted. May return `false` although
    /// none of them was read.
    pub(super) fn are_counts_surely_zero(&self, first: Ppn, count: u32) -> bool {
        match self {
            Self::AllPages(counters) => counters.are_counts_surely_zero(first, count),
            Self::RecentPages(counters) => counters.are_counts_surely_zero(first, count),
        }
    }

    /// Moves the read count of the physical page `from` to its copy `to`, and resets that of `from`.
    pub(super) fn move_read_count(&mut self, from: Ppn, to: Ppn) {
        match self {
            Self::AllPages(counters) => counters.move_read_count(from, to),
            Self::RecentPages(counters) => {
                let count = counters.read_count(from);
                counters.reset_count(from);
                counters.reset_count(to);
                if count > 0 {
                    counters.set_read_count(to, count);
                }
            }
        }
    }

    /// Returns the bytes of RAM that the controller of a real drive needs for the read counters.
    pub(super) fn ram_bytes(&self) -> u64 {
        match self {
            Self::AllPages(counters) => counters.counter_pairs.len() as u64,
            // A page number and a count.
            Self::RecentPages(counters) => 5 * counters.counted_pages.len() as u64,
        }
    }
}

/// Read counts of the physical pages read last: a table indexed by page number modulo the table's length. Each element
/// counts the reads of one page. When another page with the same index is read, it takes over the element, and its
/// count begins anew. Pages with neighbouring numbers have different elements.
#[derive(Clone, Debug)]
pub(super) struct RecentReadCounters {
    /// For each counter: the physical page whose reads it counts, and the number of reads.
    counted_pages: Vec<(Ppn, u8)>,
    /// Divider by the number of counters; its remainder is the index of a page's counter.
    counter_count_divider: Divider,
}

impl RecentReadCounters {
    /// Value of a counter that counts the reads of no page.
    const NO_PAGE: (Ppn, u8) = (Ppn::NONE, 0);

    /// Creates `places` counters, which count the reads of no page yet.
    fn new(places: usize) -> Self {
        Self {
            counted_pages: vec![Self::NO_PAGE; places],
            counter_count_divider: Divider::new(places as u32),
        }
    }

    /// Returns the index of the counter that may count the reads of the physical page `ppn`.
    #[inline]
    fn counter_index_of(&self, ppn: Ppn) -> usize {
        self.counter_count_divider.remainder(ppn.0) as usize
    }

    /// Returns the indices of the counters of the `count` physical pages from `first` on, with the pages.
    fn indices_of_range(&self, first: Ppn, count: u32) -> impl Iterator<Item = (usize, Ppn)> + use<> {
        let indices = (0..self.counted_pages.len()).cycle().skip(self.counter_index_of(first));
        indices.zip((first.0..first.0 + count).map(Ppn))
    }

    /// Resets the read counts of the `count` physical pages from `first` on to 0.
    fn reset_range(&mut self, first: Ppn, count: u32) {
        for (place, ppn) in self.indices_of_range(first, count) {
            self.vacate_counter_of(place, ppn);
        }
    }

    /// Returns whether no read of the `count` physical pages from `first` on is counted.
    fn are_counts_surely_zero(&self, first: Ppn, count: u32) -> bool {
        self.indices_of_range(first, count)
            .all(|(place, ppn)| self.counted_pages[place].0 != ppn || self.counted_pages[place].1 == 0)
    }

    /// Returns the number of reads counted for the physical page `ppn`; 0 if its counter counts another page.
    #[inline]
    fn read_count(&self, ppn: Ppn) -> u8 {
        let (page, count) = self.counted_pages[self.counter_index_of(ppn)];
        if page == ppn { count } else { 0 }
    }

    /// Sets the read count of the physical page `ppn`, whose counter may have counted another page before.
    #[inline]
    fn set_read_count(&mut self, ppn: Ppn, count: u8) {
        let place = self.counter_index_of(ppn);
        self.counted_pages[place] = (ppn, count);
    }

    /// Resets the read count of the physical page `ppn` to 0.
    #[inline]
    fn reset_count(&mut self, ppn: Ppn) {
        self.vacate_counter_of(self.counter_index_of(ppn), ppn);
    }

    /// Makes the counter with index `place` free, if it counts reads of `ppn` and not of another page.
    #[inline]
    fn vacate_counter_of(&mut self, place: usize, ppn: Ppn) {
        if self.counted_pages[place].0 == ppn {
            self.counted_pages[place] = Self::NO_PAGE;
        }
    }
}

/// Number of reads of each physical page: a dense array of 4-bit saturating counters.
#[derive(Clone, Debug)]
pub(super) struct DenseReadCounters {
    /// Read counters, two of 4 bits per byte.
    counter_pairs: Vec<u8>,
    /// Numbers of the cache lines of read counters that may contain a counter that is not 0.
    counter_cache_lines_with_reads: PageSet,
}

impl DenseReadCounters {
    /// Creates the read counters of `physical_pages` pages, all 0. Memory: `physical_pages / 2` bytes.
    fn new(physical_pages: usize) -> Self {
        let lines = physical_pages.div_ceil(PAGES_PER_COUNTER_LINE as usize);
        Self {
            counter_pairs: vec![0; physical_pages.div_ceil(2)],
            counter_cache_lines_with_reads: PageSet::new(lines as u64),
        }
    }

    /// Returns the number of reads counted for the physical page `ppn`, 0 to [`MAX_READ_COUNT`].
    #[inline]
    fn read_count(&self, ppn: Ppn) -> u8 {
        if !self.counter_cache_lines_with_reads.contains(counter_cache_line_number(ppn)) {
            return 0;
        }
        self.counter_pairs[ppn.index() / 2] >> counter_shift_bits(ppn) & 0xf
    }

    /// Counts one more read of the physical page `ppn`, up to [`MAX_READ_COUNT`].
    #[inline]
    fn count_read(&mut self, ppn: Ppn) {
        if self.read_count(ppn) < MAX_READ_COUNT {
            self.counter_pairs[ppn.index() / 2] += 1 << counter_shift_bits(ppn);
            self.counter_cache_lines_with_reads.insert(counter_cache_line_number(ppn));
        }
    }

    /// Resets the read count of the physical page `ppn` to 0.
    #[inline]
    fn reset_count(&mut self, ppn: Ppn) {
        self.counter_pairs[ppn.index() / 2] &= !(0xf << counter_shift_bits(ppn));
    }

    /// Resets the read counts of the `count` physical pages from `first` on to 0. O(count / 2) if one of them may have
    /// been read.
    fn reset_range(&mut self, first: Ppn, count: u32) {
        if self.are_counts_surely_zero(first, count) {
            return;
        }
        let end = first.0 + count;
        let (even, odd) = (first.0.next_multiple_of(2), end - end % 2);
        (first.0..even.min(end)).chain(odd.max(even)..end).for_each(|ppn| self.reset_count(Ppn(ppn)));
        if even < odd {
            self.counter_pairs[even as usize / 2..odd as usize / 2].fill(0);
        }
        let (whole, end) = (first.0.div_ceil(PAGES_PER_COUNTER_LINE), end / PAGES_PER_COUNTER_LINE);
        self.counter_cache_lines_with_reads.remove_range(Ppn(whole), end.saturating_sub(whole));
    }

    /// Returns whether no read of the `count` physical pages from `first` on is counted. May return `false` although
    /// none of them was read, because pages whose counters share these cache lines were read. O(count / 8192).
    fn are_counts_surely_zero(&self, first: Ppn, count: u32) -> bool {
        let lines = first.0 / PAGES_PER_COUNTER_LINE..(first.0 + count).div_ceil(PAGES_PER_COUNTER_LINE);
        self.counter_cache_lines_with_reads.is_disjoint(Ppn(lines.start), lines.len() as u32)
    }

    /// Moves the read count of the physical page `from` to its copy `to`, and resets that of `from`.
    fn move_read_count(&mut self, from: Ppn, to: Ppn) {
        let count = self.read_count(from);
        self.reset_count(from);
        self.reset_count(to);
        if count > 0 {
            self.counter_pairs[to.index() / 2] |= count << counter_shift_bits(to);
            self.counter_cache_lines_with_reads.insert(counter_cache_line_number(to));
        }
    }
}

/// Returns the number of the cache line that holds the read counter of the physical page `ppn`. It has the type of a
/// page number because it is an element of a [`PageSet`].
#[inline]
fn counter_cache_line_number(ppn: Ppn) -> Ppn {
    Ppn(ppn.0 / PAGES_PER_COUNTER_LINE)
}

/// Returns the position of the 4-bit read counter of `ppn` in its byte.
#[inline]
fn counter_shift_bits(ppn: Ppn) -> u32 {
    ppn.0 % 2 * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_read_counters_saturate_without_changing_their_neighbours() {
        let mut accesses = DenseReadCounters::new(3);
        for _ in 0..20 {
            accesses.count_read(Ppn(0));
        }
        accesses.count_read(Ppn(1));
        assert_eq!((0..3).map(|p| accesses.read_count(Ppn(p))).collect::<Vec<_>>(), [15, 1, 0]);
        accesses.reset_count(Ppn(0));
        assert_eq!((0..3).map(|p| accesses.read_count(Ppn(p))).collect::<Vec<_>>(), [0, 1, 0]);
    }

    #[test]
    fn resetting_a_range_of_read_counters_leaves_the_others_unchanged() {
        let few = [(0, 0), (0, 1), (1, 1), (1, 2), (0, 4), (1, 5), (2, 3), (3, 5)];
        let many = [(0, 128), (127, 1), (127, 2), (100, 200), (128, 256), (129, 255), (0, 400)];
        for (first, count) in few.into_iter().chain(many) {
            let mut accesses = DenseReadCounters::new(400);
            (0..400).for_each(|page| accesses.count_read(Ppn(page)));
            accesses.reset_range(Ppn(first), count);
            let inside = first..first + count;
            assert!(
                (0..400).all(|page| (accesses.read_count(Ppn(page)) == 0) == inside.contains(&page)),
                "{count} from {first}"
            );
            assert!(!accesses.are_counts_surely_zero(Ppn(0), 400) || count == 400);
            inside.for_each(|page| accesses.count_read(Ppn(page)));
            assert!(
                (0..400).all(|page| accesses.read_count(Ppn(page)) == 1),
                "{count} from {first}, counted again"
            );
        }
        assert!(DenseReadCounters::new(400).are_counts_surely_zero(Ppn(1), 300));
    }

    #[test]
    fn moving_a_read_count_to_another_page_overwrites_the_count_there() {
        let mut accesses = DenseReadCounters::new(4);
        (0..6).for_each(|_| accesses.count_read(Ppn(2)));
        (0..9).for_each(|_| accesses.count_read(Ppn(3)));
        accesses.move_read_count(Ppn(2), Ppn(3));
        assert_eq!((accesses.read_count(Ppn(2)), accesses.read_count(Ppn(3))), (0, 6));
    }
}
