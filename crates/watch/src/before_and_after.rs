//! State of the small drive before and after a step (one request or a loss of power) of a step-by-step run, from which
//! the sentences about the step are made.

use wearwell::store::GreedyTieBreak;

use crate::phrases::joined_list;
use crate::record::{DriveState, LogicalPageRow, WatchedDriveLayout};

/// State of the drive before and after a step, from which the sentences about the step are derived.
pub(super) struct DriveBeforeAndAfter<'a> {
    /// Layout of the drive.
    pub(super) drive: &'a WatchedDriveLayout,
    /// State of the drive before the step.
    pub(super) before: &'a DriveState,
    /// State of the drive after the step.
    pub(super) after: &'a DriveState,
    /// How greedy GC chooses among blocks with equally few valid pages.
    pub(super) tie_break: GreedyTieBreak,
}

impl DriveBeforeAndAfter<'_> {
    /// Returns the location of a flash page as text: block, and page in the block.
    pub(super) fn page_location(&self, ppn: u32) -> String {
        format!("block {}, page {}", ppn / self.drive.block_pages, ppn % self.drive.block_pages)
    }

    /// Returns the locations of flash pages as text, in the form of [`Self::page_location`].
    pub(super) fn page_locations(&self, pages: &[u32]) -> String {
        match pages {
            [only] => self.page_location(*only),
            _ => joined_list(&pages.iter().map(|&ppn| self.page_location(ppn)).collect::<Vec<_>>()),
        }
    }

    /// Returns the logical pages that are stored in the form called `name` (such as a delta) in the state `drive_state`
    /// of the drive.
    pub(super) fn lpns_of_stored_form(&self, drive_state: &DriveState, name: &str) -> Vec<u32> {
        let is_of = |lpn: &u32| drive_state.stored_form_of_lpn(*lpn).name() == name;
        (0..self.drive.logical_pages).filter(is_of).collect()
    }

    /// Returns the logical pages that are stored in another place or in another form after the step than before it.
    pub(super) fn changed_lpns(&self) -> impl Iterator<Item = u32> {
        self.before.map.iter().zip(&self.after.map).filter(|(old, new)| old != new).map(|(_, new)| new.0)
    }

    /// Returns the logical pages other than `lpn` that are mapped to the flash page `ppn` after the step.
    pub(super) fn other_lpns_of_page(&self, lpn: u32, ppn: u32) -> Vec<u32> {
        let shares = |row: &&LogicalPageRow| row.0 != lpn && row.2.first() == Some(&ppn);
        self.after.map.iter().filter(shares).map(|row| row.0).collect()
    }
}
