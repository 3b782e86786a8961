//! DFTL: the L2P table is on flash, with a cache of entries in RAM.

use super::{ContentParts, DesignDescription, MappingPart, Parts, Persistence, RecoveryBlockScan};
use crate::gc::GcOptions;
use crate::mapping::DemandPagedMapOptions;
use crate::validity::ValidityStoreKind;

/// Name and description of the design of DFTL.
pub(super) const DESIGN: DesignDescription = DesignDescription {
    name: "dftl",
    source: "Gupta, Kim, Urgaonkar, DFTL: A Flash Translation Layer Employing Demand-based Selective Caching of Page-level Address Mappings, ASPLOS 2009",
    model_scope: "cached mapping table (plain LRU), translation pages on flash, global mapping directory, fetch on a miss, batched synchronisation, GC over data and translation blocks, page validity bitmap in RAM; a battery that writes dirty entries and the bitmap when power fails, and recovery from what it wrote, as GeckoFTL describes its competitor (SIGMOD 2016, section 5.3)",
    model_limits: "the segmented LRU of the original: the cache is plain LRU, as in GeckoFTL's comparison",
};

/// Options of the design DFTL ([`dftl`]): the size of its cache of map entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DftlOptions {
    /// Number of entries in the cached mapping table (CMT), 8 bytes of RAM each.
    pub cache_entries: u32,
}

/// Returns the design of DFTL: a demand-paged L2P table, and page validity in RAM. At power loss a battery writes dirty
/// entries and the validity bitmap.
pub fn dftl(gc: GcOptions, options: DftlOptions) -> Parts {
    Parts {
        mapping: MappingPart::Cached(DemandPagedMapOptions::with_cache_capacity(options.cache_entries)),
        validity: ValidityStoreKind::Ram,
        content: ContentParts::default(),
        gc,
        persistence: Persistence::BatteryFlush,
        recovery_block_scan: RecoveryBlockScan::OobScan,
    }
}
