//! Sequence numbers and generations of pages in the simulated flash: exact, in four bytes each. The generation of a
//! page is the sequence number of the program that first wrote its content. GC copies keep the generation of their
//! source.
//!
//! Two numbers of eight bytes per page are 8 GiB on a device of 2 TiB. But the pages of a block are programmed soon
//! after its first page, and a generation is usually not much older than the page's own number. So two differences are
//! stored for a page: from a base number of its block to its sequence number, and from its generation to its sequence
//! number. If a difference does not fit (in a block that stayed open for 2^32 programs), both numbers of the page are
//! stored in full in a separate map. If the user of the medium needs no generations of host data, one bit replaces the
//! second difference: whether the page is a copy.

use rustc_hash::FxHashMap;

use super::PageKind;
use crate::tables::DenseTable;

/// The two numbers that tell the age of a flash page: when it was programmed, and when its content was first written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct SequenceNumbers {
    /// Sequence number of the page's program: its place in the order of all programs of the device.
    pub(super) sequence_number: u64,
    /// Generation of the page: sequence number of the program that first wrote its content, which GC copies inherit.
    pub(super) first_write_sequence_number: u64,
}

/// Flag bit in the stored sequence number of a page. It marks a GC copy whose generation (sequence number of the
/// program that first wrote the content) is not kept. The other bits are the difference to the sequence number of the
/// first page of the block.
const GC_COPY_LACKS_FIRST_WRITE_NUMBER_BIT: u32 = 1 << 31;
/// Stands in place of the first difference of a page if one of its differences is too large to be stored. Both numbers
/// of such a page are kept in full in a map.
const NUMBERS_STORED_IN_FULL_MARK: u32 = GC_COPY_LACKS_FIRST_WRITE_NUMBER_BIT - 1;

/// Sequence number and generation (sequence number of the program that first wrote the content) of every page of the
/// simulated flash.
#[derive(Clone, Debug)]
pub(super) struct SequenceNumberTable {
    /// For each block, the sequence number of its first page. The numbers of the block's pages are stored as
    /// differences from this number.
    block_base_sequence: Vec<u64>,
    /// For each page, its sequence number minus that of the first page of its block. The highest bit is the flag
    /// [`GC_COPY_LACKS_FIRST_WRITE_NUMBER_BIT`]. The value [`NUMBERS_STORED_IN_FULL_MARK`] means that both numbers of
    /// the page are in `full_numbers_by_ppn`.
    sequence_minus_block_base: DenseTable<u32>,
    /// For each page, its sequence number minus its generation (number of the program that first wrote the content).
    /// Empty if generations of host data are not kept.
    sequence_minus_first_write_number: DenseTable<u32>,
    /// Both numbers of the pages that have a difference too large to be stored ([`NUMBERS_STORED_IN_FULL_MARK`]), by
    /// PPN.
    full_numbers_by_ppn: FxHashMap<u32, SequenceNumbers>,
}

impl SequenceNumberTable {
    /// Creates the table for a device of `blocks` blocks and `pages` pages. `keeps_first_write_sequence_numbers` is
    /// whether the table keeps the generation of pages of host data (number of the program that first wrote the
    /// content).
    pub(super) fn new(blocks: usize, pages: usize, keeps_first_write_sequence_numbers: bool) -> Self {
        Self {
            block_base_sequence: vec![0; blocks],
            sequence_minus_block_base: DenseTable::zeroed(pages),
            sequence_minus_first_write_number: DenseTable::zeroed(if keeps_first_write_sequence_numbers {
                pages
            } else {
                0
            }),
            full_numbers_by_ppn: FxHashMap::default(),
        }
    }

    /// Sets the sequence number and generation of page `ppn`, which is page `offset` of `block`.
    pub(super) fn set_sequence_numbers(
        &mut self,
        ppn: u32,
        (block, offset): (usize, u32),
        kind: PageKind,
        numbers: SequenceNumbers,
    ) {
        let SequenceNumbers { sequence_number: sequence, first_write_sequence_number: generation } = numbers;
        if offset == 0 {
            self.block_base_sequence[block] = sequence;
        }
        let keeps_first_write_sequence_numbers = self.sequence_minus_first_write_number.len() > 0;
        let is_copy = generation != sequence;
        let fits = |difference: &u64| *difference < u64::from(NUMBERS_STORED_IN_FULL_MARK);
        let since_base = sequence.checked_sub(self.block_base_sequence[block]).filter(fits);
        let age = sequence.checked_sub(generation).filter(fits);
        match (since_base, age) {
            (Some(since_base), Some(age)) if keeps_first_write_sequence_numbers => {
                self.sequence_minus_block_base.set(ppn as usize, since_base as u32);
                self.sequence_minus_first_write_number.set(ppn as usize, age as u32);
            }
            (Some(since_base), _)
                if !keeps_first_write_sequence_numbers && (!is_copy || kind.is_host_data()) =>
            {
                let mark = if is_copy { GC_COPY_LACKS_FIRST_WRITE_NUMBER_BIT } else { 0 };
                self.sequence_minus_block_base.set(ppn as usize, since_base as u32 | mark);
            }
            _ => {
                self.sequence_minus_block_base.set(ppn as usize, NUMBERS_STORED_IN_FULL_MARK);
                self.full_numbers_by_ppn.insert(ppn, numbers);
            }
        }
    }

    /// Returns the sequence number of page `ppn` in `block` (the order of its program) and its generation (the order of
    /// the program that first wrote its content, which copies inherit). The generation is 0 for a copy whose generation
    /// is not kept.
    pub(super) fn sequence_numbers_of(&self, ppn: u32, block: usize) -> SequenceNumbers {
        let since_base = self.sequence_minus_block_base.get(ppn as usize);
        if since_base == NUMBERS_STORED_IN_FULL_MARK {
            return self.full_numbers_by_ppn[&ppn];
        }
        let sequence =
            self.block_base_sequence[block] + u64::from(since_base & !GC_COPY_LACKS_FIRST_WRITE_NUMBER_BIT);
        let generation = match since_base & GC_COPY_LACKS_FIRST_WRITE_NUMBER_BIT {
            0 if self.sequence_minus_first_write_number.len() > 0 => {
                sequence - u64::from(self.sequence_minus_first_write_number.get(ppn as usize))
            }
            0 => sequence,
            _ => 0,
        };
        SequenceNumbers { sequence_number: sequence, first_write_sequence_number: generation }
    }

    /// Drops the stored sequence numbers of these pages, because their block is erased.
    pub(super) fn drop_sequence_numbers_of_pages(&mut self, pages: impl Iterator<Item = u32>) {
        if !self.full_numbers_by_ppn.is_empty() {
            pages.for_each(|ppn| _ = self.full_numbers_by_ppn.remove(&ppn));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a page's sequence number and generation as [`SequenceNumbers`].
    fn numbers_of_page(sequence: u64, generation: u64) -> SequenceNumbers {
        SequenceNumbers { sequence_number: sequence, first_write_sequence_number: generation }
    }

    #[test]
    fn page_sequence_numbers_are_stored_exactly_however_far_apart_they_are() {
        let far = u64::from(u32::MAX);
        let written = [
            numbers_of_page(1 << 40, 1 << 40),
            numbers_of_page((1 << 40) + 5, 7),
            numbers_of_page((1 << 40) + u64::from(NUMBERS_STORED_IN_FULL_MARK) - 1, (1 << 40) + 1),
            numbers_of_page(
                (1 << 40) + u64::from(NUMBERS_STORED_IN_FULL_MARK),
                (1 << 40) + u64::from(NUMBERS_STORED_IN_FULL_MARK),
            ),
            numbers_of_page((1 << 40) + far + 9, (1 << 40) + 8),
            numbers_of_page(3, 3),
        ];
        for kind in [PageKind::Data, PageKind::Translation] {
            let mut all = SequenceNumberTable::new(2, 16, true);
            for (offset, &pair) in (0..).zip(&written) {
                all.set_sequence_numbers(8 + offset, (1, offset), kind, pair);
            }
            for (offset, &pair) in (0..).zip(&written) {
                assert_eq!(all.sequence_numbers_of(8 + offset, 1), pair, "page {offset} of {kind:?}");
            }
        }
    }

    /// If the first-write numbers (generations) of host data are not kept, the table still tells whether a page of data
    /// is a GC copy.
    #[test]
    fn gc_copies_of_data_are_recognised_even_if_their_first_write_numbers_are_not_kept() {
        let mut all = SequenceNumberTable::new(1, 4, false);
        all.set_sequence_numbers(0, (0, 0), PageKind::Data, numbers_of_page(10, 10));
        all.set_sequence_numbers(1, (0, 1), PageKind::Data, numbers_of_page(1 << 30, 0));
        all.set_sequence_numbers(2, (0, 2), PageKind::Validity, numbers_of_page(12, 4));
        assert_eq!(
            [0, 1, 2].map(|ppn| all.sequence_numbers_of(ppn, 0)),
            [numbers_of_page(10, 10), numbers_of_page(1 << 30, 0), numbers_of_page(12, 4)]
        );
    }

    #[test]
    fn erasing_a_block_drops_the_sequence_numbers_of_its_pages() {
        let mut all = SequenceNumberTable::new(1, 4, false);
        all.set_sequence_numbers(0, (0, 0), PageKind::Validity, numbers_of_page(12, 4));
        all.drop_sequence_numbers_of_pages(0..4);
        assert!(all.full_numbers_by_ppn.is_empty());
    }
}
