//! Tests of the reverse maps (records of the logical pages that share a flash page) against a plain model, with power
//! cut at every store to NVRAM, and against the figures of the Remap-SSD paper.
//!
//! The model holds the flash page to which each logical page is bound (mapped without a program), the logical pages
//! that hold nothing, and all entries ever recorded. It shares no code with the product except the entry type. A
//! reverse map may return more entries than the model needs, but none that was not recorded.

use std::collections::{BTreeMap, BTreeSet};

use common::{geometry_without_superblocks, medium_with_power_cut, test_case_interval};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::address::{BlockId, Lpn, Ppn};
use wearwell::nand::{CutOutcome, Geometry, RetainedPageFields, SimNand};
use wearwell::operation::Cause;
use wearwell::sharing::reverse_map::{
    AnyReverseMap, DEFAULT_SEGMENT_BYTES, EntryLayout, EntryLiveness, MAX_SEQUENCE, NvramSegments,
    REVERSE_MAP_ENTRY_BYTES, ReverseMap, ReverseMapEntry, ReverseMapKind,
};
use wearwell::store::{BlockState, FlashPageStore, FreeBlockOrder, PagesToCopy, Stream};
use wearwell::{Error, Result};

use crate::common;

/// Flash and NVRAM of the reverse map, on a medium that can lose power.
type Io = FlashPageStore;
/// Fields of a reverse-map entry, for comparisons: logical page, flash page, relocation source or end of a range,
/// sequence number.
type EntryFields = (u32, Option<u32>, Option<u32>, u64);

/// Number of blocks of the device.
const BLOCKS: u32 = 6;
/// Number of pages per block.
const BLOCK_PAGES: u32 = 4;
/// Number of logical pages.
const LOGICAL_PAGES: u32 = 48;

/// Returns the fields of a reverse-map entry, for comparisons.
fn entry_fields(entry: &ReverseMapEntry) -> EntryFields {
    (
        entry.lpn.0,
        entry.mapped_ppn.map(|place| place.0),
        entry.relocation_source_or_range_end.map(|lpn| lpn.0),
        entry.sequence_number,
    )
}

/// Expected state of a reverse map (record of the logical pages that share a flash page), and all entries ever
/// recorded.
#[derive(Clone, Default)]
struct Model {
    /// Logical pages that were mapped without a program, each with its flash page and the sequence number of the
    /// reverse-map entry that records this.
    bound_ppn_and_sequence_by_lpn: BTreeMap<Lpn, (Ppn, u64)>,
    /// Logical pages that hold nothing since a trim or a relocation, each with the sequence number of the reverse-map
    /// entry that records this (its tombstone).
    tombstone_sequence_by_lpn: BTreeMap<Lpn, u64>,
    /// All entries that were ever recorded in the reverse map.
    recorded_entries: BTreeSet<EntryFields>,
}

impl Model {
    /// Returns for which purposes a reverse-map entry is still needed: as a bind (record that a logical page was mapped
    /// without a program), as a tombstone (record that a logical page holds nothing), both, or none.
    fn entry_liveness(&self, entry: &ReverseMapEntry) -> EntryLiveness {
        let buried =
            if entry.mapped_ppn.is_some() { entry.relocation_source_or_range_end } else { Some(entry.lpn) };
        EntryLiveness {
            is_mapping_live: entry.mapped_ppn.is_some()
                && self.bound_ppn_and_sequence_by_lpn.get(&entry.lpn).map(|bind| bind.0) == entry.mapped_ppn,
            is_tombstone_needed: buried.is_some_and(|lpn| self.tombstone_sequence_by_lpn.contains_key(&lpn)),
        }
    }

    /// Updates the sequence numbers of the model, after a power loss, by the entries that recovery found. They are
    /// newer if the reverse map was recording an entry again when power was lost.
    fn adopt_recovered_sequence_numbers(&mut self, found: &[ReverseMapEntry]) {
        for entry in found {
            if let Some((place, sequence)) = self.bound_ppn_and_sequence_by_lpn.get_mut(&entry.lpn) {
                *sequence = if Some(*place) == entry.mapped_ppn {
                    entry.sequence_number.max(*sequence)
                } else {
                    *sequence
                };
            }
            let buried = if entry.mapped_ppn.is_some() {
                entry.relocation_source_or_range_end
            } else {
                Some(entry.lpn)
            };
            if let Some(sequence) = buried.and_then(|lpn| self.tombstone_sequence_by_lpn.get_mut(&lpn)) {
                *sequence = entry.sequence_number.max(*sequence);
            }
        }
    }

    /// Asserts that a recovery found every reverse-map entry that the model needs, and no entry that was never
    /// recorded.
    fn verify(&self, found: &[ReverseMapEntry]) {
        let mut binds = BTreeMap::new();
        let mut dead = BTreeMap::new();
        for entry in found {
            let newest = binds.entry((entry.lpn, entry.mapped_ppn)).or_insert(0);
            *newest = entry.sequence_number.max(*newest);
            let Some(buried) = (if entry.mapped_ppn.is_some() {
                entry.relocation_source_or_range_end
            } else {
                Some(entry.lpn)
            }) else {
                continue;
            };
            let newest = dead.entry(buried).or_insert(0);
            *newest = entry.sequence_number.max(*newest);
        }
        // A newer entry may have been recorded of which the model was not informed, because power was lost.
        for (&lpn, &(place, sequence)) in &self.bound_ppn_and_sequence_by_lpn {
            let newest = binds.get(&(lpn, Some(place))).copied();
            assert!(newest >= Some(sequence), "bind of {lpn} to {place}: {newest:?}, not {sequence}");
        }
        for (&lpn, &sequence) in &self.tombstone_sequence_by_lpn {
            let newest = dead.get(&lpn).copied();
            assert!(newest >= Some(sequence), "tombstone of {lpn}: {newest:?}, not {sequence}");
        }
        let rests: BTreeSet<_> =
            self.recorded_entries.iter().filter_map(|&(_, _, source, seq)| Some((source?, seq))).collect();
        for entry in found {
            let rest = entry.mapped_ppn.is_none() && rests.contains(&(entry.lpn.0, entry.sequence_number));
            assert!(
                rest || self.recorded_entries.contains(&entry_fields(entry)),
                "{entry:?} was never recorded"
            );
        }
    }
}

/// Reverse map under test, with its model and the parts of an engine that it needs.
struct ReverseMapUnderTest {
    /// Flash and NVRAM of the reverse map.
    io: Io,
    /// Reverse map under test.
    map: AnyReverseMap,
    /// Model of the reverse map.
    model: Model,
    /// Generator of the random numbers that determine the steps.
    rng: Xoshiro256PlusPlus,
    /// Sequence number of the newest entry.
    sequence: u64,
    /// Number of entries that the reverse map refused because they had no space.
    refused_entries: u32,
}

/// Returns the geometry of the device: one pool of small blocks.
fn geometry() -> Geometry {
    geometry_without_superblocks([1, BLOCKS, BLOCK_PAGES, 512])
}

/// Creates flash and NVRAM for this kind of reverse map, with power cut at operation `cut_at` (`None`: never).
fn create_store(part: ReverseMapKind, cut_at: Option<u64>, outcome: CutOutcome) -> Io {
    let nand = SimNand::new(geometry(), RetainedPageFields::default()).with_nvram(part.nvram_bytes(512));
    FlashPageStore::new(medium_with_power_cut(nand, cut_at, outcome), FreeBlockOrder::Fifo)
}

impl ReverseMapUnderTest {
    /// Creates an empty reverse map of this kind, with its model. `seed` determines the steps.
    fn new(part: ReverseMapKind, seed: u64, cut_at: Option<u64>, outcome: CutOutcome) -> Self {
        let io = create_store(part, cut_at, outcome);
        let map = AnyReverseMap::new(&io, part, EntryLayout::default()).expect("the part fits");
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self { io, map, model: Model::default(), rng, sequence: 0, refused_entries: 0 }
    }

    /// Returns a random logical page.
    fn lpn(&mut self) -> Lpn {
        Lpn(self.rng.random_range(0..LOGICAL_PAGES))
    }

    /// Makes free pages for the log pages that the next call may append, by collecting log blocks as the engine does.
    fn make_room_for_log_pages(&mut self) -> Result<()> {
        while self.map.max_flash_pages_written_per_entry() > 0 && self.io.total_free_blocks() < 3 {
            let closed = |&block: &BlockId| self.io.blocks().state(block) == BlockState::Closed;
            let blocks = (0..BLOCKS).map(BlockId).filter(closed);
            let victim =
                blocks.min_by_key(|&block| self.io.blocks().valid_pages(block)).expect("a block is closed");
            let pages = victim.0 * BLOCK_PAGES..(victim.0 + 1) * BLOCK_PAGES;
            let live = |&ppn: &Ppn| self.map.holds_current_metadata_page(self.io.owner_in_oob(ppn).0, ppn);
            let from: Vec<Ppn> = pages.map(Ppn).filter(live).collect();
            let owners: Vec<Lpn> = from.iter().map(|&ppn| self.io.owner_in_oob(ppn)).collect();
            let mut to = Vec::new();
            let moves = PagesToCopy { source_pages: &from, owners: &owners };
            self.io.copy_pages(moves, Stream::RemapLog, 0, Cause::RemapLog, &mut to)?;
            owners.iter().zip(to).for_each(|(id, to)| self.map.record_metadata_page_move(id.0, to));
            for ppn in from {
                self.io.count_page_invalid(ppn);
            }
            self.io.erase(victim, Cause::RemapLog)?;
        }
        Ok(())
    }

    /// Finds the newest copy of each log page, as a recovering engine does before the reverse map is recovered.
    fn scan_log_pages(&mut self) -> Result<Vec<(u32, Ppn)>> {
        for block in (0..BLOCKS).map(BlockId) {
            if self.io.blocks().state(block) == BlockState::Erasing {
                self.io.erase(block, Cause::Recovery)?;
            }
        }
        let mut newest: BTreeMap<u32, (u64, Ppn)> = BTreeMap::new();
        for ppn in (0..BLOCKS * BLOCK_PAGES).map(Ppn) {
            let Ok(Some(oob)) = self.io.read_spare_in_recovery(ppn) else { continue };
            let known = newest.entry(oob.owner).or_insert((oob.sequence_number, ppn));
            *known = (*known).max((oob.sequence_number, ppn));
        }
        Ok(newest.into_iter().map(|(id, (_, ppn))| (id, ppn)).collect())
    }

    /// Corrects the valid counts of blocks: a log page in `found` (its number and its flash page) is valid if the
    /// reverse map still uses it.
    fn correct_valid_counts(&mut self, found: &[(u32, Ppn)]) {
        for block in (0..BLOCKS).map(BlockId) {
            let owned = |&&(id, ppn): &&(u32, Ppn)| {
                ppn.0 / BLOCK_PAGES == block.0 && self.map.holds_current_metadata_page(id, ppn)
            };
            let (owned, counted) =
                (found.iter().filter(owned).count() as u32, self.io.blocks().valid_pages(block));
            let first = Ppn(block.0 * BLOCK_PAGES);
            (counted..owned).for_each(|_| self.io.revive_page(first));
            (owned..counted).for_each(|_| self.io.count_page_invalid(first));
        }
    }

    /// Asks the reverse map for space for one entry of a host operation. Returns whether there is space.
    fn admit_host_entry(&mut self) -> Result<bool> {
        self.make_room_for_log_pages()?;
        let model = &self.model;
        let admitted = self.map.make_room_for_entry(&mut self.io, &|entry| model.entry_liveness(entry))?;
        self.refused_entries += u32::from(!admitted);
        Ok(admitted)
    }

    /// Records an entry in reverse map and model.
    fn record(&mut self, entry: ReverseMapEntry) -> Result<()> {
        self.make_room_for_log_pages()?;
        self.model.recorded_entries.insert(entry_fields(&entry));
        let model = &self.model;
        self.map.record_entry(&mut self.io, entry, &|entry| model.entry_liveness(entry))
    }

    /// Removes the bind of a logical page (its mapping to a flash page without a program) from the model and the
    /// reverse map.
    fn unbind(&mut self, lpn: Lpn) {
        if let Some((place, _)) = self.model.bound_ppn_and_sequence_by_lpn.remove(&lpn) {
            self.map.mark_mapping_superseded(&mut self.io, lpn, place);
        }
    }

    /// Binds (maps without a program) a random logical page to a random flash page, sometimes as a relocation, if there
    /// is space for the entry.
    fn bind_random_page(&mut self) -> Result<()> {
        if !self.admit_host_entry()? {
            return Ok(());
        }
        self.sequence += 1;
        let (lpn, other) = (self.lpn(), self.lpn());
        let place = Ppn(self.rng.random_range(0..BLOCKS * BLOCK_PAGES));
        let source = Some(other).filter(|_| lpn != other && self.rng.random_bool(0.3));
        self.record(ReverseMapEntry {
            lpn,
            mapped_ppn: Some(place),
            relocation_source_or_range_end: source,
            sequence_number: self.sequence,
        })?;
        self.unbind(lpn);
        self.model.tombstone_sequence_by_lpn.remove(&lpn);
        self.model.bound_ppn_and_sequence_by_lpn.insert(lpn, (place, self.sequence));
        if let Some(source) = source {
            self.unbind(source);
            self.model.tombstone_sequence_by_lpn.insert(source, self.sequence);
        }
        self.assert_entries_of_every_victim_have_space()
    }

    /// Asserts that the reverse map has space to record the entries of any one GC victim again. It promises this
    /// whenever it accepts a new entry of the host.
    fn assert_entries_of_every_victim_have_space(&mut self) -> Result<()> {
        let model = &self.model;
        for block in (0..BLOCKS).map(BlockId) {
            let fits =
                self.map.make_room_for_victim(&mut self.io, block, &|entry| model.entry_liveness(entry))?;
            assert!(fits, "the entries of block {block} do not fit after an admitted bind");
        }
        Ok(())
    }

    /// Trims a random logical page, if there is space for the entry.
    fn trim_random_page(&mut self) -> Result<()> {
        if !self.admit_host_entry()? {
            return Ok(());
        }
        self.sequence += 1;
        let lpn = self.lpn();
        self.record(ReverseMapEntry {
            lpn,
            mapped_ppn: None,
            relocation_source_or_range_end: None,
            sequence_number: self.sequence,
        })?;
        self.unbind(lpn);
        self.model.tombstone_sequence_by_lpn.insert(lpn, self.sequence);
        Ok(())
    }

    /// Writes a random logical page, which needs no entry in the reverse map. The program on flash is newer, so earlier
    /// entries of the page are not needed any more.
    fn write_random_page(&mut self) {
        let lpn = self.lpn();
        self.unbind(lpn);
        self.model.tombstone_sequence_by_lpn.remove(&lpn);
    }

    /// Collects a random block: moves its entries to the two blocks after it, or drops them if they have no space, and
    /// erases the block.
    fn collect_random_block(&mut self) -> Result<()> {
        let block = BlockId(self.rng.random_range(0..BLOCKS));
        self.make_room_for_log_pages()?;
        let model = &self.model;
        let fits =
            self.map.make_room_for_victim(&mut self.io, block, &|entry| model.entry_liveness(entry))?;
        if fits {
            self.move_entries(block)?;
        } else {
            self.store_copy_per_referrer(block);
        }
        self.map.drop_entries_of_block(&mut self.io, block)
    }

    /// Records the live reverse-map entries of a block again, with other flash pages, as if GC had copied the pages of
    /// the block.
    fn move_entries(&mut self, block: BlockId) -> Result<()> {
        let mut entries = Vec::new();
        self.map.scan_entries_of_block(&mut self.io, block, &mut entries)?;
        let mut moved = BTreeSet::new();
        let mut next = self.model.clone();
        for entry in entries {
            let need = self.model.entry_liveness(&entry);
            let newest = self
                .model
                .bound_ppn_and_sequence_by_lpn
                .get(&entry.lpn)
                .is_some_and(|bind| bind.1 == entry.sequence_number);
            let Some(rest) = (EntryLiveness { is_mapping_live: need.is_mapping_live && newest, ..need })
                .live_part_of(entry)
            else {
                continue;
            };
            if !moved.insert((rest.lpn, rest.mapped_ppn, rest.sequence_number)) {
                continue;
            }
            let Some(place) = rest.mapped_ppn else {
                self.record(rest)?;
                continue;
            };
            self.sequence += 1;
            let place =
                Ppn((place.0 + BLOCK_PAGES + u32::from(place.0 % 2 == 0) * BLOCK_PAGES)
                    % (BLOCKS * BLOCK_PAGES));
            self.record(ReverseMapEntry { mapped_ppn: Some(place), sequence_number: self.sequence, ..rest })?;
            next.bound_ppn_and_sequence_by_lpn.insert(rest.lpn, (place, self.sequence));
            if let Some(source) = rest.relocation_source_or_range_end.filter(|_| need.is_tombstone_needed) {
                next.tombstone_sequence_by_lpn.insert(source, self.sequence);
            }
        }
        self.model = Model { recorded_entries: std::mem::take(&mut self.model.recorded_entries), ..next };
        Ok(())
    }

    /// Models GC of a block if the reverse map has no space for the entries of the copied pages. Each logical page that
    /// refers to a page of the block gets a copy of its own, and needs no entry. Zeros are written to logical pages
    /// that hold nothing since a relocation, so these need no tombstone.
    fn store_copy_per_referrer(&mut self, block: BlockId) {
        let in_block = |place: Ppn| place.0 / BLOCK_PAGES == block.0;
        let moved: Vec<Lpn> = self
            .model
            .bound_ppn_and_sequence_by_lpn
            .iter()
            .filter(|(_, b)| in_block(b.0))
            .map(|(&lpn, _)| lpn)
            .collect();
        for lpn in moved {
            self.unbind(lpn);
        }
        let of_block = |&&(_, place, source, _): &&EntryFields| {
            source.is_some() && place.is_some_and(|p| in_block(Ppn(p)))
        };
        let sources: Vec<EntryFields> =
            self.model.recorded_entries.iter().filter(of_block).copied().collect();
        for (_, _, source, sequence) in sources {
            let source = Lpn(source.expect("filtered"));
            if self.model.tombstone_sequence_by_lpn.get(&source) == Some(&sequence) {
                self.model.tombstone_sequence_by_lpn.remove(&source);
            }
        }
    }

    /// Executes a random step: bind, trim, write or collection.
    fn execute_random_step(&mut self) -> Result<()> {
        match self.rng.random_range(0..100) {
            0..55 => self.bind_random_page(),
            55..65 => self.trim_random_page(),
            65..90 => {
                self.write_random_page();
                Ok(())
            }
            _ => self.collect_random_block(),
        }
    }

    /// Asserts that the entries of every block, as a scan by GC returns them, agree with the model.
    fn verify(&mut self) {
        self.map.check_invariants().expect("the part's own rules hold");
        let mut found = Vec::new();
        for block in (0..BLOCKS).map(BlockId) {
            let from = found.len();
            self.map.scan_entries_of_block(&mut self.io, block, &mut found).expect("power is on");
            let foreign =
                found[from..].iter().find(|e| e.mapped_ppn.is_none_or(|p| p.0 / BLOCK_PAGES != block.0));
            assert_eq!(foreign, None, "entry of another block in block {block}");
        }
        let binds = Model { tombstone_sequence_by_lpn: BTreeMap::new(), ..self.model.clone() };
        binds.verify(&found);
    }

    /// Recovers the reverse map after a power loss, and compares the found entries with the model.
    fn recover(&mut self) -> Result<()> {
        let pages = self.scan_log_pages()?;
        self.map.adopt_log_pages(&pages);
        let found = self.map.recover(&mut self.io)?;
        self.correct_valid_counts(&pages);
        let distinct = found.iter().map(entry_fields).collect::<BTreeSet<_>>().len();
        let is_flash = matches!(self.map, AnyReverseMap::FlashLog(_));
        assert!(distinct == found.len() || !is_flash, "the flash log returned copies");
        self.model.verify(&found);
        self.model.adopt_recovered_sequence_numbers(&found);
        for entry in found.iter().filter(|entry| entry.mapped_ppn.is_some()) {
            let newest = self
                .model
                .bound_ppn_and_sequence_by_lpn
                .get(&entry.lpn)
                .is_some_and(|bind| bind.1 == entry.sequence_number);
            if !newest {
                self.map.mark_mapping_superseded(
                    &mut self.io,
                    entry.lpn,
                    entry.mapped_ppn.expect("filtered"),
                );
            }
        }
        self.map.check_invariants().expect("the part's own rules hold");
        Ok(())
    }
}

/// Returns the kind of reverse map that uses NVRAM segments: `nvram_bytes` bytes in total, in segments of
/// `segment_bytes` bytes.
fn segments(nvram_bytes: u64, segment_bytes: u32) -> ReverseMapKind {
    ReverseMapKind::Segments { nvram_bytes, segment_bytes }
}

/// Reverse map as a log of two flash pages.
const FLASH_LOG: ReverseMapKind = ReverseMapKind::FlashLog { log_pages: 2 };
/// Reverse map as a log in 400 bytes of NVRAM.
const NVRAM_LOG: ReverseMapKind = ReverseMapKind::NvramLog { nvram_bytes: 400 };

/// Returns the kinds of reverse maps under test, all with little space.
fn reverse_map_kinds() -> Vec<ReverseMapKind> {
    vec![segments(1024, 64), segments(512, 32), segments(1280, 128), segments(720, 48), NVRAM_LOG, FLASH_LOG]
}

#[test]
fn every_reverse_map_agrees_with_a_naive_model() {
    for part in reverse_map_kinds() {
        let mut refused = 0;
        for seed in 0..40 {
            let mut under_test = ReverseMapUnderTest::new(part, seed, None, CutOutcome::NoEffect);
            for _ in 0..400 {
                under_test.execute_random_step().expect("power is on");
                under_test.verify();
            }
            under_test.recover().expect("power is on");
            under_test.verify();
            refused += under_test.refused_entries;
        }
        assert!(refused > 0, "{part:?} never ran full: the test is too easy");
    }
}

/// Runs random steps with power cut at operation `cut_at`, and again during recovery. Returns `false` if the run ended
/// before the first cut.
fn survives_two_power_cuts(
    part: ReverseMapKind,
    seed: u64,
    cut_at: u64,
    again_at: u64,
    outcome: CutOutcome,
) -> bool {
    let mut under_test = ReverseMapUnderTest::new(part, seed, Some(cut_at), outcome);
    let cut = (0..200).find_map(|_| under_test.execute_random_step().err());
    let Some(error) = cut else { return false };
    assert!(error.is_power_loss(), "{error}");
    under_test.io.nand_mut().power_cut_nand_mut().restore_power(Some(again_at));
    if let Err(error) = under_test.recover() {
        assert!(error.is_power_loss(), "{error}");
        under_test.io.nand_mut().power_cut_nand_mut().restore_power(None);
        under_test.recover().expect("power is on");
    }
    under_test.io.nand_mut().power_cut_nand_mut().restore_power(None);
    for _ in 0..20 {
        under_test.execute_random_step().expect("power is on");
        under_test.verify();
    }
    under_test.recover().expect("power is on");
    true
}

#[test]
fn every_reverse_map_survives_a_power_cut_at_every_nvram_store() {
    for part in reverse_map_kinds() {
        let mut stores = 0;
        for seed in 0..6 / test_case_interval(3) {
            let outcome = if seed % 2 == 0 { CutOutcome::Torn } else { CutOutcome::CompletedUnacknowledged };
            let cuts = (0..u64::MAX)
                .take_while(|&cut| survives_two_power_cuts(part, seed, cut, u64::MAX, outcome))
                .count() as u64;
            (0..cuts)
                .for_each(|cut| assert!(survives_two_power_cuts(part, seed, cut, cut * 7 % 23, outcome)));
            stores += cuts;
        }
        let least = 600 / test_case_interval(3);
        assert!(stores > least, "{part:?}: only {stores} stores in all scenarios");
    }
}

/// Power is lost after a block was erased and before its reverse-map entries were dropped. Recovery keeps these stale
/// entries with those of the block's next use, and the next erase of the block frees all of them.
#[test]
fn recovery_adopts_stale_reverse_map_entries_of_a_block_and_its_next_erase_frees_them() {
    let part = segments(1024, 64);
    let mut under_test = ReverseMapUnderTest::new(part, 1, None, CutOutcome::NoEffect);
    let bind = |lpn, place, sequence| ReverseMapEntry {
        lpn: Lpn(lpn),
        mapped_ppn: Some(Ppn(place)),
        relocation_source_or_range_end: None,
        sequence_number: sequence,
    };
    let free = |under_test: &ReverseMapUnderTest| match &under_test.map {
        AnyReverseMap::Segments(map) => map.free_segment_count(),
        _ => unreachable!(),
    };
    for k in 0..5 {
        under_test.record(bind(k, 4 + k % 4, 1 + k as u64)).unwrap();
    }
    // The block is erased, but power is lost before its group is freed.
    assert_eq!(under_test.map.recover(&mut under_test.io).unwrap().len(), 5);
    // The block is in use again.
    under_test.record(bind(9, 4, 50)).unwrap();
    let mut found = Vec::new();
    under_test.map.scan_entries_of_block(&mut under_test.io, BlockId(1), &mut found).unwrap();
    assert_eq!(found.iter().map(|entry| entry.sequence_number).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 50]);
    under_test.map.drop_entries_of_block(&mut under_test.io, BlockId(1)).unwrap();
    assert_eq!(free(&under_test), 16);
    assert!(under_test.io.nvram().iter().all(|&word| word == 0));
}

/// Segments of a size that the entries do not fit, too few segments, and more NVRAM than the medium has are refused.
#[test]
fn impossible_nvram_segment_sizes_are_refused() {
    let io = create_store(segments(1024, 64), None, CutOutcome::NoEffect);
    let refused = |bytes, segment| {
        let map = NvramSegments::new(&io, bytes, segment, EntryLayout::default());
        matches!(map, Err(Error::InvalidOptions(_)))
    };
    assert!(refused(2048, 64), "more NVRAM than the medium has");
    assert!(refused(1024, 16) && refused(1024, 0) && refused(1024, 40), "odd segments");
    assert!(refused(1024, 512), "too few segments");
    assert!(!refused(1024, 256));
}

/// Figures RM-05, RM-06 and RM-07 of the Remap-SSD paper: sizes of reverse-map entries and segments for 4-KiB pages.
#[test]
fn reverse_map_entries_and_segments_have_the_papers_sizes() {
    /// Bytes of a GiB.
    const GIB: u64 = 1 << 30;
    /// Number of bytes per page.
    const PAGE_BYTES: u64 = 4096;
    assert_eq!(GIB / PAGE_BYTES * REVERSE_MAP_ENTRY_BYTES, 4 << 20, "entries for 1 GiB of duplicates");
    let nvram = 1 << 20;
    let nand = SimNand::new(geometry(), RetainedPageFields::default()).with_nvram(nvram);
    let io = FlashPageStore::new(nand, FreeBlockOrder::Fifo);
    let map = NvramSegments::new(&io, nvram, DEFAULT_SEGMENT_BYTES, EntryLayout::default()).unwrap();
    let per_gib = map.capacity_entries() * (GIB / nvram) * PAGE_BYTES;
    assert_eq!(per_gib, 252 * GIB, "duplicates that 1 GiB of NVRAM serves, heads included");
    assert_eq!(GIB / REVERSE_MAP_ENTRY_BYTES * PAGE_BYTES, 256 * GIB, "the same without heads");
    assert_eq!((map.entries_per_segment() + 1) * 100, 64 * 100);
    let overhead_percent = 100.0 / (map.entries_per_segment() + 1) as f64;
    assert!((overhead_percent - 1.5625).abs() < 1e-12, "segment heads take {overhead_percent} %");
}

/// Returns an empty reverse map on a device of `blocks` blocks of 16 pages of 4 KiB.
fn empty_store_and_reverse_map(part: ReverseMapKind, blocks: u32) -> (FlashPageStore, AnyReverseMap) {
    let nand =
        SimNand::new(geometry_without_superblocks([1, blocks, 16, 4096]), RetainedPageFields::default());
    let io = FlashPageStore::new(nand.with_nvram(part.nvram_bytes(4096)), FreeBlockOrder::Fifo);
    let map = AnyReverseMap::new(&io, part, EntryLayout::default()).expect("the part fits");
    (io, map)
}

/// Records `count` binds (logical pages mapped without a program) to pages of `block`.
fn fill(io: &mut FlashPageStore, map: &mut AnyReverseMap, block: u32, count: u32) {
    for k in 0..count {
        let entry = ReverseMapEntry {
            lpn: Lpn(k),
            mapped_ppn: Some(Ppn(block * 16 + k % 16)),
            relocation_source_or_range_end: None,
            sequence_number: k as u64,
        };
        map.record_entry(io, entry, &|_| EntryLiveness { is_mapping_live: true, is_tombstone_needed: false })
            .expect("the part is large enough");
    }
}

/// Figure RM-43 of the Remap-SSD paper: bytes of NVRAM and pages of flash that are read for a victim with 50 entries,
/// while there are `others` entries of other blocks. Only for a reverse map in NVRAM segments they do not depend on
/// `others`.
#[test]
fn only_with_nvram_segments_a_victim_scan_is_independent_of_entries_of_other_blocks() {
    let costs = |part, others: u32| {
        let (mut io, mut map) = empty_store_and_reverse_map(part, 64);
        fill(&mut io, &mut map, 5, 50);
        (0..others / 100).for_each(|k| fill(&mut io, &mut map, 6 + k % 50, 100));
        let before = io.stats.clone();
        let mut found = Vec::new();
        map.scan_entries_of_block(&mut io, BlockId(5), &mut found).unwrap();
        assert_eq!(found.len(), 50);
        let pages = io.stats.total_reads() - before.total_reads();
        (io.stats.controller_work.nvram_read_bytes - before.controller_work.nvram_read_bytes, pages)
    };
    for others in [1000, 10_000, 20_000] {
        let entries = 50 + others as u64;
        assert_eq!(costs(segments(1 << 20, DEFAULT_SEGMENT_BYTES), others), (1024, 0));
        assert_eq!(costs(ReverseMapKind::NvramLog { nvram_bytes: 1 << 20 }, others), (16 * entries, 0));
        // A full buffer is only flushed at the next entry.
        let pages = (entries - 1) / 256;
        let flash = costs(ReverseMapKind::FlashLog { log_pages: 256 }, others);
        assert_eq!(flash, (16 * (entries - 256 * pages), pages));
    }
}

/// The greatest number of entries of one block in the Remap-SSD paper fills 117 KiB. As in the paper, scanning them
/// takes 94 us, at 50 ns per 64 bytes.
#[test]
fn scanning_the_most_entries_of_a_block_in_the_remap_ssd_paper_takes_94_us() {
    let (mut io, mut map) = empty_store_and_reverse_map(segments(1 << 20, DEFAULT_SEGMENT_BYTES), 8);
    fill(&mut io, &mut map, 3, 117 * 63);
    let before = io.stats.controller_work.nvram_read_bytes;
    map.scan_entries_of_block(&mut io, BlockId(3), &mut Vec::new()).unwrap();
    let bytes = io.stats.controller_work.nvram_read_bytes - before;
    assert_eq!(bytes, 117 << 10);
    assert_eq!((bytes / 64 * 50 + 500) / 1000, 94);
}

/// Figure RM-29 of the Remap-SSD paper: the entries of each block leave half a segment unused on average, so larger
/// segments waste more.
#[test]
fn the_reverse_map_entries_of_a_block_leave_half_a_segment_unused_on_average() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(29);
    for segment_bytes in [256, 1024, 4096] {
        let entries = segment_bytes / 16 - 1;
        let (mut io, mut map) = empty_store_and_reverse_map(segments(16 << 20, segment_bytes), 600);
        let counts: Vec<u32> = (0..600).map(|_| rng.random_range(1..=4 * entries)).collect();
        counts.iter().zip(0..).for_each(|(&count, block)| fill(&mut io, &mut map, block, count));
        let AnyReverseMap::Segments(map) = map else { unreachable!() };
        let taken = (16 << 20) / segment_bytes - map.free_segment_count();
        let unused = (taken * entries - counts.iter().sum::<u32>()) as f64 / 600.0;
        // If the remainder is uniform, 0 to e - 1 entries are unused; three standard errors of the mean of 600 are
        // 0.036 e.
        let (expected, error) = ((entries - 1) as f64 / 2.0, 0.036 * entries as f64);
        assert!((unused - expected).abs() < error, "{segment_bytes} bytes: {unused} unused, not {expected}");
    }
}

/// Power is cut after the full buffer of the log was programmed, and before the last word of the buffer was zeroed. No
/// entry is lost, and no space in the log.
#[test]
fn an_interrupted_flush_of_the_reverse_map_log_is_finished_by_recovery() {
    let page_entries = 512 / 16;
    let bind = |k: u32| ReverseMapEntry {
        lpn: Lpn(k),
        mapped_ppn: Some(Ppn(k % 24)),
        relocation_source_or_range_end: None,
        sequence_number: 1 + k as u64,
    };
    for outcome in [CutOutcome::Torn, CutOutcome::CompletedUnacknowledged] {
        // The stores of this case: the program, two words zeroed per entry, two stored for the next entry.
        for cut in 0..1 + 2 * page_entries as u64 + 2 {
            let mut under_test = ReverseMapUnderTest::new(FLASH_LOG, 1, None, outcome);
            (0..page_entries).for_each(|k| under_test.record(bind(k)).expect("power is on"));
            under_test.io.nand_mut().power_cut_nand_mut().restore_power(Some(cut));
            under_test.record(bind(page_entries)).expect_err("power is cut");
            under_test.io.nand_mut().power_cut_nand_mut().restore_power(None);
            let pages = under_test.scan_log_pages().expect("power is on");
            under_test.map.adopt_log_pages(&pages);
            let found = under_test.map.recover(&mut under_test.io).expect("power is on");
            let last_survives =
                cut == 2 * page_entries as u64 + 2 && outcome == CutOutcome::CompletedUnacknowledged;
            let expected = page_entries + u32::from(last_survives);
            assert!(found.into_iter().eq((0..expected).map(bind)), "{outcome:?} at {cut}");
            let is_flushed = cut > 0 || outcome == CutOutcome::CompletedUnacknowledged;
            let AnyReverseMap::FlashLog(log) = &under_test.map else { unreachable!() };
            assert_eq!(log.live_pages(), u32::from(is_flushed), "{outcome:?} at {cut}");
            let words = under_test.io.nvram().iter().skip(2).filter(|&&word| word != 0).count() as u32;
            assert_eq!(words, if is_flushed { 0 } else { 2 * (page_entries - 1) }, "{outcome:?} at {cut}");
        }
    }
}

/// Returns the state of the model after the changes of the map that `entries` record, applied in the order of their
/// sequence numbers. `recorded_entries` is the set of all entries that were ever recorded.
fn model_from_entries(entries: &[ReverseMapEntry], recorded_entries: &BTreeSet<EntryFields>) -> Model {
    let mut model = Model { recorded_entries: recorded_entries.clone(), ..Model::default() };
    let mut in_order = entries.to_vec();
    in_order.sort_by_key(|entry| entry.sequence_number);
    for entry in in_order {
        let buried =
            if entry.mapped_ppn.is_some() { entry.relocation_source_or_range_end } else { Some(entry.lpn) };
        if let Some(buried) = buried {
            model.bound_ppn_and_sequence_by_lpn.remove(&buried);
            model.tombstone_sequence_by_lpn.insert(buried, entry.sequence_number);
        }
        if let Some(place) = entry.mapped_ppn {
            model.tombstone_sequence_by_lpn.remove(&entry.lpn);
            model.bound_ppn_and_sequence_by_lpn.insert(entry.lpn, (place, entry.sequence_number));
        }
    }
    model
}

/// Regression: an image file restores NVRAM as of its last batch of operations, but keeps the log pages programmed
/// since. Recovery then found more live pages than the log may have, and an audit called the image corrupt for ever.
#[test]
fn recovery_shortens_a_reverse_map_log_on_flash_if_the_nvram_words_are_older_than_its_pages() {
    let cause = Cause::RemapLog as usize;
    let (mut excess_logs, mut runs) = (0, 0);
    for seed in 0..300 {
        let mut under_test = ReverseMapUnderTest::new(FLASH_LOG, seed, None, CutOutcome::Torn);
        (0..100).for_each(|_| under_test.execute_random_step().expect("power is on"));
        let nvram = under_test.io.nvram().to_vec();
        let (erases, programs) = (under_test.io.stats.erases[cause], under_test.io.stats.programs[cause]);
        while under_test.io.stats.programs[cause] < programs + 6
            && under_test.io.stats.erases[cause] == erases
        {
            under_test.execute_random_step().expect("power is on");
        }
        if under_test.io.stats.erases[cause] > erases {
            // An image erases no block before it has stored the words of NVRAM.
            continue;
        }
        for (index, &word) in nvram.iter().enumerate() {
            under_test.io.store_nvram_word(index, word).expect("power is on");
        }
        let pages = under_test.scan_log_pages().expect("power is on");
        under_test.map.adopt_log_pages(&pages);
        let found = under_test.map.recover(&mut under_test.io).expect("power is on");
        under_test.correct_valid_counts(&pages);
        let model = model_from_entries(&found, &under_test.model.recorded_entries);
        for entry in &found {
            if let Some(place) = entry.mapped_ppn.filter(|_| !model.entry_liveness(entry).is_mapping_live) {
                under_test.map.mark_mapping_superseded(&mut under_test.io, entry.lpn, place);
            }
        }
        let AnyReverseMap::FlashLog(log) = &under_test.map else { unreachable!() };
        excess_logs += u32::from(log.live_pages() > 2);
        let need = |entry: &ReverseMapEntry| model.entry_liveness(entry);
        while under_test.map.clean_excess_log_page(&mut under_test.io, &need).expect("power is on") {}
        let AnyReverseMap::FlashLog(log) = &under_test.map else { unreachable!() };
        assert!(log.live_pages() <= 2, "seed {seed}: {} live pages", log.live_pages());
        under_test.model = model;
        under_test.verify();
        runs += 1;
    }
    assert!(excess_logs > 20 && runs > excess_logs / 2, "{excess_logs} of {runs} logs were too long");
}

/// The random runs of these tests must use every mechanism of the log on flash: flushes, cleaning, and collection of
/// its blocks.
#[test]
fn random_runs_exercise_cleaning_and_gc_of_the_reverse_map_log_on_flash() {
    let mut under_test = ReverseMapUnderTest::new(FLASH_LOG, 3, None, CutOutcome::Torn);
    (0..2000).for_each(|_| under_test.execute_random_step().expect("power is on"));
    let stats = &under_test.io.stats;
    let cause = Cause::RemapLog as usize;
    assert!(stats.erases[cause] > 10, "{} erases", stats.erases[cause]);
    let pages = stats.programs[cause];
    assert!(pages >= 4 * stats.erases[cause], "{pages} programs for {} erases", stats.erases[cause]);
    let AnyReverseMap::FlashLog(log) = &under_test.map else { unreachable!() };
    assert!(log.live_pages() <= 2);
}

prop_compose! {
    /// Generates a reverse-map entry with any field values that can be encoded, and the first flash page of its block.
    fn any_entry()(
        lpn in 0..(1u32 << 31) - 1,
        offset in prop::option::of(0..65_535u32),
        source in prop::option::of(0..(1u32 << 31) - 1),
        sequence in 0..=MAX_SEQUENCE,
    ) -> (ReverseMapEntry, u32) {
        let first = 1_000_000;
        let place = offset.map(|offset| Ppn(first + offset));
        (ReverseMapEntry { lpn: Lpn(lpn), mapped_ppn: place, relocation_source_or_range_end: source.map(Lpn), sequence_number: sequence }, first)
    }
}

proptest! {
    #[test]
    fn reverse_map_entries_are_decoded_as_encoded((entry, first) in any_entry()) {
        let words = entry.encode(Ppn(first));
        prop_assert_eq!(ReverseMapEntry::decode(words, Ppn(first)), Some(entry));
        prop_assert_eq!(ReverseMapEntry::decode([words[0], 0], Ppn(first)), None);
        prop_assert_eq!(ReverseMapEntry::decode([0, words[1]], Ppn(first)), None);
    }
}
