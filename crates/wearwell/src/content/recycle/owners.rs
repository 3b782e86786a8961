//! Who owns a page whose spare area is out of date.
//!
//! The spare area is written once, with the page, so after a recycle it names the logical page that wrote the
//! content, not the one that owns it now. Only recycled pages can be wrong, and they are few, so their owners live in
//! a sparse map; for all others the spare area is right. The price is a probe for recycled pages and one bit for the
//! rest. In a drive this map is part of the battery-backed RAM (paper, section IV-A).
//!
//! Invariant: a page has an entry from its first recycle under a new owner until it is erased or copied.

use super::sparse::SparseTable;
use crate::address::{Lpn, Ppn};

/// Owners of recycled pages.
#[derive(Clone, Debug)]
pub(super) struct Owners(SparseTable<Lpn>);

impl Owners {
    pub(super) fn new(physical_pages: usize) -> Self {
        Self(SparseTable::new(physical_pages))
    }

    /// The owner of `ppn`, given what its spare area says.
    #[inline]
    pub(super) fn of(&self, ppn: Ppn, spare_owner: Lpn) -> Lpn {
        self.0.get(ppn).unwrap_or(spare_owner)
    }

    /// `lpn` owns `ppn` from now on, whatever its spare area says.
    pub(super) fn set(&mut self, ppn: Ppn, lpn: Lpn) {
        self.0.insert(ppn, lpn);
    }

    /// The next spare area of `ppn` will be right.
    #[inline]
    pub(super) fn forget(&mut self, ppn: Ppn) {
        self.0.remove(ppn);
    }

    /// Whether the spare areas of `count` pages from `first` on are all right.
    pub(super) fn are_spare(&self, first: Ppn, count: u32) -> bool {
        self.0.has_none_of(first, count)
    }

    /// The next spare areas of `count` pages from `first` on will be right.
    pub(super) fn forget_range(&mut self, first: Ppn, count: u32) {
        self.0.remove_if(first, count, |_| true);
    }

    /// The same for those of them that are in `moved`, which is in order.
    pub(super) fn forget_moved(&mut self, first: Ppn, count: u32, moved: &[Ppn]) {
        self.0.remove_if(first, count, |ppn| moved.binary_search(&ppn).is_ok());
    }

    pub(super) fn check(&self, listed: &[Option<Lpn>]) -> Result<(), String> {
        let [marks, owners] = self.0.counts();
        if marks != owners {
            return Err(format!("{marks} owner marks for {owners} owners"));
        }
        for (ppn, owner) in self.0.iter() {
            let list = listed[ppn.index()];
            if list.is_some_and(|list| list != owner) {
                return Err(format!("page {ppn} is owned by {owner} and listed by {list:?}"));
            }
        }
        Ok(())
    }
}
