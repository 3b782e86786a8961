//! How many logical pages refer to a page?
//!
//! Nearly all stored pages have one referrer, so both forms keep only what goes beyond it: programming a page needs no
//! access here. A dense table of four bits per page (Remap-SSD, section 4.6) costs half a byte per page and one access
//! per release; a sparse map costs memory only for shared units and also counts members of compressed chunks, whose
//! numbers lie above the pages. Counts saturate at [`MAX_REFERRERS`]: one more bind must become a write.
//!
//! Invariant: a unit that nobody refers to counts zero extra referrers.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::address::Unit;
use crate::tables::Table;

/// The most logical pages that one unit may serve.
pub const MAX_REFERRERS: u32 = 15;

/// Which form of counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RefsPart {
    /// Four bits per physical page.
    #[default]
    Dense,
    /// Only units with two referrers or more.
    Sparse,
}

/// Reference counts beyond the first.
#[derive(Clone, Debug)]
pub struct Refs {
    /// Two pages per byte; empty if sparse.
    dense: Table<u8>,
    sparse: HashMap<Unit, u8, FxBuildHasher>,
    pages: u32,
}

impl Refs {
    /// Counts for `pages` physical pages, all with one referrer or none.
    pub fn new(part: RefsPart, pages: u64) -> Self {
        let dense_pages = if part == RefsPart::Dense { pages } else { 0 };
        Self {
            dense: Table::zeroed(dense_pages.div_ceil(2) as usize),
            sparse: HashMap::default(),
            pages: dense_pages as u32,
        }
    }

    /// Referrers of `unit` beyond the first.
    #[inline]
    pub fn extra(&self, unit: Unit) -> u32 {
        if unit.0 < self.pages {
            return (self.dense.get(unit.index() / 2) >> Self::shift(unit) & 15) as u32;
        }
        self.sparse.get(&unit).map_or(0, |&extra| extra as u32)
    }

    #[inline]
    fn shift(unit: Unit) -> u32 {
        4 * (unit.0 & 1)
    }

    /// Whether `unit` can serve one more logical page.
    #[inline]
    pub fn has_room(&self, unit: Unit) -> bool {
        self.extra(unit) + 1 < MAX_REFERRERS
    }

    /// One more logical page refers to `unit`, which has one already.
    #[inline]
    pub fn up(&mut self, unit: Unit) {
        assert!(self.has_room(unit), "unit {unit} has {MAX_REFERRERS} referrers already");
        self.set(unit, self.extra(unit) + 1);
    }

    /// A logical page no longer refers to `unit`; `true` if another still does.
    #[inline]
    pub fn down(&mut self, unit: Unit) -> bool {
        let extra = self.extra(unit);
        if extra > 0 {
            self.set(unit, extra - 1);
        }
        extra > 0
    }

    /// The content of `from` is at `to` now.
    #[inline]
    pub fn relocate(&mut self, from: Unit, to: Unit) {
        let extra = self.extra(from);
        if extra > 0 {
            self.set(from, 0);
            self.set(to, extra);
        }
    }

    fn set(&mut self, unit: Unit, extra: u32) {
        if unit.0 < self.pages {
            let shift = Self::shift(unit);
            let byte = self.dense.get(unit.index() / 2);
            self.dense.set(unit.index() / 2, byte & !(15 << shift) | (extra as u8) << shift);
        } else if extra == 0 {
            self.sparse.remove(&unit);
        } else {
            self.sparse.insert(unit, extra as u8);
        }
    }

    /// Everything has one referrer or none again.
    pub fn clear(&mut self) {
        self.dense = Table::zeroed(self.dense.len());
        self.sparse.clear();
    }

    /// Bytes a controller holds: half a byte per page, or about six per shared unit.
    pub fn ram_bytes(&self) -> u64 {
        self.dense.len() as u64 + 6 * self.sparse.len() as u64
    }
}
