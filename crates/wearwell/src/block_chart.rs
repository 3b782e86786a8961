//! Block map of a drive in text of bounded length, and the histogram of its blocks' erases: for reports and displays.
//!
//! Consecutive blocks share a *cell* of the map. A cell is a number of 12 bits, written as two base64url digits: the
//! high four bits are the valid pages and the middle four the invalid pages, both in fifteenths of the cell's pages;
//! the low four state what most blocks in use hold. 0 is nothing (all are free), 1 data, 2 translation pages, 3
//! deltas, 4 compressed chunks, 5 the remap log, 6 page validity; 15 means that all blocks are retired.
//!
//! The map shows what the controller's block table counts, which is an upper bound of the valid pages if page validity
//! is on flash. [`flash_view`](crate::flash_view) is exact, but has to read the whole L2P table. Nothing here costs a
//! counted operation or changes a state.

use std::ops::Range;

use crate::address::BlockId;
use crate::nand::{Nand, PageKind};
use crate::store::{BlockState, FlashPageStore};

/// Largest number of bins of an [`EraseHistogram`] (erase counts of blocks).
pub const HISTOGRAM_BINS_MAX: u32 = 40;
/// Number of steps to which a share is rounded in a cell of the block map. A cell shows a few blocks, with the share of
/// their pages that are valid and the share that are invalid.
const CHART_SHARE_RESOLUTION_STEPS: u64 = 15;
/// Code for a cell of the block map whose blocks are all retired. A cell shows a few blocks.
const RETIRED_CHART_CELL_CODE: u64 = 15;
/// Digits of the base64url alphabet, by value; a cell of the block map is written as two of them.
const BASE64URL_DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns the number of consecutive blocks that one cell (two characters) of the block map summarises, at least 1, for
/// a drive of `blocks` blocks and a map of at most `most_cells` cells.
pub fn blocks_per_chart_cell(blocks: u32, most_cells: u32) -> u32 {
    blocks.div_ceil(most_cells.max(1)).max(1)
}

/// Appends to `encoded_cells` the cells of the block map for the blocks in the range `blocks`, two characters per cell
/// of `blocks_per_cell` blocks. The range begins with the first block of a cell; its last cell may have fewer blocks.
/// O(blocks of the range).
pub fn append_chart_cells(
    store: &FlashPageStore,
    blocks: Range<u32>,
    blocks_per_cell: u32,
    encoded_cells: &mut String,
) {
    for start in blocks.clone().step_by(blocks_per_cell as usize) {
        let cell = encode_chart_cell(store, start..blocks.end.min(start + blocks_per_cell));
        encoded_cells.push(char::from(BASE64URL_DIGITS[(cell >> 6) as usize]));
        encoded_cells.push(char::from(BASE64URL_DIGITS[(cell & 63) as usize]));
    }
}

/// Encodes the cell of the block map that summarises `blocks` as a 12-bit number.
fn encode_chart_cell(store: &FlashPageStore, blocks: Range<u32>) -> u64 {
    let of_cell = u64::from(blocks.end - blocks.start);
    let (table, mut valid, mut programmed) = (store.blocks(), 0, 0);
    let mut of_code = [0u32; RETIRED_CHART_CELL_CODE as usize + 1];
    for block in blocks.map(BlockId) {
        match table.state(block) {
            BlockState::Free | BlockState::Erasing => {}
            BlockState::Retired => of_code[RETIRED_CHART_CELL_CODE as usize] += 1,
            BlockState::Open | BlockState::Closed => {
                of_code[chart_code_of_page_kind(table.kind(block))] += 1;
                valid += u64::from(table.valid_pages(block));
                programmed += u64::from(store.nand().programmed_pages(block));
            }
        }
    }
    if u64::from(of_code[RETIRED_CHART_CELL_CODE as usize]) == of_cell {
        return RETIRED_CHART_CELL_CODE;
    }
    let pages = of_cell * u64::from(store.geometry().block_pages());
    let steps = |count: u64| (2 * count * CHART_SHARE_RESOLUTION_STEPS + pages) / (2 * pages);
    let programmed = steps(programmed).min(CHART_SHARE_RESOLUTION_STEPS);
    let valid = steps(valid).min(programmed);
    let commonest =
        (1..RETIRED_CHART_CELL_CODE as usize).rev().max_by_key(|&code| of_code[code]).unwrap_or(0);
    let kind = if of_code[commonest] > 0 { commonest as u64 } else { 0 };
    valid << 8 | (programmed - valid) << 4 | kind
}

/// Returns the code, 1 to 6, by which a cell of the block map states that most of its blocks hold pages of this kind.
fn chart_code_of_page_kind(kind: PageKind) -> usize {
    match kind {
        PageKind::Data | PageKind::BlockHead | PageKind::BlockTail => 1,
        PageKind::Translation => 2,
        PageKind::Delta => 3,
        PageKind::Chunk => 4,
        PageKind::RemapLog => 5,
        PageKind::Validity => 6,
    }
}

/// Histogram of erase counts of blocks, with at most [`HISTOGRAM_BINS_MAX`] bins of equal width.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EraseHistogram {
    /// Erase count of the least worn block, at which the first bin of the histogram begins.
    pub first_bin_start_erases: u32,
    /// Width of a bin of the histogram, in erases per block.
    pub bin_width_erases: u32,
    /// Number of blocks whose erase count is in each bin of the histogram.
    pub blocks_per_bin: Vec<u32>,
}

impl EraseHistogram {
    /// Computes the histogram of the erase counts of blocks; empty if there are none. Iterates over the counts three
    /// times, so that no copy of them is stored.
    pub fn of_erase_counts(erases: impl Iterator<Item = u32> + Clone) -> Self {
        let (Some(first), Some(last)) = (erases.clone().min(), erases.clone().max()) else {
            return Self::default();
        };
        let bin_width_erases = (last - first + 1).div_ceil(HISTOGRAM_BINS_MAX);
        let mut blocks = vec![0; ((last - first) / bin_width_erases + 1) as usize];
        for count in erases {
            blocks[((count - first) / bin_width_erases) as usize] += 1;
        }
        Self { first_bin_start_erases: first, bin_width_erases, blocks_per_bin: blocks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_of_wear_counts_every_block_once() {
        for erases in [vec![], vec![7], (0..1000).collect(), vec![3, 3, 90, 91]] {
            let histogram = EraseHistogram::of_erase_counts(erases.iter().copied());
            assert_eq!(histogram.blocks_per_bin.iter().sum::<u32>() as usize, erases.len());
            assert!(histogram.blocks_per_bin.len() <= HISTOGRAM_BINS_MAX as usize, "{histogram:?}");
        }
        let two = EraseHistogram::of_erase_counts([3, 3, 90].into_iter());
        assert_eq!(
            (
                two.first_bin_start_erases,
                two.bin_width_erases,
                two.blocks_per_bin[0],
                two.blocks_per_bin.last()
            ),
            (3, 3, 2, Some(&1))
        );
    }
}
