//! NBD requests: decodes bytes into requests, and checks each request, which becomes an action or a protocol error.

use super::negotiation::Negotiated;
use super::wire::{REQUEST_MAGIC, command, command_flag as flag, errno};
use super::{Export, PAYLOAD_MAX_BYTES, SECTOR_BYTES};

const REQUEST_BYTES: usize = 28;
/// Most bytes that are allocated for a payload when its header announces it; the buffer grows as its bytes arrive.
const CLAIMED_MAX_BYTES: usize = 256 << 10;

/// An NBD request as decoded from the wire, not checked yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Number by which the client matches the reply to its request.
    pub cookie: u64,
    command: u16,
    flags: u16,
    offset: u64,
    len: u32,
    payload: Vec<u8>,
}

/// What [`Decoder::take`] decoded from the bytes of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decoded {
    /// The request is not complete: more bytes are needed.
    Incomplete,
    /// A complete request. Its payload is missing if it is longer than the limit; [`Request::check`] then refuses the
    /// request.
    Request(Request),
    /// The client sent `NBD_CMD_DISC`.
    Disconnect,
    /// The bytes are not an NBD request, so those after them cannot be decoded either.
    Garbage,
}

/// Splits the byte stream of an NBD client into requests. Holds at most one payload, whose buffer grows as bytes
/// arrive.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    head: Vec<u8>,
    pending: Option<Request>,
    /// Bytes of the pending request's payload that have not arrived yet.
    to_come: usize,
}

impl Decoder {
    /// Takes bytes from the front of `input` up to the end of the first request. Returns the number of bytes taken, and
    /// what was decoded.
    pub fn take(&mut self, input: &[u8]) -> (usize, Decoded) {
        let mut taken = 0;
        if self.pending.is_none() {
            taken = (REQUEST_BYTES - self.head.len()).min(input.len());
            self.head.extend(&input[..taken]);
            if self.head.len() < REQUEST_BYTES {
                return (taken, Decoded::Incomplete);
            }
            let Some(mut request) = self.take_head() else { return (taken, Decoded::Garbage) };
            self.to_come = if request.command == command::WRITE { request.len as usize } else { 0 };
            if self.to_come <= PAYLOAD_MAX_BYTES as usize {
                request.payload.reserve_exact(self.to_come.min(CLAIMED_MAX_BYTES));
            }
            self.pending = Some(request);
        }
        let payload = &input[taken..];
        let payload = &payload[..self.to_come.min(payload.len())];
        self.to_come -= payload.len();
        taken += payload.len();
        if let Some(request) = &mut self.pending
            && request.len <= PAYLOAD_MAX_BYTES
        {
            request.payload.extend(payload);
        }
        if self.to_come > 0 {
            return (taken, Decoded::Incomplete);
        }
        let request = self.pending.take().expect("a request was pending");
        let is_last = request.command == command::DISCONNECT;
        (taken, if is_last { Decoded::Disconnect } else { Decoded::Request(request) })
    }

    /// Returns the payload that is arriving, as far as it has arrived, and the number of its bytes that are missing. A
    /// caller that reads from a socket may append them there directly.
    pub fn payload_in_arrival(&mut self) -> Option<(&mut Vec<u8>, &mut usize)> {
        let request = self.pending.as_mut().filter(|request| request.len <= PAYLOAD_MAX_BYTES)?;
        Some((&mut request.payload, &mut self.to_come))
    }

    fn take_head(&mut self) -> Option<Request> {
        let head = std::mem::take(&mut self.head);
        let bytes = |at: usize, len: usize| {
            head[at..at + len].iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
        };
        (bytes(0, 4) == u64::from(REQUEST_MAGIC)).then(|| Request {
            flags: bytes(4, 2) as u16,
            command: bytes(6, 2) as u16,
            cookie: bytes(8, 8),
            offset: bytes(16, 8),
            len: bytes(24, 4) as u32,
            payload: Vec::new(),
        })
    }

    /// Whether the stream is between two requests, so that the client may close it here.
    pub fn is_between_requests(&self) -> bool {
        self.head.is_empty() && self.pending.is_none()
    }
}

/// What a checked NBD request asks the device to do.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields are those of the request")]
pub enum Action {
    /// Read `len` bytes and send them.
    Read { offset: u64, len: u32 },
    /// Write the payload at `offset`.
    Write { offset: u64, payload: Vec<u8>, is_durable: bool },
    /// Deallocate `len` bytes, which then read as zeros.
    Trim { offset: u64, len: u32, is_durable: bool },
    /// Make `len` bytes zeros; with `allocate` they are stored, else deallocated.
    Zero { offset: u64, len: u32, allocate: bool, is_durable: bool },
    /// Make all earlier requests durable.
    Flush,
    /// Do nothing: `NBD_CMD_CACHE`, since the device serves all pages at the same speed.
    Nothing,
    /// Report how the bytes of the range are stored (block status).
    Status { offset: u64, len: u32, only_first: bool },
}

/// A protocol error that is sent back to the client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// NBD error number.
    pub errno: u32,
    /// Error message, sent to clients that negotiated structured replies.
    pub message: String,
}

impl Refusal {
    fn invalid(message: impl Into<String>) -> Self {
        Self { errno: errno::EINVAL, message: message.into() }
    }
}

impl Request {
    /// Whether the request is a read, which changes nothing.
    pub fn is_read(&self) -> bool {
        self.command == command::READ
    }

    /// Bytes of data that the request reads or writes; this is what the rate limit counts.
    pub fn moved_bytes(&self) -> u64 {
        match self.command {
            command::READ => self.len.min(PAYLOAD_MAX_BYTES).into(),
            command::WRITE => self.payload.len() as u64,
            command::WRITE_ZEROES if self.flags & flag::NO_HOLE != 0 => self.len.into(),
            _ => 0,
        }
    }

    /// Bytes of memory that this request and its reply occupy together.
    pub fn footprint_bytes(&self) -> usize {
        const OVERHEAD_BYTES: usize = 512;
        let reply = match self.command {
            command::READ => self.len.min(PAYLOAD_MAX_BYTES) as usize,
            command::BLOCK_STATUS => super::reply::STATUS_MAX_BYTES,
            _ => 0,
        };
        OVERHEAD_BYTES + self.payload.len() + reply
    }

    /// Whether the reply must be structured chunks if structured replies were negotiated.
    pub(super) fn wants_chunks(&self) -> bool {
        self.command == command::READ || self.command == command::BLOCK_STATUS
    }

    /// Checks the request against the export and the negotiated features, and returns what is to be done.
    ///
    /// # Errors
    /// The NBD error for a request that is too long, beyond the end of the export, not aligned, or unknown.
    pub fn check(self, export: &Export, agreed: Negotiated) -> Result<Action, Refusal> {
        self.check_flags(agreed)?;
        let Self { command, flags, offset, len, payload, .. } = self;
        if command == command::FLUSH {
            return Ok(Action::Flush);
        }
        let moves_payload = command == command::READ || command == command::WRITE;
        if moves_payload && len > PAYLOAD_MAX_BYTES {
            return Err(Refusal::invalid(format!("{len} bytes at once: at most {PAYLOAD_MAX_BYTES}")));
        }
        check_range(command, offset, len, export.capacity_bytes)?;
        let unit = if agreed.knows_sizes { SECTOR_BYTES } else { 1 };
        if !offset.is_multiple_of(unit.into()) || !len.is_multiple_of(unit) {
            return Err(Refusal::invalid(format!(
                "{len} bytes at byte {offset} are not whole blocks of {unit}"
            )));
        }
        let is_durable = flags & flag::FUA != 0;
        match command {
            command::READ => Ok(Action::Read { offset, len }),
            command::WRITE => Ok(Action::Write { offset, payload, is_durable }),
            command::TRIM => Ok(Action::Trim { offset, len, is_durable }),
            command::CACHE => Ok(Action::Nothing),
            command::WRITE_ZEROES => {
                let allocate = flags & flag::NO_HOLE != 0;
                if allocate && flags & flag::FAST_ZERO != 0 {
                    let message = "zeros that are not to be holes take as long as a write";
                    return Err(Refusal { errno: errno::ENOTSUP, message: message.into() });
                }
                Ok(Action::Zero { offset, len, allocate, is_durable })
            }
            command::BLOCK_STATUS if !(agreed.allocation || agreed.state) => {
                Err(Refusal::invalid("no context was negotiated"))
            }
            command::BLOCK_STATUS if len == 0 => Err(Refusal::invalid("the status of no byte")),
            command::BLOCK_STATUS => {
                Ok(Action::Status { offset, len, only_first: flags & flag::REQ_ONE != 0 })
            }
            _ => unreachable!("unknown commands have no valid flags"),
        }
    }

    fn check_flags(&self, agreed: Negotiated) -> Result<(), Refusal> {
        let of_command = match self.command {
            command::READ if agreed.is_structured => flag::DF,
            command::READ | command::WRITE | command::FLUSH | command::TRIM | command::CACHE => 0,
            command::WRITE_ZEROES => flag::NO_HOLE | flag::FAST_ZERO,
            command::BLOCK_STATUS => flag::REQ_ONE,
            other => return Err(Refusal::invalid(format!("there is no command {other}"))),
        };
        match self.flags & !(of_command | flag::FUA) {
            0 => Ok(()),
            unknown => Err(Refusal::invalid(format!("flags {unknown:#x} mean nothing for this command"))),
        }
    }
}

fn check_range(command: u16, offset: u64, len: u32, capacity: u64) -> Result<(), Refusal> {
    if offset.checked_add(len.into()).is_some_and(|end| end <= capacity) {
        return Ok(());
    }
    let writes = command == command::WRITE || command == command::WRITE_ZEROES;
    Err(Refusal {
        errno: if writes { errno::ENOSPC } else { errno::EINVAL },
        message: format!("{len} bytes at byte {offset} are beyond the device's {capacity} bytes"),
    })
}
