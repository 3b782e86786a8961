//! Reports in which form a logical page is stored: as a flash page, shared, as a delta, in a compressed chunk, or
//! buffered.
//!
//! For programs that show the state of a device to its users (block status, maps of the drive). A query costs no flash
//! operation and changes no counter or state. The price: a design with its map on flash reports every page that is not
//! buffered as stored, because the exact form could cost a read.

use crate::address::{Lpn, StoredUnit, is_flash_page};
use crate::device::Device;
use crate::ftl::Ftl;
use crate::mapping::AnyMapping;

/// Form in which a logical page is stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LogicalPageForm {
    /// Nothing is stored (never written, or trimmed): the page reads as zeros.
    Hole,
    /// Stored in a flash page of its own, uncompressed and unshared.
    InOwnFlashPage,
    /// Stored in a flash page, or in a member of a compressed chunk (pages compressed together), to which other logical
    /// pages are mapped too.
    Shared,
    /// Stored as a flash page (the base) and a delta (compressed difference) to that page.
    Delta,
    /// Stored in a compressed chunk, together with other logical pages.
    CompressedInChunk,
    /// Buffered in RAM only: in the write buffer, or in the chunk buffer, where pages wait until a compressed chunk is
    /// complete.
    BufferedInRam,
}

impl LogicalPageForm {
    /// All forms in which a logical page may be stored, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Hole,
        Self::InOwnFlashPage,
        Self::Shared,
        Self::Delta,
        Self::CompressedInChunk,
        Self::BufferedInRam,
    ];

    /// Returns the name of the form in which a logical page is stored: one word, lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hole => "hole",
            Self::InOwnFlashPage => "stored",
            Self::Shared => "shared",
            Self::Delta => "delta",
            Self::CompressedInChunk => "packed",
            Self::BufferedInRam => "waiting",
        }
    }
}

impl Ftl {
    /// Returns the form in which logical page `lpn` is stored, as far as RAM knows it: with a map on flash, a page that
    /// is not buffered counts as [`LogicalPageForm::InOwnFlashPage`]. `lpn` must be within the device. O(1).
    pub fn logical_page_form(&self, lpn: Lpn) -> LogicalPageForm {
        if self.is_buffered_for_chunk(lpn) {
            return LogicalPageForm::BufferedInRam;
        }
        let place = match &self.mapping {
            AnyMapping::Flat(flat) => flat.get(lpn),
            AnyMapping::Cached(_) | AnyMapping::Journalled(_) => return LogicalPageForm::InOwnFlashPage,
        };
        self.form_of_map_entry(lpn, place)
    }

    /// Returns the form in which logical page `lpn` is stored if the L2P table maps it to `place` (a flash page or a
    /// member of a compressed chunk; `None`: unmapped). Ignores buffers in RAM.
    pub(crate) fn form_of_map_entry(&self, lpn: Lpn, place: Option<StoredUnit>) -> LogicalPageForm {
        let Some(unit) = place else { return LogicalPageForm::Hole };
        if self
            .sharing
            .as_ref()
            .is_some_and(|sharing| sharing.reference_counts.referrers_beyond_first(unit) > 0)
        {
            return LogicalPageForm::Shared;
        }
        if self.delta.as_ref().is_some_and(|stage| stage.has_delta(lpn)) {
            return LogicalPageForm::Delta;
        }
        if self.is_compressed_chunk_member(unit) {
            LogicalPageForm::CompressedInChunk
        } else {
            LogicalPageForm::InOwnFlashPage
        }
    }

    /// Returns whether `unit` is a member of a compressed chunk and not a flash page.
    fn is_compressed_chunk_member(&self, unit: StoredUnit) -> bool {
        self.compression.is_some() && !is_flash_page(unit, self.store.geometry().pages())
    }

    /// Returns the percentage of the spare blocks that are still good. Spare blocks are those that the device has in
    /// addition to the blocks that the logical pages fill. 100 on a device without bad blocks, 0 if no good block is
    /// spare. `bad_blocks` is the number of bad blocks of the device.
    pub fn available_spare_percent(&self, bad_blocks: u32) -> f64 {
        let geometry = self.store.geometry();
        let blocks = geometry.blocks() as f64;
        let needed = (self.logical_pages as u64).div_ceil(geometry.block_pages() as u64) as f64;
        let spare = blocks - bad_blocks as f64 - needed;
        (100.0 * spare / (blocks - needed)).clamp(0.0, 100.0)
    }
}

impl Device {
    /// Returns the form in which logical page `lpn` is stored, the write buffer included; `lpn` must be within the
    /// device. O(1).
    pub fn logical_page_form(&self, lpn: Lpn) -> LogicalPageForm {
        if self.is_buffered(lpn) { LogicalPageForm::BufferedInRam } else { self.ftl().logical_page_form(lpn) }
    }
}
