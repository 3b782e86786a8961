//! A content index of limited capacity. When it is full, it evicts an entry that was not hit since the clock hand last
//! passed (second chance). That is nearly as good as exact recency, and a hit sets one bit instead of relinking a list.
//!
//! Linear probing over one word per entry: part of the hash, the hit bit, the unit. The price: 11 to 16 bytes per
//! entry, and the hand passes entries in the order of hashes, not of age.
//!
//! The hand passes the buckets of one cache line, then jumps to a distant line. A hand that moved from bucket to bucket
//! would leave empty buckets after it and full ones before it: searches in the full part would probe thousands of
//! entries.
//!
//! Invariant: there is no empty bucket between the home of an entry and its bucket.

use crate::address::Unit;
use crate::tables::DenseTable;
use crate::tables::prefetch::pull_into_cache;

/// Returns the length to which a full hash table of `len` 8-byte words grows: `len * 1.5`, at least 16 words.
fn longer(len: usize) -> usize {
    (len + len / 2).max(16)
}

/// Number of 8-byte words of the hash table in a cache line.
const LINE_WORDS: usize = 8;

/// Number of bits of the content hash that an entry of the deduplication index stores (its tag).
const TAG_BITS: u32 = 31;

/// A word of the hash table of the deduplication index: an entry, or 0 for an empty bucket. From the top bit: tag (31
/// bits of the content hash), hit bit (set if the entry was hit since the clock hand last passed), number of the unit
/// (page or member of a compressed chunk) plus one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct IndexWord(u64);

impl IndexWord {
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
fn tag_of(hash: u64) -> u64 {
    hash >> (64 - TAG_BITS)
}

/// Result of a search in the hash table of the deduplication index: the bucket of the entry that was found, or the
/// empty bucket where a new entry would be inserted.
enum SearchResult {
    Found(usize),
    Gap(usize),
}

/// Clock hand of second-chance eviction over all hash buckets. It passes the buckets of a cache line in order. It
/// visits the lines in an order that is evenly spread over the table at any time.
#[derive(Clone, Debug)]
struct ClockHand {
    buckets: usize,
    lines: usize,
    /// Number of cache lines by which the clock hand jumps after each line, modulo `lines`. It has no common factor
    /// with `lines`, so that the hand visits every line.
    stride: usize,
    bucket: usize,
}

impl ClockHand {
    fn over(buckets: usize) -> Self {
        let lines = buckets.div_ceil(LINE_WORDS);
        // Multiples of the golden ratio are evenly spread over a circle, however many there are.
        let golden = ((lines as f64 * 0.618_033_988_75) as usize).max(1);
        let mut strides = golden..=golden + lines;
        let stride =
            strides.find(|&stride| gcd(stride, lines) == 1).expect("one more than a multiple of the lines");
        Self { buckets, lines, stride, bucket: 0 }
    }

    #[inline]
    fn advance(&mut self) {
        self.bucket += 1;
        if self.bucket.is_multiple_of(LINE_WORDS) || self.bucket == self.buckets {
            let line = (self.bucket - 1) / LINE_WORDS;
            self.bucket = (line + self.stride) % self.lines * LINE_WORDS;
        }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A content index (hash table of stored contents for deduplication) of at most `capacity` entries, with second-chance
/// eviction.
#[derive(Clone, Debug)]
pub(super) struct BoundedIndex {
    words: DenseTable<u64>,
    entries: u32,
    capacity: u32,
    clock_hand: ClockHand,
}

impl BoundedIndex {
    pub(super) fn new(capacity: u32) -> Self {
        let words = DenseTable::zeroed(longer(0));
        let clock_hand = ClockHand::over(words.len());
        Self { words, entries: 0, capacity, clock_hand }
    }

    /// Returns an empty content index with the capacity of this one.
    pub(super) fn empty_of_same_size(&self) -> Self {
        Self::new(self.capacity)
    }

    pub(super) fn len(&self) -> u32 {
        self.entries
    }

    #[inline]
    fn word(&self, bucket: usize) -> IndexWord {
        IndexWord(self.words.get(bucket))
    }

    #[inline]
    fn home_bucket(&self, tag: u64) -> usize {
        ((tag * self.words.len() as u64) >> TAG_BITS) as usize
    }

    #[inline]
    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.words.len() { 0 } else { bucket + 1 }
    }

    /// Searches the content index for the entry with this tag (part of the content hash) whose unit (page or member of
    /// a compressed chunk) `is_it` accepts. Returns the bucket of the entry, or the empty bucket where it would be
    /// inserted.
    #[inline]
    fn search(&self, tag: u64, is_it: impl Fn(Unit) -> bool) -> SearchResult {
        let ends = |word| {
            IndexWord(word) == IndexWord::NONE
                || IndexWord(word).tag() == tag && is_it(IndexWord(word).unit())
        };
        let bucket = self.words.position_around(self.home_bucket(tag), ends);
        if self.word(bucket) == IndexWord::NONE {
            SearchResult::Gap(bucket)
        } else {
            SearchResult::Found(bucket)
        }
    }

    /// Returns the bucket of the content-index entry with this hash whose unit (page or member of a compressed chunk)
    /// `is_it` accepts; `None` if there is none.
    #[inline]
    fn bucket_of(&self, hash: u64, is_it: impl Fn(Unit) -> bool) -> Option<usize> {
        match self.search(tag_of(hash), is_it) {
            SearchResult::Found(bucket) => Some(bucket),
            SearchResult::Gap(_) => None,
        }
    }

    /// Returns the unit (page or member of a compressed chunk) in the content-index entry with this hash, if `is_it`
    /// accepts the unit.
    #[inline]
    pub(super) fn peek(&self, hash: u64, is_it: impl Fn(Unit) -> bool) -> Option<Unit> {
        self.bucket_of(hash, is_it).map(|bucket| self.word(bucket).unit())
    }

    /// Returns the unit (page or member of a compressed chunk) in the content-index entry with this hash, if `is_it`
    /// accepts the unit. Sets the hit bit of the entry, which delays its eviction.
    #[inline]
    pub(super) fn find(&mut self, hash: u64, is_it: impl Fn(Unit) -> bool) -> Option<Unit> {
        let bucket = self.bucket_of(hash, is_it)?;
        let word = self.word(bucket);
        self.words.set(bucket, word.0 | IndexWord::HIT);
        Some(word.unit())
    }

    /// Reads the hash buckets that searches for these content hashes will need, so that their cache misses overlap
    /// ([`crate::tables::prefetch`]).
    pub(super) fn prefetch_buckets(&self, hashes: impl Iterator<Item = u64>) {
        // A search, or the closing of a gap, usually ends within a cache line's worth of words after the home, on at
        // most two lines.
        let at_home = |hash| {
            let home = self.home_bucket(tag_of(hash));
            self.word(home).0 ^ self.word((home + LINE_WORDS).min(self.words.len() - 1)).0
        };
        pull_into_cache(hashes.map(at_home));
    }

    /// Inserts a content-index entry for `unit` (page or member of a compressed chunk). If there is an entry with this
    /// hash whose unit `is_it` accepts, only its unit is replaced.
    pub(super) fn insert(&mut self, hash: u64, unit: Unit, is_it: impl Fn(Unit) -> bool) {
        let tag = tag_of(hash);
        let gap = match self.search(tag, is_it) {
            SearchResult::Found(bucket) => return self.rename(bucket, unit),
            SearchResult::Gap(gap) => gap,
        };
        if self.capacity == 0 {
            return;
        }
        let word = IndexWord::new(tag, unit);
        if self.has_room() {
            self.words.set(gap, word.0);
        } else {
            self.make_room();
            self.place(word);
        }
        self.entries += 1;
    }

    /// Whether one more entry fits in the content index. The hash table is filled up to 75 %: then a search for a
    /// missing content ends after eight buckets, in one or two cache lines.
    #[inline]
    fn has_room(&self) -> bool {
        self.entries < self.capacity && (self.entries as usize) < self.words.len() / 4 * 3
    }

    #[cold]
    fn make_room(&mut self) {
        if self.entries >= self.capacity {
            self.evict();
        }
        if self.entries as usize >= self.words.len() / 4 * 3 {
            self.grow();
        }
    }

    fn rename(&mut self, bucket: usize, unit: Unit) {
        let word = self.word(bucket);
        self.words.set(bucket, IndexWord::new(word.tag(), unit).0 | word.0 & IndexWord::HIT);
    }

    fn grow(&mut self) {
        let longer = DenseTable::zeroed(longer(self.words.len()));
        let shorter = std::mem::replace(&mut self.words, longer);
        self.clock_hand = ClockHand::over(self.words.len());
        let words = (0..shorter.len()).map(|bucket| IndexWord(shorter.get(bucket)));
        words.filter(|&word| word != IndexWord::NONE).for_each(|word| self.place(word));
    }

    fn place(&mut self, word: IndexWord) {
        if let SearchResult::Gap(gap) = self.search(word.tag(), |_| false) {
            self.words.set(gap, word.0);
        }
    }

    fn evict(&mut self) {
        loop {
            let bucket = self.clock_hand.bucket;
            self.clock_hand.advance();
            let word = self.word(bucket);
            if word != IndexWord::NONE && !word.is_hit() {
                return self.empty(bucket);
            }
            self.words.set(bucket, word.0 & !IndexWord::HIT);
        }
    }

    /// Empties a bucket of the hash table and closes the gap: entries in the run of full buckets after it move forward,
    /// unless they would move before their home bucket.
    fn empty(&mut self, bucket: usize) {
        let (mut gap, mut at) = (bucket, bucket);
        loop {
            at = self.after(at);
            let word = self.word(at);
            if word == IndexWord::NONE {
                break;
            }
            let home = self.home_bucket(word.tag());
            let is_behind_gap = if gap < at { gap < home && home <= at } else { gap < home || home <= at };
            if !is_behind_gap {
                self.words.set(gap, word.0);
                gap = at;
            }
        }
        self.words.set(gap, IndexWord::NONE.0);
        self.entries -= 1;
    }

    /// Removes the content-index entry of `unit` (page or member of a compressed chunk), whose content has this hash.
    #[inline]
    pub(super) fn remove(&mut self, hash: u64, unit: Unit) {
        if let Some(bucket) = self.bucket_of(hash, |other| other == unit) {
            self.empty(bucket);
        }
    }

    /// Changes the content-index entry with this hash from unit `from` to unit `to` (pages or members of compressed
    /// chunks).
    #[inline]
    pub(super) fn relocate(&mut self, hash: u64, from: Unit, to: Unit) {
        if let Some(bucket) = self.bucket_of(hash, |other| other == from) {
            self.rename(bucket, to);
        }
    }

    /// Returns the units (pages and members of compressed chunks) of all content-index entries.
    pub(super) fn units(&self) -> impl Iterator<Item = Unit> + '_ {
        let words = (0..self.words.len()).map(|bucket| self.word(bucket));
        words.filter(|&word| word != IndexWord::NONE).map(IndexWord::unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a hash of the test content with number `n`, as evenly distributed as real content hashes.
    fn hash(n: u32) -> u64 {
        let mixed = (u64::from(n) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
    }

    /// Returns the length of the longest run of full buckets in the hash table of `index`, which bounds the length of a
    /// search.
    fn longest_run(index: &BoundedIndex) -> usize {
        let taken: Vec<bool> =
            (0..index.words.len()).map(|bucket| index.word(bucket) != IndexWord::NONE).collect();
        taken.split(|&taken| !taken).map(<[bool]>::len).max().unwrap_or(0)
    }

    #[test]
    fn the_clock_hand_of_the_content_index_passes_every_bucket_once_per_round() {
        for buckets in [16, 24, 36, 54, 81, 1_000, 4_099] {
            let mut clock_hand = ClockHand::over(buckets);
            let mut seen = vec![0; buckets];
            for _ in 0..buckets {
                seen[clock_hand.bucket] += 1;
                clock_hand.advance();
            }
            assert!(seen.iter().all(|&times| times == 1), "of {buckets} buckets: {seen:?}");
        }
    }

    #[test]
    fn searches_of_a_content_index_stay_short_after_it_was_full_for_long() {
        let capacity = 25_000;
        let mut index = BoundedIndex::new(capacity);
        for n in 0..capacity * 10 {
            index.insert(hash(n), Unit(n), |unit| unit.0 == n);
            assert!(index.len() <= capacity);
            assert_eq!(index.peek(hash(n), |unit| unit.0 == n), Some(Unit(n)));
        }
        // Three quarters full at random, runs are a few dozen entries; with a hand that passes buckets in order,
        // thousands.
        assert!(longest_run(&index) < 200, "a run of {}", longest_run(&index));
    }

    #[test]
    fn content_index_entries_that_were_hit_are_not_evicted() {
        let mut index = BoundedIndex::new(1_000);
        let find =
            |index: &mut BoundedIndex, n| assert_eq!(index.find(hash(n), |unit| unit.0 == n), Some(Unit(n)));
        (0..1_000).for_each(|n| index.insert(hash(n), Unit(n), |unit| unit.0 == n));
        (0..100).for_each(|often| find(&mut index, often));
        for n in 1_000..5_000 {
            find(&mut index, n % 100);
            index.insert(hash(n), Unit(n), |unit| unit.0 == n);
        }
    }
}
