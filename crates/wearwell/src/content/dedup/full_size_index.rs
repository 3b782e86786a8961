//! A content index for every stored unit: cache lines of twelve entries.
//!
//! An entry is the number of its unit and one byte of the hash (tag). Its hash names a line, its *home*. If that line
//! is full, the entry is placed in the next line with a free slot and *overflows* the lines between. Each line counts
//! the entries that overflowed it, so a search knows where it ends. Inserting or renaming an entry costs an access to
//! one line, sometimes to the next. On removal, an entry that overflowed this line moves back into it. Otherwise
//! overflow counts would never fall, and searches grew tenfold when measured. Two bits store an entry's distance from
//! home in lines. Only if the distance is greater than they can express, the content of the unit is queried.
//!
//! The price: the stored byte does not identify a content, so one search in 25 queries the flash in vain. The table
//! never grows, because growing would hold two copies: it is allocated for the largest possible number of entries.
//!
//! Invariants: a line counts exactly the entries whose home is this line or an earlier one and which are stored in a
//! later line. A line with a count greater than 0 has no free slot. A free slot has no tag and no distance.

use crate::address::StoredUnit;
use crate::tables::DenseTable;
use crate::tables::prefetch::load_into_cpu_cache;

/// Number of content-index entries in a line (one cache line of the hash table).
const ENTRIES_PER_CACHE_LINE: usize = 12;
/// Number of 8-byte words in a cache line of the hash table. Six words hold two unit numbers each. One holds the tags
/// of eight entries (a byte of the content hash each). The last holds four tags, the distances of the entries from
/// their home lines, and the overflow count (number of entries stored in later lines because this line was full).
const WORDS_PER_CACHE_LINE: usize = 8;
/// Index, in a line, of the word with the tags (one byte of the content hash each) of the first eight entries.
const FIRST_TAG_WORD: usize = 6;
/// Index, in a line, of the word with the tags of the last four entries, the distances of all entries from their home
/// lines, and the overflow count.
const LAST_TAG_WORD: usize = 7;
/// Bit position, in the last word of a line of the hash table, at which the distances of the entries from their home
/// lines begin (two bits per entry).
const FIRST_PROBE_DISTANCE_BIT: u32 = 32;
/// Largest value of the stored distance of an index entry from its home line. This value means "three lines or more".
const MAX_STORED_PROBE_DISTANCE_CACHE_LINES: usize = 3;
/// An overflow count of 1, shifted to the bits of the count in the last word of a line of the hash table. The count is
/// the number of entries stored in a later line because this one was full.
const OVERFLOW_COUNT_INCREMENT: u64 = 1 << 56;
/// Negative of [`OVERFLOW_COUNT_INCREMENT`]: its wrapping addition lowers the overflow count by 1.
const OVERFLOW_COUNT_DECREMENT: u64 = OVERFLOW_COUNT_INCREMENT.wrapping_neg();
/// Largest overflow count of a line of the hash table (entries stored in a later line because this one was full). With
/// random hashes at most some dozens of entries overflow one line. If a client chose contents whose hashes collide, the
/// entries beyond this count are not inserted.
const MAX_OVERFLOW_COUNT: u64 = u64::MAX / OVERFLOW_COUNT_INCREMENT;
/// Tag that marks a slot in a line of the hash table as free.
const FREE_SLOT_TAG: u8 = 0;

/// Returns the number of lines of a hash table for `entries` entries, such that the table is at most 75 % full. A sixth
/// of the lines have overflowed then. If the table were 80 % full, a quarter of the lines would have overflowed, and
/// writes with deduplication would take 5 to 8 % longer.
fn cache_lines_for_entries(entries: u32) -> usize {
    entries as usize / 9 + 2
}

/// Returns the tag of a content hash: the byte of the hash that an index entry stores, changed where it would equal the
/// mark of a free slot.
#[inline]
fn hash_tag(hash: u64) -> u8 {
    (hash as u8).max(FREE_SLOT_TAG + 1)
}

/// Compares each byte of `word` with `tag`. In the result, the lowest bit of each byte that equals `tag` is set.
#[inline]
fn mark_equal_bytes(word: u64, tag: u8) -> u64 {
    /// Mask of the low seven bits of each of the eight bytes of a word.
    const LOW_7_BITS_PER_BYTE: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let difference = word ^ (u64::from(tag) * 0x0101_0101_0101_0101);
    !(((difference & LOW_7_BITS_PER_BYTE) + LOW_7_BITS_PER_BYTE) | difference | LOW_7_BITS_PER_BYTE) >> 7
}

/// Iterator over slots of a line of the hash table, as a bit set of the slots still to be returned. Slots 0 to 7 are
/// the lowest bits of the eight bytes, slots 8 to 11 the second-lowest bits of the first four.
struct SlotSet(u64);

impl SlotSet {
    /// Returns the slots of a line of the hash table whose entries have this tag (byte of the hash).
    #[inline]
    fn slots_with_tag([first, last]: [u64; 2], tag: u8) -> Self {
        Self(mark_equal_bytes(first, tag) | (mark_equal_bytes(last, tag) & 0x0101_0101) << 1)
    }
}

impl Iterator for SlotSet {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let bit = pop_lowest_bit(&mut self.0)?;
        Some(bit / 8 + bit % 8 * 8)
    }
}

/// Returns the slots of a cache line of the hash table whose entries overflowed from an earlier line: their home line
/// was full.
#[inline]
fn slots_overflowed_from_earlier_lines([_, last]: [u64; 2]) -> impl Iterator<Item = usize> {
    let distances = last >> FIRST_PROBE_DISTANCE_BIT;
    let mut places = (distances | distances >> 1) & 0x0055_5555;
    std::iter::from_fn(move || Some(pop_lowest_bit(&mut places)? / 2))
}

/// Removes the lowest set bit from `bits` and returns its position.
#[inline]
fn pop_lowest_bit(bits: &mut u64) -> Option<usize> {
    let lowest = (*bits != 0).then(|| bits.trailing_zeros() as usize)?;
    *bits &= *bits - 1;
    Some(lowest)
}

/// Position of a content-index entry: its line of the hash table, and its slot in the line.
#[derive(Clone, Copy)]
struct EntryPosition {
    /// Index of the cache line in the hash table.
    line: usize,
    /// Index of the entry in its cache line, 0 to 11.
    slot: usize,
}

/// A content index (hash table of stored contents for deduplication) with room for every unit (page or member of a
/// compressed chunk) to which logical pages can be mapped. Memory: seven bytes per entry.
#[derive(Clone, Debug)]
pub(super) struct FullSizeIndex {
    /// Words of the hash table, eight per cache line.
    table_words: DenseTable<u64>,
    /// Number of entries in the content index.
    entry_count: u32,
    /// Number of units (pages and members of compressed chunks) for which the index has room.
    max_stored_units: u32,
}

impl FullSizeIndex {
    pub(super) fn new(max_stored_units: u32) -> Self {
        Self {
            table_words: DenseTable::zeroed(cache_lines_for_entries(max_stored_units) * WORDS_PER_CACHE_LINE),
            entry_count: 0,
            max_stored_units,
        }
    }

    /// Returns an empty content index for the same number of units (pages and members of compressed chunks).
    pub(super) fn empty_of_same_size(&self) -> Self {
        Self::new(self.max_stored_units)
    }

    /// Returns the number of entries in the content index.
    pub(super) fn len(&self) -> u32 {
        self.entry_count
    }

    /// Returns the number of cache lines of the hash table.
    #[inline]
    fn cache_line_count(&self) -> usize {
        self.table_words.len() / WORDS_PER_CACHE_LINE
    }

    /// Returns the home line of this content hash: the line of the hash table at which a search begins.
    #[inline]
    fn home_cache_line(&self, hash: u64) -> usize {
        (((hash >> 32) * self.cache_line_count() as u64) >> 32) as usize
    }

    /// Returns the cache line after `line`; the first line of the hash table follows the last.
    #[inline]
    fn next_cache_line_cyclic(&self, line: usize) -> usize {
        if line + 1 == self.cache_line_count() { 0 } else { line + 1 }
    }

    /// Returns the two words of a line of the hash table that hold the tags of its entries.
    #[inline]
    fn tag_words(&self, line: usize) -> [u64; 2] {
        [FIRST_TAG_WORD, LAST_TAG_WORD].map(|word| self.table_words.get(line * WORDS_PER_CACHE_LINE + word))
    }

    /// Returns the unit (page or member of a compressed chunk) in this slot of the hash table.
    #[inline]
    fn unit_at(&self, EntryPosition { line, slot: place }: EntryPosition) -> StoredUnit {
        StoredUnit((self.table_words.get(line * WORDS_PER_CACHE_LINE + place / 2) >> (place % 2 * 32)) as u32)
    }

    /// Stores in this slot of the hash table the unit (flash page or member of a compressed chunk) that has the
    /// content.
    #[inline]
    fn set_unit_of_entry(&mut self, EntryPosition { line, slot: place }: EntryPosition, unit: StoredUnit) {
        let (at, shift) = (line * WORDS_PER_CACHE_LINE + place / 2, place % 2 * 32);
        let others = self.table_words.get(at) & !(u64::from(u32::MAX) << shift);
        self.table_words.set(at, others | u64::from(unit.0) << shift);
    }

    /// Stores the tag of an index entry (a byte of its content hash) in this slot of the hash table.
    #[inline]
    fn set_tag(&mut self, EntryPosition { line, slot: place }: EntryPosition, tag: u8) {
        let (at, shift) = (line * WORDS_PER_CACHE_LINE + FIRST_TAG_WORD + place / 8, place % 8 * 8);
        let others = self.table_words.get(at) & !(u64::from(u8::MAX) << shift);
        self.table_words.set(at, others | u64::from(tag) << shift);
    }

    /// Returns the tag (byte of the content hash) in this slot of the hash table; 0 if the slot is free.
    #[inline]
    fn tag_at(&self, EntryPosition { line, slot: place }: EntryPosition) -> u8 {
        (self.tag_words(line)[place / 8] >> (place % 8 * 8)) as u8
    }

    /// Returns the stored distance of an index entry from its home line of the hash table, in lines. 3 means three
    /// lines or more.
    #[inline]
    fn stored_probe_distance_cache_lines(&self, EntryPosition { line, slot: place }: EntryPosition) -> usize {
        (self.tag_words(line)[1] >> (FIRST_PROBE_DISTANCE_BIT as usize + 2 * place)) as usize
            & MAX_STORED_PROBE_DISTANCE_CACHE_LINES
    }

    /// Stores how many lines an index entry is away from its home line; 3 stands for three lines or more.
    #[inline]
    fn set_stored_probe_distance_lines(
        &mut self,
        EntryPosition { line, slot: place }: EntryPosition,
        distance: usize,
    ) {
        let (at, shift) =
            (line * WORDS_PER_CACHE_LINE + LAST_TAG_WORD, FIRST_PROBE_DISTANCE_BIT as usize + 2 * place);
        let others = self.table_words.get(at) & !((MAX_STORED_PROBE_DISTANCE_CACHE_LINES as u64) << shift);
        self.table_words
            .set(at, others | (distance.min(MAX_STORED_PROBE_DISTANCE_CACHE_LINES) as u64) << shift);
    }

    /// Stores a content-index entry in the free slot `spot` of the hash table, with its distance from its home line in
    /// lines.
    #[inline]
    fn store_entry(&mut self, spot: EntryPosition, tag: u8, unit: StoredUnit, distance: usize) {
        self.set_tag(spot, tag);
        self.set_unit_of_entry(spot, unit);
        if distance > 0 {
            self.set_stored_probe_distance_lines(spot, distance);
        }
    }

    /// Marks a slot of the hash table as free.
    #[inline]
    fn mark_slot_free(&mut self, spot: EntryPosition) {
        self.set_tag(spot, FREE_SLOT_TAG);
        self.set_stored_probe_distance_lines(spot, 0);
    }

    /// Adds `passed` to the overflow counts of the lines of the hash table from `first` up to but not including `end`.
    /// An overflow count is the number of entries stored in a later line because this one was full. `passed` is
    /// [`OVERFLOW_COUNT_INCREMENT`] for an added entry, [`OVERFLOW_COUNT_DECREMENT`] for a removed one.
    #[inline]
    fn add_to_overflow_counts(&mut self, first: usize, end: usize, passed: u64) {
        let mut line = first;
        while line != end {
            let at = line * WORDS_PER_CACHE_LINE + LAST_TAG_WORD;
            self.table_words.set(at, self.table_words.get(at).wrapping_add(passed));
            line = self.next_cache_line_cyclic(line);
        }
    }

    /// Returns the position of the content-index entry with this hash whose unit (page or member of a compressed chunk)
    /// `is_match` accepts; `None` if there is none.
    #[inline]
    fn search(&self, hash: u64, is_match: impl Fn(StoredUnit) -> bool) -> Option<EntryPosition> {
        let mut line = self.home_cache_line(hash);
        loop {
            let tags = self.tag_words(line);
            let mut spots = SlotSet::slots_with_tag(tags, hash_tag(hash))
                .map(|place| EntryPosition { line, slot: place });
            if let Some(spot) = spots.find(|&spot| is_match(self.unit_at(spot))) {
                return Some(spot);
            }
            if tags[1] < OVERFLOW_COUNT_INCREMENT {
                return None;
            }
            line = self.next_cache_line_cyclic(line);
        }
    }

    /// Returns the unit (page or member of a compressed chunk) in the content-index entry with this hash, if `is_match`
    /// accepts the unit.
    #[inline]
    pub(super) fn peek(&self, hash: u64, is_match: impl Fn(StoredUnit) -> bool) -> Option<StoredUnit> {
        self.search(hash, is_match).map(|spot| self.unit_at(spot))
    }

    /// Reads the lines of the hash table that searches for these content hashes will need, so that their cache misses
    /// overlap ([`crate::tables::prefetch`]).
    pub(super) fn prefetch_searches(&self, hashes: impl Iterator<Item = u64>) {
        load_into_cpu_cache(hashes.map(|hash| {
            self.table_words.get(self.home_cache_line(hash) * WORDS_PER_CACHE_LINE + LAST_TAG_WORD)
        }));
    }

    /// Inserts a content-index entry for `unit` (page or member of a compressed chunk). If there is an entry with this
    /// hash whose unit `is_match` accepts, only its unit is replaced.
    pub(super) fn insert(&mut self, hash: u64, unit: StoredUnit, is_match: impl Fn(StoredUnit) -> bool) {
        if let Some(spot) = self.search(hash, is_match) {
            return self.set_unit_of_entry(spot, unit);
        }
        // A revived page is inserted before the unit that it replaces is removed, so there may be one entry more.
        assert!(
            self.entry_count <= self.max_stored_units,
            "the content index has more than {} entries, the number of units",
            self.max_stored_units
        );
        let Some((spot, distance)) = self.find_free_slot(hash) else { return };
        self.add_to_overflow_counts(self.home_cache_line(hash), spot.line, OVERFLOW_COUNT_INCREMENT);
        self.store_entry(spot, hash_tag(hash), unit, distance);
        self.entry_count += 1;
    }

    /// Finds the first free slot of the hash table for an entry with this hash, searching from its home line on. Also
    /// returns the distance of the slot from the home line, in cache lines. Returns `None` if the overflow count of a
    /// full line on the way has its maximum value, so that it could not count the entry.
    #[inline]
    fn find_free_slot(&self, hash: u64) -> Option<(EntryPosition, usize)> {
        let (mut line, mut distance) = (self.home_cache_line(hash), 0);
        loop {
            let tags = self.tag_words(line);
            if let Some(place) = SlotSet::slots_with_tag(tags, FREE_SLOT_TAG).next() {
                return Some((EntryPosition { line, slot: place }, distance));
            }
            if tags[1] / OVERFLOW_COUNT_INCREMENT == MAX_OVERFLOW_COUNT {
                return None;
            }
            (line, distance) = (self.next_cache_line_cyclic(line), distance + 1);
        }
    }

    /// Removes the content-index entry of `unit` (page or member of a compressed chunk), whose content has this hash.
    /// `hash_of` returns the hash of any unit's content.
    #[inline]
    pub(super) fn remove(&mut self, hash: u64, unit: StoredUnit, hash_of: impl Fn(StoredUnit) -> u64) {
        let Some(spot) = self.search(hash, |other| other == unit) else { return };
        self.add_to_overflow_counts(self.home_cache_line(hash), spot.line, OVERFLOW_COUNT_DECREMENT);
        self.entry_count -= 1;
        self.close_gap(spot, hash_of);
    }

    /// Frees the slot `gap` of the hash table. If an entry that belongs to this line was stored in a later line for
    /// lack of room, moves the entry into the gap, and continues with the slot that the entry left.
    #[inline]
    fn close_gap(&mut self, mut gap: EntryPosition, hash_of: impl Fn(StoredUnit) -> u64) {
        self.mark_slot_free(gap);
        while self.tag_words(gap.line)[1] >= OVERFLOW_COUNT_INCREMENT {
            let (from, distance) = self.nearest_entry_overflowed_from_line(gap.line, &hash_of);
            self.store_entry(gap, self.tag_at(from), self.unit_at(from), distance);
            self.add_to_overflow_counts(gap.line, from.line, OVERFLOW_COUNT_DECREMENT);
            self.mark_slot_free(from);
            gap = from;
        }
    }

    /// Finds the nearest index entry that was stored in a later cache line because `line` was full. Returns its
    /// position and the number of lines from its home line to `line`.
    #[inline]
    fn nearest_entry_overflowed_from_line(
        &self,
        line: usize,
        hash_of: impl Fn(StoredUnit) -> u64,
    ) -> (EntryPosition, usize) {
        let (mut at, mut away) = (self.next_cache_line_cyclic(line), 1);
        loop {
            for place in slots_overflowed_from_earlier_lines(self.tag_words(at)) {
                let spot = EntryPosition { line: at, slot: place };
                if let Some(distance) =
                    self.exact_probe_distance_cache_lines(spot, &hash_of).checked_sub(away)
                {
                    return (spot, distance);
                }
            }
            assert!(
                away < self.cache_line_count(),
                "line {line} counts an overflowed entry, but no later line holds one"
            );
            (at, away) = (self.next_cache_line_cyclic(at), away + 1);
        }
    }

    /// Returns the distance of an index entry from its home line of the hash table, in cache lines. If the stored
    /// distance has its maximum value, computes the distance from the hash of the content.
    #[inline]
    fn exact_probe_distance_cache_lines(
        &self,
        spot: EntryPosition,
        hash_of: impl Fn(StoredUnit) -> u64,
    ) -> usize {
        match self.stored_probe_distance_cache_lines(spot) {
            MAX_STORED_PROBE_DISTANCE_CACHE_LINES => {
                self.cyclic_distance_cache_lines(self.home_cache_line(hash_of(self.unit_at(spot))), spot.line)
            }
            distance => distance,
        }
    }

    /// Returns the number of lines of the hash table from `first` forward to `last`; the first line of the table
    /// follows the last one.
    fn cyclic_distance_cache_lines(&self, first: usize, last: usize) -> usize {
        if first <= last { last - first } else { last + self.cache_line_count() - first }
    }

    /// Changes the content-index entry with this hash from unit `from` to unit `to` (pages or members of compressed
    /// chunks).
    #[inline]
    pub(super) fn replace_unit(&mut self, hash: u64, from: StoredUnit, to: StoredUnit) {
        if let Some(spot) = self.search(hash, |other| other == from) {
            self.set_unit_of_entry(spot, to);
        }
    }

    /// Returns the units (pages and members of compressed chunks) of all content-index entries.
    pub(super) fn indexed_units(&self) -> impl Iterator<Item = StoredUnit> + '_ {
        let spots = (0..self.cache_line_count()).flat_map(|line| {
            (0..ENTRIES_PER_CACHE_LINE).map(move |place| EntryPosition { line, slot: place })
        });
        spots.filter(|spot| self.tag_at(*spot) != FREE_SLOT_TAG).map(|spot| self.unit_at(spot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inserts more index entries of one home line than three lines can hold. After each removal another entry moves
    /// in, so that all stay as near to home as they can. The table is all zeros in the end.
    #[test]
    fn a_removal_from_the_content_index_moves_an_overflowed_entry_into_the_free_slot() {
        let mut index = FullSizeIndex::new(90);
        let mut hashes: Vec<u64> = (1..=50).collect();
        let unit = |hash: u64| StoredUnit(hash as u32);
        for &hash in &hashes {
            index.insert(hash, unit(hash), |_| false);
        }
        while let Some(gone) = (!hashes.is_empty()).then(|| hashes.swap_remove(hashes.len() / 3)) {
            index.remove(gone, unit(gone), |unit| unit.0.into());
            let behind =
                |line: usize| hashes.len().saturating_sub(ENTRIES_PER_CACHE_LINE * (line + 1)) as u64;
            assert!(
                (0..5).all(|line| index.tag_words(line)[1] / OVERFLOW_COUNT_INCREMENT == behind(line)),
                "{} are left",
                hashes.len()
            );
            let is_known = |&hash: &u64| index.peek(hash, |other| other == unit(hash)) == Some(unit(hash));
            assert!(hashes.iter().all(is_known));
        }
        assert!(
            (0..index.table_words.len())
                .all(|at| at % WORDS_PER_CACHE_LINE < FIRST_TAG_WORD || index.table_words.get(at) == 0)
        );
        assert_eq!(index.len(), 0);
    }

    /// Inserts contents whose hashes collide in the content index, as a client could choose them.
    #[test]
    fn the_content_index_accepts_colliding_hashes_up_to_its_largest_overflow_count() {
        let mut index = FullSizeIndex::new(9000);
        let unit = |hash: u64| StoredUnit(hash as u32);
        (1..=600).for_each(|hash| index.insert(hash, unit(hash), |other| other == unit(hash)));
        let most = ENTRIES_PER_CACHE_LINE as u64 + MAX_OVERFLOW_COUNT;
        assert_eq!(u64::from(index.len()), most);
        let is_known = |hash: u64| index.peek(hash, |other| other == unit(hash)).is_some();
        assert!((1..=600).all(|hash| is_known(hash) == (hash <= most)));
        (1..=600).for_each(|hash| index.remove(hash, unit(hash), |unit| unit.0.into()));
        assert!(
            (0..index.table_words.len())
                .all(|at| at % WORDS_PER_CACHE_LINE < FIRST_TAG_WORD || index.table_words.get(at) == 0)
        );
    }

    #[test]
    fn equal_bytes_of_two_words_are_found_in_one_comparison() {
        for (word, tag, expected) in [
            (0, 0, 0x0101_0101_0101_0101),
            (0x0100_8001_ff01_0001, 1, 0x0100_0001_0001_0001),
            (u64::MAX, 0, 0),
        ] {
            assert_eq!(mark_equal_bytes(word, tag), expected, "{word:x}");
        }
        let places: Vec<usize> = SlotSet::slots_with_tag([5 << 56 | 5, 5 << 24 | 5 << 40], 5).collect();
        assert_eq!(places, [0, 11, 7]);
    }
}
