//! Audit of lazy maps, which identify invalid pages late, and of page validity on flash.
//!
//! Such a device counts a page as valid until it is reported invalid. Two invariants must hold: every mapped page
//! counts as valid, and every other page that counts as valid is an unidentified invalid page (the map on flash names
//! it, the cache has a newer one). After a recovery more pages may count as valid, but never fewer.

use rustc_hash::FxHashSet;

use crate::address::{BlockId, Lpn, OptionalAddress, Ppn, StoredUnit};
use crate::design::Persistence;
use crate::ftl::Ftl;
use crate::mapping::{AnyMapping, Mapping};
use crate::nand::{Nand, PageKind};
use crate::store::{BlockState, Stream};

impl Ftl {
    /// Returns whether a block's valid count may be greater than its number of mapped pages: always with a lazy map
    /// (which identifies invalid pages late), or after a recovery.
    pub(super) fn may_overcount_valid_pages(&self) -> bool {
        let is_kept = matches!(self.persistence, Persistence::BatteryRam | Persistence::NvramMap);
        self.mapping.identifies_invalid_pages_late() || self.validity.is_on_flash() && !is_kept
    }

    /// Audits an FTL whose valid counts may be too high: compares valid counts, and the answers of the validity store,
    /// with the L2P table `map`. The reads that this takes are not counted.
    pub(super) fn check_overcounted_valid_pages(&mut self, map: &[StoredUnit]) -> Result<(), String> {
        let mapped = self.check_mapped_ppns(map)?;
        let hidden = self.unidentified_invalid_pages()?;
        let (stats, ops) = (self.store.stats.clone(), self.store.flash_ops.clone());
        let outcome = (0..self.store.geometry().blocks())
            .map(BlockId)
            .try_for_each(|block| self.check_block_with_overcount(block, &mapped, &hidden));
        (self.store.stats, self.store.flash_ops) = (stats, ops);
        outcome?;
        self.check_block_states()
    }

    /// Checks that the OOB of each mapped flash page names its logical page, and that no flash page is mapped twice.
    /// Returns the mapped flash pages.
    fn check_mapped_ppns(&self, map: &[StoredUnit]) -> Result<FxHashSet<Ppn>, String> {
        let mut mapped = FxHashSet::default();
        for (lpn, unit) in (0..).map(Lpn).zip(map).filter_map(|(lpn, unit)| Some((lpn, unit.to_option()?))) {
            let ppn = Ppn(unit.0);
            if self.store.owner_in_oob(ppn) != lpn {
                return Err(format!(
                    "logical page {lpn} is mapped to flash page {ppn}, so the spare area of that page must name \
                     logical page {lpn}, but names logical page {}",
                    self.store.owner_in_oob(ppn)
                ));
            }
            if !mapped.insert(ppn) {
                return Err(format!(
                    "at most one logical page must be mapped to flash page {ppn}, but several are"
                ));
            }
        }
        Ok(mapped)
    }

    /// Returns the unidentified invalid pages: those that the L2P table on flash names although its cache names a newer
    /// page of the same logical page.
    fn unidentified_invalid_pages(&mut self) -> Result<FxHashSet<Ppn>, String> {
        let mut hidden = FxHashSet::default();
        let AnyMapping::Cached(cached) = &self.mapping else { return Ok(hidden) };
        let mut page = vec![0; self.store.geometry().page_bytes as usize];
        for id in 0..cached.translation_pages() {
            let Some(place) = cached.translation_page_ppn(id) else { continue };
            self.store.nand_mut().read(place, &mut page).map_err(|error| error.to_string())?;
            let named = cached.decode_mapped_entries(id, &page).into_iter();
            let is_hidden = |&(lpn, unit): &(Lpn, StoredUnit)| {
                cached.has_unidentified_invalid_page(lpn) && cached.cached_unit(lpn) != Some(unit)
            };
            hidden.extend(named.filter(is_hidden).map(|(_, unit)| Ppn(unit.0)));
        }
        Ok(hidden)
    }

    /// Checks that the valid count of `block` is not less than its number of mapped pages (a lazy map or a validity
    /// store on flash may count too many), and checks the pages that the validity store reports as valid. `mapped` are
    /// the flash pages to which logical pages are mapped.
    fn check_block_with_overcount(
        &mut self,
        block: BlockId,
        mapped: &FxHashSet<Ppn>,
        unidentified_invalid_pages: &FxHashSet<Ppn>,
    ) -> Result<(), String> {
        let state = self.store.blocks().state(block);
        let counted = self.store.blocks().valid_pages(block);
        if matches!(state, BlockState::Free | BlockState::Retired) {
            return if counted == 0 {
                Ok(())
            } else {
                Err(format!(
                    "block {block} is {}, so its recorded number of valid pages must be 0, but is {counted}",
                    state.name()
                ))
            };
        }
        let first = self.store.geometry().first_page(block).0;
        let pages: Vec<Ppn> = (first..first + self.store.geometry().block_pages()).map(Ppn).collect();
        match self.store.blocks().kind(block) {
            PageKind::Translation => self.check_valid_metadata_count(block, Stream::Translation, &pages),
            PageKind::Validity => self.check_valid_metadata_count(block, Stream::Validity, &pages),
            PageKind::Data => {
                let mut live = Vec::new();
                self.list_live_pages(block, &mut live).map_err(|error| error.to_string())?;
                self.check_pages_reported_valid(block, &live, &pages, mapped, unidentified_invalid_pages)
            }
            kind @ (PageKind::Delta
            | PageKind::Chunk
            | PageKind::RemapLog
            | PageKind::BlockHead
            | PageKind::BlockTail) => Err(format!(
                "block {block} must hold data, translation or validity pages, the only kinds that this design writes, \
                 but holds pages of the kind `{}`",
                kind.name()
            )),
        }
    }

    /// Checks that the valid count of the metadata block `block` equals the number of its pages that are current or
    /// retained for recovery.
    fn check_valid_metadata_count(
        &self,
        block: BlockId,
        stream: Stream,
        pages: &[Ppn],
    ) -> Result<(), String> {
        let held = self.store.retained_pages_in(block);
        let in_use = |&&ppn: &&Ppn| {
            self.is_current_metadata_page(stream, self.store.owner_in_oob(ppn).0, ppn) || held.contains(&ppn)
        };
        let used = pages.iter().filter(in_use).count() as u32;
        let counted = self.store.blocks().valid_pages(block);
        if counted == used {
            return Ok(());
        }
        Err(format!(
            "the recorded number of valid pages of metadata block {block} is {counted}, but must be {used}, the \
             number of its pages that are current or retained for recovery"
        ))
    }

    /// Checks a data block: every mapped page is in `live`, the pages that the validity store reports as valid. The
    /// valid count and `live` must agree with the pages in `mapped` and in `unidentified_invalid_pages`.
    fn check_pages_reported_valid(
        &self,
        block: BlockId,
        live: &[Ppn],
        pages: &[Ppn],
        mapped: &FxHashSet<Ppn>,
        unidentified_invalid_pages: &FxHashSet<Ppn>,
    ) -> Result<(), String> {
        if let Some(lost) = pages.iter().find(|&ppn| mapped.contains(ppn) && live.binary_search(ppn).is_err())
        {
            return Err(format!(
                "a logical page is mapped to flash page {lost}, so that page must be marked as valid in the record of \
                 page validity, but is marked as invalid"
            ));
        }
        let counted = self.store.blocks().valid_pages(block);
        let needed = pages
            .iter()
            .filter(|&ppn| mapped.contains(ppn) || unidentified_invalid_pages.contains(ppn))
            .count() as u32;
        if counted < needed && !self.has_recovered_by_backward_scan || counted < live.len() as u32 {
            return Err(format!(
                "the recorded number of valid pages of block {block} is {counted}, but must be at least {needed}, the \
                 number of its pages that are mapped or not yet known to be replaced, and at least {}, the number of \
                 its pages that the record of page validity marks as valid",
                live.len()
            ));
        }
        if self.has_recovered_by_backward_scan {
            return Ok(());
        }
        let superfluous =
            live.iter().find(|ppn| !mapped.contains(ppn) && !unidentified_invalid_pages.contains(ppn));
        match superfluous {
            Some(ppn) => Err(format!(
                "the record of page validity marks flash page {ppn} as valid, but must mark it as invalid, because no \
                 logical page is mapped to it and the page is known to be replaced"
            )),
            None if counted != needed => Err(format!(
                "the recorded number of valid pages of block {block} is {counted}, but must be {needed}, the number \
                 of its pages that are mapped or not yet known to be replaced"
            )),
            None => Ok(()),
        }
    }
}
