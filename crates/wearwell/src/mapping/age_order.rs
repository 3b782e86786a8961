//! The order in which slots were pushed or touched, as a queue of slots.
//!
//! A slot that is touched is queued again, and one that is removed stays where it is: its earlier places in the queue are
//! void, which is told by the number of its valid place that each slot keeps ([`Placed`]). Against a linked list this
//! writes to no neighbours, and the slots that are next to leave are found without going from one to the other: the
//! places of a queue are read ahead, the links of a list are waited for. The price is up to two void places per slot.
//!
//! A mark tells apart what was pushed or touched before it was set.
//!
//! Invariants: the first place is valid; `len` places are, and the queue has room for no more than four times as many,
//! but for a few.

/// The lower half of the number of a place: the places of an order are counted from the beginning, and those of a queue
/// are told apart by it.
pub(super) type Place = u32;

/// Half way round from a place: where no place of the queue is that the slot had.
const FAR: Place = 1 << (Place::BITS - 1);

/// Places of the smallest queue.
const FEWEST: usize = 64;

/// What holds the places of the slots of one order. A slot that is not in the order keeps the place it has, or begins with
/// any if it never was.
pub(super) trait Placed {
    fn place(&self, slot: u32) -> Place;
    fn set_place(&mut self, slot: u32, place: Place);
}

/// Slots by age. Each operation is O(1), amortised. See the module's head.
#[derive(Clone, Debug)]
pub(super) struct AgeOrder {
    /// Slot of each place from `first` to before `end`, at the place modulo the length, which is a power of two.
    queue: Vec<u32>,
    first: u64,
    end: u64,
    len: u32,
    /// A void place: what stands before it is older than the mark.
    mark: u64,
}

impl Default for AgeOrder {
    fn default() -> Self {
        Self { queue: vec![0; FEWEST], first: 0, end: 0, len: 0, mark: 0 }
    }
}

impl AgeOrder {
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    fn at(&self, place: u64) -> usize {
        place as usize & (self.queue.len() - 1)
    }

    #[inline]
    fn slot(&self, place: u64) -> u32 {
        self.queue[self.at(place)]
    }

    /// The slot that was pushed or touched longest ago.
    #[inline]
    pub(super) fn oldest(&self) -> Option<u32> {
        (self.len > 0).then(|| self.slot(self.first))
    }

    /// The oldest slot, if it was not pushed or touched since the mark was set.
    #[inline]
    pub(super) fn older_than_mark(&self) -> Option<u32> {
        self.oldest().filter(|_| self.first < self.mark)
    }

    /// Sets the mark behind all slots.
    pub(super) fn set_mark(&mut self, slots: &mut impl Placed) {
        self.have_room(slots);
        self.put_mark();
        if self.len == 0 {
            self.first = self.end;
        }
    }

    /// The mark takes a place, so that the newest slot also has one behind it to move to.
    fn put_mark(&mut self) {
        self.mark = self.end;
        self.end += 1;
    }

    /// The slots of the first places, void ones among them: where to read ahead.
    #[inline]
    pub(super) fn first_places(&self, count: usize) -> impl Iterator<Item = u32> + Clone {
        (self.first..self.end.min(self.first + count as u64)).map(|place| self.slot(place))
    }

    /// Puts a slot that is not in the order at its newest end.
    #[inline]
    pub(super) fn push(&mut self, slots: &mut impl Placed, slot: u32) {
        self.have_room(slots);
        self.put(slots, slot);
        self.len += 1;
    }

    #[inline]
    fn have_room(&mut self, slots: &mut impl Placed) {
        if self.end - self.first == self.queue.len() as u64 {
            self.make_room(slots);
        }
    }

    #[inline]
    fn put(&mut self, slots: &mut impl Placed, slot: u32) {
        let at = self.at(self.end);
        self.queue[at] = slot;
        slots.set_place(slot, self.end as Place);
        self.end += 1;
    }

    /// Takes a slot out of the order.
    #[inline]
    pub(super) fn remove(&mut self, slots: &mut impl Placed, slot: u32) {
        self.make_void(slots, slot);
        self.pass_void(slots);
    }

    /// The place of a slot becomes void, the first one maybe: [`AgeOrder::pass_void`] has to follow.
    #[inline]
    pub(super) fn make_void(&mut self, slots: &mut impl Placed, slot: u32) {
        slots.set_place(slot, slots.place(slot) ^ FAR);
        self.len -= 1;
    }

    /// Makes the first place valid.
    #[inline]
    pub(super) fn pass_void(&mut self, slots: &impl Placed) {
        while self.first < self.end && slots.place(self.slot(self.first)) != self.first as Place {
            self.first += 1;
        }
    }

    /// Moves a slot in the order to its newest end.
    #[inline]
    pub(super) fn touch(&mut self, slots: &mut impl Placed, slot: u32) {
        if slots.place(slot).wrapping_add(1) != self.end as Place {
            self.remove(slots, slot);
            self.push(slots, slot);
        }
    }

    /// The queue is full: it drops its void places, or grows if that makes too little room.
    #[cold]
    fn make_room(&mut self, slots: &mut impl Placed) {
        if self.len as usize > self.queue.len() / 2 {
            self.grow();
        } else {
            self.drop_void(slots);
        }
    }

    fn grow(&mut self) {
        let (places, longer) = (self.first..self.end, 2 * self.queue.len());
        let slots: Vec<u32> = places.clone().map(|place| self.slot(place)).collect();
        self.queue = vec![0; longer];
        for (place, slot) in places.zip(slots) {
            let at = self.at(place);
            self.queue[at] = slot;
        }
    }

    /// Gives every slot a new place, in the same order, and the mark its own.
    fn drop_void(&mut self, slots: &mut impl Placed) {
        for place in self.first..self.end {
            let slot = self.slot(place);
            self.first = place + 1;
            if slots.place(slot) == place as Place {
                self.put(slots, slot);
            } else if place == self.mark {
                self.put_mark();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::{AgeOrder, Place, Placed};

    impl Placed for Vec<Place> {
        fn place(&self, slot: u32) -> Place {
            self[slot as usize]
        }
        fn set_place(&mut self, slot: u32, place: Place) {
            self[slot as usize] = place;
        }
    }

    #[test]
    fn an_order_is_a_list_whatever_leaves_or_comes_again() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        // The lower halves of the numbers of places begin anew in the middle of a run.
        let first = u64::from(Place::MAX) - 5_000;
        for slots in [1, 2, 7, 300] {
            let mut order = AgeOrder { first, end: first, mark: first, ..AgeOrder::default() };
            let (mut model, mut places) = (Vec::new(), vec![0; slots as usize]);
            let mut marked = Vec::new();
            for _ in 0..20_000 {
                if rng.random_bool(0.02) {
                    order.set_mark(&mut places);
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
                assert_eq!((order.oldest(), order.len()), (model.first().copied(), model.len() as u32));
                assert_eq!(order.older_than_mark(), marked.first().copied());
                assert!(order.queue.len() <= super::FEWEST.max(4 * slots as usize));
            }
            for slot in model {
                assert_eq!(order.oldest(), Some(slot));
                order.remove(&mut places, slot);
            }
            assert_eq!((order.oldest(), order.len()), (None, 0));
        }
    }
}
