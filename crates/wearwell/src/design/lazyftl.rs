//! LazyFTL: a demand-paged map with a bound on dirty entries, so that recovery without a battery is short.

use super::{ContentParts, DesignDescription, MappingPart, Parts, Persistence, RecoveryBlockScan};
use crate::gc::GcOptions;
use crate::mapping::{DemandPagedMapOptions, DirectoryLocation, InvalidPageIdentification};
use crate::validity::ValidityStoreKind;

/// Name and description of the design of LazyFTL.
pub(super) const DESIGN: DesignDescription = DesignDescription {
    name: "lazyftl",
    source: "Ma, Feng, Li, LazyFTL: A Page-level Flash Translation Layer Optimized for NAND Flash Memory, SIGMOD 2011, as described in Dayan, Bonnet, Idreos, GeckoFTL, SIGMOD 2016",
    model_scope: "map on flash with a cache, a tenth of it dirty at the most, invalid pages identified when translation pages are written, validity bitmap in RAM, recovery from flash alone: newest pages backwards, changes written and the bitmap rebuilt from all translation pages before the device works again",
    model_limits: "LazyFTL's own areas for updates and copies (block conversion); GeckoFTL's comparison keeps only the bound on dirty entries, and so does this",
};

/// Returns the maximum number of dirty entries in a mapping cache of `cache_entries` entries: a tenth (GeckoFTL,
/// section 5.3).
pub(super) fn max_dirty_entries(cache_entries: u32) -> u32 {
    (cache_entries / 10).max(1)
}

/// Returns the design of LazyFTL: a demand-paged L2P table with `cache_entries` cached entries, of which at most a
/// tenth is dirty, and page validity in RAM.
pub fn lazyftl(gc: GcOptions, cache_entries: u32) -> Parts {
    let options = DemandPagedMapOptions {
        cache_entries,
        identification: InvalidPageIdentification::AtSynchronisation,
        max_dirty_entries: Some(max_dirty_entries(cache_entries)),
        makes_checkpoints: true,
        directory: DirectoryLocation::Ram,
    };
    Parts {
        mapping: MappingPart::Cached(options),
        validity: ValidityStoreKind::Ram,
        content: ContentParts::default(),
        gc,
        persistence: Persistence::BackwardScan { writes_map_before_first_request: true },
        recovery_block_scan: RecoveryBlockScan::OobScan,
    }
}
