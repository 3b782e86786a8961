//! The audit: conservation laws, recomputed from scratch.
//!
//! Tests call it after every operation in tiny worlds; a run may call it now and then. Its look at the flash is
//! not counted.

use crate::address::{Address, BlockId, Lpn, Ppn};
use crate::ftl::Ftl;
use crate::mapping::{AnyMapping, Mapping};
use crate::nand::{Nand, PageKind};
use crate::store::BlockState;

impl<N: Nand> Ftl<N> {
    /// Checks every law. O(pages); reads translation pages.
    ///
    /// # Errors
    /// The first violation, as a sentence.
    pub fn check(&mut self) -> Result<(), String> {
        let map = self.whole_map()?;
        self.check_map(&map)?;
        self.check_blocks(&map)?;
        self.check_counters()?;
        match &self.recycle {
            Some(stage) => stage.part.check(|lpn| map[lpn.index()].some()),
            None => Ok(()),
        }
    }

    /// The place of every logical page, from cache and flash. Costs no counted operation.
    pub(crate) fn whole_map(&mut self) -> Result<Vec<Ppn>, String> {
        let mut map = vec![Ppn::NONE; self.logical_pages as usize];
        match &self.mapping {
            AnyMapping::Flat(flat) => {
                (0..self.logical_pages)
                    .for_each(|lpn| map[lpn as usize] = flat.get(Lpn(lpn)).unwrap_or(Ppn::NONE));
            }
            AnyMapping::Cached(cached) => {
                let mut page = vec![0; self.store.geometry().page_bytes as usize];
                for id in 0..cached.translation_pages() {
                    let Some(place) = cached.directory(id) else { continue };
                    self.store.nand_mut().read(place, &mut page).map_err(|error| error.to_string())?;
                    for (lpn, ppn) in cached.table_entries(id, &page) {
                        map[lpn.index()] = ppn;
                    }
                }
                for lpn in (0..self.logical_pages).map(Lpn) {
                    if let Some(newer) = cached.cached(lpn) {
                        map[lpn.index()] = newer;
                    }
                }
            }
        }
        Ok(map)
    }

    /// Mapped pages are valid, hold data of their referrer, and are shared by nobody; no other page is valid.
    fn check_map(&self, map: &[Ppn]) -> Result<(), String> {
        let mut seen = vec![false; self.store.geometry().pages() as usize];
        for (lpn, ppn) in map.iter().enumerate().filter_map(|(lpn, ppn)| Some((Lpn(lpn as u32), ppn.some()?)))
        {
            if std::mem::replace(&mut seen[ppn.index()], true) {
                return Err(format!("page {ppn} is mapped twice, the second time by {lpn}"));
            }
            if !self.validity.is_valid(ppn) {
                return Err(format!("page {ppn} of {lpn} is not valid"));
            }
            if self.referrer(ppn) != lpn {
                return Err(format!("page {ppn} is mapped by {lpn} but refers to {}", self.referrer(ppn)));
            }
        }
        let stray = (0..seen.len())
            .map(|ppn| Ppn(ppn as u32))
            .find(|&ppn| self.validity.is_valid(ppn) && !seen[ppn.index()]);
        stray.map_or(Ok(()), |ppn| Err(format!("page {ppn} is valid, but nothing maps to it")))
    }

    /// Valid counts equal valid bits plus current metadata pages; free blocks are empty; states add up.
    fn check_blocks(&self, map: &[Ppn]) -> Result<(), String> {
        let blocks = self.store.blocks();
        let mut total = 0;
        for block in (0..blocks.len()).map(BlockId) {
            let counted = self.count_valid(block);
            if counted != blocks.valid(block) {
                return Err(format!(
                    "block {block} counts {} valid pages and has {counted}",
                    blocks.valid(block)
                ));
            }
            if matches!(blocks.state(block), BlockState::Free | BlockState::Retired) && counted > 0 {
                return Err(format!("block {block} is {:?} with {counted} valid pages", blocks.state(block)));
            }
            total += counted as u64;
        }
        let mapped = map.iter().filter(|ppn| ppn.some().is_some()).count() as u64;
        let metadata = total - mapped.min(total);
        if total < mapped || metadata > self.mapping.metadata_pages() {
            return Err(format!(
                "{total} valid pages for {mapped} mapped ones and at most {} of metadata",
                self.mapping.metadata_pages()
            ));
        }
        let free = blocks.census()[BlockState::Free as usize];
        if free != self.store.total_free_blocks() {
            return Err(format!(
                "{free} blocks are free and {} are in the pools",
                self.store.total_free_blocks()
            ));
        }
        self.check_open_blocks()
    }

    fn check_open_blocks(&self) -> Result<(), String> {
        let open = self.store.open_blocks().count() as u32;
        let marked = self.store.blocks().census()[BlockState::Open as usize];
        if open != marked {
            return Err(format!("{marked} blocks are marked open and {open} are being filled"));
        }
        let misplaced =
            self.store.open_blocks().find(|&(block, _)| self.store.blocks().state(block) != BlockState::Open);
        misplaced.map_or(Ok(()), |(block, _)| Err(format!("block {block} is being filled but not open")))
    }

    fn count_valid(&self, block: BlockId) -> u32 {
        let first = self.store.geometry().first_page(block);
        let pages = self.store.geometry().block_pages();
        match self.store.blocks().kind(block) {
            PageKind::Data => self.validity.count_valid(first, pages),
            PageKind::Delta | PageKind::Chunk | PageKind::RemapLog => 0,
            PageKind::Translation => (first.0..first.0 + pages)
                .map(Ppn)
                .filter(|&ppn| self.mapping.owns(self.store.owner(ppn).0, ppn))
                .count() as u32,
        }
    }

    /// Host writes are programs plus recycled pages; erases are the sum of all blocks' wear since the start.
    fn check_counters(&self) -> Result<(), String> {
        let stats = &self.store.stats;
        let host_programs = stats.programs[crate::timing::Cause::Host as usize];
        let wasted = stats.wasted_programs;
        if stats.host_page_writes > host_programs + stats.recycled_writes
            || host_programs + stats.recycled_writes > stats.host_page_writes + wasted
        {
            return Err(format!(
                "{} host page writes, {host_programs} host programs ({wasted} without effect), {} recycled",
                stats.host_page_writes, stats.recycled_writes
            ));
        }
        Ok(())
    }
}
