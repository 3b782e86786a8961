//! Memory that the connections of a process share: the wal-index.
//!
//! `SQLite` reads and writes it from several threads under its own protocol of locks and barriers, so Rust never makes a
//! reference to it: it is allocated here, its address is handed out, and it is freed when the last connection has let it go.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// `SQLite` keeps 64-bit words in it.
const ALIGNMENT: usize = 16;

/// One region, filled with zeros at first.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a region owns its memory, and only hands out its address.
unsafe impl Send for Region {}

impl Region {
    /// `None`: there is no memory, or a size of zero was asked for.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        let layout = Layout::from_size_align(bytes, ALIGNMENT).ok().filter(|layout| layout.size() > 0)?;
        // SAFETY: the size of the layout is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { start, layout })
    }

    /// Where it begins.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout and is freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}
