//! Logarithmic Gecko: page validity as a log-structured merge tree on flash.
//!
//! Source: Dayan, Bonnet, Idreos, "`GeckoFTL`: Scalable Flash Translation Techniques For Very Large Flash Devices",
//! SIGMOD 2016, sections 3 and 3.1-3.3, appendices A, B and C.1. A bitmap on flash costs a read and a write per invalid
//! page. Here reports of invalid pages are gathered in a buffer of one page, flushed as sorted runs and merged in
//! levels. So a report costs a small fraction of a page write, and a query for the invalid pages of a block costs one
//! page read per run. The price: the reads of a query (one query per victim) grow logarithmically, and about twice the
//! space of the bitmap.
//!
//! - An entry is a key and the bitmap of a part of a block (entry-partitioning, section 3.3); `layout` describes the
//!   bytes.
//! - The paper's erase flag is an entry of its own, the *erase marker*. It sorts before the parts of its block, and
//!   makes the entries of all parts in older runs obsolete. One flag per part would need an insert for every part of
//!   the block.
//! - A run at level i holds T^i to T^(i+1) - 1 buffers' worth of entries, where T is the size ratio of adjacent levels
//!   (in pages: that, or a little less, because a page of a long run holds more than a buffer). Two runs of one level
//!   are merged. [`MergeMode::MultiWay`] determines in advance the chain of merges that a flush causes, and executes it
//!   as one merge.
//! - The buffer, which has room for V entries, is flushed after V reports even if they share entries. This bounds what
//!   recovery must find elsewhere (appendix C.2.2). A burst of reports between two calls of
//!   [`ValidityStore::execute_next_deferred_validity_write`] makes a longer buffer, which is flushed as a run of
//!   several pages.
//! - A run records which flushes of the buffer it covers. After a power cut, a complete run is obsolete if another
//!   complete run covers its flushes. The paper keeps "the most recently created run in each level" instead (appendix
//!   C.1). With that rule, the output of a merge can be at another level than its inputs. The inputs would then count
//!   as the newest runs of their level, and report pages as invalid whose blocks were erased since.
//!
//! Invariants:
//! - Runs are kept newest first; their covered flushes are adjacent and descending.
//! - While no merge is due, a run is at a lower level than every older one.
//! - The inputs of a merge answer queries, and their pages are kept, until the last page of the output is on flash.
//! - `invalidate` and `opened` do no flash operation.

mod buffer;
mod layout;
mod merge;
mod recovery;
mod run;

use std::ops::Range;

use arrayvec::ArrayVec;

use self::buffer::{FrozenBuffer, GeckoBuffer};
use self::layout::{BufferFlushRange, GeckoEntries, GeckoLayout};
use self::merge::{MergedEntries, RunMerge};
use self::run::{GeckoRun, RunWriter};
use super::{ValidityStore, is_page_bit_set};
use crate::address::{BlockId, Ppn};
use crate::error::{Error, Result};
use crate::events::MetadataWriteReason;
use crate::nand::{Geometry, Nand};
use crate::operation::Cause;
use crate::store::FlashPageStore;
use crate::tables::prefetch::TRANSLATION_PAGES_PER_PREFETCH;

/// When the sorted runs of Logarithmic Gecko (LSM tree of invalid pages) on flash are merged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MergeMode {
    /// Each flush of the buffer writes a sorted run at level 0 of the merge tree. Two runs of one level are then merged
    /// into one, whose level may require a merge with the next older run.
    Pairwise,
    /// Each flush merges the buffer, in one step, with all sorted runs that a chain of pairwise merges would reach
    /// (appendix A of the `GeckoFTL` paper).
    MultiWay,
}

/// Options of Logarithmic Gecko, the log-structured merge tree of invalid pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GeckoOptions {
    /// Size ratio of adjacent levels of the merge tree (T), at least 2.
    pub size_ratio: u32,
    /// Number of parts (S) into which the bitmap of a block's invalid pages is cut. Each part has an entry of its own.
    /// 1 means no entry-partitioning.
    pub parts_per_block: u32,
    /// When the sorted runs of the Gecko LSM tree on flash are merged.
    pub merge_mode: MergeMode,
}

impl Default for GeckoOptions {
    fn default() -> Self {
        Self { size_ratio: 2, parts_per_block: 4, merge_mode: MergeMode::MultiWay }
    }
}

impl GeckoOptions {
    /// Returns the default options of Logarithmic Gecko (LSM tree of invalid pages), but with a block's bitmap cut into
    /// parts of 32 pages. The bitmap of a part is then as long as its key, the paper's balance (section 3.3).
    pub fn with_block_parts_of_key_size(geometry: &Geometry) -> Self {
        Self { parts_per_block: (geometry.block_pages() / 32).max(1), ..Self::default() }
    }
}

/// Counts of Logarithmic Gecko (LSM tree of invalid pages): pages reported as invalid, blocks opened, queries answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GeckoCounts {
    /// Number of pages reported as invalid to Logarithmic Gecko (LSM tree of invalid pages).
    pub invalid_page_reports: u64,
    /// Number of erase markers added: one for each block reported as opened. A marker makes all older entries of its
    /// block obsolete.
    pub erase_markers: u64,
    /// Number of queries to Logarithmic Gecko (LSM tree of invalid pages) for the valid pages of a block.
    pub queries: u64,
    /// Number of flash pages read to answer queries for the valid pages of a block. All other reads of Logarithmic
    /// Gecko (LSM tree of invalid pages) belong to merges.
    pub query_reads: u64,
}

/// A buffer of Logarithmic Gecko (LSM tree of invalid pages) that is being written to flash, and the number of its
/// flush.
#[derive(Clone, Debug)]
struct BufferFlush {
    /// The buffer that accepts no more reports.
    frozen_buffer: FrozenBuffer,
    /// Ordinal number of this flush of the buffer, and the sequence number at which the buffer was frozen.
    buffer_flushes: BufferFlushRange,
}

/// Record of invalid pages on flash as a log-structured merge tree (Logarithmic Gecko).
#[derive(Clone, Debug)]
pub struct Gecko {
    /// Options of the merge tree: size ratio, parts per block, and merge mode.
    options: GeckoOptions,
    /// Sizes of entries, pages and runs, which follow from geometry and options.
    layout: GeckoLayout,
    /// Buffer in RAM that accepts the reports of invalid pages and opened blocks.
    buffer: GeckoBuffer,
    /// Whether a flush of the buffer was requested that has not started yet.
    is_flush_requested: bool,
    /// The buffer of the Gecko LSM tree that is being flushed; queries read it until its sorted run is complete on
    /// flash.
    flush_in_progress: Option<BufferFlush>,
    /// Complete runs (sorted entries on flash) of the merge tree, newest first.
    runs: Vec<GeckoRun>,
    /// Index of the newer of two adjacent sorted runs of the Gecko LSM tree that must be merged, because the newer is
    /// not at a lower level than the older; `None` if no merge is due. Stored because every host write needs the value,
    /// and it changes only with the runs ([`Gecko::set_runs`]).
    next_run_pair_to_merge: Option<usize>,
    /// Merge of sorted runs that is being written to flash page by page; `None` if none is.
    merge_in_progress: Option<RunMerge>,
    /// Number of the next sorted run that will be written.
    next_run_number: u32,
    /// Number of the next flush of the buffer.
    next_flush_number: u64,
    /// Buffer for one flash page that a query reads.
    page_buffer: Vec<u8>,
    /// Bitmap of the invalid pages of the block that is queried.
    queried_block_bitmap: Vec<u64>,
    /// Counts of reported invalid pages, reported block openings and validity queries since the counts were last
    /// cleared.
    counts: GeckoCounts,
}

impl Gecko {
    /// Creates an empty Logarithmic Gecko (LSM tree of invalid pages): all pages of the device count as valid.
    ///
    /// # Errors
    /// [`Error::InvalidOptions`]: a size ratio below 2, more parts than pages in a block, keys of more than 32 bits, a
    /// flash page too small for two entries.
    pub fn new(geometry: &Geometry, options: GeckoOptions) -> Result<Self> {
        if options.size_ratio < 2 {
            return Err(Error::InvalidOptions(format!(
                "gecko.size_ratio is {}; set it to at least 2",
                options.size_ratio
            )));
        }
        let layout = GeckoLayout::new(geometry, options.parts_per_block)?;
        Ok(Self {
            options,
            buffer: GeckoBuffer::new(&layout),
            is_flush_requested: false,
            flush_in_progress: None,
            runs: Vec::new(),
            next_run_pair_to_merge: None,
            merge_in_progress: None,
            next_run_number: 0,
            next_flush_number: 1,
            page_buffer: layout.blank_page(),
            queried_block_bitmap: vec![0; layout.words_per_block_bitmap()],
            counts: GeckoCounts::default(),
            layout,
        })
    }

    /// Returns the options with which the Gecko LSM tree was created.
    pub fn options(&self) -> GeckoOptions {
        self.options
    }

    /// Returns the counts of reports and queries of the Gecko LSM tree since they were last cleared.
    pub fn counts(&self) -> GeckoCounts {
        self.counts
    }

    /// Clears the counts of the Gecko LSM tree; its record of invalid pages is unchanged.
    pub fn clear_operation_counts(&mut self) {
        self.counts = GeckoCounts::default();
    }

    /// Returns the number of reports (invalid pages and opened blocks) after which the buffer of Logarithmic Gecko is
    /// flushed to flash (V). It equals the number of entries that fit a sorted run of one page.
    pub fn validity_reports_per_flush(&self) -> u32 {
        self.layout.buffer_capacity_entries
    }

    /// Returns the number of flash pages of a sorted run of the Gecko LSM tree that has `entries` entries.
    pub fn page_count_of_run(&self, entries: u32) -> u32 {
        self.layout.page_count_of_run(entries)
    }

    /// Returns the maximum number of levels of the merge tree that can hold a run (the paper's L, section 3.2): one for
    /// each power of the size ratio T up to the size of a run with an entry for every part of every block.
    pub fn max_levels(&self) -> u32 {
        self.level_of_run_size(self.layout.max_run_size_in_buffers()) + 1
    }

    /// Returns the maximum number of pages of a sorted run of the Gecko LSM tree: that of a run with an entry for every
    /// part of every block.
    pub fn max_run_pages(&self) -> u32 {
        self.layout.max_run_size_in_buffers()
    }

    /// Returns level, entries and pages of each complete sorted run of the Gecko LSM tree on flash, newest first.
    pub fn level_entries_and_pages_of_each_run(&self) -> impl Iterator<Item = (u32, u32, u32)> + '_ {
        self.runs.iter().map(|run| (self.level_of_run(run), run.entry_count, run.page_ppns.len() as u32))
    }

    /// Requests a flush of the buffer of the Gecko LSM tree whatever it holds;
    /// [`ValidityStore::execute_next_deferred_validity_write`] executes it. A flush of an empty buffer writes a page
    /// too, which records that no page became invalid.
    pub fn request_flush(&mut self) {
        self.is_flush_requested = true;
    }

    /// Returns the sequence number at which the newest flushed buffer was frozen: every page invalidated before is
    /// recorded on flash. 0 if no buffer was flushed.
    #[inline]
    pub fn durable_until_sequence(&self) -> u64 {
        self.runs.first().map_or(0, |run| run.buffer_flushes.buffer_frozen_at_sequence)
    }

    /// Returns the number of reports (invalid pages and opened blocks) that are only in RAM and would be lost in a
    /// power cut.
    #[inline]
    pub fn unflushed_validity_report_count(&self) -> u64 {
        self.buffer.validity_report_count
            + self.flush_in_progress.as_ref().map_or(0, |flush| flush.frozen_buffer.validity_report_count)
    }

    /// Returns the pages of `block`, in ascending order, that were reported as invalid since the block was opened. For
    /// audits: flash reads are not counted.
    ///
    /// # Errors
    /// Any error of the flash.
    pub fn invalid_pages_for_audit(&self, io: &mut FlashPageStore, block: BlockId) -> Result<Vec<Ppn>> {
        let mut invalid = vec![0; self.layout.words_per_block_bitmap()];
        let mut page = self.layout.blank_page();
        self.copy_invalid_bits_of_block(block, &mut invalid, |place, look| {
            Ok(io.nand_mut().read_page_in_place(place, &mut page, look)?)
        })?;
        Ok(self
            .layout
            .pages_and_offsets_of_block(block)
            .filter(|&(_, k)| is_page_bit_set(&invalid, k))
            .map(|(ppn, _)| ppn)
            .collect())
    }

    /// Sets in `invalid` the bits of a block's invalid pages. Queries the buffer, the frozen buffer and the runs on
    /// flash, newest first, up to the first that holds the block's erase marker. Reads one page per run, or two
    /// adjacent ones if the entries of the block straddle them (more only if a block has more parts than a page has
    /// entries). Reads no page of a run whose keys cannot include the block.
    fn copy_invalid_bits_of_block(
        &self,
        block: BlockId,
        invalid: &mut [u64],
        mut read: impl FnMut(Ppn, &mut dyn FnMut(&[u8])) -> Result<()>,
    ) -> Result<()> {
        let layout = &self.layout;
        if self.buffer.copy_invalid_bits_and_find_erase_marker(layout, block, invalid) {
            return Ok(());
        }
        if self.flush_in_progress.as_ref().is_some_and(|flush| {
            flush.frozen_buffer.entries().copy_invalid_bits_and_find_erase_marker(layout, block, invalid)
        }) {
            return Ok(());
        }
        let marker = layout.erase_marker_key(block);
        for run in &self.runs {
            let mut erased = false;
            for &place in run.pages_with_keys_between(marker, marker + layout.keys_per_block - 1) {
                read(place, &mut |page| {
                    erased |= GeckoEntries::of_page(page, layout)
                        .copy_invalid_bits_and_find_erase_marker(layout, block, invalid);
                })?;
            }
            if erased {
                break;
            }
        }
        Ok(())
    }

    /// Prefetches the memory that a query for the valid pages of `block` will access in the pages of all sorted runs of
    /// the Gecko LSM tree (see [`crate::tables::prefetch`]).
    fn prefetch_query(&self, io: &FlashPageStore, block: BlockId) {
        let marker = self.layout.erase_marker_key(block);
        let (mut pages, mut words) = (
            ArrayVec::<_, TRANSLATION_PAGES_PER_PREFETCH>::new(),
            ArrayVec::<_, { 4 * TRANSLATION_PAGES_PER_PREFETCH }>::new(),
        );
        for (place, searched) in self
            .runs
            .iter()
            .filter_map(|run| run.page_and_words_read_by_search(marker, &self.layout))
            .take(TRANSLATION_PAGES_PER_PREFETCH / 2)
        {
            let before = words.len();
            words.extend(searched);
            pages.push((place, words.len() - before));
        }
        io.nand().prefetch_page_words(&pages, &mut words);
    }

    /// Returns the level in the merge tree of a run whose size is `size_in_buffers` times that of the buffer.
    fn level_of_run_size(&self, size_in_buffers: u32) -> u32 {
        size_in_buffers.ilog(self.options.size_ratio)
    }

    /// Returns the level of a run in the merge tree, which depends on its number of entries.
    fn level_of_run(&self, run: &GeckoRun) -> u32 {
        self.level_of_run_size(self.layout.run_size_in_buffers(run.entry_count))
    }

    /// Replaces the list of runs, and determines which two of them must be merged next.
    fn set_runs(&mut self, runs: Vec<GeckoRun>) {
        self.next_run_pair_to_merge =
            runs.windows(2).position(|pair| self.level_of_run(&pair[0]) >= self.level_of_run(&pair[1]));
        self.runs = runs;
    }

    /// Whether the buffer must be flushed to flash: a flush was requested, or the buffer has its full number of
    /// reports.
    #[inline]
    fn is_flush_due(&self) -> bool {
        self.is_flush_requested
            || self.buffer.validity_report_count >= self.layout.buffer_capacity_entries as u64
    }

    /// Writes one page of the merge or flush of the Gecko LSM tree that is in progress; if none is, starts the next one
    /// that is due and writes its first page. Marked cold, because most calls of `execute_next_deferred_validity_write`
    /// have nothing to write.
    #[cold]
    fn write_merge_or_flush_page(&mut self, io: &mut FlashPageStore) -> Result<()> {
        let is_early = self.is_flush_requested;
        if self.merge_in_progress.is_none() {
            self.start_next_merge_or_flush(io.last_sequence());
        }
        let mut merge = self.merge_in_progress.take().expect("a merge is in progress");
        io.flash_ops.record_metadata_reason(match (merge.includes_buffer, is_early) {
            (false, _) => MetadataWriteReason::ValidityMerge,
            (true, true) => MetadataWriteReason::ValidityReplayLimit,
            (true, false) => MetadataWriteReason::ValidityBufferFull,
        });
        let outcome = merge.write_next_page(io, &self.runs, &self.layout);
        if let Ok(true) = outcome {
            self.finish_merge(io, merge);
        } else {
            self.merge_in_progress = Some(merge);
        }
        outcome.map(drop)
    }

    /// Starts the next merge of sorted runs of the Gecko LSM tree that is due, or else a flush of the buffer to flash.
    fn start_next_merge_or_flush(&mut self, sequence: u64) {
        if let Some(newer) = self.next_run_pair_to_merge {
            self.start_merge(newer..newer + 2, false);
            return;
        }
        self.freeze_buffer(sequence);
        let joining = match self.options.merge_mode {
            MergeMode::Pairwise => 0,
            MergeMode::MultiWay => self.count_runs_to_merge(),
        };
        self.start_merge(0..joining, true);
    }

    /// Freezes the buffer of the Gecko LSM tree for a flush; later reports enter a new buffer.
    fn freeze_buffer(&mut self, sequence: u64) {
        let buffer_flushes = BufferFlushRange {
            first_flush_number: self.next_flush_number,
            last_flush_number: self.next_flush_number,
            buffer_frozen_at_sequence: sequence,
        };
        self.flush_in_progress = Some(BufferFlush { frozen_buffer: self.buffer.to_frozen(), buffer_flushes });
        self.buffer.clear(&self.layout);
        self.is_flush_requested = false;
        self.next_flush_number += 1;
    }

    /// Returns the number of runs of the Gecko LSM tree with which a flush of the buffer is merged. The newest runs are
    /// included, as long as the merge of all newer entries reaches the level of the next run.
    fn count_runs_to_merge(&self) -> usize {
        let flush = self.flush_in_progress.as_ref().expect("a buffer was frozen");
        let mut units = self.layout.run_size_in_buffers(flush.frozen_buffer.len());
        let joins = |run: &&GeckoRun| {
            let reached = self.level_of_run(run) <= self.level_of_run_size(units);
            units += self.layout.run_size_in_buffers(run.entry_count);
            reached
        };
        self.runs.iter().take_while(joins).count()
    }

    /// Starts a merge of the runs in the range `inputs`, with the frozen buffer as newest input if `includes_buffer`.
    fn start_merge(&mut self, inputs: Range<usize>, includes_buffer: bool) {
        let flush = self.flush_in_progress.as_ref().filter(|_| includes_buffer);
        // Newest first: the flushes of each older input are joined with those of the newer ones.
        let coverages = flush
            .map(|f| f.buffer_flushes)
            .into_iter()
            .chain(self.runs[inputs.clone()].iter().map(|r| r.buffer_flushes));
        let buffer_flushes =
            coverages.reduce(|newer, older| older.joined_with(newer)).expect("a merge has an input");
        let is_oldest = inputs.end == self.runs.len();
        let buffer = flush.iter().map(|f| &f.frozen_buffer);
        let merged = MergedEntries::new(buffer, inputs.clone(), is_oldest, Cause::Validity, &self.layout);
        let writer = RunWriter::new(self.next_run_number, buffer_flushes, &self.layout);
        self.next_run_number =
            self.next_run_number.checked_add(1).expect("a device does not live for 2^32 flushes");
        self.merge_in_progress = Some(RunMerge::new(inputs, includes_buffer, merged, writer));
    }

    /// Replaces the input runs of a finished merge of the Gecko LSM tree by its output run and discards the flash pages
    /// of the inputs.
    fn finish_merge(&mut self, io: &mut FlashPageStore, merge: RunMerge) {
        let RunMerge { input_runs: inputs, includes_buffer, writer, .. } = merge;
        let at = inputs.start;
        let output = writer.into_finished_run(&self.layout);
        let mut runs = std::mem::take(&mut self.runs);
        for replaced in runs.splice(inputs, [output]) {
            replaced.page_ppns.into_iter().for_each(|place| io.count_page_invalid(place));
        }
        self.set_runs(runs);
        if includes_buffer {
            self.flush_in_progress = None;
        }
        let covered = |k: usize| self.runs.get(k).map(|run| run.buffer_flushes);
        if let (Some(older), Some(output)) = (covered(at + 1), covered(at)) {
            assert_eq!(
                older.last_flush_number + 1,
                output.first_flush_number,
                "runs are in the order of their flushes"
            );
        }
        assert!(
            self.options.merge_mode == MergeMode::Pairwise
                || at > 0
                || self.next_run_pair_to_merge != Some(0),
            "a flush that foresees its merges leaves every run at a lower level than the older ones"
        );
    }

    /// Returns whether flash page `ppn` belongs to the complete run with number `run_number`.
    fn has_run_page(&self, run_number: u32, ppn: Ppn) -> bool {
        let run = self.runs.iter().find(|run| run.run_number == run_number);
        run.is_some_and(|run| run.page_ppns.contains(&ppn))
    }
}

impl ValidityStore for Gecko {
    #[inline]
    fn invalidate(&mut self, ppn: Ppn) {
        let (key, bit) = self.layout.key_and_bit_of(ppn);
        self.buffer.set_invalid_bit(key, bit);
        self.counts.invalid_page_reports += 1;
    }

    fn record_block_opened(&mut self, block: BlockId) {
        self.counts.erase_markers += 1;
        self.buffer.add_erase_marker(block, &self.layout);
    }

    fn append_valid_pages(
        &mut self,
        io: &mut FlashPageStore,
        block: BlockId,
        out: &mut Vec<Ppn>,
    ) -> Result<()> {
        let (mut page, mut invalid) =
            (std::mem::take(&mut self.page_buffer), std::mem::take(&mut self.queried_block_bitmap));
        invalid.fill(0);
        self.prefetch_query(io, block);
        let mut reads = 0;
        let outcome = self.copy_invalid_bits_of_block(block, &mut invalid, |place, look| {
            reads += 1;
            io.read_page_in_place(place, &mut page, look, Cause::Validity)
        });
        self.counts.queries += 1;
        self.counts.query_reads += reads;
        if outcome.is_ok() {
            let live =
                self.layout.pages_and_offsets_of_block(block).filter(|&(_, k)| !is_page_bit_set(&invalid, k));
            out.extend(live.map(|(ppn, _)| ppn));
        }
        (self.page_buffer, self.queried_block_bitmap) = (page, invalid);
        outcome
    }

    /// Writes one page of the merge of the Gecko LSM tree in progress, or the first page of the next merge or flush;
    /// returns `false` if none is due.
    #[inline]
    fn execute_next_deferred_validity_write(&mut self, io: &mut FlashPageStore) -> Result<bool> {
        let is_settled =
            self.merge_in_progress.is_none() && self.next_run_pair_to_merge.is_none() && !self.is_flush_due();
        if is_settled { Ok(false) } else { self.write_merge_or_flush_page(io).map(|()| true) }
    }

    fn holds_current_metadata_page(&self, id: u32, ppn: Ppn) -> bool {
        let unfinished = self.merge_in_progress.as_ref().map(|merge| &merge.writer);
        self.has_run_page(id, ppn)
            || unfinished.is_some_and(|writer| writer.run_number() == id && writer.page_ppns().contains(&ppn))
    }

    fn record_metadata_page_move(&mut self, id: u32, from: Ppn, to: Ppn) {
        let of_run =
            self.runs.iter_mut().find(|run| run.run_number == id).map(|run| run.record_page_move(from, to));
        let moved = of_run.unwrap_or_else(|| {
            let unfinished = self.merge_in_progress.as_mut().map(|merge| &mut merge.writer);
            unfinished.is_some_and(|writer| writer.run_number() == id && writer.record_page_move(from, to))
        });
        assert!(moved, "GC moved page {from} of run {id} of Logarithmic Gecko, but the run has no such page");
    }

    fn max_page_writes_per_deferred_step(&self) -> u32 {
        1
    }

    /// Returns the maximum number of flash pages of all sorted runs of the Gecko LSM tree, a merge in progress
    /// included. Proof: let T be the size ratio of adjacent levels, and U the size of a run with all keys, as a
    /// multiple of the buffer's size; a run has at most U pages (see `layout`). While no merge is due there is at most
    /// one run per level: at level i at most T^(i+1) - 1 times the buffer's size, and not more than U. The output of a
    /// merge in progress has at most U more. In pairwise mode the newest run of a chain of merges may be at the level
    /// of an older one, which adds U again.
    fn max_metadata_pages(&self) -> u64 {
        let largest = self.layout.max_run_size_in_buffers() as u64;
        let ratio = self.options.size_ratio as u64;
        let at_level = |level: u32| (ratio.pow(level + 1) - 1).min(largest);
        let at_rest: u64 = (0..self.max_levels()).map(at_level).sum();
        let in_progress = match self.options.merge_mode {
            MergeMode::Pairwise => 2,
            MergeMode::MultiWay => 1,
        };
        at_rest + in_progress * largest
    }

    /// Returns the bytes of RAM of Logarithmic Gecko (LSM tree of invalid pages), by data structure. These are the
    /// buffer; one page for each input of a merge, among them the frozen buffer; one page for the output of a merge;
    /// and directories with 8 bytes for every page that the runs can have. Appendix B of the `GeckoFTL` paper assumes
    /// that all runs together have twice the pages of the largest run. That is the average, not the maximum (see
    /// [`ValidityStore::max_metadata_pages`]).
    fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        let page = self.page_buffer.len() as u64;
        let inputs = match self.options.merge_mode {
            MergeMode::Pairwise => 2,
            MergeMode::MultiWay => 1 + self.max_levels() as u64,
        };
        vec![
            ("Gecko buffer", page),
            ("Gecko merge buffers", page * (inputs + 1)),
            ("Gecko run directories", 8 * self.max_metadata_pages()),
        ]
    }
}
