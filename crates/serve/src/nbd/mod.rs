//! The NBD protocol as bytes, without sockets.
//!
//! [`Negotiation`] and [`RequestDecoder`] are state machines over bytes: they take the bytes that arrived and return
//! what they mean, so that a test or a fuzzer drives them as a socket does. [`wire`] has the constants of the protocol.
//! [`Request::into_checked_action`] decides whether a request may be executed. [`RequestExecution`] executes it in
//! steps and returns the reply as bytes. The memory that a client can make them hold is bounded: by
//! [`OPTION_MAX_BYTES`] while options are negotiated, by [`PAYLOAD_MAX_BYTES`] afterwards.
//!
//! Supported: fixed newstyle, structured replies, extended headers (lengths of 64 bits for all requests without data),
//! the metadata contexts `base:allocation` and [`PAGE_STATE_CONTEXT`], of which a block status may select some, and
//! TLS where it is offered. Whatever length a client names, a request is executed in steps of bounded time and memory.

mod negotiation;
mod reply;
mod request;
pub mod wire;

pub use negotiation::{
    HeaderForm, MetadataContexts, Negotiation, NegotiationResult, NegotiationState, TlsPolicy,
};
pub use reply::{Reply, RequestExecution, RequestStepOutcome, execute_request};
pub use request::{DecodedInput, Payload, Refusal, Request, RequestAction, RequestDecoder};

use crate::device::BlockDevice;

/// Longest payload of a read or write, bytes. Clients that ask for block sizes receive this limit.
pub const PAYLOAD_MAX_BYTES: u32 = 32 << 20;
/// Longest data of a negotiation option, bytes; longer data is skipped and the option refused.
pub const OPTION_MAX_BYTES: u32 = 64 << 10;
/// Minimum block size of an export, bytes. Requests have to be aligned to it if the client negotiated block sizes.
pub const MINIMUM_BLOCK_BYTES: u32 = 512;
/// Name of Wearwell's own NBD metadata context, which reports how each page is stored; `docs/serve-protocol.md` lists
/// its values.
pub const PAGE_STATE_CONTEXT: &str = "x-wearwell:page-state";
/// Name of the standard NBD metadata context, which reports holes.
pub const ALLOCATION_CONTEXT: &str = "base:allocation";

/// Name, size and properties of an NBD export, as the negotiation needs them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// Name of the export. A client that sends an empty name gets the only export of a server.
    pub name: String,
    /// Description of the export for people, one sentence.
    pub description: String,
    /// Size of the export, bytes.
    pub capacity_bytes: u64,
    /// Preferred block size that is reported to NBD clients, bytes: the size of a page, which can be written without
    /// reading it first.
    pub write_granularity_bytes: u32,
    /// Whether the export is read-only, so that write requests are refused.
    pub is_read_only: bool,
}

impl Export {
    /// Makes the export of a device, with its size and properties.
    pub fn of(device: &impl BlockDevice, name: &str, description: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            capacity_bytes: device.capacity_bytes(),
            write_granularity_bytes: device.write_granularity_bytes(),
            is_read_only: device.is_read_only(),
        }
    }

    /// Returns the NBD transmission flags, which list the commands and features that a client may use on this export.
    /// `has_contexts` states whether metadata contexts were negotiated. Only then a block-status request may have a
    /// payload that selects some of them.
    fn transmission_flags(&self, headers: HeaderForm, has_contexts: bool) -> u16 {
        use wire::transmission_flag::{
            BLOCK_STATUS_PAYLOAD, CACHE, CAN_MULTI_CONN, DF, FAST_ZERO, FLUSH, FUA, HAS_FLAGS, READ_ONLY,
            TRIM, WRITE_ZEROES,
        };
        let always = HAS_FLAGS | FLUSH | CACHE | CAN_MULTI_CONN;
        let writes = if self.is_read_only { READ_ONLY } else { FUA | TRIM | WRITE_ZEROES | FAST_ZERO };
        let chunks = if headers.allows_reply_chunks() { DF } else { 0 };
        let payload = headers == HeaderForm::Extended && has_contexts;
        always | writes | chunks | if payload { BLOCK_STATUS_PAYLOAD } else { 0 }
    }
}

/// Numbers that this server gives to the metadata contexts in block-status replies.
mod context {
    /// Number by which replies name the context `base:allocation`.
    pub const ALLOCATION_CONTEXT_ID: u32 = 1;
    /// Number by which replies name Wearwell's own metadata context.
    pub const PAGE_STATE_CONTEXT_ID: u32 = 2;
}
