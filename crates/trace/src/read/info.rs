//! Counts, in one pass over a trace, what it does to a device.
//!
//! Pages are 4 KiB, and a request counts every page that it touches. A page is *overwritten* if it holds data when it
//! is written; a trim or zeroing of the whole page removes its data. A *duplicate* is a non-zero page whose content was
//! written earlier anywhere in the trace. A *silent* write repeats the content that its page already holds. A remap
//! counts as no write: after it, the target holds the content of the source. All shares are fractions of the pages
//! written. Memory grows with the pages written (about one byte per page, nine if contents are known) and with the
//! distinct contents (about ten bytes each).

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustc_hash::{FxHashMap, FxHashSet};
use sha2::{Digest, Sha256};
use wearwell::address::RemapMode;
use wearwell::data::Fingerprint;

use crate::read::page_group::{PageGroup, page_group_numbers_of_range, page_mask_in_group};
use crate::{Format, Op, OpenOptions, PAGE_BYTES, Request, SECTOR_BYTES, TraceError, TraceReader, open};

/// A count for each kind of request of a trace. A value of this type counts either requests or the pages that they
/// touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct CountsByOp {
    /// Number of reads (or, if pages are counted, of pages that reads touch).
    pub read: u64,
    /// Number of writes (or, if pages are counted, of pages that writes touch).
    pub write: u64,
    /// Number of trims (or, if pages are counted, of pages that trims touch).
    pub trim: u64,
    /// Number of zeroings, which are writes of zeroes without payload (or, if pages are counted, of pages that they
    /// touch).
    pub zero: u64,
    /// Number of flushes; they touch no pages.
    pub flush: u64,
    /// Number of remaps, both those that copy and those that move (or, if pages are counted, of pages that remaps
    /// touch).
    #[serde(default)]
    pub remap: u64,
    /// Number of phase markers: entries of the trace that are no requests but mark the beginning of a phase. They touch
    /// no pages.
    #[serde(default)]
    pub phase: u64,
}

impl CountsByOp {
    /// Returns a mutable reference to the count for the kind of request `op`.
    fn count_of_op_mut(&mut self, op: Op) -> &mut u64 {
        match op {
            Op::Read => &mut self.read,
            Op::Write => &mut self.write,
            Op::Trim => &mut self.trim,
            Op::Zero => &mut self.zero,
            Op::Flush => &mut self.flush,
            Op::Remap(_) => &mut self.remap,
            Op::PhaseMarker => &mut self.phase,
        }
    }

    /// Returns the sum of the counts over all kinds of requests.
    pub fn sum_over_ops(&self) -> u64 {
        self.read + self.write + self.trim + self.zero + self.flush + self.remap + self.phase
    }
}

/// Statistics of the page contents in a trace; shares are fractions (0 to 1) of all pages written.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct ContentInfo {
    /// Number of page writes in the trace whose content is known.
    pub known_pages: u64,
    /// Number of distinct page contents written by the trace.
    pub distinct: u64,
    /// Share (0 to 1) of all page writes whose content is not all zeros and was written before in the trace, to any
    /// page.
    pub duplicate_share: f64,
    /// Share of page writes with the content that the page already held.
    pub silent_share: f64,
    /// Share of the trace's page writes whose content is all zeroes.
    pub zero_share: f64,
}

/// Statistics of a trace: counts of requests and pages, and shares (0 to 1).
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct TraceInfo {
    /// Format of the trace file.
    pub format: Format,
    /// Text about where the trace comes from, as stored in the trace file; `None` if its format stores none.
    pub provenance: Option<String>,
    /// SHA-256 of the trace file as stored (perhaps compressed), in hexadecimal; `None` for a stream.
    pub sha256: Option<String>,
    /// Number of requests in the trace, by kind.
    pub requests: CountsByOp,
    /// Number of 4-KiB pages that requests touch, by kind of request.
    pub pages: CountsByOp,
    /// Number of writes divided by that of reads and writes.
    pub write_share: f64,
    /// Amount of data that the trace writes, MiB; of pages that are written in part, only that part counts.
    pub written_mib: f64,
    /// Number of distinct 4-KiB pages written.
    pub unique_pages_written: u64,
    /// Share of page writes whose page held data at that time (overwrites).
    pub share_of_overwriting_writes: f64,
    /// Share of page writes whose page had been written before, whether or not it still held data.
    pub share_of_writes_to_written_pages: f64,
    /// Statistics of the page contents; `None` if the trace has no contents.
    pub content: Option<ContentInfo>,
    /// Time from the first to the latest request, nanoseconds.
    pub duration_ns: u64,
    /// Largest end address (offset plus length, bytes) of a read, write, zeroing or remap of the trace.
    pub max_end_bytes: u64,
    /// Number of distinct device numbers in the trace.
    pub devices: u64,
    /// Number of requests whose time is earlier than that of the preceding request.
    #[serde(default)]
    pub unsorted_times: u64,
    /// Number of requests of length 0, without flushes and phase markers; they have no effect.
    #[serde(default)]
    pub empty_requests: u64,
    /// Number of reads and writes that do not begin and end at a boundary of a 512-byte sector; they count as whole
    /// sectors.
    #[serde(default)]
    pub sub_sector_requests: u64,
    /// Number of lines or records of the trace that were refused and skipped.
    pub rejected: u64,
    /// Error messages about the first lines or records of the trace that were refused.
    pub rejected_first: Vec<String>,
    /// Error message if the trace is damaged and ended early. All counts of the trace then describe the part before the
    /// damage.
    pub damage: Option<String>,
}

impl TraceInfo {
    /// Opens a trace file, counts its requests and hashes the file.
    ///
    /// # Errors
    /// Those of [`open()`] and of the reader. A damaged file is no error but is reported in [`TraceInfo::damage`].
    pub fn of_file(path: &Path, options: &OpenOptions) -> Result<Self, TraceError> {
        let mut info = Self::of_requests(open(path, options)?.as_mut())?;
        let open_error = |source| TraceError::CannotOpen { file: path.display().to_string(), source };
        info.sha256 = Some(file_sha256(path).map_err(open_error)?);
        Ok(info)
    }

    /// Reads a trace to its end and counts its requests and pages.
    ///
    /// # Errors
    /// Those of the reader, except that damage is reported in [`TraceInfo::damage`].
    pub fn of_requests(reader: &mut dyn TraceReader) -> Result<Self, TraceError> {
        let mut count = TraceCounter::default();
        let mut request = Request::default();
        let damage = loop {
            match reader.next(&mut request) {
                Ok(true) => count.count_request(&request),
                Ok(false) => break None,
                Err(error) if error.requests_before_damage().is_some() => break Some(error.to_string()),
                Err(error) => return Err(error),
            }
        };
        Ok(count.into_info(reader, damage))
    }
}

/// Returns the SHA-256 of a file, in hexadecimal.
///
/// # Errors
/// The file cannot be read.
pub fn file_sha256(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; 128 << 10];
    loop {
        let count = file.read(&mut chunk)?;
        if count == 0 {
            return Ok(to_hex(&hasher.finalize()));
        }
        hasher.update(&chunk[..count]);
    }
}

/// Returns the bytes of a digest as lower-case hexadecimal digits.
fn to_hex(digest: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).expect("a nibble is below 16");
    digest.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// State of a page group (64 neighbouring pages) while a trace is counted; each bit mask has one bit per page.
#[derive(Default)]
struct StateOf64Pages {
    /// Bit mask of the pages that were written at least once.
    written_page_mask: u64,
    /// Bit mask of the pages that hold data: written, and not trimmed or zeroed since.
    live_page_mask: u64,
    /// Bit mask of those of the 64 pages whose current content is known. The field `fingerprints` holds these contents.
    known_content_mask: u64,
    /// Fingerprint of each page whose bit in `known_content_mask` is set; `None` while no content is known.
    fingerprints: Option<Box<[Fingerprint; 64]>>,
}

/// Content of a page of the device: no data, data of unknown content, or data with a known fingerprint.
#[derive(Clone, Copy, PartialEq)]
enum PageContent {
    /// The page holds no data.
    NoData,
    /// The page holds data of which no fingerprint is known.
    Unknown,
    /// The page holds the content with this fingerprint.
    Known(Fingerprint),
}

/// Counters of requests and pages, and the states of all pages, while the requests of a trace are counted.
#[derive(Default)]
struct TraceCounter {
    /// Number of requests so far, by kind.
    requests: CountsByOp,
    /// Number of 4-KiB pages that the requests so far touch, by kind of request.
    pages: CountsByOp,
    /// States of the pages, in groups of 64 neighbouring pages that were written or remapped.
    page_groups: FxHashMap<PageGroup, StateOf64Pages>,
    /// Fingerprints of all page contents written so far.
    distinct_contents: FxHashSet<Fingerprint>,
    /// Device numbers that occurred so far.
    devices: FxHashSet<u32>,
    /// Number of bytes that the writes so far contain.
    written_bytes: u64,
    /// Number of 4-KiB pages that were written at least once.
    distinct_pages_written: u64,
    /// Number of page writes whose page held data.
    overwriting_page_writes: u64,
    /// Number of page writes whose content is known.
    known_content_page_writes: u64,
    /// Number of page writes whose content is not all zeroes and was written before, to any page.
    duplicate_page_writes: u64,
    /// Number of page writes of the content that the page already held.
    silent_page_writes: u64,
    /// Number of page writes whose content is all zeroes.
    zero_page_writes: u64,
    /// Latest time of a request so far, nanoseconds since the first request.
    duration_ns: u64,
    /// Time of the preceding request, nanoseconds since the first request.
    previous_request_ns: u64,
    /// Number of requests whose time is earlier than that of the preceding request.
    unsorted_requests: u64,
    /// Number of requests of length 0, without flushes and phase markers.
    empty_request_count: u64,
    /// Number of reads and writes that do not begin and end at a sector boundary.
    sector_unaligned_request_count: u64,
    /// Largest end address (offset plus length, bytes) of the reads, writes, zeroings and remaps so far.
    max_request_end_bytes: u64,
}

impl TraceCounter {
    /// Adds one request to all counters and applies it to the states of the pages.
    fn count_request(&mut self, request: &Request) {
        let pages = request.pages();
        *self.requests.count_of_op_mut(request.op) += 1;
        *self.pages.count_of_op_mut(request.op) += pages.end - pages.start;
        self.duration_ns = self.duration_ns.max(request.time_ns);
        self.unsorted_requests += u64::from(request.time_ns < self.previous_request_ns);
        self.previous_request_ns = request.time_ns;
        self.empty_request_count +=
            u64::from(request.len_bytes == 0 && !matches!(request.op, Op::Flush | Op::PhaseMarker));
        let is_whole_sectors = (request.offset_bytes | request.len_bytes).is_multiple_of(SECTOR_BYTES);
        self.sector_unaligned_request_count +=
            u64::from(matches!(request.op, Op::Read | Op::Write) && !is_whole_sectors);
        if !matches!(request.op, Op::Flush | Op::PhaseMarker) {
            self.devices.insert(request.device);
        }
        if !matches!(request.op, Op::Flush | Op::Trim | Op::PhaseMarker) {
            let source_end = request.remap_source_pages().end * PAGE_BYTES;
            self.max_request_end_bytes =
                self.max_request_end_bytes.max(request.end_offset_bytes()).max(source_end);
        }
        match request.op {
            Op::Write => self.count_write(request),
            Op::Trim | Op::Zero => self.clear_trimmed_or_zeroed_pages(request),
            Op::Remap(mode) => self.apply_remap(request, mode),
            Op::Read | Op::Flush | Op::PhaseMarker => {}
        }
    }

    /// Gives the target pages of a remap the contents that the source pages held before the request.
    fn apply_remap(&mut self, request: &Request, mode: RemapMode) {
        if request.offset_bytes == request.remap_source_offset_bytes {
            return;
        }
        let place = |page: u64| (PageGroup { device: request.device, group_number: page / 64 }, page % 64);
        let aside: Vec<PageContent> =
            request.remap_source_pages().map(|page| self.page_content(place(page))).collect();
        if mode == RemapMode::Relocate {
            request
                .remap_source_pages()
                .for_each(|page| self.set_page_content(place(page), PageContent::NoData));
        }
        for (page, held) in request.pages().zip(aside) {
            self.set_page_content(place(page), held);
        }
    }

    /// Returns the current content of a page, which is given by its group and its position in the group.
    fn page_content(&self, (id, bit): (PageGroup, u64)) -> PageContent {
        let Some(chunk) = self.page_groups.get(&id) else { return PageContent::NoData };
        match &chunk.fingerprints {
            Some(fingerprints) if chunk.known_content_mask >> bit & 1 == 1 => {
                PageContent::Known(fingerprints[bit as usize])
            }
            _ if chunk.live_page_mask >> bit & 1 == 1 => PageContent::Unknown,
            _ => PageContent::NoData,
        }
    }

    /// Sets the current content of a page, which is given by its group and its position in the group.
    fn set_page_content(&mut self, (id, bit): (PageGroup, u64), held: PageContent) {
        let chunk = self.page_groups.entry(id).or_default();
        let set = |bits: u64, on: bool| bits & !(1 << bit) | u64::from(on) << bit;
        chunk.live_page_mask = set(chunk.live_page_mask, held != PageContent::NoData);
        chunk.known_content_mask = set(chunk.known_content_mask, matches!(held, PageContent::Known(_)));
        if let PageContent::Known(fingerprint) = held {
            let held = chunk.fingerprints.get_or_insert_with(|| Box::new([Fingerprint::default(); 64]));
            held[bit as usize] = fingerprint;
        }
    }

    /// Counts the pages of a write, and its page contents if the request has them.
    fn count_write(&mut self, request: &Request) {
        self.written_bytes = self.written_bytes.saturating_add(request.len_bytes);
        let pages = request.pages();
        for number in page_group_numbers_of_range(&pages) {
            let touched = page_mask_in_group(number, &pages);
            let chunk = self
                .page_groups
                .entry(PageGroup { device: request.device, group_number: number })
                .or_default();
            self.distinct_pages_written += u64::from((touched & !chunk.written_page_mask).count_ones());
            self.overwriting_page_writes += u64::from((touched & chunk.live_page_mask).count_ones());
            chunk.written_page_mask |= touched;
            chunk.live_page_mask |= touched;
            if request.content.is_empty() {
                chunk.known_content_mask &= !touched;
            }
        }
        for (page, descriptor) in pages.zip(&request.content) {
            self.count_written_content(
                PageGroup { device: request.device, group_number: page / 64 },
                page % 64,
                descriptor.fingerprint,
            );
        }
    }

    /// Counts a page write of known content: whether the content is a duplicate, silent (equal to that of the page) or
    /// all zeroes.
    fn count_written_content(&mut self, id: PageGroup, bit: u64, fingerprint: Fingerprint) {
        let chunk = self.page_groups.entry(id).or_default();
        let held = chunk.fingerprints.get_or_insert_with(|| Box::new([Fingerprint::default(); 64]));
        let known = chunk.known_content_mask >> bit & 1 == 1;
        self.known_content_page_writes += 1;
        self.silent_page_writes += u64::from(known && held[bit as usize] == fingerprint);
        held[bit as usize] = fingerprint;
        chunk.known_content_mask |= 1 << bit;
        let repeated = !self.distinct_contents.insert(fingerprint);
        let zero = fingerprint == Fingerprint::ZERO_PAGE;
        self.duplicate_page_writes += u64::from(repeated && !zero);
        self.zero_page_writes += u64::from(zero);
    }

    /// Marks the pages that a trim or zeroing covers entirely as holding no data. If its range has more groups of 64
    /// pages than were ever written, the loop visits the written groups instead of the range.
    fn clear_trimmed_or_zeroed_pages(&mut self, request: &Request) {
        let pages = request.whole_pages();
        let range = page_group_numbers_of_range(&pages);
        let clear = |chunk: &mut StateOf64Pages, number| {
            chunk.live_page_mask &= !page_mask_in_group(number, &pages);
            chunk.known_content_mask &= chunk.live_page_mask;
        };
        if range.end - range.start > self.page_groups.len() as u64 {
            for (id, chunk) in &mut self.page_groups {
                if id.device == request.device {
                    clear(chunk, id.group_number);
                }
            }
            return;
        }
        for number in range {
            if let Some(chunk) =
                self.page_groups.get_mut(&PageGroup { device: request.device, group_number: number })
            {
                clear(chunk, number);
            }
        }
    }

    /// Makes the statistics of the trace from the counters; `damage` is the error that ended the trace early, if any.
    fn into_info(self, reader: &dyn TraceReader, damage: Option<String>) -> TraceInfo {
        let written = self.pages.write;
        TraceInfo {
            format: reader.format(),
            provenance: reader.provenance().map(str::to_owned),
            sha256: None,
            requests: self.requests,
            pages: self.pages,
            write_share: fraction(self.requests.write, self.requests.write + self.requests.read),
            written_mib: self.written_bytes as f64 / f64::from(1 << 20),
            unique_pages_written: self.distinct_pages_written,
            share_of_overwriting_writes: fraction(self.overwriting_page_writes, written),
            share_of_writes_to_written_pages: fraction(written - self.distinct_pages_written, written),
            content: (self.known_content_page_writes > 0).then(|| self.content_info(written)),
            duration_ns: self.duration_ns,
            max_end_bytes: self.max_request_end_bytes,
            devices: self.devices.len() as u64,
            unsorted_times: self.unsorted_requests.max(reader.unsorted_request_count()),
            empty_requests: self.empty_request_count,
            sub_sector_requests: self.sector_unaligned_request_count,
            rejected: reader.rejected_records().rejected_count,
            rejected_first: reader.rejected_records().first_error_messages.clone(),
            damage,
        }
    }

    /// Returns the statistics of page contents, as shares of the `written` page writes of the trace.
    fn content_info(&self, written: u64) -> ContentInfo {
        ContentInfo {
            known_pages: self.known_content_page_writes,
            distinct: self.distinct_contents.len() as u64,
            duplicate_share: fraction(self.duplicate_page_writes, written),
            silent_share: fraction(self.silent_page_writes, written),
            zero_share: fraction(self.zero_page_writes, written),
        }
    }
}

/// Returns `part / whole`, or 0 if `whole` is 0.
fn fraction(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
