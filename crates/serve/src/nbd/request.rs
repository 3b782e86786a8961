//! NBD requests: decodes bytes into requests, and checks each request. A checked request is an action for the device,
//! or is refused with an error.

use std::ops::{Deref, Range};
use std::sync::Arc;

use super::negotiation::{HeaderForm, MetadataContexts, NegotiationResult};
use super::wire::{EXTENDED_REQUEST_MAGIC, REQUEST_MAGIC, command, command_flag as flag, errno};
use super::{Export, MINIMUM_BLOCK_BYTES, PAYLOAD_MAX_BYTES, context};

/// Length of an NBD request header without extended headers, bytes.
const COMPACT_REQUEST_HEADER_BYTES: usize = 28;
/// Length of an NBD request header with extended headers, bytes.
const EXTENDED_REQUEST_HEADER_BYTES: usize = 32;
/// Longest payload of a block-status request, bytes. The payload consists of a length (8 bytes) and the number of each
/// selected metadata context (4 bytes).
const BLOCK_STATUS_PAYLOAD_MAX_BYTES: u32 = 8 + 2 * 4;
/// Most extents of one metadata context in a block-status reply.
pub(super) const EXTENTS_PER_CONTEXT_MAX: usize = 4096;
/// Length of the header of an extended reply chunk, bytes: the longest header that a reply can have.
pub(super) const EXTENDED_REPLY_HEADER_BYTES: usize = 32;
/// Longest reply to a block-status request, bytes: one chunk for each of two metadata contexts.
const BLOCK_STATUS_REPLY_MAX_BYTES: usize =
    2 * (EXTENDED_REPLY_HEADER_BYTES + 8 + 16 * EXTENTS_PER_CONTEXT_MAX);
/// Most bytes of memory that are allocated for a payload before its bytes arrive. The buffer grows as they arrive.
const PAYLOAD_PREALLOCATION_MAX_BYTES: usize = 256 << 10;

/// Payload of an NBD request: the data of a write, or the contexts that a block-status request selects. The payload has
/// a buffer of its own, or is a part of the receive buffer in which the request arrived.
#[derive(Clone, Debug)]
pub struct Payload(PayloadBytes);

/// Location of the bytes of a payload.
#[derive(Clone, Debug)]
enum PayloadBytes {
    /// The payload is in a buffer of its own.
    Own(Vec<u8>),
    /// The payload is the part `range` of a receive buffer.
    Part { buffer: Arc<Vec<u8>>, range: Range<usize> },
}

impl Payload {
    /// Whether the payload is a part of a receive buffer, which therefore has to stay in memory.
    pub fn shares_buffer(&self) -> bool {
        matches!(self.0, PayloadBytes::Part { .. })
    }

    /// Returns the bytes of the payload that have arrived, to which the caller may append further ones.
    fn arrived_bytes(&mut self) -> &mut Vec<u8> {
        match &mut self.0 {
            PayloadBytes::Own(bytes) => bytes,
            PayloadBytes::Part { .. } => unreachable!("a part has arrived whole"),
        }
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self(PayloadBytes::Own(Vec::new()))
    }
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            PayloadBytes::Own(bytes) => bytes,
            PayloadBytes::Part { buffer, range } => &buffer[range.clone()],
        }
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Payload {}

/// An NBD request as decoded from the bytes of a client, not checked yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Number by which the client matches the reply to its request.
    pub cookie: u64,
    /// Number of the NBD command.
    command: u16,
    /// Flags of the NBD command.
    flags: u16,
    /// Offset of the requested range, bytes.
    pub(super) offset: u64,
    /// Length in the request header, bytes. With the flag `PAYLOAD_LEN` it is the length of the payload, otherwise of
    /// the range. For a write, payload and range have this length.
    len: u64,
    /// Payload of the request, as far as it has arrived; empty if there is none.
    payload: Payload,
}

/// Result of [`RequestDecoder::decode_next`]: what the bytes of a client mean.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DecodedInput {
    /// The request is not complete: more bytes are needed.
    Incomplete,
    /// A complete request. Its payload is missing if it is longer than the limit or does not belong to the command;
    /// [`Request::into_checked_action`] then refuses the request.
    Request(Request),
    /// The client sent `NBD_CMD_DISC`.
    Disconnect,
    /// The bytes are not an NBD request, or an extended one announces a payload that is longer than the limit. Later
    /// bytes cannot be decoded either.
    MalformedRequest,
}

/// Decoder that splits the byte stream of an NBD client into requests. It holds at most one payload, whose buffer grows
/// as bytes arrive.
#[derive(Clone, Debug, Default)]
pub struct RequestDecoder {
    /// Whether the client negotiated extended headers (lengths of 64 bits).
    has_extended_headers: bool,
    /// Header of the next request, as far as it has arrived.
    header: [u8; EXTENDED_REQUEST_HEADER_BYTES],
    /// Number of bytes of the next request's header that have arrived.
    header_bytes_arrived: usize,
    /// Request whose header has arrived, and whose payload has not arrived completely.
    pending_request: Option<Request>,
    /// Number of bytes of the pending request's payload that have not arrived yet.
    missing_payload_bytes: usize,
    /// Length of the last complete request with its header, bytes.
    last_request_bytes: usize,
}

impl RequestDecoder {
    /// Makes a decoder of requests whose headers have the negotiated form. [`RequestDecoder::default`] decodes requests
    /// with compact headers.
    pub fn of(headers: HeaderForm) -> Self {
        Self { has_extended_headers: headers == HeaderForm::Extended, ..Self::default() }
    }

    /// Takes bytes from the front of `input` up to the end of the first request. Returns the number of bytes taken, and
    /// what was decoded.
    pub fn decode_next(&mut self, input: &[u8]) -> (usize, DecodedInput) {
        let mut taken = 0;
        if self.pending_request.is_none() {
            taken = (self.header_bytes() - self.header_bytes_arrived).min(input.len());
            self.header[self.header_bytes_arrived..][..taken].copy_from_slice(&input[..taken]);
            self.header_bytes_arrived += taken;
            if !self.may_be_magic(&self.header[..self.header_bytes_arrived]) {
                return (taken, DecodedInput::MalformedRequest);
            }
            if self.header_bytes_arrived < self.header_bytes() {
                return (taken, DecodedInput::Incomplete);
            }
            self.header_bytes_arrived = 0;
            let Some(mut request) = self.decode_header(&self.header) else {
                return (taken, DecodedInput::MalformedRequest);
            };
            self.missing_payload_bytes = if self.has_payload(&request) { request.len as usize } else { 0 };
            if request.keeps_payload() {
                request
                    .payload
                    .arrived_bytes()
                    .reserve_exact(self.missing_payload_bytes.min(PAYLOAD_PREALLOCATION_MAX_BYTES));
            }
            self.pending_request = Some(request);
        }
        let payload = &input[taken..];
        let payload = &payload[..self.missing_payload_bytes.min(payload.len())];
        self.missing_payload_bytes -= payload.len();
        taken += payload.len();
        if let Some(request) = &mut self.pending_request
            && request.keeps_payload()
        {
            request.payload.arrived_bytes().extend(payload);
        }
        if self.missing_payload_bytes > 0 {
            return (taken, DecodedInput::Incomplete);
        }
        let request = self.pending_request.take().expect("a request was pending");
        self.last_request_bytes = self.header_bytes() + request.payload.len();
        let is_last = request.command == command::DISCONNECT;
        (taken, if is_last { DecodedInput::Disconnect } else { DecodedInput::Request(request) })
    }

    /// Decodes the bytes `range` of a buffer as [`RequestDecoder::decode_next`] does. If the whole payload of a write
    /// is in this range, it is not copied: the request refers to the buffer.
    pub fn decode_next_sharing_buffer(
        &mut self,
        buffer: &Arc<Vec<u8>>,
        range: Range<usize>,
    ) -> (usize, DecodedInput) {
        let input = &buffer[range.clone()];
        if self.is_at_request_boundary()
            && let Some(mut request) = self.decode_header(input)
            && request.command == command::WRITE
            && self.has_payload(&request)
            && request.keeps_payload()
            && input.len() - self.header_bytes() >= request.len as usize
        {
            let from = range.start + self.header_bytes();
            let range = from..from + request.len as usize;
            let taken = self.header_bytes() + range.len();
            self.last_request_bytes = taken;
            request.payload = Payload(PayloadBytes::Part { buffer: Arc::clone(buffer), range });
            return (taken, DecodedInput::Request(request));
        }
        self.decode_next(input)
    }

    /// Returns the payload that is being received, with the bytes that have arrived, and the number of missing bytes. A
    /// caller that reads from a socket may append bytes to it directly, and subtract their number. `None` if no payload
    /// is being received.
    pub fn arriving_payload(&mut self) -> Option<(&mut Vec<u8>, &mut usize)> {
        let request = self.pending_request.as_mut().filter(|request| request.keeps_payload())?;
        Some((request.payload.arrived_bytes(), &mut self.missing_payload_bytes))
    }

    /// Returns how many bytes the next read into a buffer of `room` bytes should request, at least 1. It assumes that
    /// the next requests are as long as the last one. Then the buffer ends with a complete request, and no payload has
    /// to be copied because it is split over two buffers.
    pub fn next_read_bytes(&self, room: usize) -> usize {
        let missing = match &self.pending_request {
            Some(_) => self.missing_payload_bytes,
            None if self.header_bytes_arrived > 0 => {
                self.last_request_bytes.saturating_sub(self.header_bytes_arrived)
            }
            None => 0,
        };
        let further = room.saturating_sub(missing);
        if self.last_request_bytes == 0 || missing + further != room || further < self.last_request_bytes {
            return room;
        }
        missing + further / self.last_request_bytes * self.last_request_bytes
    }

    /// Whether the stream of bytes is between two requests, so that the client may end the connection here.
    pub fn is_at_request_boundary(&self) -> bool {
        self.header_bytes_arrived == 0 && self.pending_request.is_none()
    }

    /// Returns the magic number with which request headers begin, according to the negotiated form.
    fn magic(&self) -> u32 {
        if self.has_extended_headers { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC }
    }

    /// Whether a header that begins with the bytes `arrived` may still be a request, because its magic number is right
    /// as far as it has arrived. Without this check, a client that sends other bytes would wait for an answer, and the
    /// server for the rest of the header.
    fn may_be_magic(&self, arrived: &[u8]) -> bool {
        arrived.iter().zip(self.magic().to_be_bytes()).all(|(&byte, expected)| byte == expected)
    }

    /// Returns the length of a request header, bytes, according to the negotiated form.
    fn header_bytes(&self) -> usize {
        if self.has_extended_headers { EXTENDED_REQUEST_HEADER_BYTES } else { COMPACT_REQUEST_HEADER_BYTES }
    }

    /// Whether a payload follows the header of `request`, with the length in the header. A write always has a payload.
    /// With extended headers a client has to announce it by the flag `PAYLOAD_LEN`, but qemu 10 sends the data of a
    /// write without this flag.
    fn has_payload(&self, request: &Request) -> bool {
        request.command == command::WRITE || self.has_extended_headers && request.has_payload_flag()
    }

    /// Decodes the header at the front of `input` as a request with an empty payload. `None` if the header is not
    /// complete or the bytes are no request. Also `None` if the announced payload is too long to be skipped: with
    /// extended headers, the protocol wants such a client to be disconnected.
    fn decode_header(&self, input: &[u8]) -> Option<Request> {
        let len_bytes = if self.has_extended_headers { 8 } else { 4 };
        let head = input.get(..self.header_bytes())?;
        let bytes = |at: usize, len: usize| {
            head[at..at + len].iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
        };
        let request = Request {
            flags: bytes(4, 2) as u16,
            command: bytes(6, 2) as u16,
            cookie: bytes(8, 8),
            offset: bytes(16, 8),
            len: bytes(24, len_bytes),
            payload: Payload::default(),
        };
        let is_too_long = self.has_extended_headers
            && self.has_payload(&request)
            && request.len > u64::from(PAYLOAD_MAX_BYTES);
        (self.may_be_magic(head) && !is_too_long).then_some(request)
    }
}

/// What a checked NBD request asks the device to do.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields are those of the request")]
pub enum RequestAction {
    /// Read `len` bytes at `offset`, and send them to the client.
    Read { offset: u64, len: u32 },
    /// Write the payload at `offset`; with `is_durable`, the reply waits for a flush.
    Write { offset: u64, payload: Payload, is_durable: bool },
    /// Deallocate `len` bytes at `offset`, which then read as zeros.
    Trim { offset: u64, len: u64, is_durable: bool },
    /// Set `len` bytes at `offset` to zeros. With `allocate` the zeros are stored, otherwise the bytes are deallocated.
    Zero { offset: u64, len: u64, allocate: bool, is_durable: bool },
    /// Make the effects of all earlier requests durable.
    Flush,
    /// Do nothing: `NBD_CMD_CACHE` (prefetch) has no effect, because the device serves all pages at equal speed.
    Nothing,
    /// Report how the bytes of a range are stored (block status), in each of the metadata contexts `contexts`.
    BlockStatus { offset: u64, len: u64, only_first: bool, contexts: MetadataContexts },
}

/// Error with which a request is refused; it is sent to the client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// NBD error number of the refusal.
    pub errno: u32,
    /// Error message, sent to clients that negotiated structured replies or extended headers.
    pub message: String,
}

impl Refusal {
    /// Makes a refusal with the NBD error `EINVAL` (invalid request).
    fn invalid(message: impl Into<String>) -> Self {
        Self { errno: errno::EINVAL, message: message.into() }
    }
}

impl Request {
    /// Whether the request is a read, which changes nothing.
    pub fn is_read_request(&self) -> bool {
        self.command == command::READ
    }

    /// Whether the request has the flag `PAYLOAD_LEN`: the length in its header is that of a payload.
    fn has_payload_flag(&self) -> bool {
        self.flags & flag::PAYLOAD_LEN != 0
    }

    /// Whether the payload of the request is kept for its execution. A payload that is not kept is skipped as it
    /// arrives.
    fn keeps_payload(&self) -> bool {
        let most = match self.command {
            command::WRITE => PAYLOAD_MAX_BYTES,
            command::BLOCK_STATUS => BLOCK_STATUS_PAYLOAD_MAX_BYTES,
            _ => 0,
        };
        self.len <= most.into()
    }

    /// Returns the bytes of memory that this request and its reply occupy together.
    pub fn request_and_reply_memory_bytes(&self) -> usize {
        /// Estimate of the memory, in bytes, that a request takes besides its payload and its reply's data.
        const REQUEST_OVERHEAD_BYTES: usize = 512;
        let reply = match self.command {
            command::READ => self.len.min(PAYLOAD_MAX_BYTES.into()) as usize,
            command::BLOCK_STATUS => BLOCK_STATUS_REPLY_MAX_BYTES,
            _ => 0,
        };
        REQUEST_OVERHEAD_BYTES + self.payload.len() + reply
    }

    /// Whether the reply to this request consists of structured chunks, if structured replies were negotiated.
    pub(super) fn needs_chunked_reply(&self) -> bool {
        self.command == command::READ || self.command == command::BLOCK_STATUS
    }

    /// Checks the request against the export and the negotiated features, and returns what is to be done.
    ///
    /// # Errors
    /// The NBD error for a request that is too long, beyond the end of the export, not aligned, or unknown.
    pub fn into_checked_action(
        self,
        export: &Export,
        agreed: NegotiationResult,
    ) -> Result<RequestAction, Refusal> {
        self.check_flags(agreed)?;
        let (len, contexts) = self.range_bytes_and_contexts(agreed)?;
        let Self { command, flags, offset, payload, .. } = self;
        if command == command::FLUSH {
            return Ok(RequestAction::Flush);
        }
        let moves_payload = command == command::READ || command == command::WRITE;
        if moves_payload && len > PAYLOAD_MAX_BYTES.into() {
            return Err(Refusal::invalid(format!(
                "a request of {len} bytes is too long: send at most {PAYLOAD_MAX_BYTES} bytes at once"
            )));
        }
        check_range(command, offset, len, export.capacity_bytes)?;
        let unit = if agreed.has_requested_block_sizes { MINIMUM_BLOCK_BYTES } else { 1 };
        if !offset.is_multiple_of(unit.into()) || !len.is_multiple_of(unit.into()) {
            return Err(Refusal::invalid(format!(
                "the request of {len} bytes at byte {offset} is not aligned: use multiples of the minimum block \
                 size, {unit} bytes"
            )));
        }
        let is_durable = flags & flag::FUA != 0;
        match command {
            command::READ => Ok(RequestAction::Read { offset, len: len as u32 }),
            command::WRITE => Ok(RequestAction::Write { offset, payload, is_durable }),
            command::TRIM => Ok(RequestAction::Trim { offset, len, is_durable }),
            command::CACHE => Ok(RequestAction::Nothing),
            command::WRITE_ZEROES => {
                let allocate = flags & flag::NO_HOLE != 0;
                if allocate && flags & flag::FAST_ZERO != 0 {
                    let message = "FAST_ZERO cannot be combined with NO_HOLE, because zeros that are stored take as long as a write: send one of them";
                    return Err(Refusal { errno: errno::ENOTSUP, message: message.into() });
                }
                Ok(RequestAction::Zero { offset, len, allocate, is_durable })
            }
            command::BLOCK_STATUS if contexts.is_empty() => Err(Refusal::invalid(
                "a block-status request needs a metadata context: negotiate one, and select it if the request has a payload",
            )),
            command::BLOCK_STATUS if len == 0 => Err(Refusal::invalid(
                "a block-status request of 0 bytes is not possible: request at least 1 byte",
            )),
            command::BLOCK_STATUS => Ok(RequestAction::BlockStatus {
                offset,
                len,
                only_first: flags & flag::REQ_ONE != 0,
                contexts,
            }),
            _ => unreachable!("unknown commands have no valid flags"),
        }
    }

    /// Returns the length of the requested range, and the metadata contexts that a block-status request asks for. If a
    /// block-status request has a payload, both are in the payload.
    fn range_bytes_and_contexts(
        &self,
        agreed: NegotiationResult,
    ) -> Result<(u64, MetadataContexts), Refusal> {
        if self.command != command::BLOCK_STATUS || !self.has_payload_flag() {
            return Ok((self.len, agreed.contexts));
        }
        let payload = self.payload.split_first_chunk();
        let Some((&range_bytes, ids)) = payload.filter(|(_, ids)| ids.len().is_multiple_of(4)) else {
            return Err(Refusal::invalid(format!(
                "a block-status payload of {} bytes is not possible: send the length of the range (8 bytes) and 4 bytes for each of at most two metadata contexts",
                self.len
            )));
        };
        let mut selected = MetadataContexts::default();
        for id in ids.chunks_exact(4) {
            let id = u32::from_be_bytes(id.try_into().expect("four bytes"));
            match id {
                context::ALLOCATION_CONTEXT_ID
                    if agreed.contexts.has_allocation && !selected.has_allocation =>
                {
                    selected.has_allocation = true;
                }
                context::PAGE_STATE_CONTEXT_ID
                    if agreed.contexts.has_page_state && !selected.has_page_state =>
                {
                    selected.has_page_state = true;
                }
                _ => {
                    let message = format!(
                        "metadata context {id} was not negotiated, or is selected twice: select each negotiated one at most once"
                    );
                    return Err(Refusal::invalid(message));
                }
            }
        }
        Ok((u64::from_be_bytes(range_bytes), selected))
    }

    /// Refuses an unknown command, or flags that are not allowed for the command with the features in `agreed`.
    fn check_flags(&self, agreed: NegotiationResult) -> Result<(), Refusal> {
        let payload = if agreed.header_form == HeaderForm::Extended { flag::PAYLOAD_LEN } else { 0 };
        let of_command = match self.command {
            command::READ if agreed.header_form.allows_reply_chunks() => flag::DF,
            command::WRITE => payload,
            command::READ | command::FLUSH | command::TRIM | command::CACHE => 0,
            command::WRITE_ZEROES => flag::NO_HOLE | flag::FAST_ZERO,
            command::BLOCK_STATUS => flag::REQ_ONE | payload,
            other => {
                return Err(Refusal::invalid(format!(
                    "NBD command {other} is unknown: use read, write, flush, trim, cache, write zeroes or block \
                     status"
                )));
            }
        };
        match self.flags & !(of_command | flag::FUA) {
            0 => Ok(()),
            unknown => Err(Refusal::invalid(format!(
                "the flags {unknown:#x} are not allowed with NBD command {}: send it without them",
                self.command
            ))),
        }
    }
}

/// Refuses a range of `len` bytes at `offset` that reaches beyond the end of the export.
fn check_range(command: u16, offset: u64, len: u64, capacity: u64) -> Result<(), Refusal> {
    if offset.checked_add(len).is_some_and(|end| end <= capacity) {
        return Ok(());
    }
    let writes = command == command::WRITE || command == command::WRITE_ZEROES;
    Err(Refusal {
        errno: if writes { errno::ENOSPC } else { errno::EINVAL },
        message: format!(
            "the range of {len} bytes from byte {offset} on reaches beyond the end of the device, which has {capacity} \
             bytes: choose a range within the device"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes of a request with a compact header, at offset 0 and with the cookie `len`. A write is followed
    /// by its payload.
    fn encoded_request(command: u16, len: u32) -> Vec<u8> {
        let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(command.to_be_bytes());
        bytes.extend(u64::from(len).to_be_bytes());
        bytes.extend(0_u64.to_be_bytes());
        bytes.extend(len.to_be_bytes());
        if command == command::WRITE {
            bytes.extend((0..len).map(|k| k as u8));
        }
        bytes
    }

    /// Returns the bytes of a request with an extended header; a payload follows if `flags` say so.
    fn extended_request(command: u16, flags: u16, len: u64) -> Vec<u8> {
        let mut bytes = EXTENDED_REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend([len, 4096, len].map(u64::to_be_bytes).as_flattened());
        if flags & flag::PAYLOAD_LEN != 0 {
            bytes.extend((0..len).map(|k| k as u8));
        }
        bytes
    }

    /// Decodes `stream` in pieces that end at the positions `ends`, as requests with compact headers. `shares` states
    /// whether payloads may refer to the receive buffers instead of being copied.
    fn decode_compact_stream_in_pieces(stream: &[u8], ends: &[usize], shares: bool) -> Vec<Request> {
        decode_stream_in_pieces(HeaderForm::Simple, stream, ends, shares)
    }

    /// Decodes `stream` in pieces, as if it arrived in consecutive receive buffers that end at the positions `ends`,
    /// and returns the requests. `shares` states whether payloads may refer to a buffer instead of being copied.
    fn decode_stream_in_pieces(
        headers: HeaderForm,
        stream: &[u8],
        ends: &[usize],
        shares: bool,
    ) -> Vec<Request> {
        let (mut decoder, mut requests, mut from) = (RequestDecoder::of(headers), Vec::new(), 0);
        for &end in ends {
            let buffer = Arc::new(stream[from..end].to_vec());
            let mut at = 0;
            while at < buffer.len() {
                let (taken, decoded) = if shares {
                    decoder.decode_next_sharing_buffer(&buffer, at..buffer.len())
                } else {
                    decoder.decode_next(&buffer[at..])
                };
                at += taken;
                match decoded {
                    DecodedInput::Request(request) => requests.push(request),
                    other => assert_eq!((other, at), (DecodedInput::Incomplete, buffer.len())),
                }
            }
            from = end;
        }
        requests
    }

    /// Equal streams of requests decode to equal requests, however the stream is split into buffers, and whether or not
    /// payloads refer to these buffers.
    #[test]
    fn decoded_requests_do_not_depend_on_payload_copying_or_buffer_boundaries() {
        let parts = [(command::WRITE, 40), (command::READ, 9), (command::WRITE, 0), (command::WRITE, 100)];
        let stream = parts.map(|(command, len)| encoded_request(command, len)).concat();
        let whole = decode_compact_stream_in_pieces(&stream, &[stream.len()], false);
        assert_eq!(whole.len(), parts.len());
        for cut in 1..stream.len() {
            for shares in [false, true] {
                assert_eq!(
                    decode_compact_stream_in_pieces(&stream, &[cut, stream.len()], shares),
                    whole,
                    "cut at {cut}"
                );
            }
        }
    }

    /// Equal streams of extended requests decode to equal requests, however the stream is split into buffers, and
    /// whether or not payloads refer to these buffers.
    #[test]
    fn decoded_extended_requests_do_not_depend_on_payload_copying_or_buffer_boundaries() {
        let parts = [
            (command::WRITE, flag::PAYLOAD_LEN, 40),
            (command::TRIM, 0, 1 << 63),
            (command::WRITE, 0, 0),
            (command::FLUSH, flag::PAYLOAD_LEN, 30),
            (command::BLOCK_STATUS, flag::PAYLOAD_LEN, 16),
            (command::BLOCK_STATUS, flag::PAYLOAD_LEN, 17),
            (command::READ, 0, u64::MAX),
        ];
        let stream = parts.map(|(command, flags, len)| extended_request(command, flags, len)).concat();
        let whole = decode_stream_in_pieces(HeaderForm::Extended, &stream, &[stream.len()], false);
        assert_eq!(whole.iter().map(|one| one.len).collect::<Vec<_>>(), parts.map(|part| part.2));
        let kept = [40, 0, 0, 0, 16, 0, 0];
        assert_eq!(
            whole.iter().map(|one| one.payload.len()).collect::<Vec<_>>(),
            kept,
            "the rest is skipped"
        );
        for cut in 1..stream.len() {
            for shares in [false, true] {
                let split =
                    decode_stream_in_pieces(HeaderForm::Extended, &stream, &[cut, stream.len()], shares);
                assert_eq!(split, whole, "cut at {cut}");
            }
        }
    }

    /// The decoder reports an extended request as malformed if its magic number is wrong or its payload is too long.
    #[test]
    fn an_extended_request_with_another_magic_or_an_endless_payload_is_garbage() {
        let decode = |headers, bytes: &[u8]| RequestDecoder::of(headers).decode_next(bytes).1;
        let compact = [encoded_request(command::READ, 0), vec![0; 4]].concat();
        assert_eq!(decode(HeaderForm::Extended, &compact), DecodedInput::MalformedRequest);
        let read = extended_request(command::READ, 0, 512);
        assert_eq!(decode(HeaderForm::Simple, &read), DecodedInput::MalformedRequest);
        let limit = u64::from(PAYLOAD_MAX_BYTES);
        for (len, expected) in [
            (limit, DecodedInput::Incomplete),
            (limit + 1, DecodedInput::MalformedRequest),
            (u64::MAX, DecodedInput::MalformedRequest),
        ] {
            for command in [command::WRITE, command::READ, command::BLOCK_STATUS] {
                let mut bytes = extended_request(command, 0, len);
                bytes[4..6].copy_from_slice(&flag::PAYLOAD_LEN.to_be_bytes());
                assert_eq!(decode(HeaderForm::Extended, &bytes), expected, "{command}: {len} bytes");
            }
        }
    }

    /// Bug: the magic number was checked when the whole header had arrived. So a client that sent fewer bytes than a
    /// header, such as a compact request where extended ones were negotiated, waited for an answer until it gave up.
    #[test]
    fn bytes_with_a_wrong_magic_number_are_garbage_before_the_header_is_complete() {
        let compact = encoded_request(command::READ, 512);
        for bytes in [&compact[..], &compact[..4], &[0], &b"GET / HTTP/1.1"[..]] {
            let decoded = RequestDecoder::of(HeaderForm::Extended).decode_next(bytes);
            assert_eq!(decoded, (bytes.len(), DecodedInput::MalformedRequest), "{bytes:?}");
        }
        let mut decoder = RequestDecoder::of(HeaderForm::Simple);
        assert_eq!(decoder.decode_next(&compact[..3]), (3, DecodedInput::Incomplete));
        assert_eq!(decoder.decode_next(&[compact[3] ^ 1]), (1, DecodedInput::MalformedRequest));
        assert_eq!(RequestDecoder::default().decode_next(&compact[..27]), (27, DecodedInput::Incomplete));
    }

    #[test]
    fn an_nbd_payload_shares_its_receive_buffer_only_if_it_lies_whole_in_it() {
        let stream = [encoded_request(command::WRITE, 40), encoded_request(command::WRITE, 40)].concat();
        let shared = |ends: &[usize]| {
            decode_compact_stream_in_pieces(&stream, ends, true)
                .iter()
                .map(|one| one.payload.shares_buffer())
                .collect::<Vec<_>>()
        };
        assert_eq!(shared(&[136]), [true, true]);
        assert_eq!(shared(&[100, 136]), [true, false]);
        assert_eq!(shared(&[20, 136]), [false, true]);
    }

    /// A read from the socket is given such a length that it ends with a complete request if all requests have equal
    /// lengths.
    #[test]
    fn a_socket_read_ends_with_a_request_if_requests_have_equal_lengths() {
        let mut decoder = RequestDecoder::default();
        assert_eq!(decoder.next_read_bytes(300), 300, "nothing is known yet");
        let stream = encoded_request(command::WRITE, 72).repeat(4);
        let buffer = Arc::new(stream);
        assert_eq!(decoder.decode_next_sharing_buffer(&buffer, 0..250).0, 100);
        assert_eq!(decoder.decode_next_sharing_buffer(&buffer, 100..250).0, 100);
        assert_eq!(decoder.next_read_bytes(300), 300, "three requests");
        assert_eq!(decoder.next_read_bytes(299), 200, "two requests");
        assert_eq!(decoder.decode_next_sharing_buffer(&buffer, 200..250), (50, DecodedInput::Incomplete));
        assert_eq!(decoder.next_read_bytes(299), 250, "the rest of one, and two");
        assert_eq!(decoder.next_read_bytes(149), 149, "no other is whole");
        assert_eq!(decoder.next_read_bytes(49), 49, "not even the rest of one is");
    }
}
