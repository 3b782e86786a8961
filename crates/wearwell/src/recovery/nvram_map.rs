//! Recovery of a device whose map is copied to NVRAM: the map is read, everything else is rebuilt around it.
//!
//! The map says where every logical page is. The OOB of the pages gives block states and sequence numbers; who refers to a
//! page that another logical page wrote follows from the map; deltas and chunk directories are read from their pages. Of
//! what only serves the future (history of dead pages, access counts, content index) nothing is left.
//!
//! What is found on the medium is judged, not trusted: a map that names a place without data is [`Error::Damaged`].

use super::RecoverySteps;
use crate::address::{Lpn, Ppn, Unit, is_page};
use crate::content::chunk::CHUNK_MEMBERS;
use crate::content::chunk_directory::{DIRECTORY_BYTES, Directory, FoundChunks};
use crate::error::{Error, Result};
use crate::ftl::Ftl;
use crate::mapping::AnyMapping;
use crate::nand::{Nand, PageKind};
use crate::page_set::PageSet;
use crate::timing::Cause;
use crate::validity::{AnyValidity, RamBitmap};

/// What the scan of the OOB met.
struct Scanned {
    data: PageSet,
    /// Pages of deltas: sequence number and place.
    deltas: Vec<(u64, Ppn)>,
    /// Pages of chunks: sequence number, place, number of the chunk.
    chunks: Vec<(u64, Ppn, u32)>,
}

impl<N: Nand> Ftl<N> {
    pub(crate) fn rebuild_from_nvram_map(&mut self, steps: &mut RecoverySteps) -> Result<u64> {
        let scanned = self.scan_kinds(steps)?;
        self.reload_map(&scanned.data)?;
        self.validity = AnyValidity::Ram(RamBitmap::new(self.store.geometry().pages()));
        if let Some(stage) = &mut self.recycle {
            stage.part.forget();
        }
        if let Some(sharing) = &mut self.sharing {
            sharing.forget();
            sharing.forget_binders(&self.store)?;
        }
        self.rebuild_chunks(&scanned.chunks)?;
        let mapped = self.adopt_mapped()?;
        if let Some(stage) = &mut self.delta {
            stage.forget(&self.store);
            let AnyMapping::Flat(flat) = &self.mapping else { unreachable!("a mirrored map is flat") };
            let pages = self.store.geometry().pages();
            let page = |lpn: Lpn| flat.get(lpn).filter(|&unit| is_page(unit, pages));
            let place = |lpn: Lpn| Some((lpn, Ppn(page(lpn)?.0)));
            let places = (0..self.logical_pages).map(Lpn).filter_map(place).collect();
            self.rebuild_deltas(scanned.deltas, &places)?;
        }
        Ok(mapped)
    }

    fn scan_kinds(&mut self, steps: &mut RecoverySteps) -> Result<Scanned> {
        let pages = self.store.geometry().pages();
        let mut scanned = Scanned { data: PageSet::new(pages), deltas: Vec::new(), chunks: Vec::new() };
        self.survey_pages(steps, |ppn, page| match page.kind {
            PageKind::Data => scanned.data.insert(ppn),
            PageKind::Delta => scanned.deltas.push((page.sequence, ppn)),
            PageKind::Chunk => scanned.chunks.push((page.sequence, ppn, page.owner)),
            // No part of such a design; garbage collection takes them away.
            PageKind::Translation
            | PageKind::RemapLog
            | PageKind::Validity
            | PageKind::Head
            | PageKind::Tail => {}
        })?;
        Ok(scanned)
    }

    fn reload_map(&mut self, data: &PageSet) -> Result<()> {
        let Self { mapping, store, chunks, .. } = self;
        let AnyMapping::Flat(flat) = mapping else { unreachable!("a mirrored map is flat") };
        let pages = store.geometry().pages();
        let units = if chunks.is_some() { pages * (1 + CHUNK_MEMBERS as u64) } else { pages };
        flat.reload(store, |unit| {
            if is_page(unit, pages) { data.contains(Ppn(unit.0)) } else { (unit.0 as u64) < units }
        })
    }

    /// The chunks that the map names, from the spare areas of their pages.
    fn rebuild_chunks(&mut self, pages: &[(u64, Ppn, u32)]) -> Result<()> {
        if self.chunks.is_none() {
            return Ok(());
        }
        let page_bytes = self.store.geometry().page_bytes as usize;
        let mut bytes = vec![0; page_bytes + DIRECTORY_BYTES];
        let mut found = FoundChunks::default();
        for &(sequence, ppn, number) in pages {
            match self.store.read(ppn, &mut bytes, Cause::Recovery) {
                // The members are lost, and nobody else: their directory is in the spare area.
                Err(error) if error.is_media_error() => {
                    bytes[page_bytes..].fill(0);
                    let read = self.store.read_spare_bytes(ppn, &mut bytes[page_bytes..], Cause::Recovery);
                    read.map(drop)
                        .or_else(|error| if error.is_media_error() { Ok(()) } else { Err(error) })?;
                }
                read => drop(read?),
            }
            let directory = bytes[page_bytes..].try_into().expect("the spare area was read");
            match Directory::decode(directory) {
                Some(directory) => found.add(number, sequence, ppn, &directory),
                None => found.add_unreadable(number, sequence),
            }
        }
        let Self { mapping, chunks: Some(stage), .. } = self else { return Ok(()) };
        let AnyMapping::Flat(flat) = mapping else { unreachable!("a mirrored map is flat") };
        let places = (0..self.logical_pages).filter_map(|lpn| flat.get(Lpn(lpn)));
        stage.rebuild(places.filter(|&unit| !is_page(unit, self.store.geometry().pages())), found)?;
        let chunk_pages: Vec<Ppn> = stage.chunk_pages().collect();
        for ppn in chunk_pages {
            self.store.adopt_valid(ppn);
        }
        Ok(())
    }

    /// Validity, reference counts and binders of everything mapped; returns the number of mapped logical pages.
    fn adopt_mapped(&mut self) -> Result<u64> {
        let mut mapped = 0;
        let mut members = std::collections::BTreeSet::new();
        for lpn in (0..self.logical_pages).map(Lpn) {
            let AnyMapping::Flat(flat) = &self.mapping else { unreachable!("a mirrored map is flat") };
            let Some(unit) = flat.get(lpn) else { continue };
            mapped += 1;
            let is_first = if is_page(unit, self.store.geometry().pages()) {
                self.adopt_page(Ppn(unit.0))
            } else {
                members.insert(unit)
            };
            self.adopt_referrer(lpn, unit, is_first)?;
        }
        Ok(mapped)
    }

    /// `false` if another logical page had the page already.
    fn adopt_page(&mut self, ppn: Ppn) -> bool {
        if self.validity.is_valid(ppn) {
            return false;
        }
        self.validity.set(ppn);
        self.store.adopt_valid(ppn);
        true
    }

    fn adopt_referrer(&mut self, lpn: Lpn, unit: Unit, is_first: bool) -> Result<()> {
        let writer = match &self.chunks {
            Some(stage) if !is_page(unit, self.store.geometry().pages()) => stage.writer(unit),
            _ => self.store.owner(Ppn(unit.0)),
        };
        // Where pages are shared, the reverse map knows of revived ones, too.
        if let Some(stage) = &mut self.recycle
            && self.sharing.is_none()
            && writer != lpn
        {
            stage.part.adopt_owner(Ppn(unit.0), lpn);
        }
        let can_share = if let Some(sharing) = &mut self.sharing {
            sharing.adopt(&self.mapping, &mut self.store, lpn, unit, writer, is_first)?
        } else {
            let is_page = is_page(unit, self.store.geometry().pages());
            is_first && (writer == lpn || (self.recycle.is_some() && is_page))
        };
        if can_share {
            return Ok(());
        }
        Err(Error::Damaged(format!(
            "the map in NVRAM gives logical page {lpn} the place {unit} of logical page {writer}"
        )))
    }
}
