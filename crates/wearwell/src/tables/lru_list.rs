//! Lists of numbered slots in order of use, linked by index: O(1) to move a slot, no allocation once grown.
//!
//! The container of the slots stores the links ([`LinkedSlots`]). There are two kinds of containers: the table of the
//! entries itself, if a caller that moves a slot uses the entry anyway and the slot is on one of several lists;
//! otherwise a separate table of links ([`LruList`]).

/// Number that means "no slot" on an LRU list.
const NO_SLOT: u32 = u32::MAX;

/// Neighbours of a cache slot on a doubly linked LRU list; [`NO_SLOT`] at an end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListLinks {
    /// Next more recently used slot on the list; [`NO_SLOT`] for the newest.
    newer_slot: u32,
    /// Next less recently used slot on the list; [`NO_SLOT`] for the oldest.
    older_slot: u32,
}

impl ListLinks {
    /// Links of a slot without neighbours.
    pub(crate) const NONE: Self = Self { newer_slot: NO_SLOT, older_slot: NO_SLOT };
}

/// Container of the slots (numbered table entries) of LRU lists; stores the links of each slot.
pub(crate) trait LinkedSlots {
    /// Returns the neighbours of a slot on its LRU list.
    fn links(&self, slot: u32) -> ListLinks;
    /// Returns the neighbours of a slot on its LRU list, to be changed.
    fn links_mut(&mut self, slot: u32) -> &mut ListLinks;
}

impl LinkedSlots for Vec<ListLinks> {
    #[inline]
    fn links(&self, slot: u32) -> ListLinks {
        self[slot as usize]
    }
    #[inline]
    fn links_mut(&mut self, slot: u32) -> &mut ListLinks {
        &mut self[slot as usize]
    }
}

/// LRU list of slots (numbered table entries) whose links a [`LinkedSlots`] container stores. A slot is on one list of
/// a container at most, and once.
#[derive(Clone, Debug)]
pub(crate) struct LruEnds {
    /// Most recently used slot; [`NO_SLOT`] if the list is empty.
    newest_slot: u32,
    /// Least recently used slot; [`NO_SLOT`] if the list is empty.
    oldest_slot: u32,
    /// Number of slots on the list.
    len: u32,
}

impl Default for LruEnds {
    fn default() -> Self {
        Self { newest_slot: NO_SLOT, oldest_slot: NO_SLOT, len: 0 }
    }
}

impl LruEnds {
    /// Returns the number of slots on the LRU list.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Returns the least recently used slot of the LRU list: the one that was pushed or touched longest ago; `None` if
    /// the list is empty.
    #[inline]
    pub(crate) fn oldest_slot(&self) -> Option<u32> {
        slot_option(self.oldest_slot)
    }

    /// Returns all slots on the LRU list, the least recently used first.
    pub(crate) fn slots_oldest_first(&self, slots: &impl LinkedSlots) -> impl Iterator<Item = u32> {
        std::iter::successors(self.oldest_slot(), |&slot| slot_option(slots.links(slot).newer_slot))
    }

    /// Adds a slot that is on no LRU list, as the most recently used.
    pub(crate) fn push_newest(&mut self, slots: &mut impl LinkedSlots, slot: u32) {
        let older = std::mem::replace(&mut self.newest_slot, slot);
        *slots.links_mut(slot) = ListLinks { newer_slot: NO_SLOT, older_slot: older };
        match older {
            NO_SLOT => self.oldest_slot = slot,
            older => slots.links_mut(older).newer_slot = slot,
        }
        self.len += 1;
    }

    /// Adds a slot that is on no LRU list, as the least recently used.
    pub(crate) fn push_oldest(&mut self, slots: &mut impl LinkedSlots, slot: u32) {
        let newer = std::mem::replace(&mut self.oldest_slot, slot);
        *slots.links_mut(slot) = ListLinks { newer_slot: newer, older_slot: NO_SLOT };
        match newer {
            NO_SLOT => self.newest_slot = slot,
            newer => slots.links_mut(newer).older_slot = slot,
        }
        self.len += 1;
    }

    /// Removes a slot from the LRU list.
    pub(crate) fn remove(&mut self, slots: &mut impl LinkedSlots, slot: u32) {
        let ListLinks { newer_slot: newer, older_slot: older } = slots.links(slot);
        match newer {
            NO_SLOT => self.newest_slot = older,
            newer => slots.links_mut(newer).older_slot = older,
        }
        match older {
            NO_SLOT => self.oldest_slot = newer,
            older => slots.links_mut(older).newer_slot = newer,
        }
        self.len -= 1;
    }

    /// Makes a slot that is on the LRU list the most recently used.
    #[inline]
    pub(crate) fn touch(&mut self, slots: &mut impl LinkedSlots, slot: u32) {
        if self.newest_slot != slot {
            self.remove(slots, slot);
            self.push_newest(slots, slot);
        }
    }
}

/// LRU list of slots (cache entries numbered from 0), which stores the links itself. A slot is on the list at most
/// once.
#[derive(Clone, Debug, Default)]
pub(crate) struct LruList {
    /// Neighbours of each slot on the list, by slot number.
    links: Vec<ListLinks>,
    /// Most and least recently used slot of the list, and the number of slots.
    ends: LruEnds,
}

impl LruList {
    /// Returns the number of slots on the list.
    pub(crate) fn len(&self) -> u32 {
        self.ends.len()
    }

    /// Returns the least recently used slot of the LRU list: the one that was pushed or touched longest ago; `None` if
    /// the list is empty.
    #[inline]
    pub(crate) fn oldest_slot(&self) -> Option<u32> {
        self.ends.oldest_slot()
    }

    /// Grows the table of links so that it has an element for `slot`.
    fn grow_to(&mut self, slot: u32) {
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, ListLinks::NONE);
        }
    }

    /// Adds a cache slot that is not on the LRU list, as the most recently used.
    pub(crate) fn push_newest(&mut self, slot: u32) {
        self.grow_to(slot);
        self.ends.push_newest(&mut self.links, slot);
    }

    /// Adds a cache slot that is not on the LRU list, as the least recently used.
    pub(crate) fn push_oldest(&mut self, slot: u32) {
        self.grow_to(slot);
        self.ends.push_oldest(&mut self.links, slot);
    }

    /// Removes a cache slot from the LRU list.
    pub(crate) fn remove(&mut self, slot: u32) {
        self.ends.remove(&mut self.links, slot);
    }

    /// Makes a cache slot that is on the LRU list the most recently used.
    #[inline]
    pub(crate) fn touch(&mut self, slot: u32) {
        self.ends.touch(&mut self.links, slot);
    }
}

/// Returns the slot; `None` for [`NO_SLOT`].
fn slot_option(slot: u32) -> Option<u32> {
    (slot != NO_SLOT).then_some(slot)
}
