//! Host writes into the chunk buffer, and writing, reading and dropping members of compressed chunks.

#![expect(clippy::inline_always, reason = "measured: the way of a write costs a tenth less in one piece")]

use super::chunk::{Chunk, ChunkMember, PageToCompress, WHOLE_PAGE_SIZE_MARK, compress_chunk};
use super::{CompressionState, MAX_CHUNK_MEMBERS};
use crate::address::{Lpn, Ppn, StoredUnit};
use crate::content::compress::directory::{CHUNK_DIRECTORY_BYTES, ChunkDirectory};
use crate::content::{ContentMechanism, HostWrite, MechanismKind};
use crate::data::{Content, Fingerprint};
use crate::design::ContentParts;
use crate::error::{Error, Result};
use crate::ftl::Ftl;
use crate::lifetime::EnergyModel;
use crate::mapping::Mapping;
use crate::nand::{Nand, PageKind};
use crate::operation::Cause;
use crate::store::{ContentRecordKey, Stream};

/// Content mechanism of compression: compresses several logical pages together into a chunk.
pub(crate) struct Compression;

impl ContentMechanism for Compression {
    const KIND: MechanismKind = MechanismKind::Compression;
    const NAME: &'static str = "compress";
    const SUMMARY: &'static str =
        "Pages are compressed together in chunks (paper on integrated lifetime management).";
    const NEEDS_HASH: bool = false;
    const IS_STATELESS: bool = false;

    fn energy_per_page_in_program_energies(energy: &EnergyModel) -> f64 {
        energy.compression_energy_in_program_energies()
    }

    fn is_part_of(parts: &ContentParts) -> bool {
        parts.chunks.is_some()
    }

    fn is_on(ftl: &Ftl) -> bool {
        ftl.compression.as_ref().is_some_and(|stage| stage.is_compression_on)
    }

    fn write_buffered_pages(ftl: &mut Ftl) -> Result<()> {
        ftl.retry_after_program_failure(Ftl::write_buffered_chunk)
    }

    fn set_enabled(ftl: &mut Ftl, is_on: bool) {
        if let Some(stage) = &mut ftl.compression {
            stage.is_compression_on = is_on;
        }
    }

    /// Compresses a host write into a chunk. Returns whether the write is complete; otherwise it is offered to the next
    /// mechanism.
    #[inline(always)]
    fn offer_write(ftl: &mut Ftl, write: &HostWrite<'_>) -> Result<bool> {
        let Some(stage) = &ftl.compression else { return Ok(false) };
        if !stage.is_compression_on {
            ftl.sample_for_compression(&write.content);
            return Ok(false);
        }
        // No page is programmed now, so the turn of this pool is returned. Otherwise each page that is buffered would
        // take one turn and each page of a chunk that saves nothing another one, and half of the pools would get no
        // host pages if the number of pools is a multiple of eight.
        ftl.store.restore_next_pool(Stream::Host, write.pool);
        ftl.buffer_write_for_chunk(write.lpn, &write.content, write.fingerprint)?;
        Ok(true)
    }
}

impl Ftl {
    /// Returns the state of compression of a design that compresses.
    #[inline]
    pub(crate) fn compression_state(&self) -> &CompressionState {
        self.compression.as_deref().expect("the design compresses")
    }

    /// Returns the state of compression of a design that compresses, for changes.
    #[inline]
    pub(crate) fn compression_state_mut(&mut self) -> &mut CompressionState {
        self.compression.as_deref_mut().expect("the design compresses")
    }

    /// Adds a host write of `lpn` to the RAM buffer of the next compressed chunk. If the buffer is full then,
    /// compresses its pages and writes them to flash.
    pub(crate) fn buffer_write_for_chunk(
        &mut self,
        lpn: Lpn,
        content: &Content<'_>,
        fingerprint: Fingerprint,
    ) -> Result<()> {
        let page_bytes = self.store.geometry().page_bytes;
        let page = PageToCompress {
            lpn,
            fingerprint,
            compressed_bytes: match content {
                Content::Descriptor(_) => content.compressed_bytes().map_or(page_bytes, |bytes| bytes as u32),
                Content::Bytes(_) => page_bytes,
            },
            page_content: match content {
                Content::Bytes(bytes) => bytes.to_vec(),
                Content::Descriptor(_) => Vec::new(),
            },
            is_content_lost: false,
        };
        let mut stage = self.compression_state_mut();
        let before = stage.chunk_buffer_pages.iter().position(|pending| pending.lpn == lpn);
        if before.is_none() && stage.chunk_buffer_pages.len() == MAX_CHUNK_MEMBERS {
            // Power was lost while the full buffer was being written.
            self.write_buffered_chunk()?;
            stage = self.compression_state_mut();
        }
        let replaced = before.map(|at| stage.chunk_buffer_pages.remove(at));
        stage.chunk_buffer_pages.push(page);
        let is_full = stage.chunk_buffer_pages.len() == MAX_CHUNK_MEMBERS;
        self.store.stats.host_page_writes += 1;
        self.store.stats.compressed_chunk_writes += 1;
        if is_full {
            return self
                .write_buffered_chunk()
                .inspect_err(|_| self.undo_write_to_chunk_buffer(lpn, replaced));
        }
        Ok(())
    }

    /// Undoes a buffered write of `lpn` that failed: removes the page from the RAM buffer of the next compressed chunk,
    /// and puts `replaced`, the content acknowledged before, back.
    fn undo_write_to_chunk_buffer(&mut self, lpn: Lpn, replaced: Option<PageToCompress>) {
        self.store.stats.host_page_writes -= 1;
        self.store.stats.compressed_chunk_writes -= 1;
        let stage = self.compression_state_mut();
        stage.chunk_buffer_pages.retain(|pending| pending.lpn != lpn);
        stage.chunk_buffer_pages.extend(replaced);
    }

    /// Returns whether the newest content of `lpn` is in the RAM buffer of the next compressed chunk.
    #[inline]
    pub(crate) fn is_buffered_for_chunk(&self, lpn: Lpn) -> bool {
        self.compression.as_ref().is_some_and(|stage| stage.page_in_chunk_buffer(lpn).is_some())
    }

    /// Removes `lpn` from the RAM buffer of the next compressed chunk, if it is there: its newest content is stored
    /// elsewhere, or it was trimmed.
    #[inline(always)]
    pub(crate) fn drop_page_from_chunk_buffer(&mut self, lpn: Lpn) {
        if let Some(stage) = &mut self.compression {
            stage.chunk_buffer_pages.retain(|pending| pending.lpn != lpn);
        }
    }

    /// Reads the logical page `lpn` from the RAM buffer of the next compressed chunk. Returns `false` if the page is
    /// not in the buffer.
    pub(crate) fn read_page_from_chunk_buffer(&self, lpn: Lpn, into: &mut [u8]) -> bool {
        let Some(page) = self.compression.as_ref().and_then(|stage| stage.page_in_chunk_buffer(lpn)) else {
            return false;
        };
        if !into.is_empty() && into.len() == page.page_content.len() {
            into.copy_from_slice(&page.page_content);
        }
        true
    }

    /// Compresses the pages in the chunk buffer together and writes them to flash as a chunk of up to four pages, or as
    /// plain pages if compression saves no flash page or the tables of content mechanisms are full.
    pub(crate) fn write_buffered_chunk(&mut self) -> Result<()> {
        let Some(stage) = &self.compression else { return Ok(()) };
        if stage.chunk_buffer_pages.is_empty() {
            return Ok(());
        }
        let chunk_buffer_pages = stage.chunk_buffer_pages.len() as u64;
        if !self.has_content_table_room_else_count_pages(chunk_buffer_pages) {
            return self.write_chunk_buffer_uncompressed();
        }
        self.store.stats.controller_work.compressed_pages += chunk_buffer_pages;
        let stage = self.compression_state();
        let (pages, payload) = compress_chunk(&stage.chunk_buffer_pages, stage.page_bytes);
        let stage = self.compression_state_mut();
        stage.record_compression(pages, stage.chunk_buffer_pages.len());
        if pages >= stage.chunk_buffer_pages.len() {
            return self.write_chunk_buffer_uncompressed();
        }
        let pool = self.make_room_for_pages(Stream::Chunk, pages as u32)?;
        let stage = self.compression_state_mut();
        let mut members = std::mem::take(&mut stage.chunk_buffer_pages);
        let stored = self.append_chunk(&members, pages, &payload, pool, Cause::ContentMechanism);
        let stage = self.compression_state_mut();
        let number = match stored {
            Ok(number) => number,
            Err(error) => {
                stage.chunk_buffer_pages = members;
                return Err(error);
            }
        };
        stage.statistics.host_written_chunks += 1;
        stage.statistics.host_written_chunk_members += members.len() as u64;
        stage.statistics.host_written_chunk_pages += pages as u64;
        for (k, member) in members.iter().enumerate() {
            let unit = self.compression_state().member_unit(number, k);
            match self.change_map_entry(member.lpn, Some(unit)) {
                Ok(old) => self.release_reference(member.lpn, old),
                Err(error) => {
                    self.rebuffer_unmapped_members(number, members, k);
                    return Err(error);
                }
            }
            self.index_fingerprint_or_mark_unhashed(member.fingerprint, unit);
        }
        members.clear();
        self.compression_state_mut().chunk_buffer_pages = members;
        Ok(())
    }

    /// Puts the members of the compressed chunk `number` whose index is at least `from` back into the RAM buffer of the
    /// next chunk, because the map could not be updated for them.
    #[cold]
    fn rebuffer_unmapped_members(&mut self, number: u32, mut members: Vec<PageToCompress>, from: usize) {
        for k in from..members.len() {
            let unit = self.compression_state().member_unit(number, k);
            self.release_chunk_member(unit);
        }
        members.drain(..from);
        self.compression_state_mut().chunk_buffer_pages = members;
    }

    /// Writes the pages of the chunk buffer to flash as plain pages, because they are not compressed.
    fn write_chunk_buffer_uncompressed(&mut self) -> Result<()> {
        while let Some(page) =
            self.compression.as_ref().and_then(|stage| stage.chunk_buffer_pages.first()).cloned()
        {
            let pool = self.make_room_for_write()?;
            let ppn = self.append_uncompressed_page(&page, Stream::Host, pool, Cause::Host)?;
            match self.change_map_entry(page.lpn, Some(ppn.into())) {
                Ok(old) => self.release_reference(page.lpn, old),
                Err(error) => {
                    self.store.stats.unsuccessful_host_programs += 1;
                    self.store.write_note_of_maybe_invalid_page(ppn)?;
                    self.invalidate_page(ppn);
                    return Err(error);
                }
            }
            self.index_fingerprint_or_mark_unhashed(page.fingerprint, ppn.into());
            self.store.stats.compressed_chunk_writes -= 1;
            let stage = self.compression_state_mut();
            stage.chunk_buffer_pages.remove(0);
            stage.statistics.written_uncompressed_pages += 1;
        }
        Ok(())
    }

    /// Programs a page of the chunk buffer as a plain page in `stream`, or as a page that is marked as lost if its
    /// content is lost, and marks the flash page as valid. The caller maps the logical page.
    pub(super) fn append_uncompressed_page(
        &mut self,
        page: &PageToCompress,
        stream: Stream,
        pool: u32,
        cause: Cause,
    ) -> Result<Ppn> {
        let (lpn, fingerprint) = (page.lpn.0, page.fingerprint);
        let ppn = if page.is_content_lost {
            self.store.append_lost_page(stream, pool, lpn, &[], fingerprint, cause)?
        } else {
            let content = Content::of_page(&page.page_content, fingerprint);
            self.store.append_page(stream, pool, lpn, content, fingerprint, cause)?
        };
        self.validity.mark_valid_in_ram(ppn);
        Ok(ppn)
    }

    /// Appends the flash pages of a compressed chunk and returns the number of the chunk. The caller maps the members.
    /// After an error, the pages written so far are invalid.
    pub(super) fn append_chunk(
        &mut self,
        members: &[PageToCompress],
        pages: usize,
        payload: &[u8],
        pool: u32,
        cause: Cause,
    ) -> Result<u32> {
        let member = |page: &PageToCompress| ChunkMember {
            fingerprint: page.fingerprint,
            lpn: page.lpn,
            compressed_bytes: u16::try_from(page.compressed_bytes).unwrap_or(WHOLE_PAGE_SIZE_MARK),
        };
        let chunk = Chunk::of_members(members.iter().map(member)).with_all_members_live();
        // The number of a freed chunk may be used again, so no map entry in NVRAM may name the old chunk.
        self.mapping.store_gc_moves_in_nvram(&mut self.store)?;
        let is_kept = !payload.is_empty() || self.store.nand().keeps_bytes_of(PageKind::Chunk);
        let mut directory = is_kept.then(|| ChunkDirectory {
            creation_sequence_number: self.store.last_sequence() + 1,
            page_index: 0,
            page_count: pages as u8,
            compressed_bytes: payload.len() as u32,
            members: members.iter().map(member).collect(),
        });
        let stage = self.compression_state_mut();
        let number = stage.insert_chunk(chunk, payload.len() as u32);
        for k in 0..pages {
            let page = directory.as_mut().map_or_else(Vec::new, |directory| {
                directory.page_index = k as u8;
                self.encode_chunk_page(directory, payload)
            });
            let content = Content::of_page(&page, Fingerprint::default());
            match self.store.append_page(Stream::Chunk, pool, number, content, Fingerprint::default(), cause)
            {
                Ok(ppn) => self.compression_state_mut().add_chunk_page(number, k, ppn),
                Err(error) => {
                    self.release_chunk(number);
                    return Err(error);
                }
            }
        }
        let Self { compression, store, .. } = self;
        let stage = compression.as_ref().expect("the design compresses");
        (0..pages).try_for_each(|k| store.put_content_record(stage.chunk_page_record(number, k)))?;
        Ok(number)
    }

    /// Encodes a page of a compressed chunk and its spare area, for a medium that keeps them. Leaves the chunk
    /// directory out if the spare area has no room for it.
    fn encode_chunk_page(&self, directory: &ChunkDirectory, payload: &[u8]) -> Vec<u8> {
        let geometry = self.store.geometry();
        let mut page = directory.encode_page(payload, geometry.page_bytes as usize);
        if geometry.spare_bytes as usize >= CHUNK_DIRECTORY_BYTES {
            page.extend(directory.encode_spare_area());
        }
        page
    }

    /// Deletes the compressed chunk `number`: invalidates its flash pages and makes its number usable again.
    fn release_chunk(&mut self, number: u32) {
        let Self { compression, store, .. } = self;
        let stage = compression.as_mut().expect("the design compresses");
        let chunk = std::mem::replace(&mut stage.chunks[number as usize], Chunk::EMPTY);
        if stage.defers_reuse_of_chunk_numbers {
            stage.chunk_numbers_freed_since_sync.push(number);
        } else {
            stage.free_chunk_numbers.push(number);
        }
        stage.chunk_page_count -= chunk.pages().len() as u64;
        for (k, &ppn) in (0..).zip(chunk.pages()) {
            store.count_page_invalid(ppn);
            store.remove_content_record_later(ContentRecordKey::ChunkPage(number, k));
        }
    }

    /// Marks the compressed chunk member `unit`, whose last referring logical page is gone, as dead. Frees the chunk
    /// with its last live member.
    pub(crate) fn release_chunk_member(&mut self, unit: StoredUnit) {
        let stage = self.compression.as_mut().expect("the design compresses");
        let (number, member) = stage.chunk_and_member_of(unit);
        let chunk = &mut stage.chunks[number as usize];
        let excess = chunk.excess_chunk_pages();
        assert!(chunk.is_member_live(member), "member {unit} of compressed chunk is released twice");
        chunk.set_member_live(member, false);
        if chunk.live_member_count() == 0 {
            stage.excess_chunk_pages -= excess;
            return self.release_chunk(number);
        }
        let now = chunk.excess_chunk_pages();
        self.store.put_content_record_later(stage.chunk_page_record(number, 0));
        stage.excess_chunk_pages += now - excess;
        if now > 0 && excess == 0 {
            stage.add_wasteful_chunk(number);
        }
    }

    /// Reads the content of the compressed chunk member `unit` into `into`: reads all flash pages of the chunk and
    /// decompresses them.
    pub(crate) fn read_chunk_member(
        &mut self,
        unit: StoredUnit,
        into: &mut [u8],
        cause: Cause,
    ) -> Result<()> {
        let (number, member) = self.compression_state().chunk_and_member_of(unit);
        let whole = self.read_chunk(number, !into.is_empty(), cause)?;
        if let Some(bytes) = whole.get(member * into.len()..(member + 1) * into.len()) {
            into.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Reads and decompresses the compressed chunk `number`. Returns the contents of its members one after the other,
    /// or nothing if the caller wants no bytes or the medium keeps none.
    pub(super) fn read_chunk(&mut self, number: u32, wants_bytes: bool, cause: Cause) -> Result<Vec<u8>> {
        let stage = self.compression_state();
        let chunk = stage.chunks[number as usize];
        let payload_bytes = stage.chunk_payload_bytes_of(number) as usize;
        let page_bytes = stage.page_bytes as usize;
        let wants_bytes = wants_bytes && payload_bytes > 0 && self.store.nand().keeps_host_bytes();
        let mut compressed = vec![0; if wants_bytes { chunk.pages().len() * page_bytes } else { 0 }];
        for (k, &ppn) in chunk.pages().iter().enumerate() {
            let into =
                if wants_bytes { &mut compressed[k * page_bytes..(k + 1) * page_bytes] } else { &mut [] };
            self.store.read(ppn, into, cause)?;
        }
        self.store.stats.controller_work.decompressed_pages += chunk.member_count() as u64;
        if !wants_bytes {
            return Ok(Vec::new());
        }
        let damaged = |error: &dyn std::fmt::Display| {
            let pages = chunk.pages().iter().map(Ppn::to_string).collect::<Vec<_>>().join(", ");
            Error::Damaged(format!(
                "the compressed chunk {number} on the flash pages {pages} must be one that can be decompressed, but \
                 is not: {error}"
            ))
        };
        let compressed = compressed.get(..payload_bytes).ok_or_else(|| {
            damaged(&"its flash pages must hold the bytes that its directory states, but hold fewer")
        })?;
        lz4_flex::block::decompress(compressed, chunk.member_count() * page_bytes)
            .map_err(|error| damaged(&error))
    }
}
