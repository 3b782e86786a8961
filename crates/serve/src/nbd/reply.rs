//! Replies: what was done, as bytes.
//!
//! Successes without data are simple replies, which every client takes; errors carry a sentence where structured replies
//! were negotiated, and reads and block status come as one chunk.

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

/// Executes a request and returns the reply.
pub fn execute(
    device: &mut impl BlockDevice,
    request: Request,
    export: &Export,
    agreed: Negotiated,
) -> Vec<u8> {
    let (cookie, wants_chunks) = (request.cookie, request.wants_chunks());
    let done = request.check(export, agreed).and_then(|action| perform(device, action, cookie, agreed));
    match done {
        Ok(Some(reply)) => reply,
        Ok(None) if wants_chunks && agreed.is_structured => chunk_of(chunk::NONE, cookie, 0),
        Ok(None) => simple(0, cookie),
        Err(refusal) if agreed.is_structured => error_chunk(&refusal, cookie),
        Err(refusal) => simple(refusal.errno, cookie),
    }
}

/// The reply, if it is more than success.
fn perform(
    device: &mut impl BlockDevice,
    action: Action,
    cookie: u64,
    agreed: Negotiated,
) -> Result<Option<Vec<u8>>, Refusal> {
    let is_durable = match action {
        Action::Read { len: 0, .. } | Action::Nothing => false,
        Action::Read { offset, len } => return read(device, offset, len, cookie, agreed).map(Some),
        Action::Status { offset, len, only_first } => {
            return Ok(Some(status(device, offset, len, only_first, cookie, agreed)));
        }
        Action::Write { offset, payload, is_durable } => {
            device.write(offset, &payload)?;
            is_durable
        }
        Action::Trim { offset, len, is_durable } => {
            device.trim(offset, len.into())?;
            is_durable
        }
        Action::Zero { offset, len, allocate, is_durable } => {
            device.zero(offset, len.into(), allocate)?;
            is_durable
        }
        Action::Flush => true,
    };
    if is_durable {
        device.flush()?;
    }
    Ok(None)
}

/// The reply is allocated once and the device reads into it.
fn read(
    device: &mut impl BlockDevice,
    offset: u64,
    len: u32,
    cookie: u64,
    agreed: Negotiated,
) -> Result<Vec<u8>, Refusal> {
    let mut reply = if agreed.is_structured {
        let mut reply = chunk_of(chunk::OFFSET_DATA, cookie, 8 + len);
        reply.extend(offset.to_be_bytes());
        reply
    } else {
        simple(0, cookie)
    };
    let data_at = reply.len();
    reply.resize(data_at + len as usize, 0);
    device.read(offset, &mut reply[data_at..])?;
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

/// The head of a last chunk with a payload of `len` bytes to follow.
fn chunk_of(kind: u16, cookie: u64, len: u32) -> Vec<u8> {
    let mut head = Vec::with_capacity(20 + len as usize);
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
        let errno = match error {
            DeviceError::Full(_) => errno::ENOSPC,
            DeviceError::OutOfRange { .. } | DeviceError::Invalid(_) => errno::EINVAL,
            DeviceError::Failed(_) => errno::EIO,
        };
        Self { errno, message: error.to_string() }
    }
}
