//! The log-like mapping table (LMT): which physical pages still hold older versions of each logical page.
//!
//! There is one list per logical page, newest first, linked through the physical pages. A page is in at most one list,
//! so a 4-byte link per physical page holds every history without allocation. The list begins with the valid page, as
//! in the paper. Its links form a ring: the valid page names the newest dead page, and each dead page names the next
//! newer page; for the newest, this is the valid page. There is no table of heads by logical page, which would cost 3.5
//! bytes per page and one more cache miss for every page that dies: the caller that writes, moves or erases a page
//! knows its list already. The price: when a valid page with dead versions is copied, the link of the newest of them
//! must be updated, and a caller that has only the logical page must look up its valid page in the map. A trimmed
//! logical page has no valid page; the heads of such lists are in a hash map. If other mechanisms place content as
//! well, a valid page may have several owners, or a logical page no page of its own ([`ListHeadStorage::InHashMap`]):
//! then the heads of all lists are in that map.
//!
//! The position of a dead page in its list is its number of newer dead pages; the valid page is not counted. The
//! paper's formula for the recycle probability uses this number.
//!
//! Dead pages are as few as the spare space, and nearly all of them are the only dead page of their logical page. So
//! links to the next older page, which are needed to remove a page from the middle of a list at once, are in a sparse
//! table, and one bit per page tells whether the page has one.
//!
//! A dead page may also have a *slot* in the fingerprint store, and each change of a page looks up its slot. A hash
//! index for that cost two cache misses per look-up; four more bytes per page would nearly double the memory. So the
//! slot number replaces the page's link, which is moved to an array indexed by slot, and one bit per page marks this.
//! That costs no memory per page beyond the bit, and the slot is on a cache line that is needed anyway.
//!
//! If the history is that of the fingerprint store alone, only entries of the store are in lists, and the other dead
//! pages count as no versions.
//!
//! Invariants: only pages that are dead and not erased are in lists, each in one. Links of neighbours mirror each
//! other, including those of the valid page and the newest dead one. A list has a head in the map exactly if it has no
//! valid page. Only pages in lists have slots. The links of other pages have no meaning.
//!
//! Source: LX-SSD (Zhou et al.), section IV-B.1.

use arrayvec::ArrayVec;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::probability::MAX_COUNTED_NEWER_VERSIONS;
use super::sparse_table::SparseTable;
use crate::address::{Lpn, Ppn};
use crate::tables::prefetch::{HOST_WRITES_PER_PREFETCH, load_into_cpu_cache};
use crate::tables::{DenseTable, PageSet};

/// Value of a link between pages of a list that means "no further page".
const END_OF_LIST: u32 = u32::MAX;

/// Maximum number of physical pages that the 4-byte links between dead pages can address: one value of 32 bits marks
/// the end of a list.
pub(super) const MAX_LINKABLE_PAGES: u64 = END_OF_LIST as u64;

/// Where the head (the newest dead page) of each logical page's list of dead pages is stored: in the link of its valid
/// page, or in a hash map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ListHeadStorage {
    /// The link field of the logical page's valid physical page names the newest dead page (the head of the list).
    /// Requires that a valid page belongs to one logical page only.
    InLinksOfValidPages,
    /// A hash map by logical page holds the first dead page (the head) of the list of each logical page. The price: 10
    /// to 20 bytes per list, and a look-up for every page that is invalidated.
    InHashMap,
}

/// Lists of the dead (invalid, not erased) physical pages of every logical page, newest first.
#[derive(Clone, Debug)]
pub(super) struct DeadPageLists {
    /// Where the newest dead page of each logical page is stored: in a link of its valid page, or in a hash map.
    list_head_storage: ListHeadStorage,
    /// One number per physical page. For a valid page, the newest dead page of its logical page. For a dead page, the
    /// next newer page in its list. For a dead page with a slot in the fingerprint store, the slot number;
    /// `newer_links_by_slot` then has the link.
    newer_links_or_fingerprint_slots: DenseTable<u32>,
    /// For each dead page, the next older dead page of the same logical page, if there is one.
    older_links: SparseTable<Ppn>,
    /// Newest dead page of each logical page whose list of dead pages does not begin at a valid page: of each trimmed
    /// logical page, or with [`ListHeadStorage::InHashMap`] of each logical page with dead pages.
    heads_by_lpn: HashMap<Lpn, Ppn, FxBuildHasher>,
    /// Set of the dead (invalid, not erased) pages. They are exactly the pages in the lists of the logical pages.
    dead_page_set: PageSet,
    /// Set of the dead pages that have a slot in the fingerprint store (index of dead pages by content).
    pages_in_fingerprint_store: PageSet,
    /// Links to the next newer page in the list of a logical page, for dead pages with a slot in the fingerprint store
    /// (index of dead pages), by slot. For these pages, `newer_links_or_fingerprint_slots` holds the slot number.
    newer_links_by_slot: Vec<u32>,
    /// Number of dead (invalid, not erased) pages in all lists.
    dead_page_count: u64,
    /// Number of logical pages of the device.
    logical_pages: u32,
}

impl DeadPageLists {
    /// Creates empty lists of dead pages. Memory: 4 bytes and 3 bits per physical page, 4 bytes per slot of the
    /// fingerprint store, 10 to 20 bytes per dead page that has an older one, and 10 to 20 bytes per logical page whose
    /// list has no valid page.
    pub(super) fn new(list_head_storage: ListHeadStorage, physical_pages: usize, logical_pages: u32) -> Self {
        Self {
            list_head_storage,
            newer_links_or_fingerprint_slots: DenseTable::filled(physical_pages, END_OF_LIST),
            older_links: SparseTable::new(physical_pages),
            heads_by_lpn: HashMap::default(),
            dead_page_set: PageSet::new(physical_pages as u64),
            pages_in_fingerprint_store: PageSet::new(physical_pages as u64),
            newer_links_by_slot: Vec::new(),
            dead_page_count: 0,
            logical_pages,
        }
    }

    /// Returns the number of logical pages of the device. Each of them can have a list of dead pages.
    pub(super) fn logical_pages(&self) -> u32 {
        self.logical_pages
    }

    /// Returns the number of physical pages of the device.
    pub(super) fn physical_pages(&self) -> u32 {
        self.newer_links_or_fingerprint_slots.len() as u32
    }

    /// Returns the number of dead (invalid, not erased) pages in the lists.
    pub(super) fn dead_page_count(&self) -> u64 {
        self.dead_page_count
    }

    /// Returns whether the physical page `ppn` is dead (invalid and not erased), which means that it is in a list.
    #[inline]
    pub(super) fn is_dead(&self, ppn: Ppn) -> bool {
        self.dead_page_set.contains(ppn)
    }

    /// Returns where the heads of the lists of dead pages are stored: in the links of valid pages, or in a hash map by
    /// logical page.
    pub(super) fn list_head_storage(&self) -> ListHeadStorage {
        self.list_head_storage
    }

    /// Returns the newest dead page of the logical page whose valid page is `valid`. `None` if it has no dead page, or
    /// if lists of dead pages do not begin at valid pages but in a hash map by LPN.
    #[inline]
    pub(super) fn newest_dead_linked_from(&self, valid: Ppn) -> Option<Ppn> {
        if self.list_head_storage == ListHeadStorage::InLinksOfValidPages {
            linked_page(self.newer_links_or_fingerprint_slots.get(valid.index()))
        } else {
            None
        }
    }

    /// Returns the newest dead page of `lpn`; `None` if it has none. `valid` is the valid page of `lpn` (`None` if it
    /// is unmapped).
    pub(super) fn newest_dead_of(&self, lpn: Lpn, valid: Option<Ppn>) -> Option<Ppn> {
        match valid.filter(|_| self.list_head_storage == ListHeadStorage::InLinksOfValidPages) {
            Some(valid) => self.newest_dead_linked_from(valid),
            None => self.heads_by_lpn.get(&lpn).copied(),
        }
    }

    /// Returns the next older dead page in the list of dead page `ppn`: the version of the logical page that was
    /// invalidated just before `ppn`. `None` if `ppn` is the oldest.
    #[inline]
    pub(super) fn next_older(&self, ppn: Ppn) -> Option<Ppn> {
        self.older_links.get(ppn)
    }

    /// Returns the next newer page in the list of dead page `ppn`: the version of the logical page that was invalidated
    /// just after `ppn`, or the valid page. `None` if there is neither.
    #[inline]
    pub(super) fn next_newer(&self, ppn: Ppn) -> Option<Ppn> {
        let link = self.newer_links_or_fingerprint_slots.get(ppn.index());
        linked_page(if self.pages_in_fingerprint_store.contains(ppn) {
            self.newer_links_by_slot[link as usize]
        } else {
            link
        })
    }

    /// Reads the list links of the physical pages `ppns`, and the bits that tell whether a page is dead and has a store
    /// slot, so that their cache misses overlap ([`crate::tables::prefetch`]).
    pub(super) fn prefetch_links(&self, ppns: impl Iterator<Item = Ppn> + Clone) {
        let bits =
            |ppn| u64::from(self.is_dead(ppn)) + u64::from(self.pages_in_fingerprint_store.contains(ppn));
        load_into_cpu_cache(ppns.clone().map(bits));
        load_into_cpu_cache(ppns.map(|ppn| self.newer_links_or_fingerprint_slots.get(ppn.index()).into()));
    }

    /// Reads the links of the dead pages `ppns` to the next older ones, so that their cache misses overlap.
    pub(super) fn prefetch_older_links(&self, ppns: &[Ppn]) {
        self.older_links.prefetch(ppns);
    }

    /// Reads the heads of the lists of these logical pages, if a hash map holds the heads of all lists, so that their
    /// cache misses overlap.
    pub(super) fn prefetch_heads_by_lpn(&self, lpns: &[Lpn]) {
        if self.list_head_storage == ListHeadStorage::InHashMap {
            let head = |lpn| self.heads_by_lpn.get(lpn).map_or(0, |ppn| ppn.0.into());
            load_into_cpu_cache(lpns.iter().map(head));
        }
    }

    /// Reads the list links of the dead pages in these slots of the fingerprint store (index of dead pages), so that
    /// their cache misses overlap.
    pub(super) fn prefetch_newer_links_by_slot(&self, slots: &[u32]) {
        load_into_cpu_cache(slots.iter().map(|&slot| self.newer_links_by_slot[slot as usize].into()));
    }

    /// Returns the dead (invalid, not erased) pages of `lpn`, newest first; `valid` is its valid page.
    pub(super) fn dead_versions(&self, lpn: Lpn, valid: Option<Ppn>) -> impl Iterator<Item = Ppn> + '_ {
        std::iter::successors(self.newest_dead_of(lpn, valid), |&ppn| self.next_older(ppn))
    }

    /// Returns the slot of the dead page `ppn` in the fingerprint store; `None` if it has none.
    #[inline]
    pub(super) fn fingerprint_slot(&self, ppn: Ppn) -> Option<u32> {
        self.pages_in_fingerprint_store
            .contains(ppn)
            .then(|| self.newer_links_or_fingerprint_slots.get(ppn.index()))
    }

    /// Assigns `slot` of the fingerprint store to the dead page `ppn`. In the table of links the slot number replaces
    /// the page's list link, which is kept elsewhere.
    #[inline]
    pub(super) fn assign_fingerprint_slot(&mut self, ppn: Ppn, slot: u32) {
        debug_assert!(
            self.is_dead(ppn) && !self.pages_in_fingerprint_store.contains(ppn),
            "page {ppn} cannot take slot {slot}"
        );
        if self.newer_links_by_slot.len() <= slot as usize {
            self.grow_newer_links_to_slot(slot);
        }
        self.newer_links_by_slot[slot as usize] =
            self.newer_links_or_fingerprint_slots.replace(ppn.index(), slot);
        self.pages_in_fingerprint_store.insert(ppn);
    }

    /// Extends `newer_links_by_slot`, the table of list links by slot number, so that it has an element for `slot`.
    #[cold]
    fn grow_newer_links_to_slot(&mut self, slot: u32) {
        self.newer_links_by_slot.resize(slot as usize + 1, END_OF_LIST);
    }

    /// Ends the assignment of a fingerprint-store slot to the dead page `ppn`, and restores the page's list link, which
    /// the slot number had replaced.
    #[inline]
    pub(super) fn unassign_fingerprint_slot(&mut self, ppn: Ppn) {
        let slot = self.newer_links_or_fingerprint_slots.get(ppn.index());
        self.newer_links_or_fingerprint_slots.set(ppn.index(), self.newer_links_by_slot[slot as usize]);
        self.pages_in_fingerprint_store.remove(ppn);
    }

    /// Returns the number of dead pages that have a slot in the fingerprint store (index of dead pages). Counts set
    /// bits over all physical pages.
    pub(super) fn pages_with_fingerprint_slot(&self) -> u64 {
        self.pages_in_fingerprint_store.len()
    }

    /// Returns the position of dead page `ppn`: the number of newer dead pages of its logical page, at most
    /// [`MAX_COUNTED_NEWER_VERSIONS`]. Takes at most 15 steps.
    #[inline]
    pub(super) fn capped_newer_version_count(&self, ppn: Ppn) -> u8 {
        let newer = std::iter::successors(self.next_newer_dead(ppn), |&ppn| self.next_newer_dead(ppn));
        newer.take(MAX_COUNTED_NEWER_VERSIONS.into()).count() as u8
    }

    /// Returns the next newer dead page in the list of the dead page `ppn`; `None` if `ppn` is the newest.
    #[inline]
    fn next_newer_dead(&self, ppn: Ppn) -> Option<Ppn> {
        self.next_newer(ppn).filter(|&newer| self.is_dead(newer))
    }

    /// Sets the list link of the dead page `ppn` to `newer`, the number of the next newer page or [`END_OF_LIST`].
    #[inline]
    fn set_link_to_newer_page(&mut self, ppn: Ppn, newer: u32) {
        if self.pages_in_fingerprint_store.contains(ppn) {
            self.newer_links_by_slot[self.newer_links_or_fingerprint_slots.get(ppn.index()) as usize] = newer;
        } else {
            self.newer_links_or_fingerprint_slots.set(ppn.index(), newer);
        }
    }

    /// Makes the physical page `ppn`, which is in no list of dead pages, the valid page of `lpn`. If `lpn` had a valid
    /// page before, the caller must invalidate that page next.
    #[inline]
    pub(super) fn set_valid_page(&mut self, lpn: Lpn, ppn: Ppn) {
        if self.list_head_storage == ListHeadStorage::InHashMap {
            return;
        }
        self.newer_links_or_fingerprint_slots.set(ppn.index(), END_OF_LIST);
        if !self.heads_by_lpn.is_empty()
            && let Some(newest) = self.heads_by_lpn.remove(&lpn)
        {
            self.link_valid_page_to_newest_dead(ppn, newest);
        }
    }

    /// Links the valid page `valid` with `newest`, the newest dead page of its logical page.
    #[inline]
    fn link_valid_page_to_newest_dead(&mut self, valid: Ppn, newest: Ppn) {
        self.newer_links_or_fingerprint_slots.set(valid.index(), newest.0);
        self.set_link_to_newer_page(newest, valid.0);
    }

    /// Adds `ppn`, the former valid page of `lpn`, to the list of `lpn` as its newest dead page. `successor` is the new
    /// valid page of `lpn`, if there is one. Returns the next older dead page of `lpn`.
    #[inline]
    pub(super) fn push_dead(&mut self, lpn: Lpn, ppn: Ppn, successor: Option<Ppn>) -> Option<Ppn> {
        assert!(self.dead_page_set.insert_if_absent(ppn), "page {ppn} of logical page {lpn} dies twice");
        self.dead_page_count += 1;
        if self.list_head_storage == ListHeadStorage::InHashMap {
            return self.push_at_head(lpn, ppn);
        }
        let older = self.newest_dead_linked_from(ppn);
        if let Some(older) = older {
            self.older_links.insert(ppn, older);
        }
        if let Some(successor) = successor {
            self.link_valid_page_to_newest_dead(successor, ppn);
        } else {
            self.insert_head_by_lpn(lpn, ppn);
        }
        older
    }

    /// Removes `ppn`, the former valid page of `lpn`, from the beginning of the list of dead pages of `lpn`, without
    /// making it a dead page of the list. The list then begins at `successor`, the new valid page; without one, the
    /// hash map stores its first dead page.
    pub(super) fn detach_valid_page(&mut self, lpn: Lpn, ppn: Ppn, successor: Option<Ppn>) {
        match (self.newest_dead_linked_from(ppn), successor) {
            (Some(newest), Some(successor)) => self.link_valid_page_to_newest_dead(successor, newest),
            (Some(newest), None) => {
                self.insert_head_by_lpn(lpn, newest);
            }
            (None, _) => {}
        }
    }

    /// Adds `ppn` to the list of `lpn` as its newest dead page, where a hash map holds the heads of all lists. Returns
    /// the next older dead page of `lpn`.
    #[inline(never)]
    fn push_at_head(&mut self, lpn: Lpn, ppn: Ppn) -> Option<Ppn> {
        let older = self.insert_head_by_lpn(lpn, ppn);
        if let Some(older) = older {
            self.older_links.insert(ppn, older);
            self.set_link_to_newer_page(older, ppn.0);
        }
        older
    }

    /// Stores `newest` in the hash map as the head of the list of dead pages of `lpn`, because the logical page has no
    /// valid flash page at which the list could begin. Returns the head that the map had before.
    #[cold]
    fn insert_head_by_lpn(&mut self, lpn: Lpn, newest: Ppn) -> Option<Ppn> {
        self.set_link_to_newer_page(newest, END_OF_LIST);
        self.heads_by_lpn.insert(lpn, newest)
    }

    /// Removes the dead page `ppn` from the list of dead pages of `lpn`. The page must have no fingerprint-store slot.
    /// The position (number of newer dead versions) of each older page in the list decreases by one.
    #[inline]
    pub(super) fn remove_dead(&mut self, lpn: Lpn, ppn: Ppn) {
        debug_assert!(
            !self.pages_in_fingerprint_store.contains(ppn),
            "page {ppn} leaves its list and keeps its slot"
        );
        assert!(
            self.dead_page_set.remove(ppn),
            "page {ppn} is not dead and cannot leave the list of logical page {lpn}"
        );
        let (newer, older) = (
            linked_page(self.newer_links_or_fingerprint_slots.get(ppn.index())),
            self.older_links.remove(ppn),
        );
        match (newer, older) {
            (None, _) => self.remove_head_by_lpn(lpn, ppn, older),
            (Some(newer), _) if self.is_dead(newer) => self.link_dead_neighbours(newer, older),
            (Some(valid), Some(older)) => self.link_valid_page_to_newest_dead(valid, older),
            (Some(valid), None) => self.newer_links_or_fingerprint_slots.set(valid.index(), END_OF_LIST),
        }
        self.dead_page_count -= 1;
    }

    /// Links the dead page `newer` with the dead page `older`, after the page between them was removed from the list.
    /// `None` means that `newer` is the oldest page.
    fn link_dead_neighbours(&mut self, newer: Ppn, older: Option<Ppn>) {
        if let Some(older) = older {
            self.older_links.insert(newer, older);
            self.set_link_to_newer_page(older, newer.0);
        } else {
            self.older_links.remove(newer);
        }
    }

    /// Removes `ppn` from the hash map as the head of the list of `lpn`, and makes `older`, the next older dead page,
    /// the head if there is one.
    #[cold]
    fn remove_head_by_lpn(&mut self, lpn: Lpn, ppn: Ppn, older: Option<Ppn>) {
        let head = self.heads_by_lpn.remove(&lpn);
        assert!(
            head == Some(ppn),
            "page {ppn} is not the head of the list of dead pages of logical page {lpn}"
        );
        if let Some(older) = older {
            self.insert_head_by_lpn(lpn, older);
        }
    }

    /// Moves the heads of the lists of dead pages from the valid pages `from` to their GC copies `to`.
    #[inline]
    pub(super) fn relocate_heads(&mut self, from: &[Ppn], to: &[Ppn]) {
        if self.list_head_storage == ListHeadStorage::InHashMap {
            return;
        }
        for (from, to) in from.chunks(HOST_WRITES_PER_PREFETCH).zip(to.chunks(HOST_WRITES_PER_PREFETCH)) {
            let newest: ArrayVec<Ppn, HOST_WRITES_PER_PREFETCH> =
                from.iter().filter_map(|&ppn| self.newest_dead_linked_from(ppn)).collect();
            self.prefetch_links(newest.iter().copied());
            for (&from, &to) in from.iter().zip(to) {
                match self.newest_dead_linked_from(from) {
                    Some(newest) => self.link_valid_page_to_newest_dead(to, newest),
                    None => self.newer_links_or_fingerprint_slots.set(to.index(), END_OF_LIST),
                }
            }
        }
    }

    /// Appends to `out` the dead (invalid, not erased) pages among the `count` physical pages from `first` on.
    pub(super) fn list_dead_pages(&self, first: Ppn, count: u32, out: &mut Vec<Ppn>) {
        self.dead_page_set.append_pages_in_range(first, count, out);
    }

    /// Returns every dead (invalid, not erased) page of the device in page order. Scans all pages.
    pub(super) fn all_dead_pages(&self) -> impl Iterator<Item = Ppn> + '_ {
        (0..self.physical_pages()).map(Ppn).filter(|&ppn| self.is_dead(ppn))
    }

    /// Audits every list of dead pages. `map` returns the valid page of a logical page. Returns, for each physical
    /// page, the logical page in whose list it is; or the first violation, as a sentence.
    pub(super) fn check(&self, map: impl Fn(Lpn) -> Option<Ppn>) -> Result<Vec<Option<Lpn>>, String> {
        let mut owners = vec![None; self.newer_links_or_fingerprint_slots.len()];
        let (mut listed, mut lists, mut orphaned) = (0, 0, 0);
        for lpn in (0..self.logical_pages).map(Lpn) {
            let valid = map(lpn).filter(|_| self.list_head_storage == ListHeadStorage::InLinksOfValidPages);
            let length = self.check_list(lpn, valid, &mut owners)?;
            listed += length;
            lists += u64::from(length > 0);
            orphaned += usize::from(length > 0 && valid.is_none());
        }
        if orphaned != self.heads_by_lpn.len() {
            return Err(format!(
                "the number of lists of dead (invalid) pages{} is {orphaned}, so the table of list heads by logical \
                 page must have as many, but has {}",
                if self.list_head_storage == ListHeadStorage::InLinksOfValidPages {
                    " of logical pages without a valid page"
                } else {
                    ""
                },
                self.heads_by_lpn.len()
            ));
        }
        let older = self.older_links.marked_page_count_and_value_count();
        if older.map(|older| lists + older) != [listed; 2] {
            return Err(format!(
                "{lists} lists have {listed} dead (invalid) pages, so that {} must have a link to an older page, but \
                 {} are marked as having one and {} links are stored",
                listed - lists,
                older[0],
                older[1]
            ));
        }
        let marked = self.all_dead_pages().count() as u64;
        if (listed, listed) != (self.dead_page_count, marked) {
            return Err(format!(
                "the lists of dead (invalid) pages have {listed} pages, so as many must be marked and counted as \
                 dead, but {marked} are marked and the counter says {}",
                self.dead_page_count
            ));
        }
        Ok(owners)
    }

    /// Checks the list of dead pages of `lpn`, enters `lpn` in `owners` for each of them, and returns their number.
    /// Fails with the first violation, as a sentence.
    fn check_list(&self, lpn: Lpn, valid: Option<Ppn>, owners: &mut [Option<Lpn>]) -> Result<u64, String> {
        let mut newer = valid;
        let mut length = 0;
        for ppn in self.dead_versions(lpn, valid) {
            if let Some(other) = owners[ppn.index()].replace(lpn) {
                return Err(format!(
                    "flash page {ppn} must be in the list of dead (invalid) pages of one logical page, but is in \
                     those of {other} and {lpn}"
                ));
            }
            let linked = self.next_newer(ppn);
            if linked != newer {
                let name = |page: Option<Ppn>| {
                    page.map_or_else(|| "no page".to_owned(), |ppn| format!("flash page {ppn}"))
                };
                return Err(format!(
                    "flash page {ppn}, a dead (invalid) version of logical page {lpn}, links to {} as the next newer \
                     version, but must link to the version before it in the list, {}",
                    name(linked),
                    name(newer)
                ));
            }
            newer = Some(ppn);
            length += 1;
        }
        Ok(length)
    }
}

/// Returns the page that a list link names; `None` at the end of the list.
#[inline]
fn linked_page(link: u32) -> Option<Ppn> {
    (link != END_OF_LIST).then_some(Ppn(link))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the dead pages of `lpn`, newest first; `valid` is its valid page.
    fn dead_page_numbers(history: &DeadPageLists, lpn: u32, valid: Option<Ppn>) -> Vec<u32> {
        history.dead_versions(Lpn(lpn), valid).map(|ppn| ppn.0).collect()
    }

    /// Returns a history of dead pages after logical page `lpn` was written to the physical pages 0 to `pages - 1` in
    /// turn, so that all but the last are dead.
    fn history_of_overwrites(pages: u32, lpn: u32) -> DeadPageLists {
        let mut history = DeadPageLists::new(ListHeadStorage::InLinksOfValidPages, pages as usize, 2);
        history.set_valid_page(Lpn(lpn), Ppn(0));
        (1..pages).for_each(|p| overwrite_with_page(&mut history, lpn, p));
        history
    }

    /// Writes the logical page `lpn` to the physical page `p`, so that the physical page `p - 1` becomes its newest
    /// dead page.
    fn overwrite_with_page(history: &mut DeadPageLists, lpn: u32, p: u32) {
        history.set_valid_page(Lpn(lpn), Ppn(p));
        let older = history.push_dead(Lpn(lpn), Ppn(p - 1), Some(Ppn(p)));
        assert_eq!(older, (p - 1).checked_sub(1).map(Ppn));
    }

    #[test]
    fn a_dead_page_can_be_removed_from_any_position_of_the_list_of_its_logical_page() {
        for (gone, is_trimmed) in [(0, false), (1, false), (2, false), (0, true), (1, true), (2, true)] {
            let mut history = history_of_overwrites(4, 1);
            let mut expected: Vec<u32> = [2, 1, 0].into_iter().filter(|&p| p != gone).collect();
            let valid = (!is_trimmed).then_some(Ppn(3));
            if is_trimmed {
                history.push_dead(Lpn(1), Ppn(3), None);
                expected.insert(0, 3);
            }
            history.remove_dead(Lpn(1), Ppn(gone));
            assert_eq!(dead_page_numbers(&history, 1, valid), expected);
            assert!(!history.is_dead(Ppn(gone)));
            history.check(|lpn| valid.filter(|_| lpn == Lpn(1))).unwrap();
        }
    }

    #[test]
    fn fingerprint_slots_and_list_links_of_a_dead_page_share_memory_without_loss() {
        let mut history = DeadPageLists::new(ListHeadStorage::InLinksOfValidPages, 5, 1);
        history.set_valid_page(Lpn(0), Ppn(0));
        overwrite_with_page(&mut history, 0, 1);
        history.assign_fingerprint_slot(Ppn(0), 7);
        (2..5).for_each(|p| overwrite_with_page(&mut history, 0, p));
        history.assign_fingerprint_slot(Ppn(1), 0);
        let map = |lpn| (lpn == Lpn(0)).then_some(Ppn(4));
        history.check(map).unwrap();
        assert_eq!([0, 1, 2].map(|p| history.fingerprint_slot(Ppn(p))), [Some(7), Some(0), None]);
        assert_eq!([0, 1].map(|p| history.capped_newer_version_count(Ppn(p))), [3, 2]);
        history.unassign_fingerprint_slot(Ppn(1));
        history.remove_dead(Lpn(0), Ppn(1));
        assert_eq!(
            (history.capped_newer_version_count(Ppn(0)), dead_page_numbers(&history, 0, Some(Ppn(4)))),
            (2, vec![3, 2, 0])
        );
        history.check(map).unwrap();
    }

    /// The number of newer dead versions of a dead page is counted up to 15.
    #[test]
    fn newer_versions_of_a_dead_page_are_counted_up_to_15() {
        let history = history_of_overwrites(21, 0);
        assert_eq!(
            [19, 18, 5, 4, 3, 0].map(|p| history.capped_newer_version_count(Ppn(p))),
            [0, 1, 14, 15, 15, 15]
        );
    }

    #[test]
    fn a_list_of_dead_pages_continues_after_a_trim_and_follows_a_gc_copy() {
        let mut history = DeadPageLists::new(ListHeadStorage::InLinksOfValidPages, 4, 1);
        history.set_valid_page(Lpn(0), Ppn(0));
        assert_eq!(history.push_dead(Lpn(0), Ppn(0), None), None);
        history.check(|_| None).unwrap();
        history.set_valid_page(Lpn(0), Ppn(1));
        history.relocate_heads(&[Ppn(1)], &[Ppn(2)]);
        assert_eq!(dead_page_numbers(&history, 0, Some(Ppn(2))), [0]);
        history.check(|_| Some(Ppn(2))).unwrap();
    }

    /// Invalidates physical pages 0 and 2 of logical page 0 and physical page 1 of logical page 1, while the valid
    /// pages are arbitrary.
    #[test]
    fn dead_page_lists_with_heads_in_the_hash_map_ignore_the_valid_page() {
        let mut history = DeadPageLists::new(ListHeadStorage::InHashMap, 4, 2);
        (0..3).for_each(|p| history.set_valid_page(Lpn(0), Ppn(p)));
        assert_eq!(history.push_dead(Lpn(0), Ppn(0), Some(Ppn(3))), None);
        history.assign_fingerprint_slot(Ppn(0), 1);
        assert_eq!(history.push_dead(Lpn(1), Ppn(1), Some(Ppn(3))), None);
        assert_eq!(history.push_dead(Lpn(0), Ppn(2), None), Some(Ppn(0)));
        history.check(|_| Some(Ppn(3))).unwrap();
        assert_eq!(
            (dead_page_numbers(&history, 0, Some(Ppn(3))), dead_page_numbers(&history, 1, None)),
            (vec![2, 0], vec![1])
        );
        assert_eq!(
            (history.capped_newer_version_count(Ppn(0)), history.capped_newer_version_count(Ppn(2))),
            (1, 0)
        );
        history.relocate_heads(&[Ppn(3)], &[Ppn(3)]);
        history.remove_dead(Lpn(0), Ppn(2));
        assert_eq!(
            (history.capped_newer_version_count(Ppn(0)), history.newest_dead_linked_from(Ppn(3))),
            (0, None)
        );
        history.check(|_| None).unwrap();
    }

    #[test]
    #[should_panic(expected = "page 0 is not the head of the list of dead pages of logical page 1")]
    fn removing_a_dead_page_from_another_logical_pages_history_panics() {
        let mut history = DeadPageLists::new(ListHeadStorage::InLinksOfValidPages, 2, 2);
        history.push_dead(Lpn(0), Ppn(0), None);
        history.remove_dead(Lpn(1), Ppn(0));
    }
}
