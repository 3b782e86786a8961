//! Owners of pages whose spare area is out of date.
//!
//! The spare area is written once, with the page. So after a page is recycled, its spare area names the logical page
//! that wrote the content, not the one that owns it now. Only recycled pages can be wrong, and they are few, so their
//! owners are in a sparse map; for all others the spare area is right. The price is a probe for recycled pages and one
//! bit for the rest. In a drive this map is part of the battery-backed RAM (paper, section IV-A).
//!
//! Invariant: a page has an entry from its first recycling by another logical page until it is erased or copied.

use super::sparse_table::SparseTable;
use crate::address::{Lpn, Ppn};

/// Table of the logical pages that own recycled physical pages. The spare areas of these pages name an earlier owner.
#[derive(Clone, Debug)]
pub(super) struct OwnerTable(SparseTable<Lpn>);

impl OwnerTable {
    pub(super) fn new(physical_pages: usize) -> Self {
        Self(SparseTable::new(physical_pages))
    }

    /// Returns the logical page that owns the physical page `ppn`: the stored owner, or else `spare_owner`, the logical
    /// page that the spare area names.
    #[inline]
    pub(super) fn owner_of(&self, ppn: Ppn, spare_owner: Lpn) -> Lpn {
        self.0.get(ppn).unwrap_or(spare_owner)
    }

    /// Reads the stored owners of these physical pages, so that the cache misses of later accesses overlap
    /// ([`crate::tables::prefetch`]).
    pub(super) fn prefetch(&self, ppns: &[Ppn]) {
        self.0.prefetch(ppns);
    }

    /// Stores `lpn` as the owner of the physical page `ppn`; it overrides the owner in the spare area.
    pub(super) fn set_owner(&mut self, ppn: Ppn, lpn: Lpn) {
        self.0.insert(ppn, lpn);
    }

    /// Removes the stored owner of the physical page `ppn`, so that [`OwnerTable::owner_of`] returns the owner named in
    /// its spare area again. The caller must know that the spare area names the right owner, or that the page will be
    /// erased before it is valid again.
    #[inline]
    pub(super) fn remove_owner(&mut self, ppn: Ppn) {
        self.0.remove(ppn);
    }

    /// Returns whether the spare areas of all `count` physical pages from `first` on name the right owner: none of the
    /// pages was recycled by another logical page.
    pub(super) fn all_match_spare_areas(&self, first: Ppn, count: u32) -> bool {
        self.0.has_no_values_in(first, count)
    }

    /// Removes the stored owners of the `count` physical pages from `first` on, which are erased.
    pub(super) fn remove_owners(&mut self, first: Ppn, count: u32) {
        self.0.remove_if(first, count, |_| true);
    }

    /// Removes the stored owners of pages that GC copied away: those of the `count` physical pages from `first` on that
    /// are in `moved`, which must be sorted.
    pub(super) fn remove_owners_of_moved_pages(&mut self, first: Ppn, count: u32, moved: &[Ppn]) {
        self.0.remove_if(first, count, |ppn| moved.binary_search(&ppn).is_ok());
    }

    /// Checks the stored owner of each physical page in a list of dead pages: it must be the logical page whose list
    /// contains the physical page. `listed` is that logical page for each physical page. Returns the first violation as
    /// a sentence.
    pub(super) fn check_stored_owners(&self, listed: &[Option<Lpn>]) -> Result<(), String> {
        let [marks, owners] = self.0.marked_page_count_and_value_count();
        if marks != owners {
            return Err(format!(
                "the number of recycled flash pages that are marked as having their owner in RAM is {marks}, but must \
                 be {owners}, the number of owners there"
            ));
        }
        for (ppn, owner) in self.0.iter() {
            let list = listed[ppn.index()];
            if let Some(list) = list.filter(|&list| list != owner) {
                return Err(format!(
                    "logical page {owner} is recorded in RAM (in place of the spare area) as the owner of flash page \
                     {ppn}, but the owner must be logical page {list}, of which that page is a version"
                ));
            }
        }
        Ok(())
    }
}
