//! Head and tail pages, in which a block describes itself, so that recovery need not read the OOB of every page.
//!
//! Source: Remap-SSD (Zhou et al., FAST 2021), sections 4.1 and 4.5 and figure 4. The first page of a block is its
//! *head* (kind of its pages, time of opening, erase count). It is programmed when the block is opened, before any
//! other page. The last pages are its *tail*: owner and sequence number of each page between, 12 bytes each. Both are
//! real pages, counted under [`Cause::BlockMetadata`], so they cost write amplification, wear and space.
//!
//! The tail of a full block is programmed when the next block is opened, not with the block's last page. So no data
//! page is being written if power is lost meanwhile, and a failed program of the tail affects no request. Until then
//! the block counts as closed without a tail, and recovery reads the OOB of its pages, as it does for open blocks and
//! for blocks that a failure ended.
//!
//! A tail belongs to the head whose sequence number it carries (as its generation), so that the tail from before the
//! block's last erase is never taken for the current one.
//!
//! Departures from the paper: the head is on the first plane of every superblock, not on plane `ID mod planes`, because
//! a superblock is programmed in page order here. Blocks of metadata (the log on flash) have heads and tails like
//! blocks of data, so that every block has room for the same number of pages.

use super::{FlashPageStore, Stream};
use crate::address::{BlockId, Ppn};
use crate::data::{Content, Fingerprint};
use crate::error::{Error, Result};
use crate::events::FtlEvent;
use crate::nand::{Geometry, Nand, NandError, Oob, PageKind};
use crate::operation::{Cause, OpKind};

/// Bytes that a tail page, at the end of a block, has for each page that it lists: owner (4) and sequence number (8).
pub const TAIL_PAGE_ENTRY_BYTES: u32 = 12;
/// Minimum number of data pages in a block: with a single one, collecting a block would free nothing.
const MIN_DATA_PAGES_PER_BLOCK: u32 = 2;
/// Value of the owner field in a tail page (list of the pages of a block) for a page that cannot be read; no page of
/// data or metadata has this owner.
const UNREADABLE_PAGE_OWNER: u32 = u32::MAX;

/// Division of a block into one head page, data pages and tail pages. Head and tail describe the block for recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadTailLayout {
    /// Number of pages of a block between its head page and its tail pages, which describe the block.
    pub data_pages: u32,
    /// Number of tail pages of a block, which list owner and sequence number of its data pages.
    pub tail_pages: u32,
}

impl HeadTailLayout {
    /// Number of head pages of a block; the head page describes the block.
    pub const HEAD_PAGES: u32 = 1;

    /// Returns the division of a block into head page, data pages and tail pages. There are as few tail pages as can
    /// list owner and sequence number of all data pages.
    ///
    /// # Errors
    /// [`Error::InvalidOptions`] if fewer than two data pages are left.
    pub fn of_geometry(geometry: &Geometry) -> Result<Self> {
        let block_pages = geometry.block_pages();
        let per_page = geometry.page_bytes / TAIL_PAGE_ENTRY_BYTES;
        let rest = block_pages.saturating_sub(Self::HEAD_PAGES);
        // The smallest t with t * per_page >= rest - t.
        let tail_pages = rest.div_ceil(per_page + 1);
        let data_pages = rest - tail_pages;
        if data_pages < MIN_DATA_PAGES_PER_BLOCK {
            return Err(Error::InvalidOptions(format!(
                "recovery.blocks=head-tail uses {} of the {block_pages} pages of a block for head and tail pages, \
                 which describe the block, and leaves {data_pages} for data, fewer than {MIN_DATA_PAGES_PER_BLOCK}: \
                 set device.pages_per_block to at least 4, or recovery.blocks=oob-scan",
                block_pages - data_pages
            )));
        }
        Ok(Self { data_pages, tail_pages })
    }
}

/// Content of a block's head page, which describes the block. Layout: sequence number of the opening (8 bytes), then
/// block number, kind of pages and erase count (4 bytes each).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HeadPage {
    /// Number of the block.
    pub(crate) block: BlockId,
    /// Kind of the pages of the block between head and tail pages.
    pub(crate) kind: PageKind,
    /// Sequence number of the program of the block's head page itself: the time at which the block was opened.
    pub(crate) head_program_sequence: u64,
    /// Number of erases of the block before it was opened.
    pub(crate) erase_count: u32,
}

impl HeadPage {
    /// Writes the description of the block to the beginning of `page`, which becomes the head page: the first page of
    /// the block.
    fn encode(&self, page: &mut [u8]) {
        page.fill(0);
        page[..8].copy_from_slice(&self.head_program_sequence.to_le_bytes());
        page[8..12].copy_from_slice(&self.block.0.to_le_bytes());
        page[12..16].copy_from_slice(&self.kind.block_kind_code().to_le_bytes());
        page[16..20].copy_from_slice(&self.erase_count.to_le_bytes());
    }

    /// Decodes the content of a head page; `None` if the field with the kind of the block's pages has no valid value.
    fn decode(page: &[u8]) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"));
        let opened = u64::from_le_bytes(page[..8].try_into().expect("eight bytes"));
        Some(Self {
            block: BlockId(word(8)),
            kind: PageKind::from_block_kind_code(word(12))?,
            head_program_sequence: opened,
            erase_count: word(16),
        })
    }
}

/// Result of reading the head page of a block, which describes the block, in a recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeadPageReadResult {
    /// The head page, the first of the block, is erased, so the whole block is erased.
    Erased,
    /// The head page cannot be read; only the OOB of the block's other pages can describe the block.
    Unreadable,
    /// The head page is readable, with this content.
    Intact(HeadPage),
}

/// Owner and sequence number of a page, read from the tail pages at the end of its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TailEntry {
    /// Flash page that the entry describes.
    pub(crate) ppn: Ppn,
    /// Owner in the OOB of the page: its LPN, or its metadata page number.
    pub(crate) owner: u32,
    /// Sequence number of the program of the page.
    pub(crate) sequence_number: u64,
}

/// Content of all tail pages of a block: owner and sequence number of its data pages.
#[derive(Clone, Debug, Default)]
pub(crate) struct TailPages {
    /// Owner and sequence number of each readable page between the head page and the tail pages of the block.
    pub(crate) entries: Vec<TailEntry>,
    /// Largest sequence number with which a tail page of the block was programmed (not of the pages that the tail pages
    /// list).
    pub(crate) last_tail_page_sequence: u64,
}

impl FlashPageStore {
    /// Returns the number of pages of a block that can hold data or metadata: all, or those between the head page and
    /// the tail pages, which describe the block.
    #[inline]
    pub fn data_pages_per_block(&self) -> u32 {
        self.head_tail_layout.map_or(self.geometry.block_pages(), |parts| parts.data_pages)
    }

    /// Returns the first page of a block that can hold data or metadata: the block's first page, or the second if the
    /// first is a head page, which describes the block.
    pub(super) fn first_data_page(&self, block: BlockId) -> Ppn {
        let head_pages = if self.head_tail_layout.is_some() { HeadTailLayout::HEAD_PAGES } else { 0 };
        Ppn(self.geometry.first_page(block).0 + head_pages)
    }

    /// Returns the bytes of controller RAM for the contents of tail pages (lists of a block's pages) that are not
    /// written yet, of open blocks and of full ones; `None` if blocks have no tail pages.
    pub(crate) fn unwritten_tail_page_ram_bytes(&self) -> Option<u64> {
        let blocks =
            self.programmed_pages_of_open_blocks().count() + self.full_blocks_without_tail_pages.len();
        self.head_tail_layout
            .map(|parts| blocks as u64 * u64::from(parts.data_pages) * u64::from(TAIL_PAGE_ENTRY_BYTES))
    }

    /// Programs the head page of `block`, which describes the block, after it was opened for the write stream `stream`.
    /// Returns `false` if the program failed; the block is then condemned (to be retired) and closed.
    pub(super) fn write_head_page(
        &mut self,
        frontier_index: usize,
        stream: Stream,
        block: BlockId,
    ) -> Result<bool> {
        self.last_sequence += 1;
        let sequence = self.last_sequence;
        let kind = stream.kind();
        let mut page = vec![0; self.geometry.page_bytes as usize];
        let head = HeadPage {
            block,
            kind,
            head_program_sequence: sequence,
            erase_count: self.nand.erase_count(block),
        };
        head.encode(&mut page);
        let oob = Oob {
            kind: PageKind::BlockHead,
            owner: kind.block_kind_code(),
            sequence_number: sequence,
            first_write_sequence_number: sequence,
            fingerprint: Fingerprint::default(),
        };
        let is_programmed = self.program_head_or_tail_page(self.geometry.first_page(block), oob, &page)?;
        if !is_programmed {
            self.close_failed_open_block(frontier_index, block);
        }
        Ok(is_programmed)
    }

    /// Programs the tail pages (lists of a block's pages) of all full blocks that lack them. A block in which a program
    /// failed gets none, because it will be retired.
    pub(super) fn write_pending_tail_pages(&mut self) -> Result<()> {
        while let Some(block) = self.full_blocks_without_tail_pages.pop() {
            if !self.nand.has_failed_program(block) {
                self.write_tail_pages(block)?;
            }
        }
        Ok(())
    }

    /// Programs the tail pages of a full block, which list owner and sequence number of its pages, until a program
    /// fails.
    fn write_tail_pages(&mut self, block: BlockId) -> Result<()> {
        let Some(HeadTailLayout { data_pages, tail_pages }) = self.head_tail_layout else { return Ok(()) };
        let first = self.first_data_page(block);
        let Some(head) = self.oob_kept_in_controller_ram(self.geometry.first_page(block))? else {
            return Ok(());
        };
        let mut page = vec![0; self.geometry.page_bytes as usize];
        let per_page = self.geometry.page_bytes / TAIL_PAGE_ENTRY_BYTES;
        for number in 0..tail_pages {
            page.fill(0);
            let from = number * per_page;
            for (k, bytes) in (from..data_pages).zip(page.chunks_exact_mut(TAIL_PAGE_ENTRY_BYTES as usize)) {
                let found = self.oob_kept_in_controller_ram(Ppn(first.0 + k))?;
                let (owner, sequence) =
                    found.map_or((UNREADABLE_PAGE_OWNER, 0), |oob| (oob.owner, oob.sequence_number));
                bytes[..4].copy_from_slice(&owner.to_le_bytes());
                bytes[4..].copy_from_slice(&sequence.to_le_bytes());
            }
            self.last_sequence += 1;
            let oob = Oob {
                kind: PageKind::BlockTail,
                owner: number,
                sequence_number: self.last_sequence,
                first_write_sequence_number: head.sequence_number,
                fingerprint: Fingerprint::default(),
            };
            if !self.program_head_or_tail_page(Ppn(first.0 + data_pages + number), oob, &page)? {
                self.nand.mark_program_failed(block);
                break;
            }
        }
        Ok(())
    }

    /// Returns the OOB of a page whose block has no tail pages (lists of its OOBs) yet; `None` if the OOB is
    /// unreadable. A controller keeps these OOBs in RAM until the tail pages are written. So the simulated read of the
    /// OOB is not counted as a flash operation.
    fn oob_kept_in_controller_ram(&mut self, ppn: Ppn) -> Result<Option<Oob>> {
        match self.nand.probe_page(ppn) {
            Ok(found) => Ok(found),
            Err(NandError::Uncorrectable(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Programs a head or tail page (description of a block); returns `false` if the program failed.
    fn program_head_or_tail_page(&mut self, ppn: Ppn, oob: Oob, page: &[u8]) -> Result<bool> {
        let outcome = self.nand.program(ppn, oob, Content::Bytes(page));
        self.stats.programs[Cause::BlockMetadata as usize] += 1;
        self.record_operation(OpKind::Program, ppn, Cause::BlockMetadata);
        match outcome {
            Ok(()) => Ok(true),
            Err(NandError::ProgramFailed(_)) => Ok(false),
            Err(error) => {
                self.counter_audit.interrupted_operations += 1;
                Err(error.into())
            }
        }
    }

    /// Records that a full block needs its tail pages (list of the block's pages), which are written before the next
    /// block is opened.
    #[inline]
    pub(super) fn schedule_tail_program(&mut self, block: BlockId) {
        if self.head_tail_layout.is_some() {
            self.full_blocks_without_tail_pages.push(block);
        }
    }

    /// Removes an erased block from the list of full blocks that still need their tail pages (list of the block's
    /// pages).
    pub(super) fn drop_scheduled_tail(&mut self, block: BlockId) {
        let Some(HeadTailLayout { tail_pages, .. }) = self.head_tail_layout else { return };
        if let Some(at) = self.full_blocks_without_tail_pages.iter().position(|&due| due == block) {
            self.full_blocks_without_tail_pages.swap_remove(at);
            self.counter_audit.skipped_tail_pages += u64::from(tail_pages);
        }
    }

    /// Reads, during recovery, the head page (description) of a block that is not bad. Costs one page read.
    pub(crate) fn read_head_page(&mut self, block: BlockId) -> Result<HeadPageReadResult> {
        let ppn = self.geometry.first_page(block);
        let Some(oob) = self.read_head_or_tail_page(ppn)? else { return Ok(HeadPageReadResult::Erased) };
        let head = oob
            .filter(|oob| oob.kind == PageKind::BlockHead)
            .and_then(|_| HeadPage::decode(&self.page_buffer));
        Ok(head
            .filter(|head| head.block == block)
            .map_or(HeadPageReadResult::Unreadable, HeadPageReadResult::Intact))
    }

    /// Reads, during recovery, the tail pages of a block, which list owner and sequence number of its data pages. Costs
    /// one page read per tail page, up to the first that is missing. Returns `None` if a tail page is missing or
    /// unreadable, or if the tail does not belong to `head` because it is from before the last erase.
    pub(crate) fn read_tail_pages(&mut self, head: &HeadPage) -> Result<Option<TailPages>> {
        let Some(HeadTailLayout { data_pages, tail_pages }) = self.head_tail_layout else { return Ok(None) };
        let first = self.first_data_page(head.block);
        let per_page = self.geometry.page_bytes / TAIL_PAGE_ENTRY_BYTES;
        let mut tail = TailPages::default();
        for number in 0..tail_pages {
            let found = self.read_head_or_tail_page(Ppn(first.0 + data_pages + number))?.flatten();
            let belongs = |oob: &Oob| {
                oob.kind == PageKind::BlockTail
                    && oob.owner == number
                    && oob.first_write_sequence_number == head.head_program_sequence
            };
            let Some(oob) = found.filter(belongs) else { return Ok(None) };
            tail.last_tail_page_sequence = tail.last_tail_page_sequence.max(oob.sequence_number);
            let offsets = number * per_page..data_pages;
            for (k, bytes) in offsets
                .zip(self.page_buffer.chunks_exact(TAIL_PAGE_ENTRY_BYTES as usize).take(per_page as usize))
            {
                let (owner, sequence) = bytes.split_at(4);
                let entry = TailEntry {
                    ppn: Ppn(first.0 + k),
                    owner: u32::from_le_bytes(owner.try_into().expect("four bytes")),
                    sequence_number: u64::from_le_bytes(sequence.try_into().expect("eight bytes")),
                };
                tail.entries.extend((entry.owner != UNREADABLE_PAGE_OWNER).then_some(entry));
            }
        }
        Ok(Some(tail))
    }

    /// Reads into `self.page_buffer` a page that may be a head or tail page (description of its block). Returns `None`
    /// if the page is erased, `Some(None)` if it cannot be read or is of another kind. Always counts as one page read.
    #[expect(clippy::option_option, reason = "erased and unreadable are two answers of one read")]
    fn read_head_or_tail_page(&mut self, ppn: Ppn) -> Result<Option<Option<Oob>>> {
        self.stats.reads[Cause::Recovery as usize] += 1;
        self.flash_ops.record_event(|| FtlEvent::Read {
            ppn,
            cause: Cause::Recovery,
            reads_only_spare_area: false,
        });
        match self.nand.probe_page(ppn) {
            Ok(None) => return Ok(None),
            Ok(Some(oob)) if !oob.kind.is_head_or_tail() => return Ok(Some(None)),
            Ok(Some(_)) => {}
            Err(NandError::Uncorrectable(_)) => return Ok(Some(None)),
            Err(error) => return Err(error.into()),
        }
        let page_bytes = self.geometry.page_bytes as usize;
        match self.nand.read(ppn, &mut self.page_buffer[..page_bytes]) {
            Ok(oob) => Ok(Some(Some(oob))),
            Err(NandError::Uncorrectable(_)) => Ok(Some(None)),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the geometry of a device of one die whose blocks extend over all `planes` planes.
    fn geometry_of_one_die(planes: u32, pages_per_block: u32, page_bytes: u32) -> Geometry {
        Geometry {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: planes,
            blocks_per_plane: 8,
            pages_per_block,
            page_bytes,
            spare_bytes: 64,
            superblock_planes: planes,
        }
    }

    /// Example of the paper (Remap-SSD, section 5.1): superblocks of 16 blocks of 1,024 pages of 4 KiB have a tail of
    /// 48 pages, 0.3 %.
    #[test]
    fn the_superblock_of_remap_ssd_has_a_tail_of_48_pages() {
        let parts = HeadTailLayout::of_geometry(&geometry_of_one_die(16, 1024, 4096)).expect("it fits");
        assert_eq!(parts, HeadTailLayout { data_pages: 16384 - 1 - 48, tail_pages: 48 });
    }

    #[test]
    fn a_block_has_the_fewest_tail_pages_that_can_list_its_data_pages() {
        for (pages, bytes) in [(4, 512), (43, 512), (44, 512), (45, 512), (87, 512), (1000, 512), (64, 16384)]
        {
            let HeadTailLayout { data_pages, tail_pages } =
                HeadTailLayout::of_geometry(&geometry_of_one_die(1, pages, bytes)).expect("it fits");
            let per_page = bytes / TAIL_PAGE_ENTRY_BYTES;
            assert_eq!(1 + data_pages + tail_pages, pages);
            assert!(tail_pages * per_page >= data_pages, "{pages} pages of {bytes} bytes");
            assert!((tail_pages - 1) * per_page < data_pages + 1, "{pages} pages of {bytes} bytes");
        }
        assert!(
            HeadTailLayout::of_geometry(&geometry_of_one_die(1, 3, 512)).is_err(),
            "one page between head and tail"
        );
    }

    #[test]
    fn a_block_head_page_is_decoded_as_encoded() {
        let mut page = vec![0xff; 512];
        for kind in PageKind::BLOCK_KINDS {
            let head = HeadPage {
                block: BlockId(u32::MAX - 1),
                kind,
                head_program_sequence: u64::MAX,
                erase_count: 7,
            };
            head.encode(&mut page);
            assert_eq!(HeadPage::decode(&page), Some(head));
        }
    }
}
