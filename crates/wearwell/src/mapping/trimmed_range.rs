//! Map entries of a range of logical pages that one command trims.
//!
//! A range of logical pages has its entries on few translation pages, and a command may trim millions of pages. With a
//! read for each entry that is not cached, the trim of a whole drive would take as many reads as the drive has logical
//! pages. So the first entry of the range on a translation page is read together with all that follow it there, and the
//! controller keeps them, in its buffer of one page, until the trim leaves this translation page.
//!
//! Invariant: the entries kept are those of the newest version of the translation page. They are dropped when this page
//! is written, and read again if they are needed. A copy of the page by garbage collection changes no entry.

use std::ops::Range;

use crate::address::{Lpn, StoredUnit};

/// The logical pages of the trim that is being executed, and the entries of some of them.
#[derive(Clone, Debug, Default)]
pub(super) struct TrimmedRange {
    /// Logical pages of the trim; empty if no trim is being executed.
    lpns: Range<u32>,
    /// Number of the translation page whose entries are kept; `None` if none are.
    translation_page: Option<u32>,
    /// Logical page of the first entry that is kept.
    first_kept: u32,
    /// Entries of successive logical pages.
    entries: Vec<StoredUnit>,
}

impl TrimmedRange {
    /// Begins a trim of the logical pages from `first` to `last`.
    pub(super) fn begin(&mut self, first: Lpn, last: Lpn) {
        self.lpns = first.0..last.0 + 1;
    }

    /// Ends the trim; no entries are kept any more.
    pub(super) fn end(&mut self) {
        (self.lpns, self.translation_page) = (0..0, None);
    }

    /// Returns the last logical page of the trim that is being executed, if `lpn` is one of its pages.
    pub(super) fn last_lpn_if_trimmed(&self, lpn: Lpn) -> Option<Lpn> {
        self.lpns.contains(&lpn.0).then(|| Lpn(self.lpns.end - 1))
    }

    /// Keeps the entries of successive logical pages from `first` on, which were read from translation page `id`.
    pub(super) fn keep(&mut self, id: u32, first: Lpn, entries: impl Iterator<Item = StoredUnit>) {
        (self.translation_page, self.first_kept) = (Some(id), first.0);
        self.entries.clear();
        self.entries.extend(entries);
    }

    /// Returns the entry of `lpn` on translation page `id`, if it is kept.
    pub(super) fn kept_entry(&self, id: u32, lpn: Lpn) -> Option<StoredUnit> {
        let index = lpn.0.checked_sub(self.first_kept)? as usize;
        self.entries.get(index).copied().filter(|_| self.translation_page == Some(id))
    }

    /// Drops the entries of translation page `id`, because it is written.
    pub(super) fn drop_entries_of(&mut self, id: u32) {
        self.translation_page = self.translation_page.filter(|&kept| kept != id);
    }
}
