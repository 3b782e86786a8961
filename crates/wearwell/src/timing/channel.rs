//! Channels of the event engine: which array (die or plane) transfers when.
//!
//! A channel carries one transfer at a time, first come first served. Transfers of reads with priority precede all
//! others that have not begun. There are two implementations:
//!
//! - **Granted**: an array that finds the channel busy waits in a queue, and an event at the end of each transfer
//!   starts the next. For devices that suspend programs or group planes, because there the events after a transfer
//!   depend on when it begins.
//! - **Booked** (a *plain* device): only a read with priority can change when a transfer begins. So its time is known
//!   when it is requested, and no event is needed. If a transfer is overtaken, the next event of its array is
//!   postponed.
//!
//! A copy books both its transfers at once. The second will only be requested when the first ends; until then every
//! other request precedes it, and it can be withdrawn. Each transfer on a busy channel overtakes some of these second
//! transfers. Which ones is unpredictable, so their times are changed without branches: eight arrays at a time, where
//! those not concerned are postponed by 0 ([`Lanes`]). A linked list of them cost as much as the events that it saved.
//!
//! Invariant of bookings: transfers that have not begun follow each other without a gap, reads with priority first,
//! then in the order in which they were, or will be, requested. An array's next event comes after the last of its
//! bookings.

#![expect(clippy::inline_always, reason = "measured: 25 % more operations per second than with plain hints")]

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::FlashTiming;
use super::event_queue::{EventClass, EventQueue, NON_TIME_KEY_BITS, event_key, last_key_at, time_of_key};

/// State of one channel: its booked transfers, and the arrays (dies or planes) that wait for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    /// End of the last transfer that was granted or booked on the channel, nanoseconds.
    pub(super) free_at_ns: u64,
    pub(super) busy_ns: u64,
    /// Whether an event [`EventClass::ChannelFree`] is pending. New transfers then join a queue of the channel.
    pub(super) is_contended: bool,
    /// Arrays (dies or planes) that wait for a transfer with priority on the channel, in order of request.
    pub(super) urgent_arrays: VecDeque<u32>,
    /// Arrays (dies or planes) that wait for a transfer without priority on the channel, in order of request.
    pub(super) waiting_arrays: VecDeque<u32>,
    /// Number of the channel's first array (die or plane), a multiple of eight.
    first: u32,
    /// Booked channel transfers of the channel's arrays (dies or planes), eight arrays per element.
    lanes: Vec<Lanes>,
    /// Upper bound, over all arrays of the channel, of the event keys at which the second transfers of page copies are
    /// requested.
    last_requested: u64,
}

/// Channel transfers booked by eight arrays (dies or planes) of one channel.
#[derive(Clone, Copy, Debug, Default)]
struct Lanes {
    /// For each of the eight arrays the event key (time, class, position among the eight) at which the second transfer
    /// of its last page copy was, or will be, requested.
    requested_at: [u64; 8],
    /// For each of the eight arrays the duration of the channel transfer booked last, nanoseconds; both transfers of a
    /// page copy have this duration.
    ns: [u64; 8],
    /// For each of the eight arrays whether the channel transfer booked last is that of a host read with priority.
    urgent: [bool; 8],
}

/// A position in the order of simulated events: time, then event class, then number of the array (die or plane).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct EventPosition {
    key: u64,
    subject: u32,
}

impl EventPosition {
    /// Returns the position of an event in the order of simulated events.
    #[inline(always)]
    pub(super) fn of_event(time: u64, class: EventClass, subject: u32) -> Self {
        Self { key: event_key(class, time), subject }
    }

    /// Returns the position, in the order of simulated events, of a request that arrives at `time`: after all events of
    /// that time.
    #[inline(always)]
    pub(super) fn of_arrival(time: u64) -> Self {
        Self { key: last_key_at(time), subject: u32::MAX }
    }

    /// Returns the time of this position in the order of simulated events, nanoseconds.
    #[inline(always)]
    pub(super) fn time_ns(self) -> u64 {
        time_of_key(self.key)
    }

    /// Returns the greatest event key that an array in group number `eight` of eight arrays can have at or before this
    /// position. The key includes the array's position in the group; among events of one time and class, smaller array
    /// numbers come first.
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
    /// Creates the channel of `arrays` arrays (dies or planes), numbered from `first` on.
    pub(super) fn new(first: u32, arrays: usize) -> Self {
        Self { first, lanes: vec![Lanes::default(); arrays.div_ceil(8)], ..Self::default() }
    }

    /// Returns where the bookings of an array (die or plane) are: the index of its group of eight, and its position in
    /// the group.
    #[inline(always)]
    fn lane_of(&self, array: u32) -> (usize, usize) {
        ((array - self.first) as usize / 8, array as usize % 8)
    }

    /// Postpones by `ns` nanoseconds all booked channel transfers that are requested only after `moment`. Returns the
    /// total duration of these transfers, nanoseconds.
    #[inline(always)]
    fn overtake(&self, ns: u64, moment: EventPosition, events: &mut EventQueue) -> u64 {
        if self.last_requested < moment.key {
            return 0;
        }
        let mut later_ns = 0;
        for (eight, lanes) in (self.first / 8..).zip(&self.lanes) {
            let last = moment.last_key_of(eight);
            later_ns +=
                events.postpone_later_transfers(eight as usize, &lanes.requested_at, last, &lanes.ns, ns);
        }
        later_ns
    }

    /// Reserves `ns` nanoseconds on the channel for a transfer, after all transfers that have been requested so far.
    /// Returns the start of the transfer.
    #[inline(always)]
    fn make_room(&mut self, ns: u64, moment: EventPosition, events: &mut EventQueue) -> u64 {
        let later_ns = self.overtake(ns, moment, events);
        let begins_at = self.free_at_ns.max(moment.time_ns()) - later_ns;
        self.free_at_ns = begins_at + ns + later_ns;
        self.busy_ns += ns;
        begins_at
    }

    /// Books a channel transfer of `ns` nanoseconds for an array (die or plane) that requests it at `moment`. Returns
    /// the start of the transfer.
    #[inline(always)]
    pub(super) fn book_transfer(
        &mut self,
        array: u32,
        ns: u64,
        moment: EventPosition,
        events: &mut EventQueue,
    ) -> u64 {
        let begins_at = self.make_room(ns, moment, events);
        let (lanes, place) = self.lane_of(array);
        (self.lanes[lanes].ns[place], self.lanes[lanes].urgent[place]) = (ns, false);
        begins_at
    }

    /// Books both channel transfers of a page copy, `ns` nanoseconds each. The first is requested at once, the second
    /// will be requested when the first ends. Returns the start of the second.
    #[inline(always)]
    pub(super) fn book_copy_transfers(
        &mut self,
        array: u32,
        ns: u64,
        moment: EventPosition,
        events: &mut EventQueue,
    ) -> u64 {
        let requested_at = self.make_room(ns, moment, events) + ns;
        let (lanes, place) = self.lane_of(array);
        let lanes = &mut self.lanes[lanes];
        lanes.requested_at[place] = event_key(EventClass::Transferred, requested_at) | place as u64;
        self.last_requested = lanes.requested_at[place];
        (lanes.ns[place], lanes.urgent[place]) = (ns, false);
        let begins_at = self.free_at_ns;
        self.busy_ns += ns;
        self.free_at_ns += ns;
        begins_at
    }

    /// Withdraws the second channel transfer of an array's page copy, if the transfer has been booked but not
    /// requested. Returns the time at which it would have been requested; `None` if it has been requested already.
    pub(super) fn withdraw_second_transfer(
        &mut self,
        array: u32,
        moment: EventPosition,
        events: &mut EventQueue,
    ) -> Option<u64> {
        let (lanes, place) = self.lane_of(array);
        let (requested_at, ns) = (self.lanes[lanes].requested_at[place], self.lanes[lanes].ns[place]);
        if requested_at <= moment.last_key_of(array / 8) {
            return None;
        }
        self.lanes[lanes].requested_at[place] = 0;
        let others = (self.first..).zip(self.lanes.iter().flat_map(|lanes| lanes.requested_at));
        for (other, _) in others.filter(|&(_, other_asked_at)| other_asked_at > requested_at) {
            events.postpone(other, -ns.cast_signed());
        }
        self.busy_ns -= ns;
        self.free_at_ns -= ns;
        Some(time_of_key(requested_at))
    }

    /// Books a channel transfer of `ns` nanoseconds for a host read with priority. It precedes all other transfers that
    /// have not begun, which are postponed. Returns the start of the transfer.
    pub(super) fn book_urgent_transfer(
        &mut self,
        array: u32,
        ns: u64,
        moment: EventPosition,
        flash: &FlashTiming,
        events: &mut EventQueue,
    ) -> u64 {
        let mut begins_at = self.make_room(ns, moment, events);
        let own = self.lane_of(array);
        for (eight, lanes) in (self.first / 8..).zip(&mut self.lanes) {
            let last = moment.last_key_of(eight);
            let begin_at = events.transfers_begin_at(eight as usize, &lanes.ns, flash);
            for (place, last_begins_at) in begin_at.into_iter().enumerate() {
                let requested_at = &mut lanes.requested_at[place];
                let is_later = *requested_at > last;
                let other_begins_at =
                    if is_later { time_of_key(*requested_at) - lanes.ns[place] } else { last_begins_at };
                if other_begins_at <= moment.time_ns() || lanes.urgent[place] {
                    continue;
                }
                begins_at = begins_at.min(other_begins_at);
                if is_later {
                    *requested_at += ns << NON_TIME_KEY_BITS;
                    self.last_requested = self.last_requested.max(*requested_at);
                } else {
                    events.postpone(8 * eight + place as u32, ns.cast_signed());
                }
            }
        }
        (self.lanes[own.0].ns[own.1], self.lanes[own.0].urgent[own.1]) = (ns, true);
        begins_at
    }
}
