//! Page-level validity of data: which pages of a victim block does GC have to move?
//!
//! *Counts* of valid pages per block are in the block table, in RAM, for every design. Metadata pages need no validity
//! store, because the owner of each knows the current PPN. What can be chosen is the validity of single data pages: one
//! bit per page in RAM, or a validity store on flash that is written through the store like any metadata, so that its
//! cost is counted as it arises.
//!
//! A validity store on flash is notified of three events. A page became invalid ([`ValidityStore::invalidate`], no
//! flash operation). A block was opened for data, which voids everything recorded about its pages before
//! ([`ValidityStore::record_block_opened`]). The device has room for one of its own pages
//! ([`ValidityStore::execute_next_deferred_validity_write`]). It answers one query, at the cost of flash reads: which
//! pages of a block were not reported as invalid since the block was opened ([`ValidityStore::append_valid_pages`]).
//!
//! Invariant: between [`ValidityStore::record_block_opened`] and the erase of a block, a page is reported as invalid at
//! most once, unless power was lost. After a recovery it may be reported again, which changes nothing. Pages that
//! recycling makes valid again are recorded separately ([`ValidityStoreWithRevivedPages`]). Pages that pack several
//! pieces of data (deltas, compressed chunks) are not recorded at all: the table of the delta or chunk mechanism tells
//! whether it still needs them.

mod any_validity_store;
mod flash_bitmap;
mod gecko;
mod log;
mod log_page;
mod ram_bitmap;
mod revived;

pub use any_validity_store::{AnyValidityStore, ValidityStoreKind};
pub use flash_bitmap::{FlashBitmap, FlashBitmapOptions};
pub use gecko::{Gecko, GeckoCounts, GeckoOptions, MergeMode};
pub use log::{ValidityLog, ValidityLogCounts, ValidityLogOptions};
pub use ram_bitmap::RamBitmap;
pub use revived::ValidityStoreWithRevivedPages;

use crate::address::{BlockId, Ppn};
use crate::error::Result;
use crate::store::FlashPageStore;

/// Whether the page with this `offset` in its block is set in `pages`, a bitmap of a block's pages.
pub(crate) fn is_page_bit_set(pages: &[u64], offset: u32) -> bool {
    pages[offset as usize / 64] >> (offset % 64) & 1 == 1
}

/// Record of which data pages are invalid: the operations that every implementation provides, in RAM or on flash.
pub trait ValidityStore {
    /// Records that the data of page `ppn` is obsolete. Performs no flash operation:
    /// [`ValidityStore::execute_next_deferred_validity_write`] later writes the record to flash.
    fn invalidate(&mut self, ppn: Ppn);

    /// Records that `block` was opened for data. From then on all its pages count as valid until they are reported as
    /// invalid.
    fn record_block_opened(&mut self, block: BlockId);

    /// Appends to `out`, in ascending order, the pages of `block` that were not reported as invalid since the block was
    /// opened. Pages that are not programmed yet are included.
    ///
    /// # Errors
    /// Any error of the flash.
    fn append_valid_pages(
        &mut self,
        io: &mut FlashPageStore,
        block: BlockId,
        out: &mut Vec<Ppn>,
    ) -> Result<()>;

    /// Executes one step of the flash writes that the record of invalid pages has deferred. A step appends at most one
    /// flash page. Returns `false` if there was nothing to do.
    ///
    /// # Errors
    /// Any error of the flash.
    fn execute_next_deferred_validity_write(&mut self, io: &mut FlashPageStore) -> Result<bool>;

    /// Whether flash page `ppn` holds a current part of the record of invalid pages on flash. `id` is the owner in the
    /// page's OOB.
    fn holds_current_metadata_page(&self, id: u32, ppn: Ppn) -> bool;

    /// Records that GC moved a flash page of the record of invalid pages from PPN `from` to PPN `to`. `id` is the owner
    /// in the page's OOB.
    fn record_metadata_page_move(&mut self, id: u32, from: Ppn, to: Ppn);

    /// Returns the maximum number of flash pages that one [`ValidityStore::execute_next_deferred_validity_write`]
    /// writes; 0 for a validity bitmap in RAM.
    fn max_page_writes_per_deferred_step(&self) -> u32;

    /// Returns the maximum number of flash pages that the record of invalid pages occupies. Pages that are being
    /// replaced, and are still needed until then, are included.
    fn max_metadata_pages(&self) -> u64;

    /// Returns the bytes of controller RAM that the record of invalid pages needs, one pair of name and bytes per data
    /// structure.
    fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)>;
}
