//! Deduplication: which stored page has this content already?
//!
//! A bounded index from fingerprint to the unit that holds the content, as an in-line deduplicating drive keeps it
//! (Chen, Luo, Zhang, CAFTL, FAST 2011). It names units, not logical pages: the logical page that wrote the content
//! may move on while others still live from it. When the index is full an entry that was not hit since the hand came
//! by last makes room (second chance): nearly as good as exact recency, and a hit costs one bit instead of relinking.
//!
//! Each question costs cache misses and nothing else, so an entry is one word: part of the hash, the bit of the second
//! chance, the unit. What the unit holds is known to the flash, which is asked where the parts of two hashes agree, hardly
//! ever in vain; who names content and unit together (a page that moved or died) needs the unit alone, as a unit has one
//! content. The price: the hand goes round by hash, not by age, and a look-up has to be told how to ask the flash.
//!
//! Invariants: an entry names a unit that somebody refers to; at most one entry per fingerprint, the newest copy.

use super::{Fingerprint, mix};
use crate::address::Unit;
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

/// A table that is five eighths full with so many entries, which never becomes longer: while it did, there would be two.
fn length_for(entries: u32) -> usize {
    entries as usize / 5 * 8 + 16
}

/// Words in a cache line.
const LINE_WORDS: usize = 8;

/// Bits of the hash that an entry keeps.
const TAG_BITS: u32 = 31;

/// An entry; 0 = none. From the top: tag, whether it was hit since the hand came by, number of the unit plus one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Word(u64);

impl Word {
    const NONE: Self = Self(0);
    const HIT: u64 = 1 << 32;

    fn new(tag: u64, unit: Unit) -> Self {
        Self(tag << (64 - TAG_BITS) | (u64::from(unit.0) + 1))
    }

    #[inline]
    fn tag(self) -> u64 {
        self.0 >> (64 - TAG_BITS)
    }

    #[inline]
    fn unit(self) -> Unit {
        Unit((self.0 as u32).wrapping_sub(1))
    }

    fn is_hit(self) -> bool {
        self.0 & Self::HIT != 0
    }
}

#[inline]
fn tag_of(fingerprint: Fingerprint) -> u64 {
    mix(fingerprint.0) >> (64 - TAG_BITS)
}

/// Where a search ended.
enum Search {
    Found(usize),
    Gap(usize),
}

/// Fingerprint to unit: linear probing. Memory here: 11 to 16 bytes per entry of an index with a capacity, else 13 for each of
/// the most entries that there can be.
#[derive(Clone, Debug)]
pub(crate) struct ContentIndex {
    words: Table<u64>,
    entries: u32,
    most_entries: u32,
    capacity: Option<u32>,
    /// Units that can be referred to at one time.
    most_units: u32,
    hand: usize,
}

impl ContentIndex {
    /// An empty index of at most `capacity` entries, of a device on which `most_units` can be referred to.
    pub(crate) fn new(capacity: Option<u32>, most_units: u32) -> Self {
        let len = if capacity.is_some() { longer(0) } else { length_for(most_units) };
        Self { words: Table::zeroed(len), entries: 0, most_entries: 0, capacity, most_units, hand: 0 }
    }

    #[inline]
    fn word(&self, bucket: usize) -> Word {
        Word(self.words.get(bucket))
    }

    #[inline]
    fn home(&self, tag: u64) -> usize {
        ((tag * self.words.len() as u64) >> TAG_BITS) as usize
    }

    #[inline]
    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.words.len() { 0 } else { bucket + 1 }
    }

    /// Where the entry with this tag is that `is_it` says yes to, or else the empty bucket where it would be.
    #[inline]
    fn search(&self, tag: u64, is_it: impl Fn(Unit) -> bool) -> Search {
        let ends = |word| Word(word) == Word::NONE || Word(word).tag() == tag && is_it(Word(word).unit());
        let bucket = self.words.position_around(self.home(tag), ends);
        if self.word(bucket) == Word::NONE { Search::Gap(bucket) } else { Search::Found(bucket) }
    }

    /// The bucket of the entry with this content that `is_it` says yes to.
    #[inline]
    fn bucket_of(&self, fingerprint: Fingerprint, is_it: impl Fn(Unit) -> bool) -> Option<usize> {
        match self.search(tag_of(fingerprint), is_it) {
            Search::Found(bucket) => Some(bucket),
            Search::Gap(_) => None,
        }
    }

    #[inline]
    fn of_unit(&self, fingerprint: Fingerprint, unit: Unit) -> Option<usize> {
        self.bucket_of(fingerprint, |other| other == unit)
    }

    /// The unit that holds this content; marks it as used. `content` tells what a unit holds.
    #[inline]
    pub(crate) fn find(
        &mut self,
        fingerprint: Fingerprint,
        content: impl Fn(Unit) -> Fingerprint,
    ) -> Option<Unit> {
        let bucket = self.bucket_of(fingerprint, |unit| content(unit) == fingerprint)?;
        let word = self.word(bucket);
        self.words.set(bucket, word.0 | Word::HIT);
        Some(word.unit())
    }

    /// Reads what finding these contents will need; see [`crate::warm`].
    pub(crate) fn warm_find(&self, fingerprints: &[Fingerprint], content: impl Fn(Unit) -> Fingerprint) {
        self.warm(fingerprints.iter().copied());
        let found = |&wanted: &Fingerprint| self.bucket_of(wanted, |unit| content(unit) == wanted);
        read_all(fingerprints.iter().filter_map(found).map(|bucket| bucket as u64));
    }

    /// The same for removing or relocating units with these contents.
    pub(crate) fn warm(&self, fingerprints: impl Iterator<Item = Fingerprint>) {
        // A search is likely to end, and a gap to be closed, within a cache line of words from home on: on two lines.
        let at_home = |content| {
            let home = self.home(tag_of(content));
            self.word(home).0 ^ self.word((home + LINE_WORDS).min(self.words.len() - 1)).0
        };
        read_all(fingerprints.map(at_home));
    }

    /// `unit` holds this content from now on. An older copy of the same content is not found any more.
    pub(crate) fn insert(
        &mut self,
        fingerprint: Fingerprint,
        unit: Unit,
        content: impl Fn(Unit) -> Fingerprint,
    ) {
        let tag = tag_of(fingerprint);
        let gap = match self.search(tag, |unit| content(unit) == fingerprint) {
            Search::Found(bucket) => return self.rename(bucket, unit),
            Search::Gap(gap) => gap,
        };
        if self.capacity == Some(0) {
            return;
        }
        let word = Word::new(tag, unit);
        if self.has_room() {
            self.words.set(gap, word.0);
        } else {
            self.make_room();
            self.place(word);
        }
        self.entries += 1;
        self.most_entries = self.most_entries.max(self.entries);
    }

    /// Whether one more entry fits. Up to three quarters full: a content that is not there is known after eight buckets, a
    /// cache line, or two.
    #[inline]
    fn has_room(&self) -> bool {
        !self.is_at_capacity() && (self.entries as usize) < self.words.len() / 4 * 3
    }

    #[inline]
    fn is_at_capacity(&self) -> bool {
        self.capacity.is_some_and(|capacity| self.entries >= capacity)
    }

    #[cold]
    fn make_room(&mut self) {
        if self.is_at_capacity() {
            self.evict();
        }
        if self.entries as usize >= self.words.len() / 4 * 3 {
            self.grow();
        }
    }

    fn rename(&mut self, bucket: usize, unit: Unit) {
        let word = self.word(bucket);
        self.words.set(bucket, Word::new(word.tag(), unit).0 | word.0 & Word::HIT);
    }

    fn grow(&mut self) {
        let longer = Table::zeroed(longer(self.words.len()));
        let shorter = std::mem::replace(&mut self.words, longer);
        self.hand = 0;
        let words = (0..shorter.len()).map(|bucket| Word(shorter.get(bucket)));
        words.filter(|&word| word != Word::NONE).for_each(|word| self.place(word));
    }

    fn place(&mut self, word: Word) {
        if let Search::Gap(gap) = self.search(word.tag(), |_| false) {
            self.words.set(gap, word.0);
        }
    }

    fn evict(&mut self) {
        loop {
            let word = self.word(self.hand);
            if word != Word::NONE && !word.is_hit() {
                return self.empty(self.hand);
            }
            self.words.set(self.hand, word.0 & !Word::HIT);
            self.hand = self.after(self.hand);
        }
    }

    /// Empties a bucket and closes the gap: entries behind it that are not at home move up.
    fn empty(&mut self, bucket: usize) {
        let (mut gap, mut at) = (bucket, bucket);
        loop {
            at = self.after(at);
            let word = self.word(at);
            if word == Word::NONE {
                break;
            }
            let home = self.home(word.tag());
            let is_behind_gap = if gap < at { gap < home && home <= at } else { gap < home || home <= at };
            if !is_behind_gap {
                self.words.set(gap, word.0);
                gap = at;
            }
        }
        self.words.set(gap, Word::NONE.0);
        self.entries -= 1;
    }

    /// Nobody refers to `unit`, which held this content, any more.
    #[inline]
    pub(crate) fn remove(&mut self, fingerprint: Fingerprint, unit: Unit) {
        if let Some(bucket) = self.of_unit(fingerprint, unit) {
            self.empty(bucket);
        }
    }

    /// The content of `from` is at `to` now.
    #[inline]
    pub(crate) fn relocate(&mut self, fingerprint: Fingerprint, from: Unit, to: Unit) {
        if let Some(bucket) = self.of_unit(fingerprint, from) {
            self.rename(bucket, to);
        }
    }

    /// Forgets everything: the index is volatile, and losing it costs opportunities only.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.capacity, self.most_units);
    }

    /// Units that can be found, for audits.
    pub(crate) fn units(&self) -> impl Iterator<Item = Unit> + '_ {
        let words = (0..self.words.len()).map(|bucket| self.word(bucket));
        words.filter(|&word| word != Word::NONE).map(Word::unit)
    }

    /// Whether `unit` is found by its content, for audits.
    pub(crate) fn knows(&self, fingerprint: Fingerprint, unit: Unit) -> bool {
        self.of_unit(fingerprint, unit).is_some()
    }

    /// Bytes a controller holds.
    pub(crate) fn ram_bytes(&self) -> u64 {
        ENTRY_BYTES * u64::from(self.most_entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// A plain map beside the index, through growth, wrap-around and the gaps that removals leave. What a unit holds is what
    /// was last put there.
    #[test]
    fn an_unbounded_index_is_a_map() {
        let (mut index, mut model, mut held) = (ContentIndex::new(None, 7), HashMap::new(), HashMap::new());
        let mut state = 1;
        for step in 0..60_000_u32 {
            state = mix(state);
            let fingerprint = Fingerprint(state % 700);
            let known = model.get(&fingerprint).copied();
            assert_eq!(index.find(fingerprint, |unit| held[&unit]), known, "step {step}");
            match (state >> 32) % 4 {
                0 | 1 => {
                    held.insert(Unit(step), fingerprint);
                    index.insert(fingerprint, Unit(step), |unit| held[&unit]);
                    model.insert(fingerprint, Unit(step));
                }
                2 => {
                    index.remove(fingerprint, known.unwrap_or(Unit(step)));
                    model.remove(&fingerprint);
                }
                _ => {
                    held.insert(Unit(step), fingerprint);
                    index.relocate(fingerprint, known.unwrap_or(Unit(step)), Unit(step));
                    model.entry(fingerprint).and_modify(|unit| *unit = Unit(step));
                }
            }
            assert_eq!(index.entries as usize, model.len());
        }
        let mut units: Vec<Unit> = index.units().collect();
        let mut expected: Vec<Unit> = model.into_values().collect();
        units.sort_unstable_by_key(|unit| unit.0);
        expected.sort_unstable_by_key(|unit| unit.0);
        assert_eq!(units, expected);
    }

    /// Contents whose parts of the hash agree are told apart by what the units hold.
    #[test]
    fn equal_tags_are_no_equal_contents() {
        let mut by_tag = HashMap::new();
        let mut contents = (0..).map(Fingerprint);
        let (one, other) = loop {
            let content = contents.next().expect("there is no end");
            if let Some(other) = by_tag.insert(tag_of(content), content) {
                break (other, content);
            }
        };
        let mut index = ContentIndex::new(None, 2);
        let content = |unit: Unit| if unit == Unit(1) { one } else { other };
        index.insert(one, Unit(1), content);
        assert_eq!(index.find(other, content), None);
        index.insert(other, Unit(2), content);
        assert_eq!([one, other].map(|c| index.find(c, content)), [Some(Unit(1)), Some(Unit(2))]);
        index.remove(one, Unit(1));
        assert_eq!([one, other].map(|c| index.find(c, content)), [None, Some(Unit(2))]);
    }

    /// What was not hit since the hand came by makes room.
    #[test]
    fn a_full_index_gives_second_chances() {
        let content = |unit: Unit| Fingerprint(u64::from(unit.0));
        let mut index = ContentIndex::new(Some(100), 1000);
        (1..=100).for_each(|k| index.insert(Fingerprint(k), Unit(k as u32), content));
        (1..=50).for_each(|k| assert!(index.find(Fingerprint(k), content).is_some()));
        (101..=150).for_each(|k| index.insert(Fingerprint(k), Unit(k as u32), content));
        let known = |range: std::ops::RangeInclusive<u64>| {
            range.filter(|&k| index.knows(Fingerprint(k), Unit(k as u32))).count()
        };
        assert_eq!(index.entries, 100);
        assert!(known(51..=100) < 25, "{} of those without a hit are left", known(51..=100));
        assert!(known(1..=50) > 35, "{} of those with a hit are left", known(1..=50));
    }
}
