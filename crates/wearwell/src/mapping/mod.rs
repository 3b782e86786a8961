//! L2P: where is logical page `lpn`?
//!
//! The engine asks four things: where a page is, to learn a new place (and give back the old one), to follow a
//! page that GC moved, and which flash pages of its own a mapping still needs. A mapping that keeps its table on
//! flash appends real pages through the store, so its cost shows in write amplification, wear and latency
//! without the engine knowing.
//!
//! GC never runs inside a mapping: a page moved by GC is remembered in RAM ([`Mapping::relocate`]) and whatever
//! must be written follows when the engine has made room ([`Mapping::write_deferred`]).

mod age_order;
mod cached;
mod construction;
mod entry_cache;
mod flat;
mod journal;
mod nvram_entries;
mod translation_table;

pub use cached::{Cached, CachedOptions, FetchCounts, Identification};
pub(crate) use cached::{Identified, still_names};
pub use flat::Flat;
pub use journal::{JournalCounts, JournalOptions, Journalled};
pub(crate) use nvram_entries::words as nvram_words;
pub use translation_table::DirectoryPart;

use crate::address::{Address, Lpn, Ppn, Unit};
use crate::error::Result;
use crate::nand::Nand;
use crate::store::Store;

/// What every mapping answers.
pub trait Mapping {
    /// The place of `lpn`. May read (and, to make room in its cache, write) translation pages.
    ///
    /// # Errors
    /// Whatever the flash answers.
    fn lookup<N: Nand>(&mut self, io: &mut Store<N>, lpn: Lpn) -> Result<Option<Unit>>;

    /// As [`Mapping::lookup`], but writes nothing and caches nothing: for a device that is full.
    ///
    /// # Errors
    /// Whatever the flash answers.
    fn peek<N: Nand>(&mut self, io: &mut Store<N>, lpn: Lpn) -> Result<Option<Unit>>;

    /// Learns the new place of `lpn` (`None` = deallocated) and returns the old one, unless a lazy map has yet to find
    /// out.
    ///
    /// # Errors
    /// Whatever the flash answers; the mapping is unchanged then.
    fn update<N: Nand>(&mut self, io: &mut Store<N>, lpn: Lpn, new: Option<Unit>) -> Result<Option<Unit>>;

    /// Whether old places are found when the map is written, not at an update: pages are then deallocated by
    /// [`Mapping::trim_some`], and GC asks [`Mapping::is_superseded`] before it moves one.
    fn identifies_late(&self) -> bool {
        false
    }

    /// One step of deallocating pages from `first` on, up to `last` or as far as a translation page goes: the last one
    /// that is gone, or `None` if another step has to follow. Appends at most [`Mapping::pages_per_update`] pages.
    ///
    /// # Errors
    /// Whatever the flash answers.
    fn trim_some<N: Nand>(&mut self, _: &mut Store<N>, _: Lpn, last: Lpn) -> Result<Option<Lpn>> {
        Ok(Some(last))
    }

    /// Whether the page at `ppn`, which its spare area ascribes to `lpn`, is an earlier version that the map has not
    /// called invalid yet.
    fn is_superseded(&self, _: Lpn, _: Ppn) -> bool {
        false
    }

    /// An earlier version of `lpn` that was superseded is about to be erased: nobody needs to call it invalid any more.
    fn superseded_erased(&mut self, _: Lpn) {}

    /// GC moved the page of `lpn`. No flash operation.
    fn relocate(&mut self, lpn: Lpn, new: Unit);

    /// GC moved the page of each of `lpns`, in order. The map is written at random places: all of them are read first, so
    /// that the cache misses overlap. A lazy map was asked for all of them just now.
    fn relocate_all(&mut self, lpns: &[Lpn], new: &[Ppn]) {
        if !self.identifies_late() {
            self.prefetch(lpns);
        }
        lpns.iter().zip(new).for_each(|(&lpn, &new)| self.relocate(lpn, new.into()));
    }

    /// Makes moves durable where the mapping keeps a copy of itself in NVRAM. Comes before an erase, and before anything
    /// else that tells an old place from a new one.
    ///
    /// # Errors
    /// Power loss.
    fn store_moves<N: Nand>(&mut self, _: &mut Store<N>) -> Result<()> {
        Ok(())
    }

    /// Whether NVRAM has room for few more moves: translation pages should be written before the next collection.
    fn is_crowded(&self) -> bool {
        false
    }

    /// Reads the entries of pages that are about to be relocated, so that the memory accesses overlap.
    fn prefetch(&self, lpns: &[Lpn]);

    /// Whether `ppn` is the current copy of metadata page `id`.
    fn owns(&self, id: u32, ppn: Ppn) -> bool;

    /// GC moved metadata page `id`.
    fn relocate_own(&mut self, id: u32, new: Ppn);

    /// Does postponed work up to one metadata page; `false` once none is left.
    ///
    /// # Errors
    /// Whatever the flash answers.
    fn write_deferred<N: Nand>(&mut self, io: &mut Store<N>) -> Result<bool>;

    /// Whether something exists only in RAM. O(metadata pages) at worst.
    fn has_unwritten(&self) -> bool;

    /// Writes one page of what exists only in RAM (battery flush, shutdown); `false` once all is on flash.
    ///
    /// # Errors
    /// Whatever the flash answers.
    fn write_back<N: Nand>(&mut self, io: &mut Store<N>) -> Result<bool>;

    /// The most metadata pages one lookup, update or step of settling may append.
    fn pages_per_update(&self) -> u32;

    /// Flash pages that the metadata occupies at the most.
    fn metadata_pages(&self) -> u64;

    /// Bytes a controller holds in RAM, by structure.
    fn ram_bytes(&self) -> Vec<(&'static str, u64)>;
}

/// Any mapping, chosen when the device is built.
#[derive(Clone, Debug)]
pub enum AnyMapping {
    /// The whole table in RAM.
    Flat(Flat),
    /// Demand-paged table on flash.
    Cached(Box<Cached>),
    /// The same with a journal of its changes.
    Journalled(Box<Journalled>),
}

macro_rules! delegate {
    ($self:ident, $mapping:ident => $call:expr) => {
        match $self {
            AnyMapping::Flat($mapping) => $call,
            AnyMapping::Cached($mapping) => $call,
            AnyMapping::Journalled($mapping) => $call,
        }
    };
}

impl AnyMapping {
    /// The place of `lpn` as far as RAM knows it, for questions that are not worth a read: of a map on flash the entries
    /// in the cache, that of the last update among them.
    #[inline]
    pub(crate) fn in_ram(&self, lpn: Lpn) -> Option<Unit> {
        match self {
            Self::Flat(map) => map.get(lpn),
            Self::Cached(map) => map.cached(lpn).and_then(Address::some),
            Self::Journalled(map) => map.cached().cached(lpn).and_then(Address::some),
        }
    }

    /// The table on flash and its cache, where the map is there.
    pub fn on_flash(&self) -> Option<&Cached> {
        match self {
            Self::Flat(_) => None,
            Self::Cached(map) => Some(map),
            Self::Journalled(map) => Some(map.cached()),
        }
    }

    pub(crate) fn on_flash_mut(&mut self) -> Option<&mut Cached> {
        match self {
            Self::Flat(_) => None,
            Self::Cached(map) => Some(map),
            Self::Journalled(map) => Some(map.cached_mut()),
        }
    }
}

impl Mapping for AnyMapping {
    #[inline]
    fn lookup<N: Nand>(&mut self, io: &mut Store<N>, lpn: Lpn) -> Result<Option<Unit>> {
        delegate!(self, m => m.lookup(io, lpn))
    }
    fn peek<N: Nand>(&mut self, io: &mut Store<N>, lpn: Lpn) -> Result<Option<Unit>> {
        delegate!(self, m => m.peek(io, lpn))
    }
    #[inline]
    fn update<N: Nand>(&mut self, io: &mut Store<N>, lpn: Lpn, new: Option<Unit>) -> Result<Option<Unit>> {
        delegate!(self, m => m.update(io, lpn, new))
    }
    #[inline]
    fn relocate(&mut self, lpn: Lpn, new: Unit) {
        delegate!(self, m => m.relocate(lpn, new));
    }
    fn relocate_all(&mut self, lpns: &[Lpn], new: &[Ppn]) {
        delegate!(self, m => m.relocate_all(lpns, new));
    }
    #[inline]
    fn store_moves<N: Nand>(&mut self, io: &mut Store<N>) -> Result<()> {
        delegate!(self, m => m.store_moves(io))
    }
    #[inline]
    fn is_crowded(&self) -> bool {
        delegate!(self, m => m.is_crowded())
    }
    #[inline]
    fn prefetch(&self, lpns: &[Lpn]) {
        delegate!(self, m => m.prefetch(lpns));
    }
    fn identifies_late(&self) -> bool {
        delegate!(self, m => m.identifies_late())
    }
    fn trim_some<N: Nand>(&mut self, io: &mut Store<N>, first: Lpn, last: Lpn) -> Result<Option<Lpn>> {
        delegate!(self, m => m.trim_some(io, first, last))
    }
    #[inline]
    fn is_superseded(&self, lpn: Lpn, ppn: Ppn) -> bool {
        delegate!(self, m => m.is_superseded(lpn, ppn))
    }
    fn superseded_erased(&mut self, lpn: Lpn) {
        delegate!(self, m => m.superseded_erased(lpn));
    }
    fn owns(&self, id: u32, ppn: Ppn) -> bool {
        delegate!(self, m => m.owns(id, ppn))
    }
    fn relocate_own(&mut self, id: u32, new: Ppn) {
        delegate!(self, m => m.relocate_own(id, new));
    }
    #[inline]
    fn write_deferred<N: Nand>(&mut self, io: &mut Store<N>) -> Result<bool> {
        delegate!(self, m => m.write_deferred(io))
    }
    fn has_unwritten(&self) -> bool {
        delegate!(self, m => m.has_unwritten())
    }
    fn write_back<N: Nand>(&mut self, io: &mut Store<N>) -> Result<bool> {
        delegate!(self, m => m.write_back(io))
    }
    #[inline]
    fn pages_per_update(&self) -> u32 {
        delegate!(self, m => m.pages_per_update())
    }
    fn metadata_pages(&self) -> u64 {
        delegate!(self, m => m.metadata_pages())
    }
    fn ram_bytes(&self) -> Vec<(&'static str, u64)> {
        delegate!(self, m => m.ram_bytes())
    }
}
