//! Construction of a used drive without replaying its history: each page is programmed once, valid or already invalid,
//! in a layout as a long run of writes would have left it.

use crate::address::{Lpn, OptionalAddress, Ppn};
use crate::data::{Content, ContentDescriptor};
use crate::error::Result;
use crate::ftl::Ftl;
use crate::mapping::Mapping;
use crate::operation::Cause;
use crate::store::Stream;

impl Ftl {
    /// Appends one page of `lpn` to the open block for host data of `pool` (set of planes) without GC, to build a
    /// device in a known state. If `is_valid`, the page becomes the valid page of `lpn`, which must be unmapped.
    /// Otherwise the page is an older version, invalid from the start. The valid page then has to be constructed or
    /// written later, because recovery takes the newest page for the valid one. The program is counted like any other.
    ///
    /// # Errors
    /// [`Error::Full`](crate::Error::Full) if the pool has no free block.
    pub fn construct_initial_page(
        &mut self,
        pool: u32,
        lpn: Lpn,
        is_valid: bool,
        descriptor: ContentDescriptor,
    ) -> Result<()> {
        let (content, fingerprint) = (Content::Descriptor(descriptor), descriptor.fingerprint);
        let ppn = self.store.append_page(Stream::Host, pool, lpn.0, content, fingerprint, Cause::Host)?;
        if !is_valid {
            return self.mark_initial_page_dead(ppn);
        }
        let old = match self.mapping.as_demand_paged_mut() {
            Some(cached) => cached.set_entry_of_initial_drive_state(lpn, ppn.into()).to_option(),
            None => self.mapping.update(&mut self.store, lpn, Some(ppn.into()))?,
        };
        assert!(old.is_none(), "logical page {lpn} is constructed twice");
        self.index_fingerprint_or_mark_unhashed(fingerprint, ppn.into());
        self.store.stats.host_page_writes += 1;
        self.validity.mark_valid_in_ram(ppn);
        if let Some(stage) = &mut self.recycle {
            stage.recycler.record_page_programmed(lpn, ppn);
        }
        Ok(())
    }

    /// Invalidates the page `ppn`, which the construction of the initial drive state has just programmed as an outdated
    /// version, and executes deferred writes of the validity store.
    fn mark_initial_page_dead(&mut self, ppn: Ppn) -> Result<()> {
        if !self.validity.is_on_flash() {
            self.store.count_page_invalid(ppn);
            return Ok(());
        }
        self.invalidate_page(ppn);
        self.validity.write_deferred_validity_during_device_setup(&mut self.store)
    }

    /// Ends the construction of a device in a known state ([`Self::construct_initial_page`]): writes the buffered
    /// changes of an L2P map and of a validity store on flash, each metadata page once. Needs free blocks for these
    /// pages.
    ///
    /// # Errors
    /// [`Error::Full`](crate::Error::Full) if there are no free blocks for metadata pages.
    pub fn finish_initial_drive_state(&mut self) -> Result<()> {
        if let Some(cached) = self.mapping.as_demand_paged_mut() {
            cached.finish_construction(&mut self.store)?;
        }
        self.report_opened_blocks_to_validity();
        self.validity.write_records_after_device_setup(&mut self.store)?;
        if self.store.keeps_nvram_validity_notes() {
            // Constructed pages were not noted, so no report of them may be left in RAM.
            self.validity.flush_validity_buffer(&mut self.store)?;
            self.validity.write_records_after_device_setup(&mut self.store)?;
            self.store.drop_all_page_notes(self.validity.durable_until_sequence())?;
        }
        Ok(())
    }
}
