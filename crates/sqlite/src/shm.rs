//! Memory of the wal-index (the index of the write-ahead log), which all connections of a process share.
//!
//! `SQLite` reads and writes this memory from several threads under its own protocol of locks and barriers, so Rust
//! code never creates a reference to it. The memory is allocated here, only its address is passed to `SQLite`, and it
//! is freed when the last connection has unmapped it.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Alignment of a region of the wal-index's memory, bytes; `SQLite` stores 64-bit words in it.
const REGION_ALIGNMENT_BYTES: usize = 16;

/// One region of the wal-index (shared memory of the write-ahead log), initially all zeros.
#[derive(Debug)]
pub(crate) struct ShmRegion {
    /// Address of the region.
    region_start: NonNull<u8>,
    /// Size and alignment with which the memory was allocated.
    allocation_layout: Layout,
}

// SAFETY: a region owns its memory, and only hands out its address.
unsafe impl Send for ShmRegion {}

impl ShmRegion {
    /// Allocates a region of `bytes` bytes for the wal-index; `None` if there is no memory or `bytes` is 0.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        let layout =
            Layout::from_size_align(bytes, REGION_ALIGNMENT_BYTES).ok().filter(|layout| layout.size() > 0)?;
        // SAFETY: the size of the layout is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { region_start: start, allocation_layout: layout })
    }

    /// Returns the address of the region's memory.
    pub(crate) fn start_address(&self) -> NonNull<u8> {
        self.region_start
    }
}

impl Drop for ShmRegion {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout and is freed once.
        unsafe { dealloc(self.region_start.as_ptr(), self.allocation_layout) }
    }
}
