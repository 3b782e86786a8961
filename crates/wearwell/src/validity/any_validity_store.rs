//! A validity store of any kind: the record of which data pages of a device are invalid, of the kind that is chosen
//! when the device is built. Also the operations that recovery needs of every kind.

#![expect(clippy::inline_always, reason = "measured: the way of a write costs a tenth less in one piece")]

use super::{
    FlashBitmap, FlashBitmapOptions, Gecko, GeckoOptions, RamBitmap, ValidityLog, ValidityLogOptions,
    ValidityStore, ValidityStoreWithRevivedPages,
};
use crate::address::{BlockId, Ppn};
use crate::error::Result;
use crate::nand::Oob;
use crate::store::FlashPageStore;

/// Choice of how a device records which of its data pages are valid, in RAM or on flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ValidityStoreKind {
    /// Validity of data pages is a bitmap in RAM, one bit per page.
    #[default]
    Ram,
    /// Validity of data pages is a bitmap on flash, one bit per page, in bitmap pages.
    Bitmap(FlashBitmapOptions),
    /// Validity of data pages is a log of invalid pages on flash, chained by block (IB-FTL); its length is bounded by
    /// the number of spare pages of the device.
    Log,
    /// Validity of data pages is Logarithmic Gecko: a log-structured merge tree of invalid pages on flash.
    Gecko(GeckoOptions),
}

/// Record of which data pages of a device are invalid, in RAM or on flash.
#[derive(Clone, Debug)]
pub enum AnyValidityStore {
    /// A bitmap in RAM, one bit per page: valid or invalid.
    Ram(RamBitmap),
    /// A bitmap on flash, one bit per page, in bitmap pages.
    Bitmap(Box<ValidityStoreWithRevivedPages<FlashBitmap>>),
    /// A log of invalid pages on flash, chained by block (IB-FTL).
    Log(Box<ValidityStoreWithRevivedPages<ValidityLog>>),
    /// Logarithmic Gecko: a log-structured merge tree of invalid pages on flash.
    Gecko(Box<ValidityStoreWithRevivedPages<Gecko>>),
}

/// Evaluates one expression for a validity store on flash, another for the bitmap in RAM.
macro_rules! match_ram_or_flash {
    ($self:ident, $store:ident => $call:expr, in RAM $bitmap:ident => $in_ram:expr) => {
        match $self {
            AnyValidityStore::Ram($bitmap) => $in_ram,
            AnyValidityStore::Bitmap($store) => $call,
            AnyValidityStore::Log($store) => $call,
            AnyValidityStore::Gecko($store) => $call,
        }
    };
}

impl AnyValidityStore {
    /// Creates the record of invalid data pages for a device without data, in RAM or on flash as `kind` selects.
    ///
    /// # Errors
    /// [`Error::InvalidOptions`](crate::Error::InvalidOptions) if flash pages are too small for the validity store.
    pub(crate) fn new(store: &FlashPageStore, logical_pages: u32, kind: ValidityStoreKind) -> Result<Self> {
        let geometry = store.geometry();
        let physical_minus_logical_pages = geometry.pages().saturating_sub(u64::from(logical_pages));
        Ok(match kind {
            ValidityStoreKind::Ram => Self::Ram(RamBitmap::new(geometry.pages())),
            ValidityStoreKind::Bitmap(options) => Self::Bitmap(Box::new(ValidityStoreWithRevivedPages::new(
                FlashBitmap::new(geometry, options),
                geometry,
            ))),
            ValidityStoreKind::Log => {
                let log = ValidityLog::new(geometry, ValidityLogOptions { physical_minus_logical_pages })?;
                Self::Log(Box::new(ValidityStoreWithRevivedPages::new(log, geometry)))
            }
            ValidityStoreKind::Gecko(options) => Self::Gecko(Box::new(ValidityStoreWithRevivedPages::new(
                Gecko::new(geometry, options)?,
                geometry,
            ))),
        })
    }

    /// Returns the number of reported invalid pages after which the record of invalid pages writes its buffer in RAM to
    /// flash; 1 if it has no buffer.
    #[inline]
    pub(crate) fn invalid_page_reports_per_flush(&self) -> u32 {
        match self {
            Self::Ram(_) | Self::Bitmap(_) => 1,
            Self::Log(log) => log.entries_per_log_page(),
            Self::Gecko(gecko) => gecko.validity_reports_per_flush(),
        }
    }

    /// Returns the sequence number up to which the record of invalid pages is durable: every page invalidated while
    /// [`FlashPageStore::last_sequence`] was at most this number is recorded on flash. Recovery has to find those
    /// invalidated later.
    #[inline]
    pub(crate) fn durable_until_sequence(&self) -> u64 {
        match self {
            Self::Ram(_) | Self::Bitmap(_) => 0,
            Self::Log(log) => log.reports_durable_before_sequence().saturating_sub(1),
            Self::Gecko(gecko) => gecko.durable_until_sequence(),
        }
    }

    /// During recovery, discards the newest pages of the validity log whose reports of invalid pages this recovery will
    /// make again. Called once blocks are reported as opened, before any page is reported as invalid.
    ///
    /// # Errors
    /// Any error of the flash.
    pub(crate) fn drop_invalid_page_reports_to_be_repeated(&mut self, io: &mut FlashPageStore) -> Result<()> {
        match self {
            Self::Ram(_) | Self::Bitmap(_) | Self::Gecko(_) => Ok(()),
            Self::Log(log) => log.drop_useless_newest_pages(io),
        }
    }

    /// Writes the record of invalid pages to flash, as far as its writes were deferred, while a device is built
    /// directly in a given state (without executing host writes). A bitmap on flash is written only when many invalid
    /// pages wait for their bits, so that its pages are not written again and again.
    pub(crate) fn write_deferred_validity_during_device_setup(
        &mut self,
        io: &mut FlashPageStore,
    ) -> Result<()> {
        /// Minimum number of invalid pages, waiting in RAM for their bits in the bitmap on flash, at which a bitmap
        /// page is written with the bits of all that wait for it. Each write searches all waiting pages.
        const MIN_WAITING_PAGES_PER_BITMAP_WRITE: usize = 1 << 14;
        match self {
            Self::Ram(_) | Self::Gecko(_) => Ok(()),
            Self::Bitmap(bitmap)
                if bitmap.waiting_invalid_page_count() < MIN_WAITING_PAGES_PER_BITMAP_WRITE =>
            {
                Ok(())
            }
            Self::Bitmap(bitmap) => bitmap.write_back_step(io).map(drop),
            Self::Log(_) => self.write_all_deferred_validity_pages(io),
        }
    }

    /// Writes all records of invalid pages from RAM to flash, at the end of the construction of a device. Logarithmic
    /// Gecko writes all of them as one sorted run.
    pub(crate) fn write_records_after_device_setup(&mut self, io: &mut FlashPageStore) -> Result<()> {
        if let Self::Bitmap(bitmap) = self {
            while bitmap.write_back_step(io)? {}
        }
        self.write_all_deferred_validity_pages(io)
    }

    /// Writes all flash pages of the record of invalid pages whose writes were deferred.
    fn write_all_deferred_validity_pages(&mut self, io: &mut FlashPageStore) -> Result<()> {
        while self.execute_next_deferred_validity_write(io)? {}
        Ok(())
    }

    /// Whether an invalid page, or the opening of a block, is recorded only in RAM and would be lost with it. Always
    /// `false` for a bitmap in RAM.
    #[inline]
    pub(crate) fn has_unwritten_records(&self) -> bool {
        match self {
            Self::Ram(_) => false,
            Self::Bitmap(bitmap) => bitmap.has_unwritten_records(),
            Self::Log(log) => log.has_unwritten_records(),
            Self::Gecko(gecko) => gecko.unflushed_validity_report_count() > 0,
        }
    }

    /// Writes the buffered records of invalid pages to flash although they do not fill a page. Logarithmic Gecko only
    /// requests the write. A page may be written even without new records, because it advances
    /// [`AnyValidityStore::durable_until_sequence`], which recovery reads from flash.
    pub(crate) fn flush_validity_buffer(&mut self, io: &mut FlashPageStore) -> Result<()> {
        match self {
            Self::Ram(_) => Ok(()),
            Self::Bitmap(bitmap) => bitmap.write_back_step(io).map(drop),
            Self::Log(log) => log.write_log_page(io),
            Self::Gecko(gecko) => {
                gecko.request_flush();
                Ok(())
            }
        }
    }

    /// Rebuilds the record of invalid pages from its `pages` on flash after a loss of RAM. `opened_at` returns the
    /// sequence number of the last program before a block was opened for data, [`u64::MAX`] for a block that holds no
    /// data.
    pub(crate) fn recover(
        &mut self,
        io: &mut FlashPageStore,
        pages: &[(Ppn, Oob)],
        opened_at: impl Fn(BlockId) -> u64,
    ) -> Result<()> {
        match_ram_or_flash!(self, store => store.drop_revived_pages(), in RAM _bitmap => {});
        match self {
            Self::Ram(bitmap) => *bitmap = RamBitmap::new(io.geometry().pages()),
            Self::Bitmap(bitmap) => bitmap.recover(pages),
            Self::Log(log) => log.recover(io, pages, opened_at, |_, _| {})?,
            Self::Gecko(gecko) => gecko.recover(io, pages)?,
        }
        Ok(())
    }

    /// Calls `each` for every block that has invalid pages, with a bitmap of these pages. Reads each flash page of the
    /// record of invalid pages at most once. Does nothing for a bitmap in RAM.
    pub(crate) fn for_each_block_with_invalid_pages(
        &mut self,
        io: &mut FlashPageStore,
        each: impl FnMut(BlockId, &[u64]),
    ) -> Result<()> {
        match_ram_or_flash!(self, store => store.for_each_block_with_invalid_pages(io, each), in RAM _bitmap => Ok(()))
    }

    /// Whether the record of invalid pages is on flash, so that queries cost flash reads.
    #[inline]
    pub fn is_on_flash(&self) -> bool {
        !matches!(self, Self::Ram(_))
    }
}

impl ValidityStore for AnyValidityStore {
    #[inline(always)]
    fn invalidate(&mut self, ppn: Ppn) {
        match_ram_or_flash!(self, store => store.invalidate(ppn), in RAM bitmap => bitmap.mark_invalid(ppn));
    }

    fn record_block_opened(&mut self, block: BlockId) {
        match_ram_or_flash!(self, store => store.record_block_opened(block), in RAM _bitmap => {});
    }

    fn append_valid_pages(
        &mut self,
        io: &mut FlashPageStore,
        block: BlockId,
        out: &mut Vec<Ppn>,
    ) -> Result<()> {
        match_ram_or_flash!(self, store => store.append_valid_pages(io, block, out), in RAM bitmap => {
            let (first, pages) = (io.geometry().first_page(block), io.geometry().block_pages());
            bitmap.append_valid_pages(first, pages, out);
            Ok(())
        })
    }

    #[inline(always)]
    fn execute_next_deferred_validity_write(&mut self, io: &mut FlashPageStore) -> Result<bool> {
        match_ram_or_flash!(self, store => store.execute_next_deferred_validity_write(io), in RAM _bitmap => Ok(false))
    }

    fn holds_current_metadata_page(&self, id: u32, ppn: Ppn) -> bool {
        match_ram_or_flash!(self, store => store.holds_current_metadata_page(id, ppn), in RAM _bitmap => false)
    }

    fn record_metadata_page_move(&mut self, id: u32, from: Ppn, to: Ppn) {
        match_ram_or_flash!(self, store => store.record_metadata_page_move(id, from, to), in RAM _bitmap => {
            unreachable!("a bitmap in RAM has no pages")
        });
    }

    #[inline]
    fn max_page_writes_per_deferred_step(&self) -> u32 {
        match_ram_or_flash!(self, store => store.max_page_writes_per_deferred_step(), in RAM _bitmap => 0)
    }

    fn max_metadata_pages(&self) -> u64 {
        match_ram_or_flash!(self, store => store.max_metadata_pages(), in RAM _bitmap => 0)
    }

    fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        match_ram_or_flash!(self, store => store.ram_bytes_by_structure(), in RAM bitmap => {
            vec![("page validity bitmap", bitmap.ram_bytes())]
        })
    }
}

/// Operations on single pages, which a validity bitmap in RAM supports directly. For validity on flash, queries of
/// single pages panic, and marking pages as valid does nothing, because pages are valid there until they are reported
/// as invalid.
impl AnyValidityStore {
    /// Returns the validity bitmap in RAM. Panics if validity is recorded on flash.
    #[inline]
    fn ram_bitmap(&self) -> &RamBitmap {
        match self {
            Self::Ram(bitmap) => bitmap,
            Self::Bitmap(_) | Self::Log(_) | Self::Gecko(_) => {
                panic!("only a page-validity bitmap in RAM can tell the validity of a single page")
            }
        }
    }

    /// Returns the validity bitmap in RAM; `None` if validity is recorded on flash.
    #[inline]
    pub(crate) fn as_ram_bitmap_mut(&mut self) -> Option<&mut RamBitmap> {
        if let Self::Ram(bitmap) = self { Some(bitmap) } else { None }
    }

    /// Marks the page as valid in a bitmap in RAM. Validity on flash records nothing: pages are valid there until they
    /// are reported as invalid.
    #[inline]
    pub(crate) fn mark_valid_in_ram(&mut self, ppn: Ppn) {
        if let Self::Ram(bitmap) = self {
            bitmap.mark_valid(ppn);
        }
    }

    /// Marks an invalid page as valid again, because recycling reuses the page for a write with the same content.
    pub(crate) fn revive(&mut self, ppn: Ppn) {
        match_ram_or_flash!(self, store => store.revive(ppn), in RAM bitmap => bitmap.mark_valid(ppn));
    }

    /// Marks `count` pages from `first` on as valid, in a bitmap in RAM. Validity on flash records nothing.
    pub(crate) fn mark_range_valid_in_ram(&mut self, first: Ppn, count: u32) {
        if let Self::Ram(bitmap) = self {
            bitmap.mark_range_valid(first, count);
        }
    }

    /// Marks `count` pages from `first` on as invalid, in a bitmap in RAM, because their block is about to be erased.
    /// Validity on flash records nothing.
    pub(crate) fn mark_range_invalid_in_ram(&mut self, first: Ppn, count: u32) {
        if let Self::Ram(bitmap) = self {
            bitmap.mark_range_invalid(first, count);
        }
    }

    /// Whether the page is valid according to the bitmap in RAM. Panics if validity is recorded on flash.
    #[inline]
    pub(crate) fn is_valid(&self, ppn: Ppn) -> bool {
        self.ram_bitmap().is_valid(ppn)
    }

    /// Appends to `out` the valid pages among `count` pages from `first` on. Panics if validity is recorded on flash.
    pub(crate) fn append_valid_pages_in_ram(&self, first: Ppn, count: u32, out: &mut Vec<Ppn>) {
        self.ram_bitmap().append_valid_pages(first, count, out);
    }

    /// Returns the number of valid pages among `count` pages from `first` on. Panics if validity is recorded on flash.
    pub(crate) fn count_valid_pages(&self, first: Ppn, count: u32) -> u32 {
        self.ram_bitmap().count_valid_pages(first, count)
    }
}
