//! Prefetching: table entries that the next requests will access are read in advance, so that their cache misses
//! overlap.
//!
//! A write looks up a dozen tables, and each result gives the address of the next look-up. On a device of some size
//! nearly every look-up misses the caches, so a single write waits for one miss after the other. But the look-ups of
//! several writes in one table do not depend on one another, so they are made together, table after table. Each table
//! has a loop of its own: the processor executes some hundred instructions ahead, so a loop with more work has fewer
//! misses in flight. The price is that every look-up is made twice, the second time from the cache.
//!
//! Invariant: prefetching changes no state and no counter.

use std::hint::black_box;

/// Number of host writes whose table look-ups are prefetched together, so that their cache misses overlap.
pub(crate) const HOST_WRITES_PER_PREFETCH: usize = 32;

/// Number of translation pages whose look-ups are prefetched together, so that their cache misses overlap. It is
/// greater than [`HOST_WRITES_PER_PREFETCH`] because only some of the map entries that are evicted together are dirty,
/// and to find a translation page takes seven look-ups in tables, one after the other.
pub(crate) const TRANSLATION_PAGES_PER_PREFETCH: usize = 128;

/// Reads all values and discards them, so that their memory is in the processor's cache afterwards.
#[inline]
pub(crate) fn load_into_cpu_cache(values: impl Iterator<Item = u64>) {
    black_box(values.fold(0, |sum, value| sum ^ value));
}
