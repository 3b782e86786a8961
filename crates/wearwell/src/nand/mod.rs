//! The flash medium: what the FTL may assume of it, and which operations it refuses.
//!
//! [`Nand`] is what the engine may assume of flash. The rules are those of real parts. The model enforces them by
//! panicking, because a violation is a bug of the FTL and never a condition to handle:
//!
//! - pages of a block are programmed in order, each once between erases;
//! - an erased page is not read (except by [`Nand::probe_page`], for recovery);
//! - a bad block is neither programmed nor erased, nor is one that was condemned after a failed program;
//! - the OOB is written once, together with its page.
//!
//! What can happen to correct code is a [`NandError`]: a failed program or erase, an uncorrectable page, and loss of
//! power. The spare area of a page has an error correcting code of its own: damage makes the data of a page
//! uncorrectable and leaves its OOB readable; a torn program leaves neither readable. After [`NandError::PowerLost`]
//! the interrupted page may be unprogrammed, complete or unreadable; the interrupted block may be untouched, erased, or
//! unreadable until erased again. Recovery may rely on nothing else.
//!
//! A medium may have non-volatile RAM in addition to the flash ([`Nand::nvram`]). It belongs to the medium because
//! power is lost for both at the same moment, and a test that cuts power has to count the operations of both in one
//! order.
//!
//! The engine runs on an [`AnyNand`]. Wrappers ([`FaultyNand`], [`PowerCutNand`], [`RecordingNand`]) add faults, cuts and
//! a log around any medium.

/// The methods of [`Nand`] that every wrapper passes to the inner medium unchanged: queries and state changes that are
/// not flash operations.
macro_rules! delegate_queries {
    ($self:ident => $inner:expr) => {
        fn geometry(&$self) -> &crate::nand::Geometry {
            $inner.geometry()
        }
        fn mark_program_failed(&mut $self, block: BlockId) {
            $inner.mark_program_failed(block);
        }
        fn has_failed_program(&$self, block: BlockId) -> bool {
            $inner.has_failed_program(block)
        }
        fn mark_bad(&mut $self, block: BlockId) {
            $inner.mark_bad(block);
        }
        fn is_bad(&$self, block: BlockId) -> bool {
            $inner.is_bad(block)
        }
        fn erase_count(&$self, block: BlockId) -> u32 {
            $inner.erase_count(block)
        }
        fn programmed_pages(&$self, block: BlockId) -> u32 {
            $inner.programmed_pages(block)
        }
        fn prefetch_page_words(&$self, pages: &[(Ppn, usize)], words: &mut [crate::nand::PageDataWord]) {
            $inner.prefetch_page_words(pages, words);
        }
        fn keeps_host_bytes(&$self) -> bool {
            $inner.keeps_host_bytes()
        }
        fn keeps_bytes_of(&$self, kind: crate::nand::PageKind) -> bool {
            $inner.keeps_bytes_of(kind)
        }
        fn discard_bytes_of_metadata_pages(&mut $self, pages: &[Ppn]) {
            $inner.discard_bytes_of_metadata_pages(pages);
        }
        fn oob_owner(&$self, ppn: Ppn) -> u32 {
            $inner.oob_owner(ppn)
        }
        fn pages_programmed_with_lost_mark(&$self) -> Vec<Ppn> {
            $inner.pages_programmed_with_lost_mark()
        }
        fn fingerprint(&$self, ppn: Ppn) -> crate::data::Fingerprint {
            $inner.fingerprint(ppn)
        }
        fn nvram(&$self) -> &[u64] {
            $inner.nvram()
        }
        fn sync(&mut $self) -> Result<(), crate::nand::NandError> {
            $inner.sync()
        }
        fn fence(&mut $self) -> Result<(), crate::nand::NandError> {
            $inner.fence()
        }
        fn does_erase_order_operations(&$self) -> bool {
            $inner.does_erase_order_operations()
        }
    };
}

/// The methods of [`Nand`] that a wrapper passes to the inner medium unchanged if it changes programs and erases only:
/// reads, and stores to NVRAM.
macro_rules! delegate_reads_and_nvram_stores {
    ($self:ident => $inner:expr) => {
        fn read(&mut $self, ppn: Ppn, into: &mut [u8]) -> Result<crate::nand::Oob, crate::nand::NandError> {
            $inner.read(ppn, into)
        }
        fn read_spare(&mut $self, ppn: Ppn, into: &mut [u8]) -> Result<crate::nand::Oob, crate::nand::NandError> {
            $inner.read_spare(ppn, into)
        }
        fn read_words(
            &mut $self,
            ppn: Ppn,
            words: &mut [crate::nand::PageDataWord],
        ) -> Result<(), crate::nand::NandError> {
            $inner.read_words(ppn, words)
        }
        fn probe_page(&mut $self, ppn: Ppn) -> Result<Option<crate::nand::Oob>, crate::nand::NandError> {
            $inner.probe_page(ppn)
        }
        fn store_nvram_word(&mut $self, index: usize, word: u64) -> Result<(), crate::nand::NandError> {
            $inner.store_nvram_word(index, word)
        }
    };
}

/// Implements [`FaultInjectable`] for a wrapper: the inner medium gets the faults.
macro_rules! delegate_injected_faults {
    ($wrapper:ident: $inner:ident) => {
        impl crate::nand::FaultInjectable for $wrapper {
            fn tear_program(&mut self, ppn: Ppn) {
                self.$inner.tear_program(ppn);
            }
            fn tear_erase(&mut self, block: BlockId) {
                self.$inner.tear_erase(block);
            }
            fn make_uncorrectable(&mut self, ppn: Ppn) {
                self.$inner.make_uncorrectable(ppn);
            }
        }
    };
}

mod any;
mod faulty;
mod frames;
mod geometry;
mod packed;
mod payloads;
mod power_cut;
pub mod preset;
mod recording;
mod sequence_numbers;
mod sim;

pub use any::{AnyNand, BoxedNand};
pub use faulty::{FaultProbabilities, FaultyNand};
pub use geometry::{FlashTiming, Geometry, GeometryError, PLANES_MAX};
pub use power_cut::{CutOutcome, PowerCutNand};
pub use recording::{RecordedOp, RecordingNand};
pub use sim::{RetainedPageFields, SimNand, WearLimit, WornBlockFailure};

use crate::address::{BlockId, Lpn, Ppn};
use crate::data::{Content, ContentDescriptor, Fingerprint};

/// Kind of content of a flash page. It also determines what the owner in the page's OOB is: an LPN, or the number of a
/// metadata page. All pages of a block have one kind, except its head and tail pages, which describe the block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PageKind {
    /// Host data; the OOB owner is the LPN for which the page was written.
    Data,
    /// A page of the logical-to-physical table; the OOB owner is the translation page number.
    Translation,
    /// A page with a directory and the deltas that it lists: differences between two versions of a logical page, for
    /// several logical pages. The OOB owner is the number of deltas.
    Delta,
    /// A flash page with logical pages that were compressed together as one chunk; the OOB owner is the chunk number.
    Chunk,
    /// A page of the log of remaps on flash. A remap changes the L2P map without a program, and the log records it for
    /// recovery. The OOB owner is the number of the page in the log.
    RemapLog,
    /// A page of the metadata on flash that records which pages are valid; the OOB owner is the number of the bitmap
    /// page, log page or run.
    Validity,
    /// First page of a block, which describes the block: kind of its pages, time of opening, erase count. The OOB owner
    /// of such a page is the number that stands for the kind of pages in the block.
    BlockHead,
    /// One of the last pages of a block, which together list the OOB of all its pages. The OOB owner is the number of
    /// the tail page within the block. The OOB generation is the sequence number of the block's head page, so that a
    /// tail page is matched with the head written after the same erase.
    BlockTail,
}

impl PageKind {
    /// Kinds of pages that can fill a block. The order gives the numbers by which head pages store them.
    pub(crate) const BLOCK_KINDS: [Self; 6] =
        [Self::Data, Self::Translation, Self::Delta, Self::Chunk, Self::RemapLog, Self::Validity];

    /// Returns the number by which the head page of a block stores this kind of page.
    pub(crate) fn block_kind_code(self) -> u32 {
        Self::BLOCK_KINDS
            .iter()
            .position(|&kind| kind == self)
            .expect("a block consists of pages of this kind") as u32
    }

    /// Returns the kind of page that a block's head page stores as this number; `None` if the number is unknown.
    pub(crate) fn from_block_kind_code(number: u32) -> Option<Self> {
        Self::BLOCK_KINDS.get(number as usize).copied()
    }

    /// All kinds of pages. The kinds that describe their block (head, tail) are last.
    pub const ALL: [Self; 8] = [
        Self::Data,
        Self::Translation,
        Self::Delta,
        Self::Chunk,
        Self::RemapLog,
        Self::Validity,
        Self::BlockHead,
        Self::BlockTail,
    ];

    /// Returns the name of the kind of page: lower case, words joined by `-`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Translation => "translation",
            Self::Delta => "delta",
            Self::Chunk => "chunk",
            Self::RemapLog => "remap-log",
            Self::Validity => "validity",
            Self::BlockHead => "head",
            Self::BlockTail => "tail",
        }
    }

    /// Returns whether pages of this kind are head or tail pages, which describe the block that contains them.
    #[inline]
    pub fn is_head_or_tail(self) -> bool {
        matches!(self, PageKind::BlockHead | PageKind::BlockTail)
    }

    /// Returns whether a page of this kind holds the data of several logical pages (as deltas, or compressed together)
    /// and also stores a list of these logical pages.
    #[inline]
    pub fn packs_logical_pages(self) -> bool {
        matches!(self, PageKind::Delta | PageKind::Chunk)
    }

    /// Returns whether pages of this kind hold host data, whose bytes a simulation may drop. Bytes of metadata are
    /// always kept.
    #[inline]
    pub fn is_host_data(self) -> bool {
        match self {
            PageKind::Data | PageKind::Delta | PageKind::Chunk => true,
            PageKind::Translation
            | PageKind::RemapLog
            | PageKind::Validity
            | PageKind::BlockHead
            | PageKind::BlockTail => false,
        }
    }
}

/// Out-of-band area (OOB, in the spare area) of a page: written together with the page, never changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Oob {
    /// Kind of content of the page that has this OOB.
    pub kind: PageKind,
    /// Owner of the page that has this OOB: an LPN for data, or the number of the metadata page, depending on `kind`.
    pub owner: u32,
    /// Sequence number of the program that wrote the page, counted over the life of the device: of two pages with the
    /// same owner, the one with the greater number is newer.
    pub sequence_number: u64,
    /// Sequence number of the program that first wrote the page's content. GC copies of the page keep it, whereas each
    /// copy has a sequence number of its own.
    pub first_write_sequence_number: u64,
    /// Fingerprint (hash) of the page's content.
    pub fingerprint: Fingerprint,
}

/// Failures of the flash medium. They can happen although the FTL makes no mistake, so every caller has to handle them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NandError {
    /// A page program failed. The page cannot be programmed again before an erase, and its block should be retired.
    #[error("the program of flash page {0} failed, so its block is bad and must be retired")]
    ProgramFailed(Ppn),
    /// A block erase failed; the block is unusable from now on.
    #[error("the erase of block {0} failed, so the block is bad and must be retired")]
    EraseFailed(BlockId),
    /// The page cannot be read: torn by a power cut or damaged beyond correction.
    #[error(
        "flash page {0} is uncorrectable, so its data cannot be read and must be written again or restored from a copy"
    )]
    Uncorrectable(Ppn),
    /// Power is lost. Every operation fails until power is restored and the device is recovered.
    #[error("power is lost: restore power and recover the device before further requests")]
    PowerLost,
}

/// A word of four bytes of the data of a flash page or of its spare area, with its position in the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageDataWord {
    /// Position of the four bytes in the page, in words of four bytes. The spare area follows the page.
    pub word_index: u32,
    /// Four bytes of the page at this position, as a little-endian number.
    pub word_value: u32,
}

impl PageDataWord {
    /// Reads the four bytes at word index `word_index` of `bytes`, the content of a page.
    #[inline]
    pub fn read_from(bytes: &[u8], word_index: u32) -> Self {
        let at = word_index as usize * size_of::<u32>();
        let value = bytes[at..at + size_of::<u32>()].try_into().expect("a word has four bytes");
        Self { word_index, word_value: u32::from_le_bytes(value) }
    }

    /// Writes this word of four bytes into `bytes`, the content of a page. Returns the word that was there before.
    #[inline]
    #[expect(clippy::return_self_not_must_use, reason = "most callers only put the word there")]
    pub fn swap_into_page(self, bytes: &mut [u8]) -> Self {
        let old = Self::read_from(bytes, self.word_index);
        bytes[self.byte_range()].copy_from_slice(&self.word_value.to_le_bytes());
        old
    }

    /// Returns the range of bytes that the word occupies in its page.
    #[inline]
    pub fn byte_range(self) -> std::ops::Range<usize> {
        let at = self.word_index as usize * size_of::<u32>();
        at..at + size_of::<u32>()
    }
}

/// Request to the flash medium to copy pages into consecutive pages of one block, as GC does.
#[derive(Clone, Copy, Debug)]
pub struct ConsecutiveCopies<'a> {
    /// Source pages of the copy, all in one block, ascending.
    pub source_pages: &'a [Ppn],
    /// Logical page to be stored as owner in the OOB of each page that is programmed.
    pub owners: &'a [Lpn],
    /// Page into which the first source page is copied. The other copies follow it in the block.
    pub first_destination: Ppn,
    /// Sequence number of the program of the first copy. The numbers of the other copies follow it.
    pub first_sequence: u64,
}

/// Request to program host pages into consecutive pages of an open block, without content: only their owners (LPNs) are
/// kept.
#[derive(Clone, Copy, Debug)]
pub struct ConsecutivePrograms<'a> {
    /// Logical page to be stored as owner in the OOB of each page that is programmed.
    pub owners: &'a [Lpn],
    /// First page to be programmed. The others follow it in the block.
    pub first_page: Ppn,
    /// Sequence number of the program of the first page. The numbers of the others follow it.
    pub first_sequence: u64,
}

impl ConsecutivePrograms<'_> {
    /// Returns the PPN and the OOB of each page that is to be programmed.
    pub fn pages(self) -> impl Iterator<Item = (Ppn, Oob)> {
        let numbers = (self.first_page.0..).zip(self.first_sequence..);
        self.owners.iter().zip(numbers).map(|(owner, (ppn, sequence))| {
            let (kind, fingerprint) = (PageKind::Data, Fingerprint::default());
            (
                Ppn(ppn),
                Oob {
                    kind,
                    owner: owner.0,
                    sequence_number: sequence,
                    first_write_sequence_number: sequence,
                    fingerprint,
                },
            )
        })
    }
}

/// A flash medium with the operations and rules of real NAND flash, possibly with NVRAM.
pub trait Nand {
    /// Returns the geometry of the flash medium.
    fn geometry(&self) -> &Geometry;

    /// Programs the next page of an open block. If `content` has bytes, they are one whole page, optionally followed by
    /// what the FTL stores in the spare area. O(1).
    ///
    /// # Errors
    /// [`NandError::ProgramFailed`], [`NandError::PowerLost`].
    fn program(&mut self, ppn: Ppn, oob: Oob, content: Content<'_>) -> Result<(), NandError>;

    /// Programs the next page of an open block with a mark that its data is lost. The OOB names the owner of the data,
    /// which could not be read any more, and every read of the data returns [`NandError::Uncorrectable`]. `spare` is
    /// what the FTL stores in the spare area. Costs one program. (ATA and `NVMe` have a command with this effect: write
    /// uncorrectable.)
    ///
    /// # Errors
    /// As [`Nand::program`].
    fn program_page_marked_lost(&mut self, ppn: Ppn, oob: Oob, spare: &[u8]) -> Result<(), NandError>;

    /// Reads only the spare area of a programmed page, which damage of the data does not affect, and returns the OOB.
    /// `into` receives what the FTL stored in the spare area beside the OOB, if the medium keeps bytes for this page;
    /// it is at most as long as the spare area.
    ///
    /// # Errors
    /// [`NandError::Uncorrectable`] for a torn page, [`NandError::PowerLost`].
    fn read_spare(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError>;

    /// Returns the pages that were programmed with [`Nand::program_page_marked_lost`], so that every read of them
    /// fails. Performs no flash operation. Recovery uses the list to rebuild the FTL's table of lost pages in RAM.
    fn pages_programmed_with_lost_mark(&self) -> Vec<Ppn> {
        Vec::new()
    }

    /// Reads a programmed page and returns its OOB. `into` receives the bytes if the medium keeps them for this page
    /// (it always does for metadata pages) and is unchanged otherwise. `into` is one page long, or up to a page and its
    /// spare area, or empty to skip the data.
    ///
    /// # Errors
    /// [`NandError::Uncorrectable`], [`NandError::PowerLost`].
    fn read(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError>;

    /// Reads several pages, without spare areas, into consecutive page-sized parts of `into`. Stops at the first error.
    /// Returns the number of reads that succeeded, and the error, if any.
    fn read_pages(&mut self, pages: &[Ppn], into: &mut [u8]) -> (usize, Result<(), NandError>) {
        let parts = into.chunks_exact_mut(self.geometry().page_bytes as usize);
        for (k, (&ppn, part)) in pages.iter().zip(parts).enumerate() {
            if let Err(error) = self.read(ppn, part) {
                return (k, Err(error));
            }
        }
        (pages.len(), Ok(()))
    }

    /// Reads a metadata page and passes its bytes to the function `look`. Costs one read. A medium that holds the bytes
    /// in memory makes no copy; otherwise `page`, one page long, is the buffer.
    ///
    /// # Errors
    /// As [`Nand::read`].
    fn read_page_in_place(
        &mut self,
        ppn: Ppn,
        page: &mut [u8],
        look: &mut dyn FnMut(&[u8]),
    ) -> Result<(), NandError> {
        self.read(ppn, page)?;
        look(page);
        Ok(())
    }

    /// Reads a metadata page of which only some words of four bytes are needed, and fills in their values in `words`.
    /// Costs one read.
    ///
    /// # Errors
    /// As [`Nand::read`].
    fn read_words(&mut self, ppn: Ppn, words: &mut [PageDataWord]) -> Result<(), NandError> {
        let mut page = self.zeroed_page_buffer();
        self.read(ppn, &mut page)?;
        for word in words {
            *word = PageDataWord::read_from(&page, word.word_index);
        }
        Ok(())
    }

    /// Fills in 4-byte words of metadata pages that are about to be read, if the medium holds the bytes in memory. This
    /// only prefetches: no flash read is counted, and the values must not influence any result. The first argument
    /// lists the pages, each with its number of words. The second holds the words of all these pages, page after page;
    /// none is in a spare area.
    fn prefetch_page_words(&self, _: &[(Ppn, usize)], _: &mut [PageDataWord]) {}

    /// Programs a metadata page that equals the page `base` except for `words` (four bytes each, at different
    /// positions). `base` was read before and is still readable. Costs one program.
    ///
    /// # Errors
    /// As [`Nand::program`].
    fn program_changed_page(
        &mut self,
        ppn: Ppn,
        oob: Oob,
        base: Ppn,
        words: &[PageDataWord],
    ) -> Result<(), NandError> {
        let mut page = self.zeroed_page_buffer();
        self.read(base, &mut page)?;
        for word in words {
            word.swap_into_page(&mut page);
        }
        let bytes = strip_blank_spare_area(&page, self.geometry().page_bytes as usize);
        self.program(ppn, oob, Content::Bytes(bytes))
    }

    /// Returns a buffer of zeros that has the length of a page with its spare area.
    fn zeroed_page_buffer(&self) -> Vec<u8> {
        vec![0; (self.geometry().page_bytes + self.geometry().spare_bytes) as usize]
    }

    /// Programs consecutive pages of an open block. Stops at the first error. Returns the number of programs that
    /// succeeded, and the error, if any.
    fn program_consecutive_pages(&mut self, run: ConsecutivePrograms<'_>) -> (usize, Result<(), NandError>) {
        let nothing = Content::Descriptor(ContentDescriptor::of_fingerprint(Fingerprint::default()));
        for (k, (ppn, oob)) in run.pages().enumerate() {
            let programmed = self.program(ppn, oob, nothing);
            if programmed.is_err() {
                return (k, programmed);
            }
        }
        (run.owners.len(), Ok(()))
    }

    /// Reads each source page and programs it at its destination: one read and one program per page of `run`. Stops at
    /// the first error. Returns the number of copies that succeeded, and the error, if any. `page` is a buffer for a
    /// page and its spare area, for media that keep bytes.
    fn copy(&mut self, run: ConsecutiveCopies<'_>, page: &mut [u8]) -> (usize, Result<(), NandError>) {
        for (k, (&from, &owner)) in run.source_pages.iter().zip(run.owners).enumerate() {
            let copied = self.read(from, page).and_then(|oob| {
                let content = if self.keeps_bytes_of(oob.kind) {
                    Content::Bytes(strip_blank_spare_area(page, self.geometry().page_bytes as usize))
                } else {
                    Content::Descriptor(ContentDescriptor::of_fingerprint(oob.fingerprint))
                };
                let oob = Oob { owner: owner.0, sequence_number: run.first_sequence + k as u64, ..oob };
                self.program(Ppn(run.first_destination.0 + k as u32), oob, content)
            });
            if copied.is_err() {
                return (k, copied);
            }
        }
        (run.source_pages.len(), Ok(()))
    }

    /// Reads the spare area of a page of a good block, whether the page is erased or programmed. Returns its OOB;
    /// `None` if the page is erased.
    ///
    /// # Errors
    /// [`NandError::Uncorrectable`] for a torn page, [`NandError::PowerLost`].
    fn probe_page(&mut self, ppn: Ppn) -> Result<Option<Oob>, NandError>;

    /// Removes from `pages`, which are all in one good block, the pages that are erased or whose spare area is
    /// unreadable. Costs one read of each spare area.
    ///
    /// # Errors
    /// [`NandError::PowerLost`].
    fn read_spares_and_retain_readable(&mut self, pages: &mut Vec<Ppn>) -> Result<(), NandError> {
        let mut outcome = Ok(());
        pages.retain(|&ppn| match self.probe_page(ppn) {
            Ok(found) => found.is_some(),
            Err(NandError::Uncorrectable(_)) => false,
            Err(error) => {
                outcome = Err(error);
                true
            }
        });
        outcome
    }

    /// Erases a block. O(1), plus the page bytes that a simulation has to free. [`Nand::does_erase_order_operations`]
    /// tells whether an erase also orders earlier and later operations.
    ///
    /// # Errors
    /// [`NandError::EraseFailed`], [`NandError::PowerLost`].
    fn erase(&mut self, block: BlockId) -> Result<(), NandError>;

    /// Condemns a block: records in the bad-block table, which survives loss of power, that a program in the block
    /// failed. From then on the block can be read, but neither programmed nor erased. Once it holds no valid page, the
    /// FTL marks it as bad ([`Nand::mark_bad`]).
    fn mark_program_failed(&mut self, block: BlockId);

    /// Returns whether the block is marked as one in which a program failed (condemned), and is not marked bad yet.
    fn has_failed_program(&self, block: BlockId) -> bool;

    /// Marks a block as bad for ever (grown bad block).
    fn mark_bad(&mut self, block: BlockId);

    /// Returns whether the block is bad, from the factory or grown.
    fn is_bad(&self, block: BlockId) -> bool;

    /// Returns the number of erases of the block so far.
    fn erase_count(&self, block: BlockId) -> u32;

    /// Returns the number of pages of the block that were programmed since its last erase. No flash operation.
    fn programmed_pages(&self, block: BlockId) -> u32;

    /// Returns whether the medium keeps the bytes of host data pages, so that they can be read back.
    fn keeps_host_bytes(&self) -> bool;

    /// Returns whether the medium keeps the bytes of pages of this kind: always those of metadata, and those of host
    /// data on a medium that stores data. A simulation may keep, of all pages of host data, only the bytes of packed
    /// pages (deltas, chunks).
    fn keeps_bytes_of(&self, kind: PageKind) -> bool {
        self.keeps_host_bytes() || !kind.is_host_data()
    }

    /// Allows a simulation to drop the bytes of these metadata pages, because the FTL will not read them again. A
    /// simulation panics if the FTL reads them nevertheless.
    fn discard_bytes_of_metadata_pages(&mut self, _: &[Ppn]) {}

    /// Returns the owner in the OOB of a programmed page (LPN or metadata page number), without a flash operation. Used
    /// in audits, and where a controller has the owner in a table in RAM, whose access the caller counts.
    fn oob_owner(&self, ppn: Ppn) -> u32;

    /// Appends to `into` the owners in the OOBs of several programmed pages, without a flash operation.
    fn oob_owners(&self, pages: &[Ppn], into: &mut Vec<Lpn>) {
        into.extend(pages.iter().map(|&ppn| Lpn(self.oob_owner(ppn))));
    }

    /// Prefetches the memory that a simulation accesses to copy the pages of the block and to erase the block, so that
    /// its cache misses overlap. Performs no flash operation.
    fn prefetch_block(&self, _: BlockId) {}

    /// Returns the fingerprint in the OOB of a programmed page, without a flash operation; the default fingerprint if
    /// the medium keeps none.
    fn fingerprint(&self, ppn: Ppn) -> Fingerprint;

    /// Returns the content of the medium's non-volatile RAM, in atomic units of 8 bytes; empty if the medium has none.
    fn nvram(&self) -> &[u64];

    /// Stores the 8 bytes with index `index` of NVRAM atomically: after a loss of power either all of them are stored
    /// or none.
    ///
    /// # Errors
    /// [`NandError::PowerLost`].
    fn store_nvram_word(&mut self, index: usize, word: u64) -> Result<(), NandError>;

    /// Makes all operations so far durable, on a medium that buffers writes (in the page cache of the server machine);
    /// real flash needs no such call. If power is lost between two syncs, NVRAM may be as it was at the earlier sync
    /// while the flash has later programs.
    ///
    /// # Errors
    /// [`NandError::PowerLost`].
    fn sync(&mut self) -> Result<(), NandError> {
        Ok(())
    }

    /// Orders operations of the medium: operations after this call become durable only after all operations before it.
    ///
    /// # Errors
    /// [`NandError::PowerLost`].
    fn fence(&mut self) -> Result<(), NandError> {
        self.sync()
    }

    /// Returns whether an erase also orders operations, so that no later operation becomes durable before the erase and
    /// everything that preceded it. If not, the medium itself makes sure that later programs of the erased block become
    /// durable after the erase.
    fn does_erase_order_operations(&self) -> bool {
        true
    }
}

/// Returns `bytes`, a page of `page_bytes` bytes with its spare area, without the spare area if this is all zeros: then
/// the FTL stored nothing there. Otherwise returns all of `bytes`.
fn strip_blank_spare_area(bytes: &[u8], page_bytes: usize) -> &[u8] {
    let (page, spare) = bytes.split_at(page_bytes);
    if spare.iter().all(|&byte| byte == 0) { page } else { bytes }
}

/// A flash medium that tests can put into the states that a power cut or a failed operation leaves.
pub trait FaultInjectable: Nand {
    /// Marks the page at `ppn`, the next one of its block, as programmed but unreadable, as an interrupted or failed
    /// program leaves it.
    fn tear_program(&mut self, ppn: Ppn);
    /// Makes the block unreadable and unprogrammable until it is erased again, as an interrupted erase leaves it.
    fn tear_erase(&mut self, block: BlockId);
    /// Makes the data of a programmed page uncorrectable. The spare area of the page stays readable.
    fn make_uncorrectable(&mut self, ppn: Ppn);
}
