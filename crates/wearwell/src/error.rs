//! Errors that a user of the engine can meet. Broken invariants are no errors: they panic.

use crate::address::{Lpn, Ppn};
use crate::nand::{GeometryError, NandError};

/// Failure of a request, or of the construction of a device.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The geometry of the flash (channels, dies, planes, blocks, pages) is impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The logical pages of the device do not fit into its physical pages minus the reserve for GC and open blocks.
    #[error(
        "{logical_pages} logical pages do not fit on the device: of its {physical_pages} flash pages in good blocks (without \
         head and tail pages), {reserve_pages} are kept for garbage collection, open blocks and metadata, which leaves \
         {usable_pages}; raise device.over_provisioning or device.reserve_blocks, or, on a drive of fixed size, lower \
         device.logical_pages or raise device.blocks_per_plane"
    )]
    NoSpareSpace {
        /// Number of logical pages requested for the device.
        logical_pages: u64,
        /// Number of physical pages in good blocks of the device.
        physical_pages: u64,
        /// Physical pages kept in reserve for GC and open blocks, which cannot hold host data.
        reserve_pages: u64,
        /// Number of physical pages that can hold host data.
        usable_pages: u64,
    },
    /// A request names a logical page beyond the exported capacity.
    #[error(
        "logical page {lpn} is beyond the end of the device, which has {pages} logical pages; keep addresses below \
         its capacity or use a larger device"
    )]
    OutOfRange {
        /// Logical page whose access was refused.
        lpn: u64,
        /// Number of logical pages that the device exports.
        pages: u32,
    },
    /// The address or the length of a request is not a multiple of the sector size.
    #[error(
        "a request of {len_bytes} bytes at byte {offset_bytes} is refused: offset and length must be multiples of the \
         sector size, {sector_bytes} bytes"
    )]
    NotWholeSectors {
        /// First byte of the request.
        offset_bytes: u64,
        /// Length of the request, bytes.
        len_bytes: u64,
        /// Size of a sector, the smallest unit of a request, bytes.
        sector_bytes: u64,
    },
    /// The addresses or the length of a remap request are not multiples of the page size; only whole pages have map
    /// entries.
    #[error(
        "remap of {len} bytes from byte {source_offset_bytes} to byte {target_offset_bytes} refused: offsets and length must be \
         multiples of the page size, {page_bytes} bytes"
    )]
    NotWholePages {
        /// First byte of the target range, which receives the contents of the source range.
        target_offset_bytes: u64,
        /// First byte of the source range, whose contents the target range receives.
        source_offset_bytes: u64,
        /// Length of the remap request, bytes.
        len: u64,
        /// Page size of the device, bytes.
        page_bytes: u64,
    },
    /// The reverse map has no room for all entries of an atomic remap command. Nothing was changed.
    #[error(
        "remap of {pages} pages: the reverse map has no room for all of its entries, so it would not be atomic; nothing was changed: \
         remap fewer pages, or write them"
    )]
    NotAtomic {
        /// Number of logical pages in the atomic remap command.
        pages: u32,
    },
    /// Garbage collection cannot free a block: every page of every closed block is valid, because retired blocks or
    /// metadata used up the spare space. The device is read-only then.
    #[error(
        "the device is full: no closed block has an invalid page, and garbage collection keeps the last \
         {free_blocks} free blocks; it can still be read; to write again, trim pages, or use a device with more \
         spare blocks"
    )]
    Full {
        /// Number of blocks of the device that are free.
        free_blocks: u32,
    },
    /// The flash medium failed in a way that the engine cannot handle; the field is the medium's own error.
    #[error("the flash medium failed: {0}")]
    Nand(NandError),
    /// Data read from the device is not what was written there; the text says which data.
    #[error("the data on the device is damaged: {0}; restore the device from a copy")]
    Damaged(String),
    /// The medium lost the data of a logical page. An overwrite or a trim of the logical page clears the error.
    #[error(
        "logical page {lpn} is lost: flash page {ppn} is uncorrectable; overwrite or trim the logical page to use it \
         again"
    )]
    LogicalPageLost {
        /// Logical page whose data is lost.
        lpn: Lpn,
        /// Flash page that is uncorrectable.
        ppn: Ppn,
    },
    /// A user-supplied GC victim policy failed to choose a victim, or chose a block that cannot be a victim.
    #[error("the victim policy {name} failed: {why}; correct the policy")]
    VictimPolicyFailed {
        /// Name of the victim policy.
        name: String,
        /// Error message of the user-supplied policy, or what is wrong with its choice.
        why: String,
    },
    /// Parts of the design (map, page validity, content mechanisms, GC, recovery) that cannot be combined.
    #[error("the parts of the design cannot be combined: {reason}")]
    IncompatibleParts {
        /// Why the parts cannot be combined, without advice: which other parts are possible depends on the caller.
        reason: &'static str,
    },
    /// Options of the device contradict each other or the flash geometry; the text says which.
    #[error("the configuration of the device is refused: {0}")]
    InvalidOptions(String),
}

impl From<NandError> for Error {
    fn from(error: NandError) -> Self {
        Self::Nand(error)
    }
}

impl Error {
    /// Returns whether the cause of the error is an uncorrectable flash page. An overwrite of the logical page clears
    /// such an error.
    pub fn is_media_error(&self) -> bool {
        matches!(self, Error::Nand(NandError::Uncorrectable(_)) | Error::LogicalPageLost { .. })
    }

    /// Converts an error of the medium during a read of `lpn`: the error of an uncorrectable flash page becomes
    /// [`Error::LogicalPageLost`] of `lpn`, other errors stay as they are.
    #[cold]
    pub(crate) fn lost_page_if_uncorrectable(self, lpn: Lpn) -> Self {
        match self {
            Error::Nand(NandError::Uncorrectable(ppn)) => Error::LogicalPageLost { lpn, ppn },
            other => other,
        }
    }

    /// Returns whether power was lost during the operation that failed. The caller then has to recover the device.
    pub fn is_power_loss(&self) -> bool {
        matches!(self, Error::Nand(NandError::PowerLost))
    }
}

/// Result of operations of the engine, whose error is [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
