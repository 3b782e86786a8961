//! A set of physical pages: one bit each.
//!
//! For every page that GC copies, the engine needs to know whether it is valid, dead, or an entry of some table. One
//! bit answers that, and bits fit the processor's cache where the tables do not. Operations on a whole block work word
//! by word.

use crate::address::Ppn;
use crate::tables::DenseTable;
use crate::tables::prefetch::load_into_cpu_cache;

/// Set of physical flash pages, as a bitmap with one bit per page of the device.
#[derive(Clone, Debug)]
pub(crate) struct PageSet {
    /// Bitmap of the set, in words of 64 bits; the bit of each page is at the position of its PPN.
    words: DenseTable<u64>,
}

/// A 64-bit word of the bitmap of a page set, by index, and a mask of its bits that are in a range of pages.
#[derive(Clone, Copy)]
struct MaskedWord {
    /// Index of the word in the bitmap.
    word_index: usize,
    /// Mask of those bits of the word whose pages are in the range.
    mask: u64,
}

/// Returns the bitmap words with bits of the `count` pages from `first` on, each with a mask of these bits.
fn masked_words(first: Ppn, count: u32) -> impl Iterator<Item = MaskedWord> {
    let (start, end) = (first.0 as u64, first.0 as u64 + count as u64);
    let words = if count == 0 { 0..0 } else { start / 64..end.div_ceil(64) };
    words.map(move |word| {
        let (from, to) = (start.max(word * 64) - word * 64, end.min(word * 64 + 64) - word * 64);
        let below_to = if to == 64 { u64::MAX } else { (1 << to) - 1 };
        MaskedWord { word_index: word as usize, mask: below_to & !((1 << from) - 1) }
    })
}

/// Calls `found` in order for the pages whose bits are set in `word`, the 64-bit word at index `word_number` of a page
/// set's bitmap.
#[inline]
fn for_each_page(word_number: usize, mut word: u64, mut found: impl FnMut(Ppn)) {
    while word != 0 {
        found(Ppn(word_number as u32 * 64 + word.trailing_zeros()));
        word &= word - 1;
    }
}

impl PageSet {
    /// Creates an empty set of flash pages for a device of `physical_pages` pages. Memory: one bit per page.
    pub(crate) fn new(physical_pages: u64) -> Self {
        Self { words: DenseTable::zeroed(physical_pages.div_ceil(64) as usize) }
    }

    /// Creates an empty set of flash pages for as many pages as this set covers.
    pub(crate) fn empty_of_same_size(&self) -> Self {
        Self { words: DenseTable::zeroed(self.words.len()) }
    }

    /// Returns whether the flash page is in the set.
    #[inline]
    pub(crate) fn contains(&self, ppn: Ppn) -> bool {
        self.words.get(ppn.index() / 64) >> (ppn.0 % 64) & 1 == 1
    }

    /// Prefetches the bits of `pages` in the set's bitmap, so that the cache misses of later accesses overlap.
    #[inline]
    pub(crate) fn prefetch(&self, pages: impl Iterator<Item = Ppn>) {
        load_into_cpu_cache(self.words.get_each(pages.map(|ppn| ppn.index() / 64)));
    }

    /// Inserts a flash page into the set, which may have it already.
    #[inline]
    pub(crate) fn insert(&mut self, ppn: Ppn) {
        self.insert_if_absent(ppn);
    }

    /// Inserts a flash page into the set; returns `true` if the page was not in the set before.
    #[inline]
    pub(crate) fn insert_if_absent(&mut self, ppn: Ppn) -> bool {
        let (at, bit) = (ppn.index() / 64, 1 << (ppn.0 % 64));
        let word = self.words.get(at);
        self.words.set(at, word | bit);
        word & bit == 0
    }

    /// Removes a flash page from the set; returns `true` if the page was in the set.
    #[inline]
    pub(crate) fn remove(&mut self, ppn: Ppn) -> bool {
        let (at, bit) = (ppn.index() / 64, 1 << (ppn.0 % 64));
        let word = self.words.get(at);
        self.words.set(at, word & !bit);
        word & bit != 0
    }

    /// Inserts `count` flash pages from `first` on into the set. O(count / 64).
    pub(crate) fn insert_range(&mut self, first: Ppn, count: u32) {
        masked_words(first, count)
            .for_each(|part| self.words.set(part.word_index, self.words.get(part.word_index) | part.mask));
    }

    /// Removes `count` flash pages from `first` on from the set. O(count / 64).
    pub(crate) fn remove_range(&mut self, first: Ppn, count: u32) {
        masked_words(first, count)
            .for_each(|part| self.words.set(part.word_index, self.words.get(part.word_index) & !part.mask));
    }

    /// Whether none of the `count` flash pages from `first` on is in the set. O(count / 64).
    pub(crate) fn is_disjoint(&self, first: Ppn, count: u32) -> bool {
        masked_words(first, count).all(|part| self.words.get(part.word_index) & part.mask == 0)
    }

    /// Appends to `out` those of the `count` flash pages from `first` on that are in the set, in order. O(count / 64 +
    /// found).
    pub(crate) fn append_pages_in_range(&self, first: Ppn, count: u32, out: &mut Vec<Ppn>) {
        for part in masked_words(first, count) {
            for_each_page(part.word_index, self.words.get(part.word_index) & part.mask, |ppn| out.push(ppn));
        }
    }

    /// Calls `leaves` for those of the `count` flash pages from `first` on that are in the set, in order, and removes
    /// each page for which `leaves` returns true. O(count / 64 + calls).
    pub(crate) fn remove_if(&mut self, first: Ppn, count: u32, mut leaves: impl FnMut(Ppn) -> bool) {
        for part in masked_words(first, count) {
            let mut word = self.words.get(part.word_index);
            for_each_page(part.word_index, word & part.mask, |ppn| {
                word &= !(u64::from(leaves(ppn)) << (ppn.0 % 64));
            });
            self.words.set(part.word_index, word);
        }
    }

    /// Returns the number of flash pages in the set. Counts all bits of the set: O(pages of the device / 64).
    pub(crate) fn len(&self) -> u64 {
        (0..self.words.len()).map(|at| self.words.get(at).count_ones() as u64).sum()
    }

    /// Copies the bitmap of the page set into `page`, from byte `byte_offset` of the bitmap on, with zeros beyond the
    /// end of the bitmap. `byte_offset` and the length of `page` are multiples of 8 bytes.
    pub(crate) fn copy_bitmap_to(&self, byte_offset: usize, page: &mut [u8]) {
        for (at, bytes) in (byte_offset / 8..).zip(page.chunks_exact_mut(8)) {
            let word = if at < self.words.len() { self.words.get(at) } else { 0 };
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Restores a part of the page set's bitmap, from byte `byte_offset` of the bitmap on, from the bytes that
    /// [`PageSet::copy_bitmap_to`] wrote into `page`.
    pub(crate) fn copy_bitmap_from(&mut self, byte_offset: usize, page: &[u8]) {
        let words =
            page.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
        for (at, word) in (byte_offset / 8..self.words.len()).zip(words) {
            self.words.set(at, word);
        }
    }

    /// Returns the bytes of memory that the bitmap of the page set takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inserting, removing and listing a range of pages of a page set gives the result of the operations page by page.
    #[test]
    fn range_operations_of_a_page_set_equal_single_page_operations() {
        for (first, count) in [(0, 0), (0, 1), (0, 64), (5, 59), (5, 60), (63, 2), (70, 130), (128, 64)] {
            let (mut by_range, mut by_page) = (PageSet::new(256), PageSet::new(256));
            by_range.insert_range(Ppn(first), count);
            (first..first + count).for_each(|ppn| assert!(by_page.insert_if_absent(Ppn(ppn))));
            let mut found = Vec::new();
            by_range.append_pages_in_range(Ppn(0), 256, &mut found);
            assert!(found.iter().copied().eq((first..first + count).map(Ppn)));
            assert_eq!((by_range.len(), by_page.len()), (count as u64, count as u64));
            assert_eq!(by_range.is_disjoint(Ppn(first), count), count == 0);
            let mut asked = Vec::new();
            by_range.remove_if(Ppn(first), count, |ppn| {
                asked.push(ppn);
                ppn.0 % 2 == 0
            });
            assert_eq!(asked, found);
            assert!((0..256).all(|page| by_range.contains(Ppn(page)) == (page % 2 == 1 && found.contains(&Ppn(page)))));
            by_page.remove_range(Ppn(first), count);
            assert!(by_page.is_disjoint(Ppn(0), 256), "{count} pages from {first}");
        }
    }
}
