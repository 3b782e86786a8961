//! Logical-to-physical mapping (L2P): which flash page, or chunk member, holds logical page `lpn`.
//!
//! A map looks up the location of a page, records a new location and returns the old one, follows pages that GC moved,
//! and reports which flash pages of its own (translation pages) it still needs. A map that keeps its table on flash
//! appends real pages through the store. So its cost shows in write amplification, wear and latency, and the engine
//! needs no special case.
//!
//! GC never runs inside a map. The new location of a page that GC moved is kept in RAM ([`Mapping::record_gc_move`]).
//! Pages that must be written for it are written later, when the engine has made room
//! ([`Mapping::execute_next_deferred_map_write`]).

mod cached;
mod construction;
mod entry_cache;
mod journal;
mod lru_queue;
mod nvram_entries;
mod ram_map;
mod translation_table;
mod trimmed_range;

pub use cached::{DemandPagedMap, DemandPagedMapOptions, InvalidPageIdentification, MapCacheCounts};
pub(crate) use cached::{IdentifiedInvalidPage, is_owner_in_oob};
pub use journal::{JournalCounts, JournalOptions, JournalledMap};
pub(crate) use nvram_entries::nvram_words_for_dirty_entries;
pub use ram_map::RamMap;
pub use translation_table::DirectoryLocation;

use crate::address::{Lpn, OptionalAddress, Ppn, StoredUnit};
use crate::error::Result;
use crate::store::FlashPageStore;

/// Logical-to-physical map (L2P) of a device.
pub trait Mapping {
    /// Returns the location (flash page or chunk member) of `lpn`, `None` if it is unmapped. May read translation
    /// pages, and may write some to make room in the map's cache.
    ///
    /// # Errors
    /// Any error of the flash.
    fn lookup(&mut self, io: &mut FlashPageStore, lpn: Lpn) -> Result<Option<StoredUnit>>;

    /// Returns the location of `lpn`, `None` if it is unmapped. Unlike [`Mapping::lookup`], writes no flash page and
    /// caches no entry, so it also works on a device that is full.
    ///
    /// # Errors
    /// Any error of the flash.
    fn lookup_without_caching(&mut self, io: &mut FlashPageStore, lpn: Lpn) -> Result<Option<StoredUnit>>;

    /// Maps `lpn` to the location `new` (`None` deallocates it) and returns the old location. A lazy map
    /// ([`Mapping::identifies_invalid_pages_late`]) may not know the old location yet; it returns `None` then.
    ///
    /// # Errors
    /// Any error of the flash; the mapping is unchanged then.
    fn update(
        &mut self,
        io: &mut FlashPageStore,
        lpn: Lpn,
        new: Option<StoredUnit>,
    ) -> Result<Option<StoredUnit>>;

    /// Announces that the logical pages from `first` to `last` are trimmed one after the other, up to
    /// [`Mapping::end_trim`]: a map on flash then reads each of their translation pages once.
    fn begin_trim(&mut self, _: Lpn, _: Lpn) {}

    /// Ends the trim that [`Mapping::begin_trim`] announced.
    fn end_trim(&mut self) {}

    /// Returns whether the map is lazy: it learns which page an overwrite made invalid only when it writes the
    /// translation page, not at the update. With a lazy map, [`Mapping::trim_in_one_translation_page`] deallocates
    /// pages, and GC queries [`Mapping::is_unidentified_invalid_page`] before it moves a page.
    fn identifies_invalid_pages_late(&self) -> bool {
        false
    }

    /// Deallocates the logical pages from `first` to `last` whose map entries are on the translation page of `first`.
    /// Returns the last logical page deallocated, or `None` if this step has to be repeated. Appends at most
    /// [`Mapping::max_metadata_pages_per_access`] pages.
    ///
    /// # Errors
    /// Any error of the flash.
    fn trim_in_one_translation_page(
        &mut self,
        _: &mut FlashPageStore,
        _: Lpn,
        last: Lpn,
    ) -> Result<Option<Lpn>> {
        Ok(Some(last))
    }

    /// Returns whether the page at `ppn`, whose spare area names `lpn` as owner, is an earlier version of `lpn` that
    /// the L2P map has not reported as invalid yet. Only a lazy map has such pages.
    fn is_unidentified_invalid_page(&self, _: Lpn, _: Ppn) -> bool {
        false
    }

    /// Informs a lazy map (which identifies invalid pages late) that the block with an earlier version of `lpn` is
    /// about to be erased, so that the map does not report that version as invalid later.
    fn clear_unidentified_invalid_page_flag(&mut self, _: Lpn) {}

    /// Records in the L2P map that GC moved the page of `lpn` to `new`. Causes no flash operation.
    fn record_gc_move(&mut self, lpn: Lpn, new: StoredUnit);

    /// Records in the L2P map that GC moved the pages of `lpns` to the PPNs `new`, which have the same order. Map
    /// entries are at random addresses in memory, so all are prefetched first and their cache misses overlap. A lazy
    /// map needs no prefetch: GC has just queried it for these pages.
    fn record_gc_moves(&mut self, lpns: &[Lpn], new: &[Ppn]) {
        if !self.identifies_invalid_pages_late() {
            self.prefetch(lpns);
        }
        lpns.iter().zip(new).for_each(|(&lpn, &new)| self.record_gc_move(lpn, new.into()));
    }

    /// Makes the moves that [`Mapping::record_gc_move`] recorded durable, if the L2P map keeps its entries in NVRAM.
    /// Must be called before an erase, and before any other operation that needs the new locations to be durable.
    ///
    /// # Errors
    /// Power loss.
    fn store_gc_moves_in_nvram(&mut self, _: &mut FlashPageStore) -> Result<()> {
        Ok(())
    }

    /// Returns whether the NVRAM of the L2P map has room for the entries of only a few more moved pages, so that
    /// translation pages should be written before GC collects the next block.
    fn is_nvram_nearly_full(&self) -> bool {
        false
    }

    /// Prefetches into the processor's cache the map entries of `lpns`, which are about to be relocated, so that their
    /// cache misses overlap.
    fn prefetch(&self, lpns: &[Lpn]);

    /// Returns whether `ppn` holds the current version of the map's metadata page `id` (a translation page, for
    /// example).
    fn holds_current_metadata_page(&self, id: u32, ppn: Ppn) -> bool;

    /// Records that GC moved the map's metadata page `id` to `new`.
    fn record_metadata_page_move(&mut self, id: u32, new: Ppn);

    /// Executes deferred work of the L2P map (evictions, checkpoints, journal) until one metadata page is written;
    /// returns `false` if no work is left.
    ///
    /// # Errors
    /// Any error of the flash.
    fn execute_next_deferred_map_write(&mut self, io: &mut FlashPageStore) -> Result<bool>;

    /// Returns whether any change of the L2P map exists only in RAM. O(metadata pages) at worst.
    fn has_unwritten_changes(&self) -> bool;

    /// Writes one metadata page with changes of the L2P map that exist only in RAM (battery flush, shutdown); returns
    /// `false` once all are on flash.
    ///
    /// # Errors
    /// Any error of the flash.
    fn write_back_step(&mut self, io: &mut FlashPageStore) -> Result<bool>;

    /// Returns the maximum number of metadata pages that one lookup, update or
    /// [`Mapping::execute_next_deferred_map_write`] of the L2P map may append.
    fn max_metadata_pages_per_access(&self) -> u32;

    /// Returns the maximum number of flash pages that the metadata of the L2P map occupies.
    fn max_metadata_pages(&self) -> u64;

    /// Returns the bytes of controller RAM that the L2P map needs, one pair of name and bytes per data structure.
    fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)>;
}

/// L2P map of a device; the variant is chosen when the device is built.
#[derive(Clone, Debug)]
pub enum AnyMapping {
    /// The whole L2P table is in RAM.
    Flat(RamMap),
    /// The L2P table is on flash in translation pages, with a cache of entries in RAM (DFTL, GeckoFTL).
    Cached(Box<DemandPagedMap>),
    /// The L2P table is on flash with a cache of entries in RAM, and a journal on flash records every change
    /// (Delta-FTL).
    Journalled(Box<JournalledMap>),
}

/// Evaluates `$call` for the map that an `AnyMapping` holds, named `$mapping`.
macro_rules! delegate {
    ($self:ident, $mapping:ident => $call:expr) => {
        match $self {
            AnyMapping::Flat($mapping) => $call,
            AnyMapping::Cached($mapping) => $call,
            AnyMapping::Journalled($mapping) => $call,
        }
    };
}

impl AnyMapping {
    /// Returns the location of `lpn` if the L2P map can find it without a flash read; `None` if not, or if `lpn` is
    /// unmapped. A map on flash finds the cached entries; the entry that the last update changed is always among them.
    #[inline]
    pub(crate) fn lookup_in_ram(&self, lpn: Lpn) -> Option<StoredUnit> {
        match self {
            Self::Flat(map) => map.get(lpn),
            Self::Cached(map) => map.cached_unit(lpn).and_then(OptionalAddress::to_option),
            Self::Journalled(map) => {
                map.demand_paged_map().cached_unit(lpn).and_then(OptionalAddress::to_option)
            }
        }
    }

    /// Returns the demand-paged map (table on flash, cache of entries in RAM); `None` if the whole L2P table is in RAM.
    pub fn as_demand_paged(&self) -> Option<&DemandPagedMap> {
        match self {
            Self::Flat(_) => None,
            Self::Cached(map) => Some(map),
            Self::Journalled(map) => Some(map.demand_paged_map()),
        }
    }

    /// Returns the demand-paged map (table on flash, cache of entries in RAM) for changes; `None` if the whole L2P
    /// table is in RAM.
    pub(crate) fn as_demand_paged_mut(&mut self) -> Option<&mut DemandPagedMap> {
        match self {
            Self::Flat(_) => None,
            Self::Cached(map) => Some(map),
            Self::Journalled(map) => Some(map.demand_paged_map_mut()),
        }
    }
}

impl Mapping for AnyMapping {
    #[inline]
    fn lookup(&mut self, io: &mut FlashPageStore, lpn: Lpn) -> Result<Option<StoredUnit>> {
        delegate!(self, m => m.lookup(io, lpn))
    }
    fn lookup_without_caching(&mut self, io: &mut FlashPageStore, lpn: Lpn) -> Result<Option<StoredUnit>> {
        delegate!(self, m => m.lookup_without_caching(io, lpn))
    }
    #[inline]
    fn update(
        &mut self,
        io: &mut FlashPageStore,
        lpn: Lpn,
        new: Option<StoredUnit>,
    ) -> Result<Option<StoredUnit>> {
        delegate!(self, m => m.update(io, lpn, new))
    }
    #[inline]
    fn record_gc_move(&mut self, lpn: Lpn, new: StoredUnit) {
        delegate!(self, m => m.record_gc_move(lpn, new));
    }
    fn record_gc_moves(&mut self, lpns: &[Lpn], new: &[Ppn]) {
        delegate!(self, m => m.record_gc_moves(lpns, new));
    }
    #[inline]
    fn store_gc_moves_in_nvram(&mut self, io: &mut FlashPageStore) -> Result<()> {
        delegate!(self, m => m.store_gc_moves_in_nvram(io))
    }
    #[inline]
    fn is_nvram_nearly_full(&self) -> bool {
        delegate!(self, m => m.is_nvram_nearly_full())
    }
    #[inline]
    fn prefetch(&self, lpns: &[Lpn]) {
        delegate!(self, m => m.prefetch(lpns));
    }
    fn begin_trim(&mut self, first: Lpn, last: Lpn) {
        delegate!(self, m => m.begin_trim(first, last));
    }
    fn end_trim(&mut self) {
        delegate!(self, m => m.end_trim());
    }
    fn identifies_invalid_pages_late(&self) -> bool {
        delegate!(self, m => m.identifies_invalid_pages_late())
    }
    fn trim_in_one_translation_page(
        &mut self,
        io: &mut FlashPageStore,
        first: Lpn,
        last: Lpn,
    ) -> Result<Option<Lpn>> {
        delegate!(self, m => m.trim_in_one_translation_page(io, first, last))
    }
    #[inline]
    fn is_unidentified_invalid_page(&self, lpn: Lpn, ppn: Ppn) -> bool {
        delegate!(self, m => m.is_unidentified_invalid_page(lpn, ppn))
    }
    fn clear_unidentified_invalid_page_flag(&mut self, lpn: Lpn) {
        delegate!(self, m => m.clear_unidentified_invalid_page_flag(lpn));
    }
    fn holds_current_metadata_page(&self, id: u32, ppn: Ppn) -> bool {
        delegate!(self, m => m.holds_current_metadata_page(id, ppn))
    }
    fn record_metadata_page_move(&mut self, id: u32, new: Ppn) {
        delegate!(self, m => m.record_metadata_page_move(id, new));
    }
    #[inline]
    fn execute_next_deferred_map_write(&mut self, io: &mut FlashPageStore) -> Result<bool> {
        delegate!(self, m => m.execute_next_deferred_map_write(io))
    }
    fn has_unwritten_changes(&self) -> bool {
        delegate!(self, m => m.has_unwritten_changes())
    }
    fn write_back_step(&mut self, io: &mut FlashPageStore) -> Result<bool> {
        delegate!(self, m => m.write_back_step(io))
    }
    #[inline]
    fn max_metadata_pages_per_access(&self) -> u32 {
        delegate!(self, m => m.max_metadata_pages_per_access())
    }
    fn max_metadata_pages(&self) -> u64 {
        delegate!(self, m => m.max_metadata_pages())
    }
    fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        delegate!(self, m => m.ram_bytes_by_structure())
    }
}
