//! Counters and other measured numbers of a design's parts (map, page-validity store, content mechanisms), by name, such
//! as hits of the map cache: the field `parts` of a run record. Numbers that are zero are left out.

use std::collections::BTreeMap;

use wearwell::Ftl;
use wearwell::content::compress::CompressionStatistics;
use wearwell::content::delta::DeltaStatistics;
use wearwell::content::recycle::Recycler;
use wearwell::mapping::{AnyMapping, DemandPagedMap, JournalCounts};
use wearwell::validity::{AnyValidityStore, Gecko, ValidityLog};

/// A figure of a design's part for the run record: its name and value.
type PartFigure = (&'static str, f64);

/// Returns all figures of a device's parts (such as map cache hits or merges) that are not zero, by name.
pub(super) fn figures_of_parts(ftl: &Ftl) -> BTreeMap<String, f64> {
    let cached = ftl.mapping().as_demand_paged();
    let journal = match ftl.mapping() {
        AnyMapping::Journalled(map) => Some(map.counts()),
        AnyMapping::Cached(_) | AnyMapping::Flat(_) => None,
    };
    let figures = ftl_core_figures(ftl)
        .into_iter()
        .chain(ftl.recycler().into_iter().flat_map(recycling_figures))
        .chain(cached.into_iter().flat_map(cached_map_figures))
        .chain(journal.into_iter().flat_map(journal_figures))
        .chain(validity_figures(ftl.validity()))
        .chain(ftl.delta_statistics().into_iter().flat_map(delta_figures))
        .chain(ftl.compression_statistics().into_iter().flat_map(chunk_figures));
    figures.filter(|&(_, value)| value != 0.0).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns the figures of the FTL itself, which belong to no exchangeable part of a design.
fn ftl_core_figures(ftl: &Ftl) -> [PartFigure; 17] {
    let stats = ftl.stats();
    [
        ("demoted_saturated", stats.writes_due_to_max_referrers as f64),
        ("demoted_full", stats.writes_due_to_full_reverse_map as f64),
        ("demotions_by_full_tables", stats.pages_stored_plainly_due_to_full_content_tables as f64),
        ("trims_written_as_zeros", stats.trimmed_pages_written_as_zeros as f64),
        ("refused_commands", stats.refused_remap_commands as f64),
        ("bound_pages_by_remap", stats.remapped_pages as f64),
        ("collections", stats.gc_victims as f64),
        ("collections_of_deltas", stats.gc_victims_with_deltas as f64),
        ("collections_of_metadata", stats.gc_victims_with_metadata as f64),
        ("translation_copies", stats.gc_translation_copies as f64),
        ("validity_copies", stats.gc_validity_copies as f64),
        ("metadata_blocks", f64::from(ftl.store().blocks().metadata_blocks())),
        ("referrer_scan_bytes", stats.referrer_scan_bytes as f64),
        ("largest_group_bytes", stats.largest_referrer_scan_bytes as f64),
        ("nvram_bytes", 8.0 * ftl.store().nvram().len() as f64),
        ("nvram_written_bytes", stats.controller_work.nvram_written_bytes as f64),
        ("nvram_read_bytes", stats.controller_work.nvram_read_bytes as f64),
    ]
}

/// Returns the figures of recycling (revival of dead pages).
fn recycling_figures(recycle: &Recycler) -> [PartFigure; 6] {
    let counts = recycle.statistics();
    [
        ("store_entries", recycle.fingerprint_store_len() as f64),
        ("store_hits", counts.hits as f64),
        ("store_misses", counts.misses as f64),
        ("mean_comparisons_on_hit", counts.mean_comparisons_on_hit().unwrap_or(0.0)),
        ("aged_hits", counts.hits_on_expired_pages as f64),
        ("expired_entries", counts.expired_entries as f64),
    ]
}

/// Returns the figures of a map on flash that is cached in RAM, such as cache hits.
fn cached_map_figures(cached: &DemandPagedMap) -> [PartFigure; 9] {
    let counts = cached.counts();
    [
        ("cache_hits", counts.hits as f64),
        ("cache_misses", counts.misses as f64),
        ("synchronisations", counts.synchronisations as f64),
        ("dirty_inserts", counts.entries_made_dirty as f64),
        ("checkpoint_synchronisations", counts.checkpoint_synchronisations as f64),
        ("aborted_synchronisations", counts.omitted_synchronisations as f64),
        ("uncertain_spare_reads", counts.spare_reads_for_uncertain_entries as f64),
        ("cache_entries", f64::from(cached.options().cache_entries)),
        ("translation_pages", cached.translation_pages() as f64),
    ]
}

/// Returns the figures of the map's journal (flash pages with updates of the map).
fn journal_figures(counts: JournalCounts) -> [PartFigure; 4] {
    [
        ("journal_records", counts.recorded_changes as f64),
        ("journal_pages", counts.written_pages as f64),
        ("journal_merges", counts.completed_merges as f64),
        ("journal_merged_pages", counts.translation_pages_written_by_merges as f64),
    ]
}

/// Returns the figures of the page-validity store (which pages of a block are valid).
fn validity_figures(validity: &AnyValidityStore) -> Vec<PartFigure> {
    match validity {
        AnyValidityStore::Ram(_) => Vec::new(),
        AnyValidityStore::Bitmap(bitmap) => vec![("bitmap_pages", f64::from(bitmap.bitmap_page_count()))],
        AnyValidityStore::Log(log) => validity_log_figures(log).into(),
        AnyValidityStore::Gecko(gecko) => gecko_figures(gecko).into(),
    }
}

/// Returns the figures of page validity that is stored as a log on flash.
fn validity_log_figures(log: &ValidityLog) -> [PartFigure; 4] {
    [
        ("log_pages", f64::from(log.log_page_count())),
        ("log_page_entries", f64::from(log.entries_per_log_page())),
        ("log_reports", log.counts().invalid_page_reports as f64),
        ("log_reinserted", log.counts().reinserted_entries as f64),
    ]
}

/// Returns the figures of page validity that is stored by Logarithmic Gecko (sorted runs on flash).
fn gecko_figures(gecko: &Gecko) -> [PartFigure; 9] {
    let counts = gecko.counts();
    [
        ("gecko_reports", counts.invalid_page_reports as f64),
        ("gecko_markers", counts.erase_markers as f64),
        ("gecko_queries", counts.queries as f64),
        ("gecko_query_reads", counts.query_reads as f64),
        ("gecko_levels", f64::from(gecko.max_levels())),
        ("gecko_buffer_entries", f64::from(gecko.validity_reports_per_flush())),
        ("gecko_runs", gecko.level_entries_and_pages_of_each_run().count() as f64),
        (
            "gecko_pages",
            gecko.level_entries_and_pages_of_each_run().map(|(_, _, pages)| f64::from(pages)).sum(),
        ),
        ("gecko_largest_run_pages", f64::from(gecko.max_run_pages())),
    ]
}

/// Returns the figures of delta encoding (pages stored as differences).
fn delta_figures(counts: DeltaStatistics) -> [PartFigure; 9] {
    [
        ("delta_pages_committed", counts.committed_delta_pages as f64),
        ("deltas_committed", counts.committed_deltas as f64),
        ("delta_pages_compacted", counts.compacted_delta_pages as f64),
        ("merges_read_hot", counts.merges_of_read_hot_pages as f64),
        ("merges_write_cold", counts.merges_of_write_cold_pages as f64),
        ("merges_gc", counts.gc_merges as f64),
        ("deltas_bypassed", counts.hot_writes_bypassing_deltas as f64),
        ("deltas_incompressible", counts.hot_writes_without_usable_delta as f64),
        ("double_reads", counts.base_and_delta_reads as f64),
    ]
}

/// Returns the figures of compression (pages stored in compressed chunks).
fn chunk_figures(counts: CompressionStatistics) -> [PartFigure; 6] {
    [
        ("chunks", counts.host_written_chunks as f64),
        ("chunk_members", counts.host_written_chunk_members as f64),
        ("chunk_pages", counts.host_written_chunk_pages as f64),
        ("chunk_incompressible_pages", counts.written_uncompressed_pages as f64),
        ("chunks_repacked", counts.repacked_chunks as f64),
        ("chunks_unpacked", counts.split_chunks as f64),
    ]
}
