//! Channels of the event engine: who transfers when.
//!
//! A channel carries one transfer at a time, first come first served; transfers of reads with priority go before
//! all that have not begun. There are two ways of saying so:
//!
//! - **Granted**: who finds the channel busy waits on a list, and an event at the end of each transfer serves the next.
//!   For devices that suspend programs or group planes, where what follows a transfer depends on when it begins.
//! - **Booked** (a *plain* device): nothing but a read with priority can change when a transfer begins, so its time is known
//!   when it is asked for, and no event is needed. Whoever is overtaken has its next event put off.
//!
//! A copy books both its transfers at once: it will ask for the second when the first ends, and until then everybody who
//! asks goes before it, and it can be withdrawn. Every transfer on a busy channel overtakes some of these, which ones is
//! as good as random, and so their times are moved without a branch: eight arrays side by side, of which those that
//! are not concerned move by nothing ([`Lanes`]). A list of them cost as much as the events that it saved.
//!
//! Invariant of bookings: those that have not begun follow each other without a gap, reads with priority first, then in
//! the order in which they were, or will be, asked for. An array's next event follows the last of its bookings.

#![expect(clippy::inline_always, reason = "measured: 25 % more operations per second than with plain hints")]

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::FlashTiming;
use super::event_queue::{EventClass, EventQueue, KEY_BITS, key, key_behind, time_of};

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
    /// Its first array; its number is a multiple of eight.
    first: u32,
    /// What is booked for its arrays.
    lanes: Vec<Lanes>,
    /// The greatest `asked_at` of all lanes, or greater.
    last_asked: u64,
}

/// What is booked for eight arrays.
#[derive(Clone, Copy, Debug, Default)]
struct Lanes {
    /// When the second transfer of an array's last copy was, or will be, asked for: the key of such an event, and the place
    /// of the array.
    asked_at: [u64; 8],
    /// How long the transfer takes that was booked last; both of a copy take as long.
    ns: [u64; 8],
    /// It is one of a read with priority.
    urgent: [bool; 8],
}

/// A point in the order of what happens: at one instant, events act in the order of their class, then of their array.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Moment {
    key: u64,
    subject: u32,
}

impl Moment {
    /// When an event acts.
    #[inline(always)]
    pub(super) fn of(time: u64, class: EventClass, subject: u32) -> Self {
        Self { key: key(class, time), subject }
    }

    /// When a request arrives: after all events of the instant.
    #[inline(always)]
    pub(super) fn of_arrival(time: u64) -> Self {
        Self { key: key_behind(time), subject: u32::MAX }
    }

    /// The time, in nanoseconds.
    #[inline(always)]
    pub(super) fn time(self) -> u64 {
        time_of(self.key)
    }

    /// Among keys of arrays of one eight, places included, those up to this one have had their turn. At one instant and in
    /// one class that depends on the number of the array: here on that of its eight, and then on its place.
    #[inline(always)]
    fn last_key_of(self, eight: u32) -> u64 {
        match (self.subject / 8).cmp(&eight) {
            Ordering::Less => self.key.saturating_sub(1),
            Ordering::Equal => self.key | u64::from(self.subject % 8),
            Ordering::Greater => self.key | 7,
        }
    }
}

impl Channel {
    /// The channel of `arrays` arrays from `first` on.
    pub(super) fn new(first: u32, arrays: usize) -> Self {
        Self { first, lanes: vec![Lanes::default(); arrays.div_ceil(8)], ..Self::default() }
    }

    /// Which lanes an array has, and its place in them.
    #[inline(always)]
    fn lane_of(&self, array: u32) -> (usize, usize) {
        ((array - self.first) as usize / 8, array as usize % 8)
    }

    /// Puts off by `ns` what is booked and not yet asked for; how long that takes, in nanoseconds.
    #[inline(always)]
    fn overtake(&self, ns: u64, moment: Moment, events: &mut EventQueue) -> u64 {
        if self.last_asked < moment.key {
            return 0;
        }
        let mut later_ns = 0;
        for (eight, lanes) in (self.first / 8..).zip(&self.lanes) {
            let last = moment.last_key_of(eight);
            later_ns += events.delay_later(eight as usize, &lanes.asked_at, last, &lanes.ns, ns);
        }
        later_ns
    }

    /// Makes room for a transfer of `ns` behind all that have been asked for; returns when it begins.
    #[inline(always)]
    fn make_room(&mut self, ns: u64, moment: Moment, events: &mut EventQueue) -> u64 {
        let later_ns = self.overtake(ns, moment, events);
        let begins_at = self.free_at.max(moment.time()) - later_ns;
        self.free_at = begins_at + ns + later_ns;
        self.busy_ns += ns;
        begins_at
    }

    /// Books a transfer of `ns` for an array that asks; returns when it begins.
    #[inline(always)]
    pub(super) fn book(&mut self, array: u32, ns: u64, moment: Moment, events: &mut EventQueue) -> u64 {
        let begins_at = self.make_room(ns, moment, events);
        let (lanes, place) = self.lane_of(array);
        (self.lanes[lanes].ns[place], self.lanes[lanes].urgent[place]) = (ns, false);
        begins_at
    }

    /// Books both transfers of a copy, of `ns` each, for an array that asks for the first, and will ask for the second when
    /// that ends; returns when the second begins.
    #[inline(always)]
    pub(super) fn book_copy(&mut self, array: u32, ns: u64, moment: Moment, events: &mut EventQueue) -> u64 {
        let asked_at = self.make_room(ns, moment, events) + ns;
        let (lanes, place) = self.lane_of(array);
        let lanes = &mut self.lanes[lanes];
        lanes.asked_at[place] = key(EventClass::Transferred, asked_at) | place as u64;
        self.last_asked = lanes.asked_at[place];
        (lanes.ns[place], lanes.urgent[place]) = (ns, false);
        let begins_at = self.free_at;
        self.busy_ns += ns;
        self.free_at += ns;
        begins_at
    }

    /// Takes an array's booking for later back; returns when it would have been asked for, or `None` if it has been.
    pub(super) fn withdraw(&mut self, array: u32, moment: Moment, events: &mut EventQueue) -> Option<u64> {
        let (lanes, place) = self.lane_of(array);
        let (asked_at, ns) = (self.lanes[lanes].asked_at[place], self.lanes[lanes].ns[place]);
        if asked_at <= moment.last_key_of(array / 8) {
            return None;
        }
        self.lanes[lanes].asked_at[place] = 0;
        let others = (self.first..).zip(self.lanes.iter().flat_map(|lanes| lanes.asked_at));
        for (other, _) in others.filter(|&(_, other_asked_at)| other_asked_at > asked_at) {
            events.shift(other, -ns.cast_signed());
        }
        self.busy_ns -= ns;
        self.free_at -= ns;
        Some(time_of(asked_at))
    }

    /// Books a transfer of `ns` of a read with priority: before all others that have not begun.
    pub(super) fn book_urgent(
        &mut self,
        array: u32,
        ns: u64,
        moment: Moment,
        flash: &FlashTiming,
        events: &mut EventQueue,
    ) -> u64 {
        let mut begins_at = self.make_room(ns, moment, events);
        let own = self.lane_of(array);
        for (eight, lanes) in (self.first / 8..).zip(&mut self.lanes) {
            let last = moment.last_key_of(eight);
            let begin_at = events.transfers_begin_at(eight as usize, &lanes.ns, flash);
            for (place, last_begins_at) in begin_at.into_iter().enumerate() {
                let asked_at = &mut lanes.asked_at[place];
                let is_later = *asked_at > last;
                let other_begins_at =
                    if is_later { time_of(*asked_at) - lanes.ns[place] } else { last_begins_at };
                if other_begins_at <= moment.time() || lanes.urgent[place] {
                    continue;
                }
                begins_at = begins_at.min(other_begins_at);
                if is_later {
                    *asked_at += ns << KEY_BITS;
                    self.last_asked = self.last_asked.max(*asked_at);
                } else {
                    events.shift(8 * eight + place as u32, ns.cast_signed());
                }
            }
        }
        (self.lanes[own.0].ns[own.1], self.lanes[own.0].urgent[own.1]) = (ns, true);
        begins_at
    }
}
