//! u-FTL: map and page validity on flash, a tree instead of a directory in RAM, and a battery that writes dirty state
//! at power loss.

use super::{ContentParts, DesignDescription, MappingPart, Parts, Persistence, RecoveryBlockScan};
use crate::gc::GcOptions;
use crate::mapping::{DemandPagedMapOptions, DirectoryLocation, InvalidPageIdentification};
use crate::validity::{FlashBitmapOptions, ValidityStoreKind};

/// Name and description of the design of u-FTL.
pub(super) const DESIGN: DesignDescription = DesignDescription {
    name: "u-ftl",
    source: "Lee, Jung, Kang, Kim, u-FTL: A Memory-Efficient Flash Translation Layer Supporting Multiple Mapping Granularities, EMSOFT 2008, as described in Dayan, Bonnet, Idreos, GeckoFTL, SIGMOD 2016",
    model_scope: "validity bitmap on flash (a read and a write per invalid page), map on flash under a tree whose root and inner nodes are cached, GC over data and metadata alike; a battery is assumed that writes dirty entries, waiting reports and changed nodes at power loss",
    model_limits: "mapping granularities other than the page, and the paper's tree of one page per path; invalid pages are identified when translation pages are written, as in GeckoFTL's comparison",
};

/// Options of the designs u-FTL ([`uftl`]) and IB-FTL (`ibftl`): the sizes of their caches of the L2P table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UFtlOptions {
    /// Number of entries in the RAM cache of the L2P table, 8 bytes of RAM each.
    pub cache_entries: u32,
    /// Number of inner nodes of the tree of translation pages that are cached in RAM, one page of RAM each.
    pub cached_directory_nodes: u32,
}

/// Returns the design of u-FTL: a demand-paged L2P table whose translation pages are found through a tree on flash, and
/// page validity in a bitmap on flash. Which old pages are invalid is found out only when a translation page is
/// written. A battery writes dirty entries at power loss.
pub fn uftl(gc: GcOptions, options: UFtlOptions) -> Parts {
    let cache = DemandPagedMapOptions {
        cache_entries: options.cache_entries,
        identification: InvalidPageIdentification::AtSynchronisation,
        max_dirty_entries: None,
        makes_checkpoints: false,
        directory: DirectoryLocation::Tree { cached_nodes: options.cached_directory_nodes },
    };
    Parts {
        mapping: MappingPart::Cached(cache),
        validity: ValidityStoreKind::Bitmap(FlashBitmapOptions::default()),
        content: ContentParts::default(),
        gc,
        persistence: Persistence::BatteryFlush,
        recovery_block_scan: RecoveryBlockScan::OobScan,
    }
}
