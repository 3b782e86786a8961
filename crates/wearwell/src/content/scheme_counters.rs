//! Measures what each content scheme saves, or would save if it were switched on.
//!
//! Lifetime management chooses schemes by their write ratios (bytes kept over bytes offered). A scheme that is on
//! counts every page that reaches it. A scheme that is off examines one page in 64 and changes nothing but counters.
//! Deduplication and recycling sample by content: all pages with a sampled content stay in content index and
//! fingerprint store, so that duplicates among them are found. The other schemes sample groups of consecutive writes,
//! whose outcome they compute and discard. The work of sampling is counted like any other, because it takes
//! time and energy.
//!
//! One hash serves deduplication and recycling. A page is hashed if one of them runs, or if its content is sampled;
//! both then learn and look up the hash, but a scheme that is off does not use its hits. A page that is not hashed has
//! no fingerprint in its spare area, so recycling cannot identify it when it becomes invalid.
//!
//! Delta encoding is charged with the pages of deltas that it programs for the host, and with the merges outside GC that
//! write a base and its delta as one full page. What GC programs is charged to no scheme: it is part of the write
//! amplification, by which the bytes that a scheme does not save are multiplied. After the scheme is switched off,
//! stored deltas still cause merges. These are not charged to it, because they do not predict the cost of the next
//! write.

use crate::content::compress::MAX_CHUNK_MEMBERS;
use crate::content::{MechanismKind, MechanismSet};
use crate::data::{Content, Fingerprint, compressed_len};
use crate::ftl::Ftl;
use crate::lifetime::{SchemeByteCounts, ShadowSampler};
use crate::operation::Cause;

/// Outcome of a page write that reached a content scheme (such as compression): whether the scheme stored the page,
/// tried without success, or did not try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MechanismOutcome {
    /// The scheme (such as compression) stored the page or found its content on flash. If the scheme is on, no later
    /// scheme receives the page; if it is off, this outcome is only counted.
    Served,
    /// The scheme (such as deduplication) spent work on the page (a hash, a look-up or an encoding) without success;
    /// the page passes to the next scheme.
    TriedWithoutSuccess,
    /// The scheme (such as compression) passed the page on to the next one without any work on it.
    NotTried,
}

/// Counters of the pages that reached each content scheme (such as compression), and the group of pages that is being
/// sampled for compression while compression is off.
#[derive(Clone, Debug, Default)]
pub(crate) struct MechanismCounters {
    /// Sampler that chooses the writes and contents that schemes examine while they are off.
    sampler: ShadowSampler,
    /// For each content scheme (such as compression), indexed by [`MechanismKind`]: bytes offered to it, bytes that it
    /// did not save, and bytes of flash programs charged to it.
    bytes_by_mechanism: [SchemeByteCounts; MechanismKind::COUNT],
    /// Number of page writes that reached each content scheme while it was switched off, indexed by [`MechanismKind`].
    bypassed_writes: [u64; MechanismKind::COUNT],
    /// Page writes that are being sampled for compression while compression is off.
    sampled_page_group: SampledPageGroup,
}

/// Group of sampled page writes that would become a compressed chunk. It is compressed to measure the saving when it
/// has as many pages as a full chunk.
#[derive(Clone, Debug, Default)]
struct SampledPageGroup {
    /// Number of sampled pages in the group.
    page_count: usize,
    /// Sum of the compressed sizes of the sampled pages whose bytes are unknown (of which the trace has only
    /// fingerprint and sizes).
    compressed_bytes: usize,
    /// Bytes of the sampled pages, one page after the other; empty if only descriptors are known.
    sampled_content: Vec<u8>,
}

impl MechanismCounters {
    /// Returns whether pages with this content are in the sample: hashed and looked up even while deduplication and
    /// recycling are off.
    pub(crate) fn is_content_sampled(&self, fingerprint: Fingerprint) -> bool {
        self.sampler.should_sample_content(fingerprint)
    }

    /// Counts a page of `page_bytes` bytes that reached the content scheme `kind` (such as compression), with its
    /// outcome.
    pub(crate) fn count_page_outcome(
        &mut self,
        kind: MechanismKind,
        page_bytes: u64,
        seen: MechanismOutcome,
    ) {
        let counts = &mut self.bytes_by_mechanism[kind as usize];
        counts.offered_bytes += page_bytes;
        counts.unsaved_bytes += if seen == MechanismOutcome::Served { 0 } else { page_bytes };
        counts.unexamined_bytes += if seen == MechanismOutcome::NotTried { page_bytes } else { 0 };
    }

    /// Charges the content scheme `kind` (such as delta encoding) with `bytes` bytes of flash programs.
    pub(crate) fn count_programmed_bytes(&mut self, kind: MechanismKind, bytes: u64) {
        self.bytes_by_mechanism[kind as usize].unsaved_bytes += bytes;
    }

    /// Counts a host write that the content scheme `kind` does not process because it is off. Returns whether the write
    /// belongs to the sample of writes on which the scheme's saving is measured meanwhile.
    pub(crate) fn count_write_and_check_if_sampled(&mut self, kind: MechanismKind) -> bool {
        let past = &mut self.bypassed_writes[kind as usize];
        *past += 1;
        self.sampler.should_sample_write(*past - 1)
    }

    /// Counts a page that compression does not process because it is off. If the write is sampled, adds the page to the
    /// sampled group. A complete group of four pages is compressed to measure the saving, and discarded. Returns `true`
    /// if this page completed the group.
    fn sample_page_and_check_group_full(&mut self, content: &Content<'_>, page_bytes: usize) -> bool {
        if !self.count_write_and_check_if_sampled(MechanismKind::Compression) {
            return false;
        }
        self.sampled_page_group.page_count += 1;
        match content {
            Content::Bytes(bytes) => self.sampled_page_group.sampled_content.extend_from_slice(bytes),
            Content::Descriptor(_) => {
                self.sampled_page_group.compressed_bytes += content.compressed_bytes().unwrap_or(page_bytes);
            }
        }
        if self.sampled_page_group.page_count < MAX_CHUNK_MEMBERS {
            return false;
        }
        let group = std::mem::take(&mut self.sampled_page_group);
        let bytes = if group.sampled_content.is_empty() {
            group.compressed_bytes
        } else {
            compressed_len(&group.sampled_content)
        };
        let kept_pages = bytes.div_ceil(page_bytes).clamp(1, MAX_CHUNK_MEMBERS);
        let counts = &mut self.bytes_by_mechanism[MechanismKind::Compression as usize];
        counts.offered_bytes += (MAX_CHUNK_MEMBERS * page_bytes) as u64;
        counts.unsaved_bytes += (kept_pages * page_bytes) as u64;
        true
    }
}

impl Ftl {
    /// Returns the bytes that reached the content scheme `kind` (such as compression) and the bytes that the scheme did
    /// not save, since the counters were cleared. Both are 0 if the design does not have the scheme.
    pub fn scheme_byte_counts(&self, kind: MechanismKind) -> SchemeByteCounts {
        let mut observed = self.scheme_counters.bytes_by_mechanism[kind as usize];
        if let Some(stage) = self.compression.as_ref().filter(|_| kind == MechanismKind::Compression) {
            let page_bytes = self.store.geometry().page_bytes as u64;
            let counts = stage.statistics;
            observed.offered_bytes +=
                (counts.host_written_chunk_members + counts.written_uncompressed_pages) * page_bytes;
            observed.unsaved_bytes +=
                (counts.host_written_chunk_pages + counts.written_uncompressed_pages) * page_bytes;
        }
        observed
    }

    /// Returns the number of flash pages programmed to store host writes since the counters were cleared: whole pages,
    /// and pages that content schemes (such as compression) packed or merged. Pages that are written when a compressed
    /// chunk is split are not counted: a split reclaims flash pages, as garbage collection does.
    pub fn pages_programmed_for_host_writes(&self) -> u64 {
        let programs = &self.store.stats.programs;
        let of_splits = self.compression.as_ref().map_or(0, |stage| stage.statistics.pages_written_by_splits);
        programs[Cause::Host as usize] + programs[Cause::ContentMechanism as usize] - of_splits
    }

    /// Returns the content schemes (such as compression) that the design has and that are switched on now.
    pub fn running_schemes(&self) -> MechanismSet {
        MechanismKind::ALL.into_iter().filter(|kind| kind.is_on(self)).collect()
    }

    /// Returns whether deduplication is part of the design and switched on now.
    pub(crate) fn is_deduplication_on(&self) -> bool {
        self.sharing
            .as_ref()
            .is_some_and(|sharing| sharing.is_deduplication_on && sharing.content_index.is_some())
    }

    /// Returns whether the FTL computes the hash of pages with this content: deduplication or recycling is on, or the
    /// content is sampled.
    #[inline]
    pub(crate) fn must_hash_content(&self, fingerprint: Fingerprint) -> bool {
        let has_index = self.sharing.as_ref().is_some_and(|sharing| sharing.content_index.is_some());
        if !has_index && self.recycle.is_none() {
            return false;
        }
        self.is_deduplication_on()
            || self.recycle.as_ref().is_some_and(|stage| stage.is_on)
            || self.scheme_counters.is_content_sampled(fingerprint)
    }

    /// Counts a page write that reached the content scheme `kind` (such as compression), with its outcome.
    pub(crate) fn count_mechanism_outcome(&mut self, kind: MechanismKind, seen: MechanismOutcome) {
        let page_bytes = self.store.geometry().page_bytes as u64;
        self.scheme_counters.count_page_outcome(kind, page_bytes, seen);
    }

    /// Charges delta encoding with `pages` page programs. If delta encoding is off, these are the pages that it would
    /// have programmed.
    pub(crate) fn count_programs_of_delta_encoding(&mut self, pages: u64) {
        let page_bytes = self.store.geometry().page_bytes as u64;
        self.scheme_counters.count_programmed_bytes(MechanismKind::Delta, pages * page_bytes);
    }

    /// Charges delta encoding, if it is on, with one page program: of a page of deltas, or of a full page that merges a
    /// delta with its base.
    pub(crate) fn count_program_of_delta_encoding_if_on(&mut self) {
        if self.delta.as_ref().is_some_and(|stage| stage.is_delta_encoding_on) {
            self.count_programs_of_delta_encoding(1);
        }
    }

    /// Counts a page write that compression does not process because it is off. One page in 64 joins a group of a
    /// chunk's size, and each full group is compressed to measure the saving.
    pub(crate) fn sample_for_compression(&mut self, content: &Content<'_>) {
        let page_bytes = self.store.geometry().page_bytes as usize;
        if self.compression.is_some()
            && self.scheme_counters.sample_page_and_check_group_full(content, page_bytes)
        {
            self.store.stats.controller_work.compressed_pages += MAX_CHUNK_MEMBERS as u64;
        }
    }
}
