//! Reads the NVRAM records of content mechanisms such as deduplication (`store/content_records.rs`) in a recovery, and
//! corrects them after it.
//!
//! A loss of power interrupts one request at most, so few records can be wrong: each is compared with what recovery
//! found otherwise (dirty map entries in NVRAM, pages that notes name), and corrected before the device accepts
//! requests.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::address::{Lpn, Ppn, Unit};
use crate::content::compress::unit_count;
use crate::error::{Error, Result};
use crate::ftl::Ftl;
use crate::nand::Nand;
use crate::sharing::reverse_map::ReverseMap;
use crate::store::{ContentRecord, ContentRecordKey};

/// The records of content mechanisms in NVRAM, and the dirty map entries that replace some of them.
#[derive(Debug, Default)]
pub(super) struct NvramContentRecords {
    /// Map entries of bound logical pages (mapped to stored content without a program), each with its bind mark.
    pub(super) bound_entries: BTreeMap<Lpn, Unit>,
    /// Units (flash pages or chunk members) to which logical pages are bound and whose writer is mapped to another
    /// unit.
    pub(super) units_without_writer: FxHashSet<Unit>,
    /// Live members of each compressed chunk (those to which a logical page is mapped), as a bit mask, by chunk number.
    pub(super) live_members_by_chunk: BTreeMap<u32, u8>,
    /// Flash pages of compressed chunks, each with the number of its chunk.
    pub(super) chunk_pages: Vec<(Ppn, u32)>,
    /// Numbers of the compressed chunks from which the interrupted request may have taken members.
    pub(super) noted_chunks: Vec<u32>,
    /// Logical pages that the interrupted request may have bound to another page than the base of their delta.
    pub(super) noted_lpns: FxHashSet<Lpn>,
    /// Flash page with the durable delta (compressed difference) of each logical page that has one.
    pub(super) delta_ppn_by_lpn: BTreeMap<Lpn, Ppn>,
    /// All records of content mechanisms as recovery found them in NVRAM.
    records: Vec<ContentRecord>,
}

impl NvramContentRecords {
    /// Returns the units (flash pages or chunk members) to which binds (mappings without a program) have mapped logical
    /// pages, each with the first of these logical pages.
    pub(super) fn bound_units(&self) -> BTreeMap<Unit, Lpn> {
        let mut bound = BTreeMap::new();
        for (&lpn, entry) in &self.bound_entries {
            bound.entry(entry.without_bind_mark()).or_insert(lpn);
        }
        bound
    }
}

impl<N: Nand> Ftl<N> {
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
        let max_units = unit_count(flash_pages, self.compression.is_some());
        for &record in &records {
            let is_possible = match record {
                ContentRecord::BoundEntry { lpn, entry } => {
                    let unit = u64::from(entry.without_bind_mark().0);
                    if !map.has_dirty_entry(lpn) {
                        content.bound_entries.insert(lpn, entry);
                    }
                    lpn.0 < self.logical_pages && unit < max_units
                }
                ContentRecord::UnitWithoutWriter { unit } => {
                    content.units_without_writer.insert(unit);
                    u64::from(unit.0) < max_units
                }
                ContentRecord::Chunk { number, first_page, live_members } => {
                    content.live_members_by_chunk.insert(number, live_members);
                    content.chunk_pages.push((first_page, number));
                    u64::from(number.max(first_page.0)) < max_units - flash_pages
                        && u64::from(number.max(first_page.0)) < flash_pages
                }
                ContentRecord::FurtherChunkPage { number, ppn, .. } => {
                    content.chunk_pages.push((ppn, number));
                    u64::from(number.max(ppn.0)) < max_units - flash_pages
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
        content.bound_entries.extend(map.dirty_bound_entries());
        content.noted_chunks = self.store.noted_chunks();
        content.noted_lpns = self.store.noted_logical_pages().collect();
        content.records = records;
        Ok(content)
    }

    /// Corrects the records of content mechanisms in NVRAM: removes those of `content` that the recovered state
    /// contradicts, and adds those that the interrupted request did not store.
    pub(super) fn correct_content_records(&mut self, content: &NvramContentRecords) -> Result<()> {
        let recorded: FxHashSet<ContentRecord> = content.records.iter().copied().collect();
        let mut right = self.records_except_map_entries();
        let is_needed = |record: &ContentRecord| match *record {
            ContentRecord::BoundEntry { lpn, .. } => content.bound_entries.contains_key(&lpn),
            ContentRecord::UnitWithoutWriter { .. }
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

    /// Returns, by key, the records that must be in NVRAM for the present state in RAM: those of shared units without
    /// their writer, of chunks, and of deltas on flash. Records of map entries are left out.
    fn records_except_map_entries(&self) -> FxHashMap<ContentRecordKey, ContentRecord> {
        let without_writer = self.units_without_writer().into_iter();
        let chunks = self.compression.iter().flat_map(|stage| stage.chunk_page_records());
        let deltas = self.delta.iter().flat_map(|stage| stage.current_deltas_on_flash());
        let records = without_writer
            .map(|unit| ContentRecord::UnitWithoutWriter { unit })
            .chain(chunks)
            .chain(deltas.map(|(lpn, ppn)| ContentRecord::Delta { lpn, ppn }));
        records.map(|record| (record.key(), record)).collect()
    }

    /// Returns the units (flash pages or chunk members) to which logical pages are bound (mapped without a program),
    /// and whose writer is mapped to another unit.
    fn units_without_writer(&self) -> FxHashSet<Unit> {
        let Some(sharing) = &self.sharing else { return FxHashSet::default() };
        let mut bound_lpns = FxHashMap::<Unit, u32>::default();
        for unit in sharing.reverse_map.all_entries(&self.store).iter().filter_map(|entry| entry.bound_ppn) {
            *bound_lpns.entry(unit.into()).or_default() += 1;
        }
        let counts = &sharing.reference_counts;
        bound_lpns.retain(|&unit, &mut bound| bound > counts.referrers_beyond_first(unit));
        bound_lpns.into_keys().collect()
    }

    /// Compares the records of content mechanisms in NVRAM with the state that they describe, for the audit.
    /// `bound_entries` are the map entries of bound logical pages on flash, except those of logical pages with dirty
    /// entries.
    ///
    /// # Errors
    /// A sentence that names the record that is missing or wrong.
    pub(crate) fn check_content_records(
        &self,
        bound_entries: &BTreeMap<Lpn, Unit>,
    ) -> std::result::Result<(), String> {
        let (Some(map), true) = (self.mapping.as_demand_paged(), self.store.keeps_recovery_notes()) else {
            return Ok(());
        };
        let records = self.store.check_content_records()?;
        let mut expected = self.records_except_map_entries();
        let bound = bound_entries.iter().map(|(&lpn, &entry)| ContentRecord::BoundEntry { lpn, entry });
        expected.extend(bound.map(|record| (record.key(), record)));
        let dirty: FxHashMap<Lpn, Unit> = map.dirty_bound_entries().into_iter().collect();
        let has_delta = |lpn: &Lpn| self.delta.as_ref().is_some_and(|stage| stage.has_delta(*lpn));
        for (key, record) in &records {
            match (key, expected.remove(key)) {
                (_, Some(right)) if right == *record => {}
                (ContentRecordKey::BoundEntryOf(lpn), None) if dirty.contains_key(lpn) => {}
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
