//! Host interface of the drive: turns requests in sectors into logical pages.
//!
//! A request addresses bytes, in whole 512-byte sectors, and is split into logical pages here. A page that is only
//! partly written is completed with its stored sectors (read-modify-write): at once without a write buffer, at eviction
//! with one. The contract: a write is acknowledged when the call returns; [`Device::flush`] makes all acknowledged
//! writes durable, under the assumptions of the design ([`crate::design::Persistence`]).

#![expect(clippy::inline_always, reason = "measured: the way of a write costs a tenth less in one piece")]

use std::ops::Range;

use crate::address::{Lpn, RemapMode};
use crate::data::{Content, ContentDescriptor, Fingerprint, KnownContentSizes, UnknownSizeCounts};
use crate::design::Parts;
use crate::error::{Error, Result};
use crate::ftl::Ftl;
use crate::nand::{AnyNand, Nand};
use crate::operation::FlashOp;
use crate::recovery::RecoveryReport;
use crate::write_buffer::{BufferedPage, PageData, SectorMask, WriteBuffer, WriteBufferOptions};

/// Bytes per sector, the unit of host addresses.
pub const SECTOR_BYTES: u64 = 512;

/// Options of a drive other than those of its FTL.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceOptions {
    /// Size and eviction policy of the drive's write buffer.
    pub buffer: WriteBufferOptions,
}

/// Data of a host write request, as bytes or as content descriptors.
#[derive(Clone, Copy, Debug)]
pub enum HostData<'a> {
    /// The bytes to be written, as many as the request is long.
    Bytes(&'a [u8]),
    /// One content descriptor (fingerprint and sizes) per logical page that the request touches. Pages beyond the last
    /// descriptor have the content of the last.
    Descriptors(&'a [ContentDescriptor]),
}

/// The part of a host request that lies in one logical page.
#[derive(Clone, Copy, Debug)]
struct PagePiece {
    /// Logical page in which the piece lies.
    lpn: Lpn,
    /// Sectors of the logical page that the piece covers.
    mask: SectorMask,
    /// First byte of the piece, counted from the beginning of its logical page.
    first_byte_in_page: usize,
    /// Byte after the last byte of the piece, counted from the beginning of its logical page.
    end_byte_in_page: usize,
    /// First byte of the piece, counted from the beginning of the host request.
    first_byte_in_request: usize,
}

impl PagePiece {
    /// Returns the bytes of the piece, counted from the beginning of its logical page.
    fn range_in_page(&self) -> Range<usize> {
        self.first_byte_in_page..self.end_byte_in_page
    }

    /// Returns the bytes of the piece, counted from the beginning of the host request.
    fn range_in_request(&self) -> Range<usize> {
        let len = self.end_byte_in_page - self.first_byte_in_page;
        self.first_byte_in_request..self.first_byte_in_request + len
    }
}

/// A drive: a write buffer and an FTL over a flash medium.
#[derive(Clone, Debug)]
pub struct Device {
    /// FTL that stores the pages which leave the write buffer.
    ftl: Ftl,
    /// Write buffer, which absorbs overwrites; may be off.
    buffer: WriteBuffer,
    /// Size of a logical page, bytes.
    page_bytes: u64,
    /// Buffer of one page for the content of a flash page that is being read.
    page_scratch: Box<[u8]>,
    /// Counts of page writes that covered only some sectors of their page.
    partial_write_counts: PartialWriteCounts,
    /// Counts of page writes whose content has an unknown size because they were written in parts.
    unknown_size_counts: UnknownSizeCounts,
}

/// Counts of partial page writes: those that covered only some sectors of their page when they reached the FTL. Each
/// programs a whole page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PartialWriteCounts {
    /// Number of page writes that covered only some sectors of their page.
    pub partial_page_writes: u64,
    /// Number of partial page writes whose logical page held data, so that the page was read first (read-modify-write).
    pub read_modify_writes: u64,
}

impl PartialWriteCounts {
    /// Returns how many partial page writes were counted since `earlier`, an earlier reading of these counters.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            partial_page_writes: self.partial_page_writes - earlier.partial_page_writes,
            read_modify_writes: self.read_modify_writes - earlier.read_modify_writes,
        }
    }
}

impl Device {
    /// Creates an empty device of `logical_pages` pages on the erased medium `nand`, with the parts of an FTL design.
    ///
    /// # Errors
    /// The errors of [`Ftl::new`].
    pub fn new(
        nand: impl Into<AnyNand>,
        logical_pages: u32,
        parts: &Parts,
        options: DeviceOptions,
    ) -> Result<Self> {
        let nand = nand.into();
        let page_bytes = nand.geometry().page_bytes as u64;
        Ok(Self {
            ftl: Ftl::new(nand, logical_pages, parts)?,
            buffer: WriteBuffer::new(options.buffer, (page_bytes / SECTOR_BYTES) as u32),
            page_bytes,
            page_scratch: vec![0; page_bytes as usize].into(),
            partial_write_counts: PartialWriteCounts::default(),
            unknown_size_counts: UnknownSizeCounts::default(),
        })
    }

    /// Returns the FTL of the drive, for reading counters and audits.
    pub fn ftl(&self) -> &Ftl {
        &self.ftl
    }

    /// Returns the FTL of the drive, for changes of its options at run time.
    pub fn ftl_mut(&mut self) -> &mut Ftl {
        &mut self.ftl
    }

    /// Consumes the drive and returns its flash medium. All state in RAM is dropped, the write buffer included.
    pub fn into_nand(self) -> AnyNand {
        self.ftl.into_store().into_nand()
    }

    /// Returns the capacity that the drive exports to the host, bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.ftl.logical_pages() as u64 * self.page_bytes
    }

    /// Returns the number of page writes that the write buffer absorbed: their page was written again, or trimmed,
    /// while it was in the buffer.
    pub fn absorbed_writes(&self) -> u64 {
        self.buffer.absorbed_writes()
    }

    /// Returns the counts of page writes that covered only some sectors of their page, since the drive was built.
    pub fn partial_write_counts(&self) -> PartialWriteCounts {
        self.partial_write_counts
    }

    /// Returns the counts, since the drive was built, of page writes whose compressed size or delta size is unknown
    /// because the page was written in parts.
    pub fn unknown_size_counts(&self) -> UnknownSizeCounts {
        self.unknown_size_counts
    }

    /// Returns the number of pages in the write buffer.
    pub fn buffered_pages(&self) -> usize {
        self.buffer.len()
    }

    /// Returns whether logical page `lpn`, or a part of it, is in the write buffer.
    pub(crate) fn is_buffered(&self, lpn: Lpn) -> bool {
        self.buffer.get(lpn).is_some()
    }

    /// Returns the flash operations of the last host request; empty unless
    /// [`RequestOpLog::set_op_recording`](crate::stats::RequestOpLog::set_op_recording) is on.
    pub fn flash_ops_of_last_request(&self) -> &[FlashOp] {
        self.ftl.store().flash_ops.request_ops()
    }

    /// Returns the deferred flash operations of the last host request: those that the FTL started on its own and for
    /// which no request waits ([`RequestOpLog`](crate::stats::RequestOpLog)).
    pub fn deferred_flash_ops(&self) -> &[FlashOp] {
        self.ftl.store().flash_ops.deferred_ops()
    }

    /// Returns the RAM that a controller needs for this device, as one pair of name and bytes per data structure.
    pub fn ram_bytes_by_structure(&self) -> Vec<(&'static str, u64)> {
        let mut parts = self.ftl.ram_bytes_by_structure();
        if !self.buffer.is_off() {
            parts.push(("write buffer", self.buffer.ram_bytes()));
        }
        parts
    }

    /// Executes a host write of `len` bytes at byte `offset`, both multiples of the sector size.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::NotWholeSectors`], and the errors of
    /// [`Ftl::write`].
    ///
    /// # Panics
    /// If `data` has fewer bytes than `len`, or no descriptor. Also if it overwrites a part of a page whose other
    /// sectors are stored in the other form (bytes or descriptors).
    pub fn write(&mut self, offset: u64, len: u64, data: HostData<'_>) -> Result<()> {
        self.require_valid_range(offset, len)?;
        for (k, piece) in self.split_into_pages(offset, len).enumerate() {
            match data {
                HostData::Descriptors(descriptors) => {
                    let content = Content::Descriptor(descriptors[k.min(descriptors.len() - 1)]);
                    self.write_page_sectors(piece.lpn, PageData::from_content(content), piece.mask)?;
                }
                HostData::Bytes(bytes) => self.write_piece(piece, bytes)?,
            }
        }
        Ok(())
    }

    /// Executes the part of a host write that lies in one logical page; `bytes` are the data of the whole request.
    fn write_piece(&mut self, piece: PagePiece, bytes: &[u8]) -> Result<()> {
        let part = &bytes[piece.range_in_request()];
        if part.len() == self.page_scratch.len() && self.buffer.is_off() {
            return self.ftl.write(piece.lpn, Content::Bytes(part));
        }
        let mut page: Box<[u8]> = vec![0; self.page_scratch.len()].into();
        page[piece.range_in_page()].copy_from_slice(part);
        self.write_page_sectors(piece.lpn, PageData::Bytes(page), piece.mask)
    }

    /// Executes a host write of one whole page whose content `descriptor` describes: a faster path for the replay of
    /// page-aligned traces.
    ///
    /// # Errors
    /// The errors of [`Ftl::write`].
    #[inline(always)]
    pub fn write_page_descriptor(&mut self, lpn: Lpn, descriptor: ContentDescriptor) -> Result<()> {
        let content = Content::Descriptor(descriptor);
        if self.buffer.is_off() {
            return self.ftl.write(lpn, content);
        }
        self.write_page_sectors(
            lpn,
            PageData::from_content(content),
            SectorMask::of_sector_range(0, self.sectors_per_page()),
        )
    }

    /// Returns whether [`Device::write_pages_without_content`] is faster than repeated
    /// [`Device::write_page_descriptor`] for the design of this drive.
    #[inline]
    pub fn supports_write_batches(&self) -> bool {
        self.buffer.is_off() && self.ftl.supports_write_batches()
    }

    /// Executes host writes of whole pages in order, for designs that do not look at content. Returns the number of
    /// pages written before the first error, and the outcome.
    ///
    /// # Errors
    /// The errors of [`Ftl::write`].
    #[inline]
    pub fn write_pages_without_content(&mut self, lpns: &[Lpn]) -> (usize, Result<()>) {
        if self.buffer.is_off() {
            return self.ftl.write_page_batch(lpns);
        }
        let descriptor = ContentDescriptor::of_fingerprint(Fingerprint::ZERO_PAGE);
        let refused = lpns
            .iter()
            .zip(0..)
            .find_map(|(&lpn, k)| Some((k, self.write_page_descriptor(lpn, descriptor).err()?)));
        refused.map_or((lpns.len(), Ok(())), |(written, error)| (written, Err(error)))
    }

    /// Writes the sectors in `mask` of a logical page into the write buffer, from which a page may have to be evicted
    /// first, or to the FTL if there is no write buffer.
    fn write_page_sectors(&mut self, lpn: Lpn, data: PageData, mask: SectorMask) -> Result<()> {
        if self.buffer.is_off() {
            let known_content_sizes = data.known_content_sizes();
            return self.write_page_to_ftl(lpn, &data, mask, known_content_sizes);
        }
        if self.buffer.has_no_room_for(lpn) {
            self.evict_page()?;
        }
        self.buffer.insert_or_merge(lpn, data, mask);
        Ok(())
    }

    /// Evicts the page that the policy of the write buffer chooses, and writes it to the FTL.
    fn evict_page(&mut self) -> Result<()> {
        let page = self.buffer.take_next_to_evict();
        self.write_evicted_page(page)
    }

    /// Writes a page evicted from the write buffer to the FTL. If that fails, the page returns to the buffer, because
    /// its write was acknowledged. Exception: the buffer has only some sectors of the page, and its other sectors are
    /// uncorrectable on flash. Then the buffered sectors are dropped, so that they do not block all later evictions.
    /// The logical page reads as lost until it is overwritten as a whole.
    fn write_evicted_page(&mut self, page: Option<BufferedPage>) -> Result<()> {
        let Some(page) = page else { return Ok(()) };
        match self.write_page_to_ftl(page.lpn, &page.data, page.written_sectors, page.known_content_sizes) {
            Err(Error::LogicalPageLost { .. }) => Ok(()),
            stored => {
                if stored.is_err() {
                    self.buffer.reinsert(page);
                }
                stored
            }
        }
    }

    /// Writes the sectors of `lpn` in `mask` to the FTL, as a whole page. If `mask` is not the whole page, reads its
    /// other sectors from flash first. `known_content_sizes` states whether the compressed size and the delta size of
    /// at least a part of the content are known.
    fn write_page_to_ftl(
        &mut self,
        lpn: Lpn,
        data: &PageData,
        mask: SectorMask,
        known_content_sizes: KnownContentSizes,
    ) -> Result<()> {
        if mask.covers_all_sectors(self.sectors_per_page()) {
            self.unknown_size_counts.count_page_write(known_content_sizes, data.known_content_sizes());
            return self.ftl.write(lpn, data.content());
        }
        let whole = self.complete_partial_page(lpn, data, mask)?;
        self.unknown_size_counts.count_page_write(known_content_sizes, whole.known_content_sizes());
        self.partial_write_counts.partial_page_writes += 1;
        self.ftl.write(lpn, whole.content())
    }

    /// Reads the content of `lpn` that the FTL stores, and returns it with the sectors in `mask` overwritten by `data`.
    fn complete_partial_page(&mut self, lpn: Lpn, data: &PageData, mask: SectorMask) -> Result<PageData> {
        let Self { ftl, page_scratch: page, partial_write_counts: partial, .. } = self;
        partial.read_modify_writes += u64::from(ftl.read_for_modify(lpn, page)?);
        let mut whole = match data {
            PageData::Bytes(_) => PageData::Bytes(page.clone()),
            PageData::Descriptor(_) => {
                let old = ftl.current_fingerprint_of(lpn, &[])?.unwrap_or(Fingerprint::ZERO_PAGE);
                PageData::Descriptor(ContentDescriptor::of_fingerprint(old))
            }
        };
        whole.overwrite_sectors(data, mask);
        Ok(whole)
    }

    /// Splits a range of bytes into three lengths, bytes: before its first whole page, of its whole pages, and after the
    /// last. Of a range without a whole page, the bytes up to the first page boundary are the first length, and the rest
    /// is the third.
    pub fn split_at_page_boundaries(&self, offset: u64, len: u64) -> [u64; 3] {
        let before = (offset.next_multiple_of(self.page_bytes) - offset).min(len);
        let whole = (len - before) / self.page_bytes * self.page_bytes;
        [before, whole, len - before - whole]
    }

    /// Executes a host read of `len` bytes at byte `offset`, both multiples of the sector size. On a medium that keeps
    /// bytes, `into` receives them; it may be empty if the caller does not need them. Pages that were never written, or
    /// were trimmed, read as zeros.
    ///
    /// # Errors
    /// The errors of [`Device::write`], and uncorrectable pages.
    pub fn read(&mut self, offset: u64, len: u64, into: &mut [u8]) -> Result<()> {
        self.require_valid_range(offset, len)?;
        let is_whole_pages = offset.is_multiple_of(self.page_bytes) && len.is_multiple_of(self.page_bytes);
        if is_whole_pages && !into.is_empty() && self.buffer.len() == 0 {
            return self.ftl.read_pages(Lpn((offset / self.page_bytes) as u32), into);
        }
        for piece in self.split_into_pages(offset, len) {
            self.read_piece(piece, into)?;
        }
        Ok(())
    }

    /// Reads the part of a host read that lies in one logical page, from the write buffer or from flash. Copies it to
    /// its position in `into`, the bytes of the whole request; `into` is empty if the bytes are not needed.
    fn read_piece(&mut self, piece: PagePiece, into: &mut [u8]) -> Result<()> {
        let wanted = !into.is_empty();
        let buffered =
            self.buffer.get(piece.lpn).filter(|page| page.written_sectors.0 & piece.mask.0 == piece.mask.0);
        if let Some(page) = buffered {
            if let (PageData::Bytes(bytes), true) = (&page.data, wanted) {
                into[piece.range_in_request()].copy_from_slice(&bytes[piece.range_in_page()]);
            }
            return Ok(());
        }
        let mut page = std::mem::take(&mut self.page_scratch);
        let read = self.ftl.read(piece.lpn, if wanted { &mut page } else { &mut [] });
        if wanted {
            self.overlay_buffered_sectors(piece.lpn, &mut page);
            into[piece.range_in_request()].copy_from_slice(&page[piece.range_in_page()]);
        }
        self.page_scratch = page;
        read.map(|_| ())
    }

    /// Overwrites the sectors of `page` that are in the write buffer with the buffered ones; `page` is the content of
    /// `lpn` as read from flash.
    fn overlay_buffered_sectors(&self, lpn: Lpn, page: &mut Box<[u8]>) {
        let Some(buffered) = self.buffer.get(lpn) else { return };
        let mut merged = PageData::Bytes(std::mem::take(page));
        merged.overwrite_sectors(&buffered.data, buffered.written_sectors);
        if let PageData::Bytes(bytes) = merged {
            *page = bytes;
        }
    }

    /// Deallocates the logical pages that lie completely inside the `len` bytes at byte `offset` (TRIM). Pages partly
    /// inside keep their data.
    ///
    /// # Errors
    /// The errors of [`Device::write`].
    pub fn trim(&mut self, offset: u64, len: u64) -> Result<()> {
        self.require_valid_range(offset, len)?;
        let page_bytes = self.page_bytes;
        let (first, end) = (offset.div_ceil(page_bytes), (offset + len) / page_bytes);
        let pages = end.saturating_sub(first) as u32;
        for lpn in (first as u32..).take(pages as usize).map(Lpn) {
            self.buffer.discard_trimmed_page(lpn);
        }
        self.ftl.trim_range(Lpn(first as u32), pages)
    }

    /// Gives the `len` bytes at `target_offset_bytes` the contents of those at `source_offset_bytes` (a remap command),
    /// by changing the L2P table if the design can.
    ///
    /// A source page that holds nothing deallocates its target. A page that is its own source is unchanged. Ranges may
    /// overlap: the result is as if the source had been copied before. Buffered pages of both ranges are written to the
    /// FTL first. Atomic if the design says so ([`Ftl::remap_pages`]); otherwise pages that were remapped before an
    /// error stay remapped.
    ///
    /// # Errors
    /// [`Error::NotWholePages`], [`Error::OutOfRange`], and the errors of [`Ftl::remap_pages`].
    pub fn remap(
        &mut self,
        target_offset_bytes: u64,
        source_offset_bytes: u64,
        len: u64,
        mode: RemapMode,
    ) -> Result<()> {
        let page_bytes = self.page_bytes;
        self.ftl.pages_remapped_by_last_command = 0;
        if [target_offset_bytes, source_offset_bytes, len]
            .iter()
            .any(|bytes| !bytes.is_multiple_of(page_bytes))
        {
            return Err(Error::NotWholePages { target_offset_bytes, source_offset_bytes, len, page_bytes });
        }
        self.require_valid_range(target_offset_bytes, len)?;
        self.require_valid_range(source_offset_bytes, len)?;
        let page = |offset: u64| (offset / page_bytes) as u32;
        let (target, source, pages) = (page(target_offset_bytes), page(source_offset_bytes), page(len));
        self.write_out_buffered_range(target, pages)?;
        self.write_out_buffered_range(source, pages)?;
        self.ftl.remap_pages(Lpn(target), Lpn(source), pages, mode)?;
        self.ftl.pages_remapped_by_last_command = 0;
        Ok(())
    }

    /// Returns which part of a remap command was executed before the command failed: the offset within the `len` bytes
    /// of the command, and the number of bytes. A further call returns an empty part. The page that failed may be
    /// written to its target already, and not yet deallocated at its source. After a command that did not fail the part
    /// is empty.
    pub fn take_executed_part_of_failed_remap(
        &mut self,
        target_offset_bytes: u64,
        source_offset_bytes: u64,
        len: u64,
    ) -> (u64, u64) {
        let done = std::mem::take(&mut self.ftl.pages_remapped_by_last_command);
        let bytes = u64::from(done) * self.page_bytes;
        // The order of the pages is that of `Ftl::remap_pages`.
        let is_ascending = target_offset_bytes <= source_offset_bytes;
        (if is_ascending { 0 } else { len.saturating_sub(bytes) }, bytes)
    }

    /// Writes those pages of the write buffer to the FTL that are among the `pages` logical pages beginning with
    /// `first`, and removes them from the buffer.
    fn write_out_buffered_range(&mut self, first: u32, pages: u32) -> Result<()> {
        if self.buffer.len() == 0 {
            return Ok(());
        }
        for lpn in (first..first + pages).map(Lpn) {
            let page = self.buffer.remove(lpn);
            self.write_evicted_page(page)?;
        }
        Ok(())
    }

    /// Makes every acknowledged write durable: writes the write buffer to the FTL and flushes the FTL.
    ///
    /// # Errors
    /// The errors of [`Ftl::write`].
    pub fn flush(&mut self) -> Result<()> {
        self.write_out_buffer()?;
        self.ftl.flush()
    }

    /// Writes all pages of the write buffer to the FTL, but does not flush the FTL.
    ///
    /// # Errors
    /// The errors of [`Ftl::write`].
    pub fn write_out_buffer(&mut self) -> Result<()> {
        while self.buffer.len() > 0 {
            self.evict_page()?;
        }
        Ok(())
    }

    /// Recovers the device after a power loss: drops the write buffer and recovers the FTL. May be called again if
    /// power is lost during recovery.
    ///
    /// # Errors
    /// The errors of [`Ftl::recover`].
    pub fn recover(&mut self) -> Result<RecoveryReport> {
        self.buffer.discard_on_power_loss();
        self.ftl.recover()
    }

    /// Returns the number of 512-byte sectors in a logical page.
    fn sectors_per_page(&self) -> u32 {
        (self.page_bytes / SECTOR_BYTES) as u32
    }

    /// Returns an error unless offset and length are whole sectors and the range lies within the capacity of the drive.
    fn require_valid_range(&self, offset: u64, len_bytes: u64) -> Result<()> {
        if !offset.is_multiple_of(SECTOR_BYTES) || !len_bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(Error::NotWholeSectors {
                offset_bytes: offset,
                len_bytes,
                sector_bytes: SECTOR_BYTES,
            });
        }
        match offset.checked_add(len_bytes) {
            Some(end) if end <= self.capacity_bytes() => Ok(()),
            _ => Err(Error::OutOfRange {
                lpn: offset.saturating_add(len_bytes.max(1) - 1) / self.page_bytes,
                pages: self.ftl.logical_pages(),
                page_bytes: self.page_bytes as u32,
            }),
        }
    }

    /// Splits a valid request of `len` bytes at byte `offset` into its pieces, one per logical page, in order.
    fn split_into_pages(&self, offset: u64, len: u64) -> impl Iterator<Item = PagePiece> + use<> {
        let page_bytes = self.page_bytes;
        let end = offset + len;
        let pages = if len == 0 { 0..0 } else { offset / page_bytes..end.div_ceil(page_bytes) };
        pages.map(move |page| {
            let start = page * page_bytes;
            let (from, to) = (offset.max(start), end.min(start + page_bytes));
            let sector = |byte: u64| ((byte - start) / SECTOR_BYTES) as u32;
            PagePiece {
                lpn: Lpn(page as u32),
                mask: SectorMask::of_sector_range(sector(from), sector(to)),
                first_byte_in_page: (from - start) as usize,
                end_byte_in_page: (to - start) as usize,
                first_byte_in_request: (from - offset) as usize,
            }
        })
    }
}
