//! Lists of slots in order of use, linked by index: O(1) to move a slot, no allocation once grown.
//!
//! The links of a slot stand in a table of their own ([`Recency`]), or in the entry that the slot numbers ([`Order`] over
//! what is [`Linked`]): an entry and its places in several orders are then one cache line instead of one each.

const NIL: u32 = u32::MAX;

/// Neighbours of a slot on a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    newer: u32,
    older: u32,
}

impl Links {
    pub(crate) const NONE: Self = Self { newer: NIL, older: NIL };

    /// The slot that was pushed or touched next.
    pub(crate) fn newer(self) -> Option<u32> {
        (self.newer != NIL).then_some(self.newer)
    }
}

/// What holds the links of the slots of one list.
pub(crate) trait Linked {
    fn links(&self, slot: u32) -> &Links;
    fn links_mut(&mut self, slot: u32) -> &mut Links;
}

impl Linked for [Links] {
    #[inline]
    fn links(&self, slot: u32) -> &Links {
        &self[slot as usize]
    }
    #[inline]
    fn links_mut(&mut self, slot: u32) -> &mut Links {
        &mut self[slot as usize]
    }
}

/// The ends of a list. A slot is on it at most once.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    newest: u32,
    oldest: u32,
    len: u32,
}

impl Default for Order {
    fn default() -> Self {
        Self { newest: NIL, oldest: NIL, len: 0 }
    }
}

impl Order {
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The slot that was pushed or touched longest ago.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.oldest != NIL).then_some(self.oldest)
    }

    /// Puts a slot that is not on the list at its newest end.
    #[inline]
    pub(crate) fn push(&mut self, slots: &mut (impl Linked + ?Sized), slot: u32) {
        let older = std::mem::replace(&mut self.newest, slot);
        *slots.links_mut(slot) = Links { newer: NIL, older };
        match older {
            NIL => self.oldest = slot,
            older => slots.links_mut(older).newer = slot,
        }
        self.len += 1;
    }

    /// Puts a slot that is not on the list at its oldest end.
    pub(crate) fn push_oldest(&mut self, slots: &mut (impl Linked + ?Sized), slot: u32) {
        let newer = std::mem::replace(&mut self.oldest, slot);
        *slots.links_mut(slot) = Links { newer, older: NIL };
        match newer {
            NIL => self.newest = slot,
            newer => slots.links_mut(newer).older = slot,
        }
        self.len += 1;
    }

    /// Takes a slot off the list.
    #[inline]
    pub(crate) fn remove(&mut self, slots: &mut (impl Linked + ?Sized), slot: u32) {
        let Links { newer, older } = *slots.links(slot);
        match newer {
            NIL => self.newest = older,
            newer => slots.links_mut(newer).older = older,
        }
        match older {
            NIL => self.oldest = newer,
            older => slots.links_mut(older).newer = newer,
        }
        self.len -= 1;
    }

    /// Moves a slot on the list to its newest end.
    #[inline]
    pub(crate) fn touch(&mut self, slots: &mut (impl Linked + ?Sized), slot: u32) {
        if self.newest != slot {
            self.remove(slots, slot);
            self.push(slots, slot);
        }
    }
}

/// Order of recency over slots `0..`, with links of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recency {
    links: Vec<Links>,
    order: Order,
}

impl Recency {
    pub(crate) fn len(&self) -> u32 {
        self.order.len()
    }

    /// The slot that was pushed or touched longest ago.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<u32> {
        self.order.oldest()
    }

    fn grow_to(&mut self, slot: u32) {
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, Links::NONE);
        }
    }

    /// All slots, the one that was pushed or touched longest ago first.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.oldest(), |&slot| self.links[slot as usize].newer())
    }

    /// Puts a slot that is not on the list at its newest end.
    pub(crate) fn push(&mut self, slot: u32) {
        self.grow_to(slot);
        self.order.push(self.links.as_mut_slice(), slot);
    }

    /// Puts a slot that is not on the list at its oldest end.
    pub(crate) fn push_oldest(&mut self, slot: u32) {
        self.grow_to(slot);
        self.order.push_oldest(self.links.as_mut_slice(), slot);
    }

    /// Takes a slot off the list.
    pub(crate) fn remove(&mut self, slot: u32) {
        self.order.remove(self.links.as_mut_slice(), slot);
    }

    /// Moves a slot on the list to its newest end.
    #[inline]
    pub(crate) fn touch(&mut self, slot: u32) {
        self.order.touch(self.links.as_mut_slice(), slot);
    }
}
