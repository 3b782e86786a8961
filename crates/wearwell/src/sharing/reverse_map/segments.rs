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
//! - *Dropping* entries, by compacting or freeing, first vouches for the commands so far (see the parent module).
//! - *A torn command*: recovery zeroes its entries, which are the last ones of their groups, newest first.
//!
//! # Room for GC
//!
//! Recording `m` entries again in `k` groups opens at most `ceil(m / e) + k - 1` segments of `e` entries: group `i`
//! opens at most `ceil(m_i / e) <= (m_i + e - 1) / e` of them, so the sum is an integer less than `m / e + k`. A victim
//! is moved as one batch, which is spread over at most two destination blocks (an open block and its successor), and
//! the tombstones: k = 3. Compacting a group fills a new chain and the tombstones: k = 2. So the host is admitted only
//! while free segments for the largest group and two more are left after its entry. GC itself can still spread entries
//! over more groups (each with a partly unused last segment) or unite groups in one block. Therefore GC calls
//! [`ReverseMap::make_room_for_victim`] before it takes a victim.
//!
//! Departures from the paper: a relocation whose target was mapped elsewhere leaves a tombstone; active GC (compaction)
//! skips groups whose compaction would free no segment.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::{
    BlockId, Commands, EntryLayout, LivenessOf, Lpn, Ppn, RemapCommand, ReverseMap, ReverseMapEntry, Sizes,
    WATERMARK_PERCENT, still_needed,
};
use crate::address::Address;
use crate::error::{Error, Result};
use crate::nand::Nand;
use crate::store::Store;

/// Default size of an NVRAM segment of reverse-map entries, bytes.
pub const SEGMENT_BYTES: u32 = 1024;

/// Maximum number of blocks, in addition to the first, for which recording a GC victim's entries once more may begin a
/// new NVRAM segment.
const EXTRA_GROUPS: u32 = 2;
/// Minimum number of NVRAM segments with which any entry can be recorded: one for the entry, one to record it once
/// more, and one for each of [`EXTRA_GROUPS`].
const MIN_SEGMENTS: u64 = 2 + EXTRA_GROUPS as u64;

const TORN_BIT: u64 = 1;
const NUMBER_BITS: u32 = 21;
const NEXT_BITS: u32 = 31;
/// Value of the next-segment field in the last NVRAM segment of a block's chain: all bits one.
const NO_NEXT: u64 = (1 << NEXT_BITS) - 1;
/// Bytes of controller RAM per block for its chain of NVRAM segments: first and open segment, number of entries, number
/// of superseded entries.
const GROUP_BYTES: u64 = 16;

/// Head of an NVRAM segment, stored in its first slot: the block whose entries it holds, its position in the block's
/// chain, and the next segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SegmentHead {
    /// Block whose entries the segment holds; [`BlockId::NONE`] for the tombstones (records of trims).
    owner: BlockId,
    /// Position of the segment in the chain of its block, from 0.
    number: u32,
    /// Last sequence number of the device when the segment was allocated.
    sequence: u64,
    next: Option<u32>,
}

impl SegmentHead {
    fn encode(self) -> [u64; 2] {
        let next = self.next.map_or(NO_NEXT, u64::from);
        [
            TORN_BIT | (self.number as u64) << 1 | self.sequence << (1 + NUMBER_BITS),
            TORN_BIT | next << 1 | (self.owner.0 as u64) << (1 + NEXT_BITS),
        ]
    }

    fn decode(words: [u64; 2]) -> Option<Self> {
        if words[0] & words[1] & TORN_BIT == 0 {
            return None;
        }
        let next = words[1] >> 1 & NO_NEXT;
        Some(Self {
            owner: BlockId((words[1] >> (1 + NEXT_BITS)) as u32),
            number: (words[0] >> 1) as u32 & ((1 << NUMBER_BITS) - 1),
            sequence: words[0] >> (1 + NUMBER_BITS),
            next: (next != NO_NEXT).then_some(next as u32),
        })
    }
}

/// The chain of NVRAM segments with the reverse-map entries of one block. All segments but the last are full, so the
/// number of entries determines the number of segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct SegmentChain {
    first: u32,
    open: u32,
    entries: u32,
    superseded: u32,
    /// Number of superseded entries at the last attempt to compact this block's segments that would have freed none.
    /// The next attempt waits until there are more.
    superseded_at_futile_compaction: u32,
}

/// A reverse map (record of the logical pages mapped to each physical page) whose entries are in NVRAM segments,
/// grouped by block. See the module's head.
#[derive(Clone, Debug)]
pub struct NvramSegments {
    segment_bytes: u32,
    commands: Commands,
    /// Number of NVRAM segments of the device, free ones included.
    count: u32,
    /// Bitmap of the NVRAM segments in use (Remap-SSD's SV-bitmap).
    used: Vec<u64>,
    free: u32,
    /// Index of the word, in the bitmap of NVRAM segments in use, where the search for a free segment continues.
    cursor: usize,
    /// Chain of NVRAM segments of each block; the last one holds the tombstones (records of trims).
    groups: Vec<SegmentChain>,
    /// Histogram of the lengths of the blocks' chains of NVRAM segments, in segments.
    sizes: Sizes,
    entries: u64,
    superseded: u64,
    /// Whether a tombstone (record of a trim) may have become unnecessary since tombstones were last compacted.
    tombstones_may_expire: bool,
    /// Whether compacting the entries of any block may free an NVRAM segment.
    may_free_space: bool,
}

impl NvramSegments {
    /// Creates an empty reverse map with segments of `segment_bytes` bytes in the first `nvram_bytes` bytes of the
    /// NVRAM of `io`.
    ///
    /// # Errors
    /// [`Error::InvalidOptions`] if the medium has less NVRAM, the segment size is not a usable multiple, or there are
    /// too few or too many segments.
    pub fn new<N: Nand>(io: &Store<N>, nvram_bytes: u64, segment_bytes: u32) -> Result<Self> {
        Self::with_entries(io, nvram_bytes, segment_bytes, EntryLayout::Single)
    }

    /// Creates an empty reverse map in NVRAM segments, as [`NvramSegments::new`], for entries of layout `form`.
    ///
    /// # Errors
    /// Those of [`NvramSegments::new`].
    pub fn with_entries<N: Nand>(
        io: &Store<N>,
        nvram_bytes: u64,
        segment_bytes: u32,
        form: EntryLayout,
    ) -> Result<Self> {
        let segments = nvram_bytes.saturating_sub(form.extra_bytes()) / segment_bytes.max(1) as u64;
        if let Some(sentence) = Self::refuse(io, nvram_bytes, (segment_bytes, form), segments) {
            return Err(Error::InvalidOptions(sentence));
        }
        let blocks = io.geometry().blocks() as usize;
        let mut map = Self {
            segment_bytes,
            commands: Commands::new(form, (segments * segment_bytes as u64 / 8) as usize),
            count: segments as u32,
            used: Vec::new(),
            free: 0,
            cursor: 0,
            groups: vec![SegmentChain::default(); blocks + 1],
            sizes: Sizes::default(),
            entries: 0,
            superseded: 0,
            tombstones_may_expire: false,
            may_free_space: false,
        };
        map.forget();
        Ok(map)
    }

    fn refuse<N: Nand>(
        io: &Store<N>,
        nvram_bytes: u64,
        (segment_bytes, form): (u32, EntryLayout),
        segments: u64,
    ) -> Option<String> {
        let (least, unit) = (2 * form.bytes() as u32, if form == EntryLayout::Single { 16 } else { 8 });
        let present = io.nvram().len() as u64 * 8;
        if present < nvram_bytes {
            return Some(format!(
                "the reverse map needs {nvram_bytes} bytes of NVRAM, the medium has {present}"
            ));
        }
        if segment_bytes < least || !segment_bytes.is_multiple_of(unit) {
            return Some(format!(
                "NVRAM segments of {segment_bytes} bytes; they must be a multiple of {unit}, at least {least}"
            ));
        }
        let most = 1 << NUMBER_BITS;
        (!(MIN_SEGMENTS..=most).contains(&segments)).then(|| {
            format!(
                "{nvram_bytes} bytes of NVRAM are {segments} segments of {segment_bytes} bytes; there must be \
                 {MIN_SEGMENTS} to {most}"
            )
        })
    }

    /// Resets the RAM state of the reverse map, so that all NVRAM segments count as free.
    fn forget(&mut self) {
        self.used = vec![0; (self.count as usize).div_ceil(64)];
        let beyond = self.used.len() as u32 * 64 - self.count;
        if beyond > 0 {
            *self.used.last_mut().expect("there are segments") = u64::MAX << (64 - beyond);
        }
        (self.free, self.cursor) = (self.count, 0);
        self.groups.fill(SegmentChain::default());
        self.sizes = Sizes::default();
        (self.entries, self.superseded) = (0, 0);
        (self.tombstones_may_expire, self.may_free_space) = (true, true);
    }

    /// Returns the number of reverse-map entries that fit in one NVRAM segment.
    pub fn segment_entries(&self) -> u32 {
        self.segment_bytes / self.commands.form.bytes() as u32 - 1
    }

    /// Returns the number of reverse-map entries that fit in all NVRAM segments together.
    pub fn capacity_entries(&self) -> u64 {
        self.count as u64 * self.segment_entries() as u64
    }

    /// Returns the number of NVRAM segments that hold no entries.
    pub fn free_segments(&self) -> u32 {
        self.free
    }

    fn tombstones(&self) -> usize {
        self.groups.len() - 1
    }

    fn group_of(&self, block: Option<BlockId>) -> usize {
        block.map_or(self.tombstones(), BlockId::index)
    }

    fn owner(&self, group: usize) -> BlockId {
        if group == self.tombstones() { BlockId::NONE } else { BlockId(group as u32) }
    }

    /// Returns the number of NVRAM segments that `entries` entries of one block need.
    fn segments_for(&self, entries: u32) -> u32 {
        entries.div_ceil(self.segment_entries())
    }

    fn size(&self, group: usize) -> u32 {
        self.segments_for(self.groups[group].entries)
    }

    /// Returns the number of free NVRAM segments without which the host may not bind (map without a program): one for
    /// the new entry, enough to copy the longest chain (entries of one block), which this entry may have lengthened,
    /// and one for each of [`EXTRA_GROUPS`].
    fn reserve(&self) -> u32 {
        1 + (self.sizes.largest() + 1) + EXTRA_GROUPS
    }

    fn watermark(&self) -> u64 {
        self.capacity_entries() * WATERMARK_PERCENT / 100
    }

    fn replace(&mut self, group: usize, new: SegmentChain) {
        let old = std::mem::replace(&mut self.groups[group], new);
        self.sizes.change(self.segments_for(old.entries), self.segments_for(new.entries));
        self.entries = self.entries + new.entries as u64 - old.entries as u64;
        self.superseded = self.superseded + new.superseded as u64 - old.superseded as u64;
    }

    fn word(&self, segment: u32, slot: u32) -> usize {
        segment as usize * (self.segment_bytes as usize / 8) + slot as usize * self.commands.form.words()
    }

    fn head<N: Nand>(&self, io: &Store<N>, segment: u32) -> Option<SegmentHead> {
        let at = self.word(segment, 0);
        SegmentHead::decode([io.nvram()[at], io.nvram()[at + 1]])
    }

    /// Decodes the reverse-map entry in a slot of an NVRAM segment, with the atomic remap command to which it belongs,
    /// if any; `None` if the slot is empty or torn. `first` is the first page of the block to which the entry's page
    /// offset is relative.
    fn slot<N: Nand>(
        &self,
        io: &Store<N>,
        (segment, slot): (u32, u32),
        first: Ppn,
    ) -> Option<(ReverseMapEntry, Option<RemapCommand>)> {
        let (words, command) = self.commands.form.decode(&io.nvram()[self.word(segment, slot)..])?;
        Some((ReverseMapEntry::decode(words, first)?, command))
    }

    /// Returns the first page of the block `owner`, to which page offsets in its reverse-map entries are relative; page
    /// 0 for the tombstones (records of trims).
    fn first_page<N: Nand>(io: &Store<N>, owner: BlockId) -> Ppn {
        if owner == BlockId::NONE { Ppn(0) } else { io.geometry().first_page(owner) }
    }

    /// Returns the NVRAM segment that follows `segment` in the chain of its block; `None` for the last.
    fn next<N: Nand>(&self, io: &Store<N>, segment: u32) -> Option<u32> {
        self.head(io, segment).expect("a segment in use has a head").next
    }

    fn link<N: Nand>(&self, io: &mut Store<N>, segment: u32, next: Option<u32>) -> Result<()> {
        let head = self.head(io, segment).expect("a segment in use has a head");
        io.store_nvram_word(self.word(segment, 0) + 1, SegmentHead { next, ..head }.encode()[1])
    }

    fn take_free(&mut self) -> u32 {
        assert!(self.free > 0, "no NVRAM segment is free: admit the host, make room for GC's victim");
        while self.used[self.cursor] == u64::MAX {
            self.cursor = (self.cursor + 1) % self.used.len();
        }
        let segment = self.cursor as u32 * 64 + self.used[self.cursor].trailing_ones();
        self.mark_used(segment);
        segment
    }

    fn mark_used(&mut self, segment: u32) {
        self.used[segment as usize / 64] |= 1 << (segment % 64);
        self.free -= 1;
    }

    fn is_used(&self, segment: u32) -> bool {
        self.used[segment as usize / 64] >> (segment % 64) & 1 == 1
    }

    fn release(&mut self, segment: u32) {
        self.used[segment as usize / 64] &= !(1 << (segment % 64));
        self.free += 1;
    }

    /// Appends a reverse-map entry to the chain of NVRAM segments of block `owner`, which `group` describes: the
    /// present chain of the block, or the one that compaction is building.
    fn append<N: Nand>(
        &mut self,
        io: &mut Store<N>,
        (owner, group): (BlockId, &mut SegmentChain),
        (entry, command): (ReverseMapEntry, Option<RemapCommand>),
        sequence: u64,
    ) -> Result<()> {
        let slot = group.entries % self.segment_entries();
        if slot == 0 {
            self.extend(io, (owner, group), sequence)?;
        }
        let words = entry.encode(Self::first_page(io, owner));
        self.commands.form.store(io, self.word(group.open, 1 + slot), words, command)?;
        group.entries += 1;
        Ok(())
    }

    fn extend<N: Nand>(
        &mut self,
        io: &mut Store<N>,
        (owner, group): (BlockId, &mut SegmentChain),
        sequence: u64,
    ) -> Result<()> {
        let segment = self.take_free();
        let number = group.entries / self.segment_entries();
        let head = SegmentHead { owner, number, sequence, next: None }.encode();
        let at = self.word(segment, 0);
        io.store_nvram_word(at + 1, head[1])?;
        io.store_nvram_word(at, head[0])?;
        if number > 0 {
            self.link(io, group.open, Some(segment))?;
        } else {
            group.first = segment;
        }
        group.open = segment;
        Ok(())
    }

    fn append_to<N: Nand>(
        &mut self,
        io: &mut Store<N>,
        index: usize,
        entry: ReverseMapEntry,
        command: Option<RemapCommand>,
    ) -> Result<()> {
        let mut group = self.groups[index];
        let opens = group.entries.is_multiple_of(self.segment_entries());
        self.append(io, (self.owner(index), &mut group), (entry, command), entry.sequence)?;
        self.replace(index, group);
        if opens && index == self.tombstones() {
            (self.tombstones_may_expire, self.may_free_space) = (true, true);
        }
        Ok(())
    }

    /// Returns the bytes of NVRAM that a scan of the segments of block number `index` reads.
    fn group_bytes(&self, index: usize) -> u64 {
        self.size(index) as u64 * self.segment_bytes as u64
    }

    fn read<N: Nand>(&self, io: &Store<N>, index: usize, out: &mut Vec<ReverseMapEntry>) {
        let group = self.groups[index];
        let owner = self.owner(index);
        let first = Self::first_page(io, owner);
        let (mut segment, mut left) = (group.first, group.entries);
        while left > 0 {
            let count = left.min(self.segment_entries());
            let entry = |slot| self.slot(io, (segment, slot), first).expect("a counted entry is intact").0;
            out.extend((1..=count).map(entry));
            left -= count;
            if left > 0 {
                segment = self.next(io, segment).expect("a full segment with more entries has a successor");
            }
        }
    }

    /// Frees the chain of `segments` NVRAM segments that begins with `first`. Zeroing its first head makes the whole
    /// chain garbage for recovery.
    fn free_chain<N: Nand>(&mut self, io: &mut Store<N>, first: u32, segments: u32) -> Result<()> {
        self.commands.vouch(io)?;
        let mut at = Some(first).filter(|_| segments > 0);
        while let Some(segment) = at {
            at = self.next(io, segment);
            self.zero(io, segment)?;
            self.release(segment);
        }
        Ok(())
    }

    /// Zeroes an NVRAM segment of reverse-map entries, its head first.
    fn zero<N: Nand>(&self, io: &mut Store<N>, segment: u32) -> Result<()> {
        for at in self.word(segment, 0)..self.word(segment + 1, 0) {
            if io.nvram()[at] != 0 {
                io.store_nvram_word(at, 0)?;
            }
        }
        Ok(())
    }

    /// Whether compacting the NVRAM segments of one block is expected to free a segment, and enough segments are free
    /// for the entries that are kept.
    fn is_worth_compacting(&self, group: &SegmentChain) -> bool {
        let kept = group.entries - group.superseded;
        let after = self.segments_for(kept);
        group.superseded > group.superseded_at_futile_compaction
            && after < self.segments_for(group.entries)
            && (kept == 0 || after < self.free)
    }

    /// Chooses the block whose NVRAM segments active GC (compaction) empties next: the one with the most superseded
    /// entries among those worth compacting (as in Remap-SSD), otherwise the tombstones (records of trims). Returns its
    /// number, or `None` if compaction would free nothing. O(blocks), but O(1) if nothing changed since the last search
    /// found none.
    fn choose(&mut self) -> Option<usize> {
        if !self.may_free_space {
            return None;
        }
        let worth = |&index: &usize| self.is_worth_compacting(&self.groups[index]);
        let best = (0..self.tombstones()).filter(worth).max_by_key(|&index| self.groups[index].superseded);
        let chosen = best.or(self.tombstones_may_expire.then_some(self.tombstones()));
        self.may_free_space = chosen.is_some();
        chosen
    }

    /// Compacts the NVRAM segments of one block after the other (active GC of Remap-SSD) until `enough` returns true;
    /// returns `false` if no further block is worth compacting.
    fn compact_until<N: Nand>(
        &mut self,
        io: &mut Store<N>,
        needed: LivenessOf<'_>,
        enough: impl Fn(&Self) -> bool,
    ) -> Result<bool> {
        while !enough(self) {
            let Some(index) = self.choose() else { return Ok(false) };
            self.compact(io, index, needed)?;
        }
        Ok(true)
    }

    /// Compacts the NVRAM segments of block number `index` (active GC): copies entries that are still needed to a new
    /// chain, records tombstones for the sources of superseded relocations, and frees the old chain. If that would free
    /// no segment, only updates the count of superseded entries.
    fn compact<N: Nand>(&mut self, io: &mut Store<N>, index: usize, needed: LivenessOf<'_>) -> Result<()> {
        let tombstones = self.tombstones();
        self.tombstones_may_expire &= index != tombstones;
        let old = self.groups[index];
        let mut entries = Vec::new();
        io.charge_nvram_scan(self.group_bytes(index));
        self.read(io, index, &mut entries);
        let needed_entries: Vec<ReverseMapEntry> =
            still_needed(&entries, needed).into_iter().flatten().collect();
        let superseded = old.entries - needed_entries.len() as u32;
        let (kept, buried): (Vec<_>, Vec<_>) =
            needed_entries.into_iter().partition(|entry| entry.place.is_some() || index == tombstones);
        let before = self.segments_for(old.entries);
        let opened = self.segments_for(kept.len() as u32) + self.growth(tombstones, buried.len() as u32);
        if opened >= before || opened > self.free {
            let superseded_at_futile_compaction =
                if opened >= before { superseded } else { old.superseded_at_futile_compaction };
            self.replace(index, SegmentChain { superseded, superseded_at_futile_compaction, ..old });
            return Ok(());
        }
        for entry in buried {
            self.append_to(io, tombstones, entry, None)?;
        }
        let old_head = self.head(io, old.first).expect("a group with entries has a first head");
        let sequence = io.last_sequence().max(old_head.sequence + 1);
        let mut new = SegmentChain::default();
        for entry in kept {
            self.append(io, (self.owner(index), &mut new), (entry, None), sequence)?;
        }
        self.free_chain(io, old.first, before)?;
        self.replace(index, new);
        Ok(())
    }

    /// Returns the number of NVRAM segments that `more` further entries open in a block's chain.
    fn growth(&self, group: usize, more: u32) -> u32 {
        self.segments_for(self.groups[group].entries + more) - self.size(group)
    }

    /// Finds, during recovery, the first segment of each block's chain in NVRAM, as `(sequence number, segment)`. Of
    /// two first segments of one block the older is taken, because the younger one begins an unfinished copy.
    fn first_heads<N: Nand>(&self, io: &Store<N>) -> Vec<Option<(u64, u32)>> {
        let mut firsts: Vec<Option<(u64, u32)>> = vec![None; self.groups.len()];
        for segment in 0..self.count {
            let Some(head) = self.head(io, segment).filter(|head| head.number == 0) else { continue };
            let first = &mut firsts[self.group_of(head.owner.to_option())];
            let found = (head.sequence, segment);
            *first = Some(first.map_or(found, |known| known.min(found)));
        }
        firsts
    }

    /// Zeroes the words of a torn entry that follows the `count` intact entries of an NVRAM segment. With two-word
    /// entries this is not needed: the next entry overwrites word 0 before word 1 counts. With three words, an old word
    /// could complete the next entry.
    fn zero_torn<N: Nand>(&self, io: &mut Store<N>, segment: u32, count: u32) -> Result<()> {
        let form = self.commands.form;
        if form == EntryLayout::Single || count == self.segment_entries() {
            return Ok(());
        }
        form.zero(io, self.word(segment, 1 + count))
    }

    /// Zeroes, after a power loss, the reverse-map entries of atomic commands that were not recorded completely, newest
    /// first.
    fn discard_torn_commands<N: Nand>(
        &mut self,
        io: &mut Store<N>,
        firsts: &[Option<(u64, u32)>],
    ) -> Result<()> {
        let mut slots = Vec::new();
        for (index, first) in firsts.iter().enumerate() {
            if let &Some((_, first)) = first {
                self.collect_slots(io, self.owner(index), first, &mut slots);
            }
        }
        let recorded: Vec<_> = slots.iter().map(|&(_, recorded)| recorded).collect();
        let torn = self.commands.recover(io, &recorded);
        let is_torn = |(entry, command): &(ReverseMapEntry, Option<RemapCommand>)| {
            command.is_some_and(|command| torn.contains(&command.number(entry)))
        };
        slots.retain(|(_, recorded)| is_torn(recorded));
        slots.sort_unstable_by_key(|(_, (entry, _))| u64::MAX - entry.sequence);
        slots.iter().try_for_each(|&(at, _)| self.commands.form.zero(io, at))
    }

    /// Appends to `slots` each intact reverse-map entry of the chain of NVRAM segments that begins with `first`, with
    /// the index of its first NVRAM word.
    fn collect_slots<N: Nand>(
        &self,
        io: &Store<N>,
        owner: BlockId,
        first: u32,
        slots: &mut Vec<(usize, (ReverseMapEntry, Option<RemapCommand>))>,
    ) {
        let first_page = Self::first_page(io, owner);
        let mut next = Some(first);
        while let Some(segment) = next {
            let before = slots.len();
            let intact = |slot| Some((self.word(segment, slot), self.slot(io, (segment, slot), first_page)?));
            slots.extend((1..=self.segment_entries()).map_while(intact));
            if slots.len() == before {
                return;
            }
            next = self.next(io, segment);
        }
    }

    /// Registers during recovery the chain of NVRAM segments that begins with `first`: marks its segments as used and
    /// counts its intact reverse-map entries. A torn entry after the last one is overwritten by the next entry.
    fn adopt<N: Nand>(&mut self, io: &mut Store<N>, index: usize, first: u32) -> Result<()> {
        let mut group = SegmentChain { first, open: first, ..SegmentChain::default() };
        let mut at = first;
        loop {
            let intact = |&slot: &u32| self.slot(io, (at, slot), Ppn(0)).is_some();
            let count = (1..=self.segment_entries()).take_while(intact).count() as u32;
            self.zero_torn(io, at, count)?;
            if count == 0 {
                break;
            }
            self.mark_used(at);
            (group.open, group.entries) = (at, group.entries + count);
            let Some(next) = self.next(io, at) else { break };
            let head = self.head(io, next).expect("links lead to heads");
            assert_eq!(head.owner, self.owner(index), "segment {next} is linked to a foreign group");
            at = next;
        }
        if group.entries > 0 && group.open != at {
            self.link(io, group.open, None)?;
        }
        self.replace(index, group);
        Ok(())
    }
}

impl ReverseMap for NvramSegments {
    fn admit_entry<N: Nand>(&mut self, io: &mut Store<N>, needed: LivenessOf<'_>) -> Result<bool> {
        if self.valid_entries() >= self.watermark() && self.tombstones_may_expire {
            self.compact(io, self.tombstones(), needed)?;
        }
        Ok(self.valid_entries() < self.watermark()
            && self.compact_until(io, needed, |map| map.free >= map.reserve())?)
    }

    fn make_room_for_victim<N: Nand>(
        &mut self,
        io: &mut Store<N>,
        block: BlockId,
        needed: LivenessOf<'_>,
    ) -> Result<bool> {
        let index = block.index();
        self.compact_until(io, needed, |map| {
            map.groups[index].entries == 0 || map.free >= map.size(index) + EXTRA_GROUPS
        })
    }

    /// Records a reverse-map entry in the last NVRAM segment of its block. O(1): one random access to the table of
    /// chains and one to the NVRAM. Stores the entry; if it needs a new segment, also a head and a link.
    fn record_entry<N: Nand>(
        &mut self,
        io: &mut Store<N>,
        entry: ReverseMapEntry,
        _: LivenessOf<'_>,
    ) -> Result<()> {
        let index = self.group_of(entry.place.map(|place| io.block_of(place)));
        self.append_to(io, index, entry, None)
    }

    fn admit_command<N: Nand>(
        &mut self,
        io: &mut Store<N>,
        places: &[Option<Ppn>],
        needed: LivenessOf<'_>,
    ) -> Result<bool> {
        let after = self.valid_entries() + places.len() as u64;
        if after > self.watermark() && self.tombstones_may_expire {
            self.compact(io, self.tombstones(), needed)?;
        }
        if self.commands.form == EntryLayout::Single
            || self.valid_entries() + places.len() as u64 > self.watermark()
        {
            return Ok(false);
        }
        let mut counts: HashMap<usize, u32, FxBuildHasher> = HashMap::default();
        for place in places {
            *counts.entry(self.group_of(place.map(|place| io.block_of(place)))).or_default() += 1;
        }
        self.compact_until(io, needed, |map| {
            let grown = |(&group, &count): (&usize, &u32)| map.size(group) + map.growth(group, count);
            let opened: u32 = counts.iter().map(|(&group, &count)| map.growth(group, count)).sum();
            let largest = counts.iter().map(grown).max().unwrap_or(0).max(map.sizes.largest());
            map.free >= opened + largest + EXTRA_GROUPS
        })
    }

    fn record_command<N: Nand>(
        &mut self,
        io: &mut Store<N>,
        command: RemapCommand,
        entries: &[ReverseMapEntry],
    ) -> Result<()> {
        for &entry in entries {
            let index = self.group_of(entry.place.map(|place| io.block_of(place)));
            self.append_to(io, index, entry, Some(command))?;
        }
        self.commands.newest = entries.first().map_or(0, |entry| entry.sequence);
        Ok(())
    }

    fn mark_superseded<N: Nand>(&mut self, io: &mut Store<N>, lpn: Lpn, place: Ppn) {
        let index = io.block_of(place).index();
        let group = SegmentChain { superseded: self.groups[index].superseded + 1, ..self.groups[index] };
        assert!(group.superseded <= group.entries, "the bind of page {lpn} to {place} was never recorded");
        self.replace(index, group);
        self.may_free_space |= self.is_worth_compacting(&group);
    }

    fn entries_of_block<N: Nand>(
        &mut self,
        io: &mut Store<N>,
        block: BlockId,
        out: &mut Vec<ReverseMapEntry>,
    ) -> Result<()> {
        let bytes = self.group_bytes(block.index());
        if bytes > 0 {
            io.charge_referrer_scan(block, bytes);
        }
        self.read(io, block.index(), out);
        Ok(())
    }

    fn block_erased<N: Nand>(&mut self, io: &mut Store<N>, block: BlockId) -> Result<()> {
        let index = block.index();
        self.free_chain(io, self.groups[index].first, self.size(index))?;
        self.replace(index, SegmentChain::default());
        (self.tombstones_may_expire, self.may_free_space) = (true, true);
        Ok(())
    }

    fn recover<N: Nand>(&mut self, io: &mut Store<N>) -> Result<Vec<ReverseMapEntry>> {
        self.forget();
        io.charge_nvram_scan(self.count as u64 * self.segment_bytes as u64);
        let firsts = self.first_heads(io);
        if self.commands.form == EntryLayout::WithCommand {
            self.discard_torn_commands(io, &firsts)?;
        }
        for (index, first) in firsts.into_iter().enumerate() {
            if let Some((_, first)) = first {
                self.adopt(io, index, first)?;
            }
        }
        for segment in (0..self.count).filter(|&segment| !self.is_used(segment)) {
            self.zero(io, segment)?;
        }
        Ok(self.all_entries(io))
    }

    fn all_entries<N: Nand>(&self, io: &Store<N>) -> Vec<ReverseMapEntry> {
        let mut entries = Vec::new();
        (0..self.groups.len()).for_each(|index| self.read(io, index, &mut entries));
        entries
    }

    fn valid_entries(&self) -> u64 {
        self.entries - self.superseded
    }

    fn ram_bytes(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("segment bitmap", self.used.len() as u64 * 8),
            ("segment groups", self.groups.len() as u64 * GROUP_BYTES),
            ("reverse map segments (NVRAM)", self.count as u64 * self.segment_bytes as u64),
        ]
    }

    fn check(&self) -> std::result::Result<(), String> {
        let bits: u32 = self.used.iter().map(|word| word.count_zeros()).sum();
        let sizes: u32 = (0..self.groups.len()).map(|group| self.size(group)).sum();
        if bits != self.free || sizes + self.free != self.count {
            let (free, segments) = (self.free, self.count);
            return Err(format!(
                "{segments} segments: {sizes} in groups, {free} counted free, {bits} free bits"
            ));
        }
        if let Some(group) = self.groups.iter().position(|group| group.superseded > group.entries) {
            return Err(format!("group {group} has more superseded entries than entries"));
        }
        let sum =
            |of: fn(&SegmentChain) -> u32| self.groups.iter().map(|group| of(group) as u64).sum::<u64>();
        let (entries, superseded) = (sum(|group| group.entries), sum(|group| group.superseded));
        if (entries, superseded) != (self.entries, self.superseded) {
            return Err(format!("groups hold {entries} entries, {superseded} superseded; counted otherwise"));
        }
        let largest = (0..self.groups.len()).map(|group| self.size(group)).max();
        if largest == Some(self.sizes.largest()) {
            Ok(())
        } else {
            Err(format!("largest group: {largest:?} segments"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvram_segment_heads_with_extreme_values_are_decoded_as_encoded() {
        let most = SegmentHead {
            owner: BlockId::NONE,
            number: (1 << 21) - 1,
            sequence: super::super::MAX_SEQUENCE,
            next: None,
        };
        let least = SegmentHead { owner: BlockId(0), number: 0, sequence: 0, next: Some(0) };
        for head in [most, least, SegmentHead { next: Some((1 << 21) - 1), ..most }] {
            assert_eq!(SegmentHead::decode(head.encode()), Some(head));
            assert_eq!(SegmentHead::decode([0, head.encode()[1]]), None);
            assert_eq!(SegmentHead::decode([head.encode()[0], 0]), None);
        }
    }
}
