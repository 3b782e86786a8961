//! Converts a request into calls of the device: whole pages directly, all other ranges in sectors.

use wearwell::Error;
use wearwell::address::Lpn;
use wearwell::data::{Descriptor, Fingerprint};
use wearwell::device::{HostData, SECTOR_BYTES};
use wearwell::nand::Nand as _;
use wearwell::timing::RequestKind;
use wearwell_config::Zeroes;
use wearwell_trace::{Op, PAGE_BYTES, Request};

use super::Run;

impl Run<'_> {
    #[inline]
    pub(super) fn perform(&mut self, request: &Request) -> Result<RequestKind, Error> {
        if let Some((lpn, descriptor)) = self.as_page_write(request) {
            return self.device.write_page(lpn, descriptor).map(|()| RequestKind::Write);
        }
        self.perform_any(request)
    }

    /// Returns page and content of a write that covers exactly one page; `None` for any other request. Such writes are
    /// the bulk of most runs, and skip the conversion to sectors.
    #[inline]
    pub(super) fn as_page_write(&self, request: &Request) -> Option<(Lpn, Descriptor)> {
        let plain = request.op == Op::Write
            && request.len_bytes == self.page_bytes
            && request.offset_bytes & (self.page_bytes - 1) == 0
            && request.offset_bytes < self.exported_bytes
            && request.bytes.is_empty();
        let descriptor = match (self.has_content_stage, &request.content[..]) {
            (false, _) => Descriptor::of(Fingerprint::ZERO_PAGE),
            (true, [one]) if self.page_bytes == PAGE_BYTES => *one,
            _ => return None,
        };
        plain.then_some((Lpn((request.offset_bytes >> self.page_shift) as u32), descriptor))
    }

    fn perform_any(&mut self, request: &Request) -> Result<RequestKind, Error> {
        let (offset, len) = Self::sectors_of(request);
        match request.op {
            Op::Read => self.read(offset, len).map(|()| RequestKind::Read),
            Op::Write => self.write(request, offset, len).map(|()| RequestKind::Write),
            Op::Zero if self.plan.config.replay.zeroes == Zeroes::Write => {
                self.descriptors.clear();
                let pages = len.div_ceil(self.page_bytes) as usize + 1;
                self.descriptors.resize(pages, Descriptor::of(Fingerprint::ZERO_PAGE));
                self.write_descriptors(offset, len).map(|()| RequestKind::Write)
            }
            Op::Trim | Op::Zero => self.device.trim(offset, len).map(|()| RequestKind::Trim),
            Op::Flush => self.device.flush().map(|()| RequestKind::Flush),
            Op::Remap(mode) => {
                self.remapped_pages += len / self.page_bytes;
                self.device.remap(offset, request.source_bytes, len, mode).map(|()| RequestKind::Write)
            }
            Op::Phase => unreachable!("a phase asks nothing of the device"),
        }
    }

    /// Returns the byte range of a request rounded to whole sectors (offset and length), because traces may contain
    /// single bytes.
    fn sectors_of(request: &Request) -> (u64, u64) {
        if request.len_bytes == 0 {
            return (0, 0);
        }
        let start = request.offset_bytes / SECTOR_BYTES * SECTOR_BYTES;
        (start, request.end_bytes().div_ceil(SECTOR_BYTES) * SECTOR_BYTES - start)
    }

    /// Reads a byte range from the device. If the medium keeps bytes they are copied as for a host, because a mechanism
    /// may use what was read (such as merging a delta).
    fn read(&mut self, offset: u64, len: u64) -> Result<(), Error> {
        let wanted = if self.device.ftl().store().nand().keeps_bytes() { len as usize } else { 0 };
        self.bytes_read.resize(wanted, 0);
        self.device.read(offset, len, &mut self.bytes_read)
    }

    fn write(&mut self, request: &Request, offset: u64, len: u64) -> Result<(), Error> {
        if !request.bytes.is_empty() {
            return self.device.write(offset, len, HostData::Bytes(&request.bytes));
        }
        self.descriptors.clear();
        if !self.has_content_stage || request.content.is_empty() {
            self.descriptors.push(Descriptor::of(Fingerprint::ZERO_PAGE));
            return self.write_descriptors(offset, len);
        }
        self.descriptors.extend_from_slice(&request.content);
        if self.page_bytes != PAGE_BYTES {
            self.regroup(offset, len);
        }
        self.write_descriptors(offset, len)
    }

    fn write_descriptors(&mut self, offset: u64, len: u64) -> Result<(), Error> {
        self.device.write(offset, len, HostData::Descriptors(&self.descriptors))
    }

    /// Converts content descriptors of 4-KiB pages to content descriptors of the device's pages. A larger page gets an
    /// identity combined from those of its parts; a smaller one gets the identity of its 4-KiB page combined with its
    /// position in it.
    fn regroup(&mut self, offset: u64, len: u64) {
        let small = std::mem::take(&mut self.descriptors);
        let first_small = offset / PAGE_BYTES;
        let pages = offset / self.page_bytes..(offset + len).div_ceil(self.page_bytes);
        for page in pages {
            let (start, end) = (page * self.page_bytes, (page + 1) * self.page_bytes);
            let covered = start.max(offset) / PAGE_BYTES..end.min(offset + len).div_ceil(PAGE_BYTES);
            let parts =
                covered.map(|k| small[((k - first_small) as usize).min(small.len() - 1)].fingerprint.0);
            let parts: Vec<u64> = parts.collect();
            let zero = parts.iter().all(|&part| part == 0);
            let within = if self.page_bytes < PAGE_BYTES { Some(start % PAGE_BYTES) } else { None };
            let identity = if zero {
                Fingerprint::ZERO_PAGE
            } else {
                Fingerprint::combine(parts.into_iter().chain(within))
            };
            self.descriptors.push(Descriptor::of(identity));
        }
    }
}
