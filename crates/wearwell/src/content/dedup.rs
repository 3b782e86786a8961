//! Deduplication: which stored page has this content already?
//!
//! A bounded index from fingerprint to the unit that holds the content, as an in-line deduplicating drive keeps it
//! (Chen, Luo, Zhang, CAFTL, FAST 2011). It names units, not logical pages: the logical page that wrote the content
//! may move on while others still live from it. When the index is full an entry that was not hit since the hand came
//! by last makes room (second chance): nearly as good as exact recency, and a hit costs one bit instead of relinking.
//!
//! Invariants: an entry names a unit that somebody refers to; at most one entry per fingerprint, the newest copy.

use hashbrown::HashTable;

use super::{Fingerprint, mix};
use crate::address::{Address, Unit};

/// Bytes of an entry in a drive: 16 of digest, 4 of unit number.
const ENTRY_BYTES: u64 = 20;

/// Options of the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DedupOptions {
    /// Entries at most; `None` = one for every stored page, 0 = never a hit.
    pub capacity_entries: Option<u32>,
    /// Read and compare the stored page before a logical page is bound to it (charged as a content read). A device
    /// with real bytes needs it: fingerprints have 64 bits.
    pub verify_on_hit: bool,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    fingerprint: Fingerprint,
    unit: Unit,
    hit: bool,
}

/// Fingerprint to unit. Memory here: about 22 bytes per entry.
#[derive(Clone, Debug)]
pub struct ContentIndex {
    table: HashTable<u32>,
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    capacity: u32,
    hand: u32,
}

impl ContentIndex {
    /// An empty index.
    pub fn new(capacity_entries: Option<u32>) -> Self {
        Self {
            table: HashTable::new(),
            slots: Vec::new(),
            vacant: Vec::new(),
            capacity: capacity_entries.unwrap_or(u32::MAX),
            hand: 0,
        }
    }

    #[inline]
    fn slot_of(&self, fingerprint: Fingerprint) -> Option<u32> {
        let same = |&slot: &u32| self.slots[slot as usize].fingerprint == fingerprint;
        self.table.find(mix(fingerprint.0), same).copied()
    }

    /// The unit that holds this content; marks it as used.
    #[inline]
    pub fn find(&mut self, fingerprint: Fingerprint) -> Option<Unit> {
        let slot = self.slot_of(fingerprint)?;
        let slot = &mut self.slots[slot as usize];
        slot.hit = true;
        Some(slot.unit)
    }

    /// Reads what [`ContentIndex::find`] will need, so that several look-ups overlap; changes nothing.
    #[inline]
    pub fn warm(&self, fingerprint: Fingerprint) -> u64 {
        self.slot_of(fingerprint).map_or(0, u64::from)
    }

    /// `unit` holds this content from now on. An older copy of the same content is not found any more.
    pub fn insert(&mut self, fingerprint: Fingerprint, unit: Unit) {
        if let Some(slot) = self.slot_of(fingerprint) {
            self.slots[slot as usize].unit = unit;
            return;
        }
        if self.capacity == 0 {
            return;
        }
        if self.table.len() as u32 >= self.capacity {
            self.evict();
        }
        let entry = Slot { fingerprint, unit, hit: false };
        let slot = self.vacant.pop().unwrap_or(self.slots.len() as u32);
        if slot as usize == self.slots.len() {
            self.slots.push(entry);
        } else {
            self.slots[slot as usize] = entry;
        }
        let Self { table, slots, .. } = self;
        table.insert_unique(mix(fingerprint.0), slot, |&slot| mix(slots[slot as usize].fingerprint.0));
    }

    fn evict(&mut self) {
        loop {
            self.hand = if self.hand as usize + 1 < self.slots.len() { self.hand + 1 } else { 0 };
            let slot = &mut self.slots[self.hand as usize];
            if slot.unit == Unit::NONE {
                continue;
            }
            if !std::mem::replace(&mut slot.hit, false) {
                let fingerprint = slot.fingerprint;
                return self.drop_entry(fingerprint);
            }
        }
    }

    fn drop_entry(&mut self, fingerprint: Fingerprint) {
        let Self { table, slots, vacant, .. } = self;
        let same = |&slot: &u32| slots[slot as usize].fingerprint == fingerprint;
        let entry = table.find_entry(mix(fingerprint.0), same).expect("the entry is in the table");
        let (slot, _) = entry.remove();
        slots[slot as usize].unit = Unit::NONE;
        vacant.push(slot);
    }

    /// Nobody refers to `unit`, which held this content, any more.
    #[inline]
    pub fn remove(&mut self, fingerprint: Fingerprint, unit: Unit) {
        if self.slot_of(fingerprint).is_some_and(|slot| self.slots[slot as usize].unit == unit) {
            self.drop_entry(fingerprint);
        }
    }

    /// The content of `from` is at `to` now.
    #[inline]
    pub fn relocate(&mut self, fingerprint: Fingerprint, from: Unit, to: Unit) {
        if let Some(slot) = self.slot_of(fingerprint)
            && self.slots[slot as usize].unit == from
        {
            self.slots[slot as usize].unit = to;
        }
    }

    /// Forgets everything: the index is volatile, and losing it costs opportunities only.
    pub fn clear(&mut self) {
        *self = Self::new((self.capacity != u32::MAX).then_some(self.capacity));
    }

    /// Entries.
    pub fn len(&self) -> u32 {
        self.table.len() as u32
    }

    /// Whether the index knows no content.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// All entries, for audits.
    pub fn entries(&self) -> impl Iterator<Item = (Fingerprint, Unit)> + '_ {
        self.table.iter().map(|&slot| (self.slots[slot as usize].fingerprint, self.slots[slot as usize].unit))
    }

    /// Bytes a controller holds.
    pub fn ram_bytes(&self) -> u64 {
        ENTRY_BYTES * self.slots.len() as u64
    }
}
