//! Channels of the event engine: who transfers when.
//!
//! A channel carries one transfer at a time, first come first served; transfers of reads with priority go before
//! all that have not begun. There are two ways of saying so:
//!
//! - **Granted**: who finds the channel busy waits on a list, and an event at the end of each transfer serves the next.
//!   For devices that suspend programs or group planes, where what follows a transfer depends on when it begins.
//! - **Booked** (a *plain* device): nothing but a read with priority can change when a transfer begins, so its time is known
//!   when it is asked for, and no event is needed. Whoever is overtaken has its [`Plan`] moved to a later time; the event
//!   it has scheduled finds that out when it falls due.
//!
//! A copy books both its transfers at once if the first can begin: it will ask for the second when the first ends, and
//! until then everybody who asks goes before it ([`Later`]), and it can be withdrawn.
//!
//! Invariant of bookings: those that have not begun follow each other without a gap, reads with priority first, then in
//! the order in which they were, or will be, asked for.

use super::event_queue::EventClass;
use std::collections::VecDeque;

/// A channel.
#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    /// End of the last transfer that was granted, or booked.
    pub(super) free_at: u64,
    pub(super) busy_ns: u64,
    /// A [`EventClass::ChannelFree`] is pending: whoever comes now queues behind those who wait.
    pub(super) contended: bool,
    /// Arrays whose transfer has priority.
    pub(super) urgent: VecDeque<u32>,
    /// Arrays with other transfers.
    pub(super) waiting: VecDeque<u32>,
    /// The last booking that was made ahead of time.
    later: Option<Later>,
    /// Arrays on the channel.
    arrays: Vec<u32>,
}

/// A transfer that an array will ask for when the one it makes now ends.
#[derive(Clone, Copy, Debug)]
struct Later {
    asked_at: u64,
    array: u32,
    ns: u64,
}

/// What is booked for an array.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    /// When its latest transfer begins, or began.
    begins_at: u64,
    /// When its next event falls due.
    pub(super) due: u64,
    /// Moves on when another event becomes the next: the one that was scheduled is void.
    pub(super) generation: u32,
    /// The transfer is one of a read with priority.
    urgent: bool,
}

impl Plan {
    /// The transfer begins at a time; the caller says what follows.
    #[inline]
    fn book(&mut self, begins_at: u64, urgent: bool) {
        (self.begins_at, self.urgent) = (begins_at, urgent);
    }

    #[inline]
    fn delay(&mut self, ns: u64) {
        self.begins_at += ns;
        self.due += ns;
    }
}

/// A point in the order of what happens: at one instant, events act in the order of their class, then of their array.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Moment {
    pub(super) time: u64,
    /// Class and subject of the event, in this order.
    place: u64,
}

impl Moment {
    /// When an event acts.
    #[inline]
    pub(super) fn of(time: u64, class: EventClass, subject: u32) -> Self {
        Self { time, place: (class as u64) << 32 | u64::from(subject) }
    }

    /// When a request arrives: after all events of the instant.
    #[inline]
    pub(super) fn of_arrival(time: u64) -> Self {
        Self { time, place: u64::MAX }
    }
}

impl Later {
    #[inline]
    fn is_still_to_be_asked(self, moment: Moment) -> bool {
        moment < Moment::of(self.asked_at, EventClass::Transferred, self.array)
    }
}

impl Channel {
    pub(super) fn new(arrays: Vec<u32>) -> Self {
        Self { arrays, ..Self::default() }
    }

    /// Books a transfer of `ns` for an array that asks, behind all who have asked; returns when it begins.
    #[inline]
    pub(super) fn book(&mut self, array: u32, ns: u64, moment: Moment, plans: &mut [Plan]) -> u64 {
        self.busy_ns += ns;
        let begins_at = match self.later {
            Some(later) if later.is_still_to_be_asked(moment) => {
                plans[later.array as usize].delay(ns);
                self.free_at - later.ns
            }
            _ => {
                self.free_at = self.free_at.max(moment.time);
                self.free_at
            }
        };
        self.free_at += ns;
        plans[array as usize].book(begins_at, false);
        begins_at
    }

    /// Books both transfers of a copy, of `ns` each, if the first can begin now; whether it can. The array will ask for the
    /// second when the first ends.
    #[inline]
    pub(super) fn book_copy(&mut self, array: u32, ns: u64, now: u64, plans: &mut [Plan]) -> bool {
        if self.free_at > now {
            return false;
        }
        let asked_at = now + ns;
        self.later = Some(Later { asked_at, array, ns });
        self.busy_ns += 2 * ns;
        self.free_at = asked_at + ns;
        plans[array as usize].book(asked_at, false);
        true
    }

    /// Takes the booking for later back, which has not been asked for yet.
    pub(super) fn withdraw(&mut self, plans: &mut [Plan]) {
        let Later { array, ns, .. } = self.later.take().expect("it is booked until it is asked for");
        self.busy_ns -= ns;
        self.free_at -= ns;
        plans[array as usize].begins_at = 0;
    }

    /// Books a transfer of `ns` of a read with priority: before all others that have not begun.
    pub(super) fn book_urgent(&mut self, array: u32, ns: u64, moment: Moment, plans: &mut [Plan]) -> u64 {
        self.busy_ns += ns;
        self.free_at = self.free_at.max(moment.time);
        let mut begins_at = self.free_at;
        let unasked = self.later.filter(|later| later.is_still_to_be_asked(moment)).map(|later| later.array);
        for &other in &self.arrays {
            let plan = &mut plans[other as usize];
            if !plan.urgent && (plan.begins_at > moment.time || unasked == Some(other)) {
                begins_at = begins_at.min(plan.begins_at);
                plan.delay(ns);
            }
        }
        self.free_at += ns;
        plans[array as usize].book(begins_at, true);
        begins_at
    }
}
