//! DFTL's mapping: the table lives on flash in translation pages, RAM holds a cache of entries and the directory.
//!
//! Source: Gupta, Kim, Urgaonkar, "DFTL: A Flash Translation Layer Employing Demand-based Selective Caching of
//! Page-level Address Mappings", ASPLOS 2009. Kept: cached mapping table with LRU replacement, global mapping
//! directory, fetch on a miss (reads and writes: the old place must be known to invalidate it), lazy copying and
//! batch updates: evicting a dirty entry writes all dirty entries of its translation page at once. A page moved
//! by GC becomes a dirty entry like any write. Not kept: the segmented LRU; plain LRU is what the closed form of
//! its translation traffic describes.
//!
//! Entries moved by GC may exceed the capacity for a moment (GC must not write translation pages while it needs
//! the last free pages itself); the engine settles the excess as soon as it has room. The excess is at most one
//! block of entries per victim collected in a row.
//!
//! With capacity for every logical page nothing is ever fetched or evicted: translation traffic is zero and the
//! program sequence is that of the flat table. A translation page that was never written maps nothing.
//!
//! RAM is volatile here; the design assumes a battery that writes the dirty entries at power loss
//! ([`Mapping::write_back`]).

use hashbrown::HashTable;

use super::Mapping;
use crate::address::{Address, Lpn, Ppn, Unit};
use crate::content::{Content, Fingerprint, mix};
use crate::error::Result;
use crate::nand::Nand;
use crate::recency::Recency;
use crate::store::{Store, Stream};
use crate::timing::Cause;

/// Bytes of one entry in the cache: LPN and PPN.
const CACHE_ENTRY_BYTES: u64 = 8;
/// Bytes of one entry of a translation page.
const TABLE_ENTRY_BYTES: u32 = 4;
const NIL: u32 = u32::MAX;

/// Size of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CachedOptions {
    /// Entries the cache holds; at least 1.
    pub entries: u32,
}

/// What the cache did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FetchCounts {
    /// Lookups and updates answered by the cache.
    pub hits: u64,
    /// Lookups and updates that needed the table on flash.
    pub misses: u64,
    /// Entries that became dirty.
    pub dirty_inserts: u64,
    /// Translation pages written because a dirty entry had to leave.
    pub synchronisations: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    lpn: Lpn,
    unit: Unit,
    /// List of the dirty entries of one translation page; `dirty` tells whether the entry is on it.
    dirty_next: u32,
    dirty: bool,
}

/// Demand-paged mapping. See the module's head.
#[derive(Clone, Debug)]
pub struct Cached {
    options: CachedOptions,
    entries_per_page: u32,
    logical_pages: u32,
    /// Global mapping directory: place of each translation page.
    directory: Vec<Ppn>,
    /// First dirty entry of each translation page.
    dirty_heads: Vec<u32>,
    slots: Vec<Entry>,
    free_slots: Vec<u32>,
    index: HashTable<u32>,
    recency: Recency,
    /// Translation pages below this one have no dirty entry (write-back cursor).
    write_back_from: u32,
    page: Vec<u8>,
    counts: FetchCounts,
}

impl Cached {
    /// A cache over `logical_pages` unmapped pages, with translation pages of `page_bytes`.
    pub fn new(logical_pages: u32, page_bytes: u32, options: CachedOptions) -> Self {
        let entries_per_page = page_bytes / TABLE_ENTRY_BYTES;
        let pages = logical_pages.div_ceil(entries_per_page) as usize;
        Self {
            options: CachedOptions { entries: options.entries.max(1) },
            entries_per_page,
            logical_pages,
            directory: vec![Ppn::NONE; pages],
            dirty_heads: vec![NIL; pages],
            slots: Vec::new(),
            free_slots: Vec::new(),
            index: HashTable::with_capacity(options.entries.min(logical_pages) as usize),
            recency: Recency::default(),
            write_back_from: 0,
            page: vec![0xff; page_bytes as usize],
            counts: FetchCounts::default(),
        }
    }

    /// What the cache did so far.
    pub fn counts(&self) -> FetchCounts {
        self.counts
    }

    /// Clears the counts, not the cache.
    pub fn clear_counts(&mut self) {
        self.counts = FetchCounts::default();
    }

    /// Translation pages of the whole table.
    pub fn translation_pages(&self) -> u32 {
        self.directory.len() as u32
    }

    /// Entries in the cache now.
    pub fn cached_entries(&self) -> usize {
        self.index.len()
    }

    /// Forgets cache and directory: RAM is lost.
    pub(crate) fn forget(&mut self) {
        let page_bytes = self.entries_per_page * TABLE_ENTRY_BYTES;
        *self = Self::new(self.logical_pages, page_bytes, self.options);
    }

    /// A directory rebuilt by recovery.
    pub(crate) fn set_directory(&mut self, id: u32, ppn: Ppn) {
        self.directory[id as usize] = ppn;
    }

    /// The place of translation page `id`.
    pub(crate) fn directory(&self, id: u32) -> Option<Ppn> {
        self.directory[id as usize].some()
    }

    /// Entries of translation page `id` as they are on flash, `(lpn, place)`, for recovery and audits.
    pub(crate) fn table_entries(&self, id: u32, bytes: &[u8]) -> Vec<(Lpn, Unit)> {
        let first = id * self.entries_per_page;
        let count = self.entries_per_page.min(self.logical_pages - first);
        (0..count)
            .map(|k| (Lpn(first + k), entry_at(bytes, k)))
            .filter(|(_, ppn)| ppn.some().is_some())
            .collect()
    }

    /// The place of `lpn` if the cache knows it; [`Unit::NONE`] if it knows that there is none.
    pub(crate) fn cached(&self, lpn: Lpn) -> Option<Unit> {
        self.find(lpn).map(|slot| self.slots[slot as usize].unit)
    }

    #[inline]
    fn translation_page_of(&self, lpn: Lpn) -> u32 {
        lpn.0 / self.entries_per_page
    }

    #[inline]
    fn find(&self, lpn: Lpn) -> Option<u32> {
        self.index.find(hash(lpn), |&slot| self.slots[slot as usize].lpn == lpn).copied()
    }

    /// Makes `lpn` cached (and most recent), reading its translation page on a miss.
    fn bring_in<N: Nand>(&mut self, io: &mut Store<N>, lpn: Lpn) -> Result<u32> {
        if let Some(slot) = self.find(lpn) {
            self.counts.hits += 1;
            self.recency.touch(slot);
            return Ok(slot);
        }
        self.counts.misses += 1;
        if self.index.len() >= self.options.entries as usize {
            self.evict(io)?;
        }
        let ppn = self.fetch(io, lpn)?;
        Ok(self.insert(lpn, ppn))
    }

    fn fetch<N: Nand>(&mut self, io: &mut Store<N>, lpn: Lpn) -> Result<Unit> {
        let id = self.translation_page_of(lpn);
        let Some(place) = self.directory(id) else { return Ok(Unit::NONE) };
        io.read(place, &mut self.page, Cause::Translation)?;
        Ok(entry_at(&self.page, lpn.0 % self.entries_per_page))
    }

    /// Drops the least recently used entry, after writing its translation page if it is dirty.
    fn evict<N: Nand>(&mut self, io: &mut Store<N>) -> Result<()> {
        let slot = self.recency.oldest().expect("a cache that is full has an oldest entry");
        if self.slots[slot as usize].dirty {
            self.counts.synchronisations += 1;
            self.synchronise(io, self.translation_page_of(self.slots[slot as usize].lpn))?;
        }
        self.recency.remove(slot);
        let lpn = self.slots[slot as usize].lpn;
        if let Ok(found) = self.index.find_entry(hash(lpn), |&other| other == slot) {
            found.remove();
        }
        self.free_slots.push(slot);
        Ok(())
    }

    /// Writes translation page `id` with all its dirty entries, which are clean afterwards.
    fn synchronise<N: Nand>(&mut self, io: &mut Store<N>, id: u32) -> Result<()> {
        let old = self.directory(id);
        match old {
            Some(place) => drop(io.read(place, &mut self.page, Cause::Translation)?),
            None => self.page.fill(0xff),
        }
        let mut slot = self.dirty_heads[id as usize];
        while slot != NIL {
            let entry = self.slots[slot as usize];
            put_entry(&mut self.page, entry.lpn.0 % self.entries_per_page, entry.unit);
            slot = entry.dirty_next;
        }
        let pool = io.richest_pool(Stream::Translation);
        let content = Content::Bytes(&self.page);
        let place =
            io.append(Stream::Translation, pool, id, content, Fingerprint::default(), Cause::Translation)?;
        self.clean_all(id);
        self.directory[id as usize] = place;
        if let Some(old) = old {
            io.discard(old);
        }
        Ok(())
    }

    /// The first translation page with a dirty entry.
    fn first_dirty(&self) -> Option<u32> {
        let pages = self.directory.len() as u32;
        (self.write_back_from..pages).find(|&id| self.dirty_heads[id as usize] != NIL)
    }

    fn clean_all(&mut self, id: u32) {
        let mut slot = std::mem::replace(&mut self.dirty_heads[id as usize], NIL);
        while slot != NIL {
            let entry = &mut self.slots[slot as usize];
            entry.dirty = false;
            slot = entry.dirty_next;
        }
    }

    fn insert(&mut self, lpn: Lpn, unit: Unit) -> u32 {
        let entry = Entry { lpn, unit, dirty_next: NIL, dirty: false };
        let slot = self.free_slots.pop().unwrap_or(self.slots.len() as u32);
        if slot as usize == self.slots.len() {
            self.slots.push(entry);
        } else {
            self.slots[slot as usize] = entry;
        }
        self.index.insert_unique(hash(lpn), slot, |&slot| hash(self.slots[slot as usize].lpn));
        self.recency.push(slot);
        slot
    }

    /// Gives a cached entry a new place and makes it dirty.
    fn assign(&mut self, slot: u32, unit: Unit) -> Unit {
        let old = std::mem::replace(&mut self.slots[slot as usize].unit, unit);
        if !self.slots[slot as usize].dirty {
            self.link_dirty(slot);
        }
        old
    }

    fn link_dirty(&mut self, slot: u32) {
        self.counts.dirty_inserts += 1;
        let id = self.translation_page_of(self.slots[slot as usize].lpn);
        self.write_back_from = self.write_back_from.min(id);
        let head = std::mem::replace(&mut self.dirty_heads[id as usize], slot);
        let entry = &mut self.slots[slot as usize];
        (entry.dirty, entry.dirty_next) = (true, head);
    }
}

impl Mapping for Cached {
    fn lookup<N: Nand>(&mut self, io: &mut Store<N>, lpn: Lpn) -> Result<Option<Unit>> {
        let slot = self.bring_in(io, lpn)?;
        Ok(self.slots[slot as usize].unit.some())
    }

    fn peek<N: Nand>(&mut self, io: &mut Store<N>, lpn: Lpn) -> Result<Option<Unit>> {
        let place = match self.cached(lpn) {
            Some(place) => place,
            None => self.fetch(io, lpn)?,
        };
        Ok(place.some())
    }

    fn update<N: Nand>(&mut self, io: &mut Store<N>, lpn: Lpn, new: Option<Unit>) -> Result<Option<Unit>> {
        let slot = self.bring_in(io, lpn)?;
        Ok(self.assign(slot, new.unwrap_or(Unit::NONE)).some())
    }

    fn relocate(&mut self, lpn: Lpn, new: Unit) {
        let slot = match self.find(lpn) {
            Some(slot) => {
                self.recency.touch(slot);
                slot
            }
            None => self.insert(lpn, Unit::NONE),
        };
        self.assign(slot, new);
    }

    fn owns(&self, id: u32, ppn: Ppn) -> bool {
        self.directory.get(id as usize) == Some(&ppn)
    }

    fn relocate_own(&mut self, id: u32, new: Ppn) {
        self.directory[id as usize] = new;
    }

    fn settle<N: Nand>(&mut self, io: &mut Store<N>) -> Result<bool> {
        let over = self.index.len() > self.options.entries as usize;
        if over {
            self.evict(io)?;
        }
        Ok(over)
    }

    fn has_unwritten(&self) -> bool {
        self.first_dirty().is_some()
    }

    fn write_back<N: Nand>(&mut self, io: &mut Store<N>) -> Result<bool> {
        let dirty = self.first_dirty();
        self.write_back_from = dirty.unwrap_or(self.directory.len() as u32);
        if let Some(id) = dirty {
            self.synchronise(io, id)?;
        }
        Ok(dirty.is_some())
    }

    fn pages_per_update(&self) -> u32 {
        u32::from(self.options.entries < self.logical_pages)
    }

    fn metadata_pages(&self) -> u64 {
        // Cached in full, nothing is written but at a battery flush.
        self.directory.len() as u64
    }

    fn ram_bytes(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("cached mapping table", self.options.entries as u64 * CACHE_ENTRY_BYTES),
            ("global mapping directory", self.directory.len() as u64 * 4),
        ]
    }
}

#[inline]
fn hash(lpn: Lpn) -> u64 {
    mix(lpn.0 as u64 + 1)
}

fn entry_at(page: &[u8], k: u32) -> Unit {
    let at = (k * TABLE_ENTRY_BYTES) as usize;
    Unit(u32::from_le_bytes(page[at..at + 4].try_into().expect("an entry has four bytes")))
}

fn put_entry(page: &mut [u8], k: u32, unit: Unit) {
    let at = (k * TABLE_ENTRY_BYTES) as usize;
    page[at..at + 4].copy_from_slice(&unit.0.to_le_bytes());
}
