//! Distributions stored as counts: sizes up to a page exactly, intervals in bins of 1/16 of an octave.

use wearwell_trace::PAGE_BYTES;

/// Distribution of the compressed sizes (or delta sizes) of pages; each size is stated as a share of the page size.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct SizeShares {
    /// Number of pages whose compressed size (or delta size) is known.
    pub pages: u64,
    /// Mean compressed size (or delta size), as a share of the page size.
    pub mean: f64,
    /// Standard deviation, over all pages, of the compressed size (or delta size), as a share of the page size.
    pub sigma: f64,
    /// 10th percentile of the compressed size (or delta size), as a share of the page size.
    pub p10: f64,
    /// Median compressed size (or delta size), as a share of the page size.
    pub p50: f64,
    /// 90th percentile of the compressed size (or delta size), as a share of the page size.
    pub p90: f64,
    /// Share of pages that compression (or delta encoding) does not make smaller than a page.
    pub incompressible_share: f64,
    /// Histogram with ten bins: shares of pages whose compressed size (or delta size) is at most 0.1 of a page, more
    /// than 0.1 and at most 0.2, and so on.
    pub tenths: [f64; 10],
}

/// Histogram of compressed sizes (or delta sizes): the number of pages for each size in bytes.
#[derive(Clone, Debug)]
pub(super) struct SizeHistogram(Vec<u64>);

impl Default for SizeHistogram {
    fn default() -> Self {
        Self(vec![0; PAGE_BYTES as usize + 1])
    }
}

impl SizeHistogram {
    /// Adds `pages` pages with a compressed size (or delta size) of `bytes` to the histogram. A size greater than a
    /// page counts as a page, because such a page would be stored uncompressed.
    pub(super) fn add_pages(&mut self, bytes: u16, pages: u64) {
        self.0[usize::from(bytes).min(PAGE_BYTES as usize)] += pages;
    }

    /// Returns the distribution of the counted sizes; `None` if no page was counted.
    pub(super) fn to_size_shares(&self) -> Option<SizeShares> {
        let pages: u64 = self.0.iter().sum();
        if pages == 0 {
            return None;
        }
        let page = PAGE_BYTES as f64;
        let sum_of = |power: i32| -> f64 {
            self.0.iter().enumerate().map(|(size, &n)| (size as f64 / page).powi(power) * n as f64).sum()
        };
        let mean = sum_of(1) / pages as f64;
        let mut tenths = [0.0; 10];
        for (size, &count) in self.0.iter().enumerate() {
            let tenth = (size * 10).div_ceil(PAGE_BYTES as usize).clamp(1, 10);
            tenths[tenth - 1] += count as f64 / pages as f64;
        }
        Some(SizeShares {
            pages,
            mean,
            sigma: (sum_of(2) / pages as f64 - mean * mean).max(0.0).sqrt(),
            p10: self.quantile(0.1, pages),
            p50: self.quantile(0.5, pages),
            p90: self.quantile(0.9, pages),
            incompressible_share: self.0[PAGE_BYTES as usize] as f64 / pages as f64,
            tenths,
        })
    }

    /// Returns the quantile of the sizes, relative to the page size: a fraction `share` of the `pages` counted pages is
    /// not larger.
    fn quantile(&self, share: f64, pages: u64) -> f64 {
        let mut left = share * pages as f64;
        for (size, &count) in self.0.iter().enumerate() {
            left -= count as f64;
            if left <= 0.0 {
                return size as f64 / PAGE_BYTES as f64;
            }
        }
        1.0
    }
}

/// Number of histogram bins per octave (doubling of the value).
const BINS_PER_OCTAVE: u64 = 16;

/// Histogram of values (such as intervals) in logarithmic bins.
#[derive(Clone, Debug, Default)]
pub(super) struct LogHistogram {
    /// Sum of the weights of the values in each bin.
    bin_weights: Vec<u64>,
    /// Sum of the weights of all values.
    total_weight: u64,
}

impl LogHistogram {
    /// Adds a value with a weight, the number of values that it stands for in a sample.
    pub(super) fn add_value(&mut self, value: u64, weight: u64) {
        let bin = bin_of(value);
        if self.bin_weights.len() <= bin {
            self.bin_weights.resize(bin + 1, 0);
        }
        self.bin_weights[bin] += weight;
        self.total_weight += weight;
    }

    /// Returns the quantile below which `share` of the counted values lie, as the middle of its histogram bin; `None`
    /// if nothing was counted.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let mut left = share * self.total_weight as f64;
        for (bin, &count) in self.bin_weights.iter().enumerate() {
            left -= count as f64;
            if count > 0 && left <= 0.0 {
                return Some(middle_of_bin(bin));
            }
        }
        None
    }
}

/// Returns the histogram bin of a value: values less than 16 have a bin each, and each octave from there on has 16
/// bins.
fn bin_of(value: u64) -> usize {
    if value < BINS_PER_OCTAVE {
        return value as usize;
    }
    let octave = u64::from(value.ilog2()) - 4;
    ((octave + 1) * BINS_PER_OCTAVE + (value >> octave) - BINS_PER_OCTAVE) as usize
}

/// Returns the value in the middle of a histogram bin.
fn middle_of_bin(bin: usize) -> f64 {
    let bin = bin as u64;
    if bin < BINS_PER_OCTAVE {
        return bin as f64;
    }
    let octave = bin / BINS_PER_OCTAVE - 1;
    let width = (1_u64 << octave) as f64;
    (bin % BINS_PER_OCTAVE + BINS_PER_OCTAVE) as f64 * width + (width - 1.0) / 2.0
}
