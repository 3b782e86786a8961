//! The cache of mapping entries that a demand-paged map holds in RAM.
//!
//! Three orders run through the entries. Recency of use decides which entry is evicted. Recency of the last change,
//! kept for the dirty entries, decides which are written early (by checkpoints, or because too many are dirty). And
//! each translation page has an array of its dirty entries, because it is written with all of them. The second order
//! must differ from the first: an entry that is read often but was changed long ago is recent in the first and old in
//! the second, and a recovery that searches for changes depends on the change only.
//!
//! Everything is O(1), except walks over the dirty entries of one translation page.

#![expect(
    clippy::inline_always,
    reason = "measured: an entry that is handed over in memory is waited for when it is copied into its slot"
)]

use arrayvec::ArrayVec;

use super::lru_queue::{LruQueue, QueuePosition, QueuePositions};
use crate::address::{Lpn, OptionalAddress, StoredUnit};
use crate::divide::Divider;
use crate::error::Result;
use crate::tables::prefetch::{TRANSLATION_PAGES_PER_PREFETCH, load_into_cpu_cache};
use crate::tables::{ChainedIndex, ChainedSlots};

/// Number of a word (8 bytes) among those that NVRAM has for dirty map entries; [`NO_NVRAM_WORD`] for an entry without
/// one.
pub(super) type NvramWordNumber = u32;

/// Number that means "no word" of NVRAM.
pub(super) const NO_NVRAM_WORD: NvramWordNumber = NvramWordNumber::MAX;

/// Number that means "no slot" in the cache of map entries.
pub(super) const NO_SLOT: CacheSlot = CacheSlot::MAX;

/// Index, in the array of an entry's queue positions, of its position in the LRU queue that is ordered by last use.
/// [`INDEX_OF_QUEUE_BY_LAST_CHANGE`] is the index for the queue ordered by last change.
const INDEX_OF_QUEUE_BY_LAST_USE: usize = 0;
/// Index, in the array of an entry's queue positions, of its position in the LRU queue that is ordered by last change.
const INDEX_OF_QUEUE_BY_LAST_CHANGE: usize = 1;

/// Number of a slot of the cache of map entries; a slot holds one entry.
pub(super) type CacheSlot = u32;

/// A cached L2P map entry: a logical page, its location, and how the entry differs from that on flash. An entry is half
/// a cache line and aligned, so that a random access touches one line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct CachedEntry {
    /// Logical page whose location the entry holds.
    pub(super) lpn: Lpn,
    /// Location of the logical page: a flash page or chunk member. The bind mark, one bit of it, may be set: the
    /// logical page was mapped to the location without a program.
    pub(super) unit: StoredUnit,
    /// Slot of the next map entry in the same bucket of the hash index.
    next_in_chain: CacheSlot,
    /// Positions of the map entry in the two LRU queues of the cache: by last use ([`INDEX_OF_QUEUE_BY_LAST_USE`]) and
    /// by last change ([`INDEX_OF_QUEUE_BY_LAST_CHANGE`]).
    queue_positions: [QueuePosition; 2],
    /// Number of the NVRAM word that holds the map entry while it is dirty; [`NO_NVRAM_WORD`] if none does.
    pub(super) nvram_word_number: NvramWordNumber,
    /// Whether the map entry is dirty: the table on flash holds another location for this logical page.
    pub(super) is_dirty: bool,
    /// Whether the table on flash still holds the location of an earlier version of the logical page that was not
    /// reported as invalid yet (an unidentified invalid page).
    pub(super) has_unidentified_invalid_page: bool,
    /// Whether it is unknown if the earlier version of the logical page was reported to the validity store as invalid
    /// before a loss of power. This is so if a recovery created the entry.
    pub(super) is_invalidation_report_uncertain: bool,
}

const _: () = assert!(size_of::<CachedEntry>() == 32);

/// Cache of L2P map entries in RAM, found by logical page.
#[derive(Clone, Debug)]
pub(super) struct EntryCache {
    /// All slots of the cache; each holds an entry or is free.
    slots: Vec<CachedEntry>,
    /// Numbers of the free slots.
    free_slots: Vec<CacheSlot>,
    /// Hash index that finds the slot of a logical page's entry.
    slot_by_lpn: ChainedIndex,
    /// All map entries of the cache as an LRU queue, in order of their last use.
    entries_by_use: LruQueue,
    /// Dirty map entries as an LRU queue, in order of their last change. Its mark, set by the last checkpoint,
    /// separates older from newer changes.
    dirty_entries_by_last_change: LruQueue,
    /// Divider by the number of map entries per translation page.
    entries_per_page_divider: Divider,
    /// Cache slots of the dirty entries of each translation page, in the order in which they became dirty. They are in
    /// arrays, not in linked lists, because a page that is written has many dirty entries, and the CPU can overlap the
    /// cache misses of an array.
    dirty_slots_by_page: Vec<Vec<CacheSlot>>,
    /// Number of the first translation page that may have dirty entries in the cache; all pages with smaller numbers
    /// have none.
    first_maybe_dirty_translation_page: u32,
    /// Number of entries with `has_unidentified_invalid_page`: for each, one invalid flash page is still counted as
    /// valid.
    unidentified_invalid_pages: u32,
    /// First position, in the LRU queue ordered by last use, whose entry has not yet been prefetched for eviction.
    first_position_not_prefetched: u64,
}

impl CachedEntry {
    /// Creates an entry that equals the entry on flash.
    pub(super) fn new_clean(lpn: Lpn, unit: StoredUnit) -> Self {
        Self {
            lpn,
            unit,
            next_in_chain: NO_SLOT,
            queue_positions: [0; 2],
            nvram_word_number: NO_NVRAM_WORD,
            is_dirty: false,
            has_unidentified_invalid_page: false,
            is_invalidation_report_uncertain: false,
        }
    }
}

/// The cached map entries with their positions in one of the two [`LruQueue`] queues, by number `QUEUE_INDEX`
/// ([`INDEX_OF_QUEUE_BY_LAST_USE`] or [`INDEX_OF_QUEUE_BY_LAST_CHANGE`]).
struct EntryQueuePositions<'a, const QUEUE_INDEX: usize>(&'a mut [CachedEntry]);

impl<const QUEUE_INDEX: usize> QueuePositions for EntryQueuePositions<'_, QUEUE_INDEX> {
    #[inline]
    fn position_of(&self, slot: CacheSlot) -> QueuePosition {
        self.0[slot as usize].queue_positions[QUEUE_INDEX]
    }
    #[inline]
    fn set_position(&mut self, slot: CacheSlot, place: QueuePosition) {
        self.0[slot as usize].queue_positions[QUEUE_INDEX] = place;
    }
}

impl ChainedSlots for Vec<CachedEntry> {
    #[inline]
    fn key_of(&self, slot: CacheSlot) -> u32 {
        self[slot as usize].lpn.0
    }
    #[inline]
    fn next_in_chain(&self, slot: CacheSlot) -> CacheSlot {
        self[slot as usize].next_in_chain
    }
    #[inline]
    fn set_next_in_chain(&mut self, slot: CacheSlot, next: CacheSlot) {
        self[slot as usize].next_in_chain = next;
    }
}

impl EntryCache {
    /// Creates an empty cache of map entries. Its hash index has room for `entries` entries before it grows.
    pub(super) fn new(entries: u32, translation_pages: u32, entries_per_page: u32) -> Self {
        Self {
            slots: Vec::new(),
            free_slots: Vec::new(),
            slot_by_lpn: ChainedIndex::with_capacity(entries as usize),
            entries_by_use: LruQueue::default(),
            dirty_entries_by_last_change: LruQueue::default(),
            entries_per_page_divider: Divider::new(entries_per_page),
            dirty_slots_by_page: vec![Vec::new(); translation_pages as usize],
            first_maybe_dirty_translation_page: 0,
            unidentified_invalid_pages: 0,
            first_position_not_prefetched: 0,
        }
    }

    /// Returns the number of map entries in the cache.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.slot_by_lpn.len()
    }

    /// Returns the number of dirty map entries in the cache.
    #[inline]
    pub(super) fn dirty_entries(&self) -> u32 {
        self.dirty_entries_by_last_change.len()
    }

    /// Returns the number of cached map entries with [`CachedEntry::has_unidentified_invalid_page`] set: for each, one
    /// invalid flash page is still counted as valid.
    #[inline]
    pub(super) fn unidentified_invalid_pages(&self) -> u32 {
        self.unidentified_invalid_pages
    }

    /// Returns the slot of the entry of `lpn`; `None` if it is not cached.
    #[inline]
    pub(super) fn find_slot(&self, lpn: Lpn) -> Option<CacheSlot> {
        self.slot_by_lpn.find(&self.slots, lpn.0)
    }

    /// Returns whether evictions have passed all positions of the LRU queue for which
    /// [`EntryCache::prefetch_eviction_candidates`] has prefetched.
    #[inline]
    pub(super) fn is_eviction_prefetch_due(&self) -> bool {
        self.entries_by_use.first_position() >= self.first_position_not_prefetched
    }

    /// Prefetches what evicting the `count` least recently used map entries will access, so that cache misses overlap
    /// ([`crate::tables::prefetch`]). Returns the translation pages of those entries that are dirty.
    pub(super) fn prefetch_eviction_candidates(
        &mut self,
        count: usize,
    ) -> ArrayVec<u32, TRANSLATION_PAGES_PER_PREFETCH> {
        self.first_position_not_prefetched = self.entries_by_use.first_position() + count as u64;
        let oldest = || self.entries_by_use.slots_at_oldest_positions(count).map(|slot| self.entry(slot));
        load_into_cpu_cache(oldest().map(|entry| entry.lpn.0.into()));
        self.slot_by_lpn.prefetch(&self.slots, self.slots.len(), oldest().map(|entry| entry.lpn.0));
        let dirty = oldest().filter(|entry| entry.is_dirty);
        let pages: ArrayVec<u32, TRANSLATION_PAGES_PER_PREFETCH> = dirty
            .map(|entry| self.translation_page_of(entry.lpn))
            .take(TRANSLATION_PAGES_PER_PREFETCH)
            .collect();
        self.prefetch_dirty_slots(pages.iter().copied());
        pages
    }

    /// Prefetches the cached map entries of `lpns`, which are about to get new locations, so that cache misses overlap
    /// ([`crate::tables::prefetch`]).
    pub(super) fn prefetch(&self, lpns: &[Lpn]) {
        self.slot_by_lpn.prefetch(&self.slots, self.slots.len(), lpns.iter().map(|lpn| lpn.0));
        self.prefetch_dirty_slots(lpns.iter().map(|&lpn| self.translation_page_of(lpn)));
    }

    /// Prefetches into the CPU cache the last element of the array of dirty entries of each of these translation pages.
    fn prefetch_dirty_slots(&self, pages: impl Iterator<Item = u32>) {
        let newest = |page: u32| self.dirty_slots_by_page[page as usize].last().copied();
        load_into_cpu_cache(pages.map(|page| newest(page).unwrap_or(NO_SLOT).into()));
    }

    /// Returns the map entry in this slot of the cache.
    #[inline]
    pub(super) fn entry(&self, slot: CacheSlot) -> &CachedEntry {
        &self.slots[slot as usize]
    }

    /// Returns a mutable reference to the NVRAM word number of the map entry in cache slot `slot`.
    #[inline]
    pub(super) fn nvram_word_number_mut(&mut self, slot: CacheSlot) -> &mut NvramWordNumber {
        &mut self.slots[slot as usize].nvram_word_number
    }

    /// Records a use of the map entry in cache slot `slot`, which becomes the most recently used one.
    #[inline]
    pub(super) fn touch(&mut self, slot: CacheSlot) {
        self.entries_by_use
            .touch(&mut EntryQueuePositions::<INDEX_OF_QUEUE_BY_LAST_USE>(&mut self.slots), slot);
    }

    /// Inserts into the cache a clean map entry of a logical page that is not cached.
    pub(super) fn insert(&mut self, lpn: Lpn, unit: StoredUnit) -> CacheSlot {
        self.insert_entry(CachedEntry::new_clean(lpn, unit))
    }

    /// Inserts into the cache a dirty map entry of a logical page that is not cached. `has_unidentified_invalid_page`:
    /// an earlier version of the logical page is still counted as valid.
    pub(super) fn insert_dirty(
        &mut self,
        lpn: Lpn,
        unit: StoredUnit,
        has_unidentified_invalid_page: bool,
    ) -> CacheSlot {
        self.unidentified_invalid_pages += u32::from(has_unidentified_invalid_page);
        let slot = self.insert_entry(CachedEntry {
            is_dirty: true,
            has_unidentified_invalid_page,
            ..CachedEntry::new_clean(lpn, unit)
        });
        self.link_dirty_entry(slot, lpn);
        slot
    }

    /// Puts `entry` into a free slot of the cache, as the most recently used entry, and returns the slot.
    #[inline(always)]
    fn insert_entry(&mut self, entry: CachedEntry) -> CacheSlot {
        let slot = self.free_slots.pop().unwrap_or_else(|| self.append_clean_slot());
        let place = &mut self.slots[slot as usize];
        // The slot's void positions in the orders must not become valid, so the stored position numbers stay.
        *place = CachedEntry { queue_positions: place.queue_positions, ..entry };
        self.slot_by_lpn.insert(&mut self.slots, slot);
        self.entries_by_use
            .push(&mut EntryQueuePositions::<INDEX_OF_QUEUE_BY_LAST_USE>(&mut self.slots), slot);
        slot
    }

    /// Appends a slot to the cache, with a clean placeholder entry, and returns the number of the slot.
    #[cold]
    fn append_clean_slot(&mut self) -> CacheSlot {
        self.slots.push(CachedEntry::new_clean(Lpn(0), StoredUnit::NONE));
        (self.slots.len() - 1) as CacheSlot
    }

    /// Returns the cache slot of the least recently used map entry; `None` if the cache is empty.
    #[inline]
    pub(super) fn least_recently_used_slot(&self) -> Option<CacheSlot> {
        self.entries_by_use.oldest_slot()
    }

    /// Removes a clean map entry from the cache.
    #[inline]
    pub(super) fn remove(&mut self, slot: CacheSlot) {
        let CachedEntry { lpn, is_dirty, .. } = *self.entry(slot);
        assert!(!is_dirty, "the entry of {lpn} would be lost");
        self.entries_by_use
            .remove(&mut EntryQueuePositions::<INDEX_OF_QUEUE_BY_LAST_USE>(&mut self.slots), slot);
        self.slot_by_lpn.remove(&mut self.slots, slot);
        self.free_slots.push(slot);
    }

    /// Assigns the new location `unit` (flash page or chunk member) to a cached map entry, which becomes dirty and the
    /// most recently changed one. Returns the old location and whether the entry was clean.
    #[inline]
    pub(super) fn set_mapped_unit(&mut self, slot: CacheSlot, unit: StoredUnit) -> (StoredUnit, bool) {
        let entry = &mut self.slots[slot as usize];
        let old = std::mem::replace(&mut entry.unit, unit);
        let was_clean = !entry.is_dirty;
        if was_clean {
            let lpn = entry.lpn;
            entry.is_dirty = true;
            self.link_dirty_entry(slot, lpn);
        } else {
            self.dirty_entries_by_last_change
                .touch(&mut EntryQueuePositions::<INDEX_OF_QUEUE_BY_LAST_CHANGE>(&mut self.slots), slot);
        }
        (old, was_clean)
    }

    /// Adds the map entry of `lpn`, in cache slot `slot`, to the list of dirty entries of its translation page, and to
    /// the LRU queue by last change as the most recently changed entry.
    #[inline(always)]
    fn link_dirty_entry(&mut self, slot: CacheSlot, lpn: Lpn) {
        let page = self.translation_page_of(lpn);
        self.first_maybe_dirty_translation_page = self.first_maybe_dirty_translation_page.min(page);
        self.dirty_slots_by_page[page as usize].push(slot);
        self.dirty_entries_by_last_change
            .push(&mut EntryQueuePositions::<INDEX_OF_QUEUE_BY_LAST_CHANGE>(&mut self.slots), slot);
    }

    /// Marks in the map entry in cache slot `slot` whether an earlier version of its logical page is still counted as
    /// valid (`has_page`). Also updates the number of marked entries.
    pub(super) fn set_has_unidentified_invalid_page(&mut self, slot: CacheSlot, has_page: bool) {
        let entry = &mut self.slots[slot as usize];
        self.unidentified_invalid_pages -= u32::from(entry.has_unidentified_invalid_page);
        self.unidentified_invalid_pages += u32::from(has_page);
        entry.has_unidentified_invalid_page = has_page;
    }

    /// Marks the map entry in cache slot `slot` as restored by a recovery: it is unknown whether the earlier version of
    /// its logical page was reported to the validity store as invalid.
    pub(super) fn mark_invalidation_report_uncertain(&mut self, slot: CacheSlot) {
        self.slots[slot as usize].is_invalidation_report_uncertain = true;
    }

    /// Returns the number of the translation page that holds the map entry of `lpn`.
    #[inline]
    pub(super) fn translation_page_of(&self, lpn: Lpn) -> u32 {
        self.entries_per_page_divider.quotient(lpn.0)
    }

    /// Returns the cache slots of the dirty map entries of translation page `page`. The entry that became dirty last
    /// comes first.
    #[inline]
    pub(super) fn dirty_slots_of_page(&self, page: u32) -> impl Iterator<Item = CacheSlot> + '_ {
        self.dirty_slots_by_page[page as usize].iter().rev().copied()
    }

    /// Returns the number of the first translation page that has a dirty entry in the cache; `None` if there is none.
    /// O(1), amortised over a write-back of all pages.
    pub(super) fn find_first_dirty_translation_page(&mut self) -> Option<u32> {
        let pages = self.dirty_slots_by_page.len() as u32;
        let found = (self.first_maybe_dirty_translation_page..pages)
            .find(|&page| !self.dirty_slots_by_page[page as usize].is_empty());
        self.first_maybe_dirty_translation_page = found.unwrap_or(pages);
        found
    }

    /// Returns whether any cached map entry is dirty.
    pub(super) fn has_dirty_entries(&self) -> bool {
        self.dirty_entries() > 0
    }

    /// Marks all dirty map entries of translation page `page` as clean, after the page was written. Calls
    /// `free_nvram_word` with the NVRAM word of each.
    ///
    /// # Errors
    /// The first error of `free_nvram_word`: a loss of power, after which the state of the cache has no meaning.
    pub(super) fn mark_translation_page_clean(
        &mut self,
        page: u32,
        mut free_nvram_word: impl FnMut(&mut NvramWordNumber) -> Result<()>,
    ) -> Result<()> {
        let mut dirty = std::mem::take(&mut self.dirty_slots_by_page[page as usize]);
        for slot in dirty.drain(..).rev() {
            free_nvram_word(self.nvram_word_number_mut(slot))?;
            self.dirty_entries_by_last_change.make_position_obsolete(
                &mut EntryQueuePositions::<INDEX_OF_QUEUE_BY_LAST_CHANGE>(&mut self.slots),
                slot,
            );
            let entry = &mut self.slots[slot as usize];
            self.unidentified_invalid_pages -= u32::from(entry.has_unidentified_invalid_page);
            (entry.is_dirty, entry.has_unidentified_invalid_page, entry.is_invalidation_report_uncertain) =
                (false, false, false);
        }
        self.dirty_slots_by_page[page as usize] = dirty;
        self.dirty_entries_by_last_change
            .skip_obsolete_positions(&EntryQueuePositions::<INDEX_OF_QUEUE_BY_LAST_CHANGE>(&mut self.slots));
        Ok(())
    }

    /// Returns the cache slot of the dirty map entry whose last change is longest ago; `None` if no entry is dirty.
    pub(super) fn least_recently_changed_slot(&self) -> Option<CacheSlot> {
        self.dirty_entries_by_last_change.oldest_slot()
    }

    /// Returns the cache slot of the dirty map entry whose last change is longest ago, if that change was before the
    /// last checkpoint of the map (early write of entries that are dirty for long); otherwise `None`.
    pub(super) fn oldest_dirty_slot_before_checkpoint(&self) -> Option<CacheSlot> {
        self.dirty_entries_by_last_change.oldest_slot_before_checkpoint_mark()
    }

    /// Ends a checkpoint of the map: sets the mark of the queue of dirty entries after all changes so far. The next
    /// checkpoint writes the entries that are then still dirty and were not changed after the mark.
    pub(super) fn end_checkpoint(&mut self) {
        self.dirty_entries_by_last_change
            .set_checkpoint_mark(&mut EntryQueuePositions::<INDEX_OF_QUEUE_BY_LAST_CHANGE>(&mut self.slots));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::collections::hash_map::Entry as Place;

    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::{CachedEntry, ChainedIndex};
    use crate::address::{Lpn, OptionalAddress, StoredUnit};

    #[test]
    fn the_index_of_the_map_entry_cache_behaves_like_a_hash_map() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        for range in [6, 100, 5000] {
            let (mut index, mut model) = (ChainedIndex::with_capacity(0), HashMap::new());
            let mut slots: Vec<CachedEntry> =
                (0..range).map(|_| CachedEntry::new_clean(Lpn(0), StoredUnit::NONE)).collect();
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
