//! What each content scheme saves, or would save if it were on.
//!
//! The lifetime manager chooses schemes by their write ratios. A scheme that is on counts every page that reaches it. One
//! that is off looks at one page in 64: deduplication at some contents (their pages stay in the content index, so that
//! duplicates among them are seen), compression at some groups of consecutive writes, which it compresses and forgets.
//! The work is counted like any other, because it takes time and energy.

use super::chunk::CHUNK_MEMBERS;
use super::{Content, Fingerprint, compressed_len};
use crate::ftl::Ftl;
use crate::lifetime::{Observed, Sampler};
use crate::nand::Nand;

/// Pages seen by the schemes, and the group that compression is looking at while it is off.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observations {
    sampler: Sampler,
    dedup: Observed,
    compression: Observed,
    /// Writes that reached compression while it was off.
    passed: u64,
    group: Group,
}

#[derive(Clone, Debug, Default)]
struct Group {
    pages: usize,
    compressed_bytes: usize,
    bytes: Vec<u8>,
}

impl Observations {
    /// Whether deduplication looks at this content while it is off.
    pub(crate) fn samples_content(&self, fingerprint: Fingerprint) -> bool {
        self.sampler.takes_content(fingerprint)
    }

    /// Deduplication saw a page.
    pub(crate) fn note_dedup(&mut self, page_bytes: u64, is_kept: bool) {
        self.dedup.offered_bytes += page_bytes;
        self.dedup.kept_bytes += if is_kept { page_bytes } else { 0 };
    }

    /// Compression is off and passes a page on; `true` if it compressed a group on this occasion.
    fn pass(&mut self, content: &Content<'_>, page_bytes: usize) -> bool {
        let takes = self.sampler.takes_write(self.passed);
        self.passed += 1;
        if !takes {
            return false;
        }
        self.group.pages += 1;
        match content {
            Content::Bytes(bytes) => self.group.bytes.extend_from_slice(bytes),
            Content::Descriptor(_) => {
                self.group.compressed_bytes += content.compressed_bytes().unwrap_or(page_bytes);
            }
        }
        if self.group.pages < CHUNK_MEMBERS {
            return false;
        }
        let group = std::mem::take(&mut self.group);
        let bytes =
            if group.bytes.is_empty() { group.compressed_bytes } else { compressed_len(&group.bytes) };
        let kept_pages = bytes.div_ceil(page_bytes).clamp(1, CHUNK_MEMBERS);
        self.compression.offered_bytes += (CHUNK_MEMBERS * page_bytes) as u64;
        self.compression.kept_bytes += (kept_pages * page_bytes) as u64;
        true
    }
}

impl<N: Nand> Ftl<N> {
    /// What deduplication and compression saw since the counters were cleared.
    pub fn observed_schemes(&self) -> [Observed; 2] {
        let Observations { dedup, mut compression, .. } = self.observations;
        if let Some(stage) = &self.chunks {
            let page_bytes = self.store.geometry().page_bytes as u64;
            let counts = stage.statistics;
            compression.offered_bytes += (counts.members + counts.incompressible) * page_bytes;
            compression.kept_bytes += (counts.pages + counts.incompressible) * page_bytes;
        }
        [dedup, compression]
    }

    /// A page goes past compression, which is off.
    pub(crate) fn pass_compression(&mut self, content: &Content<'_>) {
        let page_bytes = self.store.geometry().page_bytes as usize;
        if self.chunks.is_some() && self.observations.pass(content, page_bytes) {
            self.store.stats.work.compressed_pages += CHUNK_MEMBERS as u64;
        }
    }
}
