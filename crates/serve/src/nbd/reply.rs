//! NBD replies: executes requests on a device, and encodes the outcomes as bytes.
//!
//! A success without data is a simple reply, or an extended one if extended headers were negotiated. Errors carry a
//! message if structured replies or extended headers were negotiated. A read is one chunk; a block status is one chunk
//! for each metadata context.

use tracing::debug;
use wearwell::logical_page_form::LogicalPageForm;

use super::negotiation::{HeaderForm, MetadataContexts, NegotiationResult};
use super::request::{EXTENDED_REPLY_HEADER_BYTES, EXTENTS_PER_CONTEXT_MAX, Refusal, Request, RequestAction};
use super::wire::{
    EXTENDED_REPLY_MAGIC, LAST_CHUNK_FLAG, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, errno,
    reply_chunk_type,
};
use super::{Export, context};
use crate::device::BlockDevice;
use crate::device_error::DeviceError;

/// Most bytes that one step of a trim request deallocates. Requests of other connections are executed before the next
/// step.
const TRIM_STEP_BYTES: u64 = 16 << 20;
/// Most bytes that one step of a write-zeroes request stores. Requests of other connections are executed before the
/// next step.
const WRITE_ZEROES_STEP_BYTES: u64 = 4 << 20;
/// Most bytes whose state a block-status request looks up in one step. Requests of other connections are executed
/// before the next step.
const BLOCK_STATUS_STEP_BYTES: u64 = 1 << 30;

/// One encoded NBD reply. Its buffer can be reused for another reply without being cleared.
#[derive(Debug, Default)]
pub struct Reply {
    /// Buffer that begins with the bytes of the reply. Bytes after the reply are unused.
    buffer: Vec<u8>,
    /// Length of the reply in the buffer, bytes.
    reply_bytes: usize,
}

impl Reply {
    /// Returns the bytes of the reply that are sent.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.reply_bytes]
    }

    /// Returns the buffer in which the reply was built, so that [`RequestExecution::step`] of another request can
    /// reuse it.
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
        Self { buffer, reply_bytes: all }
    }
}

impl From<Vec<u8>> for Reply {
    fn from(buffer: Vec<u8>) -> Self {
        Self { reply_bytes: buffer.len(), buffer }
    }
}

/// Outcome of one step in the execution of an NBD request.
#[derive(Debug)]
pub enum RequestStepOutcome {
    /// The request is not finished: it needs another step.
    HasMoreSteps,
    /// The request is finished, with this reply.
    Replied(Reply),
    /// The request is finished. Its reply may be sent only after the device has written its deferred operations.
    NeedsDeferredWrites,
    /// The request is finished. Its reply may be sent only after a flush of the device.
    NeedsFlush,
}

/// Execution of an NBD request in steps, with its progress.
#[derive(Debug)]
pub struct RequestExecution {
    /// Fields that all headers of the reply share.
    reply_header_fields: ReplyHeaderFields,
    /// Whether the reply consists of chunks (structured or extended), even without data.
    needs_chunked_reply: bool,
    /// Part of the request that is not executed yet, or the error with which the request was refused.
    remaining_action: Result<RequestAction, Refusal>,
    /// Extents (ranges with one status) that a block-status request has found so far. `None` before its first step and
    /// for other requests.
    status_scan: Option<Box<BlockStatusScan>>,
}

impl RequestExecution {
    /// Checks an NBD request against its export and prepares its execution.
    pub fn of(request: Request, export: &Export, negotiated: NegotiationResult) -> Self {
        let header_form = negotiated.header_form;
        Self {
            reply_header_fields: ReplyHeaderFields {
                header_form,
                cookie: request.cookie,
                offset: request.offset,
            },
            needs_chunked_reply: match header_form {
                HeaderForm::Simple => false,
                HeaderForm::Structured => request.needs_chunked_reply(),
                HeaderForm::Extended => true,
            },
            remaining_action: request.into_checked_action(export, negotiated),
            status_scan: None,
        }
    }

    /// Whether the request's payload is a part of the receive buffer, which therefore has to stay in memory.
    pub fn payload_shares_buffer(&self) -> bool {
        matches!(&self.remaining_action, Ok(RequestAction::Write { payload, .. }) if payload.shares_buffer())
    }

    /// Returns the most bytes that the next step of the request may read, write, trim or zero.
    pub fn next_step_max_bytes(&self) -> u64 {
        match &self.remaining_action {
            Ok(RequestAction::Read { len, .. }) => (*len).into(),
            Ok(RequestAction::Write { payload, .. }) => payload.len() as u64,
            // A step of a trim or zero also delays other connections.
            Ok(RequestAction::Trim { len, .. } | RequestAction::Zero { len, .. }) => {
                (*len).min(WRITE_ZEROES_STEP_BYTES)
            }
            _ => 0,
        }
    }

    /// Returns the number of bytes that the request counts in the rate limit of its export: the bytes that it reads or
    /// stores, or 0 for a refused request.
    pub fn rate_limited_bytes(&self) -> u64 {
        match &self.remaining_action {
            Ok(RequestAction::Read { len, .. }) => (*len).into(),
            Ok(RequestAction::Write { payload, .. }) => payload.len() as u64,
            Ok(RequestAction::Zero { len, allocate: true, .. }) => *len,
            _ => 0,
        }
    }

    /// Executes the next step of the request. `buffer` supplies the memory for a reply with data.
    pub fn step(
        &mut self,
        device: &mut impl BlockDevice,
        buffer: impl FnOnce() -> Vec<u8>,
    ) -> RequestStepOutcome {
        let step = match &self.remaining_action {
            Ok(_) => self.execute_step(device, buffer),
            Err(refusal) => Err(refusal.clone()),
        };
        step.unwrap_or_else(|refusal| RequestStepOutcome::Replied(self.error_reply(&refusal)))
    }

    /// Returns the reply to a request that is finished except for deferred writes or a flush. `outcome` is the outcome
    /// of these.
    pub fn final_reply(&self, outcome: &Result<(), DeviceError>) -> Reply {
        match outcome {
            Ok(()) if self.needs_chunked_reply => {
                self.reply_header_fields.last_chunk_header_with_capacity(reply_chunk_type::NONE, 0, 0).into()
            }
            Ok(()) => simple_reply(0, self.reply_header_fields.cookie).into(),
            Err(error) => self.error_reply(&error.into()),
        }
    }

    /// Returns the error reply to a refused or failed request.
    fn error_reply(&self, refusal: &Refusal) -> Reply {
        debug!(errno = refusal.errno, "a request is refused: {}", refusal.message);
        let reply = if self.reply_header_fields.header_form.allows_reply_chunks() {
            self.reply_header_fields.error_chunk(refusal)
        } else {
            simple_reply(refusal.errno, self.reply_header_fields.cookie)
        };
        reply.into()
    }

    /// Executes the next step of a request that was not refused. `buffer` supplies the memory for a reply with data.
    fn execute_step(
        &mut self,
        device: &mut impl BlockDevice,
        buffer: impl FnOnce() -> Vec<u8>,
    ) -> Result<RequestStepOutcome, Refusal> {
        let reply_header_fields = self.reply_header_fields;
        let Ok(action) = &mut self.remaining_action else {
            unreachable!("a refused request is not performed")
        };
        let is_durable = match action {
            RequestAction::Read { len: 0, .. } | RequestAction::Nothing => {
                return Ok(RequestStepOutcome::Replied(self.final_reply(&Ok(()))));
            }
            &mut RequestAction::Read { offset, len } => {
                return execute_read(device, (offset, len), reply_header_fields, buffer())
                    .map(RequestStepOutcome::Replied);
            }
            RequestAction::BlockStatus { offset, len, only_first, contexts } => {
                let scan = self.status_scan.get_or_insert_with(|| Box::new(BlockStatusScan::of(*contexts)));
                let limit = if *only_first { 1 } else { EXTENTS_PER_CONTEXT_MAX };
                let bytes = scan.scan_page_states(device, *offset, *len, limit);
                (*offset, *len) = (*offset + bytes, *len - bytes);
                if *len > 0 && !scan.is_full() {
                    return Ok(RequestStepOutcome::HasMoreSteps);
                }
                return Ok(RequestStepOutcome::Replied(scan.encode_reply(reply_header_fields).into()));
            }
            RequestAction::Write { offset, payload, is_durable } => {
                device.write(*offset, payload)?;
                *is_durable
            }
            RequestAction::Trim { offset, len, is_durable } => {
                if *offset == reply_header_fields.offset {
                    device.count_trim_request();
                }
                let bytes = step_bytes_up_to_boundary(*offset, *len, TRIM_STEP_BYTES);
                device.trim(*offset, bytes)?;
                (*offset, *len) = (*offset + bytes, *len - bytes);
                if *len > 0 {
                    return Ok(RequestStepOutcome::HasMoreSteps);
                }
                *is_durable
            }
            RequestAction::Zero { offset, len, allocate, is_durable } => {
                if *offset == reply_header_fields.offset {
                    device.count_zero_request();
                }
                let step = if *allocate { WRITE_ZEROES_STEP_BYTES } else { TRIM_STEP_BYTES };
                let bytes = step_bytes_up_to_boundary(*offset, *len, step);
                device.zero(*offset, bytes, *allocate)?;
                (*offset, *len) = (*offset + bytes, *len - bytes);
                if *len > 0 {
                    return Ok(RequestStepOutcome::HasMoreSteps);
                }
                *is_durable
            }
            RequestAction::Flush => true,
        };
        Ok(if is_durable { RequestStepOutcome::NeedsFlush } else { RequestStepOutcome::NeedsDeferredWrites })
    }
}

/// Returns the number of bytes that the next step of a trim or write-zeroes request covers: up to the next multiple of
/// `most`, which is also a page boundary, or to the end of the range.
fn step_bytes_up_to_boundary(offset: u64, len: u64, most: u64) -> u64 {
    len.min(most - offset % most)
}

/// Executes a request completely and returns the reply, for a caller that has exclusive use of the device.
pub fn execute_request(
    device: &mut impl BlockDevice,
    request: Request,
    export: &Export,
    negotiated: NegotiationResult,
) -> Vec<u8> {
    let mut execution = RequestExecution::of(request, export, negotiated);
    let outcome = loop {
        match execution.step(device, Vec::new) {
            RequestStepOutcome::HasMoreSteps => {}
            RequestStepOutcome::Replied(reply) => return reply.bytes().to_vec(),
            RequestStepOutcome::NeedsDeferredWrites => break device.write_operations_to_files(),
            RequestStepOutcome::NeedsFlush => break device.flush(),
        }
    };
    execution.final_reply(&outcome).bytes().to_vec()
}

/// Executes an NBD read: reads from the device directly into the buffer of the reply.
fn execute_read(
    device: &mut impl BlockDevice,
    (offset, len): (u64, u32),
    reply_header_fields: ReplyHeaderFields,
    buffer: Vec<u8>,
) -> Result<Reply, Refusal> {
    let head = if reply_header_fields.header_form.allows_reply_chunks() {
        let mut head = reply_header_fields.last_chunk_header_with_capacity(
            reply_chunk_type::OFFSET_DATA,
            8 + len as usize,
            8,
        );
        head.extend(offset.to_be_bytes());
        head
    } else {
        simple_reply(0, reply_header_fields.cookie)
    };
    let mut reply = Reply::with_payload_space(buffer, &head, len as usize);
    device.read(offset, &mut reply.buffer[head.len()..reply.reply_bytes])?;
    Ok(reply)
}

/// Header fields that all parts of one reply share: form of the headers, cookie, and offset of the request.
#[derive(Clone, Copy, Debug)]
struct ReplyHeaderFields {
    /// Form of the headers on which client and server agreed.
    header_form: HeaderForm,
    /// Number by which the client matches the reply to its request.
    cookie: u64,
    /// Offset in the request, bytes, which extended headers repeat.
    offset: u64,
}

impl ReplyHeaderFields {
    /// Makes the header of the last chunk of a reply. The payload of the chunk has `len` bytes. The buffer has room for
    /// `capacity` bytes after the header.
    fn last_chunk_header_with_capacity(self, kind: u16, len: usize, capacity: usize) -> Vec<u8> {
        let is_extended = self.header_form == HeaderForm::Extended;
        let magic = if is_extended { EXTENDED_REPLY_MAGIC } else { STRUCTURED_REPLY_MAGIC };
        let mut head = Vec::with_capacity(EXTENDED_REPLY_HEADER_BYTES + capacity);
        head.extend(magic.to_be_bytes());
        head.extend(LAST_CHUNK_FLAG.to_be_bytes());
        head.extend(kind.to_be_bytes());
        head.extend(self.cookie.to_be_bytes());
        if is_extended {
            head.extend(self.offset.to_be_bytes());
            head.extend((len as u64).to_be_bytes());
        } else {
            head.extend((len as u32).to_be_bytes());
        }
        head
    }

    /// Makes the reply chunk that reports an error, with the error message.
    fn error_chunk(self, refusal: &Refusal) -> Vec<u8> {
        let message = &refusal.message.as_bytes()[..refusal.message.len().min(4096)];
        let len = 6 + message.len();
        let mut reply = self.last_chunk_header_with_capacity(reply_chunk_type::ERROR, len, len);
        reply.extend(refusal.errno.to_be_bytes());
        reply.extend((message.len() as u16).to_be_bytes());
        reply.extend(message);
        reply
    }

    /// Makes the chunk of one metadata context in a block-status reply.
    fn status_chunk(self, found: &ContextExtents) -> Vec<u8> {
        let count = found.extents.len();
        if self.header_form == HeaderForm::Extended {
            let len = 8 + 16 * count;
            let mut chunk =
                self.last_chunk_header_with_capacity(reply_chunk_type::BLOCK_STATUS_EXT, len, len);
            chunk.extend([found.context_id, count as u32].map(u32::to_be_bytes).as_flattened());
            for &(len, value) in &found.extents {
                chunk.extend([len, value.into()].map(u64::to_be_bytes).as_flattened());
            }
            return chunk;
        }
        let len = 4 + 8 * count;
        let mut chunk = self.last_chunk_header_with_capacity(reply_chunk_type::BLOCK_STATUS, len, len);
        chunk.extend(found.context_id.to_be_bytes());
        for &(len, value) in &found.extents {
            // No extent is longer than the request, whose length has 32 bits here.
            chunk.extend([len as u32, value].map(u32::to_be_bytes).as_flattened());
        }
        chunk
    }
}

/// Result of a block-status request for one metadata context: extents (ranges of equal status) as pairs of length in
/// bytes and value. Neighbouring extents have different values.
#[derive(Debug)]
struct ContextExtents {
    /// Number by which replies name the metadata context.
    context_id: u32,
    /// Function that maps the form in which a page is stored to the value that this context reports.
    status_value_of: fn(LogicalPageForm) -> u32,
    /// Extents found so far: pairs of length in bytes and value, from the start of the requested range on.
    extents: Vec<(u64, u32)>,
    /// Whether the extents end before the requested range does, because the reply already has the maximum number of
    /// extents.
    has_reached_limit: bool,
}

impl ContextExtents {
    /// Makes an empty list of extents for one metadata context.
    fn of(context_id: u32, status_value_of: fn(LogicalPageForm) -> u32) -> Self {
        Self { context_id, status_value_of, extents: Vec::new(), has_reached_limit: false }
    }

    /// Adds `len` bytes of pages that are stored in the form `state`. They extend the last extent or begin a new one.
    /// Once more than `limit` extents would be needed, nothing is added any more.
    fn push(&mut self, len: u64, state: LogicalPageForm, limit: usize) {
        let value = (self.status_value_of)(state);
        let has_limit = self.extents.len() == limit;
        match self.extents.last_mut() {
            _ if self.has_reached_limit => {}
            Some((last_len, last_value)) if *last_value == value => *last_len += len,
            _ if has_limit => self.has_reached_limit = true,
            _ => self.extents.push((len, value)),
        }
    }
}

/// Progress of a block-status request: the extents found so far, for each of its metadata contexts.
#[derive(Debug)]
struct BlockStatusScan(Vec<ContextExtents>);

impl BlockStatusScan {
    /// Begins a block-status request for the metadata contexts `contexts`.
    fn of(contexts: MetadataContexts) -> Self {
        let allocation = contexts
            .has_allocation
            .then(|| ContextExtents::of(context::ALLOCATION_CONTEXT_ID, allocation_status_flags));
        let state = contexts
            .has_page_state
            .then(|| ContextExtents::of(context::PAGE_STATE_CONTEXT_ID, page_state_status_code));
        Self(allocation.into_iter().chain(state).collect())
    }

    /// Looks up how the pages at the front of a range of bytes are stored. Ends after [`BLOCK_STATUS_STEP_BYTES`], or
    /// when every context has `max_extents` extents. Returns how many bytes it looked at.
    fn scan_page_states(
        &mut self,
        device: &mut impl BlockDevice,
        offset: u64,
        len: u64,
        max_extents: usize,
    ) -> u64 {
        let most = len.min(BLOCK_STATUS_STEP_BYTES);
        let mut done = 0;
        while done < most && !self.is_full() {
            let extent = device.first_extent(offset + done, most - done);
            assert!(extent.len_bytes > 0, "an extent has a byte at least");
            for context in &mut self.0 {
                context.push(extent.len_bytes, extent.logical_page_form, max_extents);
            }
            done += extent.len_bytes;
        }
        done
    }

    /// Whether the scan can end, because every context has reached its limit of extents.
    fn is_full(&self) -> bool {
        self.0.iter().all(|context| context.has_reached_limit)
    }

    /// Encodes the block-status reply: one chunk for each metadata context, of which the last one ends the reply.
    fn encode_reply(&self, reply_header_fields: ReplyHeaderFields) -> Vec<u8> {
        let mut reply = Vec::new();
        for (at, context) in self.0.iter().enumerate() {
            let mut chunk = reply_header_fields.status_chunk(context);
            if at + 1 < self.0.len() {
                chunk[4..6].copy_from_slice(&0_u16.to_be_bytes());
            }
            reply.extend(chunk);
        }
        reply
    }
}

/// Returns the value that the context `base:allocation` reports for a page. Bit 0 means that the page is a hole, bit 1
/// that it reads as zeros.
fn allocation_status_flags(state: LogicalPageForm) -> u32 {
    if state == LogicalPageForm::Hole { 0b11 } else { 0 }
}

/// Returns the value that Wearwell's own NBD metadata context reports for a page: the index of its form in
/// [`LogicalPageForm::ALL`].
fn page_state_status_code(state: LogicalPageForm) -> u32 {
    LogicalPageForm::ALL.iter().position(|&each| each == state).expect("ALL has every state") as u32
}

/// Makes a simple NBD reply (a header without chunks). `errno` is the NBD error number, 0 for success.
fn simple_reply(errno: u32, cookie: u64) -> Vec<u8> {
    [&SIMPLE_REPLY_MAGIC.to_be_bytes()[..], &errno.to_be_bytes(), &cookie.to_be_bytes()].concat()
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
            DeviceError::Invalid(_) => errno::EINVAL,
            DeviceError::Failed(_) => errno::EIO,
        };
        Self { errno, message: error.to_string() }
    }
}
