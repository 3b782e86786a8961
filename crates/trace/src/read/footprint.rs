//! Maps the sparse addresses of a trace onto the dense pages of a small drive.
//!
//! A trace of a large volume touches only a fraction of its pages. [`Footprint`] is the sorted set of pages that the
//! trace's reads, writes, zeroings and remaps touch. It numbers these pages densely, one device after the other. The
//! order of addresses is kept, so neighbouring pages remain neighbours, but gaps that no request touches disappear. A
//! page that is only trimmed is not in the set.
//!
//! Memory is 24 bytes per 64 neighbouring pages of which any is touched: less than 8 bytes per page if more than three
//! of the 64 are touched, and twice as much while the set is built.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::read::page_group::{
    PAGES_PER_MASK_GROUP, PageGroup, mask_of_low_bits, page_group_numbers_of_range, page_mask_in_group,
};
use crate::{Op, PAGE_BYTES, Request, TraceError, TraceReader};

/// A group of 64 neighbouring pages: bit mask of those that the trace touches, and number of touched pages at lower
/// addresses.
#[derive(Clone, Copy, Debug)]
struct TouchedPageGroup {
    /// Number of the first page of the group, divided by 64.
    group_number: u64,
    /// Bit mask of the pages of the group that the trace touches.
    touched_mask: u64,
    /// Device number of the pages.
    device: u32,
    /// Number of touched pages before this group, on devices with smaller numbers and at lower addresses of this
    /// device.
    touched_pages_at_lower_addresses: u32,
}

/// The set of pages that a trace touches, numbered without gaps in order of address.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    /// Groups of 64 pages that have a touched page, in order of device and address.
    touched_groups: Vec<TouchedPageGroup>,
    /// Number of distinct 4-KiB pages that the trace touches.
    touched_page_count: u32,
}

/// Collects the touched pages of a trace, request by request, for a [`Footprint`].
#[derive(Debug, Default)]
pub struct FootprintBuilder {
    /// Bit mask of the touched pages of each group of 64 pages.
    masks_by_group: FxHashMap<PageGroup, u64>,
}

impl FootprintBuilder {
    /// Adds the pages that one request touches; for a remap these are source and target. Trims, flushes and phases add
    /// no pages.
    pub fn add_request(&mut self, request: &Request) {
        if matches!(request.op, Op::Trim | Op::Flush | Op::PhaseMarker) {
            return;
        }
        self.add_pages(request, &request.pages());
        self.add_pages(request, &request.remap_source_pages());
    }

    /// Adds a range of pages of the request's device.
    fn add_pages(&mut self, request: &Request, pages: &Range<u64>) {
        for number in page_group_numbers_of_range(pages) {
            let id = PageGroup { device: request.device, group_number: number };
            *self.masks_by_group.entry(id).or_default() |= page_mask_in_group(number, pages);
        }
    }

    /// Numbers the collected pages of the trace in order of address and returns the footprint.
    ///
    /// # Errors
    /// [`TraceError::TooManyPages`] if 32 bits do not suffice to number the pages.
    pub fn into_footprint(self) -> Result<Footprint, TraceError> {
        let unranked = |(id, bits): (PageGroup, u64)| TouchedPageGroup {
            group_number: id.group_number,
            touched_mask: bits,
            device: id.device,
            touched_pages_at_lower_addresses: 0,
        };
        let mut chunks: Vec<TouchedPageGroup> = self.masks_by_group.into_iter().map(unranked).collect();
        chunks.sort_unstable_by_key(|chunk| (chunk.device, chunk.group_number));
        let mut pages = 0_u32;
        for chunk in &mut chunks {
            chunk.touched_pages_at_lower_addresses = pages;
            pages = pages
                .checked_add(chunk.touched_mask.count_ones())
                .ok_or_else(|| TraceError::TooManyPages { trace: "the trace".to_owned() })?;
        }
        Ok(Footprint { touched_groups: chunks, touched_page_count: pages })
    }
}

impl Footprint {
    /// Reads a whole trace and returns its footprint: the set of pages that it touches.
    ///
    /// # Errors
    /// Those of the reader, and [`TraceError::TooManyPages`].
    pub fn of_trace(reader: &mut dyn TraceReader) -> Result<Self, TraceError> {
        let mut builder = FootprintBuilder::default();
        let mut request = Request::default();
        while reader.next(&mut request)? {
            builder.add_request(&request);
        }
        builder.into_footprint()
    }

    /// Returns the number of pages that the trace touches; this is the size of the smallest drive that can replay the
    /// trace.
    pub fn touched_page_count(&self) -> u32 {
        self.touched_page_count
    }

    /// Returns whether the trace touches some address on more than one device.
    pub fn is_one_page_touched_by_several_devices(&self) -> bool {
        let mut masks_of_devices: FxHashMap<u64, u64> = FxHashMap::default();
        self.touched_groups.iter().any(|group| {
            let touched = masks_of_devices.entry(group.group_number).or_default();
            let is_shared = *touched & group.touched_mask != 0;
            *touched |= group.touched_mask;
            is_shared
        })
    }

    /// Returns the number of a page among the touched pages of the trace, in order of address; `None` if the trace does
    /// not touch it.
    pub fn compacted_page_number(&self, device: u32, page: u64) -> Option<u32> {
        let (rank, touched) = self.rank_of_page(device, page);
        touched.then_some(rank)
    }

    /// Returns the number of touched pages before `page` and whether `page` itself is touched, by binary search over
    /// groups of 64 pages.
    fn rank_of_page(&self, device: u32, page: u64) -> (u32, bool) {
        let (number, bit) = (page / PAGES_PER_MASK_GROUP, page % PAGES_PER_MASK_GROUP);
        let key = (device, number);
        let at = self.touched_groups.partition_point(|chunk| (chunk.device, chunk.group_number) < key);
        match self.touched_groups.get(at) {
            Some(chunk) if (chunk.device, chunk.group_number) == key => (
                chunk.touched_pages_at_lower_addresses
                    + (chunk.touched_mask & mask_of_low_bits(bit)).count_ones(),
                chunk.touched_mask >> bit & 1 == 1,
            ),
            Some(chunk) => (chunk.touched_pages_at_lower_addresses, false),
            None => (self.touched_page_count, false),
        }
    }

    /// Translates a request's addresses to addresses without gaps on device 0, so that the trace fits the smallest
    /// drive. A trim is reduced to the touched pages inside it, of which there may be none. The request must be of the
    /// trace from which the footprint was made.
    pub fn compact_request_addresses(&self, request: &mut Request) {
        let (device, pages, source) = (request.device, request.pages(), request.remap_source_pages());
        request.device = 0;
        if !source.is_empty() {
            request.remap_source_offset_bytes =
                u64::from(self.rank_of_page(device, source.start).0) * PAGE_BYTES;
        }
        if pages.is_empty() {
            request.offset_bytes = 0;
            return;
        }
        let (first, first_touched) = self.rank_of_page(device, pages.start);
        let (last, last_touched) = self.rank_of_page(device, pages.end - 1);
        let end = request.end_offset_bytes();
        let head = if first_touched { request.offset_bytes % PAGE_BYTES } else { 0 };
        let tail = if last_touched { (pages.end * PAGE_BYTES) - end } else { 0 };
        request.offset_bytes = u64::from(first) * PAGE_BYTES + head;
        let dense_end = (u64::from(last) + u64::from(last_touched)) * PAGE_BYTES - tail;
        request.len_bytes = dense_end.saturating_sub(request.offset_bytes);
    }
}
