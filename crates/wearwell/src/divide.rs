//! Division by a divisor that is known only at run time, computed without a division instruction.

/// Divides any `u32` by a fixed `u32` with one multiplication, two for the remainder (Lemire, Kaser, Kurz, "Faster
/// remainder by direct computation", 2019). Exact for all 32-bit operands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divider {
    /// Reciprocal of the divisor, multiplied by 2^64 and rounded up; 0 for divisor 1.
    magic_multiplier: u64,
    /// The fixed divisor.
    divisor: u32,
}

impl Divider {
    /// Prepares divisions by `divisor`.
    pub(crate) fn new(divisor: u32) -> Self {
        assert!(divisor > 0, "division by zero");
        // The magic number for divisor 1 would be 2^64, which does not fit; `quotient` then returns the dividend
        // itself.
        Self { magic_multiplier: if divisor == 1 { 0 } else { u64::MAX / divisor as u64 + 1 }, divisor }
    }

    /// Returns `dividend` divided by the divisor, rounded down.
    #[inline]
    pub(crate) fn quotient(self, dividend: u32) -> u32 {
        if self.divisor == 1 {
            return dividend;
        }
        ((self.magic_multiplier as u128 * dividend as u128) >> 64) as u32
    }

    /// Returns the remainder of `dividend` divided by the divisor.
    #[inline]
    pub(crate) fn remainder(self, dividend: u32) -> u32 {
        dividend - self.quotient(dividend) * self.divisor
    }
}

#[cfg(test)]
mod tests {
    use super::Divider;

    #[test]
    fn division_by_a_precomputed_divider_is_exact_at_range_limits() {
        for divisor in [1, 2, 3, 5, 64, 127, 128, 768, 1024, 65535] {
            let divide = Divider::new(divisor);
            let edges = [0, 1, divisor - 1, divisor, divisor + 1, u32::MAX / 2, u32::MAX - 1, u32::MAX];
            for dividend in edges {
                assert_eq!(divide.quotient(dividend), dividend / divisor, "{dividend} / {divisor}");
                assert_eq!(divide.remainder(dividend), dividend % divisor, "{dividend} % {divisor}");
            }
        }
    }
}
