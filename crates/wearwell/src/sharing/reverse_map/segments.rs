//! Remap-SSD's reverse map: entries in NVRAM segments, each owned by one block.
//!
//! Source: Zhou et al., "Remap-SSD: Safely and Efficiently Exploiting SSD Address Remapping to Eliminate Duplicate
//! Writes", FAST 2021, sections 4.2 to 4.5. GC queries the referrers of a block, never of a single page. So entries are
//! logged per block, in segments that are allocated on demand and linked to the block's *group*. A victim costs a scan
//! of its own group, however large the NVRAM is; the price is the unused rest of each group's last segment.
//!
//! # Layout
//!
//! A segment is a head and entries of 16 bytes ([`ReverseMapEntry::encode`]), or of 24 bytes if commands are atomic;
//! the head takes the space of an entry. Bits of the head, lowest first:
//!
//! | word | bits |
//! |---|---|
//! | 0 | torn bit 1, number of the segment in its group 21, sequence at allocation 42 |
//! | 1 | torn bit 1, next segment 31 (all ones: none), block 32 (all ones: the tombstones) |
//!
//! Word 1 is stored again when a successor is allocated; everything else is stored once. Tombstones (records of trims)
//! name no page, so they have a group of their own, which no erase frees.
//!
//! # Safe at every store
//!
//! A group consists of the segments that can be reached from the head numbered 0. All other segments are garbage, which
//! recovery zeroes. So single stores are the commit points:
//!
//! - *Growing*: head of the new segment (word 1, then word 0), link to it, entry. A head without a link is garbage, a
//!   link without an entry is undone by recovery, a torn entry is overwritten by the next one.
//! - *Freeing*: word 0 of the first head is zeroed first. From then on the whole group is garbage, and the rest may be
//!   zeroed in any order. Only a segment that is all zeros is used again.
//! - *Compacting*: needed entries are copied to a new chain, whose heads have a larger sequence number; then the old
//!   chain is freed. Of two chains of one block recovery takes the older: while its first head exists, it is complete.
//! - *A stale group* (power lost between erase and freeing) is adopted by recovery like any other. Its entries are
//!   older than the pages of the reused block, so the engine ignores them. New entries are appended to them, and the
//!   next erase frees all.
//! - *Dropping* entries, by compacting or freeing: before it, the commands so far are recorded in NVRAM as complete, so
//!   that recovery does not take a command with dropped entries for incomplete.
//! - *An incomplete remap command*: recovery zeroes its entries, which are the last ones of their groups, newest first.
//!
//! # Room for GC
//!
//! Recording `m` entries again in `k` groups opens at most `ceil(m / e) + k - 1` segments of `e` entries: group `i`
//! opens at most `ceil(m_i / e) <= (m_i + e - 1) / e` of them, so the sum is an integer less than `m / e + k`. A victim
//! is moved as one batch, which is spread over at most two destination blocks (an open block and its successor), and
//! the tombstones: k = 3. Compacting a group fills a new chain and the tombstones: k = 2. So the host may record an
//! entry only if free segments for the largest group and two more are left after it. GC itself can still spread entries
//! over more groups (each with a partly unused last segment) or unite groups in one block. Therefore GC calls
//! [`ReverseMap::make_room_for_victim`] before it takes a victim.
//!
//! Departures from the paper: a relocation whose target was mapped elsewhere leaves a tombstone; active GC (compaction)
//! skips groups whose compaction would free no segment.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::{
    BlockId, EntriesOrSegmentsPerBlockHistogram, EntryLayout, LivenessOf, Lpn,
    MAX_REVERSE_MAP_FILL_PERCENT_FOR_HOST_ENTRIES, Ppn, RemapCommand, RemapCommandState, ReverseMap,
    ReverseMapEntry, entries_to_keep,
};
use crate::address::OptionalAddress;
use crate::error::{Error, Result};
use crate::store::FlashPageStore;

/// Default size of an NVRAM segment of reverse-map entries, bytes.
pub const DEFAULT_SEGMENT_BYTES: u32 = 1024;

/// Maximum number of segment chains, after the first, to which GC adds the reverse-map entries of one victim: the chains
/// of two destination blocks and that of the tombstones, less one (`k - 1` in the module's comment). Each of them may
/// need one more NVRAM segment than the victim's entries fill.
const EXTRA_CHAINS_PER_VICTIM: u32 = 2;
/// Minimum number of NVRAM segments with which any entry can be recorded: one for the entry, one for its copy when GC
/// moves the page or compaction moves the entry, and one for each of the [`EXTRA_CHAINS_PER_VICTIM`] chains.
const MIN_SEGMENTS: u64 = 2 + EXTRA_CHAINS_PER_VICTIM as u64;

/// Bit that is 1 in every word of a stored segment header: a 0 shows that the segment has no header, or that a loss of
/// power interrupted the store.
const TORN_BIT: u64 = 1;
/// Number of bits, in a segment header, of the position of the segment in the chain of its block.
const CHAIN_POSITION_BITS: u32 = 21;
/// Largest number of NVRAM segments of reverse-map entries: a segment header stores the position of the segment in its
/// block's chain in `CHAIN_POSITION_BITS` bits.
pub const MAX_SEGMENTS: u64 = 1 << CHAIN_POSITION_BITS;
/// Number of bits, in a segment header, of the number of the next segment of the chain.
const NEXT_SEGMENT_BITS: u32 = 31;
/// Value of the next-segment field in the last NVRAM segment of a block's chain: all bits one.
const NO_NEXT_SEGMENT: u64 = (1 << NEXT_SEGMENT_BITS) - 1;
/// Bytes of controller RAM per block for its chain of NVRAM segments: first and open segment, number of entries, number
/// of superseded entries.
const CHAIN_RAM_BYTES: u64 = 16;

/// Header of an NVRAM segment, stored in its first slot: the block whose entries it holds, its position in the block's
/// chain, and the next segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct NvramSegmentHeader {
    /// Block whose entries the segment holds; [`BlockId::NONE`] for the tombstones.
    entry_block: BlockId,
    /// Position of the segment in the chain of its block, from 0.
    position_in_chain: u32,
    /// Last sequence number of the device when the segment was allocated.
    allocation_sequence: u64,
    /// Number of the next segment in the chain of the block; `None` for the last one.
    next_segment: Option<u32>,
}

impl NvramSegmentHeader {
    /// Encodes the header in two 8-byte words, in the layout of the module documentation.
    fn encode(self) -> [u64; 2] {
        let next = self.next_segment.map_or(NO_NEXT_SEGMENT, u64::from);
        [
            TORN_BIT
                | (self.position_in_chain as u64) << 1
                | self.allocation_sequence << (1 + CHAIN_POSITION_BITS),
            TORN_BIT | next << 1 | (self.entry_block.0 as u64) << (1 + NEXT_SEGMENT_BITS),
        ]
    }

    /// Decodes the header from its two 8-byte words; `None` if a word lacks its torn bit (no header or interrupted
    /// store).
    fn decode(words: [u64; 2]) -> Option<Self> {
        if words[0] & words[1] & TORN_BIT == 0 {
            return None;
        }
        let next = words[1] >> 1 & NO_NEXT_SEGMENT;
        Some(Self {
            entry_block: BlockId((words[1] >> (1 + NEXT_SEGMENT_BITS)) as u32),
            position_in_chain: (words[0] >> 1) as u32 & ((1 << CHAIN_POSITION_BITS) - 1),
            allocation_sequence: words[0] >> (1 + CHAIN_POSITION_BITS),
            next_segment: (next != NO_NEXT_SEGMENT).then_some(next as u32),
        })
    }
}

/// The chain of NVRAM segments with the reverse-map entries of one block. All segments but the last are full, so the
/// number of entries determines the number of segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct SegmentChain {
    /// Number of the first NVRAM segment of the chain.
    first_segment: u32,
    /// Number of the last NVRAM segment of the chain, to which entries are appended.
    last_segment: u32,
    /// Number of reverse-map entries in the chain, superseded ones included.
    entry_count: u32,
    /// Number of superseded reverse-map entries in the chain: entries whose logical page is no longer mapped to their
    /// physical page.
    superseded_entries: u32,
    /// Number of superseded entries when compaction of this block's segments was last found to free no segment.
    /// Compaction is tried again once there are more superseded entries.
    superseded_entries_at_futile_compaction: u32,
}

/// A reverse map (record of the logical pages mapped to each physical page) whose entries are in NVRAM segments. Each
/// segment holds entries of one block, and the segments of a block form a chain (Remap-SSD).
#[derive(Clone, Debug)]
pub struct NvramSegments {
    /// Size of an NVRAM segment, bytes.
    segment_bytes: u32,
    /// State of the atomic remap commands in the segments: up to which sequence number they count as complete.
    command_state: RemapCommandState,
    /// Number of NVRAM segments of the device, free ones included.
    segment_count: u32,
    /// Bitmap of the NVRAM segments in use (Remap-SSD's SV-bitmap).
    used_segments_bitmap: Vec<u64>,
    /// Number of NVRAM segments that are free.
    free_segment_count: u32,
    /// Index of the word, in the bitmap of NVRAM segments in use, where the next search for a free segment begins.
    next_bitmap_word_index_to_search: usize,
    /// For each block, its chain of NVRAM segments, by block number. One more chain, at the end, holds the tombstones.
    chains_by_block: Vec<SegmentChain>,
    /// Histogram of the lengths of the blocks' chains of NVRAM segments, in segments.
    chain_length_histogram: EntriesOrSegmentsPerBlockHistogram,
    /// Number of entries in the chains of all blocks, superseded ones included.
    entry_count: u64,
    /// Number of superseded entries in the chains of all blocks: entries whose logical page is no longer mapped to
    /// their physical page.
    superseded_entries: u64,
    /// Whether a tombstone may have become unnecessary since tombstones were last compacted.
    may_tombstones_be_obsolete: bool,
    /// Whether compacting the entries of any block may free an NVRAM segment.
    compaction_may_free_a_segment: bool,
}

impl NvramSegments {
    /// Creates an empty reverse map with segments of `segment_bytes` bytes in the first `nvram_bytes` bytes of the
    /// NVRAM of `io`, for entries of layout `entry_layout`.
    ///
    /// # Errors
    /// [`Error::InvalidOptions`] if the medium has less NVRAM, a segment is shorter than two entries or no
    /// multiple of 16 bytes, or there are too few or too many segments.
    pub fn new(
        io: &FlashPageStore,
        nvram_bytes: u64,
        segment_bytes: u32,
        entry_layout: EntryLayout,
    ) -> Result<Self> {
        let segments = nvram_bytes.saturating_sub(entry_layout.commands_complete_until_word_bytes())
            / segment_bytes.max(1) as u64;
        if (io.nvram().len() as u64 * 8) < nvram_bytes {
            return Err(Error::of_small_nvram("the reverse map", nvram_bytes, io.nvram().len()));
        }
        if let Some(sentence) =
            Self::segment_size_problem(nvram_bytes, (segment_bytes, entry_layout), segments)
        {
            return Err(Error::InvalidOptions(sentence));
        }
        let blocks = io.geometry().blocks() as usize;
        let mut map = Self {
            segment_bytes,
            command_state: RemapCommandState::new(
                entry_layout,
                (segments * segment_bytes as u64 / 8) as usize,
            ),
            segment_count: segments as u32,
            used_segments_bitmap: Vec::new(),
            free_segment_count: 0,
            next_bitmap_word_index_to_search: 0,
            chains_by_block: vec![SegmentChain::default(); blocks + 1],
            chain_length_histogram: EntriesOrSegmentsPerBlockHistogram::default(),
            entry_count: 0,
            superseded_entries: 0,
            may_tombstones_be_obsolete: false,
            compaction_may_free_a_segment: false,
        };
        map.clear_ram_state();
        Ok(map)
    }

    /// Returns a sentence that says why the NVRAM cannot be divided into `segments` segments of this size for entries
    /// of layout `entry_layout`; `None` if it can.
    fn segment_size_problem(
        nvram_bytes: u64,
        (segment_bytes, entry_layout): (u32, EntryLayout),
        segments: u64,
    ) -> Option<String> {
        let least = 2 * entry_layout.entry_bytes() as u32;
        let unit = if entry_layout == EntryLayout::WithoutRemapCommand { 16 } else { 8 };
        if segment_bytes < least || !segment_bytes.is_multiple_of(unit) {
            return Some(format!(
                "remap.segment_bytes is {segment_bytes}; the size of an NVRAM segment must be a multiple of {unit} \
                 bytes, at least {least}"
            ));
        }
        if segments < MIN_SEGMENTS {
            return Some(format!(
                "the reverse map needs at least {MIN_SEGMENTS} segments of {segment_bytes} bytes, but its \
                 {nvram_bytes} bytes of NVRAM hold {segments}: raise remap.size_mib or lower remap.segment_bytes"
            ));
        }
        (segments > MAX_SEGMENTS).then(|| {
            format!(
                "the reverse map can have at most {MAX_SEGMENTS} segments of {segment_bytes} bytes, but its \
                 {nvram_bytes} bytes of NVRAM hold {segments}: lower remap.size_mib or raise remap.segment_bytes"
            )
        })
    }

    /// Resets the RAM state of the reverse map, so that all NVRAM segments count as free.
    fn clear_ram_state(&mut self) {
        self.used_segments_bitmap = vec![0; (self.segment_count as usize).div_ceil(64)];
        let beyond = self.used_segments_bitmap.len() as u32 * 64 - self.segment_count;
        if beyond > 0 {
            *self.used_segments_bitmap.last_mut().expect("there are segments") = u64::MAX << (64 - beyond);
        }
        (self.free_segment_count, self.next_bitmap_word_index_to_search) = (self.segment_count, 0);
        self.chains_by_block.fill(SegmentChain::default());
        self.chain_length_histogram = EntriesOrSegmentsPerBlockHistogram::default();
        (self.entry_count, self.superseded_entries) = (0, 0);
        (self.may_tombstones_be_obsolete, self.compaction_may_free_a_segment) = (true, true);
    }

    /// Returns the number of reverse-map entries that fit in one NVRAM segment.
    pub fn entries_per_segment(&self) -> u32 {
        self.segment_bytes / self.command_state.entry_layout.entry_bytes() as u32 - 1
    }

    /// Returns the number of reverse-map entries that fit in all NVRAM segments together.
    pub fn capacity_entries(&self) -> u64 {
        self.segment_count as u64 * self.entries_per_segment() as u64
    }

    /// Returns the number of NVRAM segments that hold no entries.
    pub fn free_segment_count(&self) -> u32 {
        self.free_segment_count
    }

    /// Returns the index in `chains_by_block` of the chain of the tombstones.
    fn tombstone_chain_index(&self) -> usize {
        self.chains_by_block.len() - 1
    }

    /// Returns the index in `chains_by_block` of the chain of `block`; that of the tombstones for `None`.
    fn chain_index_of(&self, block: Option<BlockId>) -> usize {
        block.map_or(self.tombstone_chain_index(), BlockId::index)
    }

    /// Returns the block to which a chain belongs; [`BlockId::NONE`] for the chain of the tombstones.
    fn block_of_chain(&self, chain: usize) -> BlockId {
        if chain == self.tombstone_chain_index() { BlockId::NONE } else { BlockId(chain as u32) }
    }

    /// Returns the number of NVRAM segments that `entries` entries of one block need.
    fn segments_needed_for(&self, entries: u32) -> u32 {
        entries.div_ceil(self.entries_per_segment())
    }

    /// Returns the number of NVRAM segments in the chain with index `chain`.
    fn segment_count_of_chain(&self, chain: usize) -> u32 {
        self.segments_needed_for(self.chains_by_block[chain].entry_count)
    }

    /// Returns the number of free NVRAM segments without which the host may not add an entry (map a page without a
    /// program): one for the new entry, enough to copy the longest chain (entries of one block), which this entry may
    /// have lengthened, and one for each of the [`EXTRA_CHAINS_PER_VICTIM`] chains.
    fn free_segments_needed_for_host_entry(&self) -> u32 {
        1 + (self.chain_length_histogram.largest_count_per_block() + 1) + EXTRA_CHAINS_PER_VICTIM
    }

    /// Returns the number of entries, in all NVRAM segments together, at which the host may no longer map pages without
    /// a program. GC may record more entries.
    fn max_entries_for_host_mappings(&self) -> u64 {
        self.capacity_entries() * MAX_REVERSE_MAP_FILL_PERCENT_FOR_HOST_ENTRIES / 100
    }

    /// Replaces the state of the chain with index `chain` by `new`, and updates the totals and the histogram over all
    /// chains.
    fn replace_chain(&mut self, chain: usize, new: SegmentChain) {
        let old = std::mem::replace(&mut self.chains_by_block[chain], new);
        self.chain_length_histogram.move_block_to_count(
            self.segments_needed_for(old.entry_count),
            self.segments_needed_for(new.entry_count),
        );
        self.entry_count = self.entry_count + new.entry_count as u64 - old.entry_count as u64;
        self.superseded_entries =
            self.superseded_entries + new.superseded_entries as u64 - old.superseded_entries as u64;
    }

    /// Returns the index of the first NVRAM word (8 bytes) of a slot of a segment. Slot 0 is the header.
    fn first_word_index_of_slot(&self, segment: u32, slot: u32) -> usize {
        segment as usize * (self.segment_bytes as usize / 8)
            + slot as usize * self.command_state.entry_layout.words_per_entry()
    }

    /// Returns the header of an NVRAM segment; `None` if the segment has no intact header.
    fn read_segment_header(&self, io: &FlashPageStore, segment: u32) -> Option<NvramSegmentHeader> {
        let at = self.first_word_index_of_slot(segment, 0);
        NvramSegmentHeader::decode([io.nvram()[at], io.nvram()[at + 1]])
    }

    /// Decodes the reverse-map entry in a slot of an NVRAM segment, with the atomic remap command to which it belongs,
    /// if any; `None` if the slot is empty or torn. `first` is the first page of the block to which the entry's page
    /// offset is relative.
    fn decode_slot(
        &self,
        io: &FlashPageStore,
        (segment, slot): (u32, u32),
        first: Ppn,
    ) -> Option<(ReverseMapEntry, Option<RemapCommand>)> {
        let (words, command) = self
            .command_state
            .entry_layout
            .split_entry_words(&io.nvram()[self.first_word_index_of_slot(segment, slot)..])?;
        Some((ReverseMapEntry::decode(words, first)?, command))
    }

    /// Returns the first page of the block `entry_block`, to which page offsets in its reverse-map entries are
    /// relative; page 0 for the tombstones.
    fn first_page_of_entry_block(io: &FlashPageStore, entry_block: BlockId) -> Ppn {
        if entry_block == BlockId::NONE { Ppn(0) } else { io.geometry().first_page(entry_block) }
    }

    /// Returns the NVRAM segment that follows `segment` in the chain of its block; `None` for the last.
    fn following_segment(&self, io: &FlashPageStore, segment: u32) -> Option<u32> {
        self.read_segment_header(io, segment).expect("a segment in use has a head").next_segment
    }

    /// Stores in the header of an NVRAM segment which segment is the next of its chain.
    fn link_next_segment(&self, io: &mut FlashPageStore, segment: u32, next: Option<u32>) -> Result<()> {
        let head = self.read_segment_header(io, segment).expect("a segment in use has a head");
        io.store_nvram_word(
            self.first_word_index_of_slot(segment, 0) + 1,
            NvramSegmentHeader { next_segment: next, ..head }.encode()[1],
        )
    }

    /// Marks a free NVRAM segment as used, and returns its number. Panics if none is free.
    fn take_free_segment(&mut self) -> u32 {
        assert!(
            self.free_segment_count > 0,
            "no NVRAM segment is free: the caller must call make_room_for_entry or make_room_for_victim before it \
             records an entry"
        );
        while self.used_segments_bitmap[self.next_bitmap_word_index_to_search] == u64::MAX {
            self.next_bitmap_word_index_to_search =
                (self.next_bitmap_word_index_to_search + 1) % self.used_segments_bitmap.len();
        }
        let segment = self.next_bitmap_word_index_to_search as u32 * 64
            + self.used_segments_bitmap[self.next_bitmap_word_index_to_search].trailing_ones();
        self.mark_segment_used(segment);
        segment
    }

    /// Marks an NVRAM segment as used in the bitmap in RAM.
    fn mark_segment_used(&mut self, segment: u32) {
        self.used_segments_bitmap[segment as usize / 64] |= 1 << (segment % 64);
        self.free_segment_count -= 1;
    }

    /// Whether an NVRAM segment belongs to the chain of a block.
    fn is_segment_used(&self, segment: u32) -> bool {
        self.used_segments_bitmap[segment as usize / 64] >> (segment % 64) & 1 == 1
    }

    /// Marks an NVRAM segment as free in the bitmap in RAM.
    fn release_segment(&mut self, segment: u32) {
        self.used_segments_bitmap[segment as usize / 64] &= !(1 << (segment % 64));
        self.free_segment_count += 1;
    }

    /// Appends an entry to a chain of NVRAM segments of block `entry_block`: to the block's present chain, or to the
    /// one that compaction is building. `chain` is the state of this chain.
    fn append_entry(
        &mut self,
        io: &mut FlashPageStore,
        (entry_block, chain): (BlockId, &mut SegmentChain),
        (entry, command): (ReverseMapEntry, Option<RemapCommand>),
        sequence: u64,
    ) -> Result<()> {
        let slot = chain.entry_count % self.entries_per_segment();
        if slot == 0 {
            self.append_segment(io, (entry_block, chain), sequence)?;
        }
        let words = entry.encode(Self::first_page_of_entry_block(io, entry_block));
        self.command_state.entry_layout.store_nvram_entry(
            io,
            self.first_word_index_of_slot(chain.last_segment, 1 + slot),
            words,
            command,
        )?;
        chain.entry_count += 1;
        Ok(())
    }

    /// Allocates a free NVRAM segment and links it to the end of `chain`, the chain of block `entry_block`.
    fn append_segment(
        &mut self,
        io: &mut FlashPageStore,
        (entry_block, chain): (BlockId, &mut SegmentChain),
        allocation_sequence: u64,
    ) -> Result<()> {
        let segment = self.take_free_segment();
        let number = chain.entry_count / self.entries_per_segment();
        let head = NvramSegmentHeader {
            entry_block,
            position_in_chain: number,
            allocation_sequence,
            next_segment: None,
        }
        .encode();
        let at = self.first_word_index_of_slot(segment, 0);
        io.store_nvram_word(at + 1, head[1])?;
        io.store_nvram_word(at, head[0])?;
        if number > 0 {
            self.link_next_segment(io, chain.last_segment, Some(segment))?;
        } else {
            chain.first_segment = segment;
        }
        chain.last_segment = segment;
        Ok(())
    }

    /// Appends a reverse-map entry to the chain of NVRAM segments with index `index`, and updates counts and histogram.
    fn append_entry_to_block_chain(
        &mut self,
        io: &mut FlashPageStore,
        index: usize,
        entry: ReverseMapEntry,
        command: Option<RemapCommand>,
    ) -> Result<()> {
        let mut chain = self.chains_by_block[index];
        let opens = chain.entry_count.is_multiple_of(self.entries_per_segment());
        self.append_entry(
            io,
            (self.block_of_chain(index), &mut chain),
            (entry, command),
            entry.sequence_number,
        )?;
        self.replace_chain(index, chain);
        if opens && index == self.tombstone_chain_index() {
            (self.may_tombstones_be_obsolete, self.compaction_may_free_a_segment) = (true, true);
        }
        Ok(())
    }

    /// Returns the bytes of NVRAM that a scan of the segments of block number `index` reads.
    fn chain_bytes(&self, index: usize) -> u64 {
        self.segment_count_of_chain(index) as u64 * self.segment_bytes as u64
    }

    /// Appends the reverse-map entries of the chain with index `index` to `out`, in the order of recording.
    fn read_chain_entries(&self, io: &FlashPageStore, index: usize, out: &mut Vec<ReverseMapEntry>) {
        let chain = self.chains_by_block[index];
        let entry_block = self.block_of_chain(index);
        let first = Self::first_page_of_entry_block(io, entry_block);
        let (mut segment, mut left) = (chain.first_segment, chain.entry_count);
        while left > 0 {
            let count = left.min(self.entries_per_segment());
            let entry =
                |slot| self.decode_slot(io, (segment, slot), first).expect("a counted entry is intact").0;
            out.extend((1..=count).map(entry));
            left -= count;
            if left > 0 {
                segment = self
                    .following_segment(io, segment)
                    .expect("a full segment with more entries has a successor");
            }
        }
    }

    /// Zeroes and frees the chain of `segments` NVRAM segments that begins with `first`. The header of the first
    /// segment is zeroed first. From then on, recovery ignores the whole chain.
    fn zero_and_release_chain(&mut self, io: &mut FlashPageStore, first: u32, segments: u32) -> Result<()> {
        self.command_state.declare_commands_complete(io)?;
        let mut at = Some(first).filter(|_| segments > 0);
        while let Some(segment) = at {
            at = self.following_segment(io, segment);
            self.zero_segment(io, segment)?;
            self.release_segment(segment);
        }
        Ok(())
    }

    /// Zeroes an NVRAM segment of reverse-map entries, its header first.
    fn zero_segment(&self, io: &mut FlashPageStore, segment: u32) -> Result<()> {
        for at in self.first_word_index_of_slot(segment, 0)..self.first_word_index_of_slot(segment + 1, 0) {
            if io.nvram()[at] != 0 {
                io.store_nvram_word(at, 0)?;
            }
        }
        Ok(())
    }

    /// Returns whether compacting the NVRAM segments of one block is expected to free a segment, and enough segments
    /// are free for the entries that are kept.
    fn is_worth_compacting(&self, chain: &SegmentChain) -> bool {
        let kept = chain.entry_count - chain.superseded_entries;
        let after = self.segments_needed_for(kept);
        chain.superseded_entries > chain.superseded_entries_at_futile_compaction
            && after < self.segments_needed_for(chain.entry_count)
            && (kept == 0 || after < self.free_segment_count)
    }

    /// Chooses the chain of NVRAM segments that compaction (active GC in the Remap-SSD paper) empties next, and returns
    /// its index. Of the blocks that are worth compacting, it takes the one with the most superseded entries. If no
    /// block is worth compacting, it takes the chain of tombstones. Returns `None` if compaction would free nothing.
    /// O(blocks); O(1) if the last search found nothing and nothing has changed since.
    fn choose_chain_to_compact(&mut self) -> Option<usize> {
        if !self.compaction_may_free_a_segment {
            return None;
        }
        let worth = |&index: &usize| self.is_worth_compacting(&self.chains_by_block[index]);
        let best = (0..self.tombstone_chain_index())
            .filter(worth)
            .max_by_key(|&index| self.chains_by_block[index].superseded_entries);
        let chosen = best.or(self.may_tombstones_be_obsolete.then_some(self.tombstone_chain_index()));
        self.compaction_may_free_a_segment = chosen.is_some();
        chosen
    }

    /// Compacts the NVRAM segments of one block after the other (active GC in the Remap-SSD paper) until `enough`
    /// returns true; returns `false` if no further block is worth compacting.
    fn compact_until(
        &mut self,
        io: &mut FlashPageStore,
        liveness_of: LivenessOf<'_>,
        enough: impl Fn(&Self) -> bool,
    ) -> Result<bool> {
        while !enough(self) {
            let Some(index) = self.choose_chain_to_compact() else { return Ok(false) };
            self.compact_chain(io, index, liveness_of)?;
        }
        Ok(true)
    }

    /// Compacts the chain of NVRAM segments with index `index`: copies entries that are still needed to a new chain,
    /// and frees the old chain. An entry whose logical page was mapped elsewhere since, but which also unmapped another
    /// logical page (relocation), is replaced by a tombstone of that page. If compaction would free no segment, only
    /// updates the count of superseded entries.
    fn compact_chain(
        &mut self,
        io: &mut FlashPageStore,
        index: usize,
        liveness_of: LivenessOf<'_>,
    ) -> Result<()> {
        let tombstones = self.tombstone_chain_index();
        self.may_tombstones_be_obsolete &= index != tombstones;
        let old = self.chains_by_block[index];
        let mut entries = Vec::new();
        io.charge_nvram_scan(self.chain_bytes(index));
        self.read_chain_entries(io, index, &mut entries);
        let needed_entries: Vec<ReverseMapEntry> =
            entries_to_keep(&entries, liveness_of).into_iter().flatten().collect();
        let superseded = old.entry_count - needed_entries.len() as u32;
        let (kept, new_tombstones): (Vec<_>, Vec<_>) =
            needed_entries.into_iter().partition(|entry| entry.mapped_ppn.is_some() || index == tombstones);
        let before = self.segments_needed_for(old.entry_count);
        let opened = self.segments_needed_for(kept.len() as u32)
            + self.segments_opened_by_entries(tombstones, new_tombstones.len() as u32);
        if opened >= before || opened > self.free_segment_count {
            let superseded_entries_at_futile_compaction =
                if opened >= before { superseded } else { old.superseded_entries_at_futile_compaction };
            self.replace_chain(
                index,
                SegmentChain {
                    superseded_entries: superseded,
                    superseded_entries_at_futile_compaction,
                    ..old
                },
            );
            return Ok(());
        }
        for entry in new_tombstones {
            self.append_entry_to_block_chain(io, tombstones, entry, None)?;
        }
        let old_head =
            self.read_segment_header(io, old.first_segment).expect("a group with entries has a first head");
        let sequence = io.last_sequence().max(old_head.allocation_sequence + 1);
        let mut new = SegmentChain::default();
        for entry in kept {
            self.append_entry(io, (self.block_of_chain(index), &mut new), (entry, None), sequence)?;
        }
        self.zero_and_release_chain(io, old.first_segment, before)?;
        self.replace_chain(index, new);
        Ok(())
    }

    /// Returns the number of NVRAM segments that `more` further entries open in a block's chain.
    fn segments_opened_by_entries(&self, chain: usize, more: u32) -> u32 {
        self.segments_needed_for(self.chains_by_block[chain].entry_count + more)
            - self.segment_count_of_chain(chain)
    }

    /// Finds, during recovery, the first segment of each block's chain in NVRAM, as `(sequence number, segment)`. Of
    /// two first segments of one block the older is taken, because the younger one begins an unfinished copy.
    fn first_segments_of_chains(&self, io: &FlashPageStore) -> Vec<Option<(u64, u32)>> {
        let mut firsts: Vec<Option<(u64, u32)>> = vec![None; self.chains_by_block.len()];
        for segment in 0..self.segment_count {
            let Some(head) = self.read_segment_header(io, segment).filter(|head| head.position_in_chain == 0)
            else {
                continue;
            };
            let first = &mut firsts[self.chain_index_of(head.entry_block.to_option())];
            let found = (head.allocation_sequence, segment);
            *first = Some(first.map_or(found, |known| known.min(found)));
        }
        firsts
    }

    /// Zeroes the words of a torn entry that follows the `count` intact entries of an NVRAM segment. With two-word
    /// entries this is not needed: the next entry overwrites word 0 before word 1 counts. With three words, an old word
    /// could complete the next entry.
    fn zero_torn_entry(&self, io: &mut FlashPageStore, segment: u32, count: u32) -> Result<()> {
        let entry_layout = self.command_state.entry_layout;
        if entry_layout == EntryLayout::WithoutRemapCommand || count == self.entries_per_segment() {
            return Ok(());
        }
        entry_layout.zero_nvram_entry(io, self.first_word_index_of_slot(segment, 1 + count))
    }

    /// Zeroes, after a power loss, the reverse-map entries of atomic commands that were not recorded completely, newest
    /// first.
    fn discard_torn_commands(
        &mut self,
        io: &mut FlashPageStore,
        first_segments: &[Option<(u64, u32)>],
    ) -> Result<()> {
        let mut slots = Vec::new();
        for (index, first) in first_segments.iter().enumerate() {
            if let &Some((_, first)) = first {
                self.collect_entry_slots(io, self.block_of_chain(index), first, &mut slots);
            }
        }
        let recorded: Vec<_> = slots.iter().map(|&(_, recorded)| recorded).collect();
        let torn = self.command_state.recover(io, &recorded);
        let is_torn = |(entry, command): &(ReverseMapEntry, Option<RemapCommand>)| {
            command.is_some_and(|command| torn.contains(&command.first_entry_sequence(entry)))
        };
        slots.retain(|(_, recorded)| is_torn(recorded));
        slots.sort_unstable_by_key(|(_, (entry, _))| u64::MAX - entry.sequence_number);
        slots.iter().try_for_each(|&(at, _)| self.command_state.entry_layout.zero_nvram_entry(io, at))
    }

    /// Appends to `slots` each intact reverse-map entry of the chain of NVRAM segments that begins with `first`, with
    /// the index of its first NVRAM word.
    fn collect_entry_slots(
        &self,
        io: &FlashPageStore,
        entry_block: BlockId,
        first: u32,
        slots: &mut Vec<(usize, (ReverseMapEntry, Option<RemapCommand>))>,
    ) {
        let first_page = Self::first_page_of_entry_block(io, entry_block);
        let mut next = Some(first);
        while let Some(segment) = next {
            let before = slots.len();
            let intact = |slot| {
                Some((
                    self.first_word_index_of_slot(segment, slot),
                    self.decode_slot(io, (segment, slot), first_page)?,
                ))
            };
            slots.extend((1..=self.entries_per_segment()).map_while(intact));
            if slots.len() == before {
                return;
            }
            next = self.following_segment(io, segment);
        }
    }

    /// Registers, during recovery, the chain of NVRAM segments with index `index`, which begins with segment `first`:
    /// marks its segments as used and counts its intact reverse-map entries. A torn entry after the last one is
    /// overwritten by the next entry.
    fn register_recovered_chain(&mut self, io: &mut FlashPageStore, index: usize, first: u32) -> Result<()> {
        let mut chain = SegmentChain { first_segment: first, last_segment: first, ..SegmentChain::default() };
        let mut at = first;
        loop {
            let intact = |&slot: &u32| self.decode_slot(io, (at, slot), Ppn(0)).is_some();
            let count = (1..=self.entries_per_segment()).take_while(intact).count() as u32;
            self.zero_torn_entry(io, at, count)?;
            if count == 0 {
                break;
            }
            self.mark_segment_used(at);
            (chain.last_segment, chain.entry_count) = (at, chain.entry_count + count);
            let Some(next) = self.following_segment(io, at) else { break };
            let head = self.read_segment_header(io, next).expect("links lead to heads");
            assert_eq!(
                head.entry_block,
                self.block_of_chain(index),
                "NVRAM segment {next} is linked to the chain of another block"
            );
            at = next;
        }
        if chain.entry_count > 0 && chain.last_segment != at {
            self.link_next_segment(io, chain.last_segment, None)?;
        }
        self.replace_chain(index, chain);
        Ok(())
    }
}

impl ReverseMap for NvramSegments {
    fn make_room_for_entry(&mut self, io: &mut FlashPageStore, liveness_of: LivenessOf<'_>) -> Result<bool> {
        if self.valid_entry_count() >= self.max_entries_for_host_mappings() && self.may_tombstones_be_obsolete
        {
            self.compact_chain(io, self.tombstone_chain_index(), liveness_of)?;
        }
        Ok(self.valid_entry_count() < self.max_entries_for_host_mappings()
            && self.compact_until(io, liveness_of, |map| {
                map.free_segment_count >= map.free_segments_needed_for_host_entry()
            })?)
    }

    fn make_room_for_victim(
        &mut self,
        io: &mut FlashPageStore,
        block: BlockId,
        liveness_of: LivenessOf<'_>,
    ) -> Result<bool> {
        let index = block.index();
        self.compact_until(io, liveness_of, |map| {
            map.chains_by_block[index].entry_count == 0
                || map.free_segment_count >= map.segment_count_of_chain(index) + EXTRA_CHAINS_PER_VICTIM
        })
    }

    /// Records a reverse-map entry in the last NVRAM segment of its block. O(1): one random access to the table of
    /// chains and one to the NVRAM. Writes the entry to NVRAM and, if it needs a new segment, the header of this
    /// segment and the link from the segment before.
    fn record_entry(
        &mut self,
        io: &mut FlashPageStore,
        entry: ReverseMapEntry,
        _: LivenessOf<'_>,
    ) -> Result<()> {
        let index = self.chain_index_of(entry.mapped_ppn.map(|place| io.block_of(place)));
        self.append_entry_to_block_chain(io, index, entry, None)
    }

    fn make_room_for_remap_entries(
        &mut self,
        io: &mut FlashPageStore,
        places: &[Option<Ppn>],
        liveness_of: LivenessOf<'_>,
    ) -> Result<bool> {
        let after = self.valid_entry_count() + places.len() as u64;
        if after > self.max_entries_for_host_mappings() && self.may_tombstones_be_obsolete {
            self.compact_chain(io, self.tombstone_chain_index(), liveness_of)?;
        }
        if self.command_state.entry_layout == EntryLayout::WithoutRemapCommand
            || self.valid_entry_count() + places.len() as u64 > self.max_entries_for_host_mappings()
        {
            return Ok(false);
        }
        let mut counts: HashMap<usize, u32, FxBuildHasher> = HashMap::default();
        for place in places {
            *counts.entry(self.chain_index_of(place.map(|place| io.block_of(place)))).or_default() += 1;
        }
        self.compact_until(io, liveness_of, |map| {
            let grown = |(&chain, &count): (&usize, &u32)| {
                map.segment_count_of_chain(chain) + map.segments_opened_by_entries(chain, count)
            };
            let opened: u32 =
                counts.iter().map(|(&chain, &count)| map.segments_opened_by_entries(chain, count)).sum();
            let largest = counts
                .iter()
                .map(grown)
                .max()
                .unwrap_or(0)
                .max(map.chain_length_histogram.largest_count_per_block());
            map.free_segment_count >= opened + largest + EXTRA_CHAINS_PER_VICTIM
        })
    }

    fn record_remap_entries(
        &mut self,
        io: &mut FlashPageStore,
        command: RemapCommand,
        entries: &[ReverseMapEntry],
    ) -> Result<()> {
        for &entry in entries {
            let index = self.chain_index_of(entry.mapped_ppn.map(|place| io.block_of(place)));
            self.append_entry_to_block_chain(io, index, entry, Some(command))?;
        }
        self.command_state.newest_command_sequence = entries.first().map_or(0, |entry| entry.sequence_number);
        Ok(())
    }

    fn mark_mapping_superseded(&mut self, io: &mut FlashPageStore, lpn: Lpn, place: Ppn) {
        let index = io.block_of(place).index();
        let chain = SegmentChain {
            superseded_entries: self.chains_by_block[index].superseded_entries + 1,
            ..self.chains_by_block[index]
        };
        assert!(
            chain.superseded_entries <= chain.entry_count,
            "the bind of page {lpn} to {place} was never recorded"
        );
        self.replace_chain(index, chain);
        self.compaction_may_free_a_segment |= self.is_worth_compacting(&chain);
    }

    fn scan_entries_of_block(
        &mut self,
        io: &mut FlashPageStore,
        block: BlockId,
        out: &mut Vec<ReverseMapEntry>,
    ) -> Result<()> {
        let bytes = self.chain_bytes(block.index());
        if bytes > 0 {
            io.charge_referrer_scan(block, bytes);
        }
        self.read_chain_entries(io, block.index(), out);
        Ok(())
    }

    fn drop_entries_of_block(&mut self, io: &mut FlashPageStore, block: BlockId) -> Result<()> {
        let index = block.index();
        self.zero_and_release_chain(
            io,
            self.chains_by_block[index].first_segment,
            self.segment_count_of_chain(index),
        )?;
        self.replace_chain(index, SegmentChain::default());
        (self.may_tombstones_be_obsolete, self.compaction_may_free_a_segment) = (true, true);
        Ok(())
    }

    fn recover(&mut self, io: &mut FlashPageStore) -> Result<Vec<ReverseMapEntry>> {
        self.clear_ram_state();
        io.charge_nvram_scan(self.segment_count as u64 * self.segment_bytes as u64);
        let firsts = self.first_segments_of_chains(io);
        if self.command_state.entry_layout == EntryLayout::WithRemapCommand {
            self.discard_torn_commands(io, &firsts)?;
        }
        for (index, first) in firsts.into_iter().enumerate() {
            if let Some((_, first)) = first {
                self.register_recovered_chain(io, index, first)?;
            }
        }
        for segment in (0..self.segment_count).filter(|&segment| !self.is_segment_used(segment)) {
            self.zero_segment(io, segment)?;
        }
        Ok(self.all_entries(io))
    }

    fn all_entries(&self, io: &FlashPageStore) -> Vec<ReverseMapEntry> {
        let mut entries = Vec::new();
        (0..self.chains_by_block.len()).for_each(|index| self.read_chain_entries(io, index, &mut entries));
        entries
    }

    fn valid_entry_count(&self) -> u64 {
        self.entry_count - self.superseded_entries
    }

    fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("segment bitmap", self.used_segments_bitmap.len() as u64 * 8),
            ("segment groups", self.chains_by_block.len() as u64 * CHAIN_RAM_BYTES),
            ("reverse map segments (NVRAM)", self.segment_count as u64 * self.segment_bytes as u64),
        ]
    }

    fn check_invariants(&self) -> std::result::Result<(), String> {
        let bits: u32 = self.used_segments_bitmap.iter().map(|word| word.count_zeros()).sum();
        let sizes: u32 =
            (0..self.chains_by_block.len()).map(|chain| self.segment_count_of_chain(chain)).sum();
        if bits != self.free_segment_count || sizes + self.free_segment_count != self.segment_count {
            let (free, segments) = (self.free_segment_count, self.segment_count);
            return Err(format!(
                "the reverse map has {segments} NVRAM segments, of which {sizes} are in chains of blocks, so the \
                 others must be free, but the counter of free segments says {free} and the bitmap shows {bits}"
            ));
        }
        if let Some(chain) =
            self.chains_by_block.iter().position(|chain| chain.superseded_entries > chain.entry_count)
        {
            let block_count = self.chains_by_block.len() - 1;
            let tombstones = || "the tombstones (records of trims)".to_owned();
            let whose = if chain < block_count { format!("block {chain}") } else { tombstones() };
            return Err(format!(
                "in the NVRAM segments of the reverse map, the chain of {whose} must not have more superseded entries \
                 than entries, but has {} of {}",
                self.chains_by_block[chain].superseded_entries, self.chains_by_block[chain].entry_count
            ));
        }
        let sum = |of: fn(&SegmentChain) -> u32| {
            self.chains_by_block.iter().map(|chain| of(chain) as u64).sum::<u64>()
        };
        let (entries, superseded) = (sum(|chain| chain.entry_count), sum(|chain| chain.superseded_entries));
        if (entries, superseded) != (self.entry_count, self.superseded_entries) {
            return Err(format!(
                "in the NVRAM segments of the reverse map, the chains of all blocks hold {entries} entries, \
                 {superseded} of them superseded, so the totals must say the same, but say {} and {}",
                self.entry_count, self.superseded_entries
            ));
        }
        let largest = (0..self.chains_by_block.len()).map(|chain| self.segment_count_of_chain(chain)).max();
        if largest == Some(self.chain_length_histogram.largest_count_per_block()) {
            Ok(())
        } else {
            Err(format!(
                "in the NVRAM segments of the reverse map, the longest chain has {} segments, so the recorded largest \
                 number must be the same, but is {}",
                largest.unwrap_or(0),
                self.chain_length_histogram.largest_count_per_block()
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvram_segment_heads_with_extreme_values_are_decoded_as_encoded() {
        let most = NvramSegmentHeader {
            entry_block: BlockId::NONE,
            position_in_chain: (1 << 21) - 1,
            allocation_sequence: super::super::MAX_SEQUENCE,
            next_segment: None,
        };
        let least = NvramSegmentHeader {
            entry_block: BlockId(0),
            position_in_chain: 0,
            allocation_sequence: 0,
            next_segment: Some(0),
        };
        for head in [most, least, NvramSegmentHeader { next_segment: Some((1 << 21) - 1), ..most }] {
            assert_eq!(NvramSegmentHeader::decode(head.encode()), Some(head));
            assert_eq!(NvramSegmentHeader::decode([0, head.encode()[1]]), None);
            assert_eq!(NvramSegmentHeader::decode([head.encode()[0], 0]), None);
        }
    }
}
