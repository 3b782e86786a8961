//! Writes the figures of a profile as `--content` and `--workload` specifications that a replay accepts.
//!
//! The content model makes a write silent with one probability and lets the other writes repeat a content with
//! probability `share`. A measured duplicate share contains both, and also zero pages, which repeat one content from
//! the device's view. The specification separates them: `share = (duplicates - silent) / (1 - silent)`, all as shares
//! of the pages written.
//!
//! The content model clips Gaussian sizes, which changes their mean. The specification has the parameters for which the
//! mean of the clipped sizes is the measured one.
//!
//! A workload generator sends only reads, writes and trims, which all draw their size from one distribution. What a
//! specification thereby leaves out is stated by [`workload_specification_notes`].

use std::fmt::Write as _;

use super::contents::ContentFigures;
use super::distribution::SizeShares;
use super::pages::{RewriteFigures, SkewFigures};
use super::traffic::{SizeShare, TrafficFigures};
use crate::content_model::SizeRatioDistribution;

/// Zipf exponent below which a workload specification states a uniform pattern.
const UNIFORM_ZIPF_THETA_MAX: f64 = 0.05;
/// Smallest share of sequential writes in a profile for which the generated workload specification has a sequential
/// pattern.
const SEQUENTIAL_SHARE_MIN: f64 = 0.9;
/// Largest difference between the pages that a generated workload trims and those that the input trims which needs no
/// note, as a share of the pages that the input writes.
const MAX_UNNOTED_TRIM_ERROR: f64 = 0.01;
/// Largest pool (number of contents among which repeated writes choose) that the content model accepts.
const MAX_DUPLICATE_POOL_CONTENTS: u64 = 1 << 26;

/// Returns the specification for `--content` of a content model whose contents have the figures of a profile.
pub(super) fn content_specification(
    content: &ContentFigures,
    delta_size_shares: Option<&SizeShares>,
    silent_overwrite_share: Option<f64>,
    rewrites: Option<&RewriteFigures>,
) -> String {
    let silent = silent_overwrite_share.unwrap_or(0.0);
    let silent_pages = silent * rewrites.map_or(0.0, |rewrites| rewrites.rewrite_share);
    let zero_repeats = (content.zero_share - 1.0 / content.pages as f64).max(0.0);
    let repeats = content.duplicate_share + zero_repeats;
    let share = ((repeats - silent_pages) / (1.0 - silent_pages).max(1e-9)).clamp(0.0, 1.0);
    let mut line = if share < 5e-5 {
        "unique:".to_owned()
    } else {
        format!(
            "dup:share={share:.4},theta={:.2},pool={},",
            content.duplicate_theta,
            content.duplicate_pool.clamp(1, MAX_DUPLICATE_POOL_CONTENTS)
        )
    };
    let mut ratio = |name: &str, sizes: &SizeShares| {
        let SizeRatioDistribution { mean, sigma } =
            SizeRatioDistribution::of_clipped_mean(sizes.mean, sizes.sigma);
        let _ = write!(line, "{name}={mean:.4},{name}_sigma={sigma:.4},");
    };
    if let Some(sizes) = &content.compressed {
        ratio("compress", sizes);
    }
    if let Some(sizes) = delta_size_shares {
        ratio("delta", sizes);
    }
    if silent > 0.0 {
        let _ = write!(line, "silent={silent:.4},");
    }
    line.truncate(line.len() - 1);
    line
}

/// Returns the specification for `--workload` of a generator whose requests have the figures of a profile.
pub(super) fn workload_specification(
    traffic: &TrafficFigures,
    skew: Option<&SkewFigures>,
    content: Option<&str>,
) -> String {
    let mut line = match skew {
        _ if traffic.sequential_write_share >= SEQUENTIAL_SHARE_MIN => "sequential:".to_owned(),
        Some(skew) if skew.zipf_theta >= UNIFORM_ZIPF_THETA_MAX => {
            format!("zipf:theta={:.2},", skew.zipf_theta)
        }
        _ => "uniform:".to_owned(),
    };
    let pages = traffic.footprint_pages.max(1);
    let requests = traffic.generated_requests();
    let trim = traffic.trim_share * traffic.requests as f64 / requests.max(1) as f64;
    let read = traffic.read_share * (1.0 - trim);
    let _ = write!(line, "pages={pages},requests={requests},read={read:.4}");
    if trim > 0.0 {
        let _ = write!(line, ",trim={trim:.4}");
    }
    let sizes: Vec<String> =
        generated_sizes(traffic).map(|size| format!("{}:{:.4}", size.pages, size.share)).collect();
    match &sizes[..] {
        [] => {}
        [one] => {
            let _ = write!(line, ",size={}", one.split(':').next().unwrap_or("1"));
        }
        _ => {
            let _ = write!(line, ",size={}", sizes.join("/"));
        }
    }
    if traffic.partial_share > 0.0 {
        let _ = write!(line, ",partial={:.4}", traffic.partial_share);
    }
    if traffic.duration_s > 0.0 {
        let rate = (requests as f64 / traffic.duration_s).clamp(0.001, 1e9);
        let _ = write!(line, ",arrival=poisson,rate={rate:.3}");
    }
    if let Some(content) = content {
        let _ = write!(line, "+{content}");
    }
    line
}

/// Returns the sizes of reads and writes that a workload specification lists, with their shares.
fn generated_sizes(traffic: &TrafficFigures) -> impl Iterator<Item = &SizeShare> {
    let max_pages = traffic.footprint_pages.clamp(1, 1 << 16);
    let sizes = traffic.sizes.iter().chain(&traffic.other_sizes);
    sizes.filter(move |size| size.pages <= max_pages && size.share >= 1e-4)
}

/// Returns notes on how the requests of the workload specification differ in kind from those of the input: requests
/// that no generator sends, and trims, which get sizes of reads and writes.
pub(super) fn workload_specification_notes(traffic: &TrafficFigures) -> Vec<String> {
    let mut notes = Vec::new();
    let kinds = [
        (traffic.remaps, traffic.pages_remapped, "remaps"),
        (traffic.zeroes, traffic.pages_zeroed, "writes of zeroes"),
    ];
    let left_out = kinds.iter().filter(|(requests, ..)| *requests > 0);
    let left_out: Vec<String> =
        left_out.map(|(requests, pages, name)| format!("{requests} {name} of {pages} pages")).collect();
    if !left_out.is_empty() {
        notes.push(format!("the workload line leaves out {}", left_out.join(" and ")));
    }
    let (pages, share) = generated_sizes(traffic).fold((0.0, 0.0), |(pages, share), size| {
        (pages + size.pages as f64 * size.share, share + size.share)
    });
    let mean_pages = if share > 0.0 { pages / share } else { 1.0 };
    let generated = traffic.trim_share * traffic.requests as f64 * mean_pages;
    let trimmed = traffic.pages_trimmed as f64;
    if (generated - trimmed).abs() > MAX_UNNOTED_TRIM_ERROR * traffic.pages_written as f64 {
        notes.push(format!(
            "the workload line gives trims the sizes of reads and writes: they trim about {generated:.0} pages, those \
             of the input {trimmed:.0}"
        ));
    }
    notes
}
