//! Index by block of the entries of a reverse-map log, used by the log in NVRAM and by the log on flash. The entries of
//! one block form a *group*, and the tombstones (records of trims) form a last group. The index counts the entries of
//! each group and those that are superseded, and tells whether the host may record one more.
//!
//! Only the simulation has this index by block. A controller scans the log instead, and the logs count those scans.
//!
//! Invariant: the totals are the sums over all groups, and the largest entry count is that of the largest group.

use std::collections::VecDeque;

use super::{
    BlockId, EntriesOrSegmentsPerBlockHistogram, Lpn, MAX_REVERSE_MAP_FILL_PERCENT_FOR_HOST_ENTRIES, Ppn,
    ReverseMapEntry,
};
use crate::store::FlashPageStore;

/// Number of a group of log entries: the number of their block, or one more than the last block for tombstones.
pub(super) type GroupNumber = usize;

/// The log entries of one block, or the tombstones, in the order of recording. `T` is what the index stores for each
/// entry: its slot in the log, or a copy of the entry with the number of its log page.
#[derive(Clone, Debug)]
struct PerBlockEntryGroup<T> {
    /// What the index stores for each log entry of the block (or each tombstone), oldest entry first: its slot, or a
    /// copy of it.
    entries: VecDeque<T>,
    /// Number of superseded entries in the group: entries whose logical page is no longer mapped to their physical
    /// page.
    superseded_entries: u32,
}

/// Index by block of the entries of a reverse-map log, and their counts. `T` is what the index keeps per entry: the
/// slot of the entry in the log, or a copy of the entry with the number of its log page.
#[derive(Clone, Debug)]
pub(super) struct LogIndex<T> {
    /// Groups of log entries: one for each block, by block number, and a last one for the tombstones.
    groups: Vec<PerBlockEntryGroup<T>>,
    /// Histogram of the number of log entries per block, which gives the largest number.
    entries_per_block_histogram: EntriesOrSegmentsPerBlockHistogram,
    /// Number of entries in the index, superseded ones included.
    indexed_entries: u32,
    /// Number of superseded entries in the index: entries whose logical page is no longer mapped to their physical
    /// page.
    superseded_entries: u32,
    /// Number of tombstones that may have become unnecessary since the log examined them last.
    maybe_obsolete_tombstones: u32,
}

impl<T: Clone> LogIndex<T> {
    /// Creates an empty index of a reverse-map log for a device of `blocks` blocks.
    pub(super) fn new(blocks: u32) -> Self {
        let empty = PerBlockEntryGroup { entries: VecDeque::new(), superseded_entries: 0 };
        Self {
            groups: vec![empty; blocks as usize + 1],
            entries_per_block_histogram: EntriesOrSegmentsPerBlockHistogram::default(),
            indexed_entries: 0,
            superseded_entries: 0,
            maybe_obsolete_tombstones: 0,
        }
    }

    /// Removes all reverse-map entries from the index.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.groups.len() as u32 - 1);
    }

    /// Returns the number of groups of log entries: one for each block, and one for the tombstones.
    pub(super) fn per_block_group_count(&self) -> usize {
        self.groups.len()
    }

    /// Returns the number of the group of the tombstones, the last group.
    fn tombstone_group(&self) -> GroupNumber {
        self.groups.len() - 1
    }

    /// Returns the group of a log entry: that of the block with its physical page, or that of the tombstones if it
    /// names no page.
    pub(super) fn per_block_group_of(&self, io: &FlashPageStore, entry: &ReverseMapEntry) -> GroupNumber {
        entry.mapped_ppn.map_or(self.tombstone_group(), |place| io.block_of(place).index())
    }

    /// Returns what the index keeps per entry (a slot, or a copy with its log page number) for the entries of a group,
    /// oldest entry first.
    pub(super) fn entries_in(&self, group: GroupNumber) -> &VecDeque<T> {
        &self.groups[group].entries
    }

    /// Returns what the index stores for all log entries (a slot, or a copy with its log page number): those of one
    /// block after the other, the tombstones last.
    pub(super) fn all_entries(&self) -> impl Iterator<Item = &T> {
        self.groups.iter().flat_map(|group| &group.entries)
    }

    /// Adds a log entry to its group (the entries of one block, or the tombstones), as the youngest one.
    pub(super) fn add(&mut self, group: GroupNumber, entry: T) {
        let entries = &mut self.groups[group].entries;
        entries.push_back(entry);
        let count = entries.len() as u32;
        self.entries_per_block_histogram.move_block_to_count(count - 1, count);
        self.indexed_entries += 1;
    }

    /// Removes all entries of a group (the log entries of one block, or the tombstones), and returns them.
    pub(super) fn take_group_entries(&mut self, group: GroupNumber) -> VecDeque<T> {
        let PerBlockEntryGroup { entries, superseded_entries } = &mut self.groups[group];
        self.superseded_entries -= std::mem::take(superseded_entries);
        let dropped = std::mem::take(entries);
        self.entries_per_block_histogram.move_block_to_count(dropped.len() as u32, 0);
        self.indexed_entries -= dropped.len() as u32;
        dropped
    }

    /// Removes the oldest entries of a group (the entries of one block, or the tombstones), as long as `is_dropped`
    /// returns `true` for them.
    pub(super) fn drop_oldest_while(&mut self, group: GroupNumber, is_dropped: impl Fn(&T) -> bool) {
        let entries = &mut self.groups[group].entries;
        let before = entries.len() as u32;
        while entries.front().is_some_and(&is_dropped) {
            entries.pop_front();
        }
        let after = entries.len() as u32;
        self.entries_per_block_histogram.move_block_to_count(before, after);
        self.indexed_entries -= before - after;
        if group == self.tombstone_group() {
            self.maybe_obsolete_tombstones = self.maybe_obsolete_tombstones.saturating_sub(before - after);
        }
    }

    /// Counts one more superseded entry: `lpn` is no longer bound to `place`.
    pub(super) fn mark_superseded(&mut self, io: &FlashPageStore, lpn: Lpn, place: Ppn) {
        let group = &mut self.groups[io.block_of(place).index()];
        group.superseded_entries += 1;
        let recorded = group.entries.len() as u32;
        assert!(group.superseded_entries <= recorded, "the bind of page {lpn} to {place} was never recorded");
        self.superseded_entries += 1;
    }

    /// Counts one superseded entry less in a group, because cleaning is about to drop the entry.
    pub(super) fn decrement_superseded_count_of_group(&mut self, group: GroupNumber) {
        self.groups[group].superseded_entries -= 1;
        self.superseded_entries -= 1;
    }

    /// Counts all tombstones as possibly unnecessary, because a block was erased whose pages may have been the reason
    /// to keep them.
    pub(super) fn mark_tombstones_maybe_obsolete(&mut self) {
        self.maybe_obsolete_tombstones = self.entries_in(self.tombstone_group()).len() as u32;
    }

    /// Records that cleaning has examined all tombstones and kept the necessary ones.
    pub(super) fn reset_maybe_obsolete_tombstone_count(&mut self) {
        self.maybe_obsolete_tombstones = 0;
    }

    /// Returns the number of entries in the index that are not superseded: their logical page is still mapped to the
    /// physical page that the entry names.
    pub(super) fn current_entry_count(&self) -> u64 {
        u64::from(self.indexed_entries - self.superseded_entries)
    }

    /// Returns the number of entries that cleaning the log can free: superseded entries, entries that were dropped from
    /// the index, and tombstones that may be unnecessary. `used` is the number of entries that take up space in the
    /// log.
    pub(super) fn reclaimable_entries(&self, used: u64) -> u64 {
        used - self.current_entry_count() + u64::from(self.maybe_obsolete_tombstones)
    }

    /// Returns whether the host may record `count` entries (1 for a bind, more for an atomic command) in a log of
    /// `capacity` entries, `free` of which are free. The new entries must fit, and GC must be able to record once more
    /// all entries of the block that has the most, the new ones included.
    pub(super) fn has_room_for_entries(&self, capacity: u64, free: u64, count: u64) -> bool {
        let largest = u64::from(self.entries_per_block_histogram.largest_count_per_block());
        self.current_entry_count() + count <= capacity * MAX_REVERSE_MAP_FILL_PERCENT_FOR_HOST_ENTRIES / 100
            && free >= count + largest + count
    }

    /// Returns the number of entries of `block`, superseded ones included.
    pub(super) fn entry_count_of_block(&self, block: BlockId) -> u64 {
        self.entries_in(block.index()).len() as u64
    }

    /// Checks the invariants of the index, and that at most `used` entries are indexed. `log` is the name of the log
    /// for messages. For audits.
    pub(super) fn check_invariants(&self, log: &str, used: u64) -> Result<(), String> {
        let indexed: usize = self.groups.iter().map(|group| group.entries.len()).sum();
        let superseded: u32 = self.groups.iter().map(|group| group.superseded_entries).sum();
        if (indexed, superseded) != (self.indexed_entries as usize, self.superseded_entries)
            || indexed as u64 > used
        {
            return Err(format!(
                "the index by block of the reverse map ({log}) holds {indexed} entries, {superseded} of them \
                 superseded, so the totals must say the same, but say {} and {}, and the log must have as many \
                 entries, but has {used}",
                self.indexed_entries, self.superseded_entries
            ));
        }
        let largest = self.groups.iter().map(|group| group.entries.len()).max();
        let known = self.entries_per_block_histogram.largest_count_per_block() as usize;
        if largest == Some(known) {
            Ok(())
        } else {
            Err(format!(
                "in the reverse map ({log}) the block with the most entries has {}, so the recorded largest number \
                 must be the same, but is {known}",
                largest.unwrap_or(0)
            ))
        }
    }

    /// Returns the number of reverse-map log entries in the index, superseded ones included.
    pub(super) fn len(&self) -> usize {
        self.indexed_entries as usize
    }

    /// Returns the number of superseded entries in the index: entries whose logical page is no longer bound to their
    /// page.
    pub(super) fn superseded_entry_count(&self) -> u32 {
        self.superseded_entries
    }
}
