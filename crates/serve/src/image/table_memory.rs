//! The memory that the tables of a device take in this process, estimated before they are made. A device that gets no
//! memory cannot report so: the allocation ends the process.

use wearwell::design::{MappingPart, Parts};

use super::error::ImageError;
use super::layout::ImageHeader;

/// Refuses a device whose tables, and `other_bytes` besides, do not fit into the memory that the system grants to this
/// process. The engine panics if it gets no memory, and other failed allocations end the process.
pub(super) fn require_memory(
    parts: &Parts,
    image_header: &ImageHeader,
    other_bytes: u64,
) -> Result<(), ImageError> {
    let needed = estimated_table_bytes(parts, image_header) + other_bytes;
    let refused = ImageError::InsufficientMemory { needed_mib: needed.div_ceil(1 << 20) };
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current;
    // Without a limit, most systems refuse only a table that is larger than all memory.
    let largest_table_bytes = (8 * image_header.nvram_words).max(4 * image_header.geometry.pages());
    let is_granted = usize::try_from(largest_table_bytes)
        .is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok());
    if limit.is_some_and(|limit| limit < needed) || !is_granted { Err(refused) } else { Ok(()) }
}

/// Returns an estimate of the memory, in bytes, for all tables of a device in this process. The bytes per page were
/// measured for each design at 64 and 512 GiB. For a design with several content mechanisms (such as compression and
/// deduplication) the estimate is up to 1.5 times too large.
fn estimated_table_bytes(parts: &Parts, image_header: &ImageHeader) -> u64 {
    let content = &parts.content;
    let of_content = [
        (content.sharing.is_some(), 7),
        (content.recycle.is_some(), 5),
        (content.delta.is_some(), 2),
        (content.chunks.is_some(), 2),
    ];
    let of_content: u64 =
        of_content.into_iter().filter(|&(is_present, _)| is_present).map(|(_, bytes)| bytes).sum();
    let map_entry_bytes = if parts.mapping == MappingPart::Flat { 4 } else { 0 };
    image_header.geometry.pages() * (5 + of_content)
        + u64::from(image_header.logical_pages) * map_entry_bytes
        + 8 * image_header.nvram_words
}
