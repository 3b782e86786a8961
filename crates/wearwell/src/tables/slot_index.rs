//! Which slot holds a key: a hash index for tables of numbered slots that a host write asks several times.
//!
//! Slots with the same hash are chained ([`Chains`]), so that keys come and go with two or three accesses and nothing ever
//! moves. The chains run through whatever holds the slots ([`Chained`]): through the entries themselves where a look-up is
//! about to use the entry anyway, or through a table of their numbers with the keys beside ([`SlotIndex`]), where the entries
//! are not to be asked for their keys.

use crate::tables::prefetch::touch_all;

/// No slot.
const NIL: u32 = u32::MAX;
/// Fewest chains.
const SMALLEST: usize = 8;

/// Fibonacci hashing: the upper bits of a product with an odd number without a pattern, which depend on all bits of the key
/// and spread consecutive keys evenly. `shift` bits of the hash are not used.
#[inline]
pub(crate) fn spread(key: u64, shift: u32) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize
}

/// What holds the slots that are chained.
pub(crate) trait Chained {
    fn key(&self, slot: u32) -> u32;
    /// The slot behind this one in its chain.
    fn next(&self, slot: u32) -> u32;
    fn set_next(&mut self, slot: u32, next: u32);
}

/// Slots by key. Nobody else changes a slot's key while it is in a chain.
#[derive(Clone, Debug)]
pub(crate) struct Chains {
    /// First slot of each chain.
    heads: Vec<u32>,
    len: usize,
    /// Bits of a hash that are not used.
    shift: u32,
}

impl Chains {
    /// No slot; two chains for each of `capacity`.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let chains = (2 * capacity).next_power_of_two().max(SMALLEST);
        Self { heads: vec![NIL; chains], len: 0, shift: u64::BITS - chains.ilog2() }
    }

    /// Slots held.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The chain of a key.
    #[inline]
    fn chain(&self, key: u32) -> usize {
        spread(u64::from(key), self.shift)
    }

    /// The slot of a key.
    #[inline]
    pub(crate) fn find(&self, slots: &impl Chained, key: u32) -> Option<u32> {
        let mut slot = self.heads[self.chain(key)];
        while slot != NIL {
            if slots.key(slot) == key {
                return Some(slot);
            }
            slot = slots.next(slot);
        }
        None
    }

    /// Reads what looking for these keys will need, of `count` slots; see [`crate::tables::prefetch`].
    #[inline]
    pub(crate) fn prefetch(
        &self,
        slots: &impl Chained,
        count: usize,
        keys: impl Iterator<Item = u32> + Clone,
    ) {
        let Some(last) = count.checked_sub(1) else { return };
        let heads = keys.map(|key| self.heads[self.chain(key)]);
        touch_all(heads.clone().map(u64::from));
        // An empty chain has a slot read for it, too: what is read for nothing costs less than to ask.
        touch_all(heads.map(|head| slots.next(head.min(last as u32)).into()));
    }

    /// Puts a slot, whose key no other has, at the head of its chain.
    #[inline]
    pub(crate) fn insert(&mut self, slots: &mut impl Chained, slot: u32) {
        self.link(slots, slot);
        self.len += 1;
        if self.len > self.heads.len() {
            self.grow(slots);
        }
    }

    #[inline]
    fn link(&mut self, slots: &mut impl Chained, slot: u32) {
        let chain = self.chain(slots.key(slot));
        slots.set_next(slot, std::mem::replace(&mut self.heads[chain], slot));
    }

    #[cold]
    fn grow(&mut self, slots: &mut impl Chained) {
        let chains = 2 * self.heads.len();
        self.shift -= 1;
        for mut slot in std::mem::replace(&mut self.heads, vec![NIL; chains]) {
            while slot != NIL {
                let next = slots.next(slot);
                self.link(slots, slot);
                slot = next;
            }
        }
    }

    /// Takes a slot out of its chain.
    #[inline]
    pub(crate) fn remove(&mut self, slots: &mut impl Chained, slot: u32) {
        let (chain, next) = (self.chain(slots.key(slot)), slots.next(slot));
        let (mut before, mut at) = (NIL, self.heads[chain]);
        while at != slot {
            (before, at) = (at, slots.next(at));
        }
        if before == NIL {
            self.heads[chain] = next;
        } else {
            slots.set_next(before, next);
        }
        self.len -= 1;
    }

    /// Forgets all slots.
    fn clear(&mut self) {
        self.heads.fill(NIL);
        self.len = 0;
    }
}

/// A slot in its chain.
#[derive(Clone, Copy, Debug)]
struct Node {
    key: u32,
    next: u32,
}

impl Chained for Vec<Node> {
    #[inline]
    fn key(&self, slot: u32) -> u32 {
        self[slot as usize].key
    }
    #[inline]
    fn next(&self, slot: u32) -> u32 {
        self[slot as usize].next
    }
    #[inline]
    fn set_next(&mut self, slot: u32, next: u32) {
        self[slot as usize].next = next;
    }
}

/// Slots by key, with a table of the keys.
#[derive(Clone, Debug)]
pub(crate) struct SlotIndex {
    chains: Chains,
    nodes: Vec<Node>,
}

impl SlotIndex {
    /// No key; two chains for each of `capacity`.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { chains: Chains::with_capacity(capacity), nodes: Vec::with_capacity(capacity) }
    }

    /// The slot of a key.
    #[inline]
    pub(crate) fn find(&self, key: u32) -> Option<u32> {
        self.chains.find(&self.nodes, key)
    }

    /// Gives a slot, which has none, a key that no other has.
    #[inline]
    pub(crate) fn insert(&mut self, key: u32, slot: u32) {
        if self.nodes.len() <= slot as usize {
            self.nodes.resize(slot as usize + 1, Node { key: 0, next: NIL });
        }
        self.nodes[slot as usize].key = key;
        self.chains.insert(&mut self.nodes, slot);
    }

    /// Takes a key from its slot, if it has one; returns the slot.
    #[inline]
    pub(crate) fn remove(&mut self, key: u32) -> Option<u32> {
        let slot = self.find(key)?;
        self.chains.remove(&mut self.nodes, slot);
        Some(slot)
    }

    /// Forgets all keys.
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

    use super::SlotIndex;

    #[test]
    fn an_index_is_a_map() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        for range in [6, 100, 5000] {
            let (mut index, mut model) = (SlotIndex::with_capacity(0), HashMap::new());
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
