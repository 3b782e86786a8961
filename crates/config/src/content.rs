//! Configuration sections of the content designs (recycling, remap and deduplication, deltas); an absent value follows
//! the papers, scaled to the size of the device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wearwell::content::dedup::DedupOptions;
use wearwell::content::recycle::{DeadPageHistoryScope, RecycleOptions};
use wearwell::design::{self, DeltaOptions, Parts, SharingOptions, delta_with_journal};
use wearwell::gc::GcOptions;
use wearwell::mapping::{DemandPagedMapOptions, JournalOptions};
use wearwell::nand::{FlashTiming, Geometry};
use wearwell::sharing::counts::ReferenceCountForm;
use wearwell::sharing::reverse_map::{
    DEFAULT_SEGMENT_BYTES, MAX_SEGMENTS, REVERSE_MAP_ENTRY_BYTES, ReverseMapKind,
};

use super::{Config, ResolvedDevice};

/// Default size of the reverse map's NVRAM as a share of the flash: 80 MiB for 36 GiB, as in Remap-SSD's standard
/// configuration.
const REVERSE_MAP_SHARE_OF_FLASH: f64 = 80.0 / (36.0 * 1024.0);

/// Least number of NVRAM segments of the reverse map if no size is configured; by the share of the flash alone, a tiny
/// device would have too few.
const MIN_REVERSE_MAP_SEGMENTS: u64 = 16;
/// Least number of flash pages of a reverse map that is a log on flash, if no size is configured.
const MIN_REVERSE_MAP_LOG_PAGES: u64 = 4;

/// Kinds of reverse maps (which logical pages share a flash page), named after the variants in the Remap-SSD paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReverseMapName {
    /// A reverse map in NVRAM segments, each of which belongs to one superblock: the design that the Remap-SSD paper
    /// proposes.
    #[default]
    Segments,
    /// A reverse map that is one log in NVRAM: the Remap-SSD paper's `NLog`.
    NvramLog,
    /// A reverse map that is one log on flash: the Remap-SSD paper's `FLog`.
    FlashLog,
    /// A reverse map with unlimited entries at no cost: the Remap-SSD paper's `Opt`.
    Ideal,
    /// No reverse map, so that every remap becomes a write: the Remap-SSD paper's `NoRemap`.
    None,
}

/// Options of the remap design (Remap-SSD), in which several logical pages may share a flash page.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches; any combination means something")]
pub struct RemapConfig {
    /// Reverse map: how the logical pages that share a flash page are recorded.
    pub reverse_map: ReverseMapName,
    /// Size of the reverse map in NVRAM, or of its log on flash, MiB. Absent: the Remap-SSD paper's ratio of 80 MiB to
    /// 36 GiB of flash.
    pub size_mib: Option<f64>,
    /// Size of an NVRAM segment of the reverse map, bytes.
    pub segment_bytes: u32,
    /// Deduplicate host writes too, and not only execute the host's remap commands.
    pub dedup: bool,
    /// Entries of the content index (fingerprint to stored page) that deduplication searches; absent = determined by
    /// `index_share`.
    pub index_entries: Option<u32>,
    /// Number of entries of the content index (fingerprint to stored page), as a share of the exported pages, greater
    /// than 0 and at most 1; the index has at least 131,072 entries. Absent: an entry for every stored page; on the
    /// design wearwell, 1/64 of the exported pages.
    pub index_share: Option<f64>,
    /// Read the stored page and compare its bytes before a host write is deduplicated, that is, mapped to the stored
    /// page.
    pub verify_on_hit: bool,
    /// Keep reference counts only for flash pages that several logical pages share, instead of a 4-bit reference count
    /// for every flash page.
    pub sparse_counts: bool,
    /// A remap command of several pages takes effect entirely or not at all; reverse-map entries take 24 bytes instead
    /// of 16.
    pub atomic_commands: bool,
}

impl Default for RemapConfig {
    fn default() -> Self {
        Self {
            reverse_map: ReverseMapName::default(),
            size_mib: None,
            segment_bytes: DEFAULT_SEGMENT_BYTES,
            dedup: true,
            index_entries: None,
            index_share: None,
            verify_on_hit: false,
            sparse_counts: false,
            atomic_commands: false,
        }
    }
}

/// Limit of the controller RAM for tables that grow with the stored contents.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ContentTablesConfig {
    /// Limit of the controller RAM for the tables of content mechanisms (referrers of shared pages, deltas, directory
    /// of chunks), bytes per flash page. While the tables are full, pages are stored whole. Absent: 1/8 on the design
    /// `wearwell`, no limit on other designs.
    pub content_bytes_per_page: Option<f64>,
    /// Minimum of the limit that `content_bytes_per_page` sets, MiB: a smaller limit is raised to it. Absent: 16.
    pub content_least_mib: Option<f64>,
}

/// Bytes of controller RAM per flash page for the tables of content mechanisms on the design wearwell: on a drive of
/// 512 GiB, 16 MiB.
const WEARWELL_CONTENT_TABLE_BYTES_PER_PAGE: f64 = 0.125;

/// Minimum of the RAM limit for the tables of content mechanisms if none is configured, MiB.
const MIN_CONTENT_TABLE_LIMIT_MIB: f64 = 16.0;

impl Config {
    /// Returns the bytes of controller RAM per flash page to which a design limits the tables of its content mechanisms
    /// by default (`tables.content_bytes_per_page`); `None` if the design has no limit of its own.
    pub(super) fn content_table_bytes_per_page(design: &str) -> Option<f64> {
        (design == "wearwell").then_some(WEARWELL_CONTENT_TABLE_BYTES_PER_PAGE)
    }

    /// Returns the limit of the controller RAM for the tables of content mechanisms, bytes; `None` if there is no
    /// limit.
    pub(super) fn content_table_limit_bytes(&self, design: &str, resolved: &ResolvedDevice) -> Option<u64> {
        let own = Self::content_table_bytes_per_page(design);
        let bytes_per_page = self.tables.content_bytes_per_page.or(own)?;
        let least_mib = self.tables.content_least_mib.unwrap_or(MIN_CONTENT_TABLE_LIMIT_MIB);
        Some((resolved.geometry.pages() as f64 * bytes_per_page).max(least_mib * 1024.0 * 1024.0) as u64)
    }
}

/// Least number of entries of a content index (fingerprint to stored page) that is sized by the drive: as many as the
/// Recyclable SSD's fingerprint store has.
const MIN_CONTENT_INDEX_ENTRIES: u32 = 1 << 17;

impl RemapConfig {
    /// Returns how many reverse-map entries the NVRAM or log of the configured size holds, without segment headers. For
    /// a kind of reverse map that has no limit, the number is what the size would hold.
    pub fn reverse_map_capacity_entries(&self, geometry: &Geometry) -> u64 {
        let flash_bytes = geometry.pages() as f64 * geometry.page_bytes as f64;
        let bytes =
            self.size_mib.map_or(flash_bytes * REVERSE_MAP_SHARE_OF_FLASH, |mib| mib * 1024.0 * 1024.0);
        bytes as u64 / REVERSE_MAP_ENTRY_BYTES
    }

    /// Returns the options of page sharing (reverse map, reference counts, deduplication) on a device of this layout
    /// that exports `logical_pages` pages.
    pub fn page_sharing_options(&self, geometry: &Geometry, logical_pages: u32) -> SharingOptions {
        SharingOptions {
            reverse_map: self.reverse_map_part(self.reverse_map, geometry),
            reference_count_form: if self.sparse_counts {
                ReferenceCountForm::Sparse
            } else {
                ReferenceCountForm::Dense
            },
            dedup: self.dedup.then(|| self.dedup_options(logical_pages)),
            has_atomic_remap_commands: self.atomic_commands,
        }
    }

    /// Returns the reverse map called `name`, with the configured size.
    pub(super) fn reverse_map_part(&self, name: ReverseMapName, geometry: &Geometry) -> ReverseMapKind {
        let flash_bytes = geometry.pages() as f64 * geometry.page_bytes as f64;
        let segment_bytes = self.segment_bytes.max(1) as u64;
        let scaled = (flash_bytes * REVERSE_MAP_SHARE_OF_FLASH) as u64;
        let wanted = self.size_mib.map(|mib| (mib * 1024.0 * 1024.0) as u64);
        let of_segments = |segments: u64| segments.saturating_mul(segment_bytes);
        let of_ratio = scaled.clamp(of_segments(MIN_REVERSE_MAP_SEGMENTS), of_segments(MAX_SEGMENTS));
        let nvram_bytes = wanted.unwrap_or(of_ratio) / segment_bytes * segment_bytes;
        let page_bytes = geometry.page_bytes as u64;
        let log_pages =
            (wanted.unwrap_or(scaled.max(MIN_REVERSE_MAP_LOG_PAGES * page_bytes)) / page_bytes) as u32;
        match name {
            ReverseMapName::Segments => {
                ReverseMapKind::Segments { nvram_bytes, segment_bytes: self.segment_bytes }
            }
            ReverseMapName::NvramLog => ReverseMapKind::NvramLog { nvram_bytes },
            ReverseMapName::FlashLog => ReverseMapKind::FlashLog { log_pages },
            ReverseMapName::Ideal => ReverseMapKind::Ideal,
            ReverseMapName::None => ReverseMapKind::OobOnly,
        }
    }

    /// Returns the options of deduplication: the size of its content index, and whether hits are verified.
    pub(super) fn dedup_options(&self, logical_pages: u32) -> DedupOptions {
        let by_share = self.index_share.map(|share| (f64::from(logical_pages) * share) as u32);
        let limited = by_share.map(|entries| entries.max(MIN_CONTENT_INDEX_ENTRIES));
        let capacity_entries = self.index_entries.or(limited.filter(|&entries| entries < logical_pages));
        DedupOptions { capacity_entries, must_verify_hits: self.verify_on_hit }
    }
}

/// Options of the delta design (Delta-FTL), which stores overwrites as differences.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DeltaConfig {
    /// Entries of the table of access counts by which delta encoding finds hot pages. Absent: with a map in RAM, 1/16
    /// of the logical pages, but at least 65,536 or one for each of them; on the design `delta` with a map on flash,
    /// `cache_entries`; on other designs with a map on flash, 1/16 of the logical pages, but at most 131,072 or 1/128
    /// of the logical pages, whichever is larger.
    pub heat_entries: Option<u32>,
    /// Number of reads from which a logical page counts as read-hot, and number of writes from which it counts as
    /// write-hot.
    pub hot_accesses: u8,
    /// Pages of deltas that are filled at the same time in RAM before they are programmed (the paper's temp buffer).
    pub open_pages: u32,
    /// Largest share of a page that a delta may take. If a delta would be larger, the page is written whole, because
    /// the delta is not worth its time. Absent: 1 - max(tR, transfer, encode) / tPROG.
    pub max_ratio: Option<f64>,
    /// Host writes between two scans for deltas of pages that are no longer written often (such deltas are merged into
    /// their pages); 0 = no scans.
    pub scan_interval_writes: u32,
    /// Least number of deltas that one scan examines. The scan looks for deltas of pages that are no longer written
    /// often. It examines all deltas of each flash page that it visits.
    pub scan_entries: u32,
    /// Share of the spare (over-provisioned) space that pages of deltas may use.
    pub area_share: f64,
    /// Entries of the cached mapping table in RAM; the design's mapping tables are then on flash. Absent: all tables
    /// are in capacitor-backed RAM.
    pub cache_entries: Option<u32>,
    /// Pages of a journal of L2P map updates on flash. When the journal has that many pages, it is merged into the L2P
    /// table. Absent: no journal.
    pub journal_pages: Option<u32>,
}

impl Default for DeltaConfig {
    fn default() -> Self {
        let design = DeltaOptions::default();
        Self {
            heat_entries: design.access_count_table_entries,
            hot_accesses: design.hot_access_threshold,
            open_pages: design.temp_buffer_pages,
            max_ratio: None,
            scan_interval_writes: design.cold_scan_interval_writes,
            scan_entries: design.deltas_per_cold_scan,
            area_share: design.max_delta_share_of_spare_pages,
            cache_entries: None,
            journal_pages: None,
        }
    }
}

impl DeltaConfig {
    /// Returns the options of the delta design for flash with these times, if encoding a delta takes `encode_ns`.
    pub fn delta_options(&self, flash: &FlashTiming, page_bytes: u32, encode_ns: f64) -> DeltaOptions {
        let transfer_ns = page_bytes as f64 * flash.transfer_ps_per_byte as f64 / 1000.0;
        let slowest_ns = encode_ns.max(transfer_ns).max(flash.read_ns as f64);
        let worth_it = (1.0 - slowest_ns / flash.program_ns.max(1) as f64).clamp(0.0, 1.0);
        DeltaOptions {
            access_count_table_entries: self.heat_entries,
            hot_access_threshold: self.hot_accesses,
            temp_buffer_pages: self.open_pages,
            max_mean_delta_share_of_page: self.max_ratio.unwrap_or(worth_it),
            cold_scan_interval_writes: self.scan_interval_writes,
            deltas_per_cold_scan: self.scan_entries,
            max_delta_share_of_spare_pages: self.area_share,
        }
    }

    /// Returns the parts of the delta design, with its map in RAM, on flash, or on flash with a journal. The journal
    /// needs `cache_entries`.
    pub fn delta_parts(&self, gc: GcOptions, delta: DeltaOptions) -> Parts {
        let cache = self.cache_entries.map(DemandPagedMapOptions::with_cache_capacity);
        match (cache, self.journal_pages) {
            (Some(cache), Some(pages)) => {
                delta_with_journal(gc, delta, cache, JournalOptions { merge_start_pages: pages })
            }
            _ => design::delta(gc, delta, cache),
        }
    }
}

/// Options of the recyclable design, which revives dead pages whose content is written again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RecycleConfig {
    /// Which dead (invalid) pages the fingerprint store keeps, so that a write of equal content can revive them.
    pub policy: RecyclePolicy,
    /// Entries of the fingerprint store, the table with the contents of dead pages. Absent: 131072, or 1.25 % of the
    /// device's pages if that is less (the paper's ratio).
    pub entries: Option<u32>,
    /// Which dead pages have a history (owner, older and newer versions) in RAM. Absent: `store` for the design
    /// wearwell, `all` for others.
    pub history: Option<DeadPageHistoryName>,
    /// Window of fast loading, in logical pages on each side: after a hit in the fingerprint store, the dead pages of
    /// so many neighbours of the logical page are loaded into the store too.
    pub window: u32,
    /// Relative growth of a page's popularity per read (alpha in the recyclable-SSD paper), 0.10 to 0.15.
    pub alpha: f64,
    /// Relative decrease of a dead page's recycle probability per newer version of its logical page (beta in the
    /// recyclable-SSD paper), 0.15 to 0.20.
    pub beta: f64,
    /// Read the dead page and compare its bytes before a write of equal content revives it.
    pub verify_on_hit: bool,
    /// Compute the rank of every hit in the fingerprint store (the comparisons of a linear search), for the run record.
    pub count_comparisons: bool,
    /// Maximum age at which a dead page is revived, in flash programs since its block was opened. Absent: pages do not
    /// age.
    pub refresh_age_programs: Option<u64>,
}

impl Default for RecycleConfig {
    fn default() -> Self {
        let options = RecycleOptions::default();
        Self {
            policy: RecyclePolicy::Prob,
            entries: None,
            history: None,
            window: 1,
            alpha: options.popularity_growth_alpha,
            beta: options.probability_decay_beta,
            verify_on_hit: false,
            count_comparisons: true,
            refresh_age_programs: None,
        }
    }
}

/// Names of the policies of the fingerprint store (which dead pages it keeps for revival), as in the recyclable-SSD
/// paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecyclePolicy {
    /// Keeps the most recently used dead pages, in an LRU queue.
    Lru,
    /// Probability-based: keeps the dead pages with the highest recycle probability (estimated from reads and newer
    /// versions).
    Prob,
    /// Probability-based with fast loading: keeps the dead pages with the highest recycle probability; a hit also loads
    /// dead pages of its logical neighbours.
    ProbFl,
    /// Infinite: keeps every dead page, in an unbounded fingerprint store.
    Inf,
}

/// Scopes of the history that recycling keeps in RAM: which dead pages it covers, and which pages have read counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeadPageHistoryName {
    /// History of all dead pages, and read counts of all pages, as in the paper: 12.5 bytes of RAM per physical page
    /// and 4 per logical page.
    All,
    /// History only of dead pages in the fingerprint store, and read counts only of the pages read last: 25 bytes of
    /// RAM per entry of the store.
    Store,
}

impl DeadPageHistoryName {
    /// Returns the scope of the history of dead pages, in the engine's form, that this name selects.
    pub(crate) fn dead_page_history_scope(self) -> DeadPageHistoryScope {
        match self {
            Self::All => DeadPageHistoryScope::AllPages,
            Self::Store => DeadPageHistoryScope::FingerprintStore,
        }
    }
}

/// Content of host writes if the trace or workload brings no content, or no sizes of it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ContentConfig {
    /// Specification of a content model, such as `unique`, `dup:share=0.2,theta=0.9`, or `recorded:compress=0.4` for
    /// sizes of the contents that a trace identifies. Absent: `unique`.
    pub model: Option<String>,
}
