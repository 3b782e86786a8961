//! Operation batch: flash and NVRAM operations that wait to be written to the files of an image together.
//!
//! Within a batch all programs are written first. Then one journal record is written with every word that the batch
//! changes: words of NVRAM, and words with the state of a block. Pages that are adjacent in the flash file are one
//! [`PageRun`], which is one write of data and one of OOB records. Batches are written one after the other, each as a
//! whole.

use wearwell::address::{BlockId, Ppn};

use super::layout::METADATA_RECORD_BYTES;

/// A run of adjacent pages whose programs wait to be written: their data, spare areas and OOB records.
#[derive(Debug, Default)]
pub(super) struct PageRun {
    /// Number of the first flash page of the run.
    first_page: u32,
    /// Size of the data of one page, bytes.
    page_bytes: usize,
    /// Whether the run's pages hold FTL metadata. The data of such pages is stored twice.
    pub(super) is_metadata: bool,
    /// Data of the run's pages, one page after the other. It may be followed by reserved bytes for further pages.
    page_data: Vec<u8>,
    /// Spare areas of the run's pages, each of full length, up to the last page that has spare bytes. Empty if no page
    /// has spare bytes.
    spare_areas: Vec<u8>,
    /// OOB records of the run's pages, one after the other.
    pub(super) oob_records: Vec<u8>,
}

impl PageRun {
    /// Returns the first flash page of the run.
    pub(super) fn first_page(&self) -> Ppn {
        Ppn(self.first_page)
    }

    /// Returns the number of pages in the run.
    fn page_count(&self) -> u32 {
        (self.oob_records.len() / METADATA_RECORD_BYTES) as u32
    }

    /// Whether page `ppn` extends this run of consecutive pages: it follows the last page of the run, and both hold
    /// metadata (`is_metadata`), or both host data.
    fn is_continued_by(&self, ppn: Ppn, is_metadata: bool) -> bool {
        self.first_page + self.page_count() == ppn.0 && self.is_metadata == is_metadata
    }

    /// Returns the data of the run's pages, one page after the other.
    pub(super) fn page_data(&self) -> &[u8] {
        &self.page_data[..self.page_count() as usize * self.page_bytes]
    }

    /// Returns the spare areas from the run's first page on, each of full length; `None` if no page has spare bytes.
    pub(super) fn spare_areas(&self) -> Option<&[u8]> {
        (!self.spare_areas.is_empty()).then_some(&self.spare_areas)
    }

    /// Extends the data buffer of the run by the bytes of `count` more pages, and returns these bytes, whose content is
    /// arbitrary.
    fn reserve_page_data_buffer(&mut self, count: usize) -> &mut [u8] {
        let used = self.page_data().len();
        let end = used + count * self.page_bytes;
        if self.page_data.len() < end {
            self.page_data.resize(end, 0);
        }
        &mut self.page_data[used..end]
    }

    /// Adds the next page to the run: its spare bytes and OOB record. The page's data has been written to the run's
    /// data buffer before, after the data of the run's last page.
    fn finish_reserved_page(
        &mut self,
        spare: &[u8],
        spare_stride: usize,
        record: &[u8; METADATA_RECORD_BYTES],
    ) {
        if !spare.is_empty() {
            self.spare_areas.resize(self.page_count() as usize * spare_stride, 0);
            self.spare_areas.extend_from_slice(spare);
            self.spare_areas.resize((self.page_count() as usize + 1) * spare_stride, 0);
        }
        self.oob_records.extend_from_slice(record);
    }

    /// Removes all pages from the run and keeps its buffers for other pages.
    fn clear(&mut self) {
        self.spare_areas.clear();
        self.oob_records.clear();
    }
}

/// Buffers of runs (adjacent pages) that were written, kept for later runs, because allocating fresh memory costs as
/// much as the copy into it.
#[derive(Debug, Default)]
pub(super) struct PageRunBuffers(Vec<PageRun>);

impl PageRunBuffers {
    /// Most runs (groups of adjacent pages) whose buffers are kept for later runs.
    const KEPT_RUN_BUFFERS_MAX: usize = 32;

    /// Returns an empty run of adjacent pages that begins with page `first`. It uses the buffers of an earlier run if
    /// some are kept.
    fn begin_run(&mut self, first: Ppn, page_bytes: usize, is_metadata: bool) -> PageRun {
        PageRun { first_page: first.0, page_bytes, is_metadata, ..self.0.pop().unwrap_or_default() }
    }

    /// Keeps the buffers of a run of pages that was written, unless enough buffers are kept already.
    fn return_run(&mut self, mut run: PageRun) {
        if self.0.len() < Self::KEPT_RUN_BUFFERS_MAX {
            run.clear();
            self.0.push(run);
        }
    }
}

/// A page that is to be programmed, with its data, spare bytes and encoded OOB record.
#[derive(Clone, Copy)]
pub(super) struct PageProgram<'a> {
    /// Data of the page.
    pub(super) data: &'a [u8],
    /// Spare bytes that the engine stores with the page; empty if there are none.
    pub(super) spare: &'a [u8],
    /// Distance of the spare areas of consecutive pages in the flash file, bytes.
    pub(super) spare_stride_bytes: usize,
    /// Encoded OOB record of the page.
    pub(super) oob_record: [u8; METADATA_RECORD_BYTES],
    /// Whether the page holds FTL metadata. The data of such a page is stored twice.
    pub(super) is_metadata: bool,
}

/// Changes of words of NVRAM and block states by a batch of operations: index and new value, in the order of the
/// changes. A word may occur several times; its last value counts.
#[derive(Debug, Default)]
pub(super) struct DeviceStateWordChanges(Vec<(u64, u64)>);

impl DeviceStateWordChanges {
    /// Number of latest changes that are searched for an earlier change of the same word, which is then overwritten. A
    /// few suffice, because the word with the state of a block changes with each of its pages, together with few other
    /// words.
    const RECENT_CHANGES_SEARCHED_MAX: usize = 4;

    /// Records that the word with index `index` gets the value `word`. A recent change of this word is overwritten.
    pub(super) fn set(&mut self, index: u64, word: u64) {
        let mut latest = self.0.iter_mut().rev().take(Self::RECENT_CHANGES_SEARCHED_MAX);
        match latest.find(|change| change.0 == index) {
            Some(change) => change.1 = word,
            None => self.0.push((index, word)),
        }
    }

    /// Whether the batch changes no word of NVRAM and no block state.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of recorded changes. A word that changed several times may count several times.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns each changed word once, as index and last value, in the order of the indices.
    pub(super) fn last_value_by_word(&self) -> Vec<(u64, u64)> {
        let mut values = self.0.clone();
        values.reverse();
        values.sort_by_key(|&(index, _)| index);
        values.dedup_by_key(|&mut (index, _)| index);
        values
    }
}

/// A batch of operations that is written to the files of an image together: programs, and changes of NVRAM and block
/// states.
#[derive(Debug, Default)]
pub(super) struct OperationBatch {
    /// Number of the journal record that will make the operations of the batch valid.
    pub(super) journal_record_number: u64,
    /// Waiting programs, in runs of adjacent pages.
    runs: Vec<PageRun>,
    /// Changes that the batch makes to words of NVRAM and to words with the state of a block.
    pub(super) word_changes: DeviceStateWordChanges,
    /// Erased blocks whose space in the flash file is returned to the file system.
    pub(super) blocks_to_punch: Vec<BlockId>,
    /// Erased blocks that held metadata. The file space of their copies in the mirror is returned to the file system.
    pub(super) mirror_blocks_to_punch: Vec<BlockId>,
    /// Number of bytes of data of all pages that the batch programs.
    pub(super) programmed_data_bytes: usize,
}

impl OperationBatch {
    /// Makes an empty batch of operations, which the journal record with this number will make valid.
    pub(super) fn new(journal_record_number: u64) -> Self {
        Self { journal_record_number, ..Self::default() }
    }

    /// Whether the batch has no programs and changes neither NVRAM nor block states.
    pub(super) fn is_empty(&self) -> bool {
        self.programmed_data_bytes == 0 && self.word_changes.is_empty()
    }

    /// Returns the waiting programs of the batch, in runs of adjacent pages.
    pub(super) fn runs(&self) -> impl Iterator<Item = &PageRun> {
        self.runs.iter().filter(|run| run.page_count() > 0)
    }

    /// Returns the run (waiting programs of adjacent pages) that page `ppn` extends. If this batch has none, a new run
    /// that begins with the page is returned.
    fn find_or_begin_run(
        &mut self,
        ppn: Ppn,
        page_bytes: usize,
        is_metadata: bool,
        page_run_buffers: &mut PageRunBuffers,
    ) -> &mut PageRun {
        let continued = self.runs.iter().rposition(|run| run.is_continued_by(ppn, is_metadata));
        let at = continued.unwrap_or_else(|| {
            self.runs.push(page_run_buffers.begin_run(ppn, page_bytes, is_metadata));
            self.runs.len() - 1
        });
        &mut self.runs[at]
    }

    /// Reserves buffer space for `count` pages of host data, of `page_bytes` each, from page `first` on, and returns
    /// the space. [`OperationBatch::add_program_from_reserved_buffer`] adds the programs of these pages to the batch
    /// one by one.
    pub(super) fn reserve_page_buffers(
        &mut self,
        first: Ppn,
        count: usize,
        page_bytes: usize,
        page_run_buffers: &mut PageRunBuffers,
    ) -> &mut [u8] {
        self.find_or_begin_run(first, page_bytes, false, page_run_buffers).reserve_page_data_buffer(count)
    }

    /// Returns the data that was put into the space reserved for page `ppn` by
    /// [`OperationBatch::reserve_page_buffers`]. The page must be the next one to be added.
    pub(super) fn data_in_reserved_buffer(&self, ppn: Ppn) -> &[u8] {
        let run = self
            .runs
            .iter()
            .rfind(|run| run.is_continued_by(ppn, false))
            .expect("room was made for the page");
        let used = run.page_data().len();
        &run.page_data[used..used + run.page_bytes]
    }

    /// Adds the program of page `ppn`, which has no spare bytes, to the batch of operations. Its data is in the buffer
    /// space that [`OperationBatch::reserve_page_buffers`] reserved, and the page must be the next one of that space.
    pub(super) fn add_program_from_reserved_buffer(
        &mut self,
        ppn: Ppn,
        record: &[u8; METADATA_RECORD_BYTES],
    ) {
        let mut runs = self.runs.iter_mut();
        let run = runs.rfind(|run| run.is_continued_by(ppn, false)).expect("room was made for the page");
        run.finish_reserved_page(&[], 0, record);
        self.programmed_data_bytes += run.page_bytes;
    }

    /// Adds the program of a page to the batch of operations. The page extends a run of adjacent pages if there is one.
    pub(super) fn add_program(
        &mut self,
        ppn: Ppn,
        page: &PageProgram<'_>,
        page_run_buffers: &mut PageRunBuffers,
    ) {
        let run = self.find_or_begin_run(ppn, page.data.len(), page.is_metadata, page_run_buffers);
        run.reserve_page_data_buffer(1).copy_from_slice(page.data);
        run.finish_reserved_page(page.spare, page.spare_stride_bytes, &page.oob_record);
        self.programmed_data_bytes += page.data.len();
    }

    /// Returns data and spare area of a page whose program waits in the batch of operations; `None` if the batch has no
    /// program of it. The spare area is empty if neither this page nor a later one of its run has spare bytes.
    pub(super) fn find_page(&self, ppn: Ppn, spare_stride: usize) -> Option<(&[u8], &[u8])> {
        let run = self
            .runs
            .iter()
            .rfind(|run| (run.first_page..run.first_page + run.page_count()).contains(&ppn.0))?;
        let at = (ppn.0 - run.first_page) as usize;
        let spare = run.spare_areas.get(at * spare_stride..(at + 1) * spare_stride).unwrap_or_default();
        Some((&run.page_data[at * run.page_bytes..(at + 1) * run.page_bytes], spare))
    }

    /// Removes the programs of the batch after they were written, and keeps their buffers in `page_run_buffers`.
    pub(super) fn remove_programs(&mut self, page_run_buffers: &mut PageRunBuffers) {
        self.runs.drain(..).for_each(|run| page_run_buffers.return_run(run));
        self.programmed_data_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size of the pages in these tests, bytes.
    const PAGE_BYTES: usize = 4;
    /// OOB record of all pages in these tests; its content does not matter.
    const OOB_RECORD: [u8; METADATA_RECORD_BYTES] = [7; METADATA_RECORD_BYTES];

    /// Makes the program of a page of host data with the given data and spare bytes.
    fn page<'a>(data: &'a [u8; PAGE_BYTES], spare: &'a [u8]) -> PageProgram<'a> {
        PageProgram { data, spare, spare_stride_bytes: 2, oob_record: OOB_RECORD, is_metadata: false }
    }

    #[test]
    fn only_the_last_value_of_a_changed_state_word_is_written() {
        let mut words = DeviceStateWordChanges::default();
        for change in [(9, 1), (2, 1), (9, 2), (3, 1), (4, 1), (5, 1), (6, 1), (9, 3), (2, 2)] {
            words.set(change.0, change.1);
        }
        assert_eq!(words.last_value_by_word(), [(2, 2), (3, 1), (4, 1), (5, 1), (6, 1), (9, 3)]);
    }

    #[test]
    fn adjacent_pages_are_one_run_in_which_each_is_found_with_its_spare_bytes() {
        let (mut batch, mut room) = (OperationBatch::new(1), PageRunBuffers::default());
        batch.add_program(Ppn(5), &page(b"five", b""), &mut room);
        batch.add_program(Ppn(6), &page(b"six ", b"s"), &mut room);
        batch.add_program(Ppn(9), &page(b"nine", b""), &mut room);
        batch.add_program(Ppn(7), &page(b"7777", b""), &mut room);
        let runs: Vec<_> =
            batch.runs().map(|run| (run.first_page(), run.page_data(), run.spare_areas())).collect();
        assert_eq!(runs[0], (Ppn(5), &b"fivesix 7777"[..], Some(&b"\0\0s\0"[..])));
        assert_eq!(runs[1], (Ppn(9), &b"nine"[..], None));
        assert_eq!(batch.find_page(Ppn(6), 2), Some((&b"six "[..], &b"s\0"[..])));
        assert_eq!(batch.find_page(Ppn(7), 2), Some((&b"7777"[..], &b""[..])));
        assert_eq!(batch.find_page(Ppn(8), 2), None);
    }

    #[test]
    fn a_reserved_page_is_part_of_the_write_batch_once_it_is_added() {
        let (mut batch, mut room) = (OperationBatch::new(1), PageRunBuffers::default());
        batch.reserve_page_buffers(Ppn(3), 2, PAGE_BYTES, &mut room).copy_from_slice(b"3333four");
        assert!(batch.is_empty() && batch.runs().next().is_none(), "nothing is programmed yet");
        assert_eq!(batch.data_in_reserved_buffer(Ppn(3)), b"3333");
        batch.add_program_from_reserved_buffer(Ppn(3), &OOB_RECORD);
        assert_eq!(batch.find_page(Ppn(3), 2), Some((&b"3333"[..], &b""[..])));
        assert_eq!((batch.find_page(Ppn(4), 2), batch.data_in_reserved_buffer(Ppn(4))), (None, &b"four"[..]));
        assert_eq!(batch.programmed_data_bytes, PAGE_BYTES);
        assert_eq!(batch.runs().map(PageRun::page_data).collect::<Vec<_>>(), [b"3333"]);
    }

    #[test]
    fn a_reused_run_buffer_holds_nothing_of_earlier_pages() {
        let (mut batch, mut room) = (OperationBatch::new(1), PageRunBuffers::default());
        batch.add_program(Ppn(1), &page(b"long", b"x"), &mut room);
        batch.add_program(Ppn(2), &page(b"gone", b"y"), &mut room);
        batch.remove_programs(&mut room);
        assert!(batch.is_empty());
        batch.add_program(Ppn(1), &page(b"next", b""), &mut room);
        let runs: Vec<_> = batch.runs().map(|run| (run.page_data(), run.spare_areas())).collect();
        assert_eq!(runs, [(&b"next"[..], None)]);
    }
}
