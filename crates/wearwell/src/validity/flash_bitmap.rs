//! The page validity bitmap on flash: one bit per page of the device, in pages that are read and written like any
//! other.
//!
//! Source: Lee, Jung, Kang, Kim, "μ-FTL: A Memory-Efficient Flash Translation Layer Supporting Multiple Mapping
//! Granularities", EMSOFT 2008, as `GeckoFTL` (SIGMOD 2016, sections 2, 3 and 5.1) describes and prices it: RAM holds a
//! directory of the bitmap's pages, every page reported as invalid costs one read and one write of a bitmap page, a
//! query one read.
//!
//! Key decisions and their price:
//!
//! - Reports of invalid pages wait in RAM until [`ValidityStore::execute_next_deferred_validity_write`] applies them,
//!   one per call: the cost that the papers state. With [`FlashBitmapOptions::batches_updates`] one write applies all
//!   waiting reports of its bitmap page.
//! - Opening a block costs no flash operation, though the block's bits must become 0. For each block, RAM holds a flag
//!   that its bits on flash are *obsolete*, and the next write of their bitmap page zeroes them. The papers count no
//!   operation for the opening of a block: `GeckoFTL` states a cost of 1 + 1/δ per update of the bitmap, where a flash
//!   write costs δ reads, and the only updates are reports of invalid pages. They name no memory for it either. The
//!   flags take 1/16 of what the table of valid counts takes at two bytes per block: 0.5 MiB on 2 TiB of 128-page
//!   blocks, in addition to a directory of 0.06 MiB.
//! - RAM is volatile and there is no log: invalid pages that wait for their bits, and the flags of obsolete bits,
//!   survive a power cut only because a battery lasts until they are written ([`FlashBitmap::write_back_step`]).
//!   Without it a reopened block would get its old bits back and lose data.
//!
//! Layout: all bits of a block are in one bitmap page, so that a query is one read. A block with more pages than a
//! bitmap page has bits takes several bitmap pages of its own. The bits of a bitmap page after the last whole block are
//! not used. The owner in the OOB is the number of the bitmap page. A bitmap page that was never written holds zeros.
//!
//! Invariant: a page is invalid if its bit on flash is set and not obsolete, or if the page waits in RAM for its bit.

use std::collections::VecDeque;

use super::ValidityStore;
use crate::address::{BlockId, OptionalAddress, Ppn};
use crate::data::{Content, Fingerprint};
use crate::divide::Divider;
use crate::error::Result;
use crate::events::MetadataWriteReason;
use crate::nand::{Geometry, Oob};
use crate::operation::Cause;
use crate::store::{FlashPageStore, Stream};

/// Bytes of RAM per page of the validity bitmap on flash: the directory stores the PPN of each.
const DIRECTORY_ENTRY_BYTES: u64 = 4;

/// Options of the page validity bitmap on flash ([`FlashBitmap`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlashBitmapOptions {
    /// Whether one write of a bitmap page sets the bits of all invalid pages that wait in RAM for this bitmap page. If
    /// false, one write sets one bit, which is the cost model of the papers (μ-FTL, `GeckoFTL`).
    pub batches_updates: bool,
}

/// Position of the bit of a data page in the validity bitmap on flash.
#[derive(Clone, Copy)]
struct BitPosition {
    /// Number of the page of the validity bitmap that holds the bit.
    bitmap_page_number: u32,
    /// Index of the bit in its page of the validity bitmap.
    bit_index_in_page: u32,
}

/// Page validity bitmap on flash (bit set = invalid page), with a directory of its pages in RAM.
#[derive(Clone, Debug)]
pub struct FlashBitmap {
    /// Options of the validity bitmap on flash.
    options: FlashBitmapOptions,
    /// Number of blocks of the device.
    block_count: u32,
    /// Number of pages of a block (erase unit of the FTL).
    block_pages: u32,
    /// Divider by the number of pages of a block, which turns a PPN into a block number.
    pages_per_block_divider: Divider,
    /// Validity bits per block part. A part is a whole block, unless a block has more pages than a bitmap page has
    /// bits.
    validity_bits_per_block_part: u32,
    /// Number of parts into which the validity bits of a block are cut: more than one only if a block has more pages
    /// than a bitmap page has bits.
    bitmap_parts_per_block: u32,
    /// Number of block parts whose bits are on one page of the bitmap. A part is a whole block, unless a block has more
    /// pages than a bitmap page has bits.
    block_parts_per_bitmap_page: u32,
    /// PPN of each page of the validity bitmap; [`Ppn::NONE`] if it was never written.
    bitmap_page_ppns: Vec<Ppn>,
    /// For each block (or part of a large block), whether its bits on flash are obsolete, because they are older than
    /// the last opening of the block. Obsolete bits count as zeros.
    are_bits_of_block_part_obsolete: Vec<bool>,
    /// Number of the bitmap page at which a search for obsolete bits (older than the last opening of their block)
    /// starts. No bitmap page with a smaller number has any.
    obsolete_bits_search_start_page: u32,
    /// Invalid pages whose bits are not set on flash yet, oldest first.
    waiting_invalid_pages: VecDeque<Ppn>,
    /// Buffer for one page of the bitmap that is read or written.
    page_buffer: Vec<u8>,
}

impl FlashBitmap {
    /// Creates a validity bitmap on flash in which every page of the device counts as valid; nothing is written.
    pub fn new(geometry: &Geometry, options: FlashBitmapOptions) -> Self {
        let (block_count, block_pages) = (geometry.blocks(), geometry.block_pages());
        let page_bits = geometry.page_bytes * 8;
        let validity_bits_per_block_part = block_pages.min(page_bits);
        let (bitmap_parts_per_block, block_parts_per_bitmap_page) =
            (block_pages.div_ceil(validity_bits_per_block_part), page_bits / validity_bits_per_block_part);
        let slots = block_count * bitmap_parts_per_block;
        Self {
            options,
            block_count,
            block_pages,
            pages_per_block_divider: Divider::new(block_pages),
            validity_bits_per_block_part,
            bitmap_parts_per_block,
            block_parts_per_bitmap_page,
            bitmap_page_ppns: vec![Ppn::NONE; slots.div_ceil(block_parts_per_bitmap_page) as usize],
            are_bits_of_block_part_obsolete: vec![false; slots as usize],
            obsolete_bits_search_start_page: 0,
            waiting_invalid_pages: VecDeque::new(),
            page_buffer: vec![0; geometry.page_bytes as usize],
        }
    }

    /// Returns the number of pages of the validity bitmap of the whole device.
    pub fn bitmap_page_count(&self) -> u32 {
        self.bitmap_page_ppns.len() as u32
    }

    /// Returns the number of invalid pages whose bits [`ValidityStore::execute_next_deferred_validity_write`] has not
    /// set on flash yet.
    pub fn waiting_invalid_page_count(&self) -> usize {
        self.waiting_invalid_pages.len()
    }

    /// Finds, after a loss of RAM, the newest version on flash of each page of the validity bitmap. `pages` are all
    /// pages of the bitmap that a scan of the flash found. Performs no flash operation. Reports that were only in RAM
    /// are lost: see [`FlashBitmap::write_back_step`].
    pub fn recover(&mut self, pages: &[(Ppn, Oob)]) {
        let mut newest = vec![0; self.bitmap_page_ppns.len()];
        self.bitmap_page_ppns.fill(Ppn::NONE);
        self.are_bits_of_block_part_obsolete.fill(false);
        self.waiting_invalid_pages.clear();
        for &(ppn, oob) in pages {
            let id = oob.owner as usize;
            if oob.sequence_number > newest[id] {
                (self.bitmap_page_ppns[id], newest[id]) = (ppn, oob.sequence_number);
            }
        }
    }

    /// Whether RAM holds changes of the validity bitmap that are not on flash: an invalid page, or the fact that a
    /// block's bits are obsolete. O(blocks) at worst.
    pub fn has_unwritten_records(&self) -> bool {
        !self.waiting_invalid_pages.is_empty() || self.first_page_with_obsolete_bits().is_some()
    }

    /// Writes one page of the validity bitmap with all of its changes that exist only in RAM; returns `false` if no
    /// bitmap page has such changes. Called repeatedly at shutdown, or on battery power when power fails. Costs one
    /// read and one program.
    ///
    /// # Errors
    /// Any error of the flash; nothing is lost then.
    pub fn write_back_step(&mut self, io: &mut FlashPageStore) -> Result<bool> {
        let waiting =
            self.waiting_invalid_pages.front().map(|&ppn| self.bit_position(ppn).bitmap_page_number);
        let unwritten = waiting.or_else(|| self.first_page_with_obsolete_bits());
        match unwritten {
            Some(id) => self.write_bitmap_page(io, id, true)?,
            None => self.obsolete_bits_search_start_page = self.bitmap_page_count(),
        }
        Ok(unwritten.is_some())
    }

    /// Calls `invalid` for each block that has invalid pages, with a bitmap of these pages: bit `k` is page `k` of the
    /// block. Reads every page of the validity bitmap on flash once.
    ///
    /// # Errors
    /// Any error of the flash.
    pub fn for_each_block_with_invalid_pages(
        &mut self,
        io: &mut FlashPageStore,
        mut invalid: impl FnMut(BlockId, &[u64]),
    ) -> Result<()> {
        let mut words = vec![0_u64; self.block_pages.div_ceil(64) as usize];
        let mut loaded = None;
        for block in (0..self.block_count).map(BlockId) {
            words.fill(0);
            let first = block.0 * self.block_pages;
            for offset in 0..self.block_pages {
                let place = self.bit_position(Ppn(first + offset));
                if loaded != Some(place.bitmap_page_number) {
                    self.load_bitmap_page(io, place.bitmap_page_number)?;
                    self.apply_waiting_invalid_pages(place.bitmap_page_number);
                    loaded = Some(place.bitmap_page_number);
                }
                words[offset as usize / 64] |=
                    u64::from(is_bit_set(&self.page_buffer, place.bit_index_in_page)) << (offset % 64);
            }
            if words.iter().any(|&word| word != 0) {
                invalid(block, &words);
            }
        }
        Ok(())
    }

    /// Returns where the bit of a data page is: the number of its bitmap page, and its index in that page.
    #[inline]
    fn bit_position(&self, ppn: Ppn) -> BitPosition {
        let block = self.pages_per_block_divider.quotient(ppn.0);
        let offset = ppn.0 - block * self.block_pages;
        let (part, bit) = if self.bitmap_parts_per_block == 1 {
            (0, offset)
        } else {
            (offset / self.validity_bits_per_block_part, offset % self.validity_bits_per_block_part)
        };
        let slot = block * self.bitmap_parts_per_block + part;
        let bitmap_page_number = slot / self.block_parts_per_bitmap_page;
        BitPosition {
            bitmap_page_number,
            bit_index_in_page: (slot - bitmap_page_number * self.block_parts_per_bitmap_page)
                * self.validity_bits_per_block_part
                + bit,
        }
    }

    /// Returns the range of block parts (usually whole blocks), by number, whose bits are on page `id` of the validity
    /// bitmap.
    fn block_parts_of_bitmap_page(&self, id: u32) -> std::ops::Range<usize> {
        let first = (id * self.block_parts_per_bitmap_page) as usize;
        first
            ..(first + self.block_parts_per_bitmap_page as usize)
                .min(self.are_bits_of_block_part_obsolete.len())
    }

    /// Returns the number of the first page of the validity bitmap on flash that has obsolete bits (older than the last
    /// opening of their block). A bitmap page that was never written holds zeros and is not returned.
    fn first_page_with_obsolete_bits(&self) -> Option<u32> {
        (self.obsolete_bits_search_start_page..self.bitmap_page_count()).find(|&id| {
            self.bitmap_page_ppns[id as usize].to_option().is_some()
                && self.are_bits_of_block_part_obsolete[self.block_parts_of_bitmap_page(id)].contains(&true)
        })
    }

    /// Reads page `id` of the validity bitmap into the page buffer in RAM and zeroes its obsolete bits (older than the
    /// last opening of their block). Costs one flash read, or none if the bitmap page was never written.
    fn load_bitmap_page(&mut self, io: &mut FlashPageStore, id: u32) -> Result<()> {
        let Some(place) = self.bitmap_page_ppns[id as usize].to_option() else {
            self.page_buffer.fill(0);
            return Ok(());
        };
        io.read(place, &mut self.page_buffer, Cause::Validity)?;
        for (k, slot) in (0..).zip(self.block_parts_of_bitmap_page(id)) {
            if self.are_bits_of_block_part_obsolete[slot] {
                clear_bits(
                    &mut self.page_buffer,
                    k * self.validity_bits_per_block_part,
                    self.validity_bits_per_block_part,
                );
            }
        }
        Ok(())
    }

    /// Sets, in the copy in RAM of page `bitmap_page_number` of the validity bitmap, the bits of all invalid pages that
    /// wait for this bitmap page.
    fn apply_waiting_invalid_pages(&mut self, bitmap_page_number: u32) {
        for &ppn in &self.waiting_invalid_pages {
            let place = self.bit_position(ppn);
            if place.bitmap_page_number == bitmap_page_number {
                set_bit(&mut self.page_buffer, place.bit_index_in_page);
            }
        }
    }

    /// Writes page `id` of the validity bitmap. With `applies_all_reports`, the bits of all invalid pages that wait for
    /// this bitmap page are set first. Without, only the bit of the page that waits longest is set, which must belong
    /// to this bitmap page.
    fn write_bitmap_page(
        &mut self,
        io: &mut FlashPageStore,
        id: u32,
        applies_all_reports: bool,
    ) -> Result<()> {
        self.load_bitmap_page(io, id)?;
        if applies_all_reports {
            self.apply_waiting_invalid_pages(id);
        } else {
            let oldest = *self.waiting_invalid_pages.front().expect("a report is applied only if one waits");
            let place = self.bit_position(oldest);
            set_bit(&mut self.page_buffer, place.bit_index_in_page);
        }
        let pool = io.take_append_pool(Stream::Validity);
        let content = Content::Bytes(&self.page_buffer);
        let place =
            io.append_page(Stream::Validity, pool, id, content, Fingerprint::default(), Cause::Validity)?;
        let old = std::mem::replace(&mut self.bitmap_page_ppns[id as usize], place);
        let slots = self.block_parts_of_bitmap_page(id);
        self.are_bits_of_block_part_obsolete[slots].fill(false);
        self.drop_waiting_invalid_pages(id, applies_all_reports);
        if let Some(old) = old.to_option() {
            io.count_page_invalid(old);
        }
        Ok(())
    }

    /// Removes the waiting invalid pages whose bits were just set on flash: all that belong to this bitmap page, or
    /// only the page that waits longest.
    fn drop_waiting_invalid_pages(&mut self, bitmap_page_number: u32, all_of_page: bool) {
        if all_of_page {
            let mut queue = std::mem::take(&mut self.waiting_invalid_pages);
            queue.retain(|&ppn| self.bit_position(ppn).bitmap_page_number != bitmap_page_number);
            self.waiting_invalid_pages = queue;
        } else {
            self.waiting_invalid_pages.pop_front();
        }
    }
}

impl ValidityStore for FlashBitmap {
    #[inline]
    fn invalidate(&mut self, ppn: Ppn) {
        self.waiting_invalid_pages.push_back(ppn);
    }

    /// Marks the bits of the block on flash as obsolete and drops the block's invalid pages that wait in RAM. O(waiting
    /// pages).
    fn record_block_opened(&mut self, block: BlockId) {
        let first = block.0 * self.bitmap_parts_per_block;
        self.are_bits_of_block_part_obsolete[first as usize..(first + self.bitmap_parts_per_block) as usize]
            .fill(true);
        self.obsolete_bits_search_start_page =
            self.obsolete_bits_search_start_page.min(first / self.block_parts_per_bitmap_page);
        self.waiting_invalid_pages.retain(|&ppn| self.pages_per_block_divider.quotient(ppn.0) != block.0);
    }

    /// Appends the valid pages of the block to `out`. Reads each page of the validity bitmap that has bits of the
    /// block, usually one, unless the block's bits on flash are obsolete.
    fn append_valid_pages(
        &mut self,
        io: &mut FlashPageStore,
        block: BlockId,
        out: &mut Vec<Ppn>,
    ) -> Result<()> {
        let pages = block.0 * self.block_pages..(block.0 + 1) * self.block_pages;
        for part in 0..self.bitmap_parts_per_block {
            let first = pages.start + part * self.validity_bits_per_block_part;
            let id = self.bit_position(Ppn(first)).bitmap_page_number;
            if self.are_bits_of_block_part_obsolete[(block.0 * self.bitmap_parts_per_block + part) as usize] {
                self.page_buffer.fill(0);
            } else {
                self.load_bitmap_page(io, id)?;
            }
            self.apply_waiting_invalid_pages(id);
            let count = self.validity_bits_per_block_part.min(pages.end - first);
            out.extend(
                (first..first + count)
                    .map(Ppn)
                    .filter(|&ppn| !is_bit_set(&self.page_buffer, self.bit_position(ppn).bit_index_in_page)),
            );
        }
        Ok(())
    }

    /// Sets, in the validity bitmap on flash, the bit of the invalid page that waits longest. With
    /// [`FlashBitmapOptions::batches_updates`] the bits of all waiting pages that belong to the same bitmap page are
    /// set too. Costs one read and one program.
    fn execute_next_deferred_validity_write(&mut self, io: &mut FlashPageStore) -> Result<bool> {
        let Some(&oldest) = self.waiting_invalid_pages.front() else { return Ok(false) };
        io.flash_ops.record_metadata_reason(MetadataWriteReason::ValidityBitmapUpdate);
        self.write_bitmap_page(
            io,
            self.bit_position(oldest).bitmap_page_number,
            self.options.batches_updates,
        )?;
        Ok(true)
    }

    fn holds_current_metadata_page(&self, id: u32, ppn: Ppn) -> bool {
        self.bitmap_page_ppns.get(id as usize) == Some(&ppn)
    }

    fn record_metadata_page_move(&mut self, id: u32, from: Ppn, to: Ppn) {
        assert!(
            self.holds_current_metadata_page(id, from),
            "GC moved page {from}, which is not the current version of page {id} of the validity bitmap"
        );
        self.bitmap_page_ppns[id as usize] = to;
    }

    fn max_page_writes_per_deferred_step(&self) -> u32 {
        1
    }

    /// Returns the maximum number of flash pages of the validity bitmap: every bitmap page once, and one more while a
    /// new version is written, because the old version is discarded in the same call.
    fn max_metadata_pages(&self) -> u64 {
        self.bitmap_page_ppns.len() as u64 + 1
    }

    /// Returns the bytes of RAM for the validity bitmap on flash, by data structure. Invalid pages that wait for their
    /// bits to be set are not listed: in practice there is one.
    fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("validity bitmap directory", self.bitmap_page_ppns.len() as u64 * DIRECTORY_ENTRY_BYTES),
            ("void bitmap blocks", self.are_bits_of_block_part_obsolete.len().div_ceil(8) as u64),
            ("validity bitmap buffer", self.page_buffer.len() as u64),
        ]
    }
}

/// Returns whether bit number `bit` of a bitmap page is set.
#[inline]
fn is_bit_set(page: &[u8], bit: u32) -> bool {
    page[bit as usize / 8] >> (bit % 8) & 1 == 1
}

/// Sets bit number `bit` of a bitmap page.
#[inline]
fn set_bit(page: &mut [u8], bit: u32) {
    page[bit as usize / 8] |= 1 << (bit % 8);
}

/// Zeroes `count` bits of a bitmap page, starting at bit `first`.
fn clear_bits(page: &mut [u8], first: u32, count: u32) {
    let end = first + count;
    let mut bit = first;
    while bit < end {
        if bit.is_multiple_of(8) && end - bit >= 8 {
            let bytes = (end - bit) / 8;
            page[bit as usize / 8..(bit / 8 + bytes) as usize].fill(0);
            bit += bytes * 8;
        } else {
            page[bit as usize / 8] &= !(1 << (bit % 8));
            bit += 1;
        }
    }
}
