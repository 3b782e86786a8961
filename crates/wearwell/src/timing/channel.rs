//! Channels of the event engine: decides which array (die or plane) transfers data over a channel, and when.
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
//! A copy books both its transfers at once: the first moves the page out of the die, the second (the *program
//! transfer*) moves it back in. The program transfer will only be requested when the first transfer ends. Until then
//! every other request precedes it, and it can be withdrawn. Each transfer on a busy channel overtakes some of these
//! program transfers. Which ones is unpredictable, so their times are changed without branches: eight arrays at a time,
//! where those not concerned are postponed by 0 ([`TransferBookingsOfEightArrays`]). A linked list of them cost as much
//! as the events that it saved.
//!
//! Invariant of bookings: transfers that have not begun follow each other without a gap, reads with priority first,
//! then in the order in which they were, or will be, requested. An array's next event comes after the last of its
//! bookings.

#![expect(clippy::inline_always, reason = "measured: 25 % more operations per second than with plain hints")]

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::FlashTiming;
use super::event_queue::{
    EventClass, EventQueue, NON_TIME_KEY_BITS, event_key, last_event_key_at, time_ns_of_key,
};

/// State of one channel: its booked transfers, and the arrays (dies or planes) that wait for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    /// End of the last transfer that was granted or booked on the channel, nanoseconds.
    pub(super) free_at_ns: u64,
    /// Total duration of the transfers on the channel so far, nanoseconds.
    pub(super) busy_ns: u64,
    /// Whether arrays wait for the channel, so that an event [`EventClass::ChannelFree`] is pending at the end of its
    /// current transfer. Arrays that request a transfer then join `urgent_arrays` or `waiting_arrays`.
    pub(super) is_contended: bool,
    /// Arrays (dies or planes) that wait for a transfer with priority on the channel, in order of request.
    pub(super) urgent_arrays: VecDeque<u32>,
    /// Arrays (dies or planes) that wait for a transfer without priority on the channel, in order of request.
    pub(super) waiting_arrays: VecDeque<u32>,
    /// Number of the channel's first array (die or plane), a multiple of eight.
    first_array_number: u32,
    /// Booked transfers of the channel's arrays (dies or planes); each element has those of a group of eight arrays.
    transfer_bookings_by_group_of_eight: Vec<TransferBookingsOfEightArrays>,
    /// Upper bound of the event keys (time, class) at which arrays request the second transfer of a page copy, which
    /// precedes the program; over all arrays of the channel.
    max_copy_program_transfer_request_key: u64,
}

/// Channel transfers booked by eight arrays (dies or planes) of one channel.
#[derive(Clone, Copy, Debug, Default)]
struct TransferBookingsOfEightArrays {
    /// For each array of the group of eight, the event key (time, class, position in the group) at which the second
    /// transfer of its last page copy was, or will be, requested. That transfer precedes the program.
    copy_program_transfer_request_keys: [u64; 8],
    /// For each array of the group of eight, the duration of its channel transfer booked last, nanoseconds. Both
    /// transfers of a page copy have this duration.
    booked_transfer_duration_ns: [u64; 8],
    /// For each array (die or plane) of the group of eight, whether its latest booked channel transfer belongs to a
    /// host read with priority. Such a transfer is not overtaken.
    is_priority_read: [bool; 8],
}

/// A position in the order of simulated events, in which events are sorted by time, then by event class, then by the
/// number of their array (die or plane).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct EventPosition {
    /// Key of the event: its time and its class.
    time_and_class_key: u64,
    /// Number of the source of the event: an array, channel, request or NVRAM scan.
    source_number: u32,
}

impl EventPosition {
    /// Returns the position of an event in the order of simulated events.
    #[inline(always)]
    pub(super) fn of_event(time_ns: u64, class: EventClass, source_number: u32) -> Self {
        Self { time_and_class_key: event_key(class, time_ns), source_number }
    }

    /// Returns the position, in the order of simulated events, of a request that arrives at `time_ns`: after all events
    /// of that time.
    #[inline(always)]
    pub(super) fn after_events_at(time_ns: u64) -> Self {
        Self { time_and_class_key: last_event_key_at(time_ns), source_number: u32::MAX }
    }

    /// Returns the time of this position in the order of simulated events, nanoseconds.
    #[inline(always)]
    pub(super) fn time_ns(self) -> u64 {
        time_ns_of_key(self.time_and_class_key)
    }

    /// Returns the greatest event key that an array in group number `group_index` of eight arrays can have at or before
    /// this position. The key includes the array's position in the group; among events of one time and class, smaller
    /// array numbers come first.
    #[inline(always)]
    fn last_event_key_in_group(self, group_index: u32) -> u64 {
        match (self.source_number / 8).cmp(&group_index) {
            Ordering::Less => self.time_and_class_key.saturating_sub(1),
            Ordering::Equal => self.time_and_class_key | u64::from(self.source_number % 8),
            Ordering::Greater => self.time_and_class_key | 7,
        }
    }
}

impl Channel {
    /// Creates the channel of `arrays` arrays (dies or planes), numbered from `first_array_number` on.
    pub(super) fn new(first_array_number: u32, arrays: usize) -> Self {
        Self {
            first_array_number,
            transfer_bookings_by_group_of_eight: vec![
                TransferBookingsOfEightArrays::default();
                arrays.div_ceil(8)
            ],
            ..Self::default()
        }
    }

    /// Returns where the transfer bookings of an array (die or plane) are: the index of its group of eight arrays, and
    /// its position in the group.
    #[inline(always)]
    fn group_and_position_of_array(&self, array: u32) -> (usize, usize) {
        ((array - self.first_array_number) as usize / 8, array as usize % 8)
    }

    /// Postpones by `delay_ns` nanoseconds all booked channel transfers that their arrays request only after
    /// `request_position`. Returns the total duration of these transfers, nanoseconds.
    #[inline(always)]
    fn postpone_transfers_requested_after(
        &self,
        delay_ns: u64,
        request_position: EventPosition,
        events: &mut EventQueue,
    ) -> u64 {
        if self.max_copy_program_transfer_request_key < request_position.time_and_class_key {
            return 0;
        }
        let mut later_ns = 0;
        for (eight, lanes) in (self.first_array_number / 8..).zip(&self.transfer_bookings_by_group_of_eight) {
            let last = request_position.last_event_key_in_group(eight);
            later_ns += events.delay_transfers_requested_after(
                last,
                eight as usize,
                &lanes.copy_program_transfer_request_keys,
                &lanes.booked_transfer_duration_ns,
                delay_ns,
            );
        }
        later_ns
    }

    /// Reserves `transfer_ns` nanoseconds on the channel for a transfer, after all transfers that have been requested
    /// so far. Returns the start of the transfer.
    #[inline(always)]
    fn reserve_transfer_returning_start_ns(
        &mut self,
        transfer_ns: u64,
        request_position: EventPosition,
        events: &mut EventQueue,
    ) -> u64 {
        let later_ns = self.postpone_transfers_requested_after(transfer_ns, request_position, events);
        let begins_at = self.free_at_ns.max(request_position.time_ns()) - later_ns;
        self.free_at_ns = begins_at + transfer_ns + later_ns;
        self.busy_ns += transfer_ns;
        begins_at
    }

    /// Books a channel transfer of `transfer_ns` nanoseconds for an array (die or plane) that requests it at
    /// `request_position`. Returns the start of the transfer.
    #[inline(always)]
    pub(super) fn book_transfer_returning_start_ns(
        &mut self,
        array: u32,
        transfer_ns: u64,
        request_position: EventPosition,
        events: &mut EventQueue,
    ) -> u64 {
        let begins_at = self.reserve_transfer_returning_start_ns(transfer_ns, request_position, events);
        let (lanes, place) = self.group_and_position_of_array(array);
        (
            self.transfer_bookings_by_group_of_eight[lanes].booked_transfer_duration_ns[place],
            self.transfer_bookings_by_group_of_eight[lanes].is_priority_read[place],
        ) = (transfer_ns, false);
        begins_at
    }

    /// Books both channel transfers of a page copy, `transfer_ns` nanoseconds each. The first is requested at once. The
    /// second, before the program, will be requested when the first ends. Returns the start of the second, nanoseconds.
    #[inline(always)]
    pub(super) fn book_copy_transfers_returning_second_start_ns(
        &mut self,
        array: u32,
        transfer_ns: u64,
        moment: EventPosition,
        events: &mut EventQueue,
    ) -> u64 {
        let requested_at =
            self.reserve_transfer_returning_start_ns(transfer_ns, moment, events) + transfer_ns;
        let (lanes, place) = self.group_and_position_of_array(array);
        let lanes = &mut self.transfer_bookings_by_group_of_eight[lanes];
        lanes.copy_program_transfer_request_keys[place] =
            event_key(EventClass::Transferred, requested_at) | place as u64;
        self.max_copy_program_transfer_request_key = lanes.copy_program_transfer_request_keys[place];
        (lanes.booked_transfer_duration_ns[place], lanes.is_priority_read[place]) = (transfer_ns, false);
        let begins_at = self.free_at_ns;
        self.busy_ns += transfer_ns;
        self.free_at_ns += transfer_ns;
        begins_at
    }

    /// Withdraws the second channel transfer of an array's page copy (the one before the program), if the transfer has
    /// been booked but not requested. Returns the time at which it would have been requested; `None` if it has been
    /// requested already.
    pub(super) fn withdraw_program_transfer_of_copy(
        &mut self,
        array: u32,
        moment: EventPosition,
        events: &mut EventQueue,
    ) -> Option<u64> {
        let (lanes, place) = self.group_and_position_of_array(array);
        let (requested_at, ns) = (
            self.transfer_bookings_by_group_of_eight[lanes].copy_program_transfer_request_keys[place],
            self.transfer_bookings_by_group_of_eight[lanes].booked_transfer_duration_ns[place],
        );
        if requested_at <= moment.last_event_key_in_group(array / 8) {
            return None;
        }
        self.transfer_bookings_by_group_of_eight[lanes].copy_program_transfer_request_keys[place] = 0;
        let others = (self.first_array_number..).zip(
            self.transfer_bookings_by_group_of_eight
                .iter()
                .flat_map(|lanes| lanes.copy_program_transfer_request_keys),
        );
        for (other, _) in others.filter(|&(_, other_asked_at)| other_asked_at > requested_at) {
            events.postpone_array_event(other, -ns.cast_signed());
        }
        self.busy_ns -= ns;
        self.free_at_ns -= ns;
        Some(time_ns_of_key(requested_at))
    }

    /// Books a channel transfer of `transfer_ns` nanoseconds for a host read with priority. It precedes all other
    /// transfers that have not begun, which are postponed. Returns the start of the transfer.
    pub(super) fn book_urgent_transfer_returning_start_ns(
        &mut self,
        array: u32,
        transfer_ns: u64,
        moment: EventPosition,
        flash: &FlashTiming,
        events: &mut EventQueue,
    ) -> u64 {
        let mut begins_at = self.reserve_transfer_returning_start_ns(transfer_ns, moment, events);
        let own = self.group_and_position_of_array(array);
        for (eight, lanes) in
            (self.first_array_number / 8..).zip(&mut self.transfer_bookings_by_group_of_eight)
        {
            let last = moment.last_event_key_in_group(eight);
            let begin_at =
                events.transfer_starts_ns(eight as usize, &lanes.booked_transfer_duration_ns, flash);
            for (place, last_begins_at) in begin_at.into_iter().enumerate() {
                let requested_at = &mut lanes.copy_program_transfer_request_keys[place];
                let is_later = *requested_at > last;
                let other_begins_at = if is_later {
                    time_ns_of_key(*requested_at) - lanes.booked_transfer_duration_ns[place]
                } else {
                    last_begins_at
                };
                if other_begins_at <= moment.time_ns() || lanes.is_priority_read[place] {
                    continue;
                }
                begins_at = begins_at.min(other_begins_at);
                if is_later {
                    *requested_at += transfer_ns << NON_TIME_KEY_BITS;
                    self.max_copy_program_transfer_request_key =
                        self.max_copy_program_transfer_request_key.max(*requested_at);
                } else {
                    events.postpone_array_event(8 * eight + place as u32, transfer_ns.cast_signed());
                }
            }
        }
        (
            self.transfer_bookings_by_group_of_eight[own.0].booked_transfer_duration_ns[own.1],
            self.transfer_bookings_by_group_of_eight[own.0].is_priority_read[own.1],
        ) = (transfer_ns, true);
        begins_at
    }
}
