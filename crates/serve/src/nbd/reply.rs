//! NBD replies: executes requests on a device and encodes the outcome as bytes.
//!
//! A success without data is a simple reply, which every client accepts. Errors carry a message if structured replies
//! were negotiated. A read is one chunk; a block status is one chunk for each metadata context.

use tracing::debug;
use wearwell::page_state::PageState;

use super::negotiation::Negotiated;
use super::request::{Action, Refusal, Request};
use super::wire::{REPLY_FLAG_DONE, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk, errno};
use super::{Export, context};
use crate::device::{BlockDevice, DeviceError};

/// Most extents of one metadata context in a block-status reply.
const EXTENTS_MAX: usize = 4096;
/// Longest block-status reply, bytes.
pub(super) const BLOCK_STATUS_MAX_BYTES: usize = 2 * (24 + 8 * EXTENTS_MAX);

/// Most bytes of a trim that are executed in one step, before requests of other connections.
const TRIM_STEP_BYTES: u64 = 16 << 20;
/// Most bytes of zeros that are stored in one step, before requests of other connections.
const ZERO_STEP_BYTES: u64 = 4 << 20;

/// One encoded NBD reply. Its buffer can be reused for another reply without clearing it first.
#[derive(Debug, Default)]
pub struct Reply {
    buffer: Vec<u8>,
    len: usize,
}

impl Reply {
    /// Returns the bytes of the reply that are sent.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// Returns the buffer in which the reply was built, so that [`Execution::step`] of another request can reuse it.
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// Makes a reply that consists of `head` and `len` more bytes, which the caller has to overwrite.
    fn with_payload_space(mut buffer: Vec<u8>, head: &[u8], len: usize) -> Self {
        let all = head.len() + len;
        if buffer.len() < all {
            buffer.resize(all, 0);
        }
        buffer[..head.len()].copy_from_slice(head);
        Self { buffer, len: all }
    }
}

impl From<Vec<u8>> for Reply {
    fn from(buffer: Vec<u8>) -> Self {
        Self { len: buffer.len(), buffer }
    }
}

/// Outcome of one step of an NBD request.
#[derive(Debug)]
pub enum StepOutcome {
    /// The request has another step.
    More,
    /// The request is finished, and this is its reply.
    Replied(Reply),
    /// The request is finished. Its reply may be sent only after the device has written its deferred operations.
    Settles,
    /// The request is finished. Its reply may be sent only after a flush of the device.
    Flushes,
}

/// An NBD request that is being executed in steps.
#[derive(Debug)]
pub struct Execution {
    cookie: u64,
    negotiated: Negotiated,
    wants_chunks: bool,
    /// The part of the request that is not executed yet; an error if the request was refused.
    remaining_action: Result<Action, Refusal>,
}

impl Execution {
    /// Checks an NBD request against its export and prepares its execution.
    pub fn of(request: Request, export: &Export, negotiated: Negotiated) -> Self {
        let (cookie, wants_chunks) = (request.cookie, request.needs_chunked_reply());
        Self {
            cookie,
            negotiated,
            wants_chunks,
            remaining_action: request.into_checked_action(export, negotiated),
        }
    }

    /// Whether the request's payload is a part of the receive buffer, which therefore has to stay in memory.
    pub fn shares_buffer(&self) -> bool {
        matches!(&self.remaining_action, Ok(Action::Write { payload, .. }) if payload.shares_buffer())
    }

    /// Returns the most bytes that the next step of the request reads, writes, trims or zeroes.
    pub fn step_bytes(&self) -> u64 {
        match &self.remaining_action {
            Ok(Action::Read { len, .. }) => (*len).into(),
            Ok(Action::Write { payload, .. }) => payload.len() as u64,
            // A step of a trim or zero also delays other connections.
            Ok(Action::Trim { len, .. } | Action::Zero { len, .. }) => u64::from(*len).min(ZERO_STEP_BYTES),
            _ => 0,
        }
    }

    /// Executes the next step of the request. `buffer` supplies the memory for a reply with data.
    pub fn step(&mut self, device: &mut impl BlockDevice, buffer: impl FnOnce() -> Vec<u8>) -> StepOutcome {
        let step = match &self.remaining_action {
            Ok(_) => self.execute_step(device, buffer),
            Err(refusal) => Err(refusal.clone()),
        };
        step.unwrap_or_else(|refusal| StepOutcome::Replied(self.error_reply(&refusal)))
    }

    /// Returns the reply to a finished request after the device has written deferred operations or flushed, with that
    /// `outcome`.
    pub fn final_reply(&self, outcome: &Result<(), DeviceError>) -> Reply {
        match outcome {
            Ok(()) if self.wants_chunks && self.negotiated.has_structured_replies => {
                chunk_with_capacity(chunk::NONE, self.cookie, 0).into()
            }
            Ok(()) => simple_reply(0, self.cookie).into(),
            Err(error) => self.error_reply(&error.into()),
        }
    }

    fn error_reply(&self, refusal: &Refusal) -> Reply {
        debug!(errno = refusal.errno, "a request is refused: {}", refusal.message);
        let is_structured = self.negotiated.has_structured_replies;
        let reply = if is_structured {
            error_chunk(refusal, self.cookie)
        } else {
            simple_reply(refusal.errno, self.cookie)
        };
        reply.into()
    }

    fn execute_step(
        &mut self,
        device: &mut impl BlockDevice,
        buffer: impl FnOnce() -> Vec<u8>,
    ) -> Result<StepOutcome, Refusal> {
        let (cookie, negotiated) = (self.cookie, self.negotiated);
        let Ok(action) = &mut self.remaining_action else {
            unreachable!("a refused request is not performed")
        };
        let is_durable = match action {
            Action::Read { len: 0, .. } | Action::Nothing => {
                return Ok(StepOutcome::Replied(self.final_reply(&Ok(()))));
            }
            &mut Action::Read { offset, len } => {
                return read_reply(device, (offset, len), cookie, negotiated, buffer())
                    .map(StepOutcome::Replied);
            }
            &mut Action::Status { offset, len, only_first } => {
                return Ok(StepOutcome::Replied(
                    block_status_reply(device, offset, len, only_first, cookie, negotiated).into(),
                ));
            }
            Action::Write { offset, payload, is_durable } => {
                device.write(*offset, payload)?;
                *is_durable
            }
            Action::Trim { offset, len, is_durable } => {
                let bytes = next_step_bytes(*offset, *len, TRIM_STEP_BYTES);
                device.trim(*offset, bytes.into())?;
                (*offset, *len) = (*offset + u64::from(bytes), *len - bytes);
                if *len > 0 {
                    return Ok(StepOutcome::More);
                }
                *is_durable
            }
            Action::Zero { offset, len, allocate, is_durable } => {
                let step = if *allocate { ZERO_STEP_BYTES } else { TRIM_STEP_BYTES };
                let bytes = next_step_bytes(*offset, *len, step);
                device.zero(*offset, bytes.into(), *allocate)?;
                (*offset, *len) = (*offset + u64::from(bytes), *len - bytes);
                if *len > 0 {
                    return Ok(StepOutcome::More);
                }
                *is_durable
            }
            Action::Flush => true,
        };
        Ok(if is_durable { StepOutcome::Flushes } else { StepOutcome::Settles })
    }
}

/// Returns how many bytes the next step of a trim or zero covers. The step ends at the next multiple of `most` (a page
/// boundary too), or at the end of the range.
fn next_step_bytes(offset: u64, len: u32, most: u64) -> u32 {
    let end = (offset + 1).next_multiple_of(most).min(offset + u64::from(len));
    (end - offset) as u32
}

/// Executes a request to its end and returns the reply, for a caller that has the device to itself.
pub fn execute(
    device: &mut impl BlockDevice,
    request: Request,
    export: &Export,
    negotiated: Negotiated,
) -> Vec<u8> {
    let mut execution = Execution::of(request, export, negotiated);
    let outcome = loop {
        match execution.step(device, Vec::new) {
            StepOutcome::More => {}
            StepOutcome::Replied(reply) => return reply.bytes().to_vec(),
            StepOutcome::Settles => break device.write_deferred(),
            StepOutcome::Flushes => break device.flush(),
        }
    };
    execution.final_reply(&outcome).bytes().to_vec()
}

/// Executes an NBD read: reads from the device directly into the buffer of the reply.
fn read_reply(
    device: &mut impl BlockDevice,
    (offset, len): (u64, u32),
    cookie: u64,
    negotiated: Negotiated,
    buffer: Vec<u8>,
) -> Result<Reply, Refusal> {
    let head = if negotiated.has_structured_replies {
        let mut head = chunk_header(chunk::OFFSET_DATA, cookie, 8 + len);
        head.extend(offset.to_be_bytes());
        head
    } else {
        simple_reply(0, cookie)
    };
    let mut reply = Reply::with_payload_space(buffer, &head, len as usize);
    device.read(offset, &mut reply.buffer[head.len()..reply.len])?;
    Ok(reply)
}

/// Function that maps a page state to the number reported for it in a metadata context.
type StateValue = fn(PageState) -> u32;

/// Encodes a block-status reply: one chunk for each negotiated metadata context, each with as many extents as fit.
fn block_status_reply(
    device: &mut impl BlockDevice,
    offset: u64,
    len: u32,
    only_first: bool,
    cookie: u64,
    negotiated: Negotiated,
) -> Vec<u8> {
    let limit = if only_first { 1 } else { EXTENTS_MAX };
    let wanted: [(bool, u32, StateValue); 2] = [
        (negotiated.reports_allocation, context::ALLOCATION_ID, allocation_value),
        (negotiated.reports_page_state, context::STATE_ID, page_state_value),
    ];
    let last = wanted.iter().rposition(|&(is_wanted, ..)| is_wanted);
    let mut reply = Vec::new();
    for (at, (_, id, meaning)) in wanted.into_iter().enumerate().filter(|(_, wanted)| wanted.0) {
        let extents = merged_extents(device, offset, len, limit, meaning);
        let mut chunk = chunk_with_capacity(chunk::BLOCK_STATUS, cookie, 4 + 8 * extents.len() as u32);
        if Some(at) != last {
            chunk[4..6].copy_from_slice(&0_u16.to_be_bytes());
        }
        chunk.extend(id.to_be_bytes());
        chunk.extend(extents.iter().flat_map(|&(len, value)| [len, value]).flat_map(u32::to_be_bytes));
        reply.extend(chunk);
    }
    reply
}

/// Returns the extents of a range as pairs of length in bytes and value, at most `limit` pairs. Neighbouring extents of
/// equal value are merged.
fn merged_extents(
    device: &mut impl BlockDevice,
    offset: u64,
    len: u32,
    limit: usize,
    meaning: StateValue,
) -> Vec<(u32, u32)> {
    let mut extents: Vec<(u32, u32)> = Vec::new();
    let mut done = 0;
    while done < len {
        let extent = device.extent(offset + u64::from(done), (len - done).into());
        assert!(extent.len > 0, "an extent has a byte at least");
        let value = meaning(extent.state);
        let is_full = extents.len() == limit;
        match extents.last_mut() {
            Some((last_len, last_value)) if *last_value == value => *last_len += extent.len as u32,
            _ if is_full => break,
            _ => extents.push((extent.len as u32, value)),
        }
        done += extent.len as u32;
    }
    extents
}

/// Returns the value of a page state in `base:allocation`: bit 0 means a hole, bit 1 that it reads as zeros.
fn allocation_value(state: PageState) -> u32 {
    if state == PageState::Hole { 0b11 } else { 0 }
}

/// Returns the value of a page state in Wearwell's own NBD metadata context: its index in [`PageState::ALL`].
fn page_state_value(state: PageState) -> u32 {
    PageState::ALL.iter().position(|&each| each == state).expect("ALL has every state") as u32
}

fn simple_reply(errno: u32, cookie: u64) -> Vec<u8> {
    [&SIMPLE_REPLY_MAGIC.to_be_bytes()[..], &errno.to_be_bytes(), &cookie.to_be_bytes()].concat()
}

/// Makes the header of the last structured chunk of a reply, in a buffer that has room for `len` bytes of payload.
fn chunk_with_capacity(kind: u16, cookie: u64, len: u32) -> Vec<u8> {
    let mut chunk = chunk_header(kind, cookie, len);
    chunk.reserve(len as usize);
    chunk
}

fn chunk_header(kind: u16, cookie: u64, len: u32) -> Vec<u8> {
    let mut head = Vec::with_capacity(28);
    head.extend(STRUCTURED_REPLY_MAGIC.to_be_bytes());
    head.extend(REPLY_FLAG_DONE.to_be_bytes());
    head.extend(kind.to_be_bytes());
    head.extend(cookie.to_be_bytes());
    head.extend(len.to_be_bytes());
    head
}

fn error_chunk(refusal: &Refusal, cookie: u64) -> Vec<u8> {
    let message = &refusal.message.as_bytes()[..refusal.message.len().min(4096)];
    let mut reply = chunk_with_capacity(chunk::ERROR, cookie, 6 + message.len() as u32);
    reply.extend(refusal.errno.to_be_bytes());
    reply.extend((message.len() as u16).to_be_bytes());
    reply.extend(message);
    reply
}

impl From<DeviceError> for Refusal {
    fn from(error: DeviceError) -> Self {
        (&error).into()
    }
}

impl From<&DeviceError> for Refusal {
    fn from(error: &DeviceError) -> Self {
        let errno = match error {
            DeviceError::ReadOnly => errno::EPERM,
            DeviceError::Full(_) => errno::ENOSPC,
            DeviceError::OutOfRange { .. } | DeviceError::Invalid(_) => errno::EINVAL,
            DeviceError::Failed(_) => errno::EIO,
        };
        Self { errno, message: error.to_string() }
    }
}
