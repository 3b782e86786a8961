//! Replies: what was done, as bytes.
//!
//! Successes without data are simple replies, which every client takes; errors carry a sentence where structured replies
//! were negotiated, and reads and block status come as one chunk.

use tracing::debug;
use wearwell::page_state::PageState;

use super::negotiation::Negotiated;
use super::request::{Action, Refusal, Request};
use super::wire::{CHUNK_MAGIC, DONE, SIMPLE_MAGIC, chunk, errno};
use super::{Export, context};
use crate::device::{BlockDevice, DeviceError};

/// Extents of one block-status reply and context at most.
const EXTENTS_MAX: usize = 4096;
/// Longest block-status reply.
pub(super) const STATUS_MAX_BYTES: usize = 2 * (24 + 8 * EXTENTS_MAX);

/// Bytes that are trimmed, and stored as zeros, before others have their turn.
const TRIM_STEP_BYTES: u64 = 16 << 20;
const ZERO_STEP_BYTES: u64 = 4 << 20;

/// A reply. Buffers are used again, so that no memory is cleared for what is overwritten anyway.
#[derive(Debug, Default)]
pub struct Reply {
    buffer: Vec<u8>,
    len: usize,
}

impl Reply {
    /// What is sent.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// The buffer, for [`Execution::step`] of another request.
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// A head, and room for `len` bytes whose content is whatever was there.
    fn with_room(mut buffer: Vec<u8>, head: &[u8], len: usize) -> Self {
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

/// What a step of a request came to.
#[derive(Debug)]
pub enum Step {
    /// There is more to do.
    More,
    /// This is the reply.
    Replied(Reply),
    /// It is done, and to be answered when the device has settled.
    Settles,
    /// It is done, and to be answered when the device has flushed.
    Flushes,
}

/// A request that is being executed.
#[derive(Debug)]
pub struct Execution {
    cookie: u64,
    agreed: Negotiated,
    wants_chunks: bool,
    /// What is left of it.
    action: Result<Action, Refusal>,
}

impl Execution {
    /// Begins with a request.
    pub fn of(request: Request, export: &Export, agreed: Negotiated) -> Self {
        let (cookie, wants_chunks) = (request.cookie, request.wants_chunks());
        Self { cookie, agreed, wants_chunks, action: request.check(export, agreed) }
    }

    /// Bytes that the next step moves, at the most.
    pub fn step_bytes(&self) -> u64 {
        match &self.action {
            Ok(Action::Read { len, .. }) => (*len).into(),
            Ok(Action::Write { payload, .. }) => payload.len() as u64,
            // Others wait for a step of these, too.
            Ok(Action::Trim { len, .. } | Action::Zero { len, .. }) => u64::from(*len).min(ZERO_STEP_BYTES),
            _ => 0,
        }
    }

    /// Does what may be done at once. `buffer` is room for a reply with data.
    pub fn step(&mut self, device: &mut impl BlockDevice, buffer: impl FnOnce() -> Vec<u8>) -> Step {
        let step = match &self.action {
            Ok(_) => self.perform(device, buffer),
            Err(refusal) => Err(refusal.clone()),
        };
        step.unwrap_or_else(|refusal| Step::Replied(self.refuse(&refusal)))
    }

    /// The reply to a request that is done, after the device has settled or flushed.
    pub fn settled(&self, outcome: &Result<(), DeviceError>) -> Reply {
        match outcome {
            Ok(()) if self.wants_chunks && self.agreed.is_structured => {
                chunk_of(chunk::NONE, self.cookie, 0).into()
            }
            Ok(()) => simple(0, self.cookie).into(),
            Err(error) => self.refuse(&error.into()),
        }
    }

    fn refuse(&self, refusal: &Refusal) -> Reply {
        debug!(errno = refusal.errno, "a request is refused: {}", refusal.message);
        let is_structured = self.agreed.is_structured;
        let reply = if is_structured {
            error_chunk(refusal, self.cookie)
        } else {
            simple(refusal.errno, self.cookie)
        };
        reply.into()
    }

    fn perform(
        &mut self,
        device: &mut impl BlockDevice,
        buffer: impl FnOnce() -> Vec<u8>,
    ) -> Result<Step, Refusal> {
        let (cookie, agreed) = (self.cookie, self.agreed);
        let Ok(action) = &mut self.action else { unreachable!("a refused request is not performed") };
        let is_durable = match action {
            Action::Read { len: 0, .. } | Action::Nothing => return Ok(Step::Replied(self.settled(&Ok(())))),
            &mut Action::Read { offset, len } => {
                return read(device, (offset, len), cookie, agreed, buffer()).map(Step::Replied);
            }
            &mut Action::Status { offset, len, only_first } => {
                return Ok(Step::Replied(status(device, offset, len, only_first, cookie, agreed).into()));
            }
            Action::Write { offset, payload, is_durable } => {
                device.write(*offset, payload)?;
                *is_durable
            }
            Action::Trim { offset, len, is_durable } => {
                let bytes = next_step(*offset, *len, TRIM_STEP_BYTES);
                device.trim(*offset, bytes.into())?;
                (*offset, *len) = (*offset + u64::from(bytes), *len - bytes);
                if *len > 0 {
                    return Ok(Step::More);
                }
                *is_durable
            }
            Action::Zero { offset, len, allocate, is_durable } => {
                let step = if *allocate { ZERO_STEP_BYTES } else { TRIM_STEP_BYTES };
                let bytes = next_step(*offset, *len, step);
                device.zero(*offset, bytes.into(), *allocate)?;
                (*offset, *len) = (*offset + u64::from(bytes), *len - bytes);
                if *len > 0 {
                    return Ok(Step::More);
                }
                *is_durable
            }
            Action::Flush => true,
        };
        Ok(if is_durable { Step::Flushes } else { Step::Settles })
    }
}

/// Bytes up to the next multiple of `most`, at which pages end as well.
fn next_step(offset: u64, len: u32, most: u64) -> u32 {
    let end = (offset + 1).next_multiple_of(most).min(offset + u64::from(len));
    (end - offset) as u32
}

/// Executes a request to its end and returns the reply: for a caller that has the device to himself.
pub fn execute(
    device: &mut impl BlockDevice,
    request: Request,
    export: &Export,
    agreed: Negotiated,
) -> Vec<u8> {
    let mut execution = Execution::of(request, export, agreed);
    let outcome = loop {
        match execution.step(device, Vec::new) {
            Step::More => {}
            Step::Replied(reply) => return reply.bytes().to_vec(),
            Step::Settles => break device.write_deferred(),
            Step::Flushes => break device.flush(),
        }
    };
    execution.settled(&outcome).bytes().to_vec()
}

/// The device reads into the reply.
fn read(
    device: &mut impl BlockDevice,
    (offset, len): (u64, u32),
    cookie: u64,
    agreed: Negotiated,
    buffer: Vec<u8>,
) -> Result<Reply, Refusal> {
    let head = if agreed.is_structured {
        let mut head = chunk_head(chunk::OFFSET_DATA, cookie, 8 + len);
        head.extend(offset.to_be_bytes());
        head
    } else {
        simple(0, cookie)
    };
    let mut reply = Reply::with_room(buffer, &head, len as usize);
    device.read(offset, &mut reply.buffer[head.len()..reply.len])?;
    Ok(reply)
}

/// The value of a state in a context.
type Meaning = fn(PageState) -> u32;

/// One chunk for each context, each with as many extents as fit.
fn status(
    device: &mut impl BlockDevice,
    offset: u64,
    len: u32,
    only_first: bool,
    cookie: u64,
    agreed: Negotiated,
) -> Vec<u8> {
    let limit = if only_first { 1 } else { EXTENTS_MAX };
    let wanted: [(bool, u32, Meaning); 2] =
        [(agreed.allocation, context::ALLOCATION, allocation_of), (agreed.state, context::STATE, number_of)];
    let last = wanted.iter().rposition(|&(is_wanted, ..)| is_wanted);
    let mut reply = Vec::new();
    for (at, (_, id, meaning)) in wanted.into_iter().enumerate().filter(|(_, wanted)| wanted.0) {
        let extents = extents(device, offset, len, limit, meaning);
        let mut chunk = chunk_of(chunk::BLOCK_STATUS, cookie, 4 + 8 * extents.len() as u32);
        if Some(at) != last {
            chunk[4..6].copy_from_slice(&0_u16.to_be_bytes());
        }
        chunk.extend(id.to_be_bytes());
        chunk.extend(extents.iter().flat_map(|&(len, value)| [len, value]).flat_map(u32::to_be_bytes));
        reply.extend(chunk);
    }
    reply
}

/// Neighbouring extents with one meaning are one.
fn extents(
    device: &mut impl BlockDevice,
    offset: u64,
    len: u32,
    limit: usize,
    meaning: Meaning,
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

/// `base:allocation`: bit 0 a hole, bit 1 reads as zeros.
fn allocation_of(state: PageState) -> u32 {
    if state == PageState::Hole { 0b11 } else { 0 }
}

/// Values of our own context, in the order of [`PageState::ALL`].
fn number_of(state: PageState) -> u32 {
    PageState::ALL.iter().position(|&each| each == state).expect("ALL has every state") as u32
}

fn simple(errno: u32, cookie: u64) -> Vec<u8> {
    [&SIMPLE_MAGIC.to_be_bytes()[..], &errno.to_be_bytes(), &cookie.to_be_bytes()].concat()
}

/// The head of a last chunk, with room for a payload of `len` bytes to follow.
fn chunk_of(kind: u16, cookie: u64, len: u32) -> Vec<u8> {
    let mut chunk = chunk_head(kind, cookie, len);
    chunk.reserve(len as usize);
    chunk
}

fn chunk_head(kind: u16, cookie: u64, len: u32) -> Vec<u8> {
    let mut head = Vec::with_capacity(28);
    head.extend(CHUNK_MAGIC.to_be_bytes());
    head.extend(DONE.to_be_bytes());
    head.extend(kind.to_be_bytes());
    head.extend(cookie.to_be_bytes());
    head.extend(len.to_be_bytes());
    head
}

fn error_chunk(refusal: &Refusal, cookie: u64) -> Vec<u8> {
    let message = &refusal.message.as_bytes()[..refusal.message.len().min(4096)];
    let mut reply = chunk_of(chunk::ERROR, cookie, 6 + message.len() as u32);
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
