//! Flash operations as records: kind, plane, cause and dependency. The engine lists the operations of a request;
//! [`crate::timing`] computes their times afterwards.

use crate::address::{OptionalAddress as _, PlaneId};

/// Kind of a flash operation: read, program, erase, copies, or scan of NVRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum OpKind {
    /// Page read: tR on the plane, then a data transfer from the die to the controller.
    Read,
    /// Page program: a data transfer from the controller to the die, then tPROG on the plane.
    Program,
    /// Block erase: tBERS on the plane, no data transfer.
    Erase,
    /// A batch of page copies within one plane: alternately a read and a program, each program after its read. The
    /// operation holds the number of copies.
    Copies,
    /// A sequential scan of NVRAM; the operation holds the number of lines of [`NVRAM_LINE_BYTES`]. No plane executes
    /// it. If the scan searches for the referrers of a GC victim (logical pages mapped to its pages),
    /// [`FlashOp::plane`] is the first plane of the victim, otherwise `NONE`.
    NvramScan,
}

/// Bytes of NVRAM per line, the unit of a scan.
pub const NVRAM_LINE_BYTES: u32 = 64;

/// Reason for a flash operation. Operations are counted per cause, and every reported figure is a sum over causes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Cause {
    /// Host request: data reads and writes, read-modify-write.
    Host,
    /// Garbage collection: copies and erases.
    Gc,
    /// Wear leveling: copies and erases.
    WearLeveling,
    /// Reads and writes of translation pages of a demand-paged mapping.
    Translation,
    /// Reads and writes of page validity (which flash pages are valid) that is stored on flash.
    Validity,
    /// Reads and writes of the reverse map's log on flash, which records mappings made without a program (remaps,
    /// deduplication).
    RemapLog,
    /// Reads and programs by content mechanisms (deduplication, recycling, delta encoding, compression): reads to
    /// verify equal content, reads of fingerprints, programs of delta and compressed pages.
    ContentMechanism,
    /// Checkpoints of the mapping, which write state in RAM to flash.
    Checkpoint,
    /// Reads and writes of head and tail pages, which describe the block that they are in.
    BlockMetadata,
    /// Rebuilding the state in RAM after a power loss.
    Recovery,
    /// Scrubbing: reads of pages to find uncorrectable ones.
    Scrub,
}

impl Cause {
    /// Number of causes of flash operations: the length of a table indexed by cause.
    pub const COUNT: usize = 11;
    /// All causes of flash operations, in the order of their numbers.
    pub const ALL: [Cause; Cause::COUNT] = [
        Cause::Host,
        Cause::Gc,
        Cause::WearLeveling,
        Cause::Translation,
        Cause::Validity,
        Cause::RemapLog,
        Cause::ContentMechanism,
        Cause::Checkpoint,
        Cause::BlockMetadata,
        Cause::Recovery,
        Cause::Scrub,
    ];

    /// Returns the name of the cause in reports: lower case, words joined by `_`.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Host => "host",
            Cause::Gc => "gc",
            Cause::WearLeveling => "wear",
            Cause::Translation => "translation",
            Cause::Validity => "validity",
            Cause::RemapLog => "remap_log",
            Cause::ContentMechanism => "content",
            Cause::Checkpoint => "checkpoint",
            Cause::BlockMetadata => "block_metadata",
            Cause::Recovery => "recovery",
            Cause::Scrub => "scrub",
        }
    }

    /// Returns whether operations of this cause are background work, for which no host request waits: they only compete
    /// for the flash.
    #[inline]
    pub fn is_background(self) -> bool {
        matches!(
            self,
            Cause::Gc | Cause::WearLeveling | Cause::Checkpoint | Cause::BlockMetadata | Cause::Scrub
        )
    }
}

/// One flash operation of a request. Operations are listed in the order in which the FTL issues them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlashOp {
    /// Plane that executes the operation.
    pub plane: PlaneId,
    /// Kind of the flash operation: read, program, erase, a batch of copies, or a scan of NVRAM.
    pub kind: OpKind,
    /// Reason for the flash operation.
    pub cause: Cause,
    /// Distance in the request's list of operations from this operation back to the one whose end it awaits: 1 is the
    /// operation just before. 0 if this operation can start when the request arrives. A GC program awaits its read, and
    /// an erase awaits the last copy of its block. The awaited operation is never a scan of NVRAM. If it is a batch of
    /// copies, its last program is awaited.
    pub ops_back_to_dependency: u16,
    /// Bytes transferred over the channel: 0 for an erase, only the bytes of the spare area for a read of a spare area.
    /// A scan of NVRAM uses no channel; for it, the bytes of one NVRAM line ([`NVRAM_LINE_BYTES`]).
    pub transfer_bytes: u32,
    /// For a batch of copies, the number of pages copied; for a scan of NVRAM, the number of lines read; 1 for all
    /// other kinds of operations.
    pub copied_page_or_nvram_line_count: u32,
}

impl FlashOp {
    /// Returns whether this flash operation is background work, for which no host request waits; its cause decides.
    #[inline]
    pub fn is_background(&self) -> bool {
        self.cause.is_background()
    }

    /// Returns the number of flash reads, programs and erases that this record stands for: 2 per copy, 0 for a scan of
    /// NVRAM.
    #[inline]
    pub fn flash_operation_count(&self) -> u64 {
        match self.kind {
            OpKind::Copies => 2 * u64::from(self.copied_page_or_nvram_line_count),
            OpKind::NvramScan => 0,
            OpKind::Read | OpKind::Program | OpKind::Erase => 1,
        }
    }

    /// Creates the record of a scan of `bytes` bytes of NVRAM. `plane` is the first plane of the GC victim whose
    /// referrers (logical pages mapped to its pages) are searched for; `None` if there is no victim.
    pub fn nvram_scan(plane: Option<PlaneId>, bytes: u64) -> FlashOp {
        let lines = bytes.div_ceil(u64::from(NVRAM_LINE_BYTES));
        FlashOp {
            plane: plane.unwrap_or(PlaneId::NONE),
            kind: OpKind::NvramScan,
            cause: Cause::RemapLog,
            ops_back_to_dependency: 0,
            transfer_bytes: NVRAM_LINE_BYTES,
            copied_page_or_nvram_line_count: u32::try_from(lines).unwrap_or(u32::MAX),
        }
    }

    /// Returns whether the operation reads the reverse map's log on flash. The next NVRAM scan in the request's list
    /// waits for such a read.
    #[inline]
    pub(crate) fn reads_reverse_map_log(&self) -> bool {
        (self.kind, self.cause) == (OpKind::Read, Cause::RemapLog)
    }

    /// Returns the read and the program of which each page copy consists. `self` must be a batch of page copies
    /// ([`OpKind::Copies`]).
    pub fn read_and_program_of_copy(&self) -> [FlashOp; 2] {
        let read = FlashOp {
            kind: OpKind::Read,
            ops_back_to_dependency: 0,
            copied_page_or_nvram_line_count: 1,
            ..*self
        };
        [read, FlashOp { kind: OpKind::Program, ops_back_to_dependency: 1, ..read }]
    }
}

/// Returns `ops` with each batch of page copies replaced by the single reads and programs of these copies.
pub(crate) fn expand_copies(ops: &[FlashOp]) -> Vec<FlashOp> {
    let (mut single, mut places) = (Vec::new(), Vec::<usize>::with_capacity(ops.len()));
    for op in ops {
        match (op.kind, op.ops_back_to_dependency as usize) {
            (OpKind::Copies, _) => {
                (0..op.copied_page_or_nvram_line_count)
                    .for_each(|_| single.extend(op.read_and_program_of_copy()));
            }
            (_, 0) => single.push(*op),
            (_, back) => {
                let distance = single.len() - places[places.len() - back];
                let after = distance.try_into().expect("a list has fewer operations");
                single.push(FlashOp { ops_back_to_dependency: after, ..*op });
            }
        }
        places.push(single.len() - 1);
    }
    single
}
