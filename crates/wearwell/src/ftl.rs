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
//! page maps to it; block counts equal valid bits plus current metadata pages; logical pages share a page only where
//! sharing is a part of the design, and then it counts them.
//!
//! After an error that is a power loss, RAM is in a state that [`Ftl::recover`](crate::recovery) can take over:
//! every flash operation either precedes the RAM changes that rely on it, or leaves nothing to rely on.

#![expect(clippy::inline_always, reason = "measured: the way of a write costs a tenth less in one piece")]

use crate::address::{Address, Lpn, Ppn, RemapMode, Unit, is_page};
use crate::content::chunk::{ChunkStage, ChunkStatistics};
use crate::content::chunk_directory::DIRECTORY_BYTES;
use crate::content::delta::{self, DeltaStage, DeltaStatistics};
use crate::content::recycle::{Recycle, RecycleStage, StorePolicy};
use crate::content::sharing::Sharing;
use crate::content::{Content, Descriptor, Fingerprint, Observations};
use crate::design::{BlockSurvey, MappingPart, Parts, Persistence};
use crate::error::{Error, Result};
use crate::gc::{Collector, GcOptions, MetadataGc, OwnPolicy, RESERVE_BLOCKS, VictimPolicy};
use crate::lifetime::{ContentSchemes, SchemeKind};
use crate::mapping::{AnyMapping, Cached, Flat, Identified, Journalled, Mapping};
use crate::nand::Nand;
use crate::reverse_map::ReverseMap;
use crate::stats::Stats;
use crate::store::{Store, Stream};
use crate::timing::Cause;
use crate::validity::{AnyValidity, RamBitmap, Validity};

/// A flash translation layer over a medium, assembled from parts.
#[derive(Clone, Debug)]
pub struct Ftl<N> {
    pub(crate) store: Store<N>,
    pub(crate) mapping: AnyMapping,
    pub(crate) validity: AnyValidity,
    pub(crate) recycle: Option<Box<RecycleStage>>,
    pub(crate) sharing: Option<Box<Sharing>>,
    pub(crate) delta: Option<Box<DeltaStage>>,
    pub(crate) chunks: Option<Box<ChunkStage>>,
    pub(crate) observations: Observations,
    pub(crate) collector: Collector,
    pub(crate) flush_limits: FlushLimits,
    pub(crate) logical_pages: u32,
    pub(crate) persistence: Persistence,
    /// What recovery reads of each block.
    pub(crate) survey: BlockSurvey,
    /// Counts of valid pages may be too high since a recovery, beyond what a lazy map knows.
    pub(crate) counts_lag: bool,
    /// Counts of valid pages may be too high where a recovery could not know better.
    pub(crate) has_recovered: bool,
    /// Power failed, the battery has written what was in RAM, and recovery has not ended since.
    pub(crate) battery_has_saved: bool,
}

/// What makes the validity store write its buffer before it is full: asked at every host write.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlushLimits {
    /// Old versions that are held for it ([`Ftl::held_limit`]).
    pub(crate) held_pages: usize,
    /// Programs since it was written last ([`Ftl::longest_without_flush`]).
    pub(crate) programs: u64,
}

impl<N: Nand> Ftl<N> {
    /// A formatted (empty) device of `logical_pages` over an erased medium.
    ///
    /// # Errors
    /// [`Error::NoSpareSpace`] if data, metadata and reserve do not fit; contradictory options.
    pub fn new(nand: N, logical_pages: u32, parts: &Parts) -> Result<Self> {
        let order = parts.gc.wear.free_order();
        let store = match parts.survey {
            BlockSurvey::OobScan => Store::new(nand, order),
            BlockSurvey::HeadTail => Store::with_heads_and_tails(nand, order)?,
        };
        parts.checked()?;
        let mapping = Self::new_mapping(&store, logical_pages, parts)?;
        if parts.persistence.compares_versions() && store.geometry().spare_bytes < 8 {
            return Err(Error::Options(
                "recovery by a backward scan keeps eight bytes in the spare area of translation pages: set geometry.spare_bytes to at least 8".into(),
            ));
        }
        let recycle = parts.content.recycle.as_ref();
        let is_alone = parts.content.recycles_alone();
        let recycle =
            recycle.map(|design| RecycleStage::new(&store, logical_pages, design, is_alone)).transpose()?;
        let sharing = parts.content.sharing;
        let sharing = sharing.map(|design| Sharing::new(&store, logical_pages, design)).transpose()?;
        let delta = parts.content.delta.map(|design| {
            DeltaStage::new(&store, design, delta::heat_entries(&design, parts.mapping, logical_pages))
        });
        require_what_nvram_map_needs(parts, store.geometry().spare_bytes)?;
        let chunks = parts.content.chunks.map(|_| ChunkStage::new(&store)).transpose()?;
        let mut ftl = Self {
            validity: AnyValidity::new(&store, logical_pages, parts.validity)?,
            collector: Collector::new(parts.gc),
            flush_limits: FlushLimits::default(),
            persistence: parts.persistence,
            survey: parts.survey,
            store,
            mapping,
            recycle: recycle.map(Box::new),
            sharing: sharing.map(Box::new),
            delta: delta.map(Box::new),
            chunks: chunks.map(Box::new),
            observations: Observations::default(),
            logical_pages,
            counts_lag: false,
            has_recovered: false,
            battery_has_saved: false,
        };
        ftl.flush_limits =
            FlushLimits { held_pages: ftl.held_limit(), programs: ftl.longest_without_flush() };
        ftl.watch_store();
        let spare_pages = ftl.require_spare_space()?;
        if let Some(cached) = ftl.mapping.on_flash_mut() {
            cached.limit_hidden_pages(spare_pages);
        }
        if let Some(stage) = &mut ftl.delta {
            stage.limit_pages(spare_pages);
            if parts.persistence != Persistence::BatteryRam {
                stage.list_members(ftl.store.geometry().spare_bytes);
            }
            if parts.persistence == Persistence::NvramMap && (ftl.sharing.is_some() || ftl.recycle.is_some())
            {
                stage.keep_from_binds();
            }
        }
        if let Some(stage) = &mut ftl.chunks {
            stage.limit_pages(spare_pages);
            if parts.persistence == Persistence::NvramMap {
                stage.keep_numbers();
            }
        }
        ftl.set_victim_policy(parts.gc.policy);
        Ok(ftl)
    }

    fn new_mapping(store: &Store<N>, logical_pages: u32, parts: &Parts) -> Result<AnyMapping> {
        let page_bytes = store.geometry().page_bytes;
        Ok(match parts.mapping {
            MappingPart::Flat if parts.persistence == Persistence::NvramMap => {
                let first_word = parts.nvram_bytes(page_bytes).div_ceil(8) as usize;
                AnyMapping::Flat(Flat::mirrored(store, logical_pages, first_word)?)
            }
            MappingPart::Flat => AnyMapping::Flat(Flat::new(logical_pages)),
            MappingPart::Cached(options) if parts.persistence == Persistence::NvramMap => {
                let first_word = parts.nvram_bytes(page_bytes).div_ceil(8) as usize;
                let most = parts.entries_per_page();
                AnyMapping::Cached(Box::new(Cached::with_nvram(
                    store,
                    logical_pages,
                    options,
                    first_word,
                    most,
                )?))
            }
            MappingPart::Cached(options) => {
                AnyMapping::Cached(Box::new(Cached::new(logical_pages, page_bytes, options)))
            }
            MappingPart::Journalled { cache, journal } => {
                AnyMapping::Journalled(Box::new(Journalled::new(logical_pages, page_bytes, cache, journal)))
            }
        })
    }

    /// Pages beyond the logical ones that may hold valid data. With less than none, every closed block could be full of
    /// valid pages while a write waits.
    fn require_spare_space(&self) -> Result<u64> {
        let good = self.store.total_free_blocks() as u64;
        let block_pages = self.store.data_pages() as u64;
        let metadata = self.metadata_pages();
        let pools = self.store.pools() as u64;
        let reserve = (pools * self.kept_blocks() * block_pages + metadata + 1).min(good * block_pages);
        let usable = good * block_pages - reserve;
        if self.logical_pages == 0 || self.logical_pages as u64 > usable {
            let (logical, physical) = (self.logical_pages as u64, good * block_pages);
            return Err(Error::NoSpareSpace { logical, physical, reserve, usable });
        }
        Ok(usable - self.logical_pages as u64)
    }

    /// Blocks of each pool that data pages must leave: the GC reserve, an open block of copies (with dual-pool wear leveling
    /// another), and one of each further kind of page. Chunks, and a map under a tree, need room for several pages at
    /// once, so what is left of an open block may be too little: that counts as one more.
    pub fn kept_blocks(&self) -> u64 {
        let open_blocks = 1
            + u64::from(self.metadata_pages() > self.validity.metadata_pages())
            + u64::from(self.mapping.pages_per_update() > 1)
            + u64::from(self.delta.is_some())
            + 2 * u64::from(self.chunks.is_some())
            + u64::from(self.validity.is_on_flash() || self.saves_bitmap())
            + u64::from(self.collector.options.wear.dual_pool_gap > 0);
        RESERVE_BLOCKS as u64 + open_blocks
    }

    /// Flash pages that metadata occupies at the most.
    pub fn metadata_pages(&self) -> u64 {
        let log = self.sharing.as_ref().map_or(0, |sharing| sharing.reverse.metadata_pages());
        let held = if self.persistence.compares_versions() { self.held_limit() as u64 } else { 0 };
        let bitmap =
            if self.saves_bitmap() { RamBitmap::saved_pages(self.store.geometry()).into() } else { 0 };
        self.mapping.metadata_pages() + log + self.validity.metadata_pages() + held + bitmap
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
        self.store.clear_stats();
        if let Some(cached) = self.mapping.on_flash_mut() {
            cached.clear_counts();
        }
        if let AnyMapping::Journalled(map) = &mut self.mapping {
            map.clear_counts();
        }
        match &mut self.validity {
            AnyValidity::Log(log) => log.clear_counts(),
            AnyValidity::Gecko(gecko) => gecko.clear_counts(),
            AnyValidity::Ram(_) | AnyValidity::Bitmap(_) => {}
        }
        if let Some(recycle) = &mut self.recycle {
            recycle.part.reset_statistics();
        }
        if let Some(stage) = &mut self.delta {
            stage.statistics = DeltaStatistics::default();
        }
        if let Some(stage) = &mut self.chunks {
            stage.statistics = ChunkStatistics::default();
        }
        self.observations = Observations::default();
    }

    /// Allocation, block table, operation list and the medium.
    pub fn store(&self) -> &Store<N> {
        &self.store
    }

    /// The same, to listen to operations or to reach the medium's fault injection.
    pub fn store_mut(&mut self) -> &mut Store<N> {
        &mut self.store
    }

    /// Takes allocation and medium out; everything else in RAM is dropped.
    pub fn into_store(self) -> Store<N> {
        self.store
    }

    /// The mapping, for its counts.
    pub fn mapping(&self) -> &AnyMapping {
        &self.mapping
    }

    /// The store of page validity, for its counts.
    pub fn validity(&self) -> &AnyValidity {
        &self.validity
    }

    /// The recycling stage, for its counts.
    pub fn recycle(&self) -> Option<&Recycle> {
        self.recycle.as_deref().map(|stage| &stage.part)
    }

    /// Whether writes need their content's identity.
    #[inline]
    pub fn looks_at_content(&self) -> bool {
        self.recycle.is_some() || self.sharing.is_some() || self.delta.is_some() || self.chunks.is_some()
    }

    /// Whether logical pages can be mapped to stored pages without a program.
    pub fn binds(&self) -> bool {
        self.sharing.as_ref().is_some_and(|sharing| sharing.binds())
    }

    /// Entries of the reverse map that are not superseded, tombstones included; 0 without a reverse map.
    pub fn valid_entries(&self) -> u64 {
        self.sharing.as_ref().map_or(0, |sharing| sharing.reverse.valid_entries())
    }

    /// Whether `lpn` has a place, as far as RAM knows.
    pub fn is_mapped(&self, lpn: Lpn) -> bool {
        self.mapping.in_ram(lpn).is_some()
    }

    /// What compression did; `None` if it is no part of the design.
    pub fn chunk_statistics(&self) -> Option<ChunkStatistics> {
        self.chunks.as_ref().map(|stage| stage.statistics)
    }

    /// Pages that are acknowledged and wait in the chunk buffer.
    pub fn gathering_pages(&self) -> usize {
        self.chunks.as_ref().map_or(0, |stage| stage.pending_pages())
    }

    /// What delta encoding did; `None` if it is no part of the design.
    pub fn delta_statistics(&self) -> Option<DeltaStatistics> {
        self.delta.as_ref().map(|stage| stage.statistics)
    }

    /// Access counts by which delta encoding decides begin anew: what was written to bring the device into a state says
    /// nothing about what is popular.
    pub fn forget_access_counts(&mut self) {
        if let Some(stage) = &mut self.delta {
            stage.forget_heat();
        }
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
            return self.construct_dead_page(ppn);
        };
        let old = match self.mapping.on_flash_mut() {
            Some(cached) => cached.construct(lpn, ppn.into()).some(),
            None => self.mapping.update(&mut self.store, lpn, Some(ppn.into()))?,
        };
        assert!(old.is_none(), "page {lpn} is constructed twice");
        self.learn_content(fingerprint, ppn.into());
        self.store.stats.host_page_writes += 1;
        self.validity.set(ppn);
        if let Some(stage) = &mut self.recycle {
            stage.part.programmed(lpn, ppn);
        }
        Ok(())
    }

    fn construct_dead_page(&mut self, ppn: Ppn) -> Result<()> {
        if !self.validity.is_on_flash() {
            self.store.discard(ppn);
            return Ok(());
        }
        self.call_invalid(ppn);
        self.validity.settle_construction(&mut self.store)
    }

    /// Ends the construction of a known state: what map and validity on flash were told is written, each page once. Needs
    /// free blocks for it.
    ///
    /// # Errors
    /// [`Error::Full`] if there are none.
    pub fn finish_construction(&mut self) -> Result<()> {
        if let Some(cached) = self.mapping.on_flash_mut() {
            cached.finish_construction(&mut self.store)?;
        }
        self.tell_opened();
        self.validity.finish_construction(&mut self.store)
    }

    /// Exchanges the victim policy at run time.
    pub fn set_victim_policy(&mut self, policy: VictimPolicy) {
        let options = GcOptions { policy, ..self.collector.options };
        let own = self.collector.own.take();
        self.collector = Collector::new(options);
        self.collector.own = own;
        self.store.blocks_mut().track_closing_order(policy == VictimPolicy::Fifo);
        self.store.blocks_mut().set_ties(options.ties);
        self.store.blocks_mut().spare_metadata(options.metadata != MetadataGc::Greedy);
    }

    /// Asks a policy of one's own for every victim, in place of the device's; `None` ends that. It is not asked where only a greedy
    /// choice is safe, with as few free blocks as [`GcOptions::urgent_blocks`], and not for blocks of metadata that
    /// [`MetadataGc::WhenEmpty`] takes.
    pub fn choose_victims_by(&mut self, policy: Option<OwnPolicy>) {
        self.collector.own = policy;
    }

    /// Exchanges the policy and size of the fingerprint store at run time; nothing happens without one.
    pub fn set_store_policy(&mut self, policy: StorePolicy, capacity_entries: Option<u32>) {
        if let Some(stage) = &mut self.recycle {
            stage.part.set_policy(policy, capacity_entries);
        }
    }

    /// Does something again for as long as failed programs took the room that was made for it: what they took, collection
    /// may find elsewhere. A program that fails ends a block, so it ends. What was refused has changed nothing.
    pub(crate) fn despite_failures<T>(&mut self, step: impl Fn(&mut Self) -> Result<T>) -> Result<T> {
        loop {
            match step(self) {
                Err(Error::Full { .. }) if self.store.take_program_failed() => {}
                outcome => return outcome,
            }
        }
    }

    /// Writes one page.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Full`], power loss.
    #[inline(always)]
    pub fn write(&mut self, lpn: Lpn, content: Content<'_>) -> Result<()> {
        match self.write_once(lpn, content) {
            Err(Error::Full { .. }) => self.write_again(lpn, content),
            outcome => outcome,
        }
    }

    /// Found no room; see [`Ftl::despite_failures`].
    #[cold]
    #[inline(never)]
    fn write_again(&mut self, lpn: Lpn, content: Content<'_>) -> Result<()> {
        if !self.store.take_program_failed() {
            return Err(self.store.full());
        }
        self.despite_failures(|ftl| ftl.write_once(lpn, content))
    }

    #[inline(always)]
    fn write_once(&mut self, lpn: Lpn, content: Content<'_>) -> Result<()> {
        self.require_in_range(lpn)?;
        if self.chunks.is_some() {
            self.unpack_wasteful()?;
        }
        let pool = self.make_room_for_write()?;
        if !self.looks_at_content() {
            return self.write_page(lpn, pool, content, Fingerprint::default());
        }
        let fingerprint = self.hash(&content);
        if let Some(stored) = self.find_stored(fingerprint, &content)?
            && self.deduplicate(lpn, stored)?
        {
            self.unstage(lpn);
            return Ok(());
        }
        if let Some(dead) = self.find_dead(fingerprint, &content)?
            && self.recycle_page(lpn, dead)?
        {
            return Ok(());
        }
        if self.delta.is_some() {
            return self.write_delta_or_other(lpn, pool, content, fingerprint);
        }
        self.write_packed_or_page(lpn, pool, content, fingerprint)
    }

    fn write_delta_or_other(
        &mut self,
        lpn: Lpn,
        pool: u32,
        content: Content<'_>,
        fingerprint: Fingerprint,
    ) -> Result<()> {
        if self.store_delta(lpn, &content, fingerprint)? {
            self.unstage(lpn);
        } else {
            self.write_packed_or_page(lpn, pool, content, fingerprint)?;
        }
        self.scan_for_cold()
    }

    #[inline(always)]
    fn write_packed_or_page(
        &mut self,
        lpn: Lpn,
        pool: u32,
        content: Content<'_>,
        fingerprint: Fingerprint,
    ) -> Result<()> {
        if self.chunks.as_ref().is_some_and(|stage| stage.is_on) {
            // No page is programmed now. A turn taken by each page that gathers, and one by each page of a chunk that saves
            // nothing, would leave half of the pools without host pages wherever the pools are a multiple of eight.
            self.store.give_back_turn(Stream::Host, pool);
            return self.stage_for_chunk(lpn, &content, fingerprint);
        }
        if self.chunks.is_some() {
            self.pass_compression(&content);
        }
        self.write_page(lpn, pool, content, fingerprint)?;
        self.unstage(lpn);
        Ok(())
    }

    /// Identity of a page to be written. Only designs that look it up pay for the hash, and those that look it up twice once.
    #[inline]
    fn hash(&mut self, content: &Content<'_>) -> Fingerprint {
        let fingerprint = content.fingerprint();
        self.store.stats.work.hashed_pages += u64::from(self.is_hashed(fingerprint));
        fingerprint
    }

    /// Programs a page of host data and maps `lpn` to it.
    #[inline(always)]
    fn write_page(
        &mut self,
        lpn: Lpn,
        pool: u32,
        content: Content<'_>,
        fingerprint: Fingerprint,
    ) -> Result<()> {
        let ppn = self.store.append(Stream::Host, pool, lpn.0, content, fingerprint, Cause::Host)?;
        self.validity.set(ppn);
        let old = match self.mapping.update(&mut self.store, lpn, Some(ppn.into())) {
            Ok(old) => old,
            Err(error) => {
                self.store.stats.wasted_programs += 1;
                self.call_invalid(ppn);
                return Err(error);
            }
        };
        self.store.stats.host_page_writes += 1;
        if let Some(stage) = &mut self.recycle {
            stage.part.programmed(lpn, ppn);
        }
        self.release(lpn, old);
        self.learn_content(fingerprint, ppn.into());
        Ok(())
    }

    /// A unit with this content can be shared from now on, and recycled when it is dead, if its content was hashed.
    #[inline]
    pub(crate) fn learn_content(&mut self, fingerprint: Fingerprint, unit: Unit) {
        if self.sharing.is_none() && self.recycle.is_none() {
            return;
        }
        if !self.is_hashed(fingerprint) {
            self.note_unhashed(unit);
        } else if self.sharing.is_some() {
            self.index_content(fingerprint, unit);
        }
    }

    #[inline(never)]
    fn index_content(&mut self, fingerprint: Fingerprint, unit: Unit) {
        let Self { sharing, store, chunks, .. } = self;
        if let Some(index) = sharing.as_mut().and_then(|sharing| sharing.index.as_mut()) {
            index.insert(fingerprint, unit, |unit| content_of(store, chunks.as_deref(), unit));
        }
    }

    /// The content of a unit just programmed was not hashed.
    #[cold]
    fn note_unhashed(&mut self, unit: Unit) {
        if let Some(stage) = &mut self.recycle
            && is_page(unit, self.store.geometry().pages())
        {
            stage.part.set_unhashed(Ppn(unit.0));
        }
    }

    /// Reads one page; `false` if it was never written (or trimmed) and reads as zeros. `into` is one page long, or
    /// empty where nobody wants the bytes; it is filled if the medium keeps bytes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Lost`], power loss; a demand-paged mapping may need room.
    #[inline]
    pub fn read(&mut self, lpn: Lpn, into: &mut [u8]) -> Result<bool> {
        self.require_in_range(lpn)?;
        if self.is_pending(lpn) {
            self.store.stats.host_page_reads += 1;
            return Ok(self.read_pending(lpn, into));
        }
        let place = self.locate(lpn)?;
        self.store.stats.host_page_reads += 1;
        let found = self.read_place(lpn, place, into).map_err(|error| error.of_read(lpn))?;
        self.store.stats.unwritten_page_reads += u64::from(!found);
        if self.delta.is_some() {
            self.note_read(lpn, into)?;
        }
        Ok(found)
    }

    /// Reads whole pages from `first` on, for a medium that keeps bytes: as so many [`Ftl::read`], and where pages are stored
    /// one by one and looking them up reads no flash, those beside each other are asked of the medium at once.
    ///
    /// # Errors
    /// As [`Ftl::read`], of the first page that cannot be read.
    pub fn read_pages(&mut self, first: Lpn, into: &mut [u8]) -> Result<()> {
        let page_bytes = self.store.geometry().page_bytes as usize;
        let is_direct = matches!(self.mapping, AnyMapping::Flat(_))
            && self.delta.is_none()
            && self.chunks.is_none()
            && self.metadata_pages() == 0;
        let mut places = Vec::new();
        let mut done = 0;
        while done < into.len() / page_bytes {
            let lpn = Lpn(first.0 + done as u32);
            let rest = &mut into[done * page_bytes..];
            if is_direct {
                places.clear();
                self.mapped_run(lpn, rest.len() / page_bytes, &mut places)?;
            }
            if places.is_empty() {
                self.read(lpn, &mut rest[..page_bytes])?;
                done += 1;
                continue;
            }
            let (read, outcome) = self.store.read_pages(&places, &mut rest[..places.len() * page_bytes]);
            self.store.stats.host_page_reads += read as u64 + u64::from(outcome.is_err());
            if let Some(stage) = &mut self.recycle {
                places[..read].iter().for_each(|&ppn| stage.part.read(ppn));
            }
            outcome.map_err(|error| error.of_read(Lpn(lpn.0 + read as u32)))?;
            done += places.len();
        }
        Ok(())
    }

    /// Where the pages from `first` on are, up to `most` and to the first that has no place.
    fn mapped_run(&mut self, first: Lpn, most: usize, places: &mut Vec<Ppn>) -> Result<()> {
        for lpn in (first.0..).take(most).map(Lpn) {
            self.require_in_range(lpn)?;
            let Some(unit) = self.mapping.lookup(&mut self.store, lpn)? else { break };
            places.push(Ppn(unit.0));
        }
        Ok(())
    }

    /// As [`Ftl::read`], for the old part of a partial write: no host read is counted.
    pub(crate) fn read_for_modify(&mut self, lpn: Lpn, into: &mut [u8]) -> Result<bool> {
        self.require_in_range(lpn)?;
        if self.read_pending(lpn, into) {
            return Ok(true);
        }
        let place = self.locate(lpn)?;
        self.read_place(lpn, place, into).map_err(|error| error.of_read(lpn))
    }

    /// Where a page is. A device that is full, or has lost a page of metadata, can write no translation page any more, but it
    /// still reads.
    #[inline]
    fn locate(&mut self, lpn: Lpn) -> Result<Option<Unit>> {
        match self.make_room_for_metadata() {
            Ok(()) => self.mapping.lookup(&mut self.store, lpn),
            Err(error) if matches!(error, Error::Full { .. }) || error.is_media_error() => {
                self.mapping.peek(&mut self.store, lpn)
            }
            Err(error) => Err(error),
        }
    }

    fn read_place(&mut self, lpn: Lpn, place: Option<Unit>, into: &mut [u8]) -> Result<bool> {
        let Some(unit) = place else {
            into.fill(0);
            return Ok(false);
        };
        if self.delta.as_ref().is_some_and(|stage| stage.has_delta_bytes(lpn)) {
            // A base of which only a description is kept counts as zeros, as it did when the delta was made.
            into.fill(0);
        }
        self.read_unit(unit, into, Cause::Host)?;
        if self.delta.is_some() {
            self.read_delta(lpn, into, Cause::Host)?;
        }
        if let Some(stage) = &mut self.recycle
            && is_page(unit, self.store.geometry().pages())
        {
            stage.part.read(Ppn(unit.0));
        }
        Ok(true)
    }

    /// Reads the content of a unit.
    #[inline]
    pub(crate) fn read_unit(&mut self, unit: Unit, into: &mut [u8], cause: Cause) -> Result<()> {
        if self.chunks.is_some() && !is_page(unit, self.store.geometry().pages()) {
            return self.read_member(unit, into, cause);
        }
        self.store.read(Ppn(unit.0), into, cause).map(drop)
    }

    /// Identity of a unit's content where the medium keeps it.
    #[inline]
    pub(crate) fn fingerprint_of_unit(&self, unit: Unit) -> Fingerprint {
        content_of(&self.store, self.chunks.as_deref(), unit)
    }

    /// Identity of a page's current content where the medium keeps it; for merging partial writes.
    pub(crate) fn fingerprint_of(&mut self, lpn: Lpn) -> Result<Option<Fingerprint>> {
        if let Some(pending) = self.chunks.as_ref().and_then(|stage| stage.pending_fingerprint(lpn)) {
            return Ok(Some(pending));
        }
        let place = self.locate(lpn)?;
        let of_delta = self.delta.as_ref().and_then(|stage| stage.fingerprint(lpn));
        Ok(of_delta.or(place.map(|unit| self.fingerprint_of_unit(unit))))
    }

    /// Deallocates one page: it reads as zeros from now on. The page stays recyclable until its block is erased.
    ///
    /// # Errors
    /// As [`Ftl::read`].
    pub fn trim(&mut self, lpn: Lpn) -> Result<()> {
        self.trim_range(lpn, 1)
    }

    /// Deallocates `pages` pages from `first` on; a design that records trims records one for all of them.
    ///
    /// # Errors
    /// As [`Ftl::trim`]; pages before the one that failed may be deallocated.
    pub fn trim_range(&mut self, first: Lpn, pages: u32) -> Result<()> {
        if pages == 0 {
            return Ok(());
        }
        let last = Lpn(first.0.saturating_add(pages - 1));
        self.require_in_range(last)?;
        if self.mapping.identifies_late() {
            return self.trim_through(first, last);
        }
        self.despite_failures(Self::make_room_for_metadata)?;
        let is_recorded = self.bury(first, last)?;
        let mut lpns = (first.0..=last.0).map(Lpn);
        lpns.try_for_each(|lpn| self.despite_failures(|ftl| ftl.trim_page(lpn, is_recorded)))
    }

    /// Trims on a map that writes them to flash at once.
    fn trim_through(&mut self, first: Lpn, last: Lpn) -> Result<()> {
        let mut next = first;
        while next <= last {
            let done = self.despite_failures(|ftl| {
                ftl.make_room_for_metadata()?;
                ftl.mapping.trim_some(&mut ftl.store, next, last)
            })?;
            self.call_identified();
            if let Some(done) = done {
                self.store.stats.host_page_trims += u64::from(done.0 - next.0 + 1);
                next = Lpn(done.0 + 1);
            }
        }
        self.despite_failures(Self::make_room_for_metadata)
    }

    fn trim_page(&mut self, lpn: Lpn, is_recorded: bool) -> Result<()> {
        self.make_room_for_metadata()?;
        if !is_recorded && self.mapping.peek(&mut self.store, lpn)?.is_some() {
            self.overwrite_with_zeros(lpn)?;
        } else {
            let old = self.change_map(lpn, None)?;
            self.unstage(lpn);
            self.release(lpn, old);
        }
        self.store.stats.host_page_trims += 1;
        Ok(())
    }

    /// A trim that cannot be recorded any other way.
    fn overwrite_with_zeros(&mut self, lpn: Lpn) -> Result<()> {
        let pool = self.make_room_for_write()?;
        let zeros = self.blank_page();
        self.write_page(lpn, pool, Content::of_page(&zeros, Fingerprint::ZERO_PAGE), Fingerprint::ZERO_PAGE)?;
        self.store.stats.host_page_writes -= 1;
        self.store.stats.zeroed_trims += 1;
        Ok(())
    }

    /// A page of zeros, or of no bytes where the medium keeps none.
    pub(crate) fn blank_page(&self) -> Vec<u8> {
        vec![0; if self.store.nand().keeps_bytes() { self.store.geometry().page_bytes as usize } else { 0 }]
    }

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
        self.call_invalid(page);
        if self.recycle.is_some() {
            self.offer_dead(lpn, page);
        }
    }

    /// Nobody needs the data of `page` any more.
    #[inline(always)]
    pub(crate) fn call_invalid(&mut self, page: Ppn) {
        self.tell_opened();
        self.validity.invalidate(page);
        self.store.discard(page);
    }

    /// Whatever a validity store on flash knows of a block is void before it hears of the block's new pages, and before
    /// it writes what it heard so far: a recovery repeats this for blocks whose first page is younger than that.
    #[inline]
    pub(crate) fn tell_opened(&mut self) {
        while let Some(block) = self.store.take_opened() {
            self.validity.opened(block);
        }
    }

    /// Calls the pages invalid that a lazy map has found.
    pub(crate) fn call_identified(&mut self) {
        while let AnyMapping::Cached(cached) = &mut self.mapping
            && let Some(Identified { ppn, is_certain }) = cached.take_identified()
        {
            if is_certain {
                self.call_invalid(ppn);
            } else if self.validity.is_on_flash() {
                // It may be a repetition: the count of the block is left too high rather than too low.
                self.validity.invalidate(ppn);
                self.counts_lag = true;
            } else if self.validity.is_valid(ppn) {
                self.call_invalid(ppn);
            }
        }
    }

    /// The host asks for durability: what waits for company is written without.
    ///
    /// # Errors
    /// As [`Ftl::write`].
    pub fn flush(&mut self) -> Result<()> {
        self.despite_failures(Self::commit_chunk)?;
        if self.persistence == Persistence::NvramMap {
            self.despite_failures(Self::write_staged_deltas)?;
        }
        self.store.nand_mut().sync()?;
        if let Some(stage) = &mut self.chunks {
            stage.synced();
        }
        Ok(())
    }

    /// Switches schemes on and off at run time, where they are part of the design. What is stored stays as it is and is looked
    /// after as before; index and store learn little of what is written while both are off, but forget what dies.
    ///
    /// # Errors
    /// As [`Ftl::write`]: what waits for a chunk or a page of deltas is written before its scheme goes off.
    pub fn switch_schemes(&mut self, running: ContentSchemes) -> Result<()> {
        if !running.contains(SchemeKind::Delta) {
            self.despite_failures(Self::write_staged_deltas)?;
        }
        if !running.contains(SchemeKind::Compression) {
            self.despite_failures(Self::commit_chunk)?;
        }
        if let Some(sharing) = &mut self.sharing {
            sharing.deduplicates = running.contains(SchemeKind::Dedup);
        }
        if let Some(stage) = &mut self.recycle {
            stage.is_on = running.contains(SchemeKind::Recycle);
        }
        if let Some(stage) = &mut self.delta {
            stage.is_on = running.contains(SchemeKind::Delta);
        }
        if let Some(stage) = &mut self.chunks {
            stage.is_on = running.contains(SchemeKind::Compression);
        }
        Ok(())
    }

    /// Writes everything that exists only in RAM to flash, as a battery would at power loss or a shutdown command
    /// does. Needs room like any other write.
    ///
    /// # Errors
    /// As [`Ftl::write`].
    pub fn write_back(&mut self) -> Result<()> {
        self.despite_failures(Self::write_all_back)
    }

    fn write_all_back(&mut self) -> Result<()> {
        self.write_staged_deltas()?;
        // With nothing to write, no room is made: recovery repeats this step on a store that it has half forgotten.
        while self.mapping.has_unwritten() {
            self.require_metadata(Stream::Translation, self.mapping.pages_per_update().max(1))?;
            self.mapping.write_back(&mut self.store)?;
            self.call_identified();
            self.settle_validity()?;
        }
        while self.validity.is_on_flash() {
            self.require_metadata(Stream::Validity, 1)?;
            self.tell_opened();
            if !self.validity.has_unwritten() {
                break;
            }
            self.validity.flush(&mut self.store)?;
            self.settle_validity()?;
        }
        Ok(())
    }

    /// Old versions of translation pages that are kept for recovery at the most: when there are more, what was called
    /// invalid since is written, and they are not needed any more (GeckoFTL, appendix C.2.2). As many as the buffer takes
    /// reports, which bounds what recovery reads; a small device cannot spare as many pages.
    pub(crate) fn held_limit(&self) -> usize {
        let spared = (self.store.geometry().pages() / 64).max(1);
        u64::from(self.validity.entries_per_flush()).min(spared) as usize
    }

    /// Programs between two writes of the validity buffer at the most: what is in it longer, a recovery that reads the
    /// newest pages would not find.
    pub(crate) fn longest_without_flush(&self) -> u64 {
        4 * u64::from(self.validity.entries_per_flush())
    }

    /// Tells the store what this design wants to hear of it.
    fn watch_store(&mut self) {
        if self.validity.is_on_flash() {
            self.store.note_opened();
        }
        if self.persistence.compares_versions() && self.validity.is_on_flash() {
            self.store.hold_old_versions();
        }
    }

    /// Bytes of RAM a controller holds for this design, by structure.
    pub fn ram_bytes(&self) -> Vec<(&'static str, u64)> {
        let mut parts = self.mapping.ram_bytes();
        parts.extend(self.validity.ram_bytes());
        parts.push(("block table", self.store.blocks().ram_bytes()));
        parts.extend(self.store.tail_ram_bytes().map(|bytes| ("tails of open blocks", bytes)));
        parts.extend(self.collector.options.wear.ram_bytes(self.store.blocks().len()));
        if let Some(stage) = &self.recycle {
            parts.extend(stage.part.ram_bytes());
        }
        if let Some(sharing) = &self.sharing {
            parts.extend(sharing.ram_bytes());
        }
        if let Some(stage) = &self.delta {
            parts.extend(stage.ram_bytes());
        }
        if let Some(stage) = &self.chunks {
            parts.extend(stage.ram_bytes());
        }
        parts
    }

    /// Gives `target` the content of `source`; `source` loses it if it is relocated. A bind where the design shares
    /// pages and can record it, else a write.
    ///
    /// # Errors
    /// Those of [`Ftl::read`], [`Ftl::write`] and [`Ftl::trim`]; the target is untouched if a read fails.
    pub fn remap_page(&mut self, target: Lpn, source: Lpn, mode: RemapMode) -> Result<()> {
        self.require_in_range(target)?;
        self.require_in_range(source)?;
        if target == source {
            return Ok(());
        }
        self.despite_failures(|ftl| ftl.remap_once(target, source, mode))
    }

    fn remap_once(&mut self, target: Lpn, source: Lpn, mode: RemapMode) -> Result<()> {
        if self.is_pending(source) || self.is_pending(target) {
            self.commit_chunk()?;
        }
        if self.sharing.is_some() && self.delta.is_some() && !self.merge_source(source)? {
            return self.remap_by_writing(target, source, mode);
        }
        if self.sharing.is_some() {
            self.make_room_for_metadata()?;
            if let Some(unit) = self.mapping.lookup(&mut self.store, source)?
                && self.bind(target, unit, (mode == RemapMode::Relocate).then_some(source))?
            {
                self.store.stats.remapped_pages += 1;
                return Ok(());
            }
        }
        self.remap_by_writing(target, source, mode)
    }

    /// Writes what could not be bound. Deduplication would find the same page and be refused again; the new copy serves the
    /// next writes of this content.
    pub(crate) fn write_demoted(
        &mut self,
        lpn: Lpn,
        content: Content<'_>,
        fingerprint: Fingerprint,
    ) -> Result<()> {
        if self.sharing.is_none() {
            return self.write(lpn, content);
        }
        let pool = self.make_room_for_write()?;
        self.write_page(lpn, pool, content, fingerprint)?;
        self.unstage(lpn);
        Ok(())
    }

    /// The form every design has, the one that a remap is demoted to (Remap-SSD, section 4.3): one read and one
    /// program, and a trim of the source if it is relocated, each counted as the host's. On a medium without bytes the
    /// identity is copied, not what is known of its compressed size.
    fn remap_by_writing(&mut self, target: Lpn, source: Lpn, mode: RemapMode) -> Result<()> {
        let mut page = self.blank_page();
        if !self.read(source, &mut page)? {
            return self.trim(target);
        }
        let identity = self.fingerprint_of(source)?.unwrap_or(Fingerprint::ZERO_PAGE);
        self.write_demoted(target, Content::of_page(&page, identity), identity)?;
        if mode == RemapMode::Relocate { self.trim(source) } else { Ok(()) }
    }
}

/// What a design must be like so that all but its map can be rebuilt from flash.
fn require_what_nvram_map_needs(parts: &Parts, spare_bytes: u32) -> Result<()> {
    let content = &parts.content;
    let refusal = if parts.persistence != Persistence::NvramMap {
        None
    } else if content.delta.is_some() && content.sharing.is_some_and(|sharing| sharing.atomic_commands) {
        Some(
            "a page of which flash holds a delta is not bound where the map is in NVRAM, and an atomic command binds all of its \
             pages: leave remap.atomic_commands or deltas out",
        )
    } else if content.delta.is_some_and(|delta| delta.open_pages > 1) {
        Some("without a battery one page of deltas is filled at a time: set delta.open_pages to 1")
    } else if content.chunks.is_some() && spare_bytes < DIRECTORY_BYTES as u32 {
        Some(
            "without a battery the directory of a chunk needs 64 spare bytes per page: set device.spare_bytes",
        )
    } else {
        None
    };
    refusal.map_or(Ok(()), |sentence| Err(Error::Options(sentence.into())))
}

/// Identity of what a unit holds.
#[inline]
pub(crate) fn content_of<N: Nand>(store: &Store<N>, chunks: Option<&ChunkStage>, unit: Unit) -> Fingerprint {
    match chunks {
        Some(stage) if !is_page(unit, store.geometry().pages()) => stage.fingerprint(unit),
        _ => store.nand().fingerprint(Ppn(unit.0)),
    }
}
