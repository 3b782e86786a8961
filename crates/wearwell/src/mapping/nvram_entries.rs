//! The dirty entries of a map on flash, kept in NVRAM: what the table on flash does not know survives without a battery.
//!
//! An entry takes one word of 8 bytes, its logical page and its place, so one atomic store is the commit point of a write, a
//! bind or a trim, exactly as with a whole map in NVRAM ([`super::Flat`]). When the translation page is written, the words
//! of its entries become vacant. So NVRAM grows with the cache and not with the drive. The price: a store for every change,
//! and one more when the entry is clean again.
//!
//! A page that garbage collection moved is stored a little later ([`super::Mapping::store_moves`]), but before its block is
//! erased. A collection makes entries dirty that no host write made room for; the words beyond the bound of dirty entries
//! are for these ([`words`]), and the engine has translation pages written when they run short.
//!
//! Invariants: a logical page has one word at the most; between operations every dirty entry has a word that says its place.

use super::CachedOptions;
use crate::address::{Lpn, Unit};
use crate::error::{Error, Result};
use crate::nand::{Geometry, Nand};
use crate::store::Store;

/// No word.
const NONE: u32 = u32::MAX;

/// Words for what `blocks` collections in a row make dirty, where each page of a block may be named by `entries_per_page`.
/// Two collections at their worst, and some usual ones.
fn words_for_moves(geometry: &Geometry, entries_per_page: u32) -> u64 {
    u64::from(geometry.block_pages()) * (2 * u64::from(entries_per_page) + 6)
}

/// Words that the dirty entries of such a map take at the most.
pub(crate) fn words(
    options: &CachedOptions,
    geometry: &Geometry,
    logical_pages: u32,
    entries_per_page: u32,
) -> u64 {
    let dirty = options.dirty_entries.unwrap_or(u32::MAX).min(options.entries).max(1);
    (u64::from(dirty) + words_for_moves(geometry, entries_per_page)).min(logical_pages.into())
}

/// Words by the slot of their entry. See the module's head.
#[derive(Clone, Debug)]
pub(super) struct NvramEntries {
    first_word: usize,
    words: u32,
    /// The word of the entry in each slot of the cache.
    word_of: Vec<u32>,
    vacant: Vec<u32>,
    /// With fewer vacant words than this, translation pages have to be written.
    least_vacant: u32,
    /// Logical pages that moved since their words were stored.
    pub(super) moved: Vec<Lpn>,
}

impl NvramEntries {
    /// Vacant words from `first_word` on.
    ///
    /// # Errors
    /// [`Error::Options`] if the medium has too little NVRAM.
    pub(super) fn new<N: Nand>(
        io: &Store<N>,
        first_word: usize,
        words: u64,
        logical_pages: u32,
        entries_per_page: u32,
    ) -> Result<Self> {
        let (needed, present) = (first_word as u64 + words, io.nvram().len() as u64);
        if present < needed {
            return Err(Error::Options(format!(
                "the dirty entries of the map need {needed} words of NVRAM of 8 bytes, the medium has {present}"
            )));
        }
        // With a word for every logical page they never run short.
        let is_whole = words == u64::from(logical_pages);
        let half_of_moves = words_for_moves(io.geometry(), entries_per_page) / 2;
        let words = words as u32;
        Ok(Self {
            first_word,
            words,
            word_of: Vec::new(),
            vacant: (0..words).rev().collect(),
            least_vacant: if is_whole { 0 } else { half_of_moves as u32 },
            moved: Vec::new(),
        })
    }

    /// RAM is lost: nothing is known of any word.
    pub(super) fn forget(&mut self) {
        self.word_of.clear();
        self.vacant = (0..self.words).rev().collect();
        self.moved.clear();
    }

    /// What the words say, with their numbers; `None` for those that are vacant.
    pub(super) fn stored<'a, N: Nand>(
        &self,
        io: &'a Store<N>,
    ) -> impl Iterator<Item = (u32, Option<(Lpn, Unit)>)> + use<'a, N> {
        let words = &io.nvram()[self.first_word..self.first_word + self.words as usize];
        (0..).zip(words.iter().map(|&word| entry_of(word)))
    }

    /// Whether translation pages have to be written before anything else becomes dirty.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        (self.vacant.len() as u32) < self.least_vacant
    }

    /// Stores the place of `lpn`, whose entry is in `slot`.
    ///
    /// # Errors
    /// Power loss; [`Error::Full`] without a vacant word.
    pub(super) fn store<N: Nand>(
        &mut self,
        io: &mut Store<N>,
        slot: u32,
        lpn: Lpn,
        unit: Unit,
    ) -> Result<()> {
        let word = match self.word(slot) {
            NONE => *self.vacant.last().ok_or_else(|| io.full())?,
            word => word,
        };
        io.store_word(self.first_word + word as usize, word_of(lpn, unit))?;
        if self.word(slot) == NONE {
            self.vacant.pop();
            self.adopt(slot, word);
        }
        Ok(())
    }

    /// The entry in `slot` is on flash now.
    ///
    /// # Errors
    /// Power loss.
    pub(super) fn clear<N: Nand>(&mut self, io: &mut Store<N>, slot: u32) -> Result<()> {
        let word = self.word(slot);
        if word == NONE {
            return Ok(());
        }
        io.store_word(self.first_word + word as usize, 0)?;
        self.word_of[slot as usize] = NONE;
        self.vacant.push(word);
        Ok(())
    }

    /// `word` belongs to the entry in `slot`. After a recovery [`NvramEntries::adopted`] finds the vacant ones.
    pub(super) fn adopt(&mut self, slot: u32, word: u32) {
        if self.word_of.len() <= slot as usize {
            self.word_of.resize(slot as usize + 1, NONE);
        }
        self.word_of[slot as usize] = word;
    }

    /// All words that say something were adopted.
    pub(super) fn adopted(&mut self) {
        let mut is_taken = vec![false; self.words as usize];
        self.word_of.iter().filter(|&&word| word != NONE).for_each(|&word| is_taken[word as usize] = true);
        self.vacant = (0..self.words).rev().filter(|&word| !is_taken[word as usize]).collect();
    }

    /// What the word of the entry in `slot` says, if it has one.
    pub(super) fn said<N: Nand>(&self, io: &Store<N>, slot: u32) -> Option<(Lpn, Unit)> {
        match self.word(slot) {
            NONE => None,
            word => entry_of(io.nvram()[self.first_word + word as usize]),
        }
    }

    /// Words that say something.
    pub(super) fn taken(&self) -> u32 {
        self.words - self.vacant.len() as u32
    }

    fn word(&self, slot: u32) -> u32 {
        self.word_of.get(slot as usize).copied().unwrap_or(NONE)
    }
}

/// The logical page plus one in the upper half, so that 0 says nothing.
fn word_of(lpn: Lpn, unit: Unit) -> u64 {
    (u64::from(lpn.0) + 1) << 32 | u64::from(unit.0)
}

fn entry_of(word: u64) -> Option<(Lpn, Unit)> {
    let lpn = ((word >> 32) as u32).checked_sub(1)?;
    Some((Lpn(lpn), Unit(word as u32)))
}
