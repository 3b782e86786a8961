//! The reverse map one would wish for: every referrer at once, without limit.
//!
//! It stands for designs whose OOB can be rewritten, or which know all referrers in advance, and bounds what any real
//! part can reach (the paper's Opt). Entries live in RAM that survives loss of power; the price is not modelled.
//!
//! Invariant: an entry exists exactly while its bind is current; tombstones are not kept, as nothing is rebuilt.

use std::slice;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry as Slot;
use rustc_hash::FxBuildHasher;

use super::{BlockId, ENTRY_BYTES, Entry, Lpn, Needed, Ppn, ReverseMap};
use crate::error::Result;
use crate::nand::Nand;
use crate::page_set::PageSet;
use crate::store::Store;

/// A logical page that a bind gave its place, and the sequence number of the entry.
#[derive(Clone, Copy, Debug)]
struct Binder {
    lpn: Lpn,
    sequence: u64,
}

/// The binders of a place, oldest first. Nearly always it is one, which needs no allocation of its own.
#[derive(Clone, Debug)]
enum Binders {
    One(Binder),
    /// Two at least.
    Several(Vec<Binder>),
}

impl Binders {
    fn as_slice(&self) -> &[Binder] {
        match self {
            Self::One(binder) => slice::from_ref(binder),
            Self::Several(binders) => binders,
        }
    }

    fn push(&mut self, binder: Binder) {
        match self {
            Self::One(first) => *self = Self::Several(vec![*first, binder]),
            Self::Several(binders) => binders.push(binder),
        }
    }

    /// Forgets the binder `lpn`; `true` if it was the only one, which stays.
    fn remove(&mut self, lpn: Lpn) -> bool {
        let at = self.as_slice().iter().position(|binder| binder.lpn == lpn);
        let at = at.expect("the binder was recorded");
        let Self::Several(binders) = self else { return true };
        binders.remove(at);
        if let [one] = binders[..] {
            *self = Self::One(one);
        }
        false
    }
}

/// Binders of each page.
#[derive(Clone, Debug)]
pub struct Ideal {
    binders: HashMap<Ppn, Binders, FxBuildHasher>,
    /// Pages that have binders: what is asked of a whole block looks at a few words. Members of chunks lie above.
    bound: PageSet,
    pages: u64,
    entries: u64,
}

impl Ideal {
    /// No entries, for a device of `pages`.
    pub fn new(pages: u64) -> Self {
        Self { binders: HashMap::default(), bound: PageSet::new(pages), pages, entries: 0 }
    }

    fn is_page(&self, place: Ppn) -> bool {
        u64::from(place.0) < self.pages
    }

    /// The entries that name a place.
    pub fn entries_at(&self, place: Ppn) -> Vec<Entry> {
        let entry =
            |&Binder { lpn, sequence }: &Binder| Entry { lpn, place: Some(place), source: None, sequence };
        self.binders
            .get(&place)
            .map_or_else(Vec::new, |binders| binders.as_slice().iter().map(entry).collect())
    }
}

impl ReverseMap for Ideal {
    fn admit<N: Nand>(&mut self, _: &mut Store<N>, _: Needed<'_>) -> Result<bool> {
        Ok(true)
    }

    fn record<N: Nand>(&mut self, _: &mut Store<N>, entry: Entry, _: Needed<'_>) -> Result<()> {
        if let Some(place) = entry.place {
            let binder = Binder { lpn: entry.lpn, sequence: entry.sequence };
            match self.binders.entry(place) {
                Slot::Occupied(mut binders) => binders.get_mut().push(binder),
                Slot::Vacant(vacant) => _ = vacant.insert(Binders::One(binder)),
            }
            self.entries += 1;
            if self.is_page(place) {
                self.bound.insert(place);
            }
        }
        Ok(())
    }

    fn supersede<N: Nand>(&mut self, _: &mut Store<N>, lpn: Lpn, place: Ppn) {
        let binders = self.binders.get_mut(&place).expect("a superseded bind was recorded");
        if binders.remove(lpn) {
            self.binders.remove(&place);
            if self.is_page(place) {
                self.bound.remove(place);
            }
        }
        self.entries -= 1;
    }

    fn entries_of<N: Nand>(&mut self, io: &mut Store<N>, block: BlockId, out: &mut Vec<Entry>) -> Result<()> {
        let mut places = Vec::new();
        self.bound.collect(io.geometry().first_page(block), io.geometry().block_pages(), &mut places);
        out.extend(places.into_iter().flat_map(|place| self.entries_at(place)));
        Ok(())
    }

    fn erased<N: Nand>(&mut self, io: &mut Store<N>, block: BlockId) -> Result<()> {
        let is_free = self.bound.is_disjoint(io.geometry().first_page(block), io.geometry().block_pages());
        assert!(is_free, "a page of erased block {block} is still bound");
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

    fn ram_bytes(&self) -> Vec<(&'static str, u64)> {
        vec![("reverse map (battery-backed)", self.entries * ENTRY_BYTES)]
    }

    fn check(&self) -> std::result::Result<(), String> {
        let counted: usize = self.binders.values().map(|binders| binders.as_slice().len()).sum();
        if counted as u64 != self.entries {
            return Err(format!("{counted} binders, {} counted", self.entries));
        }
        let of_pages = self.binders.keys().filter(|&&place| self.is_page(place));
        let marked = of_pages.clone().filter(|&&place| self.bound.contains(place)).count();
        if (marked, marked as u64) == (of_pages.count(), self.bound.len()) {
            Ok(())
        } else {
            Err(format!("{} pages are marked as bound, {marked} are", self.bound.len()))
        }
    }
}
