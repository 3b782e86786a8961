//! The page validity log on flash: PPNs of invalid pages in the order in which they became invalid, chained by block.
//!
//! Source: the log of IB-FTL with the cleaning that `GeckoFTL` adds to compare with it (Dayan, Bonnet, Idreos,
//! "`GeckoFTL`: Scalable Flash Translation Techniques For Very Large Flash Devices", SIGMOD 2016, appendix E). A full
//! buffer becomes a page of the log. For each block, RAM holds the head of its chain and the number of its openings
//! (the papers: a stamp of its last erase). When the log exceeds X = 2·D entries (D is the number of physical pages
//! minus logical pages), its oldest page is cleaned: entries that are still in force are inserted again and the others
//! dropped. An entry is *in force* until its block is opened again.
//!
//! # Layout
//!
//! An entry has 12 bytes: the invalid page, the *opening count* of its block (how often the block was opened), and the
//! position of the block's previous entry. A page of the log has a header of one entry's size, then `V` entries. Log
//! pages are numbered in the order of writing, modulo 2^32; the number is the owner in the OOB. The *ring* is a power
//! of two that is greater than the number of pages the log can have. The *position* of an entry is its page's number
//! modulo the ring, times `V`, plus its slot.
//!
//! # The stamp
//!
//! An entry needs a stamp that shows whether it is still in force. A stamp of 32 bits that counts the programs of the
//! device would wrap, because an entry of a cold block is inserted again for ever. So the stamp is the opening count of
//! the entry's block: an entry is in force if its opening count is the current one of its block.
//!
//! Opening counts are not stored outside the log. After a power cut, recovery finds them as follows. A write of the
//! buffer drops entries that are no longer in force. Hence an entry whose log page was first programmed after the last
//! opening of its block is in force, and has the current opening count of the block. If the newest entry of a block is
//! on an older page, the block was opened since, and its count is one more than that of the entry. Example: a block was
//! opened 7 times; log page 40 has entries of the block with count 7. If the flash shows that the block was opened
//! before page 40 was programmed, these entries are in force and the current count is 7; otherwise they are obsolete
//! and the current count is 8.
//!
//! One exception: a recovery reports a block as opened again if the log does not state that all reports before the
//! block's opening are durable. Then entries of one block with several counts may be on pages that were programmed
//! after its opening. Only those with the greatest count are in force, and recovery has reported the pages of the
//! others again.
//!
//! # Where a chain ends
//!
//! Opening a block empties its chain. Each insertion has a greater position than all before, so positions decrease
//! along a chain, whatever the order in which the pages became invalid: an entry that cleaning inserted again is at the
//! head of its chain. The walk along a chain ends at the first position that is not older than the one before it,
//! *counted within the part of the log that is left*. Such a position belongs to a page that was cleaned. All entries
//! after it were cleaned as well, and are present again earlier in the chain.
//!
//! # How long the log is
//!
//! The bound of X = 2·D entries is right while the host uses every logical page. With `d` of them unmapped, D + d pages
//! may be invalid, so the bound is twice the number of entries in force if that is greater. Then at least half of the
//! entries are dropped by cleaning, cleaning costs one insertion per entry, and it terminates. The number of entries in
//! force of each block is kept for this; a controller has it in its table of valid counts.
//!
//! # Safe at every program
//!
//! A cleaned page is discarded when the page with the last of its entries is programmed; from then on the head of the
//! newest page names another oldest page. A cleaned page without entries that still have to be written is discarded at
//! once. A recovery may find it once more, which adds nothing. What is in RAM is lost;
//! [`ValidityLog::reports_durable_before_sequence`] tells which reports that are.
//!
//! A recovery reports these pages again. If they fill several pages of the log and power is lost after the first, the
//! next recovery reports all of them once more, and the pages written in vain are of no use. That recovery removes such
//! pages from the new end of the log ([`ValidityLog::drop_useless_newest_pages`]); otherwise a device that never runs
//! for long would add a page to its log at each start.

use std::collections::VecDeque;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::log_page::{END_OF_CHAIN, VALIDITY_LOG_ENTRY_BYTES, ValidityLogEntry, ValidityLogPageHeader};
use super::{ValidityStore, is_page_bit_set};
use crate::address::{BlockId, OptionalAddress, Ppn};
use crate::data::{Content, Fingerprint};
use crate::divide::Divider;
use crate::error::{Error, Result};
use crate::events::MetadataWriteReason;
use crate::nand::{Geometry, Oob};
use crate::operation::Cause;
use crate::store::{FlashPageStore, Stream};
use crate::tables::PageSet;

/// Number of the first page of the validity log. Page numbers wrap at 2^32; the start is close to the end so that every
/// run of the program exercises the wrap.
const FIRST_LOG_PAGE_NUMBER: u32 = u32::MAX - 63;
/// Maximum number of pages by which the validity log exceeds its limit while one of its pages is cleaned and another
/// written; see [`ValidityStore::max_metadata_pages`].
const MAX_LOG_PAGES_BEYOND_LIMIT: u64 = 3;

/// Options of the log of invalid pages on flash ([`ValidityLog`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValidityLogOptions {
    /// Number of physical pages minus logical pages of the device (D). The number of entries of the validity log is
    /// limited to twice this number.
    pub physical_minus_logical_pages: u64,
}

/// Counts of what the log of invalid pages on flash did: reports, pages written and cleaned, and entries written again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ValidityLogCounts {
    /// Number of pages reported as invalid to the validity log.
    pub invalid_page_reports: u64,
    /// Number of entries of the validity log that cleaning appended again, because their block was not opened since
    /// they were made.
    pub reinserted_entries: u64,
    /// Number of flash pages written by the validity log.
    pub written_pages: u64,
    /// Number of pages of the validity log that were cleaned: entries in force were appended again, obsolete ones
    /// dropped.
    pub cleaned_pages: u64,
}

/// Page validity log on flash: PPNs of invalid pages in the order of their invalidation, chained by block.
#[derive(Clone, Debug)]
pub struct ValidityLog {
    /// Options of the validity log: the number of spare pages of the device, which limits its length.
    options: ValidityLogOptions,
    /// Number of physical pages of the device.
    physical_page_count: u64,
    /// Number of pages of a block (erase unit of the FTL).
    block_pages: u32,
    /// Divider by the number of pages of a block, which turns a PPN into a block number.
    pages_per_block_divider: Divider,
    /// Number of entries (invalid pages) on a page of the log (V).
    entries_per_log_page: u32,
    /// Number of successive log pages that positions of log entries distinguish: a power of two greater than the length
    /// of the log in pages. A position contains the page number modulo this number.
    log_page_number_modulus: u32,
    /// For each block, the position in the log of its newest entry (invalid page), the head of its chain;
    /// [`END_OF_CHAIN`] if the block has none.
    chain_heads_by_block: Vec<u32>,
    /// For each block, how often it was opened for data, modulo 2^32. Log entries from before the last opening are
    /// obsolete.
    opening_counts_by_block: Vec<u32>,
    /// For each block, the number of its log entries in force (made since the block was opened).
    /// [`ValidityLog::max_uncleaned_pages`] needs their sum. A controller has the counts in its table of valid counts.
    entries_in_force_by_block: Vec<u32>,
    /// Number of log entries in force (made since their block was opened) of all blocks.
    total_entries_in_force: u64,
    /// PPNs of the validity log's pages, oldest first. The first ones may be pages whose entries in force were already
    /// copied to the buffer (cleaned pages); they are discarded when the buffer is written next.
    log_page_ppns: VecDeque<Ppn>,
    /// Page number of the oldest page of the validity log, whose PPN is the first in `log_page_ppns`.
    oldest_page_number: u32,
    /// Number of pages at the beginning of the log that are cleaned but not discarded yet.
    cleaned_pages_to_discard: u32,
    /// Number of entries already processed on the log page that is being cleaned.
    processed_entries_of_cleaned_page: u32,
    /// Whether cleaning has copied at least one entry in force to the buffer, from the log page that is being cleaned.
    has_reinserted_entries: bool,
    /// Buffer for the log page that is being cleaned.
    cleaning_page_buffer: Vec<u8>,
    /// Entries (invalid pages) that will be written as the next page of the validity log.
    buffered_entries: Vec<ValidityLogEntry>,
    /// Number of entries in `buffered_entries` that are new reports of invalid pages. The other entries were copied
    /// there by cleaning.
    buffered_invalid_page_report_count: u32,
    /// Invalid pages that were reported while the buffer of the log was full, oldest first.
    waiting_invalid_pages: VecDeque<Ppn>,
    /// Sequence number before which the log is durable: every page reported as invalid earlier is recorded on flash.
    reports_durable_before_sequence: u64,
    /// Buffer for a log page that is written, or read by a query.
    page_buffer: Vec<u8>,
    /// How many log pages, counted from the newest that recovery found, did not advance
    /// `reports_durable_before_sequence`: when they were written, reports of further invalid pages were only in RAM.
    newest_pages_not_advancing_durability: u32,
    /// Invalid pages that a recovery found in the validity log, so that the first scan after the recovery need not read
    /// the log again. `None` once the log has changed.
    recovered_invalid_pages: Option<PageSet>,
    /// Counts of reports, pages and entries since they were last cleared.
    counts: ValidityLogCounts,
}

impl ValidityLog {
    /// Creates an empty validity log: all pages of the device count as valid.
    ///
    /// # Errors
    /// [`Error::InvalidOptions`] if `physical_minus_logical_pages` is 0 or the device has more pages than positions of
    /// 32 bits can serve.
    pub fn new(geometry: &Geometry, options: ValidityLogOptions) -> Result<Self> {
        let pages = geometry.pages();
        let page_entries = geometry.page_bytes / VALIDITY_LOG_ENTRY_BYTES as u32 - 1;
        let longest = (2 * pages.max(options.physical_minus_logical_pages)).div_ceil(page_entries as u64)
            + MAX_LOG_PAGES_BEYOND_LIMIT;
        let ring = (longest + 1).next_power_of_two();
        if options.physical_minus_logical_pages == 0 {
            return Err(Error::InvalidOptions(format!(
                "the page-validity log needs spare pages, but the device exports all of its {pages} pages: lower \
                 device.logical_pages, or raise device.over_provisioning"
            )));
        }
        if ring * page_entries as u64 > u32::MAX as u64 {
            return Err(Error::InvalidOptions(format!(
                "the page-validity log of a device of {pages} pages needs {} positions, but positions have 32 bits: \
                 lower device.blocks_per_plane or device.pages_per_block, or choose another page validity \
                 (parts.validity, or validity.kind on designs that have it)",
                ring * page_entries as u64
            )));
        }
        let blocks = geometry.blocks() as usize;
        let page = vec![0; geometry.page_bytes as usize];
        Ok(Self {
            options,
            physical_page_count: pages,
            block_pages: geometry.block_pages(),
            pages_per_block_divider: Divider::new(geometry.block_pages()),
            entries_per_log_page: page_entries,
            log_page_number_modulus: ring as u32,
            chain_heads_by_block: vec![END_OF_CHAIN; blocks],
            opening_counts_by_block: vec![0; blocks],
            entries_in_force_by_block: vec![0; blocks],
            total_entries_in_force: 0,
            log_page_ppns: VecDeque::new(),
            oldest_page_number: FIRST_LOG_PAGE_NUMBER,
            cleaned_pages_to_discard: 0,
            processed_entries_of_cleaned_page: 0,
            has_reinserted_entries: false,
            cleaning_page_buffer: page.clone(),
            buffered_entries: Vec::with_capacity(page_entries as usize),
            buffered_invalid_page_report_count: 0,
            waiting_invalid_pages: VecDeque::new(),
            reports_durable_before_sequence: 0,
            page_buffer: page,
            newest_pages_not_advancing_durability: 0,
            recovered_invalid_pages: None,
            counts: ValidityLogCounts::default(),
        })
    }

    /// Returns the number of entries, with one invalid page each, that fit on a page of the validity log.
    pub fn entries_per_log_page(&self) -> u32 {
        self.entries_per_log_page
    }

    /// Returns the number of flash pages of the validity log, including cleaned pages that are not discarded yet.
    pub fn log_page_count(&self) -> u32 {
        self.log_page_ppns.len() as u32
    }

    /// Returns the number of entries of the validity log in force: those whose block was not opened since they were
    /// made. A page that was reported twice counts twice.
    pub fn current_entry_count(&self) -> u64 {
        self.total_entries_in_force
    }

    /// Returns the counts of the validity log (reports, cleaned pages and others) since they were last cleared.
    pub fn counts(&self) -> ValidityLogCounts {
        self.counts
    }

    /// Clears the counts of the validity log; the log itself is unchanged.
    pub fn clear_operation_counts(&mut self) {
        self.counts = ValidityLogCounts::default();
    }

    /// Returns the sequence number before which the validity log is durable: every page invalidated while
    /// [`FlashPageStore::last_sequence`] was less than this number is recorded on flash (or its block was opened
    /// again). Later reports may be lost with RAM.
    pub fn reports_durable_before_sequence(&self) -> u64 {
        self.reports_durable_before_sequence
    }

    /// Rebuilds the RAM state of the validity log from flash, and calls `invalid` as
    /// [`ValidityLog::for_each_block_with_invalid_pages`] does, with each block that has invalid pages. Reads every
    /// page of the log once. `pages` are all validity pages that a scan of the flash found. `opened_at` returns the
    /// sequence number of the last program before a block was opened, `u64::MAX` for a block that holds no data.
    ///
    /// A log page that is missing on flash ends the log: older entries are dropped, and their pages count as valid
    /// again.
    ///
    /// # Errors
    /// Any error of the flash.
    pub fn recover(
        &mut self,
        io: &mut FlashPageStore,
        pages: &[(Ppn, Oob)],
        opened_at: impl Fn(BlockId) -> u64,
        invalid: impl FnMut(BlockId, &[u64]),
    ) -> Result<()> {
        self.drop_ram_state();
        let mut copies = HashMap::<u32, (u64, Ppn), FxBuildHasher>::default();
        for &(ppn, oob) in pages {
            let newest = copies.entry(oob.owner).or_insert((0, ppn));
            *newest = (*newest).max((oob.sequence_number, ppn));
        }
        let Some((_, newest)) = pages.iter().max_by_key(|(_, oob)| oob.first_write_sequence_number) else {
            return Ok(());
        };
        let mut known = vec![false; self.chain_heads_by_block.len()];
        let mut dead = PageSet::new(self.physical_page_count);
        let mut number = newest.owner;
        self.oldest_page_number = number.wrapping_add(1);
        let mut newest_header = None;
        let mut has_progress = false;
        while let Some(&(_, place)) = copies.get(&number) {
            let oob = io.read(place, &mut self.page_buffer, Cause::Validity)?;
            let header = ValidityLogPageHeader::read_from(&self.page_buffer);
            let head = *newest_header.get_or_insert(header);
            // The oldest page with the newest statement made it; all newer ones only repeat it.
            has_progress |= header.reports_durable_before_sequence < head.reports_durable_before_sequence;
            self.newest_pages_not_advancing_durability += u32::from(!has_progress);
            self.reports_durable_before_sequence = head.reports_durable_before_sequence;
            self.log_page_ppns.push_front(place);
            self.oldest_page_number = number;
            self.adopt_recovered_entries(oob.first_write_sequence_number, &opened_at, &mut known, &mut dead);
            if number == head.oldest_page_number {
                break;
            }
            number = number.wrapping_sub(1);
        }
        if self.reports_durable_before_sequence > 0 {
            self.newest_pages_not_advancing_durability =
                self.newest_pages_not_advancing_durability.saturating_sub(1);
        }
        self.visit_blocks_with_invalid_pages(&dead, invalid);
        self.recovered_invalid_pages = Some(dead);
        Ok(())
    }

    /// During recovery, removes the newest pages of the validity log that are useless: they have no entry in force, and
    /// when they were written, further reports of invalid pages were only in RAM. Called after
    /// [`ValidityLog::recover`]. By then recovery has reported as opened the blocks of all pages that it will report as
    /// invalid again, but has not reported the pages. Reads each log page that it removes, and one more. Reads none if
    /// the newest log page was written when all reports were in the log.
    ///
    /// # Errors
    /// Any error of the flash.
    pub fn drop_useless_newest_pages(&mut self, io: &mut FlashPageStore) -> Result<()> {
        while self.newest_pages_not_advancing_durability > 0
            && let Some(&place) = self.log_page_ppns.back()
        {
            io.read(place, &mut self.page_buffer, Cause::Validity)?;
            let mut entries = (0..self.entries_per_log_page)
                .map(|slot| ValidityLogEntry::read_from(&self.page_buffer, slot));
            if entries.any(|entry| self.is_entry_current(&entry)) {
                break;
            }
            self.log_page_ppns.pop_back();
            io.count_page_invalid(place);
            self.newest_pages_not_advancing_durability -= 1;
        }
        self.newest_pages_not_advancing_durability = 0;
        Ok(())
    }

    /// Calls `invalid` with each block that has invalid pages, and a bitmap of these pages: bit `k` is page `k`. Reads
    /// every page of the validity log once, or none if [`ValidityLog::recover`] has just done so. Needs one bit of
    /// memory per page of the device meanwhile.
    ///
    /// # Errors
    /// Any error of the flash.
    pub fn for_each_block_with_invalid_pages(
        &mut self,
        io: &mut FlashPageStore,
        invalid: impl FnMut(BlockId, &[u64]),
    ) -> Result<()> {
        let mut dead = match self.recovered_invalid_pages.take() {
            Some(dead) => dead,
            None => self.read_invalid_pages(io)?,
        };
        let buffered = self
            .buffered_entries
            .iter()
            .filter(|entry| self.is_entry_current(entry))
            .map(|entry| entry.invalid_page);
        buffered.chain(self.waiting_invalid_pages.iter().copied()).for_each(|ppn| dead.insert(ppn));
        self.visit_blocks_with_invalid_pages(&dead, invalid);
        Ok(())
    }

    /// Reads the whole validity log and returns the pages that it records as invalid. Obsolete entries, made before
    /// their block was opened, are ignored.
    fn read_invalid_pages(&mut self, io: &mut FlashPageStore) -> Result<PageSet> {
        let mut dead = PageSet::new(self.physical_page_count);
        for index in self.cleaned_pages_to_discard as usize..self.log_page_ppns.len() {
            io.read(self.log_page_ppns[index], &mut self.page_buffer, Cause::Validity)?;
            let entries = (0..self.entries_per_log_page)
                .map(|slot| ValidityLogEntry::read_from(&self.page_buffer, slot));
            entries
                .filter(|entry| self.is_entry_current(entry))
                .for_each(|entry| dead.insert(entry.invalid_page));
        }
        Ok(dead)
    }

    /// Whether the log holds a report of an invalid page in RAM that is not on flash. Entries that cleaning appended to
    /// the buffer again do not count: they are still on the log page from which they come, which is kept until they are
    /// written.
    pub fn has_unwritten_records(&self) -> bool {
        self.buffered_invalid_page_report_count > 0 || !self.waiting_invalid_pages.is_empty()
    }

    /// Writes one page of the validity log with entries from RAM, even if they do not fill it. Returns `false` once all
    /// entries are on flash. Called at shutdown, and before blocks are erased from which a recovery would have to
    /// rebuild the entries. Does not clean the log; [`ValidityStore::execute_next_deferred_validity_write`] does.
    ///
    /// # Errors
    /// Any error of the flash.
    pub fn write_back_step(&mut self, io: &mut FlashPageStore) -> Result<bool> {
        self.move_waiting_reports_to_buffer();
        let unwritten = !self.buffered_entries.is_empty();
        if unwritten {
            self.write_buffered_entries_as_log_page(io)?;
        }
        Ok(unwritten)
    }

    /// Writes a page of the validity log with the entries in the buffer, even if there are none: the header of the page
    /// states which reports of invalid pages are durable.
    ///
    /// # Errors
    /// Any error of the flash.
    pub(crate) fn write_log_page(&mut self, io: &mut FlashPageStore) -> Result<()> {
        self.move_waiting_reports_to_buffer();
        self.write_buffered_entries_as_log_page(io)
    }

    /// Resets the RAM state of the validity log to that of an empty log, before a recovery fills it from flash.
    fn drop_ram_state(&mut self) {
        self.chain_heads_by_block.fill(END_OF_CHAIN);
        self.opening_counts_by_block.fill(0);
        self.entries_in_force_by_block.fill(0);
        self.log_page_ppns.clear();
        self.buffered_entries.clear();
        self.buffered_invalid_page_report_count = 0;
        self.waiting_invalid_pages.clear();
        (self.total_entries_in_force, self.reports_durable_before_sequence, self.oldest_page_number) =
            (0, 0, FIRST_LOG_PAGE_NUMBER);
        (
            self.cleaned_pages_to_discard,
            self.processed_entries_of_cleaned_page,
            self.has_reinserted_entries,
        ) = (0, 0, false);
        (self.newest_pages_not_advancing_durability, self.recovered_invalid_pages) = (0, None);
    }

    /// During recovery, adds the entries of the validity log page in `page_buffer`, which was first programmed at
    /// sequence number `first_write_sequence_number`. Recovery reads pages and entries newest first. So the first entry
    /// found of a block is the head of the block's chain of entries, and it determines how often the block was opened.
    fn adopt_recovered_entries(
        &mut self,
        first_write_sequence_number: u64,
        opened_at: &impl Fn(BlockId) -> u64,
        blocks_with_found_entries: &mut [bool],
        dead: &mut PageSet,
    ) {
        for slot in (0..self.entries_per_log_page).rev() {
            let entry = ValidityLogEntry::read_from(&self.page_buffer, slot);
            if entry.invalid_page.to_option().is_none() {
                continue;
            }
            let block = self.block_of_page(entry.invalid_page);
            let is_newer_than_opening = first_write_sequence_number > opened_at(block);
            let first = !std::mem::replace(&mut blocks_with_found_entries[block.index()], true);
            if first {
                let next = entry.block_opening_count.wrapping_add(1);
                self.opening_counts_by_block[block.index()] =
                    if is_newer_than_opening { entry.block_opening_count } else { next };
            }
            let in_force = is_newer_than_opening && self.is_entry_current(&entry);
            if first && in_force {
                self.chain_heads_by_block[block.index()] = self.entry_position(self.oldest_page_number, slot);
            }
            if in_force {
                self.entries_in_force_by_block[block.index()] += 1;
                self.total_entries_in_force += 1;
                dead.insert(entry.invalid_page);
            }
        }
    }

    /// Calls `invalid` with each block that has pages in `dead`, and a bitmap of these pages.
    fn visit_blocks_with_invalid_pages(&self, dead: &PageSet, mut invalid: impl FnMut(BlockId, &[u64])) {
        let mut words = vec![0_u64; self.block_pages.div_ceil(64) as usize];
        let mut found = Vec::new();
        for block in (0..self.chain_heads_by_block.len() as u32).map(BlockId) {
            let first = Ppn(block.0 * self.block_pages);
            found.clear();
            dead.append_pages_in_range(first, self.block_pages, &mut found);
            if found.is_empty() {
                continue;
            }
            words.fill(0);
            for ppn in &found {
                set_bit(&mut words, ppn.0 - first.0);
            }
            invalid(block, &words);
        }
    }

    /// Returns the block that holds a page.
    #[inline]
    fn block_of_page(&self, ppn: Ppn) -> BlockId {
        BlockId(self.pages_per_block_divider.quotient(ppn.0))
    }

    /// Whether the log entry is in force: it names a page whose block was not opened since the entry was made.
    fn is_entry_current(&self, entry: &ValidityLogEntry) -> bool {
        entry.invalid_page.to_option().is_some()
            && entry.block_opening_count
                == self.opening_counts_by_block[self.block_of_page(entry.invalid_page).index()]
    }

    /// Returns the number that the next page of the validity log will have.
    #[inline]
    fn next_page_number(&self) -> u32 {
        self.oldest_page_number.wrapping_add(self.log_page_count())
    }

    /// Returns the position in the log of entry number `slot` on the page with number `page_number`.
    #[inline]
    fn entry_position(&self, page_number: u32, slot: u32) -> u32 {
        (page_number & (self.log_page_number_modulus - 1)) * self.entries_per_log_page + slot
    }

    /// Returns how many entries (around the ring) lie from the start of the oldest log page that is not cleaned up to
    /// `position`.
    fn entries_from_oldest_uncleaned_page_to(&self, position: u32) -> u32 {
        let start =
            self.entry_position(self.oldest_page_number.wrapping_add(self.cleaned_pages_to_discard), 0);
        if position >= start {
            position - start
        } else {
            position + (self.log_page_number_modulus * self.entries_per_log_page - start)
        }
    }

    /// Returns the number of pages of the validity log that were not cleaned.
    fn uncleaned_pages(&self) -> u32 {
        self.log_page_count() - self.cleaned_pages_to_discard
    }

    /// Returns the number of uncleaned pages of the validity log beyond which its oldest page is cleaned.
    fn max_uncleaned_pages(&self) -> u64 {
        (2 * self.total_entries_in_force.max(self.options.physical_minus_logical_pages))
            .div_ceil(self.entries_per_log_page as u64)
    }

    /// Returns whether the buffer of the validity log has the entries of a whole log page.
    #[inline]
    fn is_buffer_full(&self) -> bool {
        self.buffered_entries.len() == self.entries_per_log_page as usize
    }

    /// Adds an entry for the invalid page `ppn` to the buffer of the log. The entry becomes the head of the chain of
    /// its block.
    #[inline]
    fn add_entry_to_block_chain(&mut self, ppn: Ppn) {
        let position = self.entry_position(self.next_page_number(), self.buffered_entries.len() as u32);
        let block = self.block_of_page(ppn).index();
        let previous = std::mem::replace(&mut self.chain_heads_by_block[block], position);
        self.buffered_entries.push(ValidityLogEntry {
            invalid_page: ppn,
            block_opening_count: self.opening_counts_by_block[block],
            previous_entry_position: previous,
        });
    }

    /// Adds the report of an invalid page to the buffer of the validity log, and counts the entry as in force (not
    /// obsolete).
    #[inline]
    fn add_report_to_buffer(&mut self, ppn: Ppn) {
        let block = self.block_of_page(ppn).index();
        self.entries_in_force_by_block[block] += 1;
        self.total_entries_in_force += 1;
        self.buffered_invalid_page_report_count += 1;
        self.add_entry_to_block_chain(ppn);
    }

    /// Moves reports that arrived while the log's buffer was full into the buffer, as far as it has room. Returns
    /// whether any was moved.
    fn move_waiting_reports_to_buffer(&mut self) -> bool {
        let before = self.waiting_invalid_pages.len();
        while !self.is_buffer_full()
            && let Some(ppn) = self.waiting_invalid_pages.pop_front()
        {
            self.add_report_to_buffer(ppn);
        }
        self.waiting_invalid_pages.len() < before
    }

    /// Writes the buffered entries as a page of the validity log, and discards the cleaned log pages, whose entries in
    /// force are now on flash again. Buffered entries that became obsolete (their block was opened since) are written
    /// as blank entries.
    fn write_buffered_entries_as_log_page(&mut self, io: &mut FlashPageStore) -> Result<()> {
        let durable_until = if self.waiting_invalid_pages.is_empty() {
            io.last_sequence() + 1
        } else {
            self.reports_durable_before_sequence
        };
        let oldest = self.oldest_page_number.wrapping_add(self.cleaned_pages_to_discard);
        ValidityLogPageHeader { reports_durable_before_sequence: durable_until, oldest_page_number: oldest }
            .write_to(&mut self.page_buffer);
        for slot in 0..self.entries_per_log_page {
            let entry = self.buffered_entries.get(slot as usize).filter(|entry| self.is_entry_current(entry));
            entry.copied().unwrap_or(ValidityLogEntry::BLANK).write_to(&mut self.page_buffer, slot);
        }
        let (pool, content) = (io.take_append_pool(Stream::Validity), Content::Bytes(&self.page_buffer));
        let number = self.next_page_number();
        let place =
            io.append_page(Stream::Validity, pool, number, content, Fingerprint::default(), Cause::Validity)?;
        self.log_page_ppns.push_back(place);
        assert!(
            self.log_page_count() < self.log_page_number_modulus,
            "the log is longer than its positions can tell apart"
        );
        self.buffered_entries.clear();
        self.buffered_invalid_page_report_count = 0;
        self.has_reinserted_entries = false;
        self.reports_durable_before_sequence = durable_until;
        self.counts.written_pages += 1;
        self.recovered_invalid_pages = None;
        for _ in 0..std::mem::take(&mut self.cleaned_pages_to_discard) {
            self.discard_oldest_page(io);
        }
        Ok(())
    }

    /// Discards the oldest page of the validity log, whose entries in force were already copied: counts its flash page
    /// as invalid.
    fn discard_oldest_page(&mut self, io: &mut FlashPageStore) {
        let place = self.log_page_ppns.pop_front().expect("a cleaned page is in the directory");
        self.oldest_page_number = self.oldest_page_number.wrapping_add(1);
        io.count_page_invalid(place);
    }

    /// Cleans the oldest page of the validity log: appends its entries in force (whose block was not opened since) to
    /// the buffer, as many as the buffer holds. A later call continues. Reads the page once.
    fn clean_oldest_page(&mut self, io: &mut FlashPageStore) -> Result<()> {
        self.recovered_invalid_pages = None;
        if self.processed_entries_of_cleaned_page == 0 {
            io.read(
                self.log_page_ppns[self.cleaned_pages_to_discard as usize],
                &mut self.cleaning_page_buffer,
                Cause::Validity,
            )?;
            self.has_reinserted_entries = false;
        }
        while self.processed_entries_of_cleaned_page < self.entries_per_log_page && !self.is_buffer_full() {
            let entry = ValidityLogEntry::read_from(
                &self.cleaning_page_buffer,
                self.processed_entries_of_cleaned_page,
            );
            self.processed_entries_of_cleaned_page += 1;
            if self.is_entry_current(&entry) {
                self.add_entry_to_block_chain(entry.invalid_page);
                self.has_reinserted_entries = true;
                self.counts.reinserted_entries += 1;
            }
        }
        if self.processed_entries_of_cleaned_page == self.entries_per_log_page {
            self.finish_cleaning(io);
        }
        Ok(())
    }

    /// Ends the cleaning of a log page. If none of its entries was copied to the buffer, and no other cleaned page
    /// waits to be discarded, the page is discarded at once. Otherwise it is discarded when the buffer is written next.
    fn finish_cleaning(&mut self, io: &mut FlashPageStore) {
        self.processed_entries_of_cleaned_page = 0;
        self.counts.cleaned_pages += 1;
        if self.has_reinserted_entries || self.cleaned_pages_to_discard > 0 {
            self.cleaned_pages_to_discard += 1;
        } else {
            self.discard_oldest_page(io);
        }
    }

    /// Follows the block's chain of log entries and sets in `invalid` the bit of each page that an entry names. Entries
    /// on one log page are adjacent in the chain, so each log page is read once.
    fn copy_invalid_bits_of_chain(
        &mut self,
        io: &mut FlashPageStore,
        block: BlockId,
        invalid: &mut [u64],
    ) -> Result<()> {
        let on_flash = self.uncleaned_pages() * self.entries_per_log_page;
        let mut younger = on_flash + self.buffered_entries.len() as u32;
        let mut loaded = END_OF_CHAIN;
        let mut position = self.chain_heads_by_block[block.index()];
        while position != END_OF_CHAIN {
            let age = self.entries_from_oldest_uncleaned_page_to(position);
            if age >= younger {
                break;
            }
            younger = age;
            let entry = if age >= on_flash {
                self.buffered_entries[(age - on_flash) as usize]
            } else {
                let page = age / self.entries_per_log_page;
                if page != loaded {
                    io.read(
                        self.log_page_ppns[(self.cleaned_pages_to_discard + page) as usize],
                        &mut self.page_buffer,
                        Cause::Validity,
                    )?;
                    loaded = page;
                }
                ValidityLogEntry::read_from(&self.page_buffer, age % self.entries_per_log_page)
            };
            debug_assert!(self.is_entry_current(&entry), "the chain of block {block} names {entry:?}");
            set_bit(invalid, entry.invalid_page.0 - block.0 * self.block_pages);
            position = entry.previous_entry_position;
        }
        Ok(())
    }
}

impl ValidityStore for ValidityLog {
    /// Adds the invalid page to the log's buffer, or to a list of waiting pages if the buffer is full. O(1), one random
    /// memory access (the head of the block's chain).
    #[inline]
    fn invalidate(&mut self, ppn: Ppn) {
        self.counts.invalid_page_reports += 1;
        if self.is_buffer_full() || !self.waiting_invalid_pages.is_empty() {
            self.waiting_invalid_pages.push_back(ppn);
        } else {
            self.add_report_to_buffer(ppn);
        }
    }

    /// Makes all entries of the block in the validity log obsolete, because the block was opened for data. O(n) for n
    /// invalid pages that are not yet in the buffer of the log.
    fn record_block_opened(&mut self, block: BlockId) {
        let index = block.index();
        self.opening_counts_by_block[index] = self.opening_counts_by_block[index].wrapping_add(1);
        self.chain_heads_by_block[index] = END_OF_CHAIN;
        self.total_entries_in_force -= std::mem::take(&mut self.entries_in_force_by_block[index]) as u64;
        if let Some(dead) = &mut self.recovered_invalid_pages {
            dead.remove_range(Ppn(block.0 * self.block_pages), self.block_pages);
        }
        self.waiting_invalid_pages.retain(|&ppn| self.pages_per_block_divider.quotient(ppn.0) != block.0);
    }

    /// Appends the block's valid pages to `out`. Reads each log page that holds current entries of the block once.
    fn append_valid_pages(
        &mut self,
        io: &mut FlashPageStore,
        block: BlockId,
        out: &mut Vec<Ppn>,
    ) -> Result<()> {
        let first = block.0 * self.block_pages;
        let mut invalid = vec![0; self.block_pages.div_ceil(64) as usize];
        self.copy_invalid_bits_of_chain(io, block, &mut invalid)?;
        for &ppn in self.waiting_invalid_pages.iter().filter(|&&ppn| self.block_of_page(ppn) == block) {
            set_bit(&mut invalid, ppn.0 - first);
        }
        let live = |&page: &u32| !is_page_bit_set(&invalid, page);
        out.extend((0..self.block_pages).filter(live).map(|page| Ppn(first + page)));
        Ok(())
    }

    /// Executes one deferred step of the validity log. If the buffer is full, or two cleaned pages wait to be
    /// discarded, the buffer is written to flash. Otherwise, if the log exceeds its limit, its oldest page is cleaned
    /// (one page read, none written). Otherwise waiting reports of invalid pages are moved into the buffer.
    fn execute_next_deferred_validity_write(&mut self, io: &mut FlashPageStore) -> Result<bool> {
        // Two cleaned pages must not wait for one flush, or the log would exceed its maximum length: write early.
        if self.is_buffer_full() || self.cleaned_pages_to_discard > 1 {
            io.flash_ops.record_metadata_reason(MetadataWriteReason::ValidityBufferFull);
            self.write_buffered_entries_as_log_page(io)?;
            return Ok(true);
        }
        if self.uncleaned_pages() as u64 > self.max_uncleaned_pages() {
            self.clean_oldest_page(io)?;
            return Ok(true);
        }
        Ok(self.move_waiting_reports_to_buffer())
    }

    fn holds_current_metadata_page(&self, id: u32, ppn: Ppn) -> bool {
        self.log_page_ppns.get(id.wrapping_sub(self.oldest_page_number) as usize) == Some(&ppn)
    }

    fn record_metadata_page_move(&mut self, id: u32, from: Ppn, to: Ppn) {
        assert!(
            self.holds_current_metadata_page(id, from),
            "GC moved page {from}, which is not page {id} of the validity log"
        );
        self.log_page_ppns[id.wrapping_sub(self.oldest_page_number) as usize] = to;
    }

    fn max_page_writes_per_deferred_step(&self) -> u32 {
        1
    }

    /// Returns the maximum length of the validity log in pages: those for X entries (twice the number of spare pages)
    /// and three more, if [`ValidityStore::execute_next_deferred_validity_write`] is called before each write until it
    /// returns `false`.
    ///
    /// Proof. Let D be the spare pages (physical minus logical pages), d the number of unmapped logical pages, and V
    /// the number of entries per log page. At most D + d data pages are invalid. So the limit of uncleaned pages,
    /// `max_uncleaned_pages`, is at most ceil(2·(D + d) / V). Between writes the log has at most that many uncleaned
    /// pages, and one cleaned page.
    ///
    /// During the calls of `execute_next_deferred_validity_write`, a write of the buffer adds a page. It follows V new
    /// entries. If they are reports, the log was within the limit before. If they come from cleaning, cleaning has
    /// finished a page for each write but the first, whose page may be only partly cleaned. So there are at most two
    /// pages beyond the limit or the earlier length, and a third while the write that discards a cleaned page is in
    /// progress.
    ///
    /// For d > 0 the limit is higher, but V > 1: ceil(2·(D + d) / V) is at most ceil(2·D / V) + d, and the d unmapped
    /// pages occupy no flash. Entries of pages that were reported twice, after a recovery, make the log longer by two
    /// pages per V of them until their blocks are opened.
    fn max_metadata_pages(&self) -> u64 {
        (2 * self.options.physical_minus_logical_pages).div_ceil(self.entries_per_log_page as u64)
            + MAX_LOG_PAGES_BEYOND_LIMIT
    }

    /// Returns the bytes of RAM of the validity log, by data structure. The buffer is three pages: the next page of the
    /// log, the page being cleaned, and the page that a query reads. Reports that arrived when the buffer was full are
    /// not listed: in practice there is one.
    fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("validity chain heads", self.chain_heads_by_block.len() as u64 * 4),
            ("validity erase stamps", self.opening_counts_by_block.len() as u64 * 4),
            ("validity log directory", self.max_metadata_pages() * 4),
            ("validity log buffer", 3 * self.page_buffer.len() as u64),
        ]
    }
}

/// Sets bit number `bit` of a bitmap of 64-bit words.
#[inline]
fn set_bit(words: &mut [u64], bit: u32) {
    words[bit as usize / 64] |= 1 << (bit % 64);
}
