//! The flash medium, and what it refuses.
//!
//! [`Nand`] is what the engine may assume of flash. The rules are those of real parts, and the model enforces
//! them by panicking, because a violation is a bug of the FTL and never a condition to handle:
//!
//! - pages of a block are programmed in order, each once between erases;
//! - an erased page is not read (a recovery [`Nand::probe`] may look);
//! - a bad block is neither programmed nor erased, nor is one that was condemned after a failed program;
//! - the OOB is written once, together with its page.
//!
//! What can happen to correct code is a [`NandError`]: a failed program or erase, an uncorrectable page, and
//! loss of power. The spare area of a page has an error correcting code of its own: damage makes the data of a page
//! uncorrectable and leaves its OOB readable, a torn program leaves neither. After [`NandError::PowerLost`] the interrupted page may be unprogrammed, complete or
//! unreadable; the interrupted block may be untouched, erased, or unreadable until erased again. Recovery may
//! rely on nothing else.
//!
//! A medium may have non-volatile RAM beside the flash ([`Nand::nvram`]). It belongs to the medium because power is
//! lost for both at the same moment, and a test that cuts it has to count the operations of both in one order.
//!
//! Wrappers ([`Faulty`], [`PowerCut`], [`Recording`]) add faults, cuts and a log around any medium.

/// What every wrapper passes on unchanged: questions that are not flash operations.
macro_rules! delegate_queries {
    () => {
        fn geometry(&self) -> &crate::nand::Geometry {
            self.inner.geometry()
        }
        fn condemn(&mut self, block: BlockId) {
            self.inner.condemn(block);
        }
        fn is_condemned(&self, block: BlockId) -> bool {
            self.inner.is_condemned(block)
        }
        fn mark_bad(&mut self, block: BlockId) {
            self.inner.mark_bad(block);
        }
        fn is_bad(&self, block: BlockId) -> bool {
            self.inner.is_bad(block)
        }
        fn erase_count(&self, block: BlockId) -> u32 {
            self.inner.erase_count(block)
        }
        fn peek_words(&self, pages: &[(Ppn, usize)], words: &mut [crate::nand::Word]) {
            self.inner.peek_words(pages, words);
        }
        fn keeps_bytes(&self) -> bool {
            self.inner.keeps_bytes()
        }
        fn give_up_bytes(&mut self, pages: &[Ppn]) {
            self.inner.give_up_bytes(pages);
        }
        fn owner(&self, ppn: Ppn) -> u32 {
            self.inner.owner(ppn)
        }
        fn lost_pages(&self) -> Vec<Ppn> {
            self.inner.lost_pages()
        }
        fn fingerprint(&self, ppn: Ppn) -> crate::data::Fingerprint {
            self.inner.fingerprint(ppn)
        }
        fn nvram(&self) -> &[u64] {
            self.inner.nvram()
        }
        fn sync(&mut self) -> Result<(), crate::nand::NandError> {
            self.inner.sync()
        }
        fn fence(&mut self) -> Result<(), crate::nand::NandError> {
            self.inner.fence()
        }
        fn syncs_at_erase(&self) -> bool {
            self.inner.syncs_at_erase()
        }
    };
}

mod faulty;
mod frames;
mod geometry;
mod numbers;
mod payloads;
mod power_cut;
pub mod preset;
mod recording;
mod sim;

pub use faulty::{FaultPlan, Faulty};
pub use geometry::{FlashTiming, Geometry, GeometryError, PLANES_MAX};
pub use power_cut::{CutOutcome, PowerCut};
pub use recording::{Recorded, Recording};
pub use sim::{Retain, SimNand, WearFailure, WearLimit};

use crate::address::{BlockId, Lpn, Ppn};
use crate::data::{Content, Descriptor, Fingerprint};

/// What a page holds, hence who owns it. A block holds pages of one kind, beside its own head and tail pages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PageKind {
    /// Host data; the OOB owner is the LPN it was written for.
    Data,
    /// A page of the logical-to-physical table; the OOB owner is the translation page number.
    Translation,
    /// Deltas of several logical pages behind a directory; the OOB owner is the number of deltas.
    Delta,
    /// A part of a compressed chunk; the OOB owner is the chunk number.
    Chunk,
    /// A page of the log of mappings made without a program; the OOB owner is its number in the log.
    RemapLog,
    /// A page of flash-resident page validity; the OOB owner is what its store says (bitmap page, log page, run).
    Validity,
    /// First page of a block, which describes the block: kind of its pages, time of opening, erase count. The OOB owner
    /// is the number of that kind.
    Head,
    /// One of the last pages of a block, which together list the OOB of its pages. The OOB owner is the number of the
    /// tail page in its block; the generation is the sequence number of the head, so that a tail belongs to one life of
    /// its block.
    Tail,
}

impl PageKind {
    /// Kinds that a block can consist of, by their number in a head page.
    pub(crate) const OF_BLOCKS: [Self; 6] =
        [Self::Data, Self::Translation, Self::Delta, Self::Chunk, Self::RemapLog, Self::Validity];

    /// Number of the kind in the head page of a block.
    pub(crate) fn number(self) -> u32 {
        Self::OF_BLOCKS.iter().position(|&kind| kind == self).expect("a block consists of pages of this kind")
            as u32
    }

    /// The kind with this number.
    pub(crate) fn of_number(number: u32) -> Option<Self> {
        Self::OF_BLOCKS.get(number as usize).copied()
    }

    /// Whether pages of this kind describe the block that they are in.
    #[inline]
    pub fn describes_block(self) -> bool {
        matches!(self, PageKind::Head | PageKind::Tail)
    }

    /// Whether pages of this kind hold host data, whose bytes a medium may leave out, or metadata, which it keeps.
    #[inline]
    pub fn is_host_data(self) -> bool {
        match self {
            PageKind::Data | PageKind::Delta | PageKind::Chunk => true,
            PageKind::Translation
            | PageKind::RemapLog
            | PageKind::Validity
            | PageKind::Head
            | PageKind::Tail => false,
        }
    }
}

/// Out-of-band area of a page: written with it, never changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Oob {
    /// Kind of page.
    pub kind: PageKind,
    /// LPN or number of the metadata page, by `kind`.
    pub owner: u32,
    /// Number of this program in the life of the device: of two pages with one owner the larger is newer.
    pub sequence: u64,
    /// Number of the program that wrote this content first: copies keep it.
    pub generation: u64,
    /// Identity of the content.
    pub fingerprint: Fingerprint,
}

/// Conditions of the medium that correct code meets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NandError {
    /// The program failed; the page is consumed and the block should be retired.
    #[error("program of page {0} failed; its block has to be retired")]
    ProgramFailed(Ppn),
    /// The erase failed; the block is unusable from now on.
    #[error("erase of block {0} failed; the block has to be retired")]
    EraseFailed(BlockId),
    /// The page cannot be read: torn by a power cut or damaged beyond correction.
    #[error("page {0} is uncorrectable")]
    Uncorrectable(Ppn),
    /// Power is gone; nothing works until the device is recovered.
    #[error("power lost")]
    PowerLost,
}

/// Four bytes of a page and its spare area, little-endian.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// Place, in words from the beginning of the page; the spare area follows the page.
    pub index: u32,
    /// What stands there.
    pub value: u32,
}

impl Word {
    /// Word `index` of `bytes`.
    #[inline]
    pub fn of(bytes: &[u8], index: u32) -> Self {
        let at = index as usize * size_of::<u32>();
        let value = bytes[at..at + size_of::<u32>()].try_into().expect("a word has four bytes");
        Self { index, value: u32::from_le_bytes(value) }
    }

    /// Puts the word into `bytes` and returns the one that stood there.
    #[inline]
    #[expect(clippy::return_self_not_must_use, reason = "most callers only put the word there")]
    pub fn exchange(self, bytes: &mut [u8]) -> Self {
        let old = Self::of(bytes, self.index);
        bytes[self.bytes()].copy_from_slice(&self.value.to_le_bytes());
        old
    }

    /// Its place in bytes.
    #[inline]
    pub fn bytes(self) -> std::ops::Range<usize> {
        let at = self.index as usize * size_of::<u32>();
        at..at + size_of::<u32>()
    }
}

/// Pages to be copied into consecutive pages of one block, as GC does.
#[derive(Clone, Copy, Debug)]
pub struct CopyRun<'a> {
    /// Sources, all in one block, ascending.
    pub from: &'a [Ppn],
    /// Owner for the OOB of each copy.
    pub owners: &'a [Lpn],
    /// First destination page.
    pub to: Ppn,
    /// Sequence number of the first copy; the others follow.
    pub sequence: u64,
}

/// Host pages for consecutive pages of one open block, of whose content nothing is kept.
#[derive(Clone, Copy, Debug)]
pub struct ProgramRun<'a> {
    /// Owner for the OOB of each page.
    pub owners: &'a [Lpn],
    /// First destination page.
    pub to: Ppn,
    /// Sequence number of the first page; the others follow.
    pub sequence: u64,
}

impl ProgramRun<'_> {
    /// Place and OOB of each page.
    pub fn pages(self) -> impl Iterator<Item = (Ppn, Oob)> {
        let numbers = (self.to.0..).zip(self.sequence..);
        self.owners.iter().zip(numbers).map(|(owner, (ppn, sequence))| {
            let (kind, fingerprint) = (PageKind::Data, Fingerprint::default());
            (Ppn(ppn), Oob { kind, owner: owner.0, sequence, generation: sequence, fingerprint })
        })
    }
}

/// A flash device under the rules of this module.
pub trait Nand {
    /// Layout.
    fn geometry(&self) -> &Geometry;

    /// Programs the next page of an open block. Bytes are one page, or a page and what the FTL keeps in its spare
    /// area. O(1).
    ///
    /// # Errors
    /// [`NandError::ProgramFailed`], [`NandError::PowerLost`].
    fn program(&mut self, ppn: Ppn, oob: Oob, content: Content<'_>) -> Result<(), NandError>;

    /// Programs the next page of an open block as *lost*: its OOB says whose data it held, `spare` is what the FTL keeps in
    /// its spare area, and every read of its data answers [`NandError::Uncorrectable`]. One program, as
    /// [`Nand::program`]. (ATA and `NVMe` have a command with this effect: write uncorrectable.)
    ///
    /// # Errors
    /// As [`Nand::program`].
    fn program_lost(&mut self, ppn: Ppn, oob: Oob, spare: &[u8]) -> Result<(), NandError>;

    /// Reads the spare area of a programmed page alone, which damage of the data does not reach. `into` receives what the
    /// FTL keeps there if the medium keeps bytes for this page; it is at most as long as the spare area.
    ///
    /// # Errors
    /// [`NandError::Uncorrectable`] for a torn page, [`NandError::PowerLost`].
    fn read_spare(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError>;

    /// The pages in use that were programmed as lost, without a flash operation: for a table in RAM.
    fn lost_pages(&self) -> Vec<Ppn> {
        Vec::new()
    }

    /// Reads a programmed page. `into` receives the bytes if the medium keeps them for this page (it always does
    /// for metadata pages) and is left alone otherwise; it is one page long, or up to a page and its spare area, or
    /// empty to skip the data.
    ///
    /// # Errors
    /// [`NandError::Uncorrectable`], [`NandError::PowerLost`].
    fn read(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError>;

    /// Reads several pages, each into its part of `into`, whole pages without spare areas: as many reads. Returns how many
    /// succeeded before the outcome.
    fn read_pages(&mut self, pages: &[Ppn], into: &mut [u8]) -> (usize, Result<(), NandError>) {
        let parts = into.chunks_exact_mut(self.geometry().page_bytes as usize);
        for (k, (&ppn, part)) in pages.iter().zip(parts).enumerate() {
            if let Err(error) = self.read(ppn, part) {
                return (k, Err(error));
            }
        }
        (pages.len(), Ok(()))
    }

    /// Reads a page of metadata that is looked at once: one read, as [`Nand::read`], and no copy where the medium holds the
    /// bytes in memory. `page` is scratch, one page long, for one that does not.
    ///
    /// # Errors
    /// As [`Nand::read`].
    fn look_at(&mut self, ppn: Ppn, page: &mut [u8], look: &mut dyn FnMut(&[u8])) -> Result<(), NandError> {
        self.read(ppn, page)?;
        look(page);
        Ok(())
    }

    /// Reads a page of metadata of which a few words are asked for, and fills these in: one read, as [`Nand::read`].
    ///
    /// # Errors
    /// As [`Nand::read`].
    fn read_words(&mut self, ppn: Ppn, words: &mut [Word]) -> Result<(), NandError> {
        let mut page = self.blank_page();
        self.read(ppn, &mut page)?;
        for word in words {
            *word = Word::of(&page, word.index);
        }
        Ok(())
    }

    /// Fills in words of metadata pages that are about to be read, none of a spare area, where the medium holds them in
    /// memory: no flash is read, and nothing may be concluded from what is found but what to read ahead. Of each page so
    /// many words are asked for, one page after the other.
    fn peek_words(&self, _: &[(Ppn, usize)], _: &mut [Word]) {}

    /// Programs a page of metadata that is `base`, which was read before and can still be read, but for `words`, no two
    /// of one place: one program, as [`Nand::program`].
    ///
    /// # Errors
    /// As [`Nand::program`].
    fn program_changed(&mut self, ppn: Ppn, oob: Oob, base: Ppn, words: &[Word]) -> Result<(), NandError> {
        let mut page = self.blank_page();
        self.read(base, &mut page)?;
        for word in words {
            word.exchange(&mut page);
        }
        let bytes = without_blank_spare(&page, self.geometry().page_bytes as usize);
        self.program(ppn, oob, Content::Bytes(bytes))
    }

    /// Room for a page and its spare area.
    fn blank_page(&self) -> Vec<u8> {
        vec![0; (self.geometry().page_bytes + self.geometry().spare_bytes) as usize]
    }

    /// Programs each page of a run. Returns how many succeeded before the outcome.
    fn program_run(&mut self, run: ProgramRun<'_>) -> (usize, Result<(), NandError>) {
        let nothing = Content::Descriptor(Descriptor::of(Fingerprint::default()));
        for (k, (ppn, oob)) in run.pages().enumerate() {
            let programmed = self.program(ppn, oob, nothing);
            if programmed.is_err() {
                return (k, programmed);
            }
        }
        (run.owners.len(), Ok(()))
    }

    /// Reads each source and programs it at its destination: `run.from.len()` reads and programs. Returns how many
    /// copies succeeded before the outcome. `page` is scratch for a page and its spare area, for media that keep bytes.
    fn copy(&mut self, run: CopyRun<'_>, page: &mut [u8]) -> (usize, Result<(), NandError>) {
        for (k, (&from, &owner)) in run.from.iter().zip(run.owners).enumerate() {
            let copied = self.read(from, page).and_then(|oob| {
                let bytes = !oob.kind.is_host_data() || self.keeps_bytes();
                let content = if bytes {
                    Content::Bytes(without_blank_spare(page, self.geometry().page_bytes as usize))
                } else {
                    Content::Descriptor(Descriptor::of(oob.fingerprint))
                };
                let oob = Oob { owner: owner.0, sequence: run.sequence + k as u64, ..oob };
                self.program(Ppn(run.to.0 + k as u32), oob, content)
            });
            if copied.is_err() {
                return (k, copied);
            }
        }
        (run.from.len(), Ok(()))
    }

    /// Looks at the spare area of any page of a good block: `None` if it is erased.
    ///
    /// # Errors
    /// [`NandError::Uncorrectable`] for a torn page, [`NandError::PowerLost`].
    fn probe(&mut self, ppn: Ppn) -> Result<Option<Oob>, NandError>;

    /// Leaves those of `pages`, all of one good block, that are programmed and whose spare areas can be read: a probe of
    /// each.
    ///
    /// # Errors
    /// [`NandError::PowerLost`].
    fn retain_readable(&mut self, pages: &mut Vec<Ppn>) -> Result<(), NandError> {
        let mut outcome = Ok(());
        pages.retain(|&ppn| match self.probe(ppn) {
            Ok(found) => found.is_some(),
            Err(NandError::Uncorrectable(_)) => false,
            Err(error) => {
                outcome = Err(error);
                true
            }
        });
        outcome
    }

    /// Erases a block. O(1) plus the payloads it kept. Where media have to be synced, see [`Nand::syncs_at_erase`].
    ///
    /// # Errors
    /// [`NandError::EraseFailed`], [`NandError::PowerLost`].
    fn erase(&mut self, block: BlockId) -> Result<(), NandError>;

    /// Notes in the bad-block table, which survives loss of power, that a program of the block failed: from now on it
    /// is read, but neither programmed nor erased, until it is empty and declared bad.
    fn condemn(&mut self, block: BlockId);

    /// Whether the block is condemned and not declared bad yet.
    fn is_condemned(&self, block: BlockId) -> bool;

    /// Declares a block bad for ever (grown-bad).
    fn mark_bad(&mut self, block: BlockId);

    /// Whether the block is bad, from the factory or since.
    fn is_bad(&self, block: BlockId) -> bool;

    /// How often the block was erased.
    fn erase_count(&self, block: BlockId) -> u32;

    /// Whether data pages come back as bytes.
    fn keeps_bytes(&self) -> bool;

    /// The bytes of these metadata pages will not be asked for again: a simulation may drop them, and refuses to read
    /// them from then on.
    fn give_up_bytes(&mut self, _: &[Ppn]) {}

    /// The owner in a programmed page's OOB, without a flash operation: for structures that a controller keeps in
    /// RAM and accounts for there, and for audits.
    fn owner(&self, ppn: Ppn) -> u32;

    /// The owners of several pages, appended to `into`.
    fn owners(&self, pages: &[Ppn], into: &mut Vec<Lpn>) {
        into.extend(pages.iter().map(|&ppn| Lpn(self.owner(ppn))));
    }

    /// Reads what a simulation will look up to copy the pages of `block` and to erase it, so that its cache misses overlap;
    /// no flash operation.
    fn prefetch_block(&self, _: BlockId) {}

    /// The fingerprint in a programmed page's OOB, without a flash operation, where the medium keeps it.
    fn fingerprint(&self, ppn: Ppn) -> Fingerprint;

    /// The non-volatile RAM beside the flash, in its atomic units of 8 bytes; empty on a medium without.
    fn nvram(&self) -> &[u64];

    /// Stores 8 bytes of NVRAM: all of them or none, whatever happens to the power.
    ///
    /// # Errors
    /// [`NandError::PowerLost`].
    fn store_word(&mut self, index: usize, word: u64) -> Result<(), NandError>;

    /// Makes every operation so far durable, on a medium that has something between itself and the flash (a host's page
    /// cache). Flash itself needs nothing. Where power is lost between two syncs, NVRAM may be as it was at the first
    /// one while the flash is further on.
    ///
    /// # Errors
    /// [`NandError::PowerLost`].
    fn sync(&mut self) -> Result<(), NandError> {
        Ok(())
    }

    /// What comes later becomes durable after everything so far, whenever that is.
    ///
    /// # Errors
    /// [`NandError::PowerLost`].
    fn fence(&mut self) -> Result<(), NandError> {
        self.sync()
    }

    /// Whether an erase is a fence: nothing later becomes durable before it and what came before it. Where it is not, the
    /// medium sees to it that what is programmed in the block comes later.
    fn syncs_at_erase(&self) -> bool {
        true
    }
}

/// A page and its spare area as they were read, or the page alone if nothing was kept in the spare area.
fn without_blank_spare(bytes: &[u8], page_bytes: usize) -> &[u8] {
    let (page, spare) = bytes.split_at(page_bytes);
    if spare.iter().all(|&byte| byte == 0) { page } else { bytes }
}

/// A medium that can be left in the states a power cut or a failure leaves behind.
pub trait Fragile: Nand {
    /// Consumes the page with unreadable content.
    fn tear_program(&mut self, ppn: Ppn);
    /// Leaves the block unreadable and unprogrammable until it is erased.
    fn tear_erase(&mut self, block: BlockId);
    /// Makes the data of a programmed page uncorrectable; its spare area stays readable.
    fn damage(&mut self, ppn: Ppn);
}
