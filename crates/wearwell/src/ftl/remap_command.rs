//! Remap commands of several pages: page by page, or atomically.
//!
//! The paper's default is atomicity of each page (Remap-SSD, section 4.3): each page is a bind of its own (mapped
//! without a program), or a write if it cannot be bound. An atomic command has three steps instead. First, everything
//! that can fail or needs a flash operation: a source whose page has the most referrers that are allowed is rewritten
//! to a page of its own, and the reverse map makes room for all entries at once. Second, the entries are recorded; the
//! last store of the last entry is the commit point. Third, the map in RAM is updated. No GC runs between the first
//! entry and the last.
//!
//! The command behaves as if the source range had been copied aside first. So a source that is also a target is not
//! deallocated, each logical page has at most one entry, and the order of entries has no meaning.
//!
//! A command that cannot be recorded as a whole is rejected ([`Error::NotAtomic`]), because writes in its place would
//! not be atomic. The price: a host that requests atomic commands must be ready to write instead, where the paper's
//! device would do so itself.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::address::{Lpn, Ppn, RemapMode, StoredUnit};
use crate::data::{Content, Fingerprint};
use crate::error::{Error, Result};
use crate::ftl::Ftl;
use crate::sharing::counts::MAX_REFERRERS;
use crate::sharing::reverse_map::{RemapCommand, ReverseMapEntry};

/// A remap command of several pages: a range of target logical pages gets the contents of a range of source pages.
#[derive(Clone, Copy)]
struct RemapRanges {
    /// First logical page of the target range, which receives the contents.
    first_target: Lpn,
    /// First logical page of the source range, whose contents the targets receive.
    first_source: Lpn,
    /// Number of logical pages in each of the two ranges.
    page_count: u32,
    /// Whether the source pages keep their content or are deallocated.
    mode: RemapMode,
}

impl RemapRanges {
    /// Returns the logical pages of the target range, in ascending order.
    fn targets(self) -> impl Iterator<Item = Lpn> {
        (self.first_target.0..self.first_target.0 + self.page_count).map(Lpn)
    }

    /// Returns the logical pages of the source range, in ascending order.
    fn sources(self) -> impl Iterator<Item = Lpn> {
        (self.first_source.0..self.first_source.0 + self.page_count).map(Lpn)
    }

    /// Returns whether this remap command deallocates the logical page `source`: the command has the mode relocate, and
    /// `source` is not one of its targets.
    fn deallocates_source(self, source: Lpn) -> bool {
        let is_target = (self.first_target.0..self.first_target.0 + self.page_count).contains(&source.0);
        self.mode == RemapMode::Relocate && !is_target
    }
}

impl Ftl {
    /// Maps `pages` logical pages, beginning with `target`, to the contents of as many logical pages, beginning with
    /// `source`. Overlapping ranges behave as if the source range had been copied to a buffer first.
    /// [`RemapMode::Relocate`] deallocates the source pages that are not also target pages. The command is atomic if
    /// the design has atomic commands. Otherwise it is executed page by page, and after an error the pages before the
    /// failed one stay remapped.
    ///
    /// # Errors
    /// Those of [`Ftl::remap_page`]; [`Error::NotAtomic`] for an atomic command that cannot be recorded as a whole and
    /// has changed no content.
    pub fn remap_pages(&mut self, target: Lpn, source: Lpn, pages: u32, mode: RemapMode) -> Result<()> {
        self.pages_remapped_by_last_command = 0;
        if self.sharing.as_ref().is_some_and(|sharing| sharing.options.has_atomic_remap_commands) {
            return self.remap_atomically(RemapRanges {
                first_target: target,
                first_source: source,
                page_count: pages,
                mode,
            });
        }
        // Ascending if the target is lower than the source, descending if it is higher: no source is overwritten before
        // it is read.
        let remap = |k: u32| {
            self.remap_page(Lpn(target.0 + k), Lpn(source.0 + k), mode)?;
            self.pages_remapped_by_last_command += 1;
            Ok(())
        };
        if target <= source { (0..pages).try_for_each(remap) } else { (0..pages).rev().try_for_each(remap) }
    }

    /// Executes a remap command of several pages atomically: prepares it, records it in the reverse map, and changes
    /// the map.
    fn remap_atomically(&mut self, remap: RemapRanges) -> Result<()> {
        if remap.page_count == 0 || remap.first_target == remap.first_source {
            return Ok(());
        }
        let last = Lpn(remap.first_target.max(remap.first_source).0.saturating_add(remap.page_count - 1));
        self.require_in_range(last)?;
        while let Some(source) = self.source_at_referrer_limit(remap) {
            self.store.stats.writes_due_to_max_referrers += 1;
            self.rewrite_unshared(source)?;
        }
        self.retry_after_program_failure(Self::make_room_for_metadata)?;
        let places: Vec<Option<StoredUnit>> =
            remap.sources().map(|lpn| self.mapping.lookup_in_ram(lpn)).collect();
        self.record_remap_in_reverse_map(remap, &places)?;
        self.apply_remap_to_map(remap, &places)
    }

    /// Returns the first source page of the command whose physical page would get more referrers (logical pages mapped
    /// to it) than are allowed; the referrers that earlier sources of the command add are counted.
    fn source_at_referrer_limit(&self, remap: RemapRanges) -> Option<Lpn> {
        let sharing = self.sharing.as_ref()?;
        let mut added: HashMap<StoredUnit, u32, FxBuildHasher> = HashMap::default();
        remap.sources().find(|&source| {
            let Some(unit) = self.mapping.lookup_in_ram(source) else { return false };
            let added = added.entry(unit).or_default();
            *added += 1;
            sharing.reference_counts.referrers_beyond_first(unit) + *added >= MAX_REFERRERS
        })
    }

    /// Writes the content of `lpn` to a physical page of its own, so that `lpn` shares no page with other logical
    /// pages.
    fn rewrite_unshared(&mut self, lpn: Lpn) -> Result<()> {
        let mut page = self.zero_filled_page();
        self.read(lpn, &mut page)?;
        let identity = self.current_fingerprint_of(lpn, &page)?.unwrap_or(Fingerprint::ZERO_PAGE);
        self.retry_after_program_failure(|ftl| {
            ftl.write_after_failed_mapping_without_program(lpn, Content::of_page(&page, identity), identity)
        })
    }

    /// Records an atomic remap command in the reverse map; the last store of its last entry is the commit point.
    /// `places` are the physical pages of the sources. Fails with [`Error::NotAtomic`] if the reverse map has too
    /// little room.
    fn record_remap_in_reverse_map(
        &mut self,
        remap: RemapRanges,
        places: &[Option<StoredUnit>],
    ) -> Result<()> {
        let Self { sharing, mapping, store, .. } = self;
        let Some(sharing) = sharing else { unreachable!("only sharing has atomic commands") };
        let places: Vec<Option<Ppn>> = places.iter().map(|place| place.map(|unit| Ppn(unit.0))).collect();
        if !sharing.make_room_for_remap_command(mapping, store, &places)? {
            store.stats.refused_remap_commands += 1;
            let max_pages = sharing.reverse_map.max_pages_per_command();
            return Err(Error::NotAtomic { pages: remap.page_count, max_pages });
        }
        let mut entries = Vec::with_capacity(places.len());
        for ((lpn, source), place) in remap.targets().zip(remap.sources()).zip(places) {
            let source = (place.is_some() && remap.deallocates_source(source)).then_some(source);
            entries.push(ReverseMapEntry {
                lpn,
                mapped_ppn: place,
                relocation_source_or_range_end: source,
                sequence_number: store.take_next_sequence_number(),
            });
        }
        sharing.record_remap_command(
            store,
            RemapCommand { first_target: remap.first_target, target_pages: remap.page_count },
            &entries,
        )
    }

    /// Updates the L2P map for an atomic remap command whose reverse-map entries are already recorded. New referrers of
    /// a physical page (logical pages mapped to it) are counted before old ones are released, because a page may gain
    /// and lose referrers in one command.
    fn apply_remap_to_map(&mut self, remap: RemapRanges, places: &[Option<StoredUnit>]) -> Result<()> {
        let Some(sharing) = &mut self.sharing else { unreachable!("only sharing has atomic commands") };
        places.iter().flatten().for_each(|&unit| sharing.reference_counts.add_referrer(unit));
        for (target, &place) in remap.targets().zip(places) {
            let old = self.change_map_entry(target, place)?;
            self.release_reference(target, old);
            let stats = &mut self.store.stats;
            if place.is_none() {
                stats.host_page_trims += 1;
            } else {
                stats.remapped_pages += 1;
                self.sharing_state_mut().mark_mapped_without_program(target);
            }
        }
        for (source, _) in remap
            .sources()
            .zip(places)
            .filter(|&(source, place)| place.is_some() && remap.deallocates_source(source))
        {
            let moved = self.change_map_entry(source, None)?;
            self.release_reference(source, moved);
        }
        Ok(())
    }
}
