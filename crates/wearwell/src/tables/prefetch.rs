//! Reading ahead: what the next requests will look up is read before, so that the cache misses overlap.
//!
//! A write asks a dozen tables, each answer names the place to ask next, and on a device of some size nearly every
//! answer misses the caches: alone, a write waits for one miss after the other. Of several writes the look-ups in one table
//! do not depend on one another, so they are made together, table after table. Each table has a loop of its own: the
//! processor looks some hundred instructions ahead, so a loop that does more has fewer misses in flight. The price is that
//! every look-up is made twice, the second time from the cache.
//!
//! Invariant: nothing changes.

use std::hint::black_box;

/// Writes that are looked up together.
pub(crate) const TOGETHER: usize = 32;

/// Translation pages that are looked up together. More than writes: of those that leave a cache together not all are dirty,
/// and what is found of each stands at the end of a row of seven tables.
pub(crate) const MOST_PAGES: usize = 128;

/// Makes reads whose values nobody needs.
#[inline]
pub(crate) fn touch_all(values: impl Iterator<Item = u64>) {
    black_box(values.fold(0, |sum, value| sum ^ value));
}
