//! Binds: map a logical page to content that is stored already, without a program.
//!
//! [`Ftl::bind`] records the bind in the reverse map, changes the map entry, and releases the page that it named
//! before. What makes the bind durable depends on the design ([`Persistence`](crate::design::Persistence)): the
//! reverse-map entry, once `PageSharingState::record_entry` has stored it in NVRAM or on flash
//! (`sharing/reverse_map/`); or, on a map in NVRAM, the NVRAM word of the map entry, once the map is changed; or a
//! battery that keeps RAM.

use crate::address::{Lpn, Ppn, StoredUnit, is_flash_page};
use crate::data::Content;
use crate::error::Result;
use crate::ftl::{Ftl, stored_fingerprint};
use crate::mapping::Mapping;
use crate::operation::Cause;
use crate::sharing::PageSharingState;
use crate::sharing::reverse_map::ReverseMapEntry;
use crate::store::{ContentRecord, ContentRecordKey};

impl Ftl {
    /// Returns the state of sharing of a design in which logical pages can share a flash page, for changes.
    #[inline]
    pub(crate) fn sharing_state_mut(&mut self) -> &mut PageSharingState {
        self.sharing.as_deref_mut().expect("the design shares pages")
    }

    /// Maps `lpn` to `unit` (a stored physical page or member of a compressed chunk) without a program. With a
    /// `source`, the bind also unmaps the logical page `source`, as a remap command in the mode
    /// [`Relocate`](crate::address::RemapMode::Relocate) does. Returns `false` if the reverse map cannot record the
    /// bind: the caller must write the page instead. The caller must have made room for metadata.
    ///
    /// # Errors
    /// Power loss.
    pub(crate) fn bind(&mut self, lpn: Lpn, unit: StoredUnit, source: Option<Lpn>) -> Result<bool> {
        if self.delta.as_ref().is_some_and(|stage| stage.forbids_mapping_without_program(lpn)) {
            return Ok(false);
        }
        let Self { sharing, mapping, store, .. } = self;
        if !sharing.as_ref().is_some_and(|sharing| sharing.can_map_without_program()) {
            return Ok(false);
        }
        if mapping.as_demand_paged().is_some() {
            // If the map entry is fetched here, the map changes below without a flash operation, so the bind happens
            // completely or not at all.
            mapping.lookup(store, lpn)?;
        }
        if source.is_none() && mapping.lookup_in_ram(lpn) == Some(unit) {
            // `lpn` is mapped to the unit already, and the unit's content is the current one: a delta against it is
            // obsolete.
            self.drop_delta_and_its_record(lpn);
            self.apply_deferred_content_record_changes()?;
            return Ok(true);
        }
        if !self.has_content_table_room_else_count_pages(1) {
            return Ok(false);
        }
        let Self { sharing, mapping, store, .. } = self;
        let sharing = sharing.as_mut().expect("the design shares pages");
        if !sharing.reference_counts.can_add_referrer(unit) {
            store.stats.writes_due_to_max_referrers += 1;
            return Ok(false);
        }
        if !sharing.make_room_for_entry(mapping, store)? {
            store.stats.writes_due_to_full_reverse_map += 1;
            return Ok(false);
        }
        let sequence = store.take_next_sequence_number();
        let entry = ReverseMapEntry {
            lpn,
            mapped_ppn: Some(Ppn(unit.0)),
            relocation_source_or_range_end: source,
            sequence_number: sequence,
        };
        sharing.record_entry(mapping, store, entry)?;
        // If the page was dead, this bind is its first reference, and the count of extra referrers stays zero.
        if self.revive_if_dead_page(unit) {
            self.apply_deferred_content_record_changes()?;
            self.store.put_content_record(ContentRecord::UnitWithWriterMappedElsewhere { unit })?;
        } else {
            self.sharing_state_mut().reference_counts.add_referrer(unit);
        }
        let has_delta = self.write_change_note_if_lpn_has_delta(lpn)?;
        let old = self.change_map_entry(lpn, Some(self.store.map_entry_if_mapped_without_program(unit)))?;
        self.release_reference(lpn, old);
        self.sharing_state_mut().mark_mapped_without_program(lpn);
        if let Some(source) = source {
            let moved = self.change_map_entry(source, None)?;
            self.release_reference(source, moved);
        }
        if has_delta {
            // The record of the delta must not outlive the request: damage of its page would lose `lpn` after a cut.
            self.apply_deferred_content_record_changes()?;
        }
        Ok(true)
    }

    /// If `lpn` has a delta, writes a note to NVRAM that `lpn` is about to be mapped to stored content without a
    /// program. Otherwise recovery could apply the old delta to that content. The map entry has to be changed next:
    /// nothing may drop the note before. Returns whether `lpn` has a delta.
    pub(crate) fn write_change_note_if_lpn_has_delta(&mut self, lpn: Lpn) -> Result<bool> {
        if !self.delta.as_ref().is_some_and(|stage| stage.has_delta(lpn)) {
            return Ok(false);
        }
        // Notes would be dropped if the change had to fetch the map entry, or had no room to note a chunk.
        self.mapping.lookup(&mut self.store, lpn)?;
        if !self.store.has_room_for_change_notes(2) {
            self.apply_deferred_content_record_changes()?;
        }
        self.store.write_change_note_of_lpn_with_delta(lpn)?;
        Ok(true)
    }

    /// Records the trim of the logical pages `first` to `last` durably, with one tombstone (reverse-map entry without a
    /// physical page) for all of them. Returns `false` if the reverse map has no room for the tombstone. Records
    /// nothing if RAM survives a power loss, or if no page of the range is mapped.
    pub(crate) fn record_tombstone(&mut self, first: Lpn, last: Lpn) -> Result<bool> {
        let Self { sharing, mapping, store, persistence, .. } = self;
        let (Some(sharing), true) = (sharing, persistence.replays_reverse_map_entries()) else {
            return Ok(true);
        };
        if (first.0..=last.0).all(|lpn| mapping.lookup_in_ram(Lpn(lpn)).is_none()) {
            return Ok(true);
        }
        if !sharing.make_room_for_entry(mapping, store)? {
            store.stats.writes_due_to_full_reverse_map += 1;
            return Ok(false);
        }
        let sequence = store.take_next_sequence_number();
        let source = (last != first).then_some(last);
        sharing.record_entry(
            mapping,
            store,
            ReverseMapEntry {
                lpn: first,
                mapped_ppn: None,
                relocation_source_or_range_end: source,
                sequence_number: sequence,
            },
        )?;
        Ok(true)
    }

    /// Removes the reference of `lpn` to `unit`, the physical page or member of a compressed chunk to which `lpn` was
    /// mapped. Returns `true` if other logical pages still refer to `unit`; otherwise removes `unit` from the content
    /// index.
    #[inline]
    pub(crate) fn remove_reference_and_check_shared(&mut self, lpn: Lpn, unit: StoredUnit) -> bool {
        let fingerprint = self.fingerprint_of_unit(unit);
        let Self { sharing, store, compression, .. } = self;
        let Some(sharing) = sharing else { return false };
        let was_bound = sharing.unmark_mapped_without_program(store, lpn, unit);
        if sharing.reference_counts.remove_referrer_and_check_others_remain(unit) {
            if !was_bound {
                store.put_content_record_later(ContentRecord::UnitWithWriterMappedElsewhere { unit });
            }
            return true;
        }
        if was_bound {
            store.remove_content_record_later(ContentRecordKey::UnitWithWriterMappedElsewhere(unit));
        }
        if let Some(index) = &mut sharing.content_index {
            index.remove(fingerprint, unit, |unit| stored_fingerprint(store, compression.as_deref(), unit));
        }
        false
    }

    /// Returns whether a unit (page or member of a compressed chunk) is known to be unreadable, so that no further
    /// logical page may be mapped to it.
    pub(crate) fn is_unit_unreadable(&self, unit: StoredUnit) -> bool {
        match &self.compression {
            Some(stage) if !is_flash_page(unit, self.store.geometry().pages()) => {
                stage.chunk_pages_of_member(unit).iter().any(|&ppn| self.store.is_unreadable(ppn))
            }
            _ => self.store.is_unreadable(Ppn(unit.0)),
        }
    }

    /// Returns whether a stored unit (page or member of a compressed chunk) holds exactly `content`. If `content` is a
    /// descriptor, the bytes are not compared. Returns `false` if the unit cannot be read. Costs one flash read.
    pub(crate) fn read_and_compare_content(
        &mut self,
        unit: StoredUnit,
        content: &Content<'_>,
    ) -> Result<bool> {
        let mut stored = self.zero_filled_page();
        let read = self.read_unit(unit, &mut stored, Cause::ContentMechanism);
        let equal = match content {
            Content::Bytes(bytes) => stored.is_empty() || *bytes == stored.as_slice(),
            Content::Descriptor(_) => true,
        };
        match read {
            Err(error) if error.is_media_error() => Ok(false),
            read => read.map(|()| equal),
        }
    }
}
