//! Splitting and repacking of compressed chunks: wasteful ones, and those in a GC victim.

use super::chunk::{ChunkMember, PageToCompress, WHOLE_PAGE_SIZE_MARK, compress_chunk};
use super::{CompressionState, MAX_CHUNK_MEMBERS};
use crate::address::{BlockId, Lpn, Ppn, StoredUnit};
use crate::data::Fingerprint;
use crate::error::Result;
use crate::ftl::Ftl;
use crate::gc::CopyBatch;
use crate::mapping::Mapping;
use crate::operation::Cause;
use crate::sharing::reverse_map::{AnyReverseMap, ReverseMapEntry};
use crate::store::{ContentRecord, ContentRecordKey, PagesToCopy, Stream};
use crate::tables::prefetch::load_into_cpu_cache;

impl Ftl {
    /// Splits compressed chunks that take more flash pages than they have live members, until the excess pages of all
    /// chunks together are within their limit. Rewrites the live members as plain pages.
    #[inline]
    pub(crate) fn split_wasteful_chunks(&mut self) -> Result<()> {
        if self.compression.as_ref().is_some_and(|stage| stage.exceeds_max_excess_chunk_pages()) {
            self.split_chunks_until_excess_pages_are_within_limit()
        } else {
            Ok(())
        }
    }

    /// Splits wasteful compressed chunks (those with more flash pages than live members) into uncompressed pages, until
    /// the sum of the excess pages of all chunks is within its limit.
    #[cold]
    fn split_chunks_until_excess_pages_are_within_limit(&mut self) -> Result<()> {
        while self.compression.as_ref().is_some_and(|stage| stage.exceeds_max_excess_chunk_pages()) {
            // Room is made first, for as many members as such a chunk can have, because making it may repack chunks.
            let pool = self.make_room_for_pages(Stream::Host, MAX_CHUNK_MEMBERS as u32 - 2)?;
            let Some(number) = self.compression.as_mut().and_then(find_chunk_to_split) else { return Ok(()) };
            for (unit, page) in self.load_live_chunk_members(number, Cause::ContentMechanism)? {
                let ppn =
                    self.append_uncompressed_page(&page, Stream::Host, pool, Cause::ContentMechanism)?;
                self.compression_state_mut().statistics.pages_written_by_splits += 1;
                self.move_chunk_member_referrers(unit, ppn.into())?;
            }
            self.compression_state_mut().statistics.split_chunks += 1;
        }
        // The pages of the split chunks are invalid now and may be erased, so recovery must not need them.
        self.mapping.store_gc_moves_in_nvram(&mut self.store)
    }

    /// Reads the compressed chunk `number` and returns its live members with their content. All members are marked as
    /// lost if one flash page of the chunk is unreadable, because they are compressed together.
    fn load_live_chunk_members(
        &mut self,
        number: u32,
        cause: Cause,
    ) -> Result<Vec<(StoredUnit, PageToCompress)>> {
        let (whole, is_lost) = match self.read_chunk(number, true, cause) {
            Err(error) if error.is_media_error() => (Vec::new(), true),
            read => (read?, false),
        };
        let stage = self.compression_state();
        let page_bytes = stage.page_bytes as usize;
        let load = |(k, member): (usize, ChunkMember)| {
            let bytes = whole.get(k * page_bytes..(k + 1) * page_bytes).unwrap_or_default().to_vec();
            let ChunkMember { lpn, fingerprint, compressed_bytes } = member;
            let is_whole = compressed_bytes == WHOLE_PAGE_SIZE_MARK;
            let compressed_bytes = if is_whole { page_bytes as u32 } else { compressed_bytes.into() };
            (
                stage.member_unit(number, k),
                PageToCompress {
                    lpn,
                    fingerprint,
                    compressed_bytes,
                    page_content: bytes,
                    is_content_lost: is_lost,
                },
            )
        };
        Ok(stage.chunks[number as usize].live_members().map(load).collect())
    }

    /// Maps every logical page that is mapped to the compressed chunk member `from` to `to`, which holds equal content.
    /// Then drops the member `from`.
    fn move_chunk_member_referrers(&mut self, from: StoredUnit, to: StoredUnit) -> Result<()> {
        let writer = self.compression_state().writer_lpn_of(from);
        let fingerprint = self.fingerprint_of_unit(from);
        let Self { sharing, mapping, store, .. } = self;
        if store.are_change_notes_full() {
            mapping.store_gc_moves_in_nvram(store)?;
        }
        store.write_note_of_replaced_unit(from)?;
        let mut writer_refers = true;
        if let Some(sharing) = sharing {
            let AnyReverseMap::Ideal(ideal) = &sharing.reverse_map else {
                unreachable!("members are bound in RAM only")
            };
            let binders = ideal.entries_at(Ppn(from.0));
            writer_refers = binders.len() as u32 <= sharing.reference_counts.referrers_beyond_first(from);
            for entry in binders {
                sharing.unmark_mapped_without_program(store, entry.lpn, from);
                mapping.record_gc_move(entry.lpn, store.map_entry_if_mapped_without_program(to));
                sharing.mark_mapped_without_program(entry.lpn);
                let entry = ReverseMapEntry {
                    mapped_ppn: Some(Ppn(to.0)),
                    sequence_number: store.take_next_sequence_number(),
                    ..entry
                };
                sharing.record_entry(mapping, store, entry)?;
            }
            sharing.reference_counts.move_reference_count(from, to);
            if let Some(index) = &mut sharing.content_index {
                index.replace_unit(fingerprint, from, to);
            }
        }
        if writer_refers {
            mapping.record_gc_move(writer, to);
        }
        if !writer_refers {
            store.put_content_record_later(ContentRecord::UnitWithWriterMappedElsewhere { unit: to });
            store.remove_content_record_later(ContentRecordKey::UnitWithWriterMappedElsewhere(from));
        }
        self.release_chunk_member(from);
        Ok(())
    }

    /// Moves the flash pages of compressed chunks out of a victim block. A chunk with dead members is repacked from its
    /// live members if these are no more than the chunk's flash pages in the victim. All other pages are copied
    /// unchanged.
    pub(crate) fn move_chunks(&mut self, victim: BlockId, pool: u32, cause: Cause) -> Result<()> {
        let pages = self.live_delta_or_chunk_pages(victim);
        let numbers = self.chunks_to_repack(&pages, pool);
        self.prefetch_for_moves_of_chunk_members(&numbers);
        for number in numbers {
            self.repack_chunk(number, pool, cause)?;
        }
        let mut batch =
            CopyBatch { source_pages: self.live_delta_or_chunk_pages(victim), ..CopyBatch::default() };
        batch.owners.extend(batch.source_pages.iter().map(|&ppn| self.store.owner_in_oob(ppn)));
        let moves = PagesToCopy { source_pages: &batch.source_pages, owners: &batch.owners };
        let outcome = self.store.copy_pages(moves, Stream::Chunk, pool, cause, &mut batch.destination_pages);
        for ((&from, &number), &to) in
            batch.source_pages.iter().zip(&batch.owners).zip(&batch.destination_pages)
        {
            let stage = self.compression.as_mut().expect("the design compresses");
            let pages = &mut stage.chunks[number.index()].pages;
            let k = pages.iter().position(|&page| page == from).expect("a packed page belongs to its chunk");
            pages[k] = to;
            self.store.put_content_record_later(stage.chunk_page_record(number.0, k));
        }
        self.store.lower_valid_count(victim, batch.destination_pages.len() as u32);
        outcome
    }

    /// Returns the numbers of the compressed chunks that GC packs anew: those with dead members, and with at most as
    /// many live members as flash pages among the victim's `pages`. At most as many members are chosen as the open
    /// block for GC copies has free pages, because each of them may become a plain page.
    fn chunks_to_repack(&self, pages: &[Ppn], pool: u32) -> Vec<u32> {
        let stage = self.compression_state();
        let mut numbers: Vec<u32> = pages.iter().map(|&ppn| self.store.owner_in_oob(ppn).0).collect();
        numbers.sort_unstable();
        load_into_cpu_cache(numbers.iter().map(|&number| stage.chunks[number as usize].pages[0].0.into()));
        let mut room_pages = self.store.open_block_pages_left(Stream::Gc, pool) as usize;
        let mut chosen = Vec::new();
        for same in numbers.chunk_by(|a, b| a == b) {
            let chunk = &stage.chunks[same[0] as usize];
            let live = chunk.live_member_count();
            if live < chunk.member_count() && live <= same.len().min(room_pages) {
                room_pages -= live;
                chosen.push(same[0]);
            }
        }
        chosen
    }

    /// Prefetches into the CPU cache the entries of map and sharing tables that moving the live members of the
    /// compressed chunks `numbers` will need ([`crate::tables::prefetch`]).
    fn prefetch_for_moves_of_chunk_members(&self, numbers: &[u32]) {
        let stage = self.compression_state();
        let members_of = |&number: &u32| {
            let members = stage.chunks[number as usize].live_members();
            members.map(move |(k, member)| (stage.member_unit(number, k), member))
        };
        let members: Vec<(StoredUnit, ChunkMember)> = numbers.iter().flat_map(members_of).collect();
        let writers: Vec<Lpn> = members.iter().map(|(_, member)| member.lpn).collect();
        self.mapping.prefetch(&writers);
        if let Some(sharing) = &self.sharing {
            let (units, contents): (Vec<StoredUnit>, Vec<Fingerprint>) =
                members.iter().map(|(unit, member)| (*unit, member.fingerprint)).unzip();
            sharing.prefetch_sharing_table_entries(&writers, &units, &contents);
        }
    }

    /// Stores the live members of the compressed chunk `number` again: as a new chunk if that saves a page, otherwise
    /// as plain pages.
    fn repack_chunk(&mut self, number: u32, pool: u32, cause: Cause) -> Result<()> {
        let members = self.load_live_chunk_members(number, cause)?;
        let (units, pending): (Vec<StoredUnit>, Vec<PageToCompress>) = members.into_iter().unzip();
        let (pages, payload) = compress_chunk(&pending, self.store.geometry().page_bytes);
        if pages < pending.len() && !pending.iter().any(|page| page.is_content_lost) {
            let new = self.append_chunk(&pending, pages, &payload, pool, cause)?;
            for (k, &unit) in units.iter().enumerate() {
                let to = self.compression_state().member_unit(new, k);
                self.move_chunk_member_referrers(unit, to)?;
            }
        } else {
            for (page, &unit) in pending.iter().zip(&units) {
                let ppn = self.append_uncompressed_page(page, Stream::Gc, pool, cause)?;
                self.move_chunk_member_referrers(unit, ppn.into())?;
            }
        }
        self.compression_state_mut().statistics.repacked_chunks += 1;
        Ok(())
    }
}

/// Returns the number of the compressed chunk to split next: of the wasteful chunks (more flash pages than live
/// members), the one that became wasteful last. Removes chunks that stopped being wasteful from the end of the list.
/// `None` if the excess pages of all chunks are within their limit, or if the list is empty.
fn find_chunk_to_split(stage: &mut Box<CompressionState>) -> Option<u32> {
    while stage.exceeds_max_excess_chunk_pages() {
        let number = *stage.wasteful_chunks.last()?;
        if stage.chunks[number as usize].excess_chunk_pages() > 0 {
            return Some(number);
        }
        stage.wasteful_chunks.pop();
    }
    None
}
