//! Which pages and contents of a large input are looked at: those whose hash falls into the first 1/N of all hashes.
//!
//! The choice depends on the page number or the content, not on time, so that every write of a chosen page and every
//! repetition of a chosen content is seen (spatial sampling, as SHARDS does for cache curves: Waldspurger et al., FAST
//! 2015). Shares are then estimates without bias; the price is their error, which [`error_of`] takes from the spread
//! between [`GROUPS`] independent parts of the sample.

use wearwell::data::mix;

/// Parts of a sample whose spread gives the error.
pub(super) const GROUPS: usize = 16;
const SALT: u64 = 0x7072_6f66_696c_6573;

/// One of N pages or contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sample {
    pub(super) one_of: u64,
}

impl Sample {
    pub(super) fn contains(self, key: u64) -> bool {
        self.one_of == 1 || mix(key ^ SALT) <= u64::MAX / self.one_of
    }

    /// Half as many.
    pub(super) fn halved(self) -> Self {
        Self { one_of: self.one_of * 2 }
    }
}

/// The part of the sample that a key belongs to.
pub(super) fn group(key: u64) -> usize {
    (mix(!key ^ SALT) as usize) % GROUPS
}

/// Standard error of the quotient of two sums over a sample, by leaving out one part at a time (jackknife).
pub(super) fn error_of(parts: &[f64; GROUPS], wholes: &[f64; GROUPS]) -> f64 {
    let (part, whole): (f64, f64) = (parts.iter().sum(), wholes.iter().sum());
    let without: Vec<f64> = parts
        .iter()
        .zip(wholes)
        .map(|(p, w)| if whole - w > 0.0 { (part - p) / (whole - w) } else { 0.0 })
        .collect();
    let groups = GROUPS as f64;
    let mean = without.iter().sum::<f64>() / groups;
    let squares: f64 = without.iter().map(|value| (value - mean).powi(2)).sum();
    (squares * (groups - 1.0) / groups).sqrt()
}
