//! Logarithmic Gecko: page validity as a log-structured merge tree on flash.
//!
//! Source: Dayan, Bonnet, Idreos, "`GeckoFTL`: Scalable Flash Translation Techniques For Very Large Flash Devices",
//! SIGMOD 2016, sections 3 and 3.1-3.3, appendices A, B and C.1. A bitmap on flash costs a read and a write per invalid
//! page; here reports are gathered in a buffer of one page, flushed as sorted runs and merged in levels, so that a
//! report costs a small fraction of a page write and a question costs one page read per run. The price: a question
//! per victim is logarithmic, and about twice the space of the bitmap.
//!
//! - An entry is the bitmap of a part of a block (entry-partitioning, section 3.3); `layout` says how it is stored.
//! - The paper's erase flag is an entry of its own, the *marker*: it sorts before the parts of its block and voids what
//!   older runs say of any of them. One flag per part would need an insert for every part of the block.
//! - A run at level i holds T^i .. T^(i+1) - 1 buffers' worth of entries (in pages: that, or a little less, because a
//!   page of a long run holds more than a buffer). Two runs of one level are merged; [`MergeMode::MultiWay`] foresees
//!   the chain of merges that a flush sets off and does it in one.
//! - The buffer is flushed after V reports even if they share entries, which bounds what recovery must find elsewhere
//!   (appendix C.2.2). A burst of reports between two calls of [`Validity::write_deferred`] makes a longer buffer, which is
//!   flushed as a run of several pages.
//! - A run says which flushes of the buffer it covers. After a power cut a complete run whose flushes another complete
//!   run covers is obsolete. The paper keeps "the most recently created run in each level" instead (appendix C.1): an
//!   output that lands at another level than its inputs leaves them the newest of theirs, and what they say of blocks
//!   erased since would count again.
//!
//! Invariants:
//! - Runs are kept newest first; their covered flushes are adjacent and descending.
//! - At rest a run is at a lower level than every older one.
//! - The inputs of a merge answer questions, and their pages are kept, until the last page of the output is on flash.
//! - `invalidate` and `opened` do no flash operation.

mod buffer;
mod layout;
mod merge;
mod recovery;
mod run;

use std::ops::Range;

use arrayvec::ArrayVec;

use self::buffer::{Buffer, Frozen};
use self::layout::{Coverage, Entries, Layout};
use self::merge::{Merge, Merged};
use self::run::{Run, RunWriter};
use super::Validity;
use crate::address::{BlockId, Ppn};
use crate::error::{Error, Result};
use crate::nand::{Geometry, Nand};
use crate::operation::Cause;
use crate::store::Store;
use crate::tables::prefetch::MOST_PAGES;

/// When runs are merged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MergeMode {
    /// A flush makes a run at level 0; two runs of a level are merged, then maybe the result with the next.
    Pairwise,
    /// The flush and all runs that the chain of pairwise merges could reach are merged at once (appendix A).
    MultiWay,
}

/// What can be chosen about Logarithmic Gecko.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GeckoOptions {
    /// Size ratio of levels (T), at least 2.
    pub size_ratio: u32,
    /// Parts that the bitmap of a block is cut into (S); 1 is without entry-partitioning.
    pub parts: u32,
    /// When runs are merged.
    pub merge: MergeMode,
}

impl Default for GeckoOptions {
    fn default() -> Self {
        Self { size_ratio: 2, parts: 4, merge: MergeMode::MultiWay }
    }
}

impl GeckoOptions {
    /// The default with parts of 32 pages: as long as a key, which is the paper's balance (section 3.3).
    pub fn balanced(geometry: &Geometry) -> Self {
        Self { parts: (geometry.block_pages() / 32).max(1), ..Self::default() }
    }
}

/// What Logarithmic Gecko was asked and told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GeckoCounts {
    /// Pages called invalid.
    pub reports: u64,
    /// Blocks opened: each takes an entry of its own, the marker.
    pub markers: u64,
    /// Blocks asked for.
    pub queries: u64,
    /// Pages read to answer; all other reads are those of merges.
    pub query_reads: u64,
}

/// A buffer on its way to flash.
#[derive(Clone, Debug)]
struct Flush {
    frozen: Frozen,
    coverage: Coverage,
}

/// Page validity in Logarithmic Gecko. See the module's head.
#[derive(Clone, Debug)]
pub struct Gecko {
    options: GeckoOptions,
    layout: Layout,
    buffer: Buffer,
    flush_requested: bool,
    /// The buffer that is being flushed; it answers questions until its run is complete.
    flush: Option<Flush>,
    /// Complete runs, newest first.
    runs: Vec<Run>,
    /// The newest two neighbours of which the newer is not at a lower level: to be merged. It is asked for at every
    /// host write, and changes with the runs only ([`Gecko::set_runs`]).
    crowded: Option<usize>,
    merge: Option<Merge>,
    next_run: u32,
    next_flush: u64,
    page: Vec<u8>,
    invalid: Vec<u64>,
    counts: GeckoCounts,
}

impl Gecko {
    /// An empty structure: all pages count as valid.
    ///
    /// # Errors
    /// [`Error::Options`]: a size ratio below 2, more parts than pages in a block, keys above 32 bits, a flash page too
    /// small for two entries.
    pub fn new(geometry: &Geometry, options: GeckoOptions) -> Result<Self> {
        if options.size_ratio < 2 {
            return Err(Error::Options(format!(
                "Logarithmic Gecko: a size ratio of {} makes no levels; use 2 or more",
                options.size_ratio
            )));
        }
        let layout = Layout::new(geometry, options.parts)?;
        Ok(Self {
            options,
            buffer: Buffer::new(&layout),
            flush_requested: false,
            flush: None,
            runs: Vec::new(),
            crowded: None,
            merge: None,
            next_run: 0,
            next_flush: 1,
            page: layout.blank_page(),
            invalid: vec![0; layout.block_words()],
            counts: GeckoCounts::default(),
            layout,
        })
    }

    /// Options it was built with.
    pub fn options(&self) -> GeckoOptions {
        self.options
    }

    /// What it was asked and told so far.
    pub fn counts(&self) -> GeckoCounts {
        self.counts
    }

    /// Clears the counts, not the structure.
    pub fn clear_counts(&mut self) {
        self.counts = GeckoCounts::default();
    }

    /// Reports after which the buffer is flushed (V): the entries of a run of one page.
    pub fn buffer_entries(&self) -> u32 {
        self.layout.buffer_entries
    }

    /// Pages of a run of so many entries.
    pub fn run_pages(&self, entries: u32) -> u32 {
        self.layout.run_pages(entries)
    }

    /// The most levels that can hold a run (the paper's L, section 3.2): one for each power of T up to the size of a
    /// run with an entry for every key.
    pub fn levels(&self) -> u32 {
        self.level(self.layout.most_units()) + 1
    }

    /// Pages that the largest run can have at the most: one with an entry for every key.
    pub fn largest_run_pages(&self) -> u32 {
        self.layout.most_units()
    }

    /// Complete runs, newest first: `(level, entries, pages)`.
    pub fn runs(&self) -> impl Iterator<Item = (u32, u32, u32)> + '_ {
        self.runs.iter().map(|run| (self.level_of(run), run.entries, run.places.len() as u32))
    }

    /// Asks for a flush of the buffer whatever it holds; [`Validity::write_deferred`] does it. A flush of an empty buffer writes
    /// a page, which says that nothing was reported.
    pub fn request_flush(&mut self) {
        self.flush_requested = true;
    }

    /// Sequence number when the newest buffer that is on flash was frozen: everything reported before is on flash. 0 if
    /// nothing is.
    #[inline]
    pub fn durable_since(&self) -> u64 {
        self.runs.first().map_or(0, |run| run.coverage.flush_time)
    }

    /// Reports that are in RAM only: what a power cut would lose.
    #[inline]
    pub fn insertions_since_flush(&self) -> u64 {
        self.buffer.insertions + self.flush.as_ref().map_or(0, |flush| flush.frozen.insertions)
    }

    /// The pages of `block` that were called invalid since it was opened, ascending, without a counted flash operation:
    /// for audits.
    ///
    /// # Errors
    /// Whatever the flash answers.
    pub fn invalid_pages_for_audit<N: Nand>(&self, io: &mut Store<N>, block: BlockId) -> Result<Vec<Ppn>> {
        let mut invalid = vec![0; self.layout.block_words()];
        let mut page = self.layout.blank_page();
        self.mark_block(block, &mut invalid, |place, look| {
            Ok(io.nand_mut().look_at(place, &mut page, look)?)
        })?;
        Ok(self.layout.pages(block).filter(|&(_, k)| is_set(&invalid, k)).map(|(ppn, _)| ppn).collect())
    }

    /// Marks what is known of a block, newest source first, up to the first one that holds its marker. One page is read
    /// per run, or two adjacent ones if the entries of the block straddle them (more only if a block has more parts
    /// than a page entries); none of a run whose keys cannot include the block.
    fn mark_block(
        &self,
        block: BlockId,
        invalid: &mut [u64],
        mut read: impl FnMut(Ppn, &mut dyn FnMut(&[u8])) -> Result<()>,
    ) -> Result<()> {
        let layout = &self.layout;
        if self.buffer.mark_block(layout, block, invalid) {
            return Ok(());
        }
        if self.flush.as_ref().is_some_and(|flush| flush.frozen.entries().mark_block(layout, block, invalid))
        {
            return Ok(());
        }
        let marker = layout.marker(block);
        for run in &self.runs {
            let mut erased = false;
            for &place in run.pages_with(marker, marker + layout.slots - 1) {
                read(place, &mut |page| {
                    erased |= Entries::of_page(page, layout).mark_block(layout, block, invalid);
                })?;
            }
            if erased {
                break;
            }
        }
        Ok(())
    }

    /// Reads what a query will ask of the pages of all runs; see [`crate::tables::prefetch`].
    fn prefetch_query<N: Nand>(&self, io: &Store<N>, block: BlockId) {
        let marker = self.layout.marker(block);
        let (mut pages, mut words) =
            (ArrayVec::<_, MOST_PAGES>::new(), ArrayVec::<_, { 4 * MOST_PAGES }>::new());
        for (place, searched) in
            self.runs.iter().filter_map(|run| run.expect(marker, &self.layout)).take(MOST_PAGES / 2)
        {
            let before = words.len();
            words.extend(searched);
            pages.push((place, words.len() - before));
        }
        io.nand().peek_words(&pages, &mut words);
    }

    fn level(&self, units: u32) -> u32 {
        units.ilog(self.options.size_ratio)
    }

    fn level_of(&self, run: &Run) -> u32 {
        self.level(self.layout.units(run.entries))
    }

    fn set_runs(&mut self, runs: Vec<Run>) {
        self.crowded = runs.windows(2).position(|pair| self.level_of(&pair[0]) >= self.level_of(&pair[1]));
        self.runs = runs;
    }

    #[inline]
    fn is_flush_due(&self) -> bool {
        self.flush_requested || self.buffer.insertions >= self.layout.buffer_entries as u64
    }

    /// One page of what is owed: seldom anything is.
    #[cold]
    fn step<N: Nand>(&mut self, io: &mut Store<N>) -> Result<()> {
        if self.merge.is_none() {
            self.start(io.sequence());
        }
        let mut merge = self.merge.take().expect("a merge is in progress");
        let outcome = merge.step(io, &self.runs, &self.layout);
        if let Ok(true) = outcome {
            self.install(io, merge);
        } else {
            self.merge = Some(merge);
        }
        outcome.map(drop)
    }

    /// Starts the next merge or flush.
    fn start(&mut self, sequence: u64) {
        if let Some(newer) = self.crowded {
            self.start_merge(newer..newer + 2, false);
            return;
        }
        self.freeze(sequence);
        let joining = match self.options.merge {
            MergeMode::Pairwise => 0,
            MergeMode::MultiWay => self.foresee(),
        };
        self.start_merge(0..joining, true);
    }

    /// From now on the buffer takes no more reports: they go to a new one.
    fn freeze(&mut self, sequence: u64) {
        let coverage = Coverage { first: self.next_flush, last: self.next_flush, flush_time: sequence };
        self.flush = Some(Flush { frozen: self.buffer.sorted(), coverage });
        self.buffer.clear(&self.layout);
        self.flush_requested = false;
        self.next_flush += 1;
    }

    /// The number of runs that may end up in one with the flush: each whose level the result can reach.
    fn foresee(&self) -> usize {
        let flush = self.flush.as_ref().expect("a buffer was frozen");
        let mut units = self.layout.units(flush.frozen.len());
        let joins = |run: &&Run| {
            let reached = self.level_of(run) <= self.level(units);
            units += self.layout.units(run.entries);
            reached
        };
        self.runs.iter().take_while(joins).count()
    }

    fn start_merge(&mut self, inputs: Range<usize>, flushes: bool) {
        let flush = self.flush.as_ref().filter(|_| flushes);
        // Newest first: each older input is joined with what is newer.
        let coverages =
            flush.map(|f| f.coverage).into_iter().chain(self.runs[inputs.clone()].iter().map(|r| r.coverage));
        let coverage = coverages.reduce(|newer, older| older.joined(newer)).expect("a merge has an input");
        let is_oldest = inputs.end == self.runs.len();
        let buffer = flush.iter().map(|f| &f.frozen);
        let merged = Merged::new(buffer, inputs.clone(), is_oldest, Cause::Validity, &self.layout);
        let writer = RunWriter::new(self.next_run, coverage, &self.layout);
        self.next_run = self.next_run.checked_add(1).expect("a device does not live for 2^32 flushes");
        self.merge = Some(Merge::new(inputs, flushes, merged, writer));
    }

    /// The output replaces the inputs, whose pages are not needed any more.
    fn install<N: Nand>(&mut self, io: &mut Store<N>, merge: Merge) {
        let Merge { inputs, flushes, writer, .. } = merge;
        let at = inputs.start;
        let output = writer.finish(&self.layout);
        let mut runs = std::mem::take(&mut self.runs);
        for replaced in runs.splice(inputs, [output]) {
            replaced.places.into_iter().for_each(|place| io.discard(place));
        }
        self.set_runs(runs);
        if flushes {
            self.flush = None;
        }
        let covered = |k: usize| self.runs.get(k).map(|run| run.coverage);
        if let (Some(older), Some(output)) = (covered(at + 1), covered(at)) {
            assert_eq!(older.last + 1, output.first, "runs are in the order of their flushes");
        }
        assert!(
            self.options.merge == MergeMode::Pairwise || at > 0 || self.crowded != Some(0),
            "a flush that foresees its merges leaves every run at a lower level than the older ones"
        );
    }

    fn has_run(&self, id: u32, ppn: Ppn) -> bool {
        let run = self.runs.iter().find(|run| run.number == id);
        run.is_some_and(|run| run.places.contains(&ppn))
    }
}

impl Validity for Gecko {
    #[inline]
    fn invalidate(&mut self, ppn: Ppn) {
        let (key, bit) = self.layout.locate(ppn);
        self.buffer.set(key, bit);
        self.counts.reports += 1;
    }

    fn opened(&mut self, block: BlockId) {
        self.counts.markers += 1;
        self.buffer.erase(block, &self.layout);
    }

    fn live_pages<N: Nand>(&mut self, io: &mut Store<N>, block: BlockId, out: &mut Vec<Ppn>) -> Result<()> {
        let (mut page, mut invalid) = (std::mem::take(&mut self.page), std::mem::take(&mut self.invalid));
        invalid.fill(0);
        self.prefetch_query(io, block);
        let mut reads = 0;
        let outcome = self.mark_block(block, &mut invalid, |place, look| {
            reads += 1;
            io.look_at(place, &mut page, look, Cause::Validity)
        });
        self.counts.queries += 1;
        self.counts.query_reads += reads;
        if outcome.is_ok() {
            let live = self.layout.pages(block).filter(|&(_, k)| !is_set(&invalid, k));
            out.extend(live.map(|(ppn, _)| ppn));
        }
        (self.page, self.invalid) = (page, invalid);
        outcome
    }

    /// One page of a merge in progress, or the first one of the next.
    #[inline]
    fn write_deferred<N: Nand>(&mut self, io: &mut Store<N>) -> Result<bool> {
        let is_settled = self.merge.is_none() && self.crowded.is_none() && !self.is_flush_due();
        if is_settled { Ok(false) } else { self.step(io).map(|()| true) }
    }

    fn owns(&self, id: u32, ppn: Ppn) -> bool {
        let unfinished = self.merge.as_ref().map(|merge| &merge.writer);
        self.has_run(id, ppn)
            || unfinished.is_some_and(|writer| writer.number() == id && writer.places().contains(&ppn))
    }

    fn relocate_own(&mut self, id: u32, from: Ppn, to: Ppn) {
        let of_run = self.runs.iter_mut().find(|run| run.number == id).map(|run| run.relocate(from, to));
        let moved = of_run.unwrap_or_else(|| {
            let unfinished = self.merge.as_mut().map(|merge| &mut merge.writer);
            unfinished.is_some_and(|writer| writer.number() == id && writer.relocate(from, to))
        });
        assert!(moved, "page {from} of run {id} was moved, and there is no such page");
    }

    fn pages_per_settle(&self) -> u32 {
        1
    }

    /// A run has at most U pages: as many as there are buffers' worth of keys (see `layout`). At rest there is at most
    /// one run per level, at level i of at most T^(i+1) - 1 units and not more than U. An output in progress has at
    /// most U more. Pairwise, the newest run of a chain of merges may be at the level of an older one: U more again.
    fn metadata_pages(&self) -> u64 {
        let largest = self.layout.most_units() as u64;
        let ratio = self.options.size_ratio as u64;
        let at_level = |level: u32| (ratio.pow(level + 1) - 1).min(largest);
        let at_rest: u64 = (0..self.levels()).map(at_level).sum();
        let in_progress = match self.options.merge {
            MergeMode::Pairwise => 2,
            MergeMode::MultiWay => 1,
        };
        at_rest + in_progress * largest
    }

    /// The buffer; one page per input of a merge (the frozen buffer among them) and one for its output; directories with
    /// 8 bytes for every page there can be. Appendix B reckons with twice the largest run instead, which is what is used
    /// on average and not at the peak (see [`Validity::metadata_pages`]).
    fn ram_bytes(&self) -> Vec<(&'static str, u64)> {
        let page = self.page.len() as u64;
        let inputs = match self.options.merge {
            MergeMode::Pairwise => 2,
            MergeMode::MultiWay => 1 + self.levels() as u64,
        };
        vec![
            ("Gecko buffer", page),
            ("Gecko merge buffers", page * (inputs + 1)),
            ("Gecko run directories", 8 * self.metadata_pages()),
        ]
    }
}

fn is_set(words: &[u64], k: u32) -> bool {
    words[k as usize / 64] >> (k % 64) & 1 == 1
}
