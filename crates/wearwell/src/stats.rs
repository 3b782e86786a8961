//! Counters of flash operations and controller work. Every flash operation is counted under its [`Cause`], and every
//! reported figure is a sum of these counters.

use std::collections::BTreeMap;

use crate::address::Ppn;
use crate::events::{FtlEvent, MetadataWriteReason};
use crate::nand::PageKind;
use crate::operation::{Cause, FlashOp, OpKind};

/// Counts of flash operations by their [`Cause`]; the index is `Cause as usize`.
pub type CountsByCause = [u64; Cause::COUNT];

/// Returns the counts of flash operations that are not zero, keyed by the name of the cause.
pub fn nonzero_counts_by_cause(counts: &CountsByCause) -> BTreeMap<String, u64> {
    Cause::ALL
        .iter()
        .map(|&cause| (cause.name().to_owned(), counts[cause as usize]))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// Counters of a drive's operations since it was built, or since its counters were last cleared.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Number of host page writes that reached the FTL, after the write buffer: the denominator of write amplification.
    pub host_page_writes: u64,
    /// Number of pages that host reads requested from the FTL.
    pub host_page_reads: u64,
    /// Number of pages that host reads requested although they had no content (never written, or trimmed since); no
    /// flash page was read for them.
    pub unwritten_page_reads: u64,
    /// Number of pages that the host trimmed.
    pub host_page_trims: u64,
    /// Number of host page writes that stored nothing, because the logical page had the written content already.
    pub unchanged_writes: u64,
    /// Number of host page writes for which a dead page of equal content was made valid again, without a program.
    pub recycled_writes: u64,
    /// Number of host page writes for which the logical page was mapped to a stored page of equal content, without a
    /// program.
    pub deduplicated_writes: u64,
    /// Number of host page writes that were stored as deltas, that is as compressed differences to an earlier version.
    pub delta_writes: u64,
    /// Number of host page writes that were compressed together with other pages, or were overwritten while they waited
    /// in RAM for compression.
    pub compressed_chunk_writes: u64,
    /// Number of pages that a remap command of the host mapped to a stored page, without a program.
    pub remapped_pages: u64,
    /// Number of pages that were programmed instead of mapped to a stored page with their content, because the stored
    /// page already had the maximum number of referrers (logical pages mapped to it).
    pub writes_due_to_max_referrers: u64,
    /// Number of pages that were programmed because the reverse map had no room for an entry: pages that would
    /// otherwise have been mapped to a stored page, and trimmed pages, which were overwritten with zeros.
    pub writes_due_to_full_reverse_map: u64,
    /// Number of host pages that a content mechanism did not share, delta-encode or compress because the tables of the
    /// content mechanisms in RAM had reached their limit. A page counts once for each mechanism.
    pub pages_stored_plainly_due_to_full_content_tables: u64,
    /// Number of trimmed pages that were overwritten with zeros because the reverse map could not record the trim. They
    /// count as host programs, but not as host page writes.
    pub trimmed_pages_written_as_zeros: u64,
    /// Number of atomic remap commands that were refused because the reverse map had no room for all their entries.
    pub refused_remap_commands: u64,
    /// Number of page programs, by cause.
    pub programs: CountsByCause,
    /// Number of page reads by cause, reads of spare areas included.
    pub reads: CountsByCause,
    /// Number of reads of spare areas alone, by cause; also counted in [`Self::reads`].
    pub spare_reads: CountsByCause,
    /// Number of physical block erases, by cause. The erase of a superblock counts as one for each of its blocks.
    pub erases: CountsByCause,
    /// Number of programs with cause host that stored no host page: the program failed and was repeated elsewhere, or
    /// power was lost during it.
    pub unsuccessful_host_programs: u64,
    /// Number of blocks retired as bad since the device was built.
    pub retired_blocks: u64,
    /// Number of flash pages found uncorrectable, each counted once.
    pub media_errors: u64,
    /// Number of pages that GC programmed as lost: copies of uncorrectable pages, with an OOB record but without
    /// readable data.
    pub lost_pages: u64,
    /// Work of the controller other than flash operations: hashing, delta encoding, compression, NVRAM.
    pub controller_work: ControllerWorkCounts,
    /// Number of victim blocks that GC collected.
    pub gc_victims: u64,
    /// Number of victim blocks collected by GC that held deltas.
    pub gc_victims_with_deltas: u64,
    /// Number of victim blocks collected by GC that held metadata.
    pub gc_victims_with_metadata: u64,
    /// Number of translation pages (and nodes of the translation tree) that GC copied. Their programs and reads are
    /// also counted under the cause of the collection.
    pub gc_translation_copies: u64,
    /// Number of pages of flash-resident page validity that GC copied. Their programs and reads are also counted under
    /// the cause of the collection.
    pub gc_validity_copies: u64,
    /// Bytes of NVRAM scanned to find the referrers of GC victims (the logical pages mapped to their pages); also
    /// counted in [`ControllerWorkCounts::nvram_read_bytes`].
    pub referrer_scan_bytes: u64,
    /// Maximum number of bytes of NVRAM scanned for the referrers of one GC victim.
    pub largest_referrer_scan_bytes: u64,
}

/// Work of the controller that takes time and energy but is no flash operation. It is only counted here; timing and
/// energy models assign the costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ControllerWorkCounts {
    /// Number of pages whose content was hashed to a fingerprint.
    pub hashed_pages: u64,
    /// Number of deltas (compressed differences between two versions of a page) that were encoded.
    pub encoded_deltas: u64,
    /// Number of deltas that were decoded and applied for a host request.
    pub deltas_decoded_for_host: u64,
    /// Number of deltas that were decoded and applied by merges, in which a delta and its base page become a plain
    /// page; no host request waits for them.
    pub merged_deltas: u64,
    /// Number of pages that the controller compressed.
    pub compressed_pages: u64,
    /// Number of pages that the controller decompressed.
    pub decompressed_pages: u64,
    /// Number of bytes that the controller wrote to NVRAM.
    pub nvram_written_bytes: u64,
    /// Number of bytes of NVRAM read by scans: for the referrers of GC victims, for log cleaning, and by recovery.
    pub nvram_read_bytes: u64,
}

impl ControllerWorkCounts {
    /// Returns the controller's work since the reading `earlier` of the same counters.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            hashed_pages: self.hashed_pages - earlier.hashed_pages,
            encoded_deltas: self.encoded_deltas - earlier.encoded_deltas,
            deltas_decoded_for_host: self.deltas_decoded_for_host - earlier.deltas_decoded_for_host,
            merged_deltas: self.merged_deltas - earlier.merged_deltas,
            compressed_pages: self.compressed_pages - earlier.compressed_pages,
            decompressed_pages: self.decompressed_pages - earlier.decompressed_pages,
            nvram_written_bytes: self.nvram_written_bytes - earlier.nvram_written_bytes,
            nvram_read_bytes: self.nvram_read_bytes - earlier.nvram_read_bytes,
        }
    }
}

impl Stats {
    /// Returns the number of page programs of all causes.
    pub fn total_programs(&self) -> u64 {
        self.programs.iter().sum()
    }

    /// Returns the number of page reads of all causes, reads of spare areas included.
    pub fn total_reads(&self) -> u64 {
        self.reads.iter().sum()
    }

    /// Returns the number of reads of spare areas alone, of all causes.
    pub fn total_spare_reads(&self) -> u64 {
        self.spare_reads.iter().sum()
    }

    /// Returns the number of block erases of all causes.
    pub fn total_erases(&self) -> u64 {
        self.erases.iter().sum()
    }

    /// Returns the write amplification: programs of all causes per host page write; 0 before the first write.
    pub fn write_amplification(&self) -> f64 {
        if self.host_page_writes == 0 {
            return 0.0;
        }
        self.total_programs() as f64 / self.host_page_writes as f64
    }
}

/// Page and kind of data of one flash operation, for a trace of single operations ([`RequestOpLog::request_op_pages`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlashOpPage {
    /// Page that is read or programmed; for an erase, the block's first page on the plane.
    pub ppn: Ppn,
    /// Kind of the pages in the block that the operation accesses.
    pub kind: PageKind,
    /// Owner that the page's OOB names: the LPN of a data page, the number of a metadata page; `u32::MAX` for an erase.
    pub owner: u32,
}

/// Flash operations of the current request, collected for a timing engine; stays empty unless collecting is switched on
/// ([`RequestOpLog::set_op_recording`]).
///
/// There are two lists. The first holds the operations of the request itself. The second holds *deferred* operations:
/// work that the FTL starts on its own while it handles the request, and for which no request waits, whatever its
/// cause.
#[derive(Clone, Debug, Default)]
pub struct RequestOpLog {
    /// Whether flash operations are collected for a timing engine.
    collects_ops: bool,
    /// Whether the page of every collected flash operation is recorded, too.
    records_op_pages: bool,
    /// Whether flash operations are added to the list of deferred ones at present.
    is_deferring_ops: bool,
    /// Flash operations of the request itself, in the order of issue.
    ops: Vec<FlashOp>,
    /// Deferred flash operations, which the FTL starts on its own and for which no request waits, in the order of
    /// issue.
    deferred_ops: Vec<FlashOp>,
    /// Pages of the flash operations of the request, and pages of the deferred operations; both empty unless the
    /// recording of pages is on.
    request_and_deferred_op_pages: [Vec<FlashOpPage>; 2],
    /// Events of the request, in order; `None` unless event recording is on.
    events: Option<Vec<FtlEvent>>,
}

impl RequestOpLog {
    /// Switches the collection of flash operations for a timing engine on or off. Empties the list of the request's
    /// operations and the list of deferred operations.
    pub fn set_op_recording(&mut self, listening: bool) {
        self.collects_ops = listening;
        self.clear();
    }

    /// Switches the recording of the page of every collected flash operation on or off, for a trace of single
    /// operations ([`RequestOpLog::request_op_pages`]). Costs 12 bytes and a look-up of the page's owner per operation.
    pub fn set_op_page_recording(&mut self, enabled: bool) {
        self.records_op_pages = enabled;
        self.clear();
    }

    /// Returns whether the pages of flash operations are recorded.
    #[inline]
    pub(crate) fn is_recording_op_pages(&self) -> bool {
        self.records_op_pages
    }

    /// Switches the collection of flash operations on, and in addition records events: operations with their pages, and
    /// the reasons for them. Empties all lists.
    pub fn enable_event_recording(&mut self) {
        self.events = Some(Vec::new());
        self.set_op_recording(true);
    }

    /// Returns whether the events of requests (victims, copies, metadata writes) are recorded.
    #[inline]
    pub(crate) fn is_recording_events(&self) -> bool {
        self.events.is_some()
    }

    /// Records the event that `event` returns; does not call `event` if event recording is off.
    #[inline]
    pub(crate) fn record_event(&mut self, event: impl FnOnce() -> FtlEvent) {
        if let Some(events) = &mut self.events {
            events.push(event());
        }
    }

    /// Records the reason why the metadata pages that follow are written, if event recording is on.
    #[inline]
    pub(crate) fn record_metadata_reason(&mut self, reason: MetadataWriteReason) {
        self.record_event(|| FtlEvent::MetadataWriteStart(reason));
    }

    /// Returns the events of the request since the last [`RequestOpLog::clear`], in order. Empty unless
    /// [`RequestOpLog::enable_event_recording`] was called.
    pub fn events(&self) -> &[FtlEvent] {
        self.events.as_deref().unwrap_or_default()
    }

    /// Sets whether flash operations are added to the list of deferred ones (for which no request waits) from this call
    /// on. Returns the previous setting.
    pub(crate) fn set_whether_ops_are_deferred(&mut self, defers: bool) -> bool {
        std::mem::replace(&mut self.is_deferring_ops, defers)
    }

    /// Returns whether flash operations are collected for a timing engine.
    #[inline]
    pub fn is_recording_ops(&self) -> bool {
        self.collects_ops
    }

    /// Appends a flash operation to the list of the request, or to the list of deferred operations (for which no
    /// request waits) while deferring is switched on.
    #[inline]
    pub(crate) fn push_op(&mut self, op: FlashOp) {
        if self.is_deferring_ops { self.deferred_ops.push(op) } else { self.ops.push(op) }
    }

    /// Records a page on which the flash operation pushed last works. A batch of page copies records two pages for each
    /// copy: the source, then the destination.
    pub(crate) fn push_op_page(&mut self, place: FlashOpPage) {
        self.request_and_deferred_op_pages[usize::from(self.is_deferring_ops)].push(place);
    }

    /// Returns the pages of the flash operations of the request, in order: one for each read, program and erase, two
    /// for each page copy (source and destination), none for a scan of NVRAM. Empty unless
    /// [`RequestOpLog::set_op_page_recording`] is on.
    pub fn request_op_pages(&self) -> &[FlashOpPage] {
        &self.request_and_deferred_op_pages[0]
    }

    /// Returns the pages of the deferred flash operations, in the form of [`RequestOpLog::request_op_pages`].
    pub fn deferred_op_pages(&self) -> &[FlashOpPage] {
        &self.request_and_deferred_op_pages[1]
    }

    /// Returns the flash operations of the request since the last [`RequestOpLog::clear`], in the order of issue.
    pub fn request_ops(&self) -> &[FlashOp] {
        &self.ops
    }

    /// Returns the deferred flash operations, for which no request waits, since the last [`RequestOpLog::clear`], in
    /// the order of issue. They are the input of
    /// [`TimingEngine::submit_background`](crate::timing::TimingEngine::submit_background).
    pub fn deferred_ops(&self) -> &[FlashOp] {
        &self.deferred_ops
    }

    /// Empties the two lists of flash operations (those of the request and the deferred ones) and the list of events.
    pub fn clear(&mut self) {
        self.ops.clear();
        self.deferred_ops.clear();
        self.request_and_deferred_op_pages.iter_mut().for_each(Vec::clear);
        if let Some(events) = &mut self.events {
            events.clear();
        }
    }

    /// Returns the dependency of a program of this cause that needs the result of a read just before it, as a number of
    /// operations back in the list: 1 if the last flash operation of the list is such a read, otherwise 0 (no
    /// dependency). A program for which a request waits needs no result of background work.
    #[inline]
    pub(crate) fn ops_back_to_last_read(&self, cause: Cause) -> u16 {
        let is_needed =
            |op: &FlashOp| op.kind == OpKind::Read && (cause.is_background() || !op.is_background());
        u16::from(self.current_ops().last().is_some_and(is_needed))
    }

    /// Returns the dependency of an erase that is about to be added to the list: how many operations before the erase
    /// the last copy of its victim is. The erase has to wait for this copy, because the victim's data must be on flash
    /// first. The last copy is the last background program or batch of copies since the previous erase. 0 (no
    /// dependency) if there is none.
    pub(crate) fn ops_back_from_next_erase_to_last_copy(&self) -> u16 {
        let since_last_erase = self.current_ops().iter().rev().take_while(|op| op.kind != OpKind::Erase);
        let is_copy =
            |op: &FlashOp| op.is_background() && matches!(op.kind, OpKind::Program | OpKind::Copies);
        let back = since_last_erase.zip(1_usize..).find(|(op, _)| is_copy(op)).map_or(0, |(_, back)| back);
        u16::try_from(back).unwrap_or(0)
    }

    /// Returns the list to which flash operations are added at present: the list of the request, or the list of
    /// deferred operations.
    fn current_ops(&self) -> &[FlashOp] {
        if self.is_deferring_ops { &self.deferred_ops } else { &self.ops }
    }
}
