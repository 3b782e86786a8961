//! One NBD connection: a thread that reads requests and a thread that writes replies.
//!
//! Two threads, because a client that sends without reading must not stop the engine, and one that waits for a reply must
//! not have to send. What a client can make the server hold is bounded: the payload that is arriving
//! ([`PAYLOAD_MAX_BYTES`](crate::nbd::PAYLOAD_MAX_BYTES)), and requests and replies in flight
//! ([`IN_FLIGHT_MAX_BYTES`]), beyond which nothing more is read from it. A client that vanishes takes its half-sent request
//! with it: a write is executed when its last byte has arrived, or not at all. Its reads that wait are dropped as soon as a
//! reply cannot be sent.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::device::BlockDevice;
use crate::engine::Engine;
use crate::nbd::{Decoded, Decoder, Export, Negotiated, Negotiation, Outcome, execute};
use crate::socket::Socket;

/// Requests and replies that one connection may have in flight.
pub const IN_FLIGHT_MAX_BYTES: usize = 64 << 20;
/// Time for a negotiation: a client that takes longer is in nobody's way.
const NEGOTIATION_LIMIT: Duration = Duration::from_secs(30);
/// Bytes read from a socket at once, and gathered for it.
const CHUNK_BYTES: usize = 256 << 10;
/// The stack of a thread that holds its buffers on the heap.
pub(crate) const STACK_BYTES: usize = 256 << 10;

/// Serves one client to its end.
///
/// # Errors
/// What the socket says; the client is gone then.
pub(crate) fn serve<D: BlockDevice>(
    socket: &Arc<Socket>,
    export: &Arc<Export>,
    engine: &Engine<D>,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let Some((agreed, early)) = negotiate(socket, export, &mut buffer)? else { return Ok(()) };
    let in_flight = Arc::new(InFlight::default());
    let (replies, to_send) = mpsc::channel();
    let writer = {
        let (socket, in_flight) = (Arc::clone(socket), Arc::clone(&in_flight));
        let thread = thread::Builder::new().name("replies".into()).stack_size(STACK_BYTES);
        thread.spawn(move || send_replies(&socket, &to_send, &in_flight))?
    };
    let session = Session { socket, export, engine, agreed, in_flight: &in_flight, replies };
    let received = session.receive(early, &mut buffer);
    drop(session);
    // The writer ends when the last request of this client has been answered.
    let _ = writer.join();
    received
}

/// Negotiates, and returns what came behind it; `None` if the client goes.
fn negotiate(
    socket: &Socket,
    export: &Export,
    buffer: &mut [u8],
) -> io::Result<Option<(Negotiated, Vec<u8>)>> {
    let deadline = Instant::now() + NEGOTIATION_LIMIT;
    let (mut input, mut reply) = (Vec::new(), Vec::new());
    let mut negotiation = Negotiation::new(export, &mut reply);
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

/// A reply and what it gives back to the limit when it is sent.
struct Reply {
    bytes: Vec<u8>,
    footprint_bytes: usize,
}

/// A request that waits for its reply. One that is dropped without, because the engine has failed, ends the connection.
struct Pending {
    socket: Arc<Socket>,
    replies: Sender<Reply>,
    footprint_bytes: usize,
    is_answered: bool,
}

impl Pending {
    fn answer(mut self, bytes: Vec<u8>) {
        self.is_answered = true;
        // Without a writer the client is gone.
        let _ = self.replies.send(Reply { bytes, footprint_bytes: self.footprint_bytes });
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.is_answered {
            self.socket.shutdown(Shutdown::Both);
        }
    }
}

struct Session<'a, D> {
    socket: &'a Arc<Socket>,
    export: &'a Arc<Export>,
    engine: &'a Engine<D>,
    agreed: Negotiated,
    in_flight: &'a Arc<InFlight>,
    replies: Sender<Reply>,
}

impl<D: BlockDevice> Session<'_, D> {
    /// Reads requests and hands them to the engine, until the client goes or sends what is no request.
    fn receive(&self, early: Vec<u8>, buffer: &mut [u8]) -> io::Result<()> {
        let mut decoder = Decoder::default();
        if !self.take_all(&mut decoder, &early) {
            return Ok(());
        }
        drop(early);
        loop {
            let count = { &**self.socket }.read(buffer)?;
            if count == 0 || !self.take_all(&mut decoder, &buffer[..count]) {
                return Ok(());
            }
        }
    }

    /// False if nothing more is to be read.
    fn take_all(&self, decoder: &mut Decoder, mut input: &[u8]) -> bool {
        while !input.is_empty() {
            let (taken, found) = decoder.take(input);
            input = &input[taken..];
            match found {
                Decoded::Incomplete => {}
                Decoded::Request(request) => {
                    let footprint_bytes = request.footprint_bytes();
                    self.in_flight.acquire(footprint_bytes);
                    if self.in_flight.is_client_gone() {
                        return false;
                    }
                    let pending = Pending {
                        socket: Arc::clone(self.socket),
                        replies: self.replies.clone(),
                        footprint_bytes,
                        is_answered: false,
                    };
                    let (export, agreed) = (Arc::clone(self.export), self.agreed);
                    let in_flight = Arc::clone(self.in_flight);
                    let queued = self.engine.submit(move |device| {
                        // Nobody would receive what a read finds; what was sent to be written is written.
                        let is_void = request.is_read() && in_flight.is_client_gone();
                        let reply =
                            if is_void { Vec::new() } else { execute(device, request, &export, agreed) };
                        pending.answer(reply);
                    });
                    if queued.is_err() {
                        return false;
                    }
                }
                Decoded::Disconnect | Decoded::Garbage => return false,
            }
        }
        true
    }
}

/// Sends replies as they come, several at once if several wait. When the client is gone, they are dropped.
fn send_replies(socket: &Socket, replies: &Receiver<Reply>, in_flight: &InFlight) {
    let mut is_gone = false;
    while let Ok(first) = replies.recv() {
        let mut footprint_bytes = first.footprint_bytes;
        let mut bytes = first.bytes;
        while bytes.len() < CHUNK_BYTES
            && let Ok(next) = replies.try_recv()
        {
            footprint_bytes += next.footprint_bytes;
            bytes.extend(next.bytes);
        }
        is_gone = is_gone || { socket }.write_all(&bytes).is_err();
        if is_gone {
            in_flight.client_is_gone.store(true, Ordering::Relaxed);
        }
        in_flight.release(footprint_bytes);
        if is_gone {
            // Nothing more is read from a client that does not listen.
            socket.shutdown(Shutdown::Both);
        }
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
    /// Waits until there is room. A single request always has room.
    fn acquire(&self, bytes: usize) {
        let in_use = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_too_much = |in_use: &mut usize| *in_use > 0 && *in_use + bytes > IN_FLIGHT_MAX_BYTES;
        let waited = self.released.wait_while(in_use, is_too_much);
        *waited.unwrap_or_else(PoisonError::into_inner) += bytes;
    }

    fn is_client_gone(&self) -> bool {
        self.client_is_gone.load(Ordering::Relaxed)
    }

    fn release(&self, bytes: usize) {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) -= bytes;
        self.released.notify_one();
    }
}
