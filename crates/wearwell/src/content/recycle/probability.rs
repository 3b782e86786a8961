//! The recycle probability: how likely the content of a dead (invalid) page is to be written again.
//!
//! Two 4-bit observations decide: reads while the page was valid (popularity), and its position among the dead pages of
//! its logical page (version). That makes 256 cases, so the formulas are evaluated once into tables. Every case also
//! gets a *level*: its rank among the 256 by probability, with ties broken by version. The store sorts by level, an
//! integer, and never compares floats.
//!
//! - popularity: `(1 + alpha)^accesses`, accesses 0..=15
//! - initial: `(popularity - 1) / ((1 + alpha)^15 - 1)`, from 0 to 1
//! - version: `15 - position`, at least 0; position 0 is the newest dead page
//! - final: `initial * (1 - beta)^(15 - version)`
//!
//! The paper has the final probability on both sides of its equation 4; read as a recursion it would decay at every
//! evaluation. We use the closed form, which is one factor `1 - beta` per version lost, as the paper's example requires
//! (P1 declines twice, after P3 and P6 died). A page that was never read has probability 0 whatever its version, so in
//! write-dominated workloads the tie-break decides. That is why the version is part of the level.
//!
//! Source: LX-SSD (Zhou et al.), section IV-C.1, equations 1 to 4.

use super::read_counts::MAX_READ_COUNT;

/// Largest position (number of newer dead versions of the same logical page) that is distinguished: a dead page with
/// more than 15 newer dead versions has position 15, too. The recycle probability decreases with the position.
pub const MAX_COUNTED_NEWER_VERSIONS: u8 = 15;

/// Number of values, 0 to 15, that a read count or a number of newer dead versions can have in the tables.
const CAPPED_COUNT_VALUES: usize = 16;

/// Tables of recycle probability and level (rank of that probability, 0 to 255) for each pair of read count and
/// position among the dead versions of a logical page.
#[derive(Clone, Debug)]
pub struct ProbabilityTable {
    /// Recycle probability, 0 to 1, by read count and by number of newer dead versions of the logical page (0 to 15
    /// each).
    recycle_probabilities: [[f64; CAPPED_COUNT_VALUES]; CAPPED_COUNT_VALUES],
    /// Probability level (rank of the recycle probability, 0 to 255) by read count and by number of newer dead
    /// versions.
    probability_levels: [[u8; CAPPED_COUNT_VALUES]; CAPPED_COUNT_VALUES],
    /// Recycle probability of each level. A level belongs to a pair of read count and number of newer dead versions: it
    /// is the rank of this pair among all 256 pairs, ordered by recycle probability.
    probability_of_level: [f64; CAPPED_COUNT_VALUES * CAPPED_COUNT_VALUES],
}

impl ProbabilityTable {
    /// Computes the tables of recycle probability. `alpha` is the relative growth of a page's popularity per read (0.10
    /// to 0.15 in the LX-SSD paper). `beta` is the relative decay of the recycle probability per newer version (0.15 to
    /// 0.20 in the paper).
    ///
    /// Requires `alpha > 0` and `0 <= beta < 1`, so that a page with more reads has a higher probability, and a page
    /// with more newer versions has no higher one.
    pub fn new(alpha: f64, beta: f64) -> Self {
        assert!(
            alpha > 0.0 && (0.0..1.0).contains(&beta),
            "alpha is {alpha} and beta is {beta}, which give no order of pages: alpha must be above 0, beta from 0 \
             to below 1"
        );
        let mut recycle_probabilities = [[0.0; CAPPED_COUNT_VALUES]; CAPPED_COUNT_VALUES];
        for (accesses, row) in (0u8..).zip(&mut recycle_probabilities) {
            for (position, cell) in (0u8..).zip(row) {
                *cell = initial_probability(alpha, accesses) * (1.0 - beta).powi(i32::from(position));
            }
        }
        let probability_levels = rank_probabilities(&recycle_probabilities);
        let mut probability_of_level = [0.0; CAPPED_COUNT_VALUES * CAPPED_COUNT_VALUES];
        for (levels, probabilities) in probability_levels.iter().zip(&recycle_probabilities) {
            for (&level, &probability) in levels.iter().zip(probabilities) {
                probability_of_level[level as usize] = probability;
            }
        }
        Self { recycle_probabilities, probability_levels, probability_of_level }
    }

    /// Returns the recycle probability of a dead page, 0 to 1, from `read_count`, its number of reads, and
    /// `newer_versions`, its number of newer dead versions. Numbers greater than 15 count as 15.
    #[inline]
    pub fn recycle_probability(&self, read_count: u8, newer_versions: u8) -> f64 {
        self.recycle_probabilities[read_count.min(MAX_READ_COUNT) as usize]
            [newer_versions.min(MAX_COUNTED_NEWER_VERSIONS) as usize]
    }

    /// Returns the recycle probability of a dead page whose probability level is `level` (0 to 255; 255 is the most
    /// probable).
    #[inline]
    pub fn recycle_probability_at_level(&self, level: u8) -> f64 {
        self.probability_of_level[level as usize]
    }

    /// Returns the probability level of a dead page from `read_count`, its number of reads, and `newer_versions`, its
    /// number of newer dead versions. The level is the rank of this pair among all 256 pairs by recycle probability;
    /// equal ones are ordered by the number of newer versions. 255 is the best.
    #[inline]
    pub fn probability_level_of_page(&self, read_count: u8, newer_versions: u8) -> u8 {
        self.probability_levels[read_count.min(MAX_READ_COUNT) as usize]
            [newer_versions.min(MAX_COUNTED_NEWER_VERSIONS) as usize]
    }
}

/// Returns the recycle probability of a page that has just been invalidated, from its number of reads (equations 1 and
/// 2 of the LX-SSD paper).
fn initial_probability(alpha: f64, read_count: u8) -> f64 {
    let popularity = |count: u8| (1.0 + alpha).powi(i32::from(count));
    (popularity(read_count) - 1.0) / (popularity(MAX_READ_COUNT) - 1.0)
}

/// Returns the level of each pair of read count and position (number of newer dead versions): its rank, 0 to 255, by
/// recycle probability. Of pairs with equal probability, the one with the smaller position has the greater level.
fn rank_probabilities(
    probabilities: &[[f64; CAPPED_COUNT_VALUES]; CAPPED_COUNT_VALUES],
) -> [[u8; CAPPED_COUNT_VALUES]; CAPPED_COUNT_VALUES] {
    let mut cases: Vec<(usize, usize)> = (0..CAPPED_COUNT_VALUES * CAPPED_COUNT_VALUES)
        .map(|i| (i / CAPPED_COUNT_VALUES, i % CAPPED_COUNT_VALUES))
        .collect();
    cases.sort_by(|&(a, i), &(b, j)| probabilities[a][i].total_cmp(&probabilities[b][j]).then(j.cmp(&i)));
    let mut levels = [[0; CAPPED_COUNT_VALUES]; CAPPED_COUNT_VALUES];
    for (level, (accesses, position)) in (0u8..=255).zip(cases) {
        levels[accesses][position] = level;
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts that the numbers in `actual` equal those in `expected` to four digits after the decimal point.
    fn assert_equal_to_4_digits(actual: impl Iterator<Item = f64>, expected: &[f64]) {
        let actual: Vec<f64> = actual.collect();
        assert_eq!(actual.len(), expected.len());
        for (i, (a, e)) in actual.iter().zip(expected).enumerate() {
            assert!((a - e).abs() <= 0.5e-4 + 1e-12, "entry {i}: {a} is not {e} to 4 digits");
        }
    }

    #[test]
    fn initial_recycle_probabilities_with_alpha_10_percent_equal_those_of_the_paper() {
        let expected = [
            0.0, 0.0315, 0.0661, 0.1042, 0.1461, 0.1922, 0.2428, 0.2986, 0.3599, 0.4274, 0.5016, 0.5832,
            0.6730, 0.7718, 0.8805, 1.0,
        ];
        let table = ProbabilityTable::new(0.10, 0.15);
        assert_equal_to_4_digits((0..16).map(|accesses| table.recycle_probability(accesses, 0)), &expected);
    }

    #[test]
    fn initial_recycle_probabilities_with_alpha_15_percent_equal_those_of_the_paper() {
        let expected = [
            0.0, 0.0210, 0.0452, 0.0730, 0.1049, 0.1417, 0.1840, 0.2326, 0.2885, 0.3528, 0.4267, 0.5118,
            0.6095, 0.7220, 0.8513, 1.0,
        ];
        let table = ProbabilityTable::new(0.15, 0.15);
        assert_equal_to_4_digits((0..16).map(|accesses| table.recycle_probability(accesses, 0)), &expected);
    }

    #[test]
    fn recycle_probabilities_decay_by_beta_15_percent_per_version() {
        let table = ProbabilityTable::new(0.10, 0.15);
        let expected = [1.0, 0.85, 0.7225, 0.6141, 0.5220, 0.4437, 0.3771, 0.3206];
        assert_equal_to_4_digits((0..8).map(|position| table.recycle_probability(15, position)), &expected);
        assert_equal_to_4_digits(
            [15, 16, 200].into_iter().map(|position| table.recycle_probability(15, position)),
            &[0.0874; 3],
        );
    }

    #[test]
    fn the_recycle_probability_is_multiplied_by_1_minus_beta_for_each_newer_version() {
        let table = ProbabilityTable::new(0.12, 0.18);
        for accesses in 0..16 {
            let mut stepwise = table.recycle_probability(accesses, 0);
            for position in 1..16 {
                stepwise *= 1.0 - 0.18;
                assert!((table.recycle_probability(accesses, position) - stepwise).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn probability_levels_order_dead_pages_by_probability_then_version() {
        let table = ProbabilityTable::new(0.10, 0.15);
        let mut by_level = vec![None; 256];
        for accesses in 0..16u8 {
            for position in 0..16u8 {
                let key = (table.recycle_probability(accesses, position), 15 - position);
                let level = table.probability_level_of_page(accesses, position);
                assert_eq!(table.recycle_probability_at_level(level).to_bits(), key.0.to_bits());
                assert!(by_level[level as usize].replace(key).is_none());
            }
        }
        let keys: Vec<(f64, u8)> = by_level.into_iter().flatten().collect();
        assert_eq!(keys.len(), 256);
        assert!(keys.windows(2).all(|w| w[0] < w[1]));
        assert_eq!(
            (table.probability_level_of_page(15, 0), table.probability_level_of_page(0, 15)),
            (255, 0)
        );
    }
}
