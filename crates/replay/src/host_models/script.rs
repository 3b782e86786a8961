//! Requests that a host model has planned, and the contents of its volume.
//!
//! A planned step names pages. It becomes a request only when it is taken, one step after the other. Only then is the
//! content of new pages drawn, and that of copied pages looked up. So the script behaves like a device that executes in
//! order, and a copy by writes has the contents that a copy by remaps would give.

use std::collections::VecDeque;
use std::ops::Range;

use wearwell::address::RemapMode;
use wearwell::data::{ContentDescriptor, Fingerprint};
use wearwell_trace::{Op, PAGE_BYTES, Request};

use crate::content_model::ContentModel;

/// Longest request, pages (1 MiB): the largest that a block layer passes on as one request.
pub(super) const MAX_REQUEST_PAGES: u64 = 256;

/// How a host model copies pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CopyMethod {
    /// Pages are copied by remap requests: no data is read or written.
    Remapped,
    /// Pages are copied by reading the source and writing the target.
    ReadAndWritten,
    /// Pages are copied by writing the target only; the host still has the source in memory.
    Written,
}

/// What a planned request of a host model does.
#[derive(Clone, Copy, Debug)]
enum PlannedStep {
    /// Reads pages.
    Read,
    /// Writes pages with new contents from the content model.
    Write,
    /// Writes one page with the content that the host model has chosen.
    WriteWithContent(Fingerprint),
    /// Writes pages with the contents that other pages hold.
    WriteCopy {
        /// First page whose content is copied.
        source: u64,
    },
    /// Remaps pages to the contents of other pages, without a transfer of data.
    Remap {
        /// First page whose content is remapped.
        source: u64,
        /// Whether the source pages keep their content or are deallocated.
        mode: RemapMode,
    },
    /// Deallocates pages.
    Trim,
    /// Flushes the device.
    Flush,
    /// A mark in the input that a phase ends and the next begins; nothing is executed.
    PhaseMark,
}

/// A request that a host model has planned: what it does, its range of pages, and its arrival time.
#[derive(Clone, Copy, Debug)]
struct PlannedRequest {
    /// What the request does.
    step: PlannedStep,
    /// First page of the request's range.
    first_page: u64,
    /// Number of pages of the request; 0 for flushes and phase marks.
    page_count: u64,
    /// Arrival time of the request, nanoseconds.
    arrival_ns: u64,
}

/// The planned requests of a host model, and what each page of its volume holds.
#[derive(Debug)]
pub(super) struct RequestScript {
    /// Planned requests that are not taken yet, in order.
    planned_requests: VecDeque<PlannedRequest>,
    /// Arrival time of the requests that are planned from now on, nanoseconds.
    arrival_ns: u64,
    /// Model that draws the contents of newly written pages.
    content_model: ContentModel,
    /// Content of each page of the host model's volume, as of the requests taken so far.
    content_by_page: Vec<ContentDescriptor>,
}

impl RequestScript {
    /// Creates an empty script; `content_model` draws the contents of newly written pages.
    pub(super) fn new(content_model: ContentModel) -> Self {
        Self { planned_requests: VecDeque::new(), arrival_ns: 0, content_model, content_by_page: Vec::new() }
    }

    /// Whether no planned request is left.
    pub(super) fn is_empty(&self) -> bool {
        self.planned_requests.is_empty()
    }

    /// Returns a sentence for reports that describes the content model.
    pub(super) fn describe_content(&self) -> String {
        self.content_model.describe()
    }

    /// Sets the arrival time of all requests that are planned from now on.
    pub(super) fn set_arrival_time(&mut self, time_ns: u64) {
        self.arrival_ns = time_ns;
    }

    /// Plans read requests of `pages` pages from `first` on.
    pub(super) fn plan_read(&mut self, first: u64, pages: u64) {
        self.plan_split_requests(first, pages, |_| PlannedStep::Read);
    }

    /// Plans write requests of new contents to `pages` pages from `first` on.
    pub(super) fn plan_write(&mut self, first: u64, pages: u64) {
        self.plan_split_requests(first, pages, |_| PlannedStep::Write);
    }

    /// Plans a write request of one page with a content that the host model chooses.
    pub(super) fn plan_write_of_content(&mut self, page: u64, content: Fingerprint) {
        self.plan_split_requests(page, 1, |_| PlannedStep::WriteWithContent(content));
    }

    /// Plans one trim request of `pages` pages from `first` on.
    pub(super) fn plan_trim(&mut self, first: u64, pages: u64) {
        self.planned_requests.push_back(PlannedRequest {
            step: PlannedStep::Trim,
            first_page: first,
            page_count: pages,
            arrival_ns: self.arrival_ns,
        });
    }

    /// Plans a flush request.
    pub(super) fn plan_flush(&mut self) {
        self.planned_requests.push_back(PlannedRequest {
            step: PlannedStep::Flush,
            first_page: 0,
            page_count: 0,
            arrival_ns: self.arrival_ns,
        });
    }

    /// Plans a mark that ends a phase of the load.
    pub(super) fn plan_phase_mark(&mut self) {
        self.planned_requests.push_back(PlannedRequest {
            step: PlannedStep::PhaseMark,
            first_page: 0,
            page_count: 0,
            arrival_ns: self.arrival_ns,
        });
    }

    /// Plans the requests that copy `pages` pages from `source` to `target`; the two ranges must not overlap. With
    /// `RemapMode::Relocate` only remap requests deallocate the source pages, so a model that copies by writes must
    /// trim them itself.
    pub(super) fn plan_copy(
        &mut self,
        target: u64,
        source: u64,
        pages: u64,
        mode: RemapMode,
        copying: CopyMethod,
    ) {
        if copying == CopyMethod::Remapped {
            return self.plan_split_requests(target, pages, |done| PlannedStep::Remap {
                source: source + done,
                mode,
            });
        }
        if copying == CopyMethod::ReadAndWritten {
            self.plan_read(source, pages);
        }
        self.plan_split_requests(target, pages, |done| PlannedStep::WriteCopy { source: source + done });
    }

    /// Divides a range of pages into planned requests of at most [`MAX_REQUEST_PAGES`]. For each of them, `step`
    /// receives the number of pages of the range that come before it, and returns what the request does.
    fn plan_split_requests(&mut self, first: u64, pages: u64, step: impl Fn(u64) -> PlannedStep) {
        for done in (0..pages).step_by(MAX_REQUEST_PAGES as usize) {
            let pages = (pages - done).min(MAX_REQUEST_PAGES);
            self.planned_requests.push_back(PlannedRequest {
                step: step(done),
                first_page: first + done,
                page_count: pages,
                arrival_ns: self.arrival_ns,
            });
        }
    }

    /// Converts the next planned step of the host model into a request; returns false if there is none.
    pub(super) fn next_request(&mut self, into: &mut Request) -> bool {
        let Some(PlannedRequest { step, first_page: first, page_count: pages, arrival_ns: time_ns }) =
            self.planned_requests.pop_front()
        else {
            return false;
        };
        into.clear_optional_fields();
        into.set_common_fields(time_ns, request_op_of_step(step), first * PAGE_BYTES, pages * PAGE_BYTES);
        let range = first..first + pages;
        match step {
            PlannedStep::Write => self.content_model.draw_written_contents(range.clone(), &mut into.content),
            PlannedStep::WriteWithContent(content) => {
                into.content.push(ContentDescriptor::of_fingerprint(content));
            }
            PlannedStep::WriteCopy { source } => {
                into.content.extend_from_slice(self.page_contents(source..source + pages));
            }
            PlannedStep::Remap { source, .. } => {
                into.remap_source_offset_bytes = source * PAGE_BYTES;
                // A drive with larger pages cannot remap parts of them, so that the request becomes a write.
                into.content.extend_from_slice(self.page_contents(source..source + pages));
                self.record_contents(range.clone(), &into.content);
            }
            PlannedStep::Read | PlannedStep::Trim | PlannedStep::Flush | PlannedStep::PhaseMark => {}
        }
        if into.op == Op::Write {
            self.record_contents(range, &into.content);
        }
        true
    }

    /// Returns the contents of a range of pages of the volume.
    fn page_contents(&self, pages: Range<u64>) -> &[ContentDescriptor] {
        &self.content_by_page[pages.start as usize..pages.end as usize]
    }

    /// Records the contents that pages of the volume hold. The delta size of each content is recorded as unknown,
    /// because it refers to the earlier version of the page that was written, and would be wrong for a copy on another
    /// page.
    fn record_contents(&mut self, pages: Range<u64>, contents: &[ContentDescriptor]) {
        if self.content_by_page.len() < pages.end as usize {
            self.content_by_page
                .resize(pages.end as usize, ContentDescriptor::of_fingerprint(Fingerprint::ZERO_PAGE));
        }
        for (held_contents, content) in self.content_by_page[pages.start as usize..].iter_mut().zip(contents)
        {
            *held_contents = ContentDescriptor { delta_bytes: ContentDescriptor::UNKNOWN_SIZE, ..*content };
        }
    }
}

/// Returns the kind of request (read, write, trim, ...) that executes a planned step.
fn request_op_of_step(step: PlannedStep) -> Op {
    match step {
        PlannedStep::Read => Op::Read,
        PlannedStep::Write | PlannedStep::WriteWithContent(_) | PlannedStep::WriteCopy { .. } => Op::Write,
        PlannedStep::Remap { mode, .. } => Op::Remap(mode),
        PlannedStep::Trim => Op::Trim,
        PlannedStep::Flush => Op::Flush,
        PlannedStep::PhaseMark => Op::PhaseMarker,
    }
}
