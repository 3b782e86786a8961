//! Deduplication in the engine: looks up the content of a host write in the content index, and maps the logical page to
//! the stored copy.

#![expect(
    clippy::inline_always,
    reason = "measured: a device without sharing should pay one branch, not a call"
)]

use crate::address::{Lpn, StoredUnit};
use crate::content::{ContentMechanism, HostWrite, MechanismKind, MechanismOutcome};
use crate::data::{Content, Fingerprint};
use crate::design::ContentParts;
use crate::error::Result;
use crate::ftl::{Ftl, stored_fingerprint};
use crate::lifetime::EnergyModel;

/// Deduplication: a page whose content is already stored is not written again.
pub(crate) struct Deduplication;

impl ContentMechanism for Deduplication {
    const KIND: MechanismKind = MechanismKind::Dedup;
    const NAME: &'static str = "dedup";
    const SUMMARY: &'static str = "Logical pages share a flash page by remap commands (Remap-SSD), and by writes of equal content (deduplication).";
    const NEEDS_HASH: bool = true;
    const IS_STATELESS: bool = false;

    fn energy_per_page_in_program_energies(energy: &EnergyModel) -> f64 {
        energy.dedup_energy_in_program_energies()
    }

    fn is_part_of(parts: &ContentParts) -> bool {
        parts.sharing.is_some_and(|sharing| sharing.dedup.is_some())
    }

    fn is_on(ftl: &Ftl) -> bool {
        ftl.sharing
            .as_ref()
            .is_some_and(|sharing| sharing.is_deduplication_on && sharing.content_index.is_some())
    }

    fn set_enabled(ftl: &mut Ftl, is_on: bool) {
        if let Some(sharing) = &mut ftl.sharing {
            sharing.is_deduplication_on = is_on;
        }
    }

    /// Binds the logical page of a host write to stored content, if its content is stored. Returns whether the write is
    /// complete.
    #[inline(always)]
    fn offer_write(ftl: &mut Ftl, write: &HostWrite<'_>) -> Result<bool> {
        let Some(stored) = ftl.find_stored_content(write.fingerprint, &write.content)? else {
            return Ok(false);
        };
        if !ftl.deduplicate(write.lpn, stored)? {
            return Ok(false);
        }
        ftl.drop_page_from_chunk_buffer(write.lpn);
        Ok(true)
    }
}

impl Ftl {
    /// Finds a stored unit (physical page or member of a compressed chunk) with this content in the content index, the
    /// hash table of stored contents. With `must_verify_hits`, reads the unit that was found from flash and compares
    /// its bytes.
    #[inline(always)]
    fn find_stored_content(
        &mut self,
        fingerprint: Fingerprint,
        content: &Content<'_>,
    ) -> Result<Option<StoredUnit>> {
        if self.sharing.is_some() { self.look_up_in_content_index(fingerprint, content) } else { Ok(None) }
    }

    /// Looks up a content in the content index (hash table of stored contents), and counts the look-up as an outcome of
    /// deduplication. Returns `None` if the content is not found, or while deduplication is off.
    #[inline(never)]
    fn look_up_in_content_index(
        &mut self,
        fingerprint: Fingerprint,
        content: &Content<'_>,
    ) -> Result<Option<StoredUnit>> {
        let is_hashed = self.must_hash_content(fingerprint);
        let Self { sharing, store, compression, .. } = self;
        let Some(sharing) = sharing else { return Ok(None) };
        let Some(index) = &mut sharing.content_index else { return Ok(None) };
        if !is_hashed {
            return Ok(None);
        }
        let is_on = sharing.is_deduplication_on;
        let found = index.find(fingerprint, |unit| stored_fingerprint(store, compression.as_deref(), unit));
        self.count_mechanism_outcome(
            MechanismKind::Dedup,
            if found.is_some() { MechanismOutcome::Served } else { MechanismOutcome::TriedWithoutSuccess },
        );
        let Some(unit) = found.filter(|_| is_on) else { return Ok(None) };
        if self.is_unit_unreadable(unit) {
            return Ok(None);
        }
        let verify = self.verifies_hits();
        if verify && !self.read_and_compare_content(unit, content)? {
            return Ok(None);
        }
        Ok(Some(unit))
    }

    /// Serves a write of `lpn` by mapping it to `unit`, a stored physical page or member of a compressed chunk of equal
    /// content, without a program. Returns `false` if that is not possible and the page must be programmed.
    fn deduplicate(&mut self, lpn: Lpn, unit: StoredUnit) -> Result<bool> {
        if !self.bind(lpn, unit, None)? {
            return Ok(false);
        }
        self.store.stats.host_page_writes += 1;
        self.store.stats.deduplicated_writes += 1;
        Ok(true)
    }

    /// Returns whether the bytes of a stored page are compared before a write of equal fingerprint is mapped to it.
    fn verifies_hits(&self) -> bool {
        let options = self.sharing.as_ref().and_then(|sharing| sharing.options.dedup);
        options.is_some_and(|dedup| dedup.must_verify_hits)
    }
}
