//! How unequal popularity is, and the zipf exponent that says the same.
//!
//! A fit to the sorted counts calls noise skew: uniform draws, sorted, slope. The exponent is therefore taken from the
//! probability that two draws hit the same item, which pairs of equal draws estimate without bias whatever the order
//! (Simpson's index): it is H(2 theta) / H(theta)^2 for a zipf law over n items, H(t) being the sum of k^-t.

/// Largest exponent of generators.
const THETA_MAX: f64 = 2.0;

/// The exponent of a zipf law over `items` whose draws coincide as often as these counts say. Items that were never
/// drawn need not be listed.
pub(super) fn collision_theta(counts: &[u32], items: u64) -> f64 {
    growing_theta(counts, &[(items, 1.0)])
}

/// The same where the items become more on the way: with each of the `stages` a share of the draws goes to the first so
/// many items. Two draws of different stages coincide among the items of the smaller one.
pub(super) fn growing_theta(counts: &[u32], stages: &[(u64, f64)]) -> f64 {
    let draws: f64 = counts.iter().map(|&count| f64::from(count)).sum();
    let pairs: f64 = counts.iter().map(|&count| f64::from(count) * (f64::from(count) - 1.0)).sum();
    if draws < 2.0 || stages.iter().all(|&(items, _)| items < 2) {
        return 0.0;
    }
    let coincide = pairs / (draws * (draws - 1.0));
    let (mut low, mut high) = (0.0, THETA_MAX);
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if coincidence(middle, stages) < coincide {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Probability that two draws hit the same item.
fn coincidence(theta: f64, stages: &[(u64, f64)]) -> f64 {
    let sums: Vec<(f64, f64, f64)> = stages
        .iter()
        .map(|&(items, share)| (share / harmonic(items, theta), harmonic(items, 2.0 * theta), items as f64))
        .collect();
    let with = |one: &(f64, f64, f64), other: &(f64, f64, f64)| {
        one.0 * other.0 * if one.2 < other.2 { one.1 } else { other.1 }
    };
    sums.iter().map(|one| sums.iter().map(|other| with(one, other)).sum::<f64>()).sum()
}

/// The sum of `k^-theta` for `k` from 1 to `items`: a thousand terms, and an integral for the others.
pub(super) fn harmonic(items: u64, theta: f64) -> f64 {
    const TERMS: u64 = 1000;
    let sum: f64 = (1..=items.min(TERMS)).map(|k| (k as f64).powf(-theta)).sum();
    if items <= TERMS {
        return sum;
    }
    let (from, to) = (TERMS as f64 + 0.5, items as f64 + 0.5);
    let power = 1.0 - theta;
    let integral =
        if power.abs() < 1e-9 { (to / from).ln() } else { (to.powf(power) - from.powf(power)) / power };
    sum + integral
}
