//! Specification of a generated workload: one line of text that is parsed and printed without loss.
//!
//! `zipf:theta=0.9,read=0.3,pages=100000,trim=0.05,size=4,rate=50000,arrival=poisson+dup:share=0.2` is a generator with
//! its keys and, after `+`, the content model of its writes. The tables [`WORKLOAD_GRAMMAR`] and
//! [`content_model::CONTENT_MODEL_GRAMMAR`] list all valid names.

use std::fmt;
use std::str::FromStr;

use super::spec_grammar::{SpecError, SpecGrammar, SpecKey, SpecKind, SpecOptions, require_within};
use crate::content_model;

/// Description of the key `scramble`, for help.
const SCRAMBLE_MEANING: &str =
    "yes: a seeded permutation scatters the popular pages; no: they lie in order from page 0";

/// Workload generators and their keys, for parsing and help.
pub const WORKLOAD_GRAMMAR: SpecGrammar = SpecGrammar {
    generator_noun: "generator",
    kinds: &[
        SpecKind {
            name: "sequential",
            meaning: "page after page, from the start again at the end; the request that meets the end is cut short",
            keys: &[],
        },
        SpecKind { name: "uniform", meaning: "every first page with equal probability", keys: &[] },
        SpecKind {
            name: "zipf",
            meaning: "the k-th most popular page with probability proportional to k^-theta",
            keys: &[
                SpecKey { name: "theta", default: "0.99", meaning: "skew, 0 (uniform) to 2" },
                SpecKey { name: "scramble", default: "yes", meaning: SCRAMBLE_MEANING },
            ],
        },
        SpecKind {
            name: "hotcold",
            meaning: "zones of equal popularity inside; what the zones leave over is one more zone",
            keys: &[
                SpecKey {
                    name: "zones",
                    default: "0.2:0.8",
                    meaning: "share of space:share of accesses, several separated by /",
                },
                SpecKey { name: "scramble", default: "no", meaning: SCRAMBLE_MEANING },
            ],
        },
    ],
    common_keys: &[
        SpecKey { name: "pages", default: "262144", meaning: "working set, 4 KiB pages, 1 to 4294967295" },
        SpecKey { name: "requests", default: "1000000", meaning: "how many requests, from 0 on" },
        SpecKey { name: "write", default: "the rest", meaning: "share of requests that write, 0 to 1" },
        SpecKey { name: "read", default: "0", meaning: "share that read; the rest if only write is given" },
        SpecKey { name: "trim", default: "0", meaning: "share that deallocate" },
        SpecKey {
            name: "size",
            default: "1",
            meaning: "pages per request, 1 to 65536, or pages:weight/pages:weight",
        },
        SpecKey {
            name: "partial",
            default: "0",
            meaning: "share of requests aligned to 512-byte sectors, not pages",
        },
        SpecKey {
            name: "arrival",
            default: "untimed",
            meaning: "untimed (no times: as replay.arrival says), fixed, poisson or bursty",
        },
        SpecKey {
            name: "rate",
            default: "-",
            meaning: "requests per second on average, 0.001 to 1e9; alone: fixed",
        },
        SpecKey {
            name: "on_ms",
            default: "100",
            meaning: "bursty: length of a burst, milliseconds, 0.001 to 1e9",
        },
        SpecKey {
            name: "off_ms",
            default: "900",
            meaning: "bursty: silence after a burst, milliseconds, 0 to 1e9",
        },
        SpecKey {
            name: "dup",
            default: "-",
            meaning: "duplicate share of writes, 0 to 1; short for +dup:share=",
        },
        SpecKey { name: "seed", default: "1", meaning: "equal seeds give equal requests" },
    ],
};

/// Specification of a generated workload.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkloadSpec {
    /// How the first page of each request of the workload is chosen.
    pub pattern: AccessPattern,
    /// Working set of the workload, 4 KiB pages; all requests lie inside it.
    pub working_set_pages: u64,
    /// Number of requests of the workload.
    pub requests: u64,
    /// Share of the workload's requests that read.
    pub read_share: f64,
    /// Share of the workload's requests that deallocate (trim). Requests that neither read nor deallocate are writes.
    pub trim_share: f64,
    /// Length of the workload's requests, in pages of 4 KiB.
    pub request_size: RequestSize,
    /// Share of the workload's requests that cover parts of pages: they are aligned to 512-byte sectors instead of
    /// pages.
    pub partial_request_share: f64,
    /// Distribution of the arrival times of the workload's requests.
    pub arrival: ArrivalProcess,
    /// Seed of every random draw of the workload.
    pub seed: u64,
    /// Content model of the writes; `None` if writes bring no content.
    pub content: Option<content_model::ContentModelSpec>,
}

/// How the first page of each request of a workload is chosen.
#[derive(Clone, PartialEq, Debug)]
pub enum AccessPattern {
    /// Requests write or read page after page, from the first page again after the last.
    Sequential,
    /// All pages are chosen with equal probability.
    Uniform,
    /// The k-th most popular page is chosen with probability proportional to `k^-theta`.
    Zipf {
        /// Exponent of the zipf law of the pages' popularity.
        theta: f64,
        /// Whether popular pages are scattered over the working set; otherwise they are its first pages.
        is_scrambled: bool,
    },
    /// Pages belong to zones of different popularity, with equal popularity inside each zone.
    HotCold {
        /// Zones of the working set in address order. What the zones leave of the pages and accesses forms one more
        /// zone at the end.
        zones: Vec<Zone>,
        /// Whether the pages of each zone are scattered over the working set.
        is_scrambled: bool,
    },
}

/// A part of the working set that receives a share of the accesses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Zone {
    /// Share of the working set's pages that belong to the zone (called r in models of hot and cold data).
    pub page_share: f64,
    /// Share of the requests that access the zone (called f in models of hot and cold data).
    pub access_share: f64,
}

/// Length of a workload's requests, in pages of 4 KiB.
#[derive(Clone, PartialEq, Debug)]
pub enum RequestSize {
    /// All requests have this many pages of 4 KiB.
    FixedPages(u32),
    /// Lengths of requests with their weights, as (pages, weight); weights need not sum to one.
    Weighted(Vec<(u32, f64)>),
}

/// Distribution of a workload's arrival times. Rates are requests per second, averaged over the whole run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ArrivalProcess {
    /// Requests have no times; `replay.arrival` decides when they arrive.
    Untimed,
    /// Requests arrive with equal gaps.
    Fixed {
        /// Requests per second.
        requests_per_s: f64,
    },
    /// Requests arrive with exponentially distributed gaps (a Poisson process).
    Poisson {
        /// Requests per second.
        requests_per_s: f64,
    },
    /// Requests arrive as a Poisson process during bursts of fixed length, with no arrivals between bursts.
    Bursty {
        /// Requests per second, averaged over bursts and silences.
        requests_per_s: f64,
        /// Length of a burst, milliseconds.
        on_ms: f64,
        /// Length of the silence after a burst, milliseconds.
        off_ms: f64,
    },
}

impl WorkloadSpec {
    /// Creates a workload of one-page writes without times and without content, with seed 1.
    pub fn new(pattern: AccessPattern, pages: u64, requests: u64) -> Self {
        Self {
            pattern,
            working_set_pages: pages,
            requests,
            read_share: 0.0,
            trim_share: 0.0,
            request_size: RequestSize::FixedPages(1),
            partial_request_share: 0.0,
            arrival: ArrivalProcess::Untimed,
            seed: 1,
            content: None,
        }
    }

    /// Returns the share of the workload's requests that write.
    pub fn write_share(&self) -> f64 {
        remaining_share(self.read_share + self.trim_share)
    }
}

/// Returns `1 - share`, rounded so that subtraction leaves no stray bits (0.3, not 0.30000000000000004).
fn remaining_share(share: f64) -> f64 {
    ((1.0 - share) * 1e12).round() / 1e12
}

impl FromStr for WorkloadSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (generator, content) = match text.split_once('+') {
            Some((generator, content)) => (generator, Some(content.parse()?)),
            None => (text, None),
        };
        let options = SpecOptions::parse(generator, &WORKLOAD_GRAMMAR)?;
        let pages = options.integer_value("pages", 1..=u64::from(u32::MAX))?.unwrap_or(262_144);
        let (read, trim) = parse_read_and_trim_shares(&options)?;
        Ok(Self {
            pattern: parse_pattern(&options)?,
            working_set_pages: pages,
            requests: options.integer_value("requests", 0..=u64::MAX)?.unwrap_or(1_000_000),
            read_share: read,
            trim_share: trim,
            request_size: parse_request_size(&options, pages)?,
            partial_request_share: options.number_value("partial", 0.0..=1.0)?.unwrap_or(0.0),
            arrival: parse_arrival(&options)?,
            seed: options.integer_value("seed", 0..=u64::MAX)?.unwrap_or(1),
            content: parse_content(&options, content)?,
        })
    }
}

/// Reads from a specification how the first page of each request is chosen.
fn parse_pattern(options: &SpecOptions) -> Result<AccessPattern, SpecError> {
    Ok(match options.kind_name {
        "sequential" => AccessPattern::Sequential,
        "uniform" => AccessPattern::Uniform,
        "zipf" => AccessPattern::Zipf {
            theta: options.number_value("theta", 0.0..=2.0)?.unwrap_or(0.99),
            is_scrambled: options.switch_value("scramble")?.unwrap_or(true),
        },
        "hotcold" => AccessPattern::HotCold {
            zones: parse_zones(options)?,
            is_scrambled: options.switch_value("scramble")?.unwrap_or(false),
        },
        other => unreachable!("the grammar lists generator {other}, which nobody reads"),
    })
}

/// Reads the zones of a hot-and-cold workload: their shares of pages and of accesses.
fn parse_zones(options: &SpecOptions) -> Result<Vec<Zone>, SpecError> {
    let pairs = options.weighted_values("zones")?.unwrap_or_else(|| vec![(0.2, 0.8)]);
    let text = options.text_value("zones").unwrap_or_default();
    for (space, access) in &pairs {
        require_within("zones", text, *space, &(0.0..=1.0))?;
        require_within("zones", text, *access, &(0.0..=1.0))?;
    }
    let total: (f64, f64) = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    let bound =
        "shares of space and of accesses must each sum to at most 1, and zones that have accesses need space";
    let homeless = pairs.iter().any(|(space, access)| *space <= 0.0 && *access > 0.0)
        || (remaining_share(total.0) <= 0.0 && remaining_share(total.1) > 0.0);
    if remaining_share(total.0) < 0.0 || remaining_share(total.1) < 0.0 || homeless {
        return Err(SpecError::OutOfRange { key: "zones", value: text.into(), violated_bound: bound.into() });
    }
    Ok(pairs.into_iter().map(|(space, access)| Zone { page_share: space, access_share: access }).collect())
}

/// Returns the shares of reads and trims. Without a read share, all requests that neither write nor trim are reads if a
/// write share is given; otherwise there are no reads.
fn parse_read_and_trim_shares(options: &SpecOptions) -> Result<(f64, f64), SpecError> {
    let write = options.number_value("write", 0.0..=1.0)?;
    let read = options.number_value("read", 0.0..=1.0)?;
    let trim = options.number_value("trim", 0.0..=1.0)?.unwrap_or(0.0);
    let read = read.unwrap_or_else(|| write.map_or(0.0, |write| remaining_share(write + trim)));
    let total = write.unwrap_or(0.0) + read.max(0.0) + trim;
    let complete = write.is_none() && total <= 1.0 + 1e-9 || (total - 1.0).abs() <= 1e-9;
    if !complete {
        let (sum, advice) = match write {
            Some(_) => ("1", ", or leave out write or read, which is then the rest"),
            None => ("at most 1", ""),
        };
        return Err(SpecError::ConflictingKeys(format!(
            "the shares write, read and trim sum to {total}, but must sum to {sum}: correct them{advice}"
        )));
    }
    Ok((read, trim))
}

/// Reads the request sizes of a workload (in pages) and their weights; `pages` is the size of the working set.
fn parse_request_size(options: &SpecOptions, pages: u64) -> Result<RequestSize, SpecError> {
    let Some(pairs) = options.weighted_values("size")? else { return Ok(RequestSize::FixedPages(1)) };
    let text = options.text_value("size").unwrap_or_default();
    let largest = pages.min(65_536) as f64;
    for (size, weight) in &pairs {
        require_within("size", text, *size, &(1.0..=largest))?;
        require_within("size", text, *weight, &(1e-9..=1e9))?;
        if size.fract() != 0.0 {
            return Err(SpecError::BadValue {
                key: "size",
                value: text.into(),
                expected: "whole numbers of pages",
            });
        }
    }
    Ok(match pairs[..] {
        [(size, _)] => RequestSize::FixedPages(page_count_as_integer(size)),
        _ => RequestSize::Weighted(
            pairs.into_iter().map(|(size, weight)| (page_count_as_integer(size), weight)).collect(),
        ),
    })
}

/// Converts a positive whole number of pages to an integer.
#[expect(clippy::cast_sign_loss, reason = "checked to be at least 1")]
fn page_count_as_integer(pages: f64) -> u32 {
    pages as u32
}

/// Reads the distribution of arrival times from the keys `arrival`, `rate`, `on_ms` and `off_ms`.
fn parse_arrival(options: &SpecOptions) -> Result<ArrivalProcess, SpecError> {
    let rate = options.number_value("rate", 0.001..=1e9)?;
    let on_ms = options.number_value("on_ms", 0.001..=1e9)?;
    let off_ms = options.number_value("off_ms", 0.0..=1e9)?;
    let name = options.text_value("arrival").unwrap_or(if rate.is_some() { "fixed" } else { "untimed" });
    if name != "bursty" && (on_ms.is_some() || off_ms.is_some()) {
        let keys = match (on_ms, off_ms) {
            (Some(_), Some(_)) => "on_ms and off_ms",
            (Some(_), None) => "on_ms",
            _ => "off_ms",
        };
        return Err(SpecError::ConflictingKeys(format!(
            "{keys} can only be set with arrival=bursty, but arrival is {name}: set arrival=bursty and \
             rate=REQUESTS_PER_SECOND, or leave {keys} out"
        )));
    }
    match (name, rate) {
        ("untimed", None) => Ok(ArrivalProcess::Untimed),
        ("untimed", Some(_)) => Err(SpecError::ConflictingKeys(
            "arrival=untimed has no rate: leave out rate, or choose arrival=fixed, poisson or bursty".into(),
        )),
        ("fixed" | "poisson" | "bursty", None) => Err(SpecError::ConflictingKeys(format!(
            "arrival={name} needs a rate: add rate=REQUESTS_PER_SECOND"
        ))),
        ("fixed", Some(requests_per_s)) => Ok(ArrivalProcess::Fixed { requests_per_s }),
        ("poisson", Some(requests_per_s)) => Ok(ArrivalProcess::Poisson { requests_per_s }),
        ("bursty", Some(requests_per_s)) => Ok(ArrivalProcess::Bursty {
            requests_per_s,
            on_ms: on_ms.unwrap_or(100.0),
            off_ms: off_ms.unwrap_or(900.0),
        }),
        (other, _) => Err(SpecError::BadValue {
            key: "arrival",
            value: other.into(),
            expected: "untimed, fixed, poisson or bursty (open, closed and think are values of the setting \
                       replay.arrival)",
        }),
    }
}

/// Returns the content model of the writes: `content` from the part after `+`, or that of the key `dup`. Both together
/// are refused.
fn parse_content(
    options: &SpecOptions,
    content: Option<content_model::ContentModelSpec>,
) -> Result<Option<content_model::ContentModelSpec>, SpecError> {
    content.as_ref().map_or(Ok(()), content_model::ContentModelSpec::require_source_of_generator)?;
    match (options.number_value("dup", 0.0..=1.0)?, content) {
        (Some(_), Some(_)) => Err(SpecError::ConflictingKeys(
            "both dup= and a content model (after +) are given: leave one out".into(),
        )),
        (Some(share), None) => Ok(Some(content_model::ContentModelSpec::with_duplicate_share(share))),
        (None, content) => Ok(content),
    }
}

impl fmt::Display for WorkloadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}pages={},requests={}", self.pattern, self.working_set_pages, self.requests)?;
        for (name, share) in
            [("read", self.read_share), ("trim", self.trim_share), ("partial", self.partial_request_share)]
        {
            if share > 0.0 {
                write!(f, ",{name}={share}")?;
            }
        }
        write!(f, "{}{},seed={}", self.request_size, self.arrival, self.seed)?;
        self.content.as_ref().map_or(Ok(()), |content| write!(f, "+{content}"))
    }
}

impl fmt::Display for AccessPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |scramble: &bool| if *scramble { "yes" } else { "no" };
        match self {
            Self::Sequential => write!(f, "sequential:"),
            Self::Uniform => write!(f, "uniform:"),
            Self::Zipf { theta, is_scrambled } => {
                write!(f, "zipf:theta={theta},scramble={},", word(is_scrambled))
            }
            Self::HotCold { zones, is_scrambled } => {
                let zones: Vec<_> =
                    zones.iter().map(|zone| format!("{}:{}", zone.page_share, zone.access_share)).collect();
                write!(f, "hotcold:zones={},scramble={},", zones.join("/"), word(is_scrambled))
            }
        }
    }
}

impl fmt::Display for RequestSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FixedPages(1) => Ok(()),
            Self::FixedPages(pages) => write!(f, ",size={pages}"),
            Self::Weighted(items) => {
                let items: Vec<_> = items.iter().map(|(pages, weight)| format!("{pages}:{weight}")).collect();
                write!(f, ",size={}", items.join("/"))
            }
        }
    }
}

impl fmt::Display for ArrivalProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untimed => Ok(()),
            Self::Fixed { requests_per_s } => write!(f, ",arrival=fixed,rate={requests_per_s}"),
            Self::Poisson { requests_per_s } => write!(f, ",arrival=poisson,rate={requests_per_s}"),
            Self::Bursty { requests_per_s, on_ms, off_ms } => {
                write!(f, ",arrival=bursty,rate={requests_per_s},on_ms={on_ms},off_ms={off_ms}")
            }
        }
    }
}
