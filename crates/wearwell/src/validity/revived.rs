//! Revived pages: invalid pages whose content was written again, so that recycling made them valid, although the
//! validity store on flash records them as invalid.
//!
//! A validity store on flash accepts one report per page between the opening of its block and the erase. Later changes
//! of the page, to valid and to invalid again, are recorded here, in RAM: what the validity store returns is corrected
//! by this set. Price: eight bytes for every revived page that is valid, counted in
//! [`ValidityStore::ram_bytes_by_structure`] at its maximum. Nothing is written to flash. On a battery the set survives
//! a loss of power, as the recycling tables do.
//!
//! Invariant: every page of the set was reported as invalid to the validity store on flash since its block was opened.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use super::ValidityStore;
use crate::address::{BlockId, Ppn};
use crate::error::Result;
use crate::nand::Geometry;
use crate::store::FlashPageStore;

/// Bytes of RAM per revived page (an invalid page that became valid again): an entry of a half-full hash table of page
/// numbers.
const RAM_BYTES_PER_REVIVED_PAGE: u64 = 8;

/// Record of invalid pages on flash, together with a set in RAM of its pages that recycling made valid again (revived
/// pages).
#[derive(Clone, Debug)]
pub struct ValidityStoreWithRevivedPages<V> {
    /// The wrapped validity store, which records on flash which data pages are invalid.
    validity_store: V,
    /// Pages that the record on flash lists as invalid and that recycling made valid again.
    revived_pages: BTreeSet<Ppn>,
    /// Largest number of revived pages (invalid pages that became valid again) that existed at the same time.
    peak_revived_pages: usize,
    /// Number of pages of a block (erase unit of the FTL).
    block_pages: u32,
}

impl<V> ValidityStoreWithRevivedPages<V> {
    /// Combines a record of invalid pages on flash with an empty set of revived pages.
    pub(super) fn new(validity_store: V, geometry: &Geometry) -> Self {
        Self {
            validity_store,
            revived_pages: BTreeSet::new(),
            peak_revived_pages: 0,
            block_pages: geometry.block_pages(),
        }
    }

    /// Marks an invalid page as valid again, by adding it to the set of revived pages in RAM.
    pub(super) fn revive(&mut self, ppn: Ppn) {
        let is_new = self.revived_pages.insert(ppn);
        assert!(is_new, "page {ppn} is revived though it is valid");
        self.peak_revived_pages = self.peak_revived_pages.max(self.revived_pages.len());
    }

    /// Drops the set of revived pages (invalid pages that became valid again), as a loss of RAM does.
    pub(super) fn drop_revived_pages(&mut self) {
        self.revived_pages.clear();
    }

    /// Returns the first page of a block.
    fn first_page_of_block(&self, block: BlockId) -> Ppn {
        Ppn(block.0 * self.block_pages)
    }

    /// Returns the revived pages (invalid pages that became valid again) of a block, in ascending order.
    fn revived_pages_of_block(&self, block: BlockId) -> impl Iterator<Item = Ppn> {
        let first = self.first_page_of_block(block);
        self.revived_pages.range(first..=Ppn(first.0 + (self.block_pages - 1))).copied()
    }
}

impl<V> Deref for ValidityStoreWithRevivedPages<V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.validity_store
    }
}

impl<V> DerefMut for ValidityStoreWithRevivedPages<V> {
    fn deref_mut(&mut self) -> &mut V {
        &mut self.validity_store
    }
}

impl<V: ValidityStore> ValidityStore for ValidityStoreWithRevivedPages<V> {
    /// Records that the page is invalid. If recycling had made it valid again, it is removed from the set of revived
    /// pages in RAM; otherwise it is reported to the record on flash. O(log revived pages).
    #[inline]
    fn invalidate(&mut self, ppn: Ppn) {
        if self.revived_pages.is_empty() || !self.revived_pages.remove(&ppn) {
            self.validity_store.invalidate(ppn);
        }
    }

    fn record_block_opened(&mut self, block: BlockId) {
        if !self.revived_pages.is_empty() {
            let gone: Vec<Ppn> = self.revived_pages_of_block(block).collect();
            for ppn in gone {
                self.revived_pages.remove(&ppn);
            }
        }
        self.validity_store.record_block_opened(block);
    }

    fn append_valid_pages(
        &mut self,
        io: &mut FlashPageStore,
        block: BlockId,
        out: &mut Vec<Ppn>,
    ) -> Result<()> {
        let before = out.len();
        self.validity_store.append_valid_pages(io, block, out)?;
        out.extend(self.revived_pages_of_block(block));
        out[before..].sort_unstable();
        Ok(())
    }

    #[inline]
    fn execute_next_deferred_validity_write(&mut self, io: &mut FlashPageStore) -> Result<bool> {
        self.validity_store.execute_next_deferred_validity_write(io)
    }

    fn holds_current_metadata_page(&self, id: u32, ppn: Ppn) -> bool {
        self.validity_store.holds_current_metadata_page(id, ppn)
    }

    fn record_metadata_page_move(&mut self, id: u32, from: Ppn, to: Ppn) {
        self.validity_store.record_metadata_page_move(id, from, to);
    }

    #[inline]
    fn max_page_writes_per_deferred_step(&self) -> u32 {
        self.validity_store.max_page_writes_per_deferred_step()
    }

    fn max_metadata_pages(&self) -> u64 {
        self.validity_store.max_metadata_pages()
    }

    fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        let mut parts = self.validity_store.ram_bytes_by_structure();
        if self.peak_revived_pages > 0 {
            parts.push(("revived pages", self.peak_revived_pages as u64 * RAM_BYTES_PER_REVIVED_PAGE));
        }
        parts
    }
}
