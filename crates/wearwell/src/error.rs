//! What can go wrong for a user. Broken invariants are not here: they panic.

use crate::address::{Lpn, Ppn};
use crate::nand::{GeometryError, NandError};

/// Failure of a request or of building a device.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The layout is impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The device exports more than it can hold with the reserve its parts need.
    #[error(
        "{logical} logical pages do not fit: {physical} physical pages less {reserve} kept for garbage collection \
         and open blocks leave {usable}; lower the logical size or add blocks"
    )]
    NoSpareSpace {
        /// Requested logical pages.
        logical: u64,
        /// Physical pages in good blocks.
        physical: u64,
        /// Pages that cannot hold host data.
        reserve: u64,
        /// What is left.
        usable: u64,
    },
    /// Address beyond the exported capacity.
    #[error(
        "logical page {lpn} is beyond the device's {pages} pages; check the trace's address range or compact it"
    )]
    OutOfRange {
        /// The refused page.
        lpn: u64,
        /// Exported pages.
        pages: u32,
    },
    /// A remap that is not whole pages: a part of a page has no map entry of its own.
    #[error(
        "remap of {len} bytes from byte {source_offset} to byte {target_offset}: remaps are whole pages of {page_bytes} bytes"
    )]
    NotWholePages {
        /// First byte that receives.
        target_offset: u64,
        /// First byte that gives.
        source_offset: u64,
        /// Bytes.
        len: u64,
        /// Page size of the device, bytes.
        page_bytes: u64,
    },
    /// A remap that has to be atomic, and cannot be recorded as a whole. Nothing was changed.
    #[error(
        "remap of {pages} pages: there is no room for its entries at once, so it would not be atomic; nothing was changed, remap \
         fewer pages or write them"
    )]
    NotAtomic {
        /// Pages of the command.
        pages: u32,
    },
    /// Garbage collection found nothing to gain: retired blocks or metadata used up the spare space.
    #[error(
        "the device is full: no block has an invalid page left and {free_blocks} blocks are free; it is read-only now"
    )]
    Full {
        /// Free blocks.
        free_blocks: u32,
    },
    /// The medium failed in a way that the design does not survive.
    #[error("flash: {0}")]
    Nand(NandError),
    /// What was read is not what was written there.
    #[error("damaged data: {0}; restore from a copy")]
    Damaged(String),
    /// Data of this page was lost by the medium.
    #[error("logical page {lpn} is lost: flash page {ppn} is uncorrectable; an overwrite or a trim heals it")]
    Lost {
        /// The logical page.
        lpn: Lpn,
        /// The flash page that cannot be read.
        ppn: Ppn,
    },
    /// A victim policy from outside the engine did not choose, or chose what cannot be.
    #[error("the victim policy {name}: {why}")]
    Policy {
        /// The policy.
        name: String,
        /// What it said, or did wrong.
        why: String,
    },
    /// Options that contradict each other or the geometry.
    #[error("{0}")]
    Options(String),
}

impl From<NandError> for Error {
    fn from(error: NandError) -> Self {
        Self::Nand(error)
    }
}

impl Error {
    /// Whether a page could not be read, which an overwrite heals.
    pub fn is_media_error(&self) -> bool {
        matches!(self, Error::Nand(NandError::Uncorrectable(_)) | Error::Lost { .. })
    }

    /// The error of a read of `lpn`: an uncorrectable page is its loss.
    #[cold]
    pub(crate) fn of_read(self, lpn: Lpn) -> Self {
        match self {
            Error::Nand(NandError::Uncorrectable(ppn)) => Error::Lost { lpn, ppn },
            other => other,
        }
    }

    /// Whether power was lost, so that the caller has to recover the device.
    pub fn is_power_loss(&self) -> bool {
        matches!(self, Error::Nand(NandError::PowerLost))
    }
}

/// Result of the engine.
pub type Result<T> = std::result::Result<T, Error>;
