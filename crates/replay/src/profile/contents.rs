//! Counts how often each content occurs, in how many pages it lies at a time, and how far it compresses.
//!
//! All figures are computed at the end from one table with an entry for each content of the sample, so that they stay
//! consistent if the sample shrinks on the way. Memory: 33 bytes per entry, at a load of at least 7/16.

use rustc_hash::FxHashMap;
use wearwell::data::{ContentDescriptor, Fingerprint};

use super::distribution::{SizeHistogram, SizeShares};
use super::sample::{HashSample, STANDARD_ERROR_GROUPS, standard_error_group, standard_error_of_quotient};
use super::skew::zipf_theta_of_growing_item_set;

/// Figures on the contents of pages: duplicates and compressibility.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct ContentFigures {
    /// Number of pages whose content is known, zero pages included.
    pub pages: u64,
    /// Zero pages as a share of the pages with known content.
    pub zero_share: f64,
    /// Pages whose content occurred before, as a share of all pages with known content; zero pages do not count as
    /// duplicates.
    pub duplicate_share: f64,
    /// Standard error of `duplicate_share`, from sampling; 0 if all contents were examined.
    pub duplicate_share_error: f64,
    /// Number of distinct contents without the zero page, extrapolated if the input was sampled.
    pub distinct: u64,
    /// Zipf exponent of the popularity of contents that are repeated.
    pub duplicate_theta: f64,
    /// Smallest number n such that the n contents that occurred first receive 99 % of all repetitions of a content.
    pub duplicate_pool: u64,
    /// Distribution of compressed sizes, each page compressed by itself (LZ4). Each page counts as often as it occurs;
    /// zero pages are left out.
    pub compressed: Option<SizeShares>,
    /// Standard error, from sampling, of the mean compressed size as a share of the page (`compressed.mean`); 0 if all
    /// contents were examined.
    pub compressed_mean_error: f64,
    /// Mean compressed size as a share of the page if each distinct content counts once, that is after deduplication.
    pub compressed_distinct_mean: Option<f64>,
}

/// Number of pages that hold a content, and the programs that perfect content mechanisms would need for it.
#[derive(Clone, Copy, Default)]
struct ContentCopyCounts {
    /// Number of pages that hold the content now.
    live_pages: u32,
    /// Largest number of pages that held the content at the same time: the number of programs that the content needs if
    /// every dead page can be revived.
    max_live_pages: u32,
    /// Number of times that a page received the content while no page held it: the number of programs that the content
    /// needs if deduplication finds every live copy.
    writes_without_live_copy: u32,
}

impl ContentCopyCounts {
    /// Counts a page that receives the content.
    fn add_copy(&mut self) {
        self.writes_without_live_copy =
            self.writes_without_live_copy.saturating_add(u32::from(self.live_pages == 0));
        self.live_pages = self.live_pages.saturating_add(1);
        self.max_live_pages = self.max_live_pages.max(self.live_pages);
    }

    /// Counts a page that no longer holds the content.
    fn remove_live_copy(&mut self) {
        self.live_pages = self.live_pages.saturating_sub(1);
    }
}

/// Shares of the page writes that perfect content mechanisms would not program. Correct only if all contents were
/// examined, not a sample of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct IdealSavings {
    /// Share of the page writes whose content some page already holds: what perfect deduplication would not program.
    pub(super) dedup_saving_share: f64,
    /// Share of the page writes whose content is on a dead page, if no dead page is ever erased: what perfect recycling
    /// would not program.
    pub(super) recycling_saving_share: f64,
    /// Share of the written bytes that compression of each page by itself leaves out, if compressed pages could be
    /// packed without loss; `None` if no compressed size is known.
    pub(super) compression_byte_saving_share: Option<f64>,
}

/// Entry of the profiler's table of contents: copies, occurrences and compressed size of one content.
struct ContentEntry {
    /// How many pages hold the content now, how many held it at most, and how often it was written while no page held
    /// it.
    copies: ContentCopyCounts,
    /// Number of times that the content occurred.
    occurrences: u32,
    /// Compressed size of the content, bytes.
    compressed_bytes: u16,
    /// Number of distinct contents that occurred in the input before the first occurrence of this content, estimated
    /// from the sample size at that time.
    distinct_contents_before_first_occurrence: u32,
}

/// Counts of the page contents in a sample.
pub(super) struct ContentCounts {
    /// Table entries of the contents in the sample, by fingerprint.
    entry_by_content: FxHashMap<u64, ContentEntry>,
    /// Rule that selects the contents in the sample.
    pub(super) sample: HashSample,
    /// Largest number of entries in the table of contents; when it is exceeded, the sample is halved.
    max_entries: usize,
    /// Number of all pages counted, including those whose content is not in the sample.
    pages: u64,
    /// Number of pages of zeros counted.
    zero_pages: u64,
    /// Counts of the pages that hold the zero content.
    zero_page_copies: ContentCopyCounts,
    /// Number of distinct contents so far (without the zero page), extrapolated from the sample.
    distinct_contents_so_far: u32,
    /// Number of pages that repeat an earlier content, by the number n of distinct contents that had occurred until
    /// then: element k counts the pages with n from 2^k to 2^(k + 1) - 1.
    repeats_by_log2_distinct_contents_so_far: [u64; 32],
}

impl ContentCounts {
    /// Creates empty counts for the contents that `sample` selects, in a table of at most `max_entries` entries.
    pub(super) fn new(sample: HashSample, max_entries: usize) -> Self {
        Self {
            entry_by_content: FxHashMap::default(),
            sample,
            max_entries,
            pages: 0,
            zero_pages: 0,
            zero_page_copies: ContentCopyCounts::default(),
            distinct_contents_so_far: 0,
            repeats_by_log2_distinct_contents_so_far: [0; 32],
        }
    }

    /// Counts a page and its content; `compressed_bytes` is called only if the content is new and in the sample.
    pub(super) fn add_page(&mut self, content: Fingerprint, compressed_bytes: impl FnOnce() -> u16) {
        self.pages += 1;
        if content == Fingerprint::ZERO_PAGE {
            self.zero_pages += 1;
            self.zero_page_copies.add_copy();
            return;
        }
        if !self.sample.contains(content.0) {
            return;
        }
        if let Some(entry) = self.entry_by_content.get_mut(&content.0) {
            entry.occurrences = entry.occurrences.saturating_add(1);
            entry.copies.add_copy();
            self.repeats_by_log2_distinct_contents_so_far
                [self.distinct_contents_so_far.max(1).ilog2() as usize] += self.sample.sampling_divisor;
            return;
        }
        if self.entry_by_content.len() == self.max_entries {
            self.sample = self.sample.half_of_sample();
            let sample = self.sample;
            self.entry_by_content.retain(|&content, _| sample.contains(content));
            if !sample.contains(content.0) {
                return;
            }
        }
        let ordinal = self.distinct_contents_so_far;
        let weight = u32::try_from(self.sample.sampling_divisor).unwrap_or(u32::MAX);
        self.distinct_contents_so_far = self.distinct_contents_so_far.saturating_add(weight);
        let mut copies = ContentCopyCounts::default();
        copies.add_copy();
        self.entry_by_content.insert(
            content.0,
            ContentEntry {
                copies,
                occurrences: 1,
                compressed_bytes: compressed_bytes(),
                distinct_contents_before_first_occurrence: ordinal,
            },
        );
    }

    /// Counts that a page no longer holds this content, because it was overwritten or trimmed.
    pub(super) fn remove_copy(&mut self, content: Fingerprint) {
        if content == Fingerprint::ZERO_PAGE {
            self.zero_page_copies.remove_live_copy();
        } else if let Some(entry) = self.entry_by_content.get_mut(&content.0) {
            entry.copies.remove_live_copy();
        }
    }

    /// Returns the shares of page writes that perfect content mechanisms would not program. If pages are sampled,
    /// `dedup_saving_share` and `recycling_saving_share` are wrong, because overwrites of pages outside the sample are
    /// not seen.
    pub(super) fn ideal_savings(&self, figures: &ContentFigures) -> IdealSavings {
        let (mut seen, mut known, mut first, mut most_live) = (0, 0, 0, 0);
        for entry in self.entry_by_content.values() {
            seen += u64::from(entry.occurrences);
            known += if entry.compressed_bytes == ContentDescriptor::UNKNOWN_SIZE {
                0
            } else {
                u64::from(entry.occurrences)
            };
            first += u64::from(entry.copies.writes_without_live_copy);
            most_live += u64::from(entry.copies.max_live_pages);
        }
        let nonzero_share = 1.0 - figures.zero_share;
        let saved = |programs: u64, zero_programs: u32| {
            let of_nonzero = 1.0 - programs as f64 / seen.max(1) as f64;
            let of_zero = figures.zero_share - f64::from(zero_programs) / self.pages as f64;
            (nonzero_share * of_nonzero + of_zero).clamp(0.0, 1.0)
        };
        let known_share = known as f64 / seen.max(1) as f64;
        IdealSavings {
            dedup_saving_share: saved(first, self.zero_page_copies.writes_without_live_copy),
            recycling_saving_share: saved(most_live, self.zero_page_copies.max_live_pages),
            compression_byte_saving_share: figures
                .compressed
                .as_ref()
                .map(|sizes| figures.zero_share + nonzero_share * known_share * (1.0 - sizes.mean)),
        }
    }

    /// Returns the figures on duplicates and compressibility of all pages counted; `None` if no page was counted.
    pub(super) fn content_figures(&self) -> Option<ContentFigures> {
        if self.pages == 0 {
            return None;
        }
        let mut seen = [0.0; STANDARD_ERROR_GROUPS];
        let mut repeated = [0.0; STANDARD_ERROR_GROUPS];
        let mut known = [0.0; STANDARD_ERROR_GROUPS];
        let mut bytes = [0.0; STANDARD_ERROR_GROUPS];
        let (mut sizes, mut sizes_distinct) = (SizeHistogram::default(), SizeHistogram::default());
        for (&content, entry) in &self.entry_by_content {
            let part = standard_error_group(content);
            seen[part] += f64::from(entry.occurrences);
            repeated[part] += f64::from(entry.occurrences - 1);
            if entry.compressed_bytes != ContentDescriptor::UNKNOWN_SIZE {
                known[part] += f64::from(entry.occurrences);
                bytes[part] += f64::from(entry.occurrences) * f64::from(entry.compressed_bytes) / 4096.0;
                sizes.add_pages(entry.compressed_bytes, u64::from(entry.occurrences));
                sizes_distinct.add_pages(entry.compressed_bytes, 1);
            }
        }
        let nonzero_share = (self.pages - self.zero_pages) as f64 / self.pages as f64;
        let total: f64 = seen.iter().sum();
        let duplicate_share = repeated.iter().sum::<f64>() / total.max(1.0) * nonzero_share;
        let is_sampled = self.sample.sampling_divisor > 1;
        let error = |parts, wholes| if is_sampled { standard_error_of_quotient(parts, wholes) } else { 0.0 };
        let (duplicate_theta, duplicate_pool) = self.duplicate_theta_and_content_count();
        Some(ContentFigures {
            pages: self.pages,
            zero_share: self.zero_pages as f64 / self.pages as f64,
            duplicate_share,
            duplicate_share_error: error(&repeated, &seen) * nonzero_share,
            distinct: self.entry_by_content.len() as u64 * self.sample.sampling_divisor,
            duplicate_theta,
            duplicate_pool,
            compressed: sizes.to_size_shares(),
            compressed_mean_error: error(&bytes, &known),
            compressed_distinct_mean: sizes_distinct.to_size_shares().map(|shares| shares.mean),
        })
    }

    /// Returns the Zipf exponent of the contents that are repeated, and the smallest number n such that the n contents
    /// that occurred first have 99 % of the repetitions. The other 1 % is left out, so that one late repetition does
    /// not extend n to the whole input.
    fn duplicate_theta_and_content_count(&self) -> (f64, u64) {
        let mut repeated: Vec<(u32, u32)> = self
            .entry_by_content
            .values()
            .filter(|entry| entry.occurrences > 1)
            .map(|entry| (entry.distinct_contents_before_first_occurrence, entry.occurrences - 1))
            .collect();
        repeated.sort_unstable();
        let total: u64 = repeated.iter().map(|&(_, times)| u64::from(times)).sum();
        let mut inside = 0;
        let last = repeated.iter().find(|&&(_, times)| {
            inside += u64::from(times);
            inside as f64 >= 0.99 * total as f64
        });
        let pool = last.map_or(1, |&(ordinal, _)| u64::from(ordinal) + 1);
        let inside = self
            .entry_by_content
            .values()
            .filter(|entry| u64::from(entry.distinct_contents_before_first_occurrence) < pool)
            .count();
        let counts: Vec<u32> = repeated.iter().map(|&(_, times)| times).collect();
        (
            zipf_theta_of_growing_item_set(
                &counts,
                &self.repeat_share_per_doubling_of_contents(pool, inside as u64),
            ),
            pool,
        )
    }

    /// Divides the input into stages, in each of which the number of distinct contents doubles. (The content model
    /// also extends its Zipf distribution to more contents at each doubling.) Only the `pool` contents that occurred
    /// first count; `inside` of them are in the sample. Returns for each stage the number of distinct contents in the
    /// sample, and the share of all repetitions that occurred in the stage.
    fn repeat_share_per_doubling_of_contents(&self, pool: u64, inside: u64) -> Vec<(u64, f64)> {
        let total: u64 = self.repeats_by_log2_distinct_contents_so_far.iter().sum();
        let of = |(octave, &count): (usize, &u64)| {
            let contents = if 2 << octave > pool { pool } else { 1_u64 << octave };
            let sampled = (contents as f64 * inside as f64 / pool as f64).ceil() as u64;
            (sampled.max(1), count as f64 / total as f64)
        };
        self.repeats_by_log2_distinct_contents_so_far
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(of)
            .collect()
    }
}
