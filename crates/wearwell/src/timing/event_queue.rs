//! The future event list of the event engine.
//!
//! An array (die or plane) waits for one thing at a time: the end of a read, of a transfer, of a program. So each array
//! has one next event, stored as a number that it may replace or postpone; there are no void or cancelled events. The
//! earliest event is found by a tournament tree ([`EventKeyTree`]): the least in each group of eight, then the least of
//! eight such groups. Removing the earliest event recomputes two minima of eight numbers, without branches. Setting an
//! event compares it with the least of its eight, which rarely changes. The next array is thus known while the current
//! event is still being handled. This matters more than the number of instructions, because the state of the next array
//! is at a random address in memory.
//!
//! Sorted rings, one per class of events, are no faster, and they keep an overtaken event until its old time comes.
//! Binary heaps are slower. The price of the tournament tree: with more than 64 arrays, one more minimum per further 64
//! arrays at every event, whether or not these arrays are busy.
//!
//! Two kinds of events are stored separately, because most devices have few of them: channels that become free while
//! transfers wait, and answers delayed by the controller.
//!
//! Invariant: simultaneous events are ordered by [`EventClass`], then by number of array, channel or request,
//! independent of the order in which they were created.

#![expect(clippy::inline_always, reason = "measured: 25 % more operations per second than with plain hints")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::FlashTiming;

/// Class of a simulated event. Simultaneous events are handled in the order of their classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum EventClass {
    /// A channel becomes free while a transfer waits for it. The event's number is that of the channel.
    ChannelFree,
    /// End of tR (array read) of a page. The event's number is that of the array (die or plane).
    ReadSensed,
    /// End of a channel transfer after which the array (die or plane) must act. The event's number is that of the
    /// array.
    Transferred,
    /// End of tPROG of a program. The event's number is that of the array (die or plane).
    Programmed,
    /// End of tBERS of an erase. The event's number is that of the array (die or plane).
    Erased,
    /// End of the controller overhead of a request, which is then answered. The event's number is that of the request.
    Acknowledged,
    /// End of a scan of NVRAM. The event's number is that of the scan.
    NvramScanEnded,
}

impl EventClass {
    /// Whether events of this class concern an array (die or plane).
    #[inline(always)]
    pub(super) fn is_array_event(self) -> bool {
        matches!(self, Self::ReadSensed | Self::Transferred | Self::Programmed | Self::Erased)
    }

    /// Returns the class that is encoded in the key of an event of an array (die or plane).
    #[inline(always)]
    fn event_class_of_key(key: u64) -> Self {
        match key >> 3 & 3 {
            0 => Self::ReadSensed,
            1 => Self::Transferred,
            2 => Self::Programmed,
            _ => Self::Erased,
        }
    }
}

/// One event of the timing simulation: time, class, and the array, channel, request or scan that it concerns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TimingEvent {
    /// Time of the event, nanoseconds.
    pub(super) time_ns: u64,
    /// Class of the event, such as the end of tR or of a transfer.
    pub(super) class: EventClass,
    /// Number of the source of the event: an array, channel, request or NVRAM scan.
    pub(super) source_number: u32,
}

/// Bit that is set in the number of an NVRAM scan where numbers of requests and scans are stored together.
const NVRAM_SCAN_NUMBER_FLAG: u32 = 1 << 31;

/// Number of low bits in an event key that do not encode the time: the event class and the position in a group of eight
/// arrays.
pub(super) const NON_TIME_KEY_BITS: u32 = 5;

/// Latest possible time of an event, in nanoseconds: 18 years.
const MAX_EVENT_NS: u64 = (1 << (64 - NON_TIME_KEY_BITS)) - 2;

/// Latest possible arrival time of a request, nanoseconds: half of the latest event time, so that the events that the
/// request causes can be represented.
pub const MAX_ARRIVAL_NS: u64 = MAX_EVENT_NS / 2;

/// Returns the key of an event of an array (die or plane): time, class, and three zero bits for the position of the
/// array in its group of eight arrays. Keys sort in the order of the events. For classes that do not concern arrays
/// only the time is encoded.
#[inline(always)]
pub(super) fn event_key(class: EventClass, time_ns: u64) -> u64 {
    time_ns << NON_TIME_KEY_BITS | (class as u64).wrapping_sub(EventClass::ReadSensed as u64) << 3 & 0x1f
}

/// Returns an event key that is greater than those of all events at `time_ns`.
#[inline(always)]
pub(super) fn last_event_key_at(time_ns: u64) -> u64 {
    time_ns << NON_TIME_KEY_BITS | 0x1f
}

/// Returns the time that an event key contains, nanoseconds.
#[inline(always)]
pub(super) fn time_ns_of_key(key: u64) -> u64 {
    key >> NON_TIME_KEY_BITS
}

/// Event keys (times and classes) of the next events of eight arrays or channels; the last three bits of each key are
/// its position among the eight.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct EightEventKeys([u64; 8]);

impl EightEventKeys {
    /// Keys of eight arrays or channels without an event.
    const EMPTY: Self = Self([u64::MAX; 8]);

    /// Returns the least of eight event keys. The minimum is computed as a tree, with few dependent steps and no
    /// branch.
    #[inline(always)]
    fn least_event_key(&self) -> u64 {
        let four: [u64; 4] = std::array::from_fn(|k| self.0[2 * k].min(self.0[2 * k + 1]));
        four[0].min(four[1]).min(four[2].min(four[3]))
    }
}

/// Event keys (times and classes) of the next events of 64 arrays or channels.
#[derive(Clone, Debug)]
struct KeysOf64EventSources {
    /// Event keys of the 64 arrays or channels, in groups of eight.
    keys_by_group_of_eight: [EightEventKeys; 8],
    /// Least event key (time and class) in each of the eight groups of eight arrays or channels.
    least_key_by_group_of_eight: [u64; 8],
    /// Least event key in each of the eight groups of eight arrays or channels. The lowest bits of each key are
    /// replaced by the number of the group, from 0 to 7.
    least_keys_tagged_with_group_number: EightEventKeys,
}

impl KeysOf64EventSources {
    /// Keys of 64 arrays or channels without an event.
    const EMPTY: Self = Self {
        keys_by_group_of_eight: [EightEventKeys::EMPTY; 8],
        least_key_by_group_of_eight: [u64::MAX; 8],
        least_keys_tagged_with_group_number: EightEventKeys::EMPTY,
    };

    /// Sets the key (time and class) of the next event of an array or channel. Returns whether the least key in its
    /// group of eight changed. That is rare, because only one key of eight is the least.
    #[inline(always)]
    fn set_event_key(&mut self, member: usize, key: u64) -> bool {
        let (eight, place) = (member / 8 % 8, member % 8);
        let (key, least) = (key | place as u64, self.least_key_by_group_of_eight[eight]);
        self.keys_by_group_of_eight[eight].0[place] = key;
        if key < least {
            self.least_key_by_group_of_eight[eight] = key;
            self.least_keys_tagged_with_group_number.0[eight] = key & !7 | eight as u64;
            return true;
        }
        if least % 8 == place as u64 {
            self.recompute_least_key_of_group(eight);
            return true;
        }
        false
    }

    /// Recomputes the least event key of the group of eight arrays or channels with number `eight` (0 to 7).
    #[inline(always)]
    fn recompute_least_key_of_group(&mut self, eight: usize) {
        let least = self.keys_by_group_of_eight[eight].least_event_key();
        self.least_key_by_group_of_eight[eight] = least;
        self.least_keys_tagged_with_group_number.0[eight] = least & !7 | eight as u64;
    }
}

/// Search structure for the earliest of many events: finds the array or channel with the least event key.
#[derive(Clone, Debug)]
struct EventKeyTree {
    /// Event keys of all arrays or channels, in groups of 64.
    keys_by_group_of_64: Vec<KeysOf64EventSources>,
    /// Least event key of all arrays or channels; the position bits of the key are undefined.
    least_event_key: u64,
    /// Number of the array or channel with the earliest event. Stored so that it is known before that event is handled.
    earliest_event_source: u32,
}

impl EventKeyTree {
    /// Creates a search structure for `array_or_channel_count` arrays or channels without an event.
    fn new(array_or_channel_count: usize) -> Self {
        Self {
            keys_by_group_of_64: vec![
                KeysOf64EventSources::EMPTY;
                array_or_channel_count.div_ceil(64).max(1)
            ],
            least_event_key: u64::MAX,
            earliest_event_source: 0,
        }
    }

    /// Returns the key (time and class) of the next event of the array or channel `source`. The low bits, which the
    /// tree uses for the position in a group of eight, are zero.
    #[inline(always)]
    fn event_key_of_source(&self, source: u32) -> u64 {
        self.keys_by_group_of_64[source as usize / 64].keys_by_group_of_eight[source as usize / 8 % 8].0
            [source as usize % 8]
            & !7
    }

    /// Sets the key (time and class) of the next event of an array or channel, which replaces the current one.
    #[inline(always)]
    fn set_event_key(&mut self, source: u32, key: u64) {
        if self.keys_by_group_of_64[source as usize / 64].set_event_key(source as usize % 64, key) {
            self.update_earliest_event();
        }
    }

    /// Removes the earliest event and returns the number of its array or channel.
    #[inline(always)]
    fn pop_earliest_event(&mut self) -> u32 {
        let first = self.earliest_event_source;
        let (group, eight, place) = (first as usize / 64, first as usize / 8 % 8, first as usize % 8);
        let group = &mut self.keys_by_group_of_64[group];
        group.keys_by_group_of_eight[eight].0[place] = u64::MAX;
        group.recompute_least_key_of_group(eight);
        self.update_earliest_event();
        first
    }

    /// Returns the event keys of the group with number `eight`, a group of eight arrays or channels, to be changed.
    #[inline(always)]
    fn event_keys_of_group_mut(&mut self, eight: usize) -> &mut [u64; 8] {
        &mut self.keys_by_group_of_64[eight / 8].keys_by_group_of_eight[eight % 8].0
    }

    /// Recomputes the least event key of group `group_index` (eight arrays or channels) after keys of the group were
    /// increased, if the least key was among them.
    #[inline(always)]
    fn update_after_key_increase(&mut self, group_index: usize) {
        let (group, eight) = (&mut self.keys_by_group_of_64[group_index / 8], group_index % 8);
        let least = group.least_key_by_group_of_eight[eight];
        if group.keys_by_group_of_eight[eight].0[(least % 8) as usize] != least {
            group.recompute_least_key_of_group(eight);
            self.update_earliest_event();
        }
    }

    /// Finds the least event key of all arrays or channels, and stores it with the number of its array or channel.
    #[inline(always)]
    fn update_earliest_event(&mut self) {
        let group = if let [_] = self.keys_by_group_of_64[..] {
            0
        } else {
            group_with_earliest_event(&self.keys_by_group_of_64)
        };
        let KeysOf64EventSources {
            least_key_by_group_of_eight,
            least_keys_tagged_with_group_number: least_keys_with_group,
            ..
        } = &self.keys_by_group_of_64[group];
        self.least_event_key = least_keys_with_group.least_event_key();
        let eight = (self.least_event_key % 8) as usize;
        self.earliest_event_source =
            (64 * group + 8 * eight) as u32 + (least_key_by_group_of_eight[eight] % 8) as u32;
    }
}

/// Returns the index of the group of 64 arrays or channels with the earliest event; the first such group if several are
/// equal.
#[inline(never)]
fn group_with_earliest_event(groups: &[KeysOf64EventSources]) -> usize {
    let keys = groups.iter().map(|group| group.least_keys_tagged_with_group_number.least_event_key() & !7);
    keys.enumerate().min_by_key(|&(_, key)| key).map_or(0, |(index, _)| index)
}

/// All pending events of the timing simulation. The earliest is found without a search.
#[derive(Clone, Debug)]
pub(super) struct EventQueue {
    /// Next event of each array (die or plane).
    array_events: EventKeyTree,
    /// For each channel for which a transfer waits, the time at which the channel becomes free.
    channel_free_events: EventKeyTree,
    /// Times at which the controller answers host requests and at which NVRAM scans end, each with the number of the
    /// request or scan. They are kept in a heap, because there are few.
    request_answers_and_nvram_scan_ends: BinaryHeap<Reverse<(u64, u32)>>,
    /// Key of the next event that does not belong to an array (an event of a channel, the answer to a request, or the
    /// end of an NVRAM scan). Array events with smaller keys are handled first.
    next_non_array_event_key: u64,
}

impl EventQueue {
    /// Creates an empty queue of events for a device of `arrays` arrays (dies or planes) and `channels` channels.
    pub(super) fn new(arrays: usize, channels: usize) -> Self {
        Self {
            array_events: EventKeyTree::new(arrays),
            channel_free_events: EventKeyTree::new(channels),
            request_answers_and_nvram_scan_ends: BinaryHeap::new(),
            next_non_array_event_key: u64::MAX,
        }
    }

    /// Sets the next event of an array (die or plane), which replaces the array's current one, if any.
    #[inline(always)]
    pub(super) fn set_array_event(&mut self, array: u32, class: EventClass, time_ns: u64) {
        self.array_events.set_event_key(array, event_key(class, time_ns));
    }

    /// Returns the time of the next event of an array (die or plane), nanoseconds. The event must exist.
    #[inline(always)]
    pub(super) fn next_array_event_ns(&self, array: u32) -> u64 {
        time_ns_of_key(self.array_events.event_key_of_source(array))
    }

    /// Postpones the next event of an array (die or plane) by `delay_ns` nanoseconds, or moves it forward in time if
    /// `delay_ns` is negative. The event must exist.
    #[inline(always)]
    pub(super) fn postpone_array_event(&mut self, array: u32, delay_ns: i64) {
        self.array_events.set_event_key(
            array,
            self.array_events.event_key_of_source(array).wrapping_add_signed(delay_ns << NON_TIME_KEY_BITS),
        );
    }

    /// For each array (die or plane) of a group of eight whose channel transfer is requested after the event key
    /// `after_request_key`, delays the array's next event by `delay_ns` nanoseconds. Returns the total duration of
    /// these transfers, nanoseconds. Computed without branches, because it is unpredictable which arrays are concerned.
    #[inline(always)]
    pub(super) fn delay_transfers_requested_after(
        &mut self,
        after_request_key: u64,
        index_of_eight_arrays: usize,
        request_keys: &[u64; 8],
        transfer_ns: &[u64; 8],
        delay_ns: u64,
    ) -> u64 {
        let (mut sum_ns, delay) = (0, delay_ns << NON_TIME_KEY_BITS);
        let keys = self.array_events.event_keys_of_group_mut(index_of_eight_arrays);
        for place in 0..8 {
            let mask = u64::from(request_keys[place] > after_request_key).wrapping_neg();
            sum_ns += mask & transfer_ns[place];
            keys[place] = keys[place].wrapping_add(mask & delay);
        }
        self.array_events.update_after_key_increase(index_of_eight_arrays);
        sum_ns
    }

    /// Returns, for each of eight arrays (dies or planes), the start of the channel transfer that precedes the array's
    /// next event, nanoseconds; 0 if there is none.
    #[inline(always)]
    pub(super) fn transfer_starts_ns(
        &self,
        group_index: usize,
        transfer_ns: &[u64; 8],
        flash: &FlashTiming,
    ) -> [u64; 8] {
        let behind_ns = [flash.program_ns + flash.read_ns, 0, flash.program_ns, u64::MAX];
        let keys =
            self.array_events.keys_by_group_of_64[group_index / 8].keys_by_group_of_eight[group_index % 8].0;
        std::array::from_fn(|place| {
            let class = (keys[place] >> 3) as usize % 4;
            time_ns_of_key(keys[place]).saturating_sub(behind_ns[class]).saturating_sub(transfer_ns[place])
        })
    }

    /// Schedules the event that a channel becomes free while a transfer waits for it.
    pub(super) fn set_channel_free_event(&mut self, channel: u32, time_ns: u64) {
        self.channel_free_events.set_event_key(channel, time_ns << NON_TIME_KEY_BITS);
        self.update_non_array_event_key();
    }

    /// Schedules the controller's answer to a request at `time_ns`.
    pub(super) fn schedule_answer(&mut self, request: u32, time_ns: u64) {
        self.request_answers_and_nvram_scan_ends.push(Reverse((time_ns, request)));
        self.update_non_array_event_key();
    }

    /// Schedules the end of an NVRAM scan.
    pub(super) fn schedule_scan_end(&mut self, scan: u32, time_ns: u64) {
        self.schedule_answer(scan | NVRAM_SCAN_NUMBER_FLAG, time_ns);
    }

    /// Recomputes the key of the next event that does not belong to an array: an event of a channel, the answer to a
    /// request, or the end of an NVRAM scan. At equal times, channel events precede all array events, and answers and
    /// scan ends follow them.
    fn update_non_array_event_key(&mut self) {
        let answer = self
            .request_answers_and_nvram_scan_ends
            .peek()
            .map_or(u64::MAX, |answer| (answer.0.0 + 1) << NON_TIME_KEY_BITS);
        let free = time_ns_of_key(self.channel_free_events.least_event_key) << NON_TIME_KEY_BITS;
        self.next_non_array_event_key = answer.min(free);
    }

    /// Whether an event may be due at time `limit_ns` or before. `false` is certain, `true` is not.
    #[inline(always)]
    pub(super) fn may_have_due_event(&self, limit_ns: u64) -> bool {
        self.array_events.least_event_key.min(self.next_non_array_event_key)
            <= (limit_ns.min(MAX_EVENT_NS) + 1) << NON_TIME_KEY_BITS
    }

    /// Removes and returns the earliest event of the simulation, if it is due at time `limit_ns` or before.
    #[inline(always)]
    pub(super) fn pop_event_until(&mut self, limit_ns: u64) -> Option<TimingEvent> {
        let least = self.array_events.least_event_key;
        if least >= self.next_non_array_event_key {
            return self.pop_non_array_event(limit_ns);
        }
        let time_ns = time_ns_of_key(least);
        if time_ns > limit_ns.min(MAX_EVENT_NS) {
            return None;
        }
        let source = self.array_events.pop_earliest_event();
        Some(TimingEvent { time_ns, class: EventClass::event_class_of_key(least), source_number: source })
    }

    /// Removes and returns the earliest event that does not belong to an array, if it is due at time `limit_ns` or
    /// before. Such an event is one of a channel, the answer to a request, or the end of an NVRAM scan.
    #[inline(never)]
    fn pop_non_array_event(&mut self, limit_ns: u64) -> Option<TimingEvent> {
        let free_at = time_ns_of_key(self.channel_free_events.least_event_key);
        let answer = self.request_answers_and_nvram_scan_ends.peek().map_or((u64::MAX, 0), |answer| answer.0);
        if free_at.min(answer.0) > limit_ns.min(MAX_EVENT_NS) {
            return None;
        }
        let event = if free_at <= answer.0 {
            TimingEvent {
                time_ns: free_at,
                class: EventClass::ChannelFree,
                source_number: self.channel_free_events.pop_earliest_event(),
            }
        } else {
            self.request_answers_and_nvram_scan_ends.pop();
            let is_scan = answer.1 & NVRAM_SCAN_NUMBER_FLAG != 0;
            let class = if is_scan { EventClass::NvramScanEnded } else { EventClass::Acknowledged };
            TimingEvent { time_ns: answer.0, class, source_number: answer.1 & !NVRAM_SCAN_NUMBER_FLAG }
        };
        self.update_non_array_event_key();
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use EventClass::{Acknowledged, ChannelFree, Erased, Programmed, ReadSensed, Transferred};

    use super::*;

    /// Removes and returns all events that are due at `limit` or before.
    fn pop_all_until(queue: &mut EventQueue, limit: u64) -> Vec<(u64, EventClass, u32)> {
        let next = || {
            queue
                .pop_event_until(limit)
                .map(|TimingEvent { time_ns, class, source_number: source }| (time_ns, class, source))
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn timing_events_are_ordered_by_time_then_class_then_subject() {
        let mut queue = EventQueue::new(64, 8);
        queue.schedule_answer(3, 5);
        queue.schedule_answer(2, 5);
        queue.set_array_event(0, Erased, 5);
        queue.set_array_event(62, ReadSensed, 5);
        queue.set_array_event(1, ReadSensed, 5);
        queue.set_array_event(33, ReadSensed, 3);
        queue.set_array_event(4, Programmed, 4);
        queue.set_channel_free_event(7, 5);
        queue.set_channel_free_event(6, 5);
        let expected = [
            (3, ReadSensed, 33),
            (4, Programmed, 4),
            (5, ChannelFree, 6),
            (5, ChannelFree, 7),
            (5, ReadSensed, 1),
            (5, ReadSensed, 62),
            (5, Erased, 0),
            (5, Acknowledged, 2),
            (5, Acknowledged, 3),
        ];
        assert_eq!(pop_all_until(&mut queue, 5), expected);
        assert!(!queue.may_have_due_event(1 << 50));
    }

    #[test]
    fn the_event_queue_returns_no_event_that_is_not_due() {
        let mut queue = EventQueue::new(1, 1);
        queue.set_array_event(0, Programmed, 10);
        queue.schedule_answer(0, 10);
        queue.set_channel_free_event(0, 10);
        assert_eq!(queue.pop_event_until(9), None);
        assert!(queue.may_have_due_event(10));
        assert_eq!(pop_all_until(&mut queue, 10).len(), 3);
        assert_eq!(queue.pop_event_until(u64::MAX), None);
    }

    #[test]
    fn a_replaced_or_postponed_timing_event_occurs_only_once() {
        let mut queue = EventQueue::new(20, 1);
        queue.set_array_event(17, Programmed, 10);
        queue.set_array_event(17, Transferred, 7);
        queue.set_array_event(3, Programmed, 8);
        queue.postpone_array_event(17, 4);
        queue.postpone_array_event(17, -2);
        assert_eq!(queue.next_array_event_ns(17), 9);
        assert_eq!(pop_all_until(&mut queue, u64::MAX), [(8, Programmed, 3), (9, Transferred, 17)]);
    }

    /// Removing events one by one gives them in sorted order, for any number of dies and after any replacement of
    /// events.
    #[test]
    fn the_event_queue_agrees_with_a_sort_for_any_number_of_dies() {
        for arrays in [1, 7, 8, 9, 64, 65, 100, 512, 513, 1000] {
            let mut queue = EventQueue::new(arrays as usize, 1);
            let mut expected = vec![None; arrays as usize];
            let mut seed = 12345_u64;
            let mut draw = |below: u64| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 33) % below
            };
            for _ in 0..5000 {
                let (array, time) = (draw(arrays) as usize, draw(300));
                let class = EventClass::event_class_of_key(draw(4) << 3);
                queue.set_array_event(array as u32, class, time);
                expected[array] = Some((time, class as u8, array as u32));
                if draw(3) == 0 {
                    let first = expected.iter().copied().flatten().min();
                    let next = queue.pop_event_until(u64::MAX).expect("one was set");
                    assert_eq!(Some((next.time_ns, next.class as u8, next.source_number)), first);
                    expected[next.source_number as usize] = None;
                }
            }
        }
    }
}
