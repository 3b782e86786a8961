//! Simulated flash: checks the rules of [`Nand`] and panics if one is violated, counts wear, and keeps as much of each
//! page as the run needs.
//!
//! Replay of a 2-TiB device has half a billion pages. So the model always keeps four bytes of OOB per page (the owner),
//! and the rest only on request ([`RetainedPageFields`]): sequence numbers for recovery (`sequence_numbers`),
//! fingerprints for content mechanisms, bytes if the host reads its data back. Metadata pages always keep their bytes:
//! they are few, and recovery rebuilds lost RAM state from them. If recovery needs pages of deltas and chunks, these
//! keep their bytes, too; if host data is not kept, only their nonzero words (`packed`). The kind of page is kept per
//! block, because all pages of a block have the same kind.

#![expect(clippy::inline_always, reason = "measured: the way of a write costs a tenth less in one piece")]

use arrayvec::ArrayVec;
use rustc_hash::FxHashMap;

use super::packed::PackedPageBytes;
use super::payloads::{PageLocation, PagePayloads};
use super::sequence_numbers::{SequenceNumberTable, SequenceNumbers};
use super::{
    ConsecutiveCopies, ConsecutivePrograms, FaultInjectable, Geometry, Nand, NandError, Oob, PageDataWord,
    PageKind,
};
use crate::address::{BlockId, Lpn, Ppn};
use crate::data::{Content, Fingerprint};
use crate::divide::Divider;
use crate::tables::DenseTable;
use crate::tables::prefetch::{TRANSLATION_PAGES_PER_PREFETCH, load_into_cpu_cache};

/// Choice of what the simulated flash keeps of each data page in addition to its owner (the LPN in its OOB).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a kind of memory that a medium can do without")]
pub struct RetainedPageFields {
    /// Whether sequence numbers of data pages are kept (4 bytes per page): needed by recovery from OOB.
    pub keeps_sequence_numbers: bool,
    /// Whether the generation of host data is kept, too (4 bytes per page). The generation is the sequence number of
    /// the program that first wrote the content, and GC copies inherit it. If false, the OOB of a copy of host data has
    /// generation 0. Metadata pages always have their generation.
    pub keeps_first_write_sequence_numbers: bool,
    /// Whether fingerprints of data pages are kept (8 bytes per page): needed by deduplication and other content
    /// mechanisms.
    pub keeps_fingerprints: bool,
    /// Whether the bytes of data pages are kept.
    pub keeps_data_bytes: bool,
    /// Whether packed pages (deltas, chunks) keep their bytes, without the zeros, although data pages do not. Needed if
    /// recovery reads packed pages to find out which logical pages they hold. Memory: 10 bytes for every 8 that are not
    /// all zero, about 100 bytes per packed page.
    pub keeps_packed_page_bytes: bool,
}

impl RetainedPageFields {
    /// Selection of everything that can be kept of a data page, for a device that can be read back and recovered.
    pub const ALL: Self = Self {
        keeps_sequence_numbers: true,
        keeps_first_write_sequence_numbers: true,
        keeps_fingerprints: true,
        keeps_data_bytes: true,
        keeps_packed_page_bytes: true,
    };
}

/// Simulated flash medium. Memory: 4 bytes per page, plus what is selected by [`RetainedPageFields`].
#[derive(Clone, Debug)]
pub struct SimNand {
    /// Geometry of the flash: channels, dies, planes, blocks and pages.
    geometry: Geometry,
    /// Number of pages of a block (erase unit of the FTL).
    block_pages: u32,
    /// Divider by the number of pages of a block, which turns a PPN into a block number.
    pages_per_block_divider: Divider,
    /// Wear, health and fill of each block, by block number.
    block_states: Vec<SimBlockState>,
    /// Owner in the OOB of each flash page (LPN or metadata page number), by PPN.
    page_owners: DenseTable<u32>,
    /// Sequence number and generation of each page; `None` if the medium does not keep them.
    sequence_numbers: Option<SequenceNumberTable>,
    /// Fingerprint of each page's content, by PPN; empty if fingerprints are not kept.
    page_fingerprints: DenseTable<u64>,
    /// Bytes of the pages whose bytes are kept in full.
    page_payloads: PagePayloads,
    /// Bytes of packed pages (deltas, chunks), if those of data pages are not kept.
    packed_page_bytes: PackedPageBytes,
    /// Pages that cannot be read, by PPN, with the reason. They are few.
    damaged_pages: FxHashMap<u32, PageDamage>,
    /// Choice of what is kept of each data page in addition to its owner.
    retained_page_fields: RetainedPageFields,
    /// Whether only the owner of each data page is kept (runs that only count operations), so that programs of data
    /// return early.
    keeps_only_owners_of_data_pages: bool,
    /// Content of the non-volatile RAM, in words of 8 bytes.
    nvram: Vec<u64>,
    /// Wear limit of each block; empty if wear is counted but blocks never fail from it.
    wear_limits: Vec<WearLimit>,
    /// For each block, which of its pages are head and tail pages (pages that describe the block); empty until the
    /// first head page is programmed.
    head_and_tail_pages_of_block: Vec<HeadAndTailPages>,
}

/// Positions of the head page and of the tail pages of a block. These pages describe the block for recovery.
#[derive(Clone, Copy, Debug, Default)]
struct HeadAndTailPages {
    /// Whether the first page of the block is a head page, which names the block's kind and age.
    has_head: bool,
    /// Number of tail pages programmed in the block. A tail page lists the OOBs of the block's pages, and tail pages
    /// are programmed last in a block.
    tail_page_count: u16,
    /// Offset in the block of its first tail page (list of the block's OOBs).
    first_tail_offset: u16,
}

impl HeadAndTailPages {
    /// Returns [`PageKind::BlockHead`] or [`PageKind::BlockTail`] if page `page_offset` of the block is its head page
    /// or a tail page; otherwise `None`.
    fn head_or_tail_kind_at(self, page_offset: u32) -> Option<PageKind> {
        let (from, pages) = (u32::from(self.first_tail_offset), u32::from(self.tail_page_count));
        match page_offset {
            0 if self.has_head => Some(PageKind::BlockHead),
            _ if (from..from + pages).contains(&page_offset) => Some(PageKind::BlockTail),
            _ => None,
        }
    }
}

/// State of a block of the simulated flash. Eight bytes, so that a program touches one cache line of these states.
#[derive(Clone, Copy, Debug)]
struct SimBlockState {
    /// Number of erases of the block so far.
    erase_count: u32,
    /// Number of pages of the block programmed since its last erase.
    programmed_pages: u16,
    /// Whether the block can be used, or why not.
    health: BlockHealth,
    /// Kind of data that the block's pages hold; `None` until the first of them is programmed.
    kind: Option<PageKind>,
}

/// Number of page owners in 64 bytes, a cache line of most processors.
const PAGE_OWNERS_PER_CACHE_LINE: usize = 16;

/// Reason why a page of the simulated flash cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PageDamage {
    /// The program of the page was torn: data and spare area are unreadable.
    Torn,
    /// The data of the page became uncorrectable. The spare area is readable.
    Data,
    /// The page was programmed as lost: every read of its data fails by intention.
    Lost,
}

/// Condition of a block of the simulated flash: usable, or the reason why it cannot be erased or programmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BlockHealth {
    /// The block can be programmed, read and erased.
    Good,
    /// An erase of the block was interrupted: the block is unusable until it is erased again.
    HalfErased,
    /// The block has reached its wear limit: its last erase succeeded, and the next program fails.
    WornOut,
    /// A program in the block failed: the block can be read, but neither programmed nor erased.
    Condemned,
    /// The block is bad, from the factory or marked by the FTL after a failure: it must not be used.
    Bad,
}

/// Which operation of a worn-out block fails first: erase or program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WornBlockFailure {
    /// The next erase of a worn-out block fails, and the block keeps its content.
    Erase,
    /// The last erase of a worn-out block succeeds, and the first program after it fails.
    Program,
}

/// Endurance of a block: the number of erases after which it fails, and which operation then fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WearLimit {
    /// Number of erases of the block that succeed before the failure.
    pub erase_cycles: u32,
    /// Operation (erase or program) that fails when the block has reached its wear limit.
    pub failing_operation: WornBlockFailure,
}

impl SimNand {
    /// Creates a simulated flash device with every block good and erased.
    pub fn new(geometry: Geometry, retained_page_fields: RetainedPageFields) -> Self {
        let blocks = geometry.blocks() as usize;
        let pages = geometry.pages() as usize;
        let fresh =
            SimBlockState { erase_count: 0, programmed_pages: 0, health: BlockHealth::Good, kind: None };
        Self {
            block_pages: geometry.block_pages(),
            pages_per_block_divider: Divider::new(geometry.block_pages()),
            block_states: vec![fresh; blocks],
            page_owners: DenseTable::zeroed(pages),
            sequence_numbers: retained_page_fields.keeps_sequence_numbers.then(|| {
                SequenceNumberTable::new(
                    blocks,
                    pages,
                    retained_page_fields.keeps_first_write_sequence_numbers,
                )
            }),
            page_fingerprints: DenseTable::zeroed(if retained_page_fields.keeps_fingerprints {
                pages
            } else {
                0
            }),
            page_payloads: PagePayloads::new(&geometry),
            packed_page_bytes: PackedPageBytes::default(),
            damaged_pages: FxHashMap::default(),
            retained_page_fields,
            keeps_only_owners_of_data_pages: retained_page_fields == RetainedPageFields::default(),
            nvram: Vec::new(),
            wear_limits: Vec::new(),
            head_and_tail_pages_of_block: Vec::new(),
            geometry,
        }
    }

    /// Sets a wear limit for all blocks: after `cycles` erases the next erase of a block fails. Without limits, wear is
    /// counted but blocks never fail.
    #[must_use]
    pub fn with_endurance(mut self, cycles: u32) -> Self {
        self.set_wear_limits(vec![
            WearLimit {
                erase_cycles: cycles,
                failing_operation: WornBlockFailure::Erase
            };
            self.block_states.len()
        ]);
        self
    }

    /// Sets a wear limit for each block, in order of the blocks.
    ///
    /// # Panics
    /// Unless there are as many limits as blocks.
    pub fn set_wear_limits(&mut self, limits: Vec<WearLimit>) {
        assert_eq!(limits.len(), self.block_states.len(), "one limit per block");
        self.wear_limits = limits;
    }

    /// Adds `bytes` of zeroed NVRAM to the medium, rounded up to whole words of 8 bytes.
    #[must_use]
    pub fn with_nvram(mut self, bytes: u64) -> Self {
        self.nvram = vec![0; bytes.div_ceil(8) as usize];
        self
    }

    /// Marks blocks as bad before first use (factory bad blocks).
    #[must_use]
    pub fn with_factory_bad_blocks(mut self, blocks: impl IntoIterator<Item = BlockId>) -> Self {
        for block in blocks {
            self.mark_bad(block);
        }
        self
    }

    /// Sets the erase count of a block, for a medium that is loaded from a file.
    pub fn set_erase_count(&mut self, block: BlockId, erases: u32) {
        self.block_states[block.index()].erase_count = erases;
    }

    /// Whether the simulated flash keeps bytes of this page that can be read.
    pub fn has_bytes(&self, ppn: Ppn) -> bool {
        self.page_payloads.has_bytes(self.page_location(ppn))
            || self.packed_page_bytes.has_bytes(self.page_location(ppn))
    }

    /// Copies the kept bytes of a page, followed by zeros, into `into`. Returns `false` if no bytes are kept.
    #[inline]
    fn read_bytes(&self, place: PageLocation, into: &mut [u8]) -> bool {
        self.page_payloads.read_page(place, into) || self.packed_page_bytes.read_page(place, into)
    }

    /// Whether only the nonzero words of pages of this kind are stored.
    #[inline]
    fn stores_only_nonzero_words(&self, kind: PageKind) -> bool {
        self.retained_page_fields.keeps_packed_page_bytes
            && !self.retained_page_fields.keeps_data_bytes
            && kind.packs_logical_pages()
    }

    /// Returns the number of the block that holds the page, and the page's offset in it.
    #[inline]
    fn block_and_offset(&self, ppn: Ppn) -> (usize, u32) {
        let block = self.pages_per_block_divider.quotient(ppn.0);
        (block as usize, ppn.0 - block * self.block_pages)
    }

    /// Returns the location of a page: its PPN, its block and its offset in the block.
    #[inline]
    fn page_location(&self, ppn: Ppn) -> PageLocation {
        let (block, page_offset) = self.block_and_offset(ppn);
        PageLocation { ppn, block: block as u32, page_offset }
    }

    /// Returns the number of the block that holds a page. Panics unless the page is programmed and its block is not
    /// bad.
    #[inline]
    fn block_of_programmed_page(&self, ppn: Ppn) -> usize {
        self.location_of_programmed_page(ppn).block as usize
    }

    /// Returns the location (block and offset) of a page. Panics unless the page is programmed and its block is not
    /// bad.
    #[inline]
    fn location_of_programmed_page(&self, ppn: Ppn) -> PageLocation {
        let place = self.page_location(ppn);
        let row = &self.block_states[place.block as usize];
        assert!(
            place.page_offset < row.programmed_pages as u32,
            "read of erased page {ppn}: the FTL lost track of it"
        );
        assert!(row.health != BlockHealth::Bad, "read of page {ppn} in a bad block");
        place
    }

    /// Returns the OOB of a page of `block`; fields that the simulated flash does not keep are zero.
    #[inline]
    fn oob_of(&self, ppn: Ppn, block: usize) -> Oob {
        let numbers = self.sequence_numbers.as_ref().map(|numbers| numbers.sequence_numbers_of(ppn.0, block));
        let SequenceNumbers { sequence_number: sequence, first_write_sequence_number: generation } =
            numbers.unwrap_or_default();
        Oob {
            kind: self.kind_of(ppn, block),
            owner: self.page_owners.get(ppn.index()),
            sequence_number: sequence,
            first_write_sequence_number: generation,
            fingerprint: self.fingerprint(ppn),
        }
    }

    /// Returns the kind of a programmed page: `PageKind::BlockHead` or `PageKind::BlockTail` if the page describes its
    /// block, otherwise the kind of the block's pages.
    #[inline]
    fn kind_of(&self, ppn: Ppn, block: usize) -> PageKind {
        let of_page = if self.head_and_tail_pages_of_block.is_empty() {
            None
        } else {
            self.head_and_tail_pages_of_block[block]
                .head_or_tail_kind_at(ppn.0 - block as u32 * self.block_pages)
        };
        of_page.or(self.block_states[block].kind).expect("a readable page gave its block a kind")
    }

    /// Records that page `page_offset` of a block is its head page or one of its tail pages, depending on `kind`. Head
    /// and tail pages describe the block.
    fn record_head_or_tail_page(&mut self, block: usize, page_offset: u32, kind: PageKind) {
        self.head_and_tail_pages_of_block.resize(self.block_states.len(), HeadAndTailPages::default());
        let description_pages = &mut self.head_and_tail_pages_of_block[block];
        if kind == PageKind::BlockHead {
            assert!(page_offset == 0, "page {page_offset} of block {block} is programmed as its head");
            description_pages.has_head = true;
        } else {
            if description_pages.tail_page_count == 0 {
                description_pages.first_tail_offset = page_offset as u16;
            }
            description_pages.tail_page_count += 1;
        }
    }

    /// Returns an error if the data of a programmed page cannot be read.
    #[inline]
    fn require_readable(&self, ppn: Ppn, block: usize) -> Result<(), NandError> {
        let damaged = self.block_states[block].health == BlockHealth::HalfErased
            || (!self.damaged_pages.is_empty() && self.damaged_pages.contains_key(&ppn.0));
        if damaged { Err(NandError::Uncorrectable(ppn)) } else { Ok(()) }
    }

    /// Returns an error if the spare area of a page cannot be read, because its program was torn or the erase of its
    /// block was interrupted.
    #[inline]
    fn require_readable_spare(&self, ppn: Ppn, block: usize) -> Result<(), NandError> {
        let damaged = self.block_states[block].health == BlockHealth::HalfErased
            || (!self.damaged_pages.is_empty() && self.damaged_pages.get(&ppn.0) == Some(&PageDamage::Torn));
        if damaged { Err(NandError::Uncorrectable(ppn)) } else { Ok(()) }
    }

    /// Checks that `count` pages from `ppn` on may be programmed next in their block, and counts them as programmed.
    /// Returns the block number.
    #[inline]
    fn check_and_count_programs(&mut self, ppn: Ppn, count: u32) -> Result<usize, NandError> {
        let place = self.page_location(ppn);
        self.check_and_count_programs_at(place, count)?;
        Ok(place.block as usize)
    }

    /// Checks that `count` pages from `first` on may be programmed next in their block, and counts them as programmed.
    #[inline]
    fn check_and_count_programs_at(&mut self, first: PageLocation, count: u32) -> Result<(), NandError> {
        let PageLocation { block, page_offset, .. } = first;
        let row = &mut self.block_states[block as usize];
        let next = row.programmed_pages as u32;
        if page_offset != next || page_offset + count > self.block_pages || row.health != BlockHealth::Good {
            return self.fail_program_of_worn_block(first, count);
        }
        row.programmed_pages += count as u16;
        Ok(())
    }

    /// Handles a program that the simulated flash does not accept. In a worn-out block, the program of the first page
    /// fails and the page is used up. Every other reason is a bug of the FTL and panics.
    #[cold]
    fn fail_program_of_worn_block(&mut self, first: PageLocation, count: u32) -> Result<(), NandError> {
        let PageLocation { ppn, block, page_offset } = first;
        let row = &mut self.block_states[block as usize];
        let next = row.programmed_pages as u32;
        assert!(
            page_offset == next
                && page_offset + count <= self.block_pages
                && row.health == BlockHealth::WornOut,
            "program of {count} pages from {ppn}: block {block} is {:?} and its next page is {next}, not {page_offset}",
            row.health
        );
        row.programmed_pages += 1;
        self.damaged_pages.insert(ppn.0, PageDamage::Torn);
        Err(NandError::ProgramFailed(ppn))
    }

    /// Records the kind of a block's pages at the block's first program, and panics if a later page has another kind.
    /// Head and tail pages, which describe the block, may be in a block of any kind and are recorded as such.
    #[inline]
    fn set_or_check_kind_of_block(&mut self, block: usize, kind: PageKind, ppn: Ppn) {
        if kind.is_head_or_tail() {
            return self.record_head_or_tail_page(block, ppn.0 - block as u32 * self.block_pages, kind);
        }
        let of_block = *self.block_states[block].kind.get_or_insert(kind);
        assert!(of_block == kind, "program of page {ppn}: a block holds one kind of page");
    }

    /// Returns the index in `pages`, all in `block`, of the first page that cannot be read, with the error; `None` if
    /// all are readable.
    fn first_unreadable_page(&self, pages: &[Ppn], block: usize) -> Option<(usize, NandError)> {
        if self.damaged_pages.is_empty() && self.block_states[block].health == BlockHealth::Good {
            return None;
        }
        pages.iter().enumerate().find_map(|(k, &ppn)| Some((k, self.require_readable(ppn, block).err()?)))
    }

    /// Copies the OOBs of the source pages to the destination pages of a run of copies, with the owners that the run
    /// gives.
    fn copy_oobs(&mut self, run: &ConsecutiveCopies<'_>) {
        let to = run.first_destination.index();
        self.page_owners.set_consecutive(to, run.owners.iter().map(|lpn| lpn.0));
        if self.sequence_numbers.is_some() {
            self.copy_sequence_numbers(run);
        }
        if self.retained_page_fields.keeps_fingerprints {
            self.page_fingerprints.copy_to_consecutive(to, run.source_pages.iter().map(|ppn| ppn.index()));
        }
    }

    /// Gives consecutive sequence numbers to the destination pages of a run of copies. Each keeps the generation of its
    /// source page (sequence number of the program that first wrote the content).
    fn copy_sequence_numbers(&mut self, run: &ConsecutiveCopies<'_>) {
        let Some(first) = run.source_pages.first() else { return };
        let ((source, _), (block, page_offset)) =
            (self.block_and_offset(*first), self.block_and_offset(run.first_destination));
        let kind = self.block_states[source].kind.expect("a readable page gave its block a kind");
        let Some(numbers) = &mut self.sequence_numbers else { return };
        for (k, from) in (0..).zip(run.source_pages) {
            let generation = numbers.sequence_numbers_of(from.0, source).first_write_sequence_number;
            let copied = SequenceNumbers {
                sequence_number: run.first_sequence + u64::from(k),
                first_write_sequence_number: generation,
            };
            numbers.set_sequence_numbers(run.first_destination.0 + k, (block, page_offset + k), kind, copied);
        }
    }

    /// Copies the kept bytes of pages of kind `kind`: from the source pages of a run of copies to its destination
    /// pages.
    fn copy_bytes(&mut self, run: &ConsecutiveCopies<'_>, kind: PageKind) {
        for (to, from) in (run.first_destination.0..).zip(run.source_pages) {
            let (to, from) = (self.page_location(Ppn(to)), self.page_location(*from));
            if self.stores_only_nonzero_words(kind) {
                self.packed_page_bytes.copy_page(to, from);
            } else {
                self.page_payloads.store_page_copy(to, from);
            }
        }
    }

    /// Stores the OOB and content of a page that is programmed, as far as the medium keeps them.
    #[inline]
    fn store_page(&mut self, ppn: Ppn, oob: &Oob, content: &Content<'_>) {
        self.page_owners.set(ppn.index(), oob.owner);
        if self.keeps_only_owners_of_data_pages && oob.kind.is_host_data() {
            return;
        }
        self.store_sequence_and_fingerprint(ppn, self.block_and_offset(ppn), oob);
        if let Content::Bytes(bytes) = content {
            self.store_bytes(ppn, oob.kind, bytes);
        }
    }

    /// Stores sequence number, generation and fingerprint of a page at `place` (block and offset), as far as they are
    /// kept.
    #[inline]
    fn store_sequence_and_fingerprint(&mut self, ppn: Ppn, place: (usize, u32), oob: &Oob) {
        if let Some(numbers) = &mut self.sequence_numbers {
            let Oob { sequence_number: sequence, first_write_sequence_number: generation, .. } = *oob;
            numbers.set_sequence_numbers(
                ppn.0,
                place,
                oob.kind,
                SequenceNumbers { sequence_number: sequence, first_write_sequence_number: generation },
            );
        }
        if self.retained_page_fields.keeps_fingerprints {
            self.page_fingerprints.set(ppn.index(), oob.fingerprint.0);
        }
    }

    /// Stores the bytes of a page that is programmed, if the medium keeps those of pages of this kind.
    fn store_bytes(&mut self, ppn: Ppn, kind: PageKind, bytes: &[u8]) {
        if !self.keeps_bytes_of(kind) {
            return;
        }
        let page = self.geometry.page_bytes as usize;
        let with_spare = page + self.geometry.spare_bytes as usize;
        assert!(
            (page..=with_spare).contains(&bytes.len()),
            "a program is one whole page, with spare bytes or without"
        );
        let place = self.page_location(ppn);
        if self.stores_only_nonzero_words(kind) {
            self.packed_page_bytes.store_page(place, bytes);
        } else {
            self.page_payloads.store_page(place, bytes);
        }
    }

    /// Drops all that is kept of the pages of a block (bytes, sequence numbers, damage), because the block is erased.
    fn drop_block_data(&mut self, block: BlockId) {
        let first = self.geometry.first_page(block).0;
        let pages = first..first + self.block_states[block.index()].programmed_pages as u32;
        self.page_payloads.drop_block(block);
        self.packed_page_bytes.drop_block(block);
        if let Some(description_pages) = self.head_and_tail_pages_of_block.get_mut(block.index()) {
            *description_pages = HeadAndTailPages::default();
        }
        if let Some(numbers) = &mut self.sequence_numbers {
            numbers.drop_sequence_numbers_of_pages(pages.clone());
        }
        if !self.damaged_pages.is_empty() {
            self.damaged_pages.retain(|ppn, _| !pages.contains(ppn));
        }
    }
}

impl Nand for SimNand {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline(always)]
    fn program(&mut self, ppn: Ppn, oob: Oob, content: Content<'_>) -> Result<(), NandError> {
        let block = self.check_and_count_programs(ppn, 1)?;
        self.set_or_check_kind_of_block(block, oob.kind, ppn);
        self.store_page(ppn, &oob, &content);
        Ok(())
    }

    fn program_page_marked_lost(&mut self, ppn: Ppn, oob: Oob, spare: &[u8]) -> Result<(), NandError> {
        let mut page = vec![0; self.geometry.page_bytes as usize];
        page.extend_from_slice(spare);
        self.program(ppn, oob, Content::Bytes(&page))?;
        self.damaged_pages.insert(ppn.0, PageDamage::Lost);
        Ok(())
    }

    fn read_spare(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError> {
        let block = self.block_of_programmed_page(ppn);
        self.require_readable_spare(ppn, block)?;
        if !into.is_empty() {
            let page_bytes = self.geometry.page_bytes as usize;
            let mut page = vec![0; page_bytes + into.len()];
            self.read_bytes(self.page_location(ppn), &mut page);
            into.copy_from_slice(&page[page_bytes..]);
        }
        Ok(self.oob_of(ppn, block))
    }

    fn pages_programmed_with_lost_mark(&self) -> Vec<Ppn> {
        let lost = self.damaged_pages.iter().filter(|&(_, damage)| *damage == PageDamage::Lost);
        lost.map(|(&ppn, _)| Ppn(ppn)).collect()
    }

    /// Programs consecutive pages; the programming rules of NAND are checked once per call instead of once per page.
    #[inline]
    fn program_consecutive_pages(&mut self, run: ConsecutivePrograms<'_>) -> (usize, Result<(), NandError>) {
        let block = match self.check_and_count_programs(run.first_page, run.owners.len() as u32) {
            Ok(block) => block,
            Err(error) => return (0, Err(error)),
        };
        self.set_or_check_kind_of_block(block, PageKind::Data, run.first_page);
        self.page_owners.set_consecutive(run.first_page.index(), run.owners.iter().map(|lpn| lpn.0));
        if !self.keeps_only_owners_of_data_pages {
            run.pages().for_each(|(ppn, oob)| {
                self.store_sequence_and_fingerprint(ppn, self.block_and_offset(ppn), &oob);
            });
        }
        (run.owners.len(), Ok(()))
    }

    #[inline]
    fn read(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError> {
        let block = self.block_of_programmed_page(ppn);
        self.require_readable(ppn, block)?;
        let oob = self.oob_of(ppn, block);
        if !into.is_empty() {
            let is_kept = self.read_bytes(self.page_location(ppn), into);
            assert!(
                is_kept || oob.kind.is_host_data(),
                "metadata page {ppn} is read, but the medium was told not to keep bytes of its kind (RetainedPageFields)"
            );
        }
        Ok(oob)
    }

    fn read_page_in_place(
        &mut self,
        ppn: Ppn,
        page: &mut [u8],
        look: &mut dyn FnMut(&[u8]),
    ) -> Result<(), NandError> {
        let place = self.location_of_programmed_page(ppn);
        self.require_readable(ppn, place.block as usize)?;
        let is_kept = self.page_payloads.read_page_in_place(place, page, look);
        assert!(
            is_kept,
            "metadata page {ppn} is read, but the medium was told not to keep bytes of its kind (RetainedPageFields)"
        );
        Ok(())
    }

    #[inline]
    fn read_words(&mut self, ppn: Ppn, words: &mut [PageDataWord]) -> Result<(), NandError> {
        let place = self.location_of_programmed_page(ppn);
        self.require_readable(ppn, place.block as usize)?;
        let is_kept = self.page_payloads.read_words(place, words);
        assert!(
            is_kept,
            "metadata page {ppn} is read, but the medium was told not to keep bytes of its kind (RetainedPageFields)"
        );
        Ok(())
    }

    fn prefetch_page_words(&self, pages: &[(Ppn, usize)], words: &mut [PageDataWord]) {
        let mut rest = words;
        for pages in pages.chunks(TRANSLATION_PAGES_PER_PREFETCH) {
            let places: ArrayVec<_, TRANSLATION_PAGES_PER_PREFETCH> =
                pages.iter().map(|&(ppn, count)| (self.page_location(ppn), count)).collect();
            let row = |place: &PageLocation| &self.block_states[place.block as usize];
            load_into_cpu_cache(places.iter().map(|(place, _)| row(place).programmed_pages.into()));
            let (words, behind) = rest.split_at_mut(places.iter().map(|(_, count)| count).sum());
            self.page_payloads.prefetch_page_words(&places, words);
            rest = behind;
        }
    }

    fn program_changed_page(
        &mut self,
        ppn: Ppn,
        oob: Oob,
        base: Ppn,
        words: &[PageDataWord],
    ) -> Result<(), NandError> {
        let (place, base_place) = (self.page_location(ppn), self.location_of_programmed_page(base));
        let (block, page_offset) = (place.block as usize, place.page_offset);
        self.require_readable(base, base_place.block as usize)?;
        self.check_and_count_programs_at(place, 1)?;
        self.set_or_check_kind_of_block(block, oob.kind, ppn);
        self.page_owners.set(ppn.index(), oob.owner);
        self.store_sequence_and_fingerprint(ppn, (block, page_offset), &oob);
        self.page_payloads.store_changed_page(place, base_place, words);
        Ok(())
    }

    /// Copies pages into consecutive pages of a block; the programming rules of NAND are checked once per call instead
    /// of once per page.
    fn copy(&mut self, run: ConsecutiveCopies<'_>, _: &mut [u8]) -> (usize, Result<(), NandError>) {
        let Some(&last) = run.source_pages.last() else { return (0, Ok(())) };
        let source = self.block_of_programmed_page(last);
        let first = self.geometry.first_page(BlockId(source as u32));
        assert!(
            run.source_pages.iter().all(|ppn| (first..=last).contains(ppn)),
            "a run has one source block"
        );
        if let Some((k, error)) = self.first_unreadable_page(run.source_pages, source) {
            let readable = ConsecutiveCopies { source_pages: &run.source_pages[..k], ..run };
            return (self.copy(readable, &mut []).0, Err(error));
        }
        let block = match self.check_and_count_programs(run.first_destination, run.source_pages.len() as u32)
        {
            Ok(block) => block,
            Err(error) => return (0, Err(error)),
        };
        let kind = self.kind_of(last, source);
        self.set_or_check_kind_of_block(block, kind, run.first_destination);
        self.copy_oobs(&run);
        if self.keeps_bytes_of(kind) {
            self.copy_bytes(&run, kind);
        }
        (run.source_pages.len(), Ok(()))
    }

    fn probe_page(&mut self, ppn: Ppn) -> Result<Option<Oob>, NandError> {
        let (block, page_offset) = self.block_and_offset(ppn);
        assert!(self.block_states[block].health != BlockHealth::Bad, "probe of page {ppn} in a bad block");
        self.require_readable_spare(ppn, block)?;
        Ok((page_offset < self.block_states[block].programmed_pages as u32).then(|| self.oob_of(ppn, block)))
    }

    fn read_spares_and_retain_readable(&mut self, pages: &mut Vec<Ppn>) -> Result<(), NandError> {
        let Some(&first) = pages.first() else { return Ok(()) };
        let (block, page_offset) = self.block_and_offset(first);
        let row = &self.block_states[block];
        assert!(row.health != BlockHealth::Bad, "probe of pages in bad block {block}");
        let end = first.0 - page_offset + row.programmed_pages as u32;
        pages.retain(|&ppn| ppn.0 < end && self.require_readable_spare(ppn, block).is_ok());
        Ok(())
    }

    fn erase(&mut self, block: BlockId) -> Result<(), NandError> {
        let health = self.block_states[block.index()].health;
        assert!(
            !matches!(health, BlockHealth::Bad | BlockHealth::Condemned),
            "erase of block {block}: {health:?}"
        );
        let erases = self.block_states[block.index()].erase_count;
        let worn_out = self.wear_limits.get(block.index()).filter(|limit| erases >= limit.erase_cycles);
        let health = match worn_out.map(|limit| limit.failing_operation) {
            Some(WornBlockFailure::Erase) => return Err(NandError::EraseFailed(block)),
            Some(WornBlockFailure::Program) => BlockHealth::WornOut,
            None => BlockHealth::Good,
        };
        self.drop_block_data(block);
        self.block_states[block.index()].programmed_pages = 0;
        self.block_states[block.index()].kind = None;
        self.block_states[block.index()].health = health;
        self.block_states[block.index()].erase_count += 1;
        Ok(())
    }

    fn mark_program_failed(&mut self, block: BlockId) {
        self.block_states[block.index()].health = BlockHealth::Condemned;
    }

    fn has_failed_program(&self, block: BlockId) -> bool {
        self.block_states[block.index()].health == BlockHealth::Condemned
    }

    fn mark_bad(&mut self, block: BlockId) {
        self.drop_block_data(block);
        self.block_states[block.index()].health = BlockHealth::Bad;
    }

    #[inline]
    fn is_bad(&self, block: BlockId) -> bool {
        self.block_states[block.index()].health == BlockHealth::Bad
    }

    #[inline]
    fn erase_count(&self, block: BlockId) -> u32 {
        self.block_states[block.index()].erase_count
    }

    #[inline]
    fn programmed_pages(&self, block: BlockId) -> u32 {
        self.block_states[block.index()].programmed_pages as u32
    }

    #[inline]
    fn keeps_host_bytes(&self) -> bool {
        self.retained_page_fields.keeps_data_bytes
    }

    #[inline]
    fn keeps_bytes_of(&self, kind: PageKind) -> bool {
        self.retained_page_fields.keeps_data_bytes
            || !kind.is_host_data()
            || self.stores_only_nonzero_words(kind)
    }

    fn discard_bytes_of_metadata_pages(&mut self, pages: &[Ppn]) {
        for pages in pages.chunks(TRANSLATION_PAGES_PER_PREFETCH) {
            let places: ArrayVec<PageLocation, TRANSLATION_PAGES_PER_PREFETCH> =
                pages.iter().map(|&ppn| self.page_location(ppn)).collect();
            self.page_payloads.drop_bytes(&places);
        }
    }

    #[inline]
    fn oob_owner(&self, ppn: Ppn) -> u32 {
        self.page_owners.get(ppn.index())
    }

    fn oob_owners(&self, pages: &[Ppn], into: &mut Vec<Lpn>) {
        into.extend(self.page_owners.get_each(pages.iter().map(|ppn| ppn.index())).map(Lpn));
    }

    #[inline]
    fn prefetch_block(&self, block: BlockId) {
        let first = self.geometry.first_page(block).index();
        let owners =
            (first..first + self.geometry.block_pages() as usize).step_by(PAGE_OWNERS_PER_CACHE_LINE);
        let cycles = self.wear_limits.get(block.index()).map_or(0, |limit| limit.erase_cycles);
        let row = self.block_states[block.index()].erase_count;
        load_into_cpu_cache(self.page_owners.get_each(owners).chain([cycles, row]).map(u64::from));
    }

    #[inline]
    fn fingerprint(&self, ppn: Ppn) -> Fingerprint {
        if self.retained_page_fields.keeps_fingerprints {
            Fingerprint(self.page_fingerprints.get(ppn.index()))
        } else {
            Fingerprint::default()
        }
    }

    #[inline]
    fn nvram(&self) -> &[u64] {
        &self.nvram
    }

    #[inline]
    fn store_nvram_word(&mut self, index: usize, word: u64) -> Result<(), NandError> {
        self.nvram[index] = word;
        Ok(())
    }
}

impl FaultInjectable for SimNand {
    fn tear_program(&mut self, ppn: Ppn) {
        // A worn-out block refuses the program, but consumes the page too.
        let _ = self.check_and_count_programs(ppn, 1);
        self.damaged_pages.insert(ppn.0, PageDamage::Torn);
    }

    fn tear_erase(&mut self, block: BlockId) {
        self.block_states[block.index()].health = BlockHealth::HalfErased;
    }

    fn make_uncorrectable(&mut self, ppn: Ppn) {
        self.block_of_programmed_page(ppn);
        self.damaged_pages.entry(ppn.0).or_insert(PageDamage::Data);
    }
}
