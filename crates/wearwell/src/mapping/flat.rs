//! The whole L2P table in RAM: four bytes per logical page, one random access per operation, no flash traffic.
//!
//! With a *mirror*, every change is also an 8-byte store to a copy of the table in NVRAM, so that the map survives without
//! its RAM. A page that garbage collection moved is stored a little later ([`Mapping::store_moves`]), but before anything
//! can take the place of the old copy: until then either place holds the same content.

use super::Mapping;
use crate::address::{Address, Lpn, Ppn, Unit};
use crate::error::{Error, Result};
use crate::nand::Nand;
use crate::store::Store;
use crate::tables::Table;
use crate::tables::prefetch::touch_all;

/// Flat L2P table.
#[derive(Clone, Debug)]
pub struct Flat {
    table: Table<u32>,
    mirror: Option<Mirror>,
}

/// The copy of a table in NVRAM: word `first_word + lpn` is the place of `lpn` plus one, 0 = none.
#[derive(Clone, Debug)]
struct Mirror {
    first_word: usize,
    /// Logical pages that moved since their words were stored.
    moved: Vec<Lpn>,
}

impl Flat {
    /// A table of `pages` unmapped pages.
    pub fn new(pages: u32) -> Self {
        Self { table: Table::filled(pages as usize, Unit::NONE.0), mirror: None }
    }

    /// A table whose copy lies in NVRAM from `first_word` on.
    ///
    /// # Errors
    /// [`Error::Options`] if the medium has too little NVRAM.
    pub(crate) fn mirrored<N: Nand>(io: &Store<N>, pages: u32, first_word: usize) -> Result<Self> {
        let (needed, present) = (first_word + pages as usize, io.nvram().len());
        if present < needed {
            return Err(Error::Options(format!(
                "the map needs {needed} words of NVRAM of 8 bytes, the medium has {present}"
            )));
        }
        Ok(Self { mirror: Some(Mirror { first_word, moved: Vec::new() }), ..Self::new(pages) })
    }

    /// Takes the table over from its copy in NVRAM. `is_place` says whether a word can be a place at all.
    ///
    /// # Errors
    /// [`Error::Damaged`] for a word that cannot.
    pub(crate) fn reload<N: Nand>(&mut self, io: &Store<N>, is_place: impl Fn(Unit) -> bool) -> Result<()> {
        let mirror = self.mirror.as_mut().expect("only a mirrored table is reloaded");
        mirror.moved.clear();
        let words = &io.nvram()[mirror.first_word..];
        for (lpn, &word) in words.iter().take(self.table.len()).enumerate() {
            let unit = match word.checked_sub(1) {
                None => Unit::NONE,
                Some(unit) => {
                    u32::try_from(unit).ok().map(Unit).filter(|&unit| is_place(unit)).ok_or_else(|| {
                        Error::Damaged(format!(
                            "the map in NVRAM gives logical page {lpn} the place {unit}, which is none"
                        ))
                    })?
                }
            };
            self.table.set(lpn, unit.0);
        }
        Ok(())
    }

    fn store<N: Nand>(&self, io: &mut Store<N>, lpn: Lpn, place: Option<Unit>) -> Result<()> {
        match &self.mirror {
            Some(mirror) => {
                io.store_word(mirror.first_word + lpn.index(), place.map_or(0, |unit| unit.0 as u64 + 1))
            }
            None => Ok(()),
        }
    }

    /// The place of `lpn`.
    #[inline]
    pub fn get(&self, lpn: Lpn) -> Option<Unit> {
        Unit(self.table.get(lpn.index())).some()
    }

    /// Whether an update stores something elsewhere, too.
    pub(crate) fn is_mirrored(&self) -> bool {
        self.mirror.is_some()
    }

    /// Gives each of `lpns` its place in `units`, in order, and leaves the one before there. Of a table without a mirror.
    #[inline]
    pub(crate) fn exchange(&mut self, lpns: &[Lpn], units: &mut [Unit]) {
        let places = lpns.iter().zip(units).map(|(lpn, unit)| (lpn.index(), &mut unit.0));
        self.table.exchange_all(places);
    }

    /// Stores a place; recovery and direct construction use it.
    pub fn set(&mut self, lpn: Lpn, ppn: Option<Unit>) {
        self.table.set(lpn.index(), ppn.unwrap_or(Unit::NONE).0);
    }
}

impl Mapping for Flat {
    #[inline]
    fn lookup<N: Nand>(&mut self, _: &mut Store<N>, lpn: Lpn) -> Result<Option<Unit>> {
        Ok(self.get(lpn))
    }

    fn peek<N: Nand>(&mut self, _: &mut Store<N>, lpn: Lpn) -> Result<Option<Unit>> {
        Ok(self.get(lpn))
    }

    #[inline]
    fn update<N: Nand>(&mut self, io: &mut Store<N>, lpn: Lpn, new: Option<Unit>) -> Result<Option<Unit>> {
        if self.get(lpn) != new {
            self.store(io, lpn, new)?;
        }
        Ok(Unit(self.table.replace(lpn.index(), new.unwrap_or(Unit::NONE).0)).some())
    }

    #[inline]
    fn relocate(&mut self, lpn: Lpn, new: Unit) {
        self.table.set(lpn.index(), new.0);
        if let Some(mirror) = &mut self.mirror {
            mirror.moved.push(lpn);
        }
    }

    fn relocate_all(&mut self, lpns: &[Lpn], new: &[Ppn]) {
        self.prefetch(lpns);
        self.table.set_all(lpns.iter().zip(new).map(|(lpn, ppn)| (lpn.index(), ppn.0)));
        if let Some(mirror) = &mut self.mirror {
            mirror.moved.extend_from_slice(lpns);
        }
    }

    fn store_moves<N: Nand>(&mut self, io: &mut Store<N>) -> Result<()> {
        while let Some(&lpn) = self.mirror.as_ref().and_then(|mirror| mirror.moved.last()) {
            self.store(io, lpn, self.get(lpn))?;
            self.mirror.as_mut().expect("asked above").moved.pop();
        }
        Ok(())
    }

    #[inline]
    fn prefetch(&self, lpns: &[Lpn]) {
        touch_all(self.table.get_all(lpns.iter().map(|lpn| lpn.index())).map(u64::from));
    }

    fn owns(&self, _: u32, _: Ppn) -> bool {
        false
    }

    fn relocate_own(&mut self, id: u32, _: Ppn) {
        unreachable!("a flat table has no page {id} on flash")
    }

    #[inline]
    fn write_deferred<N: Nand>(&mut self, _: &mut Store<N>) -> Result<bool> {
        Ok(false)
    }

    fn has_unwritten(&self) -> bool {
        false
    }

    fn write_back<N: Nand>(&mut self, _: &mut Store<N>) -> Result<bool> {
        Ok(false)
    }

    #[inline]
    fn pages_per_update(&self) -> u32 {
        0
    }

    fn metadata_pages(&self) -> u64 {
        0
    }

    fn ram_bytes(&self) -> Vec<(&'static str, u64)> {
        vec![("l2p table", self.table.len() as u64 * 4)]
    }
}
