//! Chooses which pages and contents of a large input are examined: those whose hash is among the smallest 1/N of all
//! hashes.
//!
//! The choice depends on the page number or the content, not on time, so that every write of a chosen page and every
//! repetition of a chosen content is counted (spatial sampling, as SHARDS does for cache curves: Waldspurger et al.,
//! FAST 2015). Shares are then unbiased estimates. The price is their error, which [`standard_error_of_quotient`]
//! computes from the spread between 16 independent parts of the sample.

use wearwell::data::mix_bits;

/// Number of independent parts of a sample of pages or contents, whose spread gives the standard error.
pub(super) const STANDARD_ERROR_GROUPS: usize = 16;
/// Number that is mixed into keys before they are hashed, so that the sample is independent of other hashes of the same
/// keys.
const SAMPLE_HASH_SALT: u64 = 0x7072_6f66_696c_6573;

/// Rule that selects the sampled pages or contents by a hash of their key: one of `sampling_divisor` is in the sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HashSample {
    /// Sampling ratio: one of this many pages or contents is in the sample; 1 = all.
    pub(super) sampling_divisor: u64,
}

impl HashSample {
    /// Whether the page or content with this key is in the sample.
    pub(super) fn contains(self, key: u64) -> bool {
        self.sampling_divisor == 1 || mix_bits(key ^ SAMPLE_HASH_SALT) <= u64::MAX / self.sampling_divisor
    }

    /// Returns the rule of a sample with half as many pages or contents, a subset of this sample.
    pub(super) fn half_of_sample(self) -> Self {
        Self { sampling_divisor: self.sampling_divisor * 2 }
    }
}

/// Returns the index of the group to which the page or content with this key belongs. The groups are equal parts of the
/// sample, and their spread gives the standard error.
pub(super) fn standard_error_group(key: u64) -> usize {
    (mix_bits(!key ^ SAMPLE_HASH_SALT) as usize) % STANDARD_ERROR_GROUPS
}

/// Returns the standard error of the quotient `sum(parts) / sum(denominators_by_group)`, where both slices have one sum
/// per error group of the sample. Leaves out one group at a time (jackknife).
pub(super) fn standard_error_of_quotient(
    parts: &[f64; STANDARD_ERROR_GROUPS],
    denominators_by_group: &[f64; STANDARD_ERROR_GROUPS],
) -> f64 {
    let (part, whole): (f64, f64) = (parts.iter().sum(), denominators_by_group.iter().sum());
    let without: Vec<f64> = parts
        .iter()
        .zip(denominators_by_group)
        .map(|(p, w)| if whole - w > 0.0 { (part - p) / (whole - w) } else { 0.0 })
        .collect();
    let groups = STANDARD_ERROR_GROUPS as f64;
    let mean = without.iter().sum::<f64>() / groups;
    let squares: f64 = without.iter().map(|value| (value - mean).powi(2)).sum();
    (squares * (groups - 1.0) / groups).sqrt()
}
