//! The heads of the lists by which the fingerprint store finds contents.
//!
//! Twice as many buckets as entries at least: half of the contents that are not there are known not to be from an empty head,
//! and an entry is mostly the first of its list. Memory: 8 to 16 bytes per entry.

use crate::data::Fingerprint;
use crate::tables::{Table, spread};

/// No entry.
pub(super) const NONE: u32 = u32::MAX;

/// The first entry of each list, by the upper bits of a hash.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    heads: Table<u32>,
    /// The bits of a hash that do not count.
    shift: u32,
}

impl Buckets {
    /// A few empty lists.
    pub(super) fn new() -> Self {
        Self::with_bits(4)
    }

    /// Twice as many lists, all empty.
    pub(super) fn doubled(&self) -> Self {
        Self::with_bits(u64::BITS - self.shift + 1)
    }

    fn with_bits(bits: u32) -> Self {
        Self { heads: Table::filled(1 << bits, NONE), shift: u64::BITS - bits }
    }

    /// Whether lists of so many entries would grow long.
    #[inline]
    pub(super) fn are_few_for(&self, entries: u32) -> bool {
        entries as usize > self.heads.len() / 2
    }

    #[inline]
    fn of(&self, fingerprint: Fingerprint) -> usize {
        spread(fingerprint.0, self.shift)
    }

    /// The first entry of the list that this content belongs to.
    #[inline]
    pub(super) fn head(&self, fingerprint: Fingerprint) -> u32 {
        self.heads.get(self.of(fingerprint))
    }

    /// `head` leads the list that this content belongs to; returns what did before.
    #[inline]
    pub(super) fn replace_head(&mut self, fingerprint: Fingerprint, head: u32) -> u32 {
        self.heads.replace(self.of(fingerprint), head)
    }
}
