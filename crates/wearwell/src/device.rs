//! The host's view: sectors in, pages out.
//!
//! A request names bytes, in whole 512-byte sectors. It is split into logical pages here; a page that is only partly
//! written is completed with what the device holds (read-modify-write), at once without a buffer, at eviction with
//! one. The contract: a write is acknowledged when the call returns; [`Device::flush`] makes everything
//! acknowledged before it durable, under the assumptions of the design ([`crate::design::Persistence`]).

#![expect(clippy::inline_always, reason = "measured: the way of a write costs a tenth less in one piece")]

use crate::address::{Lpn, RemapMode};
use crate::data::{Content, Descriptor, Fingerprint};
use crate::design::Parts;
use crate::error::{Error, Result};
use crate::ftl::Ftl;
use crate::nand::Nand;
use crate::operation::FlashOp;
use crate::recovery::RecoveryReport;
use crate::write_buffer::{BufferOptions, Buffered, PageData, SectorMask, WriteBuffer};

/// Bytes of a sector, the unit of host addresses.
pub const SECTOR_BYTES: u64 = 512;

/// The device around the FTL.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceOptions {
    /// Write buffer.
    pub buffer: BufferOptions,
}

/// Payload of a write request.
#[derive(Clone, Copy, Debug)]
pub enum HostData<'a> {
    /// The bytes, as long as the request.
    Bytes(&'a [u8]),
    /// One descriptor per page touched.
    Descriptors(&'a [Descriptor]),
}

/// Part of a request that falls into one page.
#[derive(Clone, Copy, Debug)]
struct Piece {
    lpn: Lpn,
    mask: SectorMask,
    /// Byte range within the page, and where it starts in the request.
    from: usize,
    to: usize,
    at: usize,
}

/// A drive: write buffer and FTL over a medium.
#[derive(Clone, Debug)]
pub struct Device<N> {
    ftl: Ftl<N>,
    buffer: WriteBuffer,
    page_bytes: u64,
    page: Box<[u8]>,
    partial: PartialWrites,
}

/// Page writes that covered only a part of their page when they reached the FTL: each programs a whole page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PartialWrites {
    /// Such page writes.
    pub pages: u64,
    /// Those of them whose page held data, which was read first (read-modify-write).
    pub completed: u64,
}

impl PartialWrites {
    /// Those since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { pages: self.pages - earlier.pages, completed: self.completed - earlier.completed }
    }
}

impl<N: Nand> Device<N> {
    /// A formatted device of `logical_pages`.
    ///
    /// # Errors
    /// As [`Ftl::new`].
    pub fn new(nand: N, logical_pages: u32, parts: &Parts, options: DeviceOptions) -> Result<Self> {
        let page_bytes = nand.geometry().page_bytes as u64;
        Ok(Self {
            ftl: Ftl::new(nand, logical_pages, parts)?,
            buffer: WriteBuffer::new(options.buffer, (page_bytes / SECTOR_BYTES) as u32),
            page_bytes,
            page: vec![0; page_bytes as usize].into(),
            partial: PartialWrites::default(),
        })
    }

    /// The FTL inside, for counters and audits.
    pub fn ftl(&self) -> &Ftl<N> {
        &self.ftl
    }

    /// The FTL inside, for switches at run time.
    pub fn ftl_mut(&mut self) -> &mut Ftl<N> {
        &mut self.ftl
    }

    /// Takes the medium out; everything in RAM is dropped.
    pub fn into_nand(self) -> N {
        self.ftl.into_store().into_nand()
    }

    /// Bytes the host sees.
    pub fn bytes(&self) -> u64 {
        self.ftl.logical_pages() as u64 * self.page_bytes
    }

    /// Page writes that the buffer absorbed.
    pub fn absorbed_writes(&self) -> u64 {
        self.buffer.absorbed()
    }

    /// Page writes of parts of pages since the device was built.
    pub fn partial_writes(&self) -> PartialWrites {
        self.partial
    }

    /// Pages in the buffer.
    pub fn buffered_pages(&self) -> usize {
        self.buffer.len()
    }

    /// Whether a page, or a part of it, is in the buffer.
    pub(crate) fn is_buffered(&self, lpn: Lpn) -> bool {
        self.buffer.get(lpn).is_some()
    }

    /// Flash operations of the last request, if the operation list listens.
    pub fn ops(&self) -> &[FlashOp] {
        self.ftl.store().ops.as_slice()
    }

    /// Flash operations that the FTL started meanwhile and that no request waits for; see [`OpList`](crate::stats::OpList).
    pub fn deferred_ops(&self) -> &[FlashOp] {
        self.ftl.store().ops.deferred()
    }

    /// Bytes of RAM a controller holds for this device, by structure.
    pub fn ram_bytes(&self) -> Vec<(&'static str, u64)> {
        let mut parts = self.ftl.ram_bytes();
        if !self.buffer.is_off() {
            parts.push(("write buffer", self.buffer.ram_bytes()));
        }
        parts
    }

    /// Writes `len` bytes at `offset`, both in whole sectors.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Options`] for a request that is not whole sectors, what [`Ftl::write`] says.
    pub fn write(&mut self, offset: u64, len: u64, data: HostData<'_>) -> Result<()> {
        self.require_request(offset, len)?;
        for (k, piece) in self.pieces(offset, len).enumerate() {
            match data {
                HostData::Descriptors(descriptors) => {
                    let content = Content::Descriptor(descriptors[k.min(descriptors.len() - 1)]);
                    self.write_piece(piece.lpn, PageData::of(content), piece.mask)?;
                }
                HostData::Bytes(bytes) => self.write_bytes(piece, bytes)?,
            }
        }
        Ok(())
    }

    fn write_bytes(&mut self, piece: Piece, bytes: &[u8]) -> Result<()> {
        let part = &bytes[piece.at..piece.at + piece.to - piece.from];
        if part.len() == self.page.len() && self.buffer.is_off() {
            return self.ftl.write(piece.lpn, Content::Bytes(part));
        }
        let mut page: Box<[u8]> = vec![0; self.page.len()].into();
        page[piece.from..piece.to].copy_from_slice(part);
        self.write_piece(piece.lpn, PageData::Bytes(page), piece.mask)
    }

    /// Writes one whole page: the short way for replay of page-aligned traces.
    ///
    /// # Errors
    /// What [`Ftl::write`] says.
    #[inline(always)]
    pub fn write_page(&mut self, lpn: Lpn, descriptor: Descriptor) -> Result<()> {
        let content = Content::Descriptor(descriptor);
        if self.buffer.is_off() {
            return self.ftl.write(lpn, content);
        }
        self.write_piece(lpn, PageData::of(content), SectorMask::range(0, self.page_sectors()))
    }

    /// Whether [`Device::write_pages`] is faster than [`Device::write_page`].
    #[inline]
    pub fn writes_in_runs(&self) -> bool {
        self.buffer.is_off() && self.ftl.writes_in_runs()
    }

    /// Writes whole pages in order, with content that the design does not look at; how many before the outcome.
    ///
    /// # Errors
    /// What [`Ftl::write`] says.
    #[inline]
    pub fn write_pages(&mut self, lpns: &[Lpn]) -> (usize, Result<()>) {
        if self.buffer.is_off() {
            return self.ftl.write_run(lpns);
        }
        let descriptor = Descriptor::of(Fingerprint::ZERO_PAGE);
        let refused =
            lpns.iter().zip(0..).find_map(|(&lpn, k)| Some((k, self.write_page(lpn, descriptor).err()?)));
        refused.map_or((lpns.len(), Ok(())), |(written, error)| (written, Err(error)))
    }

    fn write_piece(&mut self, lpn: Lpn, data: PageData, mask: SectorMask) -> Result<()> {
        if self.buffer.is_off() {
            return self.store_page(lpn, &data, mask);
        }
        if self.buffer.is_full_for(lpn) {
            self.evict()?;
        }
        self.buffer.put(lpn, data, mask);
        Ok(())
    }

    /// Writes the oldest page of the buffer out.
    fn evict(&mut self) -> Result<()> {
        let page = self.buffer.take_oldest();
        self.write_out(page)
    }

    /// Writes a page of the buffer out. If that fails the page stays: it was acknowledged. A part of a page whose rest is
    /// lost is dropped instead: the logical page reads as lost until it is overwritten as a whole, and holds up nobody.
    fn write_out(&mut self, page: Option<Buffered>) -> Result<()> {
        let Some(page) = page else { return Ok(()) };
        match self.store_page(page.lpn, &page.data, page.mask) {
            Err(Error::Lost { .. }) => Ok(()),
            stored => {
                if stored.is_err() {
                    self.buffer.put_back(page);
                }
                stored
            }
        }
    }

    /// Hands a page to the FTL, completed if only a part of it was written.
    fn store_page(&mut self, lpn: Lpn, data: &PageData, mask: SectorMask) -> Result<()> {
        if mask.is_full(self.page_sectors()) {
            return self.ftl.write(lpn, data.content());
        }
        let whole = self.complete(lpn, data, mask)?;
        self.partial.pages += 1;
        self.ftl.write(lpn, whole.content())
    }

    /// The page as the FTL holds it, with the written sectors laid over it.
    fn complete(&mut self, lpn: Lpn, data: &PageData, mask: SectorMask) -> Result<PageData> {
        let Self { ftl, page, partial, .. } = self;
        partial.completed += u64::from(ftl.read_for_modify(lpn, page)?);
        let mut whole = match data {
            PageData::Bytes(_) => PageData::Bytes(page.clone()),
            PageData::Descriptor(_) => {
                let old = ftl.fingerprint_of(lpn)?.unwrap_or(Fingerprint::ZERO_PAGE);
                PageData::Descriptor(Descriptor::of(old))
            }
        };
        whole.overlay(data, mask);
        Ok(whole)
    }

    /// Reads `len` bytes at `offset`, both in whole sectors. `into` receives them on a medium that keeps bytes and
    /// may be empty; pages never written, or trimmed, read as zeros.
    ///
    /// # Errors
    /// As [`Device::write`]; uncorrectable pages.
    pub fn read(&mut self, offset: u64, len: u64, into: &mut [u8]) -> Result<()> {
        self.require_request(offset, len)?;
        let is_whole_pages = offset.is_multiple_of(self.page_bytes) && len.is_multiple_of(self.page_bytes);
        if is_whole_pages && !into.is_empty() && self.buffer.len() == 0 {
            return self.ftl.read_pages(Lpn((offset / self.page_bytes) as u32), into);
        }
        for piece in self.pieces(offset, len) {
            self.read_piece(piece, into)?;
        }
        Ok(())
    }

    fn read_piece(&mut self, piece: Piece, into: &mut [u8]) -> Result<()> {
        let wanted = !into.is_empty();
        let buffered = self.buffer.get(piece.lpn).filter(|page| page.mask.0 & piece.mask.0 == piece.mask.0);
        if let Some(page) = buffered {
            if let (PageData::Bytes(bytes), true) = (&page.data, wanted) {
                into[piece.at..piece.at + piece.to - piece.from]
                    .copy_from_slice(&bytes[piece.from..piece.to]);
            }
            return Ok(());
        }
        let mut page = std::mem::take(&mut self.page);
        let read = self.ftl.read(piece.lpn, if wanted { &mut page } else { &mut [] });
        if wanted {
            self.overlay_buffered(piece.lpn, &mut page);
            into[piece.at..piece.at + piece.to - piece.from].copy_from_slice(&page[piece.from..piece.to]);
        }
        self.page = page;
        read.map(|_| ())
    }

    /// Sectors that are newer in the buffer than on flash.
    fn overlay_buffered(&self, lpn: Lpn, page: &mut Box<[u8]>) {
        let Some(buffered) = self.buffer.get(lpn) else { return };
        let mut merged = PageData::Bytes(std::mem::take(page));
        merged.overlay(&buffered.data, buffered.mask);
        if let PageData::Bytes(bytes) = merged {
            *page = bytes;
        }
    }

    /// Deallocates the pages that lie completely inside the range; parts of pages at its ends keep their data.
    ///
    /// # Errors
    /// As [`Device::write`].
    pub fn trim(&mut self, offset: u64, len: u64) -> Result<()> {
        self.require_request(offset, len)?;
        let page_bytes = self.page_bytes;
        let (first, end) = (offset.div_ceil(page_bytes), (offset + len) / page_bytes);
        let pages = end.saturating_sub(first) as u32;
        for lpn in (first as u32..).take(pages as usize).map(Lpn) {
            self.buffer.remove(lpn);
        }
        self.ftl.trim_range(Lpn(first as u32), pages)
    }

    /// Gives the `len` bytes at `target_offset` the contents of those at `source_offset`, by changing the map where the
    /// design can. A source page that holds nothing deallocates its target; a target that is its own source stays as it
    /// is; ranges that overlap behave as if the source had been put aside first. Pages of either range that wait in the
    /// write buffer are written out before. Atomic where the design says so ([`Ftl::remap_pages`]); else an error leaves the
    /// pages that were remapped before it.
    ///
    /// # Errors
    /// [`Error::NotWholePages`], [`Error::OutOfRange`], what [`Ftl::remap_pages`] says.
    pub fn remap(&mut self, target_offset: u64, source_offset: u64, len: u64, mode: RemapMode) -> Result<()> {
        let page_bytes = self.page_bytes;
        if [target_offset, source_offset, len].iter().any(|bytes| !bytes.is_multiple_of(page_bytes)) {
            return Err(Error::NotWholePages { target_offset, source_offset, len, page_bytes });
        }
        self.require_request(target_offset, len)?;
        self.require_request(source_offset, len)?;
        let page = |offset: u64| (offset / page_bytes) as u32;
        let (target, source, pages) = (page(target_offset), page(source_offset), page(len));
        self.write_out_range(target, pages)?;
        self.write_out_range(source, pages)?;
        self.ftl.remap_pages(Lpn(target), Lpn(source), pages, mode)
    }

    /// The buffered pages among `pages` pages from `first`, out of the buffer.
    fn write_out_range(&mut self, first: u32, pages: u32) -> Result<()> {
        if self.buffer.len() == 0 {
            return Ok(());
        }
        for lpn in (first..first + pages).map(Lpn) {
            let page = self.buffer.remove(lpn);
            self.write_out(page)?;
        }
        Ok(())
    }

    /// Makes every acknowledged write durable.
    ///
    /// # Errors
    /// What [`Ftl::write`] says.
    pub fn flush(&mut self) -> Result<()> {
        self.empty_buffer()?;
        self.ftl.flush()
    }

    /// Writes out what is in the write buffer, and nothing else.
    ///
    /// # Errors
    /// What [`Ftl::write`] says.
    pub fn empty_buffer(&mut self) -> Result<()> {
        while self.buffer.len() > 0 {
            self.evict()?;
        }
        Ok(())
    }

    /// Power was lost and is back: the buffer is empty, the FTL recovers. May be repeated after another loss.
    ///
    /// # Errors
    /// As [`Ftl::recover`].
    pub fn recover(&mut self) -> Result<RecoveryReport> {
        self.buffer.forget();
        self.ftl.recover()
    }

    fn page_sectors(&self) -> u32 {
        (self.page_bytes / SECTOR_BYTES) as u32
    }

    fn require_request(&self, offset: u64, len: u64) -> Result<()> {
        if !offset.is_multiple_of(SECTOR_BYTES) || !len.is_multiple_of(SECTOR_BYTES) {
            return Err(Error::Options(format!(
                "request of {len} bytes at byte {offset}: requests are whole sectors of {SECTOR_BYTES} bytes"
            )));
        }
        match offset.checked_add(len) {
            Some(end) if end <= self.bytes() => Ok(()),
            _ => Err(Error::OutOfRange {
                lpn: offset.saturating_add(len.max(1) - 1) / self.page_bytes,
                pages: self.ftl.logical_pages(),
            }),
        }
    }

    /// The pages a valid request touches, in order.
    fn pieces(&self, offset: u64, len: u64) -> impl Iterator<Item = Piece> + use<N> {
        let page_bytes = self.page_bytes;
        let end = offset + len;
        let pages = if len == 0 { 0..0 } else { offset / page_bytes..end.div_ceil(page_bytes) };
        pages.map(move |page| {
            let start = page * page_bytes;
            let (from, to) = (offset.max(start), end.min(start + page_bytes));
            let sector = |byte: u64| ((byte - start) / SECTOR_BYTES) as u32;
            Piece {
                lpn: Lpn(page as u32),
                mask: SectorMask::range(sector(from), sector(to)),
                from: (from - start) as usize,
                to: (to - start) as usize,
                at: (from - offset) as usize,
            }
        })
    }
}
