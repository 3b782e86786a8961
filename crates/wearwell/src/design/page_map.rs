//! Page map: the whole L2P table in RAM; the baseline of every comparison.

use super::{ContentParts, DesignDescription, MappingPart, Parts, Persistence, RecoveryBlockScan};
use crate::gc::GcOptions;
use crate::validity::ValidityStoreKind;

/// Name and description of the baseline design, the page map.
pub(super) const DESIGN: DesignDescription = DesignDescription {
    name: "page-map",
    source: "textbook page-mapped FTL: the baseline of the Recyclable SSD and Delta-FTL papers",
    model_scope: "L2P table in RAM, out-of-place writes, a host and a GC stream per pool, any victim policy, wear leveling",
    model_limits: "L2P checkpoints: after power loss the map is rebuilt from the OOB of all pages; trims are not durable",
};

/// Returns the baseline design: the whole L2P table in RAM and no content mechanism. Recovery rebuilds the table from
/// the OOB of all pages.
pub fn page_map(gc: GcOptions) -> Parts {
    Parts {
        mapping: MappingPart::Flat,
        validity: ValidityStoreKind::Ram,
        content: ContentParts::default(),
        gc,
        persistence: Persistence::OobScan,
        recovery_block_scan: RecoveryBlockScan::OobScan,
    }
}
