//! Page-level validity of data: which pages of a victim does GC have to move?
//!
//! One bit per physical page in RAM. Valid *counts* live in the block table; pages of metadata answer for
//! themselves (their owner knows where each of them is). Flash-resident validity stores join this seam later.

use crate::address::Ppn;
use crate::table::Table;

/// One bit per physical page: 1 = holds data that is needed.
#[derive(Clone, Debug)]
pub struct RamBitmap {
    words: Table<u64>,
}

impl RamBitmap {
    /// All pages invalid.
    pub fn new(pages: u64) -> Self {
        Self { words: Table::zeroed(pages.div_ceil(64) as usize) }
    }

    /// The page holds valid data from now on. O(1).
    #[inline]
    pub fn set(&mut self, ppn: Ppn) {
        let at = ppn.index() / 64;
        self.words.set(at, self.words.get(at) | 1 << (ppn.0 % 64));
    }

    /// The page's data is not needed any more. O(1), one random access.
    #[inline]
    pub fn clear(&mut self, ppn: Ppn) {
        let (at, bit) = (ppn.index() / 64, 1 << (ppn.0 % 64));
        let word = self.words.get(at);
        assert!(word & bit != 0, "page {ppn} is invalidated twice");
        self.words.set(at, word & !bit);
    }

    /// `count` pages from `first` on hold valid data. O(count / 64).
    pub fn set_range(&mut self, first: Ppn, count: u32) {
        self.change_range(first, count, |word, mask| word | mask);
    }

    /// `count` pages from `first` on hold nothing that is needed. O(count / 64).
    pub fn clear_range(&mut self, first: Ppn, count: u32) {
        self.change_range(first, count, |word, mask| word & !mask);
    }

    fn change_range(&mut self, first: Ppn, count: u32, change: impl Fn(u64, u64) -> u64) {
        let mut page = first.0 as u64;
        let end = page + count as u64;
        while page < end {
            let shift = page % 64;
            let span = (64 - shift).min(end - page);
            let mask = if span == 64 { u64::MAX } else { ((1 << span) - 1) << shift };
            let at = (page / 64) as usize;
            self.words.set(at, change(self.words.get(at), mask));
            page += span;
        }
    }

    /// Whether the page holds valid data.
    #[inline]
    pub fn is_valid(&self, ppn: Ppn) -> bool {
        self.words.get(ppn.index() / 64) >> (ppn.0 % 64) & 1 == 1
    }

    /// Appends the valid pages of `first .. first + count` to `out`, in order. O(count / 64 + found).
    pub fn collect_valid(&self, first: Ppn, count: u32, out: &mut Vec<Ppn>) {
        let mut page = first.0 as u64;
        let end = page + count as u64;
        while page < end {
            let shift = page % 64;
            let span = (64 - shift).min(end - page);
            let mut word = self.words.get((page / 64) as usize) >> shift;
            if span < 64 {
                word &= (1 << span) - 1;
            }
            while word != 0 {
                out.push(Ppn((page + word.trailing_zeros() as u64) as u32));
                word &= word - 1;
            }
            page += span;
        }
    }

    /// Number of valid pages in `first .. first + count`.
    pub fn count_valid(&self, first: Ppn, count: u32) -> u32 {
        (first.0..first.0 + count).filter(|&ppn| self.is_valid(Ppn(ppn))).count() as u32
    }

    /// Bytes a controller holds.
    pub fn ram_bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }
}
