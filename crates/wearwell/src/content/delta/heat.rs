//! The heat table: which logical pages are read or written often, as two access counts per entry of a segmented LRU
//! list.
//!
//! Delta-FTL decides by heat whether a write becomes a delta (write-hot, read-cold), and when a page in delta form is
//! merged into a full page. The paper keeps the counts in the entries of its cached mapping table (section 3.5), and
//! they are lost when an entry is evicted. The list has a probationary and a protected segment. An entry enters the
//! first, and its second access moves it to the second, whose least recently used entry falls back. The price is one
//! hash look-up and a few links per access.
//!
//! Invariant: a logical page has at most one entry, in exactly one segment.

use arrayvec::ArrayVec;

use crate::address::Lpn;
use crate::tables::prefetch::HOST_WRITES_PER_PREFETCH;
use crate::tables::{ChainedIndex, ChainedSlots, LinkedSlots, ListLinks, LruEnds};

/// Numbers of host reads and host writes of a logical page since the page entered the table of access counts. Both
/// saturate at 255.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccessCounts {
    /// Number of host reads of the logical page, at most 255.
    pub reads: u8,
    /// Number of host writes of the logical page, at most 255.
    pub writes: u8,
}

/// Kind of host access that the table of access counts distinguishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessKind {
    /// A host read of the logical page.
    Read,
    /// A host write of the logical page.
    Write,
}

/// Size of the table of access counts (recent host reads and writes per logical page): its maximum number of entries,
/// and the bytes of RAM per entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessCountTableSize {
    /// Maximum number of entries of the table of access counts; each is for one logical page.
    pub capacity_entries: u32,
    /// Bytes of controller RAM per entry of the table of access counts.
    pub entry_bytes: u32,
}

/// Bytes of controller RAM per entry of the access-count table, if the L2P map has a table of its own: logical page
/// number, read count, write count, and links of the LRU list.
pub const ACCESS_COUNT_ENTRY_BYTES: u32 = 14;
/// Bytes of controller RAM per entry of a table that has both access counts and the L2P map:
/// [`ACCESS_COUNT_ENTRY_BYTES`] and two physical page numbers (Delta-FTL, section 3.5, with a read and a write count).
pub const ACCESS_COUNT_AND_MAP_ENTRY_BYTES: u32 = 22;

/// Entry of the table of access counts, with the links of its hash chain and of its LRU list, so that an access touches
/// one place in memory.
#[derive(Clone, Copy, Debug)]
struct AccessCountEntry {
    /// Logical page whose accesses are counted.
    lpn: Lpn,
    /// Slot of the next entry in the same bucket of the hash index.
    next_in_chain: u32,
    /// Links to the neighbours of the entry in the LRU list of its segment.
    segment_links: ListLinks,
    /// Numbers of host reads and host writes of the logical page.
    access_counts: AccessCounts,
    /// Whether the entry is in the protected segment of the LRU list, because it was accessed again.
    is_in_protected_segment: bool,
}

impl ChainedSlots for Vec<AccessCountEntry> {
    #[inline]
    fn key_of(&self, slot: u32) -> u32 {
        self[slot as usize].lpn.0
    }
    #[inline]
    fn next_in_chain(&self, slot: u32) -> u32 {
        self[slot as usize].next_in_chain
    }
    #[inline]
    fn set_next_in_chain(&mut self, slot: u32, next: u32) {
        self[slot as usize].next_in_chain = next;
    }
}

impl LinkedSlots for Vec<AccessCountEntry> {
    #[inline]
    fn links(&self, slot: u32) -> ListLinks {
        self[slot as usize].segment_links
    }
    #[inline]
    fn links_mut(&mut self, slot: u32) -> &mut ListLinks {
        &mut self[slot as usize].segment_links
    }
}

/// Table of access counts of recently accessed logical pages, as a segmented LRU list.
#[derive(Clone, Debug)]
pub struct AccessCountTable {
    /// Hash index that finds the slot of a logical page's entry.
    slots_by_lpn: ChainedIndex,
    /// Entries of the table of access counts, by slot; free slots hold old entries.
    entries: Vec<AccessCountEntry>,
    /// Slots without an entry, for the next entries.
    free_slots: Vec<u32>,
    /// Ends of the LRU list of the probationary segment, from which entries are evicted first.
    probationary_segment: LruEnds,
    /// Ends of the LRU list of the protected segment, which holds entries that were accessed again.
    protected_segment: LruEnds,
    /// Maximum number of entries, and bytes of RAM per entry.
    size: AccessCountTableSize,
}

impl AccessCountTable {
    /// Creates an empty table of access counts of this size. Up to half of its entries are in the protected segment of
    /// the LRU list. With capacity 0 no page is ever hot.
    pub fn new(size: AccessCountTableSize) -> Self {
        Self {
            slots_by_lpn: ChainedIndex::with_capacity(0),
            entries: Vec::new(),
            free_slots: Vec::new(),
            probationary_segment: LruEnds::default(),
            protected_segment: LruEnds::default(),
            size,
        }
    }

    /// Returns the slot of the entry of the logical page `lpn`; `None` if it has none.
    fn slot_of(&self, lpn: Lpn) -> Option<u32> {
        self.slots_by_lpn.find(&self.entries, lpn.0)
    }

    /// Counts a host access to `lpn` and returns the access counts of `lpn`, including this access. A table without room
    /// for an entry counts nothing and returns zeros.
    pub fn count_access(&mut self, lpn: Lpn, access: AccessKind) -> AccessCounts {
        if self.size.capacity_entries == 0 {
            return AccessCounts::default();
        }
        let slot = match self.slot_of(lpn) {
            Some(slot) => {
                self.promote_entry(slot);
                slot
            }
            None => self.insert_entry(lpn),
        };
        let heat = &mut self.entries[slot as usize].access_counts;
        match access {
            AccessKind::Read => heat.reads = heat.reads.saturating_add(1),
            AccessKind::Write => heat.writes = heat.writes.saturating_add(1),
        }
        *heat
    }

    /// Returns the read count and the write count of the logical page `lpn`; both are 0 if the table has no entry for
    /// it.
    pub fn access_counts(&self, lpn: Lpn) -> AccessCounts {
        self.slot_of(lpn).map_or(AccessCounts::default(), |slot| self.entries[slot as usize].access_counts)
    }

    /// Reads the entries of the table of access counts that counting accesses to these logical pages will need, and the
    /// entries that will be evicted for them, so that their cache misses overlap ([`crate::tables::prefetch`]).
    pub(crate) fn prefetch(&self, lpns: &[Lpn]) {
        self.slots_by_lpn.prefetch(&self.entries, self.entries.len(), lpns.iter().map(|lpn| lpn.0));
        if self.slots_by_lpn.len() + lpns.len() > self.size.capacity_entries as usize {
            let leaving = self.probationary_segment.slots_oldest_first(&self.entries);
            let pages: ArrayVec<u32, HOST_WRITES_PER_PREFETCH> = leaving
                .take(HOST_WRITES_PER_PREFETCH)
                .map(|slot| self.entries[slot as usize].lpn.0)
                .collect();
            self.slots_by_lpn.prefetch(&self.entries, self.entries.len(), pages.iter().copied());
        }
    }

    /// Moves the accessed entry in `slot` to the recent end of the protected segment. If this segment is then too long,
    /// its least recent entry moves to the probationary segment.
    fn promote_entry(&mut self, slot: u32) {
        let Self { entries, probationary_segment, protected_segment, .. } = self;
        if entries[slot as usize].is_in_protected_segment {
            return protected_segment.touch(entries, slot);
        }
        probationary_segment.remove(entries, slot);
        protected_segment.push_newest(entries, slot);
        entries[slot as usize].is_in_protected_segment = true;
        if protected_segment.len() > self.size.capacity_entries / 2
            && let Some(cold) = protected_segment.oldest_slot()
        {
            protected_segment.remove(entries, cold);
            probationary_segment.push_newest(entries, cold);
            entries[cold as usize].is_in_protected_segment = false;
        }
    }

    /// Adds an entry for `lpn` with access counts of 0 and returns its slot. Evicts an entry if the table is full.
    fn insert_entry(&mut self, lpn: Lpn) -> u32 {
        if self.slots_by_lpn.len() >= self.size.capacity_entries as usize {
            self.evict_entry();
        }
        let entry = AccessCountEntry {
            lpn,
            next_in_chain: u32::MAX,
            segment_links: ListLinks::NONE,
            access_counts: AccessCounts::default(),
            is_in_protected_segment: false,
        };
        let slot = self.free_slots.pop().unwrap_or(self.entries.len() as u32);
        if slot as usize == self.entries.len() {
            self.entries.push(entry);
        } else {
            self.entries[slot as usize] = entry;
        }
        self.slots_by_lpn.insert(&mut self.entries, slot);
        self.probationary_segment.push_newest(&mut self.entries, slot);
        slot
    }

    /// Evicts the least recently used entry of the probationary segment, or of the protected segment if that one is
    /// empty.
    fn evict_entry(&mut self) {
        let slot = self
            .probationary_segment
            .oldest_slot()
            .or(self.protected_segment.oldest_slot())
            .expect("a full table has an entry");
        let segment = if self.entries[slot as usize].is_in_protected_segment {
            &mut self.protected_segment
        } else {
            &mut self.probationary_segment
        };
        segment.remove(&mut self.entries, slot);
        self.slots_by_lpn.remove(&mut self.entries, slot);
        self.free_slots.push(slot);
    }

    /// Halves the access counts of the logical page `lpn` and returns them. Otherwise a page that was hot once would
    /// stay hot for as long as it has an entry.
    pub fn halve_access_counts(&mut self, lpn: Lpn) -> AccessCounts {
        let Some(slot) = self.slot_of(lpn) else { return AccessCounts::default() };
        let heat = &mut self.entries[slot as usize].access_counts;
        *heat = AccessCounts { reads: heat.reads / 2, writes: heat.writes / 2 };
        *heat
    }

    /// Returns the number of logical pages that have access counts in the table.
    pub fn len(&self) -> usize {
        self.slots_by_lpn.len()
    }

    /// Returns whether no logical page has access counts in the table.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of RAM that the controller of a real drive needs for the table of access counts.
    pub fn ram_bytes(&self) -> u64 {
        let entries = self.size.capacity_entries.min(self.entries.len() as u32);
        u64::from(self.size.entry_bytes) * u64::from(entries)
    }
}
