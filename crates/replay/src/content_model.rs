//! Content for write requests that bring none: a documented model with a seed.
//!
//! Most block traces do not record what was written, but every mechanism that examines content (recycling,
//! deduplication, delta, compression) needs it. The model draws a [`ContentDescriptor`] for each written page from a
//! few published parameters, and [`ContentModel::describe`] states this in the report. The price is that such a result
//! rests on the model, so it must never be shown next to a measured one without that statement.
//!
//! Modelled:
//! - *which* content a page gets: all contents unique; all equal; a share of duplicates with zipf popularity over the
//!   first `pool` distinct contents; independent zipf draws over a set of contents (the literal reading of Remap-SSD's
//!   content generator, whose closed form is [`crate::theory::zipf_dedup_steady_state`]); or requests that write back
//!   an earlier version of all their pages (spatial locality of content). Silent writes can be added to each of these.
//!   Or the contents are those that the trace identifies, and the model draws only their sizes;
//! - *how compressible* it is: a Gaussian ratio per page or per chunk of pages, clipped to `[0.01, 1]`. The given mean
//!   is that of the Gaussian. The mean of the sizes differs if clipping is frequent, and the report then states it;
//! - *how much it differs* from the earlier version: a Gaussian ratio per overwrite (Delta-FTL's model; its paper does
//!   not print sigma, and the default here is a quarter of the mean).
//!
//! Simplified: content does not depend on time, nor on the address (except the compressibility of a chunk). The delta
//! ratio does not depend on how similar two contents are, except that equal contents differ by 0 bytes.
//!
//! A draw depends on the seed, on the number of the write and, for duplicates and silent writes, on what the model
//! wrote before. Sizes are functions of fingerprints: the upper 12 bits select one of 4096 quantiles, so that equal
//! contents have equal sizes wherever they occur. The lower 52 bits are a permuted number of the content, so that
//! different contents never collide within one model.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;
use wearwell::address::RemapMode;
use wearwell::data::{ContentDescriptor, Fingerprint, KnownContentSizes, mix_bits};
use wearwell_trace::{Op, PAGE_BYTES, Request};

use crate::bisection::bisect;
use crate::workload::draw::{EventProbability, Zipf};
use crate::workload::spec_grammar::{SpecError, SpecGrammar, SpecKey, SpecKind, SpecOptions};

/// The fraction of the golden ratio times 2^64: multiplication by it spreads successive numbers over 64 bits.
const GOLDEN_RATIO_64: u64 = 0x9e37_79b9_7f4a_7c15;
/// Number of halvings with which quantiles and means of the size distributions are solved for.
const BISECTION_STEPS: u32 = 48;
/// Number of upper bits of a fingerprint that select the compressed size of the content.
const SIZE_CLASS_BITS: u32 = 12;
/// Number of low bits of a generated fingerprint. They hold the number of the content, scrambled by a one-to-one
/// mapping; the bits above select its compressed size.
const CONTENT_NUMBER_BITS: u32 = u64::BITS - SIZE_CLASS_BITS;
/// Mask of the lower bits of a fingerprint, which hold the permuted number of the content.
const CONTENT_NUMBER_MASK: u64 = (1 << CONTENT_NUMBER_BITS) - 1;
/// Smallest compressed size or delta size, as a share of the page size.
const MIN_COMPRESSED_OR_DELTA_SIZE_RATIO: f64 = 0.01;
/// Width of the page version in a content number, bits; the other bits hold the page number. After 2^20 versions the
/// contents of a page repeat.
const PAGE_VERSION_BITS: u32 = CONTENT_NUMBER_BITS - u32::BITS;

/// Content models and their keys, for parsing and help.
pub const CONTENT_MODEL_GRAMMAR: SpecGrammar = SpecGrammar {
    generator_noun: "content model",
    kinds: &[
        SpecKind { name: "unique", meaning: "no page repeats another", keys: &[] },
        SpecKind { name: "same", meaning: "all pages alike (and not zero)", keys: &[] },
        SpecKind {
            name: "dup",
            meaning: "a share of writes repeats one of the first distinct contents",
            keys: &[
                SpecKey {
                    name: "share",
                    default: "0.2",
                    meaning: "probability that a write repeats, 0 to 1",
                },
                SpecKey {
                    name: "theta",
                    default: "0.9",
                    meaning: "zipf popularity of the repeated, oldest first, 0 to 2",
                },
                SpecKey {
                    name: "pool",
                    default: "100000",
                    meaning: "contents that may be repeated, 1 to 67108864",
                },
            ],
        },
        SpecKind {
            name: "zipf",
            meaning: "every write draws independently from a universe of contents",
            keys: &[
                SpecKey { name: "a", default: "0.2", meaning: "exponent of the popularity, 0 to 2" },
                SpecKey { name: "contents", default: "900000", meaning: "size of the universe, 1 to 1e12" },
            ],
        },
        SpecKind {
            name: "revert",
            meaning: "a share of requests brings back an older version of all its pages, the newest most often",
            keys: &[
                SpecKey { name: "share", default: "0.2", meaning: "probability that a request does, 0 to 1" },
                SpecKey {
                    name: "depth",
                    default: "8",
                    meaning: "versions back at most, 1 to 64; k with 2^-k",
                },
            ],
        },
        SpecKind {
            name: "recorded",
            meaning: "the contents that a trace identifies; sizes that it does not record come from compress and delta",
            keys: &[],
        },
    ],
    common_keys: &[
        SpecKey {
            name: "compress",
            default: "unknown",
            meaning: "compressed size / page: mean of a Gaussian, before sizes are clipped to 0.01 to 1",
        },
        SpecKey { name: "compress_sigma", default: "mean/4", meaning: "its standard deviation, 0 to 1" },
        SpecKey {
            name: "chunk",
            default: "1",
            meaning: "neighbouring pages whose new contents compress alike, 1 to 1048576",
        },
        SpecKey {
            name: "delta",
            default: "unknown",
            meaning: "size of a difference / page (Rc): mean of a Gaussian, before sizes are clipped to 0.01 to 1",
        },
        SpecKey { name: "delta_sigma", default: "mean/4", meaning: "its standard deviation, 0 to 1" },
        SpecKey { name: "silent", default: "0", meaning: "share of overwrites that change nothing, 0 to 1" },
    ],
};

/// A content model with its parameters; parsed from and printed as `dup:share=0.2,compress=0.5`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ContentModelSpec {
    /// How the content of each write is chosen: unique, duplicates, zipf draws, or earlier versions.
    pub source: ContentSource,
    /// Compressed size divided by page size; `None` leaves the compressed size unknown.
    pub compressed_size_ratio: Option<SizeRatioDistribution>,
    /// Number of neighbouring pages (equal `lpn / chunk`) whose unique contents have equal compressed sizes.
    pub chunk_pages: u32,
    /// Size of a compressed difference (delta) divided by page size; `None` leaves the size unknown.
    pub delta_size_ratio: Option<SizeRatioDistribution>,
    /// Share of overwrites that write the content that the page already holds.
    pub silent_write_share: f64,
}

/// How a content model chooses the content of each write.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ContentSource {
    /// Every write has content that was never written before.
    Unique,
    /// All writes have the same content.
    AlwaysSame,
    /// A write repeats one of the first `pool_content_count` distinct contents with the probability
    /// `repeat_probability`; otherwise its content is new.
    Duplicates {
        /// Probability that a write repeats an earlier content, once there is one to repeat.
        repeat_probability: f64,
        /// Exponent of the repeated contents' popularity: the k-th oldest content is repeated in proportion to
        /// `k^-theta`.
        theta: f64,
        /// Number of the oldest distinct contents that can be repeated.
        pool_content_count: u64,
    },
    /// Every write draws its content independently from a fixed set, with zipf popularity.
    Zipf {
        /// Zipf exponent of the contents' popularity.
        zipf_exponent: f64,
        /// Number of contents in the set from which writes draw.
        distinct_contents: u64,
    },
    /// Requests may write back an earlier version of their pages.
    Reverts {
        /// Probability that a request writes back an earlier version of its pages.
        repeat_probability: f64,
        /// Largest number of versions to go back; `k` versions have the probability `2^-k`.
        max_versions_back: u32,
    },
    /// Writes have the contents that the trace identifies; the model draws the sizes that the trace does not record. A
    /// write without content gets one that was never written before.
    Recorded,
}

/// Distribution of a size as a share of the page size: a Gaussian, clipped to `[0.01, 1]`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SizeRatioDistribution {
    /// Mean of the Gaussian size ratio, before clipping.
    pub mean: f64,
    /// Standard deviation of the Gaussian size ratio, before clipping.
    pub sigma: f64,
}

impl SizeRatioDistribution {
    /// Creates a distribution of size ratios with this mean and the default standard deviation, a quarter of the mean.
    pub fn of_mean(mean: f64) -> Self {
        Self { mean, sigma: mean / 4.0 }
    }

    /// Creates a distribution whose sizes have the mean `clipped_mean` after clipping. The Gaussian has the standard
    /// deviation `sigma`, or a smaller one if `sigma` is too large for this mean.
    pub fn of_clipped_mean(clipped_mean: f64, sigma: f64) -> Self {
        const MIN: f64 = MIN_COMPRESSED_OR_DELTA_SIZE_RATIO;
        let target = clipped_mean.clamp(MIN, 1.0);
        let least = Self { mean: MIN, sigma };
        let greatest = Self { mean: 1.0, sigma };
        // At both ends of the range, a smaller deviation brings the mean of the clipped sizes to the end itself.
        if least.clipped_mean() > target {
            let sigma =
                bisect(0.0, sigma, BISECTION_STEPS, |sigma| Self { sigma, ..least }.clipped_mean() < target);
            Self { sigma, ..least }
        } else if greatest.clipped_mean() < target {
            let sigma = bisect(0.0, sigma, BISECTION_STEPS, |sigma| {
                Self { sigma, ..greatest }.clipped_mean() > target
            });
            Self { sigma, ..greatest }
        } else {
            let mean = bisect(MIN, 1.0, BISECTION_STEPS, |mean| Self { mean, sigma }.clipped_mean() < target);
            Self { mean, sigma }
        }
    }

    /// Returns the mean of the sizes, as a share of the page: that of the Gaussian after clipping to `[0.01, 1]`.
    pub fn clipped_mean(&self) -> f64 {
        let Self { mean, sigma } = *self;
        let (low, high) = (MIN_COMPRESSED_OR_DELTA_SIZE_RATIO, 1.0);
        if sigma == 0.0 {
            return mean.clamp(low, high);
        }
        let [low_z, high_z] = [low, high].map(|bound| (bound - mean) / sigma);
        let [below_low, below_high] = [low_z, high_z].map(normal_probability_below);
        let density = |z: f64| (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
        low * below_low
            + high * (1.0 - below_high)
            + mean * (below_high - below_low)
            + sigma * (density(low_z) - density(high_z))
    }

    /// Returns a phrase for reports on the spread of the sizes: the standard deviation per `unit` (such as page) and,
    /// if clipping changes the mean by more than 1 %, the mean after clipping.
    fn describe_spread(&self, unit: &str) -> String {
        let clipped_mean = self.clipped_mean();
        let spread = format!("sigma {}{unit}", percent_text(self.sigma));
        if (clipped_mean - self.mean).abs() <= 0.01 * self.mean {
            return spread;
        }
        format!("{spread}; clipped to 1 to 100 %, which makes the mean {}", percent_text(clipped_mean))
    }
}

impl ContentModelSpec {
    /// Creates a content model of `source` alone: compressed and delta sizes unknown, no silent writes.
    pub fn new(source: ContentSource) -> Self {
        Self {
            source,
            compressed_size_ratio: None,
            chunk_pages: 1,
            delta_size_ratio: None,
            silent_write_share: 0.0,
        }
    }

    /// Creates a content model in which a share of the writes are duplicates, with the default popularity and pool.
    pub fn with_duplicate_share(repeat_probability: f64) -> Self {
        Self::new(ContentSource::Duplicates { repeat_probability, theta: 0.9, pool_content_count: 100_000 })
    }

    /// Returns which sizes of contents the model draws.
    pub fn drawn_sizes(&self) -> KnownContentSizes {
        KnownContentSizes {
            is_compressed_size_known: self.compressed_size_ratio.is_some(),
            is_delta_size_known: self.delta_size_ratio.is_some(),
        }
    }

    /// Refuses the source `recorded` for the contents of a workload or a host model, which records none.
    ///
    /// # Errors
    /// [`SpecError::ConflictingKeys`].
    pub(crate) fn require_source_of_generator(&self) -> Result<(), SpecError> {
        if self.source == ContentSource::Recorded {
            return Err(SpecError::ConflictingKeys(
                "recorded keeps the contents of a trace, and a generator has none: after +, give another content model, \
                 such as unique"
                    .into(),
            ));
        }
        Ok(())
    }

    /// Refuses keys that have no effect on contents that a trace identifies, and the source `recorded` without sizes.
    fn require_keys_of_source(self) -> Result<Self, SpecError> {
        if self.source != ContentSource::Recorded {
            return Ok(self);
        }
        let refusal = if self.drawn_sizes() == KnownContentSizes::default() {
            "recorded keeps the contents of the trace, and draws their sizes: give compress, delta or both"
        } else if self.chunk_pages != 1 || self.silent_write_share > 0.0 {
            "recorded keeps the contents of the trace, so that chunk and silent have no effect: leave them out"
        } else {
            return Ok(self);
        };
        Err(SpecError::ConflictingKeys(refusal.into()))
    }
}

impl FromStr for ContentModelSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let options = SpecOptions::parse(text, &CONTENT_MODEL_GRAMMAR)?;
        Self {
            source: parse_source(&options)?,
            compressed_size_ratio: parse_size_ratio(&options, "compress", "compress_sigma")?,
            chunk_pages: options.integer_value("chunk", 1..=1 << 20)?.unwrap_or(1) as u32,
            delta_size_ratio: parse_size_ratio(&options, "delta", "delta_sigma")?,
            silent_write_share: options.number_value("silent", 0.0..=1.0)?.unwrap_or(0.0),
        }
        .require_keys_of_source()
    }
}

/// Reads from a specification how the content of each write is chosen.
fn parse_source(options: &SpecOptions) -> Result<ContentSource, SpecError> {
    Ok(match options.kind_name {
        "unique" => ContentSource::Unique,
        "same" => ContentSource::AlwaysSame,
        "dup" => ContentSource::Duplicates {
            repeat_probability: options.number_value("share", 0.0..=1.0)?.unwrap_or(0.2),
            theta: options.number_value("theta", 0.0..=2.0)?.unwrap_or(0.9),
            pool_content_count: options.integer_value("pool", 1..=1 << 26)?.unwrap_or(100_000),
        },
        "zipf" => ContentSource::Zipf {
            zipf_exponent: options.number_value("a", 0.0..=2.0)?.unwrap_or(0.2),
            distinct_contents: options.integer_value("contents", 1..=1_000_000_000_000)?.unwrap_or(900_000),
        },
        "revert" => ContentSource::Reverts {
            repeat_probability: options.number_value("share", 0.0..=1.0)?.unwrap_or(0.2),
            max_versions_back: options.integer_value("depth", 1..=64)?.unwrap_or(8) as u32,
        },
        "recorded" => ContentSource::Recorded,
        other => unreachable!("the grammar lists content model {other}, which nobody reads"),
    })
}

/// Reads a distribution of size ratios from the keys `mean` and `sigma` of a specification; `None` if the mean is not
/// given.
fn parse_size_ratio(
    options: &SpecOptions,
    mean: &'static str,
    sigma: &'static str,
) -> Result<Option<SizeRatioDistribution>, SpecError> {
    let spread = options.number_value(sigma, 0.0..=1.0)?;
    match options.number_value(mean, MIN_COMPRESSED_OR_DELTA_SIZE_RATIO..=1.0)? {
        Some(mean) => Ok(Some(SizeRatioDistribution { mean, sigma: spread.unwrap_or(mean / 4.0) })),
        None if spread.is_some() => Err(SpecError::ConflictingKeys(format!(
            "{sigma} is the standard deviation of {mean}, which is not given: give {mean} too, or leave {sigma} out"
        ))),
        None => Ok(None),
    }
}

impl fmt::Display for ContentModelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(ratio) = self.compressed_size_ratio {
            parts.push(format!("compress={},compress_sigma={}", ratio.mean, ratio.sigma));
        }
        if self.chunk_pages != 1 {
            parts.push(format!("chunk={}", self.chunk_pages));
        }
        if let Some(ratio) = self.delta_size_ratio {
            parts.push(format!("delta={},delta_sigma={}", ratio.mean, ratio.sigma));
        }
        if self.silent_write_share > 0.0 {
            parts.push(format!("silent={}", self.silent_write_share));
        }
        let (kind, keys) = self.source.kind_and_keys();
        parts.splice(0..0, keys);
        write!(f, "{kind}{}{}", if parts.is_empty() { "" } else { ":" }, parts.join(","))
    }
}

impl ContentSource {
    /// Returns this source of contents as users write it in a workload specification: its name, and its `key=value` list
    /// if it has one.
    fn kind_and_keys(self) -> (&'static str, Option<String>) {
        match self {
            Self::Unique => ("unique", None),
            Self::AlwaysSame => ("same", None),
            Self::Duplicates { repeat_probability, theta, pool_content_count } => {
                ("dup", Some(format!("share={repeat_probability},theta={theta},pool={pool_content_count}")))
            }
            Self::Zipf { zipf_exponent, distinct_contents } => {
                ("zipf", Some(format!("a={zipf_exponent},contents={distinct_contents}")))
            }
            Self::Reverts { repeat_probability, max_versions_back } => {
                ("revert", Some(format!("share={repeat_probability},depth={max_versions_back}")))
            }
            Self::Recorded => ("recorded", None),
        }
    }

    /// Returns a phrase for reports on how contents are chosen.
    fn describe(self) -> String {
        match self {
            Self::Unique => "every page unique".into(),
            Self::AlwaysSame => "every page the same".into(),
            Self::Duplicates { repeat_probability, theta, pool_content_count } => {
                let share = percent_text(repeat_probability);
                format!(
                    "{share} of written pages repeat one of the first {pool_content_count} distinct contents (zipf {theta})"
                )
            }
            Self::Zipf { zipf_exponent, distinct_contents } => {
                format!("independent zipf({zipf_exponent}) draws over {distinct_contents} contents")
            }
            Self::Reverts { repeat_probability, max_versions_back } => {
                let share = percent_text(repeat_probability);
                format!(
                    "{share} of requests bring back an older version of their pages, up to {max_versions_back} back"
                )
            }
            Self::Recorded => "as the input records it, and unique where it records none".into(),
        }
    }
}

/// Returns a share (0 to 1) as text in percent.
fn percent_text(share: f64) -> String {
    format!("{} %", (share * 1e4).round() / 100.0)
}

/// Generates the content of written pages from a content model.
#[derive(Clone, Debug)]
pub struct ContentModel {
    /// Content model with its parameters, from which contents are drawn.
    spec: ContentModelSpec,
    /// Seed of the random draws.
    seed: u64,
    /// Number of pages that the content model has written so far, which is the number of the next write.
    page_write_count: u64,
    /// Number of distinct contents that the model has created so far, if its source is `Unique` or `Duplicates`.
    created_contents: u64,
    /// Probability that a write repeats a content (source `Duplicates`), or that a request goes back to an earlier
    /// version (source `Reverts`).
    duplicate_or_revert_probability: EventProbability,
    /// Probability that an overwrite writes the content that the page already holds.
    silent_write_probability: EventProbability,
    /// Number of versions that the current request goes back on each of its pages; 0 if it writes new versions.
    revert_depth_versions: u32,
    /// For each page: the number of versions (contents) created, and the version that the page holds. Used only with
    /// the content source `Reverts`, which writes earlier versions of a page again.
    page_versions: NumbersByPage,
    /// Present number of contents in the pool from which duplicates are drawn. The pool holds the distinct contents
    /// that were written first.
    duplicate_pool_len: u64,
    /// Fingerprints of the contents from which duplicates are drawn, oldest first; empty if contents are known by their
    /// numbers.
    duplicate_pool_fingerprints: Vec<u64>,
    /// Popularity of the contents that are drawn (duplicates, or the contents of the source `Zipf`), by rank.
    content_rank_distribution: Zipf,
    /// Compressed sizes of contents by quantile; `None` leaves compressed sizes unknown.
    compressed_sizes: Option<SizeQuantiles>,
    /// Sizes of deltas (compressed differences) by quantile; `None` leaves delta sizes unknown.
    delta_sizes: Option<SizeQuantiles>,
    /// Whether the model has drawn a size for at least one recorded content (source `Recorded`).
    has_drawn_sizes_for_recorded: bool,
    /// Content that each page holds; present only if silent writes or deltas need it.
    current_contents: Option<NumbersByPage>,
    /// Whether the fingerprint of a content follows from its number alone. Tables then hold the number plus one, which
    /// takes 4 bytes, instead of the fingerprint.
    identifies_contents_by_number: bool,
}

impl ContentModel {
    /// Creates the model before its first write. For silent writes and deltas the model stores the content of each
    /// page, in extents of 4096 pages. A page takes 4 bytes; it takes 8 bytes with the sources `same`, `revert` and
    /// `recorded`, if pages are compressed in chunks, or if there are 2^32 contents or more. A pool of `dup` takes 8
    /// bytes per content if pages are compressed in chunks.
    pub fn new(spec: &ContentModelSpec, seed: u64) -> Self {
        let share = match spec.source {
            ContentSource::Duplicates { repeat_probability, .. }
            | ContentSource::Reverts { repeat_probability, .. } => repeat_probability,
            _ => 0.0,
        };
        let content_rank_distribution = match spec.source {
            ContentSource::Zipf { zipf_exponent, distinct_contents } => {
                Zipf::new(distinct_contents, zipf_exponent)
            }
            ContentSource::Duplicates { theta, .. } => Zipf::new(1, theta),
            ContentSource::Unique
            | ContentSource::AlwaysSame
            | ContentSource::Reverts { .. }
            | ContentSource::Recorded => Zipf::new(1, 0.0),
        };
        Self {
            spec: *spec,
            seed: mix_bits(seed ^ GOLDEN_RATIO_64),
            page_write_count: 0,
            created_contents: 0,
            duplicate_or_revert_probability: EventProbability::new(share),
            silent_write_probability: EventProbability::new(spec.silent_write_share),
            revert_depth_versions: 0,
            page_versions: NumbersByPage::default(),
            duplicate_pool_len: 0,
            duplicate_pool_fingerprints: Vec::new(),
            content_rank_distribution,
            compressed_sizes: spec.compressed_size_ratio.map(SizeQuantiles::new),
            delta_sizes: spec.delta_size_ratio.map(SizeQuantiles::new),
            has_drawn_sizes_for_recorded: false,
            current_contents: (spec.silent_write_share > 0.0 || spec.delta_size_ratio.is_some())
                .then(NumbersByPage::default),
            identifies_contents_by_number: match spec.source {
                ContentSource::Zipf { .. } => true,
                ContentSource::Unique | ContentSource::Duplicates { .. } => spec.chunk_pages == 1,
                ContentSource::AlwaysSame | ContentSource::Reverts { .. } | ContentSource::Recorded => false,
            },
        }
    }

    /// Adds contents to a write that has none, or sizes to recorded contents that have none, and records what pages
    /// hold after a trim, zeroing or remap. Has to be called for all requests in their order.
    #[expect(
        clippy::inline_always,
        reason = "measured for eight functions together: 5 to 6 % fewer instructions per write, on wearwell 1 %"
    )]
    #[inline(always)]
    pub fn fill_or_record_request_content(&mut self, request: &mut Request) {
        match request.op {
            Op::Write if request.content.is_empty() && request.payload.is_empty() => {
                self.draw_written_contents(request.pages(), &mut request.content);
            }
            Op::Write if self.spec.source == ContentSource::Recorded => self.draw_sizes(request),
            Op::Trim | Op::Zero => self.record_trim(request.whole_pages()),
            Op::Remap(mode) => self.record_remap(request.pages(), request.remap_source_pages(), mode),
            _ => {}
        }
    }

    /// Appends to `into` the content descriptor of each page of `pages` (logical page numbers less than 2^32) that one
    /// write request writes, and records the pages as written. O(1) per page.
    #[inline]
    pub fn draw_written_contents(&mut self, pages: Range<u64>, into: &mut Vec<ContentDescriptor>) {
        if let ContentSource::Reverts { max_versions_back, .. } = self.spec.source {
            let mut rng = SplitMix64::seed_from_u64(mix_bits(
                !self.seed ^ self.page_write_count.wrapping_mul(GOLDEN_RATIO_64),
            ));
            let goes_back = self.duplicate_or_revert_probability.draw_occurrence(&mut rng);
            self.revert_depth_versions =
                if goes_back { (1 + rng.next_u64().trailing_zeros()).min(max_versions_back) } else { 0 };
        }
        for page in pages {
            into.push(self.draw_written_content(page));
        }
    }

    /// Draws the sizes that the contents of a write lack, and records what the pages hold now. A write of page bytes
    /// keeps its contents as they are: their sizes are computed from the bytes.
    fn draw_sizes(&mut self, request: &mut Request) {
        let is_described = request.payload.is_empty();
        for (page, content) in request.pages().zip(&mut request.content) {
            // Mixed with the seed, so that other seeds draw other sizes. The tables hold 0 for a page without content.
            let new = mix_bits(content.fingerprint.0 ^ self.seed).max(1);
            let old = self.current_contents.as_ref().and_then(|current| current.get(page));
            if let Some(current) = &mut self.current_contents {
                current.set(page, new);
            }
            if is_described {
                let (known, drawn) = (content.known_content_sizes(), self.descriptor(new, old));
                if !known.is_compressed_size_known {
                    content.compressed_bytes = drawn.compressed_bytes;
                }
                if !known.is_delta_size_known {
                    content.delta_bytes = drawn.delta_bytes;
                }
                self.has_drawn_sizes_for_recorded |= content.known_content_sizes() != known;
            }
        }
    }

    /// Whether the model has drawn a size for at least one content that the input identifies.
    pub fn has_drawn_sizes_for_recorded(&self) -> bool {
        self.has_drawn_sizes_for_recorded
    }

    /// Loads the content model's entries of pages that are about to be written into the CPU cache, so that the cache
    /// misses overlap. Changes nothing.
    pub fn prefetch(&self, pages: impl Iterator<Item = u64>) {
        let Some(current) = &self.current_contents else { return };
        std::hint::black_box(
            pages.filter_map(|page| current.get(page)).fold(0, |sum, content| sum ^ content),
        );
    }

    /// Records in the content model that trimmed or zeroed pages hold no content, so that their next write is no
    /// overwrite. This holds also if the drive stores the zeros, because zeros resemble no other content.
    pub fn record_trim(&mut self, pages: Range<u64>) {
        if let Some(current) = &mut self.current_contents {
            pages.for_each(|page| current.clear(page));
        }
    }

    /// Records a remap in the content model: the pages of `target` hold what the pages of `source` held before. A
    /// relocation leaves the source pages empty.
    pub fn record_remap(&mut self, target: Range<u64>, source: Range<u64>, mode: RemapMode) {
        let Some(current) = &mut self.current_contents else { return };
        if target == source {
            return;
        }
        let aside: Vec<_> = source.clone().map(|page| current.get(page)).collect();
        if mode == RemapMode::Relocate {
            source.for_each(|page| current.clear(page));
        }
        for (page, held) in target.zip(aside) {
            match held {
                Some(content) => current.set(page, content),
                None => current.clear(page),
            }
        }
    }

    /// Returns a sentence for reports that describes the content model.
    pub fn describe(&self) -> String {
        let spec = &self.spec;
        let mut parts = vec![spec.source.describe()];
        if spec.silent_write_share > 0.0 {
            parts.push(format!("{} of overwrites change nothing", percent_text(spec.silent_write_share)));
        }
        if let Some(ratio) = spec.compressed_size_ratio {
            let unit = if spec.chunk_pages > 1 {
                format!(" per chunk of {} pages", spec.chunk_pages)
            } else {
                " per page".into()
            };
            parts.push(format!(
                "compressed to {} ({})",
                percent_text(ratio.mean),
                ratio.describe_spread(&unit)
            ));
        }
        if let Some(ratio) = spec.delta_size_ratio {
            parts.push(format!(
                "differences of {} of a page ({})",
                percent_text(ratio.mean),
                ratio.describe_spread("")
            ));
        }
        let what = if spec.source == ContentSource::Recorded { "sizes of content are" } else { "content is" };
        format!("{what} synthetic: {}", parts.join("; "))
    }

    /// Draws the content that a write stores in `page`, records that the page holds it, and returns its descriptor.
    fn draw_written_content(&mut self, page: u64) -> ContentDescriptor {
        let mut rng = SplitMix64::seed_from_u64(mix_bits(
            self.seed ^ self.page_write_count.wrapping_mul(GOLDEN_RATIO_64),
        ));
        self.page_write_count += 1;
        let old = self.current_contents.as_ref().and_then(|current| current.get(page));
        let new = match old {
            Some(old) if self.silent_write_probability.draw_occurrence(&mut rng) => old,
            _ => self.choose_content(page, &mut rng),
        };
        if let Some(current) = &mut self.current_contents {
            current.set(page, new);
        }
        self.descriptor(
            self.fingerprint_of_table_value(new),
            old.map(|old| self.fingerprint_of_table_value(old)),
        )
    }

    /// Chooses the content that a write stores in `page`. Returns its fingerprint, or its number plus one if contents
    /// are known by their numbers.
    fn choose_content(&mut self, page: u64, rng: &mut SplitMix64) -> u64 {
        match self.spec.source {
            ContentSource::Unique | ContentSource::Recorded => self.create_content(page),
            ContentSource::AlwaysSame => self.fingerprint_of_content(0, self.seed),
            ContentSource::Zipf { .. } => self.content_rank_distribution.draw(rng) + 1,
            ContentSource::Duplicates { .. } => {
                if self.duplicate_pool_len > 0 && self.duplicate_or_revert_probability.draw_occurrence(rng) {
                    let rank = self.content_rank_distribution.draw(rng);
                    // The contents of the pool are the first ones, so the oldest has the number 0.
                    return if self.identifies_contents_by_number {
                        rank
                    } else {
                        self.duplicate_pool_fingerprints[rank as usize - 1]
                    };
                }
                let new = self.create_content(page);
                self.add_to_pool(new);
                new
            }
            ContentSource::Reverts { .. } => self.revert_or_create_content(page),
        }
    }

    /// Returns the fingerprint of a content. `value` is what the model's tables hold for the content: the fingerprint
    /// itself, or the number of the content plus one.
    #[inline]
    fn fingerprint_of_table_value(&self, value: u64) -> u64 {
        if self.identifies_contents_by_number {
            self.fingerprint_of_content(value - 1, value - 1)
        } else {
            value
        }
    }

    /// Chooses the content that the current request writes to `page`: the version that is `revert_depth_versions` older
    /// than the present one, or a new version if the page has too few versions.
    fn revert_or_create_content(&mut self, page: u64) -> u64 {
        let known = self.page_versions.get(page).unwrap_or(0);
        let (made, held) = (known >> 32, known & u64::from(u32::MAX));
        let older = held.saturating_sub(u64::from(self.revert_depth_versions));
        let is_new = self.revert_depth_versions == 0 || older == 0;
        let (made, held) = if is_new { (made + 1, made + 1) } else { (made, older) };
        self.page_versions.set(page, made << 32 | held);
        let number = page << PAGE_VERSION_BITS | held & ((1 << PAGE_VERSION_BITS) - 1);
        self.fingerprint_of_content(number & CONTENT_NUMBER_MASK, number)
    }

    /// Creates a content that was never written before. Returns its fingerprint, or its number plus one if contents are
    /// known by their numbers.
    fn create_content(&mut self, page: u64) -> u64 {
        let number = self.created_contents;
        self.created_contents += 1;
        if self.identifies_contents_by_number {
            number + 1
        } else {
            let class =
                if self.spec.chunk_pages == 1 { number } else { page / u64::from(self.spec.chunk_pages) };
            self.fingerprint_of_content(number, class)
        }
    }

    /// Adds a content to the pool from which duplicates are drawn, while the pool has room. The popularity distribution
    /// is recomputed only when the size of the pool reaches a power of two, or when the pool is full, which is at most
    /// 27 times. Between these moments the distribution covers the contents that the pool had at the last one.
    fn add_to_pool(&mut self, content: u64) {
        let ContentSource::Duplicates { theta, pool_content_count, .. } = self.spec.source else { return };
        let len = self.duplicate_pool_len + 1;
        if len > pool_content_count {
            return;
        }
        self.duplicate_pool_len = len;
        if !self.identifies_contents_by_number {
            self.duplicate_pool_fingerprints.push(content);
        }
        if len.is_power_of_two() || len == pool_content_count {
            self.content_rank_distribution = Zipf::new(len, theta);
        }
    }

    /// Returns the fingerprint of content `number`; `class` determines its compressed size. The fingerprint is never 0,
    /// the fingerprint of the zero page.
    #[inline]
    fn fingerprint_of_content(&self, number: u64, class: u64) -> u64 {
        let class =
            mix_bits(self.seed ^ class.wrapping_add(1).wrapping_mul(GOLDEN_RATIO_64)) >> CONTENT_NUMBER_BITS;
        ((class << CONTENT_NUMBER_BITS) | permute_content_number(number ^ (self.seed & CONTENT_NUMBER_MASK)))
            .max(1)
    }

    /// Returns the descriptor of the content `new` on a page that held the content `old` before.
    #[inline]
    fn descriptor(&self, new: u64, old: Option<u64>) -> ContentDescriptor {
        let mut descriptor = ContentDescriptor::of_fingerprint(Fingerprint(new));
        if let Some(sizes) = &self.compressed_sizes {
            descriptor.compressed_bytes = sizes.size_bytes_selected_by_hash(new);
        }
        if let (Some(sizes), Some(old)) = (&self.delta_sizes, old) {
            descriptor.delta_bytes = if new == old {
                0
            } else {
                sizes.size_bytes_selected_by_hash(mix_bits(new ^ old.rotate_left(32)))
            };
        }
        descriptor
    }
}

/// Maps 52-bit numbers one to one to 52-bit numbers, by shifts and odd multiplications, each of which can be inverted.
#[inline]
fn permute_content_number(number: u64) -> u64 {
    let mut x = number & CONTENT_NUMBER_MASK;
    x ^= x >> 27;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9) & CONTENT_NUMBER_MASK;
    x ^= x >> 25;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb) & CONTENT_NUMBER_MASK;
    x ^ (x >> 26)
}

/// Table of sizes in bytes (of compressed pages, or of deltas) at the 4096 midpoint quantiles of a clipped Gaussian.
#[derive(Clone, Debug)]
struct SizeQuantiles(Box<[u16]>);

impl SizeQuantiles {
    /// Computes the table of sizes at the quantiles of this distribution of size ratios.
    fn new(ratio: SizeRatioDistribution) -> Self {
        let classes = 1u32 << SIZE_CLASS_BITS;
        let size = |class| {
            size_bytes_at_deviations(ratio, normal_quantile((f64::from(class) + 0.5) / f64::from(classes)))
        };
        Self((0..classes).map(size).collect())
    }

    /// Returns the size in bytes (of a compressed page, or of a delta) that the upper 12 bits of a fingerprint or hash
    /// select.
    #[inline]
    fn size_bytes_selected_by_hash(&self, bits: u64) -> u16 {
        self.0[(bits >> CONTENT_NUMBER_BITS) as usize]
    }
}

/// Returns the size in bytes that is `deviations` standard deviations greater than the mean; at least 0.01 page and at
/// most one page.
#[expect(clippy::cast_sign_loss, reason = "the ratio is at least 0.01")]
fn size_bytes_at_deviations(ratio: SizeRatioDistribution, deviations: f64) -> u16 {
    let share = (ratio.mean + ratio.sigma * deviations).clamp(MIN_COMPRESSED_OR_DELTA_SIZE_RATIO, 1.0);
    (share * PAGE_BYTES as f64).round() as u16
}

/// Returns the `z` below which a standard normal variate lies with probability `p`. Computes `z` by bisection, since
/// the function is called only 4096 times.
fn normal_quantile(p: f64) -> f64 {
    bisect(-10.0, 10.0, BISECTION_STEPS, |z| normal_probability_below(z) < p)
}

/// Returns the probability that a standard normal variate is less than `z`.
fn normal_probability_below(z: f64) -> f64 {
    libm::erfc(-z / std::f64::consts::SQRT_2) / 2.0
}

/// Number of pages in an extent of [`NumbersByPage`], the unit in which its memory is allocated.
const PAGES_PER_EXTENT: usize = 4096;

/// Table with a number for each written page, which stands for a content or a version; 0 means that the page has none.
/// Extents are allocated at their first write, so that a sparse trace over a large address space takes little memory.
#[derive(Clone, Debug, Default)]
struct NumbersByPage {
    /// Extents (ranges of [`PAGES_PER_EXTENT`] pages) in the order of their page numbers, up to the last one with a
    /// written page.
    extents: Vec<Extent>,
}

/// Content numbers (which content a page has) of [`PAGES_PER_EXTENT`] successive logical pages. Each takes 4 bytes as
/// long as all numbers of the extent fit, otherwise 8.
#[derive(Clone, Debug, Default)]
enum Extent {
    /// No number is stored for any page of the extent; the extent takes no memory.
    #[default]
    Unwritten,
    /// The number stored for each page, 4 bytes each.
    FourByteNumbers(Box<[u32]>),
    /// The number stored for each page, 8 bytes each.
    EightByteNumbers(Box<[u64]>),
}

impl NumbersByPage {
    /// Returns the number stored for `page`; `None` if there is none.
    #[inline]
    fn get(&self, page: u64) -> Option<u64> {
        let at = page as usize % PAGES_PER_EXTENT;
        let value = match self.extents.get(page as usize / PAGES_PER_EXTENT)? {
            Extent::Unwritten => return None,
            Extent::FourByteNumbers(values) => values[at].into(),
            Extent::EightByteNumbers(values) => values[at],
        };
        Some(value).filter(|value| *value != 0)
    }

    /// Stores the number `value` for `page`. If needed, allocates the extent of the page, or widens it to 8-byte
    /// numbers.
    fn set(&mut self, page: u64, value: u64) {
        let extent = page as usize / PAGES_PER_EXTENT;
        if extent >= self.extents.len() {
            self.extents.resize(extent + 1, Extent::Unwritten);
        }
        self.extents[extent].set(page as usize % PAGES_PER_EXTENT, value);
    }

    /// Removes the number stored for `page`.
    fn clear(&mut self, page: u64) {
        if self.get(page).is_some() {
            self.set(page, 0);
        }
    }
}

impl Extent {
    /// Stores the number `value` for the page at index `at` of this extent.
    #[inline]
    fn set(&mut self, at: usize, value: u64) {
        match (self, u32::try_from(value)) {
            (Self::FourByteNumbers(values), Ok(value)) => values[at] = value,
            (Self::EightByteNumbers(values), _) => values[at] = value,
            (extent, _) => extent.widen_and_set(at, value),
        }
    }

    /// Stores the number `value` for the page at index `at`, and enlarges the extent before: an unwritten extent is
    /// allocated, and an extent of 4-byte numbers is widened to 8 bytes if the number needs them.
    #[cold]
    fn widen_and_set(&mut self, at: usize, value: u64) {
        *self = match (std::mem::take(self), u32::try_from(value)) {
            (Self::Unwritten, Ok(_)) => Self::FourByteNumbers(vec![0; PAGES_PER_EXTENT].into()),
            (Self::Unwritten, Err(_)) => Self::EightByteNumbers(vec![0; PAGES_PER_EXTENT].into()),
            (Self::FourByteNumbers(values), _) => {
                Self::EightByteNumbers(values.iter().map(|&value| value.into()).collect())
            }
            (wide @ Self::EightByteNumbers(_), _) => wide,
        };
        self.set(at, value);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::{RngExt as _, SeedableRng as _};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// [`NumbersByPage`] returns the numbers stored for pages, from extents with 4 bytes per page and with 8.
    #[test]
    fn numbers_of_pages_are_kept_in_4_and_in_8_bytes() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        let (mut values, mut model) = (NumbersByPage::default(), HashMap::new());
        for k in 0..200_000_u64 {
            let page = random.random_range(0..5 * PAGES_PER_EXTENT as u64);
            let value = random.random_range(1..1000) << if k > 50_000 && page % 3 == 0 { 40 } else { 0 };
            if random.random_bool(0.1) {
                values.clear(page);
                model.remove(&page);
            } else {
                values.set(page, value);
                model.insert(page, value);
            }
        }
        assert!(model.len() > 15_000);
        for page in 0..7 * PAGES_PER_EXTENT as u64 {
            assert_eq!(values.get(page), model.get(&page).copied(), "page {page}");
        }
    }
}
