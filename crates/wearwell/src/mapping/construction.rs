//! The whole of a map on flash, while a device is built in a known state: places come in random order, and a translation
//! page shall be written once.
//!
//! When they are written the map would be there twice, which was the most memory that a run took. So the table is in parts,
//! and each is given back as soon as its translation pages are written; the price is one more step to an entry.

use crate::address::{Address, Lpn, Unit};
use crate::tables::Table;
use crate::tables::prefetch::touch_all;

/// Entries of a part, as a power of two: four megabytes, which the system takes back whole.
const PART_LOG2: u32 = 20;

/// Places by logical page. See the module's head.
#[derive(Clone, Debug)]
pub(super) struct Construction {
    parts: Vec<Table<u32>>,
}

impl Construction {
    /// A map of so many logical pages that maps nothing.
    pub(super) fn new(logical_pages: u32) -> Self {
        let starts = (0..logical_pages).step_by(1 << PART_LOG2);
        let len = |start: u32| (logical_pages - start).min(1 << PART_LOG2) as usize;
        Self { parts: starts.map(|start| Table::filled(len(start), Unit::NONE.0)).collect() }
    }

    #[inline]
    fn split(lpn: Lpn) -> (usize, usize) {
        ((lpn.0 >> PART_LOG2) as usize, (lpn.0 & ((1 << PART_LOG2) - 1)) as usize)
    }

    #[inline]
    pub(super) fn get(&self, lpn: Lpn) -> Unit {
        let (part, at) = Self::split(lpn);
        Unit(self.parts[part].get(at))
    }

    #[inline]
    pub(super) fn replace(&mut self, lpn: Lpn, unit: Unit) -> Unit {
        let (part, at) = Self::split(lpn);
        Unit(self.parts[part].replace(at, unit.0))
    }

    /// Reads what giving `lpns` places will need; see [`crate::tables::prefetch`].
    pub(super) fn prefetch(&self, lpns: &[Lpn]) {
        touch_all(lpns.iter().map(|&lpn| self.get(lpn).0.into()));
    }

    /// Logical pages before `lpn` will not be asked for again.
    pub(super) fn give_back_before(&mut self, lpn: Lpn) {
        let (part, _) = Self::split(lpn);
        if let Some(before) = part.checked_sub(1) {
            self.parts[before] = Table::zeroed(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back_from_every_part_and_go_part_by_part() {
        let pages = (2 << PART_LOG2) + 5;
        let mut map = Construction::new(pages);
        let lpns = [0, (1 << PART_LOG2) - 1, 1 << PART_LOG2, 2 << PART_LOG2, pages - 1].map(Lpn);
        for lpn in lpns {
            assert_eq!(map.replace(lpn, Unit(lpn.0 + 7)), Unit::NONE);
        }
        for lpn in lpns {
            map.give_back_before(lpn);
            assert_eq!(map.get(lpn), Unit(lpn.0 + 7));
        }
        assert_eq!(map.parts.iter().map(Table::len).collect::<Vec<_>>(), [0, 0, 5]);
    }
}
