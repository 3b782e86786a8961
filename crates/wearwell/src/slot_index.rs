//! Which slot holds a key: a hash index for tables of numbered slots that a host write asks several times.
//!
//! Slots with the same hash are chained through a table of their numbers, with their keys beside, so that keys come and go
//! with two or three accesses and nothing ever moves; and the entries behind the slots are not asked for their keys.

const NIL: u32 = u32::MAX;
/// Fewest chains.
const SMALLEST: usize = 8;

/// Fibonacci hashing: the upper bits of a product with an odd number without a pattern, which depend on all bits of the key
/// and spread consecutive keys evenly. `shift` bits of the hash are not used.
#[inline]
pub(crate) fn spread(key: u64, shift: u32) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize
}

/// A slot in its chain.
#[derive(Clone, Copy, Debug)]
struct Node {
    key: u32,
    next: u32,
}

/// Slots by key.
#[derive(Clone, Debug)]
pub(crate) struct SlotIndex {
    /// First slot of each chain.
    heads: Vec<u32>,
    nodes: Vec<Node>,
    len: usize,
    /// Bits of a hash that are not used.
    shift: u32,
}

impl SlotIndex {
    /// No key; two chains for each of `capacity`.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let chains = (2 * capacity).next_power_of_two().max(SMALLEST);
        let shift = u64::BITS - chains.ilog2();
        Self { heads: vec![NIL; chains], nodes: Vec::with_capacity(capacity), len: 0, shift }
    }

    /// The chain of a key.
    #[inline]
    fn chain(&self, key: u32) -> usize {
        spread(u64::from(key), self.shift)
    }

    /// The slot of a key.
    #[inline]
    pub(crate) fn find(&self, key: u32) -> Option<u32> {
        let mut slot = self.heads[self.chain(key)];
        while slot != NIL {
            let node = self.nodes[slot as usize];
            if node.key == key {
                return Some(slot);
            }
            slot = node.next;
        }
        None
    }

    /// Gives a slot, which has none, a key that no other has.
    #[inline]
    pub(crate) fn insert(&mut self, key: u32, slot: u32) {
        if self.nodes.len() <= slot as usize {
            self.nodes.resize(slot as usize + 1, Node { key: 0, next: NIL });
        }
        self.link(key, slot);
        self.len += 1;
        if self.len > self.heads.len() {
            self.grow();
        }
    }

    #[inline]
    fn link(&mut self, key: u32, slot: u32) {
        let chain = self.chain(key);
        let next = std::mem::replace(&mut self.heads[chain], slot);
        self.nodes[slot as usize] = Node { key, next };
    }

    #[cold]
    fn grow(&mut self) {
        let chains = 2 * self.heads.len();
        self.shift -= 1;
        for mut slot in std::mem::replace(&mut self.heads, vec![NIL; chains]) {
            while slot != NIL {
                let Node { key, next } = self.nodes[slot as usize];
                self.link(key, slot);
                slot = next;
            }
        }
    }

    /// Takes a key from its slot, if it has one; returns the slot.
    #[inline]
    pub(crate) fn remove(&mut self, key: u32) -> Option<u32> {
        let chain = self.chain(key);
        let (mut before, mut slot) = (NIL, self.heads[chain]);
        while slot != NIL {
            let node = self.nodes[slot as usize];
            if node.key == key {
                let link = if before == NIL {
                    &mut self.heads[chain]
                } else {
                    &mut self.nodes[before as usize].next
                };
                *link = node.next;
                self.len -= 1;
                return Some(slot);
            }
            (before, slot) = (slot, node.next);
        }
        None
    }

    /// Forgets all keys.
    pub(crate) fn clear(&mut self) {
        self.heads.fill(NIL);
        self.nodes.clear();
        self.len = 0;
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
                assert_eq!(index.len, model.len());
                let asked = rng.random_range(0..range);
                assert_eq!(index.find(asked), model.get(&asked).copied());
            }
            assert!((0..range).all(|key| index.find(key) == model.get(&key).copied()));
            index.clear();
            assert!(index.len == 0 && (0..range).all(|key| index.find(key).is_none()));
        }
    }
}
