//! Garbage collection as the engine runs it: making room, choosing, moving, erasing.
//!
//! Room is made before an operation starts, for the page it appends and for the metadata it may cause. A victim is
//! emptied by kind: data pages are copied in one batch, and then everybody who refers to them is told; pages of
//! metadata are asked of their owner; packed pages (deltas, chunks) are taken apart by the stage that packed them.
//!
//! Invariant: emptying a victim appends at most as many pages as it has valid ones, so one free block per pool is
//! always enough, and collection never recurses.

use crate::address::{BlockId, Lpn, Ppn};
use crate::content::Content;
use crate::error::{Error, Result};
use crate::ftl::Ftl;
use crate::gc::{Batch, RESERVE_BLOCKS};
use crate::mapping::Mapping;
use crate::nand::{Nand, PageKind};
use crate::reverse_map::{Entry, ReverseMap};
use crate::store::{Moves, Stream};
use crate::timing::Cause;

impl<N: Nand> Ftl<N> {
    /// Makes sure that the next host page and the metadata it may cause have a place; returns its pool.
    #[inline]
    pub(crate) fn make_room_for_write(&mut self) -> Result<u32> {
        let pool = self.store.next_turn(Stream::Host);
        if self.store.free_blocks(pool) <= self.collector.options.low_blocks {
            self.collect_until_ready(pool)?;
        }
        self.make_room_for_metadata()?;
        if self.is_writable(pool) {
            return Ok(self.store.turn(Stream::Host));
        }
        self.find_writable_pool()
    }

    #[inline]
    fn is_writable(&self, pool: u32) -> bool {
        self.store.frontier_left(Stream::Host, pool) > 0 || self.store.free_blocks(pool) > RESERVE_BLOCKS
    }

    /// The pool whose turn it is holds valid data only: the page goes to the next one that has room. Settling the
    /// mapping after a round may leave new garbage, so rounds go on while they collect something.
    fn find_writable_pool(&mut self) -> Result<u32> {
        loop {
            let victims = self.store.stats.gc_victims;
            for _ in 0..self.store.pools() {
                let pool = self.store.turn(Stream::Host);
                self.collect_until_ready(pool)?;
                self.make_room_for_metadata()?;
                if self.is_writable(pool) {
                    return Ok(pool);
                }
            }
            if self.store.stats.gc_victims == victims {
                return Err(Error::Full { free_blocks: self.store.total_free_blocks() });
            }
        }
    }

    fn collect_until_ready(&mut self, pool: u32) -> Result<()> {
        while self.store.free_blocks(pool) <= self.collector.options.low_blocks {
            if !self.collect(pool)? {
                break;
            }
        }
        Ok(())
    }

    /// Settles what GC postponed in the mapping and leaves a place for the next pages of metadata.
    #[inline]
    pub(crate) fn make_room_for_metadata(&mut self) -> Result<()> {
        if self.mapping.pages_per_update() > 0 {
            self.make_room_for_translation()?;
        }
        let log_pages = self.sharing.as_ref().map_or(0, |sharing| sharing.reverse.pages_per_record());
        if log_pages > 0 { self.require_metadata(Stream::RemapLog, log_pages) } else { Ok(()) }
    }

    fn make_room_for_translation(&mut self) -> Result<()> {
        loop {
            self.require_metadata(Stream::Translation, 1)?;
            if !self.mapping.settle(&mut self.store)? {
                return self.require_metadata(Stream::Translation, 1);
            }
        }
    }

    pub(crate) fn require_metadata(&mut self, stream: Stream, pages: u32) -> Result<()> {
        while self.room_in(stream, self.store.richest_pool(stream)) < pages {
            self.collect_anywhere()?;
        }
        // Opened now, so that the host page of the same request cannot take the block and leave GC without reserve.
        self.store.open_ahead(stream)
    }

    /// Makes room for pages of a stream that host writes fill beside the host's own; returns their pool.
    pub(crate) fn make_room_for_pages(&mut self, stream: Stream, pages: u32) -> Result<u32> {
        loop {
            for _ in 0..self.store.pools() {
                let pool = self.store.turn(stream);
                if self.room_in(stream, pool) < pages {
                    self.collect_until_ready(pool)?;
                }
                if self.room_in(stream, pool) >= pages {
                    return Ok(pool);
                }
            }
            self.collect_anywhere()?;
        }
    }

    /// Pages that a stream can append in a pool without touching the reserve.
    pub(crate) fn room_in(&self, stream: Stream, pool: u32) -> u32 {
        let spare_blocks = self.store.free_blocks(pool).saturating_sub(RESERVE_BLOCKS);
        self.store.frontier_left(stream, pool) + spare_blocks * self.store.geometry().block_pages()
    }

    fn collect_anywhere(&mut self) -> Result<()> {
        for pool in 0..self.store.pools() {
            if self.collect(pool)? {
                return Ok(());
            }
        }
        Err(Error::Full { free_blocks: self.store.total_free_blocks() })
    }

    /// One step of background GC: collects a victim in the first pool that is below the background threshold;
    /// `false` if none is.
    ///
    /// # Errors
    /// As [`Ftl::write`].
    pub fn collect_in_background(&mut self) -> Result<bool> {
        let threshold = self.collector.options.background_blocks;
        let short = (0..self.store.pools()).find(|&pool| self.store.free_blocks(pool) < threshold);
        match short {
            Some(pool) => {
                let collected = self.collect(pool)?;
                self.make_room_for_metadata()?;
                Ok(collected)
            }
            None => Ok(false),
        }
    }

    /// Collects one victim of `pool`, and what wear leveling wants moved; `false` if nothing can be gained.
    fn collect(&mut self, pool: u32) -> Result<bool> {
        let Some(victim) = self.choose_victim(pool) else { return Ok(false) };
        self.store.stats.gc_victims += 1;
        let holds_deltas = self.store.blocks().kind(victim) == PageKind::Delta;
        self.store.stats.gc_delta_victims += u64::from(holds_deltas);
        self.empty_and_erase(victim, pool, Cause::Gc)?;
        if let Some(cold) = self.collector.worn_behind(&self.store, pool)
            && self.store.free_blocks(pool) > RESERVE_BLOCKS
        {
            self.empty_and_erase(cold, pool, Cause::Wear)?;
        }
        Ok(true)
    }

    fn choose_victim(&mut self, pool: u32) -> Option<BlockId> {
        if self.store.free_blocks(pool) == 0 {
            return self.fitting_victim(pool);
        }
        let Self { store, validity, recycle, delta, collector, .. } = self;
        let (recycle, delta) = (&*recycle, &*delta);
        if store.free_blocks(pool) <= collector.options.urgent_blocks {
            return store.blocks_mut().least_valid(pool);
        }
        let geometry = store.geometry().clone();
        let now = store.sequence();
        let dirtiness = |block: BlockId| {
            let first = geometry.first_page(block);
            let pages = (first.0..first.0 + geometry.block_pages()).map(Ppn);
            if let Some(stage) = delta {
                let dead = |ppn: Ppn| if validity.is_valid(ppn) { stage.dead_share(ppn) } else { 1.0 };
                return pages.map(dead).sum();
            }
            let dead = pages.filter(|&ppn| !validity.is_valid(ppn));
            match recycle {
                Some(stage) => stage.part.weight(dead),
                None => dead.count() as f64,
            }
        };
        collector.chooser.choose(store.blocks_mut(), pool, now, dirtiness)
    }

    /// Without a free block (a failed erase or a power cut took the reserve): the emptiest block whose live pages fit
    /// into the open block of their stream.
    fn fitting_victim(&self, pool: u32) -> Option<BlockId> {
        let blocks = self.store.blocks();
        let room = |block: BlockId| self.store.frontier_left(stream_of_copies(blocks.kind(block)), pool);
        let gains = |block: BlockId| blocks.valid(block) < blocks.block_pages();
        blocks.closed_by_valid(pool).into_iter().find(|&b| gains(b) && blocks.valid(b) <= room(b))
    }

    /// Moves the live pages of a closed block and erases it.
    fn empty_and_erase(&mut self, victim: BlockId, pool: u32, cause: Cause) -> Result<()> {
        match self.store.blocks().kind(victim) {
            PageKind::Data => self.move_data(victim, pool, cause)?,
            PageKind::Translation => self.move_metadata(victim, pool, Stream::Translation, cause)?,
            PageKind::RemapLog => self.move_metadata(victim, pool, Stream::RemapLog, cause)?,
            PageKind::Delta => self.move_deltas(victim, pool, cause)?,
            PageKind::Chunk => self.move_chunks(victim, pool, cause)?,
        }
        self.forget_dead_pages(victim);
        self.mapping.store_moves(&mut self.store)?;
        self.store.erase(victim, cause)?;
        if let Some(stage) = &mut self.chunks {
            stage.synced();
        }
        match &mut self.sharing {
            Some(sharing) => sharing.reverse.erased(&mut self.store, victim),
            None => Ok(()),
        }
    }

    /// Copies the live pages of a victim in one batch, then tells everybody who refers to them. What was copied before
    /// an error is accounted for like the rest, so that RAM that survives a power cut is consistent.
    fn move_data(&mut self, victim: BlockId, pool: u32, cause: Cause) -> Result<()> {
        let first = self.store.geometry().first_page(victim);
        let mut batch = std::mem::take(&mut self.collector.batch);
        batch.clear();
        self.validity.collect_valid(first, self.store.geometry().block_pages(), &mut batch.from);
        self.merge_bases(&mut batch.from, pool, cause)?;
        let outcome = self.name_owners(victim, &mut batch).and_then(|()| {
            let moves = Moves { from: &batch.from, owners: &batch.owners };
            self.store.copy(moves, Stream::Gc, pool, cause, &mut batch.to)
        });
        let told = self.relocate(victim, &batch);
        self.collector.batch = batch;
        outcome.and(told)
    }

    /// The logical page that the OOB of each copy will name: one that refers to the page now.
    fn name_owners(&mut self, victim: BlockId, batch: &mut Batch) -> Result<()> {
        if let Some(sharing) = &mut self.sharing {
            sharing.load_entries(&self.mapping, &mut self.store, victim)?;
        }
        batch.owners.extend(batch.from.iter().map(|&ppn| self.referrer(ppn)));
        Ok(())
    }

    fn relocate(&mut self, victim: BlockId, batch: &Batch) -> Result<()> {
        // The map is written at random places: loading all of them first lets the cache misses overlap.
        std::hint::black_box(self.mapping.warm(&batch.owners));
        batch.owners.iter().zip(&batch.to).for_each(|(&lpn, &to)| self.mapping.relocate(lpn, to.into()));
        self.move_valid_bits(batch);
        self.store.discard_many(victim, batch.to.len() as u32);
        if let Some(stage) = &mut self.recycle {
            let geometry = self.store.geometry();
            let (first, pages) = (geometry.first_page(victim), geometry.block_pages());
            stage.part.moved_block(first, pages, &batch.owners, &batch.from, &batch.to);
        }
        if self.sharing.is_some() { self.relocate_shared(batch) } else { Ok(()) }
    }

    /// What sharing knows of moved pages: counts and index follow, the binder that the new OOB names needs no entry any
    /// more, and every other binder gets a new one, durable before the victim is erased.
    fn relocate_shared(&mut self, batch: &Batch) -> Result<()> {
        let Self { sharing, mapping, store, .. } = self;
        let Some(sharing) = sharing else { return Ok(()) };
        for (&from, &to) in batch.from.iter().zip(&batch.to) {
            sharing.refs.relocate(from.into(), to.into());
            if let Some(index) = &mut sharing.index {
                index.relocate(store.nand().fingerprint(to), from.into(), to.into());
            }
        }
        let entries = std::mem::take(&mut sharing.entries);
        let mut unrecorded = Vec::new();
        let outcome = entries.iter().try_for_each(|&entry| {
            let Some(place) = entry.place else { return sharing.record(mapping, store, entry) };
            let at = batch.from.binary_search(&place).expect("a bound page is valid");
            // Pages that were not copied, because power was lost, keep their entries.
            let Some(&to) = batch.to.get(at) else { return Ok(()) };
            sharing.unbind(store, entry.lpn, place.into());
            if batch.owners[at] == entry.lpn {
                let rest = sharing.need(mapping, &entry).rest_of(entry);
                return rest.map_or(Ok(()), |tombstone| sharing.record(mapping, store, tombstone));
            }
            if !sharing.recordable {
                unrecorded.push((entry, to));
                return Ok(());
            }
            // With its new number the entry would also bury a source that was written again since.
            let source = entry.source.filter(|_| sharing.need(mapping, &entry).tombstone);
            mapping.relocate(entry.lpn, to.into());
            sharing.mark_bound(entry.lpn);
            let sequence = store.next_sequence();
            sharing.record(mapping, store, Entry { place: Some(to), source, sequence, ..entry })
        });
        sharing.entries = entries;
        outcome?;
        unrecorded.into_iter().try_for_each(|(entry, at)| self.store_once_more(entry, at))
    }

    /// A bind whose new entry has no room (the reserve was spent on other victims): its logical page gets a page of its
    /// own beside the copy at `at`.
    fn store_once_more(&mut self, entry: Entry, at: Ppn) -> Result<()> {
        let mut page = self.blank_page();
        let oob = self.store.read(at, &mut page, Cause::Gc)?;
        let content = Content::of_page(&page, oob.fingerprint);
        let pool = self.store.pool_of(self.store.block_of(at));
        let ppn = self.store.append(Stream::Gc, pool, entry.lpn.0, content, oob.fingerprint, Cause::Gc)?;
        self.mapping.relocate(entry.lpn, ppn.into());
        self.validity.set(ppn);
        let sharing = self.sharing.as_mut().expect("only sharing has entries");
        let still_shared = sharing.refs.down(at.into());
        assert!(still_shared, "the copy at {at} has the referrer that its OOB names");
        self.store.stats.demoted_full += 1;
        let need = sharing.need(&self.mapping, &entry);
        match need.rest_of(entry) {
            Some(tombstone) => sharing.record(&self.mapping, &mut self.store, tombstone),
            None => Ok(()),
        }
    }

    /// A logical page that refers to `ppn`, or did last. The OOB alone is wrong for recycled and for shared pages; of
    /// the latter the entries of the victim in hand have been loaded.
    #[inline]
    pub(crate) fn referrer(&self, ppn: Ppn) -> Lpn {
        let spare_owner = self.store.owner(ppn);
        if let Some(stage) = &self.recycle {
            return stage.part.owner(ppn, spare_owner);
        }
        match &self.sharing {
            Some(sharing) => sharing.representative(ppn, spare_owner),
            None => spare_owner,
        }
    }

    /// What was copied is a prefix of the victim's live pages, and lies in runs: both sides change by ranges.
    fn move_valid_bits(&mut self, batch: &Batch) {
        let moved = &batch.from[..batch.to.len()];
        let [first, .., last] = moved else {
            for (&from, &to) in moved.iter().zip(&batch.to) {
                self.validity.clear(from);
                self.validity.set(to);
            }
            return;
        };
        self.validity.clear_range(*first, last.0 - first.0 + 1);
        for run in batch.to.chunk_by(|a, b| a.0 + 1 == b.0) {
            self.validity.set_range(run[0], run.len() as u32);
        }
    }

    fn move_metadata(&mut self, victim: BlockId, pool: u32, stream: Stream, cause: Cause) -> Result<()> {
        let first = self.store.geometry().first_page(victim).0;
        let mut batch = std::mem::take(&mut self.collector.batch);
        batch.clear();
        for ppn in (first..first + self.store.geometry().block_pages()).map(Ppn) {
            let id = self.store.owner(ppn);
            if self.owns_metadata(stream, id.0, ppn) {
                batch.from.push(ppn);
                batch.owners.push(id);
            }
        }
        let moves = Moves { from: &batch.from, owners: &batch.owners };
        let outcome = self.store.copy(moves, stream, pool, cause, &mut batch.to);
        for (id, &to) in batch.owners.iter().zip(&batch.to) {
            match &mut self.sharing {
                Some(sharing) if stream == Stream::RemapLog => sharing.reverse.relocate_own(id.0, to),
                _ => self.mapping.relocate_own(id.0, to),
            }
        }
        self.store.discard_many(victim, batch.to.len() as u32);
        self.collector.batch = batch;
        outcome
    }

    /// Whether `ppn` is the current copy of metadata page `id` of a stream.
    pub(crate) fn owns_metadata(&self, stream: Stream, id: u32, ppn: Ppn) -> bool {
        match &self.sharing {
            Some(sharing) if stream == Stream::RemapLog => sharing.reverse.owns(id, ppn),
            _ => self.mapping.owns(id, ppn),
        }
    }
}

/// Where the live pages of a block of this kind go.
fn stream_of_copies(kind: PageKind) -> Stream {
    match kind {
        PageKind::Data => Stream::Gc,
        PageKind::Translation => Stream::Translation,
        PageKind::Delta => Stream::Delta,
        PageKind::Chunk => Stream::Chunk,
        PageKind::RemapLog => Stream::RemapLog,
    }
}
