//! Silent writes: a host write of the content that its logical page already has changes nothing, and is not programmed.
//!
//! The stored page is read and compared. There is no hash and no table, so the mechanism needs no RAM, and equal
//! contents are equal for certain. The price is one flash read per overwrite. A logical page that is stored as a delta
//! is not compared, because that would take two reads.
//!
//! Invariant: neither map nor flash changes, so recovery has nothing more to restore.

use crate::address::{Lpn, StoredUnit};
use crate::content::{ContentMechanism, HostWrite, MechanismKind, MechanismOutcome};
use crate::data::Content;
use crate::error::Result;
use crate::ftl::Ftl;
use crate::lifetime::EnergyModel;
use crate::mapping::Mapping;
use crate::operation::Cause;

/// Content mechanism that eliminates silent writes (host writes of the content that the logical page already has).
pub(crate) struct SilentWrites;

impl ContentMechanism for SilentWrites {
    const KIND: MechanismKind = MechanismKind::Silent;
    const NAME: &'static str = "silent";
    const SUMMARY: &'static str = "A write of the content that its logical page already has is not programmed; each overwrite reads the page.";
    const NEEDS_HASH: bool = false;

    /// Returns 0: the elimination of silent writes only reads, and reads cost nothing in the energy model of lifetime
    /// management.
    fn energy_per_page_in_program_energies(_energy: &EnergyModel) -> f64 {
        0.0
    }

    #[expect(
        clippy::inline_always,
        reason = "measured for eight functions together: 5 to 6 % fewer instructions per write, on wearwell 1 %"
    )]
    #[inline(always)]
    fn offer_write(ftl: &mut Ftl, write: &HostWrite<'_>) -> Result<bool> {
        if !ftl.stateless_mechanisms.in_design.contains(Self::KIND) {
            return Ok(false);
        }
        let is_on = Self::is_on(ftl);
        if !is_on && !ftl.scheme_counters.count_write_and_check_if_sampled(Self::KIND) {
            return Ok(false);
        }
        let is_silent = ftl.is_write_silent(write)?;
        ftl.count_mechanism_outcome(
            Self::KIND,
            if is_silent { MechanismOutcome::Served } else { MechanismOutcome::TriedWithoutSuccess },
        );
        if !is_silent || !is_on {
            return Ok(false);
        }
        ftl.store.stats.host_page_writes += 1;
        ftl.store.stats.unchanged_writes += 1;
        Ok(true)
    }
}

impl Ftl {
    /// Returns whether the logical page of `write` already has the content of `write`. Reads the stored page from
    /// flash, or from the chunk buffer. Returns `false` for a page that is unmapped, stored as a delta, or cannot be
    /// read.
    fn is_write_silent(&mut self, write: &HostWrite<'_>) -> Result<bool> {
        let mut stored = self.zero_filled_page();
        let pending =
            self.compression.as_ref().and_then(|stage| stage.fingerprint_in_chunk_buffer(write.lpn));
        let fingerprint = if let Some(fingerprint) = pending {
            self.read_page_from_chunk_buffer(write.lpn, &mut stored);
            fingerprint
        } else {
            let has_delta = self.delta.as_ref().is_some_and(|stage| stage.has_delta(write.lpn));
            let place = self.look_up_for_comparison(write.lpn)?;
            let Some(unit) = place.filter(|_| !has_delta) else { return Ok(false) };
            match self.read_unit(unit, &mut stored, Cause::ContentMechanism) {
                Err(error) if error.is_media_error() => return Ok(false),
                read => read?,
            }
            self.fingerprint_of_unit(unit)
        };
        Ok(match write.content {
            Content::Bytes(bytes) if !stored.is_empty() => bytes == stored,
            _ => fingerprint == write.fingerprint,
        })
    }

    /// Looks up the unit to which `lpn` is mapped, in order to compare its content. With a lazy map, which does not
    /// cache entries on a write, the look-up caches nothing: the room made for the write does not cover the eviction of
    /// another entry.
    fn look_up_for_comparison(&mut self, lpn: Lpn) -> Result<Option<StoredUnit>> {
        if self.mapping.identifies_invalid_pages_late() {
            self.mapping.lookup_without_caching(&mut self.store, lpn)
        } else {
            self.mapping.lookup(&mut self.store, lpn)
        }
    }
}
