//! Which logical pages are read or written often: two access counts on the entries of a segmented LRU list.
//!
//! Delta-FTL decides by heat whether a write becomes a delta (write-hot, read-cold) and when a delta goes back to a
//! page of its own. The counts live on the entries of its cached mapping table (section 3.5) and are lost when an
//! entry leaves it. The list has a probationary and a protected segment: an entry enters the first, and its second
//! access moves it to the second, from where the least recently used falls back. The price is one hash look-up and a
//! few links per access.
//!
//! Invariant: a logical page has at most one entry, in exactly one segment.

use hashbrown::HashTable;

use crate::address::Lpn;
use crate::data::mix;
use crate::tables::Recency;
use crate::tables::prefetch::touch_all;

/// Accesses of a logical page since it entered the table; both saturate at 255.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Heat {
    /// Host reads.
    pub reads: u8,
    /// Host writes.
    pub writes: u8,
}

/// Kinds of access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The host read the page.
    Read,
    /// The host wrote the page.
    Write,
}

/// Bytes of an entry in a controller: LPN, two page numbers, two counts, links (section 3.5, with two counts).
const ENTRY_BYTES: u64 = 22;

#[derive(Clone, Copy, Debug)]
struct Entry {
    lpn: Lpn,
    heat: Heat,
    protected: bool,
}

/// The table of counts.
#[derive(Clone, Debug)]
pub struct HeatTable {
    index: HashTable<u32>,
    entries: Vec<Entry>,
    vacant: Vec<u32>,
    probationary: Recency,
    protected: Recency,
    capacity: u32,
}

impl HeatTable {
    /// A table of at most `capacity` entries, half of them protected; with 0 nothing is ever hot.
    pub fn new(capacity: u32) -> Self {
        Self {
            index: HashTable::new(),
            entries: Vec::new(),
            vacant: Vec::new(),
            probationary: Recency::default(),
            protected: Recency::default(),
            capacity,
        }
    }

    fn slot_of(&self, lpn: Lpn) -> Option<u32> {
        self.index.find(mix(lpn.0 as u64), |&slot| self.entries[slot as usize].lpn == lpn).copied()
    }

    /// Counts an access and returns the counts with it included.
    pub fn touch(&mut self, lpn: Lpn, access: Access) -> Heat {
        if self.capacity == 0 {
            return Heat::default();
        }
        let slot = match self.slot_of(lpn) {
            Some(slot) => {
                self.promote(slot);
                slot
            }
            None => self.insert(lpn),
        };
        let heat = &mut self.entries[slot as usize].heat;
        match access {
            Access::Read => heat.reads = heat.reads.saturating_add(1),
            Access::Write => heat.writes = heat.writes.saturating_add(1),
        }
        *heat
    }

    /// The counts of a page; zero if it has no entry.
    pub fn heat(&self, lpn: Lpn) -> Heat {
        self.slot_of(lpn).map_or(Heat::default(), |slot| self.entries[slot as usize].heat)
    }

    /// Reads what counting accesses of these pages will need; see [`crate::tables::prefetch`]: their entries, and those that make room.
    pub(crate) fn prefetch(&self, lpns: &[Lpn]) {
        touch_all(lpns.iter().filter_map(|&lpn| self.slot_of(lpn)).map(u64::from));
        if self.index.len() + lpns.len() > self.capacity as usize {
            let leaving = self.probationary.oldest_first().take(lpns.len());
            let pages = leaving.map(|slot| self.entries[slot as usize].lpn);
            touch_all(pages.filter_map(|lpn| self.slot_of(lpn)).map(u64::from));
        }
    }

    fn promote(&mut self, slot: u32) {
        if self.entries[slot as usize].protected {
            return self.protected.touch(slot);
        }
        self.probationary.remove(slot);
        self.protected.push(slot);
        self.entries[slot as usize].protected = true;
        if self.protected.len() > self.capacity / 2
            && let Some(cold) = self.protected.oldest()
        {
            self.protected.remove(cold);
            self.probationary.push(cold);
            self.entries[cold as usize].protected = false;
        }
    }

    fn insert(&mut self, lpn: Lpn) -> u32 {
        if self.index.len() >= self.capacity as usize {
            self.evict();
        }
        let entry = Entry { lpn, heat: Heat::default(), protected: false };
        let slot = self.vacant.pop().unwrap_or(self.entries.len() as u32);
        if slot as usize == self.entries.len() {
            self.entries.push(entry);
        } else {
            self.entries[slot as usize] = entry;
        }
        let Self { index, entries, .. } = self;
        index.insert_unique(mix(lpn.0 as u64), slot, |&slot| mix(entries[slot as usize].lpn.0 as u64));
        self.probationary.push(slot);
        slot
    }

    fn evict(&mut self) {
        let slot = self.probationary.oldest().or(self.protected.oldest()).expect("a full table has an entry");
        if self.entries[slot as usize].protected {
            self.protected.remove(slot);
        } else {
            self.probationary.remove(slot);
        }
        let lpn = self.entries[slot as usize].lpn;
        let entry = self.index.find_entry(mix(lpn.0 as u64), |&other| other == slot);
        entry.expect("an entry is in the index").remove();
        self.vacant.push(slot);
    }

    /// Halves the counts of a page and returns them. Counts only grow otherwise: without this a page that was hot once
    /// would be hot for as long as it has an entry.
    pub fn cool(&mut self, lpn: Lpn) -> Heat {
        let Some(slot) = self.slot_of(lpn) else { return Heat::default() };
        let heat = &mut self.entries[slot as usize].heat;
        *heat = Heat { reads: heat.reads / 2, writes: heat.writes / 2 };
        *heat
    }

    /// Pages with an entry.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether no page has an entry.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Bytes a controller holds.
    pub fn ram_bytes(&self) -> u64 {
        ENTRY_BYTES * self.capacity.min(self.entries.len() as u32) as u64
    }
}
