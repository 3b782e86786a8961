//! The `wearwell` design: the mechanisms of all five papers in one drive, which loses no acknowledged data at power
//! loss and needs no battery.

use super::{
    CompressionOptions, ContentParts, DeltaOptions, DesignDescription, MappingPart, Parts, Persistence,
    RecoveryBlockScan, RecyclingPart, SharingOptions,
};
use crate::content::MechanismSet;
use crate::content::dedup::DedupOptions;
use crate::gc::GcOptions;
use crate::mapping::DemandPagedMapOptions;
use crate::sharing::counts::ReferenceCountForm;
use crate::sharing::reverse_map::ReverseMapKind;
use crate::validity::{GeckoOptions, ValidityStoreKind};

/// Name and description of the design `wearwell`.
pub(super) const DESIGN: DesignDescription = DesignDescription {
    name: "wearwell",
    source: "a composition of Recyclable SSD, Delta-FTL, Remap-SSD, Integrated lifetime management and GeckoFTL",
    model_scope: "deduplication, host remaps and recycling of dead pages, delta encoding, compression in chunks, on one device; map on flash behind a cache, its dirty entries in NVRAM, page validity in Logarithmic Gecko; recovery from flash and NVRAM without a battery",
    model_limits: "RAM holds who refers to shared pages, the delta table and the directory of chunks, all three rebuilt after a power loss; access counts, the history of dead pages and the content index start anew then; the fingerprint and the writer of a page that is replaced are known without a read",
};

/// Options of the design [`wearwell`]: its map cache, its tree of page validity, and its content mechanisms.
#[derive(Clone, PartialEq, Debug)]
pub struct WearwellOptions {
    /// Number of L2P map entries that the RAM cache of the map holds. NVRAM holds an 8-byte word for each of them, and
    /// some more words for garbage collection.
    pub cache_entries: u32,
    /// Options of Logarithmic Gecko, the tree that stores page validity on flash.
    pub gecko: GeckoOptions,
    /// Options of recycling: a write revives a dead page of equal content.
    pub recycle: RecyclingPart,
    /// Options of deduplication: the size of the index of stored contents, and whether hits are verified.
    pub dedup: DedupOptions,
    /// Options of delta encoding. Only one delta page is filled at a time, because no battery saves open ones.
    pub delta: DeltaOptions,
}

/// Returns the design `wearwell`: every content mechanism, over a demand-paged L2P table and page validity on flash.
/// Deltas and compressed pages that do not yet fill a flash page are buffered in RAM until a flush, like pages in any
/// write buffer.
pub fn wearwell(gc: GcOptions, options: WearwellOptions) -> Parts {
    let sharing = SharingOptions {
        reverse_map: ReverseMapKind::Ideal,
        reference_count_form: ReferenceCountForm::Sparse,
        dedup: Some(options.dedup),
        has_atomic_remap_commands: false,
    };
    Parts {
        mapping: MappingPart::Cached(DemandPagedMapOptions::with_cache_capacity(options.cache_entries)),
        validity: ValidityStoreKind::Gecko(options.gecko),
        content: ContentParts {
            recycle: Some(options.recycle),
            sharing: Some(sharing),
            delta: Some(DeltaOptions { temp_buffer_pages: 1, ..options.delta }),
            chunks: Some(CompressionOptions::default()),
            stateless_mechanisms: MechanismSet::NONE,
            content_tables_ram_limit_bytes: None,
        },
        gc,
        persistence: Persistence::NvramMap,
        recovery_block_scan: RecoveryBlockScan::FirstPages,
    }
}
