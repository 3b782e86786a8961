//! A table of which few rows are in use.
//!
//! Linear probing in words of eight bytes, row and value side by side, at most half full: one cache miss per question, and
//! mostly one word. Memory: 16 to 32 bytes per row in use.

use crate::slot_index::spread;
use crate::table::Table;

/// Fewest words.
const SMALLEST: usize = 8;

/// Values by row. A row is below `u32::MAX`.
#[derive(Clone, Debug)]
pub(super) struct SparseTable {
    /// Row plus one above, value below; 0 = none.
    words: Table<u64>,
    rows: usize,
}

#[inline]
fn word(row: u32, value: u32) -> u64 {
    (u64::from(row) + 1) << 32 | u64::from(value)
}

#[inline]
fn row_of(word: u64) -> u32 {
    (word >> 32) as u32 - 1
}

impl SparseTable {
    /// No row.
    pub(super) fn new() -> Self {
        Self::with_words(SMALLEST)
    }

    fn with_words(words: usize) -> Self {
        Self { words: Table::zeroed(words), rows: 0 }
    }

    /// Rows in use.
    pub(super) fn len(&self) -> usize {
        self.rows
    }

    #[inline]
    fn mask(&self) -> usize {
        self.words.len() - 1
    }

    #[inline]
    fn home(&self, row: u32) -> usize {
        spread(u64::from(row), u32::BITS) & self.mask()
    }

    /// The place of a row, or the empty one where it would be, and what stands there.
    #[inline]
    fn search(&self, row: u32) -> (usize, u64) {
        let mut at = self.home(row);
        loop {
            let found = self.words.get(at);
            if found == 0 || found >> 32 == u64::from(row) + 1 {
                return (at, found);
            }
            at = (at + 1) & self.mask();
        }
    }

    /// The value of a row.
    #[inline]
    pub(super) fn get(&self, row: u32) -> Option<u32> {
        let (_, found) = self.search(row);
        (found != 0).then_some(found as u32)
    }

    /// Gives a row a value; returns the one before.
    #[inline]
    pub(super) fn insert(&mut self, row: u32, value: u32) -> Option<u32> {
        let (at, found) = self.search(row);
        self.words.set(at, word(row, value));
        if found != 0 {
            return Some(found as u32);
        }
        self.rows += 1;
        if self.rows > self.words.len() / 2 {
            self.grow();
        }
        None
    }

    /// Twice the words.
    #[cold]
    fn grow(&mut self) {
        let longer = Self::with_words(2 * self.words.len());
        let shorter = std::mem::replace(self, longer);
        let words = (0..shorter.words.len()).map(|at| shorter.words.get(at));
        for word in words.filter(|&word| word != 0) {
            self.insert(row_of(word), word as u32);
        }
    }

    /// Takes the value of a row away and returns it.
    #[inline]
    pub(super) fn remove(&mut self, row: u32) -> Option<u32> {
        let (at, found) = self.search(row);
        if found == 0 {
            return None;
        }
        self.empty(at);
        Some(found as u32)
    }

    /// Empties a place and closes the gap: rows behind it that are not at home move up.
    #[inline]
    fn empty(&mut self, place: usize) {
        let (mut gap, mut at) = (place, place);
        loop {
            at = (at + 1) & self.mask();
            let word = self.words.get(at);
            if word == 0 {
                break;
            }
            let steps = |from: usize| at.wrapping_sub(from) & self.mask();
            if steps(gap) <= steps(self.home(row_of(word))) {
                self.words.set(gap, word);
                gap = at;
            }
        }
        self.words.set(gap, 0);
        self.rows -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::SparseTable;

    #[test]
    fn a_sparse_table_is_a_map() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        for range in [6, 100, 5000] {
            let (mut table, mut model) = (SparseTable::new(), HashMap::new());
            for value in 0..40_000 {
                let row = u32::MAX - 1 - rng.random_range(0..range);
                match rng.random_range(0..3) {
                    0 => assert_eq!(table.remove(row), model.remove(&row)),
                    1 => assert_eq!(table.insert(row, value), model.insert(row, value)),
                    _ => assert_eq!(table.get(row), model.get(&row).copied()),
                }
                assert_eq!(table.len(), model.len());
            }
            assert!(model.iter().all(|(&row, &value)| table.get(row) == Some(value)));
        }
    }
}
