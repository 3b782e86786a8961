//! IB-FTL: page validity in a log on flash, a tree as directory of the map, a bound on dirty entries, no battery.

use super::lazyftl::max_dirty_entries;
use super::uftl::UFtlOptions;
use super::{ContentParts, DesignDescription, MappingPart, Parts, Persistence, RecoveryBlockScan};
use crate::gc::GcOptions;
use crate::mapping::{DemandPagedMapOptions, DirectoryLocation, InvalidPageIdentification};
use crate::validity::ValidityStoreKind;

/// Name and description of the design of IB-FTL.
pub(super) const DESIGN: DesignDescription = DesignDescription {
    name: "ib-ftl",
    source: "IB-FTL (index-based FTL), as described in Dayan, Bonnet, Idreos, GeckoFTL, SIGMOD 2016 (section 5.3, and appendix E for the cleaning of its log)",
    model_scope: "page validity log with chains per block and cleaning, map on flash under a tree whose root and inner nodes are cached, a tenth of the cache dirty at the most, GC over data and metadata alike, recovery from flash alone: the whole log read, newest pages backwards, changes written before the device works again",
    model_limits: "the index structures of the original beyond what GeckoFTL's comparison uses",
};

/// Returns the design of IB-FTL: a demand-paged L2P table whose translation pages are found through a tree on flash,
/// with at most a tenth of the cached entries dirty, and page validity in a log on flash.
pub fn ibftl(gc: GcOptions, options: UFtlOptions) -> Parts {
    let cache = DemandPagedMapOptions {
        cache_entries: options.cache_entries,
        identification: InvalidPageIdentification::AtSynchronisation,
        max_dirty_entries: Some(max_dirty_entries(options.cache_entries)),
        makes_checkpoints: true,
        directory: DirectoryLocation::Tree { cached_nodes: options.cached_directory_nodes },
    };
    Parts {
        mapping: MappingPart::Cached(cache),
        validity: ValidityStoreKind::Log,
        content: ContentParts::default(),
        gc,
        persistence: Persistence::BackwardScan { writes_map_before_first_request: true },
        recovery_block_scan: RecoveryBlockScan::OobScan,
    }
}
