//! The whole L2P table in RAM: four bytes per logical page, one random access per operation, no flash traffic.

use super::Mapping;
use crate::address::{Address, Lpn, Ppn, Unit};
use crate::error::Result;
use crate::nand::Nand;
use crate::store::Store;
use crate::table::Table;

/// Flat L2P table.
#[derive(Clone, Debug)]
pub struct Flat {
    table: Table<u32>,
}

impl Flat {
    /// A table of `pages` unmapped pages.
    pub fn new(pages: u32) -> Self {
        Self { table: Table::filled(pages as usize, Unit::NONE.0) }
    }

    /// The place of `lpn`.
    #[inline]
    pub fn get(&self, lpn: Lpn) -> Option<Unit> {
        Unit(self.table.get(lpn.index())).some()
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
    fn update<N: Nand>(&mut self, _: &mut Store<N>, lpn: Lpn, new: Option<Unit>) -> Result<Option<Unit>> {
        Ok(Unit(self.table.replace(lpn.index(), new.unwrap_or(Unit::NONE).0)).some())
    }

    #[inline]
    fn relocate(&mut self, lpn: Lpn, new: Unit) {
        self.table.set(lpn.index(), new.0);
    }

    #[inline]
    fn warm(&self, lpns: &[Lpn]) -> u64 {
        lpns.iter().map(|lpn| self.table.get(lpn.index()) as u64).sum()
    }

    fn owns(&self, _: u32, _: Ppn) -> bool {
        false
    }

    fn relocate_own(&mut self, id: u32, _: Ppn) {
        unreachable!("a flat table has no page {id} on flash")
    }

    #[inline]
    fn settle<N: Nand>(&mut self, _: &mut Store<N>) -> Result<bool> {
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
