//! The fingerprint store (FS): which dead pages a new write is compared with.
//!
//! An entry says "this dead page holds this content". The paper scans entries in order of probability; a scan of
//! 128 Ki entries for every write is not affordable here and its result does not depend on the order, so look-ups go
//! through a hash index, while [`Order`](super::order) keeps the order that eviction and the reported number of
//! comparisons need. A second hash index finds the entry of a page; one bit per page answers for the many pages
//! that have none. The price of both indexes is about 12 bytes per entry beside the 32 of the slot.
//!
//! The store knows levels, not probabilities: its caller computes them from history and accesses.
//!
//! Equal content dies more than once. Only one page per fingerprint is an entry; the other is forgotten by a bounded
//! store (it can come back when the store is rebuilt), while an unbounded store keeps it as a *twin* below the entry
//! and promotes it when the entry leaves. Without twins an unbounded store would miss content that is still on the
//! flash, and its hits would depend on the policy.
//!
//! Invariants: an entry's page is dead; at most one entry per fingerprint; entries <= capacity; twins only if
//! unbounded; bit of a page set exactly if a slot names it. Source: LX-SSD (Zhou et al.), section IV-C.2.

use super::order::Order;
use super::page_set::PageSet;
use crate::address::{Address, Ppn};
use crate::content::{Fingerprint, mix};
use hashbrown::HashTable;

const NONE: u32 = u32::MAX;

/// A dead page that could become an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) ppn: Ppn,
    pub(super) fingerprint: Fingerprint,
    /// Access count that its probability is computed from: its own, or the largest if it was fast-loaded.
    pub(super) accesses: u8,
}

/// What became of a candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Admission {
    /// There was room.
    Inserted,
    /// The worst entry made room.
    Replaced,
    /// Every entry is better.
    Refused,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    Free,
    Entry,
    Twin,
}

#[derive(Clone, Debug)]
struct Slot {
    candidate: Candidate,
    ticket: u32,
    /// Time of the last change of place in the order; wraps.
    stamp: u32,
    /// Chain of pages with equal content: the entry at the top, twins below it.
    above: u32,
    below: u32,
    level: u8,
    standing: Standing,
}

/// Entries by content, by page and in order.
#[derive(Clone, Debug)]
pub(super) struct Store {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_fingerprint: HashTable<u32>,
    by_page: HashTable<u32>,
    stored: PageSet,
    order: Order,
    capacity: Option<u32>,
    clock: u32,
}

#[inline]
fn hash_of_page(ppn: Ppn) -> u64 {
    mix(ppn.0 as u64)
}

#[inline]
fn hash_of_content(fingerprint: Fingerprint) -> u64 {
    mix(fingerprint.0)
}

impl Store {
    /// An empty store of at most `capacity` entries; `None` = unbounded. Memory: 1 bit per page; entries on demand.
    pub(super) fn new(physical_pages: usize, capacity: Option<u32>) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_fingerprint: HashTable::new(),
            by_page: HashTable::new(),
            stored: PageSet::new(physical_pages),
            order: Order::new(),
            capacity,
            clock: 0,
        }
    }

    /// Entries, twins not counted.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.by_fingerprint.len() as u32
    }

    /// Twins kept below entries.
    pub(super) fn twins(&self) -> u32 {
        (self.by_page.len() - self.by_fingerprint.len()) as u32
    }

    pub(super) fn capacity(&self) -> Option<u32> {
        self.capacity
    }

    /// Whether `ppn` is an entry or a twin.
    #[inline]
    pub(super) fn holds(&self, ppn: Ppn) -> bool {
        self.stored.contains(ppn)
    }

    /// The entry for this content.
    #[inline]
    pub(super) fn find(&self, fingerprint: Fingerprint) -> Option<u32> {
        let slots = &self.slots;
        let same = |&slot: &u32| slots[slot as usize].candidate.fingerprint == fingerprint;
        self.by_fingerprint.find(hash_of_content(fingerprint), same).copied()
    }

    /// The slot of `ppn`, entry or twin.
    #[inline]
    pub(super) fn slot_of(&self, ppn: Ppn) -> Option<u32> {
        if !self.holds(ppn) {
            return None;
        }
        let slots = &self.slots;
        self.by_page.find(hash_of_page(ppn), |&slot| slots[slot as usize].candidate.ppn == ppn).copied()
    }

    #[inline]
    pub(super) fn candidate(&self, slot: u32) -> Candidate {
        self.slots[slot as usize].candidate
    }

    /// Place of an entry in the order, 1 = best.
    pub(super) fn rank(&self, slot: u32) -> u32 {
        let slot = &self.slots[slot as usize];
        self.order.rank(slot.level, slot.ticket)
    }

    /// All entries, best first.
    pub(super) fn entries(&self) -> impl Iterator<Item = Candidate> + '_ {
        self.order.entries().map(|slot| self.candidate(slot))
    }

    /// Offers content that no entry has. Amortised O(1).
    pub(super) fn admit(&mut self, candidate: Candidate, level: u8) -> Admission {
        let full = self.capacity.is_some_and(|capacity| self.len() >= capacity);
        if full && self.order.worst_level().is_none_or(|worst| worst > level) {
            return Admission::Refused;
        }
        if full {
            self.evict_worst();
        }
        let slot = self.occupy(candidate);
        let Self { by_fingerprint, slots, .. } = self;
        let hash = |&slot: &u32| hash_of_content(slots[slot as usize].candidate.fingerprint);
        by_fingerprint.insert_unique(hash_of_content(candidate.fingerprint), slot, hash);
        self.enter_order(slot, level);
        if full { Admission::Replaced } else { Admission::Inserted }
    }

    /// `candidate` takes the place of `rival`, an entry with equal content.
    pub(super) fn supersede(&mut self, rival: u32, candidate: Candidate, level: u8) {
        self.leave_order(rival);
        let slot = self.occupy(candidate);
        self.rename_entry(rival, slot);
        if self.capacity.is_none() {
            self.slots[rival as usize].standing = Standing::Twin;
            self.chain(slot, rival);
        } else {
            self.vacate(rival);
        }
        self.enter_order(slot, level);
    }

    /// `candidate` loses against `rival`, an entry with equal content.
    pub(super) fn yield_to(&mut self, rival: u32, candidate: Candidate) {
        if self.capacity.is_none() {
            let slot = self.occupy(candidate);
            self.chain(slot, self.slots[rival as usize].below);
            self.chain(rival, slot);
        }
    }

    /// Moves an entry to `level` if it is on another one. A twin has no place to change.
    #[inline]
    pub(super) fn relevel(&mut self, slot: u32, level: u8) {
        let Slot { standing, level: current, .. } = self.slots[slot as usize];
        if standing == Standing::Entry && current != level {
            self.leave_order(slot);
            self.enter_order(slot, level);
        }
    }

    /// Makes an entry the most recent one of its level.
    pub(super) fn refresh(&mut self, slot: u32) {
        self.leave_order(slot);
        self.enter_order(slot, self.slots[slot as usize].level);
    }

    /// From now on an entry counts as read `accesses` times, and is the most recent one of `level`. `false` for a
    /// twin, which does not change.
    pub(super) fn raise(&mut self, slot: u32, accesses: u8, level: u8) -> bool {
        let is_entry = self.slots[slot as usize].standing == Standing::Entry;
        if is_entry {
            self.slots[slot as usize].candidate.accesses = accesses;
            self.leave_order(slot);
            self.enter_order(slot, level);
        }
        is_entry
    }

    /// `ppn` leaves the store. If it was an entry with a twin, the twin is found by content from now on and is
    /// returned: the caller must [`Store::enter_order`] it, and until then it has no place to change.
    #[inline]
    pub(super) fn remove(&mut self, ppn: Ppn) -> Option<u32> {
        let slot = self.slot_of(ppn)?;
        let Slot { standing, above, below, .. } = self.slots[slot as usize];
        let mut heir = None;
        if standing == Standing::Twin {
            self.chain(above, below);
        } else if below == NONE {
            self.leave_order(slot);
            self.forget_content(slot);
        } else {
            self.leave_order(slot);
            self.rename_entry(slot, below);
            self.slots[below as usize].above = NONE;
            heir = Some(below);
        }
        self.vacate(slot);
        heir
    }

    /// Makes a slot an entry with a place in the order, as the most recent one of `level`.
    #[inline]
    pub(super) fn enter_order(&mut self, slot: u32, level: u8) {
        let ticket = self.order.push(level, slot);
        let entry = &mut self.slots[slot as usize];
        (entry.level, entry.ticket, entry.stamp) = (level, ticket, self.clock);
        entry.standing = Standing::Entry;
        self.clock = self.clock.wrapping_add(1);
    }

    /// Changes the capacity and every level; among equals the recency stays. Evicts what no longer fits.
    pub(super) fn reorder(&mut self, capacity: Option<u32>, level_of: impl Fn(Candidate) -> u8) {
        if capacity.is_some() {
            self.drop_twins();
        }
        let mut entries: Vec<u32> = self.order.entries().collect();
        entries.sort_unstable_by_key(|&slot| {
            u32::MAX - self.clock.wrapping_sub(self.slots[slot as usize].stamp)
        });
        self.order = Order::new();
        for slot in entries {
            let level = level_of(self.candidate(slot));
            self.slots[slot as usize].level = level;
            self.slots[slot as usize].ticket = self.order.push(level, slot);
        }
        self.capacity = capacity;
        while capacity.is_some_and(|capacity| self.len() > capacity) {
            self.evict_worst();
        }
    }

    /// Forgets every entry, as a power failure does.
    pub(super) fn clear(&mut self) {
        self.stored.clear();
        self.slots.clear();
        self.free.clear();
        self.by_fingerprint.clear();
        self.by_page.clear();
        self.order = Order::new();
    }

    fn evict_worst(&mut self) {
        if let Some(slot) = self.order.worst() {
            self.leave_order(slot);
            self.forget_content(slot);
            self.vacate(slot);
        }
    }

    #[inline]
    fn leave_order(&mut self, slot: u32) {
        let Slot { level, ticket, .. } = self.slots[slot as usize];
        self.order.remove(level, ticket);
        let slots = &mut self.slots;
        self.order.tidy(level, |slot, ticket| slots[slot as usize].ticket = ticket);
    }

    /// A slot for `candidate`: a twin until it enters the order.
    fn occupy(&mut self, candidate: Candidate) -> u32 {
        let standing = Standing::Twin;
        let content = Slot { candidate, ticket: 0, stamp: 0, above: NONE, below: NONE, level: 0, standing };
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = content;
            slot
        } else {
            self.slots.push(content);
            self.slots.len() as u32 - 1
        };
        self.stored.insert(candidate.ppn);
        let slots = &self.slots;
        let hash = |&slot: &u32| hash_of_page(slots[slot as usize].candidate.ppn);
        self.by_page.insert_unique(hash_of_page(candidate.ppn), slot, hash);
        slot
    }

    #[inline]
    fn vacate(&mut self, slot: u32) {
        let ppn = self.slots[slot as usize].candidate.ppn;
        self.stored.remove(ppn);
        let found = self.by_page.find_entry(hash_of_page(ppn), |&other| other == slot);
        found.expect("a slot in use is indexed by its page").remove();
        self.slots[slot as usize].standing = Standing::Free;
        self.slots[slot as usize].candidate.ppn = Ppn::NONE;
        self.free.push(slot);
    }

    #[inline]
    fn forget_content(&mut self, slot: u32) {
        let hash = hash_of_content(self.slots[slot as usize].candidate.fingerprint);
        let found = self.by_fingerprint.find_entry(hash, |&other| other == slot);
        found.expect("an entry is indexed by its content").remove();
    }

    fn rename_entry(&mut self, from: u32, to: u32) {
        let hash = hash_of_content(self.slots[from as usize].candidate.fingerprint);
        let found = self.by_fingerprint.find_mut(hash, |&other| other == from);
        *found.expect("an entry is indexed by its content") = to;
    }

    fn chain(&mut self, above: u32, below: u32) {
        self.slots[above as usize].below = below;
        if below != NONE {
            self.slots[below as usize].above = above;
        }
    }

    fn drop_twins(&mut self) {
        for slot in 0..self.slots.len() as u32 {
            self.slots[slot as usize].below = NONE;
            if self.slots[slot as usize].standing == Standing::Twin {
                self.vacate(slot);
            }
        }
    }

    /// Verifies the invariants; `level_of` is `None` for a page that is not dead.
    pub(super) fn check(&self, level_of: impl Fn(Candidate) -> Option<u8>) -> Result<(), String> {
        self.order.check()?;
        let in_use = self.slots.iter().filter(|slot| slot.standing != Standing::Free).count();
        let counts = [self.by_page.len(), self.stored.len() as usize, self.slots.len() - self.free.len()];
        if counts != [in_use; 3] {
            return Err(format!("{in_use} slots in use; by page, by bit, not free: {counts:?}"));
        }
        let entries: Vec<u32> = self.order.entries().collect();
        if entries.len() != self.by_fingerprint.len()
            || self.capacity.is_some_and(|c| entries.len() > c as usize)
        {
            return Err(format!(
                "{} entries in order, {} by content",
                entries.len(),
                self.by_fingerprint.len()
            ));
        }
        if self.capacity.is_some() && self.twins() > 0 {
            return Err(format!("{} twins in a bounded store", self.twins()));
        }
        let chained = entries
            .iter()
            .try_fold(0, |sum, &entry| Ok::<_, String>(sum + self.check_entry(entry, &level_of)?))?;
        if chained == in_use { Ok(()) } else { Err(format!("{chained} pages in chains, {in_use} slots")) }
    }

    /// Pages in the chain of `entry`.
    fn check_entry(&self, entry: u32, level_of: impl Fn(Candidate) -> Option<u8>) -> Result<usize, String> {
        let Slot { candidate, level, standing, above, .. } = self.slots[entry as usize];
        if standing != Standing::Entry || above != NONE || self.find(candidate.fingerprint) != Some(entry) {
            return Err(format!(
                "the entry of page {} is {standing:?} or not found by content",
                candidate.ppn
            ));
        }
        let expected =
            level_of(candidate).ok_or_else(|| format!("page {} is stored and not dead", candidate.ppn))?;
        if level != expected {
            return Err(format!("page {} is on level {level} and belongs on {expected}", candidate.ppn));
        }
        let mut length = 0;
        let mut at = entry;
        while at != NONE {
            let slot = &self.slots[at as usize];
            if self.slot_of(slot.candidate.ppn) != Some(at)
                || slot.candidate.fingerprint != candidate.fingerprint
            {
                return Err(format!(
                    "page {} has no slot or is chained to other content",
                    slot.candidate.ppn
                ));
            }
            if level_of(slot.candidate).is_none() {
                return Err(format!("page {} is a twin and not dead", slot.candidate.ppn));
            }
            length += 1;
            at = slot.below;
        }
        Ok(length)
    }
}
