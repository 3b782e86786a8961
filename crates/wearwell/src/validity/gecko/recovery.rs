//! Recovery of Logarithmic Gecko (log-structured merge tree of invalid pages): rebuilds its sorted runs and their
//! directories from the pages on flash. Also scans all invalid pages that the tree records.
//!
//! Recovery writes nothing, so it can be interrupted and repeated. The buffer's content is lost: the FTL finds it by
//! other means (appendix C.2) and reports it again. [`Gecko::durable_until_sequence`] tells how far back the FTL has to
//! search.

use std::collections::BTreeMap;

use super::Gecko;
use super::buffer::FrozenBuffer;
use super::layout::{
    GECKO_KEY_BYTES, GeckoLayout, RunPostamble, read_directory_keys, read_entry_key, read_page_header,
};
use super::merge::MergedEntries;
use super::run::GeckoRun;
use crate::address::{BlockId, Ppn};
use crate::error::{Error, Result};
use crate::nand::Oob;
use crate::operation::Cause;
use crate::store::FlashPageStore;

impl Gecko {
    /// Rebuilds the sorted runs of the Gecko LSM tree and their directories from `pages`, all readable validity pages
    /// on the flash, in any order, including obsolete pages and those of unfinished runs; drops everything in RAM.
    /// Reads one page per run found, and the further pages of the directories of long runs, under [`Cause::Recovery`].
    ///
    /// # Errors
    /// Any error of the flash; [`Error::Damaged`] if the runs found do not cover every flush up to the newest.
    pub fn recover(&mut self, io: &mut FlashPageStore, pages: &[(Ppn, Oob)]) -> Result<()> {
        let mut complete = Vec::new();
        for (number, places) in pages_by_run(pages) {
            self.next_run_number = self.next_run_number.max(number + 1);
            complete.extend(read_run_directory(io, &self.layout, number, places)?);
        }
        let runs = sort_runs_newest_first(drop_obsolete_runs(complete)?);
        self.drop_ram_state();
        self.next_flush_number = runs.first().map_or(1, |run| run.buffer_flushes.last_flush_number + 1);
        self.set_runs(runs);
        Ok(())
    }

    /// Drops the buffer, and the flush and the merge in progress, as a loss of RAM does. Keeps the list of runs.
    fn drop_ram_state(&mut self) {
        self.buffer.clear(&self.layout);
        self.is_flush_requested = false;
        self.flush_in_progress = None;
        self.merge_in_progress = None;
    }

    /// Returns the run number and PPN of every flash page of the complete sorted runs of the Gecko LSM tree. After a
    /// recovery, all other validity pages are obsolete.
    pub fn live_run_pages(&self) -> impl Iterator<Item = (u32, Ppn)> + '_ {
        self.runs.iter().flat_map(|run| run.page_ppns.iter().map(|&place| (run.run_number, place)))
    }

    /// Calls `each` for every block with an invalid page, ascending, with its bitmap (bit k of word k / 64 is page k; 1
    /// means invalid). Reads every flash page with Gecko LSM entries once, under [`Cause::Recovery`].
    ///
    /// # Errors
    /// Any error of the flash.
    pub fn for_each_block_with_invalid_pages(
        &self,
        io: &mut FlashPageStore,
        mut each: impl FnMut(BlockId, &[u64]),
    ) -> Result<()> {
        let layout = &self.layout;
        let buffer = self.buffer.to_frozen();
        let buffers: Vec<&FrozenBuffer> =
            [&buffer].into_iter().chain(self.flush_in_progress.iter().map(|f| &f.frozen_buffer)).collect();
        let mut merged =
            MergedEntries::new(buffers.into_iter(), 0..self.runs.len(), true, Cause::Recovery, layout);
        let mut invalid = vec![0; layout.words_per_block_bitmap()];
        let mut current = None;
        loop {
            let entries = merged.next_merged_entries(io, &self.runs, layout)?;
            if entries.is_empty() {
                break;
            }
            for entry in entries.chunks_exact(layout.entry_bytes) {
                let key = read_entry_key(entry, 0);
                let (block, slot) = (BlockId(key / layout.keys_per_block), key % layout.keys_per_block);
                if let Some(done) = current.filter(|&current| current != block) {
                    each(done, &invalid);
                    invalid.fill(0);
                }
                current = Some(block);
                layout.copy_invalid_bits_of_part(slot, &entry[GECKO_KEY_BYTES..], &mut invalid);
            }
            let taken = entries.len();
            merged.consume_bytes(taken);
        }
        if let Some(done) = current {
            each(done, &invalid);
        }
        Ok(())
    }
}

/// Returns, for each run number of the Gecko LSM tree, the PPNs of the run's pages in the order in which they were
/// first written. GC copies of a page share its generation (sequence number of the first program); the newest copy is
/// used.
fn pages_by_run(pages: &[(Ppn, Oob)]) -> BTreeMap<u32, Vec<Ppn>> {
    let mut runs = BTreeMap::<u32, BTreeMap<u64, (u64, Ppn)>>::new();
    for &(ppn, oob) in pages {
        let newest = runs
            .entry(oob.owner)
            .or_default()
            .entry(oob.first_write_sequence_number)
            .or_insert((oob.sequence_number, ppn));
        *newest = (*newest).max((oob.sequence_number, ppn));
    }
    let places = |pages: BTreeMap<u64, (u64, Ppn)>| pages.into_values().map(|(_, ppn)| ppn).collect();
    runs.into_iter().map(|(run, pages)| (run, places(pages))).collect()
}

/// Reads the directory of the sorted run of the Gecko LSM tree that consists of the pages `places`; returns `None` if
/// pages are missing, because the run is unfinished or partly erased.
fn read_run_directory(
    io: &mut FlashPageStore,
    layout: &GeckoLayout,
    number: u32,
    places: Vec<Ppn>,
) -> Result<Option<GeckoRun>> {
    let mut page = layout.blank_page();
    let last = places.len() as u32 - 1;
    io.read(places[last as usize], &mut page, Cause::Recovery)?;
    let header = read_page_header(&page);
    let RunPostamble { entry_count: entries, last_key, buffer_flushes } = RunPostamble::of_page(&page);
    if !header.is_last_page || layout.page_count_of_run(entries) != places.len() as u32 {
        return Ok(None);
    }
    if header.page_index_in_run != last {
        return Err(Error::Damaged(format!(
            "page validity (Logarithmic Gecko): flash page {}, the last of sorted run {number}, must have index \
             {last} in the run, but its header says {}",
            places[last as usize], header.page_index_in_run
        )));
    }
    let with_entries = layout.entry_pages_of_run(entries) as usize;
    let mut first_keys = Vec::with_capacity(with_entries);
    let mut before = layout.blank_page();
    for &place in &places[with_entries.saturating_sub(1)..last as usize] {
        io.read(place, &mut before, Cause::Recovery)?;
        read_directory_keys(&before, with_entries - first_keys.len(), layout, &mut first_keys);
    }
    read_directory_keys(&page, with_entries - first_keys.len(), layout, &mut first_keys);
    Ok(Some(GeckoRun {
        run_number: number,
        entry_count: entries,
        buffer_flushes,
        page_ppns: places,
        first_keys,
        last_key,
    }))
}

/// Drops every run of the Gecko LSM tree that is obsolete, because another run covers the same flushes of the buffer.
/// Fails unless the remaining runs cover every flush exactly once.
fn drop_obsolete_runs(mut complete: Vec<GeckoRun>) -> Result<Vec<GeckoRun>> {
    complete.sort_by_key(|run| {
        (run.buffer_flushes.first_flush_number, std::cmp::Reverse(run.buffer_flushes.last_flush_number))
    });
    let mut kept: Vec<GeckoRun> = Vec::new();
    for run in complete {
        let covered = kept.last().map_or(0, |run| run.buffer_flushes.last_flush_number);
        if run.buffer_flushes.last_flush_number <= covered {
            continue;
        }
        if run.buffer_flushes.first_flush_number != covered + 1 {
            return Err(run_sequence_error(&run, covered));
        }
        kept.push(run);
    }
    Ok(kept)
}

/// Returns the error for a run of the Gecko LSM tree that does not follow the older runs, which have the buffer flushes
/// up to number `covered`.
fn run_sequence_error(run: &GeckoRun, covered: u64) -> Error {
    let GeckoRun { run_number, buffer_flushes, .. } = run;
    let (first, last) = (buffer_flushes.first_flush_number, buffer_flushes.last_flush_number);
    let older = if covered == 0 {
        "no older run is on flash".to_owned()
    } else {
        format!("the older runs end with flush {covered}")
    };
    let fault = if first > covered { "a run before it is missing" } else { "it overlaps them" };
    Error::Damaged(format!(
        "page validity (Logarithmic Gecko): sorted run {run_number} must continue the runs before it, but it covers \
         the buffer flushes {first} to {last}, and {older}: {fault}"
    ))
}

/// Sorts the runs of the Gecko LSM tree, which recovery found in ascending order of their flushes, newest first.
fn sort_runs_newest_first(mut runs: Vec<GeckoRun>) -> Vec<GeckoRun> {
    runs.reverse();
    runs
}
