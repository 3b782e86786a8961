//! The mapping entries that a demand-paged map holds in RAM.
//!
//! Three orders run through the same slots: recency of use, which decides what leaves; recency of the last change of the
//! entries that are dirty, which decides what is written out of turn (checkpoints, a bound on dirty entries); and a list
//! of the dirty entries of each translation page, because a page is written with all of them. The second order must not
//! be the first one: an entry that is read again and again but was changed long ago is young in the one and old in the
//! other, and a recovery that looks for changes only sees the change.
//!
//! Everything is O(1) but for walks over the dirty entries of one translation page.

#![expect(
    clippy::inline_always,
    reason = "measured: an entry that is handed over in memory is waited for when it is copied into its slot"
)]

use arrayvec::ArrayVec;

use super::age_order::{AgeOrder, Place, Placed};
use crate::address::{Address, Lpn, Unit};
use crate::divide::Divider;
use crate::tables::prefetch::{MOST_PAGES, touch_all};
use crate::tables::{Chained, Chains};

/// No slot.
pub(super) const NIL: Slot = Slot::MAX;

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
    dirty_next: Slot,
    /// The next entry with the same hash.
    next_in_chain: Slot,
    /// In the order [`BY_USE`] and in the order [`BY_CHANGE`].
    places: [Place; 2],
    /// The table on flash names another place.
    pub(super) is_dirty: bool,
    /// The place that the table on flash names holds an earlier version that nobody has called invalid yet.
    pub(super) hides_unidentified_page: bool,
    /// Made by a recovery, which does not know whether the earlier version was called invalid before the cut.
    pub(super) is_uncertain: bool,
}

/// Entries by logical page. See the module's head.
#[derive(Clone, Debug)]
pub(super) struct EntryCache {
    slots: Vec<Entry>,
    free_slots: Vec<Slot>,
    index: Chains,
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
    pub(super) fn clean(lpn: Lpn, unit: Unit) -> Self {
        Self {
            lpn,
            unit,
            dirty_next: NIL,
            next_in_chain: NIL,
            places: [0; 2],
            is_dirty: false,
            hides_unidentified_page: false,
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

impl Chained for Vec<Entry> {
    #[inline]
    fn key(&self, slot: Slot) -> u32 {
        self[slot as usize].lpn.0
    }
    #[inline]
    fn next(&self, slot: Slot) -> Slot {
        self[slot as usize].next_in_chain
    }
    #[inline]
    fn set_next(&mut self, slot: Slot, next: Slot) {
        self[slot as usize].next_in_chain = next;
    }
}

impl EntryCache {
    /// No entry; room for about `entries` without growing.
    pub(super) fn new(entries: u32, translation_pages: u32, entries_per_page: u32) -> Self {
        Self {
            slots: Vec::new(),
            free_slots: Vec::new(),
            index: Chains::with_capacity(entries as usize),
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
        self.index.find(&self.slots, lpn.0)
    }

    /// Reads what dropping the oldest `count` entries will need; see [`crate::tables::prefetch`]. Returns the translation pages of
    /// those that are dirty.
    pub(super) fn prefetch_oldest(&self, count: usize) -> ArrayVec<u32, MOST_PAGES> {
        let oldest = || self.recency.first_places(count).map(|slot| self.entry(slot));
        touch_all(oldest().map(|entry| entry.lpn.0.into()));
        self.index.prefetch(&self.slots, self.slots.len(), oldest().map(|entry| entry.lpn.0));
        let dirty = oldest().filter(|entry| entry.is_dirty);
        let pages: ArrayVec<u32, MOST_PAGES> =
            dirty.map(|entry| self.page_of(entry.lpn)).take(MOST_PAGES).collect();
        let heads = pages.iter().map(|&page| self.entry(self.dirty_heads[page as usize]));
        touch_all(heads.clone().map(|first| first.dirty_next.into()));
        let seconds = heads.filter(|first| first.dirty_next != NIL);
        touch_all(seconds.map(|first| self.entry(first.dirty_next).dirty_next.into()));
        pages
    }

    /// Reads what giving these pages new places will need; see [`crate::tables::prefetch`].
    pub(super) fn prefetch(&self, lpns: &[Lpn]) {
        self.index.prefetch(&self.slots, self.slots.len(), lpns.iter().map(|lpn| lpn.0));
        touch_all(lpns.iter().map(|&lpn| self.dirty_heads[self.page_of(lpn) as usize].into()));
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
        self.add(Entry::clean(lpn, unit))
    }

    /// A dirty entry for a page that has none, and whether it hides an invalid page.
    pub(super) fn insert_dirty(&mut self, lpn: Lpn, unit: Unit, hides_unidentified_page: bool) -> Slot {
        self.hidden_pages += u32::from(hides_unidentified_page);
        let slot = self.add(Entry { is_dirty: true, hides_unidentified_page, ..Entry::clean(lpn, unit) });
        self.list_dirty(slot, lpn);
        slot
    }

    #[inline(always)]
    fn add(&mut self, entry: Entry) -> Slot {
        let slot = self.free_slots.pop().unwrap_or_else(|| self.new_slot());
        let place = &mut self.slots[slot as usize];
        // The void places that an order still has for the slot must not become valid.
        *place = Entry { places: place.places, ..entry };
        self.index.insert(&mut self.slots, slot);
        self.recency.push(&mut Ordered::<BY_USE>(&mut self.slots), slot);
        slot
    }

    #[cold]
    fn new_slot(&mut self) -> Slot {
        self.slots.push(Entry::clean(Lpn(0), Unit::NONE));
        (self.slots.len() - 1) as Slot
    }

    /// The entry that was used longest ago.
    #[inline]
    pub(super) fn oldest(&self) -> Option<Slot> {
        self.recency.oldest()
    }

    /// Drops a clean entry.
    #[inline]
    pub(super) fn remove(&mut self, slot: Slot) {
        let Entry { lpn, is_dirty, .. } = *self.entry(slot);
        assert!(!is_dirty, "the entry of {lpn} would be lost");
        self.recency.remove(&mut Ordered::<BY_USE>(&mut self.slots), slot);
        self.index.remove(&mut self.slots, slot);
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
            let lpn = entry.lpn;
            entry.is_dirty = true;
            self.list_dirty(slot, lpn);
        } else {
            self.changes.touch(&mut Ordered::<BY_CHANGE>(&mut self.slots), slot);
        }
        (old, was_clean)
    }

    /// The entry of `lpn` joins the dirty ones of its translation page.
    #[inline(always)]
    fn list_dirty(&mut self, slot: Slot, lpn: Lpn) {
        let page = self.page_of(lpn);
        self.clean_below = self.clean_below.min(page);
        let head = std::mem::replace(&mut self.dirty_heads[page as usize], slot);
        self.slots[slot as usize].dirty_next = head;
        self.changes.push(&mut Ordered::<BY_CHANGE>(&mut self.slots), slot);
    }

    /// Sets or clears the note that an earlier version is still counted valid.
    pub(super) fn set_hides_invalid_page(&mut self, slot: Slot, hides: bool) {
        let entry = &mut self.slots[slot as usize];
        self.hidden_pages -= u32::from(entry.hides_unidentified_page);
        self.hidden_pages += u32::from(hides);
        entry.hides_unidentified_page = hides;
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
    #[inline]
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
            self.changes.make_void(&mut Ordered::<BY_CHANGE>(&mut self.slots), slot);
            let entry = &mut self.slots[slot as usize];
            self.hidden_pages -= u32::from(entry.hides_unidentified_page);
            (entry.is_dirty, entry.hides_unidentified_page, entry.is_uncertain) = (false, false, false);
            slot = entry.dirty_next;
        }
        self.changes.pass_void(&Ordered::<BY_CHANGE>(&mut self.slots));
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::collections::hash_map::Entry as Place;

    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::{Chains, Entry};
    use crate::address::{Address, Lpn, Unit};

    #[test]
    fn an_index_through_the_entries_is_a_map() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        for range in [6, 100, 5000] {
            let (mut index, mut model) = (Chains::with_capacity(0), HashMap::new());
            let mut slots: Vec<Entry> = (0..range).map(|_| Entry::clean(Lpn(0), Unit::NONE)).collect();
            let mut free: Vec<u32> = (0..range).collect();
            for _ in 0..40_000 {
                let lpn = Lpn(rng.random_range(0..range));
                match model.entry(lpn) {
                    Place::Occupied(held) if rng.random_bool(0.5) => {
                        let slot = held.remove();
                        index.remove(&mut slots, slot);
                        free.push(slot);
                    }
                    Place::Vacant(vacant) if rng.random_bool(0.5) => {
                        let slot = free.pop().expect("as many slots as pages");
                        slots[slot as usize].lpn = lpn;
                        index.insert(&mut slots, slot);
                        vacant.insert(slot);
                    }
                    _ => {}
                }
                assert_eq!(index.len(), model.len());
                let asked = Lpn(rng.random_range(0..range));
                assert_eq!(index.find(&slots, asked.0), model.get(&asked).copied());
            }
        }
    }
}
