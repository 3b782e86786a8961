//! Slots (numbered cache entries) in the order in which they were last pushed or touched, kept as a queue of slot
//! numbers.
//!
//! A slot that is touched is queued again, and a slot that is removed leaves its queue positions where they are. Its
//! earlier positions are then void: each slot stores the number of its valid position ([`QueuePositions`]), so a
//! position with another number is recognised as void. Unlike a linked list, a queue writes to no neighbours. The
//! oldest slots are adjacent in memory and can be prefetched, while the links of a list have to be followed one by one.
//! The price is up to two void positions per slot.
//!
//! A mark separates the slots that were pushed or touched before it was set from the later ones.
//!
//! Invariants: the first position is valid; `len` positions are valid; apart from a small minimum, the queue has room
//! for at most four times as many.

/// Number of a position in the queue of cache slots, truncated to its lower 32 bits. Positions are counted from the
/// creation of the queue; those that are in the queue at one time differ in the lower bits.
pub(super) type QueuePosition = u32;

/// Bit that is flipped in the queue position stored for a cache slot, to mark this position as obsolete. The flipped
/// number differs from all positions that are in the queue.
const OBSOLETE_POSITION_BIT: QueuePosition = 1 << (QueuePosition::BITS - 1);

/// Minimum length of the queue of cache slots, in positions.
const MIN_QUEUE_POSITIONS: usize = 64;

/// Container of the slots (numbered cache entries) of one LRU queue ([`LruQueue`]), which stores the queue position of
/// each slot. A slot outside the queue keeps its last position, or any value if it never was in the queue.
pub(super) trait QueuePositions {
    /// Returns the queue position that is stored for `slot`.
    fn position_of(&self, slot: u32) -> QueuePosition;
    /// Stores the queue position `place` for `slot`.
    fn set_position(&mut self, slot: u32, place: QueuePosition);
}

/// LRU queue of slots (numbered cache entries), in order of their last push or touch. Every operation is amortised
/// O(1).
#[derive(Clone, Debug)]
pub(super) struct LruQueue {
    /// Ring buffer of the LRU queue: the slot number of each position in the queue, at the index position modulo
    /// length. The length is a power of two.
    slot_ring: Vec<u32>,
    /// Position of the least recently used slot in the queue.
    first_position: u64,
    /// Position after the last one in the queue: the next push or touch gets it.
    end_position: u64,
    /// Number of slots in the queue, without obsolete positions.
    slot_count: u32,
    /// Queue position of the mark, which separates earlier uses of cache slots from later ones. The position belongs to
    /// no slot. Slots at earlier positions were not pushed or touched since the mark was set.
    checkpoint_mark_position: u64,
}

impl Default for LruQueue {
    fn default() -> Self {
        Self {
            slot_ring: vec![0; MIN_QUEUE_POSITIONS],
            first_position: 0,
            end_position: 0,
            slot_count: 0,
            checkpoint_mark_position: 0,
        }
    }
}

impl LruQueue {
    /// Returns the number of slots in the queue, without obsolete positions.
    pub(super) fn len(&self) -> u32 {
        self.slot_count
    }

    /// Returns the first position of the LRU queue that is still in use. Positions are numbered from the creation of
    /// the queue on.
    #[inline]
    pub(super) fn first_position(&self) -> u64 {
        self.first_position
    }

    /// Returns the index in the ring buffer of the queue position `place`.
    #[inline]
    fn queue_index_of(&self, place: u64) -> usize {
        place as usize & (self.slot_ring.len() - 1)
    }

    /// Returns the slot number at the queue position `place`, which may be obsolete.
    #[inline]
    fn slot_at_position(&self, place: u64) -> u32 {
        self.slot_ring[self.queue_index_of(place)]
    }

    /// Returns the least recently used cache slot of the LRU queue: the one that was pushed or touched longest ago;
    /// `None` if the queue is empty.
    #[inline]
    pub(super) fn oldest_slot(&self) -> Option<u32> {
        (self.slot_count > 0).then(|| self.slot_at_position(self.first_position))
    }

    /// Returns the least recently used cache slot of the LRU queue, if that slot was not pushed or touched since the
    /// last [`LruQueue::set_checkpoint_mark`]; otherwise `None`.
    #[inline]
    pub(super) fn oldest_slot_before_checkpoint_mark(&self) -> Option<u32> {
        self.oldest_slot().filter(|_| self.first_position < self.checkpoint_mark_position)
    }

    /// Sets the mark of the LRU queue, which separates earlier from later uses, after the newest cache slot: all slots
    /// that are in the queue now were used before the mark.
    pub(super) fn set_checkpoint_mark(&mut self, slots: &mut impl QueuePositions) {
        self.ensure_free_position(slots);
        self.append_checkpoint_mark();
        if self.slot_count == 0 {
            self.first_position = self.end_position;
        }
    }

    /// Appends the checkpoint mark to the LRU queue: slots before it were last used before the checkpoint. The mark
    /// takes a position of its own. So a use of even the newest slot moves this slot to a position after the mark.
    fn append_checkpoint_mark(&mut self) {
        self.checkpoint_mark_position = self.end_position;
        self.end_position += 1;
    }

    /// Returns the cache slots at the first `count` positions of the LRU queue, for prefetching only. Obsolete
    /// positions (of slots that were queued again or removed) are included.
    #[inline]
    pub(super) fn slots_at_oldest_positions(&self, count: usize) -> impl Iterator<Item = u32> + Clone {
        (self.first_position..self.end_position.min(self.first_position + count as u64))
            .map(|place| self.slot_at_position(place))
    }

    /// Adds to the LRU queue a cache slot that is not in it, as the most recently used.
    #[inline]
    pub(super) fn push(&mut self, slots: &mut impl QueuePositions, slot: u32) {
        self.ensure_free_position(slots);
        self.append_slot(slots, slot);
        self.slot_count += 1;
    }

    /// Makes sure that the ring has a free position at the end of the queue: if it is full, removes obsolete positions,
    /// or enlarges the ring.
    #[inline]
    fn ensure_free_position(&mut self, slots: &mut impl QueuePositions) {
        if self.end_position - self.first_position == self.slot_ring.len() as u64 {
            self.compact_or_grow(slots);
        }
    }

    /// Appends `slot` at the end of the queue and stores its new position.
    #[inline]
    fn append_slot(&mut self, slots: &mut impl QueuePositions, slot: u32) {
        let at = self.queue_index_of(self.end_position);
        self.slot_ring[at] = slot;
        slots.set_position(slot, self.end_position as QueuePosition);
        self.end_position += 1;
    }

    /// Removes a cache slot from the LRU queue.
    #[inline]
    pub(super) fn remove(&mut self, slots: &mut impl QueuePositions, slot: u32) {
        self.make_position_obsolete(slots, slot);
        self.skip_obsolete_positions(slots);
    }

    /// Removes a cache slot from the LRU queue by marking its position as obsolete. If the slot may be at the first
    /// position, [`LruQueue::skip_obsolete_positions`] must be called afterwards.
    #[inline]
    pub(super) fn make_position_obsolete(&mut self, slots: &mut impl QueuePositions, slot: u32) {
        slots.set_position(slot, slots.position_of(slot) ^ OBSOLETE_POSITION_BIT);
        self.slot_count -= 1;
    }

    /// Advances the first position of the LRU queue past obsolete positions, so that it belongs to the least recently
    /// used cache slot.
    #[inline]
    pub(super) fn skip_obsolete_positions(&mut self, slots: &impl QueuePositions) {
        while self.first_position < self.end_position
            && slots.position_of(self.slot_at_position(self.first_position))
                != self.first_position as QueuePosition
        {
            self.first_position += 1;
        }
    }

    /// Makes a cache slot that is in the LRU queue the most recently used.
    #[inline]
    pub(super) fn touch(&mut self, slots: &mut impl QueuePositions, slot: u32) {
        if slots.position_of(slot).wrapping_add(1) != self.end_position as QueuePosition {
            self.remove(slots, slot);
            self.push(slots, slot);
        }
    }

    /// Makes room in a full LRU queue: drops its obsolete positions (of cache slots queued again or removed), or
    /// doubles the queue if that would free too few.
    #[cold]
    fn compact_or_grow(&mut self, slots: &mut impl QueuePositions) {
        // At least three eighths of the positions are obsolete if the queue is not doubled: dropping them moves at most
        // five slots for three positions that become free.
        if self.slot_count as usize > self.slot_ring.len() / 8 * 5 {
            self.double_queue_memory();
        } else {
            self.drop_obsolete_positions(slots);
        }
    }

    /// Doubles the memory of the queue; slots keep their positions.
    fn double_queue_memory(&mut self) {
        let (places, longer) = (self.first_position..self.end_position, 2 * self.slot_ring.len());
        let slots: Vec<u32> = places.clone().map(|place| self.slot_at_position(place)).collect();
        self.slot_ring = vec![0; longer];
        for (place, slot) in places.zip(slots) {
            let at = self.queue_index_of(place);
            self.slot_ring[at] = slot;
        }
    }

    /// Drops all obsolete positions of the LRU queue (of cache slots queued again or removed). Assigns new consecutive
    /// positions, in the same order, to all slots and to the checkpoint mark (which separates uses before the last
    /// checkpoint from later ones).
    fn drop_obsolete_positions(&mut self, slots: &mut impl QueuePositions) {
        for place in self.first_position..self.end_position {
            let slot = self.slot_at_position(place);
            self.first_position = place + 1;
            if slots.position_of(slot) == place as QueuePosition {
                self.append_slot(slots, slot);
            } else if place == self.checkpoint_mark_position {
                self.append_checkpoint_mark();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::{LruQueue, QueuePosition, QueuePositions};

    impl QueuePositions for Vec<QueuePosition> {
        fn position_of(&self, slot: u32) -> QueuePosition {
            self[slot as usize]
        }
        fn set_position(&mut self, slot: u32, place: QueuePosition) {
            self[slot as usize] = place;
        }
    }

    #[test]
    fn an_lru_queue_keeps_the_order_of_a_list_under_random_operations() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        // Starts shortly before position numbers wrap, so that their lower halves begin again in the middle of a run.
        let first = u64::from(QueuePosition::MAX) - 5_000;
        for slots in [1, 2, 7, 300] {
            let mut order = LruQueue {
                first_position: first,
                end_position: first,
                checkpoint_mark_position: first,
                ..LruQueue::default()
            };
            let (mut model, mut places) = (Vec::new(), vec![0; slots as usize]);
            let mut marked = Vec::new();
            for _ in 0..20_000 {
                if rng.random_bool(0.02) {
                    order.set_checkpoint_mark(&mut places);
                    marked.clone_from(&model);
                }
                let slot = rng.random_range(0..slots);
                let listed = model.iter().position(|&other| other == slot);
                marked.retain(|&other| other != slot);
                match listed.map(|at| model.remove(at)) {
                    None => order.push(&mut places, slot),
                    Some(_) if rng.random_bool(0.1) => {
                        order.remove(&mut places, slot);
                        continue;
                    }
                    Some(_) => order.touch(&mut places, slot),
                }
                model.push(slot);
                assert_eq!((order.oldest_slot(), order.len()), (model.first().copied(), model.len() as u32));
                assert_eq!(order.oldest_slot_before_checkpoint_mark(), marked.first().copied());
                assert!(order.slot_ring.len() <= super::MIN_QUEUE_POSITIONS.max(4 * slots as usize));
            }
            for slot in model {
                assert_eq!(order.oldest_slot(), Some(slot));
                order.remove(&mut places, slot);
            }
            assert_eq!((order.oldest_slot(), order.len()), (None, 0));
        }
    }
}
