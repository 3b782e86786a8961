//! Hash index from keys to slot numbers (indices of table entries), for tables that a host write accesses several
//! times.
//!
//! Slots with the same hash are chained ([`ChainedIndex`]), so that inserting or removing a key takes two or three
//! accesses and no entry is ever moved. The container of the slots stores the links ([`ChainedSlots`]). There are two
//! kinds of containers: the table of the entries itself, if a look-up is about to use the entry anyway; otherwise a
//! separate table of keys and links ([`KeyToSlotIndex`]), so that a look-up does not touch the entries.

use crate::tables::prefetch::load_into_cpu_cache;

/// Number that means "no slot" (table entry) in a hash index.
const NO_SLOT: u32 = u32::MAX;
/// Minimum number of hash chains of an index.
const MIN_CHAINS: usize = 8;

/// Hashes a key by Fibonacci hashing and drops the lower `shift` bits of the 64-bit product with a large odd number.
/// The upper bits that remain depend on all bits of the key and spread consecutive keys evenly.
#[inline]
pub(crate) fn hash_key(key: u64, shift: u32) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize
}

/// Container of the slots (numbered table entries) of a hash index ([`ChainedIndex`]); stores the key of each slot and
/// its link to the next slot of the hash chain.
pub(crate) trait ChainedSlots {
    /// Returns the key of a slot (numbered table entry).
    fn key_of(&self, slot: u32) -> u32;
    /// Returns the slot (numbered table entry) that follows `slot` in its hash chain; `u32::MAX` at the end.
    fn next_in_chain(&self, slot: u32) -> u32;
    /// Sets the slot that follows `slot` in its hash chain.
    fn set_next_in_chain(&mut self, slot: u32, next: u32);
}

/// Chained hash index from keys to slots (numbered table entries). A [`ChainedSlots`] container stores the key and the
/// link of each slot. A slot's key must not be changed while the slot is in the index.
#[derive(Clone, Debug)]
pub(crate) struct ChainedIndex {
    /// First slot (numbered table entry) of each hash chain; [`NO_SLOT`] if the chain is empty.
    chain_heads: Vec<u32>,
    /// Number of slots in the hash index.
    len: usize,
    /// Number of lower bits of a 64-bit hash that are dropped to get the number of a hash chain.
    hash_shift: u32,
}

impl ChainedIndex {
    /// Creates an empty hash index with two chains for each of `capacity` slots.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let chains = (2 * capacity).next_power_of_two().max(MIN_CHAINS);
        Self { chain_heads: vec![NO_SLOT; chains], len: 0, hash_shift: u64::BITS - chains.ilog2() }
    }

    /// Returns the number of slots in the hash index.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of the hash chain of a key.
    #[inline]
    fn chain_of_key(&self, key: u32) -> usize {
        hash_key(u64::from(key), self.hash_shift)
    }

    /// Returns the slot that holds a key, if the hash index has one.
    #[inline]
    pub(crate) fn find(&self, slots: &impl ChainedSlots, key: u32) -> Option<u32> {
        let mut slot = self.chain_heads[self.chain_of_key(key)];
        while slot != NO_SLOT {
            if slots.key_of(slot) == key {
                return Some(slot);
            }
            slot = slots.next_in_chain(slot);
        }
        None
    }

    /// Prefetches what looking up `keys` in the hash index will access (see [`crate::tables::prefetch`]). `count` is
    /// the number of slots in the container.
    #[inline]
    pub(crate) fn prefetch(
        &self,
        slots: &impl ChainedSlots,
        count: usize,
        keys: impl Iterator<Item = u32> + Clone,
    ) {
        let Some(last) = count.checked_sub(1) else { return };
        let heads = keys.map(|key| self.chain_heads[self.chain_of_key(key)]);
        load_into_cpu_cache(heads.clone().map(u64::from));
        // For an empty chain the last slot is read in vain: cheaper than a branch.
        load_into_cpu_cache(heads.map(|head| slots.next_in_chain(head.min(last as u32)).into()));
    }

    /// Inserts a slot into the hash index, at the head of the chain of its key. No other slot in the index may have
    /// this key.
    #[inline]
    pub(crate) fn insert(&mut self, slots: &mut impl ChainedSlots, slot: u32) {
        self.link_into_chain(slots, slot);
        self.len += 1;
        if self.len > self.chain_heads.len() {
            self.double_chain_count(slots);
        }
    }

    /// Links a slot into the hash chain of its key, as the first slot of the chain.
    #[inline]
    fn link_into_chain(&mut self, slots: &mut impl ChainedSlots, slot: u32) {
        let chain = self.chain_of_key(slots.key_of(slot));
        slots.set_next_in_chain(slot, std::mem::replace(&mut self.chain_heads[chain], slot));
    }

    /// Doubles the number of hash chains, and links all slots into the new chains.
    #[cold]
    fn double_chain_count(&mut self, slots: &mut impl ChainedSlots) {
        let chains = 2 * self.chain_heads.len();
        self.hash_shift -= 1;
        for mut slot in std::mem::replace(&mut self.chain_heads, vec![NO_SLOT; chains]) {
            while slot != NO_SLOT {
                let next = slots.next_in_chain(slot);
                self.link_into_chain(slots, slot);
                slot = next;
            }
        }
    }

    /// Removes a slot from the hash index.
    #[inline]
    pub(crate) fn remove(&mut self, slots: &mut impl ChainedSlots, slot: u32) {
        let (chain, next) = (self.chain_of_key(slots.key_of(slot)), slots.next_in_chain(slot));
        let (mut before, mut at) = (NO_SLOT, self.chain_heads[chain]);
        while at != slot {
            (before, at) = (at, slots.next_in_chain(at));
        }
        if before == NO_SLOT {
            self.chain_heads[chain] = next;
        } else {
            slots.set_next_in_chain(before, next);
        }
        self.len -= 1;
    }

    /// Removes all slots from the hash index.
    fn clear(&mut self) {
        self.chain_heads.fill(NO_SLOT);
        self.len = 0;
    }
}

/// Key of a slot of a hash index, and the next slot in its chain.
#[derive(Clone, Copy, Debug)]
struct ChainNode {
    /// Key of the slot (numbered table entry).
    key: u32,
    /// Next slot in the hash chain; [`NO_SLOT`] at the end.
    next_slot: u32,
}

impl ChainedSlots for Vec<ChainNode> {
    #[inline]
    fn key_of(&self, slot: u32) -> u32 {
        self[slot as usize].key
    }
    #[inline]
    fn next_in_chain(&self, slot: u32) -> u32 {
        self[slot as usize].next_slot
    }
    #[inline]
    fn set_next_in_chain(&mut self, slot: u32, next: u32) {
        self[slot as usize].next_slot = next;
    }
}

/// Chained hash index from keys to slots (numbered table entries), which stores the keys and links itself.
#[derive(Clone, Debug)]
pub(crate) struct KeyToSlotIndex {
    /// Hash chains of the index.
    chains: ChainedIndex,
    /// Key and link of each slot, by slot number.
    nodes: Vec<ChainNode>,
}

impl KeyToSlotIndex {
    /// Creates an empty hash index with two chains for each of `capacity` slots.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { chains: ChainedIndex::with_capacity(capacity), nodes: Vec::with_capacity(capacity) }
    }

    /// Returns the slot that holds a key, if the hash index has one.
    #[inline]
    pub(crate) fn find(&self, key: u32) -> Option<u32> {
        self.chains.find(&self.nodes, key)
    }

    /// Inserts `key` into the hash index, to be found at `slot`. The slot must have no key, and no other slot this key.
    #[inline]
    pub(crate) fn insert(&mut self, key: u32, slot: u32) {
        if self.nodes.len() <= slot as usize {
            self.nodes.resize(slot as usize + 1, ChainNode { key: 0, next_slot: NO_SLOT });
        }
        self.nodes[slot as usize].key = key;
        self.chains.insert(&mut self.nodes, slot);
    }

    /// Removes a key from the hash index; returns the slot that held the key, `None` if the key is not in the index.
    #[inline]
    pub(crate) fn remove(&mut self, key: u32) -> Option<u32> {
        let slot = self.find(key)?;
        self.chains.remove(&mut self.nodes, slot);
        Some(slot)
    }

    /// Removes all keys from the hash index.
    pub(crate) fn clear(&mut self) {
        self.chains.clear();
        self.nodes.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::collections::hash_map::Entry;

    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::KeyToSlotIndex;

    /// Each operation on a slot index has the result that it has on a hash map from keys to slots.
    #[test]
    fn a_slot_index_behaves_like_a_hash_map() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        for range in [6, 100, 5000] {
            let (mut index, mut model) = (KeyToSlotIndex::with_capacity(0), HashMap::new());
            let mut free: Vec<u32> = (0..range).collect();
            for _ in 0..40_000 {
                let key = rng.random_range(0..range);
                if rng.random_bool(0.5) {
                    let removed = index.remove(key);
                    assert_eq!(removed, model.remove(&key));
                    free.extend(removed);
                } else if let Entry::Vacant(vacant) = model.entry(key) {
                    let slot = free.pop().expect("as many slots as keys");
                    index.insert(key, slot);
                    vacant.insert(slot);
                }
                assert_eq!(index.chains.len(), model.len());
                let asked = rng.random_range(0..range);
                assert_eq!(index.find(asked), model.get(&asked).copied());
            }
            assert!((0..range).all(|key| index.find(key) == model.get(&key).copied()));
            index.clear();
            assert!(index.chains.len() == 0 && (0..range).all(|key| index.find(key).is_none()));
        }
    }
}
