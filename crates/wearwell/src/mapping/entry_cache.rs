//! The mapping entries that a demand-paged map holds in RAM.
//!
//! Three orders run through the same slots: recency of use, which decides what leaves; recency of the last change of the
//! entries that are dirty, which decides what is written out of turn (checkpoints, a bound on dirty entries); and a list
//! of the dirty entries of each translation page, because a page is written with all of them. The second order must not
//! be the first one: an entry that is read again and again but was changed long ago is young in the one and old in the
//! other, and a recovery that looks for changes only sees the change.
//!
//! Everything is O(1) but for walks over the dirty entries of one translation page.

use arrayvec::ArrayVec;

use super::age_order::{AgeOrder, NOWHERE, Place, Placed};
use crate::address::{Lpn, Unit};
use crate::divide::Divider;
use crate::slot_index::SlotIndex;
use crate::warm::{MOST_PAGES, read_all};

const NIL: u32 = u32::MAX;

/// The orders that run through all entries.
const BY_USE: usize = 0;
const BY_CHANGE: usize = 1;

/// Number of a slot.
pub(super) type Slot = u32;

/// A logical page and its place, and what RAM knows of it that flash does not. Half a cache line, and never on two: a
/// replay touches entries at random.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Entry {
    pub(super) lpn: Lpn,
    pub(super) unit: Unit,
    dirty_next: u32,
    /// In the order [`BY_USE`] and in the order [`BY_CHANGE`].
    places: [Place; 2],
    /// The table on flash names another place.
    pub(super) is_dirty: bool,
    /// The place that the table on flash names holds an earlier version that nobody has called invalid yet.
    pub(super) hides_invalid_page: bool,
    /// Made by a recovery, which does not know whether the earlier version was called invalid before the cut.
    pub(super) is_uncertain: bool,
}

/// Entries by logical page. See the module's head.
#[derive(Clone, Debug)]
pub(super) struct EntryCache {
    slots: Vec<Entry>,
    free_slots: Vec<Slot>,
    index: SlotIndex,
    recency: AgeOrder,
    /// Dirty entries in order of their last change, marked at the last checkpoint.
    changes: AgeOrder,
    by_page: Divider,
    /// First dirty entry of each translation page.
    dirty_heads: Vec<u32>,
    /// Translation pages below this one have no dirty entry.
    clean_below: u32,
    hidden_pages: u32,
}

impl Entry {
    fn clean(lpn: Lpn, unit: Unit) -> Self {
        Self {
            lpn,
            unit,
            dirty_next: NIL,
            places: [NOWHERE; 2],
            is_dirty: false,
            hides_invalid_page: false,
            is_uncertain: false,
        }
    }
}

/// Entries as one of the orders sees them.
struct Ordered<'a, const ORDER: usize>(&'a mut [Entry]);

impl<const ORDER: usize> Placed for Ordered<'_, ORDER> {
    #[inline]
    fn place(&self, slot: Slot) -> Place {
        self.0[slot as usize].places[ORDER]
    }
    #[inline]
    fn set_place(&mut self, slot: Slot, place: Place) {
        self.0[slot as usize].places[ORDER] = place;
    }
}

impl EntryCache {
    /// No entry; room for about `entries` without growing.
    pub(super) fn new(entries: u32, translation_pages: u32, entries_per_page: u32) -> Self {
        Self {
            slots: Vec::new(),
            free_slots: Vec::new(),
            index: SlotIndex::with_capacity(entries as usize),
            recency: AgeOrder::default(),
            changes: AgeOrder::default(),
            by_page: Divider::new(entries_per_page),
            dirty_heads: vec![NIL; translation_pages as usize],
            clean_below: 0,
            hidden_pages: 0,
        }
    }

    /// Entries held.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Entries that are dirty.
    #[inline]
    pub(super) fn dirty_entries(&self) -> u32 {
        self.changes.len()
    }

    /// Entries that hide an invalid page.
    #[inline]
    pub(super) fn hidden_pages(&self) -> u32 {
        self.hidden_pages
    }

    #[inline]
    pub(super) fn find(&self, lpn: Lpn) -> Option<Slot> {
        self.index.find(lpn.0)
    }

    /// Reads what dropping the oldest `count` entries will need; see [`crate::warm`]. Returns the translation pages of
    /// those that are dirty.
    pub(super) fn warm_oldest(&self, count: usize) -> ArrayVec<u32, MOST_PAGES> {
        let oldest = || self.recency.first_places(count).map(|slot| self.entry(slot));
        read_all(oldest().map(|entry| entry.lpn.0.into()));
        self.index.warm(oldest().map(|entry| entry.lpn.0));
        let dirty = oldest().filter(|entry| entry.is_dirty);
        let pages: ArrayVec<u32, MOST_PAGES> =
            dirty.map(|entry| self.page_of(entry.lpn)).take(MOST_PAGES).collect();
        let heads = pages.iter().map(|&page| self.entry(self.dirty_heads[page as usize]));
        read_all(heads.clone().map(|first| first.dirty_next.into()));
        let seconds = heads.filter(|first| first.dirty_next != NIL);
        read_all(seconds.map(|first| self.entry(first.dirty_next).dirty_next.into()));
        pages
    }

    /// Reads what giving these pages new places will need; see [`crate::warm`].
    pub(super) fn warm(&self, lpns: &[Lpn]) {
        self.index.warm(lpns.iter().map(|lpn| lpn.0));
        let cached = lpns.iter().filter_map(|&lpn| self.find(lpn));
        read_all(cached.map(|slot| self.entry(slot).unit.0.into()));
        read_all(lpns.iter().map(|&lpn| self.dirty_heads[self.page_of(lpn) as usize].into()));
    }

    #[inline]
    pub(super) fn entry(&self, slot: Slot) -> &Entry {
        &self.slots[slot as usize]
    }

    /// The entry was used.
    #[inline]
    pub(super) fn touch(&mut self, slot: Slot) {
        self.recency.touch(&mut Ordered::<BY_USE>(&mut self.slots), slot);
    }

    /// A clean entry for a page that has none.
    pub(super) fn insert(&mut self, lpn: Lpn, unit: Unit) -> Slot {
        let entry = Entry::clean(lpn, unit);
        let slot = self.free_slots.pop().unwrap_or(self.slots.len() as u32);
        if slot as usize == self.slots.len() {
            self.slots.push(entry);
        } else {
            self.slots[slot as usize] = entry;
        }
        self.index.insert(lpn.0, slot);
        self.recency.push(&mut Ordered::<BY_USE>(&mut self.slots), slot);
        slot
    }

    /// The entry that was used longest ago.
    #[inline]
    pub(super) fn oldest(&self) -> Option<Slot> {
        self.recency.oldest()
    }

    /// Drops a clean entry.
    pub(super) fn remove(&mut self, slot: Slot) {
        let Entry { lpn, is_dirty, .. } = self.slots[slot as usize];
        assert!(!is_dirty, "the entry of {lpn} would be lost");
        self.recency.remove(&mut Ordered::<BY_USE>(&mut self.slots), slot);
        self.index.remove(lpn.0);
        self.free_slots.push(slot);
    }

    /// Gives an entry a new place, which makes it dirty and the youngest change; returns the old place and whether it
    /// was clean.
    #[inline]
    pub(super) fn assign(&mut self, slot: Slot, unit: Unit) -> (Unit, bool) {
        let entry = &mut self.slots[slot as usize];
        let old = std::mem::replace(&mut entry.unit, unit);
        let was_clean = !entry.is_dirty;
        if was_clean {
            self.link_dirty(slot);
        } else {
            self.changes.touch(&mut Ordered::<BY_CHANGE>(&mut self.slots), slot);
        }
        (old, was_clean)
    }

    fn link_dirty(&mut self, slot: Slot) {
        let page = self.page_of(self.slots[slot as usize].lpn);
        self.clean_below = self.clean_below.min(page);
        let head = std::mem::replace(&mut self.dirty_heads[page as usize], slot);
        let entry = &mut self.slots[slot as usize];
        (entry.is_dirty, entry.dirty_next) = (true, head);
        self.changes.push(&mut Ordered::<BY_CHANGE>(&mut self.slots), slot);
    }

    /// Sets or clears the note that an earlier version is still counted valid.
    pub(super) fn set_hides_invalid_page(&mut self, slot: Slot, hides: bool) {
        let entry = &mut self.slots[slot as usize];
        self.hidden_pages -= u32::from(entry.hides_invalid_page);
        self.hidden_pages += u32::from(hides);
        entry.hides_invalid_page = hides;
    }

    pub(super) fn set_uncertain(&mut self, slot: Slot) {
        self.slots[slot as usize].is_uncertain = true;
    }

    /// Translation page of a logical page.
    #[inline]
    pub(super) fn page_of(&self, lpn: Lpn) -> u32 {
        self.by_page.quotient(lpn.0)
    }

    /// The dirty entries of a translation page.
    pub(super) fn dirty_of(&self, page: u32) -> impl Iterator<Item = Slot> + '_ {
        let some = |slot: u32| Some(slot).filter(|&slot| slot != NIL);
        std::iter::successors(some(self.dirty_heads[page as usize]), move |&slot| {
            some(self.slots[slot as usize].dirty_next)
        })
    }

    /// The first translation page with a dirty entry. Amortised over a write-back of everything O(1).
    pub(super) fn first_dirty_page(&mut self) -> Option<u32> {
        let pages = self.dirty_heads.len() as u32;
        let found = (self.clean_below..pages).find(|&page| self.dirty_heads[page as usize] != NIL);
        self.clean_below = found.unwrap_or(pages);
        found
    }

    /// Whether any entry is dirty.
    pub(super) fn has_dirty(&self) -> bool {
        self.dirty_entries() > 0
    }

    /// All entries of a translation page are on flash now.
    pub(super) fn clean_page(&mut self, page: u32) {
        let mut slot = std::mem::replace(&mut self.dirty_heads[page as usize], NIL);
        while slot != NIL {
            self.set_hides_invalid_page(slot, false);
            self.changes.remove(&mut Ordered::<BY_CHANGE>(&mut self.slots), slot);
            let entry = &mut self.slots[slot as usize];
            (entry.is_dirty, entry.is_uncertain) = (false, false);
            slot = entry.dirty_next;
        }
    }

    /// The dirty entry whose last change is longest ago.
    pub(super) fn oldest_change(&self) -> Option<Slot> {
        self.changes.oldest()
    }

    /// A dirty entry that was not changed since the mark was set.
    pub(super) fn older_than_mark(&self) -> Option<Slot> {
        self.changes.older_than_mark()
    }

    /// Sets the mark at the youngest change.
    pub(super) fn set_mark(&mut self) {
        self.changes.set_mark(&mut Ordered::<BY_CHANGE>(&mut self.slots));
    }
}
