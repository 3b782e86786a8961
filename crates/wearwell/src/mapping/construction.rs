//! The whole map in RAM, while a device with a map on flash is built in a known initial state: locations are set in
//! random order, and each translation page shall be written only once.
//!
//! While the translation pages are written, the map exists both in this table and in the simulated flash. To limit the
//! peak memory of a run, there is one table per range of LPNs, which is freed as soon as its translation pages are
//! written. The price is one more step per access to an entry.

use crate::address::{Lpn, OptionalAddress, StoredUnit};
use crate::tables::DenseTable;
use crate::tables::prefetch::load_into_cpu_cache;

/// Binary logarithm of the number of map entries per part of [`InitialStateMap`]. A part has 4 MiB, large enough that
/// freeing it returns the memory to the operating system.
const MAP_ENTRIES_PER_TABLE_LOG2: u32 = 20;

/// The whole L2P map in RAM while the initial state of a drive is constructed (pages are placed without executing
/// writes). There is one table per range of LPNs, which is freed as soon as its translation pages are written.
#[derive(Clone, Debug)]
pub(super) struct InitialStateMap {
    /// Locations of the logical pages, in one table per range of LPNs. The ranges have equal length; a table is empty
    /// once it is freed.
    map_tables_by_lpn_range: Vec<DenseTable<u32>>,
}

impl InitialStateMap {
    /// Creates an L2P map in RAM of `logical_pages` logical pages, all unmapped.
    pub(super) fn new(logical_pages: u32) -> Self {
        let starts = (0..logical_pages).step_by(1 << MAP_ENTRIES_PER_TABLE_LOG2);
        let len = |start: u32| (logical_pages - start).min(1 << MAP_ENTRIES_PER_TABLE_LOG2) as usize;
        Self {
            map_tables_by_lpn_range: starts
                .map(|start| DenseTable::filled(len(start), StoredUnit::NONE.0))
                .collect(),
        }
    }

    /// Returns the index of the map part that holds the entry of `lpn`, and the index of the entry in the part.
    #[inline]
    fn map_table_and_index_of(lpn: Lpn) -> (usize, usize) {
        (
            (lpn.0 >> MAP_ENTRIES_PER_TABLE_LOG2) as usize,
            (lpn.0 & ((1 << MAP_ENTRIES_PER_TABLE_LOG2) - 1)) as usize,
        )
    }

    /// Returns the location of `lpn`; [`StoredUnit::NONE`] if it is unmapped.
    #[inline]
    pub(super) fn get(&self, lpn: Lpn) -> StoredUnit {
        let (part, at) = Self::map_table_and_index_of(lpn);
        StoredUnit(self.map_tables_by_lpn_range[part].get(at))
    }

    /// Maps `lpn` to `unit` and returns the old location.
    #[inline]
    pub(super) fn replace(&mut self, lpn: Lpn, unit: StoredUnit) -> StoredUnit {
        let (part, at) = Self::map_table_and_index_of(lpn);
        StoredUnit(self.map_tables_by_lpn_range[part].replace(at, unit.0))
    }

    /// Prefetches the L2P entries of `lpns`, to which locations are about to be assigned, so that cache misses overlap
    /// ([`crate::tables::prefetch`]).
    pub(super) fn prefetch(&self, lpns: &[Lpn]) {
        load_into_cpu_cache(lpns.iter().map(|&lpn| self.get(lpn).0.into()));
    }

    /// Frees the memory of the last table whose range of LPNs lies entirely before `lpn`. The logical pages of this
    /// range are not accessed again.
    pub(super) fn free_map_table_before(&mut self, lpn: Lpn) {
        let (part, _) = Self::map_table_and_index_of(lpn);
        if let Some(before) = part.checked_sub(1) {
            self.map_tables_by_lpn_range[before] = DenseTable::zeroed(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_of_an_initial_drive_state_keeps_entries_until_their_table_is_freed() {
        let pages = (2 << MAP_ENTRIES_PER_TABLE_LOG2) + 5;
        let mut map = InitialStateMap::new(pages);
        let lpns = [
            0,
            (1 << MAP_ENTRIES_PER_TABLE_LOG2) - 1,
            1 << MAP_ENTRIES_PER_TABLE_LOG2,
            2 << MAP_ENTRIES_PER_TABLE_LOG2,
            pages - 1,
        ]
        .map(Lpn);
        for lpn in lpns {
            assert_eq!(map.replace(lpn, StoredUnit(lpn.0 + 7)), StoredUnit::NONE);
        }
        for lpn in lpns {
            map.free_map_table_before(lpn);
            assert_eq!(map.get(lpn), StoredUnit(lpn.0 + 7));
        }
        assert_eq!(map.map_tables_by_lpn_range.iter().map(DenseTable::len).collect::<Vec<_>>(), [0, 0, 5]);
    }
}
