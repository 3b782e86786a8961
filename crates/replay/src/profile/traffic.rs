//! Figures on requests: kinds, sizes, sequentiality, and times.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashMap;
use wearwell_trace::{Op, PAGE_BYTES, Request};

/// Largest number of request sizes that a profile lists individually; all others are summarised by their mean.
const MAX_LISTED_REQUEST_SIZES: usize = 8;

/// Figures on the requests of an input.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct TrafficFigures {
    /// Number of requests of all kinds.
    pub requests: u64,
    /// Share of reads among all read and write requests.
    pub read_share: f64,
    /// Trims as a share of all requests.
    pub trim_share: f64,
    /// Number of flush requests.
    pub flushes: u64,
    /// Number of remap requests, which give pages the contents of other pages.
    #[serde(default)]
    pub remaps: u64,
    /// Number of requests that write zeroes.
    #[serde(default)]
    pub zeroes: u64,
    /// Number of phase markers of a host model, which are no requests to the drive.
    #[serde(default)]
    pub phase_markers: u64,
    /// Number of whole pages (4 KiB) that trims deallocate, counted once per trim.
    #[serde(default)]
    pub pages_trimmed: u64,
    /// Number of pages (4 KiB) that remaps give a content, counted once per remap.
    #[serde(default)]
    pub pages_remapped: u64,
    /// Number of whole pages (4 KiB) that requests fill with zeroes, counted once per request.
    #[serde(default)]
    pub pages_zeroed: u64,
    /// Number of pages (4 KiB) that writes touch, counted once per write.
    pub pages_written: u64,
    /// Bytes of all write requests.
    pub bytes_written: u64,
    /// Bytes of all read requests.
    pub bytes_read: u64,
    /// Mean size of a write request, bytes.
    pub write_mean_bytes: f64,
    /// Mean size of a read request, bytes.
    pub read_mean_bytes: f64,
    /// The most frequent sizes of read and write requests, in pages touched, with their shares.
    pub sizes: Vec<SizeShare>,
    /// Read and write requests of all sizes that `sizes` does not list: their mean size and their total share; null if
    /// there are none.
    pub other_sizes: Option<SizeShare>,
    /// Share of the read and write requests that cover only a part of a page: they start or end inside it.
    pub partial_share: f64,
    /// Number of reads and writes of length zero.
    pub empty_requests: u64,
    /// Share of writes that begin where the previous write ended, on the same device number.
    pub sequential_write_share: f64,
    /// Share of reads that begin where the previous read ended, on the same device number.
    pub sequential_read_share: f64,
    /// Number of distinct pages read or written.
    pub footprint_pages: u64,
    /// Number of distinct pages written.
    pub written_pages: u64,
    /// Time of the latest request, seconds after the start of the trace; 0 without times.
    pub duration_s: f64,
    /// Number of requests whose time lies before that of the previous request.
    pub unsorted_times: u64,
}

impl TrafficFigures {
    /// Returns the number of requests of the kinds that a workload generator sends: reads, writes and trims.
    pub(super) fn generated_requests(&self) -> u64 {
        self.requests - self.flushes - self.remaps - self.zeroes - self.phase_markers
    }
}

/// A size of read and write requests, and the share of these requests that have it.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct SizeShare {
    /// Number of pages that a request of this size touches.
    pub pages: u64,
    /// Requests of this size as a fraction of all read and write requests.
    pub share: f64,
}

/// Counters of the requests of one kind (reads or writes).
#[derive(Default)]
struct RequestKindCounts {
    /// Number of requests of this kind.
    requests: u64,
    /// Bytes of all requests of this kind.
    bytes: u64,
    /// Number of requests that begin where the previous request of this kind ended, on the same device number.
    sequential_requests: u64,
    /// Byte offset at which the last request of this kind (read or write) ended, by device number.
    last_end_offset_bytes_by_device: FxHashMap<u32, u64>,
}

impl RequestKindCounts {
    /// Counts one request of this kind (read or write).
    fn add_request(&mut self, request: &Request) {
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(request.len_bytes);
        let before = self.last_end_offset_bytes_by_device.insert(request.device, request.end_offset_bytes());
        self.sequential_requests += u64::from(before == Some(request.offset_bytes));
    }

    /// Returns the mean size of the requests, bytes.
    fn mean_bytes(&self) -> f64 {
        fraction(self.bytes, self.requests)
    }
}

/// Counters of the requests of a kind that transfers no data (trims, remaps or writes of zeroes).
#[derive(Default)]
struct RequestAndPageCount {
    /// Number of requests of this kind.
    requests: u64,
    /// Number of pages of all requests of this kind.
    pages: u64,
}

impl RequestAndPageCount {
    /// Counts a request for these pages.
    fn add_request(&mut self, pages: Range<u64>) {
        self.requests += 1;
        self.pages += pages.end - pages.start;
    }
}

/// Counters of one pass over the requests of an input.
#[derive(Default)]
pub(super) struct TrafficCounts {
    /// Number of requests of all kinds.
    requests: u64,
    /// Counters of read requests.
    reads: RequestKindCounts,
    /// Counters of write requests.
    writes: RequestKindCounts,
    /// Trim requests, and the whole pages that they deallocate.
    trims: RequestAndPageCount,
    /// Remap requests, and the pages that they give a content.
    remaps: RequestAndPageCount,
    /// Requests that write zeroes, and the whole pages that they fill.
    zeroes: RequestAndPageCount,
    /// Number of flush requests.
    flushes: u64,
    /// Number of phase markers.
    phase_markers: u64,
    /// Number of pages (4 KiB) that writes touch, counted once per write.
    pages_written: u64,
    /// Number of reads and writes that start or end inside a page.
    partial_page_requests: u64,
    /// Number of reads and writes of length zero.
    empty_reads_and_writes: u64,
    /// Number of requests by the number of pages that they touch; at most 2^18 + 1 sizes, because the length of
    /// requests is bounded.
    requests_by_page_count: BTreeMap<u64, u64>,
    /// Latest time of all requests so far, nanoseconds.
    latest_request_ns: u64,
    /// Time of the previous request, nanoseconds.
    previous_request_ns: u64,
    /// Number of requests whose time lies before that of the previous request.
    unsorted_requests: u64,
}

impl TrafficCounts {
    /// Counts one request of the input.
    pub(super) fn add_request(&mut self, request: &Request) {
        self.requests += 1;
        self.unsorted_requests += u64::from(request.time_ns < self.previous_request_ns);
        self.previous_request_ns = request.time_ns;
        self.latest_request_ns = self.latest_request_ns.max(request.time_ns);
        match request.op {
            Op::Read => self.reads.add_request(request),
            Op::Write => self.writes.add_request(request),
            Op::Trim => self.trims.add_request(request.whole_pages()),
            Op::Remap(_) => self.remaps.add_request(request.pages()),
            Op::Zero => self.zeroes.add_request(request.whole_pages()),
            Op::Flush => self.flushes += 1,
            Op::PhaseMarker => self.phase_markers += 1,
        }
        if !matches!(request.op, Op::Read | Op::Write) {
            return;
        }
        let pages = request.pages();
        let count = pages.end - pages.start;
        if request.op == Op::Write {
            self.pages_written += count;
        }
        self.empty_reads_and_writes += u64::from(count == 0);
        if count > 0 {
            *self.requests_by_page_count.entry(count).or_default() += 1;
            let edges = request.offset_bytes | request.end_offset_bytes();
            self.partial_page_requests += u64::from(!edges.is_multiple_of(PAGE_BYTES));
        }
    }

    /// Whether some request has a time other than 0.
    pub(super) fn has_times(&self) -> bool {
        self.latest_request_ns > 0
    }

    /// Returns the figures on the requests counted so far; the numbers of distinct pages touched and written are given.
    pub(super) fn traffic_figures(
        &self,
        footprint_pages: u64,
        distinct_pages_written: u64,
    ) -> TrafficFigures {
        let transfers = self.reads.requests + self.writes.requests;
        let (sizes, other_sizes) = self.listed_and_other_request_sizes();
        TrafficFigures {
            requests: self.requests,
            read_share: fraction(self.reads.requests, transfers),
            trim_share: fraction(self.trims.requests, self.requests),
            flushes: self.flushes,
            remaps: self.remaps.requests,
            zeroes: self.zeroes.requests,
            phase_markers: self.phase_markers,
            pages_trimmed: self.trims.pages,
            pages_remapped: self.remaps.pages,
            pages_zeroed: self.zeroes.pages,
            pages_written: self.pages_written,
            bytes_written: self.writes.bytes,
            bytes_read: self.reads.bytes,
            write_mean_bytes: self.writes.mean_bytes(),
            read_mean_bytes: self.reads.mean_bytes(),
            sizes,
            other_sizes,
            partial_share: fraction(self.partial_page_requests, transfers),
            empty_requests: self.empty_reads_and_writes,
            sequential_write_share: fraction(self.writes.sequential_requests, self.writes.requests),
            sequential_read_share: fraction(self.reads.sequential_requests, self.reads.requests),
            footprint_pages,
            written_pages: distinct_pages_written,
            duration_s: self.latest_request_ns as f64 / 1e9,
            unsorted_times: self.unsorted_requests,
        }
    }

    /// Returns the most frequent request sizes with their shares, and the mean size of all other requests.
    fn listed_and_other_request_sizes(&self) -> (Vec<SizeShare>, Option<SizeShare>) {
        let total: u64 = self.requests_by_page_count.values().sum();
        let mut sizes: Vec<(u64, u64)> =
            self.requests_by_page_count.iter().map(|(&pages, &count)| (pages, count)).collect();
        sizes.sort_by_key(|&(pages, count)| (u64::MAX - count, pages));
        let others = sizes.split_off(sizes.len().min(MAX_LISTED_REQUEST_SIZES));
        let of = |(pages, count)| SizeShare { pages, share: fraction(count, total) };
        let count: u64 = others.iter().map(|other| other.1).sum();
        let pages: u64 = others.iter().map(|other| other.0 * other.1).sum();
        let mean = (count > 0).then(|| of(((pages + count / 2) / count, count)));
        (sizes.into_iter().map(of).collect(), mean)
    }
}

/// Returns the quotient `part / whole` of two counts, or 0 if `whole` is 0.
fn fraction(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
