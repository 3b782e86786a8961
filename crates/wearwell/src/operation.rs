//! Flash operations: what was done, to which plane, and why. The engine lists them; timing prices the list afterwards.

use crate::address::{Address as _, PlaneId};

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
    /// Pages of a plane read and programmed again in the same plane, [`FlashOp::count`] of them: read, program, read,
    /// program, .., each program after its read.
    Copies,
    /// NVRAM is read from end to end: [`FlashOp::count`] lines of [`NVRAM_LINE_BYTES`]. No plane executes it;
    /// [`FlashOp::plane`] is the first plane of the victim whose referrers are looked for, or none.
    Scan,
}

/// Bytes of NVRAM that are read at once.
pub const NVRAM_LINE_BYTES: u32 = 64;

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
    /// Head and tail pages, which describe their block.
    BlockMetadata,
    /// Rebuilding state after power loss.
    Recovery,
    /// Reading pages to find those that cannot be read.
    Scrub,
}

impl Cause {
    /// Number of causes: the length of a per-cause table.
    pub const COUNT: usize = 11;
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
        Cause::BlockMetadata,
        Cause::Recovery,
        Cause::Scrub,
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
            Cause::BlockMetadata => "block_metadata",
            Cause::Recovery => "recovery",
            Cause::Scrub => "scrub",
        }
    }

    /// True for work that no host request waits for: it only competes for the flash.
    #[inline]
    pub fn is_background(self) -> bool {
        matches!(self, Cause::Gc | Cause::Wear | Cause::Checkpoint | Cause::BlockMetadata | Cause::Scrub)
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
    /// needs its read); 0 = it can start when the request arrives. Nothing can name copies or a scan.
    pub after: u16,
    /// Bytes over the channel (0 for an erase; a spare-area read moves only the spare bytes).
    pub bytes: u32,
    /// How many copies, or lines of NVRAM; 1 of anything else.
    pub count: u32,
}

impl FlashOp {
    /// True if no host request waits for this operation.
    #[inline]
    pub fn is_background(&self) -> bool {
        self.cause.is_background()
    }

    /// Reads, programs and erases that it stands for.
    #[inline]
    pub fn operations(&self) -> u64 {
        match self.kind {
            OpKind::Copies => 2 * u64::from(self.count),
            OpKind::Scan => 0,
            OpKind::Read | OpKind::Program | OpKind::Erase => 1,
        }
    }

    /// A scan of `bytes` of NVRAM on behalf of a victim whose first plane is `plane`, or of nobody.
    pub fn scan(plane: Option<PlaneId>, bytes: u64) -> FlashOp {
        let lines = bytes.div_ceil(u64::from(NVRAM_LINE_BYTES));
        FlashOp {
            plane: plane.unwrap_or(PlaneId::NONE),
            kind: OpKind::Scan,
            cause: Cause::RemapLog,
            after: 0,
            bytes: NVRAM_LINE_BYTES,
            count: u32::try_from(lines).unwrap_or(u32::MAX),
        }
    }

    /// True for a read of a log of mappings on flash: the next scan of the list waits for it.
    #[inline]
    pub(crate) fn reads_log(&self) -> bool {
        (self.kind, self.cause) == (OpKind::Read, Cause::RemapLog)
    }

    /// The read and the program of each of its copies.
    pub fn copy(&self) -> [FlashOp; 2] {
        let read = FlashOp { kind: OpKind::Read, after: 0, count: 1, ..*self };
        [read, FlashOp { kind: OpKind::Program, after: 1, ..read }]
    }
}
