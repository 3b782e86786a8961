//! Channels of the event engine: who transfers when.
//!
//! A channel carries one transfer at a time, first come first served; transfers of reads with priority go before
//! all that have not begun. There are two ways of saying so:
//!
//! - **Granted**: who finds the channel busy waits on a list, and an event at the end of each transfer serves the next.
//!   For devices that suspend programs or group planes, where what follows a transfer depends on when it begins.
//! - **Booked** (a *plain* device): nothing but a read with priority can change when a transfer begins, so its time is known
//!   when it is asked for, and no event is needed. Whoever is overtaken has its [`Booking`] and its next event put off.
//!
//! A copy books both its transfers at once if the first can begin: it will ask for the second when the first ends, and
//! until then everybody who asks goes before it ([`Later`]), and it can be withdrawn.
//!
//! Invariant of bookings: those that have not begun follow each other without a gap, reads with priority first, then in
//! the order in which they were, or will be, asked for.

#![expect(clippy::inline_always, reason = "measured: 25 % more operations per second than with plain hints")]

use super::event_queue::{EventClass, EventQueue};
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

/// The latest transfer of an array.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Booking {
    /// When it begins, or began.
    begins_at: u64,
    /// It is one of a read with priority.
    urgent: bool,
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
    #[inline(always)]
    pub(super) fn book(
        &mut self,
        array: u32,
        ns: u64,
        moment: Moment,
        bookings: &mut [Booking],
        events: &mut EventQueue,
    ) -> u64 {
        self.busy_ns += ns;
        let begins_at = match self.later {
            Some(later) if later.is_still_to_be_asked(moment) => {
                bookings[later.array as usize].begins_at += ns;
                events.delay(later.array, ns);
                self.free_at - later.ns
            }
            _ => {
                self.free_at = self.free_at.max(moment.time);
                self.free_at
            }
        };
        self.free_at += ns;
        bookings[array as usize] = Booking { begins_at, urgent: false };
        begins_at
    }

    /// Books both transfers of a copy, of `ns` each, if the first can begin now; whether it can. The array will ask for the
    /// second when the first ends.
    #[inline]
    pub(super) fn book_copy(&mut self, array: u32, ns: u64, now: u64, bookings: &mut [Booking]) -> bool {
        if self.free_at > now {
            return false;
        }
        let asked_at = now + ns;
        self.later = Some(Later { asked_at, array, ns });
        self.busy_ns += 2 * ns;
        self.free_at = asked_at + ns;
        bookings[array as usize] = Booking { begins_at: asked_at, urgent: false };
        true
    }

    /// Takes an array's booking for later back; returns when it would have been asked for, or `None` if it has been.
    pub(super) fn withdraw(&mut self, array: u32, moment: Moment, bookings: &mut [Booking]) -> Option<u64> {
        let is_withdrawn = |later: &mut Later| later.array == array && later.is_still_to_be_asked(moment);
        let Later { asked_at, ns, .. } = self.later.take_if(is_withdrawn)?;
        self.busy_ns -= ns;
        self.free_at -= ns;
        bookings[array as usize].begins_at = asked_at - ns;
        Some(asked_at)
    }

    /// Books a transfer of `ns` of a read with priority: before all others that have not begun.
    pub(super) fn book_urgent(
        &mut self,
        array: u32,
        ns: u64,
        moment: Moment,
        bookings: &mut [Booking],
        events: &mut EventQueue,
    ) -> u64 {
        self.busy_ns += ns;
        self.free_at = self.free_at.max(moment.time);
        let mut begins_at = self.free_at;
        let unasked = self.later.filter(|later| later.is_still_to_be_asked(moment)).map(|later| later.array);
        for &other in &self.arrays {
            let booking = &mut bookings[other as usize];
            if !booking.urgent && (booking.begins_at > moment.time || unasked == Some(other)) {
                begins_at = begins_at.min(booking.begins_at);
                booking.begins_at += ns;
                events.delay(other, ns);
            }
        }
        self.free_at += ns;
        bookings[array as usize] = Booking { begins_at, urgent: true };
        begins_at
    }
}
