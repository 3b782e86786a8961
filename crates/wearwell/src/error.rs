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
        "{}",
        too_few_physical_pages_sentence(
            *logical_pages,
            *physical_pages,
            (*reserve_pages, *metadata_pages),
            *usable_pages,
            *has_reverse_map_log_on_flash
        )
    )]
    TooFewPhysicalPages {
        /// Number of logical pages requested for the device.
        logical_pages: u64,
        /// Number of physical pages in good blocks of the device. Not counted are head and tail pages, which describe
        /// the other pages of their block for recovery.
        physical_pages: u64,
        /// Number of physical pages that GC, open blocks and metadata need, which cannot hold host data. May exceed the
        /// physical pages.
        reserve_pages: u64,
        /// Number of the reserved pages that metadata may occupy.
        metadata_pages: u64,
        /// Number of physical pages that can hold host data.
        usable_pages: u64,
        /// Whether the metadata includes a reverse map in a log on flash.
        has_reverse_map_log_on_flash: bool,
    },
    /// A request names a logical page beyond the exported capacity.
    #[error(
        "logical page {lpn} is beyond the end of the device, which has {pages} logical pages of {page_bytes} bytes; \
         keep addresses below its capacity or use a larger device"
    )]
    OutOfRange {
        /// Logical page whose access was refused.
        lpn: u64,
        /// Capacity of the device: the number of logical pages that it exports.
        pages: u32,
        /// Page size of the device, bytes.
        page_bytes: u32,
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
        "a remap of {len} bytes from byte {source_offset_bytes} to byte {target_offset_bytes} is refused: offsets and \
         length must be multiples of the page size, {page_bytes} bytes"
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
    /// The reverse map cannot record all entries of an atomic remap command together. No content was changed.
    #[error("{}", not_atomic_sentence(*pages, *max_pages))]
    NotAtomic {
        /// Number of logical pages in the atomic remap command.
        pages: u32,
        /// Maximum number of pages that the reverse map records in one command; `None` if only the free space of the
        /// reverse map is a limit.
        max_pages: Option<u32>,
    },
    /// Garbage collection cannot make room for a write, usually because retired blocks or metadata used up the spare
    /// space, so that every page of every closed block is valid. The device is read-only then.
    #[error(
        "the device is full: garbage collection cannot make room (free blocks, which are reserved for its copies: \
         {free_blocks}; bad blocks: {retired_blocks}); reads still work; to write again, trim logical pages, or use a \
         device with more spare blocks"
    )]
    Full {
        /// Number of blocks of the device that are free.
        free_blocks: u32,
        /// Number of blocks of the device that are retired, because they wore out, failed or were bad from the start.
        retired_blocks: u32,
    },
    /// The flash medium failed in a way that the engine cannot handle, or power is lost; the field is the medium's own
    /// error.
    #[error("{0}")]
    Nand(NandError),
    /// Data read from the device is not what was written there; the text says which data.
    #[error("data or metadata on the device is damaged: {0}; restore the device from a copy")]
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
    /// The medium lost metadata, so that the device cannot execute requests that need it.
    #[error(
        "flash page {ppn}, which holds {metadata}, is uncorrectable: requests that need it fail until the device is \
         restored from a copy"
    )]
    MetadataLost {
        /// Flash page that is uncorrectable.
        ppn: Ppn,
        /// What the uncorrectable flash page holds, in words.
        metadata: &'static str,
    },
    /// Throttling would delay a host write for longer than a simulation can represent, because the drive has used up
    /// its rated cycles.
    #[error(
        "the drive has used up its rated cycles, and throttling would delay the next write past year {max_years} of the \
         simulated time: end the input earlier, or set device.endurance_cycles higher or lifetime.target_years lower"
    )]
    ThrottledForever {
        /// Longest time that a simulation can represent, in years.
        max_years: u64,
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
    #[error("the parts of the design cannot be combined, so exchange one of them: {reason}")]
    IncompatibleParts {
        /// Why the parts cannot be combined, without advice: which other parts are possible depends on the caller.
        reason: &'static str,
    },
    /// Options of the device contradict each other or the flash geometry; the text says which.
    #[error("{0}")]
    InvalidOptions(String),
}

/// Returns the message of [`Error::TooFewPhysicalPages`] (the logical pages do not fit into the device), with its page
/// counts.
fn too_few_physical_pages_sentence(
    logical_pages: u64,
    physical_pages: u64,
    (reserve_pages, metadata_pages): (u64, u64),
    usable_pages: u64,
    has_reverse_map_log_on_flash: bool,
) -> String {
    if logical_pages == 0 {
        return "the device would export no logical page: raise device.logical_pages or device.blocks_per_plane, or \
                lower device.over_provisioning"
            .to_owned();
    }
    let log = if has_reverse_map_log_on_flash {
        ", or lower remap.size_mib (the log of the reverse map is metadata)"
    } else {
        ""
    };
    let advice = match usable_pages {
        0 => {
            "raise device.blocks_per_plane, or, on a drive that is sized to the input, device.reserve_blocks"
                .to_owned()
        }
        _ => format!(
            "if device.logical_pages is set, lower it to at most {usable_pages} or raise device.blocks_per_plane; if \
             not, raise device.over_provisioning or device.reserve_blocks"
        ),
    };
    format!(
        "{logical_pages} logical pages do not fit on the device: of the {physical_pages} flash pages for data and \
         metadata in its good blocks, garbage collection, open blocks and metadata need {reserve_pages} \
         ({metadata_pages} of them for metadata), which leaves {usable_pages}: {advice}{log}"
    )
}

/// Returns the message of [`Error::NotAtomic`] (an atomic remap command cannot be recorded), with its page counts.
fn not_atomic_sentence(pages: u32, max_pages: Option<u32>) -> String {
    let cause_and_advice = match max_pages.filter(|&most| pages > most) {
        Some(most) => format!(
            "a reverse map in a log on flash records at most {most} pages in one command; no content was changed; \
             remap fewer pages at a time, or write them"
        ),
        None => "the reverse map has no room for one entry per page; no content was changed; remap fewer pages at a \
                 time, write them, or use a larger reverse map (remap.size_mib)"
            .to_owned(),
    };
    format!(
        "a remap (number of pages: {pages}) is refused, because it would not be atomic: {cause_and_advice}"
    )
}

impl From<NandError> for Error {
    fn from(error: NandError) -> Self {
        Self::Nand(error)
    }
}

impl Error {
    /// Returns the error of a medium whose NVRAM of `present_words` words (8 bytes each) is too small for the part of
    /// the design that `what` names. This part and the parts that are placed in NVRAM before it need `needed_bytes`
    /// bytes.
    pub(crate) fn of_small_nvram(what: &str, needed_bytes: u64, present_words: usize) -> Self {
        Self::InvalidOptions(format!(
            "the medium has {} bytes of NVRAM, but with {what} the design needs at least {needed_bytes}: create the \
             medium with as many bytes as `Parts::total_nvram_bytes` returns",
            present_words as u64 * 8
        ))
    }

    /// Returns whether the cause of the error is an uncorrectable flash page. An overwrite of the logical page clears
    /// the error, unless the flash page holds metadata.
    pub fn is_media_error(&self) -> bool {
        matches!(
            self,
            Error::Nand(NandError::Uncorrectable(_))
                | Error::LogicalPageLost { .. }
                | Error::MetadataLost { .. }
        )
    }

    /// Converts an error of the medium during a read of `lpn`: the error of an uncorrectable flash page becomes
    /// [`Error::LogicalPageLost`] of `lpn`, other errors stay as they are.
    #[cold]
    pub(crate) fn convert_uncorrectable_to_lost_page(self, lpn: Lpn) -> Self {
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
