//! An index of few contents: when it is full an entry that was not hit since the hand came by last makes room (second
//! chance): nearly as good as exact recency, and a hit costs one bit instead of relinking.
//!
//! Linear probing over one word per entry: part of the hash, the bit of the second chance, the unit. The price: 11 to 16 bytes
//! per entry, and the hand goes round by hash, not by age.
//!
//! The hand takes a cache line of buckets, then one far away. A hand that went from bucket to bucket would leave the
//! buckets behind it empty and those before it full: searches there would pass thousands of entries.
//!
//! Invariant: from the home of an entry to its bucket there is no gap.

use crate::address::Unit;
use crate::tables::Table;
use crate::tables::prefetch::touch_all;

/// A table that is full becomes half as long again.
fn longer(len: usize) -> usize {
    (len + len / 2).max(16)
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
fn tag_of(hash: u64) -> u64 {
    hash >> (64 - TAG_BITS)
}

/// Where a search ended.
enum Search {
    Found(usize),
    Gap(usize),
}

/// Goes round all buckets: those of a cache line in order, the lines in an order that is even over the table at any time.
#[derive(Clone, Debug)]
struct Hand {
    buckets: usize,
    lines: usize,
    /// From a line to the next, modulo `lines`; the two have no common factor.
    stride: usize,
    bucket: usize,
}

impl Hand {
    fn over(buckets: usize) -> Self {
        let lines = buckets.div_ceil(LINE_WORDS);
        // Multiples of the golden section lie evenly in a circle, however many there are.
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

/// At most `capacity` entries.
#[derive(Clone, Debug)]
pub(super) struct Limited {
    words: Table<u64>,
    entries: u32,
    capacity: u32,
    hand: Hand,
}

impl Limited {
    pub(super) fn new(capacity: u32) -> Self {
        let words = Table::zeroed(longer(0));
        let hand = Hand::over(words.len());
        Self { words, entries: 0, capacity, hand }
    }

    /// An empty index of the same capacity.
    pub(super) fn emptied(&self) -> Self {
        Self::new(self.capacity)
    }

    pub(super) fn len(&self) -> u32 {
        self.entries
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

    /// The bucket of the entry with this hash that `is_it` says yes to.
    #[inline]
    fn bucket_of(&self, hash: u64, is_it: impl Fn(Unit) -> bool) -> Option<usize> {
        match self.search(tag_of(hash), is_it) {
            Search::Found(bucket) => Some(bucket),
            Search::Gap(_) => None,
        }
    }

    /// The unit with this hash that `is_it` says yes to.
    #[inline]
    pub(super) fn unit(&self, hash: u64, is_it: impl Fn(Unit) -> bool) -> Option<Unit> {
        self.bucket_of(hash, is_it).map(|bucket| self.word(bucket).unit())
    }

    /// The same, which is marked as used.
    #[inline]
    pub(super) fn find(&mut self, hash: u64, is_it: impl Fn(Unit) -> bool) -> Option<Unit> {
        let bucket = self.bucket_of(hash, is_it)?;
        let word = self.word(bucket);
        self.words.set(bucket, word.0 | Word::HIT);
        Some(word.unit())
    }

    /// Reads what looking for these hashes will need; see [`crate::tables::prefetch`].
    pub(super) fn prefetch(&self, hashes: impl Iterator<Item = u64>) {
        // A search is likely to end, and a gap to be closed, within a cache line of words from home on: on two lines.
        let at_home = |hash| {
            let home = self.home(tag_of(hash));
            self.word(home).0 ^ self.word((home + LINE_WORDS).min(self.words.len() - 1)).0
        };
        touch_all(hashes.map(at_home));
    }

    /// Puts `unit` in the place of the one with this hash that `is_it` says yes to, or adds it.
    pub(super) fn insert(&mut self, hash: u64, unit: Unit, is_it: impl Fn(Unit) -> bool) {
        let tag = tag_of(hash);
        let gap = match self.search(tag, is_it) {
            Search::Found(bucket) => return self.rename(bucket, unit),
            Search::Gap(gap) => gap,
        };
        if self.capacity == 0 {
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
    }

    /// Whether one more entry fits. Up to three quarters full: a content that is not there is known after eight buckets, a
    /// cache line, or two.
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
        self.words.set(bucket, Word::new(word.tag(), unit).0 | word.0 & Word::HIT);
    }

    fn grow(&mut self) {
        let longer = Table::zeroed(longer(self.words.len()));
        let shorter = std::mem::replace(&mut self.words, longer);
        self.hand = Hand::over(self.words.len());
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
            let bucket = self.hand.bucket;
            self.hand.advance();
            let word = self.word(bucket);
            if word != Word::NONE && !word.is_hit() {
                return self.empty(bucket);
            }
            self.words.set(bucket, word.0 & !Word::HIT);
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

    /// Removes `unit`, which has this hash.
    #[inline]
    pub(super) fn remove(&mut self, hash: u64, unit: Unit) {
        if let Some(bucket) = self.bucket_of(hash, |other| other == unit) {
            self.empty(bucket);
        }
    }

    /// Puts `to` in the place of `from`, which has this hash.
    #[inline]
    pub(super) fn relocate(&mut self, hash: u64, from: Unit, to: Unit) {
        if let Some(bucket) = self.bucket_of(hash, |other| other == from) {
            self.rename(bucket, to);
        }
    }

    /// All units.
    pub(super) fn units(&self) -> impl Iterator<Item = Unit> + '_ {
        let words = (0..self.words.len()).map(|bucket| self.word(bucket));
        words.filter(|&word| word != Word::NONE).map(Word::unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash that is spread like that of a content.
    fn hash(n: u32) -> u64 {
        let mixed = (u64::from(n) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
    }

    /// Entries passed by the longest search that could be made.
    fn longest_run(index: &Limited) -> usize {
        let taken: Vec<bool> =
            (0..index.words.len()).map(|bucket| index.word(bucket) != Word::NONE).collect();
        taken.split(|&taken| !taken).map(<[bool]>::len).max().unwrap_or(0)
    }

    #[test]
    fn the_hand_comes_by_every_bucket_once_a_round() {
        for buckets in [16, 24, 36, 54, 81, 1_000, 4_099] {
            let mut hand = Hand::over(buckets);
            let mut seen = vec![0; buckets];
            for _ in 0..buckets {
                seen[hand.bucket] += 1;
                hand.advance();
            }
            assert!(seen.iter().all(|&times| times == 1), "of {buckets} buckets: {seen:?}");
        }
    }

    #[test]
    fn searches_stay_short_when_the_index_was_full_for_long() {
        let capacity = 25_000;
        let mut index = Limited::new(capacity);
        for n in 0..capacity * 10 {
            index.insert(hash(n), Unit(n), |unit| unit.0 == n);
            assert!(index.len() <= capacity);
            assert_eq!(index.unit(hash(n), |unit| unit.0 == n), Some(Unit(n)));
        }
        // Three quarters full at random: runs of a few dozen; behind a hand that takes buckets in order, thousands.
        assert!(longest_run(&index) < 200, "a run of {}", longest_run(&index));
    }

    #[test]
    fn contents_that_are_hit_stay() {
        let mut index = Limited::new(1_000);
        let find =
            |index: &mut Limited, n| assert_eq!(index.find(hash(n), |unit| unit.0 == n), Some(Unit(n)));
        (0..1_000).for_each(|n| index.insert(hash(n), Unit(n), |unit| unit.0 == n));
        (0..100).for_each(|often| find(&mut index, often));
        for n in 1_000..5_000 {
            find(&mut index, n % 100);
            index.insert(hash(n), Unit(n), |unit| unit.0 == n);
        }
    }
}
