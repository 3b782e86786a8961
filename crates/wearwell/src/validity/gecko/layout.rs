//! Layout of the entries, pages and sorted runs of Logarithmic Gecko (log-structured merge tree of invalid pages), and
//! the capacities, sizes and bounds that follow from the layout.
//!
//! An *entry* is a key and the bitmap of one part of a block. Key = block x slots + slot. Slot 0 is the *erase marker*:
//! all entries of the block in older runs are obsolete. Slots 1..=S are the parts. The marker sorts before the parts of
//! its block, so that a scan meets it first. The bitmap of a marker is empty and that of a part never is, so a whole
//! entry shows by its bitmap whether it is a marker.
//!
//! A *page* is {index in the run: u32, entries: u16, last page of the run: u16}, then entries. Pages hold as many
//! entries as fit. After the last entry follow the *directory* (first key of every page with entries, u32 each), which
//! continues in further pages if it must, and at the very end of the last page the *postamble* {entries: u32, last key:
//! u32, first and last covered flush: u64, flush time: u64}. The postamble holds all that the paper's preamble holds.
//! Because it is written last, a run with a postamble is complete, and a run of one page is recovered by one read. The
//! run number is the owner in the OOB of its pages.
//!
//! The buffer holds V entries. V is the number of entries that fit on one page together with the directory and the
//! postamble of a run, and at least one less than a page can hold without them. Therefore a run with the entries of u
//! buffers (at most u x V) has at most u pages: each page after the first saves at least one entry (5 bytes or more)
//! and costs 4 bytes of directory.

use crate::address::{BlockId, Ppn};
use crate::divide::Divider;
use crate::error::{Error, Result};
use crate::nand::{Geometry, PageDataWord};

/// Bytes of the key of a Gecko LSM entry; the key names a part of a block, the entry has a bitmap of its invalid pages.
pub(super) const GECKO_KEY_BYTES: usize = 4;
/// Bytes of the header of a page of a Gecko LSM run.
const PAGE_HEADER_BYTES: usize = 8;
/// Bytes of the summary at the end of a Gecko LSM run ([`RunPostamble`]).
const RUN_POSTAMBLE_BYTES: usize = 32;
/// Bytes of a cache line of most processors.
const CACHE_LINE_BYTES: usize = 64;

/// Sizes of the entries, pages and sorted runs of Logarithmic Gecko (LSM tree of invalid pages), which follow from the
/// geometry and the number of parts into which the bitmap of a block is cut.
#[derive(Clone, Debug)]
pub(super) struct GeckoLayout {
    /// Number of blocks of the device.
    block_count: u32,
    /// Number of pages of a block (erase unit of the FTL).
    block_pages: u32,
    /// Bytes of a flash page without its spare area.
    page_bytes: usize,
    /// Number of entry keys per block: one for each part of its bitmap of invalid pages, and one for its erase marker
    /// ("all older entries of the block are obsolete").
    pub(super) keys_per_block: u32,
    /// Number of flash pages that one part of a block has. One entry of Logarithmic Gecko holds the bitmap of invalid
    /// pages of one part.
    pages_per_block_part: u32,
    /// Bytes of a Gecko LSM entry: key, and bitmap of the invalid pages of a part of a block.
    pub(super) entry_bytes: usize,
    /// Maximum number of Gecko LSM entries (key and bitmap of a part of a block) on a flash page.
    pub(super) entries_per_page: u32,
    /// Number of Gecko LSM entries (key and bitmap of a part of a block) for which the buffer in RAM is sized (the
    /// paper's V). The buffer is flushed to flash after this number of reports (invalid pages and opened blocks).
    pub(super) buffer_capacity_entries: u32,
    /// Divider by the number of pages of a block, which turns a PPN into a block number.
    pages_per_block_divider: Divider,
    /// Divider by the number of pages of a part of a block, which turns an offset in the block into a part number.
    pages_per_block_part_divider: Divider,
    /// Divider by the number of keys per block, which turns an entry key into a block number.
    keys_per_block_divider: Divider,
}

impl GeckoLayout {
    /// Creates the layout of the entries and pages of the Gecko LSM tree for bitmaps of blocks that are cut into
    /// `parts` parts.
    pub(super) fn new(geometry: &Geometry, parts: u32) -> Result<Self> {
        let (blocks, block_pages) = (geometry.blocks(), geometry.block_pages());
        if parts == 0 || parts > block_pages {
            return Err(Error::InvalidOptions(format!(
                "gecko.parts is {parts}; set it to a value from 1 to {block_pages}, the number of pages of a block"
            )));
        }
        let part_pages = block_pages.div_ceil(parts);
        // Fewer parts may suffice: 10 pages in 4 parts are 3 pages each; in 6 parts they are 2 pages each, of which 5
        // are used.
        let slots = block_pages.div_ceil(part_pages) + 1;
        if blocks.checked_mul(slots).is_none() {
            return Err(Error::InvalidOptions(format!(
                "gecko.parts is {parts}, but the parts of all {blocks} blocks then need keys of more than 32 bits: set gecko.parts \
                 to at most {}, or lower device.blocks_per_plane",
                u32::MAX / blocks - 1
            )));
        }
        let page_bytes = geometry.page_bytes as usize;
        let stride = GECKO_KEY_BYTES + part_pages.div_ceil(8) as usize;
        let room = page_bytes - PAGE_HEADER_BYTES;
        let page_entries = room / stride;
        let buffer_capacity_entries =
            ((room - RUN_POSTAMBLE_BYTES - GECKO_KEY_BYTES) / stride).min(page_entries.saturating_sub(1));
        if buffer_capacity_entries < 2 {
            return Err(Error::InvalidOptions(format!(
                "gecko.parts is {parts}: an entry for a part of a block then has {stride} bytes, and a flash page of {page_bytes} \
                 bytes does not hold three of them: set gecko.parts to at least {}",
                block_pages.div_ceil(8 * (room / 3 - GECKO_KEY_BYTES) as u32)
            )));
        }
        Ok(Self {
            block_count: blocks,
            block_pages,
            page_bytes,
            keys_per_block: slots,
            pages_per_block_part: part_pages,
            entry_bytes: stride,
            entries_per_page: page_entries as u32,
            buffer_capacity_entries: buffer_capacity_entries as u32,
            pages_per_block_divider: Divider::new(block_pages),
            pages_per_block_part_divider: Divider::new(part_pages),
            keys_per_block_divider: Divider::new(slots),
        })
    }

    /// Returns a buffer of one flash page, filled with zeros.
    pub(super) fn blank_page(&self) -> Vec<u8> {
        vec![0; self.page_bytes]
    }

    /// Returns the bytes of the bitmap of invalid pages of one part of a block.
    pub(super) fn part_bitmap_bytes(&self) -> usize {
        self.entry_bytes - GECKO_KEY_BYTES
    }

    /// Returns the number of 64-bit words of the bitmap of invalid pages of a whole block.
    pub(super) fn words_per_block_bitmap(&self) -> usize {
        self.block_pages.div_ceil(64) as usize
    }

    /// Returns the key of the Gecko LSM entry that holds the bit of `ppn` (the entry of a part of its block), and the
    /// index of the bit in the entry's bitmap.
    #[inline]
    pub(super) fn key_and_bit_of(&self, ppn: Ppn) -> (u32, u32) {
        let block = self.pages_per_block_divider.quotient(ppn.0);
        let offset = ppn.0 - block * self.block_pages;
        let part = self.pages_per_block_part_divider.quotient(offset);
        (block * self.keys_per_block + 1 + part, offset - part * self.pages_per_block_part)
    }

    /// Returns the key of the block's erase marker ("all older entries of the block are obsolete"); the keys of the
    /// block's parts follow it.
    #[inline]
    pub(super) fn erase_marker_key(&self, block: BlockId) -> u32 {
        block.0 * self.keys_per_block
    }

    /// Whether a Gecko LSM entry with this key is the erase marker of a block ("all older entries of the block are
    /// obsolete").
    #[inline]
    pub(super) fn is_erase_marker(&self, key: u32) -> bool {
        self.keys_per_block_divider.quotient(key) * self.keys_per_block == key
    }

    /// Returns the PPN and the offset of each page of a block.
    pub(super) fn pages_and_offsets_of_block(
        &self,
        block: BlockId,
    ) -> impl Iterator<Item = (Ppn, u32)> + use<> {
        let first = block.0 * self.block_pages;
        (0..self.block_pages).map(move |k| (Ppn(first + k), k))
    }

    /// Returns the 4-byte words that a search for a key reads on a page of a sorted run of the Gecko LSM tree: the page
    /// header, the last entry, and the cache lines around entry `expected_entry_index`, where the key is expected.
    pub(super) fn page_words_read_by_search(
        &self,
        expected_entry_index: usize,
        last: usize,
    ) -> impl Iterator<Item = PageDataWord> {
        let at = |rank: usize| PAGE_HEADER_BYTES + rank * self.entry_bytes;
        let found = at(expected_entry_index);
        let bytes = [0, at(last), found.saturating_sub(CACHE_LINE_BYTES), found, found + CACHE_LINE_BYTES];
        let end = self.page_bytes - GECKO_KEY_BYTES;
        bytes.into_iter().map(move |byte| PageDataWord {
            word_index: (byte.min(end) / GECKO_KEY_BYTES) as u32,
            word_value: 0,
        })
    }

    /// Sets in `invalid`, the bitmap of invalid pages of a block, the bits that a Gecko LSM entry holds. `bitmap` is
    /// the entry's bitmap, and `slot` the number of its part of the block.
    pub(super) fn copy_invalid_bits_of_part(&self, slot: u32, bitmap: &[u8], invalid: &mut [u64]) {
        let first = (slot - 1) * self.pages_per_block_part;
        for (byte, at) in bitmap.iter().zip((first..).step_by(8)) {
            let mut left = *byte;
            while left != 0 {
                let page = at + left.trailing_zeros();
                invalid[page as usize / 64] |= 1 << (page % 64);
                left &= left - 1;
            }
        }
    }

    /// Returns the size of a sorted run of the Gecko LSM tree with `entries` entries, as a multiple of the buffer's
    /// size, rounded up. The level of the run in the tree depends on it.
    pub(super) fn run_size_in_buffers(&self, entries: u32) -> u32 {
        entries.div_ceil(self.buffer_capacity_entries).max(1)
    }

    /// Returns the number of pages with entries of a sorted run of the Gecko LSM tree that has `entries` entries. Pages
    /// that hold only the directory of the run are not counted.
    pub(super) fn entry_pages_of_run(&self, entries: u32) -> u32 {
        entries.div_ceil(self.entries_per_page)
    }

    /// Returns the number of pages of a sorted run of the Gecko LSM tree that has `entries` entries, including pages
    /// that hold only the directory of the run.
    pub(super) fn page_count_of_run(&self, entries: u32) -> u32 {
        let full = self.entry_pages_of_run(entries);
        let in_last = entries - full.saturating_sub(1) * self.entries_per_page;
        let room = self.free_bytes_after_entries(in_last);
        let directory = full as usize * GECKO_KEY_BYTES;
        if directory + RUN_POSTAMBLE_BYTES <= room {
            return full.max(1);
        }
        let beyond =
            directory - directory.min(room / GECKO_KEY_BYTES * GECKO_KEY_BYTES) + RUN_POSTAMBLE_BYTES;
        full + beyond.div_ceil(self.free_bytes_after_entries(0)) as u32
    }

    /// Returns the number of free bytes on a page of a Gecko LSM run, after its header and `entries` entries.
    fn free_bytes_after_entries(&self, entries: u32) -> usize {
        self.page_bytes - PAGE_HEADER_BYTES - entries as usize * self.entry_bytes
    }

    /// Returns the size, as a multiple of the buffer's size, of the largest possible sorted run of the Gecko LSM tree:
    /// with an entry for every part of every block.
    pub(super) fn max_run_size_in_buffers(&self) -> u32 {
        self.run_size_in_buffers(self.block_count * self.keys_per_block)
    }
}

/// View of entries of the Gecko LSM tree (each a key and the bitmap of a part of a block) that are sorted by key and
/// adjacent in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct GeckoEntries<'a> {
    /// Bytes of the entries, in key order.
    encoded_entries: &'a [u8],
    /// Bytes of one entry: key and bitmap.
    entry_bytes: usize,
}

impl<'a> GeckoEntries<'a> {
    /// Creates a view of the entries in `encoded_entries`, each of `entry_bytes` bytes.
    pub(super) fn new(encoded_entries: &'a [u8], entry_bytes: usize) -> Self {
        Self { encoded_entries, entry_bytes }
    }

    /// Returns the Gecko LSM entries (key and bitmap of a part of a block) on a page of a run.
    pub(super) fn of_page(page: &'a [u8], layout: &GeckoLayout) -> Self {
        let (start, end) = Self::entry_byte_range(page, layout);
        Self::new(&page[start..end], layout.entry_bytes)
    }

    /// Returns the byte offsets at which the entries on a page of a sorted run of the Gecko LSM tree begin and end.
    pub(super) fn entry_byte_range(page: &[u8], layout: &GeckoLayout) -> (usize, usize) {
        (
            PAGE_HEADER_BYTES,
            PAGE_HEADER_BYTES + read_page_header(page).entry_count as usize * layout.entry_bytes,
        )
    }

    /// Returns the number of Gecko LSM entries.
    fn len(&self) -> usize {
        self.encoded_entries.len() / self.entry_bytes
    }

    /// Returns the key of Gecko LSM entry number `k`.
    fn key_of_entry(&self, k: usize) -> u32 {
        read_entry_key(self.encoded_entries, k * self.entry_bytes)
    }

    /// Returns the number of Gecko LSM entries with keys less than `key`. Keys are roughly evenly spread. So the search
    /// begins at the index where the key is expected, and doubles its steps from there: it touches two or three cache
    /// lines of a page. O(log n) at worst.
    pub(super) fn count_keys_below(&self, key: u32) -> usize {
        let Some(last) = self.len().checked_sub(1) else { return 0 };
        let guess = interpolated_key_rank(key, self.key_of_entry(0), self.key_of_entry(last), last);
        let (mut low, mut high) = self.key_rank_bounds(key, guess);
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.key_of_entry(middle) < key { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Returns a lower and an upper bound of the number of Gecko LSM entries with keys less than `key`. The bounds are
    /// tight if `guess` is close to that number.
    fn key_rank_bounds(&self, key: u32, guess: usize) -> (usize, usize) {
        let (mut low, mut high, mut step) = (guess, guess, 4);
        if self.key_of_entry(guess) < key {
            while high < self.len() && self.key_of_entry(high) < key {
                (low, high, step) = (high + 1, high + step, 2 * step);
            }
            return (low, high.min(self.len()));
        }
        while low > 0 && self.key_of_entry(low - 1) >= key {
            (high, low, step) = (low - 1, low.saturating_sub(step), 2 * step);
        }
        (low, high)
    }

    /// Sets in `invalid` the bits of the pages of `block` that these Gecko LSM entries record as invalid. Returns
    /// whether the block's erase marker is among the entries, in which case older runs need not be read.
    pub(super) fn copy_invalid_bits_and_find_erase_marker(
        &self,
        layout: &GeckoLayout,
        block: BlockId,
        invalid: &mut [u64],
    ) -> bool {
        let marker = layout.erase_marker_key(block);
        let mut erased = false;
        let first = self.count_keys_below(marker) * self.entry_bytes;
        for entry in self.encoded_entries[first..].chunks_exact(self.entry_bytes) {
            match read_entry_key(entry, 0) - marker {
                0 => erased = true,
                slot if slot < layout.keys_per_block => {
                    layout.copy_invalid_bits_of_part(slot, &entry[GECKO_KEY_BYTES..], invalid);
                }
                _ => break,
            }
        }
        erased
    }
}

/// Returns the index that the Gecko LSM entry with `key` would have if keys were evenly spread from `first_key` to
/// `last_key`, the key of the entry at index `last_entry_index`.
pub(super) fn interpolated_key_rank(
    key: u32,
    first_key: u32,
    last_key: u32,
    last_entry_index: usize,
) -> usize {
    let (above, span) = (key.saturating_sub(first_key), last_key - first_key);
    let rank = u64::from(above) * last_entry_index as u64 / u64::from(span.max(1));
    rank.min(last_entry_index as u64) as usize
}

/// Returns the key of the Gecko LSM entry at byte offset `at`.
#[inline]
pub(super) fn read_entry_key(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + GECKO_KEY_BYTES].try_into().expect("a key has four bytes"))
}

/// Header of a flash page of a Gecko LSM run: index of the page in the run, number of its entries, and whether it is
/// the last page of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RunPageHeader {
    /// Index of the page in its run, from 0.
    pub(super) page_index_in_run: u32,
    /// Number of Gecko LSM entries on the page.
    pub(super) entry_count: u16,
    /// Whether the page is the last one of its run.
    pub(super) is_last_page: bool,
}

/// Decodes the header of a page of a Gecko LSM run.
pub(super) fn read_page_header(page: &[u8]) -> RunPageHeader {
    let half = |at: usize| u16::from_le_bytes(page[at..at + 2].try_into().expect("two bytes"));
    RunPageHeader {
        page_index_in_run: read_entry_key(page, 0),
        entry_count: half(4),
        is_last_page: half(6) == 1,
    }
}

/// Summary at the end of the last page of a sorted run of the Gecko LSM tree: number of entries, last key, and which
/// flushes of the buffer the run covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct RunPostamble {
    /// Number of entries of the sorted run of the Gecko LSM tree.
    pub(super) entry_count: u32,
    /// Key of the last entry of the run.
    pub(super) last_key: u32,
    /// Flushes of the buffer whose entries the run contains.
    pub(super) buffer_flushes: BufferFlushRange,
}

/// Range of flushes of the buffer (by number) whose entries a run of the Gecko LSM tree contains, and the sequence
/// number at which the buffer of the last flush was frozen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct BufferFlushRange {
    /// Number of the earliest flush of the buffer whose entries the run contains.
    pub(super) first_flush_number: u64,
    /// Number of the latest flush of the buffer whose entries the run contains.
    pub(super) last_flush_number: u64,
    /// Sequence number at which the buffer of flush `last_flush_number` was frozen. Every page invalidated before is
    /// recorded in this sorted run of the Gecko LSM tree or in older runs.
    pub(super) buffer_frozen_at_sequence: u64,
}

impl BufferFlushRange {
    /// Returns the buffer flushes that a run covers after this run of the Gecko LSM tree was merged with the newer run
    /// that covers `newer`.
    pub(super) fn joined_with(self, newer: Self) -> Self {
        Self { first_flush_number: self.first_flush_number.min(newer.first_flush_number), ..newer }
    }
}

impl RunPostamble {
    /// Decodes the summary at the end of the last page of a Gecko LSM run.
    pub(super) fn of_page(page: &[u8]) -> Self {
        let at = page.len() - RUN_POSTAMBLE_BYTES;
        let long = |k: usize| u64::from_le_bytes(page[at + k..at + k + 8].try_into().expect("eight bytes"));
        let buffer_flushes = BufferFlushRange {
            first_flush_number: long(8),
            last_flush_number: long(16),
            buffer_frozen_at_sequence: long(24),
        };
        Self { entry_count: read_entry_key(page, at), last_key: read_entry_key(page, at + 4), buffer_flushes }
    }

    /// Writes the summary to the end of the last page of a Gecko LSM run.
    fn write_to(&self, page: &mut [u8]) {
        let at = page.len() - RUN_POSTAMBLE_BYTES;
        write_bytes_at(page, at, &self.entry_count.to_le_bytes());
        write_bytes_at(page, at + 4, &self.last_key.to_le_bytes());
        let BufferFlushRange {
            first_flush_number: first,
            last_flush_number: last,
            buffer_frozen_at_sequence: flush_time,
        } = self.buffer_flushes;
        for (long, k) in [first, last, flush_time].into_iter().zip([8, 16, 24]) {
            write_bytes_at(page, at + k, &long.to_le_bytes());
        }
    }
}

/// A flash page of a sorted run of the Gecko LSM tree, being filled with entries in RAM.
#[derive(Clone, Debug)]
pub(super) struct RunPageDraft {
    /// Bytes of the page: header, entries, and later the directory of the run.
    pub(super) bytes: Vec<u8>,
    /// Number of entries on the page so far.
    pub(super) entry_count: u32,
}

impl RunPageDraft {
    /// Creates a page draft without entries.
    pub(super) fn new(layout: &GeckoLayout) -> Self {
        Self { bytes: layout.blank_page(), entry_count: 0 }
    }

    /// Appends as many of these Gecko LSM entries as fit to the page. Returns the number of entries appended, and their
    /// bytes.
    pub(super) fn push_entries_that_fit(&mut self, entries: &[u8], layout: &GeckoLayout) -> (u32, usize) {
        let count =
            ((entries.len() / layout.entry_bytes) as u32).min(layout.entries_per_page - self.entry_count);
        let bytes = count as usize * layout.entry_bytes;
        write_bytes_at(
            &mut self.bytes,
            PAGE_HEADER_BYTES + self.entry_count as usize * layout.entry_bytes,
            &entries[..bytes],
        );
        self.entry_count += count;
        (count, bytes)
    }

    /// Writes the header of the page: its index in the run, the number of its entries, and whether it is the last page.
    pub(super) fn write_header(&mut self, index: u32, last: bool) {
        write_bytes_at(&mut self.bytes, 0, &index.to_le_bytes());
        write_bytes_at(&mut self.bytes, 4, &(self.entry_count as u16).to_le_bytes());
        write_bytes_at(&mut self.bytes, 6, &u16::from(last).to_le_bytes());
    }

    /// Writes to the page, after its entries, as many `keys` of the run's directory as fit. Also writes the summary
    /// `postamble` of the run, if all keys and the summary fit. Returns the number of keys written, and whether this is
    /// the last page of the run.
    pub(super) fn write_directory(
        &mut self,
        keys: &[u32],
        postamble: &RunPostamble,
        layout: &GeckoLayout,
    ) -> (usize, bool) {
        let room = layout.free_bytes_after_entries(self.entry_count);
        let start = self.bytes.len() - room;
        let count = keys.len().min(room / GECKO_KEY_BYTES);
        for (key, at) in keys[..count].iter().zip((start..).step_by(GECKO_KEY_BYTES)) {
            write_bytes_at(&mut self.bytes, at, &key.to_le_bytes());
        }
        let last = keys.len() * GECKO_KEY_BYTES + RUN_POSTAMBLE_BYTES <= room;
        if last {
            postamble.write_to(&mut self.bytes);
        }
        (count, last)
    }

    /// Zeroes the page buffer after its Gecko LSM entries, so that nothing of the previous page is left there.
    pub(super) fn zero_unused_bytes(&mut self, layout: &GeckoLayout) {
        let used = self.bytes.len() - layout.free_bytes_after_entries(self.entry_count);
        self.bytes[used..].fill(0);
    }
}

/// Appends to `keys` the part of a run's directory (first key of each page) that a page of the Gecko LSM run holds.
/// `missing_key_count` is the number of directory keys that earlier pages did not hold.
pub(super) fn read_directory_keys(
    page: &[u8],
    missing_key_count: usize,
    layout: &GeckoLayout,
    keys: &mut Vec<u32>,
) {
    let room = layout.free_bytes_after_entries(read_page_header(page).entry_count as u32);
    let start = page.len() - room;
    let count = missing_key_count.min(room / GECKO_KEY_BYTES);
    keys.extend((start..).step_by(GECKO_KEY_BYTES).take(count).map(|at| read_entry_key(page, at)));
}

/// Copies `value` into `bytes` from byte `at` on.
fn write_bytes_at(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the geometry of a device with one plane of 65,536 blocks.
    fn geometry_of_one_plane(page_bytes: u32, block_pages: u32) -> Geometry {
        Geometry {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: 1,
            blocks_per_plane: 1 << 16,
            pages_per_block: block_pages,
            page_bytes,
            spare_bytes: 64,
            superblock_planes: 1,
        }
    }

    /// Returns Gecko layouts for five geometries, each with the numbers of parts per block that are possible.
    fn valid_layouts() -> impl Iterator<Item = GeckoLayout> {
        [(512, 4), (512, 128), (1024, 640), (4096, 128), (16384, 1024)].into_iter().flat_map(
            |(page, block)| {
                [1, 2, 4, 16, 128]
                    .into_iter()
                    .filter_map(move |s| GeckoLayout::new(&geometry_of_one_plane(page, block), s).ok())
            },
        )
    }

    /// The buffer capacity (the paper's V) for pages of 4 KiB and blocks of 128 pages is 506 entries with the default
    /// of four parts per block, and 202 with one part.
    #[test]
    fn the_default_gecko_buffer_holds_506_entries_and_202_without_partitioning() {
        let entries = |parts| {
            GeckoLayout::new(&geometry_of_one_plane(4096, 128), parts).expect("valid").buffer_capacity_entries
        };
        assert_eq!([entries(4), entries(1), entries(16)], [506, 202, 810]);
    }

    /// A sorted run of the Gecko LSM tree with u times the entries of the buffer has at most u flash pages.
    #[test]
    fn a_gecko_run_of_u_buffers_has_at_most_u_pages() {
        for layout in valid_layouts() {
            for units in (1..3000).chain([10_000, 40_000]) {
                let pages = layout.page_count_of_run(units * layout.buffer_capacity_entries);
                assert!(pages <= units, "{units} buffers make {pages} pages: {layout:?}");
            }
            assert_eq!([0, 1].map(|entries| layout.page_count_of_run(entries)), [1, 1]);
        }
    }

    /// The search by interpolation counts the entries with smaller keys correctly, however unevenly the keys are
    /// spread.
    #[test]
    fn gecko_entries_below_a_key_are_counted_for_any_spread_of_keys() {
        let spreads: [fn(u32) -> u32; 5] = [
            |k| k,
            |k| 1000 + 7 * k,
            |k| k * k,
            |k| 2 * k + (k / 100) * 5000,
            |k| if k < 300 { k } else { u32::MAX - 600 + k },
        ];
        for (spread, count) in spreads.into_iter().flat_map(|s| [0, 1, 2, 9, 504].map(|n| (s, n))) {
            let keys: Vec<u32> = (0..count).map(spread).collect();
            let bytes: Vec<u8> = keys.iter().flat_map(|key| [key.to_le_bytes(), [0; 4]].concat()).collect();
            let entries = GeckoEntries::new(&bytes, 8);
            let asked = keys.iter().flat_map(|&key| [key.saturating_sub(1), key, key.saturating_add(1)]);
            for key in asked.chain([0, 250_000, u32::MAX]) {
                assert_eq!(
                    entries.count_keys_below(key),
                    keys.partition_point(|&k| k < key),
                    "{key} of {keys:?}"
                );
            }
        }
    }

    #[test]
    fn impossible_gecko_layouts_are_refused_with_a_message() {
        let refused = |geometry: &Geometry, parts| match GeckoLayout::new(geometry, parts) {
            Err(Error::InvalidOptions(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(refused(&geometry_of_one_plane(4096, 128), 0).contains("set it to a value from 1 to 128"));
        assert!(refused(&geometry_of_one_plane(4096, 128), 129).contains("set it to a value from 1 to 128"));
        assert!(refused(&geometry_of_one_plane(512, 4096), 1).contains("set gecko.parts to at least 4"));
        assert!(GeckoLayout::new(&geometry_of_one_plane(512, 4096), 3).is_err());
        assert!(GeckoLayout::new(&geometry_of_one_plane(512, 4096), 4).is_ok());
        let wide =
            Geometry { blocks_per_plane: 1 << 30, pages_per_block: 4, ..geometry_of_one_plane(4096, 4) };
        assert!(refused(&wide, 4).contains("set gecko.parts to at most 2"));
        assert!(GeckoLayout::new(&wide, 2).is_ok());
    }
}
