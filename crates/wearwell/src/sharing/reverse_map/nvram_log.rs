//! A reverse map in one NVRAM log, with which Remap-SSD is compared (its section 5, Remap-SSD-NLog).
//!
//! Entries of all blocks are in one ring buffer in the order of recording, so no space is lost in half-empty segments.
//! The cost: GC must scan the whole used log to find the referrers of its victim.
//!
//! # Safe at every store
//!
//! The ring has no pointers. The entries occupy consecutive slots, and at least two slots of the ring are zero (the
//! gap). Recovery zeroes torn entries, and takes the first entry after the gap as the oldest. Cleaning (compaction)
//! passes once over the entries. It copies a needed entry to the slot after the youngest before it zeroes the old slot,
//! first word first, which makes the old entry invalid. A power loss leaves an entry at most twice; recovery then
//! zeroes the older one.
//!
//! An incomplete remap command can only be the youngest entries of the log; recovery zeroes them from the youngest on.
//! Before cleaning drops entries, it stores in NVRAM that all commands so far are complete. So recovery does not take a
//! command with dropped entries for incomplete.
//!
//! # Room for GC
//!
//! A victim's entries are recorded again while the old ones still exist. So the host may record an entry only if there
//! is still room after it to record the entries of the largest block once more. Only GC can unite the entries of
//! several blocks in one; therefore it calls [`ReverseMap::make_room_for_victim`]. No cleaning runs while GC records:
//! it would take the entries that GC has read for superseded.
//!
//! Entries of an erased block are dropped by the next cleaning. If power is lost before, they reappear as entries of
//! the reused block. They are older than its pages, so the engine ignores them.

use super::log_index::{GroupNumber, LogIndex};
use super::{
    BlockId, EntryLayout, LivenessOf, Lpn, Ppn, RemapCommand, RemapCommandState, ReverseMap, ReverseMapEntry,
    entries_to_keep, require_log_can_address_device_pages,
};
use crate::error::{Error, Result};
use crate::store::FlashPageStore;

/// Number of entry slots of the NVRAM log that always stay zero: one between the youngest and the oldest entry, which
/// shows where the ring of entries begins, and one for cleaning.
const EMPTY_SLOTS_BEFORE_OLDEST_ENTRY: u32 = 2;
/// Minimum number of entry slots of an NVRAM log that can record any entry: one for the entry, one for its copy by GC,
/// and the empty slots between the youngest and the oldest entry.
const MIN_LOG_SLOTS: u64 = 2 + EMPTY_SLOTS_BEFORE_OLDEST_ENTRY as u64;
/// To make room for an entry of the host, the NVRAM log is cleaned (compacted) only if cleaning can free more entry
/// slots than all slots of the log divided by this number.
const LOG_CAPACITY_TO_MIN_CLEANING_GAIN_RATIO: u32 = 20;

/// A reverse map (record of the logical pages mapped to each physical page) whose entries are in one log in NVRAM, a
/// ring of entry slots in the order of recording.
#[derive(Clone, Debug)]
pub struct NvramLog {
    /// State of the atomic remap commands in this log: up to which sequence number they count as complete.
    command_state: RemapCommandState,
    /// Number of entry slots of the NVRAM log.
    slot_count: u32,
    /// Slot of the oldest reverse-map entry in the NVRAM log, which is a ring.
    oldest_slot: u32,
    /// Number of entry slots of the NVRAM log in use, from the oldest entry to the youngest.
    used_slots: u32,
    /// Index by block of the reverse-map entries, which keeps for each entry its slot in the NVRAM log.
    index: LogIndex<u32>,
    /// For each slot of the NVRAM log, whether the index by block has its reverse-map entry; `false` if the slot is
    /// empty or the block that the entry names was erased.
    is_entry_in_slot_indexed: Vec<bool>,
}

impl NvramLog {
    /// Creates an empty reverse-map log in the first `nvram_bytes` bytes of the NVRAM of `io`, with entries of layout
    /// `entry_layout`.
    ///
    /// # Errors
    /// [`Error::InvalidOptions`] if the medium has less NVRAM, the log is too small, or the device has more than
    /// [`MAX_DEVICE_PAGES_FOR_LOG`](super::MAX_DEVICE_PAGES_FOR_LOG) pages.
    pub fn new(io: &FlashPageStore, nvram_bytes: u64, entry_layout: EntryLayout) -> Result<Self> {
        let slots = nvram_bytes.saturating_sub(entry_layout.commands_complete_until_word_bytes())
            / entry_layout.entry_bytes();
        if (io.nvram().len() as u64 * 8) < nvram_bytes {
            return Err(Error::of_small_nvram("the reverse map", nvram_bytes, io.nvram().len()));
        }
        require_log_can_address_device_pages(io.geometry().pages())?;
        if slots < MIN_LOG_SLOTS {
            return Err(Error::InvalidOptions(format!(
                "the reverse map needs room for at least {MIN_LOG_SLOTS} entries of {} bytes, but its {nvram_bytes} bytes \
                 of NVRAM hold {slots}: raise remap.size_mib",
                entry_layout.entry_bytes()
            )));
        }
        if slots > u32::MAX as u64 {
            return Err(Error::InvalidOptions(format!(
                "the reverse map can have at most {} entries of {} bytes, but its {nvram_bytes} bytes of NVRAM hold \
                 {slots}: lower remap.size_mib",
                u32::MAX,
                entry_layout.entry_bytes()
            )));
        }
        Ok(Self {
            command_state: RemapCommandState::new(
                entry_layout,
                slots as usize * entry_layout.words_per_entry(),
            ),
            slot_count: slots as u32,
            oldest_slot: 0,
            used_slots: 0,
            index: LogIndex::new(io.geometry().blocks()),
            is_entry_in_slot_indexed: vec![false; slots as usize],
        })
    }

    /// Resets the RAM state of the NVRAM log to that of an empty log.
    fn clear_ram_state(&mut self) {
        self.index.clear();
        self.is_entry_in_slot_indexed.fill(false);
        (self.oldest_slot, self.used_slots) = (0, 0);
    }

    /// Returns the maximum number of reverse-map entries that the NVRAM log can hold.
    pub fn capacity_entries(&self) -> u32 {
        self.slot_count - EMPTY_SLOTS_BEFORE_OLDEST_ENTRY
    }

    /// Returns the number of entry slots of the NVRAM log from the oldest entry to the youngest.
    pub fn used_slots(&self) -> u32 {
        self.used_slots
    }

    /// Returns the number of further entries that the NVRAM log has slots for. The slots that always stay empty between
    /// the youngest and the oldest entry are not counted.
    fn free_slots(&self) -> u32 {
        self.capacity_entries() - self.used_slots
    }

    /// Returns the slot of entry `k` in the NVRAM log, counted from 0 at the oldest entry.
    fn slot_of_kth_entry(&self, k: u32) -> u32 {
        ((self.oldest_slot as u64 + k as u64) % self.slot_count as u64) as u32
    }

    /// Returns the index of the first NVRAM word (8 bytes) of an entry slot.
    fn first_word_index_of_slot(&self, slot: u32) -> usize {
        slot as usize * self.command_state.entry_layout.words_per_entry()
    }

    /// Decodes the reverse-map entry in `slot` of the NVRAM log, with the atomic remap command to which it belongs, if
    /// any; `None` if the slot is empty or torn.
    fn decode_slot(&self, io: &FlashPageStore, slot: u32) -> Option<(ReverseMapEntry, Option<RemapCommand>)> {
        let (words, command) = self
            .command_state
            .entry_layout
            .split_entry_words(&io.nvram()[self.first_word_index_of_slot(slot)..])?;
        Some((ReverseMapEntry::decode_log_words(words)?, command))
    }

    /// Decodes the reverse-map entry in a slot that is in use.
    fn entry_in_slot(&self, io: &FlashPageStore, slot: u32) -> ReverseMapEntry {
        self.decode_slot(io, slot).expect("a slot in use holds an entry").0
    }

    /// Returns the bytes of NVRAM of the slots from the oldest entry to the youngest.
    fn used_bytes(&self) -> u64 {
        self.used_slots as u64 * self.command_state.entry_layout.entry_bytes()
    }

    /// Stores a reverse-map entry in the slot after the youngest entry of the NVRAM log, and adds it to the index.
    fn append_entry(
        &mut self,
        io: &mut FlashPageStore,
        entry: ReverseMapEntry,
        command: Option<RemapCommand>,
    ) -> Result<()> {
        let slot = self.slot_of_kth_entry(self.used_slots);
        self.command_state.entry_layout.store_nvram_entry(
            io,
            self.first_word_index_of_slot(slot),
            entry.encode_log_words(),
            command,
        )?;
        self.used_slots += 1;
        self.index_entry(io, slot, &entry);
        Ok(())
    }

    /// Adds the reverse-map entry in `slot` of the NVRAM log to the index by block, under the block whose page the
    /// entry names.
    fn index_entry(&mut self, io: &FlashPageStore, slot: u32, entry: &ReverseMapEntry) {
        self.index.add(self.index.per_block_group_of(io, entry), slot);
        self.is_entry_in_slot_indexed[slot as usize] = true;
    }

    /// Zeroes the words of an entry slot in NVRAM, first word first.
    fn zero_slot(&self, io: &mut FlashPageStore, slot: u32) -> Result<()> {
        let words = self.first_word_index_of_slot(slot)
            ..self.first_word_index_of_slot(slot) + self.command_state.entry_layout.words_per_entry();
        for at in words {
            if io.nvram()[at] != 0 {
                io.store_nvram_word(at, 0)?;
            }
        }
        Ok(())
    }

    /// Zeroes, after a power loss, the entries of atomic remap commands that were not recorded completely, the youngest
    /// entry first.
    fn discard_torn_commands(&mut self, io: &mut FlashPageStore) -> Result<()> {
        let recorded: Vec<_> =
            (0..self.used_slots).filter_map(|k| self.decode_slot(io, self.slot_of_kth_entry(k))).collect();
        let torn = self.command_state.recover(io, &recorded);
        let is_torn = |(entry, command): (ReverseMapEntry, Option<RemapCommand>)| {
            command.is_some_and(|command| torn.contains(&command.first_entry_sequence(&entry)))
        };
        while self.used_slots > 0
            && self.decode_slot(io, self.slot_of_kth_entry(self.used_slots - 1)).is_some_and(is_torn)
        {
            self.zero_slot(io, self.slot_of_kth_entry(self.used_slots - 1))?;
            self.used_slots -= 1;
        }
        Ok(())
    }

    /// Removes the reverse-map entries of a group (a block, or the tombstones) from index and counts. Their slots in
    /// the NVRAM log stay in use until the next cleaning.
    fn drop_group_from_index(&mut self, group: GroupNumber) {
        for slot in self.index.take_group_entries(group) {
            self.is_entry_in_slot_indexed[slot as usize] = false;
        }
    }

    /// Compacts the NVRAM log in one pass over all slots in use. Copies each entry that is still needed to the slot
    /// after the youngest entry, and zeroes the old slot.
    fn compact_log(&mut self, io: &mut FlashPageStore, liveness_of: LivenessOf<'_>) -> Result<()> {
        io.charge_nvram_scan(self.used_bytes());
        self.command_state.declare_commands_complete(io)?;
        let run: Vec<u32> = (0..self.used_slots).map(|k| self.slot_of_kth_entry(k)).collect();
        let live: Vec<u32> =
            run.iter().copied().filter(|&slot| self.is_entry_in_slot_indexed[slot as usize]).collect();
        let entries: Vec<ReverseMapEntry> = live.iter().map(|&slot| self.entry_in_slot(io, slot)).collect();
        let mut rests = live.into_iter().zip(entries_to_keep(&entries, liveness_of)).peekable();
        (0..self.index.per_block_group_count()).for_each(|group| self.drop_group_from_index(group));
        for slot in run {
            if let Some((_, rest)) = rests.next_if(|&(live, _)| live == slot) {
                rest.map_or(Ok(()), |rest| self.append_entry(io, rest, None))?;
            }
            self.remove_oldest_entry(io)?;
        }
        self.index.reset_maybe_obsolete_tombstone_count();
        Ok(())
    }

    /// Finishes a step of cleaning the NVRAM log that a power loss interrupted. If the youngest entry is a copy of the
    /// oldest, or the tombstone to which cleaning reduced the oldest, zeroes the oldest. Otherwise each such power loss
    /// would use up one of the empty slots between the youngest and the oldest entry.
    fn finish_interrupted_cleaning(&mut self, io: &mut FlashPageStore) -> Result<()> {
        if self.used_slots < 2 {
            return Ok(());
        }
        let (old, young) = (
            self.entry_in_slot(io, self.oldest_slot),
            self.entry_in_slot(io, self.slot_of_kth_entry(self.used_slots - 1)),
        );
        let is_reduced_to_tombstone =
            young.mapped_ppn.is_none() && old.relocation_source_or_range_end == Some(young.lpn);
        if old == young || (is_reduced_to_tombstone && old.sequence_number == young.sequence_number) {
            self.remove_oldest_entry(io)?;
        }
        Ok(())
    }

    /// Removes the oldest entry from the ring of slots, and zeroes its slot in NVRAM.
    fn remove_oldest_entry(&mut self, io: &mut FlashPageStore) -> Result<()> {
        self.zero_slot(io, self.oldest_slot)?;
        self.oldest_slot = self.slot_of_kth_entry(1);
        self.used_slots -= 1;
        Ok(())
    }

    /// Returns the number of slots that cleaning the NVRAM log can free.
    fn reclaimable_slots(&self) -> u64 {
        self.index.reclaimable_entries(self.used_slots.into())
    }

    /// Returns whether there is room for `count` more entries of the host, and after that still room for GC to record
    /// the entries of any one victim once more.
    fn has_room_for_entries(&self, count: u64) -> bool {
        self.index.has_room_for_entries(self.capacity_entries().into(), self.free_slots().into(), count)
    }
}

impl ReverseMap for NvramLog {
    fn make_room_for_entry(&mut self, io: &mut FlashPageStore, liveness_of: LivenessOf<'_>) -> Result<bool> {
        if !self.has_room_for_entries(1)
            && self.reclaimable_slots() > u64::from(self.slot_count / LOG_CAPACITY_TO_MIN_CLEANING_GAIN_RATIO)
        {
            self.compact_log(io, liveness_of)?;
        }
        Ok(self.has_room_for_entries(1))
    }

    fn make_room_for_victim(
        &mut self,
        io: &mut FlashPageStore,
        block: BlockId,
        liveness_of: LivenessOf<'_>,
    ) -> Result<bool> {
        let fits = |log: &Self| u64::from(log.free_slots()) >= log.index.entry_count_of_block(block);
        if !fits(self) && self.reclaimable_slots() > 0 {
            self.compact_log(io, liveness_of)?;
        }
        Ok(fits(self))
    }

    /// Records a reverse-map entry in the next slot of the NVRAM log. O(1): one random access; two or three 8-byte
    /// words are stored.
    fn record_entry(
        &mut self,
        io: &mut FlashPageStore,
        entry: ReverseMapEntry,
        _: LivenessOf<'_>,
    ) -> Result<()> {
        assert!(
            self.free_slots() > 0,
            "the NVRAM log is full: the caller must call make_room_for_entry or make_room_for_victim before it \
             records an entry"
        );
        self.append_entry(io, entry, None)
    }

    fn make_room_for_remap_entries(
        &mut self,
        io: &mut FlashPageStore,
        places: &[Option<Ppn>],
        liveness_of: LivenessOf<'_>,
    ) -> Result<bool> {
        let count = places.len() as u64;
        if self.command_state.entry_layout == EntryLayout::WithoutRemapCommand {
            return Ok(false);
        }
        if !self.has_room_for_entries(count) && self.reclaimable_slots() > 0 {
            self.compact_log(io, liveness_of)?;
        }
        Ok(self.has_room_for_entries(count))
    }

    fn record_remap_entries(
        &mut self,
        io: &mut FlashPageStore,
        command: RemapCommand,
        entries: &[ReverseMapEntry],
    ) -> Result<()> {
        entries.iter().try_for_each(|&entry| self.append_entry(io, entry, Some(command)))?;
        self.command_state.newest_command_sequence = entries.first().map_or(0, |entry| entry.sequence_number);
        Ok(())
    }

    fn mark_mapping_superseded(&mut self, io: &mut FlashPageStore, lpn: Lpn, place: Ppn) {
        self.index.mark_superseded(io, lpn, place);
    }

    fn scan_entries_of_block(
        &mut self,
        io: &mut FlashPageStore,
        block: BlockId,
        out: &mut Vec<ReverseMapEntry>,
    ) -> Result<()> {
        if self.used_slots > 0 {
            io.charge_referrer_scan(block, self.used_bytes());
        }
        let slots = self.index.entries_in(block.index());
        out.extend(slots.iter().map(|&slot| self.entry_in_slot(io, slot)));
        Ok(())
    }

    fn drop_entries_of_block(&mut self, _: &mut FlashPageStore, block: BlockId) -> Result<()> {
        self.drop_group_from_index(block.index());
        self.index.mark_tombstones_maybe_obsolete();
        Ok(())
    }

    fn recover(&mut self, io: &mut FlashPageStore) -> Result<Vec<ReverseMapEntry>> {
        self.clear_ram_state();
        io.charge_nvram_scan(self.slot_count as u64 * self.command_state.entry_layout.entry_bytes());
        for slot in 0..self.slot_count {
            if self.decode_slot(io, slot).is_none() {
                self.zero_slot(io, slot)?;
            }
        }
        let in_use = |slot: u32| io.nvram()[self.first_word_index_of_slot(slot)] != 0;
        let begins = |&slot: &u32| in_use(slot) && !in_use((slot + self.slot_count - 1) % self.slot_count);
        let starts: Vec<u32> = (0..self.slot_count).filter(begins).collect();
        assert!(starts.len() <= 1, "entries of the log lie in one run, not at {starts:?}");
        let oldest = starts.first().copied().unwrap_or(0);
        let later = (oldest..self.slot_count).chain(0..oldest);
        (self.oldest_slot, self.used_slots) = (oldest, later.take_while(|&slot| in_use(slot)).count() as u32);
        self.discard_torn_commands(io)?;
        self.finish_interrupted_cleaning(io)?;
        let mut entries = Vec::new();
        for k in 0..self.used_slots {
            let slot = self.slot_of_kth_entry(k);
            let entry = self.entry_in_slot(io, slot);
            self.index_entry(io, slot, &entry);
            entries.push(entry);
        }
        self.index.mark_tombstones_maybe_obsolete();
        Ok(entries)
    }

    fn all_entries(&self, io: &FlashPageStore) -> Vec<ReverseMapEntry> {
        (0..self.used_slots).map(|k| self.entry_in_slot(io, self.slot_of_kth_entry(k))).collect()
    }

    fn valid_entry_count(&self) -> u64 {
        self.index.current_entry_count()
    }

    /// Returns the bytes of NVRAM of the reverse-map log. The index by block is not counted: only the simulation has
    /// it.
    fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        vec![(
            "reverse map log (NVRAM)",
            self.slot_count as u64 * self.command_state.entry_layout.entry_bytes(),
        )]
    }

    fn check_invariants(&self) -> std::result::Result<(), String> {
        let bits = self.is_entry_in_slot_indexed.iter().filter(|&&is_indexed| is_indexed).count();
        if bits != self.index.len() {
            return Err(format!(
                "the NVRAM log of the reverse map marks {bits} slots as indexed, but must mark {}, the number of \
                 entries in its index",
                self.index.len()
            ));
        }
        if self.used_slots > self.capacity_entries() {
            return Err(format!(
                "the NVRAM log of the reverse map must have a free slot, which marks the oldest entry, but {} of its \
                 {} slots are used",
                self.used_slots, self.slot_count
            ));
        }
        self.index.check_invariants("NVRAM log", self.used_slots.into())
    }
}
