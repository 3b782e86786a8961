//! The NBD protocol: what passes on the wire, without sockets.
//!
//! [`Negotiation`] and [`Decoder`] are state machines over bytes: they take what arrived and say what it means, so that a
//! test or a fuzzer drives them as a socket does; [`wire`] has the numbers. [`Request::check`] says whether a request may be executed, and
//! [`Execution`] does it, in steps, and gives the reply as bytes. Everything a client can make them hold is bounded: by
//! [`OPTION_MAX_BYTES`] while options are negotiated, by [`PAYLOAD_MAX_BYTES`] afterwards.
//!
//! Spoken: fixed newstyle, structured replies, `base:allocation` and [`STATE_CONTEXT`]. Not spoken: TLS (refused with a
//! sentence), extended headers (refused as unsupported; clients go on without).

mod negotiation;
mod reply;
mod request;
pub mod wire;

pub use negotiation::{Negotiated, Negotiation, Outcome};
pub use reply::{Execution, Reply, Step, execute};
pub use request::{Action, Decoded, Decoder, Refusal, Request};

use crate::device::BlockDevice;

/// Longest payload of a read or write, which is also told to clients.
pub const PAYLOAD_MAX_BYTES: u32 = 32 << 20;
/// Longest data of an option; longer ones are skipped and refused.
pub const OPTION_MAX_BYTES: u32 = 64 << 10;
/// Smallest unit of addresses for clients that ask for block sizes.
pub const SECTOR_BYTES: u32 = 512;
/// Name of the context that tells how each page is stored; `docs/serve.md` lists its values.
pub const STATE_CONTEXT: &str = "x-wearwell:page-state";
/// Name of the context that every client knows.
pub const ALLOCATION_CONTEXT: &str = "base:allocation";

/// What is exported, as negotiation needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// Name. A client without one means the only export of a server.
    pub name: String,
    /// A sentence for people.
    pub description: String,
    /// Bytes.
    pub capacity_bytes: u64,
    /// Block that is written without a read.
    pub block_bytes: u32,
    /// Whether it can only be read.
    pub is_read_only: bool,
}

impl Export {
    /// The export of a device.
    pub fn of(device: &impl BlockDevice, name: &str, description: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            capacity_bytes: device.capacity_bytes(),
            block_bytes: device.block_bytes(),
            is_read_only: device.is_read_only(),
        }
    }

    /// What it can do, as transmission flags.
    fn flags(&self, is_structured: bool) -> u16 {
        use wire::transmission_flag::{
            CACHE, CAN_MULTI_CONN, DF, FAST_ZERO, FLUSH, FUA, HAS_FLAGS, READ_ONLY, TRIM, WRITE_ZEROES,
        };
        let always = HAS_FLAGS | FLUSH | CACHE | CAN_MULTI_CONN;
        let writes = if self.is_read_only { READ_ONLY } else { FUA | TRIM | WRITE_ZEROES | FAST_ZERO };
        always | writes | if is_structured { DF } else { 0 }
    }
}

/// Numbers of the contexts in block-status replies.
mod context {
    pub const ALLOCATION: u32 = 1;
    pub const STATE: u32 = 2;
}
