//! A set of physical pages: one bit each.
//!
//! Most pages are in no hash table of this part. One bit, which stays in the processor's cache where the tables do
//! not, answers that without a probe.

use crate::address::Ppn;

/// One bit per physical page.
#[derive(Clone, Debug)]
pub(super) struct PageSet {
    words: Vec<u64>,
}

impl PageSet {
    /// No page. Memory: `physical_pages / 8` bytes.
    pub(super) fn new(physical_pages: usize) -> Self {
        Self { words: vec![0; physical_pages.div_ceil(64)] }
    }

    #[inline]
    pub(super) fn contains(&self, ppn: Ppn) -> bool {
        self.words[ppn.index() / 64] >> (ppn.0 % 64) & 1 == 1
    }

    #[inline]
    pub(super) fn insert(&mut self, ppn: Ppn) {
        self.words[ppn.index() / 64] |= 1 << (ppn.0 % 64);
    }

    #[inline]
    pub(super) fn remove(&mut self, ppn: Ppn) {
        self.words[ppn.index() / 64] &= !(1 << (ppn.0 % 64));
    }

    pub(super) fn len(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }
}
