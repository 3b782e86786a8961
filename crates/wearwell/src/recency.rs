//! A list of slots in order of use, linked by index: O(1) to move a slot, no allocation once grown.

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Links {
    newer: u32,
    older: u32,
}

/// Order of recency over slots `0..`. A slot is on the list at most once.
#[derive(Clone, Debug)]
pub(crate) struct Recency {
    links: Vec<Links>,
    newest: u32,
    oldest: u32,
    len: u32,
}

impl Default for Recency {
    fn default() -> Self {
        Self { links: Vec::new(), newest: NIL, oldest: NIL, len: 0 }
    }
}

impl Recency {
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The slot that was pushed or touched longest ago.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.oldest != NIL).then_some(self.oldest)
    }

    /// Puts a slot that is not on the list at its newest end.
    pub(crate) fn push(&mut self, slot: u32) {
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, Links { newer: NIL, older: NIL });
        }
        let older = std::mem::replace(&mut self.newest, slot);
        self.links[slot as usize] = Links { newer: NIL, older };
        match older {
            NIL => self.oldest = slot,
            older => self.links[older as usize].newer = slot,
        }
        self.len += 1;
    }

    /// Puts a slot that is not on the list at its oldest end.
    pub(crate) fn push_oldest(&mut self, slot: u32) {
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, Links { newer: NIL, older: NIL });
        }
        let newer = std::mem::replace(&mut self.oldest, slot);
        self.links[slot as usize] = Links { newer, older: NIL };
        match newer {
            NIL => self.newest = slot,
            newer => self.links[newer as usize].older = slot,
        }
        self.len += 1;
    }

    /// Takes a slot off the list.
    pub(crate) fn remove(&mut self, slot: u32) {
        let Links { newer, older } = self.links[slot as usize];
        match newer {
            NIL => self.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            NIL => self.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        self.len -= 1;
    }

    /// Moves a slot on the list to its newest end.
    #[inline]
    pub(crate) fn touch(&mut self, slot: u32) {
        if self.newest != slot {
            self.remove(slot);
            self.push(slot);
        }
    }
}
