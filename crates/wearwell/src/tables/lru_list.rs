//! Lists of numbered slots in order of use, linked by index: O(1) to move a slot, no allocation once grown.

/// Number that means "no slot" on an LRU list.
const NO_SLOT: u32 = u32::MAX;

/// Neighbours of a cache slot on a doubly linked LRU list; [`NO_SLOT`] at an end.
#[derive(Clone, Copy, Debug)]
struct ListLinks {
    newer_slot: u32,
    older_slot: u32,
}

impl ListLinks {
    const NONE: Self = Self { newer_slot: NO_SLOT, older_slot: NO_SLOT };
}

/// LRU list of slots (cache entries numbered from 0), doubly linked. A slot is on the list at most once.
#[derive(Clone, Debug)]
pub(crate) struct LruList {
    links: Vec<ListLinks>,
    newest_slot: u32,
    oldest_slot: u32,
    len: u32,
}

impl Default for LruList {
    fn default() -> Self {
        Self { links: Vec::new(), newest_slot: NO_SLOT, oldest_slot: NO_SLOT, len: 0 }
    }
}

impl LruList {
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Returns the least recently used slot of the LRU list: the one that was pushed or touched longest ago; `None` if
    /// the list is empty.
    #[inline]
    pub(crate) fn oldest_slot(&self) -> Option<u32> {
        slot_option(self.oldest_slot)
    }

    /// Returns all cache slots on the LRU list, the least recently used first.
    pub(crate) fn slots_oldest_first(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.oldest_slot(), |&slot| slot_option(self.links[slot as usize].newer_slot))
    }

    fn grow_to(&mut self, slot: u32) {
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, ListLinks::NONE);
        }
    }

    /// Adds a cache slot that is not on the LRU list, as the most recently used.
    pub(crate) fn push_newest(&mut self, slot: u32) {
        self.grow_to(slot);
        let older = std::mem::replace(&mut self.newest_slot, slot);
        self.links[slot as usize] = ListLinks { newer_slot: NO_SLOT, older_slot: older };
        match older {
            NO_SLOT => self.oldest_slot = slot,
            older => self.links[older as usize].newer_slot = slot,
        }
        self.len += 1;
    }

    /// Adds a cache slot that is not on the LRU list, as the least recently used.
    pub(crate) fn push_oldest(&mut self, slot: u32) {
        self.grow_to(slot);
        let newer = std::mem::replace(&mut self.oldest_slot, slot);
        self.links[slot as usize] = ListLinks { newer_slot: newer, older_slot: NO_SLOT };
        match newer {
            NO_SLOT => self.newest_slot = slot,
            newer => self.links[newer as usize].older_slot = slot,
        }
        self.len += 1;
    }

    /// Removes a cache slot from the LRU list.
    pub(crate) fn remove(&mut self, slot: u32) {
        let ListLinks { newer_slot: newer, older_slot: older } = self.links[slot as usize];
        match newer {
            NO_SLOT => self.newest_slot = older,
            newer => self.links[newer as usize].older_slot = older,
        }
        match older {
            NO_SLOT => self.oldest_slot = newer,
            older => self.links[older as usize].newer_slot = newer,
        }
        self.len -= 1;
    }

    /// Makes a cache slot that is on the LRU list the most recently used.
    #[inline]
    pub(crate) fn touch(&mut self, slot: u32) {
        if self.newest_slot != slot {
            self.remove(slot);
            self.push_newest(slot);
        }
    }
}

/// Returns the slot; `None` for [`NO_SLOT`].
fn slot_option(slot: u32) -> Option<u32> {
    (slot != NO_SLOT).then_some(slot)
}
