//! Profiles data and traffic as a drive sees them: duplicates, compressibility, differences between versions, rewrites
//! and skew, with the `--content` and `--workload` specifications that reproduce them.
//!
//! For each mechanism of the designs, a property of the input decides whether it pays: duplicate pages,
//! compressibility, similarity of versions, and rewrites. [`Profiler`] measures these on requests
//! ([`Profiler::add_request`]) or on pages of files ([`Profiler::add_page`]); [`files`] finds the pages of a directory
//! tree. Pages are 4 KiB, and codecs are those of the engine (`wearwell::content`), so that a profile and a replay of
//! the same bytes agree.
//!
//! Memory is bounded: two tables of at most [`MAX_TABLE_ENTRIES`] entries, about 0.6 GB together at their largest, and
//! 1.0 GB while they grow. If an input has more pages or contents it is sampled, and the figures have their standard
//! errors. The price of the bound: a sample of contents shows nothing about a single page.

mod contents;
mod distribution;
pub mod files;
mod pages;
mod sample;
mod savings;
mod skew;
mod source;
mod specification_text;
mod table;
mod traffic;

use contents::ContentCounts;
pub use contents::ContentFigures;
use distribution::SizeHistogram;
pub use distribution::SizeShares;
use pages::PageWriteCounts;
pub use pages::{RewriteFigures, SkewFigures};
use sample::HashSample;
use savings::RecentlyWrittenPages;
pub use savings::{BASELINE_DESIGN, MeasuredSaving, Saving, SavingRuns, config_with_every_mechanism};
pub use source::{OnReadProgress, ProfileError, is_profiled_as_trace, profile_files, profile_requests};
use traffic::TrafficCounts;
pub use traffic::{SizeShare, TrafficFigures};
use wearwell::data::{ContentDescriptor, Fingerprint, compressed_len, delta_len, fingerprint_of};
use wearwell_config::ContentMechanismName;
use wearwell_trace::{Op, PAGE_BYTES, Request};

use crate::report::RESULT_SCHEMA_VERSION;

/// Largest number of entries in a profiler's table of pages or contents; when the table has more entries, the sample is
/// halved. Covers 28 GiB of distinct pages.
pub const MAX_TABLE_ENTRIES: usize = 7 << 20;

/// Properties of an input's data and traffic, as in the JSON of a profile. Names of fields are stable; a figure that
/// does not exist for the input is null.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Profile {
    /// Name of the profiled input.
    pub input: String,
    /// Whether profiling ended early: before the end of the input, or before every content mechanism was simulated on a
    /// drive.
    pub partial: bool,
    /// Sampling of contents: one of this many contents was examined; 1 = all.
    pub contents_sampled_1_of: u64,
    /// Sampling of pages: one of this many pages was examined; 1 = all.
    pub pages_sampled_1_of: u64,
    /// Figures on the contents of the written pages, or of the pages of files; null if no content is known.
    pub content: Option<ContentFigures>,
    /// Sizes of deltas (compressed differences between successive versions of a page), as shares of the page; unchanged
    /// pages are left out.
    pub delta: Option<SizeShares>,
    /// Share of overwrites that do not change the content of their page (silent writes). If files are profiled: share
    /// of pages that equal the same page of the file's old version.
    pub unchanged_share: Option<f64>,
    /// Figures on the requests of a trace; null if the contents of plain files are profiled.
    pub traffic: Option<TrafficFigures>,
    /// Figures on rewrites of pages by a trace; null for files.
    pub rewrites: Option<RewriteFigures>,
    /// How unequally the writes of a trace spread over pages; null for files.
    pub skew: Option<SkewFigures>,
    /// What each content mechanism by itself could save of the page writes, and what it saved when it was run on a
    /// drive.
    #[serde(default)]
    pub savings: Vec<Saving>,
    /// The drive on which the content mechanisms were run, with the results of these runs; null if they were not run.
    #[serde(default)]
    pub runs: Option<SavingRuns>,
    /// Specification of a content model, for the option `--content`, that generates content like that of the input.
    pub content_line: Option<String>,
    /// Specification of a workload, for the option `--workload`, that generates requests like those of the input.
    pub workload_line: Option<String>,
    /// Remarks that a reader of the figures must know, such as sampling.
    pub notes: Vec<String>,
}

/// The JSON document that `wearwell profile --json` writes.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Profiles {
    /// Version of the JSON document's layout, [`RESULT_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Profiles, one for each profiled path.
    pub profiles: Vec<Profile>,
}

impl Profiles {
    /// Creates the JSON document for profiles in the order of their paths.
    pub fn of_profiles(profiles: Vec<Profile>) -> Self {
        Self { schema_version: RESULT_SCHEMA_VERSION, profiles }
    }
}

/// Measures an input, request by request or page by page, and computes its [`Profile`].
pub struct Profiler {
    /// Counts of page contents, for duplicates and compressibility.
    content_counts: ContentCounts,
    /// Counts of the writes of each page, for rewrites and skew.
    page_writes: PageWriteCounts,
    /// Counts of requests by kind, size and sequentiality.
    traffic_counts: TrafficCounts,
    /// Sizes of the compressed differences between successive versions of pages.
    delta_sizes: SizeHistogram,
    /// Number of page writes whose content is known to be equal to the old content of the page.
    unchanged_page_writes: u64,
    /// The pages written last. A further write of one of them counts as a write that replaces a page in the chunk
    /// buffer of compression.
    recently_written_pages: RecentlyWrittenPages,
    /// Number of page writes that replace a page that still waits in the chunk buffer of compression, so that the
    /// earlier write needs no program.
    writes_replaced_in_chunk_buffer: u64,
    /// Whether the input has remap requests; the profiler does not follow the contents that they move between pages.
    has_remaps: bool,
    /// Number of pages of the profiled files that have an old version.
    pages_with_old_version: u64,
    /// Number of pages of the profiled files that equal their old version.
    unchanged_file_pages: u64,
    /// Number of page writes whose content is unknown.
    unknown_content_writes: u64,
}

impl std::fmt::Debug for Profiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profiler").field("sample", &self.content_counts.sample).finish_non_exhaustive()
    }
}

impl Profiler {
    /// Creates a profiler that examines a sample: one of `sampling_divisor` pages and contents (1: all), and fewer
    /// when its tables are full.
    ///
    /// # Panics
    /// Panics if `sampling_divisor` is 0.
    pub fn new(sampling_divisor: u64) -> Self {
        Self::with_table_limit(sampling_divisor, MAX_TABLE_ENTRIES)
    }

    /// Creates a profiler as [`Self::new`] does, with tables of at most `entries_max` entries.
    ///
    /// # Panics
    /// Panics if `sampling_divisor` or `entries_max` is 0.
    pub fn with_table_limit(sampling_divisor: u64, entries_max: usize) -> Self {
        assert!(sampling_divisor > 0 && entries_max > 0, "a sample has pages");
        let sample = HashSample { sampling_divisor };
        Self {
            content_counts: ContentCounts::new(sample, entries_max),
            page_writes: PageWriteCounts::new(sample, entries_max),
            traffic_counts: TrafficCounts::default(),
            delta_sizes: SizeHistogram::default(),
            unchanged_page_writes: 0,
            recently_written_pages: RecentlyWrittenPages::default(),
            writes_replaced_in_chunk_buffer: 0,
            has_remaps: false,
            pages_with_old_version: 0,
            unchanged_file_pages: 0,
            unknown_content_writes: 0,
        }
    }

    /// Counts a request of a trace or of a generator in the profile.
    pub fn add_request(&mut self, request: &Request) {
        self.traffic_counts.add_request(request);
        match request.op {
            Op::Read => {
                request.pages().for_each(|page| self.page_writes.add_touched_page(request.device, page));
            }
            Op::Write => self.add_write_request(request),
            Op::Trim | Op::Zero => {
                for page in request.whole_pages() {
                    let content = self.page_writes.remove_trimmed_content(request.device, page);
                    self.remove_copy(content);
                }
            }
            Op::Remap(_) => self.has_remaps = true,
            Op::Flush | Op::PhaseMarker => {}
        }
    }

    /// Counts the pages of a write request in all tables of the profile.
    fn add_write_request(&mut self, request: &Request) {
        let has_bytes = !request.payload.is_empty() && request.offset_bytes.is_multiple_of(PAGE_BYTES);
        let whole = request.payload.as_chunks::<{ PAGE_BYTES as usize }>().0;
        for (index, page) in request.pages().enumerate() {
            let bytes = whole.get(index).filter(|_| has_bytes);
            let descriptor = request.content.get(index).copied();
            let fingerprint = descriptor
                .map(|descriptor| descriptor.fingerprint)
                .or_else(|| bytes.map(|bytes| fingerprint_of(bytes)));
            let before =
                self.page_writes.count_page_write(request.device, page, request.time_ns, fingerprint);
            self.writes_replaced_in_chunk_buffer +=
                u64::from(self.recently_written_pages.add_page(pages::page_key(request.device, page)));
            let Some(fingerprint) = fingerprint else {
                self.unknown_content_writes += 1;
                self.remove_copy(before);
                continue;
            };
            let size =
                descriptor.map_or(ContentDescriptor::UNKNOWN_SIZE, |descriptor| descriptor.compressed_bytes);
            self.content_counts.add_page(fingerprint, || match bytes {
                Some(bytes) if size == ContentDescriptor::UNKNOWN_SIZE => compressed_len(bytes) as u16,
                _ => size,
            });
            // The old copy dies after the new one was looked up, as in the engine.
            self.remove_copy(before);
            let delta =
                descriptor.map_or(ContentDescriptor::UNKNOWN_SIZE, |descriptor| descriptor.delta_bytes);
            match delta {
                ContentDescriptor::UNKNOWN_SIZE => {}
                _ if delta == 0 || before == Some(fingerprint) => self.unchanged_page_writes += 1,
                _ => self.delta_sizes.add_pages(delta, 1),
            }
        }
    }

    /// Counts that a page no longer holds `content`, because it was overwritten or trimmed; does nothing if the content
    /// is unknown.
    fn remove_copy(&mut self, content: Option<Fingerprint>) {
        if let Some(content) = content {
            self.content_counts.remove_copy(content);
        }
    }

    /// Counts a page of a file in the profile, and its difference to the old version of the page if there is one.
    pub fn add_page(&mut self, page: &[u8], old: Option<&[u8]>) {
        let fingerprint = fingerprint_of(page);
        self.content_counts.add_page(fingerprint, || compressed_len(page) as u16);
        let Some(old) = old else { return };
        self.pages_with_old_version += 1;
        if page == old {
            self.unchanged_file_pages += 1;
        } else if self.content_counts.sample.contains(fingerprint.0) {
            self.delta_sizes.add_pages(delta_len(page, old) as u16, 1);
        }
    }

    /// Returns the profile of everything counted so far, for the input called `input`.
    pub fn to_profile(&self, input: String) -> Profile {
        let content = self.content_counts.content_figures();
        let delta = self.delta_sizes.to_size_shares();
        let is_trace = self.traffic_counts.traffic_figures(0, 0).requests > 0;
        let traffic = is_trace.then(|| {
            self.traffic_counts
                .traffic_figures(self.page_writes.touched_pages(), self.page_writes.written_pages())
        });
        let rewrites = self.page_writes.page_rewrite_figures(self.traffic_counts.has_times());
        let unchanged_share = match self.pages_with_old_version {
            0 => self.page_writes.silent_overwrite_share(),
            versions => Some(self.unchanged_file_pages as f64 / versions as f64),
        };
        let silent = if is_trace { unchanged_share } else { unchanged_share.filter(|share| *share > 0.0) };
        let content_line = content.as_ref().map(|content| {
            specification_text::content_specification(content, delta.as_ref(), silent, rewrites.as_ref())
        });
        let skew = self.page_writes.skew_figures();
        let workload_line = traffic.as_ref().map(|traffic| {
            specification_text::workload_specification(traffic, skew.as_ref(), content_line.as_deref())
        });
        let savings = content.as_ref().map_or_else(Vec::new, |content| {
            self.max_savings_by_mechanism(content, delta.as_ref(), rewrites.as_ref())
        });
        let mut profile = Profile {
            input,
            partial: false,
            contents_sampled_1_of: self.content_counts.sample.sampling_divisor,
            pages_sampled_1_of: self.page_writes.sample.sampling_divisor,
            content,
            delta,
            unchanged_share,
            traffic,
            rewrites,
            skew,
            savings,
            runs: None,
            content_line,
            workload_line,
            notes: Vec::new(),
        };
        profile.notes = self.profile_notes(&profile);
        profile
    }

    /// Returns the largest share of the page writes that each content mechanism, used alone, could save. In a profile
    /// of files, every page is written once: there are no dead pages to recycle.
    fn max_savings_by_mechanism(
        &self,
        content: &ContentFigures,
        delta: Option<&SizeShares>,
        rewrites: Option<&RewriteFigures>,
    ) -> Vec<Saving> {
        let ideal = self.content_counts.ideal_savings(content);
        let is_sampled =
            self.content_counts.sample.sampling_divisor.max(self.page_writes.sample.sampling_divisor) > 1;
        // Of a sample, and where contents are moved unseen, every content that was seen before counts.
        let seen_before =
            content.duplicate_share + (content.zero_share - 1.0 / content.pages as f64).max(0.0);
        let [held, dead] = if is_sampled || self.has_remaps {
            [seen_before; 2]
        } else {
            [ideal.dedup_saving_share, ideal.recycling_saving_share]
        };
        let pages = content.pages as f64;
        let replaced = self.writes_replaced_in_chunk_buffer as f64 / pages;
        let compressed = ideal
            .compression_byte_saving_share
            .map(|packed| savings::max_compression_saving_share(packed, replaced));
        let saving = |mechanism, at_most: Option<f64>, at_most_error: f64| Saving {
            mechanism,
            at_most: at_most.map(|share| share.clamp(0.0, 1.0)),
            at_most_error,
            when_run: None,
        };
        vec![
            saving(ContentMechanismName::RECYCLE, rewrites.map(|_| dead), content.duplicate_share_error),
            saving(ContentMechanismName::DEDUP, Some(held), content.duplicate_share_error),
            saving(ContentMechanismName::DELTA, self.max_delta_saving_share(content.pages, delta), 0.0),
            saving(ContentMechanismName::COMPRESS, compressed, content.compressed_mean_error),
        ]
    }

    /// Returns the largest share of the page writes that delta encoding could save; `None` if no difference between
    /// successive versions is known.
    fn max_delta_saving_share(&self, pages: u64, delta: Option<&SizeShares>) -> Option<f64> {
        let (changed, unchanged) = match (self.pages_with_old_version, delta) {
            (0, delta) => (delta.map_or(0, |delta| delta.pages), self.unchanged_page_writes),
            (versions, _) => (versions - self.unchanged_file_pages, self.unchanged_file_pages),
        };
        let left_out = delta.map_or(0.0, |delta| 1.0 - delta.mean) * changed as f64 + unchanged as f64;
        (changed + unchanged > 0).then(|| left_out / pages as f64)
    }

    /// Returns the notes of a profile: what a reader of its figures must know, such as sampling or unknown contents.
    fn profile_notes(&self, profile: &Profile) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(traffic) = &profile.traffic {
            if profile.content.is_none() && traffic.pages_written > 0 {
                notes.push(
                    "the trace does not know what was written: profile the files or the disk image instead"
                        .into(),
                );
            } else if self.unknown_content_writes > 0 {
                notes.push(format!("{} pages were written without content", self.unknown_content_writes));
            }
            if traffic.unsorted_times > 0 {
                notes.push(format!(
                    "{} requests have times before that of the request before",
                    traffic.unsorted_times
                ));
            }
            notes.extend(specification_text::workload_specification_notes(traffic));
        }
        if profile.contents_sampled_1_of.max(profile.pages_sampled_1_of) > 1 {
            notes.push(format!(
                "sampled: one of {} contents, one of {} pages; ± is a standard error",
                profile.contents_sampled_1_of, profile.pages_sampled_1_of
            ));
        }
        if profile.skew.as_ref().is_some_and(|skew| skew.zipf_misfit > 0.05) {
            notes.push("zipf does not fit the skew well: the workload line is a rough substitute".into());
        }
        notes
    }
}
