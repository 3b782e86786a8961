//! Deduplication: which stored page has this content already?
//!
//! A bounded index from fingerprint to the unit that holds the content, as an in-line deduplicating drive keeps it
//! (Chen, Luo, Zhang, CAFTL, FAST 2011). It names units, not logical pages: the logical page that wrote the content
//! may move on while others still live from it. When the index is full an entry that was not hit since the hand came
//! by last makes room (second chance): nearly as good as exact recency, and a hit costs one bit instead of relinking.
//!
//! Each question costs cache misses and nothing else: the buckets of the hash table hold a part of the hash beside the
//! number of the slot, so that a miss is answered by one of them and a table that grows does not ask the slots; and who
//! names content and unit together (a page that moved or died) needs the unit alone, as a unit has one content. The price:
//! nine more bytes per entry than a table of slots.
//!
//! Invariants: an entry names a unit that somebody refers to; at most one entry per fingerprint, the newest copy.

use super::{Fingerprint, mix};
use crate::address::{Address, Unit};
use crate::table::Table;
use crate::warm::read_all;

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

/// A table that is full becomes half as long again.
fn longer(len: usize) -> usize {
    (len + len / 2).max(16)
}

/// Slots by hash: linear probing over words of a tag (the upper half of the hash, which also gives the home) and a slot
/// number above 0; 0 is an empty bucket.
#[derive(Clone, Debug)]
struct Buckets {
    words: Table<u64>,
    entries: u32,
}

impl Buckets {
    fn new() -> Self {
        Self { words: Table::zeroed(longer(0)), entries: 0 }
    }

    #[inline]
    fn home(&self, tag: u64) -> usize {
        ((tag * self.words.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.words.len() { 0 } else { bucket + 1 }
    }

    /// Bucket and slot of the entry that `is_it` says yes to.
    #[inline]
    fn find(&self, fingerprint: Fingerprint, is_it: impl Fn(u32) -> bool) -> Option<(usize, u32)> {
        let tag = tag_of(fingerprint);
        let mut bucket = self.home(tag);
        loop {
            let word = self.words.get(bucket);
            if word == 0 {
                return None;
            }
            let slot = word as u32 - 1;
            if word >> 32 == tag && is_it(slot) {
                return Some((bucket, slot));
            }
            bucket = self.after(bucket);
        }
    }

    /// Reads the buckets that [`Buckets::find`] begins with.
    fn warm(&self, fingerprints: impl Iterator<Item = Fingerprint>) {
        read_all(fingerprints.map(|content| self.words.get(self.home(tag_of(content)))));
    }

    fn insert(&mut self, fingerprint: Fingerprint, slot: u32) {
        // Up to three quarters full: a content that is not there is known after eight buckets, a cache line, or two.
        if self.entries as usize >= self.words.len() / 4 * 3 {
            let longer = Table::zeroed(longer(self.words.len()));
            let shorter = std::mem::replace(&mut self.words, longer);
            (0..shorter.len()).map(|bucket| shorter.get(bucket)).for_each(|word| self.place(word));
        }
        self.place(tag_of(fingerprint) << 32 | (slot as u64 + 1));
        self.entries += 1;
    }

    fn place(&mut self, word: u64) {
        let mut bucket = self.home(word >> 32);
        while word != 0 && self.words.get(bucket) != 0 {
            bucket = self.after(bucket);
        }
        if word != 0 {
            self.words.set(bucket, word);
        }
    }

    /// Empties a bucket and closes the gap: entries behind it that are not at home move up.
    fn remove(&mut self, bucket: usize) {
        let len = self.words.len();
        let distance = |from: usize, to: usize| if to >= from { to - from } else { to + len - from };
        let (mut gap, mut at) = (bucket, bucket);
        loop {
            at = self.after(at);
            let word = self.words.get(at);
            if word == 0 {
                break;
            }
            if distance(self.home(word >> 32), at) >= distance(gap, at) {
                self.words.set(gap, word);
                gap = at;
            }
        }
        self.words.set(gap, 0);
        self.entries -= 1;
    }
}

#[inline]
fn tag_of(fingerprint: Fingerprint) -> u64 {
    mix(fingerprint.0) >> 32
}

/// Fingerprint to unit. Memory here: 24 to 36 bytes per entry.
#[derive(Clone, Debug)]
pub struct ContentIndex {
    buckets: Buckets,
    /// By slot: content, unit (none = vacant), and whether the entry was hit since the hand came by.
    fingerprints: Table<u64>,
    units: Table<u32>,
    hits: Vec<bool>,
    vacant: Vec<u32>,
    capacity: u32,
    hand: usize,
}

impl ContentIndex {
    /// An empty index.
    pub fn new(capacity_entries: Option<u32>) -> Self {
        Self {
            buckets: Buckets::new(),
            fingerprints: Table::zeroed(0),
            units: Table::zeroed(0),
            hits: Vec::new(),
            vacant: Vec::new(),
            capacity: capacity_entries.unwrap_or(u32::MAX),
            hand: 0,
        }
    }

    #[inline]
    fn with_content(&self, fingerprint: Fingerprint) -> Option<(usize, u32)> {
        self.buckets.find(fingerprint, |slot| self.fingerprints.get(slot as usize) == fingerprint.0)
    }

    #[inline]
    fn of_unit(&self, fingerprint: Fingerprint, unit: Unit) -> Option<(usize, u32)> {
        self.buckets.find(fingerprint, |slot| self.unit(slot) == unit)
    }

    #[inline]
    fn unit(&self, slot: u32) -> Unit {
        Unit(self.units.get(slot as usize))
    }

    /// The unit that holds this content; marks it as used.
    #[inline]
    pub fn find(&mut self, fingerprint: Fingerprint) -> Option<Unit> {
        let (_, slot) = self.with_content(fingerprint)?;
        self.hits[slot as usize] = true;
        Some(self.unit(slot))
    }

    /// Reads what [`ContentIndex::find`] will need; see [`crate::warm`].
    pub(crate) fn warm(&self, fingerprints: impl Iterator<Item = Fingerprint> + Clone) {
        self.buckets.warm(fingerprints.clone());
        read_all(fingerprints.filter_map(|content| self.with_content(content)).map(|(_, slot)| slot.into()));
    }

    /// The same for [`ContentIndex::remove`] and [`ContentIndex::relocate`].
    pub(crate) fn warm_units(&self, units: impl Iterator<Item = (Fingerprint, Unit)> + Clone) {
        self.buckets.warm(units.clone().map(|(content, _)| content));
        read_all(
            units.filter_map(|(content, unit)| self.of_unit(content, unit)).map(|(_, slot)| slot.into()),
        );
    }

    /// `unit` holds this content from now on. An older copy of the same content is not found any more.
    pub fn insert(&mut self, fingerprint: Fingerprint, unit: Unit) {
        if let Some((_, slot)) = self.with_content(fingerprint) {
            self.units.set(slot as usize, unit.0);
            return;
        }
        if self.capacity == 0 {
            return;
        }
        if self.len() >= self.capacity {
            self.evict();
        }
        let slot = self.vacant.pop().unwrap_or_else(|| self.new_slot());
        self.fingerprints.set(slot as usize, fingerprint.0);
        self.units.set(slot as usize, unit.0);
        self.hits[slot as usize] = false;
        self.buckets.insert(fingerprint, slot);
    }

    fn new_slot(&mut self) -> u32 {
        let slot = self.hits.len();
        self.hits.push(false);
        if slot == self.units.len() {
            self.units = self.units.grown(longer(slot));
            self.fingerprints = self.fingerprints.grown(longer(slot));
        }
        slot as u32
    }

    fn evict(&mut self) {
        loop {
            self.hand = if self.hand + 1 < self.hits.len() { self.hand + 1 } else { 0 };
            if self.unit(self.hand as u32) == Unit::NONE {
                continue;
            }
            if !std::mem::replace(&mut self.hits[self.hand], false) {
                let fingerprint = Fingerprint(self.fingerprints.get(self.hand));
                let entry = self.with_content(fingerprint).expect("a slot in use has a bucket");
                return self.drop_entry(entry);
            }
        }
    }

    fn drop_entry(&mut self, (bucket, slot): (usize, u32)) {
        self.buckets.remove(bucket);
        self.units.set(slot as usize, Unit::NONE.0);
        self.vacant.push(slot);
    }

    /// Nobody refers to `unit`, which held this content, any more.
    #[inline]
    pub fn remove(&mut self, fingerprint: Fingerprint, unit: Unit) {
        if let Some(entry) = self.of_unit(fingerprint, unit) {
            self.drop_entry(entry);
        }
    }

    /// The content of `from` is at `to` now.
    #[inline]
    pub fn relocate(&mut self, fingerprint: Fingerprint, from: Unit, to: Unit) {
        if let Some((_, slot)) = self.of_unit(fingerprint, from) {
            self.units.set(slot as usize, to.0);
        }
    }

    /// Forgets everything: the index is volatile, and losing it costs opportunities only.
    pub fn clear(&mut self) {
        *self = Self::new((self.capacity != u32::MAX).then_some(self.capacity));
    }

    /// Entries.
    pub fn len(&self) -> u32 {
        self.buckets.entries
    }

    /// Whether the index knows no content.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All entries, for audits.
    pub fn entries(&self) -> impl Iterator<Item = (Fingerprint, Unit)> + '_ {
        let slots = (0..self.hits.len() as u32).filter(|&slot| self.unit(slot) != Unit::NONE);
        slots.map(|slot| (Fingerprint(self.fingerprints.get(slot as usize)), self.unit(slot)))
    }

    /// Bytes a controller holds.
    pub fn ram_bytes(&self) -> u64 {
        ENTRY_BYTES * self.hits.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// A plain map beside the index, through growth, wrap-around and the gaps that removals leave.
    #[test]
    fn an_unbounded_index_is_a_map() {
        let (mut index, mut model) = (ContentIndex::new(None), HashMap::new());
        let mut state = 1;
        for step in 0..60_000_u32 {
            state = mix(state);
            let fingerprint = Fingerprint(state % 700);
            let known = model.get(&fingerprint).copied();
            assert_eq!(index.find(fingerprint), known, "step {step}");
            match (state >> 32) % 4 {
                0 | 1 => {
                    index.insert(fingerprint, Unit(step));
                    model.insert(fingerprint, Unit(step));
                }
                2 => {
                    index.remove(fingerprint, known.unwrap_or(Unit(step)));
                    model.remove(&fingerprint);
                }
                _ => {
                    index.relocate(fingerprint, known.unwrap_or(Unit(step)), Unit(step));
                    model.entry(fingerprint).and_modify(|unit| *unit = Unit(step));
                }
            }
            assert_eq!(index.len() as usize, model.len());
        }
        assert_eq!(index.entries().collect::<HashMap<_, _>>(), model);
    }

    /// What was not hit since the hand came by makes room, in the order of the slots.
    #[test]
    fn a_full_index_gives_second_chances() {
        let mut index = ContentIndex::new(Some(3));
        (1..=3).for_each(|k| index.insert(Fingerprint(k), Unit(k as u32)));
        assert_eq!(index.find(Fingerprint(2)), Some(Unit(2)));
        index.insert(Fingerprint(4), Unit(4));
        let known: Vec<bool> = (1..=4).map(|k| index.find(Fingerprint(k)).is_some()).collect();
        assert_eq!(known, [true, true, false, true]);
    }
}
