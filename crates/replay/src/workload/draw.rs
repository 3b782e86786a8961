//! The draws that generators and content models are made of.
//!
//! A result is only reproducible if a seed means the same requests on every machine and after every upgrade, so the
//! draws are written down here instead of taken from a distribution library, whose sampling may change between
//! versions. Logarithm and exponential come from `libm` (Rust code) rather than from the platform, whose last bit
//! differs. The price is a few nanoseconds per zipf or exponential draw.
//!
//! - integer below `n`: upper 64 bits of `word * n` (multiply-shift); biased by less than `n / 2^64`, not rejected;
//! - unit interval: upper 53 bits of a word, so in `[0, 1)`;
//! - event of probability `p`: `word < p 2^64`, one word; certain and impossible events draw nothing;
//! - exponential gap: `-mean ln(1 - unit)`;
//! - zipf: rejection inversion, about 1.1 words (see [`Zipf`]).

use rand::Rng;

/// Uniform in `0..n`.
#[inline]
pub fn below(rng: &mut impl Rng, n: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u64
}

/// Uniform in `[0, 1)`, a multiple of 2^-53.
#[inline]
pub fn unit(rng: &mut impl Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Exponentially distributed with mean `mean`, in the unit of `mean`.
#[inline]
pub fn exponential(rng: &mut impl Rng, mean: f64) -> f64 {
    -mean * libm::log1p(-unit(rng))
}

/// An event of fixed probability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chance {
    /// Probability 0; draws nothing.
    Never,
    /// Happens if a word is below the threshold.
    Below(u64),
    /// Probability 1; draws nothing.
    Always,
}

impl Chance {
    /// An event of probability `p`, which is taken into `[0, 1]`.
    pub fn new(p: f64) -> Self {
        match threshold(p) {
            _ if p >= 1.0 => Self::Always,
            0 => Self::Never,
            threshold => Self::Below(threshold),
        }
    }

    /// Draws at most one word.
    #[inline]
    pub fn happens(self, rng: &mut impl Rng) -> bool {
        match self {
            Self::Never => false,
            Self::Below(threshold) => rng.next_u64() < threshold,
            Self::Always => true,
        }
    }
}

/// `p 2^64`, saturating: words below it are a share `p` of all words.
pub fn threshold(p: f64) -> u64 {
    (p * 2f64.powi(64)) as u64
}

/// Ranks `1..=n` with probability proportional to `rank^-theta`, without a table.
///
/// Rejection inversion: invert the integral of `x^-theta` at a uniform height, round to the nearest rank, and reject
/// the sliver by which the integral over `[k - 1/2, k + 1/2]` exceeds `k^-theta` (Hoermann and Derflinger,
/// "Rejection-inversion to generate variates from monotone discrete distributions", 1996). Exact for any `n`; a
/// draw costs one logarithm and one exponential, and the sliver is so thin that a second try is rare.
#[derive(Clone, PartialEq, Debug)]
pub struct Zipf {
    n: f64,
    /// `1 - theta`, 0 if within 1e-9 of it: there the integral is a logarithm to within rounding.
    q: f64,
    theta: f64,
    /// Heights are drawn from `(low, high]`.
    low: f64,
    high: f64,
    /// A point this close below its rank, or nearer, is accepted without evaluating the sliver.
    sure: f64,
}

impl Zipf {
    /// Over `n >= 1` ranks with exponent `theta >= 0`.
    pub fn new(n: u64, theta: f64) -> Self {
        assert!(n >= 1 && theta >= 0.0, "zipf needs a rank and an exponent from 0 on");
        let q = if (1.0 - theta).abs() < 1e-9 { 0.0 } else { 1.0 - theta };
        let mut zipf = Self { n: n as f64, q, theta, low: 0.0, high: 0.0, sure: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.n + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// A rank in `1..=n`.
    #[inline]
    pub fn draw(&self, rng: &mut impl Rng) -> u64 {
        loop {
            let height = self.high - unit(rng) * (self.high - self.low);
            let x = self.inverse(height);
            let rank = (x + 0.5).floor().clamp(1.0, self.n);
            if rank - x <= self.sure || height >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64;
            }
        }
    }

    #[inline]
    fn weight(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    /// `(x^q - 1) / q`, the integral of `x^-theta` from 1.
    #[inline]
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        if self.q == 0.0 { log } else { libm::expm1(self.q * log) / self.q }
    }

    #[inline]
    fn inverse(&self, height: f64) -> f64 {
        let log = if self.q == 0.0 { height } else { libm::log1p(self.q * height) / self.q };
        libm::exp(log)
    }
}
