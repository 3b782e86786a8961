//! A reverse map in one log on flash, with which Remap-SSD is compared (its sections 3.3 and 5, Remap-SSD-FLog). An
//! entry records that a logical page was mapped to a stored page without a program, or trimmed.
//!
//! Its NVRAM is one page and a word: entries collect in a buffer there (an assumption: otherwise each entry would
//! program a page), and a full buffer is programmed as a page of the log. The cost: GC must read the whole log to find
//! the referrers of its victim, and the log itself is programmed, cleaned and collected.
//!
//! # Pages
//!
//! Log pages are numbered in the order of writing; the number is the owner in the OOB. The log is cleaned page by page
//! from the oldest on, so the live pages are those from `oldest` to the last one found. `oldest` is one word of NVRAM
//! after the buffer. The paper cleans the whole log at once when it is full. Here a call that makes room for an entry
//! cleans at most one page and programs at most one, because the caller reserves no more free pages: the work is the
//! same, but spread.
//!
//! # Safe at every store and program
//!
//! - *Recording*: an entry with one torn bit is overwritten by the next one.
//! - *Flushing*: the buffer is zeroed after its page is programmed, first slot first. A buffer whose entries are all on
//!   flash, or whose first slot is not intact, was being flushed: recovery zeroes the rest.
//! - *Cleaning*: needed entries of the oldest page are recorded again. Then the word `oldest` is stored, which makes
//!   the page obsolete, and the page is discarded. If a power loss leaves an entry twice, recovery takes the younger
//!   one.
//! - *A remap command* of several entries is recorded within one buffer, which is flushed first if it has too little
//!   room. So a page on flash holds complete commands only, and recovery zeroes an incomplete one in the buffer,
//!   youngest entry first. A command with more entries than fit in a page is rejected.
//! - *NVRAM older than the flash*: if power is lost, an image file may restore the words of NVRAM as of an earlier
//!   write to the file, but keep the flash pages programmed since. Recovery then finds a buffer whose entries are on
//!   flash already, and pages that had been cleaned. It cleans these pages again, as far as their needed entries fit in
//!   the buffer ([`ReverseMap::clean_excess_log_page`]).
//!
//! # Room for GC
//!
//! As in the NVRAM log, there must always be room to record the entries of the largest block once more. Entries
//! recorded by GC may program one page per [`FlashLog::entries_per_page`] of them. There must be room for these pages
//! without the block that GC keeps for its copies.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;

use super::log_index::LogIndex;
use super::{
    BlockId, EntryLayout, EntryLiveness, LivenessOf, Lpn, Ppn, RemapCommand, ReverseMap, ReverseMapEntry,
    entries_to_keep, incomplete_commands, require_log_can_address_device_pages,
};
use crate::data::{Content, Fingerprint};
use crate::error::{Error, Result};
use crate::events::MetadataWriteReason;
use crate::operation::Cause;
use crate::store::{FlashPageStore, Stream};

/// Minimum number of pages of a reverse-map log on flash: one page of entries, and one page that is written while the
/// old page that it replaces still exists.
const MIN_LOG_PAGES: u64 = 2;
/// To make room for an entry of the host, the oldest page of the flash log is cleaned only if cleaning can free more
/// entries than the capacity of the log (in reverse-map entries) divided by this number.
const LOG_CAPACITY_TO_MIN_CLEANING_GAIN_RATIO: u64 = 20;

/// A reverse map (record of the logical pages mapped to each physical page) whose entries are in one log on flash, with
/// a buffer of one page in NVRAM (Remap-SSD-FLog in the Remap-SSD paper).
#[derive(Clone, Debug)]
pub struct FlashLog {
    /// Layout of the log's entries: two or three 8-byte words.
    entry_layout: EntryLayout,
    /// Number of entries that fit in a page of the flash log.
    entries_per_page: u32,
    /// Maximum number of live pages of the log, in flash pages.
    max_log_pages: u32,
    /// Number of the oldest live page of the flash log. Log pages are numbered in the order of writing.
    oldest_page_number: u32,
    /// Flash pages (PPNs) that hold the live pages of the log, oldest first.
    live_page_ppns: VecDeque<Ppn>,
    /// Number of reverse-map entries in the NVRAM buffer, which are not yet on flash.
    buffered_entries: u32,
    /// Reverse-map entries by block, each with the number of its log page.
    index: LogIndex<(u32, ReverseMapEntry)>,
    /// For each mapping (pair of logical and flash page), the number of its entries in the log that are superseded. If
    /// a mapping has several entries, its oldest ones are superseded.
    superseded_entry_count_by_mapping: HashMap<(Lpn, Ppn), u32, FxBuildHasher>,
    /// Log pages that the scan of the flash found in a recovery, as `(log page number, PPN)`; kept until the log is
    /// recovered.
    log_pages_found_by_scan: Vec<(u32, Ppn)>,
    /// Buffer in RAM for one log page that is read or programmed.
    page_buffer: Vec<u8>,
}

impl FlashLog {
    /// Creates an empty reverse-map log of at most `log_bytes` bytes on flash, with its buffer in the NVRAM of `io` and
    /// entries of layout `entry_layout`.
    ///
    /// # Errors
    /// [`Error::InvalidOptions`] if the medium has no NVRAM for a page and a word, the log has fewer than two pages or
    /// more than the device, or the device has more than [`MAX_DEVICE_PAGES_FOR_LOG`](super::MAX_DEVICE_PAGES_FOR_LOG)
    /// pages.
    pub fn new(io: &FlashPageStore, log_bytes: u64, entry_layout: EntryLayout) -> Result<Self> {
        let (page_bytes, pages) = (io.geometry().page_bytes, io.geometry().pages());
        let buffer_bytes = page_bytes as u64 + 8;
        let log_pages = log_bytes / page_bytes as u64;
        if (io.nvram().len() as u64 * 8) < buffer_bytes {
            let part = "the page buffer of the reverse map";
            return Err(Error::of_small_nvram(part, buffer_bytes, io.nvram().len()));
        }
        require_log_can_address_device_pages(pages)?;
        if log_pages < MIN_LOG_PAGES {
            return Err(Error::InvalidOptions(format!(
                "the flash log of the reverse map needs at least {MIN_LOG_PAGES} pages of {page_bytes} bytes, but \
                 would have {log_pages}: set remap.size_mib to at least {}",
                (MIN_LOG_PAGES * page_bytes as u64) as f64 / f64::from(1 << 20)
            )));
        }
        if log_pages >= pages {
            return Err(Error::InvalidOptions(format!(
                "the flash log of the reverse map would have {log_pages} pages, but the whole device has {pages}: \
                 lower remap.size_mib"
            )));
        }
        Ok(Self {
            entry_layout,
            entries_per_page: page_bytes / entry_layout.entry_bytes() as u32,
            max_log_pages: log_pages as u32,
            oldest_page_number: 0,
            live_page_ppns: VecDeque::new(),
            buffered_entries: 0,
            index: LogIndex::new(io.geometry().blocks()),
            superseded_entry_count_by_mapping: HashMap::default(),
            log_pages_found_by_scan: Vec::new(),
            page_buffer: vec![0; page_bytes as usize],
        })
    }

    /// Resets the RAM state of the flash log (directory, index, counts) to that of an empty log.
    fn clear_ram_state(&mut self) {
        self.live_page_ppns.clear();
        self.index.clear();
        self.superseded_entry_count_by_mapping.clear();
        self.buffered_entries = 0;
    }

    /// Returns the number of reverse-map entries that fit in a page of the flash log.
    pub fn entries_per_page(&self) -> u32 {
        self.entries_per_page
    }

    /// Returns the maximum number of reverse-map entries that the flash log and its buffer can hold; one page is kept
    /// free for cleaning.
    pub fn capacity_entries(&self) -> u64 {
        self.max_log_pages as u64 * self.entries_per_page as u64
    }

    /// Returns the number of live pages (programmed and not yet cleaned) of the flash log of reverse-map entries.
    pub fn live_pages(&self) -> u32 {
        self.live_page_ppns.len() as u32
    }

    /// Returns the number of reverse-map entries for which the live log pages have slots, plus the buffered entries.
    fn used_entries(&self) -> u64 {
        self.live_pages() as u64 * self.entries_per_page as u64 + self.buffered_entries as u64
    }

    /// Returns the number of reverse-map entries that still fit in the flash log; 0 if an interrupted cleaning left it
    /// overfull.
    fn free_entries(&self) -> u64 {
        self.capacity_entries().saturating_sub(self.used_entries())
    }

    /// Returns the number of the next page of the flash log, which will be programmed from the NVRAM buffer.
    fn next_page_number(&self) -> u32 {
        self.oldest_page_number.wrapping_add(self.live_pages())
    }

    /// Returns the index of the NVRAM word (8 bytes) that holds the number of the oldest live log page.
    fn oldest_page_number_word_index(&self) -> usize {
        self.page_buffer.len() / 8
    }

    /// Decodes the reverse-map entry in `slot` of the NVRAM buffer, with the atomic remap command to which it belongs,
    /// if any; `None` if the slot is empty or torn.
    fn buffered_entry(
        &self,
        io: &FlashPageStore,
        slot: u32,
    ) -> Option<(ReverseMapEntry, Option<RemapCommand>)> {
        let (words, command) =
            self.entry_layout.split_entry_words(&io.nvram()[self.first_word_index_of_slot(slot)..])?;
        Some((ReverseMapEntry::decode_log_words(words)?, command))
    }

    /// Returns the index of the first NVRAM word (8 bytes) of a slot of the entry buffer.
    fn first_word_index_of_slot(&self, slot: u32) -> usize {
        slot as usize * self.entry_layout.words_per_entry()
    }

    /// Appends a reverse-map entry to the NVRAM buffer. A full buffer is first programmed as a page of the flash log.
    fn append_to_nvram_buffer(
        &mut self,
        io: &mut FlashPageStore,
        entry: ReverseMapEntry,
        command: Option<RemapCommand>,
    ) -> Result<()> {
        if self.buffered_entries == self.entries_per_page {
            self.flush_nvram_buffer(io)?;
        }
        self.entry_layout.store_nvram_entry(
            io,
            self.first_word_index_of_slot(self.buffered_entries),
            entry.encode_log_words(),
            command,
        )?;
        self.buffered_entries += 1;
        self.index.add(self.index.per_block_group_of(io, &entry), (self.next_page_number(), entry));
        Ok(())
    }

    /// Returns the number of flash pages that the reverse-map log can append without using the free block that GC keeps
    /// for its copies.
    fn appendable_pages(io: &FlashPageStore) -> u64 {
        io.free_pages_above_reserve(Stream::RemapLog, io.preferred_append_pool(Stream::RemapLog)) as u64
    }

    /// Copies the entries in the NVRAM buffer to the page buffer in RAM, from which the log page is programmed.
    fn copy_nvram_to_page_buffer(&mut self, io: &FlashPageStore) {
        for (bytes, word) in self.page_buffer.chunks_exact_mut(8).zip(io.nvram()) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Programs the NVRAM buffer of reverse-map entries as the next page of the flash log, then zeroes the buffer.
    fn flush_nvram_buffer(&mut self, io: &mut FlashPageStore) -> Result<()> {
        self.copy_nvram_to_page_buffer(io);
        io.flash_ops.record_metadata_reason(MetadataWriteReason::ReverseMapLogFull);
        let pool = io.take_append_pool(Stream::RemapLog);
        let (id, content) = (self.next_page_number(), Content::Bytes(&self.page_buffer));
        let place =
            io.append_page(Stream::RemapLog, pool, id, content, Fingerprint::default(), Cause::RemapLog)?;
        self.live_page_ppns.push_back(place);
        self.zero_nvram_buffer(io)
    }

    /// Zeroes the NVRAM buffer of reverse-map entries, first slot first, after its page was programmed.
    fn zero_nvram_buffer(&mut self, io: &mut FlashPageStore) -> Result<()> {
        for at in 0..self.oldest_page_number_word_index() {
            if io.nvram()[at] != 0 {
                io.store_nvram_word(at, 0)?;
            }
        }
        self.buffered_entries = 0;
        Ok(())
    }

    /// Decodes the reverse-map entries of the log page that was read last, from the read buffer.
    fn entries_in_page_buffer(&self) -> impl Iterator<Item = ReverseMapEntry> + '_ {
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        let slots = self.page_buffer.chunks_exact(self.entry_layout.entry_bytes() as usize);
        slots.map_while(move |slot| {
            let words: ArrayVec<u64, 3> = slot.as_chunks().0.iter().map(word).collect();
            ReverseMapEntry::decode_log_words(self.entry_layout.split_entry_words(&words)?.0)
        })
    }

    /// Cleans the oldest page of the flash log: appends copies of those of its entries that are still needed to the
    /// log, and discards the page. Costs one page read and at most one program.
    fn clean_oldest_page(&mut self, io: &mut FlashPageStore, liveness_of: LivenessOf<'_>) -> Result<()> {
        if self.live_page_ppns.is_empty() {
            return Ok(());
        }
        let (groups, entries) = self.read_oldest_page(io)?;
        self.move_entries_out_of_oldest_page(io, &groups, &entries, liveness_of)
    }

    /// Reads the oldest page of the flash log. Returns the numbers of the blocks to which its entries refer, each once,
    /// and those entries of the page that are still in the index by block.
    fn read_oldest_page(&mut self, io: &mut FlashPageStore) -> Result<(Vec<usize>, Vec<ReverseMapEntry>)> {
        let place = *self.live_page_ppns.front().expect("the log has a page");
        io.read(place, &mut self.page_buffer, Cause::RemapLog)?;
        let mut groups: Vec<usize> =
            self.entries_in_page_buffer().map(|entry| self.index.per_block_group_of(io, &entry)).collect();
        groups.sort_unstable();
        groups.dedup();
        let id = self.oldest_page_number;
        let in_page = |&&(page, _): &&(u32, ReverseMapEntry)| page == id;
        let of_group =
            |&index: &usize| self.index.entries_in(index).iter().take_while(in_page).map(|&(_, entry)| entry);
        let entries = groups.iter().flat_map(of_group).collect();
        Ok((groups, entries))
    }

    /// Appends copies of those of `entries` that are still needed to the flash log, and discards its oldest page, from
    /// which `entries` and their `groups` were read.
    fn move_entries_out_of_oldest_page(
        &mut self,
        io: &mut FlashPageStore,
        groups: &[usize],
        entries: &[ReverseMapEntry],
        liveness_of: LivenessOf<'_>,
    ) -> Result<()> {
        let id = self.oldest_page_number;
        let dropped = self.take_superseded_entries(io, entries);
        let need = |entry: &ReverseMapEntry| {
            let need = liveness_of(entry);
            EntryLiveness {
                is_mapping_live: need.is_mapping_live
                    && !dropped.contains(&(entry.lpn, entry.mapped_ppn, entry.sequence_number)),
                ..need
            }
        };
        for rest in entries_to_keep(entries, &need).into_iter().flatten() {
            self.append_to_nvram_buffer(io, rest, None)?;
        }
        io.store_nvram_word(self.oldest_page_number_word_index(), id.wrapping_add(1) as u64)?;
        self.oldest_page_number = id.wrapping_add(1);
        let place = self.live_page_ppns.pop_front().expect("the log has a page");
        io.count_page_invalid(place);
        for &index in groups {
            self.index.drop_oldest_while(index, |&(page, _)| page == id);
        }
        Ok(())
    }

    /// Returns those of the reverse-map `entries` whose logical page is no longer mapped to the flash page that they
    /// name, as (LPN, PPN, sequence number), and removes them from the counts of superseded entries.
    fn take_superseded_entries(
        &mut self,
        io: &FlashPageStore,
        entries: &[ReverseMapEntry],
    ) -> HashSet<(Lpn, Option<Ppn>, u64), FxBuildHasher> {
        let mut taken = HashSet::default();
        for entry in entries {
            let Some(place) = entry.mapped_ppn else { continue };
            let Some(count) = self.superseded_entry_count_by_mapping.get_mut(&(entry.lpn, place)) else {
                continue;
            };
            *count -= 1;
            if *count == 0 {
                self.superseded_entry_count_by_mapping.remove(&(entry.lpn, place));
            }
            self.index.decrement_superseded_count_of_group(self.index.per_block_group_of(io, entry));
            taken.insert((entry.lpn, entry.mapped_ppn, entry.sequence_number));
        }
        taken
    }

    /// Returns the number of entries that cleaning the flash log can free.
    fn reclaimable_entries(&self) -> u64 {
        self.index.reclaimable_entries(self.used_entries())
    }

    /// Returns whether there is room for `count` more entries of the host, and after that still room for GC to record
    /// the entries of any one victim once more.
    fn has_room_for_entries(&self, count: u64) -> bool {
        self.index.has_room_for_entries(self.capacity_entries(), self.free_entries(), count)
    }

    /// Recovers the NVRAM buffer of reverse-map entries after a power loss: zeroes the buffer if its entries were
    /// already programmed, otherwise continues with them. `entries_on_flash` are those of all live log pages.
    fn recover_nvram_buffer(
        &mut self,
        io: &mut FlashPageStore,
        entries_on_flash: &[(u32, ReverseMapEntry)],
    ) -> Result<()> {
        io.charge_nvram_scan(self.page_buffer.len() as u64);
        let buffered: Vec<_> =
            (0..self.entries_per_page).map_while(|slot| self.buffered_entry(io, slot)).collect();
        let on_flash: HashSet<ReverseMapEntry, FxBuildHasher> =
            entries_on_flash.iter().map(|&(_, entry)| entry).collect();
        let flushed = buffered.iter().all(|(entry, _)| on_flash.contains(entry));
        self.buffered_entries = buffered.len() as u32;
        if flushed || self.buffered_entries == 0 {
            return self.zero_nvram_buffer(io);
        }
        if self.entry_layout == EntryLayout::WithRemapCommand {
            self.discard_torn_command(io, &buffered)
        } else {
            Ok(())
        }
    }

    /// Zeroes the entries of an incomplete atomic remap command in the NVRAM buffer, the youngest first. Also zeroes a
    /// torn entry after them, because its remaining words would mix with those of the next entry.
    fn discard_torn_command(
        &mut self,
        io: &mut FlashPageStore,
        nvram_buffer_entries: &[(ReverseMapEntry, Option<RemapCommand>)],
    ) -> Result<()> {
        if self.buffered_entries < self.entries_per_page {
            self.entry_layout.zero_nvram_entry(io, self.first_word_index_of_slot(self.buffered_entries))?;
        }
        let torn = incomplete_commands(nvram_buffer_entries);
        let is_torn = |&(entry, command): &(ReverseMapEntry, Option<RemapCommand>)| {
            command.is_some_and(|command| torn.contains(&command.first_entry_sequence(&entry)))
        };
        while self.buffered_entries > 0 && is_torn(&nvram_buffer_entries[self.buffered_entries as usize - 1])
        {
            self.entry_layout
                .zero_nvram_entry(io, self.first_word_index_of_slot(self.buffered_entries - 1))?;
            self.buffered_entries -= 1;
        }
        Ok(())
    }
}

/// Removes the older copy of each reverse-map entry that is in the flash log twice. Cleaning may write an entry of a
/// relocation (remap that unmaps its source) again as a mere tombstone of the source; this counts as a copy, too.
fn remove_older_entry_copies(entries: &mut Vec<(u32, ReverseMapEntry)>) {
    let mut seen: HashSet<(Lpn, Option<Ppn>, u64), FxBuildHasher> = HashSet::default();
    entries.reverse();
    entries.retain(|(_, entry)| {
        let source = entry.relocation_source_or_range_end.filter(|_| entry.mapped_ppn.is_some());
        let is_copied = source.is_some_and(|lpn| seen.contains(&(lpn, None, entry.sequence_number)));
        seen.insert((entry.lpn, entry.mapped_ppn, entry.sequence_number)) && !is_copied
    });
    entries.reverse();
}

impl ReverseMap for FlashLog {
    fn make_room_for_entry(&mut self, io: &mut FlashPageStore, liveness_of: LivenessOf<'_>) -> Result<bool> {
        if !self.has_room_for_entries(1)
            && self.reclaimable_entries() > self.capacity_entries() / LOG_CAPACITY_TO_MIN_CLEANING_GAIN_RATIO
        {
            self.clean_oldest_page(io, liveness_of)?;
        }
        Ok(self.has_room_for_entries(1))
    }

    fn make_room_for_victim(
        &mut self,
        io: &mut FlashPageStore,
        block: BlockId,
        liveness_of: LivenessOf<'_>,
    ) -> Result<bool> {
        let entries = self.index.entry_count_of_block(block);
        if self.free_entries() < entries && self.reclaimable_entries() > 0 && Self::appendable_pages(io) > 0 {
            self.clean_oldest_page(io, liveness_of)?;
        }
        let filled_pages =
            (self.buffered_entries as u64 + entries).saturating_sub(1) / self.entries_per_page as u64;
        Ok(self.free_entries() >= entries && Self::appendable_pages(io) >= filled_pages)
    }

    /// Records a reverse-map entry in the NVRAM buffer of the flash log. O(1): two or three 8-byte words are stored. If
    /// the buffer is full, it is first programmed as a log page.
    fn record_entry(
        &mut self,
        io: &mut FlashPageStore,
        entry: ReverseMapEntry,
        _: LivenessOf<'_>,
    ) -> Result<()> {
        assert!(
            self.free_entries() > 0,
            "the flash log is full: the caller must call make_room_for_entry or make_room_for_victim before it \
             records an entry"
        );
        self.append_to_nvram_buffer(io, entry, None)
    }

    fn make_room_for_remap_entries(
        &mut self,
        io: &mut FlashPageStore,
        places: &[Option<Ppn>],
        liveness_of: LivenessOf<'_>,
    ) -> Result<bool> {
        let count = places.len() as u64;
        if self.entry_layout == EntryLayout::WithoutRemapCommand || count > u64::from(self.entries_per_page) {
            return Ok(false);
        }
        if !self.has_room_for_entries(count) && self.reclaimable_entries() > 0 {
            self.clean_oldest_page(io, liveness_of)?;
        }
        if !self.has_room_for_entries(count) {
            return Ok(false);
        }
        if u64::from(self.buffered_entries) + count > u64::from(self.entries_per_page) {
            self.flush_nvram_buffer(io)?;
        }
        // The page that was flushed early counts as a full page of the log.
        Ok(self.has_room_for_entries(count))
    }

    fn record_remap_entries(
        &mut self,
        io: &mut FlashPageStore,
        command: RemapCommand,
        entries: &[ReverseMapEntry],
    ) -> Result<()> {
        assert!(
            self.buffered_entries + command.target_pages <= self.entries_per_page,
            "{command:?} is recorded, but make_room_for_remap_entries did not admit it"
        );
        entries.iter().try_for_each(|&entry| self.append_to_nvram_buffer(io, entry, Some(command)))
    }

    fn mark_mapping_superseded(&mut self, io: &mut FlashPageStore, lpn: Lpn, place: Ppn) {
        self.index.mark_superseded(io, lpn, place);
        *self.superseded_entry_count_by_mapping.entry((lpn, place)).or_default() += 1;
    }

    fn scan_entries_of_block(
        &mut self,
        io: &mut FlashPageStore,
        block: BlockId,
        out: &mut Vec<ReverseMapEntry>,
    ) -> Result<()> {
        for &place in &self.live_page_ppns {
            io.read(place, &mut [], Cause::RemapLog)?;
        }
        if self.used_entries() > 0 {
            io.charge_referrer_scan(block, self.buffered_entries as u64 * self.entry_layout.entry_bytes());
        }
        out.extend(self.index.entries_in(block.index()).iter().map(|&(_, entry)| entry));
        Ok(())
    }

    fn drop_entries_of_block(&mut self, _: &mut FlashPageStore, block: BlockId) -> Result<()> {
        for (_, entry) in self.index.take_group_entries(block.index()) {
            let place = entry.mapped_ppn.expect("an entry of a block names a page");
            self.superseded_entry_count_by_mapping.remove(&(entry.lpn, place));
        }
        self.index.mark_tombstones_maybe_obsolete();
        Ok(())
    }

    fn adopt_log_pages(&mut self, pages: &[(u32, Ppn)]) {
        self.log_pages_found_by_scan = pages.to_vec();
    }

    fn recover(&mut self, io: &mut FlashPageStore) -> Result<Vec<ReverseMapEntry>> {
        self.clear_ram_state();
        let found: HashMap<u32, Ppn, FxBuildHasher> = self.log_pages_found_by_scan.drain(..).collect();
        self.oldest_page_number = io.nvram()[self.oldest_page_number_word_index()] as u32;
        let mut entries = Vec::new();
        while let Some(&place) = found.get(&self.next_page_number()) {
            io.read(place, &mut self.page_buffer, Cause::Recovery)?;
            let id = self.next_page_number();
            entries.extend(self.entries_in_page_buffer().map(|entry| (id, entry)));
            self.live_page_ppns.push_back(place);
        }
        self.recover_nvram_buffer(io, &entries)?;
        let buffered = (0..self.buffered_entries).filter_map(|slot| self.buffered_entry(io, slot));
        entries.extend(buffered.map(|(entry, _)| (self.next_page_number(), entry)));
        remove_older_entry_copies(&mut entries);
        for &(id, entry) in &entries {
            self.index.add(self.index.per_block_group_of(io, &entry), (id, entry));
        }
        self.index.mark_tombstones_maybe_obsolete();
        Ok(entries.into_iter().map(|(_, entry)| entry).collect())
    }

    fn clean_excess_log_page(
        &mut self,
        io: &mut FlashPageStore,
        liveness_of: LivenessOf<'_>,
    ) -> Result<bool> {
        if self.live_pages() <= self.max_log_pages {
            return Ok(false);
        }
        let (groups, entries) = self.read_oldest_page(io)?;
        let needed = entries_to_keep(&entries, liveness_of).into_iter().flatten().count();
        if needed > (self.entries_per_page - self.buffered_entries) as usize {
            return Ok(false);
        }
        self.move_entries_out_of_oldest_page(io, &groups, &entries, liveness_of)?;
        Ok(true)
    }

    fn all_entries(&self, _: &FlashPageStore) -> Vec<ReverseMapEntry> {
        self.index.all_entries().map(|&(_, entry)| entry).collect()
    }

    fn valid_entry_count(&self) -> u64 {
        self.index.current_entry_count()
    }

    /// Returns 2: cleaning the log to make room for an entry may append one flash page, and recording the entry
    /// another.
    fn max_flash_pages_written_per_entry(&self) -> u32 {
        2
    }

    fn max_metadata_pages(&self) -> u64 {
        self.max_log_pages as u64
    }

    fn holds_current_metadata_page(&self, id: u32, ppn: Ppn) -> bool {
        self.live_page_ppns.get(id.wrapping_sub(self.oldest_page_number) as usize) == Some(&ppn)
    }

    fn record_metadata_page_move(&mut self, id: u32, new: Ppn) {
        self.live_page_ppns[id.wrapping_sub(self.oldest_page_number) as usize] = new;
    }

    /// Returns the bytes of controller memory: directory of the flash log, and its NVRAM buffer. The index by block is
    /// not counted: only the simulation has it.
    fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("reverse map log directory", self.max_log_pages as u64 * 4),
            ("reverse map log buffer (NVRAM)", self.page_buffer.len() as u64 + 8),
        ]
    }

    fn check_invariants(&self) -> std::result::Result<(), String> {
        let named: u32 = self.superseded_entry_count_by_mapping.values().sum();
        if named != self.index.superseded_entry_count() {
            return Err(format!(
                "the flash log of the reverse map has {named} superseded entries by its table of logical and flash \
                 pages, so its index by block must count as many, but counts {}",
                self.index.superseded_entry_count()
            ));
        }
        if self.live_pages() > self.max_log_pages || self.buffered_entries > self.entries_per_page {
            return Err(format!(
                "the flash log of the reverse map has {} live pages, of which at most {} are allowed, and {} entries \
                 in its buffer, of which at most {} are allowed",
                self.live_pages(),
                self.max_log_pages,
                self.buffered_entries,
                self.entries_per_page
            ));
        }
        self.index.check_invariants("flash log", self.used_entries())
    }
}
