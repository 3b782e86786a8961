//! What each content scheme saves, or would save if it were on.
//!
//! Lifetime management chooses schemes by their write ratios. A scheme that is on counts every page that reaches it. One
//! that is off looks at one page in 64 and changes nothing but counters: deduplication and recycling at some contents, whose
//! pages stay in index and store, so that duplicates among them are seen; delta encoding and compression at some groups of
//! consecutive writes, which they encode and forget. The work is counted like any other, because it takes time and energy.
//!
//! One hash serves two schemes. A page is hashed if deduplication or recycling runs, or if its content is sampled, and what is
//! hashed is learned and looked up by both; of a scheme that is off only the hits are not used. What is not hashed has no
//! identity in its spare area: recycling cannot know it when it dies.
//!
//! Delta encoding is charged with the pages of deltas that it programs, for the host or in collection, and with the merges
//! that bring its pages back into one piece; merges in collection take the place of a copy and cost nothing. What is stored
//! keeps costing that after the scheme went off, where it says nothing about the next write and is not counted.

use crate::content::compress::CHUNK_MEMBERS;
use crate::data::{Content, Fingerprint, compressed_len};
use crate::ftl::Ftl;
use crate::lifetime::{ContentSchemes, Observed, Sampler, SchemeKind};
use crate::nand::Nand;

/// What became of a page that reached a scheme.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    /// It goes no further.
    Served,
    /// It goes on after some work on it.
    Passed,
    /// It goes on, and no work was done on it.
    Untried,
}

/// Pages seen by the schemes, and the group that compression is looking at while it is off.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observations {
    sampler: Sampler,
    /// By [`SchemeKind`].
    seen: [Observed; SchemeKind::COUNT],
    /// Writes that reached delta encoding while it was off.
    passed_by_delta: u64,
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
    /// Whether content is looked at while the schemes that need its hash are off.
    pub(crate) fn samples_content(&self, fingerprint: Fingerprint) -> bool {
        self.sampler.takes_content(fingerprint)
    }

    /// A page reached a scheme.
    pub(crate) fn note(&mut self, kind: SchemeKind, page_bytes: u64, seen: Seen) {
        let counts = &mut self.seen[kind as usize];
        counts.offered_bytes += page_bytes;
        counts.kept_bytes += if seen == Seen::Served { 0 } else { page_bytes };
        counts.untried_bytes += if seen == Seen::Untried { page_bytes } else { 0 };
    }

    /// A scheme programmed as many bytes for what it served, or would have.
    pub(crate) fn charge(&mut self, kind: SchemeKind, bytes: u64) {
        let counts = &mut self.seen[kind as usize];
        counts.kept_bytes += bytes;
        counts.own_bytes += bytes;
    }

    /// Delta encoding is off and passes a write on; `true` if it looks at it.
    pub(crate) fn takes_for_delta(&mut self) -> bool {
        let takes = self.sampler.takes_write(self.passed_by_delta);
        self.passed_by_delta += 1;
        takes
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
        let counts = &mut self.seen[SchemeKind::Compression as usize];
        counts.offered_bytes += (CHUNK_MEMBERS * page_bytes) as u64;
        counts.kept_bytes += (kept_pages * page_bytes) as u64;
        true
    }
}

impl<N: Nand> Ftl<N> {
    /// What a scheme saw since the counters were cleared; nothing if the design does not have it.
    pub fn observed(&self, kind: SchemeKind) -> Observed {
        let mut observed = self.observations.seen[kind as usize];
        if let Some(stage) = self.chunks.as_ref().filter(|_| kind == SchemeKind::Compression) {
            let page_bytes = self.store.geometry().page_bytes as u64;
            let counts = stage.statistics;
            observed.offered_bytes += (counts.members + counts.incompressible) * page_bytes;
            observed.kept_bytes += (counts.pages + counts.incompressible) * page_bytes;
        }
        observed
    }

    /// The schemes that the design has and that run now.
    pub fn running_schemes(&self) -> ContentSchemes {
        let runs = |kind: &SchemeKind| match kind {
            SchemeKind::Dedup => self.deduplicates(),
            SchemeKind::Recycle => self.recycle.as_ref().is_some_and(|stage| stage.is_on),
            SchemeKind::Delta => self.delta.as_ref().is_some_and(|stage| stage.is_on),
            SchemeKind::Compression => self.chunks.as_ref().is_some_and(|stage| stage.is_on),
        };
        SchemeKind::ALL.into_iter().filter(runs).collect()
    }

    fn deduplicates(&self) -> bool {
        self.sharing.as_ref().is_some_and(|sharing| sharing.deduplicates && sharing.index.is_some())
    }

    /// Whether pages with this content are hashed: once, for whoever looks hashes up.
    #[inline]
    pub(crate) fn is_hashed(&self, fingerprint: Fingerprint) -> bool {
        let has_index = self.sharing.as_ref().is_some_and(|sharing| sharing.index.is_some());
        if !has_index && self.recycle.is_none() {
            return false;
        }
        self.deduplicates()
            || self.recycle.as_ref().is_some_and(|stage| stage.is_on)
            || self.observations.samples_content(fingerprint)
    }

    /// A page reached a scheme.
    pub(crate) fn note_seen(&mut self, kind: SchemeKind, seen: Seen) {
        let page_bytes = self.store.geometry().page_bytes as u64;
        self.observations.note(kind, page_bytes, seen);
    }

    /// Delta encoding programmed pages, or would have if it were on.
    pub(crate) fn charge_delta(&mut self, pages: u64) {
        let page_bytes = self.store.geometry().page_bytes as u64;
        self.observations.charge(SchemeKind::Delta, pages * page_bytes);
    }

    /// A page goes past compression, which is off.
    pub(crate) fn pass_compression(&mut self, content: &Content<'_>) {
        let page_bytes = self.store.geometry().page_bytes as usize;
        if self.chunks.is_some() && self.observations.pass(content, page_bytes) {
            self.store.stats.work.compressed_pages += CHUNK_MEMBERS as u64;
        }
    }
}
