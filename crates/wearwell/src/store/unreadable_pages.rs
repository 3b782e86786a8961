//! Pages whose data cannot be read: those known to be unreadable, and those that are programmed as lost.
//!
//! A page that cannot be read must not block garbage collection, and no reader may get an older version of its data. So
//! GC moves it like any other page, and its copy is *programmed as lost* ([`Nand::program_page_marked_lost`]): the OOB
//! carries owner, sequence number and generation, and every read of the data returns an uncorrectable error. Map, page
//! validity, reference counts and recovery treat the copy as a valid page; only a read of its data fails. The mark is
//! as durable as data, and newer than every older copy. An overwrite or a trim heals the logical page, because it makes
//! the copy invalid.
//!
//! The price: one page of flash per lost page until the host heals it.

use super::{FlashPageStore, Frontier, Stream};
use crate::address::{BlockId, Lpn, Ppn};
use crate::data::Fingerprint;
use crate::error::{Error, Result};
use crate::nand::{Nand, NandError, Oob};
use crate::operation::{Cause, OpKind};

impl FlashPageStore {
    /// Whether the data of the page at `ppn` is known to be unreadable.
    #[inline]
    pub fn is_unreadable(&self, ppn: Ppn) -> bool {
        !self.unreadable_pages.is_empty() && self.unreadable_pages.contains(&ppn)
    }

    /// Returns the pages in use that are known to be unreadable, in no particular order.
    pub fn unreadable_pages(&self) -> impl Iterator<Item = Ppn> + '_ {
        self.unreadable_pages.iter().copied()
    }

    /// Handles a failed read of `ppn` and returns the error for the caller. If the page is uncorrectable, the read is
    /// counted and the page is recorded as unreadable.
    #[cold]
    pub(super) fn record_read_failure(&mut self, ppn: Ppn, error: NandError, cause: Cause) -> Error {
        if matches!(error, NandError::Uncorrectable(_)) {
            self.stats.reads[cause as usize] += 1;
            self.record_operation(OpKind::Read, ppn, cause);
            self.record_unreadable_page(ppn);
        }
        match (error, metadata_name_of_cause(cause)) {
            (NandError::Uncorrectable(ppn), Some(metadata)) => Error::MetadataLost { ppn, metadata },
            (error, _) => error.into(),
        }
    }

    /// Records that the data of the page in use at `ppn` cannot be read, for callers that read the medium themselves
    /// instead of through the block manager.
    pub fn report_unreadable_page(&mut self, ppn: Ppn) {
        self.record_unreadable_page(ppn);
    }

    /// Adds a page to the list of unreadable pages, and counts it as a media error if it was not on the list.
    fn record_unreadable_page(&mut self, ppn: Ppn) {
        if self.unreadable_pages.insert(ppn) {
            self.stats.media_errors += 1;
            self.unreported_unreadable_pages.push(ppn);
        }
    }

    /// Returns the pages found unreadable since the last call, in the order in which they were found.
    pub fn take_found_unreadable_pages(&mut self) -> Vec<Ppn> {
        std::mem::take(&mut self.unreported_unreadable_pages)
    }

    /// Removes the pages of `block`, which is erased or retired, from the list of unreadable pages.
    pub(super) fn remove_unreadable_pages_of(&mut self, block: BlockId) {
        if !self.unreadable_pages.is_empty() {
            let (first, pages) = (self.geometry.first_page(block).0, self.geometry.block_pages());
            self.unreadable_pages.retain(|ppn| !(first..first + pages).contains(&ppn.0));
        }
    }

    /// Replaces, in a recovery, the list of unreadable pages by the pages that have a lost mark on the medium: GC
    /// programmed them in place of pages whose data could not be read.
    pub(super) fn rebuild_list_of_unreadable_pages(&mut self) {
        self.unreadable_pages = self.nand.pages_programmed_with_lost_mark().into_iter().collect();
    }

    /// Programs the next page of the write stream `stream` in `pool` (set of planes) as lost (every read of its data
    /// fails), counts it as valid and returns its PPN. A failed program is repeated in another block, as by
    /// [`FlashPageStore::append_page`].
    ///
    /// # Errors
    /// As [`FlashPageStore::append_page`].
    pub(crate) fn append_lost_page(
        &mut self,
        stream: Stream,
        pool: u32,
        owner: u32,
        spare: &[u8],
        fingerprint: Fingerprint,
        cause: Cause,
    ) -> Result<Ppn> {
        loop {
            let (index, oob) = self.prepare_program(stream, pool, owner, fingerprint)?;
            if let Some(place) = self.program_page_as_lost(index, oob, spare, cause)? {
                return Ok(place);
            }
        }
    }

    /// Copies, for GC, a page whose data cannot be read: the copy is programmed as lost, so that every read of its data
    /// fails. Appends the PPN of the copy to `places`. Returns the number of copies made: 0 if the program failed,
    /// otherwise 1.
    #[cold]
    pub(super) fn copy_unreadable_page(
        &mut self,
        from: Ppn,
        owner: Lpn,
        index: usize,
        cause: Cause,
        places: &mut Vec<Ppn>,
    ) -> Result<usize> {
        self.record_unreadable_page(from);
        let mut spare = vec![0; self.geometry.spare_bytes as usize];
        let oob = match self.nand.read_spare(from, &mut spare) {
            // The FTL's bytes in the spare area are unreadable too; the OOB is readable.
            Err(NandError::Uncorrectable(_)) => {
                spare.fill(0);
                self.nand.read_spare(from, &mut [])?
            }
            read => read?,
        };
        self.record_operation(OpKind::Read, from, cause);
        self.last_sequence += 1;
        let oob = Oob { owner: owner.0, sequence_number: self.last_sequence, ..oob };
        let place = self.program_page_as_lost(index, oob, &spare, cause)?;
        places.extend(place);
        Ok(usize::from(place.is_some()))
    }

    /// Reads into `into` the bytes that the FTL stored in the spare area of a page whose data cannot be read. Returns
    /// the OOB of the page.
    ///
    /// # Errors
    /// [`NandError::Uncorrectable`] if the spare area is unreadable too, power loss.
    pub(crate) fn read_spare_bytes(&mut self, ppn: Ppn, into: &mut [u8], cause: Cause) -> Result<Oob> {
        let oob = self.nand.read_spare(ppn, into)?;
        self.record_spare_read(ppn, cause);
        Ok(oob)
    }

    /// Programs the next page of the open block at `index` as lost (every read of its data fails), and lists it as
    /// unreadable. Returns its PPN, or `None` if the program failed.
    fn program_page_as_lost(
        &mut self,
        index: usize,
        oob: Oob,
        spare: &[u8],
        cause: Cause,
    ) -> Result<Option<Ppn>> {
        let Frontier { next_page: next, .. } = self.frontiers[index];
        let outcome = self.nand.program_page_marked_lost(next, oob, spare);
        let place = self.finish_program(index, outcome, cause)?;
        self.unreadable_pages.extend(place);
        self.stats.lost_pages += u64::from(place.is_some());
        Ok(place)
    }
}

/// Returns the name, for an error message, of the metadata that a page read under `cause` holds; `None` if the page
/// holds host data.
fn metadata_name_of_cause(cause: Cause) -> Option<&'static str> {
    match cause {
        Cause::Translation => Some("a part of the map"),
        Cause::Validity => Some("page validity"),
        Cause::RemapLog => Some("a part of the reverse map"),
        Cause::Recovery => Some("what recovery needs"),
        Cause::Host
        | Cause::Gc
        | Cause::WearLeveling
        | Cause::ContentMechanism
        | Cause::Checkpoint
        | Cause::BlockMetadata
        | Cause::Scrub => None,
    }
}
