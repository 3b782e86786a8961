//! Garbage collection of shared pages, that is pages to which several logical pages are mapped (their referrers).
//!
//! A shared page is copied once. The OOB of the copy names one referrer, and each other referrer gets a new entry in
//! the reverse map. If the reverse map has no room for the entries of a victim, each shared page is stored once per
//! referrer instead, and logical pages that only the victim's entries mark as deallocated are overwritten with zeros.
//! Then no entry is needed.
//!
//! This takes more pages than the victim has valid pages. So it is only done if the collection still frees a page
//! ([`Ftl::load_entries_and_check_if_block_can_be_emptied`]), and other victims are skipped. A victim always exists:
//! the size of the device is checked so that all logical pages fit even if none is shared, so some closed block has
//! fewer referrers than pages. The number of pages needed is overestimated only if entries in several blocks deallocate
//! the same logical page. Then the device reports too early that it is full.

use super::CopyBatch;
use crate::address::{BlockId, Lpn, Ppn};
use crate::data::{Content, Fingerprint};
use crate::error::Result;
use crate::ftl::Ftl;
use crate::mapping::Mapping;
use crate::nand::{Nand, PageKind};
use crate::operation::Cause;
use crate::sharing::reverse_map::{EntryLiveness, ReverseMapEntry};
use crate::store::{ContentRecordKey, Stream};

impl Ftl {
    /// Loads the reverse-map entries of the victim `block`, and returns whether GC can empty the block by appending at
    /// most `most_pages` pages. Always true if one copy per valid page is enough. May compact the reverse map.
    ///
    /// # Errors
    /// Errors of the medium.
    pub(super) fn load_entries_and_check_if_block_can_be_emptied(
        &mut self,
        block: BlockId,
        most_pages: u32,
    ) -> Result<bool> {
        let Self { sharing, mapping, store, .. } = self;
        let Some(sharing) = sharing else { return Ok(true) };
        if store.blocks().kind(block) != PageKind::Data {
            return Ok(true);
        }
        sharing.load_victim_entries(mapping, store, block)?;
        Ok(sharing.has_room_to_record_victim_entries_again
            || self.pages_to_append_without_new_reverse_map_entries(block)? <= most_pages)
    }

    /// Returns the number of pages that GC must append to empty the victim `block` if the reverse map has no room for
    /// new entries: one page per referrer (logical page mapped to one of the block's pages), and one per logical page
    /// whose deallocation is recorded only in entries of the victim.
    fn pages_to_append_without_new_reverse_map_entries(&mut self, block: BlockId) -> Result<u32> {
        let mut valid = Vec::new();
        self.list_live_pages(block, &mut valid)?;
        let Some(sharing) = &self.sharing else { return Ok(valid.len() as u32) };
        let referrers: u32 =
            valid.iter().map(|&ppn| 1 + sharing.reference_counts.referrers_beyond_first(ppn.into())).sum();
        let needing = sharing
            .victim_reverse_map_entries
            .iter()
            .filter(|entry| sharing.liveness_of(&self.mapping, entry).is_tombstone_needed);
        let mut tombstoned: Vec<Lpn> = needing.flat_map(ReverseMapEntry::tombstoned_lpns).collect();
        tombstoned.sort_unstable_by_key(|lpn| lpn.0);
        tombstoned.dedup();
        Ok(referrers + tombstoned.len() as u32)
    }

    /// Updates the sharing state after GC copied pages: moves reference counts and content-index entries to the copies.
    /// The logical page that the OOB of a copy names needs no reverse-map entry any more. Every other referrer (logical
    /// page mapped to the page) gets a new entry or a page of its own, durable before the victim is erased.
    ///
    /// # Panics
    /// The entries of `victim` were not loaded before ([`Self::load_entries_and_check_if_block_can_be_emptied`]): the
    /// deallocations that they record would be lost with the block.
    pub(super) fn update_sharing_of_copied_pages(
        &mut self,
        victim: BlockId,
        batch: &CopyBatch,
    ) -> Result<()> {
        let pool = self.store.allocation_pool_of_block(victim);
        let Self { sharing, store, .. } = self;
        let Some(sharing) = sharing else { return Ok(()) };
        assert_eq!(
            sharing.block_of_loaded_victim_entries,
            Some(victim),
            "the reverse-map entries of another block are loaded"
        );
        for (&from, &to) in batch.source_pages.iter().zip(&batch.destination_pages) {
            sharing.reference_counts.move_reference_count(from.into(), to.into());
        }
        if let Some(index) = &mut sharing.content_index {
            let content = |&to: &Ppn| store.nand().fingerprint(to);
            index.prefetch_index_removals(batch.destination_pages.iter().map(content));
            for (&from, to) in batch.source_pages.iter().zip(&batch.destination_pages) {
                index.replace_unit(content(to), from.into(), (*to).into());
            }
        }
        let entries = std::mem::take(&mut sharing.victim_reverse_map_entries);
        let is_recordable = sharing.has_room_to_record_victim_entries_again;
        let outcome = entries.iter().try_for_each(|&entry| {
            let Some(place) = entry.mapped_ppn else {
                return self.record_tombstone_again(entry, pool, is_recordable);
            };
            // A base page that was merged with its delta needs no entry any more, except for the deallocations that the
            // entry records.
            let Ok(at) = batch.source_pages.binary_search(&place) else {
                return self.record_tombstone_of_remap_source(entry, pool, is_recordable);
            };
            // Pages that were not copied because power was lost keep their entries.
            let Some(&to) = batch.destination_pages.get(at) else { return Ok(()) };
            self.renew_reverse_map_entry(entry, to, batch.owners[at], is_recordable)
        });
        if let Some(sharing) = &mut self.sharing {
            sharing.victim_reverse_map_entries = entries;
        }
        outcome
    }

    /// Renews the reverse-map entry `entry`, whose page GC copied to `to`. No new entry is needed if its logical page
    /// is `owner`, which the OOB of the copy names. If the reverse map has no room (`is_recordable` is false), the
    /// logical page gets a copy of its own instead.
    fn renew_reverse_map_entry(
        &mut self,
        entry: ReverseMapEntry,
        to: Ppn,
        owner: Lpn,
        is_recordable: bool,
    ) -> Result<()> {
        let Self { sharing, mapping, store, .. } = self;
        let (Some(sharing), Some(place)) = (sharing, entry.mapped_ppn) else { return Ok(()) };
        let pool = store.allocation_pool_of_block(store.block_of(to));
        sharing.unmark_mapped_without_program(store, entry.lpn, place.into());
        if owner == entry.lpn {
            // From now on the OOB of the page names this logical page, whose map entry needs no bind mark.
            store.remove_content_record_later(ContentRecordKey::MapEntryWithoutProgramOf(owner));
            store.remove_content_record_later(ContentRecordKey::UnitWithWriterMappedElsewhere(place.into()));
        } else {
            if is_recordable {
                // With its new sequence number the entry would also deallocate a source page that was written again
                // after the old entry.
                let source = entry
                    .relocation_source_or_range_end
                    .filter(|_| sharing.liveness_of(mapping, &entry).is_tombstone_needed);
                mapping.record_gc_move(entry.lpn, store.map_entry_if_mapped_without_program(to.into()));
                sharing.mark_mapped_without_program(entry.lpn);
                let sequence = store.take_next_sequence_number();
                return sharing.record_entry(
                    mapping,
                    store,
                    ReverseMapEntry {
                        mapped_ppn: Some(to),
                        relocation_source_or_range_end: source,
                        sequence_number: sequence,
                        ..entry
                    },
                );
            }
            self.store_unshared_copy(entry.lpn, to)?;
        }
        self.record_tombstone_of_remap_source(entry, pool, is_recordable)
    }

    /// Records a tombstone (record of a deallocation) for the logical page that was the source of a remap command in
    /// mode relocate, if its deallocation must still be recorded. Called when the reverse-map entry of the command,
    /// `entry`, is no longer needed for the target page.
    fn record_tombstone_of_remap_source(
        &mut self,
        entry: ReverseMapEntry,
        pool: u32,
        is_recordable: bool,
    ) -> Result<()> {
        let need = self.sharing.as_ref().map(|sharing| sharing.liveness_of(&self.mapping, &entry));
        match need.and_then(|need| EntryLiveness { is_mapping_live: false, ..need }.live_part_of(entry)) {
            Some(tombstone) => self.record_tombstone_again(tombstone, pool, is_recordable),
            None => Ok(()),
        }
    }

    /// Stores a copy of the shared page `at` for `lpn` alone, maps `lpn` to the copy, and removes the reference of
    /// `lpn` to `at`.
    fn store_unshared_copy(&mut self, lpn: Lpn, at: Ppn) -> Result<()> {
        let mut page = self.zero_filled_page();
        let pool = self.store.allocation_pool_of_block(self.store.block_of(at));
        let fingerprint = self.store.nand().fingerprint(at);
        match self.store.read(at, &mut page, Cause::Gc) {
            Err(error) if error.is_media_error() => {
                let ppn =
                    self.store.append_lost_page(Stream::Gc, pool, lpn.0, &[], fingerprint, Cause::Gc)?;
                self.map_to_unshared_copy(lpn, ppn);
            }
            read => {
                read?;
                self.append_unshared_page(lpn, pool, Content::of_page(&page, fingerprint), fingerprint)?;
            }
        }
        let sharing = self.sharing_state_mut();
        let still_shared = sharing.reference_counts.remove_referrer_and_check_others_remain(at.into());
        assert!(still_shared, "the OOB of the copy at {at} must name a logical page that refers to it");
        Ok(())
    }

    /// Records a tombstone (the deallocation of a logical page) again, because the victim with the reverse-map entry
    /// that records it will be erased. If the reverse map has no room, overwrites the logical page with zeros instead.
    fn record_tombstone_again(
        &mut self,
        tombstone: ReverseMapEntry,
        pool: u32,
        is_recordable: bool,
    ) -> Result<()> {
        let Self { sharing, mapping, store, .. } = self;
        let Some(sharing) = sharing else { return Ok(()) };
        if is_recordable {
            return sharing.record_entry(mapping, store, tombstone);
        }
        // The tombstone is not needed if another entry of the victim has deallocated the same page.
        if !sharing.liveness_of(mapping, &tombstone).is_tombstone_needed {
            return Ok(());
        }
        let zeros = self.zero_filled_page();
        let content = Content::of_page(&zeros, Fingerprint::ZERO_PAGE);
        self.append_unshared_page(tombstone.lpn, pool, content, Fingerprint::ZERO_PAGE)
    }

    /// Appends a page with `content` for `lpn` alone to the open block of GC copies, and maps `lpn` to this page.
    fn append_unshared_page(
        &mut self,
        lpn: Lpn,
        pool: u32,
        content: Content<'_>,
        fingerprint: Fingerprint,
    ) -> Result<()> {
        let ppn = self.store.append_page(Stream::Gc, pool, lpn.0, content, fingerprint, Cause::Gc)?;
        self.map_to_unshared_copy(lpn, ppn);
        Ok(())
    }

    /// Maps `lpn` to `ppn`, a copy made by GC that no other logical page shares, and marks the copy as valid.
    fn map_to_unshared_copy(&mut self, lpn: Lpn, ppn: Ppn) {
        self.mapping.record_gc_move(lpn, ppn.into());
        self.validity.mark_valid_in_ram(ppn);
        self.store.stats.writes_due_to_full_reverse_map += 1;
    }
}
