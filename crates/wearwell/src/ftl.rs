//! The engine: write, read, trim, bind and collect, each about one screen.
//!
//! One write, step by step: make room (GC runs before a write starts, never inside a part); ask the content stage
//! whether the page must be stored at all; if so, append it to the host stream; tell the mapping, which gives
//! back the old place; release the old place (block count, validity, history). The FTL knows no clock: timing
//! prices the operation list afterwards.
//!
//! A mapping changes in two ways only: by `store` (a program) and by `bind` (no program).
//!
//! Invariants, audited by [`Ftl::check`](crate::check): the valid bit of a page is set exactly if some logical
//! page maps to it; block counts equal valid bits plus current metadata pages; no two logical pages share a page.
//!
//! After an error that is a power loss, RAM is in a state that [`Ftl::recover`](crate::recovery) can take over:
//! every flash operation either precedes the RAM changes that rely on it, or leaves nothing to rely on.

use crate::address::{BlockId, Lpn, Ppn, RemapMode};
use crate::content::recycle::{Recycle, StorePolicy};
use crate::content::{Content, Descriptor, Fingerprint};
use crate::design::{ContentPart, MappingPart, Parts, Persistence};
use crate::error::{Error, Result};
use crate::gc::{Batch, Collector, GcOptions, RESERVE_BLOCKS, VictimPolicy};
use crate::mapping::{AnyMapping, Cached, Flat, Mapping};
use crate::nand::{Nand, PageKind};
use crate::stats::Stats;
use crate::store::{Moves, Store, Stream};
use crate::timing::Cause;
use crate::validity::RamBitmap;

/// The content stage in use, with what it needs of the engine.
#[derive(Clone, Debug)]
pub(crate) struct RecycleStage {
    pub(crate) part: Recycle,
    pub(crate) options: crate::design::RecycleDesign,
    neighbours: Vec<Ppn>,
}

/// A flash translation layer over a medium, assembled from parts.
#[derive(Clone, Debug)]
pub struct Ftl<N> {
    pub(crate) store: Store<N>,
    pub(crate) mapping: AnyMapping,
    pub(crate) validity: RamBitmap,
    pub(crate) recycle: Option<Box<RecycleStage>>,
    pub(crate) collector: Collector,
    pub(crate) logical_pages: u32,
    pub(crate) persistence: Persistence,
}

impl<N: Nand> Ftl<N> {
    /// A formatted (empty) device of `logical_pages` over an erased medium.
    ///
    /// # Errors
    /// [`Error::NoSpareSpace`] if data, metadata and reserve do not fit; contradictory options.
    pub fn new(nand: N, logical_pages: u32, parts: &Parts) -> Result<Self> {
        let store = Store::new(nand, parts.gc.wear.free_order());
        let mapping = Self::new_mapping(&store, logical_pages, parts.mapping);
        let recycle = Self::new_recycle(&store, logical_pages, &parts.content)?;
        let mut ftl = Self {
            validity: RamBitmap::new(store.geometry().pages()),
            collector: Collector::new(parts.gc),
            persistence: parts.persistence,
            store,
            mapping,
            recycle,
            logical_pages,
        };
        ftl.require_spare_space()?;
        ftl.set_victim_policy(parts.gc.policy);
        Ok(ftl)
    }

    fn new_mapping(store: &Store<N>, logical_pages: u32, part: MappingPart) -> AnyMapping {
        match part {
            MappingPart::Flat => AnyMapping::Flat(Flat::new(logical_pages)),
            MappingPart::Cached(options) => {
                let page_bytes = store.geometry().page_bytes;
                AnyMapping::Cached(Box::new(Cached::new(logical_pages, page_bytes, options)))
            }
        }
    }

    fn new_recycle(
        store: &Store<N>,
        logical_pages: u32,
        part: &ContentPart,
    ) -> Result<Option<Box<RecycleStage>>> {
        let ContentPart::Recycle(design) = part else { return Ok(None) };
        let options = design.options.clone().checked().map_err(|error| Error::Options(error.to_string()))?;
        let part = Recycle::new(store.geometry().pages(), logical_pages, &options);
        let stage = RecycleStage { part, options: design.clone(), neighbours: Vec::new() };
        Ok(Some(Box::new(stage)))
    }

    /// With less than this, every closed block could be full of valid pages while a write waits.
    fn require_spare_space(&self) -> Result<()> {
        let good = self.store.total_free_blocks() as u64;
        let block_pages = self.store.geometry().block_pages() as u64;
        // Per pool: the GC reserve, an open block of copies, and one of metadata if there is any.
        let metadata = self.mapping.metadata_pages();
        let open_blocks = 1 + u64::from(metadata > 0);
        let pools = self.store.pools() as u64;
        let kept_blocks = pools * (RESERVE_BLOCKS as u64 + open_blocks);
        let reserve = (kept_blocks * block_pages + metadata + 1).min(good * block_pages);
        let usable = good * block_pages - reserve;
        if self.logical_pages == 0 || self.logical_pages as u64 > usable {
            let (logical, physical) = (self.logical_pages as u64, good * block_pages);
            return Err(Error::NoSpareSpace { logical, physical, reserve, usable });
        }
        Ok(())
    }

    /// Pages the host sees.
    pub fn logical_pages(&self) -> u32 {
        self.logical_pages
    }

    /// Counters.
    pub fn stats(&self) -> &Stats {
        &self.store.stats
    }

    /// Counters back to zero, for example after preconditioning. Wear stays.
    pub fn clear_stats(&mut self) {
        self.store.stats = Stats::default();
        if let AnyMapping::Cached(cached) = &mut self.mapping {
            cached.clear_counts();
        }
        if let Some(recycle) = &mut self.recycle {
            recycle.part.reset_statistics();
        }
    }

    /// Allocation, block table, operation list and the medium.
    pub fn store(&self) -> &Store<N> {
        &self.store
    }

    /// The same, to listen to operations or to reach the medium's fault injection.
    pub fn store_mut(&mut self) -> &mut Store<N> {
        &mut self.store
    }

    /// The mapping, for its counts.
    pub fn mapping(&self) -> &AnyMapping {
        &self.mapping
    }

    /// The recycling stage, for its counts.
    pub fn recycle(&self) -> Option<&Recycle> {
        self.recycle.as_deref().map(|stage| &stage.part)
    }

    /// Whether writes need their content's identity.
    #[inline]
    pub fn looks_at_content(&self) -> bool {
        self.recycle.is_some()
    }

    /// When and how garbage collection runs.
    pub fn gc_options(&self) -> &GcOptions {
        &self.collector.options
    }

    /// Appends one page to the host stream of `pool` without collecting first: a valid page of `lpn` (which must be
    /// unmapped), or a page that is dead from the start. For building a device in a known state; the programs are
    /// counted like any other.
    ///
    /// # Errors
    /// [`Error::Full`] if the pool has no free block.
    pub fn construct_page(&mut self, pool: u32, lpn: Option<Lpn>, descriptor: Descriptor) -> Result<()> {
        let (content, fingerprint) = (Content::Descriptor(descriptor), descriptor.fingerprint);
        let owner = lpn.map_or(0, |lpn| lpn.0);
        let ppn = self.store.append(Stream::Host, pool, owner, content, fingerprint, Cause::Host)?;
        let Some(lpn) = lpn else {
            self.store.discard(ppn);
            return Ok(());
        };
        let old = self.mapping.update(&mut self.store, lpn, Some(ppn))?;
        assert!(old.is_none(), "page {lpn} is constructed twice");
        self.store.stats.host_page_writes += 1;
        self.validity.set(ppn);
        if let Some(stage) = &mut self.recycle {
            stage.part.programmed(lpn, ppn);
        }
        Ok(())
    }

    /// Exchanges the victim policy at run time.
    pub fn set_victim_policy(&mut self, policy: VictimPolicy) {
        let options = GcOptions { policy, ..self.collector.options };
        self.collector = Collector::new(options);
        self.store.blocks_mut().track_closing_order(policy == VictimPolicy::Fifo);
    }

    /// Exchanges the policy and size of the fingerprint store at run time; nothing happens without one.
    pub fn set_store_policy(&mut self, policy: StorePolicy, capacity_entries: Option<u32>) {
        if let Some(stage) = &mut self.recycle {
            stage.part.set_policy(policy, capacity_entries);
        }
    }

    /// Reads what the next writes will need, so that their memory accesses overlap: the first access to the tables is
    /// the dearest step of a write on a device whose tables exceed the caches. `fingerprints` are those of the pages
    /// to be written, where known. Changes nothing; returns a value that depends on the reads.
    #[inline]
    pub fn warm(&self, upcoming: &[Lpn], fingerprints: &[Fingerprint]) -> u64 {
        let AnyMapping::Flat(flat) = &self.mapping else { return 0 };
        let mut places = [Ppn(0); 32];
        let mut sum = 0;
        for chunk in upcoming.chunks(places.len()) {
            for (place, &lpn) in places.iter_mut().zip(chunk) {
                *place = flat.get(lpn).unwrap_or(Ppn(0));
            }
            for &place in &places[..chunk.len()] {
                let valid = self.store.blocks().valid(self.store.block_of(place));
                sum += u64::from(self.validity.is_valid(place)) + valid as u64;
            }
            sum ^= self.warm_content(chunk, &places);
        }
        let Some(stage) = &self.recycle else { return sum };
        fingerprints.iter().fold(sum, |sum, &fingerprint| sum ^ stage.part.warm_find(fingerprint))
    }

    /// The same for the content stage, in two rounds because the second depends on the first.
    fn warm_content(&self, lpns: &[Lpn], places: &[Ppn; 32]) -> u64 {
        let Some(stage) = &self.recycle else { return 0 };
        let mut contents = [Fingerprint::default(); 32];
        for (content, &place) in contents.iter_mut().zip(&places[..lpns.len()]) {
            *content = self.store.nand().fingerprint(place);
        }
        let pages = lpns.iter().zip(places).zip(contents);
        pages.fold(0, |sum, ((&lpn, &place), content)| sum ^ stage.part.warm(lpn, place, content))
    }

    /// Writes one page.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Full`], power loss.
    #[inline]
    pub fn write(&mut self, lpn: Lpn, content: Content<'_>) -> Result<()> {
        self.require_in_range(lpn)?;
        let pool = self.make_room_for_write()?;
        let fingerprint =
            if self.looks_at_content() { content.fingerprint() } else { Fingerprint::default() };
        if self.looks_at_content()
            && let Some(dead) = self.find_dead(fingerprint, &content)?
        {
            return self.recycle_page(lpn, dead);
        }
        let ppn = self.store.append(Stream::Host, pool, lpn.0, content, fingerprint, Cause::Host)?;
        let old = match self.mapping.update(&mut self.store, lpn, Some(ppn)) {
            Ok(old) => old,
            Err(error) => {
                self.store.stats.wasted_programs += 1;
                self.store.discard(ppn);
                return Err(error);
            }
        };
        self.store.stats.host_page_writes += 1;
        self.validity.set(ppn);
        if let Some(stage) = &mut self.recycle {
            stage.part.programmed(lpn, ppn);
        }
        self.release(lpn, old);
        Ok(())
    }

    /// Reads one page; `false` if it was never written (or trimmed) and reads as zeros. `into` is one page long, or
    /// empty where nobody wants the bytes; it is filled if the medium keeps bytes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], uncorrectable page, power loss; a demand-paged mapping may need room.
    #[inline]
    pub fn read(&mut self, lpn: Lpn, into: &mut [u8]) -> Result<bool> {
        self.require_in_range(lpn)?;
        let place = self.locate(lpn)?;
        self.store.stats.host_page_reads += 1;
        self.read_place(place, into)
    }

    /// As [`Ftl::read`], for the old part of a partial write: no host read is counted.
    pub(crate) fn read_for_modify(&mut self, lpn: Lpn, into: &mut [u8]) -> Result<bool> {
        self.require_in_range(lpn)?;
        let place = self.locate(lpn)?;
        self.read_place(place, into)
    }

    /// Where a page is. A device that is full can write no translation page any more, but it still reads.
    #[inline]
    fn locate(&mut self, lpn: Lpn) -> Result<Option<Ppn>> {
        match self.make_room_for_metadata() {
            Ok(()) => self.mapping.lookup(&mut self.store, lpn),
            Err(Error::Full { .. }) => self.mapping.peek(&mut self.store, lpn),
            Err(error) => Err(error),
        }
    }

    fn read_place(&mut self, place: Option<Ppn>, into: &mut [u8]) -> Result<bool> {
        let Some(ppn) = place else {
            into.fill(0);
            return Ok(false);
        };
        self.store.read(ppn, into, Cause::Host)?;
        if let Some(stage) = &mut self.recycle {
            stage.part.read(ppn);
        }
        Ok(true)
    }

    /// Identity of a page's current content where the medium keeps it; for merging partial writes.
    pub(crate) fn fingerprint_of(&mut self, lpn: Lpn) -> Result<Option<Fingerprint>> {
        let place = self.locate(lpn)?;
        Ok(place.map(|ppn| self.store.nand().fingerprint(ppn)))
    }

    /// Deallocates one page: it reads as zeros from now on. The page stays recyclable until its block is erased.
    ///
    /// # Errors
    /// As [`Ftl::read`].
    pub fn trim(&mut self, lpn: Lpn) -> Result<()> {
        self.require_in_range(lpn)?;
        self.make_room_for_metadata()?;
        self.store.stats.host_page_trims += 1;
        let old = self.mapping.update(&mut self.store, lpn, None)?;
        self.release(lpn, old);
        Ok(())
    }

    #[inline]
    fn require_in_range(&self, lpn: Lpn) -> Result<()> {
        if lpn.0 < self.logical_pages {
            return Ok(());
        }
        Err(Error::OutOfRange { lpn: lpn.0 as u64, pages: self.logical_pages })
    }

    /// The page that `lpn` used is not needed for it any more.
    #[inline]
    fn release(&mut self, lpn: Lpn, old: Option<Ppn>) {
        let Some(old) = old else { return };
        self.validity.clear(old);
        self.store.discard(old);
        if self.recycle.is_some() {
            self.offer_dead(lpn, old);
        }
    }

    /// Offers a page that just died to the fingerprint store.
    fn offer_dead(&mut self, lpn: Lpn, dead: Ppn) {
        let Some(stage) = &mut self.recycle else { return };
        let fingerprint = self.store.nand().fingerprint(dead);
        stage.part.invalidated(lpn, dead, fingerprint);
    }

    /// A dead page with this content. With `verify_on_hit` its bytes are read and compared, and the read is charged.
    fn find_dead(&mut self, fingerprint: Fingerprint, content: &Content<'_>) -> Result<Option<Ppn>> {
        let Some(stage) = &mut self.recycle else { return Ok(None) };
        let Some(dead) = stage.part.find(fingerprint) else { return Ok(None) };
        if !stage.options.verify_on_hit {
            return Ok(Some(dead));
        }
        let mut page =
            vec![
                0;
                if self.store.nand().keeps_bytes() { self.store.geometry().page_bytes as usize } else { 0 }
            ];
        self.store.read(dead, &mut page, Cause::Content)?;
        let equal = match content {
            Content::Bytes(bytes) => page.is_empty() || *bytes == page.as_slice(),
            Content::Descriptor(_) => true,
        };
        Ok(equal.then_some(dead))
    }

    /// Serves a write of `lpn` with a dead page of equal content: one map update, no program.
    fn recycle_page(&mut self, lpn: Lpn, dead: Ppn) -> Result<()> {
        let spare_owner = self.store.owner(dead);
        // The map may have to read and write translation pages; nothing has changed yet if that fails.
        let old = self.mapping.update(&mut self.store, lpn, Some(dead))?;
        let stage = self.recycle.as_mut().expect("only the recycling stage finds dead pages");
        let former = stage.part.owner(dead, spare_owner);
        stage.part.revive(dead, former, lpn);
        self.validity.set(dead);
        self.store.revive(dead);
        self.store.stats.host_page_writes += 1;
        self.store.stats.recycled_writes += 1;
        self.release(lpn, old);
        self.load_neighbours(former)
    }

    /// Fast loading: dead pages of neighbouring addresses enter the store for a spare-area read each.
    fn load_neighbours(&mut self, owner: Lpn) -> Result<()> {
        let Some(stage) = &mut self.recycle else { return Ok(()) };
        let mut neighbours = std::mem::take(&mut stage.neighbours);
        stage.part.neighbours(owner, &mut neighbours);
        for ppn in neighbours.drain(..) {
            let oob = self.store.read_spare(ppn, Cause::Content)?;
            stage.part.load_fast(ppn, oob.fingerprint);
        }
        stage.neighbours = neighbours;
        Ok(())
    }

    /// Makes sure that the next host page and the metadata it may cause have a place; returns its pool.
    #[inline]
    fn make_room_for_write(&mut self) -> Result<u32> {
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

    /// Settles what GC postponed in the mapping and leaves a place for the next translation page.
    #[inline]
    fn make_room_for_metadata(&mut self) -> Result<()> {
        if self.mapping.pages_per_update() == 0 {
            return Ok(());
        }
        loop {
            self.require_metadata_page()?;
            if !self.mapping.settle(&mut self.store)? {
                return self.require_metadata_page();
            }
        }
    }

    fn require_metadata_page(&mut self) -> Result<()> {
        while !self.has_metadata_page() {
            self.collect_anywhere()?;
        }
        // Opened now, so that the host page of the same request cannot take the block and leave GC without reserve.
        self.store.open_ahead(Stream::Translation)
    }

    fn has_metadata_page(&self) -> bool {
        let pool = self.store.richest_pool(Stream::Translation);
        self.store.frontier_left(Stream::Translation, pool) > 0
            || self.store.free_blocks(pool) > RESERVE_BLOCKS
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
        let Self { store, validity, recycle, collector, .. } = self;
        let recycle = &*recycle;
        if store.free_blocks(pool) <= collector.options.urgent_blocks {
            return store.blocks_mut().least_valid(pool);
        }
        let geometry = store.geometry().clone();
        let now = store.sequence();
        let dirtiness = |block: BlockId| {
            let first = geometry.first_page(block);
            let dead =
                (first.0..first.0 + geometry.block_pages()).map(Ppn).filter(|&ppn| !validity.is_valid(ppn));
            match recycle.as_deref() {
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
        let room = |block: BlockId| match blocks.kind(block) {
            PageKind::Data => self.store.frontier_left(Stream::Gc, pool),
            PageKind::Translation => self.store.frontier_left(Stream::Translation, pool),
        };
        let gains = |block: BlockId| blocks.valid(block) < blocks.block_pages();
        blocks.closed_by_valid(pool).into_iter().find(|&b| gains(b) && blocks.valid(b) <= room(b))
    }

    /// Moves the live pages of a closed block and erases it.
    fn empty_and_erase(&mut self, victim: BlockId, pool: u32, cause: Cause) -> Result<()> {
        match self.store.blocks().kind(victim) {
            PageKind::Data => self.move_data(victim, pool, cause)?,
            PageKind::Translation => self.move_translation(victim, pool, cause)?,
        }
        self.forget_dead_pages(victim);
        self.store.erase(victim, cause)
    }

    /// Copies the live pages of a victim in one batch, then tells everybody who refers to them. What was copied before
    /// an error is accounted for like the rest, so that RAM that survives a power cut is consistent.
    fn move_data(&mut self, victim: BlockId, pool: u32, cause: Cause) -> Result<()> {
        let first = self.store.geometry().first_page(victim);
        let mut batch = std::mem::take(&mut self.collector.batch);
        batch.clear();
        self.validity.collect_valid(first, self.store.geometry().block_pages(), &mut batch.from);
        batch.owners.extend(batch.from.iter().map(|&ppn| self.referrer(ppn)));
        let moves = Moves { from: &batch.from, owners: &batch.owners };
        let outcome = self.store.copy(moves, Stream::Gc, pool, cause, &mut batch.to);
        self.relocate(victim, &batch);
        self.collector.batch = batch;
        outcome
    }

    fn relocate(&mut self, victim: BlockId, batch: &Batch) {
        // The map is written at random places: loading all of them first lets the cache misses overlap.
        std::hint::black_box(self.mapping.warm(&batch.owners));
        batch.owners.iter().zip(&batch.to).for_each(|(&lpn, &to)| self.mapping.relocate(lpn, to));
        self.move_valid_bits(batch);
        self.store.discard_many(victim, batch.to.len() as u32);
        if let Some(stage) = &mut self.recycle {
            let geometry = self.store.geometry();
            let (first, pages) = (geometry.first_page(victim), geometry.block_pages());
            stage.part.moved_block(first, pages, &batch.owners, &batch.from, &batch.to);
        }
    }

    /// The logical page that holds `ppn`, or held it last. The OOB alone is wrong for recycled pages.
    #[inline]
    pub(crate) fn referrer(&self, ppn: Ppn) -> Lpn {
        let spare_owner = self.store.owner(ppn);
        match &self.recycle {
            Some(stage) => stage.part.owner(ppn, spare_owner),
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

    fn move_translation(&mut self, victim: BlockId, pool: u32, cause: Cause) -> Result<()> {
        let first = self.store.geometry().first_page(victim).0;
        let mut batch = std::mem::take(&mut self.collector.batch);
        batch.clear();
        for ppn in (first..first + self.store.geometry().block_pages()).map(Ppn) {
            let id = self.store.owner(ppn);
            if self.mapping.owns(id.0, ppn) {
                batch.from.push(ppn);
                batch.owners.push(id);
            }
        }
        let moves = Moves { from: &batch.from, owners: &batch.owners };
        let outcome = self.store.copy(moves, Stream::Translation, pool, cause, &mut batch.to);
        batch.owners.iter().zip(&batch.to).for_each(|(id, &to)| self.mapping.relocate_own(id.0, to));
        self.store.discard_many(victim, batch.to.len() as u32);
        self.collector.batch = batch;
        outcome
    }

    /// Dead pages leave history and fingerprint store before their block can be reused.
    pub(crate) fn forget_dead_pages(&mut self, block: BlockId) {
        let Some(stage) = &mut self.recycle else { return };
        let (first, pages) = (self.store.geometry().first_page(block), self.store.geometry().block_pages());
        stage.part.erased_block(first, pages, |ppn| self.store.owner(ppn));
    }

    /// Writes everything that exists only in RAM to flash, as a battery would at power loss or a shutdown command
    /// does. Needs room like any other write.
    ///
    /// # Errors
    /// As [`Ftl::write`].
    pub fn write_back(&mut self) -> Result<()> {
        // With nothing to write, no room is made: recovery repeats this step on a store that it has half forgotten.
        while self.mapping.has_unwritten() {
            self.require_metadata_page()?;
            self.mapping.write_back(&mut self.store)?;
        }
        Ok(())
    }

    /// Bytes of RAM a controller holds for this design, by structure.
    pub fn ram_bytes(&self) -> Vec<(&'static str, u64)> {
        let mut parts = self.mapping.ram_bytes();
        parts.push(("page validity bitmap", self.validity.ram_bytes()));
        parts.push(("block table", self.store.blocks().ram_bytes()));
        if let Some(stage) = &self.recycle {
            parts.extend(stage.part.ram_bytes());
        }
        parts
    }

    /// Gives `target` the content of `source`. This is the form every design has, the one that a remap is demoted to
    /// (Remap-SSD, section 4.3): one read and one program, and a trim of the source if it is relocated, each counted
    /// as the host's. On a medium without bytes the identity is copied, not what is known of its compressed size.
    ///
    /// # Errors
    /// Those of [`Ftl::read`], [`Ftl::write`] and [`Ftl::trim`]; the target is untouched if the read fails.
    pub fn remap_page(&mut self, target: Lpn, source: Lpn, mode: RemapMode) -> Result<()> {
        self.require_in_range(target)?;
        if target == source {
            return Ok(());
        }
        let keeps_bytes = self.store.nand().keeps_bytes();
        let mut page = vec![0; if keeps_bytes { self.store.geometry().page_bytes as usize } else { 0 }];
        if !self.read(source, &mut page)? {
            return self.trim(target);
        }
        let identity = self.fingerprint_of(source)?.unwrap_or(Fingerprint::ZERO_PAGE);
        let described = Content::Descriptor(Descriptor::of(identity));
        self.write(target, if keeps_bytes { Content::Bytes(&page) } else { described })?;
        if mode == RemapMode::Relocate { self.trim(source) } else { Ok(()) }
    }
}
