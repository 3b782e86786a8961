//! Who owns a page whose spare area is out of date.
//!
//! The spare area is written once, with the page, so after a recycle it names the logical page that wrote the
//! content, not the one that owns it now. Only recycled pages can be wrong, and they are few, so their owners live in
//! a sparse map; for all others the spare area is right. The price is a probe for recycled pages and one bit for the
//! rest. In a drive this map is part of the battery-backed RAM (paper, section IV-A).
//!
//! Invariant: a page has an entry from its first recycle under a new owner until it is erased or copied.

use crate::address::{Lpn, Ppn};
use crate::page_set::PageSet;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// Owners of recycled pages.
#[derive(Clone, Debug)]
pub(super) struct Owners {
    overridden: PageSet,
    owners: HashMap<Ppn, Lpn, FxBuildHasher>,
}

impl Owners {
    pub(super) fn new(physical_pages: usize) -> Self {
        Self { overridden: PageSet::new(physical_pages as u64), owners: HashMap::default() }
    }

    /// The owner of `ppn`, given what its spare area says.
    #[inline]
    pub(super) fn of(&self, ppn: Ppn, spare_owner: Lpn) -> Lpn {
        if self.overridden.contains(ppn) { self.owners[&ppn] } else { spare_owner }
    }

    /// `lpn` owns `ppn` from now on, whatever its spare area says.
    pub(super) fn set(&mut self, ppn: Ppn, lpn: Lpn) {
        self.overridden.insert(ppn);
        self.owners.insert(ppn, lpn);
    }

    /// The next spare area of `ppn` will be right.
    #[inline]
    pub(super) fn forget(&mut self, ppn: Ppn) {
        if self.overridden.contains(ppn) {
            self.overridden.remove(ppn);
            self.owners.remove(&ppn);
        }
    }

    /// Whether the spare areas of `count` pages from `first` on are all right.
    pub(super) fn are_spare(&self, first: Ppn, count: u32) -> bool {
        self.overridden.is_disjoint(first, count)
    }

    /// The next spare areas of `count` pages from `first` on will be right.
    pub(super) fn forget_range(&mut self, first: Ppn, count: u32) {
        self.forget_if(first, count, |_| true);
    }

    /// The same for those of them that are in `moved`, which is in order.
    pub(super) fn forget_moved(&mut self, first: Ppn, count: u32, moved: &[Ppn]) {
        self.forget_if(first, count, |ppn| moved.binary_search(&ppn).is_ok());
    }

    fn forget_if(&mut self, first: Ppn, count: u32, is_forgotten: impl Fn(Ppn) -> bool) {
        let Self { overridden, owners } = self;
        overridden.remove_if(first, count, |ppn| is_forgotten(ppn) && owners.remove(&ppn).is_some());
    }

    pub(super) fn check(&self, listed: &[Option<Lpn>]) -> Result<(), String> {
        if self.overridden.len() as usize != self.owners.len() {
            return Err(format!("{} owner marks for {} owners", self.overridden.len(), self.owners.len()));
        }
        for (&ppn, &owner) in &self.owners {
            let list = listed[ppn.index()];
            if list.is_some_and(|list| list != owner) {
                return Err(format!("page {ppn} is owned by {owner} and listed by {list:?}"));
            }
        }
        Ok(())
    }
}
