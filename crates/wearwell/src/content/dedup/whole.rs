//! An index of everything that is stored: lines of twelve entries, each line a cache line.
//!
//! An entry is the number of its unit and a byte of the hash. It lies in the line that the hash names, its *home*, or, where
//! that is full, in the next one that is not; a line counts the entries that passed it by, so a search knows where it ends.
//! To come and to be renamed costs one access to one line, or sometimes to the next. Who goes makes room: one of those
//! that passed the line by moves in. Without that, lines that once were full would be passed by ever after, and searches became
//! ten times as long. Two bits tell how far an entry is from home; only if it is further than they can tell, what its unit
//! holds is asked for.
//!
//! The price: what an entry keeps of the hash does not tell its content, so one search in 25 asks the flash in vain; and the
//! table never grows, because while it did, there would be two. It is made for as many entries as there can be.
//!
//! Invariants: a line has counted those entries, and no others, whose home is there or before and which lie behind; where one
//! was counted there is no free place; a free place has no tag and no distance.

use crate::address::Unit;
use crate::tables::Table;
use crate::tables::prefetch::touch_all;

/// Entries of a line.
const ENTRIES: usize = 12;
/// Words of a line: two units in each of six; eight tags; four tags, the distances, the count of those that passed by.
const LINE_WORDS: usize = 8;
const FIRST_TAGS: usize = 6;
const LAST_TAGS: usize = 7;
/// First bit of the distances, two bits each.
const DISTANCES: u32 = 32;
/// A distance of as many lines or more.
const FAR: usize = 3;
/// One that passed by.
const PASSED: u64 = 1 << 56;
const LEFT: u64 = PASSED.wrapping_neg();
/// As many as can be counted. With random hashes the most that ever pass one line by are some dozens; where contents were
/// made to meet, those beyond are not learnt.
const MOST_PASSED: u64 = u64::MAX / PASSED;
/// Tag of a free place.
const FREE: u8 = 0;

/// Lines that are three quarters full with so many entries: a sixth of them are passed by then. At four fifths it is a quarter,
/// and writes with deduplication take 5 to 8 % longer.
fn lines_for(entries: u32) -> usize {
    entries as usize / 9 + 2
}

/// The byte of a hash that an entry keeps.
#[inline]
fn tag_of(hash: u64) -> u8 {
    (hash as u8).max(FREE + 1)
}

/// The bytes of `word` that equal `tag`, as the lowest bit of each.
#[inline]
fn equal_bytes(word: u64, tag: u8) -> u64 {
    const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let difference = word ^ (u64::from(tag) * 0x0101_0101_0101_0101);
    !(((difference & LOW_BITS) + LOW_BITS) | difference | LOW_BITS) >> 7
}

/// Places of a line that are left to look at: the first eight as the lowest bits of bytes, the last four as the bits above.
struct Places(u64);

impl Places {
    /// Those with this tag.
    #[inline]
    fn with_tag([first, last]: [u64; 2], tag: u8) -> Self {
        Self(equal_bytes(first, tag) | (equal_bytes(last, tag) & 0x0101_0101) << 1)
    }
}

impl Iterator for Places {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let bit = lowest(&mut self.0)?;
        Some(bit / 8 + bit % 8 * 8)
    }
}

/// The places of a line whose entries are not at home.
#[inline]
fn displaced([_, last]: [u64; 2]) -> impl Iterator<Item = usize> {
    let distances = last >> DISTANCES;
    let mut places = (distances | distances >> 1) & 0x0055_5555;
    std::iter::from_fn(move || Some(lowest(&mut places)? / 2))
}

/// Takes the lowest bit away.
#[inline]
fn lowest(bits: &mut u64) -> Option<usize> {
    let lowest = (*bits != 0).then(|| bits.trailing_zeros() as usize)?;
    *bits &= *bits - 1;
    Some(lowest)
}

/// An entry's line, and its place there.
#[derive(Clone, Copy)]
struct Spot {
    line: usize,
    place: usize,
}

/// As many entries as there can be units. Memory: seven bytes for each.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    words: Table<u64>,
    entries: u32,
    most_units: u32,
}

impl Whole {
    pub(super) fn new(most_units: u32) -> Self {
        Self { words: Table::zeroed(lines_for(most_units) * LINE_WORDS), entries: 0, most_units }
    }

    /// An empty index for as many units.
    pub(super) fn emptied(&self) -> Self {
        Self::new(self.most_units)
    }

    pub(super) fn len(&self) -> u32 {
        self.entries
    }

    #[inline]
    fn lines(&self) -> usize {
        self.words.len() / LINE_WORDS
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.lines() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, line: usize) -> usize {
        if line + 1 == self.lines() { 0 } else { line + 1 }
    }

    #[inline]
    fn tags(&self, line: usize) -> [u64; 2] {
        [FIRST_TAGS, LAST_TAGS].map(|word| self.words.get(line * LINE_WORDS + word))
    }

    #[inline]
    fn unit_at(&self, Spot { line, place }: Spot) -> Unit {
        Unit((self.words.get(line * LINE_WORDS + place / 2) >> (place % 2 * 32)) as u32)
    }

    #[inline]
    fn set_unit(&mut self, Spot { line, place }: Spot, unit: Unit) {
        let (at, shift) = (line * LINE_WORDS + place / 2, place % 2 * 32);
        let others = self.words.get(at) & !(u64::from(u32::MAX) << shift);
        self.words.set(at, others | u64::from(unit.0) << shift);
    }

    #[inline]
    fn set_tag(&mut self, Spot { line, place }: Spot, tag: u8) {
        let (at, shift) = (line * LINE_WORDS + FIRST_TAGS + place / 8, place % 8 * 8);
        let others = self.words.get(at) & !(u64::from(u8::MAX) << shift);
        self.words.set(at, others | u64::from(tag) << shift);
    }

    fn tag_at(&self, Spot { line, place }: Spot) -> u8 {
        (self.tags(line)[place / 8] >> (place % 8 * 8)) as u8
    }

    /// How far an entry is from home, up to [`FAR`].
    fn distance_at(&self, Spot { line, place }: Spot) -> usize {
        (self.tags(line)[1] >> (DISTANCES as usize + 2 * place)) as usize & FAR
    }

    #[inline]
    fn set_distance(&mut self, Spot { line, place }: Spot, distance: usize) {
        let (at, shift) = (line * LINE_WORDS + LAST_TAGS, DISTANCES as usize + 2 * place);
        let others = self.words.get(at) & !((FAR as u64) << shift);
        self.words.set(at, others | (distance.min(FAR) as u64) << shift);
    }

    /// An entry takes a free place.
    #[inline]
    fn put(&mut self, spot: Spot, tag: u8, unit: Unit, distance: usize) {
        self.set_tag(spot, tag);
        self.set_unit(spot, unit);
        if distance > 0 {
            self.set_distance(spot, distance);
        }
    }

    #[inline]
    fn free(&mut self, spot: Spot) {
        self.set_tag(spot, FREE);
        self.set_distance(spot, 0);
    }

    /// One more or one less has passed by the lines from `first` on up to `end`.
    #[inline]
    fn add_to_counts(&mut self, first: usize, end: usize, passed: u64) {
        let mut line = first;
        while line != end {
            let at = line * LINE_WORDS + LAST_TAGS;
            self.words.set(at, self.words.get(at).wrapping_add(passed));
            line = self.after(line);
        }
    }

    /// Where the entry with this hash is that `is_it` says yes to.
    #[inline]
    fn search(&self, hash: u64, is_it: impl Fn(Unit) -> bool) -> Option<Spot> {
        let mut line = self.home(hash);
        loop {
            let tags = self.tags(line);
            let mut spots = Places::with_tag(tags, tag_of(hash)).map(|place| Spot { line, place });
            if let Some(spot) = spots.find(|&spot| is_it(self.unit_at(spot))) {
                return Some(spot);
            }
            if tags[1] < PASSED {
                return None;
            }
            line = self.after(line);
        }
    }

    /// The unit with this hash that `is_it` says yes to.
    #[inline]
    pub(super) fn unit(&self, hash: u64, is_it: impl Fn(Unit) -> bool) -> Option<Unit> {
        self.search(hash, is_it).map(|spot| self.unit_at(spot))
    }

    /// Reads what looking for these hashes will need; see [`crate::tables::prefetch`].
    pub(super) fn prefetch(&self, hashes: impl Iterator<Item = u64>) {
        touch_all(hashes.map(|hash| self.words.get(self.home(hash) * LINE_WORDS + LAST_TAGS)));
    }

    /// Puts `unit` in the place of the one with this hash that `is_it` says yes to, or adds it.
    pub(super) fn insert(&mut self, hash: u64, unit: Unit, is_it: impl Fn(Unit) -> bool) {
        if let Some(spot) = self.search(hash, is_it) {
            return self.set_unit(spot, unit);
        }
        // A page that is revived is learned before what it replaces is forgotten.
        assert!(self.entries <= self.most_units, "{} units hold different contents", self.most_units);
        let Some((spot, distance)) = self.room(hash) else { return };
        self.add_to_counts(self.home(hash), spot.line, PASSED);
        self.put(spot, tag_of(hash), unit, distance);
        self.entries += 1;
    }

    /// The free place for an entry with this hash behind full lines, and how far it is from home; `None` if one of these lines
    /// cannot count it.
    #[inline]
    fn room(&self, hash: u64) -> Option<(Spot, usize)> {
        let (mut line, mut distance) = (self.home(hash), 0);
        loop {
            let tags = self.tags(line);
            if let Some(place) = Places::with_tag(tags, FREE).next() {
                return Some((Spot { line, place }, distance));
            }
            if tags[1] / PASSED == MOST_PASSED {
                return None;
            }
            (line, distance) = (self.after(line), distance + 1);
        }
    }

    /// Removes `unit`, which has this hash. `hash_of` tells that of any unit.
    #[inline]
    pub(super) fn remove(&mut self, hash: u64, unit: Unit, hash_of: impl Fn(Unit) -> u64) {
        let Some(spot) = self.search(hash, |other| other == unit) else { return };
        self.add_to_counts(self.home(hash), spot.line, LEFT);
        self.entries -= 1;
        self.close(spot, hash_of);
    }

    /// Frees a place, and has one of the entries move there that passed its line by, whose place is free then, and so on.
    #[inline]
    fn close(&mut self, mut gap: Spot, hash_of: impl Fn(Unit) -> u64) {
        self.free(gap);
        while self.tags(gap.line)[1] >= PASSED {
            let (from, distance) = self.passer_by(gap.line, &hash_of);
            self.put(gap, self.tag_at(from), self.unit_at(from), distance);
            self.add_to_counts(gap.line, from.line, LEFT);
            self.free(from);
            gap = from;
        }
    }

    /// The nearest of the entries that passed `line` by, and how far that line is from its home.
    #[inline]
    fn passer_by(&self, line: usize, hash_of: impl Fn(Unit) -> u64) -> (Spot, usize) {
        let (mut at, mut away) = (self.after(line), 1);
        loop {
            for place in displaced(self.tags(at)) {
                let spot = Spot { line: at, place };
                if let Some(distance) = self.distance(spot, &hash_of).checked_sub(away) {
                    return (spot, distance);
                }
            }
            assert!(away < self.lines(), "an entry that passed line {line} by lies behind it");
            (at, away) = (self.after(at), away + 1);
        }
    }

    /// How far an entry is from home.
    #[inline]
    fn distance(&self, spot: Spot, hash_of: impl Fn(Unit) -> u64) -> usize {
        match self.distance_at(spot) {
            FAR => self.lines_between(self.home(hash_of(self.unit_at(spot))), spot.line),
            distance => distance,
        }
    }

    fn lines_between(&self, first: usize, last: usize) -> usize {
        if first <= last { last - first } else { last + self.lines() - first }
    }

    /// Puts `to` in the place of `from`, which has this hash.
    #[inline]
    pub(super) fn relocate(&mut self, hash: u64, from: Unit, to: Unit) {
        if let Some(spot) = self.search(hash, |other| other == from) {
            self.set_unit(spot, to);
        }
    }

    /// All units.
    pub(super) fn units(&self) -> impl Iterator<Item = Unit> + '_ {
        let spots = (0..self.lines()).flat_map(|line| (0..ENTRIES).map(move |place| Spot { line, place }));
        spots.filter(|spot| self.tag_at(*spot) != FREE).map(|spot| self.unit_at(spot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More entries than three lines have places for share a home. Whichever goes, another one moves in, so that they lie as
    /// near to home as they can, and nothing is left of them in the end.
    #[test]
    fn who_goes_makes_room_for_those_that_passed_by() {
        let mut index = Whole::new(90);
        let mut hashes: Vec<u64> = (1..=50).collect();
        let unit = |hash: u64| Unit(hash as u32);
        for &hash in &hashes {
            index.insert(hash, unit(hash), |_| false);
        }
        while let Some(gone) = (!hashes.is_empty()).then(|| hashes.swap_remove(hashes.len() / 3)) {
            index.remove(gone, unit(gone), |unit| unit.0.into());
            let behind = |line: usize| hashes.len().saturating_sub(ENTRIES * (line + 1)) as u64;
            assert!(
                (0..5).all(|line| index.tags(line)[1] / PASSED == behind(line)),
                "{} are left",
                hashes.len()
            );
            let is_known = |&hash: &u64| index.unit(hash, |other| other == unit(hash)) == Some(unit(hash));
            assert!(hashes.iter().all(is_known));
        }
        assert!((0..index.words.len()).all(|at| at % LINE_WORDS < FIRST_TAGS || index.words.get(at) == 0));
        assert_eq!(index.len(), 0);
    }

    /// A client of a drive may choose contents whose hashes meet.
    #[test]
    fn contents_made_to_meet_are_learnt_as_far_as_they_can_be_counted() {
        let mut index = Whole::new(9000);
        let unit = |hash: u64| Unit(hash as u32);
        (1..=600).for_each(|hash| index.insert(hash, unit(hash), |other| other == unit(hash)));
        let most = ENTRIES as u64 + MOST_PASSED;
        assert_eq!(u64::from(index.len()), most);
        let is_known = |hash: u64| index.unit(hash, |other| other == unit(hash)).is_some();
        assert!((1..=600).all(|hash| is_known(hash) == (hash <= most)));
        (1..=600).for_each(|hash| index.remove(hash, unit(hash), |unit| unit.0.into()));
        assert!((0..index.words.len()).all(|at| at % LINE_WORDS < FIRST_TAGS || index.words.get(at) == 0));
    }

    #[test]
    fn bytes_are_compared_side_by_side() {
        for (word, tag, expected) in [
            (0, 0, 0x0101_0101_0101_0101),
            (0x0100_8001_ff01_0001, 1, 0x0100_0001_0001_0001),
            (u64::MAX, 0, 0),
        ] {
            assert_eq!(equal_bytes(word, tag), expected, "{word:x}");
        }
        let places: Vec<usize> = Places::with_tag([5 << 56 | 5, 5 << 24 | 5 << 40], 5).collect();
        assert_eq!(places, [0, 11, 7]);
    }
}
