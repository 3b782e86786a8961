//! Deduplication index: finds the stored page that has a given content already.
//!
//! The index maps a fingerprint to the unit (page or chunk member) with that content, as an in-line deduplicating drive
//! does (Chen, Luo, Zhang, CAFTL, FAST 2011). It names units, not logical pages: the logical page that wrote the
//! content may be mapped elsewhere while other logical pages still refer to the unit.
//!
//! A look-up costs only cache misses, so an entry is small: a part of the hash, and the unit. The flash knows the full
//! fingerprint of a unit, and is queried only if the parts of two hashes agree, which is rarely in vain. Removing or
//! relocating a unit needs no query, because a unit has one content. The price: each look-up needs a callback that
//! queries the flash.
//!
//! There are two forms. An index with a capacity (`bounded_index.rs`) is small, grows with its entries, and evicts some
//! of them. An index of every stored page (`full_size_index.rs`) is large, is allocated at its final size, and stores
//! only tags and units.
//!
//! Invariants: each entry names a unit that a logical page refers to; there is at most one entry per fingerprint, for
//! the newest copy.

mod bounded_index;
mod full_size_index;
mod stage;

use bounded_index::BoundedIndex;
use full_size_index::FullSizeIndex;
pub(crate) use stage::Deduplication;

use crate::address::StoredUnit;
use crate::data::{Fingerprint, mix_bits};
use crate::tables::prefetch::load_into_cpu_cache;

/// Bytes of controller RAM per entry of the content index in a real drive: 16 bytes of digest, 4 bytes of unit number.
const INDEX_ENTRY_BYTES_IN_DRIVE: u64 = 20;

/// Options of deduplication and its content index (hash table of stored contents).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DedupOptions {
    /// Maximum number of entries of the content index. `None` means one entry for every stored page; 0 means that no
    /// duplicate is ever found.
    pub capacity_entries: Option<u32>,
    /// Whether a write that hits in the content index reads the stored page that was found and compares the bytes,
    /// before its logical page is bound (mapped without a program) to that page. The flash read is counted under the
    /// cause "content". A device that stores real bytes needs this, because fingerprints have only 64 bits.
    pub must_verify_hits: bool,
}

/// Form of the content index: with a limited number of entries, or with room for every unit.
#[derive(Clone, Debug)]
enum IndexForm {
    /// Index with a limited number of entries, which evicts entries when it is full.
    Bounded(BoundedIndex),
    /// Index that evicts nothing: it has room for every unit (flash page or member of a compressed chunk).
    Unbounded(FullSizeIndex),
}

macro_rules! delegate {
    ($index:expr, $form:ident => $call:expr) => {
        match $index {
            IndexForm::Bounded($form) => $call,
            IndexForm::Unbounded($form) => $call,
        }
    };
}

/// Content index of deduplication: maps the fingerprint of a content to the unit (page or member of a compressed chunk)
/// that stores it.
#[derive(Clone, Debug)]
pub(crate) struct ContentIndex {
    /// Hash table of the content index, in one of its two forms.
    index_form: IndexForm,
    /// Largest number of entries that the index has had.
    peak_entry_count: u32,
}

/// Returns the hash under which the content index stores the unit with this fingerprint.
#[inline]
fn hash_of(fingerprint: Fingerprint) -> u64 {
    mix_bits(fingerprint.0)
}

impl ContentIndex {
    /// Creates an empty content index of at most `capacity` entries. `None` makes room for `max_stored_units` entries:
    /// the largest number of units (pages and members of compressed chunks) that can have referrers.
    pub(crate) fn new(capacity: Option<u32>, max_stored_units: u32) -> Self {
        let index_form = match capacity {
            Some(capacity) => IndexForm::Bounded(BoundedIndex::new(capacity)),
            None => IndexForm::Unbounded(FullSizeIndex::new(max_stored_units)),
        };
        Self { index_form, peak_entry_count: 0 }
    }

    /// Returns the unit (page or member of a compressed chunk) that stores this content, and marks its index entry as
    /// recently used. Returns `None` if the index has no such entry. `content` returns the fingerprint of a unit.
    #[inline]
    pub(crate) fn find(
        &mut self,
        fingerprint: Fingerprint,
        content: impl Fn(StoredUnit) -> Fingerprint,
    ) -> Option<StoredUnit> {
        let (hash, is_match) = (hash_of(fingerprint), |unit| content(unit) == fingerprint);
        match &mut self.index_form {
            IndexForm::Bounded(index) => index.find(hash, is_match),
            IndexForm::Unbounded(index) => index.peek(hash, is_match),
        }
    }

    /// Reads the entries of the content index that look-ups of these contents will need, so that their cache misses
    /// overlap ([`crate::tables::prefetch`]).
    pub(crate) fn prefetch_lookups(
        &self,
        fingerprints: &[Fingerprint],
        content: impl Fn(StoredUnit) -> Fingerprint,
    ) {
        self.prefetch_index_removals(fingerprints.iter().copied());
        let found = |&wanted: &Fingerprint| {
            let is_match = |unit| content(unit) == wanted;
            delegate!(&self.index_form, index => index.peek(hash_of(wanted), is_match))
        };
        load_into_cpu_cache(fingerprints.iter().filter_map(found).map(|unit| unit.0.into()));
    }

    /// Reads the entries of the content index that the removal or relocation of these contents will need, so that their
    /// cache misses overlap.
    pub(crate) fn prefetch_index_removals(&self, fingerprints: impl Iterator<Item = Fingerprint>) {
        let hashes = fingerprints.map(hash_of);
        delegate!(&self.index_form, index => index.prefetch_searches(hashes));
    }

    /// Adds `unit` (page or member of a compressed chunk), which stores this content, to the content index. An older
    /// unit with equal content is replaced. `content` returns the fingerprint of a unit.
    pub(crate) fn insert(
        &mut self,
        fingerprint: Fingerprint,
        unit: StoredUnit,
        content: impl Fn(StoredUnit) -> Fingerprint,
    ) {
        let is_match = |other| content(other) == fingerprint;
        let entries = delegate!(&mut self.index_form, index => {
            index.insert(hash_of(fingerprint), unit, is_match);
            index.len()
        });
        self.peak_entry_count = self.peak_entry_count.max(entries);
    }

    /// Removes from the content index the entry of `unit` (page or member of a compressed chunk), which stored this
    /// content and lost its last referrer. `content` returns the fingerprint of a unit.
    #[inline]
    pub(crate) fn remove(
        &mut self,
        fingerprint: Fingerprint,
        unit: StoredUnit,
        content: impl Fn(StoredUnit) -> Fingerprint,
    ) {
        match &mut self.index_form {
            IndexForm::Bounded(index) => index.remove(hash_of(fingerprint), unit),
            IndexForm::Unbounded(index) => {
                index.remove(hash_of(fingerprint), unit, |unit| hash_of(content(unit)));
            }
        }
    }

    /// Changes the content-index entry of this content from unit `from` to unit `to` (pages or members of compressed
    /// chunks), after GC moved the content.
    #[inline]
    pub(crate) fn replace_unit(&mut self, fingerprint: Fingerprint, from: StoredUnit, to: StoredUnit) {
        delegate!(&mut self.index_form, index => index.replace_unit(hash_of(fingerprint), from, to));
    }

    /// Removes all entries of the content index. The index is volatile, and losing it only costs opportunities to
    /// deduplicate.
    pub(crate) fn clear(&mut self) {
        let form = match &self.index_form {
            IndexForm::Bounded(index) => IndexForm::Bounded(index.empty_of_same_size()),
            IndexForm::Unbounded(index) => IndexForm::Unbounded(index.empty_of_same_size()),
        };
        *self = Self { index_form: form, peak_entry_count: 0 };
    }

    /// Returns all units (pages and members of compressed chunks) in the content index; used by audits.
    pub(crate) fn indexed_units(&self) -> Vec<StoredUnit> {
        delegate!(&self.index_form, index => index.indexed_units().collect())
    }

    /// Returns whether the content index finds `unit` (page or member of a compressed chunk) by its content; used by
    /// audits.
    pub(crate) fn has_entry_for(&self, fingerprint: Fingerprint, unit: StoredUnit) -> bool {
        delegate!(&self.index_form, index => index.peek(hash_of(fingerprint), |other| other == unit))
            .is_some()
    }

    /// Returns the bytes of RAM that a drive needs for the content index, at the largest number of entries so far.
    pub(crate) fn ram_bytes(&self) -> u64 {
        INDEX_ENTRY_BYTES_IN_DRIVE * u64::from(self.peak_entry_count)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Compares a content index of unlimited capacity with a plain hash map, through growth, wrap-around, full lines
    /// and the gaps that removals leave.
    #[test]
    fn an_unlimited_content_index_behaves_like_a_hash_map() {
        for (capacity, contents) in [(None, 700), (None, 23), (None, 5), (Some(1000), 700)] {
            compare_with_hash_map(ContentIndex::new(capacity, contents as u32), contents);
        }
    }

    /// Compares `index` with a plain hash map under random look-ups, insertions, removals and moves to other units, of
    /// `contents` different contents.
    fn compare_with_hash_map(mut index: ContentIndex, contents: u64) {
        let (mut model, mut held) = (HashMap::new(), HashMap::new());
        let mut state = 1;
        for step in 0..60_000_u32 {
            state = mix_bits(state);
            let fingerprint = Fingerprint(state % contents);
            let known = model.get(&fingerprint).copied();
            assert_eq!(index.find(fingerprint, |unit| held[&unit]), known, "step {step}");
            match (state >> 32) % 4 {
                0 | 1 => {
                    held.insert(StoredUnit(step), fingerprint);
                    index.insert(fingerprint, StoredUnit(step), |unit| held[&unit]);
                    model.insert(fingerprint, StoredUnit(step));
                }
                2 => {
                    index.remove(fingerprint, known.unwrap_or(StoredUnit(step)), |unit| held[&unit]);
                    model.remove(&fingerprint);
                }
                _ => {
                    held.insert(StoredUnit(step), fingerprint);
                    index.replace_unit(fingerprint, known.unwrap_or(StoredUnit(step)), StoredUnit(step));
                    model.entry(fingerprint).and_modify(|unit| *unit = StoredUnit(step));
                }
            }
            assert_eq!(delegate!(&index.index_form, index => index.len()) as usize, model.len());
        }
        let mut units = index.indexed_units();
        let mut expected: Vec<StoredUnit> = model.into_values().collect();
        units.sort_unstable_by_key(|unit| unit.0);
        expected.sort_unstable_by_key(|unit| unit.0);
        assert_eq!(units, expected);
    }

    /// Returns two different contents whose hashes agree in the bits that `part` extracts from a content's hash.
    fn contents_with_equal_hash_part(part: impl Fn(Fingerprint) -> u64) -> [Fingerprint; 2] {
        let mut known = HashMap::new();
        (0..)
            .map(Fingerprint)
            .find_map(|content| Some([known.insert(part(content), content)?, content]))
            .expect("no end")
    }

    /// The index stores only parts of a hash. Contents that are equal in these parts are distinguished by the full
    /// fingerprints of the flash pages.
    #[test]
    fn contents_with_equal_stored_hash_bits_are_not_confused() {
        let (upper, ends) = (
            |content| hash_of(content) >> 33,
            |content| {
                let hash = hash_of(content);
                hash >> 60 << 8 | hash & 0xff
            },
        );
        for (capacity, [one, other]) in
            [(Some(100), contents_with_equal_hash_part(upper)), (None, contents_with_equal_hash_part(ends))]
        {
            let mut index = ContentIndex::new(capacity, 2);
            let content = |unit: StoredUnit| if unit == StoredUnit(1) { one } else { other };
            index.insert(one, StoredUnit(1), content);
            assert!(
                index.has_entry_for(other, StoredUnit(1)),
                "nothing that the index keeps tells them apart"
            );
            assert_eq!(index.find(other, content), None);
            index.insert(other, StoredUnit(2), content);
            assert_eq!(
                [one, other].map(|c| index.find(c, content)),
                [Some(StoredUnit(1)), Some(StoredUnit(2))]
            );
            index.remove(one, StoredUnit(1), content);
            assert_eq!([one, other].map(|c| index.find(c, content)), [None, Some(StoredUnit(2))]);
        }
    }

    /// A full content index evicts entries that were not hit since the clock hand last passed (second chance).
    #[test]
    fn a_full_content_index_evicts_entries_without_hits_first() {
        let content = |unit: StoredUnit| Fingerprint(u64::from(unit.0));
        let mut index = ContentIndex::new(Some(100), 1000);
        (1..=100).for_each(|k| index.insert(Fingerprint(k), StoredUnit(k as u32), content));
        (1..=50).for_each(|k| assert!(index.find(Fingerprint(k), content).is_some()));
        (101..=150).for_each(|k| index.insert(Fingerprint(k), StoredUnit(k as u32), content));
        let known = |range: std::ops::RangeInclusive<u64>| {
            range.filter(|&k| index.has_entry_for(Fingerprint(k), StoredUnit(k as u32))).count()
        };
        assert_eq!(index.indexed_units().len(), 100);
        assert!(known(51..=100) < 25, "{} of those without a hit are left", known(51..=100));
        assert!(known(1..=50) > 35, "{} of those with a hit are left", known(1..=50));
    }
}
