//! Converts a request into calls of the device: whole pages directly, all other ranges in sectors.

use std::ops::Range;

use wearwell::address::{Lpn, RemapMode};
use wearwell::data::{ContentDescriptor, Fingerprint, KnownContentSizes, UnknownSizeCounts};
use wearwell::device::{HostData, SECTOR_BYTES};
use wearwell::logical_page_form::LogicalPageForm;
use wearwell::nand::Nand;
use wearwell::timing::RequestKind;
use wearwell::{Device, Error};
use wearwell_config::WriteZeroesMode;
use wearwell_trace::{Op, PAGE_BYTES, Request};

use super::Run;

impl Run<'_> {
    /// Executes a request on the run's device, and returns the kind of request that the device executed.
    #[inline]
    pub(super) fn perform_request(&mut self, request: &Request) -> Result<RequestKind, Error> {
        if let Some((lpn, descriptor)) = self.as_page_write(request) {
            return self.device.write_page_descriptor(lpn, descriptor).map(|()| RequestKind::Write);
        }
        if matches!(request.op, Op::Remap(_)) {
            let pages =
                request.offset_bytes / self.page_bytes..request.end_offset_bytes().div_ceil(self.page_bytes);
            self.host_request_counts.remapped_pages += pages.end - pages.start;
        }
        self.executor.perform_request(&mut self.device, request)
    }

    /// Returns logical page and content of a write that covers exactly one page; `None` for any other request. Such
    /// writes are the bulk of most runs, and need no conversion to sectors.
    #[inline]
    pub(super) fn as_page_write(&self, request: &Request) -> Option<(Lpn, ContentDescriptor)> {
        let plain = request.op == Op::Write
            && request.len_bytes == self.page_bytes
            && request.offset_bytes & (self.page_bytes - 1) == 0
            && request.offset_bytes < self.device.capacity_bytes()
            && request.payload.is_empty();
        let descriptor = match (self.has_content_mechanisms, &request.content[..]) {
            (false, _) => ContentDescriptor::of_fingerprint(Fingerprint::ZERO_PAGE),
            (true, [one]) if self.page_bytes == PAGE_BYTES => *one,
            _ => return None,
        };
        plain.then_some((Lpn((request.offset_bytes >> self.page_bytes.trailing_zeros()) as u32), descriptor))
    }
}

/// Executes the requests of an input on a drive, as the host of the drive would do.
#[derive(Debug)]
pub struct RequestExecutor {
    /// Whether the design has a content mechanism, so that writes need their contents.
    has_content_mechanisms: bool,
    /// Data bytes per page of the device.
    page_bytes: u64,
    /// How write-zeroes requests are executed: as writes of zeros or as trims.
    write_zeroes_mode: WriteZeroesMode,
    /// Descriptors of the contents that the current write request writes, one per page of the device.
    content_descriptors: Vec<ContentDescriptor>,
    /// Bytes that the last read request returned, if the medium keeps bytes.
    read_buffer: Vec<u8>,
    /// Counts of remap requests that the host executed by copying (reads and writes), because they concern parts of
    /// pages.
    remap_by_copy_counts: RemapByCopyCounts,
    /// Number of pages that a trim request covered only in part, so that they kept their data.
    pages_partly_trimmed: u64,
    /// Bytes of parts of pages that zeroing requests have overwritten since the last
    /// [`Self::take_zeroed_part_bytes`], although they deallocate whole pages.
    zeroed_part_bytes: u64,
    /// Counts of page writes whose compressed size or delta size is unknown, because it is known only for some 4-KiB
    /// parts of the page.
    unknown_size_counts: UnknownSizeCounts,
}

/// Counts of remap requests that the host executes by copying (reads and writes), because they concern parts of pages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RemapByCopyCounts {
    /// Number of remap requests of which at least a part of a page was read and written.
    pub(super) requests: u64,
    /// Number of written parts of pages with unknown content, which therefore counts as new content.
    pub(super) unknown_contents: u64,
}

impl RequestExecutor {
    /// Creates the executor of a host's requests on `device`; `write_zeroes_mode` sets what write-zeroes requests do.
    pub fn of_device(device: &Device, write_zeroes_mode: WriteZeroesMode) -> Self {
        Self {
            has_content_mechanisms: device.ftl().has_content_mechanisms(),
            page_bytes: u64::from(device.ftl().store().geometry().page_bytes),
            write_zeroes_mode,
            content_descriptors: Vec::new(),
            read_buffer: Vec::new(),
            remap_by_copy_counts: RemapByCopyCounts::default(),
            pages_partly_trimmed: 0,
            zeroed_part_bytes: 0,
            unknown_size_counts: UnknownSizeCounts::default(),
        }
    }

    /// Returns the counts of remap requests that were executed by copying, because they concern parts of pages.
    pub(super) fn remap_by_copy_counts(&self) -> RemapByCopyCounts {
        self.remap_by_copy_counts
    }

    /// Returns the number of pages that a trim request covered only in part, so that they kept their data.
    pub(super) fn pages_partly_trimmed(&self) -> u64 {
        self.pages_partly_trimmed
    }

    /// Returns how many page writes have an unknown compressed size or delta size, because it is known only for some
    /// 4-KiB parts of the page.
    pub(super) fn unknown_size_counts(&self) -> UnknownSizeCounts {
        self.unknown_size_counts
    }

    /// Returns whether the drive executes a request as a write of its bytes: a write, and a write-zeroes request in runs
    /// that write zeros. (A remap writes no bytes.)
    pub(super) fn is_write(&self, request: &Request) -> bool {
        match request.op {
            Op::Write => true,
            Op::Zero => self.write_zeroes_mode == WriteZeroesMode::Write,
            Op::Read | Op::Trim | Op::Flush | Op::Remap(_) | Op::PhaseMarker => false,
        }
    }

    /// Returns the bytes that these requests write to the drive, without those that
    /// [`Self::take_zeroed_part_bytes`] counts.
    pub(super) fn written_bytes(&self, requests: &[Request]) -> u64 {
        requests.iter().filter(|request| self.is_write(request)).map(|request| request.len_bytes).sum()
    }

    /// Returns the bytes of parts of pages that zeroing requests have overwritten since the last call, although they
    /// deallocate whole pages.
    pub(super) fn take_zeroed_part_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.zeroed_part_bytes)
    }

    /// Executes a request on the drive, rounded to whole sectors. Returns the kind of request that the drive executed
    /// (a zeroing request is a write or a trim).
    ///
    /// # Errors
    /// Errors of the drive.
    ///
    /// # Panics
    /// If the request is the marker of a workload phase, which is not executed on a drive.
    pub fn perform_request(&mut self, device: &mut Device, request: &Request) -> Result<RequestKind, Error> {
        let (offset, len) = Self::sector_aligned_byte_range(request);
        match request.op {
            Op::Read => self.read(device, offset, len).map(|()| RequestKind::Read),
            Op::Write => self.write(device, request, offset, len).map(|()| RequestKind::Write),
            Op::Zero if self.is_write(request) => {
                self.content_descriptors.clear();
                let pages = len.div_ceil(self.page_bytes) as usize + 1;
                self.content_descriptors
                    .resize(pages, ContentDescriptor::of_fingerprint(Fingerprint::ZERO_PAGE));
                self.write_descriptors(device, offset, len).map(|()| RequestKind::Write)
            }
            Op::Zero => self.deallocate_zeroed_range(device, offset, len).map(|()| RequestKind::Trim),
            Op::Trim => self.trim(device, offset, len).map(|()| RequestKind::Trim),
            Op::Flush => device.flush().map(|()| RequestKind::Flush),
            Op::Remap(mode) => self.remap(device, request, (offset, len), mode).map(|()| RequestKind::Write),
            Op::PhaseMarker => unreachable!("a phase asks nothing of the device"),
        }
    }

    /// Returns the byte range of a request rounded to whole sectors (offset and length), because requests of traces may
    /// begin or end at any byte. A range that loses its content is rounded inward, so that the rest of a sector keeps
    /// its own.
    fn sector_aligned_byte_range(request: &Request) -> (u64, u64) {
        if request.len_bytes == 0 {
            return (0, 0);
        }
        let (first_byte, end_byte) = (request.offset_bytes, request.end_offset_bytes());
        let (first, end) = match request.op {
            Op::Trim | Op::Zero => (first_byte.div_ceil(SECTOR_BYTES), end_byte / SECTOR_BYTES),
            _ => (first_byte / SECTOR_BYTES, end_byte.div_ceil(SECTOR_BYTES)),
        };
        (first * SECTOR_BYTES, end.saturating_sub(first) * SECTOR_BYTES)
    }

    /// Deallocates the whole pages of a range. Pages partly inside keep their data and are counted.
    fn trim(&mut self, device: &mut Device, offset: u64, len: u64) -> Result<(), Error> {
        let touched = (offset + len).div_ceil(self.page_bytes) - offset / self.page_bytes;
        let [_, whole, _] = device.split_at_page_boundaries(offset, len);
        if len > 0 {
            self.pages_partly_trimmed += touched - whole / self.page_bytes;
        }
        device.trim(offset, len)
    }

    /// Zeroes a range without writing its whole pages, which are deallocated and then read as zeros. Zeros are written
    /// to the parts of pages at both ends, as a drive does, which must not return the old data there.
    fn deallocate_zeroed_range(&mut self, device: &mut Device, offset: u64, len: u64) -> Result<(), Error> {
        let [before, whole, after] = device.split_at_page_boundaries(offset, len);
        self.write_zeros_to_page_part(device, offset, before)?;
        device.trim(offset + before, whole)?;
        self.write_zeros_to_page_part(device, offset + before + whole, after)
    }

    /// Writes zeros to a part of one page. Does nothing if the page holds nothing, because it reads as zeros already.
    fn write_zeros_to_page_part(&mut self, device: &mut Device, offset: u64, len: u64) -> Result<(), Error> {
        let is_hole = |lpn| device.logical_page_form(lpn) == LogicalPageForm::Hole;
        if len == 0 || is_hole(Lpn((offset / self.page_bytes) as u32)) {
            return Ok(());
        }
        self.zeroed_part_bytes += len;
        if device.ftl().store().nand().keeps_host_bytes() {
            return device.write(offset, len, HostData::Bytes(&vec![0; len as usize]));
        }
        let zeros = [ContentDescriptor::of_fingerprint(Fingerprint::ZERO_PAGE)];
        device.write(offset, len, HostData::Descriptors(&zeros))
    }

    /// Reads a byte range from the device. If the simulated flash stores the bytes of pages, the bytes are copied to a
    /// buffer, as for a real host, because a mechanism may need them (such as merging a delta with its base).
    fn read(&mut self, device: &mut Device, offset: u64, len: u64) -> Result<(), Error> {
        let wanted = if device.ftl().store().nand().keeps_host_bytes() { len as usize } else { 0 };
        self.read_buffer.resize(wanted, 0);
        device.read(offset, len, &mut self.read_buffer)
    }

    /// Executes a remap request. A drive remaps whole pages only. If pages are larger than the ranges of the request,
    /// or if source and target begin at different offsets in their pages, the host copies the parts of pages by reads
    /// and writes, as it would copy on a drive without remaps. If the request moves data (relocation), the host then
    /// trims the source.
    fn remap(
        &mut self,
        device: &mut Device,
        request: &Request,
        (target, len): (u64, u64),
        mode: RemapMode,
    ) -> Result<(), Error> {
        let (source, page_bytes) = (request.remap_source_offset_bytes, self.page_bytes);
        if [target, source, len].iter().all(|bytes| bytes.is_multiple_of(page_bytes)) {
            return device.remap(target, source, len, mode);
        }
        self.remap_by_copy_counts.requests += 1;
        let is_disjoint = target.abs_diff(source) >= len;
        let (head, whole) = if is_disjoint && target % page_bytes == source % page_bytes {
            let [head, whole, _] = device.split_at_page_boundaries(target, len);
            (head, whole)
        } else {
            (len, 0)
        };
        self.copy(device, request, 0..head)?;
        if whole > 0 {
            device.remap(target + head, source + head, whole, mode)?;
        }
        self.copy(device, request, head + whole..len)?;
        if mode == RemapMode::Relocate {
            // What is the target too keeps its new content.
            let emptied = if source < target {
                source..target.min(source + len)
            } else {
                source.max(target + len)..source + len
            };
            device.trim(emptied.start, emptied.end - emptied.start)?;
        }
        Ok(())
    }

    /// Copies `part` of the source of a remap request to the target, by a read and a write. `part` is a byte range,
    /// counted from the first byte of the source.
    fn copy(&mut self, device: &mut Device, request: &Request, part: Range<u64>) -> Result<(), Error> {
        let len = part.end - part.start;
        if len == 0 {
            return Ok(());
        }
        let target = request.offset_bytes + part.start;
        self.read(device, request.remap_source_offset_bytes + part.start, len)?;
        if !self.read_buffer.is_empty() {
            return device.write(target, len, HostData::Bytes(&self.read_buffer));
        }
        let first_content = (target / PAGE_BYTES - request.offset_bytes / PAGE_BYTES) as usize;
        let contents = request.content.get(first_content..).unwrap_or_default();
        if !contents.is_empty() || !self.has_content_mechanisms {
            return self.write_contents(device, contents, target, len);
        }
        self.remap_by_copy_counts.unknown_contents += 1;
        let unknown = Fingerprint::combine([
            request.remap_source_offset_bytes,
            self.remap_by_copy_counts.unknown_contents,
        ]);
        let pages = len.div_ceil(PAGE_BYTES) + 1;
        let contents = (0..pages).map(|page| Fingerprint::combine([unknown.0, page]));
        let contents: Vec<_> = contents.map(ContentDescriptor::of_fingerprint).collect();
        self.write_contents(device, &contents, target, len)
    }

    /// Writes the byte range of a write request (from `offset`, of `len` bytes) with its contents, if they are known.
    fn write(&mut self, device: &mut Device, request: &Request, offset: u64, len: u64) -> Result<(), Error> {
        if !request.payload.is_empty() {
            return device.write(offset, len, HostData::Bytes(&request.payload));
        }
        self.write_contents(device, &request.content, offset, len)
    }

    /// Writes a byte range with the contents of its 4-KiB pages. The contents are left out if they are unknown or no
    /// mechanism needs them.
    fn write_contents(
        &mut self,
        device: &mut Device,
        contents: &[ContentDescriptor],
        offset: u64,
        len: u64,
    ) -> Result<(), Error> {
        self.content_descriptors.clear();
        if !self.has_content_mechanisms || contents.is_empty() {
            self.content_descriptors.push(ContentDescriptor::of_fingerprint(Fingerprint::ZERO_PAGE));
            return self.write_descriptors(device, offset, len);
        }
        self.content_descriptors.extend_from_slice(contents);
        if self.page_bytes != PAGE_BYTES {
            self.convert_descriptors_to_device_pages(offset, len);
        }
        self.write_descriptors(device, offset, len)
    }

    /// Writes a byte range with the contents in `content_descriptors`.
    fn write_descriptors(&self, device: &mut Device, offset: u64, len: u64) -> Result<(), Error> {
        device.write(offset, len, HostData::Descriptors(&self.content_descriptors))
    }

    /// Converts content descriptors of 4-KiB pages to descriptors of the device's pages. A page larger than 4 KiB gets
    /// a fingerprint combined from those of its 4-KiB parts, and the sums of their sizes. A page smaller than 4 KiB
    /// gets the fingerprint of the 4-KiB page around it, combined with its position in that page, and its share of the
    /// sizes.
    fn convert_descriptors_to_device_pages(&mut self, offset: u64, len: u64) {
        let small = std::mem::take(&mut self.content_descriptors);
        let first_small = offset / PAGE_BYTES;
        let pages = offset / self.page_bytes..(offset + len).div_ceil(self.page_bytes);
        for page in pages {
            let (start, end) = (page * self.page_bytes, (page + 1) * self.page_bytes);
            let covered = start.max(offset) / PAGE_BYTES..end.min(offset + len).div_ceil(PAGE_BYTES);
            let parts = covered.map(|k| small[((k - first_small) as usize).min(small.len() - 1)]);
            let parts: Vec<ContentDescriptor> = parts.collect();
            let descriptor = ContentDescriptor {
                fingerprint: self.combined_fingerprint(&parts, start),
                compressed_bytes: self
                    .compressed_or_delta_size_of_device_page(parts.iter().map(|part| part.compressed_bytes)),
                delta_bytes: self
                    .compressed_or_delta_size_of_device_page(parts.iter().map(|part| part.delta_bytes)),
            };
            let of_parts = parts.iter().map(ContentDescriptor::known_content_sizes);
            let of_parts = of_parts.fold(KnownContentSizes::default(), KnownContentSizes::or);
            self.unknown_size_counts.count_page_write(of_parts, descriptor.known_content_sizes());
            self.content_descriptors.push(descriptor);
        }
    }

    /// Returns the fingerprint of the device's page that starts at byte `start`, from the contents of its 4-KiB parts
    /// or of the 4-KiB page around it.
    fn combined_fingerprint(&self, parts: &[ContentDescriptor], start: u64) -> Fingerprint {
        let fingerprints = parts.iter().map(|part| part.fingerprint.0);
        if fingerprints.clone().all(|part| part == 0) {
            return Fingerprint::ZERO_PAGE;
        }
        let within = (self.page_bytes < PAGE_BYTES).then_some(start % PAGE_BYTES);
        Fingerprint::combine(fingerprints.chain(within))
    }

    /// Returns the compressed or delta size of a page of the device from the sizes of its 4-KiB parts: their sum, or,
    /// for a page smaller than 4 KiB, its share of the size, rounded up.
    fn compressed_or_delta_size_of_device_page(&self, sizes: impl Iterator<Item = u16>) -> u16 {
        let sum = ContentDescriptor::sum_of_sizes(sizes);
        if sum == ContentDescriptor::UNKNOWN_SIZE || self.page_bytes >= PAGE_BYTES {
            return sum;
        }
        (u64::from(sum) * self.page_bytes).div_ceil(PAGE_BYTES) as u16
    }
}
