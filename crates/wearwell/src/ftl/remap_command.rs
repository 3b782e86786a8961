//! Remap commands of several pages: page by page, or all of them or none.
//!
//! The paper's default is atomicity by page (Remap-SSD, section 4.3): each page is a bind of its own, or a write where it
//! cannot be bound. An atomic command takes three steps instead. First everything that can fail or touches flash: a source
//! whose page has its most referrers gets a page of its own, which changes no content, and the reverse map makes room for
//! all entries at once. Then the entries are recorded, and the last store of the last one is the commit point. Then the map
//! in RAM follows. Nothing is collected from the first entry to the last.
//!
//! The command behaves as if the source range had been put aside first. So a source that is a target too is not buried by
//! the command, each logical page has one entry at the most, and the order of entries says nothing.
//!
//! A command that cannot be recorded as a whole is refused ([`Error::NotAtomic`]): done by writes it would not be atomic.
//! The price: a host that asked for atomic commands must be ready to write instead, where the paper's device would.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::address::{Lpn, Ppn, RemapMode, Unit};
use crate::data::{Content, Fingerprint};
use crate::error::{Error, Result};
use crate::ftl::Ftl;
use crate::nand::Nand;
use crate::sharing::counts::MAX_REFERRERS;
use crate::sharing::reverse_map::{Command, Entry};

/// A remap of several pages.
#[derive(Clone, Copy)]
struct Remap {
    target: Lpn,
    source: Lpn,
    pages: u32,
    mode: RemapMode,
}

impl Remap {
    fn targets(self) -> impl Iterator<Item = Lpn> {
        (self.target.0..self.target.0 + self.pages).map(Lpn)
    }

    fn sources(self) -> impl Iterator<Item = Lpn> {
        (self.source.0..self.source.0 + self.pages).map(Lpn)
    }

    /// Whether the command takes its place from `source` for good.
    fn buries(self, source: Lpn) -> bool {
        let is_target = (self.target.0..self.target.0 + self.pages).contains(&source.0);
        self.mode == RemapMode::Relocate && !is_target
    }
}

impl<N: Nand> Ftl<N> {
    /// Gives `pages` pages from `target` on the contents of those from `source` on, as if the source had been put aside
    /// first; relocated sources lose their contents, unless they are targets too. Atomic if the design says so, else page
    /// by page: an error leaves the pages that were remapped before it.
    ///
    /// # Errors
    /// Those of [`Ftl::remap_page`]; [`Error::NotAtomic`] for an atomic command that cannot be recorded as a whole, which
    /// has changed nothing.
    pub fn remap_pages(&mut self, target: Lpn, source: Lpn, pages: u32, mode: RemapMode) -> Result<()> {
        if self.sharing.as_ref().is_some_and(|sharing| sharing.design.atomic_commands) {
            return self.remap_atomically(Remap { target, source, pages, mode });
        }
        // Downwards from the front, upwards from the back: no source is overwritten before it is read.
        let remap = |k: u32| self.remap_page(Lpn(target.0 + k), Lpn(source.0 + k), mode);
        if target <= source { (0..pages).try_for_each(remap) } else { (0..pages).rev().try_for_each(remap) }
    }

    fn remap_atomically(&mut self, remap: Remap) -> Result<()> {
        if remap.pages == 0 || remap.target == remap.source {
            return Ok(());
        }
        let last = Lpn(remap.target.max(remap.source).0.saturating_add(remap.pages - 1));
        self.require_in_range(last)?;
        while let Some(source) = self.saturated_source(remap) {
            self.store.stats.demoted_saturated += 1;
            self.rewrite(source)?;
        }
        self.retry_after_program_failure(Self::make_room_for_metadata)?;
        let places: Vec<Option<Unit>> = remap.sources().map(|lpn| self.mapping.in_ram(lpn)).collect();
        self.record_remap(remap, &places)?;
        self.apply_remap(remap, &places)
    }

    /// A source whose page would get too many referrers, counting what the sources before it add.
    fn saturated_source(&self, remap: Remap) -> Option<Lpn> {
        let sharing = self.sharing.as_ref()?;
        let mut added: HashMap<Unit, u32, FxBuildHasher> = HashMap::default();
        remap.sources().find(|&source| {
            let Some(unit) = self.mapping.in_ram(source) else { return false };
            let added = added.entry(unit).or_default();
            *added += 1;
            sharing.refs.extra(unit) + *added >= MAX_REFERRERS
        })
    }

    /// Gives `lpn` a page of its own with the content that it has.
    fn rewrite(&mut self, lpn: Lpn) -> Result<()> {
        let mut page = self.blank_page();
        self.read(lpn, &mut page)?;
        let identity = self.fingerprint_of(lpn)?.unwrap_or(Fingerprint::ZERO_PAGE);
        self.retry_after_program_failure(|ftl| {
            ftl.write_demoted(lpn, Content::of_page(&page, identity), identity)
        })
    }

    fn record_remap(&mut self, remap: Remap, places: &[Option<Unit>]) -> Result<()> {
        let Self { sharing, mapping, store, .. } = self;
        let Some(sharing) = sharing else { unreachable!("only sharing has atomic commands") };
        let places: Vec<Option<Ppn>> = places.iter().map(|place| place.map(|unit| Ppn(unit.0))).collect();
        if !sharing.admit_command(mapping, store, &places)? {
            store.stats.refused_commands += 1;
            return Err(Error::NotAtomic { pages: remap.pages });
        }
        let mut entries = Vec::with_capacity(places.len());
        for ((lpn, source), place) in remap.targets().zip(remap.sources()).zip(places) {
            let source = (place.is_some() && remap.buries(source)).then_some(source);
            entries.push(Entry { lpn, place, source, sequence: store.next_sequence() });
        }
        sharing.record_command(store, Command { start: remap.target, pages: remap.pages }, &entries)
    }

    /// The map follows what was recorded. New referrers are counted before old ones are released: a page may be both.
    fn apply_remap(&mut self, remap: Remap, places: &[Option<Unit>]) -> Result<()> {
        let Some(sharing) = &mut self.sharing else { unreachable!("only sharing has atomic commands") };
        places.iter().flatten().for_each(|&unit| sharing.refs.up(unit));
        for (target, &place) in remap.targets().zip(places) {
            let old = self.change_map(target, place)?;
            self.release(target, old);
            let stats = &mut self.store.stats;
            if place.is_none() {
                stats.host_page_trims += 1;
            } else {
                stats.remapped_pages += 1;
                self.sharing.as_mut().expect("it binds").mark_bound(target);
            }
        }
        for (source, _) in
            remap.sources().zip(places).filter(|&(source, place)| place.is_some() && remap.buries(source))
        {
            let moved = self.change_map(source, None)?;
            self.release(source, moved);
        }
        Ok(())
    }
}
