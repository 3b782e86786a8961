//! Sets of pages as bit masks over 64 neighbours.
//!
//! Traces touch neighbours, so a mask per 64 pages is far smaller than a list of pages, and whole requests are handled
//! a mask at a time.

use std::ops::Range;

/// Pages per chunk.
pub(crate) const CHUNK_PAGES: u64 = 64;

/// A chunk of one device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ChunkId {
    pub device: u32,
    pub number: u64,
}

/// The numbers of the chunks that `pages` overlap.
#[inline]
pub(crate) fn numbers(pages: &Range<u64>) -> Range<u64> {
    if pages.is_empty() {
        return 0..0;
    }
    pages.start / CHUNK_PAGES..pages.end.div_ceil(CHUNK_PAGES)
}

/// The pages of one chunk that lie in `pages`, as bits.
#[inline]
pub(crate) fn mask(number: u64, pages: &Range<u64>) -> u64 {
    let first = number * CHUNK_PAGES;
    let start = pages.start.clamp(first, first + CHUNK_PAGES) - first;
    let end = pages.end.clamp(first, first + CHUNK_PAGES) - first;
    below(end) & !below(start)
}

/// The lowest `count` bits.
#[inline]
pub(crate) fn below(count: u64) -> u64 {
    if count >= CHUNK_PAGES { u64::MAX } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_cover_a_range_once() {
        for pages in &[0..0, 3..3, 0..64, 5..7, 63..65, 60..200, 128..192] {
            let bits =
                |n| (0..64).filter(move |bit| mask(n, pages) >> bit & 1 == 1).map(move |bit| n * 64 + bit);
            let listed: Vec<u64> = numbers(pages).flat_map(bits).collect();
            assert_eq!(listed, pages.clone().collect::<Vec<_>>());
        }
    }
}
