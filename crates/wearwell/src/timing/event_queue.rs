//! The future event list: one sorted ring per class of event.
//!
//! Nearly all delays of flash are constants (tR, tPROG, a page's transfer), so events of one class are created
//! almost in the order in which they fall due. A ring that inserts from its tail therefore moves nothing in the
//! common case, and a few entries where delays differ (mixed transfer sizes, resumed programs); the next event is
//! the least of the ring heads. A prototype ran 35-44 M events/s this
//! way and 22-30 M with binary heaps. The price: an insert is O(entries
//! behind it), bounded by the arrays of the device, since an array waits for one event at a time.
//!
//! Invariant: a ring is sorted by time, then subject. Simultaneous events thus come by [`EventClass`], then by
//! number of array or channel, whatever the order of their creation.

#![expect(clippy::inline_always, reason = "measured: 25 % more operations per second than with plain hints")]

/// What falls due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum EventClass {
    /// A channel is free again and somebody waits for it. Subject: channel.
    ChannelFree,
    /// tR is over. Subject: array.
    ReadSensed,
    /// A transfer is over that an array must act on. Subject: array.
    Transferred,
    /// tPROG is over. Subject: array.
    Programmed,
    /// tBERS is over. Subject: array.
    Erased,
    /// The controller overhead of a finished request is over. Subject: request.
    Acknowledged,
}

impl EventClass {
    /// True if an array of a plain device may find that it falls due later, or never: it follows a transfer, or is scheduled
    /// like one that does. An erase has none.
    #[inline(always)]
    pub(super) fn is_planned(self) -> bool {
        matches!(self, Self::ReadSensed | Self::Transferred | Self::Programmed)
    }

    /// All classes by their number; the last ones are there to make the look-up one of three bits.
    const ALL: [Self; 8] = [
        Self::ChannelFree,
        Self::ReadSensed,
        Self::Transferred,
        Self::Programmed,
        Self::Erased,
        Self::Acknowledged,
        Self::Acknowledged,
        Self::Acknowledged,
    ];
}

/// One event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Event {
    /// When, in nanoseconds.
    pub(super) time: u64,
    /// Index of the array, channel or request concerned.
    pub(super) subject: u32,
    /// Cancelled if the subject's generation has moved on (suspended operations).
    pub(super) generation: u32,
}

impl Event {
    #[inline(always)]
    fn is_after(self, other: Self) -> bool {
        self.time > other.time || (self.time == other.time && self.subject > other.subject)
    }
}

/// A ring buffer kept in order of time.
#[derive(Clone, Debug)]
struct SortedRing {
    /// Length is a power of two.
    entries: Vec<Event>,
    head: usize,
    len: usize,
}

impl SortedRing {
    fn new() -> Self {
        Self { entries: vec![Event::default(); 64], head: 0, len: 0 }
    }

    #[inline(always)]
    fn slot(&self, index: usize) -> usize {
        (self.head + index) & (self.entries.len() - 1)
    }

    /// Inserts in order; true if the event is now first.
    #[inline(always)]
    fn insert(&mut self, event: Event) -> bool {
        if self.len == self.entries.len() {
            self.grow();
        }
        if self.len > 0 && self.entries[self.slot(self.len - 1)].is_after(event) {
            return self.insert_before_last(event.time, event.subject, event.generation);
        }
        let slot = self.slot(self.len);
        self.entries[slot] = event;
        self.len += 1;
        self.len == 1
    }

    /// Inserts an event that is not the latest, from the end that is nearer. Takes it apart: by reference, the event of the
    /// common case would go through memory as well, which costs a store-forwarding stall.
    #[inline(never)]
    fn insert_before_last(&mut self, time: u64, subject: u32, generation: u32) -> bool {
        let event = Event { time, subject, generation };
        let in_front = self.entries[self.slot(self.len / 2)].is_after(event);
        let at = if in_front { self.open_from_front(event) } else { self.open_from_back(event) };
        let slot = self.slot(at);
        self.entries[slot] = event;
        self.len += 1;
        at == 0
    }

    /// Moves later entries back by one and returns the place that falls free.
    fn open_from_back(&mut self, event: Event) -> usize {
        let mut at = self.len;
        while at > 0 {
            let before = self.entries[self.slot(at - 1)];
            if !before.is_after(event) {
                break;
            }
            let slot = self.slot(at);
            self.entries[slot] = before;
            at -= 1;
        }
        at
    }

    /// Moves earlier entries forward by one, the front with them, and returns the place that falls free.
    fn open_from_front(&mut self, event: Event) -> usize {
        self.head = self.slot(self.entries.len() - 1);
        let mut at = 0;
        while at < self.len {
            let behind = self.entries[self.slot(at + 1)];
            if behind.is_after(event) {
                break;
            }
            let slot = self.slot(at);
            self.entries[slot] = behind;
            at += 1;
        }
        at
    }

    #[cold]
    fn grow(&mut self) {
        self.entries.rotate_left(self.head);
        self.head = 0;
        self.entries.resize(self.entries.len() * 2, Event::default());
    }
}

/// Classes from this number on are rare.
const FIRST_RARE: usize = EventClass::Erased as usize;

/// Latest time an event can have, in nanoseconds: 73 years.
const LATEST: u64 = (1 << 61) - 2;

/// All pending events.
#[derive(Clone, Debug)]
pub(super) struct EventQueue {
    /// Per class: `time << 3 | class` of the ring's first event, so that one minimum finds time and class.
    heads: [u64; 8],
    /// Per class: subject and generation of that event, so that handling it need not wait for the ring.
    subjects: [(u32, u32); 8],
    /// The least head of the classes from [`FIRST_RARE`] on, which change so seldom that only the others are
    /// compared at every event.
    rare: u64,
    rings: [SortedRing; 8],
}

impl EventQueue {
    pub(super) fn new() -> Self {
        Self {
            heads: [u64::MAX; 8],
            subjects: [(0, 0); 8],
            rare: u64::MAX,
            rings: std::array::from_fn(|_| SortedRing::new()),
        }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, class: EventClass, event: Event) {
        let index = class as usize;
        if self.rings[index].insert(event) {
            self.set_head(index, event.time << 3 | index as u64, event);
        }
    }

    #[inline(always)]
    fn set_head(&mut self, index: usize, head: u64, event: Event) {
        self.heads[index] = head;
        self.subjects[index] = (event.subject, event.generation);
        if index >= FIRST_RARE {
            self.rare = self.heads[FIRST_RARE..].iter().copied().fold(u64::MAX, u64::min);
        }
    }

    /// True if an event is due at `limit` or before.
    #[inline(always)]
    pub(super) fn is_due(&self, limit: u64) -> bool {
        self.least() >> 3 <= limit.min(LATEST)
    }

    /// Takes the next event if it is due at `limit` or before.
    #[inline(always)]
    pub(super) fn pop_until(&mut self, limit: u64) -> Option<(EventClass, Event)> {
        let least = self.least();
        let time = least >> 3;
        if time > limit.min(LATEST) {
            return None;
        }
        let index = (least & 7) as usize;
        let (subject, generation) = self.subjects[index];
        let ring = &mut self.rings[index];
        ring.head = ring.slot(1);
        ring.len -= 1;
        let next = ring.entries[ring.head];
        let head = if ring.len == 0 { u64::MAX } else { next.time << 3 | index as u64 };
        self.set_head(index, head, next);
        Some((EventClass::ALL[index], Event { time, subject, generation }))
    }

    /// The minimum as a tree: few dependent steps.
    #[inline(always)]
    fn least(&self) -> u64 {
        let [free, sensed, moved, programmed, ..] = self.heads;
        free.min(sensed).min(moved.min(programmed)).min(self.rare)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time: u64, subject: u32) -> Event {
        Event { time, subject, generation: 0 }
    }

    #[test]
    fn pops_by_time_then_class_then_subject() {
        let mut queue = EventQueue::new();
        queue.push(EventClass::Erased, event(5, 0));
        queue.push(EventClass::ReadSensed, event(5, 2));
        queue.push(EventClass::ReadSensed, event(5, 1));
        queue.push(EventClass::ReadSensed, event(3, 3));
        queue.push(EventClass::Programmed, event(4, 4));
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop_until(5)).map(|(_, e)| e.subject).collect();
        assert_eq!(order, [3, 4, 1, 2, 0]);
    }

    #[test]
    fn keeps_later_events_for_later() {
        let mut queue = EventQueue::new();
        queue.push(EventClass::Programmed, event(10, 0));
        assert_eq!(queue.pop_until(9), None);
        assert_eq!(queue.pop_until(10), Some((EventClass::Programmed, event(10, 0))));
        assert_eq!(queue.pop_until(u64::MAX), None);
    }

    #[test]
    fn agrees_with_a_stable_sort_through_growth_and_wraparound() {
        let mut queue = EventQueue::new();
        let mut expected = Vec::new();
        let mut seed = 12345_u64;
        let mut now = 0;
        for subject in 0..5000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            expected.push(event(now + (seed >> 33) % 300, subject));
            queue.push(EventClass::Transferred, expected[expected.len() - 1]);
            if subject % 3 == 0 && subject > 400 {
                expected.sort_by_key(|e| (e.time, e.subject));
                let first = expected.remove(0);
                assert_eq!(queue.pop_until(u64::MAX), Some((EventClass::Transferred, first)));
                now = first.time;
            }
        }
        expected.sort_by_key(|e| (e.time, e.subject));
        let rest: Vec<Event> = std::iter::from_fn(|| queue.pop_until(u64::MAX)).map(|(_, e)| e).collect();
        assert_eq!(rest, expected);
    }
}
