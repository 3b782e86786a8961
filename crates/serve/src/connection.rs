//! One NBD connection: a thread that reads requests and a thread that writes replies.
//!
//! Two threads, because a client that sends without reading must not stop the engine, and one that waits for a reply must
//! not have to send. What a client can make the server hold is bounded: the payload that is arriving
//! ([`PAYLOAD_MAX_BYTES`](crate::nbd::PAYLOAD_MAX_BYTES)), and requests and replies in flight
//! ([`IN_FLIGHT_MAX_BYTES`]), beyond which nothing more is read from it; what exceeds a small allowance comes out of a budget
//! that all connections share (`budget`). A client that vanishes takes its half-sent request
//! with it: a write is executed when its last byte has arrived, or not at all. Its reads that wait are dropped as soon as a
//! reply cannot be sent.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tracing::{Span, debug, info, warn};

use crate::budget::{ALLOWANCE_BYTES, ANSWER_TIMEOUT, Budget, Claim};
use crate::device::{BlockDevice, DeviceError};
use crate::engine::{Engine, Progress, Work};
use crate::nbd::{Decoded, Decoder, Execution, Export, Negotiated, Negotiation, Outcome, Reply, Step};
use crate::rate::RateLimit;
use crate::socket::Socket;

/// Requests and replies that one connection may have in flight.
pub const IN_FLIGHT_MAX_BYTES: usize = 64 << 20;
/// Time for a negotiation: a client that takes longer is in nobody's way.
const NEGOTIATION_LIMIT: Duration = Duration::from_secs(30);
/// Bytes read from a socket at once, and gathered for it.
const CHUNK_BYTES: usize = 256 << 10;
/// Requests and their replies that are handed to the engine at once.
const BATCH_MAX_BYTES: usize = 8 << 20;
/// Replies that are sent without the writer at the most.
const SENT_AT_ONCE_MAX_BYTES: usize = 64 << 10;
/// Bytes of requests that a connection has executed before others have their turn.
const TURN_BYTES: u64 = 2 << 20;
/// The next connection's number.
static NEXT_SOURCE: AtomicU64 = AtomicU64::new(0);
/// The stack of a thread that holds its buffers on the heap.
pub(crate) const STACK_BYTES: usize = 256 << 10;

/// An export and the engine that executes its requests.
#[derive(Debug)]
pub(crate) struct Target<D> {
    pub(crate) export: Export,
    pub(crate) engine: Engine<D>,
    pub(crate) rate: RateLimit,
}

/// How a connection ended, apart from errors of its socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The client said goodbye.
    Disconnected,
    /// The client closed its socket without a word, or takes no replies.
    Vanished,
    /// The client sent bytes that are no request.
    Garbage,
    /// The engine runs no more.
    EngineStopped,
}

/// Serves one client to its end, in the span of its connection.
pub(crate) fn serve<D: BlockDevice>(socket: &Arc<Socket>, targets: &[Target<D>], budget: &Arc<Budget>) {
    let mut buffer = vec![0; CHUNK_BYTES];
    // A device that has stopped is not offered.
    let offered: Vec<_> = targets.iter().filter(|target| target.engine.is_alive()).collect();
    let exports = offered.iter().map(|target| &target.export).collect();
    match negotiate(socket, exports, &mut buffer) {
        Ok(Some((agreed, early))) => {
            let target = offered[agreed.export];
            Span::current().record("export", &target.export.name);
            info!("the client attached");
            log_end(&transmit(socket, target, budget, agreed, early, &mut buffer));
        }
        Ok(None) => debug!("the client left before it chose an export"),
        Err(error) => debug!("the client left before it chose an export: {error}"),
    }
}

fn log_end(end: &io::Result<End>) {
    match end {
        Ok(End::Disconnected) => info!("the client disconnected"),
        Ok(End::Vanished) => info!("the connection ended without a goodbye of the client"),
        Ok(End::Garbage) => warn!("the client sent what is no request: hung up on it"),
        Ok(End::EngineStopped) => warn!("the device has stopped: hung up on the client"),
        Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
            warn!("the client did not send the rest of a request in time: hung up on it");
        }
        Err(error) => info!("the client left: {error}"),
    }
}

/// Executes requests until the client goes.
///
/// # Errors
/// What the socket says; the client is gone then.
fn transmit<D: BlockDevice>(
    socket: &Arc<Socket>,
    target: &Target<D>,
    budget: &Arc<Budget>,
    agreed: Negotiated,
    early: Vec<u8>,
    buffer: &mut [u8],
) -> io::Result<End> {
    let (replies, to_send) = mpsc::channel();
    let shared = Arc::new(Shared {
        source: NEXT_SOURCE.fetch_add(1, Ordering::Relaxed),
        span: Span::current(),
        socket: Arc::clone(socket),
        in_flight: InFlight::default(),
        buffers: Buffers::default(),
        replies,
        queued: AtomicUsize::new(0),
    });
    let writer = {
        // The writer ends when the last request of this client has been answered, so it must not keep the sender.
        let (shared, socket) = (Arc::downgrade(&shared), Arc::clone(socket));
        let thread = thread::Builder::new().name("replies".into()).stack_size(STACK_BYTES);
        thread.spawn(move || send_replies(&shared, &socket, &to_send))?
    };
    let session = Session { budget, target, agreed, shared };
    let received = session.receive(early, buffer);
    drop(session);
    let _ = writer.join();
    received
}

/// Negotiates, and returns what came behind it; `None` if the client goes.
fn negotiate(
    socket: &Socket,
    exports: Vec<&Export>,
    buffer: &mut [u8],
) -> io::Result<Option<(Negotiated, Vec<u8>)>> {
    let deadline = Instant::now() + NEGOTIATION_LIMIT;
    let (mut input, mut reply) = (Vec::new(), Vec::new());
    let mut negotiation = Negotiation::new(exports, &mut reply);
    socket.set_write_timeout(Some(NEGOTIATION_LIMIT))?;
    loop {
        { socket }.write_all(&reply)?;
        reply.clear();
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        socket.set_read_timeout(Some(left))?;
        let count = { socket }.read(buffer)?;
        if count == 0 {
            return Ok(None);
        }
        input.extend(&buffer[..count]);
        let (taken, outcome) = negotiation.advance(&input, &mut reply);
        input.drain(..taken);
        if outcome != Outcome::Continues {
            { socket }.write_all(&reply)?;
            socket.set_read_timeout(None)?;
            socket.set_write_timeout(None)?;
        }
        match outcome {
            Outcome::Continues => {}
            Outcome::Agreed(agreed) => return Ok(Some((agreed, input))),
            Outcome::Ended => return Ok(None),
        }
    }
}

/// Replies that are sent together, and what they give back to the limit then.
#[derive(Default)]
struct Replies {
    batch: Vec<Reply>,
    footprint_bytes: usize,
    /// Bytes that were sent already.
    sent_bytes: usize,
    /// What the batch claimed of the budget, held until the last of its replies is sent.
    claims: Arc<Vec<Claim>>,
}

/// Buffers of replies that were sent, for the next ones.
#[derive(Debug, Default)]
struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// Bytes that are kept.
    const MAX_BYTES: usize = 4 << 20;

    fn take(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Keeps the buffers of large replies.
    fn give_back(&self, replies: Vec<Reply>) {
        const LEAST_BYTES: usize = 4096;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes: usize = kept.iter().map(Vec::len).sum();
        for buffer in replies.into_iter().map(Reply::into_buffer) {
            if buffer.len() >= LEAST_BYTES && bytes + buffer.len() <= Self::MAX_BYTES {
                bytes += buffer.len();
                kept.push(buffer);
            }
        }
    }
}

/// What all requests of a connection share.
struct Shared {
    source: u64,
    /// The connection in the log.
    span: Span,
    socket: Arc<Socket>,
    in_flight: InFlight,
    buffers: Buffers,
    replies: Sender<Replies>,
    /// Messages that the writer has not sent yet.
    queued: AtomicUsize,
}

impl Shared {
    /// Sends replies. Where they are small and the client takes them at once, the writer need not be woken; only the engine
    /// comes here, so nobody else sends while nothing is queued.
    fn send(&self, mut sent: Replies) {
        let bytes: usize = sent.batch.iter().map(|reply| reply.bytes().len()).sum();
        if bytes <= SENT_AT_ONCE_MAX_BYTES && self.queued.load(Ordering::Acquire) == 0 {
            // What is wrong with the socket the writer finds, too.
            sent.sent_bytes = self.socket.try_write_replies(&sent.batch).unwrap_or(0);
            if sent.sent_bytes == bytes {
                return self.are_sent(sent);
            }
        }
        self.queued.fetch_add(1, Ordering::AcqRel);
        // Without a writer the client is gone.
        let _ = self.replies.send(sent);
    }

    fn are_sent(&self, sent: Replies) {
        self.buffers.give_back(sent.batch);
        self.in_flight.release(sent.footprint_bytes);
    }
}

/// A request on its way.
struct Pending {
    execution: Execution,
    is_read: bool,
    footprint_bytes: usize,
    /// What came of it; without one it is not done.
    step: Option<Step>,
}

/// Requests that arrived together. If they are dropped without their replies, because the engine has failed, the connection
/// ends.
struct Batch {
    shared: Arc<Shared>,
    claims: Arc<Vec<Claim>>,
    requests: VecDeque<Pending>,
}

impl Drop for Batch {
    fn drop(&mut self) {
        if !self.requests.is_empty() {
            self.shared.socket.shutdown(Shutdown::Both);
        }
    }
}

impl<D: BlockDevice> Work<D> for Batch {
    fn source(&self) -> Option<u64> {
        Some(self.shared.source)
    }

    /// As many requests as make up a turn.
    fn step(&mut self, device: &mut D) -> Progress {
        let _logged_as = self.shared.span.enter();
        let mut progress = Progress::default();
        let mut left_bytes = TURN_BYTES;
        let is_gone = self.shared.in_flight.is_client_gone();
        for pending in &mut self.requests {
            if left_bytes == 0 {
                progress.has_more = true;
                break;
            }
            left_bytes = left_bytes.saturating_sub(pending.execution.step_bytes());
            // Nobody would receive what a read finds; what was sent to be written is written.
            let step = if pending.is_read && is_gone {
                Step::Replied(Reply::default())
            } else {
                pending.execution.step(device, || self.shared.buffers.take())
            };
            progress.wants_flush |= matches!(step, Step::Flushes);
            if matches!(step, Step::More) {
                progress.has_more = true;
                break;
            }
            pending.step = Some(step);
        }
        progress
    }

    fn answer(&mut self, settled: &Result<(), DeviceError>) {
        let mut sent = Replies { claims: Arc::clone(&self.claims), ..Replies::default() };
        while let Some(step) = self.requests.front_mut().and_then(|pending| pending.step.take()) {
            let pending = self.requests.pop_front().expect("it was looked at above");
            sent.footprint_bytes += pending.footprint_bytes;
            sent.batch.push(match step {
                Step::Replied(reply) => reply,
                Step::More | Step::Settles | Step::Flushes => pending.execution.settled(settled),
            });
        }
        if !sent.batch.is_empty() {
            self.shared.send(sent);
        }
    }
}

struct Session<'a, D> {
    budget: &'a Arc<Budget>,
    target: &'a Target<D>,
    agreed: Negotiated,
    shared: Arc<Shared>,
}

impl<D: BlockDevice> Session<'_, D> {
    /// Reads requests and hands them to the engine, until the client goes or sends what is no request.
    fn receive(&self, early: Vec<u8>, buffer: &mut [u8]) -> io::Result<End> {
        let mut decoder = Decoder::default();
        // For the payload that is arriving, and when all of it has to be there.
        let (mut claim, mut deadline) = (None, Instant::now());
        if let Some(end) = self.take_all(&mut decoder, &early, &mut claim) {
            return Ok(end);
        }
        drop(early);
        loop {
            if let Some((payload, to_come)) = decoder.payload_in_arrival()
                && claim.is_none()
                && *to_come > buffer.len()
            {
                // Straight to its place; the last bytes come with the next request.
                let most = ALLOWANCE_BYTES.saturating_sub(payload.len());
                let count = self.shared.socket.read_into(payload, most.min(*to_come - buffer.len()))?;
                *to_come -= count;
                if count == 0 && most > 0 {
                    return Ok(End::Vanished);
                }
                if payload.len() >= ALLOWANCE_BYTES {
                    claim = Some(self.budget.claim(payload.len() + *to_come));
                    deadline = Instant::now() + ANSWER_TIMEOUT;
                }
            }
            if claim.is_some() {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                self.shared.socket.set_read_timeout(Some(left))?;
            }
            let count = { &*self.shared.socket }.read(buffer)?;
            let held_claim = claim.is_some();
            if count == 0 {
                return Ok(End::Vanished);
            }
            if let Some(end) = self.take_all(&mut decoder, &buffer[..count], &mut claim) {
                return Ok(end);
            }
            if held_claim && claim.is_none() {
                self.shared.socket.set_read_timeout(None)?;
            }
        }
    }

    /// Hands on what has arrived, with the claim of a payload that is complete. Returns an end if nothing more is to be read.
    fn take_all(&self, decoder: &mut Decoder, mut input: &[u8], claim: &mut Option<Claim>) -> Option<End> {
        let mut requests = VecDeque::new();
        let mut footprint_bytes = 0;
        let mut end = None;
        while end.is_none() && !input.is_empty() {
            let (taken, found) = decoder.take(input);
            input = &input[taken..];
            match found {
                Decoded::Incomplete => {}
                Decoded::Request(request) => {
                    if let Some(moment) = self.target.rate.book(request.moved_bytes()) {
                        // What may be executed already does not wait for this one.
                        end = self.submit(&mut requests, footprint_bytes, claim);
                        footprint_bytes = 0;
                        self.target.rate.wait_until(moment);
                    }
                    let bytes = request.footprint_bytes();
                    if footprint_bytes + bytes > BATCH_MAX_BYTES {
                        end = end.or(self.submit(&mut requests, footprint_bytes, claim));
                        footprint_bytes = 0;
                    }
                    footprint_bytes += bytes;
                    requests.push_back(Pending {
                        is_read: request.is_read(),
                        execution: Execution::of(request, &self.target.export, self.agreed),
                        footprint_bytes: bytes,
                        step: None,
                    });
                }
                Decoded::Disconnect => end = Some(End::Disconnected),
                Decoded::Garbage => end = Some(End::Garbage),
            }
        }
        self.submit(&mut requests, footprint_bytes, claim).or(end)
    }

    /// Queues requests, when there is room for them. Returns an end if nobody executes or awaits them.
    fn submit(
        &self,
        requests: &mut VecDeque<Pending>,
        footprint_bytes: usize,
        claim: &mut Option<Claim>,
    ) -> Option<End> {
        if requests.is_empty() {
            return None;
        }
        // Whoever has a claim asks for no other: two that wait for each other would wait for ever.
        let mut claims: Vec<_> = claim.take().into_iter().collect();
        if claims.is_empty() && self.shared.in_flight.bytes() + footprint_bytes > ALLOWANCE_BYTES {
            claims.push(self.budget.claim(footprint_bytes));
        }
        self.shared.in_flight.acquire(footprint_bytes);
        let (shared, claims) = (Arc::clone(&self.shared), Arc::new(claims));
        let batch = Batch { shared, claims, requests: std::mem::take(requests) };
        match self.target.engine.submit(batch) {
            Err(_) => Some(End::EngineStopped),
            Ok(()) => self.shared.in_flight.is_client_gone().then_some(End::Vanished),
        }
    }
}

/// Sends replies as they come. When the client is gone, they are dropped.
fn send_replies(shared: &Weak<Shared>, socket: &Socket, replies: &Receiver<Replies>) {
    let mut is_gone = false;
    while let Ok(sent) = replies.recv() {
        let patience = (!sent.claims.is_empty()).then_some(ANSWER_TIMEOUT);
        is_gone = is_gone
            || socket.set_write_timeout(patience).is_err()
            || socket.write_replies(&sent.batch, sent.sent_bytes).is_err();
        if is_gone {
            // Nothing more is read from a client that does not listen.
            socket.shutdown(Shutdown::Both);
        }
        let Some(shared) = shared.upgrade() else { continue };
        if is_gone {
            shared.in_flight.client_is_gone.store(true, Ordering::Relaxed);
        }
        shared.queued.fetch_sub(1, Ordering::AcqRel);
        shared.are_sent(sent);
    }
}

/// Bytes in flight of one connection.
#[derive(Debug, Default)]
struct InFlight {
    bytes: Mutex<usize>,
    released: Condvar,
    /// A reply could not be sent: nobody waits for the others.
    client_is_gone: AtomicBool,
}

impl InFlight {
    /// Waits until there is room. A single batch always has room.
    fn acquire(&self, bytes: usize) {
        let in_use = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_too_much = |in_use: &mut usize| *in_use > 0 && *in_use + bytes > IN_FLIGHT_MAX_BYTES;
        let waited = self.released.wait_while(in_use, is_too_much);
        *waited.unwrap_or_else(PoisonError::into_inner) += bytes;
    }

    fn bytes(&self) -> usize {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_client_gone(&self) -> bool {
        self.client_is_gone.load(Ordering::Relaxed)
    }

    fn release(&self, bytes: usize) {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) -= bytes;
        self.released.notify_one();
    }
}
