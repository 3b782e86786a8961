//! A run of Logarithmic Gecko, the log-structured merge tree of invalid pages. A run is a list of sorted entries on
//! flash, with a directory of its pages in RAM. Also the writer of a run.

use super::layout::{
    BufferFlushRange, GeckoLayout, RunPageDraft, RunPostamble, interpolated_key_rank, read_entry_key,
};
use crate::address::Ppn;
use crate::data::{Content, Fingerprint};
use crate::error::Result;
use crate::nand::PageDataWord;
use crate::operation::Cause;
use crate::store::{FlashPageStore, Stream};

/// A complete run of Logarithmic Gecko (LSM tree of invalid pages): sorted entries on flash, with a directory of its
/// pages in RAM.
#[derive(Clone, Debug)]
pub(super) struct GeckoRun {
    /// Number of the run of the Gecko LSM tree: the owner in the OOB of the run's pages.
    pub(super) run_number: u32,
    /// Number of entries (key and bitmap of a part of a block) of the run of the Gecko LSM tree.
    pub(super) entry_count: u32,
    /// Flushes of the buffer whose entries the run contains.
    pub(super) buffer_flushes: BufferFlushRange,
    /// PPN of each page of the sorted run of the Gecko LSM tree.
    pub(super) page_ppns: Vec<Ppn>,
    /// Directory of the run of the Gecko LSM tree: the first key of each page that has entries.
    pub(super) first_keys: Vec<u32>,
    /// Key of the last entry of the run.
    pub(super) last_key: u32,
}

impl GeckoRun {
    /// Returns the PPNs of the pages of the sorted run of the Gecko LSM tree that may hold entries with keys from `low`
    /// to `high`.
    pub(super) fn pages_with_keys_between(&self, low: u32, high: u32) -> &[Ppn] {
        if high < self.first_keys.first().copied().unwrap_or(u32::MAX) || low > self.last_key {
            return &[];
        }
        let from = self.first_keys.partition_point(|&first| first <= low).saturating_sub(1);
        let to = self.first_keys.partition_point(|&first| first <= high);
        &self.page_ppns[from..to]
    }

    /// Returns the page of the Gecko LSM run that a search for `key` reads, and the 4-byte words of the page that the
    /// search reads if keys are evenly spread; `None` if the run is empty.
    pub(super) fn page_and_words_read_by_search(
        &self,
        key: u32,
        layout: &GeckoLayout,
    ) -> Option<(Ppn, impl Iterator<Item = PageDataWord>)> {
        let page = self.first_keys.partition_point(|&first| first <= key).saturating_sub(1);
        let first = *self.first_keys.get(page)?;
        let before_next = self.first_keys.get(page + 1).map_or(self.last_key, |next| next - 1);
        let before = page as u32 * layout.entries_per_page;
        let last = (self.entry_count - before).min(layout.entries_per_page) as usize - 1;
        let rank = interpolated_key_rank(key, first, before_next, last);
        Some((self.page_ppns[page], layout.page_words_read_by_search(rank, last)))
    }

    /// Records that GC moved a page of the run from PPN `from` to PPN `to`; returns `false` if `from` is no page of the
    /// run.
    pub(super) fn record_page_move(&mut self, from: Ppn, to: Ppn) -> bool {
        replace_ppn(&mut self.page_ppns, from, to)
    }
}

/// Replaces the PPN `from` in `places` by `to`; returns `false` if `from` is not in `places`.
fn replace_ppn(places: &mut [Ppn], from: Ppn, to: Ppn) -> bool {
    let found = places.iter_mut().find(|place| **place == from);
    found.map(|place| *place = to).is_some()
}

/// A sorted run of the Gecko LSM tree that is being written to flash. It takes effect when its last page is on flash.
#[derive(Clone, Debug)]
pub(super) struct RunWriter {
    /// The run as far as it is written: its pages, keys and number of entries.
    unfinished_run: GeckoRun,
    /// Page of the run that is being filled.
    page_draft: RunPageDraft,
    /// Number of keys of the sorted run's directory (first key of each page) that are on flash.
    directory_keys_written: usize,
}

impl RunWriter {
    /// Creates the writer of an empty run with this number, which will contain the entries of the flushes
    /// `buffer_flushes`.
    pub(super) fn new(number: u32, buffer_flushes: BufferFlushRange, layout: &GeckoLayout) -> Self {
        let unfinished_run = GeckoRun {
            run_number: number,
            entry_count: 0,
            buffer_flushes,
            page_ppns: Vec::new(),
            first_keys: Vec::new(),
            last_key: 0,
        };
        Self { unfinished_run, page_draft: RunPageDraft::new(layout), directory_keys_written: 0 }
    }

    /// Adds as many of these Gecko LSM entries as fit to the current page of the run. Returns the number of bytes
    /// added.
    pub(super) fn push_entries_that_fit(&mut self, entries: &[u8], layout: &GeckoLayout) -> usize {
        let is_first = self.page_draft.entry_count == 0;
        let (count, bytes) = self.page_draft.push_entries_that_fit(entries, layout);
        if count > 0 {
            if is_first {
                self.unfinished_run.first_keys.push(read_entry_key(entries, 0));
            }
            self.unfinished_run.last_key = read_entry_key(entries, bytes - layout.entry_bytes);
            self.unfinished_run.entry_count += count;
        }
        bytes
    }

    /// Appends the current page of the sorted run of the Gecko LSM tree to flash. `is_last_entry_page`: no entry
    /// follows. Returns `true` if that was the last page of the run. After an error the next call appends the same
    /// page.
    pub(super) fn append_page(
        &mut self,
        io: &mut FlashPageStore,
        is_last_entry_page: bool,
        layout: &GeckoLayout,
    ) -> Result<bool> {
        self.page_draft.zero_unused_bytes(layout);
        let (keys, last) = if is_last_entry_page { self.write_directory(layout) } else { (0, false) };
        self.page_draft.write_header(self.unfinished_run.page_ppns.len() as u32, last);
        let pool = io.take_append_pool(Stream::Validity);
        let content = Content::Bytes(&self.page_draft.bytes);
        let number = self.unfinished_run.run_number;
        let place =
            io.append_page(Stream::Validity, pool, number, content, Fingerprint::default(), Cause::Validity)?;
        self.unfinished_run.page_ppns.push(place);
        self.directory_keys_written += keys;
        self.page_draft.entry_count = 0;
        Ok(last)
    }

    /// Writes the next keys of the run's directory to the current page, and the summary if it fits. Returns the number
    /// of keys written, and whether this is the last page of the run.
    fn write_directory(&mut self, layout: &GeckoLayout) -> (usize, bool) {
        let GeckoRun { entry_count: entries, last_key, buffer_flushes, .. } = self.unfinished_run;
        let keys = &self.unfinished_run.first_keys[self.directory_keys_written..];
        self.page_draft.write_directory(
            keys,
            &RunPostamble { entry_count: entries, last_key, buffer_flushes },
            layout,
        )
    }

    /// Returns the complete sorted run of the Gecko LSM tree. Panics if its last page is not written.
    pub(super) fn into_finished_run(self, layout: &GeckoLayout) -> GeckoRun {
        let run = self.unfinished_run;
        assert_eq!(
            run.page_ppns.len() as u32,
            layout.page_count_of_run(run.entry_count),
            "pages of run {}",
            run.run_number
        );
        run
    }

    /// Returns the number of the Gecko LSM run that is being written: the owner in the OOB of its pages.
    pub(super) fn run_number(&self) -> u32 {
        self.unfinished_run.run_number
    }

    /// Returns the PPNs of the pages of the Gecko LSM run that are written so far.
    pub(super) fn page_ppns(&self) -> &[Ppn] {
        &self.unfinished_run.page_ppns
    }

    /// Records that GC moved a page of the run from PPN `from` to PPN `to`; returns `false` if `from` is no page of the
    /// run.
    pub(super) fn record_page_move(&mut self, from: Ppn, to: Ppn) -> bool {
        replace_ppn(&mut self.unfinished_run.page_ppns, from, to)
    }
}
