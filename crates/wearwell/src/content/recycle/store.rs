//! The fingerprint store (FS): which dead pages a new write is compared with.
//!
//! An entry says "this dead page holds this content". The paper scans entries in order of probability; a scan of
//! 128 Ki entries for every write is not affordable here and its result does not depend on the order, so look-ups go
//! through a hash index, while [`Order`] keeps the order that eviction and the reported number of
//! comparisons need. The way from a page to its slot is kept by [`History`], which therefore takes part in every
//! change of an entry. The price of the index and the order is about 18 bytes per entry beside the 32 of the slot.
//!
//! The index is the heads of short lists ([`Buckets`]) that are threaded through the slots: what is written when an entry
//! comes or goes lies on the cache line of its slot, and a content that is not there costs one or two reads.
//!
//! The store knows levels, not probabilities: its caller computes them from history and accesses.
//!
//! Equal content dies more than once. Only one page per fingerprint is an entry; the other is forgotten by a bounded
//! store (it can come back when the store is rebuilt), while an unbounded store keeps it as a *twin* below the entry
//! and promotes it when the entry leaves. Without twins an unbounded store would miss content that is still on the
//! flash, and its hits would depend on the policy.
//!
//! Invariants: an entry's page is dead; at most one entry per fingerprint; entries <= capacity; twins only if
//! unbounded; a page has a slot exactly if that slot names the page. Source: LX-SSD (Zhou et al.), section IV-C.2.

use arrayvec::ArrayVec;

use super::buckets::{Buckets, NONE};
use super::history::History;
use super::order::Order;
use crate::address::{Address, Ppn};
use crate::data::Fingerprint;
use crate::tables::prefetch::{TOGETHER, touch_all};

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

/// 32 bytes, so that no slot lies on two cache lines.
#[derive(Clone, Debug)]
#[repr(align(32))]
struct Slot {
    fingerprint: Fingerprint,
    ppn: Ppn,
    ticket: u32,
    /// Time of the last change of place in the order; wraps.
    stamp: u32,
    /// An entry: the next one of its bucket. A twin: the page above it in the chain.
    link: u32,
    /// Chain of pages with equal content: the entry at the top, twins below it.
    below: u32,
    level: u8,
    accesses: u8,
    standing: Standing,
}

const _: () = assert!(size_of::<Slot>() == 32);

impl Slot {
    const FREE: Self = Self {
        fingerprint: Fingerprint::ZERO_PAGE,
        ppn: Ppn::NONE,
        ticket: 0,
        stamp: 0,
        link: NONE,
        below: NONE,
        level: 0,
        accesses: 0,
        standing: Standing::Free,
    };
}

/// Entries by content and in order.
#[derive(Clone, Debug)]
pub(super) struct Store {
    slots: Vec<Slot>,
    free: Vec<u32>,
    buckets: Buckets,
    entries: u32,
    order: Order,
    capacity: Option<u32>,
    clock: u32,
    /// The slot that [`Store::next_in_turn`] visited last.
    hand: u32,
}

impl Store {
    /// An empty store of at most `capacity` entries; `None` = unbounded. Memory grows with the entries.
    pub(super) fn new(capacity: Option<u32>) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            buckets: Buckets::new(),
            entries: 0,
            order: Order::new(),
            capacity,
            clock: 0,
            hand: 0,
        }
    }

    /// Entries, twins not counted.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.entries
    }

    /// Twins kept below entries.
    pub(super) fn twins(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32 - self.entries
    }

    pub(super) fn capacity(&self) -> Option<u32> {
        self.capacity
    }

    /// The entry for this content.
    #[inline]
    pub(super) fn find(&self, fingerprint: Fingerprint) -> Option<u32> {
        let mut at = self.buckets.head(fingerprint);
        while at != NONE && self.slots[at as usize].fingerprint != fingerprint {
            at = self.slots[at as usize].link;
        }
        (at != NONE).then_some(at)
    }

    #[inline]
    pub(super) fn candidate(&self, slot: u32) -> Candidate {
        let Slot { ppn, fingerprint, accesses, .. } = self.slots[slot as usize];
        Candidate { ppn, fingerprint, accesses }
    }

    /// Access count that the entry's probability is computed from.
    #[inline]
    pub(super) fn accesses(&self, slot: u32) -> u8 {
        self.slots[slot as usize].accesses
    }

    /// The level that an entry stands on; `None` for a twin, which stands on none.
    #[inline]
    pub(super) fn level(&self, slot: u32) -> Option<u8> {
        let Slot { standing, level, .. } = self.slots[slot as usize];
        (standing == Standing::Entry).then_some(level)
    }

    /// Place of an entry in the order, 1 = best.
    pub(super) fn rank(&self, slot: u32) -> u32 {
        let slot = &self.slots[slot as usize];
        self.order.rank(slot.level, slot.ticket)
    }

    /// The page of the next slot, round and round; `None` if that slot is free.
    pub(super) fn next_in_turn(&mut self) -> Option<Ppn> {
        self.hand = if self.hand + 1 < self.slots.len() as u32 { self.hand + 1 } else { 0 };
        let slot = self.slots.get(self.hand as usize)?;
        (slot.standing != Standing::Free).then_some(slot.ppn)
    }

    /// All entries, best first.
    pub(super) fn entries(&self) -> impl Iterator<Item = Candidate> + '_ {
        self.order.entries().map(|slot| self.candidate(slot))
    }

    /// Offers content that no entry has. Amortised O(1).
    pub(super) fn admit(&mut self, history: &mut History, candidate: Candidate, level: u8) -> Admission {
        let full = self.capacity.is_some_and(|capacity| self.len() >= capacity);
        let slot = if full {
            let Some((_, worst)) = self.order.worst().filter(|&(worst, _)| worst <= level) else {
                return Admission::Refused;
            };
            self.evict(history, worst);
            worst
        } else {
            self.free_slot()
        };
        self.occupy(history, slot, candidate);
        self.index_content(slot);
        self.enter_order(slot, level);
        if full { Admission::Replaced } else { Admission::Inserted }
    }

    /// `candidate` takes the place of `rival`, an entry with equal content.
    pub(super) fn supersede(&mut self, history: &mut History, rival: u32, candidate: Candidate, level: u8) {
        self.leave_order(rival);
        let slot = self.free_slot();
        self.occupy(history, slot, candidate);
        self.rename_entry(rival, slot);
        if self.capacity.is_none() {
            self.slots[rival as usize].standing = Standing::Twin;
            self.chain(slot, rival);
        } else {
            self.vacate(history, rival);
        }
        self.enter_order(slot, level);
    }

    /// `candidate` loses against `rival`, an entry with equal content.
    pub(super) fn yield_to(&mut self, history: &mut History, rival: u32, candidate: Candidate) {
        if self.capacity.is_none() {
            let slot = self.free_slot();
            self.occupy(history, slot, candidate);
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
            self.slots[slot as usize].accesses = accesses;
            self.leave_order(slot);
            self.enter_order(slot, level);
        }
        is_entry
    }

    /// The page of `slot` leaves the store. If it was an entry with a twin, the twin is found by content from now on and is
    /// returned: the caller must [`Store::enter_order`] it, and until then it has no place to change.
    #[inline]
    pub(super) fn remove(&mut self, history: &mut History, slot: u32) -> Option<u32> {
        let Slot { standing, link, below, .. } = self.slots[slot as usize];
        let mut heir = None;
        if standing == Standing::Twin {
            self.chain(link, below);
        } else if below == NONE {
            self.leave_order(slot);
            self.forget_content(slot);
        } else {
            self.leave_order(slot);
            self.rename_entry(slot, below);
            heir = Some(below);
        }
        self.vacate(history, slot);
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

    /// Reads what changing the places of these slots will need; see [`crate::tables::prefetch`].
    pub(super) fn prefetch_places(&self, slots: &[u32]) {
        touch_all(slots.iter().map(|&slot| self.slots[slot as usize].ticket.into()));
        touch_all(slots.iter().map(|&slot| {
            let Slot { level, ticket, .. } = self.slots[slot as usize];
            self.order.slot(level, ticket).into()
        }));
    }

    /// Reads what forgetting the contents of these slots will need.
    pub(super) fn prefetch_contents(&self, slots: &[u32]) {
        self.prefetch_buckets(slots.iter().map(|&slot| self.slots[slot as usize].fingerprint));
    }

    /// Reads the heads of the lists that these contents belong to, and the entries that lead them.
    fn prefetch_buckets(&self, contents: impl Iterator<Item = Fingerprint> + Clone) {
        let heads = contents.map(|content| self.buckets.head(content));
        touch_all(heads.clone().map(u64::from));
        touch_all(heads.filter(|&head| head != NONE).map(|head| self.slots[head as usize].link.into()));
    }

    /// The same for admitting `count` candidates, of which those beyond the room evict. The places of the worst are side by
    /// side.
    pub(super) fn prefetch_evictions(&self, history: &History, count: usize) {
        let Some(capacity) = self.capacity else { return };
        let evictions = count.saturating_sub((capacity - self.len()) as usize);
        let worst: ArrayVec<u32, TOGETHER> = self.order.worst_first().take(evictions.min(TOGETHER)).collect();
        self.prefetch_contents(&worst);
        history.prefetch_displaced(&worst);
        history.prefetch_listed(worst.iter().map(|&slot| self.slots[slot as usize].ppn));
    }

    /// The same for finding these contents.
    pub(super) fn prefetch_find(&self, contents: &[Fingerprint]) {
        self.prefetch_buckets(contents.iter().copied());
    }

    /// Changes the capacity and every level; among equals the recency stays. Evicts what no longer fits.
    pub(super) fn reorder(
        &mut self,
        history: &mut History,
        capacity: Option<u32>,
        level_of: impl Fn(&History, Candidate) -> u8,
    ) {
        if capacity.is_some() {
            self.drop_twins(history);
        }
        let mut entries: Vec<u32> = self.order.entries().collect();
        entries.sort_unstable_by_key(|&slot| {
            u32::MAX - self.clock.wrapping_sub(self.slots[slot as usize].stamp)
        });
        self.order = Order::new();
        for slot in entries {
            let level = level_of(history, self.candidate(slot));
            self.slots[slot as usize].level = level;
            self.slots[slot as usize].ticket = self.order.push(level, slot);
        }
        self.capacity = capacity;
        while capacity.is_some_and(|capacity| self.len() > capacity) {
            let (_, worst) = self.order.worst().expect("a store that is too large has an entry");
            self.evict(history, worst);
            self.set_free(worst);
        }
    }

    /// Forgets every entry, as a power failure does.
    pub(super) fn clear(&mut self, history: &mut History) {
        for slot in self.slots.iter().filter(|slot| slot.standing != Standing::Free) {
            history.detach(slot.ppn);
        }
        self.slots.clear();
        self.free.clear();
        (self.buckets, self.entries) = (Buckets::new(), 0);
        self.order = Order::new();
    }

    /// Takes an entry without twins out; its slot is the caller's.
    #[inline]
    fn evict(&mut self, history: &mut History, slot: u32) {
        self.leave_order(slot);
        self.forget_content(slot);
        history.detach(self.slots[slot as usize].ppn);
    }

    #[inline]
    fn leave_order(&mut self, slot: u32) {
        let Slot { level, ticket, .. } = self.slots[slot as usize];
        if self.order.remove(level, ticket) {
            self.tidy(level);
        }
    }

    #[cold]
    fn tidy(&mut self, level: u8) {
        self.order.tidy(level, |slot, ticket| self.slots[slot as usize].ticket = ticket);
    }

    #[inline]
    fn free_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::FREE);
            self.slots.len() as u32 - 1
        })
    }

    /// `slot` holds `candidate`: a twin until it enters the order.
    #[inline]
    fn occupy(&mut self, history: &mut History, slot: u32, candidate: Candidate) {
        let Candidate { ppn, fingerprint, accesses } = candidate;
        self.slots[slot as usize] =
            Slot { fingerprint, ppn, accesses, standing: Standing::Twin, ..Slot::FREE };
        history.attach(ppn, slot);
    }

    #[inline]
    fn vacate(&mut self, history: &mut History, slot: u32) {
        history.detach(self.slots[slot as usize].ppn);
        self.set_free(slot);
    }

    #[inline]
    fn set_free(&mut self, slot: u32) {
        self.slots[slot as usize] = Slot::FREE;
        self.free.push(slot);
    }

    /// The content of `slot`, which no entry has, is found from now on.
    #[inline]
    fn index_content(&mut self, slot: u32) {
        self.entries += 1;
        if self.buckets.are_few_for(self.entries) {
            self.spread();
        }
        let entry = &mut self.slots[slot as usize];
        entry.link = self.buckets.replace_head(entry.fingerprint, slot);
    }

    /// Twice the buckets.
    #[cold]
    fn spread(&mut self) {
        self.buckets = self.buckets.doubled();
        let entries = (0..).zip(&mut self.slots).filter(|(_, slot)| slot.standing == Standing::Entry);
        entries.for_each(|(at, slot)| slot.link = self.buckets.replace_head(slot.fingerprint, at));
    }

    #[inline]
    fn forget_content(&mut self, slot: u32) {
        self.entries -= 1;
        self.redirect(slot, self.slots[slot as usize].link);
    }

    fn rename_entry(&mut self, from: u32, to: u32) {
        self.slots[to as usize].link = self.slots[from as usize].link;
        self.redirect(from, to);
    }

    /// What leads to entry `slot` in its bucket leads to `to`.
    #[inline]
    fn redirect(&mut self, slot: u32, to: u32) {
        let fingerprint = self.slots[slot as usize].fingerprint;
        let mut at = self.buckets.head(fingerprint);
        if at == slot {
            self.buckets.replace_head(fingerprint, to);
            return;
        }
        while self.slots[at as usize].link != slot {
            at = self.slots[at as usize].link;
        }
        self.slots[at as usize].link = to;
    }

    fn chain(&mut self, above: u32, below: u32) {
        self.slots[above as usize].below = below;
        if below != NONE {
            self.slots[below as usize].link = above;
        }
    }

    fn drop_twins(&mut self, history: &mut History) {
        for slot in 0..self.slots.len() as u32 {
            self.slots[slot as usize].below = NONE;
            if self.slots[slot as usize].standing == Standing::Twin {
                self.vacate(history, slot);
            }
        }
    }

    /// Verifies the invariants; `level_of` is `None` for a page that is not dead.
    pub(super) fn check(
        &self,
        history: &History,
        level_of: impl Fn(Candidate) -> Option<u8>,
    ) -> Result<(), String> {
        self.order.check()?;
        let in_use = self.slots.iter().filter(|slot| slot.standing != Standing::Free).count();
        let counts = [history.slotted_pages() as usize, self.slots.len() - self.free.len()];
        if counts != [in_use; 2] {
            return Err(format!("{in_use} slots in use; pages with slots, slots not free: {counts:?}"));
        }
        let entries: Vec<u32> = self.order.entries().collect();
        if entries.len() != self.len() as usize || self.capacity.is_some_and(|c| self.len() > c) {
            return Err(format!("{} entries in order, {} by content", entries.len(), self.len()));
        }
        if self.capacity.is_some() && self.twins() > 0 {
            return Err(format!("{} twins in a bounded store", self.twins()));
        }
        let mut chained = 0;
        for &entry in &entries {
            self.check_entry(entry, &level_of)?;
            chained += self.check_chain(history, entry, &level_of)?;
        }
        if chained == in_use { Ok(()) } else { Err(format!("{chained} pages in chains, {in_use} slots")) }
    }

    fn check_entry(&self, entry: u32, level_of: impl Fn(Candidate) -> Option<u8>) -> Result<(), String> {
        let Slot { ppn, fingerprint, level, standing, .. } = self.slots[entry as usize];
        if standing != Standing::Entry || self.find(fingerprint) != Some(entry) {
            return Err(format!("the entry of page {ppn} is {standing:?} or not found by content"));
        }
        let expected = level_of(self.candidate(entry));
        if expected != Some(level) {
            return Err(format!("page {ppn} is on level {level} and belongs on {expected:?}"));
        }
        Ok(())
    }

    /// Pages in the chain below and including `entry`: all dead, with equal content and the right slot.
    fn check_chain(
        &self,
        history: &History,
        entry: u32,
        level_of: impl Fn(Candidate) -> Option<u8>,
    ) -> Result<usize, String> {
        let fingerprint = self.slots[entry as usize].fingerprint;
        let mut length = 0;
        let mut at = entry;
        while at != NONE {
            let page = self.candidate(at);
            if history.slot(page.ppn) != Some(at)
                || page.fingerprint != fingerprint
                || level_of(page).is_none()
            {
                return Err(format!(
                    "page {} has another slot, is chained to other content or not dead",
                    page.ppn
                ));
            }
            length += 1;
            at = self.slots[at as usize].below;
        }
        Ok(length)
    }
}
