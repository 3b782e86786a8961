//! Tests of the reverse maps (records of the logical pages that share a flash page) against a plain model, with power
//! cut at every store to NVRAM, and against the figures of the Remap-SSD paper.
//!
//! The model holds the flash page to which each logical page is bound (mapped without a program), the logical pages
//! that hold nothing, and all entries ever recorded. It shares no code with the product except the entry type. A
//! reverse map may return more entries than the model needs, but none that was not recorded.

use std::collections::{BTreeMap, BTreeSet};

use common::{FragileNand, exploration_interval, geometry_without_superblocks, medium_with_power_cut};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use wearwell::address::{BlockId, Lpn, Ppn};
use wearwell::nand::{CutOutcome, Geometry, RetainedFields, SimNand};
use wearwell::operation::Cause;
use wearwell::sharing::reverse_map::{
    AnyReverseMap, DEFAULT_SEGMENT_BYTES, EntryLiveness, MAX_SEQUENCE, NvramSegments,
    REVERSE_MAP_ENTRY_BYTES, ReverseMap, ReverseMapEntry, ReverseMapKind,
};
use wearwell::store::{BlockState, FreeBlockOrder, PagesToCopy, Store, Stream};
use wearwell::{Error, Result};

use crate::common;

/// Flash and NVRAM of the reverse map, on a medium that can lose power.
type Io = Store<FragileNand>;
/// Fields of a reverse-map entry, for comparisons: logical page, flash page, relocation source or end of a range,
/// sequence number.
type Key = (u32, Option<u32>, Option<u32>, u64);

/// Number of blocks of the device.
const BLOCKS: u32 = 6;
/// Number of pages per block.
const BLOCK_PAGES: u32 = 4;
/// Number of logical pages.
const LOGICAL: u32 = 48;

/// Returns the fields of a reverse-map entry, for comparisons.
fn key(entry: &ReverseMapEntry) -> Key {
    (
        entry.lpn.0,
        entry.bound_ppn.map(|place| place.0),
        entry.relocation_source_or_range_end.map(|lpn| lpn.0),
        entry.sequence_number,
    )
}

/// Expected state of a reverse map (record of the logical pages that share a flash page), and all entries ever
/// recorded.
#[derive(Clone, Default)]
struct Model {
    /// Flash page to which each logical page is bound (mapped without a program), and sequence number of its entry.
    binds: BTreeMap<Lpn, (Ppn, u64)>,
    /// Logical pages that hold nothing since a trim or a relocation, and the sequence number of this entry.
    dead: BTreeMap<Lpn, u64>,
    /// All entries that were recorded.
    recorded: BTreeSet<Key>,
}

impl Model {
    /// Returns for which purposes an entry is still needed: as a bind, as a tombstone (record that a page holds
    /// nothing), both, or none.
    fn need(&self, entry: &ReverseMapEntry) -> EntryLiveness {
        let buried =
            if entry.bound_ppn.is_some() { entry.relocation_source_or_range_end } else { Some(entry.lpn) };
        EntryLiveness {
            is_bind_live: entry.bound_ppn.is_some()
                && self.binds.get(&entry.lpn).map(|bind| bind.0) == entry.bound_ppn,
            is_tombstone_needed: buried.is_some_and(|lpn| self.dead.contains_key(&lpn)),
        }
    }

    /// Updates the model after a power loss by the entries that were found. Their sequence numbers are newer if the
    /// reverse map was recording an entry again when power was lost.
    fn adopt(&mut self, found: &[ReverseMapEntry]) {
        for entry in found {
            if let Some((place, sequence)) = self.binds.get_mut(&entry.lpn) {
                *sequence = if Some(*place) == entry.bound_ppn {
                    entry.sequence_number.max(*sequence)
                } else {
                    *sequence
                };
            }
            let buried = if entry.bound_ppn.is_some() {
                entry.relocation_source_or_range_end
            } else {
                Some(entry.lpn)
            };
            if let Some(sequence) = buried.and_then(|lpn| self.dead.get_mut(&lpn)) {
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
            let newest = binds.entry((entry.lpn, entry.bound_ppn)).or_insert(0);
            *newest = entry.sequence_number.max(*newest);
            let Some(buried) = (if entry.bound_ppn.is_some() {
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
        for (&lpn, &(place, sequence)) in &self.binds {
            let newest = binds.get(&(lpn, Some(place))).copied();
            assert!(newest >= Some(sequence), "bind of {lpn} to {place}: {newest:?}, not {sequence}");
        }
        for (&lpn, &sequence) in &self.dead {
            let newest = dead.get(&lpn).copied();
            assert!(newest >= Some(sequence), "tombstone of {lpn}: {newest:?}, not {sequence}");
        }
        let rests: BTreeSet<_> =
            self.recorded.iter().filter_map(|&(_, _, source, seq)| Some((source?, seq))).collect();
        for entry in found {
            let rest = entry.bound_ppn.is_none() && rests.contains(&(entry.lpn.0, entry.sequence_number));
            assert!(rest || self.recorded.contains(&key(entry)), "{entry:?} was never recorded");
        }
    }
}

/// Reverse map under test, with its model and the parts of an engine that it needs.
struct World {
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
    refused: u32,
}

/// Returns the geometry of the device: one pool of small blocks.
fn geometry() -> Geometry {
    geometry_without_superblocks([1, BLOCKS, BLOCK_PAGES, 512])
}

/// Creates flash and NVRAM for this kind of reverse map, with power cut at operation `cut_at` (`None`: never).
fn store(part: ReverseMapKind, cut_at: Option<u64>, outcome: CutOutcome) -> Io {
    let nand = SimNand::new(geometry(), RetainedFields::default()).with_nvram(part.nvram_bytes(512));
    Store::new(medium_with_power_cut(nand, cut_at, outcome), FreeBlockOrder::Fifo)
}

impl World {
    /// Creates an empty reverse map of this kind, with its model. `seed` determines the steps.
    fn new(part: ReverseMapKind, seed: u64, cut_at: Option<u64>, outcome: CutOutcome) -> Self {
        let io = store(part, cut_at, outcome);
        let map = AnyReverseMap::new(part, &io).expect("the part fits");
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self { io, map, model: Model::default(), rng, sequence: 0, refused: 0 }
    }

    /// Returns a random logical page.
    fn lpn(&mut self) -> Lpn {
        Lpn(self.rng.random_range(0..LOGICAL))
    }

    /// Makes free pages for the log pages that the next call may append, by collecting log blocks as the engine does.
    fn make_room_for_log_pages(&mut self) -> Result<()> {
        while self.map.max_pages_per_recorded_entry() > 0 && self.io.total_free_blocks() < 3 {
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
    fn scan(&mut self) -> Result<Vec<(u32, Ppn)>> {
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

    /// Sets the valid counts of blocks according to the pages that the reverse map owns.
    fn count_valid(&mut self, found: &[(u32, Ppn)]) {
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

    /// Requests space for one entry of the host, and returns whether the reverse map has it.
    fn admit(&mut self) -> Result<bool> {
        self.make_room_for_log_pages()?;
        let model = &self.model;
        let admitted = self.map.make_room_for_entry(&mut self.io, &|entry| model.need(entry))?;
        self.refused += u32::from(!admitted);
        Ok(admitted)
    }

    /// Records an entry in reverse map and model.
    fn record(&mut self, entry: ReverseMapEntry) -> Result<()> {
        self.make_room_for_log_pages()?;
        self.model.recorded.insert(key(&entry));
        let model = &self.model;
        self.map.record_entry(&mut self.io, entry, &|entry| model.need(entry))
    }

    /// Removes the bind of a logical page (its mapping to a flash page without a program) from the model and the
    /// reverse map.
    fn unbind(&mut self, lpn: Lpn) {
        if let Some((place, _)) = self.model.binds.remove(&lpn) {
            self.map.mark_bind_superseded(&mut self.io, lpn, place);
        }
    }

    /// Binds (maps without a program) a random logical page to a random flash page, sometimes as a relocation, if there
    /// is space for the entry.
    fn bind(&mut self) -> Result<()> {
        if !self.admit()? {
            return Ok(());
        }
        self.sequence += 1;
        let (lpn, other) = (self.lpn(), self.lpn());
        let place = Ppn(self.rng.random_range(0..BLOCKS * BLOCK_PAGES));
        let source = Some(other).filter(|_| lpn != other && self.rng.random_bool(0.3));
        self.record(ReverseMapEntry {
            lpn,
            bound_ppn: Some(place),
            relocation_source_or_range_end: source,
            sequence_number: self.sequence,
        })?;
        self.unbind(lpn);
        self.model.dead.remove(&lpn);
        self.model.binds.insert(lpn, (place, self.sequence));
        if let Some(source) = source {
            self.unbind(source);
            self.model.dead.insert(source, self.sequence);
        }
        self.every_victim_fits()
    }

    /// Asserts that the reverse map has space for the entries of any one GC victim. It promises this whenever it
    /// accepts a new entry of the host.
    fn every_victim_fits(&mut self) -> Result<()> {
        let model = &self.model;
        for block in (0..BLOCKS).map(BlockId) {
            let fits = self.map.make_room_for_victim(&mut self.io, block, &|entry| model.need(entry))?;
            assert!(fits, "the entries of block {block} do not fit after an admitted bind");
        }
        Ok(())
    }

    /// Trims a random logical page, if there is space for the entry.
    fn trim(&mut self) -> Result<()> {
        if !self.admit()? {
            return Ok(());
        }
        self.sequence += 1;
        let lpn = self.lpn();
        self.record(ReverseMapEntry {
            lpn,
            bound_ppn: None,
            relocation_source_or_range_end: None,
            sequence_number: self.sequence,
        })?;
        self.unbind(lpn);
        self.model.dead.insert(lpn, self.sequence);
        Ok(())
    }

    /// Writes a random logical page, which needs no entry in the reverse map. The program on flash is newer, so earlier
    /// entries of the page are not needed any more.
    fn write(&mut self) {
        let lpn = self.lpn();
        self.unbind(lpn);
        self.model.dead.remove(&lpn);
    }

    /// Collects a random block: moves its entries to the two blocks after it, or drops them if they have no space, and
    /// erases the block.
    fn collect(&mut self) -> Result<()> {
        let block = BlockId(self.rng.random_range(0..BLOCKS));
        self.make_room_for_log_pages()?;
        let model = &self.model;
        let fits = self.map.make_room_for_victim(&mut self.io, block, &|entry| model.need(entry))?;
        if fits {
            self.move_entries(block)?;
        } else {
            self.store_copies(block);
        }
        self.map.drop_entries_of_block(&mut self.io, block)
    }

    /// Records the needed entries of a block again, for the flash pages to which GC would move their pages.
    fn move_entries(&mut self, block: BlockId) -> Result<()> {
        let mut entries = Vec::new();
        self.map.scan_entries_of_block(&mut self.io, block, &mut entries)?;
        let mut moved = BTreeSet::new();
        let mut next = self.model.clone();
        for entry in entries {
            let need = self.model.need(&entry);
            let newest = self.model.binds.get(&entry.lpn).is_some_and(|bind| bind.1 == entry.sequence_number);
            let Some(rest) =
                (EntryLiveness { is_bind_live: need.is_bind_live && newest, ..need }).live_part_of(entry)
            else {
                continue;
            };
            if !moved.insert((rest.lpn, rest.bound_ppn, rest.sequence_number)) {
                continue;
            }
            let Some(place) = rest.bound_ppn else {
                self.record(rest)?;
                continue;
            };
            self.sequence += 1;
            let place =
                Ppn((place.0 + BLOCK_PAGES + u32::from(place.0 % 2 == 0) * BLOCK_PAGES)
                    % (BLOCKS * BLOCK_PAGES));
            self.record(ReverseMapEntry { bound_ppn: Some(place), sequence_number: self.sequence, ..rest })?;
            next.binds.insert(rest.lpn, (place, self.sequence));
            if let Some(source) = rest.relocation_source_or_range_end.filter(|_| need.is_tombstone_needed) {
                next.dead.insert(source, self.sequence);
            }
        }
        self.model = Model { recorded: std::mem::take(&mut self.model.recorded), ..next };
        Ok(())
    }

    /// Models GC without space for the entries of a block, where each referrer of its pages gets a page of its own.
    /// Tombstones of relocations are dropped, because zeros are written to their logical pages.
    fn store_copies(&mut self, block: BlockId) {
        let in_block = |place: Ppn| place.0 / BLOCK_PAGES == block.0;
        let moved: Vec<Lpn> =
            self.model.binds.iter().filter(|(_, b)| in_block(b.0)).map(|(&lpn, _)| lpn).collect();
        for lpn in moved {
            self.unbind(lpn);
        }
        let of_block =
            |&&(_, place, source, _): &&Key| source.is_some() && place.is_some_and(|p| in_block(Ppn(p)));
        let sources: Vec<Key> = self.model.recorded.iter().filter(of_block).copied().collect();
        for (_, _, source, sequence) in sources {
            let source = Lpn(source.expect("filtered"));
            if self.model.dead.get(&source) == Some(&sequence) {
                self.model.dead.remove(&source);
            }
        }
    }

    /// Executes a random step: bind, trim, write or collection.
    fn step(&mut self) -> Result<()> {
        match self.rng.random_range(0..100) {
            0..55 => self.bind(),
            55..65 => self.trim(),
            65..90 => {
                self.write();
                Ok(())
            }
            _ => self.collect(),
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
                found[from..].iter().find(|e| e.bound_ppn.is_none_or(|p| p.0 / BLOCK_PAGES != block.0));
            assert_eq!(foreign, None, "entry of another block in block {block}");
        }
        let binds = Model { dead: BTreeMap::new(), ..self.model.clone() };
        binds.verify(&found);
    }

    /// Recovers the reverse map after a power loss, and compares the found entries with the model.
    fn recover(&mut self) -> Result<()> {
        let pages = self.scan()?;
        self.map.adopt_log_pages(&pages);
        let found = self.map.recover(&mut self.io)?;
        self.count_valid(&pages);
        let distinct = found.iter().map(key).collect::<BTreeSet<_>>().len();
        let is_flash = matches!(self.map, AnyReverseMap::FlashLog(_));
        assert!(distinct == found.len() || !is_flash, "the flash log returned copies");
        self.model.verify(&found);
        self.model.adopt(&found);
        for entry in found.iter().filter(|entry| entry.bound_ppn.is_some()) {
            let newest = self.model.binds.get(&entry.lpn).is_some_and(|bind| bind.1 == entry.sequence_number);
            if !newest {
                self.map.mark_bind_superseded(&mut self.io, entry.lpn, entry.bound_ppn.expect("filtered"));
            }
        }
        self.map.check_invariants().expect("the part's own rules hold");
        Ok(())
    }
}

/// Returns the kind of a reverse map in NVRAM segments of this size.
fn segments(nvram_bytes: u64, segment_bytes: u32) -> ReverseMapKind {
    ReverseMapKind::Segments { nvram_bytes, segment_bytes }
}

/// Reverse map as a log of two flash pages.
const FLASH_LOG: ReverseMapKind = ReverseMapKind::FlashLog { log_pages: 2 };
/// Reverse map as a log in 400 bytes of NVRAM.
const NVRAM_LOG: ReverseMapKind = ReverseMapKind::NvramLog { nvram_bytes: 400 };

/// Returns the kinds of reverse maps under test, all with little space.
fn parts() -> Vec<ReverseMapKind> {
    vec![segments(1024, 64), segments(512, 32), segments(1280, 128), segments(720, 48), NVRAM_LOG, FLASH_LOG]
}

#[test]
fn every_reverse_map_agrees_with_a_naive_model() {
    for part in parts() {
        let mut refused = 0;
        for seed in 0..40 {
            let mut world = World::new(part, seed, None, CutOutcome::NoEffect);
            for _ in 0..400 {
                world.step().expect("power is on");
                world.verify();
            }
            world.recover().expect("power is on");
            world.verify();
            refused += world.refused;
        }
        assert!(refused > 0, "{part:?} never ran full: the test is too easy");
    }
}

/// Runs random steps with power cut at operation `cut_at`, and again during recovery. Returns `false` if the run ended
/// before the first cut.
fn survives(part: ReverseMapKind, seed: u64, cut_at: u64, again_at: u64, outcome: CutOutcome) -> bool {
    let mut world = World::new(part, seed, Some(cut_at), outcome);
    let cut = (0..200).find_map(|_| world.step().err());
    let Some(error) = cut else { return false };
    assert!(error.is_power_loss(), "{error}");
    world.io.nand_mut().restore_power(Some(again_at));
    if let Err(error) = world.recover() {
        assert!(error.is_power_loss(), "{error}");
        world.io.nand_mut().restore_power(None);
        world.recover().expect("power is on");
    }
    world.io.nand_mut().restore_power(None);
    for _ in 0..20 {
        world.step().expect("power is on");
        world.verify();
    }
    world.recover().expect("power is on");
    true
}

#[test]
fn every_reverse_map_survives_a_power_cut_at_every_nvram_store() {
    for part in parts() {
        let mut stores = 0;
        for seed in 0..6 / exploration_interval(3) {
            let outcome = if seed % 2 == 0 { CutOutcome::Torn } else { CutOutcome::CompletedUnacknowledged };
            let cuts =
                (0..u64::MAX).take_while(|&cut| survives(part, seed, cut, u64::MAX, outcome)).count() as u64;
            (0..cuts).for_each(|cut| assert!(survives(part, seed, cut, cut * 7 % 23, outcome)));
            stores += cuts;
        }
        let least = 600 / exploration_interval(3);
        assert!(stores > least, "{part:?}: only {stores} stores in all scenarios");
    }
}

/// Power is lost after a block was erased and before its reverse-map entries were dropped. Recovery keeps these stale
/// entries with those of the block's next use, and the next erase of the block frees all of them.
#[test]
fn recovery_adopts_stale_reverse_map_entries_of_a_block_and_its_next_erase_frees_them() {
    let part = segments(1024, 64);
    let mut world = World::new(part, 1, None, CutOutcome::NoEffect);
    let bind = |lpn, place, sequence| ReverseMapEntry {
        lpn: Lpn(lpn),
        bound_ppn: Some(Ppn(place)),
        relocation_source_or_range_end: None,
        sequence_number: sequence,
    };
    let free = |world: &World| match &world.map {
        AnyReverseMap::Segments(map) => map.free_segments(),
        _ => unreachable!(),
    };
    for k in 0..5 {
        world.record(bind(k, 4 + k % 4, 1 + k as u64)).unwrap();
    }
    // The block is erased, but power is lost before its group is freed.
    assert_eq!(world.map.recover(&mut world.io).unwrap().len(), 5);
    // The block is in use again.
    world.record(bind(9, 4, 50)).unwrap();
    let mut found = Vec::new();
    world.map.scan_entries_of_block(&mut world.io, BlockId(1), &mut found).unwrap();
    assert_eq!(found.iter().map(|entry| entry.sequence_number).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 50]);
    world.map.drop_entries_of_block(&mut world.io, BlockId(1)).unwrap();
    assert_eq!(free(&world), 16);
    assert!(world.io.nvram().iter().all(|&word| word == 0));
}

/// Segments of a size that the entries do not fit, too few segments, and more NVRAM than the medium has are refused.
#[test]
fn impossible_nvram_segment_sizes_are_refused() {
    let io = store(segments(1024, 64), None, CutOutcome::NoEffect);
    let refused =
        |bytes, segment| matches!(NvramSegments::new(&io, bytes, segment), Err(Error::InvalidOptions(_)));
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
    let nand = SimNand::new(geometry(), RetainedFields::default()).with_nvram(nvram);
    let map =
        NvramSegments::new(&Store::new(nand, FreeBlockOrder::Fifo), nvram, DEFAULT_SEGMENT_BYTES).unwrap();
    let per_gib = map.capacity_entries() * (GIB / nvram) * PAGE_BYTES;
    assert_eq!(per_gib, 252 * GIB, "duplicates that 1 GiB of NVRAM serves, heads included");
    assert_eq!(GIB / REVERSE_MAP_ENTRY_BYTES * PAGE_BYTES, 256 * GIB, "the same without heads");
    assert_eq!((map.entries_per_segment() + 1) * 100, 64 * 100);
    let overhead_percent = 100.0 / (map.entries_per_segment() + 1) as f64;
    assert!((overhead_percent - 1.5625).abs() < 1e-12, "segment heads take {overhead_percent} %");
}

/// Returns an empty reverse map on a device of `blocks` blocks of 16 pages of 4 KiB.
fn fresh(part: ReverseMapKind, blocks: u32) -> (Store<SimNand>, AnyReverseMap) {
    let nand = SimNand::new(geometry_without_superblocks([1, blocks, 16, 4096]), RetainedFields::default());
    let io = Store::new(nand.with_nvram(part.nvram_bytes(4096)), FreeBlockOrder::Fifo);
    let map = AnyReverseMap::new(part, &io).expect("the part fits");
    (io, map)
}

/// Records `count` binds (logical pages mapped without a program) to pages of `block`.
fn fill(io: &mut Store<SimNand>, map: &mut AnyReverseMap, block: u32, count: u32) {
    for k in 0..count {
        let entry = ReverseMapEntry {
            lpn: Lpn(k),
            bound_ppn: Some(Ppn(block * 16 + k % 16)),
            relocation_source_or_range_end: None,
            sequence_number: k as u64,
        };
        map.record_entry(io, entry, &|_| EntryLiveness { is_bind_live: true, is_tombstone_needed: false })
            .expect("the part is large enough");
    }
}

/// Figure RM-43 of the Remap-SSD paper: bytes of NVRAM and pages of flash that are read for a victim with 50 entries,
/// while there are `others` entries of other blocks. Only for a reverse map in NVRAM segments they do not depend on
/// `others`.
#[test]
fn only_with_nvram_segments_a_victim_scan_is_independent_of_entries_of_other_blocks() {
    let costs = |part, others: u32| {
        let (mut io, mut map) = fresh(part, 64);
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

/// Figure RM-36 of the Remap-SSD paper: the most entries of a block are 117 KiB, which are scanned in 94 us, at 50 ns
/// per 64 bytes.
#[test]
fn scanning_the_most_entries_of_a_block_in_the_remap_ssd_paper_takes_94_us() {
    let (mut io, mut map) = fresh(segments(1 << 20, DEFAULT_SEGMENT_BYTES), 8);
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
        let (mut io, mut map) = fresh(segments(16 << 20, segment_bytes), 600);
        let counts: Vec<u32> = (0..600).map(|_| rng.random_range(1..=4 * entries)).collect();
        counts.iter().zip(0..).for_each(|(&count, block)| fill(&mut io, &mut map, block, count));
        let AnyReverseMap::Segments(map) = map else { unreachable!() };
        let taken = (16 << 20) / segment_bytes - map.free_segments();
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
        bound_ppn: Some(Ppn(k % 24)),
        relocation_source_or_range_end: None,
        sequence_number: 1 + k as u64,
    };
    for outcome in [CutOutcome::Torn, CutOutcome::CompletedUnacknowledged] {
        // The stores of this case: the program, two words zeroed per entry, two stored for the next entry.
        for cut in 0..1 + 2 * page_entries as u64 + 2 {
            let mut world = World::new(FLASH_LOG, 1, None, outcome);
            (0..page_entries).for_each(|k| world.record(bind(k)).expect("power is on"));
            world.io.nand_mut().restore_power(Some(cut));
            world.record(bind(page_entries)).expect_err("power is cut");
            world.io.nand_mut().restore_power(None);
            let pages = world.scan().expect("power is on");
            world.map.adopt_log_pages(&pages);
            let found = world.map.recover(&mut world.io).expect("power is on");
            let last_survives =
                cut == 2 * page_entries as u64 + 2 && outcome == CutOutcome::CompletedUnacknowledged;
            let expected = page_entries + u32::from(last_survives);
            assert!(found.into_iter().eq((0..expected).map(bind)), "{outcome:?} at {cut}");
            let is_flushed = cut > 0 || outcome == CutOutcome::CompletedUnacknowledged;
            let AnyReverseMap::FlashLog(log) = &world.map else { unreachable!() };
            assert_eq!(log.live_pages(), u32::from(is_flushed), "{outcome:?} at {cut}");
            let words = world.io.nvram().iter().skip(2).filter(|&&word| word != 0).count() as u32;
            assert_eq!(words, if is_flushed { 0 } else { 2 * (page_entries - 1) }, "{outcome:?} at {cut}");
        }
    }
}

/// Returns the model of what `entries`, in the order of their sequence numbers, say of binds and trims.
fn replayed(entries: &[ReverseMapEntry], recorded: &BTreeSet<Key>) -> Model {
    let mut model = Model { recorded: recorded.clone(), ..Model::default() };
    let mut in_order = entries.to_vec();
    in_order.sort_by_key(|entry| entry.sequence_number);
    for entry in in_order {
        let buried =
            if entry.bound_ppn.is_some() { entry.relocation_source_or_range_end } else { Some(entry.lpn) };
        if let Some(buried) = buried {
            model.binds.remove(&buried);
            model.dead.insert(buried, entry.sequence_number);
        }
        if let Some(place) = entry.bound_ppn {
            model.dead.remove(&entry.lpn);
            model.binds.insert(entry.lpn, (place, entry.sequence_number));
        }
    }
    model
}

/// Regression: an image file restores NVRAM as of its last batch of operations, but keeps the log pages programmed
/// since. Recovery then found more live pages than the log may have, and an audit called the image corrupt for ever.
#[test]
fn recovery_shortens_a_reverse_map_log_on_flash_whose_nvram_words_went_back() {
    let cause = Cause::RemapLog as usize;
    let (mut excess_logs, mut runs) = (0, 0);
    for seed in 0..300 {
        let mut world = World::new(FLASH_LOG, seed, None, CutOutcome::Torn);
        (0..100).for_each(|_| world.step().expect("power is on"));
        let nvram = world.io.nvram().to_vec();
        let (erases, programs) = (world.io.stats.erases[cause], world.io.stats.programs[cause]);
        while world.io.stats.programs[cause] < programs + 6 && world.io.stats.erases[cause] == erases {
            world.step().expect("power is on");
        }
        if world.io.stats.erases[cause] > erases {
            // An image erases no block before it has stored the words of NVRAM.
            continue;
        }
        for (index, &word) in nvram.iter().enumerate() {
            world.io.store_nvram_word(index, word).expect("power is on");
        }
        let pages = world.scan().expect("power is on");
        world.map.adopt_log_pages(&pages);
        let found = world.map.recover(&mut world.io).expect("power is on");
        world.count_valid(&pages);
        let model = replayed(&found, &world.model.recorded);
        for entry in &found {
            if let Some(place) = entry.bound_ppn.filter(|_| !model.need(entry).is_bind_live) {
                world.map.mark_bind_superseded(&mut world.io, entry.lpn, place);
            }
        }
        let AnyReverseMap::FlashLog(log) = &world.map else { unreachable!() };
        excess_logs += u32::from(log.live_pages() > 2);
        let need = |entry: &ReverseMapEntry| model.need(entry);
        while world.map.clean_excess_page(&mut world.io, &need).expect("power is on") {}
        let AnyReverseMap::FlashLog(log) = &world.map else { unreachable!() };
        assert!(log.live_pages() <= 2, "seed {seed}: {} live pages", log.live_pages());
        world.model = model;
        world.verify();
        runs += 1;
    }
    assert!(excess_logs > 20 && runs > excess_logs / 2, "{excess_logs} of {runs} logs were too long");
}

/// The random runs of these tests must use every mechanism of the log on flash: flushes, cleaning, and collection of
/// its blocks.
#[test]
fn random_runs_exercise_cleaning_and_gc_of_the_reverse_map_log_on_flash() {
    let mut world = World::new(FLASH_LOG, 3, None, CutOutcome::Torn);
    (0..2000).for_each(|_| world.step().expect("power is on"));
    let stats = &world.io.stats;
    let cause = Cause::RemapLog as usize;
    assert!(stats.erases[cause] > 10, "{} erases", stats.erases[cause]);
    let pages = stats.programs[cause];
    assert!(pages >= 4 * stats.erases[cause], "{pages} programs for {} erases", stats.erases[cause]);
    let AnyReverseMap::FlashLog(log) = &world.map else { unreachable!() };
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
        (ReverseMapEntry { lpn: Lpn(lpn), bound_ppn: place, relocation_source_or_range_end: source.map(Lpn), sequence_number: sequence }, first)
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
