//! Merging of sorted inputs of Logarithmic Gecko (log-structured merge tree of invalid pages). The inputs are buffers
//! in RAM and sorted runs on flash, newest first. Entries of different age meet only here.
//!
//! An erase marker (the entry that records that a block was opened) makes the entries of its block in all older inputs
//! obsolete. Entries of its block in the same input are newer than the marker and stay. Bitmaps of equal keys are
//! joined by OR. Every page of a run is read once, in order.
//!
//! Entries are merged in *batches*. A batch consists of the entries in RAM with keys less than every key on the pages
//! that are not read yet. The newest input is merged with the next older one, the result with the next, and so on.
//! Inputs grow with age, so most entries are touched once or twice, by a loop over two slices. The next pages are read
//! only when the batch is used up, as if entries had been taken one by one.

use std::hint::select_unpredictable;
use std::ops::Range;

use super::buffer::FrozenBuffer;
use super::layout::{GECKO_KEY_BYTES, GeckoEntries, GeckoLayout, read_entry_key};
use super::run::{GeckoRun, RunWriter};
use crate::error::Result;
use crate::operation::Cause;
use crate::store::FlashPageStore;

/// Key that is greater than those of all Gecko LSM entries.
const KEY_GREATER_THAN_ALL: u32 = u32::MAX;

/// One sorted input of a merge in the Gecko LSM tree: a buffer, or a run with its current page in RAM.
#[derive(Clone, Debug)]
struct MergeInput {
    /// Bytes of the current page of the run that is merged, or of all entries if the input is a buffer.
    loaded_entry_bytes: Vec<u8>,
    /// Offset in `loaded_entry_bytes` of the first entry that is not merged yet, bytes.
    next_entry_offset_bytes: usize,
    /// Offset in `loaded_entry_bytes` of the end of the entries, bytes.
    entries_end_offset_bytes: usize,
    /// Index of the sorted run (among the runs of the Gecko LSM tree) that is the input, and index of the run's next
    /// page to read; `None` for a buffer.
    run_and_next_page_index: Option<(usize, usize)>,
    /// Key below which entries of this merge input are obsolete, because a newer input holds the erase marker of their
    /// block.
    obsolete_below_key: u32,
}

impl MergeInput {
    /// Creates a merge input whose entries are the first `entries_end_offset_bytes` bytes of `loaded_entry_bytes`, none
    /// of them merged.
    fn new(
        loaded_entry_bytes: Vec<u8>,
        entries_end_offset_bytes: usize,
        run_and_next_page_index: Option<(usize, usize)>,
    ) -> Self {
        Self {
            loaded_entry_bytes,
            next_entry_offset_bytes: 0,
            entries_end_offset_bytes,
            run_and_next_page_index,
            obsolete_below_key: 0,
        }
    }

    /// Returns whether all entries in RAM of this merge input are merged.
    fn has_no_entry_left(&self) -> bool {
        self.next_entry_offset_bytes == self.entries_end_offset_bytes
    }

    /// Returns whether the run that is the input has pages on flash that were not read yet; `false` for a buffer.
    fn has_unread_pages(&self, runs: &[GeckoRun]) -> bool {
        self.run_and_next_page_index.is_some_and(|(run, page)| page < runs[run].first_keys.len())
    }

    /// Returns a lower bound of the keys that are not in RAM yet: the pages of this merge input that are still to be
    /// read hold only entries with this key or a greater one.
    fn lower_bound_of_unread_keys(&self, runs: &[GeckoRun], layout: &GeckoLayout) -> u32 {
        if self.has_unread_pages(runs) {
            read_entry_key(&self.loaded_entry_bytes, self.entries_end_offset_bytes - layout.entry_bytes) + 1
        } else {
            KEY_GREATER_THAN_ALL
        }
    }

    /// Consumes the entries of this merge input with keys less than `key`. Returns the range of their bytes.
    fn take_entries_below_key(&mut self, key: u32, layout: &GeckoLayout) -> Range<usize> {
        let from = self.next_entry_offset_bytes;
        let entries = GeckoEntries::new(
            &self.loaded_entry_bytes[from..self.entries_end_offset_bytes],
            layout.entry_bytes,
        );
        self.next_entry_offset_bytes += entries.count_keys_below(key) * layout.entry_bytes;
        from..self.next_entry_offset_bytes
    }
}

/// Merged entries of several sorted inputs (buffers and sorted runs of the Gecko LSM tree), in key order.
#[derive(Clone, Debug)]
pub(super) struct MergedEntries {
    /// Inputs of the merge, newest first.
    inputs: Vec<MergeInput>,
    /// Current batch of merged Gecko LSM entries: those with keys less than every key on the pages that are not read
    /// yet.
    merged_batch: Vec<u8>,
    /// Number of bytes at the beginning of `merged_batch` that were consumed.
    consumed_batch_bytes: usize,
    /// Buffer in which the next batch of merged Gecko LSM entries is built.
    next_batch_buffer: Vec<u8>,
    /// Whether erase markers are left out of the output, because no older entries exist.
    drops_erase_markers: bool,
    /// Cause under which the page reads of the merge are counted.
    read_cause: Cause,
}

impl MergedEntries {
    /// Creates a merge of buffers of the Gecko LSM tree, newest first, and then of a range of the runs on flash, which
    /// are older than the buffers. `drops_erase_markers`: the oldest run is among the inputs, so no older entries exist
    /// and erase markers are not needed in the output.
    pub(super) fn new<'a>(
        buffers: impl Iterator<Item = &'a FrozenBuffer>,
        runs: Range<usize>,
        drops_erase_markers: bool,
        read_cause: Cause,
        layout: &GeckoLayout,
    ) -> Self {
        let buffers =
            buffers.map(|b| MergeInput::new(b.sorted_entries.clone(), b.sorted_entries.len(), None));
        let runs = runs.map(|run| MergeInput::new(layout.blank_page(), 0, Some((run, 0))));
        let mut inputs: Vec<MergeInput> = buffers.chain(runs).collect();
        if inputs.len() == 1 {
            // An empty older input, because markers are dropped only where entries are joined with older ones.
            inputs.push(MergeInput::new(Vec::new(), 0, None));
        }
        Self {
            inputs,
            merged_batch: Vec::new(),
            consumed_batch_bytes: 0,
            next_batch_buffer: Vec::new(),
            drops_erase_markers,
            read_cause,
        }
    }

    /// Returns the bytes of the next merged Gecko LSM entries, adjacent in memory; an empty slice if the inputs are
    /// exhausted. After an error the call can be repeated.
    pub(super) fn next_merged_entries(
        &mut self,
        io: &mut FlashPageStore,
        runs: &[GeckoRun],
        layout: &GeckoLayout,
    ) -> Result<&[u8]> {
        while self.consumed_batch_bytes == self.merged_batch.len() {
            self.read_next_pages(io, runs, layout)?;
            if self.inputs.iter().all(MergeInput::has_no_entry_left) {
                return Ok(&[]);
            }
            self.merge_next_batch(runs, layout);
        }
        Ok(&self.merged_batch[self.consumed_batch_bytes..])
    }

    /// Marks the first `bytes` bytes of the merged entries returned by [`MergedEntries::next_merged_entries`] as
    /// consumed.
    pub(super) fn consume_bytes(&mut self, bytes: usize) {
        self.consumed_batch_bytes += bytes;
    }

    /// Reads the next page of every input run of the merge whose current page is used up.
    fn read_next_pages(
        &mut self,
        io: &mut FlashPageStore,
        runs: &[GeckoRun],
        layout: &GeckoLayout,
    ) -> Result<()> {
        for input in &mut self.inputs {
            if !input.has_no_entry_left() || !input.has_unread_pages(runs) {
                continue;
            }
            let (run, page) = input.run_and_next_page_index.as_mut().expect("only a run continues");
            io.read(runs[*run].page_ppns[*page], &mut input.loaded_entry_bytes, self.read_cause)?;
            *page += 1;
            (input.next_entry_offset_bytes, input.entries_end_offset_bytes) =
                GeckoEntries::entry_byte_range(&input.loaded_entry_bytes, layout);
        }
        Ok(())
    }

    /// Merges the next batch of Gecko LSM entries: those in RAM with keys less than every key on the pages that are not
    /// read yet.
    fn merge_next_batch(&mut self, runs: &[GeckoRun], layout: &GeckoLayout) {
        let known_below = self.inputs.iter().map(|input| input.lower_bound_of_unread_keys(runs, layout));
        let end = known_below.min().expect("a merge has an input");
        self.merged_batch.clear();
        self.consumed_batch_bytes = 0;
        let oldest = self.inputs.len() - 1;
        for (age, input) in self.inputs.iter_mut().enumerate() {
            let taken = input.take_entries_below_key(end, layout);
            let older = &input.loaded_entry_bytes[taken];
            if age == 0 {
                self.merged_batch.extend_from_slice(older);
                continue;
            }
            let drops_markers = self.drops_erase_markers && age == oldest;
            let pair = MergePair {
                newer_entries: &self.merged_batch,
                older_entries: older,
                obsolete_below_key: input.obsolete_below_key,
                drops_erase_markers: drops_markers,
            };
            input.obsolete_below_key = pair.merge_entries(layout, &mut self.next_batch_buffer);
            std::mem::swap(&mut self.merged_batch, &mut self.next_batch_buffer);
        }
    }
}

/// Two lists of Gecko LSM entries to be merged, a newer and an older one, each sorted by key.
struct MergePair<'a> {
    /// Encoded entries of the newer of the two inputs of the merge.
    newer_entries: &'a [u8],
    /// Encoded entries of the older of the two inputs of the merge.
    older_entries: &'a [u8],
    /// Key below which entries of the older list are obsolete, because an input that is newer than this list, and was
    /// merged before, holds the erase marker of their block.
    obsolete_below_key: u32,
    /// Whether erase markers are left out of the output, because no older entries exist.
    drops_erase_markers: bool,
}

/// A Gecko LSM entry of eight bytes as one number, with the key in the lower half and the bitmap of invalid pages in
/// the upper.
type EntryWord = [u8; 8];

impl MergePair<'_> {
    /// Merges the two lists of Gecko LSM entries into `into`. Returns a key: entries of the older input that are still
    /// to come and have smaller keys are obsolete, because the newer list has the erase marker of their block.
    fn merge_entries(self, layout: &GeckoLayout, into: &mut Vec<u8>) -> u32 {
        if layout.entry_bytes == size_of::<EntryWord>() {
            self.merge_8_byte_entries(layout, into)
        } else {
            self.merge_entries_of_any_size(layout, into)
        }
    }

    /// Merges two lists of Gecko LSM entries of eight bytes, each entry as one number. Which list has the next entry is
    /// unpredictable, so a branch would be mispredicted at every second entry. So the entry not taken is masked out,
    /// and both candidates for the next entry are loaded before it is known which one is needed. An erase marker is
    /// rare enough for a branch.
    fn merge_8_byte_entries(self, layout: &GeckoLayout, into: &mut Vec<u8>) -> u32 {
        let Self {
            newer_entries: newer,
            older_entries: older,
            obsolete_below_key: mut obsolete_below,
            drops_erase_markers: drops_markers,
        } = self;
        into.resize(newer.len() + older.len(), 0);
        let (newer, older): (&[EntryWord], &[EntryWord]) = (newer.as_chunks().0, older.as_chunks().0);
        let joined: &mut [EntryWord] = into.as_chunks_mut().0;
        let (mut from_newer, mut from_older, mut end) =
            (0, skip_obsolete_entries(older, 0, obsolete_below), 0);
        let (mut new, mut old) = (entry_word_at(newer, 0), entry_word_at(older, from_older));
        while from_newer < newer.len() && from_older < older.len() {
            let (next_new, next_old) =
                (entry_word_at(newer, from_newer + 1), entry_word_at(older, from_older + 1));
            let (new_key, old_key) = (new as u32, old as u32);
            let (takes_new, takes_old) = (new_key <= old_key, old_key <= new_key);
            if takes_new & is_erase_marker_word(new) {
                obsolete_below = new_key + layout.keys_per_block;
                joined[end] = new.to_le_bytes();
                end += usize::from(!drops_markers);
                from_older = skip_obsolete_entries(older, from_older, obsolete_below);
                from_newer += 1;
                (new, old) = (next_new, entry_word_at(older, from_older));
                continue;
            }
            // If the keys are equal, both are taken and their bitmaps joined.
            let taken = select_unpredictable(takes_new, new, 0) | select_unpredictable(takes_old, old, 0);
            joined[end] = taken.to_le_bytes();
            end += 1;
            from_newer += usize::from(takes_new);
            from_older += usize::from(takes_old);
            new = select_unpredictable(takes_new, next_new, new);
            old = select_unpredictable(takes_old, next_old, old);
        }
        for &entry in &newer[from_newer..] {
            let is_marker = is_erase_marker_word(u64::from_le_bytes(entry));
            obsolete_below =
                if is_marker { read_entry_key(&entry, 0) + layout.keys_per_block } else { obsolete_below };
            joined[end] = entry;
            end += usize::from(!(is_marker & drops_markers));
        }
        let rest = &older[from_older..];
        joined[end..][..rest.len()].copy_from_slice(rest);
        into.truncate((end + rest.len()) * size_of::<EntryWord>());
        obsolete_below
    }

    /// Merges the two lists of Gecko LSM entries into `into`, for entries that do not have eight bytes. Returns a key:
    /// entries of the older input that are still to come and have smaller keys are obsolete, because the newer list has
    /// the erase marker of their block.
    fn merge_entries_of_any_size(self, layout: &GeckoLayout, into: &mut Vec<u8>) -> u32 {
        let Self {
            newer_entries: newer,
            older_entries: mut older,
            obsolete_below_key: mut obsolete_below,
            drops_erase_markers: drops_markers,
        } = self;
        let stride = layout.entry_bytes;
        into.clear();
        into.reserve(newer.len() + older.len());
        for entry in newer.chunks_exact(stride) {
            let key = read_entry_key(entry, 0);
            while !older.is_empty() && read_entry_key(older, 0) < key {
                let (before, rest) = older.split_at(stride);
                if read_entry_key(before, 0) >= obsolete_below {
                    into.extend_from_slice(before);
                }
                older = rest;
            }
            let is_marker = layout.is_erase_marker(key);
            if is_marker {
                obsolete_below = key + layout.keys_per_block;
            }
            if !(is_marker && drops_markers) {
                into.extend_from_slice(entry);
            }
            if !older.is_empty() && read_entry_key(older, 0) == key {
                let (same, rest) = older.split_at(stride);
                if key >= obsolete_below {
                    let at = into.len() - stride;
                    or_entry_bitmaps(&mut into[at..], same);
                }
                older = rest;
            }
        }
        let void = GeckoEntries::new(older, stride).count_keys_below(obsolete_below) * stride;
        into.extend_from_slice(&older[void..]);
        obsolete_below
    }
}

/// Returns the `k`-th of a list of Gecko LSM entries as a number; after the end, a number greater than all entries.
#[inline]
fn entry_word_at(entries: &[EntryWord], k: usize) -> u64 {
    entries.get(k).map_or(u64::MAX, |&entry| u64::from_le_bytes(entry))
}

/// Whether a Gecko LSM entry is the erase marker of a block ("all older entries of the block are obsolete"): its bitmap
/// is empty, and that of any other entry never is.
#[inline]
fn is_erase_marker_word(entry: u64) -> bool {
    entry >> u32::BITS == 0
}

/// Returns the index of the first Gecko LSM entry, from `at` on, whose key is at least `obsolete_below`. The entries
/// skipped are obsolete, and few, because they belong to one block.
fn skip_obsolete_entries(entries: &[EntryWord], at: usize, obsolete_below: u32) -> usize {
    let void = entries[at..].iter().take_while(|entry| read_entry_key(*entry, 0) < obsolete_below);
    at + void.count()
}

/// Merges the bitmap of the Gecko LSM entry `from` by OR into that of the entry `into`, which has the same key.
#[inline]
fn or_entry_bitmaps(into: &mut [u8], from: &[u8]) {
    into[GECKO_KEY_BYTES..].iter_mut().zip(&from[GECKO_KEY_BYTES..]).for_each(|(into, from)| *into |= from);
}

/// A merge of Logarithmic Gecko (LSM tree of invalid pages) in progress, which writes one output run. Its inputs are
/// adjacent runs on flash, with or without the frozen buffer.
#[derive(Clone, Debug)]
pub(super) struct RunMerge {
    /// Range of the sorted runs of the Gecko LSM tree on flash, by index, that are inputs of the merge.
    pub(super) input_runs: Range<usize>,
    /// Whether the frozen buffer of the Gecko LSM tree is the newest input of the merge.
    pub(super) includes_buffer: bool,
    /// Entries that the merge produces, in key order.
    merged_entries: MergedEntries,
    /// Writer of the output run.
    pub(super) writer: RunWriter,
}

impl RunMerge {
    /// Creates a merge of the Gecko LSM tree of which no output page is written yet.
    pub(super) fn new(
        inputs: Range<usize>,
        includes_buffer: bool,
        merged_entries: MergedEntries,
        writer: RunWriter,
    ) -> Self {
        Self { input_runs: inputs, includes_buffer, merged_entries, writer }
    }

    /// Fills one page of the sorted run that a merge of the Gecko LSM tree writes, and appends it to flash; returns
    /// `true` if the run is complete.
    pub(super) fn write_next_page(
        &mut self,
        io: &mut FlashPageStore,
        runs: &[GeckoRun],
        layout: &GeckoLayout,
    ) -> Result<bool> {
        let exhausted = self.fill_page(io, runs, layout)?;
        self.writer.append_page(io, exhausted, layout)
    }

    /// Fills the current page of the output run of a Gecko merge with merged entries. Returns `true` if no entry is
    /// left. The next entries are fetched even if the page is full, so that a full last page is known to be the last.
    fn fill_page(
        &mut self,
        io: &mut FlashPageStore,
        runs: &[GeckoRun],
        layout: &GeckoLayout,
    ) -> Result<bool> {
        loop {
            let next = self.merged_entries.next_merged_entries(io, runs, layout)?;
            if next.is_empty() {
                return Ok(true);
            }
            let taken = self.writer.push_entries_that_fit(next, layout);
            if taken == 0 {
                return Ok(false);
            }
            self.merged_entries.consume_bytes(taken);
        }
    }
}
