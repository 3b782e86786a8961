//! Mapping with the whole L2P table in RAM: four bytes per logical page, one random access per operation, no flash
//! traffic.
//!
//! With a *mirror*, every change is also an 8-byte store to a copy of the table in NVRAM, so the map survives a loss of
//! RAM. The new location of a page that GC moved is stored a little later ([`Mapping::store_gc_moves_in_nvram`]), but
//! before the old copy can be erased or replaced. Until then both locations hold the same content.

use super::Mapping;
use crate::address::{Lpn, OptionalAddress, Ppn, StoredUnit};
use crate::error::{Error, Result};
use crate::store::FlashPageStore;
use crate::tables::DenseTable;
use crate::tables::prefetch::load_into_cpu_cache;

/// L2P table that is entirely in RAM, optionally with a copy in NVRAM.
#[derive(Clone, Debug)]
pub struct RamMap {
    /// Location of each logical page, by LPN; `u32::MAX` if it is unmapped.
    table: DenseTable<u32>,
    /// Copy of the table in NVRAM; `None` if the design has none.
    nvram_copy: Option<NvramCopy>,
}

/// Copy of an L2P table in NVRAM, one 8-byte word per logical page in the order of LPNs. A word holds the location of
/// its logical page plus one, or 0 if the logical page is unmapped.
#[derive(Clone, Debug)]
struct NvramCopy {
    /// Index of the first NVRAM word (8 bytes) that the copy of the L2P table occupies.
    first_nvram_word: usize,
    /// Logical pages that GC moved and whose words in NVRAM still hold the old location.
    lpns_with_stale_nvram_word: Vec<Lpn>,
}

impl RamMap {
    /// Creates an L2P table of `pages` unmapped logical pages in RAM, without a copy in NVRAM.
    pub fn new(pages: u32) -> Self {
        Self { table: DenseTable::filled(pages as usize, StoredUnit::NONE.0), nvram_copy: None }
    }

    /// Creates an L2P table of `pages` unmapped logical pages in RAM, with a copy in NVRAM from word (8 bytes)
    /// `first_nvram_word` on.
    ///
    /// # Errors
    /// [`Error::InvalidOptions`] if the medium has too little NVRAM.
    pub(crate) fn with_nvram_copy(io: &FlashPageStore, pages: u32, first_nvram_word: usize) -> Result<Self> {
        let needed_words = first_nvram_word + pages as usize;
        if io.nvram().len() < needed_words {
            return Err(Error::of_small_nvram("the L2P map", needed_words as u64 * 8, io.nvram().len()));
        }
        Ok(Self {
            nvram_copy: Some(NvramCopy { first_nvram_word, lpns_with_stale_nvram_word: Vec::new() }),
            ..Self::new(pages)
        })
    }

    /// Loads the L2P table in RAM from its copy in NVRAM, after a power loss. `is_place` tells whether a number is a
    /// possible location on this device.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a word holds an impossible location.
    pub(crate) fn reload_from_nvram(
        &mut self,
        io: &FlashPageStore,
        is_place: impl Fn(StoredUnit) -> bool,
    ) -> Result<()> {
        let mirror = self.nvram_copy.as_mut().expect("only a mirrored table is reloaded");
        mirror.lpns_with_stale_nvram_word.clear();
        let words = &io.nvram()[mirror.first_nvram_word..];
        for (lpn, &word) in words.iter().take(self.table.len()).enumerate() {
            let unit = match word.checked_sub(1) {
                None => StoredUnit::NONE,
                Some(unit) => {
                    u32::try_from(unit).ok().map(StoredUnit).filter(|&unit| is_place(unit)).ok_or_else(|| {
                        Error::Damaged(format!(
                            "the L2P map in NVRAM maps logical page {lpn} to location {unit}, which must be a flash \
                             page with data or a member of a compressed chunk, but is neither"
                        ))
                    })?
                }
            };
            self.table.set(lpn, unit.0);
        }
        Ok(())
    }

    /// Stores the location of `lpn` (`None` if it is unmapped) in the copy of the table in NVRAM, if there is one.
    fn store_in_nvram_copy(
        &self,
        io: &mut FlashPageStore,
        lpn: Lpn,
        place: Option<StoredUnit>,
    ) -> Result<()> {
        match &self.nvram_copy {
            Some(mirror) => io.store_nvram_word(
                mirror.first_nvram_word + lpn.index(),
                place.map_or(0, |unit| unit.0 as u64 + 1),
            ),
            None => Ok(()),
        }
    }

    /// Returns the location of `lpn` from the L2P table in RAM, `None` if it is unmapped.
    #[inline]
    pub fn get(&self, lpn: Lpn) -> Option<StoredUnit> {
        StoredUnit(self.table.get(lpn.index())).to_option()
    }

    /// Returns whether the L2P table has a copy in NVRAM, so that every update is also an NVRAM store.
    pub(crate) fn has_nvram_copy(&self) -> bool {
        self.nvram_copy.is_some()
    }

    /// Exchanges the locations `units` with those of `lpns` in the L2P table: each logical page gets the location at
    /// its index, and `units` then holds the old locations. Only for a table without a copy in NVRAM.
    #[inline]
    pub(crate) fn exchange_units(&mut self, lpns: &[Lpn], units: &mut [StoredUnit]) {
        let places = lpns.iter().zip(units).map(|(lpn, unit)| (lpn.index(), &mut unit.0));
        self.table.exchange_each(places);
    }

    /// Sets the location of `lpn` in the L2P table in RAM only, not in NVRAM (`None` = unmapped). For recovery and for
    /// drives whose initial state is constructed.
    pub fn set(&mut self, lpn: Lpn, ppn: Option<StoredUnit>) {
        self.table.set(lpn.index(), ppn.unwrap_or(StoredUnit::NONE).0);
    }
}

impl Mapping for RamMap {
    #[inline]
    fn lookup(&mut self, _: &mut FlashPageStore, lpn: Lpn) -> Result<Option<StoredUnit>> {
        Ok(self.get(lpn))
    }

    fn lookup_without_caching(&mut self, _: &mut FlashPageStore, lpn: Lpn) -> Result<Option<StoredUnit>> {
        Ok(self.get(lpn))
    }

    #[inline]
    fn update(
        &mut self,
        io: &mut FlashPageStore,
        lpn: Lpn,
        new: Option<StoredUnit>,
    ) -> Result<Option<StoredUnit>> {
        if self.get(lpn) != new {
            self.store_in_nvram_copy(io, lpn, new)?;
        }
        Ok(StoredUnit(self.table.replace(lpn.index(), new.unwrap_or(StoredUnit::NONE).0)).to_option())
    }

    #[inline]
    fn record_gc_move(&mut self, lpn: Lpn, new: StoredUnit) {
        self.table.set(lpn.index(), new.0);
        if let Some(mirror) = &mut self.nvram_copy {
            mirror.lpns_with_stale_nvram_word.push(lpn);
        }
    }

    fn record_gc_moves(&mut self, lpns: &[Lpn], new: &[Ppn]) {
        self.prefetch(lpns);
        self.table.set_each(lpns.iter().zip(new).map(|(lpn, ppn)| (lpn.index(), ppn.0)));
        if let Some(mirror) = &mut self.nvram_copy {
            mirror.lpns_with_stale_nvram_word.extend_from_slice(lpns);
        }
    }

    fn store_gc_moves_in_nvram(&mut self, io: &mut FlashPageStore) -> Result<()> {
        while let Some(&lpn) =
            self.nvram_copy.as_ref().and_then(|mirror| mirror.lpns_with_stale_nvram_word.last())
        {
            self.store_in_nvram_copy(io, lpn, self.get(lpn))?;
            self.nvram_copy.as_mut().expect("asked above").lpns_with_stale_nvram_word.pop();
        }
        Ok(())
    }

    #[inline]
    fn prefetch(&self, lpns: &[Lpn]) {
        load_into_cpu_cache(self.table.get_each(lpns.iter().map(|lpn| lpn.index())).map(u64::from));
    }

    fn holds_current_metadata_page(&self, _: u32, _: Ppn) -> bool {
        false
    }

    fn record_metadata_page_move(&mut self, id: u32, _: Ppn) {
        unreachable!("a flat table has no page {id} on flash")
    }

    #[inline]
    fn execute_next_deferred_map_write(&mut self, _: &mut FlashPageStore) -> Result<bool> {
        Ok(false)
    }

    fn has_unwritten_changes(&self) -> bool {
        false
    }

    fn write_back_step(&mut self, _: &mut FlashPageStore) -> Result<bool> {
        Ok(false)
    }

    #[inline]
    fn max_metadata_pages_per_access(&self) -> u32 {
        0
    }

    fn max_metadata_pages(&self) -> u64 {
        0
    }

    fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        vec![("l2p table", self.table.len() as u64 * 4)]
    }
}
