//! Audit of the FTL: recomputes its invariants from scratch.
//!
//! Tests run the audit after every operation on tiny devices; longer runs may call it now and then. Its reads of the
//! flash are not counted.

use std::collections::BTreeMap;

use crate::address::{BlockId, Lpn, OptionalAddress, Ppn, StoredUnit, is_flash_page};
use crate::design::Persistence;
use crate::error::Error;
use crate::ftl::Ftl;
use crate::mapping::{AnyMapping, DemandPagedMap};
use crate::nand::{Nand, PageKind};
use crate::recovery::{NewestPageVersions, apply_reverse_map_entries};
use crate::sharing::reverse_map::ReverseMap;
use crate::store::{BlockState, Stream};
use crate::tables::PageSet;

mod lazy_map;

impl Ftl {
    /// Audits the FTL: recomputes all its invariants from scratch. O(pages); reads translation pages.
    ///
    /// # Errors
    /// A sentence that describes the first violation.
    pub fn check(&mut self) -> Result<(), String> {
        let map = self.read_whole_map()?;
        if self.may_overcount_valid_pages() {
            self.check_overcounted_valid_pages(&map)?;
        } else {
            let valid = self.valid_pages()?;
            self.check_map(&map, &valid)?;
            self.check_blocks(&map, &valid)?;
            self.check_page_sharing(&valid)?;
        }
        self.check_host_write_counts()?;
        self.store.check_counters()?;
        self.check_recoverable_map(&map)?;
        self.mapping.as_demand_paged().map_or(Ok(()), |cached| cached.check_nvram(&self.store))?;
        let bound = self.read_entries_mapped_without_program()?;
        self.check_content_records(&bound)?;
        self.compression.as_ref().map_or(Ok(()), |stage| stage.check())?;
        self.delta
            .as_ref()
            .map_or(Ok(()), |stage| stage.check(|lpn| map[lpn.index()].to_option().is_some()))?;
        match &self.recycle {
            Some(stage) => {
                let checked =
                    stage.recycler.check(|lpn| map[lpn.index()].to_option().map(|unit| Ppn(unit.0)));
                checked.map_err(|violation| format!("recycling: {violation}"))
            }
            None => Ok(()),
        }
    }

    /// Returns the number of logical pages that hold data. O(logical pages); reads the whole map, without counting
    /// these reads.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a part of the map on flash cannot be read.
    pub fn count_mapped_lpns(&mut self) -> Result<u64, Error> {
        let map = self.read_whole_map().map_err(Error::Damaged)?;
        Ok(map.iter().filter(|unit| unit.to_option().is_some()).count() as u64)
    }

    /// Returns the stored unit (flash page or chunk member) to which each logical page is mapped, from the mapping
    /// cache and translation pages. Costs no counted operation.
    pub(crate) fn read_whole_map(&mut self) -> Result<Vec<StoredUnit>, String> {
        let mut map = vec![StoredUnit::NONE; self.logical_pages as usize];
        if let AnyMapping::Flat(flat) = &self.mapping {
            (0..self.logical_pages)
                .for_each(|lpn| map[lpn as usize] = flat.get(Lpn(lpn)).unwrap_or(StoredUnit::NONE));
        }
        self.visit_translation_pages(|cached, id, page| {
            cached
                .decode_mapped_entries(id, page)
                .into_iter()
                .for_each(|(lpn, unit)| map[lpn.index()] = unit);
        })?;
        if let Some(cached) = self.mapping.as_demand_paged() {
            for lpn in (0..self.logical_pages).map(Lpn) {
                if let Some(newer) = cached.cached_unit(lpn) {
                    map[lpn.index()] = newer;
                }
            }
        }
        Ok(map)
    }

    /// Returns the map entries on flash of logical pages that were mapped without a program. Leaves out entries for
    /// which the cache has a newer, dirty one. Empty if the device keeps no records of such pages. Costs no counted
    /// operation.
    fn read_entries_mapped_without_program(&mut self) -> Result<BTreeMap<Lpn, StoredUnit>, String> {
        let mut bound = BTreeMap::new();
        if self.store.keeps_nvram_validity_notes() {
            self.visit_translation_pages(|cached, id, page| {
                bound.extend(cached.clean_entries_mapped_without_program(id, page));
            })?;
        }
        Ok(bound)
    }

    /// Calls `visit` with the number and the bytes of each translation page on flash. Costs no counted operation.
    fn visit_translation_pages(
        &mut self,
        mut visit: impl FnMut(&DemandPagedMap, u32, &[u8]),
    ) -> Result<(), String> {
        let Some(cached) = self.mapping.as_demand_paged() else { return Ok(()) };
        let mut page = vec![0; self.store.geometry().page_bytes as usize];
        for id in 0..cached.translation_pages() {
            let Some(place) = cached.translation_page_ppn(id) else { continue };
            self.store.nand_mut().read(place, &mut page).map_err(|error| error.to_string())?;
            visit(cached, id, &page);
        }
        Ok(())
    }

    /// Returns the data pages that the page-validity store reports as valid. The reads that this takes are not counted.
    fn valid_pages(&mut self) -> Result<PageSet, String> {
        let geometry = self.store.geometry().clone();
        let mut valid = PageSet::new(geometry.pages());
        let (stats, ops) = (self.store.stats.clone(), self.store.flash_ops.clone());
        let mut found = Vec::new();
        for block in (0..geometry.blocks()).map(BlockId) {
            let in_use = matches!(self.store.blocks().state(block), BlockState::Open | BlockState::Closed);
            // Validity on flash stores nothing about blocks without data.
            if self.validity.is_on_flash() && !(in_use && self.store.blocks().kind(block) == PageKind::Data) {
                continue;
            }
            self.list_live_pages(block, &mut found).map_err(|error| error.to_string())?;
            found.drain(..).for_each(|ppn| valid.insert(ppn));
        }
        (self.store.stats, self.store.flash_ops) = (stats, ops);
        Ok(valid)
    }

    /// Checks that every mapped page is valid and names its referrer (a logical page mapped to it), that the number of
    /// referrers equals the reference count, and that no other page is valid.
    fn check_map(&self, map: &[StoredUnit], valid: &PageSet) -> Result<(), String> {
        let pages = self.store.geometry().pages();
        let mut referrers = vec![0u32; pages as usize];
        let mut of_members = BTreeMap::<StoredUnit, u32>::new();
        for (lpn, unit) in (0..).map(Lpn).zip(map).filter_map(|(lpn, unit)| Some((lpn, unit.to_option()?))) {
            if !is_flash_page(unit, pages) {
                *of_members.entry(unit).or_default() += 1;
                self.check_chunk_member(lpn, unit)?;
                continue;
            }
            let ppn = Ppn(unit.0);
            referrers[ppn.index()] += 1;
            if !valid.contains(ppn) {
                return Err(format!(
                    "logical page {lpn} is mapped to flash page {ppn}, which must be marked as valid, but is not"
                ));
            }
            self.check_referrer(lpn, ppn)?;
        }
        let extra = |unit: StoredUnit| {
            self.sharing.as_ref().map_or(0, |sharing| sharing.reference_counts.referrers_beyond_first(unit))
        };
        for (unit, count) in of_members {
            if count != 1 + extra(unit) {
                return Err(format!(
                    "the number of logical pages mapped to member {unit} of a compressed chunk is {count}, but must \
                     be the reference count of the member, {}",
                    1 + extra(unit)
                ));
            }
        }
        for (ppn, &count) in (0..).map(Ppn).zip(&referrers) {
            let extra = extra(ppn.into());
            let expected = if valid.contains(ppn) { 1 + extra } else { extra };
            if count != expected {
                return Err(format!(
                    "the number of logical pages mapped to flash page {ppn} is {count}, but must be {expected} by its \
                     valid bit and its reference count"
                ));
            }
        }
        Ok(())
    }

    /// Checks that `unit`, to which `lpn` is mapped, is a live member of a compressed chunk, and that `lpn` wrote the
    /// member or is bound to it (mapped without a program).
    fn check_chunk_member(&self, lpn: Lpn, unit: StoredUnit) -> Result<(), String> {
        let Some(chunks) = self.compression.as_ref().filter(|stage| stage.is_member_live(unit)) else {
            return Err(format!(
                "logical page {lpn} is mapped to location {unit}, which must be a flash page or a live member of a \
                 compressed chunk, but is neither"
            ));
        };
        let is_mapped_without_program =
            self.sharing.as_ref().is_some_and(|sharing| sharing.is_mapped_without_program(lpn));
        let writer = chunks.writer_lpn_of(unit);
        if is_mapped_without_program || writer == lpn {
            return Ok(());
        }
        Err(format!(
            "logical page {lpn} is mapped to member {unit} of a compressed chunk, which was written for logical page \
             {writer}, so a reverse-map entry must say that the two share it, but none does"
        ))
    }

    /// Checks that the owner of the flash page `ppn`, to which `lpn` is mapped, is `lpn`, unless `lpn` is bound (mapped
    /// without a program).
    fn check_referrer(&self, lpn: Lpn, ppn: Ppn) -> Result<(), String> {
        let referrer = match &self.sharing {
            Some(sharing) if sharing.is_mapped_without_program(lpn) => return Ok(()),
            Some(_) => self.store.owner_in_oob(ppn),
            None => self.lpn_mapped_to_page(ppn),
        };
        if referrer == lpn {
            Ok(())
        } else {
            Err(format!(
                "logical page {lpn} is mapped to flash page {ppn}, so it must be the owner of that page that the \
                 spare area names or recycling recorded, but the owner is logical page {referrer}"
            ))
        }
    }

    /// Checks that the valid count of each block equals its valid data pages plus its current metadata pages, that free
    /// blocks have no valid pages, and that block states agree with the pools of free and closed blocks.
    fn check_blocks(&self, map: &[StoredUnit], valid: &PageSet) -> Result<(), String> {
        let blocks = self.store.blocks();
        let mut total = 0;
        for block in (0..blocks.len()).map(BlockId) {
            let counted = self.count_valid_pages(block, valid);
            if counted != blocks.valid_pages(block) {
                return Err(format!(
                    "the recorded number of valid pages of block {block} is {}, but must be {counted}, the number of \
                     its pages that are valid",
                    blocks.valid_pages(block)
                ));
            }
            if matches!(blocks.state(block), BlockState::Free | BlockState::Retired) && counted > 0 {
                return Err(format!(
                    "block {block} is {}, so it must have no valid page, but has {counted}",
                    blocks.state(block).name()
                ));
            }
            total += counted as u64;
        }
        let pages = self.store.geometry().pages();
        let mut stored = PageSet::new(pages);
        map.iter().filter(|&&unit| is_flash_page(unit, pages)).for_each(|unit| stored.insert(Ppn(unit.0)));
        let mapped = stored.len();
        let packed = self.delta.as_ref().map_or(0, |stage| stage.live_delta_page_count())
            + self.compression.as_ref().map_or(0, |stage| stage.pages_of_all_chunks().count() as u64);
        let metadata = total - mapped.min(total);
        // A log of invalid pages exceeds its bound if fewer pages are stored than there are logical pages. It exceeds
        // the bound at most by the difference.
        let not_stored = (self.logical_pages as u64).saturating_sub(mapped + packed);
        let spared = if self.validity.is_on_flash() { not_stored } else { 0 };
        let most = self.max_metadata_pages() + packed + spared;
        if total < mapped || metadata > most {
            return Err(format!(
                "the number of valid flash pages is {total}, but must be at least {mapped}, the number of pages to \
                 which logical pages are mapped, and exceed it by at most {most} pages of metadata, deltas or \
                 compressed chunks"
            ));
        }
        self.check_block_states()
    }

    /// Checks that the blocks marked as free are those in the pools of free blocks, and the blocks marked as open are
    /// those that the streams of writes fill.
    fn check_block_states(&self) -> Result<(), String> {
        let blocks = self.store.blocks();
        let free = blocks.block_counts_by_state()[BlockState::Free as usize];
        if free != self.store.total_free_blocks() {
            return Err(format!(
                "the number of blocks that the block table marks as free is {free}, but must be {}, the number of \
                 blocks in the lists of free blocks",
                self.store.total_free_blocks()
            ));
        }
        self.check_open_blocks()
    }

    /// Checks that the blocks that the block table marks as open are those that the streams of writes fill.
    fn check_open_blocks(&self) -> Result<(), String> {
        let open = self.store.programmed_pages_of_open_blocks().count() as u32;
        let marked = self.store.blocks().block_counts_by_state()[BlockState::Open as usize];
        if open != marked {
            return Err(format!(
                "the number of blocks that the block table marks as open is {marked}, but must be {open}, the number \
                 of blocks that streams of writes fill"
            ));
        }
        let misplaced = self
            .store
            .programmed_pages_of_open_blocks()
            .find(|&(block, _)| self.store.blocks().state(block) != BlockState::Open);
        misplaced.map_or(Ok(()), |(block, _)| {
            let state = self.store.blocks().state(block).name();
            Err(format!(
                "a stream of writes fills block {block}, so the block table must mark that block as open, but marks \
                 it as {state}"
            ))
        })
    }

    /// Counts the valid pages of `block` from scratch; `valid` are the data pages that the validity store reports as
    /// valid.
    fn count_valid_pages(&self, block: BlockId, valid: &PageSet) -> u32 {
        let first = self.store.geometry().first_page(block);
        let pages = self.store.geometry().block_pages();
        match self.store.blocks().kind(block) {
            PageKind::Data => {
                (first.0..first.0 + pages).filter(|&ppn| valid.contains(Ppn(ppn))).count() as u32
            }
            PageKind::Delta | PageKind::Chunk => self.live_delta_or_chunk_pages(block).len() as u32,
            PageKind::Translation => self.count_current_metadata_pages(Stream::Translation, first, pages),
            PageKind::RemapLog => self.count_current_metadata_pages(Stream::RemapLog, first, pages),
            PageKind::Validity => self.count_current_metadata_pages(Stream::Validity, first, pages),
            PageKind::BlockHead | PageKind::BlockTail => unreachable!("they describe blocks of other pages"),
        }
    }

    /// Counts those of the `pages` metadata pages from `first` on that are current (no newer version of them exists).
    /// `stream` is the kind of metadata.
    fn count_current_metadata_pages(&self, stream: Stream, first: Ppn, pages: u32) -> u32 {
        let current = |&ppn: &Ppn| self.is_current_metadata_page(stream, self.store.owner_in_oob(ppn).0, ppn);
        (first.0..first.0 + pages).map(Ppn).filter(current).count() as u32
    }

    /// Checks that every host write, and every trim that became a write, is counted either as a program or as a write
    /// that needed no program of its own (silent, recycled, deduplicated, delta, compressed).
    fn check_host_write_counts(&self) -> Result<(), String> {
        let stats = &self.store.stats;
        let host_programs = stats.programs[crate::operation::Cause::Host as usize];
        let forms = [
            ("unchanged", stats.unchanged_writes),
            ("recycled", stats.recycled_writes),
            ("deduplicated", stats.deduplicated_writes),
            ("deltas", stats.delta_writes),
            ("packed", stats.compressed_chunk_writes),
        ];
        let without_program: u64 = forms.iter().map(|(_, writes)| writes).sum();
        let (wasted, writes) =
            (stats.unsuccessful_host_programs, stats.host_page_writes + stats.trimmed_pages_written_as_zeros);
        if writes > host_programs + without_program || host_programs + without_program > writes + wasted {
            let forms = forms.map(|(name, writes)| format!("{writes} {name}")).join(", ");
            return Err(format!(
                "each write of a host page must be counted as a program or as a write without a program, but the \
                 counters say: writes of host pages: {writes} ({} by the host, {} of trimmed pages as zeros), \
                 programs of host pages: {host_programs} ({wasted} of them failed), writes without a program: \
                 {without_program} ({forms})",
                stats.host_page_writes, stats.trimmed_pages_written_as_zeros
            ));
        }
        Ok(())
    }

    /// Checks the sharing of pages: every logical page that is bound (mapped without a program) has a valid reverse-map
    /// entry, and the content index refers to valid pages with the indexed content.
    fn check_page_sharing(&self, valid_pages: &PageSet) -> Result<(), String> {
        let Some(sharing) = &self.sharing else { return Ok(()) };
        sharing.reverse_map.check_invariants()?;
        let bound =
            (0..self.logical_pages).filter(|&lpn| sharing.is_mapped_without_program(Lpn(lpn))).count() as u64;
        let valid = sharing.reverse_map.valid_entry_count();
        if valid < bound {
            return Err(format!(
                "the number of logical pages that were mapped without a program (bound) is {bound}, but must be at \
                 most {valid}, the number of valid entries of the reverse map"
            ));
        }
        let Some(index) = &sharing.content_index else { return Ok(()) };
        for unit in index.indexed_units() {
            let is_live = match &self.compression {
                Some(stage) if !is_flash_page(unit, self.store.geometry().pages()) => {
                    stage.is_member_live(unit)
                }
                _ => valid_pages.contains(Ppn(unit.0)),
            };
            if !is_live || !index.has_entry_for(self.fingerprint_of_unit(unit), unit) {
                return Err(format!(
                    "the content index of dedup names location {unit} (a flash page or a member of a compressed \
                     chunk), which must be in use and hold the indexed content, but does not"
                ));
            }
        }
        Ok(())
    }

    /// Checks that recovery would rebuild the L2P table that is in RAM, for designs that rebuild it from flash pages
    /// and reverse-map entries. For each mapped logical page, the newest flash page or entry that names it must lead to
    /// the flash page to which the table maps it. Each bound logical page (mapped without a program) must be found by
    /// an entry, and no unmapped one may be found. Trims that a design does not record are not checked, nor are media
    /// without sequence numbers.
    fn check_recoverable_map(&mut self, map: &[StoredUnit]) -> Result<(), String> {
        let records_trims = self.persistence.replays_reverse_map_entries();
        if !records_trims && self.persistence != Persistence::OobScan {
            return Ok(());
        }
        let mut newest = NewestPageVersions::new(self.logical_pages as usize);
        let mut programmed = vec![0; self.store.geometry().pages() as usize];
        let good = (0..self.store.geometry().blocks())
            .map(BlockId)
            .filter(|&block| !self.store.nand().is_bad(block));
        for block in good.collect::<Vec<_>>() {
            let first = self.store.geometry().first_page(block).0;
            for ppn in (first..first + self.store.geometry().block_pages()).map(Ppn) {
                let oob = match self.store.nand_mut().probe_page(ppn) {
                    Ok(Some(oob)) => oob,
                    // Pages of a block are programmed in order.
                    Ok(None) => break,
                    Err(_) => continue,
                };
                if oob.sequence_number == 0 {
                    return Ok(());
                }
                if oob.kind == PageKind::Data {
                    newest.record_page_if_newer(ppn, oob.into());
                    programmed[ppn.index()] = oob.sequence_number;
                }
            }
        }
        let entries = self
            .sharing
            .as_ref()
            .map_or_else(Vec::new, |sharing| sharing.reverse_map.all_entries(&self.store));
        let bound = apply_reverse_map_entries(&mut newest, &entries, &programmed);
        for (lpn, &unit) in
            (0..).map(Lpn).zip(map).filter(|(_, unit)| records_trims || unit.to_option().is_some())
        {
            let (found, place) =
                (newest.ppn_of_owner[lpn.index()].to_option(), unit.to_option().map(|unit| Ppn(unit.0)));
            if found != place {
                return Err(format!(
                    "logical page {lpn} is mapped to {}, so recovery must map it there, too, but would map it to {}",
                    describe_flash_page(place),
                    describe_flash_page(found)
                ));
            }
            let is_mapped_without_program =
                self.sharing.as_ref().is_some_and(|sharing| sharing.is_mapped_without_program(lpn));
            if bound[lpn.index()] != is_mapped_without_program {
                return Err(if is_mapped_without_program {
                    format!(
                        "logical page {lpn} is marked in RAM as mapped without a program (bound), so a reverse-map \
                         entry must record it, but none does"
                    )
                } else {
                    format!(
                        "a reverse-map entry records logical page {lpn} as mapped without a program (bound), so it \
                         must be marked so in RAM, but is not"
                    )
                });
            }
        }
        Ok(())
    }
}

/// Describes a flash page in a message of the audit: its number, or that there is none.
fn describe_flash_page(place: Option<Ppn>) -> String {
    place.map_or_else(|| "no flash page".to_owned(), |ppn| format!("flash page {ppn}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::RemapMode;
    use crate::data::{Content, ContentDescriptor, Fingerprint, mix_bits};
    use crate::design::{SharingOptions, page_map, remap};
    use crate::gc::GcOptions;
    use crate::mapping::Mapping;
    use crate::nand::{Geometry, RetainedPageFields, SimNand};
    use crate::operation::Cause;
    use crate::sharing::counts::ReferenceCountForm;
    use crate::sharing::reverse_map::ReverseMapKind;
    use crate::validity::ValidityStore;

    /// Returns a device on which pages were shared and trimmed, and on which garbage was collected.
    fn device_with_shared_pages(parts: &crate::design::Parts) -> Ftl {
        let geometry = Geometry {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: 1,
            blocks_per_plane: 14,
            pages_per_block: 4,
            page_bytes: 512,
            spare_bytes: 64,
            superblock_planes: 1,
        };
        let nand = SimNand::new(geometry, RetainedPageFields::ALL).with_nvram(1536);
        let mut ftl = Ftl::new(nand, 20, parts).expect("it fits");
        for k in 0..200u32 {
            let content = Content::Descriptor(ContentDescriptor::of_fingerprint(Fingerprint(1 + k as u64)));
            ftl.write(Lpn((mix_bits(k as u64) % 15) as u32), content).expect("there is room");
            if k % 5 == 0 {
                ftl.remap_page(Lpn(15 + k / 5 % 4), Lpn(k % 3), RemapMode::Copy).expect("there is room");
            }
        }
        ftl.trim(Lpn(9)).expect("there is room");
        assert_eq!(ftl.check(), Ok(()));
        ftl
    }

    /// Returns a device with shared and trimmed pages whose reverse map is stored in NVRAM segments.
    fn device_with_remaps() -> Ftl {
        let reverse_map = ReverseMapKind::Segments { nvram_bytes: 1536, segment_bytes: 64 };
        let sharing = SharingOptions {
            reverse_map,
            reference_count_form: ReferenceCountForm::Dense,
            dedup: None,
            has_atomic_remap_commands: false,
        };
        device_with_shared_pages(&remap(GcOptions::default(), sharing))
    }

    /// Asserts that the audit of the FTL detects the change that `damage` makes, with a message that contains `words`.
    fn assert_audit_notices(words: &str, mut ftl: Ftl, damage: impl FnOnce(&mut Ftl)) {
        damage(&mut ftl);
        let found = ftl.check().expect_err("a law is broken");
        assert!(found.contains(words), "{found}");
    }

    /// Returns the unit (flash page) to which the logical page `lpn` is mapped.
    fn mapped_unit(ftl: &mut Ftl, lpn: u32) -> StoredUnit {
        ftl.mapping
            .lookup_without_caching(&mut ftl.store, Lpn(lpn))
            .expect("a flat map")
            .expect("it is mapped")
    }

    #[test]
    fn the_audit_notices_a_wrong_reference_count() {
        assert_audit_notices("by its valid bit and its reference count", device_with_remaps(), |ftl| {
            let unit = mapped_unit(ftl, 15);
            ftl.sharing.as_mut().expect("it shares").reference_counts.add_referrer(unit);
        });
    }

    #[test]
    fn the_audit_notices_a_mapped_page_that_is_marked_invalid() {
        assert_audit_notices("which must be marked as valid, but is not", device_with_remaps(), |ftl| {
            let unit = mapped_unit(ftl, 4);
            ftl.validity.invalidate(Ppn(unit.0));
        });
    }

    #[test]
    fn the_audit_notices_a_wrong_count_of_host_writes() {
        assert_audit_notices("writes of host pages", device_with_remaps(), |ftl| {
            ftl.store.stats.deduplicated_writes += 1;
        });
    }

    #[test]
    fn the_audit_notices_a_wrong_count_of_programs() {
        assert_audit_notices("pages are programmed", device_with_remaps(), |ftl| {
            ftl.store.stats.programs[Cause::Gc as usize] += 1;
        });
        assert_audit_notices("pages are programmed", device_with_remaps(), |ftl| {
            ftl.store.stats.programs[Cause::Host as usize] -= 1;
            ftl.store.stats.host_page_writes -= 1;
        });
        let ftl = device_with_shared_pages(&page_map(GcOptions::default()));
        assert_audit_notices("pages are programmed", ftl, |ftl| {
            ftl.store.stats.programs[Cause::RemapLog as usize] += 1;
        });
    }

    #[test]
    fn the_audit_notices_a_wrong_count_of_erases_also_after_a_reset() {
        assert_audit_notices(
            "the erase counts of the flash blocks, which grew by",
            device_with_remaps(),
            |ftl| {
                ftl.store.stats.erases[Cause::Gc as usize] += 1;
            },
        );
        let mut ftl = device_with_remaps();
        ftl.clear_stats();
        assert_eq!(ftl.check(), Ok(()));
        assert_audit_notices("the erase counts of the flash blocks, which grew by", ftl, |ftl| {
            ftl.store.stats.erases[Cause::WearLeveling as usize] += 1;
        });
    }

    #[test]
    fn the_audit_notices_a_page_mapped_without_a_program_and_without_a_reverse_map_entry() {
        assert_audit_notices(
            "is marked in RAM as mapped without a program (bound), so a reverse-map entry must record it, but none does",
            device_with_remaps(),
            |ftl| {
                ftl.sharing.as_mut().expect("it shares").mark_mapped_without_program(Lpn(4));
            },
        );
    }

    #[test]
    fn the_audit_notices_a_wrong_count_of_valid_reverse_map_entries() {
        assert_audit_notices(
            "must be at most 1, the number of valid entries of the reverse map",
            device_with_remaps(),
            |ftl| {
                let Ftl { sharing, store, mapping, .. } = ftl;
                let reverse = &mut sharing.as_mut().expect("it shares").reverse_map;
                let AnyMapping::Flat(map) = mapping else { unreachable!("sharing runs on a flat map") };
                // Pretends that every bind was superseded.
                for entry in reverse.all_entries(store) {
                    if let Some(place) =
                        entry.mapped_ppn.filter(|&place| map.get(entry.lpn) == Some(place.into()))
                    {
                        reverse.mark_mapping_superseded(store, entry.lpn, place);
                    }
                }
            },
        );
    }

    #[test]
    fn the_audit_notices_a_trim_that_recovery_would_not_find() {
        assert_audit_notices(
            "so recovery must map it there, too, but would map it to",
            device_with_remaps(),
            |ftl| {
                let old = ftl.change_map_entry(Lpn(4), None).expect("a flat map");
                ftl.release_reference(Lpn(4), old);
            },
        );
    }
}
