//! TRIM: deallocates logical pages, and records the deallocation if a power loss could otherwise bring their contents
//! back.

use crate::address::Lpn;
use crate::data::{Content, Fingerprint};
use crate::error::Result;
use crate::ftl::Ftl;
use crate::mapping::Mapping;
use crate::nand::Nand;

impl Ftl {
    /// Deallocates one logical page, which then reads as zeros. Recycling can still reuse the content of its physical
    /// page until the block is erased.
    ///
    /// # Errors
    /// Those of [`Ftl::read`].
    pub fn trim(&mut self, lpn: Lpn) -> Result<()> {
        self.trim_range(lpn, 1)
    }

    /// Deallocates `pages` logical pages from `first` on. A design whose trims are durable records one tombstone
    /// (durable record of a trim) for the whole range.
    ///
    /// # Errors
    /// Those of [`Ftl::trim`]; pages before the one that failed may be deallocated already.
    pub fn trim_range(&mut self, first: Lpn, pages: u32) -> Result<()> {
        if pages == 0 {
            return Ok(());
        }
        let last = Lpn(first.0.saturating_add(pages - 1));
        self.require_in_range(last)?;
        if self.mapping.identifies_invalid_pages_late() {
            return self.trim_and_write_map(first, last);
        }
        self.retry_after_program_failure(Self::make_room_for_metadata)?;
        let is_recorded = self.record_tombstone(first, last)?;
        self.mapping.begin_trim(first, last);
        let mut lpns = (first.0..=last.0).map(Lpn);
        let trimmed =
            lpns.try_for_each(|lpn| self.retry_after_program_failure(|ftl| ftl.trim_page(lpn, is_recorded)));
        self.mapping.end_trim();
        trimmed
    }

    /// Trims the logical pages `first` to `last` on a lazy map (which identifies invalid pages late). Each step writes
    /// changed translation pages to flash at once, and invalidates the old physical pages that the map identifies.
    fn trim_and_write_map(&mut self, first: Lpn, last: Lpn) -> Result<()> {
        let mut next = first;
        while next <= last {
            let done = self.retry_after_program_failure(|ftl| {
                ftl.make_room_for_metadata()?;
                ftl.mapping.trim_in_one_translation_page(&mut ftl.store, next, last)
            })?;
            self.invalidate_identified_pages();
            if let Some(done) = done {
                self.store.stats.host_page_trims += u64::from(done.0 - next.0 + 1);
                next = Lpn(done.0 + 1);
            }
        }
        self.retry_after_program_failure(Self::make_room_for_metadata)
    }

    /// Deallocates `lpn` in the map. `is_recorded` states whether the trim is already durable or need not be. If it is
    /// `false`, a mapped page is overwritten with zeros instead.
    fn trim_page(&mut self, lpn: Lpn, is_recorded: bool) -> Result<()> {
        self.make_room_for_metadata()?;
        if !is_recorded && self.mapping.lookup_without_caching(&mut self.store, lpn)?.is_some() {
            self.overwrite_with_zeros(lpn)?;
        } else {
            let old = self.change_map_entry(lpn, None)?;
            self.drop_page_from_chunk_buffer(lpn);
            self.release_reference(lpn, old);
        }
        self.store.stats.host_page_trims += 1;
        Ok(())
    }

    /// Trims `lpn` by overwriting it with a page of zeros, because no tombstone (durable record of the trim) could be
    /// stored.
    fn overwrite_with_zeros(&mut self, lpn: Lpn) -> Result<()> {
        let pool = self.make_room_for_write()?;
        let zeros = self.zero_filled_page();
        self.append_and_map_host_page(
            lpn,
            pool,
            Content::of_page(&zeros, Fingerprint::ZERO_PAGE),
            Fingerprint::ZERO_PAGE,
        )?;
        self.store.stats.host_page_writes -= 1;
        self.store.stats.trimmed_pages_written_as_zeros += 1;
        Ok(())
    }

    /// Returns a page of zeros, or an empty vector if the medium keeps no bytes.
    pub(crate) fn zero_filled_page(&self) -> Vec<u8> {
        vec![
            0;
            if self.store.nand().keeps_host_bytes() { self.store.geometry().page_bytes as usize } else { 0 }
        ]
    }
}
