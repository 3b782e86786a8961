//! Hash buckets of the fingerprint store: the head of each bucket's list of entries.
//!
//! There are at least twice as many buckets as entries. So half of the look-ups for a missing content end at an empty
//! head, and an entry is mostly the first of its list. Memory: 8 to 16 bytes per entry.

use crate::data::Fingerprint;
use crate::tables::{DenseTable, hash_key};

/// Slot number that means "no entry" in the hash buckets of the fingerprint store (index of dead pages).
pub(super) const NO_FINGERPRINT_STORE_SLOT: u32 = u32::MAX;

/// Heads of the hash buckets of the fingerprint store (index of dead pages): the store slot of the first entry of each
/// bucket, indexed by the upper bits of a content hash.
#[derive(Clone, Debug)]
pub(super) struct HashBuckets {
    /// Slot of the first fingerprint-store entry of each hash bucket; [`NO_FINGERPRINT_STORE_SLOT`] if the bucket is
    /// empty.
    bucket_heads: DenseTable<u32>,
    /// Number of low-order bits of the content hash that are not used for the bucket index.
    unused_hash_bits: u32,
}

impl HashBuckets {
    /// Creates sixteen empty hash buckets for the fingerprint store (index of dead pages).
    pub(super) fn new() -> Self {
        Self::with_index_bits(4)
    }

    /// Returns a new table with twice as many hash buckets as this one, all empty.
    pub(super) fn with_twice_the_buckets(&self) -> Self {
        Self::with_index_bits(u64::BITS - self.unused_hash_bits + 1)
    }

    /// Creates a table of empty hash buckets whose indices have `bits` bits.
    fn with_index_bits(bits: u32) -> Self {
        Self {
            bucket_heads: DenseTable::filled(1 << bits, NO_FINGERPRINT_STORE_SLOT),
            unused_hash_bits: u64::BITS - bits,
        }
    }

    /// Returns whether there are too few hash buckets for `entries` entries of the fingerprint store (fewer than two
    /// buckets per entry).
    #[inline]
    pub(super) fn must_grow_for(&self, entries: u32) -> bool {
        entries as usize > self.bucket_heads.len() / 2
    }

    /// Returns the index of the hash bucket of this content.
    #[inline]
    fn bucket_of(&self, fingerprint: Fingerprint) -> usize {
        hash_key(fingerprint.0, self.unused_hash_bits)
    }

    /// Returns the slot, in the fingerprint store (index of dead pages), of the first entry in the hash bucket of this
    /// content; [`NO_FINGERPRINT_STORE_SLOT`] if the bucket is empty.
    #[inline]
    pub(super) fn first_slot(&self, fingerprint: Fingerprint) -> u32 {
        self.bucket_heads.get(self.bucket_of(fingerprint))
    }

    /// Makes the entry in slot `head` of the fingerprint store (index of dead pages) the first one in the hash bucket
    /// of this content. Returns the slot of the former first one ([`NO_FINGERPRINT_STORE_SLOT`] if there was none).
    #[inline]
    pub(super) fn replace_first_slot(&mut self, fingerprint: Fingerprint, head: u32) -> u32 {
        self.bucket_heads.replace(self.bucket_of(fingerprint), head)
    }
}
