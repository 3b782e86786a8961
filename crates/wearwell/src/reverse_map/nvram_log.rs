//! TODO

use super::{BlockId, Entry, Lpn, Needed, Ppn, ReverseMap};
use crate::error::Result;
use crate::nand::Nand;
use crate::store::Store;

/// TODO
#[derive(Clone, Debug)]
pub struct NvramLog {}

impl NvramLog {
    /// TODO
    ///
    /// # Errors
    /// TODO
    pub fn new<N: Nand>(_: &Store<N>, _: u64) -> Result<Self> {
        todo!()
    }
}

impl ReverseMap for NvramLog {
    fn admit<N: Nand>(&mut self, _: &mut Store<N>, _: Needed<'_>) -> Result<bool> {
        todo!()
    }
    fn record<N: Nand>(&mut self, _: &mut Store<N>, _: Entry, _: Needed<'_>) -> Result<()> {
        todo!()
    }
    fn supersede<N: Nand>(&mut self, _: &mut Store<N>, _: Lpn, _: Ppn) {
        todo!()
    }
    fn entries_of<N: Nand>(&mut self, _: &mut Store<N>, _: BlockId, _: &mut Vec<Entry>) -> Result<()> {
        todo!()
    }
    fn erased<N: Nand>(&mut self, _: &mut Store<N>, _: BlockId) -> Result<()> {
        todo!()
    }
    fn recover<N: Nand>(&mut self, _: &mut Store<N>) -> Result<Vec<Entry>> {
        todo!()
    }
    fn pages_per_record(&self) -> u32 {
        todo!()
    }
    fn metadata_pages(&self) -> u64 {
        todo!()
    }
    fn owns(&self, _: u32, _: Ppn) -> bool {
        todo!()
    }
    fn relocate_own(&mut self, _: u32, _: Ppn) {
        todo!()
    }
    fn ram_bytes(&self) -> Vec<(&'static str, u64)> {
        todo!()
    }
    fn check(&self) -> std::result::Result<(), String> {
        todo!()
    }
}
