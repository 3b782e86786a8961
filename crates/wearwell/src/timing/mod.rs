//! From flash operations to time.
//!
//! The FTL runs first and leaves, per host request, a list of [`FlashOp`]s; a timing engine prices that list
//! afterwards. The FTL never sees a clock, which keeps it readable and lets counts-only runs pay nothing. The
//! price: time flows back only through the driver (closed-loop arrival, idle periods).

use crate::address::PlaneId;

/// What the flash does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum OpKind {
    /// Page read: tR on the array, then a transfer out of the die.
    Read,
    /// Page program: a transfer into the die, then tPROG on the array.
    Program,
    /// Block erase: tBERS on the array, no data transfer.
    Erase,
}

/// Why a flash operation was done. Every reported figure is a sum over causes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Cause {
    /// Directly for a host request (data reads and writes, read-modify-write).
    Host,
    /// Garbage collection: copies and erases.
    Gc,
    /// Wear leveling: copies and erases.
    Wear,
    /// Translation pages of a demand-paged mapping.
    Translation,
    /// Flash-resident page validity.
    Validity,
    /// Log of mappings made without a program.
    RemapLog,
    /// Content mechanisms: verification reads, fingerprint loads, delta and chunk pages.
    Content,
    /// Checkpoints of volatile state.
    Checkpoint,
    /// Rebuilding state after power loss.
    Recovery,
}

impl Cause {
    /// Number of causes: the length of a per-cause table.
    pub const COUNT: usize = 9;
    /// All causes, in table order.
    pub const ALL: [Cause; Cause::COUNT] = [
        Cause::Host,
        Cause::Gc,
        Cause::Wear,
        Cause::Translation,
        Cause::Validity,
        Cause::RemapLog,
        Cause::Content,
        Cause::Checkpoint,
        Cause::Recovery,
    ];

    /// Name in reports: lower case, words joined by `_`.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Host => "host",
            Cause::Gc => "gc",
            Cause::Wear => "wear",
            Cause::Translation => "translation",
            Cause::Validity => "validity",
            Cause::RemapLog => "remap_log",
            Cause::Content => "content",
            Cause::Checkpoint => "checkpoint",
            Cause::Recovery => "recovery",
        }
    }
}

/// One flash operation of a request, in the order in which the FTL issued it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlashOp {
    /// The plane that executes it.
    pub plane: PlaneId,
    /// Read, program or erase.
    pub kind: OpKind,
    /// Why.
    pub cause: Cause,
    /// How many places back in the same list the operation stands whose result this one needs (a GC program
    /// needs its read); 0 = it can start when the request arrives.
    pub after: u16,
    /// Bytes over the channel (0 for an erase; a spare-area read moves only the spare bytes).
    pub bytes: u32,
}

/// What the host asked for, as far as timing and latency accounts care.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestKind {
    /// The host waits for data.
    Read,
    /// The host waits until the write is accepted (buffer) or programmed.
    Write,
    /// Deallocation: metadata only.
    Trim,
    /// Drain of volatile state.
    Flush,
}
