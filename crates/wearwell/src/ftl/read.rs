//! The host read path: reads a logical page, a run of logical pages, or a unit (physical page or member of a compressed
//! chunk).

use crate::address::{Lpn, Ppn, StoredUnit, is_flash_page};
use crate::data::Fingerprint;
use crate::error::{Error, Result};
use crate::ftl::{Ftl, stored_fingerprint};
use crate::mapping::{AnyMapping, Mapping};
use crate::operation::Cause;

impl Ftl {
    /// Reads one logical page. Returns `false` if the page was never written or is trimmed; the page then reads as
    /// zeros. `into` is one page long, or empty if the caller does not need the bytes; it is filled only if the medium
    /// keeps bytes. If it is empty on a medium that keeps bytes, a delta that is merged because its page is read often
    /// costs up to two more flash reads: those of base and delta.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::LogicalPageLost`], power loss. A demand-paged mapping may have to write
    /// translation pages first; a full device reads without writing them.
    #[inline]
    pub fn read(&mut self, lpn: Lpn, into: &mut [u8]) -> Result<bool> {
        self.require_in_range(lpn)?;
        if self.is_buffered_for_chunk(lpn) {
            self.store.stats.host_page_reads += 1;
            return Ok(self.read_page_from_chunk_buffer(lpn, into));
        }
        let place = self.look_up_unit(lpn)?;
        self.store.stats.host_page_reads += 1;
        let found = self
            .read_stored_page(lpn, place, into)
            .map_err(|error| error.convert_uncorrectable_to_lost_page(lpn))?;
        self.store.stats.unwritten_page_reads += u64::from(!found);
        if self.delta.is_some() {
            self.count_host_read_and_merge_delta_if_hot(lpn, into)?;
        }
        Ok(found)
    }

    /// Reads whole logical pages from `first` on, as many as fit `into`, on a medium that keeps bytes. The result is
    /// that of one [`Ftl::read`] per page. If the map is a table in RAM and each logical page has a flash page of its
    /// own, runs of mapped pages are read from the medium in one call.
    ///
    /// # Errors
    /// Those of [`Ftl::read`], for the first page that cannot be read.
    pub fn read_pages(&mut self, first: Lpn, into: &mut [u8]) -> Result<()> {
        let page_bytes = self.store.geometry().page_bytes as usize;
        let is_direct = matches!(self.mapping, AnyMapping::Flat(_))
            && self.delta.is_none()
            && self.compression.is_none()
            && self.max_metadata_pages() == 0;
        let mut places = Vec::new();
        let mut done = 0;
        while done < into.len() / page_bytes {
            let lpn = Lpn(first.0 + done as u32);
            let rest = &mut into[done * page_bytes..];
            if is_direct {
                places.clear();
                self.list_pages_until_unmapped(lpn, rest.len() / page_bytes, &mut places)?;
            }
            if places.is_empty() {
                self.read(lpn, &mut rest[..page_bytes])?;
                done += 1;
                continue;
            }
            let (read, outcome) = self.store.read_pages(&places, &mut rest[..places.len() * page_bytes]);
            self.store.stats.host_page_reads += read as u64 + u64::from(outcome.is_err());
            if let Some(stage) = &mut self.recycle {
                places[..read].iter().for_each(|&ppn| stage.recycler.count_read(ppn));
            }
            outcome.map_err(|error| error.convert_uncorrectable_to_lost_page(Lpn(lpn.0 + read as u32)))?;
            done += places.len();
        }
        Ok(())
    }

    /// Appends to `places` the physical pages of the logical pages from `first` on: at most `most` pages, up to the
    /// first unmapped logical page.
    fn list_pages_until_unmapped(&mut self, first: Lpn, most: usize, places: &mut Vec<Ppn>) -> Result<()> {
        for lpn in (first.0..).take(most).map(Lpn) {
            self.require_in_range(lpn)?;
            let Some(unit) = self.mapping.lookup(&mut self.store, lpn)? else { break };
            places.push(Ppn(unit.0));
        }
        Ok(())
    }

    /// Reads the old content of a logical page for a partial write (read-modify-write). Differs from [`Ftl::read`] in
    /// that it counts no host read.
    pub(crate) fn read_for_modify(&mut self, lpn: Lpn, into: &mut [u8]) -> Result<bool> {
        self.require_in_range(lpn)?;
        if self.read_page_from_chunk_buffer(lpn, into) {
            return Ok(true);
        }
        let place = self.look_up_unit(lpn)?;
        self.read_stored_page(lpn, place, into).map_err(|error| error.convert_uncorrectable_to_lost_page(lpn))
    }

    /// Returns the unit (physical page or member of a compressed chunk) to which `lpn` is mapped; `None` if `lpn` is
    /// unmapped. On a device that is full or has lost a metadata page, which cannot write translation pages any more,
    /// the look-up writes and caches nothing, so that reads still work.
    #[inline]
    fn look_up_unit(&mut self, lpn: Lpn) -> Result<Option<StoredUnit>> {
        match self.make_room_for_metadata() {
            Ok(()) => self.mapping.lookup(&mut self.store, lpn),
            Err(error) if matches!(error, Error::Full { .. }) || error.is_media_error() => {
                self.mapping.lookup_without_caching(&mut self.store, lpn)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the content of `lpn`, which is stored in `place`, into `into`, and applies the delta of the page if there
    /// is one. Returns `false` if `place` is `None`: nothing is stored, and the page reads as zeros.
    fn read_stored_page(&mut self, lpn: Lpn, place: Option<StoredUnit>, into: &mut [u8]) -> Result<bool> {
        let Some(unit) = place else {
            into.fill(0);
            return Ok(false);
        };
        if self.delta.as_ref().is_some_and(|stage| stage.has_delta_bytes(lpn)) {
            // If the medium keeps only a description of the base page, the base counts as zeros, as when the delta was
            // computed.
            into.fill(0);
        }
        self.read_unit(unit, into, Cause::Host)?;
        if self.delta.is_some() {
            self.apply_delta_if_any(lpn, into, Cause::Host)?;
        }
        if let Some(stage) = &mut self.recycle
            && is_flash_page(unit, self.store.geometry().pages())
        {
            stage.recycler.count_read(Ppn(unit.0));
        }
        Ok(true)
    }

    /// Reads the content of a unit: a physical page, or a logical page stored in a compressed chunk (chunk member).
    #[inline]
    pub(crate) fn read_unit(&mut self, unit: StoredUnit, into: &mut [u8], cause: Cause) -> Result<()> {
        if self.compression.is_some() && !is_flash_page(unit, self.store.geometry().pages()) {
            return self.read_chunk_member(unit, into, cause);
        }
        self.store.read(Ppn(unit.0), into, cause).map(drop)
    }

    /// Returns the fingerprint of the content of `unit`. It is read from the OOB of a physical page, or from the chunk
    /// table for a member of a compressed chunk.
    #[inline]
    pub(crate) fn fingerprint_of_unit(&self, unit: StoredUnit) -> Fingerprint {
        stored_fingerprint(&self.store, self.compression.as_deref(), unit)
    }

    /// Returns the fingerprint of the current content of `lpn`, even if its newest version is a delta or is still
    /// buffered in RAM; `None` if `lpn` is unmapped. By it a simulation without page bytes compares contents. `page`
    /// holds the bytes of this content, which the caller has just read, or is empty on a medium that keeps no bytes. A
    /// demand-paged map may have to read a translation page, and to write others first.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], power loss, a translation page that cannot be read.
    pub fn current_fingerprint_of(&mut self, lpn: Lpn, page: &[u8]) -> Result<Option<Fingerprint>> {
        self.require_in_range(lpn)?;
        if let Some(pending) =
            self.compression.as_ref().and_then(|stage| stage.fingerprint_in_chunk_buffer(lpn))
        {
            return Ok(Some(pending));
        }
        let place = self.look_up_unit(lpn)?;
        let of_delta = self.delta.as_ref().and_then(|stage| stage.fingerprint_of_delta_content(lpn, page));
        Ok(of_delta.or(place.map(|unit| self.fingerprint_of_unit(unit))))
    }
}
