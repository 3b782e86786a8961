//! Garbage collection of pages that several logical pages refer to.
//!
//! A shared page is copied once, and each of its referrers gets a new entry in the reverse map, but for the one that the
//! new OOB names. If the reverse map has no room for the entries of a victim, the page is stored once per referrer, and
//! what the entries buried is overwritten with zeros: then nothing has to be recorded.
//!
//! That takes more pages than the victim has valid ones, so it is done only where it still gains a page
//! ([`Ftl::can_empty`]), and other victims are left alone. A victim is found nevertheless: stored once per referrer, all
//! logical pages fit the device (that is what its size is checked for), so the referrers of some closed block are fewer
//! than its pages. Only entries that bury one logical page several times, from several blocks, make this estimate
//! too high; the device then reports that it is full before it is.

use super::Batch;
use crate::address::{BlockId, Lpn, Ppn};
use crate::data::{Content, Fingerprint};
use crate::error::Result;
use crate::ftl::Ftl;
use crate::mapping::Mapping;
use crate::nand::{Nand, PageKind};
use crate::operation::Cause;
use crate::sharing::reverse_map::{Entry, EntryLiveness};
use crate::store::Stream;

impl<N: Nand> Ftl<N> {
    /// Whether a block can be emptied with at most `most_pages` appended, if it needs more than one per valid page.
    /// Loads its entries. May compact the reverse map.
    ///
    /// # Errors
    /// Whatever the medium answers.
    pub(super) fn can_empty(&mut self, block: BlockId, most_pages: u32) -> Result<bool> {
        let Self { sharing, mapping, store, .. } = self;
        let Some(sharing) = sharing else { return Ok(true) };
        if store.blocks().kind(block) != PageKind::Data {
            return Ok(true);
        }
        sharing.load_entries(mapping, store, block)?;
        Ok(sharing.recordable || self.pages_without_entries(block)? <= most_pages)
    }

    /// Pages that the block in hand takes if nothing can be recorded: one per referrer, one per logical page that only its
    /// entries bury.
    fn pages_without_entries(&mut self, block: BlockId) -> Result<u32> {
        let mut valid = Vec::new();
        self.live_pages(block, &mut valid)?;
        let Some(sharing) = &self.sharing else { return Ok(valid.len() as u32) };
        let referrers: u32 = valid.iter().map(|&ppn| 1 + sharing.refs.extra(ppn.into())).sum();
        let needing = sharing.entries.iter().filter(|entry| sharing.need(&self.mapping, entry).tombstone);
        let mut buried: Vec<Lpn> = needing.flat_map(Entry::tombstoned_lpns).collect();
        buried.sort_unstable_by_key(|lpn| lpn.0);
        buried.dedup();
        Ok(referrers + buried.len() as u32)
    }

    /// What sharing knows of moved pages: counts and index follow, the binder that the new OOB names needs no entry any
    /// more, and every other binder gets a new one or a page of its own, durable before the victim is erased.
    pub(super) fn relocate_shared(&mut self, pool: u32, batch: &Batch) -> Result<()> {
        let Self { sharing, store, .. } = self;
        let Some(sharing) = sharing else { return Ok(()) };
        for (&from, &to) in batch.from.iter().zip(&batch.to) {
            sharing.refs.relocate(from.into(), to.into());
        }
        if let Some(index) = &mut sharing.index {
            let content = |&to: &Ppn| store.nand().fingerprint(to);
            index.prefetch(batch.to.iter().map(content));
            for (&from, to) in batch.from.iter().zip(&batch.to) {
                index.relocate(content(to), from.into(), (*to).into());
            }
        }
        let entries = std::mem::take(&mut sharing.entries);
        let is_recordable = sharing.recordable;
        let outcome = entries.iter().try_for_each(|&entry| {
            let Some(place) = entry.place else {
                return self.record_tombstone_again(entry, pool, is_recordable);
            };
            // A base that was merged on the way has left its entry, but for what the entry buries.
            let Ok(at) = batch.from.binary_search(&place) else {
                return self.record_remaining_tombstones(entry, pool, is_recordable);
            };
            // Pages that were not copied, because power was lost, keep their entries.
            let Some(&to) = batch.to.get(at) else { return Ok(()) };
            self.rebind(entry, to, batch.owners[at], is_recordable)
        });
        if let Some(sharing) = &mut self.sharing {
            sharing.entries = entries;
        }
        outcome
    }

    /// The page that `entry` binds was copied to `to`, where the OOB names `owner`.
    fn rebind(&mut self, entry: Entry, to: Ppn, owner: Lpn, is_recordable: bool) -> Result<()> {
        let Self { sharing, mapping, store, .. } = self;
        let (Some(sharing), Some(place)) = (sharing, entry.place) else { return Ok(()) };
        let pool = store.pool_of(store.block_of(to));
        sharing.unbind(store, entry.lpn, place.into());
        if owner != entry.lpn {
            if is_recordable {
                // With its new number the entry would also bury a source that was written again since.
                let source = entry.source.filter(|_| sharing.need(mapping, &entry).tombstone);
                mapping.relocate(entry.lpn, to.into());
                sharing.mark_bound(entry.lpn);
                let sequence = store.next_sequence();
                return sharing.record(mapping, store, Entry { place: Some(to), source, sequence, ..entry });
            }
            self.store_once_more(entry.lpn, to)?;
        }
        self.record_remaining_tombstones(entry, pool, is_recordable)
    }

    /// The place that `entry` binds is nobody's business any more; the page that it took its content from may be.
    fn record_remaining_tombstones(&mut self, entry: Entry, pool: u32, is_recordable: bool) -> Result<()> {
        let need = self.sharing.as_ref().map(|sharing| sharing.need(&self.mapping, &entry));
        match need.and_then(|need| EntryLiveness { bind: false, ..need }.rest_of(entry)) {
            Some(tombstone) => self.record_tombstone_again(tombstone, pool, is_recordable),
            None => Ok(()),
        }
    }

    /// `lpn` refers to the copy at `at`, and gets a page of its own beside it.
    fn store_once_more(&mut self, lpn: Lpn, at: Ppn) -> Result<()> {
        let mut page = self.blank_page();
        let pool = self.store.pool_of(self.store.block_of(at));
        let fingerprint = self.store.nand().fingerprint(at);
        match self.store.read(at, &mut page, Cause::Gc) {
            Err(error) if error.is_media_error() => {
                let ppn = self.store.append_lost(Stream::Gc, pool, lpn.0, &[], fingerprint, Cause::Gc)?;
                self.adopt_demoted(lpn, ppn);
            }
            read => {
                read?;
                self.append_for(lpn, pool, Content::of_page(&page, fingerprint), fingerprint)?;
            }
        }
        let sharing = self.sharing.as_mut().expect("only sharing has entries");
        let still_shared = sharing.refs.down(at.into());
        assert!(still_shared, "the copy at {at} has the referrer that its OOB names");
        Ok(())
    }

    /// Carries a tombstone on beyond the erase of the victim.
    fn record_tombstone_again(&mut self, tombstone: Entry, pool: u32, is_recordable: bool) -> Result<()> {
        let Self { sharing, mapping, store, .. } = self;
        let Some(sharing) = sharing else { return Ok(()) };
        if is_recordable {
            return sharing.record(mapping, store, tombstone);
        }
        // Not needed any more if another entry of the victim buried the same page.
        if !sharing.need(mapping, &tombstone).tombstone {
            return Ok(());
        }
        let zeros = self.blank_page();
        let content = Content::of_page(&zeros, Fingerprint::ZERO_PAGE);
        self.append_for(tombstone.lpn, pool, content, Fingerprint::ZERO_PAGE)
    }

    /// Gives `lpn` a page of its own among the copies.
    fn append_for(
        &mut self,
        lpn: Lpn,
        pool: u32,
        content: Content<'_>,
        fingerprint: Fingerprint,
    ) -> Result<()> {
        let ppn = self.store.append(Stream::Gc, pool, lpn.0, content, fingerprint, Cause::Gc)?;
        self.adopt_demoted(lpn, ppn);
        Ok(())
    }

    /// `lpn` has a page of its own.
    fn adopt_demoted(&mut self, lpn: Lpn, ppn: Ppn) {
        self.mapping.relocate(lpn, ppn.into());
        self.validity.set(ppn);
        self.store.stats.demoted_full += 1;
    }
}
