//! The demand-paged map: the table is on flash in translation pages, and RAM holds a cache of entries.
//!
//! Source of the basic design: Gupta, Kim, Urgaonkar, "DFTL: A Flash Translation Layer Employing Demand-based Selective
//! Caching of Page-level Address Mappings", ASPLOS 2009. Kept: cached mapping table with plain LRU replacement,
//! directory of the translation pages, fetch on a miss, lazy copying and batch updates: evicting a dirty entry writes
//! all dirty entries of its translation page at once. A page moved by GC becomes a dirty entry like any write. Not
//! kept: the segmented LRU; plain LRU is what the closed form of its translation traffic describes.
//!
//! When does the map report the page that a write replaces as invalid? [`InvalidPageIdentification`] has two choices.
//! `OnUpdate` reads the table at a write that misses the cache. `AtSynchronisation` (Dayan, Bonnet, Idreos, "GeckoFTL:
//! Scalable Flash Translation Techniques For Very Large Flash Devices", SIGMOD 2016, section 4.1) saves that read. The
//! entry notes that the location named on flash is an *unidentified invalid page*, and the next write of the
//! translation page finds it. GC queries [`Mapping::is_unidentified_invalid_page`] before it moves a page. The price:
//! valid counts are upper bounds, too high by at most one page per dirty entry, and the engine has to bound that
//! excess.
//!
//! Entries of pages moved by GC may exceed the cache's capacity for a moment, because GC must not write translation
//! pages while it needs the last free pages itself. The engine evicts the excess as soon as it has room. The excess is
//! at most one block of entries per victim collected in a row.
//!
//! Further invariants, on which recovery rests (`recovery/backward.rs`):
//! - no translation page is written between the program of a data page and the update of its entry, so a page
//!   programmed before the newest version of its translation page is in that version, or older than what is in it;
//! - with checkpoints, every translation page holds a sequence number in its spare area: all entries that were dirty
//!   when it was written were changed later than that. This is the sequence number at the checkpoint before the last
//!   one, and about twice [`DemandPagedMap::changes_per_checkpoint`] changes have been made since;
//! - a trim is on flash when it returns, because no program of a data page would show it to a recovery.
//!
//! With capacity for every logical page nothing is ever fetched or evicted: without checkpoints and bounds, translation
//! traffic is zero and the program sequence is that of the flat table. The logical pages of a translation page that was
//! never written are unmapped.

use arrayvec::ArrayVec;

use super::Mapping;
use super::construction::InitialStateMap;
use super::entry_cache::{CacheSlot, CachedEntry, EntryCache};
use super::nvram_entries::{self, NvramEntries};
use super::translation_table::{
    DirectoryLocation, SPARE_SEQUENCE_BYTES, TranslationTable, decode_entry, decode_spare_sequence,
};
use super::trimmed_range::TrimmedRange;
use crate::address::{Lpn, OptionalAddress, Ppn, StoredUnit};
use crate::error::{Error, Result};
use crate::events::MetadataWriteReason;
use crate::nand::{Nand, PageKind};
use crate::operation::Cause;
use crate::store::{ContentRecord, ContentRecordKey, FlashPageStore};
use crate::tables::prefetch::{
    HOST_WRITES_PER_PREFETCH, TRANSLATION_PAGES_PER_PREFETCH, load_into_cpu_cache,
};

/// Bytes of one entry in the cache of map entries: LPN and PPN.
const CACHE_ENTRY_BYTES_IN_DRIVE: u64 = 8;

/// Number of evictions from the cache of map entries that are prefetched together. Data prefetched for twice as many
/// evictions would leave the processor's first-level cache before its use.
const EVICTIONS_PER_PREFETCH: usize = TRANSLATION_PAGES_PER_PREFETCH;

/// When a demand-paged L2P map reports the old page of an overwritten logical page as invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InvalidPageIdentification {
    /// The old page is reported as invalid at the write that replaces it: if the write misses the cache of map entries,
    /// the translation page is read to find the old location.
    #[default]
    OnUpdate,
    /// The old page is reported as invalid when the translation page of the logical page is next written. A host write
    /// needs no read to find the old location, but the valid counts of blocks are too high until then.
    AtSynchronisation,
}

/// Options of a demand-paged L2P map: cache size, bounds, checkpoints (early writes of entries that are dirty for
/// long).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DemandPagedMapOptions {
    /// Capacity of the cache of map entries, in entries; at least 1.
    pub cache_entries: u32,
    /// When the old page of an overwritten logical page is reported as invalid: at the write, or when its translation
    /// page is written.
    pub identification: InvalidPageIdentification,
    /// Maximum number of dirty entries in the cache of map entries; `None` means no limit. A limit needs
    /// [`InvalidPageIdentification::AtSynchronisation`], or a map whose dirty entries are in NVRAM.
    pub max_dirty_entries: Option<u32>,
    /// Whether the map makes checkpoints, which write entries that have been dirty for a long time before they are
    /// evicted. A recovery then finds all changes that flash lacks by reading only the newest data pages. Needs
    /// [`InvalidPageIdentification::AtSynchronisation`].
    pub makes_checkpoints: bool,
    /// Where the directory (the PPNs of the translation pages) is kept.
    pub directory: DirectoryLocation,
}

impl DemandPagedMapOptions {
    /// Returns DFTL's options with a cache of `entries` map entries: old pages reported as invalid at the write,
    /// directory of translation pages in RAM, no checkpoints.
    pub fn with_cache_capacity(entries: u32) -> Self {
        Self {
            cache_entries: entries,
            identification: InvalidPageIdentification::OnUpdate,
            max_dirty_entries: None,
            makes_checkpoints: false,
            directory: DirectoryLocation::Ram,
        }
    }
}

/// Counts of hits, misses and writes of translation pages of a demand-paged L2P map with a cache of map entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MapCacheCounts {
    /// Number of lookups and updates of the map that found their entry in the cache.
    pub hits: u64,
    /// Number of lookups and updates of the map that did not find their entry in the cache.
    pub misses: u64,
    /// Number of times that a clean map entry in the cache, or a new one, became dirty.
    pub entries_made_dirty: u64,
    /// Number of translation pages written because a dirty entry was evicted from the cache, or because a bound (on
    /// dirty entries, unidentified invalid pages or NVRAM words) was reached.
    pub synchronisations: u64,
    /// Number of translation pages that checkpoints of the map wrote, before an eviction required it, because their
    /// entries had been dirty for a long time.
    pub checkpoint_synchronisations: u64,
    /// Number of writes of translation pages that were omitted because flash already held all dirty entries of the
    /// page, which can happen after a recovery.
    pub omitted_synchronisations: u64,
    /// Number of spare areas read because a recovery left it uncertain whether an overwritten page had been reported as
    /// invalid.
    pub spare_reads_for_uncertain_entries: u64,
}

/// An invalid page that a lazy map (which identifies invalid pages late) found when it wrote or trimmed a translation
/// page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IdentifiedInvalidPage {
    /// PPN of the invalid page.
    pub(crate) ppn: Ppn,
    /// Whether the page has certainly not been reported to the validity store as invalid before. After a recovery this
    /// may be uncertain.
    pub(crate) is_certainly_not_yet_reported_invalid: bool,
}

/// Demand-paged L2P map: the table on flash in translation pages, and a cache of entries in RAM.
#[derive(Clone, Debug)]
pub struct DemandPagedMap {
    /// Options of the map: cache size, bounds and checkpoints.
    options: DemandPagedMapOptions,
    /// Translation pages on flash, and the directory of their PPNs.
    table: TranslationTable,
    /// Cache of map entries in RAM.
    cache: EntryCache,
    /// Invalid pages that the map found when it wrote translation pages. They stay in this list until the FTL takes
    /// them and updates page validity.
    identified_invalid_pages: Vec<IdentifiedInvalidPage>,
    /// Maximum number of overwritten pages not reported as invalid yet; beyond it, translation pages are written.
    max_unidentified_invalid_pages: u32,
    /// Maximum number of metadata pages that one lookup or update of the map may append.
    max_metadata_pages_per_access: u32,
    /// Number of cached entries inserted or changed since the last checkpoint; at a fixed number the next one is due. 0
    /// if the map makes no checkpoints.
    entry_changes_since_checkpoint: u32,
    /// Whether a checkpoint (early write of entries that are dirty for long) has begun and is not complete.
    is_in_checkpoint: bool,
    /// Whether the map has written a translation page with changed entries since its last checkpoint.
    has_written_page_since_checkpoint: bool,
    /// Sequence number of the last flash program that preceded the end of the last checkpoint of the map (a checkpoint
    /// writes entries that are dirty for long).
    checkpoint_sequence: u64,
    /// Sequence number of a flash program that precedes every change which is only in RAM: each dirty entry of the map
    /// was changed after this program.
    program_sequence_before_all_dirty_entries: u64,
    /// The whole L2P map in RAM, while the initial state of a drive is constructed (pages are placed without executing
    /// writes); `None` otherwise.
    initial_state_map: Option<InitialStateMap>,
    /// Copy of the dirty map entries in NVRAM, where they survive a loss of power; `None` if the map has no such copy.
    dirty_entries_in_nvram: Option<NvramEntries>,
    /// Whether the highest bit of an entry, the bind mark, marks logical pages that were mapped to stored content
    /// without a program.
    marks_entries_mapped_without_program: bool,
    /// Logical pages of the trim that is being executed, and entries that were read for it.
    trimmed_range: TrimmedRange,
    /// Counts of hits, misses and writes of translation pages.
    counts: MapCacheCounts,
}

impl DemandPagedMap {
    /// Creates a demand-paged map of `logical_pages` unmapped logical pages, with an empty cache and translation pages
    /// of `page_bytes` bytes.
    pub fn new(logical_pages: u32, page_bytes: u32, options: DemandPagedMapOptions) -> Self {
        let options = DemandPagedMapOptions { cache_entries: options.cache_entries.max(1), ..options };
        let table = TranslationTable::new(logical_pages, page_bytes, options.directory);
        let entries = options.cache_entries.min(logical_pages);
        let writes = options.cache_entries < logical_pages
            || options.makes_checkpoints
            || options.max_dirty_entries.is_some()
            || options.identification == InvalidPageIdentification::AtSynchronisation;
        Self {
            max_metadata_pages_per_access: if writes { table.max_pages_per_translation_write() } else { 0 },
            cache: EntryCache::new(entries, table.translation_pages(), table.entries_per_page()),
            table,
            identified_invalid_pages: Vec::new(),
            max_unidentified_invalid_pages: u32::MAX,
            entry_changes_since_checkpoint: 0,
            is_in_checkpoint: false,
            has_written_page_since_checkpoint: false,
            checkpoint_sequence: 0,
            program_sequence_before_all_dirty_entries: 0,
            initial_state_map: None,
            dirty_entries_in_nvram: None,
            marks_entries_mapped_without_program: false,
            trimmed_range: TrimmedRange::default(),
            counts: MapCacheCounts::default(),
            options,
        }
    }

    /// Makes the map recognise the bind mark, the bit of an entry whose logical page was mapped to stored content
    /// without a program, and record in NVRAM each marked entry that is on flash
    /// ([`ContentRecord::MapEntryWithoutProgram`]). By these records, recovery finds the referrers of shared pages and
    /// chunk members.
    pub(crate) fn mark_entries_mapped_without_program(&mut self) {
        self.marks_entries_mapped_without_program = true;
    }

    /// Returns whether the bind mark of the map entry `entry` is set: its logical page was mapped to stored content
    /// (for example by deduplication), without a program.
    #[inline]
    fn is_entry_mapped_without_program(&self, entry: StoredUnit) -> bool {
        self.marks_entries_mapped_without_program && entry.is_marked_as_mapped_without_program()
    }

    /// Returns the unit (flash page or chunk member) that the map entry `entry` names. Clears the bind mark, the bit
    /// that is set if the logical page was mapped without a program.
    #[inline]
    fn unit_named_by_map_entry(&self, entry: StoredUnit) -> StoredUnit {
        if self.marks_entries_mapped_without_program { entry.without_mapping_mark() } else { entry }
    }

    /// Creates a demand-paged map in which no logical page is mapped. Its dirty entries are also kept in NVRAM, from
    /// word (8 bytes) `first_nvram_word` on. At most `entries_per_page` logical pages refer to one page of flash.
    ///
    /// # Errors
    /// [`Error::InvalidOptions`] if the medium has too little NVRAM.
    pub(crate) fn with_nvram(
        io: &FlashPageStore,
        logical_pages: u32,
        options: DemandPagedMapOptions,
        first_nvram_word: usize,
        entries_per_page: u32,
    ) -> Result<Self> {
        let map = Self::new(logical_pages, io.geometry().page_bytes, options);
        let words = nvram_entries::nvram_words_for_dirty_entries(
            &options,
            io.geometry(),
            logical_pages,
            entries_per_page,
        );
        let in_nvram = NvramEntries::new(io, first_nvram_word, words, logical_pages, entries_per_page)?;
        // With fewer words than logical pages, entries of moved pages may have to be written although all fit the
        // cache.
        let writes = words < logical_pages.into() || map.max_metadata_pages_per_access > 0;
        let max_metadata_pages_per_access =
            if writes { map.table.max_pages_per_translation_write() } else { 0 };
        Ok(Self { dirty_entries_in_nvram: Some(in_nvram), max_metadata_pages_per_access, ..map })
    }

    /// Returns the options of the demand-paged map.
    pub fn options(&self) -> &DemandPagedMapOptions {
        &self.options
    }

    /// Returns the counts of hits, misses and writes of translation pages since they were last cleared.
    pub fn counts(&self) -> MapCacheCounts {
        self.counts
    }

    /// Sets the counts of hits, misses and writes of translation pages to zero; the cache of map entries is unchanged.
    pub fn clear_cache_counts(&mut self) {
        self.counts = MapCacheCounts::default();
    }

    /// Returns the number of translation pages of the whole L2P table.
    pub fn translation_pages(&self) -> u32 {
        self.table.translation_pages()
    }

    /// Returns the number of map entries that are in the cache now.
    pub fn cached_entries(&self) -> usize {
        self.cache.len()
    }

    /// Returns the number of map entries in the cache that are dirty now.
    pub fn dirty_entries(&self) -> u32 {
        self.cache.dirty_entries()
    }

    /// Returns the number of changes of map entries from one checkpoint of the map (early write of entries that are
    /// dirty for long) to the next.
    pub fn changes_per_checkpoint(&self) -> u32 {
        self.options.max_dirty_entries.unwrap_or(self.options.cache_entries).min(self.options.cache_entries)
    }

    /// Reads, from the spare area of the translation page at `version`, the sequence number of a flash program. All map
    /// entries that were dirty when this version was written were changed after this program.
    ///
    /// # Errors
    /// Any error of the flash.
    pub(crate) fn read_program_sequence_before_all_dirty_entries(
        io: &mut FlashPageStore,
        version: Ppn,
    ) -> Result<u64> {
        let mut page = vec![0; io.geometry().page_bytes as usize + SPARE_SEQUENCE_BYTES];
        io.read(version, &mut page, Cause::Recovery)?;
        Ok(decode_spare_sequence(&page))
    }

    /// Sets, after a recovery, the sequence number of a flash program after which all dirty entries of the map were
    /// changed.
    pub(crate) fn set_program_sequence_before_all_dirty_entries(&mut self, sequence: u64) {
        (self.program_sequence_before_all_dirty_entries, self.checkpoint_sequence) = (sequence, sequence);
    }

    /// Writes translation page `id`, whose entries are loaded. If the map makes checkpoints, the spare area of the page
    /// gets a sequence number: the map entries that are still dirty in the cache after this write were all changed by
    /// programs with higher numbers.
    fn write_loaded_translation_page(
        &mut self,
        io: &mut FlashPageStore,
        id: u32,
        cause: Cause,
    ) -> Result<()> {
        self.trimmed_range.drop_entries_of(id);
        let note = self.options.makes_checkpoints.then_some(self.program_sequence_before_all_dirty_entries);
        self.table.write_translation_page(io, id, note, cause)
    }

    /// Limits the number of unidentified invalid pages (overwritten, but not yet reported as invalid) to `pages`,
    /// because the device has no spare room for more.
    pub(crate) fn limit_unidentified_invalid_pages(&mut self, pages: u64) {
        self.max_unidentified_invalid_pages = u32::try_from(pages).unwrap_or(u32::MAX);
    }

    /// Removes and returns one of the invalid pages that the map found when it wrote translation pages; `None` if there
    /// is none.
    #[inline]
    pub(crate) fn take_identified_invalid_page(&mut self) -> Option<IdentifiedInvalidPage> {
        self.identified_invalid_pages.pop()
    }

    /// Drops the map's cache of entries and its directory of translation pages, as a loss of RAM does. The copy of the
    /// dirty entries in NVRAM stays.
    pub(crate) fn drop_ram_state(&mut self) {
        let (logical_pages, hidden_limit) = (self.logical_pages(), self.max_unidentified_invalid_pages);
        let (max_metadata_pages_per_access, mut in_nvram) =
            (self.max_metadata_pages_per_access, self.dirty_entries_in_nvram.take());
        if let Some(in_nvram) = &mut in_nvram {
            in_nvram.drop_ram_state();
        }
        let new = Self::new(logical_pages, self.table.page_bytes(), self.options);
        *self = Self {
            max_unidentified_invalid_pages: hidden_limit,
            max_metadata_pages_per_access,
            dirty_entries_in_nvram: in_nvram,
            marks_entries_mapped_without_program: self.marks_entries_mapped_without_program,
            ..new
        };
    }

    /// Reloads the dirty map entries from NVRAM into the cache, after [`DemandPagedMap::drop_ram_state`].
    ///
    /// # Errors
    /// [`Error::Damaged`] for a word with an impossible logical page, or with a logical page that another word has.
    pub(crate) fn reload_dirty_entries(&mut self, io: &FlashPageStore) -> Result<()> {
        let logical_pages = self.logical_pages();
        let Some(in_nvram) = &mut self.dirty_entries_in_nvram else {
            unreachable!("only what is in NVRAM is reloaded")
        };
        let mut taken = Vec::new();
        for (word, entry) in in_nvram.entries_by_word(io) {
            let Some((lpn, unit)) = entry else { continue };
            let refused = if lpn.0 >= logical_pages {
                Some(format!("but the device has only {logical_pages} logical pages"))
            } else {
                self.cache.find_slot(lpn).map(|_| "which another word names too".to_owned())
            };
            if let Some(why) = refused {
                return Err(Error::Damaged(format!(
                    "word {word} of the dirty map entries in NVRAM must name an existing logical page, and each only \
                     once, but names logical page {lpn}, {why}"
                )));
            }
            let slot = self.cache.insert_dirty(lpn, unit, false);
            *self.cache.nvram_word_number_mut(slot) = word;
            taken.push(word);
        }
        in_nvram.rebuild_free_word_list(taken.into_iter());
        Ok(())
    }

    /// Checks that the map entries in NVRAM are exactly the dirty entries of the cache. For audits.
    pub(crate) fn check_nvram(&self, io: &FlashPageStore) -> std::result::Result<(), String> {
        let Some(in_nvram) = &self.dirty_entries_in_nvram else { return Ok(()) };
        let dirty = (0..self.table.translation_pages()).flat_map(|id| self.cache.dirty_slots_of_page(id));
        for slot in dirty {
            let CachedEntry { lpn, unit, nvram_word_number, .. } = *self.cache.entry(slot);
            if in_nvram.entry_in_nvram(io, nvram_word_number) != Some((lpn, unit)) {
                return Err(format!(
                    "the map entry of logical page {lpn}, which names location {unit}, is dirty in the cache in RAM, \
                     so it must be in NVRAM, too, but is not"
                ));
            }
        }
        let (words, entries) = (in_nvram.used_words(), self.cache.dirty_entries());
        if words == entries {
            return Ok(());
        }
        Err(format!(
            "the number of NVRAM words that hold dirty map entries is {words}, but must be {entries}, the number of \
             map entries that are dirty in the cache in RAM"
        ))
    }

    /// Stores the new location `unit` of the map entry in cache slot `slot` in NVRAM, if dirty entries are kept there.
    /// Must be called before RAM is changed, so that this store is the commit point of the change.
    fn store_entry_in_nvram(
        &mut self,
        io: &mut FlashPageStore,
        slot: CacheSlot,
        unit: StoredUnit,
    ) -> Result<()> {
        let Some(in_nvram) = &mut self.dirty_entries_in_nvram else { return Ok(()) };
        let lpn = self.cache.entry(slot).lpn;
        in_nvram.store_entry(io, self.cache.nvram_word_number_mut(slot), lpn, unit)
    }

    fn logical_pages(&self) -> u32 {
        self.table.lpn_range_of(self.table.translation_pages() - 1).end
    }

    /// Sets, in the map's directory, the PPN of translation page `id` that recovery found.
    pub(crate) fn set_translation_page_ppn(&mut self, id: u32, ppn: Ppn) {
        self.table.set_metadata_page_ppn(id, ppn);
    }

    /// Returns the PPN of translation page `id`; `None` if it was never written.
    pub(crate) fn translation_page_ppn(&self, id: u32) -> Option<Ppn> {
        self.table.translation_page_ppn(id)
    }

    /// Returns the number of the translation page that holds the map entry of `lpn`.
    pub(crate) fn translation_page_of(&self, lpn: Lpn) -> u32 {
        self.cache.translation_page_of(lpn)
    }

    /// Returns the index of the map entry of `lpn` among the entries of its translation page.
    pub(crate) fn index_on_translation_page(&self, lpn: Lpn) -> usize {
        (lpn.0 - self.table.lpn_range_of(self.translation_page_of(lpn)).start) as usize
    }

    /// Decodes all map entries of translation page `id` from its `bytes`, as (logical page, location), unmapped ones
    /// included.
    pub(crate) fn decode_entries(&self, id: u32, bytes: &[u8]) -> impl Iterator<Item = (Lpn, StoredUnit)> {
        self.decode_entries_with_marks(id, bytes)
            .map(|(lpn, entry)| (lpn, self.unit_named_by_map_entry(entry)))
    }

    /// Decodes all map entries of translation page `id` from its `bytes`, as (logical page, location). Unmapped entries
    /// are included. A location keeps the bind mark, the bit that is set if the logical page was mapped without a
    /// program.
    pub(crate) fn decode_entries_with_marks(
        &self,
        id: u32,
        bytes: &[u8],
    ) -> impl Iterator<Item = (Lpn, StoredUnit)> {
        self.table.lpn_range_of(id).zip(0..).map(|(lpn, k)| (Lpn(lpn), decode_entry(bytes, k)))
    }

    /// Returns the dirty entries of logical pages that were mapped without a program, in the order of logical pages
    /// within each translation page. The entries keep the bit that marks such mappings.
    pub(crate) fn dirty_entries_mapped_without_program(&self) -> Vec<(Lpn, StoredUnit)> {
        let slots = (0..self.table.translation_pages()).flat_map(|id| self.cache.dirty_slots_of_page(id));
        let entries = slots.map(|slot| self.cache.entry(slot)).map(|entry| (entry.lpn, entry.unit));
        entries.filter(|&(_, entry)| self.is_entry_mapped_without_program(entry)).collect()
    }

    /// Decodes from `bytes`, the content of translation page `id`, the map entries of logical pages that were mapped
    /// without a program. The entries keep the bit that marks such mappings. Leaves out logical pages with a dirty
    /// entry in the cache. For the audit.
    pub(crate) fn clean_entries_mapped_without_program(
        &self,
        id: u32,
        bytes: &[u8],
    ) -> Vec<(Lpn, StoredUnit)> {
        self.decode_entries_with_marks(id, bytes)
            .filter(|&(lpn, entry)| self.is_entry_mapped_without_program(entry) && !self.has_dirty_entry(lpn))
            .collect()
    }

    /// Returns whether the map entry of `lpn` is in the cache and dirty.
    pub(crate) fn has_dirty_entry(&self, lpn: Lpn) -> bool {
        self.cache.find_slot(lpn).is_some_and(|slot| self.cache.entry(slot).is_dirty)
    }

    /// Decodes, from the `bytes` of translation page `id`, the map entries of mapped logical pages, as (logical page,
    /// location). For recovery and audits.
    pub(crate) fn decode_mapped_entries(&self, id: u32, bytes: &[u8]) -> Vec<(Lpn, StoredUnit)> {
        self.decode_entries(id, bytes).filter(|(_, unit)| unit.to_option().is_some()).collect()
    }

    /// Returns the location of `lpn` if its map entry is cached, `None` if not; [`StoredUnit::NONE`] if the cached
    /// entry says that `lpn` is unmapped.
    pub(crate) fn cached_unit(&self, lpn: Lpn) -> Option<StoredUnit> {
        self.cached_entry(lpn).map(|entry| self.unit_named_by_map_entry(entry))
    }

    /// Returns the map entry of `lpn` if it is cached, with the bind mark (bit of a mapping without a program) that it
    /// may have.
    pub(crate) fn cached_entry(&self, lpn: Lpn) -> Option<StoredUnit> {
        self.cache.find_slot(lpn).map(|slot| self.cache.entry(slot).unit)
    }

    /// Returns whether the table on flash holds for `lpn` the location of an earlier version that is still counted as
    /// valid (an unidentified invalid page).
    pub(crate) fn has_unidentified_invalid_page(&self, lpn: Lpn) -> bool {
        self.cache.find_slot(lpn).is_some_and(|slot| self.cache.entry(slot).has_unidentified_invalid_page)
    }

    /// Writes translation page `id` once more with its present content on flash, under a new sequence number. Dirty
    /// cached entries of the page are not included and stay dirty.
    pub(crate) fn rewrite_translation_page(&mut self, io: &mut FlashPageStore, id: u32) -> Result<()> {
        if id >= self.table.translation_pages() {
            return Ok(());
        }
        self.table.load_entries(io, id, std::iter::empty(), Cause::Translation)?;
        self.write_loaded_translation_page(io, id, Cause::Translation)
    }

    /// Returns the locations (flash pages or chunk members) in all dirty entries of the map cache.
    pub(crate) fn locations_of_dirty_entries(&self) -> Vec<StoredUnit> {
        (0..self.table.translation_pages())
            .flat_map(|id| self.cache.dirty_slots_of_page(id).map(|slot| self.cache.entry(slot).unit))
            .collect()
    }

    /// Restores in the cache a dirty map entry that recovery found in the map's journal: the table on flash lacks the
    /// change, and no earlier version of the logical page is still counted as valid.
    pub(crate) fn restore_journalled_entry(&mut self, lpn: Lpn, unit: StoredUnit) {
        self.cache.insert_dirty(lpn, unit, false);
    }

    /// Restores in the cache a dirty map entry that recovery found in the spare area of a data page: the table on flash
    /// lacks the change, and it is unknown whether the earlier version of the logical page was reported as invalid.
    pub(crate) fn restore_entry_from_spare_area(&mut self, lpn: Lpn, unit: StoredUnit) {
        let slot = self.cache.insert_dirty(lpn, unit, true);
        self.cache.mark_invalidation_report_uncertain(slot);
    }

    /// Maps `lpn` to `unit` while the initial state of a drive is constructed (pages are placed without executing
    /// writes). Returns the old location. Causes no flash operation before [`DemandPagedMap::finish_construction`].
    pub(crate) fn set_entry_of_initial_drive_state(&mut self, lpn: Lpn, unit: StoredUnit) -> StoredUnit {
        let pages = self.logical_pages();
        self.initial_state_map.get_or_insert_with(|| InitialStateMap::new(pages)).replace(lpn, unit)
    }

    /// Writes all translation pages of the L2P map that was built in RAM with
    /// [`DemandPagedMap::set_entry_of_initial_drive_state`].
    pub(crate) fn finish_construction(&mut self, io: &mut FlashPageStore) -> Result<()> {
        let Some(mut map) = self.initial_state_map.take() else { return Ok(()) };
        for id in 0..self.table.translation_pages() {
            let lpns = self.table.lpn_range_of(id);
            map.free_map_table_before(Lpn(lpns.start));
            self.table.load_entries(io, id, lpns.clone().map(Lpn), Cause::Translation)?;
            for (k, lpn) in lpns.map(Lpn).enumerate() {
                self.table.set_loaded_entry(k, map.get(lpn));
            }
            self.write_loaded_translation_page(io, id, Cause::Translation)?;
        }
        Ok(())
    }

    /// Returns whether the map is lazy: it identifies the page that an overwrite made invalid only when it writes the
    /// translation page.
    #[inline]
    fn defers_invalid_page_identification(&self) -> bool {
        self.options.identification == InvalidPageIdentification::AtSynchronisation
    }

    /// Returns the cache slot of the map entry of `lpn`, which becomes the most recently used one. On a miss, reads the
    /// entry from its translation page.
    fn find_or_fetch_entry(&mut self, io: &mut FlashPageStore, lpn: Lpn) -> Result<CacheSlot> {
        if let Some(slot) = self.cache.find_slot(lpn) {
            self.counts.hits += 1;
            self.cache.touch(slot);
            return Ok(slot);
        }
        self.counts.misses += 1;
        // A lazy map writes no translation page between a data page and its entry; it evicts the excess later.
        if !self.defers_invalid_page_identification()
            && self.cache.len() >= self.options.cache_entries as usize
        {
            self.evict_entry(io)?;
        }
        let unit = self.read_entry_from_flash(io, lpn)?;
        self.count_entry_change();
        Ok(self.cache.insert(lpn, unit))
    }

    /// Reads the map entry of `lpn` from its translation page on flash, without caching it.
    fn read_entry_from_flash(&mut self, io: &mut FlashPageStore, lpn: Lpn) -> Result<StoredUnit> {
        let id = self.cache.translation_page_of(lpn);
        if let Some(last) = self.trimmed_range.last_lpn_if_trimmed(lpn) {
            return self.read_entry_of_trim(io, id, lpn, last);
        }
        self.table.load_entries(io, id, std::iter::once(lpn), Cause::Translation)?;
        Ok(self.table.loaded_entry(0))
    }

    /// Returns the map entry of `lpn` on translation page `id`, of a trim whose last page is `last`. If the entry is not
    /// kept, reads it with those of all later pages of the trim on this translation page, and keeps these.
    fn read_entry_of_trim(
        &mut self,
        io: &mut FlashPageStore,
        id: u32,
        lpn: Lpn,
        last: Lpn,
    ) -> Result<StoredUnit> {
        if let Some(entry) = self.trimmed_range.kept_entry(id, lpn) {
            return Ok(entry);
        }
        let last = self.last_lpn_on_same_translation_page(lpn, last);
        let lpns = (lpn.0..=last.0).map(Lpn);
        self.table.load_entries(io, id, lpns.clone(), Cause::Translation)?;
        let entries = (0..lpns.count()).map(|k| self.table.loaded_entry(k));
        self.trimmed_range.keep(id, lpn, entries);
        Ok(self.table.loaded_entry(0))
    }

    /// Evicts the least recently used map entry from the cache. If the entry is dirty, its translation page is written
    /// first. Returns whether it was dirty.
    #[inline]
    fn evict_entry(&mut self, io: &mut FlashPageStore) -> Result<bool> {
        if self.cache.is_eviction_prefetch_due() {
            self.prefetch_entries_to_evict(io);
        }
        let slot = self.cache.least_recently_used_slot().expect("a cache that is full has an oldest entry");
        let CachedEntry { lpn, is_dirty, .. } = *self.cache.entry(slot);
        if is_dirty {
            io.flash_ops.record_metadata_reason(MetadataWriteReason::Eviction);
            self.counts.synchronisations += 1;
            self.synchronise_translation_page(io, self.cache.translation_page_of(lpn), Cause::Translation)?;
        }
        self.cache.remove(slot);
        Ok(is_dirty)
    }

    /// Evicts least recently used map entries until the cache is within its capacity or a dirty entry was evicted.
    /// Returns whether a dirty entry was evicted.
    #[inline]
    fn evict_excess_until_page_written(&mut self, io: &mut FlashPageStore) -> Result<bool> {
        while self.cache.len() > self.options.cache_entries as usize {
            if self.evict_entry(io)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes translation page `id` with all its dirty entries, which are clean afterwards. Compares the entries with
    /// the old version of the page, and adds the invalid pages that it finds to the list of pages to be reported to the
    /// FTL.
    fn synchronise_translation_page(&mut self, io: &mut FlashPageStore, id: u32, cause: Cause) -> Result<()> {
        if self.dirty_entries_in_nvram.is_some() {
            // The records of bound entries follow NVRAM, which must not lag behind the page.
            self.store_gc_moves_in_nvram(io)?;
            // A medium that is a file may restore NVRAM as of its last sync; the page must not name a location that
            // this lacks.
            io.nand_mut().fence()?;
        }
        let dirty = self.cache.dirty_slots_of_page(id).map(|slot| self.cache.entry(slot).lpn);
        self.table.load_entries(io, id, dirty, cause)?;
        let mut changes = 0;
        // Invalid pages found here are reported only if the new version is written: after a failure they are found
        // again.
        let invalid_pages_before = self.identified_invalid_pages.len();
        for (slot, word) in self.cache.dirty_slots_of_page(id).zip(self.table.loaded_entry_words_mut()) {
            let entry = self.cache.entry(slot);
            let on_flash = StoredUnit(std::mem::replace(&mut word.word_value, entry.unit.0));
            changes += u32::from(on_flash != entry.unit);
            if entry.has_unidentified_invalid_page && on_flash != entry.unit && on_flash.to_option().is_some()
            {
                let (ppn, is_certainly_not_yet_reported_invalid) =
                    (Ppn(on_flash.0), !entry.is_invalidation_report_uncertain);
                self.counts.spare_reads_for_uncertain_entries +=
                    u64::from(!is_certainly_not_yet_reported_invalid);
                if is_certainly_not_yet_reported_invalid || is_owner_in_oob(io, ppn, entry.lpn)? {
                    self.identified_invalid_pages
                        .push(IdentifiedInvalidPage { ppn, is_certainly_not_yet_reported_invalid });
                }
            }
        }
        if changes == 0 && self.defers_invalid_page_identification() {
            self.counts.omitted_synchronisations += 1;
        } else if let Err(error) = self.write_loaded_translation_page(io, id, cause) {
            self.identified_invalid_pages.truncate(invalid_pages_before);
            return Err(error);
        }
        self.has_written_page_since_checkpoint |= changes > 0;
        self.record_entries_mapped_without_program(io, id)?;
        let Self { cache, dirty_entries_in_nvram, .. } = self;
        cache.mark_translation_page_clean(id, |word| match dirty_entries_in_nvram {
            Some(in_nvram) => in_nvram.clear_entry(io, word),
            None => Ok(()),
        })
    }

    /// Records in NVRAM those entries that were just written to translation page `id` and whose logical page was mapped
    /// without a program. Must be called before the dirty entries of the page are removed from NVRAM, so that NVRAM has
    /// each of these entries at any time.
    fn record_entries_mapped_without_program(&self, io: &mut FlashPageStore, id: u32) -> Result<()> {
        if !self.marks_entries_mapped_without_program {
            return Ok(());
        }
        for slot in self.cache.dirty_slots_of_page(id) {
            let &CachedEntry { lpn, unit: entry, .. } = self.cache.entry(slot);
            if self.is_entry_mapped_without_program(entry) {
                io.put_content_record(ContentRecord::MapEntryWithoutProgram { lpn, entry })?;
            }
        }
        Ok(())
    }

    /// Writes the translation page with the smallest number, not less than `first`, that has dirty entries. Returns its
    /// number, or `None` if there is no such page.
    pub(super) fn synchronise_next_dirty_page(
        &mut self,
        io: &mut FlashPageStore,
        first: u32,
    ) -> Result<Option<u32>> {
        let has_dirty = |id: &u32| self.cache.dirty_slots_of_page(*id).next().is_some();
        let Some(id) = (first..self.table.translation_pages()).find(has_dirty) else { return Ok(None) };
        self.synchronise_translation_page(io, id, Cause::Translation).map(|()| Some(id))
    }

    /// Prefetches into the CPU cache the cached entries and the entries on flash that updates of `lpns` will access
    /// ([`crate::tables::prefetch`]). Returns the present location of each of `lpns`, [`StoredUnit::NONE`] if it is
    /// unmapped. The result is empty if updates need no old location: for a lazy map, which reads the table only at
    /// evictions, and during the construction of the initial state.
    pub(crate) fn prefetch_entries_for_updates(
        &self,
        io: &FlashPageStore,
        lpns: &[Lpn],
    ) -> ArrayVec<StoredUnit, HOST_WRITES_PER_PREFETCH> {
        if let Some(map) = &self.initial_state_map {
            map.prefetch(lpns);
            return ArrayVec::new();
        }
        self.cache.prefetch(lpns);
        let mut units = ArrayVec::<_, HOST_WRITES_PER_PREFETCH>::new();
        if self.defers_invalid_page_identification() {
            return units;
        }
        let (mut pages, mut words, mut on_flash) = (
            ArrayVec::<_, HOST_WRITES_PER_PREFETCH>::new(),
            ArrayVec::<_, HOST_WRITES_PER_PREFETCH>::new(),
            ArrayVec::<usize, HOST_WRITES_PER_PREFETCH>::new(),
        );
        for (at, &lpn) in lpns.iter().enumerate() {
            let cached = self.cached_unit(lpn);
            units.push(cached.unwrap_or(StoredUnit::NONE));
            let id = self.cache.translation_page_of(lpn);
            if cached.is_none()
                && let Some(place) = self.table.translation_page_ppn(id)
            {
                pages.push((place, 1));
                words.push(self.table.map_entry_word_request(id, lpn));
                on_flash.push(at);
            }
        }
        io.nand().prefetch_page_words(&pages, &mut words);
        for (at, word) in on_flash.into_iter().zip(words) {
            units[at] = self.unit_named_by_map_entry(StoredUnit(word.word_value));
        }
        units
    }

    /// Prefetches into the CPU cache what evicting the least recently used map entries will access
    /// ([`crate::tables::prefetch`]): these entries and the other dirty entries on their translation pages, the
    /// locations that flash has for all of them, and the valid counts of the blocks of these locations.
    #[inline(never)]
    fn prefetch_entries_to_evict(&mut self, io: &FlashPageStore) {
        let mut pages = ArrayVec::<_, TRANSLATION_PAGES_PER_PREFETCH>::new();
        let mut words = ArrayVec::<_, { 4 * TRANSLATION_PAGES_PER_PREFETCH }>::new();
        for id in self.cache.prefetch_eviction_candidates(EVICTIONS_PER_PREFETCH) {
            let Some(place) = self.table.translation_page_ppn(id) else { continue };
            let before = words.len();
            let dirty = self
                .cache
                .dirty_slots_of_page(id)
                .map(|slot| self.table.map_entry_word_request(id, self.cache.entry(slot).lpn));
            words.extend(dirty.take(words.remaining_capacity()));
            pages.push((place, words.len() - before));
        }
        io.nand().prefetch_page_words(&pages, &mut words);
        // Unmapped entries are clamped to the last page, whose block is read in vain: cheaper than a branch.
        let last = io.geometry().pages() - 1;
        let named = words.iter().map(|word| Ppn(u64::from(word.word_value).min(last) as u32));
        load_into_cpu_cache(named.map(|ppn| io.blocks().valid_pages(io.block_of(ppn)).into()));
    }

    /// Counts a change of a cached entry; after a fixed number of changes, a checkpoint is due.
    #[inline]
    fn count_entry_change(&mut self) {
        self.entry_changes_since_checkpoint += u32::from(self.options.makes_checkpoints);
    }

    /// Sets the location of the map entry in cache slot `slot`, which becomes dirty, and returns the old location.
    #[inline]
    fn set_entry_unit(&mut self, slot: CacheSlot, unit: StoredUnit) -> StoredUnit {
        let (old, was_clean) = self.cache.set_mapped_unit(slot, unit);
        self.counts.entries_made_dirty += u64::from(was_clean);
        self.count_entry_change();
        old
    }

    /// Inserts into the cache a dirty map entry of a logical page that is not cached, and counts it.
    #[inline]
    fn insert_dirty(&mut self, lpn: Lpn, unit: StoredUnit, has_unidentified_invalid_page: bool) -> CacheSlot {
        self.counts.entries_made_dirty += 1;
        self.count_entry_change();
        self.cache.insert_dirty(lpn, unit, has_unidentified_invalid_page)
    }

    /// Maps `lpn` to `new` without a flash read. If the map entry was cached, returns the old location. Otherwise
    /// inserts a dirty entry, marks it as having an earlier version of `lpn` that is still counted as valid, and
    /// returns `None`.
    #[inline]
    fn update_lazily(&mut self, lpn: Lpn, new: StoredUnit) -> Option<StoredUnit> {
        if let Some(slot) = self.cache.find_slot(lpn) {
            self.counts.hits += 1;
            self.cache.touch(slot);
            return self.set_entry_unit(slot, new).to_option();
        }
        self.counts.misses += 1;
        self.insert_dirty(lpn, new, true);
        None
    }

    /// Returns whether a translation page must be written although the cache of map entries is within its capacity: a
    /// checkpoint is due, or a bound on dirty entries, unidentified invalid pages or NVRAM words is exceeded.
    #[inline]
    fn is_early_translation_write_due(&self) -> bool {
        (self.defers_invalid_page_identification() || self.dirty_entries_in_nvram.is_some())
            && (self.is_checkpoint_due() || self.exceeds_unwritten_change_limit())
    }

    /// Returns whether a checkpoint (early write of entries that are dirty for long) is in progress or should begin.
    #[inline]
    fn is_checkpoint_due(&self) -> bool {
        let is_over = self.entry_changes_since_checkpoint >= self.changes_per_checkpoint();
        self.options.makes_checkpoints && (self.is_in_checkpoint || is_over)
    }

    /// Returns whether a bound on changes that are not on flash is exceeded: on dirty entries, unidentified invalid
    /// pages or NVRAM words.
    #[inline]
    fn exceeds_unwritten_change_limit(&self) -> bool {
        let dirty_limit = self.options.max_dirty_entries.unwrap_or(u32::MAX);
        self.cache.dirty_entries() > dirty_limit
            || self.cache.unidentified_invalid_pages() > self.max_unidentified_invalid_pages
            || self.is_nvram_nearly_full()
    }

    /// Writes one translation page if a checkpoint of the map (early write of entries that are dirty for long) is due,
    /// or if changes that are not on flash exceed a bound. Returns `false` if none was written.
    #[cold]
    fn write_due_translation_page(&mut self, io: &mut FlashPageStore) -> Result<bool> {
        if self.is_checkpoint_due() && self.checkpoint_step(io)? {
            return Ok(true);
        }
        if !self.exceeds_unwritten_change_limit() {
            return Ok(false);
        }
        let slot = self.cache.least_recently_changed_slot().expect("only dirty entries are counted");
        io.flash_ops.record_metadata_reason(MetadataWriteReason::MapEntryLimit);
        self.counts.synchronisations += 1;
        let id = self.cache.translation_page_of(self.cache.entry(slot).lpn);
        self.synchronise_translation_page(io, id, Cause::Translation).map(|()| true)
    }

    /// Writes one translation page that has an entry dirty since before the last checkpoint of the map. If there is no
    /// such page, ends the checkpoint: sets the mark that separates the changes so far from later ones, and returns
    /// `false`.
    fn checkpoint_step(&mut self, io: &mut FlashPageStore) -> Result<bool> {
        self.is_in_checkpoint = true;
        // If nothing was written since the last checkpoint, write one page, so that the newest note is at most two
        // checkpoints old.
        let to_note = if self.has_written_page_since_checkpoint {
            None
        } else {
            self.cache.least_recently_changed_slot()
        };
        let Some(slot) = self.cache.oldest_dirty_slot_before_checkpoint().or(to_note) else {
            self.cache.end_checkpoint();
            (self.program_sequence_before_all_dirty_entries, self.checkpoint_sequence) =
                (self.checkpoint_sequence, io.last_sequence());
            (
                self.is_in_checkpoint,
                self.entry_changes_since_checkpoint,
                self.has_written_page_since_checkpoint,
            ) = (false, 0, false);
            return Ok(false);
        };
        io.flash_ops.record_metadata_reason(MetadataWriteReason::MapCheckpoint);
        self.counts.checkpoint_synchronisations += 1;
        let id = self.cache.translation_page_of(self.cache.entry(slot).lpn);
        self.synchronise_translation_page(io, id, Cause::Checkpoint).map(|()| true)
    }

    /// Returns the last logical page, at most `last`, whose map entry is on the translation page of `first`.
    fn last_lpn_on_same_translation_page(&self, first: Lpn, last: Lpn) -> Lpn {
        Lpn(last.0.min(self.table.lpn_range_of(self.cache.translation_page_of(first)).end - 1))
    }
}

/// Returns whether the spare area of the data page at `page` still names `lpn` as owner. If not, the page was erased
/// and reused since it was reported as invalid.
pub(crate) fn is_owner_in_oob(io: &mut FlashPageStore, page: Ppn, lpn: Lpn) -> Result<bool> {
    let found = io.read_spare_if_readable(page, Cause::Translation)?;
    Ok(found.is_some_and(|oob| oob.kind == PageKind::Data && oob.owner == lpn.0))
}

impl Mapping for DemandPagedMap {
    fn lookup(&mut self, io: &mut FlashPageStore, lpn: Lpn) -> Result<Option<StoredUnit>> {
        let slot = self.find_or_fetch_entry(io, lpn)?;
        Ok(self.unit_named_by_map_entry(self.cache.entry(slot).unit).to_option())
    }

    fn lookup_without_caching(&mut self, io: &mut FlashPageStore, lpn: Lpn) -> Result<Option<StoredUnit>> {
        if let Some(unit) = self.cached_unit(lpn) {
            return Ok(unit.to_option());
        }
        let entry = self.read_entry_from_flash(io, lpn)?;
        Ok(self.unit_named_by_map_entry(entry).to_option())
    }

    fn update(
        &mut self,
        io: &mut FlashPageStore,
        lpn: Lpn,
        new: Option<StoredUnit>,
    ) -> Result<Option<StoredUnit>> {
        if self.defers_invalid_page_identification() {
            let new = new.expect("a lazy map deallocates pages by trim_in_one_translation_page only");
            return Ok(self.update_lazily(lpn, new));
        }
        let (slot, new) = (self.find_or_fetch_entry(io, lpn)?, new.unwrap_or(StoredUnit::NONE));
        if self.dirty_entries_in_nvram.is_some() {
            let entry = self.cache.entry(slot).unit;
            if entry == new {
                return Ok(self.unit_named_by_map_entry(new).to_option());
            }
            if io.are_change_notes_full() {
                self.store_gc_moves_in_nvram(io)?;
            }
            io.write_note_of_replaced_unit(self.unit_named_by_map_entry(entry))?;
            self.store_entry_in_nvram(io, slot, new)?;
            if self.is_entry_mapped_without_program(entry) && !self.is_entry_mapped_without_program(new) {
                io.remove_content_record_later(ContentRecordKey::MapEntryWithoutProgramOf(lpn));
            }
        }
        let old = self.set_entry_unit(slot, new);
        Ok(self.unit_named_by_map_entry(old).to_option())
    }

    fn begin_trim(&mut self, first: Lpn, last: Lpn) {
        self.trimmed_range.begin(first, last);
    }

    fn end_trim(&mut self) {
        self.trimmed_range.end();
    }

    fn identifies_invalid_pages_late(&self) -> bool {
        self.defers_invalid_page_identification()
    }

    /// Deallocates logical pages whose map entries are on one translation page, in two writes of that page. The first
    /// write puts all dirty entries of the translation page, also those outside the range, into the table: a recovery
    /// that compares successive versions of the page then finds every replaced location. The second write removes the
    /// deallocated entries.
    fn trim_in_one_translation_page(
        &mut self,
        io: &mut FlashPageStore,
        first: Lpn,
        last: Lpn,
    ) -> Result<Option<Lpn>> {
        let last = self.last_lpn_on_same_translation_page(first, last);
        let id = self.cache.translation_page_of(first);
        io.flash_ops.record_metadata_reason(MetadataWriteReason::Trim);
        if self.cache.dirty_slots_of_page(id).next().is_some() {
            return self.synchronise_translation_page(io, id, Cause::Translation).map(|()| None);
        }
        let lpns = (first.0..=last.0).map(Lpn);
        self.table.load_entries(io, id, lpns.clone(), Cause::Translation)?;
        let mut dropped = Vec::new();
        for k in 0..lpns.clone().count() {
            let place = self.table.loaded_entry(k).to_option();
            dropped.extend(place.map(|unit| IdentifiedInvalidPage {
                ppn: Ppn(unit.0),
                is_certainly_not_yet_reported_invalid: true,
            }));
            self.table.set_loaded_entry(k, StoredUnit::NONE);
        }
        if !dropped.is_empty() {
            self.write_loaded_translation_page(io, id, Cause::Translation)?;
            self.identified_invalid_pages.extend(dropped);
        }
        for lpn in lpns {
            if let Some(slot) = self.cache.find_slot(lpn) {
                self.cache.remove(slot);
            }
        }
        Ok(Some(last))
    }

    fn record_gc_move(&mut self, lpn: Lpn, new: StoredUnit) {
        let slot = if let Some(slot) = self.cache.find_slot(lpn) {
            self.cache.touch(slot);
            self.set_entry_unit(slot, new);
            slot
        } else {
            // The table names the moved page, which is about to be erased, so no invalid page has to be reported.
            self.insert_dirty(lpn, new, false)
        };
        if let Some(in_nvram) = &mut self.dirty_entries_in_nvram {
            in_nvram.moved_entries.push((lpn, slot));
        }
    }

    fn store_gc_moves_in_nvram(&mut self, io: &mut FlashPageStore) -> Result<()> {
        let Self { dirty_entries_in_nvram: Some(in_nvram), cache, .. } = self else { return Ok(()) };
        while let Some(&(moved_lpn, slot)) = in_nvram.moved_entries.last() {
            // An entry that is clean again, or was evicted, is on flash. The slot of an evicted one is free (clean) or
            // has the entry of another logical page.
            let CachedEntry { lpn, unit, is_dirty, .. } = *cache.entry(slot);
            if is_dirty && lpn == moved_lpn {
                in_nvram.store_entry(io, cache.nvram_word_number_mut(slot), lpn, unit)?;
            }
            in_nvram.moved_entries.pop();
        }
        io.apply_waiting_content_record_changes()
    }

    #[inline]
    fn is_nvram_nearly_full(&self) -> bool {
        self.dirty_entries_in_nvram.as_ref().is_some_and(NvramEntries::is_nvram_nearly_full)
    }

    fn prefetch(&self, lpns: &[Lpn]) {
        self.cache.prefetch(lpns);
    }

    fn is_unidentified_invalid_page(&self, lpn: Lpn, ppn: Ppn) -> bool {
        self.cache.find_slot(lpn).is_some_and(|slot| {
            let entry = self.cache.entry(slot);
            entry.has_unidentified_invalid_page && entry.unit != StoredUnit::from(ppn)
        })
    }

    /// Clears the flag that an earlier version of the logical page `lpn` still counts as valid, because the block with
    /// this version is about to be erased. If the map reported the version as invalid after the erase, it would
    /// invalidate the page that has been written to the same PPN since.
    ///
    /// The flag is not cleared in an entry that a recovery created: several earlier versions may still count as valid,
    /// and the map reads the spare area before it reports any of them.
    fn clear_unidentified_invalid_page_flag(&mut self, lpn: Lpn) {
        if let Some(slot) = self.cache.find_slot(lpn)
            && !self.cache.entry(slot).is_invalidation_report_uncertain
        {
            self.cache.set_has_unidentified_invalid_page(slot, false);
        }
    }

    fn holds_current_metadata_page(&self, id: u32, ppn: Ppn) -> bool {
        self.table.holds_current_metadata_page(id, ppn)
    }

    fn record_metadata_page_move(&mut self, id: u32, new: Ppn) {
        self.table.set_metadata_page_ppn(id, new);
    }

    #[inline]
    fn execute_next_deferred_map_write(&mut self, io: &mut FlashPageStore) -> Result<bool> {
        if self.is_early_translation_write_due() && self.write_due_translation_page(io)? {
            return Ok(true);
        }
        self.evict_excess_until_page_written(io)
    }

    fn has_unwritten_changes(&self) -> bool {
        self.cache.has_dirty_entries() || self.table.has_dirty_directory_node()
    }

    fn write_back_step(&mut self, io: &mut FlashPageStore) -> Result<bool> {
        io.flash_ops.record_metadata_reason(MetadataWriteReason::WriteBack);
        match self.cache.find_first_dirty_translation_page() {
            Some(id) => self.synchronise_translation_page(io, id, Cause::Translation).map(|()| true),
            None => self.table.write_one_changed_directory_node(io, Cause::Translation),
        }
    }

    #[inline]
    fn max_metadata_pages_per_access(&self) -> u32 {
        self.max_metadata_pages_per_access
    }

    fn max_metadata_pages(&self) -> u64 {
        // If the cache holds all entries, these pages are written only at a battery flush.
        self.table.max_metadata_pages()
    }

    fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        let cache = ("cached mapping table", self.options.cache_entries as u64 * CACHE_ENTRY_BYTES_IN_DRIVE);
        vec![cache, self.table.named_ram_bytes()]
    }
}

#[cfg(test)]
mod tests {
    use super::{DemandPagedMap, DemandPagedMapOptions};
    use crate::address::{Lpn, StoredUnit};

    /// Regression: a map without checkpoints counted changes since the last one for ever, and the count overflowed.
    #[test]
    fn only_a_map_with_checkpoints_counts_the_changes_since_the_last() {
        for makes_checkpoints in [false, true] {
            let options =
                DemandPagedMapOptions { makes_checkpoints, ..DemandPagedMapOptions::with_cache_capacity(4) };
            let mut map = DemandPagedMap::new(4, 512, options);
            let slot = map.insert_dirty(Lpn(0), StoredUnit(0), false);
            map.set_entry_unit(slot, StoredUnit(1));
            assert_eq!(map.entry_changes_since_checkpoint, if makes_checkpoints { 2 } else { 0 });
        }
    }
}
