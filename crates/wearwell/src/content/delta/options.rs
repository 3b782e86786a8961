//! Options of delta encoding, and what it counts.
//!
//! The paper leaves most of its limits to experiments, so each of them is an option here. The size of the table of
//! access counts depends on more than an option, because the paper has the counts in the cache of its map. So it is
//! computed once, from the options and the map of the design.

use super::heat::{ACCESS_COUNT_AND_MAP_ENTRY_BYTES, ACCESS_COUNT_ENTRY_BYTES, AccessCountTableSize};
use crate::design::MappingPart;

/// Options of delta encoding (storing an overwrite as its difference to the stored version). The defaults follow the
/// Delta-FTL paper where it gives values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeltaOptions {
    /// Number of entries of the table of access counts, by which hot pages are found. With a mapping cache, `None`
    /// means as many as the cache has: the Delta-FTL paper keeps the counts in the entries of its cache (section
    /// 3.5.2). With a map in RAM, `None` means one entry per 16 logical pages, but at least 65,536 or one per logical
    /// page.
    pub access_count_table_entries: Option<u32>,
    /// Minimum number of host reads or host writes at which a logical page counts as read-hot or write-hot.
    pub hot_access_threshold: u8,
    /// Number of pages of the RAM buffer that are filled with deltas at the same time.
    pub temp_buffer_pages: u32,
    /// Largest share of a flash page, 0 to 1, that a delta may take on average (packing loss included); if deltas take
    /// more, writes bypass delta encoding. The Delta-FTL paper (section 3.3) gives `1 - max(tR, transfer, encode) /
    /// tPROG`. 1 means that writes never bypass delta encoding for this reason.
    pub max_mean_delta_share_of_page: f64,
    /// Number of host writes between two scans for logical pages in delta form that became write-cold; 0 means no
    /// scans.
    pub cold_scan_interval_writes: u32,
    /// Least number of deltas that one scan for write-cold logical pages examines, if there are so many. It examines
    /// all deltas of each flash page that it visits.
    pub deltas_per_cold_scan: u32,
    /// Largest share of the device's spare flash pages (those beyond the logical pages and the reserves), 0 to 1, that
    /// flash pages of deltas may use.
    pub max_delta_share_of_spare_pages: f64,
}

impl Default for DeltaOptions {
    fn default() -> Self {
        Self {
            access_count_table_entries: None,
            hot_access_threshold: 2,
            temp_buffer_pages: 1,
            max_mean_delta_share_of_page: 1.0,
            cold_scan_interval_writes: 1024,
            deltas_per_cold_scan: 64,
            max_delta_share_of_spare_pages: 1.0,
        }
    }
}

/// Counters of delta encoding: pages and deltas written, merges, and writes stored as full pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeltaStatistics {
    /// Number of flash pages filled with deltas that were written for the host.
    pub committed_delta_pages: u64,
    /// Number of deltas in the flash pages of deltas that were programmed because of host writes (not by GC).
    pub committed_deltas: u64,
    /// Number of flash pages into which garbage collection packed the deltas of its victims.
    pub compacted_delta_pages: u64,
    /// Number of merges (base and delta rewritten as one page) because the logical page became read-hot.
    pub merges_of_read_hot_pages: u64,
    /// Number of merges (base and delta rewritten as one page) because the logical page became write-cold.
    pub merges_of_write_cold_pages: u64,
    /// Number of merges (base and delta rewritten as one page) that took the place of a GC copy of the base.
    pub gc_merges: u64,
    /// Number of host writes of hot pages stored as full pages because deltas saved too little on average, or because
    /// flash pages of deltas or the tables in RAM had reached their limit.
    pub hot_writes_bypassing_deltas: u64,
    /// Number of host writes of hot pages stored as full pages because the delta was too large, its size was unknown,
    /// or the base (stored page) could not be read.
    pub hot_writes_without_usable_delta: u64,
    /// Number of host reads that had to read both base page and delta from flash.
    pub base_and_delta_reads: u64,
}

/// Number of logical pages per entry of the table of access counts, for designs with the map in RAM.
const LOGICAL_PAGES_PER_ACCESS_COUNT_ENTRY: u32 = 16;
/// Minimum number of entries of the table of access counts, for designs with the map in RAM, unless the drive has fewer
/// logical pages. With a sixteenth of a small drive's pages, workloads that write all pages alike have no hot page.
pub const MIN_ACCESS_COUNT_TABLE_ENTRIES: u32 = 65_536;

/// Returns the number and the size of entries of the access-count table. The number is that of the design, or else the
/// default of [`DeltaOptions::access_count_table_entries`]. If the map is in RAM, an entry has the size of an entry of
/// the paper's mapping table with access counts. If the map is on flash, its cache is a separate table, and an entry
/// has access counts only.
pub(crate) fn access_count_table_size(
    design: &DeltaOptions,
    mapping: MappingPart,
    logical_pages: u32,
) -> AccessCountTableSize {
    let (default_entries, entry_bytes) = match mapping {
        MappingPart::Cached(cache) | MappingPart::Journalled { cache, .. } => {
            (cache.cache_entries, ACCESS_COUNT_ENTRY_BYTES)
        }
        MappingPart::Flat => {
            let entries = (logical_pages / LOGICAL_PAGES_PER_ACCESS_COUNT_ENTRY)
                .max(MIN_ACCESS_COUNT_TABLE_ENTRIES)
                .min(logical_pages);
            (entries, ACCESS_COUNT_AND_MAP_ENTRY_BYTES)
        }
    };
    AccessCountTableSize {
        capacity_entries: design.access_count_table_entries.unwrap_or(default_entries),
        entry_bytes,
    }
}
