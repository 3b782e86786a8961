//! Reads the NVRAM records of content mechanisms such as deduplication (`store/content_records.rs`) in a recovery, and
//! corrects them after it.
//!
//! A power loss interrupts one request at most, so few records can be wrong. Each record is compared with what recovery
//! found elsewhere: dirty map entries in NVRAM, and the chunks and logical pages whose change was announced by a note
//! in NVRAM. Wrong records are corrected before the device accepts requests.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::address::{Lpn, Ppn, StoredUnit};
use crate::content::compress::stored_unit_count;
use crate::error::{Error, Result};
use crate::ftl::Ftl;
use crate::sharing::reverse_map::ReverseMap;
use crate::store::{ContentRecord, ContentRecordKey};

/// The records of content mechanisms in NVRAM, and the dirty map entries that replace some of them.
#[derive(Debug, Default)]
pub(super) struct NvramContentRecords {
    /// Map entries of logical pages that are mapped to stored content without a program. Each entry has the bind mark.
    pub(super) entries_mapped_without_program: BTreeMap<Lpn, StoredUnit>,
    /// Units (flash pages or chunk members) to which logical pages are mapped without a program, while the logical page
    /// that wrote the unit is mapped to another unit.
    pub(super) units_with_writer_mapped_elsewhere: FxHashSet<StoredUnit>,
    /// Live members of each compressed chunk, by chunk number: bit `k` is set if a logical page is mapped to member
    /// `k`.
    pub(super) live_member_mask_by_chunk: BTreeMap<u32, u8>,
    /// Flash pages of compressed chunks, each with the number of its chunk.
    pub(super) pages_with_chunk_number: Vec<(Ppn, u32)>,
    /// Numbers of the compressed chunks from which the interrupted request may have taken members.
    pub(super) chunks_with_change_note: Vec<u32>,
    /// Logical pages with a delta that the interrupted request may have mapped to a page other than the base of the
    /// delta.
    pub(super) lpns_with_change_note: FxHashSet<Lpn>,
    /// Flash page with the durable delta (compressed difference) of each logical page that has one.
    pub(super) delta_ppn_by_lpn: BTreeMap<Lpn, Ppn>,
    /// All records of content mechanisms as recovery found them in NVRAM.
    records: Vec<ContentRecord>,
}

impl NvramContentRecords {
    /// Returns the units (flash pages or chunk members) to which logical pages are mapped without a program, each with
    /// the first of these logical pages.
    pub(super) fn units_mapped_without_program(&self) -> BTreeMap<StoredUnit, Lpn> {
        let mut bound = BTreeMap::new();
        for (&lpn, entry) in &self.entries_mapped_without_program {
            bound.entry(entry.without_mapping_mark()).or_insert(lpn);
        }
        bound
    }
}

impl Ftl {
    /// Reads the records of content mechanisms from NVRAM. The map cache must hold exactly the dirty map entries: a
    /// dirty entry replaces the record of its logical page.
    ///
    /// # Errors
    /// Power loss; [`Error::Damaged`] for a record of something that the device does not have.
    pub(super) fn load_nvram_content_records(&mut self) -> Result<NvramContentRecords> {
        let records = self.store.load_content_records()?;
        let mut content = NvramContentRecords::default();
        let Some(map) = self.mapping.as_demand_paged() else { return Ok(content) };
        let flash_pages = self.store.geometry().pages();
        let max_stored_units = stored_unit_count(flash_pages, self.compression.is_some());
        for &record in &records {
            let is_possible = match record {
                ContentRecord::MapEntryWithoutProgram { lpn, entry } => {
                    let unit = u64::from(entry.without_mapping_mark().0);
                    if !map.has_dirty_entry(lpn) {
                        content.entries_mapped_without_program.insert(lpn, entry);
                    }
                    lpn.0 < self.logical_pages && unit < max_stored_units
                }
                ContentRecord::UnitWithWriterMappedElsewhere { unit } => {
                    content.units_with_writer_mapped_elsewhere.insert(unit);
                    u64::from(unit.0) < max_stored_units
                }
                ContentRecord::Chunk { number, first_page, live_members } => {
                    content.live_member_mask_by_chunk.insert(number, live_members);
                    content.pages_with_chunk_number.push((first_page, number));
                    u64::from(number.max(first_page.0)) < max_stored_units - flash_pages
                        && u64::from(number.max(first_page.0)) < flash_pages
                }
                ContentRecord::FurtherChunkPage { number, ppn, .. } => {
                    content.pages_with_chunk_number.push((ppn, number));
                    u64::from(number.max(ppn.0)) < max_stored_units - flash_pages
                        && u64::from(number.max(ppn.0)) < flash_pages
                }
                ContentRecord::Delta { lpn, ppn } => {
                    content.delta_ppn_by_lpn.insert(lpn, ppn);
                    lpn.0 < self.logical_pages && u64::from(ppn.0) < flash_pages
                }
            };
            if !is_possible {
                return Err(Error::Damaged(format!(
                    "a record of shared or compressed pages in NVRAM must name pages of the device, but the record \
                     {record:?} names one that the device does not have"
                )));
            }
        }
        content.entries_mapped_without_program.extend(map.dirty_entries_mapped_without_program());
        content.chunks_with_change_note = self.store.chunks_with_change_note();
        content.lpns_with_change_note = self.store.lpns_with_change_note().collect();
        content.records = records;
        Ok(content)
    }

    /// Corrects the records of content mechanisms in NVRAM: removes those of `content` that the recovered state
    /// contradicts, and adds those that the interrupted request did not store.
    pub(super) fn repair_content_records(&mut self, content: &NvramContentRecords) -> Result<()> {
        let recorded: FxHashSet<ContentRecord> = content.records.iter().copied().collect();
        let mut right = self.records_except_map_entries();
        let is_needed = |record: &ContentRecord| match *record {
            ContentRecord::MapEntryWithoutProgram { lpn, .. } => {
                content.entries_mapped_without_program.contains_key(&lpn)
            }
            ContentRecord::UnitWithWriterMappedElsewhere { .. }
            | ContentRecord::Chunk { .. }
            | ContentRecord::FurtherChunkPage { .. }
            | ContentRecord::Delta { .. } => right.contains_key(&record.key()),
        };
        let unneeded = content.records.iter().filter(|record| !is_needed(record));
        unneeded.for_each(|record| self.store.remove_content_record_later(record.key()));
        right.retain(|_, record| !recorded.contains(record));
        let mut missing: Vec<ContentRecord> = right.into_values().collect();
        missing.sort_unstable();
        for record in missing {
            self.store.put_content_record_later(record);
        }
        self.store.apply_waiting_content_record_changes()
    }

    /// Returns, by key, the records that NVRAM must hold for the present state in RAM: units whose writer is mapped
    /// elsewhere, chunks, and deltas on flash. Records of map entries are left out.
    fn records_except_map_entries(&self) -> FxHashMap<ContentRecordKey, ContentRecord> {
        let without_writer = self.units_with_writer_mapped_elsewhere().into_iter();
        let chunks = self.compression.iter().flat_map(|stage| stage.chunk_page_records());
        let deltas = self.delta.iter().flat_map(|stage| stage.current_deltas_on_flash());
        let records = without_writer
            .map(|unit| ContentRecord::UnitWithWriterMappedElsewhere { unit })
            .chain(chunks)
            .chain(deltas.map(|(lpn, ppn)| ContentRecord::Delta { lpn, ppn }));
        records.map(|record| (record.key(), record)).collect()
    }

    /// Returns the units (flash pages or chunk members) to which logical pages are mapped without a program, and whose
    /// writer (the logical page for which the unit was programmed) is mapped to another unit.
    fn units_with_writer_mapped_elsewhere(&self) -> FxHashSet<StoredUnit> {
        let Some(sharing) = &self.sharing else { return FxHashSet::default() };
        let mut lpn_count_by_unit = FxHashMap::<StoredUnit, u32>::default();
        for unit in sharing.reverse_map.all_entries(&self.store).iter().filter_map(|entry| entry.mapped_ppn) {
            *lpn_count_by_unit.entry(unit.into()).or_default() += 1;
        }
        let counts = &sharing.reference_counts;
        lpn_count_by_unit.retain(|&unit, &mut bound| bound > counts.referrers_beyond_first(unit));
        lpn_count_by_unit.into_keys().collect()
    }

    /// Compares the records of content mechanisms in NVRAM with the state that they describe, for the audit.
    /// `entries_mapped_without_program` are the entries on flash of logical pages that are mapped without a program.
    /// Logical pages with dirty entries are left out.
    ///
    /// # Errors
    /// A sentence that names the record that is missing or wrong.
    pub(crate) fn check_content_records(
        &self,
        entries_mapped_without_program: &BTreeMap<Lpn, StoredUnit>,
    ) -> std::result::Result<(), String> {
        let (Some(map), true) = (self.mapping.as_demand_paged(), self.store.keeps_nvram_validity_notes())
        else {
            return Ok(());
        };
        let records = self.store.check_content_records()?;
        let mut expected = self.records_except_map_entries();
        let bound = entries_mapped_without_program
            .iter()
            .map(|(&lpn, &entry)| ContentRecord::MapEntryWithoutProgram { lpn, entry });
        expected.extend(bound.map(|record| (record.key(), record)));
        let dirty: FxHashMap<Lpn, StoredUnit> =
            map.dirty_entries_mapped_without_program().into_iter().collect();
        let has_delta = |lpn: &Lpn| self.delta.as_ref().is_some_and(|stage| stage.has_delta(*lpn));
        for (key, record) in &records {
            match (key, expected.remove(key)) {
                (_, Some(right)) if right == *record => {}
                (ContentRecordKey::MapEntryWithoutProgramOf(lpn), None) if dirty.contains_key(lpn) => {}
                // A newer delta of the logical page is in RAM.
                (ContentRecordKey::DeltaOf(lpn), None) if has_delta(lpn) => {}
                (_, right) => {
                    return Err(format!(
                        "NVRAM has the record {record:?} of a shared or compressed page, but by the device's tables \
                         it must be {right:?}"
                    ));
                }
            }
        }
        match expected.into_values().next() {
            None => Ok(()),
            Some(missing) => Err(format!(
                "NVRAM must have the record {missing:?} of a shared or compressed page, but lacks it"
            )),
        }
    }
}
