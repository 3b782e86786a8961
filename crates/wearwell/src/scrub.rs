//! Scrubbing: finds uncorrectable pages, and the logical pages whose data they held.
//!
//! Damage is only noticed when a page is read. A page that is not read may stay damaged unnoticed until garbage
//! collection moves it, and by then the host may have dropped its own copy. A *scrub* reads every page in use, a few
//! per step, so that damage is known early. It changes nothing on flash: GC programs the copy of an uncorrectable page
//! as lost (`store/unreadable_pages.rs`), and the logical pages read as lost both before and after that.

use crate::address::{BlockId, Lpn, OptionalAddress, Ppn, is_flash_page};
use crate::error::Result;
use crate::ftl::Ftl;
use crate::nand::{Nand, PageKind};
use crate::operation::Cause;
use crate::store::{BlockState, Stream};

/// Result of one step of a scrub, which reads pages to find uncorrectable ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScrubProgress {
    /// First flash page of the next step of the scrub; `None` after the last page of the device.
    pub next_page: Option<Ppn>,
    /// Number of pages read in this step of the scrub.
    pub read_pages: u32,
}

impl Ftl {
    /// Scrubs one step: reads pages in use from `first` on, at most `most_pages`. Uncorrectable pages are counted in
    /// [`Stats::media_errors`](crate::stats::Stats) and listed by
    /// [`FlashPageStore::unreadable_pages`](crate::store::FlashPageStore::unreadable_pages). If page validity is on
    /// flash, dead data pages in open and closed blocks are read as well.
    ///
    /// # Errors
    /// Power loss.
    pub fn scrub_step(&mut self, first: Ppn, most_pages: u32) -> Result<ScrubProgress> {
        let end = self.store.geometry().pages() as u32;
        let mut page = vec![0; self.store.geometry().page_bytes as usize];
        let (mut next, mut read_pages) = (first.0, 0);
        while next < end && read_pages < most_pages {
            if self.may_hold_needed_data(Ppn(next))? {
                read_pages += 1;
                match self.store.read(Ppn(next), &mut page, Cause::Scrub) {
                    Err(error) if error.is_media_error() => {}
                    read => drop(read?),
                }
            }
            next += 1;
        }
        Ok(ScrubProgress { next_page: (next < end).then_some(Ppn(next)), read_pages })
    }

    /// Returns whether the flash page `ppn` may hold data or metadata that is still needed, so that a scrub must read
    /// it. If page validity is on flash, dead data pages count as needed.
    ///
    /// # Errors
    /// Power loss.
    pub fn may_hold_needed_data(&mut self, ppn: Ppn) -> Result<bool> {
        let block = self.store.block_of(ppn);
        if !matches!(self.store.blocks().state(block), BlockState::Open | BlockState::Closed) {
            return Ok(false);
        }
        let stream = match self.store.blocks().kind(block) {
            PageKind::Data if self.validity.is_on_flash() => return self.is_programmed(block, ppn),
            PageKind::Data => return Ok(self.validity.is_valid(ppn)),
            PageKind::Delta => {
                return Ok(self.delta.as_ref().is_some_and(|stage| stage.has_live_deltas(ppn)));
            }
            PageKind::Chunk => {
                let page = vec![(ppn, self.store.owner_in_oob(ppn).0)];
                return Ok(self
                    .compression
                    .as_ref()
                    .is_some_and(|stage| !stage.keep_pages_of_stored_chunks(page).is_empty()));
            }
            PageKind::Translation => Stream::Translation,
            PageKind::RemapLog => Stream::RemapLog,
            PageKind::Validity => Stream::Validity,
            PageKind::BlockHead | PageKind::BlockTail => unreachable!("they describe blocks of other pages"),
        };
        Ok(self.is_current_metadata_page(stream, self.store.owner_in_oob(ppn).0, ppn))
    }

    /// Returns whether page `ppn` of `block` is programmed with a readable spare area; `false` if the block is bad.
    fn is_programmed(&mut self, block: BlockId, ppn: Ppn) -> Result<bool> {
        if self.store.nand().is_bad(block) {
            return Ok(false);
        }
        let mut pages = vec![ppn];
        self.store.nand_mut().read_spares_and_retain_readable(&mut pages)?;
        Ok(!pages.is_empty())
    }

    /// Returns the logical pages that are lost because a flash page with their data is known to be uncorrectable, each
    /// with that flash page. Takes O(logical pages) time if any flash page is uncorrectable, and no counted flash
    /// operation. Empty if the map is on flash and cannot be read.
    pub fn lost_logical_pages(&mut self) -> Vec<(Lpn, Ppn)> {
        if self.store.unreadable_pages().next().is_none() {
            return Vec::new();
        }
        let Ok(map) = self.read_whole_map() else { return Vec::new() };
        let lost_page = |(lpn, unit): (Lpn, crate::address::StoredUnit)| {
            let lost = |ppn: &Ppn| self.store.is_unreadable(*ppn);
            let of_delta = self.delta.as_ref().and_then(|stage| stage.delta_page_of(lpn));
            let culprit = match &self.compression {
                Some(stage) if !is_flash_page(unit, self.store.geometry().pages()) => {
                    stage.chunk_pages_of_member(unit).iter().copied().find(lost).or(of_delta.filter(lost))
                }
                _ => Some(Ppn(unit.0)).filter(lost).or(of_delta.filter(lost)),
            };
            culprit.filter(|_| !self.is_buffered_for_chunk(lpn)).map(|ppn| (lpn, ppn))
        };
        let mapped = (0..).map(Lpn).zip(map).filter(|(_, unit)| unit.to_option().is_some());
        mapped.filter_map(lost_page).collect()
    }
}
