//! Options of recycling, the errors of options, and what recycling shows: counters, and entries of its store.
//!
//! Designs, records and tools need only these types, not the tables of recycling. [`Recycler`](super::Recycler) accepts
//! any values; a device accepts only those for which the paper has results ([`RecycleOptions::require_paper_ranges`]).

use crate::address::Ppn;
use crate::data::Fingerprint;

/// Number of entries of the standard fingerprint store of the LX-SSD paper: 3 MiB of 24-byte entries.
pub const DEFAULT_FINGERPRINT_STORE_ENTRIES: u32 = 128 * 1024;

/// Policy by which the fingerprint store (index of dead pages) orders its entries and chooses the entry to evict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FingerprintStorePolicy {
    /// Evicts the page whose content was invalidated least recently (LRU): the paper's baseline, which ignores
    /// how probable it is that the content is written again.
    Lru,
    /// Evicts the page with the lowest recycle probability. Among pages of equal probability, evicts the older version,
    /// then the least recent entry.
    #[default]
    Probability,
    /// Evicts the page with the lowest recycle probability. After a hit, the newest dead pages of neighbouring logical
    /// pages are also inserted as the best entries of the store, because their contents are likely to be written next.
    /// The LX-SSD paper calls this fast loading.
    ProbabilityFastLoading {
        /// Range of fast loading, in logical pages to each side of the logical page whose dead page was hit.
        window: u32,
    },
}

/// Scope of the history that recycling keeps: the dead pages whose owner and neighbouring versions are recorded, and
/// the pages whose reads are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeadPageHistoryScope {
    /// History of all dead pages, and read counts of all pages: the paper's tables, 12.5 bytes of RAM per physical page
    /// and 4 per logical page.
    #[default]
    AllPages,
    /// History of the dead pages that are entries of the fingerprint store. Reads are counted only for the most
    /// recently read pages, as many as the store may have entries. 25 bytes of RAM per entry, however large the drive
    /// is.
    FingerprintStore,
}

/// Options of recycling, the reuse of dead pages ([`Recycler`](super::Recycler)). The default is the standard
/// configuration of the LX-SSD paper, without fast loading.
#[derive(Clone, PartialEq, Debug)]
pub struct RecycleOptions {
    /// Capacity of the fingerprint store, in entries. `Some(0)` means that no dead page is ever found. `None` means an
    /// entry for every dead page (the infinite store of the LX-SSD paper).
    pub capacity_entries: Option<u32>,
    /// Policy that decides which entries the fingerprint store keeps.
    pub policy: FingerprintStorePolicy,
    /// Relative growth of a page's popularity per read (alpha of the LX-SSD paper, where it is 0.10 to 0.15). A dead
    /// page with a larger popularity has a larger recycle probability.
    pub popularity_growth_alpha: f64,
    /// Relative decay of a dead page's recycle probability per newer dead version of its logical page (beta of the
    /// LX-SSD paper, where it is 0.15 to 0.20).
    pub probability_decay_beta: f64,
    /// Whether recycling computes, at every hit, the number of fingerprint comparisons that a scan of the fingerprint
    /// store would make. Costs some hundred additions per hit.
    pub counts_scan_comparisons: bool,
    /// Largest age at which a dead page may be revived, in flash programs since its block was opened. Cells lose
    /// charge, and a revived page keeps the charge of its old program. A write of the content of an older dead page is
    /// programmed instead, which refreshes the content. `None` means that age does not matter, as in the LX-SSD paper.
    pub max_revival_age_programs: Option<u64>,
    /// Which dead pages the history covers: all, or those in the fingerprint store.
    pub dead_page_history_scope: DeadPageHistoryScope,
}

impl Default for RecycleOptions {
    fn default() -> Self {
        Self {
            capacity_entries: Some(DEFAULT_FINGERPRINT_STORE_ENTRIES),
            policy: FingerprintStorePolicy::default(),
            popularity_growth_alpha: 0.10,
            probability_decay_beta: 0.15,
            counts_scan_comparisons: true,
            max_revival_age_programs: None,
            dead_page_history_scope: DeadPageHistoryScope::default(),
        }
    }
}

/// Reason why options of recycling (reuse of dead pages) are rejected as invalid.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecycleError {
    /// Option `alpha` (growth of popularity per read) is out of range.
    #[error("recycle.alpha is {0}; set it to a value from 0.10 to 0.15, the range of the LX-SSD paper")]
    PopularityGrowthAlphaOutOfRange(f64),
    /// Option `beta` (decay of probability per newer version) is out of range.
    #[error("recycle.beta is {0}; set it to a value from 0.15 to 0.20, the range of the LX-SSD paper")]
    ProbabilityDecayBetaOutOfRange(f64),
}

impl RecycleOptions {
    /// Returns the recycling options unchanged if `popularity_growth_alpha` is from 0.10 to 0.15 and
    /// `probability_decay_beta` from 0.15 to 0.20, the ranges of the LX-SSD paper.
    ///
    /// # Errors
    /// [`RecycleError`] with the option that is out of range.
    pub fn require_paper_ranges(self) -> Result<Self, RecycleError> {
        if !(0.10..=0.15).contains(&self.popularity_growth_alpha) {
            return Err(RecycleError::PopularityGrowthAlphaOutOfRange(self.popularity_growth_alpha));
        }
        if !(0.15..=0.20).contains(&self.probability_decay_beta) {
            return Err(RecycleError::ProbabilityDecayBetaOutOfRange(self.probability_decay_beta));
        }
        Ok(self)
    }
}

/// Counters of recycling (reuse of dead pages): look-ups, comparisons, and changes of the fingerprint store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecycleStatistics {
    /// Number of look-ups of a written content in the fingerprint store that found a dead page.
    pub hits: u64,
    /// Number of look-ups of a written content in the fingerprint store that found no dead page.
    pub misses: u64,
    /// Number of comparisons at all hits if the fingerprint store were scanned from its best entry: the sum of the
    /// ranks of the entries found, the best rank being 1.
    pub linear_scan_comparisons_on_hits: u64,
    /// Number of comparisons at misses, if the fingerprint store were scanned. A miss adds the number of entries that
    /// the store has at that time.
    pub linear_scan_comparisons_on_misses: u64,
    /// Number of dead pages that became entries of the fingerprint store.
    pub inserted_pages: u64,
    /// Number of dead pages that were evicted from the fingerprint store because it was full.
    pub evicted_pages: u64,
    /// Number of dead pages that the fingerprint store did not insert, because it was full and every entry was better.
    pub pages_refused_by_full_store: u64,
    /// Number of dead pages offered to the fingerprint store whose content already had an entry there.
    pub offered_pages_of_indexed_content: u64,
    /// Number of entries of the fingerprint store that fast loading promoted. After a hit, it moves the newest dead
    /// pages of neighbouring logical pages to the best rank, if they are in the store. This needs no flash read.
    pub entries_promoted_by_fast_loading: u64,
    /// Number of dead pages that fast loading offered to the fingerprint store. After a hit, it offers the newest dead
    /// pages of neighbouring logical pages that are not in the store. Each costs one spare-area read.
    pub dead_pages_offered_by_fast_loading: u64,
    /// Number of look-ups in the fingerprint store that found a dead page too old to be revived. They count neither as
    /// hits nor as misses.
    pub hits_on_expired_pages: u64,
    /// Number of entries of the fingerprint store that were removed because their page was too old. Includes those of
    /// `hits_on_expired_pages`.
    pub expired_entries: u64,
}

impl RecycleStatistics {
    /// Returns the mean number of fingerprint comparisons per hit in the fingerprint store. `None` before the first
    /// hit, or if the comparisons are not counted ([`RecycleOptions::counts_scan_comparisons`]).
    pub fn mean_comparisons_on_hit(&self) -> Option<f64> {
        (self.linear_scan_comparisons_on_hits > 0)
            .then(|| self.linear_scan_comparisons_on_hits as f64 / self.hits as f64)
    }
}

/// An entry of the fingerprint store (index of dead pages), for inspection by tests and tools.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FingerprintStoreEntry {
    /// The dead page that holds the content.
    pub ppn: Ppn,
    /// Fingerprint of the content of the dead page.
    pub fingerprint: Fingerprint,
    /// Probability that the dead page is recycled (revived by a write of equal content), 0 to 1.
    pub recycle_probability: f64,
}
