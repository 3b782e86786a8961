//! Shadow sampling: estimates on a few pages what a lifetime scheme would save while it does not run.
//!
//! A scheme that runs is measured on every page. A scheme that does not run would never be measured again, so it
//! processes one page in 64 and only counts the result; its energy for these pages is real and is counted. The
//! integrated-lifetime paper says that ratios come "from the history of the previous epochs" and does not mention
//! disabled schemes; sampling is our addition.
//!
//! Each scheme that does not run is sampled as follows (`content/scheme_counters.rs`):
//!
//! - Deduplication and recycling sample some contents: pages with these contents are hashed and recorded, so that their
//!   copies are recognised, and look-ups of them are counted. A hash computed for one scheme is used for the other,
//!   too.
//! - Delta encoding samples some groups of consecutive writes: if such a write is eligible, the difference to the
//!   stored page is computed and packed into a page that is never written. Two effects are not visible in a sample:
//!   deltas that replace each other while buffered are seen less often than if all were made, and the cost of old
//!   versions in GC is not seen.
//! - Compression samples some groups of consecutive writes, which are compressed and dropped.
//!
//! Sampling contents has errors. Deduplication is underestimated: while it does not run, duplicates are stored as pages
//! of their own. The index then names only the newest duplicate. When this page is overwritten, the index drops the
//! content, although an older duplicate is still live. A fingerprint store that records one content in 64 holds 64
//! times the history, so recycling is overestimated: it then runs for an epoch, is measured on all bytes of that epoch,
//! and is off again as long as that epoch is remembered. If there are only a few distinct contents, perhaps none is
//! sampled and no saving is seen.
//!
//! Ratios are conditional: scheme k counts the pages left over by the running schemes before it. So the product of all
//! ratios is the share that is really written, however much the schemes overlap.

use super::demand::WeightedEpochHistory;
use crate::data::{Fingerprint, mix_bits};

/// Chooses the pages on which a lifetime scheme is tried while it does not run (shadow sampling). Stateless: equal
/// arguments give equal answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShadowSampler {
    /// Sampling interval: one of this many groups of writes (or one of this many contents) is sampled.
    groups_per_sample: u32,
    /// Number of consecutive page writes that are sampled together as a group.
    pages_per_group: u32,
}

impl ShadowSampler {
    /// Creates a sampler that samples one of `groups_per_sample` groups of `pages_per_group` consecutive page writes.
    /// Writes are sampled in groups because the members of a compression chunk can only be judged together.
    ///
    /// # Panics
    /// If either argument is 0.
    pub fn new(groups_per_sample: u32, pages_per_group: u32) -> Self {
        assert!(
            groups_per_sample > 0 && pages_per_group > 0,
            "sampling takes one in at least 1, in groups of at least 1"
        );
        Self { groups_per_sample, pages_per_group }
    }

    /// Returns whether the page write with the number `n` is sampled. A hash of `n` decides, because with regular
    /// intervals a periodic workload would be sampled at one phase only.
    pub fn should_sample_write(&self, n: u64) -> bool {
        mix_bits(n / self.pages_per_group as u64).is_multiple_of(self.groups_per_sample as u64)
    }

    /// Returns whether pages with this content are sampled: all of them or none, because otherwise duplicates could not
    /// be recognised. A drive would take the checksum that protects its data path for this decision, so that only
    /// sampled pages are hashed.
    pub fn should_sample_content(&self, content: Fingerprint) -> bool {
        mix_bits(content.0).is_multiple_of(self.groups_per_sample as u64)
    }
}

impl Default for ShadowSampler {
    /// Returns a sampler that takes one group of four consecutive page writes in 64.
    fn default() -> Self {
        Self::new(64, 4)
    }
}

/// Bytes offered to a lifetime scheme, and bytes that remain to be written after the scheme. Measured on all pages, or
/// on a sample while the scheme does not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SchemeByteCounts {
    /// Bytes of the pages offered to the scheme.
    pub offered_bytes: u64,
    /// Bytes that the scheme did not save, because it passed them on or programmed them itself.
    pub unsaved_bytes: u64,
    /// Bytes of the pages offered to the scheme that it passed on without trying to save them.
    pub unexamined_bytes: u64,
}

impl SchemeByteCounts {
    /// Returns the bytes counted for a lifetime scheme since `earlier`, an earlier reading of these counters.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            offered_bytes: self.offered_bytes - earlier.offered_bytes,
            unsaved_bytes: self.unsaved_bytes - earlier.unsaved_bytes,
            unexamined_bytes: self.unexamined_bytes - earlier.unexamined_bytes,
        }
    }
}

/// Predicted write ratio of one lifetime scheme: bytes that it does not save over bytes offered to it. Numerator and
/// denominator are averaged over the last epochs before they are divided, so that an epoch with more bytes has more
/// weight.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct WrittenShareEstimate {
    /// Bytes of the pages offered to the scheme in each of the last epochs.
    offered_bytes: WeightedEpochHistory,
    /// Bytes that the scheme did not save in each of the last epochs.
    unsaved_bytes: WeightedEpochHistory,
    /// Bytes that the scheme passed on without trying to save them in each of the last epochs.
    unexamined_bytes: WeightedEpochHistory,
}

impl WrittenShareEstimate {
    /// Adds the bytes counted for a lifetime scheme in one epoch to the history. Ignores epochs in which no bytes were
    /// offered to the scheme.
    pub fn push_epoch(&mut self, epoch: SchemeByteCounts) {
        if epoch.offered_bytes > 0 {
            self.offered_bytes.push_epoch(epoch.offered_bytes as f64);
            self.unsaved_bytes.push_epoch(epoch.unsaved_bytes as f64);
            self.unexamined_bytes.push_epoch(epoch.unexamined_bytes as f64);
        }
    }

    /// Drops from the history the bytes of all epochs except the newest.
    pub fn drop_all_but_newest_epoch(&mut self) {
        let Self { offered_bytes, unsaved_bytes, unexamined_bytes } = self;
        [offered_bytes, unsaved_bytes, unexamined_bytes]
            .into_iter()
            .for_each(WeightedEpochHistory::drop_all_but_newest_epoch);
    }

    /// Returns the predicted write ratio of a lifetime scheme: bytes that it does not save over bytes offered to it;
    /// `None` before the first observation.
    pub fn written_share_of_offered_bytes(&self) -> Option<f64> {
        Some(self.unsaved_bytes.average()? / self.offered_bytes.average()?)
    }

    /// Returns the share of the bytes offered to a lifetime scheme that the scheme tries to save; 1 before the first
    /// observation.
    pub fn examined_share_of_offered_bytes(&self) -> f64 {
        let averages = self.unexamined_bytes.average().zip(self.offered_bytes.average());
        averages.map_or(1.0, |(untried, offered)| 1.0 - untried / offered)
    }
}
