//! A seeded permutation of `0..n` without a table.
//!
//! Scattering a skewed workload over the address space, and filling a device into its steady state, both need a random
//! order of up to 2^32 pages. A shuffled table would cost 4 to 8 bytes per page and a cache miss per look-up; this
//! permutation costs a few multiplications.
//!
//! Construction: an unbalanced Feistel network on pairs (left, right), left in `0..2^k`, right in `0..rows`, with
//! `2^k` about the square root of `n` and `rows = ceil(n / 2^k)`. Each round adds a keyed hash of one half to the
//! other (xor on the left, modulo `rows` on the right), which can be undone, so the network is a bijection on
//! `0..2^k rows`. That domain exceeds `n` by less than `2^k`; the few results beyond `n` are permuted again until
//! they fall inside (cycle walking; Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). The price:
//! it looks random but is no cipher, and small domains reach only some of the `n!` orders.

use wearwell::data::mix_bits;

/// Number of rounds in which the permutation mixes the two halves of a number.
const FEISTEL_ROUNDS: usize = 6;
/// Odd factor of the hash by which the rounds of the permutation mix the halves of a number.
const ROUND_MULTIPLIER: u64 = 0xd6e8_feb8_6659_fd93;

/// Pseudo-random permutation of `0..n`, with its inverse. Each direction costs about nine multiplications.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Permutation {
    /// Number of permuted numbers, `n`; the permutation maps `0..n` to `0..n`.
    domain_len: u64,
    /// Number of bits of the left half of a permuted number.
    left_half_bits: u32,
    /// Number of values that the right half can have, when a number to be permuted is split into two halves.
    right_half_value_count: u64,
    /// Key of each round, computed from the seed.
    round_keys: [u64; FEISTEL_ROUNDS],
}

impl Permutation {
    /// Creates the permutation of `0..domain_len` that `seed` selects; `domain_len` is 1 to 2^48.
    pub fn new(domain_len: u64, seed: u64) -> Self {
        assert!(
            (1..=1 << 48).contains(&domain_len),
            "a permutation covers 1 to 2^48 numbers, not {domain_len}"
        );
        let bits = u64::BITS - (domain_len - 1).leading_zeros();
        let left_half_bits = bits / 2;
        let mut key = mix_bits(seed ^ 0x7065_726d_7574_6521);
        let round_keys = std::array::from_fn(|_| {
            key = mix_bits(key.wrapping_add(0x9e37_79b9_7f4a_7c15));
            key
        });
        Self {
            domain_len,
            left_half_bits,
            right_half_value_count: domain_len.div_ceil(1 << left_half_bits),
            round_keys,
        }
    }

    /// Returns the number of permuted numbers: the permutation maps `0..n` to `0..n`, and this is `n`.
    pub fn domain_size(&self) -> u64 {
        self.domain_len
    }

    /// Returns the number to which the permutation maps `index`. Panics unless `index` is less than
    /// [`Self::domain_size`].
    #[inline]
    pub fn apply(&self, index: u64) -> u64 {
        assert!(index < self.domain_len, "{index} is outside the permutation of {} numbers", self.domain_len);
        let mut at = index;
        loop {
            at = self.permute_once(at);
            if at < self.domain_len {
                return at;
            }
        }
    }

    /// Returns the number that the permutation maps to `image`: `invert(apply(i)) == i`. Panics unless `image` is less
    /// than [`Self::domain_size`].
    #[inline]
    pub fn invert(&self, image: u64) -> u64 {
        assert!(image < self.domain_len, "{image} is outside the permutation of {} numbers", self.domain_len);
        let mut at = image;
        loop {
            at = self.invert_permute_once(at);
            if at < self.domain_len {
                return at;
            }
        }
    }

    /// Applies all rounds once. The result may be outside the permuted range, and is then permuted again.
    #[inline]
    fn permute_once(&self, at: u64) -> u64 {
        let (mut left, mut right) = self.split_halves(at);
        for keys in self.round_keys.chunks_exact(2) {
            right += self.right_half_offset(left, keys[0]);
            right -= if right >= self.right_half_value_count { self.right_half_value_count } else { 0 };
            left ^= self.left_half_mask(right, keys[1]);
        }
        (right << self.left_half_bits) | left
    }

    /// Inverts one [`Self::permute_once`]: undoes its rounds, in reverse order.
    #[inline]
    fn invert_permute_once(&self, at: u64) -> u64 {
        let (mut left, mut right) = self.split_halves(at);
        for keys in self.round_keys.chunks_exact(2).rev() {
            left ^= self.left_half_mask(right, keys[1]);
            right += self.right_half_value_count - self.right_half_offset(left, keys[0]);
            right -= if right >= self.right_half_value_count { self.right_half_value_count } else { 0 };
        }
        (right << self.left_half_bits) | left
    }

    /// Returns the left and the right half of a number.
    #[inline]
    fn split_halves(&self, at: u64) -> (u64, u64) {
        (at & ((1 << self.left_half_bits) - 1), at >> self.left_half_bits)
    }

    /// Returns the number that a round adds to the right half of a permuted number: a hash of the left half, less than
    /// `right_half_value_count` (which is less than 2^25), by multiply-shift.
    #[inline]
    fn right_half_offset(&self, left: u64, key: u64) -> u64 {
        (round_hash(left, key) * self.right_half_value_count) >> 32
    }

    /// Returns the mask that a round XORs into the left half of a permuted number: a hash of the right half, of which
    /// only the uppermost bits are used, as many as the left half has.
    #[inline]
    fn left_half_mask(&self, right: u64, key: u64) -> u64 {
        round_hash(right, key) >> (32 - self.left_half_bits)
    }
}

/// Returns a 32-bit hash of `half`, one half of a permuted number (less than 2^25): the upper half of a 64-bit product,
/// which depends on every bit of `half`.
#[inline]
fn round_hash(half: u64, key: u64) -> u64 {
    (half ^ key).wrapping_mul(ROUND_MULTIPLIER) >> 32
}
