//! Sets of pages as bit masks. A mask covers a page group, which is 64 neighbouring pages.
//!
//! Requests of a trace touch neighbouring pages. Therefore one mask per 64 pages is far smaller than a list of pages,
//! and a request is processed one mask at a time.

use std::ops::Range;

/// Number of neighbouring pages in a group, which share one 64-bit mask.
pub(crate) const PAGES_PER_MASK_GROUP: u64 = 64;

/// Identifies a group of 64 neighbouring pages of one device: `group_number` is the page number divided by
/// [`PAGES_PER_MASK_GROUP`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PageGroup {
    /// Device number of the pages.
    pub device: u32,
    /// Number of the group on its device: that of its first page, divided by [`PAGES_PER_MASK_GROUP`].
    pub group_number: u64,
}

/// Returns the numbers of the groups (64 neighbouring pages each) that overlap the range `pages` of page numbers.
#[inline]
pub(crate) fn page_group_numbers_of_range(pages: &Range<u64>) -> Range<u64> {
    if pages.is_empty() {
        return 0..0;
    }
    pages.start / PAGES_PER_MASK_GROUP..pages.end.div_ceil(PAGES_PER_MASK_GROUP)
}

/// Returns a bit mask of those pages in group `number` (64 neighbouring pages) that are in the range `pages` of page
/// numbers.
#[inline]
pub(crate) fn page_mask_in_group(number: u64, pages: &Range<u64>) -> u64 {
    let first = number * PAGES_PER_MASK_GROUP;
    let start = pages.start.clamp(first, first + PAGES_PER_MASK_GROUP) - first;
    let end = pages.end.clamp(first, first + PAGES_PER_MASK_GROUP) - first;
    mask_of_low_bits(end) & !mask_of_low_bits(start)
}

/// Returns a bit mask in which the lowest `count` bits are set.
#[inline]
pub(crate) fn mask_of_low_bits(count: u64) -> u64 {
    if count >= PAGES_PER_MASK_GROUP { u64::MAX } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_masks_of_all_groups_of_64_cover_each_page_of_a_range_once() {
        for pages in &[0..0, 3..3, 0..64, 5..7, 63..65, 60..200, 128..192] {
            let bits = |n| {
                (0..64)
                    .filter(move |bit| page_mask_in_group(n, pages) >> bit & 1 == 1)
                    .map(move |bit| n * 64 + bit)
            };
            let listed: Vec<u64> = page_group_numbers_of_range(pages).flat_map(bits).collect();
            assert_eq!(listed, pages.clone().collect::<Vec<_>>());
        }
    }
}
