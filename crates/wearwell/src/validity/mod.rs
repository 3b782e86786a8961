//! Page-level validity of data: which pages of a victim does GC have to move?
//!
//! Valid *counts* per block live in the block table, in RAM, for every design; pages of metadata answer for themselves
//! (their owner knows where each of them is). What is pluggable is validity page by page: one bit per page in RAM, or a
//! structure that lives on flash and is written through the store like any metadata, so that its cost shows by itself.
//!
//! A store of validity on flash learns three things: a page is invalid ([`Validity::invalidate`], no flash operation), a
//! block was opened for data, so that everything said of its pages before is void ([`Validity::opened`]), and that there
//! is room for one page of its own ([`Validity::settle`]). It answers one question, at a price: which pages of this block
//! were not called invalid since it was opened ([`Validity::live_pages`]).
//!
//! Invariant: between [`Validity::opened`] and the erase of a block a page is called invalid at most once by a device
//! that was not cut; after a recovery it may be called so again, which changes nothing.

mod gecko;
mod ram_bitmap;

pub use gecko::{Gecko, GeckoOptions, MergeMode};
pub use ram_bitmap::RamBitmap;

use crate::address::{BlockId, Ppn};
use crate::error::Result;
use crate::nand::{Nand, Oob};
use crate::store::Store;

/// What every store of page validity answers.
pub trait Validity {
    /// The page's data is not needed any more. No flash operation: what must be written follows in
    /// [`Validity::settle`].
    fn invalidate(&mut self, ppn: Ppn);

    /// The block was opened for data: all its pages count as valid until they are called invalid.
    fn opened(&mut self, block: BlockId);

    /// Appends the pages of `block`, ascending, that were not called invalid since it was opened (programmed or not).
    ///
    /// # Errors
    /// Whatever the flash answers.
    fn live_pages<N: Nand>(&mut self, io: &mut Store<N>, block: BlockId, out: &mut Vec<Ppn>) -> Result<()>;

    /// Does one step of postponed work: at most one page appended; `false` if there was nothing to do.
    ///
    /// # Errors
    /// Whatever the flash answers.
    fn settle<N: Nand>(&mut self, io: &mut Store<N>) -> Result<bool>;

    /// Whether `ppn` is in use as a page of the structure; `id` is the owner in its OOB.
    fn owns(&self, id: u32, ppn: Ppn) -> bool;

    /// GC moved a page of the structure.
    fn relocate_own(&mut self, id: u32, from: Ppn, to: Ppn);

    /// Pages that one [`Validity::settle`] may append; 0 for a store that lives in RAM.
    fn pages_per_settle(&self) -> u32;

    /// Flash pages that the structure occupies at the most, obsolete ones that it still needs included.
    fn metadata_pages(&self) -> u64;

    /// Bytes a controller holds in RAM, by structure.
    fn ram_bytes(&self) -> Vec<(&'static str, u64)>;
}

/// How page validity is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ValidityPart {
    /// One bit per page in RAM.
    #[default]
    Ram,
}

/// Any store of validity, chosen when the device is built.
#[derive(Clone, Debug)]
pub enum AnyValidity {
    /// One bit per page in RAM.
    Ram(RamBitmap),
}

impl AnyValidity {
    /// The store of a device without data.
    ///
    /// # Errors
    /// [`Error::Options`](crate::Error::Options) if its pages are too small for it.
    pub(crate) fn new<N: Nand>(store: &Store<N>, part: ValidityPart) -> Result<Self> {
        match part {
            ValidityPart::Ram => Ok(AnyValidity::Ram(RamBitmap::new(store.geometry().pages()))),
        }
    }

    /// Reports that the buffer takes before it is written.
    pub(crate) fn entries_per_flush(&self) -> u32 {
        match self {
            AnyValidity::Ram(_) => 0,
        }
    }

    /// What was said up to this number of the sequence is on flash; recovery has to find out the rest.
    pub(crate) fn durable_since(&self) -> u64 {
        match self {
            AnyValidity::Ram(_) => 0,
        }
    }

    /// Whether something was said that is in RAM only.
    pub(crate) fn has_unwritten(&self) -> bool {
        match self {
            AnyValidity::Ram(_) => false,
        }
    }

    /// Puts what is in RAM on flash soon, though its page is not full.
    pub(crate) fn request_flush(&mut self) {
        match self {
            AnyValidity::Ram(_) => {}
        }
    }

    /// Writes one page of what exists only in RAM, as a battery does; `false` once all is on flash.
    pub(crate) fn write_back<N: Nand>(&mut self, _io: &mut Store<N>) -> Result<bool> {
        match self {
            AnyValidity::Ram(_) => Ok(false),
        }
    }

    /// Brings the structure back from its pages on flash; RAM is lost.
    pub(crate) fn recover<N: Nand>(&mut self, io: &mut Store<N>, _pages: &[(Ppn, Oob)]) -> Result<()> {
        match self {
            AnyValidity::Ram(bitmap) => *bitmap = RamBitmap::new(io.geometry().pages()),
        }
        Ok(())
    }

    /// The pages of the structure that are in use.
    pub(crate) fn own_pages(&self) -> Vec<Ppn> {
        match self {
            AnyValidity::Ram(_) => Vec::new(),
        }
    }

    /// Calls `block` with the pages that were called invalid, block by block, each page of the structure read once.
    pub(crate) fn scan<N: Nand>(&mut self, _io: &mut Store<N>, _each: impl FnMut(Ppn)) -> Result<()> {
        match self {
            AnyValidity::Ram(_) => Ok(()),
        }
    }
}

impl Validity for AnyValidity {
    #[inline]
    fn invalidate(&mut self, ppn: Ppn) {
        match self {
            AnyValidity::Ram(bitmap) => bitmap.clear(ppn),
        }
    }

    fn opened(&mut self, _block: BlockId) {
        match self {
            AnyValidity::Ram(_) => {}
        }
    }

    fn live_pages<N: Nand>(&mut self, io: &mut Store<N>, block: BlockId, out: &mut Vec<Ppn>) -> Result<()> {
        match self {
            AnyValidity::Ram(bitmap) => {
                let (first, pages) = (io.geometry().first_page(block), io.geometry().block_pages());
                bitmap.collect_valid(first, pages, out);
            }
        }
        Ok(())
    }

    #[inline]
    fn settle<N: Nand>(&mut self, _io: &mut Store<N>) -> Result<bool> {
        match self {
            AnyValidity::Ram(_) => Ok(false),
        }
    }

    fn owns(&self, _id: u32, _ppn: Ppn) -> bool {
        match self {
            AnyValidity::Ram(_) => false,
        }
    }

    fn relocate_own(&mut self, _id: u32, _from: Ppn, _to: Ppn) {
        match self {
            AnyValidity::Ram(_) => unreachable!("a bitmap in RAM has no pages"),
        }
    }

    #[inline]
    fn pages_per_settle(&self) -> u32 {
        match self {
            AnyValidity::Ram(_) => 0,
        }
    }

    fn metadata_pages(&self) -> u64 {
        match self {
            AnyValidity::Ram(_) => 0,
        }
    }

    fn ram_bytes(&self) -> Vec<(&'static str, u64)> {
        match self {
            AnyValidity::Ram(bitmap) => vec![("page validity bitmap", bitmap.ram_bytes())],
        }
    }
}

/// What only a bitmap in RAM can answer: content stages ask it page by page, and go together with no other store yet.
impl AnyValidity {
    /// Whether pages are called invalid through [`Validity`], with answers that cost flash reads.
    #[inline]
    pub fn is_on_flash(&self) -> bool {
        !matches!(self, AnyValidity::Ram(_))
    }

    #[inline]
    fn ram(&self) -> &RamBitmap {
        match self {
            AnyValidity::Ram(bitmap) => bitmap,
        }
    }

    /// The page holds valid data from now on. Nothing to note on flash: pages are valid until called invalid.
    #[inline]
    pub(crate) fn set(&mut self, ppn: Ppn) {
        match self {
            AnyValidity::Ram(bitmap) => bitmap.set(ppn),
        }
    }

    /// The page's data is not needed any more.
    #[inline]
    pub(crate) fn clear(&mut self, ppn: Ppn) {
        match self {
            AnyValidity::Ram(bitmap) => bitmap.clear(ppn),
        }
    }

    /// As [`RamBitmap::set_range`]; nothing on flash.
    pub(crate) fn set_range(&mut self, first: Ppn, count: u32) {
        match self {
            AnyValidity::Ram(bitmap) => bitmap.set_range(first, count),
        }
    }

    /// As [`RamBitmap::clear_range`], for pages of a block that is about to be erased; nothing on flash.
    pub(crate) fn clear_range(&mut self, first: Ppn, count: u32) {
        match self {
            AnyValidity::Ram(bitmap) => bitmap.clear_range(first, count),
        }
    }

    /// As [`RamBitmap::is_valid`].
    #[inline]
    pub(crate) fn is_valid(&self, ppn: Ppn) -> bool {
        self.ram().is_valid(ppn)
    }

    /// As [`RamBitmap::collect_valid`].
    pub(crate) fn collect_valid(&self, first: Ppn, count: u32, out: &mut Vec<Ppn>) {
        self.ram().collect_valid(first, count, out);
    }

    /// As [`RamBitmap::count_valid`].
    pub(crate) fn count_valid(&self, first: Ppn, count: u32) -> u32 {
        self.ram().count_valid(first, count)
    }
}
