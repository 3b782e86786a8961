//! Host writes as deltas, reads of deltas, and merges.
//!
//! These are the steps of the engine: they read bases, program pages of deltas and change the map. `mod.rs` has the
//! tables and decides without I/O. A write becomes a delta in the temp buffer; a page of the buffer is programmed when
//! the next delta has no room. The map takes the place of a merged page as it takes that of a GC copy, without a flash
//! operation, so that GC may merge, too. A merge runs inside the request that triggers it, but no request waits for its
//! flash operations.

use super::heat::{AccessCounts, AccessKind};
use super::packing::{BufferedDelta, decode_delta_page_header, encode_delta_lpns, placeholder_delta};
use super::{BaseOfNextDelta, CurrentDelta, DeltaState};
use crate::address::{Lpn, Ppn, StoredUnit, is_flash_page};
use crate::content::{HostWrite, MechanismKind, MechanismOutcome};
use crate::data::{Content, ContentDescriptor, Fingerprint, apply_delta, compute_delta};
use crate::design::Persistence;
use crate::error::{Error, Result};
use crate::ftl::Ftl;
use crate::mapping::Mapping;
use crate::nand::{Nand, PageKind};
use crate::operation::Cause;
use crate::store::{ContentRecord, ContentRecordKey, Stream};

/// Bytes of the tag at the end of a delta, which names its base: the low half of the base page's generation (sequence
/// number of its first write).
const BASE_TAG_BYTES: usize = 4;

/// Maximum share of a page that its content may take compressed, by itself, to be stored in a chunk rather than as a
/// delta. A chunk of four pages with larger shares saves nothing.
const MAX_COMPRESSED_SHARE_OF_PAGE: f64 = 0.75;

impl Ftl {
    /// Returns the state of delta encoding of a design with deltas.
    #[inline]
    pub(crate) fn delta_state(&self) -> &DeltaState {
        self.delta.as_deref().expect("the design encodes deltas")
    }

    /// Returns the state of delta encoding of a design with deltas, for changes.
    #[inline]
    pub(crate) fn delta_state_mut(&mut self) -> &mut DeltaState {
        self.delta.as_deref_mut().expect("the design encodes deltas")
    }

    /// Stores a host write as a delta if the page is write-hot and read-cold, has a base (stored page), and the delta
    /// saves enough. A write of a page in a compressed chunk, which cannot be a base, may be stored as a page of its
    /// own instead ([`Self::try_store_as_base`]). Returns `false` if nothing was stored; always while delta encoding is
    /// off.
    pub(crate) fn try_store_as_delta_or_base(&mut self, write: &HostWrite<'_>) -> Result<bool> {
        let &HostWrite { lpn, content, fingerprint, .. } = write;
        let Some(stage) = &mut self.delta else { return Ok(false) };
        let heat = stage.access_count_table.count_access(lpn, AccessKind::Write);
        if self.compression.is_some() && stage.cost.count_write_and_check_if_due() {
            let pages_in_delta_form = stage.delta_count();
            stage.cost.measure(&self.store.stats, pages_in_delta_form);
        }
        // A page whose entry was evicted from the table of access counts would be stored in a chunk, and lose its base.
        let stays_hot = self.compression.is_some() && stage.has_delta(lpn);
        let is_eligible = (stage.is_write_hot(heat) || stays_hot) && !stage.is_read_hot(heat);
        if !stage.is_delta_encoding_on {
            self.sample_delta(lpn, is_eligible, &content, fingerprint)?;
            return Ok(false);
        }
        let base = if is_eligible { self.base_for_new_delta(lpn)? } else { None };
        if base.is_some_and(|base| self.is_chunk_cheaper_than_delta(base, lpn, heat, &content)) {
            self.count_mechanism_outcome(MechanismKind::Delta, MechanismOutcome::NotTried);
            return Ok(false);
        }
        let Some(base) = base.filter(|_| self.accept_write_as_delta_or_count_bypass()) else {
            self.count_mechanism_outcome(MechanismKind::Delta, MechanismOutcome::NotTried);
            let may_be_base =
                is_eligible && base.is_none() && heat.writes >= self.min_writes_to_become_base();
            return if may_be_base { self.try_store_as_base(write, heat) } else { Ok(false) };
        };
        let delta = self.encode_delta(lpn, base, &content, fingerprint)?;
        let stage = self.delta_state_mut();
        stage.record_delta_attempt(delta.is_some());
        let Some(delta) = delta else {
            stage.statistics.hot_writes_without_usable_delta += 1;
            self.count_mechanism_outcome(MechanismKind::Delta, MechanismOutcome::TriedWithoutSuccess);
            return Ok(false);
        };
        let at = self.ensure_buffer_page_with_room(delta.delta_and_base_tag_bytes as usize)?;
        self.drop_delta(lpn);
        let stage = self.delta_state_mut();
        let has_bytes = matches!(content, Content::Bytes(_));
        stage.current_deltas.insert(
            lpn,
            CurrentDelta {
                flash_page: None,
                delta_and_base_tag_bytes: delta.delta_and_base_tag_bytes,
                fingerprint,
                has_known_bytes: has_bytes,
            },
        );
        stage.temp_buffer.push(at, delta);
        self.count_mechanism_outcome(MechanismKind::Delta, MechanismOutcome::Served);
        self.store.stats.host_page_writes += 1;
        self.store.stats.delta_writes += 1;
        Ok(true)
    }

    /// Returns the minimum number of recent host writes at which a page in a compressed chunk may be stored
    /// uncompressed, so that it can be the base of deltas. A base takes a whole page, and saves nothing unless it is
    /// overwritten more than once.
    fn min_writes_to_become_base(&self) -> u8 {
        self.delta.as_ref().map_or(u8::MAX, |stage| stage.options.hot_access_threshold.saturating_add(1))
    }

    /// Returns whether a host write of `lpn` that could become a delta to `base` costs less as a part of a compressed
    /// chunk, and its content compresses. `false` for a page on trial.
    fn is_chunk_cheaper_than_delta(
        &self,
        base: StoredUnit,
        lpn: Lpn,
        heat: AccessCounts,
        content: &Content<'_>,
    ) -> bool {
        let (Some(stage), Some(chunks)) = (&self.delta, &self.compression) else { return false };
        let geometry = self.store.geometry();
        let base = if is_flash_page(base, geometry.pages()) {
            BaseOfNextDelta::FlashPage
        } else {
            BaseOfNextDelta::ChunkMember
        };
        let chunk_share_of_page = chunks.mean_flash_pages_per_logical_page();
        chunks.is_compression_on
            && !stage.is_delta_cheaper_than_chunk(heat, base, chunk_share_of_page)
            && !stage.cost.is_on_trial(lpn)
            && content.compressed_bytes().is_some_and(|bytes| {
                bytes as f64 <= MAX_COMPRESSED_SHARE_OF_PAGE * geometry.page_bytes as f64
            })
    }

    /// Stores a host write of a page in a compressed chunk in a flash page of its own instead, so that it can be a
    /// base, if deltas promise to cost less than compression ([`DeltaState::should_store_base`]). Returns `false` if
    /// nothing was stored.
    fn try_store_as_base(&mut self, write: &HostWrite<'_>, heat: AccessCounts) -> Result<bool> {
        let (Some(stage), Some(chunks)) = (&self.delta, &self.compression) else { return Ok(false) };
        if !chunks.is_compression_on
            || !stage.should_store_base(write.lpn, heat, chunks.mean_flash_pages_per_logical_page())
        {
            return Ok(false);
        }
        self.append_and_map_host_page(write.lpn, write.pool, write.content, write.fingerprint)?;
        Ok(true)
    }

    /// Samples a host write while delta encoding is off: for about one write in 64, computes the space that its delta
    /// would take.
    fn sample_delta(
        &mut self,
        lpn: Lpn,
        is_eligible: bool,
        content: &Content<'_>,
        fingerprint: Fingerprint,
    ) -> Result<()> {
        if !self.scheme_counters.count_write_and_check_if_sampled(MechanismKind::Delta) {
            return Ok(());
        }
        let has_space = self.delta.as_ref().is_some_and(|stage| stage.has_space_for_delta_page());
        let base = if is_eligible && has_space { self.base_for_new_delta(lpn)? } else { None };
        let seen = match base {
            None => MechanismOutcome::NotTried,
            Some(base) => match self.encode_delta(lpn, base, content, fingerprint)? {
                None => MechanismOutcome::TriedWithoutSuccess,
                Some(delta) => {
                    let pages = self.delta.as_mut().map_or(0, |stage| stage.pack_into_sample_buffer(&delta));
                    self.count_programs_of_delta_encoding(pages);
                    MechanismOutcome::Served
                }
            },
        };
        self.count_mechanism_outcome(MechanismKind::Delta, seen);
        Ok(())
    }

    /// Returns the base for a delta of `lpn`: the unit (physical page or member of a compressed chunk) to which `lpn`
    /// is mapped. `None` if it is unmapped. If the map is in NVRAM, also `None` for a chunk member, because a delta
    /// then names its base by the sequence number of a page's first write, which a chunk member does not have.
    fn base_for_new_delta(&mut self, lpn: Lpn) -> Result<Option<StoredUnit>> {
        let base = self.mapping.lookup(&mut self.store, lpn)?;
        let pages = self.store.geometry().pages();
        Ok(base.filter(|&base| self.base_tag_bytes() == 0 || is_flash_page(base, pages)))
    }

    /// Returns whether host writes may become deltas now: delta encoding saves enough at present and has space for
    /// another flash page of deltas. If not, counts a host write of a hot page as stored whole.
    fn accept_write_as_delta_or_count_bypass(&mut self) -> bool {
        let stage = self.delta_state_mut();
        let is_open =
            stage.accept_delta_or_count_bypassed_write() && self.has_content_table_room_else_count_pages(1);
        let stage = self.delta_state_mut();
        stage.statistics.hot_writes_bypassing_deltas += u64::from(!is_open);
        is_open
    }

    /// Computes the delta between a host write of `lpn` and its base, the stored page, which is read from flash.
    /// Returns `None` if the delta is too large, its size is unknown, or the base cannot be read.
    fn encode_delta(
        &mut self,
        lpn: Lpn,
        base: StoredUnit,
        content: &Content<'_>,
        fingerprint: Fingerprint,
    ) -> Result<Option<BufferedDelta>> {
        self.store.stats.controller_work.encoded_deltas += 1;
        let (bytes, payload) = match content {
            Content::Descriptor(ContentDescriptor { delta_bytes, .. }) => {
                if *delta_bytes == ContentDescriptor::UNKNOWN_SIZE {
                    return Ok(None);
                }
                let Some(generation) = self.read_base_and_first_write_sequence_number(base, &mut [])? else {
                    return Ok(None);
                };
                let delta_bytes = *delta_bytes as usize;
                let mut delta = Vec::new();
                if self.store.nand().keeps_bytes_of(PageKind::Delta) {
                    delta = placeholder_delta(delta_bytes, fingerprint);
                    delta.extend(&base_tag_of(generation)[..self.base_tag_bytes()]);
                }
                (delta_bytes + self.base_tag_bytes(), delta)
            }
            Content::Bytes(new) => {
                let mut old = vec![0; new.len()];
                let Some(generation) = self.read_base_and_first_write_sequence_number(base, &mut old)? else {
                    return Ok(None);
                };
                let mut delta = compute_delta(new, &old);
                delta.extend(&base_tag_of(generation)[..self.base_tag_bytes()]);
                (delta.len(), delta)
            }
        };
        let stage = self.delta_state();
        let is_small_enough = stage.is_delta_small_enough(bytes);
        let delta_and_base_tag_bytes = u16::try_from(bytes).ok().filter(|_| is_small_enough);
        Ok(delta_and_base_tag_bytes.map(|delta_and_base_tag_bytes| BufferedDelta {
            lpn,
            delta_and_base_tag_bytes,
            fingerprint,
            payload,
        }))
    }

    /// Reads the base of a delta (flash page or member of a compressed chunk) from flash. Returns the sequence number
    /// of the program that first wrote the page's content, or 0 for a chunk member; `None` if the base cannot be read.
    fn read_base_and_first_write_sequence_number(
        &mut self,
        base: StoredUnit,
        into: &mut [u8],
    ) -> Result<Option<u64>> {
        let read = if is_flash_page(base, self.store.geometry().pages()) {
            self.store
                .read(Ppn(base.0), into, Cause::ContentMechanism)
                .map(|oob| oob.first_write_sequence_number)
        } else {
            self.read_chunk_member(base, into, Cause::ContentMechanism).map(|()| 0)
        };
        match read {
            Err(error) if error.is_media_error() => Ok(None),
            read => read.map(Some),
        }
    }

    /// Returns the size, in bytes, of the tag that ends each delta and names its base page; 0 if this design needs no
    /// tags. A map in NVRAM needs them, because after a power loss it may be older than the deltas on flash. The tag
    /// then shows whether the mapped page is the base of a delta.
    pub(super) fn base_tag_bytes(&self) -> usize {
        if self.persistence == Persistence::NvramMap { BASE_TAG_BYTES } else { 0 }
    }

    /// Returns the index of a page of the RAM buffer with room for a delta of `bytes` bytes. If there is none, writes
    /// the fullest page to flash and returns its index.
    fn ensure_buffer_page_with_room(&mut self, bytes: usize) -> Result<usize> {
        let buffer = &self.delta_state().temp_buffer;
        if let Some(at) = buffer.page_with_room(bytes) {
            return Ok(at);
        }
        let at = buffer.fullest_page();
        self.commit_buffer_page(at)?;
        Ok(at)
    }

    /// Makes room for a flash page of deltas and programs page `at` of the RAM buffer of deltas.
    fn commit_buffer_page(&mut self, at: usize) -> Result<()> {
        let pool = self.make_room_for_pages(Stream::Delta, 1)?;
        // Making room may have merged the logical pages whose deltas were staged here.
        let stage = self.delta_state();
        if stage.temp_buffer.open_page_at(at).deltas().is_empty() {
            return Ok(());
        }
        self.commit_buffer_page_in_pool(at, pool, Cause::ContentMechanism)
    }

    /// Programs page `at` of the RAM buffer of deltas in `pool` (set of planes), which must have room for it.
    pub(super) fn commit_buffer_page_in_pool(&mut self, at: usize, pool: u32, cause: Cause) -> Result<()> {
        let stage = self.delta_state();
        let page = stage.temp_buffer.open_page_at(at).encode(self.store.geometry().page_bytes as usize);
        let lpns: Vec<Lpn> =
            stage.temp_buffer.open_page_at(at).deltas().iter().map(|delta| delta.lpn).collect();
        let ppn = self.append_deltas(pool, &lpns, page, cause)?;
        let stage = self.delta_state_mut();
        let deltas = stage.temp_buffer.take_page_deltas(at);
        stage.count_committed_page(deltas.len());
        for delta in deltas {
            self.record_stored_delta(delta.lpn, ppn);
        }
        self.count_program_of_delta_encoding_if_on();
        Ok(())
    }

    /// Programs `page`, an encoded flash page with the deltas of `lpns`, in `pool`, with the list of `lpns` in its
    /// spare area if the design writes such lists.
    pub(super) fn append_deltas(
        &mut self,
        pool: u32,
        lpns: &[Lpn],
        mut page: Vec<u8>,
        cause: Cause,
    ) -> Result<Ppn> {
        // A map in NVRAM must name the bases of these deltas before they are written: a member moved out of its chunk
        // is another base.
        self.mapping.store_gc_moves_in_nvram(&mut self.store)?;
        page.extend(self.delta_lpn_list_for_spare(lpns));
        let (content, count) = (Content::Bytes(&page), lpns.len() as u32);
        let ppn =
            self.store.append_page(Stream::Delta, pool, count, content, Fingerprint::default(), cause)?;
        self.record_delta_page_on_flash(ppn, lpns);
        Ok(ppn)
    }

    /// Records that the delta of `lpn` was written to flash page `ppn`: in the delta table, and later in NVRAM if the
    /// device keeps records of deltas there.
    pub(super) fn record_stored_delta(&mut self, lpn: Lpn, ppn: Ppn) {
        self.delta_state_mut().record_stored_delta(lpn, ppn);
        self.store.put_content_record_later(ContentRecord::Delta { lpn, ppn });
    }

    /// Records in the table of deltas on flash, if the design keeps one, that the flash page `ppn` holds deltas of
    /// `lpns`.
    pub(super) fn record_delta_page_on_flash(&mut self, ppn: Ppn, lpns: &[Lpn]) {
        let block = self.store.block_of(ppn);
        self.delta_state_mut().record_deltas_on_flash(block, lpns);
    }

    /// Returns the list of logical pages for the spare area of a flash page with deltas of `lpns`; empty if this design
    /// writes no such lists.
    pub(super) fn delta_lpn_list_for_spare(&self, lpns: &[Lpn]) -> Vec<u8> {
        let lists = self.delta.as_ref().is_some_and(|stage| stage.lists_delta_lpns_in_spare());
        if lists { encode_delta_lpns(lpns, self.store.geometry().spare_bytes) } else { Vec::new() }
    }

    /// Drops the delta of `lpn`, if it has one, because `lpn` was stored in another form.
    pub(crate) fn drop_delta_and_its_record(&mut self, lpn: Lpn) {
        if self.delta.as_ref().is_some_and(|stage| stage.has_delta(lpn)) {
            self.drop_delta(lpn);
            self.store.remove_content_record_later(ContentRecordKey::DeltaOf(lpn));
        }
    }

    /// Drops the delta of `lpn`, if it has one, from the delta table. If this was the last current delta in its flash
    /// page, invalidates the page. The NVRAM record of a durable delta stays, because that delta is current until a
    /// newer one is durable.
    pub(super) fn drop_delta(&mut self, lpn: Lpn) {
        let Self { delta, store, .. } = self;
        let Some(stage) = delta else { return };
        let Some(place) = stage.current_deltas.remove(&lpn) else { return };
        let Some(ppn) = place.flash_page else {
            stage.temp_buffer.remove(lpn);
            return;
        };
        let page = stage.live_delta_pages.get_mut(&ppn).expect("a stored delta has a page");
        page.live_deltas -= 1;
        page.obsolete_delta_bytes += place.delta_and_base_tag_bytes as u32;
        if page.live_deltas == 0 {
            stage.live_delta_pages.remove(&ppn);
            store.count_page_invalid(ppn);
        }
    }

    /// Applies the delta of `lpn`, if it has one, to `page`, which must contain the base (the stored page of `lpn`).
    pub(crate) fn apply_delta_if_any(&mut self, lpn: Lpn, page: &mut [u8], cause: Cause) -> Result<()> {
        let tag_bytes = self.base_tag_bytes();
        let Some(stage) = &mut self.delta else { return Ok(()) };
        let Some(&place) = stage.current_deltas.get(&lpn) else { return Ok(()) };
        let work = &mut self.store.stats.controller_work;
        *(if cause == Cause::Host { &mut work.deltas_decoded_for_host } else { &mut work.merged_deltas }) +=
            1;
        let Some(ppn) = place.flash_page else {
            let staged = stage.temp_buffer.buffered_delta(lpn).expect("a delta without a page is staged");
            let payload = &staged.payload[..staged.payload.len().saturating_sub(tag_bytes)];
            return if page.is_empty() || !place.has_known_bytes {
                Ok(())
            } else {
                apply_delta_to_base(page, payload, lpn)
            };
        };
        stage.statistics.base_and_delta_reads += u64::from(cause == Cause::Host);
        if page.is_empty() || !place.has_known_bytes {
            return self.store.read(ppn, &mut [], cause).map(drop);
        }
        let mut bytes = vec![0; page.len()];
        self.store.read(ppn, &mut bytes, cause)?;
        let damaged = || {
            Error::Damaged(format!(
                "flash page {ppn} must hold the delta of logical page {lpn}, but its header is malformed or does not \
                 list the delta"
            ))
        };
        let found = decode_delta_page_header(&bytes).ok_or_else(damaged)?;
        let (_, range) = found.into_iter().rev().find(|&(owner, _)| owner == lpn).ok_or_else(damaged)?;
        apply_delta_to_base(
            page,
            &bytes[range.start..range.end.saturating_sub(tag_bytes).max(range.start)],
            lpn,
        )
    }

    /// Applies a delta that GC has read, and that is the current one of its logical page, to `page`, which must contain
    /// the base.
    pub(super) fn apply_loaded_delta(&mut self, delta: &BufferedDelta, page: &mut [u8]) -> Result<()> {
        self.store.stats.controller_work.merged_deltas += 1;
        if page.is_empty() || !self.delta_state().has_delta_bytes(delta.lpn) {
            return Ok(());
        }
        let payload_bytes = delta.payload.len().saturating_sub(self.base_tag_bytes());
        apply_delta_to_base(page, &delta.payload[..payload_bytes], delta.lpn)
    }

    /// Counts a host read of `lpn`. If `lpn` has a delta and became read-hot, merges it (rewrites base and delta as one
    /// page). `page` is the content that was read, or empty. The merge is deferred, so that the read returns before it.
    pub(crate) fn count_host_read_and_merge_delta_if_hot(&mut self, lpn: Lpn, page: &[u8]) -> Result<()> {
        let Some(stage) = &mut self.delta else { return Ok(()) };
        let heat = stage.access_count_table.count_access(lpn, AccessKind::Read);
        if !stage.is_read_hot(heat) || !stage.current_deltas.contains_key(&lpn) {
            return Ok(());
        }
        self.run_with_deferred_flash_ops(|ftl| ftl.merge_delta(lpn, Some(page)))
    }

    /// Runs work that no host request waits for: its flash operations, including those of map and GC, are marked as
    /// deferred.
    fn run_with_deferred_flash_ops(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let deferred = self.store.flash_ops.set_whether_ops_are_deferred(true);
        let outcome = work(self);
        self.store.flash_ops.set_whether_ops_are_deferred(deferred);
        outcome
    }

    /// Counts a host write. After every [`DeltaOptions::cold_scan_interval_writes`] host writes, scans for logical
    /// pages with deltas that became write-cold, and merges them (rewrites base and delta as one page) in the
    /// background.
    pub(crate) fn count_write_and_merge_cold_deltas_if_due(&mut self) -> Result<()> {
        let Some(stage) = &mut self.delta else { return Ok(()) };
        if stage.options.cold_scan_interval_writes == 0 {
            return Ok(());
        }
        stage.writes_until_cold_scan -= 1;
        if stage.writes_until_cold_scan > 0 {
            return Ok(());
        }
        stage.writes_until_cold_scan = stage.options.cold_scan_interval_writes;
        let oldest = stage.advance_cold_scan();
        self.run_with_deferred_flash_ops(|ftl| ftl.halve_counts_and_merge_cold_pages(&oldest))
    }

    /// Halves the access counts of these logical pages, and merges those in delta form that became write-cold or
    /// read-hot.
    fn halve_counts_and_merge_cold_pages(&mut self, lpns: &[Lpn]) -> Result<()> {
        for &lpn in lpns {
            if self.delta.as_mut().is_some_and(|stage| stage.halve_access_counts_and_check_merge(lpn)) {
                self.merge_delta(lpn, None)?;
            }
        }
        Ok(())
    }

    /// Merges the remap source `source` (rewrites its base and delta as one page), because a remap can only map to a
    /// full page. Returns `false` if there is no room for the merge.
    pub(crate) fn merge_remap_source(&mut self, source: Lpn) -> Result<bool> {
        let has_delta =
            |ftl: &Self| ftl.delta.as_ref().is_some_and(|stage| stage.current_deltas.contains_key(&source));
        if has_delta(self) {
            self.merge_delta(source, None)?;
        }
        Ok(!has_delta(self))
    }

    /// Merges `lpn`: rewrites its base and delta as one full page. `content_just_read` is the content of `lpn` if the
    /// host has just read it. On a full device nothing changes, because the host request that caused the merge is
    /// already served.
    fn merge_delta(&mut self, lpn: Lpn, content_just_read: Option<&[u8]>) -> Result<()> {
        let pool = match self.make_room_for_write() {
            Err(Error::Full { .. }) => return Ok(()),
            pool => pool?,
        };
        // Making room may have merged `lpn`.
        if !self.delta.as_ref().is_some_and(|stage| stage.current_deltas.contains_key(&lpn)) {
            return Ok(());
        }
        let base = self.mapping.lookup(&mut self.store, lpn)?.expect("a page in delta form has a base");
        match self.rewrite_merged_page(
            lpn,
            base,
            Stream::Host,
            pool,
            content_just_read,
            Cause::ContentMechanism,
        ) {
            // A failed program used up the reserved block. The delta stays as it is.
            Err(Error::Full { .. }) => return Ok(()),
            merged => merged?,
        }
        let statistics = &mut self.delta_state_mut().statistics;
        match content_just_read {
            Some(_) => statistics.merges_of_read_hot_pages += 1,
            None => statistics.merges_of_write_cold_pages += 1,
        }
        self.count_program_of_delta_encoding_if_on();
        Ok(())
    }

    /// Appends the content of `lpn` (base and delta combined) as one full page in `stream`. Reads base and delta first,
    /// unless the host has just read the content (`content_just_read`). Updates the map as for a GC copy, without a
    /// flash operation, so that GC may call this too.
    pub(super) fn rewrite_merged_page(
        &mut self,
        lpn: Lpn,
        base: StoredUnit,
        stream: Stream,
        pool: u32,
        content_just_read: Option<&[u8]>,
        cause: Cause,
    ) -> Result<()> {
        let has_bytes = self.delta.as_ref().is_some_and(|stage| stage.has_delta_bytes(lpn));
        let mut page = self.zero_filled_page();
        let read = match content_just_read {
            Some(content) if content.len() == page.len() => {
                page.copy_from_slice(content);
                Ok(())
            }
            _ => self.read_base_and_delta(lpn, base, &mut page, cause),
        };
        let is_lost = matches!(&read, Err(error) if error.is_media_error());
        let of_bytes = if is_lost { &[][..] } else { &page };
        let fingerprint = self
            .delta
            .as_ref()
            .and_then(|stage| stage.fingerprint_of_delta_content(lpn, of_bytes))
            .expect("the caller checked that the logical page has a fingerprint");
        let ppn = match read {
            // If base or delta cannot be read, the logical page is lost.
            Err(_) if is_lost => self.store.append_lost_page(stream, pool, lpn.0, &[], fingerprint, cause)?,
            read => {
                read?;
                let content = Content::of_page(if has_bytes { &page } else { &[] }, fingerprint);
                self.store.append_page(stream, pool, lpn.0, content, fingerprint, cause)?
            }
        };
        self.store.write_note_of_replaced_unit(base)?;
        self.store.remove_content_record_later(ContentRecordKey::MapEntryWithoutProgramOf(lpn));
        self.mapping.record_gc_move(lpn, ppn.into());
        // A delta of the new base must not be combined with the old base after a power loss.
        self.mapping.store_gc_moves_in_nvram(&mut self.store)?;
        self.validity.mark_valid_in_ram(ppn);
        self.release_reference(lpn, Some(base));
        if !is_lost {
            self.index_fingerprint_or_mark_unhashed(fingerprint, ppn.into());
        }
        Ok(())
    }

    /// Reads the base (stored page) of `lpn` into `page` and applies the delta to it.
    fn read_base_and_delta(
        &mut self,
        lpn: Lpn,
        base: StoredUnit,
        page: &mut [u8],
        cause: Cause,
    ) -> Result<()> {
        self.read_unit(base, page, cause)?;
        self.apply_delta_if_any(lpn, page, cause)
    }

    /// Writes all deltas in the RAM buffer to flash. The capacitor powers this at a power loss; it is also done at a
    /// shutdown.
    pub(crate) fn write_buffered_deltas(&mut self) -> Result<()> {
        while let Some(at) = self.delta.as_ref().and_then(|stage| stage.temp_buffer.first_nonempty_page()) {
            self.commit_buffer_page(at)?;
        }
        Ok(())
    }
}

/// Returns the tag that names a base in its delta: the low half of the base page's generation.
pub(super) fn base_tag_of(generation: u64) -> [u8; BASE_TAG_BYTES] {
    (generation as u32).to_le_bytes()
}

/// Applies `delta` to `page`, which contains the base of the logical page `lpn`. Fails if the delta is malformed.
fn apply_delta_to_base(page: &mut [u8], delta: &[u8], lpn: Lpn) -> Result<()> {
    apply_delta(page, delta).map_err(|error| {
        Error::Damaged(format!(
            "the delta of logical page {lpn} must be one that can be applied to its base page, but \
                                is not: {error}"
        ))
    })
}
