//! The requests of the input, read in batches and prepared for the device: writes get contents from the model, and the
//! addresses of a trace become dense.
//!
//! The pages that a batch touches first are listed. The device looks them up before it executes the batch, so that the
//! memory accesses overlap.

use std::ops::Range;
use std::sync::Arc;

use wearwell::Device;
use wearwell::address::Lpn;
use wearwell::data::{ContentDescriptor, Fingerprint, KnownContentSizes};
use wearwell_trace::{Footprint, Op, Request, TraceError};

use super::Plan;
use crate::content_model::ContentModel;
use crate::input::InputReader;

/// The input of a run, read in batches of prepared requests.
pub(super) struct PreparedInput {
    /// Reader of the input's requests.
    pub(super) request_reader: InputReader,
    /// Model that gives contents to writes without content.
    pub(super) content_model: ContentModel,
    /// Table that converts the addresses of a trace to dense ones; `None` if addresses are used as they are.
    footprint: Option<Arc<Footprint>>,
    /// Trims that were left out so far because addresses are compacted.
    pub(super) untouched_trim_counts: UntouchedTrimCounts,
    /// Whether writes without content get a content from the content model, because the design examines contents.
    adds_content: bool,
    /// Which sizes were known for at least one written content so far. Not updated if the design examines no contents.
    pub(super) known_content_sizes: KnownContentSizes,
    /// Binary logarithm of the page size of the device in bytes.
    page_bytes_log2: u32,
    /// Greatest logical page number of the device.
    max_lpn: u64,
    /// First pages of the requests of the last batch, which the device looks up in advance.
    pub(super) lookahead: BatchLookahead,
}

/// Trims of pages that the input neither reads, writes nor zeroes. If addresses are compacted, these pages do not exist.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UntouchedTrimCounts {
    /// Number of trims of which nothing is left.
    pub(super) trims: u64,
    /// Number of whole pages that were left out, those of trims included of which something is left.
    pub(super) pages: u64,
}

/// First pages that the requests of the next batch touch; the device looks them up before it executes the batch.
#[derive(Debug, Default)]
pub(super) struct BatchLookahead {
    /// First logical page of each write request of the batch.
    pub(super) first_lpns_of_writes: Vec<Lpn>,
    /// Fingerprint of the first page of each write request of the batch, where its content is known.
    pub(super) first_fingerprints_of_writes: Vec<Fingerprint>,
    /// First logical page of each read request of the batch.
    pub(super) first_lpns_of_reads: Vec<Lpn>,
}

impl BatchLookahead {
    /// Removes the pages of the previous batch.
    fn clear(&mut self) {
        self.first_lpns_of_writes.clear();
        self.first_fingerprints_of_writes.clear();
        self.first_lpns_of_reads.clear();
    }
}

impl PreparedInput {
    /// Opens the input of a plan for a device.
    ///
    /// # Errors
    /// The input cannot be read.
    pub(super) fn open(plan: &Plan<'_>, device: &Device) -> Result<Self, TraceError> {
        let ftl = device.ftl();
        Ok(Self {
            request_reader: plan.input.open()?,
            content_model: ContentModel::new(&plan.content_spec, plan.config.seed()),
            footprint: plan.survey.footprint.clone().filter(|_| plan.compacts_addresses()),
            untouched_trim_counts: UntouchedTrimCounts::default(),
            adds_content: ftl.has_content_mechanisms(),
            known_content_sizes: KnownContentSizes::default(),
            page_bytes_log2: plan.resolved_device.geometry.page_bytes.trailing_zeros(),
            max_lpn: u64::from(ftl.logical_pages()) - 1,
            lookahead: BatchLookahead::default(),
        })
    }

    /// Reads and prepares the requests of a batch, and lists their first pages in the lookahead. Returns the number of
    /// requests read, and the error if the input is damaged.
    pub(super) fn read_batch(&mut self, batch: &mut [Request]) -> (usize, Option<TraceError>) {
        let (read, damage) = self.read_requests(batch);
        let batch = &mut batch[..read];
        if self.adds_content {
            let writes = batch.iter().filter(|request| request.op == Op::Write && request.content.is_empty());
            self.content_model.prefetch(writes.map(|request| request.pages().start));
        }
        self.lookahead.clear();
        for request in batch {
            self.prepare_request(request);
            let first = Lpn((request.offset_bytes >> self.page_bytes_log2).min(self.max_lpn) as u32);
            match request.op {
                Op::Write => self.lookahead.first_lpns_of_writes.push(first),
                Op::Read => self.lookahead.first_lpns_of_reads.push(first),
                _ => {}
            }
        }
        (read, damage)
    }

    /// Fills a batch with requests, up to the end of the input or to the place where it is damaged. Returns the number
    /// of requests read, and the error if the input is damaged.
    fn read_requests(&mut self, batch: &mut [Request]) -> (usize, Option<TraceError>) {
        for (k, request) in batch.iter_mut().enumerate() {
            match self.request_reader.next_request(request) {
                Ok(true) => {}
                Ok(false) => return (k, None),
                Err(error) => return (k, Some(error)),
            }
        }
        (batch.len(), None)
    }

    /// Prepares a request for the device: adds content from the model to a write without content, and converts the
    /// addresses of the request to dense ones.
    #[inline]
    fn prepare_request(&mut self, request: &mut Request) {
        if self.adds_content {
            self.add_model_content(request);
        }
        if let Some(footprint) = &self.footprint {
            let trim = (request.op == Op::Trim).then(|| (request.len_bytes, request.whole_pages()));
            footprint.compact_request_addresses(request);
            if let Some((len_bytes, pages)) = trim {
                self.count_untouched_pages_of_trim(len_bytes, pages, request);
            }
        }
    }

    /// Counts what was left out of a trim when its addresses were compacted. Before, it had `len_bytes` bytes, and the
    /// whole pages `trimmed`.
    fn count_untouched_pages_of_trim(&mut self, len_bytes: u64, trimmed: Range<u64>, compacted: &Request) {
        let is_left_out = len_bytes > 0 && compacted.len_bytes == 0;
        let left = compacted.whole_pages();
        self.untouched_trim_counts.trims += u64::from(is_left_out);
        self.untouched_trim_counts.pages +=
            (trimmed.end - trimmed.start).saturating_sub(left.end - left.start);
    }

    /// Notes which sizes a write brings for at least one of its contents. A write that brings bytes brings all sizes.
    fn note_known_content_sizes(&mut self, request: &Request) {
        let of_bytes = !request.payload.is_empty();
        let of_request =
            KnownContentSizes { is_compressed_size_known: of_bytes, is_delta_size_known: of_bytes };
        let of_contents = request.content.iter().map(ContentDescriptor::known_content_sizes);
        self.known_content_sizes =
            of_contents.fold(self.known_content_sizes.or(of_request), KnownContentSizes::or);
    }

    /// Adds content from the content model to a write that has no content, and adds the content of a write to the
    /// lookahead.
    fn add_model_content(&mut self, request: &mut Request) {
        self.content_model.fill_or_record_request_content(request);
        if request.op == Op::Write {
            let contents = request.content.first().map(|content| content.fingerprint);
            self.lookahead.first_fingerprints_of_writes.extend(contents);
            if !self.known_content_sizes.are_all_known() {
                self.note_known_content_sizes(request);
            }
        }
    }
}
