//! Page validity as a bitmap in RAM: one bit per physical page, from which GC learns which pages of a victim to move.
//!
//! *Counts* of valid pages per block are in the block table. Metadata pages have no bits that matter: the owner of each
//! knows the current PPN.
//!
//! A battery can save the bitmap when power fails ([`RamBitmap::save_to_flash`]). Page `k` of the copy holds the bits
//! of the `k`-th range of physical pages, and `k` is the owner in its spare area. The copy is obsolete as soon as it
//! has been read back, because the device then programs pages that the copy does not show.

use crate::address::{OptionalAddress, Ppn};
use crate::data::{Content, Fingerprint};
use crate::error::Result;
use crate::events::MetadataWriteReason;
use crate::nand::{Geometry, Oob};
use crate::operation::Cause;
use crate::store::{FlashPageStore, Stream};
use crate::tables::PageSet;

/// Size, in bytes, up to which a table mostly stays in the second-level cache of a processor core.
const CPU_CACHE_BYTES: u64 = 512 << 10;

/// Bitmap in RAM with one bit per physical page: 1 = valid.
#[derive(Clone, Debug)]
pub struct RamBitmap {
    /// Set of the pages that are valid.
    valid_pages: PageSet,
}

impl RamBitmap {
    /// Creates a validity bitmap in RAM of `pages` physical pages, all invalid.
    pub fn new(pages: u64) -> Self {
        Self { valid_pages: PageSet::new(pages) }
    }

    /// Marks the page as valid in the bitmap in RAM. O(1).
    #[inline]
    pub fn mark_valid(&mut self, ppn: Ppn) {
        self.valid_pages.insert(ppn);
    }

    /// Marks a valid page as invalid in the bitmap in RAM; panics if it is invalid already. O(1), one random access.
    #[inline]
    pub fn mark_invalid(&mut self, ppn: Ppn) {
        assert!(self.valid_pages.remove(ppn), "page {ppn} is invalidated, but it was not valid");
    }

    /// Whether the validity bitmap in RAM is larger than the private cache of a processor core, so that prefetching
    /// saves time.
    #[inline]
    pub(crate) fn exceeds_cpu_cache(&self) -> bool {
        self.valid_pages.memory_bytes() > CPU_CACHE_BYTES
    }

    /// Prefetches the bits of `pages` in the validity bitmap, so that the cache misses of later accesses overlap.
    #[inline]
    pub(crate) fn prefetch(&self, pages: impl Iterator<Item = Ppn>) {
        self.valid_pages.prefetch(pages);
    }

    /// Marks `count` pages from `first` on as valid in the validity bitmap in RAM. O(count / 64).
    pub fn mark_range_valid(&mut self, first: Ppn, count: u32) {
        self.valid_pages.insert_range(first, count);
    }

    /// Marks `count` pages from `first` on as invalid in the validity bitmap in RAM. O(count / 64).
    pub fn mark_range_invalid(&mut self, first: Ppn, count: u32) {
        self.valid_pages.remove_range(first, count);
    }

    /// Whether the bitmap in RAM marks the page as valid.
    #[inline]
    pub fn is_valid(&self, ppn: Ppn) -> bool {
        self.valid_pages.contains(ppn)
    }

    /// Appends to `out`, in ascending order, those of `count` pages from `first` on that are valid. O(count / 64 +
    /// found).
    pub fn append_valid_pages(&self, first: Ppn, count: u32, out: &mut Vec<Ppn>) {
        self.valid_pages.append_pages_in_range(first, count, out);
    }

    /// Returns how many of `count` pages from `first` on are valid in the bitmap in RAM.
    pub fn count_valid_pages(&self, first: Ppn, count: u32) -> u32 {
        (first.0..first.0 + count).filter(|&ppn| self.is_valid(Ppn(ppn))).count() as u32
    }

    /// Returns the number of flash pages of the copy of the validity bitmap that a battery writes at a loss of power
    /// ([`RamBitmap::save_to_flash`]).
    pub(crate) fn saved_copy_page_count(geometry: &Geometry) -> u32 {
        geometry.pages().div_ceil(8 * u64::from(geometry.page_bytes)) as u32
    }

    /// Writes the whole validity bitmap from RAM to flash, as a battery does when power fails. There must be free flash
    /// pages for the copy ([`RamBitmap::saved_copy_page_count`]). GC must not run before
    /// [`RamBitmap::load_from_flash`], because the flash pages of the copy count as invalid at once.
    ///
    /// # Errors
    /// [`Error::Full`](crate::Error::Full) if a failed program used up the room.
    pub(crate) fn save_to_flash(&self, io: &mut FlashPageStore) -> Result<()> {
        let page_bytes = io.geometry().page_bytes as usize;
        let (mut page, mut places) = (vec![0; page_bytes], Vec::new());
        let mut outcome = Ok(());
        io.flash_ops.record_metadata_reason(MetadataWriteReason::WriteBack);
        for id in 0..Self::saved_copy_page_count(io.geometry()) {
            self.valid_pages.copy_bitmap_to(id as usize * page_bytes, &mut page);
            let (pool, content) = (io.take_append_pool(Stream::Validity), Content::Bytes(&page));
            match io.append_page(Stream::Validity, pool, id, content, Fingerprint::default(), Cause::Validity)
            {
                Ok(place) => places.push(place),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        for place in places {
            io.count_page_invalid(place);
        }
        outcome
    }

    /// Reads the newest copy of the validity bitmap from flash, as [`RamBitmap::save_to_flash`] wrote it. `pages` are
    /// all validity pages that a scan of the flash found. Costs one read per page of the copy.
    ///
    /// # Errors
    /// Any error of the flash.
    ///
    /// # Panics
    /// If a page of the copy is missing: the battery writes all of them before power is gone.
    pub(crate) fn load_from_flash(io: &mut FlashPageStore, pages: &[(Ppn, Oob)]) -> Result<Self> {
        let mut newest = vec![(0, Ppn::NONE); Self::saved_copy_page_count(io.geometry()) as usize];
        for &(ppn, oob) in pages {
            let known = &mut newest[oob.owner as usize];
            *known = (*known).max((oob.sequence_number, ppn));
        }
        let page_bytes = io.geometry().page_bytes as usize;
        let mut page = vec![0; page_bytes];
        let mut bitmap = Self::new(io.geometry().pages());
        for (id, &(sequence, place)) in newest.iter().enumerate() {
            assert!(sequence > 0, "page {id} of the bitmap that the battery saved is not on flash");
            io.read(place, &mut page, Cause::Recovery)?;
            bitmap.valid_pages.copy_bitmap_from(id * page_bytes, &page);
        }
        Ok(bitmap)
    }

    /// Returns the bytes of controller RAM for the validity bitmap.
    pub fn ram_bytes(&self) -> u64 {
        self.valid_pages.memory_bytes()
    }
}
