//! Sharing of stored pages: several logical pages are mapped to one stored page.
//!
//! A *bind* maps a logical page to stored content without a program. Both deduplication and the host's remap command
//! (Remap-SSD) end in `Ftl::bind`: one entry in the reverse map (the commit point), one change of the map, one
//! reference more. A bind is *demoted* if it cannot be recorded, or if it would give a page too many referrers: then
//! the caller writes instead, which only the counters show.
//!
//! The cost: a page may still be needed after the logical page in its OOB was mapped elsewhere. So no component may
//! take the OOB as proof of the referrers (GC and recovery query the reverse map), and an overwrite invalidates a page
//! only if it removes the last referrer.
//!
//! Invariants: the reference count of a page equals the number of logical pages mapped to it. A logical page is marked
//! as mapped without a program exactly while a reverse-map entry gave it its present flash page. The content index
//! contains valid pages only.

pub mod counts;
pub mod reverse_map;

use crate::address::{BlockId, Lpn, Ppn, StoredUnit};
use crate::content::dedup::{ContentIndex, DedupOptions};
use crate::data::Fingerprint;
use crate::error::Result;
use crate::mapping::AnyMapping;
use crate::sharing::counts::{ReferenceCountForm, ReferenceCounts};
use crate::sharing::reverse_map::{
    AnyReverseMap, EntryLayout, EntryLiveness, RemapCommand, ReverseMap, ReverseMapEntry, ReverseMapKind,
};
use crate::store::FlashPageStore;
use crate::tables::PageSet;
use crate::tables::prefetch::load_into_cpu_cache;

/// Options of a design that maps several logical pages to one physical page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharingOptions {
    /// Kind of reverse map, which records the logical pages that refer to a physical page.
    pub reverse_map: ReverseMapKind,
    /// Form of the reference counts, the number of logical pages that refer to a physical page.
    pub reference_count_form: ReferenceCountForm,
    /// In-line deduplication of host writes; `None` means that only the host's remap command makes logical pages share
    /// a page.
    pub dedup: Option<DedupOptions>,
    /// Whether a remap command of several pages is atomic, for which reverse-map entries take 24 bytes (Remap-SSD,
    /// section 4.3).
    pub has_atomic_remap_commands: bool,
}

impl SharingOptions {
    /// Returns the layout of reverse-map entries: with a third word if remap commands are atomic.
    fn entry_layout(&self) -> EntryLayout {
        if self.has_atomic_remap_commands {
            EntryLayout::WithRemapCommand
        } else {
            EntryLayout::WithoutRemapCommand
        }
    }
}

/// State of a design in which several logical pages can be mapped to one stored page: reference counts, reverse map,
/// bitmap of the logical pages mapped without a program, and content index.
#[derive(Clone, Debug)]
pub(crate) struct PageSharingState {
    /// Number of logical pages that are mapped to each stored unit (flash page or chunk member).
    pub(crate) reference_counts: ReferenceCounts,
    /// Record of the logical pages that were mapped to stored pages without a program.
    pub(crate) reverse_map: AnyReverseMap,
    /// State by which the liveness of reverse-map entries is decided.
    liveness_basis: EntryLivenessBasis,
    /// Index of stored contents by fingerprint; `None` if the design does not deduplicate.
    pub(crate) content_index: Option<ContentIndex>,
    /// Whether deduplication is on, so that host writes are served by hits in the content index (hash table of stored
    /// contents).
    pub(crate) is_deduplication_on: bool,
    /// Options of sharing (several logical pages mapped to one stored page) that the design sets.
    pub(crate) options: SharingOptions,
    /// Reverse-map entries of the current GC victim. The vector is kept between collections so that it need not be
    /// allocated again.
    pub(crate) victim_reverse_map_entries: Vec<ReverseMapEntry>,
    /// Block whose reverse-map entries are in [`PageSharingState::victim_reverse_map_entries`]; `None` if none were
    /// loaded.
    pub(crate) block_of_loaded_victim_entries: Option<BlockId>,
    /// Whether the reverse map has room to record the entries of the GC victim again, for the new flash pages
    /// ([`PageSharingState::victim_reverse_map_entries`]).
    pub(crate) has_room_to_record_victim_entries_again: bool,
}

impl PageSharingState {
    /// Creates the state of sharing for a device of `logical_pages` pages on which no logical page is mapped yet.
    pub(crate) fn new(store: &FlashPageStore, logical_pages: u32, design: SharingOptions) -> Result<Self> {
        Ok(Self {
            reference_counts: ReferenceCounts::new(design.reference_count_form, store.geometry().pages()),
            reverse_map: AnyReverseMap::new(store, design.reverse_map, design.entry_layout())?,
            liveness_basis: EntryLivenessBasis {
                lpns_mapped_without_program: PageSet::new(logical_pages as u64),
                block_opening_sequence_lower_bound: 0,
            },
            // Without a reverse map no page can be bound, so there is no content index.
            content_index: design
                .dedup
                .filter(|_| design.reverse_map != ReverseMapKind::OobOnly)
                .map(|dedup| ContentIndex::new(dedup.capacity_entries, logical_pages)),
            is_deduplication_on: true,
            options: design,
            victim_reverse_map_entries: Vec::new(),
            block_of_loaded_victim_entries: None,
            has_room_to_record_victim_entries_again: true,
        })
    }

    /// Returns whether this design can map logical pages to stored content without a program. `false` if the OOB alone
    /// tells which logical page a page belongs to.
    pub(crate) fn can_map_without_program(&self) -> bool {
        self.options.reverse_map != ReverseMapKind::OobOnly
    }

    /// Returns whether `lpn` is mapped to its present page without a program, that is, by a reverse-map entry.
    #[inline]
    pub(crate) fn is_mapped_without_program(&self, lpn: Lpn) -> bool {
        self.liveness_basis.lpns_mapped_without_program.contains(Ppn(lpn.0))
    }

    /// Prefetches the entries of the sharing tables that overwriting `lpns` will access, so that their cache misses
    /// overlap ([`crate::tables::prefetch`]). `units` and `contents` are the present locations and contents of these
    /// logical pages.
    pub(crate) fn prefetch_sharing_table_entries(
        &self,
        lpns: &[Lpn],
        units: &[StoredUnit],
        contents: &[Fingerprint],
    ) {
        load_into_cpu_cache(lpns.iter().map(|&lpn| self.is_mapped_without_program(lpn).into()));
        load_into_cpu_cache(
            units.iter().map(|&unit| self.reference_counts.referrers_beyond_first(unit).into()),
        );
        if let Some(index) = &self.content_index {
            index.prefetch_index_removals(contents.iter().copied());
        }
    }

    /// Marks `lpn` as mapped to its present page without a program, that is, by a reverse-map entry.
    pub(crate) fn mark_mapped_without_program(&mut self, lpn: Lpn) {
        self.liveness_basis.lpns_mapped_without_program.insert(Ppn(lpn.0));
    }

    /// Makes room in the reverse map for one more entry of a host request, and returns whether there is room; see
    /// [`ReverseMap::make_room_for_entry`].
    pub(crate) fn make_room_for_entry(
        &mut self,
        mapping: &AnyMapping,
        io: &mut FlashPageStore,
    ) -> Result<bool> {
        self.reverse_map.make_room_for_entry(io, &|entry| self.liveness_basis.liveness(mapping, entry))
    }

    /// Cleans pages of a reverse-map log that recovery found longer than it may be; see
    /// [`ReverseMap::clean_excess_log_page`].
    pub(crate) fn clean_excess_log_pages(
        &mut self,
        mapping: &AnyMapping,
        io: &mut FlashPageStore,
    ) -> Result<()> {
        let liveness = |entry: &ReverseMapEntry| self.liveness_basis.liveness(mapping, entry);
        while self.reverse_map.clean_excess_log_page(io, &liveness)? {}
        Ok(())
    }

    /// Records a bind (mapping without a program) or trim as an entry in the reverse map; see
    /// [`ReverseMap::record_entry`].
    pub(crate) fn record_entry(
        &mut self,
        mapping: &AnyMapping,
        io: &mut FlashPageStore,
        entry: ReverseMapEntry,
    ) -> Result<()> {
        self.reverse_map.record_entry(io, entry, &|entry| self.liveness_basis.liveness(mapping, entry))
    }

    /// Makes room in the reverse map for an atomic remap command with one entry for each of the physical pages
    /// `places`, and returns whether there is room; see [`ReverseMap::make_room_for_remap_entries`].
    pub(crate) fn make_room_for_remap_command(
        &mut self,
        mapping: &AnyMapping,
        io: &mut FlashPageStore,
        places: &[Option<Ppn>],
    ) -> Result<bool> {
        self.reverse_map
            .make_room_for_remap_entries(io, places, &|entry| self.liveness_basis.liveness(mapping, entry))
    }

    /// Records the entries of an atomic remap command in the reverse map; see [`ReverseMap::record_remap_entries`].
    pub(crate) fn record_remap_command(
        &mut self,
        io: &mut FlashPageStore,
        command: RemapCommand,
        entries: &[ReverseMapEntry],
    ) -> Result<()> {
        self.reverse_map.record_remap_entries(io, command, entries)
    }

    /// Returns which meanings of a reverse-map entry still hold: its mapping (the logical page is still mapped to the
    /// flash page), its tombstone (record of a trim), both or neither.
    pub(crate) fn liveness_of(&self, mapping: &AnyMapping, entry: &ReverseMapEntry) -> EntryLiveness {
        self.liveness_basis.liveness(mapping, entry)
    }

    /// Loads the reverse-map entries of `block` for GC, without the binds and tombstones (records of trims) that are
    /// not needed any more.
    pub(crate) fn load_victim_entries(
        &mut self,
        mapping: &AnyMapping,
        io: &mut FlashPageStore,
        block: BlockId,
    ) -> Result<()> {
        let mut entries = std::mem::take(&mut self.victim_reverse_map_entries);
        entries.clear();
        self.liveness_basis.block_opening_sequence_lower_bound = io.blocks_mut().oldest_opening_sequence();
        let needed = |entry: &ReverseMapEntry| self.liveness_basis.liveness(mapping, entry);
        self.has_room_to_record_victim_entries_again =
            self.reverse_map.make_room_for_victim(io, block, &needed)?;
        let before = io.stats.controller_work.nvram_read_bytes;
        self.reverse_map.scan_entries_of_block(io, block, &mut entries)?;
        let scanned = io.stats.controller_work.nvram_read_bytes - before;
        io.stats.referrer_scan_bytes += scanned;
        io.stats.largest_referrer_scan_bytes = io.stats.largest_referrer_scan_bytes.max(scanned);
        // Of several entries for one logical page and place only the newest binds. An older one may still be the
        // tombstone of its source.
        entries.sort_by_key(|entry| {
            (entry.mapped_ppn.map(|ppn| ppn.0), entry.lpn.0, u64::MAX - entry.sequence_number)
        });
        let mut newest = None;
        let rests = entries.iter().filter_map(|&entry| {
            let need = self.liveness_of(mapping, &entry);
            let is_newest =
                newest.replace((entry.mapped_ppn, entry.lpn)) != Some((entry.mapped_ppn, entry.lpn));
            EntryLiveness { is_mapping_live: need.is_mapping_live && is_newest, ..need }.live_part_of(entry)
        });
        // Entries that remain: with a place, current binds; without, tombstones that must be recorded again.
        let mut rests: Vec<ReverseMapEntry> = rests.collect();
        rests.sort_by_key(|entry| (entry.mapped_ppn.map(|ppn| ppn.0), entry.lpn.0));
        entries.clear();
        entries.extend(rests);
        self.victim_reverse_map_entries = entries;
        self.block_of_loaded_victim_entries = Some(block);
        Ok(())
    }

    /// Returns one of the logical pages that are mapped to `ppn`, a page of the GC victim. It is `spare_owner`, the LPN
    /// in the OOB, if that page is still mapped to `ppn`: then the reverse map has fewer entries for `ppn` than logical
    /// pages are mapped to it. Otherwise it is the LPN of the first reverse-map entry for `ppn`.
    pub(crate) fn referrer_of_victim_page(&self, ppn: Ppn, spare_owner: Lpn) -> Lpn {
        let from = self
            .victim_reverse_map_entries
            .partition_point(|entry| entry.mapped_ppn.is_none_or(|place| place < ppn));
        let binders =
            self.victim_reverse_map_entries[from..].iter().take_while(|entry| entry.mapped_ppn == Some(ppn));
        let mut binders = binders.peekable();
        match binders.peek().map(|entry| entry.lpn) {
            Some(binder)
                if binders.count() as u32 > self.reference_counts.referrers_beyond_first(ppn.into()) =>
            {
                binder
            }
            _ => spare_owner,
        }
    }

    /// Clears the mark of `lpn` as mapped without a program, because `lpn` is no longer mapped to `place`, and marks
    /// the reverse-map entry of that mapping as superseded. Returns whether `lpn` had the mark.
    pub(crate) fn unmark_mapped_without_program(
        &mut self,
        io: &mut FlashPageStore,
        lpn: Lpn,
        place: StoredUnit,
    ) -> bool {
        let was_bound = self.liveness_basis.lpns_mapped_without_program.remove(Ppn(lpn.0));
        if was_bound {
            self.reverse_map.mark_mapping_superseded(io, lpn, Ppn(place.0));
        }
        was_bound
    }

    /// Drops the state of sharing in RAM, except the reverse map, as a loss of power does.
    pub(crate) fn drop_ram_state(&mut self) {
        self.reference_counts.clear();
        let basis = &mut self.liveness_basis;
        basis.lpns_mapped_without_program = basis.lpns_mapped_without_program.empty_of_same_size();
        basis.block_opening_sequence_lower_bound = 0;
        if let Some(index) = &mut self.content_index {
            index.clear();
        }
    }

    /// Replaces the reverse map by an empty one, after a power loss in which its entries in RAM were lost.
    pub(crate) fn clear_reverse_map(&mut self, store: &FlashPageStore) -> Result<()> {
        if let AnyReverseMap::Ideal(reverse_map) = &mut self.reverse_map {
            reverse_map.clear();
        } else {
            self.reverse_map =
                AnyReverseMap::new(store, self.options.reverse_map, self.options.entry_layout())?;
        }
        Ok(())
    }

    /// Adds a referrer that recovery found: `lpn` is mapped to `unit` (flash page or chunk member). With
    /// `is_mapped_without_program`, `lpn` was mapped to `unit` by deduplication, recycling or a remap command,
    /// otherwise because it wrote `unit`. `is_first_referrer` is whether recovery has found no other referrer of `unit`
    /// before. Returns `false` if this design cannot have produced that state.
    pub(crate) fn restore_referrer(
        &mut self,
        mapping: &AnyMapping,
        store: &mut FlashPageStore,
        lpn: Lpn,
        unit: StoredUnit,
        is_mapped_without_program: bool,
        is_first_referrer: bool,
    ) -> Result<bool> {
        if !is_first_referrer {
            if !self.can_map_without_program() || !self.reference_counts.can_add_referrer(unit) {
                return Ok(false);
            }
            self.reference_counts.add_referrer(unit);
        }
        if !is_mapped_without_program {
            return Ok(true);
        }
        if !self.can_map_without_program() {
            return Ok(false);
        }
        let sequence = store.take_next_sequence_number();
        let entry = ReverseMapEntry {
            lpn,
            mapped_ppn: Some(Ppn(unit.0)),
            relocation_source_or_range_end: None,
            sequence_number: sequence,
        };
        self.record_entry(mapping, store, entry)?;
        self.mark_mapped_without_program(lpn);
        Ok(true)
    }

    /// Returns the bytes of controller RAM of the tables that grow with the number of shared pages: a reverse map in
    /// RAM, and the reference counts in the sparse form.
    pub(crate) fn growing_table_bytes(&self) -> u64 {
        let of_reverse_map = match &self.reverse_map {
            AnyReverseMap::Ideal(reverse_map) => reverse_map.total_entry_bytes(),
            _ => 0,
        };
        of_reverse_map + self.reference_counts.sparse_ram_bytes()
    }

    /// Returns the bytes of controller RAM that sharing takes, one pair of name and bytes per data structure.
    pub(crate) fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        let mut parts = self.reverse_map.ram_bytes_by_structure();
        parts.push(("reference counts", self.reference_counts.ram_bytes()));
        parts.push(("bitmap of bound pages", self.liveness_basis.lpns_mapped_without_program.memory_bytes()));
        parts.extend(self.content_index.as_ref().map(|index| ("content index", index.ram_bytes())));
        parts
    }
}

/// State of sharing by which the liveness of a reverse-map entry is decided, besides the L2P map.
#[derive(Clone, Debug)]
struct EntryLivenessBasis {
    /// Logical pages that are mapped by a reverse-map entry (the LR bitmap of Remap-SSD), indexed by LPN.
    lpns_mapped_without_program: PageSet,
    /// Lower bound of the sequence numbers at which the blocks in use were opened: all pages in use are newer. A bound
    /// that is too low only keeps tombstones (records of trims) longer.
    block_opening_sequence_lower_bound: u64,
}

impl EntryLivenessBasis {
    /// Returns which meanings of a reverse-map entry still hold: its mapping (the logical page is still mapped to the
    /// flash page), its tombstone (record of a trim), both or neither. Only an L2P map in RAM is queried, because a
    /// look-up must not cause flash operations. With a map on flash, every entry counts as a current mapping: such a
    /// map is combined with the ideal reverse map only, which has no other entries.
    fn liveness(&self, mapping: &AnyMapping, entry: &ReverseMapEntry) -> EntryLiveness {
        let AnyMapping::Flat(map) = mapping else {
            return EntryLiveness { is_mapping_live: true, is_tombstone_needed: false };
        };
        let bind = entry.mapped_ppn.is_some_and(|place| {
            self.lpns_mapped_without_program.contains(Ppn(entry.lpn.0))
                && map.get(entry.lpn) == Some(StoredUnit::from(place))
        });
        let tombstone = entry.sequence_number > self.block_opening_sequence_lower_bound
            && entry.tombstoned_lpns().any(|lpn| map.get(lpn).is_none());
        EntryLiveness { is_mapping_live: bind, is_tombstone_needed: tombstone }
    }
}
