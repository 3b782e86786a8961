//! The host write path: makes room, offers the write to the content mechanisms, appends a page, updates the L2P map,
//! and releases the old physical page.

#![expect(clippy::inline_always, reason = "measured: the way of a write costs a tenth less in one piece")]

use crate::address::{Lpn, Ppn, StoredUnit, is_flash_page};
use crate::content::{ContentMechanismsResult, HostWrite};
use crate::data::{Content, Fingerprint};
use crate::error::{Error, Result};
use crate::ftl::{Ftl, stored_fingerprint};
use crate::mapping::Mapping;
use crate::operation::Cause;
use crate::store::Stream;

impl Ftl {
    /// Retries `step` while it returns [`Error::Full`] and a program failed in between: the failure used up the
    /// reserved block, and GC may free another. Terminates because every failed program closes a block for good. `step`
    /// must change nothing when it returns `Full`.
    pub(crate) fn retry_after_program_failure<T>(
        &mut self,
        step: impl Fn(&mut Self) -> Result<T>,
    ) -> Result<T> {
        loop {
            match step(self) {
                Err(Error::Full { .. }) if self.store.take_program_failure_flag() => {}
                outcome => return outcome,
            }
        }
    }

    /// Writes `content` to the logical page `lpn`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Full`], power loss.
    #[inline(always)]
    pub fn write(&mut self, lpn: Lpn, content: Content<'_>) -> Result<()> {
        match self.try_write(lpn, content) {
            Err(Error::Full { .. }) => self.retry_write_if_program_failed(lpn, content),
            outcome => outcome,
        }
    }

    /// Repeats a host write whose first attempt returned [`Error::Full`], if a failed program was the cause
    /// ([`Ftl::retry_after_program_failure`]).
    #[cold]
    #[inline(never)]
    fn retry_write_if_program_failed(&mut self, lpn: Lpn, content: Content<'_>) -> Result<()> {
        if !self.store.take_program_failure_flag() {
            return Err(self.store.device_full_error());
        }
        self.retry_after_program_failure(|ftl| ftl.try_write(lpn, content))
    }

    /// Executes a host write once: makes room, offers the page to the content mechanisms, and programs it if none
    /// stores it.
    #[inline(always)]
    fn try_write(&mut self, lpn: Lpn, content: Content<'_>) -> Result<()> {
        self.require_in_range(lpn)?;
        if self.compression.is_some() {
            self.split_wasteful_chunks()?;
        }
        let pool = self.make_room_for_write()?;
        if !self.has_content_mechanisms() {
            return self.append_and_map_host_page(lpn, pool, content, Fingerprint::default());
        }
        let write =
            HostWrite { lpn, pool, content, fingerprint: self.compute_fingerprint_and_count_hash(&content) };
        let ContentMechanismsResult { is_complete, receiving_mechanism_count: seen } =
            self.offer_to_mechanisms(&write)?;
        if !is_complete {
            self.append_and_map_host_page(lpn, pool, content, write.fingerprint)?;
        }
        self.do_work_after_write_in_mechanisms(seen)
    }

    /// Returns the fingerprint of a page to be written. If this design looks up fingerprints, counts one hashed page;
    /// deduplication and recycling use the same hash.
    #[inline]
    fn compute_fingerprint_and_count_hash(&mut self, content: &Content<'_>) -> Fingerprint {
        let fingerprint = content.fingerprint();
        self.store.stats.controller_work.hashed_pages += u64::from(self.must_hash_content(fingerprint));
        fingerprint
    }

    /// Programs a physical page of host data and maps `lpn` to it. An older content of `lpn` in the buffer of the next
    /// compressed chunk is dropped.
    #[inline(always)]
    pub(crate) fn append_and_map_host_page(
        &mut self,
        lpn: Lpn,
        pool: u32,
        content: Content<'_>,
        fingerprint: Fingerprint,
    ) -> Result<()> {
        let ppn = self.store.append_page(Stream::Host, pool, lpn.0, content, fingerprint, Cause::Host)?;
        self.validity.mark_valid_in_ram(ppn);
        let old = match self.mapping.update(&mut self.store, lpn, Some(ppn.into())) {
            Ok(old) => old,
            Err(error) => {
                self.store.stats.unsuccessful_host_programs += 1;
                self.store.write_note_of_maybe_invalid_page(ppn)?;
                self.invalidate_page(ppn);
                return Err(error);
            }
        };
        self.store.stats.host_page_writes += 1;
        if let Some(stage) = &mut self.recycle {
            stage.recycler.record_page_programmed(lpn, ppn);
        }
        self.release_reference(lpn, old);
        self.index_fingerprint_or_mark_unhashed(fingerprint, ppn.into());
        self.drop_page_from_chunk_buffer(lpn);
        Ok(())
    }

    /// Adds the content of a newly stored unit (physical page or member of a compressed chunk) to the content index,
    /// the hash table by which deduplication finds stored contents. If the content was not hashed, marks the unit so
    /// that recycling ignores it.
    #[inline]
    pub(crate) fn index_fingerprint_or_mark_unhashed(&mut self, fingerprint: Fingerprint, unit: StoredUnit) {
        if self.sharing.is_none() && self.recycle.is_none() {
            return;
        }
        if !self.must_hash_content(fingerprint) {
            self.mark_unhashed(unit);
        } else if self.sharing.is_some() {
            self.insert_into_content_index(fingerprint, unit);
        }
    }

    /// Adds a newly stored unit (physical page or member of a compressed chunk) to the content index of deduplication,
    /// if the device has one.
    #[inline(never)]
    fn insert_into_content_index(&mut self, fingerprint: Fingerprint, unit: StoredUnit) {
        let Self { sharing, store, compression, .. } = self;
        if let Some(index) = sharing.as_mut().and_then(|sharing| sharing.content_index.as_mut()) {
            index.insert(fingerprint, unit, |unit| stored_fingerprint(store, compression.as_deref(), unit));
        }
    }

    /// Marks a physical page that was just programmed as not hashed: recycling cannot find this page by its content
    /// after it is invalidated.
    #[cold]
    fn mark_unhashed(&mut self, unit: StoredUnit) {
        if let Some(stage) = &mut self.recycle
            && is_flash_page(unit, self.store.geometry().pages())
        {
            stage.recycler.mark_unhashed(Ppn(unit.0));
        }
    }
}
