//! The feed of snapshots: one thread makes a snapshot of each device that clients look at, once a second, and sends it
//! to all of them.
//!
//! The price of a client is one write that does not block; the price of a device is one snapshot however many clients
//! look at it, and nothing while nobody does. A client that does not take an event is sent no other until it has, and
//! is disconnected after [`EVENT_SEND_TIMEOUT`]. So memory per client is bounded, and a slow client delays neither the
//! device nor other clients.
//!
//! The thread ends when the listening socket is closed and all clients are disconnected, because both hold the channel
//! by which watchers arrive.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::Shutdown;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::SnapshotClientSlot;
use super::snapshot;
use crate::connection::ServedExport;
use crate::device::FlashDevice;
use crate::socket::Socket;

/// Shortest time from one dashboard snapshot of the devices to the next.
const SNAPSHOT_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Longest time from one dashboard snapshot of the devices to the next.
const SNAPSHOT_INTERVAL_MAX: Duration = Duration::from_secs(10);
/// Shortest time between snapshots as a multiple of the time that a snapshot takes the engine, so that snapshots take
/// at most a hundredth of the engine's time. If a snapshot takes longer, snapshots are made less often, down to one per
/// [`SNAPSHOT_INTERVAL_MAX`].
const SNAPSHOT_INTERVAL_PER_ENGINE_TIME: u32 = 100;
/// Number of recent rounds of snapshots whose engine times are kept. The shortest of these times counts as the cost of
/// a snapshot, because other programs on the processor only make snapshots slower.
const KEPT_SNAPSHOT_ENGINE_TIMES_MAX: usize = 8;
/// Longest time that a dashboard client may take to receive an event (a snapshot). After that it is disconnected.
const EVENT_SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// A dashboard client that receives snapshots of one device. Dropping this value disconnects the client.
pub(super) struct SnapshotClient {
    export_index: usize,
    socket: Arc<Socket>,
    /// Slot of the client among all dashboard clients. The thread of its connection owns the slot.
    client_slot: Weak<SnapshotClientSlot>,
    /// The dashboard event that is being sent; the client's socket has accepted only the first bytes of it.
    event_being_sent: Arc<str>,
    sent_event_bytes: usize,
    /// Time at which sending of the event began.
    event_send_start: Instant,
}

impl SnapshotClient {
    pub(super) fn new(
        export_index: usize,
        socket: Arc<Socket>,
        client_slot: &Arc<SnapshotClientSlot>,
    ) -> Self {
        Self {
            export_index,
            socket,
            client_slot: Arc::downgrade(client_slot),
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

impl Drop for SnapshotClient {
    fn drop(&mut self) {
        self.socket.shutdown(Shutdown::Both);
    }
}

/// A handle to the thread that sends snapshots of the devices to dashboard clients.
#[derive(Clone)]
pub(super) struct SnapshotFeed(Sender<SnapshotClient>);

impl SnapshotFeed {
    /// Starts the thread that sends snapshots of these devices.
    ///
    /// # Panics
    /// If the system cannot start a thread.
    pub(super) fn start(targets: Arc<[ServedExport<FlashDevice>]>) -> Self {
        let (add, arriving) = mpsc::channel();
        let now = Instant::now();
        let sender = SnapshotSender {
            targets,
            new_snapshot_clients: arriving,
            snapshot_clients: Vec::new(),
            feed_start: now,
            next_snapshots_due: now,
            snapshots_made: 0,
            slowest_engine_time_by_round: VecDeque::new(),
        };
        let thread = thread::Builder::new().name("dashboard".into()).spawn(move || sender.run());
        thread.expect("the system has room for a thread when the server starts");
        Self(add)
    }

    /// Adds a dashboard client, which receives the next snapshot of its device and all later ones.
    pub(super) fn add_snapshot_client(&self, watcher: SnapshotClient) {
        // The thread runs as long as there is a handle, unless it panicked; then the client is disconnected.
        let _ = self.0.send(watcher);
    }
}

/// State of the thread that sends snapshots of the devices to dashboard clients.
struct SnapshotSender {
    targets: Arc<[ServedExport<FlashDevice>]>,
    new_snapshot_clients: Receiver<SnapshotClient>,
    snapshot_clients: Vec<SnapshotClient>,
    feed_start: Instant,
    next_snapshots_due: Instant,
    /// Number of snapshots made so far; each event carries the number of its snapshot.
    snapshots_made: u64,
    /// Engine time of the slowest snapshot of each of the last rounds of snapshots, newest first.
    slowest_engine_time_by_round: VecDeque<Duration>,
}

impl SnapshotSender {
    fn run(mut self) {
        while self.wait_until_snapshots_are_due() {
            self.send_snapshots();
        }
    }

    /// Waits until a snapshot is due and a client is connected. Returns false once no client can connect any more.
    fn wait_until_snapshots_are_due(&mut self) -> bool {
        loop {
            let arrived = if self.snapshot_clients.is_empty() {
                self.new_snapshot_clients.recv().map_err(RecvTimeoutError::from)
            } else {
                self.new_snapshot_clients
                    .recv_timeout(self.next_snapshots_due.saturating_duration_since(Instant::now()))
            };
            match arrived {
                Ok(watcher) => {
                    // Clients that left since the last tick have no place any more, so there are never more than
                    // places.
                    self.snapshot_clients.retain(|watcher| watcher.client_slot.strong_count() > 0);
                    self.snapshot_clients.push(watcher);
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Sends a snapshot of each device that clients look at to these clients, and drops the clients that are gone or
    /// too slow, or whose device has stopped.
    fn send_snapshots(&mut self) {
        let began = Instant::now();
        let mut longest = Duration::ZERO;
        let watched: BTreeSet<usize> =
            self.snapshot_clients.iter().map(|watcher| watcher.export_index).collect();
        for export in watched {
            let at_s = self.feed_start.elapsed().as_secs_f64();
            let event = snapshot::take_snapshot(&self.targets[export].engine).ok().map(|snapshot| {
                longest = longest.max(snapshot.engine_time_spent);
                self.snapshots_made += 1;
                Arc::from(format!("id: {}\ndata: {}\n\n", self.snapshots_made, snapshot.to_json(at_s)))
            });
            let now = Instant::now();
            self.snapshot_clients.retain_mut(|watcher| {
                watcher.export_index != export
                    || event.as_ref().is_some_and(|event| watcher.send_event(event, now))
            });
        }
        self.slowest_engine_time_by_round.truncate(KEPT_SNAPSHOT_ENGINE_TIMES_MAX - 1);
        self.slowest_engine_time_by_round.push_front(longest);
        let fastest = self.slowest_engine_time_by_round.iter().min().copied().unwrap_or_default();
        self.next_snapshots_due = began
            + (fastest * SNAPSHOT_INTERVAL_PER_ENGINE_TIME)
                .clamp(SNAPSHOT_INTERVAL_MIN, SNAPSHOT_INTERVAL_MAX);
    }
}
