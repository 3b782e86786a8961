//! Garbage collection of delta encoding: bases are merged or copied, deltas are merged or packed anew.
//!
//! A base is a page like any other to GC and is copied with the rest of its victim, unless its logical page should be
//! merged: then the merged page takes the place of the copy. Of the deltas of a victim, those of logical pages that
//! should be merged are merged, as far as there is room above GC's reserve and the entry of the map is in RAM. The
//! others are packed in their order into at most as many pages as they had, so that they need no more room than the
//! victim had. If a page of deltas cannot be read, its current deltas are lost: a lost page in its place lists their
//! logical pages.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::packing::{BufferedDelta, DeltaTempBuffer, decode_delta_page_header};
use crate::address::{BlockId, Lpn, Ppn};
use crate::data::Fingerprint;
use crate::design::Persistence;
use crate::error::{Error, Result};
use crate::ftl::Ftl;
use crate::nand::{Nand, PageKind};
use crate::operation::Cause;
use crate::store::Stream;

impl Ftl {
    /// Merges (rewrites base and delta as one page) the logical pages in delta form that became read-hot or write-cold
    /// and whose bases are among `pages`, the valid pages of a GC victim. Removes these bases from `pages`. Called
    /// before GC copies the data pages of the victim; a merge programs one page, as the copy of the base would.
    pub(crate) fn merge_due_deltas_in_victim(
        &mut self,
        pages: &mut Vec<Ppn>,
        stream: Stream,
        pool: u32,
        cause: Cause,
    ) -> Result<()> {
        if self.delta.as_ref().is_none_or(|stage| stage.current_deltas.is_empty()) {
            return Ok(());
        }
        let mut merged = Vec::new();
        for &ppn in pages.iter() {
            // A page that other logical pages share is still needed, and is copied.
            let lpn = self.lpn_mapped_to_page(ppn);
            let is_shared = self
                .sharing
                .as_ref()
                .is_some_and(|sharing| sharing.reference_counts.referrers_beyond_first(ppn.into()) > 0);
            if !is_shared && self.delta.as_ref().is_some_and(|stage| stage.should_merge_delta(lpn)) {
                self.rewrite_merged_page(lpn, ppn.into(), stream, pool, None, cause)?;
                self.delta_state_mut().statistics.gc_merges += 1;
                merged.push(ppn);
            }
        }
        pages.retain(|ppn| merged.binary_search(ppn).is_err());
        Ok(())
    }

    /// Moves the current deltas out of `victim`, a block of delta pages. Merges those of logical pages that became
    /// read-hot or write-cold, and packs the others anew, in their order, into at most as many flash pages as they had.
    ///
    /// Without a battery, first writes the deltas in the RAM buffer: an older, durable delta of the same logical page
    /// may be in the victim.
    pub(crate) fn move_deltas(&mut self, victim: BlockId, pool: u32, cause: Cause) -> Result<()> {
        if self.persistence == Persistence::NvramMap
            && let Some(at) = self.delta.as_ref().and_then(|stage| stage.temp_buffer.first_nonempty_page())
        {
            self.commit_buffer_page_in_pool(at, pool, cause)?;
        }
        let pages = self.live_delta_or_chunk_pages(victim);
        let mut packer = self.repacking_buffer_for(&pages);
        for ppn in pages {
            let deltas = match self.load_current_deltas(ppn, cause) {
                Err(error) if error.is_media_error() => {
                    self.replace_unreadable_delta_page(ppn, pool, cause)?;
                    continue;
                }
                loaded => loaded?,
            };
            for delta in deltas {
                if self.try_merge_loaded_delta(&delta, pool, cause)? {
                    continue;
                }
                if packer.page_with_room(delta.delta_and_base_tag_bytes as usize).is_none() {
                    self.write_compacted_page(&mut packer, pool, cause)?;
                }
                packer.push(0, delta);
            }
        }
        if packer.first_nonempty_page().is_some() {
            self.write_compacted_page(&mut packer, pool, cause)
        } else {
            Ok(())
        }
    }

    /// Merges a logical page (rewrites base and delta as one page) whose delta GC has just read, if it became read-hot or
    /// write-cold. Returns `false`, and leaves the delta as it is, if it did not; if the map does not find the base
    /// without a flash read; if the merged page would need a block that is reserved for the copies of the next victim;
    /// or if the base cannot be read.
    fn try_merge_loaded_delta(&mut self, delta: &BufferedDelta, pool: u32, cause: Cause) -> Result<bool> {
        let (lpn, stream) = (delta.lpn, self.stream_of_copies(PageKind::Data, pool));
        let has_room = self.store.free_pages_above_reserve(stream, pool) > 0;
        if !has_room || !self.delta_state().should_merge_delta(lpn) {
            return Ok(false);
        }
        let Some(base) = self.mapping.lookup_in_ram(lpn) else { return Ok(false) };
        let mut page = self.zero_filled_page();
        match self.read_unit(base, &mut page, cause) {
            Err(error) if error.is_media_error() => return Ok(false),
            read => read?,
        }
        self.apply_loaded_delta(delta, &mut page)?;
        match self.rewrite_merged_page(lpn, base, stream, pool, Some(&page), cause) {
            // A failed program used up the open block. The delta stays as it is.
            Err(Error::Full { .. }) => return Ok(false),
            merged => merged?,
        }
        self.delta_state_mut().statistics.gc_merges += 1;
        Ok(true)
    }

    /// Creates a buffer to pack the deltas of the flash pages `pages` anew. It allows at least as many deltas per page
    /// as the fullest of these pages has.
    fn repacking_buffer_for(&self, pages: &[Ppn]) -> DeltaTempBuffer {
        let stage = self.delta_state();
        let most = pages.iter().map(|ppn| stage.live_delta_pages[ppn].lpns.len()).max().unwrap_or(0);
        DeltaTempBuffer::new(1, self.store.geometry().page_bytes)
            .with_max_deltas_per_page(stage.max_deltas_per_page.max(most))
    }

    /// Returns the logical pages whose current delta is in the flash page `ppn`.
    fn lpns_of_current_deltas_in(&self, ppn: Ppn) -> Vec<Lpn> {
        let stage = self.delta_state();
        let is_current =
            |lpn: &Lpn| stage.current_deltas.get(lpn).is_some_and(|place| place.flash_page == Some(ppn));
        stage.live_delta_pages[&ppn].lpns.iter().copied().filter(is_current).collect()
    }

    /// Replaces the unreadable flash page of deltas `ppn` by a page that is marked as lost and lists the logical pages
    /// of its current deltas. Programs one page.
    fn replace_unreadable_delta_page(&mut self, ppn: Ppn, pool: u32, cause: Cause) -> Result<()> {
        let lpns = self.lpns_of_current_deltas_in(ppn);
        let (spare, count) = (self.delta_lpn_list_for_spare(&lpns), lpns.len() as u32);
        let fingerprint = Fingerprint::default();
        let to = self.store.append_lost_page(Stream::Delta, pool, count, &spare, fingerprint, cause)?;
        self.record_delta_page_on_flash(to, &lpns);
        for lpn in lpns {
            self.record_delta_moved(lpn, to);
        }
        Ok(())
    }

    /// Changes the location of the delta of `lpn` to flash page `to`, and drops the delta from the page that held it.
    /// Size and fingerprint are kept.
    fn record_delta_moved(&mut self, lpn: Lpn, to: Ppn) {
        let place = self.delta_state().current_deltas[&lpn];
        self.drop_delta(lpn);
        let stage = self.delta_state_mut();
        stage.current_deltas.insert(lpn, place);
        self.record_stored_delta(lpn, to);
    }

    /// Reads the flash page of deltas `ppn` and returns its current deltas.
    fn load_current_deltas(&mut self, ppn: Ppn, cause: Cause) -> Result<Vec<BufferedDelta>> {
        let is_kept = self.store.nand().keeps_bytes_of(PageKind::Delta);
        let mut bytes = vec![0; if is_kept { self.store.geometry().page_bytes as usize } else { 0 }];
        self.store.read(ppn, &mut bytes, cause)?;
        let stage = self.delta_state();
        let mut ranges = HashMap::<_, _, FxBuildHasher>::default();
        if !bytes.is_empty() {
            let damaged = || {
                let lpns = self.lpns_of_current_deltas_in(ppn);
                let lpns = lpns.iter().map(Lpn::to_string).collect::<Vec<_>>().join(", ");
                Error::Damaged(format!(
                    "flash page {ppn} must hold deltas (of the logical pages {lpns}), but its header is malformed"
                ))
            };
            ranges.extend(decode_delta_page_header(&bytes).ok_or_else(damaged)?);
        }
        let load = |lpn: Lpn| {
            let place = stage.current_deltas[&lpn];
            let payload = ranges.get(&lpn).map_or_else(Vec::new, |range| bytes[range.clone()].to_vec());
            BufferedDelta {
                lpn,
                delta_and_base_tag_bytes: place.delta_and_base_tag_bytes,
                fingerprint: place.fingerprint,
                payload,
            }
        };
        Ok(self.lpns_of_current_deltas_in(ppn).into_iter().map(load).collect())
    }

    /// Programs the first page of `packer`, a buffer of deltas that GC packs anew, and records the new location of its
    /// deltas.
    fn write_compacted_page(&mut self, packer: &mut DeltaTempBuffer, pool: u32, cause: Cause) -> Result<()> {
        let page = packer.open_page_at(0).encode(self.store.geometry().page_bytes as usize);
        let lpns: Vec<Lpn> = packer.open_page_at(0).deltas().iter().map(|delta| delta.lpn).collect();
        let ppn = self.append_deltas(pool, &lpns, page, cause)?;
        packer.take_page_deltas(0).into_iter().for_each(|delta| self.record_delta_moved(delta.lpn, ppn));
        self.delta_state_mut().statistics.compacted_delta_pages += 1;
        Ok(())
    }
}
