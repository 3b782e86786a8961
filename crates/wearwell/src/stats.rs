//! Counters. Every flash operation is counted under its cause; every reported figure is a sum of these.

use std::collections::BTreeMap;

use crate::operation::{Cause, FlashOp, OpKind};

/// Operations by cause, indexed by `Cause as usize`.
pub type ByCause = [u64; Cause::COUNT];

/// Counters by cause with the causes' names; zero entries are left out.
pub fn by_cause(counts: &ByCause) -> BTreeMap<String, u64> {
    Cause::ALL
        .iter()
        .map(|&cause| (cause.name().to_owned(), counts[cause as usize]))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// What a device did since it was built or since its counters were cleared.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Pages that left the write buffer towards the FTL (the denominator of write amplification).
    pub host_page_writes: u64,
    /// Pages that host reads asked of the FTL.
    pub host_page_reads: u64,
    /// Those of them that were never written, or deallocated since: no flash page was read.
    pub unwritten_page_reads: u64,
    /// Pages that the host deallocated.
    pub host_page_trims: u64,
    /// Host page writes that were served by reviving a dead page instead of a program.
    pub recycled_writes: u64,
    /// Host page writes that were served by binding to a stored page of equal content.
    pub deduplicated_writes: u64,
    /// Host page writes that were stored as deltas.
    pub delta_writes: u64,
    /// Host page writes that went into compressed chunks, or were replaced while they waited for one.
    pub packed_writes: u64,
    /// Pages that the host remapped by a bind.
    pub remapped_pages: u64,
    /// Binds that became writes because the page had its most referrers.
    pub demoted_saturated: u64,
    /// Binds that became writes (or trims that became writes of zeros) because no entry could be recorded.
    pub demoted_full: u64,
    /// Trimmed pages that were written with zeros because the trim could not be recorded. They are host programs, and no
    /// host page writes.
    pub zeroed_trims: u64,
    /// Atomic remap commands that were refused because their entries found no room at once.
    pub refused_commands: u64,
    /// Page programs.
    pub programs: ByCause,
    /// Page reads, spare-area reads included.
    pub reads: ByCause,
    /// Those of them that read only a spare area.
    pub spare_reads: ByCause,
    /// Physical block erases (a superblock counts each of its blocks).
    pub erases: ByCause,
    /// Host programs that did not become a host page write: failed and repeated elsewhere, or cut short.
    pub wasted_programs: u64,
    /// Blocks retired since the device was built.
    pub retired_blocks: u64,
    /// Flash pages that were found unreadable.
    pub media_errors: u64,
    /// Pages programmed as lost: what collection carries on of pages that cannot be read.
    pub lost_pages: u64,
    /// What the controller did beside the flash.
    pub work: Work,
    /// Victims collected.
    pub gc_victims: u64,
    /// Those of them that held deltas.
    pub gc_delta_victims: u64,
    /// Those of them that held metadata.
    pub gc_metadata_victims: u64,
    /// Translation pages (and nodes) that collection copied; they count as programs and reads of its cause.
    pub gc_translation_copies: u64,
    /// Pages of page validity that collection copied, likewise.
    pub gc_validity_copies: u64,
    /// Bytes of NVRAM scanned to find the referrers of victims: a part of what [`Work`] counts.
    pub referrer_scan_bytes: u64,
    /// The most bytes scanned for one victim.
    pub largest_referrer_scan_bytes: u64,
}

/// Work of the controller that takes time and energy: counted here, priced by whoever knows what it costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Pages hashed.
    pub hashed_pages: u64,
    /// Deltas made.
    pub encoded_deltas: u64,
    /// Deltas applied for a host request.
    pub decoded_deltas: u64,
    /// Deltas applied by merges, for which no host request waits.
    pub merged_deltas: u64,
    /// Pages compressed.
    pub compressed_pages: u64,
    /// Pages decompressed.
    pub decompressed_pages: u64,
    /// Bytes of NVRAM stored.
    pub nvram_written_bytes: u64,
    /// Bytes of NVRAM scanned.
    pub nvram_read_bytes: u64,
}

impl Work {
    /// What was done since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            hashed_pages: self.hashed_pages - earlier.hashed_pages,
            encoded_deltas: self.encoded_deltas - earlier.encoded_deltas,
            decoded_deltas: self.decoded_deltas - earlier.decoded_deltas,
            merged_deltas: self.merged_deltas - earlier.merged_deltas,
            compressed_pages: self.compressed_pages - earlier.compressed_pages,
            decompressed_pages: self.decompressed_pages - earlier.decompressed_pages,
            nvram_written_bytes: self.nvram_written_bytes - earlier.nvram_written_bytes,
            nvram_read_bytes: self.nvram_read_bytes - earlier.nvram_read_bytes,
        }
    }
}

impl Stats {
    /// All page programs.
    pub fn total_programs(&self) -> u64 {
        self.programs.iter().sum()
    }

    /// All page reads.
    pub fn total_reads(&self) -> u64 {
        self.reads.iter().sum()
    }

    /// All reads of spare areas alone.
    pub fn total_spare_reads(&self) -> u64 {
        self.spare_reads.iter().sum()
    }

    /// All block erases.
    pub fn total_erases(&self) -> u64 {
        self.erases.iter().sum()
    }

    /// Programs per host page write; 0 before the first write.
    pub fn write_amplification(&self) -> f64 {
        if self.host_page_writes == 0 {
            return 0.0;
        }
        self.total_programs() as f64 / self.host_page_writes as f64
    }
}

/// The flash operations of the request in hand, for a timing engine; empty while nobody listens.
///
/// There are two lists. Operations of the request are in the first. Work that the FTL starts on its own while it handles
/// the request is *deferred*: no request waits for it, whatever its cause, and it is in the second.
#[derive(Clone, Debug, Default)]
pub struct OpList {
    listening: bool,
    defers: bool,
    ops: Vec<FlashOp>,
    deferred: Vec<FlashOp>,
}

impl OpList {
    /// Starts or stops collecting.
    pub fn listen(&mut self, listening: bool) {
        self.listening = listening;
        self.clear();
    }

    /// Says whether the operations that follow are deferred; returns whether those before were.
    pub(crate) fn defer(&mut self, defers: bool) -> bool {
        std::mem::replace(&mut self.defers, defers)
    }

    /// Whether somebody listens.
    #[inline]
    pub fn is_listening(&self) -> bool {
        self.listening
    }

    /// Adds an operation.
    #[inline]
    pub(crate) fn push(&mut self, op: FlashOp) {
        if self.defers { self.deferred.push(op) } else { self.ops.push(op) }
    }

    /// Operations of the request since the last [`OpList::clear`], in the order of issue.
    pub fn as_slice(&self) -> &[FlashOp] {
        &self.ops
    }

    /// Operations since the last [`OpList::clear`] that no request waits for, in the order of issue; for
    /// [`Timing::submit_background`](crate::timing::Timing::submit_background).
    pub fn deferred(&self) -> &[FlashOp] {
        &self.deferred
    }

    /// Forgets both lists.
    pub fn clear(&mut self) {
        self.ops.clear();
        self.deferred.clear();
    }

    /// Distance to the most recent read, for an operation that needs its result; 0 if the last one is none.
    #[inline]
    pub(crate) fn since_last_read(&self) -> u16 {
        let list = if self.defers { &self.deferred } else { &self.ops };
        u16::from(list.last().is_some_and(|op| op.kind == OpKind::Read))
    }
}
