//! The requests of a step-by-step run (`wearwell watch`): the first requests of a trace or workload, with their
//! addresses mapped to the pages of the small drive.

use std::collections::HashMap;

use wearwell::data::{ContentDescriptor, Fingerprint, mix_bits};
use wearwell::design::Parts;
use wearwell_config::{Config, ConfigError};
use wearwell_replay::content_model::{ContentModel, ContentModelSpec, ContentSource};
use wearwell_replay::input::Input;
use wearwell_replay::replay::ReplayError;
use wearwell_trace::{FootprintBuilder, Op, PAGE_BYTES, Request, SECTOR_BYTES};

use crate::WATCHED_FLASH_PAGES_MAX;

/// Largest length of a trace's request, in pages, that a step-by-step run executes; longer requests are skipped. Traces
/// often begin with requests of thousands of pages.
pub(super) const WATCHED_REQUEST_PAGES_MAX: u64 = 64;

/// Returns the specification of a workload that shows what a design with these parts does: few pages are overwritten
/// often, with contents on which its mechanisms act.
pub fn demonstration_workload(parts: &Parts) -> String {
    let content = &parts.content;
    let dedups = content.sharing.is_some_and(|sharing| sharing.dedup.is_some());
    if content.sharing.is_some()
        && content.delta.is_none()
        && content.chunks.is_none()
        && content.recycle.is_none()
    {
        return format!(
            "snapshot:pages=10,snapshots=4,overwrites=40,theta=0.6{}",
            if dedups { "+dup:share=0.15,pool=12" } else { "" }
        );
    }
    let (kind, keys) = if dedups {
        ("dup", Some("share=0.2,pool=16,theta=0.5"))
    } else if content.recycle.is_some() {
        ("revert", Some("share=0.3,depth=3"))
    } else {
        ("unique", None)
    };
    // Deltas are made of pages that are stored whole, so where there are both most pages compress little.
    let compressed = if content.delta.is_some() { "compress=0.8,compress_sigma=0.3" } else { "compress=0.5" };
    let sizes = [content.chunks.map(|_| compressed), content.delta.map(|_| "delta=0.25")];
    let shrinks = sizes.iter().any(Option::is_some);
    let keys: Vec<&str> = std::iter::once(keys).chain(sizes).flatten().collect();
    let model = if keys.is_empty() { String::new() } else { format!("+{kind}:{}", keys.join(",")) };
    // What shrinks the data needs a smaller drive to fill it as soon.
    let pages = if shrinks { 28 } else { 48 };
    format!("zipf:theta=0.8,pages={pages},read=0.08,trim=0.04{model}")
}

/// The requests of a step-by-step run (`wearwell watch`), and how many pages they concern.
pub(super) struct WatchedRequests {
    /// Requests to execute, in order.
    pub(super) requests: Vec<Request>,
    /// Number of logical pages that the drive must export for these requests.
    pub(super) exported_pages: u32,
    /// Whether the drive has only the logical pages that the requests touch, renumbered without gaps.
    pub(super) has_compact_addresses: bool,
    /// Number of requests of a trace that are left out, because they are too long for a step-by-step run.
    pub(super) skipped_requests: u64,
    /// Whether the content model generated the content of at least one write, because the input has no content for it.
    pub(super) has_generated_content: bool,
    /// Whether the content model generated sizes of contents that the input identifies.
    pub(super) has_generated_sizes: bool,
}

impl WatchedRequests {
    /// Reads the first `count` requests of an input, adds content to writes without content, and numbers pages densely
    /// if the addresses are too far apart.
    ///
    /// # Errors
    /// Errors of the input; an input without requests; an input that touches more pages than a person can look at.
    pub(super) fn read_from(input: &Input, count: u64, config: &Config) -> Result<Self, ReplayError> {
        let model: ContentModelSpec =
            config.content.model.as_deref().unwrap_or("unique").parse().map_err(
                |error: wearwell_replay::workload::SpecError| ReplayError::Content(error.to_string()),
            )?;
        let draws_sizes = model.source == ContentSource::Recorded;
        let mut model = ContentModel::new(&model, config.seed());
        let (mut reader, mut requests) = (input.open()?, Vec::new());
        let (mut lacks_content, mut has_content) = (false, false);
        let mut left_out = 0;
        let (mut builder, mut end) = (FootprintBuilder::default(), 0);
        let mut request = Request::default();
        while (requests.len() as u64) < count && reader.next_request(&mut request)? {
            if request.op == Op::PhaseMarker {
                continue;
            }
            if matches!(input, Input::Trace { .. }) && has_too_many_pages(&request) {
                left_out += 1;
                continue;
            }
            let source_end = request.remap_source_pages().end * PAGE_BYTES;
            end = end.max(request.end_offset_bytes()).max(source_end);
            lacks_content |=
                request.op == Op::Write && request.content.is_empty() && request.payload.is_empty();
            has_content |= !request.content.is_empty();
            builder.add_request(&request);
            model.fill_or_record_request_content(&mut request);
            requests.push(request.clone());
        }
        if requests.is_empty() {
            let hint = format!(" of at most {WATCHED_REQUEST_PAGES_MAX} pages, and longer ones are left out");
            let hint = if left_out > 0 { hint } else { String::new() };
            return Err(ReplayError::NoRequests { input: input.name(), hint });
        }
        let footprint = builder.into_footprint()?;
        let pages = match input {
            Input::Workload(spec) => spec.working_set_pages,
            Input::Host(_) => end.div_ceil(PAGE_BYTES),
            Input::Trace { .. } => u64::MAX,
        };
        let is_compact = pages > u64::from(WATCHED_FLASH_PAGES_MAX) / 2;
        let pages = if is_compact { u64::from(footprint.touched_page_count()) } else { pages };
        if is_compact {
            for request in &mut requests {
                footprint.compact_request_addresses(request);
            }
        }
        require_few_pages(pages, count)?;
        Ok(Self {
            requests,
            exported_pages: (pages as u32).max(1),
            has_compact_addresses: is_compact,
            skipped_requests: left_out,
            has_generated_content: lacks_content,
            has_generated_sizes: draws_sizes && has_content,
        })
    }

    /// Generates the page bytes of writes that have only content descriptors, one descriptor for each `page_bytes`
    /// bytes. The simulated flash stores packed deltas and chunks only if pages have bytes, and the recovery of some
    /// designs reads them.
    pub(super) fn generate_page_bytes(&mut self, page_bytes: u64) {
        let mut made = PageByteGenerator {
            page_bytes: page_bytes as usize,
            bytes_by_fingerprint: HashMap::default(),
            fingerprint_by_page: HashMap::default(),
        };
        for request in &mut self.requests {
            let is_described = request.payload.is_empty() && !request.content.is_empty();
            let is_whole = (request.offset_bytes | request.len_bytes).is_multiple_of(SECTOR_BYTES);
            if request.op != Op::Write || !is_described || !is_whole {
                continue;
            }
            let pages = (request.offset_bytes / page_bytes..).zip(&request.content);
            let pages: Vec<u8> =
                pages.flat_map(|(page, content)| made.generate_write_bytes(page, content)).collect();
            let from = (request.offset_bytes % page_bytes) as usize;
            request.payload = pages[from..from + request.len_bytes as usize].to_vec();
        }
    }

    /// Converts addresses and lengths of the requests from pages of 4 KiB to as many pages of `page_bytes` bytes.
    pub(super) fn scale_to_page_size(&mut self, page_bytes: u32) {
        let scaled = |bytes: u64| bytes / PAGE_BYTES * u64::from(page_bytes);
        for request in &mut self.requests {
            let end = request.end_offset_bytes().div_ceil(PAGE_BYTES) * PAGE_BYTES;
            request.len_bytes = scaled(end) - scaled(request.offset_bytes);
            request.offset_bytes = scaled(request.offset_bytes);
            request.remap_source_offset_bytes = scaled(request.remap_source_offset_bytes);
        }
    }
}

/// Generates page bytes that match content descriptors. The bytes are equal for equal fingerprints, and have the
/// compressed size and the difference from the page's earlier content that the descriptor states.
struct PageByteGenerator {
    /// Size of the pages whose bytes are generated. Content descriptors state compressed sizes and delta sizes for
    /// pages of 4 KiB; these sizes are scaled to this page size.
    page_bytes: usize,
    /// Bytes of each content, by fingerprint.
    bytes_by_fingerprint: HashMap<Fingerprint, Vec<u8>>,
    /// Content of each page, by page number.
    fingerprint_by_page: HashMap<u64, Fingerprint>,
}

impl PageByteGenerator {
    /// Returns the bytes for a write of `content` to `page`: those of an earlier write of equal content, or else newly
    /// generated bytes.
    fn generate_write_bytes(&mut self, page: u64, content: &ContentDescriptor) -> Vec<u8> {
        let before = self.fingerprint_by_page.insert(page, content.fingerprint);
        if let Some(known) = self.bytes_by_fingerprint.get(&content.fingerprint) {
            return known.clone();
        }
        let base = before.and_then(|before| self.bytes_by_fingerprint.get(&before));
        let mut bytes = base.cloned().unwrap_or_else(|| vec![0; self.page_bytes]);
        let changed = if base.is_some() { content.delta_bytes } else { content.compressed_bytes };
        let changed = (usize::from(changed) * self.page_bytes / PAGE_BYTES as usize).min(bytes.len());
        if content.fingerprint != Fingerprint::ZERO_PAGE {
            fill_pseudo_randomly(&mut bytes[..changed], content.fingerprint.0);
        }
        self.bytes_by_fingerprint.insert(content.fingerprint, bytes.clone());
        bytes
    }
}

/// Fills bytes with a pseudo-random sequence that depends on `seed`.
fn fill_pseudo_randomly(bytes: &mut [u8], seed: u64) {
    let mut state = seed;
    for part in bytes.chunks_mut(8) {
        state = mix_bits(state);
        part.copy_from_slice(&state.to_le_bytes()[..part.len()]);
    }
}

/// Whether a request touches more pages than a small drive can take in one request. Always false for a trim, because it
/// is reduced to pages that other requests touch.
fn has_too_many_pages(request: &Request) -> bool {
    let pages = request.pages();
    request.op != Op::Trim && pages.end - pages.start > WATCHED_REQUEST_PAGES_MAX
}

/// Returns an error if the input touches more pages than a person can look at.
fn require_few_pages(pages: u64, requests: u64) -> Result<(), ConfigError> {
    let most = u64::from(WATCHED_FLASH_PAGES_MAX) / 2;
    if pages <= most {
        return Ok(());
    }
    Err(ConfigError::InvalidValue(format!(
        "the requests to show (at most {requests}) touch {pages} logical pages, but the HTML page shows at most \
         {most}: choose fewer requests (--requests), shorter ones, or a workload of fewer pages (pages=)"
    )))
}
