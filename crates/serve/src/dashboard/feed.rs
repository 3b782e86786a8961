//! The feed of dashboard updates. Once a second, one thread gathers an update of each device that clients look at, and
//! sends it to these clients.
//!
//! Each client costs one write that does not block. Each device costs one update, however many clients look at it, and
//! nothing if no client does. A client gets the next event only after it has received the previous one. It is
//! disconnected if it takes longer than [`EVENT_SEND_TIMEOUT`]. So memory per client is bounded, and a slow client
//! delays neither the device nor other clients.
//!
//! The thread ends when the listening socket is closed and all clients are disconnected. Only then have all senders of
//! the channel for new subscribers been dropped.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::Shutdown;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::UpdateSubscriberSlot;
use super::update;
use crate::connection::ServedExport;
use crate::device::FlashDevice;
use crate::socket::Socket;

/// Shortest time between two rounds of dashboard updates (one update of each device that clients look at).
const UPDATE_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Longest time between two rounds of dashboard updates, however long an update uses a device.
const UPDATE_INTERVAL_MAX: Duration = Duration::from_secs(10);
/// Factor that limits the cost of dashboard updates: the time between updates is at least this many times the time for
/// which one update uses its device. So updates take at most a hundredth of the device's time. The time between updates
/// is at most [`UPDATE_INTERVAL_MAX`].
const UPDATE_INTERVAL_PER_DEVICE_TIME: u32 = 100;
/// Number of recent rounds of dashboard updates for which the feed remembers how long an update used its device. The
/// shortest of these times counts as the cost of an update, because other programs on the processor can only make an
/// update slower.
const REMEMBERED_UPDATE_ROUNDS_MAX: usize = 8;
/// Longest time that a dashboard client may take to receive an event (an update). After that it is disconnected.
const EVENT_SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// A dashboard client that receives updates of one device. Dropping this value disconnects the client.
pub(super) struct UpdateSubscriber {
    /// Index of the export whose device the updates describe.
    export_index: usize,
    /// Socket of the dashboard client.
    socket: Arc<Socket>,
    /// Slot of the client among all that receive updates. The thread of its connection owns the slot.
    subscriber_slot: Weak<UpdateSubscriberSlot>,
    /// The dashboard event (one update as text) that is being sent to this client.
    event_being_sent: Arc<str>,
    /// Number of bytes of `event_being_sent` that the client's socket has accepted.
    sent_event_bytes: usize,
    /// Time at which sending of `event_being_sent` began.
    event_send_start: Instant,
}

impl UpdateSubscriber {
    pub(super) fn new(
        export_index: usize,
        socket: Arc<Socket>,
        subscriber_slot: &Arc<UpdateSubscriberSlot>,
    ) -> Self {
        Self {
            export_index,
            socket,
            subscriber_slot: Arc::downgrade(subscriber_slot),
            event_being_sent: Arc::from(""),
            sent_event_bytes: 0,
            event_send_start: Instant::now(),
        }
    }

    /// Sends a dashboard event, or the rest of the previous one if the client has not received all of it. Does not
    /// block. Returns whether the client is still connected and not too slow.
    fn send_event(&mut self, event: &Arc<str>, now: Instant) -> bool {
        if self.sent_event_bytes == self.event_being_sent.len() {
            (self.event_being_sent, self.sent_event_bytes, self.event_send_start) =
                (Arc::clone(event), 0, now);
        }
        match self.socket.try_write(&self.event_being_sent.as_bytes()[self.sent_event_bytes..]) {
            Ok(count) => self.sent_event_bytes += count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => return false,
        }
        self.sent_event_bytes == self.event_being_sent.len()
            || now.saturating_duration_since(self.event_send_start) < EVENT_SEND_TIMEOUT
    }
}

impl Drop for UpdateSubscriber {
    fn drop(&mut self) {
        self.socket.shutdown(Shutdown::Both);
    }
}

/// Handle to the thread that sends updates of the devices to dashboard clients.
#[derive(Clone)]
pub(super) struct UpdateFeed(Sender<UpdateSubscriber>);

impl UpdateFeed {
    /// Starts the thread that sends updates of these devices.
    ///
    /// # Panics
    /// If the system cannot start a thread.
    pub(super) fn start(served_exports: Arc<[ServedExport<FlashDevice>]>) -> Self {
        let (add, arriving) = mpsc::channel();
        let now = Instant::now();
        let sender = UpdateSender {
            served_exports,
            new_subscribers: arriving,
            subscribers: Vec::new(),
            feed_start: now,
            next_update_time: now,
            updates_made: 0,
            longest_device_use_by_update_round: VecDeque::new(),
        };
        let thread = thread::Builder::new().name("dashboard".into()).spawn(move || sender.run());
        thread.expect("the system has room for a thread when the server starts");
        Self(add)
    }

    /// Adds a dashboard client, which receives the next update of its device and all later ones.
    pub(super) fn add_subscriber(&self, subscriber: UpdateSubscriber) {
        // The thread runs as long as there is a handle, unless it panicked; then the client is disconnected.
        let _ = self.0.send(subscriber);
    }
}

/// State of the thread that sends updates of the devices to dashboard clients.
struct UpdateSender {
    /// Exports of the server whose devices the updates describe.
    served_exports: Arc<[ServedExport<FlashDevice>]>,
    /// Channel by which newly connected dashboard clients reach this thread.
    new_subscribers: Receiver<UpdateSubscriber>,
    /// Dashboard clients that are connected.
    subscribers: Vec<UpdateSubscriber>,
    /// Time at which the feed was started; times in updates count from here.
    feed_start: Instant,
    /// Time at which the next round of dashboard updates is due.
    next_update_time: Instant,
    /// Number of dashboard updates made so far; each event carries the number of its update.
    updates_made: u64,
    /// For each of the last rounds of dashboard updates, newest first: the longest time for which one update used its
    /// device.
    longest_device_use_by_update_round: VecDeque<Duration>,
}

impl UpdateSender {
    /// Sends dashboard updates whenever they are due, until the dashboard is closed and no client is connected.
    fn run(mut self) {
        while self.wait_until_updates_are_due() {
            self.send_updates();
        }
    }

    /// Waits until a dashboard update is due and a client is connected. Returns false once the dashboard is closed and
    /// all its connections have ended.
    fn wait_until_updates_are_due(&mut self) -> bool {
        loop {
            let arrived = if self.subscribers.is_empty() {
                self.new_subscribers.recv().map_err(RecvTimeoutError::from)
            } else {
                self.new_subscribers
                    .recv_timeout(self.next_update_time.saturating_duration_since(Instant::now()))
            };
            match arrived {
                Ok(subscriber) => {
                    // Clients that left since the last tick have no place any more, so there are never more than
                    // places.
                    self.subscribers.retain(|subscriber| subscriber.subscriber_slot.strong_count() > 0);
                    self.subscribers.push(subscriber);
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Sends dashboard clients an update of the device that each of them looks at. Drops the clients that are gone or
    /// too slow, or whose device has stopped.
    fn send_updates(&mut self) {
        let began = Instant::now();
        let mut longest = Duration::ZERO;
        let watched: BTreeSet<usize> =
            self.subscribers.iter().map(|subscriber| subscriber.export_index).collect();
        for export in watched {
            let at_s = self.feed_start.elapsed().as_secs_f64();
            let event = update::gather_dashboard_update(&self.served_exports[export].device_queue).ok().map(
                |update| {
                    longest = longest.max(update.device_use_duration);
                    self.updates_made += 1;
                    Arc::from(format!("id: {}\ndata: {}\n\n", self.updates_made, update.to_json(at_s)))
                },
            );
            let now = Instant::now();
            self.subscribers.retain_mut(|subscriber| {
                subscriber.export_index != export
                    || event.as_ref().is_some_and(|event| subscriber.send_event(event, now))
            });
        }
        self.longest_device_use_by_update_round.truncate(REMEMBERED_UPDATE_ROUNDS_MAX - 1);
        self.longest_device_use_by_update_round.push_front(longest);
        let fastest = self.longest_device_use_by_update_round.iter().min().copied().unwrap_or_default();
        self.next_update_time = began
            + (fastest * UPDATE_INTERVAL_PER_DEVICE_TIME).clamp(UPDATE_INTERVAL_MIN, UPDATE_INTERVAL_MAX);
    }
}
