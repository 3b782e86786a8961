//! What is on the flash now: every page, every block, and the place of every logical page.
//!
//! For whoever draws the drive, teaches with it, or tests a mechanism from outside. The map is asked, not what the
//! controller remembers of it: a page that a lazy map has replaced is invalid here, also while the controller has not found
//! out. The price: all of the map is read, pages of it on flash included. No operation is counted and nothing changes.

use crate::address::{Address, BlockId, Lpn, Ppn, Unit, is_page};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::ftl::Ftl;
use crate::nand::{Nand, NandError, Oob, PageKind};
use crate::page_state::PageState;
use crate::store::{BlockState, Stream};

/// What a flash page is worth.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum FlashPageState {
    /// Not programmed since the last erase.
    #[default]
    Free,
    /// Somebody needs it.
    Valid,
    /// Nobody needs it.
    Invalid,
    /// Invalid, and remembered by its content: an equal write may take it back (Recyclable SSD).
    Recyclable,
    /// Its program was torn: not even its spare area can be read.
    Torn,
}

impl FlashPageState {
    /// All states, by their number.
    pub const ALL: [Self; 5] = [Self::Free, Self::Valid, Self::Invalid, Self::Recyclable, Self::Torn];

    /// In one word.
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

/// A flash page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlashPage {
    /// What it is worth.
    pub state: FlashPageState,
    /// What it holds, if it can be told.
    pub kind: Option<PageKind>,
    /// The owner that its spare area names ([`PageKind`] says what of).
    pub owner: Option<u32>,
    /// Logical pages whose content it holds, all or a part of it: more than one where it is shared or packed.
    pub logical_pages: u32,
}

/// A block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlashBlock {
    /// Its place in the cycle of a block.
    pub state: BlockState,
    /// What its pages hold, unless it is free.
    pub kind: Option<PageKind>,
    /// The stream that fills it, if it is open.
    pub stream: Option<Stream>,
    /// Pages of it that are valid, without those that describe it.
    pub valid_pages: u32,
    /// Pages of it that are programmed.
    pub programmed_pages: u32,
    /// Erases it has had.
    pub erases: u32,
}

/// The drive as it is now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlashView {
    /// By PPN.
    pub pages: Vec<FlashPage>,
    /// By number.
    pub blocks: Vec<FlashBlock>,
    /// Of each logical page the first flash page that holds its content (of a delta, its base), if there is one.
    pub places: Vec<Option<Ppn>>,
    /// Of each logical page the form in which it is stored.
    pub forms: Vec<PageState>,
}

impl<N: Nand> Ftl<N> {
    /// What is on the flash now. O(pages); costs no counted operation.
    ///
    /// # Errors
    /// Loss of power, a translation page that cannot be read.
    pub fn flash_view(&mut self) -> Result<FlashView> {
        let map = self.whole_map().map_err(Error::Damaged)?;
        let mut pages = self.pages_by_spare_areas()?;
        self.count_logical_pages(&map, &mut pages);
        for (ppn, page) in (0..).map(Ppn).zip(&mut pages) {
            if page.state == FlashPageState::Invalid {
                page.state = self.worth_of(ppn, page);
            }
        }
        self.find_packed_pages(&mut pages);
        let blocks = self.view_blocks(&pages);
        let (places, forms) =
            (0..).map(Lpn).zip(&map).map(|(lpn, unit)| self.view_logical(lpn, unit.some())).unzip();
        Ok(FlashView { pages, blocks, places, forms })
    }

    /// The pages by what their spare areas say: free, torn, or invalid until somebody is found who needs them.
    fn pages_by_spare_areas(&mut self) -> Result<Vec<FlashPage>> {
        let geometry = self.store.geometry().clone();
        let mut pages = vec![FlashPage::default(); geometry.pages() as usize];
        for block in (0..geometry.blocks()).map(BlockId) {
            if self.store.nand().is_bad(block) {
                continue;
            }
            let first = geometry.first_page(block);
            for ppn in (first.0..first.0 + geometry.block_pages()).map(Ppn) {
                pages[ppn.index()] = match self.store.nand_mut().probe(ppn) {
                    Ok(None) => FlashPage::default(),
                    Ok(Some(Oob { kind, owner, .. })) => FlashPage {
                        state: FlashPageState::Invalid,
                        kind: Some(kind),
                        owner: Some(owner),
                        logical_pages: 0,
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

    fn count_logical_pages(&self, map: &[Unit], pages: &mut [FlashPage]) {
        let physical_pages = self.store.geometry().pages();
        for unit in map.iter().filter_map(|unit| unit.some()) {
            match &self.chunks {
                Some(stage) if !is_page(unit, physical_pages) => {
                    stage.pages_of(unit).iter().for_each(|ppn| pages[ppn.index()].logical_pages += 1);
                }
                _ => pages[unit.0 as usize].logical_pages += 1,
            }
        }
    }

    /// What a page is worth that is programmed, but for those of packed content.
    fn worth_of(&self, ppn: Ppn, page: &FlashPage) -> FlashPageState {
        let owns = |stream| page.owner.is_some_and(|owner| self.owns_metadata(stream, owner, ppn));
        let is_valid = match page.kind {
            Some(PageKind::Data) => page.logical_pages > 0,
            Some(PageKind::Translation) => owns(Stream::Translation),
            Some(PageKind::RemapLog) => owns(Stream::RemapLog),
            Some(PageKind::Validity) => owns(Stream::Validity),
            Some(PageKind::Head | PageKind::Tail) => true,
            Some(PageKind::Delta | PageKind::Chunk) | None => false,
        };
        let is_remembered = || self.recycle.as_ref().is_some_and(|stage| stage.part.is_dead(ppn));
        match is_valid {
            true => FlashPageState::Valid,
            false if is_remembered() => FlashPageState::Recyclable,
            false => FlashPageState::Invalid,
        }
    }

    /// Pages of deltas and of chunks are needed if the tables of their mechanisms say so.
    fn find_packed_pages(&self, pages: &mut [FlashPage]) {
        let blocks = self.store.blocks();
        let is_packed = |&block: &BlockId| {
            let in_use = matches!(blocks.state(block), BlockState::Open | BlockState::Closed);
            in_use && matches!(blocks.kind(block), PageKind::Delta | PageKind::Chunk)
        };
        for block in (0..blocks.len()).map(BlockId).filter(is_packed) {
            for ppn in self.packed_pages(block) {
                pages[ppn.index()].state = FlashPageState::Valid;
            }
        }
    }

    fn view_blocks(&self, pages: &[FlashPage]) -> Vec<FlashBlock> {
        let (blocks, geometry) = (self.store.blocks(), self.store.geometry());
        let mut streams = vec![None; blocks.len() as usize];
        for (stream, block) in self.store.open_streams() {
            streams[block.index()] = Some(stream);
        }
        let describes = |page: &FlashPage| matches!(page.kind, Some(PageKind::Head | PageKind::Tail));
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

    fn view_logical(&self, lpn: Lpn, unit: Option<Unit>) -> (Option<Ppn>, PageState) {
        let place = unit.map(|unit| match &self.chunks {
            Some(stage) if !is_page(unit, self.store.geometry().pages()) => stage.pages_of(unit)[0],
            _ => Ppn(unit.0),
        });
        (place, if self.is_pending(lpn) { PageState::Waiting } else { self.form_at(lpn, unit) })
    }
}

impl<N: Nand> Device<N> {
    /// [`Ftl::flash_view`]; a logical page that is in the write buffer waits there.
    ///
    /// # Errors
    /// As [`Ftl::flash_view`].
    pub fn flash_view(&mut self) -> Result<FlashView> {
        let mut view = self.ftl_mut().flash_view()?;
        for (lpn, form) in (0..).map(Lpn).zip(&mut view.forms) {
            if self.is_buffered(lpn) {
                *form = PageState::Waiting;
            }
        }
        Ok(view)
    }
}
