//! GeckoFTL: page validity in a log-structured merge tree on flash, and recovery from flash alone.

use super::{ContentParts, DesignDescription, MappingPart, Parts, Persistence, RecoveryBlockScan};
use crate::gc::{GcOptions, MetadataGcRule};
use crate::mapping::{DemandPagedMapOptions, DirectoryLocation, InvalidPageIdentification};
use crate::validity::{GeckoOptions, ValidityStoreKind};

/// Name and description of the design of GeckoFTL.
pub(super) const DESIGN: DesignDescription = DesignDescription {
    name: "geckoftl",
    source: "Dayan, Bonnet, Idreos, GeckoFTL: Scalable Flash Translation Techniques For Very Large Flash Devices, SIGMOD 2016",
    model_scope: "Logarithmic Gecko (entry-partitioning, erase markers, pairwise and multi-way merges), lazy identification of invalid pages, checkpoints, metadata blocks left alone until they are empty, GeckoRec without a battery, correction of restored entries afterwards",
    model_limits: "erase markers are written when a block is opened, not when it is erased; entries restored by a recovery are those known to be dirty, not the newest C; a trim is written to flash at once; wear leveling by rolling scan is a part of its own",
};

/// Share of all blocks that metadata may occupy before GC collects the metadata blocks with the fewest valid pages. A
/// 2-TiB device does not reach this limit: if each of its blocks of translation pages held only one valid page,
/// metadata would occupy a share of 0.0875.
pub const MAX_METADATA_BLOCK_SHARE: f64 = 0.1;

/// Options of the design GeckoFTL ([`geckoftl`]): the size of its cache of map entries, and its tree of page validity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GeckoFtlOptions {
    /// Number of entries in the RAM cache of the L2P table, 8 bytes of RAM each.
    pub cache_entries: u32,
    /// Options of Logarithmic Gecko, the tree that stores page validity on flash.
    pub gecko: GeckoOptions,
}

/// Returns the design of GeckoFTL: a demand-paged L2P table with checkpoints, which identifies invalid pages late, and
/// page validity in Logarithmic Gecko (a log-structured merge tree on flash). GC spares metadata blocks, and no battery
/// is needed.
pub fn geckoftl(gc: GcOptions, options: GeckoFtlOptions) -> Parts {
    let cache = DemandPagedMapOptions {
        cache_entries: options.cache_entries,
        identification: InvalidPageIdentification::AtSynchronisation,
        max_dirty_entries: None,
        makes_checkpoints: true,
        directory: DirectoryLocation::Ram,
    };
    Parts {
        mapping: MappingPart::Cached(cache),
        validity: ValidityStoreKind::Gecko(options.gecko),
        content: ContentParts::default(),
        gc: GcOptions {
            metadata_gc: MetadataGcRule::WhenAllPagesInvalid {
                max_metadata_block_share: MAX_METADATA_BLOCK_SHARE,
            },
            ..gc
        },
        persistence: Persistence::BackwardScan { writes_map_before_first_request: false },
        recovery_block_scan: RecoveryBlockScan::OobScan,
    }
}
