//! The fingerprint store (FS): the dead (invalid) pages with which the content of a new write is compared.
//!
//! An entry maps a content to a dead page that holds it. The paper scans entries in order of probability. A scan of 128
//! Ki entries for every write is too slow here, and its result does not depend on the order. So look-ups use a hash
//! index, and [`EvictionOrder`] keeps the order that eviction and the reported number of comparisons need.
//! [`DeadPageLists`] stores the slot of a page, and therefore takes part in every change of an entry. The price of
//! index and order is about 18 bytes per entry in addition to the 32 of the slot.
//!
//! The index is an array of list heads ([`HashBuckets`]); the lists are linked through the slots. So inserting or
//! removing an entry writes to the cache line of its slot, and a look-up of a missing content costs one or two reads.
//!
//! The store has levels, not probabilities: its caller computes them from history and access counts.
//!
//! Several dead pages may have equal content. Only one page per fingerprint is an entry. A bounded store drops the
//! other (it can return when the store is rebuilt). An unbounded store keeps it as a *duplicate* chained to the entry,
//! and makes it the entry when the entry is removed. Without duplicates an unbounded store would miss content that is
//! still on flash, and its hits would depend on the policy.
//!
//! Invariants: an entry's page is dead; at most one entry per fingerprint; entries <= capacity; duplicates only if
//! unbounded; a page has a slot exactly if that slot names the page. Source: LX-SSD (Zhou et al.), section IV-C.2.

use arrayvec::ArrayVec;

use super::buckets::{HashBuckets, NO_FINGERPRINT_STORE_SLOT};
use super::eviction_order::EvictionOrder;
use super::history::DeadPageLists;
use crate::address::{OptionalAddress, Ppn};
use crate::data::Fingerprint;
use crate::tables::prefetch::{HOST_WRITES_PER_PREFETCH, load_into_cpu_cache};

/// A dead page that is offered to the fingerprint store, with its read count, from which its probability level is
/// computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeadPageCandidate {
    /// Physical page that is dead (invalid, not erased).
    pub(super) ppn: Ppn,
    /// Fingerprint of the content of the dead page.
    pub(super) fingerprint: Fingerprint,
    /// Number of reads from which the recycle probability is computed: the reads of the page, or
    /// [`super::MAX_READ_COUNT`] if the page came into the store by fast loading (because a neighbouring page was
    /// recycled).
    pub(super) read_count: u8,
}

/// Outcome of offering a dead page to the fingerprint store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AdmissionOutcome {
    /// The page was inserted, and the fingerprint store (index of dead pages) had room for it.
    Inserted,
    /// The page was inserted in place of the entry of the fingerprint store that is evicted first. Holds the evicted
    /// page.
    Replaced(Ppn),
    /// The page was not inserted, because the fingerprint store (index of dead pages) is full and every entry is
    /// better.
    Refused,
}

/// Use of a slot of the fingerprint store: free, an entry, or a duplicate (a further dead page with the content of an
/// entry).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SlotState {
    /// The slot holds no dead page.
    Free,
    /// The slot holds an entry: the dead page that a look-up of its content finds.
    Entry,
    /// The slot holds a further dead page with the content of an entry.
    Duplicate,
}

/// A slot of the fingerprint store. Holds an entry, or a duplicate (a further dead page with the content of an entry).
/// It has 32 bytes, so that no slot is in two cache lines.
#[derive(Clone, Debug)]
#[repr(align(32))]
struct FingerprintStoreSlot {
    /// Fingerprint of the content of the dead page in the slot.
    fingerprint: Fingerprint,
    /// Dead page in the slot; [`Ppn::NONE`] if the slot is free.
    ppn: Ppn,
    /// Position of the entry in the eviction queue of its level of recycle probability (how likely its content is
    /// written again). Entries are evicted from the front of a queue.
    eviction_log_position: u32,
    /// Serial number of the last change of the entry's probability level (or of its insertion), counted over the whole
    /// store. Wraps around.
    level_change_serial_number: u32,
    /// Link of the slot. For an entry, the slot of the next entry in its hash bucket. For a duplicate (dead page with
    /// the content of an entry), the slot of the page before it in the chain of pages with equal content.
    bucket_or_duplicate_link: u32,
    /// Next slot in the chain of dead pages with equal content. The chain begins with the fingerprint-store entry; its
    /// duplicates follow.
    next_duplicate: u32,
    /// Level of the entry, 0 to 255: rank of its recycle probability (how likely its content is written again).
    recycle_probability_level: u8,
    /// Number of reads of the dead page, from which its recycle probability is computed.
    read_count: u8,
    /// Use of the slot: free, an entry, or a duplicate.
    slot_state: SlotState,
}

const _: () = assert!(size_of::<FingerprintStoreSlot>() == 32);

impl FingerprintStoreSlot {
    /// Value of a free slot.
    const FREE: Self = Self {
        fingerprint: Fingerprint::ZERO_PAGE,
        ppn: Ppn::NONE,
        eviction_log_position: 0,
        level_change_serial_number: 0,
        bucket_or_duplicate_link: NO_FINGERPRINT_STORE_SLOT,
        next_duplicate: NO_FINGERPRINT_STORE_SLOT,
        recycle_probability_level: 0,
        read_count: 0,
        slot_state: SlotState::Free,
    };
}

/// The fingerprint store: dead pages that a write of equal content can revive, found by content, and ordered for
/// eviction.
#[derive(Clone, Debug)]
pub(super) struct FingerprintStore {
    /// All slots of the fingerprint store, by slot number.
    slots: Vec<FingerprintStoreSlot>,
    /// Numbers of the free slots.
    free_slots: Vec<u32>,
    /// Hash buckets, by which an entry is found by its content.
    buckets: HashBuckets,
    /// Number of entries of the fingerprint store, without duplicates (dead pages with the content of an entry).
    entry_count: u32,
    /// Order in which entries are evicted: by probability level, then by recency.
    eviction_order: EvictionOrder,
    /// Maximum number of entries; `None` means unbounded.
    max_entries: Option<u32>,
    /// Number of insertions and of changes of an entry's probability level so far, by which entries are ordered by
    /// recency; wraps around.
    last_level_change_serial_number: u32,
    /// Slot of the fingerprint store (index of dead pages) that the cyclic scan for pages that are too old visited last
    /// ([`FingerprintStore::advance_expiry_scan`]).
    expiry_scan_slot: u32,
}

impl FingerprintStore {
    /// Creates an empty fingerprint store (index of dead pages) of at most `max_entries` entries; `None` means
    /// unbounded. Memory grows with the entries.
    pub(super) fn new(max_entries: Option<u32>) -> Self {
        Self {
            slots: Vec::new(),
            free_slots: Vec::new(),
            buckets: HashBuckets::new(),
            entry_count: 0,
            eviction_order: EvictionOrder::new(),
            max_entries,
            last_level_change_serial_number: 0,
            expiry_scan_slot: 0,
        }
    }

    /// Returns the number of entries of the fingerprint store (index of dead pages). Duplicates (pages with the content
    /// of an entry) are not counted.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.entry_count
    }

    /// Returns the number of duplicates in the fingerprint store: dead pages whose content equals that of an entry.
    pub(super) fn duplicate_count(&self) -> u32 {
        (self.slots.len() - self.free_slots.len()) as u32 - self.entry_count
    }

    /// Returns the maximum number of entries of the store; `None` means unbounded.
    pub(super) fn max_entries(&self) -> Option<u32> {
        self.max_entries
    }

    /// Returns the slot of the fingerprint-store entry with this content; `None` if the store has no dead page with it.
    #[inline]
    pub(super) fn find_slot(&self, fingerprint: Fingerprint) -> Option<u32> {
        let mut at = self.buckets.first_slot(fingerprint);
        while at != NO_FINGERPRINT_STORE_SLOT && self.slots[at as usize].fingerprint != fingerprint {
            at = self.slots[at as usize].bucket_or_duplicate_link;
        }
        (at != NO_FINGERPRINT_STORE_SLOT).then_some(at)
    }

    /// Returns the dead page in this slot of the fingerprint store, with its fingerprint and read count.
    #[inline]
    pub(super) fn page_in_slot(&self, slot: u32) -> DeadPageCandidate {
        let FingerprintStoreSlot { ppn, fingerprint, read_count, .. } = self.slots[slot as usize];
        DeadPageCandidate { ppn, fingerprint, read_count }
    }

    /// Returns the number of reads from which the recycle probability of the dead page in `slot` is computed.
    #[inline]
    pub(super) fn read_count(&self, slot: u32) -> u8 {
        self.slots[slot as usize].read_count
    }

    /// Returns the probability level of the entry of the fingerprint store (index of dead pages) in `slot`; `None` for
    /// a duplicate (page with the content of an entry), which has no level.
    #[inline]
    pub(super) fn recycle_probability_level(&self, slot: u32) -> Option<u8> {
        let FingerprintStoreSlot { slot_state: standing, recycle_probability_level, .. } =
            self.slots[slot as usize];
        (standing == SlotState::Entry).then_some(recycle_probability_level)
    }

    /// Returns the rank of the entry in `slot` in the eviction order of the fingerprint store (index of dead pages), 1
    /// being the last to be evicted.
    pub(super) fn rank_from_best(&self, slot: u32) -> u32 {
        let slot = &self.slots[slot as usize];
        self.eviction_order.rank_from_best(slot.recycle_probability_level, slot.eviction_log_position)
    }

    /// Advances the cyclic scan for pages that are too old to the next slot of the fingerprint store. Returns the dead
    /// page in the slot; `None` if the slot is free.
    pub(super) fn advance_expiry_scan(&mut self) -> Option<Ppn> {
        self.expiry_scan_slot =
            if self.expiry_scan_slot + 1 < self.slots.len() as u32 { self.expiry_scan_slot + 1 } else { 0 };
        let slot = self.slots.get(self.expiry_scan_slot as usize)?;
        (slot.slot_state != SlotState::Free).then_some(slot.ppn)
    }

    /// Returns all entries of the fingerprint store (index of dead pages); the entry to be evicted last comes first.
    pub(super) fn entries(&self) -> impl Iterator<Item = DeadPageCandidate> + '_ {
        self.eviction_order.slots_last_evicted_first().map(|slot| self.page_in_slot(slot))
    }

    /// Offers to the fingerprint store a dead page whose content has no entry yet. If the store has room, inserts the
    /// page. If the store is full, the page replaces the entry that is evicted first, provided that the level of this
    /// entry is not greater than `level`. Amortised O(1).
    pub(super) fn try_insert_dead_page(
        &mut self,
        history: &mut DeadPageLists,
        candidate: DeadPageCandidate,
        level: u8,
    ) -> AdmissionOutcome {
        let (slot, admission) = if self.is_full() {
            let Some((_, worst)) = self.eviction_order.first_to_evict().filter(|&(worst, _)| worst <= level)
            else {
                return AdmissionOutcome::Refused;
            };
            self.evict(history, worst);
            (worst, AdmissionOutcome::Replaced(self.slots[worst as usize].ppn))
        } else {
            (self.take_free_slot(), AdmissionOutcome::Inserted)
        };
        self.fill_slot(history, slot, candidate);
        self.index_content(slot);
        self.add_to_eviction_order(slot, level);
        admission
    }

    /// Returns whether the fingerprint store has its maximum number of entries.
    fn is_full(&self) -> bool {
        self.max_entries.is_some_and(|capacity| self.len() >= capacity)
    }

    /// Returns whether the fingerprint store (index of dead pages) would insert a dead page whose recycle probability
    /// has the rank `level`, and whose content has no entry yet. It would if it has room, or if its lowest entry has at
    /// most this level.
    pub(super) fn accepts_page_of_probability_level(&self, level: u8) -> bool {
        !self.is_full() || self.eviction_order.first_to_evict().is_some_and(|(worst, _)| worst <= level)
    }

    /// Replaces the entry of the fingerprint store (index of dead pages) in slot `rival_slot` by `candidate`, a dead
    /// page of equal content. An unbounded store keeps the replaced page as a duplicate, chained to the new entry.
    pub(super) fn replace_entry_of_equal_content(
        &mut self,
        history: &mut DeadPageLists,
        rival_slot: u32,
        candidate: DeadPageCandidate,
        level: u8,
    ) {
        self.remove_from_eviction_order(rival_slot);
        let slot = self.take_free_slot();
        self.fill_slot(history, slot, candidate);
        self.move_index_entry(rival_slot, slot);
        if self.max_entries.is_none() {
            self.slots[rival_slot as usize].slot_state = SlotState::Duplicate;
            self.link_duplicates(slot, rival_slot);
        } else {
            self.release_slot(history, rival_slot);
        }
        self.add_to_eviction_order(slot, level);
    }

    /// Keeps the entry of the fingerprint store (index of dead pages) in slot `rival_slot` rather than `candidate`, a
    /// dead page of equal content. An unbounded store adds `candidate` as a duplicate, chained to the entry; a bounded
    /// store drops it.
    pub(super) fn keep_entry_of_equal_content(
        &mut self,
        history: &mut DeadPageLists,
        rival_slot: u32,
        candidate: DeadPageCandidate,
    ) {
        if self.max_entries.is_none() {
            let slot = self.take_free_slot();
            self.fill_slot(history, slot, candidate);
            self.link_duplicates(slot, self.slots[rival_slot as usize].next_duplicate);
            self.link_duplicates(rival_slot, slot);
        }
    }

    /// Moves the entry of the fingerprint store (index of dead pages) in `slot` to probability level `level`, unless it
    /// is there already. A duplicate (page with the content of an entry) has no level and does not change.
    #[inline]
    pub(super) fn set_probability_level(&mut self, slot: u32, level: u8) {
        let FingerprintStoreSlot { slot_state: standing, recycle_probability_level: current, .. } =
            self.slots[slot as usize];
        if standing == SlotState::Entry && current != level {
            self.remove_from_eviction_order(slot);
            self.add_to_eviction_order(slot, level);
        }
    }

    /// Makes the entry of the fingerprint store (index of dead pages) in `slot` the most recent one of its probability
    /// level, so that it is evicted later.
    pub(super) fn make_most_recent(&mut self, slot: u32) {
        self.remove_from_eviction_order(slot);
        self.add_to_eviction_order(slot, self.slots[slot as usize].recycle_probability_level);
    }

    /// Sets the read count of the entry of the fingerprint store (index of dead pages) in `slot` to `read_count` and
    /// makes it the most recent one of probability level `level`. Returns `false` for a duplicate (page with the
    /// content of an entry), which does not change.
    pub(super) fn set_read_count_and_level(&mut self, slot: u32, read_count: u8, level: u8) -> bool {
        let is_entry = self.slots[slot as usize].slot_state == SlotState::Entry;
        if is_entry {
            self.slots[slot as usize].read_count = read_count;
            self.remove_from_eviction_order(slot);
            self.add_to_eviction_order(slot, level);
        }
        is_entry
    }

    /// Removes the dead page in `slot` from the fingerprint store. If it was an entry with a duplicate (page of equal
    /// content), look-ups of the content find the duplicate afterwards, and its slot is returned. The caller must call
    /// [`FingerprintStore::add_to_eviction_order`] for that slot; until then it is in no eviction queue.
    #[inline]
    pub(super) fn remove_dead_page(&mut self, history: &mut DeadPageLists, slot: u32) -> Option<u32> {
        let FingerprintStoreSlot {
            slot_state: standing,
            bucket_or_duplicate_link: link,
            next_duplicate: below,
            ..
        } = self.slots[slot as usize];
        let mut duplicate = None;
        if standing == SlotState::Duplicate {
            self.link_duplicates(link, below);
        } else if below == NO_FINGERPRINT_STORE_SLOT {
            self.remove_from_eviction_order(slot);
            self.remove_from_index(slot);
        } else {
            self.remove_from_eviction_order(slot);
            self.move_index_entry(slot, below);
            duplicate = Some(below);
        }
        self.release_slot(history, slot);
        duplicate
    }

    /// Makes the dead page in `slot` an entry of the fingerprint store, and the most recent one of probability level
    /// `level`.
    #[inline]
    pub(super) fn add_to_eviction_order(&mut self, slot: u32, level: u8) {
        let ticket = self.eviction_order.push(level, slot);
        let entry = &mut self.slots[slot as usize];
        (entry.recycle_probability_level, entry.eviction_log_position, entry.level_change_serial_number) =
            (level, ticket, self.last_level_change_serial_number);
        entry.slot_state = SlotState::Entry;
        self.last_level_change_serial_number = self.last_level_change_serial_number.wrapping_add(1);
    }

    /// Reads the slots `slots` of the fingerprint store and their positions in the eviction order, which a change of
    /// their probability levels will need, so that the cache misses overlap ([`crate::tables::prefetch`]).
    pub(super) fn prefetch_eviction_order_positions(&self, slots: &[u32]) {
        load_into_cpu_cache(slots.iter().map(|&slot| self.slots[slot as usize].eviction_log_position.into()));
        load_into_cpu_cache(slots.iter().map(|&slot| {
            let FingerprintStoreSlot { recycle_probability_level, eviction_log_position: ticket, .. } =
                self.slots[slot as usize];
            self.eviction_order.slot_of(recycle_probability_level, ticket).into()
        }));
    }

    /// Prefetches the parts of the fingerprint store's hash index that are read when the entries in the slots `slots`
    /// are removed, so that the cache misses overlap.
    pub(super) fn prefetch_index_entries_of_slots(&self, slots: &[u32]) {
        self.prefetch_buckets(slots.iter().map(|&slot| self.slots[slot as usize].fingerprint));
    }

    /// Prefetches from the hash index of the fingerprint store the bucket of each of these contents, and the first
    /// entry in the bucket, so that the cache misses overlap.
    fn prefetch_buckets(&self, contents: impl Iterator<Item = Fingerprint> + Clone) {
        let heads = contents.map(|content| self.buckets.first_slot(content));
        load_into_cpu_cache(heads.clone().map(u64::from));
        load_into_cpu_cache(
            heads
                .filter(|&head| head != NO_FINGERPRINT_STORE_SLOT)
                .map(|head| self.slots[head as usize].bucket_or_duplicate_link.into()),
        );
    }

    /// Prefetches the entries of the fingerprint store that will be evicted when `count` dead pages are inserted, so
    /// that the cache misses overlap. These entries are contiguous in the eviction order. Returns their pages.
    pub(super) fn prefetch_entries_to_evict(
        &self,
        history: &DeadPageLists,
        count: usize,
    ) -> ArrayVec<Ppn, HOST_WRITES_PER_PREFETCH> {
        let Some(capacity) = self.max_entries else { return ArrayVec::new() };
        let evictions = count.saturating_sub((capacity - self.len()) as usize);
        let worst: ArrayVec<u32, HOST_WRITES_PER_PREFETCH> = self
            .eviction_order
            .slots_in_eviction_order()
            .take(evictions.min(HOST_WRITES_PER_PREFETCH))
            .collect();
        self.prefetch_index_entries_of_slots(&worst);
        history.prefetch_newer_links_by_slot(&worst);
        let pages: ArrayVec<Ppn, HOST_WRITES_PER_PREFETCH> =
            worst.iter().map(|&slot| self.slots[slot as usize].ppn).collect();
        history.prefetch_links(pages.iter().copied());
        pages
    }

    /// Reads the parts of the fingerprint store (index of dead pages) that look-ups of these contents will need, so
    /// that their cache misses overlap.
    pub(super) fn prefetch_content_lookups(&self, contents: &[Fingerprint]) {
        self.prefetch_buckets(contents.iter().copied());
    }

    /// Changes the capacity of the fingerprint store (index of dead pages), and the probability level of every entry to
    /// that which `level_of` returns. Entries of equal level keep their order of recency. Evicts the entries beyond the
    /// capacity, lowest level first.
    pub(super) fn set_capacity_and_levels(
        &mut self,
        history: &mut DeadPageLists,
        capacity: Option<u32>,
        level_of: impl Fn(&DeadPageLists, DeadPageCandidate) -> u8,
    ) {
        if capacity.is_some() {
            self.drop_duplicates(history);
        }
        let mut entries: Vec<u32> = self.eviction_order.slots_last_evicted_first().collect();
        entries.sort_unstable_by_key(|&slot| {
            u32::MAX
                - self
                    .last_level_change_serial_number
                    .wrapping_sub(self.slots[slot as usize].level_change_serial_number)
        });
        self.eviction_order = EvictionOrder::new();
        for slot in entries {
            let level = level_of(history, self.page_in_slot(slot));
            self.slots[slot as usize].recycle_probability_level = level;
            self.slots[slot as usize].eviction_log_position = self.eviction_order.push(level, slot);
        }
        self.max_entries = capacity;
        while capacity.is_some_and(|capacity| self.len() > capacity) {
            let (_, worst) =
                self.eviction_order.first_to_evict().expect("a store that is too large has an entry");
            self.evict(history, worst);
            self.mark_slot_free(worst);
        }
    }

    /// Removes every dead page from the fingerprint store (index of dead pages), as a power failure does.
    pub(super) fn clear(&mut self, history: &mut DeadPageLists) {
        for slot in self.slots.iter().filter(|slot| slot.slot_state != SlotState::Free) {
            history.unassign_fingerprint_slot(slot.ppn);
        }
        self.slots.clear();
        self.free_slots.clear();
        (self.buckets, self.entry_count) = (HashBuckets::new(), 0);
        self.eviction_order = EvictionOrder::new();
    }

    /// Removes the entry in `slot` from eviction order and hash index of the fingerprint store. The entry must have no
    /// duplicates (dead pages of equal content). The slot is not freed: the caller reuses or frees it.
    #[inline]
    fn evict(&mut self, history: &mut DeadPageLists, slot: u32) {
        self.remove_from_eviction_order(slot);
        self.remove_from_index(slot);
        history.unassign_fingerprint_slot(self.slots[slot as usize].ppn);
    }

    /// Removes the entry in `slot` of the fingerprint store from the eviction order.
    #[inline]
    fn remove_from_eviction_order(&mut self, slot: u32) {
        let FingerprintStoreSlot { recycle_probability_level, eviction_log_position: ticket, .. } =
            self.slots[slot as usize];
        if self.eviction_order.remove(recycle_probability_level, ticket) {
            self.compact_eviction_order_level(recycle_probability_level);
        }
    }

    /// Rewrites the eviction order of one probability level without the positions of removed entries.
    #[cold]
    fn compact_eviction_order_level(&mut self, level: u8) {
        self.eviction_order
            .compact_level(level, |slot, ticket| self.slots[slot as usize].eviction_log_position = ticket);
    }

    /// Returns a free slot of the fingerprint store; adds a slot if none is free.
    #[inline]
    fn take_free_slot(&mut self) -> u32 {
        self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(FingerprintStoreSlot::FREE);
            self.slots.len() as u32 - 1
        })
    }

    /// Stores the dead page `candidate` in the unused slot `slot` of the fingerprint store. The slot is marked as a
    /// duplicate, which is in no eviction queue, until [`FingerprintStore::add_to_eviction_order`] makes it an entry.
    #[inline]
    fn fill_slot(&mut self, history: &mut DeadPageLists, slot: u32, candidate: DeadPageCandidate) {
        let DeadPageCandidate { ppn, fingerprint, read_count } = candidate;
        self.slots[slot as usize] = FingerprintStoreSlot {
            fingerprint,
            ppn,
            read_count,
            slot_state: SlotState::Duplicate,
            ..FingerprintStoreSlot::FREE
        };
        history.assign_fingerprint_slot(ppn, slot);
    }

    /// Frees `slot`, and ends its assignment to the dead page that it holds.
    #[inline]
    fn release_slot(&mut self, history: &mut DeadPageLists, slot: u32) {
        history.unassign_fingerprint_slot(self.slots[slot as usize].ppn);
        self.mark_slot_free(slot);
    }

    /// Marks the slot as free.
    #[inline]
    fn mark_slot_free(&mut self, slot: u32) {
        self.slots[slot as usize] = FingerprintStoreSlot::FREE;
        self.free_slots.push(slot);
    }

    /// Adds the content of the fingerprint-store slot `slot`, which no other entry has, to the hash index.
    #[inline]
    fn index_content(&mut self, slot: u32) {
        self.entry_count += 1;
        if self.buckets.must_grow_for(self.entry_count) {
            self.grow_buckets();
        }
        let entry = &mut self.slots[slot as usize];
        entry.bucket_or_duplicate_link = self.buckets.replace_first_slot(entry.fingerprint, slot);
    }

    /// Doubles the number of hash buckets of the fingerprint store (index of dead pages) and distributes the entries
    /// anew.
    #[cold]
    fn grow_buckets(&mut self) {
        self.buckets = self.buckets.with_twice_the_buckets();
        let entries = (0..).zip(&mut self.slots).filter(|(_, slot)| slot.slot_state == SlotState::Entry);
        entries.for_each(|(at, slot)| {
            slot.bucket_or_duplicate_link = self.buckets.replace_first_slot(slot.fingerprint, at);
        });
    }

    /// Removes the entry in `slot` from the hash index, so that look-ups do not find it any more.
    #[inline]
    fn remove_from_index(&mut self, slot: u32) {
        self.entry_count -= 1;
        self.redirect_bucket_link(slot, self.slots[slot as usize].bucket_or_duplicate_link);
    }

    /// Replaces the slot `from` by the slot `to` in the list of its hash bucket.
    fn move_index_entry(&mut self, from: u32, to: u32) {
        self.slots[to as usize].bucket_or_duplicate_link = self.slots[from as usize].bucket_or_duplicate_link;
        self.redirect_bucket_link(from, to);
    }

    /// Changes the link of the hash bucket that leads to the slot `slot` of the fingerprint store (index of dead
    /// pages), so that it leads to the slot `to`.
    #[inline]
    fn redirect_bucket_link(&mut self, slot: u32, to: u32) {
        let fingerprint = self.slots[slot as usize].fingerprint;
        let mut at = self.buckets.first_slot(fingerprint);
        if at == slot {
            self.buckets.replace_first_slot(fingerprint, to);
            return;
        }
        while self.slots[at as usize].bucket_or_duplicate_link != slot {
            at = self.slots[at as usize].bucket_or_duplicate_link;
        }
        self.slots[at as usize].bucket_or_duplicate_link = to;
    }

    /// Links slot `below` directly after slot `above` in the chain of dead pages with equal content;
    /// [`NO_FINGERPRINT_STORE_SLOT`] ends the chain.
    fn link_duplicates(&mut self, above: u32, below: u32) {
        self.slots[above as usize].next_duplicate = below;
        if below != NO_FINGERPRINT_STORE_SLOT {
            self.slots[below as usize].bucket_or_duplicate_link = above;
        }
    }

    /// Removes all duplicates (dead pages with the content of an entry) from the store.
    fn drop_duplicates(&mut self, history: &mut DeadPageLists) {
        for slot in 0..self.slots.len() as u32 {
            self.slots[slot as usize].next_duplicate = NO_FINGERPRINT_STORE_SLOT;
            if self.slots[slot as usize].slot_state == SlotState::Duplicate {
                self.release_slot(history, slot);
            }
        }
    }

    /// Checks the invariants of the fingerprint store. `level_of` returns the probability level that a page should
    /// have; `None` if the page is not dead. Returns the first violation as a sentence.
    pub(super) fn check_invariants(
        &self,
        history: &DeadPageLists,
        level_of: impl Fn(DeadPageCandidate) -> Option<u8>,
    ) -> Result<(), String> {
        self.eviction_order.check()?;
        let in_use = self.slots.iter().filter(|slot| slot.slot_state != SlotState::Free).count();
        let counts =
            [history.pages_with_fingerprint_slot() as usize, self.slots.len() - self.free_slots.len()];
        if counts != [in_use; 2] {
            return Err(format!(
                "the number of slots in use in the fingerprint store is {in_use}, which must also be the number of \
                 dead (invalid) pages with a slot, but that is {}, and the number of slots outside the list of free \
                 slots, but that is {}",
                counts[0], counts[1]
            ));
        }
        let entries: Vec<u32> = self.eviction_order.slots_last_evicted_first().collect();
        if entries.len() != self.len() as usize || self.max_entries.is_some_and(|c| self.len() > c) {
            return Err(format!(
                "the fingerprint store has {} entries in its eviction order and {} in its index by content, which \
                 must be equal, and may have {}",
                entries.len(),
                self.len(),
                self.max_entries.map_or_else(|| "any number".to_owned(), |most| format!("at most {most}"))
            ));
        }
        if self.max_entries.is_some() && self.duplicate_count() > 0 {
            return Err(format!(
                "the size of the fingerprint store is limited, so it must hold only one page of each content, but \
                 holds {} further ones",
                self.duplicate_count()
            ));
        }
        let mut chained = 0;
        for &entry in &entries {
            self.check_entry(entry, &level_of)?;
            chained += self.check_duplicate_chain(history, entry, &level_of)?;
        }
        if chained == in_use {
            Ok(())
        } else {
            Err(format!(
                "the chains of pages of equal content in the fingerprint store have {chained} pages, but must have \
                 {in_use}, the number of slots in use"
            ))
        }
    }

    /// Checks the fingerprint-store entry in `slot`; `level_of` returns the probability level that a dead page should
    /// have. Returns the first violation as a sentence.
    fn check_entry(
        &self,
        slot: u32,
        level_of: impl Fn(DeadPageCandidate) -> Option<u8>,
    ) -> Result<(), String> {
        let FingerprintStoreSlot {
            ppn, fingerprint, recycle_probability_level, slot_state: standing, ..
        } = self.slots[slot as usize];
        if standing != SlotState::Entry {
            let marked = if standing == SlotState::Free { "free" } else { "a further page of equal content" };
            return Err(format!(
                "slot {slot} of the fingerprint store, with flash page {ppn}, is in the eviction order, so it must be \
                 marked as evictable, but is marked as {marked}"
            ));
        }
        let found = self.find_slot(fingerprint);
        if found != Some(slot) {
            return Err(format!(
                "the fingerprint store has flash page {ppn} in slot {slot}, so a search for its content must find \
                 that slot, but finds {}",
                describe_slot(found)
            ));
        }
        let expected = level_of(self.page_in_slot(slot));
        if expected != Some(recycle_probability_level) {
            return Err(format!(
                "flash page {ppn} is on probability level {recycle_probability_level} of the fingerprint store, but must be \
                 on {}",
                expected.map_or_else(
                    || "none, because it is not recorded as dead (invalid)".to_owned(),
                    |level| format!("level {level}")
                )
            ));
        }
        Ok(())
    }

    /// Counts the dead pages in the chain of fingerprint-store slot `entry`: the entry and its duplicates (pages of
    /// equal content). Returns an error sentence if a page in the chain is not dead, has other content than the entry,
    /// or is registered under another slot.
    fn check_duplicate_chain(
        &self,
        history: &DeadPageLists,
        entry: u32,
        level_of: impl Fn(DeadPageCandidate) -> Option<u8>,
    ) -> Result<usize, String> {
        let fingerprint = self.slots[entry as usize].fingerprint;
        let mut length = 0;
        let mut at = entry;
        while at != NO_FINGERPRINT_STORE_SLOT {
            let page = self.page_in_slot(at);
            let (ppn, named) = (page.ppn, history.fingerprint_slot(page.ppn));
            if named != Some(at) {
                return Err(format!(
                    "flash page {ppn} is in slot {at} of the fingerprint store, so the lists of dead (invalid) pages \
                     must record that slot for it, but record {}",
                    describe_slot(named)
                ));
            }
            if page.fingerprint != fingerprint {
                return Err(format!(
                    "flash page {ppn} has the fingerprint {:016x}, which must be that of its chain in the fingerprint \
                     store, but the chain of slot {entry} has the fingerprint {:016x}",
                    page.fingerprint.0, fingerprint.0
                ));
            }
            if level_of(page).is_none() {
                return Err(format!(
                    "flash page {ppn} is in slot {at} of the fingerprint store, so it must be recorded as dead \
                     (invalid), but is not"
                ));
            }
            length += 1;
            at = self.slots[at as usize].next_duplicate;
        }
        Ok(length)
    }
}

/// Describes a slot of the fingerprint store in a message of the audit: its number, or that there is none.
fn describe_slot(slot: Option<u32>) -> String {
    slot.map_or_else(|| "no slot".to_owned(), |slot| format!("slot {slot}"))
}
