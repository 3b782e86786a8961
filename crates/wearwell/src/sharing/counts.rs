//! Reference counts: how many logical pages refer to a stored unit (a flash page, or a member of a compressed chunk).
//!
//! There are two forms: a dense table and a sparse map. Nearly all stored pages have one referrer, so both forms store
//! only the referrers beyond the first: programming a page needs no access here. The dense table has four bits per page
//! (Remap-SSD, section 4.6). It costs half a byte per page, and one access when a logical page stops referring to a
//! page. The sparse map costs memory only for units with several referrers. It also counts members of compressed
//! chunks, whose numbers are greater than the last page number. Counts are limited to [`MAX_REFERRERS`]. If a unit has
//! as many referrers, a further page of equal content must be written instead of mapped to it.
//!
//! Invariant: a unit without referrers counts zero extra referrers.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::address::StoredUnit;
use crate::tables::DenseTable;

/// Maximum number of logical pages that may be mapped to one unit (a physical page or a member of a compressed chunk).
pub const MAX_REFERRERS: u32 = 15;

/// Form in which reference counts (logical pages per stored page) are kept in RAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReferenceCountForm {
    /// Reference counts are in a table of four bits for each physical page.
    #[default]
    Dense,
    /// Reference counts are in a hash map that holds only units (physical pages or members of compressed chunks) with
    /// at least two referrers.
    Sparse,
}

/// Reference counts: for each unit (a physical page or a member of a compressed chunk), the number of logical pages
/// mapped to it, less the first.
#[derive(Clone, Debug)]
pub struct ReferenceCounts {
    /// For each physical page, the number of its referrers (logical pages mapped to it) beyond the first, four bits per
    /// page, two pages per byte; empty in the sparse form.
    extra_referrers_by_page: DenseTable<u8>,
    /// For each unit that has at least two referrers (logical pages mapped to it) and is not in the dense table: the
    /// number of its referrers beyond the first.
    extra_referrers_by_unit: HashMap<StoredUnit, u8, FxBuildHasher>,
    /// Number of physical pages whose referrers are counted in the dense table (array of four bits per page); 0 in the
    /// sparse form.
    pages_in_dense_table: u32,
}

impl ReferenceCounts {
    /// Creates reference counts for `pages` physical pages, each with at most one referrer (logical page mapped to it).
    pub fn new(form: ReferenceCountForm, pages: u64) -> Self {
        let dense_pages = if form == ReferenceCountForm::Dense { pages } else { 0 };
        Self {
            extra_referrers_by_page: DenseTable::zeroed(dense_pages.div_ceil(2) as usize),
            extra_referrers_by_unit: HashMap::default(),
            pages_in_dense_table: dense_pages as u32,
        }
    }

    /// Returns the number of referrers of `unit` (logical pages mapped to it) beyond the first.
    #[inline]
    pub fn referrers_beyond_first(&self, unit: StoredUnit) -> u32 {
        if unit.0 < self.pages_in_dense_table {
            return (self.extra_referrers_by_page.get(unit.index() / 2) >> Self::bit_offset_in_byte(unit) & 15)
                as u32;
        }
        self.extra_referrers_by_unit.get(&unit).map_or(0, |&extra| extra as u32)
    }

    /// Returns the position of the four bits of `unit` in its byte of the dense table.
    #[inline]
    fn bit_offset_in_byte(unit: StoredUnit) -> u32 {
        4 * (unit.0 & 1)
    }

    /// Returns whether one more logical page may be mapped to `unit`, that is, whether the unit has fewer than
    /// [`MAX_REFERRERS`] referrers.
    #[inline]
    pub fn can_add_referrer(&self, unit: StoredUnit) -> bool {
        self.referrers_beyond_first(unit) + 1 < MAX_REFERRERS
    }

    /// Counts one more logical page that is mapped to `unit`, which has at least one referrer already.
    #[inline]
    pub fn add_referrer(&mut self, unit: StoredUnit) {
        assert!(self.can_add_referrer(unit), "unit {unit} has {MAX_REFERRERS} referrers already");
        self.set_extra_referrers(unit, self.referrers_beyond_first(unit) + 1);
    }

    /// Decrements the number of logical pages that are mapped to `unit` (physical page or chunk member). Returns `true`
    /// if the number is still above zero.
    #[inline]
    pub fn remove_referrer_and_check_others_remain(&mut self, unit: StoredUnit) -> bool {
        let extra = self.referrers_beyond_first(unit);
        if extra > 0 {
            self.set_extra_referrers(unit, extra - 1);
        }
        extra > 0
    }

    /// Moves the reference count of the unit (physical page or chunk member) `from` to the unit `to`, after GC moved
    /// the content.
    #[inline]
    pub fn move_reference_count(&mut self, from: StoredUnit, to: StoredUnit) {
        let extra = self.referrers_beyond_first(from);
        if extra > 0 {
            self.set_extra_referrers(from, 0);
            self.set_extra_referrers(to, extra);
        }
    }

    /// Sets the number of referrers of `unit` beyond the first, in the dense table or in the hash map.
    fn set_extra_referrers(&mut self, unit: StoredUnit, extra: u32) {
        if unit.0 < self.pages_in_dense_table {
            let shift = Self::bit_offset_in_byte(unit);
            let byte = self.extra_referrers_by_page.get(unit.index() / 2);
            self.extra_referrers_by_page
                .set(unit.index() / 2, byte & !(15 << shift) | (extra as u8) << shift);
        } else if extra == 0 {
            self.extra_referrers_by_unit.remove(&unit);
        } else {
            self.extra_referrers_by_unit.insert(unit, extra as u8);
        }
    }

    /// Resets all reference counts to at most one referrer (logical page) per unit.
    pub fn clear(&mut self) {
        self.extra_referrers_by_page = DenseTable::zeroed(self.extra_referrers_by_page.len());
        self.extra_referrers_by_unit.clear();
    }

    /// Returns the bytes of controller RAM of the reference counts in the sparse form (hash map), about six per unit
    /// with several referrers; 0 in the dense form.
    pub(crate) fn sparse_ram_bytes(&self) -> u64 {
        6 * self.extra_referrers_by_unit.len() as u64
    }

    /// Returns the bytes of controller RAM that the reference counts take: half a byte per physical page in the dense
    /// form, about six bytes per shared unit in the sparse form.
    pub fn ram_bytes(&self) -> u64 {
        self.extra_referrers_by_page.len() as u64 + self.sparse_ram_bytes()
    }
}
