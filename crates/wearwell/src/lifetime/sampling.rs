//! What a scheme would save, learned from a few pages while it is off.
//!
//! A scheme that runs is measured on every page. One that is off would never be measured again, so it looks at one
//! page in 64 and only counts; its energy for these pages is real and is charged. The paper (IL) says that ratios come
//! "from the history of the previous epochs" and nothing of disabled schemes; sampling is ours.
//!
//! What a scheme that is off is measured on (`content/observe.rs`):
//!
//! - deduplication and recycling, some contents: pages with them are hashed and learned, so that their copies are seen, and
//!   look-ups of them are counted. Whoever hashes a page for one scheme lets the other look at it, too;
//! - delta encoding, some groups of consecutive writes: where such a write is eligible, the difference to the stored page is
//!   made and packed into a page that is never written. Deltas that replace each other while they wait are seen less often
//!   than if all were made, and what old versions cost collection is not seen: not to be had from a sample;
//! - compression, some groups of consecutive writes, compressed and forgotten.
//!
//! A sample of contents errs. Deduplication looks worse: while it is off, copies are stored that it would have bound, the index
//! names the newest of them and forgets the content with it, though an older one lives on. A store that learns one content in 64
//! has room for 64 times the history, and looks better: such a scheme runs for an epoch, which counts by all of its bytes, and is
//! off again for as long as that epoch is remembered. Of a handful of contents perhaps none is sampled, and nothing is seen.
//!
//! A ratio is conditional: scheme k counts the pages that the running schemes before it left over. With that, the
//! product of all ratios is the share that is really written, whatever the overlap.

use super::demand::History;
use crate::data::{Fingerprint, mix};

/// Chooses pages for shadow sampling, without state: the same page gets the same answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampler {
    /// One group in this many is taken.
    one_in: u32,
    /// Neighbouring writes that are taken together.
    group_pages: u32,
}

impl Sampler {
    /// Takes one group of `group_pages` consecutive writes in `one_in`: the members of a compression chunk can only be
    /// judged together.
    ///
    /// # Panics
    /// If either is 0.
    pub fn new(one_in: u32, group_pages: u32) -> Self {
        assert!(one_in > 0 && group_pages > 0, "sampling takes one in at least 1, in groups of at least 1");
        Self { one_in, group_pages }
    }

    /// Whether the `n`-th page written is looked at. Hashed, not counted off: a workload with a period would otherwise
    /// be seen at one phase.
    pub fn takes_write(&self, n: u64) -> bool {
        mix(n / self.group_pages as u64).is_multiple_of(self.one_in as u64)
    }

    /// Whether pages with this content are looked at: all or none, without which duplicates could not be seen. A drive
    /// would use the checksum that protects the data path here, so that only pages taken are hashed.
    pub fn takes_content(&self, content: Fingerprint) -> bool {
        mix(content.0).is_multiple_of(self.one_in as u64)
    }
}

impl Default for Sampler {
    /// One in 64, in chunks of four pages.
    fn default() -> Self {
        Self::new(64, 4)
    }
}

/// Bytes that a scheme was offered and bytes that it left to write, sampled or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Observed {
    /// Bytes that reached the scheme.
    pub offered_bytes: u64,
    /// Bytes that went on from it, or that it had programmed itself.
    pub kept_bytes: u64,
    /// Those of the kept bytes that it had programmed itself, and that schemes behind it do not see.
    pub own_bytes: u64,
    /// Those of the offered bytes that it let pass without any work on them.
    pub untried_bytes: u64,
}

impl Observed {
    /// What was observed since `earlier`; counters only grow.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            offered_bytes: self.offered_bytes - earlier.offered_bytes,
            kept_bytes: self.kept_bytes - earlier.kept_bytes,
            own_bytes: self.own_bytes - earlier.own_bytes,
            untried_bytes: self.untried_bytes - earlier.untried_bytes,
        }
    }
}

/// Predicted write ratio of one scheme: bytes kept over bytes offered, each averaged over the last epochs like the
/// demand, so that epochs count by what they saw.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RatioEstimate {
    offered: History,
    kept: History,
    own: History,
    untried: History,
}

impl RatioEstimate {
    /// Adds an epoch. One that saw nothing says nothing and is left out.
    pub fn push(&mut self, epoch: Observed) {
        if epoch.offered_bytes > 0 {
            self.offered.push(epoch.offered_bytes as f64);
            self.kept.push(epoch.kept_bytes as f64);
            self.own.push(epoch.own_bytes as f64);
            self.untried.push(epoch.untried_bytes as f64);
        }
    }

    /// Forgets all epochs but the newest.
    pub fn keep_newest(&mut self) {
        let Self { offered, kept, own, untried } = self;
        [offered, kept, own, untried].into_iter().for_each(History::keep_newest);
    }

    /// The prediction; `None` before anything was observed.
    pub fn write_ratio(&self) -> Option<f64> {
        Some(self.kept.average()? / self.offered.average()?)
    }

    /// Share of what is offered that costs the scheme work; all before anything was observed.
    pub fn worked_share(&self) -> f64 {
        1.0 - self.share_of_offered(&self.untried)
    }

    /// What the scheme programs itself, as a share of what it is offered.
    pub fn own_share(&self) -> f64 {
        self.share_of_offered(&self.own)
    }

    fn share_of_offered(&self, part: &History) -> f64 {
        part.average().zip(self.offered.average()).map_or(0.0, |(part, offered)| part / offered)
    }
}
