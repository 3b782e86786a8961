//! Reads ahead the table entries that coming requests will need, so that their cache misses overlap
//! ([`crate::tables::prefetch`]).

use arrayvec::ArrayVec;

use crate::address::{Lpn, OptionalAddress, Ppn, StoredUnit, chunk_and_member_of, is_flash_page};
use crate::data::Fingerprint;
use crate::ftl::Ftl;
use crate::mapping::{AnyMapping, DemandPagedMap, RamMap};
use crate::nand::Nand;
use crate::tables::prefetch::{HOST_WRITES_PER_PREFETCH, load_into_cpu_cache};

impl Ftl {
    /// Prefetches into the CPU cache the entries of map, page validity and content tables that host writes to the
    /// logical pages `upcoming` will need. `fingerprints` are those of the contents to be written; empty if unknown.
    #[inline]
    pub fn prefetch_table_entries_for_writes(&self, upcoming: &[Lpn], fingerprints: &[Fingerprint]) {
        match &self.mapping {
            AnyMapping::Flat(map) => {
                upcoming.chunks(HOST_WRITES_PER_PREFETCH).for_each(|lpns| self.prefetch_ram_map(map, lpns));
            }
            AnyMapping::Cached(map) => {
                upcoming
                    .chunks(HOST_WRITES_PER_PREFETCH)
                    .for_each(|lpns| self.prefetch_demand_paged_map(map, lpns));
            }
            AnyMapping::Journalled(map) => {
                upcoming
                    .chunks(HOST_WRITES_PER_PREFETCH)
                    .for_each(|lpns| self.prefetch_demand_paged_map(map.demand_paged_map(), lpns));
            }
        }
        if let Some(stage) = &self.delta {
            upcoming
                .chunks(HOST_WRITES_PER_PREFETCH)
                .for_each(|lpns| stage.prefetch_table_entries_for_writes(lpns));
        }
        if !fingerprints.is_empty() {
            self.prefetch_content_lookups(fingerprints);
        }
    }

    /// Prefetches the map entry, then the spare area, of each logical page in `upcoming` for coming host reads of these
    /// pages, so that the cache misses of the processor overlap.
    #[inline]
    pub fn prefetch_reads(&self, upcoming: &[Lpn]) {
        let pages = self.store.geometry().pages();
        for lpns in upcoming.chunks(HOST_WRITES_PER_PREFETCH) {
            let units: ArrayVec<StoredUnit, HOST_WRITES_PER_PREFETCH> = match &self.mapping {
                AnyMapping::Flat(map) => lpns.iter().filter_map(|&lpn| map.get(lpn)).collect(),
                AnyMapping::Cached(map) => map.prefetch_entries_for_updates(&self.store, lpns),
                AnyMapping::Journalled(map) => {
                    map.demand_paged_map().prefetch_entries_for_updates(&self.store, lpns)
                }
            };
            let places = units.iter().filter(|&&unit| is_flash_page(unit, pages)).map(|unit| Ppn(unit.0));
            let spare = |place| {
                u64::from(self.store.nand().oob_owner(place)) ^ self.store.nand().fingerprint(place).0
            };
            load_into_cpu_cache(places.map(spare));
        }
    }

    /// Prefetches what writes of `lpns` will need if the L2P table is in RAM: map entries, and the state of the
    /// replaced pages.
    #[inline]
    fn prefetch_ram_map(&self, map: &RamMap, lpns: &[Lpn]) {
        let mut units = [StoredUnit(0); HOST_WRITES_PER_PREFETCH];
        let units = &mut units[..lpns.len()];
        for (unit, &lpn) in units.iter_mut().zip(lpns) {
            *unit = map.get(lpn).unwrap_or(StoredUnit(0));
        }
        self.prefetch_replaced_pages(lpns, units);
    }

    /// Prefetches what writes of `lpns` will need if the L2P table is on flash: cached entries, and the state of the
    /// replaced pages.
    #[inline(never)]
    fn prefetch_demand_paged_map(&self, map: &DemandPagedMap, lpns: &[Lpn]) {
        let mut units = map.prefetch_entries_for_updates(&self.store, lpns);
        units.iter_mut().filter(|unit| **unit == StoredUnit::NONE).for_each(|unit| *unit = StoredUnit(0));
        if !units.is_empty() {
            self.prefetch_replaced_pages(lpns, &units);
        }
    }

    /// Prefetches the validity and the content-table entries of `units`, where the contents of `lpns` are stored now:
    /// coming writes replace them. Logical pages without content have unit 0.
    #[inline]
    fn prefetch_replaced_pages(&self, lpns: &[Lpn], units: &[StoredUnit]) {
        let pages = self.store.geometry().pages();
        let mut places = [Ppn(0); HOST_WRITES_PER_PREFETCH];
        let places = &mut places[..lpns.len()];
        for (place, &unit) in places.iter_mut().zip(units) {
            *place = if is_flash_page(unit, pages) { Ppn(unit.0) } else { Ppn(0) };
        }
        self.prefetch_validity(places.iter().copied());
        if self.recycle.is_some() || self.sharing.is_some() {
            self.prefetch_content_tables(lpns, units, places);
        }
    }

    /// Prefetches the valid count and valid bit of each physical page in `places` for its invalidation, so that the
    /// cache misses of the processor overlap.
    #[inline]
    fn prefetch_validity(&self, places: impl Iterator<Item = Ppn>) {
        let in_ram = !self.validity.is_on_flash();
        let counted = |place| u64::from(self.store.blocks().valid_pages(self.store.block_of(place)));
        load_into_cpu_cache(
            places.map(|place| counted(place) + u64::from(in_ram && self.validity.is_valid(place))),
        );
    }

    /// Prefetches the entries of the content mechanisms' tables that overwriting the current physical pages of `lpns`
    /// will need, so that their cache misses overlap. Never inlined: devices without content mechanisms are faster if
    /// their loop does not contain this code.
    #[inline(never)]
    fn prefetch_content_tables(&self, lpns: &[Lpn], units: &[StoredUnit], places: &[Ppn]) {
        let mut contents = [Fingerprint::default(); HOST_WRITES_PER_PREFETCH];
        let contents = &mut contents[..lpns.len()];
        for (content, &unit) in contents.iter_mut().zip(units) {
            *content = self.fingerprint_of_unit(unit);
        }
        if let Some(stage) = &self.compression {
            let pages = self.store.geometry().pages();
            let members = units.iter().copied().filter(|&unit| !is_flash_page(unit, pages));
            stage.prefetch_for_removal_of_chunk_members(members.clone());
            self.store.prefetch_chunk_records(members.map(|unit| chunk_and_member_of(unit, pages).0));
        }
        if let Some(stage) = &self.recycle {
            stage.recycler.prefetch(lpns, places, contents, |place| self.store.owner_in_oob(place));
            if self.sharing.is_some() {
                load_into_cpu_cache(places.iter().map(|&place| self.store.owner_in_oob(place).0.into()));
            }
        }
        if let Some(sharing) = &self.sharing {
            sharing.prefetch_sharing_table_entries(lpns, units, contents);
        }
    }

    /// Prefetches the entries of the fingerprint store (index of dead pages) and content index (index of stored pages)
    /// that look-ups of `fingerprints` will need, so that their cache misses overlap.
    #[inline(never)]
    fn prefetch_content_lookups(&self, fingerprints: &[Fingerprint]) {
        if let Some(stage) = &self.recycle {
            stage.recycler.prefetch_lookups(fingerprints);
        }
        if let Some(index) = self.sharing.as_ref().and_then(|sharing| sharing.content_index.as_ref()) {
            index.prefetch_lookups(fingerprints, |unit| self.fingerprint_of_unit(unit));
        }
    }
}
