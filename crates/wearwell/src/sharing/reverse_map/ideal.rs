//! An ideal reverse map: returns every referrer (logical page) of a physical page without cost, without a limit of
//! entries.
//!
//! It models designs whose OOB can be rewritten, or which know all referrers in advance, and is the upper bound for any
//! real reverse map (the paper's Opt). Its entries are in RAM that survives a power loss; the cost of such RAM is not
//! modelled. On a device with the map in NVRAM, a power loss destroys the entries, and recovery rebuilds them from the
//! L2P table.
//!
//! Invariant: an entry exists exactly while a logical page is mapped to a stored page without a program. Tombstones
//! (records of trims) are not kept, because recovery rebuilds nothing from entries.

use std::slice;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::{BlockId, LivenessOf, Lpn, Ppn, REVERSE_MAP_ENTRY_BYTES, ReverseMap, ReverseMapEntry};
use crate::error::Result;
use crate::store::FlashPageStore;
use crate::tables::PageSet;

/// Bytes of controller RAM per entry on a device that rebuilds the reverse map in recovery: physical page and logical
/// page. All entries are current, so none needs its sequence number.
const RAM_BYTES_PER_REBUILT_ENTRY: u64 = 8;

/// The logical pages that are mapped to one physical page without a program: a single one, or the index of a list of
/// several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LpnsMappedWithoutProgram {
    /// The only logical page that is mapped to the physical page without a program.
    Single(Lpn),
    /// Index of the list of the logical pages that are mapped to the physical page without a program.
    List(u32),
}

/// The ideal reverse map: holds in RAM, without limit or cost, the logical pages that are mapped to each physical page
/// without a program.
#[derive(Clone, Debug)]
pub struct IdealReverseMap {
    /// The logical pages that are mapped without a program to each physical page or chunk member.
    lpns_mapped_without_program_by_ppn: HashMap<Ppn, LpnsMappedWithoutProgram, FxBuildHasher>,
    /// Lists of two or more logical pages that are mapped to one physical page without a program, oldest first. Lists
    /// that are not in use are empty.
    lists_of_lpns_mapped_without_program: Vec<Vec<Lpn>>,
    /// Indices of the empty lists in `lists_of_lpns_mapped_without_program` that can be used again.
    unused_list_indices: Vec<u32>,
    /// Physical pages to which logical pages are mapped without a program, so that a query for a whole block reads only
    /// a few words of this bitmap. Members of compressed chunks are not included.
    pages_mapped_without_program: PageSet,
    /// Number of flash pages of the device; units with this number or a greater one are members of compressed chunks.
    physical_page_count: u64,
    /// Number of reverse-map entries: one for each logical page that is mapped without a program.
    entry_count: u64,
    /// Whether recovery rebuilds the entries from the L2P table, so that no battery has to keep them.
    is_rebuilt_in_recovery: bool,
}

impl IdealReverseMap {
    /// Creates an empty ideal reverse map for a device of `physical_page_count` pages.
    pub fn new(physical_page_count: u64) -> Self {
        Self {
            lpns_mapped_without_program_by_ppn: HashMap::default(),
            lists_of_lpns_mapped_without_program: Vec::new(),
            unused_list_indices: Vec::new(),
            pages_mapped_without_program: PageSet::new(physical_page_count),
            physical_page_count,
            entry_count: 0,
            is_rebuilt_in_recovery: false,
        }
    }

    /// From now on, counts RAM for entries in the form that recovery can rebuild ([`RAM_BYTES_PER_REBUILT_ENTRY`]), not
    /// for the paper's entries of 16 bytes, which a battery has to keep.
    pub(crate) fn count_ram_of_entries_as_rebuilt_by_recovery(&mut self) {
        self.is_rebuilt_in_recovery = true;
    }

    /// Removes all entries, after a power loss in which they were lost.
    pub(crate) fn clear(&mut self) {
        let is_rebuilt_in_recovery = self.is_rebuilt_in_recovery;
        *self = Self { is_rebuilt_in_recovery, ..Self::new(self.physical_page_count) };
    }

    /// Returns the bytes of controller RAM of all entries. There is one for each logical page that is mapped to stored
    /// content without a program.
    pub(crate) fn total_entry_bytes(&self) -> u64 {
        self.entry_count
            * if self.is_rebuilt_in_recovery { RAM_BYTES_PER_REBUILT_ENTRY } else { REVERSE_MAP_ENTRY_BYTES }
    }

    /// Returns the number of physical pages and chunk members to which logical pages are mapped without a program.
    pub(super) fn units_mapped_without_program_count(&self) -> u64 {
        self.lpns_mapped_without_program_by_ppn.len() as u64
    }

    /// Whether `place` is a whole flash page, not a member of a compressed chunk.
    fn is_whole_flash_page(&self, place: Ppn) -> bool {
        u64::from(place.0) < self.physical_page_count
    }

    /// Returns the logical pages in `binders`, which are mapped to one physical page without a program, oldest first.
    fn as_lpn_slice<'a>(&'a self, binders: &'a LpnsMappedWithoutProgram) -> &'a [Lpn] {
        match binders {
            LpnsMappedWithoutProgram::Single(lpn) => slice::from_ref(lpn),
            LpnsMappedWithoutProgram::List(list) => {
                &self.lists_of_lpns_mapped_without_program[*list as usize]
            }
        }
    }

    /// Returns the reverse-map entries of all logical pages mapped without a program to the physical page `place`.
    /// Their sequence number is 0: all are current, and no other component compares their age.
    pub fn entries_at(&self, place: Ppn) -> Vec<ReverseMapEntry> {
        let lpns = self
            .lpns_mapped_without_program_by_ppn
            .get(&place)
            .map_or(&[][..], |binders| self.as_lpn_slice(binders));
        let to_entry = |&lpn: &Lpn| ReverseMapEntry {
            lpn,
            mapped_ppn: Some(place),
            relocation_source_or_range_end: None,
            sequence_number: 0,
        };
        lpns.iter().map(to_entry).collect()
    }

    /// Removes the record of the physical page `place`, to which no logical page is mapped without a program any more.
    fn remove_page_without_referring_lpns(&mut self, place: Ppn) {
        self.lpns_mapped_without_program_by_ppn.remove(&place);
        if self.is_whole_flash_page(place) {
            self.pages_mapped_without_program.remove(place);
        }
    }

    /// Adds `lpn` to `binders`, the logical pages mapped to one physical page without a program so far. If `binders` is
    /// a single logical page, it becomes a list of both. Returns the logical pages that are mapped now.
    fn add_lpn_mapped_without_program(
        &mut self,
        binders: LpnsMappedWithoutProgram,
        lpn: Lpn,
    ) -> LpnsMappedWithoutProgram {
        let first = match binders {
            LpnsMappedWithoutProgram::List(list) => {
                self.lists_of_lpns_mapped_without_program[list as usize].push(lpn);
                return binders;
            }
            LpnsMappedWithoutProgram::Single(first) => first,
        };
        let list =
            self.unused_list_indices.pop().unwrap_or(self.lists_of_lpns_mapped_without_program.len() as u32);
        if list as usize == self.lists_of_lpns_mapped_without_program.len() {
            self.lists_of_lpns_mapped_without_program.push(Vec::new());
        }
        self.lists_of_lpns_mapped_without_program[list as usize].extend([first, lpn]);
        LpnsMappedWithoutProgram::List(list)
    }

    /// Removes `lpn` from `binders`, the logical pages mapped to one physical page without a program so far. Returns
    /// the logical pages that are still mapped; `None` if there is none.
    fn remove_lpn_mapped_without_program(
        &mut self,
        binders: LpnsMappedWithoutProgram,
        lpn: Lpn,
    ) -> Option<LpnsMappedWithoutProgram> {
        let at = self.as_lpn_slice(&binders).iter().position(|&bound| bound == lpn);
        let at = at.expect("the binder was recorded");
        let LpnsMappedWithoutProgram::List(list) = binders else { return None };
        self.lists_of_lpns_mapped_without_program[list as usize].remove(at);
        let [last] = self.lists_of_lpns_mapped_without_program[list as usize][..] else {
            return Some(binders);
        };
        self.lists_of_lpns_mapped_without_program[list as usize].clear();
        self.unused_list_indices.push(list);
        Some(LpnsMappedWithoutProgram::Single(last))
    }
}

impl ReverseMap for IdealReverseMap {
    fn make_room_for_entry(&mut self, _: &mut FlashPageStore, _: LivenessOf<'_>) -> Result<bool> {
        Ok(true)
    }

    fn record_entry(
        &mut self,
        _: &mut FlashPageStore,
        entry: ReverseMapEntry,
        _: LivenessOf<'_>,
    ) -> Result<()> {
        if let Some(place) = entry.mapped_ppn {
            if let Some(before) = self
                .lpns_mapped_without_program_by_ppn
                .insert(place, LpnsMappedWithoutProgram::Single(entry.lpn))
            {
                let several = self.add_lpn_mapped_without_program(before, entry.lpn);
                self.lpns_mapped_without_program_by_ppn.insert(place, several);
            }
            self.entry_count += 1;
            if self.is_whole_flash_page(place) {
                self.pages_mapped_without_program.insert(place);
            }
        }
        Ok(())
    }

    fn mark_mapping_superseded(&mut self, _: &mut FlashPageStore, lpn: Lpn, place: Ppn) {
        let binders = self.lpns_mapped_without_program_by_ppn[&place];
        match self.remove_lpn_mapped_without_program(binders, lpn) {
            Some(binders) => _ = self.lpns_mapped_without_program_by_ppn.insert(place, binders),
            None => self.remove_page_without_referring_lpns(place),
        }
        self.entry_count -= 1;
    }

    fn scan_entries_of_block(
        &mut self,
        io: &mut FlashPageStore,
        block: BlockId,
        out: &mut Vec<ReverseMapEntry>,
    ) -> Result<()> {
        let mut places = Vec::new();
        self.pages_mapped_without_program.append_pages_in_range(
            io.geometry().first_page(block),
            io.geometry().block_pages(),
            &mut places,
        );
        out.extend(places.into_iter().flat_map(|place| self.entries_at(place)));
        Ok(())
    }

    fn drop_entries_of_block(&mut self, io: &mut FlashPageStore, block: BlockId) -> Result<()> {
        let is_free = self
            .pages_mapped_without_program
            .is_disjoint(io.geometry().first_page(block), io.geometry().block_pages());
        assert!(is_free, "a page of erased block {block} is still bound");
        Ok(())
    }

    fn recover(&mut self, io: &mut FlashPageStore) -> Result<Vec<ReverseMapEntry>> {
        Ok(self.all_entries(io))
    }

    fn all_entries(&self, _: &FlashPageStore) -> Vec<ReverseMapEntry> {
        self.lpns_mapped_without_program_by_ppn.keys().flat_map(|&place| self.entries_at(place)).collect()
    }

    fn valid_entry_count(&self) -> u64 {
        self.entry_count
    }

    fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        let name = if self.is_rebuilt_in_recovery { "reverse map" } else { "reverse map (battery-backed)" };
        vec![(name, self.total_entry_bytes())]
    }

    fn check_invariants(&self) -> std::result::Result<(), String> {
        let counted: usize = self
            .lpns_mapped_without_program_by_ppn
            .values()
            .map(|binders| self.as_lpn_slice(binders).len())
            .sum();
        if counted as u64 != self.entry_count {
            return Err(format!(
                "the ideal reverse map records {counted} logical pages that were mapped without a program (bound), so \
                 its counter must say the same, but says {}",
                self.entry_count
            ));
        }
        let of_pages =
            self.lpns_mapped_without_program_by_ppn.keys().filter(|&&place| self.is_whole_flash_page(place));
        let marked =
            of_pages.clone().filter(|&&place| self.pages_mapped_without_program.contains(place)).count();
        if (marked, marked as u64) == (of_pages.clone().count(), self.pages_mapped_without_program.len()) {
            Ok(())
        } else {
            Err(format!(
                "the ideal reverse map must mark exactly the flash pages that have entries, but it marks {} pages, \
                 and {} pages have entries, of which {marked} are marked",
                self.pages_mapped_without_program.len(),
                of_pages.count()
            ))
        }
    }
}
