//! Counts which pages are touched, how often each is written, and how many other writes lie between two writes of a
//! page.
//!
//! One table has an entry for each page of the sample. Memory: 41 bytes per entry, at a load of at least 7/16. Pages
//! are identified by a 64-bit hash of device and page number; the probability that any two of 7 million pages share a
//! hash is below 10^-5.

use rustc_hash::FxHashMap;
use wearwell::data::{Fingerprint, mix_bits};

use super::distribution::LogHistogram;
use super::sample::{HashSample, STANDARD_ERROR_GROUPS, standard_error_group, standard_error_of_quotient};
use super::skew::{harmonic_sum, zipf_theta_of_counts};

/// Figures on repeated writes of the same pages.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct RewriteFigures {
    /// Page writes whose page was written before, as a share of all page writes.
    pub rewrite_share: f64,
    /// Standard error of `rewrite_share`, from sampling; 0 if all pages were examined.
    pub rewrite_share_error: f64,
    /// Share of the written pages that were written exactly once.
    pub once_share: f64,
    /// Standard error of `once_share`, from sampling; 0 if all pages were examined.
    pub once_share_error: f64,
    /// Mean number of writes per written page.
    pub writes_per_page: f64,
    /// 25th percentile of the interval between two writes of a page, in page writes; null without rewrites.
    pub interval_p25_pages: Option<f64>,
    /// Median interval between two writes of a page, in page writes; null without rewrites.
    pub interval_p50_pages: Option<f64>,
    /// 75th percentile of the interval between two writes of a page, in page writes; null without rewrites.
    pub interval_p75_pages: Option<f64>,
    /// 99th percentile of the interval between two writes of a page, in page writes; null without rewrites.
    pub interval_p99_pages: Option<f64>,
    /// Median time between two writes of a page, seconds; null without rewrites or times.
    pub interval_p50_s: Option<f64>,
}

/// How unequally writes spread over the written pages.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct SkewFigures {
    /// Share of the page writes that go to the most written 1 % of the written pages.
    pub top_1_percent: f64,
    /// Share of the page writes that go to the most written 10 % of the written pages.
    pub top_10_percent: f64,
    /// Share of the page writes that go to the most written 20 % of the written pages.
    pub top_20_percent: f64,
    /// Standard error of `top_20_percent`, from sampling; 0 if all pages were examined.
    pub top_20_percent_error: f64,
    /// Exponent (0 to 2) of the Zipf law that fits the writes of the written pages: under it, two random writes hit the
    /// same page with the measured probability.
    pub zipf_theta: f64,
    /// How badly the Zipf law fits. For the most written 1, 2, 5, 10, 20 and 50 % of the pages, their measured share of
    /// the writes is compared with their share by the Zipf law; this is the largest difference.
    pub zipf_misfit: f64,
}

/// Entry of the profiler's table of pages: writes and content of one page.
struct PageEntry {
    /// Number of writes of the page.
    write_count: u32,
    /// Number of the page's last write, among the writes of all pages.
    last_write_number: u64,
    /// Time of the page's last write, nanoseconds.
    last_write_ns: u64,
    /// Fingerprint of the page's content, plus one; 0 if it is unknown.
    held_fingerprint_plus_one: u64,
}

/// Counts of the writes of each page in a sample.
pub(super) struct PageWriteCounts {
    /// Entries of the sampled pages, by a hash of device and page number.
    entries_by_page_key: FxHashMap<u64, PageEntry>,
    /// Rule that selects the sampled pages.
    pub(super) sample: HashSample,
    /// Largest number of entries; when it is reached, the sample is halved.
    max_page_entries: usize,
    /// Number of writes of all pages, including pages outside the sample.
    total_page_writes: u64,
    /// Intervals between two writes of the same page, measured as the number of page writes (to any page) in between.
    rewrite_intervals_page_writes: LogHistogram,
    /// Intervals between two writes of a page, in nanoseconds.
    rewrite_intervals_ns: LogHistogram,
    /// Overwrites of pages whose old and new content are known, extrapolated from the sample.
    known_content_overwrites: u64,
    /// Overwrites of pages with the content that the page already holds, extrapolated from the sample.
    silent_overwrites: u64,
}

impl PageWriteCounts {
    /// Creates empty counts for the pages that `sample` selects, in a table of at most `max_page_entries` entries.
    pub(super) fn new(sample: HashSample, max_page_entries: usize) -> Self {
        Self {
            entries_by_page_key: FxHashMap::default(),
            sample,
            max_page_entries,
            total_page_writes: 0,
            rewrite_intervals_page_writes: LogHistogram::default(),
            rewrite_intervals_ns: LogHistogram::default(),
            known_content_overwrites: 0,
            silent_overwrites: 0,
        }
    }

    /// Counts a page write in the sample of pages. `content` is the new content, if it is known. Returns the content
    /// that the page held before, if that is known.
    pub(super) fn count_page_write(
        &mut self,
        device: u32,
        page: u64,
        time_ns: u64,
        content: Option<Fingerprint>,
    ) -> Option<Fingerprint> {
        let key = page_key(device, page);
        let now = self.total_page_writes;
        self.total_page_writes += 1;
        if !self.sample.contains(key) {
            return None;
        }
        let held = content.map_or(0, |content| content.0.wrapping_add(1));
        let weight = self.sample.sampling_divisor;
        if !self.entries_by_page_key.contains_key(&key) && !self.insert_page_if_in_sample(key) {
            return None;
        }
        let entry = self.entries_by_page_key.get_mut(&key).expect("it is in the table");
        let before = entry.held_fingerprint_plus_one;
        if entry.write_count > 0 {
            self.rewrite_intervals_page_writes.add_value(now - entry.last_write_number, weight);
            self.rewrite_intervals_ns.add_value(time_ns.saturating_sub(entry.last_write_ns), weight);
            let is_known = held != 0 && before != 0;
            self.known_content_overwrites += weight * u64::from(is_known);
            self.silent_overwrites += weight * u64::from(is_known && held == before);
        }
        *entry = PageEntry {
            write_count: entry.write_count.saturating_add(1),
            last_write_number: now,
            last_write_ns: time_ns,
            held_fingerprint_plus_one: held,
        };
        fingerprint_of_plus_one(before)
    }

    /// Forgets the content of a page that was trimmed. Returns the content that the page held, if it is known.
    pub(super) fn remove_trimmed_content(&mut self, device: u32, page: u64) -> Option<Fingerprint> {
        let entry = self.entries_by_page_key.get_mut(&page_key(device, page))?;
        fingerprint_of_plus_one(std::mem::take(&mut entry.held_fingerprint_plus_one))
    }

    /// Counts a page as touched by a read request.
    pub(super) fn add_touched_page(&mut self, device: u32, page: u64) {
        let key = page_key(device, page);
        if self.sample.contains(key) && !self.entries_by_page_key.contains_key(&key) {
            self.insert_page_if_in_sample(key);
        }
    }

    /// Adds an entry to the table of sampled pages. If the table is full, the sample is halved first. Returns false if
    /// the page is outside the halved sample.
    fn insert_page_if_in_sample(&mut self, key: u64) -> bool {
        if self.entries_by_page_key.len() == self.max_page_entries {
            self.sample = self.sample.half_of_sample();
            let sample = self.sample;
            self.entries_by_page_key.retain(|&key, _| sample.contains(key));
            if !sample.contains(key) {
                return false;
            }
        }
        self.entries_by_page_key.insert(
            key,
            PageEntry {
                write_count: 0,
                last_write_number: 0,
                last_write_ns: 0,
                held_fingerprint_plus_one: 0,
            },
        );
        true
    }

    /// Returns the number of distinct pages read or written, extrapolated if sampled.
    pub(super) fn touched_pages(&self) -> u64 {
        self.entries_by_page_key.len() as u64 * self.sample.sampling_divisor
    }

    /// Returns hash and number of writes of each sampled page that was written.
    fn page_keys_and_write_counts(&self) -> impl Iterator<Item = (u64, u32)> {
        self.entries_by_page_key
            .iter()
            .filter(|(_, entry)| entry.write_count > 0)
            .map(|(&key, entry)| (key, entry.write_count))
    }

    /// Returns the number of distinct pages written, extrapolated if sampled.
    pub(super) fn written_pages(&self) -> u64 {
        self.page_keys_and_write_counts().count() as u64 * self.sample.sampling_divisor
    }

    /// Returns the share of overwrites that do not change the content of their page; `None` if no overwrite has known
    /// old and new content.
    pub(super) fn silent_overwrite_share(&self) -> Option<f64> {
        (self.known_content_overwrites > 0)
            .then(|| self.silent_overwrites as f64 / self.known_content_overwrites as f64)
    }

    /// Returns the figures on rewrites of pages; `None` if no page was written. `has_times` is whether requests have
    /// times.
    pub(super) fn page_rewrite_figures(&self, has_times: bool) -> Option<RewriteFigures> {
        let (mut pages, mut writes) = ([0.0; STANDARD_ERROR_GROUPS], [0.0; STANDARD_ERROR_GROUPS]);
        let (mut once, mut again) = ([0.0; STANDARD_ERROR_GROUPS], [0.0; STANDARD_ERROR_GROUPS]);
        for (key, times) in self.page_keys_and_write_counts() {
            let part = standard_error_group(key);
            pages[part] += 1.0;
            writes[part] += f64::from(times);
            again[part] += f64::from(times - 1);
            once[part] += f64::from(u8::from(times == 1));
        }
        let sum = |values: &[f64; STANDARD_ERROR_GROUPS]| values.iter().sum::<f64>();
        if sum(&pages) == 0.0 {
            return None;
        }
        let is_sampled = self.sample.sampling_divisor > 1;
        let error = |parts, wholes| if is_sampled { standard_error_of_quotient(parts, wholes) } else { 0.0 };
        let after = |share| self.rewrite_intervals_page_writes.quantile(share);
        Some(RewriteFigures {
            rewrite_share: sum(&again) / sum(&writes),
            rewrite_share_error: error(&again, &writes),
            once_share: sum(&once) / sum(&pages),
            once_share_error: error(&once, &pages),
            writes_per_page: sum(&writes) / sum(&pages),
            interval_p25_pages: after(0.25),
            interval_p50_pages: after(0.5),
            interval_p75_pages: after(0.75),
            interval_p99_pages: after(0.99),
            interval_p50_s: self.rewrite_intervals_ns.quantile(0.5).filter(|_| has_times).map(|ns| ns / 1e9),
        })
    }

    /// Returns how unequally writes spread over pages; `None` if no page was written.
    pub(super) fn skew_figures(&self) -> Option<SkewFigures> {
        let mut counts: Vec<u32> = self.page_keys_and_write_counts().map(|(_, writes)| writes).collect();
        if counts.is_empty() {
            return None;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let items = counts.len() as u64;
        let theta = zipf_theta_of_counts(&counts, items);
        let all = harmonic_sum(items, theta);
        let misfit = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5]
            .into_iter()
            .map(|share| {
                let hottest = (share * items as f64).ceil();
                (most_written_pages_share(&counts, share) - harmonic_sum(hottest as u64, theta) / all).abs()
            })
            .fold(0.0, f64::max);
        Some(SkewFigures {
            top_1_percent: most_written_pages_share(&counts, 0.01),
            top_10_percent: most_written_pages_share(&counts, 0.1),
            top_20_percent: most_written_pages_share(&counts, 0.2),
            top_20_percent_error: if self.sample.sampling_divisor > 1 {
                self.top_pages_write_share_error(0.2)
            } else {
                0.0
            },
            zipf_theta: theta,
            zipf_misfit: misfit,
        })
    }

    /// Returns the standard error of the share of writes that the most written `share` of the pages receives, computed
    /// from how this share of writes varies between the parts of the sample.
    fn top_pages_write_share_error(&self, share: f64) -> f64 {
        let mut parts: [Vec<u32>; STANDARD_ERROR_GROUPS] = Default::default();
        for (key, writes) in self.page_keys_and_write_counts() {
            parts[standard_error_group(key)].push(writes);
        }
        let shares: Vec<f64> = parts
            .iter_mut()
            .map(|counts| {
                counts.sort_unstable_by(|a, b| b.cmp(a));
                most_written_pages_share(counts, share)
            })
            .collect();
        let groups = STANDARD_ERROR_GROUPS as f64;
        let mean = shares.iter().sum::<f64>() / groups;
        let variance = shares.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (groups - 1.0);
        (variance / groups).sqrt()
    }
}

/// Returns the key of a page in the tables of a profile: a hash of device number and page number.
pub(super) fn page_key(device: u32, page: u64) -> u64 {
    mix_bits(page ^ mix_bits(u64::from(device)))
}

/// Returns the fingerprint whose value plus one is `held`; `None` if `held` is 0, which stands for unknown content.
fn fingerprint_of_plus_one(held: u64) -> Option<Fingerprint> {
    held.checked_sub(1).map(Fingerprint)
}

/// Returns the share of all writes that the most written `share` of the pages receives; `counts` is sorted in
/// descending order.
fn most_written_pages_share(counts: &[u32], share: f64) -> f64 {
    let sum = |counts: &[u32]| counts.iter().map(|&count| f64::from(count)).sum::<f64>();
    let hottest = (share * counts.len() as f64).ceil() as usize;
    if counts.is_empty() { 0.0 } else { sum(&counts[..hottest]) / sum(counts) }
}
