//! The log-like mapping table (LMT): which physical pages still hold older versions of each logical page.
//!
//! One list per logical page, newest first, threaded through the physical pages themselves: a page is in at most one
//! list, so a 4-byte link per physical page to the next older one and one head per logical page hold every history without
//! allocation.
//! The paper's list begins with the valid page. Here it begins behind it: the valid page is the engine's L2P entry,
//! and only *dead* pages are nodes. Positions then count as the paper's version formula counts, an unmapped (trimmed)
//! logical page needs no special case, and a page that GC copies while valid keeps its place by doing nothing. The
//! price is that the owner of a page must be named to unlink the head of a list.
//!
//! Dead pages are as few as the spare space, and nearly all of them are the only dead one of their logical page. So links to
//! the next newer page, without which a page could not leave the middle of a long list at once, lie in a sparse table, and one
//! bit per page says whether to look there.
//!
//! A dead page may also have a *slot* in the fingerprint store, and the way from page to slot is asked at every
//! change. A hash index for it cost two cache misses per question; four more bytes per page would break the memory
//! goal. So the slot's number displaces the page's `older` link, which moves to an array indexed by slot, and one bit
//! per page says so: no memory per page beyond that bit, and the slot lies on the cache line that is needed anyway.
//!
//! Invariants: a page is listed exactly while it is dead and not erased; links of neighbours mirror each other;
//! the head has no newer neighbour, a logical page without dead pages no head; only listed pages have slots.
//! Source: LX-SSD (Zhou et al.), section IV-B.1.

use super::probability::OLDEST_POSITION;
use super::sparse::SparseTable;
use crate::address::{Lpn, Ppn};
use crate::page_set::PageSet;
use crate::table::Table;
use crate::warm::read_all;

const END: u32 = u32::MAX;

/// Physical pages that the links can name: one value of 32 bits is kept back.
pub(super) const MAX_PAGES: u64 = END as u64;

/// Dead pages of every logical page, newest first.
#[derive(Clone, Debug)]
pub(super) struct History {
    /// The next older page of a dead one, or its slot if it has one.
    links: Table<u32>,
    newest: Table<u32>,
    /// The next newer page, of pages that have one.
    newer: SparseTable<Ppn>,
    /// Pages that are in a list. The links of others mean nothing.
    dead: PageSet,
    slotted: PageSet,
    /// The older neighbour of the page that has this slot.
    displaced: Vec<u32>,
    dead_pages: u64,
}

impl History {
    /// Empty lists. Memory: 4 bytes and 3 bits per physical page, 4 bytes per logical page, 4 per slot, 10 to 20 per listed
    /// page beyond the first of its list.
    pub(super) fn new(physical_pages: usize, logical_pages: usize) -> Self {
        Self {
            links: Table::zeroed(physical_pages),
            newest: Table::filled(logical_pages, END),
            newer: SparseTable::new(physical_pages),
            dead: PageSet::new(physical_pages as u64),
            slotted: PageSet::new(physical_pages as u64),
            displaced: Vec::new(),
            dead_pages: 0,
        }
    }

    /// Logical pages that have a list.
    pub(super) fn logical_pages(&self) -> u32 {
        self.newest.len() as u32
    }

    /// Physical pages that can be listed.
    pub(super) fn physical_pages(&self) -> u32 {
        self.links.len() as u32
    }

    /// Pages in all lists.
    pub(super) fn dead_pages(&self) -> u64 {
        self.dead_pages
    }

    /// Whether `ppn` is in a list.
    #[inline]
    pub(super) fn is_dead(&self, ppn: Ppn) -> bool {
        self.dead.contains(ppn)
    }

    /// The newest dead page of `lpn`.
    #[inline]
    pub(super) fn newest(&self, lpn: Lpn) -> Option<Ppn> {
        page(self.newest.get(lpn.index()))
    }

    /// The page that died just before `ppn` in the same list.
    #[inline]
    pub(super) fn older(&self, ppn: Ppn) -> Option<Ppn> {
        let link = self.links.get(ppn.index());
        page(if self.slotted.contains(ppn) { self.displaced[link as usize] } else { link })
    }

    /// The page that died just after `ppn` in the same list.
    #[inline]
    fn newer(&self, ppn: Ppn) -> Option<Ppn> {
        self.newer.get(ppn)
    }

    /// Reads the links of these pages, and the bits that say what they mean; see [`crate::warm`].
    pub(super) fn warm_listed(&self, ppns: impl Iterator<Item = Ppn> + Clone) {
        let bits = |ppn| u64::from(self.is_dead(ppn)) + u64::from(self.slotted.contains(ppn));
        read_all(ppns.clone().map(bits));
        read_all(ppns.map(|ppn| self.links.get(ppn.index()).into()));
    }

    /// Reads the links that these slots displaced.
    pub(super) fn warm_displaced(&self, slots: &[u32]) {
        read_all(slots.iter().map(|&slot| self.displaced[slot as usize].into()));
    }

    /// Dead pages of `lpn`, newest first.
    pub(super) fn versions(&self, lpn: Lpn) -> impl Iterator<Item = Ppn> + '_ {
        std::iter::successors(self.newest(lpn), |&ppn| self.older(ppn))
    }

    /// The slot of `ppn` in the store.
    #[inline]
    pub(super) fn slot(&self, ppn: Ppn) -> Option<u32> {
        self.slotted.contains(ppn).then(|| self.links.get(ppn.index()))
    }

    /// Gives dead page `ppn` a slot.
    #[inline]
    pub(super) fn attach(&mut self, ppn: Ppn, slot: u32) {
        debug_assert!(self.is_dead(ppn) && !self.slotted.contains(ppn), "page {ppn} cannot take slot {slot}");
        if self.displaced.len() <= slot as usize {
            self.make_place_for(slot);
        }
        self.displaced[slot as usize] = self.links.replace(ppn.index(), slot);
        self.slotted.insert(ppn);
    }

    #[cold]
    fn make_place_for(&mut self, slot: u32) {
        self.displaced.resize(slot as usize + 1, END);
    }

    /// Takes the slot of `ppn` away.
    #[inline]
    pub(super) fn detach(&mut self, ppn: Ppn) {
        let slot = self.links.get(ppn.index());
        self.links.set(ppn.index(), self.displaced[slot as usize]);
        self.slotted.remove(ppn);
    }

    /// Pages that have a slot. Counts all bits.
    pub(super) fn slotted_pages(&self) -> u64 {
        self.slotted.len()
    }

    /// Newer dead pages before `ppn`, counted up to [`OLDEST_POSITION`]: at most 15 steps.
    #[inline]
    pub(super) fn position(&self, ppn: Ppn) -> u8 {
        let newer = std::iter::successors(self.newer(ppn), |&ppn| self.newer(ppn));
        newer.take(OLDEST_POSITION.into()).count() as u8
    }

    /// `ppn` has just died as a version of `lpn`: position 0. Returns the version before it.
    #[inline]
    pub(super) fn push(&mut self, lpn: Lpn, ppn: Ppn) -> Option<Ppn> {
        assert!(self.dead.insert_new(ppn), "page {ppn} of logical page {lpn} dies twice");
        let older = self.newest.replace(lpn.index(), ppn.0);
        self.links.set(ppn.index(), older);
        if older != END {
            self.newer.insert(Ppn(older), ppn);
        }
        self.dead_pages += 1;
        page(older)
    }

    #[inline]
    fn set_older(&mut self, ppn: Ppn, older: u32) {
        if self.slotted.contains(ppn) {
            self.displaced[self.links.get(ppn.index()) as usize] = older;
        } else {
            self.links.set(ppn.index(), older);
        }
    }

    /// Takes `ppn`, which has no slot any more, out of the list of `lpn`; older pages move up by one position.
    #[inline]
    pub(super) fn unlink(&mut self, lpn: Lpn, ppn: Ppn) {
        debug_assert!(!self.slotted.contains(ppn), "page {ppn} leaves its list and keeps its slot");
        assert!(
            self.dead.remove(ppn),
            "page {ppn} is not dead and cannot leave the list of logical page {lpn}"
        );
        let older = self.links.get(ppn.index());
        let newer = self.newer.remove(ppn);
        if let Some(newer) = newer {
            self.set_older(newer, older);
        } else {
            let head = self.newest.replace(lpn.index(), older);
            assert!(head == ppn.0, "page {ppn} is not a version of logical page {lpn}");
        }
        match (page(older), newer) {
            (Some(older), Some(newer)) => self.newer.insert(older, newer),
            (Some(older), None) => _ = self.newer.remove(older),
            (None, _) => {}
        }
        self.dead_pages -= 1;
    }

    /// Reads the heads of these lists. No owner (`Lpn::NONE`) is skipped.
    pub(super) fn warm_heads(&self, owners: impl Iterator<Item = Lpn>) {
        let owners = owners.filter(|lpn| lpn.index() < self.newest.len());
        read_all(owners.map(|lpn| self.newest.get(lpn.index()).into()));
    }

    /// Appends the dead ones of `count` pages from `first` on.
    pub(super) fn collect_dead(&self, first: Ppn, count: u32, out: &mut Vec<Ppn>) {
        self.dead.collect(first, count, out);
    }

    /// Every dead page, in page order. Scans all links.
    pub(super) fn all_dead(&self) -> impl Iterator<Item = Ppn> + '_ {
        (0..self.physical_pages()).map(Ppn).filter(|&ppn| self.is_dead(ppn))
    }

    /// Walks every list; the owner of each physical page, or what is wrong.
    pub(super) fn check(&self) -> Result<Vec<Option<Lpn>>, String> {
        let mut owners = vec![None; self.links.len()];
        let mut listed = 0;
        for lpn in (0..self.logical_pages()).map(Lpn) {
            listed += self.check_list(lpn, &mut owners)?;
        }
        let lists = (0..self.logical_pages()).filter(|&lpn| self.newest(Lpn(lpn)).is_some()).count() as u64;
        let newer = self.newer.counts();
        if newer.map(|newer| lists + newer) != [listed; 2] {
            return Err(format!("{lists} lists of {listed} pages; {newer:?} have a newer one"));
        }
        let marked = self.all_dead().count() as u64;
        if (listed, listed) != (self.dead_pages, marked) {
            return Err(format!("{listed} pages in lists, {marked} marked, {} counted", self.dead_pages));
        }
        Ok(owners)
    }

    fn check_list(&self, lpn: Lpn, owners: &mut [Option<Lpn>]) -> Result<u64, String> {
        let mut newer = None;
        let mut length = 0;
        for ppn in self.versions(lpn) {
            if let Some(other) = owners[ppn.index()].replace(lpn) {
                return Err(format!("page {ppn} is listed by logical pages {other} and {lpn}"));
            }
            if self.newer(ppn) != newer {
                return Err(format!("page {ppn} of logical page {lpn} does not point back to its neighbour"));
            }
            newer = Some(ppn);
            length += 1;
        }
        Ok(length)
    }
}

#[inline]
fn page(link: u32) -> Option<Ppn> {
    (link != END).then_some(Ppn(link))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(history: &History, lpn: u32) -> Vec<u32> {
        history.versions(Lpn(lpn)).map(|ppn| ppn.0).collect()
    }

    #[test]
    fn pages_leave_from_every_place_of_a_list() {
        for gone in 0..3 {
            let mut history = History::new(4, 2);
            (0..3).for_each(|p| assert!(history.push(Lpn(1), Ppn(p)).is_none_or(|older| older.0 + 1 == p)));
            history.unlink(Lpn(1), Ppn(gone));
            let expected: Vec<u32> = [2, 1, 0].into_iter().filter(|&p| p != gone).collect();
            assert_eq!(versions(&history, 1), expected);
            assert!(!history.is_dead(Ppn(gone)));
            history.check().unwrap();
        }
    }

    #[test]
    fn slots_displace_links_without_a_trace() {
        let mut history = History::new(4, 1);
        history.push(Lpn(0), Ppn(0));
        history.attach(Ppn(0), 7);
        (1..4).for_each(|p| assert!(history.push(Lpn(0), Ppn(p)).is_none_or(|older| older.0 + 1 == p)));
        history.attach(Ppn(1), 0);
        history.check().unwrap();
        assert_eq!([0, 1, 2].map(|p| history.slot(Ppn(p))), [Some(7), Some(0), None]);
        assert_eq!([0, 1].map(|p| history.position(Ppn(p))), [3, 2]);
        history.detach(Ppn(1));
        history.unlink(Lpn(0), Ppn(1));
        assert_eq!((history.position(Ppn(0)), versions(&history, 0)), (2, vec![3, 2, 0]));
        history.check().unwrap();
    }

    #[test]
    fn positions_stop_at_15() {
        let mut history = History::new(20, 1);
        (0..20).for_each(|p| assert!(history.push(Lpn(0), Ppn(p)).is_none_or(|older| older.0 + 1 == p)));
        assert_eq!([19, 18, 5, 4, 3, 0].map(|p| history.position(Ppn(p))), [0, 1, 14, 15, 15, 15]);
    }

    #[test]
    #[should_panic(expected = "page 0 is not a version of logical page 1")]
    fn a_wrong_owner_is_refused() {
        let mut history = History::new(2, 2);
        history.push(Lpn(0), Ppn(0));
        history.unlink(Lpn(1), Ppn(0));
    }
}
