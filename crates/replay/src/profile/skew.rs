//! Measures how unequal popularity is, as the exponent of a zipf law.
//!
//! A fit to the sorted counts would mistake noise for skew, because even uniform draws, sorted, show a slope. So the
//! exponent is computed from the probability that two draws hit the same item (Simpson's index), which pairs of equal
//! draws estimate without bias, whatever the order of the draws. For a zipf law over n items it is H(2 theta) /
//! H(theta)^2, where H(t) is the sum of k^-t.

use crate::bisection::bisect;

/// Largest zipf exponent that workload generators accept.
const ZIPF_THETA_MAX: f64 = 2.0;

/// Returns the exponent of the zipf law over `items` items in which two draws coincide as often as in these counts of
/// draws per item. Items that were never drawn may be left out of the counts.
pub(super) fn zipf_theta_of_counts(counts: &[u32], items: u64) -> f64 {
    zipf_theta_of_growing_item_set(counts, &[(items, 1.0)])
}

/// Estimates the zipf exponent from the number of draws of each item (`counts`), as [`zipf_theta_of_counts`] does, but
/// for a set of items that grows during the draws. Each of the `stages` is (items, share): in this stage, a fraction
/// `share` of all draws was made among the first `items` items.
pub(super) fn zipf_theta_of_growing_item_set(counts: &[u32], stages: &[(u64, f64)]) -> f64 {
    let draws: f64 = counts.iter().map(|&count| f64::from(count)).sum();
    let pairs: f64 = counts.iter().map(|&count| f64::from(count) * (f64::from(count) - 1.0)).sum();
    if draws < 2.0 || stages.iter().all(|&(items, _)| items < 2) {
        return 0.0;
    }
    let coincide = pairs / (draws * (draws - 1.0));
    bisect(0.0, ZIPF_THETA_MAX, 40, |theta| coincidence_probability(theta, stages) < coincide)
}

/// Returns the probability that two of the draws, chosen at random, hit the same item. The draws of each stage, given
/// as (number of items, share of all draws), follow a zipf law with exponent `theta` over the items of the stage.
fn coincidence_probability(theta: f64, stages: &[(u64, f64)]) -> f64 {
    let sums: Vec<(f64, f64, f64)> = stages
        .iter()
        .map(|&(items, share)| {
            (share / harmonic_sum(items, theta), harmonic_sum(items, 2.0 * theta), items as f64)
        })
        .collect();
    let with = |one: &(f64, f64, f64), other: &(f64, f64, f64)| {
        one.0 * other.0 * if one.2 < other.2 { one.1 } else { other.1 }
    };
    sums.iter().map(|one| sums.iter().map(|other| with(one, other)).sum::<f64>()).sum()
}

/// Returns the sum of `k^-theta` for `k` from 1 to `items`: exact for the first thousand terms, by an integral for the
/// others.
pub(super) fn harmonic_sum(items: u64, theta: f64) -> f64 {
    /// Number of terms of a harmonic sum that are added exactly; an integral replaces the others.
    const EXACT_HARMONIC_TERMS: u64 = 1000;
    let sum: f64 = (1..=items.min(EXACT_HARMONIC_TERMS)).map(|k| (k as f64).powf(-theta)).sum();
    if items <= EXACT_HARMONIC_TERMS {
        return sum;
    }
    let (from, to) = (EXACT_HARMONIC_TERMS as f64 + 0.5, items as f64 + 0.5);
    let power = 1.0 - theta;
    let integral =
        if power.abs() < 1e-9 { (to / from).ln() } else { (to.powf(power) - from.powf(power)) / power };
    sum + integral
}
