//! Snapshot of the whole drive: the state of every flash page and block, and the location of every logical page.
//!
//! For programs that draw the drive or teach with it, and for tests. Validity is derived from the L2P table, not from
//! the controller's own page validity: a page that was overwritten is invalid here, even if a lazy map has not yet
//! identified it. The price: the whole map is read, translation pages on flash included. No operation is counted and no
//! state changes.

use std::collections::BTreeMap;

use crate::address::{BlockId, Lpn, OptionalAddress, Ppn, StoredUnit, is_flash_page};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::ftl::Ftl;
use crate::logical_page_form::LogicalPageForm;
use crate::nand::{Nand, NandError, Oob, PageKind};
use crate::store::{BlockState, Stream};

/// State of a flash page: free, valid, invalid, recyclable (invalid, but a write of equal content can revive it) or
/// torn (its program was interrupted).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum FlashPageState {
    /// The flash page was not programmed since the last erase of its block.
    #[default]
    Free,
    /// The flash page holds current data or metadata.
    Valid,
    /// The flash page holds no current data or metadata.
    Invalid,
    /// The flash page is invalid, but recycling still has its fingerprint: a write of equal content can make it valid
    /// again (Recyclable SSD).
    Recyclable,
    /// The program of the page was interrupted: even its spare area is unreadable.
    Torn,
}

impl FlashPageState {
    /// All states of a flash page, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Free, Self::Valid, Self::Invalid, Self::Recyclable, Self::Torn];

    /// Returns the name of the flash page's state in lower case, one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Valid => "valid",
            Self::Invalid => "invalid",
            Self::Recyclable => "recyclable",
            Self::Torn => "torn",
        }
    }
}

/// A flash page in a snapshot of the drive: its state, kind of data, and owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlashPage {
    /// State of the flash page: free, valid, invalid, recyclable (invalid, but can be revived) or torn (program
    /// interrupted).
    pub state: FlashPageState,
    /// Kind of data that the flash page holds; `None` if it is free or torn.
    pub kind: Option<PageKind>,
    /// Owner number in the flash page's spare area: the LPN for a page of data, or the number of the metadata page,
    /// depending on the [`PageKind`]. `None` if the page is free or torn.
    pub owner: Option<u32>,
    /// Number of logical pages mapped to this flash page: more than one if the page is shared or part of a compressed
    /// chunk.
    pub mapped_logical_pages: u32,
}

/// A block in a snapshot of the drive: its state, kind of data, valid pages, and erases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlashBlock {
    /// State of the block: free, open, closed, erasing or retired.
    pub state: BlockState,
    /// Kind of data that the block's pages hold, or held before it was erased or retired; `None` if the block is free.
    pub kind: Option<PageKind>,
    /// Stream of writes (host, GC, ...) that fills the block; `None` if the block is not open.
    pub stream: Option<Stream>,
    /// Number of valid pages in the block, without head and tail pages (which describe the block).
    pub valid_pages: u32,
    /// Number of programmed pages in the block.
    pub programmed_pages: u32,
    /// Erase count of the block.
    pub erases: u32,
}

/// Snapshot of a drive: the states of all flash pages and blocks, and the location of each logical page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlashStateView {
    /// All flash pages of the drive, by PPN.
    pub pages: Vec<FlashPage>,
    /// All blocks of the drive, by block number.
    pub blocks: Vec<FlashBlock>,
    /// For each LPN the flash page that holds its content, or the first one if the content extends over several (if
    /// stored as a delta: the base page). `None` if nothing is stored, or if the content is only in RAM.
    pub first_flash_page_of_lpn: Vec<Option<Ppn>>,
    /// Form in which each logical page is stored, by LPN: whole, shared, delta, compressed, or buffered.
    pub form_of_lpn: Vec<LogicalPageForm>,
    /// Flash pages that a read of the logical page needs in addition to the one in `first_flash_page_of_lpn`, by LPN:
    /// the page of its delta (none while the delta is in RAM), or the other pages of its compressed chunk. Logical
    /// pages without further pages have no entry.
    pub further_flash_pages_of_lpn: BTreeMap<Lpn, Vec<Ppn>>,
}

impl Ftl {
    /// Returns a snapshot of the states of all flash pages, blocks and logical pages. O(pages); costs no counted
    /// operation.
    ///
    /// # Errors
    /// Power loss, or a translation page that cannot be read.
    pub fn flash_view(&mut self) -> Result<FlashStateView> {
        let map = self.read_whole_map().map_err(Error::Damaged)?;
        let mut pages = self.flash_pages_from_spare_areas()?;
        self.count_mapped_logical_pages(&map, &mut pages);
        for (ppn, page) in (0..).map(Ppn).zip(&mut pages) {
            if page.state == FlashPageState::Invalid {
                page.state = self.state_of_programmed_page(ppn, page);
            }
        }
        self.mark_live_packed_pages(&mut pages);
        let blocks = self.describe_blocks(&pages);
        let (places, forms) = (0..)
            .map(Lpn)
            .zip(&map)
            .map(|(lpn, unit)| self.first_flash_page_and_form(lpn, unit.to_option()))
            .unzip();
        let further_places = self.further_flash_pages_by_lpn(&map);
        Ok(FlashStateView {
            pages,
            blocks,
            first_flash_page_of_lpn: places,
            form_of_lpn: forms,
            further_flash_pages_of_lpn: further_places,
        })
    }

    /// Returns the states of all flash pages as their spare areas show them: free, torn (program interrupted), or
    /// programmed. Programmed pages are marked invalid until the L2P table shows otherwise.
    fn flash_pages_from_spare_areas(&mut self) -> Result<Vec<FlashPage>> {
        let geometry = self.store.geometry().clone();
        let mut pages = vec![FlashPage::default(); geometry.pages() as usize];
        for block in (0..geometry.blocks()).map(BlockId) {
            if self.store.nand().is_bad(block) {
                continue;
            }
            let first = geometry.first_page(block);
            for ppn in (first.0..first.0 + geometry.block_pages()).map(Ppn) {
                pages[ppn.index()] = match self.store.nand_mut().probe_page(ppn) {
                    Ok(None) => FlashPage::default(),
                    Ok(Some(Oob { kind, owner, .. })) => FlashPage {
                        state: FlashPageState::Invalid,
                        kind: Some(kind),
                        owner: Some(owner),
                        mapped_logical_pages: 0,
                    },
                    Err(NandError::Uncorrectable(_)) => {
                        FlashPage { state: FlashPageState::Torn, ..FlashPage::default() }
                    }
                    Err(error) => return Err(error.into()),
                };
            }
        }
        Ok(pages)
    }

    /// Adds to each flash page in `pages` the number of logical pages that `map`, the L2P table, maps to this page.
    fn count_mapped_logical_pages(&self, map: &[StoredUnit], pages: &mut [FlashPage]) {
        let physical_pages = self.store.geometry().pages();
        for unit in map.iter().filter_map(|unit| unit.to_option()) {
            match &self.compression {
                Some(stage) if !is_flash_page(unit, physical_pages) => {
                    stage
                        .chunk_pages_of_member(unit)
                        .iter()
                        .for_each(|ppn| pages[ppn.index()].mapped_logical_pages += 1);
                }
                _ => pages[unit.0 as usize].mapped_logical_pages += 1,
            }
        }
    }

    /// Returns the state of a programmed flash page: valid, recyclable or invalid. Does not find the state of pages of
    /// deltas and compressed chunks ([`Self::mark_live_packed_pages`] does).
    fn state_of_programmed_page(&self, ppn: Ppn, page: &FlashPage) -> FlashPageState {
        let owns = |stream| page.owner.is_some_and(|owner| self.is_current_metadata_page(stream, owner, ppn));
        let is_valid = match page.kind {
            Some(PageKind::Data) => page.mapped_logical_pages > 0,
            Some(PageKind::Translation) => owns(Stream::Translation),
            Some(PageKind::RemapLog) => owns(Stream::RemapLog),
            Some(PageKind::Validity) => owns(Stream::Validity),
            Some(PageKind::BlockHead | PageKind::BlockTail) => true,
            Some(PageKind::Delta | PageKind::Chunk) | None => false,
        };
        let is_remembered = || self.recycle.as_ref().is_some_and(|stage| stage.recycler.is_dead(ppn));
        match is_valid {
            true => FlashPageState::Valid,
            false if is_remembered() => FlashPageState::Recyclable,
            false => FlashPageState::Invalid,
        }
    }

    /// Marks flash pages of deltas and compressed chunks as valid if the delta table or the chunk directory still uses
    /// them.
    fn mark_live_packed_pages(&self, pages: &mut [FlashPage]) {
        let blocks = self.store.blocks();
        let is_packed = |&block: &BlockId| {
            let in_use = matches!(blocks.state(block), BlockState::Open | BlockState::Closed);
            in_use && matches!(blocks.kind(block), PageKind::Delta | PageKind::Chunk)
        };
        for block in (0..blocks.len()).map(BlockId).filter(is_packed) {
            for ppn in self.live_delta_or_chunk_pages(block) {
                pages[ppn.index()].state = FlashPageState::Valid;
            }
        }
    }

    /// Returns the state of every block, with the counts of its pages; `pages` are the states of all flash pages.
    fn describe_blocks(&self, pages: &[FlashPage]) -> Vec<FlashBlock> {
        let (blocks, geometry) = (self.store.blocks(), self.store.geometry());
        let mut streams = vec![None; blocks.len() as usize];
        for (stream, block) in self.store.open_blocks_by_stream() {
            streams[block.index()] = Some(stream);
        }
        let describes =
            |page: &FlashPage| matches!(page.kind, Some(PageKind::BlockHead | PageKind::BlockTail));
        let view = |block: BlockId| {
            let first = geometry.first_page(block).index();
            let pages = &pages[first..first + geometry.block_pages() as usize];
            let count = |is: &dyn Fn(&FlashPage) -> bool| pages.iter().filter(|page| is(page)).count() as u32;
            let state = blocks.state(block);
            FlashBlock {
                state,
                kind: (state != BlockState::Free).then(|| blocks.kind(block)),
                stream: streams[block.index()],
                valid_pages: count(&|page| page.state == FlashPageState::Valid && !describes(page)),
                programmed_pages: count(&|page| page.state != FlashPageState::Free),
                erases: self.store.nand().erase_count(block),
            }
        };
        (0..blocks.len()).map(BlockId).map(view).collect()
    }

    /// Returns, for each logical page that is stored in several flash pages, all of these flash pages except the first.
    fn further_flash_pages_by_lpn(&self, map: &[StoredUnit]) -> BTreeMap<Lpn, Vec<Ppn>> {
        let mut further = BTreeMap::new();
        if let Some(stage) = &self.delta {
            further.extend(stage.current_deltas_on_flash().map(|(lpn, ppn)| (lpn, vec![ppn])));
        }
        let Some(stage) = &self.compression else { return further };
        for (lpn, unit) in (0..).map(Lpn).zip(map) {
            if let Some(unit) =
                unit.to_option().filter(|&unit| !is_flash_page(unit, self.store.geometry().pages()))
                && let [_, others @ ..] = stage.chunk_pages_of_member(unit)
                && !others.is_empty()
            {
                further.entry(lpn).or_insert_with(Vec::new).extend(others);
            }
        }
        further
    }

    /// Returns the first flash page that holds the content of `lpn`, and the form in which the content is stored.
    /// `unit` is the page or chunk member to which `lpn` is mapped.
    fn first_flash_page_and_form(
        &self,
        lpn: Lpn,
        unit: Option<StoredUnit>,
    ) -> (Option<Ppn>, LogicalPageForm) {
        let place = unit.map(|unit| match &self.compression {
            Some(stage) if !is_flash_page(unit, self.store.geometry().pages()) => {
                stage.chunk_pages_of_member(unit)[0]
            }
            _ => Ppn(unit.0),
        });
        (
            place,
            if self.is_buffered_for_chunk(lpn) {
                LogicalPageForm::BufferedInRam
            } else {
                self.form_of_map_entry(lpn, unit)
            },
        )
    }
}

impl Device {
    /// Returns a snapshot of the drive: the states of all flash pages and blocks, and the location of each logical page
    /// ([`Ftl::flash_view`]). Logical pages in the write buffer are marked [`LogicalPageForm::BufferedInRam`].
    ///
    /// # Errors
    /// The errors of [`Ftl::flash_view`].
    pub fn flash_view(&mut self) -> Result<FlashStateView> {
        let mut view = self.ftl_mut().flash_view()?;
        for (lpn, form) in (0..).map(Lpn).zip(&mut view.form_of_lpn) {
            if self.is_buffered(lpn) {
                *form = LogicalPageForm::BufferedInRam;
            }
        }
        Ok(view)
    }
}
