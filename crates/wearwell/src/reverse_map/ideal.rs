//! The reverse map one would wish for: every referrer at once, without limit.
//!
//! It stands for designs whose OOB can be rewritten, or which know all referrers in advance, and bounds what any real
//! part can reach (the paper's Opt). Entries live in RAM that survives loss of power; the price is not modelled.
//!
//! Invariant: an entry exists exactly while its bind is current; tombstones are not kept, as nothing is rebuilt.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::{BlockId, ENTRY_BYTES, Entry, Lpn, Needed, Ppn, ReverseMap};
use crate::error::Result;
use crate::nand::Nand;
use crate::store::Store;

/// Binders of each page.
#[derive(Clone, Debug, Default)]
pub struct Ideal {
    binders: HashMap<Ppn, Vec<(Lpn, u64)>, FxBuildHasher>,
    entries: u64,
}

impl Ideal {
    /// The entries that name a place.
    pub fn entries_at(&self, place: Ppn) -> Vec<Entry> {
        let entry = |&(lpn, sequence)| Entry { lpn, place: Some(place), source: None, sequence };
        self.binders.get(&place).map_or_else(Vec::new, |binders| binders.iter().map(entry).collect())
    }
}

impl ReverseMap for Ideal {
    fn admit<N: Nand>(&mut self, _: &mut Store<N>, _: Needed<'_>) -> Result<bool> {
        Ok(true)
    }

    fn record<N: Nand>(&mut self, _: &mut Store<N>, entry: Entry, _: Needed<'_>) -> Result<()> {
        if let Some(place) = entry.place {
            self.binders.entry(place).or_default().push((entry.lpn, entry.sequence));
            self.entries += 1;
        }
        Ok(())
    }

    fn supersede<N: Nand>(&mut self, _: &mut Store<N>, lpn: Lpn, place: Ppn) {
        let binders = self.binders.get_mut(&place).expect("a superseded bind was recorded");
        let at = binders.iter().position(|&(binder, _)| binder == lpn).expect("the binder was recorded");
        binders.remove(at);
        if binders.is_empty() {
            self.binders.remove(&place);
        }
        self.entries -= 1;
    }

    fn entries_of<N: Nand>(&mut self, io: &mut Store<N>, block: BlockId, out: &mut Vec<Entry>) -> Result<()> {
        if self.binders.is_empty() {
            return Ok(());
        }
        let first = io.geometry().first_page(block).0;
        for place in (first..first + io.geometry().block_pages()).map(Ppn) {
            let Some(binders) = self.binders.get(&place) else { continue };
            let entry = |&(lpn, sequence)| Entry { lpn, place: Some(place), source: None, sequence };
            out.extend(binders.iter().map(entry));
        }
        Ok(())
    }

    fn erased<N: Nand>(&mut self, io: &mut Store<N>, block: BlockId) -> Result<()> {
        let first = io.geometry().first_page(block).0;
        let stray =
            (first..first + io.geometry().block_pages()).find(|ppn| self.binders.contains_key(&Ppn(*ppn)));
        assert!(stray.is_none(), "page {stray:?} of erased block {block} is still bound");
        Ok(())
    }

    fn recover<N: Nand>(&mut self, io: &mut Store<N>) -> Result<Vec<Entry>> {
        Ok(self.entries(io))
    }

    fn entries<N: Nand>(&self, _: &Store<N>) -> Vec<Entry> {
        self.binders.keys().flat_map(|&place| self.entries_at(place)).collect()
    }

    fn valid_entries(&self) -> u64 {
        self.entries
    }

    fn pages_per_record(&self) -> u32 {
        0
    }

    fn metadata_pages(&self) -> u64 {
        0
    }

    fn owns(&self, _: u32, _: Ppn) -> bool {
        false
    }

    fn relocate_own(&mut self, id: u32, _: Ppn) {
        unreachable!("there is no log page {id}")
    }

    fn ram_bytes(&self) -> Vec<(&'static str, u64)> {
        vec![("reverse map (battery-backed)", self.entries * ENTRY_BYTES)]
    }

    fn check(&self) -> std::result::Result<(), String> {
        let counted: usize = self.binders.values().map(Vec::len).sum();
        if counted as u64 == self.entries {
            Ok(())
        } else {
            Err(format!("{counted} binders, {} counted", self.entries))
        }
    }
}
