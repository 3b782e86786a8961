//! An ideal reverse map: returns every referrer (logical page) of a physical page without cost, without a limit of
//! entries.
//!
//! It models designs whose OOB can be rewritten, or which know all referrers in advance, and is the upper bound for any
//! real reverse map (the paper's Opt). Its entries are in RAM that survives a power loss; the price of that is not
//! modelled.
//!
//! Invariant: an entry exists exactly while its bind is current. Tombstones (records of trims) are not kept, because
//! recovery rebuilds nothing from entries.

use std::slice;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::{BlockId, ENTRY_BYTES, LivenessOf, Lpn, Ppn, ReverseMap, ReverseMapEntry};
use crate::address::Address;
use crate::error::Result;
use crate::nand::Nand;
use crate::store::Store;
use crate::tables::PageSet;

/// A logical page that a bind (mapping without a program) mapped to a physical page, with the sequence number of its
/// reverse-map entry. The number is stored in two halves, so that an element of the hash map takes sixteen bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct BoundLpn {
    lpn: Lpn,
    sequence_halves: [u32; 2],
}

impl BoundLpn {
    fn from_entry(entry: &ReverseMapEntry) -> Self {
        Self {
            lpn: entry.lpn,
            sequence_halves: [entry.sequence_number as u32, (entry.sequence_number >> 32) as u32],
        }
    }

    /// Creates a placeholder for several logical pages bound (mapped without a program) to one physical page; they are
    /// in the list with index `list`.
    fn placeholder_for_list(list: usize) -> Self {
        Self { lpn: Lpn::NONE, sequence_halves: [list as u32, 0] }
    }

    /// Returns the index of the list of bound logical pages (mapped without a program) for which this placeholder
    /// stands; `None` if this is a single bound logical page.
    fn list_index(self) -> Option<usize> {
        (self.lpn == Lpn::NONE).then_some(self.sequence_halves[0] as usize)
    }

    fn to_entry(self, place: Ppn) -> ReverseMapEntry {
        let [low, high] = self.sequence_halves.map(u64::from);
        ReverseMapEntry {
            lpn: self.lpn,
            bound_ppn: Some(place),
            relocation_source_or_range_end: None,
            sequence_number: low | high << 32,
        }
    }
}

/// The ideal reverse map: holds in RAM, without limit or cost, the logical pages that are bound to each physical page
/// (mapped to it without a program).
#[derive(Clone, Debug)]
pub struct IdealReverseMap {
    /// The logical page bound to (mapped without a program to) each physical page or chunk member. If there are
    /// several, a placeholder with the index of their list.
    bound_lpns_by_ppn: HashMap<Ppn, BoundLpn, FxBuildHasher>,
    /// Lists of two or more logical pages that are bound to one physical page (mapped to it without a program), oldest
    /// first. Lists that are not in use are empty.
    bound_lpn_lists: Vec<Vec<BoundLpn>>,
    unused_list_indices: Vec<usize>,
    /// Physical pages to which logical pages are bound, so that a query for a whole block reads only a few words of
    /// this bitmap. Members of compressed chunks are not included.
    pages_with_binders: PageSet,
    physical_pages: u64,
    entry_count: u64,
}

impl IdealReverseMap {
    /// Creates an empty ideal reverse map for a device of `physical_pages` pages.
    pub fn new(physical_pages: u64) -> Self {
        Self {
            bound_lpns_by_ppn: HashMap::default(),
            bound_lpn_lists: Vec::new(),
            unused_list_indices: Vec::new(),
            pages_with_binders: PageSet::new(physical_pages),
            physical_pages,
            entry_count: 0,
        }
    }

    fn is_physical_page(&self, place: Ppn) -> bool {
        u64::from(place.0) < self.physical_pages
    }

    /// Returns the bound logical pages (mapped without a program) for which `binder` stands, oldest first: only itself,
    /// or those of its list if it is a placeholder.
    fn bound_lpns_for<'a>(&'a self, binder: &'a BoundLpn) -> &'a [BoundLpn] {
        binder.list_index().map_or(slice::from_ref(binder), |list| &self.bound_lpn_lists[list])
    }

    /// Returns the reverse-map entries of all logical pages bound (mapped without a program) to the physical page
    /// `place`.
    pub fn entries_at(&self, place: Ppn) -> Vec<ReverseMapEntry> {
        let binders =
            self.bound_lpns_by_ppn.get(&place).map_or(&[][..], |binder| self.bound_lpns_for(binder));
        binders.iter().map(|binder| binder.to_entry(place)).collect()
    }

    /// Removes the record of the physical page `place`, to which no logical page is bound any more.
    fn remove_unbound_page(&mut self, place: Ppn) {
        self.bound_lpns_by_ppn.remove(&place);
        if self.is_physical_page(place) {
            self.pages_with_binders.remove(place);
        }
    }

    /// Adds the logical page `binder` to those bound to one physical page, for which `first` stands so far. Creates a
    /// list if `first` is a single logical page. Returns the placeholder for the list.
    fn add_bound_lpn(&mut self, first: BoundLpn, binder: BoundLpn) -> BoundLpn {
        if let Some(list) = first.list_index() {
            self.bound_lpn_lists[list].push(binder);
            return first;
        }
        let list = self.unused_list_indices.pop().unwrap_or(self.bound_lpn_lists.len());
        if list == self.bound_lpn_lists.len() {
            self.bound_lpn_lists.push(Vec::new());
        }
        self.bound_lpn_lists[list].extend([first, binder]);
        BoundLpn::placeholder_for_list(list)
    }

    /// Removes `lpn` from the logical pages bound to one physical page, for which `binder` stands. Returns the single
    /// logical page that remains, or the placeholder for several; `None` if none remains.
    fn remove_bound_lpn(&mut self, binder: BoundLpn, lpn: Lpn) -> Option<BoundLpn> {
        let at = self.bound_lpns_for(&binder).iter().position(|binder| binder.lpn == lpn);
        let at = at.expect("the binder was recorded");
        let list = binder.list_index()?;
        self.bound_lpn_lists[list].remove(at);
        let [one] = self.bound_lpn_lists[list][..] else { return Some(binder) };
        self.bound_lpn_lists[list].clear();
        self.unused_list_indices.push(list);
        Some(one)
    }
}

impl ReverseMap for IdealReverseMap {
    fn admit_entry<N: Nand>(&mut self, _: &mut Store<N>, _: LivenessOf<'_>) -> Result<bool> {
        Ok(true)
    }

    fn record_entry<N: Nand>(
        &mut self,
        _: &mut Store<N>,
        entry: ReverseMapEntry,
        _: LivenessOf<'_>,
    ) -> Result<()> {
        if let Some(place) = entry.bound_ppn {
            let binder = BoundLpn::from_entry(&entry);
            if let Some(first) = self.bound_lpns_by_ppn.insert(place, binder) {
                let several = self.add_bound_lpn(first, binder);
                self.bound_lpns_by_ppn.insert(place, several);
            }
            self.entry_count += 1;
            if self.is_physical_page(place) {
                self.pages_with_binders.insert(place);
            }
        }
        Ok(())
    }

    fn mark_bind_superseded<N: Nand>(&mut self, _: &mut Store<N>, lpn: Lpn, place: Ppn) {
        let binder = self.bound_lpns_by_ppn[&place];
        match self.remove_bound_lpn(binder, lpn) {
            Some(binder) => _ = self.bound_lpns_by_ppn.insert(place, binder),
            None => self.remove_unbound_page(place),
        }
        self.entry_count -= 1;
    }

    fn scan_entries_of_block<N: Nand>(
        &mut self,
        io: &mut Store<N>,
        block: BlockId,
        out: &mut Vec<ReverseMapEntry>,
    ) -> Result<()> {
        let mut places = Vec::new();
        self.pages_with_binders.append_pages_in_range(
            io.geometry().first_page(block),
            io.geometry().block_pages(),
            &mut places,
        );
        out.extend(places.into_iter().flat_map(|place| self.entries_at(place)));
        Ok(())
    }

    fn drop_entries_of_block<N: Nand>(&mut self, io: &mut Store<N>, block: BlockId) -> Result<()> {
        let is_free =
            self.pages_with_binders.is_disjoint(io.geometry().first_page(block), io.geometry().block_pages());
        assert!(is_free, "a page of erased block {block} is still bound");
        Ok(())
    }

    fn recover<N: Nand>(&mut self, io: &mut Store<N>) -> Result<Vec<ReverseMapEntry>> {
        Ok(self.all_entries(io))
    }

    fn all_entries<N: Nand>(&self, _: &Store<N>) -> Vec<ReverseMapEntry> {
        self.bound_lpns_by_ppn.keys().flat_map(|&place| self.entries_at(place)).collect()
    }

    fn valid_entry_count(&self) -> u64 {
        self.entry_count
    }

    fn ram_bytes(&self) -> Vec<(&'static str, u64)> {
        vec![("reverse map (battery-backed)", self.entry_count * ENTRY_BYTES)]
    }

    fn check_invariants(&self) -> std::result::Result<(), String> {
        let counted: usize =
            self.bound_lpns_by_ppn.values().map(|binder| self.bound_lpns_for(binder).len()).sum();
        if counted as u64 != self.entry_count {
            return Err(format!(
                "audit of the ideal reverse map: it holds {counted} bound logical pages, but the total says {}",
                self.entry_count
            ));
        }
        let of_pages = self.bound_lpns_by_ppn.keys().filter(|&&place| self.is_physical_page(place));
        let marked = of_pages.clone().filter(|&&place| self.pages_with_binders.contains(place)).count();
        if (marked, marked as u64) == (of_pages.clone().count(), self.pages_with_binders.len()) {
            Ok(())
        } else {
            Err(format!(
                "audit of the ideal reverse map: {} pages are marked as bound, but {} pages have binders, \
                 of which {marked} have the mark",
                self.pages_with_binders.len(),
                of_pages.count()
            ))
        }
    }
}
