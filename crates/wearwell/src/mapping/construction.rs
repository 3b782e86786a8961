//! The whole map in RAM, while a device with a map on flash is built in a known state: locations are set in random
//! order, and each translation page shall be written only once.
//!
//! While the pages are written the map would exist twice, which was the peak memory of a run. So the table is in parts,
//! and each part is freed as soon as its translation pages are written. The price is one more step per access to an
//! entry.

use crate::address::{Lpn, OptionalAddress, Unit};
use crate::tables::DenseTable;
use crate::tables::prefetch::load_into_cpu_cache;

/// Binary logarithm of the number of map entries per part of [`ConstructionMap`]. A part has 4 MiB, large enough that
/// freeing it returns the memory to the operating system.
const MAP_ENTRIES_PER_PART_LOG2: u32 = 20;

/// The whole L2P map in RAM while the initial state of a drive is constructed (pages are placed without executing
/// writes). The locations are in parts, each of which is freed as soon as its translation pages are written.
#[derive(Clone, Debug)]
pub(super) struct ConstructionMap {
    /// Locations of the logical pages, by LPN, in parts of equal length; a part is empty once it is freed.
    map_parts: Vec<DenseTable<u32>>,
}

impl ConstructionMap {
    /// Creates an L2P map in RAM of `logical_pages` logical pages, all unmapped.
    pub(super) fn new(logical_pages: u32) -> Self {
        let starts = (0..logical_pages).step_by(1 << MAP_ENTRIES_PER_PART_LOG2);
        let len = |start: u32| (logical_pages - start).min(1 << MAP_ENTRIES_PER_PART_LOG2) as usize;
        Self { map_parts: starts.map(|start| DenseTable::filled(len(start), Unit::NONE.0)).collect() }
    }

    /// Returns the index of the map part that holds the entry of `lpn`, and the index of the entry in the part.
    #[inline]
    fn map_part_and_index_of(lpn: Lpn) -> (usize, usize) {
        (
            (lpn.0 >> MAP_ENTRIES_PER_PART_LOG2) as usize,
            (lpn.0 & ((1 << MAP_ENTRIES_PER_PART_LOG2) - 1)) as usize,
        )
    }

    /// Returns the location of `lpn`; [`Unit::NONE`] if it is unmapped.
    #[inline]
    pub(super) fn get(&self, lpn: Lpn) -> Unit {
        let (part, at) = Self::map_part_and_index_of(lpn);
        Unit(self.map_parts[part].get(at))
    }

    /// Maps `lpn` to `unit` and returns the old location.
    #[inline]
    pub(super) fn replace(&mut self, lpn: Lpn, unit: Unit) -> Unit {
        let (part, at) = Self::map_part_and_index_of(lpn);
        Unit(self.map_parts[part].replace(at, unit.0))
    }

    /// Prefetches the L2P entries of `lpns`, to which locations are about to be assigned, so that cache misses overlap
    /// ([`crate::tables::prefetch`]).
    pub(super) fn prefetch(&self, lpns: &[Lpn]) {
        load_into_cpu_cache(lpns.iter().map(|&lpn| self.get(lpn).0.into()));
    }

    /// Frees the memory of the last part of the L2P map in RAM that lies entirely before `lpn`. The logical pages of
    /// this part are not accessed again.
    pub(super) fn free_part_before(&mut self, lpn: Lpn) {
        let (part, _) = Self::map_part_and_index_of(lpn);
        if let Some(before) = part.checked_sub(1) {
            self.map_parts[before] = DenseTable::zeroed(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_construction_map_keeps_entries_until_their_part_is_freed() {
        let pages = (2 << MAP_ENTRIES_PER_PART_LOG2) + 5;
        let mut map = ConstructionMap::new(pages);
        let lpns = [
            0,
            (1 << MAP_ENTRIES_PER_PART_LOG2) - 1,
            1 << MAP_ENTRIES_PER_PART_LOG2,
            2 << MAP_ENTRIES_PER_PART_LOG2,
            pages - 1,
        ]
        .map(Lpn);
        for lpn in lpns {
            assert_eq!(map.replace(lpn, Unit(lpn.0 + 7)), Unit::NONE);
        }
        for lpn in lpns {
            map.free_part_before(lpn);
            assert_eq!(map.get(lpn), Unit(lpn.0 + 7));
        }
        assert_eq!(map.map_parts.iter().map(DenseTable::len).collect::<Vec<_>>(), [0, 0, 5]);
    }
}
