//! Page-level validity of data: which pages of a victim does GC have to move?
//!
//! One bit per physical page in RAM. Valid *counts* live in the block table; pages of metadata answer for
//! themselves (their owner knows where each of them is). Flash-resident validity stores join this seam later.

use crate::address::Ppn;
use crate::page_set::PageSet;

/// One bit per physical page: 1 = holds data that is needed.
#[derive(Clone, Debug)]
pub struct RamBitmap {
    valid: PageSet,
}

impl RamBitmap {
    /// All pages invalid.
    pub fn new(pages: u64) -> Self {
        Self { valid: PageSet::new(pages) }
    }

    /// The page holds valid data from now on. O(1).
    #[inline]
    pub fn set(&mut self, ppn: Ppn) {
        self.valid.insert(ppn);
    }

    /// The page's data is not needed any more. O(1), one random access.
    #[inline]
    pub fn clear(&mut self, ppn: Ppn) {
        assert!(self.valid.remove(ppn), "page {ppn} is invalidated twice");
    }

    /// `count` pages from `first` on hold valid data. O(count / 64).
    pub fn set_range(&mut self, first: Ppn, count: u32) {
        self.valid.insert_range(first, count);
    }

    /// `count` pages from `first` on hold nothing that is needed. O(count / 64).
    pub fn clear_range(&mut self, first: Ppn, count: u32) {
        self.valid.remove_range(first, count);
    }

    /// Whether the page holds valid data.
    #[inline]
    pub fn is_valid(&self, ppn: Ppn) -> bool {
        self.valid.contains(ppn)
    }

    /// Appends the valid pages of `first .. first + count` to `out`, in order. O(count / 64 + found).
    pub fn collect_valid(&self, first: Ppn, count: u32, out: &mut Vec<Ppn>) {
        self.valid.collect(first, count, out);
    }

    /// Number of valid pages in `first .. first + count`.
    pub fn count_valid(&self, first: Ppn, count: u32) -> u32 {
        (first.0..first.0 + count).filter(|&ppn| self.is_valid(Ppn(ppn))).count() as u32
    }

    /// Bytes a controller holds.
    pub fn ram_bytes(&self) -> u64 {
        self.valid.bytes()
    }
}
