//! The future event list: what falls due next.
//!
//! An array waits for one thing at a time (the end of a read, of a transfer, of a program), so its next event is a number
//! that it owns, which it may replace or put off at will: no event is ever void, cancelled or found too early. Who
//! is first is settled by a [`Tournament`]: in eights, then among the first of eight eights. To take the first event
//! away plays two such rounds, each a minimum of eight numbers without a branch; to set one is a comparison with the
//! least of its eight, which nearly always stays. Whose turn is next is thus known while the event at hand is still
//! being handled, which counts for more than instructions: what an event asks for next is a random place to a processor.
//!
//! Sorted rings, one for every class of events, cost as much and keep an event that has been overtaken until its old time
//! comes; binary heaps cost more. The price of the tournament: beyond 64 arrays a round more for each further 64 at
//! every event, busy or not.
//!
//! Two kinds of events stand aside, since most devices hardly have any: channels that somebody waits for, and answers that
//! the controller still holds.
//!
//! Invariant: simultaneous events come by [`EventClass`], then by number of array, channel or request, whatever the order
//! of their creation.

#![expect(clippy::inline_always, reason = "measured: 25 % more operations per second than with plain hints")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::FlashTiming;

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
    /// NVRAM has been read to its end. Subject: scan.
    Scanned,
}

impl EventClass {
    /// True if the subject is an array.
    #[inline(always)]
    pub(super) fn is_of_array(self) -> bool {
        matches!(self, Self::ReadSensed | Self::Transferred | Self::Programmed | Self::Erased)
    }

    /// The class of an array's key.
    #[inline(always)]
    fn of_key(key: u64) -> Self {
        match key >> 3 & 3 {
            0 => Self::ReadSensed,
            1 => Self::Transferred,
            2 => Self::Programmed,
            _ => Self::Erased,
        }
    }
}

/// One event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Event {
    /// When, in nanoseconds.
    pub(super) time: u64,
    pub(super) class: EventClass,
    /// Index of the array, channel, request or scan concerned.
    pub(super) subject: u32,
}

/// Added to the number of a scan among those of requests.
const SCAN_BIT: u32 = 1 << 31;

/// Bits of a key below the time: class, and the place within an eight.
pub(super) const KEY_BITS: u32 = 5;

/// Latest time an event can have, in nanoseconds: 18 years.
const LATEST: u64 = (1 << (64 - KEY_BITS)) - 2;

/// Latest time at which a request can arrive: half of that, so that what it causes has a time, too.
pub(super) const LATEST_ARRIVAL: u64 = LATEST / 2;

/// Key of an event of an array. Keys compare like events, and leave the place within the eight open. Of other classes the
/// key says the time only.
#[inline(always)]
pub(super) fn key(class: EventClass, time: u64) -> u64 {
    time << KEY_BITS | (class as u64).wrapping_sub(EventClass::ReadSensed as u64) << 3 & 0x1f
}

/// A key behind those of all events of an instant.
#[inline(always)]
pub(super) fn key_behind(time: u64) -> u64 {
    time << KEY_BITS | 0x1f
}

/// The time of a key, in nanoseconds.
#[inline(always)]
pub(super) fn time_of(key: u64) -> u64 {
    key >> KEY_BITS
}

/// Eight keys, the last three bits of each its place.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Eight([u64; 8]);

impl Eight {
    const EMPTY: Self = Self([u64::MAX; 8]);

    /// As a tree: few dependent steps, and no branch.
    #[inline(always)]
    fn least(&self) -> u64 {
        let four: [u64; 4] = std::array::from_fn(|k| self.0[2 * k].min(self.0[2 * k + 1]));
        four[0].min(four[1]).min(four[2].min(four[3]))
    }
}

/// The keys of 64 subjects.
#[derive(Clone, Debug)]
struct Group {
    eights: [Eight; 8],
    /// The least key of each eight.
    leasts: [u64; 8],
    /// The same, with the number of the eight for the place.
    finalists: Eight,
}

impl Group {
    const EMPTY: Self = Self { eights: [Eight::EMPTY; 8], leasts: [u64::MAX; 8], finalists: Eight::EMPTY };

    /// Gives a member a key; whether its eight has another least key now. That seldom happens: of eight keys seven are not
    /// the least.
    #[inline(always)]
    fn set(&mut self, member: usize, key: u64) -> bool {
        let (eight, place) = (member / 8 % 8, member % 8);
        let (key, least) = (key | place as u64, self.leasts[eight]);
        self.eights[eight].0[place] = key;
        if key < least {
            self.leasts[eight] = key;
            self.finalists.0[eight] = key & !7 | eight as u64;
            return true;
        }
        if least % 8 == place as u64 {
            self.write_deferred(eight);
            return true;
        }
        false
    }

    /// Finds the least key of an eight.
    #[inline(always)]
    fn write_deferred(&mut self, eight: usize) {
        let least = self.eights[eight].least();
        self.leasts[eight] = least;
        self.finalists.0[eight] = least & !7 | eight as u64;
    }
}

/// Who of many is first.
#[derive(Clone, Debug)]
struct Tournament {
    groups: Vec<Group>,
    /// The least key; its place is left open.
    least: u64,
    /// Whose it is. Kept with it, so that whose turn it is next is known before its turn comes.
    first: u32,
}

impl Tournament {
    fn new(subjects: usize) -> Self {
        Self { groups: vec![Group::EMPTY; subjects.div_ceil(64).max(1)], least: u64::MAX, first: 0 }
    }

    #[inline(always)]
    fn key(&self, subject: u32) -> u64 {
        self.groups[subject as usize / 64].eights[subject as usize / 8 % 8].0[subject as usize % 8] & !7
    }

    #[inline(always)]
    fn set(&mut self, subject: u32, key: u64) {
        if self.groups[subject as usize / 64].set(subject as usize % 64, key) {
            self.play_final();
        }
    }

    /// Takes the key of whoever is first; who that is.
    #[inline(always)]
    fn pop(&mut self) -> u32 {
        let first = self.first;
        let (group, eight, place) = (first as usize / 64, first as usize / 8 % 8, first as usize % 8);
        let group = &mut self.groups[group];
        group.eights[eight].0[place] = u64::MAX;
        group.write_deferred(eight);
        self.play_final();
        first
    }

    #[inline(always)]
    fn eight_mut(&mut self, eight: usize) -> &mut [u64; 8] {
        &mut self.groups[eight / 8].eights[eight % 8].0
    }

    /// Keys of an eight have grown: its least is another one if it was among them.
    #[inline(always)]
    fn look_at(&mut self, eight: usize) {
        let (group, eight) = (&mut self.groups[eight / 8], eight % 8);
        let least = group.leasts[eight];
        if group.eights[eight].0[(least % 8) as usize] != least {
            group.write_deferred(eight);
            self.play_final();
        }
    }

    #[inline(always)]
    fn play_final(&mut self) {
        let group = if let [_] = self.groups[..] { 0 } else { first_of(&self.groups) };
        let Group { leasts, finalists, .. } = &self.groups[group];
        self.least = finalists.least();
        let eight = (self.least % 8) as usize;
        self.first = (64 * group + 8 * eight) as u32 + (leasts[eight] % 8) as u32;
    }
}

/// The first of the groups that have the least key.
#[inline(never)]
fn first_of(groups: &[Group]) -> usize {
    let keys = groups.iter().map(|group| group.finalists.least() & !7);
    keys.enumerate().min_by_key(|&(_, key)| key).map_or(0, |(index, _)| index)
}

/// All pending events.
#[derive(Clone, Debug)]
pub(super) struct EventQueue {
    /// The next event of each array.
    arrays: Tournament,
    /// When each channel falls free that somebody waits for.
    channels: Tournament,
    /// Time and request of answers; time and scan of ends of scans, which are as rare.
    answers: BinaryHeap<Reverse<(u64, u32)>>,
    /// Events of channels and answers go before those of arrays with this key, or a greater one.
    aside_before: u64,
}

impl EventQueue {
    pub(super) fn new(arrays: usize, channels: usize) -> Self {
        Self {
            arrays: Tournament::new(arrays),
            channels: Tournament::new(channels),
            answers: BinaryHeap::new(),
            aside_before: u64::MAX,
        }
    }

    /// Sets the next event of an array, in place of the one it has, if any.
    #[inline(always)]
    pub(super) fn set(&mut self, array: u32, class: EventClass, time: u64) {
        self.arrays.set(array, key(class, time));
    }

    /// When an array's next event falls due; it must have one.
    #[inline(always)]
    pub(super) fn due(&self, array: u32) -> u64 {
        time_of(self.arrays.key(array))
    }

    /// Puts an array's next event off by `ns`, or forward; it must have one.
    #[inline(always)]
    pub(super) fn shift(&mut self, array: u32, ns: i64) {
        self.arrays.set(array, self.arrays.key(array).wrapping_add_signed(ns << KEY_BITS));
    }

    /// Puts off by `ns` the next events of those of eight arrays that ask for a transfer behind `last`; how long these
    /// transfers take together. Without a branch: who does and who does not is as good as random.
    #[inline(always)]
    pub(super) fn delay_later(
        &mut self,
        eight: usize,
        asked_at: &[u64; 8],
        last: u64,
        asked_ns: &[u64; 8],
        ns: u64,
    ) -> u64 {
        let (mut sum_ns, more) = (0, ns << KEY_BITS);
        let keys = self.arrays.eight_mut(eight);
        for place in 0..8 {
            let mask = u64::from(asked_at[place] > last).wrapping_neg();
            sum_ns += mask & asked_ns[place];
            keys[place] = keys[place].wrapping_add(mask & more);
        }
        self.arrays.look_at(eight);
        sum_ns
    }

    /// When the transfers begin, or began, that the next events of eight arrays follow; 0 where there is none.
    #[inline(always)]
    pub(super) fn transfers_begin_at(&self, eight: usize, ns: &[u64; 8], flash: &FlashTiming) -> [u64; 8] {
        let behind_ns = [flash.program_ns + flash.read_ns, 0, flash.program_ns, u64::MAX];
        let keys = self.arrays.groups[eight / 8].eights[eight % 8].0;
        std::array::from_fn(|place| {
            let class = (keys[place] >> 3) as usize % 4;
            time_of(keys[place]).saturating_sub(behind_ns[class]).saturating_sub(ns[place])
        })
    }

    /// A channel that somebody waits for falls free.
    pub(super) fn set_channel_free(&mut self, channel: u32, time: u64) {
        self.channels.set(channel, time << KEY_BITS);
        self.look_aside();
    }

    /// The controller answers a request.
    pub(super) fn push_answer(&mut self, request: u32, time: u64) {
        self.answers.push(Reverse((time, request)));
        self.look_aside();
    }

    /// NVRAM has been read to its end.
    pub(super) fn push_scan_end(&mut self, scan: u32, time: u64) {
        self.push_answer(scan | SCAN_BIT, time);
    }

    /// Channels go before, answers behind all arrays of the instant.
    fn look_aside(&mut self) {
        let answer = self.answers.peek().map_or(u64::MAX, |answer| (answer.0.0 + 1) << KEY_BITS);
        let free = time_of(self.channels.least) << KEY_BITS;
        self.aside_before = answer.min(free);
    }

    /// False if no event is due at `limit` or before; most times when this is so.
    #[inline(always)]
    pub(super) fn may_be_due(&self, limit: u64) -> bool {
        self.arrays.least.min(self.aside_before) <= (limit.min(LATEST) + 1) << KEY_BITS
    }

    /// Takes the next event if it is due at `limit` or before.
    #[inline(always)]
    pub(super) fn pop_until(&mut self, limit: u64) -> Option<Event> {
        let least = self.arrays.least;
        if least >= self.aside_before {
            return self.pop_aside(limit);
        }
        let time = time_of(least);
        if time > limit.min(LATEST) {
            return None;
        }
        let subject = self.arrays.pop();
        Some(Event { time, class: EventClass::of_key(least), subject })
    }

    #[inline(never)]
    fn pop_aside(&mut self, limit: u64) -> Option<Event> {
        let free_at = time_of(self.channels.least);
        let answer = self.answers.peek().map_or((u64::MAX, 0), |answer| answer.0);
        if free_at.min(answer.0) > limit.min(LATEST) {
            return None;
        }
        let event = if free_at <= answer.0 {
            Event { time: free_at, class: EventClass::ChannelFree, subject: self.channels.pop() }
        } else {
            self.answers.pop();
            let is_scan = answer.1 & SCAN_BIT != 0;
            let class = if is_scan { EventClass::Scanned } else { EventClass::Acknowledged };
            Event { time: answer.0, class, subject: answer.1 & !SCAN_BIT }
        };
        self.look_aside();
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use EventClass::{Acknowledged, ChannelFree, Erased, Programmed, ReadSensed, Transferred};

    use super::*;

    /// Takes all events that are due.
    fn take(queue: &mut EventQueue, limit: u64) -> Vec<(u64, EventClass, u32)> {
        let next = || queue.pop_until(limit).map(|Event { time, class, subject }| (time, class, subject));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn come_by_time_then_class_then_subject() {
        let mut queue = EventQueue::new(64, 8);
        queue.push_answer(3, 5);
        queue.push_answer(2, 5);
        queue.set(0, Erased, 5);
        queue.set(62, ReadSensed, 5);
        queue.set(1, ReadSensed, 5);
        queue.set(33, ReadSensed, 3);
        queue.set(4, Programmed, 4);
        queue.set_channel_free(7, 5);
        queue.set_channel_free(6, 5);
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
        assert_eq!(take(&mut queue, 5), expected);
        assert!(!queue.may_be_due(1 << 50));
    }

    #[test]
    fn later_events_are_left_for_later() {
        let mut queue = EventQueue::new(1, 1);
        queue.set(0, Programmed, 10);
        queue.push_answer(0, 10);
        queue.set_channel_free(0, 10);
        assert_eq!(queue.pop_until(9), None);
        assert!(queue.may_be_due(10));
        assert_eq!(take(&mut queue, 10).len(), 3);
        assert_eq!(queue.pop_until(u64::MAX), None);
    }

    #[test]
    fn an_event_that_is_replaced_or_put_off_leaves_nothing_behind() {
        let mut queue = EventQueue::new(20, 1);
        queue.set(17, Programmed, 10);
        queue.set(17, Transferred, 7);
        queue.set(3, Programmed, 8);
        queue.shift(17, 4);
        queue.shift(17, -2);
        assert_eq!(queue.due(17), 9);
        assert_eq!(take(&mut queue, u64::MAX), [(8, Programmed, 3), (9, Transferred, 17)]);
    }

    #[test]
    fn agrees_with_a_sort_for_any_number_of_arrays() {
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
                let class = EventClass::of_key(draw(4) << 3);
                queue.set(array as u32, class, time);
                expected[array] = Some((time, class as u8, array as u32));
                if draw(3) == 0 {
                    let first = expected.iter().copied().flatten().min();
                    let next = queue.pop_until(u64::MAX).expect("one was set");
                    assert_eq!(Some((next.time, next.class as u8, next.subject)), first);
                    expected[next.subject as usize] = None;
                }
            }
        }
    }
}
