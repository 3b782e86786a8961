//! One NBD connection: a thread that receives requests and a thread that sends replies.
//!
//! The thread that receives requests executes short ones itself ([`crate::device_queue`]), and sends their replies if
//! the socket accepts them at once. There is a second thread because a client that sends without reading must not stop
//! the device, and a client that waits for a reply need not send.
//!
//! The memory that a client can make the server hold is bounded: by the payload that is arriving
//! ([`PAYLOAD_MAX_BYTES`](crate::nbd::PAYLOAD_MAX_BYTES)), and by the requests and replies in flight
//! ([`CONNECTION_IN_FLIGHT_MAX_BYTES`]), beyond which nothing more is read from this client. What exceeds a small
//! allowance is claimed from a memory budget that all connections share (`budget`).
//!
//! If a client disconnects in the middle of a request, this request is dropped: a write is executed when its last byte
//! has arrived, or not at all. Its waiting reads are dropped as soon as a reply cannot be sent.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tracing::{Span, debug, info, warn};

use crate::device::BlockDevice;
use crate::device_error::DeviceError;
use crate::device_queue::{DeviceQueue, DeviceWork, StepProgress};
use crate::memory_budget::{
    CONNECTION_UNCLAIMED_MAX_BYTES, HeldClaimCount, MEMORY_CLAIM_TIMEOUT, MemoryBudget, MemoryClaim,
    ReplyTimeAllowance,
};
use crate::nbd::{
    DecodedInput, Export, Negotiation, NegotiationResult, NegotiationState, Reply, RequestDecoder,
    RequestExecution, RequestStepOutcome, TlsPolicy,
};
use crate::rate_limit::ExportRateLimits;
use crate::socket::Socket;
use crate::tls::TlsConfig;

/// Most bytes of requests and replies that one connection may have in flight.
pub const CONNECTION_IN_FLIGHT_MAX_BYTES: usize = 64 << 20;
/// Longest time that an NBD client may take for the negotiation. A client that takes longer is disconnected.
const NEGOTIATION_TIMEOUT: Duration = Duration::from_secs(30);
/// Size of the receive buffer of a connection, bytes: the most that one read from the socket returns. Two writes of 128
/// KiB fit with their headers.
const RECEIVE_BUFFER_BYTES: usize = 260 << 10;
/// Fewest bytes that one read from the socket must return so that payloads of write requests stay in the receive
/// buffer. Payloads of a smaller read are copied, so that the buffer is free for the next read.
const ZERO_COPY_RECEIVE_MIN_BYTES: usize = 64 << 10;
/// Most bytes that one connection queues for the device as one batch: requests and the replies to them.
const REQUEST_BATCH_MAX_BYTES: usize = 8 << 20;
/// Largest size of a request with its reply, bytes, at which the receiving thread of a connection executes the request
/// itself. The thread receives nothing meanwhile. For larger requests it is faster to receive and execute at the same
/// time.
const SHORT_REQUEST_MAX_BYTES: usize = 32 << 10;
/// Most bytes of replies that the thread which executed the requests sends itself, without waking the writer thread.
const DIRECTLY_SENT_REPLIES_MAX_BYTES: usize = 64 << 10;
/// Most bytes of requests of one connection that are executed in one step. Requests of other connections are executed
/// before the next step.
const REQUEST_BATCH_STEP_MAX_BYTES: u64 = 2 << 20;
/// Number that the next connection gets. The device queue executes requests with the same number, those of one
/// connection, in their order.
static NEXT_QUEUEING_CONNECTION_NUMBER: AtomicU64 = AtomicU64::new(0);
/// Stack size, in bytes, of threads that never use a device and have their buffers on the heap.
pub(crate) const SMALL_THREAD_STACK_BYTES: usize = 256 << 10;

/// An NBD export as it is served: with the queue in front of its device, and the rate limit of its clients.
#[derive(Debug)]
pub(crate) struct ServedExport<D> {
    /// Name, size and properties of the export, as the NBD negotiation reports them.
    pub(crate) export: Export,
    /// Queue of work in front of the device of the export.
    pub(crate) device_queue: DeviceQueue<D>,
    /// Limits on the rates of requests and bytes that all clients of the export share.
    pub(crate) rate_limit: ExportRateLimits,
}

/// TLS policy of a listening socket: whether its NBD connections are encrypted.
#[derive(Clone, Debug)]
pub(crate) enum TlsMode {
    /// NBD connections are never encrypted.
    None,
    /// An NBD connection is encrypted if the client asks for it.
    Offered(TlsConfig),
    /// Every NBD connection is encrypted: a client has to start TLS before it may send any other option.
    Required(TlsConfig),
}

impl TlsMode {
    /// Returns the TLS configuration; `None` if connections are never encrypted.
    fn tls(&self) -> Option<&TlsConfig> {
        match self {
            Self::None => None,
            Self::Offered(tls) | Self::Required(tls) => Some(tls),
        }
    }

    /// Returns the policy by which the negotiation answers `NBD_OPT_STARTTLS`, the request of a client for encryption.
    fn negotiation_policy(&self) -> TlsPolicy {
        match self {
            Self::None => TlsPolicy::Refused,
            Self::Offered(_) => TlsPolicy::Offered,
            Self::Required(_) => TlsPolicy::Required,
        }
    }
}

/// How an NBD connection ended, apart from errors of its socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ConnectionEnd {
    /// The client sent `NBD_CMD_DISC`.
    Disconnected,
    /// The client closed its socket without `NBD_CMD_DISC`, or accepts no replies.
    ConnectionLost,
    /// The client sent bytes that are no NBD request.
    MalformedRequest,
    /// The device of the export has stopped.
    DeviceStopped,
}

/// Serves one NBD client until it disconnects: negotiates, then executes its requests on the export that it chose.
pub(crate) fn serve_nbd_client<D: BlockDevice>(
    socket: &Arc<Socket>,
    served_exports: &[ServedExport<D>],
    budget: &Arc<MemoryBudget>,
    tls_mode: &TlsMode,
) {
    let mut buffer = vec![0; RECEIVE_BUFFER_BYTES];
    // An export whose device has stopped is not offered.
    let offered: Vec<_> =
        served_exports.iter().filter(|served_export| served_export.device_queue.is_alive()).collect();
    let exports = offered.iter().map(|served_export| &served_export.export).collect();
    match negotiate(socket, exports, tls_mode, &mut buffer) {
        Ok(Some((negotiated, early))) => {
            let served_export = offered[negotiated.export_index];
            Span::current().record("export", &served_export.export.name);
            info!("the client attached");
            log_connection_end(&run_transmission(socket, served_export, budget, negotiated, early, buffer));
        }
        Ok(None) => debug!("the connection ended before the client chose an export"),
        Err(error) => debug!("the connection ended before the client chose an export: {error}"),
    }
    socket.send_tls_close();
}

/// Logs how a connection ended, at a log level that depends on the reason.
fn log_connection_end(end: &io::Result<ConnectionEnd>) {
    match end {
        Ok(ConnectionEnd::Disconnected) => info!("the client disconnected"),
        Ok(ConnectionEnd::ConnectionLost) => {
            info!("the connection ended without a disconnect request of the client");
        }
        Ok(ConnectionEnd::MalformedRequest) => {
            warn!(
                "the client sent bytes that are no NBD request, so the server closed the connection: check the client"
            );
        }
        Ok(ConnectionEnd::DeviceStopped) => {
            warn!(
                "the device of this export has stopped, so the server closed the connection: start the server again"
            );
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
            warn!(
                "the client did not send the rest of a request in time, so the server closed the connection: check \
                 the client and its network"
            );
        }
        Err(error) => info!("the connection to the client failed: {error}"),
    }
}

/// Executes the requests of one NBD client after the negotiation, until the client or the server ends the connection.
///
/// # Errors
/// Errors of the socket; the client is gone then.
fn run_transmission<D: BlockDevice>(
    socket: &Arc<Socket>,
    served_export: &ServedExport<D>,
    budget: &Arc<MemoryBudget>,
    negotiated: NegotiationResult,
    bytes_after_handshake: Vec<u8>,
    buffer: Vec<u8>,
) -> io::Result<ConnectionEnd> {
    let (replies, to_send) = mpsc::channel();
    let shared = Arc::new(SharedConnection {
        queueing_connection_number: NEXT_QUEUEING_CONNECTION_NUMBER.fetch_add(1, Ordering::Relaxed),
        log_span: Span::current(),
        socket: Arc::clone(socket),
        in_flight: InFlightBytes::default(),
        connection_memory_claim_count: Arc::default(),
        reply_buffers: ReplyBuffers::default(),
        reply_sender: replies,
        queued_reply_batches: AtomicUsize::new(0),
    });
    let writer = {
        // The writer ends when the last request of this client has been answered, so it must not hold the sending end
        // itself.
        let allowance =
            ReplyTimeAllowance::of(Arc::clone(&shared.connection_memory_claim_count), MEMORY_CLAIM_TIMEOUT);
        let (shared, socket) = (Arc::downgrade(&shared), Arc::clone(socket));
        let thread = thread::Builder::new().name("replies".into()).stack_size(SMALL_THREAD_STACK_BYTES);
        thread.spawn(move || send_replies(&shared, &socket, allowance, &to_send))?
    };
    let session = RequestReceiver { budget, served_export, negotiated, shared };
    let received = session.receive_requests(bytes_after_handshake, buffer);
    drop(session);
    let _ = writer.join();
    received
}

/// Runs the NBD handshake. Returns the negotiated export and options, and the bytes after the handshake that were
/// already read. `None` if the client disconnects, ends the negotiation or takes too long.
fn negotiate(
    socket: &Socket,
    exports: Vec<&Export>,
    tls_mode: &TlsMode,
    buffer: &mut [u8],
) -> io::Result<Option<(NegotiationResult, Vec<u8>)>> {
    let deadline = Instant::now() + NEGOTIATION_TIMEOUT;
    let (mut input, mut reply) = (Vec::new(), Vec::new());
    let mut negotiation = Negotiation::new(exports, &mut reply).with_tls(tls_mode.negotiation_policy());
    socket.set_write_timeout(Some(NEGOTIATION_TIMEOUT))?;
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
        if outcome != NegotiationState::Continues {
            { socket }.write_all(&reply)?;
            reply.clear();
        }
        match outcome {
            NegotiationState::Continues => continue,
            NegotiationState::StartsTls => {
                // What came before the handshake was not encrypted, whoever sent it.
                let Some(tls) = tls_mode.tls().filter(|_| input.is_empty()) else { return Ok(None) };
                socket.start_tls(tls, deadline)?;
                debug!("the connection is encrypted");
                continue;
            }
            NegotiationState::Agreed(_) | NegotiationState::Ended => {}
        }
        socket.set_read_timeout(None)?;
        // Replies are sent without blocking. The timeout is for what the TLS protocol itself sends.
        socket.set_write_timeout(Some(MEMORY_CLAIM_TIMEOUT))?;
        return Ok(match outcome {
            NegotiationState::Agreed(negotiated) => Some((negotiated, input)),
            _ => None,
        });
    }
}

/// Replies of one connection that are sent together. When they are sent, the bytes in flight of their requests are
/// released.
#[derive(Default)]
struct ReplyBatch {
    /// The replies of the batch, in the order in which they are sent.
    batch_replies: Vec<Reply>,
    /// Bytes in flight that the requests of these replies occupied; they are released when the replies are sent.
    in_flight_bytes_to_release: usize,
    /// Number of bytes at the beginning of the batch of replies that were sent already.
    sent_bytes: usize,
    /// Memory claims of the requests of the batch, on the budget that all connections share.
    #[expect(dead_code, reason = "they are held until the last reply of the batch is sent")]
    claims: Arc<Vec<MemoryClaim>>,
}

/// Buffers of replies that were sent. A connection keeps them for its later replies.
#[derive(Debug, Default)]
struct ReplyBuffers(Mutex<Vec<Vec<u8>>>);

impl ReplyBuffers {
    /// Maximum total size, in bytes, of the sent replies' buffers that a connection keeps for later replies.
    const KEPT_REPLY_BUFFERS_MAX_BYTES: usize = 4 << 20;

    /// Returns a kept buffer for the next reply, or an empty one.
    fn take_reply_buffer(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Keeps the buffers of large replies for later replies, up to 4 MiB in total.
    fn keep_reply_buffers(&self, replies: Vec<Reply>) {
        /// Minimum size, in bytes, of a sent reply's buffer that is kept; smaller buffers are freed.
        const KEPT_REPLY_BUFFER_MIN_BYTES: usize = 4096;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes: usize = kept.iter().map(Vec::len).sum();
        for buffer in replies.into_iter().map(Reply::into_buffer) {
            if buffer.len() >= KEPT_REPLY_BUFFER_MIN_BYTES
                && bytes + buffer.len() <= Self::KEPT_REPLY_BUFFERS_MAX_BYTES
            {
                bytes += buffer.len();
                kept.push(buffer);
            }
        }
    }
}

/// State of one connection that its requests, its receiving thread and its writer thread share.
struct SharedConnection {
    /// Number of the connection. The device queue executes work with equal numbers in order.
    queueing_connection_number: u64,
    /// Span of the connection, for log events.
    log_span: Span,
    /// Socket of the connection to the NBD client.
    socket: Arc<Socket>,
    /// Bytes of the requests and replies of this connection that are in flight.
    in_flight: InFlightBytes,
    /// Number of claims of this connection on the shared memory budget.
    connection_memory_claim_count: Arc<HeldClaimCount>,
    /// Buffers of sent replies, kept for later replies of this connection.
    reply_buffers: ReplyBuffers,
    /// Channel to the writer thread, which sends the replies.
    reply_sender: Sender<ReplyBatch>,
    /// Number of reply batches that were handed to the writer thread and are not sent yet.
    queued_reply_batches: AtomicUsize,
}

impl SharedConnection {
    /// Sends a batch of replies, or passes it to the writer thread. If the replies are small and the socket accepts
    /// them at once, the writer thread need not be woken. Only the thread that uses the device calls this, so no other
    /// thread sends while the writer's queue is empty.
    fn send_reply_batch(&self, mut batch: ReplyBatch) {
        let bytes: usize = batch.batch_replies.iter().map(|reply| reply.bytes().len()).sum();
        if bytes <= DIRECTLY_SENT_REPLIES_MAX_BYTES && self.queued_reply_batches.load(Ordering::Acquire) == 0
        {
            // An error of the socket is also met by the writer, which handles it.
            batch.sent_bytes = self.socket.try_write_replies(&batch.batch_replies).unwrap_or(0);
            if batch.sent_bytes == bytes {
                return self.release_sent_batch(batch);
            }
        }
        self.queued_reply_batches.fetch_add(1, Ordering::AcqRel);
        // If the writer has ended, the client is gone.
        let _ = self.reply_sender.send(batch);
    }

    /// Releases a batch of replies that was sent: keeps its buffers for later replies, and subtracts its bytes in
    /// flight.
    fn release_sent_batch(&self, sent: ReplyBatch) {
        self.reply_buffers.keep_reply_buffers(sent.batch_replies);
        self.in_flight.remove_in_flight(sent.in_flight_bytes_to_release);
    }
}

/// A received request of an NBD client, kept until its reply is encoded.
struct PendingRequest {
    /// The request, and how far its execution on the device has got.
    execution: RequestExecution,
    /// Whether the client requests a read, so that the reply carries data.
    is_read_request: bool,
    /// Memory that the request and its reply occupy together, bytes.
    memory_bytes: usize,
    /// Outcome of the last step of executing the request; `None` while steps are left.
    final_step_outcome: Option<RequestStepOutcome>,
}

/// Requests of one connection that arrived together. The device queue executes them as one piece of work. If the batch
/// is dropped before all its requests are answered, because the device has failed, the connection is closed, and the
/// memory of these requests is no longer counted as in flight: the receiving thread may wait for it.
struct RequestBatch {
    /// State that the requests of this connection share with its threads.
    shared: Arc<SharedConnection>,
    /// Claims on the shared memory budget for these requests and their replies.
    claims: Arc<Vec<MemoryClaim>>,
    /// Requests of the batch that are not answered yet, oldest first.
    requests: VecDeque<PendingRequest>,
    /// Size of the receive buffer, bytes, if payloads of these requests are parts of it; 0 if each payload has a buffer
    /// of its own.
    shared_buffer_bytes: usize,
}

impl Drop for RequestBatch {
    fn drop(&mut self) {
        if self.requests.is_empty() {
            return;
        }
        self.shared.socket.shutdown(Shutdown::Both);
        let unanswered_bytes: usize = self.requests.iter().map(|request| request.memory_bytes).sum();
        self.shared.in_flight.remove_in_flight(unanswered_bytes + self.shared_buffer_bytes);
    }
}

impl<D: BlockDevice> DeviceWork<D> for RequestBatch {
    fn queueing_connection_number(&self) -> Option<u64> {
        Some(self.shared.queueing_connection_number)
    }

    fn is_next_step_short(&self) -> bool {
        self.requests.iter().all(|request| request.memory_bytes <= SHORT_REQUEST_MAX_BYTES)
    }

    /// Executes requests of the batch in order, up to 2 MiB of data, so that requests of other connections are not
    /// delayed for long.
    fn step(&mut self, device: &mut D) -> StepProgress {
        let _logged_as = self.shared.log_span.enter();
        let mut progress = StepProgress::default();
        let mut left_bytes = REQUEST_BATCH_STEP_MAX_BYTES;
        let is_gone = self.shared.in_flight.is_client_gone();
        for pending in &mut self.requests {
            if left_bytes == 0 {
                progress.has_more_steps = true;
                break;
            }
            left_bytes = left_bytes.saturating_sub(pending.execution.next_step_max_bytes());
            // The data of a read would be received by nobody; writes that were sent are executed.
            let step = if pending.is_read_request && is_gone {
                RequestStepOutcome::Replied(Reply::default())
            } else {
                pending.execution.step(device, || self.shared.reply_buffers.take_reply_buffer())
            };
            progress.wants_flush |= matches!(step, RequestStepOutcome::NeedsFlush);
            if matches!(step, RequestStepOutcome::HasMoreSteps) {
                progress.has_more_steps = true;
                break;
            }
            pending.final_step_outcome = Some(step);
        }
        progress
    }

    fn answer_requests(&mut self, flush_or_write_outcome: &Result<(), DeviceError>) {
        let batch = Vec::with_capacity(self.requests.len());
        let mut sent =
            ReplyBatch { claims: Arc::clone(&self.claims), batch_replies: batch, ..ReplyBatch::default() };
        while let Some(step) = self.requests.front_mut().and_then(|pending| pending.final_step_outcome.take())
        {
            let pending = self.requests.pop_front().expect("it was looked at above");
            sent.in_flight_bytes_to_release += pending.memory_bytes;
            sent.batch_replies.push(match step {
                RequestStepOutcome::Replied(reply) => reply,
                RequestStepOutcome::HasMoreSteps
                | RequestStepOutcome::NeedsDeferredWrites
                | RequestStepOutcome::NeedsFlush => pending.execution.final_reply(flush_or_write_outcome),
            });
        }
        if self.requests.is_empty() {
            sent.in_flight_bytes_to_release += std::mem::take(&mut self.shared_buffer_bytes);
        }
        if !sent.batch_replies.is_empty() {
            self.shared.send_reply_batch(sent);
        }
    }
}

/// The receiving side of an NBD connection: reads and decodes requests, and queues them for the device of the client's
/// export.
struct RequestReceiver<'a, D> {
    /// Memory budget that all connections of the server share.
    budget: &'a Arc<MemoryBudget>,
    /// The export that the client chose in the negotiation.
    served_export: &'a ServedExport<D>,
    /// Result of the NBD negotiation: the chosen export and the agreed options.
    negotiated: NegotiationResult,
    /// State that this receiver shares with the requests and the writer thread of its connection.
    shared: Arc<SharedConnection>,
}

impl<D: BlockDevice> RequestReceiver<'_, D> {
    /// Reads requests from the socket and queues them for the device, until the client disconnects or sends bytes that
    /// are no request. `early_bytes` were received together with the end of the handshake.
    fn receive_requests(&self, early_bytes: Vec<u8>, buffer: Vec<u8>) -> io::Result<ConnectionEnd> {
        let mut decoder = RequestDecoder::of(self.negotiated.header_form);
        let mut buffers =
            ReceiveBuffers { current_buffer: Arc::new(buffer), replaced_buffers: VecDeque::new() };
        // Claim on the memory budget for the payload that is arriving, and the deadline by which all of it has to
        // arrive.
        let (mut claim, mut deadline) = (None, Instant::now());
        let count = early_bytes.len();
        if let Some(end) = self.decode_and_queue(&mut decoder, &Arc::new(early_bytes), count, &mut claim) {
            return Ok(end);
        }
        loop {
            if let Some((payload, to_come)) = decoder.arriving_payload()
                && claim.is_none()
                && *to_come > RECEIVE_BUFFER_BYTES
            {
                // Read directly into the payload; its last bytes are read through the buffer, with the next request.
                let most = CONNECTION_UNCLAIMED_MAX_BYTES.saturating_sub(payload.len());
                let count = self
                    .shared
                    .socket
                    .append_from_socket(payload, most.min(*to_come - RECEIVE_BUFFER_BYTES))?;
                *to_come -= count;
                if count == 0 && most > 0 {
                    return Ok(ConnectionEnd::ConnectionLost);
                }
                if payload.len() >= CONNECTION_UNCLAIMED_MAX_BYTES {
                    claim = Some(
                        self.budget
                            .claim(payload.len() + *to_come, &self.shared.connection_memory_claim_count),
                    );
                    deadline = Instant::now() + MEMORY_CLAIM_TIMEOUT;
                }
            }
            if claim.is_some() {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                self.shared.socket.set_read_timeout(Some(left))?;
            }
            let into = &mut buffers.ensure_unshared_buffer()[..decoder.next_read_bytes(RECEIVE_BUFFER_BYTES)];
            let count = { &*self.shared.socket }.read(into)?;
            let held_claim = claim.is_some();
            if count == 0 {
                return Ok(ConnectionEnd::ConnectionLost);
            }
            if let Some(end) = self.decode_and_queue(&mut decoder, &buffers.current_buffer, count, &mut claim)
            {
                return Ok(end);
            }
            if held_claim && claim.is_none() {
                self.shared.socket.set_read_timeout(None)?;
            }
        }
    }

    /// Decodes the first `count` bytes of `buffer` and queues the complete requests for the device. `claim` is memory
    /// claimed from the budget for a payload. It is passed on with that payload. Returns how the connection ended, or
    /// `None` if it continues.
    fn decode_and_queue(
        &self,
        decoder: &mut RequestDecoder,
        buffer: &Arc<Vec<u8>>,
        count: usize,
        claim: &mut Option<MemoryClaim>,
    ) -> Option<ConnectionEnd> {
        let mut requests = VecDeque::new();
        let mut footprint_bytes = 0;
        let mut end = None;
        let mut at = 0;
        while end.is_none() && at < count {
            let (taken, found) = if count < ZERO_COPY_RECEIVE_MIN_BYTES {
                decoder.decode_next(&buffer[at..count])
            } else {
                decoder.decode_next_sharing_buffer(buffer, at..count)
            };
            at += taken;
            match found {
                DecodedInput::Incomplete => {}
                DecodedInput::Request(request) => {
                    let (bytes, is_read_request) =
                        (request.request_and_reply_memory_bytes(), request.is_read_request());
                    let execution =
                        RequestExecution::of(request, &self.served_export.export, self.negotiated);
                    if let Some(moment) =
                        self.served_export.rate_limit.reserve_request_time(execution.rate_limited_bytes())
                    {
                        // Requests that may be executed already are queued before the wait for the rate limit.
                        end = self.queue_requests(&mut requests, footprint_bytes, claim);
                        footprint_bytes = 0;
                        self.served_export.rate_limit.wait_until(moment);
                    }
                    if footprint_bytes + bytes > REQUEST_BATCH_MAX_BYTES {
                        end = end.or(self.queue_requests(&mut requests, footprint_bytes, claim));
                        footprint_bytes = 0;
                    }
                    footprint_bytes += bytes;
                    requests.push_back(PendingRequest {
                        is_read_request,
                        execution,
                        memory_bytes: bytes,
                        final_step_outcome: None,
                    });
                }
                DecodedInput::Disconnect => end = Some(ConnectionEnd::Disconnected),
                DecodedInput::MalformedRequest => end = Some(ConnectionEnd::MalformedRequest),
            }
        }
        self.queue_requests(&mut requests, footprint_bytes, claim).or(end)
    }

    /// Queues requests for the device, once the limit of bytes in flight allows it. The requests and their replies
    /// occupy `footprint_bytes` of memory. The memory of `claim` is used for them if it is given. Returns how the
    /// connection ended, if the device has stopped or the client is gone.
    fn queue_requests(
        &self,
        requests: &mut VecDeque<PendingRequest>,
        footprint_bytes: usize,
        claim: &mut Option<MemoryClaim>,
    ) -> Option<ConnectionEnd> {
        if requests.is_empty() {
            return None;
        }
        let is_shared = requests.iter().any(|pending| pending.execution.payload_shares_buffer());
        let shared_bytes = if is_shared { RECEIVE_BUFFER_BYTES } else { 0 };
        let footprint_bytes = footprint_bytes + shared_bytes;
        // A connection that holds a claim makes no other one: two that wait for each other would wait forever.
        let mut claims: Vec<_> = claim.take().into_iter().collect();
        if claims.is_empty()
            && self.shared.in_flight.in_flight_bytes() + footprint_bytes > CONNECTION_UNCLAIMED_MAX_BYTES
        {
            claims.push(self.budget.claim(footprint_bytes, &self.shared.connection_memory_claim_count));
        }
        self.shared.in_flight.wait_and_add_in_flight(footprint_bytes);
        let (shared, claims) = (Arc::clone(&self.shared), Arc::new(claims));
        let batch = RequestBatch {
            shared,
            claims,
            requests: std::mem::take(requests),
            shared_buffer_bytes: shared_bytes,
        };
        match self.served_export.device_queue.submit(batch) {
            Err(_) => Some(ConnectionEnd::DeviceStopped),
            Ok(()) => self.shared.in_flight.is_client_gone().then_some(ConnectionEnd::ConnectionLost),
        }
    }
}

/// Receive buffers of one connection. Requests that are not executed yet may still refer to a buffer, so the connection
/// receives into another one meanwhile.
struct ReceiveBuffers {
    /// Buffer into which the connection receives at present.
    current_buffer: Arc<Vec<u8>>,
    /// Receive buffers that were replaced by the current one and to which requests may still refer, oldest first.
    replaced_buffers: VecDeque<Arc<Vec<u8>>>,
}

impl ReceiveBuffers {
    /// Number of earlier receive buffers that a connection keeps for reuse, because clearing a new buffer takes as long
    /// as receiving into it.
    const KEPT_RECEIVE_BUFFERS_MAX: usize = 3;

    /// Returns the buffer into which the connection receives next. If requests still refer to the current buffer, a
    /// buffer without references replaces it first.
    fn ensure_unshared_buffer(&mut self) -> &mut Vec<u8> {
        if Arc::get_mut(&mut self.current_buffer).is_none() {
            let is_free =
                self.replaced_buffers.front_mut().is_some_and(|oldest| Arc::get_mut(oldest).is_some());
            let reused = if is_free { self.replaced_buffers.pop_front() } else { None };
            let next = reused.unwrap_or_else(|| Arc::new(vec![0; RECEIVE_BUFFER_BYTES]));
            self.replaced_buffers.push_back(std::mem::replace(&mut self.current_buffer, next));
            if self.replaced_buffers.len() > Self::KEPT_RECEIVE_BUFFERS_MAX {
                self.replaced_buffers.pop_front();
            }
        }
        Arc::get_mut(&mut self.current_buffer).expect("nothing else has it")
    }
}

/// Runs the writer thread of a connection: sends batches of replies in order. Once the client is gone, replies are
/// dropped.
fn send_replies(
    shared: &Weak<SharedConnection>,
    socket: &Socket,
    mut allowance: ReplyTimeAllowance,
    replies: &Receiver<ReplyBatch>,
) {
    let mut is_gone = false;
    loop {
        let next = replies.try_recv().or_else(|none| {
            if none == TryRecvError::Empty {
                allowance.reset();
            }
            replies.recv()
        });
        let Ok(sent) = next else { return };
        let outcome = if is_gone {
            Ok(())
        } else {
            socket.write_replies(&sent.batch_replies, sent.sent_bytes, &mut allowance)
        };
        is_gone |= outcome.is_err();
        if is_gone {
            // A client that accepts no replies may send no more requests.
            socket.shutdown(Shutdown::Both);
        }
        let Some(shared) = shared.upgrade() else { continue };
        if outcome.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            let _logged_as = shared.log_span.enter();
            warn!(
                "the client did not accept its replies in time, and they use memory that all clients share, so the \
                 server closed the connection: check the client, or raise --max-memory"
            );
        }
        if is_gone {
            shared.in_flight.is_client_gone.store(true, Ordering::Relaxed);
        }
        shared.queued_reply_batches.fetch_sub(1, Ordering::AcqRel);
        shared.release_sent_batch(sent);
    }
}

/// Number of bytes of requests and replies that one connection has in flight. Threads wait here while the number is at
/// its limit.
#[derive(Debug, Default)]
struct InFlightBytes {
    /// Number of bytes of memory that requests of the connection occupy which were received and not answered yet: their
    /// data, the data of their replies, an overhead for each request, and receive buffers that hold their payloads.
    in_flight_bytes: Mutex<usize>,
    /// Wakes a waiting thread when bytes are no longer in flight, or the client is gone.
    release_signal: Condvar,
    /// Whether a reply could not be sent. If so, further replies of this connection are not needed.
    is_client_gone: AtomicBool,
}

impl InFlightBytes {
    /// Waits until `bytes` more fit below [`CONNECTION_IN_FLIGHT_MAX_BYTES`], and counts them as in flight. If nothing
    /// else is in flight, any number is accepted.
    fn wait_and_add_in_flight(&self, bytes: usize) {
        let in_use = self.in_flight_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_too_much =
            |in_use: &mut usize| *in_use > 0 && *in_use + bytes > CONNECTION_IN_FLIGHT_MAX_BYTES;
        let waited = self.release_signal.wait_while(in_use, is_too_much);
        *waited.unwrap_or_else(PoisonError::into_inner) += bytes;
    }

    /// Returns the number of bytes that the requests and replies of the connection have in flight.
    fn in_flight_bytes(&self) -> usize {
        *self.in_flight_bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a reply could not be sent, so that further replies of the connection are not needed.
    fn is_client_gone(&self) -> bool {
        self.is_client_gone.load(Ordering::Relaxed)
    }

    /// Subtracts bytes that are no longer in flight, and wakes the thread that waits for this.
    fn remove_in_flight(&self, bytes: usize) {
        *self.in_flight_bytes.lock().unwrap_or_else(PoisonError::into_inner) -= bytes;
        self.release_signal.notify_one();
    }
}
