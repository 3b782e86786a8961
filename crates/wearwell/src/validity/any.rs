//! Any store of validity, chosen when the device is built, and what recovery asks of all of them.

#![expect(clippy::inline_always, reason = "measured: the way of a write costs a tenth less in one piece")]

use super::{
    BitmapOptions, FlashBitmap, Gecko, GeckoOptions, LogOptions, RamBitmap, Revivable, Validity, ValidityLog,
};
use crate::address::{BlockId, Ppn};
use crate::error::Result;
use crate::nand::{Nand, Oob};
use crate::store::Store;

/// How page validity is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ValidityPart {
    /// One bit per page in RAM.
    #[default]
    Ram,
    /// The same bits on flash.
    Bitmap(BitmapOptions),
    /// A log of invalid pages on flash, chained by block, bounded by the spare pages of the device.
    Log,
    /// Logarithmic Gecko.
    Gecko(GeckoOptions),
}

/// Any store of validity.
#[derive(Clone, Debug)]
pub enum AnyValidity {
    /// One bit per page in RAM.
    Ram(RamBitmap),
    /// The same bits on flash.
    Bitmap(Box<Revivable<FlashBitmap>>),
    /// The log of IB-FTL.
    Log(Box<Revivable<ValidityLog>>),
    /// Logarithmic Gecko.
    Gecko(Box<Revivable<Gecko>>),
}

macro_rules! on_flash {
    ($self:ident, $store:ident => $call:expr, in RAM $bitmap:ident => $in_ram:expr) => {
        match $self {
            AnyValidity::Ram($bitmap) => $in_ram,
            AnyValidity::Bitmap($store) => $call,
            AnyValidity::Log($store) => $call,
            AnyValidity::Gecko($store) => $call,
        }
    };
}

impl AnyValidity {
    /// The store of a device without data.
    ///
    /// # Errors
    /// [`Error::Options`](crate::Error::Options) if its pages are too small for it.
    pub(crate) fn new<N: Nand>(store: &Store<N>, logical_pages: u32, part: ValidityPart) -> Result<Self> {
        let geometry = store.geometry();
        let spare_pages = geometry.pages().saturating_sub(u64::from(logical_pages));
        Ok(match part {
            ValidityPart::Ram => Self::Ram(RamBitmap::new(geometry.pages())),
            ValidityPart::Bitmap(options) => {
                Self::Bitmap(Box::new(Revivable::new(FlashBitmap::new(geometry, options), geometry)))
            }
            ValidityPart::Log => {
                let log = ValidityLog::new(geometry, LogOptions { spare_pages })?;
                Self::Log(Box::new(Revivable::new(log, geometry)))
            }
            ValidityPart::Gecko(options) => {
                Self::Gecko(Box::new(Revivable::new(Gecko::new(geometry, options)?, geometry)))
            }
        })
    }

    /// Reports that the buffer takes before it is written.
    #[inline]
    pub(crate) fn entries_per_flush(&self) -> u32 {
        match self {
            Self::Ram(_) | Self::Bitmap(_) => 1,
            Self::Log(log) => log.page_entries(),
            Self::Gecko(gecko) => gecko.buffer_entries(),
        }
    }

    /// What was said while the sequence was at this number or before is on flash; recovery has to find out the rest.
    #[inline]
    pub(crate) fn durable_since(&self) -> u64 {
        match self {
            Self::Ram(_) | Self::Bitmap(_) => 0,
            Self::Log(log) => log.durable_since().saturating_sub(1),
            Self::Gecko(gecko) => gecko.durable_since(),
        }
    }

    /// While a device is built in a known state: settles no more than it must, so that no page is written again and again
    /// while nothing is collected.
    pub(crate) fn settle_construction<N: Nand>(&mut self, io: &mut Store<N>) -> Result<()> {
        /// Reports that wait for pages of a bitmap before those that share one are written together: each write looks
        /// through all of them.
        const WAITING: usize = 1 << 14;
        match self {
            Self::Ram(_) | Self::Gecko(_) => Ok(()),
            Self::Bitmap(bitmap) if bitmap.waiting_reports() < WAITING => Ok(()),
            Self::Bitmap(bitmap) => bitmap.write_back(io).map(drop),
            Self::Log(_) => self.settle_all(io),
        }
    }

    /// The device is built: writes what waits, Logarithmic Gecko all of it as one run.
    pub(crate) fn finish_construction<N: Nand>(&mut self, io: &mut Store<N>) -> Result<()> {
        if let Self::Bitmap(bitmap) = self {
            while bitmap.write_back(io)? {}
        }
        self.settle_all(io)
    }

    fn settle_all<N: Nand>(&mut self, io: &mut Store<N>) -> Result<()> {
        while self.write_deferred(io)? {}
        Ok(())
    }

    /// Whether something was said that exists only in RAM.
    #[inline]
    pub(crate) fn has_unwritten(&self) -> bool {
        match self {
            Self::Ram(_) => false,
            Self::Bitmap(bitmap) => bitmap.has_unwritten(),
            Self::Log(log) => log.has_unwritten(),
            Self::Gecko(gecko) => gecko.insertions_since_flush() > 0,
        }
    }

    /// Puts what is in RAM on flash, or begins to, though its page is not full. A page is written even if nothing was
    /// said: it moves [`AnyValidity::durable_since`], which recovery reads from flash.
    pub(crate) fn flush<N: Nand>(&mut self, io: &mut Store<N>) -> Result<()> {
        match self {
            Self::Ram(_) => Ok(()),
            Self::Bitmap(bitmap) => bitmap.write_back(io).map(drop),
            Self::Log(log) => log.write_page(io),
            Self::Gecko(gecko) => {
                gecko.request_flush();
                Ok(())
            }
        }
    }

    /// Brings the structure back from its pages on flash; RAM is lost. `opened_at` is the number of the last program
    /// before a block was opened for data, [`u64::MAX`] if it was not.
    pub(crate) fn recover<N: Nand>(
        &mut self,
        io: &mut Store<N>,
        pages: &[(Ppn, Oob)],
        opened_at: impl Fn(BlockId) -> u64,
    ) -> Result<()> {
        on_flash!(self, store => store.forget_revived(), in RAM _bitmap => {});
        match self {
            Self::Ram(bitmap) => *bitmap = RamBitmap::new(io.geometry().pages()),
            Self::Bitmap(bitmap) => bitmap.recover(pages),
            Self::Log(log) => log.recover(io, pages, opened_at, |_, _| {})?,
            Self::Gecko(gecko) => gecko.recover(io, pages)?,
        }
        Ok(())
    }

    /// Calls `each` with every block that has invalid pages and a bit per page of it. Each page of the structure is read
    /// once.
    pub(crate) fn scan<N: Nand>(
        &mut self,
        io: &mut Store<N>,
        each: impl FnMut(BlockId, &[u64]),
    ) -> Result<()> {
        on_flash!(self, store => store.scan(io, each), in RAM _bitmap => Ok(()))
    }

    /// Whether pages are called invalid through [`Validity`], with answers that cost flash reads.
    #[inline]
    pub fn is_on_flash(&self) -> bool {
        !matches!(self, Self::Ram(_))
    }
}

impl Validity for AnyValidity {
    #[inline(always)]
    fn invalidate(&mut self, ppn: Ppn) {
        on_flash!(self, store => store.invalidate(ppn), in RAM bitmap => bitmap.clear(ppn));
    }

    fn opened(&mut self, block: BlockId) {
        on_flash!(self, store => store.opened(block), in RAM _bitmap => {});
    }

    fn live_pages<N: Nand>(&mut self, io: &mut Store<N>, block: BlockId, out: &mut Vec<Ppn>) -> Result<()> {
        on_flash!(self, store => store.live_pages(io, block, out), in RAM bitmap => {
            let (first, pages) = (io.geometry().first_page(block), io.geometry().block_pages());
            bitmap.collect_valid(first, pages, out);
            Ok(())
        })
    }

    #[inline(always)]
    fn write_deferred<N: Nand>(&mut self, io: &mut Store<N>) -> Result<bool> {
        on_flash!(self, store => store.write_deferred(io), in RAM _bitmap => Ok(false))
    }

    fn owns(&self, id: u32, ppn: Ppn) -> bool {
        on_flash!(self, store => store.owns(id, ppn), in RAM _bitmap => false)
    }

    fn relocate_own(&mut self, id: u32, from: Ppn, to: Ppn) {
        on_flash!(self, store => store.relocate_own(id, from, to), in RAM _bitmap => {
            unreachable!("a bitmap in RAM has no pages")
        });
    }

    #[inline]
    fn pages_per_settle(&self) -> u32 {
        on_flash!(self, store => store.pages_per_settle(), in RAM _bitmap => 0)
    }

    fn metadata_pages(&self) -> u64 {
        on_flash!(self, store => store.metadata_pages(), in RAM _bitmap => 0)
    }

    fn ram_bytes(&self) -> Vec<(&'static str, u64)> {
        on_flash!(self, store => store.ram_bytes(), in RAM bitmap => {
            vec![("page validity bitmap", bitmap.ram_bytes())]
        })
    }
}

/// What only a bitmap in RAM can answer at once: content stages ask it page by page, and go together with no other store
/// yet.
impl AnyValidity {
    #[inline]
    fn ram(&self) -> &RamBitmap {
        match self {
            Self::Ram(bitmap) => bitmap,
            Self::Bitmap(_) | Self::Log(_) | Self::Gecko(_) => {
                panic!("validity of single pages is asked of a bitmap in RAM only")
            }
        }
    }

    /// The bitmap, where it is in RAM.
    #[inline]
    pub(crate) fn ram_mut(&mut self) -> Option<&mut RamBitmap> {
        if let Self::Ram(bitmap) = self { Some(bitmap) } else { None }
    }

    /// The page holds valid data from now on. Nothing to note on flash: pages are valid until called invalid.
    #[inline]
    pub(crate) fn set(&mut self, ppn: Ppn) {
        if let Self::Ram(bitmap) = self {
            bitmap.set(ppn);
        }
    }

    /// The page, which was called invalid, holds valid data again.
    pub(crate) fn revive(&mut self, ppn: Ppn) {
        on_flash!(self, store => store.revive(ppn), in RAM bitmap => bitmap.set(ppn));
    }

    /// The page's data is not needed any more.
    #[inline]
    pub(crate) fn clear(&mut self, ppn: Ppn) {
        self.invalidate(ppn);
    }

    /// As [`RamBitmap::set_range`]; nothing on flash.
    pub(crate) fn set_range(&mut self, first: Ppn, count: u32) {
        if let Self::Ram(bitmap) = self {
            bitmap.set_range(first, count);
        }
    }

    /// As [`RamBitmap::clear_range`], for pages of a block that is about to be erased; nothing on flash.
    pub(crate) fn clear_range(&mut self, first: Ppn, count: u32) {
        if let Self::Ram(bitmap) = self {
            bitmap.clear_range(first, count);
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
