//! A content index of limited capacity. When it is full, it evicts an entry that was not hit since the clock hand last
//! passed (second chance). That is nearly as good as exact recency, and a hit sets one bit instead of relinking a list.
//!
//! Linear probing over one word per entry: part of the hash, the hit bit, the unit. At most half of the table is full,
//! so that probes are few. The price: 16 to 24 bytes per entry, and the hand passes entries in the order of hashes, not
//! of age.
//!
//! The hand passes the buckets of one cache line, then jumps to a distant line. A hand that moved from bucket to bucket
//! would leave empty buckets after it and full ones before it: searches in the full part would probe thousands of
//! entries.
//!
//! Invariant: there is no empty bucket between the home of an entry and its bucket.

use crate::address::StoredUnit;
use crate::tables::prefetch::load_into_cpu_cache;
use crate::tables::{DenseTable, does_search_pass_gap};

/// Returns the length to which a full hash table of `len` 8-byte words grows: `len * 1.5`, at least 16 words.
fn grown_table_len(len: usize) -> usize {
    (len + len / 2).max(16)
}

/// Number of 8-byte words of the hash table in a cache line.
const WORDS_PER_CACHE_LINE: usize = 8;

/// Number of bits of the content hash that an entry of the deduplication index stores (its tag).
const HASH_TAG_BITS: u32 = 31;

/// A word of the hash table of the deduplication index: an entry, or 0 for an empty bucket. From the top bit, it has a
/// tag (31 bits of the content hash), a hit bit, and the number of the unit plus one. The hit bit is set if the entry
/// was hit since the clock hand last passed. The unit is a page or a member of a compressed chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct IndexWord(u64);

impl IndexWord {
    /// Word of an empty hash bucket.
    const EMPTY: Self = Self(0);
    /// Bit that is set if the entry was hit since the clock hand of eviction last passed.
    const HIT_BIT: u64 = 1 << 32;

    /// Creates the word of an index entry whose hit bit is not set.
    fn new(tag: u64, unit: StoredUnit) -> Self {
        Self(tag << (64 - HASH_TAG_BITS) | (u64::from(unit.0) + 1))
    }

    /// Returns the tag of the index entry: the upper 31 bits of its content hash.
    #[inline]
    fn tag(self) -> u64 {
        self.0 >> (64 - HASH_TAG_BITS)
    }

    /// Returns the unit (flash page or member of a compressed chunk) in which the content of this index entry is
    /// stored.
    #[inline]
    fn unit_named_by_entry(self) -> StoredUnit {
        StoredUnit((self.0 as u32).wrapping_sub(1))
    }

    /// Returns whether the entry was hit since the clock hand of eviction last passed.
    fn has_hit_bit(self) -> bool {
        self.0 & Self::HIT_BIT != 0
    }
}

/// Returns the tag of a content hash: its upper bits, which the index entry stores.
#[inline]
fn hash_tag(hash: u64) -> u64 {
    hash >> (64 - HASH_TAG_BITS)
}

/// Result of a search in the hash table of the deduplication index: the bucket of the entry that was found, or the
/// empty bucket where a new entry would be inserted.
enum SearchResult {
    /// Bucket of the entry that was found.
    Found(usize),
    /// Empty bucket where an entry for the missing content would be inserted.
    EmptyBucket(usize),
}

/// Clock hand of second-chance eviction, which passes all hash buckets of the content index in rounds: the buckets of
/// one cache line in turn, then those of another line. Lines visited one after the other are far apart, so that at any
/// time the visited lines are evenly spread over the table.
#[derive(Clone, Debug)]
struct ClockHand {
    /// Number of buckets (8-byte words) of the hash table.
    bucket_count: usize,
    /// Number of CPU cache lines that the hash table takes.
    cache_line_count: usize,
    /// Number of cache lines by which the clock hand jumps after each line, modulo the number of lines of the hash
    /// table. The two numbers have no common factor, so that the hand visits every line.
    stride_cache_lines: usize,
    /// Index of the bucket that the clock hand points to.
    current_bucket: usize,
}

impl ClockHand {
    /// Creates the clock hand for a hash table of `bucket_count` buckets, at its first bucket.
    fn for_bucket_count(bucket_count: usize) -> Self {
        let cache_line_count = bucket_count.div_ceil(WORDS_PER_CACHE_LINE);
        // Multiples of the golden ratio are evenly spread over a circle, however many there are.
        let golden = ((cache_line_count as f64 * 0.618_033_988_75) as usize).max(1);
        let mut strides = golden..=golden + cache_line_count;
        let stride_cache_lines = strides
            .find(|&stride| gcd(stride, cache_line_count) == 1)
            .expect("one more than a multiple of the lines");
        Self { bucket_count, cache_line_count, stride_cache_lines, current_bucket: 0 }
    }

    /// Moves the clock hand to the next bucket: in its cache line, or after the last bucket of the line, in a distant
    /// line.
    #[inline]
    fn advance_to_next_bucket(&mut self) {
        self.current_bucket += 1;
        if self.current_bucket.is_multiple_of(WORDS_PER_CACHE_LINE)
            || self.current_bucket == self.bucket_count
        {
            let line = (self.current_bucket - 1) / WORDS_PER_CACHE_LINE;
            self.current_bucket =
                (line + self.stride_cache_lines) % self.cache_line_count * WORDS_PER_CACHE_LINE;
        }
    }
}

/// Returns the greatest common divisor of `a` and `b`.
fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A content index (hash table of stored contents for deduplication) of at most `capacity_entries` entries, with
/// second-chance eviction.
#[derive(Clone, Debug)]
pub(super) struct BoundedIndex {
    /// Buckets of the hash table; each holds an [`IndexWord`].
    bucket_words: DenseTable<u64>,
    /// Number of entries in the content index.
    entry_count: u32,
    /// Maximum number of entries of the content index.
    capacity_entries: u32,
    /// Clock hand that selects the entries to evict.
    clock_hand: ClockHand,
}

impl BoundedIndex {
    pub(super) fn new(capacity_entries: u32) -> Self {
        let bucket_words = DenseTable::zeroed(grown_table_len(0));
        let clock_hand = ClockHand::for_bucket_count(bucket_words.len());
        Self { bucket_words, entry_count: 0, capacity_entries, clock_hand }
    }

    /// Returns an empty content index with the capacity of this one.
    pub(super) fn empty_of_same_size(&self) -> Self {
        Self::new(self.capacity_entries)
    }

    /// Returns the number of entries in the content index.
    pub(super) fn len(&self) -> u32 {
        self.entry_count
    }

    /// Returns the entry or empty word in this bucket of the hash table.
    #[inline]
    fn word_in_bucket(&self, bucket: usize) -> IndexWord {
        IndexWord(self.bucket_words.get(bucket))
    }

    /// Returns the bucket at which a search for this tag (part of the content hash) begins.
    #[inline]
    fn home_bucket(&self, tag: u64) -> usize {
        ((tag * self.bucket_words.len() as u64) >> HASH_TAG_BITS) as usize
    }

    /// Returns the bucket after `bucket`; the first bucket of the hash table follows the last.
    #[inline]
    fn bucket_after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.bucket_words.len() { 0 } else { bucket + 1 }
    }

    /// Searches the content index for the entry with this tag (part of the content hash) whose unit (page or member of
    /// a compressed chunk) `is_match` accepts. Returns the bucket of the entry, or the empty bucket where it would be
    /// inserted.
    #[inline]
    fn search(&self, tag: u64, is_match: impl Fn(StoredUnit) -> bool) -> SearchResult {
        let ends = |word| {
            IndexWord(word) == IndexWord::EMPTY
                || IndexWord(word).tag() == tag && is_match(IndexWord(word).unit_named_by_entry())
        };
        let bucket = self.bucket_words.find_cyclic_from(self.home_bucket(tag), ends);
        if self.word_in_bucket(bucket) == IndexWord::EMPTY {
            SearchResult::EmptyBucket(bucket)
        } else {
            SearchResult::Found(bucket)
        }
    }

    /// Returns the bucket of the content-index entry with this hash whose unit (page or member of a compressed chunk)
    /// `is_match` accepts; `None` if there is none.
    #[inline]
    fn bucket_of(&self, hash: u64, is_match: impl Fn(StoredUnit) -> bool) -> Option<usize> {
        match self.search(hash_tag(hash), is_match) {
            SearchResult::Found(bucket) => Some(bucket),
            SearchResult::EmptyBucket(_) => None,
        }
    }

    /// Returns the unit (page or member of a compressed chunk) in the content-index entry with this hash, if `is_match`
    /// accepts the unit.
    #[inline]
    pub(super) fn peek(&self, hash: u64, is_match: impl Fn(StoredUnit) -> bool) -> Option<StoredUnit> {
        self.bucket_of(hash, is_match).map(|bucket| self.word_in_bucket(bucket).unit_named_by_entry())
    }

    /// Returns the unit (page or member of a compressed chunk) in the content-index entry with this hash, if `is_match`
    /// accepts the unit. Sets the hit bit of the entry, which delays its eviction.
    #[inline]
    pub(super) fn find(&mut self, hash: u64, is_match: impl Fn(StoredUnit) -> bool) -> Option<StoredUnit> {
        let bucket = self.bucket_of(hash, is_match)?;
        let word = self.word_in_bucket(bucket);
        self.bucket_words.set(bucket, word.0 | IndexWord::HIT_BIT);
        Some(word.unit_named_by_entry())
    }

    /// Reads the hash buckets that searches for these content hashes will need, so that their cache misses overlap
    /// ([`crate::tables::prefetch`]).
    pub(super) fn prefetch_searches(&self, hashes: impl Iterator<Item = u64>) {
        // A search, or the closing of a gap, usually ends within a cache line's worth of words after the home, on at
        // most two lines.
        let at_home = |hash| {
            let home = self.home_bucket(hash_tag(hash));
            self.word_in_bucket(home).0
                ^ self.word_in_bucket((home + WORDS_PER_CACHE_LINE).min(self.bucket_words.len() - 1)).0
        };
        load_into_cpu_cache(hashes.map(at_home));
    }

    /// Inserts a content-index entry for `unit` (page or member of a compressed chunk). If there is an entry with this
    /// hash whose unit `is_match` accepts, only its unit is replaced.
    pub(super) fn insert(&mut self, hash: u64, unit: StoredUnit, is_match: impl Fn(StoredUnit) -> bool) {
        let tag = hash_tag(hash);
        let gap = match self.search(tag, is_match) {
            SearchResult::Found(bucket) => return self.set_unit_in_bucket(bucket, unit),
            SearchResult::EmptyBucket(gap) => gap,
        };
        if self.capacity_entries == 0 {
            return;
        }
        let word = IndexWord::new(tag, unit);
        if self.has_room_for_entry() {
            self.bucket_words.set(gap, word.0);
        } else {
            self.make_room_for_entry();
            self.insert_entry_word(word);
        }
        self.entry_count += 1;
    }

    /// Returns whether one more entry fits in the content index. The hash table is filled to at most 50 %, so that a
    /// search for a missing content ends after two or three buckets on average, in one cache line.
    #[inline]
    fn has_room_for_entry(&self) -> bool {
        self.entry_count < self.capacity_entries && (self.entry_count as usize) < self.bucket_words.len() / 2
    }

    /// Makes room for one more entry: evicts an entry if the index has its maximum number of entries, and grows the
    /// hash table if it is half full.
    #[cold]
    fn make_room_for_entry(&mut self) {
        if self.entry_count >= self.capacity_entries {
            self.evict_entry();
        }
        if self.entry_count as usize >= self.bucket_words.len() / 2 {
            self.grow_table();
        }
    }

    /// Replaces the unit (page or member of a compressed chunk) of the index entry in this bucket.
    fn set_unit_in_bucket(&mut self, bucket: usize, unit: StoredUnit) {
        let word = self.word_in_bucket(bucket);
        self.bucket_words.set(bucket, IndexWord::new(word.tag(), unit).0 | word.0 & IndexWord::HIT_BIT);
    }

    /// Enlarges the hash table by half and inserts all its entries again.
    fn grow_table(&mut self) {
        let longer = DenseTable::zeroed(grown_table_len(self.bucket_words.len()));
        let shorter = std::mem::replace(&mut self.bucket_words, longer);
        self.clock_hand = ClockHand::for_bucket_count(self.bucket_words.len());
        let words = (0..shorter.len()).map(|bucket| IndexWord(shorter.get(bucket)));
        words.filter(|&word| word != IndexWord::EMPTY).for_each(|word| self.insert_entry_word(word));
    }

    /// Stores an index entry in the first empty bucket at or after its home bucket (where a search for it begins).
    fn insert_entry_word(&mut self, word: IndexWord) {
        if let SearchResult::EmptyBucket(gap) = self.search(word.tag(), |_| false) {
            self.bucket_words.set(gap, word.0);
        }
    }

    /// Evicts the next entry that was not hit since the clock hand last passed.
    fn evict_entry(&mut self) {
        loop {
            let bucket = self.clock_hand.current_bucket;
            self.clock_hand.advance_to_next_bucket();
            let word = self.word_in_bucket(bucket);
            if word != IndexWord::EMPTY && !word.has_hit_bit() {
                return self.remove_and_close_gap(bucket);
            }
            self.bucket_words.set(bucket, word.0 & !IndexWord::HIT_BIT);
        }
    }

    /// Empties a bucket of the hash table and closes the gap: entries in the run of full buckets after it move forward,
    /// unless they would move before their home bucket.
    fn remove_and_close_gap(&mut self, bucket: usize) {
        let (mut gap, mut at) = (bucket, bucket);
        loop {
            at = self.bucket_after(at);
            let word = self.word_in_bucket(at);
            if word == IndexWord::EMPTY {
                break;
            }
            let home = self.home_bucket(word.tag());
            if does_search_pass_gap(home, gap, at) {
                self.bucket_words.set(gap, word.0);
                gap = at;
            }
        }
        self.bucket_words.set(gap, IndexWord::EMPTY.0);
        self.entry_count -= 1;
    }

    /// Removes the content-index entry of `unit` (page or member of a compressed chunk), whose content has this hash.
    #[inline]
    pub(super) fn remove(&mut self, hash: u64, unit: StoredUnit) {
        if let Some(bucket) = self.bucket_of(hash, |other| other == unit) {
            self.remove_and_close_gap(bucket);
        }
    }

    /// Changes the content-index entry with this hash from unit `from` to unit `to` (pages or members of compressed
    /// chunks).
    #[inline]
    pub(super) fn replace_unit(&mut self, hash: u64, from: StoredUnit, to: StoredUnit) {
        if let Some(bucket) = self.bucket_of(hash, |other| other == from) {
            self.set_unit_in_bucket(bucket, to);
        }
    }

    /// Returns the units (pages and members of compressed chunks) of all content-index entries.
    pub(super) fn indexed_units(&self) -> impl Iterator<Item = StoredUnit> + '_ {
        let words = (0..self.bucket_words.len()).map(|bucket| self.word_in_bucket(bucket));
        words.filter(|&word| word != IndexWord::EMPTY).map(IndexWord::unit_named_by_entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a hash of the test content with number `n`, as evenly distributed as real content hashes.
    fn test_hash(n: u32) -> u64 {
        let mixed = (u64::from(n) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
    }

    /// Returns the length of the longest run of full buckets in the hash table of `index`, which bounds the length of a
    /// search.
    fn longest_run_of_full_buckets(index: &BoundedIndex) -> usize {
        let taken: Vec<bool> = (0..index.bucket_words.len())
            .map(|bucket| index.word_in_bucket(bucket) != IndexWord::EMPTY)
            .collect();
        taken.split(|&taken| !taken).map(<[bool]>::len).max().unwrap_or(0)
    }

    #[test]
    fn the_clock_hand_of_the_content_index_passes_every_bucket_once_per_round() {
        for buckets in [16, 24, 36, 54, 81, 1_000, 4_099] {
            let mut clock_hand = ClockHand::for_bucket_count(buckets);
            let mut seen = vec![0; buckets];
            for _ in 0..buckets {
                seen[clock_hand.current_bucket] += 1;
                clock_hand.advance_to_next_bucket();
            }
            assert!(seen.iter().all(|&times| times == 1), "of {buckets} buckets: {seen:?}");
        }
    }

    #[test]
    fn searches_of_a_content_index_stay_short_after_it_was_full_for_long() {
        let capacity = 25_000;
        let mut index = BoundedIndex::new(capacity);
        for n in 0..capacity * 10 {
            index.insert(test_hash(n), StoredUnit(n), |unit| unit.0 == n);
            assert!(index.len() <= capacity);
            assert_eq!(index.peek(test_hash(n), |unit| unit.0 == n), Some(StoredUnit(n)));
        }
        // Half full at random, the longest run is some forty entries; with a hand that passes buckets in order,
        // thousands.
        assert!(
            longest_run_of_full_buckets(&index) < 100,
            "a run of {}",
            longest_run_of_full_buckets(&index)
        );
    }

    #[test]
    fn content_index_entries_that_were_hit_are_not_evicted() {
        let mut index = BoundedIndex::new(1_000);
        let find = |index: &mut BoundedIndex, n| {
            assert_eq!(index.find(test_hash(n), |unit| unit.0 == n), Some(StoredUnit(n)));
        };
        (0..1_000).for_each(|n| index.insert(test_hash(n), StoredUnit(n), |unit| unit.0 == n));
        (0..100).for_each(|often| find(&mut index, often));
        for n in 1_000..5_000 {
            find(&mut index, n % 100);
            index.insert(test_hash(n), StoredUnit(n), |unit| unit.0 == n);
        }
    }
}
