//! Random number draws (uniform, Zipf and others) for workload generators and content models.
//!
//! A result can only be repeated if a seed gives the same requests on every machine and after every upgrade. So the
//! draws are defined here instead of taken from a distribution library, whose sampling may change between versions.
//! Logarithm and exponential are those of `libm` (Rust code) or, on the hot path, our own; those of the platform differ
//! in the last bit. The price is two short series that a reader has to trust, or test.
//!
//! - integer below `n`: upper 64 bits of `word * n` (multiply-shift); biased by less than `n / 2^64`, not rejected;
//! - unit interval: upper 53 bits of a word, so in `[0, 1)`;
//! - event of probability `p`: `word < p 2^64`, one word; certain and impossible events draw nothing;
//! - exponential gap: `-mean ln(1 - unit)`;
//! - zipf: rejection inversion, little more than one word on average (see [`Zipf`]).

use rand::Rng;

/// Returns a uniform random integer in `0..n`.
#[inline]
pub fn uniform_below(rng: &mut impl Rng, n: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u64
}

/// Returns a uniform random number in `[0, 1)`, a multiple of 2^-53.
#[inline]
pub fn uniform_in_unit_interval(rng: &mut impl Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Returns an exponentially distributed random number with mean `mean`, in the unit of `mean`.
#[inline]
pub fn exponential_draw(rng: &mut impl Rng, mean: f64) -> f64 {
    -mean * libm::log1p(-uniform_in_unit_interval(rng))
}

/// Probability of a random event (such as that a request is a read), stored as a threshold for random words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventProbability {
    /// The event has probability 0; deciding it draws no random word.
    Never,
    /// The event happens if a random word is less than this threshold.
    Below(u64),
    /// The event has probability 1; deciding it draws no random word.
    Always,
}

impl EventProbability {
    /// Creates a random event of probability `p`, which is clamped to `[0, 1]`.
    pub fn new(p: f64) -> Self {
        match probability_threshold(p) {
            _ if p >= 1.0 => Self::Always,
            0 => Self::Never,
            threshold => Self::Below(threshold),
        }
    }

    /// Decides at random whether the event happens; draws at most one random word.
    #[inline]
    pub fn draw_occurrence(self, rng: &mut impl Rng) -> bool {
        match self {
            Self::Never => false,
            Self::Below(threshold) => rng.next_u64() < threshold,
            Self::Always => true,
        }
    }
}

/// Returns `p 2^64`, saturating: a share `p` of all 64-bit random words is less than this threshold.
#[expect(clippy::cast_sign_loss, reason = "the cast saturates at 0 and 2^64 - 1, as it should")]
pub fn probability_threshold(p: f64) -> u64 {
    (p * 2f64.powi(64)) as u64
}

/// Draws ranks `1..=n` with probability proportional to `rank^-theta`, without a table.
///
/// Rejection inversion: invert the integral of `x^-theta` at a uniformly drawn height, round to the nearest rank `k`,
/// and reject the small part by which the integral over `[k - 1/2, k + 1/2]` exceeds `k^-theta` (Hoermann and
/// Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", 1996). A draw costs one
/// logarithm and one exponential; the rejected part is so small that a second try is rare. An exponent within 1e-6 of 1
/// is taken as 1, which changes no weight by more than 3e-5 up to 2^32 ranks.
#[derive(Clone, PartialEq, Debug)]
pub struct Zipf {
    /// Number of ranks.
    rank_count: u64,
    /// Exponent of the Zipf law.
    theta: f64,
    /// `1 - theta` of the Zipf law. If it is 0, the integral of `x^-theta` is a logarithm instead of a power.
    one_minus_theta: f64,
    /// Reciprocal of `1 - theta`, stored so that the integral of `x^-theta` is computed without a division.
    inverse_one_minus_theta: f64,
    /// Upper end of the interval from which heights are drawn, that is values of the integral of `x^-theta` (the
    /// weights of the Zipf law). The interval has the length `weight_integral_range`.
    weight_integral_max: f64,
    /// Length of the interval from which heights (values of the integral of the Zipf weights `x^-theta`) are drawn.
    weight_integral_range: f64,
    /// Limit for a quick acceptance. A drawn real number `x` is rounded to a rank; if `rank - x` is at most this limit,
    /// the rank is accepted without evaluating the Zipf law's integral.
    max_rounding_excess_accepted_unchecked: f64,
}

impl Zipf {
    /// Creates a Zipf distribution over `n` ranks (1 to 2^52) with exponent `theta` (0 to 2).
    pub fn new(n: u64, theta: f64) -> Self {
        assert!((1..=1 << 52).contains(&n), "zipf ranks 1 to 2^52 items, not {n}");
        assert!((0.0..=2.0).contains(&theta), "zipf exponents lie in 0 to 2, not {theta}");
        let q = if (1.0 - theta).abs() < 1e-6 { 0.0 } else { 1.0 - theta };
        let mut zipf = Self {
            rank_count: n,
            theta,
            one_minus_theta: q,
            inverse_one_minus_theta: 1.0 / q,
            weight_integral_max: 0.0,
            weight_integral_range: 0.0,
            max_rounding_excess_accepted_unchecked: 0.0,
        };
        zipf.weight_integral_max = zipf.weight_integral(n as f64 + 0.5);
        zipf.weight_integral_range = zipf.weight_integral_max - (zipf.weight_integral(1.5) - 1.0);
        zipf.max_rounding_excess_accepted_unchecked =
            2.0 - zipf.inverse_weight_integral(zipf.weight_integral(2.5) - zipf.rank_weight(2.0));
        zipf
    }

    /// Draws a rank in `1..=n` from the Zipf distribution.
    #[inline]
    pub fn draw(&self, rng: &mut impl Rng) -> u64 {
        loop {
            let height =
                self.weight_integral_max - uniform_in_unit_interval(rng) * self.weight_integral_range;
            let x = self.inverse_weight_integral(height);
            let rank = nearest_rank(x).clamp(1, self.rank_count);
            if rank as f64 - x <= self.max_rounding_excess_accepted_unchecked
                || self.accepts_drawn_rank(rank as f64, height)
            {
                return rank;
            }
        }
    }

    /// Whether `height`, the drawn value of the Zipf law's integral, yields `rank`; otherwise it has to be drawn again.
    /// The integral over the interval around a rank is a little greater than the weight of the rank. A height in that
    /// difference is rejected.
    #[cold]
    fn accepts_drawn_rank(&self, rank: f64, height: f64) -> bool {
        height >= self.weight_integral(rank + 0.5) - self.rank_weight(rank)
    }

    /// Returns the Zipf weight `x^-theta` of the rank `x`.
    fn rank_weight(&self, x: f64) -> f64 {
        libm::exp(-self.theta * libm::log(x))
    }

    /// Returns `(x^q - 1) / q`, the integral of `y^-theta` (the Zipf weights) over `y` from 1 to `x`.
    fn weight_integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        if self.one_minus_theta == 0.0 {
            log
        } else {
            libm::expm1(self.one_minus_theta * log) / self.one_minus_theta
        }
    }

    /// Returns the `x` at which [`Self::weight_integral`] has the value `height`.
    #[inline]
    fn inverse_weight_integral(&self, height: f64) -> f64 {
        if self.one_minus_theta == 0.0 {
            exp2(height * std::f64::consts::LOG2_E)
        } else {
            exp2(log2(1.0 + self.one_minus_theta * height) * self.inverse_one_minus_theta)
        }
    }
}

/// Returns `x` rounded to the nearest integer, half up; `x` is positive and less than 2^53.
#[inline]
#[expect(clippy::cast_sign_loss, reason = "ranks are positive")]
fn nearest_rank(x: f64) -> u64 {
    (x + 0.5) as i64 as u64
}

/// Returns the binary logarithm of `v`, a positive normal number; the absolute error is below 1e-14.
///
/// Has no branches, so that successive draws overlap in the processor: half the cost of the general routine. With `v =
/// 2^e m`, `m` in `[sqrt(1/2), sqrt(2))` and `t = (m-1)/(m+1)`, the logarithm of `m` is the odd series `2 (t + t^3/3 +
/// t^5/5 ..)`.
#[inline]
#[expect(clippy::cast_possible_wrap, clippy::cast_sign_loss, reason = "bit patterns")]
fn log2(v: f64) -> f64 {
    /// Bits of the square root of 1/2 as a floating-point number, at which the mantissa's range begins.
    const SQRT_HALF_BITS: u64 = 0x3fe6_a09e_667f_3bcd;
    let exponent = (v.to_bits().wrapping_sub(SQRT_HALF_BITS) as i64) >> 52;
    let m = f64::from_bits(v.to_bits().wrapping_sub((exponent << 52) as u64));
    let t = (m - 1.0) / (m + 1.0);
    let series = polynomial(
        t * t,
        [
            1.0,
            1.0 / 3.0,
            1.0 / 5.0,
            1.0 / 7.0,
            1.0 / 9.0,
            1.0 / 11.0,
            1.0 / 13.0,
            1.0 / 15.0,
            1.0 / 17.0,
            0.0,
            0.0,
            0.0,
        ],
    );
    exponent as f64 + (2.0 * std::f64::consts::LOG2_E) * t * series
}

/// Returns `2^y` for `y` in -1000 to 1000; the relative error is below 2e-14.
///
/// `2^y = 2^n exp(z)` with `n` the nearest integer and `|z| <= ln(2)/2`, where 12 terms of the series leave 7e-15.
#[inline]
#[expect(clippy::cast_sign_loss, reason = "bit patterns")]
fn exp2(y: f64) -> f64 {
    /// Adding and then subtracting this constant rounds to an integer, without a function call on processors that have
    /// no instruction for it.
    const ROUND_TO_INTEGER_ADDEND: f64 = 6_755_399_441_055_744.0;
    let n = (y + ROUND_TO_INTEGER_ADDEND) - ROUND_TO_INTEGER_ADDEND;
    let z = (y - n) * std::f64::consts::LN_2;
    let series = polynomial(z, EXPONENTIAL_SERIES);
    series * f64::from_bits(((n as i64 + 1023) << 52) as u64)
}

/// Coefficients `1 / k!` of the exponential series, for `k` from 0 to 11.
const EXPONENTIAL_SERIES: [f64; 12] = [
    1.0,
    1.0,
    1.0 / 2.0,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5040.0,
    1.0 / 40_320.0,
    1.0 / 362_880.0,
    1.0 / 3_628_800.0,
    1.0 / 39_916_800.0,
];

/// Returns the value of a polynomial, `c[0] + c[1] x + c[2] x^2 ..`, computed as short chains of operations that a
/// processor executes in parallel (Estrin's scheme), because the longest chain determines the time of a draw.
#[inline]
fn polynomial(x: f64, c: [f64; 12]) -> f64 {
    let (x2, x4) = (x * x, x * x * (x * x));
    let low = (c[0] + c[1] * x) + (c[2] + c[3] * x) * x2;
    let middle = (c[4] + c[5] * x) + (c[6] + c[7] * x) * x2;
    let high = (c[8] + c[9] * x) + (c[10] + c[11] * x) * x2;
    low + (middle + high * x4) * x4
}

#[cfg(test)]
mod tests {
    use super::{exp2, log2};

    #[test]
    fn fast_logarithm_and_exponential_agree_with_the_standard_library() {
        for i in 1..200_000_u32 {
            let v = f64::from(i) * 1.37e-3;
            assert!((log2(v) - v.log2()).abs() < 1e-14, "log2({v})");
            let y = f64::from(i) * 3e-4 - 30.0;
            assert!((exp2(y) / y.exp2() - 1.0).abs() < 2e-14, "exp2({y})");
        }
    }
}
