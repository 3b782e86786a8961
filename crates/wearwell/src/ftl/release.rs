//! What a logical page leaves behind when it gets another place, and what others call invalid later.

#![expect(clippy::inline_always, reason = "measured: the way of a write costs a tenth less in one piece")]

use crate::address::{Lpn, Ppn, Unit, is_page};
use crate::error::{Error, Result};
use crate::ftl::Ftl;
use crate::mapping::{AnyMapping, Identified, Mapping};
use crate::nand::Nand;
use crate::validity::Validity;

impl<N: Nand> Ftl<N> {
    /// Gives `lpn` a place (or none) and returns the old one.
    #[inline]
    pub(crate) fn change_map(&mut self, lpn: Lpn, place: Option<Unit>) -> Result<Option<Unit>> {
        self.mapping.update(&mut self.store, lpn, place)
    }

    #[inline]
    pub(crate) fn require_in_range(&self, lpn: Lpn) -> Result<()> {
        if lpn.0 < self.logical_pages {
            return Ok(());
        }
        Err(Error::OutOfRange { lpn: lpn.0 as u64, pages: self.logical_pages })
    }

    /// `lpn` does not refer to `old` any more: the page dies with its last referrer.
    #[inline(always)]
    pub(crate) fn release(&mut self, lpn: Lpn, old: Option<Unit>) {
        let Some(old) = old else { return };
        if self.delta.is_some() {
            self.drop_delta(lpn);
        }
        if self.sharing.is_some() && self.is_still_shared(lpn, old) {
            return;
        }
        if self.chunks.is_some() && !is_page(old, self.store.geometry().pages()) {
            return self.drop_member(old);
        }
        let page = Ppn(old.0);
        self.invalidate_page(page);
        if self.recycle.is_some() {
            self.offer_dead(lpn, page);
        }
    }

    /// Nobody needs the data of `page` any more.
    #[inline(always)]
    pub(crate) fn invalidate_page(&mut self, page: Ppn) {
        self.report_opened_blocks();
        self.validity.invalidate(page);
        self.store.discard(page);
    }

    /// Whatever a validity store on flash knows of a block is void before it hears of the block's new pages, and before
    /// it writes what it heard so far: a recovery repeats this for blocks whose first page is younger than that.
    #[inline]
    pub(crate) fn report_opened_blocks(&mut self) {
        while let Some(block) = self.store.take_opened() {
            self.validity.opened(block);
        }
    }

    /// Calls the pages invalid that a lazy map has found.
    pub(crate) fn invalidate_identified(&mut self) {
        while let AnyMapping::Cached(cached) = &mut self.mapping
            && let Some(Identified { ppn, is_certain }) = cached.take_identified()
        {
            if is_certain {
                self.invalidate_page(ppn);
            } else if self.validity.is_on_flash() {
                // It may be a repetition: the count of the block is left too high rather than too low.
                self.validity.invalidate(ppn);
                self.valid_counts_are_upper_bounds = true;
            } else if self.validity.is_valid(ppn) {
                self.invalidate_page(ppn);
            }
        }
    }
}
