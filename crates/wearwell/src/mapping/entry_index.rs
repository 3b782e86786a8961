//! Which slot holds the entry of a page: a hash index whose chains run through the entries themselves.
//!
//! A look-up that finds its entry has read nothing but the head of a chain and what the caller is about to use; beside a
//! table of keys it would read one line more. Nothing ever moves.

use super::entry_cache::{Entry, NIL, Slot};
use crate::address::Lpn;
use crate::slot_index::spread;
use crate::warm::read_all;

/// Fewest chains.
const SMALLEST: usize = 8;

/// Slots by logical page. See the module's head.
#[derive(Clone, Debug)]
pub(super) struct EntryIndex {
    /// First slot of each chain.
    heads: Vec<Slot>,
    len: usize,
    /// Bits of a hash that are not used.
    shift: u32,
}

impl EntryIndex {
    /// No entry; two chains for each of `capacity`.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        let chains = (2 * capacity).next_power_of_two().max(SMALLEST);
        Self { heads: vec![NIL; chains], len: 0, shift: u64::BITS - chains.ilog2() }
    }

    /// Entries held.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The chain of a page.
    #[inline]
    fn chain(&self, lpn: Lpn) -> usize {
        spread(u64::from(lpn.0), self.shift)
    }

    /// The slot of a page's entry.
    #[inline]
    pub(super) fn find(&self, slots: &[Entry], lpn: Lpn) -> Option<Slot> {
        let mut slot = self.heads[self.chain(lpn)];
        while slot != NIL {
            let entry = &slots[slot as usize];
            if entry.lpn == lpn {
                return Some(slot);
            }
            slot = entry.next_in_chain;
        }
        None
    }

    /// Reads what looking for these pages will need; see [`crate::warm`].
    #[inline]
    pub(super) fn warm(&self, slots: &[Entry], lpns: impl Iterator<Item = Lpn> + Clone) {
        let Some(last) = slots.len().checked_sub(1) else { return };
        let heads = lpns.map(|lpn| self.heads[self.chain(lpn)]);
        read_all(heads.clone().map(u64::from));
        // An empty chain has an entry read for it, too: what is read for nothing costs less than to ask.
        read_all(heads.map(|head| slots[(head as usize).min(last)].next_in_chain.into()));
    }

    /// Puts an entry, whose page has no other, at the head of its chain.
    #[inline]
    pub(super) fn insert(&mut self, slots: &mut [Entry], slot: Slot) {
        self.link(slots, slot);
        self.len += 1;
        if self.len > self.heads.len() {
            self.grow(slots);
        }
    }

    #[inline]
    fn link(&mut self, slots: &mut [Entry], slot: Slot) {
        let entry = &mut slots[slot as usize];
        let chain = self.chain(entry.lpn);
        entry.next_in_chain = std::mem::replace(&mut self.heads[chain], slot);
    }

    #[cold]
    fn grow(&mut self, slots: &mut [Entry]) {
        let chains = 2 * self.heads.len();
        self.shift -= 1;
        for mut slot in std::mem::replace(&mut self.heads, vec![NIL; chains]) {
            while slot != NIL {
                let next = slots[slot as usize].next_in_chain;
                self.link(slots, slot);
                slot = next;
            }
        }
    }

    /// Takes an entry out of its chain.
    #[inline]
    pub(super) fn remove(&mut self, slots: &mut [Entry], slot: Slot) {
        let Entry { lpn, next_in_chain, .. } = slots[slot as usize];
        let chain = self.chain(lpn);
        let mut link = &mut self.heads[chain];
        while *link != slot {
            link = &mut slots[*link as usize].next_in_chain;
        }
        *link = next_in_chain;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::collections::hash_map::Entry as Place;

    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::{Entry, EntryIndex};
    use crate::address::{Address, Lpn, Unit};

    #[test]
    fn an_index_is_a_map() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        for range in [6, 100, 5000] {
            let (mut index, mut model) = (EntryIndex::with_capacity(0), HashMap::new());
            let mut slots: Vec<Entry> = (0..range).map(|_| Entry::clean(Lpn(0), Unit::NONE)).collect();
            let mut free: Vec<u32> = (0..range).collect();
            for _ in 0..40_000 {
                let lpn = Lpn(rng.random_range(0..range));
                match model.entry(lpn) {
                    Place::Occupied(held) if rng.random_bool(0.5) => {
                        let slot = held.remove();
                        index.remove(&mut slots, slot);
                        free.push(slot);
                    }
                    Place::Vacant(vacant) if rng.random_bool(0.5) => {
                        let slot = free.pop().expect("as many slots as pages");
                        slots[slot as usize].lpn = lpn;
                        index.insert(&mut slots, slot);
                        vacant.insert(slot);
                    }
                    _ => {}
                }
                assert_eq!(index.len(), model.len());
                let asked = Lpn(rng.random_range(0..range));
                assert_eq!(index.find(&slots, asked), model.get(&asked).copied());
            }
        }
    }
}
